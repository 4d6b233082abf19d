//! Secrets inside texts, by reference.
//!
//! A value that holds a secret is an ordinary string in which a *token* stands
//! for it: a private-use character, an encoding letter, the reference, another
//! private-use character. So a secret can stand anywhere in the model (inside a
//! URL, a command, a label, a config file) without a parallel set of types, and
//! nothing that plans or renders ever has the value in hand. Reading refuses the
//! two characters in what people write, so a token cannot be forged.

use std::collections::BTreeSet;

use serde_json::Value;

/// Opens a token. Private use, refused in every input.
pub const OPEN: char = '\u{E0F0}';
/// Closes a token.
pub const CLOSE: char = '\u{E0F1}';

/// How the value is written where its token stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encoding {
    /// As it is.
    Raw,
    /// Percent-encoded, for a URL.
    Url,
    /// In double quotes with `\` escapes, for a configuration file.
    Quoted,
    /// In single quotes, doubled inside, for SQL.
    Sql,
}

impl Encoding {
    fn letter(self) -> char {
        match self {
            Self::Raw => 'r',
            Self::Url => 'u',
            Self::Quoted => 'q',
            Self::Sql => 's',
        }
    }

    fn of_letter(letter: char) -> Option<Self> {
        [Self::Raw, Self::Url, Self::Quoted, Self::Sql].into_iter().find(|e| e.letter() == letter)
    }

    /// A text in this encoding; tokens inside it keep their meaning.
    pub fn apply(self, text: &str) -> String {
        if !holds(text) {
            return self.fill(text);
        }
        let inner = parts(text).fold(String::new(), |mut inner, part| {
            match part {
                Part::Text(text) => inner.push_str(&self.escape(text)),
                // Encodings do not nest: the last one asked for is meant.
                Part::Secret { reference, .. } => inner.push_str(&token(reference, self)),
            }
            inner
        });
        let (open, close) = match self {
            // A lone token brings its own quotes when it is filled in.
            Self::Quoted | Self::Sql if sole(text).is_some() => ("", ""),
            Self::Quoted => ("\"", "\""),
            Self::Sql => ("'", "'"),
            Self::Raw | Self::Url => ("", ""),
        };
        format!("{open}{inner}{close}")
    }

    fn escape(self, text: &str) -> String {
        match self {
            Self::Raw => text.to_owned(),
            Self::Url => {
                let mut out = String::with_capacity(text.len());
                for byte in text.bytes() {
                    if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                        out.push(char::from(byte));
                    } else {
                        out.push_str(&format!("%{byte:02X}"));
                    }
                }
                out
            }
            Self::Quoted => text.chars().fold(String::new(), |mut out, c| {
                match c {
                    '"' => out.push_str("\\\""),
                    '\\' => out.push_str("\\\\"),
                    '\n' => out.push_str("\\n"),
                    '\r' => out.push_str("\\r"),
                    '\t' => out.push_str("\\t"),
                    c => out.push(c),
                }
                out
            }),
            Self::Sql => text.replace('\'', "''"),
        }
    }

    /// A secret's value as it is put in the place of its token.
    pub fn fill(self, value: &str) -> String {
        match self {
            Self::Quoted => format!("\"{}\"", self.escape(value)),
            Self::Sql => format!("'{}'", self.escape(value)),
            Self::Raw | Self::Url => self.escape(value),
        }
    }
}

/// A piece of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// Plain text.
    Text(&'a str),
    /// A secret.
    Secret {
        /// How it is written here.
        encoding: Encoding,
        /// What it is: `keychain:shop/stripe`.
        reference: &'a str,
    },
}

/// The token that stands for a secret.
pub fn token(reference: &str, encoding: Encoding) -> String {
    format!("{OPEN}{}{reference}{CLOSE}", encoding.letter())
}

/// The pieces of a text, in order.
pub fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some(inner) = rest.strip_prefix(OPEN)
            && let Some((body, after)) = inner.split_once(CLOSE)
            && let Some(letter) = body.chars().next()
            && let Some(encoding) = Encoding::of_letter(letter)
        {
            rest = after;
            return Some(Part::Secret { encoding, reference: &body[letter.len_utf8()..] });
        }
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end = rest[first..].find(OPEN).map_or(rest.len(), |at| at + first);
        let (head, tail) = rest.split_at(end);
        rest = tail;
        Some(Part::Text(head))
    })
}

fn sole(text: &str) -> Option<Part<'_>> {
    let mut parts = parts(text);
    match (parts.next(), parts.next()) {
        (Some(part @ Part::Secret { .. }), None) => Some(part),
        _ => None,
    }
}

/// Whether a text holds a secret.
pub fn holds(text: &str) -> bool {
    private(text) && text.contains(OPEN)
}

/// Whether a text may hold one of the characters of tokens and placeholders: they
/// all begin with this byte, which hardly any other text has.
pub(crate) fn private(text: &str) -> bool {
    text.as_bytes().contains(&0xEE)
}

/// Whether the JSON of a value holds one of the characters of tokens and
/// placeholders, or a NUL; nothing is copied.
pub(crate) fn marked(value: &impl serde::Serialize) -> bool {
    /// Looks at what is written and keeps nothing.
    struct Scan(bool);
    impl std::io::Write for Scan {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // U+E0F0 to U+E0F3 begin with these two; a NUL is written as `\u0000`.
            let hit = |pair: &[u8]| pair == [0xEE, 0x83] || pair == *b"u0";
            self.0 = self.0 || bytes.windows(2).any(hit);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut scan = Scan(false);
    serde_json::to_writer(&mut scan, value).is_err() || scan.0
}

/// Whether a text has the characters that only tokens may have.
pub fn forged(text: &str) -> bool {
    private(text) && text.contains([OPEN, CLOSE])
}

/// The text with each secret replaced by what `fill` makes of it.
pub fn replace(
    text: &str,
    mut fill: impl FnMut(&str, Encoding) -> String,
    mut plain: impl FnMut(&str) -> String,
) -> String {
    parts(text)
        .map(|part| match part {
            Part::Text(text) => plain(text),
            Part::Secret { encoding, reference } => fill(reference, encoding),
        })
        .collect()
}

/// The text for a person: `‹keychain:shop/stripe›` in the place of a value.
pub fn shown(text: &str) -> String {
    replace(text, |reference, _| format!("‹{reference}›"), str::to_owned)
}

/// Every reference in a text.
pub fn references(text: &str, into: &mut BTreeSet<String>) {
    for part in parts(text) {
        if let Part::Secret { reference, .. } = part {
            into.insert(reference.to_owned());
        }
    }
}

/// Every reference in a JSON value, keys included.
pub fn references_in(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => references(text, into),
        Value::Array(items) => items.iter().for_each(|item| references_in(item, into)),
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            references(key, into);
            references_in(value, into);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_apart_again() {
        let text = format!("a{}b{}", token("env:X", Encoding::Raw), token("file:/y", Encoding::Url));
        let found: Vec<_> = parts(&text).collect();
        assert_eq!(
            found,
            [
                Part::Text("a"),
                Part::Secret { encoding: Encoding::Raw, reference: "env:X" },
                Part::Text("b"),
                Part::Secret { encoding: Encoding::Url, reference: "file:/y" },
            ]
        );
        assert_eq!(shown(&text), "a‹env:X›b‹file:/y›");
    }

    #[test]
    fn encodings_reach_secrets_and_text_alike() {
        let secret = token("env:X", Encoding::Raw);
        let fill = |text: &str| replace(text, |_, e| e.fill("p@\"'\n"), str::to_owned);
        assert_eq!(fill(&Encoding::Url.apply(&secret)), "p%40%22%27%0A");
        assert_eq!(fill(&Encoding::Quoted.apply(&secret)), "\"p@\\\"'\\n\"");
        assert_eq!(fill(&Encoding::Sql.apply(&secret)), "'p@\"''\n'");
        assert_eq!(Encoding::Url.apply("a b/ü"), "a%20b%2F%C3%BC");
        assert_eq!(Encoding::Sql.apply("o'k"), "'o''k'");
    }
}
