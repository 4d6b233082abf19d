//! A first look at the texts of compose files, before Compose reads them: which further files they lead to, and which
//! variables they mention.
//!
//! It is tolerant, since Compose will say what is wrong. What it cannot follow makes the record of inputs incomplete,
//! and then nothing is ever taken for unchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use sidestack_topology::diagnostic::Diagnostic;
use sidestack_topology::yaml;

use super::inputs::Inputs;
use super::interpolate::{expand, is_name, mentions};

/// Files that lead to each other without end stop here.
const MAX_FILES: usize = 1_000;

/// Entries of `environment` as they are written, by service and name.
pub(super) type Entries = BTreeMap<String, BTreeMap<String, String>>;

/// What the texts say.
#[derive(Debug, Default)]
pub(super) struct Raw {
    /// Every variable that is mentioned anywhere.
    pub(super) mentions: BTreeSet<String>,
    /// Whether a text holds an interpolation.
    pub(super) interpolates: bool,
    /// The services' `environment`, where nothing but the files themselves says what it is.
    pub(super) entries: Option<Entries>,
    /// Those that a service's own part mentions.
    pub(super) service_mentions: BTreeMap<String, BTreeSet<String>>,
    /// `env_file`s of services.
    pub(super) env_files: Vec<EnvFile>,
    /// Env files of includes, which serve interpolation as the project's `.env` does.
    pub(super) include_env: BTreeSet<PathBuf>,
    /// Compose files that are no readable YAML, so that names may have been missed in them.
    pub(super) unread: Vec<String>,
    /// Files that Compose must not be asked to read: it would not come to an end.
    pub(super) faults: Vec<Diagnostic>,
}

/// An `env_file` of a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EnvFile {
    /// Absolute.
    pub(super) path: PathBuf,
    /// The service in whose part it stands.
    pub(super) service: String,
    /// `format: raw`: values are taken as they stand.
    pub(super) raw: bool,
}

struct Explorer<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    inputs: &'a mut Inputs,
    raw: Raw,
    seen: BTreeSet<(PathBuf, PathBuf)>,
}

/// Follows the compose files. `lookup` gives the values of variables for paths that hold some.
pub(super) fn explore(
    files: &[PathBuf],
    project_directory: &Path,
    lookup: &dyn Fn(&str) -> Option<String>,
    inputs: &mut Inputs,
) -> Raw {
    let raw = Raw { entries: Some(Entries::new()), ..Raw::default() };
    let mut explorer = Explorer { lookup, inputs, raw, seen: BTreeSet::new() };
    for file in files {
        explorer.file(file, project_directory);
    }
    let mut raw = explorer.raw;
    raw.env_files.sort();
    raw.env_files.dedup();
    raw
}

impl Explorer<'_> {
    fn file(&mut self, path: &Path, base: &Path) {
        if !self.seen.insert((path.to_owned(), base.to_owned())) {
            return;
        }
        if self.seen.len() > MAX_FILES {
            self.inputs.sound = false;
            return;
        }
        let at = self.inputs.needed(path);
        let bytes = match self.inputs.read(&at) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return,
            Err(_) => {
                self.inputs.sound = false;
                return;
            }
        };
        let text = String::from_utf8_lossy(&bytes);
        let mut mentioned = BTreeSet::new();
        mentions(&text, &mut mentioned);
        self.raw.interpolates |= !mentioned.is_empty();
        self.raw.mentions.append(&mut mentioned);
        let root = match yaml::parse::<Value>(&path.display().to_string(), &text) {
            Ok(root) => root,
            Err(fault) => {
                // Further files may be named in it.
                self.inputs.sound = false;
                self.raw.entries = None;
                if yaml::is_over_budget(&fault) {
                    self.raw.faults.push(fault);
                } else {
                    self.raw.unread.push(text.into_owned());
                }
                return;
            }
        };
        let Value::Object(root) = root else { return };
        // Only Compose knows what comes of these tags and of files that lead to others.
        if ["!reset", "!override"].iter().any(|tag| text.contains(tag)) || root.contains_key("include") {
            self.raw.entries = None;
        }
        for include in list(root.get("include")) {
            self.include(include, base);
        }
        for (name, service) in entries(root.get("services")) {
            self.service(name, service, base);
        }
        for kind in ["configs", "secrets"] {
            for (_, object) in entries(root.get(kind)) {
                if let Some(Value::String(name)) = object.get("environment") {
                    self.raw.mentions.insert(name.clone());
                }
            }
        }
    }

    fn include(&mut self, include: &Value, base: &Path) {
        let paths: Vec<PathBuf> = match include {
            Value::String(_) => self.paths(Some(include), base),
            Value::Object(map) => self.paths(map.get("path"), base),
            _ => return,
        };
        let Some(first) = paths.first() else { return };
        let own_base = match include.get("project_directory") {
            Some(folder) => self.paths(Some(folder), base).into_iter().next(),
            None => first.parent().map(Path::to_owned),
        };
        let Some(own_base) = own_base else { return };
        let env = match include.get("env_file") {
            Some(files) => self.paths(Some(files), base),
            None => vec![own_base.join(".env")],
        };
        self.raw.include_env.extend(env.into_iter().filter(|file| file != Path::new("/dev/null")));
        for path in paths {
            self.file(&path, &own_base);
        }
    }

    fn service(&mut self, name: &str, service: &Value, base: &Path) {
        if !self
            .raw
            .entries
            .as_mut()
            .is_some_and(|entries| lay_over(entries.entry(name.to_owned()).or_default(), service))
        {
            self.raw.entries = None;
        }
        for part in with_merged(service) {
            if let Some(Value::Object(extends)) = part.get("extends") {
                for path in self.paths(extends.get("file"), base) {
                    let own_base = path.parent().unwrap_or(base).to_owned();
                    self.file(&path, &own_base);
                }
            }
            for item in list(part.get("env_file")) {
                let raw = item.get("format").and_then(Value::as_str) == Some("raw");
                let path = if item.is_object() { item.get("path") } else { Some(item) };
                for path in self.paths(path, base) {
                    self.raw.env_files.push(EnvFile { path, service: name.to_owned(), raw });
                }
            }
            for path in self.paths(part.get("label_file"), base) {
                let at = self.inputs.needed(&path);
                self.inputs.watch(&at);
            }
            let build = part.get("build").map(with_merged).unwrap_or_default();
            let taken = build.iter().filter_map(|build| build.get("args")).chain(part.get("environment"));
            let passed: BTreeSet<String> = taken.flat_map(passed_through).collect();
            self.raw.mentions.extend(passed.iter().cloned());
            let mut own = passed;
            mentions_in(&Value::Object(part.clone()), &mut own);
            self.raw.service_mentions.entry(name.to_owned()).or_default().extend(own);
        }
    }

    /// Local paths out of one text or a list of texts; what is none makes the record incomplete.
    fn paths(&mut self, value: Option<&Value>, base: &Path) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        for item in list(value) {
            let path = item.as_str().and_then(|text| expand(text, self.lookup));
            match path {
                Some(path) if path.is_empty() => {}
                Some(path) if !is_remote(&path) => paths.push(join(base, &path, self.lookup)),
                _ => self.inputs.sound = false,
            }
        }
        paths
    }
}

/// Lays a service's `environment` over what earlier files say of it. Whether that is all that decides what it is.
fn lay_over(entries: &mut BTreeMap<String, String>, service: &Value) -> bool {
    if service.get("extends").is_some() || service.get("<<").is_some() {
        return false;
    }
    let mut lay = |key: &str, text: Option<&str>| match text {
        Some(text) => drop(entries.insert(key.to_owned(), text.to_owned())),
        None => drop(entries.remove(key)),
    };
    match service.get("environment") {
        None | Some(Value::Null) => true,
        Some(Value::Object(map)) => {
            map.iter().for_each(|(key, value)| lay(key, value.as_str()));
            !map.contains_key("<<")
        }
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).all(|item| {
            let (key, text) = item.split_once('=').map_or((item, None), |(key, text)| (key, Some(text)));
            lay(key, text);
            // A name that is interpolated is known to Compose alone.
            !key.contains('$')
        }),
        Some(_) => false,
    }
}

/// A path as Compose takes it: `~` is the home folder, anything else starts from `base`.
fn join(base: &Path, path: &str, lookup: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    let home = path.strip_prefix("~/").and_then(|rest| Some(Path::new(&lookup("HOME")?).join(rest)));
    clean(&home.unwrap_or_else(|| base.join(path)))
}

/// An absolute path with one spelling, by its text alone, as Compose does it.
pub(super) fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(clean.pop()),
            part => clean.push(part),
        }
    }
    clean
}

/// Files that Compose would fetch from elsewhere.
fn is_remote(path: &str) -> bool {
    path.contains("://") || path.starts_with("git@") || path.starts_with("github.com/") || path.starts_with("oci:")
}

/// One value or a list of values as a list.
fn list(value: Option<&Value>) -> Vec<&Value> {
    match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) => items.iter().collect(),
        Some(one) => vec![one],
    }
}

fn entries(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

/// A mapping and what `<<` merges into it, in case the parser has left that to us.
fn with_merged(value: &Value) -> Vec<&Map<String, Value>> {
    let mut all = Vec::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        if let Value::Object(map) = value {
            all.push(map);
            open.extend(list(map.get("<<")));
        }
    }
    all
}

/// Names without a value in `environment` or `args`: taken over from outside.
fn passed_through(value: &Value) -> Vec<String> {
    let names: Vec<&str> = match value {
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        Value::Object(_) => with_merged(value)
            .into_iter()
            .flatten()
            .filter(|(_, value)| value.is_null())
            .map(|(name, _)| name.as_str())
            .collect(),
        _ => Vec::new(),
    };
    names.into_iter().filter(|name| is_name(name)).map(str::to_owned).collect()
}

fn mentions_in(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => mentions(text, into),
        Value::Array(items) => items.iter().for_each(|item| mentions_in(item, into)),
        Value::Object(map) => map.values().for_each(|value| mentions_in(value, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Words of a text that might be names passed through, for a file that cannot be read as YAML here.
pub(super) fn words(text: &str) -> BTreeSet<String> {
    let split = text.split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
    split.filter(|word| is_name(word)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_texts_lead_to_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("sub/deep")).unwrap();
        std::fs::create_dir_all(at("lib")).unwrap();
        std::fs::write(
            at("compose.yaml"),
            "x-base: &base {env_file: base.env}\ninclude: [sub/inc.yaml, {path: [\"${WHERE}/b.yaml\"], env_file: e.env}]\n\
             services:\n  web:\n    <<: *base\n    image: a:${TAG:-1}\n    environment: [PASSED, X=1]\n    build: {context: ., args: {ARG: , B: 1}}\n    \
             extends: {file: lib/common.yaml, service: s}\n  \
             db: {env_file: [{path: \"raw.env\", format: raw}]}\nconfigs: {c: {environment: FROM_ENV}}\n",
        )
        .unwrap();
        std::fs::write(at("sub/inc.yaml"), "services: {i: {env_file: [i.env], image: \"$IMG\"}}\n").unwrap();
        std::fs::write(at("sub/b.yaml"), "services: {}\n").unwrap();
        std::fs::write(at("lib/common.yaml"), "services: {s: {env_file: ../s.env}}\n").unwrap();
        let mut inputs = Inputs { sound: true, ..Inputs::default() };
        let lookup = |name: &str| (name == "WHERE").then(|| "sub".to_owned());
        let raw = explore(&[at("compose.yaml")], dir.path(), &lookup, &mut inputs);
        let mut files: Vec<_> = raw.env_files.iter().map(|f| (f.path.clone(), f.service.as_str(), f.raw)).collect();
        files.sort();
        let mut expected = vec![
            (at("base.env"), "web", false),
            (at("raw.env"), "db", true),
            (at("s.env"), "s", false),
            (at("sub/i.env"), "i", false),
        ];
        expected.sort();
        assert_eq!(files, expected);
        assert_eq!(raw.include_env, BTreeSet::from([at("sub/.env"), at("e.env")]));
        let names = ["ARG", "FROM_ENV", "IMG", "PASSED", "TAG", "WHERE"];
        assert_eq!(raw.mentions.iter().map(String::as_str).collect::<Vec<_>>(), names);
        assert_eq!(
            raw.service_mentions["web"].iter().map(String::as_str).collect::<Vec<_>>(),
            ["ARG", "PASSED", "TAG"]
        );
        assert!(inputs.sound);
        assert_eq!(inputs.files.len(), 4);
    }

    #[test]
    fn what_cannot_be_followed_makes_the_record_incomplete() {
        for text in [
            "include: [oci://registry/x]\n",
            "include: [\"${NEEDED:?say}\"]\n",
            "services: {a: {extends: {file: \"https://x/y.yaml\", service: b}}}\n",
            "a: b: c\n",
        ] {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("compose.yaml");
            std::fs::write(&file, text).unwrap();
            let mut inputs = Inputs { sound: true, ..Inputs::default() };
            explore(&[file], dir.path(), &|_| None, &mut inputs);
            assert!(!inputs.sound, "{text}");
        }
    }
}
