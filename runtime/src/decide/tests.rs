//! Decisions as tables: a plan, what Docker has, what is known, and the steps as text.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use sidestack_topology::names::{RevisionNumber, Slot, Target};
use sidestack_topology::plan::{Placement, Plan};
use sidestack_topology::planner;
use sidestack_topology::render;
use sidestack_topology::revision::Content;

use super::*;
use crate::digest;
use crate::engine::{FakeEngine, Network, Volume};

const KEY: [u8; 32] = [7; 32];

/// The plan of a compose model for `shop/dev/main`.
pub(crate) fn plan(model: serde_json::Value) -> Plan {
    let content = Content { model: Some(model), ..Content::default() };
    let draft = crate::revise::drafted(&content).unwrap();
    let target = Target {
        workspace: "shop".parse().unwrap(),
        environment: "dev".parse().unwrap(),
        instance: "main".parse().unwrap(),
    };
    let ports = draft.publishes.iter().enumerate().map(|(n, p)| (p.key(), n as u16)).collect();
    let placement = Placement {
        target,
        install: "store".to_owned(),
        instance_id: "one".to_owned(),
        generation: 1,
        revision: Some(RevisionNumber(1)),
        slot: Slot::new(1),
        subnet: Some("10.231.2.0/23".to_owned()),
        ports,
        networks: BTreeMap::from([("default".to_owned(), 0)]),
        checkout: "/tmp/shop".to_owned(),
        files: "/tmp/tree/files".to_owned(),
        borrowed: Default::default(),
        own_ports: Default::default(),
    };
    let (plan, faults) = planner::place(&draft, &placement, &[]);
    assert!(faults.is_empty(), "{faults:?}");
    plan
}

fn stack() -> serde_json::Value {
    json!({"services": {
        "db": {"image": "pg", "healthcheck": {"test": ["CMD", "true"]}, "volumes": [{"type": "volume", "source": "data", "target": "/data"}]},
        "migrate": {"image": "app", "depends_on": {"db": {"condition": "service_healthy"}}},
        "web": {"image": "app", "ports": [{"target": 80, "published": "80"}], "depends_on": {"migrate": {"condition": "service_completed_successfully"}}},
    }, "volumes": {"data": {}}})
}

/// Everything as it is after a good `up`.
struct World {
    plan: Plan,
    observed: Observed,
    record: Record,
    ready: BTreeMap<String, String>,
    restart: BTreeSet<String>,
    stopped: bool,
    copied: BTreeSet<String>,
    partial: bool,
}

impl World {
    fn settled(model: serde_json::Value) -> Self {
        let plan = plan(model);
        let mut world = Self {
            observed: Observed::default(),
            record: Record::default(),
            ready: BTreeMap::new(),
            restart: BTreeSet::new(),
            stopped: false,
            copied: BTreeSet::new(),
            partial: false,
            plan,
        };
        let digests = world.digests();
        for (name, planned) in &world.plan.services {
            let mut container = FakeEngine::sample(&format!("{name}-id"), &world.plan.project, name, &[]);
            let health = planned.compose.healthcheck.is_some();
            container.status = if planned.one_shot { Status::Exited(0) } else { Status::Running };
            container.health = if health { Health::Healthy } else { Health::None };
            world.record.services.insert(
                name.clone(),
                ServiceRecord {
                    digest: digests.services[name].clone(),
                    delivery: digests.deliveries[name].clone(),
                    replicas: 1,
                    one_shot: planned.one_shot,
                    containers: vec![container.id.clone()],
                    has_health: health,
                    ..ServiceRecord::default()
                },
            );
            world.observed.containers.push(container);
        }
        world.record.networks = digests.networks.clone();
        world.record.volumes = digests.volumes;
        for network in world.plan.networks.values() {
            let name = network.name.clone().unwrap();
            world.observed.networks.push(Network {
                id: format!("{name}-id"),
                name,
                labels: BTreeMap::new(),
                subnets: Vec::new(),
                containers: None,
            });
        }
        for volume in world.plan.volumes.values() {
            let name = volume.name.clone().unwrap();
            world.observed.volumes.push(Volume {
                name,
                labels: BTreeMap::new(),
                driver: "local".to_owned(),
                anonymous: false,
            });
        }
        world
    }

    fn digests(&self) -> Digests {
        let rendered = render::render(&self.plan, &render::Images::default());
        digest::of_plan(&self.plan, &rendered, &BTreeMap::new(), &KEY)
    }

    fn container(&mut self, service: &str) -> &mut Container {
        self.observed.containers.iter_mut().find(|c| c.service.as_deref() == Some(service)).unwrap()
    }

    fn decide(&self) -> Decision {
        let digests = self.digests();
        let desired = Desired {
            plan: &self.plan,
            digests: &digests,
            restart: &self.restart,
            refresh: false,
            partial: self.partial,
        };
        let known = Known { record: &self.record, ready: &self.ready, copied: &self.copied, stopped: self.stopped };
        decide(desired, &self.observed, known)
    }

    fn text(&self) -> String {
        self.decide().steps.iter().map(|step| format!("{step}: {}\n", step.cause())).collect()
    }
}

fn started(id: &str, at: &str) -> crate::engine::Detail {
    crate::engine::Detail {
        id: id.to_owned(),
        name: id.to_owned(),
        status: Status::Running,
        started_at: at.to_owned(),
        finished_at: String::new(),
        exit_code: 0,
        error: String::new(),
        oom_killed: false,
        restart_count: 0,
        health: Health::Starting,
        health_log: None,
        health_check: None,
        env: Vec::new(),
        image_id: String::new(),
        tty: false,
        mounts: Vec::new(),
        labels: BTreeMap::new(),
        restart_policy: "no".to_owned(),
        stop_timeout: None,
        user: String::new(),
        readonly_rootfs: false,
        tmpfs: Vec::new(),
    }
}

#[test]
fn p07_what_is_as_it_should_be_needs_nothing() {
    let world = World::settled(stack());
    let decision = world.decide();
    assert_eq!(decision.steps, []);
    assert_eq!(decision.settled.len(), 3);
}

#[test]
fn nothing_there_is_created_and_started() {
    let mut world = World::settled(stack());
    world.observed = Observed::default();
    world.record = Record::default();
    assert_eq!(
        world.text(),
        "write tree: what is handed to Compose changed\n\
         create db, migrate, web: db: not created yet; migrate: not created yet; web: not created yet\n\
         start db: not created yet\nstart migrate: not created yet\nstart web: not created yet\n"
    );
}

#[test]
fn only_what_changed_is_created_again() {
    let mut world = World::settled(stack());
    let mut changed = stack();
    changed["services"]["web"]["environment"] = json!({"A": "b"});
    world.plan = plan(changed);
    assert_eq!(
        world.text(),
        "write tree: what is handed to Compose changed\n\
         create web: web: its definition changed\nstart web: its definition changed\n"
    );
}

#[test]
fn states_have_their_own_answers() {
    for (status, health, expected) in [
        (Status::Exited(137), Health::None, "start web: it exited with 137\n"),
        (Status::Exited(0), Health::None, "start web: it exited with 0\n"),
        (Status::Created, Health::None, "start web: it was created and never started\n"),
        (Status::Paused, Health::None, "unpause web: it is paused\nwait for web: it is paused\n"),
        (Status::Restarting, Health::None, "wait for web: it is restarting\n"),
        (Status::Running, Health::Unhealthy, "wait for web: it is unhealthy\n"),
        (Status::Running, Health::Starting, "wait for web: it is not known to be ready\n"),
    ] {
        let mut world = World::settled(stack());
        let web = world.container("web");
        (web.status, web.health) = (status, health);
        assert_eq!(world.text(), expected);
    }
}

#[test]
fn a_finished_one_shot_is_not_run_again_and_a_failed_one_is() {
    let mut world = World::settled(stack());
    assert_eq!(world.text(), "");
    world.container("migrate").status = Status::Exited(1);
    assert_eq!(world.text(), "start migrate: it exited with 1\n");
}

#[test]
fn a_job_that_nobody_waits_for_ends_well_and_runs_again_after_a_stop() {
    let mut world = World::settled(json!({"services": {"job": {"image": "app"}}}));
    world.container("job").status = Status::Exited(0);
    assert_eq!(world.text(), "");
    world.container("job").status = Status::Exited(2);
    assert_eq!(world.text(), "start job: it exited with 2\n");
    world.container("job").status = Status::Exited(0);
    world.stopped = true;
    assert_eq!(world.text(), "start job: it exited with 0\n");
}

#[test]
fn readiness_holds_for_one_start_only() {
    let mut world = World::settled(stack());
    world.container("db").health = Health::Starting;
    assert_eq!(world.text(), "wait for db: it is not known to be ready\n");
    world.observed.details.insert("db-id".to_owned(), started("db-id", "10:00"));
    world.ready.insert("db-id".to_owned(), "10:00".to_owned());
    assert_eq!(world.text(), "");
    world.ready.insert("db-id".to_owned(), "09:00".to_owned());
    assert_eq!(world.text(), "wait for db: it is not known to be ready\n");
}

#[test]
fn a_service_that_left_the_stack_is_removed() {
    let mut world = World::settled(stack());
    let mut changed = stack();
    changed["services"].as_object_mut().unwrap().remove("web");
    world.plan = plan(changed);
    // Without `web` nobody waits for `migrate` to end, and it is known to have ended well only as a one-shot.
    world.record.services.get_mut("migrate").unwrap().completed = vec!["migrate-id".to_owned()];
    assert_eq!(world.text(), "remove web (web-id): no longer part of the stack\n");
}

#[test]
fn a_changed_volume_and_another_engine_are_refused() {
    let mut world = World::settled(stack());
    let mut changed = stack();
    changed["volumes"]["data"] = json!({"driver_opts": {"type": "tmpfs", "device": "tmpfs"}});
    world.plan = plan(changed);
    let refusal = world.decide().refusals.remove(0);
    assert_eq!(refusal, Refusal::VolumeChanged { volume: "shop_dev_main_data".to_owned() });
    assert!(world.decide().steps.is_empty());
}

#[test]
fn p22_a_name_that_somebody_else_has_is_refused() {
    let mut world = World::settled(stack());
    world.observed.containers.clear();
    world.observed.foreign = vec!["volume `shop_dev_main_data`".to_owned()];
    let decision = world.decide();
    assert!(decision.steps.is_empty());
    assert_eq!(decision.refusals, [Refusal::Foreign { what: "volume `shop_dev_main_data`".to_owned() }]);
}

#[test]
fn a_changed_network_takes_its_containers_along() {
    let mut world = World::settled(stack());
    world.record.networks.insert("default".to_owned(), "another".to_owned());
    let text = world.text();
    assert!(text.starts_with("remove db (db-id): network default changes"), "{text}");
    assert!(text.contains("remove network shop_dev_main_default: its definition changed\n"), "{text}");
    assert!(text.contains("create db, migrate, web"), "{text}");
}

#[test]
fn a_changed_network_does_not_cost_anonymous_data() {
    let mut world = World::settled(stack());
    world.record.networks.insert("default".to_owned(), "another".to_owned());
    world.container("web").mounts = vec!["0a".repeat(32)];
    let decision = world.decide();
    assert!(decision.steps.is_empty());
    let expected = Refusal::NetworkChanged { network: "default".to_owned(), service: "web".to_owned() };
    assert_eq!(decision.refusals, [expected]);
}

#[test]
fn what_a_killed_recreate_left_is_healed() {
    let mut world = World::settled(stack());
    let mut left = world.container("web").clone();
    left.id = "left-id".to_owned();
    left.name = format!("0123456789ab_{}", left.name);
    left.status = Status::Created;
    left.labels.insert("com.docker.compose.replace".to_owned(), "web-id".to_owned());
    world.observed.containers.push(left.clone());
    assert_eq!(world.text(), "remove web (left-id): left over from an interrupted change\n");
    // The old one is gone already: the new one gets its name.
    world.observed.containers.retain(|c| c.id != "web-id");
    let text = world.text();
    assert!(text.starts_with("rename left-id to shop_dev_main-web-1"), "{text}");
    assert!(text.contains("start web: it was created and never started"), "{text}");
}

fn joined() -> serde_json::Value {
    json!({"services": {
        "web": {"image": "app", "ports": [{"target": 80, "published": "80"}]},
        "sidecar": {"image": "x", "network_mode": "service:web", "ports": []},
        "watcher": {"image": "x", "pid": "service:sidecar"},
        "files": {"image": "x", "volumes_from": ["web:ro"]},
        "other": {"image": "x"},
    }})
}

#[test]
fn who_stands_in_a_container_follows_it() {
    let mut world = World::settled(joined());
    assert_eq!(world.text(), "");
    world.record.services.get_mut("web").unwrap().digest = "other".to_owned();
    let text = world.text();
    let expected = [
        "create web: web: its definition changed",
        "recreate files, sidecar, watcher: files: the container of web, whose volumes it uses, is made anew; \
         sidecar: the container of web, whose network it uses, is made anew; \
         watcher: the container of sidecar, whose processes it uses, is made anew",
        "start web: its definition changed",
        "start files: the container of web, whose volumes it uses, is made anew",
        "start sidecar: the container of web, whose network it uses, is made anew",
        "start watcher: the container of sidecar, whose processes it uses, is made anew",
    ];
    assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), expected);
    assert_eq!(world.decide().settled, ["other".to_owned()].into());
    // One that changed too is made anew by Compose, after what it joins.
    world.record.services.get_mut("sidecar").unwrap().digest = "other".to_owned();
    let text = world.text();
    assert!(text.contains("create sidecar, web: ") && text.contains("recreate files, watcher: "), "{text}");
}

#[test]
fn who_stands_in_a_container_is_restarted_with_it() {
    let mut world = World::settled(joined());
    world.restart.insert("web".to_owned());
    let expected = "restart web: asked for
restart sidecar: the container of web, whose network it uses, is started again
restart watcher: the container of sidecar, whose processes it uses, is started again
";
    assert_eq!(world.text(), expected);
    world.restart.clear();
    world.container("web").status = Status::Exited(1);
    world.container("watcher").status = Status::Exited(137);
    let expected = "start watcher: it exited with 137
start web: it exited with 1
restart sidecar: the container of web, whose network it uses, is started again
";
    assert_eq!(world.text(), expected);
}

#[test]
fn a_restart_is_a_restart() {
    let mut world = World::settled(stack());
    world.restart.insert("web".to_owned());
    assert_eq!(world.text(), "restart web: asked for\n");
    world.restart.clear();
    world.record.services.get_mut("web").unwrap().delivery = "other".to_owned();
    assert_eq!(world.text(), "restart web: a secret or a file put into it changed\n");
}

#[test]
fn a_one_shot_that_still_runs_is_waited_for() {
    let mut world = World::settled(stack());
    world.container("migrate").status = Status::Running;
    assert_eq!(world.text(), "wait for migrate: it has not ended yet\n");
    assert!(!world.decide().settled.contains("migrate"));
}

#[test]
fn what_is_meant_to_stay_is_started_again_though_it_once_ended_well() {
    let mut world = World::settled(stack());
    world.record.services.get_mut("web").unwrap().completed = vec!["web-id".to_owned()];
    world.container("web").status = Status::Exited(0);
    assert_eq!(world.text(), "start web: it exited with 0\n");
    // A job that had ended before the stop has its work behind it.
    let mut world = World::settled(json!({"services": {"job": {"image": "app"}}}));
    world.record.services.get_mut("job").unwrap().completed = vec!["job-id".to_owned()];
    world.container("job").status = Status::Exited(0);
    world.stopped = true;
    assert_eq!(world.text(), "");
}

#[test]
fn what_is_paused_goes_on_before_it_is_changed() {
    let mut world = World::settled(stack());
    world.container("web").status = Status::Paused;
    world.restart.insert("web".to_owned());
    assert_eq!(world.text(), "unpause web: it is paused\nrestart web: asked for\n");
    world.restart.clear();
    world.record.services.get_mut("web").unwrap().digest = "other".to_owned();
    assert_eq!(
        world.text(),
        "unpause web: it is paused\nwrite tree: what is handed to Compose changed\n\
         create web: web: its definition changed\nstart web: its definition changed\n"
    );
}

#[test]
fn files_that_may_be_others_are_put_in_again_though_compose_keeps_the_container() {
    let mut world = World::settled(stack());
    let planned = world.plan.services.get_mut("web").unwrap();
    planned.deliveries.push(sidestack_topology::plan::Delivery {
        path: "/run/secrets/x".to_owned(),
        content: "x".to_owned(),
        mode: 0o444,
        uid: 0,
        gid: 0,
    });
    world.record.services.remove("web");
    assert!(world.text().ends_with("restart web: not known to be as planned\n"), "{}", world.text());
    world.container("web").status = Status::Created;
    assert!(world.text().ends_with("start web: not known to be as planned\n"), "{}", world.text());
}

#[test]
fn a_volume_begins_with_a_copy_once() {
    let mut world = World::settled(json!({
        "services": {"db": {"image": "pg", "volumes": [{"type": "volume", "source": "data", "target": "/data"}]}},
        "volumes": {"data": {}},
    }));
    world.plan.copies.insert("data".to_owned(), "theirs".to_owned());
    let name = world.plan.volumes["data"].name.clone().unwrap();
    let volume = crate::engine::Volume {
        name: name.clone(),
        labels: BTreeMap::new(),
        driver: "local".to_owned(),
        anonymous: false,
    };
    world.observed.volumes.clear();
    world.observed.containers.clear();
    world.record = Record::default();
    assert!(world.text().contains("copy volume theirs to data: it begins with a copy"), "{}", world.text());
    // What a killed copy left is made again, also by a partial plan; its container goes first.
    world.observed.volumes.push(volume);
    let mut left = World::settled(stack()).observed.containers[0].clone();
    left.service = None;
    world.observed.containers.push(left);
    world.partial = true;
    let text = world.text();
    let (gone, copied) = (text.find("remove  (").unwrap(), text.find("its copy was not finished").unwrap());
    assert!(gone < copied, "{text}");
    // One that was finished is never made again, whatever became of the record.
    world.copied.insert(name);
    assert!(!world.text().contains("copy volume"), "{}", world.text());
    // What the original is counts only while there is something to copy.
    world.observed.originals.insert("theirs".to_owned(), Original::Used("db".to_owned()));
    assert!(world.decide().refusals.is_empty());
    world.copied.clear();
    assert!(matches!(world.decide().refusals.as_slice(), [Refusal::InUse { .. }]));
    world.observed.originals.insert("theirs".to_owned(), Original::Absent);
    assert!(matches!(world.decide().refusals.as_slice(), [Refusal::Absent { .. }]));
}

#[test]
fn what_a_partial_plan_leaves_out_is_left_as_it_is() {
    let mut world = World::settled(stack());
    world.container("web").status = Status::Exited(1);
    let mut foreign = world.observed.containers[0].clone();
    foreign.id = "old-id".to_owned();
    foreign.service = Some("old".to_owned());
    world.observed.containers.push(foreign);
    world.observed.networks.push(Network {
        id: "old-net-id".to_owned(),
        name: "shop_dev_main_old".to_owned(),
        labels: BTreeMap::new(),
        subnets: Vec::new(),
        containers: None,
    });
    assert_eq!(
        world.text(),
        "remove old (old-id): no longer part of the stack\n\
         remove network shop_dev_main_old: no longer part of the stack\nstart web: it exited with 1\n"
    );
    world.plan.services.retain(|name, _| name == "db");
    world.partial = true;
    assert_eq!(world.text(), "");
    world.record.services.get_mut("db").unwrap().digest = "other".to_owned();
    assert_eq!(
        world.text(),
        "write tree: what is handed to Compose changed\ncreate db: db: its definition changed\n\
         start db: its definition changed\n"
    );
}
