//! Writing files so that a crash leaves the old or the new content, making folders that only their owner can enter,
//! and keeping paths that others wrote inside the folder they belong to.
//!
//! Locking: none; callers hold the lock of what they write. Unix only.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// What can go wrong with a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The operating system refused.
    #[error("cannot {action} `{path}`: {cause}")]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// The system's own words.
        cause: io::Error,
    },
    /// A path leads out of the folder that it must stay in.
    #[error("path `{path}` {why}, but it must stay inside `{base}`")]
    Escapes {
        /// The path as given.
        path: PathBuf,
        /// The folder.
        base: PathBuf,
        /// What about it leads out.
        why: &'static str,
    },
    /// A folder that must be private is not ours to make private.
    #[error("`{path}` {why}")]
    NotPrivate {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Something other than an ordinary file, or one beyond the limit.
    #[error("`{path}` {why}")]
    Unfit {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

fn io_error<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> FileError + 'a {
    move |cause| FileError::Io { action, path: path.to_owned(), cause }
}

/// Writes a whole file: to a temporary name in the same folder, synced, renamed over `path`, folder synced.
///
/// `mode` holds whatever the umask is. A symbolic link at `path` is replaced, not followed. Whoever reads at the same
/// time sees the old content or the new one.
///
/// # Errors
/// [`FileError::Io`]; the old file is then untouched, unless only the last sync of the folder failed.
pub fn write_atomic(path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut temporary = tempfile::Builder::new()
        .prefix(".sidestack-")
        .suffix(".tmp")
        .tempfile_in(folder)
        .map_err(io_error("create a file in", folder))?;
    temporary
        .write_all(bytes)
        .and_then(|()| {
            let file = temporary.as_file();
            file.set_permissions(Permissions::from_mode(mode))?;
            file.sync_all()
        })
        .map_err(io_error("write", path))?;
    temporary.persist(path).map_err(|failed| io_error("replace", path)(failed.error))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_error("sync", folder))
}

/// Makes a folder with mode 0700, and its missing parents likewise; an existing one of ours is tightened.
///
/// # Errors
/// [`FileError::NotPrivate`] when it is another user's, or is no folder; [`FileError::Io`] otherwise.
pub fn create_private_dir(path: &Path) -> Result<(), FileError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io_error("create the folder", path))?;
    let meta = fs::symlink_metadata(path).map_err(io_error("look at", path))?;
    let refuse = |why| FileError::NotPrivate { path: path.to_owned(), why };
    // A link may be the user's own way of keeping the data elsewhere: what counts is the folder it leads to.
    let meta = if meta.is_symlink() { fs::metadata(path).map_err(io_error("look at", path))? } else { meta };
    if !meta.is_dir() {
        return Err(refuse("is not a folder"));
    }
    if meta.uid() != current_uid().map_err(io_error("look at", path))? {
        return Err(refuse("belongs to another user"));
    }
    if meta.mode() & 0o7777 != 0o700 {
        fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(io_error("make private", path))?;
    }
    Ok(())
}

/// The user that this process acts as. The standard library has no such call, but a fresh file belongs to him.
pub(crate) fn current_uid() -> io::Result<u32> {
    match fs::metadata("/proc/self") {
        Ok(meta) => Ok(meta.uid()),
        Err(_) => Ok(tempfile::tempfile()?.metadata()?.uid()),
    }
}

/// The place of `relative` inside `base`, with every symbolic link on the way resolved.
///
/// Existing parts are looked at one by one; a link may lead elsewhere inside `base`, never out of it. Parts that do
/// not exist yet are taken as they are, so that the result may be created. `relative` may be `.`, which is `base`.
///
/// # Errors
/// [`FileError::Escapes`] for an absolute path, a `..`, a NUL, a link out of the base or to nowhere;
/// [`FileError::Io`] when the base does not exist.
pub fn confined(base: &Path, relative: &Path) -> Result<PathBuf, FileError> {
    let escapes = |why| FileError::Escapes { path: relative.to_owned(), base: base.to_owned(), why };
    if relative.as_os_str().is_empty() {
        return Err(escapes("is empty"));
    }
    if relative.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(escapes("contains a NUL"));
    }
    let root = fs::canonicalize(base).map_err(io_error("find the folder", base))?;
    let mut place = root.clone();
    for component in relative.components() {
        match component {
            Component::CurDir => continue,
            Component::ParentDir => return Err(escapes("contains `..`")),
            Component::RootDir | Component::Prefix(_) => return Err(escapes("is absolute")),
            Component::Normal(name) => place.push(name),
        }
        match fs::symlink_metadata(&place) {
            Ok(meta) if meta.is_symlink() => {
                place = fs::canonicalize(&place).map_err(|_| escapes("goes through a link that leads nowhere"))?;
                if !place.starts_with(&root) {
                    return Err(escapes("goes through a link that leads out"));
                }
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io_error("look at", &place)(error)),
        }
    }
    Ok(place)
}

/// Reads an ordinary file inside `base`, at most `limit` bytes, safe against a link that is swapped in between: the
/// place that was resolved is opened part by part from the base on, and no part of it may be a link by then.
///
/// # Errors
/// As [`confined`]; [`FileError::Unfit`] when it is no ordinary file, is larger, or was swapped.
pub fn read_confined(base: &Path, relative: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let place = confined(base, relative)?;
    let unfit = |why: String| FileError::Unfit { path: place.clone(), why };
    let before = fs::symlink_metadata(&place).map_err(io_error("read", &place))?;
    // Asked before opening, since opening a pipe would block.
    if !before.is_file() {
        return Err(unfit("is not an ordinary file".into()));
    }
    let root = fs::canonicalize(base).map_err(io_error("find the folder", base))?;
    let within = place.strip_prefix(&root).map_err(|_| unfit("changed while it was being opened".into()))?;
    let file = open_within(&root, within).map_err(|cause| match rustix::io::Errno::from_io_error(&cause) {
        Some(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => unfit("changed while it was being opened".into()),
        _ => io_error("read", &place)(cause),
    })?;
    if !file.metadata().map_err(io_error("read", &place))?.is_file() {
        return Err(unfit("is not an ordinary file".into()));
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(io_error("read", &place))?;
    if bytes.len() as u64 > limit {
        return Err(unfit(format!("is larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// Opens a file for reading, each part of its path from an open folder, and follows no link.
fn open_within(root: &Path, within: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let mut at = File::open(root)?;
    let mut parts = within.iter().peekable();
    while let Some(part) = parts.next() {
        // Without blocking, should it be a pipe by now.
        let mut flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        if parts.peek().is_some() {
            flags |= OFlags::DIRECTORY;
        }
        at = rustix::fs::openat(&at, part, flags, Mode::empty())?.into();
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_file_is_replaced_whole_with_its_mode_and_nothing_is_left_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        write_atomic(&path, b"one", 0o600).unwrap();
        assert_eq!(mode(&path), 0o600);
        write_atomic(&path, b"two", 0o644).unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"two".to_vec(), 0o644));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_temporary_one() {
        let dir = tempfile::tempdir().unwrap();
        let taken = dir.path().join("taken");
        fs::create_dir(&taken).unwrap();
        let error = write_atomic(&taken, b"x", 0o600).unwrap_err().to_string();
        assert!(error.starts_with("cannot replace `"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let nowhere = dir.path().join("no/such");
        assert!(write_atomic(&nowhere, b"x", 0o600).is_err());
    }

    #[test]
    fn a_link_is_replaced_and_not_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        fs::write(&target, "precious").unwrap();
        symlink(&target, &link).unwrap();
        write_atomic(&link, b"new", 0o600).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        assert_eq!(fs::read_to_string(&link).unwrap(), "new");
    }

    #[test]
    fn folders_are_private_new_and_old() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        create_private_dir(&path).unwrap();
        assert_eq!((mode(&path), mode(&dir.path().join("a"))), (0o700, 0o700));
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        create_private_dir(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(create_private_dir(&file).is_err());
    }

    #[test]
    fn paths_are_confined() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("base");
        fs::create_dir_all(base.join("in/deep")).unwrap();
        fs::write(dir.path().join("outside"), "o").unwrap();
        fs::write(base.join("in/file"), "i").unwrap();
        symlink("../outside", base.join("out")).unwrap();
        symlink("..", base.join("up")).unwrap();
        symlink(base.join("in"), base.join("alias")).unwrap();
        symlink("nowhere", base.join("dangling")).unwrap();
        let root = fs::canonicalize(&base).unwrap();

        for (given, expected) in [
            (".", ""),
            ("in/file", "in/file"),
            ("./in/./file", "in/file"),
            ("alias/file", "in/file"),
            ("new/thing", "new/thing"),
        ] {
            let found = confined(&base, Path::new(given)).unwrap();
            assert_eq!(found, root.join(expected).components().collect::<PathBuf>(), "{given}");
        }
        for (given, why) in [
            ("", "empty"),
            ("/etc/passwd", "absolute"),
            ("..", "`..`"),
            ("in/../../outside", "`..`"),
            ("in/../in/file", "`..`"),
            ("out", "leads out"),
            ("up/outside", "leads out"),
            ("alias/../../outside", "`..`"),
            ("dangling", "leads nowhere"),
            ("a\0b", "NUL"),
        ] {
            let error = confined(&base, Path::new(given)).unwrap_err().to_string();
            assert!(error.contains(why), "{given}: {error}");
        }
    }

    #[test]
    fn reading_is_confined_bounded_and_only_of_files() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "12345").unwrap();
        let read = |name: &str, limit| read_confined(dir.path(), Path::new(name), limit);
        assert_eq!(read("a", 5).unwrap(), b"12345");
        assert!(read("a", 4).unwrap_err().to_string().contains("larger than 4"));
        assert!(read(".", 4).unwrap_err().to_string().contains("ordinary"));
        assert!(read("b", 4).unwrap_err().to_string().contains("cannot read"));
    }

    #[test]
    fn a_link_swapped_in_between_is_never_read_through() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("base");
        fs::create_dir_all(base.join("d")).unwrap();
        fs::create_dir_all(dir.path().join("evil")).unwrap();
        fs::write(base.join("d/f"), "good").unwrap();
        fs::write(dir.path().join("evil/f"), "evil").unwrap();
        symlink("../evil", dir.path().join("base/link")).unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        /// Ends the other thread also when an assertion fails.
        struct Stop<'a>(&'a std::sync::atomic::AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
        std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            scope.spawn(|| {
                // `d` is by turns the folder and a link out of the base.
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = fs::rename(base.join("d"), base.join("real"));
                    let _ = fs::rename(base.join("link"), base.join("d"));
                    let _ = fs::rename(base.join("d"), base.join("link"));
                    let _ = fs::rename(base.join("real"), base.join("d"));
                }
            });
            let mut good = 0;
            for _ in 0..20_000 {
                if let Ok(bytes) = read_confined(&base, Path::new("d/f"), 100) {
                    assert_eq!(bytes, b"good");
                    good += 1;
                }
            }
            assert!(good > 0, "the file was never readable");
        });
    }
}
