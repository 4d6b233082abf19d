//! The writers' queue: one lock file that every writing process stands in line for.
//!
//! SQLite's own busy handler sleeps and retries, so that of many writers some
//! starve for seconds. A blocking `flock` queues in the kernel, nearly first
//! come, first served. It knows no time limit, hence the waiting is done by a
//! thread that is left behind when the limit passes: it gets the lock some
//! day, finds nobody listening and lets go. A free lock costs no thread.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::error::{Result, StoreError};
use crate::home::open_private;

/// How long a writer waits for its turn.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// A place at the head of the queue, given up when dropped.
#[derive(Debug)]
pub(crate) struct WriterLock {
    // Closing the file releases the lock, also when the process is killed.
    _file: File,
}

/// Waits for the lock at `path`, at most `limit`; `store` is named when it takes longer.
pub(crate) fn acquire(path: &Path, store: &Path, limit: Duration) -> Result<WriterLock> {
    // Each holder needs an open file of its own: a shared one would share the lock.
    let file = open_private(path)?;
    match file.try_lock() {
        Ok(()) => return Ok(WriterLock { _file: file }),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(StoreError::io("lock", path)(error)),
    }
    let (give, take) = mpsc::sync_channel(0);
    let waiter = thread::Builder::new().name("store-writer".to_owned()).stack_size(64 * 1024).spawn(move || {
        let locked = file.lock().map(|()| file);
        // Nobody takes it after the limit; then the file closes here.
        let _ = give.send(locked);
    });
    waiter.map_err(StoreError::io("wait for", path))?;
    match take.recv_timeout(limit) {
        Ok(Ok(file)) => Ok(WriterLock { _file: file }),
        Ok(Err(error)) => Err(StoreError::io("lock", path)(error)),
        Err(_) => Err(StoreError::Busy { path: store.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_held_lock_is_waited_for_and_given_up_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("writer.lock");
        let held = acquire(&path, &path, LIMIT).unwrap();
        let begun = Instant::now();
        let refused = acquire(&path, &path, Duration::from_millis(80)).unwrap_err();
        assert!(matches!(refused, StoreError::Busy { .. }), "{refused}");
        assert!(begun.elapsed() >= Duration::from_millis(80));
        drop(held);
        // The thread that was left behind must not keep what it gets.
        drop(acquire(&path, &path, LIMIT).unwrap());
        drop(acquire(&path, &path, LIMIT).unwrap());
    }
}
