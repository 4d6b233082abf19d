//! A socket between Sidestack and Docker that notes every request line.
//!
//! Events say what Docker did; only the requests say what it was asked.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A recording proxy. It lives as long as the test's process.
#[derive(Debug, Clone)]
pub struct Recorder {
    path: PathBuf,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Recorder {
    /// Listens at `path` and passes everything on to the engine of `DOCKER_HOST`, or
    /// to the usual socket. `None` when that is no socket of this machine.
    pub fn listen(path: &Path) -> Option<Self> {
        let host = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".into());
        let engine = PathBuf::from(host.strip_prefix("unix://")?);
        let listener = UnixListener::bind(path).unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&lines);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = UnixStream::connect(&engine) else { continue };
                let noted = Arc::clone(&noted);
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || pass(from, to, |chunk| note(chunk, &noted)));
                std::thread::spawn(move || pass(server, client, |_| ()));
            }
        });
        Some(Self { path: path.to_owned(), lines })
    }

    /// Its `DOCKER_HOST`.
    pub fn host(&self) -> String {
        format!("unix://{}", self.path.display())
    }

    /// The request lines since the last call, `POST /v1.41/containers/create?name=x`.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }

    /// Those among them that may change something.
    pub fn take_writes(&self) -> Vec<String> {
        self.take().into_iter().filter(|line| !line.starts_with("GET ") && !line.starts_with("HEAD ")).collect()
    }
}

fn pass(mut from: UnixStream, mut to: UnixStream, mut seen: impl FnMut(&[u8])) {
    let mut buffer = [0; 64 * 1024];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 {
            break;
        }
        seen(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Request lines are short, and both clients write a head at once, so a line is
/// never torn in practice; a torn one would only be missed, never invented.
fn note(chunk: &[u8], lines: &Mutex<Vec<String>>) {
    let methods = ["GET ", "HEAD ", "POST ", "PUT ", "DELETE "];
    for line in String::from_utf8_lossy(chunk).split("\r\n") {
        if let Some(line) = line.strip_suffix(" HTTP/1.1")
            && methods.iter().any(|method| line.starts_with(method))
        {
            lines.lock().unwrap().push(line.to_owned());
        }
    }
}
