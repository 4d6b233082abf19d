//! Nothing in a model may look like a secret's token or a placeholder that is none.

use serde_json::Value;

use crate::compose::Project;
use crate::diagnostic::Diagnostic;
use crate::secret::{self, Part};
use crate::{placeholder, yaml};

/// Faults of a model that has its tokens and placeholders already.
pub(super) fn check(model: &Project, faults: &mut Vec<Diagnostic>) {
    // Most models are clean, and one look at the whole text tells. What looks wrong in it is looked for with its place.
    if serde_json::to_string(model).is_ok_and(|text| is_clean(&text)) {
        return;
    }
    let mut path = Vec::new();
    walk(&serde_json::to_value(model).unwrap_or_default(), &mut path, faults);
}

/// Whether a JSON text has placeholders at most, and whole ones. None reaches from one text of it into the next.
fn is_clean(text: &str) -> bool {
    if text.contains("u0000") {
        return false;
    }
    !secret::private(text) || wrong(text).is_none() && !secret::holds(text)
}

fn walk(value: &Value, path: &mut Vec<String>, faults: &mut Vec<Diagnostic>) {
    match value {
        Value::String(text) => {
            if let Some(what) = wrong(text) {
                fault(path, what, faults);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                path.push(at.to_string());
                walk(item, path, faults);
                path.pop();
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                path.push(key.clone());
                // Compose interpolates values only, so a secret in a key would stay one.
                if secret::forged(key) {
                    fault(path, "holds a secret in a key, where none can stand", faults);
                } else if let Some(what) = wrong(key) {
                    fault(path, what, faults);
                }
                walk(value, path, faults);
                path.pop();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn fault(path: &[String], what: &str, faults: &mut Vec<Diagnostic>) {
    let path: Vec<String> = path.iter().map(|part| placeholder::shown(&secret::shown(part))).collect();
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    faults.push(Diagnostic::error(&path, format!("`{}` {what}", path.join("."))));
}

/// What is left when everything well-formed is taken away.
fn wrong(text: &str) -> Option<&'static str> {
    const RESERVED: &str = "holds one of the characters U+E0F0 to U+E0F3, which are reserved";
    if yaml::reserved(text).is_none() && !text.contains('\0') {
        return None;
    }
    if text.contains('\0') {
        return Some("holds a NUL");
    }
    secret::parts(text).find_map(|part| match part {
        Part::Secret { reference, .. } => yaml::reserved(reference).map(|_| RESERVED),
        Part::Text(text) => {
            let rest = text.replace(placeholder::PROJECT, "").replace(placeholder::CHECKOUT, "");
            yaml::reserved(&rest).map(|_| RESERVED)
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::secret::{Encoding, token};

    fn piece() -> impl Strategy<Value = String> {
        let tokens = [token("env:X", Encoding::Raw), placeholder::PROJECT.to_owned(), placeholder::CHECKOUT.to_owned()];
        let strange = ["\u{E0F0}", "\u{E0F1}", "\u{E0F2}", "\u{E0F3}", "\0", "\\u0000", "\u{EE00}", "plain", "\""];
        let strange = strange.map(str::to_owned);
        prop_oneof![3 => proptest::sample::select(tokens.to_vec()), 1 => proptest::sample::select(strange.to_vec())]
    }

    proptest! {
        #[test]
        fn the_look_at_the_whole_finds_what_the_walk_finds(
            key in proptest::collection::vec(piece(), 0..3),
            value in proptest::collection::vec(piece(), 0..4),
            other in proptest::collection::vec(piece(), 0..3),
        ) {
            let model = json!({"services": {"web": {"environment": {key.concat(): value.concat(), "z": other.concat()}}}});
            let project: Project = serde_json::from_value(model).unwrap();
            let mut walked = Vec::new();
            walk(&serde_json::to_value(&project).unwrap(), &mut Vec::new(), &mut walked);
            if is_clean(&serde_json::to_string(&project).unwrap()) {
                prop_assert_eq!(&walked, &[]);
            }
            let mut found = Vec::new();
            check(&project, &mut found);
            prop_assert_eq!(found, walked);
        }
    }
}
