//! Compose's own words as diagnostics.
//!
//! What Compose says may hold pieces of the files it read: stand-ins become the names of their variables, and what it
//! quotes of an env file is cut off, since that may be a value.

use std::path::{Path, PathBuf};

use sidestack_topology::diagnostic::{Diagnostic, Place};
use sidestack_topology::placeholder;

use super::read::PLACEHOLDER;
use super::standin::StandIns;

/// Why Compose refused, from its standard error.
pub(super) fn refusal(stderr: &str, stand_ins: &StandIns, folder: &Path, files: &[PathBuf]) -> Diagnostic {
    let lines: Vec<&str> =
        stderr.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with("time=")).collect();
    let told = lines.join(" ");
    let reason = clean(&told, stand_ins);
    let reason = if reason.is_empty() { "Compose gave no reason".to_owned() } else { reason };
    if let Some(name) = stand_ins.name_in(&told) {
        return Diagnostic::error(
            &[],
            format!("`{name}` looks like a secret, but stands where Compose needs a plain value: {reason}"),
        )
        .hint(format!(
            "write it as plain text in `env:` of the manifest, as in `env: {{{name}: \"…\"}}`, or give the variable a \
             name that does not look like a secret's"
        ));
    }
    let (file, rest) = named_file(&reason, files);
    let mut diagnostic = Diagnostic::error(&[], format!("Compose refuses the stack: {rest}"));
    let file = file.or_else(|| files.first().cloned().filter(|_| files.len() == 1));
    if let Some(file) = file {
        let shown = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
        // The text is shown around the line; a compose file is no secret.
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let line = line_in(&rest).unwrap_or(0);
        diagnostic.place = Some(Place::new(&shown, &text, line, column_of(&text, line)));
    }
    diagnostic
}

/// Compose's warnings, from its standard error.
pub(super) fn warnings(stderr: &str, stand_ins: &StandIns) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    for line in stderr.lines().filter(|line| line.contains("level=warning")) {
        let Some((_, message)) = line.split_once("msg=") else {
            continue;
        };
        let message = message.trim();
        let message = message.strip_prefix('"').and_then(|m| m.strip_suffix('"')).unwrap_or(message);
        let message = clean(&message.replace("\\\"", "\"").replace("\\n", " "), stand_ins);
        // Said of half of all files, and of no use.
        if message.contains("`version` is obsolete") {
            continue;
        }
        let message = message.trim_end_matches('.').to_owned();
        let warning = Diagnostic::warning(&[], message);
        if !found.contains(&warning) {
            found.push(warning);
        }
    }
    found
}

/// Compose's text without stand-ins, project name, quotations of env files, and what could trick a terminal.
fn clean(text: &str, stand_ins: &StandIns) -> String {
    let text = stand_ins.mask(text);
    let text = text.replace(PLACEHOLDER, "the project");
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .filter(|c| !placeholder::forged(&c.to_string()))
        .collect();
    // compose-go quotes the rest of an env file after the word `near`.
    let text = match text.find(" near \"") {
        Some(at) => text[..at].to_owned(),
        None => text,
    };
    let text = text.trim();
    // An error text is a fragment: a first word in lower case, unless it is a name.
    let mut chars = text.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if first.is_uppercase() && second.is_lowercase() => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}

/// The compose file that a reason begins with, and the rest.
fn named_file(reason: &str, files: &[PathBuf]) -> (Option<PathBuf>, String) {
    for prefix in ["validating ", "parsing ", "failed to parse "] {
        if let Some(rest) = reason.strip_prefix(prefix)
            && let Some((file, why)) = rest.split_once(": ")
        {
            return (Some(PathBuf::from(file)), why.to_owned());
        }
    }
    let mentioned = files.iter().find(|file| file.to_str().is_some_and(|file| reason.contains(file)));
    (mentioned.cloned(), reason.to_owned())
}

/// Where a line, counted from 1, begins to say something.
fn column_of(text: &str, line: u32) -> u32 {
    let line = usize::try_from(line).ok().and_then(|line| text.lines().nth(line.checked_sub(1)?));
    let blank = line.map_or(0, |line| line.chars().take_while(|c| c.is_whitespace()).count());
    u32::try_from(blank).unwrap_or(0).saturating_add(1)
}

/// The line that a YAML error names: `yaml: line 3: …`.
fn line_in(reason: &str) -> Option<u32> {
    let (_, rest) = reason.split_once("line ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_ins_and_quotations_are_never_shown() {
        let mut stand_ins = StandIns::new(&[1; 32]);
        let word = stand_ins.add("DB_TOKEN", "t".into());
        let folder = Path::new("/s");
        let refused = refusal(&format!("invalid containerPort: {word}\n"), &stand_ins, folder, &[]);
        assert_eq!(
            refused.message,
            "`DB_TOKEN` looks like a secret, but stands where Compose needs a plain value: invalid containerPort: ${DB_TOKEN}"
        );
        assert!(refused.hint.is_some());
        let refused = refusal(
            "time=\"x\" level=warning msg=\"y\"\nFailed to load /s/a.env: unexpected character \"!\" in variable name near \"canary!\"\n",
            &stand_ins,
            folder,
            &[],
        );
        assert_eq!(
            refused.message,
            "Compose refuses the stack: failed to load /s/a.env: unexpected character \"!\" in variable name"
        );
    }

    #[test]
    fn warnings_are_said_once() {
        let text =
            "time=\"t\" level=warning msg=\"The \\\"X\\\" variable is not set. Defaulting to a blank string.\"\n";
        let found = warnings(&text.repeat(2), &StandIns::new(&[1; 32]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].message, "the \"X\" variable is not set. Defaulting to a blank string");
    }
}
