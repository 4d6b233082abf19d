//! The stack manifest, `sidestack.yaml`: what a stack is, never where it runs.
//!
//! [`Document`] is what a person wrote; [`Document::resolve`] settles one
//! environment and gives the [`Manifest`] that goes into a revision. Both report
//! every fault they find, with its path.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::diagnostic::{Diagnostic, has_errors, nearest};
use crate::module::Arrangement;
use crate::names::{EnvironmentName, ResourceName, WorkspaceName};
use crate::secret;
use crate::yaml;

/// The file's usual name.
pub const FILE: &str = "sidestack.yaml";
/// The environment when none is named.
pub const DEFAULT_ENVIRONMENT: &str = "dev";

/// What a person wrote, checked for syntax only.
#[derive(Debug, Clone)]
pub struct Document {
    file: String,
    text: String,
    root: Map<String, Value>,
}

/// A stack in one environment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Its workspace's name, when the file gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceName>,
    /// Resources by name.
    pub resources: BTreeMap<ResourceName, Request>,
    /// The compose files, relative to the stack's folder; empty when there are none.
    pub compose: Vec<String>,
    /// Which service gets which resources' variables, or which variables by name.
    pub inject: BTreeMap<String, Vec<String>>,
    /// The stack's own variables; a value may be a secret's token.
    pub env: BTreeMap<String, String>,
    /// What is shared, copied or created, and which self-addresses stay.
    #[serde(default, skip_serializing_if = "IsolationChoices::is_empty")]
    pub isolation: IsolationChoices,
}

/// What a stack asks for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The capability; may be left out when the engine is named.
    #[serde(rename = "is", skip_serializing_if = "Option::is_none")]
    pub capability: Option<String>,
    /// The engine: `postgres` or `postgres@17`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// How it is laid out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrangement: Option<Arrangement>,
    /// Whether it owns the conventional variable names of its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<bool>,
    /// Settings of the module.
    pub settings: BTreeMap<String, Value>,
    /// Credentials that replace the development defaults.
    pub credentials: BTreeMap<String, String>,
    /// Everything else: provisions (`databases: [shop]`) and required
    /// characteristics (`storage: 2GiB`); the module tells which is which.
    pub rest: BTreeMap<String, Value>,
}

const TOP: [&str; 8] = ["sidestack", "workspace", "resources", "compose", "inject", "env", "isolation", "environments"];

impl Document {
    /// Reads the text of a manifest.
    ///
    /// # Errors
    /// Syntax, and whatever [`yaml::text`] refuses.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, Diagnostic> {
        let text = yaml::text(file, bytes)?;
        let root: Value = if text.trim().is_empty() { Value::Null } else { yaml::parse(file, text)? };
        match root {
            Value::Object(root) => Ok(Self { file: file.to_owned(), text: text.to_owned(), root }),
            _ => Err(Diagnostic::error(&[], "a manifest is a mapping of keys")
                .located(file, text)
                .hint("start it with `sidestack: 1`")),
        }
    }

    /// A stack of nothing but compose files.
    pub fn of_compose(files: &[String]) -> Self {
        let mut root = Map::new();
        root.insert("compose".to_owned(), Value::from(files.to_vec()));
        Self { file: String::new(), text: String::new(), root }
    }

    /// The environments it names, in order of name.
    pub fn environments(&self) -> Vec<String> {
        match self.root.get("environments") {
            Some(Value::Object(environments)) => environments.keys().cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// The environment to use when none is named: the only one, else `dev`.
    ///
    /// # Errors
    /// When there are several and none is called `dev`; they are listed.
    pub fn default_environment(&self) -> Result<String, Diagnostic> {
        let names = self.environments();
        match names.as_slice() {
            [] => Ok(DEFAULT_ENVIRONMENT.to_owned()),
            [only] => Ok(only.clone()),
            several if several.iter().any(|name| name == DEFAULT_ENVIRONMENT) => Ok(DEFAULT_ENVIRONMENT.to_owned()),
            several => Err(Diagnostic::error(&["environments"], "no environment is named and none is called `dev`")
                .located(&self.file, &self.text)
                .hint(format!("choose one with -E: {}", several.join(", ")))),
        }
    }

    /// Points a fault at the text, in the environment's own part first.
    fn locate(&self, environment: &str, diagnostic: Diagnostic) -> Diagnostic {
        if self.text.is_empty() {
            return diagnostic;
        }
        let own: Vec<String> =
            ["environments", environment].iter().map(|s| (*s).to_owned()).chain(diagnostic.path.clone()).collect();
        let within = self
            .root
            .get("environments")
            .and_then(|all| all.get(environment))
            .is_some_and(|overlay| diagnostic.path.iter().try_fold(overlay, |at, key| at.get(key)).is_some());
        if within && !diagnostic.path.is_empty() {
            let path = diagnostic.path.clone();
            let located = Diagnostic { path: own, ..diagnostic }.located(&self.file, &self.text);
            return Diagnostic { path, ..located };
        }
        diagnostic.located(&self.file, &self.text)
    }

    /// Points faults that later passes found at this text.
    pub fn locate_all(&self, environment: &str, diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
        diagnostics.into_iter().map(|d| if d.place.is_some() { d } else { self.locate(environment, d) }).collect()
    }

    /// Settles one environment.
    ///
    /// # Errors
    /// Every fault that was found: unknown keys, wrong types, bad names.
    pub fn resolve(&self, environment: &str) -> Result<Manifest, Vec<Diagnostic>> {
        let mut faults = Vec::new();
        let mut root = self.root.clone();
        let environments = root.remove("environments").unwrap_or(Value::Null);
        match environments {
            Value::Null => {}
            Value::Object(all) => {
                for (name, overlay) in &all {
                    if let Err(error) = name.parse::<EnvironmentName>() {
                        faults.push(Diagnostic::error(&["environments", name], error.to_string()));
                    }
                    if !matches!(overlay, Value::Object(_) | Value::Null) {
                        faults.push(Diagnostic::error(&["environments", name], "an environment is a mapping of keys"));
                    }
                    for key in overlay.as_object().into_iter().flat_map(Map::keys) {
                        if ["sidestack", "workspace", "environments"].contains(&key.as_str()) {
                            let message = format!("`{key}` cannot differ between environments");
                            faults.push(Diagnostic::error(&["environments", name, key], message));
                        }
                    }
                }
                if let Some(overlay) = all.get(environment) {
                    let mut base = Value::Object(root);
                    let mut overlay = overlay.clone();
                    long_forms(&mut base);
                    long_forms(&mut overlay);
                    merge(&mut base, overlay);
                    root = match base {
                        Value::Object(root) => root,
                        _ => Map::new(),
                    };
                } else if !all.is_empty() && !all.contains_key(environment) {
                    let known = all.keys().map(String::as_str).collect::<Vec<_>>();
                    let fault =
                        Diagnostic::error(&["environments"], format!("there is no environment `{environment}`"));
                    faults.push(match nearest(environment, known.iter().copied()) {
                        Some(near) => fault.hint(format!("did you mean `{near}`?")),
                        None => fault.hint(format!("the manifest names {}", known.join(", "))),
                    });
                }
            }
            _ => faults.push(Diagnostic::error(&["environments"], "environments is a mapping of names")),
        }
        let mut root = Value::Object(root);
        long_forms(&mut root);
        let manifest = read_manifest(&root, !self.text.is_empty(), &mut faults);
        let faults = self.locate_all(environment, faults);
        if has_errors(&faults) { Err(faults) } else { Ok(manifest) }
    }
}

/// `cache: redis` means `cache: {engine: redis}`; written out so that merging is deep.
fn long_forms(root: &mut Value) {
    let Some(Value::Object(resources)) = root.get_mut("resources") else {
        return;
    };
    for request in resources.values_mut() {
        if let Value::String(engine) = request {
            *request = serde_json::json!({ "engine": engine });
        }
    }
}

/// Merges deeply: mappings key by key, `null` removes, anything else replaces.
fn merge(base: &mut Value, overlay: Value) {
    match (base, overlay) {
        (Value::Object(base), Value::Object(overlay)) => {
            for (key, value) in overlay {
                if value.is_null() {
                    base.remove(&key);
                } else if let Some(under) = base.get_mut(&key) {
                    merge(under, value);
                } else {
                    base.insert(key, without_nulls(value));
                }
            }
        }
        (_, Value::Null) => {}
        (base, overlay) => *base = overlay,
    }
}

/// What an overlay adds where nothing stood; there is nothing to remove there.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        other => other,
    }
}

fn unknown(faults: &mut Vec<Diagnostic>, path: &[&str], key: &str, known: &[&str]) {
    let mut at = path.to_vec();
    at.push(key);
    let fault = Diagnostic::error(&at, format!("unknown key `{key}`"));
    faults.push(match nearest(key, known.iter().copied()) {
        Some(near) => fault.hint(format!("did you mean `{near}`?")),
        None => fault.hint(format!("known here: {}", known.join(", "))),
    });
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

fn wrong(faults: &mut Vec<Diagnostic>, path: &[&str], wanted: &str, found: &Value) {
    faults.push(Diagnostic::error(path, format!("`{}` must be {wanted}, not {}", path.join("."), kind(found))));
}

fn mapping<'a>(
    root: &'a Value,
    key: &str,
    faults: &mut Vec<Diagnostic>,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let map = match root.get(key) {
        None | Some(Value::Null) => None,
        Some(Value::Object(map)) => Some(map),
        Some(other) => {
            wrong(faults, &[key], "a mapping", other);
            None
        }
    };
    map.into_iter().flatten()
}

/// A scalar as the text a container would see.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A scalar, or `{secret: REFERENCE}` as a token.
fn variable(value: &Value, path: &[&str], faults: &mut Vec<Diagnostic>) -> Option<String> {
    if let Value::Object(map) = value {
        return match (map.get("secret"), map.len()) {
            (Some(Value::String(reference)), 1) if !reference.trim().is_empty() => {
                Some(secret::token(reference, secret::Encoding::Raw))
            }
            _ => {
                let fault =
                    Diagnostic::error(path, format!("`{}` must be a value or `{{secret: REFERENCE}}`", path.join(".")));
                faults.push(fault.hint(
                    "a reference is env:NAME, keychain:SERVICE/ACCOUNT, command:…, file:PATH or dotenv:PATH#KEY",
                ));
                None
            }
        };
    }
    let text = scalar(value);
    if text.is_none() {
        wrong(faults, path, "a value", value);
    }
    text
}

/// What stands against a text as the name of a variable.
pub fn check_variable_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        Err("is empty")
    } else if name.starts_with(|c: char| c.is_ascii_digit()) {
        Err("begins with a digit")
    } else if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        Err("may hold only letters, digits and `_`")
    } else {
        Ok(())
    }
}

fn read_manifest(root: &Value, is_file: bool, faults: &mut Vec<Diagnostic>) -> Manifest {
    let mut manifest = Manifest::default();
    for key in root.as_object().into_iter().flat_map(Map::keys) {
        if !TOP.contains(&key.as_str()) {
            unknown(faults, &[], key, &TOP);
        }
    }
    match root.get("sidestack") {
        Some(Value::Number(version)) if version.as_u64() == Some(1) => {}
        None if !is_file => {}
        None => {
            faults.push(Diagnostic::error(&[], "the format's version is missing").hint("add the line `sidestack: 1`"));
        }
        Some(other) => faults.push(
            Diagnostic::error(&["sidestack"], format!("the manifest's format `{other}` is not known to this version"))
                .hint("this version reads `sidestack: 1`; a newer one may be needed"),
        ),
    }
    match root.get("workspace") {
        None | Some(Value::Null) => {}
        Some(Value::String(name)) => match name.parse() {
            Ok(name) => manifest.workspace = Some(name),
            Err(error) => faults.push(Diagnostic::error(&["workspace"], error.to_string())),
        },
        Some(other) => wrong(faults, &["workspace"], "a name", other),
    }
    let resources: Vec<_> = mapping(root, "resources", faults).collect();
    for (name, request) in resources {
        let parsed = name.parse::<ResourceName>();
        let request = read_request(name, request, faults);
        match parsed {
            // Every container knows that name, and it is itself.
            Ok(name) if name.as_str() == "localhost" => faults.push(
                Diagnostic::error(&["resources", "localhost"], "a resource cannot be called `localhost`")
                    .hint("inside a container that name is the container"),
            ),
            Ok(name) => {
                manifest.resources.insert(name, request);
            }
            Err(error) => faults.push(Diagnostic::error(&["resources", name], error.to_string())),
        }
    }
    manifest.compose = strings(root.get("compose"), &["compose"], faults);
    for (at, file) in manifest.compose.iter().enumerate() {
        let climbs = file.split(['/', '\\']).any(|part| part == "..");
        let rooted = file.starts_with(['/', '\\', '~']) || file.chars().nth(1) == Some(':');
        if file.is_empty() || climbs || rooted || file.contains(char::is_control) {
            let fault = Diagnostic::error(
                &["compose", &at.to_string()],
                format!("`{file}` is not a path inside the stack's folder"),
            );
            faults.push(fault.hint("name compose files relative to the manifest, without `..`"));
        }
    }
    let inject: Vec<_> = mapping(root, "inject", faults).collect();
    for (service, what) in inject {
        let names = strings(Some(what), &["inject", service], faults);
        manifest.inject.insert(service.clone(), names);
    }
    let env: Vec<_> = mapping(root, "env", faults).collect();
    for (name, value) in env {
        if let Err(reason) = check_variable_name(name) {
            faults.push(Diagnostic::error(&["env", name], format!("the variable name `{name}` {reason}")));
        }
        if let Some(value) = variable(value, &["env", name], faults) {
            manifest.env.insert(name.clone(), value);
        }
    }
    manifest.isolation = choices::read(root.get("isolation"), faults);
    manifest
}

/// One text or a list of texts.
fn strings(value: Option<&Value>, path: &[&str], faults: &mut Vec<Diagnostic>) -> Vec<String> {
    match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(items)) => items
            .iter()
            .enumerate()
            .filter_map(|(at, item)| {
                if let Value::String(text) = item {
                    return Some(text.clone());
                }
                let at = at.to_string();
                wrong(faults, &[path, &[at.as_str()]].concat(), "a text", item);
                None
            })
            .collect(),
        Some(other) => {
            wrong(faults, path, "a text or a list of texts", other);
            Vec::new()
        }
    }
}

fn read_request(name: &str, value: &Value, faults: &mut Vec<Diagnostic>) -> Request {
    let mut request = Request::default();
    let Value::Object(map) = value else {
        wrong(faults, &["resources", name], "an engine's name or a mapping", value);
        return request;
    };
    for (key, value) in map {
        let path = ["resources", name, key.as_str()];
        match (key.as_str(), value) {
            ("is", Value::String(capability)) => request.capability = Some(capability.clone()),
            ("engine", Value::String(engine)) => request.engine = Some(engine.clone()),
            ("default", Value::Bool(default)) => request.default = Some(*default),
            ("arrangement", Value::String(text)) => match serde_json::from_value(value.clone()) {
                Ok(arrangement) => request.arrangement = Some(arrangement),
                Err(_) => faults.push(
                    Diagnostic::error(&path, format!("`{text}` is no arrangement"))
                        .hint("known are single, failover, sharded and multisite"),
                ),
            },
            ("settings", Value::Object(settings)) => {
                for (setting, value) in settings {
                    let value = match value {
                        Value::Object(_) => {
                            variable(value, &[&path[..], &[setting]].concat(), faults).map(Value::String)
                        }
                        other => Some(other.clone()),
                    };
                    request.settings.extend(value.map(|value| (setting.clone(), value)));
                }
            }
            ("credentials", Value::Object(credentials)) => {
                for (credential, value) in credentials {
                    let value = variable(value, &[&path[..], &[credential]].concat(), faults);
                    request.credentials.extend(value.map(|value| (credential.clone(), value)));
                }
            }
            ("is" | "engine" | "arrangement", other) => wrong(faults, &path, "a text", other),
            ("default", other) => wrong(faults, &path, "true or false", other),
            ("settings" | "credentials", other) => wrong(faults, &path, "a mapping", other),
            (key, value) => {
                request.rest.insert(key.to_owned(), value.clone());
            }
        }
    }
    if request.capability.is_none() && request.engine.is_none() {
        faults.push(
            Diagnostic::error(
                &["resources", name],
                format!("`{name}` says neither what it is nor which engine it wants"),
            )
            .hint("add `is: sql-database` or `engine: postgres`; `sidestack catalog` lists them"),
        );
    }
    request
}

mod choices;
mod schema;

pub use choices::{IsolationChoices, NetworkChoice, VolumeChoice};
pub use schema::schema;

#[cfg(test)]
mod tests;
