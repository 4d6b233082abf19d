//! `history`, `show` and `diff`.

use std::collections::{BTreeMap, BTreeSet};

use sidestack_state::{Instance, RevisionSummary};
use sidestack_topology::diff::{self, DiffChange, DiffKind};
use sidestack_topology::names::RevisionNumber;
use sidestack_topology::plan::{Layer, LayerKind};
use sidestack_topology::revision::Content;
use sidestack_topology::secret;

use super::DiffReport;
use crate::api::{RevisionView, TargetWords};
use crate::error::{Error, Kind, Result};
use crate::session::Session;
use crate::target::Spot;

/// One side of a comparison.
struct Side {
    name: String,
    content: Content,
    /// What `set` wrote for it, when it is an instance.
    layers: Option<Vec<Layer>>,
}

impl Session {
    /// An environment's revisions, newest first.
    ///
    /// # Errors
    /// When the words lead to no environment.
    pub fn history(&self, words: &TargetWords) -> Result<Vec<RevisionView>> {
        let spot = self.spot(words)?;
        let instances = self.store.instances_of(spot.workspace.id)?;
        let mut all = Vec::new();
        for summary in self.store.revisions(spot.environment.id)?.into_iter().rev() {
            if words.revision.is_none_or(|number| number == summary.number) {
                all.push(self.revision_view(summary, &instances)?);
            }
        }
        match words.revision {
            Some(number) if all.is_empty() => {
                Err(no_revision(&spot, number, &self.store.revisions(spot.environment.id)?))
            }
            _ => Ok(all),
        }
    }

    /// One revision and its content: `@rN`, or the one that an instance is at, or the newest.
    ///
    /// # Errors
    /// Not found.
    pub fn show(&self, words: &TargetWords) -> Result<(RevisionView, Content)> {
        let spot = self.spot(words)?;
        let all = self.store.revisions(spot.environment.id)?;
        let number = match spot.revision {
            Some(number) => number,
            None => match self.instance(words) {
                Ok(instance) => instance.revision,
                Err(error) if spot.instance.is_some() => return Err(error),
                Err(_) => None,
            }
            .or_else(|| all.last().map(|revision| revision.number))
            .ok_or_else(|| {
                let place = format!("{}/{}", spot.workspace.name, spot.environment.name);
                Error::new(Kind::NotFound, "not-found", format!("`{place}` has no revision yet"))
                    .hint("`sidestack up` makes the first one")
            })?,
        };
        let Some(summary) = all.iter().find(|revision| revision.number == number).cloned() else {
            return Err(no_revision(&spot, number, &all));
        };
        let (_, content) = self.content(spot.environment.id, number)?;
        let instances = self.store.instances_of(spot.workspace.id)?;
        Ok((self.revision_view(summary, &instances)?, content))
    }

    /// What differs between two revisions (`@r1`) or two instances. Of two instances also the
    /// variables that `set` gave them; what only their places give them is not listed.
    ///
    /// # Errors
    /// When one of them is not there.
    pub fn diff(&self, a: &TargetWords, b: &TargetWords) -> Result<DiffReport> {
        let (a, b) = (self.side(a)?, self.side(b)?);
        let mut changes = diff::revisions(&a.content, &b.content);
        if let (Some(from), Some(to)) = (&a.layers, &b.layers) {
            changes.extend(overrides(from, to));
        }
        changes.sort_by(|one, other| (one.kind, &one.path).cmp(&(other.kind, &other.path)));
        Ok(DiffReport { from: a.name, to: b.name, changes })
    }

    fn side(&self, words: &TargetWords) -> Result<Side> {
        let spot = self.spot(words)?;
        if let Some(number) = spot.revision {
            let all = self.store.revisions(spot.environment.id)?;
            if !all.iter().any(|revision| revision.number == number) {
                return Err(no_revision(&spot, number, &all));
            }
            let (_, content) = self.content(spot.environment.id, number)?;
            let name = format!("{}/{}@{number}", spot.workspace.name, spot.environment.name);
            return Ok(Side { name, content, layers: None });
        }
        let instance = self.instance(words)?;
        let number = self.revision_of(&instance)?;
        let (_, content) = self.content(instance.environment, number)?;
        let layers = self.layers(&instance, spot.workspace.id)?;
        Ok(Side { name: format!("{}@{number}", instance.target), content, layers: Some(layers) })
    }

    /// The revision that an instance is at.
    pub(super) fn revision_of(&self, instance: &Instance) -> Result<RevisionNumber> {
        instance.revision.ok_or_else(|| {
            Error::new(
                Kind::NotFound,
                "not-found",
                format!("{} was never started and is at no revision", instance.target),
            )
            .hint("`sidestack up` starts it")
            .about(&instance.target)
        })
    }

    fn revision_view(&self, summary: RevisionSummary, instances: &[Instance]) -> Result<RevisionView> {
        let at = |instance: &&Instance| {
            instance.environment == summary.environment && instance.revision == Some(summary.number)
        };
        Ok(RevisionView {
            sightings: self.store.sightings(summary.id)?,
            instances: instances.iter().filter(at).map(|instance| instance.target.clone()).collect(),
            number: summary.number,
            digest: summary.digest,
            created: summary.created,
            message: summary.message,
        })
    }
}

fn no_revision(spot: &Spot, number: RevisionNumber, all: &[RevisionSummary]) -> Error {
    let place = format!("{}/{}", spot.workspace.name, spot.environment.name);
    let error = Error::new(Kind::NotFound, "not-found", format!("`{place}` has no revision {number}"));
    match (all.first(), all.last()) {
        (Some(first), Some(last)) if first.number == last.number => error.hint(format!("it has {}", first.number)),
        (Some(first), Some(last)) => error.hint(format!("it has {} to {}", first.number, last.number)),
        _ => error.hint("`sidestack up` makes the first one"),
    }
}

/// What two instances' own layers give differently.
fn overrides(from: &[Layer], to: &[Layer]) -> Vec<DiffChange> {
    let (from, to) = (winners(from), winners(to));
    let keys: BTreeSet<&str> = from.keys().chain(to.keys()).copied().collect();
    keys.into_iter()
        .filter(|key| from.get(key) != to.get(key))
        .map(|key| {
            let (a, b) = (from.get(key), to.get(key));
            DiffChange {
                kind: DiffKind::Variable,
                path: format!("variables.{key}"),
                from: a.map(|(_, value)| secret::shown(value)),
                to: b.map(|(_, value)| secret::shown(value)),
                layer: a.into_iter().chain(b).map(|(kind, _)| *kind).max(),
            }
        })
        .collect()
}

/// The value of each variable and the layer it comes from.
fn winners(layers: &[Layer]) -> BTreeMap<&str, (LayerKind, &str)> {
    let mut sorted: Vec<&Layer> = layers.iter().collect();
    sorted.sort_by_key(|layer| layer.kind);
    sorted
        .into_iter()
        .flat_map(|layer| layer.values.iter().map(|(key, value)| (key.as_str(), (layer.kind, value.as_str()))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(kind: LayerKind, values: &[(&str, &str)]) -> Layer {
        let values = values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Layer { kind, origin: "x".to_owned(), values }
    }

    #[test]
    fn overrides_name_the_layer_that_differs() {
        let shared = layer(LayerKind::Workspace, &[("A", "1"), ("B", "1"), ("D", "1")]);
        let token = secret::token("env:X", secret::Encoding::Raw);
        let from = [shared.clone(), layer(LayerKind::Instance, &[("A", "2"), ("C", &token)])];
        let to = [layer(LayerKind::Instance, &[("D", "1")]), shared];
        let told: Vec<_> = overrides(&from, &to)
            .into_iter()
            .map(|c| (c.path, c.from.unwrap_or_default(), c.to.unwrap_or_default(), c.layer.unwrap()))
            .collect();
        let row = |key: &str, from: &str, to: &str| {
            (format!("variables.{key}"), from.to_owned(), to.to_owned(), LayerKind::Instance)
        };
        assert_eq!(told, [row("A", "2", "1"), row("C", "‹env:X›", ""), row("D", "1", "1")]);
    }
}
