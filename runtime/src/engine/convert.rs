//! From the client library's models to ours.

use std::collections::BTreeMap;

use bollard::models;

use super::types::{
    Container, Detail, Health, HealthCheck, Image, Mount, Network, Protocol, Published, Status, Volume,
};

const SERVICE: &str = "com.docker.compose.service";
const PROJECT: &str = "com.docker.compose.project";
const NUMBER: &str = "com.docker.compose.container-number";
const ONEOFF: &str = "com.docker.compose.oneoff";

/// One row of the container list.
pub(super) fn container(from: models::ContainerSummary) -> Container {
    let labels: BTreeMap<String, String> = from.labels.unwrap_or_default().into_iter().collect();
    let text = from.status.unwrap_or_default();
    let status = match from.state {
        Some(models::ContainerSummaryStateEnum::RUNNING | models::ContainerSummaryStateEnum::STOPPING) => {
            Status::Running
        }
        Some(models::ContainerSummaryStateEnum::PAUSED) => Status::Paused,
        Some(models::ContainerSummaryStateEnum::RESTARTING) => Status::Restarting,
        Some(models::ContainerSummaryStateEnum::REMOVING) => Status::Removing,
        Some(models::ContainerSummaryStateEnum::EXITED) => Status::Exited(exit_code(&text)),
        Some(models::ContainerSummaryStateEnum::DEAD) => Status::Dead,
        Some(models::ContainerSummaryStateEnum::CREATED | models::ContainerSummaryStateEnum::EMPTY) | None => {
            Status::Created
        }
    };
    let health = match from.health.and_then(|health| health.status) {
        Some(models::ContainerSummaryHealthStatusEnum::STARTING) => Health::Starting,
        Some(models::ContainerSummaryHealthStatusEnum::HEALTHY) => Health::Healthy,
        Some(models::ContainerSummaryHealthStatusEnum::UNHEALTHY) => Health::Unhealthy,
        Some(models::ContainerSummaryHealthStatusEnum::NONE) => Health::None,
        Some(models::ContainerSummaryHealthStatusEnum::EMPTY) | None => health_in(&text),
    };
    let mut published: Vec<Published> = from.ports.unwrap_or_default().into_iter().filter_map(port).collect();
    published.sort();
    published.dedup();
    let mut mounts: Vec<String> = from
        .mounts
        .unwrap_or_default()
        .into_iter()
        .filter(|mount| mount.typ.as_deref() == Some("volume"))
        .filter_map(|mount| mount.name)
        .collect();
    mounts.sort();
    Container {
        id: from.id.unwrap_or_default(),
        name: own_name(&from.names.unwrap_or_default()),
        service: labels.get(SERVICE).cloned(),
        number: labels.get(NUMBER).and_then(|n| n.parse().ok()).unwrap_or(1),
        project: labels.get(PROJECT).cloned(),
        image: from.image.unwrap_or_default(),
        image_id: from.image_id.unwrap_or_default(),
        oneoff: labels.get(ONEOFF).is_some_and(|v| v.eq_ignore_ascii_case("true")),
        labels,
        status,
        health,
        published,
        created: from.created.unwrap_or_default(),
        networks: from
            .network_settings
            .and_then(|settings| settings.networks)
            .unwrap_or_default()
            .into_iter()
            .map(|(name, endpoint)| (name, endpoint.ip_address.unwrap_or_default()))
            .collect(),
        mounts,
    }
}

/// Links show as further names with a second slash (`/other/alias`); the own name has one.
fn own_name(names: &[String]) -> String {
    names
        .iter()
        .map(|name| name.trim_start_matches('/'))
        .find(|name| !name.contains('/'))
        .unwrap_or_default()
        .to_owned()
}

fn port(from: models::PortSummary) -> Option<Published> {
    let protocol = match from.typ? {
        models::PortSummaryTypeEnum::TCP => Protocol::Tcp,
        models::PortSummaryTypeEnum::UDP => Protocol::Udp,
        models::PortSummaryTypeEnum::SCTP | models::PortSummaryTypeEnum::EMPTY => return None,
    };
    Some(Published {
        host_ip: from.ip.unwrap_or_default(),
        host_port: from.public_port?,
        container_port: from.private_port,
        protocol,
    })
}

/// `Exited (137) 3 minutes ago` gives 137.
fn exit_code(text: &str) -> i32 {
    text.split_once('(').and_then(|(_, rest)| rest.split_once(')')).and_then(|(code, _)| code.parse().ok()).unwrap_or(0)
}

/// `Up 3 seconds (healthy)` and its kin.
fn health_in(text: &str) -> Health {
    if text.ends_with("(healthy)") {
        Health::Healthy
    } else if text.ends_with("(unhealthy)") {
        Health::Unhealthy
    } else if text.ends_with("(health: starting)") {
        Health::Starting
    } else {
        Health::None
    }
}

/// One inspected container.
pub(super) fn detail(from: models::ContainerInspectResponse) -> Detail {
    let state = from.state.unwrap_or_default();
    let config = from.config.unwrap_or_default();
    let host = from.host_config.unwrap_or_default();
    let exit_code = state.exit_code.and_then(|code| i32::try_from(code).ok()).unwrap_or(0);
    let status = match state.status {
        Some(models::ContainerStateStatusEnum::RUNNING | models::ContainerStateStatusEnum::STOPPING) => Status::Running,
        Some(models::ContainerStateStatusEnum::PAUSED) => Status::Paused,
        Some(models::ContainerStateStatusEnum::RESTARTING) => Status::Restarting,
        Some(models::ContainerStateStatusEnum::REMOVING) => Status::Removing,
        Some(models::ContainerStateStatusEnum::EXITED) => Status::Exited(exit_code),
        Some(models::ContainerStateStatusEnum::DEAD) => Status::Dead,
        Some(models::ContainerStateStatusEnum::CREATED | models::ContainerStateStatusEnum::EMPTY) | None => {
            Status::Created
        }
    };
    let health = state.health.unwrap_or_default();
    let health_log = health.log.unwrap_or_default().pop().map(|last| last.output.unwrap_or_default());
    let mut tmpfs: Vec<String> = host.tmpfs.unwrap_or_default().into_keys().collect();
    tmpfs.sort();
    Detail {
        id: from.id.unwrap_or_default(),
        name: from.name.unwrap_or_default().trim_start_matches('/').to_owned(),
        status,
        started_at: state.started_at.unwrap_or_default(),
        finished_at: state.finished_at.unwrap_or_default(),
        exit_code,
        error: state.error.unwrap_or_default(),
        oom_killed: state.oom_killed.unwrap_or_default(),
        restart_count: from.restart_count.unwrap_or_default(),
        health: match health.status {
            Some(models::HealthStatusEnum::STARTING) => Health::Starting,
            Some(models::HealthStatusEnum::HEALTHY) => Health::Healthy,
            Some(models::HealthStatusEnum::UNHEALTHY) => Health::Unhealthy,
            Some(models::HealthStatusEnum::NONE | models::HealthStatusEnum::EMPTY) | None => Health::None,
        },
        health_log,
        health_check: config.healthcheck.and_then(health_check),
        env: config.env.unwrap_or_default(),
        image_id: from.image.unwrap_or_default(),
        tty: config.tty.unwrap_or_default(),
        mounts: from.mounts.unwrap_or_default().into_iter().map(mount).collect(),
        labels: config.labels.unwrap_or_default().into_iter().collect(),
        restart_policy: host.restart_policy.map(|policy| restart_policy(&policy)).unwrap_or_else(|| "no".to_owned()),
        stop_timeout: config.stop_timeout,
        user: config.user.unwrap_or_default(),
        readonly_rootfs: host.readonly_rootfs.unwrap_or_default(),
        tmpfs,
    }
}

/// Nanoseconds, where 0 means Docker's default.
fn health_check(from: models::HealthConfig) -> Option<HealthCheck> {
    let test = from.test.unwrap_or_default();
    if test.is_empty() {
        return None;
    }
    let ms = |ns: Option<i64>, default: u64| match ns.and_then(|ns| u64::try_from(ns).ok()) {
        None | Some(0) => default,
        Some(ns) => ns / 1_000_000,
    };
    Some(HealthCheck {
        test,
        interval_ms: ms(from.interval, 30_000),
        timeout_ms: ms(from.timeout, 30_000),
        start_period_ms: ms(from.start_period, 0),
        retries: from.retries.and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0).unwrap_or(3),
    })
}

fn mount(from: models::MountPoint) -> Mount {
    Mount {
        kind: from.typ.unwrap_or_default(),
        name: from.name.unwrap_or_default(),
        source: from.source.unwrap_or_default(),
        destination: from.destination.unwrap_or_default(),
        rw: from.rw.unwrap_or_default(),
    }
}

fn restart_policy(from: &models::RestartPolicy) -> String {
    match from.name {
        Some(models::RestartPolicyNameEnum::ALWAYS) => "always".to_owned(),
        Some(models::RestartPolicyNameEnum::UNLESS_STOPPED) => "unless-stopped".to_owned(),
        Some(models::RestartPolicyNameEnum::ON_FAILURE) => match from.maximum_retry_count {
            Some(n) if n > 0 => format!("on-failure:{n}"),
            _ => "on-failure".to_owned(),
        },
        Some(models::RestartPolicyNameEnum::NO | models::RestartPolicyNameEnum::EMPTY) | None => "no".to_owned(),
    }
}

/// Reads `no`, `always`, `unless-stopped`, `on-failure` and `on-failure:N`.
pub(super) fn parse_restart_policy(text: &str) -> Option<models::RestartPolicy> {
    use models::RestartPolicyNameEnum as Name;
    let (name, count) = match text.split_once(':') {
        Some(("on-failure", n)) => (Name::ON_FAILURE, n.parse().ok()?),
        Some(_) => return None,
        None => (
            match text {
                "no" => Name::NO,
                "always" => Name::ALWAYS,
                "unless-stopped" => Name::UNLESS_STOPPED,
                "on-failure" => Name::ON_FAILURE,
                _ => return None,
            },
            0,
        ),
    };
    Some(models::RestartPolicy { name: Some(name), maximum_retry_count: Some(count) })
}

/// One row of the network list.
pub(super) fn network(from: models::Network) -> Network {
    Network {
        id: from.id.unwrap_or_default(),
        name: from.name.unwrap_or_default(),
        labels: from.labels.unwrap_or_default().into_iter().collect(),
        subnets: from
            .ipam
            .and_then(|ipam| ipam.config)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|config| config.subnet)
            .collect(),
        containers: None,
    }
}

/// One row of the volume list.
pub(super) fn volume(from: models::Volume) -> Volume {
    let hex = from.name.len() == 64 && from.name.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    Volume {
        anonymous: hex || from.labels.contains_key("com.docker.volume.anonymous"),
        name: from.name,
        labels: from.labels.into_iter().collect(),
        driver: from.driver,
    }
}

/// One inspected image.
pub(super) fn image(from: models::ImageInspect) -> Image {
    Image {
        id: from.id.unwrap_or_default(),
        repo_digests: from.repo_digests.unwrap_or_default(),
        size: from.size.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_text_gives_health_and_exit_code() {
        assert_eq!(health_in("Up 3 seconds (healthy)"), Health::Healthy);
        assert_eq!(health_in("Up 3 seconds (unhealthy)"), Health::Unhealthy);
        assert_eq!(health_in("Up 1 second (health: starting)"), Health::Starting);
        assert_eq!(health_in("Up 2 minutes (Paused)"), Health::None);
        assert_eq!(health_in("Up 2 minutes"), Health::None);
        assert_eq!(exit_code("Exited (137) 3 minutes ago"), 137);
    }

    #[test]
    fn restart_policies_survive_the_round_trip() {
        for text in ["no", "always", "unless-stopped", "on-failure", "on-failure:3"] {
            let parsed = parse_restart_policy(text).expect(text);
            assert_eq!(restart_policy(&parsed), text);
        }
        for bad in ["", "never", "always:2", "on-failure:x"] {
            assert!(parse_restart_policy(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_linked_container_keeps_its_own_name() {
        assert_eq!(own_name(&["/web/db".into(), "/shop-db-1".into()]), "shop-db-1");
    }

    #[test]
    fn a_list_row_is_read_from_what_20_10_sends() {
        let json = r#"{"Id":"c1","Names":["/p-db-1"],"Image":"postgres:17","ImageID":"sha256:1","Command":"x","Created":1700000000,
            "Ports":[{"IP":"127.0.0.1","PrivatePort":5432,"PublicPort":20017,"Type":"tcp"},{"PrivatePort":9000,"Type":"tcp"}],
            "Labels":{"com.docker.compose.service":"db","com.docker.compose.project":"p","com.docker.compose.container-number":"2","com.docker.compose.oneoff":"False"},
            "State":"running","Status":"Up 2 seconds (healthy)","HostConfig":{"NetworkMode":"p_default"},
            "NetworkSettings":{"Networks":{"p_default":{"IPAddress":"10.1.2.3"}}},
            "Mounts":[{"Type":"volume","Name":"p_data","Source":"","Destination":"/d","Driver":"local","Mode":"z","RW":true,"Propagation":""},{"Type":"bind","Source":"/x","Destination":"/y","Mode":"","RW":true,"Propagation":"rprivate"}]}"#;
        let row = container(serde_json::from_str(json).expect("a summary"));
        assert_eq!((row.name.as_str(), row.service.as_deref(), row.number), ("p-db-1", Some("db"), 2));
        assert_eq!((row.status, row.health, row.oneoff), (Status::Running, Health::Healthy, false));
        assert_eq!(
            row.published,
            [Published {
                host_ip: "127.0.0.1".into(),
                host_port: 20017,
                container_port: 5432,
                protocol: Protocol::Tcp
            }]
        );
        assert_eq!(row.networks["p_default"], "10.1.2.3");
        assert_eq!(row.mounts, ["p_data"]);
    }
}
