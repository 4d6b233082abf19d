//! `logs`, `events`, `exec`, `shell`, `compose`.

use std::io::IsTerminal;

use sidestack_runtime::look::{EventEntry, ExecOptions, LogEntry, LogsRequest};
use sidestack_runtime::{Error, Kind};

use super::Context;
use crate::args;
use crate::errors::Stop;
use crate::json;

pub(super) fn logs(context: &Context<'_>, args: &args::Logs) -> Result<u8, Stop> {
    let (session, out) = (context.session()?, context.out);
    let request = LogsRequest {
        services: args.services.clone(),
        follow: args.follow,
        since: args.since,
        tail: args.tail,
        timestamps: args.timestamps,
    };
    let alone = args.services.len() == 1;
    let mut all = json::Logs { lines: Vec::new() };
    let mut stopped = Ok(());
    let mut sink = |entry: LogEntry| {
        if stopped.is_err() {
            return;
        }
        if out.json && !args.follow {
            all.lines.push(entry.into());
        } else {
            stopped = if out.json {
                out.document(&json::Logs { lines: vec![entry.into()] })
            } else {
                print(context, alone, &entry)
            };
            leave_on_closed_pipe(&stopped);
        }
    };
    session.logs(&context.target(args.inside.target.as_ref()), &request, &mut sink)?;
    stopped?;
    if out.json && !args.follow {
        out.document(&all)?;
    }
    Ok(0)
}

fn print(context: &Context<'_>, alone: bool, entry: &LogEntry) -> Result<(), Stop> {
    let time = entry.time.as_ref().map(|time| format!("{time} ")).unwrap_or_default();
    let name = if entry.replicas > 1 { format!("{}-{}", entry.service, entry.number) } else { entry.service.clone() };
    let name = if alone && entry.replicas <= 1 { String::new() } else { format!("{name} | ") };
    context.out.log(&format!("{name}{time}"), &entry.line)
}

/// A follower has no other way to learn that nobody reads any more: the next line
/// may never come, and the runtime goes on waiting for it.
fn leave_on_closed_pipe(written: &Result<(), Stop>) {
    if matches!(written, Err(Stop::Pipe)) {
        #[expect(clippy::exit, reason = "nothing is under way but reading, and nobody reads")]
        std::process::exit(0);
    }
}

pub(super) fn events(context: &Context<'_>, args: &args::Events) -> Result<u8, Stop> {
    let (session, out) = (context.session()?, context.out);
    let mut stopped = Ok(());
    let mut sink = |entry: EventEntry| {
        if stopped.is_err() {
            return;
        }
        stopped = if out.json {
            out.document(&json::Events { events: vec![json::Event::from(entry)] })
        } else {
            let words = [entry.time, entry.target, entry.service, entry.kind, entry.detail];
            out.line(words.iter().filter(|word| !word.is_empty()).cloned().collect::<Vec<_>>().join("  "))
        };
        leave_on_closed_pipe(&stopped);
    };
    session.events(&context.target(args.inside.target.as_ref()), args.all, &mut sink)?;
    stopped?;
    Ok(0)
}

pub(super) fn exec(context: &Context<'_>, args: &args::Exec) -> Result<u8, Stop> {
    let options = ExecOptions {
        service: args.service.clone(),
        command: args.command.clone(),
        user: args.user.clone(),
        workdir: args.workdir.clone(),
        number: args.index,
        interactive: !args.no_tty && std::io::stdin().is_terminal() && context.out.terminal,
    };
    run(context, &args.inside, &options)
}

pub(super) fn shell(context: &Context<'_>, args: &args::Shell) -> Result<u8, Stop> {
    let options = ExecOptions {
        service: args.service.clone(),
        command: ["sh", "-c", "if command -v bash >/dev/null 2>&1; then exec bash; fi; exec sh"]
            .map(str::to_owned)
            .into(),
        user: args.user.clone(),
        workdir: None,
        number: args.index,
        interactive: std::io::stdin().is_terminal() && context.out.terminal,
    };
    run(context, &args.inside, &options)
}

pub(super) fn compose(context: &Context<'_>, args: &args::Compose) -> Result<u8, Stop> {
    passed_on(context.session()?.compose_look(&context.target(args.inside.target.as_ref()), &args.args)?)
}

fn run(context: &Context<'_>, inside: &args::Inside, options: &ExecOptions) -> Result<u8, Stop> {
    passed_on(context.session()?.exec(&context.target(inside.target.as_ref()), options)?)
}

/// The command's own exit code.
fn passed_on(code: i32) -> Result<u8, Stop> {
    u8::try_from(code).map_err(|_| Error::new(Kind::Failed, "exec", format!("the command ended with {code}")).into())
}
