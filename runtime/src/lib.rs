//! Placeholder.

pub mod engine;
