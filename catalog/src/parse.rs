//! From a text to a module, or to everything that is wrong with it.

use std::sync::OnceLock;

use serde_json::Value;
use sidestack_topology::diagnostic::Diagnostic;
use sidestack_topology::module::Module;
use sidestack_topology::yaml;

use crate::faults::Faults;
use crate::raw::RawModule;
use crate::{resolve, shape, templates};

/// Reads a module; `file` is its name in messages.
///
/// # Errors
/// Every fault that can be found in one go, each with file, line, column and the
/// source line, in the order of the text. A text that is not YAML has one fault;
/// wrong types and missing keys are all told, together with unknown keys; what
/// the keys mean is looked at once their types are right.
pub fn parse(file: &str, text: &str) -> Result<Module, Vec<Diagnostic>> {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    let document: Value = yaml::read(file, text.as_bytes()).map_err(|fault| vec![fault])?;
    let shape = shape::check(document, SCHEMA.get_or_init(crate::schema));
    let mut faults: Faults = shape.faults;
    let module = if shape.usable {
        match serde_json::from_value::<RawModule>(shape.pruned) {
            Ok(raw) => {
                let module = resolve::module(raw, &mut faults);
                templates::check(&module, &mut faults);
                Some(module)
            }
            // The schema lets through what the types refuse: told without a place.
            Err(error) => {
                faults.add(&[], error.to_string());
                None
            }
        }
    } else {
        None
    };
    match module {
        Some(module) if faults.is_empty() => Ok(module),
        _ => Err(faults.located(file, text)),
    }
}
