//! Where the Compose plugin is and which version it is.
//!
//! The plugin's binary is run itself: the docker CLI would run it twice (once to ask for its metadata). Looking for it
//! runs nothing; asking for the version does, and the answer may be cached by path, size and time.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{Environment, config_file, config_folder};

/// The oldest version that is supported.
pub const LOWEST_COMPOSE: (u32, u32, u32) = (2, 20, 0);

/// How long `version` may take; a cold start from a slow disk takes about a second.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

const SYSTEM_FOLDERS: [&str; 6] = [
    "/usr/local/lib/docker/cli-plugins",
    "/usr/local/libexec/docker/cli-plugins",
    "/usr/lib/docker/cli-plugins",
    "/usr/libexec/docker/cli-plugins",
    "/opt/homebrew/lib/docker/cli-plugins",
    "/Applications/Docker.app/Contents/Resources/cli-plugins",
];

/// The program that is called as `PATH ARGUMENTS…`, without the word `compose`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComposeBinary {
    /// Where it is.
    pub path: PathBuf,
}

/// Why there is no usable Compose.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ComposeError {
    /// None was found.
    #[error("docker compose is not installed: there is no plugin `docker-compose` in {}{}",
        list(looked_in), old.as_ref().map(|p| format!(", and `{}` is the old Compose 1", p.display())).unwrap_or_default())]
    NotFound {
        /// The plugin folders that were looked in.
        looked_in: Vec<PathBuf>,
        /// A Compose 1 that was found and passed over.
        old: Option<PathBuf>,
    },
    /// One that is too old.
    #[error("`{path}` is Compose {}.{}.{}, but {}.{} is the lowest that works", found.0, found.1, found.2,
        LOWEST_COMPOSE.0, LOWEST_COMPOSE.1)]
    TooOld {
        /// Where it is.
        path: PathBuf,
        /// Its version.
        found: (u32, u32, u32),
    },
    /// It could not be asked.
    #[error("cannot ask `{path}` for its version: {cause}")]
    Unusable {
        /// Where it is.
        path: PathBuf,
        /// What happened.
        cause: String,
    },
}

impl ComposeError {
    /// The way on.
    pub fn hint(&self) -> &'static str {
        "install the Compose plugin, 2.20 or newer: the package `docker-compose-plugin` of Docker's own repository, \
         `docker-compose` of a recent distribution, or the binary of its release page as \
         `~/.docker/cli-plugins/docker-compose`, made executable"
    }
}

fn list(paths: &[PathBuf]) -> String {
    let quoted: Vec<String> = paths.iter().map(|p| format!("`{}`", p.display())).collect();
    quoted.join(", ")
}

/// Finds the Compose plugin where the docker CLI looks for it, else a `docker-compose` on `PATH` that is not the old
/// Python program. Nothing is run.
///
/// # Errors
/// [`ComposeError::NotFound`].
pub fn find_compose(env: &Environment, home: Option<&Path>) -> Result<ComposeBinary, ComposeError> {
    find_in(env, home, &SYSTEM_FOLDERS.map(Path::new))
}

fn find_in(env: &Environment, home: Option<&Path>, system: &[&Path]) -> Result<ComposeBinary, ComposeError> {
    let config = config_folder(env, home);
    // A broken configuration is told by whoever needs it; here it only has no more folders to offer.
    let extra = config_file(config.as_deref()).ok().and_then(|(file, _)| file.cli_plugins_extra_dirs);
    let mut folders: Vec<PathBuf> = extra.unwrap_or_default();
    folders.extend(config.map(|folder| folder.join("cli-plugins")));
    folders.extend(home.map(|home| home.join(".docker/cli-plugins")));
    folders.extend(system.iter().map(PathBuf::from));
    let mut looked_in: Vec<PathBuf> = Vec::new();
    for folder in folders {
        if !looked_in.contains(&folder) {
            looked_in.push(folder);
        }
    }
    if let Some(path) = looked_in.iter().map(|folder| folder.join("docker-compose")).find(|path| is_executable(path)) {
        return Ok(ComposeBinary { path });
    }
    let mut old = None;
    let path = env.get("PATH").cloned().unwrap_or_default();
    for folder in std::env::split_paths(&path).filter(|folder| folder.is_absolute()) {
        let path = folder.join("docker-compose");
        if !is_executable(&path) {
            continue;
        }
        if !is_script(&path) {
            return Ok(ComposeBinary { path });
        }
        old.get_or_insert(path);
    }
    Err(ComposeError::NotFound { looked_in, old })
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Compose 1 is a Python program, installed as a script; Compose 2 is a binary.
fn is_script(path: &Path) -> bool {
    let mut start = [0; 2];
    fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && &start == b"#!"
}

/// Runs `PATH version --short` in an empty environment and gives the version.
///
/// # Errors
/// [`ComposeError::TooOld`] below [`LOWEST_COMPOSE`]; [`ComposeError::Unusable`] when it cannot be run, does not
/// answer within ten seconds, or answers something else.
pub fn compose_version(path: &Path) -> Result<(u32, u32, u32), ComposeError> {
    let unusable = |cause: String| ComposeError::Unusable { path: path.to_owned(), cause };
    let mut child = Command::new(path)
        .args(["version", "--short"])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", "/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| unusable(error.to_string()))?;
    // A version fits into the pipe, so that it may be read after the end.
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|e| unusable(e.to_string()))? {
            break status;
        }
        if start.elapsed() > VERSION_LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            return Err(unusable(format!("no answer within {VERSION_LIMIT:?}")));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    };
    let mut bytes = Vec::new();
    if let Some(output) = child.stdout.take() {
        let _ = output.take(4096).read_to_end(&mut bytes);
    }
    let text = String::from_utf8_lossy(&bytes);
    if !status.success() {
        return Err(unusable(format!("it ended with {status}")));
    }
    let found =
        parse_version(&text).ok_or_else(|| unusable(format!("`{}` is not a version", text.trim().escape_default())))?;
    if found < LOWEST_COMPOSE {
        return Err(ComposeError::TooOld { path: path.to_owned(), found });
    }
    Ok(found)
}

/// The numbers at the start of a version: `2.26.1-4`, `v2.40.3`, `5.0.0-desktop.1`, `2.20`.
pub fn parse_version(text: &str) -> Option<(u32, u32, u32)> {
    let text = text.trim();
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let mut numbers = text[..end].split('.').map(|n| n.parse().ok());
    let (major, minor) = (numbers.next()??, numbers.next()??);
    Some((major, minor, numbers.next().flatten().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn program(folder: &Path, text: &str) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        let path = folder.join("docker-compose");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn env(pairs: &[(&str, &Path)]) -> Environment {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), OsString::from(v))).collect()
    }

    #[test]
    fn plugins_come_before_the_path_and_nearer_ones_first() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let (home, system) = (at("home"), at("system"));
        let find = |env: &Environment| find_in(env, Some(&home), &[&system]);
        let bin = at("bin");
        let search = env(&[("PATH", &bin)]);

        assert!(matches!(find(&search), Err(ComposeError::NotFound { old: None, .. })));

        let old = program(&bin, "#!/usr/bin/python3\n");
        let error = find(&search).unwrap_err();
        assert!(matches!(&error, ComposeError::NotFound { old: Some(p), .. } if *p == old));
        let message = error.to_string();
        assert!(message.contains("old Compose 1") && message.contains("system`"), "{message}");
        assert!(error.hint().contains("2.20"));

        let elf = program(&at("bin2"), "\x7fELF");
        let both = std::env::join_paths([&bin, &at("bin2")]).unwrap();
        assert_eq!(find(&env(&[("PATH", Path::new(&both))])).unwrap().path, elf);

        let plugin = program(&system, "#!/bin/sh\n");
        assert_eq!(find(&search).unwrap().path, plugin);
        let plugin = program(&home.join(".docker/cli-plugins"), "#!/bin/sh\n");
        assert_eq!(find(&search).unwrap().path, plugin);
        let config = at("config");
        let plugin = program(&config.join("cli-plugins"), "#!/bin/sh\n");
        assert_eq!(find(&env(&[("DOCKER_CONFIG", &config)])).unwrap().path, plugin);
        let extra = program(&at("extra"), "#!/bin/sh\n");
        let text = format!(r#"{{"cliPluginsExtraDirs":["{}"]}}"#, at("extra").display());
        fs::write(config.join("config.json"), text).unwrap();
        assert_eq!(find(&env(&[("DOCKER_CONFIG", &config)])).unwrap().path, extra);

        fs::set_permissions(&extra, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(find(&env(&[("DOCKER_CONFIG", &config)])).unwrap().path, plugin);
    }

    #[test]
    fn versions_are_read() {
        for (text, expected) in [
            ("2.26.1-4\n", Some((2, 26, 1))),
            ("v2.40.3", Some((2, 40, 3))),
            ("5.0.0-desktop.1", Some((5, 0, 0))),
            ("2.20", Some((2, 20, 0))),
            ("2.20.3+ds1", Some((2, 20, 3))),
            ("", None),
            ("dev", None),
            ("2", None),
        ] {
            assert_eq!(parse_version(text), expected, "{text}");
        }
    }

    #[test]
    fn the_binary_is_asked_and_judged() {
        let dir = tempfile::tempdir().unwrap();
        let ask = |name: &str, script: &str| {
            let path = program(&dir.path().join(name), &format!("#!/bin/sh\n{script}\n"));
            // A busy machine may still have the script open for writing in a forked child.
            thread::sleep(Duration::from_millis(20));
            compose_version(&path)
        };
        assert_eq!(ask("new", r#"[ "$*" = "version --short" ] && echo v2.20.0"#).unwrap(), (2, 20, 0));
        let error = ask("old", "echo 1.29.2").unwrap_err();
        assert!(matches!(error, ComposeError::TooOld { found: (1, 29, 2), .. }));
        assert!(error.to_string().contains("is Compose 1.29.2, but 2.20 is the lowest"), "{error}");
        assert!(ask("odd", "echo hello").unwrap_err().to_string().contains("not a version"));
        assert!(ask("bad", "exit 3").unwrap_err().to_string().contains("exit status: 3"));
        let missing = compose_version(&dir.path().join("missing"));
        assert!(matches!(missing, Err(ComposeError::Unusable { .. })));
    }
}
