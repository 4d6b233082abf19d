//! What an instance will be: the planner's result and the renderer's input.
//!
//! Everything is decided here; whoever executes it decides nothing. Texts may
//! hold secrets as tokens, see [`crate::secret`].

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::compose::{Condition, Network, Service, Volume};
use crate::diagnostic::Diagnostic;
use crate::isolation::Claims;
use crate::module::Protocol;
use crate::names::{ResourceName, RevisionNumber, Slot, Target};

/// Where an instance stands, settled before it is planned.
#[derive(Debug, Clone)]
pub struct Placement {
    /// Its full name.
    pub target: Target,
    /// The store's id, for the ownership label.
    pub install: String,
    /// The instance's id, for its label.
    pub instance_id: String,
    /// Raised when an instance starts with fresh data beside kept data.
    pub generation: u32,
    /// The revision that will run.
    pub revision: Option<RevisionNumber>,
    /// Its slot; `None` only when a plan is shown without one.
    pub slot: Option<Slot>,
    /// Its part of the address range, as `10.231.4.0/23`.
    pub subnet: Option<String>,
    /// Port offsets of the environment, by [`Publish::key`].
    pub ports: BTreeMap<String, u16>,
    /// Network numbers of the environment, by key.
    pub networks: BTreeMap<String, u16>,
    /// The checkout's folder.
    pub checkout: String,
    /// Files of the checkout that are elsewhere: the path as the model has it, with its placeholder, and where it is.
    pub borrowed: BTreeMap<String, String>,
    /// The folder that holds the tree's config files.
    pub files: String,
    /// The files' own ports that are published beside the leased ones.
    pub own_ports: BTreeSet<u16>,
}

/// The planned instance.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where it stands.
    pub placement: Placement,
    /// Its Compose project.
    pub project: String,
    /// Its services by Compose name.
    pub services: BTreeMap<String, PlannedService>,
    /// Its networks by key, named, addressed and labelled.
    pub networks: BTreeMap<String, Network>,
    /// Its volumes by key, named and labelled.
    pub volumes: BTreeMap<String, Volume>,
    /// Secrets and configs of compose files that Compose mounts itself, by kind and key.
    pub file_objects: FileObjects,
    /// Its resources and what they became.
    pub resources: BTreeMap<ResourceName, PlannedResource>,
    /// Every published port.
    pub ports: Vec<PlannedPort>,
    /// Config files of the tree: name (content-addressed) and content.
    pub files: BTreeMap<String, String>,
    /// Which rule of isolation changed what, see [`crate::isolation::report`].
    pub claims: Claims,
    /// Values of the compose files that isolation rewrote, by service and variable.
    pub rewritten: BTreeMap<String, BTreeMap<String, Original>>,
    /// What every copy would share.
    pub shared: Vec<Shared>,
    /// Volumes that begin with a copy: by key, the real name of what is copied.
    pub copies: BTreeMap<String, String>,
    /// Variables that Docker will hold in its container config although they hold a secret.
    pub exposed: Vec<Exposed>,
    /// Variables for the host, by name.
    pub host_variables: BTreeMap<String, Variable>,
    /// Variables of each service's containers, by service and name.
    pub container_variables: BTreeMap<String, BTreeMap<String, Variable>>,
}

/// Top-level `secrets` and `configs` that stay Compose's business.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileObjects {
    /// By key.
    pub secrets: BTreeMap<String, crate::compose::FileObject>,
    /// By key.
    pub configs: BTreeMap<String, crate::compose::FileObject>,
}

/// A service of the instance.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedService {
    /// What Compose is told. No `depends_on`: order is the runtime's business.
    pub compose: Service,
    /// What must have happened before it starts.
    pub after: BTreeMap<String, After>,
    /// Files put into its container between create and start.
    pub deliveries: Vec<Delivery>,
    /// Commands run in it once it has started.
    pub post_start: Vec<Hook>,
    /// Commands run in it before it is stopped.
    pub pre_stop: Vec<Hook>,
    /// What is made inside it once it is healthy.
    pub provisions: Vec<Provisioning>,
    /// Whether somebody waits for it to end.
    pub one_shot: bool,
    /// The resource it belongs to.
    pub resource: Option<ResourceName>,
    /// How many containers.
    pub replicas: u32,
}

/// An edge of the start order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct After {
    /// What must hold.
    pub condition: Condition,
    /// Whether the service is not started without.
    pub required: bool,
}

/// A file put into a container before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Absolute path in the container.
    pub path: String,
    /// Mode bits, such as `0o444`.
    pub mode: u32,
    /// Numeric owner.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
    /// Content with tokens.
    pub content: String,
}

/// A `post_start` hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// The command, an argument each.
    pub command: Vec<String>,
    /// User to run as.
    pub user: Option<String>,
    /// Working directory.
    pub working_dir: Option<String>,
    /// `KEY=VALUE`.
    pub environment: Vec<String>,
}

/// Something made in a running service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provisioning {
    /// The resource.
    pub resource: ResourceName,
    /// `databases`.
    pub kind: String,
    /// `jobs`.
    pub name: String,
    /// Run in the container; exit 0 means it is there.
    pub command: Vec<String>,
    /// Standard input with tokens.
    pub stdin: Option<String>,
    /// User to run as.
    pub user: Option<String>,
}

/// What became of a resource.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedResource {
    /// The module.
    pub module: String,
    /// The engine's version.
    pub version: String,
    /// The image.
    pub image: String,
    /// Data of another format cannot be taken over.
    pub data_format: String,
    /// The capability it was asked for.
    pub capability: String,
    /// The arrangement.
    pub arrangement: crate::module::Arrangement,
    /// Its Compose services.
    pub services: Vec<String>,
    /// What is made in it: kind and names.
    pub provisions: BTreeMap<String, Vec<String>>,
}

/// A port of a container that is published on the host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Publish {
    /// The Compose service.
    pub service: String,
    /// The container port.
    pub container_port: u16,
    /// Transport.
    pub protocol: Protocol,
    /// Counts publications of one container port.
    pub ordinal: u16,
    /// The scheme of a URL, when one makes sense.
    pub scheme: Option<String>,
    /// The port that the compose file names, when it is one literal port.
    pub own: Option<u16>,
    /// How many containers publish it, each a port of its own beside the others'.
    pub replicas: u16,
    /// Which of the service's mappings it is.
    #[serde(skip)]
    pub at: usize,
}

impl Publish {
    /// The key its offset is kept under; TCP and UDP share it. Another number of
    /// containers is another key, since their ports must stand side by side.
    pub fn key(&self) -> String {
        let key = format!("{}/{}/{}", self.service, self.container_port, self.ordinal);
        if self.replicas > 1 { format!("{key}*{}", self.replicas) } else { key }
    }
}

/// A published port with its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedPort {
    /// What is published.
    #[serde(flatten)]
    pub publish: Publish,
    /// The host's address.
    pub host_ip: String,
    /// The host's port; 0 when no slot was given.
    pub host_port: u16,
    /// The file's own port, when it is published too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own: Option<u16>,
}

impl PlannedPort {
    /// Where other containers find it: `db:5432`.
    pub fn inside(&self) -> String {
        format!("{}:{}", self.publish.service, self.publish.container_port)
    }

    /// Where the host finds it: `127.0.0.1:20101`.
    pub fn host(&self) -> String {
        format!("{}:{}", self.host_ip, self.host_port)
    }

    /// The host's port as Compose is told: one, or a range with one for each container.
    pub fn published(&self) -> String {
        match self.publish.replicas {
            0 | 1 => self.host_port.to_string(),
            several if self.host_port == 0 => format!("0-{}", several - 1),
            several => format!("{}-{}", self.host_port, self.host_port + several - 1),
        }
    }

    /// Where the host finds each container.
    pub fn hosts(&self) -> Vec<String> {
        let first = self.host_port;
        let ports = (0..self.publish.replicas.max(1)).map(|at| if first == 0 { 0 } else { first + at });
        ports.map(|port| format!("{}:{port}", self.host_ip)).collect()
    }

    /// As a URL, when that makes sense.
    pub fn url(&self) -> Option<String> {
        Some(format!("{}://{}", self.publish.scheme.as_ref()?, self.host()))
    }
}

/// Something that isolation changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The rule's name.
    pub rule: &'static str,
    /// The service, when it is part of one.
    pub service: Option<String>,
    /// Where in the model: a JSON pointer. What is added to a list stands at its end.
    pub path: String,
    /// As the file has it; null when it has nothing there.
    pub from: Value,
    /// As it will run; null when there is nothing.
    pub to: Value,
    /// Why.
    pub reason: String,
}

/// A variable's value before isolation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    /// As the compose files have it.
    pub value: String,
    /// The rule that rewrote it.
    pub rule: &'static str,
    /// Why.
    pub reason: &'static str,
}

/// Something of this machine that every copy of the stack would share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shared {
    /// Its exact name, by which consent is given: `web:/var/run/docker.sock`.
    pub item: String,
    /// Where in the compose files.
    pub path: Vec<String>,
    /// What it is, as a sentence.
    pub what: String,
    /// What a second copy needs.
    pub answer: Answer,
}

impl Shared {
    /// With what a first copy runs.
    pub fn warning(&self) -> Diagnostic {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        Diagnostic::warning(&path, self.what.clone()).hint(self.answer.hint(&self.item))
    }
}

/// What a second copy that would share something needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Consent.
    Consent,
    /// Consent, when both stand in the same folder.
    ConsentHere,
    /// One of these choices.
    Choice(&'static [&'static str]),
    /// Only one instance may run.
    Exclusive,
    /// Nothing more.
    Agreed,
}

impl Answer {
    /// The flags that choose for an item; empty where nothing can be chosen.
    pub fn flags(self, item: &str) -> String {
        match self {
            Self::Choice(choices) => {
                let name = item.split_once(':').map_or(item, |(_, name)| name);
                let flags: Vec<String> = choices.iter().map(|choice| format!("`--{choice} {name}`")).collect();
                flags.join(" or ")
            }
            Self::Consent | Self::ConsentHere | Self::Exclusive | Self::Agreed => String::new(),
        }
    }

    /// What to do about an item.
    pub fn hint(self, item: &str) -> String {
        match self {
            Self::Consent | Self::ConsentHere => {
                format!("a second copy would share it: it needs `sidestack trust '{item}'`")
            }
            Self::Choice(_) => format!("a second copy needs a choice: {}", self.flags(item)),
            Self::Exclusive => "only one copy of it can run at a time".to_owned(),
            Self::Agreed => String::new(),
        }
    }
}

/// A secret that Docker will hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exposed {
    /// The service.
    pub service: String,
    /// The variable.
    pub name: String,
}

/// Where a variable's value comes from, lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerKind {
    /// A module's own defaults.
    Catalogue,
    /// The compose files.
    Compose,
    /// The stack manifest, as the revision has it.
    Manifest,
    /// The instance's place: slot, names.
    Placement,
    /// Addresses and credentials of resources.
    Client,
    /// `sidestack set --workspace`.
    Workspace,
    /// `sidestack set --environment`.
    Environment,
    /// Variables of one revision.
    Revision,
    /// From outside the store.
    Source,
    /// `sidestack set`.
    Instance,
}

impl std::fmt::Display for LayerKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Catalogue => "catalogue",
            Self::Compose => "compose",
            Self::Manifest => "manifest",
            Self::Placement => "placement",
            Self::Client => "client",
            Self::Workspace => "workspace",
            Self::Environment => "environment",
            Self::Revision => "revision",
            Self::Source => "source",
            Self::Instance => "instance",
        })
    }
}

/// A layer of variables from outside the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Its rank.
    pub kind: LayerKind,
    /// What it is called: the workspace's name, a source's name.
    pub origin: String,
    /// Names and values; values may hold tokens.
    pub values: BTreeMap<String, String>,
}

/// A variable with its provenance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// The value with tokens.
    pub value: String,
    /// The layer that won.
    pub layer: LayerKind,
    /// What that layer is called.
    pub origin: String,
    /// What it replaced, highest first.
    pub shadowed: Vec<(LayerKind, String, String)>,
}

impl Variable {
    /// The first value of a variable.
    pub fn new(layer: LayerKind, origin: &str, value: &str) -> Self {
        Self { value: value.to_owned(), layer, origin: origin.to_owned(), shadowed: Vec::new() }
    }

    /// Another layer's value on top.
    pub fn replace(&mut self, layer: LayerKind, origin: &str, value: &str) {
        let below = std::mem::replace(self, Self::new(layer, origin, value));
        self.shadowed = vec![(below.layer, below.origin, below.value)];
        self.shadowed.extend(below.shadowed);
    }
}

impl Plan {
    /// Every secret that must be resolved before it can start.
    pub fn secrets(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let parts = [
            serde_json::to_value(&self.networks),
            serde_json::to_value(&self.volumes),
            serde_json::to_value(&self.file_objects.secrets),
            serde_json::to_value(&self.file_objects.configs),
        ];
        for part in parts.iter().flatten() {
            crate::secret::references_in(part, &mut found);
        }
        for service in self.services.values() {
            if let Ok(value) = serde_json::to_value(&service.compose) {
                crate::secret::references_in(&value, &mut found);
            }
            for delivery in &service.deliveries {
                crate::secret::references(&delivery.content, &mut found);
            }
            for provision in &service.provisions {
                provision.command.iter().chain(&provision.stdin).for_each(|t| crate::secret::references(t, &mut found));
            }
            for hook in service.post_start.iter().chain(&service.pre_stop) {
                hook.command.iter().chain(&hook.environment).for_each(|t| crate::secret::references(t, &mut found));
            }
        }
        found
    }
}
