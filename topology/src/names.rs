//! Names, parsed once at the edge into types that cannot be mixed up.
//!
//! A workspace, an environment, an instance and a resource all match
//! `[a-z][a-z0-9-]*`, end in a letter or a digit and are at most
//! [`MAX_NAME`] characters long. `_` is illegal in all of them, which is what
//! makes the Compose project name `<workspace>_<environment>_<instance>`
//! injective.
//!
//! ```compile_fail
//! use sidestack_topology::names::{EnvironmentName, WorkspaceName};
//! let workspace: WorkspaceName = "shop".parse::<EnvironmentName>().unwrap();
//! ```

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};

/// The longest name a person may give.
pub const MAX_NAME: usize = 32;
/// The longest name that is derived from something else (a folder, a branch).
pub const MAX_DERIVED: usize = 20;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} `{text}` {reason}")]
pub struct NameError {
    kind: &'static str,
    text: String,
    reason: &'static str,
}

fn check(kind: &'static str, text: &str) -> Result<(), NameError> {
    let reason = if text.is_empty() {
        "is empty"
    } else if text.len() > MAX_NAME {
        "is longer than 32 characters"
    } else if !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        "must begin with a lower-case letter"
    } else if !text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        "may hold only lower-case letters, digits and `-`"
    } else if text.ends_with('-') {
        "must end in a letter or a digit"
    } else {
        return Ok(());
    };
    Err(NameError { kind, text: text.chars().take(60).collect(), reason })
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $type(String);

        impl $type {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                check($kind, text)?;
                Ok(Self(text.to_owned()))
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "pattern": "^[a-z]([a-z0-9-]*[a-z0-9])?$",
                    "maxLength": MAX_NAME,
                })
            }
        }
    };
}

name!(
    /// One project on this machine, such as `shop`.
    WorkspaceName, "workspace");
name!(
    /// A variation of a workspace's stack, such as `dev`.
    EnvironmentName, "environment");
name!(
    /// A place where a revision runs, such as `main` or `r3`.
    InstanceName, "instance");
name!(
    /// What a stack asks for, such as `db`.
    ResourceName, "resource");

impl InstanceName {
    /// The main checkout's own instance.
    pub fn main() -> Self {
        Self("main".to_owned())
    }

    /// The instance that stays at one revision: `r3`.
    pub fn of_revision(revision: RevisionNumber) -> Self {
        Self(format!("r{}", revision.0))
    }

    /// `main` and `rN` mean something of their own and are never derived from a branch.
    pub fn is_reserved(&self) -> bool {
        self.0 == "main" || self.revision().is_some()
    }

    /// The revision this name pins, when it is of the form `rN`.
    pub fn revision(&self) -> Option<RevisionNumber> {
        let digits = self.0.strip_prefix('r')?;
        if digits.is_empty() || digits.starts_with('0') || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        digits.parse().ok().map(RevisionNumber)
    }
}

/// A revision's number, counted per environment from 1, written `r3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RevisionNumber(pub u32);

impl fmt::Display for RevisionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// A slot, 0 to 126, leased host-wide to an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slot(u8);

impl Slot {
    /// How many slots there are.
    pub const COUNT: u8 = 127;
    /// How many host ports a slot owns.
    pub const PORTS: u16 = 100;

    /// `None` past the last slot.
    pub fn new(number: u8) -> Option<Self> {
        (number < Self::COUNT).then_some(Self(number))
    }

    /// The slot's number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// The first host port of the slot: 20000 + 100·s.
    pub fn first_port(self) -> u16 {
        20_000 + Self::PORTS * u16::from(self.0)
    }

    /// The slot that owns a host port.
    pub fn of_port(port: u16) -> Option<Self> {
        let number = port.checked_sub(20_000)? / Self::PORTS;
        u8::try_from(number).ok().and_then(Self::new)
    }

    /// Every slot, lowest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// An instance in full: `workspace/environment/instance`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Target {
    /// The workspace.
    pub workspace: WorkspaceName,
    /// The environment.
    pub environment: EnvironmentName,
    /// The instance.
    pub instance: InstanceName,
}

impl Target {
    /// The Compose project's name.
    pub fn project(&self) -> String {
        format!("{}_{}_{}", self.workspace, self.environment, self.instance)
    }

    /// The part of every host name that is this instance's alone:
    /// `<instance>.<environment>.<workspace>.localhost`.
    pub fn host(&self) -> String {
        format!("{}.{}.{}.localhost", self.instance, self.environment, self.workspace)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.workspace, self.environment, self.instance)
    }
}

/// A text made into a valid name, and whether it had to be altered for that.
///
/// Letters are lowered, everything else becomes `-`; the result is at most
/// [`MAX_DERIVED`] characters. `fallback` stands in when nothing is left.
pub fn derive(text: &str, fallback: &str) -> (String, bool) {
    let mut name = String::new();
    for c in text.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_lowercase() || c.is_ascii_digit() {
            name.push(c);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    let mut name = name.trim_start_matches(|c: char| !c.is_ascii_lowercase()).to_owned();
    name.truncate(MAX_DERIVED);
    let name = name.trim_end_matches('-');
    let name = if name.is_empty() { fallback } else { name };
    (name.to_owned(), name != text)
}

/// A Compose service name folded into a DNS label, injectively.
///
/// A name of lower-case letters, digits and single inner `-` is its own label.
/// Any other becomes `x--` and the name with each other character written as `z`,
/// the number of its digits, and its code in base 36: `pdf_bot` gives
/// `x--pdfz22nbot`. A label longer than DNS allows becomes `y--`, its beginning and a hash.
/// No plain label holds `--`, so no two names meet.
pub fn dns_label(service: &str) -> String {
    let plain = !service.is_empty()
        && service.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !service.starts_with('-')
        && !service.ends_with('-')
        && !service.contains("--");
    let label = if plain { service.to_owned() } else { format!("x--{}", escaped(service)) };
    if label.len() <= MAX_LABEL {
        return label;
    }
    let digest = Sha256::digest(service);
    let hash: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let letters = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let head: String = service.chars().filter(letters).take(20).collect();
    format!("y--{head}-{hash}").replace("---", "--")
}

/// What DNS allows.
const MAX_LABEL: usize = 63;

fn escaped(name: &str) -> String {
    let last = name.chars().count().saturating_sub(1);
    let mut out = String::new();
    for (at, c) in name.chars().enumerate() {
        let inner = at > 0 && at < last;
        if (c.is_ascii_lowercase() && c != 'z') || c.is_ascii_digit() || (c == '-' && inner) {
            out.push(c);
        } else {
            let code = base36(u32::from(c));
            out.push('z');
            out.push_str(&base36(code.len() as u32));
            out.push_str(&code);
        }
    }
    out
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_hold_to_their_grammar() {
        for good in ["a", "shop", "a-b", "a1", "x-1-y"] {
            assert!(good.parse::<WorkspaceName>().is_ok(), "{good}");
        }
        for bad in ["", "A", "1a", "-a", "a-", "a_b", "a b", "a/b", "é", &"a".repeat(33)] {
            assert!(bad.parse::<WorkspaceName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn main_and_revisions_are_reserved() {
        let reserved = |text: &str| text.parse::<InstanceName>().unwrap().is_reserved();
        assert!(reserved("main") && reserved("r1") && reserved("r207"));
        assert!(!reserved("r0") && !reserved("r01") && !reserved("rx") && !reserved("r") && !reserved("mainline"));
    }

    #[test]
    fn slots_tile_the_ports_below_the_ephemeral_range() {
        let last = Slot::all().last().unwrap();
        assert_eq!(last.first_port() + Slot::PORTS - 1, 32_699);
        for slot in Slot::all() {
            assert_eq!(Slot::of_port(slot.first_port()), Some(slot));
            assert_eq!(Slot::of_port(slot.first_port() + 99), Some(slot));
        }
        assert_eq!(Slot::of_port(19_999), None);
        assert_eq!(Slot::of_port(32_700), None);
    }

    proptest! {
        #[test]
        fn what_is_derived_is_a_name(text in ".{0,60}") {
            let (name, _) = derive(&text, "stack");
            prop_assert!(name.parse::<WorkspaceName>().is_ok(), "{name}");
            prop_assert!(name.len() <= MAX_DERIVED);
        }

        #[test]
        fn labels_do_not_meet(a in "[azAZ0._-]{1,6}|[a-zA-Z0-9._-]{1,70}", b in "[azx0._-]{1,6}") {
            let (x, y) = (dns_label(&a), dns_label(&b));
            prop_assert_eq!(a == b, x == y, "{} {}", x, y);
            // The label of a label is another one, unless it was the name itself.
            prop_assert_eq!(dns_label(&x) == x, a == x);
            prop_assert!(x.len() <= 63 && !x.starts_with('-') && !x.ends_with('-'), "{x}");
            prop_assert!(x.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
        }
    }

    #[test]
    fn labels_are_legal() {
        for (name, label) in [
            ("web", "web"),
            ("a-b", "a-b"),
            ("wazuh.master", "x--waz23euhz21amaster"),
            ("pdf_bot", "x--pdfz22nbot"),
            ("Wazuh", "x--z22faz23euh"),
            ("-a-", "x--z219az219"),
            ("a--b", "x--a--b"),
            ("z", "z"),
            ("zZ", "x--z23ez22i"),
        ] {
            assert_eq!(dns_label(name), label, "{name}");
        }
    }
}
