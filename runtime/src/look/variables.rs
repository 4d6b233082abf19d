//! `env` and `env --explain`: one resolution, the one that is launched with.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use sidestack_state::Instance;
use sidestack_topology::compose::Service;
use sidestack_topology::diagnostic::nearest;
use sidestack_topology::interpolate::Template;
use sidestack_topology::plan::{LayerKind, Variable};
use sidestack_topology::planner::{self, Foreign};
use sidestack_topology::secret;

use super::unknown_service;
use crate::api::{Explained, TargetWords};
use crate::digest::{Secrets, filled};
use crate::error::{Error, Kind, Result};
use crate::revise::Planned;
use crate::secrets::{Reference, SecretValue};
use crate::session::Session;

impl Session {
    /// Variables with their values, for the host or (`container`) as a container of the instance
    /// sees them: one that asked for everything, or those of a `service`, exactly as it has them.
    ///
    /// Only the secrets that stand in them are resolved.
    ///
    /// # Errors
    /// Not found; a secret that cannot be had; for the host, an instance without ports.
    pub fn variables(
        &self,
        words: &TargetWords,
        container: bool,
        service: Option<&str>,
    ) -> Result<BTreeMap<String, SecretValue>> {
        let instance = self.instance(words)?;
        self.variables_of(&instance, container, service).map_err(|error| error.about(&instance.target))
    }

    fn variables_of(
        &self,
        instance: &Instance,
        container: bool,
        service: Option<&str>,
    ) -> Result<BTreeMap<String, SecretValue>> {
        let planned = self.planned_as_it_is(instance)?;
        let chosen = match service {
            Some(service) => planned.plan.container_variables.get(service).cloned().ok_or_else(|| {
                let known = planned.plan.services.keys().map(String::as_str).collect();
                unknown_service(&instance.target, service, &known)
            })?,
            None if container => self.anywhere_inside(instance, &planned)?,
            None => {
                if instance.slot.is_none() && !planned.plan.ports.is_empty() {
                    return Err(Error::new(
                        Kind::NotFound,
                        "no-ports",
                        format!("{} was never started, so it has no ports yet", instance.target),
                    )
                    .hint("`sidestack up` starts it"));
                }
                planned.plan.host_variables
            }
        };
        let mut names = BTreeSet::new();
        chosen.values().for_each(|variable| secret::references(&variable.value, &mut names));
        let secrets = self.resolve_only(instance, &names)?;
        Ok(chosen
            .into_iter()
            .map(|(key, variable)| (key, SecretValue::new(filled(&variable.value, &secrets))))
            .collect())
    }

    /// Where each variable comes from, what it shadows, and who gets it; of one `key` or of all.
    /// Resolves no secret. A key whose value is another on the host than in containers, or in one
    /// service than in another, is told once for each.
    ///
    /// # Errors
    /// Not found.
    pub fn explain(&self, words: &TargetWords, key: Option<&str>) -> Result<Vec<Explained>> {
        let instance = self.instance(words)?;
        let planned = self.planned_as_it_is(&instance).map_err(|error| error.about(&instance.target))?;
        let all = explained(&planned.plan.host_variables, &planned.plan.container_variables, &planned.draft.templates);
        let Some(key) = key else { return Ok(all) };
        let known: BTreeSet<String> = all.iter().map(|one| one.key.clone()).collect();
        let found: Vec<Explained> = all.into_iter().filter(|one| one.key == key).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let error = Error::new(Kind::NotFound, "not-found", format!("nothing sets `{key}` for {}", instance.target))
            .about(&instance.target);
        Err(match nearest(key, known.iter().map(String::as_str)) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint(format!("`sidestack set {key}=VALUE` sets it")),
        })
    }

    /// An instance's revision, planned where it stands.
    pub(super) fn planned_as_it_is(&self, instance: &Instance) -> Result<Planned> {
        let (_, content) = self.content(instance.environment, self.revision_of(instance)?)?;
        self.planned(instance, self.workspace_of(instance)?, &content)
    }

    /// What a container would see that asked for every resource and every variable.
    fn anywhere_inside(&self, instance: &Instance, planned: &Planned) -> Result<BTreeMap<String, Variable>> {
        let mut draft = planned.draft.clone();
        let mut name = "vantage".to_owned();
        while draft.service_names().any(|taken| taken == name) {
            name.push('0');
        }
        let asker = Foreign {
            compose: Service::default(),
            after: BTreeMap::new(),
            deliveries: Vec::new(),
            post_start: Vec::new(),
            pre_stop: Vec::new(),
            from_host: false,
            build: None,
        };
        draft.services.insert(name.clone(), asker);
        draft.bindings.insert(name.clone(), draft.resources.keys().cloned().collect());
        draft.wanted.insert(name.clone(), planned.plan.host_variables.keys().cloned().collect());
        let layers = self.layers(instance, self.workspace_of(instance)?)?;
        // What could be wrong with the rest was found when it was planned without the asker.
        let (mut plan, _) = planner::place(&draft, &planned.plan.placement, &layers);
        Ok(plan.container_variables.remove(&name).unwrap_or_default())
    }

    /// The values of these references and no others.
    fn resolve_only(&self, instance: &Instance, names: &BTreeSet<String>) -> Result<Secrets> {
        let mut references = BTreeSet::new();
        for name in names {
            let reference = name.parse::<Reference>().map_err(|error| {
                Error::new(Kind::Usage, "secret-reference", format!("`{name}` is no secret reference: {error}"))
            })?;
            references.insert(reference);
        }
        let mut secrets = Secrets::new();
        if references.is_empty() {
            return Ok(secrets);
        }
        let base = instance.checkout.clone().unwrap_or_else(|| PathBuf::from("/"));
        for (reference, value) in self.resolver(base).resolve_all(&references) {
            secrets.insert(reference.as_str().to_owned(), value?);
        }
        Ok(secrets)
    }
}

/// Groups those that see the same.
fn explained(
    host: &BTreeMap<String, Variable>,
    containers: &BTreeMap<String, BTreeMap<String, Variable>>,
    templates: &BTreeMap<String, BTreeMap<String, Template>>,
) -> Vec<Explained> {
    let mut groups: BTreeMap<&str, Vec<(&Variable, Vec<String>)>> = BTreeMap::new();
    let seen_by =
        std::iter::once(("host", host)).chain(containers.iter().map(|(service, own)| (service.as_str(), own)));
    for (who, variables) in seen_by {
        for (key, variable) in variables {
            let group = groups.entry(key).or_default();
            match group.iter_mut().find(|(same, _)| *same == variable) {
                Some((_, reaches)) => reaches.push(who.to_owned()),
                None => group.push((variable, vec![who.to_owned()])),
            }
        }
    }
    let within = |key: &str| {
        let entries = templates
            .iter()
            .flat_map(|(service, entries)| entries.iter().map(move |(entry, template)| (service, entry, template)));
        entries
            .filter(|(_, _, template)| template.names().contains(key))
            .filter(|(service, ..)| containers.get(*service).is_some_and(|own| !own.contains_key(key)))
            .map(|(service, entry, _)| (service.clone(), entry.clone()))
            .collect::<Vec<_>>()
    };
    let mut all = Vec::new();
    for (key, group) in groups {
        for (variable, reaches) in group {
            // What they interpolate is what is offered to everybody, as to the host.
            let shared = reaches.iter().any(|who| who == "host");
            let within = if shared { within(key) } else { Vec::new() };
            all.push(Explained {
                key: key.to_owned(),
                shown: secret::shown(&variable.value),
                layer: variable.layer,
                origin: variable.origin.clone(),
                shadowed: variable.shadowed.iter().map(shown_below).collect(),
                reaches,
                within,
            });
        }
    }
    all
}

fn shown_below((kind, origin, value): &(LayerKind, String, String)) -> (LayerKind, String, String) {
    (*kind, origin.clone(), secret::shown(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_see_the_same_are_told_together() {
        let url = |value: &str| Variable::new(LayerKind::Client, "db", value);
        let mut level = Variable::new(LayerKind::Manifest, "sidestack.yaml", "debug");
        level.replace(LayerKind::Instance, "shop/dev/main", &secret::token("env:L", secret::Encoding::Raw));
        let host = BTreeMap::from([("URL".to_owned(), url("127.0.0.1:1")), ("LEVEL".to_owned(), level.clone())]);
        let inside = BTreeMap::from([("URL".to_owned(), url("db:1"))]);
        let mut web = inside.clone();
        web.insert("LEVEL".to_owned(), level);
        let all = explained(
            &host,
            &BTreeMap::from([("web".to_owned(), web), ("worker".to_owned(), inside)]),
            &["web", "worker"]
                .map(|service| {
                    (service.to_owned(), BTreeMap::from([("FLAGS".to_owned(), "-l=${LEVEL:-x}".parse().unwrap())]))
                })
                .into(),
        );
        let told: Vec<_> =
            all.iter().map(|one| (one.key.as_str(), one.shown.as_str(), one.reaches.join(","))).collect();
        assert_eq!(
            told,
            [
                ("LEVEL", "‹env:L›", "host,web".to_owned()),
                ("URL", "127.0.0.1:1", "host".to_owned()),
                ("URL", "db:1", "web,worker".to_owned()),
            ]
        );
        // `web` has the variable itself.
        assert_eq!(all[0].within, [("worker".to_owned(), "FLAGS".to_owned())]);
        assert!(all[1].within.is_empty() && all[2].within.is_empty());
        assert_eq!(all[0].shadowed, [(LayerKind::Manifest, "sidestack.yaml".to_owned(), "debug".to_owned())]);
    }
}
