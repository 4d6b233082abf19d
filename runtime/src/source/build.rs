//! Digests of what the model builds from and of the config files that it names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};
use sidestack_topology::compose::{Object, Project};
use sidestack_topology::diagnostic::Diagnostic;

use super::context::{ABSENT, ContextError, Folder, Memo, hash_file, hex, part};
use super::git::Checkout;
use super::inputs::{ContextStamp, Inputs};
use super::model::on_disk;
use super::{Build, CHECKOUT};

/// Digests files and folders and records them.
pub(super) struct Digester<'a> {
    pub(super) checkout: &'a Checkout,
    pub(super) old: &'a Memo,
    pub(super) new: Memo,
    pub(super) inputs: &'a mut Inputs,
    pub(super) faults: &'a mut Vec<Diagnostic>,
    /// Contexts that several services build from are walked once.
    done: BTreeMap<(PathBuf, Option<PathBuf>), String>,
}

impl<'a> Digester<'a> {
    pub(super) fn new(
        checkout: &'a Checkout,
        old: &'a Memo,
        inputs: &'a mut Inputs,
        faults: &'a mut Vec<Diagnostic>,
    ) -> Self {
        Self { checkout, old, new: Memo::default(), inputs, faults, done: BTreeMap::new() }
    }

    /// Every service's build.
    pub(super) fn builds(&mut self, model: &Project) -> BTreeMap<String, Build> {
        let mut builds = BTreeMap::new();
        for (name, service) in &model.services {
            if let Some(build) = service.build.as_ref().and_then(|build| self.build(name, build)) {
                builds.insert(name.clone(), build);
            }
        }
        builds
    }

    fn build(&mut self, service: &str, build: &Object) -> Option<Build> {
        let context = build.get("context").and_then(Value::as_str).unwrap_or(CHECKOUT);
        let mut hash = Sha256::new();
        part(&mut hash, context.as_bytes());
        let path = ["services", service, "build"];
        if is_local(context) {
            let root = on_disk(context, self.checkout);
            let dockerfile = build.get("dockerfile").and_then(Value::as_str).unwrap_or("Dockerfile");
            let dockerfile = root.join(on_disk(dockerfile, self.checkout));
            let inline = build.contains_key("dockerfile_inline");
            let digest = self.folder(&root, Some(&dockerfile), &path)?;
            part(&mut hash, digest.as_bytes());
            if !inline {
                // It may lie outside the context, and is sent even when it is ignored.
                let digest = self.file(&dockerfile);
                if digest.is_none() && root.is_dir() {
                    let message =
                        format!("`{service}` is built from `{}`, which does not exist", self.shown(&dockerfile));
                    self.faults.push(Diagnostic::warning(&path, message));
                }
                part(&mut hash, digest.unwrap_or_default().as_bytes());
            }
        }
        if let Some(Value::Object(contexts)) = build.get("additional_contexts") {
            for (name, value) in contexts {
                let Some(context) = value.as_str() else {
                    continue;
                };
                part(&mut hash, name.as_bytes());
                part(&mut hash, context.as_bytes());
                if is_local(context) {
                    let root = on_disk(context, self.checkout);
                    // Its own `.dockerignore` counts, whatever the Dockerfile is called.
                    let digest = self.folder(&root, Some(&root.join("Dockerfile")), &path)?;
                    part(&mut hash, digest.as_bytes());
                }
            }
        }
        Some(Build { context: context.to_owned(), digest: hex(&hash.finalize()) })
    }

    /// Config files by the path that they have in the model. Secret files are only looked for: they count by path.
    pub(super) fn config_files(&mut self, model: &Project) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for (key, config) in &model.configs {
            let Some(file) = &config.file else { continue };
            let place = self.inputs.needed(&on_disk(file, self.checkout));
            let digest = if place.is_dir() {
                self.folder(&place, None, &["configs", key, "file"])
            } else {
                let digest = self.file(&place);
                if digest.is_none() {
                    let message =
                        format!("the config `{key}` is read from `{}`, which does not exist", self.shown(&place));
                    let fault = Diagnostic::warning(&["configs", key, "file"], message);
                    self.faults.push(with_main(fault, &place, self.checkout));
                }
                digest
            };
            files.extend(digest.map(|digest| (file.clone(), digest)));
        }
        for (key, secret) in &model.secrets {
            let Some(place) = secret.file.as_ref().map(|file| on_disk(file, self.checkout)) else {
                continue;
            };
            if !self.inputs.needed(&place).exists() {
                let message = format!("the secret `{key}` is read from `{}`, which does not exist", self.shown(&place));
                let fault = Diagnostic::warning(&["secrets", key, "file"], message);
                self.faults.push(with_main(fault, &place, self.checkout));
            }
        }
        files
    }

    /// Bind-mounted files are only looked for.
    pub(super) fn binds(&mut self, model: &Project) {
        for mount in model.services.values().flat_map(|service| &service.volumes).filter(|mount| mount.kind == "bind") {
            if let Some(source) = mount.source.as_deref().filter(|source| source.starts_with(CHECKOUT)) {
                self.inputs.needed(&on_disk(source, self.checkout));
            }
        }
    }

    fn folder(&mut self, root: &Path, dockerfile: Option<&Path>, path: &[&str]) -> Option<String> {
        let key = (root.to_owned(), dockerfile.map(Path::to_owned));
        if let Some(digest) = self.done.get(&key) {
            return Some(digest.clone());
        }
        let folder = match dockerfile {
            Some(dockerfile) => Folder::context(root, Some(dockerfile)),
            None => Folder::whole(root),
        };
        match folder.digest(self.old, &mut self.new) {
            Ok((fingerprint, digest)) => {
                if fingerprint == ABSENT {
                    // Compose says so when it builds; an image that is there needs no context.
                    let message = format!("the folder `{}` does not exist", self.shown(root));
                    self.faults.push(with_main(Diagnostic::warning(path, message), root, self.checkout));
                }
                self.inputs.sound &= root.to_str().is_some() && dockerfile.is_none_or(|file| file.to_str().is_some());
                self.inputs.contexts.push(ContextStamp { root: key.0.clone(), dockerfile: key.1.clone(), fingerprint });
                self.done.insert(key, digest.clone());
                Some(digest)
            }
            Err(error) => {
                let fault = Diagnostic::error(path, format!("a build context cannot be used: {error}"));
                self.faults.push(match error {
                    ContextError::TooMany(_) | ContextError::TooLarge(_) => {
                        fault.hint("name what the image does not need in a `.dockerignore`")
                    }
                    ContextError::Io { .. } => fault,
                });
                None
            }
        }
    }

    fn file(&mut self, path: &Path) -> Option<String> {
        self.inputs.watch(path);
        hash_file(path).ok()
    }

    fn shown(&self, path: &Path) -> String {
        super::variables::shown(path, self.checkout)
    }
}

/// The digest of one service's build as `folder` holds it now: what [`Build::digest`] of a reading there would be.
/// `None` when the service is not built, or when its context cannot be digested.
pub(crate) fn build_digest(model: &Project, service: &str, folder: &Path, memo: &Memo) -> Option<String> {
    let build = model.services.get(service)?.build.as_ref()?;
    let checkout = Checkout { folder: folder.to_owned(), identity: String::new(), repository: None };
    let (mut inputs, mut faults) = (Inputs::default(), Vec::new());
    let mut digester = Digester::new(&checkout, memo, &mut inputs, &mut faults);
    digester.build(service, build).map(|build| build.digest)
}

/// With the advice to take a file over from the main work tree, when it is there: untracked files are missing in a
/// linked one.
pub(super) fn with_main(fault: Diagnostic, path: &Path, checkout: &Checkout) -> Diagnostic {
    let inside = path.strip_prefix(&checkout.folder).ok();
    let there = inside.and_then(|inside| Some((checkout.in_main_work_tree()?.join(inside), inside)));
    match there {
        Some((main, inside)) if main.exists() => {
            fault.hint(format!("the main work tree has it: `ln -s {} {}`", main.display(), inside.display()))
        }
        _ => fault,
    }
}

/// Whether a context is a folder: not a repository, an image, or another build.
fn is_local(context: &str) -> bool {
    context.starts_with(CHECKOUT) || context.starts_with('/')
}
