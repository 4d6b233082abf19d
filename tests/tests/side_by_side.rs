//! Revisions and instances side by side must not meet, and a move in place must not move anything.

use std::fs;

use sidestack_tests::{World, containers, docker, docker_is_there, http_get, sql};

const MANIFEST: &str = "sidestack: 1
workspace: @workspace@
resources:
  db: {is: sql-database, engine: postgres@17, databases: [shop], settings: {max_connections: 50}}
  cache: redis
compose: compose.yaml
inject: {web: [db, cache]}
";

const COMPOSE: &str = r#"services:
  web:
    image: busybox:stable
    command: ["sh", "-c", "mkdir -p /www && echo \"$$GREETING\" > /www/index.html && exec httpd -f -p 8080 -h /www"]
    stop_grace_period: 0s
    ports: ["8080:8080"]
    environment:
      GREETING: one
      SIDESTACK_HOST:
  bystander:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
"#;

fn redis(world: &World, target: &str, words: &[&str]) -> String {
    let ran = world.run([&["exec", "-i", target, "cache", "--", "redis-cli"][..], words].concat()).ok();
    ran.stdout.trim().to_owned()
}

fn page(world: &World, target: &str) -> String {
    http_get(&world.address(target, "web", 8080), "/index.html").unwrap_or_default().trim().to_owned()
}

/// The files of a folder of the store, by name.
fn names(world: &World, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(world.home().join(folder)).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn two_revisions_and_three_instances_of_one_each_hold_their_own() {
    if !docker_is_there() {
        return;
    }
    let world = World::with(&[("sidestack.yaml", MANIFEST), ("compose.yaml", COMPOSE)]);
    world.run(["up"]).ok();
    world.run(["up", "@r1"]).ok();
    world.run(["up", "@r1", "--new", "third"]).ok();
    // The new revision changes a service and a setting of the database.
    world.write("compose.yaml", &COMPOSE.replace("GREETING: one", "GREETING: two"));
    world.write("sidestack.yaml", &MANIFEST.replace("max_connections: 50", "max_connections: 60"));
    let beside = world.run(["up", "--beside", "--json"]).ok().json();
    assert_eq!((&beside["instance"], &beside["revision"]), (&"r2".into(), &"r2".into()));

    let listed = world.run(["ls", "--json"]).ok().json();
    let rows = listed["instances"].as_array().unwrap();
    let of_r1 = rows.iter().filter(|row| row["revision"] == "r1").count();
    assert_eq!((rows.len(), of_r1), (4, 3), "{listed:#}");
    assert!(rows.iter().all(|row| row["state"] == "running"), "{listed:#}");
    let mut slots: Vec<_> = rows.iter().map(|row| row["slot"].as_u64().unwrap()).collect();
    slots.sort_unstable();
    slots.dedup();
    assert_eq!(slots.len(), 4, "each has a slot of its own");

    let instances = ["main", "r1", "third", "r2"];
    for instance in instances {
        sql(&world, instance, "shop", &format!("CREATE TABLE t (who text); INSERT INTO t VALUES ('{instance}')"));
        assert_eq!(redis(&world, instance, &["SET", "who", instance]), "OK");
    }
    for instance in instances {
        assert_eq!(sql(&world, instance, "shop", "SELECT string_agg(who, ',') FROM t"), instance);
        assert_eq!(redis(&world, instance, &["GET", "who"]), instance);
    }
    assert_eq!((page(&world, "main"), page(&world, "r2")), ("one".into(), "two".into()));
    for (instance, connections) in [("main", "50"), ("r2", "60")] {
        assert_eq!(sql(&world, instance, "shop", "SHOW max_connections"), connections);
    }

    // Plain Compose sees each as a project of its own.
    let projects = docker(&["compose", "ls", "--format", "json"]).ok().stdout;
    for instance in instances {
        let project = world.project(instance);
        assert!(projects.contains(&format!("\"{project}\"")), "{project} is not in {projects}");
        let services = docker(&["compose", "-p", &project, "ps", "--services"]).ok().stdout;
        for service in ["web", "bystander", "db", "cache"] {
            assert!(services.lines().any(|line| line == service), "{service} of {project} is not in {services}");
        }
    }

    // `main` moves in place: rows, address and host name stay, and only what changed is recreated.
    let others: Vec<_> = ["r1", "third", "r2"].map(|name| containers(&world.project(name))).into();
    let before = containers(&world.project("main"));
    let (address, database) = (world.address("main", "web", 8080), world.address("main", "db", 5432));
    world.run(["up", "main@r2"]).ok();
    let after = containers(&world.project("main"));
    for service in ["cache", "bystander"] {
        assert_eq!(before[service].identity(), after[service].identity(), "{service} did not change");
    }
    for service in ["web", "db"] {
        assert_ne!(before[service].id, after[service].id, "{service} changed");
    }
    assert_eq!(sql(&world, "main", "shop", "SELECT who FROM t"), "main");
    assert_eq!(sql(&world, "main", "shop", "SHOW max_connections"), "60");
    assert_eq!(redis(&world, "main", &["GET", "who"]), "main");
    assert_eq!((page(&world, "main"), world.address("main", "web", 8080)), ("two".into(), address));
    assert_eq!(world.address("main", "db", 5432), database);
    assert!(!before["web"].env["SIDESTACK_HOST"].is_empty());
    assert_eq!(before["web"].env["SIDESTACK_HOST"], after["web"].env["SIDESTACK_HOST"]);
    let now: Vec<_> = ["r1", "third", "r2"].map(|name| containers(&world.project(name))).into();
    assert_eq!(others, now, "the others were left alone");

    // Stopping one leaves the others untouched; data outlives `down`.
    world.run(["stop", "third"]).ok();
    assert!(containers(&world.project("third")).values().all(|c| c.status == "exited"));
    world.run(["down", "r1"]).ok();
    assert!(containers(&world.project("r1")).is_empty());
    assert_eq!(others[2], containers(&world.project("r2")));
    assert_eq!(after, containers(&world.project("main")));
    world.run(["up", "r1"]).ok();
    assert_eq!(sql(&world, "r1", "shop", "SELECT who FROM t"), "r1");

    for instance in instances {
        world.run(["rm", instance, "--volumes"]).ok();
    }
    assert_eq!(world.leftovers(), Vec::<String>::new());
    assert_eq!((names(&world, "trees"), names(&world, "locks")), (Vec::new(), Vec::new()));
}

const WITH_DATA: &str = r#"services:
  keeper:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    volumes: ["data:/data"]
volumes: {data: {}}
"#;

#[test]
fn removal_says_what_stays_and_the_next_of_that_name_takes_it_over() {
    if !docker_is_there() {
        return;
    }
    let world = World::with(&[("compose.yaml", WITH_DATA)]);
    let file = |world: &World| world.run(["exec", "keeper", "--", "cat", "/data/file"]);
    world.run(["up"]).ok();
    world.run(["exec", "keeper", "--", "sh", "-c", "echo kept > /data/file"]).ok();
    let removed = world.run(["rm"]).ok();
    let volume = format!("{}_data", world.project("main"));
    assert!(format!("{}{}", removed.stdout, removed.stderr).contains(&volume), "{removed:?}");
    assert_eq!(world.leftovers(), [format!("volume {volume}")]);

    world.run(["up"]).ok().says("takes over");
    assert_eq!(file(&world).ok().stdout, "kept\n");
    let removed = world.run(["rm", "--json"]).ok().json();
    assert_eq!(removed["kept"], serde_json::json!([volume]));

    let fresh = world.run(["up", "--fresh"]).ok();
    assert!(!fresh.stderr.contains("takes over"), "{}", fresh.stderr);
    assert_ne!(file(&world).code, 0, "the fresh one has data");
    world.run(["rm", "--volumes"]).ok();
    // What the first one left is not lost by this, and not hidden either.
    let left = world.leftovers();
    assert!(left.is_empty() || left == [format!("volume {volume}")], "{left:?}");
}
