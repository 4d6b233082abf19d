//! Does the steps that were decided. Nothing is decided here: what a step needs
//! is in the step and in the plan.
//!
//! Steps before the first start are done in their order; starts and waits then go
//! on together, each as soon as its dependencies are met ([`schedule`]).

mod board;
mod create;
mod deliver;
mod probe;
mod schedule;
mod service;

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use sidestack_topology::plan::Plan;
use sidestack_topology::render::Rendered;

use crate::decide::Step;
use crate::digest::Secrets;
use crate::engine::compose::{Compose, Started};
use crate::engine::{Container, Engine};
use crate::error::{Error, Kind, Result};
use crate::lock::InstanceLock;
use crate::observe;
use crate::report::{Event, Progress, Reporter};
use crate::secrets::Masker;

/// Everything that a run of steps needs.
pub(crate) struct Execution<'a, E> {
    pub(crate) engine: &'a E,
    /// Needed only when a step creates.
    pub(crate) compose: Option<&'a Compose>,
    /// One that was started already and waits for its model.
    pub(crate) early: Cell<Option<Started>>,
    /// Keeps whether the copy of a volume was finished.
    pub(crate) copying: &'a dyn Fn(&str, bool) -> Result<()>,
    pub(crate) environment: &'a BTreeMap<String, std::ffi::OsString>,
    pub(crate) install: &'a str,
    pub(crate) plan: &'a Plan,
    pub(crate) rendered: &'a Rendered,
    pub(crate) secrets: &'a Secrets,
    pub(crate) masker: &'a Masker,
    pub(crate) lock: &'a InstanceLock,
    pub(crate) tree: &'a Path,
    pub(crate) reporter: &'a dyn Reporter,
    pub(crate) began: Instant,
    /// Wait until everything is ready.
    pub(crate) wait: bool,
    pub(crate) timeout: Duration,
    /// Services that are as they should be.
    pub(crate) settled: &'a BTreeSet<String>,
    /// Build or pull again.
    pub(crate) build: bool,
    pub(crate) pull: bool,
}

/// A copy may take this long whatever the wait's limit is: some hundred megabytes a second.
const COPY: Duration = Duration::from_secs(1_800);

/// What a run of steps learned.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The containers as they are now, when something was created.
    pub(crate) containers: Option<Vec<Container>>,
    /// Containers found ready, with the start that it holds for.
    pub(crate) ready: Vec<(String, String)>,
    /// Containers that ended with 0, by service.
    pub(crate) completed: BTreeMap<String, Vec<String>>,
    /// Services whose provisions were made.
    pub(crate) provisioned: BTreeSet<String>,
    /// Containers that were started.
    pub(crate) started: BTreeSet<String>,
    /// Services that got their files, in every container.
    pub(crate) delivered: BTreeSet<String>,
    /// Services whose containers were all brought to run and looked at.
    pub(crate) reached: BTreeSet<String>,
    /// Of those, the ones whose containers have a health command.
    pub(crate) has_health: BTreeSet<String>,
    /// Anonymous volumes of created containers.
    pub(crate) anonymous: BTreeSet<String>,
    /// Why it ended early.
    pub(crate) failure: Option<Error>,
}

impl<E: Engine> Execution<'_, E> {
    pub(crate) fn say(&self, service: &str, progress: Progress) {
        self.reporter.report(&Event::Service { name: service.to_owned(), progress, after: self.began.elapsed() });
    }

    fn filter(&self) -> String {
        observe::filter(&self.plan.placement.instance_id)
    }

    /// Runs the steps. What was learned is told even when it failed half way.
    pub(crate) async fn run(&self, steps: &[Step]) -> Outcome {
        let mut outcome = Outcome::default();
        if let Err(error) = self.before(steps, &mut outcome).await {
            outcome.failure = Some(error);
            return outcome;
        }
        let scheduled: Vec<&Step> = steps.iter().filter(|step| step.scheduled().is_some()).collect();
        if !scheduled.is_empty()
            && let Err(error) = self.schedule(&scheduled, &mut outcome).await
        {
            outcome.failure = Some(error);
        }
        outcome
    }

    /// The steps that happen one after the other.
    async fn before(&self, steps: &[Step], outcome: &mut Outcome) -> Result<()> {
        for step in steps {
            match step {
                Step::WriteTree { .. } => self.write_tree()?,
                Step::Rename { container, to, .. } => self.engine.rename(container, to).await?,
                Step::Remove { container, service, .. } => {
                    // A server writes its data down when it is asked to end.
                    self.stop_container(container).await?;
                    self.engine.remove(container, true, false).await?;
                    self.say(service, Progress::Removed);
                }
                Step::RemoveNetwork { id, .. } => self.remove_network(id).await?,
                Step::Unpause { container, .. } => self.engine.unpause(container).await?,
                Step::CopyVolume { key, from, to, again, .. } => {
                    self.copy_volume(key, from, to, *again).await?;
                }
                Step::Create { services } | Step::Recreate { services } => {
                    self.before_recreate(services).await?;
                    self.create(services, matches!(step, Step::Recreate { .. })).await?;
                    let all = observe::containers(self.engine, self.install, &self.plan.placement.instance_id).await?;
                    self.all_created(services, &all)?;
                    outcome.containers = Some(all);
                }
                Step::Start { .. } | Step::Restart { .. } | Step::Await { .. } => {}
            }
        }
        Ok(())
    }

    /// Compose stops what it creates again, and knows nothing of hooks that Sidestack runs.
    async fn before_recreate(&self, services: &[(String, String)]) -> Result<()> {
        let hooked = |name: &str| self.plan.services.get(name).is_some_and(|planned| !planned.pre_stop.is_empty());
        if !services.iter().any(|(name, _)| hooked(name)) {
            return Ok(());
        }
        let all = observe::containers(self.engine, self.install, &self.plan.placement.instance_id).await?;
        for container in all.iter().filter(|container| container.status == crate::engine::Status::Running) {
            let Some(service) = container.service.as_deref() else { continue };
            if services.iter().any(|(name, _)| name == service)
                && let Some(planned) = self.plan.services.get(service)
            {
                self.pre_stop(&container.id, planned).await;
            }
        }
        Ok(())
    }

    /// Nothing of the volume is used yet: its containers are created after it.
    async fn copy_volume(&self, key: &str, from: &str, to: &str, again: bool) -> Result<()> {
        (self.copying)(to, false)?;
        if again {
            self.engine.remove_volume(to).await?;
        }
        self.reporter.report(&Event::Phase(format!("copying volume {from}")));
        let mut labels = self.plan.volumes.get(key).map(|volume| volume.labels.clone()).unwrap_or_default();
        labels.insert("com.docker.compose.project".to_owned(), self.plan.project.clone());
        labels.insert("com.docker.compose.volume".to_owned(), key.to_owned());
        self.engine.copy_volume(from, to, &labels, self.timeout.max(COPY)).await?;
        // Before anything can write to it: whatever is killed from here on, it is never made again.
        (self.copying)(to, true)
    }

    /// A container of somebody else in the network is somebody else's business.
    async fn remove_network(&self, id: &str) -> Result<()> {
        self.engine.remove_network(id).await.map_err(|error| {
            Error::from(error).hint(
                "a container that is not this instance's stands in it: remove it, or `docker network disconnect` it",
            )
        })
    }

    /// Compose exits with 0 also when it left something undone.
    fn all_created(&self, services: &[(String, String)], all: &[Container]) -> Result<()> {
        for (service, _) in services {
            let there = all.iter().filter(|container| container.service.as_deref() == Some(service)).count();
            let wanted = self.plan.services.get(service).map_or(0, |planned| planned.replicas as usize);
            if there < wanted {
                let message = format!("Compose made {there} of {wanted} containers of `{service}`");
                return Err(Error::new(Kind::Failed, "create", message)
                    .hint(format!("its output is in `{}`", self.lock.path().display())));
            }
        }
        Ok(())
    }

    fn write_tree(&self) -> Result<()> {
        crate::tree::write(self.tree, self.plan, self.rendered)
    }

    pub(crate) fn output(&self) -> Result<File> {
        self.lock
            .file()
            .try_clone()
            .map_err(|cause| Error::new(Kind::Failed, "lock", format!("the lock file cannot be handed on: {cause}")))
    }
}
