//! Which rule changed what: the report of isolation.
//!
//! A rule that changes the model *claims* the place, by its JSON pointer. The
//! report is the structural difference between the model as the files have it and
//! as it will run; each entry is given to the claim with the longest pointer at or
//! above it. So the report holds exactly what differs: nothing that was changed
//! is missing, and nothing is told that was not changed.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::plan::Change;

/// A rule's hold on a place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Claim {
    rule: &'static str,
    reason: String,
}

/// Claims by JSON pointer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims(BTreeMap<String, Claim>);

/// The name of what no rule claims: there must be nothing of it.
pub const UNEXPLAINED: &str = "unexplained";

/// A JSON pointer (RFC 6901).
pub(crate) fn pointer(path: &[impl AsRef<str>]) -> String {
    let mut pointer = String::new();
    for part in path {
        pointer.push('/');
        let part = part.as_ref();
        if part.contains(['~', '/']) {
            pointer.push_str(&part.replace('~', "~0").replace('/', "~1"));
        } else {
            pointer.push_str(part);
        }
    }
    pointer
}

/// One form for what means the same: every network, volume, secret and config has its name, as Compose gives it, and
/// what says nothing is left out. That is null (Compose: not set) and an empty mapping, except that a network which a
/// service joins is joined also with nothing more to say.
pub(crate) fn plain(model: &mut Value, project: &str) {
    let Value::Object(sections) = model else { return };
    for section in ["networks", "volumes", "secrets", "configs"] {
        for (key, part) in sections.get_mut(section).and_then(Value::as_object_mut).into_iter().flatten() {
            if part.is_null() {
                *part = Value::Object(Map::new());
            }
            let Value::Object(part) = part else { continue };
            let external = part.get("external").and_then(Value::as_bool) == Some(true);
            let name = || Value::from(if external { key.clone() } else { format!("{project}_{key}") });
            part.entry("name").or_insert_with(name);
        }
    }
    for (_, service) in sections.get_mut("services").and_then(Value::as_object_mut).into_iter().flatten() {
        let Value::Object(service) = service else { continue };
        let mut networks = service.remove("networks");
        service.values_mut().for_each(prune);
        for (_, joined) in networks.as_mut().and_then(Value::as_object_mut).into_iter().flatten() {
            prune(joined);
            if joined.is_null() {
                *joined = Value::Object(Map::new());
            }
        }
        service.extend(networks.map(|networks| ("networks".to_owned(), networks)));
        service.retain(|_, value| !says_nothing(value));
    }
    for (_, section) in sections.iter_mut().filter(|(key, _)| *key != "services") {
        prune(section);
    }
    sections.retain(|_, section| !says_nothing(section));
}

fn says_nothing(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(prune);
            map.retain(|_, value| !says_nothing(value));
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

impl Claims {
    /// The last claim on a place stands.
    pub(crate) fn claim(&mut self, pointer: String, rule: &'static str, reason: impl Into<String>) {
        self.0.insert(pointer, Claim { rule, reason: reason.into() });
    }

    /// Of `path`.
    pub(crate) fn at(&mut self, path: &[&str], rule: &'static str, reason: &str) {
        self.claim(pointer(path), rule, reason);
    }

    /// The rule that is on the place itself, on a part of it when it came or went as a whole, or on the longest pointer
    /// above.
    fn owner(&self, pointer: &str, whole: bool) -> Option<&Claim> {
        let below = || {
            let below = format!("{pointer}/");
            self.0.range(below.clone()..).next().filter(|(at, _)| at.starts_with(&below)).map(|(_, claim)| claim)
        };
        if let Some(claim) = self.0.get(pointer) {
            return Some(claim);
        }
        if whole && let Some(claim) = below() {
            return Some(claim);
        }
        let mut above = pointer;
        while let Some(cut) = above.rfind('/') {
            above = &above[..cut];
            if let Some(claim) = self.0.get(above) {
                return Some(claim);
            }
        }
        below()
    }

    /// What differs between two models, and by whom.
    pub(crate) fn differences(&self, from: &Value, to: &Value) -> Vec<Change> {
        let mut changes = Vec::new();
        self.walk(from, to, &mut String::new(), &mut changes);
        changes
    }

    fn walk(&self, from: &Value, to: &Value, at: &mut String, changes: &mut Vec<Change>) {
        match (from, to) {
            (from, to) if from == to => {}
            (Value::Object(from), Value::Object(to)) => self.keys(from, to, at, changes),
            (Value::Array(from), Value::Array(to)) if from.len() <= to.len() => {
                // What is more stands at the end.
                let from = from.iter().chain(std::iter::repeat(&Value::Null));
                for (index, (from, to)) in from.zip(to).enumerate() {
                    self.below(&index.to_string(), from, to, at, changes);
                }
            }
            (from, to) => changes.push(self.change(at, from.clone(), to.clone())),
        }
    }

    fn keys(&self, from: &Map<String, Value>, to: &Map<String, Value>, at: &mut String, changes: &mut Vec<Change>) {
        let keys: std::collections::BTreeSet<&String> = from.keys().chain(to.keys()).collect();
        for key in keys {
            let null = Value::Null;
            let (from, to) = (from.get(key).unwrap_or(&null), to.get(key).unwrap_or(&null));
            self.below(key, from, to, at, changes);
        }
    }

    fn below(&self, key: &str, from: &Value, to: &Value, at: &mut String, changes: &mut Vec<Change>) {
        let length = at.len();
        at.push_str(&pointer(&[key]));
        self.walk(from, to, at, changes);
        at.truncate(length);
    }

    fn change(&self, at: &str, from: Value, to: Value) -> Change {
        let mut parts = at.split('/').skip(1);
        let service = (parts.next() == Some("services"))
            .then(|| parts.next().unwrap_or_default().replace("~1", "/").replace("~0", "~"));
        let (rule, reason) = match self.owner(at, from.is_null() || to.is_null()) {
            Some(claim) => (claim.rule, claim.reason.clone()),
            None => (UNEXPLAINED, "no rule says why".to_owned()),
        };
        Change { rule, service, path: at.to_owned(), from, to, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differences_go_to_the_nearest_claim() {
        let mut claims = Claims::default();
        claims.at(&["services", "web"], "whole", "w");
        claims.at(&["services", "web", "ports", "0"], "port", "p");
        claims.at(&["networks", "a/b~c", "labels", "x"], "label", "l");
        let from = json!({"services": {"web": {"ports": [{"published": "80"}], "image": "a", "command": ["x"]}}, "networks": {"a/b~c": {}}, "same": [1, {"x": null}], "more": ["a"]});
        let to = json!({"services": {"web": {"ports": [{"published": "20100"}], "image": "b"}}, "networks": {"a/b~c": {"labels": {"x": "1"}}}, "same": [1, {}], "more": ["a", "b"], "new": 1});
        let told: Vec<_> =
            claims.differences(&from, &to).into_iter().map(|c| (c.rule, c.service, c.path, c.from, c.to)).collect();
        let web = || Some("web".to_owned());
        assert_eq!(
            told,
            [
                (UNEXPLAINED, None, "/more/1".to_owned(), Value::Null, json!("b")),
                ("label", None, "/networks/a~1b~0c/labels".to_owned(), Value::Null, json!({"x": "1"})),
                (UNEXPLAINED, None, "/new".to_owned(), Value::Null, json!(1)),
                ("whole", web(), "/services/web/command".to_owned(), json!(["x"]), Value::Null),
                ("whole", web(), "/services/web/image".to_owned(), json!("a"), json!("b")),
                ("port", web(), "/services/web/ports/0/published".to_owned(), json!("80"), json!("20100")),
            ]
        );
    }
}
