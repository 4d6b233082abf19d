//! Names that only one of a machine can have.

use super::*;

#[test]
fn row_container_name() {
    let given = given(json!({
        "services": {
            "web": {"image": "x", "container_name": "shop-web", "networks": {"a": {"aliases": ["w"]}, "b": null}},
            "side": {"image": "x", "network_mode": "container:shop-web", "pid": "container:shop-web", "ipc": "container:shop-web",
                "volumes_from": ["container:shop-web:ro"]},
            "alone": {"image": "x", "container_name": "alone-1", "network_mode": "none"},
            "plain": {"image": "x", "container_name": "plain"},
        },
        "networks": {"a": null, "b": null},
    }));
    let copies = given.two();
    assert_eq!(
        copies[0].of("container-name"),
        [
            r#"/services/alone/container_name: "alone-1" → null"#,
            r#"/services/plain/container_name: "plain" → null"#,
            r#"/services/plain/networks: null → {"default":{"aliases":["plain"]}}"#,
            r#"/services/web/container_name: "shop-web" → null"#,
            r#"/services/web/networks/a/aliases/1: null → "shop-web""#,
            r#"/services/web/networks/b/aliases: null → ["shop-web"]"#,
        ]
    );
    assert_eq!(
        copies[0].of("container-reference"),
        [
            r#"/services/side/ipc: "container:shop-web" → "service:web""#,
            r#"/services/side/network_mode: "container:shop-web" → "service:web""#,
            r#"/services/side/pid: "container:shop-web" → "service:web""#,
            r#"/services/side/volumes_from/0: "container:shop-web:ro" → "web:ro""#,
        ]
    );
    assert!(copies[0].plan.services["side"].after.contains_key("web"), "what is joined is there first");
    assert!(met(&copies).is_empty());
    assert!(copies[0].told().is_empty(), "{:?}", copies[0].told());
}

#[test]
fn row_names_of_volumes_and_networks() {
    let given = given(json!({
        "services": {"web": {"image": "x", "networks": {"a": null, "b": null, "c": null}, "volumes": [
            {"type": "volume", "source": "a", "target": "/a"}, {"type": "volume", "source": "b", "target": "/b"}]}},
        "networks": {"a": {"name": format!("{PROJECT}_a")}, "b": {"name": "shared"}, "c": null, "unused": {}},
        "volumes": {"a": {"name": format!("{PROJECT}_a")}, "b": {"name": "shared"}, "c": null},
    }));
    let copies = given.two();
    assert_eq!(copies[0].of("network-name"), [r#"/networks/b/name: "shared" → "shop_dev_main_b""#]);
    assert_eq!(copies[0].of("volume-name"), [r#"/volumes/b/name: "shared" → "shop_dev_main_b""#]);
    assert_eq!(copies[1].part("/networks/c/name"), "shop_dev_two_c");
    assert_eq!(copies[1].part("/volumes/c/name"), "shop_dev_two_c");
    assert!(met(&copies).is_empty());
}

#[test]
fn what_names_a_network_follows_it() {
    let given = given(json!({
        "services": {"web": {"image": "x", "networks": {"web": null, "outer": null},
            "labels": {"traefik.docker.network": "proxy-net", "title": "proxy-net", "com.example.networks": "a,proxy-net"},
            "environment": {"VIRTUAL_NETWORK": "proxy-net", "NETWORK": "other", "NAME": "proxy-net", "OUTER_NETWORK": "edge"},
            "command": ["--providers.docker.network=proxy-net", "--network", "proxy-net", "proxy-net"]}},
        "networks": {"web": {"name": "proxy-net"}, "outer": {"external": true, "name": "edge"}},
    }));
    let copies = given.two();
    assert_eq!(
        copies[0].of("network-name"),
        [
            r#"/networks/web/name: "proxy-net" → "shop_dev_main_web""#,
            r#"/services/web/command/0: "--providers.docker.network=proxy-net" → "--providers.docker.network=shop_dev_main_web""#,
            r#"/services/web/command/2: "proxy-net" → "shop_dev_main_web""#,
            r#"/services/web/environment/VIRTUAL_NETWORK: "proxy-net" → "shop_dev_main_web""#,
            r#"/services/web/labels/com.example.networks: "a,proxy-net" → "a,shop_dev_main_web""#,
            r#"/services/web/labels/traefik.docker.network: "proxy-net" → "shop_dev_main_web""#,
        ]
    );
    // What is shared is called as before, what was chosen to be created is not.
    let created = given.choosing("{networks: {outer: create}}").copy();
    assert_eq!(created.web("environment/OUTER_NETWORK"), "shop_dev_main_outer");
}

#[test]
fn row_image_with_build() {
    let build = json!({"context": CHECKOUT, "tags": ["x:y"]});
    let mut given = given(json!({"services": {
        "web": {"image": "app", "build": build, "pull_policy": "build"},
        "worker": {"image": "app"},
        "loose": {"image": "loose", "build": build},
        "follows": {"image": "loose"},
    }}));
    given.builds.insert("web".to_owned(), "d".repeat(64));
    let copies = given.two();
    let tag = copies[0].web("image").as_str().unwrap().to_owned();
    assert!(tag.starts_with("sidestack-shop_web:"), "{tag}");
    assert_eq!(
        copies[0].of("image-tag"),
        [
            r#"/services/follows/image: "loose" → "shop_dev_main-loose""#.to_owned(),
            r#"/services/follows/pull_policy: null → "never""#.to_owned(),
            r#"/services/loose/build/tags: ["x:y"] → null"#.to_owned(),
            r#"/services/loose/image: "loose" → null"#.to_owned(),
            r#"/services/web/build/tags: ["x:y"] → null"#.to_owned(),
            format!(r#"/services/web/image: "app" → "{tag}""#),
            r#"/services/web/pull_policy: "build" → null"#.to_owned(),
            format!(r#"/services/worker/image: "app" → "{tag}""#),
            r#"/services/worker/pull_policy: null → "never""#.to_owned(),
        ]
    );
    // One content is one image; what has no digest is each copy's own.
    assert_eq!(copies[1].web("image"), &tag);
    assert_eq!(copies[1].part("/services/follows/image"), "shop_dev_two-loose");
    given.model["services"]["web"]["build"]["args"] = json!({"A": "1"});
    assert_ne!(given.copy().web("image"), &tag);
}

#[test]
fn row_links() {
    let given = given(json!({"services": {
        "web": {"image": "x", "links": ["db:database", "cache"],
            "external_links": ["shop-db:primary", "legacy", format!("{PROJECT}_cache_1:c"), "shop-db"]},
        "db": {"image": "x", "container_name": "shop-db"},
        "cache": {"image": "x"},
        "only": {"image": "x", "external_links": [format!("{PROJECT}-db-1:d")]},
    }}));
    let copies = given.two();
    assert_eq!(
        copies[0].of("container-reference"),
        [
            r#"/services/only/external_links: ["shop_dev_main-db-1:d"] → null"#,
            r#"/services/only/links: null → ["db:d"]"#,
            r#"/services/web/external_links: ["shop-db:primary","legacy","shop_dev_main_cache_1:c","shop-db"] → ["legacy"]"#,
            r#"/services/web/links/2: null → "db:primary""#,
            r#"/services/web/links/3: null → "cache:c""#,
            r#"/services/web/links/4: null → "db:shop-db""#,
        ]
    );
    assert!(copies[0].plan.services["only"].after.contains_key("db"));
    // What is not of the stack is shared.
    assert_eq!(
        copies[0].told(),
        ["warning services.web.external_links: `web` uses the container `legacy`, which is not of this stack"]
    );
}

#[test]
fn files_have_names_of_their_own() {
    let copy = copy(json!({
        "services": {"web": {"image": "x", "secrets": [{"source": "s"}], "configs": [{"source": "c"}]}},
        "secrets": {"s": {"file": format!("{CHECKOUT}/s"), "name": "fixed"}},
        "configs": {"c": {"file": format!("{CHECKOUT}/c"), "name": format!("{PROJECT}_c")}},
    }));
    assert_eq!(copy.of("file-name"), [r#"/secrets/s/name: "fixed" → "shop_dev_main_s""#]);
    assert_eq!(copy.part("/configs/c"), &json!({"file": "/src/shop/c", "name": "shop_dev_main_c"}));
}
