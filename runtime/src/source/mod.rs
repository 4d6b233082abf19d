//! Reading a checkout: what git says of it, the manifest, the compose files as Compose itself resolves them, the build
//! contexts, and a record of everything that was looked at.
//!
//! What comes out ([`Stack`]) is the material of a revision: no path of this machine inside the checkout, no project
//! name, and no secret's value is in it. Folder and project name are the placeholders of
//! [`sidestack_topology::placeholder`], secrets are the tokens of [`sidestack_topology::secret`]. All texts of the model
//! are as a container would see them: a `$` is one `$`, so whoever writes the model for Compose must double it.
//!
//! The record ([`Inputs`]) makes the fast path sound: as long as [`Inputs::unchanged`] says yes, reading again would give
//! the same. Nothing here writes to the checkout, takes a lock, or asks Docker anything.

mod build;
mod context;
mod discover;
mod dockerignore;
mod git;
mod habits;
mod index;
mod inputs;
mod interpolate;
mod made;
mod main_tree;
mod model;
mod raw;
mod read;
mod report;
mod sensitive;
mod shadow;
mod standin;
mod templates;
#[cfg(test)]
mod tests;
mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sidestack_topology::compose::Project;
use sidestack_topology::diagnostic::Diagnostic;
use sidestack_topology::manifest::{Document, Manifest};
use sidestack_topology::names::EnvironmentName;
pub use sidestack_topology::placeholder::{CHECKOUT, PROJECT};
use sidestack_topology::revision::{Interpolation, Templates};

pub(crate) use self::build::build_digest;
pub use self::context::{ContextError, Memo};
pub use self::git::{
    Checkout, Repository, branch, checkout, checkout_at, dirty, instance_name, name_after, repository_of,
};
pub use self::index::WorkTree;
pub use self::inputs::{ContextStamp, Inputs, Program};
pub use self::main_tree::MainTree;
pub(crate) use self::model::placed;
pub use self::read::read;
pub use self::sensitive::looks_secret;

use crate::engine::compose::Compose;

/// What is to be read.
#[derive(Debug, Clone, Copy)]
pub struct ReadRequest<'a> {
    /// The checkout, from [`checkout`].
    pub checkout: &'a Checkout,
    /// The environment; with none, the manifest's default one.
    pub environment: Option<&'a str>,
    /// The user's environment.
    pub shell: &'a BTreeMap<String, OsString>,
    /// Compose; needed only when there are compose files.
    pub compose: Option<&'a Compose>,
    /// The key of this machine, for digests that cover values of variables.
    pub machine_key: &'a [u8; 32],
    /// Digests of files in build contexts from an earlier reading; [`Stack::memo`] has the new ones.
    pub memo: &'a Memo,
    /// Where relative paths in `files` and `env_files` start.
    pub base: &'a Path,
    /// Compose files instead of those that the manifest names or Compose would find.
    pub files: &'a [PathBuf],
    /// Profiles to switch on, instead of those of `COMPOSE_PROFILES`.
    pub profiles: &'a [String],
    /// Env files for interpolation instead of the project's `.env`; a later one wins.
    pub env_files: &'a [PathBuf],
}

/// A stack as it stands in the checkout now.
#[derive(Debug, Clone)]
pub struct Stack {
    /// The environment that was read.
    pub environment: EnvironmentName,
    /// The manifest as written.
    pub document: Document,
    /// The manifest settled for the environment.
    pub manifest: Manifest,
    /// The stack's own modules, `sidestack/modules/NAME.yaml`: by name, the file relative to the checkout and its text.
    pub modules: BTreeMap<String, (String, String)>,
    /// The compose files resolved, with every profile's services; `None` when there are no compose files.
    pub model: Option<Project>,
    /// Profiles that are on: those asked for and those of `COMPOSE_PROFILES`, sorted; of them only those that some
    /// service has, so that a name of another stack in the shell makes no other revision. Another choice of profiles is
    /// another revision: after `up --profile debug`, a plain `up` goes back to the one without.
    pub profiles: Vec<String>,
    /// Which variables each service's part of the compose files mentions for interpolation. As far as it can be told
    /// from the texts: services that come about by `extends` have the names of both.
    pub mentions: BTreeMap<String, BTreeSet<String>>,
    /// Entries of `environment` as the files have them, by service and variable, where they interpolate something. Each
    /// was seen to give Compose's own value with what is in `interpolation`.
    pub templates: Templates,
    /// The names that the templates mention, with the values that Compose had: secrets are tokens, `None` was not set.
    pub interpolation: Interpolation,
    /// Builds by service.
    pub builds: BTreeMap<String, Build>,
    /// Files that configs of the model name: path as it stands in the model, SHA-256 in hex.
    pub files: BTreeMap<String, String>,
    /// Everything that was looked at.
    pub inputs: Inputs,
    /// To be kept for the next reading.
    pub memo: Memo,
    /// What is worth knowing: files that were taken from the main work tree.
    pub notes: Vec<String>,
    /// What was chosen on the command line for isolation; filled in by whoever asked.
    pub chosen: sidestack_topology::manifest::IsolationChoices,
    /// Warnings. Errors are in [`SourceError::Invalid`] instead.
    pub diagnostics: Vec<Diagnostic>,
}

/// A service's build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// The context: a folder as it stands in the model, or a URL.
    pub context: String,
    /// SHA-256 in hex over the context, the Dockerfile and further local contexts; over its text for a URL.
    pub digest: String,
}

/// Why a checkout could not be read. None of it holds a secret's value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// No stack here.
    #[error("no stack at or above `{start}`: found neither {looked_for}")]
    NotFound {
        /// Where the search began.
        start: PathBuf,
        /// The file names, as part of a sentence.
        looked_for: String,
    },
    /// The operating system refused.
    #[error("cannot {action} `{path}`: {cause}")]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// The system's own words.
        cause: std::io::Error,
    },
    /// A path that cannot be part of a model.
    #[error("the path `{0}` is not valid UTF-8, which compose files cannot express")]
    NotUtf8(PathBuf),
    /// There are compose files, but no Compose to read them.
    #[error("the stack in `{0}` has compose files, but Docker Compose was not found")]
    NoCompose(PathBuf),
    /// Compose could not be run, or did not end in time.
    #[error("Docker Compose could not read the stack: {0}")]
    Compose(String),
    /// What is written is wrong: every fault that was found, warnings among them.
    #[error("{}", summary(.0))]
    Invalid(Vec<Diagnostic>),
}

impl SourceError {
    /// What is wrong with the files, when that is the reason.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            Self::Invalid(diagnostics) => diagnostics,
            _ => &[],
        }
    }

    /// The remedy.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { .. } => Some("go to the stack's folder, or write a `sidestack.yaml` there".to_owned()),
            Self::NoCompose(_) => Some(
                "install the Compose plugin, version 2.20 or later, where the docker CLI finds its plugins".to_owned(),
            ),
            Self::Io { .. } | Self::NotUtf8(_) | Self::Compose(_) | Self::Invalid(_) => None,
        }
    }
}

fn summary(diagnostics: &[Diagnostic]) -> String {
    use sidestack_topology::diagnostic::Severity;
    let errors: Vec<_> = diagnostics.iter().filter(|d| d.severity == Severity::Error).collect();
    match errors.as_slice() {
        [] => "the stack is not valid".to_owned(),
        [only] => only.message.clone(),
        [first, rest @ ..] => format!("{} (and {} more)", first.message, rest.len()),
    }
}
