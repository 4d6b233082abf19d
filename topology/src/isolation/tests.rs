//! Every rule and every refusal of isolation, over data.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::compose::Project;
use crate::diagnostic::Severity;
use crate::placeholder::{CHECKOUT, PROJECT};
use crate::secret::{self, Encoding, token};

fn run(model: &Value) -> (Isolated, Vec<Diagnostic>) {
    run_with(model, &[])
}

fn run_with(model: &Value, profiles: &[&str]) -> (Isolated, Vec<Diagnostic>) {
    let profiles: Vec<String> = profiles.iter().map(ToString::to_string).collect();
    let model: Project = serde_json::from_value(model.clone()).unwrap();
    let mut faults = Vec::new();
    let isolated = isolate(&model, &BTreeMap::new(), &profiles, &mut faults);
    (isolated, faults)
}

/// A model of one service `web`.
#[expect(clippy::needless_pass_by_value, reason = "every caller makes it on the spot")]
fn web(service: Value) -> Value {
    json!({ "services": { "web": service } })
}

/// Isolating `model` says exactly this, as `severity path: message`.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "every caller makes it on the spot")]
fn refused(model: Value, expected: &str) {
    let (_, faults) = run(&model);
    let told: Vec<String> = faults
        .iter()
        .map(|fault| {
            let severity = if fault.severity == Severity::Error { "" } else { "warning " };
            format!("{severity}{}: {}", fault.path.join("."), fault.message)
        })
        .collect();
    assert_eq!(told, [expected], "{model}");
}

/// Isolating `model` changes exactly this, as `rule path: from → to`, and refuses nothing.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "every caller makes it on the spot")]
fn changed(model: Value, expected: &[&str]) -> Isolated {
    let (isolated, faults) = run(&model);
    assert!(faults.is_empty(), "{faults:#?}");
    let told: Vec<String> = isolated
        .changes
        .iter()
        .map(|change| format!("{} {}.{}: {} → {}", change.rule, change.service, change.path, change.from, change.to))
        .collect();
    assert_eq!(told, expected, "{model}");
    isolated
}

#[test]
fn what_shares_the_host_is_refused() {
    for (key, value, expected) in [
        ("privileged", json!(true), "services.web.privileged: `web` is privileged, so it shares the host"),
        ("pid", json!("host"), "services.web.pid: `web` shares the host's pid namespace"),
        ("ipc", json!("host"), "services.web.ipc: `web` shares the host's ipc namespace"),
        ("uts", json!("host"), "services.web.uts: `web` shares the host's uts namespace"),
        ("cgroup", json!("host"), "services.web.cgroup: `web` shares the host's cgroup namespace"),
        ("userns_mode", json!("host"), "services.web.userns_mode: `web` shares the host's userns_mode namespace"),
        ("pid", json!("container:x"), "services.web.pid: `web` joins the pid of a container outside the stack"),
        (
            "network_mode",
            json!("host"),
            "services.web.network_mode: `web` uses the host's network, where ports cannot be moved",
        ),
        (
            "network_mode",
            json!("bridge"),
            "services.web.network_mode: `web` uses Docker's default bridge, which every copy shares",
        ),
        (
            "network_mode",
            json!("container:x"),
            "services.web.network_mode: `web` joins the network of `container:x`, outside the stack",
        ),
        (
            "volumes_from",
            json!(["container:x:ro"]),
            "services.web.volumes_from: `web` takes volumes from a container outside the stack",
        ),
        ("external_links", json!(["x"]), "services.web.external_links: `web` links to a container outside the stack"),
        (
            "mac_address",
            json!("02:42:ac:11:00:01"),
            "services.web.mac_address: `web` fixes a MAC address, which a second copy cannot have",
        ),
        ("provider", json!({"type": "x"}), "services.web.provider: `web` uses a provider, which is not supported yet"),
        ("models", json!({"m": {}}), "services.web.models: `web` uses models, which is not supported yet"),
        ("pre_stop", json!([]), "services.web.pre_stop: `web` uses `pre_stop` hooks, which is not supported yet"),
        (
            "credential_spec",
            json!({}),
            "services.web.credential_spec: `web` uses a credential spec, which is not supported yet",
        ),
        (
            "labels",
            json!({"traefik.enable": "true"}),
            "services.web.labels: `web` has Traefik labels: every copy would define the same routers",
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
            "devices",
            json!(["/dev/kvm"]),
            "warning services.web.devices: `web` uses `devices` of the host, which every copy shares",
        ),
        ("gpus", json!("all"), "warning services.web.gpus: `web` uses `gpus` of the host, which every copy shares"),
        (
            "networks",
            json!({"default": {"ipv4_address": "10.0.0.2"}}),
            "services.web.networks: `web` fixes its `ipv4_address` in network `default`, which a second copy cannot have",
        ),
        (
            "networks",
            json!({"default": {"mac_address": "x"}}),
            "services.web.networks: `web` fixes its `mac_address` in network `default`, which a second copy cannot have",
        ),
    ] {
        refused(web(json!({"image": "x", key: value})), expected);
    }
}

#[test]
fn binds_outside_the_folder_are_refused() {
    let mount = |mount: Value| web(json!({"image": "x", "volumes": [mount]}));
    let bind = |source: &str| mount(json!({"type": "bind", "source": source, "target": "/t"}));
    for source in ["/etc", "/var/lib/x", &format!("{CHECKOUT}/../x"), &format!("{CHECKOUT}x"), ""] {
        let shown = source.replace(CHECKOUT, ".");
        refused(
            bind(source),
            &format!(
                "services.web.volumes: `web` mounts `{shown}` from outside the stack's folder, which every copy would share"
            ),
        );
    }
    for source in [CHECKOUT.to_owned(), format!("{CHECKOUT}/src"), format!("{CHECKOUT}/a..b")] {
        changed(bind(&source), &[]);
    }
    refused(
        bind("/var/run/docker.sock"),
        "services.web.volumes: `web` mounts Docker's socket, which reaches every copy",
    );
    refused(
        mount(json!({"type": "npipe", "source": "x", "target": "/t"})),
        "services.web.volumes: `web` mounts a `npipe`, which is not supported",
    );
    // What Compose makes of `a:/data`.
    refused(
        mount(json!({"type": "volume", "target": "a:/data"})),
        "services.web.volumes: `web` mounts `a:/data`: Compose takes a volume's name of one letter for a Windows drive",
    );
}

#[test]
fn shared_networks_and_volumes_are_refused() {
    for (kind, object, expected) in [
        ("networks", json!({"external": true}), "networks.n: network `n` is external: every copy would share it"),
        (
            "networks",
            json!({"ipam": {"config": [{"subnet": "10.0.0.0/24"}]}}),
            "networks.n.ipam: network `n` fixes its subnet, which a second copy cannot have",
        ),
        (
            "networks",
            json!({"driver": "macvlan"}),
            "networks.n.driver: network `n` uses the driver `macvlan`, which is not supported yet",
        ),
        (
            "networks",
            json!({"driver_opts": {"com.docker.network.bridge.name": "br"}}),
            "networks.n.driver_opts: network `n` fixes its bridge's name, which a second copy cannot have",
        ),
        (
            "networks",
            json!({"labels": {"dev.sidestack.x": ""}}),
            "networks.n.labels: network `n` sets the label `dev.sidestack.x`, which tells what belongs to whom",
        ),
        ("volumes", json!({"external": true}), "volumes.n: volume `n` is external: every copy would write to it"),
        (
            "volumes",
            json!({"driver_opts": {"type": "none", "o": "bind", "device": "/srv"}}),
            "volumes.n.driver_opts: volume `n` is bound to `/srv`, which every copy would share",
        ),
        (
            "volumes",
            json!({"labels": {"com.docker.compose.volume": ""}}),
            "volumes.n.labels: volume `n` sets the label `com.docker.compose.volume`, which tells what belongs to whom",
        ),
        ("secrets", json!({"external": true}), "secrets.n: the external secret `n` exists in Swarm only"),
        ("configs", json!({"external": true}), "configs.n: the external config `n` exists in Swarm only"),
    ] {
        refused(json!({"services": {}, kind: {"n": object}}), expected);
    }
    refused(json!({"services": {}, "models": {"m": {}}}), "models: `models` are not supported");
    changed(json!({"services": {}, "volumes": {"t": {"driver_opts": {"type": "tmpfs", "device": "tmpfs"}}}}), &[]);
}

#[test]
fn names_are_scoped_and_default_ones_are_no_change() {
    let isolated = changed(
        json!({
            "services": {},
            "networks": {"a": {"name": format!("{PROJECT}_a")}, "b": {"name": "shared"}, "c": null},
            "volumes": {"a": {"name": format!("{PROJECT}_a")}, "b": {"name": "shared"}},
        }),
        &[
            "network-name b.name: shared → named after the instance",
            "volume-name b.name: shared → named after the instance",
        ],
    );
    assert!(isolated.networks.values().all(|network| network.name.is_none()));
    assert!(isolated.volumes.values().all(|volume| volume.name.is_none()));
}

#[test]
fn container_names_live_on_as_aliases_and_references_follow() {
    let isolated = changed(
        json!({"services": {
            "web": {"image": "x", "container_name": "shop-web", "networks": {"a": {"aliases": ["w"]}, "b": null}},
            "side": {"image": "x", "network_mode": "container:shop-web", "pid": "container:shop-web", "volumes_from": ["container:shop-web:ro"]},
            "alone": {"image": "x", "container_name": "alone-1", "network_mode": "none"},
        }, "networks": {"a": null, "b": null}}),
        &[
            "container-reference side.network_mode: container:shop-web → service:web",
            "container-reference side.pid: container:shop-web → service:web",
            "container-reference side.volumes_from: container:shop-web:ro → web:ro",
            "container-name alone.container_name: alone-1 → a network alias",
            "container-name web.container_name: shop-web → a network alias",
        ],
    );
    let web = &isolated.services["web"].compose;
    assert_eq!(
        serde_json::to_value(&web.networks).unwrap(),
        json!({"a": {"aliases": ["w", "shop-web"]}, "b": {"aliases": ["shop-web"]}})
    );
    assert_eq!(isolated.services["side"].after["web"].condition, crate::compose::Condition::Started);
    assert_eq!(isolated.services["side"].compose.network_mode.as_deref(), Some("service:web"));
    assert!(isolated.services["alone"].compose.networks.is_empty());
}

#[test]
fn a_shared_namespace_publishes_nothing() {
    let model = |service: Value| json!({"services": {"web": {"image": "x"}, "side": service}});
    refused(
        model(json!({"image": "x", "network_mode": "service:web", "ports": [{"target": 80}]})),
        "services.side.ports: `side` publishes ports, but its network is `service:web`",
    );
    refused(
        model(json!({"image": "x", "network_mode": "none", "networks": {"default": null}})),
        "services.side.networks: `side` has `networks` and `network_mode: none`",
    );
    refused(
        model(json!({"image": "x", "network_mode": "service:wep"})),
        "services.side.network_mode: `side` needs the service `wep`, which does not exist",
    );
    refused(
        model(json!({"image": "x", "depends_on": {"db": {"condition": "service_healthy", "required": true}}})),
        "services.side.depends_on: `side` needs the service `db`, which does not exist",
    );
    let optional = changed(
        model(json!({"image": "x", "depends_on": {"db": {"condition": "service_healthy", "required": false}}})),
        &[],
    );
    assert!(optional.services["side"].after.is_empty());
}

#[test]
fn profiles_and_scale_decide_who_runs() {
    let isolated = changed(
        json!({"services": {
            "web": {"image": "x", "depends_on": {"db": {"condition": "service_started"}, "none": {"condition": "service_started"}}},
            "db": {"image": "x", "profiles": ["data"]},
            "debug": {"image": "x", "profiles": ["debug", "dev"]},
            "none": {"image": "x", "scale": 0},
        }}),
        &["scale web.depends_on.none: none → not waited for", "profile debug.profiles: debug, dev → not started"],
    );
    assert_eq!(isolated.services.keys().collect::<Vec<_>>(), ["db", "none", "web"]);
    assert_eq!(isolated.services["web"].after.keys().collect::<Vec<_>>(), ["db"]);
    assert!(isolated.services["db"].compose.profiles.is_empty());
    assert_eq!(isolated.services["none"].compose.replicas(), 0);
}

#[test]
fn a_profile_that_is_on_runs_its_services_and_what_they_need() {
    let model = json!({"services": {
        "web": {"image": "x"},
        "debug": {"image": "x", "profiles": ["debug", "dev"], "depends_on": {"trace": {"condition": "service_started"}}},
        "trace": {"image": "x", "profiles": ["trace"]},
        "other": {"image": "x", "profiles": ["other"]},
    }});
    for (profiles, expected, left) in [
        (&["dev"][..], &["debug", "trace", "web"][..], &["other"][..]),
        (&["trace", "unheard-of"], &["trace", "web"], &["debug", "other"]),
        (&[], &["web"], &["debug", "other", "trace"]),
    ] {
        let (isolated, faults) = run_with(&model, profiles);
        assert!(faults.is_empty(), "{faults:#?}");
        assert_eq!(isolated.services.keys().collect::<Vec<_>>(), expected);
        let told: Vec<&str> = isolated.changes.iter().map(|change| change.service.as_str()).collect();
        assert_eq!(told, left, "{profiles:?}");
    }
}

#[test]
fn restart_policies_leave_the_order_to_sidestack() {
    for (service, policy, change) in [
        (json!({"restart": "always"}), Some("on-failure"), Some("restart web.restart: always → on-failure")),
        (
            json!({"restart": "unless-stopped"}),
            Some("on-failure"),
            Some("restart web.restart: unless-stopped → on-failure"),
        ),
        (json!({"restart": "on-failure:3"}), Some("on-failure:3"), None),
        (json!({"restart": "no"}), Some("no"), None),
        (json!({}), None, None),
        (
            json!({"deploy": {"restart_policy": {"condition": "any"}}}),
            Some("on-failure"),
            Some("restart web.deploy.restart_policy: any → on-failure"),
        ),
        (json!({"deploy": {"restart_policy": {"condition": "none"}}}), None, None),
    ] {
        let isolated = changed(web(service), &change.into_iter().collect::<Vec<_>>());
        let compose = &isolated.services["web"].compose;
        assert_eq!(compose.restart.as_deref(), policy);
        assert!(compose.deploy.as_ref().is_none_or(|deploy| !deploy.contains_key("restart_policy")));
    }
}

#[test]
fn ports_become_leases() {
    let isolated = changed(
        web(json!({"image": "x", "ports": [
            {"target": 80, "published": "8080", "host_ip": "0.0.0.0"},
            {"target": 80, "published": "8081", "protocol": "tcp"},
            {"target": 80, "protocol": "udp"},
            {"target": 9999, "app_protocol": "h2"},
        ]})),
        &["host-port web.ports.0: 8080 → a leased port", "host-port web.ports.1: 8081 → a leased port"],
    );
    let told: Vec<_> = isolated
        .publishes
        .iter()
        .map(|publish| (publish.key(), publish.protocol.to_string(), publish.scheme.as_deref(), publish.own))
        .collect();
    assert_eq!(
        told,
        [
            ("web/80/0".to_owned(), "tcp".to_owned(), Some("http"), Some(8080)),
            ("web/80/1".to_owned(), "tcp".to_owned(), Some("http"), Some(8081)),
            ("web/80/0".to_owned(), "udp".to_owned(), None, None),
            ("web/9999/0".to_owned(), "tcp".to_owned(), Some("h2"), None),
        ]
    );
    assert!(isolated.services["web"].compose.ports.is_empty());
    let ports = |port: Value| web(json!({"image": "x", "ports": [port]}));
    refused(
        ports(json!({"target": 80, "published": "8000-8010"})),
        "services.web.ports: `web` publishes the range 8000-8010, which is not supported yet",
    );
    refused(
        ports(json!({"target": 80, "protocol": "sctp"})),
        "services.web.ports: `web` publishes a port over `sctp`; only tcp and udp are supported",
    );
    refused(
        web(json!({"image": "x", "scale": 2, "ports": [{"target": 80}]})),
        "services.web.ports: `web` publishes a port and has 2 containers, which is not supported yet",
    );
}

#[test]
fn addresses_of_the_stack_itself_are_refused() {
    let model = |value: &str| {
        web(json!({"image": "x", "environment": {"URL": value}, "ports": [{"target": 80, "published": "8080"}]}))
    };
    for value in
        ["http://localhost:8080", "http://127.0.0.1:8080/x", "host.docker.internal:8080", "a,http://0.0.0.0:8080"]
    {
        refused(
            model(value),
            "services.web.environment.URL: `URL` of `web` names the stack's own host port 8080, which differs in every copy",
        );
    }
    for value in [
        "http://localhost:80801",
        "http://mylocalhost:8080",
        "http://my-localhost:8080",
        "http://web:8080",
        "localhost:80",
    ] {
        changed(model(value), &["host-port web.ports.0: 8080 → a leased port"]);
    }
}

#[test]
fn files_are_mounted_or_delivered() {
    let isolated = changed(
        json!({
            "services": {"web": {
                "image": "x",
                "secrets": [{"source": "env"}, {"source": "file"}],
                "configs": [{"source": "inline", "target": "/etc/x.conf", "mode": "0440", "uid": "5"}],
            }},
            "secrets": {"env": {"environment": "S"}, "file": {"file": format!("{CHECKOUT}/s"), "name": "n"}},
            "configs": {"inline": {"content": "a $ b"}},
        }),
        &[],
    );
    let web = &isolated.services["web"];
    let told: Vec<_> =
        web.deliveries.iter().map(|d| (d.path.as_str(), d.mode, d.uid, secret::shown(&d.content))).collect();
    assert_eq!(
        told,
        [("/run/secrets/env", 0o444, 0, "‹env:S›".to_owned()), ("/etc/x.conf", 0o440, 5, "a $ b".to_owned())]
    );
    assert_eq!(web.compose.secrets.len(), 1);
    assert!(web.compose.configs.is_empty());
    assert_eq!(isolated.file_objects.secrets.keys().collect::<Vec<_>>(), ["file"]);
    assert_eq!(isolated.file_objects.secrets["file"].name, None);
    let model = |more: Value| {
        let mut service = json!({"image": "x", "secrets": [{"source": "env"}]});
        service.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"services": {"web": service}, "secrets": {"env": {"environment": "S"}}})
    };
    refused(
        model(json!({"read_only": true})),
        "services.web.secrets: secrets `env` cannot be put into `web`, whose file system is read-only",
    );
    let hidden =
        "services.web.tmpfs: `/run/secrets/env` of `web` would stand under the tmpfs `/run`, where it cannot be seen";
    refused(model(json!({"tmpfs": ["/run:size=1m"]})), hidden);
    refused(model(json!({"tmpfs": "/run"})), hidden);
    refused(model(json!({"volumes": [{"type": "tmpfs", "target": "/run"}]})), hidden);
    changed(model(json!({"tmpfs": ["/run/sec", "/tmp"]})), &[]);
}

#[test]
fn hooks_are_the_runtimes() {
    let isolated = changed(
        web(json!({"image": "x", "post_start": [
            {"command": ["a", "b"], "user": "u", "environment": {"K": "v"}},
            {"command": "echo hi", "environment": ["L=w"]},
        ]})),
        &[],
    );
    let hooks = &isolated.services["web"].post_start;
    assert_eq!(hooks[0].command, ["a", "b"]);
    assert_eq!((hooks[0].user.as_deref(), &hooks[0].environment[..]), (Some("u"), &["K=v".to_owned()][..]));
    assert_eq!(hooks[1].command, ["/bin/sh", "-c", "echo hi"]);
    assert!(isolated.services["web"].compose.post_start.is_empty());
}

#[test]
fn tokens_and_placeholders_cannot_be_forged() {
    let environment = |value: &str| web(json!({"image": "x", "environment": {"K": value}}));
    let good = format!("{PROJECT} {CHECKOUT} {}", token("env:A", Encoding::Url));
    changed(environment(&good), &[]);
    for wrong in [
        format!("{}x", secret::OPEN),
        format!("x{}", secret::CLOSE),
        format!("{}zenv:X{}", secret::OPEN, secret::CLOSE),
        "\u{E0F2}other\u{E0F3}".to_owned(),
        "\u{E0F2}".to_owned(),
        token(&format!("a{}b", secret::OPEN), Encoding::Raw),
    ] {
        refused(
            environment(&wrong),
            "services.web.environment.K: `services.web.environment.K` holds one of the characters U+E0F0 to U+E0F3, which are reserved",
        );
    }
    refused(environment("a\0b"), "services.web.environment.K: `services.web.environment.K` holds a NUL");
    refused(
        web(json!({"image": "x", "labels": {token("env:A", Encoding::Raw): "v"}})),
        "services.web.labels.‹env:A›: `services.web.labels.‹env:A›` holds a secret in a key, where none can stand",
    );
}
