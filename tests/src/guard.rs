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
