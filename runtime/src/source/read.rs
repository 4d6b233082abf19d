//! Reading a checkout as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sidestack_topology::compose::Project;
use sidestack_topology::diagnostic::{Diagnostic, has_errors};
use sidestack_topology::manifest::{self, Document, Manifest};
use sidestack_topology::yaml;

use super::build::{Digester, with_main};
use super::discover::{Found, Wanted, compose_files};
use super::habits::{self, Chosen};
use super::inputs::{Inputs, Program};
use super::model::{Maker, mentions_of_model};
use super::raw::{self, EnvFile, Raw};
use super::shadow::Shadow;
use super::standin::{StandIns, env_file};
use super::templates::Seen;
use super::variables::{Dotenv, Sources, load, shown};
use super::{Checkout, Memo, ReadRequest, SourceError, Stack, report, templates};
use crate::engine::compose::{Compose, ComposeCall, ComposeInput};
use crate::files;

/// The project's name while Compose reads; nothing of it is left in the model.
pub(super) const PLACEHOLDER: &str = "sidestack0project0name";
/// Compose reads a large project in a second.
const LIMIT: Duration = Duration::from_secs(60);
/// Reading needs no daemon. Some versions of Compose ask the one that they are given all the same, and would wait for
/// one that hangs: this one refuses at once.
const NO_DAEMON: &str = "unix:///dev/null";
/// Docker's own default, which `DOCKER_HOST` means when it is not set.
const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";
/// Where a stack keeps modules of its own.
const MODULES: &str = "sidestack/modules";

/// Reads a checkout.
///
/// # Errors
/// [`SourceError::Invalid`] with everything that was found wrong, and what stands in the way of reading at all.
pub async fn read(request: &ReadRequest<'_>) -> Result<Stack, SourceError> {
    let checkout = request.checkout;
    let mut inputs = Inputs::of(checkout);
    let mut faults = Vec::new();

    let written = document(checkout, &mut inputs)?;
    let modules = modules(checkout, &mut inputs, &mut faults);
    let mut names = BTreeSet::new();
    // The stack's own `.env` may say which compose files there are.
    let chosen = habits::chosen(request, &mut inputs, &mut names, &mut faults);

    let settled = written.as_ref().map(|document| settle(document, request.environment));
    let (environment, settled) = match settled.transpose()? {
        Some((environment, manifest)) => (environment, Some(manifest)),
        None => (request.environment.unwrap_or(manifest::DEFAULT_ENVIRONMENT).to_owned(), None),
    };
    let wanted = Wanted {
        folder: &checkout.folder,
        base: request.base,
        asked: request.files,
        manifest: settled.as_ref().map(|manifest| manifest.compose.as_slice()),
        variables: &chosen.variables,
    };
    let found = compose_files(&wanted, &mut inputs, &mut faults);
    let (document, manifest) = match (written, settled) {
        (Some(document), Some(manifest)) => (document, manifest),
        _ => {
            let document = Document::of_compose(&inside(&found.files, checkout));
            let (_, manifest) = settle(&document, Some(&environment))?;
            (document, manifest)
        }
    };
    let environment = environment
        .parse()
        .map_err(|error: sidestack_topology::names::NameError| invalid(Diagnostic::error(&[], error.to_string())))?;
    let mut stack = Stack {
        environment,
        document,
        manifest,
        modules,
        model: None,
        profiles: chosen.profiles.clone(),
        mentions: BTreeMap::new(),
        templates: BTreeMap::new(),
        interpolation: BTreeMap::new(),
        builds: BTreeMap::new(),
        files: BTreeMap::new(),
        inputs,
        memo: Memo::default(),
        notes: Vec::new(),
        chosen: Default::default(),
        diagnostics: Vec::new(),
    };
    if !found.files.is_empty() && !has_errors(&faults) {
        compose(request, &found, chosen, names, &mut stack, &mut faults).await?;
    }
    let faults = stack.document.locate_all(stack.environment.as_str(), faults);
    if has_errors(&faults) {
        return Err(SourceError::Invalid(faults));
    }
    stack.diagnostics = faults;
    Ok(stack)
}

fn invalid(fault: Diagnostic) -> SourceError {
    SourceError::Invalid(vec![fault])
}

/// The manifest as written, if there is one.
fn document(checkout: &Checkout, inputs: &mut Inputs) -> Result<Option<Document>, SourceError> {
    let path = checkout.folder.join(manifest::FILE);
    let bytes = inputs.read(&path).map_err(|cause| SourceError::Io { action: "read", path, cause })?;
    bytes.map(|bytes| Document::parse(manifest::FILE, &bytes).map_err(invalid)).transpose()
}

fn settle(document: &Document, environment: Option<&str>) -> Result<(String, Manifest), SourceError> {
    let environment = match environment {
        Some(environment) => environment.to_owned(),
        None => document.default_environment().map_err(invalid)?,
    };
    let manifest = document.resolve(&environment).map_err(SourceError::Invalid)?;
    Ok((environment, manifest))
}

/// The stack's own modules by name. A link out of the folder is refused: a checkout must not read what it is not given.
fn modules(
    checkout: &Checkout,
    inputs: &mut Inputs,
    faults: &mut Vec<Diagnostic>,
) -> BTreeMap<String, (String, String)> {
    let mut modules = BTreeMap::new();
    let listed = match inputs.list(&checkout.folder.join(MODULES)) {
        Ok(listed) => listed,
        Err(error) => {
            faults.push(Diagnostic::error(&[], format!("cannot read the folder `{MODULES}`: {error}")));
            return modules;
        }
    };
    for name in listed {
        let file = format!("{MODULES}/{name}");
        inputs.watch(&checkout.folder.join(&file));
        let bytes = files::read_confined(&checkout.folder, Path::new(&file), yaml::MAX_TEXT as u64 + 1);
        match bytes {
            Ok(bytes) => match yaml::text(&file, &bytes) {
                Ok(text) => {
                    let stem = name.trim_end_matches(".yaml").to_owned();
                    modules.insert(stem, (file, text.to_owned()));
                }
                Err(fault) => faults.push(fault),
            },
            Err(error) => faults.push(Diagnostic::error(&[], error.to_string())),
        }
    }
    modules
}

/// Those of the compose files that a manifest could name.
fn inside(files: &[PathBuf], checkout: &Checkout) -> Vec<String> {
    let relative = files.iter().filter_map(|file| file.strip_prefix(&checkout.folder).ok()?.to_str());
    relative.filter(|file| !file.split('/').any(|part| part == "..")).map(str::to_owned).collect()
}

/// Everything about the compose files.
async fn compose(
    request: &ReadRequest<'_>,
    found: &Found,
    chosen: Chosen,
    mut names: BTreeSet<String>,
    stack: &mut Stack,
    faults: &mut Vec<Diagnostic>,
) -> Result<(), SourceError> {
    let checkout = request.checkout;
    let Some(compose) = request.compose else {
        return Err(SourceError::NoCompose(checkout.folder.clone()));
    };
    stack.inputs.compose_binary = Program::of(compose.binary());

    // The stack's own `.env` wins over the one of the first compose file's folder, as it does for Compose.
    let mut project_env = chosen.env;
    if chosen.beside && found.project_directory != checkout.folder {
        let beside = (found.project_directory.join(".env"), false);
        project_env.extend(load([beside], checkout, &mut stack.inputs, &mut names, faults));
    }
    let sources =
        Sources { checkout, manifest: &stack.manifest, shell: request.shell, project: &project_env, includes: &[] };
    let lookup = |name: &str| sources.plain(name);
    let mut raw = raw::explore(&found.files, &found.project_directory, &lookup, &mut stack.inputs);
    faults.append(&mut raw.faults);
    names.append(&mut raw.mentions);
    for text in &raw.unread {
        names.extend(raw::words(text).into_iter().filter(|word| request.shell.contains_key(word)));
    }
    let include_paths = raw.include_env.iter().map(|path| (path.clone(), false));
    let includes = load(include_paths, checkout, &mut stack.inputs, &mut names, faults);
    let env_files = env_files(&raw, checkout, &mut stack.inputs, &mut names, faults);
    if has_errors(faults) {
        return Ok(());
    }

    let sources = Sources { includes: &includes, ..sources };
    let mut stand_ins = StandIns::new(request.machine_key);
    let values = sources.settle(&names, &mut stand_ins, faults);
    for name in &names {
        stack.inputs.variable(name, request.shell, request.machine_key);
    }
    if has_errors(faults) {
        return Ok(());
    }
    let io = |cause| SourceError::Io { action: "write a file in", path: std::env::temp_dir(), cause };
    let shadow = shadow(checkout, &project_env, &stack.inputs).map_err(io)?;
    let seen_at = |path: &Path| shadow.as_ref().map_or_else(|| path.to_owned(), |shadow| shadow.path(path));
    let lift = |text: &str| shadow.as_ref().map_or_else(|| text.to_owned(), |shadow| shadow.lift(text));
    let mut handed = values.clone();
    if let Some(folder) = handed.get_mut("PWD") {
        *folder = seen_at(&checkout.folder).display().to_string();
    }
    let mut temporary = tempfile::NamedTempFile::with_prefix("sidestack-").map_err(io)?;
    temporary.write_all(env_file(&handed).as_bytes()).map_err(io)?;

    let files = ComposeInput::Files(found.files.iter().map(|file| seen_at(file)).collect());
    let directory = seen_at(&found.project_directory);
    let mut call = ComposeCall::new(PLACEHOLDER, &directory, files, &["config", "--format", "json"]);
    // Ours holds what the project's have: of a file that Compose reads itself a secret could come through.
    call.env_files = vec![temporary.path().to_owned()];
    call.profiles = vec!["*".to_owned()];
    call.environment = request.shell.clone();
    call.limit = LIMIT;
    // An interpolated `DOCKER_HOST` is the user's own: not the socket that this machine has.
    let user_host = names.contains("DOCKER_HOST").then(|| sources.plain("DOCKER_HOST").filter(|host| !host.is_empty()));
    let host = user_host.map_or(NO_DAEMON.to_owned(), |host| host.unwrap_or_else(|| DEFAULT_HOST.to_owned()));
    let (compose, with_daemon) = (&Compose::new(compose.binary(), host), compose);
    let failed = |error: crate::engine::EngineError| SourceError::Compose(error.to_string());
    // What the files do not say themselves is asked beside it, so that it costs no time of its own.
    let (output, asked) = if raw.interpolates && raw.entries.is_none() {
        let texts = ComposeCall { args: templates::ARGS.map(str::to_owned).to_vec(), ..call.clone() };
        let (output, texts) = futures_util::join!(compose.capture(&call), compose.capture(&texts));
        (output.map_err(failed)?, texts.ok().and_then(|texts| templates::printed(&texts)))
    } else {
        (compose.capture(&call).await.map_err(failed)?, None)
    };
    let output = match output {
        output if output.code != 0 && output.stderr.contains(NO_DAEMON) => {
            with_daemon.capture(&call).await.map_err(failed)?
        }
        output => output,
    };
    drop(temporary);
    let told = lift(&output.stderr);
    if output.code != 0 {
        let refusal = report::refusal(&told, &stand_ins, &checkout.folder, &found.files);
        faults.push(hint_at_missing_file(refusal, &raw, checkout));
        return Ok(());
    }
    faults.extend(report::warnings(&told, &stand_ins));

    let maker = Maker {
        sources: &sources,
        stand_ins: &stand_ins,
        env_files: &env_files,
        folder_anywhere: names.contains("PWD"),
    };
    let model: Project = maker.make(&lift(&String::from_utf8_lossy(&output.stdout)), faults);
    if has_errors(faults) {
        return Ok(());
    }
    let mut digester = Digester::new(checkout, request.memo, &mut stack.inputs, faults);
    stack.builds = digester.builds(&model);
    stack.files = digester.config_files(&model);
    digester.binds(&model);
    stack.memo = digester.new;
    stack.notes = notes(&stack.inputs.borrowed, checkout);
    match raw.entries.as_ref().or(asked.as_ref()) {
        Some(entries) => {
            let seen = Seen { sources: &sources, settled: &values, maker: &maker };
            (stack.templates, stack.interpolation) = templates::of(entries, &model, &seen);
        }
        None if raw.interpolates => faults.push(templates::unknown()),
        None => {}
    }
    faults.extend(unheard_of(request.profiles, &model));
    stack.profiles = model.profiles_among(&stack.profiles);
    stack.mentions = mentions_of_model(&model, &raw.service_mentions);
    stack.model = Some(model);
    Ok(())
}

/// What Compose reads through where files that it reads itself are in the main work tree.
fn shadow(checkout: &Checkout, project_env: &[Dotenv], inputs: &Inputs) -> std::io::Result<Option<Shadow>> {
    let Some(repository) = &checkout.repository else { return Ok(None) };
    let by_name = |path: &PathBuf| project_env.iter().any(|file| file.path == *path);
    let missing: BTreeMap<PathBuf, PathBuf> = inputs
        .borrowed
        .iter()
        .filter(|(path, _)| !by_name(path))
        .map(|(path, at)| (path.clone(), at.clone()))
        .collect();
    if missing.is_empty() {
        return Ok(None);
    }
    Shadow::new(&repository.root, &missing, inputs.files.keys()).map(Some)
}

/// What is said of files that were taken from the main work tree.
fn notes(borrowed: &BTreeMap<PathBuf, PathBuf>, checkout: &Checkout) -> Vec<String> {
    let note = |(path, at): (&PathBuf, &PathBuf)| {
        format!(
            "this worktree has no `{}`, which git does not track: the main worktree's is used, `{}`",
            shown(path, checkout),
            at.display()
        )
    };
    borrowed.iter().map(note).collect()
}

/// Profiles that were asked for and that no service has: most likely a slip.
fn unheard_of<'a>(asked: &'a [String], model: &'a Project) -> impl Iterator<Item = Diagnostic> + 'a {
    let missing =
        asked.iter().filter(|name| *name != "*" && model.profiles_among(std::slice::from_ref(*name)).is_empty());
    missing.map(|name| {
        let all = model.profiles_among(&["*".to_owned()]);
        let warning = Diagnostic::warning(&[], format!("no service has the profile `{}`", name.escape_debug()));
        if all.is_empty() { warning } else { warning.hint(format!("there are: {}", all.join(", "))) }
    })
}

/// The services' `env_file`s with their contents.
fn env_files(
    raw: &Raw,
    checkout: &Checkout,
    inputs: &mut Inputs,
    names: &mut BTreeSet<String>,
    faults: &mut Vec<Diagnostic>,
) -> Vec<(EnvFile, Dotenv)> {
    let paths: BTreeSet<(PathBuf, bool)> = raw.env_files.iter().map(|file| (file.path.clone(), file.raw)).collect();
    let loaded = load(paths, checkout, inputs, names, faults);
    let mut by_path: BTreeMap<&Path, &Dotenv> = BTreeMap::new();
    for dotenv in &loaded {
        by_path.insert(&dotenv.path, dotenv);
    }
    raw.env_files.iter().filter_map(|file| Some((file.clone(), (*by_path.get(file.path.as_path())?).clone()))).collect()
}

/// A refusal because of an `env_file` that the main work tree has.
fn hint_at_missing_file(refusal: Diagnostic, raw: &Raw, checkout: &Checkout) -> Diagnostic {
    let missing = raw
        .env_files
        .iter()
        .find(|file| !file.path.exists() && file.path.to_str().is_some_and(|path| refusal.message.contains(path)));
    match missing {
        Some(file) if refusal.hint.is_none() => {
            let name = shown(&file.path, checkout);
            let message = refusal.message.replace(&file.path.display().to_string(), &name);
            with_main(Diagnostic { message, ..refusal }, &file.path, checkout)
        }
        _ => refusal,
    }
}
