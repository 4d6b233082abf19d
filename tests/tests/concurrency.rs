//! Many at once on one instance, and readers beside a writer.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sidestack_tests::{WEB_AND_KEEPER, World, containers, docker_is_there, http_get, networks};

#[test]
fn p14_concurrent_verbs_on_one_instance_serialise() {
    if !docker_is_there() {
        return;
    }
    let world = World::with(&[("compose.yaml", WEB_AND_KEEPER)]);
    world.run(["up"]).ok();
    let project = world.project("main");
    let address = world.address("main", "web", 8080);
    let _slot = world.keep_slot("main");
    let verbs = ["up", "stop", "start", "restart", "down", "up", "start", "stop"];
    let ran: Vec<_> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..32)
            .map(|number| {
                let (world, verb) = (&world, verbs[number % verbs.len()]);
                scope.spawn(move || (verb, world.run([verb, "--timeout", "5m"])))
            })
            .collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (verb, ran) in &ran {
        // `restart` of what another verb took away has nothing to restart; all else succeeds.
        assert!(ran.code == 0 || *verb == "restart", "{verb}: {ran:?}");
        assert!(!ran.stderr.contains("panicked"), "{verb}: {}", ran.stderr);
    }
    assert!(networks(&project).len() <= 1, "{:?}", networks(&project));
    let left = containers(&project);
    let states: Vec<&str> = left.values().map(|c| c.status.as_str()).collect();
    let legal = states.is_empty() || states == ["running"; 2] || states == ["exited"; 2];
    assert!(legal, "half of a verb is left: {left:#?}");
    assert!(left.values().all(|c| c.name.starts_with(&project)), "a temporary name is left: {left:#?}");

    world.run(["up"]).ok();
    assert_eq!(networks(&project).len(), 1);
    assert!(containers(&project).values().all(|c| c.status == "running"));
    assert_eq!(world.address("main", "web", 8080), address);
    assert!(http_get(&address, "/").is_some());
    assert_eq!(world.run(["up", "--json"]).ok().json()["changed"], false);
    assert_eq!(fs::read_dir(world.home().join("locks")).unwrap().count(), 1);
}

#[test]
fn p08_a_reader_never_sees_half_a_tree() {
    if !docker_is_there() {
        return;
    }
    // The padding makes a file that is not written in one go.
    let padding: String = (0..400).map(|number| format!("      PAD_{number}: {}\n", "x".repeat(60))).collect();
    let compose = |version: &str| {
        format!(
            "services:\n  web:\n    image: busybox:stable\n    command: [sleep, '1000000']\n    stop_grace_period: 0s\n    environment:\n      FIRST: {version}\n{padding}      ZLAST: {version}\n    configs: [{{source: page, target: /page}}]\nconfigs: {{page: {{file: page.txt}}}}\n"
        )
    };
    let world = World::with(&[("compose.yaml", &compose("aaaa")), ("page.txt", "aaaa\n")]);
    world.run(["up"]).ok();
    let tree = world.home().join("trees").join(world.project("main"));
    let whole = |text: &str, version: &str| {
        text.contains(&format!("FIRST: {version}")) && text.contains(&format!("ZLAST: {version}"))
    };
    let (done, reads, swaps) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = String::new();
            while !done.load(Ordering::Relaxed) || reads.load(Ordering::Relaxed) < 10_000 {
                let text = fs::read_to_string(tree.join("compose.yaml")).unwrap();
                if text != last {
                    let plain = text.replace(['"', '\''], "");
                    assert!(whole(&plain, "aaaa") || whole(&plain, "bbbb"), "a torn tree:\n{text}");
                    // What it names is there.
                    let files = tree.join("files");
                    for word in plain.split_whitespace().filter(|word| word.starts_with(files.to_str().unwrap())) {
                        assert!(fs::metadata(word).is_ok(), "{word} is not there");
                    }
                    swaps.fetch_add(1, Ordering::Relaxed);
                    last = text;
                }
                reads.fetch_add(1, Ordering::Relaxed);
            }
        });
        // A panic here must still end the reader.
        let writer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..8 {
                let version = ["bbbb", "aaaa"][round % 2];
                world.write("compose.yaml", &compose(version));
                world.write("page.txt", &format!("{version}\n"));
                world.run(["up", "--timeout", "5m"]).ok();
            }
        }));
        done.store(true, Ordering::Relaxed);
        if let Err(panic) = writer {
            std::panic::resume_unwind(panic);
        }
    });
    assert!(reads.load(Ordering::Relaxed) >= 10_000);
    assert!(swaps.load(Ordering::Relaxed) >= 5, "the reader saw only {swaps:?} trees");
}
