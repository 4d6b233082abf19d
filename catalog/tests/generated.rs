//! The checked-in reference is what the code says. `UPDATE_REFERENCE=1` rewrites it.

use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference")
}

fn compare(name: &str, generated: &str) {
    let path = folder().join(name);
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(checked_in == generated, "docs/reference/{name} is not up to date; run the tests with UPDATE_REFERENCE=1");
}

#[test]
fn the_schema_is_checked_in() {
    let schema = serde_json::to_string_pretty(&sidestack_catalog::schema()).unwrap();
    compare("module.schema.json", &format!("{schema}\n"));
}

#[test]
fn the_pages_of_modules_are_checked_in() {
    let mut expected = Vec::new();
    for entry in sidestack_catalog::builtin().iter() {
        let name = format!("{}.md", entry.module.name);
        compare(&format!("modules/{name}"), &sidestack_catalog::reference(&entry.module));
        expected.push(name);
    }
    let mut found: Vec<String> = std::fs::read_dir(folder().join("modules"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, expected, "a page of a module that there is not");
}
