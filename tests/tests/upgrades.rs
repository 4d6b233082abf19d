//! An upgrade of the catalogue changes no revision.

use std::fs;

use sidestack_tests::{World, docker_is_there};

const MODULE: &str = "module: 1
name: redis
summary: a module of the stack's own, in the place of the built-in one
provides: [cache]
versions: [{version: '7', image: 'busybox:stable'}]
ports: {redis: {port: 6379, primary: true}}
services:
  main:
    image: '{{ image }}'
    command: [httpd, -f, -p, '6379']
    stop-grace-period: 0s
";

/// A built-in catalogue of another version is stood in for by a module of the stack
/// that has a built-in one's name and then goes away: to the revision it is the same.
#[test]
fn p45_a_revision_keeps_the_modules_that_it_was_made_with() {
    if !docker_is_there() {
        return;
    }
    let world = World::with(&[
        ("sidestack.yaml", "sidestack: 1\nworkspace: @workspace@\nresources: {cache: redis}\n"),
        ("sidestack/modules/redis.yaml", MODULE),
    ]);
    world.run(["up"]).ok();
    let image = |target: &str| {
        let described = world.run(["describe", target, "--json"]).ok().json();
        described["services"][0]["image"].as_str().unwrap().to_owned()
    };
    assert_eq!(image("main"), "busybox:stable");
    let tree = |instance: &str| {
        fs::read_to_string(world.home().join("trees").join(world.project(instance)).join("compose.yaml")).unwrap()
    };
    let before = tree("main");

    // The catalogue has another text of that name now.
    fs::remove_dir_all(world.folder().join("sidestack")).unwrap();
    world.run(["up", "@r1"]).ok();
    assert_eq!(image("r1"), "busybox:stable");
    world.run(["stop", "main"]).ok();
    world.run(["start", "main"]).ok();
    assert_eq!((image("main"), tree("main")), ("busybox:stable".to_owned(), before));
    // And what the files say now is another revision.
    let beside = world.run(["up", "--beside", "--json"]).ok().json();
    assert_eq!(beside["revision"], "r2");
    assert_eq!(image("r2"), "redis:7");
}
