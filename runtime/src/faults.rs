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
    let texts: Vec<(String, String)> = inputs
        .files
        .keys()
        .filter(|path| is_yaml(path) && !path.ends_with(sidestack_topology::manifest::FILE))
        .filter_map(|path| Some((path.clone(), std::fs::read_to_string(path).ok()?)))
        .map(|(path, text)| {
            let name =
                path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
            (name, text)
        })
        .collect();
    faults
        .into_iter()
        .map(|fault| {
            let best = texts.iter().max_by_key(|(_, text)| depth(text, &fault.path));
            match best {
                Some((name, text)) if depth(text, &fault.path) > 0 => fault.located(name, text),
                _ => fault,
            }
        })
        .collect()
}

/// How many parts of a path a text has.
fn depth(text: &str, path: &[String]) -> usize {
    let mut last = yaml::locate(text, &[]);
    for length in 1..=path.len() {
        let here = yaml::locate(text, &path[..length]);
        // A part that is not there stands where its parent stands.
        if here == last && length > 1 {
            return length - 1;
        }
        if here == yaml::locate(text, &[]) && !text.contains(&path[0]) {
            return 0;
        }
        last = here;
    }
    path.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_the_parts_that_are_there() {
        let text = "services:\n  web:\n    image: x\n    privileged: true\n";
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(depth(text, &path("services.web.privileged")), 3);
        assert_eq!(depth(text, &path("services.web.ports")), 2);
        assert_eq!(depth(text, &path("services.db")), 1);
        assert_eq!(depth(text, &path("volumes.db")), 0);
    }

    #[test]
    fn unknown_providers_are_found_before_anything_is_written() {
        let text = b"sidestack: 1\nenv: {A: {secret: 'vault:x'}, B: {secret: 'env:OK'}}\n";
        let manifest = sidestack_topology::manifest::Document::parse("f", text).unwrap().resolve("dev").unwrap();
        let faults = references(&manifest);
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].path, ["env", "A"]);
    }
}
