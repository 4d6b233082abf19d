//! What can go wrong with the engine, told apart by what helps.
//!
//! Docker tells most causes only in prose that differs between its versions, so
//! [`EngineError::from_answer`] goes by text first and by status second.

use std::time::Duration;

/// A failed call to the engine, or a failed Compose.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// Nothing listens there, or the connection broke.
    #[error("docker cannot be reached at `{endpoint}`: {cause}")]
    Unreachable {
        /// `unix://…` or `tcp://…`.
        endpoint: String,
        /// What the operating system or the connection said.
        cause: String,
    },
    /// Something listens, but no answer came in time.
    #[error("docker did not answer within {} s: {what}", after.as_secs_f32())]
    Hung {
        /// The call.
        what: String,
        /// The limit it had.
        after: Duration,
    },
    /// The thing is not there.
    #[error("docker knows no {what}")]
    NotFound {
        /// Such as "container `x`".
        what: String,
    },
    /// The thing is in use, or its name is taken.
    #[error("{what} is in conflict: {message}")]
    Conflict {
        /// Such as "container `x`".
        what: String,
        /// Docker's words.
        message: String,
    },
    /// A port of the host is bound already.
    #[error("port {} is taken by {holder}", port.map_or_else(|| "of the host".to_owned(), |p| p.to_string()))]
    PortTaken {
        /// The port, when the message names it.
        port: Option<u16>,
        /// "another container" or "another process".
        holder: String,
        /// Docker's words.
        message: String,
    },
    /// The container's network was removed or remade under it.
    #[error("the container is not connected to its network: {message}")]
    NotConnected {
        /// Docker's words.
        message: String,
    },
    /// All of Docker's own address pools are used up.
    #[error("docker has no free address pool for another network: {message}")]
    PoolExhausted {
        /// Docker's words.
        message: String,
    },
    /// A wanted subnet overlaps one of another Docker network.
    #[error("the subnet overlaps another docker network: {message}")]
    PoolOverlap {
        /// Docker's words.
        message: String,
    },
    /// The daemon's disk is full.
    #[error("docker's disk is full: {message}")]
    NoSpace {
        /// Docker's words.
        message: String,
    },
    /// An image is not on the daemon and could not be had.
    #[error("{} is missing: {message}", image_name(image))]
    ImageMissing {
        /// As it was asked for; `service NAME` where only the service is known, "?" where nothing
        /// is.
        image: String,
        /// Docker's or Compose's words.
        message: String,
    },
    /// A build ended with an error.
    #[error("the build of `{target}` failed:\n{message}")]
    BuildFailed {
        /// The service or build target; "?" where the output does not name it.
        target: String,
        /// The last lines of the output.
        message: String,
    },
    /// The daemon or Compose is older than what is supported.
    #[error("{found} is too old, {needed} or newer is needed")]
    TooOld {
        /// Such as "docker API 1.24".
        found: String,
        /// Such as "1.41".
        needed: String,
    },
    /// An endpoint or a request that cannot be made.
    #[error("{what}")]
    Invalid {
        /// What is wrong with it.
        what: String,
    },
    /// The program of a Compose plugin could not be run.
    #[error("compose could not be run at `{program}`: {cause}")]
    ComposeNotRun {
        /// Its path.
        program: String,
        /// What the operating system said.
        cause: String,
    },
    /// Everything else that Docker refuses.
    #[error("{}: {message}", answered(*status))]
    Api {
        /// HTTP status; 0 for an answer that made no sense.
        status: u16,
        /// Docker's words.
        message: String,
    },
}

impl EngineError {
    /// What the user can do about it, if something general can be said.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Unreachable { endpoint, cause } => {
                if cause.to_lowercase().contains("permission denied") {
                    "add yourself to the group that owns the socket, or use a rootless Docker".to_owned()
                } else {
                    format!("start Docker, or choose another endpoint than `{endpoint}` with DOCKER_HOST or --context")
                }
            }
            Self::Hung { .. } => "look at the daemon's log, and restart Docker if it stays like this".to_owned(),
            Self::PortTaken { port: Some(port), .. } => {
                format!("stop what listens on {port}, or let go of the instance's ports with --move-ports")
            }
            Self::PortTaken { port: None, .. } => {
                "stop what listens there, or let go of the instance's ports with --move-ports".to_owned()
            }
            Self::NotConnected { .. } => "remove the instance's containers with `down` and start it again".to_owned(),
            Self::PoolExhausted { .. } => {
                "remove networks nobody uses (`docker network prune`), or give Docker more with `default-address-pools` in daemon.json".to_owned()
            }
            Self::PoolOverlap { .. } => "remove the other network, or let the instance take another address range".to_owned(),
            Self::NoSpace { .. } => "free some with `docker system df` and `docker system prune`".to_owned(),
            Self::ImageMissing { .. } => "check the image's name, the network and `docker login`".to_owned(),
            Self::TooOld { needed, .. } => format!("upgrade to {needed} or newer"),
            Self::ComposeNotRun { .. } => "install the Docker Compose plugin, 2.20 or newer".to_owned(),
            Self::NotFound { .. }
            | Self::Conflict { .. }
            | Self::BuildFailed { .. }
            | Self::Invalid { .. }
            | Self::Api { .. } => return None,
        };
        Some(hint)
    }

    /// An error out of an HTTP status and Docker's message about `what` (such as "container
    /// `x`").
    pub(crate) fn from_answer(status: u16, message: &str, what: &str) -> Self {
        let message = message.trim().to_owned();
        if let Some(known) = Self::from_text(&message) {
            return known;
        }
        match status {
            404 if message.to_lowercase().contains("no such image") => {
                Self::ImageMissing { image: after(&message, "image: ").unwrap_or("?").to_owned(), message }
            }
            404 => Self::NotFound { what: what.to_owned() },
            409 => Self::Conflict { what: what.to_owned(), message },
            _ => Self::Api { status, message },
        }
    }

    /// An error out of prose alone: the causes that look the same in the API's answers, in
    /// `State.Error` and in Compose's output.
    pub fn from_text(message: &str) -> Option<Self> {
        let lower = message.to_lowercase();
        let bare = lower.trim().trim_start_matches("error response from daemon: ");
        let has = |part: &str| lower.contains(part);
        let owned = || message.trim().to_owned();
        // The second is said of a range, without a number.
        if has("port is already allocated") || has("all ports are allocated") {
            return Some(Self::PortTaken {
                port: bound_port(message),
                holder: "another container".to_owned(),
                message: owned(),
            });
        }
        // Of an address within a network, Docker says only "Address already in use".
        let binds = has("bind") || has("listen") || has("host port");
        if has("address already in use") && binds || has("ports are not available") && !has("permission") {
            return Some(Self::PortTaken {
                port: bound_port(message),
                holder: "another process".to_owned(),
                message: owned(),
            });
        }
        if has("all predefined address pools have been fully subnetted")
            || has("could not find an available, non-overlapping ipv4 address pool")
        {
            return Some(Self::PoolExhausted { message: owned() });
        }
        if has("pool overlaps with other one")
            || has("networks have overlapping ipv4")
            || has("networks have same bridge name")
            // Of the very same subnet, between two networks that are made at once.
            || has("failed to allocate gateway")
        {
            return Some(Self::PoolOverlap { message: owned() });
        }
        if has("no space left on device") {
            return Some(Self::NoSpace { message: owned() });
        }
        if has("is not connected to the network")
            || (has("network ") && has(" not found") && has("endpoint"))
            || (has("network ") && has("not found") && has("failed to set up container networking"))
            || bare.starts_with("network ") && bare.ends_with(" not found")
        {
            return Some(Self::NotConnected { message: owned() });
        }
        None
    }
}

/// The port in a message about a bind: the digits behind the address that follows one of the
/// words every version uses.
fn bound_port(message: &str) -> Option<u16> {
    const BEFORE: [&str; 8] = [
        "Bind for ",
        "listen tcp4 ",
        "listen tcp6 ",
        "listen tcp ",
        "listen udp4 ",
        "listen udp6 ",
        "listen udp ",
        "host port ",
    ];
    BEFORE.iter().find_map(|word| {
        let rest = after(message, word)?;
        let rest = rest.strip_prefix("for ").unwrap_or(rest);
        let token = rest.split_whitespace().next()?;
        let behind = match token.strip_prefix('[') {
            Some(v6) => v6.split_once("]:")?.1,
            None => match token.strip_prefix(":::") {
                Some(any) => any,
                None => token.split_once(':')?.1,
            },
        };
        let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    })
}

fn after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.find(word).map(|at| &text[at + word.len()..])
}

fn answered(status: u16) -> String {
    match status {
        0 => "docker's answer cannot be used".to_owned(),
        status => format!("docker answered {status}"),
    }
}

fn image_name(image: &str) -> String {
    match image.strip_prefix("service ") {
        Some(service) => format!("the image of service `{service}`"),
        None => format!("image `{image}`"),
    }
}
