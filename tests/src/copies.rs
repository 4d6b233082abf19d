//! One stack of a compose file in two copies at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Container, Ran, World, containers, docker, http_get};

/// The instances of the two copies.
pub const COPIES: [&str; 2] = ["main", "two"];

/// A command for busybox that serves its variables at `/env` and its container's host name at `/id`;
/// stands in compose files as `@httpd@`. The folder is made anew, so that the container can be restarted.
pub const HTTPD: &str =
    r#"["sh", "-c", "mkdir -p /www && cd /www && env > env && hostname > id && exec httpd -f -p 8080"]"#;

/// Two copies of one stack, up at once. What they made goes with them, also by a panic.
pub struct Copies {
    /// Where they are.
    pub world: World,
}

/// What a copy has in Docker, by what would collide.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Possessions {
    /// `container NAME`, `volume NAME`, `network NAME`, `port 127.0.0.1:N`, `subnet N`.
    pub all: BTreeSet<String>,
}

impl Copies {
    /// Both copies of these files, with no ports of the file's own.
    #[track_caller]
    pub fn up(files: &[(&str, &str)]) -> Self {
        Self::up_with(files, &[])
    }

    /// Both copies, brought up with these arguments each.
    #[track_caller]
    pub fn up_with(files: &[(&str, &str)], args: &[&str]) -> Self {
        let copies = Self { world: stack(files) };
        copies.world.run([&["up", "--no-own-ports"][..], args].concat()).ok();
        copies.world.run([&["up", "--no-own-ports", "--new", "two"][..], args].concat()).ok();
        copies
    }

    /// The body at a path of a service's container port 8080.
    #[track_caller]
    pub fn get(&self, copy: &str, service: &str, path: &str) -> String {
        get(&self.world.address(copy, service, 8080), path)
    }

    /// The variables that a service of [`HTTPD`] has, asked over its published port.
    #[track_caller]
    pub fn env(&self, copy: &str, service: &str) -> BTreeMap<String, String> {
        let lines = self.get(copy, service, "/env");
        lines.lines().filter_map(|line| line.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
    }

    /// Runs a command in a container; what it printed, trimmed.
    #[track_caller]
    pub fn exec(&self, copy: &str, service: &str, words: &[&str]) -> String {
        self.try_exec(copy, service, words).ok().stdout.trim().to_owned()
    }

    /// Runs a command in a container.
    pub fn try_exec(&self, copy: &str, service: &str, words: &[&str]) -> Ran {
        self.world.run([&["exec", "-i", copy, service, "--"][..], words].concat())
    }

    /// A copy's container of a service.
    #[track_caller]
    pub fn container(&self, copy: &str, service: &str) -> Container {
        containers(&self.world.project(copy)).remove(service).unwrap_or_else(|| panic!("{copy} has no {service}"))
    }

    /// `docker inspect` of a copy's container.
    #[track_caller]
    pub fn inspect(&self, copy: &str, service: &str) -> Value {
        inspect("container", &self.container(copy, service).id)
    }

    /// Removes one copy after the other: what the second has is not touched, `works` holds for it, and nothing is left.
    #[track_caller]
    pub fn go_one_by_one(self, works: impl Fn(&Self, &str)) {
        let [first, second] = COPIES;
        let (one, two) = (possessions(&self.world, first), possessions(&self.world, second));
        let both: Vec<&String> = one.all.intersection(&two.all).collect();
        assert!(both.is_empty(), "both copies have {both:?}");
        for copy in COPIES {
            let plan = self.world.run(["plan", copy, "--json"]).ok().json();
            let changes = plan["isolation"].as_array().unwrap();
            let unexplained: Vec<&Value> = changes.iter().filter(|change| change["rule"] == "unexplained").collect();
            assert!(unexplained.is_empty(), "{copy}: {unexplained:#?}");
            works(&self, copy);
        }
        let before = containers(&self.world.project(second));
        self.world.run(["rm", first, "--volumes"]).ok();
        assert_eq!(possessions(&self.world, first), Possessions::default(), "{first} left something");
        assert_eq!(possessions(&self.world, second), two, "the removal of {first} touched {second}");
        assert_eq!(containers(&self.world.project(second)), before, "the removal of {first} touched {second}");
        works(&self, second);
        self.world.run(["rm", second, "--volumes"]).ok();
        assert_eq!(self.world.leftovers(), Vec::<String>::new());
    }
}

/// A world apart with these files; `@httpd@` is [`HTTPD`].
pub fn stack(files: &[(&str, &str)]) -> World {
    let world = World::new().apart();
    for (name, text) in files {
        world.write(name, &text.replace("@httpd@", HTTPD));
    }
    world
}

/// The body at a path, waiting a moment for a server that has just been started.
#[track_caller]
pub fn get(address: &str, path: &str) -> String {
    let began = Instant::now();
    loop {
        if let Some(body) = http_get(address, path) {
            return body.trim().to_owned();
        }
        assert!(began.elapsed() < Duration::from_secs(10), "http://{address}{path} does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// `docker KIND inspect`.
#[track_caller]
pub fn inspect(kind: &str, name: &str) -> Value {
    inspect_all(kind, &[name]).remove(0)
}

/// The same of several.
#[track_caller]
fn inspect_all(kind: &str, names: &[&str]) -> Vec<Value> {
    if names.is_empty() {
        return Vec::new();
    }
    let ran = docker(&[&[kind, "inspect"][..], names].concat()).ok();
    serde_json::from_str(&ran.stdout).unwrap()
}

/// What a copy has in Docker.
#[track_caller]
pub fn possessions(world: &World, copy: &str) -> Possessions {
    let label = format!("label=com.docker.compose.project={}", world.project(copy));
    let own = world.label().unwrap_or_default();
    let mut all = BTreeSet::new();
    let own_containers = containers(&world.project(copy));
    let ids: Vec<&str> = own_containers.values().map(|container| container.id.as_str()).collect();
    for container in own_containers.values() {
        all.extend(container.published.iter().map(|port| format!("port {port}")));
        all.insert(format!("container {}", container.name));
    }
    for container in inspect_all("container", &ids) {
        let mounts = container["Mounts"].as_array().into_iter().flatten();
        let names = mounts.filter(|mount| mount["Type"] == "volume").filter_map(|mount| mount["Name"].as_str());
        // What is not in the list of labels below is anonymous or shared.
        all.extend(names.filter(|name| name.len() == 64).map(|name| format!("volume {name}")));
    }
    for kind in ["volume", "network"] {
        let listed = docker(&[kind, "ls", "-q", "--filter", &label, "--filter", &own]).ok();
        for found in inspect_all(kind, &listed.stdout.lines().collect::<Vec<_>>()) {
            all.insert(format!("{kind} {}", found["Name"].as_str().unwrap_or_default()));
            let subnets = found["IPAM"]["Config"].as_array().into_iter().flatten();
            all.extend(subnets.map(|config| format!("subnet {}", config["Subnet"].as_str().unwrap_or_default())));
        }
    }
    Possessions { all }
}
