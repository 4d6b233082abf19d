//! Repositories of the tests' own.

use std::path::Path;
use std::process::Command;

/// Runs git in a folder, as somebody whom no configuration of this machine's user changes much; its output.
#[track_caller]
pub fn git(folder: &Path, args: &[&str]) -> String {
    let identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "init.defaultBranch=main"];
    let output = Command::new("git").args(identity).args(args).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
