//! Host ports.

use super::*;

#[test]
fn row_literal_host_port() {
    let web = web(json!({"image": "x", "ports": [
        {"mode": "ingress", "target": 80, "published": "8080", "protocol": "tcp"},
        {"mode": "ingress", "target": 53, "published": "53", "protocol": "udp", "host_ip": "::"},
        {"mode": "ingress", "target": 9999, "protocol": "tcp"},
    ]}));
    let copies = web.two();
    assert_eq!(
        copies[0].of("host-port"),
        [
            r#"/services/web/ports/0/published: "8080" → "20301""#,
            r#"/services/web/ports/1/published: "53" → "20300""#,
            r#"/services/web/ports/2/published: null → "20302""#,
        ]
    );
    assert_eq!(
        copies[0].of("loopback"),
        [
            r#"/services/web/ports/0/host_ip: null → "127.0.0.1""#,
            r#"/services/web/ports/1/host_ip: "::" → "127.0.0.1""#,
            r#"/services/web/ports/2/host_ip: null → "127.0.0.1""#,
        ]
    );
    assert_eq!(
        copies[1].web("ports"),
        &json!([
            {"mode": "ingress", "target": 80, "published": "20401", "protocol": "tcp", "host_ip": "127.0.0.1"},
            {"mode": "ingress", "target": 53, "published": "20400", "protocol": "udp", "host_ip": "127.0.0.1"},
            {"mode": "ingress", "target": 9999, "published": "20402", "protocol": "tcp", "host_ip": "127.0.0.1"},
        ])
    );
    assert!(met(&copies).is_empty());
}

#[test]
fn row_port_range_and_scale() {
    // Compose asks for any one port of the range; a lease needs no race.
    let range = web(json!({"image": "x", "ports": [{"target": 80, "published": "8000-8010"}]})).copy();
    assert_eq!(range.of("host-port"), [r#"/services/web/ports/0/published: "8000-8010" → "20300""#]);
    let scaled = |more: Value| {
        let mut service = json!({"image": "x", "ports": [{"target": 80, "published": "8080"}, {"target": 81}]});
        service.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        given(
            json!({"services": {"web": service, "db": {"image": "x", "ports": [{"target": 5432, "published": "5432"}]}}}),
        )
    };
    for more in [json!({"scale": 3}), json!({"deploy": {"replicas": 3}})] {
        let copies = scaled(more).two();
        let published = |copy: &Copy| -> Vec<Value> {
            copy.web("ports").as_array().unwrap().iter().map(|port| port["published"].clone()).collect()
        };
        assert_eq!(published(&copies[0]), ["20301-20303", "20304-20306"]);
        assert_eq!(published(&copies[1]), ["20401-20403", "20404-20406"]);
        let hosts = copies[0].plan.ports.iter().find(|port| port.publish.container_port == 81).unwrap().hosts();
        assert_eq!(hosts, ["127.0.0.1:20304", "127.0.0.1:20305", "127.0.0.1:20306"]);
        assert!(met(&copies).is_empty());
    }
}

#[test]
fn row_own_ports() {
    let mut given = given(json!({"services": {
        "web": {"image": "x", "ports": [{"target": 80, "published": "3000"}, {"target": 81, "published": "3001"}],
            "environment": {"URL": "http://localhost:3000", "OTHER": "http://localhost:3001"}},
        "many": {"image": "x", "scale": 2, "ports": [{"target": 80, "published": "3000"}]},
    }}));
    given.own_ports = BTreeSet::from([3000]);
    let copies = [given.copy(), Given { own_ports: BTreeSet::new(), ..given }.at("shop/dev/two", 4)];
    let published = |copy: &Copy| -> Vec<Value> {
        copy.web("ports").as_array().unwrap().iter().map(|port| port["published"].clone()).collect()
    };
    assert_eq!(published(&copies[0]), ["20302", "20303", "3000"]);
    assert_eq!(published(&copies[1]), ["20402", "20403"]);
    assert_eq!(
        copies[0].of("own-port"),
        [r#"/services/web/ports/2: null → {"host_ip":"127.0.0.1","published":"3000","target":80}"#]
    );
    // An address that holds stays as it is written; two containers cannot have one port of their own.
    assert_eq!(
        copies[0].web("environment"),
        &json!({"URL": "http://localhost:3000", "OTHER": "http://localhost:20303"})
    );
    assert_eq!(copies[1].web("environment/URL"), "http://localhost:20402");
    assert_eq!(copies[0].part("/services/many/ports").as_array().unwrap().len(), 1);
    assert!(met(&copies).is_empty());
}

#[test]
fn an_own_port_is_published_once() {
    let mut given = web(json!({"image": "x", "ports": [
        {"target": 80, "published": "3000", "host_ip": "127.0.0.1"}, {"target": 80, "published": "3000", "host_ip": "::1"},
        {"target": 80, "published": "3000", "protocol": "udp"},
    ]}));
    given.own_ports = BTreeSet::from([3000]);
    let ports = given.copy().web("ports").as_array().unwrap().clone();
    let own: Vec<_> = ports.iter().filter(|port| port["published"] == "3000").map(|port| &port["protocol"]).collect();
    assert_eq!(own, [&Value::Null, &json!("udp")]);
}

#[test]
fn what_a_port_is_for_stays() {
    let web = web(json!({"image": "x", "ports": [
        {"target": 80, "published": "8080", "name": "page"},
        {"target": 80, "published": "8081"},
        {"target": 80, "protocol": "udp"},
        {"target": 9999, "app_protocol": "h2"},
    ]}))
    .copy();
    let told: Vec<_> =
        web.plan.ports.iter().map(|p| (p.publish.key(), p.publish.scheme.clone(), p.publish.own)).collect();
    let http = || Some("http".to_owned());
    assert_eq!(
        told,
        [
            ("web/80/0".to_owned(), http(), Some(8080)),
            ("web/80/1".to_owned(), http(), Some(8081)),
            ("web/80/0".to_owned(), None, None),
            ("web/9999/0".to_owned(), Some("h2".to_owned()), None),
        ]
    );
    assert_eq!(web.web("ports/0/name"), "page");
}

#[test]
fn row_network_mode_host() {
    let given = given(json!({
        "services": {
            "web": {"image": "x", "network_mode": "host", "expose": ["8080", 9000, "7000-7001/udp"],
                "environment": {"DB": "localhost:5432", "SELF": "http://localhost:8080", "OUT": "localhost:25"}},
            "db": {"image": "x", "networks": {"back": null}, "ports": [{"target": 5432, "published": "5432"}]},
            "other": {"image": "x", "network_mode": "host", "ports": [{"target": 80, "published": "8000"}]},
            "edge": {"image": "x", "networks": {"front": null, "proxy": null}},
        },
        "networks": {"back": null, "front": null, "proxy": {"external": true, "name": "proxy"}},
    }));
    let copies = given.two();
    assert_eq!(
        copies[0].of("network-mode"),
        [
            r#"/services/other/network_mode: "host" → null"#,
            r#"/services/other/networks: null → {"back":{},"front":{}}"#,
            r#"/services/web/network_mode: "host" → null"#,
            r#"/services/web/networks: null → {"back":{},"front":{}}"#,
        ]
    );
    let ports: Vec<_> =
        copies[0].web("ports").as_array().unwrap().iter().map(|p| p["target"].as_u64().unwrap()).collect();
    assert_eq!(ports, [8080, 9000, 7000, 7001]);
    // In the host's network the database was `localhost`; the host itself still is what it was.
    assert_eq!(
        copies[0].web("environment"),
        &json!({"DB": "db:5432", "SELF": "http://localhost:20304", "OUT": "localhost:25"})
    );
    assert_eq!(met(&copies), ["networks proxy"]);
    let unknown = web(json!({"image": "x", "network_mode": "host"})).copy();
    assert_eq!(unknown.web("network_mode"), "host");
    assert_eq!(
        unknown.told(),
        ["warning services.web.network_mode: `web` uses the host's network, and nothing says on which ports"]
    );
    assert_eq!(unknown.plan.shared[0].answer, crate::plan::Answer::Exclusive);
}

#[test]
fn other_network_modes() {
    let bridge = web(json!({"image": "x", "network_mode": "bridge", "ports": [{"target": 80}]})).copy();
    assert_eq!(bridge.web("networks"), &json!({"default": {}}));
    assert_eq!(bridge.web("network_mode"), &Value::Null);
    // Docker takes such ports and does nothing with them.
    let alone = web(json!({"image": "x", "network_mode": "none", "ports": [{"target": 80, "published": "80"}]})).copy();
    assert_eq!(alone.of("network-mode"), [r#"/services/web/ports: [{"published":"80","target":80}] → null"#]);
    assert!(alone.plan.ports.is_empty());
    for mode in ["none", "service:db"] {
        let kept = copy(json!({"services": {"web": {"image": "x", "network_mode": mode}, "db": {"image": "x"}}}));
        assert_eq!(kept.web("network_mode"), mode);
        assert_eq!(kept.web("networks"), &Value::Null);
    }
}
