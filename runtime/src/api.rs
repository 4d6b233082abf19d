//! Requests and answers of the verbs: plain data, of which the command line makes
//! text and JSON. Nothing here is serialised as it stands.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use sidestack_state::{Instance, Sighting, Transition};
use sidestack_topology::diagnostic::Diagnostic;
use sidestack_topology::names::{RevisionNumber, Target};
use sidestack_topology::plan::{LayerKind, Plan};

/// Words of a target as they were typed: `shop/dev/main`, `demo/main`, `r3`, `@r2`, `main@r1`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetWords {
    /// The parts between slashes, at most three; empty for the current instance.
    pub parts: Vec<String>,
    /// What stands behind `@`.
    pub revision: Option<RevisionNumber>,
    /// `-E`.
    pub environment: Option<String>,
}

/// Which instance `up` brings up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Place {
    /// This checkout's, or the one named.
    #[default]
    Here,
    /// One of its own, beside the others, called `rN`.
    Beside,
    /// One more, perhaps with a name.
    New(Option<String>),
}

/// `up`.
#[derive(Debug, Clone)]
pub struct UpRequest {
    /// What was named.
    pub target: TargetWords,
    /// Where it goes.
    pub place: Place,
    /// The commit whose code it runs, in an instance and a worktree of its own.
    pub git: Option<String>,
    /// Services and resources that it is about, with what they need; all when none is named.
    pub only: Vec<String>,
    /// Wait until ready.
    pub wait: bool,
    /// For at most this long.
    pub timeout: Duration,
    /// When a move fails, apply the last good revision again.
    pub rollback: bool,
    /// Let go of ports that somebody else took.
    pub move_ports: bool,
    /// Do not take over data that a removed instance of that name left.
    pub fresh: bool,
    /// Build images again.
    pub build: bool,
    /// Pull images again.
    pub pull: bool,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Compose files in the place of those that would be found.
    pub files: Vec<PathBuf>,
    /// Profiles to switch on.
    pub profiles: Vec<String>,
    /// Env files for interpolation in the place of the project's `.env`; a later one wins.
    pub env_files: Vec<PathBuf>,
    /// Choices for what is external, and self-addresses that stay; kept for the environment.
    pub chosen: Chosen,
    /// Publish the ports that the files name too, where they are free and this is `main`.
    pub own_ports: bool,
    /// A message for a new revision.
    pub message: Option<String>,
}

/// What is chosen on the command line for isolation, by the keys of the compose files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chosen {
    /// External networks and volumes that are used together.
    pub share: Vec<String>,
    /// External volumes of which every instance begins with a copy.
    pub copy: Vec<String>,
    /// External networks and volumes of which every instance has its own.
    pub create: Vec<String>,
    /// Self-addresses that stay as they are.
    pub keep: Vec<String>,
}

/// Something that every copy of a stack would share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trusted {
    /// Its exact name.
    pub item: String,
    /// What it is.
    pub what: String,
    /// What a second copy needs.
    pub answer: sidestack_topology::plan::Answer,
    /// Whether it was agreed to, for the files as they are.
    pub agreed: bool,
}

impl Default for UpRequest {
    fn default() -> Self {
        Self {
            target: TargetWords::default(),
            place: Place::Here,
            git: None,
            only: Vec::new(),
            wait: true,
            timeout: Duration::from_secs(120),
            rollback: true,
            move_ports: false,
            fresh: false,
            build: false,
            pull: false,
            dry_run: false,
            files: Vec::new(),
            profiles: Vec::new(),
            env_files: Vec::new(),
            chosen: Chosen::default(),
            own_ports: true,
            message: None,
        }
    }
}

/// What `up` did.
#[derive(Debug, Clone)]
pub struct UpReport {
    /// The instance as it is now.
    pub description: Description,
    /// Whether anything was done.
    pub changed: bool,
    /// Whether the revision is new.
    pub committed: bool,
    /// The steps, a line each, with their causes.
    pub steps: Vec<StepLine>,
}

/// A step of a plan, for people and for `--json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepLine {
    /// `start web`.
    pub step: String,
    /// Why.
    pub cause: String,
}

/// An instance in full.
#[derive(Debug, Clone)]
pub struct Description {
    /// As the store has it.
    pub instance: Instance,
    /// The whole.
    pub state: State,
    /// Its Compose project.
    pub project: String,
    /// Its services.
    pub services: Vec<ServiceView>,
    /// Its volumes.
    pub volumes: Vec<VolumeView>,
    /// The folder is gone.
    pub folder_missing: bool,
    /// The branch that the folder is on now.
    pub branch: Option<String>,
    /// The last transition.
    pub last: Option<Transition>,
    /// How many variables each layer gives its containers.
    pub variables: BTreeMap<LayerKind, usize>,
}

/// How an instance is as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// All services are ready.
    Running,
    /// Some are not ready yet.
    Starting,
    /// Some are not as they should be.
    Degraded,
    /// It is meant to be stopped, and is.
    Stopped,
    /// It was never ready.
    Failed,
    /// It is meant to run, and its containers are not there.
    Gone,
}

impl State {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Starting => "starting",
            Self::Degraded => "degraded",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Gone => "gone",
        }
    }
}

/// A service of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceView {
    /// Its name.
    pub name: String,
    /// `running`, `starting`, `exited 1`, `completed`, `missing`, …
    pub state: String,
    /// `healthy`, `unhealthy`, `starting`, or nothing when it has no health.
    pub health: Option<String>,
    /// Whether it is as it should be.
    pub ready: bool,
    /// The image.
    pub image: String,
    /// The image's id, when the container is there.
    pub image_id: Option<String>,
    /// Its addresses.
    pub addresses: Vec<Address>,
}

/// An address of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The container port.
    pub port: u16,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// For containers: `db:5432`.
    pub inside: String,
    /// For the host: `127.0.0.1:20101`.
    pub host: String,
    /// As a URL.
    pub url: Option<String>,
}

/// A volume of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeView {
    /// Its name in Docker.
    pub name: String,
    /// Its size, when it was asked for.
    pub bytes: Option<i64>,
}

/// A line of `ls`.
#[derive(Debug, Clone)]
pub struct Listed {
    /// As the store has it.
    pub instance: Instance,
    /// The whole.
    pub state: State,
    /// Services that are ready.
    pub ready: usize,
    /// Services that it should have.
    pub total: usize,
    /// The branch that the folder is on now.
    pub branch: Option<String>,
    /// The address people look at first.
    pub address: Option<String>,
    /// Whether it is the current checkout's.
    pub here: bool,
    /// The folder is gone.
    pub folder_missing: bool,
}

/// What `ls` found.
#[derive(Debug, Clone)]
pub struct Listing {
    /// The instances.
    pub instances: Vec<Listed>,
    /// Why states may be wrong: Docker could not be asked.
    pub docker: Option<String>,
}

/// What `plan` shows.
#[derive(Debug, Clone)]
pub struct PlanReport {
    /// The target it would be.
    pub target: Target,
    /// The revision, when the content is already one.
    pub revision: Option<RevisionNumber>,
    /// The plan, with a slot that it would get.
    pub plan: Plan,
    /// What isolation changes in the compose files' model.
    pub isolation: Vec<sidestack_topology::plan::Change>,
    /// Warnings that were told already, while the stack was read.
    pub told: Vec<Diagnostic>,
    /// Warnings.
    pub diagnostics: Vec<Diagnostic>,
    /// What would be done.
    pub steps: Vec<StepLine>,
    /// The tree's `compose.yaml`.
    pub tree: String,
}

/// A variable as it is shown or handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// Its name.
    pub key: String,
    /// The value for a person: secrets by reference.
    pub shown: String,
    /// The layer that won on the host vantage or in the containers, with its name.
    pub layer: LayerKind,
    /// What that layer is called.
    pub origin: String,
    /// What it replaced, highest first: layer, name, value for a person.
    pub shadowed: Vec<(LayerKind, String, String)>,
    /// Who gets it: `host`, or services.
    pub reaches: Vec<String>,
    /// Services that have no such variable but interpolate it, with the variable that it is part of there.
    pub within: Vec<(String, String)>,
}

/// A layer that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteLayer {
    /// `--workspace`.
    Workspace,
    /// `--environment`.
    Environment,
    /// `--instance`.
    Instance,
}

/// What `set` and `unset` did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetReport {
    /// Keys whose value is another now.
    pub changed: Vec<String>,
    /// Where it was written: `shop`, `shop/dev`, `shop/dev/main`.
    pub place: String,
    /// Running instances that have another value until they are brought up again.
    pub behind: Vec<Target>,
    /// Keys that reach no service of the current instance.
    pub unreached: Vec<String>,
}

/// A revision in `history` and `show`.
#[derive(Debug, Clone)]
pub struct RevisionView {
    /// Its number.
    pub number: RevisionNumber,
    /// SHA-256 in hex.
    pub digest: String,
    /// When it was first committed.
    pub created: Timestamp,
    /// Its message.
    pub message: Option<String>,
    /// Where it was seen.
    pub sightings: Vec<Sighting>,
    /// Instances that are at it.
    pub instances: Vec<Target>,
}

/// What a stopping verb did to one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The instance.
    pub target: Target,
    /// Whether anything was done.
    pub changed: bool,
    /// What stays: volumes by name.
    pub kept: Vec<String>,
    /// What is gone.
    pub removed: Vec<String>,
}
