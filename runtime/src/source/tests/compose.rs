use serde_json::{Value, json};

use super::*;

fn service(stack: &Stack, name: &str) -> Value {
    serde_json::to_value(&stack.model.as_ref().unwrap().services[name]).unwrap()
}

#[test]
fn includes_extends_overrides_and_env_files_are_followed_and_recorded() {
    let site = Site::new(&[
        (
            "compose.yaml",
            "include: [sub/inc.yaml]\nservices:\n  web:\n    image: \"web:${TAG}\"\n    extends: {file: lib/base.yaml, service: base}\n    \
             env_file: [a.env, {path: absent.env, required: false}]\n    ports: [\"8080:80\"]\n    profiles: [extra]\n    \
             volumes: [\"./src:/src\", \"data:/data\"]\nvolumes: {data: {}}\n",
        ),
        ("compose.override.yaml", "services: {web: {labels: {over: ridden}}}\n"),
        ("sub/inc.yaml", "services: {inc: {image: \"i:${INC}\"}}\n"),
        ("sub/.env", "INC=included\n"),
        ("lib/base.yaml", "services: {base: {env_file: [base.env], command: [\"echo\", \"$$HOME\"]}}\n"),
        ("lib/base.env", "FROM_BASE=b\n"),
        ("a.env", "FROM_A=a$$x\n"),
        (".env", "TAG=from-dotenv\n"),
    ]);
    let Some(stack) = site.stack() else { return };
    let web = service(&stack, "web");
    assert_eq!(web["image"], "web:from-dotenv");
    assert_eq!(web["environment"], json!({"FROM_A": "a$x", "FROM_BASE": "b"}));
    assert_eq!(web["labels"]["over"], "ridden");
    assert_eq!(web["command"], json!(["echo", "$HOME"]));
    assert_eq!(web["volumes"][0]["source"], format!("{CHECKOUT}/src"));
    assert_eq!(web["profiles"], json!(["extra"]));
    assert_eq!(service(&stack, "inc")["image"], "i:included");
    let model = stack.model.as_ref().unwrap();
    assert_eq!(model.name, None);
    assert_eq!(model.volumes["data"].as_ref().unwrap().name, None);
    assert_eq!(stack.manifest.compose, ["compose.yaml", "compose.override.yaml"]);
    assert_eq!(stack.mentions["web"], BTreeSet::from(["TAG".to_owned()]));

    assert!(stack.inputs.sound);
    let seen: BTreeMap<String, bool> = stack
        .inputs
        .files
        .iter()
        .filter_map(|(path, digest)| {
            Some((path.strip_prefix(site.at("")).ok()?.display().to_string(), digest.is_some()))
        })
        .collect();
    for (file, present) in [
        ("compose.yaml", true),
        ("compose.override.yaml", true),
        ("compose.override.yml", false),
        ("sub/inc.yaml", true),
        ("sub/.env", true),
        ("lib/base.yaml", true),
        ("lib/base.env", true),
        ("a.env", true),
        ("absent.env", false),
        (".env", true),
        ("sidestack.yaml", false),
    ] {
        assert_eq!(seen.get(file), Some(&present), "{file}");
    }
    assert_eq!(stack.inputs.variables["TAG"], None);
}

#[test]
fn the_same_content_in_two_folders_gives_the_same_model() {
    let files = [
        (
            "app/compose.yaml",
            "services:\n  web:\n    build: {context: ., dockerfile: docker/Dockerfile, additional_contexts: {lib: ../lib}}\n    \
             environment: {HERE: \"${PWD}/x\", NAME: \"${COMPOSE_PROJECT_NAME}-db\"}\n    volumes: [\"./src:/src\", \"../shared:/shared\", \"${PWD}/y:/y\"]\n    \
             configs: [c]\n    secrets: [s]\nconfigs: {c: {file: ./c.conf}}\nsecrets: {s: {file: ./s.txt}}\nnetworks: {default: {name: fixed}}\n",
        ),
        ("app/c.conf", "conf"),
        ("app/s.txt", "hidden"),
        ("app/docker/Dockerfile", "FROM x"),
        ("lib/code", "code"),
    ];
    let one = Site::new(&files);
    let two = Site::new(&files);
    if one.compose.is_none() {
        return;
    }
    let read = |site: &Site| {
        git(&site.at(""), &["init", "-q"]);
        site.read_at(&site.at("app")).unwrap()
    };
    let (a, b) = (read(&one), read(&two));
    let text = |stack: &Stack| serde_json::to_string(&stack.model).unwrap();
    assert_eq!(text(&a), text(&b));
    assert_eq!((&a.builds, &a.files), (&b.builds, &b.files));
    assert!(!text(&a).contains(one.at("").to_str().unwrap()), "{}", text(&a));
    let web = service(&a, "web");
    assert_eq!(web["environment"], json!({"HERE": format!("{CHECKOUT}/x"), "NAME": format!("{PROJECT}-db")}));
    assert_eq!(web["volumes"][1]["source"], format!("{CHECKOUT}/../shared"));
    assert_eq!(web["volumes"][2]["source"], format!("{CHECKOUT}/y"));
    assert_eq!(web["build"]["additional_contexts"]["lib"], format!("{CHECKOUT}/../lib"));
    assert_eq!(a.builds["web"].context, CHECKOUT);
    assert_eq!(a.files.keys().collect::<Vec<_>>(), [&format!("{CHECKOUT}/c.conf")]);
    assert_eq!(a.model.as_ref().unwrap().networks["default"].as_ref().unwrap().name.as_deref(), Some("fixed"));

    // A build's digest alone is the one of the whole reading, and follows what lies in the folder.
    let model = a.model.as_ref().unwrap();
    let now = |site: &Site| build_digest(model, "web", &site.at("app"), &Memo::default());
    assert_eq!(now(&two).as_ref(), Some(&a.builds["web"].digest));
    two.write("app/s.txt", "a secret file counts by its path");
    assert_eq!(read(&two).files, a.files);
    two.write("lib/code", "other");
    let changed = read(&two).builds;
    assert_ne!(changed, a.builds);
    assert_eq!(now(&two).as_ref(), Some(&changed["web"].digest));
    assert_eq!(build_digest(model, "nobody", &two.at("app"), &Memo::default()), None);
    std::fs::remove_dir_all(two.at("app")).unwrap();
    assert_ne!(now(&two).as_ref(), Some(&a.builds["web"].digest));
}

#[test]
fn which_files_are_read() {
    let files = [
        ("compose.yaml", "services: {a: {image: a}}\n"),
        ("compose.override.yml", "services: {o: {image: o}}\n"),
        ("compose.override.yaml", "services: {never: {image: n}}\n"),
        ("docker-compose.yml", "services: {old: {image: d}}\n"),
        ("other/x.yaml", "services: {x: {image: x, volumes: [\"./here:/here\"]}}\n"),
    ];
    let mut site = Site::new(&files);
    let services = |site: &Site| Some(site.stack()?.model?.services.into_keys().collect::<Vec<_>>());
    if site.compose.is_none() {
        return;
    }
    assert_eq!(services(&site).unwrap(), ["a", "o"]);
    site.set("COMPOSE_FILE", "docker-compose.yml:other/x.yaml");
    assert_eq!(services(&site).unwrap(), ["old", "x"]);
    site.write("sidestack.yaml", "sidestack: 1\ncompose: compose.yaml\n");
    assert_eq!(services(&site).unwrap(), ["a", "o"]);
    site.write("sidestack.yaml", "sidestack: 1\ncompose: [compose.yaml, docker-compose.yml]\n");
    assert_eq!(services(&site).unwrap(), ["a", "old"]);
    // Paths start from the first file's folder, as with `docker compose -f other/x.yaml`.
    site.files = vec!["other/x.yaml".into()];
    let stack = site.stack().unwrap();
    assert_eq!(service(&stack, "x")["volumes"][0]["source"], format!("{CHECKOUT}/other/here"));
    site.files = vec!["none.yaml".into()];
    assert!(site.refused().unwrap().contains("there is no compose file `none.yaml`"));
    site.files.clear();
    site.write("sidestack.yaml", "sidestack: 1\nresources: {db: postgres}\n");
    let stack = site.stack().unwrap();
    assert!(stack.model.is_none());
    assert!(stack.diagnostics[0].message.contains("does not name `compose.yaml`"));
}

#[test]
fn compose_file_out_of_the_env_file_counts_and_profiles_are_kept() {
    let mut site = Site::new(&[
        (".env", "COMPOSE_FILE=x.yaml\nCOMPOSE_PROFILES=p,q\n"),
        ("x.yaml", "services: {x: {image: x, profiles: [p]}}\n"),
        ("compose.yaml", "services: {a: {image: a}}\n"),
    ]);
    let Some(stack) = site.stack() else { return };
    assert_eq!(stack.model.unwrap().services.into_keys().collect::<Vec<_>>(), ["x"]);
    // No service has `q`, so it says nothing about this stack.
    assert_eq!(stack.profiles, ["p"]);
    site.set("COMPOSE_PROFILES", "");
    assert!(site.stack().unwrap().profiles.is_empty());
    site.profiles = vec!["p".into(), "slip".into()];
    let stack = site.stack().unwrap();
    assert_eq!(stack.profiles, ["p"]);
    let told: Vec<String> = stack.diagnostics.iter().map(ToString::to_string).collect();
    assert!(told.len() == 1 && told[0].contains("no service has the profile `slip`"), "{told:?}");
    site.profiles = vec!["*".into()];
    let stack = site.stack().unwrap();
    assert_eq!(stack.profiles, ["p"]);
    assert!(stack.diagnostics.is_empty());
}

#[test]
fn variables_that_would_steer_compose_are_still_interpolated() {
    let mut site = Site::new(&[(
        "compose.yaml",
        "services: {a: {image: \"x:${DOCKER_TAG}\", environment: [GOOGLE_ID, \"H=${DOCKER_HOST:-none}\", \"Q=${QUOTED}\"]}}\n",
    )]);
    let odd = "a$b'c\"d\\e\n #f ${X}";
    site.set("DOCKER_TAG", "1.2").set("GOOGLE_ID", "g").set("QUOTED", odd).set("DOCKER_HOST", "tcp://10.9.9.9:1");
    let Some(stack) = site.stack() else { return };
    let a = service(&stack, "a");
    assert_eq!(a["image"], "x:1.2");
    assert_eq!((&a["environment"]["GOOGLE_ID"], &a["environment"]["Q"]), (&json!("g"), &json!(odd)));
    assert_eq!(a["environment"]["H"], "tcp://10.9.9.9:1");
    // Not set: the same wherever the stack is read, whatever socket this machine uses.
    site.shell.remove("DOCKER_HOST");
    let stack = site.stack().unwrap();
    assert_eq!(service(&stack, "a")["environment"]["H"], "unix:///var/run/docker.sock");
    site.write(".env", "DOCKER_HOST=tcp://10.8.8.8:1\n");
    let stack = site.stack().unwrap();
    assert_eq!(service(&stack, "a")["environment"]["H"], "tcp://10.8.8.8:1");
}

#[test]
fn no_daemon_is_asked_unless_compose_insists() {
    let Some(compose) = installed_compose() else { return };
    let mut site = Site::new(&[("compose.yaml", "services: {a: {image: x}}\n")]);
    let real = compose.binary().display().to_string();
    let mut hosts = |first: &str| {
        let script = format!("#!/bin/sh\necho \"$DOCKER_HOST\" >> \"$0.hosts\"\n{first}\nexec '{real}' \"$@\"\n");
        site.write("compose", &script);
        site.write("compose.hosts", "");
        std::fs::set_permissions(site.at("compose"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        site.compose = Some(Compose::new(site.at("compose"), "unix:///nowhere/docker.sock"));
        assert_eq!(service(&site.stack().unwrap(), "a")["image"], "x");
        fs::read_to_string(site.at("compose.hosts")).unwrap()
    };
    assert_eq!(hosts(""), "unix:///dev/null\n");
    let insists = r#"case $DOCKER_HOST in */dev/null)
        echo "Cannot connect to the Docker daemon at $DOCKER_HOST. Is the docker daemon running?" >&2; exit 1;; esac"#;
    assert_eq!(hosts(insists), "unix:///dev/null\nunix:///nowhere/docker.sock\n");
}

#[test]
fn compose_s_refusals_and_warnings_are_passed_on() {
    for (text, expected) in [
        ("services: {a: {image: x, nonsense: 1}}\n", "nonsense"),
        ("services: {a: {image: \"${NEEDED:?say why}\"}}\n", "say why"),
        ("services: {a: {image: x, depends_on: [b]}}\n", "depends on undefined service"),
        ("services: {a: {image: x, env_file: gone.env}}\n", "gone.env"),
        ("services:\n  a:\n   image: [\n", "compose.yaml"),
        ("services: {a: {image: x, labels: {\"a\\x7f\": b}}}\n", "`services.a.labels` holds the character U+007F"),
        ("services: {a: {image: x, command: \"a \\uE0F0renv:X\\uE0F1\"}}\n", "U+E0F0"),
        ("services: {a: {image: x, command: \"a \\uE0F2project\\uE0F3\"}}\n", "U+E0F2"),
    ] {
        let Some(refused) = Site::new(&[("compose.yaml", text)]).refused() else {
            return;
        };
        assert!(refused.contains(expected), "{text}: {refused}");
        assert!(!refused.contains("sidestack0project0name"), "{refused}");
    }
    let site = Site::new(&[("compose.yaml", "version: '3'\nservices: {a: {image: \"x${UNSET}\"}}\n")]);
    let warnings: Vec<String> = site.stack().unwrap().diagnostics.iter().map(|d| d.message.clone()).collect();
    assert_eq!(warnings, ["the \"UNSET\" variable is not set. Defaulting to a blank string"]);
}

#[test]
fn without_compose_only_resources_can_be_read() {
    let mut site = Site::new(&[("compose.yaml", "services: {}\n")]);
    site.compose = None;
    assert!(matches!(site.read(), Err(SourceError::NoCompose(_))));
    site.write("sidestack.yaml", "sidestack: 1\nresources: {db: postgres}\n");
    assert!(site.read().is_ok());
    site.write("sidestack.yaml", "sidestack: 1\nresorces: {}\n");
    let error = site.read().unwrap_err();
    assert!(error.diagnostics()[0].message.contains("resorces"), "{error}");
}

#[test]
fn modules_of_the_stack_are_confined_to_it() {
    let site = Site::new(&[
        ("stack/sidestack.yaml", "sidestack: 1\n"),
        ("stack/sidestack/modules/mine.yaml", "name: mine\n"),
        ("stack/sidestack/modules/notes.txt", ""),
        ("outside.yaml", "secret: thing\n"),
    ]);
    let read = || site.read_at(&site.at("stack"));
    let stack = read().unwrap();
    let expected = ("sidestack/modules/mine.yaml".to_owned(), "name: mine\n".to_owned());
    assert_eq!(stack.modules, BTreeMap::from([("mine".to_owned(), expected)]));
    assert!(stack.inputs.unchanged(&site.shell, &KEY));
    site.write("stack/sidestack/modules/second.yaml", "");
    assert!(!stack.inputs.unchanged(&site.shell, &KEY));
    std::os::unix::fs::symlink("../../../outside.yaml", site.at("stack/sidestack/modules/evil.yaml")).unwrap();
    let error = read().unwrap_err().to_string();
    assert!(error.contains("leads out") && !error.contains("thing"), "{error}");
}
