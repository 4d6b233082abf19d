//! All services at once, each as soon as it may.

use std::cell::RefCell;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};

use super::board::{Board, Stage};
use super::service::Trouble;
use super::{Execution, Outcome};
use crate::decide::Step;
use crate::engine::{Container, Engine, LogRequest};
use crate::error::{Error, Kind, Result};
use crate::observe;
use crate::report::Progress;

/// Between two tries to subscribe to Docker's events again.
const RECONNECT: Duration = Duration::from_millis(500);

impl<E: Engine> Execution<'_, E> {
    pub(super) async fn schedule(&self, steps: &[&Step], outcome: &mut Outcome) -> Result<()> {
        let board = Board::default();
        for name in self.settled {
            let one_shot = self.plan.services.get(name).is_some_and(|planned| planned.one_shot);
            board.set(name, if one_shot { Stage::Completed } else { Stage::Ready });
        }
        // Subscribed first, listed second: nothing falls between.
        let mut events = self.engine.subscribe(&self.filter()).await?;
        let containers = match outcome.containers.clone() {
            Some(containers) => containers,
            None => observe::containers(self.engine, self.install, &self.plan.placement.instance_id).await?,
        };
        let shared = RefCell::new(outcome);
        let of = |step: &Step| -> Vec<Container> {
            let name = step.scheduled();
            containers.iter().filter(|container| container.service.as_deref() == name).cloned().collect()
        };
        let work: Vec<(&Step, Vec<Container>)> = steps.iter().map(|step| (*step, of(step))).collect();
        let mut tasks: FuturesUnordered<_> =
            work.iter().map(|(step, containers)| self.bring(step, containers, &board, &shared)).collect();
        let deadline = tokio::time::sleep(self.timeout).fuse();
        futures_util::pin_mut!(deadline);
        loop {
            tokio::select! {
                biased;
                event = events.next() => match event {
                    Some(Ok(event)) => board.take(&event),
                    Some(Err(_)) | None => {
                        tokio::time::sleep(RECONNECT).await;
                        events = self.engine.subscribe(&self.filter()).await?;
                        board.nudge();
                    }
                },
                done = tasks.next() => match done {
                    None => return Ok(()),
                    Some(Ok(())) => {}
                    Some(Err((_, Trouble::Other(error)))) => return Err(error),
                    Some(Err((name, Trouble::Service { container, what }))) => {
                        self.say(&name, Progress::Failed(what.clone()));
                        return Err(self.failed(&name, &container, &what).await);
                    }
                    // The one that holds it is told.
                    Some(Err((_, Trouble::Held))) => {}
                },
                () = &mut deadline => return Err(self.late(&work, &board).await),
            }
        }
    }

    /// A service's failure with the end of its log.
    async fn failed(&self, name: &str, container: &str, what: &str) -> Error {
        let mut error = Error::new(Kind::Unhealthy, "service-failed", format!("`{name}` failed: {what}"));
        error.detail = self.last_lines(container).await;
        error.hint(format!("`sidestack logs {name}` shows more"))
    }

    /// The wait's limit, with who is not ready and the end of the first one's log.
    async fn late(&self, work: &[(&Step, Vec<Container>)], board: &Board) -> Error {
        let mut missing = Vec::new();
        let mut first = None;
        for (step, containers) in work {
            let name = step.scheduled().unwrap_or_default();
            match board.stage(name) {
                Stage::Ready | Stage::Completed => {}
                Stage::Pending => missing.push(format!("`{name}` (waits for others)")),
                Stage::Started | Stage::Failed => {
                    missing.push(format!("`{name}`"));
                    first = first.or(containers.first());
                }
            }
        }
        let seconds = self.timeout.as_secs();
        let mut error =
            Error::new(Kind::TimedOut, "timed-out", format!("not ready after {seconds} s: {}", missing.join(", ")));
        if let Some(container) = first {
            error.detail = self.last_lines(&container.id).await;
        }
        error.hint("it goes on starting; `sidestack wait` waits longer, `sidestack logs` shows what it says")
    }

    async fn last_lines(&self, container: &str) -> Vec<String> {
        let request = LogRequest { tail: Some(5), ..LogRequest::default() };
        let mut lines = Vec::new();
        let mut log = self.engine.logs(container, &request);
        while let Ok(Some(Ok(line))) = tokio::time::timeout(Duration::from_secs(2), log.next()).await {
            lines.push(self.masker.mask(String::from_utf8_lossy(&line.bytes).trim_end()));
        }
        lines
    }
}
