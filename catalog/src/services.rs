//! The services of a module: references between them, paths, times, health.

use std::collections::{BTreeMap, BTreeSet};

use sidestack_topology::module::{Fragment, Health};
use sidestack_topology::units::parse_duration_ms;

use crate::faults::Faults;
use crate::grammar::{self, Grammar};
use crate::raw::{RawHealth, RawModule, RawService};
use crate::resolve::{known_service, size};

/// The services, resolved.
pub(crate) fn resolve(raw: &RawModule, faults: &mut Faults) -> BTreeMap<String, Fragment> {
    let keys: Vec<&str> = raw.services.keys().map(String::as_str).collect();
    if !raw.services.contains_key("main") {
        faults.hinted(
            &["services"],
            "there is no service `main`",
            "the service that gets the resource's name is called `main`",
        );
    }
    let given: BTreeSet<&str> =
        raw.services.values().flat_map(|service| service.files.iter().map(String::as_str)).collect();
    for file in raw.files.keys().filter(|file| !given.contains(file.as_str())) {
        faults.hinted(
            &["files", file],
            format!("no service gets the file `{file}`"),
            format!("name it under `files: [{file}]` of a service"),
        );
    }
    let services =
        raw.services.iter().map(|(key, service)| (key.clone(), fragment(raw, key, service, &keys, faults))).collect();
    cycles(raw, faults);
    services
}

fn fragment(module: &RawModule, key: &str, raw: &RawService, services: &[&str], faults: &mut Faults) -> Fragment {
    let at = |part| ["services", key, part];
    grammar::check(faults, &["services", key], key, Grammar::DASHED, "a service");
    for name in raw.environment.keys() {
        let path = ["services", key, "environment", name];
        grammar::check(faults, &path, name, Grammar::CONTAINER_VARIABLE, "a variable");
    }
    for name in raw.volumes.keys() {
        grammar::check(faults, &["services", key, "volumes", name], name, Grammar::ANY, "a volume");
    }
    for name in raw.secrets.keys() {
        let path = ["services", key, "secrets", name];
        grammar::check(faults, &path, name, Grammar::FILE, "a secret file");
    }
    for (part, names) in [("cap-add", &raw.cap_add), ("cap-drop", &raw.cap_drop)] {
        for (index, name) in names.iter().enumerate() {
            let index = index.to_string();
            let path = ["services", key, part, index.as_str()];
            grammar::check(faults, &path, name, Grammar::CAPABILITY, "a capability");
        }
    }
    for (index, file) in raw.files.iter().enumerate() {
        if !module.files.contains_key(file) {
            let index = index.to_string();
            let path = ["services", key, "files", index.as_str()];
            let known = module.files.keys().map(String::as_str);
            faults.unknown(&path, format!("there is no file `{file}` in this module"), file, known);
        }
    }
    for (index, other) in raw.depends_on.iter().enumerate() {
        let index = index.to_string();
        known_service(&["services", key, "depends-on", &index], other, services, faults);
    }
    if let Some(signal) = &raw.stop_signal {
        grammar::check(faults, &at("stop-signal"), signal, Grammar::SIGNAL, "a signal");
    }
    if let Some(folder) = &raw.working_dir {
        grammar::path(faults, &at("working-dir"), folder);
    }
    mounts(module, key, raw, faults);
    let grace = raw.stop_grace_period.as_ref().map(|text| {
        let ms = duration(text, &at("stop-grace-period"), faults);
        if !ms.is_multiple_of(1_000) {
            faults.add(&at("stop-grace-period"), "only whole seconds can be had here");
        }
        u32::try_from(ms / 1_000).unwrap_or(u32::MAX)
    });
    Fragment {
        image: raw.image.clone(),
        command: raw.command.clone(),
        entrypoint: raw.entrypoint.clone(),
        environment: raw.environment.clone(),
        volumes: raw.volumes.clone(),
        secrets: raw.secrets.clone(),
        files: raw.files.clone(),
        healthcheck: raw.healthcheck.as_ref().map(|raw| health(key, raw, faults)),
        depends_on: raw.depends_on.clone(),
        user: raw.user.clone(),
        working_dir: raw.working_dir.clone(),
        read_only: raw.read_only,
        tmpfs: raw.tmpfs.clone(),
        shm_size: raw.shm_size.as_ref().map(|raw| size(raw, &at("shm-size"), faults)),
        stop_signal: raw.stop_signal.clone(),
        stop_grace_period: grace,
        init: raw.init,
        cap_add: raw.cap_add.clone(),
        cap_drop: raw.cap_drop.clone(),
    }
}

/// Everything that is put somewhere in the container, and whether it can be.
fn mounts(module: &RawModule, key: &str, raw: &RawService, faults: &mut Faults) {
    let mut taken: BTreeMap<&str, String> = BTreeMap::new();
    let mut hidden: Vec<&str> = Vec::new();
    for (name, path) in &raw.volumes {
        let at = ["services", key, "volumes", name];
        grammar::path(faults, &at, path);
        if let Some(other) = taken.insert(path, format!("the volume `{name}`")) {
            faults.add(&at, format!("{other} stands at `{path}` already"));
        }
    }
    for (index, mount) in raw.tmpfs.iter().enumerate() {
        let index = index.to_string();
        let at = ["services", key, "tmpfs", index.as_str()];
        let path = mount.split(':').next().unwrap_or_default();
        grammar::path(faults, &at, path);
        if let Some(other) = taken.insert(path, "a tmpfs".to_owned()) {
            faults.add(&at, format!("{other} stands at `{path}` already"));
        }
        hidden.push(path);
    }
    let secrets = raw.secrets.keys().map(|name| {
        let at = vec!["services", key, "secrets", name];
        (at, format!("/run/secrets/{name}"))
    });
    let files = raw.files.iter().filter_map(|name| {
        let path = module.files.get(name)?.path.clone();
        Some((vec!["files", name, "path"], path))
    });
    let mut placed: BTreeSet<String> = BTreeSet::new();
    for (at, path) in secrets.chain(files) {
        if raw.read_only {
            faults.add(&at, format!("`{key}` is read-only, so nothing can be put at `{path}`"));
        }
        let below = |mount: &&&str| path.strip_prefix(**mount).is_some_and(|rest| rest.starts_with('/'));
        if let Some(mount) = hidden.iter().find(below) {
            faults.add(&at, format!("the tmpfs at `{mount}` would hide `{path}`"));
        }
        if !placed.insert(path.clone()) || taken.contains_key(path.as_str()) {
            faults.add(&at, format!("something stands at `{path}` in `{key}` already"));
        }
    }
}

fn duration(text: &str, path: &[&str], faults: &mut Faults) -> u64 {
    parse_duration_ms(text).unwrap_or_else(|| {
        faults.add(path, format!("expected a duration such as `5s`, found `{text}`"));
        0
    })
}

fn health(key: &str, raw: &RawHealth, faults: &mut Faults) -> Health {
    let at = |part| ["services", key, "healthcheck", part];
    let sound = match raw.test.first().map(String::as_str) {
        Some("CMD") => raw.test.len() > 1,
        Some("CMD-SHELL") => raw.test.len() == 2,
        _ => false,
    };
    if !sound {
        faults.add(&at("test"), "expected `[CMD, PROGRAM, …]` or `[CMD-SHELL, \"COMMAND\"]`");
    }
    let mut time = |part, text: &Option<String>, otherwise, least| match text {
        None => otherwise,
        Some(text) => {
            let before = faults.count();
            let ms = duration(text, &at(part), faults);
            if ms < least && faults.count() == before {
                faults.add(&at(part), "must be longer than 0");
            }
            ms
        }
    };
    let interval_ms = time("interval", &raw.interval, 5_000, 1);
    let timeout_ms = time("timeout", &raw.timeout, 5_000, 1);
    let start_period_ms = time("start-period", &raw.start_period, 60_000, 0);
    let retries = raw.retries.unwrap_or(6);
    if retries == 0 {
        faults.add(&at("retries"), "must be 1 at least");
    }
    Health { test: raw.test.clone(), interval_ms, timeout_ms, retries, start_period_ms }
}

/// Services that wait for themselves, through however many others.
fn cycles(raw: &RawModule, faults: &mut Faults) {
    let mut told: BTreeSet<&str> = BTreeSet::new();
    for start in raw.services.keys() {
        if told.contains(start.as_str()) {
            continue;
        }
        if let Some(way) = way_back(raw, start) {
            told.extend(&way);
            let message = format!("a circle: `{}` waits for `{start}`", way.join("` waits for `"));
            faults.add(&["services", start, "depends-on"], message);
        }
    }
}

/// The services from `start` on whose last waits for `start` again.
fn way_back<'a>(raw: &'a RawModule, start: &'a str) -> Option<Vec<&'a str>> {
    let mut seen = BTreeSet::from([start]);
    let mut open = vec![vec![start]];
    while let Some(way) = open.pop() {
        let last = raw.services.get(*way.last()?);
        for next in last.into_iter().flat_map(|service| &service.depends_on) {
            if next == start {
                return Some(way);
            }
            if seen.insert(next) {
                open.push(way.iter().copied().chain([next.as_str()]).collect());
            }
        }
    }
    None
}
