//! Reading a database's bytes without taking SQLite's locks away.
//!
//! POSIX locks belong to the process: closing *any* descriptor of a file drops
//! every lock the process holds on it, also those of another connection to the
//! same store. So a database that was opened outside SQLite is never closed
//! again; that is one descriptor for each database in the life of a process.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

static KEPT: Mutex<Vec<(Identity, File)>> = Mutex::new(Vec::new());

/// The first `N` bytes of the file at `path`.
///
/// # Errors
/// `UnexpectedEof` when it is shorter.
pub(crate) fn first_bytes<const N: usize>(path: &Path) -> io::Result<[u8; N]> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let wanted = identity(&fs::metadata(path)?, path);
    let at = match kept.iter().position(|(known, _)| *known == wanted) {
        Some(at) => at,
        None => {
            // Another file may have come into place since; what counts is what was opened.
            let file = File::open(path)?;
            let opened = identity(&file.metadata()?, path);
            kept.push((opened, file));
            kept.len() - 1
        }
    };
    let mut file = &kept[at].1;
    let mut bytes = [0; N];
    file.rewind()?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Device and inode: a file that is held open keeps its inode's number to itself.
#[cfg(unix)]
type Identity = (u64, u64);

#[cfg(unix)]
fn identity(meta: &fs::Metadata, _: &Path) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (meta.dev(), meta.ino())
}

#[cfg(not(unix))]
type Identity = std::path::PathBuf;

#[cfg(not(unix))]
fn identity(_: &fs::Metadata, path: &Path) -> Identity {
    path.to_owned()
}
