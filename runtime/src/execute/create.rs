//! Compose creates; nothing is started by it.

use std::path::Path;

use super::Execution;
use crate::engine::compose::{ComposeCall, ComposeInput};
use crate::engine::{Engine, explain};
use crate::error::{Error, Kind, Result};
use crate::report::{Event, Progress};
use crate::secrets::SecretValue;

impl<E: Engine> Execution<'_, E> {
    pub(super) async fn create(&self, services: &[(String, String)]) -> Result<()> {
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
        let mut args = vec!["create"];
        if self.build {
            args.push("--build");
        }
        if self.pull {
            args.extend(["--pull", "always"]);
        }
        if count < self.plan.services.len() {
            args.extend(services.iter().map(|(service, _)| service.as_str()));
        }
        let mut call = ComposeCall::new(&self.plan.project, directory, ComposeInput::Stdin(model.into_bytes()), &args);
        call.environment = self.environment.clone();
        let mark = self.lock.mark().unwrap_or(0);
        let exit = compose.run_to_file(&call, self.output()?).await?;
        if exit.is_success() {
            return Ok(());
        }
        let output = self.lock.output_since(mark).unwrap_or_default();
        let output = self.masker.mask(&output);
        if let Some(error) = explain(&output) {
            return Err(error.into());
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
