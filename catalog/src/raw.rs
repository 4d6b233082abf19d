//! The format of a module as it is written, before anything about it is checked.
//!
//! These types say which keys there are and of what type their values are; the
//! JSON schema is made of them. What the keys mean together is in
//! [`crate::resolve`].

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use sidestack_topology::module::{Arrangement, Protocol};

/// A value that may be a number with a unit (`128MiB`), a number, a text or a truth value.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Scalar {
    Bool(bool),
    Integer(i64),
    Text(String),
}

/// A module of the catalogue: one engine that provides a capability.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Sidestack module")]
pub(crate) struct RawModule {
    /// The version of this format: 1.
    pub(crate) module: i64,
    /// The module's name, which is also the engine's: `postgres`.
    pub(crate) name: String,
    /// One line for people.
    pub(crate) summary: String,
    /// The capabilities it provides: `sql-database`.
    pub(crate) provides: Vec<String>,
    /// Among modules that provide the same, the highest is chosen first.
    #[serde(default)]
    pub(crate) preference: i32,
    /// The versions there are, the preferred one first.
    pub(crate) versions: Vec<RawVersion>,
    /// What a stack may require of it.
    #[serde(default)]
    pub(crate) characteristics: BTreeMap<String, RawCharacteristic>,
    /// The arrangements it supports; `single` when nothing is said.
    #[serde(default = "single")]
    pub(crate) arrangements: Vec<Arrangement>,
    /// What may be set.
    #[serde(default)]
    pub(crate) settings: BTreeMap<String, RawSetting>,
    /// Users and passwords.
    #[serde(default)]
    pub(crate) credentials: BTreeMap<String, RawCredential>,
    /// Named ports.
    #[serde(default)]
    pub(crate) ports: BTreeMap<String, RawPort>,
    /// Its services; `main` gets the resource's name, any other `<resource>-<key>`.
    pub(crate) services: BTreeMap<String, RawService>,
    /// What can be made inside it while it runs: databases, buckets.
    #[serde(default)]
    pub(crate) provisions: BTreeMap<String, RawProvision>,
    /// Variables for its clients.
    #[serde(default)]
    pub(crate) variables: RawVariables,
    /// Configuration files.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, RawFile>,
    /// Whether it was exercised on real containers.
    #[serde(default)]
    pub(crate) exercised: bool,
}

fn single() -> Vec<Arrangement> {
    vec![Arrangement::Single]
}

/// A version of the engine.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawVersion {
    /// As a person asks for it: `"17"`.
    pub(crate) version: String,
    /// The image with its tag: `postgres:17`.
    pub(crate) image: String,
    /// Data of one format cannot be taken over by another; the version when nothing is said.
    #[serde(default, rename = "data-format")]
    pub(crate) data_format: Option<String>,
}

/// What can be had up to an amount, or whether something is so.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RawCharacteristic {
    Is(bool),
    AtMost(RawAtMost),
}

/// An amount: `{at-most: 16TiB}`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawAtMost {
    /// A size or a number.
    #[serde(rename = "at-most")]
    pub(crate) at_most: Scalar,
}

/// The type of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawType {
    String,
    Bool,
    Enum,
    Integer,
    Size,
    Port,
}

/// What may be set on a module.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSetting {
    /// One line for people.
    pub(crate) summary: String,
    /// The type of its values.
    #[serde(rename = "type")]
    pub(crate) kind: RawType,
    /// For an integer or a size: at least.
    #[serde(default)]
    pub(crate) min: Option<Scalar>,
    /// For an integer or a size: at most.
    #[serde(default)]
    pub(crate) max: Option<Scalar>,
    /// For an enum: the values there are.
    #[serde(default)]
    pub(crate) values: Option<Vec<String>>,
    /// What holds when a stack says nothing.
    #[serde(default)]
    pub(crate) default: Option<Scalar>,
    /// Whether a stack must say it.
    #[serde(default)]
    pub(crate) required: bool,
    /// Whether it is a secret.
    #[serde(default)]
    pub(crate) secret: bool,
}

/// A user or a password.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCredential {
    /// The development default, shown like any value.
    pub(crate) default: String,
    /// Whether a reference to a secret may stand here.
    #[serde(default)]
    pub(crate) secret: bool,
}

/// A port on which a service listens.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPort {
    /// The container port.
    pub(crate) port: u16,
    /// The service that listens; `main` when nothing is said.
    #[serde(default = "main")]
    pub(crate) service: String,
    /// The transport; `tcp` when nothing is said.
    #[serde(default = "tcp")]
    pub(crate) protocol: Protocol,
    /// For the URLs that people see.
    #[serde(default)]
    pub(crate) scheme: Option<String>,
    /// Whether `host` and `port` in variables mean this one.
    #[serde(default)]
    pub(crate) primary: bool,
}

fn main() -> String {
    "main".to_owned()
}

fn tcp() -> Protocol {
    Protocol::Tcp
}

/// A service, in Compose's terms.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawService {
    /// The image, usually `{{ image }}`: a template.
    pub(crate) image: String,
    /// The command, an argument each: templates.
    #[serde(default)]
    pub(crate) command: Vec<String>,
    /// The entry point, an argument each: templates.
    #[serde(default)]
    pub(crate) entrypoint: Vec<String>,
    /// Variables of the container: templates.
    #[serde(default)]
    pub(crate) environment: BTreeMap<String, String>,
    /// Data volumes: key and path in the container.
    #[serde(default)]
    pub(crate) volumes: BTreeMap<String, String>,
    /// Files under `/run/secrets`, put there before it starts: name and content, a template.
    #[serde(default)]
    pub(crate) secrets: BTreeMap<String, String>,
    /// The names of the configuration files it gets.
    #[serde(default)]
    pub(crate) files: Vec<String>,
    /// How to know that it is ready.
    #[serde(default)]
    pub(crate) healthcheck: Option<RawHealth>,
    /// Services of the module that must be ready first.
    #[serde(default, rename = "depends-on")]
    pub(crate) depends_on: Vec<String>,
    /// The user to run as: a template.
    #[serde(default)]
    pub(crate) user: Option<String>,
    /// The working directory.
    #[serde(default, rename = "working-dir")]
    pub(crate) working_dir: Option<String>,
    /// Whether the root file system is read-only.
    #[serde(default, rename = "read-only")]
    pub(crate) read_only: bool,
    /// tmpfs mounts: a path, and options behind a colon.
    #[serde(default)]
    pub(crate) tmpfs: Vec<String>,
    /// Shared memory: a size.
    #[serde(default, rename = "shm-size")]
    pub(crate) shm_size: Option<Scalar>,
    /// The signal to stop it with.
    #[serde(default, rename = "stop-signal")]
    pub(crate) stop_signal: Option<String>,
    /// How long it may take to stop: whole seconds.
    #[serde(default, rename = "stop-grace-period")]
    pub(crate) stop_grace_period: Option<String>,
    /// Whether an init process runs inside.
    #[serde(default)]
    pub(crate) init: bool,
    /// Capabilities added.
    #[serde(default, rename = "cap-add")]
    pub(crate) cap_add: Vec<String>,
    /// Capabilities dropped.
    #[serde(default, rename = "cap-drop")]
    pub(crate) cap_drop: Vec<String>,
}

/// How to know that a service is ready.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawHealth {
    /// `[CMD, …]` or `[CMD-SHELL, …]`: templates.
    pub(crate) test: Vec<String>,
    /// Between two probes; 5s when nothing is said.
    #[serde(default)]
    pub(crate) interval: Option<String>,
    /// The limit of a probe; 5s when nothing is said.
    #[serde(default)]
    pub(crate) timeout: Option<String>,
    /// Failures until it is unhealthy; 6 when nothing is said.
    #[serde(default)]
    pub(crate) retries: Option<u32>,
    /// Failures before this do not count; 60s when nothing is said.
    #[serde(default, rename = "start-period")]
    pub(crate) start_period: Option<String>,
}

/// Something that is made inside a running service, and made once however often it is asked for.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawProvision {
    /// One line for people.
    pub(crate) summary: String,
    /// The service to run in; `main` when nothing is said.
    #[serde(default = "main")]
    pub(crate) service: String,
    /// The names when a stack asks for none: templates.
    #[serde(default)]
    pub(crate) default: Vec<String>,
    /// What a name must match: characters and classes, each with `?`, `*`, `+` or `{m,n}` behind it.
    #[serde(default)]
    pub(crate) pattern: Option<String>,
    /// Run in the container for each name; exit 0 means that it is there: templates.
    pub(crate) command: Vec<String>,
    /// The command's standard input: a template.
    #[serde(default)]
    pub(crate) stdin: Option<String>,
    /// The user to run as.
    #[serde(default)]
    pub(crate) user: Option<String>,
}

/// Variables for clients. Values are templates.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawVariables {
    /// Names behind the resource's: `URL` gives `DB_URL`.
    #[serde(default)]
    pub(crate) prefixed: BTreeMap<String, String>,
    /// For each provisioned name of a kind: `{databases: {URL: …}}` gives `DB_JOBS_URL`.
    #[serde(default)]
    pub(crate) each: BTreeMap<String, BTreeMap<String, String>>,
    /// Names that are a convention, given when the resource is the default of its kind.
    #[serde(default)]
    pub(crate) conventional: BTreeMap<String, String>,
}

/// A configuration file.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawFile {
    /// Where it stands in the container.
    pub(crate) path: String,
    /// Its content: a template.
    pub(crate) content: String,
    /// Whether it may hold a secret; then it is never written to this machine's disk by Sidestack.
    #[serde(default)]
    pub(crate) secret: bool,
    /// Its mode in octal digits; `"0444"` when nothing is said.
    #[serde(default)]
    pub(crate) mode: Option<String>,
}
