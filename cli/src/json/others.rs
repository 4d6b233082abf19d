//! Streams, the catalogue, and what is about no instance.

use schemars::JsonSchema;
use serde::Serialize;
use sidestack_catalog::Entry;
use sidestack_runtime::look::{EventEntry, InitReport, LogEntry};
use sidestack_topology::plan::Answer;

/// `logs`: all lines, or with `--follow` one document for each
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Logs {
    pub(crate) lines: Vec<LogLine>,
}

/// A line of a log
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LogLine {
    service: String,
    /// Which of the service's containers, counted from 1
    number: u32,
    /// `stdout` or `stderr`
    stream: &'static str,
    /// Docker's time, when it was asked for
    time: Option<String>,
    line: String,
}

impl From<LogEntry> for LogLine {
    fn from(entry: LogEntry) -> Self {
        Self {
            service: entry.service,
            number: entry.number,
            stream: if entry.stderr { "stderr" } else { "stdout" },
            time: entry.time,
            line: entry.line,
        }
    }
}

/// `events`: one document for each
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Events {
    pub(crate) events: Vec<Event>,
}

/// An event
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Event {
    /// RFC 3339
    time: String,
    /// `workspace/environment/instance`
    target: String,
    /// null when it is about no single one
    service: Option<String>,
    /// `start`, `die`, `health`, `oom`, `destroy`, `pause`, `unpause`, `restart`, `lost` (the connection to
    /// Docker) or `resumed`
    kind: String,
    detail: String,
}

impl From<EventEntry> for Event {
    fn from(entry: EventEntry) -> Self {
        Self {
            time: entry.time,
            target: entry.target,
            service: (!entry.service.is_empty()).then_some(entry.service),
            kind: entry.kind,
            detail: entry.detail,
        }
    }
}

/// `init`
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Initialised {
    /// The file that was written
    path: String,
    /// What it holds
    text: String,
    /// The compose file that it was made from
    from_compose: Option<String>,
}

impl From<&InitReport> for Initialised {
    fn from(report: &InitReport) -> Self {
        Self {
            path: report.path.display().to_string(),
            text: report.text.clone(),
            from_compose: report.from_compose.as_ref().map(|path| path.display().to_string()),
        }
    }
}

/// `open`
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Opened {
    pub(crate) service: String,
    /// Its URL, or its address where no URL makes sense
    pub(crate) url: String,
}

/// `version`
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Version {
    pub(crate) version: &'static str,
}

/// `catalog`
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Catalog {
    modules: Vec<Module>,
}

/// A module
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Module {
    name: String,
    /// One line for people
    summary: String,
    /// Capabilities
    provides: Vec<String>,
    /// The preferred one first
    versions: Vec<EngineVersion>,
    arrangements: Vec<String>,
    settings: Vec<Setting>,
    /// Whether it was exercised on real containers
    exercised: bool,
    /// Its page in Markdown
    reference: String,
}

/// A version of an engine
#[derive(Debug, Serialize, JsonSchema)]
struct EngineVersion {
    version: String,
    image: String,
}

/// A setting
#[derive(Debug, Serialize, JsonSchema)]
struct Setting {
    name: String,
    summary: String,
    required: bool,
    secret: bool,
    default: Option<serde_json::Value>,
}

impl From<&Entry> for Module {
    fn from(entry: &Entry) -> Self {
        let module = &entry.module;
        let versions =
            module.versions.iter().map(|one| EngineVersion { version: one.version.clone(), image: one.image.clone() });
        let settings = module.settings.iter().map(|(name, setting)| Setting {
            name: name.clone(),
            summary: setting.summary.clone(),
            required: setting.required,
            secret: setting.secret,
            default: setting.default.clone(),
        });
        Self {
            name: module.name.clone(),
            summary: module.summary.clone(),
            provides: module.provides.clone(),
            versions: versions.collect(),
            arrangements: module.arrangements.iter().map(ToString::to_string).collect(),
            settings: settings.collect(),
            exercised: module.exercised,
            reference: sidestack_catalog::reference(module),
        }
    }
}

impl<'a> FromIterator<&'a Entry> for Catalog {
    fn from_iter<I: IntoIterator<Item = &'a Entry>>(entries: I) -> Self {
        Self { modules: entries.into_iter().map(Module::from).collect() }
    }
}

/// `trust`
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Trust {
    items: Vec<Trusted>,
}

/// Something of this machine that every copy of the stack would share
#[derive(Debug, Serialize, JsonSchema)]
struct Trusted {
    /// Its exact name
    item: String,
    /// What it is
    what: String,
    /// What a second copy needs: `consent`, `choice`, or `exclusive` when only one can run; `nothing` more
    needs: &'static str,
    /// Whether it was agreed to, for the files as they are
    agreed: bool,
}

/// What a second copy needs, in a word.
pub(crate) fn needs(answer: Answer) -> &'static str {
    match answer {
        Answer::Consent | Answer::ConsentHere => "consent",
        Answer::Choice(_) => "choice",
        Answer::Exclusive => "exclusive",
        Answer::Agreed => "nothing",
    }
}

impl<'a> FromIterator<&'a sidestack_runtime::api::Trusted> for Trust {
    fn from_iter<I: IntoIterator<Item = &'a sidestack_runtime::api::Trusted>>(items: I) -> Self {
        let items = items.into_iter().map(|one| Trusted {
            item: one.item.clone(),
            what: one.what.clone(),
            needs: needs(one.answer),
            agreed: one.agreed,
        });
        Self { items: items.collect() }
    }
}
