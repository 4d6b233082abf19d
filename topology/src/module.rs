//! A module: a catalogue entry that provides a capability, resolved and valid.
//!
//! The catalogue parses the YAML and checks it; what stands here is what the
//! planner works with. Strings marked *template* are rendered by
//! [`crate::template`] with the context that [`context`](self) describes:
//!
//! | name | what it is |
//! | --- | --- |
//! | `resource` | the resource's name |
//! | `image`, `version` | of the engine version that was chosen |
//! | `settings.NAME` | each setting: a string, a bool, or an integer (sizes in bytes) |
//! | `credentials.NAME` | each credential, perhaps a secret |
//! | `provisions.KIND` | the names asked for: a list, never empty when the provision has a `default` |
//! | `ports.NAME` | the container port |
//! | `services.KEY` | the Compose service name of each of the module's services |
//! | `host`, `port` | in `variables` only: the address for the vantage |
//! | `addresses.NAME` | in `variables` only: `.host` and `.port` of every port of the module |
//! | `name` | in provisions and per-name variables: the one it is about |

use std::collections::BTreeMap;

use serde::Serialize;

/// Transport protocol of a port.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// How a capability is laid out over members.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Arrangement {
    /// One server.
    Single,
    /// A primary and stand-bys.
    Failover,
    /// Data spread over members.
    Sharded,
    /// Members at several sites.
    Multisite,
}

impl std::fmt::Display for Arrangement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Single => "single",
            Self::Failover => "failover",
            Self::Sharded => "sharded",
            Self::Multisite => "multisite",
        })
    }
}

/// A module.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Module {
    /// Its name, which is also the engine's: `postgres`.
    pub name: String,
    /// One line for people.
    pub summary: String,
    /// What it provides: `sql-database`.
    pub provides: Vec<String>,
    /// Higher is chosen first among modules that provide the same.
    pub preference: i32,
    /// Versions, the preferred one first.
    pub versions: Vec<EngineVersion>,
    /// What it can promise.
    pub characteristics: BTreeMap<String, Characteristic>,
    /// The arrangements it supports.
    pub arrangements: Vec<Arrangement>,
    /// What may be set.
    pub settings: BTreeMap<String, Setting>,
    /// Users and passwords.
    pub credentials: BTreeMap<String, Credential>,
    /// Named ports of its services.
    pub ports: BTreeMap<String, Port>,
    /// Its services. The key `main` becomes a Compose service with the resource's
    /// name, any other `<resource>-<key>`.
    pub services: BTreeMap<String, Fragment>,
    /// What can be made inside it, by kind: `databases`, `buckets`.
    pub provisions: BTreeMap<String, Provision>,
    /// Variables for clients.
    pub variables: Variables,
    /// Configuration files, by name.
    pub files: BTreeMap<String, FileTemplate>,
    /// Whether it was exercised on real containers.
    pub exercised: bool,
}

/// A version of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EngineVersion {
    /// As a person asks for it: `17`.
    pub version: String,
    /// The image: `postgres:17`.
    pub image: String,
    /// Data written by one format cannot be taken over by another.
    pub data_format: String,
}

/// A promise about an engine that a stack may require.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Characteristic {
    /// A size or a number that can be had up to this much. Sizes are in bytes.
    AtMost(u64),
    /// It is so, or it is not.
    Is(bool),
}

/// What may be set on a module.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// One line for people.
    pub summary: String,
    /// Its type and its bounds.
    pub kind: SettingKind,
    /// What holds when nothing is said; `None` when it must be said or stays undefined.
    pub default: Option<serde_json::Value>,
    /// Whether it must be said.
    pub required: bool,
    /// Whether it is a secret; only strings are.
    pub secret: bool,
}

/// The type of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingKind {
    /// Any text.
    String,
    /// `true` or `false`.
    Bool,
    /// One of these.
    Enum(Vec<String>),
    /// A whole number within bounds.
    Integer {
        /// At least.
        min: i64,
        /// At most.
        max: i64,
    },
    /// A number of bytes such as `128MiB`, within bounds.
    Size {
        /// At least, in bytes.
        min: u64,
        /// At most, in bytes.
        max: u64,
    },
    /// A port, 1 to 65535.
    Port,
}

impl SettingKind {
    /// A value as a person gave it, as templates see it: sizes become bytes.
    ///
    /// # Errors
    /// What was expected and what was found, for a message.
    pub fn read(&self, value: &serde_json::Value) -> Result<serde_json::Value, String> {
        use serde_json::Value;
        let number = |least: i128, most: i128, found: Option<i128>| {
            found
                .filter(|found| (least..=most).contains(found))
                .and_then(|found| serde_json::Number::from_i128(found).map(Value::Number))
        };
        let whole = || {
            let signed = value.as_i64().map(i128::from);
            signed.or(value.as_u64().map(i128::from))
        };
        let read = match self {
            Self::String => value.is_string().then(|| value.clone()),
            Self::Bool => value.is_boolean().then(|| value.clone()),
            Self::Enum(values) => {
                value.as_str().is_some_and(|text| values.iter().any(|one| one == text)).then(|| value.clone())
            }
            Self::Integer { min, max } => number((*min).into(), (*max).into(), whole()),
            Self::Size { min, max } => {
                let bytes = match value {
                    Value::String(text) => crate::units::parse_size(text).map(i128::from),
                    _ => whole(),
                };
                number((*min).into(), (*max).into(), bytes)
            }
            Self::Port => number(1, 65_535, whole()),
        };
        read.ok_or_else(|| match value {
            Value::String(text) => format!("expected {self}, found `{text}`"),
            Value::Array(_) => format!("expected {self}, found a list"),
            Value::Object(_) => format!("expected {self}, found a map"),
            value => format!("expected {self}, found {value}"),
        })
    }
}

impl std::fmt::Display for SettingKind {
    /// What is expected: `a whole number from 1 to 100`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use crate::units::format_size;
        match self {
            Self::String => f.write_str("a text"),
            Self::Bool => f.write_str("`true` or `false`"),
            Self::Enum(values) => {
                f.write_str("one of ")?;
                for (index, value) in values.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}`{value}`")?;
                }
                Ok(())
            }
            Self::Integer { min, max } => match (*min, *max) {
                (i64::MIN, i64::MAX) => f.write_str("a whole number"),
                (min, i64::MAX) => write!(f, "a whole number of at least {min}"),
                (i64::MIN, max) => write!(f, "a whole number of at most {max}"),
                (min, max) => write!(f, "a whole number from {min} to {max}"),
            },
            Self::Size { min, max } => match (*min, *max) {
                (0, u64::MAX) => f.write_str("a size such as `128MiB`"),
                (min, u64::MAX) => write!(f, "a size of at least {}", format_size(min)),
                (min, max) => write!(f, "a size from {} to {}", format_size(min), format_size(max)),
            },
            Self::Port => f.write_str("a port from 1 to 65535"),
        }
    }
}

/// A credential of a module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Credential {
    /// The development default, shown like any value.
    pub default: String,
    /// Whether a reference may stand here and values are masked then.
    pub secret: bool,
}

/// A named port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Port {
    /// The key of the service that listens.
    pub service: String,
    /// The container port.
    pub port: u16,
    /// Transport.
    pub protocol: Protocol,
    /// For URLs people see: `postgres`, `http`.
    pub scheme: Option<String>,
    /// `host` and `port` in variables mean this one.
    pub primary: bool,
}

/// One service of a module, in Compose's terms. Every string is a template.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Fragment {
    /// Usually `{{ image }}`.
    pub image: String,
    /// The command, an argument each.
    pub command: Vec<String>,
    /// The entry point, an argument each.
    pub entrypoint: Vec<String>,
    /// Variables of the container.
    pub environment: BTreeMap<String, String>,
    /// Data volumes: key and path in the container.
    pub volumes: BTreeMap<String, String>,
    /// Secret files: name under `/run/secrets` and content. A file whose content
    /// comes out empty is left out.
    pub secrets: BTreeMap<String, String>,
    /// Keys of [`Module::files`] that this service gets.
    pub files: Vec<String>,
    /// Health.
    pub healthcheck: Option<Health>,
    /// Other services of the module (keys) that must be ready first.
    pub depends_on: Vec<String>,
    /// User to run as.
    pub user: Option<String>,
    /// Working directory.
    pub working_dir: Option<String>,
    /// Read-only root file system.
    pub read_only: bool,
    /// tmpfs mounts.
    pub tmpfs: Vec<String>,
    /// Shared memory, in bytes.
    pub shm_size: Option<u64>,
    /// Signal to stop with.
    pub stop_signal: Option<String>,
    /// Seconds until it is killed.
    pub stop_grace_period: Option<u32>,
    /// An init process inside.
    pub init: bool,
    /// Capabilities added.
    pub cap_add: Vec<String>,
    /// Capabilities dropped.
    pub cap_drop: Vec<String>,
}

/// When a service is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// As in Compose: `["CMD", …]` or `["CMD-SHELL", …]`; templates.
    pub test: Vec<String>,
    /// Between two probes, in ms.
    pub interval_ms: u64,
    /// A probe's limit, in ms.
    pub timeout_ms: u64,
    /// Failures until it is unhealthy.
    pub retries: u32,
    /// Failures do not count before this, in ms.
    pub start_period_ms: u64,
}

/// Something made inside a running module, idempotently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Provision {
    /// One line for people.
    pub summary: String,
    /// The key of the service to run in.
    pub service: String,
    /// The names when the stack asks for none; templates.
    pub default: Vec<String>,
    /// What a name must match, a [`crate::pattern::Pattern`]; `None` allows any name without control characters.
    pub pattern: Option<String>,
    /// Run in the container for each name; templates with `name`. Exit 0 means it is there.
    pub command: Vec<String>,
    /// Given to the command on standard input; a template.
    pub stdin: Option<String>,
    /// User to run as.
    pub user: Option<String>,
}

/// Variables a module gives its clients. Values are templates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Variables {
    /// Names behind the resource's: `URL` gives `DB_URL`.
    pub prefixed: BTreeMap<String, String>,
    /// For each provisioned name of a kind: `{databases: {URL: …}}` gives `DB_JOBS_URL`.
    pub each: BTreeMap<String, BTreeMap<String, String>>,
    /// Conventional names, given when the resource is the default of its kind.
    pub conventional: BTreeMap<String, String>,
}

/// A configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileTemplate {
    /// Where it stands in the container.
    pub path: String,
    /// Its content; a template.
    pub content: String,
    /// Whether it may hold a secret. Such a file is put into the container and never into the tree.
    pub secret: bool,
    /// Its mode, such as `0o444`.
    pub mode: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_are_read_as_templates_see_them() {
        let size = SettingKind::Size { min: 1024, max: 1 << 40 };
        assert_eq!(size.read(&json!("1MiB")), Ok(json!(1 << 20)));
        assert_eq!(size.read(&json!(2048)), Ok(json!(2048)));
        assert_eq!(size.read(&json!("1kB")).unwrap_err(), "expected a size from 1KiB to 1TiB, found `1kB`");
        let integer = SettingKind::Integer { min: 1, max: 9 };
        assert_eq!(integer.read(&json!(9)), Ok(json!(9)));
        for wrong in [json!(0), json!("9"), json!(1.5), json!(u64::MAX), json!([])] {
            assert!(integer.read(&wrong).is_err(), "{wrong}");
        }
        assert!(SettingKind::Bool.read(&json!("true")).is_err());
        assert!(SettingKind::Port.read(&json!(0)).is_err());
        let one = SettingKind::Enum(vec!["a".into(), "b".into()]);
        assert_eq!(one.read(&json!("b")), Ok(json!("b")));
        assert_eq!(one.read(&json!("c")).unwrap_err(), "expected one of `a`, `b`, found `c`");
    }
}
