//! Worktrees of one repository: each has an instance and code of its own, and what git does not track is not missing.

use std::path::Path;
use std::process::{Command, Stdio};

use sidestack_tests::{World, containers, docker_is_there, http_get};

const COMPOSE: &str = r#"services:
  web:
    image: busybox:stable
    command: ["httpd", "-f", "-p", "8080", "-h", "/www"]
    stop_grace_period: 0s
    ports: ["8080"]
    env_file: app.env
    environment: {LEVEL: "${LEVEL:-none}", DB_PASSWORD: "${DB_PASSWORD:-none}"}
    volumes: ["./www:/www:ro", "./cert.pem:/cert.pem:ro", "data:/data"]
    configs: [{source: c, target: /c.conf}]
    secrets: [s]
volumes: {data: {}}
configs: {c: {file: ./c.conf}}
secrets: {s: {file: ./secret.txt}}
"#;

/// Files that git ignores, in the main worktree alone.
const UNTRACKED: [(&str, &str); 5] = [
    (".env", "LEVEL=from-dotenv\nDB_PASSWORD=canary-dotenv\n"),
    ("app.env", "PLAIN=from-env-file\nAPP_TOKEN=canary-env-file\n"),
    ("secret.txt", "canary-secret-file"),
    ("cert.pem", "a certificate"),
    ("c.conf", "a config"),
];

fn git(folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "init.defaultBranch=trunk"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A repository whose stack needs files that git ignores.
fn repository() -> World {
    let world = World::with(&[
        ("compose.yaml", COMPOSE),
        ("www/index.html", "trunk\n"),
        (".gitignore", "*.env\n.env\n*.pem\nsecret.txt\nc.conf\n"),
    ]);
    for (name, text) in UNTRACKED {
        world.write(name, text);
    }
    git(&world.folder(), &["init", "-q"]);
    commit(&world.folder(), "one");
    world
}

fn commit(folder: &Path, message: &str) {
    git(folder, &["add", "."]);
    git(folder, &["commit", "-qm", message]);
}

/// What a file of a container holds, or its variables.
fn inside(world: &World, target: &str, words: &[&str]) -> String {
    world.run([&["exec", "-i", target, "web", "--"][..], words].concat()).ok().stdout.trim().to_owned()
}

fn page(world: &World, target: &str) -> String {
    http_get(&world.address(target, "web", 8080), "/index.html").unwrap_or_default().trim().to_owned()
}

/// The line of `ls` of one instance.
fn listed(world: &World, folder: &Path, instance: &str) -> serde_json::Value {
    let all = world.run_in(folder, ["ls", "--json"]).ok().json();
    let rows = all["instances"].as_array().unwrap();
    rows.iter().find(|row| row["instance"] == instance).unwrap_or_else(|| panic!("{instance} in {all:#}")).clone()
}

#[test]
fn two_worktrees_run_at_once_with_what_git_does_not_track() {
    if !docker_is_there() {
        return;
    }
    let world = repository();
    let main = world.folder();
    let linked = world.root().join("linked");
    git(&main, &["worktree", "add", "-q", "-b", "prices", linked.to_str().unwrap()]);
    std::fs::write(linked.join("www/index.html"), "prices\n").unwrap();
    commit(&linked, "two");

    world.run(["up"]).ok();
    let ran = world.run_in(&linked, ["up"]).ok();
    for (name, _) in UNTRACKED {
        let note = format!("this worktree has no `{name}`, which git does not track: the main worktree's is used");
        assert_eq!(ran.stderr.matches(&note).count(), 1, "{name} in\n{}", ran.stderr);
    }
    for target in ["main", "prices"] {
        let environment = inside(&world, target, &["env"]);
        for line in
            ["LEVEL=from-dotenv", "DB_PASSWORD=canary-dotenv", "PLAIN=from-env-file", "APP_TOKEN=canary-env-file"]
        {
            assert!(environment.lines().any(|one| one == line), "{line} of {target} in\n{environment}");
        }
        for (path, text) in
            [("/cert.pem", "a certificate"), ("/run/secrets/s", "canary-secret-file"), ("/c.conf", "a config")]
        {
            assert_eq!(inside(&world, target, &["cat", path]), text, "{path} of {target}");
        }
    }
    assert_eq!((page(&world, "main"), page(&world, "prices")), ("trunk".into(), "prices".into()));
    let revision = |instance: &str| listed(&world, &main, instance)["revision"].clone();
    assert_eq!(revision("main"), revision("prices"), "only the code differs, which is mounted");
    assert_eq!(git(&linked, &["status", "--porcelain", "--ignored"]), "", "nothing was written to the worktree");
    // Nothing to do, and nothing is said again.
    let again = world.run_in(&linked, ["up"]).ok().says("nothing was to do");
    assert!(!again.stderr.contains("this worktree has no"), "{}", again.stderr);

    // `plan` tells it too.
    let plan = world.run_in(&linked, ["plan", "--json"]).ok().json();
    let isolation = plan["isolation"].as_array().unwrap();
    assert!(isolation.iter().all(|change| change["rule"] != "unexplained"), "{isolation:#?}");
    assert_eq!(isolation.iter().filter(|change| change["rule"] == "main-worktree").count(), 3, "{isolation:#?}");

    // A change in the main worktree reaches the other by `up`, a file of its own goes before.
    world.write("app.env", "PLAIN=changed\nAPP_TOKEN=canary-env-file\n");
    std::fs::write(linked.join("cert.pem"), "its own\n").unwrap();
    world.run_in(&linked, ["up"]).ok();
    assert!(inside(&world, "prices", &["env"]).contains("PLAIN=changed"));
    assert_eq!(inside(&world, "prices", &["cat", "/cert.pem"]), "its own");
    assert_eq!(inside(&world, "main", &["cat", "/cert.pem"]), "a certificate");
}

#[test]
fn branch_and_folder_are_those_of_now_and_a_deleted_worktree_is_cleaned_up_from_anywhere() {
    if !docker_is_there() {
        return;
    }
    let world = repository();
    let main = world.folder();
    let (one, two) = (world.root().join("one"), world.root().join("two"));
    for (folder, branch) in [(&one, "alpha"), (&two, "beta")] {
        git(&main, &["worktree", "add", "-q", "-b", branch, folder.to_str().unwrap()]);
        world.run_in(folder, ["up"]).ok();
    }
    assert_eq!(listed(&world, &main, "alpha")["branch"], "alpha");
    git(&one, &["checkout", "-q", "-b", "gamma"]);
    let row = listed(&world, &two, "alpha");
    assert_eq!((&row["branch"], &row["folder_missing"]), (&"gamma".into(), &false.into()), "the branch of now");
    // Without a compose file it is a folder on a branch all the same.
    std::fs::remove_file(one.join("compose.yaml")).unwrap();
    assert_eq!(listed(&world, &two, "alpha")["branch"], "gamma");

    std::fs::remove_dir_all(&one).unwrap();
    let row = listed(&world, &main, "alpha");
    assert_eq!((&row["branch"], &row["folder_missing"]), (&serde_json::Value::Null, &true.into()), "{row:#}");
    assert_eq!(row["state"], "running");
    let text = world.run(["ls"]).ok().stdout;
    assert!(text.lines().any(|line| line.contains("alpha") && line.contains("(gone)")), "{text}");

    // From another worktree by its name, from anywhere by its full one, also where the folder was.
    let full = |instance: &str| format!("{}/dev/{instance}", world.workspace);
    world.run_in(&two, ["rm", "alpha", "--volumes"]).ok();
    assert!(containers(&world.project("alpha")).is_empty());
    let mut shell = Command::new("sh");
    let program = sidestack_tests::program();
    let script = format!("rm -rf \"$PWD\"; exec {} rm {} --volumes", program.display(), full("beta"));
    let like = world.command([""; 0]);
    shell.args(["-c", &script]).current_dir(&two).env_clear();
    shell.envs(like.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    world.run_in(world.root(), ["describe", &full("beta")]).exits(3);
    assert_eq!(world.leftovers(), Vec::<String>::new());
    let all = world.run(["ls", "--json"]).ok().json();
    assert!(all["instances"].as_array().unwrap().is_empty(), "{all:#}");
}

/// What git has as worktrees, without the main one.
fn worktrees(folder: &Path) -> Vec<String> {
    let listed = git(folder, &["worktree", "list", "--porcelain"]);
    listed.lines().filter_map(|line| line.strip_prefix("worktree ")).skip(1).map(str::to_owned).collect()
}

/// Everything below a folder that is no folder.
fn files_below(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| if entry.path().is_dir() { files_below(&entry.path()) } else { vec![entry.path()] })
        .collect()
}

#[test]
fn a_commit_runs_from_a_worktree_that_goes_with_its_instance() {
    if !docker_is_there() {
        return;
    }
    let world = repository();
    let main = world.folder();
    let first = git(&main, &["rev-parse", "HEAD"]);
    git(&main, &["tag", "v1"]);
    world.write("www/index.html", "second\n");
    commit(&main, "two");
    world.write("www/index.html", "not committed\n");
    world.run(["up"]).ok();

    let ran = world.run(["up", "--git", "v1", "--json"]).ok();
    let up = ran.json();
    assert_eq!((&up["instance"], &up["revision"]), (&"v1".into(), &"r1".into()), "the same stack, other code: {up:#}");
    assert!(ran.stderr.contains("this worktree has no `.env`"), "{}", ran.stderr);
    let folder = std::path::PathBuf::from(listed(&world, &main, "v1")["folder"].as_str().unwrap());
    assert!(folder.starts_with(world.home().canonicalize().unwrap().join("worktrees")), "{}", folder.display());
    assert_eq!(git(&folder, &["rev-parse", "HEAD"]), first);
    assert_eq!((page(&world, "v1"), page(&world, "main")), ("trunk".into(), "not committed".into()));
    assert!(inside(&world, "v1", &["env"]).contains("APP_TOKEN=canary-env-file"));
    world.run(["up", "--git", "v1"]).ok().says("nothing was to do");

    // The tip of a branch is another instance; as it moves on, its instance is moved in place.
    world.run(["up", "--git", "trunk"]).ok();
    let named = "trunk";
    let before = containers(&world.project(named))["web"].clone();
    assert_eq!(page(&world, named), "second");
    world.write("www/index.html", "third\n");
    commit(&main, "three");
    world.run(["up", "--git", "trunk"]).ok().says("is moved from commit");
    assert_eq!(page(&world, named), "third");
    assert_eq!(containers(&world.project(named))["web"].id, before.id, "only the code moved");
    world.write("compose.yaml", &COMPOSE.replace("./cert.pem:", "./cert.pem:/more.pem:ro\", \"./cert.pem:"));
    commit(&main, "four");
    world.run(["up", "--git", "trunk"]).ok();
    assert_eq!(inside(&world, named, &["cat", "/more.pem"]), "a certificate");

    // `plan` leaves nothing behind.
    let count = worktrees(&main).len();
    let plan = world.run(["plan", "--git", "HEAD~1", "--json"]).ok().json();
    assert!(plan["target"].as_str().unwrap().contains("/dev/head-1-"), "{plan:#}");
    assert_eq!(worktrees(&main).len(), count);
    let plan = world.run(["plan", "--git", &first[..10], "--json"]).ok().json();
    assert_eq!(plan["target"], format!("{}/dev/c{}", world.workspace, &first[..8]), "{plan:#}");

    // Changes there are nobody's to throw away.
    let trunk = std::path::PathBuf::from(listed(&world, &main, named)["folder"].as_str().unwrap());
    std::fs::write(trunk.join("www/index.html"), "edited there\n").unwrap();
    world.write("x", "");
    commit(&main, "five");
    let at = git(&trunk, &["rev-parse", "HEAD"]);
    world.run(["up", "--git", "trunk"]).exits(5).says("`www/index.html`").says("so it is not moved to `trunk`");
    world.run(["rm", named, "--volumes"]).exits(5).says("and would be lost").says("--yes");
    assert_eq!((git(&trunk, &["rev-parse", "HEAD"]), page(&world, named)), (at, "edited there".into()));
    world.run(["rm", named, "--volumes", "--yes"]).ok();
    assert!(!trunk.exists());

    // What git ignores may be data: it goes as data goes.
    std::fs::write(folder.join("made.pem"), "by somebody").unwrap();
    world.run(["rm", "v1"]).exits(5).says("`made.pem`").says("--volumes");
    world.run(["rm", "v1", "--volumes"]).ok();
    assert_eq!(worktrees(&main), Vec::<String>::new());
    assert_eq!(files_below(&world.home().join("worktrees")), Vec::<std::path::PathBuf>::new());
    assert_eq!(page(&world, "main"), "third");
    world.run(["rm", "main", "--volumes"]).ok();
    assert_eq!(world.leftovers(), Vec::<String>::new());
    assert_eq!(files_below(&world.home().join("locks")), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_commit_that_cannot_run_leaves_no_worktree() {
    if !docker_is_there() {
        return;
    }
    let world = repository();
    let main = world.folder();
    world.run(["up", "--git", "nothing-of-that-name"]).exits(3).says("git knows no commit `nothing-of-that-name`: ");
    world.run_in(world.root(), ["up", "--git", "HEAD"]).exits(3).says("is in no git repository");
    world.run(["up", "--git", "HEAD", "--beside"]).exits(2);
    // A commit whose stack is wrong, and one without a stack.
    world.write("compose.yaml", "services: {web: {nonsense: 1}}\n");
    commit(&main, "wrong");
    world.run(["up", "--git", "HEAD"]).exits(2).says("nonsense");
    git(&main, &["rm", "-q", "compose.yaml"]);
    commit(&main, "without");
    world.run(["up", "--git", "HEAD"]).exits(3).says("has no stack in `.`");
    assert_eq!(worktrees(&main), Vec::<String>::new());
    assert_eq!(files_below(&world.home().join("worktrees")), Vec::<std::path::PathBuf>::new());

    // A branch that moves on to what does not run stays at the commit that does, code and all.
    // It publishes nothing: a port that is free for a moment may be taken by another test's store.
    let good = COMPOSE
        .replace("    ports: [\"8080\"]\n", "")
        .replace("\"/www\"]", "\"/www\"]\n    healthcheck: {test: [CMD, test, -f, /www/index.html], interval: 200ms}");
    world.write("compose.yaml", &good);
    world.write("www/index.html", "good\n");
    commit(&main, "good");
    git(&main, &["branch", "next"]);
    world.run(["up", "--git", "next"]).ok();
    world.write("compose.yaml", &good.replace("[\"httpd\", \"-f\"", "[\"false\", \"-f\""));
    world.write("www/index.html", "bad\n");
    commit(&main, "bad");
    git(&main, &["branch", "-f", "next"]);
    let ran = world.run(["up", "--git", "next"]).exits(7);
    assert!(ran.stderr.contains("runs r"), "{}", ran.stderr);
    assert_eq!(inside(&world, "next", &["cat", "/www/index.html"]), "good");
    // The folder was deleted by hand: it is made again.
    let folder = std::path::PathBuf::from(listed(&world, &main, "next")["folder"].as_str().unwrap());
    std::fs::remove_dir_all(&folder).unwrap();
    git(&main, &["branch", "-f", "next", "HEAD~1"]);
    world.run(["up", "--git", "next"]).ok();
    assert_eq!(inside(&world, "next", &["cat", "/www/index.html"]), "good");
    std::fs::remove_dir_all(&folder).unwrap();
    world.run(["rm", "next", "--volumes"]).ok();
    assert_eq!(worktrees(&main), Vec::<String>::new());
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

#[test]
fn two_at_once_make_one_worktree() {
    if !docker_is_there() {
        return;
    }
    let world = repository();
    git(&world.folder(), &["tag", "v1"]);
    let start = || world.command(["up", "--git", "v1"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let both = [start(), start(), start()].map(|child| child.wait_with_output().unwrap());
    for output in &both {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(worktrees(&world.folder()).len(), 1);
    let all = world.run(["ls", "--json"]).ok().json();
    assert_eq!(all["instances"].as_array().unwrap().len(), 1, "{all:#}");
    world.run(["rm", "v1", "--volumes"]).ok();
    assert_eq!(worktrees(&world.folder()), Vec::<String>::new());
}
