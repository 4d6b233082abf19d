//! The planner over data: what it decides and what it refuses.

mod laws;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::fixtures::{manifest, modules, placement};
use super::*;
use crate::compose::Condition;
use crate::diagnostic::has_errors;
use crate::order::order;
use crate::plan::LayerKind;
use crate::render::{Images, render};
use crate::secret::{self, Encoding, token};
use crate::text::plan_text;
use crate::{graph, placeholder};

/// Everything that a test of the planner varies.
#[derive(Default)]
struct Stack {
    manifest: Manifest,
    model: Option<Value>,
    builds: BTreeMap<String, String>,
    templates: revision::Templates,
    interpolation: revision::Interpolation,
}

impl Stack {
    fn new(manifest_text: &str, model: Value) -> Self {
        let model = (!model.is_null()).then_some(model);
        Self { manifest: manifest(manifest_text), model, ..Self::default() }
    }

    fn draft(&self) -> (Draft, Vec<Diagnostic>) {
        let modules = modules();
        let model: Option<Project> = self.model.clone().map(|model| serde_json::from_value(model).unwrap());
        draft(Input {
            model: model.as_ref(),
            builds: &self.builds,
            templates: &self.templates,
            interpolation: &self.interpolation,
            ..Input::new(&self.manifest, &modules)
        })
    }

    fn plan_at(&self, target: &str, slot: u8, layers: &[Layer]) -> Plan {
        let (draft, faults) = self.draft();
        assert!(!has_errors(&faults), "{faults:#?}");
        let (plan, faults) = place(&draft, &placement(target, slot, &draft), layers);
        assert!(!has_errors(&faults), "{faults:#?}");
        plan
    }

    fn plan(&self) -> Plan {
        self.plan_at("shop/dev/main", 3, &[])
    }

    /// Every fault of drafting and placing, as `path: message`.
    fn faults(&self) -> Vec<String> {
        let (draft, mut faults) = self.draft();
        faults.extend(place(&draft, &placement("shop/dev/main", 3, &draft), &[]).1);
        faults.iter().map(|fault| format!("{}: {}", fault.path.join("."), fault.message)).collect()
    }
}

fn shop() -> Stack {
    let mut stack = Stack::new(
        "resources: {db: {engine: postgres, databases: [shop, jobs]}, cache: redis}\ninject: {web: [db, EXTRA]}\nenv: {LOG_LEVEL: debug}\n",
        json!({
            "services": {
                "web": {
                    "image": "web:1",
                    "environment": {"LOG_LEVEL": "info", "SECRET": token("env:S", Encoding::Raw), "SIDESTACK_SLOT": null, "PASS": null},
                    "ports": [{"target": 8080, "published": "8080"}, {"target": 53, "protocol": "udp"}, {"target": 53}],
                    "networks": {"front": null},
                    "depends_on": {"migrate": {"condition": "service_completed_successfully", "required": true}},
                },
                "migrate": {"image": "web:1"},
            },
            "networks": {"front": {"name": format!("{}_front", placeholder::PROJECT)}},
        }),
    );
    stack.templates.insert("web".into(), BTreeMap::from([("LOG_LEVEL".into(), "${LOG_LEVEL:-info}".into())]));
    stack
}

#[test]
fn a_plan_prints_as_fixed_text() {
    let expected = "\
shop/dev/main runs a new revision in slot 3 as project shop_dev_main
resources:
  cache: redis 17 (redis:17), arranged single, because it is to be cache
  db: postgres 17 (postgres:17), arranged single, because it is to be sql-database; databases: shop, jobs
services:
  cache: redis:17, for resource cache
  db: postgres:17, for resource db
  migrate: web:1, runs to its end
  cache-watch: watch, for resource cache, after cache started
  web: web:1, after db is healthy and migrate is done
ports:
  cache:6379 → 127.0.0.1:20300/tcp
  db:5432 → 127.0.0.1:20301/tcp
  web:53 → 127.0.0.1:20302/tcp
  web:53 → 127.0.0.1:20302/udp
  web:8080 → 127.0.0.1:20303/tcp, in the place of 8080
networks:
  default: shop_dev_main_default, 10.231.6.0/24
  front: shop_dev_main_front, 10.231.7.0/27
volumes:
  cache-data: shop_dev_main_cache-data
  db-data: shop_dev_main_db-data
changed for isolation:
  /services/web/ports/0/published: 8080 → 20303 (host-port: one host port serves one copy)
  /services/web/ports/1/published: nothing → 20302 (host-port: one host port serves one copy)
  /services/web/ports/2/published: nothing → 20302 (host-port: one host port serves one copy)
secrets that Docker will hold in its container config:
  web SECRET = ‹env:S› (from compose compose files)
";
    let plan = shop().plan();
    let model: Project = serde_json::from_value(shop().model.unwrap()).unwrap();
    assert_eq!(plan_text(&plan, &isolation::report(&model, &plan)), expected);
    assert_eq!(order(&plan).unwrap(), [vec!["cache", "db", "migrate"], vec!["cache-watch", "web"]]);
}

#[test]
fn a_plan_draws_itself() {
    let plan = shop().plan();
    let mermaid = graph::mermaid(&plan);
    for line in [
        "flowchart LR",
        "  n2[(\"db<br/>postgres 17\")]",
        "  n4 ==>|\"7 variables\"| n2",
        "  n4 -->|\"done\"| n3",
        "  p0([\"127.0.0.1:20300 6379/tcp\"]) -.-> n0",
    ] {
        assert!(mermaid.lines().any(|found| found == line), "{line}\n{mermaid}");
    }
    let dot = graph::dot(&plan);
    for line in [
        "  n2 [label=\"db\\npostgres 17\" shape=cylinder];",
        "  n4 -> n3 [label=\"done\"];",
        "  p0 -> n0 [style=dotted];",
    ] {
        assert!(dot.lines().any(|found| found == line), "{line}\n{dot}");
    }
}

#[test]
fn services_get_what_they_name() {
    let plan = shop().plan();
    let web = &plan.container_variables["web"];
    let value = |name: &str| web.get(name).map(|variable| (variable.value.as_str(), variable.layer));
    for (name, expected) in [
        ("LOG_LEVEL", Some(("debug", LayerKind::Manifest))),
        ("DB_URL", Some(("postgres://postgres:postgres@db:5432/shop", LayerKind::Client))),
        ("DB_JOBS_URL", Some(("postgres://postgres:postgres@db:5432/jobs", LayerKind::Client))),
        ("DATABASE_URL", Some(("postgres://postgres:postgres@db:5432/shop", LayerKind::Client))),
        ("SIDESTACK_SLOT", Some(("3", LayerKind::Placement))),
        ("SIDESTACK_HOST", None),
        ("CACHE_URL", None),
        ("EXTRA", None),
        ("PASS", None),
    ] {
        assert_eq!(value(name), expected, "{name}");
    }
    assert!(plan.container_variables["migrate"].is_empty());
    assert_eq!(plan.host_variables["DB_URL"].value, "postgres://postgres:postgres@127.0.0.1:20301/shop");
    assert_eq!(plan.host_variables["SIDESTACK_HOST"].value, "main.dev.shop.localhost");
    // What is shown is what is launched.
    for (name, service) in &plan.services {
        let shown: BTreeMap<_, _> = plan.container_variables[name]
            .iter()
            .map(|(key, variable)| (key.clone(), Some(variable.value.clone())))
            .collect();
        assert_eq!(shown, service.compose.environment, "{name}");
    }
}

fn layer(kind: LayerKind, origin: &str, pairs: &[(&str, &str)]) -> Layer {
    let values = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Layer { kind, origin: origin.to_owned(), values }
}

#[test]
fn layers_win_by_rank_and_reach_interpolations() {
    let mut stack = Stack::new(
        "env: {SCHEME: https}\n",
        json!({"services": {"web": {"image": "x", "environment": {"URL": "http://a/", "PLAIN": "p", "NAME": "shop_dev_main-n"}}, "other": {"image": "x", "environment": {"A": "1"}}}}),
    );
    stack.templates.insert(
        "web".into(),
        BTreeMap::from([
            ("URL".into(), "${SCHEME:-http}://${HOST_X}/".into()),
            ("NAME".into(), "${SIDESTACK_SLOT}-n".into()),
        ]),
    );
    stack.interpolation.insert("HOST_X".into(), Some("a".into()));
    stack.interpolation.insert("SCHEME".into(), None);
    let url = |layers: &[Layer]| {
        let plan = stack.plan_at("shop/dev/main", 3, layers);
        let variable = plan.container_variables["web"]["URL"].clone();
        assert!(!plan.container_variables["other"].contains_key("URL"));
        (variable.value, variable.layer, variable.origin)
    };
    let got = |value: &str, kind, origin: &str| (value.to_owned(), kind, origin.to_owned());
    assert_eq!(url(&[]), got("https://a/", LayerKind::Manifest, "sidestack.yaml"));
    let instance = layer(LayerKind::Instance, "main", &[("HOST_X", "i")]);
    let workspace = layer(LayerKind::Workspace, "shop", &[("HOST_X", "w"), ("UNNAMED", "u")]);
    assert_eq!(url(std::slice::from_ref(&workspace)), got("https://w/", LayerKind::Workspace, "shop"));
    // The order in which layers are given does not matter, their rank does.
    for layers in [[instance.clone(), workspace.clone()], [workspace, instance]] {
        assert_eq!(url(&layers), got("https://i/", LayerKind::Instance, "main"));
    }
    // An entry's own name beats one that it mentions, at the same rank and above it.
    let both = layer(LayerKind::Source, "vpn", &[("HOST_X", "s"), ("URL", "u")]);
    assert_eq!(url(std::slice::from_ref(&both)), got("u", LayerKind::Source, "vpn"));
    let above = layer(LayerKind::Instance, "main", &[("HOST_X", "i")]);
    assert_eq!(url(&[both, above]), got("https://i/", LayerKind::Instance, "main"));
    // A secret passes through as what it is.
    let secret = layer(LayerKind::Instance, "main", &[("HOST_X", &token("env:T", Encoding::Raw))]);
    let plan = stack.plan_at("shop/dev/main", 3, &[secret]);
    assert_eq!(secret::shown(&plan.container_variables["web"]["URL"].value), "https://‹env:T›/");
    assert!(plan.secrets().contains("env:T"));
    assert_eq!(plan.exposed.len(), 1);
    assert_eq!(plan.container_variables["web"]["NAME"].value, "3-n");
}

#[test]
fn layers_from_outside_are_checked() {
    let stack = shop();
    let (draft, _) = stack.draft();
    let told = |pairs: &[(&str, &str)]| {
        let (plan, faults) =
            place(&draft, &placement("shop/dev/main", 3, &draft), &[layer(LayerKind::Source, "vpn", pairs)]);
        assert_eq!(plan.container_variables["web"]["SIDESTACK_SLOT"].value, "3");
        faults.iter().map(|fault| fault.message.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        told(&[("A B", "x")]),
        ["variables of source `vpn`: the name `A B` may hold only letters, digits and `_`"]
    );
    assert_eq!(
        told(&[("OK", "a\0b")]),
        ["variables of source `vpn`: the value of `OK` holds a NUL, which no variable can"]
    );
    assert_eq!(
        told(&[("SIDESTACK_SLOT", "9")]),
        ["variables of source `vpn`: `SIDESTACK_SLOT` says where the instance stands and stays as it is"]
    );
}

#[test]
fn faults_are_named() {
    let web = |service: Value| json!({"services": {"web": service}});
    for (text, model, expected) in [
        ("resources: {db: {engine: postgrs}}\n", Value::Null, "resources.db.engine: no module is called `postgrs`"),
        (
            "resources: {db: {engine: postgres@9}}\n",
            Value::Null,
            "resources.db.engine: module `postgres` has no version `9`",
        ),
        (
            "resources: {db: {is: sql-databse}}\n",
            Value::Null,
            "resources.db.is: nothing in the catalogue provides `sql-databse`",
        ),
        (
            "resources: {db: {engine: postgres, is: cache}}\n",
            Value::Null,
            "resources.db.is: `postgres` does not provide `cache`",
        ),
        (
            "resources: {db: {engine: postgres, arrangement: failover}}\n",
            Value::Null,
            "resources.db.arrangement: `postgres` cannot be arranged as `failover`",
        ),
        (
            "resources: {db: {engine: postgres, storage: 2TiB}}\n",
            Value::Null,
            "resources.db.storage: `postgres` offers `storage` up to 1TiB",
        ),
        (
            "resources: {db: {engine: postgres, colour: red}}\n",
            Value::Null,
            "resources.db.colour: `postgres` knows nothing of `colour`",
        ),
        (
            "resources: {db: {engine: postgres, databases: [A]}}\n",
            Value::Null,
            "resources.db.databases.0: `A` is no valid name here",
        ),
        (
            "resources: {db: {engine: postgres, databases: [a, a]}}\n",
            Value::Null,
            "resources.db.databases.1: `a` is named twice",
        ),
        (
            "resources: {db: {engine: postgres, databases: [a-b, a_b]}}\n",
            Value::Null,
            "resources.db: two variables of `db` would be called `DB_A_B_URL`",
        ),
        (
            "resources: {db: {engine: postgres, settings: {connections: 0}}}\n",
            Value::Null,
            "resources.db.settings.connections: setting `connections` of `postgres`: expected a whole number from 1 to 999, found 0",
        ),
        (
            "resources: {db: {engine: postgres, settings: {locale: {secret: 'env:X'}}}}\n",
            Value::Null,
            "resources.db.settings.locale: setting `locale` of `postgres`: a secret cannot stand here",
        ),
        (
            "resources: {db: {engine: postgres, credentials: {user: {secret: 'env:X'}}}}\n",
            Value::Null,
            "resources.db.credentials.user: `user` of `postgres` cannot be a secret: it is shown in commands",
        ),
        (
            "resources: {a: {engine: postgres, default: true}, b: {engine: postgres, default: true}}\n",
            Value::Null,
            "resources.b.default: `a` and `b` are both marked `default` for the same variables",
        ),
        (
            "resources: {db: {engine: postgres, databases: [jobs]}, db-jobs: postgres}\n",
            Value::Null,
            "resources.db-jobs: `db` and `db-jobs` both give their clients `DB_JOBS_URL`",
        ),
        (
            "resources: {a: redis, a-watch: redis}\n",
            Value::Null,
            "resources.a-watch: resources `a` and `a-watch` both become the service `a-watch`",
        ),
        (
            "resources: {web: redis}\n",
            web(json!({"image": "x"})),
            "resources.web: resource `web` and a service of the compose files are both called `web`",
        ),
        (
            "resources: {db: postgres}\n",
            json!({"services": {"web": {"image": "x"}}, "volumes": {"db-data": null}}),
            "resources.db: resource `db` and the compose files would both write to the volume `db-data`",
        ),
        ("inject: {wep: [db]}\n", web(json!({"image": "x"})), "inject.wep: no compose file has a service `wep`"),
        (
            "inject: {web: [bd]}\nresources: {db: postgres}\n",
            web(json!({"image": "x"})),
            "inject.web.0: `bd` is neither a resource nor a variable",
        ),
        (
            "inject: {web: [db]}\nresources: {db: postgres}\n",
            web(json!({"image": "x", "network_mode": "none"})),
            "inject.web: `web` has no network, so it cannot reach what is injected",
        ),
        (
            "env: {SIDESTACK_SLOT: 1}\n",
            Value::Null,
            "env.SIDESTACK_SLOT: `SIDESTACK_SLOT` says where an instance stands and cannot be set",
        ),
        (
            "{}\n",
            json!({"services": {"a": {"image": "x", "depends_on": {"b": {"condition": "service_started"}}}, "b": {"image": "x", "depends_on": {"c": {"condition": "service_started"}}}, "c": {"image": "x", "network_mode": "service:a"}}}),
            "services.a.depends_on: services wait for each other: a → b → c → a",
        ),
    ] {
        let text = if text == "{}\n" { "" } else { text };
        let faults = Stack::new(text, model).faults();
        assert!(faults.iter().any(|fault| fault == expected), "{expected}\n{faults:#?}");
    }
}

#[test]
fn what_has_no_place_is_refused() {
    let stack = shop();
    let (draft, _) = stack.draft();
    let told = |change: &dyn Fn(&mut Placement)| {
        let mut placement = placement("shop/dev/main", 3, &draft);
        change(&mut placement);
        place(&draft, &placement, &[]).1.into_iter().map(|fault| fault.message).collect::<Vec<_>>()
    };
    assert_eq!(
        told(&|p| p.ports.extend([("db/5432/0".into(), 100)])),
        ["`db/5432/0` would need port 100 of a slot that has 100"]
    );
    assert_eq!(told(&|p| p.ports.retain(|key, _| key != "db/5432/0")), ["no port of the slot is kept for `db/5432/0`"]);
    assert_eq!(
        told(&|p| p.networks.extend([("front".into(), 64)])),
        ["network `front` would be number 65 of at most 64 of an instance"]
    );
    // Without a slot a plan can be shown all the same.
    assert!(told(&|p| p.slot = None).is_empty());
}

#[test]
fn only_the_sole_or_marked_provider_has_the_conventional_names() {
    for (text, owner) in [
        ("resources: {a: postgres}\n", Some("a")),
        ("resources: {a: postgres, b: postgres}\n", None),
        ("resources: {a: postgres, b: {engine: postgres, default: true}}\n", Some("b")),
        ("resources: {a: postgres, b: {engine: postgres, default: false}}\n", Some("a")),
        ("resources: {a: {engine: postgres, default: false}}\n", None),
        ("resources: {a: postgres, c: redis}\n", Some("a")),
        ("resources: {database: postgres}\n", Some("database")),
    ] {
        let plan = Stack::new(text, Value::Null).plan();
        let found = plan.host_variables.get("PGHOST").map(|variable| variable.origin.as_str());
        assert_eq!(found, owner, "{text}");
    }
}

#[test]
fn module_parts_become_compose() {
    let plan = shop().plan();
    let db = &plan.services["db"];
    let render = render(&plan, &Images::default());
    assert_eq!(
        render.service("db").unwrap(),
        &json!({
            "image": "postgres:17",
            "command": ["-c", "max_connections=100"],
            "environment": {"POSTGRES_USER": "postgres", "POSTGRES_PASSWORD_FILE": "/run/secrets/password"},
            "volumes": [
                {"type": "volume", "source": "db-data", "target": "/var/lib/postgresql/data"},
                {"type": "bind", "source": format!("/home/tree/files/{}", plan.files.keys().next().unwrap()), "target": "/etc/postgres.conf", "read_only": true},
            ],
            "ports": [{"target": 5432, "published": "20301", "host_ip": "127.0.0.1", "protocol": "tcp", "mode": "host"}],
            "healthcheck": {"test": ["CMD", "pg_isready", "-U", "postgres"], "interval": "1000ms", "timeout": "2000ms", "retries": 3, "start_period": "0ms"},
            "networks": {"default": null, "front": null},
            "restart": "on-failure",
            "labels": {
                "dev.sidestack.install": "install", "dev.sidestack.workspace": "shop", "dev.sidestack.environment": "dev",
                "dev.sidestack.instance": "main", "dev.sidestack.instance-id": "id-shop/dev/main",
            },
        })
    );
    // A secret that comes out empty is left out, an unset setting is not defined.
    assert_eq!(db.deliveries.iter().map(|d| d.path.as_str()).collect::<Vec<_>>(), ["/run/secrets/password"]);
    assert_eq!(plan.files.values().next().unwrap(), "connections = 100\n");
    assert_eq!(
        db.provisions.iter().map(|p| p.stdin.clone().unwrap()).collect::<Vec<_>>(),
        ["create \"shop\";\n", "create \"jobs\";\n"]
    );
    assert_eq!(plan.services["cache-watch"].after["cache"].condition, Condition::Started);
}

#[test]
fn built_images_are_named_by_content() {
    let build = |context: &str| json!({"context": placeholder::CHECKOUT, "args": {"A": context}, "tags": ["x:y"]});
    let mut stack = Stack::new(
        "",
        json!({"services": {
            "web": {"image": "app", "build": build("1")},
            "worker": {"image": "app"},
            "twin": {"build": build("1")},
            "loose": {"image": "loose", "build": build("1")},
        }}),
    );
    for service in ["web", "twin"] {
        stack.builds.insert(service.into(), "d".repeat(64));
    }
    let image = |plan: &Plan, service: &str| plan.services[service].compose.image.clone();
    let plan = stack.plan();
    let tag = image(&plan, "web").unwrap();
    assert!(tag.starts_with("sidestack-shop_web:") && tag.len() == "sidestack-shop_web:".len() + 16, "{tag}");
    assert_eq!(image(&plan, "worker"), Some(tag.clone()));
    assert_eq!(image(&plan, "loose"), None);
    assert!(
        plan.services
            .values()
            .all(|service| { service.compose.build.as_ref().is_none_or(|build| !build.contains_key("tags")) })
    );
    // The folder and the instance do not matter, what is built does.
    assert_eq!(image(&stack.plan_at("shop/test/r9", 9, &[]), "web"), Some(tag.clone()));
    stack.model.as_mut().unwrap()["services"]["web"]["build"] = build("2");
    assert_ne!(image(&stack.plan(), "web"), Some(tag));
}

#[test]
fn a_second_generation_of_data_meets_no_volume() {
    let stack =
        Stack::new("", json!({"services": {"web": {"image": "x"}}, "volumes": {"data": null, "data-g2": null}}));
    let (draft, _) = stack.draft();
    let mut names = BTreeSet::new();
    for generation in 1..4 {
        let placement = Placement { generation, ..placement("shop/dev/main", 3, &draft) };
        names.extend(place(&draft, &placement, &[]).0.volumes.into_values().map(|volume| volume.name.unwrap()));
    }
    assert_eq!(names.len(), 6, "{names:?}");
}

#[test]
fn internal_networks_are_told() {
    let stack = Stack::new(
        "resources: {db: postgres}\n",
        json!({
            "services": {"web": {"image": "x", "ports": [{"target": 80}], "networks": {"back": null}}},
            "networks": {"back": {"internal": true}, "default": {"internal": true}},
        }),
    );
    let warned: Vec<_> = stack.draft().1.into_iter().map(|fault| fault.path[1].clone()).collect();
    assert_eq!(warned, ["db", "web"]);
}

#[test]
fn resources_reach_who_shares_a_network() {
    let stack = Stack::new(
        "resources: {db: postgres}\ninject: {side: [db]}\n",
        json!({
            "services": {"web": {"image": "x", "networks": {"back": null}}, "side": {"image": "x", "network_mode": "service:web"}},
            "networks": {"back": null},
        }),
    );
    let plan = stack.plan();
    let networks = |service: &str| plan.services[service].compose.networks.keys().cloned().collect::<Vec<_>>();
    assert_eq!(networks("db"), ["back", "default"]);
    assert!(networks("side").is_empty());
    assert_eq!(plan.services["side"].after.keys().collect::<Vec<_>>(), ["db", "web"]);
}

#[test]
fn p45_a_revision_keeps_its_own_modules() {
    let manifest = manifest("resources: {db: postgres}\n");
    let mut own = modules();
    let planned = |modules: &BTreeMap<String, Module>| {
        let (draft, faults) = draft(Input::new(&manifest, modules));
        assert!(faults.is_empty(), "{faults:?}");
        let plan = place(&draft, &placement("shop/dev/main", 0, &draft), &[]).0;
        render(&plan, &Images::default()).tree()
    };
    let before = planned(&own);
    let mut upgraded = own.clone();
    upgraded.get_mut("postgres").unwrap().versions[0].image = "postgres:17.9".into();
    assert_ne!(planned(&upgraded), before, "the module's text decides");
    // What the catalogue has beside the revision's own modules decides nothing.
    own.remove("redis");
    assert_eq!(planned(&own), before);
}

#[test]
fn every_resource_is_found_at_its_own_port() {
    let web = json!({"image": "w:1", "ports": [{"target": 80}, {"target": 5432}]});
    let services = json!({"services": {"da": web, "db-3": web, "zz": web}});
    let plan =
        Stack::new("resources: {d: postgres, db: postgres, db-2: postgres, db-2-x: redis, z: postgres}", services)
            .plan();
    let mut seen = BTreeSet::new();
    for (name, resource) in &plan.resources {
        let main = &resource.services[0];
        let port = plan.ports.iter().find(|port| port.publish.service == *main).unwrap();
        let published: Vec<_> = plan.services[main].compose.ports.iter().map(|port| port.published.clone()).collect();
        assert_eq!(published, [Some(port.host_port.to_string())], "{name}");
        let url = &plan.host_variables[&format!("{}_URL", crate::template::variable_name(name.as_str()))].value;
        assert!(url.contains(&format!("127.0.0.1:{}/", port.host_port)), "{name}: {url}");
        assert!(seen.insert(port.host_port), "{name}");
    }
    assert_eq!(seen.len(), 5);
}
