//! The rules that change something.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::claim::{Claims, pointer};
use crate::compose::{Condition, FileGrant, Network, Object, Project, Service, Volume};
use crate::diagnostic::Diagnostic;
use crate::plan::{After, Delivery, FileObjects, Hook};
use crate::secret::{Encoding, token};

/// The services that run: those without a profile or with one that is on, and
/// what they need.
pub(super) fn active<'a>(
    services: &'a BTreeMap<String, Service>,
    profiles: &[String],
    claims: &mut Claims,
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
        let reason = format!("none of its profiles is active: {}", service.profiles.join(", "));
        claims.claim(pointer(&["services", name]), "profile", reason);
    }
    active
}

/// The order is the runtime's business and leaves the model.
pub(super) fn order(
    name: &str,
    service: &mut Service,
    active: &BTreeSet<&str>,
    claims: &mut Claims,
) -> BTreeMap<String, After> {
    const REASON: &str = "Sidestack starts the services in their order itself";
    claims.at(&["services", name, "depends_on"], "order", REASON);
    let mut after: BTreeMap<String, After> = std::mem::take(&mut service.depends_on)
        .into_iter()
        .filter(|(name, _)| active.contains(name.as_str()))
        .map(|(name, needed)| {
            let (condition, required) = (needed.condition, needed.required);
            (name, After { condition, required })
        })
        .collect();
    for (name, _) in service.joined() {
        if active.contains(name) {
            after.entry(name.to_owned()).or_insert(After { condition: Condition::Started, required: true });
        }
    }
    after
}

/// `x-…` beside the services is for whoever wrote it: anchors, other programs.
pub(super) fn extensions(model: &Project, claims: &mut Claims) {
    for key in model.rest.keys().filter(|key| key.starts_with("x-")) {
        claims.at(&[key], "left-out", "nothing that runs is made of it");
    }
}

/// Names are scoped by leaving them to the place, which puts the project before
/// the key. A name that is made so already is no change.
pub(super) const FIXED_NAME: &str = "a fixed name is shared by every copy";

/// A network of this stack: no name of its own choice, no bridge of the host's by name.
pub(super) fn network(key: &str, mut network: Network, claims: &mut Claims) -> Network {
    const BRIDGE: &str = "com.docker.network.bridge.name";
    network.name = None;
    claims.at(&["networks", key, "name"], "network-name", FIXED_NAME);
    if let Some(Value::Object(options)) = network.rest.get_mut("driver_opts")
        && options.remove(BRIDGE).is_some()
    {
        let reason = "two bridges of the host cannot have one name";
        claims.at(&["networks", key, "driver_opts", BRIDGE], "bridge-name", reason);
        if options.is_empty() {
            network.rest.remove("driver_opts");
            claims.at(&["networks", key, "driver_opts"], "bridge-name", reason);
        }
    }
    if network.driver.as_deref() == Some("overlay") {
        network.driver = None;
        network.rest.remove("attachable");
        let reason = "an overlay needs a Swarm; on one machine a bridge does the same";
        claims.at(&["networks", key, "driver"], "network-driver", reason);
        claims.at(&["networks", key, "attachable"], "network-driver", reason);
    }
    network
}

/// A volume of this stack: no name of its own choice.
pub(super) fn volume(key: &str, mut volume: Volume, claims: &mut Claims) -> Volume {
    volume.name = None;
    claims.at(&["volumes", key, "name"], "volume-name", FIXED_NAME);
    volume
}

/// The stack's own networks in which services stand.
pub(super) fn inner_networks(model: &Project, services: &BTreeMap<String, Service>) -> BTreeSet<String> {
    let external = |key: &str| model.networks.get(key).and_then(Option::as_ref).is_some_and(|network| network.external);
    let mut inner = BTreeSet::new();
    for service in services.values().filter(|service| service.network_mode.is_none()) {
        inner.extend(service.networks.keys().filter(|key| !external(key)).cloned());
        if service.networks.is_empty() && !external("default") {
            inner.insert("default".to_owned());
        }
    }
    if inner.is_empty() {
        inner.insert("default".to_owned());
    }
    inner
}

/// The default bridge and, where its ports are known, the host's network become the stack's own.
/// From the host's network every service was reached, so all of `inner` are joined.
pub(super) fn network_mode(name: &str, service: &mut Service, inner: &BTreeSet<String>, claims: &mut Claims) {
    let from_host = service.network_mode.as_deref() == Some("host");
    let reason = match service.network_mode.as_deref() {
        Some("bridge") => "every copy would stand in Docker's default bridge, where no name is known",
        Some("host") if super::ports::known(service) => {
            "ports of the host's network cannot be moved; these are published instead"
        }
        Some("default") => "it is what a service without it gets",
        Some("none") if !service.ports.is_empty() => {
            service.ports.clear();
            let reason = "without a network nothing is published, under Compose neither";
            claims.at(&["services", name, "ports"], "network-mode", reason);
            return;
        }
        _ => return,
    };
    service.network_mode = None;
    claims.at(&["services", name, "network_mode"], "network-mode", reason);
    if service.networks.is_empty() {
        match from_host {
            true => service.networks.extend(inner.iter().map(|key| (key.clone(), None))),
            false => _ = service.networks.insert("default".to_owned(), None),
        }
        claims.at(&["services", name, "networks"], "network-mode", reason);
    }
}

/// Addresses on the wire and in the link that only one copy can have.
pub(super) fn hardware_addresses(name: &str, service: &mut Service, claims: &mut Claims) {
    const REASON: &str = "two containers cannot have one hardware address";
    if service.rest.remove("mac_address").is_some() {
        claims.at(&["services", name, "mac_address"], "mac-address", REASON);
    }
    for (network, joined) in &mut service.networks {
        let Some(joined) = joined else { continue };
        for key in ["mac_address", "link_local_ips"] {
            if joined.remove(key).is_some() {
                claims.at(&["services", name, "networks", network, key], "mac-address", REASON);
            }
        }
    }
}

/// Secrets and configs from files stay as they are; the others are delivered.
pub(super) fn file_objects(model: &Project, claims: &mut Claims) -> FileObjects {
    let mounted = |objects: &BTreeMap<String, crate::compose::FileObject>| {
        objects
            .iter()
            .filter(|(_, object)| object.file.is_some())
            .map(|(key, object)| (key.clone(), crate::compose::FileObject { name: None, ..object.clone() }))
            .collect()
    };
    for (kind, objects) in [("secrets", &model.secrets), ("configs", &model.configs)] {
        for (key, object) in objects {
            if object.file.is_some() {
                claims.at(&[kind, key, "name"], "file-name", FIXED_NAME);
            } else if object.external {
                claims.at(&[kind, key], "left-out", "nothing that runs has it");
            } else {
                claims.at(&[kind, key], "delivery", DELIVERED);
            }
        }
    }
    FileObjects { secrets: mounted(&model.secrets), configs: mounted(&model.configs) }
}

const DELIVERED: &str = "it is put into the container before it starts, whatever version Compose has";

/// Secrets from the environment and inline configs, which Compose would copy in.
pub(super) fn deliveries(
    name: &str,
    service: &mut Service,
    model: &Project,
    claims: &mut Claims,
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
    if !deliveries.is_empty() {
        claims.at(&["services", name, "secrets"], "delivery", DELIVERED);
        claims.at(&["services", name, "configs"], "delivery", DELIVERED);
    }
    deliveries
}

const HOOKS: &str = "Sidestack runs it, whatever version Compose has";

/// `post_start` and `pre_stop` are run by the runtime.
pub(super) fn hooks(name: &str, service: &mut Service, claims: &mut Claims) -> (Vec<Hook>, Vec<Hook>) {
    let post_start: Vec<Hook> = std::mem::take(&mut service.post_start).iter().map(hook).collect();
    let pre_stop = match service.rest.remove("pre_stop") {
        Some(Value::Array(hooks)) => hooks.iter().filter_map(Value::as_object).map(hook).collect(),
        _ => Vec::new(),
    };
    claims.at(&["services", name, "post_start"], "hook", HOOKS);
    claims.at(&["services", name, "pre_stop"], "hook", HOOKS);
    let says = |hooks: Vec<Hook>| hooks.into_iter().filter(|hook| !hook.command.is_empty()).collect();
    (says(post_start), says(pre_stop))
}

fn hook(hook: &Object) -> Hook {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Hook {
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
    }
}

const CONTAINER_NAME: &str = "two containers cannot have one name; it lives on as an alias in the network";

/// A fixed container name aborts the second copy; it lives on as an alias.
pub(super) fn container_name(name: &str, service: &mut Service, claims: &mut Claims) {
    let Some(fixed) = service.container_name.take() else {
        return;
    };
    if service.network_mode.is_none() {
        if service.networks.is_empty() {
            service.networks.insert("default".to_owned(), None);
        }
        for (network, joined) in &mut service.networks {
            claims.at(&["services", name, "networks", network], "container-name", CONTAINER_NAME);
            let joined = joined.get_or_insert_default();
            let aliases = joined.entry("aliases").or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(aliases) = aliases
                && !aliases.contains(&Value::from(fixed.clone()))
            {
                aliases.push(Value::from(fixed.clone()));
            }
        }
    }
    claims.at(&["services", name, "container_name"], "container-name", CONTAINER_NAME);
}

/// After a restart of Docker, `always` starts every copy at once and in no order.
pub(super) fn restart(name: &str, service: &mut Service, claims: &mut Claims) {
    const REASON: &str = "the order after a restart of Docker is Sidestack's; a crash still restarts it";
    if let Some("always" | "unless-stopped") = service.restart.as_deref() {
        claims.at(&["services", name, "restart"], "restart", REASON);
        service.restart = Some("on-failure".to_owned());
    }
    let Some(deploy) = &mut service.deploy else {
        return;
    };
    let Some(policy) = deploy.remove("restart_policy") else {
        return;
    };
    let condition = policy.get("condition").and_then(Value::as_str).unwrap_or("any");
    claims.at(&["services", name, "deploy", "restart_policy"], "restart", REASON);
    if service.restart.is_none() && condition != "none" {
        claims.at(&["services", name, "restart"], "restart", REASON);
        service.restart = Some("on-failure".to_owned());
    }
}

/// Keys that matter to other programs only.
pub(super) fn left_out(name: &str, service: &mut Service, claims: &mut Claims) {
    service.profiles.clear();
    claims.at(&["services", name, "profiles"], "profile", "its profile is active");
    for (key, reason) in [
        ("develop", "`docker compose watch` reads it from the files"),
        ("env_file", "its variables stand in `environment`"),
        ("label_file", "its labels stand in `labels`"),
    ] {
        if service.rest.remove(key).is_some() {
            claims.at(&["services", name, key], "left-out", reason);
        }
    }
}
