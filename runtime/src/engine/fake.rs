//! An engine in memory, for tests.
//!
//! It behaves as Docker does in what the runtime relies on: a started container runs and says so
//! in the events, a stopped one has an exit code, what is gone is not found, what is in use is in
//! conflict. Everything else is scripted: [`FakeEngine::fail_once`], [`FakeEngine::on_exec`],
//! [`FakeEngine::emit`].
//!
//! Each call is written down as one line (`start c1`, `stop c1 10`, `exec c1 pg_isready -q`). A
//! strict engine panics on a *writing* call that no test expects.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use tokio::sync::mpsc;

use super::{
    Container, Daemon, Detail, EngineError, Event, EventKind, ExecOutcome, ExecRequest, Health, Image, LogLine,
    Network, Status, Volume,
};

type OnExec = Box<dyn FnMut(&str, &ExecRequest) -> Result<ExecOutcome, EngineError>>;
type Sender = mpsc::UnboundedSender<Result<Event, EngineError>>;

/// The engine in memory. Its methods take `&self`, so that a test can change it while code under
/// test holds it.
pub struct FakeEngine {
    state: RefCell<State>,
}

struct State {
    daemon: Daemon,
    containers: BTreeMap<String, Container>,
    details: BTreeMap<String, Detail>,
    networks: BTreeMap<String, Network>,
    volumes: BTreeMap<String, Volume>,
    sizes: BTreeMap<String, i64>,
    images: BTreeMap<String, Image>,
    logs: BTreeMap<String, Vec<Result<LogLine, EngineError>>>,
    archives: Vec<(String, String, Vec<u8>)>,
    subscribers: Vec<(String, Sender)>,
    calls: Vec<String>,
    strict: bool,
    expected: Vec<String>,
    failures: VecDeque<(String, EngineError)>,
    on_exec: Option<OnExec>,
    clock: i64,
}

/// Reads are these; every other call writes.
const READS: [&str; 10] = [
    "daemon",
    "containers",
    "published",
    "networks",
    "volumes",
    "volume_sizes",
    "inspect",
    "subscribe",
    "logs",
    "image",
];

impl Default for FakeEngine {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeEngine {
    /// An empty engine that lets every call through.
    pub fn new() -> Self {
        Self {
            state: RefCell::new(State {
                daemon: Daemon {
                    id: "FAKE".to_owned(),
                    version: "28.5.2".to_owned(),
                    api: (1, 51),
                    root_dir: "/var/lib/docker".to_owned(),
                    os_type: "linux".to_owned(),
                    rootless: false,
                },
                containers: BTreeMap::new(),
                details: BTreeMap::new(),
                networks: BTreeMap::new(),
                volumes: BTreeMap::new(),
                sizes: BTreeMap::new(),
                images: BTreeMap::new(),
                logs: BTreeMap::new(),
                archives: Vec::new(),
                subscribers: Vec::new(),
                calls: Vec::new(),
                strict: false,
                expected: Vec::new(),
                failures: VecDeque::new(),
                on_exec: None,
                clock: 1_000_000_000,
            }),
        }
    }

    /// An empty engine that panics on each writing call that [`Self::expect`] did not announce.
    pub fn strict() -> Self {
        let engine = Self::new();
        engine.state.borrow_mut().strict = true;
        engine
    }

    /// A container with this id, name `<project>-<service>-1`, labels of its own, in state
    /// `Created`. Change the fields and give it to [`Self::add_container`].
    pub fn sample(id: &str, project: &str, service: &str, labels: &[(&str, &str)]) -> Container {
        let mut all: BTreeMap<String, String> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        all.insert("com.docker.compose.project".to_owned(), project.to_owned());
        all.insert("com.docker.compose.service".to_owned(), service.to_owned());
        all.insert("com.docker.compose.container-number".to_owned(), "1".to_owned());
        Container {
            id: id.to_owned(),
            name: format!("{project}-{service}-1"),
            service: Some(service.to_owned()),
            number: 1,
            project: Some(project.to_owned()),
            image: format!("{service}:1"),
            image_id: format!("sha256:{service}"),
            labels: all,
            status: Status::Created,
            health: Health::None,
            published: Vec::new(),
            created: 1,
            oneoff: false,
            networks: BTreeMap::new(),
            mounts: Vec::new(),
        }
    }

    /// Puts a container there, or in the place of the one with its id.
    pub fn add_container(&self, container: Container) {
        self.state.borrow_mut().containers.insert(container.id.clone(), container);
    }

    /// What `inspect` says beyond the list: its status, health, name and labels stay the list's.
    pub fn add_detail(&self, detail: Detail) {
        self.state.borrow_mut().details.insert(detail.id.clone(), detail);
    }

    /// Puts a network there.
    pub fn add_network(&self, network: Network) {
        self.state.borrow_mut().networks.insert(network.id.clone(), network);
    }

    /// Puts a volume of this size in bytes there.
    pub fn add_volume(&self, volume: Volume, size: i64) {
        let mut state = self.state.borrow_mut();
        state.sizes.insert(volume.name.clone(), size);
        state.volumes.insert(volume.name.clone(), volume);
    }

    /// Puts an image there under a name.
    pub fn add_image(&self, name: &str, image: Image) {
        self.state.borrow_mut().images.insert(name.to_owned(), image);
    }

    /// A container's log.
    pub fn set_logs(&self, id: &str, lines: Vec<Result<LogLine, EngineError>>) {
        self.state.borrow_mut().logs.insert(id.to_owned(), lines);
    }

    /// Another daemon identity.
    pub fn set_daemon(&self, daemon: Daemon) {
        self.state.borrow_mut().daemon = daemon;
    }

    /// Changes a container, as Docker would by itself.
    ///
    /// # Panics
    /// When there is none of that id.
    pub fn change(&self, id: &str, change: impl FnOnce(&mut Container)) {
        let mut state = self.state.borrow_mut();
        change(state.containers.get_mut(id).expect("a container of that id"));
    }

    /// Lets one more writing call through: its line, or the start of it with a `*` at the end.
    pub fn expect(&self, call: &str) {
        self.state.borrow_mut().expected.push(call.to_owned());
    }

    /// Fails when a call that was expected has not come.
    ///
    /// # Panics
    /// Then.
    pub fn assert_all_came(&self) {
        let state = self.state.borrow();
        assert!(
            state.expected.is_empty(),
            "calls that did not come: {:?}; those that did: {:?}",
            state.expected,
            state.calls
        );
    }

    /// The next call whose line is this one (or starts so, with a `*` at the end) fails; it changes
    /// nothing.
    pub fn fail_once(&self, call: &str, error: EngineError) {
        self.state.borrow_mut().failures.push_back((call.to_owned(), error));
    }

    /// Answers every `exec`; without it, all end with code 0 and no output.
    pub fn on_exec(&self, answer: impl FnMut(&str, &ExecRequest) -> Result<ExecOutcome, EngineError> + 'static) {
        self.state.borrow_mut().on_exec = Some(Box::new(answer));
    }

    /// All calls so far, one line each.
    pub fn calls(&self) -> Vec<String> {
        self.state.borrow().calls.clone()
    }

    /// The writing calls so far.
    pub fn writes(&self) -> Vec<String> {
        self.calls().into_iter().filter(|call| !is_read(call)).collect()
    }

    /// What `put_archive` got: container, path, archive.
    pub fn archives(&self) -> Vec<(String, String, Vec<u8>)> {
        self.state.borrow().archives.clone()
    }

    /// An event of a container, to every subscriber whose filter it passes. Changes no state.
    pub fn emit(&self, id: &str, kind: EventKind) {
        self.state.borrow_mut().emit(id, kind);
    }

    /// Sets a container's health and tells the subscribers.
    pub fn set_health(&self, id: &str, health: Health) {
        self.change(id, |container| container.health = health);
        self.emit(id, EventKind::Health(health));
    }

    /// A container's process ends by itself.
    pub fn exit(&self, id: &str, code: i32) {
        self.change(id, |container| container.status = Status::Exited(code));
        self.emit(id, EventKind::Die { code });
    }

    /// All event streams end with the error of a lost connection.
    pub fn break_events(&self) {
        for (_, sender) in self.state.borrow_mut().subscribers.drain(..) {
            let _ = sender.send(Err(lost()));
        }
    }

    fn record(&self, call: &str) -> Result<(), EngineError> {
        let mut state = self.state.borrow_mut();
        state.calls.push(call.to_owned());
        if state.strict && !is_read(call) {
            match state.expected.iter().position(|pattern| fits(pattern, call)) {
                Some(at) => {
                    state.expected.remove(at);
                }
                None => panic!("no test expects the call `{call}`; still expected: {:?}", state.expected),
            }
        }
        match state.failures.iter().position(|(pattern, _)| fits(pattern, call)) {
            Some(at) => match state.failures.remove(at) {
                Some((_, error)) => Err(error),
                None => Ok(()),
            },
            None => Ok(()),
        }
    }

    fn with<T>(
        &self,
        id: &str,
        act: impl FnOnce(&mut State, &str) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let mut state = self.state.borrow_mut();
        let found = state
            .containers
            .values()
            .find(|container| container.id == id || container.name == id)
            .map(|container| container.id.clone());
        match found {
            Some(id) => act(&mut state, &id),
            None => Err(EngineError::NotFound { what: format!("container `{id}`") }),
        }
    }

    fn set(&self, id: &str, status: Status, kind: EventKind) -> Result<(), EngineError> {
        self.with(id, |state, id| {
            if let Some(container) = state.containers.get_mut(id) {
                container.status = status;
            }
            state.emit(id, kind);
            Ok(())
        })
    }
}

impl State {
    fn emit(&mut self, id: &str, kind: EventKind) {
        self.clock += 1_000_000;
        let Some(container) = self.containers.get(id) else {
            return;
        };
        let event = Event {
            time_ns: self.clock,
            kind,
            container: container.id.clone(),
            name: container.name.clone(),
            service: container.service.clone(),
            labels: container.labels.clone(),
        };
        self.subscribers.retain(|(filter, sender)| {
            !has_label(&event.labels, Some(filter)) || sender.send(Ok(event.clone())).is_ok()
        });
    }
}

fn is_read(call: &str) -> bool {
    READS.contains(&call.split(' ').next().unwrap_or_default())
}

fn fits(pattern: &str, call: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => call.starts_with(start),
        None => pattern == call,
    }
}

/// Docker's label filter: `KEY` or `KEY=VALUE`.
fn has_label(labels: &BTreeMap<String, String>, filter: Option<&str>) -> bool {
    match filter.map(|filter| filter.split_once('=').unwrap_or((filter, ""))) {
        None => true,
        Some((key, wanted)) => {
            labels.get(key).is_some_and(|value| value == wanted || !filter.is_some_and(|filter| filter.contains('=')))
        }
    }
}

fn lost() -> EngineError {
    EngineError::Unreachable { endpoint: "fake".to_owned(), cause: "the event stream ended".to_owned() }
}

fn plain_detail(container: &Container) -> Detail {
    let never = "0001-01-01T00:00:00Z".to_owned();
    Detail {
        id: container.id.clone(),
        name: container.name.clone(),
        status: container.status,
        started_at: never.clone(),
        finished_at: never,
        exit_code: 0,
        error: String::new(),
        oom_killed: false,
        restart_count: 0,
        health: container.health,
        health_log: None,
        health_check: None,
        env: Vec::new(),
        image_id: container.image_id.clone(),
        tty: false,
        mounts: Vec::new(),
        labels: container.labels.clone(),
        restart_policy: "no".to_owned(),
        stop_timeout: None,
        user: String::new(),
        readonly_rootfs: false,
        tmpfs: Vec::new(),
    }
}

mod behaviour;
#[cfg(test)]
mod tests;
