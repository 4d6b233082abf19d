//! `history`, `show`, `diff`.

use jiff::Timestamp;

use super::Context;
use crate::args;
use crate::errors::Stop;
use crate::json;
use crate::output::{Style, Table, age, folder};

/// The longest value that a table shows.
const LONGEST: usize = 60;

pub(super) fn history(context: &Context<'_>, args: &args::History) -> Result<u8, Stop> {
    let revisions = context.session()?.history(&context.target(args.at.target.as_ref()))?;
    let out = context.out;
    if out.json {
        out.document(&json::History::from(revisions.as_slice()))?;
        return Ok(0);
    }
    if revisions.is_empty() {
        out.note("there are no revisions yet; `sidestack up` commits one");
        return Ok(0);
    }
    let now = Timestamp::now();
    let mut table = Table::new(&["REVISION", "DIGEST", "AGE", "BRANCH", "COMMIT", "INSTANCES", "MESSAGE"]);
    for view in &revisions {
        let seen = view.sightings.last();
        let commit =
            seen.and_then(|one| one.commit.as_deref()).map(|commit| commit.get(..10).unwrap_or(commit).to_owned());
        let dirty = if seen.is_some_and(|one| one.dirty == Some(true)) { "+" } else { "" };
        let instances: Vec<&str> = view.instances.iter().map(|target| target.instance.as_str()).collect();
        table.styled([
            (view.number.to_string(), Style::Bold),
            (view.digest.get(..12).unwrap_or(&view.digest).to_owned(), Style::Dim),
            (age(view.created, now), Style::Plain),
            (seen.and_then(|one| one.branch.clone()).unwrap_or_default(), Style::Plain),
            (commit.map(|commit| format!("{commit}{dirty}")).unwrap_or_default(), Style::Plain),
            (instances.join(" "), Style::Plain),
            (view.message.clone().unwrap_or_default(), Style::Plain),
        ]);
    }
    out.table(&table)?;
    Ok(0)
}

pub(super) fn show(context: &Context<'_>, args: &args::Show) -> Result<u8, Stop> {
    let found = context.session()?.show(&context.target(args.target.as_ref()))?;
    let (view, shown) = (&found.0, json::Shown::from(&found));
    let out = context.out;
    if out.json {
        out.document(&shown)?;
        return Ok(0);
    }
    let now = Timestamp::now();
    let mut head = Table::bare(0);
    let mut line = |name: &str, value: &str| head.styled([(name, Style::Dim), (value, Style::Plain)]);
    line("revision", &view.number.to_string());
    line("digest", &view.digest);
    line("created", &format!("{} ago", age(view.created, now)));
    if let Some(message) = &view.message {
        line("message", message);
    }
    let instances: Vec<String> = view.instances.iter().map(ToString::to_string).collect();
    if !instances.is_empty() {
        line("instances", &instances.join(" "));
    }
    out.table(&head)?;
    let mut sightings = Table::new(&["BRANCH", "COMMIT", "DIRTY", "FOLDER", "AGE"]);
    for one in &view.sightings {
        let dirty = one.dirty.map(|dirty| if dirty { "yes" } else { "no" });
        sightings.row([
            one.branch.as_deref().unwrap_or_default(),
            one.commit.as_deref().unwrap_or_default(),
            dirty.unwrap_or_default(),
            &folder(&one.folder),
            &age(one.seen, now),
        ]);
    }
    out.section("Seen", &sightings)?;
    let mut services = Table::bare(0);
    for (name, image) in &shown.services {
        services.row([name.as_str(), image.as_deref().unwrap_or("built")]);
    }
    out.section("Services", &services)?;
    for (title, map) in
        [("Resources", &shown.resources), ("Variables", &shown.env), ("Files", &shown.files), ("Builds", &shown.builds)]
    {
        let mut table = Table::bare(0);
        for (name, value) in map {
            table.row([name.as_str(), &cut(value)]);
        }
        out.section(title, &table)?;
    }
    let mut inject = Table::bare(0);
    for (service, resources) in &shown.inject {
        inject.row([service.as_str(), &resources.join(", ")]);
    }
    out.section("Inject", &inject)?;
    let mut modules = Table::bare(0);
    for name in &shown.modules {
        modules.row([name]);
    }
    out.section("Modules", &modules)?;
    Ok(0)
}

pub(super) fn diff(context: &Context<'_>, args: &args::Diff) -> Result<u8, Stop> {
    let report = context.session()?.diff(&context.target(Some(&args.a)), &context.target(Some(&args.b)))?;
    let out = context.out;
    if out.json {
        out.document(&json::Diff::from(&report))?;
        return Ok(0);
    }
    if report.changes.is_empty() {
        out.note(format!("{} and {} are the same", report.from, report.to));
        return Ok(0);
    }
    out.note(format!("from {} to {}", report.from, report.to));
    let mut table = Table::new(&["KIND", "WHERE", "FROM", "TO", "LAYER"]);
    for change in &report.changes {
        let side = |side: &Option<String>| side.as_deref().map_or_else(|| "–".to_owned(), cut);
        table.styled([
            (change.kind.to_string(), Style::Dim),
            (change.path.clone(), Style::Plain),
            (side(&change.from), Style::Bad),
            (side(&change.to), Style::Good),
            (change.layer.map(|layer| layer.to_string()).unwrap_or_default(), Style::Dim),
        ]);
    }
    out.table(&table)?;
    Ok(0)
}

/// A value that may be long.
fn cut(value: &str) -> String {
    if value.chars().count() > LONGEST {
        format!("{}…", value.chars().take(LONGEST - 1).collect::<String>())
    } else {
        value.to_owned()
    }
}
