//! The hunt for planted values: raw, and in every form that would give them back.

use std::fs;
use std::path::{Path, PathBuf};

use crate::World;

/// Values to look for, in all their forms.
#[derive(Debug, Clone)]
pub struct Hunt {
    forms: Vec<(String, String)>,
}

/// Where a form of a value was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The place: a path, or what the caller called it.
    pub place: String,
    /// Which value, in which form.
    pub form: String,
}

impl Hunt {
    /// Looks for these values.
    pub fn new(values: &[&str]) -> Self {
        let mut forms = Vec::new();
        for value in values {
            let mut add = |form: &str, text: String| {
                if !forms.iter().any(|(_, known)| *known == text) {
                    forms.push((format!("`{value}` {form}"), text));
                }
            };
            add("raw", (*value).to_owned());
            // Inside a longer text a value stands at any of three offsets.
            for shift in 0..3 {
                add("in base64", base64_core(value.as_bytes(), shift));
            }
            let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
            add("in hex", hex.to_uppercase());
            add("in hex", hex);
            let url: String = value.bytes().map(url_byte).collect();
            add("URL-encoded", url);
            // As it goes to Compose: both at once.
            let doubled = value.replace('$', "$$");
            for (form, text) in [("JSON-escaped", *value), ("JSON-escaped with `$` doubled", doubled.as_str())] {
                let json = serde_json::to_string(text).unwrap();
                add(form, json[1..json.len() - 1].to_owned());
            }
            add("with `$` doubled", doubled);
        }
        Self { forms }
    }

    /// In some bytes.
    pub fn bytes(&self, place: &str, bytes: &[u8]) -> Vec<Finding> {
        // The forms are plain text, which bytes that are none cannot hide; and a search in
        // text is fast also in a build that is not optimised.
        let text = String::from_utf8_lossy(bytes);
        let hits = self.forms.iter().filter(|(_, form)| text.contains(form.as_str()));
        hits.map(|(form, _)| Finding { place: place.to_owned(), form: form.clone() }).collect()
    }

    /// In every file below a folder but those that `spared` names, and in their names.
    pub fn folder(&self, folder: &Path, spared: &[&Path]) -> Vec<Finding> {
        let mut found = Vec::new();
        for path in files(folder) {
            if spared.contains(&path.as_path()) {
                continue;
            }
            let place = path.display().to_string();
            found.extend(self.bytes(&format!("the name {place}"), place.as_bytes()));
            if let Ok(bytes) = fs::read(&path) {
                found.extend(self.bytes(&place, &bytes));
            }
        }
        found
    }

    /// In everything that a world's Sidestack may have written: its store, the stack's folder but the files that
    /// `spared` names, the user's home, and the files of its that lie in the common folder.
    pub fn written(&self, world: &World, spared: &[&Path]) -> Vec<Finding> {
        let mut found = self.folder(&world.home(), &[]);
        found.extend(self.folder(&world.folder(), spared));
        found.extend(self.folder(&world.root().join("user"), &[]));
        for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_string_lossy().starts_with("sidestack-") && !world.root().starts_with(entry.path()) {
                let bytes = fs::read(entry.path()).unwrap_or_default();
                found.extend(self.bytes(&entry.path().display().to_string(), &bytes));
            }
        }
        found
    }
}

/// All files below a folder, not through links.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            all.extend(files(&entry.path()));
        } else if kind.is_file() {
            all.push(entry.path());
        }
    }
    all
}

fn url_byte(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        char::from(byte).to_string()
    } else {
        format!("%{byte:02X}")
    }
}

/// The characters of base64 that only the value decides when it stands `shift` bytes in.
fn base64_core(value: &[u8], shift: usize) -> String {
    const TABLE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bits = Vec::new();
    for byte in std::iter::repeat_n(&0, shift).chain(value) {
        bits.extend((0..8).rev().map(|bit| byte >> bit & 1));
    }
    let first = (shift * 8).div_ceil(6);
    let sextets = bits.chunks_exact(6).skip(first);
    sextets.map(|six| char::from(TABLE[six.iter().fold(0, |sum, bit| sum << 1 | usize::from(*bit))])).collect()
}

#[cfg(test)]
mod tests {
    use super::Hunt;

    #[test]
    fn every_form_is_found() {
        let hunt = Hunt::new(&["s3cr$t/Canary 1"]);
        for text in [
            "x s3cr$t/Canary 1 y",
            "czNjciR0L0NhbmFyeSAx",
            "eHMzY3IkdC9DYW5hcnkgMQ==",
            "eHhzM2NyJHQvQ2FuYXJ5IDE=",
            "7333637224742f43616e6172792031",
            "s3cr%24t%2FCanary%201",
            "s3cr$$t/Canary 1",
        ] {
            assert!(!hunt.bytes("text", text.as_bytes()).is_empty(), "{text}");
        }
        assert!(hunt.bytes("text", b"nothing of the kind").is_empty());
    }
}
