//! `ls`, `describe`, `why`, `open`.

use std::io::IsTerminal;
use std::process::{Command, Stdio};

use jiff::Timestamp;
use sidestack_runtime::api::{Description, Listed, State};
use sidestack_runtime::{Error, Kind};
use sidestack_state::Transition;
use sidestack_topology::diagnostic::nearest;
use sidestack_topology::names::Slot;
use sidestack_topology::units::format_size;

use super::Context;
use crate::args;
use crate::errors::{Stop, exit_code};
use crate::json;
use crate::output::{Style, Table, age, folder};

pub(super) fn list(context: &Context<'_>, args: &args::List) -> Result<u8, Stop> {
    let listing = context.session()?.list(args.all, context.global.env_name.as_deref())?;
    let out = context.out;
    // What the store has is shown also when Docker does not answer; the code says that it did not.
    let code = if listing.docker.is_some() { exit_code(Kind::Docker) } else { 0 };
    if out.json {
        out.document(&json::List::from(&listing))?;
        return Ok(code);
    }
    if let Some(reason) = &listing.docker {
        out.warn(format!("states may be wrong: {reason}"));
    }
    if listing.instances.is_empty() {
        out.note(if args.all {
            "there are no instances; `sidestack up` makes one"
        } else {
            "there are no instances here; `sidestack up` makes one, `ls --all` lists those of the machine"
        });
        return Ok(code);
    }
    let mut table = Table::new(&["", "NAME", "REVISION", "STATE", "BRANCH", "ADDRESS", "FOLDER", "AGE"]);
    let now = Timestamp::now();
    for listed in &listing.instances {
        let instance = &listed.instance;
        let state = state(listed);
        let place = instance.checkout.as_deref().map(folder).unwrap_or_default();
        table.styled([
            (if listed.here { "*" } else { "" }.to_owned(), Style::Good),
            (instance.target.to_string(), Style::Bold),
            (instance.revision.map(|revision| revision.to_string()).unwrap_or_default(), Style::Plain),
            (state.clone(), Style::of_state(&state)),
            (listed.branch.clone().unwrap_or_default(), Style::Plain),
            (listed.address.clone().unwrap_or_default(), Style::Plain),
            (if listed.folder_missing { format!("{place} (gone)") } else { place }, Style::Dim),
            (age(instance.created, now), Style::Plain),
        ]);
    }
    out.table(&table)?;
    Ok(code)
}

/// `running 6/6`.
fn state(listed: &Listed) -> String {
    match listed.state {
        State::Stopped => listed.state.word().to_owned(),
        _ => format!("{} {}/{}", listed.state.word(), listed.ready, listed.total),
    }
}

pub(super) fn describe(context: &Context<'_>, args: &args::Describe) -> Result<u8, Stop> {
    let description = context.session()?.describe(&context.target(args.at.target.as_ref()), args.sizes)?;
    let out = context.out;
    if out.json {
        out.document(&json::Instance::from(&description))?;
        return Ok(0);
    }
    out.table(&overview(&description))?;
    let mut services = Table::new(&["SERVICE", "STATE", "HEALTH", "IMAGE", "DIGEST"]);
    let mut addresses = Table::new(&["SERVICE", "INSIDE", "HOST", "URL"]);
    for service in &description.services {
        let health = service.health.as_deref().unwrap_or_default();
        services.styled([
            (service.name.as_str(), Style::Plain),
            (&service.state, if service.ready { Style::Good } else { Style::of_state(&service.state) }),
            (health, Style::of_state(health)),
            (&service.image, Style::Plain),
            (short(service.image_id.as_deref().unwrap_or_default()), Style::Dim),
        ]);
        for address in &service.addresses {
            let protocol = if address.protocol == "tcp" { String::new() } else { format!("/{}", address.protocol) };
            addresses.row([
                service.name.as_str(),
                &format!("{}{protocol}", address.inside),
                &format!("{}{protocol}", address.host),
                address.url.as_deref().unwrap_or_default(),
            ]);
        }
    }
    out.section("Services", &services)?;
    out.section("Addresses", &addresses)?;
    let mut volumes = Table::new(&["VOLUME", "SIZE"]);
    for volume in &description.volumes {
        let size = volume.bytes.and_then(|bytes| u64::try_from(bytes).ok()).map(size).unwrap_or_default();
        volumes.row([volume.name.as_str(), &size]);
    }
    out.section("Volumes", &volumes)?;
    let mut variables = Table::new(&["LAYER", "VARIABLES"]);
    for (layer, count) in &description.variables {
        variables.row([layer.to_string(), count.to_string()]);
    }
    out.section("Variables in containers", &variables)?;
    Ok(0)
}

/// Twelve digits say which image it is.
fn short(digest: &str) -> &str {
    let digits = digest.strip_prefix("sha256:").unwrap_or(digest);
    digits.get(..12).unwrap_or(digits)
}

/// A size, exact only where that is short.
fn size(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    if bytes < 10 * MIB { format_size(bytes) } else { format!("{}MiB", bytes / MIB) }
}

fn overview(description: &Description) -> Table {
    let instance = &description.instance;
    let now = Timestamp::now();
    let mut table = Table::bare(0);
    let mut line = |name: &str, value: String, style: Style| {
        table.styled([(name.to_owned(), Style::Dim), (value, style)]);
    };
    line("instance", instance.target.to_string(), Style::Bold);
    line("state", description.state.word().to_owned(), Style::of_state(description.state.word()));
    let pinned = if instance.pinned { " (stays at it)" } else { "" };
    line(
        "revision",
        instance.revision.map_or_else(|| "none yet".to_owned(), |revision| format!("{revision}{pinned}")),
        Style::Plain,
    );
    line("project", description.project.clone(), Style::Plain);
    if let Some(path) = &instance.checkout {
        let gone = if description.folder_missing { " (gone)" } else { "" };
        line("folder", format!("{}{gone}", folder(path)), Style::Plain);
    }
    if let Some(branch) = &description.branch {
        line("branch", branch.clone(), Style::Plain);
    }
    if let Some(lease) = &instance.slot {
        let first = lease.slot.first_port();
        line(
            "slot",
            format!("{} (ports {first}–{}, subnet {})", lease.slot, first + Slot::PORTS - 1, lease.subnet),
            Style::Plain,
        );
    }
    if let Some(owner) = &instance.owner {
        line("owner", owner.clone(), Style::Plain);
    }
    if !instance.sources.is_empty() {
        line("sources", instance.sources.join(", "), Style::Plain);
    }
    line("created", format!("{} ago", age(instance.created, now)), Style::Plain);
    if let Some(last) = &description.last {
        line("last", told(last, now), Style::Plain);
    }
    table
}

/// A transition on one line; what it did in detail is for `why`.
fn told(one: &Transition, now: Timestamp) -> String {
    let part = |before: &str, text: &str| if text.is_empty() { String::new() } else { format!("{before}{text}") };
    let (cause, outcome) = (part(" – ", &one.cause), part(": ", &one.outcome));
    format!("{}{cause}{outcome}, {} ago", one.verb, age(one.at, now))
}

pub(super) fn why(context: &Context<'_>, args: &args::Why) -> Result<u8, Stop> {
    let report = context.session()?.why(&context.target(args.at.target.as_ref()))?;
    let out = context.out;
    if out.json {
        out.document(&json::Why::from(&report))?;
        return Ok(0);
    }
    if report.transitions.is_empty() {
        out.note(format!("nothing has happened to {} yet", report.target));
        return Ok(0);
    }
    let now = Timestamp::now();
    let mut table = Table::new(&["AGO", "DID", "OUTCOME", "BECAUSE"]);
    for one in &report.transitions {
        table.styled([
            (age(one.at, now), Style::Dim),
            (one.verb.clone(), Style::Bold),
            (one.outcome.clone(), if one.outcome == "ok" { Style::Good } else { Style::Bad }),
            (one.cause.clone(), Style::Plain),
        ]);
    }
    out.table(&table)?;
    // The last one in full: a line a step, with its cause.
    if let Some(last) = report.transitions.iter().find(|one| !one.detail.is_empty()) {
        let mut detail = Table::bare(2);
        last.detail.lines().for_each(|line| detail.row([line]));
        out.section(&format!("The last `{}`", last.verb), &detail)?;
    }
    for (service, lines) in report.logs.iter().filter(|(_, lines)| !lines.is_empty()) {
        out.data("\n")?;
        for line in lines {
            out.log(&format!("{service} | "), line)?;
        }
    }
    Ok(0)
}

pub(super) fn open(context: &Context<'_>, args: &args::Open) -> Result<u8, Stop> {
    let out = context.out;
    let description = context.session()?.describe(&context.target(args.inside.target.as_ref()), false)?;
    let target = description.instance.target.to_string();
    let names = description.services.iter().map(|service| service.name.as_str());
    let Some(service) = description.services.iter().find(|service| service.name == args.service) else {
        let error = Error::new(Kind::NotFound, "no-service", format!("`{target}` has no service `{}`", args.service));
        let hint = match nearest(&args.service, names.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("it has {}", names.collect::<Vec<_>>().join(", ")),
        };
        return Err(error.hint(hint).about(target).into());
    };
    let address = service.addresses.iter().find(|address| address.url.is_some()).or_else(|| service.addresses.first());
    let Some(address) = address else {
        let error =
            Error::new(Kind::NotFound, "no-address", format!("`{}` has no address on this machine", args.service));
        return Err(error.hint("publish a port of it in the compose file").about(target).into());
    };
    let url = address.url.clone().unwrap_or_else(|| address.host.clone());
    if out.json {
        out.document(&json::Opened { service: service.name.clone(), url })?;
        return Ok(0);
    }
    out.line(&url)?;
    if address.url.is_some() && out.terminal && std::io::stdin().is_terminal() {
        let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        // No browser is no failure: the address is printed.
        let _ = Command::new(opener).arg(&url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    }
    Ok(0)
}
