//! `up --only`: some services and what they need. The others are left as they are.
//!
//! The plan is narrowed before anything is resolved, observed or decided, so that nothing of what is left out counts:
//! not its secrets, not its containers. A revision stays whole; what was handed over of it stands in the record.

use std::collections::BTreeSet;

use sidestack_topology::compose::Joint;
use sidestack_topology::diagnostic::nearest;
use sidestack_topology::names::ResourceName;
use sidestack_topology::plan::Plan;
use sidestack_topology::render::{self, Images};
use sidestack_topology::revision::Content;

use crate::api::UpRequest;
use crate::digest::{self, Secrets};
use crate::engine::Container;
use crate::error::{Error, Kind, Result};
use crate::record::Record;
use crate::revise::model_of;
use crate::session::Session;

/// Which services a verb is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Only {
    /// All of them.
    #[default]
    All,
    /// These services and resources, and what they need.
    Named(Vec<String>),
    /// Those that the last `up` was about.
    AsBefore,
}

/// What `--only` asks for.
pub(super) fn only(request: &UpRequest) -> Only {
    if request.only.is_empty() { Only::All } else { Only::Named(request.only.clone()) }
}

impl Session {
    /// Takes out of a plan what is left alone, and gives its names; `None` when the verb is about everything. What is not
    /// in the plan at all is left alone too.
    ///
    /// # Errors
    /// A name that is neither a service's nor a resource's.
    pub(super) fn narrow(
        &self,
        plan: &mut Plan,
        content: &Content,
        containers: impl FnOnce() -> Result<Vec<Container>>,
        record: &Record,
        only: &Only,
    ) -> Result<Option<BTreeSet<String>>> {
        let named = match only {
            Only::All => return Ok(None),
            Only::Named(names) => named(plan, names).map_err(|name| unknown(plan, content, &name))?,
            Only::AsBefore => {
                let before = record.only.iter().flatten().filter(|name| plan.services.contains_key(*name));
                before.cloned().collect()
            }
        };
        if named.is_empty() {
            return Ok(None);
        }
        let mut chosen = needed(plan, named);
        if chosen.len() < plan.services.len() {
            let containers = containers()?;
            let there: BTreeSet<&str> = containers.iter().filter_map(|one| one.service.as_deref()).collect();
            let there = |name: &String| there.contains(name.as_str());
            // A network that changes takes the containers of everybody in it along.
            let all = networks_change(plan, record, self.store.machine_key());
            let follow: Vec<String> = plan
                .services
                .keys()
                .filter(|name| there(name) && (all || joins(plan, name, &chosen)))
                .cloned()
                .collect();
            chosen.extend(follow);
            chosen = needed(plan, chosen);
        }
        let rest: BTreeSet<String> = plan.services.keys().filter(|name| !chosen.contains(*name)).cloned().collect();
        keep(plan, &chosen);
        Ok(Some(rest))
    }
}

/// The services that names stand for; a resource's stands for all of its services. `Err` with one that is unknown.
fn named(plan: &Plan, names: &[String]) -> std::result::Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    for name in names {
        let resource = name.parse::<ResourceName>().ok().filter(|name| plan.resources.contains_key(name));
        let own = plan.services.iter().filter(|(_, service)| resource.is_some() && service.resource == resource);
        let before = found.len();
        found.extend(own.map(|(name, _)| name.clone()));
        if plan.services.contains_key(name) {
            found.insert(name.clone());
        } else if found.len() == before && resource.is_none() {
            return Err(name.clone());
        }
    }
    Ok(found)
}

/// With everything that they wait for, and that those wait for.
fn needed(plan: &Plan, mut chosen: BTreeSet<String>) -> BTreeSet<String> {
    let mut open: Vec<String> = chosen.iter().cloned().collect();
    while let Some(name) = open.pop() {
        let after = plan.services.get(&name).into_iter().flat_map(|service| service.after.keys());
        for other in after.filter(|other| plan.services.contains_key(*other)) {
            if chosen.insert(other.clone()) {
                open.push(other.clone());
            }
        }
    }
    chosen
}

/// Whether a service stands in the container of one of these.
fn joins(plan: &Plan, name: &str, chosen: &BTreeSet<String>) -> bool {
    let Some(service) = plan.services.get(name) else { return false };
    service.compose.joined().any(|(other, joint)| joint != Joint::Volumes && chosen.contains(other))
}

/// Whether a network has another definition than what was handed over.
fn networks_change(plan: &Plan, record: &Record, key: &[u8; 32]) -> bool {
    let rendered = render::render(plan, &Images::default());
    let now = digest::of_plan(plan, &rendered, &Secrets::new(), key).networks;
    now.iter().any(|(key, digest)| record.networks.get(key).is_some_and(|old| old != digest))
}

/// Leaves in a plan what is about these services, and what the instance has as a whole.
fn keep(plan: &mut Plan, chosen: &BTreeSet<String>) {
    plan.services.retain(|name, _| chosen.contains(name));
    plan.ports.retain(|port| chosen.contains(&port.publish.service));
    plan.exposed.retain(|exposed| chosen.contains(&exposed.service));
    plan.container_variables.retain(|name, _| chosen.contains(name));
    let mounts = plan.services.values().flat_map(|service| &service.compose.volumes);
    let used: BTreeSet<&String> = mounts.filter_map(|mount| mount.source.as_ref()).collect();
    plan.copies.retain(|volume, _| used.contains(volume));
}

fn unknown(plan: &Plan, content: &Content, name: &str) -> Error {
    let error = Error::new(Kind::NotFound, "no-service", format!("there is no service `{name}` for `--only`"));
    let model = model_of(content).ok().flatten();
    let inactive =
        model.as_ref().and_then(|model| model.services.get(name)).and_then(|service| service.profiles.first());
    if let Some(profile) = inactive {
        return error.hint(format!("its profile is not on: add `--profile {profile}`"));
    }
    let known = || plan.services.keys().map(String::as_str);
    match nearest(name, known()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint(format!("there are {}", known().collect::<Vec<_>>().join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::tests::plan;
    use serde_json::json;

    fn stack() -> Plan {
        plan(json!({"services": {
            "db": {"image": "pg", "volumes": [{"type": "volume", "source": "data", "target": "/data"}]},
            "cache": {"image": "redis", "ports": [{"target": 6379}]},
            "migrate": {"image": "app", "depends_on": {"db": {"condition": "service_started"}}},
            "web": {"image": "app", "ports": [{"target": 80}], "depends_on": {
                "migrate": {"condition": "service_completed_successfully"}, "cache": {"condition": "service_started"}}},
            "side": {"image": "s", "network_mode": "service:cache"},
        }, "volumes": {"data": {}}}))
    }

    fn words(words: &[&str]) -> BTreeSet<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn what_is_named_comes_with_what_it_needs() {
        let plan = stack();
        assert_eq!(needed(&plan, words(&["cache"])), words(&["cache"]));
        assert_eq!(needed(&plan, words(&["migrate", "cache"])), words(&["cache", "db", "migrate"]));
        assert_eq!(needed(&plan, words(&["web"])), words(&["cache", "db", "migrate", "web"]));
        assert_eq!(named(&plan, &["db".into(), "cache".into(), "db".into()]), Ok(words(&["cache", "db"])));
        assert_eq!(named(&plan, &["db".into(), "dbb".into()]), Err("dbb".into()));
        assert!(joins(&plan, "side", &words(&["cache"])) && !joins(&plan, "side", &words(&["db"])));
    }

    #[test]
    fn nothing_of_what_is_left_out_stays_in_the_plan() {
        let mut plan = stack();
        keep(&mut plan, &words(&["cache"]));
        assert_eq!(plan.services.keys().collect::<Vec<_>>(), ["cache"]);
        assert_eq!(plan.ports.iter().map(|port| port.publish.service.as_str()).collect::<Vec<_>>(), ["cache"]);
        // What the instance has as a whole is no service's.
        assert!(plan.volumes.contains_key("data") && plan.networks.contains_key("default"));
    }

    #[test]
    fn an_unknown_name_is_told_with_the_nearest_or_its_profile() {
        let plan = stack();
        let mut content = Content::default();
        let told = |content: &Content, name: &str| unknown(&plan, content, name).hint.unwrap();
        assert_eq!(told(&content, "cach"), "did you mean `cache`?");
        assert!(told(&content, "something-else").starts_with("there are cache, db, "));
        content.model = Some(json!({"services": {"debug": {"image": "d", "profiles": ["tools"]}}}));
        assert_eq!(told(&content, "debug"), "its profile is not on: add `--profile tools`");
    }
}
