//! Collecting what is wrong with a module, each fault with its path.

use sidestack_topology::diagnostic::{Diagnostic, nearest};

/// The faults found so far.
#[derive(Default)]
pub(crate) struct Faults(Vec<Diagnostic>);

impl Faults {
    /// A fault at a path of the document.
    pub(crate) fn add(&mut self, path: &[&str], message: impl Into<String>) {
        self.0.push(Diagnostic::error(path, message));
    }

    /// A fault with its remedy.
    pub(crate) fn hinted(&mut self, path: &[&str], message: impl Into<String>, hint: impl Into<String>) {
        self.0.push(Diagnostic::error(path, message).hint(hint));
    }

    /// A name that should be one of `known` and is not.
    pub(crate) fn unknown<'a>(
        &mut self,
        path: &[&str],
        message: impl Into<String>,
        word: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) {
        let known: Vec<&str> = known.into_iter().collect();
        let fault = Diagnostic::error(path, message);
        self.0.push(match nearest(word, known.iter().copied()) {
            Some(meant) => fault.hint(format!("did you mean `{meant}`?")),
            None if known.is_empty() => fault,
            None => fault.hint(format!("there are {}", listed(&known))),
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// All of them with their places, in the order of the text.
    pub(crate) fn located(self, file: &str, text: &str) -> Vec<Diagnostic> {
        let mut faults: Vec<Diagnostic> = self.0.into_iter().map(|fault| fault.located(file, text)).collect();
        faults.sort_by_key(|fault| fault.place.as_ref().map(|place| (place.line, place.column)));
        faults
    }
}

/// `` `a`, `b` and `c` ``, cut where it gets long.
pub(crate) fn listed(words: &[&str]) -> String {
    const SHOWN: usize = 12;
    let quoted: Vec<String> = words.iter().take(SHOWN).map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        _ if words.len() > SHOWN => format!("{}, …", quoted.join(", ")),
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => quoted.join(""),
    }
}
