//! The layers of variables that the store holds for an instance, lowest first.

use std::collections::BTreeMap;

use sidestack_state::{Instance, Scope, VariableValue};
use sidestack_topology::plan::{Layer, LayerKind};
use sidestack_topology::secret::{Encoding, token};

use crate::error::Result;
use crate::session::Session;

/// A stored value as the planner takes it: secrets as tokens.
fn planned(values: BTreeMap<String, VariableValue>) -> BTreeMap<String, String> {
    values
        .into_iter()
        .map(|(key, value)| {
            let value = match value {
                VariableValue::Literal(text) => text,
                VariableValue::Secret(reference) => token(&reference, Encoding::Raw),
            };
            (key, value)
        })
        .collect()
}

impl Session {
    /// Everything that `set` wrote and that holds for an instance.
    pub(crate) fn layers(&self, instance: &Instance, workspace_id: i64) -> Result<Vec<Layer>> {
        let target = &instance.target;
        let mut scopes = vec![
            (LayerKind::Workspace, target.workspace.to_string(), Scope::Workspace(workspace_id)),
            (
                LayerKind::Environment,
                format!("{}/{}", target.workspace, target.environment),
                Scope::Environment(instance.environment),
            ),
        ];
        if let Some(revision) = instance.revision {
            scopes.push((LayerKind::Revision, revision.to_string(), Scope::Revision(instance.environment, revision)));
        }
        scopes.push((LayerKind::Instance, target.to_string(), Scope::Instance(instance.id)));
        let mut layers = Vec::new();
        for (kind, origin, scope) in scopes {
            let values = planned(self.store.variables(scope)?);
            if !values.is_empty() {
                layers.push(Layer { kind, origin, values });
            }
        }
        Ok(layers)
    }
}
