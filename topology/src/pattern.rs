//! What a name must match: a small part of the language of regular expressions.
//!
//! A pattern is a row of characters and classes (`[a-z0-9_-]`), each with `?`,
//! `*`, `+`, `{n}` or `{m,n}` behind it, and means the whole name. There is no
//! choice, no group and no escape, so a pattern reads as what it says and
//! matching is bounded.

/// A pattern, ready to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Vec<Atom>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Atom {
    ranges: Vec<(char, char)>,
    least: usize,
    most: usize,
}

/// The longest name a pattern lets through.
const MAX_LENGTH: usize = 255;

/// Why a text is not a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// `[a-z` or `[]`.
    #[error("a class `[…]` is empty or has no end")]
    Class,
    /// `[z-a]`.
    #[error("a range runs backwards")]
    Range,
    /// `{`, `{2,1}`, `*` at the beginning, `a**`.
    #[error("a count stands alone or makes no sense")]
    Count,
    /// `(`, `|`, `\`, `.`, `^`, `$`.
    #[error("only characters, classes and counts are understood")]
    Unsupported,
}

impl std::str::FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let mut atoms = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            rest = &rest[first.len_utf8()..];
            let ranges = match first {
                '[' => {
                    let (body, after) = rest.split_once(']').ok_or(PatternError::Class)?;
                    rest = after;
                    class(body)?
                }
                '?' | '*' | '+' | '{' => return Err(PatternError::Count),
                '(' | ')' | '|' | '\\' | '.' | '^' | '$' | ']' | '}' => {
                    return Err(PatternError::Unsupported);
                }
                c => vec![(c, c)],
            };
            let (least, most, length) = count(rest)?;
            rest = &rest[length..];
            atoms.push(Atom { ranges, least, most });
        }
        Ok(Self(atoms))
    }
}

fn class(body: &str) -> Result<Vec<(char, char)>, PatternError> {
    let body: Vec<char> = body.chars().collect();
    if body.is_empty() {
        return Err(PatternError::Class);
    }
    if body[0] == '^' || body.contains(&'\\') {
        return Err(PatternError::Unsupported);
    }
    let mut ranges = Vec::new();
    let mut rest = body.as_slice();
    while let [first, after @ ..] = rest {
        match after {
            ['-', last, after @ ..] => {
                if first > last {
                    return Err(PatternError::Range);
                }
                ranges.push((*first, *last));
                rest = after;
            }
            after => {
                ranges.push((*first, *first));
                rest = after;
            }
        }
    }
    Ok(ranges)
}

/// The count at the beginning of a text, and its length there.
fn count(text: &str) -> Result<(usize, usize, usize), PatternError> {
    match text.chars().next() {
        Some('?') => Ok((0, 1, 1)),
        Some('*') => Ok((0, MAX_LENGTH, 1)),
        Some('+') => Ok((1, MAX_LENGTH, 1)),
        Some('{') => {
            let (body, _) = text[1..].split_once('}').ok_or(PatternError::Count)?;
            let (least, most) = body.split_once(',').unwrap_or((body, body));
            let number = |digits: &str| digits.parse().map_err(|_| PatternError::Count);
            let (least, most) = (number(least)?, number(most)?);
            if least > most || most > MAX_LENGTH {
                return Err(PatternError::Count);
            }
            Ok((least, most, body.len() + 2))
        }
        _ => Ok((1, 1, 0)),
    }
}

impl Pattern {
    /// Whether a whole name matches.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        if name.len() > MAX_LENGTH {
            return false;
        }
        // Where a prefix of the pattern can end, as a set: no backtracking.
        let mut ends = vec![false; name.len() + 1];
        ends[0] = true;
        for atom in &self.0 {
            let mut next = vec![false; name.len() + 1];
            for start in (0..=name.len()).filter(|&start| ends[start]) {
                let run = name[start..]
                    .iter()
                    .take(atom.most)
                    .take_while(|c| atom.ranges.iter().any(|(a, z)| (a..=z).contains(c)))
                    .count();
                for length in atom.least..=run {
                    next[start + length] = true;
                }
            }
            ends = next;
        }
        ends[name.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_match_as_a_person_reads_it() {
        for (pattern, yes, no) in [
            ("", &[""][..], &["a"][..]),
            ("[a-z_][a-z0-9_-]{0,3}", &["a", "_", "a-_9"], &["", "9", "abcde", "A"]),
            ("[a-z][a-z0-9-]*[a-z0-9]", &["ab", "a--b"], &["a", "a-", "-a"]),
            ("ab?c+", &["ac", "abcc"], &["ab", "abbc"]),
            ("v[0-9]{2}", &["v12"], &["v1", "v123"]),
        ] {
            let parsed: Pattern = pattern.parse().unwrap();
            for name in yes {
                assert!(parsed.matches(name), "{pattern} {name}");
            }
            for name in no {
                assert!(!parsed.matches(name), "{pattern} {name}");
            }
        }
        for (pattern, error) in [
            ("[a-z", PatternError::Class),
            ("[]", PatternError::Class),
            ("[z-a]", PatternError::Range),
            ("*", PatternError::Count),
            ("a**", PatternError::Count),
            ("a{2,1}", PatternError::Count),
            ("a{x}", PatternError::Count),
            ("a{0,9999}", PatternError::Count),
            ("(a|b)", PatternError::Unsupported),
            ("a.b", PatternError::Unsupported),
            ("[^a]", PatternError::Unsupported),
        ] {
            assert_eq!(pattern.parse::<Pattern>(), Err(error), "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(pattern in "[\\[\\]a-c{}0-3,*+?-]{0,20}", name in "[a-c]{0,300}") {
            if let Ok(pattern) = pattern.parse::<Pattern>() {
                let _ = pattern.matches(&name);
            }
        }
    }
}
