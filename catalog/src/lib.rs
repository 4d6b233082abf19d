//! Module manifests: the built-in ones and their parsing.
//!
//! A module is a YAML file: data, and templates for values. [`parse`] checks it
//! as a whole and tells everything that is wrong; [`builtin`] holds those that
//! are embedded. The crate reads nothing but the texts it is given.

mod entries;
mod faults;
mod grammar;
mod parse;
mod raw;
mod reference;
mod resolve;
mod services;
mod shape;
mod templates;

pub use entries::{Catalog, Entry, Origin, builtin};
pub use parse::parse;
pub use reference::{reference, schema};
