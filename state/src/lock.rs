//! The writers' turn: a queue that keeps the order, and a gate that lets one in.
//!
//! SQLite's own busy handler sleeps and retries, so that of many writers some
//! starve for seconds. A lock file alone (`writer.lock`, the *gate*) is better,
//! but its release wakes everybody who waits and the quickest gets it, also one
//! who only just came. So writers first stand in line (`queue`) and come to the
//! gate one after the other. The gate alone is what keeps two from writing at
//! once: whoever cannot stand in line, or stands there for too long, goes to it
//! directly, and nothing but the order is lost.

mod queue;

use std::fs::{File, TryLockError};
use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Result, StoreError};
use crate::home::{Home, open_private};

/// How long a writer waits for its turn.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// The part of the limit that a writer spends in line, at most: a process that
/// was suspended there must not keep those behind it from a gate that is free.
const IN_LINE: u32 = 5;

/// The right to write, given up when dropped.
#[derive(Debug)]
pub(crate) struct WriterLock {
    // Fields drop in this order: who is next in line shall find the gate free.
    _gate: Locked,
    _place: Option<Locked>,
}

/// Waits for the writer's turn in the store at `home`, at most `limit`.
pub(crate) fn acquire(home: &Home, limit: Duration) -> Result<WriterLock> {
    let begun = Instant::now();
    let place = queue::stand_in_line(&home.queue, begun + limit / IN_LINE);
    let path = &home.writer;
    match lock_until(open_private(path)?, begun + limit) {
        Ok(Some(gate)) => Ok(WriterLock { _gate: gate, _place: place }),
        Ok(None) => Err(StoreError::Busy { path: home.database.clone() }),
        Err(error) => Err(StoreError::io("lock", path)(error)),
    }
}

/// An open file with its lock, let go when dropped and also when the process is killed.
#[derive(Debug)]
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        // Closing would not do: a child between its fork and its exec has the file open too.
        let _ = self.0.unlock();
    }
}

/// Locks a file that nobody else has open; `None` when `deadline` passes first.
///
/// A lock's wait in the kernel knows no time limit, hence it is a thread's, which
/// is left behind when the deadline passes: it gets the lock some day, finds
/// nobody listening and lets go. It keeps nothing else meanwhile. A free lock
/// costs no thread.
fn lock_until(file: File, deadline: Instant) -> io::Result<Option<Locked>> {
    match file.try_lock() {
        Ok(()) => return Ok(Some(Locked(file))),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Ok(None);
    }
    let (give, take) = mpsc::sync_channel(0);
    thread::Builder::new().name("store-writer".to_owned()).stack_size(64 * 1024).spawn(move || {
        let locked = file.lock().map(|()| Locked(file));
        // Nobody takes it after the deadline; then it is let go here.
        let _ = give.send(locked);
    })?;
    take.recv_timeout(left).map_or(Ok(None), |locked| locked.map(Some))
}

#[cfg(test)]
mod tests;
