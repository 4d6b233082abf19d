use super::*;

/// A repository whose stack needs files that git does not track, and a linked work tree of it.
fn two(ignored: &str, compose: &str, files: &[(&str, &str)]) -> Site {
    let mut all = vec![("main/deploy/compose.yaml", compose), ("main/.gitignore", ignored)];
    all.extend_from_slice(files);
    let site = Site::new(&all);
    let main = site.at("main");
    git(&main, &["init", "-q"]);
    git(&main, &["add", "."]);
    git(&main, &["commit", "-qm", "one"]);
    git(&main, &["worktree", "add", "-q", site.at("linked").to_str().unwrap()]);
    site
}

const COMPOSE: &str = r#"
include: [inc/c.yaml, ../../beside/c.yaml]
services:
  web:
    image: "web:${TAG}"
    env_file: [web.env, {path: maybe.env, required: false}, "${PWD}/here.env"]
    build: {context: .., dockerfile: deploy/Dockerfile}
    volumes: ["./cert.pem:/cert.pem", "./folder:/folder", "./nowhere:/nowhere"]
    environment: {HERE: "${PWD}/x", PASSWORD: "${DB_PASSWORD}"}
    develop: {watch: [{action: sync, path: ./inc, target: /inc}, {action: sync, path: ./none, target: /none}]}
    configs: [c]
    secrets: [s]
configs: {c: {file: ./c.conf}}
secrets: {s: {file: ./secret.txt}}
"#;

const FILES: [(&str, &str); 14] = [
    ("main/deploy/Dockerfile", "FROM x"),
    ("main/deploy/inc/c.yaml", "services: {inc: {image: \"i:${INC}\", env_file: inc.env}}\n"),
    ("beside/c.yaml", "services: {beside: {image: b, env_file: b.env}}\n"),
    ("beside/b.env", "B=b\n"),
    ("main/deploy/.env", "TAG=7\nDB_PASSWORD=kanarienvogel7\n"),
    ("main/deploy/web.env", "W=w\nWEB_TOKEN=kanarienvogel8\n"),
    ("main/deploy/maybe.env", "M=m\n"),
    ("main/deploy/here.env", "H=h\n"),
    ("main/deploy/inc/.env", "INC=included\n"),
    ("main/deploy/inc/inc.env", "I=i\n"),
    ("main/deploy/cert.pem", "cert"),
    ("main/deploy/c.conf", "conf"),
    ("main/deploy/secret.txt", "kanarienvogel9"),
    ("main/deploy/folder/data", "of the main work tree alone"),
];

const IGNORED: &str = "*.env\n*.pem\n*.conf\nsecret.txt\nfolder\n";

#[test]
fn what_git_does_not_track_is_taken_from_the_main_work_tree() {
    let site = two(IGNORED, COMPOSE, &FILES);
    if site.compose.is_none() {
        return;
    }
    let read = |folder: &str| {
        site.read_at(&site.at(folder)).unwrap_or_else(|error| panic!("{error}\n{:#?}", error.diagnostics()))
    };
    let (main, linked) = (read("main/deploy"), read("linked/deploy"));
    let kept = |stack: &Stack| {
        serde_json::to_string(&(&stack.model, &stack.files, &stack.templates, &stack.interpolation)).unwrap()
    };
    assert_eq!(kept(&main), kept(&linked), "it is the same revision");
    assert!(!everything(&linked).contains("kanarienvogel"), "{}", everything(&linked));
    assert_eq!(main.notes, Vec::<String>::new());
    let mut told: Vec<&str> = linked.notes.iter().map(|note| note.split('`').nth(1).unwrap()).collect();
    told.sort_unstable();
    assert_eq!(
        told,
        [".env", "c.conf", "cert.pem", "here.env", "inc/.env", "inc/inc.env", "maybe.env", "secret.txt", "web.env"]
    );
    assert!(linked.notes[0].contains(&site.at("main/deploy").display().to_string()), "{:?}", linked.notes);
    // Nothing was written where the user works.
    let mut status = std::process::Command::new("git");
    let status = status.arg("-C").arg(site.at("linked")).args(["status", "--porcelain", "--ignored"]).output().unwrap();
    assert_eq!(String::from_utf8(status.stdout).unwrap(), "");

    // Whatever decided it is watched.
    let unchanged = |stack: &Stack| stack.inputs.unchanged(&site.shell, &KEY);
    let reread: Inputs = serde_json::from_str(&serde_json::to_string(&linked.inputs).unwrap()).unwrap();
    assert_eq!(reread, linked.inputs);
    assert!(unchanged(&linked));
    site.write("main/deploy/web.env", "W=other\n");
    assert!(!unchanged(&linked), "a change of the main work tree's file");
    assert!(kept(&read("linked/deploy")).contains("other"));
    site.write("main/deploy/web.env", "W=w\nWEB_TOKEN=kanarienvogel8\n");
    assert!(unchanged(&linked));
    site.write("linked/deploy/web.env", "W=own\n");
    assert!(!unchanged(&linked), "a file of its own");
    let own = read("linked/deploy");
    assert!(kept(&own).contains("\"own\"") && own.notes.len() == linked.notes.len() - 1, "{:?}", own.notes);
    fs::remove_file(site.at("linked/deploy/web.env")).unwrap();
    git(&site.at("main"), &["add", "-f", "deploy/maybe.env"]);
    assert!(!unchanged(&linked), "becoming tracked");
    assert_eq!(read("linked/deploy").notes.len(), linked.notes.len() - 1);
}

#[test]
fn what_git_tracks_is_what_the_branch_has() {
    let site = two("", "services: {a: {image: a, env_file: a.env}}\n", &[("main/deploy/a.env", "A=1\n")]);
    if site.compose.is_none() {
        return;
    }
    // Deleted here: the branch says so, and the main work tree's is none of its business.
    fs::remove_file(site.at("linked/deploy/a.env")).unwrap();
    let error = site.read_at(&site.at("linked/deploy")).unwrap_err();
    let told = error.diagnostics()[0].to_string();
    assert!(told.contains("a.env") && told.contains("ln -s"), "{told}");
    // Deleted on the branch.
    git(&site.at("linked"), &["rm", "-q", "--cached", "deploy/a.env"]);
    assert!(site.read_at(&site.at("linked/deploy")).is_err());
    // Nobody tracks it any more.
    git(&site.at("main"), &["rm", "-q", "--cached", "deploy/a.env"]);
    let stack = site.read_at(&site.at("linked/deploy")).unwrap();
    assert_eq!(stack.notes.len(), 1, "{:?}", stack.notes);
}

#[test]
fn compose_s_words_name_the_files_where_they_are() {
    let site =
        two("*.env\n", "services: {a: {image: a, env_file: [a.env, gone.env]}}\n", &[("main/deploy/a.env", "A=1\n")]);
    if site.compose.is_none() {
        return;
    }
    let error = site.read_at(&site.at("linked/deploy")).unwrap_err();
    let told = error.diagnostics()[0].to_string();
    assert!(told.contains("gone.env not found"), "{told}");
    assert!(!told.contains("/sidestack-"), "{told}");
}

#[test]
fn files_that_are_named_may_be_untracked_too() {
    let mut site = two(
        ".env\nlocal.yaml\n",
        "services: {a: {image: a}}\n",
        &[
            ("main/deploy/.env", "COMPOSE_FILE=compose.yaml:local.yaml\n"),
            ("main/deploy/local.yaml", "services: {b: {image: b, volumes: [\"./src:/src\"]}}\n"),
        ],
    );
    if site.compose.is_none() {
        return;
    }
    let services = |site: &Site| {
        let model = site.read_at(&site.at("linked/deploy")).unwrap().model.unwrap();
        let source = model.services["b"].volumes[0].source.clone().unwrap();
        (model.services.into_keys().collect::<Vec<_>>(), source)
    };
    let expected = (vec!["a".to_owned(), "b".to_owned()], format!("{CHECKOUT}/src"));
    assert_eq!(services(&site), expected);
    site.files = vec!["compose.yaml".into(), "local.yaml".into()];
    assert_eq!(services(&site), expected);
    site.env_files = vec![".env".into()];
    assert_eq!(services(&site), expected);
}

#[test]
fn one_file_is_found_as_a_whole_reading_finds_it() {
    let site = two(IGNORED, "services: {a: {image: a}}\n", &FILES);
    let tree = MainTree::at(&site.at("linked/deploy")).unwrap();
    assert_eq!(MainTree::of(&checkout(&site.at("linked/deploy")).unwrap()), Some(tree.clone()));
    assert_eq!(MainTree::at(&site.at("main/deploy")), None);
    let found = |name: &str| tree.find(&site.at(name));
    assert_eq!(found("linked/deploy/cert.pem"), Some(site.at("main/deploy/cert.pem")));
    assert_eq!(found("linked/deploy/inc/../cert.pem"), Some(site.at("main/deploy/cert.pem")));
    // Here already, tracked, a folder, nowhere, and outside.
    for name in ["linked/deploy/Dockerfile", "linked/deploy/folder", "linked/deploy/none", "beside/b.env", "gone"] {
        assert_eq!(found(name), None, "{name}");
    }
    fs::remove_file(site.at("linked/deploy/Dockerfile")).unwrap();
    assert_eq!(found("linked/deploy/Dockerfile"), None, "tracked, and deleted here");
}
