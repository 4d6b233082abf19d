//! What is refused by name.

use super::*;
use crate::secret::{self, Encoding, token};

/// Exactly this is said, and it stands in the way.
#[track_caller]
fn refused(given: &Given, expected: &str) {
    assert_eq!(given.faults(), [expected], "{}", given.model);
}

#[test]
fn what_no_copy_can_have() {
    for (key, value, expected) in [
        ("provider", json!({"type": "x"}), "services.web.provider: `web` uses a provider, which is not supported yet"),
        ("models", json!({"m": {}}), "services.web.models: `web` uses models, which is not supported yet"),
        (
            "credential_spec",
            json!({}),
            "services.web.credential_spec: `web` uses a credential spec, which is not supported yet",
        ),
        (
            "labels",
            json!({"dev.sidestack.install": "x"}),
            "services.web.labels: `web` sets the label `dev.sidestack.install`, which tells what belongs to whom",
        ),
        (
            "labels",
            json!({"com.docker.compose.project": "x"}),
            "services.web.labels: `web` sets the label `com.docker.compose.project`, which tells what belongs to whom",
        ),
        (
            "build",
            json!({"labels": {"dev.sidestack.x": "x"}}),
            "services.web.build: the build of `web` sets the label `dev.sidestack.x`, which tells what belongs to whom",
        ),
        (
            "volumes",
            json!([{"type": "npipe", "source": "x", "target": "/t"}]),
            "services.web.volumes: `web` mounts a `npipe`, which is not supported",
        ),
        // What Compose makes of `a:/data`.
        (
            "volumes",
            json!([{"type": "volume", "target": "a:/data"}]),
            "services.web.volumes: `web` mounts `a:/data`: Compose takes a volume's name of one letter for a Windows drive",
        ),
        (
            "ports",
            json!([{"target": 80, "protocol": "sctp"}]),
            "services.web.ports: `web` publishes a port over `sctp`; only tcp and udp are supported",
        ),
    ] {
        refused(&web(json!({"image": "x", key: value})), expected);
    }
    for (kind, object, expected) in [
        (
            "networks",
            json!({"labels": {"dev.sidestack.x": ""}}),
            "networks.n.labels: network `n` sets the label `dev.sidestack.x`, which tells what belongs to whom",
        ),
        (
            "volumes",
            json!({"labels": {"com.docker.compose.volume": ""}}),
            "volumes.n.labels: volume `n` sets the label `com.docker.compose.volume`, which tells what belongs to whom",
        ),
    ] {
        refused(&given(json!({"services": {}, kind: {"n": object}})), expected);
    }
    refused(&given(json!({"services": {}, "models": {"m": {}}})), "models: `models` are not supported");
}

#[test]
fn what_is_swarms_is_refused_where_it_is_used() {
    for (kind, one) in [("secrets", "secret"), ("configs", "config")] {
        let model = |profiles: Value| {
            let service = json!({"image": "x", kind: [{"source": "n"}], "profiles": profiles});
            given(json!({"services": {"web": {"image": "x"}, "swarm": service}, kind: {"n": {"external": true}}}))
        };
        refused(&model(json!([])), &format!("{kind}.n: the external {one} `n` exists in Swarm only"));
        let copy = model(json!(["swarm"])).copy();
        assert_eq!(copy.of("left-out"), [format!(r#"/{kind}: {{"n":{{"external":true,"name":"n"}}}} → null"#)]);
    }
}

#[test]
fn a_namespace_that_is_shared_publishes_nothing() {
    let model = |side: Value| given(json!({"services": {"web": {"image": "x"}, "side": side}}));
    refused(
        &model(json!({"image": "x", "network_mode": "service:web", "ports": [{"target": 80}]})),
        "services.side.ports: `side` publishes ports, but its network is `service:web`",
    );
    refused(
        &model(json!({"image": "x", "network_mode": "none", "networks": {"default": null}})),
        "services.side.networks: `side` has `networks` and `network_mode: none`",
    );
}

#[test]
fn who_is_needed_and_not_there() {
    let model = |side: Value| given(json!({"services": {"web": {"image": "x"}, "side": side}}));
    refused(
        &model(json!({"image": "x", "network_mode": "service:wep"})),
        "services.side.network_mode: `side` needs the service `wep`, which does not exist",
    );
    refused(
        &model(json!({"image": "x", "depends_on": {"db": {"condition": "service_healthy", "required": true}}})),
        "services.side.depends_on: `side` needs the service `db`, which does not exist",
    );
}

#[test]
fn files_that_nobody_would_see() {
    let model = |more: Value| {
        let mut service = json!({"image": "x", "secrets": [{"source": "env"}]});
        service.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        given(json!({"services": {"web": service}, "secrets": {"env": {"environment": "S"}}}))
    };
    refused(
        &model(json!({"read_only": true})),
        "services.web.secrets: secrets `env` cannot be put into `web`, whose file system is read-only",
    );
    let hidden =
        "services.web.tmpfs: `/run/secrets/env` of `web` would stand under the tmpfs `/run`, where it cannot be seen";
    refused(&model(json!({"tmpfs": ["/run:size=1m"]})), hidden);
    refused(&model(json!({"tmpfs": "/run"})), hidden);
    refused(&model(json!({"volumes": [{"type": "tmpfs", "target": "/run"}]})), hidden);
    assert!(model(json!({"tmpfs": ["/run/sec", "/tmp"]})).faults().is_empty());
}

#[test]
fn fixed_addresses_need_room() {
    let service = |at: usize| {
        (
            format!("s{at}"),
            json!({"image": "x", "networks": {"n": {"ipv4_address": format!("172.20.{}.{}", at / 200, at % 200 + 2)}}}),
        )
    };
    let services: serde_json::Map<String, Value> = (0..300).map(service).collect();
    refused(
        &given(json!({"services": services, "networks": {"n": null}})),
        "networks.n: network `n` fixes 300 addresses; a copy of it holds 253",
    );
}

#[test]
fn more_ports_than_a_slot_has() {
    let model = |last: u16| {
        let port = |port: u16| json!({"target": port, "published": port.to_string(), "protocol": "udp"});
        let ports: Vec<Value> = (10_000..=last).map(port).collect();
        given(
            json!({"services": {"rtp": {"image": "x", "ports": ports}, "web": {"image": "x", "ports": [{"target": 80}]}}}),
        )
    };
    assert_eq!(model(10_098).copy().plan.ports.len(), 100);
    let (_, _, faults) = model(20_000).draft();
    let told: Vec<String> = faults.iter().map(line).collect();
    assert_eq!(told, ["services.rtp.ports: the stack publishes 10002 ports, 10001 of them `rtp`; a slot has 100"]);
}

#[test]
fn tokens_and_placeholders_cannot_be_forged() {
    let environment = |value: &str| web(json!({"image": "x", "environment": {"K": value}}));
    let good = format!("{PROJECT} {CHECKOUT} {}", token("env:A", Encoding::Url));
    assert!(environment(&good).faults().is_empty());
    for wrong in [
        format!("{}x", secret::OPEN),
        format!("x{}", secret::CLOSE),
        format!("{}zenv:X{}", secret::OPEN, secret::CLOSE),
        "\u{E0F2}other\u{E0F3}".to_owned(),
        "\u{E0F2}".to_owned(),
        token(&format!("a{}b", secret::OPEN), Encoding::Raw),
    ] {
        refused(
            &environment(&wrong),
            "services.web.environment.K: `services.web.environment.K` holds one of the characters U+E0F0 to U+E0F3, which are reserved",
        );
    }
    refused(&environment("a\0b"), "services.web.environment.K: `services.web.environment.K` holds a NUL");
    refused(
        &web(json!({"image": "x", "labels": {token("env:A", Encoding::Raw): "v"}})),
        "services.web.labels.‹env:A›: `services.web.labels.‹env:A›` holds a secret in a key, where none can stand",
    );
}

#[test]
fn one_address_is_not_for_several_containers() {
    let joined = json!({"lan": {"ipv4_address": "172.30.0.5"}});
    refused(
        &web(json!({"image": "x", "scale": 2, "networks": joined})),
        "services.web.networks: `web` has 2 containers and one fixed address",
    );
    assert_eq!(web(json!({"image": "x", "scale": 1, "networks": joined})).faults(), Vec::<String>::new());
}
