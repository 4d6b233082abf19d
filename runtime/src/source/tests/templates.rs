use sidestack_topology::secret::{Encoding, token};

use super::*;

const CANARY: &str = "kanarienvogel7";

/// The templates as `service.KEY=text`.
fn told(stack: &Stack) -> Vec<String> {
    let entries = |(service, entries): (&String, &BTreeMap<String, String>)| {
        entries.iter().map(|(key, text)| format!("{service}.{key}={text}")).collect::<Vec<_>>()
    };
    stack.templates.iter().flat_map(entries).collect()
}

fn values(stack: &Stack) -> Vec<(&str, Option<&str>)> {
    stack.interpolation.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect()
}

#[test]
fn entries_that_interpolate_are_kept_with_the_values_they_had() {
    let mut site = Site::new(&[
        (
            "compose.yaml",
            "x-common: &common {SHARED: \"s-${TAG}\"}\n\
             services:\n  \
             map:\n    image: \"x:${IMAGE_TAG:-1}\"\n    ports: [\"${PORT:-8080}:80\"]\n    mem_limit: ${MEM:-1g}\n    env_file: m.env\n    environment:\n      \
             <<: *common\n      URL: \"http://${HOST_X:-a}/\"\n      NESTED: \"${A:-${B:-c}}\"\n      DOLLAR: \"$$HOME ${TAG}\"\n      ONLY_DOLLAR: \"a$$b\"\n      \
             PLAIN: p\n      NUMBER: 3\n      NOTHING:\n      HERE: $PWD/d\n      NAME: \"${COMPOSE_PROJECT_NAME}-x\"\n      MADE: \"<${MADE}>\"\n  \
             list:\n    image: x\n    environment: [\"URL=http://${HOST_X:-a}/?a=b\", HOST_X, \"E=$${X}\"]\n",
        ),
        (".env", "TAG=from-file\nIMAGE_TAG=7\nMADE=\"${TAG}+${HOST_X:-none}\"\n"),
        ("m.env", "FILE=${TAG}\nLITERAL='${TAG}'\nURL=lower\n"),
    ]);
    site.set("TAG", "from-shell").set("UNRELATED", "u");
    let Some(stack) = site.stack() else { return };
    assert!(stack.diagnostics.is_empty(), "{:?}", stack.diagnostics);
    assert_eq!(
        told(&stack),
        [
            "list.URL=http://${HOST_X:-a}/?a=b",
            "map.DOLLAR=$$HOME ${TAG}",
            "map.HERE=$PWD/d",
            "map.MADE=<${MADE}>",
            "map.NAME=${COMPOSE_PROJECT_NAME}-x",
            "map.NESTED=${A:-${B:-c}}",
            "map.SHARED=s-${TAG}",
            "map.URL=http://${HOST_X:-a}/",
        ]
    );
    // Neither the image's tag nor the port: a later value for them reaches nothing.
    assert_eq!(
        values(&stack),
        [
            ("A", None),
            ("B", None),
            ("COMPOSE_PROJECT_NAME", Some(PROJECT)),
            ("HOST_X", None),
            ("MADE", Some("from-shell+none")),
            ("PWD", Some(CHECKOUT)),
            ("TAG", Some("from-shell")),
        ]
    );
}

#[test]
fn secrets_in_templates_are_tokens() {
    let mut site = Site::new(&[
        (
            "compose.yaml",
            "services: {a: {image: x, environment: {U: \"p://${DB_PASSWORD}@${HOST_X}\", V: \"${API_TOKEN:-none}${URL}\", W: \"${UNUSED:-${OTHER_SECRET}}\", X: \"${COMPOSE_API_TOKEN}\"}}}\n",
        ),
        (
            ".env",
            &format!(
                "DB_PASSWORD={CANARY}-db\nHOST_X=h\nURL=redis://:{CANARY}-db@r\nOTHER_SECRET={CANARY}-o\nUNUSED=${{DB_PASSWORD}}/x\nCOMPOSE_API_TOKEN={CANARY}-c\n"
            ),
        ),
    ]);
    site.set("API_TOKEN", &format!("{CANARY}-api"));
    let Some(stack) = site.stack() else { return };
    assert!(!everything(&stack).contains(CANARY), "{}", everything(&stack));
    assert!(!everything(&stack).contains("ssstandin0x"));
    let raw = |reference: &str| token(reference, Encoding::Raw);
    let password = raw("dotenv:.env#DB_PASSWORD");
    assert_eq!(told(&stack).len(), 4, "{:?}", told(&stack));
    assert_eq!(stack.interpolation["DB_PASSWORD"].as_deref(), Some(password.as_str()));
    assert_eq!(stack.interpolation["API_TOKEN"], Some(raw("env:API_TOKEN")));
    assert_eq!(stack.interpolation["URL"], Some(format!("redis://:{password}@r")));
    assert_eq!(stack.interpolation["UNUSED"], Some(format!("{password}/x")));
    assert_eq!(stack.interpolation["OTHER_SECRET"], Some(raw("dotenv:.env#OTHER_SECRET")));
    assert_eq!(stack.interpolation["COMPOSE_API_TOKEN"], Some(raw("dotenv:.env#COMPOSE_API_TOKEN")));
}

#[test]
fn merges_extensions_and_includes_are_composes_own() {
    let site = Site::new(&[
        (
            "compose.yaml",
            "include: [inc/c.yaml]\nservices:\n  web:\n    extends: {file: lib/base.yaml, service: base}\n    environment: {OWN: \"${A:-1}\", OVER: \"${A:-1}\", GONE: \"${A:-1}\"}\n",
        ),
        ("compose.override.yaml", "services: {web: {image: w, environment: [\"OVER=o-${B:-2}\", GONE=plain]}}\n"),
        ("lib/base.yaml", "services: {base: {image: b, environment: [\"BASE=${A:-1}\", \"OWN=lower\"]}}\n"),
        ("inc/c.yaml", "services: {inc: {image: i, environment: {SAME: \"${ONLY}\", OTHER: \"${BOTH}\"}}}\n"),
        ("inc/.env", "ONLY=inc\nBOTH=inc\n"),
        (".env", "BOTH=top\n"),
    ]);
    let Some(stack) = site.stack() else { return };
    assert_eq!(
        told(&stack),
        ["inc.OTHER=${BOTH}", "inc.SAME=${ONLY}", "web.BASE=${A:-1}", "web.OVER=o-${B:-2}", "web.OWN=${A:-1}"]
    );
    assert_eq!(values(&stack), [("A", None), ("B", None), ("BOTH", Some("top")), ("ONLY", Some("inc"))]);
}

#[test]
fn compose_is_asked_for_the_texts_only_where_the_files_do_not_say_them() {
    let Some(compose) = installed_compose() else { return };
    let mut site = Site::new(&[("lib.yaml", "services: {b: {image: b, environment: {L: \"${B:-c}\"}}}\n")]);
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> \"$0.calls\"\ncase \"$*\" in *--no-interpolate*) echo 'unknown flag: --no-interpolate' >&2; exit 16;; esac\nexec '{}' \"$@\"\n",
        compose.binary().display()
    );
    site.write("compose", &script);
    std::fs::set_permissions(site.at("compose"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    site.compose = Some(Compose::new(site.at("compose"), "unix:///nowhere/docker.sock"));
    let read = |environment: &str, more: &str| {
        let text = format!("{more}services: {{a: {{image: x, environment: {environment}}}}}\n");
        site.write("compose.yaml", &text);
        site.write("compose.calls", "");
        let stack = site.stack().unwrap();
        (stack, fs::read_to_string(site.at("compose.calls")).unwrap().lines().count())
    };
    let (stack, calls) = read("{A: \"a$$b\"}", "");
    assert_eq!((told(&stack), calls), (vec![], 1));
    let (stack, calls) = read("{A: \"${B:-c}\"}", "");
    assert_eq!((told(&stack), calls), (vec!["a.A=${B:-c}".to_owned()], 1));
    assert!(stack.diagnostics.is_empty());
    // One that cannot tell is a warning, and the stack is read all the same.
    for (environment, more) in [
        ("{A: \"${B:-c}\"}", "include: [lib.yaml]\n"),
        ("!override {A: \"${B:-c}\"}", ""),
        ("{A: \"${B:-c}\"}, extends: {file: lib.yaml, service: b}", ""),
    ] {
        let (stack, calls) = read(environment, more);
        assert_eq!((told(&stack), calls), (vec![], 2), "{environment}");
        assert_eq!(stack.model.unwrap().services["a"].environment["A"].as_deref(), Some("c"));
        assert_eq!(stack.diagnostics.len(), 1, "{:?}", stack.diagnostics);
        assert!(stack.diagnostics[0].message.contains("before interpolation"));
    }
}

#[test]
fn what_the_files_say_is_what_compose_says() {
    let files = [
        (
            "compose.yaml",
            "x-e: &e {ANCHOR: \"${A:-1}\", OVER: \"${A:-1}\"}\nx-s: &s {environment: {SERVICE: \"${B}\", OVER: \"${B}\"}}\n\
             services:\n  \
             one:\n    image: x\n    environment:\n      <<: *e\n      OVER: o$A\n      NULLED: \"${A:-1}\"\n      RETYPED: \"${A:-1}\"\n      KEPT: \"${A:-1}\"\n  \
             two:\n    <<: *s\n    image: x\n  \
             three:\n    <<: *s\n    image: x\n    environment: [\"OWN=${B:-}x\", \"TWICE=${A:-1}\", \"TWICE=$$${A:-2}\"]\n  \
             four: {image: x}\n  \
             five: {image: x, profiles: [p], environment: {LONG: \"a ${B:-b} \\\n        c\"}}\n",
        ),
        (
            "compose.override.yaml",
            "services:\n  one: {environment: [NULLED, \"NEW=${B:-2}\", RETYPED=plain]}\n  four: {environment: {F: \"${A-f}\"}}\n",
        ),
        (".env", "B=b\n"),
    ];
    let site = Site::new(&files);
    let Some(stack) = site.stack() else { return };
    // A tag in a comment is none, but is taken for one: Compose is asked.
    site.write("compose.yaml", &format!("# !reset\n{}", files[0].1));
    let asked = site.stack().unwrap();
    assert_eq!((&stack.templates, &stack.interpolation), (&asked.templates, &asked.interpolation));
    assert!(told(&stack).len() > 8, "{:?}", told(&stack));
}
