//! From what Compose prints to the model of a revision: placeholders for the project's name and the checkout's folder,
//! tokens for secrets, and nothing in it that could be taken for either.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use sidestack_topology::compose::Project;
use sidestack_topology::diagnostic::Diagnostic;
use sidestack_topology::placeholder::{self, CHECKOUT, PROJECT};
use sidestack_topology::secret;

use super::git::Checkout;
use super::made::{First, Making};
use super::raw::EnvFile;
use super::read::PLACEHOLDER;
use super::sensitive::looks_secret;
use super::standin::StandIns;
use super::variables::{Dotenv, Sources, made_up};

/// What the model is made with.
pub(super) struct Maker<'a> {
    pub(super) sources: &'a Sources<'a>,
    pub(super) stand_ins: &'a StandIns,
    /// `env_file`s of services that were read.
    pub(super) env_files: &'a [(EnvFile, Dotenv)],
    /// Whether the texts mention `PWD`, so that the folder may stand anywhere.
    pub(super) folder_anywhere: bool,
}

impl Maker<'_> {
    /// The model. Faults are added; with errors among them it must not be used.
    pub(super) fn make(&self, printed: &str, faults: &mut Vec<Diagnostic>) -> Project {
        // Compose doubles every dollar that it prints, in keys as well.
        let text = printed.replace("$$", "$");
        let mut root: Value = match serde_json::from_str(&text) {
            Ok(root) => root,
            Err(error) => {
                // The error's own text may quote a value.
                let message = format!("Compose printed a model that is no JSON, at line {}", error.line());
                faults.push(Diagnostic::error(&[], message));
                return Project::default();
            }
        };
        let before = faults.len();
        check(&root, self.stand_ins, &mut Vec::new(), faults);
        if faults.len() > before {
            return Project::default();
        }
        self.objects(&mut root);
        self.services(&mut root, faults);
        self.paths(&mut root);
        each_text(&mut root, &mut |text| {
            let new = self.text(text);
            if new == *text { None } else { Some(new) }
        });
        serde_json::from_value(root).unwrap_or_else(|error| {
            // Names of types and keys only; values are not quoted for the types that the model has, but numbers are.
            let what = error.to_string();
            let what = what.split('`').next().unwrap_or_default();
            faults.push(Diagnostic::error(
                &[],
                format!("Compose printed a model that is not understood: {}", what.trim_end()),
            ));
            Project::default()
        })
    }

    /// A text of Compose's as it stands in the model.
    pub(super) fn text(&self, text: &str) -> String {
        let new = self.stand_ins.swap(text).replace(PLACEHOLDER, PROJECT);
        if self.folder_anywhere { replace_folder(&new, &self.checkout().folder.display().to_string()) } else { new }
    }

    fn checkout(&self) -> &Checkout {
        self.sources.checkout
    }

    /// Names that only repeat the project's are left out, and values out of the environment are brought in.
    fn objects(&self, root: &mut Value) {
        let Value::Object(root) = root else { return };
        root.remove("name");
        for kind in ["networks", "volumes", "configs", "secrets"] {
            let Some(Value::Object(objects)) = root.get_mut(kind) else {
                continue;
            };
            for (key, object) in objects {
                let Value::Object(object) = object else {
                    continue;
                };
                if object.get("name").and_then(Value::as_str) == Some(&format!("{PLACEHOLDER}_{key}")) {
                    object.remove("name");
                }
                let Some(variable) = object.get("environment").and_then(Value::as_str).map(str::to_owned) else {
                    continue;
                };
                let content = if kind == "configs" && !looks_secret(&variable) {
                    self.sources.plain(&variable)
                } else {
                    self.sources.elsewhere(&variable)
                };
                if let Some(content) = content {
                    object.remove("environment");
                    object.insert("content".to_owned(), Value::from(content));
                }
            }
        }
    }

    /// Values that services have from their `env_file`s.
    fn services(&self, root: &mut Value, faults: &mut Vec<Diagnostic>) {
        let Some(Value::Object(services)) = root.get_mut("services") else {
            return;
        };
        for (name, service) in services {
            // The service's own files first, and of those the last, since it wins; others may come by `extends`.
            let (own, others): (Vec<_>, Vec<_>) = self.env_files.iter().partition(|(file, _)| file.service == *name);
            let files: Vec<&Dotenv> = own.iter().rev().chain(others.iter()).map(|(_, dotenv)| dotenv).collect();
            let own: BTreeSet<&Path> = own.iter().map(|(file, _)| file.path.as_path()).collect();
            let Some(Value::Object(environment)) = service.get_mut("environment") else {
                continue;
            };
            for (key, value) in environment.iter_mut() {
                let Value::String(text) = value else { continue };
                if let Some(new) = self.value_of_env_files(key, text, &files, &own, faults) {
                    *text = new;
                }
            }
        }
    }

    fn value_of_env_files(
        &self,
        key: &str,
        text: &str,
        files: &[&Dotenv],
        own: &BTreeSet<&Path>,
        faults: &mut Vec<Diagnostic>,
    ) -> Option<String> {
        if let Some(declared) = self.sources.manifest.env.get(key).filter(|value| secret::holds(value)) {
            return Some(declared.clone());
        }
        if text.is_empty() {
            return None;
        }
        let having = || files.iter().filter_map(|file| Some((*file, file.entries.get(key)?)));
        let same = having().find(|(_, (value, expands))| !expands && value == text);
        if let Some((file, _)) = same {
            if file.is_secret(key) {
                return Some(file.token(key));
            }
            if file.untracked {
                let hidden = file.hide(text, |name| file.token(name));
                return (hidden != text).then_some(hidden);
            }
            return None;
        }
        let made: Vec<&Dotenv> = having().filter(|(_, (_, expands))| *expands).map(|(file, _)| file).collect();
        if let Some(kept) = made.iter().find_map(|file| self.proven(key, text, file, files)) {
            let plain = secret::parts(&kept).any(|part| matches!(part, secret::Part::Text(_)));
            if let Some(file) = made.iter().find(|file| plain && file.is_secret(key)) {
                faults.push(made_up(key, &file.shown));
            }
            return (kept != text).then_some(kept);
        }
        // It came about in a way that is not known here, so whatever secrets are near are taken out of it.
        let file = made.iter().find(|file| file.is_secret(key) && own.contains(file.path.as_path()));
        if let Some(file) = file {
            let swapped = self.stand_ins.swap(text);
            if secret::parts(&swapped).any(|part| matches!(part, secret::Part::Text(_))) {
                faults.push(made_up(key, &file.shown));
            }
        }
        let near = files.iter().filter(|file| !made.is_empty() && file.untracked);
        let hidden = near.fold(text.to_owned(), |text, file| file.hide(&text, |name| file.token(name)));
        (hidden != text).then_some(hidden)
    }

    /// The value of an entry that is made of others, with references for secrets, when it is what Compose has: of the
    /// secrets in env files of services Compose has the values, of all others the stand-ins.
    fn proven(&self, key: &str, text: &str, file: &Dotenv, files: &[&Dotenv]) -> Option<String> {
        let beside = || files.iter().copied().filter(|other| other.path != file.path);
        let project = || self.sources.project.iter();
        let orders: [Vec<&Dotenv>; 2] = [project().chain(beside()).collect(), beside().chain(project()).collect()];
        let ways = orders.into_iter().flat_map(|others| [(First::Own, others.clone()), (First::Others, others)]);
        for (first, others) in ways {
            let making = Making { sources: self.sources, others, first };
            let seen = making.value(file, key, &mut |mentioned| {
                let own = mentioned.file.filter(|file| files.iter().any(|one| one.path == file.path));
                let value = own.and_then(|file| file.entries.get(mentioned.name));
                value.map_or_else(|| self.stand_ins.word(mentioned.name), |(value, _)| value.clone())
            });
            if seen.ok().flatten().as_deref() == Some(text) {
                return making.value(file, key, &mut |mentioned| mentioned.token).ok().flatten();
            }
        }
        None
    }

    /// The folder's path, wherever Compose has put it before a relative path.
    fn paths(&self, root: &mut Value) {
        let at = |value: &mut Value, keys: &[&str]| self.at(value, keys);
        for (_, service) in objects_of(root, "services") {
            let Value::Object(service) = service else {
                continue;
            };
            for mount in array(service.get_mut("volumes")) {
                if mount.get("type").and_then(Value::as_str) == Some("bind") {
                    at(mount, &["source"]);
                }
            }
            if let Some(build) = service.get_mut("build") {
                at(build, &["context"]);
                at(build, &["dockerfile"]);
                for kind in ["additional_contexts", "ssh"] {
                    for (_, value) in objects_of(build, kind) {
                        self.path(value);
                    }
                }
            }
            if let Some(develop) = service.get_mut("develop") {
                for watch in array(develop.get_mut("watch")) {
                    at(watch, &["path"]);
                }
            }
            for key in ["env_file", "label_file"] {
                for item in array(service.get_mut(key)) {
                    self.path(item);
                    at(item, &["path"]);
                }
            }
            if let Some(value) = service.get_mut("credential_spec") {
                at(value, &["file"]);
            }
        }
        for kind in ["configs", "secrets"] {
            for (_, object) in objects_of(root, kind) {
                at(object, &["file"]);
            }
        }
        for (_, volume) in objects_of(root, "volumes") {
            at(volume, &["driver_opts", "device"]);
        }
    }

    fn at(&self, value: &mut Value, keys: &[&str]) {
        let end = keys.iter().try_fold(value, |value, key| value.get_mut(*key));
        if let Some(value) = end {
            self.path(value);
        }
    }

    fn path(&self, value: &mut Value) {
        if let Value::String(text) = value
            && let Some(new) = in_checkout(text, self.checkout())
        {
            *text = new;
        }
    }
}

/// An absolute path inside the checkout's folder or its work tree, as it stands in a model: `${CHECKOUT}/src`, or
/// `${CHECKOUT}/../shared` beside the folder.
pub(super) fn in_checkout(path: &str, checkout: &Checkout) -> Option<String> {
    let under = |base: &Path| {
        let rest = Path::new(path).strip_prefix(base).ok()?.to_str()?;
        Some(if rest.is_empty() { String::new() } else { format!("/{rest}") })
    };
    if let Some(rest) = under(&checkout.folder) {
        return Some(format!("{CHECKOUT}{rest}"));
    }
    let root = &checkout.repository.as_ref()?.root;
    let rest = under(root)?;
    let up = checkout.folder.strip_prefix(root).ok()?.components().count();
    Some(format!("{CHECKOUT}{}{rest}", "/..".repeat(up)))
}

/// The path on this machine of one that stands in a model.
pub(super) fn on_disk(path: &str, checkout: &Checkout) -> PathBuf {
    placed(path, &checkout.folder)
}

/// The same in any folder.
pub(crate) fn placed(path: &str, folder: &Path) -> PathBuf {
    PathBuf::from(path.replace(CHECKOUT, &folder.display().to_string()))
}

/// The folder wherever it stands as a whole path or the beginning of one.
fn replace_folder(text: &str, folder: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(folder) {
        let end = at + folder.len();
        let whole = !rest[end..].starts_with(|c: char| c.is_alphanumeric() || "._-".contains(c));
        out.push_str(&rest[..at]);
        out.push_str(if whole { CHECKOUT } else { folder });
        rest = &rest[end..];
    }
    out + rest
}

fn objects_of<'a>(value: &'a mut Value, key: &str) -> impl Iterator<Item = (&'a String, &'a mut Value)> {
    value.get_mut(key).and_then(Value::as_object_mut).into_iter().flat_map(Map::iter_mut)
}

fn array(value: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    value.and_then(Value::as_array_mut).into_iter().flatten()
}

/// Calls back with every text; keys can hold the project's name only.
fn each_text(value: &mut Value, change: &mut impl FnMut(&str) -> Option<String>) {
    match value {
        Value::String(text) => {
            if let Some(new) = change(text) {
                *text = new;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, change)),
        Value::Object(map) => {
            if map.keys().any(|key| key.contains(PLACEHOLDER)) {
                *map = std::mem::take(map)
                    .into_iter()
                    .map(|(key, value)| (key.replace(PLACEHOLDER, PROJECT), value))
                    .collect();
            }
            map.values_mut().for_each(|value| each_text(value, change));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Refuses texts that could be taken for tokens or placeholders, names that nobody could type, and secrets in keys,
/// where nothing is ever filled in.
fn check(value: &Value, stand_ins: &StandIns, path: &mut Vec<String>, faults: &mut Vec<Diagnostic>) {
    let refuse = |c: Option<char>, what: &str, path: &[String], faults: &mut Vec<Diagnostic>| {
        let Some(c) = c else { return };
        let at = path.join(".");
        let message = format!("{what} `{at}` holds the character U+{:04X}, which is not allowed there", u32::from(c));
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let hint =
            if c.is_control() { "take it out" } else { "Sidestack marks secrets and paths with it; use another" };
        faults.push(Diagnostic::error(&path, message).hint(hint));
    };
    match value {
        Value::String(text) => refuse(text.chars().find(|&c| is_refused(c)), "the text", path, faults),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                path.push(at.to_string());
                check(item, stand_ins, path, faults);
                path.pop();
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                refuse(key.chars().find(|&c| is_refused(c) || c.is_control()), "a name in", path, faults);
                if let Some(name) = stand_ins.name_in(key) {
                    let at: Vec<&str> = path.iter().map(String::as_str).collect();
                    let message =
                        format!("`{name}` looks like a secret, but stands in a name, where nothing is filled in");
                    let fault = Diagnostic::error(&at, message);
                    faults.push(fault.hint(format!(
                        "write it as plain text in `env:` of the manifest, as in `env: {{{name}: \"…\"}}`, or rename the variable"
                    )));
                    continue;
                }
                path.push(key.clone());
                check(value, stand_ins, path, faults);
                path.pop();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// What no value may hold: NUL, which no variable can, and characters with a meaning of Sidestack's own. Any other
/// control character is a value's own business: prompts have colours.
pub(super) fn is_refused(c: char) -> bool {
    c == '\0' || matches!(c, secret::OPEN | secret::CLOSE) || placeholder::forged(c.encode_utf8(&mut [0; 4]))
}

/// Variables of services by name, out of what the texts mention.
pub(super) fn mentions_of_model(
    model: &Project,
    mentioned: &BTreeMap<String, BTreeSet<String>>,
) -> BTreeMap<String, BTreeSet<String>> {
    let of = |name: &String| (name.clone(), mentioned.get(name).cloned().unwrap_or_default());
    model.services.keys().map(of).collect()
}
