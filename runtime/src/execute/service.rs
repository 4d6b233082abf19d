//! One service from "its dependencies are met" to "it is ready".

use std::cell::RefCell;
use std::time::Duration;

use sidestack_topology::compose::Condition;
use sidestack_topology::plan::{After, PlannedService, Provisioning};

use super::board::{Board, Stage};
use super::probe::{Ends, Verdict};
use super::{Execution, Outcome};
use crate::decide::{self, Step, edges, may_end};
use crate::digest::filled;
use crate::engine::{Container, Detail, Engine, EngineError, ExecRequest, Status};
use crate::error::{Error, Kind, Result};
use crate::hooks;
use crate::report::{Event, Progress};

/// How long one provision may take.
const PROVISION: Duration = Duration::from_secs(60);

/// How often a start is tried again while its port is taken, and after how long.
const RELEASES: u32 = 4;
const RELEASE: Duration = Duration::from_millis(100);

/// Why a service did not become ready.
#[derive(Debug, Clone)]
pub(super) enum Trouble {
    /// The service itself went wrong; what, and in which container.
    Service { container: String, what: String },
    /// It was not started, since another one went wrong.
    Held,
    /// Something else.
    Other(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<EngineError> for Trouble {
    fn from(error: EngineError) -> Self {
        Self::Other(error.into())
    }
}

impl<E: Engine> Execution<'_, E> {
    /// Brings one service up. What is learned goes into `outcome`.
    pub(super) async fn bring(
        &self,
        step: &Step,
        containers: &[Container],
        board: &Board,
        outcome: &RefCell<&mut Outcome>,
    ) -> Result<(), (String, Trouble)> {
        let name = step.scheduled().unwrap_or_default().to_owned();
        let result = self.bring_inner(&name, step, containers, board, outcome).await;
        if let Err(trouble) = result {
            board.set(&name, Stage::Failed);
            return Err((name, trouble));
        }
        Ok(())
    }

    async fn bring_inner(
        &self,
        name: &str,
        step: &Step,
        containers: &[Container],
        board: &Board,
        outcome: &RefCell<&mut Outcome>,
    ) -> Result<(), Trouble> {
        let Some(planned) = self.plan.services.get(name) else { return Ok(()) };
        if !matches!(step, Step::Await { .. }) {
            self.await_dependencies(name, board).await?;
        }
        let mut details = Vec::new();
        let mut delivered = true;
        for container in containers {
            let (detail, got) = self.start_one(name, planned, step, container, board, outcome).await?;
            details.push(detail);
            delivered &= got;
        }
        if delivered && !details.is_empty() {
            outcome.borrow_mut().delivered.insert(name.to_owned());
        }
        outcome.borrow_mut().reached.insert(name.to_owned());
        board.set(name, Stage::Started);
        self.say(name, Progress::Starting);
        if details
            .iter()
            .any(|detail| detail.health_check.as_ref().is_some_and(|check| super::probe::command(check).is_some()))
        {
            outcome.borrow_mut().has_health.insert(name.to_owned());
        }
        let anonymous =
            details.iter().flat_map(|d| &d.mounts).filter(|m| m.kind == "volume" && decide::is_anonymous(&m.name));
        outcome.borrow_mut().anonymous.extend(anonymous.map(|mount| mount.name.clone()));
        if !self.wait && !self.is_awaited(name) && planned.provisions.is_empty() {
            return Ok(());
        }
        let mut completed = 0;
        let mut up = Vec::new();
        let ends = Ends { policy: policy(planned), well: may_end(planned) && !self.is_wanted_healthy(name) };
        for detail in &details {
            match self.probe(&detail.id, detail, ends, board).await? {
                Verdict::Ready => up.push(detail.id.as_str()),
                Verdict::Completed => {
                    completed += 1;
                    outcome.borrow_mut().completed.entry(name.to_owned()).or_default().push(detail.id.clone());
                }
                Verdict::Failed(what) => return Err(Trouble::Service { container: detail.id.clone(), what }),
            }
        }
        if let Some(first) = details.first() {
            for provision in &planned.provisions {
                self.provision(&first.id, provision).await?;
            }
            if !planned.provisions.is_empty() {
                outcome.borrow_mut().provisioned.insert(name.to_owned());
            }
        }
        if completed > 0 && completed == details.len() {
            board.set(name, Stage::Completed);
            self.say(name, Progress::Completed);
            return Ok(());
        }
        if !planned.one_shot {
            board.set(name, Stage::Ready);
            self.say(name, Progress::Ready);
        }
        // What waits for this one starts meanwhile.
        for id in up {
            let started = self.engine.inspect(id).await?.started_at;
            outcome.borrow_mut().ready.push((id.to_owned(), started));
        }
        if planned.one_shot {
            return self.await_end(name, &details, board, outcome).await;
        }
        Ok(())
    }

    async fn await_dependencies(&self, name: &str, board: &Board) -> Result<(), Trouble> {
        let mut said = false;
        for (dependency, after) in edges(self.plan, name) {
            loop {
                match board.met(&dependency, after.condition) {
                    Ok(true) => break,
                    Err(()) if after.required => return Err(Trouble::Held),
                    Err(()) => break,
                    Ok(false) => {}
                }
                if !said {
                    said = true;
                    self.say(name, Progress::Waiting);
                }
                board.changed().await;
            }
        }
        Ok(())
    }

    /// Somebody waits for more than its start.
    fn is_awaited(&self, name: &str) -> bool {
        self.plan
            .services
            .keys()
            .any(|other| edges(self.plan, other).get(name).is_some_and(|after| after.condition != Condition::Started))
    }

    /// Somebody needs it up and healthy, so that an end is none.
    fn is_wanted_healthy(&self, name: &str) -> bool {
        self.plan.services.keys().any(|other| {
            let healthy = |after: &After| after.required && after.condition == Condition::Healthy;
            edges(self.plan, other).get(name).is_some_and(healthy)
        })
    }

    /// Starts a container. Docker lets go of a port a moment after the container that had it ended, so what was just
    /// replaced may hold it still.
    async fn start_container(&self, id: &str) -> Result<(), EngineError> {
        for _ in 0..RELEASES {
            match self.engine.start(id).await {
                Err(EngineError::PortTaken { .. }) => tokio::time::sleep(RELEASE).await,
                result => return result,
            }
        }
        self.engine.start(id).await
    }

    /// A container from whatever it is to running. Whether it got its files is told too.
    async fn start_one(
        &self,
        name: &str,
        planned: &PlannedService,
        step: &Step,
        container: &Container,
        board: &Board,
        outcome: &RefCell<&mut Outcome>,
    ) -> Result<(Detail, bool), Trouble> {
        let id = container.id.as_str();
        let mut detail = self.engine.inspect(id).await?;
        let keeps_running = matches!(step, Step::Await { .. } | Step::Start { .. }) && detail.status.is_alive();
        let ended_well = matches!(detail.status, Status::Exited(0)) && matches!(step, Step::Await { .. });
        let policy = policy(planned);
        if keeps_running || ended_well {
            // A stop that was killed leaves it without its policy.
            if keeps_running && detail.restart_policy != policy {
                self.engine.set_restart_policy(id, policy).await?;
            }
            return Ok((detail, false));
        }
        if detail.status.is_alive() {
            self.say(name, Progress::Stopping);
            if detail.status == Status::Running {
                self.pre_stop(id, planned).await;
            }
            self.stop_container(id).await?;
            // It has no restart policy any more.
            detail = self.engine.inspect(id).await?;
        }
        self.deliver(id, &planned.deliveries, &detail).await?;
        if detail.restart_policy != policy {
            self.engine.set_restart_policy(id, policy).await?;
        }
        board.fresh(id);
        // Also when the start fails: what was known of its last life is over.
        outcome.borrow_mut().started.insert(id.to_owned());
        self.start_container(id).await?;
        detail.status = Status::Running;
        self.deliver_late(id, &planned.deliveries, &detail).await?;
        for hook in &planned.post_start {
            let result = self.engine.exec(id, &hooks::request(hook, self.secrets)).await;
            if let Some(what) = hooks::failure("post_start", hook, &result) {
                return Err(Trouble::Service { container: id.to_owned(), what });
            }
        }
        Ok((detail, true))
    }

    /// Runs the hooks of a container that is about to be stopped.
    pub(super) async fn pre_stop(&self, id: &str, planned: &PlannedService) {
        for what in hooks::pre_stop(self.engine, id, &planned.pre_stop, Some(self.secrets)).await {
            self.reporter.report(&Event::Warning(what));
        }
    }

    /// Stops a container for good: Docker revives what has a restart policy and
    /// exited with an error, also when it was stopped by hand.
    pub(super) async fn stop_container(&self, id: &str) -> Result<()> {
        self.engine.set_restart_policy(id, "no").await?;
        self.engine.stop(id, None).await?;
        Ok(())
    }

    /// A one-shot is waited for to its end.
    async fn await_end(
        &self,
        name: &str,
        details: &[Detail],
        board: &Board,
        outcome: &RefCell<&mut Outcome>,
    ) -> Result<(), Trouble> {
        for detail in details {
            loop {
                // Not by events: the end of a life before this one may be heard late, and one that
                // is started again has not ended.
                let now = self.engine.inspect(&detail.id).await?;
                match now.status {
                    Status::Exited(0) => break,
                    Status::Exited(code) => {
                        let what = super::probe::ended(code, now.oom_killed);
                        return Err(Trouble::Service { container: detail.id.clone(), what });
                    }
                    _ => {
                        tokio::select! {
                            () = board.changed() => {}
                            () = tokio::time::sleep(Duration::from_secs(1)) => {}
                        }
                    }
                }
            }
            outcome.borrow_mut().completed.entry(name.to_owned()).or_default().push(detail.id.clone());
        }
        board.set(name, Stage::Completed);
        self.say(name, Progress::Completed);
        Ok(())
    }

    /// Makes something inside; the command is idempotent, so that a server that is
    /// still busy may be asked again.
    async fn provision(&self, id: &str, provision: &Provisioning) -> Result<(), Trouble> {
        let mut request = ExecRequest::new(
            provision.command.iter().map(|word| filled(word, self.secrets)).collect::<Vec<_>>(),
            PROVISION,
        );
        request.user.clone_from(&provision.user);
        request.stdin = provision.stdin.as_ref().map(|text| filled(text, self.secrets).into_bytes());
        let mut pause = Duration::from_millis(100);
        for last in [false, false, false, true] {
            let done = self.engine.exec(id, &request).await?;
            if done.code == 0 {
                return Ok(());
            }
            if last {
                let message = format!(
                    "`{}` of resource `{}` could not be made in {}",
                    provision.name, provision.resource, provision.kind
                );
                let said = self.masker.mask(String::from_utf8_lossy(&done.stderr).trim());
                let error = Error::new(Kind::Unhealthy, "provision", message)
                    .detail(said.lines().last().unwrap_or_default().to_owned());
                return Err(Trouble::Other(error));
            }
            tokio::time::sleep(pause).await;
            pause *= 3;
        }
        Ok(())
    }
}

/// The restart policy that is wanted.
fn policy(planned: &PlannedService) -> &str {
    planned.compose.restart.as_deref().filter(|policy| !policy.is_empty()).unwrap_or("no")
}
