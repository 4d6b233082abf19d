//! What was done and what is under way: applied digests, history, intents, readiness, memos.

mod common;

use std::collections::BTreeSet;

use common::{Fixture, fixture};
use jiff::Timestamp;
use rusqlite::Connection;
use sidestack_state::{Applied, Outcome, Transition};
use sidestack_topology::names::RevisionNumber;

#[test]
fn the_last_good_one_outlives_many_failures() {
    let fixture = fixture();
    let store = &fixture.store;
    let id = fixture.instance("main");
    assert_eq!(store.last_applied(id).unwrap(), None);
    let applied = |number: u32, outcome| Applied {
        digest: format!("d{number}"),
        revision: RevisionNumber(number),
        at: Timestamp::now(),
        outcome,
        record: "{\"x\":1}".to_owned(),
    };
    let good = applied(1, Outcome::Ok);
    store.record_applied(id, &good).unwrap();
    for number in 2..60 {
        store.record_applied(id, &applied(number, Outcome::Failed("db did not start".to_owned()))).unwrap();
    }
    let last = applied(60, Outcome::Refused("data of postgres 16".to_owned()));
    store.record_applied(id, &last).unwrap();
    assert_eq!(store.last_applied(id).unwrap(), Some(last));
    assert_eq!(store.last_good(id).unwrap(), Some(good));
    let raw = Connection::open(fixture.home.path().join("store.db")).unwrap();
    assert_eq!(raw.query_row::<i64, _, _>("SELECT count(*) FROM applied", [], |row| row.get(0)).unwrap(), 21);
}

#[test]
fn one_query_tells_the_last_one_of_every_instance() {
    let fixture = fixture();
    let store = &fixture.store;
    let ids = ["main", "never", "broken"].map(|name| fixture.instance(name));
    let applied = |number: u32, outcome| Applied {
        digest: format!("d{number}"),
        revision: RevisionNumber(number),
        at: Timestamp::now(),
        outcome,
        record: "{}".to_owned(),
    };
    let failed = || Outcome::Failed("no".to_owned());
    store.record_applied(ids[0], &applied(1, Outcome::Ok)).unwrap();
    store.record_applied(ids[2], &applied(1, failed())).unwrap();
    store.record_applied(ids[0], &applied(2, failed())).unwrap();
    let all = store.last_applied_of_all().unwrap();
    let told: Vec<_> = all.iter().map(|(id, (last, was_good))| (*id, last.revision.0, *was_good)).collect();
    assert_eq!(told, [(ids[0], 2, true), (ids[2], 1, false)]);
}

#[test]
fn history_is_newest_first_and_bounded() {
    let fixture = fixture();
    let id = fixture.instance("main");
    let line = |number: u32| Transition {
        at: Timestamp::now(),
        verb: format!("v{number}"),
        cause: "c".to_owned(),
        outcome: "ok".to_owned(),
        detail: String::new(),
    };
    let done = fixture.store.atomically(|store| (0..230).try_for_each(|at| store.add_transition(id, &line(at))));
    done.unwrap();
    let verbs = |limit| -> Vec<String> {
        fixture.store.history_of(id, limit).unwrap().into_iter().map(|one| one.verb).collect()
    };
    assert_eq!(verbs(2), ["v229", "v228"]);
    assert_eq!(verbs(1000).len(), 200);
}

#[test]
fn intents_stay_until_they_are_cleared() {
    let fixture = fixture();
    let store = &fixture.store;
    let (a, b) = (fixture.instance("a"), fixture.instance("b"));
    let first = store.begin_intent(a, "up", "r1").unwrap();
    let second = store.begin_intent(b, "rm", "").unwrap();
    assert_eq!(store.intents().unwrap().iter().map(|one| one.id).collect::<Vec<_>>(), [first, second]);
    assert_eq!(store.intents_of(a).unwrap()[0].verb, "up");
    assert!(store.clear_intent(first).unwrap() && !store.clear_intent(first).unwrap());
    store.remove_instance(b, false).unwrap();
    assert_eq!(store.instances_of(fixture.workspace.id).unwrap().len(), 1);
    assert!(store.intents().unwrap().is_empty());
    assert!(store.begin_intent(a, "up", "").unwrap() > second, "an id never comes again");
}

#[test]
fn readiness_holds_for_one_start() {
    let Fixture { store, home: _home, .. } = fixture();
    assert!(store.record_ready("c1", "2026-01-01T00:00:00.1Z").unwrap());
    assert!(!store.record_ready("c1", "2026-01-01T00:00:00.1Z").unwrap());
    assert!(store.record_ready("c1", "2026-01-01T00:00:00.2Z").unwrap());
    store.record_ready("c2", "x").unwrap();
    store.record_ready("c3", "x").unwrap();
    assert_eq!(store.ready(&["c1", "nobody"]).unwrap()["c1"], "2026-01-01T00:00:00.2Z");
    assert!(store.forget_ready("c3").unwrap() && !store.forget_ready("c3").unwrap());
    assert_eq!(store.prune_ready(&BTreeSet::from(["c1".to_owned()])).unwrap(), 1);
    assert_eq!(store.all_ready().unwrap().into_keys().collect::<Vec<_>>(), ["c1"]);
}

#[test]
fn a_memo_is_kept_changed_and_dropped_by_prefix() {
    let Fixture { store, home: _home, .. } = fixture();
    assert_eq!(store.recall("fast:1").unwrap(), None);
    assert!(store.remember("fast:1", "a").unwrap() && !store.remember("fast:1", "a").unwrap());
    assert!(store.remember("fast:1", "b").unwrap());
    store.remember("fast:2", "c").unwrap();
    store.remember("f%", "d").unwrap();
    assert_eq!(store.recall("fast:1").unwrap().as_deref(), Some("b"));
    assert_eq!(store.forget("fast:").unwrap(), 2);
    assert_eq!(store.recall("f%").unwrap().as_deref(), Some("d"));
}
