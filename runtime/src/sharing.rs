//! What copies of a stack may share: consent, choices, and ports of the files' own.
//!
//! The first copy runs as it would under Compose. A second one that would share
//! something is refused before anything is leased or started, until a person
//! agreed (`trust`), chose, or the other one is gone.

use std::collections::{BTreeMap, BTreeSet};

use sidestack_state::{ChoiceKind, Desired, Instance, Revision, digest_of};
use sidestack_topology::compose::Project;
use sidestack_topology::diagnostic::nearest;
use sidestack_topology::manifest::{IsolationChoices, NetworkChoice, VolumeChoice};
use sidestack_topology::plan::{Answer, Shared};
use sidestack_topology::planner::Draft;

use crate::api::{Chosen, Trusted, UpRequest};
use crate::error::{Error, Kind, Result};
use crate::revise::{content_of, drafted, written_files};
use crate::session::Session;

/// The thing without the service that uses it: two services that mount one socket share it.
fn thing(shared: &Shared) -> &str {
    let item = shared.item.as_str();
    match item.split_once(':') {
        Some((_, thing)) if shared.path.first().is_some_and(|section| section == "services") => thing,
        _ => item,
    }
}

/// Of what another instance has, what this one would share with it.
fn common<'a>(own: &'a [Shared], other: &[Shared], same_folder: bool, runs: bool) -> Vec<&'a Shared> {
    let would = |shared: &&Shared| {
        let holds = match shared.answer {
            Answer::Agreed => false,
            Answer::ConsentHere => same_folder && runs,
            // Data is shared also with one that stands still.
            Answer::Choice(_) => runs || shared.item.starts_with("volume:"),
            Answer::Consent | Answer::Exclusive => runs,
        };
        holds && other.iter().any(|theirs| thing(theirs) == thing(shared))
    };
    own.iter().filter(would).collect()
}

impl Session {
    /// Refuses a copy that would share what nobody agreed to share.
    pub(crate) fn check_sharing(
        &self,
        instance: &Instance,
        workspace_id: i64,
        stored: &Revision,
        draft: &Draft,
    ) -> Result<()> {
        self.tell_same_files(instance, workspace_id, draft)?;
        self.refuse_sharing(instance, workspace_id, stored, draft)
    }

    /// The same in the transaction in which the instance becomes one that runs: of two that begin at once, each would
    /// else see the other as one that does not.
    pub(crate) fn refuse_sharing(
        &self,
        instance: &Instance,
        workspace_id: i64,
        stored: &Revision,
        draft: &Draft,
    ) -> Result<()> {
        if draft.shared.iter().all(|shared| shared.answer == Answer::Agreed) {
            return Ok(());
        }
        let mut agreed: Option<BTreeSet<String>> = None;
        for other in self.store.instances_of(workspace_id)? {
            let Some(revision) = other.revision.filter(|_| other.id != instance.id) else { continue };
            let theirs = content_of(&self.store.revision(other.environment, revision)?).and_then(|c| drafted(&c));
            // One that cannot be planned any more was refused when it was to run.
            let Ok(theirs) = theirs else { continue };
            let same_folder = other.checkout == instance.checkout;
            let runs = other.desired == Desired::Running;
            let all = common(&draft.shared, &theirs.shared, same_folder, runs);
            let agreed = match &agreed {
                Some(agreed) => agreed,
                None => agreed.insert(self.agreed(workspace_id, stored)?),
            };
            let open: Vec<&Shared> = all.into_iter().filter(|shared| !agreed.contains(&shared.item)).collect();
            if let Some(first) = open.first() {
                return Err(refusal(first, &open, &other));
            }
        }
        Ok(())
    }

    /// A first copy runs, with a warning for all that a second one would share. Reading the files tells it too, but
    /// files that were read before are not read again.
    pub(crate) fn warn_of_sharing(&self, workspace_id: i64, stored: &Revision, draft: &Draft) -> Result<()> {
        let open =
            draft.shared.iter().filter(|shared| shared.answer != Answer::Agreed && !self.has_warned(&shared.what));
        let open: Vec<&Shared> = open.collect();
        if open.is_empty() {
            return Ok(());
        }
        let agreed = self.agreed(workspace_id, stored)?;
        for shared in open.into_iter().filter(|shared| !agreed.contains(&shared.item)) {
            self.warn(shared.warning().to_string());
        }
        Ok(())
    }

    /// Files of the folder that a new copy and one that runs here would both write to.
    fn tell_same_files(&self, instance: &Instance, workspace_id: i64, draft: &Draft) -> Result<()> {
        if draft.written.is_empty() || instance.desired == Desired::Running || instance.checkout.is_none() {
            return Ok(());
        }
        for other in self.store.instances_of(workspace_id)? {
            let beside = other.id != instance.id && other.desired == Desired::Running;
            let Some(revision) = other.revision.filter(|_| beside && other.checkout == instance.checkout) else {
                continue;
            };
            let Ok(theirs) = content_of(&self.store.revision(other.environment, revision)?).and_then(|c| drafted(&c))
            else {
                continue;
            };
            let both: Vec<String> = draft
                .written
                .keys()
                .filter(|path| theirs.written.contains_key(*path))
                .map(|p| format!("`{p}`"))
                .collect();
            if !both.is_empty() {
                self.warn(format!(
                    "{} and {} stand in one folder and both write to {}; a worktree has files of its own",
                    instance.target,
                    other.target,
                    both.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// The items that were agreed to for the files of a revision.
    fn agreed(&self, workspace_id: i64, stored: &Revision) -> Result<BTreeSet<String>> {
        let seen = self.store.sightings(stored.id)?;
        let digests: BTreeSet<String> = seen.iter().filter_map(|s| s.files.as_deref()).map(digest_of).collect();
        let consents = self.store.consents(workspace_id)?;
        Ok(consents.into_iter().filter(|(_, digest)| digests.contains(digest)).map(|(item, _)| item).collect())
    }

    /// What the current checkout's stack would share, and what was agreed to. With items, agrees to them, or takes
    /// consent back.
    ///
    /// # Errors
    /// An item that the files do not have; a wrong stack.
    pub fn trust(&self, environment: Option<&str>, items: &[String], withdraw: bool) -> Result<Vec<Trusted>> {
        let checkout = self.checkout_to_read(&UpRequest::default())?;
        let reading = crate::revise::Reading { environment, ..Default::default() };
        // A look writes nothing, not even a revision.
        let (stack, content) = self.read(&checkout, reading)?;
        let digest = digest_of(&written_files(&stack.inputs, &checkout.folder));
        let draft = drafted(&content)?;
        let can = |shared: &&Shared| matches!(shared.answer, Answer::Consent | Answer::ConsentHere);
        let known: Vec<&Shared> = draft.shared.iter().filter(can).collect();
        for item in items {
            if !withdraw && !known.iter().any(|shared| shared.item == *item) {
                return Err(unknown(item, &draft.shared, &known));
            }
        }
        let workspace = if items.is_empty() {
            self.store.workspace_by_identity(&checkout.identity)?.map(|workspace| workspace.id)
        } else {
            Some(self.keep(&checkout, reading, stack, &content, None)?.workspace.id)
        };
        for (workspace, item) in workspace.into_iter().flat_map(|id| items.iter().map(move |item| (id, item))) {
            if withdraw {
                self.store.withdraw_consent(workspace, item)?;
            } else {
                self.store.give_consent(workspace, item, &digest)?;
            }
        }
        let consents = workspace.map(|workspace| self.store.consents(workspace)).transpose()?.unwrap_or_default();
        let agreed: BTreeSet<String> =
            consents.into_iter().filter(|(_, of)| *of == digest).map(|(item, _)| item).collect();
        let told = draft.shared.iter().map(|shared| Trusted {
            item: shared.item.clone(),
            what: shared.what.clone(),
            answer: shared.answer,
            agreed: agreed.contains(&shared.item),
        });
        Ok(told.collect())
    }

    /// What was chosen before for an environment, as far as the files still have it.
    pub(crate) fn remembered(&self, environment_id: i64) -> Result<IsolationChoices> {
        let mut choices = IsolationChoices::default();
        let parsed = |text: &str| serde_json::from_str(text).ok();
        for (name, value) in self.store.choices(environment_id, ChoiceKind::Network)? {
            choices.networks.extend(parsed(&value).map(|choice| (name, choice)));
        }
        for (name, value) in self.store.choices(environment_id, ChoiceKind::Volume)? {
            let value: Option<VolumeChoice> = serde_json::from_str(&value).ok();
            choices.volumes.extend(value.map(|choice| (name, choice)));
        }
        choices.keep = self.store.choices(environment_id, ChoiceKind::Keep)?.into_keys().collect();
        Ok(choices)
    }

    /// Keeps the choices of a command line for the next one.
    pub(crate) fn remember_choices(
        store: &sidestack_state::Store,
        environment_id: i64,
        choices: &IsolationChoices,
    ) -> Result<()> {
        let mut changed = false;
        for (name, choice) in &choices.networks {
            changed |= store.set_choice(environment_id, ChoiceKind::Network, name, &json(choice))?;
        }
        for (name, choice) in &choices.volumes {
            changed |= store.set_choice(environment_id, ChoiceKind::Volume, name, &json(choice))?;
        }
        for name in &choices.keep {
            changed |= store.set_choice(environment_id, ChoiceKind::Keep, name, "")?;
        }
        if changed {
            // What a folder was last read as held for the choices of then.
            store.forget("reading:")?;
        }
        Ok(())
    }
}

/// A choice as it is kept.
fn json(choice: &impl serde::Serialize) -> String {
    serde_json::to_string(choice).unwrap_or_default()
}

/// The external networks and volumes of a model, by key.
fn external(model: Option<&Project>) -> (Vec<&str>, Vec<&str>) {
    let networks = model.into_iter().flat_map(|model| &model.networks);
    let networks = networks.filter(|(_, network)| network.as_ref().is_some_and(|network| network.external));
    let volumes = model.into_iter().flat_map(|model| &model.volumes);
    let volumes = volumes.filter(|(_, volume)| volume.as_ref().is_some_and(|volume| volume.external));
    (networks.map(|(key, _)| key.as_str()).collect(), volumes.map(|(key, _)| key.as_str()).collect())
}

/// The choices that hold: what was typed now, over what the manifest says, over what was typed before.
pub(crate) fn merged(
    manifest: &IsolationChoices,
    remembered: &IsolationChoices,
    typed: &IsolationChoices,
    model: Option<&Project>,
) -> IsolationChoices {
    let mut all = manifest.clone();
    let (networks, volumes) = external(model);
    // What is no longer external was chosen for other files.
    for (key, choice) in remembered.networks.iter().filter(|(key, _)| networks.contains(&key.as_str())) {
        all.networks.entry(key.clone()).or_insert_with(|| choice.clone());
    }
    for (key, choice) in remembered.volumes.iter().filter(|(key, _)| volumes.contains(&key.as_str())) {
        all.volumes.entry(key.clone()).or_insert(*choice);
    }
    all.networks.extend(typed.networks.clone());
    all.volumes.extend(typed.volumes.clone());
    let keep: BTreeSet<String> =
        [&manifest.keep, &remembered.keep, &typed.keep].into_iter().flatten().cloned().collect();
    all.keep = keep.into_iter().collect();
    all
}

/// What was typed (`--share NAME`, `--copy NAME`, `--create NAME`, `--keep NAME`), settled on what the model has.
///
/// # Errors
/// A name of nothing external; a choice that a network cannot have.
pub(crate) fn typed(chosen: &Chosen, model: Option<&Project>) -> Result<IsolationChoices> {
    let mut choices = IsolationChoices { keep: chosen.keep.clone(), ..IsolationChoices::default() };
    let (networks, volumes) = external(model);
    let all = [
        ("share", &chosen.share, Some(NetworkChoice::Share), VolumeChoice::Share),
        ("copy", &chosen.copy, None, VolumeChoice::Copy),
        ("create", &chosen.create, Some(NetworkChoice::Create), VolumeChoice::Create),
    ];
    for (flag, names, network, volume) in all {
        for name in names {
            let key = name.strip_prefix("network:").or(name.strip_prefix("volume:")).unwrap_or(name);
            let is_network = !name.starts_with("volume:") && networks.contains(&key);
            let is_volume = !name.starts_with("network:") && volumes.contains(&key);
            match &network {
                Some(network) if is_network => {
                    choices.networks.insert(key.to_owned(), network.clone());
                }
                None if is_network && !is_volume => {
                    let message = format!("`--{flag} {name}`: a network holds nothing that could be copied");
                    return Err(Error::new(Kind::Usage, "choice", message)
                        .hint(format!("`--create {key}` gives every copy its own")));
                }
                _ => {}
            }
            if is_volume {
                choices.volumes.insert(key.to_owned(), volume);
            }
            if !is_network && !is_volume {
                let message =
                    format!("`--{flag} {name}`: the compose files have no external network or volume `{key}`");
                let error = Error::new(Kind::Usage, "choice", message);
                let known = networks.iter().chain(&volumes).copied();
                return Err(match nearest(key, known.clone()) {
                    Some(near) => error.hint(format!("did you mean `{near}`?")),
                    None if known.clone().next().is_none() => error.hint("nothing in them is external"),
                    None => error.hint(format!("there is {}", known.collect::<Vec<_>>().join(", "))),
                });
            }
        }
    }
    Ok(choices)
}

fn refusal(first: &Shared, all: &[&Shared], other: &Instance) -> Error {
    let more = if all.len() > 1 { format!(" (and {} more)", all.len() - 1) } else { String::new() };
    let message = format!("{}, and {} has it already{more}", first.what, other.target);
    let code = match first.answer {
        Answer::Exclusive => "exclusive",
        Answer::Choice(_) => "needs-choice",
        Answer::Consent | Answer::ConsentHere | Answer::Agreed => "needs-consent",
    };
    let hint = match first.answer {
        Answer::Exclusive => format!("only one can run at a time: `sidestack stop {}`", other.target),
        Answer::Choice(_) => {
            format!("choose {}; `isolation` in sidestack.yaml keeps it", first.answer.flags(&first.item))
        }
        Answer::Consent | Answer::ConsentHere | Answer::Agreed => {
            let items: Vec<String> = all
                .iter()
                .filter(|shared| matches!(shared.answer, Answer::Consent | Answer::ConsentHere))
                .map(|shared| format!("'{}'", shared.item))
                .collect();
            format!("agree with `sidestack trust {}`", items.join(" "))
        }
    };
    let error = Error::new(Kind::Conflict, code, message).hint(hint);
    all.iter().skip(1).fold(error, |error, shared| error.detail(shared.what.clone()))
}

fn unknown(item: &str, shared: &[Shared], known: &[&Shared]) -> Error {
    if let Some(other) = shared.iter().find(|shared| shared.item == item) {
        let message = format!("`{item}` is not a matter of consent");
        return Error::new(Kind::Usage, "trust", message).hint(other.answer.hint(item));
    }
    let error = Error::new(Kind::NotFound, "not-found", format!("the stack here has no item `{item}`"));
    let names: BTreeMap<&str, ()> = known.iter().map(|shared| (shared.item.as_str(), ())).collect();
    match nearest(item, names.keys().copied()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None if names.is_empty() => error.hint("nothing in it needs consent"),
        None => error.hint(format!("there is {}", names.keys().copied().collect::<Vec<_>>().join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(item: &str, answer: Answer) -> Shared {
        let section = match item.split_once(':') {
            Some((section @ ("network" | "volume"), _)) => format!("{section}s"),
            _ => "services".to_owned(),
        };
        Shared { item: item.to_owned(), path: vec![section], what: String::new(), answer }
    }

    #[test]
    fn only_what_both_have_is_shared() {
        let socket = shared("web:/var/run/docker.sock", Answer::Consent);
        let other = shared("proxy:/var/run/docker.sock", Answer::Consent);
        let data = shared("volume:data", Answer::Choice(&["share"]));
        let net = shared("network:edge", Answer::Choice(&["share"]));
        let beside = shared("web:../data", Answer::ConsentHere);
        let own = [socket, data.clone(), net.clone(), beside.clone()];
        let items = |all: Vec<&Shared>| all.into_iter().map(|s| s.item.clone()).collect::<Vec<_>>();
        assert_eq!(items(common(&own, std::slice::from_ref(&other), false, true)), ["web:/var/run/docker.sock"]);
        assert!(common(&own, &[other], false, false).is_empty());
        // Data is shared also with one that stands still, a network is not.
        assert_eq!(items(common(&own, &[data, net], false, false)), ["volume:data"]);
        assert_eq!(items(common(&own, std::slice::from_ref(&beside), true, true)), ["web:../data"]);
        assert!(common(&own, &[beside], false, true).is_empty());
        assert!(common(&own, &[shared("web:privileged", Answer::Consent)], true, true).is_empty());
        // A service may be called as a section is.
        let odd = |name: &str| {
            let item = format!("{name}:/srv");
            Shared { path: vec!["services".to_owned(), name.to_owned()], ..shared(&item, Answer::Consent) }
        };
        assert_eq!(items(common(&[odd("network")], &[odd("volume")], false, true)), ["network:/srv"]);
    }

    #[test]
    fn what_is_typed_wins_and_what_was_typed_for_other_files_is_passed_over() {
        let model: Project = serde_json::from_value(serde_json::json!({
            "volumes": {"data": {"external": true}, "own": {}}, "networks": {"edge": {"external": true}},
        }))
        .unwrap();
        let chosen = Chosen { copy: vec!["data".to_owned()], ..Chosen::default() };
        let now = typed(&chosen, Some(&model)).unwrap();
        let before = IsolationChoices {
            volumes: [("data", VolumeChoice::Share), ("own", VolumeChoice::Copy)]
                .map(|(k, v)| (k.to_owned(), v))
                .into(),
            networks: [("edge".to_owned(), NetworkChoice::Create)].into(),
            keep: vec!["A".to_owned()],
        };
        let all = merged(&IsolationChoices::default(), &before, &now, Some(&model));
        assert_eq!(all.volumes, [("data".to_owned(), VolumeChoice::Copy)].into());
        assert_eq!(all.networks, [("edge".to_owned(), NetworkChoice::Create)].into());
        assert_eq!(all.keep, ["A"]);
        for (chosen, expected) in [
            (Chosen { share: vec!["own".to_owned()], ..Chosen::default() }, "no external network or volume `own`"),
            (Chosen { copy: vec!["edge".to_owned()], ..Chosen::default() }, "nothing that could be copied"),
            (
                Chosen { create: vec!["volume:edge".to_owned()], ..Chosen::default() },
                "no external network or volume `edge`",
            ),
        ] {
            let error = typed(&chosen, Some(&model)).unwrap_err();
            assert!(error.message.contains(expected), "{}", error.message);
        }
    }
}
