//! Ctrl-C, the second time.
//!
//! The first one is the runtime's: it ends its wait and leaves things consistent.
//! The second one leaves now, whatever is under way.

use std::thread;

use sidestack_runtime::Kind;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Command;
use crate::errors::exit_code;
use crate::output::last_words;

/// Commands that wait for Docker in a way that the first Ctrl-C ends. The others
/// keep the system's way: one Ctrl-C ends the process.
fn waits(command: &Command) -> bool {
    matches!(
        command,
        Command::Up(_)
            | Command::Start(_)
            | Command::Restart(_)
            | Command::Wait(_)
            | Command::Stop(_)
            | Command::Down(_)
            | Command::Rm(_)
    )
}

/// Watches for the second Ctrl-C of a command that acts.
pub(crate) fn watch(command: &Command) {
    if !waits(command) {
        return;
    }
    thread::spawn(|| {
        let Ok(reactor) = tokio::runtime::Builder::new_current_thread().enable_io().build() else {
            return;
        };
        reactor.block_on(async {
            let Ok(mut interrupts) = signal(SignalKind::interrupt()) else {
                return;
            };
            interrupts.recv().await;
            sidestack_runtime::cancel();
            interrupts.recv().await;
            last_words("left at once; the same command finishes what was begun");
            #[expect(clippy::exit, reason = "the person asked twice to leave now")]
            std::process::exit(i32::from(exit_code(Kind::Cancelled)));
        });
    });
}
