//! What people are used to choose a stack's parts by: `-f`, `--profile` and `--env-file`, and the variables of Compose's
//! own that stand for them.
//!
//! As Compose has it: an option replaces its variable, named env files replace the project's `.env`, a later one wins.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sidestack_topology::diagnostic::Diagnostic;

use super::ReadRequest;
use super::inputs::Inputs;
use super::raw::clean;
use super::variables::{Dotenv, load};

/// Variables that choose files and profiles; `.env` may hold them too.
const CHOOSING: [&str; 3] = ["COMPOSE_FILE", "COMPOSE_PATH_SEPARATOR", "COMPOSE_PROFILES"];
/// Names env files, separated by commas; from the shell alone.
const ENV_FILES: &str = "COMPOSE_ENV_FILES";
/// Whether the project's `.env` is left unread; from the shell alone.
const NO_ENV_FILE: &str = "COMPOSE_DISABLE_ENV_FILE";

/// What was chosen.
pub(super) struct Chosen {
    /// What interpolation has from files, the strongest first.
    pub(super) env: Vec<Dotenv>,
    /// Whether the `.env` of the compose files' own folder counts as well.
    pub(super) beside: bool,
    /// [`CHOOSING`], those that are set.
    pub(super) variables: BTreeMap<String, String>,
    /// Profiles, sorted.
    pub(super) profiles: Vec<String>,
}

/// Reads what the command line, the shell and the env files choose.
pub(super) fn chosen(
    request: &ReadRequest<'_>,
    inputs: &mut Inputs,
    names: &mut BTreeSet<String>,
    faults: &mut Vec<Diagnostic>,
) -> Chosen {
    let folder = &request.checkout.folder;
    let named = env_files(request, inputs);
    let disabled = disabled(request, inputs, faults);
    let beside = named.is_empty() && !disabled;
    let files: Vec<PathBuf> = match named.as_slice() {
        [] if disabled => Vec::new(),
        [] => vec![folder.join(".env")],
        named => named.iter().map(|file| clean(&request.base.join(file))).collect(),
    };
    let mut env = load(files.iter().rev().map(|path| (path.clone(), false)), request.checkout, inputs, names, faults);
    for (name, path) in named.iter().zip(&files).filter(|(_, path)| !env.iter().any(|file| file.path == **path)) {
        // One that cannot be read has its fault already.
        if !path.exists() {
            let fault = Diagnostic::error(&[], format!("there is no env file `{}`", name.display()));
            faults.push(fault.hint(format!("paths of env files start from `{}`", request.base.display())));
        }
    }
    // Of one that is named twice the last place counts.
    let mut seen = BTreeSet::new();
    env.retain(|file| seen.insert(file.path.clone()));
    let variables = variables(request, &env, inputs);
    let profiles = profiles(request.profiles, variables.get("COMPOSE_PROFILES").map_or("", String::as_str));
    Chosen { env, beside, variables, profiles }
}

/// Those of the command line, else those of the shell.
fn env_files(request: &ReadRequest<'_>, inputs: &mut Inputs) -> Vec<PathBuf> {
    inputs.variable(ENV_FILES, request.shell, request.machine_key);
    if !request.env_files.is_empty() {
        return request.env_files.to_vec();
    }
    let listed = request.shell.get(ENV_FILES).and_then(|value| value.to_str()).unwrap_or_default();
    listed.split(',').filter(|name| !name.is_empty()).map(PathBuf::from).collect()
}

fn disabled(request: &ReadRequest<'_>, inputs: &mut Inputs, faults: &mut Vec<Diagnostic>) -> bool {
    inputs.variable(NO_ENV_FILE, request.shell, request.machine_key);
    match request.shell.get(NO_ENV_FILE).map(|value| value.to_string_lossy()).as_deref() {
        None | Some("" | "0" | "f" | "F" | "false" | "False" | "FALSE") => false,
        Some("1" | "t" | "T" | "true" | "True" | "TRUE") => true,
        Some(_) => {
            let fault = Diagnostic::error(&[], format!("the variable `{NO_ENV_FILE}` is neither true nor false"));
            faults.push(fault.hint(format!("set it to `1`, or `unset {NO_ENV_FILE}`")));
            false
        }
    }
}

/// The variables that choose files and profiles: from the shell, else from the env files.
fn variables(request: &ReadRequest<'_>, env: &[Dotenv], inputs: &mut Inputs) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for name in CHOOSING {
        inputs.variable(name, request.shell, request.machine_key);
        let shell = request.shell.get(name).and_then(|value| value.to_str()).map(str::to_owned);
        let file = || env.iter().find_map(|file| file.entries.get(name)).map(|(value, _)| value.clone());
        if let Some(value) = shell.or_else(file) {
            found.insert(name.to_owned(), value);
        }
    }
    found
}

/// Those that were asked for, else those of the variable.
fn profiles(asked: &[String], listed: &str) -> Vec<String> {
    let listed = listed.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
    let all: BTreeSet<String> = if asked.is_empty() { listed.collect() } else { asked.iter().cloned().collect() };
    all.into_iter().collect()
}

/// The names in a list of compose files such as `COMPOSE_FILE` has.
pub(super) fn listed_files(variables: &BTreeMap<String, String>) -> impl Iterator<Item = &Path> {
    let list = variables.get("COMPOSE_FILE").map_or("", String::as_str);
    let separator = variables.get("COMPOSE_PATH_SEPARATOR").filter(|separator| !separator.is_empty());
    let separator = separator.map_or(":", String::as_str);
    list.split(separator).filter(|name| !name.is_empty()).map(Path::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_replaces_its_variable() {
        let asked = ["b".to_owned(), "a".to_owned(), "b".to_owned()];
        assert_eq!(profiles(&asked, "c"), ["a", "b"]);
        assert_eq!(profiles(&[], " d ,,c"), ["c", "d"]);
    }

    #[test]
    fn the_separator_is_its_own_variable() {
        let variables = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let list = |pairs: &[(&str, &str)]| {
            listed_files(&variables(pairs)).map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(list(&[("COMPOSE_FILE", "a.yaml:b.yaml")]), ["a.yaml", "b.yaml"]);
        assert_eq!(list(&[("COMPOSE_FILE", "a;b:c"), ("COMPOSE_PATH_SEPARATOR", ";")]), ["a", "b:c"]);
        assert_eq!(list(&[("COMPOSE_FILE", "")]), Vec::<String>::new());
    }
}
