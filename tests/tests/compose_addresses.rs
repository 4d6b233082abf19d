//! Ports, addresses and host names that a compose file fixes, in two copies at once.

use std::collections::BTreeMap;
use std::net::TcpListener;

use serde_json::Value;
use sidestack_tests::{COPIES, Copies, RemovedObject, docker, docker_is_there, get, stack};

/// The address of a copy's container in one of its networks.
#[track_caller]
fn address(copies: &Copies, copy: &str, service: &str, network: &str) -> String {
    let networks = copies.inspect(copy, service)["NetworkSettings"]["Networks"].clone();
    let name = format!("{}_{network}", copies.world.project(copy));
    networks[&name]["IPAddress"].as_str().unwrap_or_else(|| panic!("{networks:#}")).to_owned()
}

/// What isolation changes, by place: rule and what it becomes.
fn changes(copies: &Copies, copy: &str) -> BTreeMap<String, (String, Value)> {
    let plan = copies.world.run(["plan", copy, "--json"]).ok().json();
    let rows = plan["isolation"].as_array().unwrap().iter();
    rows.map(|row| {
        (row["path"].as_str().unwrap().to_owned(), (row["rule"].as_str().unwrap().to_owned(), row["to"].clone()))
    })
    .collect()
}

const FIXED: &str = r#"services:
  peer:
    image: busybox:stable
    command: @httpd@
    stop_grace_period: 0s
    environment: {SELF: 172.30.66.53}
    networks: {lan: {ipv4_address: 172.30.66.53}, wide: {ipv4_address: 10.99.3.9}}
  web:
    image: busybox:stable
    command: ["sh", "-c", "mkdir -p /www && cd /www && env > env && wget -qO seen http://172.30.66.53:8080/id; exec httpd -f -p 8080"]
    stop_grace_period: 0s
    ports: ["14040:8080"]
    depends_on: [peer]
    environment:
      PEER: http://172.30.66.53:8080/id
      WIDE: http://10.99.3.9:8080/id
      RANGE: 172.30.66.0/24
      ROUTER: via 172.30.66.1 dev eth0
      LIST: 172.30.66.53,172.30.66.80
      OTHER: 1172.30.66.530 and 172.30.66.5 and 9.9.9.9
    extra_hosts: ["fixed-peer:172.30.66.53"]
    labels: {the.peer: "172.30.66.53:8080"}
    networks: {lan: {ipv4_address: 172.30.66.80}, wide: {}}
  free:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    networks: [lan, wide]
networks:
  lan: {ipam: {config: [{subnet: 172.30.66.0/24, gateway: 172.30.66.1, ip_range: 172.30.66.128/25}]}}
  wide: {ipam: {config: [{subnet: 10.99.0.0/16}]}}
"#;

#[test]
fn fixed_addresses_and_subnets() {
    if !docker_is_there() {
        return;
    }
    let world = stack(&[("compose.yaml", FIXED)]);
    // Somebody else has the subnet of the file already.
    let name = format!("{}-foreign", world.workspace);
    let _foreign = RemovedObject::create("network", &["--subnet", "172.30.66.0/24"], &name);
    world.run(["up", "--no-own-ports"]).ok();
    world.run(["up", "--new", "two"]).ok();
    let copies = Copies { world };
    for copy in COPIES {
        let env = copies.env(copy, "web");
        let (peer, web) = (address(&copies, copy, "peer", "lan"), address(&copies, copy, "web", "lan"));
        let wide = address(&copies, copy, "peer", "wide");
        assert!(!peer.starts_with("172.30.66.") && !wide.starts_with("10.99."), "{copy}: {peer} {wide}");
        assert_eq!(env["PEER"], format!("http://{peer}:8080/id"), "{copy}");
        assert_eq!(env["WIDE"], format!("http://{wide}:8080/id"));
        assert_eq!(env["LIST"], format!("{peer},{web}"));
        assert_eq!(env["OTHER"], "1172.30.66.530 and 172.30.66.5 and 9.9.9.9", "what only looks alike stays");
        let stem = peer.rsplit_once('.').unwrap().0;
        assert_eq!(env["RANGE"], format!("{stem}.0/24"));
        assert_eq!(env["ROUTER"], format!("via {stem}.1 dev eth0"));
        assert_eq!(copies.exec(copy, "peer", &["sh", "-c", "echo $SELF"]), peer);
        let id = copies.exec(copy, "peer", &["hostname"]);
        assert_eq!(copies.get(copy, "web", "/seen"), id, "{copy}: the command asked its own copy's peer");
        for place in [&env["PEER"], &env["WIDE"], "http://fixed-peer:8080/id", "http://peer:8080/id"] {
            assert_eq!(copies.exec(copy, "web", &["wget", "-qO-", place]), id, "{copy}: {place}");
        }
        assert_eq!(copies.inspect(copy, "web")["Config"]["Labels"]["the.peer"], format!("{peer}:8080"));
    }
    // All of it made again, perhaps elsewhere: what is written follows.
    copies.world.run(["down", "main"]).ok();
    copies.world.run(["up", "main", "--no-own-ports"]).ok();
    let peer = address(&copies, "main", "peer", "lan");
    assert_eq!(copies.env("main", "web")["PEER"], format!("http://{peer}:8080/id"));
    copies.go_one_by_one(|copies, copy| {
        assert_eq!(copies.get(copy, "web", "/seen"), copies.exec(copy, "peer", &["hostname"]));
    });
    assert_eq!(
        docker(&["network", "inspect", "-f", "{{(index .IPAM.Config 0).Subnet}}", &name]).ok().stdout.trim(),
        "172.30.66.0/24"
    );
}

const SELF: &str = r#"services:
  web:
    image: busybox:stable
    command: @httpd@
    stop_grace_period: 0s
    ports: ["14060:8080"]
    environment:
      PUBLIC_URL: http://localhost:14060/id
      API_URL: http://127.0.0.1:14061/id
      ORIGINS: http://localhost:14060,http://127.0.0.1:14061
      JSON: '{"api": "http://localhost:14061/id", "port": 14061}'
      CALLBACK: https://login.example.com/?to=http%3A%2F%2Flocalhost%3A14060%2Fcb
      DSN: tcp://user:14061@localhost:14061/db
      LISTEN: 0.0.0.0:8080
      OTHER: http://localhost:14069 http://localhost:140600 http://nolocalhost:14060
      INSIDE: http://host.docker.internal:14061/id
      KEPT: http://localhost:14060/kept
    labels: {home: "http://localhost:14060/"}
    healthcheck: {test: ["CMD", "wget", "-qO-", "http://localhost:8080/id"], interval: 1s, retries: 20}
  api:
    image: busybox:stable
    command: @httpd@
    stop_grace_period: 0s
    ports: ["127.0.0.1:14061:8080"]
    environment: {KEPT: "http://localhost:14060/not-kept"}
"#;

/// Fetches a URL as a program on this machine would.
#[track_caller]
fn fetch(url: &str) -> String {
    let rest = url.strip_prefix("http://").unwrap_or_else(|| panic!("{url}"));
    let (host, path) = rest.split_once('/').unwrap();
    get(&host.replace("localhost", "127.0.0.1"), &format!("/{path}"))
}

#[test]
fn urls_of_the_stack_itself() {
    if !docker_is_there() {
        return;
    }
    let copies = Copies::up_with(&[("compose.yaml", SELF)], &["--keep", "web.KEPT"]);
    for copy in COPIES {
        let env = copies.env(copy, "web");
        let (web, api) = (copies.world.address(copy, "web", 8080), copies.world.address(copy, "api", 8080));
        let port = |address: &str| address.rsplit_once(':').unwrap().1.to_owned();
        let (w, a) = (port(&web), port(&api));
        // A program that was given these finds its own copy.
        assert_eq!(fetch(&env["PUBLIC_URL"]), copies.get(copy, "web", "/id"), "{copy}: {}", env["PUBLIC_URL"]);
        assert_eq!(fetch(&env["API_URL"]), copies.get(copy, "api", "/id"), "{copy}: {}", env["API_URL"]);
        let json: Value = serde_json::from_str(&env["JSON"]).unwrap();
        assert_eq!(fetch(json["api"].as_str().unwrap()), copies.get(copy, "api", "/id"));
        assert_eq!(json["port"], 14061, "a bare number is nobody's address");
        assert_eq!(copies.exec(copy, "web", &["wget", "-qO-", &env["INSIDE"]]), copies.get(copy, "api", "/id"));
        assert_eq!(env["ORIGINS"], format!("http://localhost:{w},http://127.0.0.1:{a}"));
        assert_eq!(env["CALLBACK"], format!("https://login.example.com/?to=http%3A%2F%2Flocalhost%3A{w}%2Fcb"));
        assert_eq!(env["DSN"], format!("tcp://user:14061@localhost:{a}/db"));
        assert_eq!(env["LISTEN"], "0.0.0.0:8080");
        assert_eq!(env["OTHER"], "http://localhost:14069 http://localhost:140600 http://nolocalhost:14060");
        assert_eq!(env["KEPT"], "http://localhost:14060/kept", "it was to be kept");
        assert_eq!(copies.env(copy, "api")["KEPT"], format!("http://localhost:{w}/not-kept"), "another service's");
        assert_eq!(copies.inspect(copy, "web")["Config"]["Labels"]["home"], format!("http://localhost:{w}/"));
        let changes = changes(&copies, copy);
        for name in ["PUBLIC_URL", "API_URL", "ORIGINS", "JSON", "CALLBACK", "DSN", "INSIDE"] {
            let (rule, to) = &changes[&format!("/services/web/environment/{name}")];
            assert_eq!((rule.as_str(), to.as_str()), ("self-address", Some(env[name].as_str())), "{copy}: {name}");
        }
        for name in ["LISTEN", "OTHER", "KEPT"] {
            assert!(!changes.contains_key(&format!("/services/web/environment/{name}")), "{copy}: {name}");
        }
        // What was said once holds for the next time.
        let again = copies.world.run(["up", copy, "--no-own-ports", "--json"]).ok().json();
        assert_eq!(again["changed"], false, "{again:#}");
    }
    copies.go_one_by_one(|copies, copy| assert_eq!(copies.get(copy, "web", "/id").len(), 12));
}

const OWN: &str = r#"services:
  web:
    image: busybox:stable
    command: @httpd@
    stop_grace_period: 0s
    ports: ["14150:8080"]
    environment: {HOME_URL: "http://localhost:14150/id", API_URL: "http://localhost:14151/id"}
  api:
    image: busybox:stable
    command: @httpd@
    stop_grace_period: 0s
    ports: ["14151:8080"]
"#;

#[test]
fn ports_of_the_files_own() {
    if !docker_is_there() {
        return;
    }
    let copies = Copies { world: stack(&[("compose.yaml", OWN)]) };
    // One of them belongs to somebody else.
    let taken = TcpListener::bind(("127.0.0.1", 14151)).unwrap();
    copies.world.run(["up"]).ok().says("14151").says("the leased port serves it");
    copies.world.run(["up", "--new", "two"]).ok();
    let published = |copy: &str, service: &str| copies.container(copy, service).published;
    let has = |copy: &str, service: &str, port: u16| published(copy, service).contains(&format!("127.0.0.1:{port}"));
    assert!(has("main", "web", 14150), "{:?}", published("main", "web"));
    assert_eq!(published("main", "web").len(), 2, "beside the leased one");
    assert!(!has("main", "api", 14151) && published("main", "api").len() == 1, "{:?}", published("main", "api"));
    assert!(!has("two", "web", 14150) && published("two", "web").len() == 1, "{:?}", published("two", "web"));
    // What is in the file holds for `main`, and is the copy's own elsewhere.
    let id = |copy: &str, service: &str| copies.exec(copy, service, &["hostname"]);
    assert_eq!(get("127.0.0.1:14150", "/id"), id("main", "web"));
    assert_eq!(copies.env("main", "web")["HOME_URL"], "http://localhost:14150/id");
    for copy in COPIES {
        let env = copies.env(copy, "web");
        assert_eq!(fetch(&env["HOME_URL"]), id(copy, "web"), "{copy}: {}", env["HOME_URL"]);
        assert_eq!(fetch(&env["API_URL"]), id(copy, "api"), "{copy}: {}", env["API_URL"]);
    }
    // It is said where people look.
    let described = copies.world.run(["describe", "main", "--json"]).ok().json();
    assert!(described.to_string().contains("http://127.0.0.1:14150"), "{described:#}");

    // Stopping and starting keeps it, and nothing that runs is made again because a port came free.
    let before = copies.container("main", "web").id;
    copies.world.run(["stop", "main"]).ok();
    copies.world.run(["start", "main"]).ok();
    assert_eq!((copies.container("main", "web").id, has("main", "web", 14150)), (before.clone(), true));
    drop(taken);
    let again = copies.world.run(["up", "main", "--json"]).ok().json();
    assert_eq!((again["changed"].clone(), copies.container("main", "web").id), (Value::from(false), before));

    // Without them, and with them again.
    copies.world.run(["up", "main", "--no-own-ports"]).ok();
    assert!(!has("main", "web", 14150), "{:?}", published("main", "web"));
    assert_eq!(fetch(&copies.env("main", "web")["HOME_URL"]), id("main", "web"));
    copies.world.run(["down", "main"]).ok();
    copies.world.run(["up", "main"]).ok();
    assert!(has("main", "web", 14150) && has("main", "api", 14151), "{:?}", published("main", "web"));
    copies.go_one_by_one(|copies, copy| {
        assert_eq!(fetch(&copies.env(copy, "web")["HOME_URL"]), copies.exec(copy, "web", &["hostname"]));
    });
}

const HOST: &str = r#"services:
  web:
    image: busybox:stable
    command: ["sh", "-c", "mkdir -p /www && cd /www && env > env && hostname > id && exec httpd -f -p 14170"]
    stop_grace_period: 0s
    network_mode: host
    expose: ["14170"]
    environment: {API_URL: "http://localhost:14171/id"}
  api:
    image: busybox:stable
    command: ["sh", "-c", "mkdir -p /www && cd /www && hostname > id && exec httpd -f -p 14171"]
    stop_grace_period: 0s
    network_mode: host
    ports: ["14171:14171"]
"#;

#[test]
fn the_hosts_network_with_ports_that_are_known() {
    if !docker_is_there() {
        return;
    }
    let copies = Copies::up(&[("compose.yaml", HOST)]);
    for copy in COPIES {
        let (web, api) = (copies.world.address(copy, "web", 14170), copies.world.address(copy, "api", 14171));
        assert_eq!(get(&web, "/id"), copies.container(copy, "web").id[..12], "{copy}");
        assert_eq!(get(&api, "/id"), copies.container(copy, "api").id[..12], "{copy}");
        let url = copies.exec(copy, "web", &["sh", "-c", "echo $API_URL"]);
        assert_eq!(copies.exec(copy, "web", &["wget", "-qO-", &url]), get(&api, "/id"), "{copy}: {url}");
    }
    copies.go_one_by_one(|copies, copy| {
        get(&copies.world.address(copy, "web", 14170), "/id");
    });
}

const UNKNOWN: &str = r#"services:
  agent:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    network_mode: host
"#;

#[test]
fn the_hosts_network_with_ports_that_are_not_known() {
    if !docker_is_there() {
        return;
    }
    let copies = Copies { world: stack(&[("compose.yaml", UNKNOWN)]) };
    copies.world.run(["up"]).ok().says("host's network");
    assert_eq!(copies.inspect("main", "agent")["HostConfig"]["NetworkMode"], "host");
    let refused = copies.world.run(["up", "--new", "two", "--json"]).exits(5);
    assert!(refused.stdout.contains("\"code\":\"exclusive\""), "{}", refused.stdout);
    copies.world.run(["up", "--new", "two"]).exits(5).says("only one can run").says("sidestack stop");
    // No consent helps.
    copies.world.run(["trust", "agent:network_mode"]).exits(2);
    assert_eq!(copies.world.run(["ls", "--json"]).ok().json()["instances"].as_array().unwrap().len(), 1);
    copies.world.run(["stop", "main"]).ok();
    copies.world.run(["up", "--new", "two"]).ok();
    copies.world.run(["start", "main"]).exits(5);
    copies.go_one_by_one(|_, _| {});
}

const ROUTED: &str = r#"services:
  web:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    labels:
      traefik.enable: "true"
      traefik.http.routers.shop.rule: "Host(`shop.localhost`) && PathPrefix(`/`)"
      traefik.http.routers.shop.service: shop
      traefik.http.routers.shop.middlewares: strip@docker,auth@file
      traefik.http.middlewares.strip.stripprefix.prefixes: /api
      traefik.http.services.shop.loadbalancer.server.port: "8080"
"#;

#[test]
fn labels_of_a_reverse_proxy() {
    if !docker_is_there() {
        return;
    }
    let copies = Copies::up(&[("compose.yaml", ROUTED)]);
    let labels = |copy: &str| -> BTreeMap<String, String> {
        let labels = copies.inspect(copy, "web")["Config"]["Labels"].clone();
        let labels = labels.as_object().unwrap().iter().filter(|(key, _)| key.starts_with("traefik."));
        labels.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())).collect()
    };
    let (one, two) = (labels("main"), labels("two"));
    let common: Vec<&String> = one.keys().filter(|key| two.contains_key(*key)).collect();
    assert_eq!(common, ["traefik.enable"], "no router, service or middleware has one name in both");
    for (copy, labels) in [("main", one), ("two", two)] {
        let router = labels.keys().find(|key| key.ends_with(".rule")).unwrap();
        let name = router.split('.').nth(3).unwrap();
        let of = |rest: &str| labels[&format!("traefik.http.routers.{name}.{rest}")].clone();
        let service = of("service");
        assert!(
            labels.contains_key(&format!("traefik.http.services.{service}.loadbalancer.server.port")),
            "{labels:#?}"
        );
        let middleware = of("middlewares");
        let strip = middleware.strip_suffix("@docker,auth@file").unwrap();
        assert!(labels.contains_key(&format!("traefik.http.middlewares.{strip}.stripprefix.prefixes")), "{labels:#?}");
        let host = format!("Host(`shop.{copy}.dev.{}.localhost`)", copies.world.workspace);
        assert!(of("rule").starts_with(&host), "{}", of("rule"));
    }
    copies.go_one_by_one(|_, _| {});
}
