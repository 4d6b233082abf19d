//! What was handed to Docker, and how it went: the digests, and the history that `why` tells.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, params};
use sidestack_topology::names::RevisionNumber;

use crate::error::{Parent, Result};
use crate::store::Store;
use crate::value::Time;

/// How many records an instance keeps, beside its last good one.
const APPLIED_KEPT: u32 = 20;
/// How many lines of history an instance keeps.
const HISTORY_KEPT: u32 = 200;

/// One handing-over to Docker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The digest of what was handed over (the caller's own, over secrets keyed).
    pub digest: String,
    /// The revision it was made from.
    pub revision: RevisionNumber,
    /// When.
    pub at: Timestamp,
    /// How it went.
    pub outcome: Outcome,
    /// What the caller needs to know later, as JSON.
    pub record: String,
}

/// How a handing-over went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It runs.
    Ok,
    /// It was tried and failed, with the reason.
    Failed(String),
    /// It was not tried, with the reason.
    Refused(String),
}

/// One line of an instance's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// When.
    pub at: Timestamp,
    /// What was done: `up`, `stop`, `recreate web`, …
    pub verb: String,
    /// Why.
    pub cause: String,
    /// How it went.
    pub outcome: String,
    /// What else there is to say.
    pub detail: String,
}

impl Store {
    /// Records a handing-over. The last twenty are kept, and the last good one.
    pub fn record_applied(&self, instance_id: i64, applied: &Applied) -> Result<()> {
        let (outcome, detail) = match &applied.outcome {
            Outcome::Ok => ("ok", ""),
            Outcome::Failed(reason) => ("failed", reason.as_str()),
            Outcome::Refused(reason) => ("refused", reason.as_str()),
        };
        self.write(|connection| {
            connection
                .execute(
                    "INSERT INTO applied (instance, digest, revision, outcome, detail, record, at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                    params![
                        instance_id,
                        applied.digest,
                        applied.revision.0,
                        outcome,
                        detail,
                        applied.record,
                        Time(applied.at)
                    ],
                )
                .parent("instance", instance_id)?;
            connection.execute(
                "DELETE FROM applied WHERE instance = ?1
                 AND id NOT IN (SELECT id FROM applied WHERE instance = ?1 ORDER BY id DESC LIMIT ?2)
                 AND id <> coalesce((SELECT max(id) FROM applied WHERE instance = ?1 AND outcome = 'ok'), 0)",
                params![instance_id, APPLIED_KEPT],
            )?;
            Ok(())
        })
    }

    /// The last handing-over, however it went.
    pub fn last_applied(&self, instance_id: i64) -> Result<Option<Applied>> {
        self.last(instance_id, "TRUE")
    }

    /// The last handing-over that went well.
    pub fn last_good(&self, instance_id: i64) -> Result<Option<Applied>> {
        self.last(instance_id, "outcome = 'ok'")
    }

    /// The last handing-over of every instance, by its row id, and whether one of
    /// that instance ever went well. One query, however many instances there are.
    pub fn last_applied_of_all(&self) -> Result<BTreeMap<i64, (Applied, bool)>> {
        self.read(|connection| {
            let mut list = connection.prepare(
                "SELECT digest, revision, outcome, detail, record, at, instance,
                        EXISTS (SELECT 1 FROM applied AS good WHERE good.instance = applied.instance AND good.outcome = 'ok')
                 FROM applied WHERE id IN (SELECT max(id) FROM applied GROUP BY instance)",
            )?;
            let rows = list.query_map([], |row| Ok((row.get(6)?, (applied_row(row)?, row.get(7)?))))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    fn last(&self, instance: i64, condition: &str) -> Result<Option<Applied>> {
        self.read(|connection| {
            let sql = format!(
                "SELECT digest, revision, outcome, detail, record, at FROM applied
                 WHERE instance = ?1 AND {condition} ORDER BY id DESC LIMIT 1"
            );
            Ok(connection.query_row(&sql, [instance], applied_row).optional()?)
        })
    }

    /// Adds a line to an instance's history. The last two hundred are kept.
    pub fn add_transition(&self, instance_id: i64, transition: &Transition) -> Result<()> {
        let Transition { at, verb, cause, outcome, detail } = transition;
        self.write(|connection| {
            connection
                .execute(
                    "INSERT INTO transition (instance, verb, cause, outcome, detail, at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                    params![instance_id, verb, cause, outcome, detail, Time(*at)],
                )
                .parent("instance", instance_id)?;
            connection.execute(
                "DELETE FROM transition WHERE instance = ?1
                 AND id NOT IN (SELECT id FROM transition WHERE instance = ?1 ORDER BY id DESC LIMIT ?2)",
                params![instance_id, HISTORY_KEPT],
            )?;
            Ok(())
        })
    }

    /// The last `limit` lines of an instance's history, newest first.
    pub fn history_of(&self, instance_id: i64, limit: u32) -> Result<Vec<Transition>> {
        self.read(|connection| {
            let mut list = connection.prepare(
                "SELECT at, verb, cause, outcome, detail FROM transition
                 WHERE instance = ?1 ORDER BY id DESC LIMIT ?2",
            )?;
            let rows = list.query_map(params![instance_id, limit], |row| {
                Ok(Transition {
                    at: row.get::<_, Time>(0)?.0,
                    verb: row.get(1)?,
                    cause: row.get(2)?,
                    outcome: row.get(3)?,
                    detail: row.get(4)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }
}

fn applied_row(row: &Row<'_>) -> rusqlite::Result<Applied> {
    let reason = row.get(3)?;
    let outcome = match row.get::<_, String>(2)?.as_str() {
        "ok" => Outcome::Ok,
        "refused" => Outcome::Refused(reason),
        _ => Outcome::Failed(reason),
    };
    Ok(Applied {
        digest: row.get(0)?,
        revision: RevisionNumber(row.get(1)?),
        at: row.get::<_, Time>(5)?.0,
        outcome,
        record: row.get(4)?,
    })
}
