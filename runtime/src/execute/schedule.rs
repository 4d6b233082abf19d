//! All services at once, each as soon as it may.

use std::cell::RefCell;
use std::time::Duration;

use futures_util::stream::{self, FuturesUnordered};
use futures_util::{FutureExt, Stream, StreamExt};

use super::board::{Board, Stage};
use super::service::Trouble;
use super::{Execution, Outcome};
use crate::decide::Step;
use crate::engine::{self, Container, Engine, EventStream, LogRequest, Status};
use crate::error::{Error, Kind, Result};
use crate::observe;
use crate::report::Progress;

/// Between two tries to subscribe to Docker's events again.
const RECONNECT: Duration = Duration::from_millis(500);

impl<E: Engine> Execution<'_, E> {
    pub(super) async fn schedule(&self, steps: &[&Step], outcome: &mut Outcome) -> Result<()> {
        let board = Board::default();
        // Subscribed first, listed second: nothing falls between.
        let events = self.events(self.engine.subscribe(&self.filter()).await?);
        futures_util::pin_mut!(events);
        let containers = match outcome.containers.clone() {
            Some(containers) => containers,
            None => observe::containers(self.engine, self.install, &self.plan.placement.instance_id).await?,
        };
        for name in self.settled {
            let mut own = containers.iter().filter(|container| container.service.as_deref() == Some(name)).peekable();
            let ended = own.peek().is_some() && own.all(|container| container.status == Status::Exited(0));
            board.set(name, if ended { Stage::Completed } else { Stage::Ready });
        }
        let mut held = None;
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
                event = events.next() => match event.flatten() {
                    Some(event) => board.take(&event),
                    None => board.nudge(),
                },
                done = tasks.next() => match done {
                    None => return held.map_or(Ok(()), |name: String| Err(never_started(&name))),
                    Some(Ok(())) => {}
                    Some(Err((_, Trouble::Other(error)))) => return Err(error),
                    Some(Err((name, Trouble::Service { container, what }))) => {
                        let what = self.masker.mask(&what);
                        self.say(&name, Progress::Failed(what.clone()));
                        return Err(self.failed(&name, &container, &what).await);
                    }
                    // The one that holds it is told, unless that ended well.
                    Some(Err((name, Trouble::Held))) => held = held.or(Some(name)),
                },
                () = &mut deadline => return Err(self.late(&work, &board).await),
            }
        }
    }

    /// Docker's events; `None` when the stream was opened anew, and something may have been missed.
    /// It never ends: opening it is tried again until nobody asks any more.
    fn events(&self, first: EventStream) -> impl Stream<Item = Option<engine::Event>> + '_ {
        stream::unfold(Some(first), move |open| async move {
            if let Some(mut events) = open
                && let Some(Ok(event)) = events.next().await
            {
                return Some((Some(event), Some(events)));
            }
            loop {
                tokio::time::sleep(RECONNECT).await;
                if let Ok(events) = self.engine.subscribe(&self.filter()).await {
                    return Some((None, Some(events)));
                }
            }
        })
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

/// What it waits for ended well, and is not what it needs.
fn never_started(name: &str) -> Error {
    let message = format!("`{name}` was not started: what it needs healthy has ended");
    Error::new(Kind::Unhealthy, "service-failed", message)
        .hint("`sidestack ls` shows what has ended; `depends_on` may name another condition")
}
