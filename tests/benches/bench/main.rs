//! The numbers to hold, measured in one run on one machine: `make bench`.
//!
//! Times are compared as ratios, in alternating pairs, by their medians, since a
//! machine's own speed says nothing about Sidestack. The end is a table; a figure
//! that misses its goal never fails the run, but an effect that is missing does
//! (a changed file that passed for unchanged, a service that was started early).
//!
//! `cargo bench -p sidestack-tests [-- PART…]`: PART is one of `up`, `ls`, `plan`,
//! `lease`, `corpus`, `size`; all of them when none is named. `SIDESTACK_BENCH_PAIRS` and
//! `SIDESTACK_BENCH_INSTANCES` change how much is done. The release binary is
//! built first, unless `SIDESTACK_BIN` names one.

mod corpus;
mod listing;
mod measure;
mod parts;
mod stack;
mod up;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use measure::say;

const PARTS: [&str; 6] = ["up", "ls", "plan", "lease", "corpus", "size"];

fn main() {
    let mut words: BTreeSet<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if let Some(unknown) = words.iter().find(|word| !PARTS.contains(&word.as_str())) {
        say(&format!("`{unknown}` is no part; there are {}", PARTS.join(", ")));
        return;
    }
    if words.is_empty() {
        words = PARTS.iter().map(|&part| part.to_owned()).collect();
    }
    let wanted = |part: &str| words.contains(part);
    let Some(program) = program() else { return };
    let docker = ["up", "ls", "corpus"].into_iter().any(wanted) && sidestack_tests::docker_is_there();
    let mut rows = Vec::new();
    if docker && wanted("up") {
        rows.extend(up::run());
    }
    if docker && wanted("ls") {
        rows.extend(listing::run());
    }
    if wanted("plan") {
        rows.extend(parts::plan());
    }
    if wanted("lease") {
        rows.extend(parts::lease());
    }
    if docker && wanted("corpus") {
        rows.extend(corpus::run());
    }
    if wanted("size") {
        rows.extend(parts::size(&program));
    }
    let _ = std::io::stdout().write_all(measure::table(&rows).as_bytes());
}

/// The release binary, the one that every [`sidestack_tests::World`] takes; built when nobody names one.
fn program() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("SIDESTACK_BIN") {
        return Some(path.into());
    }
    say("building the release binary");
    let done = parts::cargo().args(["build", "--release", "--quiet", "-p", "sidestack"]).status();
    if !done.is_ok_and(|status| status.success()) {
        say("the release binary could not be built: nothing to measure");
        return None;
    }
    Some(sidestack_tests::program())
}
