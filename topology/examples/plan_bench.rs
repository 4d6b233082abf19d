//! How long planning and rendering a stack of 100 services takes: 50 services of
//! compose files, each given a resource, and 50 resources.
//!
//! `cargo run --release -p sidestack-topology --example plan_bench`

use std::time::Instant;

use serde_json::{Map, Value, json};
use sidestack_topology::compose::Project;
use sidestack_topology::planner::{Input, draft, place};
use sidestack_topology::render::{Images, render};

#[path = "../src/planner/fixtures.rs"]
mod fixtures;

const ROUNDS: usize = 400;

fn main() {
    let mut text = String::from("resources:\n");
    let mut services = Map::new();
    for number in 0..50 {
        text.push_str(&format!("  db{number}: {{engine: postgres, databases: [app, jobs]}}\n"));
        let service = json!({
            "image": "web:1",
            "command": ["serve", "--port", "8080"],
            "environment": {"LOG_LEVEL": "info", "URL": "http://api:8080/", "N": number.to_string()},
            "ports": [{"target": 8080, "published": (3000 + number).to_string(), "protocol": "tcp", "mode": "ingress"}],
            "volumes": [{"type": "bind", "source": "\u{E0F2}checkout\u{E0F3}/src", "target": "/src", "bind": {}}],
            "networks": {"default": null},
            "healthcheck": {"test": ["CMD", "true"], "interval": "1s"},
            "restart": "always",
        });
        services.insert(format!("web{number}"), service);
    }
    text.push_str("inject:\n");
    for number in 0..50 {
        text.push_str(&format!("  web{number}: [db{number}]\n"));
    }
    let manifest = fixtures::manifest(&text);
    let modules = fixtures::modules();
    let model: Project = serde_json::from_value(json!({ "services": Value::Object(services) })).unwrap();
    let input = Input { model: Some(&model), ..Input::new(&manifest, &modules) };
    let mut times: Vec<[f64; 4]> = Vec::new();
    let mut length = 0;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let (draft, faults) = draft(input);
        let drafted = start.elapsed();
        assert!(faults.is_empty(), "{faults:#?}");
        let placement = fixtures::placement("shop/dev/main", 3, &draft);
        let start = Instant::now();
        let (plan, faults) = place(&draft, &placement, &[]);
        let placed = start.elapsed();
        assert!(faults.is_empty(), "{faults:#?}");
        assert_eq!(plan.services.len(), 100);
        let start = Instant::now();
        let rendered = render(&plan, &Images::default());
        let built = start.elapsed();
        let start = Instant::now();
        length = rendered.tree().len();
        times.push([drafted, placed, built, start.elapsed()].map(|time| time.as_secs_f64() * 1000.0));
    }
    let mut median = |part: &dyn Fn(&[f64; 4]) -> f64| {
        times.sort_by(|a, b| part(a).total_cmp(&part(b)));
        part(&times[ROUNDS / 2])
    };
    let whole = median(&|parts| parts.iter().sum());
    let parts = [0, 1, 2, 3].map(|at| median(&|parts| parts[at]));
    let line = format!(
        "100 services, {length} bytes of tree: median {whole:.2} ms (draft {:.2}, place {:.2}, render {:.2}, tree {:.2})\n",
        parts[0], parts[1], parts[2], parts[3]
    );
    std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes()).unwrap();
}
