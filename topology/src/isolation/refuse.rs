//! What is refused by name, because running it twice would share or break
//! something and no rule changes it yet.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Isolated;
use crate::compose::{Mount, Network, Project, Service, Volume};
use crate::diagnostic::Diagnostic;
use crate::placeholder;
use crate::plan::Delivery;

fn refused(path: &[&str], what: String, why: &str) -> Diagnostic {
    Diagnostic::error(path, what).hint(why.to_owned())
}

pub(super) fn project(model: &Project, faults: &mut Vec<Diagnostic>) {
    if model.rest.contains_key("models") {
        faults.push(refused(&["models"], "`models` are not supported".to_owned(), "run the model as a service"));
    }
    for (kind, objects) in [("secrets", &model.secrets), ("configs", &model.configs)] {
        for key in objects.iter().filter(|(_, object)| object.external).map(|(key, _)| key) {
            let message = format!("the external {} `{key}` exists in Swarm only", kind.trim_end_matches('s'));
            faults.push(refused(&[kind, key], message, "take it from a file, the environment or inline"));
        }
    }
}

pub(super) fn network(key: &str, network: &Network, faults: &mut Vec<Diagnostic>) {
    let path = ["networks", key];
    let what = format!("network `{key}`");
    reserved_labels(&["networks", key, "labels"], &what, network.labels.keys(), faults);
    if network.external {
        let message = format!("network `{key}` is external: every copy would share it");
        faults.push(refused(&path, message, "sharing by choice is not supported yet; make it a network of this stack"));
    }
    if network.ipam.get("config").and_then(Value::as_array).is_some_and(|config| !config.is_empty()) {
        let message = format!("network `{key}` fixes its subnet, which a second copy cannot have");
        faults.push(refused(
            &[path[0], path[1], "ipam"],
            message,
            "drop `ipam`: every instance gets a subnet of its own",
        ));
    }
    if let Some(driver) = network.driver.as_deref().filter(|driver| *driver != "bridge") {
        let message = format!("network `{key}` uses the driver `{driver}`, which is not supported yet");
        faults.push(refused(&[path[0], path[1], "driver"], message, "use a bridge"));
    }
    let options = network.rest.get("driver_opts").and_then(Value::as_object);
    if options.is_some_and(|options| options.contains_key("com.docker.network.bridge.name")) {
        let message = format!("network `{key}` fixes its bridge's name, which a second copy cannot have");
        faults.push(refused(&[path[0], path[1], "driver_opts"], message, "drop the name"));
    }
}

pub(super) fn volume(key: &str, volume: &Volume, faults: &mut Vec<Diagnostic>) {
    let what = format!("volume `{key}`");
    reserved_labels(&["volumes", key, "labels"], &what, volume.labels.keys(), faults);
    if volume.external {
        let message = format!("volume `{key}` is external: every copy would write to it");
        faults.push(refused(
            &["volumes", key],
            message,
            "sharing by choice is not supported yet; make it a volume of this stack",
        ));
    }
    let device = volume.rest.get("driver_opts").and_then(|options| options.get("device")).and_then(Value::as_str);
    if let Some(device) = device.filter(|device| *device != "tmpfs") {
        let message = format!("volume `{key}` is bound to `{device}`, which every copy would share");
        faults.push(refused(
            &["volumes", key, "driver_opts"],
            message,
            "drop `driver_opts`: every instance gets a volume of its own",
        ));
    }
}

pub(super) fn service(name: &str, service: &Service, faults: &mut Vec<Diagnostic>) {
    let what = format!("`{name}`");
    reserved_labels(&["services", name, "labels"], &what, service.labels.keys(), faults);
    let built = service.build.as_ref().and_then(|build| build.get("labels")).and_then(Value::as_object);
    let built = built.into_iter().flat_map(serde_json::Map::keys);
    reserved_labels(&["services", name, "build"], &format!("the build of {what}"), built, faults);
    for key in ["devices", "gpus", "device_cgroup_rules"] {
        if service.rest.get(key).is_some_and(|value| !value.is_null()) {
            let message = format!("`{name}` uses `{key}` of the host, which every copy shares");
            faults.push(Diagnostic::warning(&["services", name, key], message));
        }
    }
    let mut refuse = |key: &str, what: String, why: &str| {
        faults.push(refused(&["services", name, key], what, why));
    };
    for key in ["pid", "ipc", "uts", "cgroup", "userns_mode"] {
        match service.rest.get(key).and_then(Value::as_str) {
            Some("host") => {
                refuse(
                    key,
                    format!("`{name}` shares the host's {key} namespace"),
                    "consent to it is not supported yet",
                );
            }
            Some(other) if other.starts_with("container:") => {
                refuse(
                    key,
                    format!("`{name}` joins the {key} of a container outside the stack"),
                    "name a service of this stack",
                );
            }
            _ => {}
        }
    }
    if service.rest.get("privileged").and_then(Value::as_bool) == Some(true) {
        refuse(
            "privileged",
            format!("`{name}` is privileged, so it shares the host"),
            "consent to it is not supported yet",
        );
    }
    match service.network_mode.as_deref() {
        Some("host") => refuse(
            "network_mode",
            format!("`{name}` uses the host's network, where ports cannot be moved"),
            "use a bridge and publish its ports",
        ),
        Some(mode) if mode.starts_with("container:") => {
            refuse(
                "network_mode",
                format!("`{name}` joins the network of `{mode}`, outside the stack"),
                "use `service:NAME`",
            );
        }
        _ => {}
    }
    if service.rest.contains_key("external_links") {
        refuse(
            "external_links",
            format!("`{name}` links to a container outside the stack"),
            "use a service of this stack",
        );
    }
    for (key, what) in [
        ("provider", "a provider"),
        ("models", "models"),
        ("pre_stop", "`pre_stop` hooks"),
        ("credential_spec", "a credential spec"),
    ] {
        if service.rest.contains_key(key) {
            refuse(key, format!("`{name}` uses {what}, which is not supported yet"), "run it as an ordinary service");
        }
    }
    if service.rest.contains_key("mac_address") {
        refuse("mac_address", format!("`{name}` fixes a MAC address, which a second copy cannot have"), "drop it");
    }
    if service.labels.keys().any(|label| label.starts_with("traefik.")) {
        refuse(
            "labels",
            format!("`{name}` has Traefik labels: every copy would define the same routers"),
            "rewriting them is not supported yet",
        );
    }
    let from = service.rest.get("volumes_from").and_then(Value::as_array).into_iter().flatten();
    if from.filter_map(Value::as_str).any(|source| source.starts_with("container:")) {
        refuse(
            "volumes_from",
            format!("`{name}` takes volumes from a container outside the stack"),
            "name a service of this stack",
        );
    }
    for (network, joined) in &service.networks {
        let fixed = |key: &str| joined.as_ref().is_some_and(|joined| joined.contains_key(key));
        let keys = ["ipv4_address", "ipv6_address", "mac_address", "link_local_ips"];
        if let Some(key) = keys.into_iter().find(|key| fixed(key)) {
            let message = format!("`{name}` fixes its `{key}` in network `{network}`, which a second copy cannot have");
            refuse("networks", message, "drop it: services find each other by name");
        }
    }
    for mount in &service.volumes {
        if let Some((what, why)) = host_state(name, mount) {
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

/// A bind outside the checkout is state that every copy would share.
fn host_state(name: &str, mount: &Mount) -> Option<(String, &'static str)> {
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
    if mount.kind != "bind" {
        return None;
    }
    let source = mount.source.as_deref().unwrap_or_default();
    let inside = source
        .strip_prefix(placeholder::CHECKOUT)
        .is_some_and(|rest| (rest.is_empty() || rest.starts_with('/')) && !rest.split('/').any(|part| part == ".."));
    if inside {
        return None;
    }
    let shown = source.replace(placeholder::CHECKOUT, ".");
    if source.ends_with("docker.sock") {
        return Some((
            format!("`{name}` mounts Docker's socket, which reaches every copy"),
            "consent to it is not supported yet",
        ));
    }
    Some((
        format!("`{name}` mounts `{shown}` from outside the stack's folder, which every copy would share"),
        "move it into the folder or use a volume; consent to it is not supported yet",
    ))
}

/// Values that name a host port of the stack itself would point at another copy.
pub(super) fn self_addresses(isolated: &Isolated, faults: &mut Vec<Diagnostic>) {
    let own: BTreeSet<u16> = isolated.publishes.iter().filter_map(|publish| publish.own).collect();
    if own.is_empty() {
        return;
    }
    for (name, foreign) in &isolated.services {
        for (variable, value) in &foreign.compose.environment {
            let hit = value.iter().flat_map(|value| host_ports(value)).find(|port| own.contains(port));
            let Some(port) = hit else { continue };
            let message =
                format!("`{variable}` of `{name}` names the stack's own host port {port}, which differs in every copy");
            let fault = Diagnostic::error(&["services", name, "environment", variable], message);
            faults.push(fault.hint("rewriting it is not supported yet; name the service and its container port"));
        }
    }
}

/// The ports of this machine that a text names.
fn host_ports(value: &str) -> impl Iterator<Item = u16> {
    const HOSTS: [&str; 4] = ["localhost", "127.0.0.1", "0.0.0.0", "host.docker.internal"];
    value.match_indices(':').filter_map(|(at, _)| {
        let host = HOSTS.into_iter().find(|host| value[..at].ends_with(host))?;
        let before = value[..at - host.len()].chars().next_back();
        if before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-') {
            return None;
        }
        let digits = &value[at + 1..];
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().ok()
    })
}
