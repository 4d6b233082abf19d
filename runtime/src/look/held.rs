//! The secrets that Docker itself holds in a container's configuration.
//!
//! Looking asks no vault, so it cannot know a secret's value; but what a container
//! prints can hold it. The container's own environment has the values, and the plan
//! says which of its variables hold secrets, and where in them.

use std::collections::BTreeMap;

use sidestack_state::Instance;
use sidestack_topology::secret::{self, Part};

use crate::error::Result;
use crate::secrets::{Masker, SecretValue};
use crate::session::Session;

/// Variables that hold secrets by service: their values with tokens.
#[derive(Debug, Default)]
pub(super) struct Held(BTreeMap<String, BTreeMap<String, String>>);

impl Session {
    /// Which variables of an instance's containers hold secrets.
    ///
    /// # Errors
    /// When its revision cannot be read or planned.
    pub(super) fn held_secrets(&self, instance: &Instance) -> Result<Held> {
        let planned = self.planned_as_it_is(instance)?;
        let services = planned.plan.services.iter().map(|(name, service)| {
            let variables = service.compose.environment.iter();
            let held = variables
                .filter_map(|(key, value)| Some((key.clone(), value.clone().filter(|value| secret::holds(value))?)));
            (name.clone(), held.collect())
        });
        Ok(Held(services.collect()))
    }
}

impl Held {
    /// Knows the secrets of a service's container; `env` is its environment, `KEY=VALUE`.
    pub(super) fn masker(&self, service: &str, env: &[String]) -> Masker {
        let mut masker = Masker::default();
        let Some(held) = self.0.get(service) else { return masker };
        for (key, value) in env.iter().filter_map(|line| line.split_once('=')) {
            let Some(template) = held.get(key) else { continue };
            masker.add(&SecretValue::new(value.to_owned()));
            if let Some(inner) = inner(template, value) {
                masker.add(&SecretValue::new(inner.to_owned()));
            }
        }
        masker
    }
}

/// The secret's part of a value that holds one and other text beside it.
fn inner<'a>(template: &str, value: &'a str) -> Option<&'a str> {
    let parts: Vec<Part<'_>> = secret::parts(template).collect();
    match parts.as_slice() {
        [Part::Text(before), Part::Secret { .. }, Part::Text(after)] => value.strip_prefix(before)?.strip_suffix(after),
        [Part::Text(before), Part::Secret { .. }] => value.strip_prefix(before),
        [Part::Secret { .. }, Part::Text(after)] => value.strip_suffix(after),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sidestack_topology::secret::{Encoding, token};

    use super::*;

    #[test]
    fn what_the_container_has_is_masked_also_inside_another_value() {
        let url = format!("postgres://app:{}@db:5432/shop", token("file:/x", Encoding::Url));
        let of_web = [("TOKEN".to_owned(), token("env:T", Encoding::Raw)), ("URL".to_owned(), url)];
        let held = Held([("web".to_owned(), of_web.into())].into());
        let env = ["TOKEN=t0ps3cret", "URL=postgres://app:hunter22@db:5432/shop", "PLAIN=visible"].map(str::to_owned);
        let masked = held.masker("web", &env).mask("t0ps3cret hunter22 visible");
        assert_eq!(masked, "*** *** visible");
        assert_eq!(held.masker("db", &env).mask("t0ps3cret"), "t0ps3cret");
    }
}
