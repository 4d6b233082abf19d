//! Compose files of others, each planned as two copies by the real program.
//!
//! Of every copy it is asked whether Compose accepts it, whether it shares with
//! the other what nobody agreed to share, and whether what was changed is exactly
//! what the report tells, both ways. What is refused must be so for a reason that
//! is named and true, and nothing may take longer than Compose itself by more
//! than [`MORE`].
//!
//! The files are those of `../shared/corpus` beside the repository, or of the
//! folder that `SIDESTACK_CORPUS` names: compose files, or folders of them with
//! what they need. The repository's own, `tests/fixtures/compose`, are run likewise.

mod copies;
mod model;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sidestack_tests::docker_is_there;

use copies::{Corpus, Outcome, Project};

/// How much longer than Compose's own reading a plan may take.
const MORE: Duration = Duration::from_millis(50);
/// How often both are run at most; the fastest run of each counts.
const RUNS: usize = 12;

#[test]
fn public_compose_files_in_two_copies() {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus");
    let folder = std::env::var_os("SIDESTACK_CORPUS").map_or(default, PathBuf::from);
    let projects = projects(&folder);
    if projects.is_empty() {
        say(&format!("skipped: there are no compose files in `{}`", folder.display()));
        return;
    }
    if !docker_is_there() {
        return;
    }
    let told = run(&projects);
    // Of those that Compose itself reads.
    let planned = told.values().filter(|outcome| matches!(outcome, Outcome::Planned { .. })).count();
    let read = told.values().filter(|outcome| !matches!(outcome, Outcome::Refused { by_compose: true, .. })).count();
    assert!(planned * 106 >= read * 101, "{planned} of {read} plan");
}

#[test]
fn nasty_compose_files_in_two_copies() {
    if !docker_is_there() {
        return;
    }
    let projects = projects(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/compose"));
    assert!(projects.len() >= 30, "the fixtures are missing");
    let told = run(&projects);
    for (name, outcome) in &told {
        let expected = name.starts_with("refused-");
        let refused = matches!(outcome, Outcome::Refused { .. });
        // What only a newer Compose reads is refused by an older one.
        let by_compose = matches!(outcome, Outcome::Refused { by_compose: true, .. });
        assert!(refused == expected || (by_compose && name.starts_with("newer-")), "{name}: {outcome:?}");
    }
}

/// The projects of a folder: compose files, and folders that have one.
fn projects(folder: &Path) -> Vec<Project> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut projects = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_yaml = |path: &Path| path.extension().is_some_and(|end| end == "yaml" || end == "yml");
        let has_yaml = || fs::read_dir(&path).unwrap().any(|entry| is_yaml(&entry.unwrap().path()));
        if (path.is_file() && is_yaml(&path)) || (path.is_dir() && has_yaml()) {
            projects.push(Project { name, path });
        }
    }
    projects.sort_by(|a, b| a.name.cmp(&b.name));
    projects
}

/// Plans all, prints the table, and fails with everything that was wrong.
fn run(projects: &[Project]) -> BTreeMap<String, Outcome> {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let corpus = Corpus::new(projects);
    let (next, told) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from).min(8) {
            scope.spawn(|| {
                while let Some(project) = projects.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = corpus.two_copies(project);
                    told.lock().unwrap().insert(project.name.clone(), outcome);
                }
            });
        }
    });
    let mut told = told.into_inner().unwrap();
    // Alone, so that nothing but the two is measured.
    let mut slowest: Option<(Duration, Duration, &str)> = None;
    for project in projects {
        let (plan, config) = corpus.fastest(project, MORE, RUNS);
        if slowest.is_none_or(|(p, c, _)| plan.saturating_sub(config) > p.saturating_sub(c)) {
            slowest = Some((plan, config, &project.name));
        }
        if plan > config + MORE
            && let Some(Outcome::Planned { wrong, .. } | Outcome::Refused { wrong, .. }) = told.get_mut(&project.name)
        {
            wrong.push(format!("planning takes {plan:.0?}, Compose {config:.0?}"));
        }
    }
    say(&table(&told, slowest));
    let wrong: Vec<String> = told
        .iter()
        .flat_map(|(name, outcome)| outcome.wrong().iter().map(move |wrong| format!("{name}: {wrong}")))
        .collect();
    assert!(wrong.is_empty(), "{} faults:\n{}", wrong.len(), wrong.join("\n"));
    told
}

/// How many planned, what was changed in how many, and who was refused why.
fn table(told: &BTreeMap<String, Outcome>, slowest: Option<(Duration, Duration, &str)>) -> String {
    let mut out = String::new();
    let mut rules: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let (mut planned, mut shared, mut refused) = (0, 0, Vec::new());
    for (name, outcome) in told {
        match outcome {
            Outcome::Planned { rules: own, shared: items, .. } => {
                planned += 1;
                shared += usize::from(*items > 0);
                for (rule, count) in own {
                    let (files, entries) = rules.entry(rule).or_default();
                    *files += 1;
                    *entries += count;
                }
            }
            Outcome::Refused { code, message, by_compose, .. } => {
                refused.push(format!("  {}{name}: {code}: {message}", if *by_compose { "(by Compose) " } else { "" }));
            }
        }
    }
    let _ = writeln!(out, "{} compose files: {planned} planned in two copies, {} refused", told.len(), refused.len());
    let _ = writeln!(out, "{shared} would share something, and say so");
    let _ = writeln!(out, "{:<22} {:>6} {:>8}", "rule", "files", "entries");
    for (rule, (files, entries)) in rules {
        let _ = writeln!(out, "{rule:<22} {files:>6} {entries:>8}");
    }
    for line in refused {
        let _ = writeln!(out, "{line}");
    }
    if let Some((plan, config, name)) = slowest {
        let _ = writeln!(out, "slowest against Compose: {name}: plan {plan:.0?}, config {config:.0?}");
    }
    out
}

/// Past the harness, which keeps the output of tests that pass.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
