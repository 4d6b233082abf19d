//! In which order services start, and in reverse stop.

use std::collections::BTreeMap;

use crate::diagnostic::Diagnostic;
use crate::plan::Plan;

/// The services in levels: each waits only for services of earlier levels.
/// Stopping goes through the levels from the last to the first.
///
/// # Errors
/// Services that wait for each other, named in a circle.
pub fn order(plan: &Plan) -> Result<Vec<Vec<String>>, Diagnostic> {
    let mut open: BTreeMap<&str, Vec<&str>> = plan
        .services
        .iter()
        .map(|(name, service)| {
            let after = service.after.keys().map(String::as_str);
            // What is not there and not required is not waited for.
            let there = after.filter(|other| plan.services.contains_key(*other));
            (name.as_str(), there.collect())
        })
        .collect();
    let mut levels = Vec::new();
    while !open.is_empty() {
        let ready: Vec<&str> = open
            .iter()
            .filter(|(_, after)| !after.iter().any(|other| open.contains_key(other)))
            .map(|(name, _)| *name)
            .collect();
        if ready.is_empty() {
            return Err(circle(&open));
        }
        for name in &ready {
            open.remove(name);
        }
        levels.push(ready.into_iter().map(str::to_owned).collect());
    }
    Ok(levels)
}

/// Every service that is left waits for one that is left, so a walk comes round.
fn circle(open: &BTreeMap<&str, Vec<&str>>) -> Diagnostic {
    let mut walk: Vec<&str> = Vec::new();
    let mut at = open.keys().next().copied();
    while let Some(name) = at {
        if let Some(start) = walk.iter().position(|seen| *seen == name) {
            walk.drain(..start);
            walk.push(name);
            break;
        }
        walk.push(name);
        at = open[name].iter().copied().find(|other| open.contains_key(other));
    }
    let first = walk.first().copied().unwrap_or_default();
    Diagnostic::error(&["services", first, "depends_on"], format!("services wait for each other: {}", walk.join(" → ")))
        .hint("take one of the dependencies away")
}
