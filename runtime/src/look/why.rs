//! `why`: what was last done to an instance, what was seen of it since, and the log lines with it.

use std::time::Duration;

use futures_util::StreamExt;
use jiff::Timestamp;
use sidestack_state::{Desired, Instance, Transition};

use super::WhyReport;
use super::list::parts;
use crate::api::TargetWords;
use crate::engine::{Container, Detail, Engine, LogRequest, Status};
use crate::error::{Kind, Result};
use crate::observe;
use crate::secrets::{Reference, SecretValue};
use crate::session::Session;

/// How many transitions are told.
const TRANSITIONS: u32 = 10;
/// How long a secret may take that is only wanted to be left out.
const RESOLVE: Duration = Duration::from_secs(3);
/// How many lines of each log.
const LINES: u64 = 20;

/// What Docker reports of services that are not as they should be, and their last lines by service.
type Symptoms = (Vec<Transition>, Vec<(String, Vec<String>)>);

impl Session {
    /// The last transitions, newest first, and the last lines of each service that is not as it
    /// should be. What Docker reports of those is told first, as a transition `observed`.
    ///
    /// That Docker cannot be reached is warned of; what the store knows is told all the same.
    ///
    /// # Errors
    /// Not found.
    pub fn why(&self, words: &TargetWords) -> Result<WhyReport> {
        let instance = self.instance(words)?;
        let mut transitions = self.store.history_of(instance.id, TRANSITIONS)?;
        let mut logs = Vec::new();
        match self.symptoms(&instance) {
            Ok((observed, lines)) => {
                transitions.splice(0..0, observed);
                logs = lines;
            }
            Err(error) if error.kind == Kind::Docker => {
                self.warn(format!("{}; only what was done is known, not how it is now", error.message));
            }
            Err(error) => return Err(error.about(&instance.target)),
        }
        Ok(WhyReport { target: instance.target, transitions, logs })
    }

    fn symptoms(&self, instance: &Instance) -> Result<Symptoms> {
        if instance.desired == Desired::Stopped {
            return Ok((Vec::new(), Vec::new()));
        }
        let record = self.record_of(instance)?;
        let held = self.held_secrets(instance)?;
        let mut planned: Option<Vec<SecretValue>> = None;
        let ready = self.store.all_ready()?;
        let engine = self.engine()?;
        let install = self.store.install_id();
        self.wait(async {
            let observed = observe::glance(engine, install, &instance.uid, &ready).await?;
            let containers: Vec<&Container> = observed.containers.iter().collect();
            let (mut seen, mut logs) = (Vec::new(), Vec::new());
            for (name, state) in parts(&record, &containers, &observed, &ready) {
                if state.ready() {
                    continue;
                }
                let mut lines = Vec::new();
                for container in observed.containers.iter().filter(|one| one.service.as_deref() == Some(name)) {
                    let detail = engine.inspect(&container.id).await?;
                    let secrets = planned.get_or_insert_with(|| self.planned_secrets(instance));
                    let mut masker = held.masker(name, &detail.env);
                    secrets.iter().for_each(|value| masker.add(value));
                    let told = observation(name, &state.word, container, &detail);
                    let (cause, more) = (masker.mask(&told.cause), masker.mask(&told.detail));
                    seen.push(Transition { cause, detail: more, ..told });
                    let last = last_lines(engine, &container.id).await;
                    lines.extend(last.iter().map(|line| masker.mask(line)));
                }
                if !containers.iter().any(|one| one.service.as_deref() == Some(name)) {
                    seen.push(Transition {
                        at: Timestamp::now(),
                        verb: "observed".to_owned(),
                        cause: "Docker has no container of it".to_owned(),
                        outcome: format!("{name} {}", state.word),
                        detail: String::new(),
                    });
                }
                if !lines.is_empty() {
                    logs.push((name.to_owned(), lines));
                }
            }
            seen.sort_by_key(|transition| std::cmp::Reverse(transition.at));
            Ok((seen, logs))
        })
    }
}

impl Session {
    /// The values of the secrets that stand in the plan, as far as they can be had within a short
    /// while: a service may print what its environment does not hold. Asked for only when
    /// something is to be shown.
    fn planned_secrets(&self, instance: &Instance) -> Vec<SecretValue> {
        let Ok(planned) = self.planned_as_it_is(instance) else { return Vec::new() };
        let references = planned.plan.secrets().iter().filter_map(|name| name.parse::<Reference>().ok()).collect();
        let base = std::path::PathBuf::from(&planned.plan.placement.checkout);
        let resolver = self.resolver(base).with_timeout(RESOLVE);
        resolver.resolve_all(&references).into_values().filter_map(Result::ok).collect()
    }
}

/// What Docker says of a container, as a line of history.
fn observation(service: &str, word: &str, container: &Container, detail: &Detail) -> Transition {
    let ended = matches!(container.status, Status::Exited(_) | Status::Dead | Status::Restarting);
    let time = if ended { &detail.finished_at } else { &detail.started_at };
    let mut cause = Vec::new();
    if detail.oom_killed {
        cause.push("it was killed for lack of memory".to_owned());
    }
    if !detail.error.is_empty() {
        cause.push(detail.error.clone());
    }
    if detail.restart_count > 0 {
        cause.push(format!("Docker has started it again {} times", detail.restart_count));
    }
    Transition {
        // Docker's zero time, of one that never started, is before the epoch.
        at: time.parse().ok().filter(|at| *at > Timestamp::UNIX_EPOCH).unwrap_or_else(Timestamp::now),
        verb: "observed".to_owned(),
        cause: if cause.is_empty() { "as Docker reports it".to_owned() } else { cause.join("; ") },
        outcome: format!("{service} {word}"),
        detail: detail.health_log.as_deref().map(str::trim).unwrap_or_default().to_owned(),
    }
}

/// The end of a log. A log that cannot be read says so in its place.
async fn last_lines(engine: &impl Engine, id: &str) -> Vec<String> {
    let request = LogRequest { follow: false, since: None, tail: Some(LINES), timestamps: false };
    let mut lines = Vec::new();
    let mut log = engine.logs(id, &request);
    while let Some(line) = log.next().await {
        match line {
            Ok(line) => lines.push(String::from_utf8_lossy(&line.bytes).into_owned()),
            Err(error) => {
                lines.push(format!("(the log cannot be read: {error})"));
                break;
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::FakeEngine;

    #[test]
    fn what_docker_says_becomes_a_line_of_history() {
        let fake = FakeEngine::new();
        let container = Container { status: Status::Exited(137), ..FakeEngine::sample("c", "p", "web", &[]) };
        fake.add_container(container.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut detail = runtime.block_on(fake.inspect("c")).unwrap();
        detail.oom_killed = true;
        detail.restart_count = 2;
        detail.finished_at = "2026-11-30T22:00:00.5Z".to_owned();
        let told = observation("web", "exited 137", &container, &detail);
        assert_eq!(told.outcome, "web exited 137");
        assert_eq!(told.at.to_string(), "2026-11-30T22:00:00.5Z");
        assert!(told.cause.contains("memory") && told.cause.contains("2 times"), "{}", told.cause);
    }
}
