//! Desired and observed give steps. Pure: no clock, no file, no Docker.
//!
//! The text of a step and its cause is what `--dry-run` prints, what tests
//! compare, and what `why` answers from.

mod healing;
mod joined;
mod steps;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};

use sidestack_topology::plan::{After, Plan, PlannedService};

pub use self::steps::{Refusal, Step};
use crate::digest::Digests;
use crate::engine::{Container, Health, Status};
use crate::observe::{Observed, Original};
use crate::record::{Record, ServiceRecord};

/// What is wanted.
#[derive(Clone, Copy)]
pub(crate) struct Desired<'a> {
    /// The plan.
    pub(crate) plan: &'a Plan,
    /// Its digests.
    pub(crate) digests: &'a Digests,
    /// Services to restart in any case.
    pub(crate) restart: &'a BTreeSet<String>,
    /// Build or pull images again.
    pub(crate) refresh: bool,
    /// The plan holds some of the stack's services: everything else is left as it is.
    pub(crate) partial: bool,
}

/// What is known from before.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    /// What was last handed to Docker.
    pub(crate) record: &'a Record,
    /// Containers that were found ready, and the start that this holds for.
    pub(crate) ready: &'a BTreeMap<String, String>,
    /// Volumes whose copy was finished.
    pub(crate) copied: &'a BTreeSet<String>,
    /// It was stopped by a verb, so that an exit says nothing.
    pub(crate) stopped: bool,
}

/// Whether a service that ends with 0 has done its job. One that is to be
/// restarted, that has a health or that publishes a port is meant to stay: when
/// it ended, somebody stopped it.
pub(crate) fn may_end(planned: &PlannedService) -> bool {
    let compose = &planned.compose;
    let restarts = !matches!(compose.restart.as_deref(), None | Some("" | "no"));
    planned.one_shot || (!restarts && compose.healthcheck.is_none() && compose.ports.is_empty())
}

/// The steps, in order, and what is ready already.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Decision {
    /// What must be done.
    pub(crate) steps: Vec<Step>,
    /// What stands against doing anything.
    pub(crate) refusals: Vec<Refusal>,
    /// Services that are as they should be.
    pub(crate) settled: BTreeSet<String>,
}

/// Whether a running container counts as ready.
pub(crate) fn is_ready(
    container: &Container,
    observed: &Observed,
    ready: &BTreeMap<String, String>,
    has_health: bool,
) -> bool {
    if container.status != Status::Running {
        return false;
    }
    match container.health {
        Health::Healthy => true,
        Health::None => !has_health,
        Health::Unhealthy => false,
        // Docker says `starting` for a whole interval after the runtime found it ready.
        Health::Starting => match (ready.get(&container.id), observed.details.get(&container.id)) {
            (Some(start), Some(detail)) => *start == detail.started_at,
            _ => false,
        },
    }
}

/// What a service waits for.
pub(crate) fn edges(plan: &Plan, service: &str) -> BTreeMap<String, After> {
    plan.services.get(service).map(|planned| planned.after.clone()).unwrap_or_default()
}

/// Decides what brings an instance to where its plan wants it.
pub(crate) fn decide(desired: Desired<'_>, observed: &Observed, known: Known<'_>) -> Decision {
    let mut decision = Decision { refusals: refusals(desired, observed, known), ..Decision::default() };
    if !decision.refusals.is_empty() {
        return decision;
    }
    let plan = desired.plan;
    let healed = healing::leftovers(observed, &mut decision.steps);
    let rebuild = networks_to_rebuild(desired, observed, known);
    let mut gone: BTreeSet<&str> = healed.removed.iter().map(String::as_str).collect();
    for container in &observed.containers {
        let service = container.service.as_deref().unwrap_or_default();
        if gone.contains(container.id.as_str()) {
            continue;
        }
        let cause = if !plan.services.contains_key(service) {
            // What is of no service is of no part of the stack: a killed copy left it.
            if desired.partial && container.service.is_some() {
                continue;
            }
            "no longer part of the stack".to_owned()
        } else if let Some(network) = rebuild.first() {
            format!("network {network} changes, which containers cannot survive")
        } else {
            continue;
        };
        gone.insert(&container.id);
        decision.steps.push(Step::Remove { container: container.id.clone(), service: service.to_owned(), cause });
    }
    for key in &rebuild {
        let name = plan.networks.get(key).and_then(|network| network.name.clone()).unwrap_or_default();
        for network in observed.networks.iter().filter(|network| network.name == name) {
            decision.steps.push(Step::RemoveNetwork {
                id: network.id.clone(),
                name: name.clone(),
                cause: "its definition changed".to_owned(),
            });
        }
    }
    let mut create: Vec<(String, String)> = Vec::new();
    let mut after: Vec<Step> = Vec::new();
    for name in plan.services.keys() {
        let containers: Vec<&Container> = observed
            .containers
            .iter()
            .filter(|c| c.service.as_deref() == Some(name) && !gone.contains(c.id.as_str()))
            .collect();
        let before = (create.len(), after.len(), decision.steps.len());
        if let Some(cause) = create_cause(desired, name, &containers, known.record.services.get(name)) {
            create.push((name.clone(), cause.clone()));
            unpause(name, &containers, &mut decision.steps);
            after.push(if is_stale(desired, name, &containers, known.record.services.get(name)) {
                Step::Restart { service: name.clone(), cause }
            } else {
                Step::Start { service: name.clone(), cause }
            });
        } else {
            settle(desired, name, &containers, observed, known, &mut decision.steps, &mut after);
        }
        if before == (create.len(), after.len(), decision.steps.len()) {
            decision.settled.insert(name.clone());
        }
    }
    let there: Vec<&Container> =
        observed.containers.iter().filter(|container| !gone.contains(container.id.as_str())).collect();
    let again = joined::made_anew(desired, known, &there, &create);
    for (name, cause) in &again {
        decision.settled.remove(name);
        let own: Vec<&Container> =
            there.iter().copied().filter(|container| container.service.as_deref() == Some(name)).collect();
        unpause(name, &own, &mut decision.steps);
        after.retain(|step| step.scheduled() != Some(name));
        after.push(Step::Start { service: name.clone(), cause: cause.clone() });
    }
    for (service, cause) in joined::started_again(plan, &there, &after) {
        decision.settled.remove(&service);
        after.retain(|step| step.scheduled() != Some(&service));
        after.push(Step::Restart { service, cause });
    }
    if !create.is_empty() {
        decision.steps.extend(copies(plan, observed, known));
        decision.steps.push(Step::WriteTree { cause: "what is handed to Compose changed".to_owned() });
        decision.steps.push(Step::Create { services: create });
    }
    if !again.is_empty() {
        decision.steps.push(Step::Recreate { services: again.into_iter().collect() });
    }
    if !desired.partial {
        decision.steps.extend(stale_networks(plan, observed));
    }
    decision.steps.extend(after);
    decision
}

/// Volumes that begin with a copy and have not been made, or not to the end.
fn copies(plan: &Plan, observed: &Observed, known: Known<'_>) -> Vec<Step> {
    let step = |(key, from): (&String, &String)| {
        let to = plan.volumes.get(key)?.name.clone()?;
        let there = observed.volumes.iter().any(|volume| volume.name == to);
        // One that was handed to Docker before has data of its own by now.
        let done = known.copied.contains(&to) || known.record.volumes.contains_key(key);
        let cause = if there { "its copy was not finished" } else { "it begins with a copy" };
        let (key, from) = (key.clone(), from.clone());
        (!there || !done).then(|| Step::CopyVolume { key, from, to, again: there, cause: cause.to_owned() })
    };
    plan.copies.iter().filter_map(step).collect()
}

/// Why Compose must be asked to create a service's containers.
fn create_cause(
    desired: Desired<'_>,
    name: &str,
    containers: &[&Container],
    record: Option<&ServiceRecord>,
) -> Option<String> {
    let planned = desired.plan.services.get(name)?;
    let digest = desired.digests.services.get(name)?;
    let wanted = planned.replicas as usize;
    if containers.is_empty() {
        return (wanted > 0).then(|| "not created yet".to_owned());
    }
    match record {
        None => return Some("not known to be as planned".to_owned()),
        Some(record) if record.digest != *digest => return Some("its definition changed".to_owned()),
        Some(_) => {}
    }
    if containers.len() < wanted {
        return Some(format!("{} of {wanted} containers are missing", wanted - containers.len()));
    }
    if containers.len() > wanted {
        return Some(format!("{} containers are too many", containers.len() - wanted));
    }
    if containers.iter().any(|container| matches!(container.status, Status::Dead | Status::Removing)) {
        return Some("a container is dead".to_owned());
    }
    desired.refresh.then(|| "images are made or pulled again".to_owned())
}

/// Whether Compose may leave a container running that has other files than it should: what is
/// delivered is nothing that Compose compares.
fn is_stale(desired: Desired<'_>, name: &str, containers: &[&Container], record: Option<&ServiceRecord>) -> bool {
    let delivers = desired.plan.services.get(name).is_some_and(|planned| !planned.deliveries.is_empty());
    delivers
        && containers.iter().any(|container| container.status.is_alive())
        && record.map(|record| &record.delivery) != desired.digests.deliveries.get(name)
}

/// A paused container can neither be stopped nor asked.
fn unpause(name: &str, containers: &[&Container], steps: &mut Vec<Step>) {
    for container in containers.iter().filter(|container| container.status == Status::Paused) {
        steps.push(Step::Unpause {
            container: container.id.clone(),
            service: name.to_owned(),
            cause: "it is paused".to_owned(),
        });
    }
}

/// The steps for a service whose containers are the right ones.
fn settle(
    desired: Desired<'_>,
    name: &str,
    containers: &[&Container],
    observed: &Observed,
    known: Known<'_>,
    steps: &mut Vec<Step>,
    after: &mut Vec<Step>,
) {
    let Some(record) = known.record.services.get(name) else { return };
    let Some(planned) = desired.plan.services.get(name) else { return };
    unpause(name, containers, steps);
    if desired.restart.contains(name) {
        after.push(Step::Restart { service: name.to_owned(), cause: "asked for".to_owned() });
        return;
    }
    if desired.digests.deliveries.get(name).is_some_and(|digest| *digest != record.delivery) {
        after.push(Step::Restart {
            service: name.to_owned(),
            cause: "a secret or a file put into it changed".to_owned(),
        });
        return;
    }
    let mut start: Option<String> = None;
    let mut wait = None;
    for container in containers {
        match container.status {
            Status::Running if planned.one_shot => wait = Some("it has not ended yet".to_owned()),
            Status::Running if is_ready(container, observed, known.ready, record.has_health) => {}
            Status::Running if container.health == Health::Unhealthy => wait = Some("it is unhealthy".to_owned()),
            Status::Running => wait = Some("it is not known to be ready".to_owned()),
            Status::Restarting => wait = Some("it is restarting".to_owned()),
            Status::Paused => wait = Some("it is paused".to_owned()),
            Status::Exited(0) if planned.one_shot => {}
            // After a stop an exit says nothing, unless it had ended before.
            Status::Exited(0) if may_end(planned) && (!known.stopped || record.completed.contains(&container.id)) => {}
            Status::Exited(code) => start = Some(format!("it exited with {code}")),
            Status::Created => start = Some("it was created and never started".to_owned()),
            Status::Dead | Status::Removing => start = Some("it is dead".to_owned()),
        }
    }
    let made = provision_mark(desired.digests.provisions.get(name), containers.iter().map(|c| c.id.as_str()));
    match (start, wait) {
        (Some(cause), _) => after.push(Step::Start { service: name.to_owned(), cause }),
        (None, Some(cause)) => after.push(Step::Await { service: name.to_owned(), cause }),
        (None, None) if !planned.provisions.is_empty() && record.provisioned != made => {
            let cause = "what is made in it changed".to_owned();
            after.push(Step::Await { service: name.to_owned(), cause });
        }
        (None, None) => {}
    }
}

/// What is kept of provisions: they hold for the containers that they were made in.
pub(crate) fn provision_mark<'a>(digest: Option<&String>, containers: impl Iterator<Item = &'a str>) -> String {
    let mut ids: Vec<&str> = containers.collect();
    ids.sort_unstable();
    format!("{}@{}", digest.map_or("", String::as_str), ids.join(","))
}

/// Networks that are there with another definition.
fn networks_to_rebuild(desired: Desired<'_>, observed: &Observed, known: Known<'_>) -> Vec<String> {
    desired
        .digests
        .networks
        .iter()
        .filter(|(key, digest)| known.record.networks.get(*key).is_some_and(|old| old != *digest))
        .filter(|(key, _)| {
            let name = desired.plan.networks.get(*key).and_then(|network| network.name.as_ref());
            observed.networks.iter().any(|network| Some(&network.name) == name)
        })
        .map(|(key, _)| key.clone())
        .collect()
}

/// Networks of the instance that the plan no longer has. They go after Compose
/// has moved the containers.
fn stale_networks(plan: &Plan, observed: &Observed) -> Vec<Step> {
    let wanted: BTreeSet<&str> = plan.networks.values().filter_map(|network| network.name.as_deref()).collect();
    observed
        .networks
        .iter()
        .filter(|network| !wanted.contains(network.name.as_str()))
        .map(|network| Step::RemoveNetwork {
            id: network.id.clone(),
            name: network.name.clone(),
            cause: "no longer part of the stack".to_owned(),
        })
        .collect()
}

/// Docker names anonymous volumes by 64 hex digits.
pub(crate) fn is_anonymous(volume: &str) -> bool {
    volume.len() == 64 && volume.bytes().all(|b| b.is_ascii_hexdigit())
}

/// What would cost data, or somebody else's things.
fn refusals(desired: Desired<'_>, observed: &Observed, known: Known<'_>) -> Vec<Refusal> {
    let mut refusals: Vec<Refusal> =
        observed.foreign.iter().map(|what| Refusal::Foreign { what: what.clone() }).collect();
    refusals.extend(observed.absent.iter().map(|(kind, key, name)| Refusal::Absent {
        kind,
        key: key.clone(),
        name: name.clone(),
    }));
    for step in copies(desired.plan, observed, known) {
        let Step::CopyVolume { key, from, .. } = step else { continue };
        match observed.originals.get(&from) {
            Some(Original::Absent) => refusals.push(Refusal::Absent { kind: "volume", key, name: from }),
            Some(Original::Used(user)) => refusals.push(Refusal::InUse { volume: from, user: user.clone() }),
            Some(Original::Idle) | None => {}
        }
    }
    for (key, digest) in &desired.digests.volumes {
        let name = desired.plan.volumes.get(key).and_then(|volume| volume.name.clone()).unwrap_or_default();
        let there = observed.volumes.iter().any(|volume| volume.name == name);
        if there && known.record.volumes.get(key).is_some_and(|old| old != digest) {
            refusals.push(Refusal::VolumeChanged { volume: name });
        }
    }
    if let Some(network) = networks_to_rebuild(desired, observed, known).first() {
        let holds = |container: &&Container| container.mounts.iter().any(|name| is_anonymous(name));
        if let Some(container) = observed.containers.iter().find(holds) {
            let service = container.service.clone().unwrap_or_default();
            refusals.push(Refusal::NetworkChanged { network: network.clone(), service });
        }
    }
    for (resource, planned) in &desired.plan.resources {
        let Some(old) = known.record.formats.get(resource.as_str()) else { continue };
        let has_data = desired.plan.volumes.iter().any(|(key, volume)| {
            planned.services.iter().any(|service| key.starts_with(&format!("{service}-")))
                && observed.volumes.iter().any(|there| Some(&there.name) == volume.name.as_ref())
        });
        if has_data && (old.module != planned.module || old.format != planned.data_format) {
            refusals.push(Refusal::DataFormat {
                resource: resource.to_string(),
                from: format!("{}@{}", old.module, old.version),
                to: format!("{}@{}", planned.module, planned.version),
            });
        }
    }
    refusals
}
