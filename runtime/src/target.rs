//! From the words of a target to what the store has.
//!
//! A word that means nothing is an error with the nearest names; nothing is ever
//! made or changed because of a word.

use sidestack_state::{Environment, Instance, Workspace};
use sidestack_topology::diagnostic::nearest;
use sidestack_topology::manifest::DEFAULT_ENVIRONMENT;
use sidestack_topology::names::{EnvironmentName, InstanceName, RevisionNumber, WorkspaceName};

use crate::api::TargetWords;
use crate::error::{Error, Kind, Result};
use crate::session::Session;

impl TargetWords {
    /// Reads `shop/dev/main`, `demo/main`, `r3`, `@r2`, `main@r1`.
    ///
    /// # Errors
    /// More than three parts, an empty part, something behind `@` that is no revision.
    pub fn parse(text: &str) -> Result<Self> {
        let usage = |message: String| {
            Error::new(Kind::Usage, "target", message)
                .hint("a target is WORKSPACE/ENVIRONMENT/INSTANCE, or the end of that, or @rN")
        };
        let (place, revision) = match text.split_once('@') {
            None => (text, None),
            Some((place, word)) => {
                let number = word.parse::<InstanceName>().ok().and_then(|name| name.revision());
                match number {
                    Some(number) => (place, Some(number)),
                    None => return Err(usage(format!("`{word}` is no revision such as r3"))),
                }
            }
        };
        let parts: Vec<String> =
            if place.is_empty() { Vec::new() } else { place.split('/').map(str::to_owned).collect() };
        if parts.len() > 3 || parts.iter().any(String::is_empty) || (parts.is_empty() && revision.is_none()) {
            return Err(usage(format!("`{text}` is no target")));
        }
        Ok(Self { parts, revision, environment: None })
    }
}

/// Where words lead, as far as the store knows it.
#[derive(Debug, Clone)]
pub(crate) struct Spot {
    pub(crate) workspace: Workspace,
    pub(crate) environment: Environment,
    pub(crate) instance: Option<InstanceName>,
    pub(crate) revision: Option<RevisionNumber>,
}

impl Session {
    /// The environment of a workspace that is meant when none is named.
    fn default_environment(&self, workspace: &Workspace) -> Result<Environment> {
        let all = self.store.environments(workspace.id)?;
        match all.as_slice() {
            [] => {
                Err(Error::new(Kind::NotFound, "not-found", format!("workspace `{}` has nothing yet", workspace.name))
                    .hint("`sidestack up` in its folder makes its first instance"))
            }
            [only] => Ok(only.clone()),
            several => {
                several.iter().find(|environment| environment.name.as_str() == DEFAULT_ENVIRONMENT).cloned().ok_or_else(
                    || {
                        let names = several.iter().map(|e| e.name.as_str()).collect::<Vec<_>>().join(", ");
                        Error::new(Kind::Usage, "environment", "no environment is named and none is called `dev`")
                            .hint(format!("choose one with -E: {names}"))
                    },
                )
            }
        }
    }

    fn environment_named(&self, workspace: &Workspace, word: &str) -> Result<Option<Environment>> {
        let Ok(name) = word.parse::<EnvironmentName>() else { return Ok(None) };
        Ok(self.store.environments(workspace.id)?.into_iter().find(|environment| environment.name == name))
    }

    fn workspace_named(&self, word: &str) -> Result<Option<Workspace>> {
        let Ok(name) = word.parse::<WorkspaceName>() else { return Ok(None) };
        Ok(self.store.workspaces()?.into_iter().find(|workspace| workspace.name == name))
    }

    /// Workspace, environment and perhaps an instance's name for the words.
    ///
    /// # Errors
    /// When they lead nowhere.
    pub(crate) fn spot(&self, words: &TargetWords) -> Result<Spot> {
        let here = self.here()?.map(|(_, workspace)| workspace);
        let no_stack = || {
            Error::new(Kind::NotFound, "no-stack", "there is no known stack in this folder")
                .hint("name one as WORKSPACE/ENVIRONMENT/INSTANCE (`sidestack ls --all` lists them), or run `sidestack up` here")
        };
        let chosen = |workspace: &Workspace| match &words.environment {
            Some(name) => {
                self.environment_named(workspace, name)?.ok_or_else(|| self.unknown_environment(workspace, name))
            }
            None => self.default_environment(workspace),
        };
        let name = |word: &str| {
            word.parse::<InstanceName>().map_err(|error| Error::new(Kind::Usage, "target", error.to_string()))
        };
        let spot =
            |workspace, environment, instance| Spot { workspace, environment, instance, revision: words.revision };
        match words.parts.as_slice() {
            [] => {
                let workspace = here.ok_or_else(no_stack)?;
                let environment = chosen(&workspace)?;
                Ok(spot(workspace, environment, None))
            }
            [one] => self.spot_of_one(one, here, words, &chosen),
            [first, second] => {
                if let Some(workspace) = &here
                    && let Some(environment) = self.environment_named(workspace, first)?
                {
                    return Ok(spot(workspace.clone(), environment, Some(name(second)?)));
                }
                let workspace = self.workspace_named(first)?.ok_or_else(|| self.unknown(first))?;
                match self.environment_named(&workspace, second)? {
                    Some(environment) => Ok(spot(workspace, environment, None)),
                    None => {
                        let environment = chosen(&workspace)?;
                        Ok(spot(workspace, environment, Some(name(second)?)))
                    }
                }
            }
            [first, second, third, ..] => {
                let workspace = self.workspace_named(first)?.ok_or_else(|| self.unknown(first))?;
                let environment = self
                    .environment_named(&workspace, second)?
                    .ok_or_else(|| self.unknown_environment(&workspace, second))?;
                Ok(spot(workspace, environment, Some(name(third)?)))
            }
        }
    }

    /// One word: an instance of the environment at hand, an environment, a
    /// workspace, or an instance that only one environment has.
    fn spot_of_one(
        &self,
        word: &str,
        here: Option<Workspace>,
        words: &TargetWords,
        chosen: &dyn Fn(&Workspace) -> Result<Environment>,
    ) -> Result<Spot> {
        let spot =
            |workspace, environment, instance| Spot { workspace, environment, instance, revision: words.revision };
        let name = word.parse::<InstanceName>().ok();
        if let Some(workspace) = here {
            let all = self.store.instances_of(workspace.id)?;
            let environment = chosen(&workspace);
            if let (Ok(environment), Some(name)) = (&environment, &name)
                && all.iter().any(|i| i.environment == environment.id && i.target.instance == *name)
            {
                return Ok(spot(workspace, environment.clone(), Some(name.clone())));
            }
            if let Some(environment) = self.environment_named(&workspace, word)? {
                return Ok(spot(workspace, environment, None));
            }
            if let Some(name) = &name {
                let elsewhere: Vec<&Instance> = all.iter().filter(|i| i.target.instance == *name).collect();
                if let ([only], None) = (elsewhere.as_slice(), &words.environment) {
                    let environment = self.store.environment(workspace.id, &only.target.environment)?;
                    return Ok(spot(workspace, environment, Some(name.clone())));
                }
            }
            if let Some(workspace) = self.workspace_named(word)? {
                let environment = chosen(&workspace)?;
                return Ok(spot(workspace, environment, None));
            }
            // Perhaps one that is yet to be made; whoever needs it to exist finds that out.
            return match name {
                Some(name) => Ok(spot(workspace, environment?, Some(name))),
                None => Err(self.unknown(word)),
            };
        }
        let workspace = self.workspace_named(word)?.ok_or_else(|| self.unknown(word))?;
        let environment = chosen(&workspace)?;
        Ok(spot(workspace, environment, None))
    }

    fn unknown_environment(&self, workspace: &Workspace, word: &str) -> Error {
        let known: Vec<String> =
            self.store.environments(workspace.id).unwrap_or_default().iter().map(|e| e.name.to_string()).collect();
        let error = Error::new(
            Kind::NotFound,
            "not-found",
            format!("workspace `{}` has no environment `{word}`", workspace.name),
        );
        match nearest(word, known.iter().map(String::as_str)) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint(format!("it has {}", known.join(", "))),
        }
    }

    /// Nothing is called so; the nearest target is.
    fn unknown(&self, word: &str) -> Error {
        let all = self.store.instances().unwrap_or_default();
        let mut known: Vec<String> = Vec::new();
        for instance in &all {
            known.push(instance.target.instance.to_string());
            known.push(instance.target.environment.to_string());
            known.push(instance.target.workspace.to_string());
            known.push(instance.target.to_string());
        }
        let error = Error::new(Kind::NotFound, "not-found", format!("nothing is called `{word}`"));
        match nearest(word, known.iter().map(String::as_str)) {
            Some(near) => error.hint(format!("did you mean `{near}`? `sidestack ls --all` lists what there is")),
            None => error.hint("`sidestack ls --all` lists what there is"),
        }
    }

    /// The existing instance that the words mean.
    ///
    /// # Errors
    /// Not found; or `@rN` when several run it.
    pub(crate) fn instance(&self, words: &TargetWords) -> Result<Instance> {
        let spot = self.spot(words)?;
        if let (None, Some(revision)) = (&spot.instance, spot.revision) {
            return self.at_revision(&spot, revision);
        }
        let found = match &spot.instance {
            Some(name) => self.store.instance(spot.environment.id, name)?,
            None => self.of_checkout(&spot)?,
        };
        let found = found.ok_or_else(|| {
            if spot.instance.is_none() {
                let message =
                    format!("this folder has no instance in `{}/{}`", spot.workspace.name, spot.environment.name);
                return Error::new(Kind::NotFound, "not-found", message)
                    .hint("`sidestack up` makes one; `sidestack ls` lists the others, which can be named");
            }
            let name = spot.instance.as_ref().map_or("main", InstanceName::as_str);
            let all = self.store.instances_of(spot.workspace.id).unwrap_or_default();
            let known: Vec<String> = all
                .iter()
                .filter(|i| i.environment == spot.environment.id)
                .map(|i| i.target.instance.to_string())
                .collect();
            let error = Error::new(
                Kind::NotFound,
                "not-found",
                format!("`{}/{}` has no instance `{name}`", spot.workspace.name, spot.environment.name),
            );
            match nearest(name, known.iter().map(String::as_str)) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None if known.is_empty() => error.hint("`sidestack up` makes one"),
                None => error.hint(format!("it has {}", known.join(", "))),
            }
        })?;
        if let Some(revision) = spot.revision.filter(|revision| found.revision != Some(*revision)) {
            return Err(Error::new(Kind::NotFound, "not-found", format!("`{}` is not at {revision}", found.target))
                .hint(format!("`sidestack up {}@{revision}` moves it there", found.target.instance)));
        }
        Ok(found)
    }

    /// The instance of the current folder; outside linked worktrees, `main` where the folder has none.
    pub(crate) fn of_checkout(&self, spot: &Spot) -> Result<Option<Instance>> {
        if let Some((checkout, workspace)) = self.here()?
            && workspace.id == spot.workspace.id
        {
            let own = self.store.instance_by_checkout(spot.environment.id, &checkout.folder)?;
            // A linked worktree without an instance must not act on the main checkout's: `rm` there would take its data.
            if own.is_some() || checkout.repository.as_ref().is_some_and(|repository| repository.linked) {
                return Ok(own);
            }
        }
        Ok(self.store.instance(spot.environment.id, &InstanceName::main())?)
    }

    fn at_revision(&self, spot: &Spot, revision: RevisionNumber) -> Result<Instance> {
        let mut all: Vec<Instance> = self
            .store
            .instances_of(spot.workspace.id)?
            .into_iter()
            .filter(|i| i.environment == spot.environment.id && i.revision == Some(revision))
            .collect();
        match all.len() {
            1 => Ok(all.remove(0)),
            0 => Err(Error::new(Kind::NotFound, "not-found", format!("no instance is at {revision}"))
                .hint(format!("`sidestack up @{revision}` runs it beside the others"))),
            _ => {
                let names = all.iter().map(|i| i.target.instance.as_str()).collect::<Vec<_>>().join(", ");
                Err(Error::new(Kind::Usage, "ambiguous", format!("several instances are at {revision}"))
                    .hint(format!("name one of {names}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read() {
        let parse =
            |text: &str| TargetWords::parse(text).map(|words| (words.parts.join("|"), words.revision.map(|r| r.0)));
        assert_eq!(parse("shop/dev/main").unwrap(), ("shop|dev|main".to_owned(), None));
        assert_eq!(parse("@r2").unwrap(), (String::new(), Some(2)));
        assert_eq!(parse("demo/main@r12").unwrap(), ("demo|main".to_owned(), Some(12)));
        for bad in ["", "@", "@2", "@rx", "a//b", "/a", "a/b/c/d", "a@r0"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
