//! References to secrets, as people write them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A parsed reference. As text, and serialised, it is what was written; two are the same when their texts are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference(Arc<Parsed>);

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Parsed {
    text: String,
    provider: Provider,
}

/// Where a reference leads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    /// `env:NAME`: a variable of the process that runs Sidestack.
    Env {
        /// Its name.
        name: String,
    },
    /// `keychain:SERVICE/ACCOUNT`: an entry of the operating system's keychain. The service ends at the first slash.
    Keychain {
        /// Its service.
        service: String,
        /// Its account.
        account: String,
    },
    /// `command:PROGRAM ARGUMENTS`: what a program prints. Quoted as in a shell, run without one.
    Command {
        /// The program and its arguments, at least one word.
        words: Vec<String>,
    },
    /// `file:PATH`: what a file holds.
    File {
        /// Its path as written: absolute, relative to the checkout, or from `~/`.
        path: String,
    },
    /// `dotenv:PATH#KEY`: a key of a dotenv file. The path ends at the last `#`.
    Dotenv {
        /// Its path as written, as for `file`.
        path: String,
        /// The key.
        key: String,
    },
}

/// Why a text is no reference. The text may be a secret that was pasted by mistake, so none of it is repeated but
/// what is certain to be none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// No provider is named.
    #[error("a secret reference starts with `env:`, `keychain:`, `command:`, `file:` or `dotenv:`")]
    NoProvider,
    /// A provider that does not exist.
    #[error("unknown secret provider `{0}`; there are `env`, `keychain`, `command`, `file` and `dotenv`")]
    UnknownProvider(String),
    /// Something about the rest.
    #[error("a `{provider}:` reference {why}")]
    Malformed {
        /// The provider.
        provider: &'static str,
        /// What is wrong.
        why: &'static str,
    },
}

impl Reference {
    /// Where it leads.
    pub fn provider(&self) -> &Provider {
        &self.0.provider
    }

    /// What was written.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Whether it leads into the operating system's keychain.
    pub fn is_keychain(&self) -> bool {
        matches!(self.0.provider, Provider::Keychain { .. })
    }

    /// The reference to a keychain entry.
    ///
    /// # Errors
    /// When one of the names is empty, has a control character, or the service has a slash.
    pub fn keychain(service: &str, account: &str) -> Result<Self, ReferenceError> {
        if service.contains('/') {
            return Err(malformed("keychain", "has a service with a slash"));
        }
        format!("keychain:{service}/{account}").parse()
    }
}

fn malformed(provider: &'static str, why: &'static str) -> ReferenceError {
    ReferenceError::Malformed { provider, why }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (provider, rest) = text.split_once(':').ok_or(ReferenceError::NoProvider)?;
        let known = match provider {
            "env" => "env",
            "keychain" => "keychain",
            "command" => "command",
            "file" => "file",
            "dotenv" => "dotenv",
            other if other.len() <= 12 && other.bytes().all(|b| b.is_ascii_lowercase()) && !other.is_empty() => {
                return Err(ReferenceError::UnknownProvider(other.to_owned()));
            }
            _ => return Err(ReferenceError::NoProvider),
        };
        let bad = |why| malformed(known, why);
        if rest.chars().any(char::is_control) {
            return Err(bad("contains a control character"));
        }
        let provider = match known {
            "env" => Provider::Env {
                name: valid_key(rest).ok_or(bad("needs the name of a variable: letters, digits and `_`"))?,
            },
            "keychain" => match rest.split_once('/') {
                Some((service, account)) if !service.is_empty() && !account.is_empty() => {
                    Provider::Keychain { service: service.to_owned(), account: account.to_owned() }
                }
                _ => return Err(bad("looks like `keychain:SERVICE/ACCOUNT`")),
            },
            "command" => Provider::Command { words: split_words(rest).map_err(bad)? },
            "file" => Provider::File { path: valid_path(rest).map_err(bad)? },
            _ => {
                let (path, key) = rest.rsplit_once('#').ok_or(bad("looks like `dotenv:PATH#KEY`"))?;
                Provider::Dotenv {
                    path: valid_path(path).map_err(bad)?,
                    key: valid_key(key).ok_or(bad("needs a key after the `#`: letters, digits and `_`"))?,
                }
            }
        };
        Ok(Self(Arc::new(Parsed { text: text.to_owned(), provider })))
    }
}

fn valid_key(key: &str) -> Option<String> {
    let fits = |c: char| c == '_' || c.is_ascii_alphanumeric();
    let starts_well = key.chars().next().is_some_and(|c| !c.is_ascii_digit());
    (starts_well && key.chars().all(fits)).then(|| key.to_owned())
}

fn valid_path(path: &str) -> Result<String, &'static str> {
    if path.is_empty() {
        return Err("needs a path");
    }
    if path.starts_with('~') && path != "~" && !path.starts_with("~/") {
        return Err("knows `~/`, but no other user's home folder");
    }
    Ok(path.to_owned())
}

/// Splits as a shell would, for what needs no shell. What a shell would expand or act on is refused rather than passed
/// on literally, since whoever writes it expects a shell.
fn split_words(text: &str) -> Result<Vec<String>, &'static str> {
    const ACTIVE: &str = "contains `|`, `&`, `;`, `<`, `>`, `$` or a backquote, but is run without a shell: \
                          put it into single quotes if it is meant literally";
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or("has a quote that is not closed")? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or("has a quote that is not closed")? {
                        '"' => break,
                        '$' | '`' => return Err(ACTIVE),
                        '\\' => match chars.next().ok_or("has a quote that is not closed")? {
                            c @ ('"' | '\\' | '$' | '`') => word.push(c),
                            c => word.extend(['\\', c]),
                        },
                        c => word.push(c),
                    }
                }
            }
            '\\' => {
                let c = chars.next().ok_or("ends with a backslash")?;
                word.get_or_insert_default().push(c);
            }
            '|' | '&' | ';' | '<' | '>' | '$' | '`' => return Err(ACTIVE),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words),
        _ => Err("needs a program"),
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reference({})", self.0.text)
    }
}

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.text)
    }
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn provider(text: &str) -> Provider {
        let reference: Reference = text.parse().unwrap();
        assert_eq!(reference.to_string(), text);
        reference.provider().clone()
    }

    #[test]
    fn each_provider_is_read() {
        assert_eq!(provider("env:A_1"), Provider::Env { name: "A_1".into() });
        assert_eq!(
            provider("keychain:shop/stripe/live"),
            Provider::Keychain { service: "shop".into(), account: "stripe/live".into() }
        );
        assert_eq!(provider("file:~/a b#c"), Provider::File { path: "~/a b#c".into() });
        assert_eq!(
            provider("dotenv:../a#b/.env#KEY"),
            Provider::Dotenv { path: "../a#b/.env".into(), key: "KEY".into() }
        );
        assert_eq!(
            provider("command:op read op://x/y"),
            Provider::Command { words: vec!["op".into(), "read".into(), "op://x/y".into()] }
        );
    }

    #[test]
    fn commands_are_split_as_a_shell_would() {
        for (text, expected) in [
            ("a  b ", vec!["a", "b"]),
            ("a 'b c' \"d e\"", vec!["a", "b c", "d e"]),
            (r#"a "q\"q" b\ c '\n'"#, vec!["a", "q\"q", "b c", "\\n"]),
            ("a '' x''y", vec!["a", "", "xy"]),
            (r#"a '$HOME;|' "\$x" "\n""#, vec!["a", "$HOME;|", "$x", "\\n"]),
        ] {
            assert_eq!(split_words(text).unwrap(), expected, "{text}");
        }
        for text in ["", "  ", "''", "a 'b", "a \"b", "a \\", "a | b", "a $X", "a \"$X\"", "a `b`", "a;b", "a > b"] {
            assert!(split_words(text).is_err(), "{text}");
        }
    }

    #[test]
    fn errors_say_what_is_wrong_and_repeat_no_secret() {
        for (text, expected) in [
            ("env:", "variable"),
            ("env:1A", "variable"),
            ("env:A B", "variable"),
            ("keychain:shop", "SERVICE/ACCOUNT"),
            ("keychain:/x", "SERVICE/ACCOUNT"),
            ("command:", "program"),
            ("command:a | b", "without a shell"),
            ("file:", "path"),
            ("file:~other/x", "home folder"),
            ("dotenv:.env", "PATH#KEY"),
            ("dotenv:.env#", "key"),
            ("file:a\nb", "control character"),
            ("vault:x", "unknown secret provider `vault`"),
            ("Env:X", "starts with"),
        ] {
            let error = text.parse::<Reference>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        for pasted in ["sk_live_canary99", "canary99:canary99", "postgres://u:canary99@h", "env:canary99 x"] {
            let error = pasted.parse::<Reference>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("canary99"), "{error:?}");
        }
    }

    proptest! {
        #[test]
        fn text_and_json_give_the_reference_back(text in "(env|file|dotenv|command|keychain):[ -~]{1,20}") {
            if let Ok(reference) = text.parse::<Reference>() {
                prop_assert_eq!(reference.to_string(), text);
                let json = serde_json::to_string(&reference).unwrap();
                prop_assert_eq!(serde_json::from_str::<Reference>(&json).unwrap(), reference);
            }
        }

        #[test]
        fn quoted_words_come_back(words in prop::collection::vec("[^\\x00-\\x1f]{0,8}", 1..4)) {
            prop_assume!(!words[0].is_empty());
            let quoted: Vec<String> = words.iter().map(|w| format!("'{}'", w.replace('\'', "'\\''"))).collect();
            prop_assert_eq!(split_words(&quoted.join(" ")).unwrap(), words);
        }
    }
}
