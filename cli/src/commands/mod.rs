//! From the command line to a request, and from the answer to what is shown.
//!
//! No decision is made here: the runtime decides, and what it answers is printed.

mod act;
mod catalog;
mod look;
mod plan;
mod revisions;
mod streams;
mod variables;

use sidestack_runtime::api::TargetWords;
use sidestack_runtime::{Options, Session};

use crate::args::{Cli, Command, Global};
use crate::errors::Stop;
use crate::output::Output;

/// What every command works with.
pub(crate) struct Context<'a> {
    /// The options of every command.
    pub(crate) global: &'a Global,
    /// Where its words go.
    pub(crate) out: &'a Output,
}

impl Context<'_> {
    /// The opened world.
    pub(crate) fn session(&self) -> Result<Session, Stop> {
        let options = Options { context: self.global.context.clone(), folder: self.global.folder.clone() };
        Ok(Session::open(options, self.out.reporter())?)
    }

    /// The target's words with `-E`.
    pub(crate) fn target(&self, words: Option<&TargetWords>) -> TargetWords {
        TargetWords { environment: self.global.env_name.clone(), ..words.cloned().unwrap_or_default() }
    }
}

/// A text for a person: secrets by reference, placeholders by name.
pub(crate) fn shown(text: &str) -> String {
    sidestack_topology::placeholder::shown(&sidestack_topology::secret::shown(text))
}

/// Runs a command; the exit code.
pub(crate) fn run(cli: &Cli, out: &Output) -> Result<u8, Stop> {
    let context = Context { global: &cli.global, out };
    match &cli.command {
        Command::Init(args) => catalog::init(&context, args),
        Command::Plan(args) => plan::plan(&context, args),
        Command::Up(args) => act::up(&context, args),
        Command::List(args) => look::list(&context, args),
        Command::Describe(args) => look::describe(&context, args),
        Command::Why(args) => look::why(&context, args),
        Command::History(args) => revisions::history(&context, args),
        Command::Show(args) => revisions::show(&context, args),
        Command::Diff(args) => revisions::diff(&context, args),
        Command::Env(args) => variables::env(&context, args),
        Command::Set(args) => variables::set(&context, args),
        Command::Unset(args) => variables::unset(&context, args),
        Command::Logs(args) => streams::logs(&context, args),
        Command::Events(args) => streams::events(&context, args),
        Command::Exec(args) => streams::exec(&context, args),
        Command::Shell(args) => streams::shell(&context, args),
        Command::Compose(args) => streams::compose(&context, args),
        Command::Open(args) => look::open(&context, args),
        Command::Wait(args) => act::wait(&context, args),
        Command::Stop(args) => act::stop(&context, args),
        Command::Start(args) => act::start(&context, args),
        Command::Restart(args) => act::restart(&context, args),
        Command::Down(args) => act::down(&context, args),
        Command::Rm(args) => act::remove(&context, args),
        Command::Trust(args) => act::trust(&context, args),
        Command::Catalog(args) => catalog::catalog(&context, args),
        Command::Secret(args) => variables::secret(&context, args),
        Command::Completions(args) => catalog::completions(&context, args),
        Command::Version => catalog::version(&context),
    }
}
