//! The fake must itself be able to say no.

use futures_util::StreamExt as _;

use super::*;
use crate::engine::Engine as _;

const OURS: (&str, &str) = ("dev.sidestack.install", "abc");

fn engine() -> FakeEngine {
    let engine = FakeEngine::new();
    engine.add_container(FakeEngine::sample("c1", "p", "db", &[OURS]));
    engine.add_container(FakeEngine::sample("c2", "q", "web", &[("dev.sidestack.install", "other")]));
    engine
}

#[tokio::test(flavor = "current_thread")]
async fn lists_are_filtered_by_label_and_value() {
    let engine = engine();
    let ids = |list: Vec<Container>| list.into_iter().map(|c| c.id).collect::<Vec<_>>();
    assert_eq!(ids(engine.containers("dev.sidestack.install=abc").await.expect("a list")), ["c1"]);
    assert_eq!(ids(engine.containers("dev.sidestack.install").await.expect("a list")), ["c1", "c2"]);
    assert!(engine.containers("dev.sidestack.install=").await.expect("a list").is_empty());
    assert_eq!(engine.writes(), Vec::<String>::new());
}

#[tokio::test(flavor = "current_thread")]
async fn events_follow_what_happens_and_end_with_an_error() {
    let engine = engine();
    let mut events = engine.subscribe("dev.sidestack.install=abc").await.expect("a stream");
    engine.start("c1").await.expect("a start");
    engine.start("c1").await.expect("a second start");
    engine.start("c2").await.expect("another's start");
    engine.set_health("c1", Health::Healthy);
    engine.exit("c1", 3);
    engine.break_events();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event.map(|event| (event.container, event.kind)));
    }
    let c1 = |kind| Ok(("c1".to_owned(), kind));
    assert_eq!(
        seen,
        [c1(EventKind::Start), c1(EventKind::Health(Health::Healthy)), c1(EventKind::Die { code: 3 }), Err(lost())]
    );
    assert_eq!(engine.inspect("c1").await.expect("a detail").exit_code, 3);
}

#[tokio::test(flavor = "current_thread")]
#[should_panic(expected = "no test expects the call `stop c1 10`")]
async fn a_strict_engine_refuses_what_nobody_expects() {
    let engine = FakeEngine::strict();
    engine.add_container(FakeEngine::sample("c1", "p", "db", &[OURS]));
    engine.expect("start *");
    engine.start("c1").await.expect("expected");
    engine.assert_all_came();
    let _ = engine.stop("c1", Some(10)).await;
}

#[tokio::test(flavor = "current_thread")]
#[should_panic(expected = "calls that did not come")]
async fn a_strict_engine_misses_what_did_not_come() {
    let engine = FakeEngine::strict();
    engine.expect("start c1");
    engine.assert_all_came();
}

#[tokio::test(flavor = "current_thread")]
async fn a_failure_comes_once_and_changes_nothing() {
    let engine = engine();
    let taken = EngineError::PortTaken { port: Some(1), holder: "another process".to_owned(), message: String::new() };
    engine.fail_once("start c1", taken.clone());
    assert_eq!(engine.start("c1").await, Err(taken));
    assert_eq!(engine.inspect("c1").await.expect("a detail").status, Status::Created);
    assert_eq!(engine.start("c1").await, Ok(()));
}

#[tokio::test(flavor = "current_thread")]
async fn what_is_in_use_stays() {
    let engine = engine();
    engine.change("c1", |container| {
        container.mounts.push("data".to_owned());
        container.networks.insert("net".to_owned(), String::new());
    });
    let volume =
        Volume { name: "data".to_owned(), labels: BTreeMap::new(), driver: "local".to_owned(), anonymous: false };
    engine.add_volume(volume, 5);
    let network = Network {
        id: "n1".to_owned(),
        name: "net".to_owned(),
        labels: BTreeMap::new(),
        subnets: Vec::new(),
        containers: None,
    };
    engine.add_network(network);
    engine.start("c1").await.expect("a start");
    assert!(matches!(engine.remove_volume("data").await, Err(EngineError::Conflict { .. })));
    assert!(matches!(engine.remove_network("n1").await, Err(EngineError::Conflict { .. })));
    assert!(matches!(engine.remove("c1", false, false).await, Err(EngineError::Conflict { .. })));
    engine.remove("c1", true, true).await.expect("a forced removal");
    engine.remove("c1", true, true).await.expect("gone is done");
    engine.remove_volume("data").await.expect("free now");
    engine.remove_network("n1").await.expect("free now");
}
