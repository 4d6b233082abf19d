//! `ls` of many instances against one list call to the same daemon.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use sidestack_tests::World;

use crate::measure::{Row, count, peak_mib, ratio, say, timed};
use crate::stack;

/// How many `up`s go on at once; Docker makes networks one after the other anyway.
const LANES: usize = 4;
const PAIRS: usize = 31;

pub(crate) fn run() -> Vec<Row> {
    let wanted = count("SIDESTACK_BENCH_INSTANCES", 100);
    let title = format!("`ls` with {wanted} instances against one list call");
    let Some(mut call) = list_call(None) else {
        return vec![Row::missing(&title, "Docker is not behind a socket here")];
    };
    if call.output().is_err() {
        return vec![Row::missing(&title, "curl is missing")];
    }
    let world = stack::world(stack::TINY);
    say(&format!("bringing up {wanted} instances of one container each"));
    timed(&mut world.command(["up", "--no-wait"]));
    let next = AtomicUsize::new(1);
    thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= wanted {
                        return;
                    }
                    timed(&mut world.command(["up", "--no-wait", "--new", &format!("i{number}")]));
                }
            });
        }
    });
    let rows = measure(&world, wanted, &title);
    say("removing them");
    rows
}

fn measure(world: &World, wanted: usize, title: &str) -> Vec<Row> {
    let label = world.label().unwrap_or_default();
    let Some(mut call) = list_call(label.strip_prefix("label=")) else { return Vec::new() };
    let mut list = world.command(["ls", "--all"]);
    let output = list.output().expect("ls starts");
    let shown = String::from_utf8_lossy(&output.stdout).matches("running").count();
    assert_eq!(shown, wanted, "ls does not show them all:\n{}", String::from_utf8_lossy(&output.stdout));
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        ours.push(timed(&mut list));
        theirs.push(timed(&mut call));
    }
    let (figure, detail) = ratio(&ours, &theirs);
    let peak = peak_mib(&mut list);
    let mut rows = vec![Row::at_most(title, figure, 2.0, "×", &detail)];
    if let Some(peak) = peak {
        rows.push(Row::at_most("peak memory of `ls`", peak, 40.0, " MiB", ""));
    }
    rows
}

/// curl with one `GET /containers/json`; `None` when Docker is elsewhere than behind a socket.
fn list_call(label: Option<&str>) -> Option<Command> {
    let host = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned());
    let socket = host.strip_prefix("unix://")?;
    let filters = format!(r#"{{"label":["{}"]}}"#, label.unwrap_or("no.such.label"));
    let mut command = Command::new("curl");
    command.args([
        "-sS",
        "--fail",
        "-o",
        "/dev/null",
        "--unix-socket",
        socket,
        "--get",
        "http://docker/v1.41/containers/json",
    ]);
    command.args(["--data-urlencode", "all=true", "--data-urlencode", &format!("filters={filters}")]);
    Some(command)
}
