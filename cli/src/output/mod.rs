//! The one place that prints.
//!
//! Data goes to standard output, talk to standard error. Writing to a closed pipe
//! is no error: whoever reads has seen enough, see [`crate::errors::Stop::Pipe`].

mod progress;
pub(crate) mod safe;
mod style;
mod table;

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::rc::Rc;

use jiff::Timestamp;
use serde::Serialize;
use sidestack_runtime::report::Reporter;

pub(crate) use progress::{Manner, Talk};
pub(crate) use style::Style;
pub(crate) use table::Table;

use crate::args::Global;
use crate::errors::Stop;
use crate::json::Answer;

/// Where a command's words go.
pub(crate) struct Output {
    /// `--json`.
    pub(crate) json: bool,
    /// `-v`.
    pub(crate) verbose: bool,
    /// Standard output is a terminal.
    pub(crate) terminal: bool,
    colour: bool,
    command: &'static str,
    talk: Rc<Talk>,
}

/// Whether colours are wanted at all.
fn colours(no_color: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !no_color && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

impl Output {
    /// As the options and the terminal say.
    pub(crate) fn new(global: &Global, command: &'static str) -> Self {
        let wanted = colours(global.no_color);
        let (terminal, live) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let manner = match (global.quiet, live && !dumb) {
            (true, _) => Manner::Quiet,
            (false, true) => Manner::Live,
            (false, false) => Manner::Plain,
        };
        Self {
            json: global.json,
            verbose: global.verbose > 0,
            terminal,
            colour: wanted && terminal,
            command,
            talk: Rc::new(Talk::new(manner, wanted && live)),
        }
    }

    /// What the runtime reports to.
    pub(crate) fn reporter(&self) -> Rc<dyn Reporter> {
        self.talk.clone()
    }

    /// Bytes to standard output, exactly.
    pub(crate) fn data(&self, text: &str) -> Result<(), Stop> {
        self.talk.settle();
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        Ok(stdout.flush()?)
    }

    /// A line to standard output, safe for the terminal.
    pub(crate) fn line(&self, text: impl Display) -> Result<(), Stop> {
        self.data(&format!("{}\n", safe::line(&text.to_string())))
    }

    /// A heading and what stands under it.
    pub(crate) fn section(&self, title: &str, table: &Table) -> Result<(), Stop> {
        if table.is_empty() {
            return Ok(());
        }
        self.data(&format!("\n{}\n{}", Style::Bold.paint(self.colour, title), table.render(self.colour)))
    }

    /// A table to standard output.
    pub(crate) fn table(&self, table: &Table) -> Result<(), Stop> {
        self.data(&table.render(self.colour))
    }

    /// A log line to standard output: exact when it goes into a file or a pipe.
    pub(crate) fn log(&self, prefix: &str, text: &str) -> Result<(), Stop> {
        if self.terminal {
            self.data(&format!("{}{}\n", Style::Dim.paint(self.colour, &safe::line(prefix)), safe::log(text)))
        } else {
            self.data(&format!("{prefix}{text}\n"))
        }
    }

    /// The answer as one JSON document on one line, `--json`.
    pub(crate) fn document<T: Serialize>(&self, data: &T) -> Result<(), Stop> {
        self.data(&Answer::Done(data).text(self.command))
    }

    /// Good to know, to standard error.
    pub(crate) fn note(&self, text: impl Display) {
        self.talk.settle();
        self.talk.note(&text.to_string());
    }

    /// A text of several lines, to standard error.
    pub(crate) fn note_lines(&self, text: &str) {
        for line in text.lines() {
            self.talk.note(line);
        }
    }

    /// Better to know, to standard error.
    pub(crate) fn warn(&self, text: impl Display) {
        self.talk.warn(&text.to_string());
    }

    /// What a command ended with, as text or as JSON.
    pub(crate) fn failure(&self, error: &sidestack_runtime::Error) -> Result<(), Stop> {
        self.talk.settle();
        if self.json {
            return self.data(&Answer::<()>::Failed(error.into()).text(self.command));
        }
        let lines: Vec<String> =
            crate::errors::lines(error, self.verbose).iter().map(|line| safe::line(line).into_owned()).collect();
        self.talk.error(&lines);
        Ok(())
    }
}

/// The last words of a crashed program or of one that is left at once.
pub(crate) fn last_words(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", safe::line(text));
}

/// How long ago that was: `5s`, `3m`, `2h`, `4d`.
pub(crate) fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A folder as people write it.
pub(crate) fn folder(path: &std::path::Path) -> String {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let now: Timestamp = "2026-01-10T00:00:00Z".parse().unwrap();
        for (then, expected) in [
            ("2026-01-10T00:00:05Z", "0s"),
            ("2026-01-09T23:59:01Z", "59s"),
            ("2026-01-09T23:59:00Z", "1m"),
            ("2026-01-09T23:00:00Z", "1h"),
            ("2026-01-08T00:00:01Z", "47h"),
            ("2026-01-08T00:00:00Z", "2d"),
        ] {
            assert_eq!(age(then.parse().unwrap(), now), expected, "{then}");
        }
    }
}
