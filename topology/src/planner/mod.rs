//! The planner: a sequence of pure passes from a stack to a [`Plan`].
//!
//! [`draft`] does what does not depend on the place: it resolves capabilities to
//! engines, settles required characteristics or refuses, and binds consumers to
//! providers. [`place`] does the rest: names, labels, ports, addresses for each
//! vantage, variables. Between the two the runtime leases what the draft says it
//! needs. Every pass adds to one list of faults, so that all are told at once.

mod addresses;
mod bind;
mod client;
mod fragment;
pub mod place;
mod resolve;
pub mod variables;

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::compose::{Network, Project, Service, Volume};
use crate::diagnostic::Diagnostic;
use crate::interpolate::Template;
use crate::isolation::{self, Claims};
use crate::manifest::{IsolationChoices, Manifest};
use crate::module::{Arrangement, EngineVersion, Module};
use crate::names::ResourceName;
use crate::plan::{FileObjects, Layer, Placement, Plan, Publish, Shared};
use crate::revision;

/// What is planned.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The stack.
    pub manifest: &'a Manifest,
    /// The modules to choose from, by name.
    pub modules: &'a BTreeMap<String, Module>,
    /// The compose files' model, with its placeholders.
    pub model: Option<&'a Project>,
    /// Digests of build contexts by service.
    pub builds: &'a BTreeMap<String, String>,
    /// Environment entries of the compose files before interpolation, so that a
    /// user layer reaches the services that interpolate a name.
    pub templates: &'a revision::Templates,
    /// What was interpolated at commit.
    pub interpolation: &'a revision::Interpolation,
    /// Profiles that are on: their services run, beside those without a profile.
    pub profiles: &'a [String],
}

impl<'a> Input<'a> {
    /// A stack of resources alone.
    pub fn new(manifest: &'a Manifest, modules: &'a BTreeMap<String, Module>) -> Self {
        static BUILDS: BTreeMap<String, String> = BTreeMap::new();
        static TEMPLATES: revision::Templates = BTreeMap::new();
        static INTERPOLATION: revision::Interpolation = BTreeMap::new();
        Self {
            manifest,
            modules,
            model: None,
            builds: &BUILDS,
            templates: &TEMPLATES,
            interpolation: &INTERPOLATION,
            profiles: &[],
        }
    }

    /// A revision, with its own modules parsed and its model typed
    /// ([`revision::Content::project`]).
    pub fn of(
        content: &'a revision::Content,
        modules: &'a BTreeMap<String, Module>,
        model: Option<&'a Project>,
    ) -> Self {
        Self {
            model,
            builds: &content.builds,
            templates: &content.templates,
            interpolation: &content.interpolation,
            profiles: &content.profiles,
            ..Self::new(&content.manifest, modules)
        }
    }
}

/// A stack, resolved, without a place.
#[derive(Debug, Clone)]
pub struct Draft {
    /// Its resources.
    pub resources: BTreeMap<ResourceName, Resolved>,
    /// Services of the compose files, isolated as far as no place is needed.
    pub services: BTreeMap<String, Foreign>,
    /// Networks by key.
    pub networks: BTreeMap<String, Network>,
    /// Volumes by key.
    pub volumes: BTreeMap<String, Volume>,
    /// Secrets and configs that Compose mounts from files.
    pub file_objects: FileObjects,
    /// What must be published.
    pub publishes: Vec<Publish>,
    /// Which rule of isolation changed what.
    pub claims: Claims,
    /// What every copy would share.
    pub shared: Vec<Shared>,
    /// Files of the checkout that are mounted writable, as the files name them, and by which services: two instances in
    /// one folder write the same.
    pub written: BTreeMap<String, BTreeSet<String>>,
    /// Volumes that begin with a copy: by key, the real name of what is copied.
    pub copies: BTreeMap<String, String>,
    /// Real names that networks have in the files, with their keys.
    pub renamed: BTreeMap<String, String>,
    /// What a person chose.
    pub choices: IsolationChoices,
    /// Which service gets which resources.
    pub bindings: BTreeMap<String, Vec<ResourceName>>,
    /// Which service asked for which variables by name.
    pub wanted: BTreeMap<String, Vec<String>>,
    /// The manifest's own variables.
    pub env: BTreeMap<String, String>,
    /// Environment entries before interpolation, parsed, by service and variable.
    pub templates: BTreeMap<String, BTreeMap<String, Template>>,
    /// What was interpolated at commit.
    pub interpolation: revision::Interpolation,
}

/// A service that came from a compose file.
#[derive(Debug, Clone)]
pub struct Foreign {
    /// What Compose will be told, before the place is known.
    pub compose: Service,
    /// The order.
    pub after: BTreeMap<String, crate::plan::After>,
    /// Secrets and configs that Compose would copy in.
    pub deliveries: Vec<crate::plan::Delivery>,
    /// Commands after start.
    pub post_start: Vec<crate::plan::Hook>,
    /// Commands before stop.
    pub pre_stop: Vec<crate::plan::Hook>,
    /// It stood in the host's network.
    pub from_host: bool,
    /// The digest of its build context.
    pub build: Option<String>,
}

/// A resource, resolved to an engine.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The module, shared by all resources of its kind.
    pub module: Arc<Module>,
    /// The version.
    pub version: EngineVersion,
    /// What it was asked for.
    pub capability: String,
    /// The arrangement.
    pub arrangement: Arrangement,
    /// All settings, defaults included.
    pub settings: BTreeMap<String, Value>,
    /// All credentials, defaults included; perhaps tokens.
    pub credentials: BTreeMap<String, String>,
    /// Names by kind.
    pub provisions: BTreeMap<String, Vec<String>>,
    /// Compose service names by the module's keys.
    pub services: BTreeMap<String, String>,
    /// Whether it owns the conventional names of its kind.
    pub conventional: bool,
}

impl Draft {
    /// The names of the modules it uses.
    pub fn modules(&self) -> impl Iterator<Item = &str> {
        self.resources.values().map(|resource| resource.module.name.as_str())
    }

    /// Files of the checkout that are mounted, as the model has their paths.
    pub fn mounted_files(&self) -> impl Iterator<Item = &str> {
        let objects = self.file_objects.secrets.values().chain(self.file_objects.configs.values());
        let objects = objects.filter_map(|object| object.file.as_deref());
        let mounts = self.services.values().flat_map(|foreign| &foreign.compose.volumes);
        let binds = mounts.filter(|mount| mount.kind == "bind").filter_map(|mount| mount.source.as_deref());
        objects.chain(binds).filter(|path| path.starts_with(crate::placeholder::CHECKOUT))
    }

    /// Every service name it will have.
    pub fn service_names(&self) -> impl Iterator<Item = &str> {
        let own = self.resources.values().flat_map(|resource| resource.services.values());
        self.services.keys().chain(own).map(String::as_str)
    }
}

/// The passes that need no place.
pub fn draft(input: Input<'_>) -> (Draft, Vec<Diagnostic>) {
    let mut faults = Vec::new();
    let resources = resolve::resources(input, &mut faults);
    let isolated = input
        .model
        .map(|model| isolation::isolate(model, input.builds, input.profiles, &input.manifest.isolation, &mut faults))
        .unwrap_or_default();
    let mut draft = Draft {
        resources,
        services: isolated.services,
        networks: isolated.networks,
        volumes: isolated.volumes,
        file_objects: isolated.file_objects,
        publishes: isolated.publishes,
        claims: isolated.claims,
        shared: isolated.shared,
        written: isolated.written,
        copies: isolated.copies,
        renamed: isolated.renamed,
        choices: input.manifest.isolation.clone(),
        bindings: BTreeMap::new(),
        wanted: BTreeMap::new(),
        env: input.manifest.env.clone(),
        templates: variables::templates(input, &mut faults),
        interpolation: input.interpolation.clone(),
    };
    bind::clashes(&draft, &mut faults);
    bind::volume_clashes(&draft, &mut faults);
    bind::bindings(input.manifest, &mut draft, &mut faults);
    variables::own_keys(&draft, &mut faults);
    addresses::publishes(&mut draft, &mut faults);
    place::unreachable(&draft, &mut faults);
    (draft, faults)
}

/// The passes that need a place, and the layers of variables from outside.
pub fn place(draft: &Draft, placement: &Placement, layers: &[Layer]) -> (Plan, Vec<Diagnostic>) {
    let mut faults = Vec::new();
    let mut plan = place::skeleton(draft, placement, &mut faults);
    addresses::assign(draft, &mut plan, &mut faults);
    let texts = fragment::Texts::new(draft);
    fragment::services(draft, &texts, &mut plan, &mut faults);
    place::join(draft, &mut plan);
    isolation::place(draft, &mut plan, &mut faults);
    variables::settle(draft, &texts, &mut plan, layers, &mut faults);
    place::finish(draft, &mut plan);
    variables::exposed(&mut plan);
    if let Err(cycle) = crate::order::order(&plan) {
        faults.push(cycle);
    }
    (plan, faults)
}
