//! The store's folder: its files, who may read them, and small files made once.
//!
//! The folder is 0700 and every file 0600, whatever the umask and whatever was
//! there before. A small file that must be the same for every process (the
//! install id, the machine's key) is written under a name of its own, flushed
//! and then *linked* into place: the first one wins, and no reader sees half.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::{Result, StoreError};
use crate::filesystem;
use crate::value::{hex, random};

/// The files of one store's folder.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    pub(crate) folder: PathBuf,
    pub(crate) database: PathBuf,
    pub(crate) writer: PathBuf,
    /// A folder, made by the first writer.
    pub(crate) queue: PathBuf,
    pub(crate) install_id: PathBuf,
    pub(crate) machine_key: PathBuf,
}

impl Home {
    pub(crate) fn at(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            database: folder.join("store.db"),
            writer: folder.join("writer.lock"),
            queue: folder.join("writer.queue"),
            install_id: folder.join("install-id"),
            machine_key: folder.join("machine.key"),
        }
    }

    /// The database's companion: `store.db-wal`, `store.db-shm`.
    pub(crate) fn beside(&self, suffix: &str) -> PathBuf {
        beside(&self.database, suffix)
    }

    /// Makes the folder, or makes an existing one private. Refuses one that others share.
    pub(crate) fn prepare(&self) -> Result<()> {
        let folder = &self.folder;
        match fs::metadata(folder) {
            Ok(meta) if !meta.is_dir() => {
                return Err(StoreError::Unsafe { path: folder.clone(), reason: "it is no folder".to_owned() });
            }
            Ok(meta) if is_shared(&meta) => {
                let reason = "it is a folder that everybody may write to".to_owned();
                return Err(StoreError::Unsafe { path: folder.clone(), reason });
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                private_folders().recursive(true).create(folder).map_err(StoreError::io("create", folder))?;
            }
            Err(error) => return Err(StoreError::io("read", folder)(error)),
        }
        restrict(folder, 0o700).map(|_| ())
    }

    /// Makes the files that exist private.
    pub(crate) fn tighten(&self) -> Result<()> {
        let companions = ["-wal", "-shm"].map(|suffix| self.beside(suffix));
        let own = [&self.database, &self.writer, &self.install_id, &self.machine_key];
        for file in own.into_iter().chain(&companions) {
            match restrict(file, 0o600) {
                Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                other => drop(other?),
            }
        }
        self.tighten_queue()
    }

    /// One look, when all is well: nobody else gets at files in a folder of 0700, whatever their own mode.
    fn tighten_queue(&self) -> Result<()> {
        let folder = &self.queue;
        // Something else of that name, or a link to somebody's folder, is not ours to change.
        if !fs::symlink_metadata(folder).is_ok_and(|meta| meta.is_dir()) || !restrict(folder, 0o700)? {
            return Ok(());
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                // One that cannot be changed (made by root, say) is shut in by now.
                let _ = restrict(&entry.path(), 0o600);
            }
        }
        Ok(())
    }
}

pub(crate) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Refuses a file system that SQLite cannot trust, before anything is written.
pub(crate) fn check_filesystem(folder: &Path, mountinfo: Option<&str>) -> Result<()> {
    let real = filesystem::resolved(folder).map_err(StoreError::io("resolve", folder))?;
    let read;
    let mounts = match mountinfo {
        Some(text) => text,
        None => {
            // Without procfs (macOS, a bare chroot) there is nothing to go by.
            read = fs::read(filesystem::MOUNTINFO).unwrap_or_default();
            &String::from_utf8_lossy(&read)
        }
    };
    match filesystem::unsafe_at(mounts, &real) {
        Some(kind) => Err(StoreError::Unsafe {
            path: folder.to_owned(),
            reason: format!("it is on a {kind} file system, where SQLite loses writes"),
        }),
        None => Ok(()),
    }
}

/// Opens a private file for reading and writing, making it when it is missing.
pub(crate) fn open_private(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    private(&mut options);
    let file = options.open(path).map_err(StoreError::io("open", path))?;
    own(&file).map_err(StoreError::io("restrict", path))?;
    Ok(file)
}

/// Makes a private folder in one that is there. Another process may make it at the same time.
pub(crate) fn make_private_folder(path: &Path) -> Result<()> {
    match private_folders().create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(StoreError::io("create", path)(error));
        }
        _ => {}
    }
    restrict(path, 0o700).map(|_| ())
}

/// What a small file holds; it is made from `fresh` when it is missing.
///
/// Of several processes that make it at once the first wins, and all read the same.
pub(crate) fn once(path: &Path, fresh: impl FnOnce() -> io::Result<Vec<u8>>) -> Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other.map_err(StoreError::io("read", path)),
    }
    let content = fresh().map_err(StoreError::io("create", path))?;
    let unique = hex(&random::<8>().map_err(StoreError::io("create", path))?);
    let draft = beside(path, &format!(".{unique}"));
    let written = write_new(&draft, &content).and_then(|()| match fs::hard_link(&draft, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    });
    // The draft has served its turn; one that cannot be removed harms nobody.
    let _ = fs::remove_file(&draft);
    written.map_err(StoreError::io("create", path))?;
    if let Some(folder) = path.parent() {
        sync_folder(folder)?;
    }
    fs::read(path).map_err(StoreError::io("read", path))
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    private(&mut options);
    let mut file = options.open(path)?;
    own(&file)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Makes a rename or a link in `folder` outlast a power failure.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    #[cfg(unix)]
    File::open(folder).and_then(|file| file.sync_all()).map_err(StoreError::io("flush", folder))?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600);
}

/// A umask can only take rights away, but it may take the owner's own.
#[cfg(unix)]
fn own(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    if file.metadata()?.permissions().mode() & 0o7777 == 0o600 {
        return Ok(());
    }
    file.set_permissions(fs::Permissions::from_mode(0o600))
}

#[cfg(unix)]
fn private_folders() -> fs::DirBuilder {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Sets exactly `mode`, but only where it differs: a read-only disk stays readable. Tells whether it did.
#[cfg(unix)]
pub(crate) fn restrict(path: &Path, mode: u32) -> Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    let meta = fs::metadata(path).map_err(StoreError::io("read", path))?;
    if meta.permissions().mode() & 0o7777 == mode {
        return Ok(false);
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(StoreError::io("restrict", path))?;
    Ok(true)
}

/// Like `/tmp`: the sticky bit on a folder that everybody may write to.
#[cfg(unix)]
fn is_shared(meta: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    meta.permissions().mode() & 0o1002 == 0o1002
}

#[cfg(not(unix))]
fn private(_: &mut OpenOptions) {}

#[cfg(not(unix))]
fn own(_: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn private_folders() -> fs::DirBuilder {
    fs::DirBuilder::new()
}

#[cfg(not(unix))]
pub(crate) fn restrict(path: &Path, _: u32) -> Result<bool> {
    fs::metadata(path).map(|_| false).map_err(StoreError::io("read", path))
}

#[cfg(not(unix))]
fn is_shared(_: &fs::Metadata) -> bool {
    false
}
