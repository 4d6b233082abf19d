//! Many processes on one store. The children are this test binary again, told their part by a variable.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rusqlite::Connection;
use sidestack_state::{Scope, Store, StoreError, VariableValue};
use sidestack_topology::names::{RevisionNumber, Slot};

const ROLE: &str = "SIDESTACK_STATE_TEST_ROLE";
const HOME: &str = "SIDESTACK_STATE_TEST_HOME";
const NUMBER: &str = "SIDESTACK_STATE_TEST_NUMBER";
const PROCESSES: usize = 64;
const ROUNDS: usize = 10;

/// The children's way in; nothing when it runs as a test.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let home = std::env::var(HOME).unwrap();
    let number = std::env::var(NUMBER).unwrap().parse().unwrap();
    match role.as_str() {
        "lease" => lease_in_rounds(Path::new(&home), number),
        "write" => write_until_killed(Path::new(&home), number),
        "identify" => identify(Path::new(&home)),
        "insert" => insert(Path::new(&home), number),
        other => panic!("no such part: {other}"),
    }
}

fn command(role: &str, home: &Path, number: usize) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env(HOME, home).env(NUMBER, number.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Starts them all, lets them go at once, and gives what each said.
fn all(role: &str, home: &Path, count: usize) -> Vec<String> {
    let children: Vec<Child> = (0..count).map(|number| command(role, home, number).spawn().unwrap()).collect();
    fs::write(home.with_extension("go"), "").unwrap();
    let said = children.into_iter().map(|child| {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}");
        text
    });
    said.collect()
}

fn wait_for_go(home: &Path) {
    while !home.with_extension("go").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn said<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    // The first line may stand behind the harness's own `test child ... `.
    text.lines().filter_map(|line| line.split_once(word).map(|(_, rest)| rest.trim())).collect()
}

/// `<root>/store`, so that what the test needs beside it does not lie in the store.
fn root() -> (tempfile::TempDir, std::path::PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let home = root.path().join("store");
    (root, home)
}

fn environment(store: &Store) -> i64 {
    let workspace = store.ensure_workspace("repo:/shop", &"shop".parse().unwrap()).unwrap();
    store.ensure_environment(workspace.id, &"dev".parse().unwrap()).unwrap().id
}

// --- no double lease

#[test]
fn p11_no_double_lease() {
    let (_root, home) = root();
    let store = Store::open(&home).unwrap();
    let environment = environment(&store);
    for number in 0..PROCESSES {
        store.create_instance(environment, &format!("i{number}").parse().unwrap(), None, false).unwrap();
    }
    fs::create_dir(home.with_extension("claims")).unwrap();
    let said_all = all("lease", &home, PROCESSES);
    let rounds: usize = said_all.iter().map(|text| said(text, "leased ").len()).sum();
    assert_eq!(rounds, PROCESSES * ROUNDS);
    // The last lease of each was kept: as many slots as processes, each another.
    let last: BTreeSet<&str> = said_all.iter().map(|text| *said(text, "leased ").last().unwrap()).collect();
    assert_eq!(last.len(), PROCESSES);
    assert_eq!(store.leases().unwrap().len(), PROCESSES);
    store.verify().unwrap();
}

/// A slot is claimed with a file that must not be there yet: proof that does not lean on the store.
fn lease_in_rounds(home: &Path, number: usize) {
    let store = Store::open(home).unwrap();
    let environment = environment(&store);
    let instance = store.instance(environment, &format!("i{number}").parse().unwrap()).unwrap().unwrap();
    // Exactly as many slots as processes, so that they meet.
    let exclude: BTreeSet<Slot> = Slot::all().skip(PROCESSES).collect();
    wait_for_go(home);
    for round in 0..ROUNDS {
        let lease = store.lease_slot(instance.id, &exclude, "10.231").unwrap();
        assert_eq!(lease.subnet, format!("10.231.{}.0/23", 2 * u16::from(lease.slot.number())));
        let claim = home.with_extension("claims").join(lease.slot.to_string());
        let claimed = File::options().write(true).create_new(true).open(&claim);
        assert!(claimed.is_ok(), "slot {} is leased twice: {claimed:?}", lease.slot);
        say(&format!("leased {}", lease.slot));
        if round + 1 < ROUNDS {
            fs::remove_file(&claim).unwrap();
            assert!(store.release_slot(instance.id).unwrap());
        }
    }
}

// --- no acknowledged write is lost

#[test]
fn p1_an_acknowledged_write_survives_sigkill() {
    let (_root, home) = root();
    let environment = environment(&Store::open(&home).unwrap());
    let mut acknowledged = Vec::new();
    for kill in 0..20 {
        let mut child = command("write", &home, kill).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        while !text.contains("wrote ") {
            assert!(output.read_line(&mut text).unwrap() > 0, "the writer ended by itself: {text}");
        }
        // Spread over a write's whole course.
        std::thread::sleep(Duration::from_micros(700 * (kill as u64 * 7 % 20)));
        child.kill().unwrap();
        output.read_to_string(&mut text).unwrap();
        child.wait().unwrap();
        acknowledged.extend(said(&text, "wrote ").into_iter().map(str::to_owned));

        let store = Store::open(&home).unwrap();
        store.verify().unwrap();
        let variables = store.variables(Scope::Environment(environment)).unwrap();
        for line in &acknowledged {
            let (key, number) = line.split_once(' ').unwrap();
            assert_eq!(variables.get(key), Some(&VariableValue::Literal(number.to_owned())), "kill {kill}");
            let revision = store.revision(environment, RevisionNumber(number.parse().unwrap())).unwrap();
            assert!(revision.content.contains(key), "{key} in {}", revision.content);
        }
        // Two writes that belong together are both there or neither is.
        assert_eq!(variables.len(), store.revisions(environment).unwrap().len());
    }
    assert!(acknowledged.len() >= 20, "{} writes", acknowledged.len());
}

fn write_until_killed(home: &Path, number: usize) {
    let store = Store::open(home).unwrap();
    let environment = environment(&store);
    for round in 0.. {
        let key = format!("K_{number}_{round}");
        let revision = store
            .atomically(|store| {
                let content = format!("{{\"key\":\"{key}\"}}");
                let (revision, _) = store.commit_revision(environment, &content, None)?;
                let value = VariableValue::Literal(revision.number.0.to_string());
                store.set_variable(Scope::Environment(environment), &key, value)?;
                Ok::<_, StoreError>(revision)
            })
            .unwrap();
        say(&format!("wrote {key} {}", revision.number.0));
    }
}

// --- one store, one id, however many make it

#[test]
fn processes_that_make_the_store_at_once_agree_on_it() {
    let (_root, home) = root();
    let said_all = all("identify", &home, 24);
    let ids: BTreeSet<&str> = said_all.iter().flat_map(|text| said(text, "identity ")).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let left: BTreeSet<String> =
        fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let own = ["install-id", "machine.key", "store.db", "writer.lock", "writer.queue"].map(str::to_owned);
    assert_eq!(left, BTreeSet::from(own));
}

fn identify(home: &Path) {
    wait_for_go(home);
    let store = Store::open(home).unwrap();
    let same = environment(&store);
    say(&format!("identity {} {:?} {same}", store.install_id(), store.machine_key()));
}

#[test]
fn numbers_and_names_are_given_once_between_processes() {
    let (_root, home) = root();
    let environment = environment(&Store::open(&home).unwrap());
    let said_all = all("insert", &home, 16);
    let new: usize = said_all.iter().map(|text| said(text, "new revision").len()).sum();
    assert_eq!(new, 17, "sixteen contents of their own and one that all share");
    let store = Store::open(&home).unwrap();
    let numbers: Vec<u32> = store.revisions(environment).unwrap().iter().map(|one| one.number.0).collect();
    assert_eq!(numbers, (1..=17).collect::<Vec<_>>());
    let names: BTreeSet<String> =
        store.workspaces().unwrap().iter().map(|workspace| workspace.name.to_string()).collect();
    assert_eq!(names.len(), 17);
    let offsets = store.known_offsets(environment, "port").unwrap();
    let given: BTreeSet<u16> = offsets.values().copied().collect();
    assert_eq!(given, (0..17).collect());
}

fn insert(home: &Path, number: usize) {
    let store = Store::open(home).unwrap();
    let environment = environment(&store);
    wait_for_go(home);
    for content in ["{\"shared\":true}".to_owned(), format!("{{\"own\":{number}}}")] {
        if store.commit_revision(environment, &content, None).unwrap().1 {
            say("new revision");
        }
    }
    store.ensure_workspace(&format!("repo:/{number}"), &"shop".parse().unwrap()).unwrap();
    let keys = ["shared".to_owned(), format!("own {number}")];
    store.offsets(environment, "port", &keys, 100).unwrap();
}

// --- what SQLite needs of us

#[cfg(target_os = "linux")]
#[test]
fn opening_again_in_one_process_keeps_the_first_ones_locks() {
    use std::os::unix::fs::MetadataExt;
    let (_root, home) = root();
    let first = Store::open(&home).unwrap();
    first.remember("k", "v").unwrap();
    // With an empty log nothing but the header is read before SQLite opens the file, and
    // SQLite closes nothing while the second stands: neither would put a lost lock back.
    let raw = Connection::open(home.join("store.db")).unwrap();
    raw.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(raw);
    let held = || {
        let inode = format!(":{}", fs::metadata(home.join("store.db")).unwrap().ino());
        let process = std::process::id().to_string();
        let locks = fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.contains(&"POSIX") && fields[4] == process && fields[5].ends_with(&inode)
        })
    };
    assert!(held(), "SQLite no longer holds a lock for as long as its log is open: this test is blind");
    let second = Store::open(&home).unwrap();
    assert!(held(), "opening the store again dropped the lock that the first one relies on");
    for store in [&first, &second] {
        assert_eq!(store.recall("k").unwrap().as_deref(), Some("v"));
    }
}

#[test]
fn a_store_made_under_any_umask_is_private() {
    use std::os::unix::fs::PermissionsExt;
    for umask in ["000", "022", "077", "277"] {
        let (_root, home) = root();
        fs::write(home.with_extension("go"), "").unwrap();
        let exe = std::env::current_exe().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("umask {umask}; exec \"$0\" --exact child --nocapture")]).arg(exe);
        shell.env(ROLE, "identify").env(HOME, &home).env(NUMBER, "0");
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{umask}: {}", String::from_utf8_lossy(&output.stderr));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&home), 0o700, "umask {umask}");
        let queue = home.join("writer.queue");
        let entries = [&home, &queue].into_iter().flat_map(|folder| fs::read_dir(folder).unwrap());
        for path in entries.map(|entry| entry.unwrap().path()) {
            let right = if path == queue { 0o700 } else { 0o600 };
            assert_eq!(mode(&path), right, "umask {umask}: {}", path.display());
        }
        assert!(queue.join("next").exists(), "umask {umask}");
    }
}

/// A line that is out before the next thing happens, whatever the harness captures.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}
