//! Published ports become leases.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::claim::Claims;
use crate::compose::Service;
use crate::diagnostic::Diagnostic;
use crate::module::Protocol;
use crate::plan::Publish;

const RULE: &str = "host-port";
const LEASED: &str = "one host port serves one copy";
const LOOPBACK: &str = "ports are for this machine alone; others on the network reach none";

/// Ports that people look at in a browser, as far as a number tells.
fn scheme(port: u16) -> Option<&'static str> {
    match port {
        443 | 8443 | 9443 => Some("https"),
        80 | 3000..=3099 | 4000 | 4200 | 5000 | 5001 | 5173 | 8000..=8099 | 8888 | 9000 | 9090 => Some("http"),
        _ => None,
    }
}

/// `expose` as numbers and protocols.
fn exposes(service: &Service) -> Vec<(u16, Protocol)> {
    let mut ports = Vec::new();
    for entry in service.rest.get("expose").and_then(Value::as_array).into_iter().flatten() {
        let text = entry.as_str().map_or_else(|| entry.to_string(), str::to_owned);
        let (range, protocol) = text.split_once('/').unwrap_or((&text, "tcp"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let protocol = if protocol == "udp" { Protocol::Udp } else { Protocol::Tcp };
        if let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) {
            ports.extend((first..=last).map(|port| (port, protocol)));
        }
    }
    ports
}

/// The container ports that a service says it listens on.
pub(super) fn exposed(service: &Service) -> BTreeSet<u16> {
    exposes(service).into_iter().map(|(port, _)| port).collect()
}

/// Whether it is known which ports a service in the host's network listens on.
pub(super) fn known(service: &Service) -> bool {
    !service.ports.is_empty() || !exposes(service).is_empty()
}

/// A service that leaves the host's network publishes what it exposes there.
pub(super) fn of_host(service: &mut Service) {
    for (target, protocol) in exposes(service) {
        let protocol = Some(protocol.to_string());
        let there = |port: &&crate::compose::PortMapping| {
            port.target == target && port.protocol.as_deref().unwrap_or("tcp") == protocol.as_deref().unwrap_or("tcp")
        };
        if !service.ports.iter().any(|port| there(&port)) {
            service.ports.push(crate::compose::PortMapping {
                target,
                published: Some(target.to_string()),
                protocol,
                ..Default::default()
            });
        }
    }
}

/// The leases that a service asks for; the mappings stay in their places, to be filled in.
pub(super) fn leases(
    name: &str,
    service: &mut Service,
    claims: &mut Claims,
    faults: &mut Vec<Diagnostic>,
) -> Vec<Publish> {
    let replicas = u16::try_from(service.replicas().max(1)).unwrap_or(u16::MAX);
    let mut published: Vec<Publish> = Vec::new();
    let mut ordinals = BTreeMap::new();
    for (at, port) in service.ports.iter_mut().enumerate() {
        let literal = port.published.as_deref().unwrap_or_default();
        let protocol = match port.protocol.as_deref() {
            Some("udp") => Protocol::Udp,
            None | Some("tcp") => Protocol::Tcp,
            Some(other) => {
                let message = format!("`{name}` publishes a port over `{other}`; only tcp and udp are supported");
                let fault = Diagnostic::error(&["services", name, "ports"], message);
                faults.push(fault.hint("publish it over tcp or udp, or let only containers use it"));
                continue;
            }
        };
        let count = ordinals.entry((port.target, protocol)).or_insert(0_u16);
        let ordinal = *count;
        *count = count.saturating_add(1);
        let index = at.to_string();
        claims.at(&["services", name, "ports", &index], RULE, LEASED);
        claims.at(&["services", name, "ports", &index, "host_ip"], "loopback", LOOPBACK);
        let named = port.rest.get("app_protocol").and_then(Value::as_str).map(str::to_owned);
        let guessed = (protocol == Protocol::Tcp).then(|| scheme(port.target)).flatten().map(str::to_owned);
        published.push(Publish {
            service: name.to_owned(),
            container_port: port.target,
            protocol,
            ordinal,
            scheme: named.or(guessed),
            own: if replicas == 1 { literal.parse().ok().filter(|port| *port != 0) } else { None },
            replicas,
            at,
        });
    }
    published
}
