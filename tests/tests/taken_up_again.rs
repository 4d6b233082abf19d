//! What is taken up again later is what it was: an old revision's build, and data that was kept.

use sidestack_state::Store;
use sidestack_tests::{World, docker, docker_is_there, git};

/// A service that is built and says what it was built from.
const BUILT: &[(&str, &str)] = &[
    ("sidestack.yaml", "sidestack: 1\nworkspace: @workspace@\ncompose: compose.yaml\n"),
    (
        "compose.yaml",
        "services:\n  app: {build: {context: app}, command: [sleep, infinity], stop_grace_period: 0s, init: true}\n",
    ),
    ("app/Dockerfile", "FROM busybox:stable\nCOPY code /code\n"),
    ("app/code", "one\n"),
];

#[track_caller]
fn code(world: &World, target: &str) -> String {
    world.run(["exec", "-i", target, "app", "--", "cat", "/code"]).ok().stdout.trim().to_owned()
}

fn remove_images(world: &World) {
    let pattern = format!("reference=sidestack-{}_*", world.workspace);
    let built = docker(&["images", "--format", "{{.Repository}}:{{.Tag}}", "--filter", &pattern]).ok();
    for name in built.stdout.lines() {
        docker(&["rmi", "-f", name]).ok();
    }
}

#[test]
fn an_old_revision_is_never_built_from_other_code() {
    if !docker_is_there() {
        return;
    }
    let world = World::with(BUILT);
    let folder = world.folder();
    git(&folder, &["init", "-q"]);
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "-qm", "one"]);
    let first = git(&folder, &["rev-parse", "HEAD"]);
    world.run(["up"]).ok();
    assert_eq!(code(&world, "main"), "one");
    world.write("app/code", "two\n");
    git(&folder, &["commit", "-qam", "two"]);
    world.run(["up"]).ok();
    assert_eq!(code(&world, "main"), "two");

    // With its image there, an old revision runs whatever the files are.
    world.run(["up", "@r1"]).ok();
    assert_eq!(code(&world, "r1"), "one");
    // Built anew it would be other code under its name.
    let refused = world.run(["up", "@r1", "--build"]).exits(5).says("`app` cannot be built as r1 has it");
    let refused = refused.says(&first[..12]);
    assert!(refused.stderr.contains("git worktree add"), "{}", refused.stderr);
    assert_eq!(code(&world, "r1"), "one");
    world.run(["rm", "r1"]).ok();
    world.run(["rm", "main"]).ok();
    remove_images(&world);
    let refused = world.run(["up", "@r1", "--json"]).exits(5);
    assert!(refused.stdout.contains("build-changed"), "{}", refused.stdout);
    // Nothing was built, and the newest revision is what the files are.
    let pattern = format!("reference=sidestack-{}_*", world.workspace);
    assert_eq!(docker(&["images", "-q", "--filter", &pattern]).ok().stdout, "");
    world.run(["up"]).ok();
    assert_eq!(code(&world, "main"), "two");

    // The way that the hint names.
    let beside = world.root().join("beside");
    git(&folder, &["worktree", "add", "-q", beside.to_str().unwrap(), &first[..12]]);
    let up = world.run_in(&beside, ["up", "--json"]).ok().json();
    assert_eq!(up["revision"], "r1");
    world.run(["up", "@r1"]).ok();
    assert_eq!(code(&world, "r1"), "one");
}

#[test]
fn data_that_was_kept_is_not_given_to_an_engine_that_cannot_read_it() {
    if !docker_is_there() {
        return;
    }
    let manifest = |version: &str| {
        format!(
            "sidestack: 1\nworkspace: @workspace@\nresources:\n  db: {{is: sql-database, engine: postgres@{version}}}\n"
        )
    };
    let world = World::with(&[("sidestack.yaml", &manifest("17"))]);
    world.run(["up"]).ok();
    world.run(["rm"]).ok();
    world.write("sidestack.yaml", &manifest("16"));
    // Each refusal leaves the knowledge where it was.
    for _ in 0..2 {
        world.run(["up"]).exits(5).says("which postgres@16 cannot take over").says("`sidestack up --fresh`");
    }
    world.write("sidestack.yaml", &manifest("17"));
    world.run(["up"]).ok();
    // While it is there, it can be gone on with as it is.
    world.write("sidestack.yaml", &manifest("16"));
    world.run(["up"]).exits(5).says("`sidestack start`");
    world.run(["start"]).ok();
    world.run(["rm", "--volumes"]).ok();
    world.run(["up"]).ok();
}

/// What is remembered of containers and folders does not grow with every recreation.
#[test]
fn nothing_is_remembered_of_what_is_gone() {
    if !docker_is_there() {
        return;
    }
    let compose = |value: u8| {
        format!(
            "services:\n  app: {{image: 'busybox:stable', command: [sleep, infinity], init: true, stop_grace_period: 0s, environment: {{A: '{value}'}}}}\n"
        )
    };
    let world = World::with(&[("compose.yaml", &compose(0))]);
    for value in 0..3 {
        world.write("compose.yaml", &compose(value));
        world.run(["up"]).ok();
    }
    let ready = || Store::open(&world.home()).unwrap().all_ready().unwrap().len();
    // The texts that are kept of the folder, counted by dropping them.
    let forgotten = |prefix: &str| Store::open(&world.home()).unwrap().forget(prefix).unwrap();
    assert_eq!(ready(), 1);
    assert_eq!((forgotten("reading:"), forgotten("contexts:")), (1, 1));
    world.write("compose.yaml", &compose(3));
    world.run(["up", "--beside"]).ok();
    assert_eq!(ready(), 2);
    // The folder has another instance yet.
    world.run(["rm", "main"]).ok();
    assert_eq!(ready(), 1);
    world.run(["rm", "r4"]).ok();
    assert_eq!(ready(), 0);
    assert_eq!((forgotten("reading:"), forgotten("contexts:")), (0, 0));
}

#[test]
fn removal_takes_one_off_containers_and_anonymous_volumes() {
    if !docker_is_there() {
        return;
    }
    let compose = |value: &str| {
        format!(
            "services:\n  app:\n    image: busybox:stable\n    command: [sleep, infinity]\n    init: true\n    \
             stop_grace_period: 0s\n    environment: {{A: '{value}'}}\n    volumes: [/cache, 'kept:/kept']\nvolumes: {{kept: {{}}}}\n"
        )
    };
    let world = World::with(&[
        ("sidestack.yaml", "sidestack: 1\nworkspace: @workspace@\ncompose: compose.yaml\n"),
        ("compose.yaml", &compose("1")),
    ]);
    world.run(["up"]).ok();
    // From the second container on Compose attaches the anonymous volume by its name.
    world.write("compose.yaml", &compose("2"));
    world.run(["up"]).ok();
    let project = world.project("main");
    let mounts = docker(&["inspect", "-f", "{{range .Mounts}}{{.Name}} {{end}}", &format!("{project}-app-1")]).ok();
    let anonymous = mounts.stdout.split_whitespace().find(|name| name.len() == 64).unwrap().to_owned();
    let tree = world.home().join("trees").join(&project);
    let run_once = || {
        let file = tree.join("compose.yaml");
        docker(&["compose", "-p", &project, "-f", file.to_str().unwrap(), "run", "-d", "app", "sleep", "600"]).ok();
    };
    run_once();
    world.run(["down"]).ok();
    assert!(world.leftovers().iter().all(|left| left.starts_with("volume")), "{:?}", world.leftovers());
    world.run(["up"]).ok();
    run_once();
    world.run(["rm"]).ok();
    assert_eq!(world.leftovers().len(), 1, "{:?}", world.leftovers());
    assert_ne!(docker(&["volume", "inspect", &anonymous]).code, 0, "{anonymous} is still there");
}
