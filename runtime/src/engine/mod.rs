//! The container engine, as narrow as the runtime needs it.
//!
//! [`Engine`] is the only way from the runtime to a daemon. [`DockerEngine`] speaks to a real
//! one, `FakeEngine` (feature `fake`) keeps everything in memory and refuses what no test
//! expects. [`compose`] runs the Compose plugin as a child process, [`archive`] builds the tar
//! files that `put_archive` takes.
//!
//! Nothing here decides anything: one method is one call (or the few that make it up), bounded
//! in time. Docker that cannot be reached ([`EngineError::Unreachable`]), Docker that does not
//! answer ([`EngineError::Hung`]) and "there is nothing" (an empty list) are never mixed up.
//! Everything is for one thread: no future here is promised to be `Send`.

pub mod archive;
pub mod compose;
mod convert;
mod copy;
mod docker;
mod error;
mod exec;
mod explain;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
mod http;
mod streams;
mod types;

use std::collections::BTreeMap;
use std::pin::Pin;

use futures_util::Stream;

pub use self::docker::DockerEngine;
pub use self::error::EngineError;
pub use self::explain::explain;
#[cfg(any(test, feature = "fake"))]
pub use self::fake::FakeEngine;
pub use self::types::{
    Container, Daemon, Detail, Event, EventKind, ExecOutcome, ExecRequest, Health, HealthCheck, Image, LogLine,
    LogRequest, LogSide, Mount, Network, Protocol, Published, Status, Volume,
};

/// Events as they come. It never ends silently: its last item is an error when the connection is
/// lost, and after an error comes nothing more.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<Event, EngineError>>>>;

/// Log lines as they come. An end without an error is the end of the log.
pub type LogStream = Pin<Box<dyn Stream<Item = Result<LogLine, EngineError>>>>;

/// A published port with the name of the container that holds it and that one's Compose project.
pub type PortHolder = (Published, String, Option<String>);

/// What the runtime asks of a container engine.
///
/// Errors: [`EngineError::Unreachable`] when nothing listens, [`EngineError::Hung`] when no
/// answer came within the limit (10 s; `stop` adds its grace, `exec` its own limit), otherwise
/// what the daemon said.
#[expect(async_fn_in_trait, reason = "everything runs on one thread; Send bounds would only be in the way")]
pub trait Engine {
    /// The daemon's identity and version.
    async fn daemon(&self) -> Result<Daemon, EngineError>;

    /// All containers that bear a label (`KEY` or `KEY=VALUE`), in any state; one request.
    async fn containers(&self, label_filter: &str) -> Result<Vec<Container>, EngineError>;

    /// The published ports of every container on the daemon, whosoever they are.
    async fn published(&self) -> Result<Vec<PortHolder>, EngineError>;

    /// Networks that bear a label, or all of them.
    async fn networks(&self, label_filter: Option<&str>) -> Result<Vec<Network>, EngineError>;

    /// Volumes that bear a label, or all of them.
    async fn volumes(&self, label_filter: Option<&str>) -> Result<Vec<Volume>, EngineError>;

    /// Volume name to size in bytes. The daemon walks the file systems for it: slow (limit 120 s).
    async fn volume_sizes(&self) -> Result<BTreeMap<String, i64>, EngineError>;

    /// Everything about one container, by id or name.
    async fn inspect(&self, id: &str) -> Result<Detail, EngineError>;

    /// Start a container. One that runs already is success.
    ///
    /// A port that is taken is [`EngineError::PortTaken`], a container whose network went away
    /// under it [`EngineError::NotConnected`].
    async fn start(&self, id: &str) -> Result<(), EngineError>;

    /// TERM, then after `grace` seconds KILL (`None`: the container's own). One that is stopped
    /// already is success.
    async fn stop(&self, id: &str, grace: Option<u32>) -> Result<(), EngineError>;

    /// KILL. One that does not run is success.
    async fn kill(&self, id: &str) -> Result<(), EngineError>;

    /// Freeze its processes.
    async fn pause(&self, id: &str) -> Result<(), EngineError>;

    /// Let its processes go on.
    async fn unpause(&self, id: &str) -> Result<(), EngineError>;

    /// Give it another name.
    async fn rename(&self, id: &str, name: &str) -> Result<(), EngineError>;

    /// Remove a container; `force` also one that runs, `anonymous_volumes` with its anonymous
    /// volumes. One that is gone is success.
    async fn remove(&self, id: &str, force: bool, anonymous_volumes: bool) -> Result<(), EngineError>;

    /// `no`, `always`, `unless-stopped`, `on-failure` or `on-failure:N`.
    async fn set_restart_policy(&self, id: &str, policy: &str) -> Result<(), EngineError>;

    /// Unpack a tar archive (see [`archive::tar`]) at `path`, which must exist, in a container
    /// that need not run.
    async fn put_archive(&self, id: &str, path: &str, tar: Vec<u8>) -> Result<(), EngineError>;

    /// Run a command in a running container and wait for its end.
    async fn exec(&self, id: &str, request: &ExecRequest) -> Result<ExecOutcome, EngineError>;

    /// Subscribe to the events of containers that bear a label, filtered by the daemon: start,
    /// die, oom, health_status, destroy, pause, unpause, restart.
    ///
    /// When this returns, the subscription stands: a list asked for afterwards together with the
    /// stream misses nothing.
    async fn subscribe(&self, label_filter: &str) -> Result<EventStream, EngineError>;

    /// A container's log. The request is made when the stream is first polled.
    fn logs(&self, id: &str, request: &LogRequest) -> LogStream;

    /// An image by name or id; `None` when it is not there.
    async fn image(&self, name: &str) -> Result<Option<Image>, EngineError>;

    /// Give an image one more name, `repository` and `tag`.
    async fn tag(&self, image: &str, repository: &str, tag: &str) -> Result<(), EngineError>;

    /// The name of a running container that mounts a volume.
    async fn volume_user(&self, volume: &str) -> Result<Option<String>, EngineError>;

    /// Make the volume `to` with labels and copy `from` into it, without running anything. The whole of it takes
    /// `limit` at most; one that was not finished is there all the same, with some of the files.
    async fn copy_volume(
        &self,
        from: &str,
        to: &str,
        labels: &BTreeMap<String, String>,
        limit: std::time::Duration,
    ) -> Result<(), EngineError>;

    /// Remove an image's name, and the image with its last one. One that is gone is success; one
    /// in use is [`EngineError::Conflict`].
    async fn remove_image(&self, name: &str) -> Result<(), EngineError>;

    /// Remove a network by id. One that is gone is success.
    async fn remove_network(&self, id: &str) -> Result<(), EngineError>;

    /// Remove a volume. One that is gone is success; one in use is [`EngineError::Conflict`].
    async fn remove_volume(&self, name: &str) -> Result<(), EngineError>;
}
