//! `up`, `start`, `restart`, `wait`, `stop`, `down`, `rm`.

use sidestack_runtime::Session;
use sidestack_runtime::api::{Chosen, Description, Done, Place, State, StepLine, TargetWords, UpReport, UpRequest};

use super::Context;
use crate::args;
use crate::errors::Stop;
use crate::json;
use crate::output::{Style, Table};

/// The request of `up` and `plan`.
pub(super) fn request(context: &Context<'_>, place: &args::Where, source: &args::Source) -> UpRequest {
    UpRequest {
        target: context.target(place.target.as_ref()),
        place: match (&place.new, place.beside) {
            (Some(name), _) => Place::New(name.clone()),
            (None, true) => Place::Beside,
            (None, false) => Place::Here,
        },
        git: place.git.clone(),
        only: place.only.clone(),
        timeout: context.global.limit(),
        files: source.files.clone(),
        profiles: source.profiles.clone(),
        env_files: source.env_files.clone(),
        chosen: Chosen {
            share: source.share.clone(),
            copy: source.copy.clone(),
            create: source.create.clone(),
            keep: source.keep.clone(),
        },
        ..UpRequest::default()
    }
}

pub(super) fn up(context: &Context<'_>, args: &args::Up) -> Result<u8, Stop> {
    let request = UpRequest {
        wait: !args.no_wait,
        rollback: !args.no_rollback,
        move_ports: args.move_ports,
        fresh: args.fresh,
        own_ports: !args.no_own_ports,
        build: args.build,
        pull: args.pull,
        dry_run: args.dry_run,
        message: args.message.clone(),
        ..request(context, &args.place, &args.source)
    };
    let report = context.session()?.up(&request)?;
    brought_up(context, &report, args.dry_run)
}

pub(super) fn trust(context: &Context<'_>, args: &args::Trust) -> Result<u8, Stop> {
    let environment = context.target(None).environment;
    let items = context.session()?.trust(environment.as_deref(), &args.items, args.withdraw)?;
    let out = context.out;
    if out.json {
        out.document(&items.iter().collect::<json::Trust>())?;
        return Ok(0);
    }
    let mut table = Table::new(&["ITEM", "SECOND COPY", "WHAT"]);
    for one in &items {
        let needs = if one.agreed { "may share it" } else { json::needs(one.answer) };
        table.row([one.item.clone(), needs.to_owned(), one.what.clone()]);
    }
    out.table(&table)?;
    if items.is_empty() {
        out.note("copies of this stack share nothing of this machine");
    }
    Ok(0)
}

pub(super) fn start(context: &Context<'_>, args: &args::Start) -> Result<u8, Stop> {
    let (session, target) = (context.session()?, context.target(args.on.target.as_ref()));
    if args.on.dry_run {
        let at = session.describe(&target, false)?;
        let missing = at.services.iter().filter(|service| !service.ready);
        let steps: Vec<StepLine> =
            missing.map(|service| step("start", &service.name, &format!("it is {}", service.state))).collect();
        return would_bring_up(context, &at, &steps);
    }
    brought_up(context, &session.start(&target, !args.no_wait, context.global.limit())?, false)
}

pub(super) fn restart(context: &Context<'_>, args: &args::Restart) -> Result<u8, Stop> {
    let (session, target) = (context.session()?, context.target(args.target.as_ref()));
    if args.dry_run {
        let at = session.describe(&target, false)?;
        let named = |name: &String| args.services.is_empty() || args.services.contains(name);
        let steps: Vec<StepLine> = at
            .services
            .iter()
            .filter(|one| named(&one.name))
            .map(|one| step("restart", &one.name, "asked for"))
            .collect();
        return would_bring_up(context, &at, &steps);
    }
    brought_up(context, &session.restart(&target, &args.services, context.global.limit())?, false)
}

pub(super) fn wait(context: &Context<'_>, args: &args::Wait) -> Result<u8, Stop> {
    let words = args.at.target.as_ref().or(args.instance.as_ref());
    let description = context.session()?.wait_ready(&context.target(words), context.global.limit())?;
    if context.out.json {
        context.out.document(&json::Instance::from(&description))?;
    } else {
        context.out.note(format!("{} is {}", description.instance.target, description.state.word()));
    }
    Ok(0)
}

/// What `up`, `start` and `restart` end with: each service's address.
fn brought_up(context: &Context<'_>, report: &UpReport, dry_run: bool) -> Result<u8, Stop> {
    let out = context.out;
    if out.json {
        out.document(&json::Instance::of_up(report, dry_run))?;
        return Ok(0);
    }
    let description = &report.description;
    if dry_run {
        return steps(context, &report.steps);
    }
    let mut table = Table::new(&["SERVICE", "STATE", "ADDRESS"]);
    for service in &description.services {
        let addresses: Vec<&str> =
            service.addresses.iter().map(|address| address.url.as_deref().unwrap_or(&address.host)).collect();
        table.styled([
            (service.name.as_str(), Style::Plain),
            (service.state.as_str(), Style::of_state(&service.state)),
            (&addresses.join(" "), Style::Bold),
        ]);
    }
    if out.verbose {
        for line in &report.steps {
            out.note(format!("{}: {}", line.step, line.cause));
        }
    }
    let instance = &description.instance;
    let revision = instance.revision.map(|revision| format!(" at {revision}")).unwrap_or_default();
    let news = match (report.committed, report.changed) {
        (true, _) => " (a new revision)",
        (false, true) => "",
        (false, false) => "; nothing was to do",
    };
    out.note(format!("{} is {}{revision}{news}", instance.target, description.state.word()));
    out.table(&table)?;
    Ok(0)
}

fn would_bring_up(context: &Context<'_>, at: &Description, lines: &[StepLine]) -> Result<u8, Stop> {
    if context.out.json {
        context.out.document(&json::Instance::would(at, lines))?;
        return Ok(0);
    }
    steps(context, lines)
}

/// Steps, a line each, with their causes.
pub(super) fn steps(context: &Context<'_>, lines: &[StepLine]) -> Result<u8, Stop> {
    if lines.is_empty() {
        context.out.note("nothing to do");
        return Ok(0);
    }
    let mut table = Table::bare(0);
    for line in lines {
        table.styled([(line.step.as_str(), Style::Plain), (line.cause.as_str(), Style::Dim)]);
    }
    context.out.table(&table)?;
    Ok(0)
}

fn step(verb: &str, name: &str, cause: &str) -> StepLine {
    StepLine { step: format!("{verb} {name}"), cause: cause.to_owned() }
}

/// A verb that ends something, and its words.
struct Ending<'a> {
    /// `stopped`.
    done: &'a str,
    /// `was stopped already`.
    already: &'a str,
    /// What it would do, for `--dry-run`.
    would: &'a dyn Fn(&Description) -> Vec<StepLine>,
}

fn end(
    context: &Context<'_>,
    on: &args::On,
    verb: &Ending<'_>,
    act: impl FnOnce(&Session, &TargetWords) -> sidestack_runtime::Result<Done>,
) -> Result<u8, Stop> {
    let (session, target, out) = (context.session()?, context.target(on.target.as_ref()), context.out);
    if on.dry_run {
        let at = session.describe(&target, false)?;
        let lines = (verb.would)(&at);
        if out.json {
            out.document(&json::Acted::from(json::Would(&at, &lines)))?;
            return Ok(0);
        }
        return steps(context, &lines);
    }
    let done = act(&session, &target)?;
    if out.json {
        out.document(&json::Acted::from(&done))?;
        return Ok(0);
    }
    out.note(format!("{} {}", done.target, if done.changed { verb.done } else { verb.already }));
    if !done.kept.is_empty() && done.changed {
        out.note(format!("its data stays in {}", done.kept.join(", ")));
    }
    if out.verbose && !done.removed.is_empty() {
        out.note(format!("gone: {}", done.removed.join(", ")));
    }
    Ok(0)
}

pub(super) fn stop(context: &Context<'_>, args: &args::Stop) -> Result<u8, Stop> {
    let would = |at: &Description| match at.state {
        State::Stopped => Vec::new(),
        _ => at
            .services
            .iter()
            .filter(|one| one.ready)
            .map(|one| step("stop", &one.name, &format!("it is {}", one.state)))
            .collect(),
    };
    let verb = Ending { done: "is stopped", already: "was stopped already", would: &would };
    end(context, &args.on, &verb, |session, target| session.stop(target, args.grace))
}

/// What becomes of an instance's volumes.
fn of_volumes(at: &Description, remove: bool) -> impl Iterator<Item = StepLine> + '_ {
    let (verb, cause) = if remove { ("remove volume", "--volumes") } else { ("keep volume", "without --volumes") };
    at.volumes.iter().map(move |volume| step(verb, &volume.name, cause))
}

fn of_containers(at: &Description) -> impl Iterator<Item = StepLine> + '_ {
    let there = at.services.iter().filter(|service| service.state != "missing");
    there.map(|service| step("remove container of", &service.name, &format!("it is {}", service.state)))
}

pub(super) fn down(context: &Context<'_>, args: &args::Down) -> Result<u8, Stop> {
    let would = |at: &Description| of_containers(at).chain(of_volumes(at, args.volumes)).collect();
    let verb = Ending { done: "is down", already: "was down already", would: &would };
    end(context, &args.on, &verb, |session, target| session.down(target, args.volumes))
}

pub(super) fn remove(context: &Context<'_>, args: &args::Remove) -> Result<u8, Stop> {
    let would = |at: &Description| {
        let forget = step("forget", &at.instance.target.to_string(), "asked for");
        of_containers(at).chain(of_volumes(at, args.volumes)).chain([forget]).collect()
    };
    let verb = Ending { done: "is removed", already: "was removed already", would: &would };
    end(context, &args.on, &verb, |session, target| session.rm(target, args.volumes, context.global.yes))
}
