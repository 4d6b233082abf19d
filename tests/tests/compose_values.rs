//! Texts of a compose file: exact where they are used, harmless where they are shown.

use serde_json::json;
use sidestack_tests::{COPIES, Copies, docker_is_there, stack};

/// Values that every layer on the way could bend.
const HOSTILE: [(&str, &str); 10] = [
    ("DOLLARS", "$HOME ${HOME} $$HOME $$$ ${X:-y} ${X?no} $(id) $"),
    ("QUOTES", "it's \"quoted\" `twice` \\' \\\" \\\\ \\"),
    ("HASH", " # no comment #"),
    ("LINES", "one\ntwo\n\nfour\n"),
    ("TABS", "\tone\ttwo\t"),
    ("UNICODE", "Grüße, 漢字 🜂 e\u{301} \u{feff}"),
    ("CONTROLS", "\u{1b}[1;32m\\u@\\h\u{1b}[0m \u{7}\u{8}\u{c}\r\u{7f}\u{85}\u{9b}\u{2028}\u{fffe}"),
    ("YAML", "- {a: [b, *c, &d]} !!str | > % @ ~ null yes 0x1f 1e3"),
    ("JSON", "{\"url\": \"http://x/?a=1&b=%20#c\", \"n\": null}"),
    ("EQUALS", "=a==b= --c"),
];

/// As a text of a compose file: JSON strings are YAML strings, but for some characters; and `$` is written twice.
fn literal(value: &str) -> String {
    let json = json!(value.replace('$', "$$")).to_string();
    let escaped = |c: char| matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{feff}' | '\u{fffe}');
    json.chars().map(|c| if escaped(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() }).collect()
}

/// As a quoted value of a dotenv file.
fn dotenv(value: &str) -> String {
    let escaped =
        value.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$").replace('\n', "\\n").replace('\r', "\\r");
    format!("\"{escaped}\"")
}

#[test]
fn p40_values_are_exact_from_a_compose_file_to_its_containers() {
    if !docker_is_there() {
        return;
    }
    let indented = |deep: usize, line: &dyn Fn(&str, &str) -> String| -> String {
        HOSTILE.iter().map(|(key, value)| format!("{:deep$}{}\n", "", line(key, value))).collect()
    };
    let compose = format!(
        r#"services:
  app:
    image: busybox:stable
    stop_grace_period: 0s
    env_file: ./values.env
    environment:
{environment}    labels:
{labels}    command:
      - sh
      - -c
      - 'for word; do printf "%s\0" "$$word"; done > /words; exec sleep 1000000'
      - sh
{words}    post_start:
      - command: [sh, -c, 'for word; do printf "%s\0" "$$word"; done > /hook', sh, {hook}]
        environment: {{HOOKED: {dollars}}}
    configs:
{grants}configs:
{configs}"#,
        environment = indented(6, &|key, value| format!("{key}: {}", literal(value)))
            + &indented(6, &|key, _| format!("FROM_DOTENV_{key}: \"${{DOTENV_{key}}}\"")),
        labels = indented(6, &|key, value| format!("label.{key}: {}", literal(value))),
        words = indented(6, &|_, value| format!("- {}", literal(value))),
        hook = HOSTILE.map(|(_, value)| literal(value)).join(", "),
        dollars = literal(HOSTILE[0].1),
        grants = indented(6, &|key, _| format!("- {{source: {0}, target: /configs/{0}}}", key.to_lowercase())),
        configs = indented(2, &|key, value| format!("{}: {{content: {}}}", key.to_lowercase(), literal(value))),
    );
    let file = |prefix: &str| HOSTILE.map(|(key, value)| format!("{prefix}{key}={}\n", dotenv(value))).concat();
    let copies = Copies::up(&[("compose.yaml", &compose), ("values.env", &file("FILE_")), (".env", &file("DOTENV_"))]);
    for copy in COPIES {
        let read = |path: &str| copies.try_exec(copy, "app", &["cat", path]).ok().stdout;
        let environ = read("/proc/1/environ");
        let (words, hook) = (read("/words"), read("/hook"));
        let labels = copies.inspect(copy, "app")["Config"]["Labels"].clone();
        for (at, (key, value)) in HOSTILE.iter().enumerate() {
            for name in [(*key).to_owned(), format!("FILE_{key}"), format!("FROM_DOTENV_{key}")] {
                let start = format!("{name}=");
                let arrived = environ.split('\0').find_map(|line| line.strip_prefix(&start));
                assert_eq!(arrived, Some(*value), "{copy}: {name}");
            }
            assert_eq!(words.split('\0').nth(at), Some(*value), "{copy}: word of the command");
            assert_eq!(hook.split('\0').nth(at), Some(*value), "{copy}: word of the hook");
            assert_eq!(labels[&format!("label.{key}")], *value, "{copy}: label");
            assert_eq!(read(&format!("/configs/{}", key.to_lowercase())), *value, "{copy}: config {key}");
        }
    }
    copies.go_one_by_one(|_, _| {});
}

/// A title, a report of the cursor, a clipboard, a bell; C1 and bidi where YAML lets them stand.
const EVIL: &str = "\\e]0;owned\\a\\e[6n\\e]52;c;b3du\\a\\x9b31m\\u202Eowned";

const PAINTED: &str = r#"services:
  web:
    image: busybox:stable
    command: ["sh", "-c", "printf 'log \\033]0;owned\\007 \\033[6n \\302\\23331m owned\\n'; exec sleep 1000000", "@evil@ http://localhost:14420"]
    container_name: painted
    stop_grace_period: 0s
    ports: ["14420:8080"]
    labels: {note: "@evil@ http://localhost:14420", traefik.http.routers.x.rule: "Host(`@evil@.localhost`)"}
    environment: {NOTE: "@evil@ http://localhost:14420"}
    volumes: ["@outside@@evil@:/outside"]
    expose: ["8080"]
    profiles: []
"#;

#[test]
fn p42_nothing_of_a_compose_file_reaches_the_terminal_raw() {
    if !docker_is_there() {
        return;
    }
    let world = stack(&[]);
    let outside = world.root().join("outside").display().to_string();
    let text = PAINTED.replace("@evil@", EVIL).replace("@outside@", &outside);
    let mut seen = String::new();
    let mut show = |words: &str| -> Option<String> {
        let bytes = world.on_a_terminal(words)?;
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        for part in ["\u{1b}]", "\u{1b}[6n", "\u{7}", "\u{9b}", "\u{202e}"] {
            assert!(!shown.contains(part), "`{words}` lets {part:?} through: {shown:?}");
        }
        seen.push_str(&shown);
        Some(shown)
    };
    // As it is, or with what Sidestack does not take left out.
    world.write("compose.yaml", &text);
    if show("plan").is_none() {
        return;
    }
    for words in [
        "up",
        "up",
        "plan",
        "ls",
        "describe",
        "trust",
        "logs",
        "why",
        "history",
        "show @r1",
        "env --explain",
        "plan --json",
        "trust --json",
        "show @r1 --json",
    ] {
        show(words);
    }
    show("up --new two");
    world.run(["up"]).ok();
    let logs = show("logs").unwrap();
    assert!(logs.contains("owned"), "the line itself is shown: {logs:?}");
    show("down");
    // Names of all kinds, in files that are refused.
    for (from, to) in [
        ("image: busybox:stable", "image: \"busybox:@evil@\""),
        ("container_name: painted", "container_name: \"x@evil@\""),
        ("  web:", "  \"web@evil@\":"),
        ("labels: {", "labels: {\"key@evil@\": x, "),
        ("profiles: []", "depends_on: [\"@evil@\"]"),
        ("profiles: []", "networks: [\"@evil@\"]"),
        ("profiles: []", "network_mode: \"service:@evil@\""),
        ("profiles: []", "env_file: \"@evil@\""),
        ("profiles: []", "configs: [\"@evil@\"]"),
        ("profiles: []", "\"@evil@\": 1"),
        ("profiles: []", "cpus: \"@evil@\""),
        ("profiles: []", "privileged: \"${X?@evil@}\""),
    ] {
        world.write("compose.yaml", &text.replacen(from, &to.replace("@evil@", EVIL), 1));
        show("plan");
        show("up --new three --timeout 20s");
        world.run(["rm", "three", "--volumes"]);
    }
    assert!(seen.contains("owned") && seen.len() > 2_000, "the terminal showed nothing");
    world.run(["rm", "main", "--volumes"]).ok();
    assert_eq!(world.leftovers(), Vec::<String>::new());
}
