//! What differs between two revisions, for people and for programs.
//!
//! Secrets are shown by reference, placeholders by name; a value never stands
//! here. Long texts (modules, files) are compared, and shown by their digest.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::plan::LayerKind;
use crate::revision::{Content, canonical, hex};
use crate::{placeholder, secret};

/// What kind of thing differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DiffKind {
    /// A resource of the manifest, or what it asks for.
    Resource,
    /// A service, or a key of one that is nothing of the below.
    Service,
    /// A service's image.
    Image,
    /// A variable.
    Variable,
    /// A published port.
    Port,
    /// A mount of a service.
    Mount,
    /// How a service is built, or from what.
    Build,
    /// A config file, a compose file, a config or a secret of the project.
    File,
    /// A module's text.
    Module,
    /// A network.
    Network,
    /// A volume.
    Volume,
}

impl std::fmt::Display for DiffKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Resource => "resource",
            Self::Service => "service",
            Self::Image => "image",
            Self::Variable => "variable",
            Self::Port => "port",
            Self::Mount => "mount",
            Self::Build => "build",
            Self::File => "file",
            Self::Module => "module",
            Self::Network => "network",
            Self::Volume => "volume",
        })
    }
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiffChange {
    /// What kind of thing it is.
    pub kind: DiffKind,
    /// Where: `services.web.image`, `env.LOG_LEVEL`.
    pub path: String,
    /// As the first has it; `None` when it has not.
    pub from: Option<String>,
    /// As the second has it; `None` when it has not.
    pub to: Option<String>,
    /// For variables, the layer they belong to.
    pub layer: Option<LayerKind>,
}

/// Every difference between two revisions, ordered by kind and path.
pub fn revisions(a: &Content, b: &Content) -> Vec<DiffChange> {
    let mut diff = Differ::default();
    let manifests = [a, b].map(|content| serde_json::to_value(&content.manifest).unwrap_or_default());
    let part = |key: &str| manifests.each_ref().map(|manifest| manifest.get(key).unwrap_or(&Value::Null));
    diff.each("resources", part("resources"), |diff, path, [from, to]| {
        diff.whole_or_keys(DiffKind::Resource, path, [from, to]);
    });
    diff.each("env", part("env"), |diff, path, values| {
        diff.add(DiffKind::Variable, path, values, Some(LayerKind::Manifest));
    });
    diff.each("inject", part("inject"), |diff, path, values| {
        diff.add(DiffKind::Service, path, values, None);
    });
    diff.add(DiffKind::File, "compose", part("compose").map(|list| (!empty(list)).then_some(list)), None);
    diff.texts(DiffKind::Module, "modules", [&a.modules, &b.modules], digest);
    diff.texts(DiffKind::File, "files", [&a.files, &b.files], short);
    diff.texts(DiffKind::Build, "builds", [&a.builds, &b.builds], short);
    let profiles = [a, b].map(|content| Value::from(content.profiles.clone()));
    diff.add(DiffKind::Service, "profiles", profiles.each_ref().map(|list| (!empty(list)).then_some(list)), None);
    let interpolation = [a, b].map(|content| serde_json::to_value(&content.interpolation).unwrap_or_default());
    diff.each("interpolation", interpolation.each_ref(), |diff, path, values| {
        // What was looked up and not found is as good as not there.
        let values = values.map(|value| value.filter(|value| !value.is_null()));
        diff.add(DiffKind::Variable, path, values, Some(LayerKind::Compose));
    });
    let models = [a, b].map(|content| content.model.as_ref().unwrap_or(&Value::Null));
    diff.model(models);
    diff.templates(a, b);
    diff.changes.sort_by(|a, b| (a.kind, &a.path).cmp(&(b.kind, &b.path)));
    diff.changes
}

fn empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
}

fn digest(text: &str) -> String {
    short(&hex(&Sha256::digest(text)))
}

fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

/// A value for a person.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => canonical(other),
    };
    placeholder::shown(&secret::shown(&text))
}

type Pair<'a> = [Option<&'a Value>; 2];

#[derive(Default)]
struct Differ {
    changes: Vec<DiffChange>,
}

impl Differ {
    fn add(&mut self, kind: DiffKind, path: &str, values: Pair<'_>, layer: Option<LayerKind>) {
        if values[0] != values[1] {
            let [from, to] = values.map(|value| value.map(shown));
            self.changes.push(DiffChange { kind, path: path.to_owned(), from, to, layer });
        }
    }

    /// Calls back for every key of either mapping.
    fn each(&mut self, path: &str, maps: [&Value; 2], mut compare: impl FnMut(&mut Self, &str, Pair<'_>)) {
        let keys: BTreeSet<&String> = maps.iter().filter_map(|map| map.as_object()).flat_map(Map::keys).collect();
        for key in keys {
            compare(self, &format!("{path}.{key}"), maps.map(|map| map.get(key)));
        }
    }

    /// One that came or went is told as a whole, one that changed key by key.
    fn whole_or_keys(&mut self, kind: DiffKind, path: &str, values: Pair<'_>) {
        match values {
            [Some(from @ Value::Object(_)), Some(to @ Value::Object(_))] => {
                self.each(path, [from, to], |diff, path, values| {
                    diff.add(kind, path, values, None);
                });
            }
            values => self.add(kind, path, values, None),
        }
    }

    fn texts(
        &mut self,
        kind: DiffKind,
        path: &str,
        maps: [&BTreeMap<String, String>; 2],
        show: impl Fn(&str) -> String,
    ) {
        let keys: BTreeSet<&String> = maps.iter().flat_map(|map| map.keys()).collect();
        for key in keys {
            let [from, to] = maps.map(|map| map.get(key));
            if from != to {
                let [from, to] = [from, to].map(|text| text.map(|text| show(text)));
                self.changes.push(DiffChange { kind, path: format!("{path}.{key}"), from, to, layer: None });
            }
        }
    }

    fn model(&mut self, models: [&Value; 2]) {
        let part = |key: &str| models.map(|model| model.get(key).unwrap_or(&Value::Null));
        for (key, kind) in [
            ("networks", DiffKind::Network),
            ("volumes", DiffKind::Volume),
            ("secrets", DiffKind::File),
            ("configs", DiffKind::File),
        ] {
            self.each(key, part(key), |diff, path, values| {
                diff.whole_or_keys(kind, path, values);
            });
        }
        self.each("services", part("services"), |diff, path, values| match values {
            [Some(from), Some(to)] => diff.service(path, [from, to]),
            [from, to] => {
                // The whole service would be a page; its image says which it is.
                let name = |value: &Value| value.get("image").cloned().unwrap_or_else(|| Value::from("built"));
                let [from, to] = [from.map(name), to.map(name)];
                diff.add(DiffKind::Service, path, [from.as_ref(), to.as_ref()], None);
            }
        });
    }

    fn service(&mut self, path: &str, services: [&Value; 2]) {
        self.each(path, services, |diff, at, values| match &at[path.len() + 1..] {
            "image" => diff.add(DiffKind::Image, at, values, None),
            "build" => diff.add(DiffKind::Build, at, values, None),
            "environment" => {
                let maps = values.map(|map| map.unwrap_or(&Value::Null));
                diff.each(at, maps, |diff, at, values| {
                    diff.add(DiffKind::Variable, at, values, Some(LayerKind::Compose));
                });
            }
            "ports" => diff.items(DiffKind::Port, at, values, port),
            "volumes" => diff.items(DiffKind::Mount, at, values, |mount| text(mount, "target")),
            _ => diff.add(DiffKind::Service, at, values, None),
        });
    }

    /// Lists whose items have a name of their own.
    fn items(&mut self, kind: DiffKind, path: &str, lists: Pair<'_>, name: impl Fn(&Value) -> String) {
        let named = lists.map(|list| {
            let mut items: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
            for item in list.and_then(Value::as_array).into_iter().flatten() {
                items.entry(name(item)).or_default().push(item);
            }
            items
        });
        let keys: BTreeSet<&String> = named.iter().flat_map(BTreeMap::keys).collect();
        for key in keys {
            let [from, to] = named.each_ref().map(|items| items.get(key).map_or(&[][..], Vec::as_slice));
            for at in 0..from.len().max(to.len()) {
                self.add(kind, &format!("{path}.{key}"), [from.get(at).copied(), to.get(at).copied()], None);
            }
        }
    }

    /// A template that changed and comes to the same value for now.
    fn templates(&mut self, a: &Content, b: &Content) {
        let told: BTreeSet<String> = self.changes.iter().map(|change| change.path.clone()).collect();
        let services: BTreeSet<&String> = a.templates.keys().chain(b.templates.keys()).collect();
        for service in services {
            let maps = [a, b].map(|content| {
                content
                    .templates
                    .get(service)
                    .map(|map| serde_json::to_value(map).unwrap_or_default())
                    .unwrap_or_default()
            });
            let path = format!("services.{service}.environment");
            if told.contains(&format!("services.{service}")) {
                continue;
            }
            self.each(&path, maps.each_ref(), |diff, path, values| {
                if !told.contains(path) {
                    diff.add(DiffKind::Variable, path, values, Some(LayerKind::Compose));
                }
            });
        }
    }
}

fn text(value: &Value, key: &str) -> String {
    match value.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

/// A port's name: `80/tcp`.
fn port(port: &Value) -> String {
    let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("tcp");
    format!("{}/{protocol}", text(port, "target"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Request;
    use crate::secret::{Encoding, token};
    use serde_json::json;

    fn told(a: &Content, b: &Content) -> Vec<String> {
        revisions(a, b)
            .into_iter()
            .map(|change| {
                let side = |side: Option<String>| side.unwrap_or_else(|| "–".to_owned());
                let layer = change.layer.map(|layer| format!(" [{layer}]")).unwrap_or_default();
                format!("{} {}: {} → {}{layer}", change.kind, change.path, side(change.from), side(change.to))
            })
            .collect()
    }

    fn of(model: Value) -> Content {
        Content { model: Some(model), ..Content::default() }
    }

    #[test]
    fn every_kind_is_told_and_no_secret_is() {
        let mut a = of(json!({
            "services": {
                "web": {
                    "image": "web:1",
                    "environment": {"LEVEL": "info", "KEY": token("env:OLD", Encoding::Raw), "GONE": null},
                    "ports": [{"target": 80, "published": "8080", "protocol": "tcp"}],
                    "volumes": [{"type": "bind", "source": placeholder::CHECKOUT, "target": "/src"}],
                    "user": "1",
                },
                "old": {"image": "old:1"},
            },
            "networks": {"back": {"internal": true}},
            "volumes": {"data": null},
        }));
        a.manifest
            .resources
            .insert("db".parse().unwrap(), Request { engine: Some("postgres@16".into()), ..Request::default() });
        a.manifest.env.insert("STRIPE".into(), token("env:S", Encoding::Raw));
        a.modules.insert("postgres".into(), "one".into());
        a.files.insert("nginx.conf".into(), "a".repeat(64));
        a.builds.insert("web".into(), "b".repeat(64));
        a.interpolation.insert("UNSET".into(), None);
        let mut b = a.clone();
        b.model = Some(json!({
            "services": {
                "web": {
                    "image": "web:2",
                    "build": {"context": placeholder::CHECKOUT},
                    "environment": {"LEVEL": "debug", "KEY": token("env:NEW", Encoding::Raw)},
                    "ports": [{"target": 80, "published": "8081", "protocol": "tcp"}],
                    "volumes": [{"type": "volume", "source": "data", "target": "/src"}],
                    "user": "2",
                },
            },
            "networks": {"back": {}},
            "volumes": {},
        }));
        b.manifest
            .resources
            .insert("db".parse().unwrap(), Request { engine: Some("postgres@17".into()), ..Request::default() });
        b.manifest.env.remove("STRIPE");
        b.modules.insert("postgres".into(), "two".into());
        b.files.remove("nginx.conf");
        b.builds.insert("web".into(), "c".repeat(64));
        b.interpolation.clear();
        assert_eq!(
            told(&a, &b),
            [
                "resource resources.db.engine: postgres@16 → postgres@17",
                "service services.old: old:1 → –",
                "service services.web.user: 1 → 2",
                "image services.web.image: web:1 → web:2",
                "variable env.STRIPE: ‹env:S› → – [manifest]",
                "variable services.web.environment.GONE: null → – [compose]",
                "variable services.web.environment.KEY: ‹env:OLD› → ‹env:NEW› [compose]",
                "variable services.web.environment.LEVEL: info → debug [compose]",
                r#"port services.web.ports.80/tcp: {"protocol":"tcp","published":"8080","target":80} → {"protocol":"tcp","published":"8081","target":80}"#,
                r#"mount services.web.volumes./src: {"source":"‹checkout›","target":"/src","type":"bind"} → {"source":"data","target":"/src","type":"volume"}"#,
                "build builds.web: bbbbbbbbbbbb → cccccccccccc",
                r#"build services.web.build: – → {"context":"‹checkout›"}"#,
                "file files.nginx.conf: aaaaaaaaaaaa → –",
                "module modules.postgres: 7692c3ad3540 → 3fc4ccfe7458",
                "network networks.back.internal: true → –",
                "volume volumes.data: null → –",
            ]
        );
        assert!(told(&a, &a).is_empty());
        assert_eq!(told(&a, &b).len(), told(&b, &a).len());
    }

    #[test]
    fn a_template_is_told_once() {
        let template = |text: &str, value: &str| {
            let mut content = of(json!({"services": {"web": {"environment": {"URL": value}}}}));
            content.templates.insert("web".into(), BTreeMap::from([("URL".into(), text.into())]));
            content
        };
        assert_eq!(
            told(&template("${A:-x}", "x"), &template("${B:-x}", "x")),
            ["variable services.web.environment.URL: ${A:-x} → ${B:-x} [compose]"]
        );
        assert_eq!(
            told(&template("${A:-x}", "x"), &template("${A:-y}", "y")),
            ["variable services.web.environment.URL: x → y [compose]"]
        );
    }
}
