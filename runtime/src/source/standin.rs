//! Stand-ins: what Compose sees in the place of a secret's value.
//!
//! Compose interpolates before it prints, so a value that it is given comes back anywhere in the model. It is given a
//! word of letters and digits instead, and wherever that word comes back, a secret's token is put. The word is made from
//! the name and this machine's key: nobody writes it by accident, and nothing of it stays in the model.

use std::collections::BTreeMap;

use super::context::hmac;

/// Lower case, so that an image's name takes it.
const PREFIX: &str = "ssstandin0x";
/// Hex digits after the prefix.
const DIGITS: usize = 24;

/// The stand-ins of one reading.
pub(super) struct StandIns {
    key: [u8; 32],
    by_word: BTreeMap<String, StandIn>,
}

struct StandIn {
    name: String,
    token: String,
}

impl StandIns {
    /// None yet.
    pub(super) fn new(machine_key: &[u8; 32]) -> Self {
        Self { key: *machine_key, by_word: BTreeMap::new() }
    }

    /// The word for a variable.
    pub(super) fn word(&self, name: &str) -> String {
        let digits = hmac(&self.key, &[b"stand-in ", name.as_bytes()]);
        format!("{PREFIX}{}", &digits[..DIGITS])
    }

    /// The word for a variable, and the token that will take its place.
    pub(super) fn add(&mut self, name: &str, token: String) -> String {
        let word = self.word(name);
        self.by_word.insert(word.clone(), StandIn { name: name.to_owned(), token });
        word
    }

    /// The text with every word replaced by its token.
    pub(super) fn swap(&self, text: &str) -> String {
        self.replace(text, |stand_in| stand_in.token.clone())
    }

    /// The text as it may be shown: every word replaced by its variable's name.
    pub(super) fn mask(&self, text: &str) -> String {
        self.replace(text, |stand_in| format!("${{{}}}", stand_in.name))
    }

    /// The first variable whose word is in a text.
    pub(super) fn name_in(&self, text: &str) -> Option<&str> {
        let mut first = None;
        self.replace(text, |stand_in| {
            first.get_or_insert(stand_in.name.as_str());
            String::new()
        });
        first
    }

    fn replace<'a>(&'a self, text: &str, mut with: impl FnMut(&'a StandIn) -> String) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(PREFIX) {
            let word = rest.get(at..at + PREFIX.len() + DIGITS);
            match word.and_then(|word| self.by_word.get(word)) {
                Some(stand_in) => {
                    out.push_str(&rest[..at]);
                    out.push_str(&with(stand_in));
                    rest = &rest[at + PREFIX.len() + DIGITS..];
                }
                None => {
                    out.push_str(&rest[..at + PREFIX.len()]);
                    rest = &rest[at + PREFIX.len()..];
                }
            }
        }
        out.push_str(rest);
        out
    }
}

/// Variables as an env file that Compose reads back exactly.
///
/// A file and not the process's environment, so that no variable can steer Compose or the program loader, and so that a
/// large one does not fail the start of the process.
pub(super) fn env_file(variables: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for (name, value) in variables {
        text.push_str(name);
        text.push_str("=\"");
        for c in value.chars() {
            match c {
                '\\' | '"' | '$' => text.extend(['\\', c]),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                c => text.push(c),
            }
        }
        text.push_str("\"\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_out_as_tokens_or_names_and_others_stay() {
        let mut all = StandIns::new(&[7; 32]);
        let (a, b) = (all.add("A", "<a>".into()), all.add("B", "<b>".into()));
        assert_ne!(a, b);
        assert!(a.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()));
        let text = format!("x{a}{b}/{PREFIX}0/{PREFIX}");
        assert_eq!(all.swap(&text), format!("x<a><b>/{PREFIX}0/{PREFIX}"));
        assert_eq!(all.mask(&a), "${A}");
        assert_eq!((all.name_in(&text), all.name_in("x")), (Some("A"), None));
    }

    #[test]
    fn env_files_read_back() {
        let values = ["", " a ", "a$b'c\"d\\e", "${X}", "l1\nl2\r", "#x # y", "\\n", "ü"];
        let variables: BTreeMap<_, _> =
            values.iter().enumerate().map(|(n, v)| (format!("V{n}"), (*v).to_owned())).collect();
        let read = crate::secrets::parse_dotenv(&env_file(&variables)).unwrap();
        let read: BTreeMap<_, _> = read.into_iter().map(|(k, v, _)| (k, v)).collect();
        assert_eq!(read, variables);
    }
}
