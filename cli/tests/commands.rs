//! The built binary, in a world of its own and without Docker.
//!
//! Transcripts stand in `tests/expected/`; `UPDATE_REFERENCE=1` rewrites them.

mod world;

use serde_json::Value;
use world::{COMPOSE, World, has_compose};

#[test]
fn help_names_every_command_and_is_no_error() {
    let world = World::new();
    for words in [&["help"][..], &["--help"], &["-h"]] {
        let run = world.run(words);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{words:?}");
        for command in ["init", "plan", "up", "ls", "describe", "why", "env", "set", "logs", "exec", "down", "secret"] {
            assert!(run.stdout.contains(&format!("\n  {command} ")), "{command}");
        }
    }
    assert!(world.run(&["help", "up"]).stdout.contains("--beside"));
    assert_eq!(world.run(&["version"]).stdout, format!("sidestack {}\n", env!("CARGO_PKG_VERSION")));
    world.holds("help-up", &[&["up", "-h"]]);
}

#[test]
fn an_unknown_word_changes_nothing() {
    let world = World::new();
    world.write("compose.yaml", COMPOSE);
    // Words that mean something in other tools or will mean something here are as unknown as any.
    for word in [
        "upp",
        "dwon",
        "rmm",
        "run",
        "reconcile",
        "push",
        "status",
        "bundle",
        "bootstrap",
        "rotate",
        "source",
        "export",
        "import",
        "backup",
        "restore",
        "recover",
        "gc",
        "doctor",
    ] {
        let run = world.run(&[word]);
        assert_eq!(run.code, 2, "{word}");
        assert_eq!(run.stdout, "");
        assert!(run.stderr.starts_with(&format!("error: there is no command `{word}`\nhint: ")), "{}", run.stderr);
        assert!(run.stderr.lines().count() <= 4);
    }
    assert!(!world.home().exists(), "the store was touched");
    world.holds(
        "unknown",
        &[&["upp"], &["upp", "--json"], &["up", "--besides"], &["up", "--git", "main", "--beside"], &[]],
    );
}

#[test]
fn a_wrong_manifest_is_told_with_its_places() {
    if !has_compose() {
        return;
    }
    let world = World::new();
    world.write("compose.yaml", COMPOSE);
    world.write(
        "sidestack.yaml",
        "sidestack: 1\nworkspace: shop\nresources:\n  db: {is: sql-database, engine: postgres@99}\ncompose: compose.yaml\ninject: {nobody: [db]}\n",
    );
    let before = world.files();
    for verb in ["plan", "up"] {
        let run = world.run(&[verb]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{verb}: {}", run.stderr);
        assert!(run.stderr.contains("sidestack.yaml:4:"), "{}", run.stderr);
    }
    let run = world.run(&["up", "--json"]);
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, &document["ok"], &document["schema"]), (2, &Value::Bool(false), &"sidestack.up.v1".into()));
    let fault = &document["error"]["diagnostics"][0];
    assert_eq!((&fault["file"], &fault["line"]), (&"sidestack.yaml".into(), &4.into()), "{document}");
    assert_eq!(world.files(), before, "something was written");
    assert_eq!(world.json(&["ls", "--all"])["data"]["instances"], Value::Array(Vec::new()));
}

#[test]
fn a_manifest_that_is_no_yaml_is_told_with_its_place() {
    let world = World::new();
    for (text, place) in [
        ("sidestack: 1\nworkspace: [\n", "sidestack.yaml:"),
        ("sidestack: 1\nworkspace: a\nworkspace: b\n", "sidestack.yaml:3:1"),
        ("sidestack: 1\nresourecs: {}\n", "sidestack.yaml:2:1"),
    ] {
        world.write("sidestack.yaml", text);
        let run = world.run(&["plan"]);
        assert_eq!(run.code, 2, "{text}: {}", run.stderr);
        assert!(run.stderr.contains(place), "{text}: {}", run.stderr);
    }
}

#[test]
fn without_an_instance_variables_are_not_there() {
    let world = World::new();
    world.write("compose.yaml", COMPOSE);
    world.holds(
        "no-instance",
        &[
            &["env"],
            &["env", "--format", "shell"],
            &["set", "A=canary"],
            &["unset", "A", "--json"],
            &["set", "A"],
            &["set", "A=1", "A=2"],
            &["set", "A B=canary"],
            &["set", "A=1", "--secret", "env:X"],
            &["describe", "nobody/dev/main"],
            &["ls"],
            &["history"],
        ],
    );
}

#[test]
fn docker_that_cannot_be_reached_has_its_own_code() {
    if !has_compose() {
        return;
    }
    let world = World::new();
    world.write("compose.yaml", COMPOSE);
    let run = world.run(&["up"]);
    assert_eq!(run.code, 8, "{}", run.stderr);
    assert!(
        run.stderr.starts_with("error: docker cannot be reached") && run.stderr.contains("\nhint: "),
        "{}",
        run.stderr
    );
    // What was refused before anything of it was made leaves no instance.
    let run = world.run(&["ls", "--json"]);
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(document["data"]["instances"], serde_json::json!([]), "{document}");
    let run = world.run(&["up", "--json"]);
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, &document["error"]["code"]), (8, &"docker-unreachable".into()));
}

#[test]
fn plan_needs_no_docker_and_leases_nothing() {
    if !has_compose() {
        return;
    }
    let world = World::new();
    world.write("compose.yaml", COMPOSE);
    let plan = world.json(&["plan"]);
    assert_eq!(plan["schema"], "sidestack.plan.v1");
    assert_eq!(plan["data"]["target"], "shop/dev/main");
    assert_eq!(plan["data"]["services"][0]["name"], "web");
    assert_eq!(plan["data"]["ports"][0]["inside"], "web:80");
    let isolation = plan["data"]["isolation"].as_array().unwrap();
    assert!(isolation.iter().any(|change| change["service"] == "web"), "{isolation:#?}");
    assert_eq!(world.json(&["ls"])["data"]["instances"], Value::Array(Vec::new()));
    assert!(world.run(&["plan", "--graph", "mermaid"]).stdout.starts_with("flowchart"));
    assert!(world.run(&["plan", "--graph", "dot"]).stdout.starts_with("digraph"));
    assert_eq!(world.run(&["plan", "--render", "tree"]).code, 0);
    assert!(world.read("tree/compose.yaml").contains("image: nginx"));
    assert_eq!(world.run(&["plan", "--render", "tree"]).code, 2);
}

#[test]
fn p42_names_from_outside_are_safe() {
    let world = World::new();
    let run = world.run(&["\u{1b}]0;evil\u{7}"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("␛]0;evil␇") && !run.stderr.contains('\u{1b}'), "{}", run.stderr);
}

#[test]
fn init_writes_a_manifest_once() {
    if !has_compose() {
        return;
    }
    let world = World::new();
    world.write("compose.yaml", COMPOSE);
    let run = world.run(&["init"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let text = world.read("sidestack.yaml");
    assert!(text.contains("sidestack: 1") && text.contains("compose.yaml"), "{text}");
    assert_eq!(world.run(&["plan"]).code, 0);
    assert_eq!(world.run(&["init"]).code, 5);
    assert_eq!(world.read("sidestack.yaml"), text);
}

#[test]
fn completions_are_scripts() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = world.run(&["completions", shell]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        assert!(run.stdout.contains("describe") && run.stdout.contains("sidestack"), "{shell}");
    }
    assert_eq!(world.run(&["completions", "cmd"]).code, 2);
    assert!(!world.home().exists());
}

#[test]
fn the_catalogue_is_shown() {
    let world = World::new();
    assert!(world.run(&["catalog"]).stdout.contains("sql-database"));
    assert!(world.run(&["catalog", "show", "postgres"]).stdout.starts_with("# postgres\n"));
    let modules = world.json(&["catalog"]);
    assert_eq!(modules["data"]["modules"][0]["name"], "postgres");
    let run = world.run(&["catalog", "show", "postgre"]);
    assert_eq!(
        (run.code, run.stderr.as_str()),
        (3, "error: there is no module `postgre`\nhint: did you mean `postgres`?\n")
    );
}

#[test]
fn a_secret_comes_over_standard_input_alone() {
    let world = World::new();
    let run = world.run(&["secret", "set", "keychain:shop/stripe", "canary"]);
    assert_eq!(run.code, 2);
    assert!(!run.stderr.contains("canary"), "{}", run.stderr);
    let run = world.run_with(&["secret", "set", "keychain:shop/stripe"], b"\n");
    assert_eq!(run.code, 2);
    assert!(run.stderr.starts_with("error: standard input holds no value\n"), "{}", run.stderr);
    for input in [&b"canary\xff"[..], b"canary\0x"] {
        let run = world.run_with(&["secret", "set", "keychain:shop/stripe"], input);
        assert_eq!(run.code, 2);
        assert!(!run.stderr.contains("canary"), "{}", run.stderr);
    }
    // What is no place to keep a secret is refused, and the value is in no message.
    let run = world.run_with(&["secret", "set", "env:X", "--json"], b"canary");
    assert_ne!(run.code, 0);
    assert!(!run.stdout.contains("canary") && !run.stderr.contains("canary"));
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let world = World::new();
    let run = world.run_unread(&["completions", "bash"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
}
