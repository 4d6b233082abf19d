//! Things of the machine that every copy would share.

use super::*;
use crate::plan::Answer;

/// Items with what a second copy needs.
fn items(copy: &Copy) -> Vec<(&str, Answer)> {
    copy.plan.shared.iter().map(|shared| (shared.item.as_str(), shared.answer)).collect()
}

#[test]
fn row_host_state() {
    let copies = web(json!({
        "image": "x", "privileged": true, "pid": "host", "ipc": "host", "uts": "host", "cgroup": "host",
        "userns_mode": "host", "use_api_socket": true,
        "volumes": [
            {"type": "bind", "source": "/var/run/docker.sock", "target": "/s"},
            {"type": "bind", "source": "/srv/data", "target": "/d", "read_only": true},
            {"type": "bind", "source": format!("{CHECKOUT}/../beside"), "target": "/b"},
            {"type": "bind", "source": format!("{CHECKOUT}x"), "target": "/x"},
            {"type": "bind", "source": format!("{CHECKOUT}/a..b"), "target": "/a"},
        ],
    }))
    .two();
    let consent = [
        "web:pid",
        "web:ipc",
        "web:uts",
        "web:cgroup",
        "web:userns_mode",
        "web:privileged",
        "web:use_api_socket",
        "web:/var/run/docker.sock",
        "web:/srv/data",
    ];
    let mut expected: Vec<(&str, Answer)> = consent.into_iter().map(|item| (item, Answer::Consent)).collect();
    expected.push(("web:../beside", Answer::ConsentHere));
    expected.push(("web:x", Answer::ConsentHere));
    for copy in &copies {
        assert_eq!(items(copy), expected);
        // The first copy runs as it would under Compose, with a warning that says how to agree to a second.
        assert!(copy.changes().iter().all(|change| !change.contains("volumes") && !change.contains("privileged")));
        assert_eq!(copy.faults.len(), expected.len());
        let hint = copy.faults[7].hint.as_deref().unwrap();
        assert!(hint.contains("`sidestack trust 'web:/var/run/docker.sock'`"), "{hint}");
    }
    assert!(copies[0].told()[7].contains("Docker's socket"), "{:?}", copies[0].told());
}

#[test]
fn containers_outside_the_stack_are_shared() {
    let copy = web(json!({
        "image": "x", "network_mode": "container:other", "pid": "container:other", "ipc": "container:third",
        "volumes_from": ["container:data:ro"], "external_links": ["legacy:l"],
    }))
    .copy();
    let names: Vec<&str> = items(&copy).into_iter().map(|(item, _)| item).collect();
    assert_eq!(
        names,
        [
            "web:container:other",
            "web:container:third",
            "web:container:other",
            "web:container:legacy",
            "web:container:data"
        ]
    );
    assert_eq!(copy.web("network_mode"), "container:other");
}

#[test]
fn row_relative_bind_mount() {
    let bind = |source: &str, read_only: bool| json!({"type": "bind", "source": source, "target": "/t", "read_only": read_only});
    let given = given(json!({"services": {
        "web": {"image": "x", "volumes": [bind(&format!("{CHECKOUT}/data"), false), bind(&format!("{CHECKOUT}/etc"), true)]},
        "app": {"image": "x", "volumes": [bind(CHECKOUT, false), bind(&format!("{CHECKOUT}/data"), false), bind("/srv", false)]},
    }}));
    // Another checkout has files of its own: nothing is changed and nothing asked. Two instances of one are told.
    let copy = given.copy();
    assert_eq!(copy.web("volumes/0/source"), "/src/shop/data");
    assert_eq!(items(&copy), [("app:/srv", Answer::Consent)]);
    let written: Vec<(String, Vec<String>)> =
        given.draft().1.written.into_iter().map(|(path, by)| (path, by.into_iter().collect())).collect();
    let by = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    assert_eq!(written, [(".".to_owned(), by(&["app"])), ("data".to_owned(), by(&["app", "web"]))]);
}

#[test]
fn row_anonymous_volume() {
    let copies = web(json!({"image": "x", "volumes": [{"type": "volume", "target": "/data"}]})).two();
    for copy in &copies {
        // Without a name Docker makes one for each container; it is removed with it.
        assert_eq!(copy.web("volumes"), &json!([{"type": "volume", "target": "/data"}]));
        assert_eq!(copy.part("/volumes"), &Value::Null);
        assert!(copy.told().is_empty() && copy.plan.shared.is_empty());
    }
}

#[test]
fn volumes_bound_to_a_path_of_the_host() {
    let bound = |device: &str| {
        let options = json!({"type": "none", "o": "bind", "device": device});
        let model = json!({
            "services": {"web": {"image": "x", "volumes": [{"type": "volume", "source": "v", "target": "/v"}]}},
            "volumes": {"v": {"driver": "local", "driver_opts": options}},
        });
        items(&copy(model)).into_iter().map(|(item, answer)| (item.to_owned(), answer)).collect::<Vec<_>>()
    };
    assert_eq!(bound("/srv"), [("volume:v".to_owned(), Answer::Consent)]);
    assert!(bound(&format!("{CHECKOUT}/data")).is_empty());
    assert!(bound("tmpfs").is_empty());
    let by = |driver: Value, options: Value| {
        let volume = json!({"driver": driver, "driver_opts": options});
        copy(json!({"services": {}, "volumes": {"v": volume}})).plan.shared.len()
    };
    assert_eq!(by(json!("rclone"), json!({"remote": "bucket:/x"})), 1);
    assert_eq!(by(json!("rclone"), json!({})) + by(json!("local"), json!({"o": "size=1m"})), 0);
}

#[test]
fn row_gpus_and_devices() {
    for (service, expected) in [
        (json!({"devices": ["/dev/kvm"]}), "services.web.devices: `web` uses `devices`"),
        (json!({"gpus": [{"count": -1}]}), "services.web.gpus: `web` uses `gpus`"),
        (json!({"runtime": "nvidia"}), "services.web.runtime: `web` uses the GPUs"),
        (
            json!({"device_cgroup_rules": ["c 1:3 mr"]}),
            "services.web.device_cgroup_rules: `web` uses `device_cgroup_rules`",
        ),
        (
            json!({"deploy": {"resources": {"reservations": {"devices": [{"capabilities": ["gpu"]}]}}}}),
            "services.web.deploy: `web` reserves devices",
        ),
    ] {
        let copy = web(service).copy();
        assert_eq!(copy.told(), [format!("warning {expected} of the host, which every copy shares")]);
        assert!(copy.plan.shared.is_empty(), "nobody is asked");
    }
}

#[test]
fn networks_of_the_machine_itself_run_once() {
    let copy = copy(json!({
        "services": {"web": {"image": "x", "networks": {"lan": {"ipv4_address": "192.168.1.5"}}}},
        "networks": {"lan": {"driver": "macvlan", "driver_opts": {"parent": "eth0"},
            "ipam": {"config": [{"subnet": "192.168.1.0/24"}]}}},
    }));
    assert_eq!(items(&copy), [("network:lan", Answer::Exclusive)]);
    // An address of the machine's own network is no address of the stack's.
    assert_eq!(copy.web("networks/lan/ipv4_address"), "192.168.1.5");
    assert_eq!(copy.part("/networks/lan/ipam/config/0/subnet"), "192.168.1.0/24");
}
