//! Everything that touches the machine: the engine, secrets, ports, files, and
//! the verbs that bring instances up and down.
//!
//! Data walks through three rooms once, in order: [`observe`] takes one snapshot,
//! [`decide`] is pure and gives steps, [`execute`] does them. [`lifecycle`] has
//! the verbs that act, [`look`] those that only look; both are methods of
//! [`Session`].

pub mod api;
pub mod decide;
mod digest;
pub mod endpoint;
pub mod engine;
mod error;
pub mod execute;
mod faults;
pub mod files;
mod hooks;
mod layers;
mod lease;
pub mod lifecycle;
pub mod lock;
pub mod look;
mod managed;
pub mod observe;
pub mod ports;
mod record;
pub mod report;
mod revise;
pub mod secrets;
mod session;
mod sharing;
pub mod source;
mod target;
mod tree;
mod whereabouts;

pub use error::{Error, Kind, Result};
pub use session::{Options, Session, cancel, home};
