//! The variables that Compose interpolates with, and which of them are secrets.
//!
//! From the top: the manifest's `env`, the user's environment, the project's `.env`, the env files of includes. A
//! variable is a secret when the manifest declares it one, or when its name looks like one and its value comes from the
//! user's environment or from a file that git does not track. Compose then gets a stand-in.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sidestack_topology::diagnostic::Diagnostic;
use sidestack_topology::manifest::Manifest;
use sidestack_topology::secret::{self, Encoding};

use super::git::Checkout;
use super::inputs::Inputs;
use super::interpolate::{alias, expand, mentions};
use super::made::{First, Making, Mentioned, Unmade};
use super::read::PLACEHOLDER;
use super::sensitive::looks_secret;
use super::standin::StandIns;
use crate::engine::compose::base_environment;
use crate::secrets::{DotenvError, parse_dotenv};

/// Shorter secrets are not looked for inside other values: they would be found in anything.
const SHORTEST_INSIDE: usize = 6;

/// A dotenv file that was read.
#[derive(Clone)]
pub(super) struct Dotenv {
    /// Where it is looked for.
    pub(super) path: PathBuf,
    /// Where it is: in a linked work tree perhaps in the main one.
    pub(super) at: PathBuf,
    /// How references name it: relative to the checkout's folder, else absolute.
    pub(super) shown: String,
    /// Whether its values may be secrets.
    pub(super) untracked: bool,
    /// Value and whether there is an expansion in it, by name; the last of several counts.
    pub(super) entries: BTreeMap<String, (String, bool)>,
    /// All of them in their order: an entry is made of those above it.
    pub(super) list: Vec<(String, String, bool)>,
}

impl Dotenv {
    /// The token of one of its values.
    pub(super) fn token(&self, key: &str) -> String {
        secret::token(&format!("dotenv:{}#{key}", self.shown), Encoding::Raw)
    }

    /// Where in the list the entry is that counts.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.list.iter().rposition(|(key, ..)| key == name)
    }

    /// Whether a name's value in this file is a secret.
    pub(super) fn is_secret(&self, name: &str) -> bool {
        self.untracked && looks_secret(name) && self.entries.get(name).is_some_and(|(value, _)| !value.is_empty())
    }

    /// A value with the file's own secrets in it replaced: a password is often repeated inside a URL.
    pub(super) fn hide(&self, value: &str, mut with: impl FnMut(&str) -> String) -> String {
        let mut secrets: Vec<(&String, &String)> = self
            .entries
            .iter()
            .filter(|(name, (text, expands))| self.is_secret(name) && !expands && text.len() >= SHORTEST_INSIDE)
            .map(|(name, (text, _))| (text, name))
            .collect();
        // The longest first, in case one holds another.
        secrets.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then(a.cmp(b)));
        secrets.into_iter().fold(value.to_owned(), |value, (text, name)| {
            if value.contains(text.as_str()) { value.replace(text.as_str(), &with(name)) } else { value }
        })
    }
}

/// Reads dotenv files and asks git about those that may hold secrets. Absent ones are recorded and passed over.
pub(super) fn load(
    files: impl IntoIterator<Item = (PathBuf, bool)>,
    checkout: &Checkout,
    inputs: &mut Inputs,
    names: &mut BTreeSet<String>,
    faults: &mut Vec<Diagnostic>,
) -> Vec<Dotenv> {
    let mut loaded = Vec::new();
    for (path, raw) in files {
        let shown = shown(&path, checkout);
        let at = inputs.needed(&path);
        let bytes = match inputs.read(&at) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => continue,
            Err(error) => {
                faults.push(Diagnostic::error(&[], format!("cannot read `{shown}`: {error}")));
                continue;
            }
        };
        let Ok(text) = String::from_utf8(bytes) else {
            faults.push(Diagnostic::error(&[], format!("`{shown}` is not valid UTF-8")));
            continue;
        };
        let parsed = if raw { Ok(parse_raw(&text)) } else { parse_dotenv(&text) };
        match parsed {
            Ok(entries) => {
                if !raw {
                    mentions(&text, names);
                    // A name alone is taken over from outside.
                    names.extend(
                        entries
                            .iter()
                            .filter_map(|(key, value, _)| alias(value).filter(|a| a == key).map(str::to_owned)),
                    );
                }
                let by_name = entries.iter().cloned().map(|(key, value, expands)| (key, (value, expands))).collect();
                loaded.push(Dotenv { path, at, shown, untracked: true, entries: by_name, list: entries });
            }
            Err(DotenvError { line, what }) => {
                faults.push(Diagnostic::error(&[], format!("`{shown}` cannot be understood at line {line}: {what}")));
            }
        }
    }
    let doubtful = |file: &Dotenv| file.entries.keys().any(|name| looks_secret(name));
    let asked: BTreeSet<PathBuf> = loaded.iter().filter(|file| doubtful(file)).map(|file| file.at.clone()).collect();
    let tracked = inputs.ask_tracked(&asked);
    for file in &mut loaded {
        file.untracked = !tracked.contains(&file.at);
    }
    loaded
}

/// `format: raw`: a line is a name, `=`, and the value as it stands.
fn parse_raw(text: &str) -> Vec<(String, String, bool)> {
    let lines = text.lines().map(|line| line.trim_end_matches('\r'));
    lines
        .filter(|line| !line.trim_start().starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.trim().to_owned(), value.to_owned(), false))
        .collect()
}

/// A path as references and diagnostics name it.
pub(super) fn shown(path: &Path, checkout: &Checkout) -> String {
    if let Ok(inside) = path.strip_prefix(&checkout.folder) {
        return inside.display().to_string();
    }
    let root = checkout.repository.as_ref().map(|r| r.root.as_path());
    match root.and_then(|root| Some((path.strip_prefix(root).ok()?, checkout.folder.strip_prefix(root).ok()?))) {
        Some((inside, folder)) => format!("{}{}", "../".repeat(folder.components().count()), inside.display()),
        None => path.display().to_string(),
    }
}

/// Where the values come from.
pub(super) struct Sources<'a> {
    pub(super) checkout: &'a Checkout,
    pub(super) manifest: &'a Manifest,
    pub(super) shell: &'a BTreeMap<String, OsString>,
    /// The project's `.env` files, the strongest first.
    pub(super) project: &'a [Dotenv],
    /// Those of includes.
    pub(super) includes: &'a [Dotenv],
}

/// Where one variable's value comes from.
enum Origin<'a> {
    Shell(&'a OsString),
    File(&'a Dotenv, &'a str, bool),
}

impl Sources<'_> {
    /// A plain value, for paths that the texts are made of. `None` when there is none.
    pub(super) fn plain(&self, name: &str) -> Option<String> {
        if let Some(value) = self.manifest.env.get(name) {
            return (!secret::holds(value)).then(|| value.clone());
        }
        if name == "PWD" {
            return Some(self.checkout.folder.display().to_string());
        }
        match self.origin(name)? {
            Origin::Shell(value) => value.to_str().map(str::to_owned),
            Origin::File(_, value, false) => Some(value.to_owned()),
            Origin::File(file, _, true) => {
                let mut plain = true;
                let value = self.made(file, name, &mut |_| {
                    plain = false;
                    String::new()
                });
                value.ok().flatten().filter(|_| plain)
            }
        }
    }

    /// An entry of a project's or an include's file, with what is made of others expanded.
    fn made<'a>(
        &'a self,
        file: &'a Dotenv,
        name: &str,
        secret: &mut dyn FnMut(Mentioned<'a>) -> String,
    ) -> Result<Option<String>, Unmade> {
        let own = self.project.iter().position(|one| one.path == file.path);
        // An include's file is read with the project's variables around it.
        let others = self.project.iter().skip(own.map_or(0, |at| at + 1)).collect();
        let first = if own.is_some() { First::Own } else { First::Others };
        Making { sources: self, others, first }.value(file, name, secret)
    }

    fn origin(&self, name: &str) -> Option<Origin<'_>> {
        if let Some(value) = self.shell.get(name) {
            return Some(Origin::Shell(value));
        }
        self.project
            .iter()
            .chain(self.includes)
            .find_map(|file| file.entries.get(name).map(|(value, expands)| Origin::File(file, value, *expands)))
    }

    /// What goes into Compose's env file for these names, with stand-ins for secrets.
    pub(super) fn settle(
        &self,
        names: &BTreeSet<String>,
        stand_ins: &mut StandIns,
        faults: &mut Vec<Diagnostic>,
    ) -> BTreeMap<String, String> {
        let mut values = BTreeMap::new();
        let handed_on = base_environment(self.shell);
        // Compose reads none of the project's files itself; those of includes it does, and must find no secret there.
        let of_project = self.project.iter().flat_map(|file| file.entries.keys());
        let of_includes = self.includes.iter().flat_map(|file| {
            file.entries.iter().filter(|(name, (_, expands))| *expands || file.is_secret(name)).map(|(name, _)| name)
        });
        let names: BTreeSet<&String> = names.iter().chain(of_project).chain(of_includes).collect();
        for name in names {
            // The rest of Compose's own environment it has already.
            if handed_on.contains_key(name) {
                continue;
            }
            // What steers Compose is Compose's and ours, but may be a value as well where a file has it.
            if name.starts_with("COMPOSE_") && !looks_secret(name) {
                let file = self.project.iter().find(|file| file.entries.contains_key(name));
                let file = file.filter(|_| name != "COMPOSE_PROJECT_NAME");
                values.extend(file.and_then(|file| Some((name.clone(), self.of_file(file, name, stand_ins, faults)?))));
                continue;
            }
            if let Some(value) = self.value(name, stand_ins, faults) {
                values.insert(name.clone(), value);
            }
        }
        values
    }

    /// A name's value as Compose had it, with stand-ins for secrets, where `settled` is what [`Sources::settle`] gave.
    /// `Err` when only Compose could tell.
    pub(super) fn seen(&self, name: &str, settled: &BTreeMap<String, String>) -> Result<Option<String>, ()> {
        self.seen_to(name, settled, 8)
    }

    fn seen_to(&self, name: &str, settled: &BTreeMap<String, String>, depth: usize) -> Result<Option<String>, ()> {
        if name == "COMPOSE_PROJECT_NAME" {
            return Ok(Some(PLACEHOLDER.to_owned()));
        }
        if let Some(value) = self.shell.get(name).filter(|_| is_handed_on(self.shell, name)) {
            return value.to_str().map(|value| Some(value.to_owned())).ok_or(());
        }
        if let Some(value) = settled.get(name) {
            return Ok(Some(value.clone()));
        }
        match self.origin(name) {
            None => Ok(None),
            Some(Origin::File(_, value, false)) => Ok(Some(value.to_owned())),
            // Secrets are settled, so nothing of one can be in here but as its stand-in.
            Some(Origin::File(file, value, true)) if !file.is_secret(name) => {
                let depth = depth.checked_sub(1).ok_or(())?;
                let lookup = |other: &str| {
                    if other == name { None } else { self.seen_to(other, settled, depth).ok().flatten() }
                };
                expand(value, &lookup).map(Some).ok_or(())
            }
            // What steers Compose it never got from the shell.
            Some(_) => Err(()),
        }
    }

    fn value(&self, name: &str, stand_ins: &mut StandIns, faults: &mut Vec<Diagnostic>) -> Option<String> {
        if let Some(value) = self.manifest.env.get(name) {
            let declared = secret::holds(value);
            return Some(if declared { stand_ins.add(name, value.clone()) } else { value.clone() });
        }
        if name == "PWD" {
            // Where the stack is, wherever in it the user stands.
            return Some(self.checkout.folder.display().to_string());
        }
        match self.origin(name)? {
            Origin::Shell(value) if !value.is_empty() && looks_secret(name) => {
                Some(stand_ins.add(name, secret::token(&format!("env:{name}"), Encoding::Raw)))
            }
            Origin::Shell(value) => {
                if let Some(value) = value.to_str() {
                    return Some(value.to_owned());
                }
                faults.push(Diagnostic::error(&[], format!("the variable `{name}` is not valid UTF-8")));
                None
            }
            Origin::File(file, value, expands) if file.is_secret(name) => {
                self.ambiguous(name, value, faults);
                match self.reference(name, 4) {
                    Some(reference) => Some(stand_ins.add(name, reference)),
                    None if expands => {
                        faults.push(made_up(name, &file.shown));
                        None
                    }
                    None => None,
                }
            }
            Origin::File(file, ..) => self.of_file(file, name, stand_ins, faults),
        }
    }

    /// The value of an entry that is no secret itself; of an include's only when a secret is in it, since Compose reads
    /// those files itself.
    fn of_file(
        &self,
        file: &Dotenv,
        name: &str,
        stand_ins: &mut StandIns,
        faults: &mut Vec<Diagnostic>,
    ) -> Option<String> {
        let mut secrets = false;
        let made = self.made(file, name, &mut |mentioned| {
            secrets = true;
            stand_ins.add(mentioned.name, mentioned.token)
        });
        let of_project = self.project.iter().any(|one| one.path == file.path);
        match made {
            Ok(value) if of_project => value,
            Ok(value) => {
                if secrets {
                    self.ambiguous(name, &file.entries[name].0, faults);
                }
                value.filter(|_| secrets)
            }
            Err(why) if of_project || matches!(why, Unmade::Secret(_)) => {
                faults.push(unmade(name, &file.shown, &why));
                None
            }
            // Compose says what is wrong with it.
            Err(_) => None,
        }
    }

    /// The token for a secret out of a file. A value that is only another variable's name leads on to that one.
    fn reference(&self, name: &str, depth: usize) -> Option<String> {
        match self.origin(name)? {
            Origin::Shell(_) => Some(secret::token(&format!("env:{name}"), Encoding::Raw)),
            Origin::File(file, _, false) => Some(file.token(name)),
            Origin::File(_, value, true) => {
                let other = alias(value).filter(|other| *other != name)?;
                self.reference(other, depth.checked_sub(1)?)
            }
        }
    }

    /// Includes with env files of their own that do not agree about a secret.
    fn ambiguous(&self, name: &str, value: &str, faults: &mut Vec<Diagnostic>) {
        if self.project.iter().any(|file| file.entries.contains_key(name)) {
            return;
        }
        let mut having = self.includes.iter().filter(|file| file.entries.contains_key(name));
        if let (Some(first), Some(other)) = (having.next(), having.find(|file| file.entries[name].0 != value)) {
            let message = format!(
                "`{name}` holds a secret, and has one value in `{}` and another in `{}`",
                first.shown, other.shown
            );
            faults.push(Diagnostic::error(&[], message).hint("use two names, or set it in the stack's own `.env`"));
        }
    }

    /// What the name of a secret that Compose takes from the environment leads to, if that is not the environment.
    pub(super) fn elsewhere(&self, name: &str) -> Option<String> {
        if let Some(value) = self.manifest.env.get(name) {
            return Some(value.clone());
        }
        match self.origin(name)? {
            Origin::File(file, _, false) => Some(file.token(name)),
            Origin::File(_, _, true) => self.reference(name, 4),
            Origin::Shell(_) => None,
        }
    }
}

/// Whether Compose has a name from the user's environment by itself.
fn is_handed_on(shell: &BTreeMap<String, OsString>, name: &str) -> bool {
    let one = shell.get_key_value(name).map(|(name, value)| (name.clone(), value.clone()));
    !base_environment(&one.into_iter().collect()).is_empty()
}

/// An entry that has no value.
fn unmade(name: &str, file: &str, why: &Unmade) -> Diagnostic {
    let (what, hint) = match why {
        Unmade::Syntax => ("is no text that can be expanded".to_owned(), "write `$$` for a `$`".to_owned()),
        Unmade::Required(other) => (format!("needs `{other}`, which has no value"), format!("set `{other}`")),
        Unmade::Endless => ("leads back to itself".to_owned(), "write one of the values out".to_owned()),
        Unmade::Secret(other) => return made_up(other, file),
    };
    Diagnostic::error(&[], format!("`{name}` in `{file}` {what}")).hint(hint)
}

/// A secret that is put together from other variables: no reference leads to it.
pub(super) fn made_up(name: &str, file: &str) -> Diagnostic {
    let message = format!(
        "`{name}` in `{file}` looks like a secret and is made up of other variables, so it cannot be referred to"
    );
    Diagnostic::error(&[], message).hint(format!(
        "write the value out in `{file}`, or declare it in the manifest: `env: {{{name}: {{secret: …}}}}`"
    ))
}
