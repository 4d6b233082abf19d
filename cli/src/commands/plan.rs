//! `plan`.

use std::path::Path;

use sidestack_runtime::api::PlanReport;
use sidestack_runtime::{Error, Kind};
use sidestack_topology::diagnostic::Severity;
use sidestack_topology::graph;

use super::{Context, act, shown};
use crate::args::{self, GraphKind};
use crate::errors::{Stop, diagnostic, usage};
use crate::json;
use crate::output::{Style, Table};

pub(super) fn plan(context: &Context<'_>, args: &args::Plan) -> Result<u8, Stop> {
    let request = act::request(context, &args.place, &args.source);
    let report = context.session()?.plan(&request)?;
    let out = context.out;
    if let Some(folder) = &args.render {
        render(&report, folder)?;
        out.note(format!("the tree of {} is in {}", report.target, folder.display()));
    }
    if out.json {
        out.document(&json::Plan::from(&report))?;
        return Ok(0);
    }
    for one in report.diagnostics.iter().filter(|one| one.severity == Severity::Warning) {
        let lines = diagnostic("", one);
        out.warn(lines.join("\n").trim_start_matches([':', ' ']));
    }
    match args.graph {
        Some(GraphKind::Mermaid) => out.data(&graph::mermaid(&report.plan))?,
        Some(GraphKind::Dot) => out.data(&graph::dot(&report.plan))?,
        None if args.render.is_some() => {}
        None => tell(context, &report)?,
    }
    Ok(0)
}

/// One side of a change, short enough for a line.
fn brief(value: &serde_json::Value) -> String {
    const MOST: usize = 60;
    let text = sidestack_topology::text::shown(value);
    match text.char_indices().nth(MOST) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

fn tell(context: &Context<'_>, report: &PlanReport) -> Result<(), Stop> {
    let (out, plan) = (context.out, &report.plan);
    let mut head = Table::bare(0);
    let mut line = |name: &str, value: String| {
        head.styled([(name.to_owned(), Style::Dim), (value, Style::Bold)]);
    };
    line("instance", report.target.to_string());
    line("revision", report.revision.map_or_else(|| "a new one".to_owned(), |revision| revision.to_string()));
    line("project", plan.project.clone());
    out.table(&head)?;
    let mut resources = Table::new(&["RESOURCE", "ENGINE", "ARRANGEMENT", "IMAGE", "MAKES"]);
    for (name, resource) in &plan.resources {
        let makes: Vec<String> = resource
            .provisions
            .iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(kind, names)| format!("{kind} {}", names.join(", ")))
            .collect();
        resources.row([
            name.to_string(),
            format!("{}@{}", resource.module, resource.version),
            resource.arrangement.to_string(),
            resource.image.clone(),
            makes.join("; "),
        ]);
    }
    out.section("Resources", &resources)?;
    let mut services = Table::new(&["SERVICE", "IMAGE", "AFTER"]);
    for (name, service) in &plan.services {
        let image = service.compose.image.as_deref().map_or_else(|| "built".to_owned(), shown);
        let after: Vec<&str> = service.after.keys().map(String::as_str).collect();
        services.row([name.as_str(), &image, &after.join(", ")]);
    }
    out.section("Services", &services)?;
    let mut ports = Table::new(&["SERVICE", "INSIDE", "HOST"]);
    for port in &plan.ports {
        let host = if port.host_port == 0 {
            "decided by `up`".to_owned()
        } else {
            let own = port.own.map(|own| format!("{}:{own}", port.host_ip));
            let scheme = port.publish.scheme.as_ref().map(|scheme| format!("{scheme}://")).unwrap_or_default();
            let hosts = port.hosts().into_iter().chain(own).map(|host| format!("{scheme}{host}"));
            hosts.collect::<Vec<_>>().join(" ")
        };
        ports.row([port.publish.service.clone(), format!("{}/{}", port.inside(), port.publish.protocol), host]);
    }
    out.section("Ports", &ports)?;
    let mut changes = Table::new(&["RULE", "WHERE", "FROM", "TO", "BECAUSE"]);
    // `--json` has the others too.
    for change in report.isolation.iter().filter(|change| sidestack_topology::text::is_told(change)) {
        changes.row([
            change.rule.to_owned(),
            change.path.clone(),
            brief(&change.from),
            brief(&change.to),
            change.reason.clone(),
        ]);
    }
    out.section("Changes for isolation", &changes)?;
    let mut exposed = Table::new(&["SERVICE", "VARIABLE"]);
    for one in &plan.exposed {
        exposed.row([&one.service, &one.name]);
    }
    out.section("Secrets that Docker will hold in its container config", &exposed)?;
    let mut steps = Table::new(&["STEP", "BECAUSE"]);
    for line in &report.steps {
        steps.styled([(line.step.as_str(), Style::Plain), (&line.cause, Style::Dim)]);
    }
    out.section("Steps", &steps)?;
    if report.steps.is_empty() {
        out.note("nothing to do");
    }
    Ok(())
}

/// Writes the tree into a folder that is empty or not there.
fn render(report: &PlanReport, folder: &Path) -> Result<(), Stop> {
    let failed = |path: &Path, cause: &std::io::Error| {
        Stop::from(Error::new(Kind::Failed, "file", format!("`{}` cannot be written: {cause}", path.display())))
    };
    let write = |path: &Path, text: &str| {
        path.parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(path, text))
            .map_err(|cause| failed(path, &cause))
    };
    match std::fs::read_dir(folder).map(|mut entries| entries.next().is_some()) {
        Ok(true) => {
            return Err(usage(format!("the folder `{}` is not empty", folder.display()))
                .hint("name one that is empty or not there")
                .into());
        }
        Ok(false) => {}
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {}
        Err(cause) => return Err(failed(folder, &cause)),
    }
    write(&folder.join("compose.yaml"), &report.tree)?;
    for (name, text) in &report.plan.files {
        write(&folder.join("files").join(name), text)?;
    }
    Ok(())
}
