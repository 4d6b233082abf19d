//! Events and logs: the two answers that go on.
//!
//! Both are read to the end that the protocol marks. The event stream has no such end, so any end
//! is an error. A log has one, and only that one looks like an end.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::stream;
use serde::Deserialize;

use super::http::{Body, Endpoint, encode};
use super::{EngineError, Event, EventKind, EventStream, Health, LogLine, LogRequest, LogSide, LogStream};

/// A line longer than this is handed on in pieces, so that a container cannot fill our memory.
const LINE_LIMIT: usize = 1024 * 1024;

const ACTIONS: [&str; 8] = ["start", "die", "oom", "health_status", "destroy", "pause", "unpause", "restart"];

/// Subscribes. When it returns, the daemon has sent the head of its answer.
///
/// The daemon sends that head a few instructions *before* it registers the subscriber. Over a
/// Unix socket, whose two ends share a clock, `since` closes that gap: the daemon replays from its
/// buffer what happened after we asked.
pub(super) async fn events(
    endpoint: &Endpoint,
    api: (u32, u32),
    label_filter: &str,
    limit: Duration,
) -> Result<EventStream, EngineError> {
    let filters = serde_json::json!({
        "type": ["container"],
        "label": [label_filter],
        "event": ACTIONS,
    });
    let mut path = format!("/v{}.{}/events?filters={}", api.0, api.1, encode(&filters.to_string()));
    if matches!(endpoint, Endpoint::Unix(_))
        && let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH)
    {
        use std::fmt::Write as _;
        // Writing to a String cannot fail.
        let _ = write!(path, "&since={}.{:09}", now.as_secs(), now.subsec_nanos());
    }
    let response = endpoint.get(&path, "the event stream", limit).await?;
    let state = EventReader { endpoint: endpoint.clone(), body: response.body, buffer: Vec::new() };
    Ok(Box::pin(stream::try_unfold(state, |mut state| async move {
        let event = state.next().await?;
        Ok(Some((event, state)))
    })))
}

struct EventReader {
    endpoint: Endpoint,
    body: Body,
    buffer: Vec<u8>,
}

impl EventReader {
    async fn next(&mut self) -> Result<Event, EngineError> {
        loop {
            while let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return parse_event(&line);
            }
            match self.body.next().await {
                Ok(Some(piece)) => self.buffer.extend_from_slice(&piece),
                Ok(None) => {
                    return Err(self.endpoint.unreachable("the event stream ended"));
                }
                Err(error) => {
                    return Err(self.endpoint.unreachable(format!("the event stream broke: {error}")));
                }
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawEvent {
    #[serde(default)]
    action: String,
    #[serde(default)]
    actor: RawActor,
    #[serde(default, rename = "timeNano")]
    time_nano: i64,
}

#[derive(Deserialize, Default)]
struct RawActor {
    #[serde(default, rename = "ID")]
    id: String,
    #[serde(default, rename = "Attributes")]
    attributes: Option<BTreeMap<String, String>>,
}

fn parse_event(line: &[u8]) -> Result<Event, EngineError> {
    let raw: RawEvent = serde_json::from_slice(line)
        .map_err(|e| EngineError::Api { status: 0, message: format!("an event makes no sense: {e}") })?;
    let labels = raw.actor.attributes.unwrap_or_default();
    let kind = match raw.action.as_str() {
        "start" => EventKind::Start,
        "die" => EventKind::Die { code: labels.get("exitCode").and_then(|code| code.parse().ok()).unwrap_or(0) },
        "oom" => EventKind::Oom,
        "destroy" => EventKind::Destroy,
        "pause" => EventKind::Pause,
        "unpause" => EventKind::Unpause,
        "restart" => EventKind::Restart,
        other => match other.strip_prefix("health_status: ") {
            Some("healthy") => EventKind::Health(Health::Healthy),
            Some("unhealthy") => EventKind::Health(Health::Unhealthy),
            Some("starting") => EventKind::Health(Health::Starting),
            _ => EventKind::Other(other.to_owned()),
        },
    };
    Ok(Event {
        time_ns: raw.time_nano,
        kind,
        container: raw.actor.id,
        name: labels.get("name").cloned().unwrap_or_default(),
        service: labels.get("com.docker.compose.service").cloned(),
        labels,
    })
}

/// Opens a log. `tty` says whether the container has a terminal: then nothing is framed.
pub(super) async fn logs(
    endpoint: &Endpoint,
    api: (u32, u32),
    id: &str,
    tty: bool,
    request: LogRequest,
    limit: Duration,
) -> Result<LogStream, EngineError> {
    use std::fmt::Write as _;
    let mut path = format!(
        "/v{}.{}/containers/{}/logs?stdout=1&stderr=1&follow={}&timestamps={}",
        api.0,
        api.1,
        encode(id),
        u8::from(request.follow),
        u8::from(request.timestamps),
    );
    // Writing to a String cannot fail.
    if let Some(since) = request.since {
        let _ = write!(path, "&since={since}");
    }
    if let Some(tail) = request.tail {
        let _ = write!(path, "&tail={tail}");
    }
    let what = format!("container `{id}`");
    let response = endpoint.get(&path, &what, limit).await?;
    let state = LogReader {
        endpoint: endpoint.clone(),
        body: response.body,
        lines: Lines::new(tty, request.timestamps),
        ready: VecDeque::new(),
        ended: false,
    };
    Ok(Box::pin(stream::try_unfold(
        state,
        |mut state| async move { Ok(state.next().await?.map(|line| (line, state))) },
    )))
}

struct LogReader {
    endpoint: Endpoint,
    body: Body,
    lines: Lines,
    ready: VecDeque<LogLine>,
    ended: bool,
}

impl LogReader {
    async fn next(&mut self) -> Result<Option<LogLine>, EngineError> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(None);
            }
            match self.body.next().await {
                Ok(Some(piece)) => self.lines.push(&piece, &mut self.ready)?,
                Ok(None) => {
                    self.ended = true;
                    self.lines.finish(&mut self.ready)?;
                }
                Err(error) => {
                    return Err(self.endpoint.unreachable(format!("the log broke off: {error}")));
                }
            }
        }
    }
}

/// Makes lines of a log's bytes.
///
/// Framed: 8 bytes of head (side, three zeros, length in big-endian) and as many bytes of text.
/// Docker cuts lines at 16 KiB into several frames, each with a time stamp of its own.
struct Lines {
    tty: bool,
    timestamps: bool,
    raw: Vec<u8>,
    out: Pending,
    err: Pending,
}

#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    time: Option<String>,
}

impl Lines {
    fn new(tty: bool, timestamps: bool) -> Self {
        Self { tty, timestamps, raw: Vec::new(), out: Pending::default(), err: Pending::default() }
    }

    fn push(&mut self, bytes: &[u8], ready: &mut VecDeque<LogLine>) -> Result<(), EngineError> {
        if self.tty {
            // A time stamp stands only at the start of a line, which the text's own ends mark.
            for part in bytes.split_inclusive(|b| *b == b'\n') {
                self.out.bytes.extend_from_slice(part);
                if part.ends_with(b"\n") || self.out.bytes.len() > LINE_LIMIT {
                    if self.timestamps {
                        self.out.take_time();
                    }
                    self.out.flush(LogSide::Out, ready);
                }
            }
            return Ok(());
        }
        self.raw.extend_from_slice(bytes);
        loop {
            let Some(head) = self.raw.first_chunk::<8>() else {
                return Ok(());
            };
            let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
            let side = match head[0] {
                0 | 1 => Some(LogSide::Out),
                2 => Some(LogSide::Err),
                // The daemon's own trouble with reading the log.
                3 => None,
                _ => return Err(nonsense("its framing is unknown")),
            };
            if length > 64 * LINE_LIMIT {
                return Err(nonsense("a frame is larger than 64 MiB"));
            }
            if self.raw.len() < 8 + length {
                return Ok(());
            }
            let frame: Vec<u8> = self.raw.drain(..8 + length).skip(8).collect();
            let Some(side) = side else {
                return Err(EngineError::Api {
                    status: 500,
                    message: String::from_utf8_lossy(&frame).trim().to_owned(),
                });
            };
            let pending = match side {
                LogSide::Out => &mut self.out,
                LogSide::Err => &mut self.err,
            };
            pending.frame(&frame, side, self.timestamps, ready);
        }
    }

    fn finish(&mut self, ready: &mut VecDeque<LogLine>) -> Result<(), EngineError> {
        if !self.raw.is_empty() {
            return Err(nonsense("it ends within a frame"));
        }
        if self.tty && self.timestamps && !self.out.bytes.is_empty() {
            self.out.take_time();
        }
        for (side, pending) in [(LogSide::Out, &mut self.out), (LogSide::Err, &mut self.err)] {
            if !pending.bytes.is_empty() || pending.time.is_some() {
                pending.flush(side, ready);
            }
        }
        Ok(())
    }
}

impl Pending {
    fn frame(&mut self, frame: &[u8], side: LogSide, timestamps: bool, ready: &mut VecDeque<LogLine>) {
        let mut text = frame;
        if timestamps && let Some((time, rest)) = split_time(frame) {
            text = rest;
            // Of a line in several frames, the first one's counts.
            self.time.get_or_insert(time);
        }
        for part in text.split_inclusive(|b| *b == b'\n') {
            self.bytes.extend_from_slice(part);
            if part.ends_with(b"\n") || self.bytes.len() > LINE_LIMIT {
                self.flush(side, ready);
            }
        }
    }

    fn take_time(&mut self) {
        if let Some((time, rest)) = split_time(&self.bytes) {
            let rest = rest.to_vec();
            self.time = Some(time);
            self.bytes = rest;
        }
    }

    fn flush(&mut self, side: LogSide, ready: &mut VecDeque<LogLine>) {
        let mut bytes = std::mem::take(&mut self.bytes);
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
            if bytes.last() == Some(&b'\r') {
                bytes.pop();
            }
        }
        ready.push_back(LogLine { stream: side, time: self.time.take(), bytes });
    }
}

/// A time stamp and what comes behind the space after it.
fn split_time(bytes: &[u8]) -> Option<(String, &[u8])> {
    let end = bytes.iter().take(40).position(|b| *b == b' ')?;
    let time = std::str::from_utf8(&bytes[..end]).ok()?;
    let plausible = time.len() >= 20 && time.as_bytes()[4] == b'-' && time.as_bytes()[10] == b'T';
    plausible.then(|| (time.to_owned(), &bytes[end + 1..]))
}

fn nonsense(why: &str) -> EngineError {
    EngineError::Api { status: 0, message: format!("the log makes no sense: {why}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(side: u8, text: &[u8]) -> Vec<u8> {
        let mut bytes = vec![side, 0, 0, 0];
        bytes.extend_from_slice(&u32::try_from(text.len()).expect("short").to_be_bytes());
        bytes.extend_from_slice(text);
        bytes
    }

    fn lines(tty: bool, timestamps: bool, bytes: &[u8], step: usize) -> Result<Vec<LogLine>, EngineError> {
        let mut lines = Lines::new(tty, timestamps);
        let mut ready = VecDeque::new();
        for piece in bytes.chunks(step) {
            lines.push(piece, &mut ready)?;
        }
        lines.finish(&mut ready)?;
        Ok(ready.into())
    }

    fn texts(lines: &[LogLine]) -> Vec<(LogSide, String)> {
        lines.iter().map(|line| (line.stream, String::from_utf8_lossy(&line.bytes).into_owned())).collect()
    }

    #[test]
    fn frames_become_lines_however_they_are_cut() {
        let mut bytes = frame(1, b"one | x\n");
        bytes.extend(frame(2, b"oops\r\n"));
        bytes.extend(frame(1, b"half"));
        bytes.extend(frame(2, b"between\n"));
        bytes.extend(frame(1, b" done\n"));
        bytes.extend(frame(1, b"\n"));
        bytes.extend(frame(1, b"no end"));
        let wanted = [
            (LogSide::Out, "one | x"),
            (LogSide::Err, "oops"),
            (LogSide::Err, "between"),
            (LogSide::Out, "half done"),
            (LogSide::Out, ""),
            (LogSide::Out, "no end"),
        ]
        .map(|(side, text)| (side, text.to_owned()));
        for step in [1, 3, 7, 8, 1000] {
            assert_eq!(texts(&lines(false, false, &bytes, step).expect("lines")), wanted, "step {step}");
        }
    }

    #[test]
    fn a_long_line_keeps_one_time_stamp() {
        let mut bytes = frame(1, b"2026-11-30T22:00:00.000000001Z first ");
        bytes.extend(frame(1, b"2026-11-30T22:00:00.000000002Z second\n"));
        let got = lines(false, true, &bytes, 5).expect("lines");
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].time.as_deref(), Some("2026-11-30T22:00:00.000000001Z"));
        assert_eq!(got[0].bytes, b"first second");
    }

    #[test]
    fn a_terminal_has_no_frames() {
        let bytes = b"2026-11-30T22:00:00.000000001Z hi\r\n2026-11-30T22:00:00.000000002Z prompt> ";
        let got = lines(true, true, bytes, 4).expect("lines");
        assert_eq!(texts(&got), [(LogSide::Out, "hi".to_owned()), (LogSide::Out, "prompt> ".to_owned())]);
        assert_eq!(got[1].time.as_deref(), Some("2026-11-30T22:00:00.000000002Z"));
    }

    #[test]
    fn trouble_is_an_error_and_no_end() {
        let mut cut = frame(1, b"one\n");
        cut.truncate(cut.len() - 2);
        assert!(lines(false, false, &cut, 100).is_err());
        assert!(lines(false, false, &frame(3, b"Error grabbing logs: gone"), 100).is_err());
        assert!(lines(false, false, b"not framed at all", 100).is_err());
    }

    #[test]
    fn events_are_read_as_the_daemon_writes_them() {
        let die = br#"{"status":"die","id":"c1","Type":"container","Action":"die","Actor":{"ID":"c1","Attributes":{"com.docker.compose.service":"web","exitCode":"137","name":"p-web-1"}},"scope":"local","time":1,"timeNano":1000000005}"#;
        let event = parse_event(die).expect("an event");
        assert_eq!(event.kind, EventKind::Die { code: 137 });
        assert_eq!(
            (event.name.as_str(), event.service.as_deref(), event.time_ns),
            ("p-web-1", Some("web"), 1_000_000_005)
        );
        let health =
            br#"{"Type":"container","Action":"health_status: unhealthy","Actor":{"ID":"c1","Attributes":null}}"#;
        assert_eq!(parse_event(health).expect("an event").kind, EventKind::Health(Health::Unhealthy));
    }
}
