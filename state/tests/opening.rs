//! Opening: who may read, what is refused, and that a refusal touches nothing.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use sidestack_state::{Store, StoreError};

/// A store with enough in it to fill pages, closed.
fn filled(home: &Path) {
    let store = Store::open(home).unwrap();
    fill(&store);
}

fn fill(store: &Store) {
    let workspace = store.ensure_workspace("repo:/shop", &"shop".parse().unwrap()).unwrap();
    let environment = store.ensure_environment(workspace.id, &"dev".parse().unwrap()).unwrap();
    store
        .atomically(|store| {
            (0..200).try_for_each(|number| {
                let content = format!("{{\"number\":{number},\"filler\":\"{}\"}}", "x".repeat(500));
                store.commit_revision(environment.id, &content, None).map(|_| ())
            })
        })
        .unwrap();
}

/// All that a folder holds, folders and what they hold included.
fn contents(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(contents(&entry.path()));
        }
        found.push(entry.path());
    }
    found
}

/// All that a folder holds with its bytes (none for a folder), mode and time of change.
fn picture(folder: &Path) -> BTreeMap<String, (Vec<u8>, u32, i64, i64)> {
    let pairs = contents(folder).into_iter().map(|path| {
        let meta = fs::metadata(&path).unwrap();
        let bytes = if meta.is_dir() { Vec::new() } else { fs::read(&path).unwrap() };
        let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
        (name, (bytes, meta.mode(), meta.mtime(), meta.mtime_nsec()))
    });
    pairs.collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn assert_private(home: &Path) {
    assert_eq!(mode(home), 0o700);
    let all = contents(home);
    for path in &all {
        let right = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(path), right, "{}", path.display());
    }
    // The database, the id, the key, the gate, and the queue with its counter and a place.
    assert!(all.len() >= 7, "{all:?}");
}

#[test]
fn a_new_store_is_private() {
    let root = tempfile::tempdir().unwrap();
    let home = root.path().join("a/b/sidestack");
    let store = Store::open(&home).unwrap();
    store.remember("k", "v").unwrap();
    assert!(home.join("store.db-wal").exists());
    assert_private(&home);
    assert_eq!(store.install_id().len(), 32);
    assert_eq!(store.home(), home);
}

#[test]
fn files_that_were_loose_are_made_private() {
    let root = tempfile::tempdir().unwrap();
    let home = root.path().join("sidestack");
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).unwrap();
    filled(&home);
    assert_private(&home);
    for path in contents(&home) {
        let loose = if path.is_dir() { 0o777 } else { 0o666 };
        fs::set_permissions(path, fs::Permissions::from_mode(loose)).unwrap();
    }
    let store = Store::open(&home).unwrap();
    store.remember("k", "v").unwrap();
    assert_private(&home);
}

#[test]
fn a_queue_that_nobody_may_enter_is_entered_again() {
    let root = tempfile::tempdir().unwrap();
    let home = root.path().join("sidestack");
    filled(&home);
    fs::set_permissions(home.join("writer.queue"), fs::Permissions::from_mode(0o000)).unwrap();
    Store::open(&home).unwrap().remember("k", "v").unwrap();
    assert_private(&home);
}

#[test]
fn reading_leaves_the_writers_queue_alone() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path());
    let queue = home.path().join("writer.queue");
    let read = || {
        let store = Store::open(home.path()).unwrap();
        assert_eq!(store.workspaces().unwrap().len(), 1);
        store.snapshot(|store| store.environments(1)).unwrap();
        store.verify().unwrap();
    };
    let before = picture(&queue);
    assert!(before.contains_key("next"), "{before:?}");
    read();
    assert_eq!(picture(&queue), before);
    fs::remove_dir_all(&queue).unwrap();
    read();
    assert!(!queue.exists());
}

#[test]
fn a_store_without_a_writers_queue_is_written_to() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path());
    let queue = home.path().join("writer.queue");
    let write_and_read = |value: &str| {
        let store = Store::open(home.path()).unwrap();
        store.remember("k", value).unwrap();
        assert_eq!(store.recall("k").unwrap().as_deref(), Some(value));
    };
    // Not a folder: nothing can be made in it, and it is left as it is.
    fs::remove_dir_all(&queue).unwrap();
    fs::write(&queue, "somebody's").unwrap();
    fs::set_permissions(&queue, fs::Permissions::from_mode(0o644)).unwrap();
    write_and_read("beside a file");
    assert_eq!((fs::read(&queue).unwrap().as_slice(), mode(&queue)), (&b"somebody's"[..], 0o644));
    // A link may lead to somebody's folder, whose mode is not ours to change.
    let elsewhere = tempfile::tempdir().unwrap();
    fs::set_permissions(elsewhere.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(&queue).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), &queue).unwrap();
    write_and_read("beside a link");
    assert_eq!(mode(elsewhere.path()), 0o755);
    // Read-only, after the store was opened (opening would mend that).
    fs::remove_file(&queue).unwrap();
    fs::create_dir(&queue).unwrap();
    let store = Store::open(home.path()).unwrap();
    fs::set_permissions(&queue, fs::Permissions::from_mode(0o500)).unwrap();
    store.remember("k", "read-only").unwrap();
    assert_eq!(store.recall("k").unwrap().as_deref(), Some("read-only"));
}

#[test]
fn a_folder_that_everybody_writes_to_is_refused() {
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    assert!(matches!(Store::open(root.path()), Err(StoreError::Unsafe { .. })));
    assert_eq!(mode(root.path()), 0o1777);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn ids_and_keys_stay() {
    let home = tempfile::tempdir().unwrap();
    let first = Store::open(home.path()).unwrap();
    let second = Store::open(home.path()).unwrap();
    assert_eq!(first.install_id(), second.install_id());
    assert_eq!(first.machine_key(), second.machine_key());
    assert_ne!(first.machine_key(), &[0; 32]);
    let other = tempfile::tempdir().unwrap();
    let other = Store::open(other.path()).unwrap();
    assert_ne!(first.install_id(), other.install_id());
    assert_ne!(first.machine_key(), other.machine_key());
    // A lost id is written again, since the database knows it; a foreign one is refused.
    let id = first.install_id().to_owned();
    fs::remove_file(home.path().join("install-id")).unwrap();
    assert_eq!(Store::open(home.path()).unwrap().install_id(), id);
    fs::write(home.path().join("install-id"), "0".repeat(32)).unwrap();
    assert!(matches!(Store::open(home.path()), Err(StoreError::Damaged { .. })));
}

#[test]
fn p44_a_newer_store_is_refused_and_byte_identical() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path());
    let raw = Connection::open(home.path().join("store.db")).unwrap();
    let newest: u32 = raw.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    raw.pragma_update(None, "user_version", 99).unwrap();
    drop(raw);
    fs::set_permissions(home.path().join("store.db"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let before = picture(home.path());
    let refused = Store::open(home.path()).unwrap_err();
    assert!(matches!(&refused, StoreError::TooNew { found: 99, supported, .. } if *supported == newest), "{refused}");
    assert!(refused.hint().is_some());
    assert_eq!(mode(home.path()), 0o755);
    assert_eq!(picture(home.path()), before);
}

#[test]
fn p44_a_newer_version_that_stands_only_in_the_log_is_refused_too() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path());
    let writer = Connection::open(home.path().join("store.db")).unwrap();
    writer.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    writer.pragma_update(None, "user_version", 99).unwrap();
    // What a killed writer leaves: the database and its log.
    let copy = tempfile::tempdir().unwrap();
    for name in ["store.db", "store.db-wal", "install-id", "machine.key"] {
        fs::copy(home.path().join(name), copy.path().join(name)).unwrap();
    }
    let before = picture(copy.path());
    assert!(before["store.db-wal"].0.len() > 4096);
    let refused = Store::open(copy.path()).unwrap_err();
    assert!(matches!(refused, StoreError::TooNew { found: 99, .. }), "{refused}");
    let mut after = picture(copy.path());
    // SQLite needs its shared memory to read a log; it holds nothing of the store.
    after.remove("store.db-shm");
    assert_eq!(after, before);
}

#[test]
fn p3_a_truncated_store_is_reported_and_left_alone() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path());
    let path = home.path().join("store.db");
    let whole = fs::read(&path).unwrap();
    for length in [0, 1, 50, 99, 100, 4096, 4096 * 5, whole.len() / 2, whole.len() - 4096, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        let refused = Store::open(home.path()).and_then(|store| store.verify());
        assert!(
            matches!(&refused, Err(StoreError::Damaged { path: at, .. }) if *at == path),
            "{length} bytes: {refused:?}"
        );
        assert_eq!(fs::read(&path).unwrap(), &whole[..length], "{length} bytes");
    }
}

#[test]
fn p3_flipped_bytes_are_reported_and_nothing_is_recreated() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path());
    let path = home.path().join("store.db");
    let whole = fs::read(&path).unwrap();
    // The header's magic and application id; then whole pages.
    for at in [0, 5, 68] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        fs::write(&path, &bytes).unwrap();
        assert!(matches!(Store::open(home.path()), Err(StoreError::Damaged { .. })), "byte {at}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    let pages = whole.len() / 4096;
    for page in 1..pages {
        let mut bytes = whole.clone();
        for byte in &mut bytes[page * 4096..(page + 1) * 4096] {
            *byte ^= 0x5A;
        }
        fs::write(&path, &bytes).unwrap();
        let refused = Store::open(home.path()).and_then(|store| store.verify());
        assert!(matches!(&refused, Err(StoreError::Damaged { .. })), "page {page} of {pages}: {refused:?}");
    }
}

#[test]
fn p3_a_flipped_bit_in_a_revision_is_never_served() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path());
    let path = home.path().join("store.db");
    let mut bytes = fs::read(&path).unwrap();
    let needle = b"{\"number\":77,\"filler\":\"xxxx";
    let at = bytes.windows(needle.len()).position(|window| window == needle).unwrap() + needle.len();
    bytes[at] = b'y';
    fs::write(&path, &bytes).unwrap();
    let store = Store::open(home.path()).unwrap();
    let environment = store.environments(store.workspaces().unwrap()[0].id).unwrap()[0].id;
    let bad = store.revisions(environment).unwrap();
    let bad: Vec<_> = bad.iter().filter(|one| store.revision(environment, one.number).is_err()).collect();
    assert_eq!(bad.len(), 1);
    assert!(matches!(store.revision(environment, bad[0].number), Err(StoreError::Damaged { .. })));
}

#[test]
fn p3_a_lost_store_is_not_taken_for_a_new_one() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path());
    let id = Store::open(home.path()).unwrap().install_id().to_owned();
    fs::remove_file(home.path().join("store.db")).unwrap();
    let before = picture(home.path());
    let refused = Store::open(home.path()).unwrap_err();
    assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
    assert_eq!(picture(home.path()), before);
    // Rebuilding is asked for by name, and keeps the id that Docker's labels carry.
    let (store, kept) = Store::rebuild(home.path()).unwrap();
    assert_eq!((store.install_id(), kept), (id.as_str(), None));
    assert!(store.workspaces().unwrap().is_empty());
}

#[test]
fn p3_rebuilding_sets_the_damaged_file_aside() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path());
    let path = home.path().join("store.db");
    for name in ["store.db.damaged", "store.db.damaged.1"] {
        fs::write(&path, b"not a database, but somebody's last hope").unwrap();
        let (store, kept) = Store::rebuild(home.path()).unwrap();
        assert_eq!(kept, Some(home.path().join(name)));
        assert_eq!(fs::read(home.path().join(name)).unwrap(), b"not a database, but somebody's last hope");
        store.verify().unwrap();
    }
}

#[test]
fn p3_a_log_that_was_taken_away_is_reported() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path());
    let store = Store::open(home.path()).unwrap();
    store.remember("k", "v").unwrap();
    let copy = tempfile::tempdir().unwrap();
    for name in ["store.db", "store.db-shm", "install-id", "machine.key"] {
        fs::copy(home.path().join(name), copy.path().join(name)).unwrap();
    }
    let refused = Store::open(copy.path()).unwrap_err();
    assert!(matches!(&refused, StoreError::Damaged { detail, .. } if detail.contains("-wal")), "{refused}");
}

#[test]
fn another_programs_database_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let raw = Connection::open(home.path().join("store.db")).unwrap();
    raw.execute_batch("CREATE TABLE theirs (id INTEGER); PRAGMA user_version = 1;").unwrap();
    drop(raw);
    let before = picture(home.path());
    assert!(matches!(Store::open(home.path()), Err(StoreError::Damaged { .. })));
    assert_eq!(picture(home.path()), before);
}

#[test]
fn p2_a_copy_is_whole_private_and_opens_as_a_store() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path());
    let store = Store::open(home.path()).unwrap();
    let target = tempfile::tempdir().unwrap();
    let file = target.path().join("store.db");
    store.copy_to(&file).unwrap();
    store.copy_to(&file).unwrap();
    assert_eq!(mode(&file), 0o600);
    let id = store.install_id().to_owned();
    drop(store);
    let raw = Connection::open(&file).unwrap();
    raw.pragma_update(None, "journal_mode", "wal").unwrap();
    drop(raw);
    let copied = Store::open(target.path()).unwrap();
    assert_eq!(copied.install_id(), id);
    copied.verify().unwrap();
    let environment = copied.environments(copied.workspaces().unwrap()[0].id).unwrap()[0].id;
    assert_eq!(copied.revisions(environment).unwrap().len(), 200);
}
