use super::*;

const SHOP: &str = "\
sidestack: 1
workspace: shop
resources:
  db:
    is: sql-database
    engine: postgres@17
    databases: [shop, jobs]
    storage: 2GiB
  cache: redis
compose: compose.yaml
inject: {web: [db, cache]}
env: {LOG_LEVEL: debug, N: 3, STRIPE_KEY: {secret: \"keychain:shop/stripe\"}}
environments:
  dev: {}
  demo:
    env: {LOG_LEVEL: info, N: null}
    resources: {db: {arrangement: failover}, cache: {settings: {maxmemory: 1MiB}}}
";

fn document(text: &str) -> Document {
    Document::parse("sidestack.yaml", text.as_bytes()).unwrap()
}

#[test]
fn environments_merge_deeply() {
    let document = document(SHOP);
    assert_eq!(document.environments(), ["demo", "dev"]);
    assert_eq!(document.default_environment().unwrap(), "dev");
    let dev = document.resolve("dev").unwrap();
    assert_eq!(dev.env["LOG_LEVEL"], "debug");
    assert_eq!(dev.env["N"], "3");
    assert_eq!(secret::shown(&dev.env["STRIPE_KEY"]), "‹keychain:shop/stripe›");
    let demo = document.resolve("demo").unwrap();
    assert_eq!(demo.env["LOG_LEVEL"], "info");
    assert!(!demo.env.contains_key("N"));
    let db = &demo.resources[&"db".parse().unwrap()];
    assert_eq!(db.arrangement, Some(Arrangement::Failover));
    assert_eq!(db.rest["databases"], serde_json::json!(["shop", "jobs"]));
    let cache = &demo.resources[&"cache".parse().unwrap()];
    assert_eq!((cache.engine.as_deref(), cache.settings.len()), (Some("redis"), 1));
}

#[test]
fn every_fault_is_reported_at_once_with_its_place() {
    let text = "\
sidestack: 1
resorces: {}
resources:
  db: {engine: 17}
  Bad_Name: redis
  empty: {}
env:
  A B: x
  LIST: [1]
compose: [../other.yaml]
environments:
  dev:
    env: {2X: y}
";
    let faults = document(text).resolve("dev").unwrap_err();
    let seen: Vec<_> = faults
        .iter()
        .map(|fault| {
            let place = fault.place.clone().unwrap();
            (fault.path.join("."), place.line, place.column)
        })
        .collect();
    for expected in [
        ("resorces", 2, 1),
        ("resources.db.engine", 4, 16),
        ("resources.Bad_Name", 5, 13),
        ("resources.empty", 6, 3),
        ("env.A B", 8, 8),
        ("env.LIST", 9, 3),
        ("env.2X", 13, 15),
        ("compose.0", 10, 11),
    ] {
        assert!(seen.contains(&(expected.0.to_owned(), expected.1, expected.2)), "{expected:?} in {seen:#?}");
    }
    let misspelt = faults.iter().find(|fault| fault.path == ["resorces"]).unwrap();
    assert_eq!(misspelt.hint.as_deref(), Some("did you mean `resources`?"));
}

#[test]
fn an_unknown_environment_is_an_error_that_helps() {
    let faults = document(SHOP).resolve("demp").unwrap_err();
    assert_eq!(faults[0].hint.as_deref(), Some("did you mean `demo`?"));
    let two = "sidestack: 1\nenvironments: {a: {}, b: {}}\n";
    let error = document(two).default_environment().unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("choose one with -E: a, b"));
}

#[test]
fn a_newer_format_is_refused() {
    let faults = document("sidestack: 2\n").resolve("dev").unwrap_err();
    assert!(faults[0].message.contains("is not known"), "{}", faults[0]);
    assert!(document("workspace: x\n").resolve("dev").is_err());
}

#[test]
fn what_becomes_of_external_things_is_chosen() {
    let text = "\
sidestack: 1
isolation:
  networks: {proxy: share, edge: {share: [web, api]}, own: create}
  volumes: {data: copy, shared: share, empty: create}
  keep: [API_URL, web.healthcheck]
environments:
  dev: {}
  ci:
    isolation: {volumes: {data: create, shared: null}, keep: api}
";
    let dev = document(text).resolve("dev").unwrap().isolation;
    let edge = NetworkChoice::Edge(vec!["web".to_owned(), "api".to_owned()]);
    assert_eq!(dev.networks["proxy"], NetworkChoice::Share);
    assert_eq!((&dev.networks["edge"], &dev.networks["own"]), (&edge, &NetworkChoice::Create));
    assert_eq!(
        dev.volumes.values().copied().collect::<Vec<_>>(),
        [VolumeChoice::Copy, VolumeChoice::Create, VolumeChoice::Share]
    );
    assert_eq!(dev.keep, ["API_URL", "web.healthcheck"]);
    let ci = document(text).resolve("ci").unwrap().isolation;
    assert_eq!(ci.volumes["data"], VolumeChoice::Create);
    assert!(!ci.volumes.contains_key("shared"));
    assert_eq!((ci.keep, ci.networks), (vec!["api".to_owned()], dev.networks.clone()));
    // It is kept in a revision as it is written, and a manifest without it has no such key.
    let kept = serde_json::to_value(&dev).unwrap();
    assert_eq!(kept["networks"]["edge"], serde_json::json!(["web", "api"]));
    assert_eq!(serde_json::from_value::<IsolationChoices>(kept).unwrap(), dev);
    assert!(serde_json::to_value(Manifest::default()).unwrap().get("isolation").is_none());
}

#[test]
fn a_choice_that_is_none_is_named() {
    let told = |isolation: &str| {
        let faults = document(&format!("sidestack: 1\nisolation: {isolation}\n")).resolve("dev").unwrap_err();
        faults.iter().map(|fault| format!("{}: {}", fault.path.join("."), fault.message)).collect::<Vec<_>>()
    };
    for (isolation, expected) in [
        ("{networks: {proxy: copy}}", "isolation.networks.proxy: `copy` is no choice for `proxy`"),
        ("{networks: {proxy: [web]}}", "isolation.networks.proxy: a list is no choice for `proxy`"),
        ("{networks: {proxy: {share: [1]}}}", "isolation.networks.proxy: a mapping is no choice for `proxy`"),
        (
            "{networks: {proxy: {share: [web], more: 1}}}",
            "isolation.networks.proxy: a mapping is no choice for `proxy`",
        ),
        ("{volumes: {data: keep}}", "isolation.volumes.data: `keep` is no choice for `data`"),
        ("{volumes: [data]}", "isolation.volumes: `isolation.volumes` must be a mapping, not a list"),
        ("{keep: [1]}", "isolation.keep.0: `isolation.keep.0` must be a text, not a number"),
        ("{network: {}}", "isolation.network: unknown key `network`"),
        ("share", "isolation: `isolation` must be a mapping, not a text"),
    ] {
        assert_eq!(told(isolation), [expected], "{isolation}");
    }
}
