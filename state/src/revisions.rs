//! Revisions: immutable, numbered per environment, found again by their content.
//!
//! The digest is proven on every read. Sightings (where the content was seen)
//! and pins (which images it first ran) are added beside it and never changed;
//! triggers in the schema hold that against any SQL.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sidestack_topology::names::RevisionNumber;

use crate::error::{Parent, Result, StoreError};
use crate::store::Store;
use crate::value::{Folder, Time, now, sha256};

/// An immutable snapshot of everything that decides what runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// The row's id, never used again.
    pub id: i64,
    /// The environment's row id.
    pub environment: i64,
    /// Counted per environment from 1.
    pub number: RevisionNumber,
    /// SHA-256 of `content`, lower-case hex.
    pub digest: String,
    /// Canonical JSON.
    pub content: String,
    /// When it was first committed.
    pub created: Timestamp,
    /// What the person said about it.
    pub message: Option<String>,
}

/// A revision without its content, for listings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionSummary {
    /// The row's id.
    pub id: i64,
    /// The environment's row id.
    pub environment: i64,
    /// Counted per environment from 1.
    pub number: RevisionNumber,
    /// SHA-256 of the content, lower-case hex; not proven here.
    pub digest: String,
    /// When it was first committed.
    pub created: Timestamp,
    /// What the person said about it.
    pub message: Option<String>,
}

/// Where a revision's content was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// The branch that was checked out.
    pub branch: Option<String>,
    /// The commit that was checked out.
    pub commit: Option<String>,
    /// Whether the checkout had changes that are in no commit.
    pub dirty: Option<bool>,
    /// The checkout.
    pub folder: PathBuf,
    /// The manifest and the compose files that were read: SHA-256 by path, as canonical JSON.
    pub files: Option<String>,
    /// When.
    pub seen: Timestamp,
}

/// The image that a service of a revision first ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// As the model names it: `postgres:17`.
    pub image: String,
    /// Docker's id of it: `sha256:…`.
    pub image_id: String,
}

/// The digest of a revision's content: SHA-256 in lower-case hex.
pub fn digest_of(content: &str) -> String {
    sha256(content)
}

impl Store {
    /// The revision with that content, made now if it is new (then the second value is true).
    ///
    /// The message of a revision that is already there stays as it is.
    pub fn commit_revision(
        &self,
        environment_id: i64,
        content: &str,
        message: Option<&str>,
    ) -> Result<(Revision, bool)> {
        let digest = sha256(content);
        let known = |connection: &Connection| -> Result<Option<Revision>> {
            let sql = format!("{REVISION} WHERE environment = ?1 AND digest = ?2");
            let row = connection.query_row(&sql, params![environment_id, digest], revision_row).optional()?;
            row.map(|revision| self.proven(revision)).transpose()
        };
        if let Some(revision) = self.read(known)? {
            return Ok((revision, false));
        }
        self.write(|connection| {
            if let Some(revision) = known(connection)? {
                return Ok((revision, false));
            }
            connection
                .execute(
                    "INSERT INTO revision (environment, number, digest, content, message, created)
                     VALUES (?1, (SELECT coalesce(max(number), 0) + 1 FROM revision WHERE environment = ?1), ?2, ?3, ?4, ?5)",
                    params![environment_id, digest, content, message, now()],
                )
                .parent("environment", environment_id)?;
            let revision = known(connection)?.ok_or_else(|| StoreError::missing("revision", &digest))?;
            Ok((revision, true))
        })
    }

    /// A revision with its content, proven.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when the content no longer matches the digest.
    pub fn revision(&self, environment_id: i64, number: RevisionNumber) -> Result<Revision> {
        self.read(|connection| {
            let sql = format!("{REVISION} WHERE environment = ?1 AND number = ?2");
            let row = connection.query_row(&sql, params![environment_id, number.0], revision_row).optional()?;
            self.proven(row.ok_or_else(|| StoreError::missing("revision", &number))?)
        })
    }

    /// An environment's revisions, oldest first.
    pub fn revisions(&self, environment_id: i64) -> Result<Vec<RevisionSummary>> {
        self.read(|connection| {
            let mut list = connection.prepare(
                "SELECT id, environment, number, digest, created, message FROM revision
                 WHERE environment = ?1 ORDER BY number",
            )?;
            let rows = list.query_map([environment_id], |row| {
                Ok(RevisionSummary {
                    id: row.get(0)?,
                    environment: row.get(1)?,
                    number: RevisionNumber(row.get(2)?),
                    digest: row.get(3)?,
                    created: row.get::<_, Time>(4)?.0,
                    message: row.get(5)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Notes where the content was seen. `false` when the same was noted before (at whatever time).
    pub fn add_sighting(&self, revision_id: i64, sighting: &Sighting) -> Result<bool> {
        let Sighting { branch, commit, dirty, folder, files, seen } = sighting;
        let folder = Folder::of(folder);
        let known = |connection: &Connection| -> Result<bool> {
            let mut same = connection.prepare(
                "SELECT 1 FROM sighting
                 WHERE revision = ?1 AND branch IS ?2 AND commit_id IS ?3 AND dirty IS ?4 AND folder = ?5 AND files IS ?6",
            )?;
            Ok(same.exists(params![revision_id, branch, commit, dirty, folder, files])?)
        };
        if self.read(known)? {
            return Ok(false);
        }
        self.write(|connection| {
            if known(connection)? {
                return Ok(false);
            }
            connection
                .execute(
                    "INSERT INTO sighting (revision, branch, commit_id, dirty, folder, files, seen)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                    params![revision_id, branch, commit, dirty, folder, files, Time(*seen)],
                )
                .parent("revision", revision_id)?;
            Ok(true)
        })
    }

    /// Where a revision was seen, in the order in which it was noted.
    pub fn sightings(&self, revision_id: i64) -> Result<Vec<Sighting>> {
        self.read(|connection| {
            let mut list = connection.prepare(
                "SELECT branch, commit_id, dirty, folder, seen, files FROM sighting WHERE revision = ?1 ORDER BY id",
            )?;
            let rows = list.query_map([revision_id], |row| {
                Ok(Sighting {
                    branch: row.get(0)?,
                    commit: row.get(1)?,
                    dirty: row.get(2)?,
                    folder: row.get::<_, Folder>(3)?.0,
                    seen: row.get::<_, Time>(4)?.0,
                    files: row.get(5)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Pins a service's image, unless it is pinned already. Gives the pin that stands.
    pub fn add_pin(&self, revision_id: i64, service: &str, image: &str, image_id: &str) -> Result<Pin> {
        if let Some(pin) = self.read(|connection| pin_of(connection, revision_id, service))? {
            return Ok(pin);
        }
        self.write(|connection| {
            if let Some(pin) = pin_of(connection, revision_id, service)? {
                return Ok(pin);
            }
            connection
                .execute(
                    "INSERT INTO pin (revision, service, image, image_id) VALUES (?1, ?2, ?3, ?4)",
                    params![revision_id, service, image, image_id],
                )
                .parent("revision", revision_id)?;
            Ok(Pin { image: image.to_owned(), image_id: image_id.to_owned() })
        })
    }

    /// A revision's pins, by service.
    pub fn pins(&self, revision_id: i64) -> Result<BTreeMap<String, Pin>> {
        self.read(|connection| {
            let mut list = connection.prepare("SELECT service, image, image_id FROM pin WHERE revision = ?1")?;
            let rows = list
                .query_map([revision_id], |row| Ok((row.get(0)?, Pin { image: row.get(1)?, image_id: row.get(2)? })))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    fn proven(&self, revision: Revision) -> Result<Revision> {
        if sha256(&revision.content) == revision.digest {
            return Ok(revision);
        }
        let detail = format!("the content of revision {} does not match its digest", revision.number);
        Err(StoreError::damaged(&self.home.database, detail))
    }
}

/// A revision's row id.
pub(crate) fn id_of(connection: &Connection, environment: i64, number: RevisionNumber) -> Result<i64> {
    let sql = "SELECT id FROM revision WHERE environment = ?1 AND number = ?2";
    let found = connection.query_row(sql, params![environment, number.0], |row| row.get(0)).optional()?;
    found.ok_or_else(|| StoreError::missing("revision", &number))
}

const REVISION: &str = "SELECT id, environment, number, digest, content, created, message FROM revision";

fn revision_row(row: &Row<'_>) -> rusqlite::Result<Revision> {
    Ok(Revision {
        id: row.get(0)?,
        environment: row.get(1)?,
        number: RevisionNumber(row.get(2)?),
        digest: row.get(3)?,
        content: row.get(4)?,
        created: row.get::<_, Time>(5)?.0,
        message: row.get(6)?,
    })
}

fn pin_of(connection: &Connection, revision: i64, service: &str) -> Result<Option<Pin>> {
    let sql = "SELECT image, image_id FROM pin WHERE revision = ?1 AND service = ?2";
    let pin = connection
        .query_row(sql, params![revision, service], |row| Ok(Pin { image: row.get(0)?, image_id: row.get(1)? }));
    Ok(pin.optional()?)
}
