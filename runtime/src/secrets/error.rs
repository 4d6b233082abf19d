//! What can go wrong with a secret. No variant holds a value or a part of one.

use std::path::PathBuf;
use std::time::Duration;

use super::dotenv::DotenvError;
use super::reference::{Reference, ReferenceError};
use super::value::NotText;

/// Why a reference could not be resolved, or a keychain entry not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The names make no reference.
    #[error(transparent)]
    BadReference(#[from] ReferenceError),
    /// The variable is not set.
    #[error("secret `{reference}`: the variable is not set")]
    NotSet {
        /// What was asked for.
        reference: Reference,
    },
    /// The provider works and has nothing under that name.
    #[error("secret `{reference}`: there is no such entry in {place}")]
    NoEntry {
        /// What was asked for.
        reference: Reference,
        /// Where it was looked for.
        place: String,
    },
    /// The value holds a NUL, which no environment variable can.
    #[error("secret `{reference}`: the value contains a NUL byte")]
    Nul {
        /// What was asked for.
        reference: Reference,
    },
    /// The value is not UTF-8.
    #[error("secret `{reference}`: the value is not UTF-8 text")]
    NotUtf8 {
        /// What was asked for.
        reference: Reference,
    },
    /// The value is larger than any secret.
    #[error("secret `{reference}`: the value is larger than {limit} bytes")]
    TooLarge {
        /// What was asked for.
        reference: Reference,
        /// The limit in bytes.
        limit: u64,
    },
    /// The provider did not answer in time.
    #[error("secret `{reference}`: no answer within {limit:?}")]
    TimedOut {
        /// What was asked for.
        reference: Reference,
        /// How long was waited.
        limit: Duration,
    },
    /// The command could not be started.
    #[error("secret `{reference}`: cannot run `{program}`: {cause}")]
    CannotRun {
        /// What was asked for.
        reference: Reference,
        /// The program.
        program: String,
        /// The system's own words.
        cause: String,
    },
    /// The command ended with a failure.
    #[error("secret `{reference}`: the command ended with {status}{}", said(last_line))]
    CommandFailed {
        /// What was asked for.
        reference: Reference,
        /// Its exit status in words.
        status: String,
        /// The last line it wrote to standard error, made harmless; what it had printed as the value is masked in it.
        last_line: Option<String>,
    },
    /// The file cannot be read.
    #[error("secret `{reference}`: cannot read `{path}`: {cause}")]
    CannotRead {
        /// What was asked for.
        reference: Reference,
        /// The file.
        path: PathBuf,
        /// What is in the way.
        cause: String,
    },
    /// The file is in somebody else's hands.
    #[error("secret `{reference}`: `{path}` {why}")]
    Unsafe {
        /// What was asked for.
        reference: Reference,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The dotenv file cannot be understood.
    #[error("secret `{reference}`: `{path}`: {cause}")]
    Dotenv {
        /// What was asked for.
        reference: Reference,
        /// The file.
        path: PathBuf,
        /// Where and what.
        cause: DotenvError,
    },
    /// The dotenv value refers to other variables.
    #[error("secret `{reference}`: the value in `{path}` contains an expansion (`$`), which is not guessed")]
    Expansion {
        /// What was asked for.
        reference: Reference,
        /// The file.
        path: PathBuf,
    },
    /// There is no keychain here.
    #[error("secret `{reference}`: no keychain is available: {cause}")]
    NoKeychain {
        /// What was asked for.
        reference: Reference,
        /// Why.
        cause: String,
    },
    /// The keychain is there and does not open.
    #[error("secret `{reference}`: the keychain is locked or refuses access: {cause}")]
    Locked {
        /// What was asked for.
        reference: Reference,
        /// The keychain's own words.
        cause: String,
    },
    /// The keychain failed in another way.
    #[error("secret `{reference}`: the keychain failed: {cause}")]
    Keychain {
        /// What was asked for.
        reference: Reference,
        /// The keychain's own words.
        cause: String,
    },
}

fn said(line: &Option<String>) -> String {
    line.as_ref().map(|line| format!(", saying: {line}")).unwrap_or_default()
}

impl SecretError {
    pub(super) fn not_text(reference: &Reference, why: NotText) -> Self {
        let reference = reference.clone();
        match why {
            NotText::Nul => Self::Nul { reference },
            NotText::NotUtf8 => Self::NotUtf8 { reference },
        }
    }

    /// The way on.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::BadReference(_) => "a reference looks like `keychain:SERVICE/ACCOUNT`",
            Self::NotSet { .. } => "set the variable in the shell that runs sidestack",
            Self::NoEntry { reference, .. } if reference.is_keychain() => "store it with `sidestack secret set`",
            Self::NoEntry { .. } => "add the key to the file, or correct the reference",
            Self::Nul { .. } | Self::NotUtf8 { .. } => {
                "a secret becomes an environment variable and must be text; encode it, for example as base64"
            }
            Self::TooLarge { .. } => "a secret this large belongs into a file that is mounted",
            Self::TimedOut { .. } => {
                "the provider may be waiting for an answer or a network: run it by hand, unlock it, and try again"
            }
            Self::CannotRun { .. } => {
                "the command is run without a shell: name a program that is on `PATH`, or give its path"
            }
            Self::CommandFailed { .. } => "run the command by hand; it may need a login or an unlocked vault",
            Self::CannotRead { .. } => "relative paths start at the checkout's folder",
            Self::Unsafe { .. } => "make the file yours and private: `chmod 600`",
            Self::Dotenv { .. } => "correct the line, or refer to another file",
            Self::Expansion { .. } => {
                "put the value into single quotes if the `$` is meant literally, else refer to the variable itself"
            }
            Self::NoKeychain { .. } => {
                "on Linux this needs a session bus and a Secret Service (such as gnome-keyring); \
                 without a desktop use `env:`, `file:` or `command:`"
            }
            Self::Locked { .. } => "unlock the keychain and try again",
            Self::Keychain { .. } => "look at the entry with the system's own keychain tool",
        }
    }
}
