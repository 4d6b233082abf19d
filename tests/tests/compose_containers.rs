//! What containers of somebody else's compose file have of each other, of files and of the environment, in two copies at once.

use std::collections::BTreeMap;

use sidestack_tests::{COPIES, Copies, HTTPD, Hunt, docker_is_there, stack};

const JOINED: &str = r#"services:
  web:
    image: busybox:stable
    command: @httpd@
    stop_grace_period: 0s
    ipc: shareable
    ports: ["14110:8080", "14111:9090"]
  sidecar:
    image: busybox:stable
    command: ["sh", "-c", "mkdir -p /www && cd /www && wget -qO- http://localhost:8080/id > seen && exec httpd -f -p 9090"]
    stop_grace_period: 0s
    restart: on-failure
    network_mode: service:web
  watcher:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    pid: service:web
    ipc: service:web
  by-name:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    network_mode: container:the-web-container
    volumes_from: [named]
  named:
    image: busybox:stable
    container_name: the-named
    command: ["sh", "-c", "hostname > /shared/id; exec sleep 1000000"]
    stop_grace_period: 0s
    volumes: ["/shared"]
"#;

#[test]
fn namespaces_of_other_services() {
    if !docker_is_there() {
        return;
    }
    let joined = JOINED.replace("    ipc: shareable\n", "    ipc: shareable\n    container_name: the-web-container\n");
    let copies = Copies::up(&[("compose.yaml", &joined)]);
    for copy in COPIES {
        let id = copies.get(copy, "web", "/id");
        let seen = sidestack_tests::get(&copies.world.address(copy, "web", 9090), "/seen");
        assert_eq!(seen, id, "{copy}: the sidecar stands in its own copy's network");
        assert_eq!(copies.exec(copy, "by-name", &["wget", "-qO-", "http://localhost:8080/id"]), id);
        let processes = copies.exec(copy, "watcher", &["ps"]);
        assert!(processes.contains("httpd -f -p 8080"), "{copy}: {processes}");
        let of = |service: &str, key: &str| copies.inspect(copy, service)["HostConfig"][key].clone();
        let web = format!("container:{}", copies.container(copy, "web").id);
        for (service, key) in [("watcher", "PidMode"), ("watcher", "IpcMode"), ("sidecar", "NetworkMode")] {
            assert_eq!(of(service, key), web.as_str(), "{copy} {service} {key}");
        }
        let named = copies.exec(copy, "named", &["cat", "/shared/id"]);
        assert_eq!(copies.exec(copy, "by-name", &["cat", "/shared/id"]), named);
    }
    let together = |copies: &Copies| {
        let id = copies.get("main", "web", "/id");
        for service in ["sidecar", "by-name"] {
            assert_eq!(copies.exec("main", service, &["wget", "-qO-", "http://localhost:8080/id"]), id, "{service}");
        }
        assert!(copies.exec("main", "watcher", &["ps"]).contains("httpd -f -p 8080"));
    };
    for words in [&["restart", "-i", "main"][..], &["restart", "-i", "main", "web"]] {
        copies.world.run(words).ok();
        together(&copies);
    }
    // Whoever stands in a container that is made anew follows it.
    copies.world.write(
        "compose.yaml",
        &joined.replace("ipc: shareable", "ipc: shareable\n    environment: {NEW: \"1\"}").replace("@httpd@", HTTPD),
    );
    copies.world.run(["up", "main", "--no-own-ports"]).ok();
    assert_eq!(copies.env("main", "web")["NEW"], "1");
    together(&copies);
    copies.go_one_by_one(|copies, copy| {
        assert_eq!(
            copies.exec(copy, "sidecar", &["wget", "-qO-", "http://localhost:8080/id"]),
            copies.get(copy, "web", "/id")
        );
    });
}

const NAMED: &str = r#"services:
  web:
    image: busybox:stable
    container_name: shop-web
    hostname: web-host
    command: @httpd@
    stop_grace_period: 0s
    ports: ["14130:8080"]
    environment: {DB: "tcp://shop-db:8080"}
    links: ["db:database", "shop-cache"]
    networks: [front, back]
  db:
    image: busybox:stable
    container_name: shop-db
    command: @httpd@
    stop_grace_period: 0s
    networks: {back: {aliases: [store]}}
  shop-cache:
    image: busybox:stable
    command: @httpd@
    stop_grace_period: 0s
    networks: [back]
networks: {front: {name: shop-front}, back: {name: shop-back, driver_opts: {com.docker.network.bridge.name: br-shop}}}
"#;

#[test]
fn fixed_names_and_links() {
    if !docker_is_there() {
        return;
    }
    let copies = Copies::up(&[("compose.yaml", NAMED)]);
    let mut ids = Vec::new();
    for copy in COPIES {
        let own = |service: &str| copies.container(copy, service).id[..12].to_owned();
        let at = |name: &str| copies.exec(copy, "web", &["wget", "-qO-", &format!("http://{name}:8080/id")]);
        for name in ["db", "shop-db", "database", "store"] {
            assert_eq!(at(name), own("db"), "{copy}: {name}");
        }
        assert_eq!(at("shop-cache"), own("shop-cache"));
        assert_eq!(at("shop-web"), "web-host");
        assert_eq!(copies.exec(copy, "db", &["wget", "-qO-", "http://shop-web:8080/id"]), "web-host");
        ids.push(own("db"));
    }
    assert_ne!(ids[0], ids[1]);
    copies.go_one_by_one(|copies, copy| assert_eq!(copies.get(copy, "web", "/id"), "web-host"));
}

const FILES: &str = r#"services:
  app:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    configs:
      - inline
      - {source: inline, target: /etc/app/inline.conf, mode: 0440, uid: "7", gid: "8"}
      - {source: from-file, target: /etc/app/file.conf}
      - {source: from-env, target: /etc/app/env.conf}
    secrets:
      - from-env
      - {source: from-env, target: renamed, mode: 0400}
      - from-file
configs:
  inline: {content: "project ${COMPOSE_PROJECT_NAME:-none}\nprice $$5 ${COLOUR}\n"}
  from-file: {file: ./app.conf, name: app-conf-by-name}
  from-env: {environment: COLOUR}
secrets:
  from-env: {environment: API_TOKEN}
  from-file: {file: ./token.txt}
"#;

#[test]
fn configs_and_secrets_of_every_kind() {
    if !docker_is_there() {
        return;
    }
    let token = "tok-5f1c$HOME'\"#é";
    let mut world = stack(&[("compose.yaml", FILES), ("app.conf", "a = $b\n"), ("token.txt", "from a file")]);
    world.env = BTreeMap::from([("API_TOKEN".into(), token.into()), ("COLOUR".into(), "ultramarine".into())]);
    world.run(["up"]).ok();
    world.env.insert("COLOUR".into(), "vermilion".into());
    world.run(["up", "--new", "two"]).ok();
    let copies = Copies { world };
    for (copy, colour) in [("main", "ultramarine"), ("two", "vermilion")] {
        let read = |path: &str| copies.try_exec(copy, "app", &["cat", path]).ok().stdout;
        let inline = format!("project {}\nprice $5 {colour}\n", copies.world.project(copy));
        assert_eq!(read("/inline"), inline);
        assert_eq!(read("/etc/app/inline.conf"), inline);
        assert_eq!(copies.exec(copy, "app", &["stat", "-c", "%a %u %g", "/etc/app/inline.conf"]), "440 7 8");
        assert_eq!(read("/etc/app/file.conf"), "a = $b\n");
        assert_eq!(read("/etc/app/env.conf"), colour);
        assert_eq!(read("/run/secrets/from-env"), token);
        assert_eq!(read("/run/secrets/renamed"), token);
        assert_eq!(copies.exec(copy, "app", &["stat", "-c", "%a", "/run/secrets/renamed"]), "400");
        assert_eq!(read("/run/secrets/from-file"), "from a file");
    }
    copies.go_one_by_one(|copies, copy| {
        let again = copies.try_exec(copy, "app", &["cat", "/run/secrets/from-env"]).ok();
        assert_eq!(again.stdout, token);
    });
}

const WITH_ENV_FILE: &str = r#"services:
  app:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    env_file:
      - ./secrets.env
      - {path: ./missing.env, required: false}
    environment:
      DATABASE_URL: "postgres://shop:${DB_PASSWORD}@db/shop"
      LEVEL: debug
  bystander:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
"#;

#[test]
fn secrets_of_an_env_file_are_in_their_container_alone() {
    if !docker_is_there() {
        return;
    }
    let canary = |name: &str| format!("cnry-{name}-{}", std::process::id());
    let (file, dotenv, second) = (canary("file/$x'#&%"), canary("dotenv"), canary("second"));
    let env_file = |value: &str| format!("API_TOKEN='{}'\nPLAIN=in the open\n", value.replace('\'', "\\'"));
    let world = stack(&[
        ("compose.yaml", WITH_ENV_FILE),
        ("secrets.env", &env_file(&file)),
        (".env", &format!("DB_PASSWORD={dotenv}\n")),
    ]);
    let hunt = Hunt::new(&[&file, &dotenv, &second]);
    let mut said = Vec::new();
    said.push(world.run(["plan"]).ok());
    said.push(world.run(["up", "-v"]).ok());
    // The second copy is of the folder as it is by then.
    world.write("secrets.env", &env_file(&second));
    said.push(world.run(["up", "--new", "two", "-v"]).ok());
    let copies = Copies { world };
    for (copy, token) in [("main", &file), ("two", &second)] {
        let env = copies.container(copy, "app").env;
        assert_eq!(env["API_TOKEN"], *token, "{copy}");
        assert_eq!(env["DATABASE_URL"], format!("postgres://shop:{dotenv}@db/shop"));
        assert_eq!((env["PLAIN"].as_str(), env["LEVEL"].as_str()), ("in the open", "debug"));
        let inside = copies.try_exec(copy, "app", &["cat", "/proc/1/environ"]).ok().stdout;
        assert!(inside.split('\0').any(|line| line == format!("API_TOKEN={token}")), "{copy}: {inside}");
        let other = copies.inspect(copy, "bystander").to_string();
        assert_eq!(hunt.bytes("the bystander", other.as_bytes()), Vec::new());
        let looks: [&[&str]; 7] = [
            &["describe", copy],
            &["describe", copy, "--json"],
            &["env", copy, "--explain", "--json"],
            &["plan", copy, "--json"],
            &["plan", copy],
            &["show", "@r1", "--json"],
            &["ls", "--json"],
        ];
        said.extend(looks.map(|words| copies.world.run(words).ok()));
    }
    let plan = copies.world.run(["plan", "main", "--json"]).ok().json();
    let exposed: Vec<String> = plan["exposed_variables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{}.{}", one["service"].as_str().unwrap(), one["name"].as_str().unwrap()))
        .collect();
    assert_eq!(exposed, ["app.API_TOKEN", "app.DATABASE_URL"], "what Docker will hold is told");
    for ran in &said {
        assert_eq!(hunt.bytes("what was said", format!("{}{}", ran.stdout, ran.stderr).as_bytes()), Vec::new());
    }
    let own = [copies.world.folder().join("secrets.env"), copies.world.folder().join(".env")];
    let own: Vec<_> = own.iter().map(|path| path.as_path()).collect();
    assert_eq!(hunt.written(&copies.world, &own), Vec::new());
    copies.go_one_by_one(|_, _| {});
}

const HOOKED: &str = r#"services:
  app:
    image: busybox:stable
    command: ["sh", "-c", "mkdir -p /www; exec httpd -f -p 8080 -h /www"]
    stop_grace_period: 0s
    ports: ["14100:8080"]
    volumes: ["kept:/kept"]
    post_start:
      - {command: ["sh", "-c", "echo $$WHO $$(id -u) $$(pwd) > /www/hook"], environment: ["WHO=of $MARK"], user: root, working_dir: /tmp}
      - command: ["sh", "-c", "cat /www/hook > /www/second"]
    pre_stop:
      - {command: ["sh", "-c", "echo stopped $$WHY >> /kept/log"], environment: {WHY: "for $MARK"}}
volumes: {kept: {}}
"#;

#[test]
fn hooks() {
    if !docker_is_there() {
        return;
    }
    let world = stack(&[("compose.yaml", HOOKED), (".env", "MARK=one\n")]);
    world.run(["up", "--no-own-ports"]).ok();
    world.write(".env", "MARK=two\n");
    world.run(["up", "--new", "two"]).ok();
    let copies = Copies { world };
    let log = |copy: &str| copies.try_exec(copy, "app", &["cat", "/kept/log"]).stdout;
    for (copy, mark) in [("main", "one"), ("two", "two")] {
        let said = format!("of {mark} 0 /tmp");
        assert_eq!(copies.get(copy, "app", "/hook"), said, "{copy}: it runs once the container does");
        assert_eq!(copies.get(copy, "app", "/second"), said, "{copy}: one after the other");
        assert!(!log(copy).contains("stopped"), "{copy} was not stopped");
    }
    // Whatever stops a container runs its hook first.
    let run = |words: &[&str]| copies.world.run(words).ok();
    run(&["stop", "main"]);
    run(&["start", "main"]);
    assert_eq!(log("main"), "stopped for one\n");
    run(&["restart", "-i", "main"]);
    assert_eq!(log("main"), "stopped for one\n".repeat(2));
    run(&["down", "main"]);
    // It comes back as the folder is: with the second's mark.
    run(&["up", "main", "--no-own-ports"]);
    assert_eq!(log("main"), "stopped for one\n".repeat(3));
    // A change in place stops the old container.
    copies.world.write("compose.yaml", &HOOKED.replace("mkdir -p /www;", "mkdir -p /www; true;"));
    run(&["up", "main", "--no-own-ports"]);
    assert_eq!(log("main"), "stopped for one\n".repeat(3) + "stopped for two\n");
    assert_eq!(copies.get("main", "app", "/second"), "of two 0 /tmp");
    assert_eq!(log("two"), "", "the other copy was not stopped");
    copies.go_one_by_one(|copies, copy| assert_eq!(copies.get(copy, "app", "/hook"), "of two 0 /tmp"));
}
