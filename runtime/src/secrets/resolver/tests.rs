use super::*;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

const CANARY: &str = "canary-7d1e";

fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, OsString> {
    let path = std::env::var_os("PATH").unwrap();
    let mut env = BTreeMap::from([("PATH".to_owned(), path)]);
    env.extend(pairs.iter().map(|(k, v)| ((*k).to_owned(), OsString::from(v))));
    env
}

struct Checkout {
    dir: tempfile::TempDir,
    resolver: Resolver,
}

impl Checkout {
    fn new(pairs: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let resolver = Resolver::new(dir.path().to_owned(), env(pairs));
        Self { dir, resolver }
    }

    fn write(&self, name: &str, bytes: &[u8], mode: u32) {
        let path = self.dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }

    fn get(&self, text: &str) -> Result<String, SecretError> {
        let value = self.resolver.resolve(&text.parse().unwrap())?;
        Ok(value.expose().to_owned())
    }

    /// The error, checked to name the reference, to have a hint, and to hold no canary in any form.
    fn fail(&self, text: &str) -> SecretError {
        let error = self.get(text).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        assert!(!shown.contains("canary"), "{shown}");
        assert!(!error.hint().is_empty());
        error
    }
}

#[test]
fn variables_come_from_the_snapshot() {
    let checkout = Checkout::new(&[("A", CANARY), ("EMPTY", "")]);
    assert_eq!(checkout.get("env:A").unwrap(), CANARY);
    assert_eq!(checkout.get("env:EMPTY").unwrap(), "");
    assert!(matches!(checkout.fail("env:MISSING"), SecretError::NotSet { .. }));
    let shown = format!("{:?}", checkout.resolver);
    assert!(!shown.contains(CANARY), "{shown}");
}

#[test]
fn files_are_exact_and_must_not_be_everybodys() {
    let checkout = Checkout::new(&[]);
    checkout.write("a", b" p\xc3\xa4ss\n\n", 0o600);
    assert_eq!(checkout.get("file:a").unwrap(), " päss\n");
    checkout.write("group", b"x", 0o664);
    assert_eq!(checkout.get("file:group").unwrap(), "x");
    let absolute = checkout.dir.path().join("a");
    assert_eq!(checkout.get(&format!("file:{}", absolute.display())).unwrap(), " päss\n");

    checkout.write("open", CANARY.as_bytes(), 0o666);
    assert!(matches!(checkout.fail("file:open"), SecretError::Unsafe { .. }));
    checkout.write("nul", b"canary\0x", 0o600);
    assert!(matches!(checkout.fail("file:nul"), SecretError::Nul { .. }));
    checkout.write("latin", b"canary\xe4", 0o600);
    assert!(matches!(checkout.fail("file:latin"), SecretError::NotUtf8 { .. }));
    checkout.write("large", &vec![b'x'; (1 << 20) + 1], 0o600);
    assert!(matches!(checkout.fail("file:large"), SecretError::TooLarge { .. }));
    assert!(matches!(checkout.fail("file:missing"), SecretError::CannotRead { .. }));
    assert!(checkout.fail("file:.").to_string().contains("ordinary file"));
    assert!(checkout.fail("file:~/x").to_string().contains("home folder"));
}

#[test]
fn the_home_folder_is_known() {
    let checkout = Checkout::new(&[]);
    checkout.write("token", b"t", 0o600);
    let home = checkout.dir.path().to_str().unwrap();
    let resolver = Resolver::new("/".into(), env(&[("HOME", home)]));
    let value = resolver.resolve(&"file:~/token".parse().unwrap()).unwrap();
    assert_eq!(value.expose(), "t");
}

#[test]
fn dotenv_keys_are_found_and_expansions_refused() {
    let checkout = Checkout::new(&[]);
    let text = "A=canary-one\nA='last $X'\nB=\"canary-$X\"\nC=\n";
    checkout.write(".env", text.as_bytes(), 0o600);
    assert_eq!(checkout.get("dotenv:.env#A").unwrap(), "last $X");
    assert_eq!(checkout.get("dotenv:.env#C").unwrap(), "");
    assert!(matches!(checkout.fail("dotenv:.env#B"), SecretError::Expansion { .. }));
    assert!(matches!(checkout.fail("dotenv:.env#D"), SecretError::NoEntry { .. }));
    checkout.write("broken", b"A=1\nB='canary", 0o600);
    assert!(checkout.fail("dotenv:broken#A").to_string().contains("line 2"));
}

#[test]
fn commands_print_the_value() {
    let checkout = Checkout::new(&[]);
    assert_eq!(checkout.get("command:printf 'a b\\n\\n'").unwrap(), "a b\n");
    checkout.write("tool", b"#!/bin/sh\nread x; echo \"$#:$1:$x\"\n", 0o700);
    // The argument is no shell's, and standard input is empty.
    assert_eq!(checkout.get("command:./tool '$HOME;ls'").unwrap(), "1:$HOME;ls:");
    assert_eq!(checkout.get("command:pwd").unwrap(), fs::canonicalize(checkout.dir.path()).unwrap().to_str().unwrap());
}

#[test]
fn commands_see_only_what_password_managers_need() {
    let checkout = Checkout::new(&[
        ("OP_SESSION_x", "1"),
        ("VAULT_ADDR", "2"),
        ("HOME", "/h"),
        ("LD_PRELOAD", "/evil.so"),
        ("DATABASE_URL", CANARY),
        ("COMPOSE_FILE", "x"),
    ]);
    let shown = checkout.get("command:env").unwrap();
    let mut names: Vec<&str> = shown.lines().filter_map(|l| Some(l.split_once('=')?.0)).collect();
    names.sort_unstable();
    // A shell may set some of its own; `env` is none.
    assert_eq!(names, ["HOME", "OP_SESSION_x", "PATH", "VAULT_ADDR"]);
}

#[test]
fn failing_commands_tell_why_but_not_what_they_printed() {
    let checkout = Checkout::new(&[]);
    let script =
        b"#!/bin/sh\necho canary-out\necho first >&2\nprintf 'no \\033[1mlogin for canary-out\\n\\n' >&2\nexit 3\n";
    checkout.write("tool", script, 0o700);
    let SecretError::CommandFailed { status, last_line, .. } = checkout.fail("command:./tool") else {
        panic!("another error");
    };
    assert_eq!(status, "exit status: 3");
    assert_eq!(last_line.as_deref(), Some("no \u{fffd}[1mlogin for ***"));

    let error = checkout.fail("command:no-such-program-here");
    assert!(matches!(error, SecretError::CannotRun { .. }));
    checkout.write("binary", b"#!/bin/sh\nprintf 'canary\\000x'\n", 0o700);
    assert!(matches!(checkout.fail("command:./binary"), SecretError::Nul { .. }));
}

#[test]
fn a_hanging_command_is_killed_with_all_it_started() {
    let mut checkout = Checkout::new(&[]);
    checkout.resolver = checkout.resolver.with_timeout(Duration::from_millis(400));
    let script = b"#!/bin/sh\nsleep 30 & echo $! > pids\nsleep 30 & echo $! >> pids\necho canary\nwait\n";
    checkout.write("tool", script, 0o700);
    let start = Instant::now();
    assert!(matches!(checkout.fail("command:./tool"), SecretError::TimedOut { .. }));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let pids = fs::read_to_string(checkout.dir.path().join("pids")).unwrap();
    assert_eq!(pids.lines().count(), 2);
    for pid in pids.lines() {
        let deadline = Instant::now() + Duration::from_secs(5);
        // Killed orphans may stay as zombies where nobody reaps them.
        while fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(Instant::now() < deadline, "process {pid} still runs");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn endless_output_is_cut_off() {
    let checkout = Checkout::new(&[]);
    let start = Instant::now();
    let error = checkout.resolver.resolve(&"command:yes".parse().unwrap()).unwrap_err();
    assert!(matches!(error, SecretError::TooLarge { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
}

#[test]
fn many_are_resolved_at_once_each_once_and_a_bad_one_hides_nothing() {
    let checkout = Checkout::new(&[("A", "a")]);
    checkout.write("tool", b"#!/bin/sh\nsleep 0.4\necho x >> calls\necho \"$1\"\n", 0o700);
    let texts = ["env:A", "env:B", "command:./tool 1", "command:./tool 2", "command:./tool 3"];
    let wanted: BTreeSet<Reference> = texts.iter().map(|t| t.parse().unwrap()).collect();
    let start = Instant::now();
    let found = checkout.resolver.resolve_all(&wanted);
    assert!(start.elapsed() < Duration::from_millis(1100), "one after the other: {:?}", start.elapsed());
    assert_eq!(found.len(), 5);
    let shown: BTreeMap<String, String> =
        found.iter().map(|(r, v)| (r.to_string(), v.as_ref().map_or("-".into(), |v| v.expose().to_owned()))).collect();
    let expected = ["a", "-", "1", "2", "3"];
    for (text, value) in texts.iter().zip(expected) {
        assert_eq!(shown[*text], value, "{text}");
    }
    let calls = fs::read_to_string(checkout.dir.path().join("calls")).unwrap();
    assert_eq!(calls.lines().count(), 3);
    assert!(checkout.resolver.resolve_all(&BTreeSet::new()).is_empty());
}
