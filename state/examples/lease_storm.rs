//! Many processes leasing and releasing slots of one store, and how long each call takes.
//!
//! `lease_storm PROCESSES ROUNDS [HOME]` runs `ROUNDS` rounds in all, spread evenly; a
//! round is one lease and one release, both writes. One process alone is
//! measured first, on the same store. A slot that is leased is claimed with a
//! file that must not be there yet, so a double lease shows without the store's
//! help. Ends with 1 when a goal is missed: no duplicate, no error, no call over
//! 2 s, and a p99 of at most 5 × PROCESSES × the uncontended median.
#![expect(clippy::print_stdout, reason = "its figures are its purpose")]

use std::collections::BTreeSet;
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use sidestack_state::{Store, StoreError};
use sidestack_topology::names::Slot;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What a run of several processes came to.
#[derive(Default)]
struct Tally {
    /// Every call's time, shortest first.
    calls: Vec<Duration>,
    duplicates: usize,
    locked: usize,
    errors: usize,
}

impl Tally {
    fn at(&self, share: f64) -> Duration {
        let last = self.calls.len().saturating_sub(1);
        let at = (last as f64 * share).round() as usize;
        self.calls.get(at).copied().unwrap_or_default()
    }
}

fn main() -> Outcome<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [part, home, number, rounds] if part == "child" => {
            child(Path::new(home), number.parse()?, rounds.parse()?)?;
            Ok(ExitCode::SUCCESS)
        }
        [processes, rounds] => storm(processes.parse()?, rounds.parse()?, None),
        [processes, rounds, home] => storm(processes.parse()?, rounds.parse()?, Some(Path::new(home))),
        _ => Err("usage: lease_storm PROCESSES ROUNDS [HOME]".into()),
    }
}

fn storm(processes: u32, rounds: u32, home: Option<&Path>) -> Outcome<ExitCode> {
    let root = home.map_or_else(tempfile::tempdir, tempfile::tempdir_in)?;
    let home = root.path().join("store");
    fs::create_dir(home.with_extension("claims"))?;
    let store = Store::open(&home)?;
    let environment = environment(&store)?;
    for number in 0..processes {
        store.create_instance(environment, &format!("i{number}").parse()?, None, false)?;
    }

    let alone = run(&home, 1, (rounds / 10).max(100))?;
    let begun = Instant::now();
    let together = run(&home, processes, rounds)?;
    let elapsed = begun.elapsed();
    store.verify()?;

    let median = alone.at(0.5);
    let goal = 5 * processes * median;
    let (p99, most) = (together.at(0.99), together.at(1.0));
    println!("alone:      {} calls, median {median:?}, p99 {:?}", alone.calls.len(), alone.at(0.99));
    println!("together:   {processes} processes, {} calls in {elapsed:?}", together.calls.len());
    println!("duplicates: {}", together.duplicates);
    println!("locked:     {} (\"database is locked\" or busy), other errors: {}", together.locked, together.errors);
    println!("median:     {:?}", together.at(0.5));
    println!("p99:        {p99:?} (goal: at most {goal:?}; {:.2} of it)", p99.as_secs_f64() / goal.as_secs_f64());
    println!("max:        {most:?} (goal: at most 2s)");
    let held = together.duplicates + together.locked + together.errors == 0
        && together.calls.len() as u64 >= 2 * u64::from(rounds)
        && p99 <= goal
        && most <= Duration::from_secs(2);
    println!("{}", if held { "all goals held" } else { "A GOAL WAS MISSED" });
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Starts the processes, lets them go when all are ready, and adds up what they report.
fn run(home: &Path, processes: u32, rounds: u32) -> Outcome<Tally> {
    let each = rounds.div_ceil(processes);
    let mut children = Vec::new();
    for number in 0..processes {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("child").arg(home).args([number.to_string(), each.to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        children.push((child, output));
    }
    for (_, output) in &mut children {
        let mut line = String::new();
        output.read_line(&mut line)?;
        if line.trim() != "ready" {
            return Err(format!("a child said `{line}`").into());
        }
    }
    for (child, _) in &mut children {
        release(child)?;
    }
    let mut tally = Tally::default();
    for (mut child, output) in children {
        for line in output.lines() {
            match line?.as_str() {
                "duplicate" => tally.duplicates += 1,
                "locked" => tally.locked += 1,
                "error" => tally.errors += 1,
                nanoseconds => tally.calls.push(Duration::from_nanos(nanoseconds.parse()?)),
            }
        }
        if !child.wait()?.success() {
            tally.errors += 1;
        }
    }
    tally.calls.sort_unstable();
    Ok(tally)
}

/// The end of its input is a child's signal to begin.
fn release(child: &mut Child) -> Outcome<()> {
    drop(child.stdin.take().ok_or("no input")?);
    Ok(())
}

fn child(home: &Path, number: u32, rounds: u32) -> Outcome<()> {
    let store = Store::open(home)?;
    let environment = environment(&store)?;
    let instance = store.instance(environment, &format!("i{number}").parse()?)?.ok_or("no instance")?;
    println!("ready");
    std::io::stdout().flush()?;
    let mut wait = String::new();
    std::io::stdin().read_line(&mut wait)?;

    // Written at the end, so that a full pipe does not hold anyone up.
    let mut report = Vec::new();
    for _ in 0..rounds {
        let Some(lease) = timed(&mut report, || store.lease_slot(instance.id, &BTreeSet::new(), "10.231")) else {
            continue;
        };
        let claim = claim_file(home, lease.slot);
        if File::options().write(true).create_new(true).open(&claim).is_err() {
            report.push("duplicate".to_owned());
        }
        fs::remove_file(&claim)?;
        timed(&mut report, || store.release_slot(instance.id));
    }
    let mut output = std::io::stdout().lock();
    for line in report {
        writeln!(output, "{line}")?;
    }
    Ok(())
}

fn timed<T>(report: &mut Vec<String>, call: impl FnOnce() -> Result<T, StoreError>) -> Option<T> {
    let begun = Instant::now();
    let done = call();
    report.push(begun.elapsed().as_nanos().to_string());
    match done {
        Ok(value) => Some(value),
        Err(StoreError::Busy { .. }) => {
            report.push("locked".to_owned());
            None
        }
        Err(_) => {
            report.push("error".to_owned());
            None
        }
    }
}

fn claim_file(home: &Path, slot: Slot) -> std::path::PathBuf {
    home.with_extension("claims").join(slot.to_string())
}

fn environment(store: &Store) -> Outcome<i64> {
    let workspace = store.ensure_workspace("storm", &"storm".parse()?)?;
    Ok(store.ensure_environment(workspace.id, &"dev".parse()?)?.id)
}
