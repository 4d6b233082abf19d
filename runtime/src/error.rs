//! What a verb fails with: one shape for the command line, whatever room it came from.

use std::fmt;

use sidestack_state::StoreError;
use sidestack_topology::diagnostic::{Diagnostic, Severity};

use crate::endpoint::{ComposeError, EndpointError};
use crate::engine::EngineError;
use crate::files::FileError;
use crate::lock::LockError;
use crate::secrets::SecretError;
use crate::source::SourceError;

/// The kinds that a caller can act on; each has an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Anything that has no kind of its own.
    Failed,
    /// A wrong argument or a wrong manifest.
    Usage,
    /// What was named is not there.
    NotFound,
    /// The person cancelled.
    Cancelled,
    /// A port, a name or a lock belongs to somebody else.
    Conflict,
    /// A wait came to its limit.
    TimedOut,
    /// A service failed or is unhealthy.
    Unhealthy,
    /// Docker cannot be reached or does not answer.
    Docker,
    /// Some was done, some was refused.
    Partial,
}

/// A verb's failure.
#[derive(Debug, Clone)]
pub struct Error {
    /// What a caller can act on.
    pub kind: Kind,
    /// A stable word for scripts, such as `port-taken`.
    pub code: &'static str,
    /// What failed: a lower-case fragment.
    pub message: String,
    /// Evidence, a line each: the last log lines, the holder of a port.
    pub detail: Vec<String>,
    /// How to mend it.
    pub hint: Option<String>,
    /// The instance it is about.
    pub target: Option<String>,
    /// Faults of an input, when that is the reason.
    pub diagnostics: Vec<Diagnostic>,
    /// The engine's own error, for those who can do something about it.
    pub(crate) engine: Option<Box<EngineError>>,
}

/// A verb's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A failure without a hint.
    pub fn new(kind: Kind, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            code,
            message: message.into(),
            detail: Vec::new(),
            hint: None,
            target: None,
            diagnostics: Vec::new(),
            engine: None,
        }
    }

    /// With the remedy.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With a line of evidence.
    #[must_use]
    pub fn detail(mut self, line: impl Into<String>) -> Self {
        self.detail.push(line.into());
        self
    }

    /// About this instance, unless it is already about one.
    #[must_use]
    pub fn about(mut self, target: impl fmt::Display) -> Self {
        self.target.get_or_insert_with(|| target.to_string());
        self
    }

    /// The faults of an input; warnings among them are left to the reporter.
    pub fn invalid(diagnostics: Vec<Diagnostic>) -> Self {
        let errors: Vec<&Diagnostic> = diagnostics.iter().filter(|d| d.severity == Severity::Error).collect();
        let message = match errors.as_slice() {
            [] => "the stack is not valid".to_owned(),
            [only] => only.message.clone(),
            [first, rest @ ..] => format!("{} (and {} more)", first.message, rest.len()),
        };
        let hint = match errors.as_slice() {
            [only] => only.hint.clone(),
            _ => None,
        };
        Self { diagnostics, hint, ..Self::new(Kind::Usage, "invalid-stack", message) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        let (kind, code) = match &error {
            EngineError::Unreachable { .. } => (Kind::Docker, "docker-unreachable"),
            EngineError::Hung { .. } => (Kind::Docker, "docker-hung"),
            EngineError::NotFound { .. } => (Kind::NotFound, "docker-not-found"),
            EngineError::Conflict { .. } => (Kind::Conflict, "docker-conflict"),
            EngineError::PortTaken { .. } => (Kind::Conflict, "port-taken"),
            EngineError::NotConnected { .. } => (Kind::Failed, "network-gone"),
            EngineError::PoolExhausted { .. } => (Kind::Failed, "address-pools-exhausted"),
            EngineError::PoolOverlap { .. } => (Kind::Conflict, "subnet-overlap"),
            EngineError::NoSpace { .. } => (Kind::Failed, "docker-disk-full"),
            EngineError::ImageMissing { .. } => (Kind::Failed, "image-missing"),
            EngineError::BuildFailed { .. } => (Kind::Failed, "build-failed"),
            EngineError::TooOld { .. } => (Kind::Failed, "docker-too-old"),
            EngineError::Invalid { .. } => (Kind::Usage, "invalid"),
            EngineError::ComposeNotRun { .. } => (Kind::Failed, "compose-missing"),
            EngineError::Api { .. } => (Kind::Failed, "docker-error"),
        };
        let hint = error.hint();
        let message = error.to_string();
        Self { hint, engine: Some(Box::new(error)), ..Self::new(kind, code, message) }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let (kind, code) = match &error {
            StoreError::NotFound { .. } => (Kind::NotFound, "not-found"),
            StoreError::Exists { .. } => (Kind::Conflict, "exists"),
            StoreError::InUse { .. } => (Kind::Conflict, "in-use"),
            StoreError::Busy { .. } => (Kind::Conflict, "store-busy"),
            StoreError::SlotsExhausted { .. } => (Kind::Failed, "slots-exhausted"),
            StoreError::OffsetsExhausted { .. } => (Kind::Usage, "too-many-ports"),
            StoreError::TooNew { .. } => (Kind::Failed, "store-too-new"),
            StoreError::Damaged { .. } => (Kind::Failed, "store-damaged"),
            _ => (Kind::Failed, "store"),
        };
        let hint = error.hint();
        let mut told = Self { hint, ..Self::new(kind, code, error.to_string()) };
        // A cause that is not in the text is evidence.
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            let text = error.to_string();
            if !told.message.contains(&text) {
                told.detail.push(text);
            }
            cause = error.source();
        }
        told
    }
}

impl From<SourceError> for Error {
    fn from(error: SourceError) -> Self {
        let hint = error.hint();
        match error {
            SourceError::Invalid(diagnostics) => Self::invalid(diagnostics),
            SourceError::NotFound { .. } => Self { hint, ..Self::new(Kind::NotFound, "no-stack", error.to_string()) },
            _ => Self { hint, ..Self::new(Kind::Failed, "source", error.to_string()) },
        }
    }
}

impl From<FileError> for Error {
    fn from(error: FileError) -> Self {
        Self::new(Kind::Failed, "file", error.to_string())
    }
}

impl From<LockError> for Error {
    fn from(error: LockError) -> Self {
        let kind = if matches!(error, LockError::Held { .. }) { Kind::Conflict } else { Kind::Failed };
        Self::new(kind, "locked", error.to_string()).hint("wait for the other command, or look at it with `ps`")
    }
}

impl From<SecretError> for Error {
    fn from(error: SecretError) -> Self {
        let hint = error.hint();
        Self::new(Kind::Failed, "secret", error.to_string()).hint(hint)
    }
}

impl From<EndpointError> for Error {
    fn from(error: EndpointError) -> Self {
        Self::new(Kind::Docker, "docker-endpoint", error.to_string()).hint(error.hint())
    }
}

impl From<ComposeError> for Error {
    fn from(error: ComposeError) -> Self {
        Self::new(Kind::Failed, "compose-missing", error.to_string()).hint(error.hint())
    }
}
