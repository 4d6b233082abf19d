//! External networks and volumes: shared, copied or created, by a choice that is part of the revision.

use std::collections::BTreeMap;

use super::claim::Claims;
use super::rules;
use super::shared::Found;
use crate::compose::{Network, Service, Volume};
use crate::diagnostic::{Diagnostic, nearest};
use crate::manifest::{IsolationChoices, NetworkChoice, VolumeChoice};
use crate::plan::Answer;

const CREATED: &str = "every copy has its own, as was chosen";
const COPIED: &str = "every copy begins with a copy of it, as was chosen";
const EDGE: &str =
    "only the services that were named stand in the shared network, so that no name means two containers";

/// The key of the network that is shared, beside the private one of the same key.
pub(crate) fn shared_key(key: &str) -> String {
    format!("{key}-shared")
}

/// Choices for what is not there.
pub(super) fn check(
    choices: &IsolationChoices,
    networks: &BTreeMap<String, Option<Network>>,
    volumes: &BTreeMap<String, Option<Volume>>,
    services: &BTreeMap<String, Service>,
    faults: &mut Vec<Diagnostic>,
) {
    let outer: Vec<&str> =
        networks.iter().filter(|(_, n)| n.as_ref().is_some_and(|n| n.external)).map(|(key, _)| key.as_str()).collect();
    for (key, choice) in &choices.networks {
        unknown("network", "networks", key, &outer, faults);
        if let NetworkChoice::Edge(names) = choice {
            for name in names.iter().filter(|name| !services.contains_key(*name)) {
                let message = format!("`{name}` is to stand in network `{key}`, but there is no such service");
                let fault = Diagnostic::error(&["isolation", "networks", key], message);
                faults.push(match nearest(name, services.keys().map(String::as_str)) {
                    Some(near) => fault.hint(format!("did you mean `{near}`?")),
                    None => fault.hint("name a service of the compose files"),
                });
            }
        }
    }
    let outer: Vec<&str> =
        volumes.iter().filter(|(_, v)| v.as_ref().is_some_and(|v| v.external)).map(|(key, _)| key.as_str()).collect();
    for key in choices.volumes.keys() {
        unknown("volume", "volumes", key, &outer, faults);
    }
}

fn unknown(kind: &str, section: &str, key: &str, outer: &[&str], faults: &mut Vec<Diagnostic>) {
    if outer.contains(&key) {
        return;
    }
    let message = format!("the compose files have no external {kind} `{key}`");
    let fault = Diagnostic::error(&["isolation", section, key], message);
    faults.push(match (nearest(key, outer.iter().copied()), outer.is_empty()) {
        (Some(near), _) => fault.hint(format!("did you mean `{near}`?")),
        (None, true) => fault.hint("there is nothing to choose: take it out"),
        (None, false) => fault.hint(format!("there is {}", outer.join(", "))),
    });
}

/// An external network by choice; services may move to another of its own.
pub(super) fn network(
    key: &str,
    network: Network,
    choice: Option<&NetworkChoice>,
    services: &mut BTreeMap<String, Service>,
    networks: &mut BTreeMap<String, Network>,
    claims: &mut Claims,
    found: &mut Found<'_>,
) {
    let name = network.name.clone().unwrap_or_else(|| key.to_owned());
    let own = |claims: &mut Claims, rule, reason| {
        claims.at(&["networks", key], rule, reason);
        let network = rules::network(key, Network::default(), claims);
        claims.at(&["networks", key, "name"], rule, reason);
        network
    };
    match choice {
        None => {
            let what = format!(
                "network `{key}` is external (`{name}`): its containers and those of other stacks see each other"
            );
            found.add(&["networks", key], format!("network:{key}"), what, Answer::Choice(&["share", "create"]));
            fixed(key, services, found);
            networks.insert(key.to_owned(), network);
        }
        Some(NetworkChoice::Share) => {
            fixed(key, services, found);
            networks.insert(key.to_owned(), network);
        }
        Some(NetworkChoice::Create) => {
            let network = own(claims, "external-network", CREATED);
            networks.insert(key.to_owned(), network);
        }
        Some(NetworkChoice::Edge(edge)) => {
            let shared = shared_key(key);
            let private = own(claims, "external-network", EDGE);
            networks.insert(key.to_owned(), private);
            claims.at(&["networks", &shared], "external-network", EDGE);
            networks.insert(shared.clone(), network);
            for (service, compose) in services.iter_mut().filter(|(name, _)| edge.contains(*name)) {
                claims.at(&["services", service, "networks", &shared], "external-network", EDGE);
                compose.networks.insert(shared.clone(), None);
            }
        }
    }
}

/// Whoever stands in a network of all copies is found there under one name for all of them.
pub(super) fn one_name(
    key: &str,
    choice: Option<&NetworkChoice>,
    services: &BTreeMap<String, Service>,
    faults: &mut Vec<Diagnostic>,
) {
    let there = services.iter().filter(|(_, service)| service.networks.contains_key(key));
    let there: Vec<String> = there.map(|(name, _)| format!("`{name}`")).collect();
    if choice == Some(&NetworkChoice::Share) && !there.is_empty() {
        let names = there.join(", ");
        let message = format!("in the shared network `{key}` one name means a container of every copy: {names}");
        let hint =
            format!("`isolation: {{networks: {{{key}: {{share: [SERVICE]}}}}}}` lets only those stand in it that must");
        faults.push(Diagnostic::warning(&["networks", key], message).hint(hint));
    }
}

/// Addresses in a network that is not the stack's: they cannot be moved, and one copy can have each.
fn fixed(key: &str, services: &BTreeMap<String, Service>, found: &mut Found<'_>) {
    for (name, service) in services {
        let joined = service.networks.get(key).and_then(Option::as_ref);
        for address in ["ipv4_address", "ipv6_address"].iter().filter_map(|kind| joined?.get(*kind)?.as_str()) {
            let what = format!(
                "`{name}` fixes the address {address} in the external network `{key}`, which one copy can have"
            );
            let path = ["services", name, "networks", key];
            found.add(&path, format!("{name}:{address}"), what, Answer::Exclusive);
        }
    }
}

/// An external volume by choice; `copies` says what a new one begins with.
pub(super) fn volume(
    key: &str,
    volume: Volume,
    choice: Option<VolumeChoice>,
    copies: &mut BTreeMap<String, String>,
    claims: &mut Claims,
    found: &mut Found<'_>,
) -> Volume {
    let name = volume.name.clone().unwrap_or_else(|| key.to_owned());
    let own = |claims: &mut Claims, rule, reason| {
        claims.at(&["volumes", key], rule, reason);
        let volume = rules::volume(key, Volume::default(), claims);
        claims.at(&["volumes", key, "name"], rule, reason);
        volume
    };
    match choice {
        None => {
            let what = format!("volume `{key}` is external (`{name}`): what is written to it, others read");
            found.add(&["volumes", key], format!("volume:{key}"), what, Answer::Choice(&["share", "copy", "create"]));
            volume
        }
        Some(VolumeChoice::Share) => volume,
        Some(VolumeChoice::Create) => own(claims, "external-volume", CREATED),
        Some(VolumeChoice::Copy) => {
            copies.insert(key.to_owned(), name);
            own(claims, "external-volume", COPIED)
        }
    }
}
