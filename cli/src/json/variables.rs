//! `env`, `set`, `unset`, `secret`.

use schemars::JsonSchema;
use serde::Serialize;
use sidestack_runtime::api::{Explained, SetReport};

/// `env`
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Variables {
    variables: Vec<Variable>,
}

/// A variable; secrets are shown by reference
#[derive(Debug, Serialize, JsonSchema)]
struct Variable {
    name: String,
    /// The value, or `‹reference›` where it comes from a secret
    value: String,
    /// The layer that won
    layer: String,
    /// What that layer is called
    origin: String,
    /// What it replaced, highest first
    shadowed: Vec<Shadowed>,
    /// Who gets it: `host`, or services, also those that only interpolate it
    reaches: Vec<String>,
    /// Services that only interpolate it, with the variable that it is part of there
    within: Vec<Within>,
}

/// An entry that interpolates a variable
#[derive(Debug, Serialize, JsonSchema)]
struct Within {
    service: String,
    name: String,
}

/// A value that another replaced
#[derive(Debug, Serialize, JsonSchema)]
struct Shadowed {
    layer: String,
    origin: String,
    value: String,
}

impl<'a> FromIterator<&'a Explained> for Variables {
    fn from_iter<I: IntoIterator<Item = &'a Explained>>(all: I) -> Self {
        let variables = all.into_iter().map(|one| Variable {
            name: one.key.clone(),
            value: one.shown.clone(),
            layer: one.layer.to_string(),
            origin: one.origin.clone(),
            shadowed: one
                .shadowed
                .iter()
                .map(|(layer, origin, value)| Shadowed {
                    layer: layer.to_string(),
                    origin: origin.clone(),
                    value: value.clone(),
                })
                .collect(),
            reaches: reaches(one),
            within: one
                .within
                .iter()
                .map(|(service, name)| Within { service: service.clone(), name: name.clone() })
                .collect(),
        });
        Self { variables: variables.collect() }
    }
}

fn reaches(one: &Explained) -> Vec<String> {
    let mut all = one.reaches.clone();
    for (service, _) in &one.within {
        if !all.contains(service) {
            all.push(service.clone());
        }
    }
    all
}

/// `set`, `unset`
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Changed {
    /// Where it was written: `shop`, `shop/dev` or `shop/dev/main`
    place: String,
    /// Keys whose value is another now
    changed: Vec<String>,
    /// Running instances that have another value until they are brought up again
    behind: Vec<String>,
    /// Keys that reach no service of the instance
    unreached: Vec<String>,
}

impl From<&SetReport> for Changed {
    fn from(report: &SetReport) -> Self {
        Self {
            place: report.place.clone(),
            changed: report.changed.clone(),
            behind: report.behind.iter().map(ToString::to_string).collect(),
            unreached: report.unreached.clone(),
        }
    }
}

/// `secret set`, `secret rm`
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SecretDone {
    /// Where it is, or was
    pub(crate) reference: String,
}

/// `secret get`
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SecretGot {
    /// Where it is
    pub(crate) reference: String,
    /// What it is
    pub(crate) value: String,
}

/// `secret ls`
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Secrets {
    secrets: Vec<Used>,
}

/// A secret and its users
#[derive(Debug, Serialize, JsonSchema)]
struct Used {
    reference: String,
    /// Who uses it
    used_by: Vec<String>,
}

impl From<&[(String, Vec<String>)]> for Secrets {
    fn from(all: &[(String, Vec<String>)]) -> Self {
        let used = |(reference, used_by): &(String, Vec<String>)| Used {
            reference: reference.clone(),
            used_by: used_by.clone(),
        };
        Self { secrets: all.iter().map(used).collect() }
    }
}
