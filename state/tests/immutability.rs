//! Revisions, sightings and pins hold against any SQL; they go only with their environment.

use std::path::Path;

use rusqlite::Connection;
use sidestack_state::{Sighting, Store, StoreError, digest_of};

struct Fixture {
    home: tempfile::TempDir,
    store: Store,
    workspace: i64,
    environment: i64,
}

fn fixture() -> Fixture {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    for name in ["shop", "other"] {
        let workspace = store.ensure_workspace(&format!("repo:/{name}"), &name.parse().unwrap()).unwrap();
        for environment in ["dev", "test"] {
            let environment = store.ensure_environment(workspace.id, &environment.parse().unwrap()).unwrap();
            let (revision, new) = store.commit_revision(environment.id, "{\"a\":1}", Some("first")).unwrap();
            assert!(new);
            store.add_pin(revision.id, "db", "postgres:17", "sha256:aa").unwrap();
            store.add_sighting(revision.id, &sighting()).unwrap();
        }
    }
    let workspace = store.workspace(&"shop".parse().unwrap()).unwrap().id;
    let environment = store.environment(workspace, &"dev".parse().unwrap()).unwrap().id;
    Fixture { home, store, workspace, environment }
}

fn sighting() -> Sighting {
    Sighting {
        branch: Some("main".to_owned()),
        commit: Some("c0ffee".to_owned()),
        dirty: Some(false),
        folder: "/src/shop".into(),
        seen: "2026-01-02T03:04:05.678901234Z".parse().unwrap(),
        files: Some("{}".to_owned()),
    }
}

/// A connection with nothing of the store's own settings.
fn raw(home: &Path, foreign_keys: bool, recursive_triggers: bool) -> Connection {
    let connection = Connection::open(home.join("store.db")).unwrap();
    connection.pragma_update(None, "foreign_keys", foreign_keys).unwrap();
    connection.pragma_update(None, "recursive_triggers", recursive_triggers).unwrap();
    connection
}

/// Everything that is immutable, as text.
fn frozen(connection: &Connection) -> Vec<String> {
    ["revision", "sighting", "pin"]
        .iter()
        .flat_map(|table| {
            let columns = match *table {
                "revision" => "id, environment, number, digest, content, message, created",
                "sighting" => "id, revision, branch, commit_id, dirty, folder, seen",
                _ => "id, revision, service, image, image_id",
            };
            let mut list = connection
                .prepare(&format!("SELECT '{table}' || json_array({columns}) FROM {table} ORDER BY id"))
                .unwrap();
            let rows = list.query_map([], |row| row.get::<_, String>(0)).unwrap();
            rows.map(Result::unwrap).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn raw_sql_cannot_change_a_revision() {
    let fixture = fixture();
    let attempts = [
        "UPDATE revision SET content = '{}'",
        "UPDATE revision SET message = 'x' WHERE id = 1",
        "UPDATE OR REPLACE revision SET number = number + 1",
        "UPDATE revision SET environment = 2 WHERE id = 1",
        "DELETE FROM revision",
        "DELETE FROM revision WHERE id = 1",
        "INSERT OR REPLACE INTO revision SELECT id, environment, number, digest, '{}', message, created FROM revision",
        "INSERT OR REPLACE INTO revision (environment, number, digest, content, created)
            SELECT environment, number, replace(digest, 'a', 'b'), '{}', 0 FROM revision",
        "INSERT OR REPLACE INTO revision (environment, number, digest, content, created)
            SELECT environment, number + 1, digest, '{}', 0 FROM revision",
        "INSERT INTO revision SELECT * FROM revision WHERE true ON CONFLICT DO UPDATE SET content = '{}'",
        "UPDATE sighting SET branch = 'x'",
        "DELETE FROM sighting",
        "INSERT OR REPLACE INTO sighting SELECT id, revision, 'x', commit_id, dirty, folder, seen FROM sighting",
        "UPDATE pin SET image_id = 'x'",
        "UPDATE OR REPLACE pin SET service = 'db'",
        "DELETE FROM pin",
        "INSERT OR REPLACE INTO pin SELECT id, revision, service, image, 'x' FROM pin",
        "INSERT OR REPLACE INTO pin (revision, service, image, image_id) SELECT revision, service, 'x', 'x' FROM pin",
    ];
    refused(&fixture, &attempts);
}

#[test]
fn a_replaced_parent_takes_no_revision_with_it() {
    let fixture = fixture();
    let attempts = [
        "INSERT OR REPLACE INTO environment SELECT * FROM environment",
        "INSERT OR REPLACE INTO environment (workspace, name, created) SELECT workspace, name, 0 FROM environment",
        "REPLACE INTO environment (id, workspace, name, created) VALUES (1, 1, 'fresh', 0)",
        "UPDATE OR REPLACE environment SET name = 'dev'",
        "UPDATE OR REPLACE environment SET workspace = 1",
        "UPDATE OR REPLACE environment SET id = 2 WHERE id = 1",
        "INSERT OR REPLACE INTO workspace SELECT * FROM workspace",
        "INSERT OR REPLACE INTO workspace (name, identity, created) SELECT name, 'new:' || identity, 0 FROM workspace",
        "INSERT OR REPLACE INTO workspace (name, identity, created) SELECT name || 'x', identity, 0 FROM workspace",
        "REPLACE INTO workspace (id, name, identity, created) VALUES (1, 'fresh', 'fresh', 0)",
        "UPDATE OR REPLACE workspace SET name = 'shop'",
        "UPDATE OR REPLACE workspace SET identity = 'repo:/shop'",
        "UPDATE OR REPLACE workspace SET id = 2 WHERE id = 1",
    ];
    refused(&fixture, &attempts);
}

fn refused(fixture: &Fixture, attempts: &[&str]) {
    for (foreign_keys, recursive) in [(true, true), (true, false), (false, true), (false, false)] {
        let raw = raw(fixture.home.path(), foreign_keys, recursive);
        let before = frozen(&raw);
        assert_eq!(before.len(), 12);
        for attempt in attempts {
            let done = raw.execute_batch(attempt);
            assert!(done.is_err(), "went through with foreign keys {foreign_keys}: {attempt}");
            assert_eq!(frozen(&raw), before, "{attempt}");
        }
    }
    fixture.store.verify().unwrap();
}

#[test]
fn revisions_go_with_their_environment_and_their_workspace() {
    let fixture = fixture();
    let raw = raw(fixture.home.path(), true, false);
    fixture.store.remove_environment(fixture.environment).unwrap();
    assert_eq!(frozen(&raw).len(), 9);
    fixture.store.remove_workspace(fixture.workspace).unwrap();
    assert_eq!(frozen(&raw).len(), 6);
    raw.execute_batch("DELETE FROM workspace").unwrap();
    assert!(frozen(&raw).is_empty());
}

#[test]
fn what_an_instance_uses_is_not_removed() {
    let fixture = fixture();
    let Fixture { store, workspace, environment, .. } = &fixture;
    let instance = store.create_instance(*environment, &"main".parse().unwrap(), None, false).unwrap();
    for refused in [store.remove_environment(*environment), store.remove_workspace(*workspace)] {
        assert!(matches!(refused, Err(StoreError::InUse { .. })), "{refused:?}");
    }
    store.remove_instance(instance.id, false).unwrap();
    store.remove_workspace(*workspace).unwrap();
}

#[test]
fn a_changed_content_is_found_out_on_read() {
    let fixture = fixture();
    let number = fixture.store.revisions(fixture.environment).unwrap()[0].number;
    assert_eq!(fixture.store.revision(fixture.environment, number).unwrap().digest, digest_of("{\"a\":1}"));
    // Only someone who takes the guard away gets this far.
    raw(fixture.home.path(), true, false)
        .execute_batch("DROP TRIGGER revision_not_updated; UPDATE revision SET content = '{\"a\":2}' WHERE id = 1")
        .unwrap();
    let refused = fixture.store.revision(fixture.environment, number).unwrap_err();
    assert!(matches!(&refused, StoreError::Damaged { detail, .. } if detail.contains("r1")), "{refused}");
    assert!(matches!(fixture.store.verify(), Err(StoreError::Damaged { .. })));
}

#[test]
fn the_first_pin_wins_and_a_sighting_is_noted_once() {
    let fixture = fixture();
    let id = fixture.store.revisions(fixture.environment).unwrap()[0].id;
    let pin = fixture.store.add_pin(id, "db", "postgres:18", "sha256:bb").unwrap();
    assert_eq!(pin.image_id, "sha256:aa");
    assert_eq!(fixture.store.pins(id).unwrap()["db"], pin);
    let later = Sighting { seen: jiff::Timestamp::now(), ..sighting() };
    assert!(!fixture.store.add_sighting(id, &later).unwrap());
    assert!(fixture.store.add_sighting(id, &Sighting { dirty: None, ..sighting() }).unwrap());
    assert!(fixture.store.add_sighting(id, &Sighting { branch: None, ..sighting() }).unwrap());
    let seen = fixture.store.sightings(id).unwrap();
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[0], sighting());
}
