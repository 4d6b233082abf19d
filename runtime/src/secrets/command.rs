//! The provider that asks a program: `op read …`, `pass show …`, `vault kv get …`.
//!
//! The program runs without a shell, in a process group of its own, in an environment that is cleared but for what
//! password managers need, with an empty standard input. Group and all it is killed at the limit.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use zeroize::{Zeroize, Zeroizing};

use super::file::LARGEST;
use super::mask::Masker;
use super::value::SecretValue;
use super::{Reference, SecretError};

const KEPT: [&str; 8] =
    ["PATH", "HOME", "USER", "LANG", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "GNUPGHOME"];
const KEPT_PREFIXES: [&str; 5] = ["OP_", "VAULT_", "BW_", "AWS_", "PASSWORD_STORE_"];

/// What of the environment such a program gets.
fn is_kept(name: &str) -> bool {
    KEPT.contains(&name) || KEPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

pub(super) fn run(
    reference: &Reference,
    words: &[String],
    base: &Path,
    env: &BTreeMap<String, OsString>,
    limit: Duration,
) -> Result<SecretValue, SecretError> {
    let start = Instant::now();
    let cannot = |program: &str, cause: String| SecretError::CannotRun {
        reference: reference.clone(),
        program: program.to_owned(),
        cause,
    };
    let (program, arguments) = words.split_first().ok_or_else(|| cannot("", "no program is named".into()))?;
    // Whether a relative program is looked for before or after changing the folder is left open by the system.
    let program_path = if program.contains('/') { base.join(program) } else { program.into() };
    let mut child = Command::new(program_path)
        .args(arguments)
        .current_dir(base)
        .env_clear()
        .envs(env.iter().filter(|(name, _)| is_kept(name)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| cannot(program, error.to_string()))?;
    let output = drain(child.stdout.take());
    let errors = drain(child.stderr.take());

    // First the end of the output, then of the program: either may hang.
    let answer = output
        .recv_timeout(limit.saturating_sub(start.elapsed()))
        .ok()
        .and_then(|printed| Some((printed, wait(&mut child, start, limit)?)));
    let Some((mut printed, status)) = answer else {
        kill_group(&mut child);
        return Err(SecretError::TimedOut { reference: reference.clone(), limit });
    };
    if printed.len() as u64 > LARGEST {
        kill_group(&mut child);
        return Err(SecretError::TooLarge { reference: reference.clone(), limit: LARGEST });
    }
    let printed = SecretValue::from_printed(std::mem::take(&mut *printed));
    if status.success() {
        return printed.map_err(|why| SecretError::not_text(reference, why));
    }
    // A background process may keep the pipe open; what it would still say is not waited for.
    let said = errors.recv_timeout(Duration::from_millis(200)).ok();
    Err(SecretError::CommandFailed {
        reference: reference.clone(),
        status: status.to_string(),
        last_line: said.and_then(|bytes| last_line(&bytes, &Masker::new(printed.as_ref().ok()))),
    })
}

/// Reads a pipe to its end, or one byte beyond the limit, in a thread of its own.
fn drain(pipe: Option<impl Read + Send + 'static>) -> Receiver<Zeroizing<Vec<u8>>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Zeroizing::new(Vec::with_capacity(64 * 1024));
        if let Some(pipe) = pipe {
            let _ = pipe.take(LARGEST + 1).read_to_end(&mut bytes);
        }
        // Nobody listens any more after the limit.
        let _ = sender.send(bytes);
    });
    receiver
}

fn wait(child: &mut Child, start: Instant, limit: Duration) -> Option<ExitStatus> {
    let mut pause = Duration::from_micros(200);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if start.elapsed() < limit => thread::sleep(pause),
            _ => return None,
        }
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

/// Kills the program and what it started. The standard library can only kill the one process, so the shell's own
/// `kill` is used for the group, while the unreaped leader still keeps its number from being given away.
fn kill_group(child: &mut Child) {
    let _ = Command::new("/bin/sh")
        .args(["-c", "kill -9 \"-$0\"", &child.id().to_string()])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let _ = child.kill();
    let _ = child.wait();
}

/// The last line that is not empty, masked, without control characters, at most 200 characters.
fn last_line(bytes: &[u8], masker: &Masker) -> Option<String> {
    let mut text = masker.mask(&String::from_utf8_lossy(bytes));
    let line: String = text
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())?
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .take(200)
        .collect();
    text.zeroize();
    Some(line)
}
