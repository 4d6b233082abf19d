//! A second run changes nothing and says so, and nothing that changed passes for unchanged.

use std::fs::{self, File};

use sidestack_tests::{Container, Recorder, World, containers, docker, docker_is_there};

const COMPOSE: &str = r#"services:
  web:
    image: busybox:stable
    command: ["httpd", "-f", "-p", "8080"]
    stop_grace_period: 0s
    ports: ["8080:8080"]
    environment:
      GREETING: hello
      COLOUR: ${COLOUR:-red}
    env_file: [web.env]
    configs: [{source: page, target: /page}]
    healthcheck: {test: ["CMD", "true"], interval: 1s}
  keeper:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    volumes: ["data:/data"]
    depends_on: {web: {condition: service_healthy}}
volumes: {data: {}}
configs: {page: {file: page.txt}}
"#;

fn world() -> World {
    World::with(&[("compose.yaml", COMPOSE), ("web.env", "FROM_FILE=aaaa\n"), ("page.txt", "first\n")])
}

#[test]
fn p07_the_second_run_makes_no_writing_docker_call() {
    if !docker_is_there() {
        return;
    }
    let mut world = world();
    let Some(recorder) = Recorder::listen(&world.root().join("docker.sock")) else { return };
    world.env.insert("DOCKER_HOST".into(), recorder.host());
    let project = world.project("main");
    let rounds: &[&[&str]] =
        &[&["up"], &["stop"], &["start"], &["wait"], &["down"], &["up"], &["down", "-v"], &["rm", "--volumes"]];
    for verb in rounds {
        let first = world.run([verb, &["--json"][..]].concat()).ok();
        let writes = recorder.take_writes();
        if *verb != ["wait"] {
            assert_eq!(first.json()["changed"], true, "{verb:?}: {}", first.stdout);
            // So that the second look below is known to be able to see something.
            assert!(verb[0] == "rm" || !writes.is_empty(), "{verb:?} made no writing call through the recorder");
        }
        let before = containers(&project);
        let second = world.run([verb, &["--json"][..]].concat()).ok();
        assert_eq!(recorder.take_writes(), Vec::<String>::new(), "the second {verb:?}");
        assert_eq!(second.json()["changed"], false, "{verb:?}: {}", second.stdout);
        assert_eq!(containers(&project), before, "{verb:?}");
    }
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

#[test]
fn setting_what_is_set_changes_nothing() {
    let world = world();
    for layer in ["--workspace", "--environment"] {
        world.run(["plan"]).ok();
        let first = world.run(["set", "GREETING=bye", layer, "--json"]);
        if first.code == 3 {
            // Before the first `up` there is no environment to write to.
            continue;
        }
        assert_eq!(first.clone().ok().json()["changed"], serde_json::json!(["GREETING"]), "{}", first.stdout);
        assert_eq!(world.run(["set", "GREETING=bye", layer, "--json"]).ok().json()["changed"], serde_json::json!([]));
        world.run(["unset", "GREETING", layer]).ok();
        assert_eq!(world.run(["unset", "GREETING", layer, "--json"]).ok().json()["changed"], serde_json::json!([]));
    }
}

/// Writes a text of the same size and puts the old time back.
fn edit_unseen(world: &World, name: &str, from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    let path = world.folder().join(name);
    let old = fs::metadata(&path).unwrap().modified().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{name}");
    fs::write(&path, text.replace(from, to)).unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
}

#[test]
fn nothing_that_changed_passes_for_unchanged() {
    if !docker_is_there() {
        return;
    }
    let mut world = world();
    let project = world.project("main");
    world.run(["up"]).ok();
    let web = |project: &str| -> Container { containers(project)["web"].clone() };
    let page = |world: &World| world.run(["exec", "web", "--", "cat", "/page"]).ok().stdout;
    let quiet = |world: &World, after: &str| {
        let again = world.run(["up", "--json"]).ok().json();
        assert_eq!(again["changed"], false, "nothing was to do after {after}: {again:#}");
    };
    let changes = |world: &World, what: &str| {
        let up = world.run(["up", "--json"]).ok().json();
        assert_eq!(up["changed"], true, "{what}");
        quiet(world, what);
    };
    quiet(&world, "the first `up`");

    edit_unseen(&world, "compose.yaml", "GREETING: hello", "GREETING: jello");
    changes(&world, "a same-size edit of the compose file with the old time");
    assert_eq!(web(&project).env["GREETING"], "jello");

    edit_unseen(&world, "web.env", "aaaa", "bbbb");
    changes(&world, "a same-size edit of an env file with the old time");
    assert_eq!(web(&project).env["FROM_FILE"], "bbbb");

    edit_unseen(&world, "page.txt", "first", "other");
    changes(&world, "a same-size edit of a config file with the old time");
    assert_eq!(page(&world), "other\n");

    docker(&["kill", &containers(&project)["keeper"].id]).ok();
    changes(&world, "a container was killed");
    assert_eq!(containers(&project)["keeper"].status, "running");

    docker(&["rm", "-f", &containers(&project)["keeper"].id]).ok();
    changes(&world, "a container was removed");
    assert_eq!(containers(&project)["keeper"].status, "running");

    world.write("compose.override.yaml", "services: {web: {environment: {GREETING: over}}}\n");
    changes(&world, "a new override file");
    assert_eq!(web(&project).env["GREETING"], "over");

    world.write(".env", "COLOUR=green\n");
    changes(&world, "a new `.env`");
    assert_eq!(web(&project).env["COLOUR"], "green");

    world.env.insert("COLOUR".into(), "blue".into());
    changes(&world, "another value in the shell");
    assert_eq!(web(&project).env["COLOUR"], "blue");

    fs::remove_file(world.folder().join("compose.override.yaml")).unwrap();
    changes(&world, "the override file is gone");
    assert_eq!(web(&project).env["GREETING"], "jello");
}

#[test]
fn an_edit_in_a_build_context_is_seen_also_with_the_old_time() {
    if !docker_is_there() {
        return;
    }
    let world = World::with(&[
        ("compose.yaml", "services: {web: {build: ./img, command: [sleep, '1000000'], stop_grace_period: 0s}}\n"),
        ("img/Dockerfile", "FROM busybox:stable\nCOPY page /page\n"),
        ("img/page", "first\n"),
    ]);
    let page = || world.run(["exec", "web", "--", "cat", "/page"]).ok().stdout;
    world.run(["up"]).ok();
    assert_eq!(page(), "first\n");
    assert_eq!(world.run(["up", "--json"]).ok().json()["changed"], false);
    edit_unseen(&world, "img/page", "first", "other");
    let up = world.run(["up", "--json"]).ok().json();
    assert_eq!((&up["changed"], &up["revision"]), (&true.into(), &"r2".into()));
    // What is in the image is BuildKit's business, which goes by size and time when
    // it copies a context: plain Compose gives the old page here. With a new time it
    // is the new one.
    world.write("img/page", "third\n");
    assert_eq!(world.run(["up", "--json"]).ok().json()["changed"], true);
    assert_eq!(page(), "third\n");
}
