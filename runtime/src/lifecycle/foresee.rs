//! `plan` and `up --dry-run`: what `up` would do. Nothing is leased, nothing is
//! written, and neither a vault nor Docker need be there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use sidestack_state::{Desired, Environment, Instance, Workspace};
use sidestack_topology::diagnostic::has_errors;
use sidestack_topology::isolation;
use sidestack_topology::names::{EnvironmentName, InstanceName, RevisionNumber, Slot, Target};
use sidestack_topology::plan::Plan;
use sidestack_topology::planner::{self, place};
use sidestack_topology::render::{self, Rendered};
use sidestack_topology::revision::Content;

use super::lines;
use super::only::{Only, only};
use crate::api::{Place, PlanReport, UpReport, UpRequest};
use crate::decide::{self, Known, Step};
use crate::error::{Error, Result};
use crate::observe;
use crate::record::Record;
use crate::revise::{content_of, drafted, model_of, workspace_name};
use crate::session::Session;
use crate::source;
use crate::whereabouts::reads_nothing;

impl Session {
    /// What `up` would do.
    ///
    /// # Errors
    /// A wrong stack.
    pub fn plan(&self, request: &UpRequest) -> Result<PlanReport> {
        Ok(self.foresee(request)?.1)
    }

    /// `up --dry-run`.
    pub(super) fn rehearse(&self, request: &UpRequest) -> Result<UpReport> {
        let (instance, report) = self.foresee(request)?;
        Ok(UpReport {
            description: self.describe_instance(&instance, false)?,
            changed: !report.steps.is_empty(),
            committed: report.revision.is_none(),
            steps: report.steps,
        })
    }

    fn foresee(&self, request: &UpRequest) -> Result<(Instance, PlanReport)> {
        let words = &request.target;
        if let Some(revision) = words.revision {
            reads_nothing(request, "a revision")?;
            let spot = self.spot(words)?;
            let stored = self.store.revision(spot.environment.id, revision)?;
            let name = match (&spot.instance, &request.place) {
                (Some(name), _) => name.clone(),
                (None, Place::New(name)) => self.new_name(&spot.environment, name.as_deref())?,
                (None, _) => InstanceName::of_revision(revision),
            };
            let instance = match self.store.instance(spot.environment.id, &name)? {
                Some(instance) => Instance { revision: Some(revision), ..instance },
                None => {
                    let folder = self.here()?.map(|(checkout, _)| checkout.folder);
                    let environment = spot.environment.name.clone();
                    imagined(&spot.workspace, Some(&spot.environment), environment, name, Some(revision), folder)
                }
            };
            return self.foreseen(instance, spot.workspace.id, &content_of(&stored)?, Some(revision), &only(request));
        }
        let named = if words.parts.is_empty() { None } else { Some(self.instance(words)?) };
        let wanted = self.wanted(request)?;
        let glimpse = wanted.as_ref().map(|wanted| self.glimpse(wanted, request)).transpose()?;
        let checkout = match (&glimpse, named.as_ref().and_then(|instance| instance.checkout.as_ref())) {
            (Some(glimpse), _) => glimpse.checkout.clone(),
            (None, Some(folder)) => self.checkout_of(folder, request)?,
            (None, None) => self.checkout_to_read(request)?,
        };
        let environment =
            named.as_ref().map(|instance| instance.target.environment.to_string()).or(words.environment.clone());
        let from = glimpse.as_ref().map_or(&self.folder, |glimpse| &glimpse.base);
        let reading = self.reading(request, environment.as_deref(), from);
        let (stack, content) = self.read(&checkout, reading)?;
        let workspace = match self.store.workspace_by_identity(&checkout.identity)? {
            Some(workspace) => workspace,
            None => Workspace {
                id: -1,
                name: match &stack.manifest.workspace {
                    Some(name) => name.clone(),
                    None => workspace_name(&checkout)?,
                },
                identity: checkout.identity.clone(),
                created: jiff::Timestamp::now(),
            },
        };
        let environment = match workspace.id {
            -1 => None,
            id => self.store.environments(id)?.into_iter().find(|e| e.name == stack.environment),
        };
        let digest = sidestack_state::digest_of(&content.to_canonical_json());
        let revisions = environment.as_ref().map(|e| self.store.revisions(e.id)).transpose()?.unwrap_or_default();
        let revision = revisions.iter().find(|r| r.digest == digest).map(|r| r.number);
        let next = RevisionNumber(revisions.iter().map(|r| r.number.0).max().unwrap_or(0) + 1);
        let name = match (wanted.as_ref().map(|wanted| &wanted.name), &named, &request.place, &environment) {
            (Some(name), ..) => name.clone(),
            (None, Some(instance), _, _) => instance.target.instance.clone(),
            (None, None, Place::Beside, _) => InstanceName::of_revision(revision.unwrap_or(next)),
            (None, None, Place::New(name), Some(environment)) => self.new_name(environment, name.as_deref())?,
            (None, None, Place::New(Some(name)), None) => name.parse().map_err(|error| usage(&error))?,
            (None, None, Place::Here, Some(environment)) => self.own_name(environment, &checkout)?,
            (None, None, Place::New(None) | Place::Here, None) => source::instance_name(&checkout),
        };
        let own = match (named, &environment) {
            (Some(instance), _) => Some(instance),
            (None, Some(environment)) => self.store.instance(environment.id, &name)?,
            (None, None) => None,
        };
        let instance = match own {
            Some(instance) => Instance { revision, ..instance },
            None => {
                let folder = Some(wanted.map_or(checkout.folder, |wanted| wanted.checkout_folder()));
                imagined(&workspace, environment.as_ref(), stack.environment, name, revision, folder)
            }
        };
        let (instance, report) = self.foreseen(instance, workspace.id, &content, revision, &only(request))?;
        Ok((instance, PlanReport { told: stack.diagnostics, ..report }))
    }

    fn foreseen(
        &self,
        instance: Instance,
        workspace_id: i64,
        content: &Content,
        revision: Option<RevisionNumber>,
        only: &Only,
    ) -> Result<(Instance, PlanReport)> {
        let draft = drafted(content)?;
        let mut placement = self.placement(&instance, &draft)?;
        if placement.slot.is_none() {
            placement.slot = self.likely_slot();
            placement.subnet = placement.slot.and_then(|slot| self.likely_subnet(slot));
        }
        number(&mut placement.ports, &crate::lease::port_keys(&draft));
        let networks: Vec<(String, u16)> = place::network_keys(&draft).into_iter().map(|key| (key, 1)).collect();
        number(&mut placement.networks, &networks);
        let layers = self.layers(&instance, workspace_id)?;
        let (mut plan, diagnostics) = planner::place(&draft, &placement, &layers);
        if has_errors(&diagnostics) {
            return Err(Error::invalid(diagnostics).about(&instance.target));
        }
        let model = model_of(content)?;
        let isolation = model.map(|model| isolation::report(&model, &plan)).unwrap_or_default();
        let record = match instance.id {
            -1 => Record::default(),
            id => self.store.last_applied(id)?.map(|last| Record::parse(&last.record)).unwrap_or_default(),
        };
        // Where Docker cannot be asked, nothing is there.
        let containers = || Ok(self.containers(&instance).unwrap_or_default());
        let partial = self.narrow(&mut plan, content, containers, &record, only)?.is_some();
        let rendered = render::render(&plan, &render::Images::default());
        let steps = self.steps_ahead(&instance, &plan, &rendered, &record, partial)?;
        let report = PlanReport {
            target: instance.target.clone(),
            revision,
            tree: rendered.tree(),
            isolation,
            plan,
            told: Vec::new(),
            diagnostics,
            steps: lines(&steps),
        };
        Ok((instance, report))
    }

    /// The steps. Where Docker cannot be asked, those of an empty machine.
    fn steps_ahead(
        &self,
        instance: &Instance,
        plan: &Plan,
        rendered: &Rendered,
        record: &Record,
        partial: bool,
    ) -> Result<Vec<Step>> {
        // A plan may be looked at without the vault; then what holds a secret counts as changed.
        let secrets = self.resolve(plan).unwrap_or_default();
        let digests = crate::digest::of_plan(plan, rendered, &secrets, self.store.machine_key());
        let ready = self.store.all_ready()?;
        let look = || {
            let engine = self.engine()?;
            self.wait(observe::glance(engine, self.store.install_id(), &instance.uid, &ready))
        };
        let observed = match look() {
            Ok(observed) => observed,
            Err(error) => {
                self.warn(format!("{error}; the steps are those of a machine where nothing is there"));
                observe::Observed::default()
            }
        };
        let restart = BTreeSet::new();
        let desired = decide::Desired { plan, digests: &digests, restart: &restart, refresh: false, partial };
        let (stopped, copied) = (instance.desired == Desired::Stopped, self.store.copied()?);
        Ok(decide::decide(desired, &observed, Known { record, ready: &ready, copied: &copied, stopped }).steps)
    }

    /// The slot that a lease would give if nothing else happens until then.
    fn likely_slot(&self) -> Option<Slot> {
        let mut taken = self.unusable_slots().unwrap_or_default();
        taken.extend(self.store.leases().ok()?.into_iter().map(|(slot, _)| slot));
        Slot::all()
            .find(|slot| !taken.contains(slot) && crate::ports::probe_block(slot.first_port(), Slot::PORTS).is_empty())
    }
}

fn usage(error: &sidestack_topology::names::NameError) -> Error {
    Error::new(crate::error::Kind::Usage, "name", error.to_string())
}

/// Numbers for keys that have none yet, as the store would give them.
fn number(numbers: &mut BTreeMap<String, u16>, keys: &[(String, u16)]) {
    // A key tells its own width, also one that this draft does not have.
    let width = |key: &str| key.rsplit_once('*').and_then(|(_, width)| width.parse().ok()).unwrap_or(1);
    let mut taken: BTreeSet<u16> = numbers.iter().flat_map(|(key, first)| *first..*first + width(key)).collect();
    for (key, width) in keys {
        if !numbers.contains_key(key)
            && let Some(free) = (0..u16::MAX - width).find(|n| (*n..n + width).all(|n| !taken.contains(&n)))
        {
            taken.extend(free..free + width);
            numbers.insert(key.clone(), free);
        }
    }
}

/// An instance that is not there, as it would be.
fn imagined(
    workspace: &Workspace,
    environment: Option<&Environment>,
    environment_name: EnvironmentName,
    name: InstanceName,
    revision: Option<RevisionNumber>,
    checkout: Option<PathBuf>,
) -> Instance {
    Instance {
        id: -1,
        uid: "0000000000000000".to_owned(),
        environment: environment.map_or(-1, |environment| environment.id),
        target: Target { workspace: workspace.name.clone(), environment: environment_name, instance: name },
        revision,
        checkout,
        desired: Desired::Stopped,
        daemon: None,
        owner: None,
        slot: None,
        generation: 1,
        pinned: false,
        additional: false,
        revived: false,
        sources: Vec::new(),
        created: jiff::Timestamp::now(),
    }
}
