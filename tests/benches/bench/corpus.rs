//! `plan` of somebody else's compose files against Compose's own reading of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sidestack_tests::World;

use crate::measure::{Row, count, median, milliseconds, say};

/// How much longer than Compose itself planning may take.
const MORE: f64 = 50.0;

pub(crate) fn run() -> Vec<Row> {
    let what = "`plan` of a public compose file, over `docker compose config`";
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus");
    let folder = std::env::var_os("SIDESTACK_CORPUS").map_or(beside, PathBuf::from);
    let files = files(&folder);
    if files.is_empty() {
        return vec![Row::missing(what, &format!("there are none in {}", folder.display()))];
    }
    say(&format!("planning {} compose files", files.len()));
    let world = World::new();
    let pairs = count("SIDESTACK_BENCH_PAIRS", 5);
    let mut all: Vec<(Duration, Duration, String)> = Vec::new();
    for file in &files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let folder = world.root().join("corpus").join(&name);
        fs::create_dir_all(&folder).expect("a folder for the file");
        fs::copy(file, folder.join("compose.yaml")).expect("the file is copied");
        let (mut plan, mut config) = (Duration::MAX, Duration::MAX);
        for _ in 0..pairs {
            plan = plan.min(took(world.command(["plan", "--json"]).current_dir(&folder)));
            let mut compose = Command::new("docker");
            config = config.min(took(compose.args(["compose", "config", "--format", "json"]).current_dir(&folder)));
        }
        all.push((plan, config, name));
    }
    let over = |(plan, config, _): &(Duration, Duration, String)| milliseconds(*plan) - milliseconds(*config);
    all.sort_by(|a, b| over(a).total_cmp(&over(b)));
    let Some(worst) = all.last() else { return Vec::new() };
    let (plans, configs) = (all.iter().map(|one| one.0).collect(), all.iter().map(|one| one.1).collect());
    let detail = format!(
        "{}: {:.0} ms against {:.0} ms; the middle one {:.0} ms against {:.0} ms",
        worst.2,
        milliseconds(worst.0),
        milliseconds(worst.1),
        milliseconds(median(plans)),
        milliseconds(median(configs)),
    );
    vec![Row::at_most(&format!("{what}, the slowest of {}", all.len()), over(worst), MORE, " ms", &detail)]
}

/// A refused file takes its time too.
fn took(command: &mut Command) -> Duration {
    let began = Instant::now();
    command.stdin(Stdio::null()).output().expect("the command starts");
    began.elapsed()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let yaml = |path: &PathBuf| path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    let mut files: Vec<PathBuf> = entries.filter(yaml).collect();
    files.sort();
    files
}
