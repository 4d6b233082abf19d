//! The Compose child against a real plugin and a real daemon; says so where it is skipped.

#![cfg(unix)]
#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sidestack_runtime::engine::compose::{Compose, ComposeCall, ComposeInput};
use sidestack_runtime::engine::{DockerEngine, Engine, EngineError, Status, explain};

const IMAGE: &str = "busybox:stable";

fn host() -> String {
    std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned())
}

fn environment() -> BTreeMap<String, OsString> {
    std::env::vars_os().filter_map(|(key, value)| Some((key.into_string().ok()?, value))).collect()
}

fn plugin() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").unwrap_or_default();
    [
        Path::new(&home).join(".docker/cli-plugins"),
        "/usr/local/lib/docker/cli-plugins".into(),
        "/usr/local/libexec/docker/cli-plugins".into(),
        "/usr/lib/docker/cli-plugins".into(),
        "/usr/libexec/docker/cli-plugins".into(),
    ]
    .into_iter()
    .map(|folder| folder.join("docker-compose"))
    .find(|path| path.is_file())
}

/// Takes the project away again, whatever happened.
struct Project {
    compose: Compose,
    name: String,
    folder: tempfile::TempDir,
}

impl Project {
    async fn new(test: &str) -> Option<(Self, DockerEngine)> {
        let engine = DockerEngine::connect(&host()).expect("a valid endpoint");
        let Some(binary) = plugin() else {
            eprintln!("skipped {test}: no Compose plugin here");
            return None;
        };
        match engine.image(IMAGE).await {
            Ok(Some(_)) => {}
            Ok(None) => {
                eprintln!("skipped {test}: no image `{IMAGE}` here");
                return None;
            }
            Err(error) => {
                eprintln!("skipped {test}: no Docker answers ({error})");
                return None;
            }
        }
        let project = Self {
            compose: Compose::new(binary, host()),
            name: format!("sidestack_engine_test_{}_{test}", std::process::id()),
            folder: tempfile::tempdir().expect("a folder"),
        };
        Some((project, engine))
    }

    fn call(&self, model: &str, args: &[&str]) -> ComposeCall {
        let input = ComposeInput::Stdin(model.as_bytes().to_vec());
        let mut call = ComposeCall::new(&self.name, self.folder.path(), input, args);
        call.environment = environment();
        call
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = std::process::Command::new(self.compose.binary())
            .args(["-p", &self.name, "down", "-v", "-t", "0", "--remove-orphans"])
            .env("DOCKER_HOST", host())
            .current_dir(self.folder.path())
            .output();
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_model_on_standard_input_is_created_and_can_be_started() {
    let Some((project, engine)) = Project::new("create").await else {
        return;
    };
    // Neither the folder's `.env` nor its compose file may have a say.
    std::fs::write(project.folder.path().join(".env"), "COMPOSE_PROFILES=no\nTAG=wrong\n").expect("a file");
    std::fs::write(project.folder.path().join("compose.yaml"), "services: {other: {image: x}}").expect("a file");
    let model = r#"{"services":{"web":{"image":"busybox:${TAG}","command":["sleep","300"],"environment":{"SECRET":"a$$b\u00e9\"\n"}}}}"#;
    let log = project.folder.path().join("log");
    let mut call = project.call(model, &["create", "--remove-orphans"]);
    call.variables.insert("TAG".to_owned(), "stable".into());
    let begun = Instant::now();
    let exit = project.compose.run_to_file(&call, std::fs::File::create(&log).expect("a log")).await.expect("a run");
    eprintln!("measured: create of one service: {} ms", begun.elapsed().as_millis());
    assert!(exit.is_success(), "{}", std::fs::read_to_string(&log).expect("text"));

    let list = engine.containers(&format!("com.docker.compose.project={}", project.name)).await.expect("a list");
    assert_eq!(list.len(), 1);
    assert_eq!((list[0].service.as_deref(), list[0].status), (Some("web"), Status::Created));
    engine.start(&list[0].id).await.expect("a start");
    let env = engine.inspect(&list[0].id).await.expect("a detail").env;
    assert!(env.contains(&"SECRET=a$b\u{e9}\"\n".to_owned()), "the value did not arrive exactly");
}

#[tokio::test(flavor = "current_thread")]
async fn config_is_captured_and_failures_are_explained() {
    let Some((project, _engine)) = Project::new("config").await else {
        return;
    };
    let model = r#"{"services":{"web":{"image":"${IMAGE}"}}}"#;
    let mut call = project.call(model, &["config", "--format", "json"]);
    call.variables.insert("IMAGE".to_owned(), IMAGE.into());
    let output = project.compose.capture(&call).await.expect("a run");
    assert_eq!(output.code, 0, "{}", output.stderr);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["services"]["web"]["image"], IMAGE);

    let overlap = format!(
        r#"{{"services":{{"web":{{"image":"{IMAGE}"}}}},"networks":{{"default":{{"ipam":{{"config":[{{"subnet":"172.17.0.0/24"}}]}}}}}}}}"#
    );
    let output = project.compose.capture(&project.call(&overlap, &["create"])).await.expect("a run");
    if output.code == 0 {
        eprintln!("skipped the overlap: this daemon's bridge is not 172.17.0.0/16");
        return;
    }
    let explained = explain(&output.stderr);
    assert!(matches!(explained, Some(EngineError::PoolOverlap { .. })), "{explained:?}: {}", output.stderr);
}
