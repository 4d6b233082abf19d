//! What is external: shared, copied or created, by choice.

use super::*;
use crate::plan::Answer;

fn outer() -> Given {
    given(json!({
        "services": {
            "web": {"image": "x", "networks": {"proxy": {"aliases": ["w"]}}, "volumes": [{"type": "volume", "source": "data", "target": "/d"}]},
            "db": {"image": "x", "networks": {"proxy": null}},
        },
        "networks": {"proxy": {"external": true, "name": "edge"}},
        "volumes": {"data": {"external": true, "name": "prod-data"}},
    }))
}

#[test]
fn row_external() {
    // Nothing chosen: as under Compose, with a warning; a second copy is asked.
    let copies = outer().two();
    assert_eq!(met(&copies), ["networks edge", "volumes prod-data"]);
    let items: Vec<_> = copies[0].plan.shared.iter().map(|shared| (shared.item.as_str(), shared.answer)).collect();
    assert_eq!(
        items,
        [
            ("network:proxy", Answer::Choice(&["share", "create"])),
            ("volume:data", Answer::Choice(&["share", "copy", "create"]))
        ]
    );
    assert_eq!(
        copies[0].told(),
        [
            "warning networks.proxy: network `proxy` is external (`edge`): its containers and those of other stacks see each other",
            "warning volumes.data: volume `data` is external (`prod-data`): what is written to it, others read",
        ]
    );
    // Each choice, with what is left in common.
    for (isolation, common, copied) in [
        ("{networks: {proxy: share}, volumes: {data: share}}", &["networks edge", "volumes prod-data"][..], None),
        ("{networks: {proxy: create}, volumes: {data: create}}", &[], None),
        ("{networks: {proxy: create}, volumes: {data: copy}}", &[], Some("prod-data")),
        ("{networks: {proxy: share}, volumes: {data: copy}}", &["networks edge"], Some("prod-data")),
    ] {
        let copies = outer().choosing(isolation).two();
        assert_eq!(met(&copies), common, "{isolation}");
        assert!(copies[0].plan.shared.is_empty(), "{isolation}");
        let told: &[&str] = match isolation.contains("proxy: share") {
            true => &[
                "warning networks.proxy: in the shared network `proxy` one name means a container of every copy: `db`, `web`",
            ],
            false => &[],
        };
        assert_eq!(copies[0].told(), told, "{isolation}");
        assert_eq!(copies[0].plan.copies.get("data").map(String::as_str), copied, "{isolation}");
    }
    let created = outer().choosing("{networks: {proxy: create}, volumes: {data: create}}").copy();
    assert_eq!(
        created.of("external-volume"),
        [r#"/volumes/data/external: true → null"#, r#"/volumes/data/name: "prod-data" → "shop_dev_main_data""#]
    );
    assert_eq!(
        created.of("external-network"),
        [r#"/networks/proxy/external: true → null"#, r#"/networks/proxy/name: "edge" → "shop_dev_main_proxy""#]
    );
}

#[test]
fn row_shared_external_network() {
    let copies = outer().choosing("{networks: {proxy: {share: [web]}}, volumes: {data: create}}").two();
    assert_eq!(met(&copies), ["networks edge"]);
    for copy in &copies {
        // `db` of one copy is not found by the other's, nor by a stranger.
        assert_eq!(copy.part("/services/db/networks"), &json!({"proxy": {}}));
        assert_eq!(copy.web("networks"), &json!({"proxy": {"aliases": ["w"]}, "proxy-shared": {}}));
        assert_eq!(copy.part("/networks/proxy-shared"), &json!({"external": true, "name": "edge"}));
        assert_ne!(copy.part("/networks/proxy/name"), "edge");
    }
    assert!(copies[0].of("external-network").contains(&"/services/web/networks/proxy-shared: null → {}".to_owned()));
}

#[test]
fn an_address_in_a_network_of_others_runs_once() {
    let mut given = outer();
    given.model["services"]["db"]["networks"]["proxy"] = json!({"ipv4_address": "172.28.0.5"});
    let copy = given.copy();
    let fixed = copy.plan.shared.iter().find(|shared| shared.item == "db:172.28.0.5").unwrap();
    assert_eq!(fixed.answer, Answer::Exclusive);
    assert_eq!(copy.part("/services/db/networks/proxy/ipv4_address"), "172.28.0.5");
    // In a network of the stack's own it moves.
    for isolation in [
        "{networks: {proxy: create}, volumes: {data: create}}",
        "{networks: {proxy: {share: [web]}}, volumes: {data: create}}",
    ] {
        let mut given = given.model.clone();
        given["services"]["web"]["networks"]["proxy"] = json!({"ipv4_address": "172.28.0.6"});
        let copies = super::given(given).choosing(isolation).two();
        assert!(copies[0].plan.shared.is_empty(), "{isolation}");
        assert!(met(&copies).iter().all(|met| met == "networks edge"), "{isolation}: {:?}", met(&copies));
    }
}

#[test]
fn choices_for_what_is_not_there_are_faults() {
    for (isolation, expected) in [
        ("{networks: {prxy: create}}", "isolation.networks.prxy: the compose files have no external network `prxy`"),
        ("{volumes: {dat: copy}}", "isolation.volumes.dat: the compose files have no external volume `dat`"),
        (
            "{networks: {proxy: {share: [wep]}}}",
            "isolation.networks.proxy: `wep` is to stand in network `proxy`, but there is no such service",
        ),
    ] {
        let faults = outer().choosing(isolation).faults();
        assert!(faults.iter().any(|fault| fault == expected), "{faults:#?}");
    }
}
