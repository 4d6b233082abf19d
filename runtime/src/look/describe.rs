//! `describe`: one instance in full.

use std::collections::{BTreeMap, BTreeSet};

use sidestack_state::{Instance, Outcome};
use sidestack_topology::plan::LayerKind;
use sidestack_topology::planner::place::INSTALL_LABEL;

use super::list::{Folders, parts};
use super::state::{self, Whole};
use crate::api::{Address, Description, ServiceView, TargetWords, VolumeView};
use crate::engine::{Container, Engine};
use crate::error::Result;
use crate::observe::{self, Observed};
use crate::record::{Record, RecordedAddress};
use crate::session::Session;

impl Session {
    /// One instance in full. With `sizes` its volumes are measured, which takes Docker a while.
    ///
    /// # Errors
    /// Not found; Docker unreachable.
    pub fn describe(&self, words: &TargetWords, sizes: bool) -> Result<Description> {
        let instance = self.instance(words)?;
        let mut description =
            self.describe_instance(&instance, sizes).map_err(|error| error.about(&instance.target))?;
        description.variables = self.counted(&instance).unwrap_or_default();
        Ok(description)
    }

    /// The same of an instance at hand, without counting its variables: one list, and the record.
    pub(crate) fn describe_instance(&self, instance: &Instance, sizes: bool) -> Result<Description> {
        let last = self.store.last_applied(instance.id)?;
        let record = last.as_ref().map(|applied| Record::parse(&applied.record)).unwrap_or_default();
        let failed = last.as_ref().is_some_and(|applied| applied.outcome != Outcome::Ok);
        let was_good = match &last {
            Some(applied) if applied.outcome == Outcome::Ok => true,
            Some(_) => self.store.last_good(instance.id)?.is_some(),
            None => false,
        };
        let ready = self.store.all_ready()?;
        let engine = self.engine()?;
        let install = self.store.install_id();
        let (observed, volumes) = self.wait(async {
            let observed = observe::glance(engine, install, &instance.uid, &ready).await?;
            let volumes = volumes(engine, install, &instance.uid, &observed, sizes).await?;
            Ok((observed, volumes))
        })?;
        let containers: Vec<&Container> = observed.containers.iter().collect();
        let parts = parts(&record, &containers, &observed, &ready);
        let whole = Whole {
            desired: instance.desired,
            known: last.is_some(),
            failed,
            was_good,
            any: !containers.is_empty(),
            alive: containers.iter().any(|container| container.status.is_alive()),
        };
        let states: Vec<_> = parts.values().cloned().collect();
        let services = parts.into_iter().map(|(name, state)| view(name, &state, &record, &containers)).collect();
        let (branch, folder_missing) = Folders::default().look(instance.checkout.as_deref());
        Ok(Description {
            instance: instance.clone(),
            state: state::whole(whole, &states),
            project: instance.target.project(),
            services,
            volumes,
            folder_missing,
            branch,
            last: self.store.history_of(instance.id, 1)?.into_iter().next(),
            variables: BTreeMap::new(),
        })
    }

    /// How many variables each layer gives the instance's containers.
    fn counted(&self, instance: &Instance) -> Result<BTreeMap<LayerKind, usize>> {
        let mut counts = BTreeMap::new();
        if let Some(number) = instance.revision {
            let (_, content) = self.content(instance.environment, number)?;
            let planned = self.planned(instance, self.workspace_of(instance)?, &content)?;
            for variable in planned.plan.container_variables.values().flat_map(BTreeMap::values) {
                *counts.entry(variable.layer).or_default() += 1;
            }
        }
        Ok(counts)
    }
}

fn view(name: &str, state: &state::ServiceState, record: &Record, containers: &[&Container]) -> ServiceView {
    let own = containers.iter().find(|container| container.service.as_deref() == Some(name));
    let known = record.services.get(name);
    let image = known.map(|known| known.image.clone()).filter(|image| !image.is_empty());
    ServiceView {
        name: name.to_owned(),
        state: state.word.clone(),
        health: state.health.map(str::to_owned),
        ready: state.ready(),
        image: image.or_else(|| own.map(|container| container.image.clone())).unwrap_or_default(),
        image_id: own.map(|container| container.image_id.clone()).filter(|id| !id.is_empty()),
        addresses: known.into_iter().flat_map(|known| &known.addresses).map(address).collect(),
    }
}

fn address(recorded: &RecordedAddress) -> Address {
    Address {
        port: recorded.port,
        protocol: recorded.protocol.clone(),
        inside: recorded.inside.clone(),
        host: recorded.host.clone(),
        url: recorded.url.clone(),
    }
}

/// An instance's volumes. Its containers name those they mount, so that Docker need be asked only
/// for sizes or when there is no container.
async fn volumes(
    engine: &impl Engine,
    install: &str,
    uid: &str,
    observed: &Observed,
    sizes: bool,
) -> Result<Vec<VolumeView>> {
    let anonymous = |name: &str| name.len() == 64 && name.bytes().all(|b| b.is_ascii_hexdigit());
    let mut names: BTreeSet<String> = observed
        .containers
        .iter()
        .flat_map(|container| &container.mounts)
        .filter(|name| !anonymous(name))
        .cloned()
        .collect();
    if sizes || observed.containers.is_empty() {
        let labelled = engine.volumes(Some(&observe::filter(uid))).await?;
        let ours = labelled
            .into_iter()
            .filter(|v| v.labels.get(INSTALL_LABEL).is_some_and(|id| id == install) && !v.anonymous);
        names.extend(ours.map(|volume| volume.name));
    }
    let measured = if sizes && !names.is_empty() { engine.volume_sizes().await? } else { BTreeMap::new() };
    Ok(names
        .into_iter()
        .map(|name| {
            let bytes = measured.get(&name).copied();
            VolumeView { name, bytes }
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{FakeEngine, Volume};

    #[test]
    fn volumes_cost_a_call_only_when_containers_cannot_tell() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let fake = FakeEngine::new();
        let labels: BTreeMap<String, String> =
            [(INSTALL_LABEL.to_owned(), "i".to_owned()), ("dev.sidestack.instance-id".to_owned(), "u".to_owned())]
                .into();
        let volume = |name: &str, labels: &BTreeMap<String, String>| Volume {
            name: name.to_owned(),
            labels: labels.clone(),
            driver: "local".to_owned(),
            anonymous: false,
        };
        fake.add_volume(volume("data", &labels), 7);
        let mut foreign = labels;
        foreign.insert(INSTALL_LABEL.to_owned(), "other".to_owned());
        fake.add_volume(volume("theirs", &foreign), 9);
        let mut container = FakeEngine::sample("c", "p", "db", &[]);
        container.mounts = vec!["data".to_owned(), "0".repeat(64)];
        let observed = Observed { containers: vec![container], ..Observed::default() };
        let ask = |observed: &Observed, sizes| {
            let found = runtime.block_on(volumes(&fake, "i", "u", observed, sizes)).unwrap();
            found.into_iter().map(|v| (v.name, v.bytes)).collect::<Vec<_>>()
        };
        assert_eq!(ask(&observed, false), [("data".to_owned(), None)]);
        assert!(fake.calls().is_empty());
        assert_eq!(ask(&Observed::default(), false), [("data".to_owned(), None)]);
        assert_eq!(ask(&observed, true), [("data".to_owned(), Some(7))]);
    }
}
