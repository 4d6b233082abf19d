//! Running a command in a container: create, start attached, feed, read, ask for the code.

use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::errors::Error as Bollard;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::ExecConfig;
use futures_util::{StreamExt as _, future};
use tokio::io::AsyncWriteExt as _;

use super::http::encode;
use super::{ExecOutcome, ExecRequest};

/// Runs a command to its end. Without a limit: the caller sets one.
pub(super) async fn run(docker: &Docker, id: &str, request: &ExecRequest) -> Result<ExecOutcome, Bollard> {
    let config = ExecConfig {
        attach_stdin: Some(request.stdin.is_some()),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(false),
        env: (!request.env.is_empty()).then(|| request.env.clone()),
        cmd: Some(request.cmd.clone()),
        user: request.user.clone(),
        working_dir: request.workdir.clone(),
        ..Default::default()
    };
    let made = docker.create_exec(&encode(id), config).await?;
    let options = StartExecOptions { detach: false, tty: false, output_capacity: None };
    let mut outcome = ExecOutcome::default();
    if let StartExecResults::Attached { mut output, mut input } = docker.start_exec(&made.id, Some(options)).await? {
        // At once, or a command that writes much before it reads all would block both sides.
        let feed = async {
            if let Some(bytes) = &request.stdin {
                // A command may end without reading everything; its exit code tells.
                let _ = input.write_all(bytes).await;
                let _ = input.shutdown().await;
            }
        };
        let read = async {
            while let Some(piece) = output.next().await {
                let (side, bytes) = match piece? {
                    LogOutput::StdErr { message } => (&mut outcome.stderr, message),
                    LogOutput::StdOut { message } | LogOutput::StdIn { message } | LogOutput::Console { message } => {
                        (&mut outcome.stdout, message)
                    }
                };
                let room = request.max_output.saturating_sub(side.len());
                side.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
            Ok::<(), Bollard>(())
        };
        future::join(feed, read).await.1?;
    }
    // The streams may close a moment before the daemon has noted the end.
    loop {
        let state = docker.inspect_exec(&made.id).await?;
        match (state.running, state.exit_code) {
            (Some(true), _) | (_, None) => tokio::time::sleep(Duration::from_millis(5)).await,
            (_, Some(code)) => {
                outcome.code = code;
                return Ok(outcome);
            }
        }
    }
}
