//! One snapshot of an instance: what Docker has, in as few calls as possible.

use std::collections::{BTreeMap, BTreeSet};

use sidestack_topology::plan::Plan;
use sidestack_topology::planner::place::{INSTALL_LABEL, INSTANCE_LABEL};

use crate::engine::{Container, Detail, Engine, EngineError, Image, Network, Volume};
use crate::error::Result;

/// What there is of one instance.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// Its containers; one-off ones only where it is to be removed.
    pub containers: Vec<Container>,
    /// Details of those containers whose state a list cannot tell.
    pub details: BTreeMap<String, Detail>,
    /// Its networks.
    pub networks: Vec<Network>,
    /// Its volumes.
    pub volumes: Vec<Volume>,
    /// What has a name that the project needs and is not this store's: `volume x`.
    pub foreign: Vec<String>,
    /// External networks and volumes that are not there: kind, key, real name.
    pub absent: Vec<(&'static str, String, String)>,
    /// Volumes that others are copies of, by real name, as far as they were looked at.
    pub originals: BTreeMap<String, Original>,
    /// Local images by the name that was asked for; `None` when there is none.
    pub images: BTreeMap<String, Option<Image>>,
}

/// A volume that another is to begin with a copy of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Original {
    /// It is not there.
    Absent,
    /// Nobody writes to it.
    Idle,
    /// This container runs on it.
    Used(String),
}

/// The label filter for everything of one instance.
pub(crate) fn filter(instance_id: &str) -> String {
    format!("{INSTANCE_LABEL}={instance_id}")
}

/// The label filter for everything of this store.
pub(crate) fn install_filter(install: &str) -> String {
    format!("{INSTALL_LABEL}={install}")
}

/// The containers of an instance. Both labels must agree: a container that only
/// claims the instance is foreign.
///
/// One-off ones (`docker compose run`) are left out: they are no replica of a service.
pub(crate) async fn containers(engine: &impl Engine, install: &str, instance_id: &str) -> Result<Vec<Container>> {
    let mut all = all_containers(engine, install, instance_id).await?;
    all.retain(|container| !container.oneoff);
    Ok(all)
}

/// The same with one-off containers, for what takes things away: each holds a network.
pub(crate) async fn all_containers(engine: &impl Engine, install: &str, instance_id: &str) -> Result<Vec<Container>> {
    let mut all = engine.containers(&filter(instance_id)).await?;
    all.retain(|container| container.labels.get(INSTALL_LABEL).is_some_and(|id| id == install));
    all.sort_by(|a, b| (&a.service, a.number, &a.id).cmp(&(&b.service, b.number, &b.id)));
    Ok(all)
}

/// A snapshot good enough to see that nothing is to be done: one list, and an
/// inspection of each container whose readiness the list cannot tell.
pub(crate) async fn glance(
    engine: &impl Engine,
    install: &str,
    instance_id: &str,
    ready: &BTreeMap<String, String>,
) -> Result<Observed> {
    let containers = containers(engine, install, instance_id).await?;
    let mut observed = Observed { containers, ..Observed::default() };
    let unclear: Vec<String> = observed
        .containers
        .iter()
        .filter(|container| {
            let starting = container.status.is_alive() && container.health == crate::engine::Health::Starting;
            starting && ready.contains_key(&container.id)
        })
        .map(|container| container.id.clone())
        .collect();
    let asked = unclear.iter().map(|id| async move { (id, engine.inspect(id).await) });
    for (id, detail) in futures_util::future::join_all(asked).await {
        match detail {
            Ok(detail) => {
                observed.details.insert(detail.id.clone(), detail);
            }
            // It went away in between, so it is not there.
            Err(EngineError::NotFound { .. }) => observed.containers.retain(|container| container.id != *id),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(observed)
}

/// The rest of the snapshot, for when something is to be done.
///
/// Networks, volumes and the project's containers are listed whole: a name is no
/// proof of ownership, and Compose would take over what only bears the name.
pub(crate) async fn complete(
    engine: &impl Engine,
    install: &str,
    instance_id: &str,
    observed: &mut Observed,
    plan: Option<&Plan>,
) -> Result<()> {
    let images: BTreeSet<String> = plan
        .into_iter()
        .flat_map(|plan| plan.services.values())
        .filter_map(|service| service.compose.image.clone())
        .collect();
    let asked = images.iter().map(|image| async move { (image, engine.image(image).await) });
    let project = async {
        match plan {
            Some(plan) => engine.containers(&format!("com.docker.compose.project={}", plan.project)).await,
            None => Ok(Vec::new()),
        }
    };
    let (networks, volumes, project, images) = futures_util::join!(
        engine.networks(None),
        engine.volumes(None),
        project,
        futures_util::future::join_all(asked)
    );
    let (networks, volumes, project) = (networks?, volumes?, project?);
    for (image, found) in images {
        observed.images.insert(image.clone(), found?);
    }
    let stores = |labels: &BTreeMap<String, String>| labels.get(INSTALL_LABEL).is_some_and(|id| id == install);
    let ours = |labels: &BTreeMap<String, String>| {
        stores(labels) && labels.get(INSTANCE_LABEL).is_some_and(|id| id == instance_id)
    };
    if let Some(plan) = plan {
        let (own_nets, outer_nets): (Vec<_>, Vec<_>) = plan.networks.iter().partition(|(_, network)| !network.external);
        let (own_vols, outer_vols): (Vec<_>, Vec<_>) = plan.volumes.iter().partition(|(_, volume)| !volume.external);
        let wanted: BTreeSet<&str> = own_nets.into_iter().filter_map(|(_, network)| network.name.as_deref()).collect();
        let kept: BTreeSet<&str> = own_vols.into_iter().filter_map(|(_, volume)| volume.name.as_deref()).collect();
        // Those of others must be there; Compose would find out in the middle.
        let there = |name: &str| volumes.iter().any(|volume| volume.name == name);
        for name in plan.copies.values() {
            let original = match there(name) {
                false => Original::Absent,
                true => engine.volume_user(name).await?.map_or(Original::Idle, Original::Used),
            };
            observed.originals.insert(name.clone(), original);
        }
        let outer_nets =
            outer_nets.into_iter().map(|(key, network)| ("network", key, network.name.as_ref().unwrap_or(key)));
        let outer_vols =
            outer_vols.into_iter().map(|(key, volume)| ("volume", key, volume.name.as_ref().unwrap_or(key)));
        let outer = outer_nets.chain(outer_vols).map(|(kind, key, name)| (kind, key.clone(), name.clone()));
        observed.absent = outer
            .filter(|(kind, _, name)| match *kind {
                "network" => !networks.iter().any(|network| network.name == *name),
                _ => !there(name),
            })
            .collect();
        let containers = project.iter().filter(|c| !ours(&c.labels)).map(|c| format!("container `{}`", c.name));
        let nets = networks
            .iter()
            .filter(|network| wanted.contains(network.name.as_str()) && !ours(&network.labels))
            .map(|network| format!("network `{}`", network.name));
        let vols = volumes
            .iter()
            .filter(|volume| kept.contains(volume.name.as_str()) && !stores(&volume.labels))
            .map(|volume| format!("volume `{}`", volume.name));
        observed.foreign = containers.chain(nets).chain(vols).collect();
    }
    observed.networks = networks.into_iter().filter(|network| ours(&network.labels)).collect();
    observed.volumes = volumes.into_iter().filter(|volume| ours(&volume.labels)).collect();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::fake::FakeEngine;
    use crate::engine::{Health, Status};

    const LABELS: [(&str, &str); 2] = [(INSTALL_LABEL, "store"), (INSTANCE_LABEL, "0123")];

    #[tokio::test(flavor = "current_thread")]
    async fn one_off_containers_are_only_there_to_be_removed() {
        let engine = FakeEngine::new();
        engine.add_container(FakeEngine::sample("c1", "p", "web", &LABELS));
        let mut once = FakeEngine::sample("c2", "p", "web", &LABELS);
        once.oneoff = true;
        engine.add_container(once);
        // Claims the instance, but is another store's.
        engine.add_container(FakeEngine::sample(
            "c3",
            "p",
            "web",
            &[(INSTALL_LABEL, "other"), (INSTANCE_LABEL, "0123")],
        ));
        let ids = |list: Vec<Container>| list.into_iter().map(|c| c.id).collect::<Vec<_>>();
        assert_eq!(ids(containers(&engine, "store", "0123").await.unwrap()), ["c1"]);
        assert_eq!(ids(all_containers(&engine, "store", "0123").await.unwrap()), ["c1", "c2"]);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_goes_away_between_list_and_inspection_is_not_there() {
        let engine = FakeEngine::new();
        for id in ["c1", "c2"] {
            let mut container = FakeEngine::sample(id, "p", id, &LABELS);
            container.status = Status::Running;
            container.health = Health::Starting;
            engine.add_container(container);
        }
        let ready = ["c1", "c2"].map(|id| (id.to_owned(), "start".to_owned())).into();
        engine.fail_once("inspect c1", EngineError::NotFound { what: "container `c1`".to_owned() });
        let seen = glance(&engine, "store", "0123", &ready).await.unwrap();
        assert_eq!(seen.containers.iter().map(|c| c.id.as_str()).collect::<Vec<_>>(), ["c2"]);
        assert_eq!(seen.details.keys().collect::<Vec<_>>(), ["c2"]);
        // Any other answer stays an error.
        engine.fail_once("inspect c1", EngineError::Conflict { what: "c1".to_owned(), message: String::new() });
        assert!(glance(&engine, "store", "0123", &ready).await.is_err());
    }
}
