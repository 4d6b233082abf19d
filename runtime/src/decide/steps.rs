//! The steps, as data and as text.

use std::fmt;

use crate::error::Kind;

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Write the tree.
    WriteTree {
        /// Why.
        cause: String,
    },
    /// A container that a killed recreate left under a temporary name gets its own.
    Rename {
        /// Its id.
        container: String,
        /// The name it should have.
        to: String,
        /// Why.
        cause: String,
    },
    /// Remove a container. Named volumes stay.
    Remove {
        /// Its id.
        container: String,
        /// Its service.
        service: String,
        /// Why.
        cause: String,
    },
    /// Remove a network.
    RemoveNetwork {
        /// Its id.
        id: String,
        /// Its name.
        name: String,
        /// Why.
        cause: String,
    },
    /// Let a paused container go on.
    Unpause {
        /// Its id.
        container: String,
        /// Its service.
        service: String,
        /// Why.
        cause: String,
    },
    /// Make a volume as a copy of another.
    CopyVolume {
        /// Its key.
        key: String,
        /// What is copied.
        from: String,
        /// Its name.
        to: String,
        /// Whether one that was not finished is there.
        again: bool,
        /// Why.
        cause: String,
    },
    /// Let Compose create what is missing or different.
    Create {
        /// Services, each with its reason.
        services: Vec<(String, String)>,
    },
    /// Let Compose make containers anew that it would leave as they are.
    Recreate {
        /// Services, each with its reason.
        services: Vec<(String, String)>,
    },
    /// Start a service's containers once its dependencies are met, and wait.
    Start {
        /// The service.
        service: String,
        /// Why.
        cause: String,
    },
    /// Stop a service's containers and start them again.
    Restart {
        /// The service.
        service: String,
        /// Why.
        cause: String,
    },
    /// Wait until a running service is ready.
    Await {
        /// The service.
        service: String,
        /// Why.
        cause: String,
    },
}

impl Step {
    /// Why it is done.
    pub fn cause(&self) -> String {
        match self {
            Self::WriteTree { cause }
            | Self::Rename { cause, .. }
            | Self::Remove { cause, .. }
            | Self::RemoveNetwork { cause, .. }
            | Self::Unpause { cause, .. }
            | Self::CopyVolume { cause, .. }
            | Self::Start { cause, .. }
            | Self::Restart { cause, .. }
            | Self::Await { cause, .. } => cause.clone(),
            Self::Create { services } | Self::Recreate { services } => {
                services.iter().map(|(service, cause)| format!("{service}: {cause}")).collect::<Vec<_>>().join("; ")
            }
        }
    }

    /// The service whose start is scheduled by this step.
    pub(crate) fn scheduled(&self) -> Option<&str> {
        match self {
            Self::Start { service, .. } | Self::Restart { service, .. } | Self::Await { service, .. } => Some(service),
            _ => None,
        }
    }
}

fn short(id: &str) -> &str {
    &id[..id.len().min(12)]
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WriteTree { .. } => write!(f, "write tree"),
            Self::Rename { container, to, .. } => write!(f, "rename {} to {to}", short(container)),
            Self::Remove { container, service, .. } => write!(f, "remove {service} ({})", short(container)),
            Self::RemoveNetwork { name, .. } => write!(f, "remove network {name}"),
            Self::Unpause { service, .. } => write!(f, "unpause {service}"),
            Self::CopyVolume { key, from, .. } => write!(f, "copy volume {from} to {key}"),
            Self::Create { services } | Self::Recreate { services } => {
                let names: Vec<&str> = services.iter().map(|(service, _)| service.as_str()).collect();
                let verb = if matches!(self, Self::Create { .. }) { "create" } else { "recreate" };
                write!(f, "{verb} {}", names.join(", "))
            }
            Self::Start { service, .. } => write!(f, "start {service}"),
            Self::Restart { service, .. } => write!(f, "restart {service}"),
            Self::Await { service, .. } => write!(f, "wait for {service}"),
        }
    }
}

/// Something that is not done, because it would cost data or is somebody else's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Something has a name that the project needs and is not this store's.
    Foreign {
        /// What it is: `volume x`.
        what: String,
    },
    /// Something external is not there.
    Absent {
        /// `network` or `volume`.
        kind: &'static str,
        /// Its key in the files.
        key: String,
        /// Its name in Docker.
        name: String,
    },
    /// A volume would be copied while somebody writes to it.
    InUse {
        /// Its name in Docker.
        volume: String,
        /// The container that runs on it.
        user: String,
    },
    /// A volume exists with another definition; Compose would replace it.
    VolumeChanged {
        /// Its name in Docker.
        volume: String,
    },
    /// A network changed; its containers would be made anew, without their anonymous volumes.
    NetworkChanged {
        /// Its key.
        network: String,
        /// A service with an anonymous volume.
        service: String,
    },
    /// An engine cannot take over the data of another.
    DataFormat {
        /// The resource.
        resource: String,
        /// What wrote the data.
        from: String,
        /// What would read it.
        to: String,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign { what } => {
                write!(f, "there is a {what} already, which is not Sidestack's or another store's")
            }
            Self::Absent { kind, key, name } => {
                write!(f, "the external {kind} `{key}` (`{name}`) is not there")
            }
            Self::InUse { volume, user } => {
                write!(f, "`{user}` is running on volume `{volume}`: a copy of it now would be torn")
            }
            Self::VolumeChanged { volume } => {
                write!(f, "the definition of volume `{volume}` changed, which would replace it and its data")
            }
            Self::NetworkChanged { network, service } => write!(
                f,
                "network `{network}` changed, and `{service}` keeps data in an anonymous volume that would not survive it"
            ),
            Self::DataFormat { resource, from, to } => {
                write!(f, "`{resource}` holds data of {from}, which {to} cannot take over")
            }
        }
    }
}

impl Refusal {
    /// A stable word for scripts.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Foreign { .. } => "name-taken",
            Self::Absent { .. } => "external-missing",
            Self::InUse { .. } => "volume-in-use",
            Self::VolumeChanged { .. } | Self::NetworkChanged { .. } | Self::DataFormat { .. } => "data-at-stake",
        }
    }

    /// What is not there is another fault than what belongs to somebody else.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Absent { .. } => Kind::NotFound,
            Self::Foreign { .. }
            | Self::InUse { .. }
            | Self::VolumeChanged { .. }
            | Self::NetworkChanged { .. }
            | Self::DataFormat { .. } => Kind::Conflict,
        }
    }

    /// The ways on.
    pub(crate) fn hint(&self) -> String {
        let text = match self {
            Self::Absent { kind, key, name } => {
                return format!(
                    "`docker {kind} create {name}` makes it; `sidestack up --create {key}` has one of its own instead"
                );
            }
            Self::InUse { user, .. } => {
                return format!(
                    "stop it for the time of the copy: `docker stop {user}`, or `sidestack stop` when it is an instance's"
                );
            }
            Self::Foreign { .. } => {
                "remove it if it is not needed, or take another workspace name (`workspace:` in sidestack.yaml) or instance (`up --new NAME`)"
            }
            Self::VolumeChanged { .. } | Self::NetworkChanged { .. } | Self::DataFormat { .. } => {
                "`sidestack start` runs the old revision on its data, `sidestack up --beside` the new one beside it with data of its own; to start empty: `sidestack rm --volumes`, then `sidestack up`"
            }
        };
        text.to_owned()
    }
}
