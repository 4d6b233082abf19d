//! Commands about variables and secrets.

use clap::{Args, Subcommand, ValueEnum};
use sidestack_runtime::api::{TargetWords, WriteLayer};

use super::look::{At, Inside};
use super::value::{self, Assignment};

/// How variables are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For `eval` in a POSIX shell
    Shell,
    /// For `.env` files
    Dotenv,
    /// One JSON object
    Json,
    /// For `$GITHUB_ENV`
    Github,
}

/// Where variables are looked at from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Vantage {
    /// Addresses as this machine sees them
    #[default]
    Host,
    /// Addresses as a container of the instance sees them
    Container,
}

/// `env`.
#[derive(Debug, Args)]
pub(crate) struct Env {
    #[command(flatten)]
    pub(crate) at: At,
    /// Tell which layer won, what it shadowed and who gets it; for one key or for all
    #[arg(long, value_name = "KEY", num_args = 0..=1, conflicts_with = "format")]
    #[expect(clippy::option_option, reason = "clap's type for an option whose value may be left out")]
    pub(crate) explain: Option<Option<String>>,
    /// Hand the values over, secrets with them
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,
    /// For whom addresses are
    #[arg(long, value_name = "VANTAGE", value_enum, default_value_t)]
    pub(crate) vantage: Vantage,
    /// As this service's containers have them
    #[arg(long, value_name = "SERVICE")]
    pub(crate) service: Option<String>,
}

/// The layer that is written.
#[derive(Debug, Clone, Args)]
#[group(multiple = false)]
pub(crate) struct Layer {
    /// For every environment and instance of the workspace
    #[arg(long)]
    workspace: bool,
    /// For every instance of the environment
    #[arg(long)]
    environment: bool,
    /// For the instance alone (this is the default)
    #[arg(long)]
    instance: bool,
}

impl Layer {
    /// The one that was chosen.
    pub(crate) fn chosen(&self) -> WriteLayer {
        match (self.workspace, self.environment) {
            (true, _) => WriteLayer::Workspace,
            (_, true) => WriteLayer::Environment,
            _ => WriteLayer::Instance,
        }
    }
}

/// `set`.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// KEY=VALUE; with --secret, a KEY
    #[arg(required = true, value_name = "KEY=VALUE", value_parser = value::assignment)]
    pub(crate) assignments: Vec<Assignment>,
    /// Take the value from here when it is needed, such as keychain:shop/stripe
    #[arg(long, value_name = "REFERENCE")]
    pub(crate) secret: Option<String>,
    #[command(flatten)]
    pub(crate) layer: Layer,
    /// The instance that is meant; this checkout's when not given
    #[arg(short = 'i', long, value_name = "TARGET", value_parser = value::target)]
    pub(crate) target: Option<TargetWords>,
}

/// `unset`.
#[derive(Debug, Args)]
pub(crate) struct Unset {
    /// The names
    #[arg(required = true, value_name = "KEY", value_parser = value::key)]
    pub(crate) keys: Vec<String>,
    #[command(flatten)]
    pub(crate) layer: Layer,
    /// The instance that is meant; this checkout's when not given
    #[arg(short = 'i', long, value_name = "TARGET", value_parser = value::target)]
    pub(crate) target: Option<TargetWords>,
}

/// `secret`.
#[derive(Debug, Args)]
pub(crate) struct Secret {
    #[command(subcommand)]
    pub(crate) command: SecretCommand,
}

/// What to do with a secret.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Put the value that is read from standard input into the keychain
    Set {
        /// Where it goes: keychain:SERVICE/ACCOUNT
        reference: String,
    },
    /// Print a secret's value
    Get {
        /// Where it is
        reference: String,
    },
    /// Remove a secret from the keychain
    Rm {
        /// Where it is: keychain:SERVICE/ACCOUNT
        reference: String,
    },
    /// List the secrets that a stack refers to, and who uses them
    Ls {
        #[command(flatten)]
        inside: Inside,
    },
}
