//! Traefik's labels: routers, services and middlewares have one name space per
//! proxy, and a proxy with Docker's socket sees the containers of every copy.

use std::collections::BTreeSet;

use super::claim::{Claims, pointer};
use crate::compose::Service;
use crate::names::Target;
use crate::plan::Plan;

const RULE: &str = "traefik";
const NAMES: &str = "a proxy would find one name defined by every copy";
const HOSTS: &str = "one host name would mean every copy";
const PROVIDER: &str = "with Docker's socket it would see the containers of every copy";

/// Protocols and kinds whose next part is a name.
const PROTOCOLS: [&str; 3] = ["http", "tcp", "udp"];
const KINDS: [&str; 4] = ["routers", "services", "middlewares", "serverstransports"];

/// Names in one stack, so that a reference can be told from one to another provider's.
type Names = BTreeSet<String>;

/// The name in `traefik.http.routers.NAME.rule`, with its place.
fn name(label: &str) -> Option<(usize, &str)> {
    let mut parts = label.split('.');
    let (head, protocol, kind, name) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let known = head.eq_ignore_ascii_case("traefik")
        && PROTOCOLS.iter().any(|known| protocol.eq_ignore_ascii_case(known))
        && KINDS.iter().any(|known| kind.eq_ignore_ascii_case(known));
    known.then_some((head.len() + protocol.len() + kind.len() + 3, name))
}

/// Rewrites the labels of a whole plan.
pub(super) fn labels(plan: &mut Plan, claims: &mut Claims) {
    let names: Names = plan
        .services
        .values()
        .flat_map(|service| service.compose.labels.keys().filter_map(|label| Some(name(label)?.1.to_owned())))
        .collect();
    let target = plan.placement.target.clone();
    let suffix = plan.project.clone();
    for (service, planned) in &mut plan.services {
        if planned.compose.labels.keys().any(|label| label.starts_with("traefik.")) {
            of_service(service, &mut planned.compose, &names, &suffix, &target, claims);
        }
    }
    providers(plan, claims);
}

fn of_service(service: &str, compose: &mut Service, names: &Names, suffix: &str, target: &Target, claims: &mut Claims) {
    let labels = std::mem::take(&mut compose.labels);
    let at = |label: &str| pointer(&["services", service, "labels", label]);
    for (label, value) in labels {
        let to = match name(&label) {
            Some((from, name)) => format!("{}{name}-{suffix}{}", &label[..from], &label[from + name.len()..]),
            None => label.clone(),
        };
        let kind = label.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
        let new = match kind.as_str() {
            "rule" if label.to_ascii_lowercase().ends_with("frontend.rule") => old_hosts(&value, target),
            "rule" => hosts(&value, target),
            "service" | "middlewares" => references(&value, names, suffix),
            // Version 1: one name for what stands behind.
            "backend" if label.starts_with("traefik.") => format!("{value}-{suffix}"),
            _ => value.clone(),
        };
        if to != label {
            claims.claim(at(&label), RULE, NAMES);
            claims.claim(at(&to), RULE, NAMES);
        } else if new != value {
            claims.claim(at(&label), RULE, if kind == "rule" { HOSTS } else { NAMES });
        }
        compose.labels.insert(to, new);
    }
}

/// `auth,strip@docker,other@file`: those of this stack follow their names.
fn references(value: &str, names: &Names, suffix: &str) -> String {
    let one = |reference: &str| {
        let (name, provider) = reference.split_once('@').map_or((reference, None), |(name, at)| (name, Some(at)));
        match provider {
            None if names.contains(name.trim()) => format!("{}-{suffix}", name.trim()),
            Some("docker") if names.contains(name.trim()) => format!("{}-{suffix}@docker", name.trim()),
            _ => reference.to_owned(),
        }
    };
    value.split(',').map(one).collect::<Vec<_>>().join(",")
}

/// The host names in a rule of version 1: `Host:a.localhost,b.localhost;PathPrefix:/x`.
fn old_hosts(rule: &str, target: &Target) -> String {
    let part = |part: &str| {
        let Some((call, hosts)) = part.split_once(':').filter(|(call, _)| call.trim() == "Host") else {
            return part.to_owned();
        };
        let hosts: Vec<String> = hosts.split(',').map(|host| scoped(host.trim(), target)).collect();
        format!("{call}:{}", hosts.join(","))
    };
    rule.split(';').map(part).collect::<Vec<_>>().join(";")
}

/// The host names in a rule, quoted by backquotes, quotes or apostrophes behind `Host(` and `HostSNI(`.
fn hosts(rule: &str, target: &Target) -> String {
    let mut out = String::new();
    let mut rest = rule;
    while let Some(at) =
        ["Host(", "HostSNI(", "HostHeader("].iter().filter_map(|call| Some(rest.find(call)? + call.len())).min()
    {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find(')').unwrap_or(rest.len());
        let mut inside = &rest[..end];
        while let Some(open) = inside.find(['`', '"', '\'']) {
            let quote = &inside[open..=open];
            let Some(length) = inside[open + 1..].find(quote) else { break };
            let host = &inside[open + 1..open + 1 + length];
            out.push_str(&inside[..=open]);
            out.push_str(&scoped(host, target));
            out.push_str(quote);
            inside = &inside[open + length + 2..];
        }
        out.push_str(inside);
        rest = &rest[end..];
    }
    out + rest
}

/// `shop.localhost` becomes `shop.main.dev.shop.localhost`; a name of the world gets it at its end.
fn scoped(host: &str, target: &Target) -> String {
    if host == "*" || host.is_empty() {
        return host.to_owned();
    }
    let own = host.strip_suffix(".localhost").unwrap_or(if host == "localhost" { "" } else { host });
    let scope = target.host();
    if own.is_empty() { scope } else { format!("{own}.{scope}") }
}

/// A proxy in the stack itself is told to look at its own project only.
fn providers(plan: &mut Plan, claims: &mut Claims) {
    const VARIABLE: &str = "TRAEFIK_PROVIDERS_DOCKER";
    let own = format!("Label(`com.docker.compose.project`,`{}`)", plan.project);
    for (name, planned) in &mut plan.services {
        let compose = &mut planned.compose;
        let socket =
            compose.volumes.iter().any(|mount| mount.source.as_deref().is_some_and(|s| s.ends_with("docker.sock")));
        let constraints = format!("{VARIABLE}_CONSTRAINTS");
        let by_variable = compose.environment.keys().any(|key| key.starts_with(VARIABLE));
        if socket && by_variable && !compose.environment.contains_key(&constraints) {
            claims.at(&["services", name, "environment", &constraints], RULE, PROVIDER);
            compose.environment.insert(constraints, Some(own.clone()));
        }
        let Some(serde_json::Value::Array(words)) = &mut compose.command else { continue };
        let text = |word: &serde_json::Value| word.as_str().map(str::to_ascii_lowercase).unwrap_or_default();
        let told = |option: &str| words.iter().any(|word| text(word).starts_with(option));
        if !socket || !told("--providers.docker") || told("--providers.docker.constraints") {
            continue;
        }
        claims.at(&["services", name, "command"], RULE, PROVIDER);
        words.push(serde_json::Value::from(format!("--providers.docker.constraints={own}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target {
            workspace: "shop".parse().unwrap(),
            environment: "dev".parse().unwrap(),
            instance: "main".parse().unwrap(),
        }
    }

    #[test]
    fn host_names_are_scoped() {
        for (from, to) in [
            ("Host(`web.localhost`)", "Host(`web.main.dev.shop.localhost`)"),
            ("Host(`localhost`) && PathPrefix(`/x`)", "Host(`main.dev.shop.localhost`) && PathPrefix(`/x`)"),
            (
                "Host(`a.example.com`, \"b.example.com\")",
                "Host(`a.example.com.main.dev.shop.localhost`, \"b.example.com.main.dev.shop.localhost\")",
            ),
            ("HostSNI(`*`)", "HostSNI(`*`)"),
            ("PathPrefix(`/api`)", "PathPrefix(`/api`)"),
            ("Host(`a", "Host(`a"),
        ] {
            assert_eq!(hosts(from, &target()), to);
        }
    }

    #[test]
    fn host_names_of_version_1_are_scoped() {
        for (from, to) in [
            (
                "Host:a.localhost, b.localhost;PathPrefix:/x",
                "Host:a.main.dev.shop.localhost,b.main.dev.shop.localhost;PathPrefix:/x",
            ),
            ("PathPrefix:/Host:x", "PathPrefix:/Host:x"),
        ] {
            assert_eq!(old_hosts(from, &target()), to);
        }
    }

    #[test]
    fn references_follow_names() {
        let names = Names::from(["auth".to_owned()]);
        assert_eq!(references("auth,auth@docker,auth@file,x", &names, "p"), "auth-p,auth-p@docker,auth@file,x");
    }

    #[test]
    fn names_are_found() {
        assert_eq!(name("traefik.http.routers.web.rule"), Some((21, "web")));
        assert_eq!(name("Traefik.TCP.Services.db.loadbalancer.server.port").map(|(_, name)| name), Some("db"));
        assert_eq!(name("traefik.enable"), None);
        assert_eq!(name("traefik.docker.network"), None);
    }
}
