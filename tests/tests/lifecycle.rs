//! The verbs that act, where something comes between: a second call, another daemon, a kill, a failure, Ctrl-C.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use serde_json::Value;
use sidestack_state::{Instance, Lease, Store};
use sidestack_tests::{
    Ran, Recorder, Running, WEB_AND_KEEPER, World, containers, docker, docker_is_there, git, http_get,
};

/// One service with data, in two volumes so that half of it can be gone.
const KEEPER: &str = r#"services:
  keeper:
    image: busybox:stable
    command: ["sleep", "1000000"]
    stop_grace_period: 0s
    volumes: ["first:/a", "second:/b"]
volumes: {first: {}, second: {}}
"#;

/// The longest that anything here is waited for; it is reached only by what fails.
const SOON: Duration = Duration::from_secs(60);

fn store(world: &World) -> Store {
    Store::open(&world.home()).unwrap()
}

fn all_instances(world: &World) -> Vec<Instance> {
    store(world).instances().unwrap()
}

#[track_caller]
fn instance(world: &World, name: &str) -> Instance {
    let found = all_instances(world).into_iter().find(|one| one.target.instance.as_str() == name);
    found.unwrap_or_else(|| panic!("there is no instance `{name}`"))
}

/// The verbs of what is begun and not finished, oldest first.
fn under_way(world: &World) -> Vec<String> {
    store(world).intents().unwrap().into_iter().map(|intent| intent.verb).collect()
}

/// The code of an error that was told as JSON.
#[track_caller]
fn code(ran: &Ran) -> String {
    let told: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    told["error"]["code"].as_str().unwrap_or_else(|| panic!("no error: {told}")).to_owned()
}

/// Writes into both volumes of a keeper.
#[track_caller]
fn write_data(world: &World, target: &str) {
    world.run(["exec", "-i", target, "keeper", "--", "sh", "-c", "echo kept | tee /a/file > /b/file"]).ok();
}

/// What a keeper has in its two volumes: how many of them have what was written.
#[track_caller]
fn data(world: &World, target: &str) -> usize {
    let ran = world.run(["exec", "-i", target, "keeper", "--", "sh", "-c", "cat /a/file /b/file; true"]).ok();
    ran.stdout.lines().filter(|line| *line == "kept").count()
}

/// The volumes of an instance that Docker has.
fn volumes(world: &World, name: &str) -> Vec<String> {
    let own = format!("volume {}_", world.project(name));
    world.leftovers().into_iter().filter_map(|left| Some(left.strip_prefix(&own)?.to_owned())).collect()
}

#[test]
fn new_without_a_name_is_one_more_for_each_who_asks() {
    if !docker_is_there() {
        return;
    }
    let world = World::with(&[("compose.yaml", KEEPER)]);
    let ups: Vec<Ran> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..6).map(|_| scope.spawn(|| world.run(["up", "--new", "--json"]))).collect();
        started.into_iter().map(|up| up.join().unwrap()).collect()
    });
    let ups: Vec<Value> = ups.into_iter().map(|up| up.ok().json()).collect();
    let names: BTreeSet<&str> = ups.iter().map(|up| up["instance"].as_str().unwrap()).collect();
    let slots: BTreeSet<u64> = ups.iter().map(|up| up["slot"].as_u64().unwrap()).collect();
    assert_eq!((names.len(), slots.len()), (6, 6), "{names:?} in {slots:?}");
    for (up, name) in ups.iter().zip(ups.iter().map(|up| up["instance"].as_str().unwrap())) {
        assert_eq!((&up["changed"], &up["revision"]), (&true.into(), &"r1".into()), "{name}");
        assert_eq!(containers(&world.project(name))["keeper"].status, "running", "{name}");
    }
    let listed = world.run(["ls", "--json"]).ok().json();
    assert_eq!(listed["instances"].as_array().unwrap().len(), 6, "{listed:#}");

    // One more stays one more, also when it is made anew: the folder's own is another.
    let chosen = *names.iter().next().unwrap();
    store(&world).begin_intent(instance(&world, chosen).id, "rm", "").unwrap();
    world.run(["up", chosen]).ok();
    assert_eq!(containers(&world.project(chosen))["keeper"].status, "running");
    assert_eq!(world.run(["up", "--json"]).ok().json()["instance"], "main");
}

#[test]
fn p21_another_daemon_is_refused_by_every_verb() {
    if !docker_is_there() {
        return;
    }
    let mut world = World::with(&[("compose.yaml", KEEPER)]);
    let Some(recorder) = Recorder::listen(&world.root().join("docker.sock")) else { return };
    world.run(["up"]).ok();
    write_data(&world, "main");
    for (name, verb) in [("stopped", "stop"), ("away", "down"), ("removed", "rm")] {
        world.run(["up", "--new", name]).ok();
        write_data(&world, name);
        world.run([verb, name]).ok();
    }
    // A reason to let go of its ports.
    let slot = instance(&world, "away").slot.unwrap().slot;
    let _holder = TcpListener::bind(("127.0.0.1", slot.first_port() + 50)).unwrap();
    let before = (all_instances(&world), containers(&world.project("main")), world.leftovers());
    world.env.insert("DOCKER_HOST".into(), recorder.host());
    recorder.is_another_daemon(&world);

    let verbs: &[&[&str]] = &[
        &["rm"],
        &["rm", "--volumes"],
        &["down"],
        &["down", "--volumes"],
        &["stop"],
        &["start"],
        &["restart"],
        &["up"],
        &["up", "--move-ports"],
    ];
    let refused = |words: &[&str]| {
        let ran = world.run([words, &["--json"]].concat()).exits(5);
        assert_eq!(code(&ran), "wrong-daemon", "{words:?}: {}", ran.stdout);
        assert_eq!(recorder.take_writes(), Vec::<String>::new(), "{words:?}");
    };
    for verb in verbs {
        for name in ["main", "stopped", "away"] {
            let words = match *verb {
                ["restart"] => vec!["restart", "-i", name],
                verb => [&verb[..1], &[name], &verb[1..]].concat(),
            };
            refused(&words);
        }
    }
    // The data of a removed instance lives there too.
    refused(&["rm", "removed", "--volumes"]);
    refused(&["up", "--new", "removed"]);
    assert_eq!(under_way(&world), Vec::<String>::new());
    // What was interrupted waits for the right one.
    store(&world).begin_intent(instance(&world, "main").id, "rm", "volumes").unwrap();
    for verb in verbs.iter().filter(|verb| verb[0] != "restart") {
        refused(&[verb, &["main"][..]].concat());
    }
    assert_eq!(under_way(&world), ["rm"]);
    for intent in store(&world).intents().unwrap() {
        store(&world).clear_intent(intent.id).unwrap();
    }
    let told = world.run(["stop"]).exits(5).says("lives on another Docker daemon");
    assert!(told.stderr.contains("--context"), "{}", told.stderr);

    recorder.is_the_daemon();
    assert_eq!(before, (all_instances(&world), containers(&world.project("main")), world.leftovers()));
    assert_eq!(data(&world, "main"), 2);
    world.run(["up", "--new", "removed"]).ok();
    assert_eq!(data(&world, "removed"), 2);
    world.run(["rm", "removed"]).ok();
    world.run(["rm", "removed", "--volumes"]).ok();
    assert_eq!(volumes(&world, "removed"), Vec::<String>::new());
    // Its ports are let go of where it lives.
    world.run(["up", "away", "--move-ports"]).ok();
    assert_ne!(instance(&world, "away").slot.map(|lease: Lease| lease.slot), Some(slot));

    // Nor is anything claimed for what would be started.
    world.run(["down"]).ok();
    world.write("compose.yaml", &KEEPER.replace("    stop_grace", "    ports: [\"18080:80\"]\n    stop_grace"));
    recorder.is_another_daemon(&world);
    recorder.take();
    refused(&["up"]);
    assert_eq!(store(&world).own_ports(instance(&world, "main").id).unwrap(), BTreeSet::new());
}

/// A world with an instance of its own for each round, and the way to stop a command in its middle.
struct Interrupted {
    world: World,
    recorder: Recorder,
}

impl Interrupted {
    fn new() -> Option<Self> {
        let mut world = World::with(&[("compose.yaml", KEEPER)]);
        let recorder = Recorder::listen(&world.root().join("docker.sock"))?;
        world.env.insert("DOCKER_HOST".into(), recorder.host());
        Some(Self { world, recorder })
    }

    fn up(&self, name: &str) {
        self.world.run(["up", "--new", name]).ok();
        write_data(&self.world, name);
    }

    /// Runs a command and kills it when it asks for this.
    #[track_caller]
    fn killed_at(&self, words: &[&str], request: &str) {
        self.killed_once(words, request, || true);
    }

    /// Runs a command, lets it ask for this without an answer, and kills it once something else holds.
    #[track_caller]
    fn killed_once(&self, words: &[&str], request: &str, also: impl Fn() -> bool) {
        self.recorder.hold(request);
        let command = self.world.start(words);
        self.recorder.holds(SOON);
        let until = Instant::now() + SOON;
        while !also() {
            assert!(Instant::now() < until, "{words:?} does not come to its middle");
            std::thread::sleep(Duration::from_millis(20));
        }
        command.kill_all();
        self.recorder.forget();
    }

    /// Kills a command when the first of the volumes is gone and the second one is not.
    #[track_caller]
    fn killed_with_half_of_the_data(&self, words: &[&str], name: &str) {
        let request = format!("volumes/{}_second", self.world.project(name));
        self.killed_once(words, &request, || volumes(&self.world, name) == ["second"]);
        let listed = self.world.run(["ls", "--json"]).ok().json();
        let rows = listed["instances"].as_array().unwrap();
        assert!(rows.iter().any(|row| row["instance"] == name), "{words:?}: nobody shows what is left: {listed:#}");
    }

    /// Nothing of an instance is there, with the exception of these volumes, and nothing is under way.
    #[track_caller]
    fn gone(&self, name: &str, left: &[&str]) {
        assert_eq!(containers(&self.world.project(name)).len(), 0, "{name}");
        assert_eq!(volumes(&self.world, name), left, "{name}");
        assert_eq!(under_way(&self.world), Vec::<String>::new(), "{name}");
        assert!(all_instances(&self.world).iter().all(|one| one.target.instance.as_str() != name), "{name}");
    }
}

#[test]
fn p09_an_interrupted_removal_of_data_is_finished_whatever_comes_next() {
    if !docker_is_there() {
        return;
    }
    let Some(it) = Interrupted::new() else { return };
    let world = &it.world;

    it.up("one");
    it.killed_with_half_of_the_data(&["rm", "one", "--volumes"], "one");
    world.run(["up", "one"]).ok().says("`rm` on").says("was interrupted");
    assert_eq!(data(world, "one"), 0, "half of the data was taken over");
    assert_eq!(under_way(world), Vec::<String>::new());

    // What is not told to take data takes it all the same: half of it is nobody's wish.
    write_data(world, "one");
    it.killed_with_half_of_the_data(&["rm", "one", "--volumes"], "one");
    world.run(["rm", "one"]).ok();
    it.gone("one", &[]);

    it.up("two");
    it.killed_with_half_of_the_data(&["rm", "two", "--volumes"], "two");
    let start = world.run(["start", "two", "--json"]).exits(3);
    assert_eq!(code(&start), "removal-finished");
    it.gone("two", &[]);

    it.up("three");
    it.killed_with_half_of_the_data(&["down", "three", "--volumes"], "three");
    world.run(["start", "three"]).ok().says("`down` on");
    assert_eq!(data(world, "three"), 0);
    write_data(world, "three");
    it.killed_with_half_of_the_data(&["down", "three", "-v"], "three");
    world.run(["stop", "three"]).ok();
    assert_eq!((containers(&world.project("three")).len(), volumes(world, "three")), (0, Vec::new()));
    assert_eq!(under_way(world), Vec::<String>::new());
    // It is still an instance, with its name and ports.
    assert_eq!(world.run(["up", "three", "--json"]).ok().json()["changed"], true);

    // Data that a removal had kept goes in the same way.
    write_data(world, "three");
    world.run(["rm", "three"]).ok();
    it.killed_with_half_of_the_data(&["rm", "three", "--volumes"], "three");
    world.run(["down", "three"]).ok();
    it.gone("three", &[]);
}

#[test]
fn p09_an_interrupted_removal_that_keeps_data_is_finished_and_keeps_it() {
    if !docker_is_there() {
        return;
    }
    let Some(it) = Interrupted::new() else { return };
    let world = &it.world;
    // Where the container goes.
    let middle = "DELETE /v1.41/containers/";

    it.up("one");
    it.killed_at(&["rm", "one"], middle);
    assert_eq!(under_way(world), ["rm"]);
    let start = world.run(["start", "one", "--json"]).exits(3);
    assert_eq!(code(&start), "removal-finished");
    it.gone("one", &["first", "second"]);
    world.run(["up", "--new", "one"]).ok().says("takes over");
    assert_eq!(data(world, "one"), 2);

    // A verb that is told so takes it, and one that is not says what stays.
    it.killed_at(&["rm", "one"], middle);
    let stop = world.run(["stop", "one"]).ok();
    assert!(stop.stderr.contains(&format!("{}_first", world.project("one"))), "{}", stop.stderr);
    it.gone("one", &["first", "second"]);
    world.run(["up", "--new", "one"]).ok();
    it.killed_at(&["rm", "one"], middle);
    world.run(["down", "one", "--volumes"]).ok();
    it.gone("one", &[]);

    // One more that was killed while it came up, then while it went.
    it.up("two");
    world.run(["stop", "two"]).ok();
    it.killed_at(&["up", "two"], "/start");
    it.killed_at(&["rm", "two"], middle);
    assert_eq!(under_way(world), ["up", "rm"]);
    world.run(["up", "two"]).ok().says("takes over");
    assert_eq!((data(world, "two"), under_way(world)), (2, Vec::new()));
    world.run(["stop", "two"]).ok();
    it.killed_at(&["up", "two"], "/start");
    it.killed_at(&["rm", "two", "--volumes"], middle);
    assert_eq!(under_way(world), ["up", "rm"]);
    world.run(["restart", "-i", "two"]).exits(3);
    it.gone("two", &[]);
}

/// Two at once: the second one finds nothing left, which is what it wanted.
#[test]
fn removals_at_once_are_removals_one_after_the_other() {
    if !docker_is_there() {
        return;
    }
    let Some(it) = Interrupted::new() else { return };
    let world = &it.world;
    it.up("one");
    it.recorder.hold("DELETE /v1.41/containers/");
    let first = world.start(["rm", "one"]);
    it.recorder.holds(SOON);
    let mut second = world.start(["rm", "one", "--volumes"]);
    second.says("waiting for", SOON);
    it.recorder.let_go();
    first.ends(SOON).ok();
    second.ends(SOON).ok();
    it.gone("one", &[]);
}

/// A world with a web server and data, which is moved from revision to revision.
struct Moving {
    world: World,
    address: String,
    _slot: TcpListener,
}

impl Moving {
    fn new() -> Self {
        let world = World::with(&[("compose.yaml", WEB_AND_KEEPER)]);
        world.run(["up"]).ok();
        world.run(["exec", "keeper", "--", "sh", "-c", "echo kept > /data/file"]).ok();
        let address = world.address("main", "web", 8080);
        let slot = world.keep_slot("main");
        Self { world, address, _slot: slot }
    }

    /// Another revision: the first one with this in the place of that.
    fn edit(&self, from: &str, to: &str) {
        assert!(WEB_AND_KEEPER.contains(from), "{from}");
        self.world.write("compose.yaml", &WEB_AND_KEEPER.replace(from, to));
    }

    /// It runs this revision, where it was and with the data that it had.
    #[track_caller]
    fn runs(&self, revision: &str) {
        let described = self.world.run(["describe", "--json"]).ok().json();
        assert_eq!((&described["revision"], &described["state"]), (&revision.into(), &"running".into()));
        assert_eq!(self.world.address("main", "web", 8080), self.address);
        // It has no health: that it runs does not say that it listens yet.
        let answers = || http_get(&self.address, "/").is_some();
        let waited = || std::thread::sleep(Duration::from_millis(100));
        assert!(
            answers()
                || (0..50).any(|_| {
                    waited();
                    answers()
                }),
            "{} does not answer at {revision}",
            self.address
        );
        assert_eq!(self.world.run(["exec", "keeper", "--", "cat", "/data/file"]).ok().stdout, "kept\n");
        assert_eq!(under_way(&self.world), Vec::<String>::new());
    }

    /// An `up` fails because of this, and the old revision runs again.
    #[track_caller]
    fn goes_back(&self, from: &str, to: &str, why: &str) {
        let failed = self.world.run(["up", "--json"]).exits(7);
        assert_eq!(code(&failed), "rolled-back", "{}", failed.stdout);
        let told: Value = serde_json::from_str(&failed.stdout).unwrap();
        let (message, hint) = (told["error"]["message"].as_str().unwrap(), told["error"]["hint"].as_str().unwrap());
        assert!(message.contains(&format!("moved to {to} and runs {from} again")), "{message}");
        assert!(message.contains(why), "`{why}` is not in {message}");
        assert!(hint.contains("--no-rollback"), "{hint}");
        self.runs(from);
    }
}

#[test]
fn a_move_that_docker_refuses_is_taken_back() {
    if !docker_is_there() {
        return;
    }
    let it = Moving::new();
    // Somebody listens where the new revision publishes.
    let first = it.address.parse::<SocketAddr>().unwrap().port() / 100 * 100;
    let holders: Vec<TcpListener> =
        (first..first + 100).filter_map(|port| TcpListener::bind(("127.0.0.1", port)).ok()).collect();
    it.edit("\"8080:8080\"", "\"8080:8080\", \"9090:9090\"");
    it.goes_back("r1", "r2", &format!("process {}", std::process::id()));
    drop(holders);
    it.world.run(["up"]).ok();
    it.runs("r2");

    // A container cannot be made, when the network has been made anew.
    let impossible = "  other: {image: \"busybox:stable\", cpus: 100000}\nvolumes: {data: {}}\n";
    let network = "networks: {default: {driver_opts: {com.docker.network.driver.mtu: \"1400\"}}}";
    it.edit("volumes: {data: {}}\n", &format!("{impossible}{network}\n"));
    it.goes_back("r2", "r3", "could not create");
    let name = format!("{}_default", it.world.project("main"));
    let mtu = ["network", "inspect", &name, "--format", "{{index .Options \"com.docker.network.driver.mtu\"}}"];
    assert_eq!(docker(&mtu).ok().stdout.trim(), "", "the old revision runs in the new one's network");
}

#[test]
fn a_move_to_what_is_unhealthy_is_taken_back_unless_told_otherwise() {
    if !docker_is_there() {
        return;
    }
    let it = Moving::new();
    let sick = "VERSION: \"1\"}\n    healthcheck: {test: [CMD, \"false\"], interval: 1s, retries: 1}";
    it.edit("VERSION: \"0\"}", sick);
    it.goes_back("r1", "r2", "unhealthy");
    let left = it.world.run(["up", "--no-rollback", "--json"]).exits(7);
    assert_eq!(code(&left), "service-failed");
    let described = it.world.run(["describe", "--json"]).ok().json();
    assert_eq!(described["revision"], "r2");
    assert_ne!(described["state"], "running");
    let web = &containers(&it.world.project("main"))["web"];
    assert_eq!((web.env["VERSION"].as_str(), web.status.as_str()), ("1", "running"), "it is there to be looked at");
    it.world.run(["up", "main@r1"]).ok();
    it.runs("r1");
}

/// Docker revives what has a policy also after a stop by hand, so it is taken away before one, and must come back.
#[test]
fn what_was_restarted_keeps_its_restart_policy() {
    if !docker_is_there() {
        return;
    }
    let text = KEEPER.replace("    stop_grace_period", "    restart: \"on-failure:3\"\n    stop_grace_period");
    let world = World::with(&[("compose.yaml", &text)]);
    let policy = || {
        let id = &containers(&world.project("main"))["keeper"].id;
        let format = "{{.HostConfig.RestartPolicy.Name}}:{{.HostConfig.RestartPolicy.MaximumRetryCount}}";
        docker(&["inspect", "--format", format, id]).ok().stdout.trim().to_owned()
    };
    for words in [&["up"][..], &["restart"], &["restart", "keeper"], &["stop"], &["start"], &["restart"], &["up"]] {
        world.run(words).ok();
        let stopped = words == ["stop"];
        assert_eq!(policy(), if stopped { "no:0" } else { "on-failure:3" }, "{words:?}");
    }
}

#[test]
fn ctrl_c_ends_the_wait_for_another_command() {
    if !docker_is_there() {
        return;
    }
    let mut world = World::with(&[("compose.yaml", KEEPER)]);
    let Some(recorder) = Recorder::listen(&world.root().join("docker.sock")) else { return };
    world.env.insert("DOCKER_HOST".into(), recorder.host());
    world.run(["up"]).ok();
    recorder.hold("/stop");
    let holder = world.start(["restart"]);
    recorder.holds(SOON);
    recorder.take();
    let before = (all_instances(&world), under_way(&world), world.leftovers());
    let verbs: [&[&str]; 9] = [
        &["up"],
        &["up", "--move-ports"],
        &["start"],
        &["restart"],
        &["stop"],
        &["down"],
        &["down", "--volumes"],
        &["rm"],
        &["rm", "--volumes"],
    ];
    let mut waiting: Vec<Running> = verbs.iter().map(|verb| world.start(*verb)).collect();
    for (verb, one) in verbs.iter().zip(&mut waiting) {
        one.says("waiting for `sidestack restart`", SOON);
        assert!(!one.has_ended(), "{verb:?} did not wait");
    }
    for (verb, one) in verbs.iter().zip(waiting) {
        one.interrupt();
        // Far from the two minutes that the lock is waited for.
        let ran = one.ends(Duration::from_secs(10)).exits(4);
        assert!(ran.stderr.contains("cancelled") && ran.stderr.contains("hint:"), "{verb:?}: {}", ran.stderr);
    }
    assert_eq!(recorder.take_writes(), Vec::<String>::new());
    assert_eq!(before, (all_instances(&world), under_way(&world), world.leftovers()));
    recorder.let_go();
    holder.ends(SOON).ok();
    assert_eq!(world.run(["up", "--json"]).ok().json()["changed"], false);
}

#[test]
fn a_worktree_without_an_instance_looks_at_no_other() {
    if !docker_is_there() {
        return;
    }
    let world = World::with(&[("compose.yaml", WEB_AND_KEEPER)]);
    let folder = world.folder();
    git(&folder, &["init", "-q"]);
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "-qm", "one"]);
    world.run(["up"]).ok();
    let beside = world.root().join("beside");
    git(&folder, &["worktree", "add", "-q", "-b", "prices", beside.to_str().unwrap()]);
    // Deeper inside it is the same checkout.
    let deeper = beside.join("src");
    std::fs::create_dir(&deeper).unwrap();
    let before = (all_instances(&world), containers(&world.project("main")), world.leftovers());
    let looks: [&[&str]; 19] = [
        &["describe"],
        &["describe", "--sizes"],
        &["why"],
        &["logs"],
        &["logs", "web"],
        &["logs", "-f"],
        &["events"],
        &["exec", "web", "--", "true"],
        &["shell", "web"],
        &["open", "web"],
        &["wait"],
        &["env"],
        &["env", "--explain"],
        &["set", "A=1"],
        &["unset", "A"],
        &["stop"],
        &["start"],
        &["restart"],
        &["down", "--volumes"],
    ];
    for verb in looks {
        let ran = world.run_in(&beside, verb).exits(3);
        let (workspace, said) = (&world.workspace, &ran.stderr);
        assert!(said.contains(&format!("this folder has no instance in `{workspace}/dev`")), "{verb:?}: {said}");
        assert!(said.contains("hint: `sidestack up` makes one"), "{verb:?}: {said}");
        let told = world.run_in(&deeper, [&["--json"], verb].concat()).exits(3);
        assert_eq!(code(&told), "not-found", "{verb:?}");
    }
    // To remove what is not there is nothing to do, and none of the other's.
    for verb in [&["rm"][..], &["rm", "--volumes"]] {
        let removed = world.run_in(&beside, [verb, &["--json"]].concat()).ok().json();
        let prices = format!("{}/dev/prices", world.workspace);
        assert_eq!((&removed["target"], &removed["changed"]), (&prices.into(), &false.into()), "{verb:?}");
    }
    assert_eq!(before, (all_instances(&world), containers(&world.project("main")), world.leftovers()));
    // By its name it can be looked at from there.
    assert_eq!(world.run_in(&beside, ["describe", "main", "--json"]).ok().json()["instance"], "main");
    assert_eq!(world.run_in(&beside, ["up", "--json"]).ok().json()["instance"], "prices");
    assert_eq!(world.run_in(&deeper, ["describe", "--json"]).ok().json()["instance"], "prices");
    // Its name stays when the branch changes, also for what a removal that was interrupted leaves to be done.
    git(&beside, &["switch", "-qc", "other"]);
    store(&world).begin_intent(instance(&world, "prices").id, "rm", "").unwrap();
    let removed = world.run_in(&beside, ["rm", "--volumes", "--json"]).ok().json();
    assert_eq!(removed["changed"], true);
    assert_eq!(volumes(&world, "prices"), Vec::<String>::new());
}
