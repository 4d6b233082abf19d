//! Values of options, read once at the edge.

use std::time::Duration;

use sidestack_runtime::api::TargetWords;
use sidestack_topology::units::parse_duration_ms;

/// `KEY` or `KEY=VALUE`; the value is exact, whatever it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// The name.
    pub(crate) key: String,
    /// What stands behind the first `=`.
    pub(crate) value: Option<String>,
}

/// A duration: `90s`, `1m30s`, or seconds as a bare number.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(Duration::from_secs(seconds.into()));
    }
    parse_duration_ms(text)
        .map(Duration::from_millis)
        .ok_or_else(|| "a duration is such as 90s, 2m or 1h30m".to_owned())
}

/// The words of a target.
pub(crate) fn target(text: &str) -> Result<TargetWords, String> {
    TargetWords::parse(text).map_err(|error| match error.hint {
        Some(hint) => format!("{}: {hint}", error.message),
        None => error.message,
    })
}

/// A variable's name.
pub(crate) fn key(text: &str) -> Result<String, String> {
    let first = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if first && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        Ok(text.to_owned())
    } else {
        Err("a variable's name has only letters, digits and `_`, and starts with no digit".to_owned())
    }
}

/// `KEY` or `KEY=VALUE`.
pub(crate) fn assignment(text: &str) -> Result<Assignment, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    // The message of clap repeats the whole argument, which may hold a value; see `crate::usage`.
    Ok(Assignment { key: key(name)?, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in [("0", 0), ("90", 90), ("90s", 90), ("1m30s", 90), ("2h", 7200)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "-1", "1x", "s", "1.5"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_are_exact() {
        let read = |text: &str| assignment(text).map(|a| (a.key, a.value));
        assert_eq!(read("A=b=c\n d"), Ok(("A".into(), Some("b=c\n d".into()))));
        assert_eq!(read("A="), Ok(("A".into(), Some(String::new()))));
        assert_eq!(read("A"), Ok(("A".into(), None)));
        for bad in ["", "=x", "A B=x", "1A=x", "A-B=x", "é=x", "A =x"] {
            assert!(assignment(bad).is_err(), "{bad}");
        }
    }
}
