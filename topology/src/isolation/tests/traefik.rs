//! Labels by which a proxy finds containers.

use super::*;

#[test]
fn row_traefik() {
    let copies = given(json!({"services": {
        "proxy": {"image": "traefik", "command": ["--providers.docker", "--providers.docker.exposedbydefault=false"],
            "volumes": [{"type": "bind", "source": "/var/run/docker.sock", "target": "/var/run/docker.sock"}]},
        "web": {"image": "x", "labels": {
            "traefik.enable": "true",
            "traefik.http.routers.web.rule": "Host(`shop.localhost`) && PathPrefix(`/x`)",
            "traefik.http.routers.web.middlewares": "auth,strip@docker,other@file",
            "traefik.http.routers.web.service": "web",
            "traefik.http.middlewares.auth.basicauth.users": "u:p",
            "traefik.http.middlewares.strip.stripprefix.prefixes": "/x",
            "traefik.http.services.web.loadbalancer.server.port": "80",
            "traefik.tcp.routers.db.rule": "HostSNI(`*`)",
        }},
    }}))
    .two();
    let labels = |copy: &Copy| -> BTreeMap<String, Value> {
        let labels = copy.web("labels").as_object().unwrap().clone();
        labels.into_iter().filter(|(key, _)| key.starts_with("traefik.")).collect()
    };
    let (one, other) = (labels(&copies[0]), labels(&copies[1]));
    assert_eq!(
        one["traefik.http.routers.web-shop_dev_main.rule"],
        "Host(`shop.main.dev.shop.localhost`) && PathPrefix(`/x`)"
    );
    assert_eq!(
        one["traefik.http.routers.web-shop_dev_main.middlewares"],
        "auth-shop_dev_main,strip-shop_dev_main@docker,other@file"
    );
    assert_eq!(one["traefik.http.routers.web-shop_dev_main.service"], "web-shop_dev_main");
    // Nothing but what names nothing is the same in both.
    let same: Vec<&String> = one.keys().filter(|key| other.contains_key(*key)).collect();
    assert_eq!(same, ["traefik.enable"]);
    assert_eq!(copies[0].of("traefik").len(), 1 + 2 * 7);
    // The proxy sees its own project only.
    for (copy, project) in copies.iter().zip(["shop_dev_main", "shop_dev_two"]) {
        assert_eq!(
            copy.part("/services/proxy/command/2"),
            &format!("--providers.docker.constraints=Label(`com.docker.compose.project`,`{project}`)")
        );
    }
}

#[test]
fn a_proxy_that_reads_variables_and_labels_of_version_1() {
    let copy = copy(json!({"services": {
        "proxy": {"image": "traefik", "environment": {"TRAEFIK_PROVIDERS_DOCKER": "true"},
            "volumes": [{"type": "bind", "source": "/var/run/docker.sock", "target": "/s"}]},
        "old": {"image": "x", "labels": {"traefik.frontend.rule": "Host:shop.localhost", "traefik.backend": "shop", "traefik.port": "80"}},
    }}));
    assert_eq!(
        copy.part("/services/proxy/environment/TRAEFIK_PROVIDERS_DOCKER_CONSTRAINTS"),
        "Label(`com.docker.compose.project`,`shop_dev_main`)"
    );
    assert_eq!(
        copy.of("traefik").into_iter().filter(|change| change.contains("/old/")).collect::<Vec<_>>(),
        [
            r#"/services/old/labels/traefik.backend: "shop" → "shop-shop_dev_main""#,
            r#"/services/old/labels/traefik.frontend.rule: "Host:shop.localhost" → "Host:shop.main.dev.shop.localhost""#,
        ]
    );
}

#[test]
fn a_proxy_that_is_told_what_to_see_is_left_alone() {
    for command in [json!(["--providers.docker", "--providers.docker.constraints=Label(`a`,`b`)"]), json!(["--api"])] {
        let copy = copy(json!({"services": {"proxy": {"image": "traefik", "command": command,
            "volumes": [{"type": "bind", "source": "/var/run/docker.sock", "target": "/s"}]}}}));
        assert!(copy.of("traefik").is_empty());
    }
}
