//! Commands that look at what runs.

use std::time::Duration;

use clap::Args;
use sidestack_runtime::api::TargetWords;

use super::value;

/// The instance that a command looks at.
#[derive(Debug, Clone, Args)]
pub(crate) struct At {
    /// The instance; this checkout's when not given
    #[arg(value_name = "TARGET", value_parser = value::target)]
    pub(crate) target: Option<TargetWords>,
}

/// The same where positions are taken by services.
#[derive(Debug, Clone, Args)]
pub(crate) struct Inside {
    /// The instance; this checkout's when not given
    #[arg(short = 'i', long, visible_alias = "instance", value_name = "TARGET", value_parser = value::target)]
    pub(crate) target: Option<TargetWords>,
}

/// `ls`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Of every workspace on this machine
    #[arg(short, long)]
    pub(crate) all: bool,
}

/// `describe`.
#[derive(Debug, Args)]
pub(crate) struct Describe {
    #[command(flatten)]
    pub(crate) at: At,
    /// Measure volumes, which takes Docker a while
    #[arg(long)]
    pub(crate) sizes: bool,
}

/// `why`.
#[derive(Debug, Args)]
pub(crate) struct Why {
    #[command(flatten)]
    pub(crate) at: At,
}

/// `history`.
#[derive(Debug, Args)]
pub(crate) struct History {
    #[command(flatten)]
    pub(crate) at: At,
}

/// `show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The revision (`@r3`), or an instance for the one that it is at
    #[arg(value_name = "@rN", value_parser = value::target)]
    pub(crate) target: Option<TargetWords>,
}

/// `diff`.
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// A revision (`@r1`) or an instance
    #[arg(value_parser = value::target)]
    pub(crate) a: TargetWords,
    /// Another one
    #[arg(value_parser = value::target)]
    pub(crate) b: TargetWords,
}

/// `logs`.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// The services; all when none is named. One alone is printed without its name in front
    #[arg(value_name = "SERVICE")]
    pub(crate) services: Vec<String>,
    #[command(flatten)]
    pub(crate) inside: Inside,
    /// Go on with what comes
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only lines not older than this, such as 10m
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    pub(crate) since: Option<Duration>,
    /// Only the last lines of each service
    #[arg(short = 'n', long, value_name = "LINES")]
    pub(crate) tail: Option<u64>,
    /// With Docker's time in front of each line
    #[arg(short, long)]
    pub(crate) timestamps: bool,
}

/// `events`.
#[derive(Debug, Args)]
pub(crate) struct Events {
    #[command(flatten)]
    pub(crate) inside: Inside,
    /// Of every instance on this machine
    #[arg(short, long, conflicts_with = "target")]
    pub(crate) all: bool,
}

/// `exec`.
#[derive(Debug, Args)]
pub(crate) struct Exec {
    #[command(flatten)]
    pub(crate) inside: Inside,
    /// Run as this user
    #[arg(short, long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Run in this folder of the container
    #[arg(short, long, value_name = "DIR")]
    pub(crate) workdir: Option<String>,
    /// In which of the service's containers, counted from 1
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) index: u32,
    /// No terminal for the command, also when this is one
    #[arg(short = 'T', long)]
    pub(crate) no_tty: bool,
    /// The service
    pub(crate) service: String,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// `compose`.
#[derive(Debug, Args)]
pub(crate) struct Compose {
    #[command(flatten)]
    pub(crate) inside: Inside,
    /// The compose command, such as `ps`, and what belongs to it
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub(crate) args: Vec<String>,
}

/// `shell`.
#[derive(Debug, Args)]
pub(crate) struct Shell {
    #[command(flatten)]
    pub(crate) inside: Inside,
    /// Run as this user
    #[arg(short, long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// In which of the service's containers, counted from 1
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) index: u32,
    /// The service
    pub(crate) service: String,
}

/// `open`.
#[derive(Debug, Args)]
pub(crate) struct Open {
    #[command(flatten)]
    pub(crate) inside: Inside,
    /// The service
    pub(crate) service: String,
}

/// `wait`.
#[derive(Debug, Args)]
pub(crate) struct Wait {
    #[command(flatten)]
    pub(crate) at: At,
    /// The same, as other commands have it
    #[arg(short = 'i', long = "instance", value_name = "TARGET", value_parser = value::target, conflicts_with = "target")]
    pub(crate) instance: Option<TargetWords>,
}
