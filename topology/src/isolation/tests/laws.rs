//! Laws of isolation, as properties over models made at random.
//!
//! That the report is the whole difference, both ways, and that no entry is
//! without a rule, is asserted for every copy that [`Given::at`] makes.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// One of a few texts, so that names meet.
fn one(of: &'static [&'static str]) -> impl Strategy<Value = Value> {
    select(of).prop_map(Value::from)
}

/// A part of an object that may be left out.
fn part(key: &'static str, value: impl Strategy<Value = Value>) -> impl Strategy<Value = Option<(String, Value)>> {
    option::of(value).prop_map(move |value| value.map(|value| (key.to_owned(), value)))
}

fn object(parts: impl IntoIterator<Item = Option<(String, Value)>>) -> Value {
    Value::Object(parts.into_iter().flatten().collect())
}

fn port() -> impl Strategy<Value = Value> {
    let published = one(&["80", "3000", "8080", "8000-8003", "5432"]);
    let parts = (
        select(vec![80_u16, 3000, 5432]),
        part("published", published),
        part("protocol", one(&["tcp", "udp"])),
        part("host_ip", one(&["0.0.0.0", "127.0.0.1", "::1"])),
    );
    parts.prop_map(|(target, published, protocol, host_ip)| {
        object([Some(("target".to_owned(), target.into())), published, protocol, host_ip])
    })
}

fn mount() -> impl Strategy<Value = Value> {
    let sources = (select(vec!["data", "logs"]), select(vec!["/srv", "/var/run/docker.sock"]), 0..4);
    sources.prop_map(|(volume, path, kind)| match kind {
        0 => json!({"type": "volume", "source": volume, "target": "/v"}),
        1 => json!({"type": "bind", "source": path, "target": "/b"}),
        2 => json!({"type": "bind", "source": format!("{CHECKOUT}/{volume}"), "target": "/c", "read_only": volume == "logs"}),
        _ => json!({"type": "volume", "target": "/anonymous"}),
    })
}

fn text() -> impl Strategy<Value = Value> {
    one(&[
        "",
        "plain",
        "$ ${X} $$",
        "http://localhost:3000/x",
        "a,http://127.0.0.1:8080,b",
        "http://host.docker.internal:5432",
        "172.28.0.5",
        "http://172.28.0.6:80/172.28.0.5",
        "0.0.0.0:80",
        "größe\nzwei",
    ])
}

fn joined() -> impl Strategy<Value = Value> {
    let parts = (
        part("ipv4_address", one(&["172.28.0.5", "172.28.0.6", "172.28.1.5"])),
        part("mac_address", one(&["02:42:ac:11:00:02"])),
        part("aliases", vec(one(&["db", "alias"]), 0..2).prop_map(Value::from)),
    );
    prop_oneof![Just(Value::Null), parts.prop_map(|(address, mac, aliases)| object([address, mac, aliases]))]
}

fn service() -> impl Strategy<Value = Value> {
    let network = prop_oneof![
        btree_map(select(vec!["a", "b/c~d", "default", "outer"]).prop_map(str::to_owned), joined(), 0..3)
            .prop_map(|networks| Some(("networks".to_owned(), json!(networks)))),
        one(&["host", "bridge", "none"]).prop_map(|mode| Some(("network_mode".to_owned(), mode))),
    ];
    let first = (
        part("container_name", one(&["one", "two"])),
        part("restart", one(&["always", "unless-stopped", "no", "on-failure"])),
        part("scale", select(vec![0_u32, 1, 3]).prop_map(Value::from)),
        part(
            "environment",
            btree_map("[A-C]", prop_oneof![Just(Value::Null), text()], 0..3).prop_map(|map| json!(map)),
        ),
        part("command", vec(text(), 1..3).prop_map(Value::from)),
        part(
            "labels",
            btree_map("(traefik[.]http[.]routers[.][ab][.](rule|service))|x", one(&["Host(`a`)", "a"]), 0..3)
                .prop_map(|map| json!(map)),
        ),
    );
    let second = (
        part("ports", vec(port(), 0..3).prop_map(Value::from)),
        part("volumes", vec(mount(), 0..3).prop_map(Value::from)),
        part("profiles", one(&["p"]).prop_map(|profile| json!([profile]))),
        part("build", one(&["."]).prop_map(|_| json!({"context": CHECKOUT, "tags": ["t"], "args": {"A": null}}))),
        part("healthcheck", text().prop_map(|text| json!({"test": ["CMD-SHELL", text]}))),
        part("expose", one(&["3000"]).prop_map(|port| json!([port]))),
        part("links", one(&["s1", "s2:x"]).prop_map(|link| json!([link]))),
        network,
    );
    (first, second).prop_map(|(a, b)| {
        let image = Some(("image".to_owned(), Value::from("img")));
        let mut service = object([image, a.0, a.1, a.2, a.3, a.4, a.5, b.0, b.1, b.2, b.3, b.4, b.5, b.6, b.7]);
        // One address is not for several containers.
        if service.get("scale").is_some_and(|scale| scale == 3) {
            let joined = service.get_mut("networks").and_then(Value::as_object_mut).into_iter().flatten();
            for (_, joined) in joined {
                joined.as_object_mut().and_then(|joined| joined.remove("ipv4_address"));
            }
        }
        // Compose itself refuses both.
        if service.get("network_mode").is_some_and(|mode| mode == "none") {
            service.as_object_mut().unwrap().remove("ports");
        }
        service
    })
}

fn model() -> impl Strategy<Value = Value> {
    let network = (
        part("name", one(&["fixed"])),
        part("internal", Just(Value::from(true))),
        part(
            "ipam",
            one(&["172.28.0.0/16", "172.28.0.0/24"]).prop_map(|subnet| json!({"config": [{"subnet": subnet}]})),
        ),
    );
    let network =
        prop_oneof![Just(Value::Null), network.prop_map(|(name, internal, ipam)| object([name, internal, ipam]))];
    let volume = prop_oneof![
        Just(Value::Null),
        Just(json!({})),
        Just(json!({"name": "fixed"})),
        Just(json!({"labels": {"x": ""}}))
    ];
    (vec(service(), 1..5), network.clone(), network.clone(), option::of(network), volume.clone(), volume).prop_map(
        |(services, a, b, default, data, logs)| {
            let count = services.len();
            let mut services: BTreeMap<String, Value> =
                services.into_iter().enumerate().map(|(at, service)| (format!("s{at}"), service)).collect();
            for service in services.values_mut() {
                // A link is to somebody, and not to oneself through others.
                let map = service.as_object_mut().unwrap();
                if count < 4 {
                    map.remove("links");
                }
            }
            for name in ["s1", "s2"] {
                services.get_mut(name).and_then(Value::as_object_mut).and_then(|service| service.remove("links"));
            }
            let mut networks = json!({"a": a, "b/c~d": b, "outer": {"external": true, "name": "outer"}});
            if let Some(default) = default {
                networks["default"] = default;
            }
            json!({"services": services, "networks": networks, "volumes": {"data": data, "logs": logs}, "x-note": 1})
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn two_copies_share_nothing_and_the_report_tells_all(model in model(), create in any::<bool>(), profile in any::<bool>()) {
        let mut given = given(model);
        if create {
            given = given.choosing("{networks: {outer: create}}");
        }
        if profile {
            given.profiles = vec!["p".to_owned()];
        }
        // The laws of the report are asserted on the way.
        let copies = given.two();
        for met in met(&copies) {
            let told = copies[0].plan.shared.iter().any(|shared| {
                let end = shared.item.rsplit(':').next().unwrap_or_default();
                met.ends_with(&format!(" {end}"))
            });
            prop_assert!(told && !create, "{met}");
        }
        for copy in &copies {
            // What is told as shared is all that can meet outside the model's names.
            let binds = copy.services().flat_map(|service| {
                service.get("volumes").and_then(Value::as_array).into_iter().flatten()
            });
            for source in binds.filter(|mount| mount["type"] == "bind").filter_map(|mount| mount["source"].as_str()) {
                let told = copy.plan.shared.iter().any(|shared| shared.item.ends_with(source));
                prop_assert!(told || source.starts_with("/src/shop"), "{source}");
            }
        }
    }

    #[test]
    fn the_same_place_gives_the_same_copy(model in model()) {
        let given = given(model);
        let (one, other) = (given.copy(), given.copy());
        prop_assert_eq!(one.model, other.model);
        prop_assert_eq!(one.report, other.report);
    }
}
