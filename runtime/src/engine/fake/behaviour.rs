//! What the engine in memory does when it is called.

use std::collections::BTreeMap;

use futures_util::stream;
use tokio::sync::mpsc;

use super::{FakeEngine, has_label, lost, plain_detail};
use crate::engine::{
    Container, Daemon, Detail, Engine, EngineError, EventKind, EventStream, ExecOutcome, ExecRequest, Image,
    LogRequest, LogStream, Network, PortHolder, Status, Volume,
};

impl Engine for FakeEngine {
    async fn daemon(&self) -> Result<Daemon, EngineError> {
        self.record("daemon")?;
        Ok(self.state.borrow().daemon.clone())
    }

    async fn containers(&self, label_filter: &str) -> Result<Vec<Container>, EngineError> {
        self.record(&format!("containers {label_filter}"))?;
        let state = self.state.borrow();
        Ok(state.containers.values().filter(|c| has_label(&c.labels, Some(label_filter))).cloned().collect())
    }

    async fn published(&self) -> Result<Vec<PortHolder>, EngineError> {
        self.record("published")?;
        let state = self.state.borrow();
        let alive = state.containers.values().filter(|container| container.status.is_alive());
        Ok(alive
            .flat_map(|c| c.published.iter().map(|port| (port.clone(), c.name.clone(), c.project.clone())))
            .collect())
    }

    async fn networks(&self, label_filter: Option<&str>) -> Result<Vec<Network>, EngineError> {
        self.record("networks")?;
        let state = self.state.borrow();
        Ok(state.networks.values().filter(|n| has_label(&n.labels, label_filter)).cloned().collect())
    }

    async fn volumes(&self, label_filter: Option<&str>) -> Result<Vec<Volume>, EngineError> {
        self.record("volumes")?;
        let state = self.state.borrow();
        Ok(state.volumes.values().filter(|v| has_label(&v.labels, label_filter)).cloned().collect())
    }

    async fn volume_sizes(&self) -> Result<BTreeMap<String, i64>, EngineError> {
        self.record("volume_sizes")?;
        Ok(self.state.borrow().sizes.clone())
    }

    async fn inspect(&self, id: &str) -> Result<Detail, EngineError> {
        self.record(&format!("inspect {id}"))?;
        self.with(id, |state, id| {
            let container = &state.containers[id];
            let mut detail = state.details.get(id).cloned().unwrap_or_else(|| plain_detail(container));
            detail.status = container.status;
            detail.health = container.health;
            detail.name.clone_from(&container.name);
            detail.labels.clone_from(&container.labels);
            if let Status::Exited(code) = container.status {
                detail.exit_code = code;
            }
            Ok(detail)
        })
    }

    async fn start(&self, id: &str) -> Result<(), EngineError> {
        self.record(&format!("start {id}"))?;
        if self.with(id, |state, id| Ok(state.containers[id].status == Status::Running))? {
            return Ok(());
        }
        self.with(id, |state, id| {
            let stamp = format!("2026-01-01T00:00:00.{:09}Z", state.clock % 1_000_000_000);
            let container = state.containers[id].clone();
            let detail = state.details.entry(id.to_owned()).or_insert_with(|| plain_detail(&container));
            detail.started_at = stamp;
            Ok(())
        })?;
        self.set(id, Status::Running, EventKind::Start)
    }

    async fn stop(&self, id: &str, grace: Option<u32>) -> Result<(), EngineError> {
        let grace = grace.map_or_else(|| "default".to_owned(), |seconds| seconds.to_string());
        self.record(&format!("stop {id} {grace}"))?;
        if self.with(id, |state, id| Ok(!state.containers[id].status.is_alive()))? {
            return Ok(());
        }
        self.set(id, Status::Exited(0), EventKind::Die { code: 0 })
    }

    async fn kill(&self, id: &str) -> Result<(), EngineError> {
        self.record(&format!("kill {id}"))?;
        if self.with(id, |state, id| Ok(!state.containers[id].status.is_alive()))? {
            return Ok(());
        }
        self.set(id, Status::Exited(137), EventKind::Die { code: 137 })
    }

    async fn pause(&self, id: &str) -> Result<(), EngineError> {
        self.record(&format!("pause {id}"))?;
        self.set(id, Status::Paused, EventKind::Pause)
    }

    async fn unpause(&self, id: &str) -> Result<(), EngineError> {
        self.record(&format!("unpause {id}"))?;
        self.set(id, Status::Running, EventKind::Unpause)
    }

    async fn rename(&self, id: &str, name: &str) -> Result<(), EngineError> {
        self.record(&format!("rename {id} {name}"))?;
        self.with(id, |state, id| {
            if state.containers.values().any(|other| other.name == name && other.id != id) {
                return Err(EngineError::Conflict {
                    what: format!("container name `{name}`"),
                    message: "already in use".to_owned(),
                });
            }
            if let Some(container) = state.containers.get_mut(id) {
                name.clone_into(&mut container.name);
            }
            Ok(())
        })
    }

    async fn remove(&self, id: &str, force: bool, anonymous_volumes: bool) -> Result<(), EngineError> {
        let flags = match (force, anonymous_volumes) {
            (false, false) => "",
            (true, false) => " force",
            (false, true) => " volumes",
            (true, true) => " force volumes",
        };
        self.record(&format!("remove {id}{flags}"))?;
        let removal = self.with(id, |state, id| {
            if state.containers[id].status.is_alive() && !force {
                return Err(EngineError::Conflict {
                    what: format!("container `{id}`"),
                    message: "you cannot remove a running container".to_owned(),
                });
            }
            state.emit(id, EventKind::Destroy);
            let gone = state.containers.remove(id);
            if let (true, Some(gone)) = (anonymous_volumes, gone) {
                state.volumes.retain(|name, volume| !(volume.anonymous && gone.mounts.contains(name)));
            }
            Ok(())
        });
        match removal {
            Err(EngineError::NotFound { .. }) => Ok(()),
            other => other,
        }
    }

    async fn set_restart_policy(&self, id: &str, policy: &str) -> Result<(), EngineError> {
        self.record(&format!("set_restart_policy {id} {policy}"))?;
        self.with(id, |state, id| {
            let container = state.containers[id].clone();
            let detail = state.details.entry(id.to_owned()).or_insert_with(|| plain_detail(&container));
            policy.clone_into(&mut detail.restart_policy);
            Ok(())
        })
    }

    async fn put_archive(&self, id: &str, path: &str, tar: Vec<u8>) -> Result<(), EngineError> {
        self.record(&format!("put_archive {id} {path}"))?;
        self.with(id, |state, id| {
            state.archives.push((id.to_owned(), path.to_owned(), tar));
            Ok(())
        })
    }

    async fn exec(&self, id: &str, request: &ExecRequest) -> Result<ExecOutcome, EngineError> {
        self.record(&format!("exec {id} {}", request.cmd.join(" ")))?;
        let running = self.with(id, |state, id| Ok(state.containers[id].status == Status::Running))?;
        if !running {
            return Err(EngineError::Conflict {
                what: format!("container `{id}`"),
                message: "it is not running".to_owned(),
            });
        }
        // Taken out, so that the answer may use the engine.
        let answer = self.state.borrow_mut().on_exec.take();
        let Some(mut answer) = answer else {
            return Ok(ExecOutcome::default());
        };
        let outcome = answer(id, request);
        self.state.borrow_mut().on_exec.get_or_insert(answer);
        outcome
    }

    async fn subscribe(&self, label_filter: &str) -> Result<EventStream, EngineError> {
        self.record(&format!("subscribe {label_filter}"))?;
        let (sender, receiver) = mpsc::unbounded_channel();
        self.state.borrow_mut().subscribers.push((label_filter.to_owned(), sender));
        Ok(Box::pin(stream::try_unfold(receiver, |mut receiver| async move {
            match receiver.recv().await {
                Some(event) => event.map(|event| Some((event, receiver))),
                None => Err(lost()),
            }
        })))
    }

    fn logs(&self, id: &str, _request: &LogRequest) -> LogStream {
        let lines = match self.record(&format!("logs {id}")) {
            Ok(()) => self.state.borrow().logs.get(id).cloned().unwrap_or_default(),
            Err(error) => vec![Err(error)],
        };
        Box::pin(stream::iter(lines))
    }

    async fn image(&self, name: &str) -> Result<Option<Image>, EngineError> {
        self.record(&format!("image {name}"))?;
        Ok(self.state.borrow().images.get(name).cloned())
    }

    async fn tag(&self, image: &str, repository: &str, tag: &str) -> Result<(), EngineError> {
        self.record(&format!("tag {image} {repository}:{tag}"))?;
        let mut state = self.state.borrow_mut();
        let Some(found) =
            state.images.get(image).cloned().or_else(|| state.images.values().find(|i| i.id == image).cloned())
        else {
            return Err(EngineError::ImageMissing { image: image.to_owned(), message: "no such image".to_owned() });
        };
        state.images.insert(format!("{repository}:{tag}"), found);
        Ok(())
    }

    async fn remove_image(&self, name: &str) -> Result<(), EngineError> {
        self.record(&format!("remove_image {name}"))?;
        self.state.borrow_mut().images.remove(name);
        Ok(())
    }

    async fn remove_network(&self, id: &str) -> Result<(), EngineError> {
        self.record(&format!("remove_network {id}"))?;
        let mut state = self.state.borrow_mut();
        let name = state.networks.get(id).map(|network| network.name.clone());
        let used =
            |name: &String| state.containers.values().any(|c| c.status.is_alive() && c.networks.contains_key(name));
        if name.as_ref().is_some_and(used) {
            return Err(EngineError::Conflict {
                what: format!("network `{id}`"),
                message: "it has active endpoints".to_owned(),
            });
        }
        state.networks.remove(id);
        Ok(())
    }

    async fn volume_user(&self, volume: &str) -> Result<Option<String>, EngineError> {
        self.record(&format!("volume_user {volume}"))?;
        let state = self.state.borrow();
        let uses = |c: &&Container| c.status.is_alive() && c.mounts.iter().any(|mount| mount == volume);
        Ok(state.containers.values().find(uses).map(|container| container.name.clone()))
    }

    async fn copy_volume(
        &self,
        from: &str,
        to: &str,
        labels: &BTreeMap<String, String>,
        _limit: std::time::Duration,
    ) -> Result<(), EngineError> {
        self.record(&format!("copy_volume {from} {to}"))?;
        let volume =
            Volume { name: to.to_owned(), labels: labels.clone(), driver: "local".to_owned(), anonymous: false };
        self.state.borrow_mut().volumes.insert(to.to_owned(), volume);
        Ok(())
    }

    async fn remove_volume(&self, name: &str) -> Result<(), EngineError> {
        self.record(&format!("remove_volume {name}"))?;
        let mut state = self.state.borrow_mut();
        if state.containers.values().any(|container| container.mounts.iter().any(|mount| mount == name)) {
            return Err(EngineError::Conflict { what: format!("volume `{name}`"), message: "it is in use".to_owned() });
        }
        state.volumes.remove(name);
        Ok(())
    }
}
