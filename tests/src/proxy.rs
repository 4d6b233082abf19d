//! A socket between Sidestack and Docker that notes every request line, and
//! changes or holds what it is told to.
//!
//! Events say what Docker did; only the requests say what it was asked. A request
//! that is held holds the program in the middle of what it does. A text that is
//! changed on its way makes another daemon of the one that there is.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{World, docker};

/// A recording proxy. It lives as long as the test's process.
#[derive(Debug, Clone)]
pub struct Recorder {
    path: PathBuf,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Request lines since they were last taken.
    lines: Vec<String>,
    /// What is replaced in answers, each by a text of the same length.
    swaps: Vec<(Vec<u8>, Vec<u8>)>,
    /// Requests with this in their line are held.
    gate: Option<String>,
    /// How many are held.
    held: usize,
    /// Of each time that the gate was opened, whether what it held went on.
    opened: Vec<bool>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A test that failed has nothing half done in it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorder {
    /// Listens at `path` and passes everything on to the engine of `DOCKER_HOST`, or
    /// to the usual socket. `None` when that is no socket of this machine.
    pub fn listen(path: &Path) -> Option<Self> {
        let host = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".into());
        let engine = PathBuf::from(host.strip_prefix("unix://")?);
        let listener = UnixListener::bind(path).unwrap();
        let shared = Arc::new(Shared::default());
        let all = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = UnixStream::connect(&engine) else { continue };
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (there, back) = (Arc::clone(&all), Arc::clone(&all));
                std::thread::spawn(move || ask(from, to, &there));
                std::thread::spawn(move || answer(server, client, &back));
            }
        });
        Some(Self { path: path.to_owned(), shared })
    }

    /// Its `DOCKER_HOST`.
    pub fn host(&self) -> String {
        format!("unix://{}", self.path.display())
    }

    /// The request lines since the last call, `POST /v1.41/containers/create?name=x`.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.state().lines)
    }

    /// Those among them that may change something.
    pub fn take_writes(&self) -> Vec<String> {
        self.take().into_iter().filter(|line| !line.starts_with("GET ") && !line.starts_with("HEAD ")).collect()
    }

    /// From now on another daemon answers: one that has another id, and nothing that a world's store made.
    pub fn is_another_daemon(&self, world: &World) {
        let id = docker(&["info", "--format", "{{.ID}}"]).ok().stdout.trim().to_owned();
        let label = world.label().unwrap();
        let install = label.rsplit('=').next().unwrap().to_owned();
        let other = |text: &str| text.chars().rev().collect::<String>();
        let swaps = [id, install].map(|text| (text.clone().into_bytes(), other(&text).into_bytes()));
        self.shared.state().swaps = swaps.into();
    }

    /// From now on it is the daemon that it is.
    pub fn is_the_daemon(&self) {
        self.shared.state().swaps.clear();
    }

    /// From now on requests with `text` in their line are held.
    pub fn hold(&self, text: &str) {
        let mut state = self.shared.state();
        state.gate = Some(text.to_owned());
        state.held = 0;
    }

    /// Waits until a request is held.
    #[track_caller]
    pub fn holds(&self, within: Duration) {
        let state = self.shared.state();
        let (state, _) = self.shared.changed.wait_timeout_while(state, within, |state| state.held == 0).unwrap();
        assert!(state.held > 0, "nothing came to {:?} within {within:?}: {:#?}", state.gate, state.lines);
    }

    /// Lets what is held go on.
    pub fn let_go(&self) {
        self.open(true);
    }

    /// What is held never reaches the engine: whoever asked is gone.
    pub fn forget(&self) {
        self.open(false);
    }

    fn open(&self, goes_on: bool) {
        let mut state = self.shared.state();
        state.gate = None;
        state.opened.push(goes_on);
        drop(state);
        self.shared.changed.notify_all();
    }
}

/// From the program to the engine.
fn ask(mut from: UnixStream, mut to: UnixStream, shared: &Shared) {
    let mut buffer = [0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let chunk = &buffer[..count];
        if !noted(chunk, shared) {
            let _ = from.shutdown(Shutdown::Both);
            break;
        }
        if to.write_all(chunk).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// From the engine to the program.
fn answer(mut from: UnixStream, mut to: UnixStream, shared: &Shared) {
    let mut buffer = [0; 64 * 1024];
    let mut kept = Vec::new();
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..count]);
        let swaps = shared.state().swaps.clone();
        for (text, other) in &swaps {
            swap(&mut kept, text, other);
        }
        // What may be the beginning of a text waits for its rest.
        let begins = |at: &usize| swaps.iter().any(|(text, _)| text.starts_with(&kept[*at..]));
        let longest = swaps.iter().map(|(text, _)| text.len()).max().unwrap_or(0);
        let end = (kept.len().saturating_sub(longest)..kept.len()).find(begins).unwrap_or(kept.len());
        let rest = kept.split_off(end);
        if to.write_all(&kept).is_err() {
            break;
        }
        kept = rest;
    }
    let _ = to.write_all(&kept);
    let _ = to.shutdown(Shutdown::Write);
}

/// Notes the request lines of a chunk; returns when it may go on, and whether it may.
///
/// Request lines are short, and both clients write a head at once, so a line is
/// never torn in practice; a torn one would only be missed, never invented.
fn noted(chunk: &[u8], shared: &Shared) -> bool {
    let methods = ["GET ", "HEAD ", "POST ", "PUT ", "DELETE "];
    let mut state = shared.state();
    let mut stays = false;
    for line in String::from_utf8_lossy(chunk).split("\r\n") {
        let Some(line) = line.strip_suffix(" HTTP/1.1") else { continue };
        if !methods.iter().any(|method| line.starts_with(method)) {
            continue;
        }
        stays |= state.gate.as_ref().is_some_and(|text| line.contains(text.as_str()));
        state.lines.push(line.to_owned());
    }
    if !stays {
        return true;
    }
    state.held += 1;
    shared.changed.notify_all();
    let time = state.opened.len();
    let state = shared.changed.wait_while(state, |state| state.opened.len() == time);
    state.unwrap_or_else(PoisonError::into_inner).opened[time]
}

/// Both texts are of one length, so that nothing else of a message has to change.
fn swap(message: &mut [u8], text: &[u8], other: &[u8]) {
    let mut at = 0;
    while let Some(found) = message[at..].windows(text.len()).position(|window| window == text) {
        at += found;
        message[at..at + text.len()].copy_from_slice(other);
        at += text.len();
    }
}
