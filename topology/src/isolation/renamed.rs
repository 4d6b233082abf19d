//! Networks by their real names: what names one that is another in this copy follows it.
//!
//! Proxies and programs that make containers are told by name in which network
//! they find others (`traefik.docker.network`, `--providers.docker.network`,
//! `VIRTUAL_NETWORK`). A name may be any word, so only what says that it is a
//! network's is followed.

use std::collections::BTreeMap;

use serde_json::Value;

use super::claim::{Claims, pointer};
use crate::placeholder::PROJECT;
use crate::plan::{Original, Plan};
use crate::planner::Draft;

const RULE: &str = "network-name";
const REASON: &str = "it names a network that has another name in this copy";

/// Follows the names in labels, variables and commands.
pub(super) fn networks(draft: &Draft, plan: &mut Plan, claims: &mut Claims) {
    let project = &plan.project;
    let names: BTreeMap<String, String> = draft
        .renamed
        .iter()
        .map(|(old, key)| (old.replace(PROJECT, project), format!("{project}_{key}")))
        .filter(|(old, new)| old != new)
        .collect();
    if names.is_empty() {
        return;
    }
    for (service, planned) in plan.services.iter_mut().filter(|(_, planned)| planned.resource.is_none()) {
        let compose = &mut planned.compose;
        for (label, value) in compose.labels.iter_mut().filter(|(label, _)| says_network(label)) {
            if let Some(new) = listed(value, &names) {
                claims.at(&["services", service, "labels", label], RULE, REASON);
                *value = new;
            }
        }
        for (key, value) in compose.environment.iter_mut().filter(|(key, _)| says_network(key)) {
            if let Some(text) = value
                && let Some(new) = listed(text, &names)
            {
                let original = Original { value: std::mem::replace(text, new), rule: RULE, reason: REASON };
                plan.rewritten.entry(service.clone()).or_default().entry(key.clone()).or_insert(original);
            }
        }
        for (key, value) in [("command", &mut compose.command), ("entrypoint", &mut compose.entrypoint)] {
            let Some(Value::Array(words)) = value else { continue };
            let mut said = false;
            for (at, word) in words.iter_mut().enumerate() {
                let Value::String(text) = word else { continue };
                let (option, name) = text.split_once('=').unwrap_or(("", text));
                let new = (said || says_network(option)).then(|| listed(name, &names)).flatten();
                said = option.is_empty() && text.starts_with('-') && says_network(text);
                if let Some(new) = new {
                    claims.claim(pointer(&["services", service, key, &at.to_string()]), RULE, REASON);
                    *text = if option.is_empty() { new } else { format!("{option}={new}") };
                }
            }
        }
    }
}

fn says_network(key: &str) -> bool {
    key.to_ascii_lowercase().contains("network")
}

/// One name or several with commas between them.
fn listed(value: &str, names: &BTreeMap<String, String>) -> Option<String> {
    let parts = value.split(',').map(|part| names.get(part.trim()).map_or(part, String::as_str));
    let new = parts.collect::<Vec<_>>().join(",");
    (new != value).then_some(new)
}
