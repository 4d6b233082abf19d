//! Files that git does not track and that a linked work tree lacks: they are taken from the same place in the main one.
//!
//! A new work tree holds what is committed. What a stack needs beside that (an ignored `.env`, a certificate) lies in
//! the main work tree alone and is used from there. A revision names it as if it were here, so that it is the same
//! revision in every work tree; whoever reads or places it looks where it is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::git::{self, Checkout, Repository};
use super::index::{self, WorkTree};
use super::raw::clean;

/// A linked work tree and the main one of its repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MainTree {
    own: WorkTree,
    main: WorkTree,
}

impl MainTree {
    /// The main work tree of a checkout in a linked one; `None` in a main one, without git, and of a bare repository.
    pub fn of(checkout: &Checkout) -> Option<Self> {
        Self::of_repository(checkout.repository.as_ref()?)
    }

    /// The same of any folder.
    pub fn at(folder: &Path) -> Option<Self> {
        Self::of_repository(&git::repository(&std::fs::canonicalize(folder).ok()?)?)
    }

    fn of_repository(repository: &Repository) -> Option<Self> {
        let root = repository.main_root.clone().filter(|_| repository.linked)?;
        let common = &repository.common_dir;
        let main = WorkTree { root, git_dir: common.clone(), common_dir: common.clone() };
        Some(Self { own: WorkTree::of_repository(repository), main })
    }

    pub(super) fn new(own: WorkTree, main: WorkTree) -> Self {
        Self { own, main }
    }

    /// The file to use in the place of one that is missing here: the main work tree's, when git tracks neither.
    pub fn find(&self, path: &Path) -> Option<PathBuf> {
        let there = self.there(path).filter(|there| !path.exists() && there.is_file())?;
        (!tracks(&self.own, path) && !tracks(&self.main, &there)).then_some(there)
    }

    /// The same place in the main work tree.
    pub(super) fn there(&self, path: &Path) -> Option<PathBuf> {
        Some(self.main.root.join(clean(path).strip_prefix(&self.own.root).ok()?))
    }

    /// The main work tree, for its index.
    pub(super) fn main(&self) -> &WorkTree {
        &self.main
    }
}

fn tracks(tree: &WorkTree, file: &Path) -> bool {
    !index::tracked(tree, &BTreeSet::from([index::place(file)])).is_empty()
}
