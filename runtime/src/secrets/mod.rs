//! Secrets: references to them, the providers that resolve the references, and the masking of what was resolved.
//!
//! Everything that Sidestack writes holds a [`Reference`]; a [`SecretValue`] exists in memory only, between resolving
//! and handing over. Nothing falls back: an unknown, locked, missing or slow provider is an error that names the
//! reference and never the value.
//!
//! Values are text without NUL, since they become environment variables and JSON. One newline at the end of what a
//! command printed or a file holds belongs to the printing and is taken off; everything else is exact.

mod command;
mod dotenv;
mod error;
mod file;
mod keychain;
mod mask;
mod reference;
mod resolver;
mod value;

pub use dotenv::{DotenvError, parse_dotenv};
pub use error::SecretError;
pub use keychain::{keychain_delete, keychain_get, keychain_set};
pub use mask::{MASK, Masker, MaskingStream};
pub use reference::{Provider, Reference, ReferenceError};
pub use resolver::{DEFAULT_TIMEOUT, Resolver};
pub use value::SecretValue;
