//! The Compose model, typed as far as Sidestack reads or writes it.
//!
//! It reads what `docker compose config --format json` prints (long forms only)
//! and is what the renderer fills and serialises. Keys that nothing here looks at
//! are carried in `rest`, so that a file keeps its whole meaning.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A JSON object.
pub type Object = Map<String, Value>;

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Compose prints `null` where a collection was named and left empty.
fn or_default<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(d: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(d)?.unwrap_or_default())
}

/// A whole project.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Project {
    /// The project's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Services by name.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub services: BTreeMap<String, Service>,
    /// Networks by key.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub networks: BTreeMap<String, Option<Network>>,
    /// Volumes by key.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub volumes: BTreeMap<String, Option<Volume>>,
    /// Configs by key.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub configs: BTreeMap<String, FileObject>,
    /// Secrets by key.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub secrets: BTreeMap<String, FileObject>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Object,
}

impl Project {
    /// Those of the asked profiles that some service has, sorted; `*` asks for all.
    pub fn profiles_among(&self, asked: &[String]) -> Vec<String> {
        let all = asked.iter().any(|profile| profile == "*");
        let has = self.services.values().flat_map(|service| &service.profiles);
        let on: BTreeSet<&String> = has.filter(|profile| all || asked.contains(profile)).collect();
        on.into_iter().cloned().collect()
    }
}

/// A service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    /// The image's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// How to build it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<Object>,
    /// When to pull it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_policy: Option<String>,
    /// A fixed name for its one container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_name: Option<String>,
    /// The command: a list, or nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Value>,
    /// The entry point: a list, or nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Value>,
    /// Variables; `None` is a pass-through that found nothing.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub environment: BTreeMap<String, Option<String>>,
    /// Published ports.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub ports: Vec<PortMapping>,
    /// Mounts.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub volumes: Vec<Mount>,
    /// Networks it joins, with what it is there.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub networks: BTreeMap<String, Option<Object>>,
    /// `host`, `none`, `service:NAME`, `container:NAME`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_mode: Option<String>,
    /// What it waits for.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub depends_on: BTreeMap<String, Dependency>,
    /// Health.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthcheck: Option<Object>,
    /// Restart policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<String>,
    /// Labels.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub labels: BTreeMap<String, String>,
    /// Secrets it gets.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub secrets: Vec<FileGrant>,
    /// Configs it gets.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub configs: Vec<FileGrant>,
    /// Deployment: `replicas`, `restart_policy`, `resources`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deploy: Option<Object>,
    /// Number of containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<u32>,
    /// Profiles it belongs to.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub profiles: Vec<String>,
    /// Commands run once it has started.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub post_start: Vec<Object>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Object,
}

/// A published port, in the long form.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortMapping {
    /// The container port.
    pub target: u16,
    /// The host port or range; nothing for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
    /// The host's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_ip: Option<String>,
    /// `tcp` or `udp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// `ingress` or `host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Everything else, such as `name` and `app_protocol`.
    #[serde(flatten)]
    pub rest: Object,
}

/// A mount, in the long form.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mount {
    /// `volume`, `bind`, `tmpfs`, `npipe`, `cluster`, `image`.
    #[serde(rename = "type")]
    pub kind: String,
    /// A volume's key or a path; nothing for an anonymous volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Where it is mounted.
    pub target: String,
    /// Not writable.
    #[serde(skip_serializing_if = "is_default")]
    pub read_only: bool,
    /// Everything else, such as `bind` and `volume`.
    #[serde(flatten)]
    pub rest: Object,
}

/// What a service waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    /// When it is met.
    pub condition: Condition,
    /// Whether the service cannot do without.
    #[serde(default = "yes")]
    pub required: bool,
    /// Whether it is restarted with it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restart: bool,
}

fn yes() -> bool {
    true
}

/// What a service uses of another's container instead of having its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joint {
    /// Its network.
    Network,
    /// Its processes.
    Processes,
    /// Its shared memory.
    Memory,
    /// Its volumes. They outlive a restart of it; the others, which are namespaces, do not.
    Volumes,
}

impl Joint {
    /// The key that asks for it.
    pub fn key(self) -> &'static str {
        match self {
            Self::Network => "network_mode",
            Self::Processes => "pid",
            Self::Memory => "ipc",
            Self::Volumes => "volumes_from",
        }
    }
}

impl std::fmt::Display for Joint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Network => "network",
            Self::Processes => "processes",
            Self::Memory => "memory",
            Self::Volumes => "volumes",
        })
    }
}

/// When a dependency is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Condition {
    /// It was started.
    #[serde(rename = "service_started")]
    Started,
    /// It is healthy.
    #[serde(rename = "service_healthy")]
    Healthy,
    /// It exited with 0.
    #[serde(rename = "service_completed_successfully")]
    Completed,
}

/// A network.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Network {
    /// Its real name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Made and kept by somebody else.
    #[serde(skip_serializing_if = "is_default")]
    pub external: bool,
    /// Driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Address management.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub ipam: Object,
    /// Labels.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub labels: BTreeMap<String, String>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Object,
}

/// A volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Volume {
    /// Its real name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Made and kept by somebody else.
    #[serde(skip_serializing_if = "is_default")]
    pub external: bool,
    /// Labels.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub labels: BTreeMap<String, String>,
    /// Everything else, such as `driver` and `driver_opts`.
    #[serde(flatten)]
    pub rest: Object,
}

/// A config or a secret of the project.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileObject {
    /// Its real name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// From a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// From a variable of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// Inline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Made and kept by somebody else.
    #[serde(skip_serializing_if = "is_default")]
    pub external: bool,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Object,
}

/// A config or a secret given to a service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileGrant {
    /// The key of the config or secret.
    pub source: String,
    /// Where it stands in the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Owner, a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Group, a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<String>,
    /// Mode; Compose prints it as an octal text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Value>,
}

impl Service {
    /// Hands every text of the service to `edit`, mapping keys included, without
    /// the detour over JSON, which is the slowest part of placing a service.
    pub(crate) fn edit_texts(&mut self, edit: &impl Fn(&mut String)) {
        let optional = [
            &mut self.image,
            &mut self.pull_policy,
            &mut self.container_name,
            &mut self.network_mode,
            &mut self.restart,
        ];
        optional.into_iter().flatten().for_each(edit);
        let objects = [&mut self.build, &mut self.healthcheck, &mut self.deploy];
        for object in objects.into_iter().flatten().chain([&mut self.rest]) {
            edit_object(object, edit);
        }
        for value in [&mut self.command, &mut self.entrypoint].into_iter().flatten() {
            edit_value(value, edit);
        }
        edit_keys(&mut self.environment, edit);
        self.environment.values_mut().flatten().for_each(edit);
        edit_keys(&mut self.labels, edit);
        self.labels.values_mut().for_each(edit);
        edit_keys(&mut self.networks, edit);
        for joined in self.networks.values_mut().flatten() {
            edit_object(joined, edit);
        }
        edit_keys(&mut self.depends_on, edit);
        for port in &mut self.ports {
            let texts = [&mut port.published, &mut port.host_ip, &mut port.protocol, &mut port.mode];
            texts.into_iter().flatten().for_each(edit);
            edit_object(&mut port.rest, edit);
        }
        for mount in &mut self.volumes {
            edit(&mut mount.kind);
            mount.source.iter_mut().for_each(edit);
            edit(&mut mount.target);
            edit_object(&mut mount.rest, edit);
        }
        for grant in self.secrets.iter_mut().chain(&mut self.configs) {
            edit(&mut grant.source);
            let texts = [&mut grant.target, &mut grant.uid, &mut grant.gid];
            texts.into_iter().flatten().for_each(edit);
            if let Some(mode) = &mut grant.mode {
                edit_value(mode, edit);
            }
        }
        self.profiles.iter_mut().for_each(edit);
        for hook in &mut self.post_start {
            edit_object(hook, edit);
        }
    }

    /// The service in whose network it stands, when that is not its own.
    pub fn network_of(&self) -> Option<&str> {
        self.network_mode.as_deref()?.strip_prefix("service:")
    }

    /// The services in whose containers it stands, and what it uses there: it cannot start before them.
    pub fn joined(&self) -> impl Iterator<Item = (&str, Joint)> {
        let text = |key: &str| self.rest.get(key).and_then(Value::as_str);
        let spaces = [Joint::Processes, Joint::Memory]
            .into_iter()
            .filter_map(move |joint| Some((text(joint.key())?.strip_prefix("service:")?, joint)));
        let sources = self.rest.get(Joint::Volumes.key()).and_then(Value::as_array).into_iter().flatten();
        let sources = sources.filter_map(Value::as_str).filter(|source| !source.starts_with("container:"));
        let volumes = sources.filter_map(|source| Some((source.split(':').next()?, Joint::Volumes)));
        self.network_of().map(|other| (other, Joint::Network)).into_iter().chain(spaces).chain(volumes)
    }

    /// How many containers it has.
    pub fn replicas(&self) -> u32 {
        let deployed = self.deploy.as_ref().and_then(|deploy| deploy.get("replicas")).and_then(Value::as_u64);
        self.scale.or(deployed.and_then(|n| u32::try_from(n).ok())).unwrap_or(1)
    }
}

fn edit_keys<T>(map: &mut BTreeMap<String, T>, edit: &impl Fn(&mut String)) {
    let changes = |key: &String| {
        let mut edited = key.clone();
        edit(&mut edited);
        edited != *key
    };
    if map.keys().any(changes) {
        let renamed = std::mem::take(map).into_iter().map(|(mut key, value)| {
            edit(&mut key);
            (key, value)
        });
        *map = renamed.collect();
    }
}

fn edit_object(object: &mut Object, edit: &impl Fn(&mut String)) {
    let edited = std::mem::take(object).into_iter().map(|(mut key, mut value)| {
        edit(&mut key);
        edit_value(&mut value, edit);
        (key, value)
    });
    *object = edited.collect();
}

fn edit_value(value: &mut Value, edit: &impl Fn(&mut String)) {
    match value {
        Value::String(text) => edit(text),
        Value::Array(items) => items.iter_mut().for_each(|item| edit_value(item, edit)),
        Value::Object(object) => edit_object(object, edit),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Whatever text a model has, the editor finds it: JSON is the measure.
    #[test]
    fn every_text_of_a_service_is_edited() {
        let value = json!({
            "image": "#", "build": {"#": ["#"]}, "pull_policy": "#", "container_name": "#", "command": ["#"],
            "entrypoint": "#", "environment": {"#": "#", "N": null}, "network_mode": "#", "restart": "#",
            "ports": [{"target": 1, "published": "#", "host_ip": "#", "protocol": "#", "mode": "#", "#": "#"}],
            "volumes": [{"type": "#", "source": "#", "target": "#", "bind": {"#": "#"}}],
            "networks": {"#": {"aliases": ["#"]}, "n": null},
            "depends_on": {"#": {"condition": "service_started", "required": true}},
            "healthcheck": {"test": ["#"]}, "labels": {"#": "#"},
            "secrets": [{"source": "#", "target": "#", "uid": "#", "gid": "#", "mode": "#"}],
            "configs": [{"source": "#", "mode": 1}],
            "deploy": {"#": 1}, "scale": 2, "profiles": ["#"], "post_start": [{"command": "#"}], "user": {"#": [["#"]]},
        });
        let mut service: Service = serde_json::from_value(value).unwrap();
        let before = serde_json::to_string(&service).unwrap();
        service.edit_texts(&|text: &mut String| *text = text.replace('#', "xy"));
        let expected: Value = serde_json::from_str(&before.replace('#', "xy")).unwrap();
        assert_eq!(serde_json::to_value(&service).unwrap(), expected);
    }
}
