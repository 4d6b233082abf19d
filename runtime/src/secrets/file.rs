//! The providers that read files: `file` and `dotenv`.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use zeroize::{Zeroize, Zeroizing};

use super::dotenv::parse_dotenv;
use super::value::SecretValue;
use super::{Reference, SecretError};
use crate::files::current_uid;

/// The largest value that is read, in bytes.
pub(super) const LARGEST: u64 = 1 << 20;

/// Where a written path leads: from the home folder, from `base`, or absolute.
fn place(base: &Path, home: Option<&Path>, written: &str) -> Result<PathBuf, &'static str> {
    match written.strip_prefix('~') {
        Some(rest) => {
            let home = home.ok_or("the home folder is not known")?;
            Ok(home.join(rest.trim_start_matches('/')))
        }
        None => Ok(base.join(written)),
    }
}

/// Reads a file that only its owner may change.
fn read(
    reference: &Reference,
    base: &Path,
    home: Option<&Path>,
    written: &str,
) -> Result<(PathBuf, Vec<u8>), SecretError> {
    let cannot = |path: &Path, cause: String| SecretError::CannotRead {
        reference: reference.clone(),
        path: path.to_owned(),
        cause,
    };
    let path = place(base, home, written).map_err(|why| cannot(Path::new(written), why.into()))?;
    let failed = |error: std::io::Error| cannot(&path, error.to_string());
    // Asked before opening, since opening a pipe would block.
    if !std::fs::metadata(&path).map_err(failed)?.is_file() {
        return Err(cannot(&path, "it is not an ordinary file".into()));
    }
    let file = File::open(&path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    let me = current_uid().map_err(failed)?;
    let doubt = if meta.mode() & 0o002 != 0 {
        Some("can be changed by everybody")
    } else if me != 0 && meta.uid() != 0 && meta.uid() != me {
        Some("belongs to another user")
    } else {
        None
    };
    if let Some(why) = doubt {
        return Err(SecretError::Unsafe { reference: reference.clone(), path, why });
    }
    // Room for all of it at once, so that growing leaves no copies behind.
    let size = meta.len().min(LARGEST) + 1;
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST {
        bytes.zeroize();
        return Err(SecretError::TooLarge { reference: reference.clone(), limit: LARGEST });
    }
    Ok((path, bytes))
}

pub(super) fn from_file(
    reference: &Reference,
    base: &Path,
    home: Option<&Path>,
    written: &str,
) -> Result<SecretValue, SecretError> {
    let (_, bytes) = read(reference, base, home, written)?;
    SecretValue::from_printed(bytes).map_err(|why| SecretError::not_text(reference, why))
}

pub(super) fn from_dotenv(
    reference: &Reference,
    base: &Path,
    home: Option<&Path>,
    written: &str,
    key: &str,
) -> Result<SecretValue, SecretError> {
    let (path, bytes) = read(reference, base, home, written)?;
    let text = SecretValue::from_bytes(bytes).map_err(|why| SecretError::not_text(reference, why))?;
    let entries = parse_dotenv(text.expose()).map_err(|cause| SecretError::Dotenv {
        reference: reference.clone(),
        path: path.clone(),
        cause,
    })?;
    let mut found = None;
    for (name, value, expands) in entries {
        let value = Zeroizing::new(value);
        if name == key {
            found = Some((value, expands));
        }
    }
    match found {
        Some((mut value, false)) => Ok(SecretValue::new(std::mem::take(&mut *value))),
        Some((_, true)) => Err(SecretError::Expansion { reference: reference.clone(), path }),
        None => Err(SecretError::NoEntry { reference: reference.clone(), place: format!("`{}`", path.display()) }),
    }
}
