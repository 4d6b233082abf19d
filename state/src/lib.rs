//! The store: what this machine's stacks are meant to be, in one SQLite file.
//!
//! It holds workspaces, environments, immutable revisions, instances, slots and
//! offsets, user variables, and the journal of what was done (applied digests,
//! readiness, intents). It knows neither Docker nor YAML, and every call is
//! synchronous: a caller with an async runtime moves the calls off its threads.
//!
//! *Locking.* Any number of processes read; writers queue on a lock
//! file, and each write is one `BEGIN IMMEDIATE` transaction. Calls
//! that find nothing to change take no lock. *Compatibility.* `user_version`
//! numbers the schema; an older one is migrated, a newer one refused untouched.

mod applied;
mod check;
mod error;
mod filesystem;
mod home;
mod instances;
mod kept_open;
mod lock;
mod memo;
mod migrations;
mod open;
mod progress;
mod revisions;
mod sharing;
mod slots;
mod store;
mod value;
mod variables;
mod workspaces;

pub use applied::{Applied, Outcome, Transition};
pub use error::{Result, StoreError};
pub use instances::{Desired, Instance, Tombstone};
pub use progress::Intent;
pub use revisions::{Pin, Revision, RevisionSummary, Sighting, digest_of};
pub use sharing::ChoiceKind;
pub use slots::{Lease, subnet};
pub use store::Store;
pub use variables::{Scope, VariableValue};
pub use workspaces::{Environment, Workspace};
