//! Staying joined to Docker: subscribe first, list second, and again when the connection was lost.

use std::time::Duration;

use sidestack_topology::planner::place::INSTALL_LABEL;

use crate::engine::{Container, Engine, EngineError, EventStream};

/// How long to wait before Docker is asked again; doubled up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What is followed: the containers with this label, as far as they are this store's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) filter: &'a str,
    pub(super) install: &'a str,
}

/// A subscription, and what there was when it stood.
pub(super) struct Joined {
    pub(super) events: EventStream,
    pub(super) containers: Vec<Container>,
}

/// Whether asking again later may help.
pub(super) fn is_lost(error: &EngineError) -> bool {
    matches!(error, EngineError::Unreachable { .. } | EngineError::Hung { .. })
}

/// The containers of a scope, one-off ones left out.
pub(super) async fn list(engine: &impl Engine, scope: Scope<'_>) -> Result<Vec<Container>, EngineError> {
    let mut containers = engine.containers(scope.filter).await?;
    containers.retain(|container| {
        container.labels.get(INSTALL_LABEL).is_some_and(|id| id == scope.install) && !container.oneoff
    });
    containers.sort_by(|a, b| (&a.service, a.number, a.created).cmp(&(&b.service, b.number, b.created)));
    Ok(containers)
}

/// Subscribes, then lists: nothing falls in between.
pub(super) async fn join(engine: &impl Engine, scope: Scope<'_>) -> Result<Joined, EngineError> {
    let events = engine.subscribe(scope.filter).await?;
    let containers = list(engine, scope).await?;
    Ok(Joined { events, containers })
}

/// The same, for as long as Docker is away.
pub(super) async fn rejoin(engine: &impl Engine, scope: Scope<'_>) -> Result<Joined, EngineError> {
    let mut pause = FIRST_PAUSE;
    loop {
        tokio::time::sleep(pause).await;
        match join(engine, scope).await {
            Ok(joined) => return Ok(joined),
            // A daemon that is starting answers before it can.
            Err(error) if is_lost(&error) || matches!(error, EngineError::Api { .. }) => {
                pause = LONGEST_PAUSE.min(pause * 2);
            }
            Err(error) => return Err(error),
        }
    }
}
