use std::env;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// So long that whoever gets on only by losing patience is told from whoever had its turn.
const LONG: Duration = Duration::from_secs(300);
/// Far more than any turn takes, and less than a long limit's patience.
const SOON: Duration = Duration::from_secs(30);

fn store() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::at(folder.path());
    (folder, home)
}

fn next(home: &Home) -> u8 {
    fs::read(home.queue.join("next")).unwrap()[0]
}

/// Waits until so many more have taken a place since `next` said `from`.
fn until_in_line(home: &Home, from: u8, count: u8) {
    let begun = Instant::now();
    while next(home) != (from + count) % queue::PLACES {
        assert!(begun.elapsed() < SOON, "{count} do not stand in line: {from} to {}", next(home));
        thread::sleep(Duration::from_millis(1));
    }
}

/// Locks a place as a waiter does that was suspended there.
fn occupy(home: &Home, number: u8) -> Locked {
    let file = open_private(&home.queue.join((number % queue::PLACES).to_string())).unwrap();
    lock_until(file, Instant::now() + SOON).unwrap().expect("nobody else is there")
}

#[test]
fn a_held_lock_is_waited_for_and_given_up_on() {
    let (_folder, home) = store();
    let held = acquire(&home, LIMIT).unwrap();
    let begun = Instant::now();
    let refused = acquire(&home, Duration::from_millis(80)).unwrap_err();
    assert!(matches!(&refused, StoreError::Busy { path } if *path == home.database), "{refused}");
    assert!(begun.elapsed() >= Duration::from_millis(80));
    drop(held);
    // The threads that were left behind must not keep what they get.
    drop(acquire(&home, LIMIT).unwrap());
    drop(acquire(&home, LIMIT).unwrap());
}

#[test]
fn turns_are_taken_in_the_order_of_coming() {
    let (_folder, home) = store();
    let order = Mutex::new(Vec::new());
    thread::scope(|scope| {
        // Twice around the ring.
        for _ in 0..16 {
            let held = acquire(&home, LONG).unwrap();
            let from = next(&home);
            for number in 0..16 {
                let (home, order) = (&home, &order);
                scope.spawn(move || {
                    let _turn = acquire(home, LONG).unwrap();
                    order.lock().unwrap().push(number);
                });
                until_in_line(home, from, number + 1);
            }
            // Whoever lets go and comes again at once comes last.
            drop(held);
            let _turn = acquire(&home, LONG).unwrap();
            assert_eq!(std::mem::take(&mut *order.lock().unwrap()), (0..16).collect::<Vec<_>>());
        }
    });
}

#[test]
fn more_writers_than_places_all_have_their_turns_alone() {
    const WRITERS: usize = 200;
    const ROUNDS: usize = 5;
    let (_folder, home) = store();
    let inside = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let held = acquire(&home, LONG).unwrap();
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let _turn = acquire(&home, LONG).unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two write at once");
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        // Until the ring is full, and somebody lost patience with that.
        thread::sleep(Duration::from_millis(300));
        drop(held);
    });
    assert_eq!(done.load(Ordering::SeqCst), WRITERS * ROUNDS);
    // A line that had closed to a circle would have stood for a fifth of the limit.
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[test]
fn no_place_is_taken_while_the_one_after_it_is_not_free() {
    let (_folder, home) = store();
    drop(acquire(&home, LIMIT).unwrap());
    for place in [0, 5, 126, 127, 128, 255] {
        fs::write(home.queue.join("next"), [place]).unwrap();
        let ahead = occupy(&home, place.wrapping_add(1));
        let turn = acquire(&home, LIMIT).unwrap();
        assert!(turn._place.is_none(), "place {place}");
        drop((turn, ahead));
        // Nobody else stumbles over the same place.
        assert_eq!(next(&home), place.wrapping_add(3) % queue::PLACES);
        assert!(acquire(&home, LIMIT).unwrap()._place.is_some());
    }
}

#[test]
fn a_suspended_waiter_does_not_keep_the_gate_from_the_others() {
    let (_folder, home) = store();
    let limit = Duration::from_secs(2);
    drop(acquire(&home, limit).unwrap());
    let stuck = next(&home);
    let _suspended = occupy(&home, stuck);
    fs::write(home.queue.join("next"), [stuck + 1]).unwrap();
    // Whoever stands right behind it waits for a part of the limit, and then writes.
    let begun = Instant::now();
    let turn = acquire(&home, limit).unwrap();
    assert!(turn._place.is_some());
    assert!(begun.elapsed() >= limit / IN_LINE && begun.elapsed() < limit, "{:?}", begun.elapsed());
    drop(turn);
    // The others pass it by: once in a round somebody sees that it is stuck.
    let placeless = (0..400).filter(|_| acquire(&home, limit).unwrap()._place.is_none()).count();
    assert_eq!(placeless, 3, "of 400");
}

#[test]
fn whatever_the_counter_says_writers_stand_in_line() {
    let (_folder, home) = store();
    drop(acquire(&home, LIMIT).unwrap());
    let path = home.queue.join("next");
    let long = b"\0\xff not a number ".repeat(10_000);
    for garbage in [&b""[..], b"\xff", b"\x80", b"\x7f", b"12\n", &long] {
        fs::write(&path, garbage).unwrap();
        for _ in 0..3 {
            let place = next_or_first(&path);
            let turn = acquire(&home, LIMIT).unwrap();
            assert!(turn._place.is_some(), "{:?}", &garbage[..garbage.len().min(4)]);
            assert_eq!(next(&home), (place % queue::PLACES + 1) % queue::PLACES);
        }
    }
    // Taken away while somebody writes: made anew, and the gate is still one.
    for gone in [&path, &home.queue] {
        let held = acquire(&home, LIMIT).unwrap();
        if gone.is_dir() { fs::remove_dir_all(gone) } else { fs::remove_file(gone) }.unwrap();
        let refused = acquire(&home, Duration::from_millis(100)).unwrap_err();
        assert!(matches!(refused, StoreError::Busy { .. }), "{refused}");
        drop(held);
        assert!(acquire(&home, LIMIT).unwrap()._place.is_some());
    }
}

fn next_or_first(path: &Path) -> u8 {
    fs::read(path).unwrap().first().copied().unwrap_or(0)
}

#[test]
fn without_a_queue_the_gate_is_enough() {
    type Spoil = fn(&Home);
    let spoilt: [(&str, Spoil); 4] = [
        ("the folder cannot be made", |home| fs::write(&home.queue, "a file").unwrap()),
        ("the folder is a link to nowhere", |home| std::os::unix::fs::symlink("nowhere", &home.queue).unwrap()),
        ("the counter cannot be opened", |home| fs::create_dir_all(home.queue.join("next")).unwrap()),
        ("no place can be opened", |home| {
            for number in 0..queue::PLACES {
                fs::create_dir_all(home.queue.join(number.to_string())).unwrap();
            }
        }),
    ];
    for (what, spoil) in spoilt {
        let (_folder, home) = store();
        spoil(&home);
        for _ in 0..3 {
            let turn = acquire(&home, LIMIT).unwrap();
            assert!(turn._place.is_none(), "{what}");
            let refused = acquire(&home, Duration::from_millis(50)).unwrap_err();
            assert!(matches!(refused, StoreError::Busy { .. }), "{what}: {refused}");
        }
    }
}

#[test]
fn a_place_that_cannot_be_opened_is_passed_by() {
    let (_folder, home) = store();
    fs::create_dir_all(home.queue.join("9")).unwrap();
    drop(acquire(&home, LIMIT).unwrap());
    fs::write(home.queue.join("next"), [7]).unwrap();
    let placed: Vec<bool> = (0..5).map(|_| acquire(&home, LIMIT).unwrap()._place.is_some()).collect();
    assert_eq!(placed, [true, false, true, true, true]);
}

// --- other processes: this test binary again, told its part by variables

const HOME: &str = "SIDESTACK_WRITERS_TEST_HOME";
const NUMBER: &str = "SIDESTACK_WRITERS_TEST_NUMBER";

/// Not a test of its own: a process that waits for its turn and writes down that it has it.
#[test]
fn child() {
    let (Some(home), Ok(number)) = (env::var_os(HOME), env::var(NUMBER)) else {
        return;
    };
    let home = Home::at(Path::new(&home));
    let _turn = acquire(&home, LONG).unwrap();
    let mut order = fs::File::options().append(true).create(true).open(home.folder.join("order")).unwrap();
    writeln!(order, "{number}").unwrap();
}

fn start(home: &Home, number: u8) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "lock::tests::child"]);
    command.env(HOME, &home.folder).env(NUMBER, number.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn those_behind_a_killed_waiter_go_on() {
    let (_folder, home) = store();
    let held = acquire(&home, LONG).unwrap();
    let from = next(&home);
    let mut waiting = Vec::new();
    for number in 0..6 {
        waiting.push(start(&home, number));
        until_in_line(&home, from, number + 1);
    }
    // One in the middle and the one at the head.
    for dead in [3, 0] {
        let mut child = waiting.remove(dead);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    drop(held);
    let begun = Instant::now();
    for mut child in waiting {
        assert!(child.wait().unwrap().success());
    }
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let mut order: Vec<String> =
        fs::read_to_string(home.folder.join("order")).unwrap().lines().map(str::to_owned).collect();
    // Behind the one that is gone from the middle the order may be another one.
    assert!(order.iter().position(|one| one == "1") < order.iter().position(|one| one == "2"), "{order:?}");
    order.sort_unstable();
    assert_eq!(order, ["1", "2", "4", "5"]);
}
