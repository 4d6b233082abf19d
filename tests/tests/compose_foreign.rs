//! P22: what bears the same names and is not Sidestack's is untouched by every verb.

use std::collections::BTreeMap;

use serde_json::Value;
use sidestack_tests::{
    COPIES, Copies, RemovedContainer, RemovedObject, World, docker, docker_is_there, inspect, stack,
};

/// Objects of the test's own, as somebody would have made them with plain docker; removed at the end.
#[derive(Default)]
struct Foreign {
    containers: Vec<(String, RemovedContainer)>,
    objects: Vec<RemovedObject>,
}

impl Foreign {
    /// A network, a volume with something in it, and a running container in both.
    #[track_caller]
    fn make(&mut self, network: &str, volume: &str, container: &str, labels: &[&str]) {
        let labels: Vec<String> = labels.iter().map(|label| format!("--label={label}")).collect();
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        self.objects.push(RemovedObject::create("network", &labels, network));
        self.objects.push(RemovedObject::create("volume", &labels, volume));
        let mount = format!("{volume}:/theirs");
        let options = ["--name", container, "--network", network, "-v", &mount];
        let command = ["busybox:stable", "sh", "-c", "echo theirs > /theirs/it; exec sleep 1000000"];
        let run = RemovedContainer::run(&[&options[..], &labels, &command].concat());
        self.containers.push((container.to_owned(), run));
    }

    /// Everything that Docker knows of them, and what is in the volumes.
    #[track_caller]
    fn state(&self) -> BTreeMap<String, Value> {
        let objects =
            self.objects.iter().map(|one| (format!("{} {}", one.kind, one.name), inspect(one.kind, &one.name)));
        let containers = self.containers.iter().map(|(name, _)| {
            let mut found = inspect("container", name);
            found["content"] = docker(&["exec", name, "ls", "-lR", "--full-time", "/theirs"]).ok().stdout.into();
            (format!("container {name}"), found)
        });
        objects.chain(containers).collect()
    }
}

/// Runs every verb, whatever comes of it, and looks at the others' things after each.
#[track_caller]
fn every_verb(world: &World, copy: &str, foreign: &Foreign, before: &BTreeMap<String, Value>) {
    let verbs: [&[&str]; 12] = [
        &["up", copy, "--no-own-ports", "--timeout", "30s"],
        &["stop", copy],
        &["start", copy],
        &["restart", "-i", copy],
        &["restart", "-i", copy, "web"],
        &["down", copy],
        &["up", copy, "--no-own-ports", "--build", "--timeout", "30s"],
        &["up", copy, "--no-own-ports", "--move-ports", "--fresh", "--timeout", "30s"],
        &["plan", copy],
        &["ls"],
        &["down", copy, "-v"],
        &["rm", copy, "--volumes"],
    ];
    for words in verbs {
        let ran = world.run(words);
        assert!(ran.code != 1 && ran.code != 255, "{words:?}: {ran:?}");
        assert_eq!(foreign.state(), *before, "{words:?} touched what is not its own");
    }
}

const NAMED: &str = r#"name: @workspace@-fixed
services:
  web:
    image: busybox:stable
    container_name: @workspace@-fixed-web
    command: @httpd@
    stop_grace_period: 0s
    ports: ["14500:8080"]
    networks: [lan]
    volumes: ["data:/data"]
networks: {lan: {name: @workspace@-fixed-lan}}
volumes: {data: {name: @workspace@-fixed-data}}
"#;

#[test]
fn p22_names_of_the_file_that_somebody_else_has() {
    if !docker_is_there() {
        return;
    }
    let world = stack(&[("compose.yaml", NAMED)]);
    let fixed = format!("{}-fixed", world.workspace);
    let mut foreign = Foreign::default();
    // As plain `docker compose up` makes them, with its labels and the file's names.
    let project = format!("com.docker.compose.project={fixed}");
    let labels = [&project, "com.docker.compose.service=web", "com.docker.compose.container-number=1"];
    foreign.make(&format!("{fixed}-lan"), &format!("{fixed}-data"), &format!("{fixed}-web"), &labels);
    // And with the names that are made of the project's.
    foreign.make(&format!("{fixed}_lan"), &format!("{fixed}_data"), &format!("{fixed}-web-1"), &labels);
    let before = foreign.state();
    // They stand in nobody's way.
    world.run(["up", "--no-own-ports"]).ok();
    world.run(["up", "--new", "two"]).ok();
    let copies = Copies { world };
    for copy in COPIES {
        assert_eq!(copies.get(copy, "web", "/id"), copies.container(copy, "web").id[..12], "{copy}");
        assert_ne!(copies.try_exec(copy, "web", &["cat", "/data/it"]).code, 0, "{copy} has their data");
    }
    assert_eq!(foreign.state(), before);
    for copy in COPIES {
        every_verb(&copies.world, copy, &foreign, &before);
    }
    assert_eq!(copies.world.leftovers(), Vec::<String>::new());
}

#[test]
fn p22_the_very_names_that_an_instance_would_have() {
    if !docker_is_there() {
        return;
    }
    let world = stack(&[("compose.yaml", NAMED)]);
    let project = world.project("main");
    let label = format!("com.docker.compose.project={project}");
    let composed = [&label, "com.docker.compose.service=web", "com.docker.compose.container-number=1"];
    for labels in [&[][..], &[composed[0]], &composed] {
        let mut foreign = Foreign::default();
        foreign.make(&format!("{project}_lan"), &format!("{project}_data"), &format!("{project}-web-1"), labels);
        let before = foreign.state();
        let refused = world.run(["up", "--no-own-ports"]).exits(5);
        assert!(refused.stderr.contains(&project), "{}", refused.stderr);
        every_verb(&world, "main", &foreign, &before);
        // Another instance has other names.
        world.run(["up", "--new", "two"]).ok();
        assert_eq!(foreign.state(), before);
        world.run(["rm", "two", "--volumes"]).ok();
        assert_eq!(world.leftovers(), Vec::<String>::new(), "{labels:?}");
    }
}

#[test]
fn p22_names_that_somebody_takes_while_the_instance_is_down() {
    if !docker_is_there() {
        return;
    }
    let world = stack(&[("compose.yaml", NAMED)]);
    let project = world.project("main");
    world.run(["up", "--no-own-ports"]).ok();
    world.run(["down", "-v"]).ok();
    let mut foreign = Foreign::default();
    let label = format!("com.docker.compose.project={project}");
    foreign.make(&format!("{project}_lan"), &format!("{project}_data"), &format!("{project}-web-1"), &[&label]);
    let before = foreign.state();
    world.run(["up", "--no-own-ports"]).exits(5);
    every_verb(&world, "main", &foreign, &before);
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

#[test]
fn p22_a_guest_in_the_instances_own_network_and_volume() {
    if !docker_is_there() {
        return;
    }
    let world = stack(&[("compose.yaml", NAMED)]);
    let project = world.project("main");
    world.run(["up", "--no-own-ports"]).ok();
    let guest = format!("{project}-guest");
    let _guest = RemovedContainer::run(&[
        "--name",
        &guest,
        "--network",
        &format!("{project}_lan"),
        "-v",
        &format!("{project}_data:/data"),
        "busybox:stable",
        "sleep",
        "1000000",
    ]);
    let before = inspect("container", &guest);
    let alive = |words: &[&str]| {
        let ran = world.run(words);
        let now = inspect("container", &guest);
        assert_eq!((&now["Id"], &now["State"]), (&before["Id"], &before["State"]), "{words:?} touched the guest");
        ran
    };
    alive(&["restart"]).ok();
    alive(&["stop"]).ok();
    alive(&["start"]).ok();
    // What a guest holds cannot go; that is said, and nothing is forgotten.
    let removed = alive(&["rm", "--volumes"]);
    assert!(removed.code != 0 && removed.stderr.contains(&guest), "the guest is named: {removed:?}");
    assert!(!world.leftovers().is_empty());
    drop(_guest);
    world.run(["rm", "main", "--volumes"]).ok();
    assert_eq!(world.leftovers(), Vec::<String>::new());
}
