//! What is under way: intents that a killed command leaves behind, and readiness that was seen.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rusqlite::{Connection, Params, params};

use crate::error::{Parent, Result};
use crate::store::Store;
use crate::value::{Time, now};

/// Something that was begun and is not known to be finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// The row's id, never used again.
    pub id: i64,
    /// The instance's row id.
    pub instance: i64,
    /// What was begun: `up`, `rm`, …
    pub verb: String,
    /// The caller's own text about it.
    pub detail: String,
    /// When it was begun.
    pub at: Timestamp,
}

impl Store {
    /// Writes down what is about to be done, before it is done. Gives the intent's id.
    pub fn begin_intent(&self, instance_id: i64, verb: &str, detail: &str) -> Result<i64> {
        self.write(|connection| {
            connection
                .execute(
                    "INSERT INTO intent (instance, verb, detail, at) VALUES (?1, ?2, ?3, ?4)",
                    params![instance_id, verb, detail, now()],
                )
                .parent("instance", instance_id)?;
            Ok(connection.last_insert_rowid())
        })
    }

    /// Strikes an intent out: it is done, or undone. `false` when it was struck out before.
    ///
    /// An instance's intents also go with the instance.
    pub fn clear_intent(&self, intent_id: i64) -> Result<bool> {
        self.write(|connection| Ok(connection.execute("DELETE FROM intent WHERE id = ?1", [intent_id])? > 0))
    }

    /// Every intent on the machine, oldest first.
    pub fn intents(&self) -> Result<Vec<Intent>> {
        self.read(|connection| intents(connection, "TRUE", []))
    }

    /// An instance's intents, oldest first.
    pub fn intents_of(&self, instance_id: i64) -> Result<Vec<Intent>> {
        self.read(|connection| intents(connection, "instance = ?1", [instance_id]))
    }

    /// Records that a container was found ready since it was started at `started_at` (Docker's text).
    pub fn record_ready(&self, container_id: &str, started_at: &str) -> Result<bool> {
        if self.ready(&[container_id])?.get(container_id).is_some_and(|known| known == started_at) {
            return Ok(false);
        }
        self.write(|connection| {
            connection.execute(
                "INSERT INTO ready (container, started, at) VALUES (?1, ?2, ?3)
                 ON CONFLICT (container) DO UPDATE SET started = excluded.started, at = excluded.at",
                params![container_id, started_at, now()],
            )?;
            Ok(true)
        })
    }

    /// Takes readiness back: Docker reports the container unhealthy. `false` when there was none.
    pub fn forget_ready(&self, container_id: &str) -> Result<bool> {
        if self.ready(&[container_id])?.is_empty() {
            return Ok(false);
        }
        self.write(|connection| Ok(connection.execute("DELETE FROM ready WHERE container = ?1", [container_id])? > 0))
    }

    /// Which of these containers were found ready, and the start for which that holds.
    pub fn ready(&self, container_ids: &[&str]) -> Result<BTreeMap<String, String>> {
        let wanted = serde_json::Value::from(container_ids.to_vec()).to_string();
        self.read(|connection| ready(connection, "container IN (SELECT value FROM json_each(?1))", [wanted.as_str()]))
    }

    /// Every container that was found ready, and the start for which that holds.
    pub fn all_ready(&self) -> Result<BTreeMap<String, String>> {
        self.read(|connection| ready(connection, "TRUE", []))
    }

    /// Forgets the readiness of every container that is not in `keep`. Gives how many those were.
    pub fn prune_ready(&self, keep: &BTreeSet<String>) -> Result<usize> {
        let gone: Vec<String> = self.all_ready()?.into_keys().filter(|container| !keep.contains(container)).collect();
        if gone.is_empty() {
            return Ok(0);
        }
        let gone = serde_json::Value::from(gone).to_string();
        self.write(|connection| {
            let sql = "DELETE FROM ready WHERE container IN (SELECT value FROM json_each(?1))";
            Ok(connection.execute(sql, [gone.as_str()])?)
        })
    }
}

fn intents(connection: &Connection, condition: &str, values: impl Params) -> Result<Vec<Intent>> {
    let sql = format!("SELECT id, instance, verb, detail, at FROM intent WHERE {condition} ORDER BY id");
    let mut list = connection.prepare(&sql)?;
    let rows = list.query_map(values, |row| {
        Ok(Intent {
            id: row.get(0)?,
            instance: row.get(1)?,
            verb: row.get(2)?,
            detail: row.get(3)?,
            at: row.get::<_, Time>(4)?.0,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn ready(connection: &Connection, condition: &str, values: impl Params) -> Result<BTreeMap<String, String>> {
    let mut list = connection.prepare(&format!("SELECT container, started FROM ready WHERE {condition}"))?;
    let rows = list.query_map(values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
