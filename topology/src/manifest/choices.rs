//! The manifest's key `isolation`: what is shared, copied or created, and which self-addresses stay.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{kind, strings, unknown, wrong};
use crate::diagnostic::Diagnostic;

/// Choices that isolation leaves to a person; part of the revision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsolationChoices {
    /// External networks by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub networks: BTreeMap<String, NetworkChoice>,
    /// External volumes by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub volumes: BTreeMap<String, VolumeChoice>,
    /// Self-addresses that stay as the files have them, by name: `web.API_URL`, `web.healthcheck`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<String>,
}

/// What becomes of an external network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkChoice {
    /// Every service that the files attach stands in it.
    Share,
    /// Every instance has its own.
    Create,
    /// These services stand in it; the others have a private one in its place.
    #[serde(untagged)]
    Edge(Vec<String>),
}

/// What becomes of an external volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VolumeChoice {
    /// Every instance writes to it.
    Share,
    /// Every instance begins with a copy.
    Copy,
    /// Every instance has its own, empty at first.
    Create,
}

impl IsolationChoices {
    /// Whether nothing was chosen.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The key `isolation`.
pub(super) fn read(value: Option<&Value>, faults: &mut Vec<Diagnostic>) -> IsolationChoices {
    const KEYS: [&str; 3] = ["networks", "volumes", "keep"];
    let mut choices = IsolationChoices::default();
    let map = match value {
        None | Some(Value::Null) => return choices,
        Some(Value::Object(map)) => map,
        Some(other) => {
            wrong(faults, &["isolation"], "a mapping", other);
            return choices;
        }
    };
    for key in map.keys().filter(|key| !KEYS.contains(&key.as_str())) {
        unknown(faults, &["isolation"], key, &KEYS);
    }
    for (key, value) in chosen(map, "networks", faults) {
        // `{share: [SERVICE]}`, and nothing beside it.
        let edge = value.as_object().filter(|map| map.len() == 1).and_then(|map| map.get("share"));
        let choice = edge.filter(|edge| edge.is_array()).unwrap_or(value);
        match serde_json::from_value(choice.clone()) {
            Ok(choice) if edge.is_some() || !value.is_array() => _ = choices.networks.insert(key.clone(), choice),
            _ => faults.push(no_choice("networks", key, value, "choose share, create, or `{share: [SERVICE]}`")),
        }
    }
    for (key, value) in chosen(map, "volumes", faults) {
        match serde_json::from_value(value.clone()) {
            Ok(choice) => _ = choices.volumes.insert(key.clone(), choice),
            Err(_) => faults.push(no_choice("volumes", key, value, "choose share, copy or create")),
        }
    }
    choices.keep = strings(map.get("keep"), &["isolation", "keep"], faults);
    choices
}

/// The choices of a section, by key.
fn chosen<'a>(
    isolation: &'a Map<String, Value>,
    section: &str,
    faults: &mut Vec<Diagnostic>,
) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    let parts = match isolation.get(section) {
        None | Some(Value::Null) => None,
        Some(Value::Object(parts)) => Some(parts),
        Some(other) => {
            wrong(faults, &["isolation", section], "a mapping", other);
            None
        }
    };
    parts.into_iter().flatten()
}

fn no_choice(section: &str, key: &str, value: &Value, wanted: &str) -> Diagnostic {
    let shown = value.as_str().map_or_else(|| kind(value).to_owned(), |text| format!("`{text}`"));
    Diagnostic::error(&["isolation", section, key], format!("{shown} is no choice for `{key}`")).hint(wanted.to_owned())
}
