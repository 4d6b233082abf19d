//! What `--json` prints: types of its own, stable once released.
//!
//! More fields may be added, so lists stand in objects. Each document carries its
//! schema's id, `sidestack.<command>.v1`; the schemas are generated into
//! `docs/reference/json/` and compared by a test.

mod instances;
mod others;
mod plan;
mod revisions;
mod variables;

use schemars::JsonSchema;
use serde::Serialize;
use sidestack_runtime::Error;
use sidestack_topology::diagnostic::{Diagnostic, Severity};

pub(crate) use instances::{Acted, Instance, List, Why, Would};
pub(crate) use others::{Catalog, Event, Events, Initialised, Logs, Module, Opened, Trust, Version, needs};
pub(crate) use plan::Plan;
pub(crate) use revisions::{Diff, History, Shown};
pub(crate) use variables::{Changed, SecretDone, SecretGot, Secrets, Variables};

/// What a command ends with.
pub(crate) enum Answer<'a, T> {
    /// What it found or did.
    Done(&'a T),
    /// Why it did not.
    Failed(Failure),
}

/// The envelope; a struct, so that the schema's id comes first.
#[derive(Serialize)]
struct Document<'a, T> {
    schema: String,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Failure>,
}

impl<T: Serialize> Answer<'_, T> {
    /// The document on one line.
    pub(crate) fn text(&self, command: &str) -> String {
        let (data, error) = match self {
            Self::Done(data) => (Some(*data), None),
            Self::Failed(error) => (None, Some(error)),
        };
        let document = Document { schema: schema_id(command), ok: error.is_none(), data, error };
        // Every key is a text and every number finite, so this cannot fail.
        let text = serde_json::to_string(&document).unwrap_or_default();
        format!("{}\n", crate::output::safe::json(text))
    }
}

/// `sidestack.ls.v1`.
pub(crate) fn schema_id(command: &str) -> String {
    format!("sidestack.{command}.v1")
}

/// What went wrong.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Failure {
    /// A stable word, such as `port-taken`
    code: String,
    /// What failed
    message: String,
    /// How to mend it
    hint: Option<String>,
    /// The instance it is about
    target: Option<String>,
    /// Evidence, a line each
    detail: Vec<String>,
    /// Faults of an input, with their places
    diagnostics: Vec<Fault>,
}

/// A fault of an input.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Fault {
    /// `error` or `warning`
    severity: &'static str,
    /// What is wrong
    message: String,
    /// Where in the document, such as `resources.db.engine`
    path: String,
    /// The file
    file: Option<String>,
    /// Counted from 1
    line: Option<u32>,
    /// Counted in characters from 1
    column: Option<u32>,
    /// How to mend it
    hint: Option<String>,
}

impl From<&Diagnostic> for Fault {
    fn from(fault: &Diagnostic) -> Self {
        let known = |number: u32| (number > 0).then_some(number);
        Self {
            severity: match fault.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            },
            message: fault.message.clone(),
            path: fault.path.join("."),
            file: fault.place.as_ref().map(|place| place.file.clone()),
            line: fault.place.as_ref().and_then(|place| known(place.line)),
            column: fault.place.as_ref().and_then(|place| known(place.column)),
            hint: fault.hint.clone(),
        }
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self {
            code: error.code.to_owned(),
            message: error.message.clone(),
            hint: error.hint.clone(),
            target: error.target.clone(),
            detail: error.detail.clone(),
            diagnostics: error.diagnostics.iter().map(Fault::from).collect(),
        }
    }
}

#[cfg(test)]
use serde_json::{Value, json};

/// Every command's schema, by its name.
#[cfg(test)]
pub(crate) fn schemas() -> std::collections::BTreeMap<&'static str, Value> {
    fn of<T: JsonSchema>(command: &'static str) -> (&'static str, Value) {
        let mut generator = schemars::generate::SchemaSettings::draft2020_12().into_generator();
        let data = generator.subschema_for::<T>().to_value();
        let error = generator.subschema_for::<Failure>().to_value();
        let answer = |ok: bool, key: &str, value: Value| {
            json!({
                "type": "object",
                "properties": {"schema": {"const": schema_id(command)}, "ok": {"const": ok}, key: value},
                "required": ["schema", "ok", key],
            })
        };
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": schema_id(command),
            "oneOf": [answer(true, "data", data), answer(false, "error", error)],
            "$defs": generator.take_definitions(true),
        });
        (command, schema)
    }
    [
        of::<Initialised>("init"),
        of::<Plan>("plan"),
        of::<Instance>("up"),
        of::<List>("ls"),
        of::<Instance>("describe"),
        of::<Why>("why"),
        of::<History>("history"),
        of::<Shown>("show"),
        of::<Diff>("diff"),
        of::<Variables>("env"),
        of::<Changed>("set"),
        of::<Changed>("unset"),
        of::<Logs>("logs"),
        of::<Events>("events"),
        of::<Opened>("open"),
        of::<Instance>("wait"),
        of::<Acted>("stop"),
        of::<Instance>("start"),
        of::<Instance>("restart"),
        of::<Acted>("down"),
        of::<Acted>("rm"),
        of::<Catalog>("catalog"),
        of::<Module>("catalog-show"),
        of::<SecretDone>("secret-set"),
        of::<SecretGot>("secret-get"),
        of::<SecretDone>("secret-rm"),
        of::<Secrets>("secret-ls"),
        of::<Version>("version"),
    ]
    .into_iter()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestack_runtime::Kind;

    #[test]
    fn an_error_has_its_documented_shape() {
        let faults = vec![Diagnostic::error(&["env", "A"], "one").located("sidestack.yaml", "env:\n  A: 1\n")];
        let text = Answer::<()>::Failed((&Error::invalid(faults)).into()).text("up");
        assert!(text.ends_with("}\n") && text.matches('\n').count() == 1);
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            document,
            json!({"schema": "sidestack.up.v1", "ok": false, "error": {
                "code": "invalid-stack", "message": "one", "hint": null, "target": null, "detail": [],
                "diagnostics": [{"severity": "error", "message": "one", "path": "env.A", "file": "sidestack.yaml",
                                 "line": 2, "column": 6, "hint": null}],
            }})
        );
        let plain = Error::new(Kind::Conflict, "port-taken", "taken").about("shop/dev/main");
        let document: Value = serde_json::from_str(&Answer::<()>::Failed((&plain).into()).text("up")).unwrap();
        assert_eq!(document["error"]["target"], "shop/dev/main");
    }
}
