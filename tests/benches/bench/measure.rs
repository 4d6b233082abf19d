//! Times, medians, peaks of memory, and the table at the end.

use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A line of the table.
pub(crate) struct Row {
    /// What was measured.
    pub(crate) what: String,
    /// The figure with its unit.
    pub(crate) figure: String,
    /// The goal with its unit; empty when the line only informs.
    pub(crate) goal: String,
    /// Whether it is met; `None` when the line only informs.
    pub(crate) met: Option<bool>,
}

impl Row {
    /// A figure that may be at most so much.
    pub(crate) fn at_most(what: &str, figure: f64, goal: f64, unit: &str, detail: &str) -> Self {
        let detail = if detail.is_empty() { String::new() } else { format!("  ({detail})") };
        Self {
            what: what.to_owned(),
            figure: format!("{}{unit}{detail}", rounded(figure)),
            goal: format!("≤ {}{unit}", rounded(goal)),
            met: Some(figure <= goal),
        }
    }

    /// Something that is so or is not.
    pub(crate) fn holds(what: &str, met: bool, detail: &str) -> Self {
        Self { what: what.to_owned(), figure: detail.to_owned(), goal: "holds".to_owned(), met: Some(met) }
    }

    /// Something that could not be measured.
    pub(crate) fn missing(what: &str, why: &str) -> Self {
        Self { what: what.to_owned(), figure: why.to_owned(), goal: String::new(), met: None }
    }
}

fn rounded(value: f64) -> String {
    match value {
        value if value < 1.0 => format!("{value:.3}"),
        value if value < 100.0 => format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').to_owned(),
        value => format!("{value:.0}"),
    }
}

/// The table as text.
pub(crate) fn table(rows: &[Row]) -> String {
    let width = |pick: fn(&Row) -> &str| rows.iter().map(|row| pick(row).chars().count()).max().unwrap_or(0);
    let (what, figure, goal) = (width(|row| &row.what), width(|row| &row.figure), width(|row| &row.goal));
    let mut text = String::from("\n");
    for row in rows {
        let met = match row.met {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "-",
        };
        text.push_str(&format!("{:what$}  {:figure$}  {:goal$}  {met}\n", row.what, row.figure, row.goal));
    }
    text
}

/// Talk goes to stderr.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "bench: {text}");
}

/// A count from the environment.
pub(crate) fn count(key: &str, default: usize) -> usize {
    std::env::var(key).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// How long a command takes from its spawn to its end.
///
/// # Panics
/// When it fails: a time of something that failed is no figure.
pub(crate) fn timed(command: &mut Command) -> Duration {
    let began = Instant::now();
    let output = command.stdin(Stdio::null()).output().expect("the command starts");
    let took = began.elapsed();
    assert!(
        output.status.success(),
        "{command:?}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    took
}

/// The middle one.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// How many times as long, and both times in words.
pub(crate) fn ratio(ours: &[Duration], theirs: &[Duration]) -> (f64, String) {
    let (ours, theirs) = (median(ours.to_vec()), median(theirs.to_vec()));
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    (ratio, format!("{:.1} ms against {:.1} ms", milliseconds(ours), milliseconds(theirs)))
}

/// The largest resident size of a command in MiB, as the kernel counts it (`VmHWM`);
/// `None` where there is no `/proc`. It only grows, so the last look before the end
/// is at most a look's pause too old.
pub(crate) fn peak_mib(command: &mut Command) -> Option<f64> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().ok()?;
    let status = format!("/proc/{}/status", child.id());
    let mut talk = child.stderr.take()?;
    let reader = thread::spawn(move || {
        let mut text = String::new();
        let _ = talk.read_to_string(&mut text);
        text
    });
    let mut peak = None;
    let ended = loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        peak = kib.or(peak);
        if let Ok(Some(ended)) = child.try_wait() {
            break ended;
        }
        thread::sleep(Duration::from_micros(300));
    };
    let talk = reader.join().unwrap_or_default();
    assert!(ended.success(), "{command:?}\n{talk}");
    peak.map(|kib| kib / 1024.0)
}
