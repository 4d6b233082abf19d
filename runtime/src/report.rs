//! What a verb says while it works. The runtime never prints; the command line
//! shows these on a terminal, as plain lines or not at all.

use std::time::Duration;

/// How far a service is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Waits for what it depends on.
    Waiting,
    /// Is being created, built or pulled.
    Creating,
    /// Was started and is not ready yet.
    Starting,
    /// Is ready.
    Ready,
    /// Ended with 0 as it should.
    Completed,
    /// Is being stopped.
    Stopping,
    /// Is stopped.
    Stopped,
    /// Is removed.
    Removed,
    /// Went wrong.
    Failed(String),
}

/// Something to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A phase begins: `creating 3 containers`.
    Phase(String),
    /// A service changed; the time is counted from the verb's start.
    Service {
        /// The service.
        name: String,
        /// How far it is.
        progress: Progress,
        /// Since the verb began.
        after: Duration,
    },
    /// Good to know.
    Note(String),
    /// Better to know.
    Warning(String),
}

/// Takes what a verb says.
pub trait Reporter {
    /// One thing. Must not block for long.
    fn report(&self, event: &Event);
}

/// Says nothing.
#[derive(Debug, Default)]
pub struct Silent;

impl Reporter for Silent {
    fn report(&self, _: &Event) {}
}
