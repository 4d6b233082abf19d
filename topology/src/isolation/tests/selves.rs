//! Texts that name a host port of the stack itself.

use super::*;

/// A page on 3000, an interface on 8080 and a database on 5432.
#[expect(clippy::needless_pass_by_value, reason = "every caller makes it on the spot")]
fn shop(web: Value) -> Given {
    let ports = json!([{"target": 3000, "published": "3000"}, {"target": 9000, "published": "9090"}]);
    let mut service = json!({"image": "web", "ports": ports});
    service.as_object_mut().unwrap().extend(web.as_object().unwrap().clone());
    given(json!({"services": {
        "api": {"image": "api", "ports": [{"target": 80, "published": "8080"}]},
        "db": {"image": "db", "ports": [{"target": 5432, "published": "5432"}]},
        "web": service,
    }}))
}

#[test]
fn row_self_addresses() {
    let copies = shop(json!({
        "environment": {
            "API_URL": "http://localhost:8080/v1",
            "CORS": "http://localhost:3000,http://127.0.0.1:3000,https://example.com",
            "LISTENERS": "PLAINTEXT://db:9092,EXT://localhost:5432",
            "OAUTH": "{\"redirect\":\"http://localhost:3000/callback\"}",
            "DSN": "postgres://u:p@localhost:5432/shop",
            "BIND": "0.0.0.0:3000",
            "OTHER": "http://localhost:9000",
        },
        "command": ["--public-url=http://localhost:8080", "--listen=0.0.0.0:3000"],
        "entrypoint": ["run", "--advertise", "localhost:3000", "--db=localhost:5432"],
        "labels": {"homepage.href": "http://localhost:3000"},
        "healthcheck": {"test": ["CMD-SHELL", "curl localhost:3000 && curl localhost:8080 && curl localhost:9090"]},
    }))
    .two();
    assert_eq!(
        copies[0].of("self-address"),
        [
            r#"/services/web/command/0: "--public-url=http://localhost:8080" → "--public-url=http://localhost:20300""#,
            r#"/services/web/entrypoint/2: "localhost:3000" → "localhost:20302""#,
            r#"/services/web/environment/API_URL: "http://localhost:8080/v1" → "http://localhost:20300/v1""#,
            r#"/services/web/environment/CORS: "http://localhost:3000,http://127.0.0.1:3000,https://example.com" → "http://localhost:20302,http://127.0.0.1:20302,https://example.com""#,
            r#"/services/web/environment/DSN: "postgres://u:p@localhost:5432/shop" → "postgres://u:p@localhost:20301/shop""#,
            r#"/services/web/environment/LISTENERS: "PLAINTEXT://db:9092,EXT://localhost:5432" → "PLAINTEXT://db:9092,EXT://localhost:20301""#,
            r#"/services/web/environment/OAUTH: "{\"redirect\":\"http://localhost:3000/callback\"}" → "{\"redirect\":\"http://localhost:20302/callback\"}""#,
            r#"/services/web/healthcheck/test/1: "curl localhost:3000 && curl localhost:8080 && curl localhost:9090" → "curl localhost:3000 && curl localhost:8080 && curl localhost:20303""#,
            r#"/services/web/labels/homepage.href: "http://localhost:3000" → "http://localhost:20302""#,
        ]
    );
    assert_eq!(copies[1].web("environment/API_URL"), "http://localhost:20400/v1");
    assert_eq!(copies[1].web("environment/BIND"), "0.0.0.0:3000");
}

#[test]
fn row_host_docker_internal() {
    let copies = shop(json!({
        "environment": {"API": "http://host.docker.internal:8080", "DB": "172.17.0.1:5432", "NAMED": "http://box:8080",
            "OUT": "http://host.docker.internal:9999"},
        "extra_hosts": ["host.docker.internal=host-gateway", "box=host-gateway", "other=10.0.0.1"],
    }))
    .two();
    for copy in &copies {
        assert_eq!(
            copy.web("environment"),
            &json!({"API": "http://api:80", "DB": "db:5432", "NAMED": "http://api:80", "OUT": "http://host.docker.internal:9999"})
        );
        assert_eq!(copy.of("self-address").len(), 3);
        assert!(copy.report.iter().filter(|c| c.rule == "self-address").all(|c| c.reason.contains("loopback")));
    }
}

#[test]
fn who_shares_no_network_is_told() {
    let model = json!({
        "services": {
            "web": {"image": "x", "networks": {"front": null}, "environment": {"API": "http://host.docker.internal:8080"}},
            "api": {"image": "x", "networks": {"back": null}, "ports": [{"target": 80, "published": "8080"}]},
        },
        "networks": {"front": null, "back": null},
    });
    let copy = copy(model);
    assert_eq!(copy.web("environment/API"), "http://host.docker.internal:8080");
    assert_eq!(
        copy.told(),
        [
            "warning services.web.environment: `web` reaches `api` by way of the host, where its port is bound to the loopback address"
        ]
    );
}

#[test]
fn containers_of_one_image_listen_on_the_same_ports() {
    let node = |ports: Value| {
        json!({"image": "search", "ports": ports, "healthcheck": {"test": ["CMD", "curl", "http://localhost:9200"]},
            "environment": {"BIND": "localhost:9200"}, "command": ["http://localhost:9200"]})
    };
    let copy = copy(json!({"services": {
        "one": node(json!([{"target": 9200, "published": "9200"}])), "two": node(json!([])),
        "page": {"image": "page", "environment": {"SEARCH": "localhost:9200"}},
    }}));
    assert_eq!(copy.of("self-address"), [r#"/services/page/environment/SEARCH: "localhost:9200" → "localhost:20300""#]);
}

#[test]
fn a_shared_network_means_one_localhost() {
    let copy = copy(json!({"services": {
        "web": {"image": "x", "ports": [{"target": 3000, "published": "3000"}]},
        "side": {"image": "x", "network_mode": "service:web", "command": ["curl", "http://localhost:3000"],
            "environment": {"UP": "localhost:3000", "URL": "http://localhost:3000"}},
    }}));
    assert_eq!(copy.part("/services/side/command/1"), "http://localhost:3000");
    assert_eq!(
        copy.part("/services/side/environment"),
        &json!({"UP": "localhost:3000", "URL": "http://localhost:3000"})
    );
}

#[test]
fn what_is_to_stay_stays() {
    let model = || {
        shop(json!({"environment": {"A": "http://localhost:8080", "B": "http://localhost:8080"},
            "command": ["http://localhost:8080"], "labels": {"l": "http://localhost:8080"}}))
    };
    let left = |keep: &str| {
        let copy = model().choosing(&format!("{{keep: [{keep}]}}")).copy();
        copy.of("self-address").iter().map(|line| line.split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = [
        "/services/web/command/0",
        "/services/web/environment/A",
        "/services/web/environment/B",
        "/services/web/labels/l",
    ];
    assert_eq!(left("none"), all);
    assert_eq!(left("A"), [all[0], all[2], all[3]]);
    assert_eq!(left("web.A, web.command"), [all[2], all[3]]);
    assert_eq!(left("web.labels.l"), all[..3]);
    assert!(left("web").is_empty());
    assert_eq!(left("api.A"), all);
}

#[test]
fn what_is_built_or_handed_in_is_only_told() {
    let mut given = shop(json!({"build": {"context": CHECKOUT, "args": {"API": "http://localhost:8080", "N": "1"}},
        "configs": [{"source": "c", "target": "/c"}]}));
    given.model["configs"] =
        json!({"c": {"content": "url: http://localhost:8080\n"}, "d": {"content": "url: http://localhost:1\n"}});
    let copy = given.copy();
    assert_eq!(
        copy.told(),
        [
            "warning services.web.build: the build argument `API` of `web` names a host port of the stack itself, and is in the image of every copy",
            "warning configs.c.content: the config `c` names a host port of the stack itself, which differs in every copy",
        ]
    );
    assert_eq!(copy.web("build/args/API"), "http://localhost:8080");
}
