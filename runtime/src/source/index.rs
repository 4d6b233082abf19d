//! Which files git tracks, read from its index.
//!
//! A value in a tracked file is no secret, so this decides what becomes a reference. Where the index cannot be read the
//! answer is "untracked", which is the careful one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::git::{Checkout, Repository};

/// Larger indexes are not read.
const MAX_INDEX: u64 = 256 << 20;

/// Where to ask for a work tree's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkTree {
    /// Its root, canonical.
    pub root: PathBuf,
    /// The git directory that holds its index.
    pub git_dir: PathBuf,
    /// The git directory that holds the configuration.
    pub common_dir: PathBuf,
}

impl WorkTree {
    /// The work tree that a checkout lies in.
    pub(super) fn of(checkout: &Checkout) -> Option<Self> {
        checkout.repository.as_ref().map(Self::of_repository)
    }

    pub(super) fn of_repository(repository: &Repository) -> Self {
        Self {
            root: repository.root.clone(),
            git_dir: repository.git_dir.clone(),
            common_dir: repository.common_dir.clone(),
        }
    }
}

/// Which of these files, named as [`place`] does, are tracked.
pub(super) fn tracked(work_tree: &WorkTree, files: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    if files.is_empty() {
        return BTreeSet::new();
    }
    let path = work_tree.git_dir.join("index");
    let small_enough = fs::metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_INDEX);
    let Some(index) = small_enough.then(|| fs::read(&path).ok()).flatten() else {
        return BTreeSet::new();
    };
    let wanted: Vec<(&PathBuf, &[u8])> = files
        .iter()
        .filter_map(|file| {
            let inside = file.strip_prefix(&work_tree.root).ok()?;
            Some((file, inside.as_os_str().as_encoded_bytes()))
        })
        .collect();
    let mut found = BTreeSet::new();
    // An entry that ends in a slash is a folder of a sparse index.
    let complete = entries(&index, hash_length(work_tree), |entry| {
        for (file, inside) in &wanted {
            if *inside == entry || (entry.ends_with(b"/") && inside.starts_with(entry)) {
                found.insert((*file).clone());
            }
        }
    });
    if complete.is_some() { found } else { BTreeSet::new() }
}

/// Bytes of an object id: 20, or 32 in a SHA-256 repository.
fn hash_length(work_tree: &WorkTree) -> usize {
    let config = fs::read_to_string(work_tree.common_dir.join("config")).unwrap_or_default();
    let sha256 = config.lines().any(|line| {
        let line = line.to_ascii_lowercase();
        line.split_once('=').is_some_and(|(key, value)| key.trim() == "objectformat" && value.trim() == "sha256")
    });
    if sha256 { 32 } else { 20 }
}

/// Calls back with the path of every entry, as documented in git's `index-format`. `None` when it is no index of version
/// 2 to 4, is cut, or is split over two files.
fn entries(index: &[u8], hash: usize, mut each: impl FnMut(&[u8])) -> Option<()> {
    let number = |at: usize| {
        let bytes = index.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    if index.get(..4)? != b"DIRC" {
        return None;
    }
    let (version, count) = (number(4)?, number(8)?);
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut at = 12;
    let mut path: Vec<u8> = Vec::new();
    for _ in 0..count {
        let start = at;
        let flags_at = at + 40 + hash;
        let flags = u16::from_be_bytes(index.get(flags_at..flags_at + 2)?.try_into().ok()?);
        // The extended flag, from version 3 on, adds two more bytes.
        at = flags_at + if version >= 3 && flags & 0x4000 != 0 { 4 } else { 2 };
        if version == 4 {
            let (cut, after) = variable_width(index, at)?;
            path.truncate(path.len().checked_sub(cut)?);
            at = after;
        } else {
            path.clear();
        }
        let length = index.get(at..)?.iter().position(|&byte| byte == 0)?;
        path.extend_from_slice(&index[at..at + length]);
        at += length + 1;
        if version < 4 {
            // Padded with one to eight NULs to a multiple of eight bytes.
            at = start + (at - start).next_multiple_of(8);
        }
        each(&path);
    }
    // A split index keeps most entries elsewhere.
    let mut rest = index.get(at..index.len().checked_sub(hash)?)?;
    while rest.len() >= 8 {
        if &rest[..4] == b"link" {
            return None;
        }
        let size = u32::from_be_bytes(rest[4..8].try_into().ok()?) as usize;
        rest = rest.get(8 + size..)?;
    }
    Some(())
}

/// A number in git's `offset` encoding.
fn variable_width(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    at += 1;
    while byte & 0x80 != 0 {
        byte = *bytes.get(at)?;
        value = value.checked_add(1)?.checked_mul(128)? | usize::from(byte & 0x7f);
        at += 1;
    }
    Some((value, at))
}

/// The file's canonical place, or as much of it as exists: what [`tracked`] compares. A link is followed only in its
/// folders: git tracks the link itself, and what it leads to may be anything.
pub(super) fn place(file: &Path) -> PathBuf {
    match (file.parent().and_then(|folder| fs::canonicalize(folder).ok()), file.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => file.to_owned(),
    }
}
