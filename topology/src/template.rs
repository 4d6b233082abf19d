//! Templates for module values and configuration files: minijinja, strict.
//!
//! A variable that is not there is an error, never an empty text. Filters write
//! a value for where it stands: `url` (percent-encoded), `quoted` (double quotes
//! with escapes), `sql` (single quotes). Secrets pass through as tokens, see
//! [`crate::secret`], so a template never holds a value.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use minijinja::value::{Object, Serde};
use minijinja::{Environment, UndefinedBehavior, Value};
use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::secret::Encoding;

/// The steps one rendering may take: some milliseconds, and at most some megabytes.
const FUEL: u64 = 200_000;

/// A template that could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemplateError {
    /// What is wrong.
    pub message: String,
    /// The line inside the template, from 1.
    pub line: usize,
}

/// Renders templates; made once and used for many.
pub struct Templates(Environment<'static>);

impl Default for Templates {
    fn default() -> Self {
        Self(environment())
    }
}

/// Templates that are rendered again and again, taken apart or compiled once.
pub(crate) struct Prepared<'s> {
    environment: Environment<'s>,
    plain: RefCell<HashMap<&'s str, Option<Plain<'s>>>>,
}

impl<'s> Prepared<'s> {
    /// `longer` are those that the short way is not enough for. What cannot be
    /// compiled says so when it is rendered.
    pub(crate) fn new(longer: impl Iterator<Item = &'s str>) -> Self {
        let mut environment = environment();
        for template in longer {
            // The text is its own name.
            drop(environment.add_template(template, template));
        }
        Self { environment, plain: RefCell::default() }
    }

    /// As [`Templates::render`].
    pub(crate) fn render(&self, template: &'s str, context: &Context) -> Result<String, TemplateError> {
        if !template.contains('{') {
            return Ok(template.to_owned());
        }
        let mut plain = self.plain.borrow_mut();
        let plain = plain.entry(template).or_insert_with(|| Plain::parse(template));
        match plain.as_ref().and_then(|plain| plain.fill(context)) {
            Some(text) => Ok(text),
            None => compile(&self.environment, template, context),
        }
    }
}

fn environment<'s>() -> Environment<'s> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = minijinja::syntax::SyntaxConfig::builder().keep_trailing_newline(true).build();
    if let Ok(syntax) = syntax {
        environment.set_syntax(syntax);
    }
    // A template is data from a file: loops within loops end as an error.
    environment.set_fuel(Some(FUEL));
    environment.add_test("defined", |value: &Value| !value.is_undefined());
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.add_filter("url", |text: String| Encoding::Url.apply(&text));
    environment.add_filter("quoted", |text: String| Encoding::Quoted.apply(&text));
    environment.add_filter("sql", |text: String| Encoding::Sql.apply(&text));
    environment.add_filter("upper", |text: String| text.to_uppercase());
    environment.add_filter("variable", |text: String| variable_name(&text));
    environment.add_filter("join", |items: Vec<String>, between: String| items.join(&between));
    environment.add_filter("bytes_as", |bytes: u64, unit: String| -> Result<u64, minijinja::Error> {
        let shift = match unit.as_str() {
            "B" => 0,
            "kB" | "KiB" => 10,
            "MB" | "MiB" => 20,
            "GB" | "GiB" => 30,
            _ => {
                return Err(minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, "unknown unit"));
            }
        };
        Ok(bytes >> shift)
    });
    environment
}

/// A resource's name as the beginning of a variable's: `my-db` gives `MY_DB`.
pub fn variable_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

/// What a template may read; made once and used for many templates.
#[derive(Debug, Clone)]
pub struct Context(Arc<Names>);

/// Names with their values, above those of another context. The compiler's own
/// kind of value is made of a name only when a compiled template reads it.
#[derive(Debug)]
struct Names {
    own: Map<String, Json>,
    below: Option<Context>,
}

impl Context {
    /// A context of any map-like value; of anything else an empty one.
    pub fn new(values: impl Serialize) -> Self {
        Self::of(serde_json::to_value(values).unwrap_or_default(), None)
    }

    /// A context of names that are JSON already.
    pub(crate) fn of_names(own: Map<String, Json>) -> Self {
        Self(Arc::new(Names { own, below: None }))
    }

    /// With more names, which go before those that are there.
    pub fn with(&self, values: Json) -> Self {
        Self::of(values, Some(self.clone()))
    }

    fn of(values: Json, below: Option<Self>) -> Self {
        let own = match values {
            Json::Object(own) => own,
            _ => Map::new(),
        };
        Self(Arc::new(Names { own, below }))
    }

    fn get(&self, name: &str) -> Option<&Json> {
        let mut at = Some(self);
        while let Some(context) = at {
            if let Some(value) = context.0.own.get(name) {
                return Some(value);
            }
            at = context.0.below.as_ref();
        }
        None
    }

    /// As the compiler takes it.
    fn compiled(&self) -> Value {
        Value::from_dyn_object(Arc::clone(&self.0))
    }
}

impl Object for Names {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        Context(Arc::clone(self)).get(key.as_str()?).map(|value| Value::from(Serde(value)))
    }
}

/// A template of nothing but names and the encoding filters, taken apart without
/// the compiler, which takes most of the time of planning.
struct Plain<'s>(Vec<Piece<'s>>);

/// A part of it.
enum Piece<'s> {
    Text(&'s str),
    Value { path: Vec<(&'s str, Option<usize>)>, encodings: Vec<Encoding> },
}

impl<'s> Plain<'s> {
    /// `None` for anything else.
    fn parse(template: &'s str) -> Option<Self> {
        let mut pieces = Vec::new();
        let mut rest = template;
        while let Some(at) = rest.find('{') {
            let (text, opened) = rest.split_at(at);
            match opened.as_bytes().get(1) {
                Some(b'{') => pieces.push(Piece::Text(text)),
                // Blocks and comments are the compiler's.
                Some(b'%' | b'#') => return None,
                _ => {
                    let (brace, after) = rest.split_at(at + 1);
                    pieces.push(Piece::Text(brace));
                    rest = after;
                    continue;
                }
            }
            let end = opened.find('}').filter(|end| opened[*end..].starts_with("}}"))?;
            let mut steps = opened[2..end].split('|').map(str::trim);
            let path = steps.next()?.split('.').map(name).collect::<Option<_>>()?;
            let encodings = steps.map(encoding).collect::<Option<_>>()?;
            pieces.push(Piece::Value { path, encodings });
            rest = &opened[end + 2..];
        }
        pieces.push(Piece::Text(rest));
        Some(Self(pieces))
    }

    /// `None` when a value is not there or neither text nor number: the compiler
    /// says what is wrong.
    fn fill(&self, context: &Context) -> Option<String> {
        let mut out = String::new();
        for piece in &self.0 {
            let (path, encodings) = match piece {
                Piece::Text(text) => {
                    out.push_str(text);
                    continue;
                }
                Piece::Value { path, encodings } => (path, encodings),
            };
            let mut value: Option<&Json> = None;
            for (name, index) in path {
                let named = match value {
                    None => context.get(name)?,
                    Some(value) => value.as_object()?.get(*name)?,
                };
                value = Some(match index {
                    None => named,
                    Some(index) => named.as_array()?.get(*index)?,
                });
            }
            let value = value?;
            let mut written = match value.as_str() {
                Some(text) => Cow::Borrowed(text),
                None => Cow::Owned(value.as_i64()?.to_string()),
            };
            for encoding in encodings {
                written = Cow::Owned(encoding.apply(&written));
            }
            out.push_str(&written);
        }
        Some(out)
    }
}

/// A name, perhaps with an index.
fn name(step: &str) -> Option<(&str, Option<usize>)> {
    let (name, index) = match step.strip_suffix(']') {
        Some(indexed) => indexed.split_once('[').map(|(name, index)| (name, Some(index)))?,
        None => (step, None),
    };
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || !name.bytes().all(letter) || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let Some(index) = index else { return Some((name, None)) };
    let index = index.bytes().all(|byte| byte.is_ascii_digit()).then_some(index)?;
    Some((name, Some(index.parse().ok()?)))
}

fn encoding(filter: &str) -> Option<Encoding> {
    match filter {
        "url" => Some(Encoding::Url),
        "quoted" => Some(Encoding::Quoted),
        "sql" => Some(Encoding::Sql),
        _ => None,
    }
}

fn render(environment: &Environment<'_>, template: &str, context: &Context) -> Result<String, TemplateError> {
    if !template.contains('{') {
        return Ok(template.to_owned());
    }
    match Plain::parse(template).and_then(|plain| plain.fill(context)) {
        Some(text) => Ok(text),
        None => compile(environment, template, context),
    }
}

fn compile(environment: &Environment<'_>, template: &str, context: &Context) -> Result<String, TemplateError> {
    let rendered = match environment.get_template(template) {
        Ok(prepared) => prepared.render(context.compiled()),
        Err(_) => environment.render_str(template, context.compiled()),
    };
    rendered.map_err(|error| {
        let detail = error.detail().map(str::to_owned);
        let kind = match error.kind() {
            minijinja::ErrorKind::UndefinedError => "a variable of the template is not there".to_owned(),
            kind => kind.to_string(),
        };
        TemplateError {
            message: detail.map_or(kind.clone(), |detail| format!("{kind}: {detail}")),
            line: error.line().unwrap_or(1),
        }
    })
}

impl Templates {
    /// Renders one template.
    ///
    /// # Errors
    /// A syntax error, a variable that is not there, a filter that does not apply.
    pub fn render(&self, template: &str, context: &Context) -> Result<String, TemplateError> {
        render(&self.0, template, context)
    }

    /// The names a template reads, nested ones with dots: `credentials.user`.
    ///
    /// # Errors
    /// A syntax error.
    pub fn names(&self, template: &str) -> Result<std::collections::HashSet<String>, TemplateError> {
        let parsed = self.0.template_from_str(template).map_err(|error| TemplateError {
            message: error.detail().map_or_else(|| error.kind().to_string(), str::to_owned),
            line: error.line().unwrap_or(1),
        })?;
        Ok(parsed.undeclared_variables(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::{shown, token};
    use serde_json::json;

    #[test]
    fn the_short_way_gives_what_the_compiler_gives() {
        let templates = Templates::default();
        let values = json!({"a": "x y", "n": -3, "b": true, "f": 1.5, "none": null, "o": {"k": "q\"'"}, "l": ["i"]});
        let context = Context::new(&values);
        for template in [
            "{{ a }}",
            "{{a}}b{{ o.k|quoted }}",
            "{{ o.k | sql }}{{ n }}",
            "{{ a|url|url }}",
            "{{ b }}",
            "{{ f }}",
            "{{ none }}",
            "{{ l[0] }}",
            "{{ l[1] }}",
            "{{ l[-1] }}",
            "{{ a[0] }}",
            "{{ o[0] }}",
            "{{ l[] }}",
            "{{ l[+0] }}",
            "{{ l[0]|quoted }}",
            "{{ l }}",
            "{{ a -}} b",
            "{{- a }}",
            "{# c #}{{ a }}",
            "{{ 'a}}b' }}",
            "{{ a }}}}",
            "{{{ a }}",
            "{{ x }}",
            "{{ o.x }}",
            "{{ a",
            "{{ a|nope }}",
            "{{ 1 }}",
            "{{ a.b }}",
            "{% if b %}{{ a }}{% endif %}",
            "{{ true }}",
            "{{ n|url }}",
            "\n{{ a }}\n",
        ] {
            let compiled = templates.0.render_str(template, context.compiled());
            match templates.render(template, &context) {
                Ok(text) => assert_eq!(text, compiled.unwrap(), "{template}"),
                Err(_) => assert!(compiled.is_err(), "{template}"),
            }
        }
        let more = context.with(json!({"a": "z", "m": 1}));
        assert_eq!(templates.render("{{ a }}{{ m }}{{ o.k }}", &more).unwrap(), "z1q\"'");
        assert_eq!(templates.render("{% if m %}{{ a }}{{ m }}{{ o.k }}{% endif %}", &more).unwrap(), "z1q\"'");
    }

    #[test]
    fn strict_and_encoded() {
        let templates = Templates::default();
        let context =
            Context::new(json!({"user": "a b", "password": token("env:P", Encoding::Raw), "list": ["x", "y"]}));
        let render = |template: &str| templates.render(template, &context);
        assert_eq!(shown(&render("u://{{ user|url }}:{{ password|url }}@h").unwrap()), "u://a%20b:‹env:P›@h");
        assert_eq!(render("{{ list[0] }}{{ list|join(',') }}").unwrap(), "xx,y");
        assert!(render("{{ usr }}").is_err());
        assert!(render("{{ user").is_err());
        assert_eq!(render("{% if usr is defined %}a{% else %}b{% endif %}").unwrap(), "b");
        let endless = "{% for c in 'x' * 9999 %}".repeat(20) + "y" + &"{% endfor %}".repeat(20);
        assert!(render(&endless).is_err());
        assert_eq!(
            templates.render("{{ n|bytes_as('MB') }}MB", &Context::new(json!({"n": 128 << 20}))).unwrap(),
            "128MB"
        );
    }
}
