//! A command of the program that goes on while the test does something else.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::{Ran, World};

/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(2);

/// See the module. It is killed at the end, with all that it started.
#[derive(Debug)]
pub struct Running {
    child: Child,
    began: Instant,
    said: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<String>>,
}

impl World {
    /// Starts a command of the program in the stack's folder.
    pub fn start<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Running {
        Running::start(&mut self.command(args))
    }
}

impl Running {
    /// Starts it, in a process group of its own.
    pub fn start(command: &mut Command) -> Self {
        let command = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let readers = vec![read(stdout, Arc::default()), read(stderr, Arc::clone(&said))];
        Self { child, began: Instant::now(), said, readers }
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until its standard error has the text.
    #[track_caller]
    pub fn says(&mut self, text: &str, within: Duration) {
        let deadline = Instant::now() + within;
        loop {
            let ended = self.has_ended();
            let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if said.contains(text) {
                return;
            }
            assert!(!ended && Instant::now() < deadline, "`{text}` was not said within {within:?}:\n{said}");
            std::thread::sleep(LOOK);
        }
    }

    /// Ctrl-C.
    pub fn interrupt(&self) {
        signal("-INT", &self.child.id().to_string());
    }

    /// SIGKILL; what it started lives on.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// SIGKILL to it and to what it started.
    pub fn kill_all(mut self) {
        self.end_group();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    #[track_caller]
    pub fn ends(mut self, within: Duration) -> Ran {
        let deadline = Instant::now() + within;
        while !self.has_ended() {
            let said = || self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
            assert!(Instant::now() < deadline, "it has not ended within {within:?}:\n{}", said());
            std::thread::sleep(LOOK);
        }
        let took = self.began.elapsed();
        let status = self.child.wait().unwrap();
        let mut texts = self.readers.drain(..).map(|reader| reader.join().unwrap());
        let (stdout, stderr) = (texts.next().unwrap(), texts.next().unwrap());
        Ran { code: status.code().unwrap_or(255), stdout, stderr, took }
    }

    /// While it has not been waited for, its id is nobody else's.
    fn end_group(&mut self) {
        if !self.has_ended() {
            signal("-9", &format!("-{}", self.child.id()));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end_group();
        let _ = self.child.wait();
    }
}

fn signal(signal: &str, to: &str) {
    let _ = Command::new("kill").args([signal, "--", to]).stderr(Stdio::null()).status();
}

fn read(mut from: impl Read + Send + 'static, into: Arc<Mutex<String>>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..count]);
            into.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
        }
        into.lock().unwrap_or_else(PoisonError::into_inner).clone()
    })
}
