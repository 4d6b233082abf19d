//! What is known of the services while they start, and how tasks hear of it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use sidestack_topology::compose::Condition;
use tokio::sync::Notify;

use crate::engine::{Event, EventKind, Health};

/// How far a service is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing was done yet.
    Pending,
    /// Its containers run.
    Started,
    /// It is ready.
    Ready,
    /// It ended with 0.
    Completed,
    /// It went wrong.
    Failed,
}

/// What events said of a container since it was started here.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// Exit codes, in order.
    pub(super) deaths: Vec<i32>,
    /// Started since its last death.
    pub(super) alive: bool,
    /// What Docker's own probe says.
    pub(super) health: Option<Health>,
    /// Killed for want of memory.
    pub(super) out_of_memory: bool,
}

/// The board that all tasks look at.
#[derive(Default)]
pub(super) struct Board {
    stages: RefCell<BTreeMap<String, Stage>>,
    seen: RefCell<BTreeMap<String, Seen>>,
    changed: Notify,
}

impl Board {
    pub(super) fn set(&self, service: &str, stage: Stage) {
        self.stages.borrow_mut().insert(service.to_owned(), stage);
        self.changed.notify_waiters();
    }

    pub(super) fn stage(&self, service: &str) -> Stage {
        self.stages.borrow().get(service).cloned().unwrap_or(Stage::Pending)
    }

    pub(super) fn seen(&self, container: &str) -> Seen {
        self.seen.borrow().get(container).cloned().unwrap_or_default()
    }

    /// A new life of a container begins: what was seen before is over.
    pub(super) fn fresh(&self, container: &str) {
        self.seen.borrow_mut().insert(container.to_owned(), Seen::default());
    }

    pub(super) fn take(&self, event: &Event) {
        {
            let mut seen = self.seen.borrow_mut();
            let seen = seen.entry(event.container.clone()).or_default();
            match &event.kind {
                EventKind::Die { code } => {
                    seen.deaths.push(*code);
                    seen.alive = false;
                    seen.health = None;
                }
                EventKind::Start | EventKind::Restart => {
                    seen.alive = true;
                    seen.health = None;
                }
                EventKind::Health(health) => seen.health = Some(*health),
                EventKind::Oom => seen.out_of_memory = true,
                EventKind::Destroy | EventKind::Pause | EventKind::Unpause | EventKind::Other(_) => {}
            }
        }
        self.changed.notify_waiters();
    }

    /// A relist after a gap in the stream: whoever waits looks again.
    pub(super) fn nudge(&self) {
        self.changed.notify_waiters();
    }

    /// Resolves at the next change.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whether a dependency is met; `Err` when it never will be.
    pub(super) fn met(&self, service: &str, condition: Condition) -> Result<bool, ()> {
        match (self.stage(service), condition) {
            (Stage::Failed, _) => Err(()),
            (Stage::Completed, Condition::Started | Condition::Completed) => Ok(true),
            // What has ended is not healthy, and nobody starts it again.
            (Stage::Completed, Condition::Healthy) => Err(()),
            (Stage::Ready, Condition::Started | Condition::Healthy) => Ok(true),
            (Stage::Started, Condition::Started) => Ok(true),
            (Stage::Pending | Stage::Started | Stage::Ready, _) => Ok(false),
        }
    }
}
