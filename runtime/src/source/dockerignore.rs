//! `.dockerignore`: which files of a build context the builder gets to see.
//!
//! The language is gitignore's with three differences that decide, which is why it is done here: patterns are anchored
//! at the context's root, a `!` pattern also re-admits files below an excluded folder, and a trailing slash means
//! nothing. The rules are those of moby's `patternmatcher`: the last pattern that matches a path or one of its parents
//! wins.

/// The patterns of one file.
#[derive(Debug, Clone, Default)]
pub(super) struct Patterns {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
struct Rule {
    admits: bool,
    parts: Vec<Vec<u8>>,
}

impl Patterns {
    /// Reads the text of a `.dockerignore`.
    pub(super) fn parse(text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let rules = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let line = line.trim();
            let (admits, pattern) = match line.strip_prefix('!') {
                Some(rest) => (true, rest.trim()),
                None => (false, line),
            };
            let mut parts: Vec<Vec<u8>> = Vec::new();
            for part in pattern.split('/') {
                match part {
                    "" | "." => {}
                    ".." => drop(parts.pop()),
                    part => parts.push(part.as_bytes().to_vec()),
                }
            }
            (!parts.is_empty()).then_some(Rule { admits, parts })
        });
        Self { rules: rules.collect() }
    }

    /// Whether a path, its parts from the root, is left out.
    pub(super) fn excludes(&self, path: &[&[u8]]) -> bool {
        let mut excluded = false;
        for rule in &self.rules {
            // A rule that would change nothing need not be tried.
            if rule.admits == excluded && (1..=path.len()).any(|n| matches(&rule.parts, &path[..n])) {
                excluded = !rule.admits;
            }
        }
        excluded
    }

    /// Whether something below an excluded folder may be admitted again.
    pub(super) fn may_admit_below(&self, folder: &[&[u8]]) -> bool {
        self.rules.iter().filter(|rule| rule.admits).any(|rule| {
            let fixed = rule.parts.iter().position(|part| over_slashes(part)).unwrap_or(rule.parts.len());
            let deep_enough = fixed < rule.parts.len() || rule.parts.len() > folder.len();
            deep_enough && rule.parts[..fixed].iter().zip(folder).all(|(part, name)| glob(part, name))
        })
    }
}

fn over_slashes(part: &[u8]) -> bool {
    part.windows(2).any(|two| two == b"**")
}

/// Whether the pattern matches exactly this path.
fn matches(pattern: &[Vec<u8>], path: &[&[u8]]) -> bool {
    match pattern.split_first() {
        None => path.is_empty(),
        // At the end `**` stands for one part or more, elsewhere for none or more.
        Some((first, [])) if first == b"**" => !path.is_empty(),
        Some((first, rest)) if first == b"**" => (0..=path.len()).any(|n| matches(rest, &path[n..])),
        // `**` glued to other text, as in `a**b`, reaches over slashes.
        Some((first, _)) if over_slashes(first) => glob(&pattern.join(&b'/'), &path.join(&b'/')),
        Some((first, rest)) => {
            path.split_first().is_some_and(|(name, below)| glob(first, name) && matches(rest, below))
        }
    }
}

/// Go's `filepath.Match` on bytes, with `**` for anything.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let Some((&first, rest)) = pattern.split_first() else {
        return text.is_empty();
    };
    match first {
        b'*' => {
            let (rest, over_slashes) = match rest.strip_prefix(b"*") {
                Some(rest) => (rest, true),
                None => (rest, false),
            };
            let reach =
                if over_slashes { text.len() } else { text.iter().position(|&b| b == b'/').unwrap_or(text.len()) };
            (0..=reach).any(|n| glob(rest, &text[n..]))
        }
        b'?' => {
            // One character, which may be several bytes.
            let length = std::str::from_utf8(text).ok().and_then(|text| text.chars().next()).map_or(1, char::len_utf8);
            text.first().is_some_and(|&b| b != b'/') && glob(rest, &text[length..])
        }
        b'[' => match class(rest, text) {
            Some((true, rest, length)) => glob(rest, &text[length..]),
            _ => false,
        },
        b'\\' => match rest.split_first() {
            Some((literal, rest)) => text.first() == Some(literal) && glob(rest, &text[1..]),
            None => false,
        },
        literal => text.first() == Some(&literal) && glob(rest, &text[1..]),
    }
}

/// Matches the first character against a class whose `[` has been read: whether it fits, what follows the `]`, and the
/// character's length.
fn class<'a>(pattern: &'a [u8], text: &[u8]) -> Option<(bool, &'a [u8], usize)> {
    let text = std::str::from_utf8(text).ok()?;
    let wanted = text.chars().next().filter(|&c| c != '/')?;
    let all = std::str::from_utf8(pattern).ok()?;
    let (negated, mut chars) = match all.strip_prefix('^') {
        Some(rest) => (true, rest.chars()),
        None => (false, all.chars()),
    };
    let mut fits = false;
    let mut first = true;
    loop {
        let mut low = chars.next()?;
        if low == ']' && !first {
            let rest = chars.as_str().as_bytes();
            return Some((fits != negated, rest, wanted.len_utf8()));
        }
        first = false;
        if low == '\\' {
            low = chars.next()?;
        }
        let mut high = low;
        if chars.as_str().starts_with('-') && !chars.as_str().starts_with("-]") {
            chars.next();
            high = chars.next()?;
            if high == '\\' {
                high = chars.next()?;
            }
        }
        fits |= (low..=high).contains(&wanted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excluded(text: &str, path: &str) -> bool {
        let parts: Vec<&[u8]> = path.split('/').map(str::as_bytes).collect();
        Patterns::parse(text).excludes(&parts)
    }

    #[test]
    fn patterns_mean_what_they_mean_to_docker() {
        for (text, path, expected) in [
            ("foo", "foo", true),
            ("foo", "foo/bar", true),
            // Unlike gitignore, anchored at the root.
            ("foo", "a/foo", false),
            ("**/foo", "a/foo", true),
            ("**/foo", "foo", true),
            ("/foo/", "foo", true),
            ("*.md", "a.md", true),
            ("*.md", "d/a.md", false),
            ("*/*.md", "d/a.md", true),
            ("**/*.md", "d/e/a.md", true),
            ("d/**", "d/e/f", true),
            ("d/**", "d", false),
            ("a**b", "a/x/b", true),
            ("fo?", "foo", true),
            ("fo?", "fo", false),
            ("[a-c]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("# foo\n\nbar", "foo", false),
            ("./foo/../bar", "bar", true),
            ("*\n!keep", "keep", false),
            ("*\n!keep", "other", true),
            ("*\n!keep", "keep/below", false),
            ("d\n!d/keep", "d/keep", false),
            ("d\n!d/keep", "d/drop", true),
            ("*.md\n!README*.md\nREADME-secret.md", "README-secret.md", true),
            ("*.md\n!README*.md\nREADME-secret.md", "README.md", false),
        ] {
            assert_eq!(excluded(text, path), expected, "{text:?} on {path}");
        }
    }

    #[test]
    fn an_excluded_folder_is_entered_only_when_something_in_it_may_come_back() {
        let may = |text: &str, folder: &str| {
            let parts: Vec<&[u8]> = folder.split('/').map(str::as_bytes).collect();
            Patterns::parse(text).may_admit_below(&parts)
        };
        assert!(!may("node_modules", "node_modules"));
        assert!(!may("node_modules\n!src/x", "node_modules"));
        assert!(may("d\n!d/keep", "d"));
        assert!(may("d\n!d/e/keep", "d/e"));
        assert!(!may("d\n!d/keep", "d/e"));
        assert!(may("d\n!**/keep", "d/e/f"));
        assert!(may("*\n!d/**/keep", "d/e/f"));
        assert!(may("*\n!s*/keep", "src"));
    }
}
