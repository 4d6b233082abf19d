//! `events`: what happens to containers, as it happens.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use jiff::Timestamp;

use super::EventEntry;
use super::connection::{self, Scope};
use super::state::health_word;
use crate::api::TargetWords;
use crate::engine::{Container, Engine, Event, EventKind, Health, Status};
use crate::error::{Kind, Result};
use crate::observe;
use crate::session::Session;

impl Session {
    /// What happens to an instance's containers, or with `all` to those of every instance, until
    /// Ctrl-C, which is a good end.
    ///
    /// When the connection to Docker is lost, `lost` is told; once it is back, each thing that
    /// changed meanwhile as `resumed`.
    ///
    /// # Errors
    /// Not found; Docker unreachable at the start.
    pub fn events(&self, words: &TargetWords, all: bool, sink: &mut dyn FnMut(EventEntry)) -> Result<()> {
        let install = self.store.install_id();
        let (filter, target) = if all {
            (observe::install_filter(install), String::new())
        } else {
            let instance = self.instance(words)?;
            (observe::filter(&instance.uid), instance.target.to_string())
        };
        let engine = self.engine()?;
        match self.wait(follow(engine, Scope { filter: &filter, install }, &target, sink)) {
            Err(error) if error.kind == Kind::Cancelled => Ok(()),
            other => other,
        }
    }
}

/// What is known of a container, to tell what changed while nobody looked.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Last {
    target: String,
    service: String,
    status: Status,
    health: Health,
}

impl Last {
    fn of(container: &Container) -> Self {
        Self {
            target: target_of(&container.labels),
            service: container.service.clone().unwrap_or_else(|| container.name.clone()),
            status: container.status,
            health: container.health,
        }
    }

    fn word(&self) -> String {
        let status = match self.status {
            Status::Created => "created".to_owned(),
            Status::Running => "running".to_owned(),
            Status::Paused => "paused".to_owned(),
            Status::Restarting => "restarting".to_owned(),
            Status::Removing | Status::Dead => "dead".to_owned(),
            Status::Exited(code) => format!("exited {code}"),
        };
        match health_word(self.health).filter(|_| self.status == Status::Running) {
            Some(health) => format!("{status}, {health}"),
            None => status,
        }
    }
}

/// Containers by id.
type Known = BTreeMap<String, Last>;

fn known(containers: &[Container]) -> Known {
    containers.iter().map(|container| (container.id.clone(), Last::of(container))).collect()
}

fn target_of(labels: &BTreeMap<String, String>) -> String {
    let part = |key: &str| labels.get(&format!("dev.sidestack.{key}")).map_or("?", String::as_str);
    format!("{}/{}/{}", part("workspace"), part("environment"), part("instance"))
}

async fn follow(engine: &impl Engine, scope: Scope<'_>, target: &str, sink: &mut dyn FnMut(EventEntry)) -> Result<()> {
    let about = |kind: &str, detail: String| EventEntry {
        time: Timestamp::now().to_string(),
        target: target.to_owned(),
        service: String::new(),
        kind: kind.to_owned(),
        detail,
    };
    let mut joined = connection::join(engine, scope).await?;
    let mut before = known(&joined.containers);
    loop {
        match joined.events.next().await {
            Some(Ok(event)) => {
                note(&mut before, &event);
                sink(entry(&event));
            }
            other => {
                let cause = match other {
                    Some(Err(error)) => error.to_string(),
                    _ => "the event stream ended".to_owned(),
                };
                sink(about("lost", cause));
                joined = connection::rejoin(engine, scope).await?;
                let now = known(&joined.containers);
                let missed = missed(&before, &now);
                if missed.is_empty() {
                    sink(about("resumed", "nothing changed".to_owned()));
                }
                missed.into_iter().for_each(&mut *sink);
                before = now;
            }
        }
    }
}

/// What an event says of a container from now on.
fn note(known: &mut Known, event: &Event) {
    let last = known.entry(event.container.clone()).or_insert_with(|| Last {
        target: target_of(&event.labels),
        service: event.service.clone().unwrap_or_else(|| event.name.clone()),
        status: Status::Created,
        health: Health::None,
    });
    match &event.kind {
        EventKind::Start => last.health = Health::None,
        EventKind::Health(health) => last.health = *health,
        _ => {}
    }
    match event.kind {
        EventKind::Start | EventKind::Unpause | EventKind::Restart => last.status = Status::Running,
        EventKind::Die { code } => last.status = Status::Exited(code),
        EventKind::Pause => last.status = Status::Paused,
        EventKind::Destroy => {
            known.remove(&event.container);
        }
        EventKind::Health(_) | EventKind::Oom | EventKind::Other(_) => {}
    }
}

fn entry(event: &Event) -> EventEntry {
    let (kind, detail) = match &event.kind {
        EventKind::Start => ("start", String::new()),
        EventKind::Die { code } => ("die", format!("exit {code}")),
        EventKind::Health(health) => ("health", health_word(*health).unwrap_or("none").to_owned()),
        EventKind::Oom => ("oom", "out of memory".to_owned()),
        EventKind::Destroy => ("destroy", String::new()),
        EventKind::Pause => ("pause", String::new()),
        EventKind::Unpause => ("unpause", String::new()),
        EventKind::Restart => ("restart", String::new()),
        EventKind::Other(name) => (name.as_str(), String::new()),
    };
    let time = Timestamp::from_nanosecond(event.time_ns.into()).unwrap_or(Timestamp::UNIX_EPOCH);
    EventEntry {
        time: time.to_string(),
        target: target_of(&event.labels),
        service: event.service.clone().unwrap_or_else(|| event.name.clone()),
        kind: kind.to_owned(),
        detail,
    }
}

/// What changed between two lists.
fn missed(before: &Known, now: &Known) -> Vec<EventEntry> {
    let time = Timestamp::now().to_string();
    let entry = |last: &Last, detail: String| EventEntry {
        time: time.clone(),
        target: last.target.clone(),
        service: last.service.clone(),
        kind: "resumed".to_owned(),
        detail,
    };
    let gone =
        before.iter().filter(|(id, _)| !now.contains_key(*id)).map(|(_, last)| entry(last, "is gone".to_owned()));
    let other = now.iter().filter_map(|(id, last)| match before.get(id) {
        None => Some(entry(last, format!("is new, {}", last.word()))),
        // A health that only began is no news.
        Some(old)
            if old.word() == last.word()
                || (old.status == last.status && old.health == Health::None && last.health == Health::Starting) =>
        {
            None
        }
        Some(old) => Some(entry(last, format!("was {}, is {}", old.word(), last.word()))),
    });
    gone.chain(other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::FakeEngine;
    use sidestack_topology::planner::place::INSTALL_LABEL;

    #[test]
    fn a_lost_connection_is_told_with_what_was_missed() {
        let fake = FakeEngine::new();
        let labels = [
            (INSTALL_LABEL, "i"),
            ("dev.sidestack.workspace", "shop"),
            ("dev.sidestack.environment", "dev"),
            ("dev.sidestack.instance", "main"),
        ];
        for id in ["a", "b"] {
            fake.add_container(Container { status: Status::Running, ..FakeEngine::sample(id, "p", id, &labels) });
        }
        let told = std::cell::RefCell::new(Vec::new());
        let mut sink = |e: EventEntry| {
            told.borrow_mut().push(format!("{} {} {} {}", e.target, e.service, e.kind, e.detail));
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let script = async {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                fake.exit("a", 1);
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                fake.break_events();
                fake.change("b", |container| container.status = Status::Exited(137));
                tokio::time::sleep(std::time::Duration::from_millis(400)).await;
            };
            let scope = Scope { filter: "dev.sidestack.install=i", install: "i" };
            tokio::select! {
                result = follow(&fake, scope, "", &mut sink) => panic!("it ended: {result:?}"),
                () = script => {}
            }
        });
        let told = told.into_inner();
        assert_eq!(told[0], "shop/dev/main a die exit 1");
        assert!(told[1].contains("lost"), "{told:?}");
        assert_eq!(told[2..], ["shop/dev/main b resumed was running, is exited 137"]);
    }

    #[test]
    fn nothing_missed_is_nothing_told() {
        let container = Container { status: Status::Running, ..FakeEngine::sample("a", "p", "a", &[]) };
        let before = known(std::slice::from_ref(&container));
        let starting = known(&[Container { health: Health::Starting, ..container }]);
        assert!(missed(&before, &before).is_empty());
        assert!(missed(&before, &starting).is_empty());
        assert_eq!(missed(&before, &Known::new())[0].detail, "is gone");
    }
}
