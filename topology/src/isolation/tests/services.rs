//! Order, profiles, restarts, files and hooks.

use super::*;
use crate::compose::Condition;
use crate::secret::{self, Encoding, token};

#[test]
fn row_restart_always() {
    for (service, changes) in [
        (json!({"restart": "always"}), &[r#"/services/web/restart: "always" → "on-failure""#][..]),
        (json!({"restart": "unless-stopped"}), &[r#"/services/web/restart: "unless-stopped" → "on-failure""#]),
        (json!({"restart": "on-failure:3"}), &[]),
        (json!({"restart": "no"}), &[]),
        (json!({}), &[]),
        (
            json!({"deploy": {"restart_policy": {"condition": "any"}, "replicas": 1}}),
            &[
                r#"/services/web/deploy/restart_policy: {"condition":"any"} → null"#,
                r#"/services/web/restart: null → "on-failure""#,
            ],
        ),
        (
            json!({"deploy": {"restart_policy": {"condition": "none"}}}),
            &[r#"/services/web/deploy: {"restart_policy":{"condition":"none"}} → null"#],
        ),
    ] {
        assert_eq!(web(service).copy().of("restart"), changes);
    }
}

#[test]
fn the_order_is_sidestacks() {
    let copy = copy(json!({"services": {
        "web": {"image": "x", "links": ["cache"], "depends_on": {
            "db": {"condition": "service_healthy", "required": true, "restart": true},
            "migrate": {"condition": "service_completed_successfully", "required": true},
            "gone": {"condition": "service_started", "required": false},
            "none": {"condition": "service_started", "required": true},
        }},
        "db": {"image": "x"}, "migrate": {"image": "x"}, "cache": {"image": "x"}, "none": {"image": "x", "scale": 0},
    }}));
    let after: Vec<_> =
        copy.plan.services["web"].after.iter().map(|(name, after)| (name.as_str(), after.condition)).collect();
    assert_eq!(after, [("cache", Condition::Started), ("db", Condition::Healthy), ("migrate", Condition::Completed)]);
    assert!(copy.plan.services["migrate"].one_shot);
    assert_eq!(copy.web("depends_on"), &Value::Null);
    assert_eq!(copy.of("order").len(), 1);
    // A service that has no container waits for nothing, and nobody for it.
    assert_eq!(copy.plan.services["none"].replicas, 0);
}

#[test]
fn profiles_decide_who_runs() {
    let model = json!({"services": {
        "web": {"image": "x"},
        "debug": {"image": "x", "profiles": ["debug", "dev"], "depends_on": {"trace": {"condition": "service_started", "required": true}}},
        "trace": {"image": "x", "profiles": ["trace"]},
        "other": {"image": "x", "profiles": ["other"]},
    }});
    for (profiles, expected, left) in [
        (&["dev"][..], &["debug", "trace", "web"][..], 1),
        (&["trace", "unheard-of"], &["trace", "web"], 2),
        (&[], &["web"], 3),
    ] {
        let profiles = profiles.iter().map(ToString::to_string).collect();
        let copy = Given { profiles, ..given(model.clone()) }.copy();
        assert_eq!(copy.plan.services.keys().collect::<Vec<_>>(), expected);
        let gone =
            copy.report.iter().filter(|c| c.rule == "profile" && c.to.is_null() && c.path.matches('/').count() == 2);
        assert_eq!(gone.count(), left);
    }
}

#[test]
fn files_are_mounted_or_handed_in() {
    let given = given(json!({
        "services": {"web": {
            "image": "x",
            "secrets": [{"source": "env"}, {"source": "file"}],
            "configs": [{"source": "inline", "target": "/etc/x.conf", "mode": "0440", "uid": "5", "gid": "6"}],
        }},
        "secrets": {"env": {"environment": "S"}, "file": {"file": format!("{CHECKOUT}/s")}},
        "configs": {"inline": {"content": format!("a $ {CHECKOUT}")}},
    }));
    let copy = given.copy();
    let web = &copy.plan.services["web"];
    let told: Vec<_> =
        web.deliveries.iter().map(|d| (d.path.as_str(), d.mode, d.uid, d.gid, secret::shown(&d.content))).collect();
    assert_eq!(
        told,
        [
            ("/run/secrets/env", 0o444, 0, 0, "‹env:S›".to_owned()),
            ("/etc/x.conf", 0o440, 5, 6, "a $ /src/shop".to_owned())
        ]
    );
    assert_eq!(copy.web("secrets"), &json!([{"source": "file"}]));
    assert_eq!(copy.web("configs"), &Value::Null);
    assert_eq!(copy.of("delivery").len(), 4, "{:#?}", copy.of("delivery"));
}

#[test]
fn hooks_are_sidestacks() {
    let copy = web(json!({
        "image": "x",
        "post_start": [
            {"command": ["a", "b"], "user": "u", "environment": {"K": "v"}},
            {"command": "echo hi", "environment": ["L=w"]},
        ],
        "pre_stop": [{"command": ["save"], "working_dir": "/w"}],
    }))
    .copy();
    let web = &copy.plan.services["web"];
    assert_eq!(web.post_start[0].command, ["a", "b"]);
    assert_eq!(
        (web.post_start[0].user.as_deref(), &web.post_start[0].environment[..]),
        (Some("u"), &["K=v".to_owned()][..])
    );
    assert_eq!(web.post_start[1].command, ["/bin/sh", "-c", "echo hi"]);
    assert_eq!(
        (&web.pre_stop[0].command[..], web.pre_stop[0].working_dir.as_deref()),
        (&["save".to_owned()][..], Some("/w"))
    );
    assert_eq!(copy.of("hook").len(), 2);
}

#[test]
fn what_others_read_is_left_out() {
    let copy = copy(json!({
        "services": {"web": {"image": "x", "develop": {"watch": [{"path": "."}]}, "env_file": [{"path": "x"}], "label_file": ["y"],
            "x-note": {"kept": true}, "environment": {"A": null, "B": "b"}}},
        "x-anchor": {"a": 1},
    }));
    assert_eq!(
        copy.of("left-out"),
        [
            r#"/services/web/develop: {"watch":[{"path":"."}]} → null"#,
            r#"/services/web/env_file: [{"path":"x"}] → null"#,
            r#"/services/web/label_file: ["y"] → null"#,
            r#"/x-anchor: {"a":1} → null"#,
        ]
    );
    assert_eq!(copy.web("x-note"), &json!({"kept": true}));
    assert_eq!(copy.web("environment"), &json!({"B": "b"}));
}

#[test]
fn every_part_says_to_whom_it_belongs() {
    let copy = copy(json!({
        "services": {"web": {"image": "x", "labels": {"own": "l"}}}, "volumes": {"v": null}, "networks": {"n": null},
    }));
    for part in ["/services/web", "/volumes/v", "/networks/n", "/networks/default"] {
        assert_eq!(copy.part(&format!("{part}/labels/dev.sidestack.instance")), "main", "{part}");
    }
    assert_eq!(copy.of("label").iter().filter(|change| change.starts_with("/services/web/labels/dev.")).count(), 5);
    let given = web(json!({"image": "x", "environment": {"K": token("env:A", Encoding::Raw)}}));
    assert_eq!(secret::shown(given.copy().web("environment/K").as_str().unwrap()), "‹env:A›");
}
