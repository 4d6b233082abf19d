//! Resolving references, alone or many at once.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::reference::Provider;
use super::{Reference, SecretError, SecretValue, command, file, keychain};
use crate::source::MainTree;

/// How long one reference may take.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// How many providers are asked at the same time: password managers answer slowly, and some only one by one.
const AT_ONCE: usize = 8;

/// Resolves references. Made once per verb; holds no value.
#[derive(Clone)]
pub struct Resolver {
    base: PathBuf,
    main: Option<MainTree>,
    env: BTreeMap<String, OsString>,
    timeout: Duration,
}

/// The environment is not shown: it is full of secrets.
impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver").field("base", &self.base).field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Resolver {
    /// A resolver for a checkout (`base`, where relative paths start) and a snapshot of the environment, with the
    /// default limit of ten seconds per reference.
    pub fn new(base: PathBuf, env: BTreeMap<String, OsString>) -> Self {
        Self { base, main: None, env, timeout: DEFAULT_TIMEOUT }
    }

    /// The same, which looks for files that the checkout lacks in the main work tree.
    #[must_use]
    pub fn looking_in(mut self, main: Option<MainTree>) -> Self {
        self.main = main;
        self
    }

    /// The same with another limit. The keychain never takes more than ten seconds.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Resolves one reference. Blocks, at most for the limit.
    ///
    /// # Errors
    /// See [`SecretError`]; none holds a value.
    pub fn resolve(&self, reference: &Reference) -> Result<SecretValue, SecretError> {
        let home = self.env.get("HOME").map(Path::new).filter(|home| home.is_absolute());
        match reference.provider() {
            Provider::Env { name } => self.variable(reference, name),
            Provider::Keychain { service, account } => {
                keychain::get(reference, service, account, self.timeout.min(DEFAULT_TIMEOUT))
            }
            Provider::Command { words } => command::run(reference, words, &self.base, &self.env, self.timeout),
            Provider::File { path } => file::from_file(reference, &self.base, home, &self.place(path)),
            Provider::Dotenv { path, key } => file::from_dotenv(reference, &self.base, home, &self.place(path), key),
        }
    }

    /// Resolves many references, several at once and each one once. A bad one does not hide the others.
    pub fn resolve_all(
        &self,
        references: &BTreeSet<Reference>,
    ) -> BTreeMap<Reference, Result<SecretValue, SecretError>> {
        let wanted: Vec<&Reference> = references.iter().collect();
        let next = AtomicUsize::new(0);
        let (sender, receiver) = channel();
        thread::scope(|scope| {
            for _ in 0..wanted.len().min(AT_ONCE) {
                let sender = sender.clone();
                scope.spawn(|| {
                    let sender = sender;
                    while let Some(reference) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                        // The receiver outlives the scope.
                        let _ = sender.send(((*reference).clone(), self.resolve(reference)));
                    }
                });
            }
        });
        drop(sender);
        receiver.into_iter().collect()
    }

    /// The path as it was written, or the main work tree's of a file that is missing.
    fn place(&self, written: &str) -> String {
        let main = self.main.as_ref().filter(|_| !written.starts_with('~'));
        let there = main.and_then(|main| main.find(&self.base.join(written)));
        there.map_or_else(|| written.to_owned(), |there| there.display().to_string())
    }

    fn variable(&self, reference: &Reference, name: &str) -> Result<SecretValue, SecretError> {
        let value = self.env.get(name).ok_or_else(|| SecretError::NotSet { reference: reference.clone() })?;
        SecretValue::from_bytes(value.as_encoded_bytes().to_vec()).map_err(|why| SecretError::not_text(reference, why))
    }
}

#[cfg(test)]
mod tests;
