use serde_json::json;
use sidestack_topology::secret::{Encoding, token};

use super::*;

/// What must never be seen anywhere.
const CANARY: &str = "kanarienvogel7";

fn environment(stack: &Stack, service: &str) -> BTreeMap<String, Option<String>> {
    stack.model.as_ref().unwrap().services[service].environment.clone()
}

fn raw(reference: &str) -> String {
    token(reference, Encoding::Raw)
}

#[test]
fn values_of_secrets_never_come_out() {
    let mut site = Site::new(&[
        (
            "compose.yaml",
            "include: [inc/c.yaml]\nservices:\n  web:\n    image: web\n    env_file: [web.env, {path: raw.env, required: true}]\n    environment:\n      - API_TOKEN\n      \
             - URL=postgres://u:${DB_PASSWORD}@db/${NAME:-x}\n      - WHOLE=${REPEATED}\n      - ALIAS=${OTHER_SECRET}\n      \
             - LITERAL_PASSWORD=in-the-open\n    command: [\"--key\", \"${APP_KEY:-none}\"]\n    labels: {t: \"${EMPTY_TOKEN}x\"}\n    \
             build: {context: ., args: [API_TOKEN]}\n    secrets: [shell, dot]\n\
             secrets: {shell: {environment: API_TOKEN}, dot: {environment: DB_PASSWORD}}\n",
        ),
        ("inc/c.yaml", "services: {inc: {image: i, environment: {P: \"${INC_PASSWORD}\"}}}\n"),
        ("inc/.env", &format!("INC_PASSWORD={CANARY}-inc\n")),
        (
            ".env",
            &format!(
                "DB_PASSWORD={CANARY}-db\nREPEATED=redis://:{CANARY}-db@r\nOTHER_SECRET=${{DB_PASSWORD}}\nEMPTY_TOKEN=\nNAME=plain\n"
            ),
        ),
        (
            "web.env",
            &format!("SESSION_SECRET='{CANARY}-ses'\nAMQP=amqp://u:{CANARY}-ses@q\nPLAIN=visible\nEMPTY_PASSWORD=\n"),
        ),
        ("raw.env", &format!("RAW_TOKEN={CANARY}-raw\n")),
        ("Dockerfile", "FROM x"),
    ]);
    site.set("API_TOKEN", &format!("{CANARY}-api")).set("APP_KEY", &format!("{CANARY}-app"));
    let Some(stack) = site.stack() else { return };
    assert!(!everything(&stack).contains(CANARY), "{}", everything(&stack));
    assert!(!everything(&stack).contains("ssstandin0x"));
    let env = environment(&stack, "web");
    let expected = [
        ("ALIAS", raw("dotenv:.env#DB_PASSWORD")),
        ("AMQP", format!("amqp://u:{}@q", raw("dotenv:web.env#SESSION_SECRET"))),
        ("API_TOKEN", raw("env:API_TOKEN")),
        ("EMPTY_PASSWORD", String::new()),
        ("LITERAL_PASSWORD", "in-the-open".to_owned()),
        ("PLAIN", "visible".to_owned()),
        ("RAW_TOKEN", raw("dotenv:raw.env#RAW_TOKEN")),
        ("SESSION_SECRET", raw("dotenv:web.env#SESSION_SECRET")),
        ("URL", format!("postgres://u:{}@db/plain", raw("dotenv:.env#DB_PASSWORD"))),
        ("WHOLE", format!("redis://:{}@r", raw("dotenv:.env#DB_PASSWORD"))),
    ];
    assert_eq!(env, expected.into_iter().map(|(k, v)| (k.to_owned(), Some(v))).collect());
    assert_eq!(environment(&stack, "inc")["P"], Some(raw("dotenv:inc/.env#INC_PASSWORD")));
    let model = stack.model.as_ref().unwrap();
    let web = &model.services["web"];
    assert_eq!(web.command, Some(json!(["--key", raw("env:APP_KEY")])));
    assert_eq!(web.labels["t"], "x");
    assert_eq!(web.build.as_ref().unwrap()["args"]["API_TOKEN"], raw("env:API_TOKEN"));
    assert_eq!(model.secrets["shell"].environment.as_deref(), Some("API_TOKEN"));
    assert_eq!(model.secrets["dot"].content, Some(raw("dotenv:.env#DB_PASSWORD")));
    for reference in ["dotenv:.env#DB_PASSWORD", "env:API_TOKEN", "dotenv:inc/.env#INC_PASSWORD"] {
        assert!(reference.parse::<crate::secrets::Reference>().is_ok());
    }
}

#[test]
fn tracked_files_hold_no_secrets_and_becoming_tracked_is_noticed() {
    let site = Site::new(&[
        ("compose.yaml", "services: {a: {image: \"x:${TAG_TOKEN}\", env_file: a.env}}\n"),
        (".env", "TAG_TOKEN=one\n"),
        ("a.env", "DB_PASSWORD=open\n"),
    ]);
    git(&site.at(""), &["init", "-q"]);
    let Some(stack) = site.stack() else { return };
    assert_eq!(environment(&stack, "a")["DB_PASSWORD"], Some(raw("dotenv:a.env#DB_PASSWORD")));
    assert!(stack.inputs.unchanged(&site.shell, &KEY));
    git(&site.at(""), &["add", "."]);
    assert!(!stack.inputs.unchanged(&site.shell, &KEY));
    let stack = site.stack().unwrap();
    assert_eq!(environment(&stack, "a")["DB_PASSWORD"], Some("open".into()));
    assert_eq!(stack.model.unwrap().services["a"].image.as_deref(), Some("x:one"));
}

#[test]
fn what_the_manifest_declares_wins() {
    let mut site = Site::new(&[
        (
            "sidestack.yaml",
            "sidestack: 1\ncompose: compose.yaml\nenv: {STRIPE: {secret: \"keychain:shop/stripe\"}, PORT_TOKEN: \"8080\", LEVEL: debug}\n",
        ),
        (
            "compose.yaml",
            "services: {a: {image: x, env_file: a.env, ports: [\"${PORT_TOKEN}:80\"], environment: {S: \"${STRIPE}\", L: \"${LEVEL}\"}}}\n",
        ),
        ("a.env", &format!("STRIPE={CANARY}\n")),
    ]);
    site.set("STRIPE", CANARY).set("PORT_TOKEN", "9").set("LEVEL", "info");
    let Some(stack) = site.stack() else { return };
    let env = environment(&stack, "a");
    assert_eq!(env["S"], Some(raw("keychain:shop/stripe")));
    assert_eq!(env["STRIPE"], Some(raw("keychain:shop/stripe")));
    assert_eq!(env["L"], Some("debug".into()));
    assert_eq!(stack.model.as_ref().unwrap().services["a"].ports[0].published.as_deref(), Some("8080"));
    assert!(!everything(&stack).contains(CANARY));
}

#[test]
fn secrets_that_cannot_be_referred_to_are_refused_without_their_value() {
    for (files, expected) in [
        (
            vec![("compose.yaml", "services: {a: {image: x, ports: [\"${ADMIN_TOKEN}:80\"]}}\n")],
            "`ADMIN_TOKEN` looks like a secret, but stands where Compose needs a plain value",
        ),
        (
            vec![("compose.yaml", "services: {a: {image: x, environment: [\"K${ADMIN_TOKEN}=1\"]}}\n")],
            "stands in a name",
        ),
        (
            vec![
                ("compose.yaml", "services: {a: {image: x, env_file: a.env}}\n"),
                ("a.env", "DB_PASSWORD=\"kanarienvogel7${SUFFIX}\"\n"),
            ],
            "`DB_PASSWORD` in `a.env` looks like a secret and is made up of other variables",
        ),
        (
            vec![
                ("compose.yaml", "services: {a: {image: x, environment: {P: \"${DB_PASSWORD}\"}}}\n"),
                (".env", "DB_PASSWORD=\"kanarienvogel7${SUFFIX}\"\n"),
            ],
            "`DB_PASSWORD` in `.env` looks like a secret and is made up of other variables",
        ),
        (
            vec![
                ("compose.yaml", "services: {a: {image: x, env_file: a.env}}\n"),
                ("a.env", "OK=1\nbad name=kanarienvogel7\n"),
            ],
            "`a.env` cannot be understood at line 2",
        ),
        (
            vec![
                ("compose.yaml", "include: [a/c.yaml, b/c.yaml]\n"),
                ("a/c.yaml", "services: {a: {image: \"${X_TOKEN}\"}}\n"),
                ("a/.env", "X_TOKEN=kanarienvogel7\n"),
                ("b/c.yaml", "services: {b: {image: \"${X_TOKEN}\"}}\n"),
                ("b/.env", "X_TOKEN=kanarienvogel78\n"),
            ],
            "has one value in `a/.env` and another in `b/.env`",
        ),
    ] {
        let mut site = Site::new(&files);
        site.set("ADMIN_TOKEN", CANARY);
        let Some(refused) = site.refused() else {
            return;
        };
        assert!(refused.contains(expected), "{refused}");
        assert!(!refused.contains(CANARY) && !refused.contains("ssstandin"), "{refused}");
    }
}

/// However a value is put together, and whichever way this Compose goes about it.
#[test]
fn what_is_made_of_secrets_holds_references() {
    let site = Site::new(&[
        (
            "compose.yaml",
            "include: [inc/c.yaml]\nservices:\n  web:\n    image: web\n    env_file: [first.env, web.env]\n    environment: {DOT: \"${DOT}\", LATE: \"${LATE}\", PLAIN: \"${PLAIN}\", QUOTED: \"${QUOTED}\", COST: \"${COST}\", SET: \"${COMPOSE_SET}\"}\n",
        ),
        ("inc/c.yaml", "services: {inc: {image: i, environment: {URL: \"${INC_URL}\", OPEN: \"${INC_OPEN}\"}}}\n"),
        (
            "inc/.env",
            "INC_PASSWORD=kanarienvogel7i\nINC_URL=i://${INC_PASSWORD}@h\nINC_OPEN=${HOST_OF}/o\nHOST_OF=later\n",
        ),
        (
            ".env",
            "LATE=<${DB_PASSWORD}>\nDB_PASSWORD=kanarienvogel7d\nPIN_TOKEN=99\nDOT=p://${DB_PASSWORD}:${PIN_TOKEN}@${HOST_OF:-db}\nPLAIN=${HOST_OF:-a}${LATE:+b}\nQUOTED=\"a\\\"b\\\\c ${HOST_OF:-$$x}\\n\"\nCOST=a$1$NONE\nCOMPOSE_SET=${HOST_OF:-set}\n",
        ),
        ("first.env", "OTHER_TOKEN=77\nBASE=http\n"),
        (
            "web.env",
            "API_TOKEN=88\nSESSION_SECRET=kanarienvogel7s\nURL=${BASE:-x}://${API_TOKEN}:${SESSION_SECRET}@h\nBOTH=${DB_PASSWORD}-${API_TOKEN}\nSAME_SECRET=${SESSION_SECRET}\n",
        ),
    ]);
    let Some(stack) = site.stack() else { return };
    assert!(!everything(&stack).contains(CANARY), "{}", everything(&stack));
    assert!(!everything(&stack).contains("ssstandin0x"));
    let web = environment(&stack, "web");
    let password = raw("dotenv:.env#DB_PASSWORD");
    let expected = [
        ("DOT", format!("p://{password}:{}@db", raw("dotenv:.env#PIN_TOKEN"))),
        ("LATE", "<>".to_owned()),
        ("PLAIN", "ab".to_owned()),
        ("QUOTED", "a\"b\\c $x\n".to_owned()),
        ("COST", "a$1".to_owned()),
        ("SET", "set".to_owned()),
        ("BOTH", format!("{password}-{}", raw("dotenv:web.env#API_TOKEN"))),
        ("SAME_SECRET", raw("dotenv:web.env#SESSION_SECRET")),
    ];
    for (name, value) in expected {
        assert_eq!(web[name].as_ref(), Some(&value), "{name}");
    }
    // Whether a file before it counts is this Compose's business, what is secret in it is not.
    let url = web["URL"].clone().unwrap();
    let end = format!("://{}:{}@h", raw("dotenv:web.env#API_TOKEN"), raw("dotenv:web.env#SESSION_SECRET"));
    assert!(url.ends_with(&end), "{url}");
    let inc = environment(&stack, "inc");
    assert_eq!(inc["URL"], Some(format!("i://{}@h", raw("dotenv:inc/.env#INC_PASSWORD"))));
    assert_eq!(inc["OPEN"], Some("/o".to_owned()));
}

#[test]
fn entries_that_cannot_be_made_are_told_without_their_text() {
    for (text, expected) in [
        ("A=x${B:?kanarienvogel7}\n", "`A` in `.env` needs `B`, which has no value"),
        ("A=kanarienvogel7${b\n", "`A` in `.env` is no text that can be expanded"),
    ] {
        let site = Site::new(&[("compose.yaml", "services: {a: {image: \"x${A}\"}}\n"), (".env", text)]);
        let Some(refused) = site.refused() else { return };
        assert!(refused.contains(expected) && !refused.contains(CANARY), "{refused}");
    }
}
