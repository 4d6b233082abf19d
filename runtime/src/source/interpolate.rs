//! Compose's `$NAME` and `${NAME…}` in texts, as far as they must be understood before Compose runs: which names a text
//! mentions, and what a path with names in it comes to. The model itself is interpolated by Compose.

use std::collections::BTreeSet;

/// How deep defaults may stand in defaults.
const MAX_DEPTH: usize = 8;

/// Every name that a text mentions. `$$` is a plain dollar and mentions nothing.
pub(super) fn mentions(text: &str, into: &mut BTreeSet<String>) {
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            rest = after;
            continue;
        }
        let name = name_at(rest.strip_prefix('{').unwrap_or(rest));
        if !name.is_empty() {
            into.insert(name.to_owned());
        }
    }
}

/// The name that a text begins with; empty when it begins with none.
fn name_at(text: &str) -> &str {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return "";
    }
    let end = text.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    &text[..end]
}

/// Whether a text is a name and nothing else.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && name_at(text).len() == text.len()
}

/// The one name that a text consists of: `$NAME` or `${NAME}`.
pub(super) fn alias(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('$')?;
    let inner = rest.strip_prefix('{').map_or(Some(rest), |rest| rest.strip_suffix('}'))?;
    is_name(inner).then_some(inner)
}

/// The text with every name replaced. `None` when it cannot be told here: bad syntax, or a required value is missing.
pub(super) fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    expand_to(text, lookup, MAX_DEPTH)
}

fn expand_to(text: &str, lookup: &dyn Fn(&str) -> Option<String>, depth: usize) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some(after) = rest.strip_prefix('{') {
            let end = closing(after)?;
            out.push_str(&braced(&after[..end], lookup, depth)?);
            rest = &after[end + 1..];
        } else {
            let name = name_at(rest);
            if name.is_empty() {
                return None;
            }
            out.push_str(&lookup(name).unwrap_or_default());
            rest = &rest[name.len()..];
        }
    }
    out.push_str(rest);
    Some(out)
}

/// Where the brace that has been opened is closed.
fn closing(text: &str) -> Option<usize> {
    let mut open = 1_usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => open += 1,
            '}' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(at);
        }
    }
    None
}

fn braced(inner: &str, lookup: &dyn Fn(&str) -> Option<String>, depth: usize) -> Option<String> {
    let name = name_at(inner);
    if name.is_empty() {
        return None;
    }
    let value = lookup(name);
    let (operator, word) = match &inner[name.len()..] {
        "" => return Some(value.unwrap_or_default()),
        rest => match rest.strip_prefix(':') {
            Some(rest) => (rest.chars().next()?, rest.get(1..)?),
            None => (rest.chars().next()?, rest.get(1..)?),
        },
    };
    let empty_counts = inner[name.len()..].starts_with(':');
    let present = value.filter(|value| !empty_counts || !value.is_empty());
    match (operator, present) {
        ('-' | '?', Some(value)) => Some(value),
        ('-', None) => expand_to(word, lookup, depth),
        ('+', Some(_)) => expand_to(word, lookup, depth),
        ('+', None) => Some(String::new()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        let mut found = BTreeSet::new();
        mentions("a $A ${B} ${C:-${D}} $$E $${F} ${G?no} $1 ${} $é x$H", &mut found);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["A", "B", "C", "D", "G", "H"]);
    }

    #[test]
    fn paths_are_expanded_as_compose_does() {
        let lookup = |name: &str| match name {
            "A" => Some("a".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        for (text, expected) in [
            ("x", Some("x")),
            ("$A/${A}", Some("a/a")),
            ("$$A", Some("$A")),
            ("${NO}", Some("")),
            ("${NO-d}${EMPTY-d}", Some("d")),
            ("${NO:-d}${EMPTY:-d}", Some("dd")),
            ("${NO:-${A}}", Some("a")),
            ("${A:+y}${NO:+y}", Some("y")),
            ("${NO:?say}", None),
            ("${A:?say}", Some("a")),
            ("${A", None),
            ("$ x", None),
        ] {
            assert_eq!(expand(text, &lookup).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn an_alias_is_a_name_alone() {
        assert_eq!(alias("$A"), Some("A"));
        assert_eq!(alias("${A_1}"), Some("A_1"));
        for text in ["A", "$A$B", "${A}x", "${A:-b}", "${A", "$"] {
            assert_eq!(alias(text), None, "{text}");
        }
    }
}
