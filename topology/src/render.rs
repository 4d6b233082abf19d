//! From a plan to what Compose is given.
//!
//! One model, two writings: the *tree* on disk is YAML in which secrets stand as
//! `${_SSn?}`, and what goes to Compose's standard input is the same model as
//! JSON with the values filled in. JSON is YAML as long as some characters are
//! escaped and none is written as a surrogate pair; [`json`] sees to both.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::plan::Plan;
use crate::secret::{self, Encoding};
use crate::yaml;

/// A rendered instance.
#[derive(Debug, Clone)]
pub struct Rendered {
    /// The whole model with tokens.
    pub model: Value,
}

/// What is known of images when rendering.
#[derive(Debug, Clone, Default)]
pub struct Images {
    /// Images to use in the place of a service's own, by service: ids of pins.
    pub replace: BTreeMap<String, String>,
    /// Services whose built image is there already, so that nothing is built.
    pub built: std::collections::BTreeSet<String>,
}

/// Renders a plan.
pub fn render(plan: &Plan, images: &Images) -> Rendered {
    let mut services = Map::new();
    for (name, planned) in &plan.services {
        let mut service = value(&planned.compose);
        if let Value::Object(keys) = &mut service {
            if images.built.contains(name) {
                keys.remove("build");
            }
            if let Some(image) = images.replace.get(name) {
                keys.remove("build");
                keys.insert("image".to_owned(), Value::from(image.as_str()));
            }
        }
        services.insert(name.clone(), service);
    }
    let parts = [
        ("services", Value::Object(services)),
        ("networks", value(&plan.networks)),
        ("volumes", value(&plan.volumes)),
        ("secrets", value(&plan.file_objects.secrets)),
        ("configs", value(&plan.file_objects.configs)),
    ];
    let mut model = Map::new();
    model.insert("name".to_owned(), Value::from(plan.project.as_str()));
    for (key, part) in parts {
        if part.as_object().is_some_and(|part| !part.is_empty()) {
            model.insert(key.to_owned(), part);
        }
    }
    Rendered { model: Value::Object(model) }
}

/// Struct to value cannot fail: every key is a text and every number finite.
fn value(part: &impl serde::Serialize) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}

impl Rendered {
    /// The tree's `compose.yaml`: secrets by opaque names, nothing else changed.
    pub fn tree(&self) -> String {
        let mut names: BTreeMap<(String, Encoding), usize> = BTreeMap::new();
        let mut fill = |reference: &str, encoding: Encoding| {
            let next = names.len();
            let number = *names.entry((reference.to_owned(), encoding)).or_insert(next);
            format!("${{_SS{number}?}}")
        };
        yaml::write_edited(&self.model, &mut |text| {
            if text.contains('$') || secret::holds(text) {
                Cow::Owned(secret::replace(text, &mut fill, escape))
            } else {
                Cow::Borrowed(text)
            }
        })
    }

    /// The model for Compose's standard input, with the secrets filled in.
    ///
    /// `value` gives a secret's value by its reference.
    pub fn filled(&self, value: impl Fn(&str) -> String) -> String {
        json(&write(&self.model, &mut |reference, encoding| escape(&encoding.fill(&value(reference)))))
    }

    /// One service's part of the model, with tokens.
    pub fn service(&self, name: &str) -> Option<&Value> {
        self.model.get("services")?.get(name)
    }
}

/// `$` begins an interpolation in Compose.
fn escape(text: &str) -> String {
    text.replace('$', "$$")
}

/// A copy in which every text is written for Compose.
fn write(value: &Value, fill: &mut impl FnMut(&str, Encoding) -> String) -> Value {
    match value {
        Value::String(text) => Value::from(secret::replace(text, &mut *fill, escape)),
        Value::Array(items) => items.iter().map(|item| write(item, fill)).collect(),
        Value::Object(map) => Value::Object(map.iter().map(|(key, value)| (key.clone(), write(value, fill))).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// JSON that a YAML reader takes for the same.
///
/// YAML refuses DEL, most of C1 and the two non-characters at the end of the
/// plane, and takes NEL and the separators for line breaks; all of them are
/// written as escapes. Characters beyond the plane are written raw, since YAML
/// knows no surrogates.
pub fn json(value: &Value) -> String {
    yaml_safe(value.to_string())
}

/// One text in double quotes, likewise.
pub(crate) fn json_text(text: &str) -> String {
    yaml_safe(serde_json::to_string(text).unwrap_or_default())
}

fn yaml_safe(plain: String) -> String {
    if plain.chars().all(|c| !must_escape(c)) {
        return plain;
    }
    plain.chars().fold(String::with_capacity(plain.len()), |mut out, c| {
        if must_escape(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
        out
    })
}

fn must_escape(c: char) -> bool {
    matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn secrets_stand_by_name_on_disk_and_by_value_on_standard_input() {
        let token = secret::token("env:X", Encoding::Raw);
        let url = secret::token("env:X", Encoding::Url);
        let rendered = Rendered { model: json!({"a": format!("p{token}$q"), "b": url, "c": token}) };
        assert_eq!(rendered.tree(), "a: p${_SS0?}$$q\nb: ${_SS1?}\nc: ${_SS0?}\n");
        let filled = rendered.filled(|_| "s$ \"x".to_owned());
        assert_eq!(
            serde_json::from_str::<Value>(&filled).unwrap(),
            json!({"a": "ps$$ \"x$$q", "b": "s%24%20%22x", "c": "s$$ \"x"})
        );
    }

    proptest! {
        #[test]
        fn json_is_yaml(text in any::<String>()) {
            let text: String = text.chars().filter(|c| !matches!(c, '\0' | '\u{fffe}' | '\u{ffff}') && yaml::reserved(&c.to_string()).is_none()).collect();
            let value = json!({"k": text});
            let written = json(&value);
            let back: Value = yaml::parse("f", &written).map_err(|e| TestCaseError::fail(format!("{e}\n{written}")))?;
            prop_assert_eq!(value, back);
        }
    }
}
