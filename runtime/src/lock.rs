//! One verb at a time on an instance: an advisory lock on a file that is at the same time Compose's output.
//!
//! The lock belongs to the open file, not to the process. A child that got the file as its output holds it too, so an
//! orphaned Compose keeps the instance locked until it ends, even when its parent was killed. That is why the lock is
//! never released by an explicit unlock, which would take it from the child as well: it goes when the last descriptor
//! is closed.
//!
//! File format: the first line names the holder (`sidestack pid=PID verb=VERB`), the rest is what was written by
//! whoever inherited it. Taking the lock empties the file. Everybody appends, so that nobody overwrites the other.

use std::fmt;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody held it for the whole time.
    #[error("`{path}` is still locked by {holder} after {limit:?}")]
    Held {
        /// The lock file.
        path: PathBuf,
        /// Who holds it, in words.
        holder: String,
        /// How long was waited.
        limit: Duration,
    },
    /// The file cannot be used as a lock.
    #[error("cannot lock `{path}`: {cause}")]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The system's own words.
        cause: io::Error,
    },
}

/// A held lock. It is held until this value is dropped *and* every child that inherited [`InstanceLock::file`] ended.
#[derive(Debug)]
pub struct InstanceLock {
    path: PathBuf,
    file: File,
}

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

impl InstanceLock {
    /// Takes the lock at `path` (made with mode 0600; the folder must exist), waiting at most `limit`; zero tries
    /// once. `verb` is what this process is doing, for the message that others get. `on_wait` is called with the
    /// holder in words when waiting begins and whenever the holder changes.
    ///
    /// # Errors
    /// [`LockError::Held`] at the limit, [`LockError::Io`] when the file cannot be opened or locked.
    pub fn acquire(path: &Path, verb: &str, limit: Duration, on_wait: &mut dyn FnMut(&str)) -> Result<Self, LockError> {
        let failed = |cause| LockError::Io { path: path.to_owned(), cause };
        let start = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut told = None;
        loop {
            let file = open(path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {
                    // Whoever removed the instance removed the file with it: a lock on a removed file guards nothing.
                    if is_at(&file, path).map_err(failed)? {
                        let mut lock = Self { path: path.to_owned(), file };
                        lock.sign(verb).map_err(failed)?;
                        return Ok(lock);
                    }
                    continue;
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            let holder = describe(&file);
            let left = limit.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(LockError::Held { path: path.to_owned(), holder, limit });
            }
            if told.as_ref() != Some(&holder) {
                on_wait(&holder);
                told = Some(holder);
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// The open file. A clone of it given to a child as its output makes the child a holder of the lock.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How long the file is now, in bytes: a mark for [`InstanceLock::output_since`].
    ///
    /// # Errors
    /// When the file cannot be looked at.
    pub fn mark(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// What was written after a mark, undecodable bytes replaced.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn output_since(&self, mark: u64) -> io::Result<String> {
        // A second description, so that the children's position is left alone.
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(mark))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn sign(&mut self, verb: &str) -> io::Result<()> {
        let verb: String = verb.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        // What Compose prints is for nobody else, also where the file was made in another way.
        self.file.set_permissions(Permissions::from_mode(0o600))?;
        self.file.set_len(0)?;
        writeln!(self.file, "sidestack pid={} verb={verb}", std::process::id())
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}

/// Whether the path still leads to this very file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let mine = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((mine.dev(), mine.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The holder as the file's first line has it.
#[derive(Debug, PartialEq, Eq)]
struct Holder {
    pid: u32,
    verb: String,
    alive: bool,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, verb, alive } = self;
        if *alive {
            write!(f, "`sidestack {verb}` (process {pid})")
        } else {
            write!(f, "what is still running of `sidestack {verb}` (process {pid}, which has ended)")
        }
    }
}

fn describe(file: &File) -> String {
    let mut line = String::new();
    let mut reader = BufReader::new(file).take(1024);
    let read = reader.get_mut().rewind().and_then(|()| reader.read_line(&mut line));
    read.ok()
        .and_then(|_| parse_holder(&line))
        // Between taking and signing, or an undecodable line.
        .map_or_else(|| "another sidestack command".into(), |h| h.to_string())
}

fn parse_holder(line: &str) -> Option<Holder> {
    let rest = line.strip_prefix("sidestack pid=")?;
    let (pid, verb) = rest.trim_end().split_once(" verb=")?;
    let pid = pid.parse().ok()?;
    // Where there is no /proc, it is not known and taken for alive.
    let alive = !Path::new("/proc/self").exists() || Path::new(&format!("/proc/{pid}")).exists();
    Some(Holder { pid, verb: verb.to_owned(), alive })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn quiet(_: &str) {}

    fn take(path: &Path, limit: u64) -> Result<InstanceLock, LockError> {
        InstanceLock::acquire(path, "up", Duration::from_millis(limit), &mut quiet)
    }

    #[test]
    fn the_second_waits_hears_who_holds_and_gives_up_at_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = take(&path, 0).unwrap();
        let mut heard = Vec::new();
        let start = Instant::now();
        let error = InstanceLock::acquire(&path, "rm", Duration::from_millis(120), &mut |h| {
            heard.push(h.to_owned());
        })
        .unwrap_err();
        assert!(start.elapsed() >= Duration::from_millis(120));
        let me = format!("`sidestack up` (process {})", std::process::id());
        assert_eq!(heard.join("; "), me);
        assert!(error.to_string().contains(&me), "{error}");
        drop(held);
        take(&path, 0).unwrap();
    }

    #[test]
    fn only_one_holds_it_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let lock = take(&path, 20_000).unwrap();
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                    }
                });
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_removed_file_is_not_a_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = take(&path, 0).unwrap();
        let waiter = thread::spawn({
            let path = path.clone();
            move || take(&path, 10_000)
        });
        thread::sleep(Duration::from_millis(50));
        fs::remove_file(&path).unwrap();
        drop(first);
        let second = waiter.join().unwrap().unwrap();
        assert!(is_at(second.file(), &path).unwrap());
        assert!(take(&path, 0).is_err());
    }

    #[test]
    fn taking_it_empties_the_file_and_output_is_appended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        fs::write(&path, "old output\nof another\n").unwrap();
        let lock = take(&path, 0).unwrap();
        let mark = lock.mark().unwrap();
        for word in ["one", "two"] {
            let status = Command::new("sh")
                .args(["-c", &format!("echo {word}; echo err {word} >&2")])
                .stdout(Stdio::from(lock.file().try_clone().unwrap()))
                .stderr(Stdio::from(lock.file().try_clone().unwrap()))
                .status()
                .unwrap();
            assert!(status.success());
        }
        assert_eq!(lock.output_since(mark).unwrap(), "one\nerr one\ntwo\nerr two\n");
        let text = fs::read_to_string(&path).unwrap();
        let first = format!("sidestack pid={} verb=up\n", std::process::id());
        assert!(text.starts_with(&first), "{text}");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    const CHILD: &str = "SIDESTACK_LOCK_TEST_PATH";

    /// Not a test of its own: the parent process that the next test kills.
    #[test]
    fn parent_that_is_killed() {
        let Some(path) = std::env::var_os(CHILD) else {
            return;
        };
        let lock = take(Path::new(&path), 0).unwrap();
        let mut child = Command::new("sh")
            .args(["-c", "echo started; sleep 1; echo finished"])
            .stdin(Stdio::null())
            .stdout(Stdio::from(lock.file().try_clone().unwrap()))
            .stderr(Stdio::from(lock.file().try_clone().unwrap()))
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_secs(30));
        let _ = child.wait();
    }

    #[test]
    fn an_orphan_keeps_the_lock_and_lets_go_at_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let mut parent = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "lock::tests::parent_that_is_killed"])
            .env(CHILD, &path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while !fs::read_to_string(&path).is_ok_and(|text| text.contains("started")) {
            assert!(Instant::now() < deadline, "the child never started");
            thread::sleep(Duration::from_millis(5));
        }
        parent.kill().unwrap();
        parent.wait().unwrap();

        let error = take(&path, 0).unwrap_err().to_string();
        assert!(error.contains("what is still running of `sidestack up`"), "{error}");
        let mut heard = 0;
        let lock = InstanceLock::acquire(&path, "up", Duration::from_secs(10), &mut |_| heard += 1).unwrap();
        assert_eq!(heard, 1, "the orphan should still have held it");
        // It was taken only after the orphan's end, so nothing of it can come any more.
        thread::sleep(Duration::from_millis(50));
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
        drop(lock);
    }
}
