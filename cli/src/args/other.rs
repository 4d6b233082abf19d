//! Commands that are about no instance.

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;

/// A language for graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphKind {
    /// Mermaid, as Markdown pages show it
    Mermaid,
    /// Graphviz
    Dot,
}

/// `init`.
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Write over a sidestack.yaml that is there
    #[arg(long)]
    pub(crate) force: bool,
}

/// `catalog`.
#[derive(Debug, Args)]
pub(crate) struct Catalog {
    #[command(subcommand)]
    pub(crate) command: Option<CatalogCommand>,
}

/// What to do with the catalogue.
#[derive(Debug, Subcommand)]
pub(crate) enum CatalogCommand {
    /// List the modules
    Ls,
    /// Show one module: its versions, settings and variables
    Show {
        /// The module, such as postgres
        module: String,
    },
}

/// `completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: Shell,
}
