//! What was last handed to Docker, as it is kept beside the applied digest.
//!
//! It lets `ls` tell an instance's state without planning it again, and lets
//! [`crate::decide`] see what differs from what would be applied now. Digests
//! cover secrets by a keyed hash, never by value.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The record of one apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Services by name.
    pub(crate) services: BTreeMap<String, ServiceRecord>,
    /// Networks by key: digest of their definition.
    pub(crate) networks: BTreeMap<String, String>,
    /// Volumes by key: digest of their definition.
    pub(crate) volumes: BTreeMap<String, String>,
    /// What people look at first: a URL or `127.0.0.1:PORT`.
    pub(crate) address: Option<String>,
    /// Anonymous volumes, which Compose attaches by name from the second create on.
    pub(crate) anonymous: Vec<String>,
    /// Resources by name: the data format that their volumes have.
    #[serde(default)]
    pub(crate) formats: BTreeMap<String, DataFormat>,
    /// Services that were handed over or left as they were, where some of the stack's were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) only: Option<BTreeSet<String>>,
    /// The Docker daemon that has all this.
    #[serde(default)]
    pub(crate) daemon: Option<String>,
}

/// Which engine wrote a resource's data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DataFormat {
    /// The module.
    pub(crate) module: String,
    /// The engine's version.
    pub(crate) version: String,
    /// The format.
    pub(crate) format: String,
}

/// One service of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServiceRecord {
    /// Digest of what Compose was told.
    pub(crate) digest: String,
    /// Keyed digest of the files that were put into it.
    pub(crate) delivery: String,
    /// How many containers.
    pub(crate) replicas: u32,
    /// Whether somebody waits for it to end.
    pub(crate) one_shot: bool,
    /// Whether ending with 0 is a good end for it, see [`crate::decide::may_end`].
    #[serde(default)]
    pub(crate) ends: bool,
    /// Its containers.
    pub(crate) containers: Vec<String>,
    /// Containers that ended with 0, as they should.
    pub(crate) completed: Vec<String>,
    /// Digest of what was made inside, with the container it was made in.
    pub(crate) provisioned: String,
    /// The image as the model names it.
    pub(crate) image: String,
    /// Whether it has a health command.
    pub(crate) has_health: bool,
    /// Host addresses: container port and protocol, inside, host, URL.
    #[serde(default)]
    pub(crate) addresses: Vec<RecordedAddress>,
}

/// An address of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedAddress {
    /// The container port.
    pub(crate) port: u16,
    /// `tcp` or `udp`.
    pub(crate) protocol: String,
    /// `db:5432`.
    pub(crate) inside: String,
    /// `127.0.0.1:20101`.
    pub(crate) host: String,
    /// As a URL.
    pub(crate) url: Option<String>,
}

impl Record {
    /// Reads what was kept; a record of another version counts as none.
    pub(crate) fn parse(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// What a removed instance's record says of the data that it left: nothing of its containers is true any more.
    pub(crate) fn inherited(text: &str) -> Self {
        let Self { volumes, anonymous, formats, daemon, .. } = Self::parse(text);
        Self { volumes, anonymous, formats, daemon, ..Self::default() }
    }

    /// As it is kept.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
