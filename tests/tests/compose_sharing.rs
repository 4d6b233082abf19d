//! What a compose file shares with the machine: the first copy runs as it is, a second one asks first.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use sidestack_state::Store;
use sidestack_tests::{
    COPIES, Copies, Ran, Recorder, RemovedObject, World, containers, docker, docker_is_there, inspect, stack,
};

/// A refusal: its exit code, and its code in the JSON.
#[track_caller]
fn refused(world: &World, words: &[&str], exit: i32, code: &str) -> Ran {
    let ran = world.run([words, &["--json"]].concat()).exits(exit);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(answer["error"]["code"], code, "{answer:#}");
    world.run(words).exits(exit)
}

fn instances(world: &World) -> Vec<String> {
    let listed = world.run(["ls", "--json"]).ok().json();
    let rows = listed["instances"].as_array().unwrap();
    rows.iter().map(|row| row["instance"].as_str().unwrap().to_owned()).collect()
}

/// The containers in a network, by name.
fn members(network: &str) -> BTreeSet<String> {
    let all = inspect("network", network)["Containers"].clone();
    all.as_object().unwrap().values().map(|one| one["Name"].as_str().unwrap().to_owned()).collect()
}

const EDGE: &str = r#"services:
  web:
    image: busybox:stable
    command: @httpd@
    stop_grace_period: 0s
    ports: ["14050:8080"]
    networks: [edge]
  db:
    image: busybox:stable
    command: @httpd@
    stop_grace_period: 0s
    networks: [edge]
networks: {edge: {external: true, name: "@workspace@-edge"}}
"#;

#[test]
fn an_external_network() {
    if !docker_is_there() {
        return;
    }
    let copies = Copies { world: stack(&[("compose.yaml", EDGE)]) };
    let world = &copies.world;
    let name = format!("{}-edge", world.workspace);
    // Without it nothing is begun.
    refused(world, &["up", "--no-own-ports"], 3, "external-missing").says(&name).says("docker network create");
    assert_eq!(world.leftovers(), Vec::<String>::new());
    let edge = RemovedObject::create("network", &[], &name);
    world.run(["up", "--no-own-ports"]).ok().says("external").says("--share edge").says("--create edge");
    assert_eq!(members(&edge.name).len(), 2, "the first copy stands in it, as under Compose");

    // A second one would answer to the same names in it.
    refused(world, &["up", "--new", "two"], 5, "needs-choice").says("--share edge").says("--create edge");
    assert_eq!(instances(world), ["main"], "what was refused left no trace");
    assert_eq!(members(&edge.name).len(), 2);
    world.run(["up", "--new", "two", "--share", "nothing"]).exits(2).says("nothing");
    world.run(["up", "--new", "two", "--copy", "edge"]).exits(2).says("--create edge");

    world.run(["up", "--new", "two", "--create", "edge"]).ok();
    assert_eq!(members(&edge.name).len(), 2, "the second copy has a network of its own");
    let id = |copy: &str, name: &str| copies.exec(copy, "web", &["wget", "-qO-", &format!("http://{name}:8080/id")]);
    for copy in COPIES {
        assert_eq!(id(copy, "db"), copies.container(copy, "db").id[..12], "{copy}");
    }
    // It was said for the environment: a plain `up` means the same.
    let again = world.run(["up", "two", "--json"]).ok().json();
    assert_eq!(again["changed"], false, "{again:#}");
    world.run(["up", "main", "--no-own-ports"]).ok();
    assert_eq!(members(&edge.name).len(), 0);
    // And taken back by the other choice.
    world.run(["up", "--new", "three", "--share", "edge"]).ok();
    assert_eq!(members(&edge.name).len(), 2);
    world.run(["rm", "three", "--volumes"]).ok();
    copies.go_one_by_one(|copies, copy| assert_eq!(copies.get(copy, "web", "/id").len(), 12));
    assert_eq!(members(&edge.name), BTreeSet::new(), "it is still there");
}

#[test]
fn of_two_that_begin_at_once_one_is_refused() {
    if !docker_is_there() {
        return;
    }
    let world = stack(&[("compose.yaml", EDGE)]);
    let edge = RemovedObject::create("network", &[], &format!("{}-edge", world.workspace));
    world.run(["plan"]).ok();
    let mut codes = std::thread::scope(|scope| {
        let both =
            ["one", "two"].map(|name| (name, scope.spawn(|| world.run(["up", "--new", name, "--no-own-ports"]))));
        both.map(|(name, ran)| (ran.join().unwrap().code, name))
    });
    codes.sort_unstable();
    assert_eq!(codes.map(|(code, _)| code), [0, 5]);
    assert_eq!(members(&edge.name).len(), 2);
    assert_eq!(instances(&world), [codes[0].1]);
    world.run(["rm", codes[0].1, "--volumes"]).ok();
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

const ISOLATION: &str = "sidestack: 1
workspace: @workspace@
compose: compose.yaml
isolation:
  networks: {edge: {share: [web]}}
";

#[test]
fn an_external_network_for_services_at_the_edge() {
    if !docker_is_there() {
        return;
    }
    let world = stack(&[("compose.yaml", EDGE), ("sidestack.yaml", ISOLATION)]);
    let edge = RemovedObject::create("network", &[], &format!("{}-edge", world.workspace));
    world.run(["up", "--no-own-ports"]).ok();
    world.run(["up", "--new", "two"]).ok();
    let copies = Copies { world };
    let webs = COPIES.map(|copy| copies.container(copy, "web").name);
    assert_eq!(members(&edge.name), webs.into(), "those that were named stand in it, and no other");
    copies.go_one_by_one(|copies, copy| {
        let db = copies.container(copy, "db").id[..12].to_owned();
        for _ in 0..4 {
            assert_eq!(copies.exec(copy, "web", &["wget", "-qO-", "http://db:8080/id"]), db, "{copy}: its own db");
        }
    });
    assert_eq!(members(&edge.name), BTreeSet::new());
}

const DATA: &str = r#"services:
  app:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    volumes: ["data:/data"]
volumes: {data: {external: true, name: "@workspace@-data"}}
"#;

#[test]
fn an_external_volume() {
    if !docker_is_there() {
        return;
    }
    let copies = Copies { world: stack(&[("compose.yaml", DATA)]) };
    let world = &copies.world;
    let name = format!("{}-data", world.workspace);
    refused(world, &["up"], 3, "external-missing").says(&name).says("docker volume create");
    let data = RemovedObject::create("volume", &[], &name);
    world.run(["up"]).ok().says("external").says("--share data").says("--copy data").says("--create data");
    let write = |copy: &str, text: &str| copies.exec(copy, "app", &["sh", "-c", &format!("echo {text} > /data/it")]);
    let read = |copy: &str| copies.try_exec(copy, "app", &["cat", "/data/it"]).stdout.trim().to_owned();
    write("main", "theirs");
    let refusal = refused(world, &["up", "--new", "two"], 5, "needs-choice");
    refusal.says("--share data").says("--copy data").says("--create data");
    // Also while the first one stands still: what is in it stays shared.
    world.run(["stop", "main"]).ok();
    refused(world, &["up", "--new", "two"], 5, "needs-choice");
    world.run(["start", "main"]).ok();
    assert_eq!(instances(world), ["main"]);

    world.run(["up", "--new", "two", "--create", "data"]).ok();
    assert_eq!(read("two"), "");
    write("two", "mine");
    assert_eq!((read("main"), read("two")), ("theirs".into(), "mine".into()));
    world.run(["up", "--new", "three", "--share", "data"]).ok();
    assert_eq!(read("three"), "theirs");
    world.run(["rm", "three", "--volumes"]).ok();
    assert_eq!(read("main"), "theirs", "what is external is nobody's to remove");
    // What `two` chose is its revision's, and `main` may change its mind as often as it likes.
    world.run(["restart", "-i", "two"]).ok();
    for (choice, seen) in [("--create", ""), ("--share", "theirs"), ("--create", ""), ("--share", "theirs")] {
        world.run(["up", "main", choice, "data"]).ok();
        assert_eq!(read("main"), seen, "after {choice}");
    }
    copies.go_one_by_one(|copies, copy| {
        let text = copies.exec(copy, "app", &["cat", "/data/it"]);
        assert_eq!(text, if copy == "main" { "theirs" } else { "mine" });
    });
    let kept = docker(&["run", "--rm", "-v", &format!("{}:/data", data.name), "busybox:stable", "cat", "/data/it"]);
    assert_eq!(kept.ok().stdout, "theirs\n");
}

#[test]
fn a_copy_of_an_external_volume() {
    if !docker_is_there() {
        return;
    }
    let copies = Copies { world: stack(&[("compose.yaml", DATA)]) };
    let world = &copies.world;
    let data = RemovedObject::create("volume", &[], &format!("{}-data", world.workspace));
    world.run(["up"]).ok();
    let write =
        "cd /data; echo theirs > it; chown 7:8 it; chmod 640 it; ln -s it link; mkdir -p a/b; echo deep > a/b/c";
    copies.exec("main", "app", &["sh", "-c", write]);
    // Data that somebody writes to just now would be torn.
    refused(world, &["up", "--new", "two", "--copy", "data"], 5, "volume-in-use").says(&world.project("main"));
    world.run(["stop", "main"]).ok();
    world.run(["up", "--new", "two", "--copy", "data"]).ok();
    let look = |copies: &Copies, copy: &str| {
        copies.exec(copy, "app", &["sh", "-c", "cd /data; cat link a/b/c; stat -c '%a %u %g' it"])
    };
    assert_eq!(look(&copies, "two"), "theirs\ndeep\n640 7 8");
    copies.exec("two", "app", &["sh", "-c", "echo mine > /data/it"]);
    // It begins with a copy, once.
    world.run(["down", "two"]).ok();
    world.run(["up", "two"]).ok();
    assert_eq!(look(&copies, "two"), "mine\ndeep\n640 7 8");
    // `main` runs on as it was, on what it had.
    world.run(["start", "main"]).ok();
    assert_eq!(look(&copies, "main"), "theirs\ndeep\n640 7 8");
    copies.go_one_by_one(|copies, copy| {
        assert!(look(copies, copy).starts_with(if copy == "main" { "theirs" } else { "mine" }), "{copy}");
    });
    let kept = docker(&["run", "--rm", "-v", &format!("{}:/data", data.name), "busybox:stable", "cat", "/data/it"]);
    assert_eq!(kept.ok().stdout, "theirs\n");
}

/// Whatever an `up` was killed in: what was written to a finished copy is never overwritten by a second one.
#[test]
fn a_copy_is_made_once_also_when_the_first_up_was_killed() {
    if !docker_is_there() {
        return;
    }
    let mut copies = Copies { world: stack(&[("compose.yaml", DATA)]) };
    let Some(recorder) = Recorder::listen(&copies.world.root().join("docker.sock")) else { return };
    copies.world.env.insert("DOCKER_HOST".into(), recorder.host());
    let data = RemovedObject::create("volume", &[], &format!("{}-data", copies.world.workspace));
    let fill = format!("{}:/data", data.name);
    docker(&["run", "--rm", "-v", &fill, "busybox:stable", "sh", "-c", "echo theirs > /data/it"]).ok();
    let read = |copies: &Copies| copies.exec("two", "app", &["cat", "/data/it"]);

    // Killed in the middle of the copy: what is there is torn, and made again.
    let up: &[&str] = &["up", "--new", "two", "--copy", "data"];
    let kill = |words: &[&str], request: &str| {
        recorder.hold(request);
        let command = copies.world.start(words);
        recorder.holds(Duration::from_secs(60));
        command.kill_all();
        recorder.forget();
    };
    kill(up, "/archive");
    // Killed when the copy is whole and its container was made, which somebody then starts by hand.
    kill(&["up", "two"], "/start");
    let made = containers(&copies.world.project("two"));
    docker(&["start", &made["app"].id]).ok();
    let written = docker(&["exec", &made["app"].id, "sh", "-c", "cat /data/it; echo mine > /data/it"]).ok();
    assert_eq!(written.stdout, "theirs\n");
    copies.world.run(["down", "two"]).ok();
    copies.world.run(["up", "two"]).ok();
    assert_eq!(read(&copies), "mine");
    // A new one begins as the first did.
    copies.world.run(["down", "two", "--volumes"]).ok();
    copies.world.run(["up", "two"]).ok();
    assert_eq!(read(&copies), "theirs");
    copies.world.run(["rm", "two", "--volumes"]).ok();
    assert_eq!(copies.world.leftovers(), Vec::<String>::new());
}

const WRITES: &str = r#"services:
  app:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    volumes: ["./data:/data", "./code:/code:ro"]
"#;

#[test]
fn copies_in_one_folder_are_told_what_both_write_to() {
    if !docker_is_there() {
        return;
    }
    let world = stack(&[("compose.yaml", WRITES), ("data/it", "x"), ("code/it", "x")]);
    let told = |ran: Ran| ran.ok().stderr.matches("both write to").count();
    assert_eq!(told(world.run(["up"])), 0, "it is alone");
    let second = world.run(["up", "--new", "two"]).ok().says("both write to `data`").says("main");
    assert!(!second.stderr.contains("code"), "{}", second.stderr);
    assert_eq!(told(world.run(["up", "two"])), 0, "it was told once");
}

const HOST_STATE: &str = r#"services:
  web:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    volumes:
      - /var/run/docker.sock:/var/run/docker.sock:ro
      - @outside@:/outside
  agent:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    pid: host
    ipc: host
"#;

#[test]
fn state_of_the_host() {
    if !docker_is_there() {
        return;
    }
    let world = stack(&[]);
    let outside = world.root().join("outside").display().to_string();
    let text = HOST_STATE.replace("@outside@", &outside);
    world.write("compose.yaml", &text);
    let copies = Copies { world };
    let world = &copies.world;
    let items = ["web:/var/run/docker.sock", &format!("web:{outside}"), "agent:ipc", "agent:pid"];
    // A look writes nothing.
    world.run(["trust"]).ok();
    assert!(Store::open(&world.home()).unwrap().workspaces().unwrap().is_empty());
    // The first copy runs with a warning for each.
    let mut first = world.run(["up"]).ok();
    for item in items {
        first = first.says(&format!("sidestack trust '{item}'"));
    }
    let listed = world.run(["trust"]).ok();
    for item in items {
        assert!(listed.stdout.contains(item), "{item} is not in\n{}", listed.stdout);
    }
    let refusal = refused(world, &["up", "--new", "two"], 5, "needs-consent");
    for item in items {
        assert!(refusal.stderr.contains(&format!("'{item}'")), "{item} is not named in\n{}", refusal.stderr);
    }
    assert_eq!(instances(world), ["main"]);
    // By its exact name, and one is not enough.
    world.run(["trust", "web:docker.sock"]).exits(3).says("web:/var/run/docker.sock");
    world.run(["trust", items[0], items[1], items[2]]).ok();
    refused(world, &["up", "--new", "two"], 5, "needs-consent").says("'agent:pid'");
    world.run(["trust", items[3]]).ok();
    world.run(["up", "--new", "two"]).ok();
    // A second time needs nothing more.
    world.run(["up", "two"]).ok();
    world.run(["up", "main"]).ok();

    // Consent was for these files. Other ones may do anything with what they are given.
    world.write("compose.yaml", &text.replacen("1000000", "1000001", 1));
    refused(world, &["up", "two"], 5, "needs-consent");
    world.run(["restart", "-i", "two"]).ok();
    world.write("compose.yaml", &text);
    world.run(["up", "two"]).ok();
    world.run(["trust", "--withdraw", items[2]]).ok();
    refused(world, &["up", "--new", "three"], 5, "needs-consent").says("'agent:ipc'");
    assert_eq!(containers(&world.project("two")).len(), 2);
    copies.go_one_by_one(|_, _| {});
    assert!(std::path::Path::new("/var/run/docker.sock").exists());
}

const BESIDE: &str = r#"services:
  web:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    volumes: ["../beside:/beside"]
"#;

#[test]
fn a_folder_of_the_repository_is_shared_by_copies_of_one_work_tree() {
    if !docker_is_there() {
        return;
    }
    let world = World::with(&[
        ("app/compose.yaml", BESIDE),
        ("app/sidestack.yaml", "sidestack: 1\nworkspace: @workspace@\ncompose: compose.yaml\n"),
        ("beside/it", "of the repository\n"),
    ]);
    let git = std::process::Command::new("git").args(["init", "-q"]).current_dir(world.folder()).status();
    assert!(git.unwrap().success());
    let run = |words: &[&str]| world.run_in(&world.folder().join("app"), words);
    run(&["up"]).ok().says("'web:../beside'");
    assert_eq!(run(&["exec", "web", "--", "cat", "/beside/it"]).ok().stdout, "of the repository\n");
    run(&["up", "--new", "two"]).exits(5).says("'web:../beside'");
    run(&["stop", "main"]).ok();
    run(&["up", "--new", "two"]).ok();
    run(&["start", "main"]).exits(5).says("'web:../beside'");
    run(&["trust", "web:../beside"]).ok();
    run(&["start", "main"]).ok();
    for copy in COPIES {
        run(&["rm", copy, "--volumes"]).ok();
    }
    assert_eq!(world.leftovers(), Vec::<String>::new());
    assert!(world.folder().join("beside/it").exists());
}

const LAN: &str = r#"services:
  web: {image: "busybox:stable", command: ["sleep", "1000000"], networks: [lan]}
  root: {image: "busybox:stable", command: ["sleep", "1000000"], privileged: true, uts: host, userns_mode: host}
networks: {lan: {driver: macvlan, driver_opts: {parent: eth0}, ipam: {config: [{subnet: 192.168.77.0/24}]}}}
"#;

#[test]
fn what_cannot_be_tried_here_is_told_by_the_plan() {
    if !docker_is_there() {
        return;
    }
    let world = stack(&[("compose.yaml", LAN)]);
    let mut told = world.run(["plan"]).ok().says("macvlan").says("only one copy");
    for item in ["root:privileged", "root:uts", "root:userns_mode"] {
        told = told.says(&format!("`sidestack trust '{item}'`"));
    }
    let plan = world.run(["plan", "--json"]).ok().json();
    let changed: Vec<&str> =
        plan["isolation"].as_array().unwrap().iter().filter_map(|change| change["path"].as_str()).collect();
    assert!(
        !changed.iter().any(|path| path.starts_with("/networks/lan/ipam")),
        "its addresses are the machine's: {changed:?}"
    );
    assert_eq!(world.leftovers(), Vec::<String>::new());
}
