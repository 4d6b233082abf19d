//! HTTP/1.1 by hand, for what the client library hides.
//!
//! Three things need the response's head or its exact end: version negotiation (a header of
//! `/_ping`), the event stream (the subscription stands once the head has arrived) and logs (a
//! broken connection must not look like the end of a log). One connection per request, GET only.

use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

use super::EngineError;

/// Longest head line and longest chunk-size line that is read; anything longer is not HTTP.
const LINE_LIMIT: u64 = 64 * 1024;

/// Where a daemon listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// A Unix socket.
    Unix(PathBuf),
    /// `host:port`, without TLS.
    Tcp(String),
}

impl Endpoint {
    /// Reads `unix:///path` or `tcp://host:port` (also `http://`; the port defaults to 2375).
    pub(super) fn parse(host: &str) -> Result<Self, EngineError> {
        if let Some(path) = host.strip_prefix("unix://") {
            if path.is_empty() {
                return Err(EngineError::Invalid { what: format!("endpoint `{host}` names no socket") });
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let Some(rest) = host.strip_prefix("tcp://").or_else(|| host.strip_prefix("http://")) else {
            return Err(EngineError::Invalid { what: format!("endpoint `{host}` is neither `unix://` nor `tcp://`") });
        };
        let authority = rest.trim_end_matches('/');
        if authority.is_empty() || authority.contains('/') {
            return Err(EngineError::Invalid { what: format!("endpoint `{host}` is no host and port") });
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        Ok(Self::Tcp(if has_port { authority.to_owned() } else { format!("{authority}:2375") }))
    }

    /// As `DOCKER_HOST` would say it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Unix(path) => format!("unix://{}", path.display()),
            Self::Tcp(authority) => format!("tcp://{authority}"),
        }
    }

    /// The error for a broken connection.
    pub(super) fn unreachable(&self, cause: impl Into<String>) -> EngineError {
        EngineError::Unreachable { endpoint: self.name(), cause: cause.into() }
    }

    /// Sends a GET and reads the head of the answer, both within `limit`.
    ///
    /// A status other than 2xx becomes an error about `what`.
    pub(super) async fn get(&self, path: &str, what: &str, limit: Duration) -> Result<Response, EngineError> {
        let work = async {
            let mut response = self.send(path).await.map_err(|e| self.unreachable(e.to_string()))?;
            if !(200..300).contains(&response.status) {
                let body = response.body.collect().await.map_err(|e| self.unreachable(e.to_string()))?;
                let message = serde_json::from_slice::<serde_json::Value>(&body)
                    .ok()
                    .and_then(|json| json["message"].as_str().map(str::to_owned))
                    .unwrap_or_else(|| String::from_utf8_lossy(&body).into_owned());
                return Err(EngineError::from_answer(response.status, &message, what));
            }
            Ok(response)
        };
        tokio::time::timeout(limit, work)
            .await
            .unwrap_or_else(|_| Err(EngineError::Hung { what: what.to_owned(), after: limit }))
    }

    async fn send(&self, path: &str) -> std::io::Result<Response> {
        let (stream, host): (Box<dyn Duplex>, &str) = match self {
            #[cfg(unix)]
            Self::Unix(socket) => (Box::new(tokio::net::UnixStream::connect(socket).await?), "docker"),
            #[cfg(not(unix))]
            Self::Unix(_) => return Err(std::io::ErrorKind::Unsupported.into()),
            Self::Tcp(authority) => (Box::new(tokio::net::TcpStream::connect(authority.as_str()).await?), authority),
        };
        let mut stream = BufReader::new(stream);
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: sidestack\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        stream.flush().await?;
        Response::read(stream).await
    }
}

trait Duplex: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Duplex for T {}

/// The head of an answer, and its body yet to be read.
pub(super) struct Response {
    /// HTTP status.
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    /// The body.
    pub(super) body: Body,
}

impl Response {
    async fn read(mut stream: BufReader<Box<dyn Duplex>>) -> std::io::Result<Self> {
        let first = line(&mut stream).await?;
        let status = first
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.split_whitespace().nth(1))
            .and_then(|code| code.parse().ok())
            .ok_or_else(|| garbage("no HTTP answer"))?;
        let mut headers = Vec::new();
        loop {
            let text = line(&mut stream).await?;
            if text.is_empty() {
                break;
            }
            if let Some((name, value)) = text.split_once(':') {
                headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
        let find = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        let framing = if find("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
            Framing::Chunked
        } else if let Some(length) = find("content-length").and_then(|v| v.parse().ok()) {
            Framing::Length(length)
        } else {
            Framing::UntilClose
        };
        Ok(Self { status, headers, body: Body { stream, framing } })
    }

    /// A header by its name in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }
}

enum Framing {
    /// At the start of a chunk.
    Chunked,
    /// This much is still to come.
    Length(u64),
    /// No length given: the end of the connection is the end of the body.
    UntilClose,
    /// Everything was read.
    Done,
}

/// A body that is read piece by piece.
pub(super) struct Body {
    stream: BufReader<Box<dyn Duplex>>,
    framing: Framing,
}

impl Body {
    /// The next piece; `None` at the end that the protocol marks. A connection that breaks before
    /// is an error.
    pub(super) async fn next(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        match self.framing {
            Framing::Done => Ok(None),
            Framing::Length(0) => {
                self.framing = Framing::Done;
                Ok(None)
            }
            Framing::Length(left) => {
                let want = usize::try_from(left.min(64 * 1024)).unwrap_or(64 * 1024);
                let mut piece = vec![0; want];
                let got = self.stream.read(&mut piece).await?;
                if got == 0 {
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                }
                piece.truncate(got);
                self.framing = Framing::Length(left - got as u64);
                Ok(Some(piece))
            }
            Framing::UntilClose => {
                let mut piece = vec![0; 64 * 1024];
                let got = self.stream.read(&mut piece).await?;
                if got == 0 {
                    self.framing = Framing::Done;
                    return Ok(None);
                }
                piece.truncate(got);
                Ok(Some(piece))
            }
            Framing::Chunked => {
                let size = line(&mut self.stream).await?;
                let size = size.split(';').next().unwrap_or_default().trim();
                let size = usize::from_str_radix(size, 16).map_err(|_| garbage("no chunk size"))?;
                if size > 64 * 1024 * 1024 {
                    return Err(garbage("a chunk beyond 64 MiB"));
                }
                let mut piece = vec![0; size];
                self.stream.read_exact(&mut piece).await?;
                if !line(&mut self.stream).await?.is_empty() {
                    return Err(garbage("no end of a chunk"));
                }
                if size == 0 {
                    self.framing = Framing::Done;
                    return Ok(None);
                }
                Ok(Some(piece))
            }
        }
    }

    /// All that is left.
    pub(super) async fn collect(&mut self) -> std::io::Result<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(piece) = self.next().await? {
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }
}

/// One line without its end. The end of the connection before it is an error.
async fn line(stream: &mut BufReader<Box<dyn Duplex>>) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    stream.take(LINE_LIMIT).read_until(b'\n', &mut bytes).await?;
    if bytes.pop() != Some(b'\n') {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    String::from_utf8(bytes).map_err(|_| garbage("a head that is no text"))
}

fn garbage(what: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, what.to_owned())
}

/// Percent-encodes everything but RFC 3986's unreserved characters.
pub(super) fn encode(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_as_docker_host_is() {
        assert_eq!(Endpoint::parse("unix:///run/d.sock"), Ok(Endpoint::Unix("/run/d.sock".into())));
        assert_eq!(Endpoint::parse("tcp://127.0.0.1:2376/"), Ok(Endpoint::Tcp("127.0.0.1:2376".into())));
        assert_eq!(Endpoint::parse("tcp://box"), Ok(Endpoint::Tcp("box:2375".into())));
        for bad in ["", "unix://", "ssh://me@box", "tcp://", "/run/d.sock"] {
            assert!(matches!(Endpoint::parse(bad), Err(EngineError::Invalid { .. })));
        }
    }

    #[test]
    fn encoding_leaves_no_delimiter() {
        assert_eq!(encode(r#"{"a":["b=c"]}"#), "%7B%22a%22%3A%5B%22b%3Dc%22%5D%7D");
    }

    async fn answered(bytes: &'static [u8]) -> std::io::Result<Vec<u8>> {
        let (client, mut server) = tokio::io::duplex(1024);
        server.write_all(bytes).await.expect("in memory");
        drop(server);
        let stream: Box<dyn Duplex> = Box::new(client);
        let mut response = Response::read(BufReader::new(stream)).await?;
        response.body.collect().await
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_body_that_breaks_off_is_an_error() {
        let whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        assert_eq!(answered(whole).await.expect("whole"), b"abc");
        let broken = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
        assert!(answered(broken).await.is_err());
        let short = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc";
        assert!(answered(short).await.is_err());
        let sized = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(answered(sized).await.expect("sized"), b"abc");
        assert!(answered(b"220 smtp ready\r\n").await.is_err());
    }
}
