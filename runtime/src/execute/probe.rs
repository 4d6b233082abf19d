//! Readiness as early as it is true.
//!
//! Docker runs a container's first health probe one interval after its start;
//! the runtime runs the same command itself while the container is starting. An
//! exec cannot be cancelled, so there are never two at once on a container, and
//! the pause after one is at least as long as it took.

use std::time::{Duration, Instant};

use super::Execution;
use super::board::Board;
use crate::engine::{Detail, Engine, EngineError, ExecRequest, Health, HealthCheck};
use crate::error::Result;

/// The shortest pause between two probes.
const PAUSE: Duration = Duration::from_millis(25);
/// How long a service without health must stay up.
const SETTLE: Duration = Duration::from_millis(300);
/// Between two looks at a container that only Docker can tell about.
const LOOK: Duration = Duration::from_millis(500);

/// What became of a container that was waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is ready.
    Ready,
    /// It ended with 0 and is not started again.
    Completed,
    /// It will not become ready; why.
    Failed(String),
}

/// The health command as an exec takes it.
pub(super) fn command(check: &HealthCheck) -> Option<Vec<String>> {
    match check.test.split_first() {
        Some((kind, rest)) if kind == "CMD" && !rest.is_empty() => Some(rest.to_vec()),
        Some((kind, rest)) if kind == "CMD-SHELL" && !rest.is_empty() => {
            Some(vec!["/bin/sh".to_owned(), "-c".to_owned(), rest.join(" ")])
        }
        _ => None,
    }
}

impl<E: Engine> Execution<'_, E> {
    /// Waits until a started container is ready, ended, or beyond hope.
    pub(super) async fn probe(&self, id: &str, detail: &Detail, restarts: bool, board: &Board) -> Result<Verdict> {
        let check = detail.health_check.as_ref().and_then(|check| command(check).map(|command| (check, command)));
        let Some((check, command)) = check else { return Ok(settle(id, restarts, board).await) };
        let limit = Duration::from_millis(check.timeout_ms.clamp(1_000, 30_000));
        let mut looked = Instant::now();
        loop {
            if let Some(verdict) = judge(id, restarts, board) {
                return Ok(verdict);
            }
            let began = Instant::now();
            let mut request = ExecRequest::new(command.clone(), limit);
            request.max_output = 4 * 1024;
            // A container that just died or restarts refuses the exec: its events tell.
            let healthy = match self.engine.exec(id, &request).await {
                Ok(done) => done.code == 0,
                Err(error) if is_passing(&error) => false,
                Err(error) => return Err(error.into()),
            };
            if healthy && judge(id, restarts, board).is_none_or(|verdict| verdict == Verdict::Ready) {
                return Ok(Verdict::Ready);
            }
            let pause = began.elapsed().max(PAUSE);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.until_told(id, board) => {}
            }
            // Events may have been lost: a look now and then keeps the wait honest.
            if looked.elapsed() > LOOK {
                looked = Instant::now();
                if let Some(verdict) = self.look(id, restarts).await? {
                    return Ok(verdict);
                }
            }
        }
    }

    /// Until Docker itself says something about the container.
    async fn until_told(&self, id: &str, board: &Board) {
        let before = board.seen(id);
        loop {
            board.changed().await;
            let now = board.seen(id);
            if now.health != before.health || now.deaths.len() != before.deaths.len() {
                return;
            }
        }
    }

    /// A container as the daemon tells it, for when events cannot be relied on.
    async fn look(&self, id: &str, restarts: bool) -> Result<Option<Verdict>> {
        use crate::engine::Status;
        let detail = self.engine.inspect(id).await?;
        Ok(match detail.status {
            Status::Running if detail.health == Health::Healthy => Some(Verdict::Ready),
            Status::Running if detail.health == Health::Unhealthy => {
                Some(Verdict::Failed("it is unhealthy".to_owned()))
            }
            Status::Exited(0) if !restarts => Some(Verdict::Completed),
            Status::Exited(code) if !restarts => Some(Verdict::Failed(ended(code, detail.oom_killed))),
            Status::Dead | Status::Removing => Some(Verdict::Failed("its container is gone".to_owned())),
            _ if detail.restart_count >= CRASHES => Some(Verdict::Failed("it ends again and again".to_owned())),
            _ => None,
        })
    }
}

/// Without a health command, staying up for a moment is all there is: a process
/// that cannot read its configuration ends within it.
async fn settle(id: &str, restarts: bool, board: &Board) -> Verdict {
    let mut deadline = Box::pin(tokio::time::sleep(SETTLE));
    loop {
        let seen = board.seen(id);
        match (judge(id, restarts, board), seen.deaths.is_empty() || seen.alive) {
            (Some(verdict), _) => return verdict,
            // It ended and will be started again: its next life is watched as long.
            (None, false) => {
                board.changed().await;
                deadline = Box::pin(tokio::time::sleep(SETTLE));
            }
            (None, true) => {
                tokio::select! {
                    () = &mut deadline => return Verdict::Ready,
                    () = board.changed() => {}
                }
            }
        }
    }
}

/// What an exec says of a container that just ended, restarts, or is slow.
fn is_passing(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::Conflict { .. }
            | EngineError::NotFound { .. }
            | EngineError::Hung { .. }
            | EngineError::Api { .. }
    )
}

/// After so many ends a service that restarts is given up.
const CRASHES: i64 = 3;

/// What the events seen so far come to.
fn judge(id: &str, restarts: bool, board: &Board) -> Option<Verdict> {
    let seen = board.seen(id);
    if seen.health == Some(Health::Healthy) {
        return Some(Verdict::Ready);
    }
    if seen.health == Some(Health::Unhealthy) {
        return Some(Verdict::Failed("it is unhealthy".to_owned()));
    }
    let code = *seen.deaths.last()?;
    if seen.alive && seen.deaths.len() < CRASHES as usize {
        return None;
    }
    match (code, restarts) {
        (0, _) => Some(Verdict::Completed),
        (code, false) => Some(Verdict::Failed(ended(code, seen.out_of_memory))),
        (code, true) if seen.deaths.len() >= CRASHES as usize => {
            Some(Verdict::Failed(format!("{}, again and again", ended(code, seen.out_of_memory))))
        }
        (_, true) => None,
    }
}

/// An exit code in words.
pub(super) fn ended(code: i32, out_of_memory: bool) -> String {
    match (code, out_of_memory) {
        (_, true) => format!("it ran out of memory (exit {code})"),
        (126, _) => "it exited with 126: its command cannot be run".to_owned(),
        (127, _) => "it exited with 127: its command was not found".to_owned(),
        (137, _) => "it was killed (exit 137)".to_owned(),
        (code, _) => format!("it exited with {code}"),
    }
}
