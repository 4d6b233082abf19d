use std::time::{Duration, Instant};

use super::*;

fn site() -> Site {
    let site = Site::new(&[
        (
            "compose.yaml",
            "services:\n  a:\n    image: \"x:${TAG:-1}\"\n    build: {context: app}\n    env_file: [{path: opt.env, required: false}]\n    configs: [c]\n\
             configs: {c: {file: c.conf}}\n",
        ),
        ("c.conf", "one"),
        ("app/Dockerfile", "FROM x"),
        ("app/.dockerignore", "ignored\n"),
        ("app/code", "one"),
        ("app/ignored", ""),
    ]);
    git(&site.at(""), &["init", "-q"]);
    site
}

/// Puts other content of the same size at a path and sets its times back.
fn edit_unseen(path: &Path, text: &str) {
    let before = fs::metadata(path).unwrap();
    assert_eq!(before.len(), text.len() as u64);
    fs::write(path, text).unwrap();
    let times = fs::FileTimes::new().set_modified(before.modified().unwrap()).set_accessed(before.accessed().unwrap());
    fs::File::options().write(true).open(path).unwrap().set_times(times).unwrap();
}

#[test]
fn every_change_is_seen_and_nothing_else_is() {
    let site = site();
    let Some(stack) = site.stack() else { return };
    let inputs: Inputs = serde_json::from_str(&serde_json::to_string(&stack.inputs).unwrap()).unwrap();
    assert_eq!((&inputs, inputs.digest()), (&stack.inputs, stack.inputs.digest()));
    let unchanged = |shell: &BTreeMap<String, OsString>| inputs.unchanged(shell, &KEY);
    let same = || unchanged(&site.shell);
    assert!(same());

    let compose = fs::read_to_string(site.at("compose.yaml")).unwrap();
    edit_unseen(&site.at("compose.yaml"), &compose.replace("TAG", "TOG"));
    assert!(!same(), "a same-size edit with the old time");
    edit_unseen(&site.at("compose.yaml"), &compose);
    assert!(same());
    edit_unseen(&site.at("c.conf"), "two");
    assert!(!same(), "a config file");
    edit_unseen(&site.at("c.conf"), "one");
    assert!(same());

    for absent in ["compose.override.yaml", ".env", "sidestack.yaml", "opt.env", "sidestack/modules/m.yaml"] {
        site.write(absent, "X=1\n");
        assert!(!same(), "a new {absent}");
        fs::remove_file(site.at(absent)).unwrap();
        if absent.contains('/') {
            fs::remove_dir_all(site.at("sidestack")).unwrap();
        }
        assert!(same(), "without {absent}");
    }

    let with = |name: &str, value: &str| {
        let mut shell = site.shell.clone();
        shell.insert(name.to_owned(), value.into());
        unchanged(&shell)
    };
    assert!(!with("TAG", "2") && !with("COMPOSE_FILE", "x.yaml") && !with("COMPOSE_PROFILES", "p"));
    assert!(with("UNRELATED", "1"));
    assert!(!inputs.unchanged(&site.shell, &[0; 32]) || inputs.variables.values().all(Option::is_none));

    site.write("app/ignored", "changes");
    site.write("elsewhere", "changes");
    assert!(same(), "what is ignored");
    edit_unseen(&site.at("app/code"), "two");
    assert!(!same(), "a build context, although the times are as before");
}

#[test]
fn values_of_variables_are_kept_keyed() {
    let mut site = site();
    site.set("TAG", "verbatim-value");
    let Some(stack) = site.stack() else { return };
    let text = serde_json::to_string(&stack.inputs).unwrap();
    assert!(!text.contains("verbatim-value"));
    assert!(stack.inputs.variables["TAG"].is_some());
    assert!(stack.inputs.unchanged(&site.shell, &KEY));
    site.set("TAG", "another-value!");
    assert!(!stack.inputs.unchanged(&site.shell, &KEY));
    site.shell.remove("TAG");
    assert!(!stack.inputs.unchanged(&site.shell, &KEY));
}

#[test]
fn another_compose_and_an_incomplete_record_are_never_unchanged() {
    let site = site();
    let Some(stack) = site.stack() else { return };
    let mut inputs = stack.inputs.clone();
    inputs.sound = false;
    assert!(!inputs.unchanged(&site.shell, &KEY));
    let mut inputs = stack.inputs;
    inputs.compose_binary.as_mut().unwrap().modified += 1;
    assert!(!inputs.unchanged(&site.shell, &KEY));
}

#[test]
fn the_record_is_checked_quickly() {
    let site = site();
    let Some(stack) = site.stack() else { return };
    let best = (0..20)
        .map(|_| {
            let before = Instant::now();
            assert!(stack.inputs.unchanged(&site.shell, &KEY));
            before.elapsed()
        })
        .min()
        .unwrap();
    note(&format!("unchanged: {best:?}"));
    // A net against a mistake of kind, such as starting a program; the number itself is the benchmark's.
    assert!(best < Duration::from_millis(50), "{best:?}");
}
