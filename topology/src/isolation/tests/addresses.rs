//! Subnets, fixed addresses, bridges and hardware addresses.

use super::*;

fn fixed() -> Given {
    given(json!({
        "services": {
            "web": {"image": "x", "networks": {"net": {"ipv4_address": "172.28.0.10", "ipv6_address": "2001:db8::10"}}, "hostname": "web",
                "environment": {"DB_HOST": "172.28.1.20", "URL": "http://172.28.1.20:5432/x", "OTHER": "172.28.1.200", "NET": "172.28.0.0/16",
                    "V6": "[2001:db8::20]:80", "V6NET": "2001:db8::/64 by 2001:db8::1", "SECOND": "172.29.0.0/16 by 172.29.0.1"},
                "command": ["--db", "172.28.1.20"], "entrypoint": ["run", "--self=172.28.0.10"],
                "labels": {"where": "172.28.0.10"}, "extra_hosts": ["db=172.28.1.20"], "dns": ["172.28.1.20"],
                "healthcheck": {"test": ["CMD-SHELL", "nc 172.28.1.20 5432"]}},
            "db": {"image": "x", "networks": {"net": {"ipv4_address": "172.28.1.20", "ipv6_address": "2001:db8::20"}}},
        },
        "networks": {"net": {"enable_ipv6": true, "ipam": {"driver": "default", "config": [
            {"subnet": "172.28.0.0/16", "gateway": "172.28.0.1", "ip_range": "172.28.5.0/24", "aux_addresses": {"router": "172.28.0.2"}},
            {"subnet": "172.29.0.0/16", "gateway": "172.29.0.1"},
            {"subnet": "2001:db8::/64", "gateway": "2001:db8::1"},
        ]}}},
    }))
}

#[test]
fn row_fixed_addresses() {
    let copies = fixed().two();
    assert!(met(&copies).is_empty(), "{:?}", met(&copies));
    assert_eq!(
        copies[0].part("/networks/net/ipam"),
        &json!({"driver": "default", "config": [
            {"subnet": "10.231.6.0/24", "gateway": "10.231.6.1", "ip_range": "10.231.6.128/26", "aux_addresses": {"router": "10.231.6.2"}},
            {"subnet": "fd53:6465:3:0::/64", "gateway": "fd53:6465:3::1"},
        ]})
    );
    assert_eq!(
        copies[0].web("networks/net"),
        &json!({"ipv4_address": "10.231.6.10", "ipv6_address": "fd53:6465:3::10"})
    );
    assert_eq!(copies[1].web("networks/net/ipv4_address"), "10.231.8.10");
    // And wherever the address is written.
    assert_eq!(
        copies[0].web("environment"),
        &json!({"DB_HOST": "10.231.6.20", "URL": "http://10.231.6.20:5432/x", "OTHER": "172.28.1.200", "NET": "10.231.6.0/24",
            "V6": "[fd53:6465:3::20]:80", "V6NET": "fd53:6465:3:0::/64 by fd53:6465:3::1", "SECOND": "10.231.6.0/24 by 10.231.6.254"})
    );
    let written: Vec<String> =
        copies[0].of("address").into_iter().filter(|change| !change.contains("environment")).collect();
    assert_eq!(
        written,
        [
            r#"/services/db/networks/net/ipv4_address: "172.28.1.20" → "10.231.6.20""#,
            r#"/services/db/networks/net/ipv6_address: "2001:db8::20" → "fd53:6465:3::20""#,
            r#"/services/web/command/1: "172.28.1.20" → "10.231.6.20""#,
            r#"/services/web/dns/0: "172.28.1.20" → "10.231.6.20""#,
            r#"/services/web/entrypoint/1: "--self=172.28.0.10" → "--self=10.231.6.10""#,
            r#"/services/web/extra_hosts/0: "db=172.28.1.20" → "db=10.231.6.20""#,
            r#"/services/web/healthcheck/test/1: "nc 172.28.1.20 5432" → "nc 10.231.6.20 5432""#,
            r#"/services/web/labels/where: "172.28.0.10" → "10.231.6.10""#,
            r#"/services/web/networks/net/ipv4_address: "172.28.0.10" → "10.231.6.10""#,
            r#"/services/web/networks/net/ipv6_address: "2001:db8::10" → "fd53:6465:3::10""#,
        ]
    );
}

#[test]
fn the_beginning_of_a_subnet_follows_where_last_numbers_stay() {
    let model = |subnet: &str| {
        json!({
            "services": {"web": {"image": "x", "networks": {"net": {"ipv4_address": "172.22.1.254"}},
                "environment": {"NET": "172.22.1", "BASE": "172.22.1.0", "HOST": "172.22.1.254", "OTHER": "172.22.1.7 172.22.10 1.172.22.1"}}},
            "networks": {"net": {"ipam": {"config": [{"subnet": subnet}]}}},
        })
    };
    assert_eq!(
        copy(model("172.22.1.0/24")).web("environment"),
        &json!({"NET": "10.231.6", "BASE": "10.231.6.0", "HOST": "10.231.6.254", "OTHER": "172.22.1.7 172.22.10 1.172.22.1"})
    );
    assert_eq!(copy(model("172.22.0.0/16")).web("environment/NET"), "172.22.1");
}

#[test]
fn row_bridge_and_hardware_names() {
    let copies = given(json!({
        "services": {"web": {"image": "x", "mac_address": "02:42:ac:11:00:01",
            "networks": {"n": {"mac_address": "02:42:ac:11:00:02", "link_local_ips": ["169.254.1.1"], "aliases": ["w"]}}}},
        "networks": {
            "n": {"driver_opts": {"com.docker.network.bridge.name": "br-shop", "com.docker.network.driver.mtu": "1400"}},
            "m": {"driver_opts": {"com.docker.network.bridge.name": "br-m"}},
        },
    }))
    .two();
    assert_eq!(
        copies[0].of("bridge-name"),
        [
            r#"/networks/m/driver_opts: {"com.docker.network.bridge.name":"br-m"} → null"#,
            r#"/networks/n/driver_opts/com.docker.network.bridge.name: "br-shop" → null"#,
        ]
    );
    assert_eq!(
        copies[0].of("mac-address"),
        [
            r#"/services/web/mac_address: "02:42:ac:11:00:01" → null"#,
            r#"/services/web/networks/n/link_local_ips: ["169.254.1.1"] → null"#,
            r#"/services/web/networks/n/mac_address: "02:42:ac:11:00:02" → null"#,
        ]
    );
    assert_eq!(copies[0].web("networks/n"), &json!({"aliases": ["w"]}));
    assert!(met(&copies).is_empty());
}

#[test]
fn an_overlay_becomes_a_bridge() {
    let copy = copy(json!({
        "services": {"web": {"image": "x", "networks": {"o": null}}},
        "networks": {"o": {"driver": "overlay", "attachable": true}},
    }));
    assert_eq!(
        copy.of("network-driver"),
        [r#"/networks/o/attachable: true → null"#, r#"/networks/o/driver: "overlay" → null"#]
    );
    assert!(copy.told().is_empty());
}

#[test]
fn the_network_with_fixed_addresses_has_the_most_room() {
    let service = |at: usize| {
        let networks = json!({"zone": {"ipv4_address": format!("172.20.0.{}", at + 2)}, "a": null});
        (format!("s{at}"), json!({"image": "x", "networks": networks}))
    };
    let services: serde_json::Map<String, Value> = (0..100).map(service).collect();
    let model = json!({"services": services, "networks": {"a": null, "zone": {"ipam": {"config": [{"subnet": "172.20.0.0/24"}]}}}});
    let copies = given(model).two();
    assert_eq!(copies[0].part("/networks/zone/ipam/config/0/subnet"), "10.231.6.0/24");
    assert!(met(&copies).is_empty());
}

#[test]
fn networks_beyond_the_instances_part_are_dockers_to_place() {
    let networks: serde_json::Map<String, Value> = (0..12).map(|at| (format!("n{at:02}"), Value::Null)).collect();
    let model = json!({"services": {"web": {"image": "x", "networks": networks}}, "networks": networks});
    let copies = given(model).two();
    let subnets = copies[0].model["networks"].as_object().unwrap();
    assert_eq!(subnets.values().filter(|network| network.get("ipam").is_some()).count(), 8);
    assert!(met(&copies).is_empty());
    // An address in one of them could not be kept.
    let mut model = json!({"services": {}, "networks": networks});
    for (at, key) in networks.keys().enumerate() {
        model["services"][format!("s{at}")] =
            json!({"image": "x", "networks": {key: {"ipv4_address": format!("172.20.{at}.2")}}});
    }
    assert_eq!(
        given(model).faults(),
        ["networks.n09", "networks.n10", "networks.n11"].map(|path| format!(
            "{path}: network `{}` fixes addresses, and is not among the 9 that can have some",
            &path[9..]
        ))
    );
}
