//! Brings a held instance to one revision: plan, observe, decide, execute, record.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use jiff::ToSpan;
use sidestack_state::{Applied, Desired, Instance, Outcome as Recorded};
use sidestack_topology::names::{InstanceName, RevisionNumber};
use sidestack_topology::plan::Plan;
use sidestack_topology::planner::Draft;
use sidestack_topology::render::{self, Images, Rendered};

use super::only::Only;
use super::recorded::new_record;
use super::{Held, lines};
use crate::api::StepLine;
use crate::decide::{self, Decision, Known, Refusal, Step};
use crate::digest::{self, Digests, Secrets};
use crate::engine::compose::{ComposeCall, ComposeInput};
use crate::engine::{Engine, EngineError};
use crate::error::{Error, Kind, Result};
use crate::execute::{Execution, Outcome};
use crate::observe::{self, Observed};
use crate::record::Record;
use crate::revise::{Planned, content_of, drafted};
use crate::secrets::{Masker, Reference};
use crate::session::Session;

/// How an apply is done.
#[derive(Debug, Clone)]
pub(crate) struct How {
    pub(crate) verb: &'static str,
    pub(crate) cause: String,
    pub(crate) wait: bool,
    pub(crate) timeout: Duration,
    pub(crate) move_ports: bool,
    pub(crate) build: bool,
    pub(crate) pull: bool,
    pub(crate) restart: BTreeSet<String>,
    /// Publish the ports that the files name; with none, as it is.
    pub(crate) own_ports: Option<bool>,
    /// Which services.
    pub(crate) only: Only,
}

/// What an apply did.
#[derive(Debug)]
pub(crate) struct Applying {
    pub(crate) changed: bool,
    pub(crate) steps: Vec<StepLine>,
}

/// A plan with its secrets, rendered.
pub(super) struct Prepared {
    pub(super) planned: Planned,
    rendered: Rendered,
    secrets: Secrets,
    masker: Masker,
    pub(super) digests: Digests,
    /// Services that are left as they are.
    pub(super) rest: Option<BTreeSet<String>>,
}

/// How many failed binds a first start gets over, each on another slot.
const BINDS: usize = 3;
/// How many overlapping subnets it gets over, each in another range.
const OVERLAPS: usize = 6;
/// How long a port that Docker could not bind is passed over.
const QUARANTINE_MINUTES: i64 = 10;

impl Session {
    /// See the module. The instance's revision is set to `revision`.
    pub(crate) fn apply(
        &self,
        held: &mut Held,
        workspace_id: i64,
        revision: RevisionNumber,
        how: &How,
    ) -> Result<Applying> {
        let target = held.instance.target.clone();
        let result = self.apply_inner(held, workspace_id, revision, how).map_err(|error| error.about(&target));
        if let Some(early) = held.early.take() {
            let ended = self.wait(async {
                early.cancel().await;
                Ok(())
            });
            return result.and_then(|applying| ended.map(|()| applying));
        }
        result
    }

    /// Starts Compose on what never ran, where it is sure to be needed: its start takes as long as
    /// everything that is to be asked before its model is known. It gets none unless that is decided.
    fn start_early(&self, held: &mut Held, draft: &Draft, how: &How) -> Result<()> {
        let instance = &held.instance;
        let checkout = instance.checkout.as_ref().filter(|folder| folder.is_dir());
        let (Some(checkout), true) = (checkout, held.interrupted.is_empty()) else { return Ok(()) };
        // What is built, pulled or copied takes its time in any case, and more words.
        let builds = draft.services.values().any(|service| service.compose.build.is_some());
        let more = how.build || how.pull || builds || !draft.copies.is_empty() || how.only != Only::All;
        let nothing = draft.service_names().next().is_none();
        if more || nothing || self.store.last_applied(instance.id)?.is_some() {
            return Ok(());
        }
        let model = ComposeInput::Stdin(Vec::new());
        let mut call = ComposeCall::new(&instance.target.project(), checkout, model, &["create"]);
        call.environment = self.env.clone();
        // Whatever stands against it is told when it is needed.
        let Ok(compose) = self.compose() else { return Ok(()) };
        let Ok(output) = held.lock.file().try_clone() else { return Ok(()) };
        held.early = self.wait(async { Ok(compose.start(&call, output).ok()) })?;
        Ok(())
    }

    fn apply_inner(&self, held: &mut Held, workspace_id: i64, revision: RevisionNumber, how: &How) -> Result<Applying> {
        let stored = self.store.revision(held.instance.environment, revision)?;
        let first = self.store.last_good(held.instance.id)?.is_none();
        if held.instance.desired == Desired::Stopped && held.instance.daemon.is_some() {
            // It will be started in any case: another daemon is refused before anything is leased. To one
            // that was never anywhere every daemon is right.
            self.right_daemon(&held.instance)?;
        }
        let mut avoid = BTreeSet::new();
        let mut lost = BTreeSet::new();
        let (mut binds, mut overlaps) = (0, 0);
        let content = content_of(&stored)?;
        let draft = drafted(&content)?;
        loop {
            self.check_sharing(&held.instance, workspace_id, &stored, &draft)?;
            if first {
                self.warn_of_sharing(workspace_id, &stored, &draft)?;
            }
            if held.early.is_none() {
                self.start_early(held, &draft, how)?;
            }
            held.slot = None;
            (held.instance, held.slot) = self.lease(&held.instance, &draft, &avoid)?;
            self.take_own_ports(&held.instance, &draft, how, &lost)?;
            let mut instance = held.instance.clone();
            instance.revision = Some(revision);
            let mut planned = self.placed(&instance, workspace_id, draft.clone())?;
            let rest = match &how.only {
                Only::All => None,
                only => {
                    let last = self.store.last_applied(instance.id)?;
                    let record = last.map(|last| Record::parse(&last.record)).unwrap_or_default();
                    self.narrow(&mut planned.plan, &content, || self.containers(&instance), &record, only)?
                }
            };
            let prepared = Prepared { rest, ..self.prepare(planned)? };
            let error = match self.attempt(held, &stored, revision, prepared, how) {
                Ok(applying) => return Ok(applying),
                Err(error) => error,
            };
            let again = match error.engine.as_deref() {
                // One that the files name is published only where it is free.
                Some(EngineError::PortTaken { port: Some(port), .. })
                    if self.store.own_ports(held.instance.id)?.contains(port) =>
                {
                    lost.insert(*port);
                    continue;
                }
                Some(EngineError::PortTaken { port, .. }) if (first || how.move_ports) && binds < BINDS => {
                    binds += 1;
                    self.quarantine(*port)?;
                    true
                }
                // Ports stay; addresses are nobody's promise while no network is there.
                Some(EngineError::PoolOverlap { .. }) if overlaps < OVERLAPS => {
                    overlaps += 1;
                    let range = self.move_range()?;
                    if first {
                        self.clear(&held.instance)?;
                    }
                    self.store.move_subnet(held.instance.id, &range)?;
                    held.instance = self.store.instance_by_id(held.instance.id)?;
                    continue;
                }
                _ => false,
            };
            if !again {
                return Err(error);
            }
            self.note(format!("{}; another slot is taken", error.message));
            self.clear(&held.instance)?;
            avoid.extend(self.unlease(&held.instance)?);
            held.instance = self.store.instance_by_id(held.instance.id)?;
        }
    }

    /// Lets `main` publish the ports that the files name beside its leased ones, as far as they are free: READMEs,
    /// bookmarks and callbacks name them. `lost` are those that Docker could not bind just now.
    fn take_own_ports(&self, instance: &Instance, draft: &Draft, how: &How, lost: &BTreeSet<u16>) -> Result<()> {
        let had = self.store.own_ports(instance.id)?;
        let named = draft.publishes.iter().filter_map(|publish| Some((publish.own?, publish)));
        let asked = how.own_ports.unwrap_or(true) && instance.target.instance == InstanceName::main();
        // What runs is not created again because a port came free.
        let more = how.own_ports == Some(true) && instance.desired == Desired::Stopped;
        let mut free = BTreeSet::new();
        for (port, publish) in named.filter(|_| asked) {
            // Its own containers hold those that it has; Docker's bind has the last word.
            let held = had.contains(&port);
            let protocol = match publish.protocol {
                sidestack_topology::module::Protocol::Tcp => crate::ports::Protocol::Tcp,
                sidestack_topology::module::Protocol::Udp => crate::ports::Protocol::Udp,
            };
            if !lost.contains(&port) && (held || (more && crate::ports::probe(&[(port, protocol)]).is_empty())) {
                free.insert(port);
            } else if held || more {
                let who = self.holder(port);
                self.note(format!("port {port} of `{}` is held by {who}; the leased port serves it", publish.service));
            }
        }
        let has = self.store.claim_own_ports(instance.id, &free)?;
        for port in free.difference(&has) {
            self.note(format!("port {port} is another instance's own; the leased port serves it"));
        }
        Ok(())
    }

    fn quarantine(&self, port: Option<u16>) -> Result<()> {
        if let Some(port) = port
            && let Ok(until) = jiff::Timestamp::now().checked_add((QUARANTINE_MINUTES * 60).seconds())
        {
            self.store.quarantine_port(port, until)?;
        }
        Ok(())
    }

    fn prepare(&self, planned: Planned) -> Result<Prepared> {
        let secrets = self.resolve(&planned.plan)?;
        for (reference, value) in &secrets {
            let limit = 131_066;
            let exposed = !planned.plan.exposed.is_empty();
            if exposed && value.expose().len() > limit {
                return Err(Error::new(
                    Kind::Usage,
                    "value-too-long",
                    format!(
                        "the value of `{reference}` has {} bytes; a variable holds at most {limit}",
                        value.expose().len()
                    ),
                )
                .hint("give it as a file"));
            }
        }
        check_sizes(&planned.plan)?;
        let rendered = render::render(&planned.plan, &Images::default());
        let digests = digest::of_plan(&planned.plan, &rendered, &secrets, self.store.machine_key());
        let masker = Masker::new(secrets.values());
        Ok(Prepared { planned, rendered, secrets, masker, digests, rest: None })
    }

    /// The values of every secret that a plan names.
    pub(crate) fn resolve(&self, plan: &Plan) -> Result<Secrets> {
        let names = plan.secrets();
        if names.is_empty() {
            return Ok(Secrets::new());
        }
        let mut references = BTreeSet::new();
        for name in &names {
            let reference = name.parse::<Reference>().map_err(|error| {
                Error::new(Kind::Usage, "secret-reference", format!("`{name}` is no secret reference: {error}"))
            })?;
            references.insert(reference);
        }
        let base = std::path::PathBuf::from(&plan.placement.checkout);
        let resolver = self.resolver(base);
        let mut secrets = Secrets::new();
        for (reference, value) in resolver.resolve_all(&references) {
            secrets.insert(reference.as_str().to_owned(), value?);
        }
        Ok(secrets)
    }

    /// One try.
    fn attempt(
        &self,
        held: &mut Held,
        stored: &sidestack_state::Revision,
        revision: RevisionNumber,
        mut prepared: Prepared,
        how: &How,
    ) -> Result<Applying> {
        let instance = held.instance.clone();
        let last = self.store.last_applied(instance.id)?;
        let mut record = match &last {
            Some(last) => Record::parse(&last.record),
            // What the data is that it took over from its removed namesake.
            None => self.store.inherited_record(instance.id)?.as_deref().map(Record::inherited).unwrap_or_default(),
        };
        if !held.interrupted.is_empty() {
            // Nobody knows what the killed verb had handed to Docker.
            record.services.clear();
        }
        let ready = self.store.all_ready()?;
        let engine = self.engine()?;
        let install = self.store.install_id();
        let mut observed = self.wait(observe::glance(engine, install, &instance.uid, &ready))?;
        let refresh = how.build || how.pull;
        // Nearly no stack begins with a copy, and a look into the store is one.
        let copied = if prepared.planned.plan.copies.is_empty() { BTreeSet::new() } else { self.store.copied()? };
        let stopped = instance.desired == Desired::Stopped;
        let known = Known { record: &record, ready: &ready, copied: &copied, stopped };
        let desired = |prepared: &Prepared| -> Decision {
            let desired = decide::Desired {
                plan: &prepared.planned.plan,
                digests: &prepared.digests,
                restart: &how.restart,
                refresh,
                partial: prepared.rest.is_some(),
            };
            decide::decide(desired, &observed, known)
        };
        let decision = desired(&prepared);
        if decision.steps.is_empty() && decision.refusals.is_empty() {
            let good = last.as_ref().is_some_and(|last| {
                last.outcome == Recorded::Ok && last.digest == prepared.digests.whole && last.revision == revision
            });
            if good
                && instance.desired == Desired::Running
                && held.interrupted.is_empty()
                && instance.revision == Some(revision)
            {
                return Ok(Applying { changed: false, steps: Vec::new() });
            }
        }
        // Something is to be done: the whole snapshot, and the right daemon.
        let plan = Some(&prepared.planned.plan);
        let daemon = self.wait(async {
            let rest = observe::complete(engine, install, &instance.uid, &mut observed, plan);
            let (rest, daemon) = futures_util::join!(rest, engine.daemon());
            rest?;
            Ok(daemon?)
        })?;
        let daemon = self.is_right(&instance, daemon)?;
        let images = self.images(stored, &prepared.planned, &observed, how)?;
        prepared.rendered = render::render(&prepared.planned.plan, &images);
        let desired = decide::Desired {
            plan: &prepared.planned.plan,
            digests: &prepared.digests,
            restart: &how.restart,
            refresh,
            partial: prepared.rest.is_some(),
        };
        let decision = decide::decide(desired, &observed, known);
        if let Some(refusal) = decision.refusals.first() {
            let of_data = matches!(
                refusal,
                Refusal::VolumeChanged { .. } | Refusal::NetworkChanged { .. } | Refusal::DataFormat { .. }
            );
            let taken_over = last.is_none() && of_data;
            let hint = if taken_over {
                "the data is that of a removed instance: put the files back as they were to go on with it, or start empty with `sidestack rm --volumes` and `sidestack up`, or with `sidestack up --fresh`, which leaves it where it is".to_owned()
            } else {
                refusal.hint()
            };
            return Err(Error::new(refusal.kind(), refusal.code(), refusal.to_string()).hint(hint));
        }
        self.check_builds(stored, &prepared.planned.plan, &built(&prepared.planned.plan, &decision, &images))?;
        self.execute(held, revision, &prepared, &decision, record, &daemon, &observed, how)
    }

    /// Images under the names they have here: a pin in the place of a name that
    /// means another image by now, and no build where its result is there.
    fn images(
        &self,
        stored: &sidestack_state::Revision,
        planned: &Planned,
        observed: &Observed,
        how: &How,
    ) -> Result<Images> {
        let mut images = Images::default();
        let pins = self.store.pins(stored.id)?;
        for (name, service) in &planned.plan.services {
            let Some(image) = &service.compose.image else { continue };
            let there = observed.images.get(image).and_then(Option::as_ref);
            if service.compose.build.is_some() {
                if there.is_some() && !how.build {
                    images.built.insert(name.clone());
                }
                continue;
            }
            let Some(pin) = pins.get(name) else { continue };
            if how.pull || there.is_some_and(|there| there.id == pin.image_id) {
                continue;
            }
            let engine = self.engine()?;
            let pinned = self.wait(async { Ok(engine.image(&pin.image_id).await?) })?;
            if pinned.is_some() {
                images.replace.insert(name.clone(), pin.image_id.clone());
            } else if there.is_some() {
                self.warn(format!(
                    "the image that {} ran `{name}` with first is gone; `{image}` is another by now",
                    stored.number
                ));
            }
        }
        Ok(images)
    }

    #[expect(clippy::too_many_arguments, reason = "the end of one straight line; a struct would only name it twice")]
    fn execute(
        &self,
        held: &mut Held,
        revision: RevisionNumber,
        prepared: &Prepared,
        decision: &Decision,
        record: Record,
        daemon: &str,
        observed: &Observed,
        how: &How,
    ) -> Result<Applying> {
        let instance = &held.instance;
        let compose = if decision.steps.iter().any(|step| matches!(step, Step::Create { .. } | Step::Recreate { .. })) {
            Some(self.compose()?)
        } else {
            None
        };
        // One transaction, so one wait for the disk.
        self.store.atomically(|store| -> Result<()> {
            let draft = &prepared.planned.draft;
            if !draft.shared.is_empty() {
                let workspace = store.workspace(&instance.target.workspace)?.id;
                let stored = store.revision(instance.environment, revision)?;
                self.refuse_sharing(instance, workspace, &stored, draft)?;
            }
            store.begin_intent(instance.id, how.verb, &revision.to_string())?;
            store.set_desired(instance.id, Desired::Running)?;
            store.set_revision(instance.id, revision)?;
            store.set_daemon(instance.id, Some(daemon))?;
            Ok(())
        })?;
        let plan = &prepared.planned.plan;
        let tree = self.tree(&plan.project);
        let execution = Execution {
            engine: self.engine()?,
            compose,
            early: Cell::new(held.early.take()),
            copying: &|volume, finished| Ok(self.store.set_copied(volume, finished)?),
            environment: &self.env,
            install: self.store.install_id(),
            plan,
            rendered: &prepared.rendered,
            secrets: &prepared.secrets,
            masker: &prepared.masker,
            lock: &held.lock,
            tree: &tree,
            reporter: &*self.reporter,
            began: self.began,
            wait: how.wait,
            timeout: how.timeout,
            settled: &decision.settled,
            build: how.build,
            pull: how.pull,
        };
        let mut outcome = self.wait(async { Ok(execution.run(&decision.steps).await) })?;
        // Before anything of it is printed or kept: Docker quotes commands and variables.
        outcome.failure = outcome.failure.take().map(|error| masked(error, &prepared.masker));
        let failure = outcome.failure.clone();
        let before: Vec<String> = record.services.values().flat_map(|service| service.containers.clone()).collect();
        let record =
            Record { daemon: Some(daemon.to_owned()), ..new_record(record, prepared, decision, &outcome, observed) };
        // Where Compose ended in the middle, what is gone is not known.
        let known = failure.is_none() || outcome.containers.is_some();
        let stays = |id: &String| record.services.values().any(|service| service.containers.contains(id));
        let gone: Vec<&String> = before.iter().filter(|id| known && !stays(id)).collect();
        self.store.atomically(|store| -> Result<()> {
            for (container, started) in &outcome.ready {
                store.record_ready(container, started)?;
            }
            for container in gone {
                store.forget_ready(container)?;
            }
            store.record_applied(
                instance.id,
                &Applied {
                    digest: prepared.digests.whole.clone(),
                    revision,
                    at: jiff::Timestamp::now(),
                    outcome: match &failure {
                        None => Recorded::Ok,
                        Some(error) => Recorded::Failed(error.message.clone()),
                    },
                    record: record.text(),
                },
            )?;
            if failure.is_none() {
                self.pin(instance, revision, plan, &outcome, observed)?;
            }
            let word = if failure.is_none() { "ok" } else { "failed" };
            let mut detail: Vec<String> = decision.steps.iter().map(|s| format!("{s}: {}", s.cause())).collect();
            if let Some(error) = &failure {
                detail.push(error.message.clone());
                detail.extend(error.detail.clone());
            }
            self.transition(instance, how.verb, &how.cause, word, &detail.join("\n"))?;
            self.clear_intents(instance)
        })?;
        if failure.is_none() {
            crate::tree::sweep(&tree, plan);
        }
        held.interrupted.clear();
        held.instance = self.store.instance_by_id(instance.id)?;
        match failure {
            None => Ok(Applying { changed: true, steps: lines(&decision.steps) }),
            Some(error) => Err(self.explained(error)),
        }
    }

    /// A taken port with its holder's name.
    fn explained(&self, mut error: Error) -> Error {
        if let Some(EngineError::PortTaken { port: Some(port), .. }) = error.engine.as_deref() {
            error.message = format!("port {port} is taken by {}", self.holder(*port));
        }
        error
    }

    /// The images that a revision first ran with are its images for good.
    fn pin(
        &self,
        instance: &Instance,
        revision: RevisionNumber,
        plan: &Plan,
        outcome: &Outcome,
        observed: &Observed,
    ) -> Result<()> {
        let stored = self.store.revision(instance.environment, revision)?;
        let containers = outcome.containers.as_ref().unwrap_or(&observed.containers);
        let pinned = self.store.pins(stored.id)?;
        for container in containers {
            let Some(service) = &container.service else { continue };
            let Some(image) = plan.services.get(service).and_then(|planned| planned.compose.image.as_ref()) else {
                continue;
            };
            if !pinned.contains_key(service) {
                self.store.add_pin(stored.id, service, image, &container.image_id)?;
            }
        }
        Ok(())
    }
}

/// The services that Compose would build.
fn built<'a>(plan: &Plan, decision: &'a Decision, images: &Images) -> Vec<&'a str> {
    let created = decision.steps.iter().flat_map(|step| match step {
        Step::Create { services } => services.as_slice(),
        _ => &[],
    });
    let builds = |name: &str| plan.services.get(name).is_some_and(|service| service.compose.build.is_some());
    created.map(|(name, _)| name.as_str()).filter(|name| builds(name) && !images.built.contains(*name)).collect()
}

/// A variable that is too long fails the container's start with a bare system error.
fn check_sizes(plan: &Plan) -> Result<()> {
    const LIMIT: usize = 131_066;
    for (name, service) in &plan.services {
        for (key, value) in &service.compose.environment {
            let length = value.as_ref().map_or(0, String::len) + key.len();
            if length > LIMIT {
                return Err(Error::new(
                    Kind::Usage,
                    "value-too-long",
                    format!(
                        "`{key}` of `{name}` has {length} bytes; a variable holds at most {LIMIT}, its name included"
                    ),
                )
                .hint("give it as a file"));
            }
        }
    }
    Ok(())
}

/// An error without the values of secrets. The engine's own error stays with it for what acts on
/// it, and is never shown.
fn masked(mut error: Error, masker: &Masker) -> Error {
    error.message = masker.mask(&error.message);
    error.detail = error.detail.iter().map(|line| masker.mask(line)).collect();
    error.hint = error.hint.map(|hint| masker.mask(&hint));
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::SecretValue;

    #[test]
    fn p28_an_error_of_docker_is_told_without_the_secret_it_quotes() {
        let masker = Masker::new([&SecretValue::new("hunter22".to_owned())]);
        let error = Error::new(Kind::Failed, "x", "exec: \"/nonexistent-hunter22\": stat: no such file")
            .detail("said hunter22")
            .hint("look at hunter22");
        let error = masked(error, &masker);
        assert_eq!(error.message, "exec: \"/nonexistent-***\": stat: no such file");
        assert_eq!((error.detail, error.hint), (vec!["said ***".to_owned()], Some("look at ***".to_owned())));
    }
}
