//! What the rest of the runtime knows about Docker: plain data, no client types.
//!
//! Everything here is a copy of what the engine said at one moment. Field docs name the unit and
//! the place in the Engine API where a value comes from.

use std::collections::BTreeMap;
use std::time::Duration;

/// The daemon behind the endpoint (`GET /info`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Daemon {
    /// The daemon's own id. Another id means another daemon, even at the same address.
    pub id: String,
    /// Engine version, such as `20.10.24`.
    pub version: String,
    /// The API version in use: the lower of the daemon's and the client's newest.
    pub api: (u32, u32),
    /// Where the daemon keeps its data, on the daemon's machine.
    pub root_dir: String,
    /// `linux` or `windows`.
    pub os_type: String,
    /// Whether it runs without root, which rules out ports below 1024 and some mounts.
    pub rootless: bool,
}

/// Docker's opinion of a container's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Health {
    /// No health check, or none has said anything.
    None,
    /// Within the first probes.
    Starting,
    /// The last probe succeeded.
    Healthy,
    /// As many probes in a row failed as the check allows.
    Unhealthy,
}

/// Where a container is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Made, never started.
    Created,
    /// Its process runs.
    Running,
    /// Its process is frozen. It still holds its ports.
    Paused,
    /// Between two runs by Docker's restart policy.
    Restarting,
    /// On its way out.
    Removing,
    /// Its process ended with this code.
    Exited(i32),
    /// Docker could not remove it and gave up.
    Dead,
}

impl Status {
    /// Whether the container has a process now or will have one again by itself: running, paused
    /// or restarting. Such a container holds its ports.
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Running | Self::Paused | Self::Restarting)
    }
}

/// The transport of a published port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// A port of the host that leads into a container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Published {
    /// The address it is bound to: `127.0.0.1`, `0.0.0.0`, `::`, ….
    pub host_ip: String,
    /// The port on the host.
    pub host_port: u16,
    /// The port in the container.
    pub container_port: u16,
    /// TCP or UDP. SCTP ports are left out.
    pub protocol: Protocol,
}

/// One row of `GET /containers/json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Full id.
    pub id: String,
    /// Name without the leading slash.
    pub name: String,
    /// `com.docker.compose.service`.
    pub service: Option<String>,
    /// `com.docker.compose.container-number`, counted from 1; 1 where there is none.
    pub number: u32,
    /// `com.docker.compose.project`.
    pub project: Option<String>,
    /// The image as it was named at creation, or an id where the name has moved on.
    pub image: String,
    /// The image's id.
    pub image_id: String,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// Where it is in its life.
    pub status: Status,
    /// From the `Health` field (API 1.52), else from the status text.
    pub health: Health,
    /// Ports that are bound now. A stopped container has none.
    pub published: Vec<Published>,
    /// Creation time, Unix seconds.
    pub created: i64,
    /// `com.docker.compose.oneoff`: made by `docker compose run`.
    pub oneoff: bool,
    /// Network name to address in it; the address is empty while the container does not run.
    pub networks: BTreeMap<String, String>,
    /// Names of the volumes it mounts, also anonymous ones.
    pub mounts: Vec<String>,
}

/// A health check as Docker keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// `["CMD", …]`, `["CMD-SHELL", line]`, or `["NONE"]`.
    pub test: Vec<String>,
    /// Between two probes, in ms; Docker's default (30 s) where it is unset.
    pub interval_ms: u64,
    /// For one probe, in ms; default 30 s.
    pub timeout_ms: u64,
    /// Failures within it do not count, in ms; default 0.
    pub start_period_ms: u64,
    /// Failures in a row until unhealthy; default 3.
    pub retries: u64,
}

/// One mount of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// `bind`, `volume`, `tmpfs`, ….
    pub kind: String,
    /// The volume's name; empty for the other kinds.
    pub name: String,
    /// The path on the daemon's machine.
    pub source: String,
    /// The path in the container.
    pub destination: String,
    /// Whether it can be written.
    pub rw: bool,
}

/// `GET /containers/{id}/json`, what of it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    /// Full id.
    pub id: String,
    /// Name without the leading slash.
    pub name: String,
    /// Where it is in its life.
    pub status: Status,
    /// RFC 3339 with nanoseconds; `0001-01-01T00:00:00Z` when it never started.
    pub started_at: String,
    /// RFC 3339 with nanoseconds; `0001-01-01T00:00:00Z` when it never ended.
    pub finished_at: String,
    /// Of the last run.
    pub exit_code: i32,
    /// `State.Error`: why the last start failed, empty when it did not.
    pub error: String,
    /// Whether the kernel killed it for lack of memory.
    pub oom_killed: bool,
    /// How often Docker's restart policy has started it again.
    pub restart_count: i64,
    /// Docker's opinion of its health.
    pub health: Health,
    /// What the last health probe printed; `None` before the first one.
    pub health_log: Option<String>,
    /// The health check, from the container or its image.
    pub health_check: Option<HealthCheck>,
    /// `KEY=VALUE`. May hold secrets: never print.
    pub env: Vec<String>,
    /// The image's id.
    pub image_id: String,
    /// Whether it has a terminal: then its log has one stream and no framing.
    pub tty: bool,
    /// Its mounts, tmpfs ones given as `tmpfs` options excepted.
    pub mounts: Vec<Mount>,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// `no`, `always`, `unless-stopped`, `on-failure` or `on-failure:N`.
    pub restart_policy: String,
    /// Seconds; `None` means Docker's default of 10.
    pub stop_timeout: Option<i64>,
    /// As configured: `user`, `uid:gid`, …; empty for root.
    pub user: String,
    /// Whether the root file system is read-only.
    pub readonly_rootfs: bool,
    /// Paths of tmpfs mounts given as `tmpfs` options.
    pub tmpfs: Vec<String>,
}

/// One row of `GET /networks`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Full id.
    pub id: String,
    /// Name. Docker allows two networks of one name: remove by id.
    pub name: String,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// In CIDR form.
    pub subnets: Vec<String>,
    /// Attached running containers; `None` where the engine's list does not say.
    pub containers: Option<usize>,
}

/// One row of `GET /volumes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Name.
    pub name: String,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// `local`, or a plugin.
    pub driver: String,
    /// Made for a container that named none: 64 hex digits, or labelled so by the engine.
    pub anonymous: bool,
}

/// An image on the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Id: config digest in the classic store, manifest digest in the containerd store.
    pub id: String,
    /// `name@sha256:…`; empty for images that were built here.
    pub repo_digests: Vec<String>,
    /// Bytes.
    pub size: i64,
}

/// A command to run in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecRequest {
    /// Program and arguments.
    pub cmd: Vec<String>,
    /// `user`, `uid:gid`, …; the container's own when `None`.
    pub user: Option<String>,
    /// `KEY=VALUE` beyond the container's own.
    pub env: Vec<String>,
    /// Given on standard input, then closed; no standard input when `None`.
    pub stdin: Option<Vec<u8>>,
    /// The container's own when `None`.
    pub workdir: Option<String>,
    /// How long to wait. The command itself cannot be cancelled and may go on.
    pub limit: Duration,
    /// Bytes kept of each stream. What goes beyond is read and dropped.
    pub max_output: usize,
}

impl ExecRequest {
    /// A command with the container's own user and folder, no input, 64 KiB of output.
    pub fn new(cmd: impl IntoIterator<Item = impl Into<String>>, limit: Duration) -> Self {
        Self {
            cmd: cmd.into_iter().map(Into::into).collect(),
            user: None,
            env: Vec::new(),
            stdin: None,
            workdir: None,
            limit,
            max_output: 64 * 1024,
        }
    }
}

/// How a command in a container ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecOutcome {
    /// Exit code; 126 and 127 also stand for "could not be run" and "not found".
    pub code: i64,
    /// Standard output, as bytes.
    pub stdout: Vec<u8>,
    /// Standard error, as bytes.
    pub stderr: Vec<u8>,
}

/// What happened to a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// Its process started.
    Start,
    /// Its process ended with this code.
    Die {
        /// Exit code.
        code: i32,
    },
    /// Docker's opinion of its health changed.
    Health(Health),
    /// The kernel killed a process in it for lack of memory. A `Die` may follow.
    Oom,
    /// It was removed.
    Destroy,
    /// Its process was frozen.
    Pause,
    /// Its process goes on.
    Unpause,
    /// It was restarted on request; `Die` and `Start` came before.
    Restart,
    /// Anything else, by Docker's name for it.
    Other(String),
}

/// One event of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Unix time in nanoseconds, by the daemon's clock.
    pub time_ns: i64,
    /// What happened.
    pub kind: EventKind,
    /// Full id of the container.
    pub container: String,
    /// Its name.
    pub name: String,
    /// `com.docker.compose.service`.
    pub service: Option<String>,
    /// The event's attributes: the container's labels, and a few of Docker's own.
    pub labels: BTreeMap<String, String>,
}

/// Which of a container's two outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogSide {
    /// Standard output, and everything of a container with a terminal.
    Out,
    /// Standard error.
    Err,
}

/// One line of a container's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Which output.
    pub stream: LogSide,
    /// RFC 3339 with nanoseconds, when timestamps were asked for.
    pub time: Option<String>,
    /// The line without its end (`\n` or `\r\n`). Any bytes.
    pub bytes: Vec<u8>,
}

/// Which part of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogRequest {
    /// Go on until the container ends.
    pub follow: bool,
    /// Not before this Unix time, in seconds.
    pub since: Option<i64>,
    /// Only the last lines.
    pub tail: Option<u64>,
    /// Ask Docker for the time of each line.
    pub timestamps: bool,
}
