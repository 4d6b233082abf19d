//! Readiness as early as it is true.
//!
//! Docker runs a container's first health probe one interval after its start;
//! the runtime runs the same command itself while the container is starting. An
//! exec cannot be cancelled, so there are never two at once on a container, and
//! the pause after one is at least as long as it took.

use std::time::{Duration, Instant};

use super::Execution;
use super::board::{Board, Seen};
use crate::engine::{Detail, Engine, EngineError, ExecRequest, Health, HealthCheck, Status};
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

/// What a container's end means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends<'a> {
    /// Its restart policy as Compose writes it.
    pub(super) policy: &'a str,
    /// Whether ending with 0 is a good end.
    pub(super) well: bool,
}

impl Ends<'_> {
    /// Whether Docker starts it again after this exit code.
    fn restarts(self, code: i32) -> bool {
        match self.policy.split(':').next() {
            Some("always" | "unless-stopped") => true,
            Some("on-failure") => code != 0,
            _ => false,
        }
    }

    /// An end that Docker does not follow with a start.
    fn verdict(self, code: i32, out_of_memory: bool) -> Verdict {
        match code {
            0 if self.well => Verdict::Completed,
            code => Verdict::Failed(ended(code, out_of_memory)),
        }
    }
}

impl<E: Engine> Execution<'_, E> {
    /// Waits until a started container is ready, ended, or beyond hope.
    pub(super) async fn probe(&self, id: &str, detail: &Detail, ends: Ends<'_>, board: &Board) -> Result<Verdict> {
        let check = detail.health_check.as_ref().and_then(|check| command(check).map(|command| (check, command)));
        let Some((check, command)) = check else { return self.settle(id, ends, board).await };
        let limit = Duration::from_millis(check.timeout_ms.clamp(1_000, 30_000));
        let mut looked = Instant::now();
        loop {
            if let Some(verdict) = self.sure(id, ends, board).await? {
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
            if healthy && judge(&board.seen(id), ends).is_none_or(|verdict| verdict == Verdict::Ready) {
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
                if let Some(verdict) = told(&self.engine.inspect(id).await?, ends) {
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

    /// What the events come to. The end of a life before this one may be heard late, so an
    /// end counts only when the container is seen to have ended.
    async fn sure(&self, id: &str, ends: Ends<'_>, board: &Board) -> Result<Option<Verdict>> {
        let seen = board.seen(id);
        let Some(verdict) = judge(&seen, ends) else { return Ok(None) };
        if seen.deaths.is_empty() || seen.alive || seen.deaths.len() >= CRASHES {
            return Ok(Some(verdict));
        }
        let detail = self.engine.inspect(id).await?;
        Ok(if detail.status.is_alive() { told(&detail, ends) } else { Some(verdict) })
    }

    /// Without a health command, staying up for a moment is all there is: a process
    /// that cannot read its configuration ends within it.
    async fn settle(&self, id: &str, ends: Ends<'_>, board: &Board) -> Result<Verdict> {
        let mut deadline = Box::pin(tokio::time::sleep(SETTLE));
        let life = |seen: &Seen| (seen.deaths.len(), seen.alive);
        let mut watched = life(&board.seen(id));
        let mut last_start = None;
        loop {
            if let Some(verdict) = self.sure(id, ends, board).await? {
                return Ok(verdict);
            }
            // Its next life is watched as long as its first.
            let seen = board.seen(id);
            if life(&seen) != watched {
                watched = life(&seen);
                deadline = Box::pin(tokio::time::sleep(SETTLE));
            }
            tokio::select! {
                () = &mut deadline => {
                    // Events may have been lost, or their stream is being opened again.
                    let detail = self.engine.inspect(id).await?;
                    if let Some(verdict) = told(&detail, ends) {
                        return Ok(verdict);
                    }
                    if detail.status == Status::Running {
                        // After an end whose new start was not heard of, the same start is to be seen twice.
                        let up = seen.alive || seen.deaths.is_empty();
                        if up || last_start.as_ref() == Some(&detail.started_at) {
                            return Ok(Verdict::Ready);
                        }
                        last_start = Some(detail.started_at);
                    }
                    deadline = Box::pin(tokio::time::sleep(SETTLE));
                }
                () = board.changed() => {}
            }
        }
    }
}

/// A container as the daemon tells it, for when events cannot be relied on.
fn told(detail: &Detail, ends: Ends<'_>) -> Option<Verdict> {
    match detail.status {
        Status::Running if detail.health == Health::Healthy => Some(Verdict::Ready),
        Status::Running if detail.health == Health::Unhealthy => Some(Verdict::Failed("it is unhealthy".to_owned())),
        // One that is to be started again is `Restarting` from the moment of its end.
        Status::Exited(code) => Some(ends.verdict(code, detail.oom_killed)),
        Status::Dead | Status::Removing => Some(Verdict::Failed("its container is gone".to_owned())),
        // Of one that runs the count says nothing: it may be of long ago.
        Status::Restarting if usize::try_from(detail.restart_count).is_ok_and(|count| count >= CRASHES) => {
            Some(Verdict::Failed("it ends again and again".to_owned()))
        }
        _ => None,
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
const CRASHES: usize = 3;

/// What the events seen so far come to.
fn judge(seen: &Seen, ends: Ends<'_>) -> Option<Verdict> {
    if seen.health == Some(Health::Healthy) {
        return Some(Verdict::Ready);
    }
    if seen.health == Some(Health::Unhealthy) {
        return Some(Verdict::Failed("it is unhealthy".to_owned()));
    }
    let code = *seen.deaths.last()?;
    if seen.alive && seen.deaths.len() < CRASHES {
        return None;
    }
    if !ends.restarts(code) {
        return Some(ends.verdict(code, seen.out_of_memory));
    }
    let again = || Verdict::Failed(format!("{}, again and again", ended(code, seen.out_of_memory)));
    (seen.deaths.len() >= CRASHES).then(again)
}

/// A bad end in words.
pub(super) fn ended(code: i32, out_of_memory: bool) -> String {
    match (code, out_of_memory) {
        (0, _) => "it ended with 0, though it is meant to stay".to_owned(),
        (_, true) => format!("it ran out of memory (exit {code})"),
        (126, _) => "it exited with 126: its command cannot be run".to_owned(),
        (127, _) => "it exited with 127: its command was not found".to_owned(),
        (137, _) => "it was killed (exit 137)".to_owned(),
        (code, _) => format!("it exited with {code}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_with_0_is_good_only_where_it_may_end() {
        let staying = "it ended with 0, though it is meant to stay";
        for (policy, well, deaths, expected) in [
            ("no", true, vec![0], Some(Verdict::Completed)),
            ("no", false, vec![0], Some(Verdict::Failed(staying.to_owned()))),
            // Docker does not start it again after a 0.
            ("on-failure:5", false, vec![0], Some(Verdict::Failed(staying.to_owned()))),
            ("on-failure", false, vec![1], None),
            ("on-failure", true, vec![1, 0], Some(Verdict::Completed)),
            ("always", false, vec![0], None),
            ("always", false, vec![0, 0, 0], Some(Verdict::Failed(format!("{staying}, again and again")))),
            ("no", true, vec![2], Some(Verdict::Failed("it exited with 2".to_owned()))),
        ] {
            let seen = Seen { deaths: deaths.clone(), ..Seen::default() };
            assert_eq!(judge(&seen, Ends { policy, well }), expected, "{policy} {well} {deaths:?}");
        }
    }
}
