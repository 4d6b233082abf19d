//! What a killed Compose leaves behind.
//!
//! While Compose recreates a container, the new one stands beside the old under
//! `<12 hex>_<name>` until the old one is gone. Killed in between, both stay; a
//! later create of some versions then removes the wrong one.

use std::collections::BTreeSet;

use super::Step;
use crate::engine::Container;
use crate::observe::Observed;

/// What was decided about leftovers.
#[derive(Debug, Default)]
pub(super) struct Healed {
    /// Containers that will be gone.
    pub(super) removed: BTreeSet<String>,
}

/// The name that a temporary name stands for.
fn intended(container: &Container) -> Option<&str> {
    let (prefix, name) = container.name.split_once('_')?;
    let hex = prefix.len() == 12 && prefix.bytes().all(|b| b.is_ascii_hexdigit());
    (hex && container.labels.contains_key("com.docker.compose.replace")).then_some(name)
}

pub(super) fn leftovers(observed: &Observed, steps: &mut Vec<Step>) -> Healed {
    let mut healed = Healed::default();
    for container in &observed.containers {
        let Some(name) = intended(container) else { continue };
        let service = container.service.clone().unwrap_or_default();
        let other = observed.containers.iter().any(|other| other.name == name);
        if other {
            // It was never started, so it holds nothing; the next create makes it again.
            healed.removed.insert(container.id.clone());
            let cause = "left over from an interrupted change".to_owned();
            steps.push(Step::Remove { container: container.id.clone(), service, cause });
        } else {
            let cause = "an interrupted change left it under a temporary name".to_owned();
            steps.push(Step::Rename { container: container.id.clone(), to: name.to_owned(), cause });
        }
    }
    healed
}
