//! One resolution of variables, for what is shown and for what is launched.
//!
//! A service gets a layer's value for a name when it names it: as a variable of
//! its own, by `inject`, or inside an entry that interpolates it. In the last
//! case the entry is evaluated again with the values that won.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::client::Clients;
use super::fragment::Texts;
use super::{Draft, Input};
use crate::diagnostic::Diagnostic;
use crate::interpolate::Template;
use crate::manifest::check_variable_name;
use crate::plan::{Exposed, Layer, LayerKind, Plan, Variable};
use crate::secret;

type Variables = BTreeMap<String, Variable>;

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

/// The entries of a revision, parsed.
pub(super) fn templates(
    input: Input<'_>,
    faults: &mut Vec<Diagnostic>,
) -> BTreeMap<String, BTreeMap<String, Template>> {
    let mut all: BTreeMap<String, BTreeMap<String, Template>> = BTreeMap::new();
    for (service, entries) in input.templates {
        for (key, text) in entries {
            match text.parse() {
                Ok(template) => {
                    all.entry(service.clone()).or_default().insert(key.clone(), template);
                }
                Err(error) => {
                    let path = ["services", service, "environment", key];
                    let message = format!("`{key}` of `{service}`: {error}");
                    faults.push(Diagnostic::error(&path, message));
                }
            }
        }
    }
    all
}

/// The manifest cannot set what the placement says.
pub(super) fn own_keys(draft: &Draft, faults: &mut Vec<Diagnostic>) {
    for key in draft.env.keys().filter(|key| is_placement_key(key)) {
        let message = format!("`{key}` says where an instance stands and cannot be set");
        faults.push(Diagnostic::error(&["env", key], message).hint("choose another name"));
    }
}

/// What stands against values that come from outside the plan.
fn check(layers: &[Layer], faults: &mut Vec<Diagnostic>) {
    for layer in layers {
        let from = format!("variables of {} `{}`", layer.kind, layer.origin);
        for (key, value) in &layer.values {
            if let Err(reason) = check_variable_name(key) {
                let message = format!("{from}: the name `{}` {reason}", key.escape_debug());
                faults.push(Diagnostic::error(&[], message));
            } else if is_placement_key(key) {
                let message = format!("{from}: `{key}` says where the instance stands and stays as it is");
                faults.push(Diagnostic::warning(&[], message).hint("unset it"));
            } else if value.contains('\0') {
                let message = format!("{from}: the value of `{key}` holds a NUL, which no variable can");
                faults.push(Diagnostic::error(&[], message));
            }
        }
    }
}

/// A value on its way to a container.
#[derive(Clone)]
struct Put<'a> {
    kind: LayerKind,
    origin: &'a str,
    key: &'a str,
    value: Cow<'a, str>,
}

pub(super) fn settle<'a>(
    draft: &'a Draft,
    texts: &Texts<'a>,
    plan: &mut Plan,
    layers: &[Layer],
    faults: &mut Vec<Diagnostic>,
) {
    check(layers, faults);
    let placement = placement_values(plan);
    let manifest = Layer { kind: LayerKind::Manifest, origin: "sidestack.yaml".to_owned(), values: draft.env.clone() };
    let clients = Clients::new(draft, texts, plan, faults);
    // Lowest first; the order of equal kinds is the order they came in.
    let mut user: Vec<&Layer> = std::iter::once(&manifest).chain(layers).collect();
    user.sort_by_key(|layer| layer.kind);
    let everywhere = everywhere(&user, &placement);
    for name in draft.services.keys() {
        let offers = offers(draft, name, &everywhere, &clients);
        let variables = of_service(draft, plan, name, offers, faults);
        if let Some(service) = plan.services.get_mut(name) {
            service.compose.environment =
                variables.iter().map(|(key, variable)| (key.clone(), Some(variable.value.clone()))).collect();
        }
        plan.container_variables.insert(name.clone(), variables);
    }
    for (name, service) in &plan.services {
        let Some(resource) = &service.resource else {
            continue;
        };
        let mut own = Variables::new();
        for (key, value) in &service.compose.environment {
            let Some(value) = value else { continue };
            let variable = Variable::new(LayerKind::Catalogue, resource.as_str(), value);
            own.insert(key.clone(), variable);
        }
        plan.container_variables.insert(name.clone(), own);
    }
    plan.host_variables = host(draft, &clients, &placement, &user);
}

/// What every service could be told.
fn everywhere<'a>(user: &[&'a Layer], placement: &'a BTreeMap<String, String>) -> Vec<Put<'a>> {
    let mut offers: Vec<Put<'_>> = Vec::new();
    for layer in user {
        for (key, value) in layer.values.iter().filter(|(key, _)| !is_placement_key(key)) {
            offers.push(Put { kind: layer.kind, origin: &layer.origin, key, value: Cow::Borrowed(value) });
        }
    }
    let kind = LayerKind::Placement;
    for (key, value) in placement {
        offers.push(Put { kind, origin: "placement", key, value: Cow::Borrowed(value) });
    }
    offers
}

/// Everything that a service could be told, lowest first.
fn offers<'a>(draft: &'a Draft, service: &str, everywhere: &[Put<'a>], clients: &'a Clients) -> Vec<Put<'a>> {
    let mut offers = everywhere.to_vec();
    let kind = LayerKind::Client;
    for resource in draft.bindings.get(service).into_iter().flatten() {
        for (key, value) in clients.inside(resource) {
            offers.push(Put { kind, origin: resource.as_str(), key, value: Cow::Borrowed(value) });
        }
    }
    offers.sort_by_key(|offer| offer.kind);
    offers
}

/// The variables of one service of the compose files.
fn of_service(
    draft: &Draft,
    plan: &Plan,
    service: &str,
    offers: Vec<Put<'_>>,
    faults: &mut Vec<Diagnostic>,
) -> Variables {
    let wanted = draft.wanted.get(service).into_iter().flatten();
    let mut named: BTreeSet<&str> = wanted.map(String::as_str).collect();
    let clients = offers.iter().filter(|offer| offer.kind == LayerKind::Client);
    named.extend(clients.map(|offer| offer.key));
    let mut variables = Variables::new();
    let compose = plan.services.get(service).map(|service| &service.compose.environment);
    for (key, value) in compose.into_iter().flatten() {
        named.insert(key);
        if let Some(value) = value {
            let original = plan.rewritten.get(service).and_then(|all| all.get(key));
            let written = original.map_or(value, |original| &original.value);
            let mut variable = Variable::new(LayerKind::Compose, "compose files", written);
            if let Some(original) = original {
                variable.replace(LayerKind::Compose, original.rule, value);
            }
            variables.insert(key.clone(), variable);
        }
    }
    let mut puts = interpolated(draft, service, &offers, faults);
    puts.extend(offers.into_iter().filter(|offer| named.contains(offer.key)));
    // Stable: a value for the name itself goes above one that only mentions it.
    puts.sort_by_key(|put| put.kind);
    for offer in puts {
        put(&mut variables, offer.key, offer.kind, offer.origin, &offer.value);
    }
    variables
}

/// The entries of a service that mention a name somebody sets, evaluated again.
fn interpolated<'a>(draft: &'a Draft, service: &str, offers: &[Put<'a>], faults: &mut Vec<Diagnostic>) -> Vec<Put<'a>> {
    let Some(entries) = draft.templates.get(service) else {
        return Vec::new();
    };
    let set: BTreeMap<&str, &Put<'_>> = offers.iter().map(|offer| (offer.key, offer)).collect();
    let lookup = |name: &str| match set.get(name) {
        Some(offer) => Some(&*offer.value),
        None => draft.interpolation.get(name)?.as_deref(),
    };
    let mut puts = Vec::new();
    for (key, template) in entries.iter().filter(|(key, _)| !is_placement_key(key)) {
        let names = template.names();
        let setters = names.into_iter().filter_map(|name| set.get(name));
        let Some(winner) = setters.max_by_key(|offer| offer.kind) else {
            continue;
        };
        match template.value(&lookup) {
            Ok(value) => {
                puts.push(Put { kind: winner.kind, origin: winner.origin, key, value: Cow::Owned(value) });
            }
            Err(error) => {
                let path = ["services", service, "environment", key];
                let message = format!("`{key}` of `{service}`: {error}");
                faults.push(Diagnostic::error(&path, message));
            }
        }
    }
    puts
}

fn put(variables: &mut Variables, key: &str, kind: LayerKind, origin: &str, value: &str) {
    match variables.get_mut(key) {
        Some(variable) => variable.replace(kind, origin, value),
        None => {
            variables.insert(key.to_owned(), Variable::new(kind, origin, value));
        }
    }
}

/// On the host everything is wanted.
fn host(draft: &Draft, clients: &Clients, placement: &BTreeMap<String, String>, user: &[&Layer]) -> Variables {
    let mut variables = Variables::new();
    let apply = |variables: &mut Variables, above: bool| {
        for layer in user.iter().filter(|layer| (layer.kind > LayerKind::Placement) == above) {
            for (key, value) in layer.values.iter().filter(|(key, _)| !is_placement_key(key)) {
                put(variables, key, layer.kind, &layer.origin, value);
            }
        }
    };
    apply(&mut variables, false);
    for (key, value) in placement {
        put(&mut variables, key, LayerKind::Placement, "placement", value);
    }
    for resource in draft.resources.keys() {
        for (key, value) in clients.outside(resource) {
            put(&mut variables, key, LayerKind::Client, resource.as_str(), value);
        }
    }
    apply(&mut variables, true);
    variables
}

/// Which secrets Docker will hold in its container config: variables by name,
/// anything else by the key of the service that it stands in.
pub(super) fn exposed(plan: &mut Plan) {
    let mut exposed = Vec::new();
    for (name, service) in &plan.services {
        let mut add = |key: &str| {
            exposed.push(Exposed { service: name.clone(), name: key.to_owned() });
        };
        for (key, value) in &service.compose.environment {
            if value.as_deref().is_some_and(secret::holds) {
                add(key);
            }
        }
        // One look at the whole tells most services from those that hold some.
        if !secret::marked(&service.compose) {
            continue;
        }
        let Ok(serde_json::Value::Object(keys)) = serde_json::to_value(&service.compose) else {
            continue;
        };
        for (key, value) in keys.iter().filter(|(key, _)| *key != "environment") {
            let mut found = BTreeSet::new();
            secret::references_in(value, &mut found);
            if !found.is_empty() {
                add(key);
            }
        }
    }
    plan.exposed = exposed;
}
