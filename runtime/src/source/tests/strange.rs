//! Files as strangers write them.

use serde_json::json;

use super::*;

fn environment(stack: &Stack, service: &str) -> BTreeMap<String, Option<String>> {
    stack.model.as_ref().unwrap().services[service].environment.clone()
}

fn services(stack: &Stack) -> Vec<&str> {
    stack.model.iter().flat_map(|model| model.services.keys()).map(String::as_str).collect()
}

#[test]
fn line_ends_marks_anchors_and_extensions_are_read() {
    let text = "\u{FEFF}name: other\r\nx-env: &env\r\n  A: \"${A:-a}\"\r\n  B: b\r\nx-more: {deep: [1, {y: ~}]}\r\nservices:\r\n  web: &web\r\n    image: w\r\n    \
                environment:\r\n      <<: *env\r\n      B: own\r\n  again:\r\n    <<: *web\r\n    environment: {<<: [*env, {C: c}]}\r\n    x-note: here\r\n";
    let site = Site::new(&[("compose.yaml", text), (".env", "\u{FEFF}A=dot\r\nUNUSED=1\r\n")]);
    let Some(stack) = site.stack() else { return };
    assert_eq!(services(&stack), ["again", "web"]);
    assert_eq!(json!(environment(&stack, "web")), json!({"A": "dot", "B": "own"}));
    assert_eq!(json!(environment(&stack, "again")), json!({"A": "dot", "B": "b", "C": "c"}));
    assert_eq!(stack.templates.keys().collect::<Vec<_>>(), ["again", "web"]);
    assert_eq!(stack.interpolation["A"].as_deref(), Some("dot"));
    assert!(stack.inputs.unchanged(&site.shell, &KEY));
    // The name is the project's, which is not the stack's to choose.
    assert_eq!(stack.model.unwrap().name, None);
}

#[test]
fn values_that_are_no_texts_are_what_compose_makes_of_them() {
    let site = Site::new(&[(
        "compose.yaml",
        "services: {a: {image: x, environment: {I: 3, F: 1.50, T: true, Y: yes, N: null, E: \"\", BIG: 12345678901234567890, EXP: 1e3, M: \"a\\nb\"}}}\n",
    )]);
    let Some(stack) = site.stack() else { return };
    assert_eq!(
        json!(environment(&stack, "a")),
        json!({"I": "3", "F": "1.5", "T": "true", "Y": "yes", "N": null, "E": "", "BIG": "12345678901234567890", "EXP": "1000", "M": "a\nb"})
    );
}

#[test]
fn stacks_with_nothing_in_them_are_read_or_refused_by_name() {
    for (text, refusal) in [
        ("", Some("empty compose file")),
        ("# nothing\n", Some("empty compose file")),
        ("name: other\n", None),
        ("services: {}\n", None),
        ("services:\n", Some("services must be a mapping")),
        ("- a\n", Some("top-level object must be a mapping")),
        ("services:\n\ta:\n\t\timage: x\n", Some("at compose.yaml:2:2")),
        ("services:\n  a: {image: x}\n  a: {image: y}\n", Some("at compose.yaml:3:3")),
        ("services: {a: {image: x, env_file: no.env}}\n", Some("env file no.env not found")),
        ("services: {a: {image: \"x\u{0}\"}}\n", Some("control characters")),
        ("include: [compose.yaml]\nservices: {a: {image: x}}\n", Some("include cycle")),
        ("services: {a: {extends: b}, b: {extends: a}}\n", Some("circular reference")),
        ("services: {a: {image: x, environment: {U: \"${A\"}}}\n", Some("invalid interpolation format")),
    ] {
        let site = Site::new(&[("compose.yaml", text)]);
        match refusal {
            Some(expected) => {
                let Some(refused) = site.refused() else { return };
                assert!(refused.contains(expected), "{text:?}: {refused}");
            }
            None => {
                let Some(stack) = site.stack() else { return };
                assert!(services(&stack).is_empty() && stack.diagnostics.is_empty(), "{text:?}");
                assert!(stack.inputs.unchanged(&site.shell, &KEY));
            }
        }
    }
}

#[test]
fn what_would_steer_compose_is_only_a_value() {
    let mut site = Site::new(&[
        (
            "compose.yaml",
            "name: mine\nservices: {a: {image: x, environment: {P: \"${COMPOSE_PROJECT_NAME}\", F: \"${COMPOSE_FILE:-none}\", D}, env_file: [{path: no.env, required: false}]}}\n",
        ),
        (".env", "COMPOSE_PROJECT_NAME=evil\nDOCKER_HOST=tcp://192.0.2.1:5\nCOMPOSE_PATH_SEPARATOR=;\nD=passed\n"),
    ]);
    site.set("COMPOSE_PROJECT_NAME", "shell");
    let Some(stack) = site.stack() else { return };
    assert_eq!(json!(environment(&stack, "a")), json!({"P": PROJECT, "F": "none", "D": "passed"}));
    // An optional file that comes is noticed.
    assert!(stack.inputs.unchanged(&site.shell, &KEY));
    site.write("no.env", "P=later\n");
    assert!(!stack.inputs.unchanged(&site.shell, &KEY));
    site.write(".env", "COMPOSE_FILE=gone.yaml\n");
    assert!(site.refused().unwrap().contains("there is no compose file `gone.yaml`"));
}

#[test]
fn extensions_across_folders_keep_their_own_paths() {
    let site = Site::new(&[
        ("compose.yaml", "services: {a: {extends: {file: sub/b.yaml, service: b}}}\n"),
        (
            "sub/b.yaml",
            "services: {b: {image: x, env_file: b.env, volumes: [\"./d:/d\"], extends: {file: deep/c.yaml, service: c}}}\n",
        ),
        ("sub/b.env", "E=${A:-a}\n"),
        ("sub/deep/c.yaml", "services: {c: {environment: {Z: \"${ZZ:-z}\"}, build: .}}\n"),
        ("sub/deep/Dockerfile", "FROM x\n"),
    ]);
    let Some(stack) = site.stack() else { return };
    assert_eq!(json!(environment(&stack, "a")), json!({"E": "a", "Z": "z"}));
    assert_eq!(stack.templates["a"]["Z"], "${ZZ:-z}");
    assert_eq!(stack.builds["a"].context, format!("{CHECKOUT}/sub/deep"));
    let model = json!(stack.model);
    assert_eq!(model["services"]["a"]["volumes"][0]["source"], format!("{CHECKOUT}/sub/d"));
    for file in ["sub/b.yaml", "sub/b.env", "sub/deep/c.yaml", "sub/deep/Dockerfile"] {
        assert!(stack.inputs.files.contains_key(&site.at(file)), "{file} is not followed");
    }
}

#[test]
fn typed_fields_and_names_with_variables_do_not_stand_in_the_way() {
    let site = Site::new(&[(
        "compose.yaml",
        "services: {a: {image: x, privileged: \"${P:-true}\", mem_limit: \"${M:-1g}\", ports: [{target: \"${T:-80}\", published: \"${Q:-8080}\"}], \
         healthcheck: {retries: \"${R:-3}\", test: [\"CMD\", \"true\"]}, environment: [\"${K:-KEY}=${A:-a}\", \"U=${A:-a}\", \"U=2\", \"V=${A:-a}\"]}}\n",
    )]);
    let Some(stack) = site.stack() else { return };
    assert_eq!(json!(environment(&stack, "a")), json!({"KEY": "a", "U": "2", "V": "a"}));
    assert_eq!(json!(stack.templates), json!({"a": {"V": "${A:-a}"}}));
    assert_eq!(json!(stack.interpolation), json!({"A": null}));
}

#[test]
fn paths_with_variables_cost_the_templates_and_say_so() {
    for text in [
        "include: [\"${D:-sub}/c.yaml\"]\nservices: {a: {image: x, environment: {U: \"${A:-a}\"}}}\n",
        "services: {a: {extends: {file: \"${D:-sub}/c.yaml\", service: b}, environment: {U: \"${A:-a}\"}}}\n",
    ] {
        let site = Site::new(&[("compose.yaml", text), ("sub/c.yaml", "services: {b: {image: y}}\n")]);
        let Some(stack) = site.stack() else { return };
        assert_eq!(environment(&stack, "a")["U"].as_deref(), Some("a"));
        // Later versions of Compose fill such paths in.
        let told: Vec<String> = stack.diagnostics.iter().map(ToString::to_string).collect();
        assert!(
            !stack.templates.is_empty() || told.iter().any(|text| text.contains("before interpolation")),
            "{told:?}"
        );
    }
}

#[test]
fn three_hundred_services_are_read() {
    let mut text = String::from("services:\n");
    for n in 0..300 {
        text.push_str(&format!(
            "  s{n}:\n    image: \"x:${{T:-1}}\"\n    environment: {{U: \"http://${{H{n}:-a}}:${{P:-1}}\", V: \"{n}\"}}\n    ports: [\"{}:80\"]\n",
            10_000 + n
        ));
    }
    let site = Site::new(&[("compose.yaml", &text)]);
    let Some(stack) = site.stack() else { return };
    assert_eq!((services(&stack).len(), stack.templates.len(), stack.interpolation.len()), (300, 300, 301));
    assert!(stack.inputs.unchanged(&site.shell, &KEY));
}

#[test]
fn a_context_of_a_thousand_files_is_checked_quickly() {
    let site = Site::new(&[
        ("compose.yaml", "services: {a: {build: .}}\n"),
        ("Dockerfile", "FROM x\n"),
        (".dockerignore", "node_modules\n*.log\n!keep.log\n"),
    ]);
    for number in 0..1_000 {
        site.write(&format!("src/d{}/f{number}.txt", number % 40), "text");
    }
    let Some(stack) = site.stack() else { return };
    let best = (0..20)
        .map(|_| {
            let before = std::time::Instant::now();
            assert!(stack.inputs.unchanged(&site.shell, &KEY));
            before.elapsed()
        })
        .min()
        .unwrap();
    note(&format!("unchanged with 1,000 files: {best:?}"));
    // A net; the number itself is the benchmark's.
    assert!(best < std::time::Duration::from_millis(200), "{best:?}");
}
