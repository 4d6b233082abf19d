//! A command that is killed anywhere leaves what the next one puts right.

use std::time::{Duration, Instant};

use sidestack_tests::{WEB_AND_KEEPER, World, containers, docker, docker_is_there};

/// Runs a verb and kills it after a while; with `all`, its Compose too.
fn killed_after(world: &World, verb: &[&str], delay: Duration, all: bool) {
    let mut running = world.start(verb);
    let deadline = Instant::now() + delay;
    while Instant::now() < deadline && !running.has_ended() {
        std::thread::sleep(Duration::from_millis(2));
    }
    if all { running.kill_all() } else { running.kill() }
}

/// What a good `up` has made of it: two containers under their own names, one network, one volume.
#[track_caller]
fn legal(world: &World, version: &str, when: &str) {
    let project = world.project("main");
    let found = containers(&project);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["keeper", "web"], "{when}");
    for (service, container) in &found {
        assert_eq!(container.status, "running", "{when}: {service}");
        assert_eq!(container.name, format!("{project}-{service}-1"), "{when}");
        assert_eq!(container.env["VERSION"], version, "{when}: {service}");
    }
    let mut kinds: Vec<String> =
        world.leftovers().iter().map(|left| left.split(' ').next().unwrap().to_owned()).collect();
    kinds.sort();
    assert_eq!(kinds, ["network", "ps", "ps", "volume"], "{when}");
}

#[test]
fn a_killed_up_is_finished_by_the_next() {
    if !docker_is_there() {
        return;
    }
    let world = World::with(&[("compose.yaml", WEB_AND_KEEPER)]);
    let began = Instant::now();
    world.run(["up"]).ok();
    let whole = began.elapsed();
    let _slot = world.keep_slot("main");
    world.run(["exec", "keeper", "--", "sh", "-c", "echo kept > /data/file"]).ok();
    for round in 1..=20_u32 {
        let version = round.to_string();
        world.write("compose.yaml", &WEB_AND_KEEPER.replace("VERSION: \"0\"", &format!("VERSION: \"{version}\"")));
        if round % 5 == 0 {
            // From nothing, not only in place.
            world.run(["down"]).ok();
        }
        // Spread over the whole of it, in an order that is not the clock's; every other
        // one takes Compose along, the others leave it behind.
        let delay = whole * ((round * 7) % 20) / 20;
        killed_after(&world, &["up"], delay, round % 2 == 0);
        world.run(["up", "--timeout", "3m"]).ok();
        legal(&world, &version, &format!("round {round}, killed after {delay:?}"));
    }
    assert_eq!(world.run(["up", "--json"]).ok().json()["changed"], false);
    assert_eq!(world.run(["exec", "keeper", "--", "cat", "/data/file"]).ok().stdout, "kept\n");
    world.run(["rm", "--volumes"]).ok();
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

/// Whether a Compose of a project runs.
fn composes(project: &str) -> bool {
    let own = format!("\0-p\0{project}\0");
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
        .any(|words| String::from_utf8_lossy(&words).contains(&own))
}

#[test]
fn a_first_up_that_is_killed_leaves_no_compose_that_waits() {
    if !docker_is_there() {
        return;
    }
    let mut whole = Duration::from_secs(2);
    for round in 0..8_u32 {
        let world = World::with(&[("compose.yaml", WEB_AND_KEEPER)]);
        let project = world.project("main");
        if round == 0 {
            let began = Instant::now();
            world.run(["up"]).ok();
            whole = began.elapsed();
            legal(&world, "0", "the first, undisturbed");
            assert!(!composes(&project));
            continue;
        }
        // Mostly while it still asks what it needs, when Compose was started without its model.
        killed_after(&world, &["up"], whole * round / 16, false);
        let deadline = Instant::now() + Duration::from_secs(20);
        while composes(&project) {
            assert!(Instant::now() < deadline, "Compose is left in round {round}");
            std::thread::sleep(Duration::from_millis(5));
        }
        world.run(["up", "--timeout", "3m"]).ok();
        legal(&world, "0", &format!("round {round}"));
    }
}

#[test]
fn a_killed_removal_finishes_or_stays_visible() {
    if !docker_is_there() {
        return;
    }
    let world = World::with(&[("compose.yaml", WEB_AND_KEEPER)]);
    world.run(["up"]).ok();
    let began = Instant::now();
    world.run(["rm", "--volumes"]).ok();
    let whole = began.elapsed();
    for round in 0..8_u32 {
        world.run(["up"]).ok();
        killed_after(&world, &["rm", "--volumes"], whole * round / 8, false);
        let left = world.leftovers();
        let listed = world.run(["ls", "--json"]).ok().json();
        let visible = !listed["instances"].as_array().unwrap().is_empty();
        assert!(left.is_empty() || visible, "round {round}: {left:?} is left and nobody shows it");
        world.run(["rm", "--volumes"]).ok();
        assert_eq!(world.leftovers(), Vec::<String>::new(), "round {round}");
        let listed = world.run(["ls", "--json"]).ok().json();
        assert_eq!(listed["instances"], serde_json::json!([]), "round {round}");
    }
}

#[test]
fn data_survives_a_killed_removal_that_does_not_take_it() {
    if !docker_is_there() {
        return;
    }
    let world = World::with(&[("compose.yaml", WEB_AND_KEEPER)]);
    world.run(["up"]).ok();
    world.run(["exec", "keeper", "--", "sh", "-c", "echo kept > /data/file"]).ok();
    for verb in [&["rm"][..], &["down"], &["stop"]] {
        for part in 1..=3_u32 {
            let _slot = world.keep_slot("main");
            killed_after(&world, verb, Duration::from_millis(150) * part, false);
            world.run(["up"]).ok();
            legal(&world, "0", &format!("{verb:?} killed in part {part}"));
            assert_eq!(world.run(["exec", "keeper", "--", "cat", "/data/file"]).ok().stdout, "kept\n", "{verb:?}");
        }
    }
    docker(&["volume", "inspect", &format!("{}_data", world.project("main"))]).ok();
}
