//! Things that must go when a test ends, also by a panic.

use std::process::{Child, Command};

use crate::docker;

/// A process that is killed at the end.
#[derive(Debug)]
pub struct Killed(pub Child);

impl Killed {
    /// Starts it.
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A container of the test's own that is removed at the end.
#[derive(Debug)]
pub struct RemovedContainer(pub String);

impl RemovedContainer {
    /// `docker run -d ARGS`.
    #[track_caller]
    pub fn run(args: &[&str]) -> Self {
        let ran = docker(&[&["run", "-d"][..], args].concat()).ok();
        Self(ran.stdout.trim().to_owned())
    }
}

impl Drop for RemovedContainer {
    fn drop(&mut self) {
        docker(&["rm", "-fv", &self.0]);
    }
}

/// A network or a volume of the test's own, without any label of Sidestack's, that is removed at the end.
#[derive(Debug)]
pub struct RemovedObject {
    /// `network` or `volume`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
}

impl RemovedObject {
    /// `docker KIND create ARGS NAME`.
    #[track_caller]
    pub fn create(kind: &'static str, args: &[&str], name: &str) -> Self {
        docker(&[&[kind, "create"][..], args, &[name]].concat()).ok();
        Self { kind, name: name.to_owned() }
    }
}

impl Drop for RemovedObject {
    fn drop(&mut self) {
        // A test that failed leaves containers in it.
        let users = docker(&["ps", "-aq", "--filter", &format!("{}={}", self.kind, self.name)]);
        let users: Vec<&str> = users.stdout.lines().collect();
        if !users.is_empty() {
            docker(&[&["rm", "-f"][..], &users].concat());
        }
        docker(&[self.kind, "rm", &self.name]);
    }
}
