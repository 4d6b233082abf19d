//! Compose's interpolation, as a pure function.
//!
//! Understood are `$$`, `$V`, `${V}`, `${V:-d}`, `${V-d}`, `${V:+r}`, `${V+r}`,
//! `${V:?e}` and `${V?e}`; what stands behind an operator is itself a template.
//! A name that has no value gives an empty text, as in Compose.

use std::collections::BTreeSet;

/// How deep defaults may stand in defaults.
const MAX_DEPTH: usize = 32;

/// Why a template has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InterpolateError {
    /// `${`, `${1}`, `$-`, `${V!x}`.
    #[error("`{0}` is no interpolation; write `$$` for a `$`")]
    Syntax(String),
    /// Defaults in defaults without end.
    #[error("interpolations stand inside each other more than {MAX_DEPTH} deep")]
    Depth,
    /// `${V?message}` and no value.
    #[error("`{name}` is required: {message}")]
    Required {
        /// The variable.
        name: String,
        /// What the template says about it; may be empty.
        message: String,
    },
}

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Variable { name: String, rule: Option<(Rule, Template)> },
}

/// What an operator does; `strict` treats an empty value like none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Default { strict: bool },
    Replace { strict: bool },
    Require { strict: bool },
}

impl std::str::FromStr for Template {
    type Err = InterpolateError;

    fn from_str(text: &str) -> Result<Self, InterpolateError> {
        let mut parser = Parser { rest: text };
        parser.template(0)
    }
}

impl Template {
    /// Every name it mentions, also inside defaults.
    pub fn names(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        self.collect(&mut names);
        names
    }

    fn collect<'a>(&'a self, names: &mut BTreeSet<&'a str>) {
        for piece in &self.0 {
            if let Piece::Variable { name, rule } = piece {
                names.insert(name);
                if let Some((_, inner)) = rule {
                    inner.collect(names);
                }
            }
        }
    }

    /// Its value; `lookup` gives `None` for a name that is not set.
    ///
    /// # Errors
    /// [`InterpolateError::Required`] when a required name has no value.
    pub fn value<'v>(&self, lookup: &impl Fn(&str) -> Option<&'v str>) -> Result<String, InterpolateError> {
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Variable { name, rule } => {
                    out.push_str(&variable(name, rule.as_ref(), lookup)?);
                }
            }
        }
        Ok(out)
    }
}

fn variable<'v>(
    name: &str,
    rule: Option<&(Rule, Template)>,
    lookup: &impl Fn(&str) -> Option<&'v str>,
) -> Result<String, InterpolateError> {
    let value = lookup(name);
    let there = |strict: bool| value.is_some_and(|value| !strict || !value.is_empty());
    let plain = || value.unwrap_or_default().to_owned();
    match rule {
        None => Ok(plain()),
        Some((Rule::Default { strict }, _)) if there(*strict) => Ok(plain()),
        Some((Rule::Default { .. }, default)) => default.value(lookup),
        Some((Rule::Replace { strict }, replacement)) if there(*strict) => replacement.value(lookup),
        Some((Rule::Replace { .. }, _)) => Ok(String::new()),
        Some((Rule::Require { strict }, _)) if there(*strict) => Ok(plain()),
        Some((Rule::Require { .. }, message)) => {
            Err(InterpolateError::Required { name: name.to_owned(), message: message.value(lookup)? })
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    /// Up to the end, or inside braces up to the `}` that ends them.
    fn template(&mut self, depth: usize) -> Result<Template, InterpolateError> {
        if depth > MAX_DEPTH {
            return Err(InterpolateError::Depth);
        }
        let mut pieces = Vec::new();
        let mut text = String::new();
        loop {
            let stop = |c: char| c == '$' || (depth > 0 && c == '}');
            let end = self.rest.find(stop).unwrap_or(self.rest.len());
            text.push_str(&self.rest[..end]);
            self.rest = &self.rest[end..];
            if let Some(rest) = self.rest.strip_prefix("$$") {
                text.push('$');
                self.rest = rest;
                continue;
            }
            if !self.rest.starts_with('$') {
                break;
            }
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(self.variable(depth)?);
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        Ok(Template(pieces))
    }

    /// At a `$` that is not doubled.
    fn variable(&mut self, depth: usize) -> Result<Piece, InterpolateError> {
        let whole = self.rest;
        let wrong = || InterpolateError::Syntax(whole.chars().take(40).collect());
        let Some(braced) = whole.strip_prefix("${") else {
            self.rest = &whole[1..];
            let name = self.name().ok_or_else(wrong)?;
            return Ok(Piece::Variable { name, rule: None });
        };
        self.rest = braced;
        let name = self.name().ok_or_else(wrong)?;
        let operators = [
            (":-", Rule::Default { strict: true }),
            (":+", Rule::Replace { strict: true }),
            (":?", Rule::Require { strict: true }),
            ("-", Rule::Default { strict: false }),
            ("+", Rule::Replace { strict: false }),
            ("?", Rule::Require { strict: false }),
        ];
        let mut rule = None;
        for (operator, meaning) in operators {
            if let Some(rest) = self.rest.strip_prefix(operator) {
                self.rest = rest;
                rule = Some((meaning, self.template(depth + 1)?));
                break;
            }
        }
        self.rest = self.rest.strip_prefix('}').ok_or_else(wrong)?;
        Ok(Piece::Variable { name, rule })
    }

    fn name(&mut self) -> Option<String> {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        self.rest = rest;
        Some(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn eval(text: &str) -> Result<String, InterpolateError> {
        let template: Template = text.parse()?;
        template.value(&|name| match name {
            "A" => Some("a"),
            "B" => Some("b"),
            "EMPTY" => Some(""),
            "DOLLAR" => Some("$A"),
            _ => None,
        })
    }

    #[test]
    fn every_form_means_what_compose_means() {
        for (template, expected) in [
            ("", ""),
            ("plain }", "plain }"),
            ("$A", "a"),
            ("x$A-y", "xa-y"),
            ("${A}b", "ab"),
            ("$$A $$$A", "$A $a"),
            ("$NONE${NONE}", ""),
            ("${NONE:-d}${EMPTY:-d}${A:-d}", "dda"),
            ("${NONE-d}${EMPTY-d}${A-d}", "da"),
            ("${NONE:+r}${EMPTY:+r}${A:+r}", "r"),
            ("${NONE+r}${EMPTY+r}${A+r}", "rr"),
            ("${A:?e}${A?e}${EMPTY?e}", "aa"),
            ("${NONE:-${EMPTY:-${A}x}y}z", "axyz"),
            ("${NONE:-http://$A:1/?q=$$}", "http://a:1/?q=$"),
            ("${NONE:-}", ""),
            ("${NONE:-a b\n\"'}", "a b\n\"'"),
            ("$DOLLAR", "$A"),
        ] {
            assert_eq!(eval(template).as_deref(), Ok(expected), "{template}");
        }
        assert_eq!(eval("${NONE:?say $A}").unwrap_err().to_string(), "`NONE` is required: say a");
        assert!(matches!(eval("${EMPTY:?e}"), Err(InterpolateError::Required { .. })));
        for wrong in ["$", "a$", "${", "${}", "${A", "${A:-b", "$1", "${1}", "${A!x}", "${A b}", "$-", "${A:b}"] {
            assert!(matches!(eval(wrong), Err(InterpolateError::Syntax(_))), "{wrong}");
        }
        assert_eq!(eval(&"${X:-".repeat(10_000)), Err(InterpolateError::Depth));
    }

    #[test]
    fn names_inside_defaults_count() {
        let template: Template = "$A ${B:-${C}} $$D ${E:+$F}".parse().unwrap();
        assert_eq!(template.names().into_iter().collect::<String>(), "ABCEF");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[$A{}:?+ -]{0,24}") {
            let _ = eval(&text);
        }

        #[test]
        fn a_text_without_names_is_itself(text in "\\PC{0,30}") {
            prop_assert_eq!(eval(&text.replace('$', "$$")), Ok(text));
        }

        /// A template and the value it must have, made together.
        #[test]
        fn made_templates_have_their_value(pieces in prop::collection::vec(piece(), 0..6)) {
            let (template, value): (Vec<_>, Vec<_>) = pieces.into_iter().unzip();
            prop_assert_eq!(eval(&template.concat()), Ok(value.concat()));
        }
    }

    fn piece() -> impl Strategy<Value = (String, String)> {
        let leaf = prop_oneof![
            "[a-z ./:@]{1,6}".prop_map(|text| (text.clone(), text)),
            Just(("$$".to_owned(), "$".to_owned())),
            Just(("${A}".to_owned(), "a".to_owned())),
            Just(("${NONE}".to_owned(), String::new())),
        ];
        leaf.prop_recursive(4, 16, 1, |inner| {
            (inner, 0..6).prop_map(|((text, value), form)| match form {
                0 => (format!("${{NONE:-{text}}}"), value),
                1 => (format!("${{EMPTY-{text}}}"), String::new()),
                2 => (format!("${{EMPTY:-{text}}}"), value),
                3 => (format!("${{B:+{text}}}"), value),
                4 => (format!("${{NONE+{text}}}"), String::new()),
                _ => (format!("${{B:?{text}}}"), "b".to_owned()),
            })
        })
    }
}
