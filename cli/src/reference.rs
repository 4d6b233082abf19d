//! Pages that are generated and checked in; `UPDATE_REFERENCE=1` rewrites them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};

use crate::args::Cli;
use crate::errors::EXIT_CODES;
use crate::json::schemas;

/// Variables of the person's environment that the command reads itself.
const ENVIRONMENT: [(&str, &str); 16] = [
    ("COLIMA_HOME", "Where Colima keeps its socket."),
    ("COMPOSE_FILE", "Compose files of a stack that names none, as for Compose."),
    ("COMPOSE_PATH_SEPARATOR", "What stands between the files in `COMPOSE_FILE`."),
    ("COMPOSE_PROFILES", "Profiles to switch on, as for Compose."),
    ("DOCKER_CONFIG", "The folder of the Docker CLI's configuration, for contexts and plug-ins."),
    ("DOCKER_CONTEXT", "The Docker context, when neither `--context` nor `DOCKER_HOST` says otherwise."),
    ("DOCKER_HOST", "Where Docker is, when there is no `--context`."),
    ("DOCKER_TLS", "Whether `DOCKER_HOST` is asked over TLS, which is refused for now."),
    ("DOCKER_TLS_VERIFY", "The same."),
    ("HOME", "The person's folder; paths under it are shown with `~`."),
    ("NO_COLOR", "When it is set and not empty, nothing is coloured."),
    ("PATH", "Where Compose, Git and a secret's command are looked for."),
    ("SIDESTACK_HOME", "The folder of the store, an absolute path; the platform's data folder when not given."),
    ("TERM", "`dumb` means neither colours nor lines that are redrawn."),
    ("XDG_DATA_HOME", "On Linux, the platform's data folder when it is not `~/.local/share`."),
    ("XDG_RUNTIME_DIR", "Where the socket of a rootless Docker is."),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference")
}

/// The checked-in page says the same, or is made to.
fn holds(name: &str, text: &str) {
    let path = folder().join(name);
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "docs/reference/{name} is not up to date; run the tests with UPDATE_REFERENCE=1");
}

#[test]
fn every_schema_is_checked_in() {
    let schemas = schemas();
    for (command, schema) in &schemas {
        holds(&format!("json/{command}.schema.json"), &format!("{}\n", serde_json::to_string_pretty(schema).unwrap()));
    }
    let there = std::fs::read_dir(folder().join("json")).unwrap().count();
    assert_eq!(there, schemas.len(), "docs/reference/json has files of no command");
}

#[test]
fn the_command_line_is_checked_in() {
    let mut page = "# The command line\n\n".to_owned();
    let mut root = Cli::command().term_width(100);
    root.build();
    section(&mut page, &mut root, 2);
    holds("cli.md", &page);
}

/// A command's help, and below it those of its own commands.
fn section(page: &mut String, command: &mut Command, level: usize) {
    let path = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let help = command.clone().term_width(100).render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = writeln!(page, "{} {path}\n\n```text\n{}\n```\n", "#".repeat(level), help.join("\n").trim_end());
    for one in command.get_subcommands_mut().filter(|one| one.get_name() != "help" && !one.is_hide_set()) {
        section(page, one, level + 1);
    }
}

#[test]
fn the_exit_codes_are_checked_in() {
    let mut page = "# Exit codes\n\n| code | what it says |\n| --- | --- |\n".to_owned();
    for (code, meaning) in EXIT_CODES {
        let _ = writeln!(page, "| {code} | {meaning} |");
    }
    page.push_str(
        "\n`exec` and `shell` pass their command's code through. A reader that closes the pipe early \
         (`sidestack ls | head -1`) is no error.\n",
    );
    holds("exit-codes.md", &page);
}

#[test]
fn the_environment_is_checked_in() {
    let mut page =
        "# Environment variables\n\nWhat the command itself reads. Values that a stack interpolates, or names \
                    as `env:NAME` secrets, are read too; none of them reaches Compose unless the stack says so.\n\n\
                    | variable | what it does |\n| --- | --- |\n"
            .to_owned();
    for (name, meaning) in ENVIRONMENT {
        let _ = writeln!(page, "| `{name}` | {meaning} |");
    }
    assert!(ENVIRONMENT.is_sorted());
    holds("environment.md", &page);
}
