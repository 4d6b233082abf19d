//! [`DockerEngine`] against what is no daemon, or not one it can use. No Docker is needed.

#![cfg(unix)]

use std::time::Duration;

use futures_util::StreamExt as _;
use sidestack_runtime::engine::{DockerEngine, Engine, EngineError};

/// What an impostor was asked: first lines of requests.
type Asked = std::sync::Arc<std::sync::Mutex<Vec<String>>>;

/// Answers each connection with the same bytes, then holds it open or closes it.
fn impostor(answer: &'static [u8], hold: bool) -> (tempfile::TempDir, String) {
    recording_impostor(answer, hold, Asked::default())
}

fn recording_impostor(answer: &'static [u8], hold: bool, asked: Asked) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("d.sock");
    let listener = tokio::net::UnixListener::bind(&path).expect("a socket");
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            let mut request = [0; 4096];
            let got = stream.read(&mut request).await.unwrap_or(0);
            let first = String::from_utf8_lossy(&request[..got]);
            let first = first.lines().next().unwrap_or_default().to_owned();
            asked.lock().expect("no panic").push(first);
            let _ = stream.write_all(answer).await;
            if hold {
                kept.push(stream);
            }
        }
    });
    let host = format!("unix://{}", path.display());
    (folder, host)
}

#[tokio::test(flavor = "current_thread")]
async fn absent_hung_old_and_foreign_are_told_apart() {
    let absent = DockerEngine::connect("unix:///nowhere/docker.sock").expect("an endpoint");
    let error = absent.containers("x").await.expect_err("nothing there");
    assert!(
        matches!(&error, EngineError::Unreachable { endpoint, .. } if endpoint == "unix:///nowhere/docker.sock"),
        "{error}"
    );
    let refused = DockerEngine::connect("tcp://127.0.0.1:1").expect("an endpoint");
    assert!(matches!(refused.daemon().await, Err(EngineError::Unreachable { .. })));

    let (_folder, host) = impostor(b"", true);
    let hung = DockerEngine::connect(&host).expect("an endpoint").with_limit(Duration::from_millis(200));
    assert!(matches!(hung.containers("x").await, Err(EngineError::Hung { .. })));

    let (_folder, host) = impostor(b"HTTP/1.1 200 OK\r\nApi-Version: 1.40\r\nContent-Length: 2\r\n\r\nOK", false);
    let old = DockerEngine::connect(&host).expect("an endpoint");
    assert!(matches!(old.daemon().await, Err(EngineError::TooOld { .. })));

    let (_folder, host) = impostor(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK", false);
    let foreign = DockerEngine::connect(&host).expect("an endpoint");
    assert!(matches!(foreign.daemon().await, Err(EngineError::Api { .. })));
}

#[tokio::test(flavor = "current_thread")]
async fn a_lost_event_stream_says_so() {
    // The same bytes serve as the answer to `/_ping` and as the head of an event stream.
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n";
    let (_folder, host) = impostor(HEAD, false);
    let engine = DockerEngine::connect(&host).expect("an endpoint");
    let mut events = engine.subscribe("x").await.expect("a subscription");
    assert!(matches!(events.next().await, Some(Err(EngineError::Unreachable { .. }))));
    assert!(events.next().await.is_none());
}

#[tokio::test(flavor = "current_thread")]
async fn requests_name_the_version_of_the_daemon() {
    const EMPTY: &[u8] = b"HTTP/1.1 200 OK\r\nApi-Version: 1.44\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]";
    let asked = Asked::default();
    let (_folder, host) = recording_impostor(EMPTY, false, asked.clone());
    let engine = DockerEngine::connect(&host).expect("an endpoint");
    assert!(engine.containers("x").await.expect("a list").is_empty());
    assert!(engine.networks(None).await.expect("a list").is_empty());
    let asked = asked.lock().expect("no panic").clone();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert!(asked[1].starts_with("GET /v1.44/containers/json?"), "{asked:?}");
    assert!(asked[2].starts_with("GET /v1.44/networks?"), "{asked:?}");
}
