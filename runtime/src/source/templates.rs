//! Entries of `environment` as the files have them, so that a variable that is set later reaches the entries that
//! interpolate it.
//!
//! Where the files lead to no others, an entry is what the last of them says. Elsewhere Compose itself says what it is
//! after all includes, extensions and tags, by `config --no-interpolate`. What that prints differs between versions (whether `env_file`s are already in it, whether dollars
//! are doubled, lists or mappings), and includes may have values of their own. So nothing is believed that does not
//! prove itself: a template is kept only when it gives the very value that Compose's own interpolation gave.

use std::collections::BTreeMap;

use serde_json::Value;
use sidestack_topology::compose::Project;
use sidestack_topology::diagnostic::Diagnostic;
use sidestack_topology::interpolate::Template;
use sidestack_topology::revision::{Interpolation, Templates};

use super::model::{Maker, is_refused};
use super::raw::Entries;
use super::variables::Sources;
use crate::engine::compose::ComposeOutput;

/// What Compose is asked.
pub(super) const ARGS: [&str; 4] = ["config", "--no-interpolate", "--format", "json"];

/// What Compose interpolated with.
pub(super) struct Seen<'a> {
    pub(super) sources: &'a Sources<'a>,
    /// From [`Sources::settle`].
    pub(super) settled: &'a BTreeMap<String, String>,
    pub(super) maker: &'a Maker<'a>,
}

impl Seen<'_> {
    /// A name's value as it may be kept; `Err` when it cannot be told, or could be taken for a token or a placeholder.
    fn value(&self, name: &str) -> Result<Option<String>, ()> {
        match self.sources.seen(name, self.settled)? {
            Some(value) if value.contains(is_refused) => Err(()),
            value => Ok(value.map(|value| self.maker.text(&value))),
        }
    }
}

/// The entries that Compose printed; `None` when it could not tell.
pub(super) fn printed(output: &ComposeOutput) -> Option<Entries> {
    let root: Value = serde_json::from_slice(&output.stdout).ok().filter(|_| output.code == 0)?;
    let services = root["services"].as_object().into_iter().flatten();
    Some(services.map(|(name, service)| (name.clone(), entries(&service["environment"]))).collect())
}

/// The templates of a model, and the values of the names in them.
pub(super) fn of(written: &Entries, model: &Project, seen: &Seen<'_>) -> (Templates, Interpolation) {
    let mut templates = Templates::new();
    let mut interpolation = Interpolation::new();
    for (name, service) in &model.services {
        for (key, text) in written.get(name).into_iter().flatten() {
            let Some(Some(known)) = service.environment.get(key) else { continue };
            let Some((text, values)) = proven(text, known, seen) else { continue };
            templates.entry(name.clone()).or_default().insert(key.clone(), text);
            interpolation.extend(values);
        }
    }
    (templates, interpolation)
}

/// The warning when Compose could not tell.
pub(super) fn unknown() -> Diagnostic {
    let message = "Compose cannot print the stack before interpolation, so variables that are set with `sidestack set` \
                   do not reach the values that interpolate them";
    Diagnostic::warning(&[], message)
        .hint("write paths of `include` and `extends` without variables; a newer Compose may also do")
}

/// Text by name; of several of one name the last, which counts for Compose too.
fn entries(environment: &Value) -> BTreeMap<String, String> {
    let owned = |(key, text): (&str, &str)| (key.to_owned(), text.to_owned());
    match environment {
        Value::Object(map) => map.iter().filter_map(|(key, text)| Some(owned((key, text.as_str()?)))).collect(),
        Value::Array(items) => items.iter().filter_map(|item| item.as_str()?.split_once('=').map(owned)).collect(),
        _ => BTreeMap::new(),
    }
}

/// A text that interpolates, as it is kept, with the values of its names; only when it gives what is known.
fn proven(text: &str, known: &str, seen: &Seen<'_>) -> Option<(String, Interpolation)> {
    if !text.contains('$') || text.contains(is_refused) {
        return None;
    }
    let text = seen.maker.text(text);
    let template: Template = text.parse().ok()?;
    let mut values = Interpolation::new();
    for name in template.names() {
        values.insert(name.to_owned(), seen.value(name).ok()?);
    }
    if values.is_empty() {
        return None;
    }
    let lookup = |name: &str| values.get(name)?.as_deref();
    (template.value(&lookup).ok()? == known).then_some((text, values))
}
