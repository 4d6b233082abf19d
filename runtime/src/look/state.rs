//! How services and instances are, from what Docker reports and what was applied.
//!
//! Pure: the one place where a container's status becomes a word, for `ls`,
//! `describe`, `why` and `wait` alike.

use std::collections::BTreeMap;

use sidestack_state::Desired;

use crate::api::State;
use crate::decide;
use crate::engine::{Container, Health, Status};
use crate::observe::Observed;
use crate::record::ServiceRecord;

/// How far a service is from where it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    /// It is where it should be.
    Ready,
    /// It is on its way, or is waiting for its turn.
    Pending,
    /// It is starting.
    Starting,
    /// Somebody has to do something.
    Wrong,
}

/// One service as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceState {
    /// `running`, `starting`, `exited 1`, `completed`, `missing`, …
    pub(crate) word: String,
    /// Docker's opinion of its health, when it has one.
    pub(crate) health: Option<&'static str>,
    /// How far it is.
    pub(crate) progress: Progress,
}

impl ServiceState {
    /// Whether it is where it should be.
    pub(crate) fn ready(&self) -> bool {
        self.progress == Progress::Ready
    }
}

/// The word for Docker's opinion of a health.
pub(crate) fn health_word(health: Health) -> Option<&'static str> {
    match health {
        Health::None => None,
        Health::Starting => Some("starting"),
        Health::Healthy => Some("healthy"),
        Health::Unhealthy => Some("unhealthy"),
    }
}

/// One container of a service.
fn container(
    container: &Container,
    record: &ServiceRecord,
    observed: &Observed,
    ready: &BTreeMap<String, String>,
) -> (Progress, String) {
    let word = |text: &str| text.to_owned();
    match container.status {
        Status::Running if decide::is_ready(container, observed, ready, record.has_health) => {
            (Progress::Ready, word("running"))
        }
        Status::Running if container.health == Health::Unhealthy => (Progress::Wrong, word("unhealthy")),
        Status::Running => (Progress::Starting, word("starting")),
        Status::Exited(0) if record.one_shot || record.ends || record.completed.contains(&container.id) => {
            (Progress::Ready, word("completed"))
        }
        Status::Exited(code) => (Progress::Wrong, format!("exited {code}")),
        Status::Created => (Progress::Pending, word("created")),
        Status::Paused => (Progress::Wrong, word("paused")),
        Status::Restarting => (Progress::Wrong, word("restarting")),
        Status::Dead | Status::Removing => (Progress::Wrong, word("dead")),
    }
}

/// A service by its containers: the one that is furthest from ready speaks for all.
///
/// `observed` need only hold the details of containers whose health Docker calls
/// `starting` and that are in `ready` (container id to the start it holds for).
pub(crate) fn service(
    record: &ServiceRecord,
    containers: &[&Container],
    observed: &Observed,
    ready: &BTreeMap<String, String>,
) -> ServiceState {
    let wanted = record.replicas as usize;
    if wanted == 0 && containers.is_empty() {
        return ServiceState { word: "no replicas".to_owned(), health: None, progress: Progress::Ready };
    }
    let worst = containers
        .iter()
        .map(|one| (container(one, record, observed, ready), one.health))
        .max_by_key(|((progress, _), health)| (*progress, *health));
    let Some(((progress, word), health)) = worst else {
        return ServiceState { word: "missing".to_owned(), health: None, progress: Progress::Pending };
    };
    if containers.len() < wanted && progress == Progress::Ready {
        let word = format!("{} of {wanted} missing", wanted - containers.len());
        return ServiceState { word, health: None, progress: Progress::Wrong };
    }
    let alive = containers.iter().any(|one| one.status.is_alive());
    ServiceState { word, health: alive.then(|| health_word(health)).flatten(), progress }
}

/// What the whole is told by, beside its services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whole {
    /// What it is meant to be doing.
    pub(crate) desired: Desired,
    /// Something of it was handed to Docker, so its services are known.
    pub(crate) known: bool,
    /// The last handing-over failed.
    pub(crate) failed: bool,
    /// One handing-over went well.
    pub(crate) was_good: bool,
    /// A container of it is there.
    pub(crate) any: bool,
    /// A container of it runs.
    pub(crate) alive: bool,
}

/// The whole instance.
pub(crate) fn whole(whole: Whole, services: &[ServiceState]) -> State {
    let never = whole.failed && !whole.was_good;
    if whole.desired == Desired::Stopped {
        return if whole.alive { State::Degraded } else { State::Stopped };
    }
    // A stack without a service has nothing that could be missing; one whose only
    // handing-over failed has no service that is known.
    if whole.known && !(never && services.is_empty()) && services.iter().all(ServiceState::ready) {
        return State::Running;
    }
    if !whole.any {
        return if never { State::Failed } else { State::Gone };
    }
    let wrong = services.iter().any(|service| service.progress == Progress::Wrong);
    let starting = services.iter().any(|service| service.progress == Progress::Starting);
    // Until it was handed over, nobody knows whether these are all of them.
    if !wrong && (starting || !whole.known) {
        State::Starting
    } else if never {
        State::Failed
    } else {
        State::Degraded
    }
}

/// The whole instance when Docker could not be asked.
pub(crate) fn unasked(desired: Desired, failed: bool, was_good: bool) -> State {
    match desired {
        Desired::Stopped => State::Stopped,
        Desired::Running if failed && !was_good => State::Failed,
        Desired::Running => State::Running,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::FakeEngine;

    fn one(id: &str, status: Status, health: Health) -> Container {
        Container { status, health, ..FakeEngine::sample(id, "p", "web", &[]) }
    }

    fn record(replicas: u32) -> ServiceRecord {
        ServiceRecord { replicas, ..ServiceRecord::default() }
    }

    fn told(record: &ServiceRecord, containers: &[Container]) -> (String, Progress) {
        let all: Vec<&Container> = containers.iter().collect();
        let state = service(record, &all, &Observed::default(), &BTreeMap::new());
        (state.word, state.progress)
    }

    #[test]
    fn a_container_has_one_word() {
        use Health::{Healthy, None as No, Starting, Unhealthy};
        use Status::{Created, Dead, Exited, Paused, Restarting, Running};
        let health = ServiceRecord { has_health: true, ..record(1) };
        let once = ServiceRecord { one_shot: true, ..record(1) };
        let table = [
            (record(1), Running, No, "running", Progress::Ready),
            (health.clone(), Running, Healthy, "running", Progress::Ready),
            (health.clone(), Running, Starting, "starting", Progress::Starting),
            (health, Running, Unhealthy, "unhealthy", Progress::Wrong),
            (once.clone(), Exited(0), No, "completed", Progress::Ready),
            (once, Exited(3), No, "exited 3", Progress::Wrong),
            (record(1), Exited(0), No, "exited 0", Progress::Wrong),
            (record(1), Exited(137), No, "exited 137", Progress::Wrong),
            (record(1), Created, No, "created", Progress::Pending),
            (record(1), Paused, No, "paused", Progress::Wrong),
            (record(1), Restarting, No, "restarting", Progress::Wrong),
            (record(1), Dead, No, "dead", Progress::Wrong),
        ];
        for (record, status, health, word, progress) in table {
            assert_eq!(
                told(&record, &[one("c", status, health)]),
                (word.to_owned(), progress),
                "{status:?} {health:?}"
            );
        }
    }

    #[test]
    fn a_container_that_ended_well_before_counts() {
        let known = ServiceRecord { completed: vec!["c".to_owned()], ..record(1) };
        assert_eq!(told(&known, &[one("c", Status::Exited(0), Health::None)]).0, "completed");
        assert_eq!(told(&known, &[one("d", Status::Exited(0), Health::None)]).0, "exited 0");
    }

    #[test]
    fn the_worst_replica_speaks() {
        let running = |id: &str| one(id, Status::Running, Health::None);
        assert_eq!(told(&record(2), &[running("a"), one("b", Status::Exited(1), Health::None)]).0, "exited 1");
        assert_eq!(told(&record(3), &[running("a"), running("b")]), ("1 of 3 missing".to_owned(), Progress::Wrong));
        assert_eq!(told(&record(2), &[]), ("missing".to_owned(), Progress::Pending));
        assert_eq!(told(&record(0), &[]).1, Progress::Ready);
    }

    #[test]
    fn known_readiness_holds_for_its_start_only() {
        let container = one("c", Status::Running, Health::Starting);
        let record = ServiceRecord { has_health: true, ..record(1) };
        let ready = BTreeMap::from([("c".to_owned(), "t1".to_owned())]);
        let mut observed = Observed::default();
        let state = |observed: &Observed| service(&record, &[&container], observed, &ready).word;
        assert_eq!(state(&observed), "starting");
        let fake = FakeEngine::new();
        fake.add_container(container.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut detail = runtime.block_on(crate::engine::Engine::inspect(&fake, "c")).unwrap();
        for (started, word) in [("t1", "running"), ("t2", "starting")] {
            detail.started_at = started.to_owned();
            observed.details.insert("c".to_owned(), detail.clone());
            assert_eq!(state(&observed), word, "{started}");
        }
    }

    #[test]
    fn the_whole_follows_from_its_parts() {
        let part = |progress| ServiceState { word: String::new(), health: None, progress };
        let running =
            Whole { desired: Desired::Running, known: true, failed: false, was_good: true, any: true, alive: true };
        let stopped = Whole { desired: Desired::Stopped, alive: false, ..running };
        let first = Whole { failed: true, was_good: false, ..running };
        let (ready, starting, pending, wrong) =
            (part(Progress::Ready), part(Progress::Starting), part(Progress::Pending), part(Progress::Wrong));
        let table = [
            (running, vec![ready.clone(), ready.clone()], State::Running),
            (running, vec![], State::Running),
            (running, vec![ready.clone(), starting.clone(), pending.clone()], State::Starting),
            (running, vec![starting.clone(), wrong.clone()], State::Degraded),
            (running, vec![ready.clone(), pending.clone()], State::Degraded),
            (Whole { any: false, alive: false, ..running }, vec![pending.clone()], State::Gone),
            (Whole { any: false, alive: false, ..first }, vec![pending.clone()], State::Failed),
            (Whole { known: false, was_good: false, ..running }, vec![ready.clone()], State::Starting),
            (Whole { known: false, was_good: false, ..running }, vec![wrong.clone()], State::Degraded),
            (first, vec![wrong.clone()], State::Failed),
            (first, vec![ready.clone()], State::Running),
            (first, vec![starting], State::Starting),
            (Whole { failed: true, ..running }, vec![wrong], State::Degraded),
            (stopped, vec![pending], State::Stopped),
            (Whole { alive: true, ..stopped }, vec![ready], State::Degraded),
        ];
        for (at, (facts, services, wanted)) in table.into_iter().enumerate() {
            assert_eq!(whole(facts, &services), wanted, "row {at}: {facts:?}");
        }
    }

    #[test]
    fn without_docker_the_store_speaks() {
        assert_eq!(unasked(Desired::Stopped, true, false), State::Stopped);
        assert_eq!(unasked(Desired::Running, true, false), State::Failed);
        assert_eq!(unasked(Desired::Running, true, true), State::Running);
    }
}
