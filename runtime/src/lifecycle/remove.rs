//! What takes things away. Everything is listed by label and removed by id; what
//! does not bear this store's label is never touched.

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use sidestack_state::{Desired, Instance, Store, StoreError};
use sidestack_topology::names::{InstanceName, Target};

use super::stop::LOCK;
use super::{Held, REMOVED};
use crate::api::{Done, TargetWords};
use crate::engine::{Engine, EngineError};
use crate::error::{Error, Kind, Result};
use crate::record::Record;
use crate::report::Progress;
use crate::session::Session;
use crate::{observe, tree};

impl Session {
    /// Removes an instance; `volumes` also removes its data.
    ///
    /// Without it the data stays and the next instance of that name takes it over.
    ///
    /// `force` throws away what was changed and not committed in a worktree that Sidestack made.
    ///
    /// # Errors
    /// Not found, locked, Docker; changes in a worktree.
    pub fn rm(&self, words: &TargetWords, volumes: bool, force: bool) -> Result<Done> {
        let instance = match self.instance(words) {
            Ok(instance) => instance,
            Err(error) if error.kind == Kind::NotFound => return self.rm_gone(words, volumes, error),
            Err(error) => return Err(error),
        };
        let worktree = self.releasing(&instance, volumes, force)?;
        let done = self.rm_instance(&instance, volumes)?;
        if let Some(lock) = worktree {
            let _ = std::fs::remove_file(lock.path());
        }
        Ok(done)
    }

    fn rm_instance(&self, instance: &Instance, volumes: bool) -> Result<Done> {
        match self.hold(instance, "rm", LOCK) {
            Ok(held) => self.remove_held(&held, volumes),
            Err(error) if error.code == REMOVED => Ok(Done { changed: true, ..self.left_behind(instance, volumes)? }),
            // Another `rm` was faster.
            Err(error) if error.kind == Kind::NotFound && self.is_gone(instance)? => {
                self.left_behind(instance, volumes)
            }
            Err(error) => Err(error),
        }
    }

    fn is_gone(&self, instance: &Instance) -> Result<bool> {
        match self.store.instance_by_id(instance.id) {
            Err(StoreError::NotFound { .. }) => Ok(true),
            read => Ok(read.map(|_| false)?),
        }
    }

    /// On what is removed already: nothing is done, except that data which was kept
    /// may go now. A name that never was stays an error.
    fn rm_gone(&self, words: &TargetWords, volumes: bool, error: Error) -> Result<Done> {
        let spot = self.spot(words)?;
        let name = match (&spot.instance, spot.revision) {
            (Some(name), _) => name.clone(),
            (None, Some(revision)) => InstanceName::of_revision(revision),
            (None, None) => match self.here()? {
                Some((checkout, _)) => crate::source::instance_name(&checkout),
                None => InstanceName::main(),
            },
        };
        let tombstone = self.store.tombstone(spot.environment.id, &name)?;
        let was = name.revision().is_some_and(|r| self.store.revision(spot.environment.id, r).is_ok());
        if tombstone.is_none() && !was && name != InstanceName::main() && spot.instance.is_some() {
            return Err(error);
        }
        let target = Target { workspace: spot.workspace.name, environment: spot.environment.name, instance: name };
        self.left(spot.environment.id, &target, volumes)
    }

    /// What a removed instance left: it is told, or removed too.
    pub(super) fn left_behind(&self, instance: &Instance, volumes: bool) -> Result<Done> {
        self.left(instance.environment, &instance.target, volumes)
    }

    fn left(&self, environment: i64, target: &Target, volumes: bool) -> Result<Done> {
        let name = &target.instance;
        let mut done = Done { target: target.clone(), changed: false, kept: Vec::new(), removed: Vec::new() };
        let Some(tombstone) = self.store.tombstone(environment, name)? else { return Ok(done) };
        if !volumes {
            let install = self.store.install_id();
            let mut found = observe::Observed::default();
            self.wait(observe::complete(self.engine()?, install, &tombstone.uid, &mut found, None))?;
            done.kept = found.volumes.into_iter().map(|volume| volume.name).collect();
            return Ok(done);
        }
        // As an instance that takes the data over: so it is locked, can be seen, and is
        // finished by the next command when this one is killed.
        let made = self.store.atomically(|store| {
            let made = store.create_instance(environment, name, None, name.revision().is_some())?;
            lives_with_its_data(store, &made)?;
            Ok(made)
        });
        let made = match made {
            // Somebody else takes it over in the same moment.
            Err(StoreError::Exists { .. }) => {
                let Some(other) = self.store.instance(environment, name)? else { return Ok(done) };
                return self.rm_instance(&other, true);
            }
            made => made?,
        };
        let held = self.hold(&made, "rm", LOCK)?;
        self.remove_held(&held, true).map_err(|error| match self.take_back(&held) {
            Ok(()) => error,
            Err(second) => error.detail(second.message),
        })
    }

    /// Removes a held instance.
    pub(super) fn remove_held(&self, held: &Held, volumes: bool) -> Result<Done> {
        let instance = &held.instance;
        let found = self.everything(instance)?;
        let nothing = found.containers.is_empty() && found.networks.is_empty() && found.volumes.is_empty();
        // Another daemon has nothing of it, which says nothing about the right one.
        if instance.daemon.is_some() || !nothing {
            self.right_daemon(instance)?;
        }
        self.store.begin_intent(instance.id, "rm", if volumes { "volumes" } else { "" })?;
        self.store.set_desired(instance.id, Desired::Stopped)?;
        let alive: Vec<_> = found.containers.iter().filter(|c| c.status.is_alive()).cloned().collect();
        if volumes {
            // The data goes too: there is nothing to shut down in order for.
            self.kill(&alive)?;
        } else {
            self.halt(instance, &alive, None)?;
        }
        let mut done =
            Done { target: instance.target.clone(), changed: true, kept: Vec::new(), removed: self.clear(instance)? };
        if volumes {
            done.removed.extend(self.remove_volumes(instance)?);
        } else {
            self.remove_anonymous(instance)?;
            done.kept = self.everything(instance)?.volumes.into_iter().map(|volume| volume.name).collect();
        }
        tree::remove(&self.tree(&instance.target.project()))?;
        self.release(instance)?;
        // The row goes last: until then everything can be found again.
        self.store.remove_instance(instance.id, !done.kept.is_empty())?;
        let _ = std::fs::remove_file(held.lock.path());
        self.forget_folder(instance)?;
        Ok(done)
    }

    fn kill(&self, alive: &[crate::engine::Container]) -> Result<()> {
        let engine = self.engine()?;
        self.wait(async {
            let kills = alive.iter().map(|container| async move {
                engine.set_restart_policy(&container.id, "no").await?;
                engine.kill(&container.id).await?;
                Ok::<(), Error>(())
            });
            try_join_all(kills).await.map(drop)
        })
    }

    /// Removes an instance's containers and networks; says what is gone.
    pub(crate) fn clear(&self, instance: &Instance) -> Result<Vec<String>> {
        let engine = self.engine()?;
        let install = self.store.install_id();
        let mut removed = Vec::new();
        // Twice: an orphaned Compose may still make something after the first look.
        for _ in 0..2 {
            let found = self.wait(async {
                let mut found = observe::Observed {
                    containers: observe::all_containers(engine, install, &instance.uid).await?,
                    ..observe::Observed::default()
                };
                observe::complete(engine, install, &instance.uid, &mut found, None).await?;
                Ok(found)
            })?;
            if found.containers.is_empty() && found.networks.is_empty() {
                break;
            }
            self.wait(async {
                let containers = found.containers.iter().map(|container| async move {
                    engine.remove(&container.id, true, true).await?;
                    let name = container.service.as_deref().unwrap_or(&container.name);
                    self.progress(name, Progress::Removed);
                    Ok::<(), Error>(())
                });
                try_join_all(containers).await?;
                let networks = found.networks.iter().map(|network| async move {
                    engine.remove_network(&network.id).await.map_err(|error| {
                        Error::from(error).hint(format!(
                            "a container that is not this instance's stands in `{}`: remove it, or `docker network disconnect` it",
                            network.name
                        ))
                    })
                });
                try_join_all(networks).await.map(drop)
            })?;
            removed.extend(found.containers.iter().map(|container| container.name.clone()));
            removed.extend(found.networks.iter().map(|network| network.name.clone()));
            for container in &found.containers {
                self.store.forget_ready(&container.id)?;
            }
        }
        Ok(removed)
    }

    /// Removes an instance's volumes, the anonymous ones of its record too.
    pub(crate) fn remove_volumes(&self, instance: &Instance) -> Result<Vec<String>> {
        let engine = self.engine()?;
        let found = self.everything(instance)?;
        let mut names: BTreeSet<String> = found.volumes.into_iter().map(|volume| volume.name).collect();
        names.extend(self.anonymous(instance)?);
        self.wait(async {
            let removals = names.iter().map(|name| async move { Ok::<(), Error>(engine.remove_volume(name).await?) });
            try_join_all(removals).await.map(drop)
        })?;
        Ok(names.into_iter().collect())
    }

    /// Removes the anonymous volumes of an instance whose containers are gone. Docker does so itself for those that came
    /// with the container; those that Compose carried over to a newer one look named to it.
    fn remove_anonymous(&self, instance: &Instance) -> Result<()> {
        let names = self.anonymous(instance)?;
        let engine = self.engine()?;
        self.wait(async {
            let removals = names.iter().map(|name| async move {
                match engine.remove_volume(name).await {
                    // A container of somebody else mounts it: then it goes with that one.
                    Err(EngineError::Conflict { .. }) => Ok(()),
                    result => Ok::<(), Error>(result?),
                }
            });
            try_join_all(removals).await.map(drop)
        })
    }

    /// The anonymous volumes that an instance's record names, those of one whose data it took over too.
    fn anonymous(&self, instance: &Instance) -> Result<Vec<String>> {
        let last = self.store.last_applied(instance.id)?.map(|last| last.record);
        let text = last.or(self.store.inherited_record(instance.id)?);
        Ok(text.map(|text| Record::parse(&text).anonymous).unwrap_or_default())
    }
}

/// An instance that took data over lives on the daemon that has it.
pub(super) fn lives_with_its_data(store: &Store, made: &Instance) -> Result<(), StoreError> {
    let record = store.inherited_record(made.id)?;
    let daemon = record.and_then(|text| Record::parse(&text).daemon);
    if daemon.is_some() {
        store.set_daemon(made.id, daemon.as_deref())?;
    }
    Ok(())
}
