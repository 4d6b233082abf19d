//! The child runner against small shell scripts in Compose's place.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn script(body: &str) -> (tempfile::TempDir, Compose) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("docker-compose");
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    (folder, Compose::new(path, "unix:///x.sock"))
}

fn call(input: ComposeInput, args: &[&str]) -> ComposeCall {
    let mut call = ComposeCall::new("shop_dev_main", Path::new("/"), input, args);
    call.environment.insert("PATH".to_owned(), "/usr/bin:/bin".into());
    call.limit = Duration::from_secs(20);
    call
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, OsString> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), OsString::from(v))).collect()
}

#[test]
fn hostile_keys_do_not_pass() {
    let hostile = [
        "COMPOSE_FILE",
        "COMPOSE_PROJECT_NAME",
        "COMPOSE_PROFILES",
        "COMPOSE_ENV_FILES",
        "COMPOSE_PATH_SEPARATOR",
        "DOCKER_HOST",
        "DOCKER_CONTEXT",
        "DOCKER_TLS_VERIFY",
        "DOCKER_BUILDKIT",
        "DOCKER_DEFAULT_PLATFORM",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "DYLD_INSERT_LIBRARIES",
        "GODEBUG",
        "BUILDKIT_HOST",
        "BASH_ENV",
        "path",
        "",
        "A=B",
        "HOME\0",
    ];
    let benign = [
        "HOME",
        "PATH",
        "DOCKER_CONFIG",
        "XDG_RUNTIME_DIR",
        "BUILDX_BUILDER",
        "SSH_AUTH_SOCK",
        "https_proxy",
        "NO_PROXY",
    ];
    let mut environment = BTreeMap::new();
    for key in hostile.iter().chain(&benign) {
        environment.insert((*key).to_owned(), OsString::from("x"));
    }
    let kept: Vec<String> = base_environment(&environment).into_keys().collect();
    let mut wanted = benign.map(str::to_owned).to_vec();
    wanted.sort();
    assert_eq!(kept, wanted);

    // As interpolation variables, none may replace what the base gives or steer anything.
    let mut call = call(ComposeInput::Files(Vec::new()), &["config"]);
    call.variables = environment;
    for key in ["TAG", "ENV", "DOCKER_REGISTRY", "GIT_SHA", "GOOGLE_API_KEY"] {
        call.variables.insert(key.to_owned(), "17".into());
    }
    let child = call.child_environment("unix:///mine.sock");
    assert_eq!(child["DOCKER_HOST"], "unix:///mine.sock");
    assert_eq!(child["PATH"], "/usr/bin:/bin");
    let keys: Vec<&str> = child.keys().map(String::as_str).collect();
    let wanted = ["DOCKER_HOST", "DOCKER_REGISTRY", "ENV", "GIT_SHA", "GOOGLE_API_KEY", "PATH", "TAG", "path"];
    assert_eq!(keys, wanted);
}

#[test]
fn arguments_stand_before_the_command() {
    let mut call = call(ComposeInput::Stdin(Vec::new()), &["create", "--remove-orphans"]);
    call.profiles = vec!["*".to_owned()];
    let text = call.arguments().join(OsStr::new(" ")).into_string().expect("text");
    assert_eq!(
        text,
        "-p shop_dev_main -f - --project-directory / --env-file /dev/null --profile * create --remove-orphans"
    );
}

#[tokio::test(flavor = "current_thread")]
async fn large_input_and_output_do_not_block_each_other() {
    let (_folder, compose) = script("cat; echo oops >&2; exit 3");
    let model = vec![b'x'; 3_000_000];
    let output = compose.capture(&call(ComposeInput::Stdin(model.clone()), &["config"])).await.expect("a run");
    assert_eq!(output.code, 3);
    assert_eq!(output.stderr, "oops\n");
    assert!(output.stdout == model, "{} bytes", output.stdout.len());
}

#[tokio::test(flavor = "current_thread")]
async fn a_child_that_reads_nothing_is_no_error() {
    let (_folder, compose) = script("exit 14");
    let output = compose.capture(&call(ComposeInput::Stdin(vec![b'x'; 3_000_000]), &["config"])).await.expect("a run");
    assert_eq!(output.code, 14);
}

#[tokio::test(flavor = "current_thread")]
async fn the_child_sees_a_clean_environment_and_its_own_group() {
    let (folder, compose) = script("env | sort; ps -o pgid= -p $$ 2>/dev/null | tr -d ' '; echo pid $$");
    let log = folder.path().join("log");
    let mut call = call(ComposeInput::Files(vec!["compose.yaml".into()]), &["create"]);
    call.environment.extend(map(&[("LD_PRELOAD", "/evil.so"), ("COMPOSE_FILE", "other.yaml"), ("HOME", "/home/me")]));
    let exit = compose.run_to_file(&call, File::create(&log).expect("a log")).await.expect("a run");
    assert!(exit.is_success());
    let mut text = String::new();
    File::open(&log).expect("the log").read_to_string(&mut text).expect("text");
    assert!(text.contains("DOCKER_HOST=unix:///x.sock\n") && text.contains("HOME=/home/me\n"), "{text}");
    assert!(!text.contains("LD_PRELOAD") && !text.contains("COMPOSE_FILE") && !text.contains("CARGO"), "{text}");
    if let [.., group, pid] = text.lines().collect::<Vec<_>>().as_slice()
        && group.bytes().all(|b| b.is_ascii_digit())
    {
        assert_eq!(format!("pid {group}"), *pid);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn at_the_limit_the_whole_group_ends() {
    let (folder, compose) = script("sleep 300 & echo $!; wait");
    let log = folder.path().join("log");
    let mut call = call(ComposeInput::Files(Vec::new()), &["create"]);
    call.limit = Duration::from_millis(400);
    let begun = std::time::Instant::now();
    let ended = compose.run_to_file(&call, File::create(&log).expect("a log")).await;
    assert!(matches!(ended, Err(EngineError::Hung { .. })), "{ended:?}");
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let grandchild = std::fs::read_to_string(&log).expect("the log");
    let alive = || {
        std::fs::read_to_string(format!("/proc/{}/stat", grandchild.trim())).is_ok_and(|stat| !stat.contains(") Z "))
    };
    for _ in 0..50 {
        if !alive() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the child's child {} still runs", grandchild.trim());
}

#[tokio::test(flavor = "current_thread")]
async fn a_lock_on_the_output_outlives_a_dropped_call() {
    let (folder, compose) = script("sleep 0.7; echo done");
    let log = folder.path().join("log");
    let file = File::create(&log).expect("a log");
    file.lock().expect("a lock");
    let call = call(ComposeInput::Files(Vec::new()), &["create"]);
    let dropped = tokio::time::timeout(Duration::from_millis(200), compose.run_to_file(&call, file)).await;
    assert!(dropped.is_err(), "it ended too soon to be dropped");
    let other = File::open(&log).expect("the log");
    assert!(other.try_lock().is_err(), "the lock went with the call");
    tokio::time::sleep(Duration::from_millis(1200)).await;
    other.try_lock().expect("free when the child has ended");
    assert_eq!(std::fs::read_to_string(&log).expect("text"), "done\n");
}

#[tokio::test(flavor = "current_thread")]
async fn one_that_was_started_early_waits_for_its_model_and_ends_without_one() {
    let (folder, compose) = script("echo started; read -r model || exit 15; echo \"got $model\"");
    let log = folder.path().join("log");
    let output = || {
        let file = File::create(&log).expect("a log");
        file.lock().expect("a lock");
        file
    };
    let text = || std::fs::read_to_string(&log).expect("text");
    let early = call(ComposeInput::Stdin(Vec::new()), &["create"]);
    let full = |args: &[&str]| call(ComposeInput::Stdin(b"model\n".to_vec()), args);

    let started = compose.start(&early, output()).expect("a start");
    while text().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(text(), "started\n");
    assert!(started.is_of(&full(&["create"])) && !started.is_of(&full(&["create", "web"])));
    let mut other = full(&["create"]);
    other.environment.insert("HOME".to_owned(), "/elsewhere".into());
    assert!(!started.is_of(&other));
    let exit = started.finish(&full(&["create"])).await.expect("a run");
    assert!(exit.is_success());
    assert_eq!(text(), "started\ngot model\n");

    // Taken back, it has not gone on, and the lock is free at once.
    compose.start(&early, output()).expect("a start").cancel().await;
    File::open(&log).expect("the log").try_lock().expect("free");
    assert!(!text().contains("got"), "{}", text());
    // Forgotten, as when its process is killed: the end of its input ends it.
    let mut started = compose.start(&early, output()).expect("a start");
    let mut child = started.child.take().expect("a child");
    drop(started);
    drop(child.stdin.take());
    assert_eq!(code(child.wait().await.expect("an end")), 15);
    assert_eq!(text(), "started\n");
    // Dropped, it is killed.
    drop(compose.start(&early, output()).expect("a start"));
    for _ in 0..200 {
        if File::open(&log).expect("the log").try_lock().is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it still runs");
}

#[tokio::test(flavor = "current_thread")]
async fn a_missing_plugin_is_named() {
    let compose = Compose::new("/nowhere/docker-compose", "unix:///x.sock");
    let error =
        compose.capture(&call(ComposeInput::Files(Vec::new()), &["config"])).await.expect_err("no such program");
    assert!(error.to_string().contains("/nowhere/docker-compose"), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn debug_output_hides_the_model() {
    let shown = format!("{:?}", ComposeInput::Stdin(b"hunter2".to_vec()));
    assert_eq!(shown, "Stdin(7 bytes)");
}
