//! `up`: commit what is new, find or make the instance, bring it there.

use std::path::PathBuf;
use std::time::Duration;

use sidestack_state::{Environment, Instance, Scope, StoreError, Workspace};
use sidestack_topology::names::{InstanceName, RevisionNumber};

use super::apply::How;
use super::only::{Only, only};
use super::remove::lives_with_its_data;
use super::{Held, unchanged};
use crate::api::{Place, TargetWords, UpReport, UpRequest};
use crate::error::{Error, Kind, Result};
use crate::managed::Managed;
use crate::session::Session;
use crate::source::{self, Checkout};
use crate::whereabouts::reads_nothing;

/// What `up` is about, before anything is locked.
struct Subject {
    workspace: Workspace,
    environment: Environment,
    revision: RevisionNumber,
    committed: bool,
    name: InstanceName,
    checkout: Option<PathBuf>,
    /// Stays at its revision.
    pinned: bool,
    /// One more of its folder.
    additional: bool,
    /// To be made by this call or not at all.
    anew: bool,
    /// It was made by this call.
    made: bool,
    /// Why it runs this revision.
    cause: String,
}

impl Session {
    /// See the module.
    ///
    /// # Errors
    /// A wrong stack (nothing is written then), a conflict, a service that fails.
    pub fn up(&self, request: &UpRequest) -> Result<UpReport> {
        if request.dry_run {
            return self.rehearse(request);
        }
        let mut managed = match self.wanted(request)? {
            Some(wanted) => Some(self.managed(wanted, request)?),
            None => None,
        };
        let result = self.up_at(request, &mut managed);
        if let (Err(_), Some(managed)) = (&result, &mut managed) {
            // What came to nothing leaves no worktree behind, and no other code than what runs.
            self.undo(managed);
        }
        result
    }

    /// The same, in the worktree of a commit if there is one.
    fn up_at(&self, request: &UpRequest, managed: &mut Option<Managed>) -> Result<UpReport> {
        let mut subject = self.subject(request, managed.as_ref())?;
        let limit = request.timeout.max(Duration::from_secs(10));
        let mut held = self.hold_or_make(&mut subject, request, limit)?;
        if held.waited && !subject.anew {
            // Whoever held the lock may have applied newer files than those that were read before.
            let now = self.subject(request, managed.as_ref())?;
            if now.name == subject.name {
                subject = now;
            }
        }
        let gone = held.instance.checkout.as_ref().is_none_or(|folder| !folder.exists());
        if let Some(folder) = subject.checkout.as_ref().filter(|_| gone) {
            self.store.set_checkout(held.instance.id, Some(folder))?;
            held.instance.checkout = Some(folder.clone());
        }
        // What runs has the folder that was deleted, not the one that was made in its place.
        let remade = managed.as_ref().is_some_and(Managed::is_made) && held.instance.revision.is_some();
        let stale = if remade { self.containers(&held.instance)? } else { Vec::new() };
        let how = How {
            verb: "up",
            cause: subject.cause.clone(),
            wait: request.wait,
            timeout: request.timeout,
            move_ports: request.move_ports,
            build: request.build,
            pull: request.pull,
            restart: stale.into_iter().filter_map(|container| container.service).collect(),
            own_ports: Some(request.own_ports),
            only: only(request),
        };
        if request.move_ports && self.containers(&held.instance)?.iter().all(|c| !c.status.is_alive()) {
            self.right_daemon(&held.instance)?;
            self.unlease(&held.instance)?;
            held.instance = self.store.instance_by_id(held.instance.id)?;
        }
        match self.apply(&mut held, subject.workspace.id, subject.revision, &how) {
            Ok(applying) if !applying.changed => {
                Ok(unchanged(self.describe_instance(&held.instance, false)?, subject.committed))
            }
            Ok(applying) => Ok(UpReport {
                description: self.describe_instance(&held.instance, false)?,
                changed: true,
                committed: subject.committed,
                steps: applying.steps,
            }),
            Err(error) => {
                let error = self.back(&mut held, &subject, request, managed, error);
                let taken_back = self.take_back(&held);
                if let (Ok(now), Some(managed)) = (self.store.instance_by_id(held.instance.id), managed)
                    && now.revision == Some(subject.revision)
                {
                    // It is left for looking at, with its code.
                    managed.keep();
                }
                match taken_back {
                    Ok(()) => Err(error),
                    Err(second) => Err(error.detail(second.message)),
                }
            }
        }
    }

    /// The instance, held; made when it is not there, also when somebody removes
    /// it while this waits for its lock.
    fn hold_or_make(&self, subject: &mut Subject, request: &UpRequest, limit: Duration) -> Result<Held> {
        let mut tries = 0;
        loop {
            tries += 1;
            let instance = self.find_or_make(subject, request)?;
            match self.hold(&instance, "up", limit) {
                Err(error) if error.kind == Kind::NotFound && tries < 5 => {}
                Ok(held) if instance.revived && instance.revision.is_none() => {
                    self.note(format!(
                        "{} takes over the data that its removed namesake left (`--fresh` would not)",
                        instance.target
                    ));
                    return Ok(held);
                }
                result => return result,
            }
        }
    }

    /// An instance that was refused before anything of it was made leaves no trace.
    pub(super) fn take_back(&self, held: &Held) -> Result<()> {
        let now = self.store.instance_by_id(held.instance.id)?;
        let begun = now.revision.is_some() || !self.store.intents_of(now.id)?.is_empty();
        let never = !begun && self.store.last_applied(now.id)?.is_none();
        if never && self.store.variables(Scope::Instance(now.id))?.is_empty() {
            self.store.remove_instance(now.id, now.revived)?;
            let _ = std::fs::remove_file(held.lock.path());
        }
        Ok(())
    }

    /// After a move that failed once it had begun: the last good revision again.
    fn back(
        &self,
        held: &mut Held,
        subject: &Subject,
        request: &UpRequest,
        managed: &mut Option<Managed>,
        error: Error,
    ) -> Error {
        let Ok(now) = self.store.instance_by_id(held.instance.id) else { return error };
        held.instance = now;
        let begun = held.instance.revision == Some(subject.revision);
        let helps = !matches!(error.kind, Kind::Cancelled | Kind::Docker);
        let good = self.store.last_good(held.instance.id).ok().flatten();
        let Some(good) = good.filter(|good| good.revision != subject.revision && begun && helps && request.rollback)
        else {
            return error;
        };
        self.warn(format!("{} goes back to {}", held.instance.target, good.revision));
        if let Some(managed) = managed {
            self.undo(managed);
        }
        let how = How {
            verb: "up",
            cause: format!("{} failed", subject.revision),
            wait: true,
            timeout: request.timeout,
            move_ports: false,
            build: false,
            pull: false,
            restart: Default::default(),
            own_ports: None,
            only: Only::AsBefore,
        };
        let (kind, code) = (Kind::Unhealthy, "rolled-back");
        match self.apply(held, subject.workspace.id, good.revision, &how) {
            Ok(_) => {
                let message = format!(
                    "{} could not be moved to {} and runs {} again: {}",
                    held.instance.target, subject.revision, good.revision, error.message
                );
                Error { kind, code, message, ..error }.hint(format!(
                    "`sidestack diff @{} @{}` shows what changed; --no-rollback leaves things for looking at",
                    good.revision, subject.revision
                ))
            }
            Err(again) => {
                let detail = format!("going back to {} failed too: {}", good.revision, again.message);
                Error { kind, ..error }.detail(detail)
            }
        }
    }

    /// Which instance, at which revision.
    fn subject(&self, request: &UpRequest, managed: Option<&Managed>) -> Result<Subject> {
        let words = &request.target;
        if let Some(managed) = managed {
            return self.managed_subject(request, managed);
        }
        if let Some(revision) = words.revision {
            reads_nothing(request, "a revision")?;
            return self.at_revision_subject(words, revision, request);
        }
        let named = !words.parts.is_empty();
        let existing = if named { Some(self.instance(words)?) } else { None };
        if let Some(instance) = existing.as_ref().filter(|instance| instance.pinned) {
            reads_nothing(request, "an instance that stays at its revision")?;
            return self.pinned_subject(instance);
        }
        let checkout = match existing.as_ref().and_then(|instance| instance.checkout.as_ref()) {
            Some(folder) => self.checkout_of(folder, request)?,
            None => self.checkout_to_read(request)?,
        };
        let environment = match &existing {
            Some(instance) => Some(instance.target.environment.to_string()),
            None => words.environment.clone(),
        };
        let reading = self.reading(request, environment.as_deref(), &self.folder);
        let committed = self.commit(&checkout, reading, request.message.as_deref())?;
        let number = committed.revision.number;
        let (name, pinned) = match (&existing, &request.place) {
            (Some(instance), _) => (instance.target.instance.clone(), false),
            (None, Place::Here) => (self.own_name(&committed.environment, &checkout)?, false),
            (None, Place::Beside) => (InstanceName::of_revision(number), true),
            (None, Place::New(name)) => (self.new_name(&committed.environment, name.as_deref())?, false),
        };
        let anew = matches!(request.place, Place::New(_));
        let additional = existing.is_some_and(|instance| instance.additional);
        let cause = if committed.new { format!("{number} is new") } else { format!("the files are {number}") };
        Ok(Subject {
            workspace: committed.workspace,
            environment: committed.environment,
            revision: number,
            committed: committed.new,
            name,
            checkout: Some(checkout.folder),
            pinned,
            additional: additional || anew,
            anew,
            made: false,
            cause,
        })
    }

    /// The instance of a commit's worktree.
    fn managed_subject(&self, request: &UpRequest, managed: &Managed) -> Result<Subject> {
        let base = managed.base();
        let reading = self.reading(request, request.target.environment.as_deref(), &base);
        let committed = self.commit(&managed.checkout, reading, request.message.as_deref())?;
        let number = committed.revision.number;
        Ok(Subject {
            cause: if committed.new { format!("{number} is new") } else { format!("the commit is {number}") },
            workspace: committed.workspace,
            environment: committed.environment,
            revision: number,
            committed: committed.new,
            name: managed.wanted.name.clone(),
            checkout: Some(managed.checkout.folder.clone()),
            pinned: false,
            additional: false,
            anew: false,
            made: false,
        })
    }

    /// An instance that stays at its revision is brought up at it.
    fn pinned_subject(&self, instance: &Instance) -> Result<Subject> {
        let workspace = self.store.workspace(&instance.target.workspace)?;
        let environment = self.store.environment(workspace.id, &instance.target.environment)?;
        let revision = instance
            .revision
            .or_else(|| instance.target.instance.revision())
            .ok_or_else(|| Error::new(Kind::NotFound, "not-found", format!("{} has no revision", instance.target)))?;
        Ok(Subject {
            workspace,
            environment,
            revision,
            committed: false,
            name: instance.target.instance.clone(),
            checkout: instance.checkout.clone(),
            pinned: true,
            additional: instance.additional,
            anew: false,
            made: false,
            cause: format!("it stays at {revision}"),
        })
    }

    /// `@r3` runs it in an instance of its own; `main@r1` moves `main`.
    fn at_revision_subject(
        &self,
        words: &TargetWords,
        revision: RevisionNumber,
        request: &UpRequest,
    ) -> Result<Subject> {
        let spot = self.spot(words)?;
        let stored = self.store.revision(spot.environment.id, revision)?;
        let existing = match &spot.instance {
            Some(name) => Some(self.store.instance(spot.environment.id, name)?.ok_or_else(|| {
                Error::new(
                    Kind::NotFound,
                    "not-found",
                    format!("`{}/{}` has no instance `{name}`", spot.workspace.name, spot.environment.name),
                )
                .hint(format!("`sidestack up @{revision}` runs it beside the others"))
            })?),
            None => None,
        };
        let (name, pinned) = match (&existing, &request.place) {
            (Some(instance), _) => (instance.target.instance.clone(), instance.pinned),
            (None, Place::New(name)) => (self.new_name(&spot.environment, name.as_deref())?, false),
            (None, _) => (InstanceName::of_revision(revision), true),
        };
        if pinned && name.revision().is_some_and(|own| own != revision) {
            return Err(Error::new(Kind::Usage, "pinned", format!("instance `{name}` stays at its revision"))
                .hint(format!("`sidestack up @{revision}` runs {revision} beside it")));
        }
        let anew = matches!(request.place, Place::New(_));
        let additional = existing.as_ref().is_some_and(|instance| instance.additional);
        let seen = self.store.sightings(stored.id)?;
        let checkout = existing
            .and_then(|instance| instance.checkout)
            .or_else(|| self.here().ok().flatten().filter(|(_, w)| w.id == spot.workspace.id).map(|(c, _)| c.folder))
            .or_else(|| seen.last().map(|sighting| sighting.folder.clone()));
        Ok(Subject {
            workspace: spot.workspace,
            environment: spot.environment,
            revision,
            committed: false,
            name,
            checkout,
            pinned,
            additional: additional || anew,
            anew,
            made: false,
            cause: format!("{revision} was asked for"),
        })
    }

    /// The name of a checkout's own instance: the one it has, else a new one.
    pub(super) fn own_name(&self, environment: &Environment, checkout: &Checkout) -> Result<InstanceName> {
        if let Some(own) = self.store.instance_by_checkout(environment.id, &checkout.folder)?
            && !own.pinned
        {
            return Ok(own.target.instance);
        }
        let name = source::instance_name(checkout);
        let Some(other) = self.store.instance(environment.id, &name)? else { return Ok(name) };
        // A moved folder of the same repository is the same place.
        let moved = other.checkout.as_ref().is_none_or(|folder| !folder.exists());
        if moved || other.checkout.as_ref() == Some(&checkout.folder) {
            return Ok(name);
        }
        let digest = sidestack_state::digest_of(&checkout.folder.display().to_string());
        let stem: String = name.as_str().chars().take(15).collect();
        let text = format!("{}-{}", stem.trim_end_matches('-'), &digest[..4]);
        text.parse()
            .map_err(|error: sidestack_topology::names::NameError| Error::new(Kind::Usage, "name", error.to_string()))
    }

    /// A name for `--new`.
    pub(super) fn new_name(&self, environment: &Environment, name: Option<&str>) -> Result<InstanceName> {
        let parse = |text: &str| {
            text.parse::<InstanceName>().map_err(|error| Error::new(Kind::Usage, "name", error.to_string()))
        };
        if let Some(name) = name {
            let name = parse(name)?;
            if name.is_reserved() {
                return Err(Error::new(Kind::Usage, "name", format!("`{name}` means something of its own"))
                    .hint("choose another name"));
            }
            if self.store.instance(environment.id, &name)?.is_some() {
                return Err(Error::new(Kind::Conflict, "exists", format!("there is an instance `{name}` already"))
                    .hint(format!("`sidestack up {name}` brings it up")));
            }
            return Ok(name);
        }
        for number in 2..1_000 {
            let name = parse(&format!("main-{number}"))?;
            if self.store.instance(environment.id, &name)?.is_none() {
                return Ok(name);
            }
        }
        Err(Error::new(Kind::Conflict, "exists", "there are too many instances"))
    }

    /// The instance's row. One more of something is made by this call or not at all.
    fn find_or_make(&self, subject: &mut Subject, request: &UpRequest) -> Result<Instance> {
        let environment = subject.environment.id;
        for _ in 0..200 {
            let ours = !subject.anew || subject.made;
            if let Some(found) = self.store.instance(environment, &subject.name)?.filter(|_| ours) {
                return Ok(found);
            }
            let (name, folder) = (&subject.name, subject.checkout.as_deref());
            let made = self.store.atomically(|store| {
                let made = if request.fresh {
                    store.create_instance_fresh(environment, name, folder, subject.pinned)?
                } else {
                    store.create_instance(environment, name, folder, subject.pinned)?
                };
                if subject.additional {
                    store.set_additional(made.id, true)?;
                }
                lives_with_its_data(store, &made)?;
                Ok(made)
            });
            match (made, &request.place) {
                // Somebody else made it in the same moment.
                (Err(StoreError::Exists { .. }), Place::New(Some(name))) => {
                    return Err(Error::new(Kind::Conflict, "exists", format!("there is an instance `{name}` already"))
                        .hint(format!("`sidestack up {name}` brings it up")));
                }
                (Err(StoreError::Exists { .. }), Place::New(None)) => {
                    subject.name = self.new_name(&subject.environment, None)?;
                }
                (Err(StoreError::Exists { .. }), _) => {}
                (made, _) => {
                    subject.made = true;
                    return Ok(made?);
                }
            }
        }
        Err(Error::new(Kind::Conflict, "exists", format!("`{}` comes and goes", subject.name)).hint("try again"))
    }
}
