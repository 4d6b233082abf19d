//! Which Docker is meant, by the rule of the docker CLI, and where its Compose is.
//!
//! The rule, first match wins: `--context`, `DOCKER_HOST`, `DOCKER_CONTEXT`, `currentContext` of the CLI's
//! configuration, the default socket. Where that socket does not exist, the sockets of the usual desktop and rootless
//! set-ups are looked for, which the docker CLI leaves to a context. Functions of their arguments and of the files that
//! the rule names; nothing is connected to.

mod compose;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

pub use compose::{ComposeBinary, ComposeError, LOWEST_COMPOSE, compose_version, find_compose, parse_version};

/// The environment that a decision is made from, taken once at the edge.
pub type Environment = BTreeMap<String, OsString>;

/// The socket of an ordinary installation.
const DEFAULT_SOCKET: &str = "/var/run/docker.sock";

/// A Docker to talk to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// `unix:///path` or `tcp://loopback:port`.
    pub host: String,
    /// Which rule chose it.
    pub rule: Rule,
    /// The docker context it comes from, if it is one other than `default`.
    pub context: Option<String>,
}

/// Why an endpoint was chosen. As text it is a sentence without its full stop.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// `--context NAME`.
    ExplicitContext(String),
    /// The variable `DOCKER_HOST`.
    DockerHost,
    /// The variable `DOCKER_CONTEXT`.
    DockerContext(String),
    /// `currentContext` in this file.
    CurrentContext(String, PathBuf),
    /// Nothing was said.
    DefaultSocket,
    /// Nothing was said and the default socket does not exist, but this one does.
    WellKnownSocket(&'static str),
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ExplicitContext(name) => write!(f, "`--context {name}` names it"),
            Self::DockerHost => write!(f, "the variable `DOCKER_HOST` names it"),
            Self::DockerContext(name) => {
                write!(f, "the variable `DOCKER_CONTEXT` names the context `{name}`")
            }
            Self::CurrentContext(name, file) => {
                write!(f, "`{name}` is the current context in `{}`", file.display())
            }
            Self::DefaultSocket => write!(f, "it is the default socket"),
            Self::WellKnownSocket(whose) => {
                write!(f, "`{DEFAULT_SOCKET}` does not exist and this is the socket of {whose}")
            }
        }
    }
}

/// Why there is no endpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// A context that does not exist.
    #[error("the docker context `{name}` does not exist: there is no `{file}`")]
    NoContext {
        /// Its name.
        name: String,
        /// Where its file would be.
        file: PathBuf,
    },
    /// A file of the docker CLI that cannot be used.
    #[error("cannot use `{file}`: {cause}")]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// Docker on another machine, or behind a connection that is not supported.
    #[error("`{host}` is {what}, which Sidestack does not support ({rule})")]
    Remote {
        /// The address as it was given.
        host: String,
        /// What it is.
        what: &'static str,
        /// Which rule chose it.
        rule: Rule,
    },
    /// An address that is none.
    #[error("`{host}` is not the address of a Docker daemon ({rule})")]
    Malformed {
        /// The address as it was given.
        host: String,
        /// Which rule chose it.
        rule: Rule,
    },
}

impl EndpointError {
    /// The way on.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoContext { .. } => "`docker context ls` lists the contexts that there are",
            Self::File { .. } => "repair or remove the file; `docker context ls` reads it as well",
            Self::Remote { .. } => {
                "Sidestack publishes ports on this machine, so it needs a Docker of this machine: \
                 choose one with `docker context use`, `--context`, or `DOCKER_HOST=unix:///path/to/docker.sock`; \
                 for another machine, run Sidestack there"
            }
            Self::Malformed { .. } => "an address looks like `unix:///var/run/docker.sock` or `tcp://127.0.0.1:2375`",
        }
    }
}

/// Chooses the endpoint.
///
/// `env` is the process's environment, `home` the user's home folder, `explicit_context` the value of `--context`.
///
/// # Errors
/// See [`EndpointError`]. That nothing listens at the endpoint is no error here.
pub fn resolve(
    env: &Environment,
    home: Option<&Path>,
    explicit_context: Option<&str>,
) -> Result<Endpoint, EndpointError> {
    resolve_at(env, home, explicit_context, Path::new(DEFAULT_SOCKET))
}

fn resolve_at(
    env: &Environment,
    home: Option<&Path>,
    explicit_context: Option<&str>,
    default_socket: &Path,
) -> Result<Endpoint, EndpointError> {
    let folder = config_folder(env, home);
    let docker_host = text(env, "DOCKER_HOST");

    if let Some(name) = explicit_context {
        let rule = Rule::ExplicitContext(name.to_owned());
        // `default` means what would hold without any context.
        if name != "default" {
            return from_context(folder.as_deref(), name, rule);
        }
    }
    if let Some(host) = docker_host {
        let tls = text(env, "DOCKER_TLS_VERIFY").is_some() || text(env, "DOCKER_TLS").is_some();
        return Ok(Endpoint { host: supported(&host, tls, &Rule::DockerHost)?, rule: Rule::DockerHost, context: None });
    }
    if explicit_context.is_none() {
        if let Some(name) = text(env, "DOCKER_CONTEXT") {
            if name != "default" {
                let rule = Rule::DockerContext(name.clone());
                return from_context(folder.as_deref(), &name, rule);
            }
        } else if let Some((name, file)) = current_context(folder.as_deref())? {
            let rule = Rule::CurrentContext(name.clone(), file);
            return from_context(folder.as_deref(), &name, rule);
        }
    }
    let (path, rule) = if is_socket(default_socket) {
        (default_socket.to_owned(), Rule::DefaultSocket)
    } else {
        well_known(env, home).into_iter().find(|(path, _)| is_socket(path)).map_or_else(
            || (default_socket.to_owned(), Rule::DefaultSocket),
            |(path, whose)| (path, Rule::WellKnownSocket(whose)),
        )
    };
    Ok(Endpoint { host: format!("unix://{}", path.display()), rule, context: None })
}

/// A variable that is set, not empty, and text.
fn text(env: &Environment, name: &str) -> Option<String> {
    let value = env.get(name)?.to_str()?;
    (!value.is_empty()).then(|| value.to_owned())
}

/// The folder of the docker CLI's configuration.
fn config_folder(env: &Environment, home: Option<&Path>) -> Option<PathBuf> {
    match env.get("DOCKER_CONFIG").filter(|value| !value.is_empty()) {
        Some(folder) => Some(PathBuf::from(folder)),
        None => Some(home?.join(".docker")),
    }
}

/// What is read of the docker CLI's `config.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigFile {
    #[serde(default)]
    current_context: Option<String>,
    #[serde(default)]
    cli_plugins_extra_dirs: Option<Vec<PathBuf>>,
}

/// The configuration and its path; empty where there is none.
fn config_file(folder: Option<&Path>) -> Result<(ConfigFile, PathBuf), EndpointError> {
    let Some(folder) = folder else {
        return Ok(Default::default());
    };
    let file = folder.join("config.json");
    let config = read_json(&file)?.unwrap_or_default();
    Ok((config, file))
}

/// A JSON file, or `None` where there is none.
fn read_json<T: for<'a> Deserialize<'a>>(file: &Path) -> Result<Option<T>, EndpointError> {
    let unusable = |cause: String| EndpointError::File { file: file.to_owned(), cause };
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(unusable(error.to_string())),
    };
    // The parser's message may quote the file, and that file may hold registry passwords: only the place is told.
    serde_json::from_str(&text).map(Some).map_err(|error| {
        unusable(format!("not the JSON that is expected (line {}, column {})", error.line(), error.column()))
    })
}

fn current_context(folder: Option<&Path>) -> Result<Option<(String, PathBuf)>, EndpointError> {
    let (config, file) = config_file(folder)?;
    Ok(config.current_context.filter(|name| !name.is_empty() && name != "default").map(|name| (name, file)))
}

#[derive(Deserialize)]
struct ContextMeta {
    #[serde(rename = "Endpoints", default)]
    endpoints: BTreeMap<String, ContextEndpoint>,
}

#[derive(Deserialize)]
struct ContextEndpoint {
    #[serde(rename = "Host", default)]
    host: String,
}

/// The endpoint of a named context, from `contexts/meta/<SHA-256 of the name>/meta.json`.
fn from_context(folder: Option<&Path>, name: &str, rule: Rule) -> Result<Endpoint, EndpointError> {
    let id: String = Sha256::digest(name.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let contexts = folder.unwrap_or(Path::new("")).join("contexts");
    let file = contexts.join("meta").join(&id).join("meta.json");
    let Some(meta) = read_json::<ContextMeta>(&file)? else {
        return Err(EndpointError::NoContext { name: name.to_owned(), file });
    };
    let Some(endpoint) = meta.endpoints.get("docker") else {
        return Err(EndpointError::File { file, cause: "it has no endpoint named `docker`".into() });
    };
    let tls = fs::read_dir(contexts.join("tls").join(&id).join("docker")).is_ok_and(|mut files| files.next().is_some());
    let default = format!("unix://{DEFAULT_SOCKET}");
    let host = if endpoint.host.is_empty() { &default } else { &endpoint.host };
    Ok(Endpoint { host: supported(host, tls, &rule)?, rule, context: Some(name.to_owned()) })
}

/// The address in its full form, if it is one that can be used.
fn supported(host: &str, tls: bool, rule: &Rule) -> Result<String, EndpointError> {
    let remote = |what| Err(EndpointError::Remote { host: host.to_owned(), what, rule: rule.clone() });
    let malformed = || EndpointError::Malformed { host: host.to_owned(), rule: rule.clone() };
    let trimmed = host.trim();
    // As the docker CLI has it, an address without a scheme is TCP.
    let (scheme, rest) = trimmed.split_once("://").unwrap_or(("tcp", trimmed));
    match scheme {
        "unix" if rest.is_empty() => Ok(format!("unix://{DEFAULT_SOCKET}")),
        "unix" if rest.starts_with('/') => Ok(format!("unix://{rest}")),
        "ssh" => remote("a Docker on another machine, reached over SSH"),
        "https" => remote("a Docker behind TLS"),
        "tcp" | "http" => {
            let authority = rest.trim_end_matches('/');
            let (name, port) = match authority.rsplit_once(':') {
                Some((name, port)) if !port.contains(']') => (name, port.parse::<u16>().map_err(|_| malformed())?),
                _ => (authority, if tls { 2376 } else { 2375 }),
            };
            if authority.contains('/') || authority.is_empty() {
                return Err(malformed());
            }
            if tls {
                return remote("a Docker behind TLS");
            }
            let bare = name.trim_start_matches('[').trim_end_matches(']');
            let here = match bare.parse::<std::net::IpAddr>() {
                Ok(ip) => ip.is_loopback(),
                Err(_) => bare == "localhost" || bare.is_empty(),
            };
            if !here {
                return remote("a Docker on another machine");
            }
            let name = if bare.is_empty() { "127.0.0.1" } else { name };
            Ok(format!("tcp://{name}:{port}"))
        }
        _ => Err(malformed()),
    }
}

/// The sockets of the usual set-ups, in the order in which they are looked for.
fn well_known(env: &Environment, home: Option<&Path>) -> Vec<(PathBuf, &'static str)> {
    let mut sockets = Vec::new();
    if let Some(runtime) = text(env, "XDG_RUNTIME_DIR") {
        sockets.push((Path::new(&runtime).join("docker.sock"), "a rootless Docker"));
    }
    let Some(home) = home else {
        return sockets;
    };
    let colima = text(env, "COLIMA_HOME").map_or_else(|| home.join(".colima"), PathBuf::from);
    sockets.extend([
        (home.join(".docker/run/docker.sock"), "Docker Desktop or a rootless Docker"),
        (home.join(".docker/desktop/docker.sock"), "Docker Desktop"),
        (colima.join("default/docker.sock"), "Colima"),
        (home.join(".orbstack/run/docker.sock"), "OrbStack"),
        (home.join(".rd/docker.sock"), "Rancher Desktop"),
    ]);
    sockets
}

fn is_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}

#[cfg(test)]
mod tests;
