//! Each fault of a module has its message and its place.

mod table;

use sidestack_catalog::parse;
use table::TABLE;

/// A module that uses everything the format has.
const GOOD: &str = r#"module: 1
name: thing
summary: A thing
provides: [things, more-things]
preference: 3
versions: [{version: "2", image: "reg.example:5000/thing:2", data-format: "1"}, {version: "1", image: "thing:1"}]
characteristics: {storage: {at-most: 1TiB}, persistent: true}
arrangements: [single]
settings:
  count: {type: integer, min: 1, max: 9, default: 3, summary: Count}
  memory: {type: size, min: 1MiB, default: 4MiB, summary: Memory}
  mode: {type: enum, values: [fast, safe], default: safe, summary: Mode}
  verbose: {type: bool, default: false, summary: Talk}
  extra: {type: string, summary: Optional}
  key: {type: string, required: true, secret: true, summary: A key}
  other_port: {type: port, default: 81, summary: A port}
credentials:
  user: {default: app}
  password: {default: app, secret: true}
ports:
  http: {port: 80, scheme: http, primary: true}
  peer: {port: 80, protocol: udp, service: side}
services:
  main:
    image: "{{ image }}"
    command: [serve, "--count={{ settings.count }}"]
    environment:
      MODE: "{{ settings.mode }}"
      PEER: "{{ services.side }}:{{ ports.peer }}"
    secrets:
      password: "{{ credentials.password }}"
    volumes: {data: /data}
    files: [config]
    healthcheck:
      test: [CMD, check, "{{ credentials.user }}"]
      interval: 2s
    depends-on: [side]
    stop-signal: SIGINT
    stop-grace-period: 1m
    shm-size: 64MiB
    tmpfs: ["/tmp:size=1m"]
  side:
    image: side:1
provisions:
  rooms:
    summary: Rooms
    default: ["{{ resource }}"]
    pattern: "[a-z]+"
    command: [make, "{{ name }}"]
    stdin: "{{ credentials.password|sql }}"
variables:
  prefixed:
    URL: "http://{{ credentials.user|url }}:{{ credentials.password|url }}@{{ host }}:{{ port }}"
    PEER: "{{ addresses.peer.host }}"
  each:
    rooms: {URL: "{{ host }}/{{ name|url }}"}
  conventional:
    THING_URL: "{{ host }}{% if settings.extra is defined %}{{ settings.extra }}{% endif %}"
files:
  config:
    path: /etc/thing.conf
    content: "key {{ settings.key|quoted }}"
    secret: true
    mode: "0400"
exercised: true
"#;

/// What is said about `GOOD` with one text replaced: `line:column message`, a line each.
fn said(from: &str, to: &str) -> String {
    assert_eq!(GOOD.matches(from).count(), 1, "`{from}` is not there once");
    let text = GOOD.replace(from, to);
    let Err(faults) = parse("m.yaml", &text) else {
        return "it is good".to_owned();
    };
    let lines: Vec<String> = faults
        .iter()
        .map(|fault| {
            let place = fault.place.as_ref().unwrap();
            assert_eq!(place.file, "m.yaml");
            let source = text.lines().nth(place.line.max(1) as usize - 1).unwrap();
            assert!(source.chars().count() > 100 || place.excerpt == source.trim_end(), "{place:?}");
            format!("{}:{} {}", place.line, place.column, fault.message)
        })
        .collect();
    lines.join("\n")
}

#[test]
fn a_module_that_uses_everything_is_good() {
    let module = parse("m.yaml", GOOD).unwrap();
    assert_eq!(module.versions[0].data_format, "1");
    assert_eq!(module.versions[1].data_format, "1");
    assert_eq!(module.settings["memory"].default, Some((4 << 20).into()));
    assert_eq!(module.files["config"].mode, 0o400);
    let main = &module.services["main"];
    assert_eq!(main.stop_grace_period, Some(60));
    assert_eq!(main.shm_size, Some(64 << 20));
    let health = main.healthcheck.as_ref().unwrap();
    assert_eq!(
        (health.interval_ms, health.timeout_ms, health.retries, health.start_period_ms),
        (2_000, 5_000, 6, 60_000)
    );
}

#[test]
fn each_fault_is_told_at_its_place() {
    let mut wrong = Vec::new();
    for (from, to, expected) in TABLE {
        let said = said(from, to);
        if said != *expected {
            wrong.push(format!("({from:?}, {to:?}, {said:?}),"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_missing_key_and_a_misspelt_one_are_told_with_the_remedy() {
    let faults = parse("m.yaml", &GOOD.replace("    stop-signal:", "    stop-sinal:")).unwrap_err();
    assert_eq!(
        faults[0].to_string(),
        "unknown key `stop-sinal`\n  at m.yaml:38:17 (services.main.stop-sinal)\n   |     stop-sinal: SIGINT\nhint: did you mean `stop-signal`?"
    );
    let faults = parse("m.yaml", &GOOD.replace("settings.mode", "settings.mood")).unwrap_err();
    assert_eq!(faults[0].hint.as_deref(), Some("did you mean `mode`?"));
}

#[test]
fn many_faults_are_told_in_one_go() {
    // Keys that nobody knows do not hide what is wrong with the others.
    let text = GOOD
        .replace("preference: 3", "preference: 3\nprefer: 4")
        .replace("default: 3,", "default: 12,")
        .replace("{{ settings.mode }}", "{{ settings.mood }}")
        .replace("interval: 2s", "interval: soon")
        .replace("path: /etc/thing.conf", "path: /etc/../thing.conf");
    let faults = parse("m.yaml", &text).unwrap_err();
    let said: Vec<String> =
        faults.iter().map(|f| format!("{} {}", f.place.as_ref().unwrap().line, f.message)).collect();
    assert_eq!(
        said,
        [
            "6 unknown key `prefer`",
            "11 expected a whole number from 1 to 9, found 12",
            "29 there is no setting `mood` in this module",
            "37 expected a duration such as `5s`, found `soon`",
            "62 the path `/etc/../thing.conf` may not hold `.` or `..`",
        ]
    );
    // Wrong types and missing keys are told together as well.
    let text = GOOD
        .replace("preference: 3", "preference: high")
        .replace("type: bool, ", "")
        .replace("port: 80, scheme", "port: eighty, scheme")
        .replace("arrangements: [single]", "arrangements: [singel]");
    assert_eq!(parse("m.yaml", &text).unwrap_err().len(), 4);
}

#[test]
fn p38_hostile_modules_end_quickly() {
    let before = std::time::Instant::now();
    let loops = "{% for a in 'x' * 9999 %}".repeat(30) + "x" + &"{% endfor %}".repeat(30);
    let text = GOOD.replace("key {{ settings.key|quoted }}", &loops);
    let faults = parse("m.yaml", &text).unwrap_err();
    assert!(faults[0].message.starts_with("the template fails"), "{faults:?}");
    let deep = "{{ ".to_owned() + &"(".repeat(5_000);
    let text = GOOD.replace("key {{ settings.key|quoted }}", &deep);
    assert!(parse("m.yaml", &text).is_err());
    let aliases = "a: &a [x, x, x]\nb: &b [*a, *a, *a]\n".to_owned() + &"[".repeat(9_999);
    assert!(parse("m.yaml", &aliases).is_err());
    assert!(before.elapsed().as_millis() < 2_000, "{:?}", before.elapsed());
}
