//! The `sidestack` command.
fn main() {}
