//! `stop` and `down`: neither needs a secret, a source or Compose.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::try_join_all;
use sidestack_state::{Desired, Instance};
use sidestack_topology::order::order;
use sidestack_topology::plan::Hook;

use super::REMOVED;
use crate::api::{Done, TargetWords};
use crate::engine::{Container, Engine};
use crate::error::{Error, Result};
use crate::hooks;
use crate::observe;
use crate::report::{Event, Progress};
use crate::session::Session;

/// How long a stopping verb waits for the lock.
pub(super) const LOCK: Duration = Duration::from_secs(120);

impl Session {
    /// Stops an instance; containers, data and slot stay.
    ///
    /// # Errors
    /// Not found, locked, Docker.
    pub fn stop(&self, words: &TargetWords, grace: Option<u32>) -> Result<Done> {
        let instance = self.instance(words)?;
        let held = match self.hold(&instance, "stop", LOCK) {
            Err(error) if error.code == REMOVED => {
                self.note(error.message);
                return Ok(Done { changed: true, ..self.left_behind(&instance, false)? });
            }
            held => held?,
        };
        let instance = &held.instance;
        // Another daemon has nothing of it, which says nothing about the right one.
        self.right_daemon(instance)?;
        let alive: Vec<Container> = self.containers(instance)?.into_iter().filter(|c| c.status.is_alive()).collect();
        let mut done = Done { target: instance.target.clone(), changed: false, kept: Vec::new(), removed: Vec::new() };
        if alive.is_empty() && instance.desired == Desired::Stopped && held.interrupted.is_empty() {
            return Ok(done);
        }
        done.changed = true;
        self.store.begin_intent(instance.id, "stop", "")?;
        self.store.set_desired(instance.id, Desired::Stopped)?;
        self.halt(instance, &alive, grace).map_err(|error| error.about(&instance.target))?;
        self.transition(instance, "stop", "asked for", "ok", "")?;
        self.clear_intents(instance)?;
        Ok(done)
    }

    /// Removes an instance's containers and networks; its data stays unless told otherwise.
    ///
    /// # Errors
    /// Not found, locked, Docker.
    pub fn down(&self, words: &TargetWords, volumes: bool) -> Result<Done> {
        let instance = self.instance(words)?;
        let held = match self.hold(&instance, "down", LOCK) {
            Err(error) if error.code == REMOVED => {
                self.note(error.message);
                return Ok(Done { changed: true, ..self.left_behind(&instance, volumes)? });
            }
            held => held?,
        };
        let instance = &held.instance;
        self.right_daemon(instance)?;
        let mut done = Done { target: instance.target.clone(), changed: false, kept: Vec::new(), removed: Vec::new() };
        let found = self.everything(instance)?;
        let nothing =
            found.containers.is_empty() && found.networks.is_empty() && (!volumes || found.volumes.is_empty());
        if nothing && instance.desired == Desired::Stopped && held.interrupted.is_empty() {
            done.kept = found.volumes.iter().map(|volume| volume.name.clone()).collect();
            return Ok(done);
        }
        done.changed = true;
        self.store.begin_intent(instance.id, "down", if volumes { "volumes" } else { "" })?;
        self.store.set_desired(instance.id, Desired::Stopped)?;
        let alive: Vec<Container> = found.containers.iter().filter(|c| c.status.is_alive()).cloned().collect();
        self.halt(instance, &alive, None)?;
        done.removed = self.clear(instance)?;
        if volumes {
            done.removed.extend(self.remove_volumes(instance)?);
        } else {
            done.kept = found.volumes.iter().map(|volume| volume.name.clone()).collect();
        }
        self.transition(instance, "down", "asked for", "ok", "")?;
        self.clear_intents(instance)?;
        Ok(done)
    }

    /// Everything that Docker has of an instance.
    pub(crate) fn everything(&self, instance: &Instance) -> Result<observe::Observed> {
        let engine = self.engine()?;
        let install = self.store.install_id();
        self.wait(async {
            let mut found = observe::Observed {
                containers: observe::all_containers(engine, install, &instance.uid).await?,
                ..observe::Observed::default()
            };
            observe::complete(engine, install, &instance.uid, &mut found, None).await?;
            Ok(found)
        })
    }

    /// Stops containers, those that others depend on last.
    pub(crate) fn halt(&self, instance: &Instance, alive: &[Container], grace: Option<u32>) -> Result<()> {
        let ranks = self.ranks(instance);
        let mut levels: BTreeMap<std::cmp::Reverse<usize>, Vec<&Container>> = BTreeMap::new();
        for container in alive {
            let rank = container.service.as_ref().and_then(|service| ranks.get(service)).map_or(0, |(rank, _)| *rank);
            levels.entry(std::cmp::Reverse(rank)).or_default().push(container);
        }
        let engine = self.engine()?;
        for container in alive {
            self.store.forget_ready(&container.id)?;
        }
        for level in levels.into_values() {
            self.wait(async {
                let ranks = &ranks;
                let stops = level.iter().map(|container| async move {
                    let name = container.service.clone().unwrap_or_else(|| container.name.clone());
                    self.progress(&name, Progress::Stopping);
                    let hooks = ranks.get(&name).map_or(&[][..], |(_, hooks)| hooks);
                    if container.status == crate::engine::Status::Running {
                        for what in hooks::pre_stop(engine, &container.id, hooks, None).await {
                            self.warn(format!("{name}: {what}"));
                        }
                    }
                    // Docker revives what has a restart policy and did not exit with 0, also when it was stopped by hand.
                    engine.set_restart_policy(&container.id, "no").await?;
                    if container.status == crate::engine::Status::Paused {
                        engine.unpause(&container.id).await?;
                    }
                    engine.stop(&container.id, grace).await?;
                    self.progress(&name, Progress::Stopped);
                    Ok::<(), Error>(())
                });
                try_join_all(stops).await.map(drop)
            })?;
        }
        Ok(())
    }

    pub(crate) fn progress(&self, name: &str, progress: Progress) {
        self.say(&Event::Service { name: name.to_owned(), progress, after: self.elapsed() });
    }

    /// How deep each service stands in the start order, and its hooks. A revision that cannot be
    /// planned any more is stopped all the same, all at once.
    fn ranks(&self, instance: &Instance) -> BTreeMap<String, (usize, Vec<Hook>)> {
        let planned = || -> Result<BTreeMap<String, (usize, Vec<Hook>)>> {
            let Some(revision) = instance.revision else { return Ok(BTreeMap::new()) };
            let workspace = self.store.workspace(&instance.target.workspace)?;
            let (_, content) = self.content(instance.environment, revision)?;
            let mut plan = self.planned(instance, workspace.id, &content)?.plan;
            let levels = order(&plan).unwrap_or_default();
            let ranks =
                levels.into_iter().enumerate().flat_map(|(rank, names)| names.into_iter().map(move |n| (n, rank)));
            let mut hooks = |name: &String| plan.services.get_mut(name).map(|s| std::mem::take(&mut s.pre_stop));
            Ok(ranks.map(|(name, rank)| (name.clone(), (rank, hooks(&name).unwrap_or_default()))).collect())
        };
        planned().unwrap_or_default()
    }
}
