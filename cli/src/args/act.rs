//! Commands that change what runs.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use sidestack_runtime::api::TargetWords;

use super::other::GraphKind;
use super::value;

/// What a stack is read from.
#[derive(Debug, Clone, Args)]
pub(crate) struct Source {
    /// Compose files in the place of those that would be found
    #[arg(short, long = "file", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Switch a Compose profile on
    #[arg(long = "profile", value_name = "PROFILE")]
    pub(crate) profiles: Vec<String>,
    /// Interpolate with the variables of this file in the place of `.env`; of several the later wins
    #[arg(long = "env-file", value_name = "FILE")]
    pub(crate) env_files: Vec<PathBuf>,
    /// Use an external network or volume together with others; kept for the environment
    #[arg(long, value_name = "NAME")]
    pub(crate) share: Vec<String>,
    /// Begin with a copy of an external volume; kept for the environment
    #[arg(long, value_name = "NAME")]
    pub(crate) copy: Vec<String>,
    /// Have an own network or volume in the place of an external one; kept for the environment
    #[arg(long, value_name = "NAME")]
    pub(crate) create: Vec<String>,
    /// Leave a self-address as the files have it (`web.API_URL`); kept for the environment
    #[arg(long, value_name = "NAME")]
    pub(crate) keep: Vec<String>,
}

/// Where a stack is brought up.
#[derive(Debug, Clone, Args)]
pub(crate) struct Where {
    /// The instance to bring up, a revision (`@r3`), or an instance moved to one (`main@r1`)
    #[arg(value_name = "TARGET", value_parser = value::target)]
    pub(crate) target: Option<TargetWords>,
    /// Run it beside the others, in an instance of its own called rN
    #[arg(long, conflicts_with = "new")]
    pub(crate) beside: bool,
    /// Run it in one more instance, perhaps of this name
    #[arg(long, value_name = "NAME", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "clap's type for an option whose value may be left out")]
    pub(crate) new: Option<Option<String>>,
    /// Run the code of a commit, branch or tag, in a worktree and an instance of its own
    #[arg(long, value_name = "REF", conflicts_with_all = ["target", "beside", "new"])]
    pub(crate) git: Option<String>,
    /// Bring up these services or resources alone, with what they need; the others are left as they are
    #[arg(long, value_name = "SERVICE,…", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}

/// `up`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    pub(crate) place: Where,
    #[command(flatten)]
    pub(crate) source: Source,
    /// Return as soon as everything is started
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// When a move to another revision fails, leave things for looking at
    #[arg(long)]
    pub(crate) no_rollback: bool,
    /// Let go of host ports that somebody else has taken
    #[arg(long)]
    pub(crate) move_ports: bool,
    /// Do not publish the ports that the compose files name, beside the leased ones
    #[arg(long)]
    pub(crate) no_own_ports: bool,
    /// Do not take over data that a removed instance of that name left
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Build images again
    #[arg(long)]
    pub(crate) build: bool,
    /// Pull images again
    #[arg(long)]
    pub(crate) pull: bool,
    /// Accepted as people type it: `up` always returns
    #[arg(short, long, hide = true)]
    pub(crate) detach: bool,
    /// A message for a new revision
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `plan`.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) place: Where,
    #[command(flatten)]
    pub(crate) source: Source,
    /// Write the rendered tree into this folder, which must be empty or not there
    #[arg(long, value_name = "DIR")]
    pub(crate) render: Option<PathBuf>,
    /// Print the services and what they wait for as a graph
    #[arg(long, value_name = "FORMAT", conflicts_with = "render")]
    pub(crate) graph: Option<GraphKind>,
}

/// `trust`.
#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// What to agree to, by its exact name; without one, lists what every copy of this folder's stack would share
    #[arg(value_name = "ITEM")]
    pub(crate) items: Vec<String>,
    /// Take consent back
    #[arg(long, requires = "items")]
    pub(crate) withdraw: bool,
}

/// An instance that a command acts on.
#[derive(Debug, Clone, Args)]
pub(crate) struct On {
    /// The instance; this checkout's when not given
    #[arg(value_name = "TARGET", value_parser = value::target)]
    pub(crate) target: Option<TargetWords>,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `stop`.
#[derive(Debug, Args)]
pub(crate) struct Stop {
    #[command(flatten)]
    pub(crate) on: On,
    /// Seconds a service gets to end before it is killed, in the place of its own
    #[arg(short = 't', long, value_name = "SECONDS")]
    pub(crate) grace: Option<u32>,
}

/// `start`.
#[derive(Debug, Args)]
pub(crate) struct Start {
    #[command(flatten)]
    pub(crate) on: On,
    /// Return as soon as everything is started
    #[arg(long)]
    pub(crate) no_wait: bool,
}

/// `restart`.
#[derive(Debug, Args)]
pub(crate) struct Restart {
    /// The services; all when none is named
    #[arg(value_name = "SERVICE")]
    pub(crate) services: Vec<String>,
    /// The instance; this checkout's when not given
    #[arg(short = 'i', long, visible_alias = "instance", value_name = "TARGET", value_parser = value::target)]
    pub(crate) target: Option<TargetWords>,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `down`.
#[derive(Debug, Args)]
pub(crate) struct Down {
    #[command(flatten)]
    pub(crate) on: On,
    /// Remove its volumes too: the data is gone then
    #[arg(short = 'v', long)]
    pub(crate) volumes: bool,
    // Takes the short option away from the global one, since `down -v` means volumes to everybody.
    #[arg(id = "verbose", long = "verbose", action = ArgAction::Count, help = "Say more", hide = true)]
    pub(crate) _verbose: u8,
}

/// `rm`.
#[derive(Debug, Args)]
pub(crate) struct Remove {
    #[command(flatten)]
    pub(crate) on: On,
    /// Remove its volumes too: the data is gone then
    #[arg(long)]
    pub(crate) volumes: bool,
}
