//! The user's variables, in the layers that are not files.
//!
//! A secret stands here as a reference (`keychain:shop/stripe`), never as a value.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};
use sidestack_topology::names::RevisionNumber;

use crate::error::{Parent, Result, StoreError};
use crate::revisions;
use crate::store::Store;

/// The layer that a variable belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// A workspace's, by its row id.
    Workspace(i64),
    /// An environment's, by its row id.
    Environment(i64),
    /// A revision's: the environment's row id and the number.
    Revision(i64, RevisionNumber),
    /// An instance's overrides, by its row id.
    Instance(i64),
}

/// What a variable is set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VariableValue {
    /// The text itself.
    Literal(String),
    /// Where the text is to be had from, such as `keychain:shop/stripe`.
    Secret(String),
}

impl Store {
    /// Sets a variable. `false` when it was that already.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a key that no environment can hold,
    /// [`StoreError::NotFound`] when the scope's owner is gone.
    pub fn set_variable(&self, scope: Scope, key: &str, value: VariableValue) -> Result<bool> {
        check_key(key)?;
        let (kind, text) = match value {
            VariableValue::Literal(text) => ("literal", text),
            VariableValue::Secret(reference) => ("secret", reference),
        };
        if text.contains('\0') {
            return Err(StoreError::Invalid { kind: "the value of", value: key.to_owned(), reason: "holds a NUL" });
        }
        self.write(|connection| {
            let (column, owner, name) = owner(connection, scope)?;
            let known = connection
                .query_row(
                    &format!("SELECT id, kind = ?3 AND value = ?4 FROM variable WHERE {column} = ?1 AND key = ?2"),
                    params![owner, key, kind, text],
                    |row| Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?)),
                )
                .optional()?;
            match known {
                Some((_, true)) => return Ok(false),
                Some((id, false)) => {
                    connection
                        .execute("UPDATE variable SET kind = ?2, value = ?3 WHERE id = ?1", params![id, kind, text])?;
                }
                None => {
                    let sql = format!("INSERT INTO variable ({column}, key, kind, value) VALUES (?1, ?2, ?3, ?4)");
                    connection.execute(&sql, params![owner, key, kind, text]).parent(name, owner)?;
                }
            }
            Ok(true)
        })
    }

    /// Removes a variable. `false` when there was none.
    pub fn unset_variable(&self, scope: Scope, key: &str) -> Result<bool> {
        self.write(|connection| {
            let (column, owner, _) = owner(connection, scope)?;
            let sql = format!("DELETE FROM variable WHERE {column} = ?1 AND key = ?2");
            Ok(connection.execute(&sql, params![owner, key])? > 0)
        })
    }

    /// The layer's variables, by key.
    pub fn variables(&self, scope: Scope) -> Result<BTreeMap<String, VariableValue>> {
        self.read(|connection| {
            let (column, owner, _) = owner(connection, scope)?;
            let mut list = connection.prepare(&format!("SELECT key, kind, value FROM variable WHERE {column} = ?1"))?;
            let rows = list.query_map([owner], |row| {
                let value = row.get(2)?;
                let value = match row.get::<_, String>(1)?.as_str() {
                    "secret" => VariableValue::Secret(value),
                    _ => VariableValue::Literal(value),
                };
                Ok((row.get(0)?, value))
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }
}

/// The column, the row id and the kind of a scope's owner.
fn owner(connection: &Connection, scope: Scope) -> Result<(&'static str, i64, &'static str)> {
    Ok(match scope {
        Scope::Workspace(id) => ("workspace", id, "workspace"),
        Scope::Environment(id) => ("environment", id, "environment"),
        Scope::Revision(environment, number) => {
            ("revision", revisions::id_of(connection, environment, number)?, "revision")
        }
        Scope::Instance(id) => ("instance", id, "instance"),
    })
}

fn check_key(key: &str) -> Result<()> {
    let reason = if key.is_empty() {
        "is empty"
    } else if key.contains('=') {
        "holds a `=`"
    } else if key.chars().any(|c| c.is_whitespace() || c.is_control()) {
        "holds a space or a control character"
    } else {
        return Ok(());
    };
    Err(StoreError::Invalid { kind: "variable", value: key.chars().take(60).collect(), reason })
}
