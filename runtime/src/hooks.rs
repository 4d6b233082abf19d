//! `post_start` and `pre_stop` hooks: commands that the runtime runs in a container.

use std::time::Duration;

use sidestack_topology::plan::Hook;
use sidestack_topology::secret;

use crate::digest::{Secrets, filled};
use crate::engine::{Engine, EngineError, ExecOutcome, ExecRequest};

/// How long a hook may take.
const LIMIT: Duration = Duration::from_secs(60);

/// What Docker is asked to run.
pub(crate) fn request(hook: &Hook, secrets: &Secrets) -> ExecRequest {
    let words: Vec<String> = hook.command.iter().map(|word| filled(word, secrets)).collect();
    let mut request = ExecRequest::new(words, LIMIT);
    request.user.clone_from(&hook.user);
    request.workdir.clone_from(&hook.working_dir);
    request.env = hook.environment.iter().map(|pair| filled(pair, secrets)).collect();
    request
}

/// What went wrong, with the secrets by reference.
pub(crate) fn failure(kind: &str, hook: &Hook, result: &Result<ExecOutcome, EngineError>) -> Option<String> {
    let command = secret::shown(&hook.command.join(" "));
    match result {
        Ok(done) if done.code == 0 => None,
        Ok(done) => Some(format!("its {kind} command `{command}` exited with {}", done.code)),
        Err(error) => Some(format!("its {kind} command `{command}` could not be run: {error}")),
    }
}

/// Runs the hooks of a container that is about to be stopped, and tells what failed: it is stopped whatever they do.
/// Stopping needs no vault, so a hook that wants a secret without one is passed over and told.
pub(crate) async fn pre_stop(
    engine: &impl Engine,
    container: &str,
    hooks: &[Hook],
    secrets: Option<&Secrets>,
) -> Vec<String> {
    let mut told = Vec::new();
    for hook in hooks {
        let held = hook.command.iter().chain(&hook.environment).any(|text| secret::holds(text));
        let none = Secrets::new();
        let secrets = match secrets {
            Some(secrets) => secrets,
            None if held => {
                let command = secret::shown(&hook.command.join(" "));
                told.push(format!("its pre_stop command `{command}` holds a secret and is not run"));
                continue;
            }
            None => &none,
        };
        let result = engine.exec(container, &request(hook, secrets)).await;
        told.extend(failure("pre_stop", hook, &result));
    }
    told
}
