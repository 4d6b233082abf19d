//! Who holds a port: the kernel's socket tables give an inode, `/proc/*/fd` the process that has it open. Where there
//! is no such table (macOS), `lsof` is asked.
//!
//! Another user's process cannot be looked into without root, and then the answer is `Unknown`: never a guess.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::{Command, Stdio};

use super::Protocol;

/// A busy port and who holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The port's number.
    pub port: u16,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// The address that is bound, such as `127.0.0.1` or `::`; empty when it is not known.
    pub address: String,
    /// Who it is.
    pub who: HolderKind,
}

/// Who holds a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HolderKind {
    /// A process of this machine.
    Process {
        /// Its id.
        pid: u32,
        /// Its short name, as the kernel gives it (Linux: at most 15 bytes).
        name: String,
        /// Its command line on one line, control characters replaced, at most 160 characters.
        command: String,
    },
    /// A container that publishes the port. Never found here: the caller fills it in from Docker's own list, see
    /// [`HolderKind::is_docker_proxy`].
    Container {
        /// Its name.
        name: String,
        /// Its Compose project, when it has one.
        project: Option<String>,
    },
    /// Somebody, but it cannot be seen who.
    Unknown,
}

impl HolderKind {
    /// Whether the process only stands in for a container, so that the container is to be named instead.
    pub fn is_docker_proxy(&self) -> bool {
        matches!(self, Self::Process { name, .. }
            if name == "docker-proxy" || name == "rootlessport" || name.starts_with("com.docker"))
    }
}

/// Who holds the port. `Unknown` also when it is free by now.
pub fn holder(port: u16, protocol: Protocol) -> HolderKind {
    holders(&[(port, protocol)]).pop().map_or(HolderKind::Unknown, |found| found.who)
}

/// The holders of several ports in one look over the processes, in the given order; ports that nobody seems to hold
/// have `who: Unknown` and an empty address.
pub fn holders(ports: &[(u16, Protocol)]) -> Vec<Holder> {
    let sockets: Vec<Option<Socket>> = ports.iter().map(|&(port, protocol)| socket(port, protocol)).collect();
    let wanted: Vec<u64> = sockets.iter().flatten().map(|s| s.inode).collect();
    let owners = owners(&wanted);
    ports
        .iter()
        .zip(sockets)
        .map(|(&(port, protocol), socket)| {
            let who = match &socket {
                Some(socket) => owners.get(&socket.inode).and_then(|&pid| process(pid)),
                None if Path::new("/proc/net/tcp").exists() => None,
                None => lsof(port, protocol),
            };
            Holder {
                port,
                protocol,
                address: socket.map(|s| s.address.to_string()).unwrap_or_default(),
                who: who.unwrap_or(HolderKind::Unknown),
            }
        })
        .collect()
}

/// Whether the kernel's tables list a socket that holds the port.
pub(super) fn is_listed(port: u16, protocol: Protocol) -> bool {
    socket(port, protocol).is_some()
}

struct Socket {
    address: IpAddr,
    inode: u64,
}

/// The socket that holds a port: the listening one (or, for UDP, the bound one) before any other.
fn socket(port: u16, protocol: Protocol) -> Option<Socket> {
    let tables = match protocol {
        Protocol::Tcp => ["/proc/net/tcp", "/proc/net/tcp6"],
        Protocol::Udp => ["/proc/net/udp", "/proc/net/udp6"],
    };
    let texts: Vec<String> = tables.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
    let holding = match protocol {
        Protocol::Tcp => "0A",
        Protocol::Udp => "07",
    };
    let find = |state: Option<&str>| texts.iter().find_map(|text| find_row(text, port, state));
    find(Some(holding)).or_else(|| find(None))
}

/// The first row of a socket table with that local port and, if given, that state. Sockets without an inode
/// (`TIME_WAIT`) hold nothing and are passed over.
fn find_row(table: &str, port: u16, state: Option<&str>) -> Option<Socket> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace();
        let (address, local) = fields.nth(1)?.split_once(':')?;
        if u16::from_str_radix(local, 16).ok()? != port {
            return None;
        }
        let found = fields.nth(1)?;
        if state.is_some_and(|state| state != found) {
            return None;
        }
        let inode = fields.nth(5)?.parse().ok()?;
        (inode != 0).then_some(Socket { address: parse_address(address)?, inode })
    })
}

/// An address as the tables print it: 32-bit words in the machine's own byte order.
fn parse_address(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let digits = hex.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    match hex.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (at, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(at)?);
            }
            Some(Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

/// Which process has which of the wanted socket inodes open. The lowest process id wins, which of a server and its
/// forked workers is mostly the server.
fn owners(wanted: &[u64]) -> HashMap<u64, u32> {
    let mut owners = HashMap::new();
    if wanted.is_empty() {
        return owners;
    }
    let mut pids: Vec<u32> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    for pid in pids {
        let open = fs::read_dir(format!("/proc/{pid}/fd"));
        for entry in open.into_iter().flatten().flatten() {
            let Some(inode) = fs::read_link(entry.path()).ok().and_then(|target| parse_socket_link(target.to_str()?))
            else {
                continue;
            };
            if wanted.contains(&inode) {
                owners.entry(inode).or_insert(pid);
            }
        }
        if wanted.iter().all(|inode| owners.contains_key(inode)) {
            break;
        }
    }
    owners
}

fn parse_socket_link(target: &str) -> Option<u64> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

fn process(pid: u32) -> Option<HolderKind> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    Some(HolderKind::Process { pid, name: printable(&name), command: printable(&command) })
}

/// Foreign bytes as one harmless line: arguments apart by a space, control characters replaced, bounded.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text: String = text
        .trim_end_matches(['\0', '\n'])
        .chars()
        .map(|c| match c {
            '\0' => ' ',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .take(160)
        .collect();
    text.trim().to_owned()
}

/// The holder by `lsof`, for systems without socket tables.
fn lsof(port: u16, protocol: Protocol) -> Option<HolderKind> {
    let mut command = Command::new("lsof");
    command.args(["-nP", "-w", "-Fpc"]);
    match protocol {
        Protocol::Tcp => command.args([&format!("-iTCP:{port}"), "-sTCP:LISTEN"]),
        Protocol::Udp => command.arg(format!("-iUDP:{port}")),
    };
    let output = command.stdin(Stdio::null()).output().ok()?;
    parse_lsof(&String::from_utf8_lossy(&output.stdout))
}

/// The first process of `lsof -Fpc`: a line `pPID`, then a line `cNAME`.
fn parse_lsof(text: &str) -> Option<HolderKind> {
    let field = |letter: char| text.lines().find_map(|line| line.strip_prefix(letter));
    let name = printable(field('c').unwrap_or_default().as_bytes());
    Some(HolderKind::Process { pid: field('p')?.parse().ok()?, command: name.clone(), name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    fn is_me(kind: &HolderKind) -> bool {
        matches!(kind, HolderKind::Process { pid, .. } if *pid == std::process::id())
    }

    #[test]
    fn my_own_sockets_are_found() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let tcp = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let udp = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
        let (t, u) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
        let found = holders(&[(t, Protocol::Tcp), (u, Protocol::Udp), (1, Protocol::Tcp)]);
        assert!(is_me(&found[0].who), "{found:?}");
        assert_eq!(found[0].address, "127.0.0.1");
        assert!(is_me(&found[1].who), "{found:?}");
        assert_eq!(found[1].address, "0.0.0.0");
        assert_eq!(found[2].who, HolderKind::Unknown);
        assert!(is_me(&holder(t, Protocol::Tcp)));
        if let HolderKind::Process { command, .. } = &found[0].who {
            assert!(!command.is_empty());
        }
    }

    #[test]
    fn an_ipv6_listener_is_found() {
        let Ok(listener) = TcpListener::bind(("::1", 0)) else {
            return;
        };
        if cfg!(target_os = "linux") {
            let port = listener.local_addr().unwrap().port();
            let found = holders(&[(port, Protocol::Tcp)]);
            assert!(is_me(&found[0].who), "{found:?}");
            assert_eq!(found[0].address, "::1");
        }
    }

    #[test]
    fn lsof_finds_what_the_tables_find() {
        if !Command::new("lsof").arg("-v").output().is_ok_and(|o| o.status.success()) {
            eprintln_skip("lsof is not installed");
            return;
        }
        let tcp = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = tcp.local_addr().unwrap().port();
        let found = lsof(port, Protocol::Tcp);
        assert!(found.as_ref().is_some_and(is_me), "{found:?}");
        drop(tcp);
        assert_eq!(lsof(port, Protocol::Tcp), None);
    }

    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    fn eprintln_skip(why: &str) {
        eprintln!("skipped: {why}");
    }

    #[test]
    fn rows_without_an_inode_hold_nothing_and_listeners_come_first() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:4E20 0100007F:9C40 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0\n\
            1: 0100007F:4E20 0100007F:9C41 01 00000000:00000000 00:00000000 00000000     0        0 77 1 0\n\
            2: 00000000:4E20 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 99 1 0\n";
        assert_eq!(find_row(table, 20_000, Some("0A")).unwrap().inode, 99);
        assert_eq!(find_row(table, 20_000, None).unwrap().inode, 77);
        assert!(find_row(table, 20_001, None).is_none());
    }

    #[test]
    fn foreign_command_lines_are_harmless() {
        assert_eq!(printable(b"nc\0-l\0\x1b[31mred\0"), "nc -l \u{fffd}[31mred");
        assert_eq!(printable(&[b'x'; 500]).len(), 160);
    }

    #[test]
    fn proxies_are_recognised() {
        let proxy = HolderKind::Process {
            pid: 1,
            name: "docker-proxy".into(),
            command: "/usr/bin/docker-proxy -proto tcp".into(),
        };
        assert!(proxy.is_docker_proxy());
        assert!(!HolderKind::Unknown.is_docker_proxy());
    }
}
