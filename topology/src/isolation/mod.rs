//! Isolation: what makes a second copy of somebody else's compose file collide
//! is changed, told as shared, or refused by name.
//!
//! Every rule is a small function of its own over one service, network or volume.
//! A rule that changes the model *claims* the place ([`claim`]); one that cannot
//! isolate says what every copy would share ([`shared`]); what must not run at all
//! is a fault ([`refuse`]). Nothing is ignored in silence. [`isolate`] does what
//! needs no place, with placeholders in the model, so that a path inside the
//! checkout can be told from one outside; [`place`] does the rest: addresses, and
//! texts that name an address or a port of the stack itself.

mod characters;
mod choose;
pub(crate) mod claim;
mod keep;
mod links;
mod ports;
pub(crate) mod readdress;
mod refuse;
mod renamed;
mod rules;
pub(crate) mod selves;
mod shared;
mod traefik;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

pub use self::claim::{Claims, UNEXPLAINED};
use self::keep::Keep;
use self::shared::Found;
use crate::compose::{Network, Project, Volume};
use crate::diagnostic::Diagnostic;
use crate::manifest::{IsolationChoices, NetworkChoice};
use crate::plan::{Change, FileObjects, LayerKind, Plan, Publish, Shared};
use crate::planner::{Draft, Foreign};
use crate::{placeholder, render};

/// A compose project, isolated as far as no place is needed.
#[derive(Debug, Default)]
pub(crate) struct Isolated {
    pub(crate) services: BTreeMap<String, Foreign>,
    pub(crate) networks: BTreeMap<String, Network>,
    pub(crate) volumes: BTreeMap<String, Volume>,
    pub(crate) file_objects: FileObjects,
    pub(crate) publishes: Vec<Publish>,
    pub(crate) claims: Claims,
    pub(crate) shared: Vec<Shared>,
    /// Files of the checkout that are mounted writable, as the files name them, and by which services.
    pub(crate) written: BTreeMap<String, BTreeSet<String>>,
    /// Volumes that begin with a copy: by key, the real name of what is copied.
    pub(crate) copies: BTreeMap<String, String>,
    /// Real names that networks had in the files, with their keys.
    pub(crate) renamed: BTreeMap<String, String>,
}

/// Applies every rule that needs no place.
pub(crate) fn isolate(
    model: &Project,
    builds: &BTreeMap<String, String>,
    profiles: &[String],
    choices: &IsolationChoices,
    faults: &mut Vec<Diagnostic>,
) -> Isolated {
    let mut isolated = Isolated::default();
    let claims = &mut isolated.claims;
    let mut found = Found { items: &mut isolated.shared, inside: &mut isolated.written };
    characters::check(model, faults);
    let mut services = model.services.clone();
    choose::check(choices, &model.networks, &model.volumes, &services, faults);
    rules::extensions(model, claims);
    links::container_names(&mut services, claims);
    links::implied(&mut services);
    links::unscaled(&mut services, claims);
    let active = rules::active(&services, profiles, claims);
    links::missing(&services, &active, faults);
    // Owned names, so that each service can be taken apart in its place.
    let active: BTreeSet<String> = active.into_iter().map(str::to_owned).collect();
    let active: BTreeSet<&str> = active.iter().map(String::as_str).collect();
    services.retain(|name, _| active.contains(name.as_str()));
    refuse::project(model, &services, faults);
    shared::project(model, &mut found);
    let inner = rules::inner_networks(model, &services);
    for (key, network) in &model.networks {
        let network = network.clone().unwrap_or_default();
        refuse::network(key, &network, faults);
        let own = !network.external || matches!(choices.networks.get(key), Some(NetworkChoice::Create));
        if let Some(name) = network.name.clone().or_else(|| network.external.then(|| key.clone())).filter(|_| own) {
            isolated.renamed.insert(name, key.clone());
        }
        if network.external {
            let choice = choices.networks.get(key);
            choose::one_name(key, choice, &services, faults);
            choose::network(key, network, choice, &mut services, &mut isolated.networks, claims, &mut found);
        } else {
            isolated.networks.insert(key.clone(), rules::network(key, network, claims));
        }
    }
    for (key, volume) in &model.volumes {
        let volume = volume.clone().unwrap_or_default();
        refuse::volume(key, &volume, faults);
        let volume = if volume.external {
            let choice = choices.volumes.get(key).copied();
            choose::volume(key, volume, choice, &mut isolated.copies, claims, &mut found)
        } else {
            rules::volume(key, volume, claims)
        };
        isolated.volumes.insert(key.clone(), volume);
    }
    isolated.file_objects = rules::file_objects(model, claims);
    for (name, mut service) in services {
        let name = name.as_str();
        refuse::service(name, &service, faults);
        let from_host = service.network_mode.as_deref() == Some("host");
        rules::network_mode(name, &mut service, &inner, claims);
        let from_host = from_host && service.network_mode.is_none();
        if from_host {
            ports::of_host(&mut service);
        }
        rules::hardware_addresses(name, &mut service, claims);
        shared::service(name, &service, &mut found);
        links::shared_network(name, &service, faults);
        let after = rules::order(name, &mut service, &active, claims);
        let deliveries = rules::deliveries(name, &mut service, model, claims, faults);
        refuse::hidden_deliveries(name, &service, &deliveries, faults);
        let (post_start, pre_stop) = rules::hooks(name, &mut service, claims);
        rules::container_name(name, &mut service, claims);
        rules::restart(name, &mut service, claims);
        rules::left_out(name, &mut service, claims);
        isolated.publishes.extend(ports::leases(name, &mut service, claims, faults));
        let build = builds.get(name).cloned();
        let foreign = Foreign { compose: service, after, deliveries, post_start, pre_stop, build, from_host };
        isolated.services.insert(name.to_owned(), foreign);
    }
    told_only(model, &isolated, faults);
    shared::warnings(&isolated.shared, faults);
    isolated
}

/// Self-addresses where they cannot be rewritten for each copy: in what is built once for all, and in what is handed in
/// as it is.
fn told_only(model: &Project, isolated: &Isolated, faults: &mut Vec<Diagnostic>) {
    let own: BTreeSet<u16> = isolated.publishes.iter().filter_map(|publish| publish.own).collect();
    if own.is_empty() {
        return;
    }
    for (name, foreign) in &isolated.services {
        for argument in selves::in_build(&foreign.compose, &own) {
            let message = format!(
                "the build argument `{argument}` of `{name}` names a host port of the stack itself, and is in the image of every copy"
            );
            let fault = Diagnostic::warning(&["services", name, "build"], message);
            faults.push(fault.hint("read it from a variable when the container starts"));
        }
    }
    for (key, config) in &model.configs {
        if config.content.as_deref().is_some_and(|content| selves::names(content, &own)) {
            let message =
                format!("the config `{key}` names a host port of the stack itself, which differs in every copy");
            let fault = Diagnostic::warning(&["configs", key, "content"], message);
            faults.push(fault.hint("let the program read it from a variable, where it is rewritten"));
        }
    }
}

/// Applies every rule that needs a place. The plan has all its services and networks.
pub(crate) fn place(draft: &Draft, plan: &mut Plan, faults: &mut Vec<Diagnostic>) {
    let mut claims = std::mem::take(&mut plan.claims);
    let map = selves::PortMap::of(plan);
    let keep = Keep(&draft.choices.keep);
    if !map.is_empty() {
        let (all, none) = (selves::listens(plan), BTreeSet::new());
        for (name, foreign) in &draft.services {
            let networks = selves::networks(plan, name);
            let owner = selves::owner(plan, name).to_owned();
            let listens = all.get(owner.as_str()).unwrap_or(&none);
            let Some(planned) = plan.services.get_mut(name) else { continue };
            let gateways = selves::gateways(&planned.compose);
            let view = selves::View {
                name,
                map: &map,
                listens,
                from_host: foreign.from_host,
                beside: owner != *name,
                gateways: &gateways,
                networks: &networks,
            };
            let originals = plan.rewritten.entry(name.clone()).or_default();
            selves::environment(name, &mut planned.compose, view, keep, originals);
            selves::service(name, &mut planned.compose, view, keep, &mut claims);
            for other in view.out_of_reach(&planned.compose).iter().filter(|_| !keep.keeps(name, &[])) {
                let message = format!(
                    "`{name}` reaches `{other}` by way of the host, where its port is bound to the loopback address"
                );
                let fault = Diagnostic::warning(&["services", name, "environment"], message);
                faults.push(fault.hint("let both stand in one network"));
            }
        }
    }
    readdress::networks(plan, &mut claims, faults);
    renamed::networks(draft, plan, &mut claims);
    traefik::labels(plan, &mut claims);
    plan.claims = claims;
}

/// What isolation changed: the difference between the model as the files have it and as it will run, each entry with
/// the rule that made it. Applying the entries to the one gives the other, both ways; both are in the form that
/// [`claim::plain`] makes.
pub fn report(model: &Project, plan: &Plan) -> Vec<Change> {
    let mut from = serde_json::to_value(model).unwrap_or_default();
    placeholder::fill(&mut from, &plan.project, &plan.placement.checkout);
    let mut to = render::render(plan, &render::Images::default()).model;
    if let Value::Object(from) = &mut from {
        // Both are read under one name, which is no part of the files.
        from.insert("name".to_owned(), Value::from(plan.project.as_str()));
    }
    // What came with resources is no change of the files.
    let resource = |name: &str| plan.services.get(name).is_some_and(|planned| planned.resource.is_some());
    for section in ["services", "networks", "volumes", "secrets", "configs"] {
        let known: BTreeSet<String> =
            from.get(section).and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key.clone()).collect();
        let Some(Value::Object(parts)) = to.get_mut(section) else { continue };
        parts.retain(|key, _| match section {
            "services" => !resource(key),
            "volumes" => known.contains(key),
            _ => true,
        });
    }
    for model in [&mut from, &mut to] {
        claim::plain(model, &plan.project);
    }
    let mut claims = plan.claims.clone();
    for (service, variables) in &plan.container_variables {
        for (name, variable) in variables {
            let original = plan.rewritten.get(service).and_then(|all| all.get(name));
            let (rule, reason) = match (variable.layer, original) {
                (LayerKind::Compose, None) => continue,
                (LayerKind::Compose, Some(original)) => (original.rule, original.reason.to_owned()),
                (layer, _) => ("variable", format!("the {layer} layer sets it ({})", variable.origin)),
            };
            claims.claim(claim::pointer(&["services", service, "environment", name]), rule, reason);
        }
    }
    claims.differences(&from, &to)
}
