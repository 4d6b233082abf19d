//! The open store, and the two ways into it: reading and writing.

use std::cell::Cell;
use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::error::Result;
use crate::home::Home;
use crate::lock;

/// This machine's store, opened by one process. `Send`, not `Sync`: a thread opens its own.
#[derive(Debug)]
pub struct Store {
    pub(crate) connection: Connection,
    pub(crate) home: Home,
    pub(crate) install_id: String,
    pub(crate) machine_key: [u8; 32],
    /// Whether a write is under way: writes inside it join its transaction.
    pub(crate) writing: Cell<bool>,
}

impl Store {
    /// This store's id, 32 hex digits: the label `dev.sidestack.install` of all that it owns.
    pub fn install_id(&self) -> &str {
        &self.install_id
    }

    /// The key for digests that cover a secret. It never leaves this machine.
    pub fn machine_key(&self) -> &[u8; 32] {
        &self.machine_key
    }

    /// The store's folder.
    pub fn home(&self) -> &Path {
        &self.home.folder
    }

    /// Runs several writes as one: all of them are kept, or none.
    ///
    /// The writer's place is held until `work` returns, so it must be short and
    /// wait for nothing outside the store. A write inside that fails is undone
    /// alone; whether the rest stands is `work`'s own result.
    pub fn atomically<T, E: From<crate::StoreError>>(
        &self,
        work: impl FnOnce(&Self) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        // The caller's error goes around the transaction; any error undoes that.
        let mut refused = None;
        let done = self.write(|_| {
            work(self).map_err(|error| {
                refused = Some(error);
                rusqlite::Error::QueryReturnedNoRows.into()
            })
        });
        match refused {
            Some(error) => Err(error),
            None => done.map_err(E::from),
        }
    }

    /// Runs several reads as of one moment. Nothing may be written inside it.
    pub fn snapshot<T, E: From<crate::StoreError>>(
        &self,
        work: impl FnOnce(&Self) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        if self.writing.get() {
            return work(self);
        }
        // Ends when it is dropped; a transaction that only read has nothing to keep.
        let _moment = Transaction::new_unchecked(&self.connection, TransactionBehavior::Deferred)
            .map_err(|error| crate::StoreError::from(error).placed(&self.home.database))?;
        work(self)
    }

    /// Reads, seeing what was committed (and what the write under way has done).
    pub(crate) fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        work(&self.connection).map_err(|error| error.placed(&self.home.database))
    }

    /// Writes: waits for the writer's place, then runs `work` in one transaction.
    pub(crate) fn write<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        if self.writing.get() {
            return self.nested(work);
        }
        let _place = lock::acquire(&self.home, lock::LIMIT)?;
        let _flag = Flag::raise(&self.writing);
        self.read(|connection| {
            let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        })
    }

    fn nested<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.read(|connection| {
            connection.execute_batch("SAVEPOINT inner")?;
            match work(connection) {
                Ok(value) => {
                    connection.execute_batch("RELEASE inner")?;
                    Ok(value)
                }
                Err(error) => {
                    connection.execute_batch("ROLLBACK TO inner; RELEASE inner")?;
                    Err(error)
                }
            }
        })
    }
}

/// Lowered again also when the work panics.
struct Flag<'a>(&'a Cell<bool>);

impl<'a> Flag<'a> {
    fn raise(flag: &'a Cell<bool>) -> Self {
        flag.set(true);
        Self(flag)
    }
}

impl Drop for Flag<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}
