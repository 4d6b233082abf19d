//! The spelling of names, images and paths.

use crate::faults::Faults;

/// How a kind of name is spelt.
#[derive(Clone, Copy)]
pub(crate) struct Grammar {
    first: fn(char) -> bool,
    rest: fn(char) -> bool,
    most: usize,
    rule: &'static str,
}

fn lower(c: char) -> bool {
    c.is_ascii_lowercase()
}

fn lower_or_digit(c: char) -> bool {
    lower(c) || c.is_ascii_digit()
}

impl Grammar {
    /// Modules, services, capabilities.
    pub(crate) const DASHED: Self = Self {
        first: lower,
        rest: |c| lower_or_digit(c) || c == '-',
        most: 32,
        rule: "lower-case letters, digits and `-`, a letter first, at most 32",
    };
    /// What templates read behind a dot, where `-` would be a minus.
    pub(crate) const UNDERSCORED: Self = Self {
        first: lower,
        rest: |c| lower_or_digit(c) || c == '_',
        most: 64,
        rule: "lower-case letters, digits and `_`, a letter first",
    };
    /// Ports, files, volumes.
    pub(crate) const ANY: Self = Self {
        first: lower,
        rest: |c| lower_or_digit(c) || c == '_' || c == '-',
        most: 32,
        rule: "lower-case letters, digits, `_` and `-`, a letter first, at most 32",
    };
    /// Versions, which stand behind `@` and in tags.
    pub(crate) const VERSION: Self = Self {
        first: |c| c.is_ascii_alphanumeric(),
        rest: |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+'),
        most: 64,
        rule: "letters, digits, `.`, `_`, `+` and `-`",
    };
    /// Schemes of URLs.
    pub(crate) const SCHEME: Self = Self {
        first: lower,
        rest: |c| lower_or_digit(c) || matches!(c, '+' | '.' | '-'),
        most: 32,
        rule: "lower-case letters, digits, `+`, `.` and `-`",
    };
    /// Variables that clients get.
    pub(crate) const VARIABLE: Self = Self {
        first: |c| c.is_ascii_uppercase(),
        rest: |c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_',
        most: 64,
        rule: "upper-case letters, digits and `_`, a letter first",
    };
    /// Variables of a container, where some images want `a.b`.
    pub(crate) const CONTAINER_VARIABLE: Self = Self {
        first: |c| c.is_ascii_alphabetic() || c == '_',
        rest: |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'),
        most: 128,
        rule: "letters, digits, `_`, `.` and `-`",
    };
    /// Files under `/run/secrets`.
    pub(crate) const FILE: Self = Self {
        first: |c| c.is_ascii_alphanumeric(),
        rest: |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'),
        most: 64,
        rule: "letters, digits, `.`, `_` and `-`, a letter or digit first",
    };
    /// Signals: `SIGINT`, `SIGRTMIN+3`.
    pub(crate) const SIGNAL: Self = Self {
        first: |c| c == 'S',
        rest: |c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '+',
        most: 16,
        rule: "a name such as `SIGINT`",
    };
    /// Linux capabilities.
    pub(crate) const CAPABILITY: Self = Self {
        first: |c| c.is_ascii_uppercase(),
        rest: |c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_',
        most: 32,
        rule: "a name such as `NET_ADMIN`",
    };
}

/// A fault when a text is not spelt as it should be; `what` names the kind: `a setting`.
pub(crate) fn check(faults: &mut Faults, path: &[&str], text: &str, grammar: Grammar, what: &str) {
    let mut chars = text.chars();
    let spelt = chars.next().is_some_and(grammar.first)
        && chars.all(grammar.rest)
        && text.len() <= grammar.most
        && (grammar.rule != Grammar::DASHED.rule || !text.ends_with('-'));
    if !spelt {
        let shown: String = text.chars().take(60).collect();
        faults.hinted(path, format!("`{shown}` is not the spelling of {what}"), grammar.rule);
    }
}

/// A fault when an image is none, or has neither tag nor digest.
pub(crate) fn image(faults: &mut Faults, path: &[&str], image: &str) {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ':' | '@');
    let name = image.rsplit('/').next().unwrap_or_default();
    let tag = |tag: &str| tag.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') && !tag.contains(':');
    let pinned = match name.split_once('@') {
        Some((_, digest)) => digest.strip_prefix("sha256:").is_some_and(tag),
        None => name.split_once(':').is_some_and(|(_, text)| tag(text)),
    };
    if image.is_empty() || !image.chars().all(allowed) || image.starts_with(['/', ':', '@', '-']) {
        faults.add(path, format!("`{image}` is not an image"));
    } else if !pinned {
        faults.hinted(
            path,
            format!("the image `{image}` has no tag"),
            "what runs must not change by itself: name a version, as in `postgres:17`",
        );
    }
}

/// A fault when a path in a container is not absolute, plain and a place of its own.
pub(crate) fn path(faults: &mut Faults, at: &[&str], path: &str) {
    if path.contains("{{") || path.contains("{%") || path.contains("{#") {
        faults.add(at, "a path cannot be a template");
    } else if !path.starts_with('/') {
        faults.add(at, format!("the path `{path}` must begin with `/`"));
    } else if path.split('/').any(|part| part == ".." || part == ".") {
        faults.add(at, format!("the path `{path}` may not hold `.` or `..`"));
    } else if path.trim_end_matches('/').is_empty() || path.ends_with('/') || path.contains("//") {
        faults.add(at, format!("the path `{path}` has an empty part"));
    } else if path.contains([':', '$', '\\', '\n']) {
        faults.add(at, format!("the path `{path}` may not hold `:`, `$`, `\\` or a line break"));
    }
}
