//! What services are to each other: order, shared namespaces, old names.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::claim::{Claims, pointer};
use crate::compose::{Condition, Dependency, Service};
use crate::diagnostic::{Diagnostic, nearest};
use crate::placeholder::PROJECT;

type Services = BTreeMap<String, Service>;

/// `container:NAME` and an external link of a container of this very stack mean
/// its service, since no container keeps its name.
pub(super) fn container_names(services: &mut Services, claims: &mut Claims) {
    const REASON: &str = "the container is this stack's own, and its name is its first copy's";
    let mut names = BTreeMap::new();
    for (name, service) in services.iter() {
        // What Compose calls it, now and before.
        for own in ["-", "_"].map(|dash| format!("{PROJECT}{dash}{name}{dash}1")) {
            names.insert(own, name.clone());
        }
        names.extend(service.container_name.clone().map(|own| (own, name.clone())));
    }
    let own = |value: &str| {
        let (name, rest) = value
            .strip_prefix("container:")?
            .split_once(':')
            .map_or_else(|| (value.strip_prefix("container:").unwrap_or_default(), ""), |(name, rest)| (name, rest));
        Some((names.get(name)?.as_str(), rest.to_owned()))
    };
    for (name, service) in services.iter_mut() {
        let mut told = |path: &str| claims.at(&["services", name, path], "container-reference", REASON);
        if let Some(mode) = &mut service.network_mode
            && let Some((other, _)) = own(mode)
        {
            let to = format!("service:{other}");
            told("network_mode");
            *mode = to;
        }
        for key in ["pid", "ipc"] {
            if let Some(Value::String(mode)) = service.rest.get_mut(key)
                && let Some((other, _)) = own(mode)
            {
                let to = format!("service:{other}");
                told(key);
                *mode = to;
            }
        }
        if let Some(Value::Array(sources)) = service.rest.get_mut("volumes_from") {
            for source in sources {
                let Value::String(text) = source else {
                    continue;
                };
                let Some((other, rest)) = own(text) else {
                    continue;
                };
                let to = if rest.is_empty() { other.to_owned() } else { format!("{other}:{rest}") };
                told("volumes_from");
                *text = to;
            }
        }
        external_links(service, &names, &mut told);
    }
}

/// An external link finds a container by its name on the whole machine; a link finds a service of the stack.
fn external_links(service: &mut Service, names: &BTreeMap<String, String>, told: &mut impl FnMut(&str)) {
    let Some(Value::Array(outer)) = service.rest.get_mut("external_links") else { return };
    let mut links = Vec::new();
    outer.retain(|entry| {
        let text = entry.as_str().unwrap_or_default();
        let (name, alias) = text.split_once(':').unwrap_or((text, text));
        let own = names.get(name).map(|other| format!("{other}:{alias}"));
        let stays = own.is_none();
        links.extend(own.map(Value::from));
        stays
    });
    if links.is_empty() {
        return;
    }
    if outer.is_empty() {
        service.rest.remove("external_links");
    }
    told("external_links");
    told("links");
    let all = service.rest.entry("links").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(all) = all {
        all.extend(links);
    }
}

/// The services that one cannot be made without, and the key that says so.
fn shares(service: &Service) -> Vec<(&'static str, String)> {
    let joined = service.joined().map(|(other, joint)| (joint.key(), other));
    let links = service.rest.get("links").and_then(Value::as_array).into_iter().flatten();
    let links = links.filter_map(|link| Some(("links", link.as_str()?.split(':').next()?)));
    joined.chain(links).filter(|(_, other)| !other.is_empty()).map(|(key, other)| (key, other.to_owned())).collect()
}

/// What is shared must be there first, as Compose has it too.
pub(super) fn implied(services: &mut Services) {
    for service in services.values_mut() {
        for (_, other) in shares(service) {
            service.depends_on.entry(other).or_insert(Dependency {
                condition: Condition::Started,
                required: true,
                restart: false,
            });
        }
    }
}

/// A dependency that is nowhere.
pub(super) fn missing(services: &Services, active: &BTreeSet<&str>, faults: &mut Vec<Diagnostic>) {
    for (name, service) in services.iter().filter(|(name, _)| active.contains(name.as_str())) {
        for (other, dependency) in &service.depends_on {
            if !dependency.required || services.contains_key(other) {
                continue;
            }
            let key = shares(service).into_iter().find(|(_, shared)| shared == other);
            let key = key.map_or("depends_on", |(key, _)| key);
            let message = format!("`{name}` needs the service `{other}`, which does not exist");
            let fault = Diagnostic::error(&["services", name, key], message);
            faults.push(match nearest(other, services.keys().map(String::as_str)) {
                Some(near) => fault.hint(format!("did you mean `{near}`?")),
                None => {
                    fault.hint("name a service of the compose files, or take it away; a resource is given by `inject`")
                }
            });
        }
    }
}

/// Nobody waits for what has no container.
pub(super) fn unscaled(services: &mut Services, claims: &mut Claims) {
    let empty: BTreeSet<String> =
        services.iter().filter(|(_, service)| service.replicas() == 0).map(|(name, _)| name.clone()).collect();
    for (name, service) in services.iter_mut() {
        let shared: Vec<String> = shares(service).into_iter().map(|(_, other)| other).collect();
        service.depends_on.retain(|other, _| {
            let waits = !empty.contains(other) || shared.contains(other);
            if !waits {
                let path = pointer(&["services", name, "depends_on", other]);
                claims.claim(path, "scale", "nobody waits for what has no container");
            }
            waits
        });
    }
}

/// A namespace that is shared belongs to the service that it is shared with.
pub(super) fn shared_network(name: &str, service: &Service, faults: &mut Vec<Diagnostic>) {
    let Some(mode) = service.network_mode.as_deref() else {
        return;
    };
    if !service.ports.is_empty() && mode != "host" && mode != "bridge" {
        let message = format!("`{name}` publishes ports, but its network is `{mode}`");
        let fault = Diagnostic::error(&["services", name, "ports"], message);
        faults.push(match mode.strip_prefix("service:") {
            Some(other) => fault.hint(format!("publish them on `{other}`")),
            None => fault.hint("drop `network_mode` or the ports"),
        });
    }
    if !service.networks.is_empty() {
        let message = format!("`{name}` has `networks` and `network_mode: {mode}`");
        let fault = Diagnostic::error(&["services", name, "networks"], message);
        faults.push(fault.hint("only one of them can be"));
    }
}
