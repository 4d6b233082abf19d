//! Names, labels and subnets: what makes an instance its own.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::{Draft, Foreign};
use crate::compose::Condition;
use crate::diagnostic::Diagnostic;
use crate::isolation::Claims;
use crate::placeholder;
use crate::plan::{After, Hook, Placement, Plan, PlannedService};
use crate::revision::{canonical, hex};

/// The label that says which store owns an object.
pub const INSTALL_LABEL: &str = "dev.sidestack.install";
/// The label that says which instance an object belongs to.
pub const INSTANCE_LABEL: &str = "dev.sidestack.instance-id";

/// The label that names the external networks and volumes of a container. Compose compares services by the keys of
/// what they use, so a container would stay where it is when its key means another object from now on.
const EXTERNAL_LABEL: &str = "dev.sidestack.external";

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

/// Fills in what a revision leaves open.
struct Local<'a> {
    project: &'a str,
    checkout: &'a str,
    faults: &'a mut Vec<Diagnostic>,
}

impl Local<'_> {
    fn edit(&self, text: &mut String) {
        // Nearly no text holds one, and the look is one byte wide.
        if placeholder::forged(text) {
            *text = self.text(text);
        }
    }

    fn text(&self, text: &str) -> String {
        text.replace(placeholder::PROJECT, self.project).replace(placeholder::CHECKOUT, self.checkout)
    }

    /// A part of the model; the detour over JSON is made only where something is open.
    fn part<T: Serialize + DeserializeOwned + Clone>(&mut self, part: &T, path: &[&str]) -> T {
        if !crate::secret::marked(part) {
            return part.clone();
        }
        let filled = serde_json::to_value(part).and_then(|mut value| {
            placeholder::fill(&mut value, self.project, self.checkout);
            serde_json::from_value(value)
        });
        filled.unwrap_or_else(|error| {
            let message = format!("`{}` cannot be placed: {error}", path.join("."));
            self.faults.push(Diagnostic::error(path, message));
            part.clone()
        })
    }

    fn parts<T: Serialize + DeserializeOwned + Clone>(
        &mut self,
        kind: &str,
        parts: &BTreeMap<String, T>,
    ) -> BTreeMap<String, T> {
        parts.iter().map(|(key, part)| (key.clone(), self.part(part, &[kind, key]))).collect()
    }

    fn hook(&self, hook: &Hook) -> Hook {
        let texts = |texts: &[String]| texts.iter().map(|text| self.text(text)).collect();
        Hook {
            command: texts(&hook.command),
            environment: texts(&hook.environment),
            working_dir: hook.working_dir.as_deref().map(|text| self.text(text)),
            user: hook.user.clone(),
        }
    }
}

/// The plan with everything that comes from compose files.
pub(super) fn skeleton(draft: &Draft, placement: &Placement, faults: &mut Vec<Diagnostic>) -> Plan {
    let project = placement.target.project();
    let mut claims = draft.claims.clone();
    let mut objects = draft.file_objects.clone();
    for (kind, objects) in [("secrets", &mut objects.secrets), ("configs", &mut objects.configs)] {
        for (key, object) in objects {
            borrow(object.file.as_mut(), placement, &[kind, key, "file"], &mut claims);
        }
    }
    let mut local = Local { project: &project, checkout: &placement.checkout, faults };
    let mut plan = Plan {
        placement: placement.clone(),
        project: project.clone(),
        services: BTreeMap::new(),
        networks: local.parts("networks", &draft.networks),
        volumes: local.parts("volumes", &draft.volumes),
        file_objects: crate::plan::FileObjects {
            secrets: local.parts("secrets", &objects.secrets),
            configs: local.parts("configs", &objects.configs),
        },
        resources: BTreeMap::new(),
        ports: Vec::new(),
        files: BTreeMap::new(),
        claims,
        rewritten: BTreeMap::new(),
        shared: draft.shared.clone(),
        copies: draft.copies.clone(),
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
        let mut compose = foreign.compose.clone();
        for (at, mount) in compose.volumes.iter_mut().enumerate().filter(|(_, mount)| mount.kind == "bind") {
            let at = at.to_string();
            borrow(mount.source.as_mut(), placement, &["services", name, "volumes", &at, "source"], &mut plan.claims);
        }
        compose.edit_texts(&|text| local.edit(text));
        let deliveries = foreign
            .deliveries
            .iter()
            .map(|delivery| crate::plan::Delivery { content: local.text(&delivery.content), ..delivery.clone() });
        let planned = PlannedService {
            deliveries: deliveries.collect(),
            post_start: foreign.post_start.iter().map(|hook| local.hook(hook)).collect(),
            pre_stop: foreign.pre_stop.iter().map(|hook| local.hook(hook)).collect(),
            replicas: compose.replicas(),
            compose,
            after: foreign.after.clone(),
            provisions: Vec::new(),
            one_shot: awaited.contains(name),
            resource: None,
        };
        plan.services.insert(name.clone(), planned);
    }
    image_tags(draft, &mut plan);
    plan
}

/// The path of a file that is not in the checkout, but in the main worktree.
fn borrow(path: Option<&mut String>, placement: &Placement, pointer: &[&str], claims: &mut Claims) {
    if let Some(path) = path
        && let Some(there) = placement.borrowed.get(path)
    {
        path.clone_from(there);
        claims.at(pointer, "main-worktree", "git does not track it, and this worktree does not have it");
    }
}

/// One tag per content of what is built: copies of one context share the build,
/// and no copy overwrites another's. Services that name a built image follow.
fn image_tags(draft: &Draft, plan: &mut Plan) {
    const REASON: &str = "one name would be written by every copy";
    let mut renamed: BTreeMap<String, String> = BTreeMap::new();
    for (name, foreign) in &draft.services {
        let tag = build_tag(name, foreign, plan);
        let Some(service) = plan.services.get_mut(name) else {
            continue;
        };
        let Some(build) = &mut service.compose.build else {
            continue;
        };
        // Further names are written like the first.
        build.remove("tags");
        let own = service.compose.image.take();
        service.compose.pull_policy = None;
        plan.claims.at(&["services", name, "build", "tags"], "image-tag", REASON);
        plan.claims.at(&["services", name, "image"], "image-tag", REASON);
        plan.claims.at(&["services", name, "pull_policy"], "image-tag", "it is built, never pulled");
        if let Some(own) = own {
            let to = tag.clone().unwrap_or_else(|| format!("{}-{name}", plan.project));
            renamed.entry(own).or_insert(to);
        }
        // Without a digest the name is left to Compose, which makes it the project's own.
        service.compose.image = tag;
    }
    for (name, service) in plan.services.iter_mut().filter(|(_, service)| service.compose.build.is_none()) {
        let Some(from) = &service.compose.image else {
            continue;
        };
        let Some(to) = renamed.get(from) else {
            continue;
        };
        let reason = "another service of the stack builds it";
        plan.claims.at(&["services", name, "image"], "image-tag", reason);
        plan.claims.at(&["services", name, "pull_policy"], "image-tag", reason);
        service.compose.image = Some(to.clone());
        // Compose looks for it in a registry unless told that it is made here.
        service.compose.pull_policy = Some("never".to_owned());
    }
}

/// The name of what a service builds; it covers the context, the arguments and
/// everything else that `build` says, but not where the checkout stands.
fn build_tag(name: &str, foreign: &Foreign, plan: &Plan) -> Option<String> {
    let context = foreign.build.as_ref()?;
    let build = foreign.compose.build.clone()?;
    let mut build = serde_json::Value::Object(build);
    placeholder::fill(&mut build, &plan.project, placeholder::CHECKOUT);
    let digest = hex(&Sha256::digest(format!("{context}\n{}", canonical(&build))));
    let (workspace, service) = (&plan.placement.target.workspace, crate::names::dns_label(name));
    Some(format!("sidestack-{workspace}_{service}:{}", &digest[..16]))
}

/// The order and the networks of all services, now that those of the resources are known.
pub(super) fn join(draft: &Draft, plan: &mut Plan) {
    wait_for_resources(draft, plan);
    join_networks(draft, plan);
}

/// Ports, names and labels.
pub(super) fn finish(draft: &Draft, plan: &mut Plan) {
    ports(draft, plan);
    let labels = labels(&plan.placement);
    let (project, generation) = (plan.project.clone(), plan.placement.generation);
    let claims = &mut plan.claims;
    let mut own = |kind: &str, name: &str| {
        for label in labels.keys() {
            claims.at(&[kind, name, "labels", label], "label", "it says to which instance this belongs");
        }
    };
    for (name, service) in &mut plan.services {
        service.compose.labels.extend(labels.clone());
        if service.resource.is_none() {
            own("services", name);
        }
    }
    for (name, external) in external(plan) {
        plan.claims.at(&["services", &name, "labels", EXTERNAL_LABEL], "label", "it says what it uses of others");
        let Some(service) = plan.services.get_mut(&name) else { continue };
        service.compose.labels.insert(EXTERNAL_LABEL.to_owned(), external);
    }
    let claims = &mut plan.claims;
    let mut own = |kind: &str, name: &str| {
        for label in labels.keys() {
            claims.at(&[kind, name, "labels", label], "label", "it says to which instance this belongs");
        }
    };
    for (key, network) in plan.networks.iter_mut().filter(|(_, network)| !network.external) {
        network.name = Some(format!("{project}_{key}"));
        network.labels.extend(labels.clone());
        own("networks", key);
    }
    for (key, volume) in plan.volumes.iter_mut().filter(|(_, volume)| !volume.external) {
        volume.name = Some(volume_name(&project, key, generation));
        volume.labels.extend(labels.clone());
        own("volumes", key);
    }
}

/// The external networks and volumes of each service that has some, as text.
fn external(plan: &Plan) -> BTreeMap<String, String> {
    let networks = plan.networks.iter().filter(|(_, network)| network.external);
    let networks: BTreeMap<&str, &str> =
        networks.map(|(key, network)| (key.as_str(), network.name.as_deref().unwrap_or(key))).collect();
    let volumes = plan.volumes.iter().filter(|(_, volume)| volume.external);
    let volumes: BTreeMap<&str, &str> =
        volumes.map(|(key, volume)| (key.as_str(), volume.name.as_deref().unwrap_or(key))).collect();
    let mut found = BTreeMap::new();
    for (name, service) in &plan.services {
        let joined = service.compose.networks.keys().filter_map(|key| networks.get(key.as_str()));
        let mounts = service.compose.volumes.iter().filter(|mount| mount.kind == "volume");
        let mounted = mounts.filter_map(|mount| volumes.get(mount.source.as_deref()?));
        let texts: BTreeSet<String> =
            joined.map(|name| format!("network:{name}")).chain(mounted.map(|name| format!("volume:{name}"))).collect();
        if !texts.is_empty() {
            found.insert(name.clone(), texts.into_iter().collect::<Vec<_>>().join(" "));
        }
    }
    found
}

/// Each mapping of the files gets its lease: a range for several containers, the file's own port beside it.
fn ports(draft: &Draft, plan: &mut Plan) {
    for planned in &plan.ports {
        let publish = &planned.publish;
        if !draft.services.contains_key(&publish.service) {
            continue;
        }
        let Some(service) = plan.services.get_mut(&publish.service) else { continue };
        let Some(mapping) = service.compose.ports.get_mut(publish.at) else { continue };
        mapping.published = Some(planned.published());
        mapping.host_ip = Some(planned.host_ip.clone());
        if let Some(own) = planned.own {
            let mapping = crate::compose::PortMapping { published: Some(own.to_string()), ..mapping.clone() };
            let at = service.compose.ports.len().to_string();
            let reason = "it is free, so that addresses written down elsewhere hold";
            plan.claims.at(&["services", &publish.service, "ports", &at], "own-port", reason);
            service.compose.ports.push(mapping);
        }
    }
}

/// A volume's real name. A fresh start beside kept data counts up; the count
/// stands where no key can reach, so that a key `data-g2` is not data's second.
fn volume_name(project: &str, key: &str, generation: u32) -> String {
    match generation {
        0 | 1 => format!("{project}_{key}"),
        later => format!("{project}.g{later}_{key}"),
    }
}

/// Who is given a resource starts when it is ready.
fn wait_for_resources(draft: &Draft, plan: &mut Plan) {
    for (consumer, resources) in &draft.bindings {
        for resource in resources.iter().filter_map(|name| draft.resources.get(name)) {
            for (key, service) in &resource.services {
                let condition = ready(resource.module.services.get(key));
                if let Some(consumer) = plan.services.get_mut(consumer) {
                    consumer.after.insert(service.clone(), After { condition, required: true });
                }
            }
        }
    }
}

/// What tells that a module's service is ready: its health, when it has some.
pub(super) fn ready(fragment: Option<&crate::module::Fragment>) -> Condition {
    match fragment.and_then(|fragment| fragment.healthcheck.as_ref()) {
        Some(_) => Condition::Healthy,
        None => Condition::Started,
    }
}

/// The networks a service of the compose files stands in: its own, or those of
/// the service whose network it shares.
fn networks_of(draft: &Draft, name: &str) -> BTreeSet<String> {
    let mut name = name;
    for _ in 0..=draft.services.len() {
        let Some(foreign) = draft.services.get(name) else {
            break;
        };
        match foreign.compose.network_of() {
            Some(other) => name = other,
            None if foreign.compose.network_mode.is_some() => break,
            None if foreign.compose.networks.is_empty() => {
                return BTreeSet::from(["default".to_owned()]);
            }
            None => return foreign.compose.networks.keys().cloned().collect(),
        }
    }
    BTreeSet::new()
}

/// A resource stands in every network in which somebody uses it, and in the default one.
fn joins(draft: &Draft) -> BTreeMap<String, BTreeSet<String>> {
    let mut joins: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for resource in draft.resources.values() {
        for service in resource.services.values() {
            joins.entry(service.clone()).or_default().insert("default".to_owned());
        }
    }
    for (consumer, resources) in &draft.bindings {
        let networks = networks_of(draft, consumer);
        for resource in resources.iter().filter_map(|name| draft.resources.get(name)) {
            for service in resource.services.values() {
                joins.entry(service.clone()).or_default().extend(networks.iter().cloned());
            }
        }
    }
    joins
}

fn join_networks(draft: &Draft, plan: &mut Plan) {
    let joins = joins(draft);
    let mut needs_default = false;
    for (name, service) in &mut plan.services {
        let compose = &mut service.compose;
        if let (Some(networks), Some(_)) = (joins.get(name), &service.resource) {
            compose.networks = networks.iter().map(|network| (network.clone(), None)).collect();
        } else if compose.networks.is_empty() && compose.network_mode.is_none() {
            compose.networks.insert("default".to_owned(), None);
            plan.claims.at(&["services", name, "networks"], "default-network", "Compose would join it too");
        }
        needs_default |= compose.networks.contains_key("default");
    }
    if needs_default {
        plan.networks.entry("default".to_owned()).or_default();
        plan.claims.at(&["networks", "default"], "default-network", "Compose would make it too");
    }
}

/// What the order of things cannot mend: ports nobody can reach, and resources
/// that the service they are for cannot.
pub(super) fn unreachable(draft: &Draft, faults: &mut Vec<Diagnostic>) {
    let internal = |network: &String| {
        let network = draft.networks.get(network).map(|network| &network.rest);
        network.and_then(|rest| rest.get("internal")).and_then(serde_json::Value::as_bool) == Some(true)
    };
    let joins = joins(draft);
    let mut told = BTreeSet::new();
    for publish in &draft.publishes {
        let service = &publish.service;
        let networks = joins.get(service).cloned().unwrap_or_else(|| networks_of(draft, service));
        if !networks.is_empty() && networks.iter().all(internal) && told.insert(service) {
            let message =
                format!("`{service}` publishes ports, but stands in internal networks only: the host cannot reach it");
            let fault = Diagnostic::warning(&["services", service, "ports"], message);
            faults.push(fault.hint("let it join a network that is not internal"));
        }
    }
    for consumer in draft.bindings.keys().filter(|consumer| networks_of(draft, consumer).is_empty()) {
        let message = format!("`{consumer}` has no network, so it cannot reach what is injected");
        let fault = Diagnostic::error(&["inject", consumer], message);
        faults.push(fault.hint("drop its `network_mode`"));
    }
}

/// Every network key the plan of a draft will have, for the numbers to be kept. The first number has the most room, so
/// that networks with many fixed addresses come first.
pub fn network_keys(draft: &Draft) -> Vec<String> {
    let fixed = |key: &str| {
        let joined = draft.services.values().filter_map(|foreign| foreign.compose.networks.get(key)?.as_ref());
        joined.filter(|joined| joined.contains_key("ipv4_address")).count()
    };
    let mut keys: Vec<(usize, &str)> = draft.networks.keys().map(|key| (fixed(key), key.as_str())).collect();
    if !draft.networks.contains_key("default") {
        keys.push((fixed("default"), "default"));
    }
    keys.sort_by_key(|(fixed, key)| (std::cmp::Reverse(*fixed), *key != "default", *key));
    keys.into_iter().map(|(_, key)| key.to_owned()).collect()
}

/// How many networks an instance can have. Docker's own pools hold fewer, unless subnets are given.
pub const MAX_NETWORKS: u16 = 64;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fixtures::{manifest, modules, placement};
    use super::super::{Input, draft, place};
    use crate::compose::Project;
    use crate::isolation;
    use crate::placeholder::CHECKOUT;

    #[test]
    fn files_that_are_elsewhere_are_mounted_from_there_and_reported() {
        let at = |name: &str| format!("{CHECKOUT}/{name}");
        let model: Project = serde_json::from_value(json!({
            "services": {"web": {
                "image": "w",
                "volumes": [
                    {"type": "volume", "source": "data", "target": "/data"},
                    {"type": "bind", "source": at("cert.pem"), "target": "/cert.pem"},
                    {"type": "bind", "source": at("src"), "target": "/src"}
                ],
                "secrets": [{"source": "s"}],
                "configs": [{"source": "c"}],
                "environment": {"CERT": at("cert.pem")}
            }},
            "volumes": {"data": {}},
            "secrets": {"s": {"file": at("s.txt")}},
            "configs": {"c": {"file": at("c.conf")}}
        }))
        .unwrap();
        let (manifest, modules) = (manifest(""), modules());
        let (draft, _) = draft(Input { model: Some(&model), ..Input::new(&manifest, &modules) });
        let mut files: Vec<&str> = draft.mounted_files().collect();
        files.sort_unstable();
        assert_eq!(files, [at("c.conf"), at("cert.pem"), at("s.txt"), at("src")]);
        let mut placement = placement("shop/dev/x", 3, &draft);
        let borrowed = ["cert.pem", "s.txt", "c.conf"].map(|name| (at(name), format!("/main/{name}")));
        placement.borrowed = borrowed.into();
        let (plan, faults) = place(&draft, &placement, &[]);
        assert!(faults.is_empty(), "{faults:?}");
        let web = &plan.services["web"].compose;
        let sources: Vec<&str> = web.volumes.iter().filter_map(|mount| mount.source.as_deref()).collect();
        assert_eq!(sources, ["data", "/main/cert.pem", "/src/shop/src"]);
        assert_eq!(plan.file_objects.secrets["s"].file.as_deref(), Some("/main/s.txt"));
        assert_eq!(plan.file_objects.configs["c"].file.as_deref(), Some("/main/c.conf"));
        // A value is no file that is mounted.
        assert_eq!(web.environment["CERT"].as_deref(), Some("/src/shop/cert.pem"));
        let told: Vec<(String, String)> = isolation::report(&model, &plan)
            .into_iter()
            .filter(|change| change.rule == "main-worktree")
            .map(|change| (change.path, change.to.as_str().unwrap_or_default().to_owned()))
            .collect();
        let expected = [
            ("/configs/c/file", "/main/c.conf"),
            ("/secrets/s/file", "/main/s.txt"),
            ("/services/web/volumes/1/source", "/main/cert.pem"),
        ];
        assert_eq!(told, expected.map(|(path, to)| (path.to_owned(), to.to_owned())));
    }
}
