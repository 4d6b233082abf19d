//! Bad input gets its error with its place; nothing is written and nothing is started.

use std::fs;
use std::os::unix::fs::symlink;

use sidestack_tests::{Ran, World, containers, docker_is_there};

const SERVICE: &str =
    "services: {web: {image: 'busybox:stable', command: [sleep, '1000000'], stop_grace_period: 0s}}\n";

/// What the store holds of this world, as the commands that only read tell it, and
/// what stands beside it.
fn state(world: &World) -> (Vec<String>, Vec<String>, Vec<String>) {
    let listed = world.run(["ls", "--all", "--json"]).ok().json();
    let rows = listed["instances"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| format!("{} {} {}", row["target"], row["revision"], row["state"]));
    let history = world.run(["history", "--json"]);
    let digests = match history.code {
        0 => history.json()["revisions"].as_array().unwrap().iter().map(|r| r["digest"].to_string()).collect(),
        _ => Vec::new(),
    };
    let trees = fs::read_dir(world.home().join("trees")).into_iter().flatten().flatten();
    let mut trees: Vec<String> = trees.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    trees.sort();
    (rows.collect(), digests, trees)
}

/// `up` is refused with these words, and everything is as before.
#[track_caller]
fn refused(world: &World, words: &[&str]) -> Ran {
    let before = state(world);
    let left = world.leftovers();
    let ran = world.run(["up"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    for word in words {
        assert!(ran.stderr.contains(word), "`{word}` is not in\n{}", ran.stderr);
    }
    assert_eq!(state(world), before, "something was written");
    assert_eq!(world.leftovers(), left, "something was made");
    assert_eq!(ran.stdout, "", "an error is no data");
    let json = world.run(["up", "--json"]).exits(2);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["ok"], &json["schema"]), (&false.into(), &"sidestack.up.v1".into()));
    ran
}

/// A manifest that is refused at this place with these words.
#[track_caller]
fn manifest_refused(text: &str, place: &str, words: &[&str]) {
    let text = format!("sidestack: 1\nworkspace: @workspace@\n{text}");
    let world = World::with(&[("sidestack.yaml", &text), ("compose.yaml", SERVICE)]);
    assert_eq!(world.run(["plan"]).code, 2, "{text}");
    let ran = refused(&world, words);
    assert!(ran.stderr.contains(&format!("sidestack.yaml:{place}")), "no `{place}` in\n{}", ran.stderr);
}

#[test]
fn manifests_that_are_wrong() {
    if !docker_is_there() {
        return;
    }
    manifest_refused("resources:\n  db: postgrse\n", "4:", &["postgrse", "did you mean `postgres`"]);
    manifest_refused("resources:\n  db: {is: time-machine}\n", "4:", &["time-machine"]);
    manifest_refused("resources:\n  db: [postgres]\n", "4:", &["db"]);
    manifest_refused(
        "resources:\n  db: {engine: postgres, settings: {max_connections: many}}\n",
        "4:",
        &["max_connections", "many"],
    );
    manifest_refused("resources:\n  db: {engine: postgres@99}\n", "4:", &["99"]);
    manifest_refused("resources:\n  db: {is: sql-database, storage: 20TiB}\n", "4:", &["storage"]);
    manifest_refused("resources:\n  db: {is: sql-database, multi_master: true}\n", "4:", &["multi_master"]);
    manifest_refused("resources:\n  db: {is: sql-database, arrangement: sharded}\n", "4:", &["sharded"]);
    manifest_refused("env: {'A B': x}\n", "3:", &["A B"]);
    manifest_refused("env: {A: \"x\\0y\"}\n", "3:", &["A"]);
    manifest_refused("env: {A: one, A: two}\n", "3:", &["duplicate"]);
    manifest_refused("nonsense: 1\n", "3:", &["nonsense"]);
    manifest_refused("compose: ../compose.yaml\n", "3:", &["../compose.yaml"]);
    manifest_refused("compose: [compose.yaml]\ninject: {nobody: [A]}\n", "4:", &["nobody"]);
    manifest_refused("env: {A: {secret: 'valut:x'}}\n", "3:", &["valut"]);
    // A resource and a service of one name would be one.
    manifest_refused("compose: compose.yaml\nresources:\n  web: redis\n", "5:", &["web"]);
    // Two resources that both want to be what `DATABASE_URL` means.
    manifest_refused(
        "resources:\n  a: {engine: postgres, default: true}\n  b: {engine: postgres, default: true}\n",
        "",
        &["default"],
    );
}

#[test]
fn p39_text_that_is_no_text_has_a_place() {
    if !docker_is_there() {
        return;
    }
    let cases: [(&str, &[u8], &str); 6] = [
        ("not UTF-8", b"sidestack: 1\nenv: {A: \xff\xfe}\n", "2:"),
        ("a NUL", b"sidestack: 1\nenv: {A: x\0y}\n", "2:"),
        ("an escape", b"sidestack: 1\nenv: {A: \x1b[31m}\n", "2:"),
        ("a bidi character", "sidestack: 1\nenv: {A: \u{202e}x}\n".as_bytes(), "2:"),
        ("duplicate keys", b"sidestack: 1\nenv: {}\nenv: {}\n", "3:"),
        ("a tab", b"sidestack: 1\nenv:\n\tA: x\n", "3:"),
    ];
    for (what, bytes, place) in cases {
        let world = World::with(&[("compose.yaml", SERVICE)]);
        fs::write(world.folder().join("sidestack.yaml"), bytes).unwrap();
        let ran = refused(&world, &[&format!("sidestack.yaml:{place}")]);
        assert!(ran.stderr.bytes().all(|byte| byte != 0x1b && byte != 0), "{what}: {:?}", ran.stderr);
        assert!(!ran.stderr.contains('\u{202e}'), "{what}");
    }
}

#[test]
fn alias_bombs_and_huge_files_are_refused_in_time() {
    if !docker_is_there() {
        return;
    }
    let mut bomb = "sidestack: 1\nx0: &x0 [a, a, a, a, a, a, a, a, a]\n".to_owned();
    for level in 1..12 {
        let refs = vec![format!("*x{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("x{level}: &x{level} [{refs}]\n"));
    }
    bomb.push_str("env: *x11\n");
    let aliases = format!("sidestack: 1\na: &a [x]\nenv: [{}]\n", "*a, ".repeat(5 * 1024 * 1024 / 4));
    let deep = format!("sidestack: 1\nenv: {}{}\n", "[".repeat(10_000), "]".repeat(10_000));
    for (what, text) in [("a bomb", &bomb), ("5 MB of aliases", &aliases), ("depth", &deep)] {
        for file in ["sidestack.yaml", "compose.yaml"] {
            let world = World::with(&[("compose.yaml", SERVICE)]);
            world.write(file, text);
            let ran = refused(&world, &[]);
            assert!(ran.took.as_secs() < 10, "{what} in {file} took {:?}", ran.took);
            assert!(ran.stderr.len() < 4_000, "{what} in {file}: an error of {} bytes", ran.stderr.len());
        }
    }
}

#[test]
fn p41_paths_are_confined() {
    if !docker_is_there() {
        return;
    }
    // A module that writes outside its place. It is sound but for the path, so that nothing else refuses it.
    let module = |target: &str| {
        format!(
            "module: 1\nname: evil\nsummary: x\nprovides: [cache]\nversions: [{{version: '1', image: 'busybox:stable'}}]\narrangements: [single]\nports: {{main: {{port: 1, primary: true}}}}\nservices:\n  main:\n    image: busybox:stable\n    files: [x]\nfiles:\n  x: {{path: '{target}', content: x}}\n"
        )
    };
    let manifest = "sidestack: 1\nworkspace: @workspace@\nresources: {evil: {engine: evil}}\n";
    let world = World::with(&[("sidestack.yaml", manifest), ("sidestack/modules/evil.yaml", &module("/data/x"))]);
    world.run(["plan"]).ok();
    for (target, why) in [
        ("../../../etc/evil", "must begin with `/`"),
        ("/data/../../evil", "may not hold `.` or `..`"),
        ("a/../../evil", "must begin with `/`"),
    ] {
        let world = World::with(&[("sidestack.yaml", manifest), ("sidestack/modules/evil.yaml", &module(target))]);
        refused(&world, &["sidestack/modules/evil.yaml:", why]);
    }
    // A module that is a link to something outside.
    let world = World::with(&[("sidestack.yaml", manifest)]);
    fs::write(world.root().join("outside.yaml"), module("/x")).unwrap();
    fs::create_dir_all(world.folder().join("sidestack/modules")).unwrap();
    symlink(world.root().join("outside.yaml"), world.folder().join("sidestack/modules/evil.yaml")).unwrap();
    refused(&world, &["sidestack/modules/evil.yaml"]);
    // A compose file that is a link to something outside, named by the manifest.
    let world = World::with(&[("sidestack.yaml", "sidestack: 1\nworkspace: @workspace@\ncompose: /etc/hostname\n")]);
    refused(&world, &["/etc/hostname"]);
}

#[test]
fn variables_with_impossible_names_or_values() {
    if !docker_is_there() {
        return;
    }
    let world = World::with(&[("compose.yaml", SERVICE)]);
    world.run(["up"]).ok();
    let before = state(&world);
    for assignment in ["A B=x", "=x", "1A=x", "A-B=x", "Ä=x", "A\nB=x", "NOVALUE"] {
        world.run(["set", assignment]).exits(2);
    }
    // Nearly the longest argument that the kernel passes on, and too long for a container.
    world.run(["set", &format!("L={}", "x".repeat(131_069))]).exits(2).says("`L`");
    // All or nothing.
    world.run(["set", "GOOD=x", "A B=y"]).exits(2);
    let shown = world.run(["env", "--json"]).ok().stdout;
    assert!(!shown.contains("GOOD"), "{shown}");
    assert_eq!(state(&world), before);
    for words in
        [&["upp"][..], &["up", "--nonsense"], &["stop", "no/such/thing/at/all"], &["up", "@r0"], &["rm", "A B"]]
    {
        let ran = world.run(words);
        assert!(ran.code == 2 || ran.code == 3, "{words:?}: {ran:?}");
    }
    world.run(["stop", "nobody"]).exits(3);
    world.run(["up", "@r99"]).exits(3);
    assert_eq!(state(&world), before);
    assert_eq!(containers(&world.project("main"))["web"].status, "running");
}

/// Constructs of foreign files that stay refused, with words of the refusal.
const REFUSED: [(&str, &[&str]); 8] = [
    (
        "services: {web: {image: busybox:stable, labels: {dev.sidestack.install: x}}}\n",
        &["`web`", "dev.sidestack.install"],
    ),
    ("services: {web: {image: busybox:stable, credential_spec: {file: x.json}}}\n", &["`web`", "credential spec"]),
    ("services: {web: {image: busybox:stable, ports: ['3000:3000/sctp']}}\n", &["`web`", "sctp"]),
    (
        "services: {web: {image: busybox:stable, secrets: [s]}}\nsecrets: {s: {external: true}}\n",
        &["external secret `s`", "Swarm"],
    ),
    (
        "services: {web: {image: busybox:stable, configs: [c]}}\nconfigs: {c: {external: true}}\n",
        &["external config `c`", "Swarm"],
    ),
    (
        "services: {web: {image: busybox:stable, read_only: true, configs: [c]}}\nconfigs: {c: {content: x}}\n",
        &["`c`", "`web`", "read-only"],
    ),
    (
        "services: {web: {image: busybox:stable, tmpfs: [/x], configs: [{source: c, target: /x/c}]}}\nconfigs: {c: {content: x}}\n",
        &["`/x/c`", "`web`", "tmpfs"],
    ),
    ("services: {web: {image: busybox:stable, depends_on: [{}]}}\n", &["depends_on"]),
];

#[test]
fn each_construct_that_cannot_be_isolated_is_refused_by_name() {
    if !docker_is_there() {
        return;
    }
    for (text, words) in REFUSED {
        let world = World::with(&[("compose.yaml", text)]);
        let ran = world.run(["up"]);
        assert_eq!(ran.code, 2, "{text}: {ran:?}");
        for word in words {
            assert!(ran.stderr.contains(word), "{text}\n`{word}` is not in\n{}", ran.stderr);
        }
        assert_eq!(world.leftovers(), Vec::<String>::new(), "{text}");
        let listed = world.run(["ls", "--all", "--json"]).ok().json();
        assert_eq!(listed["instances"], serde_json::json!([]), "{text}");
    }
}

#[test]
fn p42_terminal_output_is_safe() {
    if !docker_is_there() {
        return;
    }
    // A title, a report of the cursor, a clipboard, C1, bidi: none may arrive.
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[6n\u{1b}]52;c;b3du\u{7}\u{9b}31m\u{202e}owned";
    let world = World::with(&[(
        "compose.yaml",
        r#"services:
  web:
    image: busybox:stable
    command: ["sh", "-c", "printf 'log \\033]0;owned\\007 \\033[6n \\302\\23331m owned\\n'; exec sleep 1000000"]
    stop_grace_period: 0s
    labels: {note: "\e]0;owned\a"}
    environment: {NOTE: "\e]0;owned\a\e[6n"}
"#,
    )]);
    let up = world.run(["up"]);
    if up.code != 0 {
        // Refusing them is as good; the error must be safe too.
        assert_eq!(up.code, 2, "{up:?}");
    }
    world.write(
        "compose.yaml",
        &fs::read_to_string(world.folder().join("compose.yaml")).unwrap().replace(
            "    labels: {note: \"\\e]0;owned\\a\"}\n    environment: {NOTE: \"\\e]0;owned\\a\\e[6n\"}\n",
            "    environment: {NOTE: x}\n",
        ),
    );
    world.run(["up"]).ok();
    let _ = world.run(["set", &format!("NOTE={evil}")]);
    let mut seen = 0;
    for words in [
        "ls",
        "describe",
        "logs",
        "env",
        "env --explain",
        "plan",
        "why",
        "history",
        "show @r1",
        "up",
        "stop 'x\u{1b}]0;owned\u{7}'",
    ] {
        let Some(bytes) = world.on_a_terminal(words) else { return };
        seen += bytes.len();
        let text = String::from_utf8_lossy(&bytes);
        for part in ["\u{1b}]", "\u{1b}[6n", "\u{7}", "\u{9b}", "\u{202e}"] {
            assert!(!text.contains(part), "`{words}` lets {part:?} through: {text:?}");
        }
    }
    assert!(seen > 500, "the terminal showed nothing");
    let logs = String::from_utf8_lossy(&world.on_a_terminal("logs").unwrap()).into_owned();
    assert!(logs.contains("owned"), "the line itself is shown: {logs:?}");
}
