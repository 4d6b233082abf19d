//! The `sidestack` command: arguments in, words and an exit code out.
//!
//! [`args`] is what is typed, [`commands`] turns it into requests to the runtime
//! and its answers into what is shown, [`output`] is the only place that prints,
//! [`json`] the only types that are serialised, [`errors`] the one mapping from
//! errors to exit codes.

mod args;
mod commands;
mod errors;
mod format;
mod interrupt;
mod json;
mod output;
#[cfg(test)]
mod reference;
mod usage;

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use sidestack_runtime::{Error, Kind};

use args::{Cli, Global};
use errors::{Stop, exit_code};
use output::{Output, last_words};

fn main() -> ExitCode {
    // A panic's own message may hold anything, a secret too: it is not shown.
    set_hook(Box::new(|panic| {
        let place = panic.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
        last_words(&format!("error: sidestack crashed{place}; this is a defect of sidestack"));
    }));
    let code = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| exit_code(Kind::Failed));
    ExitCode::from(code)
}

fn run() -> u8 {
    let words: Vec<OsString> = std::env::args_os().collect();
    match Cli::try_parse_from(&words) {
        Ok(cli) => {
            let out = Output::new(&cli.global, cli.command.name());
            interrupt::watch(&cli.command);
            let result = commands::run(&cli, &out);
            end(&out, result)
        }
        Err(error) => refused(&error, &words),
    }
}

/// The exit code, after the last words.
fn end(out: &Output, result: Result<u8, Stop>) -> u8 {
    match result {
        Ok(code) => code,
        Err(Stop::Pipe) => 0,
        Err(Stop::Output(cause)) => {
            last_words(&format!("error: standard output cannot be written: {cause}"));
            exit_code(Kind::Failed)
        }
        Err(Stop::Error(error)) => match out.failure(&error) {
            Ok(()) | Err(_) => exit_code(error.kind),
        },
    }
}

/// Help and version are answers; everything else is a wrong command line.
fn refused(error: &clap::Error, words: &[OsString]) -> u8 {
    let json = usage::wants_json(words);
    let global = Global { json, ..Global::default() };
    let out = Output::new(&global, "error");
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            end(&out, out.data(&error.render().to_string()).map(|()| 0))
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if !json => {
            out.note_lines(&error.render().to_string());
            exit_code(Kind::Usage)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            end(&out, Err(Error::new(Kind::Usage, "usage", "no command is given").hint("see `sidestack help`").into()))
        }
        _ => end(&out, Err(usage::told(error).into())),
    }
}
