//! What is recorded of an apply: services, networks and volumes as they were handed to Docker.

use std::collections::{BTreeMap, BTreeSet};

use sidestack_topology::plan::Plan;

use super::apply::Prepared;
use crate::decide::{self, Decision, Step};
use crate::execute::Outcome;
use crate::observe::Observed;
use crate::record::{DataFormat, Record, RecordedAddress, ServiceRecord};

/// What is known to be in Docker after a run of steps.
pub(super) fn new_record(
    mut record: Record,
    prepared: &Prepared,
    decision: &Decision,
    outcome: &Outcome,
    observed: &Observed,
) -> Record {
    let plan = &prepared.planned.plan;
    let digests = &prepared.digests;
    let created: BTreeSet<&str> = decision
        .steps
        .iter()
        .flat_map(|step| match step {
            Step::Create { services } | Step::Recreate { services } => {
                services.iter().map(|(service, _)| service.as_str()).collect()
            }
            _ => Vec::new(),
        })
        .collect();
    let containers = outcome.containers.as_ref().unwrap_or(&observed.containers);
    let made = outcome.containers.is_some() || created.is_empty();
    let there = |record: &ServiceRecord| containers.iter().any(|container| record.containers.contains(&container.id));
    let partial = prepared.rest.is_some();
    record.services.retain(|name, record| plan.services.contains_key(name) || (partial && there(record)));
    for (name, planned) in &plan.services {
        if created.contains(name.as_str()) && !made {
            // Compose ended in the middle: what it did is not known.
            record.services.remove(name);
            continue;
        }
        let ids: Vec<String> =
            containers.iter().filter(|c| c.service.as_deref() == Some(name)).map(|c| c.id.clone()).collect();
        let old = record.services.get(name).cloned().unwrap_or_default();
        let goes_on = |id: &String| ids.contains(id) && !outcome.started.contains(id);
        let mut completed: Vec<String> = old.completed.into_iter().filter(goes_on).collect();
        completed.extend(outcome.completed.get(name).into_iter().flatten().cloned());
        completed.dedup();
        let provisioned = if outcome.provisioned.contains(name) {
            decide::provision_mark(digests.provisions.get(name), ids.iter().map(String::as_str))
        } else {
            old.provisioned
        };
        record.services.insert(
            name.clone(),
            ServiceRecord {
                digest: digests.services.get(name).cloned().unwrap_or_default(),
                // What was not put in is not there, whatever the plan says.
                delivery: if planned.deliveries.is_empty() || outcome.delivered.contains(name) {
                    digests.deliveries.get(name).cloned().unwrap_or_default()
                } else {
                    old.delivery
                },
                replicas: planned.replicas,
                one_shot: planned.one_shot,
                ends: decide::may_end(planned),
                containers: ids,
                completed,
                provisioned,
                image: planned.compose.image.clone().unwrap_or_default(),
                has_health: if outcome.reached.contains(name) {
                    outcome.has_health.contains(name)
                } else {
                    old.has_health
                },
                addresses: addresses(plan, name),
            },
        );
    }
    if made {
        record.networks = digests.networks.clone();
        // A volume that is not used for now stays in Docker, and is taken up again.
        record.volumes.extend(digests.volumes.clone());
        for (name, resource) in &plan.resources {
            record.formats.insert(
                name.to_string(),
                DataFormat {
                    module: resource.module.clone(),
                    version: resource.version.clone(),
                    format: resource.data_format.clone(),
                },
            );
        }
    } else {
        // Compose ended in the middle: which definition a network has that was to change is not known.
        for (key, digest) in &mut record.networks {
            if digests.networks.get(key).is_some_and(|wanted| wanted != digest) {
                digest.clear();
            }
        }
    }
    let mut anonymous: BTreeSet<String> = record.anonymous.into_iter().collect();
    anonymous.extend(outcome.anonymous.iter().cloned());
    record.anonymous = anonymous.into_iter().collect();
    // Whoever is left alone keeps what people look at first.
    let others = record.services.keys().any(|name| !plan.services.contains_key(name));
    record.address = record.address.filter(|_| others).or_else(|| front(plan));
    let left_out = prepared.rest.iter().flatten().any(|name| !record.services.contains_key(name));
    record.only = left_out.then(|| record.services.keys().chain(plan.services.keys()).cloned().collect());
    record
}

fn addresses(plan: &Plan, service: &str) -> Vec<RecordedAddress> {
    plan.ports
        .iter()
        .filter(|port| port.publish.service == service)
        .flat_map(|port| {
            let own = port.own.map(|own| format!("{}:{own}", port.host_ip));
            port.hosts().into_iter().chain(own).map(|host| RecordedAddress {
                port: port.publish.container_port,
                protocol: port.publish.protocol.to_string(),
                inside: port.inside(),
                url: port.publish.scheme.as_ref().map(|scheme| format!("{scheme}://{host}")),
                host,
            })
        })
        .collect()
}

/// What people look at first: the application before its resources, a page before a port.
fn front(plan: &Plan) -> Option<String> {
    let own: BTreeMap<bool, Vec<&sidestack_topology::plan::PlannedPort>> =
        plan.ports.iter().fold(BTreeMap::new(), |mut map, port| {
            let resource = plan.services.get(&port.publish.service).is_some_and(|s| s.resource.is_some());
            map.entry(resource).or_insert_with(Vec::new).push(port);
            map
        });
    let ports = own.values().next()?;
    ports.iter().find_map(|port| port.url()).or_else(|| ports.first().map(|port| port.host()))
}
