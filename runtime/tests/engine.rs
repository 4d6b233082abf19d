//! [`DockerEngine`] against a real daemon.
//!
//! Without one these tests say that they are skipped. They make their own image from a static
//! busybox or take `busybox:stable`; where neither is there, they are skipped too. Everything they
//! make bears a name and a label of its own and is removed, also when a test fails.

#![cfg(unix)]
#![expect(clippy::print_stderr, reason = "a skipped test says so, and measurements are shown")]

use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use sidestack_runtime::engine::archive::{FileEntry, tar};
use sidestack_runtime::engine::{
    DockerEngine, Engine, EngineError, EventKind, ExecRequest, Health, LogRequest, LogSide, Status,
};

const IMAGE: &str = "busybox:stable";

fn host() -> String {
    std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned())
}

/// What a test made, to be removed at its end.
struct Bench {
    engine: DockerEngine,
    key: String,
}

impl Bench {
    /// `None` (and a word about it) where the test cannot run.
    async fn new(test: &str) -> Option<Self> {
        let engine = DockerEngine::connect(&host()).expect("a valid endpoint");
        if let Err(error) = engine.daemon().await {
            eprintln!("skipped {test}: no Docker answers ({error})");
            return None;
        }
        if engine.image(IMAGE).await.expect("an answer").is_none() {
            eprintln!("skipped {test}: no image `{IMAGE}` here");
            return None;
        }
        let key = format!("sidestack-engine-test-{}-{test}", std::process::id());
        Some(Self { engine, key })
    }

    fn label(&self) -> String {
        format!("sidestack.engine-test={}", self.key)
    }

    /// The docker CLI makes what the engine trait has no call for.
    fn docker(&self, args: &[&str]) -> String {
        let output = Command::new("docker").args(["-H", &host()]).args(args).output().expect("the docker CLI");
        assert!(output.status.success(), "docker {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// A container that is made but not started.
    fn container(&self, name: &str, options: &[&str], command: &[&str]) -> String {
        let label = self.label();
        let name = format!("{}-{name}", self.key);
        let mut args = vec!["create", "--name", &name, "--label", &label];
        args.extend(options);
        args.push(IMAGE);
        args.extend(command);
        self.docker(&args)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let filter = format!("label={}", self.label());
        let list = |what: &[&str]| {
            let output = Command::new("docker").args(["-H", &host()]).args(what).args(["--filter", &filter]).output();
            let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
            text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        for (find, remove) in [
            (vec!["ps", "-aq"], vec!["rm", "-fv"]),
            (vec!["network", "ls", "-q"], vec!["network", "rm"]),
            (vec!["volume", "ls", "-q"], vec!["volume", "rm"]),
        ] {
            let found = list(&find);
            if !found.is_empty() {
                let _ = Command::new("docker").args(["-H", &host()]).args(remove).args(found).output();
            }
        }
    }
}

fn ms(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1000.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[tokio::test(flavor = "current_thread")]
async fn a_container_lives_and_every_step_is_seen() {
    let Some(bench) = Bench::new("life").await else {
        return;
    };
    let engine = &bench.engine;
    let id = bench.container(
        "web",
        &[
            "--label",
            "com.docker.compose.service=web",
            "--label",
            "com.docker.compose.project=p",
            "--restart",
            "on-failure:3",
            "-e",
            "A=1",
        ],
        &["sh", "-c", "trap 'exit 0' TERM; cat /run/secrets/one; sleep 300 & wait"],
    );

    let mut events = engine.subscribe(&bench.label()).await.expect("a subscription");
    let list = engine.containers(&bench.label()).await.expect("a list");
    assert_eq!(list.len(), 1);
    assert_eq!((list[0].id.as_str(), list[0].status), (id.as_str(), Status::Created));
    assert_eq!((list[0].service.as_deref(), list[0].project.as_deref()), (Some("web"), Some("p")));

    let secret =
        FileEntry { path: "/run/secrets/one".into(), mode: 0o440, uid: 12, gid: 34, content: b"hunter2\n".to_vec() };
    engine.put_archive(&id, "/", tar(&[secret]).expect("an archive")).await.expect("a delivery");

    let begun = Instant::now();
    engine.start(&id).await.expect("a start");
    let started = ms(begun);
    engine.start(&id).await.expect("a second start is a success");
    let event = events.next().await.expect("an event").expect("no error");
    let seen = ms(begun);
    assert_eq!(
        (event.kind, event.container.as_str(), event.service.as_deref()),
        (EventKind::Start, id.as_str(), Some("web"))
    );
    eprintln!("measured: start {started:.1} ms, its event seen {seen:.1} ms after the call began");

    let detail = engine.inspect(&id).await.expect("a detail");
    assert_eq!(
        (detail.status, detail.health, detail.restart_policy.as_str()),
        (Status::Running, Health::None, "on-failure:3")
    );
    assert!(detail.env.contains(&"A=1".to_owned()) && detail.health_check.is_none() && !detail.tty);
    engine.set_restart_policy(&id, "no").await.expect("an update");
    assert_eq!(engine.inspect(&id).await.expect("a detail").restart_policy, "no");

    let owner = ExecRequest::new(["stat", "-c", "%a %u:%g", "/run/secrets/one"], Duration::from_secs(10));
    let outcome = engine.exec(&id, &owner).await.expect("an exec");
    assert_eq!((outcome.code, outcome.stdout.as_slice()), (0, b"440 12:34\n".as_slice()));

    engine.pause(&id).await.expect("a pause");
    assert_eq!(engine.containers(&bench.label()).await.expect("a list")[0].status, Status::Paused);
    engine.unpause(&id).await.expect("an end of the pause");
    let renamed = format!("{}-renamed", bench.key);
    engine.rename(&id, &renamed).await.expect("a new name");
    engine.stop(&id, Some(5)).await.expect("a stop");
    engine.stop(&id, None).await.expect("a second stop is a success");
    engine.kill(&id).await.expect("nothing to kill is a success");
    let list = engine.containers(&bench.label()).await.expect("a list");
    assert_eq!((list[0].status, list[0].name.as_str()), (Status::Exited(0), renamed.as_str()));
    engine.remove(&id, false, true).await.expect("a removal");
    engine.remove(&id, false, true).await.expect("gone is done");
    assert!(matches!(engine.inspect(&id).await, Err(EngineError::NotFound { .. })));
    assert!(matches!(engine.start(&id).await, Err(EngineError::NotFound { .. })));

    let mut kinds = Vec::new();
    while kinds.last() != Some(&EventKind::Destroy) {
        let event = tokio::time::timeout(Duration::from_secs(5), events.next()).await.expect("in time");
        kinds.push(event.expect("an event").expect("no error").kind);
    }
    // Docker tells a pause that is short twice: for the call, and again when containerd's own report comes after its end.
    while kinds.len() > 4 && kinds[..2] == kinds[2..4] {
        kinds.drain(..2);
    }
    assert_eq!(kinds, [EventKind::Pause, EventKind::Unpause, EventKind::Die { code: 0 }, EventKind::Destroy]);
}

/// As does a service that stands in the processes of another one, when that is stopped.
#[tokio::test(flavor = "current_thread")]
async fn the_restart_policy_of_a_container_that_just_ends_is_set() {
    let Some(bench) = Bench::new("ends").await else {
        return;
    };
    let engine = &bench.engine;
    let ids: Vec<String> =
        (0..6).map(|n| bench.container(&format!("n{n}"), &["--restart", "on-failure"], &["sleep", "1000"])).collect();
    for id in &ids {
        engine.start(id).await.expect("a start");
        let set = async {
            for round in 0..40 {
                let policy = if round % 2 == 0 { "no" } else { "on-failure" };
                engine.set_restart_policy(id, policy).await.expect("an update");
            }
            engine.set_restart_policy(id, "no").await.expect("an update");
        };
        let (killed, ()) = futures_util::join!(engine.kill(id), set);
        killed.expect("a kill");
        assert_eq!(engine.inspect(id).await.expect("a detail").restart_policy, "no");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn health_is_told_by_list_detail_and_events() {
    let Some(bench) = Bench::new("health").await else {
        return;
    };
    let engine = &bench.engine;
    let options = [
        "--health-cmd",
        "echo probed; test -e /ok",
        "--health-interval",
        "300ms",
        "--health-retries",
        "2",
        "--health-timeout",
        "2s",
    ];
    let id = bench.container("h", &options, &["sleep", "300"]);
    let mut events = engine.subscribe(&bench.label()).await.expect("a subscription");
    engine.start(&id).await.expect("a start");
    assert_eq!(engine.containers(&bench.label()).await.expect("a list")[0].health, Health::Starting);
    let mut next_health = async || loop {
        let event = tokio::time::timeout(Duration::from_secs(10), events.next()).await.expect("in time");
        if let EventKind::Health(health) = event.expect("an event").expect("no error").kind {
            return health;
        }
    };
    assert_eq!(next_health().await, Health::Unhealthy);
    let made = engine.exec(&id, &ExecRequest::new(["touch", "/ok"], Duration::from_secs(10))).await.expect("an exec");
    assert_eq!(made.code, 0);
    assert_eq!(next_health().await, Health::Healthy);
    assert_eq!(engine.containers(&bench.label()).await.expect("a list")[0].health, Health::Healthy);
    let detail = engine.inspect(&id).await.expect("a detail");
    assert_eq!(detail.health_log.as_deref(), Some("probed\n"));
    let check = detail.health_check.expect("a check");
    assert_eq!(check.test, ["CMD-SHELL", "echo probed; test -e /ok"]);
    assert_eq!((check.interval_ms, check.timeout_ms, check.start_period_ms, check.retries), (300, 2000, 0, 2));
}

#[tokio::test(flavor = "current_thread")]
async fn exec_feeds_limits_and_reports() {
    let Some(bench) = Bench::new("exec").await else {
        return;
    };
    let engine = &bench.engine;
    let id = bench.container("e", &[], &["sleep", "300"]);
    let limit = Duration::from_secs(20);
    assert!(matches!(engine.exec(&id, &ExecRequest::new(["true"], limit)).await, Err(EngineError::Conflict { .. })));
    engine.start(&id).await.expect("a start");

    let mut sum = ExecRequest::new(["sh", "-c", "cat | wc -c; echo $X >&2; pwd; id -u; exit 7"], limit);
    sum.stdin = Some(vec![b'x'; 1_000_000]);
    sum.env = vec!["X=y z".into()];
    sum.workdir = Some("/tmp".into());
    sum.user = Some("33".into());
    let outcome = engine.exec(&id, &sum).await.expect("an exec");
    assert_eq!(outcome.code, 7);
    assert_eq!(String::from_utf8_lossy(&outcome.stdout), "1000000\n/tmp\n33\n");
    assert_eq!(outcome.stderr, b"y z\n");

    let mut flood = ExecRequest::new(["sh", "-c", "cat; head -c 300000 /dev/zero"], limit);
    flood.stdin = Some(vec![b'x'; 300_000]);
    flood.max_output = 1000;
    let outcome = engine.exec(&id, &flood).await.expect("an exec");
    assert_eq!((outcome.code, outcome.stdout.len()), (0, 1000));

    match engine.exec(&id, &ExecRequest::new(["/no/such/program"], limit)).await {
        Ok(outcome) => assert!([126, 127].contains(&outcome.code), "{outcome:?}"),
        Err(error) => assert!(matches!(error, EngineError::Api { .. }), "{error}"),
    }
    let slow = engine.exec(&id, &ExecRequest::new(["sleep", "30"], Duration::from_millis(300))).await;
    assert!(matches!(slow, Err(EngineError::Hung { .. })), "{slow:?}");

    let mut times = Vec::new();
    for _ in 0..15 {
        let begun = Instant::now();
        engine.exec(&id, &ExecRequest::new(["true"], limit)).await.expect("an exec");
        times.push(ms(begun));
    }
    eprintln!("measured: exec of `true`, median of 15: {:.1} ms", median(times));
}

#[tokio::test(flavor = "current_thread")]
async fn logs_come_whole_and_their_end_is_true() {
    let Some(bench) = Bench::new("logs").await else {
        return;
    };
    let engine = &bench.engine;
    let script = "echo 'out | one'; echo err >&2; head -c 40000 /dev/zero | tr '\\0' x; echo; printf 'no end'";
    let id = bench.container("l", &[], &["sh", "-c", script]);
    let tty = bench.container("t", &["-t"], &["sh", "-c", "echo one; echo two; sleep 1"]);
    let never = engine.logs("sidestack-no-such-container", &LogRequest::default()).next().await;
    assert!(matches!(never, Some(Err(EngineError::NotFound { .. }))), "{never:?}");

    engine.start(&id).await.expect("a start");
    let follow = LogRequest { follow: true, timestamps: true, ..Default::default() };
    let mut lines = Vec::new();
    let mut stream = engine.logs(&id, &follow);
    while let Some(line) = stream.next().await {
        lines.push(line.expect("a line"));
    }
    let of = |side: LogSide| {
        lines.iter().filter(|line| line.stream == side).map(|line| line.bytes.clone()).collect::<Vec<_>>()
    };
    // A line without an end is written when the container ends; engine 20.10 may end the stream before it.
    let whole = [b"out | one".to_vec(), vec![b'x'; 40_000], b"no end".to_vec()];
    let followed = of(LogSide::Out);
    assert!(followed.len() >= 2 && whole.starts_with(&followed), "{} lines", followed.len());
    assert_eq!(of(LogSide::Err), [b"err".to_vec()]);
    assert!(lines.iter().all(|line| line.time.as_deref().is_some_and(|time| time.ends_with('Z'))), "{lines:?}");
    let again: Vec<_> = engine
        .logs(&id, &LogRequest::default())
        .map(|line| line.expect("a line"))
        .filter(|line| std::future::ready(line.stream == LogSide::Out))
        .collect()
        .await;
    assert!(again.iter().map(|line| &line.bytes).eq(whole.iter()), "{} lines", again.len());
    let last = LogRequest { tail: Some(1), ..Default::default() };
    let tail: Vec<_> = engine.logs(&id, &last).collect().await;
    assert_eq!(tail.len(), 1);

    engine.start(&tty).await.expect("a start");
    let lines: Vec<_> = engine.logs(&tty, &follow).map(|line| line.expect("a line").bytes).collect().await;
    assert_eq!(lines, [b"one".to_vec(), b"two".to_vec()]);
}

#[tokio::test(flavor = "current_thread")]
async fn a_taken_port_is_named_with_its_holder() {
    let Some(bench) = Bench::new("port").await else {
        return;
    };
    let engine = &bench.engine;
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = socket.local_addr().expect("an address").port();
    let publish = format!("127.0.0.1:{port}:80");
    let first = bench.container("a", &["-p", &publish], &["sleep", "300"]);
    let second = bench.container("b", &["-p", &publish], &["sleep", "300"]);
    match engine.start(&first).await {
        Err(EngineError::PortTaken { port: taken, holder, .. }) => {
            assert_eq!((taken, holder.as_str()), (Some(port), "another process"));
        }
        other => panic!("{other:?}"),
    }
    assert!(!engine.inspect(&first).await.expect("a detail").error.is_empty());
    drop(socket);
    engine.start(&first).await.expect("free now");
    match engine.start(&second).await {
        Err(EngineError::PortTaken { port: taken, holder, .. }) => {
            assert_eq!((taken, holder.as_str()), (Some(port), "another container"));
        }
        other => panic!("{other:?}"),
    }
    let holders = engine.published().await.expect("a list");
    let ours: Vec<_> = holders.iter().filter(|(published, ..)| published.host_port == port).collect();
    assert_eq!(ours.len(), 1);
    assert_eq!(ours[0].1, format!("{}-a", bench.key));
}

#[tokio::test(flavor = "current_thread")]
async fn networks_and_volumes_are_found_held_and_removed() {
    let Some(bench) = Bench::new("nets").await else {
        return;
    };
    let engine = &bench.engine;
    let (label, net, volume) = (bench.label(), format!("{}-net", bench.key), format!("{}-vol", bench.key));
    bench.docker(&["network", "create", "--label", &label, "--subnet", "10.231.77.0/28", &net]);
    bench.docker(&["volume", "create", "--label", &label, &volume]);
    let mount = format!("{volume}:/data");
    let id = bench.container(
        "n",
        &["--network", &net, "-v", &mount, "-v", "/anonymous"],
        &["sh", "-c", "echo hello > /data/x; sleep 300"],
    );

    let networks = engine.networks(Some(&label)).await.expect("a list");
    assert_eq!((networks.len(), networks[0].subnets.as_slice()), (1, ["10.231.77.0/28".to_owned()].as_slice()));
    let volumes = engine.volumes(Some(&label)).await.expect("a list");
    assert_eq!((volumes.len(), volumes[0].anonymous), (1, false));
    engine.start(&id).await.expect("a start");
    let row = engine.containers(&label).await.expect("a list").remove(0);
    assert_eq!(row.networks[&net], "10.231.77.2");
    assert_eq!(row.mounts.len(), 2);
    let anonymous = row.mounts.iter().find(|name| **name != volume).expect("the other one").clone();
    let all = engine.volumes(None).await.expect("a list");
    assert!(all.iter().any(|v| v.name == anonymous && v.anonymous));
    assert!(engine.volume_sizes().await.expect("sizes")[&volume] > 0);

    assert!(matches!(engine.remove_network(&networks[0].id).await, Err(EngineError::Conflict { .. })));
    assert!(matches!(engine.remove_volume(&volume).await, Err(EngineError::Conflict { .. })));
    assert!(matches!(engine.remove(&id, false, false).await, Err(EngineError::Conflict { .. })));
    // A network that goes away under a stopped container.
    engine.stop(&id, Some(0)).await.expect("a stop");
    engine.remove_network(&networks[0].id).await.expect("a removal");
    engine.remove_network(&networks[0].id).await.expect("gone is done");
    let start = engine.start(&id).await;
    assert!(matches!(start, Err(EngineError::NotConnected { .. })), "{start:?}");
    engine.remove(&id, true, true).await.expect("a removal");
    assert!(!engine.volumes(None).await.expect("a list").iter().any(|v| v.name == anonymous));
    engine.remove_volume(&volume).await.expect("a removal");
    engine.remove_volume(&volume).await.expect("gone is done");
}

#[tokio::test(flavor = "current_thread")]
async fn images_are_found_tagged_and_let_go() {
    let Some(bench) = Bench::new("image").await else {
        return;
    };
    let engine = &bench.engine;
    let found = engine.image(IMAGE).await.expect("an answer").expect("it is there");
    engine.tag(&found.id, &bench.key, "r1").await.expect("a tag");
    let name = format!("{}:r1", bench.key);
    assert_eq!(engine.image(&name).await.expect("an answer").expect("the tag").id, found.id);
    engine.remove_image(&name).await.expect("a removal");
    engine.remove_image(&name).await.expect("gone is done");
    assert_eq!(engine.image(&name).await.expect("an answer"), None);
    assert!(engine.image(IMAGE).await.expect("an answer").is_some());
    let missing = engine.tag("sidestack-no-such-image:1", &bench.key, "r2").await;
    assert!(matches!(missing, Err(EngineError::ImageMissing { .. })), "{missing:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn the_list_is_one_quick_call() {
    let Some(bench) = Bench::new("list").await else {
        return;
    };
    for n in 0..10 {
        bench.container(&format!("c{n}"), &[], &["true"]);
    }
    let mut times = Vec::new();
    for _ in 0..30 {
        let begun = Instant::now();
        assert_eq!(bench.engine.containers(&bench.label()).await.expect("a list").len(), 10);
        times.push(ms(begun));
    }
    let begun = Instant::now();
    let fresh = DockerEngine::connect(&host()).expect("an endpoint");
    fresh.containers(&bench.label()).await.expect("a list");
    eprintln!(
        "measured: list of 10, median of 30: {:.2} ms; with connecting and negotiating: {:.2} ms",
        median(times),
        ms(begun)
    );
}
