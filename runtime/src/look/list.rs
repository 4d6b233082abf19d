//! `ls`: every instance, by one call to Docker and a few queries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sidestack_state::{Applied, Instance, Outcome};
use sidestack_topology::diagnostic::nearest;
use sidestack_topology::planner::place::INSTANCE_LABEL;

use super::state::{self, Whole};
use crate::api::{Listed, Listing};
use crate::engine::{Container, Engine, Health};
use crate::error::{Error, Kind, Result};
use crate::observe::{self, Observed};
use crate::record::{Record, ServiceRecord};
use crate::session::Session;
use crate::source;

/// What a listing is made of.
struct Facts<'a> {
    applied: &'a BTreeMap<i64, (Applied, bool)>,
    ready: &'a BTreeMap<String, String>,
    /// By the instance's uid; `None` when Docker could not be asked.
    seen: Option<&'a (Observed, BTreeMap<String, Vec<usize>>)>,
}

impl Session {
    /// This workspace's instances, or `all` on the machine; those of one environment if it is named.
    ///
    /// That Docker cannot be reached is said in [`Listing::docker`]; states then say what the store
    /// wants, and no service counts as ready.
    ///
    /// # Errors
    /// When there is no stack here (and not `all`), or no such environment.
    pub fn list(&self, all: bool, environment: Option<&str>) -> Result<Listing> {
        let here = self.here()?;
        let mut instances = match (&here, all) {
            (_, true) => self.store.instances()?,
            (Some((_, workspace)), false) => self.store.instances_of(workspace.id)?,
            (None, false) => {
                // A stack that was never started has nothing to list; no stack at all is an error.
                self.checkout().map_err(|error| error.hint("`sidestack ls --all` lists those of the whole machine"))?;
                Vec::new()
            }
        };
        if let Some(name) = environment {
            let known: BTreeSet<String> = instances.iter().map(|i| i.target.environment.to_string()).collect();
            instances.retain(|instance| instance.target.environment.as_str() == name);
            if instances.is_empty() {
                let error =
                    Error::new(Kind::NotFound, "not-found", format!("no instance is in an environment `{name}`"));
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                return Err(match nearest(name, known.iter().copied()) {
                    Some(near) => error.hint(format!("did you mean `{near}`?")),
                    None if known.is_empty() => error.hint("`sidestack up` makes one"),
                    None => error.hint(format!("there is {}", known.join(", "))),
                });
            }
        }
        if instances.is_empty() {
            return Ok(Listing { instances: Vec::new(), docker: None });
        }
        let applied = self.store.last_applied_of_all()?;
        let ready = self.store.all_ready()?;
        let install = observe::install_filter(self.store.install_id());
        let asked = match self.engine() {
            Ok(engine) => self.wait(survey(engine, &install, &ready)),
            Err(error) => Err(error),
        };
        let (seen, docker) = match asked {
            Ok(seen) => (Some(seen), None),
            Err(error) if error.kind == Kind::Docker => (None, Some(error.message)),
            Err(error) => return Err(error),
        };
        let facts = Facts { applied: &applied, ready: &ready, seen: seen.as_ref() };
        let mut folders = Folders::default();
        let mut own = OwnInstances::new(here.as_ref().map(|(checkout, _)| checkout.folder.as_path()));
        let instances =
            instances.into_iter().map(|instance| listed(instance, &facts, &mut folders, &mut own)).collect();
        Ok(Listing { instances, docker })
    }
}

/// One list, and an inspection of each container whose readiness the list cannot tell.
async fn survey(
    engine: &impl Engine,
    install: &str,
    ready: &BTreeMap<String, String>,
) -> Result<(Observed, BTreeMap<String, Vec<usize>>)> {
    let mut containers = engine.containers(install).await?;
    containers.retain(|container| !container.oneoff);
    let unclear = containers.iter().filter(|container| {
        container.status.is_alive() && container.health == Health::Starting && ready.contains_key(&container.id)
    });
    let asked = unclear.map(|container| engine.inspect(&container.id));
    let mut details = BTreeMap::new();
    for detail in futures_util::future::join_all(asked).await {
        match detail {
            Ok(detail) => {
                details.insert(detail.id.clone(), detail);
            }
            // It went away in between: then it is not ready, which is what no detail means.
            Err(crate::engine::EngineError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut by_instance: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, container) in containers.iter().enumerate() {
        if let Some(uid) = container.labels.get(INSTANCE_LABEL) {
            by_instance.entry(uid.clone()).or_default().push(at);
        }
    }
    Ok((Observed { containers, details, ..Observed::default() }, by_instance))
}

fn listed(instance: Instance, facts: &Facts<'_>, folders: &mut Folders, own: &mut OwnInstances<'_>) -> Listed {
    let last = facts.applied.get(&instance.id);
    let record = last.map(|(applied, _)| Record::parse(&applied.record)).unwrap_or_default();
    let failed = last.is_some_and(|(applied, _)| applied.outcome != Outcome::Ok);
    let was_good = last.is_some_and(|(_, good)| *good);
    let (state, ready, total) = match facts.seen {
        None => (state::unasked(instance.desired, failed, was_good), 0, record.services.len()),
        Some((observed, by_instance)) => {
            let containers: Vec<&Container> = by_instance
                .get(&instance.uid)
                .into_iter()
                .flatten()
                .filter_map(|at| observed.containers.get(*at))
                .collect();
            let parts = parts(&record, &containers, observed, facts.ready);
            let whole = Whole {
                desired: instance.desired,
                known: last.is_some(),
                failed,
                was_good,
                any: !containers.is_empty(),
                alive: containers.iter().any(|container| container.status.is_alive()),
            };
            let services: Vec<_> = parts.into_values().collect();
            let ready = services.iter().filter(|service| service.ready()).count();
            (state::whole(whole, &services), ready, services.len())
        }
    };
    let (branch, folder_missing) = folders.look(instance.checkout.as_deref());
    let here = own.is(&instance);
    Listed { address: record.address, state, ready, total, branch, here, folder_missing, instance }
}

/// Every service that was handed over as it is, and every one that is there although nobody knows
/// of it: it is being made for the first time, or was when somebody was interrupted.
pub(super) fn parts<'a>(
    record: &'a Record,
    containers: &[&'a Container],
    observed: &Observed,
    ready: &BTreeMap<String, String>,
) -> BTreeMap<&'a str, state::ServiceState> {
    let mut by_service: BTreeMap<&str, Vec<&Container>> =
        record.services.keys().map(|name| (name.as_str(), Vec::new())).collect();
    for container in containers {
        if let Some(service) = container.service.as_deref() {
            by_service.entry(service).or_default().push(container);
        }
    }
    let unknown = ServiceRecord { replicas: 1, ..ServiceRecord::default() };
    by_service
        .into_iter()
        .map(|(name, containers)| {
            let known = record.services.get(name).unwrap_or(&unknown);
            (name, state::service(known, &containers, observed, ready))
        })
        .collect()
}

/// What git says of folders, each asked once.
#[derive(Debug, Default)]
pub(super) struct Folders {
    known: BTreeMap<PathBuf, (Option<String>, bool)>,
}

impl Folders {
    /// The branch that a folder is on, and whether the folder is missing.
    pub(super) fn look(&mut self, folder: Option<&Path>) -> (Option<String>, bool) {
        let Some(folder) = folder else {
            return (None, false);
        };
        if let Some(known) = self.known.get(folder) {
            return known.clone();
        }
        let found = (source::branch(folder), !folder.is_dir());
        self.known.insert(folder.to_owned(), found.clone());
        found
    }
}

/// Which instances are the current checkout's: the oldest of each environment that is not pinned,
/// as [`sidestack_state::Store::instance_by_checkout`] has it.
struct OwnInstances<'a> {
    folder: Option<&'a Path>,
    taken: BTreeSet<i64>,
}

impl<'a> OwnInstances<'a> {
    fn new(folder: Option<&'a Path>) -> Self {
        Self { folder, taken: BTreeSet::new() }
    }

    /// Instances must come oldest first.
    fn is(&mut self, instance: &Instance) -> bool {
        self.folder.is_some()
            && instance.checkout.as_deref() == self.folder
            && !(instance.pinned || instance.additional)
            && self.taken.insert(instance.environment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{FakeEngine, Status};

    #[test]
    fn one_list_and_only_the_inspections_that_are_needed() {
        let fake = FakeEngine::new();
        let labels = [("dev.sidestack.install", "i"), (INSTANCE_LABEL, "u")];
        for (id, health) in
            [("a", Health::Starting), ("b", Health::Starting), ("c", Health::Healthy), ("d", Health::None)]
        {
            let sample = FakeEngine::sample(id, "p", id, &labels);
            fake.add_container(Container { status: Status::Running, health, ..sample });
        }
        let ready = BTreeMap::from([("a".to_owned(), "t".to_owned()), ("c".to_owned(), "t".to_owned())]);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (observed, by_instance) = runtime.block_on(survey(&fake, "dev.sidestack.install=i", &ready)).unwrap();
        assert_eq!(observed.containers.len(), 4);
        assert_eq!(by_instance.get("u").map(Vec::len), Some(4));
        let calls = fake.calls();
        assert_eq!(calls.len(), 2, "{calls:?}");
        assert!(calls[0].starts_with("containers") && calls[1] == "inspect a", "{calls:?}");
    }
}
