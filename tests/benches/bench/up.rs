//! `up` against `docker compose up -d --wait` of the same file.

use std::fs::{self, File, FileTimes};
use std::process::Command;
use std::time::Duration;

use sidestack_tests::{World, docker};

use crate::measure::{Row, count, peak_mib, ratio, say, timed};
use crate::stack;

/// The same file under Compose alone.
struct Compose<'a> {
    world: &'a World,
    project: String,
}

impl Compose<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command.args(["compose", "-p", &self.project]).args(args).current_dir(self.world.folder());
        command
    }

    fn up(&self) -> Command {
        self.command(&["up", "-d", "--wait"])
    }

    fn down(&self) {
        timed(&mut self.command(&["down", "-v", "-t", "0"]));
    }
}

impl Drop for Compose<'_> {
    fn drop(&mut self) {
        // Also after a panic; what is gone already is no harm.
        let _ = self.command(&["down", "-v", "-t", "0"]).output();
    }
}

pub(crate) fn run() -> Vec<Row> {
    docker(&["image", "inspect", "busybox:stable"]).ok();
    let pairs = count("SIDESTACK_BENCH_PAIRS", 5);
    let world = stack::world(&stack::chain(0));
    let compose = Compose { world: &world, project: format!("{}-plain", world.workspace) };
    let mut rows = first(&world, &compose, pairs);
    rows.extend(unchanged(&world, &compose, 3 * pairs));
    rows.extend(not_unchanged(&world));
    rows
}

/// First `up` of a chain of three. Each pair has a revision that was never seen
/// and an instance that was removed with its data before.
fn first(world: &World, compose: &Compose<'_>, pairs: usize) -> Vec<Row> {
    let project = world.project("main");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut peak = None;
    for round in 0..=pairs {
        world.write("compose.yaml", &stack::chain(round));
        let mut up = world.command(["up"]);
        let mut run_ours = || {
            if round == 0 {
                peak = peak_mib(&mut up);
            } else {
                ours.push(timed(&mut up));
            }
            stack::check_order(&project);
            timed(&mut world.command(["rm", "--volumes", "-y"]));
        };
        let run_theirs = || {
            let took = timed(&mut compose.up());
            stack::check_order(&compose.project);
            compose.down();
            took
        };
        // The first round warms both up; the order alternates, since the second of a pair finds warm caches.
        if round == 0 {
            run_ours();
            run_theirs();
            continue;
        }
        if round % 2 == 0 {
            run_ours();
            theirs.push(run_theirs());
        } else {
            theirs.push(run_theirs());
            run_ours();
        }
        let last = |times: &[Duration]| times.last().copied().unwrap_or_default();
        say(&format!("first up, pair {round}: {:?} against {:?}", last(&ours), last(&theirs)));
    }
    let (figure, detail) = ratio(&ours, &theirs);
    vec![
        Row::at_most("first `up`, chain of 3, against `compose up -d --wait`", figure, 0.28, "×", &detail),
        memory("peak memory of `up`", peak),
    ]
}

fn memory(what: &str, peak: Option<f64>) -> Row {
    match peak {
        Some(peak) => Row::at_most(what, peak, 40.0, " MiB", ""),
        None => Row::missing(what, "this system has no /proc"),
    }
}

/// `up` of what runs already.
fn unchanged(world: &World, compose: &Compose<'_>, pairs: usize) -> Vec<Row> {
    timed(&mut world.command(["up"]));
    timed(&mut compose.up());
    let before = (stack::containers(&world.project("main")), stack::containers(&compose.project));
    let mut up = world.command(["up"]);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    timed(&mut up);
    for _ in 0..pairs {
        ours.push(timed(&mut up));
        theirs.push(timed(&mut compose.up()));
    }
    let after = (stack::containers(&world.project("main")), stack::containers(&compose.project));
    assert_eq!(before, after, "an unchanged `up` made new containers");
    let peak = peak_mib(&mut up);
    compose.down();
    let (figure, detail) = ratio(&ours, &theirs);
    vec![
        Row::at_most("unchanged `up` against the same", figure, 0.03, "×", &detail),
        memory("peak memory of an unchanged `up`", peak),
    ]
}

/// What must not pass for unchanged.
fn not_unchanged(world: &World) -> Vec<Row> {
    let project = world.project("main");
    let mut rows = Vec::new();
    let file = world.folder().join("compose.yaml");

    let before = fs::metadata(&file).and_then(|meta| meta.modified()).expect("the file has a time");
    let text = fs::read_to_string(&file).expect("the file is there");
    fs::write(&file, text.replace("EDITED: one", "EDITED: two")).expect("the file is written");
    let times = FileTimes::new().set_modified(before);
    File::options().write(true).open(&file).and_then(|file| file.set_times(times)).expect("the time is set");
    timed(&mut world.command(["up"]));
    let seen = stack::variable(&project, "a", "EDITED");
    rows.push(Row::holds(
        "seen: an edit of the same size with the old time",
        seen.as_deref() == Some("two"),
        &format!("EDITED is {seen:?}"),
    ));

    let killed = stack::containers(&project).remove("b").expect("`b` is there");
    docker(&["kill", &killed]).ok();
    timed(&mut world.command(["up"]));
    let runs = stack::runs(&project, "b");
    rows.push(Row::holds(
        "seen: a container that was killed",
        runs,
        if runs { "it runs again" } else { "it does not run" },
    ));

    world.write("compose.override.yaml", "services:\n  c:\n    environment:\n      OVERRIDDEN: \"yes\"\n");
    timed(&mut world.command(["up"]));
    let seen = stack::variable(&project, "c", "OVERRIDDEN");
    rows.push(Row::holds(
        "seen: a new override file",
        seen.as_deref() == Some("yes"),
        &format!("OVERRIDDEN is {seen:?}"),
    ));

    timed(world.command(["up"]).env("BENCH_VALUE", "other"));
    let seen = stack::variable(&project, "a", "FROM_SHELL");
    rows.push(Row::holds(
        "seen: another value in the shell",
        seen.as_deref() == Some("other"),
        &format!("FROM_SHELL is {seen:?}"),
    ));
    rows
}
