//! Workspaces and their environments.
//!
//! A workspace is found by its identity; its name is only what people call it.
//! Both are unique on the machine, and a name that another identity has taken
//! gets a few hex digits of the identity's hash, the same ones every time.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sidestack_topology::names::{EnvironmentName, MAX_NAME, WorkspaceName};

use crate::error::{Parent, Result, StoreError};
use crate::store::Store;
use crate::value::{Time, now, parsed, sha256};

/// One project on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// The row's id, never used again.
    pub id: i64,
    /// Unique on the machine.
    pub name: WorkspaceName,
    /// The repository's common directory and the stack's path in it, or the folder.
    pub identity: String,
    /// When it was first seen.
    pub created: Timestamp,
}

/// A variation of a workspace's stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// The row's id, never used again.
    pub id: i64,
    /// The workspace's row id.
    pub workspace: i64,
    /// Unique in the workspace.
    pub name: EnvironmentName,
}

impl Store {
    /// The workspace of that identity, made now if it is new.
    ///
    /// `wanted` only names a new one; where another identity has the name, the
    /// new one gets `-` and four hex digits or more (and stays within 32 characters).
    pub fn ensure_workspace(&self, identity: &str, wanted: &WorkspaceName) -> Result<Workspace> {
        if let Some(known) = self.workspace_by_identity(identity)? {
            return Ok(known);
        }
        self.write(|connection| {
            if let Some(known) = by_identity(connection, identity)? {
                return Ok(known);
            }
            let name = free_name(connection, wanted, identity)?;
            connection.execute(
                "INSERT INTO workspace (name, identity, created) VALUES (?1, ?2, ?3)",
                params![name.as_str(), identity, now()],
            )?;
            by_identity(connection, identity)?.ok_or_else(|| StoreError::missing("workspace", &name))
        })
    }

    /// The workspace of that identity, if it is known.
    pub fn workspace_by_identity(&self, identity: &str) -> Result<Option<Workspace>> {
        self.read(|connection| by_identity(connection, identity))
    }

    /// The workspace of that name.
    pub fn workspace(&self, name: &WorkspaceName) -> Result<Workspace> {
        self.read(|connection| {
            let sql = format!("{WORKSPACE} WHERE name = ?1");
            let found = connection.query_row(&sql, [name.as_str()], workspace_row).optional()?;
            found.ok_or_else(|| StoreError::missing("workspace", name))
        })
    }

    /// Every workspace, oldest first.
    pub fn workspaces(&self) -> Result<Vec<Workspace>> {
        self.read(|connection| {
            let mut list = connection.prepare(&format!("{WORKSPACE} ORDER BY id"))?;
            Ok(list.query_map([], workspace_row)?.collect::<Result<_, _>>()?)
        })
    }

    /// Gives a known workspace another identity: its folder or repository was moved.
    ///
    /// # Errors
    /// [`StoreError::Exists`] when another workspace has that identity.
    pub fn move_workspace(&self, workspace_id: i64, identity: &str) -> Result<bool> {
        self.write(|connection| {
            match by_identity(connection, identity)? {
                Some(other) if other.id == workspace_id => return Ok(false),
                Some(_) => {
                    return Err(StoreError::Exists { kind: "workspace", name: identity.to_owned() });
                }
                None => {}
            }
            let sql = "UPDATE workspace SET identity = ?2 WHERE id = ?1";
            match connection.execute(sql, params![workspace_id, identity])? {
                0 => Err(StoreError::missing_id("workspace", workspace_id)),
                _ => Ok(true),
            }
        })
    }

    /// Removes a workspace with all its environments and revisions.
    ///
    /// # Errors
    /// [`StoreError::InUse`] while it has an instance.
    pub fn remove_workspace(&self, workspace_id: i64) -> Result<()> {
        self.write(|connection| {
            let sql = format!("{WORKSPACE} WHERE id = ?1");
            let found = connection.query_row(&sql, [workspace_id], workspace_row).optional()?;
            let workspace = found.ok_or_else(|| StoreError::missing_id("workspace", workspace_id))?;
            let user = first_instance(connection, "environment.workspace = ?1", workspace_id)?;
            unused("workspace", workspace.name.as_str(), user)?;
            connection.execute("DELETE FROM workspace WHERE id = ?1", [workspace_id])?;
            Ok(())
        })
    }

    /// The workspace's environment of that name, made now if it is new.
    pub fn ensure_environment(&self, workspace_id: i64, name: &EnvironmentName) -> Result<Environment> {
        if let Some(known) = self.read(|connection| by_name(connection, workspace_id, name))? {
            return Ok(known);
        }
        self.write(|connection| {
            if let Some(known) = by_name(connection, workspace_id, name)? {
                return Ok(known);
            }
            connection
                .execute(
                    "INSERT INTO environment (workspace, name, created) VALUES (?1, ?2, ?3)",
                    params![workspace_id, name.as_str(), now()],
                )
                .parent("workspace", workspace_id)?;
            by_name(connection, workspace_id, name)?.ok_or_else(|| StoreError::missing("environment", name))
        })
    }

    /// The workspace's environment of that name.
    pub fn environment(&self, workspace_id: i64, name: &EnvironmentName) -> Result<Environment> {
        self.read(|connection| {
            by_name(connection, workspace_id, name)?.ok_or_else(|| StoreError::missing("environment", name))
        })
    }

    /// The workspace's environments, oldest first.
    pub fn environments(&self, workspace_id: i64) -> Result<Vec<Environment>> {
        self.read(|connection| {
            let mut list = connection.prepare(&format!("{ENVIRONMENT} WHERE workspace = ?1 ORDER BY id"))?;
            Ok(list.query_map([workspace_id], environment_row)?.collect::<Result<_, _>>()?)
        })
    }

    /// Removes an environment with its revisions, offsets and tombstones.
    ///
    /// # Errors
    /// [`StoreError::InUse`] while it has an instance.
    pub fn remove_environment(&self, environment_id: i64) -> Result<()> {
        self.write(|connection| {
            let sql = format!("{ENVIRONMENT} WHERE id = ?1");
            let found = connection.query_row(&sql, [environment_id], environment_row).optional()?;
            let environment = found.ok_or_else(|| StoreError::missing_id("environment", environment_id))?;
            let user = first_instance(connection, "environment.id = ?1", environment_id)?;
            unused("environment", environment.name.as_str(), user)?;
            connection.execute("DELETE FROM environment WHERE id = ?1", [environment_id])?;
            Ok(())
        })
    }
}

const WORKSPACE: &str = "SELECT id, name, identity, created FROM workspace";
const ENVIRONMENT: &str = "SELECT id, workspace, name FROM environment";

fn workspace_row(row: &Row<'_>) -> rusqlite::Result<Workspace> {
    Ok(Workspace { id: row.get(0)?, name: parsed(row, 1)?, identity: row.get(2)?, created: row.get::<_, Time>(3)?.0 })
}

fn environment_row(row: &Row<'_>) -> rusqlite::Result<Environment> {
    Ok(Environment { id: row.get(0)?, workspace: row.get(1)?, name: parsed(row, 2)? })
}

fn by_identity(connection: &Connection, identity: &str) -> Result<Option<Workspace>> {
    Ok(connection.query_row(&format!("{WORKSPACE} WHERE identity = ?1"), [identity], workspace_row).optional()?)
}

fn by_name(connection: &Connection, workspace: i64, name: &EnvironmentName) -> Result<Option<Environment>> {
    let sql = format!("{ENVIRONMENT} WHERE workspace = ?1 AND name = ?2");
    Ok(connection.query_row(&sql, params![workspace, name.as_str()], environment_row).optional()?)
}

fn first_instance(connection: &Connection, condition: &str, id: i64) -> Result<Option<String>> {
    let sql = format!(
        "SELECT instance.name FROM instance JOIN environment ON environment.id = instance.environment
         WHERE {condition} ORDER BY instance.id LIMIT 1"
    );
    Ok(connection.query_row(&sql, [id], |row| row.get(0)).optional()?)
}

fn unused(kind: &'static str, name: &str, user: Option<String>) -> Result<()> {
    match user {
        Some(user) => Err(StoreError::InUse { kind, name: name.to_owned(), by: format!("instance `{user}`") }),
        None => Ok(()),
    }
}

fn free_name(connection: &Connection, wanted: &WorkspaceName, identity: &str) -> Result<WorkspaceName> {
    let mut taken = connection.prepare("SELECT 1 FROM workspace WHERE name = ?1")?;
    if !taken.exists([wanted.as_str()])? {
        return Ok(wanted.clone());
    }
    let hash = sha256(identity);
    for digits in 4..=16 {
        let room = MAX_NAME - digits - 1;
        let stem = wanted.as_str().get(..room).unwrap_or(wanted.as_str()).trim_end_matches('-');
        let name = format!("{stem}-{}", &hash[..digits]);
        if let (Ok(name), false) = (name.parse(), taken.exists([&name])?) {
            return Ok(name);
        }
    }
    Err(StoreError::Exists { kind: "workspace", name: wanted.to_string() })
}
