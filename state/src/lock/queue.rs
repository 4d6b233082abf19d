//! The line before the gate: first come, first served, and one is woken at a time.
//!
//! A ring of places, each a file that its holder keeps locked until it has
//! written. Whoever comes locks the file `next`, takes the place that it names,
//! writes the place after it there, and then waits for the lock of the place
//! *before* its own. A killed process leaves no lock, so those behind it go on.
//!
//! *No circle.* A place is taken only while the place after it is free, and only
//! under the lock of `next`. So the holder of the place before one's own took it
//! before one took one's own, whatever `next` says: every wait leads to somebody
//! who stood there earlier. Without that rule the ring could close: a slow
//! writer would find the place before it taken anew by one who came a whole
//! round later, and wait for a line that waits for it.
//!
//! Nothing here is needed for correctness. Whatever fails costs the order alone.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Locked, lock_until};
use crate::error::{Result, StoreError};
use crate::home::{make_private_folder, open_private};

/// How many places there are, a divisor of 256: then any byte in `next` is a place's number.
pub(super) const PLACES: u8 = 128;

/// The file with the number of the next place, as one byte.
const NEXT: &str = "next";

/// How long one waits for room in the ring, keeping all others from lining up meanwhile.
///
/// In a full ring the place ahead is that of the writer at the gate, who is soon
/// done. A longer wait means that its holder was suspended.
const ROOM: Duration = Duration::from_millis(100);

/// Waits in line until it is the caller's turn, or until `until`; gives its place, to be kept while it writes.
///
/// `None` when there is no place to be had: the caller goes to the gate without.
pub(super) fn stand_in_line(folder: &Path, until: Instant) -> Option<Locked> {
    // What went wrong is no error of the write's: the gate, in the same store, will tell if it matters.
    let (place, own) = take_place(folder, until).ok().flatten()?;
    let before = open_place(folder, place.wrapping_sub(1)).ok();
    // Taking too long or failing, it is the gate's turn either way.
    drop(before.map(|before| lock_until(before, until)));
    Some(own)
}

/// Takes the next place, which is the caller's until it is dropped.
fn take_place(folder: &Path, until: Instant) -> Result<Option<(u8, Locked)>> {
    let fail = |error| StoreError::io("lock", folder)(error);
    let Some(next) = lock_until(open_next(folder)?, until).map_err(fail)? else {
        return Ok(None);
    };
    let place = read(&next.0).map_err(fail)?;
    let own = claim(folder, place, until.min(Instant::now() + ROOM)).unwrap_or(None);
    // Past a place that is stuck or cannot be opened, and past the one that would wait for it.
    let step = if own.is_some() { 1 } else { 3 };
    write(&next.0, place.wrapping_add(step)).map_err(fail)?;
    Ok(own.map(|own| (place, own)))
}

/// Locks a place when the one after it is free. The caller holds the lock of `next`.
fn claim(folder: &Path, place: u8, until: Instant) -> Result<Option<Locked>> {
    let lock = |number| lock_until(open_place(folder, number)?, until).map_err(StoreError::io("lock", folder));
    // Let go at once: it stays free, since nobody else takes places now.
    let room = lock(place.wrapping_add(1))?.is_some();
    if room { lock(place) } else { Ok(None) }
}

/// Opens `next`, making it and the folder when they are missing.
fn open_next(folder: &Path) -> Result<File> {
    let path = folder.join(NEXT);
    match open_private(&path) {
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            make_private_folder(folder)?;
            open_private(&path)
        }
        other => other,
    }
}

fn open_place(folder: &Path, number: u8) -> Result<File> {
    open_private(&folder.join((number % PLACES).to_string()))
}

/// A missing number is as good as any.
fn read(mut next: &File) -> io::Result<u8> {
    let mut number = [0];
    let _missing = next.read(&mut number)? == 0;
    Ok(number[0])
}

fn write(mut next: &File, number: u8) -> io::Result<()> {
    next.rewind()?;
    next.write_all(&[number % PLACES])
}
