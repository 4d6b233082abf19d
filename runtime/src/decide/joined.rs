//! Who stands in another service's container: the network, the processes, the memory and the volumes that it uses are
//! that container's. Docker binds them to the container's id when it is created, and to its namespaces when it starts,
//! so whoever joined follows when the container is made anew or started again. Compose leaves them behind.

use std::collections::{BTreeMap, BTreeSet};

use sidestack_topology::compose::Joint;
use sidestack_topology::plan::Plan;

use super::{Desired, Known, Step};
use crate::engine::Container;

/// The services that follow those in `first`, with the cause; also who follows one that follows.
fn followers(
    plan: &Plan,
    first: BTreeSet<&str>,
    volumes: bool,
    happens: &str,
    follows: impl Fn(&str) -> bool,
) -> BTreeMap<String, String> {
    let mut moved: BTreeSet<&str> = first;
    let mut found = BTreeMap::new();
    loop {
        let before = found.len();
        for (name, planned) in &plan.services {
            if found.contains_key(name) || !follows(name) {
                continue;
            }
            let moves = |(other, what): &(&str, Joint)| moved.contains(other) && (volumes || *what != Joint::Volumes);
            if let Some((other, what)) = planned.compose.joined().find(moves) {
                found.insert(name.clone(), format!("the container of {other}, whose {what} it uses, {happens}"));
                moved.insert(name);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// Services whose containers must be made anew because of what is created, although Compose sees no change in them.
pub(super) fn made_anew(
    desired: Desired<'_>,
    known: Known<'_>,
    containers: &[&Container],
    create: &[(String, String)],
) -> BTreeMap<String, String> {
    let changed = |name: &str| {
        let record = known.record.services.get(name);
        record.is_some_and(|record| desired.digests.services.get(name) != Some(&record.digest))
    };
    let created: BTreeSet<&str> = create.iter().map(|(name, _)| name.as_str()).collect();
    followers(desired.plan, created.clone(), true, "is made anew", |name| {
        let there = containers.iter().any(|container| container.service.as_deref() == Some(name));
        // One that changed itself is made anew by Compose, in the order of who joins whom.
        there && !(created.contains(name) && changed(name))
    })
}

/// Running services that must be restarted because of what is started.
pub(super) fn started_again(plan: &Plan, containers: &[&Container], after: &[Step]) -> BTreeMap<String, String> {
    let starts = |step: &&Step| matches!(step, Step::Start { .. } | Step::Restart { .. });
    let started: BTreeSet<&str> = after.iter().filter(starts).filter_map(Step::scheduled).collect();
    followers(plan, started.clone(), false, "is started again", |name| {
        let own = |container: &&&Container| container.service.as_deref() == Some(name);
        !started.contains(name) && containers.iter().filter(own).any(|container| container.status.is_alive())
    })
}
