//! Which compose files a stack has.
//!
//! In this order: those that were asked for, those that the manifest names, and only without a manifest what
//! `COMPOSE_FILE` says, then what Compose finds by itself. A manifest that names nothing but one of Compose's own file
//! names means what Compose means by it, and so takes the override file beside it as well; one that names several files,
//! or others, gets exactly those.
//!
//! Relative paths in compose files start from the first file's folder, as they do for Compose.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sidestack_topology::diagnostic::Diagnostic;

use super::habits::listed_files;
use super::inputs::Inputs;
use super::raw::clean;

/// What Compose looks for, first wins.
pub(super) const DEFAULT_FILES: [&str; 4] =
    ["compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"];
/// What it merges over that, first wins.
const OVERRIDE_FILES: [&str; 4] =
    ["compose.override.yml", "compose.override.yaml", "docker-compose.override.yml", "docker-compose.override.yaml"];

/// A stack's compose files.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Absolute paths in the order in which they are merged; empty when there are none.
    pub(super) files: Vec<PathBuf>,
    /// Where relative paths start.
    pub(super) project_directory: PathBuf,
}

/// Where the names come from.
pub(super) struct Wanted<'a> {
    /// The stack's folder.
    pub(super) folder: &'a Path,
    /// Where the paths of those that were asked for start.
    pub(super) base: &'a Path,
    /// Asked for.
    pub(super) asked: &'a [PathBuf],
    /// The manifest's list, when there is a manifest.
    pub(super) manifest: Option<&'a [String]>,
    /// `COMPOSE_FILE` and its separator, from the shell or the folder's `.env`.
    pub(super) variables: &'a BTreeMap<String, String>,
}

/// Settles the list, and records every name that would have changed it.
pub(super) fn compose_files(wanted: &Wanted<'_>, inputs: &mut Inputs, faults: &mut Vec<Diagnostic>) -> Found {
    let folder = wanted.folder;
    let files: Vec<PathBuf> = if !wanted.asked.is_empty() {
        named(wanted.base, wanted.asked.iter().map(PathBuf::as_path), inputs, faults)
    } else if let Some(list) = wanted.manifest {
        match list {
            [] => {
                unnamed(folder, inputs, faults);
                Vec::new()
            }
            [only] if DEFAULT_FILES.contains(&only.as_str()) => {
                let mut files = named(folder, std::iter::once(Path::new(only)), inputs, faults);
                files.extend(first(folder, &OVERRIDE_FILES, inputs));
                files
            }
            list => named(folder, list.iter().map(Path::new), inputs, faults),
        }
    } else if listed_files(wanted.variables).next().is_some() {
        named(folder, listed_files(wanted.variables), inputs, faults)
    } else {
        let mut files: Vec<PathBuf> = first(folder, &DEFAULT_FILES, inputs).into_iter().collect();
        if !files.is_empty() {
            files.extend(first(folder, &OVERRIDE_FILES, inputs));
        }
        files
    };
    let project_directory = files.first().and_then(|file| file.parent()).unwrap_or(folder).to_owned();
    Found { files, project_directory }
}

fn named<'a>(
    folder: &Path,
    names: impl Iterator<Item = &'a Path>,
    inputs: &mut Inputs,
    faults: &mut Vec<Diagnostic>,
) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for name in names {
        let path = clean(&folder.join(name));
        let at = inputs.needed(&path);
        inputs.watch(&at);
        if at.is_file() {
            files.push(path);
        } else if name == Path::new("-") {
            let fault = Diagnostic::error(&["compose"], "a compose file cannot be read from standard input");
            faults.push(fault.hint("write it to a file: a revision must be there to be read again"));
        } else {
            let fault = Diagnostic::error(&["compose"], format!("there is no compose file `{}`", name.display()));
            faults.push(fault.hint(format!("paths of compose files start from `{}`", folder.display())));
        }
    }
    files
}

/// The first of these names that is there; those before it are recorded as absent.
fn first(folder: &Path, names: &[&str], inputs: &mut Inputs) -> Option<PathBuf> {
    names.iter().map(|name| folder.join(name)).find(|path| {
        inputs.watch(path);
        path.is_file()
    })
}

/// A manifest that names no compose files, beside one: most likely forgotten.
fn unnamed(folder: &Path, inputs: &mut Inputs, faults: &mut Vec<Diagnostic>) {
    if let Some(file) = first(folder, &DEFAULT_FILES, inputs) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let fault =
            Diagnostic::warning(&["compose"], format!("the manifest does not name `{name}`, so it is not read"));
        faults.push(fault.hint(format!("add `compose: {name}` to the manifest")));
    }
}
