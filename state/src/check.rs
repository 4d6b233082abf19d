//! Proving that a store is whole, and copies that were proven.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::error::{Result, StoreError};
use crate::home::{beside, open_private, sync_folder};
use crate::store::Store;
use crate::value;

impl Store {
    /// Reads everything: SQLite's integrity check, every reference and every revision's digest.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] with the first fault found.
    pub fn verify(&self) -> Result<()> {
        self.read(|connection| {
            integrity(connection, &self.home.database)?;
            let mut revisions = connection.prepare("SELECT number, digest, content FROM revision")?;
            let mut rows = revisions.query([])?;
            while let Some(row) = rows.next()? {
                let (number, digest, content): (u32, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
                if value::sha256(&content) != digest {
                    let detail = format!("the content of a revision r{number} does not match its digest");
                    return Err(StoreError::damaged(&self.home.database, detail));
                }
            }
            Ok(())
        })
    }

    /// Writes a proven copy of the database to `target`, while others go on writing.
    ///
    /// A file that is there is replaced, at once and whole.
    pub fn copy_to(&self, target: &Path) -> Result<()> {
        self.read(|connection| copy(connection, target, &self.home.database))
    }
}

/// A compact copy of `connection`'s database at `target`, checked before it gets its name.
pub(crate) fn copy(connection: &Connection, target: &Path, source: &Path) -> Result<()> {
    integrity(connection, source)?;
    let draft = beside(target, ".new");
    remove(&draft)?;
    // `VACUUM INTO` takes an empty file and keeps its mode.
    drop(open_private(&draft)?);
    let written = write_copy(connection, &draft);
    if let Err(error) = written {
        remove(&draft)?;
        return Err(error);
    }
    fs::rename(&draft, target).map_err(StoreError::io("write", target))?;
    sync_folder(target.parent().unwrap_or(Path::new(".")))
}

fn write_copy(connection: &Connection, draft: &Path) -> Result<()> {
    let text = draft.to_str().ok_or_else(|| StoreError::Unsafe {
        path: draft.to_owned(),
        reason: "a copy's path must be UTF-8".to_owned(),
    })?;
    connection.execute("VACUUM INTO ?1", [text])?;
    let copied =
        Connection::open_with_flags(draft, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    integrity(&copied, draft).map_err(|error| error.placed(draft))?;
    drop(copied);
    fs::File::open(draft).and_then(|file| file.sync_all()).map_err(StoreError::io("flush", draft))
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(StoreError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

fn integrity(connection: &Connection, path: &Path) -> Result<()> {
    let found: String = connection
        .query_row(
            "SELECT group_concat(integrity_check, '; ') FROM (SELECT integrity_check FROM pragma_integrity_check LIMIT 5)",
            [],
            |row| row.get(0),
        )
        .map_err(|error| StoreError::from(error).placed(path))?;
    if found != "ok" {
        return Err(StoreError::damaged(path, found.replace('\n', " ")));
    }
    let dangling: i64 = connection.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0))?;
    if dangling > 0 {
        return Err(StoreError::damaged(path, format!("{dangling} rows refer to rows that are not there")));
    }
    Ok(())
}
