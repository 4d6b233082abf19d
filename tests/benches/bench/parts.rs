//! What needs no Docker: planning, leasing, the binary's size.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::measure::{Row, say};

/// The cargo that runs this.
pub(crate) fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    command
}

/// Runs a measuring example of another crate and gives what it printed.
fn example(package: &str, name: &str, args: &[&str]) -> Option<String> {
    say(&format!("running {name}"));
    let mut command = cargo();
    command.args(["run", "--release", "--quiet", "-p", package, "--example", name, "--"]).args(args);
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in text.lines() {
        say(&format!("  {line}"));
    }
    if text.is_empty() {
        say(&String::from_utf8_lossy(&output.stderr));
    }
    (!text.is_empty()).then_some(text)
}

/// The number that stands before a unit, after a word.
fn number(text: &str, after: &str, unit: &str) -> Option<f64> {
    let rest = &text[text.find(after)? + after.len()..];
    let end = rest.find(unit)?;
    rest[..end].split_whitespace().next_back()?.trim_matches(|c: char| !c.is_ascii_digit() && c != '.').parse().ok()
}

/// The word after another one on its line.
fn word<'a>(text: &'a str, after: &str) -> &'a str {
    text.find(after)
        .and_then(|at| text[at + after.len()..].split_whitespace().next())
        .unwrap_or("")
        .trim_end_matches([',', ';', ')'])
}

/// Planning and rendering a stack of 100 services.
pub(crate) fn plan() -> Vec<Row> {
    let what = "plan and render of 100 services";
    let text = example("sidestack-topology", "plan_bench", &[]);
    let median = text.as_deref().and_then(|text| number(text, "median ", " ms"));
    match median {
        Some(median) => vec![Row::at_most(what, median, 5.0, " ms", "")],
        None => vec![Row::missing(what, "its example gave no figure")],
    }
}

/// 64 processes that lease and release, 10,000 rounds in all.
pub(crate) fn lease() -> Vec<Row> {
    let what = "64 processes, 10,000 leases";
    let Some(text) = example("sidestack-state", "lease_storm", &["64", "10000"]) else {
        return vec![Row::missing(what, "its example gave no figures")];
    };
    let zero = |name: &str, label: &str| {
        let count = word(&text, label);
        Row { what: format!("{what}: {name}"), figure: count.to_owned(), goal: "0".to_owned(), met: Some(count == "0") }
    };
    let time = |name: &str, label: &str, goal: &str, met: bool| Row {
        what: format!("{what}: {name}"),
        figure: word(&text, label).to_owned(),
        goal: format!("≤ {goal}"),
        met: Some(met),
    };
    let share = number(&text, "; ", " of it").unwrap_or(f64::INFINITY);
    let tail = text.find("together:").map_or("", |at| &text[at..]);
    let p99 = word(tail, "p99:").to_owned();
    let longest = seconds(word(tail, "max:"));
    vec![
        zero("leased twice", "duplicates:"),
        zero("\"database is locked\"", "locked:"),
        zero("other errors", "other errors:"),
        Row { figure: p99, ..time("p99", "p99:", word(tail, "at most "), share <= 1.0) },
        time("longest", "max:", "2 s", longest.is_some_and(|longest| longest <= 2.0)),
    ]
}

/// A duration as Rust prints it, in seconds.
fn seconds(text: &str) -> Option<f64> {
    for (unit, factor) in [("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)] {
        if let Some(value) = text.strip_suffix(unit).and_then(|value| value.parse::<f64>().ok()) {
            return Some(value * factor);
        }
    }
    None
}

/// The size of the binary, which the release profile strips.
pub(crate) fn size(program: &Path) -> Vec<Row> {
    let what = "the binary, stripped";
    match fs::metadata(program) {
        Ok(meta) => vec![Row::at_most(what, meta.len() as f64 / 1e6, 20.0, " MB", "")],
        Err(error) => vec![Row::missing(what, &error.to_string())],
    }
}
