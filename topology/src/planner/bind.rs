//! Consumers find their providers; names do not clash.

use std::collections::BTreeMap;

use super::Draft;
use crate::diagnostic::{Diagnostic, nearest};
use crate::manifest::{Manifest, check_variable_name};
use crate::names::ResourceName;

/// Two things that would be one Compose service.
pub(super) fn clashes(draft: &Draft, faults: &mut Vec<Diagnostic>) {
    let mut owner: BTreeMap<&str, &ResourceName> = BTreeMap::new();
    for (name, resource) in &draft.resources {
        for service in resource.services.values() {
            if let Some(other) = owner.insert(service, name) {
                faults.push(
                    Diagnostic::error(
                        &["resources", name.as_str()],
                        format!("resources `{other}` and `{name}` both become the service `{service}`"),
                    )
                    .hint("rename one of them"),
                );
            }
            if draft.services.contains_key(service) {
                faults.push(
                    Diagnostic::error(
                        &["resources", name.as_str()],
                        format!("resource `{name}` and a service of the compose files are both called `{service}`"),
                    )
                    .hint("rename the resource, or drop the service if the resource replaces it"),
                );
            }
        }
    }
}

/// Two things that would write to one volume.
pub(super) fn volume_clashes(draft: &Draft, faults: &mut Vec<Diagnostic>) {
    let mut owner: BTreeMap<String, &ResourceName> = BTreeMap::new();
    for (name, resource) in &draft.resources {
        for (key, fragment) in &resource.module.services {
            let Some(service) = resource.services.get(key) else {
                continue;
            };
            for volume in fragment.volumes.keys().map(|key| volume_key(service, key)) {
                let other = match owner.insert(volume.clone(), name) {
                    _ if draft.volumes.contains_key(&volume) => "the compose files".to_owned(),
                    Some(other) => format!("resource `{other}`"),
                    None => continue,
                };
                let message = format!("resource `{name}` and {other} would both write to the volume `{volume}`");
                let fault = Diagnostic::error(&["resources", name.as_str()], message);
                faults.push(fault.hint("rename the resource or the volume"));
            }
        }
    }
}

/// The key of a resource's volume.
pub(super) fn volume_key(service: &str, volume: &str) -> String {
    format!("{service}-{volume}")
}

/// `inject` says which service gets what.
pub(super) fn bindings(manifest: &Manifest, draft: &mut Draft, faults: &mut Vec<Diagnostic>) {
    for (service, wanted) in &manifest.inject {
        if !draft.services.contains_key(service) {
            let fault = Diagnostic::error(&["inject", service], format!("no compose file has a service `{service}`"));
            faults.push(match nearest(service, draft.services.keys().map(String::as_str)) {
                Some(near) => fault.hint(format!("did you mean `{near}`?")),
                None if draft.services.is_empty() => fault.hint("name the compose files under `compose:`"),
                None => {
                    let known = draft.services.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                    fault.hint(format!("there are {known}"))
                }
            });
            continue;
        }
        for (at, name) in wanted.iter().enumerate() {
            let path = ["inject", service, &at.to_string()];
            let resource = name.parse::<ResourceName>().ok();
            let known = resource.as_ref().is_some_and(|resource| manifest.resources.contains_key(resource));
            if let (true, Some(resource)) = (known, resource) {
                draft.bindings.entry(service.clone()).or_default().push(resource);
            } else if manifest.env.contains_key(name) || looks_like_variable(name) {
                draft.wanted.entry(service.clone()).or_default().push(name.clone());
            } else {
                let candidates = manifest.resources.keys().map(ResourceName::as_str);
                let candidates = candidates.chain(manifest.env.keys().map(String::as_str));
                let fault = Diagnostic::error(&path, format!("`{name}` is neither a resource nor a variable"));
                faults.push(match nearest(name, candidates) {
                    Some(near) => fault.hint(format!("did you mean `{near}`?")),
                    None => fault.hint("name a resource of this stack, or a variable in capitals"),
                });
            }
        }
    }
}

/// Capitals mean a variable, so that a misspelt resource is noticed.
fn looks_like_variable(name: &str) -> bool {
    check_variable_name(name).is_ok() && !name.bytes().any(|b| b.is_ascii_lowercase())
}
