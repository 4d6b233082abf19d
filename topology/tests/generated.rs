//! The checked-in schema is what the code says. `UPDATE_REFERENCE=1` rewrites it.

use std::path::Path;

use sidestack_topology::manifest::{Document, schema};

#[test]
fn the_manifests_schema_is_checked_in() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/manifest.schema.json");
    let generated = format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap());
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == generated,
        "docs/reference/manifest.schema.json is not up to date; run the tests with UPDATE_REFERENCE=1"
    );
}

/// A key that the reader knows and the schema does not, or the other way round, is told.
#[test]
fn the_schema_knows_the_readers_keys() {
    let schema = schema();
    let known: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    let document = Document::parse("f", b"sidestack: 1\nnothing-known: 1\n").unwrap();
    let faults = document.resolve("dev").unwrap_err();
    let hint = faults[0].hint.clone().unwrap();
    let mut read: Vec<&str> = hint.trim_start_matches("known here: ").split(", ").collect();
    read.sort_unstable();
    assert_eq!(known, read);
}

/// The same for the keys of `isolation`, which no module knows more of.
#[test]
fn the_schema_knows_the_choices_of_isolation() {
    let schema = schema();
    let isolation = &schema["properties"]["isolation"];
    let known: Vec<&String> = isolation["properties"].as_object().unwrap().keys().collect();
    let document = Document::parse("f", b"sidestack: 1\nisolation: {nothing-known: 1}\n").unwrap();
    let faults = document.resolve("dev").unwrap_err();
    let hint = faults[0].hint.clone().unwrap();
    let mut read: Vec<&str> = hint.trim_start_matches("known here: ").split(", ").collect();
    read.sort_unstable();
    assert_eq!(known, read);
    // And each choice that it offers is one.
    for (section, other) in [("networks", "copy"), ("volumes", "keep")] {
        let offered = &isolation["properties"][section]["additionalProperties"]["anyOf"][0]["enum"];
        let takes = |choice: &str| {
            let text = format!("sidestack: 1\nisolation: {{{section}: {{x: {choice}}}}}\n");
            Document::parse("f", text.as_bytes()).unwrap().resolve("dev").is_ok()
        };
        assert!(offered.as_array().unwrap().iter().all(|choice| takes(choice.as_str().unwrap())), "{offered}");
        assert!(!takes(other));
    }
}
