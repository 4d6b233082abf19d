//! A folder through which Compose reads a linked work tree as if nothing were missing in it.
//!
//! Compose looks for an `env_file` at its path and nowhere else, and nothing may be written to a checkout. So Compose is
//! given a folder of our own in which the whole path to the checkout stands again: every folder on the way to a missing
//! file is a real one there, filled with links to what the checkout's has, and the missing file is a link to the main
//! work tree's. Compose resolves paths by their text, so whatever it prints begins with this folder, which is cut off.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Linux's file system in memory.
const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "sidestack-";

/// See the module. Removed when it is dropped; links are not followed then.
pub(super) struct Shadow {
    dir: TempDir,
}

impl Shadow {
    /// A shadow of the folder `root` and of all folders above it, in which `missing` files are where they are looked
    /// for. Of folders above `root` it has what leads to `others` only: they may be large.
    pub(super) fn new<'a>(
        root: &Path,
        missing: &BTreeMap<PathBuf, PathBuf>,
        others: impl Iterator<Item = &'a PathBuf>,
    ) -> io::Result<Self> {
        // In memory where that can be had: on a disk a link may take most of a millisecond.
        let in_memory = TempDir::with_prefix_in(PREFIX, MEMORY);
        let shadow = Self { dir: in_memory.or_else(|_| TempDir::with_prefix(PREFIX))? };
        let folders: BTreeSet<&Path> =
            missing.keys().filter_map(|file| file.parent()).flat_map(Path::ancestors).collect();
        let mut links: BTreeMap<PathBuf, PathBuf> = missing.clone();
        for folder in folders.iter().filter(|folder| folder.starts_with(root)) {
            // One that the checkout does not have either is made for the file alone.
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                links.entry(entry.path()).or_insert_with(|| entry.path());
            }
        }
        for other in others.filter(|other| !other.starts_with(root)) {
            // The highest folder that is none of ours leads to it.
            let way = other.ancestors().take_while(|at| !folders.contains(at)).last();
            links.extend(way.map(|way| (way.to_owned(), way.to_owned())));
        }
        for folder in &folders {
            std::fs::create_dir_all(shadow.path(folder))?;
        }
        for (at, to) in links.iter().filter(|(at, _)| !folders.contains(at.as_path())) {
            symlink(to, shadow.path(at))?;
        }
        Ok(shadow)
    }

    /// Where an absolute path stands in it.
    pub(super) fn path(&self, path: &Path) -> PathBuf {
        // A path that is joined to another from its root would replace it.
        self.dir.path().join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A text of Compose's with the paths as they are.
    pub(super) fn lift(&self, text: &str) -> String {
        text.replace(&self.dir.path().display().to_string(), "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_missing_is_there_and_the_rest_is_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for (name, text) in [
            ("tree/app/compose.yaml", "c"),
            ("tree/app/deep/there", "d"),
            ("tree/other/file", "o"),
            ("beside/inc.yaml", "i"),
            ("beside/more", "m"),
            ("main/.env", "e"),
        ] {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), text).unwrap();
        }
        let missing = ["tree/app/.env", "tree/app/deep/.env", "tree/app/new/er/.env"];
        let missing = missing.iter().map(|name| (at(name), at("main/.env"))).collect();
        let shadow = Shadow::new(&at("tree"), &missing, [at("beside/inc.yaml"), at("tree/x")].iter()).unwrap();
        let read = |name: &str| fs::read_to_string(shadow.path(&at(name))).unwrap();
        for (name, text) in [
            ("tree/app/.env", "e"),
            ("tree/app/deep/.env", "e"),
            ("tree/app/new/er/.env", "e"),
            ("tree/app/compose.yaml", "c"),
            ("tree/app/deep/there", "d"),
            ("tree/other/file", "o"),
            ("beside/inc.yaml", "i"),
        ] {
            assert_eq!(read(name), text, "{name}");
        }
        let said = format!("no {} here", shadow.path(&at("tree/app/x")).display());
        assert_eq!(shadow.lift(&said), format!("no {} here", at("tree/app/x").display()));
        let place = shadow.dir.path().to_owned();
        drop(shadow);
        assert!(!place.exists());
        assert_eq!(fs::read_to_string(at("tree/other/file")).unwrap(), "o");
        assert!(!at("tree/app/.env").exists());
    }
}
