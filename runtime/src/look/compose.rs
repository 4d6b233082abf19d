//! `compose`: a plain compose command that only looks, against an instance.
//!
//! What it may be is decided by a list of what is known to change nothing, so that a command of a later Compose is
//! refused until somebody has looked at it. Takes no lock and writes nothing.

use std::path::Path;

use sidestack_state::Instance;
use sidestack_topology::names::Target;
use sidestack_topology::render::{self, Images};

use crate::api::TargetWords;
use crate::engine::compose::{ComposeCall, ComposeInput};
use crate::error::{Error, Kind, Result};
use crate::session::Session;

/// Compose commands that change nothing of a project.
const LOOKING: [&str; 14] = [
    "config", "convert", "events", "exec", "help", "images", "logs", "ls", "port", "ps", "stats", "top", "version",
    "volumes",
];

/// Options in front of the command that say how its output looks; those of the second kind take a value.
const FLAGS: [&str; 5] = ["-h", "--help", "-v", "--version", "--verbose"];
const WITH_VALUE: [&str; 2] = ["--ansi", "--progress"];

/// What is used in the place of a command that would change something.
fn instead(command: &str, target: &Target) -> Option<String> {
    let project = target.project();
    let verb = |text: &str| Some(format!("use `sidestack {text} {target}`"));
    match command {
        "up" | "create" => verb("up"),
        "build" => verb("up --build"),
        "pull" => verb("up --pull"),
        "start" | "unpause" => verb("start"),
        "stop" | "pause" => verb("stop"),
        "kill" => verb("stop -t 0"),
        "down" => verb("down"),
        "rm" => verb("rm"),
        "wait" => verb("wait"),
        "restart" => Some(format!("use `sidestack restart -i {target} SERVICE`")),
        "run" => Some(format!(
            "use `sidestack exec -i {target} SERVICE -- COMMAND`, or give it a service with a profile of its own"
        )),
        "scale" => Some("write `scale` or `deploy.replicas` into the compose file, then `sidestack up`".to_owned()),
        "attach" => {
            Some(format!("use `sidestack logs -f -i {target} SERVICE`: a Ctrl-C in `attach` would end the service"))
        }
        "cp" => Some(format!(
            "use `sidestack exec -i {target} SERVICE -- cat FILE > FILE`; what is put into a container is lost with it"
        )),
        "watch" => Some(format!(
            "use `docker compose -p {project} watch --no-up` in the stack's folder; what needs a build, `sidestack up` builds"
        )),
        "push" | "publish" | "commit" | "export" => {
            Some(format!("images and containers of {target} are Docker's: `docker {}`", docker_word(command)))
        }
        _ => None,
    }
}

fn docker_word(command: &str) -> &str {
    if command == "publish" { "push" } else { command }
}

/// The command among what was typed, if it only looks.
fn looking<'a>(words: &'a [String], target: &Target) -> Result<Option<&'a str>> {
    let usage = |message: String| Error::new(Kind::Usage, "usage", message);
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if let Some(option) = word.strip_prefix('-').map(|_| word.split('=').next().unwrap_or_default()) {
            if FLAGS.contains(&option) {
                continue;
            }
            if WITH_VALUE.contains(&option) {
                if !word.contains('=') {
                    rest.next();
                }
                continue;
            }
            return Err(usage(format!("`{option}` in front of a compose command would say what it acts on"))
                .hint(format!("that is {target}; `-i TARGET` before `--` chooses another instance")));
        }
        let command = word.as_str();
        if !LOOKING.contains(&command) {
            let known = instead(command, target);
            let message = match known {
                Some(_) => format!("`compose {command}` is not passed on: it would change {target}"),
                None => format!("`compose {command}` is not known to change nothing"),
            };
            let hint = known.unwrap_or_else(|| format!("those that are: {}", LOOKING.join(", ")));
            return Err(usage(message).hint(hint));
        }
        let writes = |word: &&String| ["-o", "--output"].contains(&word.split('=').next().unwrap_or_default());
        if ["config", "convert"].contains(&command) && rest.clone().any(|word| writes(&word)) {
            return Err(usage("`compose config --output` writes a file".to_owned())
                .hint("leave it out and redirect standard output"));
        }
        return Ok(Some(command));
    }
    Ok(None)
}

impl Session {
    /// Runs a compose command that only looks on an instance's project, on our own standard streams, with the same
    /// program, endpoint and environment as everything else. Gives its exit code.
    ///
    /// # Errors
    /// Not found; a command that would change something; Docker unreachable.
    pub fn compose_look(&self, words: &TargetWords, args: &[String]) -> Result<i32> {
        let instance = self.instance(words)?;
        let command = looking(args, &instance.target)?;
        // Whoever waits for Docker once hears Ctrl-C from then on: it is the command's, and must not end us before it.
        self.right_daemon(&instance)?;
        let files = match command {
            Some("config" | "convert") => ComposeInput::Stdin(self.shown_model(&instance)?.into_bytes()),
            // The project's name alone: every other command finds its containers by their labels.
            _ => ComposeInput::Files(Vec::new()),
        };
        let compose = self.compose()?;
        // No folder of the user's, whose compose files are not the model.
        let mut call = ComposeCall::new(&instance.target.project(), Path::new("/"), files, &[]);
        call.args = args.to_vec();
        call.environment = self.env.clone();
        compose.attended(&call).map_err(|error| Error::from(error).about(&instance.target))
    }

    /// The model that Compose was given, with references where it had secrets.
    fn shown_model(&self, instance: &Instance) -> Result<String> {
        let planned = self.planned_as_it_is(instance)?;
        let rendered = render::render(&planned.plan, &Images::default());
        Ok(rendered.filled(|reference| format!("‹{reference}›")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target {
            workspace: "shop".parse().unwrap(),
            environment: "dev".parse().unwrap(),
            instance: "main".parse().unwrap(),
        }
    }

    fn told(words: &[&str]) -> std::result::Result<Option<String>, (String, String)> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match looking(&words, &target()) {
            Ok(command) => Ok(command.map(str::to_owned)),
            Err(error) => {
                assert_eq!(error.kind, Kind::Usage);
                Err((error.message, error.hint.unwrap_or_default()))
            }
        }
    }

    #[test]
    fn what_looks_is_passed_on_with_all_that_is_its_own() {
        for (words, command) in [
            (&["ps"][..], Some("ps")),
            (&["ps", "-a", "--format", "json"], Some("ps")),
            (&["--ansi", "never", "logs", "-f", "web"], Some("logs")),
            (&["--ansi=never", "--progress", "plain", "top"], Some("top")),
            (&["exec", "-u", "0", "web", "rm", "-o", "down"], Some("exec")),
            (&["config", "--services"], Some("config")),
            (&["--help"], None),
            (&["--version"], None),
            (&[], None),
        ] {
            assert_eq!(told(words), Ok(command.map(str::to_owned)), "{words:?}");
        }
    }

    #[test]
    fn what_changes_is_refused_with_the_verb_to_use() {
        for (command, hint) in [
            ("up", "`sidestack up shop/dev/main`"),
            ("create", "`sidestack up shop/dev/main`"),
            ("build", "`sidestack up --build shop/dev/main`"),
            ("pull", "`sidestack up --pull shop/dev/main`"),
            ("start", "`sidestack start shop/dev/main`"),
            ("unpause", "`sidestack start shop/dev/main`"),
            ("stop", "`sidestack stop shop/dev/main`"),
            ("pause", "`sidestack stop shop/dev/main`"),
            ("kill", "`sidestack stop -t 0 shop/dev/main`"),
            ("restart", "`sidestack restart -i shop/dev/main SERVICE`"),
            ("down", "`sidestack down shop/dev/main`"),
            ("rm", "`sidestack rm shop/dev/main`"),
            ("run", "`sidestack exec -i shop/dev/main SERVICE -- COMMAND`"),
            ("scale", "`deploy.replicas`"),
            ("attach", "`sidestack logs -f"),
            ("cp", "`sidestack exec"),
            ("watch", "`docker compose -p shop_dev_main watch --no-up`"),
            ("wait", "`sidestack wait shop/dev/main`"),
            ("push", "`docker push`"),
            ("publish", "`docker push`"),
            ("commit", "`docker commit`"),
            ("export", "`docker export`"),
        ] {
            for words in [&[command][..], &["--ansi", "never", command, "--help"], &[command, "ps"]] {
                let (message, told) = told(words).unwrap_err();
                assert!(message.contains(&format!("`compose {command}` is not passed on")), "{message}");
                assert!(told.contains(hint), "{told}");
            }
        }
    }

    #[test]
    fn what_is_not_known_and_what_would_choose_another_project_is_refused() {
        for words in [&["alpha", "viz"][..], &["bridge"], &["PS"], &[""]] {
            let (message, hint) = told(words).unwrap_err();
            assert!(message.contains("is not known to change nothing") && hint.contains("ps"), "{message} {hint}");
        }
        for option in [
            "-p",
            "--project-name=x",
            "-f",
            "--file=x",
            "--env-file",
            "--project-directory",
            "--profile",
            "-px",
            "--dry-run",
        ] {
            let (message, hint) = told(&[option, "ps"]).unwrap_err();
            assert!(message.contains("would say what it acts on") && hint.contains("-i TARGET"), "{message} {hint}");
        }
        for words in [&["config", "-o", "x"][..], &["config", "--output=x"], &["convert", "--output", "x"]] {
            assert!(told(words).unwrap_err().1.contains("redirect"), "{words:?}");
        }
    }
}
