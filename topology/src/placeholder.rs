//! What a revision leaves open: the project's name and the checkout's folder.
//!
//! A revision is the same wherever it is committed, so its compose model holds
//! these two texts instead. They are bracketed by private-use characters that no
//! input may hold, and filled in when an instance is planned.

use serde_json::Value;

/// Stands for the Compose project's name.
pub const PROJECT: &str = "\u{E0F2}project\u{E0F3}";
/// Stands for the checkout's folder, without a slash at its end.
pub const CHECKOUT: &str = "\u{E0F2}checkout\u{E0F3}";

/// Whether a text has the characters that only placeholders may have.
pub fn forged(text: &str) -> bool {
    crate::secret::private(text) && text.contains(['\u{E0F2}', '\u{E0F3}'])
}

/// The text for a person: `‹checkout›/src`.
pub fn shown(text: &str) -> String {
    text.replace('\u{E0F2}', "‹").replace('\u{E0F3}', "›")
}

/// Fills both in, everywhere in a value, keys included.
pub fn fill(value: &mut Value, project: &str, checkout: &str) {
    let text = |text: &str| text.replace(PROJECT, project).replace(CHECKOUT, checkout);
    match value {
        Value::String(string) if forged(string) => *string = text(string),
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, project, checkout)),
        Value::Object(map) => {
            if map.keys().any(|key| forged(key)) {
                *map = std::mem::take(map).into_iter().map(|(key, value)| (text(&key), value)).collect();
            }
            map.values_mut().for_each(|value| fill(value, project, checkout));
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
