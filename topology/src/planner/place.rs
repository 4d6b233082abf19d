//! Names, labels and subnets: what makes an instance its own.

use std::collections::{BTreeMap, BTreeSet};

use super::{Draft, fragment};
use crate::compose::{Condition, Network, Service};
use crate::diagnostic::Diagnostic;
use crate::placeholder;
use crate::plan::{FileObjects, Placement, Plan, PlannedService};

/// The label that says which store owns an object.
pub const INSTALL_LABEL: &str = "dev.sidestack.install";
/// The label that says which instance an object belongs to.
pub const INSTANCE_LABEL: &str = "dev.sidestack.instance-id";

/// The labels of every container, network and volume.
fn labels(placement: &Placement) -> BTreeMap<String, String> {
    let target = &placement.target;
    [
        (INSTALL_LABEL, placement.install.as_str()),
        ("dev.sidestack.workspace", target.workspace.as_str()),
        ("dev.sidestack.environment", target.environment.as_str()),
        ("dev.sidestack.instance", target.instance.as_str()),
        (INSTANCE_LABEL, placement.instance_id.as_str()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

/// The plan with everything that comes from compose files.
pub(super) fn skeleton(draft: &Draft, placement: &Placement, faults: &mut Vec<Diagnostic>) -> Plan {
    let project = placement.target.project();
    let mut plan = Plan {
        placement: placement.clone(),
        project: project.clone(),
        services: BTreeMap::new(),
        networks: draft.networks.clone(),
        volumes: draft.volumes.clone(),
        file_objects: local_files(&draft.file_objects, &project, &placement.checkout),
        resources: BTreeMap::new(),
        ports: Vec::new(),
        files: BTreeMap::new(),
        changes: draft.changes.clone(),
        exposed: Vec::new(),
        host_variables: BTreeMap::new(),
        container_variables: BTreeMap::new(),
    };
    let awaited: BTreeSet<&String> = draft
        .services
        .values()
        .flat_map(|foreign| foreign.after.iter())
        .filter(|(_, after)| after.condition == Condition::Completed)
        .map(|(name, _)| name)
        .collect();
    for (name, foreign) in &draft.services {
        let mut compose = local(
            &foreign.compose,
            &project,
            &placement.checkout,
            name,
            faults,
        );
        if let (Some(_), Some(digest)) = (&compose.build, &foreign.build) {
            // One tag per content: copies of one context share the build, and no copy overwrites another's.
            let service = crate::names::dns_label(name);
            let tag = format!(
                "sidestack-{}-{service}:{}",
                placement.target.workspace,
                &digest[..digest.len().min(16)]
            );
            compose.image = Some(tag);
            compose.pull_policy = None;
        }
        plan.services.insert(
            name.clone(),
            PlannedService {
                replicas: compose.replicas(),
                compose,
                after: foreign.after.clone(),
                deliveries: foreign.deliveries.clone(),
                post_start: foreign.post_start.clone(),
                provisions: Vec::new(),
                one_shot: awaited.contains(name),
                resource: None,
            },
        );
    }
    plan
}

/// A service with its placeholders filled in.
fn local(
    service: &Service,
    project: &str,
    checkout: &str,
    name: &str,
    faults: &mut Vec<Diagnostic>,
) -> Service {
    let filled = serde_json::to_value(service).and_then(|mut value| {
        placeholder::fill(&mut value, project, checkout);
        serde_json::from_value(value)
    });
    filled.unwrap_or_else(|error| {
        faults.push(Diagnostic::error(
            &["services", name],
            format!("the service cannot be placed: {error}"),
        ));
        service.clone()
    })
}

fn local_files(objects: &FileObjects, project: &str, checkout: &str) -> FileObjects {
    let mut objects = objects.clone();
    for object in objects
        .secrets
        .values_mut()
        .chain(objects.configs.values_mut())
    {
        if let Some(file) = &mut object.file {
            *file = file
                .replace(placeholder::CHECKOUT, checkout)
                .replace(placeholder::PROJECT, project);
        }
    }
    objects
}

/// Ports, networks, volumes and labels, now that all services are known.
pub(super) fn finish(draft: &Draft, plan: &mut Plan) {
    for planned in &plan.ports {
        if draft.services.contains_key(&planned.publish.service)
            && let Some(service) = plan.services.get_mut(&planned.publish.service)
        {
            service.compose.ports.push(fragment::mapping(planned));
        }
    }
    join_networks(draft, plan);
    let labels = labels(&plan.placement);
    let (project, generation) = (plan.project.clone(), plan.placement.generation);
    for service in plan.services.values_mut() {
        service.compose.labels.extend(labels.clone());
    }
    let placement = plan.placement.clone();
    for (key, network) in &mut plan.networks {
        address(key, network, &placement);
        network.name = Some(format!("{project}_{key}"));
        network.labels.extend(labels.clone());
    }
    for (key, volume) in &mut plan.volumes {
        volume.name = Some(volume_name(&project, key, generation));
        volume.labels.extend(labels.clone());
    }
}

/// A volume's real name. A fresh start beside kept data counts up.
fn volume_name(project: &str, key: &str, generation: u32) -> String {
    match generation {
        0 | 1 => format!("{project}_{key}"),
        later => format!("{project}_{key}-g{later}"),
    }
}

/// A resource stands in every network in which somebody uses it, and in the default one.
fn join_networks(draft: &Draft, plan: &mut Plan) {
    let mut joins: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for resource in draft.resources.values() {
        for service in resource.services.values() {
            joins
                .entry(service.clone())
                .or_default()
                .insert("default".to_owned());
        }
    }
    for (consumer, resources) in &draft.bindings {
        let Some(consumer) = draft.services.get(consumer) else {
            continue;
        };
        for resource in resources
            .iter()
            .filter_map(|name| draft.resources.get(name))
        {
            for service in resource.services.values() {
                joins
                    .entry(service.clone())
                    .or_default()
                    .extend(consumer.compose.networks.keys().cloned());
            }
        }
    }
    let mut needs_default = false;
    for (name, service) in &mut plan.services {
        if let Some(networks) = joins.get(name) {
            service.compose.networks = networks
                .iter()
                .map(|network| (network.clone(), None))
                .collect();
        } else if service.compose.networks.is_empty() && service.compose.network_mode.is_none() {
            service.compose.networks.insert("default".to_owned(), None);
        }
        needs_default |= service.compose.networks.contains_key("default");
    }
    if needs_default {
        plan.networks.entry("default".to_owned()).or_default();
    }
}

/// Every network key the plan of a draft will have, for the numbers to be kept.
pub fn network_keys(draft: &Draft) -> Vec<String> {
    let mut keys = vec!["default".to_owned()];
    keys.extend(
        draft
            .networks
            .keys()
            .filter(|key| *key != "default")
            .cloned(),
    );
    keys
}

/// The subnet of a network: the first has the lower half of the instance's part,
/// the others a /27 each of the upper half.
fn address(key: &str, network: &mut Network, placement: &Placement) {
    let (Some(base), Some(number)) = (&placement.subnet, placement.networks.get(key)) else {
        return;
    };
    let Some(octets) = base.split('/').next().and_then(octets) else {
        return;
    };
    let [a, b, c, _] = octets;
    let subnet = match number {
        0 => format!("{a}.{b}.{c}.0/24"),
        number => format!("{a}.{b}.{}.{}/27", c + 1, (number - 1) * 32),
    };
    network.ipam.insert(
        "config".to_owned(),
        serde_json::json!([{ "subnet": subnet }]),
    );
}

fn octets(text: &str) -> Option<[u8; 4]> {
    let parts: Vec<u8> = text
        .split('.')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    parts.try_into().ok()
}

/// How many networks an instance's part of the address range holds.
pub const MAX_NETWORKS: u16 = 9;
