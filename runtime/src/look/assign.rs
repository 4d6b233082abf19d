//! `set` and `unset`: the layers of variables that are not files.

use std::collections::{BTreeMap, BTreeSet};

use sidestack_state::{Desired, Instance, Scope, VariableValue, Workspace};
use sidestack_topology::manifest::check_variable_name;
use sidestack_topology::plan::LayerKind;
use sidestack_topology::planner::variables::is_placement_key;
use sidestack_topology::secret;

use crate::api::{SetReport, TargetWords, WriteLayer};
use crate::error::{Error, Kind, Result};
use crate::secrets::Reference;
use crate::session::Session;

/// The longest value that a process can be started with: the kernel's 131,072 bytes for one
/// variable, less the name that goes with it.
const LONGEST: usize = 131_066;

/// Where a variable is written.
struct Place {
    workspace: Workspace,
    scope: Scope,
    kind: LayerKind,
    name: String,
    /// The instance at hand, if there is one.
    instance: Option<Instance>,
}

impl Session {
    /// Sets variables of a workspace, an environment or an instance: all of them or none.
    ///
    /// # Errors
    /// Every name or value that cannot be; not found.
    pub fn set(
        &self,
        words: &TargetWords,
        layer: WriteLayer,
        assignments: &[(String, VariableValue)],
    ) -> Result<SetReport> {
        refuse(assignments.iter().filter_map(|(key, value)| fault(key, Some(value))))?;
        let place = self.place(words, layer)?;
        self.change(&place, &assignments.iter().map(|(key, value)| (key.as_str(), Some(value))).collect())
    }

    /// Takes variables out of a layer: all of them or none. One that is not set is as it should be.
    ///
    /// # Errors
    /// Every name that cannot be; not found.
    pub fn unset(&self, words: &TargetWords, layer: WriteLayer, keys: &[String]) -> Result<SetReport> {
        refuse(keys.iter().filter_map(|key| fault(key, None)))?;
        let place = self.place(words, layer)?;
        self.change(&place, &keys.iter().map(|key| (key.as_str(), None)).collect())
    }

    fn place(&self, words: &TargetWords, layer: WriteLayer) -> Result<Place> {
        if words.revision.is_some() {
            return Err(Error::new(Kind::Usage, "target", "a revision has no variables that can be set")
                .hint("name an instance, or use --environment or --workspace"));
        }
        let in_words = |environment: Option<i64>| {
            self.instance(words).ok().filter(|instance| environment.is_none_or(|id| id == instance.environment))
        };
        // A workspace can be meant before it has an environment.
        if layer == WriteLayer::Workspace
            && words.parts.is_empty()
            && let Some((_, workspace)) = self.here()?
        {
            let (scope, name) = (Scope::Workspace(workspace.id), workspace.name.to_string());
            return Ok(Place { scope, kind: LayerKind::Workspace, name, instance: in_words(None), workspace });
        }
        Ok(match layer {
            WriteLayer::Workspace => {
                let workspace = self.spot(words)?.workspace;
                let (scope, name) = (Scope::Workspace(workspace.id), workspace.name.to_string());
                Place { scope, kind: LayerKind::Workspace, name, instance: in_words(None), workspace }
            }
            WriteLayer::Environment => {
                let spot = self.spot(words)?;
                let id = spot.environment.id;
                let name = format!("{}/{}", spot.workspace.name, spot.environment.name);
                let instance = in_words(Some(id));
                Place {
                    scope: Scope::Environment(id),
                    kind: LayerKind::Environment,
                    name,
                    instance,
                    workspace: spot.workspace,
                }
            }
            WriteLayer::Instance => {
                let instance = self.instance(words)?;
                let workspace = self.store.workspace(&instance.target.workspace)?;
                let (scope, name) = (Scope::Instance(instance.id), instance.target.to_string());
                Place { scope, kind: LayerKind::Instance, name, instance: Some(instance), workspace }
            }
        })
    }

    fn change(&self, place: &Place, wanted: &BTreeMap<&str, Option<&VariableValue>>) -> Result<SetReport> {
        let changed = self.store.atomically(|store| -> Result<Vec<String>> {
            let mut changed = Vec::new();
            for (key, value) in wanted {
                let other = match value {
                    Some(value) => store.set_variable(place.scope, key, (*value).clone())?,
                    None => store.unset_variable(place.scope, key)?,
                };
                if other {
                    changed.push((*key).to_owned());
                }
            }
            Ok(changed)
        })?;
        let removes = wanted.values().all(Option::is_none);
        let unreached = match &place.instance {
            Some(instance) if !removes => self.reached(instance).map_or_else(Vec::new, |reached| {
                wanted.keys().filter(|key| !reached.contains(**key)).map(|key| (*key).to_owned()).collect()
            }),
            _ => Vec::new(),
        };
        let behind = if changed.is_empty() { Vec::new() } else { self.behind(place, &changed)? };
        Ok(SetReport { changed, place: place.name.clone(), behind, unreached })
    }

    /// Running instances whose containers have another value than they would get now.
    fn behind(&self, place: &Place, changed: &[String]) -> Result<Vec<sidestack_topology::names::Target>> {
        let mut behind = Vec::new();
        for instance in self.store.instances_of(place.workspace.id)? {
            let within = match place.scope {
                Scope::Workspace(_) => true,
                Scope::Environment(id) => instance.environment == id,
                Scope::Instance(id) => instance.id == id,
                Scope::Revision(environment, number) => {
                    instance.environment == environment && instance.revision == Some(number)
                }
            };
            if !within || instance.desired != Desired::Running {
                continue;
            }
            let layers = self.layers(&instance, place.workspace.id)?;
            let above =
                |key: &String| layers.iter().any(|layer| layer.kind > place.kind && layer.values.contains_key(key));
            // When it cannot be planned, nobody knows what it would get.
            let reached = self.reached(&instance);
            let gets = |key: &String| reached.as_ref().is_none_or(|reached| reached.contains(key));
            if changed.iter().any(|key| !above(key) && gets(key)) {
                behind.push(instance.target);
            }
        }
        Ok(behind)
    }

    /// The names that some service of the instance takes from a user's layer: it names them itself,
    /// gets them by `inject`, or interpolates them. `None` when that cannot be told.
    fn reached(&self, instance: &Instance) -> Option<BTreeSet<String>> {
        let planned = self.planned_as_it_is(instance).ok()?;
        let mut reached = BTreeSet::new();
        for service in planned.draft.services.keys() {
            reached.extend(planned.plan.container_variables.get(service).into_iter().flat_map(BTreeMap::keys).cloned());
            reached.extend(planned.draft.wanted.get(service).into_iter().flatten().cloned());
            for template in planned.draft.templates.get(service).into_iter().flat_map(BTreeMap::values) {
                reached.extend(template.names().into_iter().map(str::to_owned));
            }
        }
        Some(reached)
    }
}

/// All faults as one error.
fn refuse(faults: impl Iterator<Item = Error>) -> Result<()> {
    let faults: Vec<Error> = faults.collect();
    match <[Error; 1]>::try_from(faults) {
        Ok([only]) => Err(only),
        Err(faults) if faults.is_empty() => Ok(()),
        Err(faults) => {
            let error = Error::new(
                Kind::Usage,
                "variable",
                format!("{} of the variables cannot be; none was changed", faults.len()),
            );
            Err(faults.into_iter().fold(error, |error, fault| error.detail(fault.message)))
        }
    }
}

/// What stands against a variable. No value is repeated: it may be a secret.
fn fault(key: &str, value: Option<&VariableValue>) -> Option<Error> {
    let usage = |message: String| Error::new(Kind::Usage, "variable", message);
    if let Err(reason) = check_variable_name(key) {
        let shown: String = key.chars().take(60).collect();
        return Some(usage(format!("the name `{}` {reason}", shown.escape_debug())));
    }
    if value.is_some() && is_placement_key(key) {
        let error = usage(format!("`{key}` says where an instance stands and cannot be set"));
        return Some(error.hint("choose another name"));
    }
    match value? {
        VariableValue::Literal(text) if text.contains('\0') => {
            Some(usage(format!("the value of `{key}` holds a NUL, which no variable can")))
        }
        VariableValue::Literal(text) if text.len() > LONGEST => {
            let error =
                usage(format!("the value of `{key}` has {} bytes; a variable holds at most {LONGEST}", text.len()));
            Some(error.hint("put it into a file and set the file's path"))
        }
        VariableValue::Literal(text) if secret::forged(text) => Some(usage(format!(
            "the value of `{key}` holds a character (U+E0F0 or U+E0F1) that stands for secrets inside Sidestack"
        ))),
        VariableValue::Literal(_) => None,
        VariableValue::Secret(reference) => match reference.parse::<Reference>() {
            Ok(_) if secret::forged(reference) => {
                Some(usage(format!("the reference for `{key}` holds a character that none may have")))
            }
            Ok(_) => None,
            Err(error) => Some(usage(format!("the reference for `{key}` is none: {error}"))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(key: &str, value: &VariableValue) -> String {
        fault(key, Some(value)).map(|error| error.message).unwrap_or_default()
    }

    #[test]
    fn what_cannot_be_is_refused_without_its_value() {
        let literal = |text: &str| VariableValue::Literal(text.to_owned());
        let secret = |text: &str| VariableValue::Secret(text.to_owned());
        let table = [
            ("A", literal(""), ""),
            ("a_1", literal("x=y\nz"), ""),
            ("A", secret("keychain:shop/stripe"), ""),
            ("", literal("x"), "is empty"),
            ("1A", literal("x"), "begins with a digit"),
            ("A-B", literal("x"), "may hold only"),
            ("SIDESTACK_SLOT", literal("x"), "where an instance stands"),
            ("COMPOSE_PROJECT_NAME", literal("x"), "where an instance stands"),
            ("A", literal("canary\0"), "NUL"),
            ("A", literal("canary\u{E0F0}"), "U+E0F0"),
            ("A", secret("canary"), "is none"),
        ];
        for (key, value, wanted) in table {
            let message = told(key, &value);
            assert_eq!(message.is_empty(), wanted.is_empty(), "{key}: {message}");
            assert!(message.contains(wanted) && !message.contains("canary"), "{key}: {message}");
        }
    }

    #[test]
    fn the_limit_is_named() {
        assert_eq!(told("A", &VariableValue::Literal("x".repeat(LONGEST))), "");
        let message = told("A", &VariableValue::Literal("x".repeat(LONGEST + 1)));
        assert!(message.contains("131067") && message.contains("131066"), "{message}");
    }

    #[test]
    fn placement_keys_can_be_taken_out() {
        assert!(fault("SIDESTACK_SLOT", None).is_none());
        let many = ["1", "2"].map(|key| fault(key, None));
        let error = refuse(many.into_iter().flatten()).unwrap_err();
        assert_eq!(error.detail.len(), 2);
    }
}
