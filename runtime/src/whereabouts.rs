//! Which stack a command stands in.

use std::path::{Path, PathBuf};

use sidestack_state::Workspace;

use crate::api::UpRequest;
use crate::error::{Error, Kind, Result};
use crate::secrets::parse_dotenv;
use crate::session::Session;
use crate::source::{self, Checkout, MainTree, SourceError};

/// Names compose files; the folder in which it is set is a stack's without a file of a known name.
const COMPOSE_FILE: &str = "COMPOSE_FILE";

impl Session {
    /// The checkout that the command stands in: that of the nearest stack, else one of which an instance is known,
    /// since it may have been brought up with `-f`.
    ///
    /// # Errors
    /// When there is none at or above the folder.
    pub fn checkout(&self) -> Result<Checkout> {
        match source::checkout(&self.folder) {
            Err(error @ SourceError::NotFound { .. }) => match self.known_folder()? {
                Some(folder) => Ok(source::checkout_at(&folder)?),
                None => Err(error.into()),
            },
            found => Ok(found?),
        }
    }

    /// The workspace of the current folder, when the store has it.
    pub(crate) fn here(&self) -> Result<Option<(Checkout, Workspace)>> {
        let Ok(checkout) = self.checkout() else { return Ok(None) };
        Ok(self.store.workspace_by_identity(&checkout.identity)?.map(|workspace| (checkout, workspace)))
    }

    /// The checkout that a request is to be read from, when it names no instance.
    ///
    /// As with Compose, named files bring their own folder: `-f sub/compose.yaml` is the stack in `sub`. A manifest at
    /// or above the current folder goes before, since it says more than where the files are.
    pub(crate) fn checkout_to_read(&self, request: &UpRequest) -> Result<Checkout> {
        let standing = source::checkout(&self.folder);
        let Some(first) = request.files.first() else {
            return match standing {
                Err(SourceError::NotFound { .. }) if self.names_files(&self.folder) => {
                    Ok(source::checkout_at(&self.folder)?)
                }
                found => found.map_err(|error| self.once_named(error)),
            };
        };
        if let Ok(standing) = &standing
            && standing.folder.join(sidestack_topology::manifest::FILE).is_file()
        {
            return Ok(standing.clone());
        }
        // A file that is not there is told by whoever reads it.
        let place = self.folder.join(first);
        let place = place.parent().filter(|folder| folder.is_dir()).unwrap_or(&self.folder);
        match (source::checkout(place), standing) {
            (Ok(found), _) | (Err(SourceError::NotFound { .. }), Ok(found)) => Ok(found),
            (Err(SourceError::NotFound { .. }), Err(SourceError::NotFound { .. })) => {
                let folder = if below(place, &self.folder) { &self.folder } else { place };
                Ok(source::checkout_at(folder)?)
            }
            (Err(error), _) => Err(error.into()),
        }
    }

    /// The checkout of an instance's folder. With named files it need not have one that Compose would find.
    pub(crate) fn checkout_of(&self, folder: &Path, request: &UpRequest) -> Result<Checkout> {
        let found = if request.files.is_empty() { source::checkout(folder) } else { source::checkout_at(folder) };
        let found = match found {
            Err(SourceError::NotFound { .. }) if self.names_files(folder) => source::checkout_at(folder),
            found => found,
        };
        found.map_err(|error| {
            Error::from(error).hint("its folder is gone or holds no stack; `sidestack start` runs its last revision")
        })
    }

    /// Whether Compose would be told its files by a variable, from the shell or from `.env`.
    fn names_files(&self, folder: &Path) -> bool {
        let shell = self.env.get(COMPOSE_FILE).map(|value| !value.is_empty());
        let file = || {
            let path = std::fs::canonicalize(folder).ok()?.join(".env");
            let there = || MainTree::at(folder).and_then(|tree| tree.find(&path));
            let text = std::fs::read_to_string(if path.exists() { path.clone() } else { there()? }).ok()?;
            let entries = parse_dotenv(&text).ok()?;
            Some(entries.into_iter().any(|(name, value, _)| name == COMPOSE_FILE && !value.is_empty()))
        };
        shell.or_else(file).unwrap_or(false)
    }

    /// The nearest folder, at or above the current one, of which an instance is known.
    fn known_folder(&self) -> Result<Option<PathBuf>> {
        let Ok(folder) = std::fs::canonicalize(&self.folder) else { return Ok(None) };
        let instances = self.store.instances()?;
        let known = |at: &&Path| instances.iter().any(|instance| instance.checkout.as_deref() == Some(*at));
        Ok(folder.ancestors().find(known).map(Path::to_owned))
    }

    /// No file that Compose would find, in a folder that was brought up with named ones.
    fn once_named(&self, error: SourceError) -> Error {
        match self.known_folder() {
            Ok(Some(folder)) => Error::from(error).hint(format!(
                "`{}` was brought up with named compose files: name them again with `-f`, or in `COMPOSE_FILE`",
                folder.display()
            )),
            _ => error.into(),
        }
    }
}

/// Refuses what chooses files where a stored revision is run: nothing is read then.
pub(crate) fn reads_nothing(request: &UpRequest, what: &str) -> Result<()> {
    let given = [
        ("-f", !request.files.is_empty()),
        ("--profile", !request.profiles.is_empty()),
        ("--env-file", !request.env_files.is_empty()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => {
            Err(Error::new(Kind::Usage, "usage", format!("`{option}` says how files are read, and {what} reads none"))
                .hint("leave it out; `sidestack up --new NAME` with it makes an instance of what the files say"))
        }
    }
}

fn below(place: &Path, folder: &Path) -> bool {
    let canonical = |path: &Path| std::fs::canonicalize(path).ok();
    match (canonical(place), canonical(folder)) {
        (Some(place), Some(folder)) => place.starts_with(folder),
        _ => false,
    }
}
