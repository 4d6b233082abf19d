//! A resource's module becomes Compose services.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::addresses;
use super::{Draft, Resolved};
use crate::compose::{Mount, PortMapping, Service};
use crate::diagnostic::Diagnostic;
use crate::module::{Fragment, Module};
use crate::names::ResourceName;
use crate::plan::{After, Delivery, Plan, PlannedResource, PlannedService, Provisioning};
use crate::template::{Context, Prepared};

/// The modules' templates, and what those of each resource see.
pub(super) struct Texts<'a> {
    pub(super) templates: Prepared<'a>,
    pub(super) contexts: BTreeMap<&'a ResourceName, Context>,
}

impl<'a> Texts<'a> {
    pub(super) fn new(draft: &'a Draft) -> Self {
        let context = |(name, resource)| (name, addresses::context(name, resource));
        Self { templates: Prepared::new(files(draft)), contexts: draft.resources.iter().map(context).collect() }
    }
}

/// The longer texts of the modules: those that the short way is not enough for.
fn files(draft: &Draft) -> impl Iterator<Item = &str> {
    let modules: BTreeMap<&str, &Module> =
        draft.resources.values().map(|resource| (resource.module.name.as_str(), &*resource.module)).collect();
    modules.into_values().flat_map(|module| module.files.values()).map(|file| file.content.as_str())
}

pub(super) fn services<'a>(draft: &'a Draft, texts: &Texts<'a>, plan: &mut Plan, faults: &mut Vec<Diagnostic>) {
    for (name, resource) in &draft.resources {
        let Some(context) = texts.contexts.get(name) else { continue };
        let mut maker = Maker { name, resource, templates: &texts.templates, context, faults };
        for (key, fragment) in &resource.module.services {
            let Some(service) = resource.services.get(key) else {
                continue;
            };
            let planned = maker.service(key, service, fragment, plan);
            plan.services.insert(service.clone(), planned);
        }
        plan.resources.insert(
            name.clone(),
            PlannedResource {
                module: resource.module.name.clone(),
                version: resource.version.version.clone(),
                image: resource.version.image.clone(),
                data_format: resource.version.data_format.clone(),
                capability: resource.capability.clone(),
                arrangement: resource.arrangement,
                services: resource.services.values().cloned().collect(),
                provisions: resource.provisions.clone(),
            },
        );
    }
}

struct Maker<'a, 'f> {
    name: &'a ResourceName,
    resource: &'a Resolved,
    templates: &'f Prepared<'a>,
    context: &'f Context,
    faults: &'f mut Vec<Diagnostic>,
}

impl<'a> Maker<'a, '_> {
    fn text(&mut self, template: &'a str) -> String {
        self.render(template, self.context)
    }

    fn render(&mut self, template: &'a str, context: &Context) -> String {
        self.templates.render(template, context).unwrap_or_else(|error| {
            let message = format!("module `{}`: {error}", self.resource.module.name);
            self.faults.push(Diagnostic::error(&["resources", self.name.as_str()], message));
            String::new()
        })
    }

    fn service(&mut self, key: &str, service: &str, fragment: &'a Fragment, plan: &mut Plan) -> PlannedService {
        let mut compose = Service {
            image: Some(self.text(&fragment.image)),
            command: self.words(&fragment.command),
            entrypoint: self.words(&fragment.entrypoint),
            restart: Some("on-failure".to_owned()),
            ..Service::default()
        };
        for (variable, value) in &fragment.environment {
            let value = self.text(value);
            compose.environment.insert(variable.clone(), Some(value));
        }
        for (volume, target) in &fragment.volumes {
            let volume = super::bind::volume_key(service, volume);
            plan.volumes.entry(volume.clone()).or_default();
            let target = self.text(target);
            compose.volumes.push(Mount { kind: "volume".to_owned(), source: Some(volume), target, ..Mount::default() });
        }
        self.ports(key, service, &mut compose, plan);
        self.health(fragment, &mut compose);
        self.plain_keys(fragment, &mut compose);
        let deliveries = self.files(fragment, &mut compose, plan);
        let after = fragment
            .depends_on
            .iter()
            .filter_map(|key| {
                let condition = super::place::ready(self.resource.module.services.get(key));
                let after = After { condition, required: true };
                Some((self.resource.services.get(key)?.clone(), after))
            })
            .collect();
        PlannedService {
            compose,
            after,
            deliveries,
            post_start: Vec::new(),
            pre_stop: Vec::new(),
            provisions: self.provisions(key),
            one_shot: false,
            resource: Some(self.name.clone()),
            replicas: 1,
        }
    }

    fn words(&mut self, templates: &'a [String]) -> Option<Value> {
        if templates.is_empty() {
            return None;
        }
        Some(Value::from(templates.iter().map(|word| self.text(word)).collect::<Vec<_>>()))
    }

    fn ports(&self, key: &str, service: &str, compose: &mut Service, plan: &Plan) {
        for port in self.resource.module.ports.values().filter(|port| port.service == key) {
            let Some(planned) = addresses::port_of(plan, service, port) else { continue };
            compose.ports.push(mapping(planned));
        }
    }

    fn health(&mut self, fragment: &'a Fragment, compose: &mut Service) {
        let Some(health) = &fragment.healthcheck else {
            return;
        };
        let test: Vec<String> = health.test.iter().map(|word| self.text(word)).collect();
        let ms = |ms: u64| format!("{ms}ms");
        let value = json!({
            "test": test,
            "interval": ms(health.interval_ms),
            "timeout": ms(health.timeout_ms),
            "retries": health.retries,
            "start_period": ms(health.start_period_ms),
        });
        compose.healthcheck = value.as_object().cloned();
    }

    fn plain_keys(&mut self, fragment: &'a Fragment, compose: &mut Service) {
        let rest = &mut compose.rest;
        let text = |rest: &mut crate::compose::Object, key: &str, value: &Option<String>| {
            if let Some(value) = value {
                rest.insert(key.to_owned(), Value::from(value.clone()));
            }
        };
        text(rest, "user", &fragment.user);
        text(rest, "working_dir", &fragment.working_dir);
        text(rest, "stop_signal", &fragment.stop_signal);
        if let Some(seconds) = fragment.stop_grace_period {
            rest.insert("stop_grace_period".to_owned(), Value::from(format!("{seconds}s")));
        }
        if let Some(bytes) = fragment.shm_size {
            rest.insert("shm_size".to_owned(), Value::from(bytes.to_string()));
        }
        for (key, flag) in [("read_only", fragment.read_only), ("init", fragment.init)] {
            if flag {
                rest.insert(key.to_owned(), Value::from(true));
            }
        }
        for (key, list) in
            [("tmpfs", &fragment.tmpfs), ("cap_add", &fragment.cap_add), ("cap_drop", &fragment.cap_drop)]
        {
            if !list.is_empty() {
                rest.insert(key.to_owned(), Value::from(list.clone()));
            }
        }
    }

    /// Secret files are delivered; the others stand in the tree at a name made of their content.
    fn files(&mut self, fragment: &'a Fragment, compose: &mut Service, plan: &mut Plan) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        for (name, content) in &fragment.secrets {
            let name = self.text(name);
            let content = self.text(content);
            if content.is_empty() {
                continue;
            }
            deliveries.push(Delivery { path: format!("/run/secrets/{name}"), mode: 0o444, uid: 0, gid: 0, content });
        }
        let resource = self.resource;
        for key in &fragment.files {
            let Some(file) = resource.module.files.get(key) else {
                continue;
            };
            let (path, content) = (self.text(&file.path), self.text(&file.content));
            // A secret has no place in the tree, whatever the module says of its file.
            if file.secret || crate::secret::holds(&content) {
                deliveries.push(Delivery { path, mode: file.mode, uid: 0, gid: 0, content });
                continue;
            }
            let digest = Sha256::digest(content.as_bytes());
            let name = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect::<String>();
            let source = format!("{}/{name}", plan.placement.files);
            plan.files.insert(name, content);
            compose.volumes.push(Mount {
                kind: "bind".to_owned(),
                source: Some(source),
                target: path,
                read_only: true,
                ..Mount::default()
            });
        }
        deliveries
    }

    fn provisions(&mut self, key: &str) -> Vec<Provisioning> {
        let mut all = Vec::new();
        let resource = self.resource;
        for (kind, provision) in resource.module.provisions.iter().filter(|(_, provision)| provision.service == key) {
            for name in resource.provisions.get(kind).into_iter().flatten() {
                let context = self.context.with(json!({ "name": name }));
                all.push(Provisioning {
                    resource: self.name.clone(),
                    kind: kind.clone(),
                    name: name.clone(),
                    command: provision.command.iter().map(|word| self.render(word, &context)).collect(),
                    stdin: provision.stdin.as_ref().map(|text| self.render(text, &context)),
                    user: provision.user.clone(),
                });
            }
        }
        all
    }
}

/// A port as Compose is told.
pub(super) fn mapping(planned: &crate::plan::PlannedPort) -> PortMapping {
    PortMapping {
        target: planned.publish.container_port,
        published: Some(planned.host_port.to_string()),
        host_ip: Some(planned.host_ip.clone()),
        protocol: Some(planned.publish.protocol.to_string()),
        mode: Some("host".to_owned()),
        rest: serde_json::Map::new(),
    }
}
