//! Which file system a folder is on, and whether SQLite's WAL is safe there.
//!
//! WAL needs shared memory and locks that hold between processes; network file
//! systems promise neither, and damage comes without an error. Linux tells the
//! file system in `/proc/self/mountinfo`; elsewhere nothing is refused.

use std::path::{Path, PathBuf};

/// File systems that WAL or advisory locks do not survive on.
const UNSAFE: &[&str] =
    &["nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "drvfs", "afs", "ncpfs", "fuse.sshfs", "fuse.rclone"];

/// Where Linux lists this process's mounts.
pub(crate) const MOUNTINFO: &str = "/proc/self/mountinfo";

/// The unsafe file system that `folder` (absolute and canonical) is on, if it is on one.
pub(crate) fn unsafe_at(mountinfo: &str, folder: &Path) -> Option<String> {
    let kind = kind_at(mountinfo, folder)?;
    UNSAFE.contains(&kind).then(|| kind.to_owned())
}

fn kind_at<'a>(mountinfo: &'a str, folder: &Path) -> Option<&'a str> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let (mount, source) = line.split_once(" - ")?;
            let point = unescape(mount.split(' ').nth(4)?);
            let kind = source.split(' ').next()?;
            folder.starts_with(&point).then(|| (point.components().count(), kind))
        })
        // The deepest mount holds the folder; of two at one place the later lies on top.
        .max_by_key(|(depth, _)| *depth)
        .map(|(_, kind)| kind)
}

/// Undoes the kernel's octal escapes (`\040` for a space).
fn unescape(text: &str) -> PathBuf {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                rest = &rest[at + 4..];
            }
            None => {
                plain.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    plain.push_str(rest);
    plain.into()
}

/// The nearest folder on the way up that exists, canonical, with the missing rest put back.
pub(crate) fn resolved(folder: &Path) -> std::io::Result<PathBuf> {
    let absolute = std::path::absolute(folder)?;
    for ancestor in absolute.ancestors() {
        match ancestor.canonicalize() {
            Ok(real) => {
                let rest = absolute.strip_prefix(ancestor).unwrap_or(Path::new(""));
                return Ok(if rest.as_os_str().is_empty() { real } else { real.join(rest) });
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(absolute)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:30 / /home rw,relatime shared:2 master:1 - nfs4 server:/home rw
31 30 0:31 / /home/ann/local\\040disk rw - ext4 /dev/vdb rw
32 22 0:32 / /mnt/c rw - 9p drvfs rw
33 22 0:33 / /share rw - ext4 /dev/vdc rw
34 22 0:34 / /share rw - cifs //server/share rw
";

    #[test]
    fn p4_the_deepest_and_latest_mount_decides() {
        let at = |folder: &str| unsafe_at(MOUNTS, Path::new(folder));
        assert_eq!(at("/var/lib/sidestack"), None);
        assert_eq!(at("/home/ann/.local/share/sidestack").as_deref(), Some("nfs4"));
        assert_eq!(at("/home/ann/local disk/sidestack"), None);
        assert_eq!(at("/homework"), None);
        assert_eq!(at("/mnt/c/Users/ann").as_deref(), Some("9p"));
        assert_eq!(at("/share/x").as_deref(), Some("cifs"));
    }

    #[test]
    fn a_missing_folder_resolves_through_its_existing_part() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("a")).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(real.join("a"), real.join("b")).unwrap();
        assert_eq!(resolved(&real.join("a/x/y")).unwrap(), real.join("a/x/y"));
        #[cfg(unix)]
        assert_eq!(resolved(&real.join("b/x/y")).unwrap(), real.join("a/x/y"));
    }
}
