//! What git says of a folder, read from its files.
//!
//! Git itself is run only for what its files do not tell simply: whether tracked files were changed, and branches kept
//! in the `reftable` format. Nothing that the repository's configuration names is run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use sha2::{Digest, Sha256};
use sidestack_topology::manifest;
use sidestack_topology::names::{InstanceName, MAX_DERIVED, derive};
use tokio::process::Command;

use super::SourceError;
use super::discover::DEFAULT_FILES;

/// A folder with a stack in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    /// The stack's folder, canonical.
    pub folder: PathBuf,
    /// What makes two folders checkouts of one stack: the git common directory and the stack's path in the work tree,
    /// `git:/home/me/shop/.git:deploy`; without git the folder, `folder:/home/me/shop`.
    pub identity: String,
    /// The repository, if it is in one.
    pub repository: Option<Repository>,
}

/// A work tree of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// The work tree's root, canonical.
    pub root: PathBuf,
    /// This work tree's own git directory.
    pub git_dir: PathBuf,
    /// The git directory that all work trees share.
    pub common_dir: PathBuf,
    /// Whether it is a linked work tree (`git worktree add`).
    pub linked: bool,
    /// The root of the main work tree; `None` when the repository is bare.
    pub main_root: Option<PathBuf>,
    /// The branch; `None` when detached.
    pub branch: Option<String>,
    /// The commit; `None` before the first one.
    pub commit: Option<String>,
}

impl Repository {
    /// What a stack at `within` of its root is known by, in every work tree.
    pub(crate) fn identity(&self, within: &Path) -> String {
        format!("git:{}:{}", self.common_dir.display(), within.display())
    }
}

impl Checkout {
    /// The stack's folder relative to the work tree's root; empty at the root and without git.
    pub fn path_in_work_tree(&self) -> PathBuf {
        let inside = self.repository.as_ref().and_then(|r| self.folder.strip_prefix(&r.root).ok());
        inside.unwrap_or(Path::new("")).to_owned()
    }

    /// The same stack's folder in the main work tree, when this is a linked one.
    pub fn in_main_work_tree(&self) -> Option<PathBuf> {
        let repository = self.repository.as_ref().filter(|r| r.linked)?;
        Some(repository.main_root.as_ref()?.join(self.path_in_work_tree()))
    }
}

/// Finds the stack that `start` lies in: the nearest folder, upwards, with a manifest or a compose file. The search ends
/// at the work tree's root, without git at the file system's.
///
/// # Errors
/// [`SourceError::NotFound`]; [`SourceError::Io`] when `start` does not exist.
pub fn checkout(start: &Path) -> Result<Checkout, SourceError> {
    let canonical = fs::canonicalize(start).map_err(|cause| SourceError::Io {
        action: "find the folder",
        path: start.to_owned(),
        cause,
    })?;
    let repository = repository(&canonical);
    let has_stack =
        |folder: &Path| std::iter::once(manifest::FILE).chain(DEFAULT_FILES).any(|name| folder.join(name).is_file());
    let within = |folder: &&Path| repository.as_ref().is_none_or(|r| folder.starts_with(&r.root));
    let Some(folder) = canonical.ancestors().take_while(within).find(|folder| has_stack(folder)) else {
        return Err(SourceError::NotFound {
            start: start.to_owned(),
            looked_for: format!("`{}` nor `{}`", manifest::FILE, DEFAULT_FILES.join("` nor `")),
        });
    };
    made(folder.to_owned(), repository)
}

/// The checkout of exactly this folder, whether or not it has a file of a known name: files may be named otherwise.
///
/// # Errors
/// [`SourceError::Io`] when it does not exist.
pub fn checkout_at(folder: &Path) -> Result<Checkout, SourceError> {
    let canonical = fs::canonicalize(folder).map_err(|cause| SourceError::Io {
        action: "find the folder",
        path: folder.to_owned(),
        cause,
    })?;
    let repository = repository(&canonical);
    made(canonical, repository)
}

fn made(folder: PathBuf, repository: Option<Repository>) -> Result<Checkout, SourceError> {
    if folder.to_str().is_none() {
        return Err(SourceError::NotUtf8(folder));
    }
    let identity = match &repository {
        Some(r) => r.identity(folder.strip_prefix(&r.root).unwrap_or(Path::new(""))),
        None => format!("folder:{}", folder.display()),
    };
    Ok(Checkout { folder, identity, repository })
}

/// The name that an instance of this checkout has: `main` for a main work tree and without git; for a linked one a name
/// made from its branch, or from its root folder when detached. One that had to be altered, or that is reserved, ends in
/// four hex digits of what it was made from.
pub fn instance_name(checkout: &Checkout) -> InstanceName {
    let Some(repository) = checkout.repository.as_ref().filter(|r| r.linked) else {
        return InstanceName::main();
    };
    let folder = repository.root.file_name().map(|name| name.to_string_lossy().into_owned());
    name_after(&repository.branch.clone().or(folder).unwrap_or_default(), "worktree")
}

/// A name made from a text. One that had to be altered, or that is reserved, ends in four hex digits of the text.
pub fn name_after(original: &str, fallback: &str) -> InstanceName {
    let (name, altered) = derive(original, fallback);
    let plain: Option<InstanceName> = name.parse().ok();
    match plain {
        Some(plain) if !altered && !plain.is_reserved() => plain,
        _ => {
            let short: String = name.chars().take(MAX_DERIVED - 5).collect();
            let hash = Sha256::digest(original.as_bytes());
            let name = format!("{}-{:02x}{:02x}", short.trim_end_matches('-'), hash[0], hash[1]);
            // `derive` gives a name, and a name stays one with digits after it.
            name.parse().unwrap_or_else(|_| InstanceName::main())
        }
    }
}

/// The repository that a folder is a work tree of, or lies in.
pub fn repository_of(folder: &Path) -> Option<Repository> {
    repository(&fs::canonicalize(folder).ok()?)
}

/// The branch that a folder is on now, whether or not there is a stack in it.
pub fn branch(folder: &Path) -> Option<String> {
    repository(&fs::canonicalize(folder).ok()?)?.branch
}

/// Whether tracked files differ from the commit, as `git status` has it. `None` when git is absent, fails, or takes
/// longer than `limit`.
pub async fn dirty(repository: &Repository, limit: Duration) -> Option<bool> {
    let output = git(&repository.root, &["status", "--porcelain", "--untracked-files=no"], limit).await?;
    Some(!output.is_empty())
}

/// Runs git in a work tree; its output, or `None` when it fails.
async fn git(root: &Path, args: &[&str], limit: Duration) -> Option<Vec<u8>> {
    let child = Command::new("git")
        // No lock on the index, no hook of the repository's file-system monitor.
        .args(["--no-optional-locks", "-c", "core.fsmonitor=false", "-C"])
        .arg(root)
        .args(args)
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(limit, child).await.ok()?.ok()?;
    output.status.success().then_some(output.stdout)
}

/// The repository that a canonical folder is a work tree of, or lies in.
pub(super) fn repository(folder: &Path) -> Option<Repository> {
    let (root, git_dir) = folder.ancestors().find_map(|at| Some((at, git_dir(at)?)))?;
    let (common_dir, linked) = match small(&git_dir.join("commondir")) {
        Some(text) => (fs::canonicalize(git_dir.join(text.trim_end())).ok()?, true),
        None => (git_dir.clone(), false),
    };
    let main_root = if linked { main_root(&common_dir) } else { Some(root.to_owned()) };
    let head = small(&git_dir.join("HEAD")).unwrap_or_default();
    let (branch, commit) = match head.trim_end().strip_prefix("ref:").map(str::trim) {
        Some("refs/heads/.invalid") => reftable(root),
        Some(reference) => {
            (reference.strip_prefix("refs/heads/").map(str::to_owned), resolve(&git_dir, &common_dir, reference))
        }
        None => (None, object_id(&head)),
    };
    Some(Repository { root: root.to_owned(), git_dir, common_dir, linked, main_root, branch, commit })
}

/// The git directory that a work tree's root points to.
fn git_dir(root: &Path) -> Option<PathBuf> {
    let entry = root.join(".git");
    let meta = fs::metadata(&entry).ok()?;
    let place = if meta.is_dir() { entry } else { root.join(small(&entry)?.strip_prefix("gitdir:")?.trim()) };
    // An empty folder called `.git` is none.
    place.join("HEAD").symlink_metadata().ok()?;
    fs::canonicalize(place).ok()
}

/// The main work tree that a shared git directory belongs to.
fn main_root(common_dir: &Path) -> Option<PathBuf> {
    let config = small(&common_dir.join("config")).unwrap_or_default();
    let core = || {
        config
            .lines()
            .map(str::trim)
            .skip_while(|line| !line.eq_ignore_ascii_case("[core]"))
            .skip(1)
            .take_while(|line| !line.starts_with('['))
            .filter_map(|line| line.split_once('='))
            .map(|(key, value)| (key.trim().to_ascii_lowercase(), value.trim().trim_matches('"')))
    };
    if let Some((_, root)) = core().find(|(key, _)| key == "worktree") {
        return fs::canonicalize(common_dir.join(root)).ok();
    }
    let bare = core().any(|(key, value)| key == "bare" && value.eq_ignore_ascii_case("true"));
    let named = common_dir.file_name().is_some_and(|name| name == ".git");
    common_dir.parent().filter(|_| named && !bare).map(Path::to_owned)
}

/// The object a reference leads to, loose or packed.
fn resolve(git_dir: &Path, common_dir: &Path, reference: &str) -> Option<String> {
    let mut reference = reference.to_owned();
    // References may lead to references; git itself stops at five.
    for _ in 0..5 {
        if reference.split('/').any(|part| part.is_empty() || part == "..") {
            return None;
        }
        let loose = small(&git_dir.join(&reference)).or_else(|| small(&common_dir.join(&reference)));
        let Some(text) = loose else {
            let packed = fs::read_to_string(common_dir.join("packed-refs")).ok()?;
            let line = packed.lines().find(|line| line.split_once(' ').is_some_and(|(_, name)| name == reference))?;
            return object_id(line.split(' ').next()?);
        };
        match text.trim_end().strip_prefix("ref:") {
            Some(next) => reference = next.trim().to_owned(),
            None => return object_id(&text),
        }
    }
    None
}

/// Branch and commit from git itself, for a format that is not read here.
fn reftable(root: &Path) -> (Option<String>, Option<String>) {
    let ask = |args: &[&str]| {
        let output = std::process::Command::new("git")
            .arg("-C")
            .arg(root)
            .args(args)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let branch = ask(&["symbolic-ref", "--quiet", "--short", "HEAD"]);
    let commit = ask(&["rev-parse", "--verify", "--quiet", "HEAD"]).and_then(|text| object_id(&text));
    (branch, commit)
}

fn object_id(text: &str) -> Option<String> {
    let text = text.trim();
    let fits = matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
    fits.then(|| text.to_owned())
}

/// A small text file of git's; nothing when it is absent or not small.
fn small(path: &Path) -> Option<String> {
    let meta = fs::metadata(path).ok()?;
    if !meta.is_file() || meta.len() > 1 << 16 {
        return None;
    }
    fs::read_to_string(path).ok()
}
