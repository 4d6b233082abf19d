//! Worktrees that Sidestack makes: `up --git REF` runs the code of a commit from one, and `rm` removes it with its
//! instance.
//!
//! Each instance has a worktree of its own, detached, under the store's home. It is moved in place when its REF has
//! moved on, so that paths, and with them containers, stay. Whoever makes, moves or removes one holds its lock, which is
//! taken before the instance's. What git does not know of is never thrown away in silence.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sidestack_state::Instance;
use sidestack_topology::manifest::{self, Document};
use sidestack_topology::names::{self, InstanceName, MAX_DERIVED};

use crate::api::UpRequest;
use crate::error::{Error, Kind, Result};
use crate::files;
use crate::lock::{InstanceLock, LockError};
use crate::session::Session;
use crate::source::{self, Checkout, Repository, SourceError};

/// How long is waited for whoever works on the same worktree.
const LOCK: Duration = Duration::from_secs(120);
const SLICE: Duration = Duration::from_millis(200);
/// The beginning of the names of worktrees that are looked at only.
const PLAN: &str = ".plan-";
/// How many files a refusal names.
const NAMED: usize = 3;

/// A commit, and where it runs.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    reference: String,
    commit: String,
    repository: Repository,
    /// The stack's folder in the work tree.
    within: PathBuf,
    /// Where it is typed, in the work tree.
    from: PathBuf,
    /// The instance.
    pub(crate) name: InstanceName,
    /// The worktree.
    folder: PathBuf,
}

/// What was done to a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Made,
    /// From that commit.
    Moved(String),
}

/// A worktree that is at its commit, and locked.
pub(crate) struct Managed {
    pub(crate) wanted: Wanted,
    /// The stack in it.
    pub(crate) checkout: Checkout,
    change: Option<Change>,
    lock: InstanceLock,
}

impl Wanted {
    /// The stack's folder in the worktree.
    pub(crate) fn checkout_folder(&self) -> PathBuf {
        joined(&self.folder, &self.within)
    }

    /// Where paths of the command line start, in the worktree of a root.
    fn base(&self, root: &Path) -> PathBuf {
        joined(root, &self.from)
    }
}

impl Managed {
    /// Whether this call made it.
    pub(crate) fn is_made(&self) -> bool {
        self.change == Some(Change::Made)
    }

    /// It stays as it is, whatever comes.
    pub(crate) fn keep(&mut self) {
        self.change = None;
    }

    /// Where paths of the command line start.
    pub(crate) fn base(&self) -> PathBuf {
        self.wanted.base(&self.wanted.folder)
    }
}

/// A worktree for looking at, gone when it is dropped.
pub(crate) struct Glimpse {
    common_dir: PathBuf,
    folder: PathBuf,
    pub(crate) checkout: Checkout,
    pub(crate) base: PathBuf,
    temporary: bool,
}

impl Drop for Glimpse {
    fn drop(&mut self) {
        if self.temporary {
            let _ = unmake(&self.common_dir, &self.folder);
        }
    }
}

impl Session {
    /// What `--git` asks for; `None` without it.
    ///
    /// # Errors
    /// No repository; git's own reason for a reference that is none.
    pub(crate) fn wanted(&self, request: &UpRequest) -> Result<Option<Wanted>> {
        let Some(reference) = &request.git else { return Ok(None) };
        let Some(repository) = source::repository_of(&self.folder) else {
            let message = format!("`{}` is in no git repository, so it has no commit to run", self.folder.display());
            return Err(Error::new(Kind::NotFound, "no-repository", message).hint("go to the repository's folder"));
        };
        let text = format!("{reference}^{{commit}}");
        let found = match reference.starts_with('-') {
            true => Err("a reference does not begin with `-`".to_owned()),
            false => self.git(&["-C".as_ref(), repository.root.as_ref(), "rev-parse".as_ref(), text.as_ref()])?,
        };
        let commit = found.map_err(|why| {
            Error::new(Kind::NotFound, "no-commit", format!("git knows no commit `{reference}`: {why}"))
                .hint("`git fetch` gets what is not here yet; `git branch -a` and `git tag` list what there is")
        })?;
        let canonical = fs::canonicalize(&self.folder).unwrap_or_else(|_| self.folder.clone());
        let inside = |folder: &Path| folder.strip_prefix(&repository.root).unwrap_or(Path::new("")).to_owned();
        let from = inside(&canonical);
        // The commit may have its stack where nothing is now.
        let within = self.checkout().map_or_else(|_| from.clone(), |checkout| inside(&checkout.folder));
        let environment = match &request.target.environment {
            Some(name) => name.clone(),
            None => self.environment_at(&repository, &commit, &within)?,
        };
        let identity = repository.identity(&within);
        let (name, folder) = self.place_of(reference, &commit, &repository, &identity, &environment)?;
        Ok(Some(Wanted { reference: reference.clone(), commit, repository, within, from, name, folder }))
    }

    /// The environment that the manifest of a commit means when none is named.
    fn environment_at(&self, repository: &Repository, commit: &str, within: &Path) -> Result<String> {
        let path = within.join(manifest::FILE);
        let object = format!("{commit}:{}", path.display());
        let text = self.git(&["-C".as_ref(), repository.root.as_ref(), "show".as_ref(), object.as_ref()])?;
        let Ok(text) = text else { return Ok(manifest::DEFAULT_ENVIRONMENT.to_owned()) };
        let document =
            Document::parse(manifest::FILE, text.as_bytes()).and_then(|document| document.default_environment());
        document.map_err(|fault| Error::invalid(vec![fault]))
    }

    /// The instance for a reference and its worktree: the one that it has, else one whose name is free.
    fn place_of(
        &self,
        reference: &str,
        commit: &str,
        repository: &Repository,
        identity: &str,
        environment: &str,
    ) -> Result<(InstanceName, PathBuf)> {
        let main = repository.main_root.as_deref().unwrap_or(&repository.common_dir);
        let stem = main.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let (stem, _) = names::derive(&stem, "stack");
        let digest = sidestack_state::digest_of(identity);
        let home = self.worktrees().join(format!("{stem}-{}", &digest[..8])).join(environment);
        let known = match self.store.workspace_by_identity(identity)? {
            Some(workspace) => {
                self.store.environments(workspace.id)?.into_iter().find(|one| one.name.as_str() == environment)
            }
            None => None,
        };
        let mut free = None;
        for name in instance_names(reference, commit) {
            let folder = home.join(name.as_str());
            let there = match &known {
                Some(environment) => self.store.instance(environment.id, &name)?,
                None => None,
            };
            match there {
                Some(instance) if instance.checkout.as_ref().is_some_and(|own| own.starts_with(&folder)) => {
                    return Ok((name, folder));
                }
                Some(_) => {}
                None => free = free.or(Some((name, folder))),
            }
        }
        free.ok_or_else(|| {
            Error::new(Kind::Conflict, "exists", format!("the names for `{reference}` belong to other instances"))
                .hint("`sidestack ls` lists them; a tag or a branch of another name makes another instance")
        })
    }

    /// The worktree, made or moved to its commit.
    ///
    /// # Errors
    /// Git's own reason; changes in the worktree that a move would lose; no stack at that commit.
    pub(crate) fn managed(&self, wanted: Wanted, request: &UpRequest) -> Result<Managed> {
        let lock = self.lock_worktree(&wanted.folder)?;
        let change = self.bring(&wanted)?;
        match self.stack_in(&wanted, &wanted.folder, request) {
            Ok(checkout) => Ok(Managed { wanted, checkout, change, lock }),
            Err(error) => {
                self.undo_change(&wanted, change, &lock);
                Err(error)
            }
        }
    }

    fn bring(&self, wanted: &Wanted) -> Result<Option<Change>> {
        let folder = &wanted.folder;
        let root: &Path = &wanted.repository.root;
        if !folder.exists() {
            if let Some(parent) = folder.parent() {
                files::create_private_dir(parent)?;
            }
            self.make(root, folder, &wanted.commit)?;
            return Ok(Some(Change::Made));
        }
        let own = source::repository_of(folder).filter(|own| {
            own.common_dir == wanted.repository.common_dir
                && own.linked
                && fs::canonicalize(folder).is_ok_and(|f| f == own.root)
        });
        let Some(own) = own else {
            let message = format!("`{}` is in the way: it is no worktree of this repository", folder.display());
            return Err(Error::new(Kind::Conflict, "worktree", message).hint("remove the folder, or move it away"));
        };
        let before = own.commit.unwrap_or_default();
        if before == wanted.commit {
            return Ok(None);
        }
        let changed = self.changes(folder, false)?;
        if !changed.is_empty() {
            return Err(dirty(folder, &changed, &format!("so it is not moved to `{}`", wanted.reference))
                .hint("commit them to a branch there, or `git stash` or `git restore` them"));
        }
        self.check_cancelled()?;
        if let Err(error) = check_out(folder, &wanted.commit, false) {
            // One that was ended in the middle left half of both.
            let _ = check_out(folder, &before, true);
            self.check_cancelled()?;
            return Err(error);
        }
        self.note(format!("{} is moved from commit {} to {}", wanted.name, short(&before), short(&wanted.commit)));
        Ok(Some(Change::Moved(before)))
    }

    fn make(&self, root: &Path, folder: &Path, commit: &str) -> Result<()> {
        // By force, since one whose folder was deleted by hand is still on git's list.
        let words = ["worktree", "add", "--quiet", "--force", "--detach"].map(AsRef::as_ref);
        let words = [&["-C".as_ref(), root.as_os_str()][..], &words, &[folder.as_os_str(), commit.as_ref()]].concat();
        let made = self.git(&words).and_then(|made| {
            made.map(drop).map_err(|why| {
                let message = format!("git cannot make a worktree of commit {}: {why}", short(commit));
                Error::new(Kind::Failed, "worktree", message)
            })
        });
        if made.is_err() {
            let _ = source::repository_of(root).map(|own| unmake(&own.common_dir, folder));
        }
        made?;
        if folder.join(".gitmodules").exists() {
            self.warn(format!("the worktree of commit {} has no submodules checked out", short(commit)));
        }
        Ok(())
    }

    fn stack_in(&self, wanted: &Wanted, root: &Path, request: &UpRequest) -> Result<Checkout> {
        let folder = joined(root, &wanted.within);
        let none = |why: &str| {
            let message = format!("commit {} has no stack in `{}`: {why}", short(&wanted.commit), wanted.shown());
            Error::new(Kind::NotFound, "no-stack", message)
                .hint("run it where its stack is, or name its files with `-f`")
        };
        if !folder.is_dir() {
            return Err(none("there is no such folder"));
        }
        let found = if request.files.is_empty() { source::checkout(&folder) } else { source::checkout_at(&folder) };
        let expected = fs::canonicalize(&folder).unwrap_or(folder);
        match found {
            Ok(checkout) if checkout.folder == expected => Ok(checkout),
            Ok(_) | Err(SourceError::NotFound { .. }) => Err(none("it has neither a manifest nor a compose file")),
            Err(error) => Err(error.into()),
        }
    }

    /// A stack at a commit, for `plan`: out of the worktree that is there, else out of one that goes again.
    pub(crate) fn glimpse(&self, wanted: &Wanted, request: &UpRequest) -> Result<Glimpse> {
        let common_dir = wanted.repository.common_dir.clone();
        let there = source::repository_of(&wanted.folder)
            .is_some_and(|own| own.linked && own.commit.as_ref() == Some(&wanted.commit));
        let (folder, temporary) = if there {
            (wanted.folder.clone(), false)
        } else {
            files::create_private_dir(&self.worktrees())?;
            self.sweep(&common_dir);
            let folder = tempfile::Builder::new().prefix(PLAN).tempdir_in(self.worktrees()).map_err(|cause| {
                Error::new(Kind::Failed, "worktree", format!("no folder can be made for a worktree: {cause}"))
            })?;
            let folder = folder.keep();
            self.make(&wanted.repository.root, &folder, &wanted.commit)?;
            (folder, true)
        };
        let base = wanted.base(&folder);
        match self.stack_in(wanted, &folder, request) {
            Ok(checkout) => Ok(Glimpse { common_dir, folder, checkout, base, temporary }),
            Err(error) => {
                if temporary {
                    let _ = unmake(&common_dir, &folder);
                }
                Err(error)
            }
        }
    }

    /// Removes what a `plan` that was killed left. One that is under way is younger.
    fn sweep(&self, common_dir: &Path) {
        const OLD: Duration = Duration::from_secs(3600);
        for entry in fs::read_dir(self.worktrees()).into_iter().flatten().flatten() {
            let age = entry.metadata().and_then(|meta| meta.modified()).ok().and_then(|time| time.elapsed().ok());
            if entry.file_name().to_string_lossy().starts_with(PLAN) && age.is_some_and(|age| age > OLD) {
                let _ = unmake(common_dir, &entry.path());
            }
        }
    }

    /// Puts a worktree back as it was before this call.
    pub(crate) fn undo(&self, managed: &mut Managed) {
        let change = managed.change.take();
        self.undo_change(&managed.wanted, change, &managed.lock);
    }

    fn undo_change(&self, wanted: &Wanted, change: Option<Change>, lock: &InstanceLock) {
        let result = match change {
            None => return,
            Some(Change::Made) => {
                let _ = fs::remove_file(lock.path());
                unmake(&wanted.repository.common_dir, &wanted.folder)
            }
            Some(Change::Moved(before)) => check_out(&wanted.folder, &before, false),
        };
        if let Err(error) = result {
            self.warn(error.message);
        }
    }

    /// Where worktrees are made.
    fn worktrees(&self) -> PathBuf {
        self.store.home().join("worktrees")
    }

    /// The worktree of an instance's that Sidestack made, if it is one.
    pub(crate) fn worktree_of(&self, instance: &Instance) -> Option<PathBuf> {
        let checkout = instance.checkout.as_deref()?;
        // Home may be named through a link, as a folder never is.
        let roots = [fs::canonicalize(self.worktrees()).ok(), Some(self.worktrees())];
        roots.into_iter().flatten().find_map(|root| {
            let inside = checkout.strip_prefix(&root).ok()?;
            // REPOSITORY/ENVIRONMENT/INSTANCE
            let own: PathBuf = inside.components().take(3).collect();
            (own.components().count() == 3).then(|| root.join(own))
        })
    }

    /// The lock of an instance's worktree, taken before what is in it is removed; nothing for other instances.
    ///
    /// # Errors
    /// What git does not know of and would be lost, unless it may be.
    pub(crate) fn releasing(&self, instance: &Instance, volumes: bool, force: bool) -> Result<Option<InstanceLock>> {
        let Some(folder) = self.worktree_of(instance) else { return Ok(None) };
        let lock = self.lock_worktree(&folder)?;
        if !force && folder.is_dir() {
            let changed = self.changes(&folder, true)?;
            if !changed.is_empty() {
                let error = dirty(&folder, &changed, "and would be lost");
                let hint = format!(
                    "commit them to a branch there, or `sidestack rm {} --yes` throws them away",
                    instance.target
                );
                return Err(error.hint(hint).about(&instance.target));
            }
            let ignored = if volumes { Vec::new() } else { self.ignored(&folder)? };
            if !ignored.is_empty() {
                let message = format!("`{}` holds files that git ignores: {}", folder.display(), listed(&ignored));
                let hint = format!("`sidestack rm {} --volumes` removes them, as it does all data", instance.target);
                return Err(Error::new(Kind::Conflict, "worktree-dirty", message).hint(hint).about(&instance.target));
            }
        }
        Ok(Some(lock))
    }

    /// Removes the worktree that Sidestack made for an instance, if it did.
    ///
    /// # Errors
    /// When it cannot be removed, such as files that a container's root wrote.
    pub(crate) fn release(&self, instance: &Instance) -> Result<()> {
        let Some(folder) = self.worktree_of(instance) else { return Ok(()) };
        let shared = self.store.instances()?.iter().any(|other| {
            other.id != instance.id && other.checkout.as_ref().is_some_and(|own| own.starts_with(&folder))
        });
        if shared {
            return Ok(());
        }
        // The folder may be gone, and the repository too: then what is left is ours alone.
        match self.common_dir(instance)?.filter(|common| common.is_dir()) {
            Some(common) => unmake(&common, &folder)?,
            None => remove_folder(&folder)?,
        }
        // The folders above go with the last one in them.
        for above in folder.ancestors().skip(1).take(2) {
            let _ = fs::remove_dir(above);
        }
        Ok(())
    }

    /// The git directory of an instance's repository, as its workspace has it.
    fn common_dir(&self, instance: &Instance) -> Result<Option<PathBuf>> {
        let identity = self.store.workspace(&instance.target.workspace)?.identity;
        let common = identity.strip_prefix("git:").and_then(|rest| rest.rsplit_once(':')).map(|(common, _)| common);
        Ok(common.map(PathBuf::from))
    }

    /// Files that differ from the commit, with `untracked` those that git neither tracks nor ignores too.
    fn changes(&self, folder: &Path, untracked: bool) -> Result<Vec<String>> {
        self.status(folder, if untracked { "--untracked-files=normal" } else { "--untracked-files=no" }, "--ignored=no")
    }

    fn ignored(&self, folder: &Path) -> Result<Vec<String>> {
        self.status(folder, "--untracked-files=normal", "--ignored")
    }

    fn status(&self, folder: &Path, untracked: &str, ignored: &str) -> Result<Vec<String>> {
        let words = ["status", "--porcelain", "-z", untracked, ignored].map(AsRef::as_ref);
        let text =
            self.git(&[&["--no-optional-locks".as_ref(), "-C".as_ref(), folder.as_os_str()][..], &words].concat())?;
        let text = text.map_err(|why| {
            Error::new(
                Kind::Failed,
                "worktree",
                format!("git cannot say what changed in `{}`: {why}", folder.display()),
            )
        })?;
        Ok(text.split('\0').filter_map(|entry| entry.get(3..)).map(str::to_owned).collect())
    }

    /// Runs git; its output, or its reason.
    fn git(&self, words: &[&OsStr]) -> Result<std::result::Result<String, String>> {
        self.check_cancelled()?;
        let said = run(words);
        // It ended because of the Ctrl-C, which says more than its reason.
        self.check_cancelled()?;
        said
    }

    fn lock_worktree(&self, folder: &Path) -> Result<InstanceLock> {
        let digest = sidestack_state::digest_of(&folder.display().to_string());
        let path = self.lock_file(&format!("worktree-{}", &digest[..16]));
        if let Some(parent) = path.parent() {
            files::create_private_dir(parent)?;
        }
        let began = Instant::now();
        loop {
            let mut told = |holder: &str| self.note(format!("waiting for {holder}, which works on the same worktree"));
            match InstanceLock::acquire(&path, "up --git", SLICE, &mut told) {
                Ok(lock) => return Ok(lock),
                Err(LockError::Held { .. }) if began.elapsed() < LOCK => self.check_cancelled()?,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Wanted {
    fn shown(&self) -> String {
        if self.within.as_os_str().is_empty() { ".".to_owned() } else { self.within.display().to_string() }
    }
}

/// A path without a slash at its end.
fn joined(root: &Path, within: &Path) -> PathBuf {
    if within.as_os_str().is_empty() { root.to_owned() } else { root.join(within) }
}

/// The names that an instance for a reference may have, the best first. A commit by its number is called after it,
/// however much of it was typed; everything else as worktrees of branches are.
fn instance_names(reference: &str, commit: &str) -> Vec<InstanceName> {
    let hex = reference.len() >= 4 && commit.starts_with(&reference.to_ascii_lowercase());
    let original = if hex { format!("c{}", short(commit)) } else { reference.to_owned() };
    let (stem, _) = names::derive(&original, "commit");
    let cut: String = stem.chars().take(MAX_DERIVED - 5).collect();
    // A worktree of a person's own has the first, so there is another.
    let digest = sidestack_state::digest_of(&format!("git:{original}"));
    let other = format!("{}-{}", cut.trim_end_matches('-'), &digest[..4]);
    std::iter::once(source::name_after(&original, "commit")).chain(other.parse()).collect()
}

/// Removes a worktree with all that is in it.
fn unmake(common_dir: &Path, folder: &Path) -> Result<()> {
    let in_repository = |words: &[&OsStr]| run(&[&["--git-dir".as_ref(), common_dir.as_os_str()][..], words].concat());
    // What git cannot remove is removed as a folder, and then git forgets it.
    let _ = in_repository(&["worktree".as_ref(), "remove".as_ref(), "--force".as_ref(), folder.as_os_str()])?;
    remove_folder(folder)?;
    let _ = in_repository(&["worktree".as_ref(), "prune".as_ref()])?;
    Ok(())
}

/// Moves a worktree. By force what is in the way goes, whoever put it there.
fn check_out(folder: &Path, commit: &str, force: bool) -> Result<()> {
    let words: &[&str] = if force { &["--force", "--detach", commit] } else { &["--detach", commit] };
    let words: Vec<&OsStr> = ["checkout", "--quiet"].iter().chain(words).map(AsRef::as_ref).collect();
    run(&[&["-C".as_ref(), folder.as_os_str()][..], &words].concat())?.map(drop).map_err(|why| {
        let message = format!("git cannot move `{}` to commit {}: {why}", folder.display(), short(commit));
        Error::new(Kind::Failed, "worktree", message)
    })
}

/// Runs git, without looking at whether that is still wanted; its output, or its reason.
fn run(words: &[&OsStr]) -> Result<std::result::Result<String, String>> {
    let mut command = Command::new("git");
    // Nothing that the repository names is run: neither hooks nor its file-system monitor.
    command.args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "advice.detachedHead=false"]);
    command.args(words).stdin(Stdio::null());
    for key in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"] {
        command.env_remove(key);
    }
    // Its reasons are passed on, so they are wanted in one language.
    command.env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0");
    // A Ctrl-C at the terminal reaches git by itself.
    let output = command.output().map_err(|cause| {
        Error::new(Kind::Failed, "git", format!("git cannot be run: {cause}")).hint("`--git` needs git, 2.17 or later")
    })?;
    if output.status.success() {
        return Ok(Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned()));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.clone().find_map(|line| line.strip_prefix("fatal: ").or(line.strip_prefix("error: ")));
    let why = first.or_else(|| lines.next_back()).unwrap_or("it gave no reason");
    Ok(Err(why.chars().filter(|c| !c.is_control()).collect()))
}

fn short(commit: &str) -> &str {
    &commit[..commit.len().min(8)]
}

fn listed(files: &[String]) -> String {
    let named =
        files.iter().take(NAMED).map(|file| format!("`{}`", file.escape_debug())).collect::<Vec<_>>().join(", ");
    match files.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn dirty(folder: &Path, changed: &[String], so: &str) -> Error {
    let message = format!("`{}` has changes that were not committed, {so}: {}", folder.display(), listed(changed));
    Error::new(Kind::Conflict, "worktree-dirty", message)
}

fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Ok(()) => Ok(()),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(cause) => {
            let message = format!("the worktree `{}` cannot be removed: {cause}", folder.display());
            Err(Error::new(Kind::Failed, "worktree", message)
                .hint("files that a container wrote as root go with `sudo rm -r`; then `sidestack rm` again"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_called_after_its_reference() {
        let commit = "3f2a9c1d00112233445566778899aabbccddeeff";
        let names = |reference: &str| {
            instance_names(reference, commit).iter().map(|name| name.as_str().to_owned()).collect::<Vec<_>>()
        };
        let first = |reference: &str| names(reference).remove(0);
        assert_eq!(first("prices"), "prices");
        assert!(names("prices")[1].starts_with("prices-"), "{:?}", names("prices"));
        // One commit is one instance, however it is written.
        assert_eq!(first("3f2a9c1d"), "c3f2a9c1d");
        assert_eq!(names("3F2A"), names(commit));
        assert!(names("feature/x").iter().all(|name| name.starts_with("feature-x-")), "{:?}", names("feature/x"));
        assert_ne!(names("feature/x")[0], names("feature/x")[1], "a worktree of that branch has the first");
        for (reference, start) in
            [("main", "main-"), ("r3", "r3-"), ("feature/Ü-prices", "feature-"), ("v1.2", "v1-2-")]
        {
            let name = first(reference);
            assert!(name.starts_with(start) && name.len() <= MAX_DERIVED, "{name}");
        }
        assert_ne!(first("v1.2"), first("v1_2"));
        assert!(instance_names("HEAD~2", commit).iter().all(|name| !name.is_reserved()));
    }

    #[test]
    fn a_refusal_names_some_files() {
        let files: Vec<String> = ["a", "b\n", "c", "d", "e"].map(str::to_owned).into();
        assert_eq!(listed(&files[..1]), "`a`");
        assert_eq!(listed(&files), "`a`, `b\\n`, `c` and 2 more");
    }
}
