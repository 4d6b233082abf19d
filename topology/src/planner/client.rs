//! The variables that resources give their clients, for each vantage.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::addresses::{self, Vantage};
use super::fragment::Texts;
use super::{Draft, Resolved};
use crate::diagnostic::Diagnostic;
use crate::names::ResourceName;
use crate::plan::Plan;
use crate::template::{Context, variable_name};

type Values = BTreeMap<String, String>;

/// Client variables of all resources.
pub(super) struct Clients {
    inside: BTreeMap<ResourceName, Values>,
    outside: BTreeMap<ResourceName, Values>,
}

impl Clients {
    /// Renders them; two resources that give one name are a fault.
    pub(super) fn new<'a>(draft: &'a Draft, texts: &Texts<'a>, plan: &Plan, faults: &mut Vec<Diagnostic>) -> Self {
        let all = |vantage: Vantage, faults: &mut Vec<Diagnostic>| -> BTreeMap<_, _> {
            let resources = draft.resources.iter();
            let client =
                |(name, resource)| Some((Clone::clone(name), client(name, resource, vantage, texts, plan, faults)?));
            resources.filter_map(client).collect()
        };
        let inside = all(Vantage::Container, faults);
        // The templates are the same, so their faults would be told twice.
        let outside = all(Vantage::Host, &mut Vec::new());
        let mut givers: BTreeMap<&str, &ResourceName> = BTreeMap::new();
        for (name, values) in &inside {
            for key in values.keys() {
                if let Some(other) = givers.insert(key, name) {
                    let message = format!("`{other}` and `{name}` both give their clients `{key}`");
                    let fault = Diagnostic::error(&["resources", name.as_str()], message);
                    faults.push(fault.hint("rename one of them"));
                }
            }
        }
        Self { inside, outside }
    }

    /// As containers of the project see a resource.
    pub(super) fn inside(&self, resource: &ResourceName) -> impl Iterator<Item = (&String, &String)> {
        self.inside.get(resource).into_iter().flatten()
    }

    /// As the host sees it.
    pub(super) fn outside(&self, resource: &ResourceName) -> impl Iterator<Item = (&String, &String)> {
        self.outside.get(resource).into_iter().flatten()
    }
}

fn client<'a>(
    name: &ResourceName,
    resource: &'a Resolved,
    vantage: Vantage,
    texts: &Texts<'a>,
    plan: &Plan,
    faults: &mut Vec<Diagnostic>,
) -> Option<Values> {
    let context = texts.contexts.get(name)?.with(addresses::of_resource(plan, resource, vantage));
    let prefix = variable_name(name.as_str());
    let variables = &resource.module.variables;
    let mut all = Values::new();
    let mut render = |key: String, template: &'a str, context: &Context| {
        let fault = match texts.templates.render(template, context) {
            // An empty value says nothing: a cache without a password has no `CACHE_PASSWORD`.
            Ok(value) if value.is_empty() => return,
            Ok(value) => match all.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(value);
                    return;
                }
                Entry::Occupied(entry) => format!("two variables of `{name}` would be called `{}`", entry.key()),
            },
            Err(error) => format!("module `{}`, variable `{key}`: {error}", resource.module.name),
        };
        faults.push(Diagnostic::error(&["resources", name.as_str()], fault));
    };
    for (key, template) in &variables.prefixed {
        render(format!("{prefix}_{key}"), template, &context);
    }
    for (kind, each) in &variables.each {
        for provision in resource.provisions.get(kind).into_iter().flatten() {
            let context = context.with(serde_json::json!({ "name": provision }));
            for (key, template) in each {
                let key = format!("{prefix}_{}_{key}", variable_name(provision));
                render(key, template, &context);
            }
        }
    }
    if resource.conventional {
        for (key, template) in &variables.conventional {
            // A resource called `database` gives `DATABASE_URL` already.
            let own = key.strip_prefix(&prefix).and_then(|rest| rest.strip_prefix('_'));
            if !own.is_some_and(|own| variables.prefixed.contains_key(own)) {
                render(key.clone(), template, &context);
            }
        }
    }
    Some(all)
}
