//! Faults that need more than a document to be found or placed.

use std::path::Path;

use sidestack_topology::diagnostic::Diagnostic;
use sidestack_topology::manifest::Manifest;
use sidestack_topology::{secret, yaml};

use crate::secrets::Reference;
use crate::source::Inputs;

/// References of a manifest that no provider can resolve, before anything is
/// committed with them.
pub(crate) fn references(manifest: &Manifest) -> Vec<Diagnostic> {
    let mut found: Vec<(Vec<String>, &str)> = Vec::new();
    let text = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
    for (name, value) in &manifest.env {
        found.push((text(&["env", name]), value));
    }
    for (resource, request) in &manifest.resources {
        for (name, value) in &request.credentials {
            found.push((text(&["resources", resource.as_str(), "credentials", name]), value));
        }
        for (name, value) in &request.settings {
            if let Some(value) = value.as_str() {
                found.push((text(&["resources", resource.as_str(), "settings", name]), value));
            }
        }
    }
    let mut faults = Vec::new();
    for (path, value) in found {
        for part in secret::parts(value) {
            let secret::Part::Secret { reference, .. } = part else { continue };
            if let Err(error) = reference.parse::<Reference>() {
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                let fault = Diagnostic::error(&path, format!("`{reference}` is no secret reference: {error}"));
                faults.push(
                    fault.hint("use env:NAME, keychain:SERVICE/ACCOUNT, command:…, file:PATH or dotenv:PATH#KEY"),
                );
            }
        }
    }
    faults
}

/// Whether a fault is about the compose files and not about the manifest.
pub(crate) fn is_of_compose(fault: &Diagnostic) -> bool {
    const KEYS: [&str; 6] = ["services", "networks", "volumes", "secrets", "configs", "models"];
    fault.place.is_none() && fault.path.first().is_some_and(|key| KEYS.contains(&key.as_str()))
}

/// Faults of the compose model at the place in the file that has the most of their path.
pub(crate) fn in_compose_files(faults: Vec<Diagnostic>, inputs: &Inputs) -> Vec<Diagnostic> {
    if faults.is_empty() {
        return faults;
    }
    let is_yaml = |path: &Path| path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    let texts: Vec<(String, String, yaml::Places)> = inputs
        .files
        .keys()
        .filter(|path| is_yaml(path) && !path.ends_with(sidestack_topology::manifest::FILE))
        .filter_map(|path| Some((path, std::fs::read_to_string(path).ok()?)))
        .map(|(path, text)| {
            let name =
                path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
            // A text is read once for all faults.
            let places = yaml::places(&text);
            (name, text, places)
        })
        .collect();
    faults
        .into_iter()
        .map(|fault| {
            let best = texts.iter().max_by_key(|(_, _, places)| places.depth(&fault.path));
            match best {
                Some((name, text, places)) if places.depth(&fault.path) > 0 => fault.located_by(places, name, text),
                _ => fault,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_providers_are_found_before_anything_is_written() {
        let text = b"sidestack: 1\nenv: {A: {secret: 'vault:x'}, B: {secret: 'env:OK'}}\n";
        let manifest = sidestack_topology::manifest::Document::parse("f", text).unwrap().resolve("dev").unwrap();
        let faults = references(&manifest);
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].path, ["env", "A"]);
    }
}
