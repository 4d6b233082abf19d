//! Dotenv files as Compose reads them, without its expansions.
//!
//! The grammar is the one of compose-go's reader, not the shell's: `KEY=value` or `KEY: value`, an `export` before it,
//! unquoted values up to a ` #`, single quotes (only `\'` is special), double quotes with escapes, both over several
//! lines. What would be expanded (`$NAME`, `${…}`) is left as it stands and marked, since its value depends on an
//! environment that is not known here; `$$` and, in double quotes, `\$` are a plain `$`.

/// Where a dotenv file cannot be understood, and why. Holds no text of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct DotenvError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong in it.
    pub what: &'static str,
}

/// The assignments of a dotenv file in their order: key, value, and whether the value has an expansion in it. With an
/// expansion, the value is the text before it. When a key comes twice, both are given; to Compose the last counts.
///
/// A key alone on its line means "from the environment, if it is set" and is given as `${KEY}` with an expansion.
///
/// # Errors
/// The first place that Compose would refuse as well.
pub fn parse_dotenv(text: &str) -> Result<Vec<(String, String, bool)>, DotenvError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut entries = Vec::new();
    let mut rest = text;
    let error =
        |rest: &str, what| DotenvError { line: text[..text.len() - rest.len()].matches('\n').count() + 1, what };
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Ok(entries);
        }
        if rest.starts_with('#') {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
            continue;
        }
        if let Some(after) = rest.strip_prefix("export").filter(|s| s.starts_with(char::is_whitespace)) {
            rest = after.trim_start();
        }
        let end = rest.find(['=', ':', '\n']).unwrap_or(rest.len());
        let key = rest[..end].trim_end();
        if key.is_empty() {
            return Err(error(rest, "a name is missing before the `=`"));
        }
        if key.contains(char::is_whitespace) {
            return Err(error(rest, "a name cannot contain a space"));
        }
        if !key.chars().all(|c| c.is_alphanumeric() || "_.-[]".contains(c)) {
            return Err(error(rest, "an unexpected character in a name"));
        }
        let separator = rest[end..].chars().next();
        if !matches!(separator, Some('=' | ':')) {
            entries.push((key.to_owned(), format!("${{{key}}}"), true));
            rest = &rest[end..];
            continue;
        }
        let value = rest[end + 1..].trim_start_matches(|c: char| c.is_whitespace() && c != '\n');
        let (text, expands, after) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let (raw, after) = quoted(value, quote).ok_or_else(|| error(value, "a quoted value is not closed"))?;
                if quote == '"' {
                    let (text, expands) = dollars(&escapes(&raw));
                    (text, expands, after)
                } else {
                    (raw, false, after)
                }
            }
            _ => {
                let (line, after) = value.split_once('\n').unwrap_or((value, ""));
                let line = line.split_once(" #").map_or(line, |(before, _)| before);
                let (text, expands) = dollars(line.trim_end());
                (text, expands, after)
            }
        };
        entries.push((key.to_owned(), text, expands));
        rest = after;
    }
}

/// The inside of a quoted value, with the escaped quotes unescaped, and what follows it.
fn quoted(value: &str, quote: char) -> Option<(String, &str)> {
    let mut raw = String::new();
    let mut escaped = false;
    for (at, c) in value.char_indices().skip(1) {
        if escaped {
            escaped = false;
            if c != quote {
                raw.push('\\');
            }
            raw.push(c);
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return Some((raw, &value[at + 1..]));
        } else {
            raw.push(c);
        }
    }
    None
}

/// Resolves the escapes of double quotes. `\$` becomes `$$`, so that the next step takes it for a plain dollar.
fn escapes(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let simple = match after.chars().next() {
            Some('a') => Some("\x07"),
            Some('b') => Some("\x08"),
            Some('f') => Some("\x0c"),
            Some('n') => Some("\n"),
            Some('r') => Some("\r"),
            Some('t') => Some("\t"),
            Some('v') => Some("\x0b"),
            Some('\\') => Some("\\"),
            Some('"') => Some("\""),
            Some('$') => Some("$$"),
            _ => None,
        };
        if let Some(simple) = simple {
            out.push_str(simple);
            rest = &after[1..];
        } else if let Some(digits) = after.strip_prefix('0') {
            // Three octal digits are a character; else Compose loses the zero, and so do we.
            let octal = digits
                .get(..3)
                .filter(|three| three.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|three| u8::from_str_radix(three, 8).ok());
            match octal {
                Some(code) => out.push(char::from(code)),
                None => out.push('\\'),
            }
            rest = if octal.is_some() { &digits[3..] } else { digits };
        } else {
            out.push('\\');
            rest = after;
        }
    }
    out + rest
}

/// `$$` is a plain dollar, and so is one that no name and no brace follows; any other dollar is an expansion, and then
/// the text is left as it is.
fn dollars(text: &str) -> (String, bool) {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        out.push(c);
        if c == '$' {
            match chars.peek() {
                Some('$') => {
                    chars.next();
                }
                Some(&next) if next == '_' || next == '{' || next.is_ascii_alphabetic() => {
                    return (text.to_owned(), true);
                }
                _ => {}
            }
        }
    }
    (out, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(text: &str) -> (String, bool) {
        let mut entries = parse_dotenv(text).unwrap();
        assert_eq!(entries.len(), 1, "{entries:?}");
        let (key, value, expands) = entries.pop().unwrap();
        assert_eq!(key, "K");
        (value, expands)
    }

    /// Each line was compared with what Compose 2.26.1 reads.
    #[test]
    fn values_are_read_as_compose_reads_them() {
        for (text, expected) in [
            ("K=v", "v"),
            ("K=", ""),
            ("K=\n", ""),
            ("export K=v", "v"),
            ("  K = v  ", "v"),
            ("K: v", "v"),
            ("\u{feff}K=v\r\n", "v"),
            ("# c\n\n  # c\nK=v # c", "v"),
            ("K=v#c", "v#c"),
            ("K=a b  c", "a b  c"),
            ("K=a\\nb", "a\\nb"),
            ("K=a=b", "a=b"),
            ("K='a # b $X \\n'", "a # b $X \\n"),
            ("K='it\\'s'", "it's"),
            ("K='a\\\\b'", "a\\\\b"),
            ("K=\"a # b\" # c", "a # b"),
            ("K=\"a\\nb\\tc\"", "a\nb\tc"),
            ("K=\"a\\\"b\"", "a\"b"),
            ("K=\"a\\\\b\"", "a\\b"),
            ("K=\"a\\zb\"", "a\\zb"),
            ("K=\"a\nb\"", "a\nb"),
            ("K='a\nb'", "a\nb"),
            ("K=\"a\\$b$$c\"", "a$b$c"),
            ("K=a$$b", "a$b"),
            ("K=\"\\0101\"", "A"),
            ("K=\"\\0377\"", "\u{ff}"),
            ("K=\"\\0777\"", "\\777"),
            ("K=\"\\07a\"", "\\7a"),
            ("K= #c", "#c"),
            ("K=v\t# c", "v\t# c"),
            ("K=a$1$$b", "a$1$b"),
            ("K=a$", "a$"),
            ("K=\"a$-b\"", "a$-b"),
        ] {
            assert_eq!(one(text), (expected.to_owned(), false), "{text:?}");
        }
    }

    #[test]
    fn expansions_are_marked_and_left() {
        for (text, value) in [
            ("K=a$B", "a$B"),
            ("K=\"${B:-x}\"", "${B:-x}"),
            ("K=$$a$b", "$$a$b"),
            ("K=a$1$B", "a$1$B"),
            ("K=a${b", "a${b"),
            ("K=\\$x", "\\$x"),
            ("K", "${K}"),
            ("export K\n", "${K}"),
        ] {
            assert_eq!(one(text), (value.to_owned(), true), "{text}");
        }
    }

    #[test]
    fn order_and_repeats_are_kept() {
        let entries = parse_dotenv("A=1\nB.c-d='2'\nA=\"3\"\n").unwrap();
        let flat: Vec<_> = entries.iter().map(|(k, v, _)| (k.as_str(), v.as_str())).collect();
        assert_eq!(flat, [("A", "1"), ("B.c-d", "2"), ("A", "3")]);
        assert_eq!(parse_dotenv("").unwrap(), []);
    }

    #[test]
    fn faults_have_a_line_and_no_value() {
        for (text, line) in
            [("A=1\nB='canary\n", 2), ("A=1\n\n=canary", 3), ("A B=canary", 1), ("A=\"x\ny\"\nca/nary=1", 3)]
        {
            let error = parse_dotenv(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(!format!("{error} {error:?}").contains("canary"));
        }
    }

    proptest! {
        #[test]
        fn anything_is_read_or_refused(text in "[AB='\"$\\\\#\\n :é.0]{0,40}") {
            let _ = parse_dotenv(&text);
        }

        #[test]
        fn single_quotes_keep_a_value_exact(value in "[^'\\\\]{0,40}") {
            prop_assert_eq!(one(&format!("K='{value}'")), (value, false));
        }
    }
}
