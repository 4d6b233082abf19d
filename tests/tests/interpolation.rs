//! A variable that a compose file interpolates, and profiles: both are part of what runs, and touch nothing else.

use sidestack_tests::{World, containers, docker_is_there};

const COMPOSE: &str = r#"services:
  web:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    environment: {URL: "http://${HOST_X:-a}/"}
  other:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
  debug:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    profiles: [debug]
"#;

#[test]
fn a_set_variable_reaches_the_entry_that_interpolates_it_and_recreates_only_its_service() {
    if !docker_is_there() {
        return;
    }
    let world = World::with(&[("compose.yaml", COMPOSE)]);
    let project = world.project("main");
    world.run(["up"]).ok();
    let before = containers(&project);
    assert_eq!(before["web"].env["URL"], "http://a/");
    world.run(["set", "HOST_X=b"]).ok();
    world.run(["up"]).ok();
    let after = containers(&project);
    assert_eq!(after["web"].env["URL"], "http://b/");
    assert!(!after["web"].env.contains_key("HOST_X"), "it does not name it as a variable");
    assert_eq!(after["other"], before["other"]);

    let url = world.run(["env", "--explain", "URL"]).ok().stdout;
    assert!(url.contains("http://b/") && url.contains("http://a/") && url.contains("web"), "{url}");
    let host = world.run(["env", "--explain", "HOST_X"]).ok().stdout;
    assert!(host.contains("web (in URL)"), "{host}");
    let host = world.run(["env", "--explain", "HOST_X", "--json"]).ok().json();
    assert_eq!(host["variables"][0]["within"][0]["name"], "URL", "{host}");
    // It is no variable of a container.
    let inside = world.run(["env", "--service", "web", "--json"]).ok().json();
    let names: Vec<_> = inside["variables"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["URL"]);

    world.run(["unset", "HOST_X"]).ok();
    world.run(["up"]).ok();
    assert_eq!(containers(&project)["web"].env["URL"], "http://a/");
}

#[test]
fn a_profile_is_part_of_the_revision() {
    if !docker_is_there() {
        return;
    }
    let world = World::with(&[("compose.yaml", COMPOSE)]);
    let project = world.project("main");
    let names = || containers(&project).into_keys().collect::<Vec<_>>();
    world.run(["up"]).ok();
    assert_eq!(names(), ["other", "web"]);
    let plain = containers(&project);
    world.run(["up", "--profile", "debug"]).ok();
    assert_eq!(names(), ["debug", "other", "web"]);
    assert_eq!(containers(&project)["web"], plain["web"]);
    let history = world.run(["history", "--json"]).ok().json();
    assert_eq!(history["revisions"].as_array().unwrap().len(), 2, "{history}");
    // The same again is the same; without it, the first one again.
    world.run(["up", "--profile", "debug"]).ok();
    assert_eq!(names(), ["debug", "other", "web"]);
    world.run(["up", "--profile", "slip"]).ok().says("no service has the profile `slip`");
    assert_eq!(containers(&project), plain);
    let history = world.run(["history", "--json"]).ok().json();
    assert_eq!(history["revisions"].as_array().unwrap().len(), 2, "{history}");
}
