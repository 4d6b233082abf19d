//! Modules and places made by hand, for tests and the benchmark.

use std::collections::{BTreeMap, BTreeSet};

use sidestack_topology::manifest::{Document, Manifest};
use sidestack_topology::module::{
    Arrangement, Characteristic, Credential, EngineVersion, FileTemplate, Fragment, Health, Module, Port, Protocol,
    Provision, Setting, SettingKind, Variables,
};
use sidestack_topology::names::Slot;
use sidestack_topology::plan::Placement;
use sidestack_topology::planner::{Draft, place};

fn texts<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}

fn one<T>(key: &str, value: T) -> BTreeMap<String, T> {
    BTreeMap::from([(key.to_owned(), value)])
}

fn module(name: &str, provides: &str, port: u16) -> Module {
    let version = |version: &str| EngineVersion {
        version: version.to_owned(),
        image: format!("{name}:{version}"),
        data_format: version.to_owned(),
    };
    let main = Port {
        service: "main".to_owned(),
        port,
        protocol: Protocol::Tcp,
        scheme: Some(name.to_owned()),
        primary: true,
    };
    Module {
        name: name.to_owned(),
        summary: String::new(),
        provides: words([provides]),
        preference: 10,
        versions: vec![version("17"), version("16")],
        characteristics: one("storage", Characteristic::AtMost(1 << 40)),
        arrangements: vec![Arrangement::Single],
        settings: BTreeMap::new(),
        credentials: BTreeMap::new(),
        ports: one("main", main),
        services: BTreeMap::new(),
        provisions: BTreeMap::new(),
        variables: Variables::default(),
        files: BTreeMap::new(),
        exercised: false,
    }
}

/// A database with everything that a module can have.
pub(crate) fn postgres() -> Module {
    let mut module = module("postgres", "sql-database", 5432);
    let setting = |kind, default: Option<serde_json::Value>| Setting {
        summary: String::new(),
        kind,
        default,
        required: false,
        secret: false,
    };
    module.settings = BTreeMap::from([
        ("connections".to_owned(), setting(SettingKind::Integer { min: 1, max: 999 }, Some(100.into()))),
        ("locale".to_owned(), setting(SettingKind::String, None)),
    ]);
    module.credentials = BTreeMap::from([
        ("user".to_owned(), Credential { default: "postgres".to_owned(), secret: false }),
        ("password".to_owned(), Credential { default: "postgres".to_owned(), secret: true }),
    ]);
    let health = Health {
        test: words(["CMD", "pg_isready", "-U", "{{ credentials.user }}"]),
        interval_ms: 1000,
        timeout_ms: 2000,
        retries: 3,
        start_period_ms: 0,
    };
    let main = Fragment {
        image: "{{ image }}".to_owned(),
        command: words(["-c", "max_connections={{ settings.connections }}"]),
        environment: texts([
            ("POSTGRES_USER", "{{ credentials.user }}"),
            ("POSTGRES_PASSWORD_FILE", "/run/secrets/password"),
        ]),
        volumes: texts([("data", "/var/lib/postgresql/data")]),
        secrets: texts([("password", "{{ credentials.password }}"), ("none", "")]),
        files: words(["conf"]),
        healthcheck: Some(health),
        ..Fragment::default()
    };
    module.services = one("main", main);
    let provision = Provision {
        summary: String::new(),
        service: "main".to_owned(),
        default: words(["{{ resource }}"]),
        pattern: Some("[a-z_][a-z0-9_-]*".to_owned()),
        command: words(["psql", "-v", "name={{ name }}"]),
        stdin: Some("create {{ name|quoted }};\n".to_owned()),
        user: None,
    };
    module.provisions = one("databases", provision);
    let url = "postgres://{{ credentials.user|url }}:{{ credentials.password|url }}@{{ host }}:{{ port }}";
    module.variables = Variables {
        prefixed: texts([
            ("URL", &format!("{url}/{{{{ provisions.databases[0] }}}}")),
            ("HOST", "{{ host }}"),
            ("PORT", "{{ port }}"),
        ]),
        each: one("databases", texts([("URL", &format!("{url}/{{{{ name }}}}"))])),
        conventional: texts([
            ("DATABASE_URL", &format!("{url}/{{{{ provisions.databases[0] }}}}")),
            ("PGHOST", "{{ host }}"),
        ]),
    };
    let conf = FileTemplate {
        path: "/etc/postgres.conf".to_owned(),
        content: "connections = {{ settings.connections }}{% if settings.locale is defined %}\nlc = {{ settings.locale }}{% endif %}\n".to_owned(),
        secret: false,
        mode: 0o444,
    };
    module.files = one("conf", conf);
    module
}

/// A cache without health, of two services.
pub(crate) fn redis() -> Module {
    let mut module = module("redis", "cache", 6379);
    let main = Fragment { image: "{{ image }}".to_owned(), volumes: texts([("data", "/data")]), ..Fragment::default() };
    let watch = Fragment { image: "watch".to_owned(), depends_on: words(["main"]), ..Fragment::default() };
    module.services = BTreeMap::from([("main".to_owned(), main), ("watch".to_owned(), watch)]);
    module.variables.prefixed = texts([("URL", "redis://{{ host }}:{{ port }}/0")]);
    module.variables.conventional = texts([("REDIS_URL", "redis://{{ host }}:{{ port }}/0")]);
    module
}

/// Both by name.
pub(crate) fn modules() -> BTreeMap<String, Module> {
    [postgres(), redis()].into_iter().map(|module| (module.name.clone(), module)).collect()
}

/// A manifest from its text, in the environment `dev`.
///
/// # Panics
/// When it is none.
pub(crate) fn manifest(text: &str) -> Manifest {
    let document = Document::parse("sidestack.yaml", format!("sidestack: 1\n{text}").as_bytes()).unwrap();
    document.resolve("dev").unwrap()
}

/// A place for a draft: offsets and numbers in the order of need.
///
/// # Panics
/// When the target has not three valid parts.
pub(crate) fn placement(target: &str, slot: u8, draft: &Draft) -> Placement {
    let parts: Vec<&str> = target.split('/').collect();
    let mut ports = BTreeMap::new();
    let mut next = 0;
    for publish in &draft.publishes {
        ports.entry(publish.key()).or_insert_with(|| {
            next += publish.replicas.max(1);
            next - publish.replicas.max(1)
        });
    }
    Placement {
        target: sidestack_topology::names::Target {
            workspace: parts[0].parse().unwrap(),
            environment: parts[1].parse().unwrap(),
            instance: parts[2].parse().unwrap(),
        },
        install: "install".to_owned(),
        instance_id: format!("id-{target}"),
        generation: 1,
        revision: None,
        slot: Slot::new(slot),
        subnet: Some(format!("10.231.{}.0/23", u16::from(slot) * 2)),
        ports,
        networks: place::network_keys(draft).into_iter().zip(0..).collect(),
        checkout: "/src/shop".to_owned(),
        borrowed: BTreeMap::new(),
        files: "/home/tree/files".to_owned(),
        own_ports: BTreeSet::new(),
    }
}
