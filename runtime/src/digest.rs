//! Digests of what would be handed to Docker.
//!
//! Where a digest covers a secret it covers its value under this machine's key:
//! nobody who reads the store can try passwords against it.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;
use sidestack_topology::plan::{Plan, PlannedService};
use sidestack_topology::render::Rendered;
use sidestack_topology::secret;

use crate::secrets::SecretValue;

/// Secret values by reference.
pub(crate) type Secrets = BTreeMap<String, SecretValue>;

/// The digests of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Digests {
    /// What Compose is told, by service. Builds and replica counts are left out: neither recreates.
    pub(crate) services: BTreeMap<String, String>,
    /// The files put into containers, by service.
    pub(crate) deliveries: BTreeMap<String, String>,
    /// What is made inside, by service.
    pub(crate) provisions: BTreeMap<String, String>,
    /// Networks by key.
    pub(crate) networks: BTreeMap<String, String>,
    /// Volumes by key.
    pub(crate) volumes: BTreeMap<String, String>,
    /// All of it.
    pub(crate) whole: String,
}

/// A keyed digest, in hex.
pub(crate) fn keyed(key: &[u8; 32], parts: &[&str]) -> String {
    // A key of any length is taken.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return String::new() };
    for part in parts {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part.as_bytes());
    }
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A text with its secrets filled in, for hashing and for launching.
pub(crate) fn filled(text: &str, secrets: &Secrets) -> String {
    secret::replace(
        text,
        |reference, encoding| encoding.fill(secrets.get(reference).map_or("", SecretValue::expose)),
        str::to_owned,
    )
}

fn json(value: &Value, secrets: &Secrets) -> String {
    filled(&value.to_string(), secrets)
}

/// The digests of a plan as it is rendered.
pub(crate) fn of_plan(plan: &Plan, rendered: &Rendered, secrets: &Secrets, key: &[u8; 32]) -> Digests {
    let mut digests = Digests::default();
    for (name, service) in &plan.services {
        let mut model = rendered.service(name).cloned().unwrap_or_default();
        if let Value::Object(map) = &mut model {
            for left_out in ["build", "pull_policy", "scale", "image"] {
                map.remove(left_out);
            }
        }
        // The image as the plan names it: a pin in its place is the same image.
        let image = service.compose.image.as_deref().unwrap_or_default();
        digests.services.insert(name.clone(), keyed(key, &[image, &json(&model, secrets)]));
        digests.deliveries.insert(name.clone(), deliveries(service, secrets, key));
        digests.provisions.insert(name.clone(), provisions(service, secrets, key));
    }
    for (key_of, network) in &plan.networks {
        let text = serde_json::to_string(network).unwrap_or_default();
        digests.networks.insert(key_of.clone(), keyed(key, &[&text]));
    }
    // Of a volume that is somebody else's only the name counts, and that stands in a label of who mounts it.
    for (key_of, volume) in plan.volumes.iter().filter(|(_, volume)| !volume.external) {
        let text = serde_json::to_string(volume).unwrap_or_default();
        digests.volumes.insert(key_of.clone(), keyed(key, &[&text]));
    }
    let all: Vec<String> =
        [&digests.services, &digests.deliveries, &digests.provisions, &digests.networks, &digests.volumes]
            .into_iter()
            .flat_map(|map| map.iter().map(|(key, value)| format!("{key}={value}")))
            .collect();
    digests.whole = keyed(key, &all.iter().map(String::as_str).collect::<Vec<_>>());
    digests
}

fn deliveries(service: &PlannedService, secrets: &Secrets, key: &[u8; 32]) -> String {
    if service.deliveries.is_empty() {
        return String::new();
    }
    let parts: Vec<String> = service
        .deliveries
        .iter()
        .map(|d| format!("{} {:o} {} {}\n{}", d.path, d.mode, d.uid, d.gid, filled(&d.content, secrets)))
        .collect();
    keyed(key, &parts.iter().map(String::as_str).collect::<Vec<_>>())
}

fn provisions(service: &PlannedService, secrets: &Secrets, key: &[u8; 32]) -> String {
    if service.provisions.is_empty() {
        return String::new();
    }
    let parts: Vec<String> = service
        .provisions
        .iter()
        .map(|p| format!("{:?}\n{}", p.command, filled(p.stdin.as_deref().unwrap_or_default(), secrets)))
        .collect();
    keyed(key, &parts.iter().map(String::as_str).collect::<Vec<_>>())
}
