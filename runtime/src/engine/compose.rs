//! The Compose plugin as a child process.
//!
//! The plugin's program is called directly (`docker-compose ARGS`), which saves the 40-50 ms that
//! the docker CLI takes to find it. Nothing of our environment reaches it but what
//! [`base_environment`] lets through, and no `.env` file is read: neither a project nor a user's
//! variable can steer it to another daemon, another file or another program.
//!
//! The child is the leader of a process group of its own, so that Ctrl-C at the terminal does not
//! reach it: what it has begun it finishes. Its output file may carry an advisory lock, which then
//! stays held until the child ends, also when we are killed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::EngineError;

/// Between TERM and KILL when the limit is over: Compose takes back its half-made steps.
const GRACE: Duration = Duration::from_secs(5);

/// Where Compose reads the model.
#[derive(Clone, PartialEq, Eq)]
pub enum ComposeInput {
    /// From standard input (`-f -`), with secrets in it.
    ///
    /// Give JSON: if we are killed while writing, Compose sees a cut text, and of cut YAML it
    /// might take the first half for the whole model.
    Stdin(Vec<u8>),
    /// From these files, in this order.
    Files(Vec<PathBuf>),
}

/// The content of standard input is left out: it holds secrets.
impl std::fmt::Debug for ComposeInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stdin(bytes) => write!(f, "Stdin({} bytes)", bytes.len()),
            Self::Files(files) => f.debug_tuple("Files").field(files).finish(),
        }
    }
}

/// One call of Compose.
#[derive(Clone)]
pub struct ComposeCall {
    /// `-p`.
    pub project: String,
    /// `--project-directory`, what relative paths in the model start from.
    pub project_directory: PathBuf,
    /// The model.
    pub files: ComposeInput,
    /// `--env-file`; with none, `/dev/null`, so that the project's `.env` is not read.
    pub env_files: Vec<PathBuf>,
    /// `--profile`.
    pub profiles: Vec<String>,
    /// The command and what belongs to it, such as `["create", "--remove-orphans"]`.
    pub args: Vec<String>,
    /// The caller's environment. Only what [`base_environment`] lets through is handed on.
    pub environment: BTreeMap<String, OsString>,
    /// Variables for interpolation. Those that would steer Compose itself are not handed on.
    pub variables: BTreeMap<String, OsString>,
    /// After it, the child's group gets TERM, 5 s later KILL.
    pub limit: Duration,
}

impl ComposeCall {
    /// A call without variables, profiles and env files, with a limit of ten minutes.
    pub fn new(project: &str, project_directory: &Path, files: ComposeInput, args: &[&str]) -> Self {
        Self {
            project: project.to_owned(),
            project_directory: project_directory.to_owned(),
            files,
            env_files: Vec::new(),
            profiles: Vec::new(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            environment: BTreeMap::new(),
            variables: BTreeMap::new(),
            limit: Duration::from_secs(600),
        }
    }

    fn arguments(&self) -> Vec<OsString> {
        let mut all: Vec<OsString> = vec!["-p".into(), self.project.clone().into()];
        match &self.files {
            ComposeInput::Stdin(_) => all.extend(["-f".into(), "-".into()]),
            ComposeInput::Files(files) => {
                for file in files {
                    all.extend(["-f".into(), file.into()]);
                }
            }
        }
        all.extend(["--project-directory".into(), (&self.project_directory).into()]);
        if self.env_files.is_empty() {
            all.extend(["--env-file".into(), "/dev/null".into()]);
        }
        for file in &self.env_files {
            all.extend(["--env-file".into(), file.into()]);
        }
        for profile in &self.profiles {
            all.extend(["--profile".into(), profile.into()]);
        }
        all.extend(self.args.iter().map(OsString::from));
        all
    }

    /// What cannot be changed any more once it was started.
    fn started_with(&self) -> (Vec<OsString>, BTreeMap<String, OsString>, BTreeMap<String, OsString>) {
        (self.arguments(), self.environment.clone(), self.variables.clone())
    }

    /// Everything the child gets to see.
    fn child_environment(&self, host: &str) -> BTreeMap<String, OsString> {
        let mut all: BTreeMap<String, OsString> = self
            .variables
            .iter()
            .filter(|(key, value)| !steers(key) && is_sound(key, value))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        all.extend(base_environment(&self.environment));
        all.insert("DOCKER_HOST".to_owned(), host.into());
        all
    }
}

/// How Compose ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComposeExit {
    /// Exit code; 128 + N when signal N ended it.
    pub code: i32,
}

impl ComposeExit {
    /// Whether it did what it was asked.
    pub fn is_success(self) -> bool {
        self.code == 0
    }
}

/// What Compose printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComposeOutput {
    /// Exit code; 128 + N when signal N ended it.
    pub code: i32,
    /// Standard output, as bytes.
    pub stdout: Vec<u8>,
    /// Standard error, as text.
    pub stderr: String,
}

/// The plugin's program and the daemon it shall use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compose {
    binary: PathBuf,
    host: String,
}

impl Compose {
    /// `binary` is the plugin itself (`…/cli-plugins/docker-compose`), `host` goes into
    /// `DOCKER_HOST`.
    pub fn new(binary: impl Into<PathBuf>, host: impl Into<String>) -> Self {
        Self { binary: binary.into(), host: host.into() }
    }

    /// The plugin's program.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Runs Compose with its standard output and error in a file.
    ///
    /// The child keeps the file's descriptor and with it any advisory lock on it. When this future
    /// is dropped the child goes on, and the lock stays until it ends. A Compose that ends with an
    /// error is no error here: look at the code, and at the file with [`super::explain`]. Errors:
    /// [`EngineError::ComposeNotRun`], and [`EngineError::Hung`] at the limit.
    pub async fn run_to_file(&self, call: &ComposeCall, output: File) -> Result<ComposeExit, EngineError> {
        self.start(call, output)?.finish(call).await
    }

    /// Starts it, with its standard output and error in a file, before it is given its model.
    ///
    /// # Errors
    /// [`EngineError::ComposeNotRun`].
    pub fn start(&self, call: &ComposeCall, output: File) -> Result<Started, EngineError> {
        let second = output.try_clone().map_err(|e| self.not_run(&e))?;
        let child = self.spawn(call, Stdio::from(output), Stdio::from(second), false)?;
        Ok(Started { compose: self.clone(), what: call.started_with(), child: Some(child) })
    }

    /// Runs Compose and returns what it printed. When this future is dropped the child is killed.
    pub async fn capture(&self, call: &ComposeCall) -> Result<ComposeOutput, EngineError> {
        let mut child = self.spawn(call, Stdio::piped(), Stdio::piped(), true)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let work = async {
            let (_, out, err, status) =
                futures_util::join!(feed(stdin, &call.files), drain(stdout), drain(stderr), child.wait());
            Ok::<_, std::io::Error>((out?, err?, status?))
        };
        match tokio::time::timeout(call.limit, work).await {
            Ok(Ok((stdout, stderr, status))) => {
                Ok(ComposeOutput { code: code(status), stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() })
            }
            Ok(Err(error)) => Err(self.not_run(&error)),
            Err(_) => Err(self.end(&mut child, call).await),
        }
    }

    /// Runs Compose on our own standard streams, with the terminal when there is one, and gives its exit code. It is
    /// in our own process group: a Ctrl-C at the terminal is for it. The call's limit does not hold.
    pub fn attended(&self, call: &ComposeCall) -> Result<i32, EngineError> {
        let mut command = std::process::Command::new(&self.binary);
        command.args(call.arguments()).env_clear().envs(call.child_environment(&self.host));
        command.envs(OF_TERMINALS.iter().filter_map(|key| Some((key, call.environment.get(*key)?))));
        if matches!(call.files, ComposeInput::Stdin(_)) {
            command.stdin(Stdio::piped());
        }
        command.current_dir(if call.project_directory.is_dir() { &call.project_directory } else { Path::new("/") });
        let mut child = command.spawn().map_err(|e| self.not_run(&e))?;
        if let (Some(mut stdin), ComposeInput::Stdin(bytes)) = (child.stdin.take(), &call.files) {
            // It reads all of it before it prints; one that fails early does not, and its exit code tells.
            let _ = std::io::Write::write_all(&mut stdin, bytes);
        }
        Ok(code(child.wait().map_err(|e| self.not_run(&e))?))
    }

    fn spawn(
        &self,
        call: &ComposeCall,
        stdout: Stdio,
        stderr: Stdio,
        kill_on_drop: bool,
    ) -> Result<Child, EngineError> {
        let mut command = Command::new(&self.binary);
        command
            .args(call.arguments())
            .env_clear()
            .envs(SETTLED)
            .envs(call.child_environment(&self.host))
            .stdin(match call.files {
                ComposeInput::Stdin(_) => Stdio::piped(),
                // Closed, so that a question is answered with no.
                ComposeInput::Files(_) => Stdio::null(),
            })
            .stdout(stdout)
            .stderr(stderr)
            .kill_on_drop(kill_on_drop);
        // A folder that is gone would make every spawn fail; Compose gets it as an argument anyway.
        if call.project_directory.is_dir() {
            command.current_dir(&call.project_directory);
        } else {
            command.current_dir("/");
        }
        #[cfg(unix)]
        command.process_group(0);
        command.spawn().map_err(|e| self.not_run(&e))
    }

    fn not_run(&self, error: &std::io::Error) -> EngineError {
        EngineError::ComposeNotRun { program: self.binary.display().to_string(), cause: error.to_string() }
    }

    /// Ends the child's whole group, and reaps it.
    async fn end(&self, child: &mut Child, call: &ComposeCall) -> EngineError {
        let leader = child.id();
        signal_group(leader, "TERM").await;
        let _ = tokio::time::timeout(GRACE, child.wait()).await;
        // Also when the leader is gone: whoever is left in its group goes with it.
        signal_group(leader, "KILL").await;
        let _ = child.kill().await;
        EngineError::Hung {
            what: format!("`compose {}` of project `{}`", call.args.first().map_or("", String::as_str), call.project),
            after: call.limit,
        }
    }
}

/// A Compose that was started and waits for its model.
///
/// A model that comes by standard input is read after everything else that Compose needs, so that its start costs no
/// time when it is started early. Without a model it does nothing: when its input ends, because this is dropped or its
/// process is killed, it ends with an error. Dropped, it is killed at once.
pub struct Started {
    compose: Compose,
    what: (Vec<OsString>, BTreeMap<String, OsString>, BTreeMap<String, OsString>),
    child: Option<Child>,
}

impl Started {
    /// Whether it is what a call asks for, whatever its model and its limit.
    pub fn is_of(&self, call: &ComposeCall) -> bool {
        self.what == call.started_with()
    }

    /// Hands it the model and waits for its end, as [`Compose::run_to_file`] does.
    ///
    /// # Errors
    /// [`EngineError::ComposeNotRun`], and [`EngineError::Hung`] at the limit.
    pub async fn finish(mut self, call: &ComposeCall) -> Result<ComposeExit, EngineError> {
        // From here on it goes on by itself, also when this future is dropped.
        let Some(mut child) = self.child.take() else {
            return Err(self.compose.not_run(&std::io::Error::other("it was ended")));
        };
        let stdin = child.stdin.take();
        let work = async {
            let (_, status) = futures_util::join!(feed(stdin, &call.files), child.wait());
            status
        };
        match tokio::time::timeout(call.limit, work).await {
            Ok(status) => Ok(ComposeExit { code: code(status.map_err(|e| self.compose.not_run(&e))?) }),
            Err(_) => Err(self.compose.end(&mut child, call).await),
        }
    }

    /// Ends it before it has done anything, and waits until it is gone.
    pub async fn cancel(mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill().await;
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.start_kill();
        }
    }
}

/// Signals a child's group. Through the shell's own `kill`, since Rust's standard library has no
/// call for it.
async fn signal_group(leader: Option<u32>, signal: &str) {
    let Some(leader) = leader else {
        return;
    };
    let _ = Command::new("/bin/sh")
        .args(["-c", "kill -s \"$1\" -- \"-$2\"", "sh", signal])
        .arg(leader.to_string())
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .await;
}

async fn feed(stdin: Option<tokio::process::ChildStdin>, files: &ComposeInput) {
    if let (Some(mut stdin), ComposeInput::Stdin(bytes)) = (stdin, files) {
        // A Compose that fails early does not read everything; its exit code tells.
        let _ = stdin.write_all(bytes).await;
        let _ = stdin.shutdown().await;
    }
}

async fn drain<R: tokio::io::AsyncRead + Unpin>(pipe: Option<R>) -> std::io::Result<Vec<u8>> {
    let mut all = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut all).await?;
    }
    Ok(all)
}

fn code(status: ExitStatus) -> i32 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return 128 + signal;
    }
    status.code().unwrap_or(-1)
}

/// Keys of a user's environment that Compose and its build plugin need, and no others.
const ALLOWED: [&str; 21] = [
    "HOME",
    "PATH",
    "USER",
    "LOGNAME",
    "LANG",
    "TZ",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "DOCKER_CONFIG",
    "DOCKER_CERT_PATH",
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "no_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "SYSTEMROOT",
];

/// Whole families that are let through.
const ALLOWED_PREFIXES: [&str; 3] = ["XDG_", "BUILDX_", "LC_"];

/// Families that steer Compose, its plugins or the dynamic linker. Whole families such as
/// `DOCKER_` or `GIT_` would be too much: `${DOCKER_REGISTRY}` and `${GIT_SHA}` are common in
/// compose files.
const STEERING_PREFIXES: [&str; 11] = [
    "COMPOSE_",
    "BUILDX_",
    "BUILDKIT_",
    "XDG_",
    "LC_",
    "LD_",
    "DYLD_",
    "DOCKER_CLI_",
    "DOCKER_TLS",
    "DOCKER_CONTENT_TRUST",
    "GIT_CONFIG",
];

/// Single keys that steer the Docker libraries, git, the Go runtime or a shell.
const STEERING: [&str; 26] = [
    "DOCKER_API_VERSION",
    "DOCKER_AUTH_CONFIG",
    "DOCKER_BUILDKIT",
    "DOCKER_CERT_PATH",
    "DOCKER_CONTEXT",
    "DOCKER_CUSTOM_HEADERS",
    "DOCKER_DEFAULT_PLATFORM",
    "DOCKER_HIDE_LEGACY_COMMANDS",
    "DOCKER_HOST",
    "GIT_ASKPASS",
    "GIT_DIR",
    "GIT_EXEC_PATH",
    "GIT_PROXY_COMMAND",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_WORK_TREE",
    "GODEBUG",
    "GOGC",
    "GOMAXPROCS",
    "GOMEMLIMIT",
    "GOTRACEBACK",
    "SSH_ASKPASS",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "BASH_ENV",
    "IFS",
];

/// Compose takes `COMPOSE_*` out of a stack's env files, unless its environment has it: with a
/// value of these that it cannot read it gives up. What is here is what it does by itself.
const SETTLED: [(&str, &str); 2] = [("COMPOSE_PARALLEL_LIMIT", "-1"), ("COMPOSE_ANSI", "never")];

/// What a program that prints to a terminal needs to know of it.
const OF_TERMINALS: [&str; 4] = ["TERM", "COLUMNS", "LINES", "NO_COLOR"];

/// What of an environment Compose may see: home, search path, Docker's own configuration folder,
/// proxies, locale. `DOCKER_HOST`, `COMPOSE_*`, `LD_*` and everything unknown stay out.
pub fn base_environment(environment: &BTreeMap<String, OsString>) -> BTreeMap<String, OsString> {
    environment
        .iter()
        .filter(|(key, value)| is_allowed(key) && is_sound(key, value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn is_allowed(key: &str) -> bool {
    ALLOWED.contains(&key) || ALLOWED_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// Whether a variable that is meant for interpolation would do more than that.
fn steers(key: &str) -> bool {
    ALLOWED.contains(&key) || STEERING.contains(&key) || STEERING_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// What the operating system can carry: a key without `=`, neither with a NUL.
fn is_sound(key: &str, value: &OsStr) -> bool {
    !key.is_empty() && !key.contains(['=', '\0']) && !value.as_encoded_bytes().contains(&0)
}

#[cfg(test)]
mod tests;
