//! Isolation: what makes a second copy of somebody else's compose file collide
//! is changed, or refused by name.
//!
//! Every rule is a small function of its own over one service, network or
//! volume. A rule either changes the model and records the [`Change`], or adds a
//! fault that names the construct: nothing is ignored in silence. The model comes
//! with its placeholders, so that a path inside the checkout can be told from one
//! outside.

mod characters;
mod links;
mod refuse;
mod rules;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::compose::{Network, Project, Volume};
use crate::diagnostic::Diagnostic;
use crate::plan::{Change, FileObjects, Publish};
use crate::planner::Foreign;

/// A compose project, isolated as far as no place is needed.
#[derive(Debug, Default)]
pub(crate) struct Isolated {
    pub(crate) services: BTreeMap<String, Foreign>,
    pub(crate) networks: BTreeMap<String, Network>,
    pub(crate) volumes: BTreeMap<String, Volume>,
    pub(crate) file_objects: FileObjects,
    pub(crate) publishes: Vec<Publish>,
    pub(crate) changes: Vec<Change>,
}

/// Applies every rule.
pub(crate) fn isolate(
    model: &Project,
    builds: &BTreeMap<String, String>,
    profiles: &[String],
    faults: &mut Vec<Diagnostic>,
) -> Isolated {
    let mut isolated = Isolated::default();
    let changes = &mut isolated.changes;
    characters::check(model, faults);
    refuse::project(model, faults);
    let mut services = model.services.clone();
    links::container_names(&mut services, changes);
    links::implied(&mut services);
    links::unscaled(&mut services, changes);
    let active = rules::active(&services, profiles, changes);
    links::missing(&services, &active, faults);
    for (key, network) in &model.networks {
        let network = network.clone().unwrap_or_default();
        refuse::network(key, &network, faults);
        isolated.networks.insert(key.clone(), rules::network_name(key, network, changes));
    }
    for (key, volume) in &model.volumes {
        let volume = volume.clone().unwrap_or_default();
        refuse::volume(key, &volume, faults);
        isolated.volumes.insert(key.clone(), rules::volume_name(key, volume, changes));
    }
    isolated.file_objects = rules::file_objects(model);
    // Owned names, so that each service can be taken apart in its place.
    let active: BTreeSet<String> = active.into_iter().map(str::to_owned).collect();
    let active: BTreeSet<&str> = active.iter().map(String::as_str).collect();
    for (name, mut service) in services {
        let name = name.as_str();
        if !active.contains(name) {
            continue;
        }
        refuse::service(name, &service, faults);
        links::shared_network(name, &service, faults);
        let after = rules::order(&mut service, &active);
        let deliveries = rules::deliveries(name, &mut service, model, faults);
        refuse::hidden_deliveries(name, &service, &deliveries, faults);
        let post_start = rules::hooks(&mut service);
        rules::container_name(name, &mut service, changes);
        rules::restart(name, &mut service, changes);
        rules::left_out(&mut service);
        isolated.publishes.extend(rules::ports(name, &mut service, changes, faults));
        let build = builds.get(name).cloned();
        let foreign = Foreign { compose: service, after, deliveries, post_start, build };
        isolated.services.insert(name.to_owned(), foreign);
    }
    refuse::self_addresses(&isolated, faults);
    isolated
}
