//! What can go wrong with the store, and the remedy for it.
//!
//! SQLite's own errors are sorted once, in [`StoreError::placed`]: a damaged
//! file, a full disk and a busy store are things a person can act on and have
//! variants of their own; a broken reference never looks like a duplicate.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use rusqlite::ffi;

/// The store's results.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why the store could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Nothing of that name or id is in the store.
    #[error("no {kind} `{name}` in the store")]
    NotFound {
        /// `workspace`, `environment`, `revision`, `instance`.
        kind: &'static str,
        /// What was asked for: a name, or `#` and a row's id.
        name: String,
    },
    /// The name is taken.
    #[error("{kind} `{name}` already exists")]
    Exists {
        /// What kind of thing it is.
        kind: &'static str,
        /// The taken name.
        name: String,
    },
    /// It cannot go while something else needs it.
    #[error("{kind} `{name}` is in use by {by}")]
    InUse {
        /// What kind of thing it is.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Who needs it.
        by: String,
    },
    /// A value that the store does not take.
    #[error("{kind} `{value}` {reason}")]
    Invalid {
        /// What kind of value it is.
        kind: &'static str,
        /// The value, shortened.
        value: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The store was written by a newer Sidestack. Nothing was touched.
    #[error("the store `{}` has schema version {found}, this Sidestack knows up to {supported}", path.display())]
    TooNew {
        /// The version found.
        found: u32,
        /// The newest version this build knows.
        supported: u32,
        /// The store's file.
        path: PathBuf,
    },
    /// The file is not what was written. It is left as it is.
    #[error("the store `{}` is damaged: {detail}", path.display())]
    Damaged {
        /// The damaged file.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// Another process holds the writer's place for too long.
    #[error("the store `{}` is busy: another process has been writing to it for too long", path.display())]
    Busy {
        /// The store's file.
        path: PathBuf,
    },
    /// Every slot is leased or excluded.
    #[error("no slot is free: {leased} are leased and {excluded} are taken by something else")]
    SlotsExhausted {
        /// How many slots instances of this store hold.
        leased: usize,
        /// How many slots the caller excluded.
        excluded: usize,
    },
    /// An environment has more published ports or networks than a slot has room for.
    #[error("no {kind} offset is free for `{key}`: all {limit} of this environment are taken")]
    OffsetsExhausted {
        /// `port` or `network`.
        kind: String,
        /// The first key that got none.
        key: String,
        /// How many there are.
        limit: u16,
    },
    /// The folder cannot hold a store safely. Nothing was written.
    #[error("`{}` cannot hold the store: {reason}", path.display())]
    Unsafe {
        /// The store's folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// SQLite is older than the first version whose WAL is sound.
    #[error("SQLite {found} is too old: {required} or newer is needed")]
    UnsafeSqlite {
        /// The version at run time.
        found: String,
        /// The oldest safe version.
        required: &'static str,
    },
    /// The disk is full.
    #[error("no space is left for the store `{}`", path.display())]
    DiskFull {
        /// The store's file.
        path: PathBuf,
    },
    /// A file of the store cannot be read or written.
    #[error("cannot {verb} `{}`", path.display())]
    Io {
        /// What was tried: `read`, `create`, …
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Any other error of SQLite's.
    #[error("the store's database refused the operation")]
    Sqlite(#[source] rusqlite::Error),
}

impl From<rusqlite::Error> for StoreError {
    fn from(source: rusqlite::Error) -> Self {
        Self::Sqlite(source)
    }
}

impl StoreError {
    /// The remedy, where there is one.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::TooNew { .. } => "update Sidestack, or point SIDESTACK_HOME at another folder".to_owned(),
            Self::Damaged { .. } => {
                "nothing was changed; put a copy of the folder back, or move it away and start anew (what Docker runs stays, and `docker ps --filter label=dev.sidestack.install` lists it)".to_owned()
            }
            Self::Busy { .. } => "wait for the other `sidestack` command, or end it if it hangs".to_owned(),
            Self::SlotsExhausted { .. } => "remove instances that nobody needs: `sidestack ls`, then `rm`".to_owned(),
            Self::OffsetsExhausted { limit, .. } => {
                format!("publish fewer than {limit} ports, or split the stack into two workspaces")
            }
            Self::Unsafe { .. } => "set SIDESTACK_HOME to a folder of your own on a local disk".to_owned(),
            Self::UnsafeSqlite { .. } => "build Sidestack with its bundled SQLite".to_owned(),
            Self::DiskFull { .. } => "free some space and run the command again".to_owned(),
            Self::InUse { .. } => "remove what uses it first".to_owned(),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "the store's folder must belong to the user who runs Sidestack".to_owned()
            }
            _ => return None,
        })
    }

    pub(crate) fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull => Self::DiskFull { path: path.to_owned() },
            _ => Self::Io { verb, path: path.to_owned(), source },
        }
    }

    pub(crate) fn damaged(path: &Path, detail: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), detail: detail.into() }
    }

    pub(crate) fn missing(kind: &'static str, name: &impl ToString) -> Self {
        Self::NotFound { kind, name: name.to_string() }
    }

    pub(crate) fn missing_id(kind: &'static str, id: i64) -> Self {
        Self::NotFound { kind, name: format!("#{id}") }
    }

    /// Sorts what SQLite said about the database at `path`.
    pub(crate) fn placed(self, path: &Path) -> Self {
        let Self::Sqlite(source) = self else {
            return self;
        };
        match &source {
            rusqlite::Error::SqliteFailure(failure, text) => {
                let detail = || text.clone().unwrap_or_else(|| failure.to_string());
                match (failure.code, failure.extended_code) {
                    (ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase, _)
                    | (_, ffi::SQLITE_IOERR_SHORT_READ | ffi::SQLITE_IOERR_CORRUPTFS) => Self::damaged(path, detail()),
                    (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => Self::Busy { path: path.to_owned() },
                    (ErrorCode::DiskFull, _) => Self::DiskFull { path: path.to_owned() },
                    (_, ffi::SQLITE_CONSTRAINT_FOREIGNKEY) => {
                        Self::NotFound { kind: "parent", name: "of the new row".to_owned() }
                    }
                    _ => Self::Sqlite(source),
                }
            }
            // A column whose type or content is not what was written there.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..) => Self::damaged(path, source.to_string()),
            _ => Self::Sqlite(source),
        }
    }
}

/// Names the missing parent when an insert broke a reference.
pub(crate) trait Parent<T> {
    fn parent(self, kind: &'static str, id: i64) -> Result<T>;
}

impl<T> Parent<T> for rusqlite::Result<T> {
    fn parent(self, kind: &'static str, id: i64) -> Result<T> {
        self.map_err(|error| match error.sqlite_error() {
            Some(failure) if failure.extended_code == ffi::SQLITE_CONSTRAINT_FOREIGNKEY => {
                StoreError::missing_id(kind, id)
            }
            _ => error.into(),
        })
    }
}
