//! The shape of a document against the JSON schema of the format.
//!
//! Deserialising stops at the first fault; this walk finds all of them. It knows
//! the part of JSON schema that `schemars` writes for [`crate::raw`], and a test
//! holds that both say the same.

use serde_json::{Map, Value};

use crate::faults::{Faults, listed};

/// What became of the walk.
pub(crate) struct Shape {
    /// Everything that is wrong.
    pub(crate) faults: Faults,
    /// The document without the keys that nobody knows.
    pub(crate) pruned: Value,
    /// Whether the pruned document can be taken for a module all the same.
    pub(crate) usable: bool,
}

/// Compares a document with a schema.
pub(crate) fn check(mut document: Value, schema: &Value) -> Shape {
    let mut walk = Walk { schema, faults: Faults::default(), usable: true };
    walk.value(&mut document, schema, &mut Vec::new());
    Shape { faults: walk.faults, pruned: document, usable: walk.usable }
}

struct Walk<'a> {
    schema: &'a Value,
    faults: Faults,
    usable: bool,
}

impl<'a> Walk<'a> {
    /// The schema that a `$ref` means.
    fn followed(&self, schema: &'a Value) -> &'a Value {
        schema
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|reference| self.schema.pointer(reference.strip_prefix('#')?))
            .unwrap_or(schema)
    }

    fn fault(&mut self, path: &[String], message: String, hint: Option<&str>) {
        self.usable = false;
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        match hint {
            Some(hint) => self.faults.hinted(&path, message, hint),
            None => self.faults.add(&path, message),
        }
    }

    fn value(&mut self, value: &mut Value, schema: &'a Value, path: &mut Vec<String>) {
        let schema = self.followed(schema);
        if let Some(choices) = choices(schema) {
            let fitting = choices.iter().map(|choice| self.followed(choice)).find(|choice| self.fits(value, choice));
            match fitting {
                Some(choice) => self.value(value, choice, path),
                None => self.mismatch(value, schema, path),
            }
            return;
        }
        if !self.fits(value, schema) {
            self.mismatch(value, schema, path);
            return;
        }
        match value {
            Value::Object(map) => self.object(map, schema, path),
            Value::Array(items) => {
                let inner = schema.get("items").unwrap_or(&Value::Null);
                for (index, item) in items.iter_mut().enumerate() {
                    path.push(index.to_string());
                    self.value(item, inner, path);
                    path.pop();
                }
            }
            Value::String(text) => {
                if let Some(known) = schema.get("enum").and_then(Value::as_array)
                    && !known.iter().any(|word| word.as_str() == Some(text))
                {
                    let words: Vec<&str> = known.iter().filter_map(Value::as_str).collect();
                    self.usable = false;
                    let path: Vec<&str> = path.iter().map(String::as_str).collect();
                    let message = format!("`{text}` is none of {}", listed(&words));
                    self.faults.add(&path, message);
                }
            }
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or_default();
                let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
                let low = bound("minimum").is_some_and(|minimum| number < minimum);
                let high = bound("maximum").is_some_and(|maximum| number > maximum);
                // A width such as that of an `i32` stands only as a format.
                let wide = match schema.get("format").and_then(Value::as_str) {
                    Some("int32") => number.abs() > f64::from(i32::MAX),
                    Some("uint32") => number > f64::from(u32::MAX),
                    _ => false,
                };
                if low || high || wide {
                    self.fault(path, format!("{number} is out of range"), None);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Whether a value is of a type that the schema allows; a schema without a
    /// type allows all.
    fn fits(&self, value: &Value, schema: &'a Value) -> bool {
        let schema = self.followed(schema);
        if let Some(choices) = choices(schema) {
            return choices.iter().any(|choice| self.fits(value, choice));
        }
        if let Some(constant) = schema.get("const") {
            return constant == value;
        }
        let kinds = kinds(schema);
        kinds.is_empty()
            || kinds.iter().any(|kind| match *kind {
                "string" => value.is_string(),
                "integer" => value.is_i64() || value.is_u64(),
                "number" => value.is_number(),
                "boolean" => value.is_boolean(),
                "array" => value.is_array(),
                "object" => value.is_object(),
                "null" => value.is_null(),
                _ => false,
            })
    }

    fn object(&mut self, map: &mut Map<String, Value>, schema: &'a Value, path: &mut Vec<String>) {
        let known = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        let names: Vec<String> = map.keys().cloned().collect();
        for name in names {
            let inner =
                known.and_then(|known| known.get(&name)).or(others.filter(|others| **others != Value::Bool(false)));
            path.push(name.clone());
            match (inner, map.get_mut(&name)) {
                (Some(inner), Some(value)) => self.value(value, inner, path),
                _ => {
                    let path: Vec<&str> = path.iter().map(String::as_str).collect();
                    let words = known.iter().flat_map(|known| known.keys());
                    self.faults.unknown(&path, format!("unknown key `{name}`"), &name, words.map(String::as_str));
                    map.remove(&name);
                }
            }
            path.pop();
        }
        let required = schema.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !map.contains_key(name) {
                self.fault(path, format!("`{name}` is missing"), None);
            }
        }
    }

    fn mismatch(&mut self, value: &Value, schema: &'a Value, path: &[String]) {
        let words: Vec<&str> =
            choices(schema).into_iter().flatten().filter_map(|choice| choice.get("const")?.as_str()).collect();
        if let Some(text) = value.as_str().filter(|_| !words.is_empty()) {
            self.fault(path, format!("`{text}` is none of {}", listed(&words)), None);
            return;
        }
        let mut wanted: Vec<&str> = Vec::new();
        for choice in leaves(self, schema) {
            for kind in kinds(choice) {
                let word = match kind {
                    "string" => "a text",
                    "integer" | "number" => "a whole number",
                    "boolean" => "`true` or `false`",
                    "array" => "a list",
                    "object" => "a map",
                    _ => continue,
                };
                if !wanted.contains(&word) {
                    wanted.push(word);
                }
            }
        }
        let found = match value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => format!("`{value}`"),
            // `400`, not `400.0`, for what YAML takes for a fraction.
            Value::Number(number) => match number.as_f64() {
                Some(fraction) if number.is_f64() => format!("the number {fraction}"),
                _ => format!("the number {number}"),
            },
            Value::String(_) => "a text".to_owned(),
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "a map".to_owned(),
        };
        let quotes = wanted.contains(&"a text") && (value.is_number() || value.is_boolean());
        self.fault(
            path,
            format!("expected {}, found {found}", wanted.join(" or ")),
            quotes.then_some("put it in quotes"),
        );
    }
}

fn choices(schema: &Value) -> Option<&Vec<Value>> {
    ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array())
}

/// The schemas without choices that a schema comes down to.
fn leaves<'a>(walk: &Walk<'a>, schema: &'a Value) -> Vec<&'a Value> {
    let schema = walk.followed(schema);
    match choices(schema) {
        Some(choices) => choices.iter().flat_map(|choice| leaves(walk, choice)).collect(),
        None => vec![schema],
    }
}

/// The types a schema allows, without looking behind references.
fn kinds(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::RawModule;
    use serde_json::json;

    /// Every place of a value, as JSON pointers.
    fn pointers(value: &Value, here: &str, into: &mut Vec<String>) {
        into.push(here.to_owned());
        let mut below = |key: &str, value| {
            let key = key.replace('~', "~0").replace('/', "~1");
            pointers(value, &format!("{here}/{key}"), into);
        };
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| below(key, value)),
            Value::Array(items) => {
                (items.iter().enumerate()).for_each(|(index, value)| below(&index.to_string(), value));
            }
            _ => {}
        }
    }

    #[test]
    fn the_schema_and_the_types_say_the_same() {
        let schema = crate::schema();
        let others = [
            json!(null),
            json!(true),
            json!(-1),
            json!(1_u64 << 40),
            json!(1.5),
            json!("x"),
            json!([]),
            json!(["x"]),
            json!({}),
            json!({"x": "y"}),
        ];
        let mut compared = 0;
        for (file, text) in crate::entries::BUILT_IN {
            let document: Value = sidestack_topology::yaml::read(file, text.as_bytes()).unwrap_or_default();
            let mut places = Vec::new();
            pointers(&document, "", &mut places);
            for place in &places {
                let mut changed: Vec<Value> = Vec::new();
                for other in &others {
                    let mut one = document.clone();
                    if let Some(value) = one.pointer_mut(place) {
                        *value = other.clone();
                    }
                    changed.push(one);
                }
                let mut without = document.clone();
                let (parent, key) = place.rsplit_once('/').unwrap_or_default();
                if let Some(Value::Object(map)) = without.pointer_mut(parent) {
                    map.remove(key);
                }
                changed.push(without);
                let mut with = document.clone();
                if let Some(Value::Object(map)) = with.pointer_mut(place) {
                    map.insert("zzz".to_owned(), json!("x"));
                }
                changed.push(with);
                for one in changed {
                    let shape = check(one.clone(), &schema);
                    let read = serde_json::from_value::<RawModule>(one.clone());
                    // The types would take a list for a map, its items in order.
                    let listed = one.pointer(place).is_some_and(Value::is_array);
                    let same = shape.faults.is_empty() == read.is_ok();
                    assert!(same || (listed && read.is_ok()), "{file} {place} {read:?}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 1_000, "{compared}");
    }
}
