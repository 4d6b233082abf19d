//! Compose creates; nothing is started by it.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use sidestack_topology::plan::Plan;
use sidestack_topology::secret;

use super::Execution;
use crate::engine::compose::{ComposeCall, ComposeInput};
use crate::engine::{Engine, EngineError, explain};
use crate::error::{Error, Kind, Result};
use crate::lock::InstanceLock;
use crate::report::{Event, Progress};
use crate::secrets::{Masker, SecretValue};

/// Compose may take this long whatever the wait's limit is: it pulls and builds.
const LEAST: Duration = Duration::from_secs(600);

/// Whether a build is told a secret, so that what it prints may hold it.
fn builds_with_secrets(plan: &Plan) -> bool {
    plan.services.values().filter_map(|planned| planned.compose.build.as_ref()).any(|build| {
        // In the JSON text a token stands as it is.
        serde_json::to_string(build).is_ok_and(|text| secret::holds(&text))
    })
}

/// Replaces what was written since `mark` by the same with secrets masked. The child has ended and
/// the lock is held, so nobody else writes.
fn mask_output(lock: &InstanceLock, mark: u64, masker: &Masker) -> std::io::Result<String> {
    let output = lock.output_since(mark)?;
    let masked = masker.mask(&output);
    if masked != output {
        let mut file = lock.file();
        file.set_len(mark)?;
        file.write_all(masked.as_bytes())?;
    }
    Ok(masked)
}

impl<E: Engine> Execution<'_, E> {
    pub(super) async fn create(&self, services: &[(String, String)], anew: bool) -> Result<()> {
        let Some(compose) = self.compose else {
            return Err(Error::new(
                Kind::Failed,
                "compose-missing",
                "Compose is needed to create containers and was not found",
            ));
        };
        for (service, _) in services {
            self.say(service, Progress::Creating);
        }
        let count = services.len();
        let plural = if count == 1 { "" } else { "s" };
        self.reporter.report(&Event::Phase(format!("creating {count} service{plural}")));
        let model = self.rendered.filled(|reference| {
            self.secrets.get(reference).map_or(String::new(), |value| SecretValue::expose(value).to_owned())
        });
        let checkout = Path::new(&self.plan.placement.checkout);
        // The folder of a deleted worktree is gone; nothing in the model is relative to it.
        let directory = if checkout.is_dir() { checkout } else { self.tree };
        let mut args = Vec::new();
        let quiet = builds_with_secrets(self.plan);
        if quiet {
            // Masked afterwards as well; a killed command leaves less this way.
            args.extend(["--progress", "quiet"]);
        }
        args.push("create");
        if anew {
            args.push("--force-recreate");
        }
        if self.build && !anew {
            args.push("--build");
        }
        if self.pull && !anew {
            args.extend(["--pull", "always"]);
        }
        if anew || count < self.plan.services.len() {
            args.extend(services.iter().map(|(service, _)| service.as_str()));
        }
        let mut call = ComposeCall::new(&self.plan.project, directory, ComposeInput::Stdin(model.into_bytes()), &args);
        call.environment = self.environment.clone();
        call.limit = self.timeout.max(LEAST);
        let unread = |cause| Error::new(Kind::Failed, "lock", format!("the lock file cannot be read: {cause}"));
        let mark = self.lock.mark().map_err(unread)?;
        let exit = match self.early.take() {
            Some(early) if early.is_of(&call) => early.finish(&call).await,
            other => {
                if let Some(other) = other {
                    other.cancel().await;
                }
                compose.run_to_file(&call, self.output()?).await
            }
        };
        let output = mask_output(self.lock, mark, self.masker);
        let exit = match exit {
            Ok(exit) => exit,
            Err(EngineError::Hung { after, .. }) => return Err(too_slow(after)),
            Err(error) => return Err(error.into()),
        };
        if exit.is_success() {
            output.map_err(unread)?;
            return Ok(());
        }
        let output = output.unwrap_or_default();
        if let Some(error) = explain(&output) {
            let mut error = Error::from(error);
            if quiet {
                error = error.detail("what the build printed is left out, since its arguments hold a secret");
            }
            return Err(error);
        }
        let mut error =
            Error::new(Kind::Failed, "create", format!("Compose could not create the containers (exit {})", exit.code));
        for line in
            output.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect::<Vec<_>>().into_iter().rev()
        {
            error = error.detail(line.trim());
        }
        Err(error.hint(format!("its whole output is in `{}`", self.lock.path().display())))
    }
}

/// Compose was ended at the limit.
fn too_slow(after: Duration) -> Error {
    let message = format!("the containers were not created within {} s", after.as_secs());
    Error::new(Kind::TimedOut, "create-timed-out", message)
        .hint("a long build or pull needs a longer limit: `--timeout` with more seconds than this")
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn p31_what_compose_printed_is_kept_without_secrets_and_nothing_else_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = InstanceLock::acquire(&path, "up", Duration::ZERO, &mut |_| {}).unwrap();
        let masker = Masker::new([&SecretValue::new("hunter22".to_owned())]);
        let before = std::fs::read_to_string(&path).unwrap();
        let print = |line: &str| {
            let mut child = Command::new("echo");
            child.arg(line).stdout(Stdio::from(lock.file().try_clone().unwrap()));
            assert!(child.status().unwrap().success());
        };
        let mark = lock.mark().unwrap();
        print("#5 RUN echo hunter22 > /x");
        assert_eq!(mask_output(&lock, mark, &masker).unwrap(), "#5 RUN echo *** > /x\n");
        let second = lock.mark().unwrap();
        print("plain");
        assert_eq!(mask_output(&lock, second, &masker).unwrap(), "plain\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{before}#5 RUN echo *** > /x\nplain\n"));
    }

    #[test]
    fn the_limit_of_a_create_is_told_with_its_option() {
        let error = too_slow(Duration::from_secs(600));
        assert_eq!((error.kind, error.code), (Kind::TimedOut, "create-timed-out"));
        assert!(error.message.contains("600 s") && error.hint.unwrap().contains("--timeout"));
    }
}
