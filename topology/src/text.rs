//! A plan as text: one line for each thing, with its cause.
//!
//! The text is stable: the same plan gives the same lines in the same order. It
//! is what `sidestack plan` prints and what golden tests compare. Secrets stand
//! in it by reference, and nothing of a value does.

use std::fmt::Write as _;

use serde_json::Value;

use crate::plan::{Change, Plan, PlannedService};
use crate::secret;

/// The plan's lines, each ended by a line feed. A section without lines is left out.
///
/// `changes` is what [`crate::isolation::report`] tells of it.
pub fn plan_text(plan: &Plan, changes: &[Change]) -> String {
    let mut out = String::new();
    let placement = &plan.placement;
    let revision = placement.revision.map_or_else(|| "a new revision".to_owned(), |r| r.to_string());
    let slot = placement.slot.map_or_else(|| "no slot yet".to_owned(), |slot| format!("slot {slot}"));
    let _ = writeln!(out, "{} runs {revision} in {slot} as project {}", placement.target, plan.project);
    section(&mut out, "resources", resources(plan));
    section(&mut out, "services", services(plan));
    section(&mut out, "ports", ports(plan));
    section(&mut out, "networks", networks(plan));
    section(&mut out, "volumes", volumes(plan));
    section(&mut out, "changed for isolation", told(changes));
    section(&mut out, "secrets that Docker will hold in its container config", exposed(plan));
    out
}

fn section(out: &mut String, title: &str, lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "{title}:");
    for line in lines {
        // A text of the user's cannot end a line or move the cursor.
        let line: String = line.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect();
        let _ = writeln!(out, "  {line}");
    }
}

fn resources(plan: &Plan) -> Vec<String> {
    plan.resources
        .iter()
        .map(|(name, resource)| {
            let mut line = format!(
                "{name}: {} {} ({}), arranged {}, because it is to be {}",
                resource.module, resource.version, resource.image, resource.arrangement, resource.capability
            );
            for (kind, names) in &resource.provisions {
                if !names.is_empty() {
                    let _ = write!(line, "; {kind}: {}", names.join(", "));
                }
            }
            line
        })
        .collect()
}

/// In the order in which they start.
fn services(plan: &Plan) -> Vec<String> {
    let order = crate::order::order(plan).unwrap_or_else(|_| vec![plan.services.keys().cloned().collect()]);
    let mut lines = Vec::new();
    for (name, service) in order.iter().flatten().filter_map(|name| plan.services.get_key_value(name)) {
        let image = service.compose.image.as_deref().map(secret::shown);
        let image = match (&image, service.compose.build.is_some()) {
            (Some(image), true) => format!("{image} (built)"),
            (Some(image), false) => image.clone(),
            (None, _) => "built".to_owned(),
        };
        let mut line = format!("{name}: {image}");
        if service.replicas != 1 {
            let _ = write!(line, " ×{}", service.replicas);
        }
        if service.one_shot {
            line.push_str(", runs to its end");
        }
        if let Some(resource) = &service.resource {
            let _ = write!(line, ", for resource {resource}");
        }
        for (at, text) in waits(plan, service).into_iter().enumerate() {
            line.push_str(if at == 0 { ", after " } else { " and " });
            line.push_str(&text);
        }
        lines.push(line);
    }
    lines
}

fn waits(plan: &Plan, service: &PlannedService) -> Vec<String> {
    use crate::compose::Condition;
    let there = service.after.iter().filter(|(other, _)| plan.services.contains_key(*other));
    there
        .map(|(other, after)| {
            let condition = match after.condition {
                Condition::Started => "started",
                Condition::Healthy => "is healthy",
                Condition::Completed => "is done",
            };
            format!("{other} {condition}")
        })
        .collect()
}

fn ports(plan: &Plan) -> Vec<String> {
    plan.ports
        .iter()
        .map(|port| {
            let host = match port.host_port {
                0 => format!("{}, a port of its slot", port.host_ip),
                _ => port.host(),
            };
            let mut line = format!("{} → {host}/{}", port.inside(), port.publish.protocol);
            if let Some(own) = port.publish.own {
                let _ = write!(line, ", in the place of {own}");
            }
            line
        })
        .collect()
}

fn networks(plan: &Plan) -> Vec<String> {
    plan.networks
        .iter()
        .map(|(key, network)| {
            let config = network.ipam.get("config").and_then(|config| config.get(0));
            let subnet = config.and_then(|config| config.get("subnet")).and_then(serde_json::Value::as_str);
            let name = network.name.as_deref().unwrap_or(key);
            format!("{key}: {name}, {}", subnet.unwrap_or("a subnet of Docker's choice"))
        })
        .collect()
}

fn volumes(plan: &Plan) -> Vec<String> {
    let name =
        |(key, volume): (&String, &crate::compose::Volume)| format!("{key}: {}", volume.name.as_deref().unwrap_or(key));
    plan.volumes.iter().map(name).collect()
}

/// Rules that apply to every service of every stack.
const EVERYWHERE: [&str; 4] = ["label", "order", "loopback", "default-network"];

/// Whether a change is told to a person: what is the same in every stack is said once, in the documentation.
pub fn is_told(change: &Change) -> bool {
    let given = change.rule == "subnet" && change.from.is_null();
    // Variables have a command of their own, which says more.
    !given && change.rule != "variable" && !EVERYWHERE.contains(&change.rule)
}

fn told(changes: &[Change]) -> Vec<String> {
    let line = |change: &Change| {
        let (from, to) = (shown(&change.from), shown(&change.to));
        format!("{}: {from} → {to} ({}: {})", change.path, change.rule, change.reason)
    };
    changes.iter().filter(|change| is_told(change)).map(line).collect()
}

/// One side of a change for a person: a text as it is, anything else as JSON, secrets by reference.
pub fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    crate::placeholder::shown(&secret::shown(&text))
}

fn exposed(plan: &Plan) -> Vec<String> {
    plan.exposed
        .iter()
        .map(|exposed| {
            let variable = plan.container_variables.get(&exposed.service).and_then(|all| all.get(&exposed.name));
            match variable {
                Some(variable) => format!(
                    "{} {} = {} (from {} {})",
                    exposed.service,
                    exposed.name,
                    secret::shown(&variable.value),
                    variable.layer,
                    variable.origin
                ),
                None => format!("{} {}", exposed.service, exposed.name),
            }
        })
        .collect()
}
