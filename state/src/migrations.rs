//! The schema's versions and the way from one to the next.
//!
//! `user_version` counts the migrations that a file has seen. They are only
//! ever appended to, run in one transaction (killed at any point, the file is
//! as before), and a verified copy of the old file is made first.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::check;
use crate::error::{Result, StoreError};
use crate::home::beside;

/// SQL that takes a store from the version of its place in the list to the next.
pub(crate) type Migration = &'static str;

/// Every migration there is, the first one making an empty file a store.
pub(crate) const ALL: &[Migration] =
    &[include_str!("schema/v1.sql"), include_str!("schema/v2.sql"), include_str!("schema/v3.sql")];

/// `application_id` of a store, so that another program's database is told apart: `SIDE`.
pub(crate) const APPLICATION: i32 = 0x5349_4445;

/// The newest version that `list` leads to.
pub(crate) fn newest(list: &[Migration]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

/// Brings the database at `path` to the newest version, keeping a copy of the old one beside it.
///
/// The caller holds the writer lock. Does nothing when there is nothing to do.
pub(crate) fn migrate(connection: &Connection, path: &Path, list: &[Migration]) -> Result<()> {
    let found = version(connection)?;
    if found > newest(list) {
        return Err(StoreError::TooNew { found, supported: newest(list), path: path.to_owned() });
    }
    let steps = &list[found as usize..];
    if steps.is_empty() {
        return Ok(());
    }
    if found > 0 {
        check::copy(connection, &beside(path, &format!(".v{found}")), path)?;
    }
    // A table that is rebuilt would cascade into its children; the check below stands in.
    connection.pragma_update(None, "foreign_keys", false)?;
    let done = apply(connection, path, steps, newest(list));
    connection.pragma_update(None, "foreign_keys", true)?;
    done
}

fn apply(connection: &Connection, path: &Path, steps: &[Migration], target: u32) -> Result<()> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Exclusive)?;
    for step in steps {
        transaction.execute_batch(step)?;
    }
    let dangling: i64 = transaction.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0))?;
    if dangling > 0 {
        return Err(StoreError::damaged(path, format!("{dangling} rows refer to rows that are not there")));
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", target)?;
    Ok(transaction.commit()?)
}

pub(crate) fn version(connection: &Connection) -> Result<u32> {
    Ok(connection.query_row("PRAGMA user_version", [], |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use crate::open::Opening;
    use std::fs;

    const SECOND: Migration = "
        CREATE TABLE extra (id INTEGER PRIMARY KEY, workspace INTEGER REFERENCES workspace (id)) STRICT;
        INSERT INTO extra (workspace) SELECT id FROM workspace;";
    const BROKEN: Migration = "CREATE TABLE half (id INTEGER); INSERT INTO nowhere VALUES (1);";
    const DANGLING: Migration =
        "CREATE TABLE extra (workspace INTEGER REFERENCES workspace (id)) STRICT; INSERT INTO extra VALUES (77);";

    fn old_store(home: &Path) {
        let store = Store::open(home).unwrap();
        store.ensure_workspace("repo:/shop", &"shop".parse().unwrap()).unwrap();
    }

    /// Every migration there is and then some.
    fn with(more: &[Migration]) -> &'static [Migration] {
        Box::leak([ALL, more].concat().into_boxed_slice())
    }

    fn tables(home: &Path) -> Vec<String> {
        let raw = Connection::open(home.join("store.db")).unwrap();
        let mut list = raw.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1").unwrap();
        list.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn an_old_store_is_migrated_and_its_copy_is_kept() {
        let home = tempfile::tempdir().unwrap();
        old_store(home.path());
        let list = with(&[SECOND]);
        let store = Opening { migrations: list, ..Opening::default() }.open(home.path()).unwrap();
        assert_eq!(store.workspaces().unwrap().len(), 1);
        drop(store);
        assert!(tables(home.path()).contains(&"extra".to_owned()));
        // The copy is a whole store of the old version, and as private as the store.
        let copy = home.path().join(format!("store.db.v{}", newest(ALL)));
        let raw = Connection::open(&copy).unwrap();
        assert_eq!(version(&raw).unwrap(), newest(ALL));
        let shops: i64 = raw.query_row("SELECT count(*) FROM workspace", [], |row| row.get(0)).unwrap();
        assert_eq!(shops, 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
        }
        // And the older program now refuses it.
        let refused = Store::open(home.path()).unwrap_err();
        let StoreError::TooNew { found, supported, .. } = refused else { panic!("{refused}") };
        assert_eq!((found, supported), (newest(ALL) + 1, newest(ALL)));
    }

    #[test]
    fn p43_a_migration_that_fails_leaves_the_old_version() {
        for last in [BROKEN, DANGLING] {
            let home = tempfile::tempdir().unwrap();
            old_store(home.path());
            let before = tables(home.path());
            let list = with(&[SECOND, last]);
            assert!(Opening { migrations: list, ..Opening::default() }.open(home.path()).is_err());
            assert_eq!(tables(home.path()), before);
            assert_eq!(Store::open(home.path()).unwrap().workspaces().unwrap().len(), 1);
        }
    }

    /// What version 1 knew is read after the migration, and what it did not know is empty.
    #[test]
    fn data_of_version_1_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let old = Opening { migrations: &ALL[..1], ..Opening::default() }.open(home.path()).unwrap();
        let workspace = old.ensure_workspace("repo:/shop", &"shop".parse().unwrap()).unwrap();
        let environment = old.ensure_environment(workspace.id, &"dev".parse().unwrap()).unwrap().id;
        let (revision, _) = old.commit_revision(environment, "{}", None).unwrap();
        drop(old);
        let raw = Connection::open(home.path().join("store.db")).unwrap();
        raw.execute_batch(&format!(
            "INSERT INTO sighting (revision, branch, folder, seen) VALUES ({}, 'main', '/shop', 1);
             INSERT INTO offset_of VALUES ({environment}, 'port', 'db/5432/0', 0);",
            revision.id
        ))
        .unwrap();
        drop(raw);
        let store = Store::open(home.path()).unwrap();
        let seen = store.sightings(revision.id).unwrap();
        assert_eq!((seen.len(), seen[0].branch.as_deref(), seen[0].files.as_deref()), (1, Some("main"), None));
        let keys = [("db/5432/0".to_owned(), 1), ("web/80/0*2".to_owned(), 2)];
        let offsets = store.wide_offsets(environment, "port", &keys, 3).unwrap();
        assert_eq!(offsets.into_values().collect::<Vec<_>>(), [0, 1]);
        assert!(store.consents(workspace.id).unwrap().is_empty());
        assert!(store.copied().unwrap().is_empty());
    }

    #[test]
    fn a_damaged_store_is_not_migrated() {
        let home = tempfile::tempdir().unwrap();
        old_store(home.path());
        let path = home.path().join("store.db");
        let mut bytes = fs::read(&path).unwrap();
        // A page in the middle: the header and the schema still read well.
        let middle = bytes.len() / 2 / 4096 * 4096;
        bytes[middle..middle + 4096].fill(0xA5);
        fs::write(&path, &bytes).unwrap();
        let list = with(&[SECOND]);
        let refused = Opening { migrations: list, ..Opening::default() }.open(home.path()).unwrap_err();
        assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }

    #[test]
    fn every_version_reaches_the_newest_schema() {
        // The schema of a fresh store is what migrating from each old version gives.
        let fresh = Connection::open_in_memory().unwrap();
        migrate(&fresh, Path::new("fresh"), ALL).unwrap();
        for from in 1..ALL.len() {
            let old = Connection::open_in_memory().unwrap();
            migrate(&old, Path::new("old"), &ALL[..from]).unwrap();
            apply(&old, Path::new("old"), &ALL[from..], newest(ALL)).unwrap();
            assert_eq!(schema(&old), schema(&fresh));
        }
        assert_eq!(version(&fresh).unwrap(), newest(ALL));
    }

    fn schema(connection: &Connection) -> Vec<String> {
        let mut list = connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY 1").unwrap();
        list.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}
