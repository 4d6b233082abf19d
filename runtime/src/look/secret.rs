//! `secret`: the keychain by reference, and which references a stack has.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sidestack_state::{Environment, Scope, VariableValue};
use sidestack_topology::revision::Content;
use sidestack_topology::secret;

use crate::api::TargetWords;
use crate::error::{Error, Kind, Result};
use crate::secrets::{Provider, Reference, SecretValue, keychain_delete, keychain_set};
use crate::session::Session;

/// Users by reference.
type Users = BTreeMap<String, BTreeSet<String>>;

impl Session {
    /// Puts a value into the keychain.
    ///
    /// # Errors
    /// When the reference is none of the keychain's; when there is no keychain or it is locked.
    #[expect(clippy::needless_pass_by_value, reason = "the caller gives the value up, so that none is left over")]
    pub fn secret_set(&self, reference: &str, value: SecretValue) -> Result<()> {
        let (service, account) = keychain_entry(reference)?;
        Ok(keychain_set(&service, &account, &value)?)
    }

    /// The value of any reference.
    ///
    /// # Errors
    /// When it is no reference; when its provider has no value for it.
    pub fn secret_get(&self, reference: &str) -> Result<SecretValue> {
        let reference = parse(reference)?;
        let base = self.checkout().map_or_else(|_| self.folder.clone(), |checkout| checkout.folder);
        Ok(self.resolver(base).resolve(&reference)?)
    }

    /// Removes an entry from the keychain.
    ///
    /// # Errors
    /// As [`Session::secret_set`]; when there is no such entry.
    pub fn secret_remove(&self, reference: &str) -> Result<()> {
        let (service, account) = keychain_entry(reference)?;
        Ok(keychain_delete(&service, &account)?)
    }

    /// Every reference that a workspace's variables and the revisions in use have, with who uses it.
    /// Words that name an environment or an instance narrow it to that environment.
    ///
    /// # Errors
    /// When the words lead nowhere.
    pub fn secret_list(&self, words: &TargetWords) -> Result<Vec<(String, Vec<String>)>> {
        let whole = words.parts.is_empty() && words.environment.is_none() && words.revision.is_none();
        let (workspace, environments) = match self.here()? {
            Some((_, workspace)) if whole => {
                let environments = self.store.environments(workspace.id)?;
                (workspace, environments)
            }
            _ => {
                let spot = self.spot(words)?;
                (spot.workspace, vec![spot.environment])
            }
        };
        let mut users = Users::new();
        self.layer_secrets(Scope::Workspace(workspace.id), workspace.name.as_str(), &mut users)?;
        let instances = self.store.instances_of(workspace.id)?;
        for environment in &environments {
            let place = format!("{}/{}", workspace.name, environment.name);
            self.layer_secrets(Scope::Environment(environment.id), &place, &mut users)?;
            let mut revisions: BTreeSet<_> =
                self.store.revisions(environment.id)?.last().map(|last| last.number).into_iter().collect();
            for instance in instances.iter().filter(|instance| instance.environment == environment.id) {
                self.layer_secrets(Scope::Instance(instance.id), &instance.target.to_string(), &mut users)?;
                revisions.extend(instance.revision);
            }
            self.revision_secrets(environment, &place, &revisions, &mut users)?;
        }
        Ok(users.into_iter().map(|(reference, users)| (reference, users.into_iter().collect())).collect())
    }

    fn layer_secrets(&self, scope: Scope, place: &str, users: &mut Users) -> Result<()> {
        for (key, value) in self.store.variables(scope)? {
            if let VariableValue::Secret(reference) = value {
                users.entry(reference).or_default().insert(format!("{key} of {place}"));
            }
        }
        Ok(())
    }

    fn revision_secrets(
        &self,
        environment: &Environment,
        place: &str,
        revisions: &BTreeSet<sidestack_topology::names::RevisionNumber>,
        users: &mut Users,
    ) -> Result<()> {
        for number in revisions {
            let (_, content) = self.content(environment.id, *number)?;
            for (reference, what) in used(&content) {
                users.entry(reference).or_default().insert(format!("{what} of {place}@{number}"));
            }
        }
        Ok(())
    }
}

/// References in a revision, with what has them: a variable of the manifest, a resource, a service,
/// or another part of it.
fn used(content: &Content) -> BTreeSet<(String, String)> {
    let mut all = BTreeSet::new();
    let mut add = |value: &Value, what: &str| {
        let mut found = BTreeSet::new();
        secret::references_in(value, &mut found);
        all.extend(found.into_iter().map(|reference| (reference, what.to_owned())));
    };
    let manifest = serde_json::to_value(&content.manifest).unwrap_or_default();
    let each = |value: Option<&Value>| -> Vec<(String, Value)> {
        value
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    for (key, value) in each(manifest.get("env")) {
        add(&value, &key);
    }
    for (name, value) in each(manifest.get("resources")) {
        add(&value, &format!("resource {name}"));
    }
    for (part, value) in each(content.model.as_ref()) {
        for (name, value) in each(Some(&value)) {
            add(&value, &format!("{} {name}", part.trim_end_matches('s')));
        }
    }
    for (key, value) in &content.interpolation {
        if let Some(value) = value {
            add(&Value::from(value.as_str()), key);
        }
    }
    all
}

fn parse(reference: &str) -> Result<Reference> {
    reference.parse().map_err(|error: crate::secrets::ReferenceError| {
        Error::new(Kind::Usage, "secret-reference", error.to_string()).hint("such as `keychain:shop/stripe`")
    })
}

fn keychain_entry(reference: &str) -> Result<(String, String)> {
    match parse(reference)?.provider() {
        Provider::Keychain { service, account } => Ok((service.clone(), account.clone())),
        other => {
            let whose = match other {
                Provider::Env { .. } => "an environment variable belongs to the shell",
                Provider::Command { .. } => "what a command prints belongs to that command",
                Provider::File { .. } | Provider::Dotenv { .. } => "a file belongs to whoever wrote it",
                Provider::Keychain { .. } => "",
            };
            Err(Error::new(Kind::Usage, "secret-reference", format!("only the keychain can be written: {whose}"))
                .hint("use `keychain:SERVICE/ACCOUNT`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secret::{Encoding, token};

    #[test]
    fn only_the_keychain_is_written() {
        assert_eq!(keychain_entry("keychain:shop/stripe/live").unwrap(), ("shop".to_owned(), "stripe/live".to_owned()));
        for bad in ["env:X", "file:/x", "dotenv:.env#X", "command:pass show x", "nonsense"] {
            assert_eq!(keychain_entry(bad).unwrap_err().kind, Kind::Usage, "{bad}");
        }
    }

    #[test]
    fn references_are_found_with_their_users() {
        let mut content = Content::default();
        content.manifest.env.insert("STRIPE".to_owned(), token("keychain:a/b", Encoding::Raw));
        content.model =
            Some(serde_json::json!({"services": {"web": {"environment": {"X": token("env:X", Encoding::Raw)}}}}));
        let found: Vec<_> = used(&content).into_iter().collect();
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(found, [pair("env:X", "service web"), pair("keychain:a/b", "STRIPE")]);
    }
}
