//! Logs of several containers as one: merged by time, and continued without repeating a line.

use std::collections::{BTreeMap, VecDeque};

use futures_util::StreamExt;
use jiff::Timestamp;

use super::LogEntry;
use crate::engine::{Container, EngineError, LogLine, LogSide, LogStream};

/// How many of a container's lines are remembered to know them again.
const REMEMBERED: usize = 256;

/// Where in a container's log we are.
///
/// The times of one log need not rise: standard output and standard error are stamped apart. So the
/// last lines are remembered by their times, each as often as it came, rather than the newest time.
#[derive(Debug, Clone, Default)]
pub(super) struct Cursor {
    recent: VecDeque<Timestamp>,
    /// Lines before this were never asked for.
    floor: Option<Timestamp>,
}

impl Cursor {
    /// Nothing from before a time.
    pub(super) fn after(floor: Timestamp) -> Self {
        Self { recent: VecDeque::new(), floor: Some(floor) }
    }

    /// Takes note of a line.
    pub(super) fn pass(&mut self, time: Timestamp) {
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(time);
    }

    /// Where a log is to be read again from, in Unix seconds; `None` when no line came yet.
    pub(super) fn since(&self) -> Option<i64> {
        self.recent.iter().min().copied().or(self.floor).map(Timestamp::as_second)
    }

    /// A filter for the log read again from [`Cursor::since`].
    pub(super) fn known(&self) -> Known {
        let mut times: BTreeMap<Timestamp, usize> = BTreeMap::new();
        for time in &self.recent {
            *times.entry(*time).or_default() += 1;
        }
        let oldest = times.first_key_value().map(|(time, _)| *time);
        Known { before: oldest.or(self.floor), times }
    }
}

/// Which lines came before.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    before: Option<Timestamp>,
    times: BTreeMap<Timestamp, usize>,
}

impl Known {
    /// Whether a line is one of them. Each is known once.
    pub(super) fn take(&mut self, time: Timestamp) -> bool {
        if self.before.is_some_and(|before| time < before) {
            return true;
        }
        match self.times.get_mut(&time) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }
}

/// One container's log.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) id: String,
    pub(super) service: String,
    pub(super) number: u32,
    pub(super) replicas: u32,
    pub(super) cursor: Cursor,
}

impl Source {
    /// One of `replicas` containers of its service.
    pub(super) fn new(container: &Container, replicas: u32) -> Self {
        Self {
            id: container.id.clone(),
            service: container.service.clone().unwrap_or_else(|| container.name.clone()),
            number: container.number,
            replicas,
            cursor: Cursor::default(),
        }
    }

    /// A line as it is told; the time only when it was asked for.
    pub(super) fn entry(&self, line: LogLine, timestamps: bool) -> LogEntry {
        LogEntry {
            service: self.service.clone(),
            number: self.number,
            replicas: self.replicas,
            stderr: line.stream == LogSide::Err,
            time: line.time.filter(|_| timestamps),
            line: String::from_utf8_lossy(&line.bytes).into_owned(),
        }
    }
}

/// The time of a line; one without comes at once.
pub(super) fn time_of(line: &LogLine) -> Timestamp {
    line.time.as_deref().and_then(|time| time.parse().ok()).unwrap_or(Timestamp::MIN)
}

/// Hands on the lines of several logs by time, those of one log in its own order, however long they
/// are: only one line of each is held.
///
/// A log that cannot be read does not keep the others from being told: `refused` gets it.
pub(super) async fn by_time(
    sources: &mut [Source],
    logs: Vec<LogStream>,
    timestamps: bool,
    sink: &mut dyn FnMut(LogEntry),
    refused: &mut dyn FnMut(&Source, EngineError),
) {
    let mut logs: Vec<LogStream> = logs;
    let first = futures_util::future::join_all(logs.iter_mut().map(StreamExt::next)).await;
    let mut heads: Vec<Option<(Timestamp, LogLine)>> = Vec::new();
    for (at, line) in first.into_iter().enumerate() {
        heads.push(head(&sources[at], line, refused));
    }
    while let Some(at) =
        (0..heads.len()).filter_map(|at| heads[at].as_ref().map(|(time, _)| (*time, at))).min().map(|(_, at)| at)
    {
        let next = logs[at].next().await;
        let next = head(&sources[at], next, refused);
        if let Some((time, line)) = std::mem::replace(&mut heads[at], next) {
            sources[at].cursor.pass(time);
            sink(sources[at].entry(line, timestamps));
        }
    }
}

fn head(
    source: &Source,
    line: Option<Result<LogLine, EngineError>>,
    refused: &mut dyn FnMut(&Source, EngineError),
) -> Option<(Timestamp, LogLine)> {
    match line? {
        Ok(line) => Some((time_of(&line), line)),
        Err(error) => {
            refused(source, error);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::FakeEngine;

    fn at(second: u32) -> String {
        format!("2026-11-30T22:00:{second:02}.000000001Z")
    }

    fn line(second: u32, text: &str) -> Result<LogLine, EngineError> {
        Ok(LogLine { stream: LogSide::Out, time: Some(at(second)), bytes: text.as_bytes().to_vec() })
    }

    fn merged(logs: Vec<Vec<Result<LogLine, EngineError>>>) -> (Vec<String>, Vec<String>) {
        let mut sources: Vec<Source> = (0..logs.len())
            .map(|n| Source::new(&FakeEngine::sample(&format!("c{n}"), "p", &format!("s{n}"), &[]), 1))
            .collect();
        let logs = logs.into_iter().map(|lines| Box::pin(futures_util::stream::iter(lines)) as LogStream).collect();
        let (mut told, mut refused) = (Vec::new(), Vec::new());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(by_time(
            &mut sources,
            logs,
            false,
            &mut |entry| told.push(format!("{} {}", entry.service, entry.line)),
            &mut |source, error| refused.push(format!("{} {error}", source.service)),
        ));
        (told, refused)
    }

    #[test]
    fn lines_come_by_time_and_each_log_in_its_own_order() {
        let (told, refused) = merged(vec![
            vec![line(1, "a | b"), line(5, "late"), line(4, "stamped earlier")],
            vec![line(1, "same time"), line(2, "two"), line(6, "six")],
            vec![],
        ]);
        assert_eq!(told, ["s0 a | b", "s1 same time", "s1 two", "s0 late", "s0 stamped earlier", "s1 six"]);
        assert!(refused.is_empty());
    }

    #[test]
    fn one_log_that_fails_is_told_and_the_others_go_on() {
        let broken = || Err(EngineError::Api { status: 500, message: "no".to_owned() });
        let (told, refused) = merged(vec![vec![line(1, "one"), broken()], vec![broken()], vec![line(2, "two")]]);
        assert_eq!(told, ["s0 one", "s2 two"]);
        assert_eq!(refused.len(), 2);
        assert!(refused[0].starts_with("s1"), "{refused:?}");
    }

    #[test]
    fn a_log_read_again_repeats_nothing_and_loses_nothing() {
        let time = |second: u32| -> Timestamp { at(second).parse().unwrap() };
        let mut cursor = Cursor::default();
        assert_eq!(cursor.since(), None);
        for second in [1, 3, 3, 2] {
            cursor.pass(time(second));
        }
        assert_eq!(cursor.since(), Some(time(1).as_second()));
        let mut known = cursor.known();
        // Read again: what came before, in the order it is kept in, then three new ones, one of them
        // at a time that was seen.
        let again = [0, 1, 3, 3, 2, 3, 2, 4];
        let new: Vec<u32> = again.into_iter().filter(|second| !known.take(time(*second))).collect();
        assert_eq!(new, [3, 2, 4]);
    }

    #[test]
    fn only_the_last_lines_are_remembered() {
        let mut cursor = Cursor::default();
        let start: Timestamp = at(0).parse().unwrap();
        for n in 0..1000 {
            cursor.pass(start + jiff::SignedDuration::from_secs(n));
        }
        let mut known = cursor.known();
        assert!(known.take(start));
        assert!(known.take(start + jiff::SignedDuration::from_secs(999)));
        assert!(!known.take(start + jiff::SignedDuration::from_secs(999)));
    }

    #[test]
    fn nothing_from_before_the_floor() {
        let floor: Timestamp = at(5).parse().unwrap();
        let cursor = Cursor::after(floor);
        assert_eq!(cursor.since(), Some(floor.as_second()));
        assert!(cursor.known().take(at(4).parse().unwrap()));
        assert!(!cursor.known().take(at(6).parse().unwrap()));
    }
}
