use super::*;
use std::os::unix::net::UnixListener;

struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(".docker")).unwrap();
        Self { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn socket(&self, relative: &str) -> PathBuf {
        let path = self.path().join(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        path
    }

    fn config(&self, text: &str) {
        fs::write(self.path().join(".docker/config.json"), text).unwrap();
    }

    /// A context as the docker CLI stores it; the hash is written out for one name, so that the test can fail.
    fn context(&self, id: &str, host: &str, tls: bool) {
        let contexts = self.path().join(".docker/contexts");
        let meta = contexts.join("meta").join(id);
        fs::create_dir_all(&meta).unwrap();
        let text = format!(
            r#"{{"Name":"x","Metadata":{{}},"Endpoints":{{"docker":{{"Host":"{host}","SkipTLSVerify":false}}}}}}"#
        );
        fs::write(meta.join("meta.json"), text).unwrap();
        if tls {
            let folder = contexts.join("tls").join(id).join("docker");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("ca.pem"), "x").unwrap();
        }
    }

    fn resolve(&self, env: &[(&str, &str)], explicit: Option<&str>) -> Result<Endpoint, EndpointError> {
        let env = env.iter().map(|(k, v)| ((*k).to_owned(), OsString::from(v))).collect();
        let default = self.path().join("default.sock");
        resolve_at(&env, Some(self.path()), explicit, &default)
    }
}

/// `printf remote | sha256sum`, `printf local | sha256sum`.
const REMOTE: &str = "b71199ebd070b36beab7317920c2c2f1d777df8d05e5527d8458fda57cb17a7a";
const LOCAL: &str = "25bf8e1a2393f1108d37029b3df5593236c755742ec93465bbafa9b290bddcf6";

#[test]
fn the_order_is_that_of_the_docker_cli() {
    let home = Home::new();
    home.socket("default.sock");
    home.context(LOCAL, "unix:///local.sock", false);
    home.context(REMOTE, "unix:///remote.sock", false);
    home.config(r#"{"auths":{},"currentContext":"local"}"#);
    let host_and_context: &[(&str, &str)] = &[("DOCKER_HOST", "unix:///host.sock"), ("DOCKER_CONTEXT", "remote")];

    let found = home.resolve(host_and_context, Some("local")).unwrap();
    assert_eq!(found.host, "unix:///local.sock");
    assert_eq!(found.rule, Rule::ExplicitContext("local".into()));
    assert_eq!(found.context.as_deref(), Some("local"));

    let found = home.resolve(host_and_context, None).unwrap();
    assert_eq!((found.host.as_str(), &found.rule), ("unix:///host.sock", &Rule::DockerHost));
    assert_eq!(found.context, None);

    let found = home.resolve(&host_and_context[1..], None).unwrap();
    assert_eq!(found.host, "unix:///remote.sock");
    assert_eq!(found.rule, Rule::DockerContext("remote".into()));

    let found = home.resolve(&[], None).unwrap();
    assert_eq!(found.host, "unix:///local.sock");
    assert!(found.rule.to_string().starts_with("`local` is the current context in `"));

    // `default` turns a configured context off, but not `DOCKER_HOST`.
    for (env, explicit) in [(&[][..], Some("default")), (&[("DOCKER_CONTEXT", "default")][..], None)] {
        let found = home.resolve(env, explicit).unwrap();
        assert_eq!(found.rule, Rule::DefaultSocket);
        assert!(found.host.ends_with("/default.sock"), "{found:?}");
    }
    let found = home.resolve(host_and_context, Some("default")).unwrap();
    assert_eq!(found.rule, Rule::DockerHost);

    // Set but empty is not set.
    let found = home.resolve(&[("DOCKER_HOST", ""), ("DOCKER_CONTEXT", "")], None).unwrap();
    assert_eq!(found.context.as_deref(), Some("local"));
}

#[test]
fn docker_config_moves_the_whole_folder() {
    let (home, other) = (Home::new(), Home::new());
    home.config(r#"{"currentContext":"local"}"#);
    other.config(r#"{"currentContext":"remote"}"#);
    other.context(REMOTE, "unix:///remote.sock", false);
    let folder = other.path().join(".docker");
    let found = home.resolve(&[("DOCKER_CONFIG", folder.to_str().unwrap())], None).unwrap();
    assert_eq!(found.host, "unix:///remote.sock");
}

#[test]
fn well_known_sockets_count_only_without_the_default_one() {
    let home = Home::new();
    let found = home.resolve(&[], None).unwrap();
    assert_eq!(found.rule, Rule::DefaultSocket);

    let orbstack = home.socket(".orbstack/run/docker.sock");
    let found = home.resolve(&[], None).unwrap();
    assert_eq!(found.host, format!("unix://{}", orbstack.display()));
    assert_eq!(found.rule, Rule::WellKnownSocket("OrbStack"));

    let rootless = home.socket("run/docker.sock");
    let run = rootless.parent().unwrap().to_str().unwrap();
    let found = home.resolve(&[("XDG_RUNTIME_DIR", run)], None).unwrap();
    assert_eq!(found.host, format!("unix://{}", rootless.display()));

    home.socket("default.sock");
    let found = home.resolve(&[("XDG_RUNTIME_DIR", run)], None).unwrap();
    assert_eq!(found.rule, Rule::DefaultSocket);

    // An ordinary file of that name is no socket.
    let plain = Home::new();
    fs::create_dir_all(plain.path().join(".orbstack/run")).unwrap();
    fs::write(plain.path().join(".orbstack/run/docker.sock"), "").unwrap();
    assert_eq!(plain.resolve(&[], None).unwrap().rule, Rule::DefaultSocket);
}

#[test]
fn what_is_not_on_this_machine_is_refused_by_name() {
    let home = Home::new();
    for (host, tls) in [
        ("ssh://me@build", false),
        ("tcp://10.0.0.5:2375", false),
        ("tcp://docker:2375", false),
        ("tcp://127.0.0.1:2376", true),
        ("https://127.0.0.1:2376", false),
    ] {
        let mut env = vec![("DOCKER_HOST", host)];
        if tls {
            env.push(("DOCKER_TLS_VERIFY", "1"));
        }
        let error = home.resolve(&env, None).unwrap_err();
        assert!(matches!(&error, EndpointError::Remote { host: h, .. } if h == host), "{error}");
        assert!(error.to_string().contains("DOCKER_HOST"), "{error}");
        assert!(error.hint().contains("ports on this machine"));
    }
    home.context(REMOTE, "tcp://127.0.0.1:2376", true);
    let error = home.resolve(&[], Some("remote")).unwrap_err();
    assert!(error.to_string().contains("behind TLS"), "{error}");
}

#[test]
fn addresses_are_completed_or_refused() {
    let rule = Rule::DockerHost;
    for (given, expected) in [
        ("unix://", "unix:///var/run/docker.sock"),
        ("unix:///a b.sock", "unix:///a b.sock"),
        ("tcp://127.0.0.1", "tcp://127.0.0.1:2375"),
        ("tcp://localhost:99", "tcp://localhost:99"),
        ("tcp://[::1]:99", "tcp://[::1]:99"),
        ("tcp://[::1]", "tcp://[::1]:2375"),
        ("127.0.0.1:2375", "tcp://127.0.0.1:2375"),
        ("tcp://:2375", "tcp://127.0.0.1:2375"),
    ] {
        assert_eq!(supported(given, false, &rule).unwrap(), expected, "{given}");
    }
    for given in ["unix://relative", "npipe:////./pipe/docker", "tcp://127.0.0.1:x", "tcp://", "what://x"] {
        let error = supported(given, false, &rule).unwrap_err();
        assert!(matches!(error, EndpointError::Malformed { .. }), "{given}: {error}");
    }
}

#[test]
fn broken_files_are_named_and_not_quoted() {
    let home = Home::new();
    home.config(r#"{"auths":{"r":{"auth":"Y2FuYXJ5"}},"currentContext":7}"#);
    let error = home.resolve(&[], None).unwrap_err().to_string();
    assert!(error.contains("config.json") && !error.contains("Y2FuYXJ5"), "{error}");
    // It is not even read when it does not decide.
    assert!(home.resolve(&[("DOCKER_HOST", "unix:///x")], None).is_ok());

    home.config("{}");
    let error = home.resolve(&[("DOCKER_CONTEXT", "gone")], None).unwrap_err();
    assert!(matches!(&error, EndpointError::NoContext { name, .. } if name == "gone"));
}
