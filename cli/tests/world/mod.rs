//! A temporary home and folder, a cleared environment, and no Docker.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A compose file of one service.
pub(crate) const COMPOSE: &str = "name: shop\nservices:\n  web:\n    image: nginx\n    ports: [\"8080:80\"]\n";

/// What a command did.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// See the module.
pub(crate) struct World {
    root: TempDir,
}

/// The Compose plugin of whoever runs the tests: it reads compose files, with Docker or without.
fn compose() -> Option<PathBuf> {
    let own = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".docker/cli-plugins"));
    let known = ["/usr/local/lib", "/usr/local/libexec", "/usr/lib", "/usr/libexec"]
        .map(|at| Path::new(at).join("docker/cli-plugins"));
    own.into_iter().chain(known).map(|folder| folder.join("docker-compose")).find(|path| path.is_file())
}

/// Whether compose files can be read; says so when not.
pub(crate) fn has_compose() -> bool {
    let there = compose().is_some();
    if !there {
        #[expect(clippy::print_stderr, reason = "a test that was skipped says so")]
        {
            eprintln!("skipped: there is no Compose plugin on this machine");
        }
    }
    there
}

impl World {
    pub(crate) fn new() -> Self {
        let root = TempDir::new().unwrap();
        std::fs::create_dir(root.path().join("shop")).unwrap();
        let plugins = root.path().join("user/.docker/cli-plugins");
        std::fs::create_dir_all(&plugins).unwrap();
        if let Some(compose) = compose() {
            std::os::unix::fs::symlink(compose, plugins.join("docker-compose")).unwrap();
        }
        Self { root }
    }

    /// `$SIDESTACK_HOME`.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join("shop")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder().join(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder().join(name)).unwrap()
    }

    /// Every file of the folder with its content.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = std::fs::read_dir(self.folder()).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| (path.clone(), std::fs::read(&path).unwrap_or_default())).collect()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sidestack"));
        command
            .args(words)
            .current_dir(self.folder())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.root.path().join("user"))
            .env("SIDESTACK_HOME", self.home())
            .env("DOCKER_HOST", format!("unix://{}/no.sock", self.root.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Run {
        self.run_with(words, b"")
    }

    pub(crate) fn run_with(&self, words: &[&str], input: &[u8]) -> Run {
        let mut child = self.command(words).spawn().unwrap();
        // A command that reads nothing may be gone already.
        let _ = child.stdin.take().unwrap().write_all(input);
        Run::of(child.wait_with_output().unwrap())
    }

    /// With a standard output that nobody reads.
    pub(crate) fn run_unread(&self, words: &[&str]) -> Run {
        let mut child = self.command(words).spawn().unwrap();
        drop(child.stdout.take());
        Run::of(child.wait_with_output().unwrap())
    }

    /// The document of a command that succeeds.
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let run = self.run(&[words, &["--json"]].concat());
        assert_eq!(run.code, 0, "{words:?}: {}{}", run.stdout, run.stderr);
        let document: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(document["ok"], true);
        document
    }

    /// Compares exit codes, outputs and errors of commands with what is kept.
    pub(crate) fn holds(&self, name: &str, commands: &[&[&str]]) {
        let mut text = String::new();
        for words in commands {
            let run = self.run(words);
            let words: Vec<String> = words
                .iter()
                .map(|word| if word.contains(' ') { format!("'{word}'") } else { (*word).to_owned() })
                .collect();
            text.push_str(&format!("$ sidestack {}\nexit {}\n{}", words.join(" "), run.code, run.stdout));
            run.stderr.lines().for_each(|line| text.push_str(&format!("! {line}\n")));
            text.push('\n');
        }
        let text = self.redact(&text);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected").join(format!("{name}.txt"));
        if std::env::var_os("UPDATE_REFERENCE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == text,
            "{name} is another; run the tests with UPDATE_REFERENCE=1 and look at the difference:\n{text}"
        );
    }

    /// What is another in each run: the folder.
    fn redact(&self, text: &str) -> String {
        let canonical = self.root.path().canonicalize().unwrap();
        text.replace(&*canonical.to_string_lossy(), "[ROOT]").replace(&*self.root.path().to_string_lossy(), "[ROOT]")
    }
}

impl Run {
    fn of(output: std::process::Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
        Self {
            code: output.status.code().expect("no signal ended it"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}
