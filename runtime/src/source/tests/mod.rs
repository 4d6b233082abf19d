//! Reading real folders with a real Compose. Where there is none, those tests say so and prove nothing.

mod compose;
mod corpus;
mod fast_path;
mod habits;
mod repositories;
mod secrets;
mod strange;
mod templates;
mod worktrees;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;

const KEY: [u8; 32] = [9; 32];

/// Compose's own program, wherever the docker CLI would look for it.
fn installed_compose() -> Option<Compose> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let found = [
        home.join(".docker/cli-plugins"),
        "/usr/local/lib/docker/cli-plugins".into(),
        "/usr/local/libexec/docker/cli-plugins".into(),
        "/usr/lib/docker/cli-plugins".into(),
        "/usr/libexec/docker/cli-plugins".into(),
    ]
    .into_iter()
    .map(|folder| folder.join("docker-compose"))
    .find(|path| path.is_file());
    if found.is_none() {
        note("skipped: no Compose plugin is installed");
    }
    // `config` asks no daemon, so none is named.
    Some(Compose::new(found?, "unix:///nowhere/docker.sock"))
}

#[expect(clippy::print_stderr, reason = "a test that was skipped must say so")]
fn note(text: &str) {
    eprintln!("{text}");
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// A folder with files, and everything needed to read it.
struct Site {
    dir: TempDir,
    shell: BTreeMap<String, OsString>,
    compose: Option<Compose>,
    memo: Memo,
    files: Vec<PathBuf>,
    profiles: Vec<String>,
    env_files: Vec<PathBuf>,
}

impl Site {
    fn new(files: &[(&str, &str)]) -> Self {
        let site = Self {
            dir: tempfile::tempdir().unwrap(),
            shell: ["HOME", "PATH"]
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), std::env::var_os(name)?)))
                .collect(),
            compose: installed_compose(),
            memo: Memo::default(),
            files: Vec::new(),
            profiles: Vec::new(),
            env_files: Vec::new(),
        };
        for (name, text) in files {
            site.write(name, text);
        }
        site
    }

    fn at(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.dir.path()).unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn set(&mut self, name: &str, value: &str) -> &mut Self {
        self.shell.insert(name.to_owned(), value.into());
        self
    }

    fn read_at(&self, folder: &Path) -> Result<Stack, SourceError> {
        let checkout = checkout(folder)?;
        wait(read(&ReadRequest {
            checkout: &checkout,
            environment: None,
            shell: &self.shell,
            compose: self.compose.as_ref(),
            machine_key: &KEY,
            memo: &self.memo,
            files: &self.files,
            profiles: &self.profiles,
            base: &checkout.folder,
            env_files: &self.env_files,
        }))
    }

    fn read(&self) -> Result<Stack, SourceError> {
        self.read_at(self.dir.path())
    }

    /// The model; the test is over when there is no Compose.
    fn stack(&self) -> Option<Stack> {
        self.compose.as_ref()?;
        Some(self.read().unwrap_or_else(|error| panic!("{error}\n{:#?}", error.diagnostics())))
    }

    /// What it is refused with.
    fn refused(&self) -> Option<String> {
        self.compose.as_ref()?;
        let error = self.read().expect_err("it was not refused");
        let all: Vec<String> = error.diagnostics().iter().map(ToString::to_string).collect();
        Some(if all.is_empty() { error.to_string() } else { all.join("\n") })
    }
}

fn git(folder: &Path, args: &[&str]) {
    let status = std::process::Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "init.defaultBranch=trunk"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "git {args:?}");
}

/// A text as one would look for it in anything that is kept.
fn everything(stack: &Stack) -> String {
    let model = serde_json::to_string(&stack.model).unwrap();
    let manifest = serde_json::to_string(&stack.manifest).unwrap();
    let inputs = serde_json::to_string(&stack.inputs).unwrap();
    let memo = serde_json::to_string(&stack.memo).unwrap();
    let texts = serde_json::to_string(&(&stack.templates, &stack.interpolation)).unwrap();
    format!("{model}{manifest}{inputs}{memo}{texts}{stack:?}")
}
