//! Entries of env files that are made of other variables, such as `URL=http://u:${PASSWORD}@host`.
//!
//! They are expanded here and not by Compose: versions of Compose do not agree about who is asked first for a name, a
//! file's own entries or the files before it, and where a file's own win a secret in it would come through as it stands.

use sidestack_topology::interpolate::{InterpolateError, Template};
use sidestack_topology::secret::{self, Encoding};

use super::interpolate::alias;
use super::sensitive::looks_secret;
use super::variables::{Dotenv, Sources};

/// Entries that lead to each other stop here.
const MAX_DEPTH: usize = 16;

/// Who is asked first, the entry's own file or the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    Own,
    Others,
}

/// A secret that an entry mentions.
pub(super) struct Mentioned<'a> {
    /// The variable.
    pub(super) name: &'a str,
    /// The reference to it.
    pub(super) token: String,
    /// The file that it stands in, when it is no other variable's.
    pub(super) file: Option<&'a Dotenv>,
}

/// Why an entry has no value. Holds no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unmade {
    /// What is written cannot be understood.
    Syntax,
    /// It insists on a variable that is not set.
    Required(String),
    /// It leads to itself, or on without end.
    Endless,
    /// A secret that no reference leads to.
    Secret(String),
}

/// Where the names in entries are looked for.
pub(super) struct Making<'a> {
    pub(super) sources: &'a Sources<'a>,
    /// Files beside the entry's own, the strongest first.
    pub(super) others: Vec<&'a Dotenv>,
    pub(super) first: First,
}

impl<'a> Making<'a> {
    /// The value of the entry of that name; `None` for a name alone that is nowhere set. `secret` gives the text that
    /// stands for a secret.
    pub(super) fn value(
        &self,
        file: &'a Dotenv,
        name: &str,
        secret: &mut dyn FnMut(Mentioned<'a>) -> String,
    ) -> Result<Option<String>, Unmade> {
        match file.position(name) {
            Some(at) => self.entry(file, at, MAX_DEPTH, secret),
            None => Ok(None),
        }
    }

    fn entry(
        &self,
        file: &'a Dotenv,
        at: usize,
        depth: usize,
        secret: &mut dyn FnMut(Mentioned<'a>) -> String,
    ) -> Result<Option<String>, Unmade> {
        let depth = depth.checked_sub(1).ok_or(Unmade::Endless)?;
        let (name, text, expands) = &file.list[at];
        if !expands {
            // A secret that is repeated in another entry is the same secret.
            let hidden = file.hide(text, |name| {
                let name = file.list.iter().map(|(key, ..)| key.as_str()).find(|key| *key == name).unwrap_or_default();
                secret(Mentioned { name, token: file.token(name), file: Some(file) })
            });
            return Ok(Some(if file.untracked { hidden } else { text.clone() }));
        }
        if alias(text).is_some_and(|other| other == name) {
            return self.look(file, at, name, depth, secret);
        }
        let template: Template = plain_dollars(text).parse().map_err(|_| Unmade::Syntax)?;
        let mut values = std::collections::BTreeMap::new();
        for other in template.names() {
            values.insert(other.to_owned(), self.look(file, at, other, depth, secret)?);
        }
        let lookup = |name: &str| values.get(name)?.as_deref();
        match template.value(&lookup) {
            Ok(value) => Ok(Some(value)),
            Err(InterpolateError::Required { name, .. }) => Err(Unmade::Required(name)),
            Err(InterpolateError::Syntax(_) | InterpolateError::Depth) => Err(Unmade::Syntax),
        }
    }

    /// A name that the entry at a place of a file mentions.
    fn look(
        &self,
        file: &'a Dotenv,
        at: usize,
        name: &str,
        depth: usize,
        secret: &mut dyn FnMut(Mentioned<'a>) -> String,
    ) -> Result<Option<String>, Unmade> {
        let sources = self.sources;
        if let Some((name, value)) = sources.manifest.env.get_key_value(name) {
            let declared = secret::holds(value);
            let mentioned = Mentioned { name, token: value.clone(), file: None };
            return Ok(Some(if declared { secret(mentioned) } else { value.clone() }));
        }
        if name == "PWD" {
            return Ok(Some(sources.checkout.folder.display().to_string()));
        }
        if let Some((name, value)) = sources.shell.get_key_value(name) {
            if !value.is_empty() && looks_secret(name) {
                let token = secret::token(&format!("env:{name}"), Encoding::Raw);
                return Ok(Some(secret(Mentioned { name, token, file: None })));
            }
            return Ok(value.to_str().map(str::to_owned));
        }
        let own = file.list[..at].iter().rposition(|(key, ..)| key == name).map(|at| (file, at));
        let mut others = self.others.iter().filter_map(|other| Some((*other, other.position(name)?)));
        let found = match self.first {
            First::Own => own.or_else(|| others.next()),
            First::Others => others.next().or(own),
        };
        let Some((file, at)) = found else { return Ok(None) };
        let (name, text, expands) = &file.list[at];
        if !(file.untracked && looks_secret(name) && !text.is_empty()) {
            return self.entry(file, at, depth, secret);
        }
        if !expands {
            return Ok(Some(secret(Mentioned { name, token: file.token(name), file: Some(file) })));
        }
        // One that is only another's name leads on to that one.
        match alias(text).filter(|other| other != name) {
            Some(other) => self.look(file, at, other, depth.checked_sub(1).ok_or(Unmade::Endless)?, secret),
            None => Err(Unmade::Secret(name.clone())),
        }
    }
}

/// A dollar that begins nothing is plain to Compose's reader of env files, and written doubled to that of templates.
fn plain_dollars(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..=at]);
        rest = &rest[at + 1..];
        match rest.chars().next() {
            Some('$') => {
                out.push('$');
                rest = &rest[1..];
            }
            Some(c) if c == '_' || c == '{' || c.is_ascii_alphabetic() => {}
            _ => out.push('$'),
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_that_begin_nothing_are_plain() {
        for (text, expected) in
            [("a$1$B", "a$$1$B"), ("$$a$b", "$$a$b"), ("a$", "a$$"), ("$-${X:-$1}", "$$-${X:-$$1}"), ("$$$a", "$$$a")]
        {
            assert_eq!(plain_dollars(text), expected);
        }
    }
}
