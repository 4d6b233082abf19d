//! One resolution of variables, for what is shown and for what is launched.

use std::collections::BTreeMap;

use serde_json::Value;

use super::addresses::{self, Vantage};
use super::{Draft, Resolved};
use crate::diagnostic::Diagnostic;
use crate::names::ResourceName;
use crate::plan::{Exposed, Layer, LayerKind, Plan, Variable};
use crate::template::{Context, Templates, variable_name};

/// Whether a variable is the placement's own and cannot be overridden.
pub fn is_placement_key(name: &str) -> bool {
    name == "COMPOSE_PROJECT_NAME" || name.starts_with("SIDESTACK_")
}

/// The placement's own variables.
fn placement_values(plan: &Plan) -> BTreeMap<String, String> {
    let placement = &plan.placement;
    let target = &placement.target;
    let mut values: BTreeMap<String, String> = [
        ("COMPOSE_PROJECT_NAME", plan.project.clone()),
        ("SIDESTACK_WORKSPACE", target.workspace.to_string()),
        ("SIDESTACK_ENVIRONMENT", target.environment.to_string()),
        ("SIDESTACK_INSTANCE", target.instance.to_string()),
        ("SIDESTACK_TARGET", target.to_string()),
        ("SIDESTACK_HOST", target.host()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect();
    if let Some(revision) = placement.revision {
        values.insert("SIDESTACK_REVISION".to_owned(), revision.to_string());
    }
    if let Some(slot) = placement.slot {
        values.insert("SIDESTACK_SLOT".to_owned(), slot.to_string());
    }
    values
}

pub(super) fn settle(
    draft: &Draft,
    plan: &mut Plan,
    layers: &[Layer],
    faults: &mut Vec<Diagnostic>,
) {
    let templates = Templates::default();
    let placement = placement_values(plan);
    let manifest = Layer {
        kind: LayerKind::Manifest,
        origin: "sidestack.yaml".to_owned(),
        values: draft.env.clone(),
    };
    let mut clients: BTreeMap<(ResourceName, bool), BTreeMap<String, String>> = BTreeMap::new();
    for (name, resource) in &draft.resources {
        for vantage in [Vantage::Container, Vantage::Host] {
            let values = client(name, resource, vantage, plan, &templates, faults);
            clients.insert((name.clone(), vantage == Vantage::Host), values);
        }
    }
    // Lowest first; the order of equal kinds is the order they came in.
    let mut user: Vec<&Layer> = std::iter::once(&manifest).chain(layers).collect();
    user.sort_by_key(|layer| layer.kind);

    for name in draft.services.keys() {
        let mut variables: BTreeMap<String, Variable> = BTreeMap::new();
        let mut named: Vec<String> = draft.wanted.get(name).cloned().unwrap_or_default();
        let compose = &plan
            .services
            .get(name)
            .map(|service| service.compose.environment.clone())
            .unwrap_or_default();
        for (key, value) in compose {
            named.push(key.clone());
            if let Some(value) = value {
                variables.insert(
                    key.clone(),
                    Variable::new(LayerKind::Compose, "compose files", value),
                );
            }
        }
        let bound: Vec<&ResourceName> = draft.bindings.get(name).into_iter().flatten().collect();
        let client_keys: Vec<String> = bound
            .iter()
            .filter_map(|resource| clients.get(&((*resource).clone(), false)))
            .flat_map(|v| v.keys().cloned())
            .collect();
        named.extend(client_keys);
        apply(&mut variables, &named, &user, |kind| {
            kind < LayerKind::Placement
        });
        for key in named.iter().filter(|key| is_placement_key(key)) {
            match placement.get(key) {
                Some(value) => put(
                    &mut variables,
                    key,
                    LayerKind::Placement,
                    "placement",
                    value,
                ),
                None => drop(variables.remove(key)),
            }
        }
        for resource in bound {
            for (key, value) in clients
                .get(&(resource.clone(), false))
                .into_iter()
                .flatten()
            {
                put(
                    &mut variables,
                    key,
                    LayerKind::Client,
                    resource.as_str(),
                    value,
                );
            }
        }
        apply(&mut variables, &named, &user, |kind| {
            kind > LayerKind::Placement
        });
        if let Some(service) = plan.services.get_mut(name) {
            service.compose.environment = variables
                .iter()
                .map(|(key, variable)| (key.clone(), Some(variable.value.clone())))
                .collect();
        }
        for (key, _) in variables
            .iter()
            .filter(|(_, variable)| crate::secret::holds(&variable.value))
        {
            plan.exposed.push(Exposed {
                service: name.clone(),
                name: key.clone(),
            });
        }
        plan.container_variables.insert(name.clone(), variables);
    }
    for (name, service) in plan
        .services
        .iter()
        .filter(|(_, service)| service.resource.is_some())
    {
        let own = service
            .compose
            .environment
            .iter()
            .filter_map(|(key, value)| {
                let origin = service
                    .resource
                    .as_ref()
                    .map_or("catalogue", ResourceName::as_str);
                Some((
                    key.clone(),
                    Variable::new(LayerKind::Catalogue, origin, value.as_deref()?),
                ))
            });
        plan.container_variables.insert(name.clone(), own.collect());
    }
    plan.host_variables = host(draft, &clients, &placement, &user);
}

fn put(
    variables: &mut BTreeMap<String, Variable>,
    key: &str,
    kind: LayerKind,
    origin: &str,
    value: &str,
) {
    match variables.get_mut(key) {
        Some(variable) => variable.replace(kind, origin, value),
        None => drop(variables.insert(key.to_owned(), Variable::new(kind, origin, value))),
    }
}

/// A layer reaches a service that names the key.
fn apply(
    variables: &mut BTreeMap<String, Variable>,
    named: &[String],
    layers: &[&Layer],
    rank: impl Fn(LayerKind) -> bool,
) {
    for layer in layers.iter().filter(|layer| rank(layer.kind)) {
        for (key, value) in &layer.values {
            if named.contains(key) && !is_placement_key(key) {
                put(variables, key, layer.kind, &layer.origin, value);
            }
        }
    }
}

/// On the host everything is wanted.
fn host(
    draft: &Draft,
    clients: &BTreeMap<(ResourceName, bool), BTreeMap<String, String>>,
    placement: &BTreeMap<String, String>,
    user: &[&Layer],
) -> BTreeMap<String, Variable> {
    let mut variables = BTreeMap::new();
    let keys: Vec<String> = user
        .iter()
        .flat_map(|layer| layer.values.keys().cloned())
        .collect();
    apply(&mut variables, &keys, user, |kind| {
        kind < LayerKind::Placement
    });
    for (key, value) in placement {
        put(
            &mut variables,
            key,
            LayerKind::Placement,
            "placement",
            value,
        );
    }
    for resource in draft.resources.keys() {
        for (key, value) in clients.get(&(resource.clone(), true)).into_iter().flatten() {
            put(
                &mut variables,
                key,
                LayerKind::Client,
                resource.as_str(),
                value,
            );
        }
    }
    apply(&mut variables, &keys, user, |kind| {
        kind > LayerKind::Placement
    });
    variables
}

/// The variables a resource gives its clients.
fn client(
    name: &ResourceName,
    resource: &Resolved,
    vantage: Vantage,
    plan: &Plan,
    templates: &Templates,
    faults: &mut Vec<Diagnostic>,
) -> BTreeMap<String, String> {
    let mut values = addresses::context(name, resource);
    if let Value::Object(address) = addresses::of_resource(plan, resource, vantage) {
        values.extend(address);
    }
    let context = Context::new(&values);
    let prefix = variable_name(name.as_str());
    let mut all = BTreeMap::new();
    let mut render = |key: String, template: &str, context: &Context| match templates
        .render(template, context)
    {
        // An empty value says nothing: a cache without a password has no `CACHE_PASSWORD`.
        Ok(value) if value.is_empty() => {}
        Ok(value) => drop(all.insert(key, value)),
        Err(error) => {
            let message = format!(
                "module `{}`, variable `{key}`: {error}",
                resource.module.name
            );
            faults.push(Diagnostic::error(&["resources", name.as_str()], message));
        }
    };
    for (key, template) in &resource.module.variables.prefixed {
        render(format!("{prefix}_{key}"), template, &context);
    }
    for (kind, templates_of_kind) in &resource.module.variables.each {
        for each in resource.provisions.get(kind).into_iter().flatten() {
            let mut values = values.clone();
            values.insert("name".to_owned(), Value::from(each.clone()));
            let context = Context::new(values);
            for (key, template) in templates_of_kind {
                render(
                    format!("{prefix}_{}_{key}", variable_name(each)),
                    template,
                    &context,
                );
            }
        }
    }
    if resource.conventional {
        for (key, template) in &resource.module.variables.conventional {
            render(key.clone(), template, &context);
        }
    }
    all
}
