//! The catalogue: modules by name, the built-in ones and those of a stack.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use sidestack_topology::diagnostic::Diagnostic;
use sidestack_topology::module::Module;

/// The built-in modules as they are embedded: name of the file, text.
pub(crate) const BUILT_IN: [(&str, &str); 2] = [
    ("postgres.yaml", include_str!("../modules/postgres.yaml")),
    ("redis.yaml", include_str!("../modules/redis.yaml")),
];

/// Where a module comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It is part of Sidestack.
    BuiltIn,
    /// It is a file of a stack: its path as the user would type it.
    Stack(String),
}

/// A module together with what it was read from.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The module, valid.
    pub module: Module,
    /// The YAML as it was given; it goes into revisions, so that a new version of
    /// Sidestack changes no old one.
    pub text: String,
    /// Where it comes from.
    pub origin: Origin,
}

/// Modules by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalog {
    entries: BTreeMap<String, Entry>,
}

impl Catalog {
    /// The entry of a module.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// All entries, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// The entries that provide a capability, the highest preference first and
    /// then by name.
    pub fn providers(&self, capability: &str) -> Vec<&Entry> {
        let mut providers: Vec<&Entry> =
            self.iter().filter(|entry| entry.module.provides.iter().any(|one| one == capability)).collect();
        providers.sort_by_key(|entry| std::cmp::Reverse(entry.module.preference));
        providers
    }

    /// Every capability that some module provides.
    pub fn capabilities(&self) -> BTreeSet<&str> {
        self.iter().flat_map(|entry| entry.module.provides.iter().map(String::as_str)).collect()
    }

    /// Puts a module in, in the place of one of the same name, which is returned.
    pub fn insert(&mut self, entry: Entry) -> Option<Entry> {
        self.entries.insert(entry.module.name.clone(), entry)
    }
}

impl Entry {
    /// An entry of a text; `file` is its name in messages.
    ///
    /// # Errors
    /// Everything that [`crate::parse`] finds.
    pub fn read(file: &str, text: &str, origin: Origin) -> Result<Self, Vec<Diagnostic>> {
        Ok(Self { module: crate::parse(file, text)?, text: text.to_owned(), origin })
    }
}

/// The modules that are part of Sidestack, parsed once.
pub fn builtin() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| {
        let mut catalog = Catalog::default();
        for (file, text) in BUILT_IN {
            // The texts are constants; a test holds that each of them is valid.
            if let Ok(entry) = Entry::read(file, text, Origin::BuiltIn) {
                catalog.insert(entry);
            }
        }
        catalog
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_text_is_a_module_of_its_name() {
        for (file, text) in BUILT_IN {
            let entry = Entry::read(file, text, Origin::BuiltIn).unwrap_or_else(|faults| {
                let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
                panic!("{}", faults.join("\n"))
            });
            assert_eq!(format!("{}.yaml", entry.module.name), file);
        }
        let on_disk = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/modules")).unwrap().count();
        assert_eq!(builtin().iter().count(), on_disk);
    }

    #[test]
    fn providers_come_by_preference() {
        let mut catalog = builtin().clone();
        let mut other = catalog.get("postgres").unwrap().clone();
        for (name, preference) in [("anther", 100), ("zebra", 101), ("low", -1)] {
            other.module.name = name.to_owned();
            other.module.preference = preference;
            other.origin = Origin::Stack("modules/x.yaml".to_owned());
            assert_eq!(catalog.insert(other.clone()), None);
        }
        let names = |capability: &str| -> Vec<&str> {
            let providers = catalog.providers(capability);
            providers.iter().map(|e| e.module.name.as_str()).collect()
        };
        assert_eq!(names("sql-database"), ["zebra", "anther", "postgres", "low"]);
        assert_eq!(names("key-value"), ["redis"]);
        assert!(names("nothing").is_empty());
        assert_eq!(builtin().capabilities(), BTreeSet::from(["cache", "key-value", "sql-database"]));
    }
}
