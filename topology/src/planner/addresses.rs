//! What is published, and at which address each vantage finds it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Draft, Resolved};
use crate::diagnostic::Diagnostic;
use crate::module::Port;
use crate::names::{ResourceName, Slot};
use crate::plan::{Placement, Plan, PlannedPort, Publish};
use crate::template::Context;

/// Every port binds here: `localhost` may mean IPv6, where nothing is published.
pub(super) const LOOPBACK: &str = "127.0.0.1";

/// The ports of resources join those of the compose files.
pub(super) fn publishes(draft: &mut Draft, faults: &mut Vec<Diagnostic>) {
    for resource in draft.resources.values() {
        for port in resource.module.ports.values() {
            let Some(service) = resource.services.get(&port.service) else {
                continue;
            };
            draft.publishes.push(Publish {
                service: service.clone(),
                container_port: port.port,
                protocol: port.protocol,
                ordinal: 0,
                scheme: port.scheme.clone(),
                own: None,
                replicas: 1,
                at: 0,
            });
        }
    }
    draft.publishes.sort();
    room(draft, faults);
}

/// A slot has a hundred ports, which is told before anything is given numbers.
fn room(draft: &Draft, faults: &mut Vec<Diagnostic>) {
    // TCP and UDP share a number.
    let keys: BTreeMap<String, &Publish> = draft.publishes.iter().map(|publish| (publish.key(), publish)).collect();
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for publish in keys.values() {
        *counts.entry(&publish.service).or_default() += u32::from(publish.replicas.max(1));
    }
    let total: u32 = counts.values().sum();
    if let Some((service, count)) = counts.iter().max_by_key(|(_, count)| **count)
        && total > u32::from(Slot::PORTS)
    {
        let message =
            format!("the stack publishes {total} ports, {count} of them `{service}`; a slot has {}", Slot::PORTS);
        faults.push(Diagnostic::error(&["services", service, "ports"], message).hint("publish fewer ports"));
    }
}

/// The host port of a publication, or 0 while there is no slot.
fn host_port(placement: &Placement, publish: &Publish) -> Result<u16, Option<u16>> {
    let Some(slot) = placement.slot else {
        return Ok(0);
    };
    match placement.ports.get(&publish.key()) {
        Some(offset) if *offset + publish.replicas.max(1) <= Slot::PORTS => Ok(slot.first_port() + offset),
        Some(offset) => Err(Some(*offset)),
        // Docker would choose one, a different one at each start.
        None => Err(None),
    }
}

/// Gives each publication its host port.
pub(super) fn assign(draft: &Draft, plan: &mut Plan, faults: &mut Vec<Diagnostic>) {
    let mut granted = BTreeSet::new();
    for publish in &draft.publishes {
        match host_port(&plan.placement, publish) {
            Ok(host_port) => {
                // The files may bind one port on several addresses of the host; here there is one.
                let own = publish.own.filter(|own| plan.placement.own_ports.contains(own));
                let own = own.filter(|own| granted.insert((*own, publish.protocol)));
                let (publish, host_ip) = (publish.clone(), LOOPBACK.to_owned());
                plan.ports.push(PlannedPort { publish, host_ip, host_port, own });
            }
            Err(offset) => {
                let (key, most) = (publish.key(), Slot::PORTS);
                let message = match offset {
                    Some(offset) => {
                        format!("`{key}` would need port {offset} of a slot that has {most}")
                    }
                    None => format!("no port of the slot is kept for `{key}`"),
                };
                let path = ["services", &publish.service, "ports"];
                faults.push(Diagnostic::error(&path, message).hint("publish fewer ports"));
            }
        }
    }
}

/// Where a module's port is published.
pub(super) fn port_of<'a>(plan: &'a Plan, service: &str, port: &Port) -> Option<&'a PlannedPort> {
    // They stand in the order of what is published, which begins with the service.
    let first = plan.ports.partition_point(|planned| planned.publish.service.as_str() < service);
    let own = plan.ports[first..].iter().take_while(|planned| planned.publish.service == service);
    own.into_iter()
        .find(|planned| planned.publish.container_port == port.port && planned.publish.protocol == port.protocol)
}

/// Who asks for an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vantage {
    /// A container of the same project.
    Container,
    /// The machine it runs on.
    Host,
}

/// `host`, `port` and `addresses` of a resource as templates see them.
pub(super) fn of_resource(plan: &Plan, resource: &Resolved, vantage: Vantage) -> Value {
    let mut all = serde_json::Map::new();
    let mut primary = (Value::Null, Value::Null);
    for (name, port) in &resource.module.ports {
        let Some(service) = resource.services.get(&port.service) else {
            continue;
        };
        let (host, number) = match vantage {
            Vantage::Container => (service.clone(), port.port),
            Vantage::Host => {
                let found = port_of(plan, service, port);
                (LOOPBACK.to_owned(), found.map_or(0, |planned| planned.host_port))
            }
        };
        if port.primary {
            primary = (Value::from(host.clone()), Value::from(number));
        }
        all.insert(name.clone(), json!({"host": host, "port": number}));
    }
    json!({"host": primary.0, "port": primary.1, "addresses": all})
}

/// What every template of a resource sees.
pub(super) fn context(name: &ResourceName, resource: &Resolved) -> Context {
    let ports: serde_json::Map<String, Value> =
        resource.module.ports.iter().map(|(key, port)| (key.clone(), Value::from(port.port))).collect();
    let value = json!({
        "resource": name.as_str(),
        "image": resource.version.image,
        "version": resource.version.version,
        "settings": resource.settings,
        "credentials": resource.credentials,
        "provisions": resource.provisions,
        "ports": ports,
        "services": resource.services,
    });
    match value {
        Value::Object(names) => Context::of_names(names),
        _ => Context::of_names(serde_json::Map::new()),
    }
}
