//! A secret's value.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, Serializer};
use zeroize::Zeroize;

use super::mask::MASK;

/// A secret's value: text without NUL. It shows as `***` however it is printed or serialised, and its memory is
/// overwritten when it is dropped.
#[derive(Clone)]
pub struct SecretValue(SecretString);

/// Why bytes are no secret value. Says nothing of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotText {
    Nul,
    NotUtf8,
}

impl SecretValue {
    /// A value from text, which must not contain NUL: the caller has it from where none can be.
    pub fn new(text: String) -> Self {
        Self(text.into())
    }

    /// A value from bytes, refused if it is not UTF-8 or contains NUL. The bytes are overwritten when refused.
    pub(super) fn from_bytes(bytes: Vec<u8>) -> Result<Self, NotText> {
        match String::from_utf8(bytes) {
            Ok(mut text) if text.contains('\0') => {
                text.zeroize();
                Err(NotText::Nul)
            }
            Ok(text) => Ok(Self(text.into())),
            Err(error) => {
                error.into_bytes().zeroize();
                Err(NotText::NotUtf8)
            }
        }
    }

    /// As [`SecretValue::from_bytes`], without one newline (`\n` or `\r\n`) at the end.
    pub(super) fn from_printed(mut bytes: Vec<u8>) -> Result<Self, NotText> {
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
            if bytes.last() == Some(&b'\r') {
                bytes.pop();
            }
        }
        Self::from_bytes(bytes)
    }

    /// The value itself. Every call is a place where it may leak: keep them few.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl From<String> for SecretValue {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for SecretValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shows_in_no_way() {
        let value = SecretValue::new("canary-1f3a".into());
        let shown = [
            format!("{value}"),
            format!("{value:?}"),
            format!("{value:#?}"),
            format!("{:?}", Some((1, value.clone()))),
            serde_json::to_string(&vec![value.clone()]).unwrap(),
        ];
        for text in shown {
            assert!(!text.contains("canary") && text.contains("***"), "{text}");
        }
        assert_eq!(value.expose(), "canary-1f3a");
    }

    #[test]
    fn bytes_are_exact_text_or_refused() {
        let from = |bytes: &[u8]| SecretValue::from_printed(bytes.to_vec()).map(|v| v.expose().to_owned());
        for (given, expected) in [
            ("a", "a"),
            ("a\n", "a"),
            ("a\r\n", "a"),
            ("a\n\n", "a\n"),
            (" a \t", " a \t"),
            ("a\r", "a\r"),
            ("\n", ""),
            ("", ""),
        ] {
            assert_eq!(from(given.as_bytes()).unwrap(), expected, "{given:?}");
        }
        assert_eq!(from(b"a\0b"), Err(NotText::Nul));
        assert_eq!(from(b"a\xffb"), Err(NotText::NotUtf8));
        assert_eq!(SecretValue::from_bytes(b"a\n".to_vec()).unwrap().expose(), "a\n");
    }
}
