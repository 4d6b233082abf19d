//! The verbs that act on an instance.
//!
//! Each takes the instance's lock, writes its intent, acts, records. The lock is
//! the file that Compose writes to, so a Compose that outlives its parent keeps
//! it. All verbs are idempotent: they look at Docker first and do what is left.

mod again;
mod apply;
mod foresee;
mod only;
mod recorded;
mod remove;
mod stop;
mod up;

use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use sidestack_state::{Instance, Intent, StoreError, Transition};

use crate::api::{Description, StepLine, UpReport, UpRequest};
use crate::decide::Step;
use crate::engine::Daemon;
use crate::engine::compose::Started;
use crate::error::{Error, Kind, Result};
use crate::lock::{InstanceLock, LockError};
use crate::revise::Reading;
use crate::session::Session;
use crate::{files, observe};

/// An instance whose lock is held.
pub(crate) struct Held {
    pub(crate) instance: Instance,
    pub(crate) lock: InstanceLock,
    /// Somebody else held it first, so that what was read before may be old.
    pub(crate) waited: bool,
    /// What verbs meant to do that were killed while they worked on the instance, oldest first.
    pub(crate) interrupted: Vec<Intent>,
    /// A Compose that was started early and writes to the lock's file.
    pub(crate) early: Option<Started>,
    /// What keeps other stores out of its slot while it publishes nothing.
    pub(crate) slot: Option<TcpListener>,
}

/// The code of the error by which [`Session::hold`] says that a removal was finished.
pub(crate) const REMOVED: &str = "removal-finished";

/// How long one try for the lock takes, so that Ctrl-C is heard between two.
const SLICE: Duration = Duration::from_millis(200);

impl Session {
    /// Takes an instance's lock, reads it anew, and finishes what takes data away:
    /// half removed data is nobody's wish. Everything else is put right by the verb.
    ///
    /// # Errors
    /// [`REMOVED`] when an interrupted removal was finished, so that nothing is left to act on.
    pub(crate) fn hold(&self, instance: &Instance, verb: &str, limit: Duration) -> Result<Held> {
        let (lock, waited) = self.lock(instance, verb, limit)?;
        // Whoever held it may have changed or removed the instance.
        let instance = match self.store.instance_by_id(instance.id) {
            Err(StoreError::NotFound { .. }) => {
                let _ = std::fs::remove_file(lock.path());
                let message = format!("{} was removed by another command", instance.target);
                return Err(Error::new(Kind::NotFound, "not-found", message).hint("`sidestack up` makes it anew"));
            }
            read => read.map_err(|error| Error::from(error).about(&instance.target))?,
        };
        let interrupted = self.store.intents_of(instance.id)?;
        for intent in &interrupted {
            self.note(format!(
                "`{}` on {} was interrupted; what is left of it is put right",
                intent.verb, instance.target
            ));
        }
        let held = Held { instance, lock, waited, interrupted, early: None, slot: None };
        let takes_data = held.interrupted.iter().any(|intent| intent.detail == "volumes");
        if held.interrupted.iter().any(|intent| intent.verb == "rm") {
            self.remove_held(&held, takes_data)?;
            let message = format!("the interrupted removal of {} was finished", held.instance.target);
            return Err(Error::new(Kind::NotFound, REMOVED, message).hint("`sidestack up` makes it anew"));
        }
        if takes_data {
            self.right_daemon(&held.instance)?;
            self.clear(&held.instance)?;
            self.remove_volumes(&held.instance)?;
            self.clear_intents(&held.instance)?;
        }
        Ok(held)
    }

    /// The lock, and whether it had to be waited for.
    fn lock(&self, instance: &Instance, verb: &str, limit: Duration) -> Result<(InstanceLock, bool)> {
        let path = self.lock_file(&instance.uid);
        if let Some(folder) = path.parent() {
            files::create_private_dir(folder)?;
        }
        let began = Instant::now();
        let mut told: Option<String> = None;
        loop {
            let mut waiting = |holder: &str| {
                if told.as_deref() != Some(holder) {
                    self.note(format!("waiting for {holder}, which works on {}", instance.target));
                    told = Some(holder.to_owned());
                }
            };
            let slice = SLICE.min(limit.saturating_sub(began.elapsed()));
            match InstanceLock::acquire(&path, verb, slice, &mut waiting) {
                Ok(lock) => return Ok((lock, told.is_some())),
                Err(LockError::Held { .. }) if began.elapsed() < limit => self.check_cancelled()?,
                Err(error) => return Err(Error::from(error).about(&instance.target)),
            }
        }
    }

    /// How `up` and `plan` were asked to read.
    pub(super) fn reading<'a>(
        &self,
        request: &'a UpRequest,
        environment: Option<&'a str>,
        from: &'a Path,
    ) -> Reading<'a> {
        Reading {
            environment,
            from: Some(from),
            named: !request.target.parts.is_empty(),
            files: &request.files,
            profiles: &request.profiles,
            env_files: &request.env_files,
            chosen: Some(&request.chosen),
        }
    }

    /// Ends the intents of an instance.
    pub(crate) fn clear_intents(&self, instance: &Instance) -> Result<()> {
        for intent in self.store.intents_of(instance.id)? {
            self.store.clear_intent(intent.id)?;
        }
        Ok(())
    }

    pub(crate) fn transition(
        &self,
        instance: &Instance,
        verb: &str,
        cause: &str,
        outcome: &str,
        detail: &str,
    ) -> Result<()> {
        let transition = Transition {
            at: jiff::Timestamp::now(),
            verb: verb.to_owned(),
            cause: cause.to_owned(),
            outcome: outcome.to_owned(),
            detail: detail.to_owned(),
        };
        Ok(self.store.add_transition(instance.id, &transition)?)
    }

    /// Refuses a daemon that is not the one the instance lives on.
    pub(crate) fn right_daemon(&self, instance: &Instance) -> Result<String> {
        use crate::engine::Engine;
        let engine = self.engine()?;
        let daemon = self.wait(async { Ok(engine.daemon().await?) })?;
        self.is_right(instance, daemon)
    }

    /// The id of a daemon that answered, when it is the one the instance lives on.
    pub(crate) fn is_right(&self, instance: &Instance, daemon: Daemon) -> Result<String> {
        if let Some(known) = instance.daemon.as_ref().filter(|known| **known != daemon.id) {
            let endpoint = self.endpoint()?;
            let message =
                format!("{} lives on another Docker daemon ({known}) than `{}`", instance.target, endpoint.host);
            let hint = if instance.revived && instance.revision.is_none() {
                "the data that its removed namesake left is there: choose that one with --context or DOCKER_HOST, or start empty here with `sidestack up --fresh`"
            } else {
                "choose the right one with --context or DOCKER_HOST"
            };
            return Err(Error::new(Kind::Conflict, "wrong-daemon", message)
                .detail(format!("this one was chosen since {}", endpoint.rule))
                .hint(hint)
                .about(&instance.target));
        }
        Ok(daemon.id)
    }

    /// All containers of an instance, as Docker has them now.
    pub(crate) fn containers(&self, instance: &Instance) -> Result<Vec<crate::engine::Container>> {
        let engine = self.engine()?;
        self.wait(observe::containers(engine, self.store.install_id(), &instance.uid))
    }
}

/// Steps as they are shown.
pub(crate) fn lines(steps: &[Step]) -> Vec<StepLine> {
    steps.iter().map(|step| StepLine { step: step.to_string(), cause: step.cause() }).collect()
}

/// A report of an instance that was left as it is.
pub(crate) fn unchanged(description: Description, committed: bool) -> UpReport {
    UpReport { description, changed: false, committed, steps: Vec::new() }
}
