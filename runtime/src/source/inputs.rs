//! The record of everything a reading looked at, and the check that all of it is as it was.
//!
//! Files are compared by content, since a size and a time can be kept through a change. Build contexts, which may be
//! large, are compared by what `stat` says of each file, with the change time that no program can set. Values of
//! variables are kept as an HMAC with the machine's key: they may be secrets, and the record is written to disk.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::context::{Folder, hex, hmac};
use super::git::Checkout;
use super::index::{self, WorkTree};
use super::main_tree::MainTree;

/// Larger files are not taken for something a stack is read from.
const MAX_FILE: u64 = 64 << 20;

/// Everything a reading looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inputs {
    /// Whether the record is complete. It is not when something was read that could not be followed, such as a compose
    /// file from a registry; [`Inputs::unchanged`] then always says no.
    pub sound: bool,
    /// Files by absolute path: SHA-256 of the content in hex; `None` for one that was absent and would be read if it
    /// existed.
    pub files: BTreeMap<PathBuf, Option<String>>,
    /// Folders by absolute path with the names in them that count; `None` for one that was absent.
    pub listings: BTreeMap<PathBuf, Option<BTreeSet<String>>>,
    /// Variables of the user's environment by name: HMAC-SHA-256 of the value in hex, `None` for one that was not set.
    pub variables: BTreeMap<String, Option<String>>,
    /// The work tree to ask for `tracked`; without one nothing is tracked.
    pub work_tree: Option<WorkTree>,
    /// Files whose being tracked by git decided something, and whether they were.
    pub tracked: BTreeMap<PathBuf, bool>,
    /// In a linked work tree, the main one to ask for `tracked_in_main`.
    #[serde(default)]
    pub main_work_tree: Option<WorkTree>,
    /// The same as `tracked` of files in the main work tree.
    #[serde(default)]
    pub tracked_in_main: BTreeMap<PathBuf, bool>,
    /// Files that are missing here and are taken from the main work tree: where they would be, and where they are.
    #[serde(default)]
    pub borrowed: BTreeMap<PathBuf, PathBuf>,
    /// Build contexts and other folders whose content counts.
    pub contexts: Vec<ContextStamp>,
    /// Compose's program.
    pub compose_binary: Option<Program>,
}

/// A folder as it was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ContextStamp {
    /// The folder.
    pub root: PathBuf,
    /// The Dockerfile that chooses the ignore file; `None` for a folder that is taken whole.
    pub dockerfile: Option<PathBuf>,
    /// Over what `stat` says of every file.
    pub fingerprint: String,
}

/// A program as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its path.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// When it was modified, in nanoseconds since 1970.
    pub modified: i128,
    /// Its inode.
    pub inode: u64,
}

impl Inputs {
    /// Nothing yet, of a checkout.
    pub(super) fn of(checkout: &Checkout) -> Self {
        Self {
            sound: true,
            work_tree: WorkTree::of(checkout),
            main_work_tree: MainTree::of(checkout).map(|tree| tree.main().clone()),
            ..Self::default()
        }
    }

    /// Whether reading again would give the same. Takes about a millisecond, and some microseconds for each file in a
    /// build context.
    pub fn unchanged(&self, shell: &BTreeMap<String, OsString>, machine_key: &[u8; 32]) -> bool {
        let program = |program: &Program| Program::of(&program.path).as_ref() == Some(program);
        let variable =
            |(name, seen): (&String, &Option<String>)| shell.get(name).map(|value| keyed(machine_key, value)) == *seen;
        let file = |(path, seen): (&PathBuf, &Option<String>)| hash(path).is_ok_and(|now| now == *seen);
        let listing =
            |(folder, seen): (&PathBuf, &Option<BTreeSet<String>>)| names(folder).is_ok_and(|now| now == *seen);
        self.sound
            && self.compose_binary.iter().all(program)
            && self.variables.iter().all(variable)
            && self.files.iter().all(file)
            && self.listings.iter().all(listing)
            && self.tracking_unchanged()
            && self
                .contexts
                .iter()
                .all(|context| context.folder().fingerprint().is_ok_and(|now| now == context.fingerprint))
    }

    /// SHA-256 over the whole record, in hex.
    pub fn digest(&self) -> String {
        // Maps with text keys and texts always become JSON; paths are checked when they are recorded.
        hex(&Sha256::digest(serde_json::to_vec(self).unwrap_or_default()))
    }

    /// Reads a file and records it. `None` when it is absent, and then that is recorded.
    ///
    /// # Errors
    /// Any other reason why it cannot be read.
    pub(super) fn read(&mut self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let content = content(path)?;
        self.note(path, content.as_deref().map(|bytes| hex(&Sha256::digest(bytes))));
        Ok(content)
    }

    /// Records a file without handing out its content; an unreadable one makes the record incomplete.
    pub(super) fn watch(&mut self, path: &Path) {
        match hash(path) {
            Ok(seen) => self.note(path, seen),
            Err(_) => self.sound = false,
        }
    }

    fn note(&mut self, path: &Path, seen: Option<String>) {
        // A path that is no UTF-8 cannot be written down.
        self.sound &= path.to_str().is_some();
        // The first sight counts: a file that changes in between is then seen as changed.
        self.files.entry(path.to_owned()).or_insert(seen);
    }

    /// Records the names in a folder that end in `.yaml` and returns them.
    pub(super) fn list(&mut self, folder: &Path) -> io::Result<BTreeSet<String>> {
        let seen = names(folder)?;
        self.listings.insert(folder.to_owned(), seen.clone());
        Ok(seen.unwrap_or_default())
    }

    /// Records a variable of the user's environment.
    pub(super) fn variable(&mut self, name: &str, shell: &BTreeMap<String, OsString>, machine_key: &[u8; 32]) {
        let seen = shell.get(name).map(|value| keyed(machine_key, value));
        self.variables.insert(name.to_owned(), seen);
    }

    /// Asks git's index about files, and records the answer. Gives those that are tracked.
    pub(super) fn ask_tracked(&mut self, files: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let places: BTreeMap<PathBuf, &PathBuf> = files.iter().map(|file| (index::place(file), file)).collect();
        let tracked = self.tracked_now(&places.keys().cloned().collect());
        self.tracked.extend(places.keys().map(|place| (place.clone(), tracked.contains(place))));
        places.into_iter().filter(|(place, _)| tracked.contains(place)).map(|(_, file)| file.clone()).collect()
    }

    /// Where a file is that a stack needs: at its path, or in the main work tree (see [`MainTree`]). Records what
    /// that was decided by.
    pub(super) fn needed(&mut self, path: &Path) -> PathBuf {
        if let Some(there) = self.borrowed.get(path) {
            return there.clone();
        }
        let tree = self.work_tree.clone().zip(self.main_work_tree.clone()).map(|(own, main)| MainTree::new(own, main));
        let Some(there) = tree.and_then(|tree| tree.there(path)).filter(|_| !path.exists()) else {
            return path.to_owned();
        };
        self.note(path, None);
        if !there.is_file() {
            // A folder is never taken, and has no content to watch.
            if !there.exists() {
                self.note(&there, None);
            }
            return path.to_owned();
        }
        let here = !self.ask_tracked(&BTreeSet::from([path.to_owned()])).is_empty();
        let place = index::place(&there);
        let main = !tracked_in(self.main_work_tree.as_ref(), &BTreeSet::from([place.clone()])).is_empty();
        self.tracked_in_main.insert(place, main);
        if here || main {
            return path.to_owned();
        }
        self.sound &= there.to_str().is_some();
        self.borrowed.insert(path.to_owned(), there.clone());
        there
    }

    fn tracked_now(&self, places: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        tracked_in(self.work_tree.as_ref(), places)
    }

    fn tracking_unchanged(&self) -> bool {
        let same = |tree: Option<&WorkTree>, seen: &BTreeMap<PathBuf, bool>| {
            let now = tracked_in(tree, &seen.keys().cloned().collect());
            seen.iter().all(|(file, seen)| now.contains(file) == *seen)
        };
        same(self.work_tree.as_ref(), &self.tracked) && same(self.main_work_tree.as_ref(), &self.tracked_in_main)
    }
}

impl ContextStamp {
    /// The folder to look at.
    pub(super) fn folder(&self) -> Folder {
        match &self.dockerfile {
            Some(dockerfile) => Folder::context(&self.root, Some(dockerfile)),
            None => Folder::whole(&self.root),
        }
    }
}

impl Program {
    /// The program at a path as it is now; `None` when there is none.
    pub fn of(path: &Path) -> Option<Self> {
        let meta = fs::metadata(path).ok()?;
        Some(Self {
            path: path.to_owned(),
            size: meta.size(),
            modified: i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec()),
            inode: meta.ino(),
        })
    }
}

fn tracked_in(tree: Option<&WorkTree>, places: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    tree.map(|tree| index::tracked(tree, places)).unwrap_or_default()
}

/// A file's content; `None` when it is absent. What is no file, or is too large, is an error.
fn content(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    // Asked before opening, since opening a pipe would block.
    if !meta.is_file() {
        return Err(io::Error::other("it is not an ordinary file"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0).min(1 << 20));
    File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::other("it is larger than 64 MiB"));
    }
    Ok(Some(bytes))
}

fn hash(path: &Path) -> io::Result<Option<String>> {
    Ok(content(path)?.map(|bytes| hex(&Sha256::digest(bytes))))
}

/// The names in a folder that end in `.yaml`.
fn names(folder: &Path) -> io::Result<Option<BTreeSet<String>>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        if let Ok(name) = entry?.file_name().into_string()
            && name.ends_with(".yaml")
        {
            names.insert(name);
        }
    }
    Ok(Some(names))
}

/// HMAC-SHA-256 of a value with the machine's key, in hex.
fn keyed(machine_key: &[u8; 32], value: &OsStr) -> String {
    hmac(machine_key, &[value.as_encoded_bytes()])
}
