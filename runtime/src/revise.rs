//! From a checkout to a revision, and from a revision to a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sidestack_catalog as catalog;
use sidestack_state::{Environment, Instance, Revision, Sighting, Workspace};
use sidestack_topology::compose::Project;
use sidestack_topology::diagnostic::{Diagnostic, Severity, has_errors};
use sidestack_topology::manifest::IsolationChoices;
use sidestack_topology::module::Module;
use sidestack_topology::names::{self, RevisionNumber, WorkspaceName};
use sidestack_topology::plan::{Placement, Plan};
use sidestack_topology::planner::{self, Draft, Input};
use sidestack_topology::revision::Content;

use crate::api::Chosen;
use crate::error::{Error, Kind, Result};
use crate::faults;
use crate::report::Event;
use crate::session::Session;
use crate::sharing;
use crate::source::{self, Checkout, Inputs, Memo, ReadRequest, Stack};

/// How long git may take to say whether a work tree is clean.
const DIRTY: Duration = Duration::from_secs(2);

/// What reading a checkout came to.
pub(crate) struct Committed {
    pub(crate) workspace: Workspace,
    pub(crate) environment: Environment,
    pub(crate) revision: Revision,
    /// Whether this content was not a revision before.
    pub(crate) new: bool,
}

/// A revision planned for an instance.
pub(crate) struct Planned {
    pub(crate) draft: Draft,
    pub(crate) plan: Plan,
}

/// How `up` was asked to read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reading<'a> {
    pub(crate) environment: Option<&'a str>,
    /// The folder that the command is run in.
    pub(crate) from: Option<&'a Path>,
    /// An instance was named, which has a folder of its own.
    pub(crate) named: bool,
    pub(crate) files: &'a [PathBuf],
    pub(crate) profiles: &'a [String],
    pub(crate) env_files: &'a [PathBuf],
    pub(crate) chosen: Option<&'a Chosen>,
}

/// The last reading of a folder: as long as its inputs are unchanged, reading
/// again would give the same revision.
#[derive(Serialize, Deserialize)]
struct LastReading {
    inputs: Inputs,
    environment: String,
    revision: u32,
}

impl Reading<'_> {
    /// Where relative paths of the command line start: where it is typed, as everywhere. What is read elsewhere, for a
    /// target, has its own folder's.
    fn base(&self, checkout: &Checkout) -> PathBuf {
        let from = self.from.and_then(|from| std::fs::canonicalize(from).ok());
        let from = from.filter(|from| !self.named || from.starts_with(&checkout.folder));
        from.unwrap_or_else(|| checkout.folder.clone())
    }

    fn key(&self, checkout: &Checkout) -> String {
        let base = self.base(checkout);
        let list = |files: &[PathBuf]| {
            files.iter().map(|file| base.join(file).display().to_string()).collect::<Vec<_>>().join(":")
        };
        let (files, env_files, profiles) = (list(self.files), list(self.env_files), self.profiles.join(","));
        let (folder, environment) = (checkout.folder.display(), self.environment.unwrap_or_default());
        let chosen = self.chosen.filter(|chosen| **chosen != Chosen::default());
        let chosen = chosen.map(|chosen| format!("{chosen:?}")).unwrap_or_default();
        format!("reading:{folder}:{environment}:{files}:{profiles}:{env_files}:{chosen}")
    }
}

impl Session {
    /// The revision of a checkout as it stands, committed if it is new.
    ///
    /// When nothing that was read has changed since the last time, nothing is
    /// read again and Compose is not started.
    ///
    /// # Errors
    /// Every fault of the stack, with its place; nothing is written then.
    pub(crate) fn commit(&self, checkout: &Checkout, reading: Reading<'_>, message: Option<&str>) -> Result<Committed> {
        if let Some(known) = self.known_reading(checkout, reading)? {
            return Ok(known);
        }
        let (stack, content) = self.read(checkout, reading)?;
        self.keep(checkout, reading, stack, &content, message)
    }

    /// The revision of what was read, committed if it is new.
    pub(crate) fn keep(
        &self,
        checkout: &Checkout,
        reading: Reading<'_>,
        stack: Stack,
        content: &Content,
        message: Option<&str>,
    ) -> Result<Committed> {
        let wanted = match &stack.manifest.workspace {
            Some(name) => name.clone(),
            None => workspace_name(checkout)?,
        };
        let repository = checkout.repository.as_ref();
        let dirty = match repository {
            Some(repository) => self.wait(async { Ok(source::dirty(repository, DIRTY).await) })?,
            None => None,
        };
        let memo = serde_json::to_string(&stack.memo).ok();
        let written = written_files(&stack.inputs, &checkout.folder);
        // One transaction, so one wait for the disk; git was asked before it, since the writer's place is held.
        let committed = self.store.atomically(|store| -> Result<Committed> {
            let workspace = store.ensure_workspace(&checkout.identity, &wanted)?;
            let environment = store.ensure_environment(workspace.id, &stack.environment)?;
            Self::remember_choices(store, environment.id, &stack.chosen)?;
            let (revision, new) = store.commit_revision(environment.id, &content.to_canonical_json(), message)?;
            let sighting = Sighting {
                branch: repository.and_then(|r| r.branch.clone()),
                commit: repository.and_then(|r| r.commit.clone()),
                dirty,
                folder: checkout.folder.clone(),
                files: Some(written.clone()),
                seen: jiff::Timestamp::now(),
            };
            store.add_sighting(revision.id, &sighting)?;
            let last = LastReading {
                inputs: stack.inputs,
                environment: environment.name.to_string(),
                revision: revision.number.0,
            };
            if let Ok(text) = serde_json::to_string(&last) {
                store.remember(&reading.key(checkout), &text)?;
            }
            if let Some(memo) = &memo {
                store.remember(&memo_key(&checkout.folder), memo)?;
            }
            Ok(Committed { workspace, environment, revision, new })
        })?;
        if committed.workspace.name != wanted {
            let known =
                stack.manifest.workspace.is_some() || !committed.workspace.name.as_str().starts_with(wanted.as_str());
            if known {
                self.note(format!("this workspace is known as `{}`", committed.workspace.name));
            }
        }
        Ok(committed)
    }

    /// The environment of a stack that was read, when the store has it.
    fn known_environment(&self, checkout: &Checkout, stack: &Stack) -> Result<Option<Environment>> {
        let Some(workspace) = self.store.workspace_by_identity(&checkout.identity)? else { return Ok(None) };
        Ok(self.store.environments(workspace.id)?.into_iter().find(|e| e.name == stack.environment))
    }

    fn known_reading(&self, checkout: &Checkout, reading: Reading<'_>) -> Result<Option<Committed>> {
        let Some(text) = self.store.recall(&reading.key(checkout))? else { return Ok(None) };
        let Ok(last) = serde_json::from_str::<LastReading>(&text) else { return Ok(None) };
        if !last.inputs.unchanged(&self.env, self.store.machine_key()) {
            return Ok(None);
        }
        let Some(workspace) = self.store.workspace_by_identity(&checkout.identity)? else { return Ok(None) };
        let environments = self.store.environments(workspace.id)?;
        let Some(environment) = environments.into_iter().find(|e| e.name.as_str() == last.environment) else {
            return Ok(None);
        };
        let revision = self.store.revision(environment.id, RevisionNumber(last.revision))?;
        Ok(Some(Committed { workspace, environment, revision, new: false }))
    }

    /// Reads a checkout and checks it as a whole; writes nothing.
    pub(crate) fn read(&self, checkout: &Checkout, reading: Reading<'_>) -> Result<(Stack, Content)> {
        let memo = self.memo(&checkout.folder)?;
        // A stack of resources alone needs no Compose to be read.
        let compose = self.compose();
        let request = ReadRequest {
            checkout,
            environment: reading.environment,
            shell: &self.env,
            compose: compose.as_ref().ok().copied(),
            machine_key: self.store.machine_key(),
            memo: &memo,
            base: &reading.base(checkout),
            files: reading.files,
            profiles: reading.profiles,
            env_files: reading.env_files,
        };
        let mut stack = match self.wait(async { Ok(source::read(&request).await) })? {
            Ok(stack) => stack,
            Err(source::SourceError::NoCompose(_)) => {
                return Err(compose
                    .err()
                    .unwrap_or_else(|| Error::new(Kind::Failed, "compose-missing", "Compose was not found")));
            }
            Err(error) => return Err(error.into()),
        };
        for note in &stack.notes {
            self.note(note.as_str());
        }
        let typed = sharing::typed(reading.chosen.unwrap_or(&Chosen::default()), stack.model.as_ref())?;
        let remembered = match self.known_environment(checkout, &stack)? {
            Some(environment) => self.remembered(environment.id)?,
            None => IsolationChoices::default(),
        };
        stack.manifest.isolation =
            sharing::merged(&stack.manifest.isolation, &remembered, &typed, stack.model.as_ref());
        stack.chosen = typed;
        let mut faults = stack.diagnostics.clone();
        let modules = modules_of(&stack, &mut faults);
        let builds: BTreeMap<String, String> =
            stack.builds.iter().map(|(service, build)| (service.clone(), build.digest.clone())).collect();
        let parsed: BTreeMap<String, Module> =
            modules.iter().map(|(name, (module, _))| (name.clone(), module.clone())).collect();
        let input = Input {
            manifest: &stack.manifest,
            modules: &parsed,
            model: stack.model.as_ref(),
            builds: &builds,
            templates: &stack.templates,
            interpolation: &stack.interpolation,
            profiles: &stack.profiles,
        };
        let (draft, found) = planner::draft(input);
        let found = found.into_iter().chain(faults::references(&stack.manifest));
        let (compose, manifest): (Vec<_>, Vec<_>) = found.partition(faults::is_of_compose);
        faults.extend(faults::in_compose_files(compose, &stack.inputs));
        faults.extend(stack.document.locate_all(stack.environment.as_str(), manifest));
        if has_errors(&faults) {
            return Err(Error::invalid(faults));
        }
        for warning in faults.iter().filter(|d| d.severity == Severity::Warning) {
            self.say(&Event::Warning(warning.to_string()));
        }
        let used: BTreeSet<&str> = draft.modules().collect();
        let content = Content {
            manifest: stack.manifest.clone(),
            modules: modules
                .into_iter()
                .filter(|(name, _)| used.contains(name.as_str()))
                .map(|(name, (_, text))| (name, text))
                .collect(),
            model: stack.model.as_ref().and_then(|model| serde_json::to_value(model).ok()),
            builds,
            files: stack.files.clone(),
            templates: stack.templates.clone(),
            interpolation: stack.interpolation.clone(),
            profiles: stack.profiles.clone(),
            ..Content::default()
        };
        stack.diagnostics = faults;
        Ok((stack, content))
    }

    /// A revision's content, planned for an instance as it stands in the store.
    ///
    /// Leases nothing: without a slot, host ports are 0.
    pub(crate) fn planned(&self, instance: &Instance, workspace_id: i64, content: &Content) -> Result<Planned> {
        self.placed(instance, workspace_id, drafted(content)?)
    }

    /// The same of what was drafted already.
    pub(crate) fn placed(&self, instance: &Instance, workspace_id: i64, draft: Draft) -> Result<Planned> {
        let placement = self.placement(instance, &draft)?;
        let layers = self.layers(instance, workspace_id)?;
        let (plan, faults) = planner::place(&draft, &placement, &layers);
        if has_errors(&faults) {
            return Err(Error::invalid(faults).about(&instance.target));
        }
        Ok(Planned { draft, plan })
    }

    /// Where an instance stands, as far as the store knows, and where its folder's files are.
    pub(crate) fn placement(&self, instance: &Instance, draft: &Draft) -> Result<Placement> {
        let project = instance.target.project();
        Ok(Placement {
            borrowed: borrowed(instance.checkout.as_deref(), draft),
            target: instance.target.clone(),
            install: self.store.install_id().to_owned(),
            instance_id: instance.uid.clone(),
            generation: instance.generation,
            revision: instance.revision,
            slot: instance.slot.as_ref().map(|lease| lease.slot),
            subnet: instance.slot.as_ref().map(|lease| lease.subnet.clone()),
            ports: self.store.known_offsets(instance.environment, "port")?,
            networks: self.store.known_offsets(instance.environment, "network")?,
            checkout: instance.checkout.as_deref().unwrap_or(Path::new("/")).display().to_string(),
            files: self.tree(&project).join("files").display().to_string(),
            own_ports: self.store.own_ports(instance.id)?,
        })
    }

    /// Refuses to build `services` out of a folder that is not what it was when the revision was seen: an image's name
    /// says which context it was built from, and is never given to another.
    ///
    /// # Errors
    /// `build-changed`, with the commit that has what is asked for.
    pub(crate) fn check_builds(&self, stored: &Revision, plan: &Plan, services: &[&str]) -> Result<()> {
        if services.is_empty() {
            return Ok(());
        }
        let content = content_of(stored)?;
        let Some(model) = model_of(&content)? else { return Ok(()) };
        let folder = Path::new(&plan.placement.checkout);
        let memo = self.memo(folder)?;
        for service in services {
            let Some(wanted) = content.builds.get(*service) else { continue };
            if source::build_digest(&model, service, folder, &memo).as_ref() != Some(wanted) {
                return Err(self.build_changed(stored, service, folder)?);
            }
        }
        Ok(())
    }

    fn build_changed(&self, stored: &Revision, service: &str, folder: &Path) -> Result<Error> {
        let seen = self.store.sightings(stored.id)?;
        let committed = seen.iter().rev().filter(|sighting| sighting.commit.is_some());
        // One without changes of its own, if there is one: what was not committed cannot be checked out.
        let best = committed.clone().find(|sighting| sighting.dirty == Some(false)).or(committed.clone().next());
        let commit = best.and_then(|sighting| sighting.commit.as_deref()).map(|commit| &commit[..commit.len().min(12)]);
        let clean = best.is_some_and(|sighting| sighting.dirty == Some(false));
        let at = match (commit, clean) {
            (Some(commit), true) => format!("at commit {commit}"),
            (Some(commit), false) => format!("at commit {commit}, with changes that were not committed"),
            (None, _) => "when the revision was made, which was at no commit".to_owned(),
        };
        let message = format!(
            "`{service}` cannot be built as {} has it: its build context in `{}` is not what it was {at}",
            stored.number,
            folder.display()
        );
        let hint = match commit {
            Some(commit) => format!(
                "`git worktree add ../{commit} {commit}` (or check it out) and `sidestack up` there; or use the newest revision: `sidestack up`"
            ),
            None => "put the files back as they were; or use the newest revision: `sidestack up`".to_owned(),
        };
        Ok(Error::new(Kind::Conflict, "build-changed", message).hint(hint))
    }

    /// Digests of files from the last reading of a folder.
    fn memo(&self, folder: &Path) -> Result<Memo> {
        let text = self.store.recall(&memo_key(folder))?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }

    /// Drops what is remembered of an instance's folder once no instance is of that folder any more.
    pub(crate) fn forget_folder(&self, instance: &Instance) -> Result<()> {
        let Some(folder) = &instance.checkout else { return Ok(()) };
        if self.store.instances()?.iter().any(|other| other.checkout.as_ref() == Some(folder)) {
            return Ok(());
        }
        self.store.forget(&format!("reading:{}:", folder.display()))?;
        self.store.forget(&memo_key(folder))?;
        Ok(())
    }

    /// The content of a revision.
    pub(crate) fn content(&self, environment_id: i64, number: RevisionNumber) -> Result<(Revision, Content)> {
        let revision = self.store.revision(environment_id, number)?;
        let content = content_of(&revision)?;
        Ok((revision, content))
    }
}

/// Mounted files that an instance's folder lacks and that the main worktree has, see [`source::MainTree`].
fn borrowed(folder: Option<&Path>, draft: &Draft) -> BTreeMap<String, String> {
    let Some(folder) = folder else { return BTreeMap::new() };
    let places = draft.mounted_files().map(|path| (path, source::placed(path, folder)));
    let mut missing = places.filter(|(_, place)| !place.exists()).peekable();
    // In most folders nothing is missing, and then git is not asked.
    let tree = missing.peek().and_then(|_| source::MainTree::at(folder));
    let Some(tree) = tree else { return BTreeMap::new() };
    missing.filter_map(|(path, place)| Some((path.to_owned(), tree.find(&place)?.display().to_string()))).collect()
}

/// What a person wrote, by path and digest: the manifest, the stack's modules and the compose files. Files of values
/// (`.env`, `env_file`) are not among them: they may hold secrets, which are never hashed plainly.
pub(crate) fn written_files(inputs: &source::Inputs, folder: &Path) -> String {
    let yaml = |path: &Path| path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    let files = inputs.files.iter().filter(|(path, _)| yaml(path)).filter_map(|(path, digest)| {
        let path = path.strip_prefix(folder).unwrap_or(path);
        Some((path.display().to_string(), serde_json::Value::from(digest.as_deref()?)))
    });
    sidestack_topology::revision::canonical(&serde_json::Value::Object(files.collect()))
}

/// A revision's text as content.
pub(crate) fn content_of(revision: &Revision) -> Result<Content> {
    Content::from_json(&revision.content)
        .map_err(|error| Error::new(Kind::Failed, "revision", format!("{} cannot be read: {error}", revision.number)))
}

/// The draft of a stored revision. Its modules are its own, whatever the
/// catalogue of this version says.
pub(crate) fn drafted(content: &Content) -> Result<Draft> {
    let mut modules = BTreeMap::new();
    for (name, text) in &content.modules {
        let module = match catalog::builtin().get(name) {
            Some(entry) if entry.text == *text => entry.module.clone(),
            _ => catalog::parse(&format!("{name}.yaml"), text).map_err(Error::invalid)?,
        };
        modules.insert(name.clone(), module);
    }
    let model = model_of(content)?;
    let input = Input {
        manifest: &content.manifest,
        modules: &modules,
        model: model.as_ref(),
        builds: &content.builds,
        templates: &content.templates,
        interpolation: &content.interpolation,
        profiles: &content.profiles,
    };
    let (draft, faults) = planner::draft(input);
    if has_errors(&faults) { Err(Error::invalid(faults)) } else { Ok(draft) }
}

pub(crate) fn model_of(content: &Content) -> Result<Option<Project>> {
    let Some(model) = &content.model else { return Ok(None) };
    serde_json::from_value(model.clone()).map(Some).map_err(|error| {
        Error::new(Kind::Failed, "revision", format!("the compose model of the revision cannot be read: {error}"))
    })
}

/// The catalogue and the stack's own modules, which win.
fn modules_of(stack: &Stack, faults: &mut Vec<Diagnostic>) -> BTreeMap<String, (Module, String)> {
    let mut modules: BTreeMap<String, (Module, String)> = catalog::builtin()
        .iter()
        .map(|entry| (entry.module.name.clone(), (entry.module.clone(), entry.text.clone())))
        .collect();
    for (name, (file, text)) in &stack.modules {
        match catalog::parse(file, text) {
            Ok(module) if module.name != *name => {
                let message = format!("`{file}` is called `{name}`, the module in it `{}`", module.name);
                faults.push(Diagnostic::error(&["name"], message).located(file, text).hint("give both the same name"));
            }
            Ok(module) => {
                modules.insert(name.clone(), (module, text.clone()));
            }
            Err(found) => faults.extend(found),
        }
    }
    modules
}

fn memo_key(folder: &Path) -> String {
    // With an end of its own, so that it is no beginning of another folder's.
    format!("contexts:{}:", folder.display())
}

/// A workspace is called after its folder; in a linked worktree, after the main one.
pub(crate) fn workspace_name(checkout: &Checkout) -> Result<WorkspaceName> {
    let folder = checkout
        .repository
        .as_ref()
        .filter(|repository| repository.linked)
        .and_then(|repository| {
            let within = checkout.folder.strip_prefix(&repository.root).ok()?;
            Some(repository.main_root.as_ref()?.join(within))
        })
        .unwrap_or_else(|| checkout.folder.clone());
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (name, _) = names::derive(&name, "stack");
    name.parse().map_err(|error: names::NameError| Error::new(Kind::Usage, "name", error.to_string()))
}
