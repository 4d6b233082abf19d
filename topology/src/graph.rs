//! A plan as a picture: who waits for whom, who is given what, what is published.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::compose::Condition;
use crate::plan::{LayerKind, Plan};

/// An edge, from the one that needs to the one that is needed.
struct Edge<'a> {
    from: &'a str,
    to: &'a str,
    label: String,
    /// An injection; else an order.
    injects: bool,
}

fn edges(plan: &Plan) -> Vec<Edge<'_>> {
    let mut edges = Vec::new();
    for (name, service) in &plan.services {
        let given = injected(plan, name);
        for (other, after) in &service.after {
            let Some((other, _)) = plan.services.get_key_value(other) else {
                continue;
            };
            let label = match after.condition {
                Condition::Started => "started",
                Condition::Healthy => "healthy",
                Condition::Completed => "done",
            };
            let variables = given.get(other.as_str());
            edges.push(Edge {
                from: name,
                to: other,
                label: variables.map_or_else(|| label.to_owned(), |count| format!("{count} variables")),
                injects: variables.is_some(),
            });
        }
    }
    edges
}

/// The services of the resources that a service is given, and how many variables of each.
fn injected<'a>(plan: &'a Plan, service: &str) -> BTreeMap<&'a str, usize> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for variable in plan.container_variables.get(service).into_iter().flat_map(BTreeMap::values) {
        let own = (variable.layer == LayerKind::Client).then_some(variable.origin.as_str());
        let below = variable.shadowed.iter().find(|(kind, ..)| *kind == LayerKind::Client);
        if let Some(resource) = own.or(below.map(|(_, origin, _)| origin.as_str())) {
            *counts.entry(resource).or_default() += 1;
        }
    }
    let mut given = BTreeMap::new();
    for (name, resource) in &plan.resources {
        if let Some(count) = counts.get(name.as_str()) {
            given.extend(resource.services.iter().map(|service| (service.as_str(), *count)));
        }
    }
    given
}

/// Ids that any name may have in a picture: `n0`, `n1`, …
fn ids(plan: &Plan) -> BTreeMap<&str, String> {
    plan.services.keys().enumerate().map(|(at, name)| (name.as_str(), format!("n{at}"))).collect()
}

fn published(plan: &Plan) -> impl Iterator<Item = (&str, String)> {
    plan.ports.iter().map(|port| {
        let host = if port.host_port == 0 { format!("{}:?", port.host_ip) } else { port.host() };
        (port.publish.service.as_str(), format!("{host} {}/{}", port.publish.container_port, port.publish.protocol))
    })
}

/// What a service shows besides its name.
fn note(plan: &Plan, name: &str) -> String {
    let planned = &plan.services[name];
    let resource = planned.resource.as_ref().and_then(|resource| plan.resources.get(resource));
    match (resource, planned.compose.image.as_deref()) {
        (Some(resource), _) => format!("{} {}", resource.module, resource.version),
        (None, Some(image)) => crate::secret::shown(image),
        (None, None) => "built".to_owned(),
    }
}

/// As a Mermaid flow chart.
pub fn mermaid(plan: &Plan) -> String {
    let ids = ids(plan);
    let mut out = String::from("flowchart LR\n");
    let text = |text: &str| {
        // Mermaid reads entities inside quotes; `#` begins one.
        text.chars().fold(String::new(), |mut out, c| {
            match c {
                c if c.is_alphanumeric() || " .:/@_-,?".contains(c) => out.push(c),
                c => out.push_str(&format!("#{};", u32::from(c))),
            }
            out
        })
    };
    for name in plan.services.keys() {
        let (open, close) = if plan.services[name].resource.is_some() { ("[(", ")]") } else { ("[", "]") };
        let _ =
            writeln!(out, "  {}{open}\"{}<br/>{}\"{close}", ids[name.as_str()], text(name), text(&note(plan, name)));
    }
    for edge in edges(plan) {
        let arrow = if edge.injects { "==>" } else { "-->" };
        let _ = writeln!(out, "  {} {arrow}|\"{}\"| {}", ids[edge.from], text(&edge.label), ids[edge.to]);
    }
    for (at, (service, address)) in published(plan).enumerate() {
        let Some(id) = ids.get(service) else { continue };
        let _ = writeln!(out, "  p{at}([\"{}\"]) -.-> {id}", text(&address));
    }
    out
}

/// As a Graphviz digraph.
pub fn dot(plan: &Plan) -> String {
    let ids = ids(plan);
    let text = |text: &str| {
        text.chars().fold(String::new(), |mut out, c| {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                c if c.is_control() => out.push('\u{FFFD}'),
                c => out.push(c),
            }
            out
        })
    };
    let mut out =
        format!("digraph \"{}\" {{\n  rankdir=LR;\n  node [shape=box];\n", text(&plan.placement.target.to_string()));
    for name in plan.services.keys() {
        let shape = if plan.services[name].resource.is_some() { " shape=cylinder" } else { "" };
        let _ =
            writeln!(out, "  {} [label=\"{}\\n{}\"{shape}];", ids[name.as_str()], text(name), text(&note(plan, name)));
    }
    for edge in edges(plan) {
        let style = if edge.injects { " style=bold" } else { "" };
        let _ = writeln!(out, "  {} -> {} [label=\"{}\"{style}];", ids[edge.from], ids[edge.to], text(&edge.label));
    }
    for (at, (service, address)) in published(plan).enumerate() {
        let Some(id) = ids.get(service) else { continue };
        let _ = writeln!(out, "  p{at} [label=\"{}\" shape=plaintext];", text(&address));
        let _ = writeln!(out, "  p{at} -> {id} [style=dotted];");
    }
    out.push_str("}\n");
    out
}
