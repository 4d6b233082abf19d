//! The pure core of Sidestack: names, the model, the planner and the renderer.
//!
//! Nothing here touches the clock, files, the process environment, the network
//! or randomness; everything is a function from data to data.

// The fixtures of tests are also the benchmark's, which sees this crate from outside.
#[cfg(test)]
extern crate self as sidestack_topology;

pub mod compose;
pub mod diagnostic;
pub mod diff;
pub mod graph;
pub mod interpolate;
pub mod isolation;
pub mod manifest;
pub mod module;
pub mod names;
pub mod order;
pub mod pattern;
pub mod placeholder;
pub mod plan;
pub mod planner;
pub mod render;
pub mod revision;
pub mod secret;
pub mod template;
pub mod text;
pub mod units;
pub mod yaml;
