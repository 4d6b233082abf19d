//! Opening: from a folder to a store that may be trusted, or an error that says why not.
//!
//! Nothing is written before the SQLite version, the file system and the
//! schema's version were found good. A new database is built under another
//! name and renamed into place when it is whole, so a `store.db` that is empty,
//! short or missing beside its `install-id` is damage, never a fresh start.

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::error::{Result, StoreError};
use crate::home::{self, Home, beside, once, open_private, sync_folder};
use crate::kept_open;
use crate::lock;
use crate::migrations::{self, APPLICATION, Migration};
use crate::store::Store;
use crate::value::{hex, random};

/// The first SQLite whose WAL does not lose a write to a checkpoint race.
const SAFE_SQLITE: i32 = 3_051_003;
/// The net below the writers' queue: recovery, and the last closer's checkpoint.
const BUSY_NET: Duration = Duration::from_secs(10);
/// The length of a database's header.
const HEADER: usize = 100;

/// How to open: the real world, or a made-up one in a test.
pub(crate) struct Opening<'a> {
    pub(crate) migrations: &'static [Migration],
    /// In place of the kernel's list of mounts.
    pub(crate) mountinfo: Option<&'a str>,
    pub(crate) sqlite: i32,
}

impl Default for Opening<'_> {
    fn default() -> Self {
        Self { migrations: migrations::ALL, mountinfo: None, sqlite: rusqlite::version_number() }
    }
}

impl Store {
    /// Opens the store in the folder `home`, making both when there is none yet.
    ///
    /// # Errors
    /// [`StoreError::Unsafe`] and [`StoreError::UnsafeSqlite`] before anything is
    /// written, [`StoreError::TooNew`] and [`StoreError::Damaged`] with every file
    /// left byte by byte as it was.
    pub fn open(home: &Path) -> Result<Self> {
        Opening::default().open(home)
    }

    /// Starts a new store where the old one is lost or damaged, under the same install id.
    ///
    /// What is there of the database is set aside, not deleted: the second value
    /// is where (`store.db.damaged`, then `.damaged.1`, …), if there was anything.
    pub fn rebuild(home: &Path) -> Result<(Self, Option<PathBuf>)> {
        let opening = Opening::default();
        let files = opening.checked(home)?;
        if exists(&files.database)? {
            match opening.look(&files) {
                // That is what a rebuilding is for.
                Ok(()) | Err(StoreError::Damaged { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        files.prepare()?;
        let kept = {
            let _place = lock::acquire(&files, lock::LIMIT)?;
            let kept = set_aside(&files)?;
            opening.create(&files)?;
            kept
        };
        Ok((opening.open(home)?, kept))
    }
}

impl Opening<'_> {
    pub(crate) fn open(&self, folder: &Path) -> Result<Store> {
        let files = self.checked(folder)?;
        if exists(&files.database)? {
            // A newer store is not even made private.
            self.look(&files)?;
        }
        files.prepare()?;
        if !exists(&files.database)? {
            // Before the lock, so that a loss leaves not even a lock file.
            refuse_loss(&files)?;
            let _place = lock::acquire(&files, lock::LIMIT)?;
            if !exists(&files.database)? {
                refuse_loss(&files)?;
                self.create(&files)?;
            }
        }
        self.look(&files)?;
        files.tighten()?;
        let connection = self.connect(&files).map_err(|error| error.placed(&files.database))?;
        let (install_id, machine_key) =
            own_files(&files, &connection).map_err(|error| error.placed(&files.database))?;
        Ok(Store { connection, home: files, install_id, machine_key, writing: Cell::new(false) })
    }

    /// Checks what must hold before anything is written or even looked at.
    fn checked(&self, folder: &Path) -> Result<Home> {
        if self.sqlite < SAFE_SQLITE {
            return Err(StoreError::UnsafeSqlite { found: rusqlite::version().to_owned(), required: "3.51.3" });
        }
        let folder = std::path::absolute(folder).map_err(StoreError::io("resolve", folder))?;
        home::check_filesystem(&folder, self.mountinfo)?;
        Ok(Home::at(&folder))
    }

    /// Builds a new database under another name and moves it into place. The caller holds the lock.
    fn create(&self, files: &Home) -> Result<()> {
        let draft = files.beside(".new");
        for suffix in ["", "-wal", "-shm"] {
            remove(&beside(&draft, suffix))?;
        }
        drop(open_private(&draft)?);
        let install_id = match fs::read_to_string(&files.install_id) {
            Ok(text) => text.trim().to_owned(),
            Err(_) => hex(&random::<16>().map_err(StoreError::io("create", &files.install_id))?),
        };
        let build = || -> Result<()> {
            let connection = Connection::open_with_flags(&draft, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            migrations::migrate(&connection, &draft, self.migrations)?;
            connection.execute("INSERT INTO meta (key, value) VALUES ('install-id', ?1)", [&install_id])?;
            let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
            if mode != "wal" {
                let reason = format!("SQLite cannot keep a write-ahead log there (it offers `{mode}`)");
                return Err(StoreError::Unsafe { path: files.folder.clone(), reason });
            }
            connection.close().map_err(|(_, error)| error.into())
        };
        build().map_err(|error| error.placed(&draft))?;
        File::open(&draft).and_then(|file| file.sync_all()).map_err(StoreError::io("flush", &draft))?;
        fs::rename(&draft, &files.database).map_err(StoreError::io("create", &files.database))?;
        sync_folder(&files.folder)
    }

    /// Looks at an existing database without touching it.
    fn look(&self, files: &Home) -> Result<()> {
        let path = &files.database;
        let supported = migrations::newest(self.migrations);
        let too_new = |found| StoreError::TooNew { found, supported, path: path.clone() };
        let (version, page) = header(path)?;
        if version > supported {
            return Err(too_new(version));
        }
        refuse_missing_log(files)?;
        // A newer version may stand in the log alone, when its writer was killed.
        let log = files.beside("-wal");
        let logged = fs::metadata(&log).is_ok_and(|meta| meta.len() > 0);
        if !logged && fs::metadata(path).is_ok_and(|meta| meta.len() % page != 0) {
            // SQLite would read the missing end of the last page as zeros.
            return Err(StoreError::damaged(path, "its last page is cut off"));
        }
        if logged {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let found = Connection::open_with_flags(path, flags)
                .map_err(StoreError::from)
                .and_then(|connection| {
                    connection.busy_timeout(BUSY_NET)?;
                    migrations::version(&connection)
                })
                .map_err(|error| error.placed(path))?;
            if found > supported {
                return Err(too_new(found));
            }
        }
        Ok(())
    }

    fn connect(&self, files: &Home) -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&files.database, flags)?;
        connection.busy_timeout(BUSY_NET)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "recursive_triggers", true)?;
        connection.pragma_update(None, "trusted_schema", false)?;
        // Finds a bad page when it is read rather than when it is written back.
        connection.pragma_update(None, "cell_size_check", true)?;
        if migrations::version(&connection)? < migrations::newest(self.migrations) {
            let _place = lock::acquire(files, lock::LIMIT)?;
            migrations::migrate(&connection, &files.database, self.migrations)?;
        }
        let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
        if mode != "wal" {
            return Err(StoreError::damaged(&files.database, format!("its journal mode is `{mode}`, not `wal`")));
        }
        Ok(connection)
    }
}

/// The install id and the machine's key, from their files or made now.
fn own_files(files: &Home, connection: &Connection) -> Result<(String, [u8; 32])> {
    let known: Option<String> = rusqlite::OptionalExtension::optional(connection.query_row(
        "SELECT value FROM meta WHERE key = 'install-id'",
        [],
        |row| row.get(0),
    ))?;
    let known = known.ok_or_else(|| StoreError::damaged(&files.database, "it has no install id"))?;
    let bytes = once(&files.install_id, || Ok(format!("{known}\n").into_bytes()))?;
    let install_id = String::from_utf8_lossy(&bytes).trim().to_owned();
    if install_id != known {
        let detail = format!("it says `{install_id}`, the database beside it `{known}`");
        return Err(StoreError::damaged(&files.install_id, detail));
    }
    let key = once(&files.machine_key, || random::<32>().map(Vec::from))?;
    let key = <[u8; 32]>::try_from(key.as_slice())
        .map_err(|_| StoreError::damaged(&files.machine_key, format!("it has {} bytes, not 32", key.len())))?;
    Ok((install_id, key))
}

/// The schema's version and the length of a page, straight from the file's first bytes.
fn header(path: &Path) -> Result<(u32, u64)> {
    let bytes = match kept_open::first_bytes::<HEADER>(path) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(StoreError::damaged(path, "it is shorter than a database's header"));
        }
        other => other.map_err(StoreError::io("read", path))?,
    };
    if !bytes.starts_with(b"SQLite format 3\0") {
        return Err(StoreError::damaged(path, "it is no SQLite database"));
    }
    let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if word(68) != APPLICATION.cast_unsigned() {
        return Err(StoreError::damaged(path, "it is a database of another program"));
    }
    // SQLite writes 65536, which does not fit, as 1.
    let page = match u16::from_be_bytes([bytes[16], bytes[17]]) {
        1 => 65_536,
        size if size >= 512 && size.is_power_of_two() => size.into(),
        size => {
            return Err(StoreError::damaged(path, format!("its page size is {size}")));
        }
    };
    Ok((word(60), page))
}

/// An install id without a database: there was a store, and it is gone.
fn refuse_loss(files: &Home) -> Result<()> {
    // The database comes first when a store is made, so a second look settles a race.
    if exists(&files.install_id)? && !exists(&files.database)? {
        return Err(StoreError::damaged(&files.database, "it is missing, though `install-id` stands beside it"));
    }
    Ok(())
}

/// A log that was taken away from under its database takes acknowledged writes with it.
///
/// SQLite removes the shared memory before the log and makes it after it, so a
/// shared memory that stays while there is no log was left by a removed log.
fn refuse_missing_log(files: &Home) -> Result<()> {
    let memory = files.beside("-shm");
    let before = stamp(&memory);
    if before.is_some() && !exists(&files.beside("-wal"))? && stamp(&memory) == before {
        return Err(StoreError::damaged(
            &files.database,
            "its log `store.db-wal` is missing, and with it the last writes",
        ));
    }
    Ok(())
}

/// What tells one incarnation of a file from the next.
#[cfg(unix)]
fn stamp(path: &Path) -> Option<(u64, i64, i64)> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|meta| (meta.ino(), meta.ctime(), meta.ctime_nsec()))
}

#[cfg(not(unix))]
fn stamp(path: &Path) -> Option<std::time::SystemTime> {
    fs::metadata(path).ok().and_then(|meta| meta.created().ok())
}

/// Moves the database and its companions out of the way.
fn set_aside(files: &Home) -> Result<Option<PathBuf>> {
    let free = (0..u32::MAX)
        .map(|number| if number == 0 { String::new() } else { format!(".{number}") })
        .map(|suffix| files.beside(&format!(".damaged{suffix}")))
        .find(|target| !target.exists())
        .unwrap_or_else(|| files.beside(".damaged"));
    let mut moved = false;
    for suffix in ["-wal", "-shm", ""] {
        match fs::rename(files.beside(suffix), beside(&free, suffix)) {
            Ok(()) => moved = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::io("set aside", &files.database)(error)),
        }
    }
    Ok(moved.then_some(free))
}

fn exists(path: &Path) -> Result<bool> {
    path.try_exists().map_err(StoreError::io("read", path))
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io("remove", path)(error)),
        _ => Ok(()),
    }
}
