//! Secrets reach their containers and nothing else: a hunt for planted values.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use sidestack_tests::{Finding, Hunt, World, containers, docker, docker_is_there};

const COMPOSE: &str = r#"services:
  app:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
  plain:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
"#;

/// A value that stands nowhere else, hostile enough to need escapes.
fn canary(name: &str) -> String {
    format!("cnry-{name}-{}/$x\"'#&%", std::process::id())
}

/// One secret of each provider that needs no desktop, by variable.
struct Planted {
    world: World,
    values: BTreeMap<&'static str, String>,
}

impl Planted {
    fn new() -> Self {
        let values: BTreeMap<_, _> =
            ["FROM_ENV", "FROM_FILE", "FROM_DOTENV", "FROM_COMMAND"].map(|key| (key, canary(key))).into();
        let mut world = World::new();
        let dir = world.root().join("vault");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("secret"), &values["FROM_FILE"]).unwrap();
        let dotenv = values["FROM_DOTENV"].replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$");
        fs::write(dir.join("dotenv"), format!("OTHER=x\nKEY=\"{dotenv}\"\n")).unwrap();
        // The command prints what a file beside it holds: its own text must not hold it either.
        fs::write(dir.join("printed"), &values["FROM_COMMAND"]).unwrap();
        fs::write(dir.join("vault"), "#!/bin/sh\nexec cat \"$(dirname \"$0\")/printed\"\n").unwrap();
        fs::set_permissions(dir.join("vault"), fs::Permissions::from_mode(0o755)).unwrap();
        world.env.insert("VAULT_CANARY".into(), values["FROM_ENV"].clone());
        let dir = dir.display();
        world.write("compose.yaml", COMPOSE);
        world.write(
            "sidestack.yaml",
            &format!(
                "sidestack: 1
workspace: @workspace@
compose: compose.yaml
inject: {{app: [FROM_ENV, FROM_FILE, FROM_DOTENV, FROM_COMMAND]}}
env:
  FROM_ENV: {{secret: 'env:VAULT_CANARY'}}
  FROM_FILE: {{secret: 'file:{dir}/secret'}}
  FROM_DOTENV: {{secret: 'dotenv:{dir}/dotenv#KEY'}}
  FROM_COMMAND: {{secret: 'command:{dir}/vault'}}
"
            ),
        );
        Self { world, values }
    }

    fn hunt(&self) -> Hunt {
        Hunt::new(&self.values.values().map(String::as_str).collect::<Vec<_>>())
    }
}

#[test]
fn p28_p31_a_secret_of_each_provider_reaches_its_container_and_no_file() {
    if !docker_is_there() {
        return;
    }
    let planted = Planted::new();
    let (world, hunt) = (&planted.world, planted.hunt());
    let project = world.project("main");
    let mut said = world.run(["up", "-v"]).ok();
    let inside = world.run(["exec", "app", "--", "cat", "/proc/1/environ"]).ok();
    let inside: BTreeMap<&str, &str> = inside.stdout.split('\0').filter_map(|line| line.split_once('=')).collect();
    for (key, value) in &planted.values {
        assert_eq!(inside.get(key), Some(&value.as_str()), "{key}");
    }
    let plain = containers(&project)["plain"].env.clone();
    assert!(planted.values.keys().all(|key| !plain.contains_key(*key)), "{plain:?}");
    assert_eq!(hunt.written(world, &[]), Vec::new());

    // Whatever is shown masks them; a tree has references.
    let looks: [&[&str]; 10] = [
        &["ls", "--json"],
        &["describe", "--json"],
        &["describe"],
        &["env"],
        &["env", "--explain"],
        &["env", "--explain", "--json"],
        &["plan", "--json"],
        &["show", "@r1", "--json"],
        &["history", "--json"],
        &["why", "--json"],
    ];
    for words in looks {
        let ran = world.run(words).ok();
        said.stdout.push_str(&ran.stdout);
        said.stderr.push_str(&ran.stderr);
    }
    assert_eq!(hunt.bytes("standard output", said.stdout.as_bytes()), Vec::new());
    assert_eq!(hunt.bytes("standard error", said.stderr.as_bytes()), Vec::new());
    let json = world.run(["env", "--format", "json"]).ok().json();
    assert_eq!(json["FROM_FILE"], planted.values["FROM_FILE"].as_str(), "handed over, because that is what it is for");

    // A failure's last log lines are masked too.
    let command = r#"command: ["sh", "-c", "echo $$FROM_ENV; echo $$FROM_FILE >&2; exit 3"]
    healthcheck: {test: ["CMD", "false"], interval: 1s, retries: 1}"#;
    world.write("compose.yaml", &COMPOSE.replacen(r#"command: ["sleep", "1000000"]"#, command, 1));
    let failed = world.run(["up", "--timeout", "20s", "-v"]);
    assert_eq!(failed.code, 7, "{failed:?}");
    assert_eq!(hunt.bytes("an error", format!("{}{}", failed.stdout, failed.stderr).as_bytes()), Vec::new());
    let failed = world.run(["up", "--timeout", "20s", "--json", "--no-rollback"]).exits(7);
    assert_eq!(hunt.bytes("a JSON error", format!("{}{}", failed.stdout, failed.stderr).as_bytes()), Vec::new());
    let why = world.run(["why"]);
    assert_eq!(hunt.bytes("why", format!("{}{}", why.stdout, why.stderr).as_bytes()), Vec::new());
    assert_eq!(hunt.written(world, &[]), Vec::new());
}

#[test]
fn looking_stopping_and_removing_need_no_vault() {
    if !docker_is_there() {
        return;
    }
    let mut planted = Planted::new();
    planted.world.run(["up"]).ok();
    fs::remove_dir_all(planted.world.root().join("vault")).unwrap();
    planted.world.env.remove("VAULT_CANARY");
    let world = &planted.world;
    for words in
        [&["ls"][..], &["describe"], &["env", "--explain"], &["plan"], &["logs"], &["history"], &["stop"], &["ls"]]
    {
        world.run(words).ok();
    }
    // What needs a secret says which reference fails, before anything is touched.
    let before = containers(&world.project("main"));
    let up = world.run(["restart"]);
    assert_ne!(up.code, 255, "{up:?}");
    let new = world.run(["up", "--new", "other"]);
    assert!(new.code != 0 && new.stderr.contains("vault"), "{new:?}");
    assert!(containers(&world.project("other")).is_empty());
    assert_eq!(before.keys().collect::<Vec<_>>(), containers(&world.project("main")).keys().collect::<Vec<_>>());
    world.run(["down"]).ok();
    world.run(["rm", "--volumes"]).ok();
    let _ = world.run(["rm", "other", "--volumes"]);
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

/// A database and a cache with passwords out of a file, and a consumer of both.
fn resources() -> (World, String) {
    let value = canary("password");
    let world = World::with(&[("compose.yaml", COMPOSE)]);
    let path = world.root().join("password");
    fs::write(&path, &value).unwrap();
    let path = path.display();
    world.write(
        "sidestack.yaml",
        &format!(
            "sidestack: 1
workspace: @workspace@
compose: compose.yaml
resources:
  db: {{is: sql-database, engine: postgres@17, databases: [shop], credentials: {{password: {{secret: 'file:{path}'}}}}}}
  cache: {{is: cache, engine: redis, credentials: {{password: {{secret: 'file:{path}'}}}}}}
inject: {{app: [db, cache]}}
"
        ),
    );
    (world, value)
}

#[test]
fn p29_p32_passwords_are_never_in_argv_nor_in_inspect_but_where_plan_says_so() {
    if !docker_is_there() {
        return;
    }
    let (world, value) = resources();
    let hunt = Hunt::new(&[&value]);
    // `strace` sees every execve of the command and its children; containers are
    // seen by looking at all processes while it runs.
    let trace = world.root().join("trace");
    let strace = Command::new("strace").arg("-V").output().is_ok();
    let ran = std::thread::scope(|scope| {
        let up = scope.spawn(|| {
            if !strace {
                return world.run(["up", "--timeout", "4m"]);
            }
            let inner = world.command(["up", "--timeout", "4m"]);
            let mut command = Command::new("strace");
            command.args(["-f", "-qq", "-s", "65536", "-e", "trace=execve", "-e", "signal=none", "-o"]).arg(&trace);
            command.arg(inner.get_program()).args(inner.get_args()).current_dir(world.folder()).env_clear();
            command.envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            world.run(["up"])
        });
        let mut seen = Vec::new();
        while !up.is_finished() {
            seen.extend(hunt_argv(&hunt));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(seen, Vec::new());
        up.join().unwrap()
    });
    ran.ok();
    if strace {
        let traced = fs::read(&trace).unwrap();
        assert!(String::from_utf8_lossy(&traced).contains("execve"), "nothing was traced");
        assert_eq!(hunt.bytes("an execve", &traced), Vec::new());
    }
    assert_eq!(hunt.written(&world, &[]), Vec::new());
    fs::remove_file(&trace).ok();

    // Both servers took the password, and the consumer has it.
    let project = world.project("main");
    let url = containers(&project)["app"].env["DATABASE_URL"].clone();
    assert!(!hunt.bytes("the consumer's URL", url.as_bytes()).is_empty(), "{url}");
    let wrong =
        world.run(["exec", "db", "--", "psql", "-h", "db", "-w", "-U", "app", "-d", "shop", "-Atc", "SELECT 1"]);
    assert_ne!(wrong.code, 0, "no password was asked for");
    let mut psql = world.command([
        "exec",
        "db",
        "--",
        "sh",
        "-c",
        "PGPASSWORD=$(cat /run/secrets/password) psql -h db -U app -d shop -Atc 'SELECT 1'",
    ]);
    let right = psql.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&right.stdout).trim(), "1", "{}", String::from_utf8_lossy(&right.stderr));
    let redis = world.run(["exec", "cache", "--", "redis-cli", "ping"]);
    assert!(redis.stdout.contains("NOAUTH"), "{redis:?}");

    // `docker inspect` shows it exactly where `plan` said.
    let plan = world.run(["plan", "--json"]).ok().json();
    let exposed: Vec<String> = plan["exposed_variables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| format!("{}.{}", v["service"].as_str().unwrap(), v["name"].as_str().unwrap()))
        .collect();
    for (service, container) in containers(&project) {
        for (key, value) in &container.env {
            let shown = !hunt.bytes("", value.as_bytes()).is_empty();
            assert!(!shown || exposed.contains(&format!("{service}.{key}")), "{service}.{key} is not in {exposed:?}");
        }
        let inspected = docker(&["inspect", &container.id]).ok().stdout;
        let shown = hunt.bytes(&service, inspected.as_bytes());
        assert!(service == "app" || shown.is_empty(), "{shown:?}");
    }
    assert!(exposed.contains(&"app.DATABASE_URL".to_owned()), "{exposed:?}");
}

/// The command lines of all processes, those in containers too; this test's own is spared.
fn hunt_argv(hunt: &Hunt) -> Vec<Finding> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter(|entry| entry.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit()));
    let mut found = Vec::new();
    for process in processes {
        let line: PathBuf = process.path().join("cmdline");
        if let Ok(bytes) = fs::read(&line)
            && !bytes.is_empty()
        {
            let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
            found.extend(hunt.bytes(&text, &bytes));
        }
    }
    found
}

#[test]
fn p33_the_keychain_gives_its_secret_or_an_error_but_nothing_else() {
    if !docker_is_there() {
        return;
    }
    let world = World::with(&[
        ("compose.yaml", COMPOSE),
        (
            "sidestack.yaml",
            "sidestack: 1\nworkspace: @workspace@\ncompose: compose.yaml\ninject: {app: [TOKEN]}\nenv: {TOKEN: {secret: 'keychain:@workspace@/token'}}\n",
        ),
    ]);
    // Without a Secret Service: an error in time, and nothing started.
    let refused = world.run(["up"]);
    assert!(refused.code != 0 && refused.took.as_secs() < 30, "{refused:?}");
    assert!(refused.stderr.contains("keychain"), "{refused:?}");
    assert!(containers(&world.project("main")).is_empty());

    let there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !there("dbus-run-session") || !there("gnome-keyring-daemon") {
        eprintln_skipped("no keyring daemon is installed");
        return;
    }
    let value = canary("keychain");
    fs::write(world.root().join("value"), &value).unwrap();
    let name = &world.workspace;
    let program = sidestack_tests::program();
    let script = format!(
        "set -e; printf '\\n' | gnome-keyring-daemon --unlock --components=secrets >/dev/null
         {0} secret set keychain:{name}/token < {1}/value
         {0} up >&2; {0} exec app -- sh -c 'echo \"$TOKEN\"'",
        program.display(),
        world.root().display()
    );
    let inner = world.command(["version"]);
    let mut session = Command::new("dbus-run-session");
    session.args(["--", "sh", "-c", &script]).current_dir(world.folder()).env_clear();
    session.envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
    session.env("XDG_RUNTIME_DIR", world.root());
    let output = session.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    assert_eq!(stdout.trim_end_matches('\n').lines().last(), Some(value.as_str()), "{stderr}");
    assert_eq!(Hunt::new(&[&value]).folder(&world.home(), &[]), Vec::new());
}

fn eprintln_skipped(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "skipped in part: {why}");
}

/// Keys that steer Docker, Compose or the loader. Each would be seen: another
/// endpoint fails, another file or project is not ours, a preload prints.
const STEERING: [(&str, &str); 11] = [
    ("DOCKER_HOST", "tcp://127.0.0.1:1"),
    ("DOCKER_CONTEXT", "nowhere"),
    ("DOCKER_CONFIG", "/nonexistent"),
    ("COMPOSE_FILE", "evil.yaml"),
    ("COMPOSE_PROJECT_NAME", "evil"),
    ("COMPOSE_PROFILES", "evil"),
    ("COMPOSE_ENV_FILES", "evil.env"),
    ("COMPOSE_IGNORE_ORPHANS", "x"),
    // Compose gives up on these values, if it sees them.
    ("COMPOSE_PARALLEL_LIMIT", "evil"),
    ("COMPOSE_ANSI", "evil"),
    ("LD_PRELOAD", "/nonexistent/evil.so"),
];

const STEERED: &str = r#"services:
  app:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    environment: {NAMED: x, DOCKER_HOST: mine, COMPOSE_FILE: mine, COMPOSE_PROJECT_NAME_: mine, LD_PRELOAD_: mine}
  evil:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    profiles: [evil]
"#;

/// The instance is ours, in its own project, as the compose file of the stack says.
#[track_caller]
fn not_steered(world: &World, evil: bool) {
    let found = containers(&world.project("main"));
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(names, if evil { vec!["app", "evil"] } else { vec!["app"] });
    assert!(found.values().all(|c| c.status == "running"), "{found:?}");
    assert!(containers("evil").is_empty());
}

#[test]
fn p34_user_keys_cannot_steer_compose() {
    if !docker_is_there() {
        return;
    }
    let evil = "services: {stranger: {image: 'busybox:stable', command: [sleep, '1000000']}}\n";
    let world = World::with(&[("compose.yaml", STEERED), ("evil.yaml", evil), ("evil.env", "NAMED=evil\n")]);

    // By `set`, on every layer: refused, or no more than a variable of a container.
    world.run(["up"]).ok();
    not_steered(&world, false);
    for (key, value) in STEERING {
        for layer in ["--workspace", "--environment", "--instance"] {
            let set = world.run(["set", &format!("{key}={value}"), layer]);
            assert!(matches!(set.code, 0 | 2), "{key} {layer}: {set:?}");
        }
    }
    world.run(["up"]).ok();
    not_steered(&world, false);
    let app = containers(&world.project("main"))["app"].clone();
    assert_eq!(
        app.env.get("DOCKER_HOST").map(String::as_str),
        Some("tcp://127.0.0.1:1"),
        "a container that names it gets it"
    );
    world.run(["stop"]).ok();
    world.run(["start"]).ok();
    not_steered(&world, false);
    world.run(["rm", "--volumes"]).ok();
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

#[test]
fn p34_the_project_s_env_file_cannot_steer_compose() {
    if !docker_is_there() {
        return;
    }
    let world = World::with(&[("compose.yaml", STEERED), ("evil.env", "NAMED=evil\n")]);
    // Which files and profiles are meant is a stack's own choice, as with Compose;
    // which daemon, project and loader are not.
    let steering = STEERING.iter().filter(|(key, _)| !matches!(*key, "COMPOSE_FILE" | "COMPOSE_PROFILES"));
    let text: String = steering.map(|(key, value)| format!("{key}={value}\n")).collect();
    world.write(".env", &text);
    world.run(["up"]).ok();
    not_steered(&world, false);
    world.run(["stop"]).ok();
    world.run(["rm", "--volumes"]).ok();
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

#[test]
fn p34_the_shell_cannot_steer_compose_past_what_is_shown() {
    if !docker_is_there() {
        return;
    }
    let mut world = World::with(&[("compose.yaml", STEERED), ("evil.env", "NAMED=evil\n")]);
    // The endpoint is the shell's choice, as with Docker; a preload is the loader's,
    // before Sidestack runs, so it must be gone from what Compose gets.
    for (key, value) in STEERING {
        let choice = key.starts_with("DOCKER_") || matches!(key, "COMPOSE_FILE" | "COMPOSE_PROFILES");
        if !choice {
            world.env.insert(key.into(), value.into());
        }
    }
    let up = world.run(["up"]);
    // The loader's own complaint comes from Sidestack's process, and from it alone.
    let complaints = up.stderr.matches("evil.so").count();
    up.clone().ok();
    assert!(complaints <= 1, "{}", up.stderr);
    not_steered(&world, false);
    assert_eq!(containers(&world.project("main"))["app"].env["NAMED"], "x");
}
