//! The verbs that only look, and those that write nothing but variables and secrets.
//!
//! None takes an instance's lock, and none finishes what another command left
//! undone. What an instance should have comes from its applied record, so that
//! looking at many costs no planning; see [`crate::record`].

mod assign;
mod compose;
mod connection;
mod describe;
mod events;
mod exec;
mod held;
mod init;
mod list;
mod logs;
mod merge;
mod revisions;
mod secret;
pub(crate) mod state;
mod variables;
mod why;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use sidestack_state::{Instance, Transition};
use sidestack_topology::diagnostic::nearest;
use sidestack_topology::diff::DiffChange;
use sidestack_topology::names::Target;

use crate::engine::Container;
use crate::error::{Error, Kind, Result};
use crate::record::Record;
use crate::session::Session;

/// Which lines of which logs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogsRequest {
    /// The services; all when none is named.
    pub services: Vec<String>,
    /// Go on with what comes, until Ctrl-C.
    pub follow: bool,
    /// Only lines that are not older than this.
    pub since: Option<Duration>,
    /// Only the last lines of each container.
    pub tail: Option<u64>,
    /// Give the time of each line.
    pub timestamps: bool,
}

/// One line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The service.
    pub service: String,
    /// Which of its containers, from 1.
    pub number: u32,
    /// How many containers the service has.
    pub replicas: u32,
    /// Whether it came over standard error.
    pub stderr: bool,
    /// RFC 3339 with nanoseconds, when it was asked for.
    pub time: Option<String>,
    /// The line without its end; bytes that are no UTF-8 are replaced.
    pub line: String,
}

/// Something that happened to a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventEntry {
    /// RFC 3339.
    pub time: String,
    /// The instance.
    pub target: String,
    /// The service; empty when it is about no single one.
    pub service: String,
    /// `start`, `die`, `health`, `oom`, `destroy`, `pause`, `unpause`, `restart`, `lost` (the
    /// connection to Docker), `resumed` (what happened while it was lost).
    pub kind: String,
    /// `exit 1`, `healthy`, …
    pub detail: String,
}

/// A command to run in a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecOptions {
    /// The service.
    pub service: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// As whom; the container's own user when `None`.
    pub user: Option<String>,
    /// Where; the container's own folder when `None`.
    pub workdir: Option<String>,
    /// In which of the service's containers, from 1.
    pub number: u32,
    /// With a terminal.
    pub interactive: bool,
}

/// What `init` wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitReport {
    /// The file.
    pub path: PathBuf,
    /// What is in it.
    pub text: String,
    /// The compose file that it was made from.
    pub from_compose: Option<PathBuf>,
}

/// Why an instance is as it is.
#[derive(Debug, Clone)]
pub struct WhyReport {
    /// The instance.
    pub target: Target,
    /// What was done to it and what was seen of it since, newest first.
    pub transitions: Vec<Transition>,
    /// The last lines of each service that is not as it should be.
    pub logs: Vec<(String, Vec<String>)>,
}

/// What differs between two revisions or two instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffReport {
    /// The first, as it is called.
    pub from: String,
    /// The second, as it is called.
    pub to: String,
    /// The differences.
    pub changes: Vec<DiffChange>,
}

impl Session {
    /// The id of an instance's workspace.
    pub(crate) fn workspace_of(&self, instance: &Instance) -> Result<i64> {
        Ok(self.store.workspace(&instance.target.workspace)?.id)
    }

    /// What was last handed to Docker of an instance; an empty record when nothing was.
    fn record_of(&self, instance: &Instance) -> Result<Record> {
        Ok(self.store.last_applied(instance.id)?.map(|applied| Record::parse(&applied.record)).unwrap_or_default())
    }
}

/// The services that an instance has or should have.
fn services<'a>(record: &'a Record, containers: &'a [Container]) -> BTreeSet<&'a str> {
    let there = containers.iter().filter_map(|container| container.service.as_deref());
    record.services.keys().map(String::as_str).chain(there).collect()
}

/// That an instance has no such service, with the nearest one.
fn unknown_service(target: &Target, word: &str, known: &BTreeSet<&str>) -> Error {
    let error = Error::new(Kind::NotFound, "not-found", format!("{target} has no service `{word}`")).about(target);
    let all = known.iter().copied().collect::<Vec<_>>().join(", ");
    match nearest(word, known.iter().copied()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None if all.is_empty() => error.hint("it has none yet: `sidestack up` starts it"),
        None => error.hint(format!("it has {all}")),
    }
}
