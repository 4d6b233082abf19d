//! Variables for others to read: a shell, dotenv files, GitHub's workflow files.
//!
//! Values are exact in each: whatever bytes a value holds, the reader gets them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};

use crate::args::Format;
use crate::output::safe;

/// Whether a shell takes it for a name.
pub(crate) fn is_name(key: &str) -> bool {
    key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Names and values in a format. Names must satisfy [`is_name`], save for JSON.
pub(crate) fn write(format: Format, variables: &BTreeMap<&str, &str>) -> String {
    let mut out = String::new();
    // Writing to a `String` cannot fail, so the results below are dropped.
    match format {
        Format::Shell => {
            for (key, value) in variables {
                let _ = writeln!(out, "export {key}={}", shell(value));
            }
        }
        Format::Dotenv => {
            for (key, value) in variables {
                let _ = writeln!(out, "{key}={}", dotenv(value));
            }
        }
        Format::Json => {
            let _ = writeln!(out, "{}", safe::json(serde_json::json!(variables).to_string()));
        }
        Format::Github => {
            for (key, value) in variables {
                let delimiter = delimiter(value);
                let _ = writeln!(out, "{key}<<{delimiter}\n{value}\n{delimiter}");
            }
        }
    }
    out
}

fn is_plain(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"_./:@%+,-".contains(&b))
}

/// For a POSIX shell.
fn shell(value: &str) -> String {
    if is_plain(value) { value.to_owned() } else { format!("'{}'", value.replace('\'', r"'\''")) }
}

/// For a dotenv file.
///
/// Readers agree on bare words and on single quotes, inside which all is literal.
/// Single quotes cannot hold a quote, nor a backslash at their end; such values go
/// into double quotes with the escapes of Compose's reader.
fn dotenv(value: &str) -> String {
    if is_plain(value) {
        return value.to_owned();
    }
    // A carriage return is dropped by readers that normalise line ends.
    if !value.contains(['\'', '\r']) && !value.ends_with('\\') {
        return format!("'{value}'");
    }
    let mut quoted = String::from("\"");
    for c in value.chars() {
        match c {
            '\\' | '"' | '$' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            _ => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A line that the value does not have.
fn delimiter(value: &str) -> String {
    loop {
        // The hasher's keys are random for each call.
        let candidate = format!("sidestack_{:016x}", RandomState::new().hash_one(value.len()));
        if !value.contains(&candidate) {
            return candidate;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Compose's dotenv reader (`compose-go/dotenv`), for one value.
    fn compose_reads(text: &str) -> Option<String> {
        let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let Some(quote) = quote else {
            return Some(text.split(" #").next()?.trim().to_owned());
        };
        let (mut value, mut escaped) = (String::new(), false);
        let mut rest = text[1..].chars();
        loop {
            let c = rest.next()?;
            if c != quote {
                if !escaped && c == '\\' {
                    escaped = true;
                    continue;
                }
                if std::mem::take(&mut escaped) {
                    value.push('\\');
                }
                value.push(c);
            } else if std::mem::take(&mut escaped) {
                value.push(c);
            } else {
                break;
            }
        }
        assert_eq!(rest.as_str(), "", "something follows the closing quote");
        if quote == '\'' {
            return Some(value);
        }
        let (mut expanded, mut rest) = (String::new(), value.chars());
        while let Some(c) = rest.next() {
            match c {
                '\\' => match rest.next()? {
                    'n' => expanded.push('\n'),
                    'r' => expanded.push('\r'),
                    c @ ('\\' | '$' | '"') => expanded.push(c),
                    c => expanded.extend(['\\', c]),
                },
                '$' => panic!("a variable is expanded in {text}"),
                c => expanded.push(c),
            }
        }
        Some(expanded)
    }

    fn value() -> impl Strategy<Value = String> {
        prop_oneof!["[^\0]{0,40}", "[a\\\\'\"$#=` \n\r\t{}!]{0,12}"]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn p40_compose_reads_the_exact_value(value in value()) {
            prop_assert_eq!(compose_reads(&dotenv(&value)), Some(value));
        }

        #[test]
        fn p40_no_line_of_the_value_ends_githubs_block(value in value()) {
            let text = write(Format::Github, &BTreeMap::from([("KEY", value.as_str())]));
            let (head, rest) = text.split_once('\n').unwrap();
            let delimiter = head.strip_prefix("KEY<<").unwrap();
            prop_assert_eq!(rest, format!("{value}\n{delimiter}\n"));
            prop_assert!(!value.contains(delimiter));
        }

        #[test]
        fn p40_json_is_exact(value in value()) {
            let text = write(Format::Json, &BTreeMap::from([("KEY", value.as_str())]));
            let read: BTreeMap<String, String> = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&read["KEY"], &value);
        }
    }

    proptest! {
        // A process for each case.
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn p40_a_shell_reads_the_exact_value(value in value()) {
            let script = format!("{}printf %s \"$KEY\"", write(Format::Shell, &BTreeMap::from([("KEY", value.as_str())])));
            let output = std::process::Command::new("sh").arg("-c").arg(script).output().unwrap();
            prop_assert_eq!(String::from_utf8(output.stdout).unwrap(), value);
        }
    }

    #[test]
    fn formats() {
        let variables = BTreeMap::from([("A", "plain:1/2"), ("B", "it's"), ("C", ""), ("D", "x y$z")]);
        assert_eq!(
            write(Format::Shell, &variables),
            "export A=plain:1/2\nexport B='it'\\''s'\nexport C=''\nexport D='x y$z'\n"
        );
        assert_eq!(write(Format::Dotenv, &variables), "A=plain:1/2\nB=\"it's\"\nC=''\nD='x y$z'\n");
        assert_eq!(
            write(Format::Json, &variables),
            "{\"A\":\"plain:1/2\",\"B\":\"it's\",\"C\":\"\",\"D\":\"x y$z\"}\n"
        );
        assert!(is_name("_A1") && !is_name("1A") && !is_name("A;B") && !is_name(""));
    }
}
