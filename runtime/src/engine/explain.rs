//! What Compose's output says went wrong.
//!
//! Compose has no machine-readable errors; these are the texts of 2.20 to 2.40 and of both engine
//! generations. The last line that says something known wins, since the cause is printed last.

use super::EngineError;

/// Lines of a failed build's output that are kept.
const BUILD_TAIL: usize = 20;

/// The cause of a failed Compose, from its standard output and error; `None` when nothing in it is
/// known.
///
/// The texts in the answer are copied from the output: mask known secrets before showing them.
pub fn explain(output: &str) -> Option<EngineError> {
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if let Some(error) = build(&lines) {
        return Some(error);
    }
    let found = lines.iter().rev().find_map(|line| {
        conflict(line).or_else(|| image(line)).or_else(|| EngineError::from_text(line)).or_else(|| unreachable(line))
    })?;
    match found {
        EngineError::ImageMissing { image, message } if image == "?" => {
            Some(EngineError::ImageMissing { image: pulling_service(&lines).unwrap_or(image), message })
        }
        other => Some(other),
    }
}

fn conflict(line: &str) -> Option<EngineError> {
    let (_, rest) = line.split_once("The container name ")?;
    let name = rest.split('"').nth(1)?.trim_start_matches('/');
    rest.contains("already in use")
        .then(|| EngineError::Conflict { what: format!("container name `{name}`"), message: line.to_owned() })
}

/// A missing image, with the name in whichever of the forms the line has.
fn image(line: &str) -> Option<EngineError> {
    let name = between(line, "manifest for ", " not found")
        .or_else(|| between(line, "pull access denied for ", ","))
        .or_else(|| between(line, "failed to resolve reference \"", "\""))
        .or_else(|| tail(line, "No such image: "))
        .or_else(|| tail(line, "no such image: "))
        .or_else(|| between(line, "failed to pull image \"", "\""))
        .or_else(|| between(line, "unable to get image '", "'"))
        .map(str::to_owned)
        .or_else(|| registry_url(line))?;
    Some(EngineError::ImageMissing { image: name, message: line.to_owned() })
}

/// `web Error Get "https://…` names the service whose pull failed, where nothing names the image.
fn pulling_service(lines: &[&str]) -> Option<String> {
    lines.iter().find_map(|line| {
        let (service, _) = line.split_once(" Error ")?;
        (!service.contains(' ')).then(|| format!("service {service}"))
    })
}

/// `Get "https://host/v2/library/postgres/manifests/17": dial tcp …` gives `library/postgres:17`.
/// A registry that does not answer at all (`Get "https://host/v2/": …`) leaves the name open.
fn registry_url(line: &str) -> Option<String> {
    let (_, url) = line.split_once("\"https://").or_else(|| line.split_once("\"http://"))?;
    let (url, _) = url.split_once('"')?;
    let (_, path) = url.split_once("/v2/")?;
    match path.split_once("/manifests/") {
        Some((name, tag)) => Some(format!("{name}:{tag}")),
        None => path.is_empty().then(|| "?".to_owned()),
    }
}

fn build(lines: &[&str]) -> Option<EngineError> {
    let at = lines.iter().rposition(|line| {
        line.contains("failed to solve")
            || line.contains("failed to read dockerfile")
            || line.contains("returned a non-zero code")
            || line.contains("failed to build: ")
            || (line.contains("unable to prepare context"))
    })?;
    let target = between(lines[at], "target ", ":")
        .or_else(|| lines[..at].iter().rev().find_map(|line| step(line)))
        .unwrap_or("?")
        .to_owned();
    // A disk that is full is the cause, wherever it shows.
    if lines[at].contains("no space left on device") {
        return EngineError::from_text(lines[at]);
    }
    let tail = &lines[(at + 1).saturating_sub(BUILD_TAIL)..=at];
    Some(EngineError::BuildFailed { target, message: tail.join("\n") })
}

/// `> [web 2/3] RUN make:` gives `web`; a build of one service alone has only `[2/3]`.
fn step(line: &str) -> Option<&str> {
    let inside = between(line, "> [", "]")?;
    let name = inside.split(' ').next()?;
    (!name.contains('/') && name != "internal").then_some(name)
}

fn unreachable(line: &str) -> Option<EngineError> {
    let (_, rest) = line.split_once("Cannot connect to the Docker daemon at ")?;
    let endpoint = rest.split(". ").next().unwrap_or(rest).trim_end_matches('.');
    Some(EngineError::Unreachable { endpoint: endpoint.to_owned(), cause: "Compose could not connect".to_owned() })
}

fn between<'a>(line: &'a str, before: &str, behind: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(before)?;
    rest.split_once(behind).map(|(name, _)| name)
}

fn tail<'a>(line: &'a str, before: &str) -> Option<&'a str> {
    line.split_once(before).map(|(_, rest)| rest.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_named_in_every_version() {
        let cases = [
            (
                r"Error response from daemon: driver failed programming external connectivity on endpoint p-web-1 (0a1b): Bind for 127.0.0.1:20017 failed: port is already allocated",
                "another container",
            ),
            (
                r"Error response from daemon: driver failed programming external connectivity on endpoint p-web-1 (0a1b): Error starting userland proxy: listen tcp4 127.0.0.1:20017: bind: address already in use",
                "another process",
            ),
            (
                r"Error response from daemon: failed to set up container networking: driver failed programming external connectivity on endpoint p-web-1 (0a1b): failed to bind host port for 127.0.0.1:20017:172.18.0.2:80/tcp: address already in use",
                "another process",
            ),
            (r"failed to bind host port 127.0.0.1:20017/tcp: address already in use", "another process"),
            (
                r"Error starting userland proxy: listen tcp6 [::1]:20017: bind: address already in use",
                "another process",
            ),
            (r"Bind for :::20017 failed: port is already allocated", "another container"),
            (
                r"Ports are not available: exposing port TCP 127.0.0.1:20017 -> 0.0.0.0:0: listen tcp 127.0.0.1:20017: bind: address already in use",
                "another process",
            ),
        ];
        let range =
            r"driver failed programming external connectivity on endpoint p-api-2 (dacef4a5): all ports are allocated";
        assert!(matches!(explain(range), Some(EngineError::PortTaken { port: None, .. })), "{:?}", explain(range));
        for (text, who) in cases {
            match explain(text) {
                Some(EngineError::PortTaken { port, holder, .. }) => {
                    assert_eq!((port, holder.as_str()), (Some(20017), who), "{text}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn pools_overlap_and_disk_are_told_apart() {
        let cases = [
            (
                "failed to create network a_default: Error response from daemon: all predefined address pools have been fully subnetted",
                "pool",
            ),
            (
                "failed to create network a_default: Error response from daemon: could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network",
                "pool",
            ),
            (
                "failed to create network a_default: Error response from daemon: Pool overlaps with other one on this address space",
                "overlap",
            ),
            (
                "failed to create network a_default: Error response from daemon: invalid pool request: Pool overlaps with other one on this address space",
                "overlap",
            ),
            ("failed to register layer: write /usr/lib/x: no space left on device", "space"),
            ("Error response from daemon: container 0a1b is not connected to the network a_default", "network"),
            ("Error response from daemon: network 5d6e7f not found", "network"),
        ];
        let twin = r"failed to create network p_lan: Error response from daemon: failed to allocate gateway (10.231.0.1): Address already in use";
        assert!(matches!(explain(twin), Some(EngineError::PoolOverlap { .. })), "{:?}", explain(twin));
        for (text, wanted) in cases {
            let got = match explain(text) {
                Some(EngineError::PoolExhausted { .. }) => "pool",
                Some(EngineError::PoolOverlap { .. }) => "overlap",
                Some(EngineError::NoSpace { .. }) => "space",
                Some(EngineError::NotConnected { .. }) => "network",
                other => panic!("{text}: {other:?}"),
            };
            assert_eq!(got, wanted, "{text}");
        }
    }

    #[test]
    fn a_missing_image_is_named() {
        let cases = [
            (
                "Error response from daemon: manifest for postgres:99 not found: manifest unknown: manifest unknown",
                "postgres:99",
            ),
            (
                "Error response from daemon: pull access denied for nobody/none, repository does not exist or may require 'docker login': denied",
                "nobody/none",
            ),
            (
                "Error response from daemon: failed to resolve reference \"docker.io/library/postgres:99\": docker.io/library/postgres:99: not found",
                "docker.io/library/postgres:99",
            ),
            ("Error response from daemon: No such image: postgres:99", "postgres:99"),
            (
                "Error response from daemon: Get \"https://registry.example/v2/library/postgres/manifests/99\": dial tcp: lookup registry.example: no such host",
                "library/postgres:99",
            ),
            (
                "Error response from daemon: Get \"https://registry.example/v2/\": net/http: request canceled while waiting for connection",
                "?",
            ),
        ];
        for (text, wanted) in cases {
            match explain(text) {
                Some(EngineError::ImageMissing { image, .. }) => {
                    assert_eq!(image, wanted, "{text}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_failed_build_keeps_its_last_lines() {
        let output = "#5 [web 2/3] RUN make\n#5 0.2 main.c:1: error: no\n#5 ERROR: process \"/bin/sh -c make\" did not complete successfully: exit code: 2\n------\ntarget web: failed to solve: process \"/bin/sh -c make\" did not complete successfully: exit code: 2\n";
        match explain(output) {
            Some(EngineError::BuildFailed { target, message }) => {
                assert_eq!(target, "web");
                assert!(message.contains("main.c:1: error: no"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn where_nothing_names_the_thing_the_service_does() {
        let pull = "\u{20}a Pulling \n a Error Get \"https://registry.example/v2/\": dial tcp: no such host\nError response from daemon: Get \"https://registry.example/v2/\": dial tcp: no such host\n";
        match explain(pull) {
            Some(error @ EngineError::ImageMissing { .. }) => {
                assert!(error.to_string().starts_with("the image of service `a` is missing"), "{error}");
            }
            other => panic!("{other:?}"),
        }
        // Compose 2.26 with BuildKit in the engine.
        let build = "#5 0.459 hello\n#5 ERROR: executor failed running [/bin/sh -c false]: exit code: 1\n------\n > [web 2/2] RUN false:\n0.459 hello\n------\nfailed to solve: executor failed running [/bin/sh -c false]: exit code: 1\n";
        assert!(matches!(explain(build), Some(EngineError::BuildFailed { target, .. }) if target == "web"));
    }

    #[test]
    fn names_in_conflict_and_silence() {
        let text = "Error response from daemon: Conflict. The container name \"/db\" is already in use by container \"0a1b\". You have to remove (or rename) that container to be able to reuse that name.";
        assert!(matches!(explain(text), Some(EngineError::Conflict { what, .. }) if what.contains("`db`")));
        assert_eq!(explain(" Container p-web-1  Created\n"), None);
        assert_eq!(explain(""), None);
        assert_eq!(explain("Error response from daemon: Address already in use"), None);
    }
}
