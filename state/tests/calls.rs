//! What each call promises: idempotence above all, and errors that say what is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use rusqlite::Connection;
use sidestack_state::{Applied, Desired, Outcome, Scope, Store, StoreError, VariableValue};
use sidestack_topology::names::{RevisionNumber, Slot};

mod common;
use common::{Fixture, fixture};

fn literal(text: &str) -> VariableValue {
    VariableValue::Literal(text.to_owned())
}

#[test]
fn a_workspace_is_found_by_identity_and_a_taken_name_gets_a_hash() {
    let Fixture { store, workspace, home: _home, .. } = fixture();
    assert_eq!(store.ensure_workspace("repo:/shop", &"renamed".parse().unwrap()).unwrap(), workspace);
    let second = store.ensure_workspace("repo:/elsewhere", &"shop".parse().unwrap()).unwrap();
    let hash = sidestack_state::digest_of("repo:/elsewhere");
    assert_eq!(second.name.as_str(), format!("shop-{}", &hash[..4]));
    let long = "a".repeat(26) + "-bcdef";
    for identity in ["one", "two", "three"] {
        let name = store.ensure_workspace(identity, &long.parse().unwrap()).unwrap().name;
        assert!(name.as_str().len() <= 32 && !name.as_str().contains("--"), "{name}");
    }
    assert_eq!(store.workspaces().unwrap().len(), 5);
    assert_eq!(store.workspace(&second.name).unwrap(), second);
    let missing = store.workspace(&"nobody".parse().unwrap()).unwrap_err();
    assert_eq!(missing.to_string(), "no workspace `nobody` in the store");
    assert!(store.move_workspace(second.id, "repo:/new").unwrap());
    assert!(!store.move_workspace(second.id, "repo:/new").unwrap());
    assert!(matches!(store.move_workspace(second.id, "repo:/shop"), Err(StoreError::Exists { .. })));
    assert_eq!(store.workspace_by_identity("repo:/new").unwrap().unwrap().name, second.name);
}

#[test]
fn a_missing_parent_is_never_called_a_duplicate() {
    let Fixture { store, home: _home, .. } = fixture();
    let nothing = 4711;
    let name = "main".parse().unwrap();
    let applied = Applied {
        digest: "d".to_owned(),
        revision: RevisionNumber(1),
        at: Timestamp::now(),
        outcome: Outcome::Ok,
        record: "{}".to_owned(),
    };
    let failures = [
        store.ensure_environment(nothing, &"dev".parse().unwrap()).map(|_| ()),
        store.commit_revision(nothing, "{}", None).map(|_| ()),
        store.create_instance(nothing, &name, None, false).map(|_| ()),
        store.set_variable(Scope::Workspace(nothing), "K", literal("v")).map(|_| ()),
        store.set_variable(Scope::Instance(nothing), "K", literal("v")).map(|_| ()),
        store.set_variable(Scope::Revision(nothing, RevisionNumber(1)), "K", literal("v")).map(|_| ()),
        store.lease_slot(nothing, &BTreeSet::new(), "10.231").map(|_| ()),
        store.offsets(nothing, "port", &["a".to_owned()], 100).map(|_| ()),
        store.begin_intent(nothing, "up", "").map(|_| ()),
        store.record_applied(nothing, &applied),
        store.add_pin(nothing, "db", "i", "x").map(|_| ()),
        store.set_desired(nothing, Desired::Running).map(|_| ()),
        store.set_revision(nothing, RevisionNumber(1)).map(|_| ()),
        store.remove_instance(nothing, true),
    ];
    for (at, failure) in failures.into_iter().enumerate() {
        assert!(matches!(failure, Err(StoreError::NotFound { .. })), "call {at}: {failure:?}");
    }
    store.verify().unwrap();
}

#[test]
fn variables_stand_in_layers_and_setting_twice_changes_nothing() {
    let fixture = fixture();
    let store = &fixture.store;
    let (revision, _) = store.commit_revision(fixture.environment, "{}", None).unwrap();
    let instance = fixture.instance("main");
    let scopes = [
        Scope::Workspace(fixture.workspace.id),
        Scope::Environment(fixture.environment),
        Scope::Revision(fixture.environment, revision.number),
        Scope::Instance(instance),
    ];
    for (at, scope) in scopes.into_iter().enumerate() {
        assert!(store.set_variable(scope, "K", literal(&at.to_string())).unwrap());
        assert!(!store.set_variable(scope, "K", literal(&at.to_string())).unwrap());
    }
    for (at, scope) in scopes.into_iter().enumerate() {
        assert_eq!(store.variables(scope).unwrap(), BTreeMap::from([("K".to_owned(), literal(&at.to_string()))]));
    }
    let secret = VariableValue::Secret("keychain:shop/stripe".to_owned());
    assert!(store.set_variable(scopes[0], "K", VariableValue::Secret("0".to_owned())).unwrap());
    assert!(store.set_variable(scopes[0], "K", secret.clone()).unwrap());
    assert_eq!(store.variables(scopes[0]).unwrap()["K"], secret);
    assert!(store.unset_variable(scopes[0], "K").unwrap());
    assert!(!store.unset_variable(scopes[0], "K").unwrap());
    assert_eq!(store.variables(scopes[1]).unwrap().len(), 1);
    for bad in ["", "A=B", "A B", "A\nB", "A\0"] {
        let refused = store.set_variable(scopes[0], bad, literal("v"));
        assert!(matches!(refused, Err(StoreError::Invalid { .. })), "{bad:?}");
    }
    // An instance's own go with it, also when its data stays.
    store.remove_instance(instance, true).unwrap();
    let again = fixture.instance("main");
    assert!(store.variables(Scope::Instance(again)).unwrap().is_empty());
}

#[test]
fn the_same_content_is_the_same_revision() {
    let fixture = fixture();
    let store = &fixture.store;
    let (first, new) = store.commit_revision(fixture.environment, "{\"a\":1}", Some("one")).unwrap();
    assert!(new && first.number == RevisionNumber(1));
    let (second, new) = store.commit_revision(fixture.environment, "{\"a\":2}", None).unwrap();
    assert!(new && second.number == RevisionNumber(2));
    let (again, new) = store.commit_revision(fixture.environment, "{\"a\":1}", Some("other")).unwrap();
    assert!(!new);
    assert_eq!(again, first);
    assert_eq!(store.revision(fixture.environment, RevisionNumber(2)).unwrap(), second);
    // Numbers are counted per environment.
    let test = store.ensure_environment(fixture.workspace.id, &"test".parse().unwrap()).unwrap();
    assert_eq!(store.commit_revision(test.id, "{\"a\":2}", None).unwrap().0.number, RevisionNumber(1));
    let missing = store.revision(test.id, RevisionNumber(2)).unwrap_err();
    assert_eq!(missing.to_string(), "no revision `r2` in the store");
}

#[test]
fn oldest_first_is_stable_and_times_keep_their_fractions() {
    let fixture = fixture();
    let names: Vec<String> = (0..50).map(|at| format!("n{}", (at * 37) % 50)).collect();
    let ids: Vec<i64> = names.iter().map(|name| fixture.instance(name)).collect();
    let listed = fixture.store.instances().unwrap();
    assert_eq!(listed.iter().map(|one| one.id).collect::<Vec<_>>(), ids);
    assert!(listed.iter().any(|one| one.created.subsec_nanosecond() % 1_000_000_000 != 0));
    let read_again = fixture.store.instance_by_id(ids[7]).unwrap();
    assert_eq!(read_again, listed[7]);
}

#[test]
fn an_instance_that_kept_its_data_comes_back_as_the_same() {
    let fixture = fixture();
    let (store, environment) = (&fixture.store, fixture.environment);
    let name = "main".parse().unwrap();
    let folder = Path::new("/src/shop");
    let first = store.create_instance(environment, &name, Some(folder), false).unwrap();
    assert_eq!((first.generation, first.revived, first.desired), (1, false, Desired::Stopped));
    assert_eq!(first.uid.len(), 16);
    assert_eq!(first.target.to_string(), "shop/dev/main");
    let taken = store.create_instance(environment, &name, None, false).unwrap_err();
    assert_eq!(taken.to_string(), "instance `main` already exists");
    store.lease_slot(first.id, &BTreeSet::new(), "10.231").unwrap();

    store.remove_instance(first.id, true).unwrap();
    assert!(store.leases().unwrap().is_empty());
    assert_eq!(store.tombstone(environment, &name).unwrap().unwrap().uid, first.uid);
    assert_eq!(store.tombstones().unwrap()[0].0, first.target);
    let second = store.create_instance(environment, &name, Some(folder), false).unwrap();
    assert!(second.revived && second.uid == first.uid && second.id != first.id);
    assert!(store.tombstone(environment, &name).unwrap().is_none());

    store.remove_instance(second.id, true).unwrap();
    let fresh = store.create_instance_fresh(environment, &name, None, false).unwrap();
    assert_eq!((fresh.generation, fresh.revived), (2, false));
    assert_ne!(fresh.uid, first.uid);
    assert!(store.tombstone(environment, &name).unwrap().is_none());

    store.remove_instance(fresh.id, true).unwrap();
    store.remove_instance(store.create_instance(environment, &name, None, false).unwrap().id, false).unwrap();
    assert!(store.tombstone(environment, &name).unwrap().is_none());
    assert!(!store.forget_tombstone(environment, &name).unwrap());
}

#[test]
fn kept_data_keeps_the_record_of_what_wrote_it() {
    let fixture = fixture();
    let (store, environment) = (&fixture.store, fixture.environment);
    store.commit_revision(environment, "{}", None).unwrap();
    let name = "main".parse().unwrap();
    let make = || store.create_instance(environment, &name, None, false).unwrap().id;
    let applied = |record: &str| Applied {
        digest: "d".repeat(64),
        revision: RevisionNumber(1),
        at: Timestamp::now(),
        outcome: Outcome::Ok,
        record: record.to_owned(),
    };
    let first = make();
    assert_eq!(store.inherited_record(first).unwrap(), None);
    store.record_applied(first, &applied("old")).unwrap();
    store.record_applied(first, &applied("17")).unwrap();
    store.remove_instance(first, true).unwrap();

    // Also past one that was refused before it was ever applied.
    let refused = make();
    assert_eq!(store.inherited_record(refused).unwrap().as_deref(), Some("17"));
    assert!(store.last_applied(refused).unwrap().is_none());
    store.remove_instance(refused, true).unwrap();
    let third = make();
    assert_eq!(store.inherited_record(third).unwrap().as_deref(), Some("17"));
    // What it did itself counts for more.
    store.record_applied(third, &applied("18")).unwrap();
    store.remove_instance(third, true).unwrap();
    assert_eq!(store.inherited_record(make()).unwrap().as_deref(), Some("18"));

    // Without the data there is nothing to know, and a fresh start has other data.
    let last = store.instance(environment, &name).unwrap().unwrap().id;
    store.remove_instance(last, true).unwrap();
    let fresh = store.create_instance_fresh(environment, &name, None, false).unwrap().id;
    assert_eq!(store.inherited_record(fresh).unwrap(), None);
    store.record_applied(fresh, &applied("19")).unwrap();
    store.remove_instance(fresh, false).unwrap();
    assert_eq!(store.inherited_record(make()).unwrap(), None);
    assert!(store.inherited_record(999).is_err());
}

#[test]
fn an_instance_keeps_what_is_set_and_setting_twice_changes_nothing() {
    let fixture = fixture();
    let store = &fixture.store;
    let id = fixture.instance("main");
    let (revision, _) = store.commit_revision(fixture.environment, "{}", None).unwrap();
    let folder = Path::new("/src/shop");
    let sources = ["mine".to_owned(), "team \"x\"".to_owned()];
    for expected in [true, false] {
        assert_eq!(store.set_revision(id, revision.number).unwrap(), expected);
        assert_eq!(store.set_desired(id, Desired::Running).unwrap(), expected);
        assert_eq!(store.set_checkout(id, Some(folder)).unwrap(), expected);
        assert_eq!(store.set_daemon(id, Some("daemon-1")).unwrap(), expected);
        assert_eq!(store.set_owner(id, Some("run 1")).unwrap(), expected);
        assert_eq!(store.set_pinned(id, true).unwrap(), expected);
        assert_eq!(store.set_sources(id, &sources).unwrap(), expected);
    }
    let instance = store.instance_by_id(id).unwrap();
    assert_eq!(instance.revision, Some(revision.number));
    assert_eq!(instance.checkout.as_deref(), Some(folder));
    assert_eq!((instance.daemon.as_deref(), instance.owner.as_deref()), (Some("daemon-1"), Some("run 1")));
    assert_eq!((instance.desired, instance.pinned), (Desired::Running, true));
    assert_eq!(instance.sources, sources);
    let missing = store.set_revision(id, RevisionNumber(9)).unwrap_err();
    assert_eq!(missing.to_string(), "no revision `r9` in the store");
    // A pinned instance in a folder is not the folder's own.
    assert!(store.instance_by_checkout(fixture.environment, folder).unwrap().is_none());
    store.set_pinned(id, false).unwrap();
    assert_eq!(store.instance_by_checkout(fixture.environment, folder).unwrap().unwrap().id, id);
    assert_eq!(store.instances_of(fixture.workspace.id).unwrap().len(), 1);
    assert!(store.instances_of(fixture.workspace.id + 1).unwrap().is_empty());
}

#[cfg(unix)]
#[test]
fn a_folder_that_is_no_utf8_is_found_again() {
    use std::os::unix::ffi::OsStrExt;
    let fixture = fixture();
    let folder = Path::new(std::ffi::OsStr::from_bytes(b"/src/caf\xe9"));
    let made = fixture.store.create_instance(fixture.environment, &"x".parse().unwrap(), Some(folder), false).unwrap();
    assert_eq!(made.checkout.as_deref(), Some(folder));
    assert_eq!(fixture.store.instance_by_checkout(fixture.environment, folder).unwrap(), Some(made));
}

#[test]
fn slots_are_the_lowest_free_and_kept_until_released() {
    let fixture = fixture();
    let store = &fixture.store;
    let slot = |number| Slot::new(number).unwrap();
    let (a, b, c) = (fixture.instance("a"), fixture.instance("b"), fixture.instance("c"));
    let none = BTreeSet::new();
    assert!(store.instance_by_id(a).unwrap().slot.is_none());
    let lease = store.lease_slot(a, &none, "10.231").unwrap();
    assert_eq!((lease.slot, lease.subnet.as_str()), (slot(0), "10.231.0.0/23"));
    assert_eq!(store.lease_slot(b, &BTreeSet::from([slot(1), slot(2)]), "10.231").unwrap().slot, slot(3));
    assert_eq!(store.lease_slot(c, &none, "172.20").unwrap().subnet, "172.20.2.0/23");
    // Kept as it is, whatever is excluded and whichever range is in use by now.
    assert_eq!(store.lease_slot(a, &BTreeSet::from([slot(0)]), "10.9").unwrap(), lease);
    assert_eq!(store.instance_by_id(a).unwrap().slot, Some(lease));
    assert!(store.release_slot(a).unwrap() && !store.release_slot(a).unwrap());
    assert_eq!(store.leases().unwrap().iter().map(|(slot, _)| slot.number()).collect::<Vec<_>>(), [1, 3]);
    let all: BTreeSet<Slot> = Slot::all().collect();
    let exhausted = store.lease_slot(a, &all, "10.231").unwrap_err();
    assert!(matches!(exhausted, StoreError::SlotsExhausted { leased: 2, excluded: 127 }), "{exhausted}");
    for bad in ["", "10", "10.256", "10.1.2", "010.1", "10.+1", "ten.one"] {
        assert!(matches!(store.lease_slot(a, &none, bad), Err(StoreError::Invalid { .. })), "{bad}");
        assert!(store.set_address_range(bad).is_err());
    }
    assert_eq!(store.address_range().unwrap(), None);
    store.set_address_range("10.231").unwrap();
    store.set_address_range("10.232").unwrap();
    assert_eq!(store.address_range().unwrap().as_deref(), Some("10.232"));
}

#[test]
fn reading_never_leases() {
    let fixture = fixture();
    let id = fixture.instance("a");
    let store = &fixture.store;
    let writes = || {
        let raw = Connection::open(fixture.home.path().join("store.db")).unwrap();
        let rows = "SELECT (SELECT count(*) FROM lease) + (SELECT count(*) FROM offset_of)";
        raw.query_row::<i64, _, _>(rows, [], |row| row.get(0)).unwrap()
    };
    store.instances().unwrap();
    store.instance_by_id(id).unwrap();
    store.leases().unwrap();
    store.known_offsets(fixture.environment, "port").unwrap();
    store.offsets(fixture.environment, "port", &[], 100).unwrap();
    assert_eq!(writes(), 0);
}

#[test]
fn a_quarantine_ends_by_itself() {
    let Fixture { store, home: _home, .. } = fixture();
    let now = Timestamp::now();
    store.quarantine_port(20_001, now + SignedDuration::from_secs(60)).unwrap();
    store.quarantine_port(20_002, now - SignedDuration::from_secs(1)).unwrap();
    store.quarantine_port(20_001, now - SignedDuration::from_secs(9)).unwrap();
    assert_eq!(store.quarantined().unwrap(), BTreeSet::from([20_001]));
}

#[test]
fn offsets_are_all_given_or_none() {
    let fixture = fixture();
    let store = &fixture.store;
    let keys = |list: &[&str]| list.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    store.offsets(fixture.environment, "port", &keys(&["db 5432", "web 80"]), 3).unwrap();
    let refused = store.offsets(fixture.environment, "port", &keys(&["a", "b"]), 3).unwrap_err();
    assert!(matches!(&refused, StoreError::OffsetsExhausted { key, limit: 3, .. } if key == "b"), "{refused}");
    assert_eq!(store.known_offsets(fixture.environment, "port").unwrap().len(), 2);
    // Another kind and another environment count on their own.
    assert_eq!(store.offsets(fixture.environment, "network", &keys(&["x"]), 3).unwrap()["x"], 0);
    let test = store.ensure_environment(fixture.workspace.id, &"test".parse().unwrap()).unwrap();
    assert_eq!(store.offsets(test.id, "port", &keys(&["web 80"]), 3).unwrap()["web 80"], 0);
}

#[test]
fn wide_keys_have_their_numbers_side_by_side() {
    let fixture = fixture();
    let (store, environment) = (&fixture.store, fixture.environment);
    let wide = |list: &[(&str, u16)]| list.iter().map(|(key, width)| ((*key).to_owned(), *width)).collect::<Vec<_>>();
    store.offsets(environment, "port", &["a".to_owned()], 10).unwrap();
    let given = store.wide_offsets(environment, "port", &wide(&[("web*3", 3), ("b", 1), ("web*4", 4)]), 10).unwrap();
    assert_eq!((given["web*3"], given["b"], given["web*4"]), (1, 4, 5));
    let refused = store.wide_offsets(environment, "port", &wide(&[("c", 1), ("d", 1)]), 10).unwrap_err();
    assert!(matches!(&refused, StoreError::OffsetsExhausted { key, .. } if key == "d"), "{refused}");
    assert_eq!(store.wide_offsets(environment, "port", &wide(&[("c", 1)]), 10).unwrap()["c"], 9);
}

#[test]
fn several_writes_are_one_and_a_failed_one_inside_is_undone_alone() {
    let Fixture { store, workspace, home: _home, .. } = fixture();
    let scope = Scope::Workspace(workspace.id);
    let undone = store.atomically(|store| {
        store.set_variable(scope, "A", literal("1"))?;
        store.set_variable(Scope::Workspace(99), "B", literal("1")).map(|_| ())
    });
    assert!(matches!(undone, Err(StoreError::NotFound { .. })));
    assert!(store.variables(scope).unwrap().is_empty());
    let kept = store.atomically(|store| {
        store.set_variable(scope, "A", literal("1"))?;
        assert!(store.set_variable(Scope::Workspace(99), "B", literal("1")).is_err());
        store.atomically(|store| store.set_variable(scope, "C", literal("1")))
    });
    assert!(kept.unwrap());
    assert_eq!(store.variables(scope).unwrap().into_keys().collect::<Vec<_>>(), ["A", "C"]);
}

#[test]
fn a_snapshot_sees_one_moment() {
    let Fixture { store, workspace, home, .. } = fixture();
    let other = Store::open(home.path()).unwrap();
    let scope = Scope::Workspace(workspace.id);
    let seen = store.snapshot(|store| {
        let before = store.variables(scope)?.len();
        other.set_variable(scope, "A", literal("1"))?;
        Ok::<_, StoreError>((before, store.variables(scope)?.len()))
    });
    assert_eq!(seen.unwrap(), (0, 0));
    assert_eq!(store.variables(scope).unwrap().len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Whatever is asked for in whatever order: no offset is given twice, and none ever changes.
    #[test]
    fn offsets_never_change_and_never_meet(asks in prop::collection::vec(prop::collection::vec(0u8..40, 0..8), 1..8)) {
        let fixture = fixture();
        let mut known = BTreeMap::new();
        for ask in asks {
            let keys: Vec<String> = ask.iter().map(|key| format!("service {key}")).collect();
            let given = fixture.store.offsets(fixture.environment, "port", &keys, 100).unwrap();
            prop_assert_eq!(given.keys().collect::<BTreeSet<_>>(), keys.iter().collect::<BTreeSet<_>>());
            for (key, offset) in given {
                prop_assert_eq!(*known.entry(key).or_insert(offset), offset);
            }
            prop_assert_eq!(&fixture.store.known_offsets(fixture.environment, "port").unwrap(), &known);
            let distinct: BTreeSet<u16> = known.values().copied().collect();
            prop_assert_eq!(distinct, (0..u16::try_from(known.len()).unwrap()).collect::<BTreeSet<_>>());
        }
    }
}
