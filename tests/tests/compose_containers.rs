//! What containers of somebody else's compose file have of each other, of files and of the environment, in two copies at once.

use std::collections::BTreeMap;

use sidestack_tests::{COPIES, Copies, docker_is_there, stack};

const JOINED: &str = r#"services:
  web:
    image: busybox:stable
    command: @httpd@
    stop_grace_period: 0s
    ipc: shareable
    ports: ["38110:8080", "38111:9090"]
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
    copies.world.run(["restart", "-i", "main"]).ok();
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
    ports: ["38130:8080"]
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
