//! Somebody else's compose files, each in two copies at once: pages, data and addresses are each copy's own.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use sidestack_tests::{COPIES, Copies, containers, docker, docker_is_there, get, stack};

/// A page of its own that counts in both stores, in what the database's image has.
const COUNTER: &str = r#"use strict; use warnings; use IO::Socket::INET;
$SIG{TERM} = sub { exit 0 };
my $server = IO::Socket::INET->new(LocalPort => 8080, Listen => 9, ReuseAddr => 1) or die $!;
while (my $client = $server->accept) {
    while (my $line = <$client>) { last if $line =~ /^\r?\n$/ }
    my $rows = `psql -qAtc "INSERT INTO hits DEFAULT VALUES; SELECT count(*) FROM hits" 2>&1`;
    my $cache = IO::Socket::INET->new("cache:6379") or die $!;
    print $cache "INCR hits\r\n";
    my $hits = <$cache>;
    $hits =~ s/[:\s]//g;
    print $client "HTTP/1.0 200 OK\r\n\r\nrows ${rows}hits $hits\n";
    close $client;
}
"#;

const WITH_STORES: &str = r#"services:
  web:
    image: postgres:17
    entrypoint: ["perl", "/srv/counter.pl"]
    stop_grace_period: 0s
    ports: ["14010:8080"]
    volumes: ["./web:/srv:ro"]
    environment: {PGHOST: db, PGUSER: shop, PGPASSWORD: "${PASSWORD}", PGDATABASE: shop}
    depends_on:
      db: {condition: service_healthy}
      cache: {condition: service_started}
  db:
    image: postgres:17
    stop_grace_period: 1s
    ports: ["15432:5432"]
    environment: {POSTGRES_USER: shop, POSTGRES_PASSWORD: "${PASSWORD}", POSTGRES_DB: shop}
    volumes:
      - data:/var/lib/postgresql/data
      - ./init.sql:/docker-entrypoint-initdb.d/init.sql:ro
    healthcheck: {test: ["CMD-SHELL", "pg_isready -U shop -h 127.0.0.1"], interval: 1s, retries: 30}
  cache:
    image: redis:7
    stop_grace_period: 1s
    command: ["redis-server", "--save", "", "--appendonly", "yes"]
    volumes: ["cache:/data"]
volumes: {data: {name: shop-data}, cache: {}}
"#;

#[test]
fn a_web_service_with_a_database_and_a_cache() {
    if !docker_is_there() {
        return;
    }
    let copies = Copies::up(&[
        ("compose.yaml", WITH_STORES),
        ("web/counter.pl", COUNTER),
        ("init.sql", "CREATE TABLE hits (n serial PRIMARY KEY);\n"),
        (".env", "PASSWORD=correct horse\n"),
    ]);
    for hit in 1..=3 {
        assert_eq!(copies.get("main", "web", "/"), format!("rows {hit}\nhits {hit}"));
    }
    assert_eq!(copies.get("two", "web", "/"), "rows 1\nhits 1", "the other copy counts by itself");
    // Data outlives the containers.
    copies.world.run(["down", "main"]).ok();
    copies.world.run(["up", "main", "--no-own-ports"]).ok();
    assert_eq!(copies.get("main", "web", "/"), "rows 4\nhits 4");
    assert_eq!(copies.get("two", "web", "/"), "rows 2\nhits 2");
    copies.go_one_by_one(|copies, copy| {
        assert!(copies.get(copy, "web", "/").starts_with("rows "), "{copy}");
    });
}

const MIGRATED: &str = r#"services:
  migrate:
    image: busybox:stable
    command: ["sh", "-c", "sleep 0.3; echo 1 > /data/version"]
    volumes: ["data:/data"]
  seed:
    image: busybox:stable
    command: ["sh", "-c", "test -s /data/version && echo seeded > /data/seed"]
    volumes: ["data:/data"]
    depends_on: {migrate: {condition: service_completed_successfully}}
  web:
    image: busybox:stable
    command: ["sh", "-c", "test -s /data/version && test -s /data/seed && exec httpd -f -p 8080 -h /data"]
    stop_grace_period: 0s
    ports: ["14020:8080"]
    volumes: ["data:/data"]
    depends_on:
      migrate: {condition: service_completed_successfully}
      seed: {condition: service_completed_successfully}
      absent: {condition: service_started, required: false}
  absent:
    image: busybox:stable
    profiles: [never]
    command: ["false"]
  # Nothing waits for it, and it may end.
  banner:
    image: busybox:stable
    command: ["echo", "welcome"]
volumes: {data: {}}
"#;

#[test]
fn a_migration_before_the_application() {
    if !docker_is_there() {
        return;
    }
    let copies = Copies::up(&[("compose.yaml", MIGRATED)]);
    for copy in COPIES {
        assert_eq!(copies.get(copy, "web", "/version"), "1", "{copy}: the migration came before the application");
        assert_eq!(copies.get(copy, "web", "/seed"), "seeded");
    }
    // What is done is done: nothing runs again, and nothing is changed.
    let before = copies.container("main", "migrate");
    let again = copies.world.run(["up", "main", "--no-own-ports", "--json"]).ok().json();
    assert_eq!(again["changed"], false, "{again:#}");
    assert_eq!(copies.container("main", "migrate"), before);
    copies.exec("main", "web", &["sh", "-c", "echo 7 > /data/version"]);
    assert_eq!(copies.get("two", "web", "/version"), "1");
    copies.go_one_by_one(|copies, copy| {
        assert_eq!(copies.get(copy, "web", "/version"), if copy == "main" { "7" } else { "1" });
    });
}

const FAILING: &str = r#"services:
  migrate: {image: "busybox:stable", command: ["sh", "-c", "echo no such column; exit 3"]}
  web:
    image: busybox:stable
    command: @httpd@
    depends_on: {migrate: {condition: service_completed_successfully}}
"#;

#[test]
fn an_application_is_not_started_on_a_failed_migration() {
    if !docker_is_there() {
        return;
    }
    let world = stack(&[("compose.yaml", FAILING)]);
    world.run(["up"]).exits(7).says("migrate").says("3");
    let described = world.run(["describe", "main", "--json"]).ok().json();
    let state = |name: &str| {
        let services = described["services"].as_array().unwrap();
        services.iter().find(|service| service["name"] == name).unwrap()["state"].clone()
    };
    assert_ne!(state("web"), "running", "{described:#}");
    world.run(["rm", "main", "--volumes"]).ok();
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

const REPLICAS: &str = r#"services:
  web:
    image: busybox:stable
    command: @httpd@
    stop_grace_period: 0s
    deploy: {replicas: 3}
    ports: ["14030-14032:8080"]
  api:
    image: busybox:stable
    command: @httpd@
    stop_grace_period: 0s
    scale: 2
    ports: ["8080"]
"#;

#[test]
fn replicas_have_a_port_each() {
    if !docker_is_there() {
        return;
    }
    let copies = Copies::up(&[("compose.yaml", REPLICAS)]);
    let hosts = |copy: &str, service: &str| -> Vec<String> {
        let described = copies.world.run(["describe", copy, "--json"]).ok().json();
        let services = described["services"].as_array().unwrap();
        let service = services.iter().find(|found| found["name"] == service).unwrap();
        service["addresses"].as_array().unwrap().iter().map(|at| at["host"].as_str().unwrap().to_owned()).collect()
    };
    let mut all = BTreeSet::new();
    for copy in COPIES {
        let plan = copies.world.run(["plan", copy]).ok().stdout;
        for (service, replicas) in [("web", 3), ("api", 2)] {
            let hosts = hosts(copy, service);
            assert_eq!(hosts.len(), replicas, "{copy} {service}: {hosts:?}");
            assert!(hosts.iter().all(|host| plan.contains(host)), "{copy} {service}: {hosts:?} in\n{plan}");
            let answers: BTreeSet<String> = hosts.iter().map(|host| get(host, "/id")).collect();
            assert_eq!(answers.len(), replicas, "{copy} {service}: each replica has an address");
            all.extend(hosts);
            all.extend(answers);
        }
    }
    assert_eq!(all.len(), 20, "no address and no container is in both copies");
    copies.go_one_by_one(|copies, copy| assert_eq!(copies.get(copy, "web", "/id").len(), 12));
}

const INCLUDING: &str = r#"include: [parts/cache.yaml]
services:
  web:
    extends: {file: parts/base.yaml, service: base}
    ports: ["14080:8080"]
    environment: {ROLE: web}
    depends_on: [cache]
  worker:
    extends: {service: web}
    ports: !reset []
    environment: {ROLE: worker}
"#;
const INCLUDED: &str = r#"services:
  cache:
    image: busybox:stable
    command: @httpd@
    stop_grace_period: 0s
    container_name: the-cache
    ports: ["14081:8080"]
    environment: {FROM: "${FROM:-nowhere}"}
    volumes: ["./files:/files:ro", "kept:/kept"]
volumes: {kept: {name: kept-by-name}}
"#;
const EXTENDED: &str = r#"services:
  base:
    image: busybox:stable
    command: @httpd@
    stop_grace_period: 0s
    environment: {LEVEL: base, ROLE: base, CACHE: "http://localhost:14081"}
    volumes: ["./files:/base:ro"]
"#;

#[test]
fn includes_and_extends() {
    if !docker_is_there() {
        return;
    }
    let copies = Copies::up(&[
        ("compose.yaml", INCLUDING),
        ("compose.override.yaml", "services: {web: {environment: {OVERRIDDEN: \"yes\"}}}\n"),
        ("parts/cache.yaml", INCLUDED),
        ("parts/base.yaml", EXTENDED),
        ("parts/.env", "FROM=parts\n"),
        ("parts/files/note", "beside the part\n"),
    ]);
    for copy in COPIES {
        let (web, cache) = (copies.env(copy, "web"), copies.env(copy, "cache"));
        assert_eq!((web["LEVEL"].as_str(), web["ROLE"].as_str()), ("base", "web"));
        assert_eq!(web["OVERRIDDEN"], "yes");
        assert_eq!(
            web["CACHE"],
            format!("http://{}", copies.world.address(copy, "cache", 8080)).replace("127.0.0.1", "localhost")
        );
        assert_eq!(cache["FROM"], "parts", "the part has its own .env");
        assert_eq!(copies.exec(copy, "web", &["cat", "/base/note"]), "beside the part");
        assert_eq!(copies.exec(copy, "cache", &["cat", "/files/note"]), "beside the part");
        assert_eq!(copies.exec(copy, "worker", &["sh", "-c", "echo $ROLE"]), "worker");
        assert!(copies.container(copy, "worker").published.is_empty());
    }
    copies.exec("main", "cache", &["sh", "-c", "echo mine > /kept/it"]);
    assert_ne!(copies.try_exec("two", "cache", &["cat", "/kept/it"]).code, 0, "the volume is each copy's own");
    copies.go_one_by_one(|copies, copy| {
        // The old name means the copy's own container.
        let id = copies.get(copy, "cache", "/id");
        assert_eq!(copies.exec(copy, "web", &["wget", "-qO-", "http://the-cache:8080/id"]), id);
    });
}

const PROFILED: &str = r#"services:
  web:
    image: busybox:stable
    command: @httpd@
    stop_grace_period: 0s
    ports: ["14090:8080"]
  debug:
    image: busybox:stable
    command: @httpd@
    stop_grace_period: 0s
    ports: ["14091:8080"]
    profiles: [debug, all]
    depends_on: [tracer]
  tracer:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    profiles: [tracing]
  never:
    image: busybox:stable
    command: ["sleep", "1000000"]
    profiles: [never]
"#;

#[test]
fn profiles() {
    if !docker_is_there() {
        return;
    }
    let copies = Copies { world: stack(&[("compose.yaml", PROFILED)]) };
    let services = |copy: &str| -> Vec<String> { containers(&copies.world.project(copy)).into_keys().collect() };
    copies.world.run(["up", "--no-own-ports"]).ok();
    assert_eq!(services("main"), ["web"]);
    // A profile brings what it needs, as Compose would with `--profile debug --profile tracing`.
    copies.world.run(["up", "--new", "two", "--profile", "debug", "--profile", "tracing"]).ok();
    assert_eq!(services("two"), ["debug", "tracer", "web"]);
    assert_ne!(copies.get("main", "web", "/id"), copies.get("two", "web", "/id"));
    assert!(!copies.get("two", "debug", "/id").is_empty());
    copies.go_one_by_one(|copies, copy| assert_eq!(copies.get(copy, "web", "/id").len(), 12));
}

const BUILT: &str = r#"services:
  web:
    image: shop/web:latest
    build: {context: ./web, args: {LEVEL: "1"}}
    stop_grace_period: 0s
    ports: ["14200:8080"]
  worker:
    # Named by its tag, and never built here.
    image: shop/web:latest
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    depends_on: [web]
"#;
const DOCKERFILE: &str = "FROM busybox:stable
ARG LEVEL
COPY page /www/page
RUN echo level $LEVEL > /www/level
CMD [\"httpd\", \"-f\", \"-p\", \"8080\", \"-h\", \"/www\"]
";

#[test]
fn an_image_of_one_name_that_each_copy_builds_for_itself() {
    if !docker_is_there() {
        return;
    }
    let world = stack(&[
        ("compose.yaml", BUILT),
        ("web/Dockerfile", DOCKERFILE),
        ("web/page", "first\n"),
        (".dockerignore", ""),
    ]);
    world.run(["up", "--no-own-ports"]).ok();
    world.write("web/page", "second\n");
    world.run(["up", "--new", "two"]).ok();
    let copies = Copies { world };
    let page = |copy: &str| copies.get(copy, "web", "/page");
    assert_eq!((page("main"), page("two")), ("first".into(), "second".into()));
    for copy in COPIES {
        assert_eq!(copies.get(copy, "web", "/level"), "level 1");
        let (web, worker) = (copies.inspect(copy, "web"), copies.inspect(copy, "worker"));
        assert_eq!(web["Image"], worker["Image"], "{copy}: who names the image gets what the copy built");
    }
    assert_ne!(copies.inspect("main", "web")["Image"], copies.inspect("two", "web")["Image"]);
    // The name of the file is nobody's.
    assert_ne!(docker(&["image", "inspect", "shop/web:latest"]).code, 0, "the name in the file was written");
    // `main` moves to what the folder has now.
    copies.world.run(["up", "main", "--no-own-ports"]).ok();
    assert_eq!(page("main"), "second");
    copies.go_one_by_one(|copies, copy| assert_eq!(copies.get(copy, "web", "/page"), "second"));
}

const CODE: &str = r#"services:
  web:
    image: busybox:stable
    command: ["httpd", "-f", "-p", "8080", "-h", "/www"]
    stop_grace_period: 0s
    ports: ["14300:8080"]
    volumes: ["./src:/www:ro"]
  built:
    build: ./app
    stop_grace_period: 0s
    ports: ["14301:8080"]
"#;

#[test]
fn every_work_tree_serves_its_own_code() {
    if !docker_is_there() {
        return;
    }
    let world = stack(&[
        ("compose.yaml", CODE),
        ("src/page", "main's source\n"),
        (
            "app/Dockerfile",
            "FROM busybox:stable\nCOPY page /www/page\nCMD [\"httpd\", \"-f\", \"-p\", \"8080\", \"-h\", \"/www\"]\n",
        ),
        ("app/page", "main's build\n"),
    ]);
    let git = |folder: &Path, words: &[&str]| {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"];
        let output = Command::new("git").args(identity).args(words).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    git(&world.folder(), &["init", "-q"]);
    git(&world.folder(), &["add", "."]);
    git(&world.folder(), &["commit", "-qm", "one"]);
    let other = world.root().join("feature");
    git(&world.folder(), &["worktree", "add", "-q", "-b", "feature", &other.display().to_string()]);
    std::fs::write(other.join("src/page"), "feature's source\n").unwrap();
    std::fs::write(other.join("app/page"), "feature's build\n").unwrap();
    let folders = [world.folder(), other];
    for folder in &folders {
        world.run_in(folder, ["up", "--no-own-ports"]).ok();
    }
    let page = |folder: &Path, service: &str| {
        let described = world.run_in(folder, ["describe", "--json"]).ok().json();
        let services = described["services"].as_array().unwrap();
        let service = services.iter().find(|found| found["name"] == service).unwrap();
        get(service["addresses"][0]["host"].as_str().unwrap(), "/page")
    };
    let all = || folders.each_ref().map(|folder| [page(folder, "web"), page(folder, "built")]);
    assert_eq!(all(), [["main's source", "main's build"], ["feature's source", "feature's build"]]);
    // An edit is seen where it is made; a build again is that of its own folder.
    std::fs::write(folders[1].join("src/page"), "edited\n").unwrap();
    std::fs::write(folders[0].join("app/page"), "built again\n").unwrap();
    for folder in &folders {
        world.run_in(folder, ["up", "--no-own-ports"]).ok();
    }
    assert_eq!(all(), [["main's source", "built again"], ["edited", "feature's build"]]);
    world.run_in(&folders[0], ["rm", "--volumes"]).ok();
    assert_eq!([page(&folders[1], "web"), page(&folders[1], "built")], ["edited", "feature's build"]);
    world.run_in(&folders[1], ["rm", "--volumes"]).ok();
    assert_eq!(world.leftovers(), Vec::<String>::new());
}
