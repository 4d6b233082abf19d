//! Instances: `ls`, `up`, `describe`, `why`, and what stops them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use sidestack_runtime::api::{Description, Done, Listed, Listing, StepLine, UpReport};
use sidestack_runtime::look::WhyReport;
use sidestack_state::Transition;

use super::plan::Step;

/// `ls`
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct List {
    /// The instances
    instances: Vec<Row>,
    /// Why states may be wrong: Docker could not be asked
    docker: Option<String>,
}

/// An instance in a list
#[derive(Debug, Serialize, JsonSchema)]
struct Row {
    /// `workspace/environment/instance`
    target: String,
    workspace: String,
    environment: String,
    instance: String,
    /// Such as `r3`; null before the first start
    revision: Option<String>,
    /// `running` (all ready), `starting`, `degraded`, `stopped`, `failed` or `gone`
    state: &'static str,
    /// Services that are ready
    ready: usize,
    /// Services that it should have
    total: usize,
    /// Host ports are 20000 + 100 · slot and up
    slot: Option<u8>,
    /// The address people look at first
    address: Option<String>,
    /// Its checkout
    folder: Option<String>,
    /// The checkout is gone
    folder_missing: bool,
    /// The branch that the checkout is on
    branch: Option<String>,
    /// It goes when its owner goes
    ephemeral: bool,
    /// RFC 3339
    created: String,
    /// It is the current checkout's
    here: bool,
}

impl From<&Listing> for List {
    fn from(listing: &Listing) -> Self {
        Self { instances: listing.instances.iter().map(Row::from).collect(), docker: listing.docker.clone() }
    }
}

impl From<&Listed> for Row {
    fn from(listed: &Listed) -> Self {
        let instance = &listed.instance;
        Self {
            target: instance.target.to_string(),
            workspace: instance.target.workspace.to_string(),
            environment: instance.target.environment.to_string(),
            instance: instance.target.instance.to_string(),
            revision: instance.revision.map(|revision| revision.to_string()),
            state: listed.state.word(),
            ready: listed.ready,
            total: listed.total,
            slot: instance.slot.as_ref().map(|lease| lease.slot.number()),
            address: listed.address.clone(),
            folder: instance.checkout.as_ref().map(|folder| folder.display().to_string()),
            folder_missing: listed.folder_missing,
            branch: listed.branch.clone(),
            ephemeral: instance.owner.is_some(),
            created: instance.created.to_string(),
            here: listed.here,
        }
    }
}

/// An instance in full: `up`, `start`, `restart`, `wait`, `describe`
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Instance {
    /// `workspace/environment/instance`
    target: String,
    workspace: String,
    environment: String,
    instance: String,
    /// Such as `r3`; null before the first start
    revision: Option<String>,
    /// `running` (all ready), `starting`, `degraded`, `stopped`, `failed` or `gone`
    state: &'static str,
    /// Host ports are 20000 + 100 · slot and up
    slot: Option<u8>,
    /// Its part of the private address range
    subnet: Option<String>,
    /// The Compose project
    project: String,
    /// Its services
    services: Vec<Service>,
    /// Its volumes
    volumes: Vec<Volume>,
    /// Whether anything was done
    changed: bool,
    /// Whether the revision is new
    committed: bool,
    /// Nothing was done, and `steps` says what would be
    dry_run: bool,
    /// What was done
    steps: Vec<Step>,
    /// Its checkout
    folder: Option<String>,
    /// The checkout is gone
    folder_missing: bool,
    /// The branch that the checkout is on
    branch: Option<String>,
    /// It stays at its revision
    pinned: bool,
    /// RFC 3339
    created: String,
    /// How many variables each layer gives its containers
    variables: BTreeMap<String, usize>,
    /// The last transition
    last: Option<Change>,
}

/// A service
#[derive(Debug, Serialize, JsonSchema)]
struct Service {
    name: String,
    /// `running`, `starting`, `exited 1`, `completed`, `missing`, …
    state: String,
    /// `healthy`, `unhealthy`, `starting`; null without a health check
    health: Option<String>,
    /// Whether it is as it should be
    ready: bool,
    image: String,
    /// The image's digest, when the container is there
    image_id: Option<String>,
    addresses: Vec<Address>,
}

/// An address of a service
#[derive(Debug, Serialize, JsonSchema)]
struct Address {
    /// The container port
    port: u16,
    /// `tcp` or `udp`
    protocol: String,
    /// For containers, such as `db:5432`
    inside: String,
    /// For this machine, such as `127.0.0.1:20101`
    host: String,
    url: Option<String>,
}

/// A volume
#[derive(Debug, Serialize, JsonSchema)]
struct Volume {
    name: String,
    /// Its size, when it was asked for
    bytes: Option<i64>,
}

/// A transition
#[derive(Debug, Serialize, JsonSchema)]
struct Change {
    /// RFC 3339
    at: String,
    verb: String,
    cause: String,
    outcome: String,
    detail: String,
}

impl From<&Transition> for Change {
    fn from(one: &Transition) -> Self {
        Self {
            at: one.at.to_string(),
            verb: one.verb.clone(),
            cause: one.cause.clone(),
            outcome: one.outcome.clone(),
            detail: one.detail.clone(),
        }
    }
}

impl From<&Description> for Instance {
    fn from(description: &Description) -> Self {
        let instance = &description.instance;
        let services = description.services.iter().map(|service| Service {
            name: service.name.clone(),
            state: service.state.clone(),
            health: service.health.clone(),
            ready: service.ready,
            image: service.image.clone(),
            image_id: service.image_id.clone(),
            addresses: service
                .addresses
                .iter()
                .map(|address| Address {
                    port: address.port,
                    protocol: address.protocol.clone(),
                    inside: address.inside.clone(),
                    host: address.host.clone(),
                    url: address.url.clone(),
                })
                .collect(),
        });
        Self {
            target: instance.target.to_string(),
            workspace: instance.target.workspace.to_string(),
            environment: instance.target.environment.to_string(),
            instance: instance.target.instance.to_string(),
            revision: instance.revision.map(|revision| revision.to_string()),
            state: description.state.word(),
            slot: instance.slot.as_ref().map(|lease| lease.slot.number()),
            subnet: instance.slot.as_ref().map(|lease| lease.subnet.clone()),
            project: description.project.clone(),
            services: services.collect(),
            volumes: description
                .volumes
                .iter()
                .map(|one| Volume { name: one.name.clone(), bytes: one.bytes })
                .collect(),
            changed: false,
            committed: false,
            dry_run: false,
            steps: Vec::new(),
            folder: instance.checkout.as_ref().map(|folder| folder.display().to_string()),
            folder_missing: description.folder_missing,
            branch: description.branch.clone(),
            pinned: instance.pinned,
            created: instance.created.to_string(),
            variables: description.variables.iter().map(|(layer, count)| (layer.to_string(), *count)).collect(),
            last: description.last.as_ref().map(Change::from),
        }
    }
}

impl Instance {
    /// What `up` did, or would do.
    pub(crate) fn of_up(report: &UpReport, dry_run: bool) -> Self {
        Self {
            changed: report.changed && !dry_run,
            committed: report.committed && !dry_run,
            dry_run,
            steps: report.steps.iter().map(Step::from).collect(),
            ..Self::from(&report.description)
        }
    }

    /// The same, as a dry run of a verb that was not asked.
    pub(crate) fn would(description: &Description, steps: &[StepLine]) -> Self {
        Self { dry_run: true, steps: steps.iter().map(Step::from).collect(), ..Self::from(description) }
    }
}

/// `stop`, `down`, `rm`
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Acted {
    /// `workspace/environment/instance`
    target: String,
    /// Whether anything was done
    changed: bool,
    /// Volumes that stay, by name
    kept: Vec<String>,
    /// What is gone
    removed: Vec<String>,
    /// Nothing was done, and `steps` says what would be
    dry_run: bool,
    /// What would be done
    steps: Vec<Step>,
}

impl From<&Done> for Acted {
    fn from(done: &Done) -> Self {
        Self {
            target: done.target.to_string(),
            changed: done.changed,
            kept: done.kept.clone(),
            removed: done.removed.clone(),
            dry_run: false,
            steps: Vec::new(),
        }
    }
}

/// A dry run of one of them.
pub(crate) struct Would<'a>(pub(crate) &'a Description, pub(crate) &'a [StepLine]);

impl From<Would<'_>> for Acted {
    fn from(Would(description, steps): Would<'_>) -> Self {
        Self {
            target: description.instance.target.to_string(),
            changed: false,
            kept: Vec::new(),
            removed: Vec::new(),
            dry_run: true,
            steps: steps.iter().map(Step::from).collect(),
        }
    }
}

/// `why`
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Why {
    /// `workspace/environment/instance`
    target: String,
    /// What happened, the last first
    transitions: Vec<Change>,
    /// The log lines that go with it
    logs: Vec<ServiceLog>,
}

/// Log lines of a service
#[derive(Debug, Serialize, JsonSchema)]
struct ServiceLog {
    service: String,
    lines: Vec<String>,
}

impl From<&WhyReport> for Why {
    fn from(report: &WhyReport) -> Self {
        let log =
            |(service, lines): &(String, Vec<String>)| ServiceLog { service: service.clone(), lines: lines.clone() };
        Self {
            target: report.target.to_string(),
            transitions: report.transitions.iter().map(Change::from).collect(),
            logs: report.logs.iter().map(log).collect(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;
    use sidestack_runtime::api::{ServiceView, State, VolumeView};
    use sidestack_state::{Desired, Lease};
    use sidestack_topology::names::{RevisionNumber, Slot, Target};

    /// An instance as the store has one.
    pub(crate) fn stored() -> sidestack_state::Instance {
        sidestack_state::Instance {
            id: 1,
            uid: "0123456789abcdef".to_owned(),
            environment: 1,
            target: Target {
                workspace: "shop".parse().unwrap(),
                environment: "dev".parse().unwrap(),
                instance: "main".parse().unwrap(),
            },
            revision: Some(RevisionNumber(3)),
            checkout: Some("/src/shop".into()),
            desired: Desired::Running,
            daemon: None,
            owner: None,
            slot: Slot::new(2).map(|slot| Lease { slot, subnet: "10.231.4.0/23".to_owned() }),
            generation: 1,
            pinned: false,
            additional: false,
            revived: false,
            sources: Vec::new(),
            created: "2026-01-01T00:00:00Z".parse().unwrap(),
        }
    }

    #[test]
    fn ls_has_its_documented_shape() {
        let listed = Listed {
            instance: stored(),
            state: State::Running,
            ready: 2,
            total: 2,
            branch: None,
            address: Some("http://127.0.0.1:20201".to_owned()),
            here: true,
            folder_missing: false,
        };
        let list = List::from(&Listing { instances: vec![listed], docker: None });
        assert_eq!(
            serde_json::to_value(list).unwrap(),
            json!({"docker": null, "instances": [{
                "target": "shop/dev/main", "workspace": "shop", "environment": "dev", "instance": "main",
                "revision": "r3", "state": "running", "ready": 2, "total": 2, "slot": 2,
                "address": "http://127.0.0.1:20201", "folder": "/src/shop", "folder_missing": false, "branch": null,
                "ephemeral": false, "created": "2026-01-01T00:00:00Z", "here": true,
            }]})
        );
    }

    #[test]
    fn up_has_its_documented_shape() {
        let address = sidestack_runtime::api::Address {
            port: 5432,
            protocol: "tcp".to_owned(),
            inside: "db:5432".to_owned(),
            host: "127.0.0.1:20201".to_owned(),
            url: None,
        };
        let description = Description {
            instance: stored(),
            state: State::Starting,
            project: "shop_dev_main".to_owned(),
            services: vec![ServiceView {
                name: "db".to_owned(),
                state: "running".to_owned(),
                health: None,
                ready: true,
                image: "postgres:17".to_owned(),
                image_id: None,
                addresses: vec![address],
            }],
            volumes: vec![VolumeView { name: "shop_dev_main_db".to_owned(), bytes: None }],
            folder_missing: false,
            branch: Some("main".to_owned()),
            last: None,
            variables: BTreeMap::new(),
        };
        let report = UpReport { description, changed: true, committed: true, steps: Vec::new() };
        let value = serde_json::to_value(Instance::of_up(&report, false)).unwrap();
        let part = |key: &str| value[key].clone();
        assert_eq!(part("target"), "shop/dev/main");
        assert_eq!(part("state"), "starting");
        assert_eq!(part("slot"), 2);
        assert_eq!(part("project"), "shop_dev_main");
        assert_eq!(part("changed"), true);
        assert_eq!(
            part("services")[0]["addresses"],
            json!([{"port": 5432, "protocol": "tcp", "inside": "db:5432", "host": "127.0.0.1:20201", "url": null}])
        );
        assert_eq!(part("volumes"), json!([{"name": "shop_dev_main_db", "bytes": null}]));
        let dry = serde_json::to_value(Instance::of_up(&report, true)).unwrap();
        assert_eq!((&dry["changed"], &dry["dry_run"]), (&json!(false), &json!(true)));
    }
}
