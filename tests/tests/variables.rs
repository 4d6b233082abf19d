//! What is shown is what the container has, from every layer, exactly.

use std::collections::BTreeMap;

use serde_json::Value;
use sidestack_tests::{World, containers, docker_is_there};

const COMPOSE: &str = r#"services:
  literal:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    environment: {KEY: from-compose}
  file:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    env_file: [file.env]
  interpolated:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    environment: {OTHER: "${KEY:-unset}"}
  injected:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
  bystander:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    environment: {UNRELATED: same}
"#;

const MANIFEST: &str = "sidestack: 1\nworkspace: @workspace@\ncompose: compose.yaml\ninject: {injected: [KEY]}\n";

/// `KEY`, or `OTHER` where it is interpolated, in each container that names it.
fn values(project: &str) -> BTreeMap<String, String> {
    let found = containers(project).into_iter();
    let value = |env: &BTreeMap<String, String>| env.get("KEY").or(env.get("OTHER")).cloned();
    found.filter_map(|(name, container)| Some((name, value(&container.env)?))).collect()
}

fn all(value: &str) -> BTreeMap<String, String> {
    ["file", "injected", "interpolated", "literal"].map(|name| (name.to_owned(), value.to_owned())).into()
}

/// What `env --explain KEY` says of the containers: layer, shadowed values, reach.
fn explained(world: &World) -> Vec<(String, Vec<String>, Vec<String>)> {
    let shown = world.run(["env", "--explain", "KEY", "--json"]).ok().json();
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let variables = shown["variables"].as_array().unwrap().iter();
    variables
        .map(|v| {
            let shadowed = v["shadowed"].as_array().unwrap().iter().map(|s| s["value"].as_str().unwrap().to_owned());
            (v["layer"].as_str().unwrap().to_owned(), shadowed.collect(), texts(&v["reaches"]))
        })
        .collect()
}

#[test]
fn a_set_variable_is_in_the_containers_that_name_it_and_touches_no_other() {
    if !docker_is_there() {
        return;
    }
    let world =
        World::with(&[("sidestack.yaml", MANIFEST), ("compose.yaml", COMPOSE), ("file.env", "KEY=from-file\n")]);
    let project = world.project("main");
    world.run(["up"]).ok();
    let start = values(&project);
    assert_eq!((start["literal"].as_str(), start["file"].as_str()), ("from-compose", "from-file"));
    let bystander = containers(&project)["bystander"].clone();

    // Lowest to highest; each new one wins over those below.
    for layer in ["workspace", "environment", "instance"] {
        let flag = format!("--{layer}");
        world.run(["set", &format!("KEY={layer}"), &flag]).ok();
        world.run(["up"]).ok();
        assert_eq!(values(&project), all(layer), "set on the {layer}");
        let inside = world.run(["exec", "literal", "--", "sh", "-c", "echo $KEY"]).ok();
        assert_eq!(inside.stdout.trim(), layer);
        assert_eq!(
            containers(&project)["bystander"],
            bystander,
            "set on the {layer} touched a service that does not name it"
        );
    }
    let explained_now = explained(&world);
    let literal = explained_now.iter().find(|(_, _, reaches)| reaches.contains(&"literal".to_owned())).unwrap();
    assert_eq!(literal.0, "instance");
    for value in ["environment", "workspace", "from-compose"] {
        assert!(literal.1.contains(&value.to_owned()), "{value} was shadowed: {explained_now:?}");
    }
    let mut reached: Vec<_> =
        explained_now.iter().flat_map(|(_, _, reaches)| reaches.clone()).filter(|name| name != "host").collect();
    reached.sort();
    reached.dedup();
    assert_eq!(reached, ["file", "injected", "interpolated", "literal"]);

    // And back, one by one.
    for (layer, below) in [("instance", "environment"), ("environment", "workspace")] {
        world.run(["unset", "KEY", &format!("--{layer}")]).ok();
        world.run(["up"]).ok();
        assert_eq!(values(&project), all(below), "unset on the {layer}");
    }
    world.run(["unset", "KEY", "--workspace"]).ok();
    world.run(["up"]).ok();
    assert_eq!(values(&project), start);
    assert_eq!(containers(&project)["bystander"], bystander);

    // What nobody names reaches nobody, and that is said.
    let before = containers(&project);
    world.run(["set", "NOBODY=x"]).ok().says("NOBODY");
    world.run(["up"]).ok();
    assert_eq!(containers(&project), before);
    let shown = world.run(["env", "--explain", "NOBODY"]).ok().stdout;
    assert!(shown.contains("none") || shown.contains("host"), "{shown}");
}

#[test]
fn an_instance_s_variable_stays_in_that_instance() {
    if !docker_is_there() {
        return;
    }
    let world =
        World::with(&[("sidestack.yaml", MANIFEST), ("compose.yaml", COMPOSE), ("file.env", "KEY=from-file\n")]);
    world.run(["up"]).ok();
    world.run(["up", "--new", "other"]).ok();
    let other = containers(&world.project("other"));
    world.run(["set", "KEY=mine", "-i", "main"]).ok();
    world.run(["up"]).ok();
    world.run(["up", "other"]).ok();
    assert_eq!(values(&world.project("main")), all("mine"));
    assert_eq!(containers(&world.project("other")), other);
}

#[test]
fn the_placement_s_own_keys_cannot_be_set() {
    let world = World::with(&[("compose.yaml", "services: {web: {image: busybox:stable}}\n")]);
    for key in ["COMPOSE_PROJECT_NAME", "SIDESTACK_INSTANCE", "SIDESTACK_REVISION", "SIDESTACK_SLOT", "SIDESTACK_HOST"]
    {
        world.run(["set", &format!("{key}=x"), "--workspace"]).exits(2).says(key);
    }
}

/// Values that shells, YAML, dotenv files, Compose or templates would each spoil in a way of their own.
const HOSTILE: [&str; 47] = [
    "$",
    "$$",
    "$$$",
    "${X}",
    "${X:-y}",
    "$X",
    "$(id)",
    "`id`",
    "\"",
    "'",
    "\"'\"",
    "it's",
    "\\",
    "\\\\",
    "\\n",
    "\\$",
    "a\nb",
    "a\n\nb\n",
    "\n",
    "a\r\nb",
    "a\tb",
    "#",
    " # no comment",
    "a#b",
    "x: y",
    "- x",
    "{a: b}",
    "[a]",
    "&a",
    "*a",
    "!x",
    "|",
    ">",
    "%s",
    "%(x)s",
    "{{ x }}",
    "{% x %}",
    "null",
    "~",
    "yes",
    "0x10",
    "1e3",
    "2026-01-01",
    " lead and trail ",
    "a=b=c",
    "Grüße, 世界, 🦀, \u{301}",
    "\u{2028}\u{a0}",
];

fn hostile() -> Vec<(String, String)> {
    let named = HOSTILE.iter().enumerate().map(|(number, value)| (format!("K{number:02}"), (*value).to_owned()));
    // Everything at once, and long.
    named.chain([("K_ALL".to_owned(), HOSTILE.concat()), ("K_LONG".to_owned(), "$'\"#\n".repeat(20_000))]).collect()
}

/// The environment of the container's first process, byte for byte.
#[track_caller]
fn arrive(world: &World, service: &str, from: &str) {
    let ran = world.run(["exec", service, "--", "cat", "/proc/1/environ"]).ok();
    let inside: BTreeMap<&str, &str> = ran.stdout.split('\0').filter_map(|line| line.split_once('=')).collect();
    for (key, value) in hostile() {
        let arrived = inside.get(key.as_str()).copied();
        let shorten = |text: &str| text.chars().take(60).collect::<String>();
        assert!(
            arrived == Some(value.as_str()),
            "{key} from {from}: sent {:?}, arrived {:?}",
            shorten(&value),
            arrived.map(shorten)
        );
    }
}

#[test]
fn p40_values_are_exact_from_everywhere_to_the_container() {
    if !docker_is_there() {
        return;
    }
    // JSON strings are YAML strings; in a compose file `$` is written `$$`.
    let quoted = |value: &str| serde_json::to_string(value).unwrap();
    let manifest: Vec<String> = hostile().iter().map(|(key, value)| format!("  {key}: {}\n", quoted(value))).collect();
    let compose: Vec<String> =
        hostile().iter().map(|(key, value)| format!("      {key}: {}\n", quoted(&value.replace('$', "$$")))).collect();
    let keys: Vec<String> = hostile().iter().map(|(key, _)| key.clone()).collect();
    let service = "    image: busybox:stable\n    command: [sleep, '1000000']\n    stop_grace_period: 0s\n";
    let world = World::with(&[
        (
            "compose.yaml",
            &format!(
                "services:\n  compose:\n{service}    environment:\n{}  manifest:\n{service}  set:\n{service}",
                compose.concat()
            ),
        ),
        ("sidestack.yaml", "sidestack: 1\nworkspace: @workspace@\ncompose: compose.yaml\n"),
    ]);
    world.run(["up"]).ok();
    arrive(&world, "compose", "the compose file");

    let inject = format!("inject: {{manifest: [{0}], set: [{0}]}}\n", keys.join(", "));
    world.write(
        "sidestack.yaml",
        &format!("sidestack: 1\nworkspace: @workspace@\ncompose: compose.yaml\n{inject}env:\n{}", manifest.concat()),
    );
    world.run(["up"]).ok();
    arrive(&world, "manifest", "the manifest");

    // Now the same by `set`, over other values in the manifest.
    world.write("sidestack.yaml", &format!("sidestack: 1\nworkspace: @workspace@\ncompose: compose.yaml\n{inject}"));
    let assignments: Vec<String> = hostile().iter().map(|(key, value)| format!("{key}={value}")).collect();
    world.run([&["set".to_owned()][..], &assignments].concat()).ok();
    world.run(["up"]).ok();
    arrive(&world, "set", "`set`");
    // A layer above replaces what the compose file says of the same key: with the same value.
    arrive(&world, "compose", "`set`");
}
