//! The harness of the end-to-end suites: a world of its own for each test.
//!
//! A [`World`] has a store, a folder and a workspace name that no other test has,
//! so suites run side by side and beside a person's own stacks. When it is
//! dropped, also by a panic, everything that bears its store's label is removed,
//! and nothing else.

#![forbid(unsafe_code)]

mod canary;
mod containers;
mod copies;
mod git;
mod guard;
mod proxy;
mod running;
mod stacks;

pub use canary::{Finding, Hunt};
pub use containers::{Container, containers, networks};
pub use copies::{COPIES, Copies, HTTPD, Possessions, get, inspect, possessions, stack};
pub use git::git;
pub use guard::{Killed, RemovedContainer, RemovedObject};
pub use proxy::Recorder;
pub use running::Running;
pub use stacks::WEB_AND_KEEPER;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use sidestack_state::Store;
use sidestack_topology::names::Slot;
use tempfile::TempDir;

static NEXT: AtomicU32 = AtomicU32::new(1);

/// A store, a folder and a workspace of one test.
pub struct World {
    /// Holds everything; removed at the end.
    root: TempDir,
    /// The workspace's name, in no other test.
    pub workspace: String,
    /// Variables of every command.
    pub env: BTreeMap<String, String>,
}

/// What a command came to.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Its exit code; 255 when a signal ended it.
    pub code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// How long it took.
    pub took: Duration,
}

impl Ran {
    fn of(output: &Output, took: Duration) -> Self {
        Self {
            code: output.status.code().unwrap_or(255),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            took,
        }
    }

    /// Panics with everything that was said unless it exited with `code`.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "exit code\n--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr);
        self
    }

    /// Exit 0.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.exits(0)
    }

    /// The document on standard output, or its `data` when it is an envelope.
    #[track_caller]
    pub fn json(&self) -> Value {
        let value: Value =
            serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in\n{}", self.stdout));
        match value.get("data") {
            Some(data) => data.clone(),
            None => value,
        }
    }

    /// Panics unless standard error has the text.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "`{text}` is not in\n{}", self.stderr);
        self
    }
}

/// Whether a Docker Engine and Compose are there. Tests that need them say that
/// they are skipped when not.
pub fn docker_is_there() -> bool {
    let there = Command::new("docker").args(["version", "--format", "{{.Server.Version}}"]).output();
    let there = there.is_ok_and(|output| output.status.success());
    if !there {
        let mut error = std::io::stderr();
        let _ = writeln!(error, "skipped: no Docker Engine answers");
    }
    there
}

/// The program under test, built beside the tests.
pub fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("SIDESTACK_BIN") {
        return path.into();
    }
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    if path.ends_with("deps") {
        path.pop();
    }
    let path = path.join("sidestack");
    assert!(path.exists(), "`{}` is missing: `cargo build -p sidestack` makes it", path.display());
    path
}

impl World {
    /// A world with an empty folder.
    pub fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let root = tempfile::Builder::new().prefix("sidestack-test-").tempdir().unwrap();
        let workspace = format!("t{}-{number}", std::process::id());
        // A stack without a manifest is named after its folder.
        fs::create_dir(root.path().join(&workspace)).unwrap();
        fs::create_dir(root.path().join("user")).unwrap();
        Self { root, workspace, env: BTreeMap::new() }
    }

    /// A world whose folder has these files; `@workspace@` becomes its name.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let world = Self::new();
        for (name, text) in files {
            world.write(name, text);
        }
        world
    }

    /// Keeps to a few slots of its own, so that no other world that is there at the same time takes the ports of an
    /// instance that is down for a moment. Worlds know nothing of each other, as do two persons' stores.
    #[must_use]
    pub fn apart(self) -> Self {
        const SLOTS: u32 = 9;
        let all: Vec<Slot> = Slot::all().collect();
        let own = (std::process::id() + NEXT.load(Ordering::Relaxed)) % (all.len() as u32 / SLOTS);
        let store = Store::open(&self.home()).unwrap();
        let until = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
        let others = all.iter().enumerate().filter(|(at, _)| *at as u32 / SLOTS != own);
        let kept = store.atomically(|store| {
            others.into_iter().try_for_each(|(_, slot)| store.quarantine_port(slot.first_port(), until))
        });
        kept.unwrap();
        self
    }

    /// The stack's folder.
    pub fn folder(&self) -> PathBuf {
        self.root.path().join(&self.workspace)
    }

    /// Everything of this world.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The store's folder.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// Writes a file into the stack's folder.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.folder().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace("@workspace@", &self.workspace)).unwrap();
    }

    /// A command of the program, in the stack's folder.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(program());
        command.args(args).current_dir(self.folder()).env_clear().stdin(Stdio::null());
        for key in ["PATH", "LANG", "DOCKER_HOST", "TMPDIR", "SIDESTACK_FAILPOINTS"] {
            if let Some(value) = std::env::var_os(key) {
                command.env(key, value);
            }
        }
        // Compose is a plugin of the real home's Docker.
        let config = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
        let config = config.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".docker")));
        if let Some(config) = config {
            command.env("DOCKER_CONFIG", config);
        }
        command.env("HOME", self.root.path().join("user")).env("SIDESTACK_HOME", self.home()).envs(&self.env);
        command
    }

    /// Runs a command of the program.
    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ran {
        self.run_in(&self.folder(), args)
    }

    /// Runs a command of the program in another folder.
    pub fn run_in<S: AsRef<OsStr>>(&self, folder: &Path, args: impl IntoIterator<Item = S>) -> Ran {
        let began = Instant::now();
        let output = self.command(args).current_dir(folder).output().unwrap();
        Ran::of(&output, began.elapsed())
    }

    /// Runs a command with text on its standard input.
    pub fn run_with_input<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>, input: &str) -> Ran {
        let began = Instant::now();
        let mut child =
            self.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Ran::of(&child.wait_with_output().unwrap(), began.elapsed())
    }

    /// Runs words of a shell after the program's name on a terminal of its own; what the terminal was sent. `None`
    /// where there is no `script`.
    pub fn on_a_terminal(&self, words: &str) -> Option<Vec<u8>> {
        let inner = self.command(["version"]);
        let mut command = Command::new("script");
        command.args(["-qec", &format!("{} {words}", program().display()), "/dev/null"]);
        command.current_dir(self.folder()).env_clear().stdin(Stdio::null());
        command.envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.env("TERM", "xterm-256color").env("COLUMNS", "200");
        Some(command.output().ok()?.stdout)
    }

    /// The label of everything that this world's store owns; `None` before there is a store.
    pub fn label(&self) -> Option<String> {
        let id = fs::read_to_string(self.home().join("install-id")).ok()?;
        Some(format!("label=dev.sidestack.install={}", id.trim()))
    }

    /// The Compose project of an instance of the environment `dev`.
    pub fn project(&self, instance: &str) -> String {
        format!("{}_dev_{instance}", self.workspace)
    }

    /// What Docker has of this world: ids of containers, networks, names of volumes.
    pub fn leftovers(&self) -> Vec<String> {
        let Some(label) = self.label() else { return Vec::new() };
        let mut all = Vec::new();
        for kind in [&["ps", "-aq"][..], &["network", "ls", "-q"], &["volume", "ls", "-q"]] {
            let listed = docker(&[kind, &["--filter", &label]].concat());
            all.extend(listed.stdout.lines().map(|line| format!("{} {line}", kind[0])));
        }
        all
    }

    /// The address of a service's port on the host.
    #[track_caller]
    pub fn address(&self, target: &str, service: &str, port: u64) -> String {
        let described = self.run(["describe", target, "--json"]).ok().json();
        let service = described["services"].as_array().unwrap().iter().find(|s| s["name"] == service).unwrap();
        let addresses = service["addresses"].as_array().unwrap();
        let found = addresses.iter().find(|a| a["port"] == port).unwrap_or_else(|| panic!("{service}"));
        found["host"].as_str().unwrap().to_owned()
    }

    /// Keeps other stores of this machine, those of tests that run beside this one, out of an
    /// instance's slot while nothing of it runs: they pass over a block with a listener in it.
    #[track_caller]
    pub fn keep_slot(&self, target: &str) -> TcpListener {
        let described = self.run(["describe", target, "--json"]).ok().json();
        let slot = u16::try_from(described["slot"].as_u64().unwrap()).unwrap();
        // The last one: ports are given out from the first one on.
        TcpListener::bind(("127.0.0.1", 20_000 + 100 * slot + 99)).unwrap()
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var_os("SIDESTACK_KEEP").is_some() {
            return;
        }
        let Some(label) = self.label() else { return };
        let remove = |list: &[&str], remove: &[&str]| {
            let listed = docker(&[list, &["--filter", &label]].concat());
            let ids: Vec<&str> = listed.stdout.lines().collect();
            if !ids.is_empty() {
                docker(&[remove, &ids].concat());
            }
        };
        remove(&["ps", "-aq"], &["rm", "-fv"]);
        remove(&["network", "ls", "-q"], &["network", "rm"]);
        remove(&["volume", "ls", "-q"], &["volume", "rm", "-f"]);
        // Images that were built for this world's workspace.
        let built = docker(&[
            "images",
            "--format",
            "{{.Repository}}:{{.Tag}}",
            "--filter",
            &format!("reference=sidestack-{}_*", self.workspace),
        ]);
        let names: Vec<&str> = built.stdout.lines().collect();
        if !names.is_empty() {
            docker(&[&["rmi", "-f"][..], &names].concat());
        }
    }
}

/// Runs the docker command.
pub fn docker<S: AsRef<OsStr>>(args: &[S]) -> Ran {
    let began = Instant::now();
    let output = Command::new("docker").args(args).stdin(Stdio::null()).output().unwrap();
    Ran::of(&output, began.elapsed())
}

/// Runs SQL in the `db` service of an instance over its published address's own
/// server, as the module's default user.
#[track_caller]
pub fn sql(world: &World, target: &str, database: &str, statement: &str) -> String {
    let ran =
        world.run(["exec", "-i", target, "db", "--", "psql", "-U", "app", "-d", database, "-Atc", statement]).ok();
    ran.stdout.trim().to_owned()
}

/// One HTTP request over a fresh connection; the body of the answer.
pub fn http_get(address: &str, path: &str) -> Option<String> {
    use std::io::Read;
    let address: SocketAddr = address.parse().ok()?;
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}
