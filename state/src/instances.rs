//! Instances, and what stays of one that was removed without its data.
//!
//! An instance's `uid` names it in Docker's labels and so owns its volumes. A
//! removal that keeps the data leaves a tombstone; the next instance of that
//! name takes the uid over, or starts afresh with a uid of its own and the next
//! generation, so that old and new data never share a name.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use sidestack_topology::names::{InstanceName, RevisionNumber, Target};

use crate::error::{Parent, Result, StoreError};
use crate::slots::{Lease, slot_of};
use crate::store::Store;
use crate::value::{Folder, Time, hex, now, parsed, random};

/// A place on this machine where a revision runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// The row's id, never used again.
    pub id: i64,
    /// 16 hex digits: the label `dev.sidestack.instance-id`.
    pub uid: String,
    /// The environment's row id.
    pub environment: i64,
    /// Its full name.
    pub target: Target,
    /// What it is to run now; none before its first start.
    pub revision: Option<RevisionNumber>,
    /// The folder its bind-mounted source comes from.
    pub checkout: Option<PathBuf>,
    /// Whether it is to run.
    pub desired: Desired,
    /// The id of the Docker daemon that it was started on.
    pub daemon: Option<String>,
    /// Who it belongs to, when it lives only as long as its owner (the caller's own text).
    pub owner: Option<String>,
    /// Its slot and subnet, once it was started.
    pub slot: Option<Lease>,
    /// Counts the fresh starts of this name's data from 1.
    pub generation: u32,
    /// It stays at its revision.
    pub pinned: bool,
    /// One more of its folder, not the folder's own.
    pub additional: bool,
    /// It took over the data of a removed instance of its name.
    pub revived: bool,
    /// Its sources of variables, lowest first.
    pub sources: Vec<String>,
    /// When it was made.
    pub created: Timestamp,
}

/// What an instance is meant to be doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Desired {
    /// It should run.
    Running,
    /// It should not.
    Stopped,
}

impl Desired {
    fn text(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
        }
    }
}

/// An instance that was removed while its data stayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    /// The uid that the data is labelled with.
    pub uid: String,
    /// The data's generation.
    pub generation: u32,
    /// When it was removed.
    pub removed: Timestamp,
}

impl Store {
    /// Makes an instance, stopped and without a revision or a slot.
    ///
    /// Where one of that name was removed and its data kept, the new one takes
    /// over its uid and generation, and `revived` says so.
    ///
    /// # Errors
    /// [`StoreError::Exists`] when the environment has an instance of that name.
    pub fn create_instance(
        &self,
        environment_id: i64,
        name: &InstanceName,
        checkout: Option<&Path>,
        pinned: bool,
    ) -> Result<Instance> {
        self.create(environment_id, name, checkout, pinned, false)
    }

    /// The same, but never takes data over: a new uid and the next generation.
    ///
    /// The tombstone goes, so what is left of the old data belongs to nobody any more.
    pub fn create_instance_fresh(
        &self,
        environment_id: i64,
        name: &InstanceName,
        checkout: Option<&Path>,
        pinned: bool,
    ) -> Result<Instance> {
        self.create(environment_id, name, checkout, pinned, true)
    }

    fn create(
        &self,
        environment: i64,
        name: &InstanceName,
        checkout: Option<&Path>,
        pinned: bool,
        fresh: bool,
    ) -> Result<Instance> {
        let new_uid = hex(&random::<8>().map_err(StoreError::io("make an id for", &self.home.database))?);
        self.write(|connection| {
            if by_name(connection, environment, name)?.is_some() {
                return Err(StoreError::Exists { kind: "instance", name: name.to_string() });
            }
            let buried = tombstone(connection, environment, name)?;
            let (uid, generation, revived) = match buried {
                Some(old) if !fresh => (old.uid, old.generation, true),
                Some(old) => (new_uid, old.generation.saturating_add(1), false),
                None => (new_uid, 1, false),
            };
            let inherited = if revived { buried_record(connection, environment, name)? } else { None };
            bury_no_more(connection, environment, name)?;
            connection
                .execute(
                    "INSERT INTO instance
                        (uid, environment, name, checkout, desired, generation, pinned, revived, sources, inherited,
                         created)
                     VALUES (?1, ?2, ?3, ?4, 'stopped', ?5, ?6, ?7, '[]', ?8, ?9)",
                    params![
                        uid,
                        environment,
                        name.as_str(),
                        checkout.map(Folder::of),
                        generation,
                        pinned,
                        revived,
                        inherited,
                        now()
                    ],
                )
                .parent("environment", environment)?;
            by_name(connection, environment, name)?.ok_or_else(|| StoreError::missing("instance", name))
        })
    }

    /// The environment's instance of that name, if there is one.
    pub fn instance(&self, environment_id: i64, name: &InstanceName) -> Result<Option<Instance>> {
        self.read(|connection| by_name(connection, environment_id, name))
    }

    /// The instance with that row id.
    pub fn instance_by_id(&self, instance_id: i64) -> Result<Instance> {
        self.read(|connection| by_id(connection, instance_id))
    }

    /// The instance that a checkout has of its own in the environment: the oldest that is
    /// neither pinned nor an additional one.
    pub fn instance_by_checkout(&self, environment_id: i64, checkout: &Path) -> Result<Option<Instance>> {
        self.read(|connection| {
            let sql = "instance.environment = ?1 AND instance.checkout = ?2
                 AND NOT instance.pinned AND NOT instance.additional";
            Ok(list(connection, sql, params![environment_id, Folder::of(checkout)])?.into_iter().next())
        })
    }

    /// Every instance on the machine, oldest first.
    pub fn instances(&self) -> Result<Vec<Instance>> {
        self.read(|connection| list(connection, "TRUE", []))
    }

    /// A workspace's instances, oldest first.
    pub fn instances_of(&self, workspace_id: i64) -> Result<Vec<Instance>> {
        self.read(|connection| list(connection, "environment.workspace = ?1", [workspace_id]))
    }

    /// Moves an instance to a revision of its environment. `false` when it is there already.
    pub fn set_revision(&self, instance_id: i64, number: RevisionNumber) -> Result<bool> {
        self.write(|connection| {
            let environment = by_id(connection, instance_id)?.environment;
            crate::revisions::id_of(connection, environment, number)?;
            change(connection, instance_id, "revision", &number.0)
        })
    }

    /// Says whether an instance is to run. `false` when that was so already.
    pub fn set_desired(&self, instance_id: i64, desired: Desired) -> Result<bool> {
        self.set(instance_id, "desired", &desired.text())
    }

    /// Says which folder an instance belongs to. `false` when that was so already.
    pub fn set_checkout(&self, instance_id: i64, checkout: Option<&Path>) -> Result<bool> {
        self.set(instance_id, "checkout", &checkout.map(Folder::of))
    }

    /// Records the Docker daemon that an instance lives on. `false` when that was so already.
    pub fn set_daemon(&self, instance_id: i64, daemon: Option<&str>) -> Result<bool> {
        self.set(instance_id, "daemon", &daemon)
    }

    /// Records who an instance belongs to. `false` when that was so already.
    pub fn set_owner(&self, instance_id: i64, owner: Option<&str>) -> Result<bool> {
        self.set(instance_id, "owner", &owner)
    }

    /// Says whether an instance stays at its revision. `false` when that was so already.
    pub fn set_pinned(&self, instance_id: i64, pinned: bool) -> Result<bool> {
        self.set(instance_id, "pinned", &pinned)
    }

    /// Says that an instance is one more of its folder, not the folder's own. `false` when that was so already.
    pub fn set_additional(&self, instance_id: i64, additional: bool) -> Result<bool> {
        self.set(instance_id, "additional", &additional)
    }

    /// Sets an instance's sources of variables, lowest first. `false` when that was so already.
    pub fn set_sources(&self, instance_id: i64, sources: &[String]) -> Result<bool> {
        let text = serde_json::Value::from(sources.to_vec()).to_string();
        self.set(instance_id, "sources", &text)
    }

    /// Removes an instance with its variables, history and slot.
    ///
    /// With `keep` its data stays claimed by a tombstone, which keeps its last record too
    /// ([`Store::inherited_record`]); without, that goes too.
    pub fn remove_instance(&self, instance_id: i64, keep: bool) -> Result<()> {
        self.write(|connection| {
            let instance = by_id(connection, instance_id)?;
            let name = &instance.target.instance;
            bury_no_more(connection, instance.environment, name)?;
            if keep {
                // One that never was applied passes on what it inherited.
                connection.execute(
                    "INSERT INTO tombstone (environment, name, uid, generation, record, removed)
                     SELECT environment, name, uid, generation, coalesce(
                         (SELECT record FROM applied WHERE instance = ?1 ORDER BY id DESC LIMIT 1), inherited), ?2
                     FROM instance WHERE id = ?1",
                    params![instance_id, now()],
                )?;
            }
            connection.execute("DELETE FROM instance WHERE id = ?1", [instance_id])?;
            Ok(())
        })
    }

    /// The last record ([`crate::Applied::record`]) of the removed instance whose data this one took over, as the
    /// caller wrote it; `None` when it took none over, or that one was never applied.
    pub fn inherited_record(&self, instance_id: i64) -> Result<Option<String>> {
        self.read(|connection| {
            let sql = "SELECT inherited FROM instance WHERE id = ?1";
            let record = connection.query_row(sql, [instance_id], |row| row.get(0)).optional()?;
            record.ok_or_else(|| StoreError::missing_id("instance", instance_id))
        })
    }

    /// What stayed of a removed instance of that name, if its data was kept.
    pub fn tombstone(&self, environment_id: i64, name: &InstanceName) -> Result<Option<Tombstone>> {
        self.read(|connection| tombstone(connection, environment_id, name))
    }

    /// Every tombstone on the machine with the name that the instance had, oldest first.
    pub fn tombstones(&self) -> Result<Vec<(Target, Tombstone)>> {
        self.read(|connection| {
            let mut list = connection.prepare(
                "SELECT workspace.name, environment.name, tombstone.name, uid, generation, removed
                 FROM tombstone JOIN environment ON environment.id = tombstone.environment
                 JOIN workspace ON workspace.id = environment.workspace ORDER BY removed, uid",
            )?;
            let rows = list.query_map([], |row| {
                let target =
                    Target { workspace: parsed(row, 0)?, environment: parsed(row, 1)?, instance: parsed(row, 2)? };
                let (uid, generation) = (row.get(3)?, row.get(4)?);
                Ok((target, Tombstone { uid, generation, removed: row.get::<_, Time>(5)?.0 }))
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Lets go of kept data. `false` when there was none.
    pub fn forget_tombstone(&self, environment_id: i64, name: &InstanceName) -> Result<bool> {
        self.write(|connection| bury_no_more(connection, environment_id, name))
    }

    fn set(&self, instance: i64, column: &'static str, value: &dyn ToSql) -> Result<bool> {
        // A value that stands needs no place in the writers' queue.
        if self.read(|connection| is(connection, instance, column, value))? {
            return Ok(false);
        }
        self.write(|connection| change(connection, instance, column, value))
    }
}

fn is(connection: &Connection, instance: i64, column: &'static str, value: &dyn ToSql) -> Result<bool> {
    let sql = format!("SELECT {column} IS ?2 FROM instance WHERE id = ?1");
    let same = connection.query_row(&sql, params![instance, value], |row| row.get(0)).optional()?;
    same.ok_or_else(|| StoreError::missing_id("instance", instance))
}

fn change(connection: &Connection, instance: i64, column: &'static str, value: &dyn ToSql) -> Result<bool> {
    if is(connection, instance, column, value)? {
        return Ok(false);
    }
    connection.execute(&format!("UPDATE instance SET {column} = ?2 WHERE id = ?1"), params![instance, value])?;
    Ok(true)
}

pub(crate) fn by_id(connection: &Connection, id: i64) -> Result<Instance> {
    let found = list(connection, "instance.id = ?1", [id])?.into_iter().next();
    found.ok_or_else(|| StoreError::missing_id("instance", id))
}

fn by_name(connection: &Connection, environment: i64, name: &InstanceName) -> Result<Option<Instance>> {
    let condition = "instance.environment = ?1 AND instance.name = ?2";
    Ok(list(connection, condition, params![environment, name.as_str()])?.into_iter().next())
}

fn list(connection: &Connection, condition: &str, values: impl rusqlite::Params) -> Result<Vec<Instance>> {
    let mut list = connection.prepare(&format!(
        "SELECT instance.id, uid, instance.environment, workspace.name, environment.name, instance.name,
                revision, checkout, desired, daemon, owner, slot, subnet, generation, pinned, revived, sources,
                instance.created, additional
         FROM instance
         JOIN environment ON environment.id = instance.environment
         JOIN workspace ON workspace.id = environment.workspace
         LEFT JOIN lease ON lease.instance = instance.id
         WHERE {condition} ORDER BY instance.id"
    ))?;
    Ok(list.query_map(values, instance_row)?.collect::<Result<_, _>>()?)
}

fn instance_row(row: &Row<'_>) -> rusqlite::Result<Instance> {
    let slot = match row.get::<_, Option<u8>>(11)? {
        Some(number) => Some(Lease { slot: slot_of(number)?, subnet: row.get(12)? }),
        None => None,
    };
    let sources: String = row.get(16)?;
    Ok(Instance {
        id: row.get(0)?,
        uid: row.get(1)?,
        environment: row.get(2)?,
        target: Target { workspace: parsed(row, 3)?, environment: parsed(row, 4)?, instance: parsed(row, 5)? },
        revision: row.get::<_, Option<u32>>(6)?.map(RevisionNumber),
        checkout: row.get::<_, Option<Folder>>(7)?.map(|folder| folder.0),
        desired: if row.get::<_, String>(8)? == "running" { Desired::Running } else { Desired::Stopped },
        daemon: row.get(9)?,
        owner: row.get(10)?,
        slot,
        generation: row.get(13)?,
        pinned: row.get(14)?,
        revived: row.get(15)?,
        sources: serde_json::from_str(&sources).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(16, rusqlite::types::Type::Text, Box::new(error))
        })?,
        created: row.get::<_, Time>(17)?.0,
        additional: row.get(18)?,
    })
}

fn tombstone(connection: &Connection, environment: i64, name: &InstanceName) -> Result<Option<Tombstone>> {
    let sql = "SELECT uid, generation, removed FROM tombstone WHERE environment = ?1 AND name = ?2";
    let row = connection.query_row(sql, params![environment, name.as_str()], |row| {
        Ok(Tombstone { uid: row.get(0)?, generation: row.get(1)?, removed: row.get::<_, Time>(2)?.0 })
    });
    Ok(row.optional()?)
}

fn buried_record(connection: &Connection, environment: i64, name: &InstanceName) -> Result<Option<String>> {
    let sql = "SELECT record FROM tombstone WHERE environment = ?1 AND name = ?2";
    let record = connection.query_row(sql, params![environment, name.as_str()], |row| row.get(0)).optional()?;
    Ok(record.flatten())
}

fn bury_no_more(connection: &Connection, environment: i64, name: &InstanceName) -> Result<bool> {
    let sql = "DELETE FROM tombstone WHERE environment = ?1 AND name = ?2";
    Ok(connection.execute(sql, params![environment, name.as_str()])? > 0)
}
