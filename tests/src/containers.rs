//! What Docker itself says of an instance's containers, asked past Sidestack.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::docker;

/// A container as `docker inspect` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Its full id.
    pub id: String,
    /// Its name without the slash.
    pub name: String,
    /// `running`, `exited`, `created`, …
    pub status: String,
    /// RFC 3339; the year 1 when it never ran.
    pub started: String,
    /// The environment of its configuration.
    pub env: BTreeMap<String, String>,
    /// Host addresses that it publishes: `127.0.0.1:20100`.
    pub published: Vec<String>,
}

impl Container {
    fn of(value: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let env = value["Config"]["Env"].as_array().into_iter().flatten();
        let env = env.filter_map(|line| line.as_str()?.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned()));
        let ports = value["NetworkSettings"]["Ports"].as_object().into_iter().flatten();
        let published = ports.filter_map(|(_, bound)| bound.as_array()).flatten();
        let published = published.map(|b| format!("{}:{}", text(&b["HostIp"]), text(&b["HostPort"])));
        Self {
            id: text(&value["Id"]),
            name: text(&value["Name"]).trim_start_matches('/').to_owned(),
            status: text(&value["State"]["Status"]),
            started: text(&value["State"]["StartedAt"]),
            env: env.collect(),
            published: published.collect(),
        }
    }

    /// What must stay the same in a container that nobody touches.
    pub fn identity(&self) -> (&str, &str) {
        (&self.id, &self.started)
    }
}

/// The containers of a Compose project in all states: `web` by the service's name,
/// `web-2` for a second replica.
pub fn containers(project: &str) -> BTreeMap<String, Container> {
    let label = format!("label=com.docker.compose.project={project}");
    let listed = docker(&["ps", "-aq", "--no-trunc", "--filter", &label]).ok();
    let ids: Vec<&str> = listed.stdout.lines().collect();
    if ids.is_empty() {
        return BTreeMap::new();
    }
    let inspected = docker(&[&["inspect"][..], &ids].concat());
    let all: Vec<Value> = serde_json::from_str(&inspected.stdout).unwrap_or_default();
    let named = all.iter().map(|value| {
        let labels = &value["Config"]["Labels"];
        let service = labels["com.docker.compose.service"].as_str().unwrap_or_default();
        let number = labels["com.docker.compose.container-number"].as_str().unwrap_or("1");
        let name = if number == "1" { service.to_owned() } else { format!("{service}-{number}") };
        (name, Container::of(value))
    });
    let mut found = BTreeMap::new();
    for (name, container) in named {
        let twin = found.insert(name.clone(), container);
        assert!(twin.is_none(), "two containers are {name} of {project}: {twin:?} and {:?}", found[&name]);
    }
    found
}

/// The names of a Compose project's networks.
pub fn networks(project: &str) -> Vec<String> {
    let label = format!("label=com.docker.compose.project={project}");
    let listed = docker(&["network", "ls", "--format", "{{.Name}}", "--filter", &label]).ok();
    listed.stdout.lines().map(str::to_owned).collect()
}
