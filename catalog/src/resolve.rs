//! From the raw module to the one the planner works with, and what is wrong on the way.
//!
//! A fault never ends the work: something harmless stands in for what is wrong,
//! so that one look finds everything. Templates come after, in [`crate::templates`].

use std::collections::{BTreeMap, BTreeSet};

use sidestack_topology::module::{
    Characteristic, Credential, EngineVersion, FileTemplate, Module, Port, Provision, Setting, SettingKind, Variables,
};
use sidestack_topology::pattern::Pattern;
use sidestack_topology::units::parse_size;

use crate::faults::Faults;
use crate::grammar::{self, Grammar};
use crate::raw::{RawCharacteristic, RawFile, RawModule, RawProvision, RawSetting, RawType, Scalar};
use crate::services;

/// The only version of the format there is.
const FORMAT: i64 = 1;

/// The module that a raw one means; usable when nothing was added to `faults`.
pub(crate) fn module(raw: RawModule, faults: &mut Faults) -> Module {
    if raw.module != FORMAT {
        faults.hinted(
            &["module"],
            format!("format {} is not known", raw.module),
            format!("this version of Sidestack reads format {FORMAT}"),
        );
    }
    grammar::check(faults, &["name"], &raw.name, Grammar::DASHED, "the name");
    summary(faults, &["summary"], &raw.summary);
    capabilities(&raw.provides, faults);
    let mut arrangements = BTreeSet::new();
    for (index, arrangement) in raw.arrangements.iter().enumerate() {
        if !arrangements.insert(*arrangement) {
            let path = ["arrangements", &index.to_string()];
            faults.add(&path, format!("`{arrangement}` stands here twice"));
        }
    }
    if raw.arrangements.is_empty() {
        faults.add(&["arrangements"], "there must be one arrangement at least");
    }

    let service_keys: Vec<&str> = raw.services.keys().map(String::as_str).collect();
    let versions = versions(&raw, faults);
    let characteristics =
        raw.characteristics.iter().map(|(key, value)| (key.clone(), characteristic(key, value, faults))).collect();
    let settings = raw.settings.iter().map(|(key, value)| (key.clone(), setting(key, value, faults))).collect();
    for key in raw.credentials.keys() {
        grammar::check(faults, &["credentials", key], key, Grammar::UNDERSCORED, "a credential");
    }
    let ports = ports(&raw, &service_keys, faults);
    let provisions =
        raw.provisions.iter().map(|(key, value)| (key.clone(), provision(key, value, &service_keys, faults))).collect();
    let variables = variables(&raw, faults);
    let files = raw.files.iter().map(|(key, value)| (key.clone(), file(key, value, faults))).collect();
    let services = services::resolve(&raw, faults);

    Module {
        name: raw.name,
        summary: raw.summary,
        provides: raw.provides,
        preference: raw.preference,
        versions,
        characteristics,
        arrangements: raw.arrangements,
        settings,
        credentials: raw
            .credentials
            .into_iter()
            .map(|(key, value)| {
                let (default, secret) = (value.default, value.secret);
                (key, Credential { default, secret })
            })
            .collect(),
        ports,
        services,
        provisions,
        variables,
        files,
        exercised: raw.exercised,
    }
}

fn summary(faults: &mut Faults, path: &[&str], text: &str) {
    if text.trim().is_empty() || text.contains('\n') {
        faults.add(path, "the summary must be one line");
    }
}

fn capabilities(provides: &[String], faults: &mut Faults) {
    if provides.is_empty() {
        faults.add(&["provides"], "a module must provide one capability at least");
    }
    let mut seen = BTreeSet::new();
    for (index, capability) in provides.iter().enumerate() {
        let index = index.to_string();
        let path = ["provides", index.as_str()];
        grammar::check(faults, &path, capability, Grammar::DASHED, "a capability");
        if !seen.insert(capability) {
            faults.add(&path, format!("`{capability}` stands here twice"));
        }
    }
}

fn versions(raw: &RawModule, faults: &mut Faults) -> Vec<EngineVersion> {
    if raw.versions.is_empty() {
        faults.add(&["versions"], "there must be one version at least");
    }
    let mut seen = BTreeSet::new();
    for (index, version) in raw.versions.iter().enumerate() {
        let index = index.to_string();
        let at = |key| ["versions", index.as_str(), key];
        grammar::check(faults, &at("version"), &version.version, Grammar::VERSION, "a version");
        if let Some(format) = &version.data_format {
            grammar::check(faults, &at("data-format"), format, Grammar::VERSION, "a data format");
        }
        if !seen.insert(&version.version) {
            let message = format!("version `{}` stands here twice", version.version);
            faults.add(&at("version"), message);
        }
        grammar::image(faults, &at("image"), &version.image);
    }
    raw.versions
        .iter()
        .map(|version| EngineVersion {
            version: version.version.clone(),
            image: version.image.clone(),
            data_format: version.data_format.clone().unwrap_or_else(|| version.version.clone()),
        })
        .collect()
}

fn characteristic(key: &str, raw: &RawCharacteristic, faults: &mut Faults) -> Characteristic {
    let path = ["characteristics", key];
    grammar::check(faults, &path, key, Grammar::DASHED, "a characteristic");
    match raw {
        RawCharacteristic::Is(value) => Characteristic::Is(*value),
        RawCharacteristic::AtMost(amount) => {
            let path = ["characteristics", key, "at-most"];
            Characteristic::AtMost(size(&amount.at_most, &path, faults))
        }
    }
}

/// A size as bytes, or 0 and a fault.
pub(crate) fn size(raw: &Scalar, path: &[&str], faults: &mut Faults) -> u64 {
    let bytes = match raw {
        Scalar::Text(text) => parse_size(text),
        Scalar::Integer(number) => u64::try_from(*number).ok(),
        Scalar::Bool(_) => None,
    };
    bytes.unwrap_or_else(|| {
        let message = format!("expected a size such as `128MiB`, found `{}`", shown(raw));
        faults.add(path, message);
        0
    })
}

fn shown(raw: &Scalar) -> String {
    match raw {
        Scalar::Bool(value) => value.to_string(),
        Scalar::Integer(number) => number.to_string(),
        Scalar::Text(text) => text.clone(),
    }
}

fn setting(key: &str, raw: &RawSetting, faults: &mut Faults) -> Setting {
    let at = |part| ["settings", key, part];
    grammar::check(faults, &["settings", key], key, Grammar::UNDERSCORED, "a setting");
    summary(faults, &at("summary"), &raw.summary);
    let bounded = matches!(raw.kind, RawType::Integer | RawType::Size);
    for (part, present, fitting, only) in [
        ("min", raw.min.is_some(), bounded, "an integer or a size"),
        ("max", raw.max.is_some(), bounded, "an integer or a size"),
        ("values", raw.values.is_some(), raw.kind == RawType::Enum, "an enum"),
        ("secret", raw.secret, raw.kind == RawType::String, "a string"),
    ] {
        if present && !fitting {
            faults.add(&at(part), format!("only {only} can have `{part}`"));
        }
    }
    let kind = setting_kind(key, raw, faults);
    let default = raw.default.as_ref().map(|default| {
        let value = match default {
            Scalar::Bool(value) => (*value).into(),
            Scalar::Integer(number) => (*number).into(),
            Scalar::Text(text) => text.as_str().into(),
        };
        kind.read(&value).unwrap_or_else(|message| {
            // An enum without values has been told of already.
            if kind != SettingKind::Enum(Vec::new()) {
                faults.add(&at("default"), message);
            }
            value
        })
    });
    if raw.required && default.is_some() {
        faults.hinted(
            &at("required"),
            "a setting with a default is never missing",
            "leave out one of `required` and `default`",
        );
    }
    Setting { summary: raw.summary.clone(), kind, default, required: raw.required, secret: raw.secret }
}

fn setting_kind(key: &str, raw: &RawSetting, faults: &mut Faults) -> SettingKind {
    let at = |part| ["settings", key, part];
    let backwards = match raw.kind {
        RawType::String => return SettingKind::String,
        RawType::Bool => return SettingKind::Bool,
        RawType::Port => return SettingKind::Port,
        RawType::Enum => {
            let values = raw.values.clone().unwrap_or_default();
            let unique: BTreeSet<_> = values.iter().collect();
            if values.is_empty() {
                faults.add(&["settings", key], "an enum needs `values`");
            } else if unique.len() < values.len() {
                faults.add(&at("values"), "a value stands here twice");
            }
            return SettingKind::Enum(values);
        }
        RawType::Integer => {
            let mut bound = |part, raw: &Option<Scalar>, otherwise| match raw {
                None => otherwise,
                Some(Scalar::Integer(number)) => *number,
                Some(other) => {
                    let message = format!("expected a whole number, found `{}`", shown(other));
                    faults.add(&at(part), message);
                    otherwise
                }
            };
            let min = bound("min", &raw.min, i64::MIN);
            let max = bound("max", &raw.max, i64::MAX);
            if min <= max {
                return SettingKind::Integer { min, max };
            }
            SettingKind::Integer { min: i64::MIN, max: i64::MAX }
        }
        RawType::Size => {
            let mut bound = |part, raw: &Option<Scalar>, otherwise| {
                raw.as_ref().map_or(otherwise, |raw| size(raw, &at(part), faults))
            };
            let min = bound("min", &raw.min, 0);
            let max = bound("max", &raw.max, u64::MAX);
            if min <= max {
                return SettingKind::Size { min, max };
            }
            SettingKind::Size { min: 0, max: u64::MAX }
        }
    };
    faults.add(&at("min"), "`min` is above `max`");
    backwards
}

fn ports(raw: &RawModule, services: &[&str], faults: &mut Faults) -> BTreeMap<String, Port> {
    let mut listeners = BTreeMap::new();
    let mut primary: Option<&str> = None;
    for (key, port) in &raw.ports {
        grammar::check(faults, &["ports", key], key, Grammar::ANY, "a port's name");
        if port.port == 0 {
            faults.add(&["ports", key, "port"], "a port is from 1 to 65535");
        }
        known_service(&["ports", key, "service"], &port.service, services, faults);
        if let Some(scheme) = &port.scheme {
            grammar::check(faults, &["ports", key, "scheme"], scheme, Grammar::SCHEME, "a scheme");
        }
        let listener = (port.service.as_str(), port.port, port.protocol);
        if let Some(other) = listeners.insert(listener, key) {
            let message = format!("`{other}` is {}/{} already", port.port, port.protocol);
            faults.add(&["ports", key, "port"], message);
        }
        if port.primary {
            if let Some(other) = primary {
                let message = format!("`{other}` is the primary port already");
                faults.add(&["ports", key, "primary"], message);
            }
            primary = primary.or(Some(key));
        }
    }
    raw.ports
        .iter()
        .map(|(key, port)| {
            let port = Port {
                service: port.service.clone(),
                port: port.port,
                protocol: port.protocol,
                scheme: port.scheme.clone(),
                primary: port.primary,
            };
            (key.clone(), port)
        })
        .collect()
}

pub(crate) fn known_service(path: &[&str], key: &str, services: &[&str], faults: &mut Faults) {
    if !services.contains(&key) {
        let message = format!("there is no service `{key}` in this module");
        faults.unknown(path, message, key, services.iter().copied());
    }
}

fn provision(key: &str, raw: &RawProvision, services: &[&str], faults: &mut Faults) -> Provision {
    let at = |part| ["provisions", key, part];
    grammar::check(faults, &["provisions", key], key, Grammar::UNDERSCORED, "a provision");
    summary(faults, &at("summary"), &raw.summary);
    known_service(&at("service"), &raw.service, services, faults);
    if raw.command.is_empty() {
        faults.add(&at("command"), "the command is empty");
    }
    if let Some(pattern) = &raw.pattern
        && let Err(error) = pattern.parse::<Pattern>()
    {
        faults.add(&at("pattern"), error.to_string());
    }
    Provision {
        summary: raw.summary.clone(),
        service: raw.service.clone(),
        default: raw.default.clone(),
        pattern: raw.pattern.clone(),
        command: raw.command.clone(),
        stdin: raw.stdin.clone(),
        user: raw.user.clone(),
    }
}

fn variables(raw: &RawModule, faults: &mut Faults) -> Variables {
    let raw_variables = &raw.variables;
    for name in raw_variables.prefixed.keys() {
        let path = ["variables", "prefixed", name];
        grammar::check(faults, &path, name, Grammar::VARIABLE, "a variable");
    }
    let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
    for (kind, names) in &raw_variables.each {
        if !raw.provisions.contains_key(kind) {
            let known = raw.provisions.keys().map(String::as_str);
            let message = format!("there is no provision `{kind}` in this module");
            faults.unknown(&["variables", "each", kind], message, kind, known);
        }
        for name in names.keys() {
            let path = ["variables", "each", kind, name];
            if let Some(other) = kinds.insert(name, kind) {
                let message = format!("`{name}` would be the same variable as that of `{other}`");
                faults.add(&path, message);
            }
            grammar::check(faults, &path, name, Grammar::VARIABLE, "a variable");
        }
    }
    for name in raw_variables.conventional.keys() {
        let path = ["variables", "conventional", name];
        grammar::check(faults, &path, name, Grammar::VARIABLE, "a variable");
        if ["SIDESTACK_", "COMPOSE_", "DOCKER_"].iter().any(|prefix| name.starts_with(prefix)) {
            faults.add(&path, format!("`{name}` is not a module's to give"));
        }
    }
    Variables {
        prefixed: raw_variables.prefixed.clone(),
        each: raw_variables.each.clone(),
        conventional: raw_variables.conventional.clone(),
    }
}

fn file(key: &str, raw: &RawFile, faults: &mut Faults) -> FileTemplate {
    let at = |part| ["files", key, part];
    grammar::check(faults, &["files", key], key, Grammar::ANY, "a file's name");
    grammar::path(faults, &at("path"), &raw.path);
    let mode = raw.mode.as_deref().unwrap_or("0444");
    let octal = (3..=4).contains(&mode.len()) && mode.bytes().all(|b| (b'0'..=b'7').contains(&b));
    if !octal {
        let message = format!("expected three or four octal digits, found `{mode}`");
        faults.add(&at("mode"), message);
    }
    FileTemplate {
        path: raw.path.clone(),
        content: raw.content.clone(),
        secret: raw.secret,
        mode: u32::from_str_radix(mode, 8).unwrap_or(0o444),
    }
}
