//! `exec`: a command in a container of an instance.
//!
//! The docker CLI does it where there is one, since a terminal (its size, its signals, raw input) is
//! its trade. It inherits our standard streams; its own settings come from us, not from the shell.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use sidestack_topology::names::Target;

use super::{ExecOptions, services, unknown_service};
use crate::api::TargetWords;
use crate::engine::compose::base_environment;
use crate::engine::{Container, Engine, ExecRequest, Status};
use crate::error::{Error, Kind, Result};
use crate::record::Record;
use crate::session::Session;

/// Without a docker CLI: how long a command may take, and how much of its output is kept.
const LIMIT: Duration = Duration::from_secs(24 * 3600);
const KEPT: usize = 64 * 1024 * 1024;

impl Session {
    /// Runs a command in a service's container, on our own standard streams. Gives its exit code
    /// (128 and the signal's number when a signal ended the docker CLI).
    ///
    /// # Errors
    /// Not found; the container does not run; Docker unreachable.
    pub fn exec(&self, words: &TargetWords, options: &ExecOptions) -> Result<i32> {
        let instance = self.instance(words)?;
        if options.command.is_empty() {
            return Err(
                Error::new(Kind::Usage, "command", "no command is given").hint("`sidestack exec SERVICE -- COMMAND`")
            );
        }
        let record = self.record_of(&instance)?;
        let containers = self.containers(&instance)?;
        let container = chosen(&instance.target, &record, &containers, options)?;
        match docker_cli(&self.env) {
            Some(program) => self.through_cli(&program, container, options),
            None => self.through_engine(container, options),
        }
        .map_err(|error| error.about(&instance.target))
    }

    fn through_cli(&self, program: &PathBuf, container: &Container, options: &ExecOptions) -> Result<i32> {
        let mut command = Command::new(program);
        command.args(arguments(&container.id, options)).env_clear().envs(base_environment(&self.env));
        command.env("DOCKER_HOST", &self.endpoint()?.host);
        if let Some(term) = self.env.get("TERM") {
            command.env("TERM", term);
        }
        // Ctrl-C is the command's: the session's own handling, in place since the first wait, keeps
        // the signal from ending us.
        let status = command.status().map_err(|cause| {
            Error::new(Kind::Failed, "exec", format!("cannot run `{}`: {cause}", program.display()))
        })?;
        Ok(code(status))
    }

    fn through_engine(&self, container: &Container, options: &ExecOptions) -> Result<i32> {
        if options.interactive {
            self.note("there is no docker CLI, so the command gets no terminal");
        }
        let mut request = ExecRequest::new(options.command.iter().cloned(), LIMIT);
        request.user.clone_from(&options.user);
        request.workdir.clone_from(&options.workdir);
        request.max_output = KEPT;
        if !std::io::stdin().is_terminal() {
            let mut input = Vec::new();
            std::io::stdin()
                .read_to_end(&mut input)
                .map_err(|cause| Error::new(Kind::Failed, "exec", format!("standard input cannot be read: {cause}")))?;
            request.stdin = Some(input);
        }
        let engine = self.engine()?;
        let outcome = self.wait(async { Ok(engine.exec(&container.id, &request).await?) })?;
        // The command's own streams, as the docker CLI would have written them; a reader that went
        // away has no more use for them.
        let _ = std::io::stdout().write_all(&outcome.stdout).and_then(|()| std::io::stdout().flush());
        let _ = std::io::stderr().write_all(&outcome.stderr);
        Ok(i32::try_from(outcome.code).unwrap_or(-1))
    }
}

/// The container that is meant, if it runs.
fn chosen<'c>(
    target: &Target,
    record: &Record,
    containers: &'c [Container],
    options: &ExecOptions,
) -> Result<&'c Container> {
    let service = options.service.as_str();
    let known = services(record, containers);
    if !known.contains(service) {
        return Err(unknown_service(target, service, &known));
    }
    let own: Vec<&Container> =
        containers.iter().filter(|container| container.service.as_deref() == Some(service)).collect();
    let number = options.number.max(1);
    let Some(container) = own.iter().find(|container| container.number == number) else {
        let error =
            Error::new(Kind::NotFound, "not-found", format!("`{service}` of {target} has no container {number}"))
                .about(target);
        let numbers = own.iter().map(|container| container.number.to_string()).collect::<Vec<_>>().join(", ");
        return Err(if own.is_empty() {
            error.hint(format!("`sidestack start {target}` makes it"))
        } else {
            error.hint(format!("it has {numbers}"))
        });
    };
    let state = match container.status {
        Status::Running => return Ok(container),
        Status::Paused => "is paused".to_owned(),
        Status::Restarting => "is restarting".to_owned(),
        Status::Created => "was never started".to_owned(),
        Status::Exited(code) => format!("exited with {code}"),
        Status::Removing | Status::Dead => "is dead".to_owned(),
    };
    Err(Error::new(Kind::Failed, "not-running", format!("`{service}` of {target} is not running: it {state}"))
        .about(target)
        .hint(format!(
            "`sidestack start {target}` starts it; `sidestack logs -i {target} {service}` shows what it wrote"
        )))
}

/// What the docker CLI is called with. Standard input is always handed on, as in
/// `sidestack exec db -- psql < dump.sql`.
fn arguments(container: &str, options: &ExecOptions) -> Vec<String> {
    let mut arguments = vec!["exec".to_owned(), if options.interactive { "-it" } else { "-i" }.to_owned()];
    for (flag, value) in [("--user", &options.user), ("--workdir", &options.workdir)] {
        if let Some(value) = value {
            arguments.push(format!("{flag}={value}"));
        }
    }
    arguments.push(container.to_owned());
    arguments.extend(options.command.iter().cloned());
    arguments
}

/// The docker CLI, where the shell would find it.
fn docker_cli(env: &BTreeMap<String, OsString>) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let runs = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    // A relative folder would be found differently from wherever the command is run.
    std::env::split_paths(env.get("PATH")?)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("docker"))
        .find(runs)
}

fn code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::FakeEngine;
    use crate::record::ServiceRecord;

    fn target() -> Target {
        Target {
            workspace: "shop".parse().unwrap(),
            environment: "dev".parse().unwrap(),
            instance: "main".parse().unwrap(),
        }
    }

    fn options(service: &str, number: u32) -> ExecOptions {
        ExecOptions { service: service.to_owned(), command: vec!["sh".to_owned()], number, ..ExecOptions::default() }
    }

    #[test]
    fn what_cannot_be_run_in_is_told_with_its_reason() {
        let container = |service: &str, number, status| Container {
            number,
            status,
            ..FakeEngine::sample(service, "p", service, &[])
        };
        let containers = [
            container("web", 1, Status::Running),
            container("web", 2, Status::Exited(3)),
            container("db", 1, Status::Paused),
        ];
        let record = Record { services: [("cron".to_owned(), ServiceRecord::default())].into(), ..Record::default() };
        let ask = |service: &str, number| chosen(&target(), &record, &containers, &options(service, number));
        assert_eq!(ask("web", 1).unwrap().id, "web");
        // 0 is what no number is.
        assert_eq!(ask("web", 0).unwrap().number, 1);
        let table = [
            ("web", 2, Kind::Failed, "exited with 3", "start"),
            ("db", 1, Kind::Failed, "is paused", "start"),
            ("web", 3, Kind::NotFound, "no container 3", "it has 1, 2"),
            ("cron", 1, Kind::NotFound, "no container 1", "makes it"),
            ("wep", 1, Kind::NotFound, "no service `wep`", "did you mean `web`?"),
        ];
        for (service, number, kind, message, hint) in table {
            let error = ask(service, number).unwrap_err();
            assert_eq!(error.kind, kind, "{error}");
            assert!(
                error.message.contains(message) && error.hint.as_deref().unwrap_or_default().contains(hint),
                "{error:?}"
            );
        }
    }

    #[test]
    fn nothing_that_was_typed_is_taken_for_a_flag() {
        let mut options = options("web", 1);
        options.user = Some("-x".to_owned());
        options.command = vec!["--help".to_owned()];
        assert_eq!(arguments("c1", &options), ["exec", "-i", "--user=-x", "c1", "--help"]);
        options.interactive = true;
        assert_eq!(arguments("c1", &options)[1], "-it");
    }
}
