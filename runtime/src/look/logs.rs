//! `logs`: what services wrote, as one.
//!
//! What there is comes merged by time. Following, what comes is handed on as it comes; containers
//! that are restarted or made again are joined, and when the connection to Docker is lost it goes on
//! after the last line of each, repeating none.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, LocalBoxStream, SelectAll};
use jiff::Timestamp;
use sidestack_topology::names::Target;
use tokio::time::Instant;

use super::connection::{self, Scope, is_lost};
use super::merge::{Cursor, Known, Source, by_time, time_of};
use super::{LogEntry, LogsRequest, services, unknown_service};
use crate::api::TargetWords;
use crate::engine::{Container, Engine, EngineError, LogLine, LogRequest};
use crate::error::{Error, Kind, Result};
use crate::observe;
use crate::record::Record;
use crate::session::Session;

/// Between something that happened and the list that follows it, so that several need one list.
const SOON: Duration = Duration::from_millis(100);
/// A log that ends again and again without a line is not asked for more often than this.
const SELDOM: Duration = Duration::from_secs(5);

impl Session {
    /// The lines of an instance's logs. Following goes on until Ctrl-C, which is a good end.
    ///
    /// # Errors
    /// Not found, an unknown service; Docker unreachable; a log that Docker does not hand out (those
    /// of other containers are told all the same).
    pub fn logs(&self, words: &TargetWords, request: &LogsRequest, sink: &mut dyn FnMut(LogEntry)) -> Result<()> {
        let instance = self.instance(words)?;
        let record = self.record_of(&instance)?;
        let engine = self.engine()?;
        let filter = observe::filter(&instance.uid);
        let logs = Logs {
            engine,
            scope: Scope { filter: &filter, install: self.store.install_id() },
            target: &instance.target,
            record: &record,
            request,
            now: Timestamp::now(),
        };
        let mut note = |text: String| self.note(text);
        let result = if request.follow { self.wait(logs.follow(sink, &mut note)) } else { self.wait(logs.once(sink)) };
        match result {
            Err(error) if error.kind == Kind::Cancelled && request.follow => Ok(()),
            other => other.map_err(|error| error.about(&instance.target)),
        }
    }
}

/// One call of `logs`.
struct Logs<'a, E> {
    engine: &'a E,
    scope: Scope<'a>,
    target: &'a Target,
    record: &'a Record,
    request: &'a LogsRequest,
    now: Timestamp,
}

/// What comes from the logs that are followed: a line, a failure, or the end of one.
type Item = (String, Option<Result<LogLine, EngineError>>);

/// What is known while following.
struct Following {
    sources: BTreeMap<String, Source>,
    /// Lines that will come again.
    known: BTreeMap<String, Known>,
    /// Logs that are open now, with whether a line came.
    open: BTreeMap<String, bool>,
    /// Containers that something happened to.
    stirred: BTreeSet<String>,
    /// Logs that Docker does not hand out.
    refused: BTreeSet<String>,
    /// Ends in a row without a line.
    idle: u32,
    streams: SelectAll<LocalBoxStream<'static, Item>>,
}

impl<E: Engine> Logs<'_, E> {
    /// Containers that were asked for; every name must be one that the instance has.
    fn chosen<'c>(&self, containers: &'c [Container]) -> Vec<&'c Container> {
        let wanted = &self.request.services;
        let asked = |container: &&Container| {
            wanted.is_empty() || container.service.as_ref().is_some_and(|service| wanted.contains(service))
        };
        containers.iter().filter(asked).collect()
    }

    fn check(&self, containers: &[Container]) -> Result<()> {
        let known = services(self.record, containers);
        match self.request.services.iter().find(|name| !known.contains(name.as_str())) {
            Some(name) => Err(unknown_service(self.target, name, &known)),
            None => Ok(()),
        }
    }

    fn sources(&self, containers: &[Container]) -> Vec<Source> {
        self.chosen(containers)
            .into_iter()
            .map(|container| Source::new(container, replicas(containers, container)))
            .collect()
    }

    fn since(&self) -> Option<i64> {
        let back = jiff::SignedDuration::try_from(self.request.since?).ok()?;
        // Further back than time goes is everything.
        self.now.checked_sub(back).ok().map(Timestamp::as_second)
    }

    /// What there is, by time.
    async fn once(&self, sink: &mut dyn FnMut(LogEntry)) -> Result<()> {
        let containers = connection::list(self.engine, self.scope).await?;
        self.check(&containers)?;
        let mut sources = self.sources(&containers);
        let mut failures = self.backlog(&mut sources, sink).await;
        if failures.is_empty() { Ok(()) } else { Err(failures.swap_remove(0).1) }
    }

    /// Gives the containers whose logs could not be read, with the reasons.
    async fn backlog(&self, sources: &mut [Source], sink: &mut dyn FnMut(LogEntry)) -> Vec<(String, Error)> {
        let request = LogRequest { follow: false, since: self.since(), tail: self.request.tail, timestamps: true };
        let logs = sources.iter().map(|source| self.engine.logs(&source.id, &request)).collect();
        let mut failures = Vec::new();
        let mut refused = |source: &Source, error: EngineError| {
            failures.push((source.id.clone(), unreadable(source, error)));
        };
        by_time(sources, logs, self.request.timestamps, sink, &mut refused).await;
        failures
    }

    async fn follow(&self, sink: &mut dyn FnMut(LogEntry), note: &mut dyn FnMut(String)) -> Result<()> {
        let mut joined = connection::join(self.engine, self.scope).await?;
        self.check(&joined.containers)?;
        let mut sources = self.sources(&joined.containers);
        let failures = self.backlog(&mut sources, sink).await;
        let mut state = Following::default();
        for (id, error) in failures {
            if error.kind == Kind::Docker {
                return Err(error);
            }
            note(error.message);
            state.refused.insert(id);
        }
        for mut source in sources {
            if self.request.tail == Some(0) {
                source.cursor = Cursor::after(self.now);
            }
            state.sources.insert(source.id.clone(), source);
        }
        self.open(&mut state, &joined.containers);
        let mut due: Option<Instant> = None;
        loop {
            let wake = due.unwrap_or_else(|| Instant::now() + SELDOM);
            let lost = tokio::select! {
                event = joined.events.next() => match event {
                    Some(Ok(event)) => {
                        state.stirred.insert(event.container);
                        due.get_or_insert_with(|| Instant::now() + SOON);
                        false
                    }
                    Some(Err(_)) | None => true,
                },
                Some((id, item)) = state.streams.next(), if !state.streams.is_empty() => match item {
                    Some(Ok(line)) => {
                        self.tell(&mut state, &id, line, sink);
                        false
                    }
                    Some(Err(error)) if is_lost(&error) => true,
                    Some(Err(EngineError::NotFound { .. })) => false,
                    Some(Err(error)) => {
                        if let Some(source) = state.sources.get(&id) {
                            note(unreadable(source, error).message);
                        }
                        state.refused.insert(id);
                        false
                    }
                    None => {
                        state.ended(&id);
                        due.get_or_insert(Instant::now() + SOON.saturating_mul(1 << state.idle.min(6)).min(SELDOM));
                        false
                    }
                },
                () = tokio::time::sleep_until(wake), if due.is_some() => {
                    due = None;
                    match connection::list(self.engine, self.scope).await {
                        Ok(containers) => {
                            self.open(&mut state, &containers);
                            false
                        }
                        Err(error) if is_lost(&error) => true,
                        Err(error) => return Err(error.into()),
                    }
                }
            };
            if lost {
                note("the connection to Docker is lost; waiting for it".to_owned());
                state.lose();
                joined = connection::rejoin(self.engine, self.scope).await?;
                note("Docker is back".to_owned());
                self.open(&mut state, &joined.containers);
                due = None;
            }
        }
    }

    fn tell(&self, state: &mut Following, id: &str, line: LogLine, sink: &mut dyn FnMut(LogEntry)) {
        let time = time_of(&line);
        if state.known.get_mut(id).is_some_and(|known| known.take(time)) {
            return;
        }
        state.open.insert(id.to_owned(), true);
        state.idle = 0;
        if let Some(source) = state.sources.get_mut(id) {
            source.cursor.pass(time);
            sink(source.entry(line, self.request.timestamps));
        }
    }

    /// Opens the logs of containers that may have something new.
    fn open(&self, state: &mut Following, containers: &[Container]) {
        for container in self.chosen(containers) {
            let id = &container.id;
            let count = replicas(containers, container);
            let new = !state.sources.contains_key(id);
            let source = state.sources.entry(id.clone()).or_insert_with(|| Source::new(container, count));
            source.replicas = count;
            let stirred = state.stirred.remove(id);
            if state.open.contains_key(id)
                || state.refused.contains(id)
                || !(new || stirred || container.status.is_alive())
            {
                continue;
            }
            // Without a line so far, what was asked for at the start still holds; a container that
            // came later is younger than that.
            let since = source.cursor.since().or_else(|| self.since());
            let request = LogRequest { follow: true, since, tail: None, timestamps: true };
            state.known.insert(id.clone(), source.cursor.known());
            state.open.insert(id.clone(), false);
            let (line, end) = (id.clone(), id.clone());
            let lines = self.engine.logs(id, &request).map(move |item| (line.clone(), Some(item)));
            state.streams.push(lines.chain(stream::once(std::future::ready((end, None)))).boxed_local());
        }
        let there: BTreeSet<&String> = containers.iter().map(|container| &container.id).collect();
        state.sources.retain(|id, _| there.contains(id) || state.open.contains_key(id));
        state.stirred.clear();
    }
}

impl Default for Following {
    fn default() -> Self {
        Self {
            sources: BTreeMap::new(),
            known: BTreeMap::new(),
            open: BTreeMap::new(),
            stirred: BTreeSet::new(),
            refused: BTreeSet::new(),
            idle: 0,
            streams: SelectAll::new(),
        }
    }
}

impl Following {
    /// A log came to its end: the container ended, or is being restarted.
    fn ended(&mut self, id: &str) {
        if self.open.remove(id) == Some(false) {
            self.idle = self.idle.saturating_add(1);
        }
    }

    /// Nothing is open any more, and anything may have happened.
    fn lose(&mut self) {
        self.streams = SelectAll::new();
        self.open.clear();
        self.idle = 0;
        self.stirred = self.sources.keys().cloned().collect();
    }
}

/// How many containers a service has.
fn replicas(containers: &[Container], of: &Container) -> u32 {
    let count = containers.iter().filter(|container| container.service == of.service).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn unreadable(source: &Source, error: EngineError) -> Error {
    let mut error = Error::from(error);
    error.message = format!("the log of `{}` cannot be read: {}", source.service, error.message);
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{EventKind, FakeEngine, LogSide, Status};
    use sidestack_topology::planner::place::INSTALL_LABEL;
    use std::cell::RefCell;

    const LABELS: [(&str, &str); 2] = [(INSTALL_LABEL, "i"), ("dev.sidestack.instance-id", "u")];
    const SCOPE: Scope<'static> = Scope { filter: "dev.sidestack.instance-id=u", install: "i" };

    fn line(second: u32, text: &str) -> Result<LogLine, EngineError> {
        let time = format!("2026-11-30T22:00:{second:02}.000000001Z");
        Ok(LogLine { stream: LogSide::Out, time: Some(time), bytes: text.as_bytes().to_vec() })
    }

    fn add(fake: &FakeEngine, id: &str, service: &str, number: u32) {
        let sample = FakeEngine::sample(id, "p", service, &LABELS);
        fake.add_container(Container { number, status: Status::Running, ..sample });
    }

    fn run<T>(fake: &FakeEngine, request: &LogsRequest, work: impl AsyncFnOnce(&Logs<'_, FakeEngine>) -> T) -> T {
        let target = Target {
            workspace: "shop".parse().unwrap(),
            environment: "dev".parse().unwrap(),
            instance: "main".parse().unwrap(),
        };
        let record = Record::default();
        let logs =
            Logs { engine: fake, scope: SCOPE, target: &target, record: &record, request, now: Timestamp::now() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(work(&logs))
    }

    #[test]
    fn replicas_are_told_apart_and_merged() {
        let fake = FakeEngine::new();
        add(&fake, "a", "web", 1);
        add(&fake, "b", "web", 2);
        fake.set_logs("a", vec![line(1, "one"), line(3, "three")]);
        fake.set_logs("b", vec![line(2, "two")]);
        let mut told = Vec::new();
        let request = LogsRequest::default();
        run(&fake, &request, async |logs| logs.once(&mut |e| told.push((e.number, e.replicas, e.line))).await).unwrap();
        let row = |number, text: &str| (number, 2, text.to_owned());
        assert_eq!(told, [row(1, "one"), row(2, "two"), row(1, "three")]);
    }

    #[test]
    fn trouble_is_no_empty_end() {
        let fake = FakeEngine::new();
        add(&fake, "a", "web", 1);
        add(&fake, "b", "db", 1);
        fake.set_logs("a", vec![line(1, "one")]);
        fake.set_logs("b", vec![Err(EngineError::Api { status: 501, message: "driver none".to_owned() })]);
        let mut told = Vec::new();
        let request = LogsRequest::default();
        let error = run(&fake, &request, async |logs| logs.once(&mut |e| told.push(e.line)).await).unwrap_err();
        assert!(error.message.contains("`db`") && error.message.contains("driver none"), "{error}");
        assert_eq!(told, ["one"]);
    }

    #[test]
    fn an_unknown_service_is_named_with_the_nearest() {
        let fake = FakeEngine::new();
        add(&fake, "a", "web", 1);
        let request = LogsRequest { services: vec!["wbe".to_owned()], ..LogsRequest::default() };
        let error = run(&fake, &request, async |logs| logs.once(&mut |_| ()).await).unwrap_err();
        assert_eq!((error.kind, error.hint.as_deref()), (Kind::NotFound, Some("did you mean `web`?")));
    }

    #[test]
    fn following_joins_restarts_recreations_and_a_lost_connection() {
        let fake = FakeEngine::new();
        add(&fake, "a", "web", 1);
        fake.set_logs("a", vec![line(1, "one")]);
        let told = RefCell::new(Vec::new());
        let notes = RefCell::new(Vec::new());
        let request = LogsRequest { follow: true, ..LogsRequest::default() };
        run(&fake, &request, async |logs| {
            let step = async |wanted: &[&str]| {
                for _ in 0..300 {
                    if *told.borrow() == wanted {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                assert_eq!(*told.borrow(), wanted);
            };
            let script = async {
                step(&["one"]).await;
                // Restarted: its log goes on.
                fake.set_logs("a", vec![line(1, "one"), line(2, "two")]);
                fake.emit("a", EventKind::Start);
                step(&["one", "two"]).await;
                // Made again.
                fake.change("a", |container| container.status = Status::Exited(0));
                add(&fake, "b", "web", 1);
                fake.set_logs("b", vec![line(3, "three")]);
                fake.emit("b", EventKind::Start);
                step(&["one", "two", "three"]).await;
                // Lost, and something written meanwhile.
                fake.set_logs("b", vec![line(3, "three"), line(4, "four")]);
                fake.fail_once(
                    "subscribe*",
                    EngineError::Unreachable { endpoint: "x".to_owned(), cause: "y".to_owned() },
                );
                fake.break_events();
                step(&["one", "two", "three", "four"]).await;
            };
            let mut sink = |entry: LogEntry| told.borrow_mut().push(entry.line);
            let mut note = |text: String| notes.borrow_mut().push(text);
            tokio::select! {
                result = logs.follow(&mut sink, &mut note) => panic!("it ended: {result:?}"),
                () = script => {}
            }
        });
        assert_eq!(notes.borrow().len(), 2, "{notes:?}");
    }
}
