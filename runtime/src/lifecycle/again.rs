//! `start`, `restart` and `wait`: the revision that an instance has.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use sidestack_topology::diagnostic::nearest;

use super::apply::How;
use super::only::Only;
use super::unchanged;
use crate::api::{Description, State, TargetWords, UpReport};
use crate::error::{Error, Kind, Result};
use crate::session::Session;

/// Between two looks of `wait`; it follows no events, so that it can run beside any verb.
const LOOK: Duration = Duration::from_millis(200);

impl Session {
    /// Runs the instance's current revision, also after `down`; commits nothing.
    ///
    /// # Errors
    /// Not found, a conflict, a service that fails.
    pub fn start(&self, words: &TargetWords, wait: bool, timeout: Duration) -> Result<UpReport> {
        self.again(words, "start", wait, timeout, BTreeSet::new())
    }

    /// Restarts services, or all of them.
    ///
    /// # Errors
    /// As [`Self::start`]; an unknown service.
    pub fn restart(&self, words: &TargetWords, services: &[String], timeout: Duration) -> Result<UpReport> {
        let instance = self.instance(words)?;
        let revision = instance.revision.ok_or_else(|| nothing_yet(&instance.target.to_string()))?;
        let (_, content) = self.content(instance.environment, revision)?;
        let workspace = self.store.workspace(&instance.target.workspace)?;
        let plan = self.planned(&instance, workspace.id, &content)?.plan;
        for service in services {
            if !plan.services.contains_key(service) {
                let error =
                    Error::new(Kind::NotFound, "no-service", format!("{} has no service `{service}`", instance.target));
                return Err(match nearest(service, plan.services.keys().map(String::as_str)) {
                    Some(near) => error.hint(format!("did you mean `{near}`?")),
                    None => {
                        error.hint(format!("it has {}", plan.services.keys().cloned().collect::<Vec<_>>().join(", ")))
                    }
                });
            }
        }
        let chosen: BTreeSet<String> = if services.is_empty() {
            plan.services.keys().cloned().collect()
        } else {
            services.iter().cloned().collect()
        };
        self.again(words, "restart", true, timeout, chosen)
    }

    fn again(
        &self,
        words: &TargetWords,
        verb: &'static str,
        wait: bool,
        timeout: Duration,
        restart: BTreeSet<String>,
    ) -> Result<UpReport> {
        let instance = self.instance(words)?;
        let mut held = self.hold(&instance, verb, timeout.max(Duration::from_secs(10)))?;
        let revision = held.instance.revision.ok_or_else(|| nothing_yet(&held.instance.target.to_string()))?;
        let workspace = self.store.workspace(&held.instance.target.workspace)?;
        let how = How {
            verb,
            cause: "asked for".to_owned(),
            wait,
            timeout,
            move_ports: false,
            build: false,
            pull: false,
            restart,
            own_ports: None,
            only: Only::AsBefore,
        };
        let applying = self.apply(&mut held, workspace.id, revision, &how)?;
        let description = self.describe_instance(&held.instance, false)?;
        if !applying.changed {
            return Ok(unchanged(description, false));
        }
        Ok(UpReport { description, changed: true, committed: false, steps: applying.steps })
    }

    /// Waits until an instance is ready, whoever brings it up.
    ///
    /// # Errors
    /// At the limit, or when it is not going to be ready.
    pub fn wait_ready(&self, words: &TargetWords, timeout: Duration) -> Result<Description> {
        let began = Instant::now();
        loop {
            let instance = self.instance(words)?;
            let description = self.describe_instance(&instance, false)?;
            match description.state {
                State::Running => return Ok(description),
                State::Stopped => {
                    return Err(Error::new(Kind::Unhealthy, "stopped", format!("{} is stopped", instance.target))
                        .hint(format!("`sidestack start {}` starts it", instance.target)));
                }
                State::Starting | State::Degraded | State::Failed | State::Gone => {}
            }
            if began.elapsed() >= timeout {
                let missing: Vec<String> = description
                    .services
                    .iter()
                    .filter(|service| !service.ready)
                    .map(|service| format!("`{}` ({})", service.name, service.state))
                    .collect();
                let message = format!("not ready after {} s: {}", timeout.as_secs(), missing.join(", "));
                return Err(Error::new(Kind::TimedOut, "timed-out", message)
                    .hint("`sidestack logs` shows what they say")
                    .about(&instance.target));
            }
            self.wait(async {
                tokio::time::sleep(LOOK).await;
                Ok(())
            })?;
        }
    }
}

fn nothing_yet(target: &str) -> Error {
    Error::new(Kind::NotFound, "no-revision", format!("{target} has never run a revision"))
        .hint("`sidestack up` commits one")
}
