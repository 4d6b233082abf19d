//! Templates for module values and configuration files: minijinja, strict.
//!
//! A variable that is not there is an error, never an empty text. Filters write
//! a value for where it stands: `url` (percent-encoded), `quoted` (double quotes
//! with escapes), `sql` (single quotes). Secrets pass through as tokens, see
//! [`crate::secret`], so a template never holds a value.

use minijinja::{Environment, UndefinedBehavior, Value};
use serde::Serialize;

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

/// Templates that are rendered again and again, compiled once.
pub(crate) struct Prepared<'s>(Environment<'s>);

impl<'s> Prepared<'s> {
    /// What cannot be compiled says so when it is rendered.
    pub(crate) fn new(templates: impl Iterator<Item = &'s str>) -> Self {
        let mut environment = environment();
        for template in templates {
            // The text is its own name.
            drop(environment.add_template(template, template));
        }
        Self(environment)
    }

    /// As [`Templates::render`].
    pub(crate) fn render(&self, template: &str, context: &Context) -> Result<String, TemplateError> {
        render(&self.0, template, context)
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
#[derive(Clone)]
pub struct Context(minijinja::Value);

impl Context {
    /// A context of any map-like value.
    pub fn new(values: impl Serialize) -> Self {
        Self(minijinja::Value::from(minijinja::value::Serde(values)))
    }
}

impl Context {
    /// With more names, which go before those that are there.
    pub fn with(&self, values: impl Serialize) -> Self {
        let more = minijinja::Value::from(minijinja::value::Serde(values));
        Self(minijinja::value::merge_maps([self.0.clone(), more]))
    }
}

/// A template of nothing but names and the encoding filters, without the
/// compiler, which takes most of the time of planning. `None` for anything
/// else, and for whatever is not there: the compiler says what is wrong.
fn plain(template: &str, context: &Context) -> Option<String> {
    let mut out = String::with_capacity(template.len() + 32);
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        let (text, opened) = rest.split_at(at);
        out.push_str(text);
        match opened.as_bytes().get(1) {
            Some(b'{') => {}
            // Blocks and comments are the compiler's.
            Some(b'%' | b'#') => return None,
            _ => {
                out.push('{');
                rest = &opened[1..];
                continue;
            }
        }
        let end = opened.find('}').filter(|end| opened[*end..].starts_with("}}"))?;
        let (expression, after) = (&opened[2..end], &opened[end + 2..]);
        let mut steps = expression.split('|').map(str::trim);
        let mut value = context.0.clone();
        for step in steps.next()?.split('.') {
            let (name, index) = match step.strip_suffix(']') {
                Some(indexed) => indexed.split_once('[').map(|(name, index)| (name, Some(index)))?,
                None => (step, None),
            };
            let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let digits = |c: char| c.is_ascii_digit();
            if name.is_empty() || !name.chars().all(letters) || name.starts_with(digits) {
                return None;
            }
            value = value.get_attr(name).ok()?;
            if let Some(index) = index {
                if !index.chars().all(digits) {
                    return None;
                }
                value = value.get_item_by_index(index.parse().ok()?).ok()?;
            }
        }
        let mut written = match value.as_str() {
            Some(text) => text.to_owned(),
            None if value.is_integer() => value.as_i64()?.to_string(),
            None => return None,
        };
        for filter in steps {
            let encoding = match filter {
                "url" => Encoding::Url,
                "quoted" => Encoding::Quoted,
                "sql" => Encoding::Sql,
                _ => return None,
            };
            written = encoding.apply(&written);
        }
        out.push_str(&written);
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

fn render(environment: &Environment<'_>, template: &str, context: &Context) -> Result<String, TemplateError> {
    if !template.contains('{') {
        return Ok(template.to_owned());
    }
    if let Some(text) = plain(template, context) {
        return Ok(text);
    }
    let rendered = match environment.get_template(template) {
        Ok(prepared) => prepared.render(context.0.clone()),
        Err(_) => environment.render_str(template, context.0.clone()),
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
            let compiled = templates.0.render_str(template, context.0.clone());
            match templates.render(template, &context) {
                Ok(text) => assert_eq!(text, compiled.unwrap(), "{template}"),
                Err(_) => assert!(compiled.is_err(), "{template}"),
            }
        }
        let more = context.with(json!({"a": "z", "m": 1}));
        assert_eq!(templates.render("{{ a }}{{ m }}{{ o.k }}", &more).unwrap(), "z1q\"'");
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
