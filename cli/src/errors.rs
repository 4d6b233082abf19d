//! The one mapping from what went wrong to words and exit codes.
//!
//! The codes are documented in `docs/reference/exit-codes.md`, which is made from
//! [`EXIT_CODES`].

use std::fmt::Write as _;
use std::io;

use sidestack_runtime::{Error, Kind};
use sidestack_topology::diagnostic::{Diagnostic, Severity};

/// Every exit code and what it says.
pub(crate) const EXIT_CODES: [(u8, &str); 10] = [
    (0, "done, also when nothing was to do"),
    (1, "failed"),
    (2, "the command line, the manifest or a compose file is wrong; nothing was changed"),
    (3, "what was named is not there"),
    (4, "cancelled"),
    (5, "a port, a name or a lock belongs to somebody else"),
    (6, "timed out"),
    (7, "a service failed or is unhealthy"),
    (8, "Docker cannot be reached or does not answer"),
    (9, "some was done, some was refused"),
];

/// The exit code of a kind of error.
pub(crate) fn exit_code(kind: Kind) -> u8 {
    match kind {
        Kind::Failed => 1,
        Kind::Usage => 2,
        Kind::NotFound => 3,
        Kind::Cancelled => 4,
        Kind::Conflict => 5,
        Kind::TimedOut => 6,
        Kind::Unhealthy => 7,
        Kind::Docker => 8,
        Kind::Partial => 9,
    }
}

/// The part of the long help that lists them.
pub(crate) fn exit_code_help() -> String {
    let mut text = "A TARGET is WORKSPACE/ENVIRONMENT/INSTANCE or the end of that that is clear in context\n\
                    (`r3`, `demo/main`); `@rN` names a revision. Without one, the current checkout's instance\n\
                    is meant.\n\nExit codes:"
        .to_owned();
    for (code, meaning) in EXIT_CODES {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "\n  {code}  {meaning}");
    }
    text
}

/// Why a command ends early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It failed.
    Error(Box<Error>),
    /// Whoever reads standard output has seen enough.
    Pipe,
    /// Standard output cannot be written.
    Output(io::Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(Box::new(error))
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Pipe,
            _ => Self::Output(error),
        }
    }
}

/// A wrong command line.
pub(crate) fn usage(message: impl Into<String>) -> Error {
    Error::new(Kind::Usage, "usage", message)
}

/// The longest evidence that is shown on one line.
const EVIDENCE: usize = 400;

/// The text of an error: at most four lines (each diagnostic at most four);
/// with `verbose`, every line of evidence.
pub(crate) fn lines(error: &Error, verbose: bool) -> Vec<String> {
    let faults: Vec<&Diagnostic> = error.diagnostics.iter().filter(|one| one.severity == Severity::Error).collect();
    if !faults.is_empty() {
        return faults.into_iter().flat_map(|fault| diagnostic("error", fault)).collect();
    }
    let mut lines = vec![format!("error: {}", error.message)];
    if let Some(target) = error.target.as_ref().filter(|target| !error.message.contains(target.as_str())) {
        lines.push(format!("  in {target}"));
    }
    if verbose {
        lines.extend(error.detail.iter().map(|line| format!("  {line}")));
    } else if !error.detail.is_empty() {
        lines.push(format!("  {}", evidence(&error.detail)));
    }
    lines.extend(error.hint.as_ref().map(|hint| format!("hint: {hint}")));
    lines
}

/// Lines of evidence on one: the last of them, since the last line of a log says most.
fn evidence(detail: &[String]) -> String {
    let joined = detail.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" | ");
    match joined.chars().count().checked_sub(EVIDENCE) {
        None | Some(0) => joined,
        Some(over) => format!("…{}", joined.chars().skip(over).collect::<String>()),
    }
}

/// A diagnostic in at most four lines: message, place, source line, hint.
pub(crate) fn diagnostic(label: &str, fault: &Diagnostic) -> Vec<String> {
    let path = fault.path.join(".");
    let mut lines = vec![format!("{label}: {}", fault.message)];
    match &fault.place {
        Some(place) => {
            let path = if path.is_empty() { path } else { format!(" ({path})") };
            lines.push(format!("  at {place}{path}"));
            if !place.excerpt.is_empty() {
                lines.push(format!("   | {}", place.excerpt));
            }
        }
        None if !path.is_empty() => lines.push(format!("  at {path}")),
        None => {}
    }
    lines.extend(fault.hint.as_ref().map(|hint| format!("hint: {hint}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_documented_code() {
        let kinds = [
            (Kind::Failed, 1),
            (Kind::Usage, 2),
            (Kind::NotFound, 3),
            (Kind::Cancelled, 4),
            (Kind::Conflict, 5),
            (Kind::TimedOut, 6),
            (Kind::Unhealthy, 7),
            (Kind::Docker, 8),
            (Kind::Partial, 9),
        ];
        for (kind, code) in kinds {
            assert_eq!(exit_code(kind), code, "{kind:?}");
            assert!(EXIT_CODES.iter().any(|(known, _)| *known == code));
        }
        assert_eq!(kinds.len() + 1, EXIT_CODES.len());
    }

    #[test]
    fn an_error_has_at_most_four_lines() {
        let mut error =
            Error::new(Kind::Unhealthy, "service-failed", "`web` exited with 1").about("shop/dev/main").hint("look");
        for number in 0..50 {
            error = error.detail(format!("log line {number} of the service that failed"));
        }
        let text = lines(&error, false);
        assert_eq!(text.len(), 4, "{text:?}");
        assert_eq!(text[0], "error: `web` exited with 1");
        assert_eq!(text[1], "  in shop/dev/main");
        assert!(
            text[2].ends_with("| log line 49 of the service that failed") && text[2].chars().count() <= EVIDENCE + 3
        );
        assert_eq!(text[3], "hint: look");
        assert_eq!(lines(&error, true).len(), 53);
    }

    #[test]
    fn every_fault_is_told_and_no_warning() {
        let faults = vec![
            Diagnostic::error(&["env", "A"], "one").located("sidestack.yaml", "env:\n  A: 1\n"),
            Diagnostic::warning(&[], "not this"),
            Diagnostic::error(&["b"], "two").hint("mend it"),
        ];
        assert_eq!(
            lines(&Error::invalid(faults), false),
            ["error: one", "  at sidestack.yaml:2:6 (env.A)", "   |   A: 1", "error: two", "  at b", "hint: mend it"]
        );
    }

    #[test]
    fn a_closed_pipe_is_no_error() {
        assert!(matches!(Stop::from(io::Error::from(io::ErrorKind::BrokenPipe)), Stop::Pipe));
        assert!(matches!(Stop::from(io::Error::from(io::ErrorKind::StorageFull)), Stop::Output(_)));
    }
}
