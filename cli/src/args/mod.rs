//! The command line as it is typed: one file per group of commands.
//!
//! What stands here is raw; [`crate::commands`] turns it into requests. Doc
//! comments are the help texts and, through [`crate::reference`], the page
//! `docs/reference/cli.md`.

mod act;
mod look;
mod other;
mod value;
mod variables;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand};

pub(crate) use act::{Down, On, Plan, Remove, Restart, Source, Start, Stop, Trust, Up, Where};
pub(crate) use look::{
    Compose, Describe, Diff, Events, Exec, History, Inside, List, Logs, Open, Shell, Show, Wait, Why,
};
pub(crate) use other::{Catalog, CatalogCommand, Completions, GraphKind, Init};
pub(crate) use variables::{Env, Format, Secret, SecretCommand, Set, Unset, Vantage};

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "sidestack",
    version,
    about = "Run development stacks side by side on Docker Compose",
    after_help = "A TARGET is WORKSPACE/ENVIRONMENT/INSTANCE or the end of that that is clear in context\n\
                  (`r3`, `demo/main`); `@rN` names a revision. Without one, the current checkout's instance is meant.",
    after_long_help = crate::errors::exit_code_help(),
    arg_required_else_help = true,
    disable_help_flag = false,
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// What holds for every command.
    #[command(flatten)]
    pub(crate) global: Global,
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Print one JSON document (a JSON line per item where a command follows)
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say nothing but errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Say more: all evidence of an error, causes of steps
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// No colours, also on a terminal (as with NO_COLOR)
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    /// Take questions for answered with yes
    #[arg(short, long, global = true)]
    pub(crate) yes: bool,
    /// Wait for at most this long, such as 90s or 2m [default: 120s]
    #[arg(long, global = true, value_name = "DURATION", value_parser = value::duration)]
    pub(crate) timeout: Option<Duration>,
    /// The Docker context to use
    #[arg(long, global = true, value_name = "CONTEXT")]
    pub(crate) context: Option<String>,
    /// The environment that is meant, such as demo
    #[arg(short = 'E', long = "env-name", global = true, value_name = "ENVIRONMENT")]
    pub(crate) env_name: Option<String>,
    /// Act as if started in this folder
    #[arg(short = 'C', long, global = true, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

impl Global {
    /// The limit of a wait.
    pub(crate) fn limit(&self) -> Duration {
        self.timeout.unwrap_or(Duration::from_secs(120))
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a commented sidestack.yaml for this folder
    Init(Init),
    /// Show what `up` would do, and change nothing
    Plan(Plan),
    /// Bring a stack up and wait until it is ready
    Up(Up),
    /// List instances in all states
    #[command(name = "ls", visible_alias = "ps")]
    List(List),
    /// Show one instance in full
    Describe(Describe),
    /// Tell what happened last to an instance, and why
    Why(Why),
    /// List the revisions of an environment
    History(History),
    /// Show one revision
    Show(Show),
    /// Show what differs between two revisions or two instances
    Diff(Diff),
    /// Show variables and where they come from, or hand them over
    Env(Env),
    /// Set variables of an instance, an environment or a workspace
    Set(Set),
    /// Remove variables that were set
    Unset(Unset),
    /// Print the logs of services
    Logs(Logs),
    /// Follow what happens to an instance
    Events(Events),
    /// Run a command in a service's container
    Exec(Exec),
    /// Open a shell in a service's container
    Shell(Shell),
    /// Run a plain compose command that only looks
    Compose(Compose),
    /// Open a service in the browser, or print its address
    Open(Open),
    /// Wait until an instance is ready
    Wait(Wait),
    /// Stop an instance; its containers, data and addresses stay
    Stop(Stop),
    /// Start what an instance is to run
    Start(Start),
    /// Stop and start services
    Restart(Restart),
    /// Remove an instance's containers and networks; its data stays
    Down(Down),
    /// Forget an instance
    Rm(Remove),
    /// Agree that copies of this stack share one exact thing of this machine
    Trust(Trust),
    /// Show the modules that there are
    Catalog(Catalog),
    /// Keep secrets in the operating system's keychain
    Secret(Secret),
    /// Print completions for a shell
    Completions(Completions),
    /// Print the version
    Version,
}

impl Command {
    /// The command's name in schema ids.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Init(_) => "init",
            Self::Plan(_) => "plan",
            Self::Up(_) => "up",
            Self::List(_) => "ls",
            Self::Describe(_) => "describe",
            Self::Why(_) => "why",
            Self::History(_) => "history",
            Self::Show(_) => "show",
            Self::Diff(_) => "diff",
            Self::Env(_) => "env",
            Self::Set(_) => "set",
            Self::Unset(_) => "unset",
            Self::Logs(_) => "logs",
            Self::Events(_) => "events",
            Self::Exec(_) => "exec",
            Self::Shell(_) => "shell",
            Self::Compose(_) => "compose",
            Self::Open(_) => "open",
            Self::Wait(_) => "wait",
            Self::Stop(_) => "stop",
            Self::Start(_) => "start",
            Self::Restart(_) => "restart",
            Self::Down(_) => "down",
            Self::Rm(_) => "rm",
            Self::Trust(_) => "trust",
            Self::Catalog(Catalog { command: Some(CatalogCommand::Show { .. }) }) => "catalog-show",
            Self::Catalog(_) => "catalog",
            Self::Secret(Secret { command }) => match command {
                SecretCommand::Set { .. } => "secret-set",
                SecretCommand::Get { .. } => "secret-get",
                SecretCommand::Rm { .. } => "secret-rm",
                SecretCommand::Ls { .. } => "secret-ls",
            },
            Self::Completions(_) => "completions",
            Self::Version => "version",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    fn parse(words: &[&str]) -> Cli {
        Cli::try_parse_from(std::iter::once(&"sidestack").chain(words)).unwrap()
    }

    #[test]
    fn v_is_volumes_for_down_alone() {
        let down = |words: &[&str]| match parse(words) {
            Cli { command: Command::Down(down), global } => (down.volumes, global.verbose),
            _ => panic!("not down"),
        };
        assert_eq!(down(&["down", "-v"]), (true, 0));
        assert_eq!(down(&["-v", "down"]), (false, 1));
        assert_eq!(down(&["down", "--verbose"]), (false, 1));
        assert_eq!(down(&["down"]), (false, 0));
        assert_eq!(parse(&["stop", "-v"]).global.verbose, 1);
        assert_eq!(parse(&["-v", "stop", "-v"]).global.verbose, 1);
    }

    #[test]
    fn globals_stand_anywhere() {
        for words in [["--json", "ls"], ["ls", "--json"]] {
            assert!(parse(&words).global.json);
        }
        let cli = parse(&["up", "-E", "demo", "--timeout", "1m30s", "-C", "x"]);
        assert_eq!(cli.global.env_name.as_deref(), Some("demo"));
        assert_eq!(cli.global.limit(), Duration::from_secs(90));
    }
}
