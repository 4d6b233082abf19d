//! A small cache of texts between commands: inputs of the fast path, versions found.
//!
//! Nothing here is needed: whoever does not find a text works it out again.

use rusqlite::{OptionalExtension, params};

use crate::error::Result;
use crate::store::Store;
use crate::value::now;

impl Store {
    /// Keeps a text under a key. `false` when it was kept already.
    pub fn remember(&self, key: &str, value: &str) -> Result<bool> {
        if self.recall(key)?.as_deref() == Some(value) {
            return Ok(false);
        }
        self.write(|connection| {
            connection.execute(
                "INSERT INTO memo (key, value, at) VALUES (?1, ?2, ?3)
                 ON CONFLICT (key) DO UPDATE SET value = excluded.value, at = excluded.at",
                params![key, value, now()],
            )?;
            Ok(true)
        })
    }

    /// The text kept under a key.
    pub fn recall(&self, key: &str) -> Result<Option<String>> {
        self.read(|connection| {
            let sql = "SELECT value FROM memo WHERE key = ?1";
            Ok(connection.query_row(sql, [key], |row| row.get(0)).optional()?)
        })
    }

    /// Drops the texts whose keys begin with `prefix`. Gives how many those were.
    pub fn forget(&self, prefix: &str) -> Result<usize> {
        self.write(|connection| {
            let sql = "DELETE FROM memo WHERE substr(key, 1, length(?1)) = ?1";
            Ok(connection.execute(sql, [prefix])?)
        })
    }
}
