//! Isolation over data: a model goes in, the report and the rendered model come out.
//!
//! Whatever a test looks at, every copy that is made here is also held to the law
//! of the report: its entries, applied to the original, give the rendered model,
//! taken back they give the original, and none is without a rule.

mod addresses;
mod choices;
mod laws;
mod names;
mod ports;
mod refusals;
mod selves;
mod services;
mod sharing;
mod traefik;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::*;
use crate::compose::Project;
use crate::diagnostic::{Severity, has_errors};
use crate::manifest::Manifest;
use crate::placeholder::{CHECKOUT, PROJECT};
use crate::planner::fixtures::{manifest, placement};
use crate::planner::{self, Input};
use crate::render::{Images, render};

/// What a test varies.
#[derive(Default)]
struct Given {
    model: Value,
    manifest: Manifest,
    builds: BTreeMap<String, String>,
    profiles: Vec<String>,
    own_ports: BTreeSet<u16>,
}

/// A copy of a project, as it will run.
struct Copy {
    report: Vec<Change>,
    /// What Compose would be given, in plain form.
    model: Value,
    plan: Plan,
    faults: Vec<Diagnostic>,
}

fn given(model: Value) -> Given {
    Given { model, ..Given::default() }
}

/// A model of one service `web`.
#[expect(clippy::needless_pass_by_value, reason = "every caller makes it on the spot")]
fn web(service: Value) -> Given {
    given(json!({ "services": { "web": service } }))
}

/// The copy that `main` of slot 3 is.
#[track_caller]
fn copy(model: Value) -> Copy {
    given(model).copy()
}

impl Given {
    fn choosing(mut self, isolation: &str) -> Self {
        self.manifest = manifest(&format!("isolation: {isolation}\n"));
        self
    }

    fn draft(&self) -> (Project, Draft, Vec<Diagnostic>) {
        let model: Project = serde_json::from_value(self.model.clone()).unwrap();
        let modules = BTreeMap::new();
        let input = Input {
            model: Some(&model),
            builds: &self.builds,
            profiles: &self.profiles,
            ..Input::new(&self.manifest, &modules)
        };
        let (draft, faults) = planner::draft(input);
        (model, draft, faults)
    }

    /// A copy, or why there is none.
    fn try_at(&self, target: &str, slot: u8) -> Result<Copy, Vec<Diagnostic>> {
        let (model, draft, mut faults) = self.draft();
        let mut placement = placement(target, slot, &draft);
        placement.own_ports.clone_from(&self.own_ports);
        let (plan, more) = planner::place(&draft, &placement, &[]);
        faults.extend(more);
        if has_errors(&faults) {
            return Err(faults);
        }
        let report = report(&model, &plan);
        let mut original = serde_json::to_value(&model).unwrap();
        placeholder::fill(&mut original, &plan.project, &plan.placement.checkout);
        original["name"] = plan.project.clone().into();
        claim::plain(&mut original, &plan.project);
        let mut rendered = render(&plan, &Images::default()).model;
        claim::plain(&mut rendered, &plan.project);
        assert_eq!(applied(&original, &report, false), rendered, "{report:#?}");
        assert_eq!(applied(&rendered, &report, true), original, "{report:#?}");
        let unexplained: Vec<_> = report.iter().filter(|change| change.rule == UNEXPLAINED).collect();
        assert!(unexplained.is_empty(), "{unexplained:#?}");
        Ok(Copy { report, model: rendered, plan, faults })
    }

    #[track_caller]
    fn at(&self, target: &str, slot: u8) -> Copy {
        self.try_at(target, slot).unwrap_or_else(|faults| panic!("{faults:#?}\n{}", self.model))
    }

    #[track_caller]
    fn copy(&self) -> Copy {
        self.at("shop/dev/main", 3)
    }

    /// Two copies, side by side.
    #[track_caller]
    fn two(&self) -> [Copy; 2] {
        [self.copy(), self.at("shop/dev/two", 4)]
    }

    /// Every fault as `path: message`, warnings marked.
    fn faults(&self) -> Vec<String> {
        match self.try_at("shop/dev/main", 3) {
            Ok(copy) => copy.told(),
            Err(faults) => faults.iter().map(line).collect(),
        }
    }
}

fn line(fault: &Diagnostic) -> String {
    let severity = if fault.severity == Severity::Error { "" } else { "warning " };
    format!("{severity}{}: {}", fault.path.join("."), fault.message)
}

/// A model with every entry of a report applied, or taken back.
fn applied(model: &Value, report: &[Change], back: bool) -> Value {
    let mut model = model.clone();
    let mut report: Vec<&Change> = report.iter().collect();
    if back {
        report.reverse();
    }
    for change in report {
        let (from, to) = if back { (&change.to, &change.from) } else { (&change.from, &change.to) };
        let (above, key) = change.path.rsplit_once('/').unwrap();
        let key = key.replace("~1", "/").replace("~0", "~");
        let place = model.pointer_mut(above).unwrap_or_else(|| panic!("{} is nowhere in {change:?}", change.path));
        match place {
            Value::Object(map) => {
                assert_eq!(map.get(&key).unwrap_or(&Value::Null), from, "{change:?}");
                match to {
                    Value::Null => _ = map.remove(&key),
                    to => _ = map.insert(key, to.clone()),
                }
            }
            Value::Array(items) => {
                let at: usize = key.parse().unwrap();
                assert_eq!(items.get(at).unwrap_or(&Value::Null), from, "{change:?}");
                match (to, items.len() - at) {
                    (Value::Null, 1) => _ = items.pop(),
                    (to, 0) => items.push(to.clone()),
                    (to, _) => items[at] = to.clone(),
                }
            }
            other => panic!("{change:?} in {other}"),
        }
    }
    model
}

/// Rules that change something in nearly every project.
const EVERYWHERE: [&str; 3] = ["label", "subnet", "loopback"];

impl Copy {
    /// The report as `rule path: from → to`, without what every copy has.
    fn changes(&self) -> Vec<String> {
        let special = |change: &&Change| {
            !EVERYWHERE.contains(&change.rule) || (change.rule == "subnet" && !change.from.is_null())
        };
        let changes = self.report.iter().filter(special);
        changes.map(|c| format!("{} {}: {} → {}", c.rule, c.path, c.from, c.to)).collect()
    }

    /// The entries of one rule, as `path: from → to`.
    fn of(&self, rule: &str) -> Vec<String> {
        let changes = self.report.iter().filter(|change| change.rule == rule);
        changes.map(|c| format!("{}: {} → {}", c.path, c.from, c.to)).collect()
    }

    /// What is said of it.
    fn told(&self) -> Vec<String> {
        self.faults.iter().map(line).collect()
    }

    /// A part of what Compose would be given.
    #[track_caller]
    fn part(&self, pointer: &str) -> &Value {
        self.model.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// A part of the service `web`.
    #[track_caller]
    fn web(&self, key: &str) -> &Value {
        self.part(&format!("/services/web/{key}"))
    }

    /// The services that run.
    fn services(&self) -> impl Iterator<Item = &Value> {
        self.model.get("services").and_then(Value::as_object).into_iter().flat_map(|services| services.values())
    }

    /// Everything that only one container, network or volume of a machine can have.
    fn own(&self) -> BTreeSet<String> {
        let mut own = BTreeSet::new();
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        for (section, part) in ["networks", "volumes"].iter().flat_map(|section| {
            let parts = self.model.get(*section).and_then(Value::as_object);
            parts.into_iter().flat_map(|parts| parts.values()).map(move |part| (section, part))
        }) {
            own.insert(format!("{section} {}", text(&part["name"])));
            for config in part.pointer("/ipam/config").and_then(Value::as_array).into_iter().flatten() {
                own.insert(format!("subnet {}", text(&config["subnet"])));
            }
        }
        for service in self.services() {
            own.extend(service.get("container_name").map(|name| format!("container {}", text(name))));
            own.extend(service.get("mac_address").map(|mac| format!("mac {}", text(mac))));
            for joined in service.get("networks").and_then(Value::as_object).into_iter().flat_map(|all| all.values()) {
                for key in ["ipv4_address", "ipv6_address", "mac_address"] {
                    own.extend(joined.get(key).map(|address| format!("{key} {}", text(address))));
                }
            }
            for port in service.get("ports").and_then(Value::as_array).into_iter().flatten() {
                let published = text(&port["published"]);
                let (first, last) = published.split_once('-').unwrap_or((&published, &published));
                for number in first.parse::<u16>().unwrap()..=last.parse().unwrap() {
                    own.insert(format!("{} port {number}", text(&port["protocol"])));
                }
            }
        }
        own
    }
}

/// What two copies both have and only one can.
fn met([one, other]: &[Copy; 2]) -> Vec<String> {
    one.own().intersection(&other.own()).cloned().collect()
}
