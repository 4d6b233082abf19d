//! What is wrong with an input, where, and how to mend it.
//!
//! Validation never stops at the first fault: functions return their result
//! together with a list of [`Diagnostic`]s. A pass that works on data knows only
//! the *path* in the document (`resources.db.engine`); [`Diagnostic::located`]
//! turns it into file, line, column and the source line, which costs a second
//! look at the text and is therefore done for faults only.

use std::fmt;

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing is written or started.
    Error,
    /// Said, and gone on with.
    Warning,
}

/// A place in a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file, as the user would type it.
    pub file: String,
    /// Counted from 1; 0 when only the file is known.
    pub line: u32,
    /// Counted in characters from 1; 0 when only the file is known.
    pub column: u32,
    /// The source line, shortened.
    pub excerpt: String,
}

/// One fault of an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong: a lower-case fragment.
    pub message: String,
    /// The path in the document, such as `["resources", "db", "engine"]`; may be empty.
    pub path: Vec<String>,
    /// Where, once it is known.
    pub place: Option<Place>,
    /// How to mend it.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// A fault at a path of the document.
    pub fn error(path: &[&str], message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            message: message.into(),
            path: path.iter().map(|&part| part.to_owned()).collect(),
            place: None,
            hint: None,
        }
    }

    /// Something to say that stops nothing.
    pub fn warning(path: &[&str], message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(path, message) }
    }

    /// With the remedy.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With the place its path has in `text`, or the nearest enclosing one.
    #[must_use]
    pub fn located(self, file: &str, text: &str) -> Self {
        if self.place.is_some() { self } else { self.located_by(&crate::yaml::places(text), file, text) }
    }

    /// The same for several faults of one text.
    #[must_use]
    pub fn located_by(mut self, places: &crate::yaml::Places, file: &str, text: &str) -> Self {
        if self.place.is_none() {
            let (line, column) = places.locate(&self.path).unwrap_or((0, 0));
            self.place = Some(Place::new(file, text, line, column));
        }
        self
    }
}

impl Place {
    /// A place with its source line, shortened around the column so that it fits a terminal.
    pub fn new(file: &str, text: &str, line: u32, column: u32) -> Self {
        let source = match line {
            0 => "",
            line => text.lines().nth(line as usize - 1).unwrap_or_default(),
        };
        let start = (column as usize).saturating_sub(60);
        let shown: String = source
            .chars()
            .skip(if source.chars().count() > 100 { start } else { 0 })
            .take(100)
            .map(|c| if c.is_control() || is_bidi(c) { '\u{FFFD}' } else { c })
            .collect();
        Self { file: file.to_owned(), line, column, excerpt: shown.trim_end().to_owned() }
    }
}

/// Characters that make a text look other than it is.
pub(crate) fn is_bidi(c: char) -> bool {
    matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{200E}' | '\u{200F}' | '\u{061C}')
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.file),
            _ => write!(f, "{}:{}:{}", self.file, self.line, self.column),
        }
    }
}

impl fmt::Display for Diagnostic {
    /// At most four lines: the message, the place, the source line, the hint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        if let Some(place) = &self.place {
            write!(f, "\n  at {place}")?;
            if !self.path.is_empty() {
                write!(f, " ({})", self.path.join("."))?;
            }
            if !place.excerpt.is_empty() {
                write!(f, "\n   | {}", place.excerpt)?;
            }
        } else if !self.path.is_empty() {
            write!(f, " (at {})", self.path.join("."))?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

/// Whether any of them forbids going on.
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|d| d.severity == Severity::Error)
}

/// The candidate nearest to a misspelt word, when one is near enough to be meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 4)
        .min()
        .map(|(_, candidate)| candidate)
}
