//! The manifest's shape for editors.

use serde_json::{Value, json};

use crate::names::MAX_NAME;

/// The JSON Schema of `sidestack.yaml`. It tells the shape; what a module knows
/// of a resource's other keys is told by `sidestack plan`.
pub fn schema() -> Value {
    let stack = stack_keys();
    let mut properties = stack.clone();
    let mut overlay = stack;
    // What may be set may be taken away by an environment.
    for (key, value) in &mut overlay {
        let nullable = value.clone();
        *value = json!({"description": format!("Merged over the stack's own `{key}`; null removes"), "anyOf": [nullable, {"type": "null"}]});
    }
    properties.insert("sidestack".to_owned(), json!({"description": "The format's version", "const": 1}));
    properties.insert("workspace".to_owned(), name("The project's name; else the folder's"));
    properties.insert(
        "environments".to_owned(),
        json!({
            "description": "Variations, each merged deeply over the rest; null removes, lists replace",
            "type": "object",
            "propertyNames": {"$ref": "#/$defs/name"},
            "additionalProperties": {"anyOf": [{"type": "null"}, {"type": "object", "properties": overlay, "additionalProperties": false}]},
        }),
    );
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Sidestack stack manifest",
        "type": "object",
        "required": ["sidestack"],
        "properties": properties,
        "additionalProperties": false,
        "$defs": {
            "name": {"type": "string", "pattern": "^[a-z]([a-z0-9-]*[a-z0-9])?$", "maxLength": MAX_NAME},
            "value": {
                "description": "A value, or a secret by reference",
                "anyOf": [
                    {"type": ["string", "number", "boolean"]},
                    {"$ref": "#/$defs/secret"},
                    {"type": "null", "description": "In an environment: removes it"},
                ],
            },
            "secret": {
                "type": "object",
                "required": ["secret"],
                "properties": {"secret": {
                    "description": "env:NAME, keychain:SERVICE/ACCOUNT, command:…, file:PATH or dotenv:PATH#KEY",
                    "type": "string",
                    "pattern": "\\S",
                }},
                "additionalProperties": false,
            },
            "resource": resource(),
        },
    })
}

fn name(description: &str) -> Value {
    json!({"description": description, "$ref": "#/$defs/name"})
}

/// The keys that environments can change too.
fn stack_keys() -> serde_json::Map<String, Value> {
    let texts = json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]});
    let mut compose = texts.clone();
    compose["description"] = json!("The compose files, relative to this file: one or a list");
    let keys = [
        (
            "resources",
            json!({
                "description": "What the stack needs, by name",
                "type": "object",
                "propertyNames": {"$ref": "#/$defs/name"},
                "additionalProperties": {"anyOf": [
                    {"description": "An engine: postgres, postgres@17", "type": "string"},
                    {"$ref": "#/$defs/resource"},
                    {"type": "null", "description": "In an environment: removes it"},
                ]},
            }),
        ),
        ("compose", compose),
        (
            "inject",
            json!({
                "description": "Which services get which resources' client variables, or which variables by name",
                "type": "object",
                "additionalProperties": {"anyOf": [&texts, {"type": "null"}]},
            }),
        ),
        (
            "env",
            json!({
                "description": "The stack's own variables",
                "type": "object",
                "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
                "additionalProperties": {"$ref": "#/$defs/value"},
            }),
        ),
        ("isolation", isolation(&texts)),
    ];
    keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn isolation(texts: &Value) -> Value {
    let mut keep = texts.clone();
    keep["description"] = json!(
        "Self-addresses that stay as the files have them: API_URL, web.API_URL, web.command, web.labels.NAME, web"
    );
    json!({
        "description": "What becomes of external networks and volumes, and which self-addresses stay",
        "type": "object",
        "properties": {
            "networks": {
                "description": "External networks by their keys in the compose files",
                "type": "object",
                "additionalProperties": {"anyOf": [
                    {"description": "share: every service that the files attach stands in it; create: every instance has its own", "enum": ["share", "create"]},
                    {
                        "description": "Only these services stand in it; the others have a private one in its place",
                        "type": "object",
                        "required": ["share"],
                        "properties": {"share": {"type": "array", "items": {"type": "string"}}},
                        "additionalProperties": false,
                    },
                    {"type": "null", "description": "In an environment: removes it"},
                ]},
            },
            "volumes": {
                "description": "External volumes by their keys in the compose files",
                "type": "object",
                "additionalProperties": {"anyOf": [
                    {"description": "share: every instance writes to it; copy: every instance begins with a copy; create: every instance has its own, empty at first", "enum": ["share", "copy", "create"]},
                    {"type": "null", "description": "In an environment: removes it"},
                ]},
            },
            "keep": keep,
        },
        "additionalProperties": false,
    })
}

fn resource() -> Value {
    json!({
        "description": "A capability with required characteristics; further keys are the module's (databases, storage, …)",
        "type": "object",
        "properties": {
            "is": {"description": "The capability: sql-database", "type": "string"},
            "engine": {"description": "The engine, with a version if it matters: postgres@17", "type": "string"},
            "arrangement": {"description": "How it is laid out", "enum": ["single", "failover", "sharded", "multisite"]},
            "default": {"description": "Whether it owns the conventional variable names of its kind", "type": "boolean"},
            "settings": {"description": "Settings of the module", "type": "object"},
            "credentials": {
                "description": "Credentials that replace the development defaults",
                "type": "object",
                "additionalProperties": {"$ref": "#/$defs/value"},
            },
        },
    })
}
