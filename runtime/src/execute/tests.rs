//! Runs of steps against the engine in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use sidestack_topology::names::{RevisionNumber, Slot, Target};
use sidestack_topology::plan::{Delivery, Placement, Plan};
use sidestack_topology::planner::place::{INSTALL_LABEL, INSTANCE_LABEL};
use sidestack_topology::revision::Content;
use sidestack_topology::{planner, render};

use super::*;
use crate::engine::{EngineError, FakeEngine, Status};

struct Nobody;

impl Reporter for Nobody {
    fn report(&self, _: &Event) {}
}

fn plan(services: &serde_json::Value) -> Plan {
    let content = Content { model: Some(json!({ "services": services })), ..Content::default() };
    let draft = crate::revise::drafted(&content).unwrap();
    let placement = Placement {
        target: Target {
            workspace: "shop".parse().unwrap(),
            environment: "dev".parse().unwrap(),
            instance: "main".parse().unwrap(),
        },
        install: "store".to_owned(),
        instance_id: "one".to_owned(),
        generation: 1,
        revision: Some(RevisionNumber(1)),
        slot: Slot::new(1),
        subnet: Some("10.231.2.0/23".to_owned()),
        ports: draft.publishes.iter().enumerate().map(|(n, p)| (p.key(), n as u16)).collect(),
        networks: BTreeMap::from([("default".to_owned(), 0)]),
        checkout: "/tmp/shop".to_owned(),
        files: "/tmp/tree/files".to_owned(),
        borrowed: Default::default(),
        own_ports: Default::default(),
    };
    planner::place(&draft, &placement, &[]).0
}

/// An engine with a container `<service>-id` of each service, in this state.
fn engine(plan: &Plan, status: Status) -> FakeEngine {
    let fake = FakeEngine::new();
    for name in plan.services.keys() {
        let labels = [(INSTALL_LABEL, "store"), (INSTANCE_LABEL, "one")];
        let mut container = FakeEngine::sample(&format!("{name}-id"), &plan.project, name, &labels);
        container.status = status;
        fake.add_container(container);
    }
    fake
}

fn start(service: &str) -> Step {
    Step::Start { service: service.to_owned(), cause: "test".to_owned() }
}

/// Runs steps; `meanwhile` goes on beside it.
fn run(plan: &Plan, fake: &FakeEngine, steps: &[Step], limit: u64, meanwhile: impl Future<Output = ()>) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let lock = InstanceLock::acquire(&dir.path().join("lock"), "up", Duration::ZERO, &mut |_| {}).unwrap();
    let named: BTreeSet<&str> = steps.iter().filter_map(Step::scheduled).collect();
    let settled = plan.services.keys().filter(|name| !named.contains(name.as_str())).cloned().collect();
    let execution = Execution {
        engine: fake,
        compose: None,
        early: Default::default(),
        copying: &|_, _| Ok(()),
        environment: &BTreeMap::new(),
        install: "store",
        plan,
        rendered: &render::render(plan, &render::Images::default()),
        secrets: &Secrets::new(),
        masker: &Masker::default(),
        lock: &lock,
        tree: Path::new("/nonexistent"),
        reporter: &Nobody,
        began: Instant::now(),
        wait: true,
        timeout: Duration::from_millis(limit),
        settled: &settled,
        build: false,
        pull: false,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { futures_util::join!(execution.run(steps), meanwhile).0 })
}

async fn after(millis: u64, act: impl FnOnce()) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
    act();
}

fn message(outcome: &Outcome) -> String {
    outcome.failure.as_ref().map(ToString::to_string).unwrap_or_default()
}

#[test]
fn what_ends_with_0_at_once_is_not_ready_where_it_is_meant_to_stay() {
    let web = json!({"image": "app", "ports": [{"target": 80, "published": "80"}]});
    let job = json!({"image": "app"});
    let plan = plan(&json!({"web": web, "job": job}));
    for (name, expected) in [("web", "`web` failed: it ended with 0, though it is meant to stay"), ("job", "")] {
        let fake = engine(&plan, Status::Created);
        let outcome = run(&plan, &fake, &[start(name)], 5_000, after(50, || fake.exit(&format!("{name}-id"), 0)));
        assert_eq!(message(&outcome), expected);
        assert_eq!(outcome.completed.contains_key(name), name == "job");
    }
}

#[test]
fn an_end_is_seen_also_when_the_events_were_lost_and_the_next_subscription_fails() {
    let plan = plan(&json!({"web": {"image": "app", "ports": [{"target": 80, "published": "80"}]}}));
    let fake = engine(&plan, Status::Created);
    let lost = || EngineError::Unreachable { endpoint: "fake".to_owned(), cause: "x".to_owned() };
    let outcome = run(
        &plan,
        &fake,
        &[start("web")],
        5_000,
        after(50, || {
            fake.fail_once("subscribe*", lost());
            fake.break_events();
            fake.change("web-id", |container| container.status = Status::Exited(3));
        }),
    );
    assert_eq!(message(&outcome), "`web` failed: it exited with 3");
}

#[test]
fn the_limit_holds_and_the_subscription_is_tried_again_while_the_stream_is_gone() {
    let plan = plan(&json!({
        "job": {"image": "app"},
        "web": {"image": "app", "depends_on": {"job": {"condition": "service_completed_successfully"}}},
    }));
    let fake = engine(&plan, Status::Created);
    let lost = || EngineError::Unreachable { endpoint: "fake".to_owned(), cause: "x".to_owned() };
    let began = Instant::now();
    let outcome = run(
        &plan,
        &fake,
        &[start("job"), start("web")],
        1_300,
        after(50, || {
            fake.fail_once("subscribe*", lost());
            fake.break_events();
        }),
    );
    assert_eq!(outcome.failure.as_ref().map(|error| error.code), Some("timed-out"), "{}", message(&outcome));
    assert!(began.elapsed() < Duration::from_millis(2_500), "{:?}", began.elapsed());
    let tries = fake.calls().iter().filter(|call| call.starts_with("subscribe")).count();
    assert_eq!(tries, 3, "the first, the one that failed, and the one after it");
}

#[test]
fn files_count_as_put_in_only_where_they_were() {
    let mut plan = plan(&json!({"db": {"image": "app"}, "web": {"image": "app"}}));
    for planned in plan.services.values_mut() {
        let path = "/run/secrets/x".to_owned();
        planned.deliveries.push(Delivery { path, content: "value".to_owned(), mode: 0o444, uid: 0, gid: 0 });
    }
    let fake = engine(&plan, Status::Running);
    let restart = |service: &str| Step::Restart { service: service.to_owned(), cause: "test".to_owned() };
    fake.fail_once("put_archive web-id*", EngineError::Conflict { what: "x".to_owned(), message: "x".to_owned() });
    let outcome = run(&plan, &fake, &[restart("db"), restart("web")], 5_000, async {});
    assert!(outcome.failure.is_some());
    assert_eq!(outcome.delivered, BTreeSet::from(["db".to_owned()]));
    assert_eq!(outcome.started, BTreeSet::from(["db-id".to_owned()]));
    // What runs and is only started gets nothing.
    let fake = engine(&plan, Status::Running);
    let outcome = run(&plan, &fake, &[start("db")], 5_000, async {});
    assert!(outcome.failure.is_none() && outcome.delivered.is_empty() && outcome.reached.contains("db"));
}

#[test]
fn a_running_container_gets_the_policy_that_a_killed_stop_took() {
    let plan = plan(&json!({"web": {"image": "app", "restart": "on-failure:3"}}));
    let fake = engine(&plan, Status::Running);
    let steps = [Step::Await { service: "web".to_owned(), cause: "test".to_owned() }];
    let outcome = run(&plan, &fake, &steps, 5_000, async {});
    assert_eq!(message(&outcome), "");
    assert_eq!(fake.writes(), ["set_restart_policy web-id on-failure:3"]);
}

#[test]
fn a_one_shot_that_runs_is_waited_for_to_its_end() {
    let plan = plan(&json!({
        "job": {"image": "app"},
        "web": {"image": "app", "depends_on": {"job": {"condition": "service_completed_successfully"}}},
    }));
    let fake = engine(&plan, Status::Created);
    fake.change("job-id", |container| container.status = Status::Running);
    let steps = [Step::Await { service: "job".to_owned(), cause: "test".to_owned() }, start("web")];
    let outcome = run(
        &plan,
        &fake,
        &steps,
        5_000,
        after(600, || {
            assert!(fake.writes().is_empty(), "{:?}", fake.writes());
            fake.exit("job-id", 0);
        }),
    );
    assert_eq!(message(&outcome), "");
    assert_eq!(fake.writes(), ["start web-id"]);
}

#[test]
fn what_ended_does_not_stand_in_for_what_must_be_healthy() {
    let plan = plan(&json!({
        "db": {"image": "app"},
        "web": {"image": "app", "depends_on": {"db": {"condition": "service_healthy"}}},
    }));
    let fake = engine(&plan, Status::Created);
    let outcome = run(&plan, &fake, &[start("db"), start("web")], 5_000, after(50, || fake.exit("db-id", 0)));
    assert_eq!(message(&outcome), "`db` failed: it ended with 0, though it is meant to stay");
    // One that had ended before, and that nobody touches.
    let fake = engine(&plan, Status::Created);
    fake.change("db-id", |container| container.status = Status::Exited(0));
    let outcome = run(&plan, &fake, &[start("web")], 5_000, async {});
    assert_eq!(message(&outcome), "`web` was not started: what it needs healthy has ended");
    assert!(fake.writes().is_empty(), "{:?}", fake.writes());
}

#[test]
fn what_ends_again_and_again_is_not_ready_between_two_lives() {
    let plan = plan(&json!({"web": {"image": "app", "restart": "on-failure"}}));
    let fake = engine(&plan, Status::Created);
    let outcome = run(&plan, &fake, &[start("web")], 5_000, async {
        // It ends before anybody looks, and Docker takes longer than the watch to start it again.
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            fake.change("web-id", |container| container.status = Status::Restarting);
            fake.emit("web-id", crate::engine::EventKind::Die { code: 3 });
            tokio::time::sleep(Duration::from_millis(400)).await;
            fake.change("web-id", |container| container.status = Status::Running);
            fake.emit("web-id", crate::engine::EventKind::Start);
        }
    });
    assert_eq!(message(&outcome), "`web` failed: it exited with 3, again and again");
}

#[test]
fn a_port_that_its_last_container_still_lets_go_of_is_waited_for() {
    let plan = plan(&json!({"web": {"image": "app"}}));
    let taken = || EngineError::PortTaken { port: Some(80), holder: "a process".to_owned(), message: String::new() };
    let starts = |fake: &FakeEngine| fake.writes().iter().filter(|call| call.starts_with("start ")).count();
    let fake = engine(&plan, Status::Created);
    fake.fail_once("start web-id", taken());
    fake.fail_once("start web-id", taken());
    let outcome = run(&plan, &fake, &[start("web")], 5_000, std::future::ready(()));
    assert_eq!((message(&outcome).as_str(), starts(&fake)), ("", 3));
    // One that stays taken is told.
    let fake = engine(&plan, Status::Created);
    for _ in 0..20 {
        fake.fail_once("start web-id", taken());
    }
    let outcome = run(&plan, &fake, &[start("web")], 5_000, std::future::ready(()));
    assert!(matches!(outcome.failure.unwrap().engine.as_deref(), Some(EngineError::PortTaken { .. })));
    assert_eq!(starts(&fake), 5);
}
