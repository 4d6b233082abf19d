//! A revision's content: everything that decides what runs, and nothing of where.
//!
//! Its canonical JSON is what the store keeps and what the digest covers: keys
//! sorted at every level, no insignificant white space, empty parts left out. The
//! same content therefore has the same text wherever and whenever it is
//! committed. Secrets stand in it as tokens ([`crate::secret`]), the checkout and
//! the project's name as placeholders ([`crate::placeholder`]).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::compose::Project;
use crate::manifest::Manifest;

/// The format this version writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// Environment entries as the files have them, by service and variable.
pub type Templates = BTreeMap<String, BTreeMap<String, String>>;

/// Values at commit by name; `None` was not set.
pub type Interpolation = BTreeMap<String, Option<String>>;

/// Everything that decides what runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// The format, [`FORMAT`].
    pub format: u32,
    /// The stack in its environment.
    pub manifest: Manifest,
    /// The texts of the modules it uses, by name: an upgrade of the catalogue
    /// changes no revision.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub modules: BTreeMap<String, String>,
    /// The Compose model with placeholders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Value>,
    /// Digests of build contexts, by service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub builds: BTreeMap<String, String>,
    /// Config files that the model names: path and SHA-256.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Environment entries before interpolation, where they interpolate something.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub templates: Templates,
    /// What was interpolated; secrets are tokens.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub interpolation: Interpolation,
    /// Profiles that are on, of those that the model has, sorted. Another choice
    /// of profiles is therefore another revision: `up --profile debug` makes one,
    /// and a later plain `up` goes back to the one without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
}

impl Default for Content {
    fn default() -> Self {
        Self::new(Manifest::default())
    }
}

/// Why a text is no revision content.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// A newer Sidestack wrote it.
    #[error("revision content of format {found} was made by a newer version; this one reads up to {FORMAT}")]
    Newer {
        /// The format it has.
        found: u64,
    },
    /// It is damaged.
    #[error("revision content cannot be read")]
    Damaged(#[source] serde_json::Error),
    /// The model is none.
    #[error("the revision's compose model cannot be read")]
    Model(#[source] serde_json::Error),
}

impl Content {
    /// A stack of nothing but its manifest.
    pub fn new(manifest: Manifest) -> Self {
        Self {
            format: FORMAT,
            manifest,
            modules: BTreeMap::new(),
            model: None,
            builds: BTreeMap::new(),
            files: BTreeMap::new(),
            templates: BTreeMap::new(),
            interpolation: BTreeMap::new(),
            profiles: Vec::new(),
        }
    }

    /// The text that is kept and that the digest covers.
    pub fn to_canonical_json(&self) -> String {
        // Every key is a text and every number finite, so this cannot fail.
        canonical(&serde_json::to_value(self).unwrap_or_default())
    }

    /// The SHA-256 of the canonical text, in lower-case hexadecimal.
    pub fn digest(&self) -> String {
        hex(&Sha256::digest(self.to_canonical_json()))
    }

    /// Reads what [`Content::to_canonical_json`] wrote.
    ///
    /// # Errors
    /// [`ContentError::Newer`] for a format above [`FORMAT`], whatever else the
    /// text holds; [`ContentError::Damaged`] for anything that is no content.
    pub fn from_json(text: &str) -> Result<Self, ContentError> {
        let value: Value = serde_json::from_str(text).map_err(ContentError::Damaged)?;
        match value.get("format").and_then(Value::as_u64) {
            Some(found) if found > u64::from(FORMAT) => Err(ContentError::Newer { found }),
            _ => serde_json::from_value(value).map_err(ContentError::Damaged),
        }
    }

    /// The Compose model, typed; placeholders stand in it still.
    ///
    /// # Errors
    /// [`ContentError::Model`] when the model has another shape.
    pub fn project(&self) -> Result<Option<Project>, ContentError> {
        self.model.as_ref().map(Project::deserialize).transpose().map_err(ContentError::Model)
    }
}

/// A value as JSON with keys sorted at every level and no white space, whatever
/// order the map type keeps.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (at, (key, value)) in entries.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                let _ = write!(out, "{}:", Value::from(key.as_str()));
                write(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        scalar => {
            let _ = write!(out, "{scalar}");
        }
    }
}

/// Bytes in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn the_canonical_text_is_fixed() {
        let mut content = Content::default();
        content.manifest.env.insert("B".into(), "2".into());
        content.manifest.env.insert("A".into(), "1".into());
        content.model = Some(json!({"services": {"web": {"image": "x", "build": null}}, "name": "n"}));
        assert_eq!(
            content.to_canonical_json(),
            r#"{"format":1,"manifest":{"compose":[],"env":{"A":"1","B":"2"},"inject":{},"resources":{}},"model":{"name":"n","services":{"web":{"build":null,"image":"x"}}}}"#
        );
        assert_eq!(Content::from_json(&content.to_canonical_json()).unwrap(), content);
        assert_eq!(content.digest().len(), 64);
    }

    #[test]
    fn a_newer_format_is_told_from_damage() {
        let newer = Content::from_json(r#"{"format":2,"anything":[]}"#).unwrap_err();
        assert!(matches!(newer, ContentError::Newer { found: 2 }), "{newer}");
        assert!(newer.to_string().contains("made by a newer version"));
        for damaged in ["", "{}", "[]", r#"{"format":1}"#, r#"{"format":1,"manifest":{},"more":1}"#] {
            let error = Content::from_json(damaged).unwrap_err();
            assert!(matches!(error, ContentError::Damaged(_)), "{damaged}: {error}");
        }
    }

    proptest! {
        #[test]
        fn the_order_of_keys_does_not_matter(
            entries in prop::collection::btree_map("[a-zA-Z0-9]{1,4}", "\\PC{0,6}", 0..12),
            seed in any::<u64>(),
        ) {
            // Written in another order, with white space, and nested once more.
            let mut shuffled: Vec<_> = entries.iter().collect();
            shuffled.sort_by_key(|(key, _)| key.bytes().fold(seed, |sum, b| sum.wrapping_mul(31) ^ u64::from(b)));
            let body = shuffled
                .iter()
                .map(|(key, value)| format!(" {} :\n {} ", json!(key), json!(value)))
                .collect::<Vec<_>>()
                .join(",");
            let text = format!("{{\"z\": {{{body}}}, \"a\": {{{body}}}}}");
            let read: Value = serde_json::from_str(&text).unwrap();
            let sorted = json!({"a": entries, "z": entries});
            prop_assert_eq!(canonical(&read), canonical(&sorted));
            prop_assert_eq!(serde_json::from_str::<Value>(&canonical(&read)).unwrap(), sorted);
        }
    }
}
