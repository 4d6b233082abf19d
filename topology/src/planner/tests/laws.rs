//! Laws of the planner, as properties.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Stack, layer, shop};
use crate::graph;
use crate::plan::{LayerKind, Plan, PlannedPort};
use crate::render::{Images, render};
use crate::secret::{Encoding, token};
use crate::text::plan_text;
use crate::yaml;

/// The last two digits of every port, by key.
fn digits(plan: &Plan) -> BTreeMap<String, u16> {
    plan.ports.iter().map(|port| (port.publish.key(), port.host_port % 100)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn p35_ports_are_loopback_and_keep_their_digits(a in 0_u8..127, b in 0_u8..127) {
        let stack = shop();
        let (one, other) = (stack.plan_at("shop/dev/main", a, &[]), stack.plan_at("shop/dev/r2", b, &[]));
        prop_assert_eq!(digits(&one), digits(&other));
        let rendered = render(&one, &Images::default()).model;
        for service in rendered["services"].as_object().unwrap().values() {
            for port in service.get("ports").and_then(Value::as_array).into_iter().flatten() {
                prop_assert_eq!(&port["host_ip"], "127.0.0.1");
                let published: u16 = port["published"].as_str().unwrap().parse().unwrap();
                prop_assert_eq!(crate::names::Slot::of_port(published).map(|slot| slot.number()), Some(a));
            }
        }
    }

    #[test]
    fn planning_twice_is_planning_once(slot in 0_u8..127) {
        let stack = shop();
        let text = || {
            let plan = stack.plan_at("shop/dev/main", slot, &[]);
            (plan_text(&plan, &[]), render(&plan, &Images::default()).tree(), graph::dot(&plan))
        };
        prop_assert_eq!(text(), text());
    }

    #[test]
    fn no_two_instances_share_anything(
        a in ("[a-c]{1,2}(-[a-c])?", "[a-c]{1,2}(-[a-c])?", "[a-c]{1,2}(-[a-c])?", 0_u8..127),
        b in ("[a-c]{1,2}(-[a-c])?", "[a-c]{1,2}(-[a-c])?", "[a-c]{1,2}(-[a-c])?", 0_u8..127),
    ) {
        let target = |t: &(String, String, String, u8)| format!("{}/{}/{}", t.0, t.1, t.2);
        prop_assume!(target(&a) != target(&b) && a.3 != b.3);
        let stack = shop();
        let things = |t: &(String, String, String, u8)| {
            let plan = stack.plan_at(&target(t), t.3, &[]);
            let mut things: BTreeSet<String> = plan.ports.iter().map(PlannedPort::host).collect();
            things.extend(plan.networks.values().flat_map(|network| [network.name.clone().unwrap(), network.ipam["config"][0]["subnet"].to_string()]));
            things.extend(plan.volumes.values().map(|volume| volume.name.clone().unwrap()));
            things.extend(plan.services.keys().map(|service| format!("{}.{}", crate::names::dns_label(service), plan.placement.target.host())));
            things.insert(plan.project.clone());
            things
        };
        let (one, other) = (things(&a), things(&b));
        let shared: Vec<_> = one.intersection(&other).collect();
        prop_assert!(shared.is_empty(), "{shared:?}");
    }

    #[test]
    fn p40_values_are_exact(value in any::<String>(), reference in "[a-z]{1,5}") {
        let value: String = value.chars().filter(|c| *c != '\0' && yaml::reserved(&c.to_string()).is_none()).collect();
        let mut stack = Stack::new("inject: {web: [V, S]}\n", json!({"services": {"web": {"image": "x"}}}));
        stack.manifest.env.insert("V".into(), value.clone());
        stack.manifest.env.insert("S".into(), token(&format!("env:{reference}"), Encoding::Raw));
        let plan = stack.plan();
        let filled = render(&plan, &Images::default()).filled(|_| value.clone());
        let read: Value = yaml::parse("-", &filled).map_err(|error| TestCaseError::fail(format!("{error}\n{filled}")))?;
        for name in ["V", "S"] {
            let text = read["services"]["web"]["environment"][name].as_str().unwrap();
            prop_assert_eq!(text.replace("$$", "$"), value.clone());
            prop_assert_eq!(text.matches('$').count(), 2 * value.matches('$').count());
        }
        // The tree says the same, with the secret by name.
        let tree: Value = yaml::parse("-", &render(&plan, &Images::default()).tree()).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(&tree["services"]["web"]["environment"]["S"], "${_SS0?}");
        prop_assert_eq!(tree["services"]["web"]["environment"]["V"].as_str().unwrap().replace("$$", "$"), value);
    }

    #[test]
    fn committed_values_stay_without_overrides(value in "[a-z$]{0,8}") {
        let mut stack = Stack::new("", json!({"services": {"web": {"image": "x", "environment": {"URL": format!("u/{value}")}}}}));
        stack.templates.insert("web".into(), BTreeMap::from([("URL".into(), "u/${V-}".into())]));
        stack.interpolation.insert("V".into(), Some(value.clone()));
        let untouched = stack.plan_at("shop/dev/main", 1, &[layer(LayerKind::Workspace, "shop", &[("OTHER", "x")])]);
        prop_assert_eq!(&untouched.container_variables["web"]["URL"].value, &format!("u/{value}"));
        let same = stack.plan_at("shop/dev/main", 1, &[layer(LayerKind::Workspace, "shop", &[("V", &value)])]);
        prop_assert_eq!(&same.container_variables["web"]["URL"].value, &format!("u/{value}"));
        prop_assert_eq!(same.container_variables["web"]["URL"].layer, LayerKind::Workspace);
    }
}
