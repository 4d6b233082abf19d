//! The stacks that are measured, and what their containers say.

use std::collections::BTreeMap;

use sidestack_tests::{World, docker};

/// Three services, each started when the one before it is healthy. They log the
/// host's uptime at their start and when their health command is first true.
/// The round's number makes each a revision that was never seen.
pub(crate) fn chain(round: usize) -> String {
    let mut text = String::from("services:\n");
    for (name, before) in [("a", None), ("b", Some("a")), ("c", Some("b"))] {
        text.push_str(&format!(
            r#"  {name}:
    image: busybox:stable
    command: ["sh", "-c", "read up rest </proc/uptime; echo start $$up; touch /tmp/up; exec sleep 100000"]
    init: true
    environment:
      ROUND: "{round}"
      EDITED: one
      FROM_SHELL: "${{BENCH_VALUE:-none}}"
    healthcheck:
      test: ["CMD-SHELL", "test -e /tmp/up && {{ test -e /tmp/ok || {{ touch /tmp/ok; read up rest </proc/uptime; echo healthy $$up >/proc/1/fd/1; }}; }}"]
      interval: 1s
      timeout: 5s
      retries: 30
"#
        ));
        if let Some(before) = before {
            text.push_str(&format!("    depends_on:\n      {before}: {{condition: service_healthy}}\n"));
        }
    }
    text
}

/// One container that does nothing.
pub(crate) const TINY: &str = r#"services:
  one:
    image: busybox:stable
    command: ["sleep", "100000"]
    init: true
    stop_grace_period: 1s
"#;

/// A project's containers by service.
pub(crate) fn containers(project: &str) -> BTreeMap<String, String> {
    let filter = format!("label=com.docker.compose.project={project}");
    let format = r#"{{.Label "com.docker.compose.service"}} {{.ID}}"#;
    let listed = docker(&["ps", "-a", "--no-trunc", "--filter", &filter, "--format", format]).ok();
    listed
        .stdout
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, id)| (name.to_owned(), id.to_owned()))
        .collect()
}

/// A variable of a service's container, as Docker holds it.
pub(crate) fn variable(project: &str, service: &str, key: &str) -> Option<String> {
    let containers = containers(project);
    let format = "{{range .Config.Env}}{{println .}}{{end}}";
    let shown = docker(&["inspect", "--format", format, containers.get(service)?]).ok();
    let prefix = format!("{key}=");
    shown.stdout.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
}

/// Whether a service's container runs.
pub(crate) fn runs(project: &str, service: &str) -> bool {
    containers(project)
        .get(service)
        .is_some_and(|id| docker(&["inspect", "--format", "{{.State.Running}}", id]).stdout.trim() == "true")
}

/// Panics unless every service of the chain was started after the one before it was healthy.
pub(crate) fn check_order(project: &str) {
    let containers = containers(project);
    let mut healthy = 0.0;
    for service in ["a", "b", "c"] {
        let id = containers.get(service).unwrap_or_else(|| panic!("`{service}` of {project} is not there"));
        let log = docker(&["logs", id]).ok().stdout;
        let at = |word: &str| -> f64 {
            let line = log.lines().find_map(|line| line.strip_prefix(word));
            line.and_then(|time| time.trim().parse().ok())
                .unwrap_or_else(|| panic!("`{service}` did not log `{word}`:\n{log}"))
        };
        let started = at("start ");
        assert!(
            started >= healthy,
            "`{service}` of {project} started at {started}, before what it waits for was healthy at {healthy}"
        );
        healthy = at("healthy ");
        assert!(healthy >= started, "`{service}` of {project} was healthy before it started");
    }
}

/// A world with these compose services and a manifest that names them.
pub(crate) fn world(compose: &str) -> World {
    World::with(&[
        ("sidestack.yaml", "sidestack: 1\nworkspace: @workspace@\ncompose: compose.yaml\n"),
        ("compose.yaml", compose),
    ])
}
