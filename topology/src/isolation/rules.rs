//! The rules that change something.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::compose::{Condition, FileGrant, Network, Project, Service, Volume};
use crate::diagnostic::Diagnostic;
use crate::module::Protocol;
use crate::placeholder;
use crate::plan::{After, Change, Delivery, FileObjects, Hook, Publish};
use crate::secret::{Encoding, token};

pub(super) fn change(
    rule: &'static str,
    service: &str,
    path: &str,
    from: &str,
    to: &str,
    reason: &'static str,
) -> Change {
    Change {
        rule,
        service: service.to_owned(),
        path: path.to_owned(),
        from: from.to_owned(),
        to: to.to_owned(),
        reason,
    }
}

/// The services that run: those without a profile or with one that is on, and
/// what they need.
pub(super) fn active<'a>(
    services: &'a BTreeMap<String, Service>,
    profiles: &[String],
    changes: &mut Vec<Change>,
) -> BTreeSet<&'a str> {
    let asked = services.iter().filter(|(_, service)| {
        let mut own = service.profiles.iter();
        service.profiles.is_empty() || own.any(|profile| profiles.contains(profile))
    });
    let mut active: BTreeSet<&str> = asked.map(|(name, _)| name.as_str()).collect();
    let mut open: Vec<&str> = active.iter().copied().collect();
    while let Some(service) = open.pop().and_then(|name| services.get(name)) {
        for (needed, dependency) in &service.depends_on {
            if dependency.required && services.contains_key(needed) && active.insert(needed) {
                open.push(needed);
            }
        }
    }
    for (name, service) in services.iter().filter(|(name, _)| !active.contains(name.as_str())) {
        let profiles = service.profiles.join(", ");
        let reason = "none of its profiles is active";
        changes.push(change("profile", name, "profiles", &profiles, "not started", reason));
    }
    active
}

/// The order is the runtime's business and leaves the model.
pub(super) fn order(service: &mut Service, active: &BTreeSet<&str>) -> BTreeMap<String, After> {
    let mut after: BTreeMap<String, After> = std::mem::take(&mut service.depends_on)
        .into_iter()
        .filter(|(name, _)| active.contains(name.as_str()))
        .map(|(name, needed)| {
            let (condition, required) = (needed.condition, needed.required);
            (name, After { condition, required })
        })
        .collect();
    for name in joined(service) {
        if active.contains(name.as_str()) {
            after.entry(name).or_insert(After { condition: Condition::Started, required: true });
        }
    }
    after
}

/// Services whose network, processes or volumes this one joins: Docker cannot
/// start it before them.
fn joined(service: &Service) -> Vec<String> {
    let text = |key: &str| service.rest.get(key).and_then(Value::as_str);
    let modes = [service.network_mode.as_deref(), text("pid"), text("ipc")];
    let mut names: Vec<String> =
        modes.into_iter().flatten().filter_map(|mode| mode.strip_prefix("service:")).map(str::to_owned).collect();
    if let Some(Value::Array(from)) = service.rest.get("volumes_from") {
        let sources = from.iter().filter_map(Value::as_str);
        names.extend(sources.filter_map(|source| source.split(':').next()).map(str::to_owned));
    }
    names
}

/// Names are scoped by leaving them to the place, which puts the project before
/// the key. A name that is made so already is no change.
fn fixed_name(rule: &'static str, key: &str, name: Option<String>, changes: &mut Vec<Change>) {
    const REASON: &str = "a fixed name is shared by every copy";
    if let Some(name) = name.filter(|name| *name != format!("{}_{key}", placeholder::PROJECT)) {
        changes.push(change(rule, key, "name", &name, "named after the instance", REASON));
    }
}

/// A network without its name.
pub(super) fn network_name(key: &str, mut network: Network, changes: &mut Vec<Change>) -> Network {
    fixed_name("network-name", key, network.name.take(), changes);
    network
}

/// A volume without its name.
pub(super) fn volume_name(key: &str, mut volume: Volume, changes: &mut Vec<Change>) -> Volume {
    fixed_name("volume-name", key, volume.name.take(), changes);
    volume
}

/// Secrets and configs from files stay as they are; the others are delivered.
pub(super) fn file_objects(model: &Project) -> FileObjects {
    let mounted = |objects: &BTreeMap<String, crate::compose::FileObject>| {
        objects
            .iter()
            .filter(|(_, object)| object.file.is_some())
            .map(|(key, object)| (key.clone(), crate::compose::FileObject { name: None, ..object.clone() }))
            .collect()
    };
    FileObjects { secrets: mounted(&model.secrets), configs: mounted(&model.configs) }
}

/// Secrets from the environment and inline configs, which Compose would copy in.
pub(super) fn deliveries(
    name: &str,
    service: &mut Service,
    model: &Project,
    faults: &mut Vec<Diagnostic>,
) -> Vec<Delivery> {
    let mut deliveries = Vec::new();
    let read_only = service.rest.get("read_only").and_then(Value::as_bool).unwrap_or(false);
    let mut take = |grants: &mut Vec<FileGrant>,
                    objects: &BTreeMap<String, crate::compose::FileObject>,
                    what: &str,
                    base: &str| {
        grants.retain(|grant| {
            let Some(object) = objects.get(&grant.source) else {
                return true;
            };
            let content = match (&object.environment, &object.content) {
                (Some(variable), _) => token(&format!("env:{variable}"), Encoding::Raw),
                (None, Some(content)) => content.clone(),
                (None, None) => return true,
            };
            if read_only {
                let message =
                    format!("{what} `{}` cannot be put into `{name}`, whose file system is read-only", grant.source);
                faults.push(
                    Diagnostic::error(&["services", name, what], message).hint("take it from a file: that is mounted"),
                );
            }
            let target = grant.target.clone().unwrap_or_else(|| grant.source.clone());
            let path = if target.starts_with('/') { target } else { format!("{base}{target}") };
            let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0);
            let mode = match &grant.mode {
                Some(Value::String(text)) => u32::from_str_radix(text.trim_start_matches("0o"), 8).ok(),
                Some(Value::Number(number)) => number.as_u64().and_then(|n| u32::try_from(n).ok()),
                _ => None,
            };
            deliveries.push(Delivery {
                path,
                mode: mode.unwrap_or(0o444),
                uid: number(&grant.uid),
                gid: number(&grant.gid),
                content,
            });
            false
        });
    };
    take(&mut service.secrets, &model.secrets, "secrets", "/run/secrets/");
    take(&mut service.configs, &model.configs, "configs", "/");
    deliveries
}

/// `post_start` is run by the runtime.
pub(super) fn hooks(service: &mut Service) -> Vec<Hook> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    std::mem::take(&mut service.post_start)
        .iter()
        .map(|hook| Hook {
            command: match hook.get("command") {
                Some(Value::Array(words)) => words.iter().filter_map(text).collect(),
                Some(Value::String(line)) => {
                    vec!["/bin/sh".to_owned(), "-c".to_owned(), line.clone()]
                }
                _ => Vec::new(),
            },
            user: hook.get("user").and_then(text),
            working_dir: hook.get("working_dir").and_then(text),
            environment: match hook.get("environment") {
                Some(Value::Object(map)) => {
                    map.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect()
                }
                Some(Value::Array(items)) => items.iter().filter_map(text).collect(),
                _ => Vec::new(),
            },
        })
        .filter(|hook| !hook.command.is_empty())
        .collect()
}

/// A fixed container name aborts the second copy; it lives on as an alias.
pub(super) fn container_name(name: &str, service: &mut Service, changes: &mut Vec<Change>) {
    let Some(fixed) = service.container_name.take() else {
        return;
    };
    if service.network_mode.is_none() {
        if service.networks.is_empty() {
            service.networks.insert("default".to_owned(), None);
        }
        for joined in service.networks.values_mut() {
            let joined = joined.get_or_insert_default();
            let aliases = joined.entry("aliases").or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(aliases) = aliases
                && !aliases.contains(&Value::from(fixed.clone()))
            {
                aliases.push(Value::from(fixed.clone()));
            }
        }
    }
    changes.push(change(
        "container-name",
        name,
        "container_name",
        &fixed,
        "a network alias",
        "two containers cannot have one name",
    ));
}

/// After a restart of Docker, `always` starts every copy at once and in no order.
pub(super) fn restart(name: &str, service: &mut Service, changes: &mut Vec<Change>) {
    const REASON: &str = "the order after a restart of Docker is Sidestack's; a crash still restarts it";
    if let Some(policy @ ("always" | "unless-stopped")) = service.restart.as_deref() {
        changes.push(change("restart", name, "restart", policy, "on-failure", REASON));
        service.restart = Some("on-failure".to_owned());
    }
    let Some(deploy) = &mut service.deploy else {
        return;
    };
    let Some(policy) = deploy.remove("restart_policy") else {
        return;
    };
    let condition = policy.get("condition").and_then(Value::as_str).unwrap_or("any");
    if service.restart.is_none() && condition != "none" {
        changes.push(change("restart", name, "deploy.restart_policy", condition, "on-failure", REASON));
        service.restart = Some("on-failure".to_owned());
    }
}

/// Keys that matter to other programs only.
pub(super) fn left_out(service: &mut Service) {
    service.profiles.clear();
    for key in ["develop", "env_file", "label_file"] {
        service.rest.remove(key);
    }
}

/// Ports that people look at in a browser, as far as a number tells.
fn scheme(port: u16) -> Option<&'static str> {
    match port {
        443 | 8443 | 9443 => Some("https"),
        80 | 3000..=3099 | 4000 | 4200 | 5000 | 5001 | 5173 | 8000..=8099 | 8888 | 9000 | 9090 => Some("http"),
        _ => None,
    }
}

/// Published ports become leases.
pub(super) fn ports(
    name: &str,
    service: &mut Service,
    changes: &mut Vec<Change>,
    faults: &mut Vec<Diagnostic>,
) -> Vec<Publish> {
    let replicas = service.replicas();
    let mut published: Vec<Publish> = Vec::new();
    for (at, port) in std::mem::take(&mut service.ports).into_iter().enumerate() {
        let path = format!("ports.{at}");
        let literal = port.published.as_deref().unwrap_or_default();
        if literal.contains('-') {
            let message = format!("`{name}` publishes the range {literal}, which is not supported yet");
            faults.push(Diagnostic::error(&["services", name, "ports"], message).hint("name each port"));
        }
        if replicas > 1 {
            let message =
                format!("`{name}` publishes a port and has {replicas} containers, which is not supported yet");
            faults.push(
                Diagnostic::error(&["services", name, "ports"], message).hint("run one container, or publish nothing"),
            );
        }
        let protocol = match port.protocol.as_deref() {
            Some("udp") => Protocol::Udp,
            None | Some("tcp") => Protocol::Tcp,
            Some(other) => {
                let message = format!("`{name}` publishes a port over `{other}`; only tcp and udp are supported");
                faults.push(Diagnostic::error(&["services", name, "ports"], message));
                continue;
            }
        };
        let same = |other: &&Publish| other.container_port == port.target && other.protocol == protocol;
        let ordinal = u16::try_from(published.iter().filter(same).count()).unwrap_or(u16::MAX);
        if !literal.is_empty() {
            changes.push(change("host-port", name, &path, literal, "a leased port", "one host port serves one copy"));
        }
        let named = port.rest.get("app_protocol").and_then(Value::as_str).map(str::to_owned);
        let guessed = (protocol == Protocol::Tcp).then(|| scheme(port.target)).flatten().map(str::to_owned);
        published.push(Publish {
            service: name.to_owned(),
            container_port: port.target,
            protocol,
            ordinal,
            scheme: named.or(guessed),
            own: literal.parse().ok(),
        });
    }
    published
}
