//! What people are used to from `docker compose` does what they expect.

use std::fs;

use sidestack_tests::{World, containers, docker_is_there};

const SLEEPER: &str = "image: busybox:stable, command: [sleep, \"1000000\"], stop_grace_period: 0s";

fn service(name: &str, more: &str) -> String {
    format!("  {name}: {{{SLEEPER}{more}}}\n")
}

fn compose(services: &[String]) -> String {
    format!("services:\n{}", services.concat())
}

/// The services that have a container, in order.
fn running(world: &World, instance: &str) -> Vec<String> {
    containers(&world.project(instance)).into_keys().collect()
}

fn variable(world: &World, target: &str, service: &str, name: &str) -> String {
    world.run(["exec", "-i", target, service, "--", "sh", "-c", &format!("echo ${name}")]).ok().stdout.trim().to_owned()
}

#[test]
fn files_profiles_and_env_files_are_chosen_as_with_compose() {
    if !docker_is_there() {
        return;
    }
    let mut world = World::with(&[
        ("compose.yaml", &compose(&[service("web", ", environment: {LEVEL: \"${LEVEL:-none}\"}")])),
        ("compose.override.yaml", &compose(&[service("override", "")])),
        ("compose.debug.yaml", &compose(&[service("debug", ""), service("tool", ", profiles: [tools]")])),
        (".env", "LEVEL=dotenv\n"),
        ("conf/dev.env", "LEVEL=dev\n"),
        ("conf/more.env", "LEVEL=more\n"),
        ("sub/deep/x", ""),
    ]);
    let level = |world: &World| variable(world, "main", "web", "LEVEL");
    world.run(["up"]).ok();
    assert_eq!((running(&world, "main"), level(&world)), (vec!["override".into(), "web".into()], "dotenv".into()));
    // Named files are all there is; paths start where they are typed.
    let files = ["-f", "../../compose.yaml", "-f", "../../compose.debug.yaml"];
    let options = ["--profile", "tools", "--env-file", "../../conf/dev.env", "--env-file", "../../conf/more.env"];
    let words = [&["up"][..], &files, &options].concat();
    world.run_in(&world.folder().join("sub/deep"), &words).ok();
    assert_eq!(running(&world, "main"), ["debug", "tool", "web"]);
    assert_eq!(level(&world), "more");
    world.run_in(&world.folder().join("sub/deep"), &words).ok().says("nothing was to do");
    // The same by variables, which is the same revision; the profile is another choice.
    world.env.insert("COMPOSE_FILE".into(), "compose.yaml:compose.debug.yaml".into());
    world.env.insert("COMPOSE_ENV_FILES".into(), "conf/dev.env,conf/more.env".into());
    world.env.insert("COMPOSE_PROFILES".into(), "tools".into());
    world.run(["up"]).ok().says("nothing was to do");
    world.run(["up", "--profile", "none"]).ok().says("no service has the profile `none`");
    assert_eq!(running(&world, "main"), ["debug", "web"]);
    world.env.clear();
    world.run(["up"]).ok();
    assert_eq!((running(&world, "main"), level(&world)), (vec!["override".into(), "web".into()], "dotenv".into()));
    // A change of a named env file is seen.
    world.run(["up", "--env-file", "conf/dev.env"]).ok();
    assert_eq!(level(&world), "dev");
    world.write("conf/dev.env", "LEVEL=changed\n");
    world.run(["up", "--env-file", "conf/dev.env"]).ok();
    assert_eq!(level(&world), "changed");
    world.run(["up", "--env-file", "conf/none.env"]).exits(2).says("there is no env file `conf/none.env`");
    let told = world.run(["plan", "-f", "compose.yaml", "--env-file", "conf/more.env", "--json"]).ok().json();
    assert_eq!(told["services"].as_array().unwrap().len(), 1, "{told:#}");
    // A stored revision reads nothing.
    world.run(["up", "@r1", "-f", "compose.yaml"]).exits(2).says("`-f` says how files are read");
    world.run(["rm", "--volumes"]).ok();
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

#[test]
fn a_folder_without_a_file_of_a_known_name_is_a_stack_too() {
    if !docker_is_there() {
        return;
    }
    let world = World::with(&[
        ("infra/dev.yml", &compose(&[service("one", ", volumes: [\"./data:/data\"]")])),
        ("infra/data/file", "of the folder\n"),
        ("own/compose.yaml", &compose(&[service("two", "")])),
    ]);
    let folder = world.folder();
    world.run(["up"]).exits(3).says("no stack at or above");
    world.run(["up", "-f", "infra/dev.yml"]).ok();
    assert_eq!(running(&world, "main"), ["one"]);
    assert_eq!(world.run(["exec", "one", "--", "cat", "/data/file"]).ok().stdout, "of the folder\n");
    // The folder is known from then on, below it too, but not what its files are.
    let listed = world.run_in(&folder.join("infra"), ["ls", "--json"]).ok().json();
    assert_eq!(listed["instances"][0]["folder"], folder.canonicalize().unwrap().to_str().unwrap(), "{listed:#}");
    world.run(["up"]).exits(3).says("name them again with `-f`");
    world.run(["up", "-f", "infra/dev.yml"]).ok().says("nothing was to do");
    // `COMPOSE_FILE` in `.env` says it for good.
    world.write(".env", "COMPOSE_FILE=infra/dev.yml\n");
    world.run(["up"]).ok().says("nothing was to do");
    fs::remove_file(folder.join(".env")).unwrap();
    // A stack in a folder of its own is that folder's, from wherever its file is named.
    let own = world.run(["up", "-f", "own/compose.yaml", "--json"]).ok().json();
    assert_eq!(own["workspace"], "own", "{own:#}");
    world.run_in(&folder.join("own"), ["up"]).ok().says("nothing was to do");
    assert_eq!(running(&world, "main"), ["one"], "the other stack is left alone");
    world.run_in(&folder.join("own"), ["rm"]).ok();
    world.run_in(&folder.join("infra"), ["rm"]).ok();
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

#[test]
fn compose_itself_may_look_and_nothing_more() {
    if !docker_is_there() {
        return;
    }
    let secret = ", environment: {DB_PASSWORD: \"${DB_PASSWORD}\"}, ports: [\"8080\"]";
    let world = World::with(&[
        ("compose.yaml", &compose(&[service("web", secret)])),
        (".env", "DB_PASSWORD=canary-of-compose\nCOMPOSE_FILE=\n"),
    ]);
    world.run(["up"]).ok();
    world.run(["up", "--new", "other"]).ok();
    let before = (containers(&world.project("main")), containers(&world.project("other")));
    // Files that Compose would find where it is called from are not the instance's.
    world.write("compose.yaml", "services: {none: {image: nowhere}}\n");
    let id = world.run(["compose", "-i", "other", "--", "ps", "-q"]).ok().stdout;
    assert!(id.starts_with(&before.1["web"].id) || before.1["web"].id.starts_with(id.trim()), "{id}");
    for (words, text) in [
        (&["ps", "--format", "json"][..], "\"Service\":\"web\""),
        (&["port", "web", "8080"], "127.0.0.1:"),
        (&["top"], "sleep 1000000"),
        (&["images"], "busybox"),
        (&["version"], "Compose"),
        (&["exec", "-T", "web", "echo", "inside"], "inside"),
        (&["config", "--format", "json"], "‹dotenv:.env#DB_PASSWORD›"),
        (&["config", "--services"], "web"),
    ] {
        let ran = world.run([&["compose", "--"][..], words].concat()).ok();
        assert!(ran.stdout.contains(text), "{words:?}: {}", ran.stdout);
        assert!(!ran.stdout.contains("canary") && !ran.stderr.contains("canary"), "{words:?}");
    }
    // Without `--` too, with the command's own exit code and its own options.
    world.run(["compose", "exec", "-T", "web", "sh", "-c", "exit 7"]).exits(7);
    assert_eq!(world.run(["compose", "logs", "--no-color", "-n", "1"]).ok().stderr, "");
    for (words, text) in [
        (&["up", "-d"][..], "use `sidestack up"),
        (&["down", "-v"], "use `sidestack down"),
        (&["rm", "-f"], "use `sidestack rm"),
        (&["stop"], "use `sidestack stop"),
        (&["kill"], "use `sidestack stop -t 0"),
        (&["restart", "web"], "use `sidestack restart"),
        (&["run", "web", "true"], "use `sidestack exec"),
        (&["cp", "x", "web:/x"], "use `sidestack exec"),
        (&["nonsense"], "those that are: "),
        (&["-p", "elsewhere", "ps"], "chooses another instance"),
        (&["-f", "compose.yaml", "config"], "chooses another instance"),
    ] {
        world.run([&["compose", "--"][..], words].concat()).exits(2).says(text);
    }
    world.run(["compose", "-i", "nobody", "--", "ps"]).exits(3);
    assert_eq!(before, (containers(&world.project("main")), containers(&world.project("other"))));
}

#[test]
fn some_services_run_alone_and_the_others_are_left_as_they_are() {
    if !docker_is_there() {
        return;
    }
    let app = ", depends_on: [db], environment: {APP_TOKEN: \"${APP_TOKEN}\"}";
    let files = |level: &str| {
        compose(&[
            service("db", &format!(", environment: {{LEVEL: {level}}}")),
            service("cache", ""),
            service("queue", ", depends_on: [cache]"),
            service("web", app),
        ])
    };
    let world = World::with(&[("compose.yaml", &files("one")), (".env", "APP_TOKEN=canary-of-only\n")]);
    world.run(["up", "--only", "db,queue"]).ok();
    assert_eq!(running(&world, "main"), ["cache", "db", "queue"]);
    let state = |world: &World| {
        let listed = world.run(["ls", "--json"]).ok().json();
        let row = listed["instances"][0].clone();
        (row["state"].as_str().unwrap().to_owned(), row["ready"].as_u64().unwrap(), row["total"].as_u64().unwrap())
    };
    assert_eq!(state(&world), ("running".into(), 3, 3));
    // Whoever runs the application itself needs none of its secrets to be there.
    world.run(["set", "APP_TOKEN", "--secret", "env:NOT_THERE"]).ok();
    world.run(["up"]).exits(1).says("NOT_THERE");
    world.run(["up", "--only", "queue", "--only", "db"]).ok().says("nothing was to do");
    world.run(["unset", "APP_TOKEN"]).ok();
    let plan = world.run(["plan", "--only", "web", "--json"]).ok().json();
    let steps: Vec<&str> = plan["steps"].as_array().unwrap().iter().map(|s| s["step"].as_str().unwrap()).collect();
    assert_eq!(steps, ["write tree", "create web", "start web"], "{plan:#}");
    let isolation = plan["isolation"].as_array().unwrap();
    assert!(isolation.iter().all(|change| change["rule"] != "unexplained"), "{isolation:#?}");

    // What stopped is started as it was; a plain `up` brings the rest.
    world.run(["stop"]).ok();
    world.run(["start"]).ok();
    assert_eq!((running(&world, "main").len(), state(&world).0), (3, "running".into()));
    world.run(["up"]).ok();
    assert_eq!((running(&world, "main").len(), state(&world)), (4, ("running".into(), 4, 4)));
    world.run(["up"]).ok().says("nothing was to do");

    // A change of everything, brought to one.
    let before = containers(&world.project("main"));
    world.write("compose.yaml", &files("two").replace("depends_on: [cache]", "depends_on: [cache], labels: {x: y}"));
    world.run(["up", "--only", "db"]).ok();
    let after = containers(&world.project("main"));
    for name in ["cache", "queue", "web"] {
        assert_eq!(before[name].identity(), after[name].identity(), "{name} is left as it is");
    }
    assert_ne!(before["db"].id, after["db"].id);
    assert_eq!((variable(&world, "main", "db", "LEVEL"), state(&world)), ("two".into(), ("running".into(), 4, 4)));
    world.run(["up", "--only", "db"]).ok().says("nothing was to do");
    world.run(["up"]).ok();
    let last = containers(&world.project("main"));
    assert_ne!(after["queue"].id, last["queue"].id, "its turn came");
    assert_eq!(after["web"].identity(), last["web"].identity());

    // A service that is gone from the files goes with a plain `up`.
    world.write("compose.yaml", &compose(&[service("db", ", environment: {LEVEL: two}")]));
    world.run(["up", "--only", "db"]).ok();
    assert_eq!(running(&world, "main").len(), 4);
    world.run(["up"]).ok();
    assert_eq!(running(&world, "main"), ["db"]);

    world.run(["up", "--only", "dbb"]).exits(3).says("did you mean `db`?");
    world.write("compose.yaml", &compose(&[service("db", ""), service("debug", ", profiles: [tools]")]));
    world.run(["up", "--only", "debug"]).exits(3).says("add `--profile tools`");
    world.run(["up", "--only", "debug", "--profile", "tools"]).ok();
    assert_eq!(running(&world, "main"), ["db", "debug"]);
    world.run(["rm", "--volumes"]).ok();
    assert_eq!(world.leftovers(), Vec::<String>::new());
}
