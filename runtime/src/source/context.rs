//! Digests of folders that are sent to a builder.
//!
//! Two of them: the *digest* is over paths, contents, executable bits and link targets, the same wherever the folder
//! stands; the *fingerprint* is over what `stat` says, and is enough to see that nothing changed since. Left out is what
//! `.dockerignore` names, and `.git` at the root: it differs between two checkouts of one commit and changes with every
//! look at the repository. Sockets, pipes and devices are left out as Docker does.
//!
//! A file that was written within the file system's clock tick before it was looked at could change again without a
//! trace. So a folder with such a file is looked at again a little later, and such a file's digest is not remembered.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::dockerignore::Patterns;

/// More files are refused.
const MAX_FILES: usize = 200_000;
/// More bytes are refused.
const MAX_BYTES: u64 = 4 << 30;
/// The fingerprint and the digest of a folder that does not exist.
pub(super) const ABSENT: &str = "absent";
/// Longer than a file system's clock takes to tick.
const TICK: Duration = Duration::from_millis(20);
/// What may change unnoticed is not remembered; wide, for file systems with coarse clocks.
const UNSETTLED: Duration = Duration::from_secs(2);

/// Why a folder has no digest.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// The operating system refused.
    #[error("cannot read `{path}`: {cause}")]
    Io {
        /// On which path.
        path: PathBuf,
        /// Its own words.
        cause: io::Error,
    },
    /// Too many files.
    #[error("`{0}` holds more than {MAX_FILES} files after `.dockerignore`")]
    TooMany(PathBuf),
    /// Too many bytes.
    #[error("`{0}` holds more than 4 GiB after `.dockerignore`")]
    TooLarge(PathBuf),
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> ContextError + '_ {
    move |cause| ContextError::Io { path: path.to_owned(), cause }
}

/// Digests of files by path, valid as long as size, times, inode and mode are the same. Only a memory: without it
/// everything is hashed again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Memo {
    files: BTreeMap<String, (String, String)>,
}

/// A folder with what is left out of it.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    patterns: Patterns,
    /// The ignore file's text is part of the fingerprint.
    ignore_text: String,
    keeps_git: bool,
}

struct Entry {
    /// Relative to the root.
    path: PathBuf,
    meta: Metadata,
}

impl Folder {
    /// A build context. The Dockerfile's own `NAME.dockerignore` goes before the context's `.dockerignore`.
    pub(super) fn context(root: &Path, dockerfile: Option<&Path>) -> Self {
        let own = dockerfile.map(|file| {
            let mut name = file.as_os_str().to_owned();
            name.push(".dockerignore");
            PathBuf::from(name)
        });
        let read = |path: &Path| fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let ignore_text =
            own.and_then(|path| read(&path)).or_else(|| read(&root.join(".dockerignore"))).unwrap_or_default();
        Self { root: root.to_owned(), patterns: Patterns::parse(&ignore_text), ignore_text, keeps_git: false }
    }

    /// A folder that is taken whole.
    pub(super) fn whole(root: &Path) -> Self {
        Self { root: root.to_owned(), patterns: Patterns::default(), ignore_text: String::new(), keeps_git: true }
    }

    /// Over what `stat` says of every file.
    pub(super) fn fingerprint(&self) -> Result<String, ContextError> {
        if self.is_absent() {
            return Ok(ABSENT.to_owned());
        }
        Ok(self.stamp(&self.settled()?))
    }

    /// The fingerprint and the digest of the same moment. Digests of files come from `old` where they are still valid,
    /// and go to `new`.
    pub(super) fn digest(&self, old: &Memo, new: &mut Memo) -> Result<(String, String), ContextError> {
        if self.is_absent() {
            return Ok((ABSENT.to_owned(), ABSENT.to_owned()));
        }
        let entries = self.settled()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut hash = Sha256::new();
        for entry in &entries {
            let path = self.root.join(&entry.path);
            let kind = entry.meta.file_type();
            let content = if kind.is_dir() {
                b"folder".to_vec()
            } else if kind.is_symlink() {
                let target = fs::read_link(&path).map_err(io_error(&path))?;
                [b"link ", target.as_os_str().as_bytes()].concat()
            } else {
                let executable = entry.meta.mode() & 0o111 != 0;
                let digest = file_digest(&path, &entry.meta, now, old, new)?;
                format!("{} {digest}", if executable { "program" } else { "file" }).into_bytes()
            };
            part(&mut hash, entry.path.as_os_str().as_bytes());
            part(&mut hash, &content);
        }
        Ok((self.stamp(&entries), hex(&hash.finalize())))
    }

    fn is_absent(&self) -> bool {
        matches!(fs::metadata(&self.root), Err(error) if error.kind() == io::ErrorKind::NotFound)
    }

    fn stamp(&self, entries: &[Entry]) -> String {
        let mut hash = Sha256::new();
        part(&mut hash, self.ignore_text.as_bytes());
        for entry in entries {
            part(&mut hash, entry.path.as_os_str().as_bytes());
            // A folder's own times change with every file that is ignored in it.
            if entry.meta.is_dir() {
                part(&mut hash, b"folder");
            } else {
                part(&mut hash, stat_text(&entry.meta).as_bytes());
            }
        }
        hex(&hash.finalize())
    }

    /// The entries, looked at when none of them was written within the last tick.
    fn settled(&self) -> Result<Vec<Entry>, ContextError> {
        for _ in 0..5 {
            let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let entries = self.entries()?;
            let unsettled = entries
                .iter()
                .any(|entry| !entry.meta.is_dir() && written(&entry.meta).is_some_and(|at| at + TICK > before));
            if !unsettled {
                return Ok(entries);
            }
            thread::sleep(TICK);
        }
        // Somebody writes all the time, or the file system's clock is ahead: the next look will see a change.
        self.entries()
    }

    /// Every entry that is not left out, by path.
    fn entries(&self) -> Result<Vec<Entry>, ContextError> {
        let mut found = Vec::new();
        let mut bytes = 0_u64;
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            let at = self.root.join(&folder);
            for item in fs::read_dir(&at).map_err(io_error(&at))? {
                let item = item.map_err(io_error(&at))?;
                let path = folder.join(item.file_name());
                if !self.keeps_git && path == Path::new(".git") {
                    continue;
                }
                let parts: Vec<&[u8]> = path.iter().map(OsStrExt::as_bytes).collect();
                let excluded = self.patterns.excludes(&parts);
                let kind = item.file_type().map_err(io_error(&at))?;
                if excluded && !(kind.is_dir() && self.patterns.may_admit_below(&parts)) {
                    continue;
                }
                if kind.is_dir() {
                    folders.push(path.clone());
                }
                if excluded || !(kind.is_dir() || kind.is_file() || kind.is_symlink()) {
                    continue;
                }
                let meta = match item.metadata() {
                    Ok(meta) => meta,
                    // Gone since it was listed.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(io_error(&self.root.join(&path))(error)),
                };
                if meta.is_file() {
                    bytes = bytes.saturating_add(meta.len());
                }
                found.push(Entry { path, meta });
                if found.len() > MAX_FILES {
                    return Err(ContextError::TooMany(self.root.clone()));
                }
                if bytes > MAX_BYTES {
                    return Err(ContextError::TooLarge(self.root.clone()));
                }
            }
        }
        found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }
}

/// SHA-256 of one file's content, in hex.
pub(super) fn hash_file(path: &Path) -> Result<String, ContextError> {
    let mut file = File::open(path).map_err(io_error(path))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).map_err(io_error(path))? {
            0 => return Ok(hex(&hash.finalize())),
            n => hash.update(&buffer[..n]),
        }
    }
}

/// Adds a text to a hash so that no two sequences of texts meet.
pub(super) fn part(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_be_bytes());
    hash.update(bytes);
}

/// Bytes in lower-case hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// HMAC-SHA-256 of several texts, one after the other, in hex.
pub(super) fn hmac(key: &[u8; 32], texts: &[&[u8]]) -> String {
    // The block form of the key, as RFC 2104 has it: zeros fill it up. This way no length can be wrong.
    let mut block = [0; 64];
    block[..32].copy_from_slice(key);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    for text in texts {
        mac.update(text);
    }
    hex(&mac.finalize().into_bytes())
}

fn file_digest(
    path: &Path,
    meta: &Metadata,
    now: Duration,
    old: &Memo,
    new: &mut Memo,
) -> Result<String, ContextError> {
    let stamp = stat_text(meta);
    let known = path.to_str().and_then(|path| old.files.get(path));
    let digest = match known {
        Some((before, digest)) if *before == stamp => digest.clone(),
        _ => hash_file(path)?,
    };
    if let Some(path) = path.to_str()
        && written(meta).is_some_and(|at| at + UNSETTLED < now)
    {
        new.files.insert(path.to_owned(), (stamp, digest.clone()));
    }
    Ok(digest)
}

/// Everything that changes when a file does: size, both times to the nanosecond, inode, device, mode. The second time
/// cannot be set back by a program.
fn stat_text(meta: &Metadata) -> String {
    format!(
        "{}/{}.{}/{}.{}/{}/{}/{:o}",
        meta.size(),
        meta.mtime(),
        meta.mtime_nsec(),
        meta.ctime(),
        meta.ctime_nsec(),
        meta.ino(),
        meta.dev(),
        meta.mode(),
    )
}

/// When a file was last changed in any way, since 1970.
fn written(meta: &Metadata) -> Option<Duration> {
    let seconds = u64::try_from(meta.ctime()).ok()?;
    Some(Duration::new(seconds, u32::try_from(meta.ctime_nsec()).unwrap_or(0)))
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
