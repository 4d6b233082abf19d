//! Ports that somebody else holds, and ports that many want at once.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use sidestack_tests::{Killed, Ran, Recorder, RemovedContainer, World, containers, docker, docker_is_there, http_get};

const COMPOSE: &str = r#"services:
  web:
    image: busybox:stable
    command: ["httpd", "-f", "-p", "8080"]
    stop_grace_period: 0s
    ports: ["8080:8080", "9090:9090/udp"]
"#;

/// Host ports of an instance's slot.
fn block(slot: u64) -> std::ops::Range<u16> {
    let first = u16::try_from(20_000 + 100 * slot).unwrap();
    first..first + 100
}

fn slot_of(world: &World, target: &str) -> u64 {
    world.run(["describe", target, "--json"]).ok().json()["slot"].as_u64().unwrap()
}

/// The slot that a new instance would get now.
fn next_slot(world: &World) -> u64 {
    let up = world.run(["up", "--new", "probe", "--json"]).ok().json();
    world.run(["rm", "probe", "--volumes"]).ok();
    up["slot"].as_u64().unwrap()
}

/// These tests tell which slot comes next, so no two of them may take slots at a time.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    // A test that failed left nothing behind that the next one would see.
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A stack that holds a slot and publishes nothing yet, or nothing for the moment, keeps another store out of it.
#[test]
fn another_store_passes_over_a_slot_in_which_something_is_about_to_start() {
    const SOON: Duration = Duration::from_secs(60);
    if !docker_is_there() {
        return;
    }
    let _alone = alone();
    let (mut first, second) = (World::with(&[("compose.yaml", COMPOSE)]), World::with(&[("compose.yaml", COMPOSE)]));
    let Some(recorder) = Recorder::listen(&first.root().join("docker.sock")) else { return };
    first.env.insert("DOCKER_HOST".into(), recorder.host());
    let beside = |name: &str, slot: u64| {
        let up = second.run(["up", "--new", name, "--json"]).ok();
        assert_ne!(up.json()["slot"].as_u64(), Some(slot), "{}", up.stderr);
        assert!(up.stderr.contains(&format!("slot {slot} ")), "slot {slot} is not named in\n{}", up.stderr);
        second.run(["rm", name, "--volumes"]).ok();
    };
    recorder.hold("/start");
    let starting = first.start(["up"]);
    recorder.holds(SOON);
    let slot = slot_of(&first, "main");
    beside("one", slot);
    recorder.let_go();
    starting.ends(SOON).ok();
    // The container that has its ports is about to be replaced by one that will have them.
    first.write("compose.yaml", &COMPOSE.replace("8080\"]", "8080\", \"-v\"]"));
    recorder.hold("/start");
    let moving = first.start(["up"]);
    recorder.holds(SOON);
    beside("two", slot);
    recorder.let_go();
    moving.ends(SOON).ok();
    assert_eq!(slot_of(&first, "main"), slot);
}

#[test]
fn a_foreign_listener_is_named_and_its_slot_passed_over() {
    if !docker_is_there() {
        return;
    }
    let _alone = alone();
    let world = World::with(&[("compose.yaml", COMPOSE)]);
    world.run(["up"]).ok();
    let own = format!("process {}", std::process::id());
    let mut number = 0;
    let mut meets = |kind: &str, named: &str, slot: u64| {
        number += 1;
        let name = format!("n{number}");
        let ran = world.run(["up", "--new", &name, "--json"]).ok();
        let took = ran.json()["slot"].as_u64().unwrap();
        assert_ne!(took, slot, "{kind}: the slot is held");
        assert!(ran.stderr.contains(named), "{kind}: `{named}` is not named in\n{}", ran.stderr);
        assert!(ran.stderr.contains(&format!("slot {slot} ")), "{kind}: slot {slot} is not named in\n{}", ran.stderr);
        world.run(["rm", &name, "--volumes"]).ok();
    };

    // Somewhere in the block, also where the stack publishes nothing.
    let slot = next_slot(&world);
    let listener = TcpListener::bind(("127.0.0.1", block(slot).start + 37)).unwrap();
    meets("TCP on IPv4", &own, slot);
    drop(listener);

    let slot = next_slot(&world);
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, block(slot).start)).unwrap();
    meets("TCP on IPv6", &own, slot);
    drop(listener);

    let slot = next_slot(&world);
    let socket = UdpSocket::bind(("0.0.0.0", block(slot).start + 1)).unwrap();
    meets("UDP on IPv4", &own, slot);
    drop(socket);

    let slot = next_slot(&world);
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, block(slot).start + 99)).unwrap();
    meets("UDP on IPv6", &own, slot);
    drop(socket);

    let slot = next_slot(&world);
    let name = format!("{}-holder", world.workspace);
    let published = format!("127.0.0.1:{}:80", block(slot).start + 5);
    let container = RemovedContainer::run(&["--name", &name, "-p", &published, "busybox:stable", "sleep", "1000000"]);
    // A container is no process: no block is free for a moment only.
    let ran = world.run(["up", "--new", "beside", "--json"]).ok();
    assert_ne!(ran.json()["slot"].as_u64(), Some(slot), "{}", ran.stderr);
    drop(container);
}

#[test]
fn a_port_that_is_taken_later_is_named_and_let_go_of_only_when_asked() {
    if !docker_is_there() {
        return;
    }
    let _alone = alone();
    let world = World::with(&[("compose.yaml", COMPOSE)]);
    world.run(["up"]).ok();
    let address = world.address("main", "web", 8080);
    world.run(["stop"]).ok();
    let socket: SocketAddr = address.parse().unwrap();
    let listener = TcpListener::bind(socket).unwrap();
    let start = world.run(["start"]).exits(5);
    let port = socket.port().to_string();
    assert!(
        start.stderr.contains(&port) && start.stderr.contains(&format!("process {}", std::process::id())),
        "{}",
        start.stderr
    );
    assert!(start.stderr.contains("--move-ports"), "{}", start.stderr);
    assert!(
        start.stderr.lines().filter(|line| !line.contains(": ") || line.starts_with("error")).count() <= 4,
        "{}",
        start.stderr
    );
    let error: Value = serde_json::from_str(&world.run(["start", "--json"]).exits(5).stdout).unwrap();
    assert_eq!(error["ok"], false);
    // It is no success that the store believes in.
    let listed = world.run(["ls", "--json"]).ok().json();
    assert_ne!(listed["instances"][0]["state"], "running", "{listed:#}");

    world.run(["up", "--move-ports"]).ok();
    let moved = world.address("main", "web", 8080);
    assert_ne!(moved, address);
    assert!(http_get(&moved, "/").is_some(), "{moved} does not answer");

    // Once the port is free again, nothing moves back by itself.
    drop(listener);
    assert_eq!(world.run(["up", "--json"]).ok().json()["changed"], false);
    assert_eq!(world.address("main", "web", 8080), moved);

    // The other way out: the port becomes free and `start` goes on.
    world.run(["stop"]).ok();
    let listener = TcpListener::bind(moved.parse::<SocketAddr>().unwrap()).unwrap();
    world.run(["start"]).exits(5);
    drop(listener);
    world.run(["start"]).ok();
    assert!(http_get(&world.address("main", "web", 8080), "/").is_some());
}

/// How many start at once. A machine with two cores takes its time.
const AT_ONCE: usize = 32;

#[test]
fn parallel_ups_get_disjoint_blocks_of_ports_and_addresses_and_all_run() {
    if !docker_is_there() {
        return;
    }
    let _alone = alone();
    let world = World::with(&[("compose.yaml", COMPOSE)]);
    // The revision is there first, so that what is raced for is slots and addresses.
    world.run(["up"]).ok();
    let began = Instant::now();
    let ups: Vec<Ran> = std::thread::scope(|scope| {
        let run = |number: usize| world.run(["up", "--new", &format!("p{number}"), "--json", "--timeout", "5m"]);
        let started: Vec<_> = (0..AT_ONCE).map(|number| scope.spawn(move || run(number))).collect();
        started.into_iter().map(|up| up.join().unwrap()).collect()
    });
    let took = began.elapsed();
    let mut slots = BTreeSet::from([slot_of(&world, "main")]);
    let mut ports = BTreeSet::new();
    let mut subnets = BTreeSet::new();
    for (number, up) in ups.into_iter().enumerate() {
        let up = up.ok().json();
        let slot = up["slot"].as_u64().unwrap();
        assert!(slots.insert(slot), "slot {slot} twice");
        let project = world.project(&format!("p{number}"));
        let web = containers(&project)["web"].clone();
        assert_eq!(web.status, "running", "p{number}");
        for address in &web.published {
            let port: u16 = address.rsplit_once(':').unwrap().1.parse().unwrap();
            assert!(block(slot).contains(&port), "{address} is not of slot {slot}");
            ports.insert(port);
        }
        let network = docker(&[
            "network",
            "inspect",
            &format!("{project}_default"),
            "--format",
            "{{range .IPAM.Config}}{{.Subnet}}{{end}}",
        ])
        .ok();
        assert!(subnets.insert(network.stdout.trim().to_owned()), "{} twice", network.stdout);
    }
    assert_eq!(ports.len(), AT_ONCE * 2, "a TCP and a UDP port each");
    let listed = world.run(["ls", "--json"]).ok().json();
    let running = listed["instances"].as_array().unwrap().iter().filter(|row| row["state"] == "running").count();
    assert_eq!(running, AT_ONCE + 1);
    for number in 0..AT_ONCE {
        let address = world.address(&format!("p{number}"), "web", 8080);
        // The service has no health: that it runs does not say that it listens yet.
        let answers = (0..40).any(|_| {
            let answer = http_get(&address, "/");
            if answer.is_none() {
                std::thread::sleep(Duration::from_millis(250));
            }
            answer.is_some()
        });
        assert!(answers, "p{number} at {address}");
    }
    assert!(took < Duration::from_secs(280), "{AT_ONCE} at once took {took:?}");
    std::thread::scope(|scope| {
        for number in 0..AT_ONCE {
            let world = &world;
            scope.spawn(move || world.run(["rm", &format!("p{number}"), "--volumes"]).ok());
        }
    });
    world.run(["rm", "--volumes"]).ok();
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

#[test]
fn p35_ports_are_published_on_loopback_alone() {
    if !docker_is_there() {
        return;
    }
    let _alone = alone();
    let world = World::with(&[
        (
            "compose.yaml",
            r#"services:
  web:
    image: busybox:stable
    command: ["httpd", "-f", "-p", "8080"]
    stop_grace_period: 0s
    ports: ["8080:8080", "8081", "0.0.0.0:8082:8082", {target: 8083, published: "8083"}, "9000-9002:9000-9002", "9090:9090/udp"]
"#,
        ),
        ("sidestack.yaml", "sidestack: 1\nworkspace: @workspace@\ncompose: compose.yaml\nresources: {cache: redis}\n"),
    ]);
    world.run(["up"]).ok();
    let all: Vec<String> = containers(&world.project("main")).values().flat_map(|c| c.published.clone()).collect();
    assert!(all.len() >= 9, "{all:?}");
    let loopback = all.iter().filter(|address| address.starts_with("127.0.0.1:")).count();
    assert_eq!(loopback, all.len(), "{all:?}");
    // The kernel says the same: nobody listens on another address at these ports.
    let ports: BTreeSet<u16> = all.iter().map(|address| address.rsplit_once(':').unwrap().1.parse().unwrap()).collect();
    for (table, any) in [
        ("/proc/net/tcp", "0100007F"),
        ("/proc/net/tcp6", "none"),
        ("/proc/net/udp", "0100007F"),
        ("/proc/net/udp6", "none"),
    ] {
        for line in fs::read_to_string(table).unwrap_or_default().lines().skip(1) {
            let local = line.split_whitespace().nth(1).unwrap();
            let (address, port) = local.split_once(':').unwrap();
            let port = u16::from_str_radix(port, 16).unwrap();
            let listens = line.split_whitespace().nth(3).is_some_and(|state| state == "0A" || state == "07");
            assert!(!(listens && ports.contains(&port)) || address == any, "{table}: {local} is open to others");
        }
    }
    // Seen from another network namespace: from a container, by the address of its gateway.
    let gateway =
        docker(&["network", "inspect", "bridge", "--format", "{{range .IPAM.Config}}{{.Gateway}}{{end}}"]).stdout;
    let port = world.address("main", "web", 8080).rsplit_once(':').unwrap().1.to_owned();
    let url = format!("http://{}:{port}/", gateway.trim());
    let seen = Killed::start(
        Command::new("docker")
            .args(["run", "--rm", "busybox:stable", "wget", "-T", "2", "-q", "-O-", &url])
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    );
    let mut seen = seen;
    assert!(!seen.0.wait().unwrap().success(), "{url} answers");
}
