//! What is refused by name, because running it twice would share or break
//! something and no rule changes it yet.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::compose::{Mount, Network, Project, Service, Volume};
use crate::diagnostic::Diagnostic;
use crate::plan::Delivery;

fn refused(path: &[&str], what: String, why: &str) -> Diagnostic {
    Diagnostic::error(path, what).hint(why.to_owned())
}

/// `services` are those that run.
pub(super) fn project(model: &Project, services: &BTreeMap<String, Service>, faults: &mut Vec<Diagnostic>) {
    if model.rest.contains_key("models") {
        faults.push(refused(&["models"], "`models` are not supported".to_owned(), "run the model as a service"));
    }
    for (kind, objects) in [("secrets", &model.secrets), ("configs", &model.configs)] {
        let used = |key: &String| {
            services.values().any(|service| {
                let grants = if kind == "secrets" { &service.secrets } else { &service.configs };
                grants.iter().any(|grant| grant.source == *key)
            })
        };
        for key in objects.iter().filter(|(key, object)| object.external && used(key)).map(|(key, _)| key) {
            let message = format!("the external {} `{key}` exists in Swarm only", kind.trim_end_matches('s'));
            faults.push(refused(&[kind, key], message, "take it from a file, the environment or inline"));
        }
    }
}

pub(super) fn network(key: &str, network: &Network, faults: &mut Vec<Diagnostic>) {
    let what = format!("network `{key}`");
    reserved_labels(&["networks", key, "labels"], &what, network.labels.keys(), faults);
}

pub(super) fn volume(key: &str, volume: &Volume, faults: &mut Vec<Diagnostic>) {
    let what = format!("volume `{key}`");
    reserved_labels(&["volumes", key, "labels"], &what, volume.labels.keys(), faults);
}

pub(super) fn service(name: &str, service: &Service, faults: &mut Vec<Diagnostic>) {
    let what = format!("`{name}`");
    reserved_labels(&["services", name, "labels"], &what, service.labels.keys(), faults);
    let built = service.build.as_ref().and_then(|build| build.get("labels")).and_then(Value::as_object);
    let built = built.into_iter().flat_map(serde_json::Map::keys);
    reserved_labels(&["services", name, "build"], &format!("the build of {what}"), built, faults);
    if service.rest.get("runtime").is_some_and(|runtime| runtime == "nvidia") {
        let message = format!("`{name}` uses the GPUs of the host, which every copy shares");
        faults.push(Diagnostic::warning(&["services", name, "runtime"], message));
    }
    for key in ["devices", "gpus", "device_cgroup_rules"] {
        if service.rest.get(key).is_some_and(|value| !value.is_null()) {
            let message = format!("`{name}` uses `{key}` of the host, which every copy shares");
            faults.push(Diagnostic::warning(&["services", name, key], message));
        }
    }
    let resources = service.deploy.as_ref().and_then(|deploy| deploy.get("resources"));
    let reserved = resources.and_then(|resources| resources.get("reservations")?.get("devices"));
    if reserved.and_then(Value::as_array).is_some_and(|devices| !devices.is_empty()) {
        let message = format!("`{name}` reserves devices of the host, which every copy shares");
        faults.push(Diagnostic::warning(&["services", name, "deploy"], message));
    }
    let mut refuse = |key: &str, what: String, why: &str| {
        faults.push(refused(&["services", name, key], what, why));
    };
    for (key, what) in [("provider", "a provider"), ("models", "models"), ("credential_spec", "a credential spec")] {
        if service.rest.contains_key(key) {
            refuse(key, format!("`{name}` uses {what}, which is not supported yet"), "run it as an ordinary service");
        }
    }
    let fixed =
        |joined: &crate::compose::Object| joined.contains_key("ipv4_address") || joined.contains_key("ipv6_address");
    if service.replicas() > 1 && service.networks.values().flatten().any(fixed) {
        let what = format!("`{name}` has {} containers and one fixed address", service.replicas());
        refuse("networks", what, "only one container can have it: take the address out, or run one");
    }
    for mount in &service.volumes {
        if let Some((what, why)) = unmountable(name, mount) {
            refuse("volumes", what, why);
        }
    }
}

/// Labels by which Sidestack and Compose know what is theirs.
fn reserved_labels<'a>(
    path: &[&str],
    what: &str,
    labels: impl Iterator<Item = &'a String>,
    faults: &mut Vec<Diagnostic>,
) {
    for label in labels {
        if ["dev.sidestack.", "com.docker.compose."].iter().any(|own| label.starts_with(own)) {
            let message = format!("{what} sets the label `{label}`, which tells what belongs to whom");
            faults.push(refused(path, message, "drop the label"));
        }
    }
}

/// A file put under a tmpfs cannot be seen in the container.
pub(super) fn hidden_deliveries(name: &str, service: &Service, deliveries: &[Delivery], faults: &mut Vec<Diagnostic>) {
    let short: Vec<&str> = match service.rest.get("tmpfs") {
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(one)) => vec![one],
        _ => Vec::new(),
    };
    let short = short.into_iter().map(|text| text.split(':').next().unwrap_or_default());
    let long = service.volumes.iter().filter(|mount| mount.kind == "tmpfs");
    let mounts: Vec<&str> = short.chain(long.map(|mount| mount.target.as_str())).collect();
    for delivery in deliveries {
        let under = |mount: &&str| {
            let mount = mount.trim_end_matches('/');
            delivery.path.strip_prefix(mount).is_some_and(|rest| rest.starts_with('/'))
        };
        if let Some(mount) = mounts.iter().copied().find(under) {
            let message = format!(
                "`{}` of `{name}` would stand under the tmpfs `{mount}`, where it cannot be seen",
                delivery.path
            );
            faults.push(refused(
                &["services", name, "tmpfs"],
                message,
                "give it another target, or take it from a file: that is mounted",
            ));
        }
    }
}

/// What no Linux container can mount.
fn unmountable(name: &str, mount: &Mount) -> Option<(String, &'static str)> {
    if mount.kind == "npipe" || mount.kind == "cluster" {
        return Some((format!("`{name}` mounts a `{}`, which is not supported", mount.kind), "use a volume"));
    }
    let target = mount.target.as_bytes();
    if target.len() > 2 && target[1] == b':' && target[0].is_ascii_alphabetic() {
        return Some((
            format!(
                "`{name}` mounts `{}`: Compose takes a volume's name of one letter for a Windows drive",
                mount.target
            ),
            "give the volume a longer name",
        ));
    }
    None
}
