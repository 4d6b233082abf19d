//! What cannot be isolated: things of this machine that every copy would share.
//!
//! The first copy runs with a warning, as it would under Compose. What a second
//! one needs is each item's [`Answer`].

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::compose::{Mount, Project, Service};
use crate::diagnostic::Diagnostic;
use crate::plan::{Answer, Shared};
use crate::{placeholder, secret};

/// Collects items.
pub(super) struct Found<'a> {
    pub(super) items: &'a mut Vec<Shared>,
    /// Files of the checkout and the services that may write to them.
    pub(super) inside: &'a mut BTreeMap<String, BTreeSet<String>>,
}

impl Found<'_> {
    pub(super) fn add(&mut self, path: &[&str], item: String, what: String, answer: Answer) {
        let path = path.iter().map(|&part| part.to_owned()).collect();
        self.items.push(Shared { item, path, what, answer });
    }
}

/// The warnings with which a first copy runs.
pub(super) fn warnings(items: &[Shared], faults: &mut Vec<Diagnostic>) {
    faults.extend(items.iter().filter(|shared| shared.answer != Answer::Agreed).map(Shared::warning));
}

/// Namespaces, privileges, mounts and containers from outside.
pub(super) fn service(name: &str, service: &Service, found: &mut Found<'_>) {
    let text = |key: &str| service.rest.get(key).and_then(Value::as_str);
    for key in ["pid", "ipc", "uts", "cgroup", "userns_mode"] {
        match text(key) {
            Some("host") => {
                let what = format!("`{name}` shares the host's {key} namespace");
                found.add(&["services", name, key], format!("{name}:{key}"), what, Answer::Consent);
            }
            Some(other) => outside_container(name, key, other, found),
            None => {}
        }
    }
    if service.rest.get("privileged").and_then(Value::as_bool) == Some(true) {
        let what = format!("`{name}` is privileged: it can do with this machine what it likes");
        found.add(&["services", name, "privileged"], format!("{name}:privileged"), what, Answer::Consent);
    }
    if service.rest.get("use_api_socket").and_then(Value::as_bool) == Some(true) {
        let what = format!("`{name}` gets Docker's socket, which reaches every copy");
        found.add(&["services", name, "use_api_socket"], format!("{name}:use_api_socket"), what, Answer::Consent);
    }
    match service.network_mode.as_deref() {
        Some("host") => {
            let what = format!("`{name}` uses the host's network, and nothing says on which ports");
            found.add(&["services", name, "network_mode"], format!("{name}:network_mode"), what, Answer::Exclusive);
        }
        Some(mode) => outside_container(name, "network_mode", mode, found),
        None => {}
    }
    for (key, prefix) in [("external_links", ""), ("volumes_from", "container:")] {
        for entry in service.rest.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            let Some(rest) = entry.strip_prefix(prefix) else { continue };
            let other = rest.split(':').next().unwrap_or_default();
            let what = format!("`{name}` uses the container `{other}`, which is not of this stack");
            found.add(&["services", name, key], format!("{name}:container:{other}"), what, Answer::Consent);
        }
    }
    for mount in &service.volumes {
        bind(name, mount, found);
    }
}

fn outside_container(name: &str, key: &str, mode: &str, found: &mut Found<'_>) {
    if let Some(other) = mode.strip_prefix("container:") {
        let what = format!("`{name}` joins the {key} of the container `{other}`, which is not of this stack");
        found.add(&["services", name, key], format!("{name}:container:{other}"), what, Answer::Consent);
    }
}

/// A path that is not inside the checkout.
pub(super) fn outside(source: &str) -> bool {
    !source
        .strip_prefix(placeholder::CHECKOUT)
        .is_some_and(|rest| (rest.is_empty() || rest.starts_with('/')) && !rest.split('/').any(|part| part == ".."))
}

/// As the user writes it: `../data`, `/srv/data`. Of a secret in it the reference is shown.
pub(super) fn written(source: &str) -> String {
    let source = secret::shown(source);
    source.strip_prefix(placeholder::CHECKOUT).map_or_else(
        || source.clone(),
        |rest| if rest.is_empty() { ".".to_owned() } else { rest.trim_start_matches('/').to_owned() },
    )
}

fn bind(name: &str, mount: &Mount, found: &mut Found<'_>) {
    let source = mount.source.as_deref().unwrap_or_default();
    if mount.kind != "bind" {
        return;
    }
    let shown = written(source);
    if !outside(source) {
        if !mount.read_only {
            found.inside.entry(shown).or_default().insert(name.to_owned());
        }
        return;
    }
    let what = if source.ends_with("docker.sock") {
        format!("`{name}` mounts Docker's socket, which reaches every copy")
    } else {
        format!("`{name}` mounts `{shown}` from outside the stack's folder")
    };
    // A folder beside the checkout is another one for a worktree elsewhere.
    let answer = if source.starts_with(placeholder::CHECKOUT) { Answer::ConsentHere } else { Answer::Consent };
    found.add(&["services", name, "volumes"], format!("{name}:{shown}"), what, answer);
}

/// Networks and volumes that stand in the host's own, whatever their names are.
pub(super) fn project(model: &Project, found: &mut Found<'_>) {
    for (key, network) in &model.networks {
        let driver = network.as_ref().filter(|network| !network.external).and_then(|network| network.driver.as_deref());
        if let Some(driver) = driver.filter(|driver| !matches!(*driver, "bridge" | "overlay" | "none" | "host")) {
            let what =
                format!("network `{key}` uses the driver `{driver}`, which puts it into the machine's own network");
            found.add(&["networks", key, "driver"], format!("network:{key}"), what, Answer::Exclusive);
        }
    }
    for (key, volume) in &model.volumes {
        let Some(volume) = volume.as_ref().filter(|volume| !volume.external) else { continue };
        let options = volume.rest.get("driver_opts").and_then(Value::as_object);
        let driver = volume.rest.get("driver").and_then(Value::as_str).filter(|driver| *driver != "local");
        if let (Some(driver), Some(_)) = (driver, options.filter(|options| !options.is_empty())) {
            let what =
                format!("volume `{key}` is kept by the driver `{driver}`, which may give every copy the same data");
            found.add(&["volumes", key, "driver"], format!("volume:{key}"), what, Answer::Consent);
        }
        let device = options.and_then(|options| options.get("device")).and_then(Value::as_str);
        if let Some(device) = device.filter(|device| *device != "tmpfs" && outside(device)) {
            let what = format!("volume `{key}` is bound to `{}`", written(device));
            found.add(&["volumes", key, "driver_opts"], format!("volume:{key}"), what, Answer::Consent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::{Encoding, token};

    #[test]
    fn a_path_is_shown_as_it_is_written_and_a_secret_by_its_reference() {
        let source = |rest: &str| format!("{}{rest}", placeholder::CHECKOUT);
        for (from, to) in [(source(""), "."), (source("/data"), "data"), ("/srv".to_owned(), "/srv")] {
            assert_eq!(written(&from), to);
        }
        let secret = source(&format!("/{}", token("env:DIR", Encoding::Raw)));
        assert_eq!(written(&secret), "‹env:DIR›");
    }
}
