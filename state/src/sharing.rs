//! What a person agreed to share, what was chosen, and own ports.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::params;

use crate::error::{Parent, Result};
use crate::store::Store;
use crate::value::now;

/// What a choice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChoiceKind {
    /// An external network.
    Network,
    /// An external volume.
    Volume,
    /// A self-address that stays.
    Keep,
}

impl ChoiceKind {
    fn word(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Volume => "volume",
            Self::Keep => "keep",
        }
    }
}

impl Store {
    /// Records consent to one exact thing as the files of that digest have it. `false` when it was given before.
    pub fn give_consent(&self, workspace_id: i64, item: &str, digest: &str) -> Result<bool> {
        self.write(|connection| {
            let sql =
                "INSERT INTO consent (workspace, item, digest, given) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
            let new = connection
                .execute(sql, params![workspace_id, item, digest, now()])
                .parent("workspace", workspace_id)?;
            Ok(new > 0)
        })
    }

    /// Takes consent to a thing back, whatever the files. `false` when there was none.
    pub fn withdraw_consent(&self, workspace_id: i64, item: &str) -> Result<bool> {
        self.write(|connection| {
            let sql = "DELETE FROM consent WHERE workspace = ?1 AND item = ?2";
            Ok(connection.execute(sql, params![workspace_id, item])? > 0)
        })
    }

    /// Everything that was agreed to in a workspace: item and digest.
    pub fn consents(&self, workspace_id: i64) -> Result<BTreeSet<(String, String)>> {
        self.read(|connection| {
            let mut list = connection.prepare("SELECT item, digest FROM consent WHERE workspace = ?1")?;
            Ok(list.query_map([workspace_id], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?)
        })
    }

    /// Records a choice for an environment. `false` when it was that already.
    pub fn set_choice(&self, environment_id: i64, kind: ChoiceKind, name: &str, value: &str) -> Result<bool> {
        self.write(|connection| {
            let sql = "INSERT INTO choice (environment, kind, name, value) VALUES (?1, ?2, ?3, ?4)
                       ON CONFLICT (environment, kind, name) DO UPDATE SET value = excluded.value
                       WHERE value <> excluded.value";
            let changed = connection
                .execute(sql, params![environment_id, kind.word(), name, value])
                .parent("environment", environment_id)?;
            Ok(changed > 0)
        })
    }

    /// The choices of an environment by name.
    pub fn choices(&self, environment_id: i64, kind: ChoiceKind) -> Result<BTreeMap<String, String>> {
        self.read(|connection| {
            let mut list = connection.prepare("SELECT name, value FROM choice WHERE environment = ?1 AND kind = ?2")?;
            let rows = list.query_map(params![environment_id, kind.word()], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Gives an instance those of the ports that no other instance has, and lets go of any other that it had.
    /// The ports that it has afterwards.
    pub fn claim_own_ports(&self, instance_id: i64, ports: &BTreeSet<u16>) -> Result<BTreeSet<u16>> {
        if self.own_ports(instance_id)? == *ports {
            return Ok(ports.clone());
        }
        self.write(|connection| {
            let had: BTreeSet<u16> = connection
                .prepare("SELECT port FROM own_port WHERE instance = ?1")?
                .query_map([instance_id], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            for port in had.difference(ports) {
                connection.execute("DELETE FROM own_port WHERE port = ?1", [port])?;
            }
            let mut has = BTreeSet::new();
            for port in ports {
                let sql = "INSERT INTO own_port (port, instance) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
                let new = connection.execute(sql, params![port, instance_id]).parent("instance", instance_id)?;
                if new > 0 || had.contains(port) {
                    has.insert(*port);
                }
            }
            Ok(has)
        })
    }

    /// Notes that the copy of a volume was finished, or, before one is begun, that it is not.
    pub fn set_copied(&self, volume: &str, finished: bool) -> Result<()> {
        self.write(|connection| {
            if finished {
                let sql = "INSERT INTO copied (volume, at) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
                connection.execute(sql, params![volume, now()])?;
            } else {
                connection.execute("DELETE FROM copied WHERE volume = ?1", [volume])?;
            }
            Ok(())
        })
    }

    /// Volumes whose copy was finished.
    pub fn copied(&self) -> Result<BTreeSet<String>> {
        self.read(|connection| {
            let mut list = connection.prepare("SELECT volume FROM copied")?;
            Ok(list.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
        })
    }

    /// The own ports of an instance.
    pub fn own_ports(&self, instance_id: i64) -> Result<BTreeSet<u16>> {
        self.read(|connection| {
            let mut list = connection.prepare("SELECT port FROM own_port WHERE instance = ?1")?;
            Ok(list.query_map([instance_id], |row| row.get(0))?.collect::<Result<_, _>>()?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestack_topology::names::InstanceName;

    fn store() -> (tempfile::TempDir, Store, i64, i64) {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path()).unwrap();
        let workspace = store.ensure_workspace("dir:/shop", &"shop".parse().unwrap()).unwrap();
        let environment = store.ensure_environment(workspace.id, &"dev".parse().unwrap()).unwrap();
        (home, store, workspace.id, environment.id)
    }

    #[test]
    fn consent_is_to_one_thing_of_one_file() {
        let (_home, store, workspace, _) = store();
        let (one, two) = ("1".repeat(64), "2".repeat(64));
        assert!(store.give_consent(workspace, "web:privileged", &one).unwrap());
        assert!(!store.give_consent(workspace, "web:privileged", &one).unwrap());
        assert!(store.give_consent(workspace, "web:privileged", &two).unwrap());
        assert_eq!(store.consents(workspace).unwrap().len(), 2);
        assert!(store.withdraw_consent(workspace, "web:privileged").unwrap());
        assert!(!store.withdraw_consent(workspace, "web:privileged").unwrap());
        assert!(store.consents(workspace).unwrap().is_empty());
        assert!(store.give_consent(workspace, "x", "short").is_err());
        assert!(store.give_consent(77, "x", &one).is_err());
    }

    #[test]
    fn the_last_choice_holds() {
        let (_home, store, _, environment) = store();
        assert!(store.set_choice(environment, ChoiceKind::Volume, "data", "copy").unwrap());
        assert!(!store.set_choice(environment, ChoiceKind::Volume, "data", "copy").unwrap());
        assert!(store.set_choice(environment, ChoiceKind::Volume, "data", "share").unwrap());
        assert!(store.set_choice(environment, ChoiceKind::Network, "data", "create").unwrap());
        let volumes = store.choices(environment, ChoiceKind::Volume).unwrap();
        assert_eq!(volumes, [("data".to_owned(), "share".to_owned())].into());
        assert!(store.choices(environment, ChoiceKind::Keep).unwrap().is_empty());
    }

    #[test]
    fn a_copy_is_finished_or_not() {
        let (_home, store, ..) = store();
        store.set_copied("a", true).unwrap();
        store.set_copied("a", true).unwrap();
        store.set_copied("b", true).unwrap();
        store.set_copied("b", false).unwrap();
        store.set_copied("c", false).unwrap();
        assert_eq!(store.copied().unwrap(), ["a".to_owned()].into());
    }

    #[test]
    fn an_own_port_is_one_instances() {
        let (_home, store, _, environment) = store();
        let make = |name: &str| {
            let name: InstanceName = name.parse().unwrap();
            store.create_instance(environment, &name, None, false).unwrap().id
        };
        let (main, two) = (make("main"), make("two"));
        let ports = |list: &[u16]| list.iter().copied().collect::<BTreeSet<u16>>();
        assert_eq!(store.claim_own_ports(main, &ports(&[80, 3000])).unwrap(), ports(&[80, 3000]));
        assert_eq!(store.claim_own_ports(two, &ports(&[3000, 4000])).unwrap(), ports(&[4000]));
        assert_eq!(store.claim_own_ports(main, &ports(&[80])).unwrap(), ports(&[80]));
        assert_eq!(store.claim_own_ports(two, &ports(&[3000, 4000])).unwrap(), ports(&[3000, 4000]));
        store.remove_instance(two, false).unwrap();
        assert_eq!(store.claim_own_ports(main, &ports(&[4000])).unwrap(), ports(&[4000]));
    }
}
