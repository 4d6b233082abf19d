//! What the suites over the store's calls begin with.

use sidestack_state::{Store, Workspace};

/// A store in a folder of its own, with `shop/dev` in it.
pub(crate) struct Fixture {
    pub(crate) home: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) workspace: Workspace,
    pub(crate) environment: i64,
}

pub(crate) fn fixture() -> Fixture {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let workspace = store.ensure_workspace("repo:/shop", &"shop".parse().unwrap()).unwrap();
    let environment = store.ensure_environment(workspace.id, &"dev".parse().unwrap()).unwrap().id;
    Fixture { home, store, workspace, environment }
}

impl Fixture {
    /// Makes an instance of that name and gives its row id.
    pub(crate) fn instance(&self, name: &str) -> i64 {
        self.store.create_instance(self.environment, &name.parse().unwrap(), None, false).unwrap().id
    }
}
