//! Capabilities become engines; required characteristics are met or refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::{Input, Resolved};
use crate::diagnostic::{Diagnostic, nearest};
use crate::manifest::Request;
use crate::module::{Arrangement, Characteristic, EngineVersion, Module, Setting};
use crate::names::ResourceName;
use crate::pattern::Pattern;
use crate::template::{Context, Templates};
use crate::units;

pub(super) fn resources(input: Input<'_>, faults: &mut Vec<Diagnostic>) -> BTreeMap<ResourceName, Resolved> {
    // Resources of one kind share its module; modules nobody could mean are not copied.
    let meant = |module: &Module| {
        input.manifest.resources.values().any(|request| match &request.engine {
            Some(engine) => engine.split('@').next() == Some(module.name.as_str()),
            None => request.capability.as_ref().is_some_and(|is| module.provides.contains(is)),
        })
    };
    let shared: BTreeMap<&str, Arc<Module>> = input
        .modules
        .iter()
        .filter(|(_, module)| meant(module))
        .map(|(name, module)| (name.as_str(), Arc::new(module.clone())))
        .collect();
    let templates = Templates::default();
    let mut resolved = BTreeMap::new();
    for (name, request) in &input.manifest.resources {
        let before = faults.len();
        let found = engine(input.modules, &shared, &templates, name, request, faults);
        if let Some((module, version, capability)) = found {
            let resource = settle(&templates, name, request, module, version, capability, faults);
            if faults.len() == before {
                resolved.insert(name.clone(), resource);
            }
        }
    }
    conventional(&mut resolved, &input.manifest.resources, faults);
    resolved
}

/// The module and the version for a request.
fn engine<'a>(
    modules: &BTreeMap<String, Module>,
    shared: &'a BTreeMap<&str, Arc<Module>>,
    templates: &Templates,
    name: &ResourceName,
    request: &Request,
    faults: &mut Vec<Diagnostic>,
) -> Option<(&'a Arc<Module>, EngineVersion, String)> {
    let at = ["resources", name.as_str(), "engine"];
    let Some(wanted) = &request.engine else {
        return by_capability(modules, shared, templates, name, request, faults);
    };
    let (engine, version) = match wanted.split_once('@') {
        Some((engine, version)) => (engine, Some(version)),
        None => (wanted.as_str(), None),
    };
    let Some(module) = shared.get(engine) else {
        let fault = Diagnostic::error(&at, format!("no module is called `{engine}`"));
        faults.push(match nearest(engine, modules.keys().map(String::as_str)) {
            Some(near) => fault.hint(format!("did you mean `{near}`? `sidestack catalog` lists them")),
            None => fault.hint("`sidestack catalog` lists them; a stack's own go to sidestack/modules/"),
        });
        return None;
    };
    let chosen = version_of(module, version, &at, faults)?;
    let capability = match &request.capability {
        Some(capability) if !module.provides.contains(capability) => {
            let provides = module.provides.join(", ");
            let at = ["resources", name.as_str(), "is"];
            faults.push(
                Diagnostic::error(&at, format!("`{engine}` does not provide `{capability}`"))
                    .hint(format!("it provides {provides}")),
            );
            return None;
        }
        Some(capability) => capability.clone(),
        None => module.provides.first().cloned().unwrap_or_default(),
    };
    Some((module, chosen, capability))
}

fn version_of(
    module: &Module,
    version: Option<&str>,
    at: &[&str],
    faults: &mut Vec<Diagnostic>,
) -> Option<EngineVersion> {
    let found = match version {
        None => module.versions.first(),
        Some(version) => module.versions.iter().find(|known| known.version == version),
    };
    if found.is_none() {
        let known = module.versions.iter().map(|v| v.version.as_str()).collect::<Vec<_>>().join(", ");
        let version = version.unwrap_or_default();
        faults.push(
            Diagnostic::error(at, format!("module `{}` has no version `{version}`", module.name))
                .hint(format!("it has {known}")),
        );
    }
    found.cloned()
}

/// The preferred engine that can do everything that is required.
fn by_capability<'a>(
    modules: &BTreeMap<String, Module>,
    shared: &'a BTreeMap<&str, Arc<Module>>,
    templates: &Templates,
    name: &ResourceName,
    request: &Request,
    faults: &mut Vec<Diagnostic>,
) -> Option<(&'a Arc<Module>, EngineVersion, String)> {
    let capability = request.capability.as_deref()?;
    let at = ["resources", name.as_str(), "is"];
    let mut providers: Vec<&Arc<Module>> =
        shared.values().filter(|module| module.provides.iter().any(|c| c == capability)).collect();
    providers.sort_by_key(|module| (std::cmp::Reverse(module.preference), module.name.clone()));
    if providers.is_empty() {
        let known: BTreeSet<&str> = modules.values().flat_map(|m| m.provides.iter().map(String::as_str)).collect();
        let fault = Diagnostic::error(&at, format!("nothing in the catalogue provides `{capability}`"));
        faults.push(match nearest(capability, known.iter().copied()) {
            Some(near) => fault.hint(format!("did you mean `{near}`?")),
            None => fault.hint(format!("known are {}", known.into_iter().collect::<Vec<_>>().join(", "))),
        });
        return None;
    }
    // The reasons against each are kept, so that a refusal explains itself.
    let mut reasons = Vec::new();
    for module in providers {
        let mut against = Vec::new();
        if let Some(version) = module.versions.first() {
            settle(templates, name, request, module, version.clone(), capability.to_owned(), &mut against);
            if against.is_empty() {
                return Some((module, version.clone(), capability.to_owned()));
            }
        }
        let reason = against.first().map_or_else(|| "it has no version".to_owned(), |d| d.message.clone());
        reasons.push((module.name.clone(), reason, against));
    }
    if let [(_, _, against)] = reasons.as_mut_slice() {
        faults.append(against);
        return None;
    }
    let listed = reasons.iter().map(|(module, reason, _)| format!("{module}: {reason}")).collect::<Vec<_>>();
    faults.push(
        Diagnostic::error(&["resources", name.as_str()], format!("no engine can be `{name}` as it is asked for"))
            .hint(listed.join("; ")),
    );
    None
}

/// Settings, credentials, provisions and characteristics of a request, checked.
fn settle(
    templates: &Templates,
    name: &ResourceName,
    request: &Request,
    module: &Arc<Module>,
    version: EngineVersion,
    capability: String,
    faults: &mut Vec<Diagnostic>,
) -> Resolved {
    let base = ["resources", name.as_str()];
    let arrangement = request.arrangement.unwrap_or(Arrangement::Single);
    if !module.arrangements.contains(&arrangement) {
        let known = module.arrangements.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        faults.push(
            Diagnostic::error(
                &[base[0], base[1], "arrangement"],
                format!("`{}` cannot be arranged as `{arrangement}`", module.name),
            )
            .hint(format!("it supports {known}")),
        );
    }
    let mut provisions = BTreeMap::new();
    for (key, value) in &request.rest {
        let path = [base[0], base[1], key.as_str()];
        if let Some(provision) = module.provisions.get(key) {
            let names = names_of(value, provision.pattern.as_deref(), &path, faults);
            provisions.insert(key.clone(), names);
        } else if let Some(characteristic) = module.characteristics.get(key) {
            characteristic_met(&module.name, key, value, characteristic, &path, faults);
        } else {
            let known: Vec<&str> = ["is", "engine", "arrangement", "default", "settings", "credentials"]
                .into_iter()
                .chain(module.provisions.keys().map(String::as_str))
                .chain(module.characteristics.keys().map(String::as_str))
                .collect();
            let fault = Diagnostic::error(&path, format!("`{}` knows nothing of `{key}`", module.name));
            faults.push(match nearest(key, known.iter().copied()) {
                Some(near) => fault.hint(format!("did you mean `{near}`?")),
                None if module.settings.contains_key(key) => {
                    fault.hint(format!("write it under `settings: {{{key}: …}}`"))
                }
                None => fault.hint(format!("it knows {}", known.join(", "))),
            });
        }
    }
    for (kind, provision) in &module.provisions {
        provisions.entry(kind.clone()).or_insert_with(|| {
            let context = Context::new(serde_json::json!({ "resource": name.as_str() }));
            let render = |text: &String| {
                templates.render(text, &context).map_err(|error| {
                    let message = format!("module `{}`, provision `{kind}`: {error}", module.name);
                    faults.push(Diagnostic::error(&base, message));
                })
            };
            provision.default.iter().flat_map(render).collect()
        });
    }
    let credentials = credentials(module, request, &base, faults);
    let settings = settings(module, request, &base, faults);
    let services = module
        .services
        .keys()
        .map(|key| (key.clone(), if key == "main" { name.to_string() } else { format!("{name}-{key}") }))
        .collect();
    Resolved {
        module: Arc::clone(module),
        version,
        capability,
        arrangement,
        settings,
        credentials,
        provisions,
        services,
        conventional: false,
    }
}

fn names_of(value: &Value, pattern: Option<&str>, path: &[&str], faults: &mut Vec<Diagnostic>) -> Vec<String> {
    let items: Vec<&Value> = match value {
        Value::Array(items) => items.iter().collect(),
        other => vec![other],
    };
    let mut names: Vec<String> = Vec::new();
    for (at, item) in items.into_iter().enumerate() {
        let at = at.to_string();
        let path = [path, &[at.as_str()]].concat();
        match item {
            Value::String(name) if names.contains(name) => {
                faults.push(Diagnostic::error(&path, format!("`{name}` is named twice")));
            }
            Value::String(name) => {
                let bad = name.is_empty() || name.len() > 63 || name.chars().any(char::is_control);
                let bad =
                    bad || pattern.is_some_and(|pattern| !pattern.parse::<Pattern>().is_ok_and(|p| p.matches(name)));
                if bad {
                    let rule =
                        pattern.map_or_else(|| "1 to 63 characters, no control characters".to_owned(), str::to_owned);
                    faults.push(
                        Diagnostic::error(&path, format!("`{name}` is no valid name here"))
                            .hint(format!("it must be {rule}")),
                    );
                }
                names.push(name.clone());
            }
            _ => faults.push(Diagnostic::error(&path, format!("`{}` is a list of names", path.join(".")))),
        }
    }
    if names.is_empty() {
        faults.push(Diagnostic::error(path, format!("`{}` names nothing", path.join("."))));
    }
    names
}

fn characteristic_met(
    module: &str,
    key: &str,
    value: &Value,
    characteristic: &Characteristic,
    path: &[&str],
    faults: &mut Vec<Diagnostic>,
) {
    match (characteristic, value) {
        (Characteristic::Is(is), Value::Bool(wanted)) => {
            if *wanted && !is {
                faults.push(
                    Diagnostic::error(path, format!("`{module}` is not `{key}`, which is required"))
                        .hint("choose another engine, or drop the requirement"),
                );
            }
        }
        (Characteristic::Is(_), other) => {
            faults.push(Diagnostic::error(path, format!("`{key}` is true or false, not `{other}`")));
        }
        (Characteristic::AtMost(most), value) => {
            let wanted = match value {
                Value::Number(number) => number.as_u64(),
                Value::String(text) => units::parse_size(text),
                _ => None,
            };
            match wanted {
                None => faults.push(
                    Diagnostic::error(path, format!("`{value}` is no size or number"))
                        .hint("write it as 2GiB, 512MiB or a number"),
                ),
                Some(wanted) if wanted > *most => faults.push(
                    Diagnostic::error(path, format!("`{module}` offers `{key}` up to {}", units::format_size(*most)))
                        .hint("ask for less, or choose another engine"),
                ),
                Some(_) => {}
            }
        }
    }
}

fn credentials(
    module: &Module,
    request: &Request,
    base: &[&str],
    faults: &mut Vec<Diagnostic>,
) -> BTreeMap<String, String> {
    for name in request.credentials.keys().filter(|name| !module.credentials.contains_key(*name)) {
        let path = [base[0], base[1], "credentials", name];
        let fault = Diagnostic::error(&path, format!("`{}` has no credential `{name}`", module.name));
        let known = module.credentials.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        faults.push(fault.hint(format!("it has {known}")));
    }
    let mut all = BTreeMap::new();
    for (name, credential) in &module.credentials {
        let asked = request.credentials.get(name);
        if !credential.secret && asked.is_some_and(|value| crate::secret::holds(value)) {
            let path = [base[0], base[1], "credentials", name];
            faults.push(
                Diagnostic::error(
                    &path,
                    format!("`{name}` of `{}` cannot be a secret: it is shown in commands", module.name),
                )
                .hint("write it as a plain value"),
            );
        }
        all.insert(name.clone(), asked.cloned().unwrap_or_else(|| credential.default.clone()));
    }
    all
}

fn settings(
    module: &Module,
    request: &Request,
    base: &[&str],
    faults: &mut Vec<Diagnostic>,
) -> BTreeMap<String, Value> {
    for name in request.settings.keys().filter(|name| !module.settings.contains_key(*name)) {
        let path = [base[0], base[1], "settings", name];
        let fault = Diagnostic::error(&path, format!("`{}` has no setting `{name}`", module.name));
        faults.push(match nearest(name, module.settings.keys().map(String::as_str)) {
            Some(near) => fault.hint(format!("did you mean `{near}`?")),
            None => fault.hint(format!("`sidestack catalog show {}` lists them", module.name)),
        });
    }
    let mut all = BTreeMap::new();
    for (name, setting) in &module.settings {
        let path = [base[0], base[1], "settings", name];
        match request.settings.get(name).or(setting.default.as_ref()) {
            Some(value) => match setting_value(setting, value) {
                Ok(value) => {
                    all.insert(name.clone(), value);
                }
                Err(reason) => faults.push(Diagnostic::error(
                    &path,
                    format!("setting `{name}` of `{}`: {}", module.name, crate::secret::shown(&reason)),
                )),
            },
            None if setting.required => {
                faults.push(Diagnostic::error(
                    &[base[0], base[1]],
                    format!("`{}` needs the setting `{name}`", module.name),
                ));
            }
            // Not said and without a default: undefined in templates.
            None => {}
        }
    }
    all
}

/// A setting's value as templates see it.
fn setting_value(setting: &Setting, value: &Value) -> Result<Value, String> {
    if value.as_str().is_some_and(crate::secret::holds) && !setting.secret {
        return Err("a secret cannot stand here".to_owned());
    }
    setting.kind.read(value)
}

/// Conventional names belong to the only provider of a kind, or to the one marked.
fn conventional(
    resolved: &mut BTreeMap<ResourceName, Resolved>,
    requests: &BTreeMap<ResourceName, Request>,
    faults: &mut Vec<Diagnostic>,
) {
    let mut owners: BTreeMap<String, Vec<(ResourceName, Option<bool>)>> = BTreeMap::new();
    for (name, resource) in resolved.iter() {
        // Two modules that give the same conventional names are of one kind here,
        // whatever their capabilities are called.
        for variable in resource.module.variables.conventional.keys() {
            let marked = requests.get(name).and_then(|request| request.default);
            owners.entry(variable.clone()).or_default().push((name.clone(), marked));
        }
    }
    let mut winners: BTreeSet<ResourceName> = BTreeSet::new();
    let mut losers: BTreeSet<ResourceName> = BTreeSet::new();
    for candidates in owners.values() {
        let marked: Vec<_> = candidates.iter().filter(|(_, mark)| *mark == Some(true)).collect();
        if let [(first, _), (second, _), ..] = marked.as_slice() {
            let fault = Diagnostic::error(
                &["resources", second.as_str(), "default"],
                format!("`{first}` and `{second}` are both marked `default` for the same variables"),
            );
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
        let unmarked: Vec<_> = candidates.iter().filter(|(_, mark)| *mark != Some(false)).collect();
        let winner = match (marked.as_slice(), unmarked.as_slice()) {
            ([(only, _)], _) | ([], [(only, _)]) => Some(only),
            _ => None,
        };
        for (name, _) in candidates {
            if Some(name) == winner {
                winners.insert(name.clone())
            } else {
                losers.insert(name.clone())
            };
        }
    }
    for (name, resource) in resolved.iter_mut() {
        resource.conventional = winners.contains(name) && !losers.contains(name);
    }
}
