//! Which ports of this machine are busy, who holds them, and which addresses it already routes.
//!
//! Purpose: choosing a slot, and naming the holder when a bind fails. Nothing here leases or remembers anything, and
//! every answer may be stale a moment later: Docker's own bind remains the truth.
//!
//! A probe really binds, since that is the only question the kernel answers for every kind of holder (other users'
//! processes, other network stacks' proxies). A TCP probe listens for some microseconds, because a bind alone does not
//! collide with a listener that set `SO_REUSEADDR`; it accepts nothing, so nothing is left in `TIME_WAIT`.

mod holder;
mod routes;

use std::fmt;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

pub use holder::{Holder, HolderKind, holder, holders};
pub use routes::{Network, ephemeral_range, host_routes, overlaps};

/// The transport protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// Stream sockets.
    Tcp,
    /// Datagram sockets.
    Udp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

const ADDRESSES: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::UNSPECIFIED),
];

/// The addresses to try. On Linux one dual-stack bind collides with a holder of any address, IPv4 or IPv6, which is
/// four times as quick. Not where `net.ipv6.bindv6only` is set or IPv6 is off, and not on BSD kernels, where a wildcard
/// and a loopback bind do not collide at all.
fn addresses() -> &'static [IpAddr] {
    let dual = std::fs::read_to_string("/proc/sys/net/ipv6/bindv6only").is_ok_and(|setting| setting.trim() == "0")
        && UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok();
    if dual { &ADDRESSES[3..] } else { &ADDRESSES }
}

/// The busy ports of a block of `count` ports from `first` on, TCP and UDP, in ascending order.
///
/// Ports beyond 65535 do not exist and are left out. 100 free ports take a few milliseconds.
pub fn probe_block(first: u16, count: u16) -> Vec<(u16, Protocol)> {
    let addresses = addresses();
    (0..count)
        .map_while(|n| first.checked_add(n))
        .flat_map(|port| [(port, Protocol::Tcp), (port, Protocol::Udp)])
        .filter(|&(port, protocol)| is_busy(addresses, port, protocol))
        .collect()
}

/// Those of `ports` that are busy, in the given order.
pub fn probe(ports: &[(u16, Protocol)]) -> Vec<(u16, Protocol)> {
    let addresses = addresses();
    ports.iter().copied().filter(|&(port, protocol)| is_busy(addresses, port, protocol)).collect()
}

/// Whether something holds the port on loopback or on all addresses, IPv4 or IPv6.
fn is_busy(addresses: &[IpAddr], port: u16, protocol: Protocol) -> bool {
    if port == 0 {
        return false;
    }
    addresses.iter().any(|&ip| {
        let address = SocketAddr::new(ip, port);
        let bound = match protocol {
            Protocol::Tcp => TcpListener::bind(address).map(drop),
            Protocol::Udp => UdpSocket::bind(address).map(drop),
        };
        match bound {
            Ok(()) => false,
            Err(error) => match error.kind() {
                ErrorKind::AddrInUse => true,
                // Ports below 1024 for an ordinary user: only the kernel's table can tell.
                ErrorKind::PermissionDenied => holder::is_listed(port, protocol),
                // No IPv6 on this machine, or the address is not there: nobody can hold it.
                _ => false,
            },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// A listener on a port of the kernel's choice at `ip`, or `None` where the machine has no such address.
    fn tcp(ip: &str) -> Option<(TcpListener, u16)> {
        let listener = TcpListener::bind((ip.parse::<IpAddr>().unwrap(), 0)).ok()?;
        let port = listener.local_addr().unwrap().port();
        Some((listener, port))
    }

    #[test]
    fn a_listener_on_each_address_is_found() {
        for ip in ["127.0.0.1", "0.0.0.0", "::1", "::"] {
            let Some((listener, port)) = tcp(ip) else {
                assert!(ip.contains(':'), "no IPv4 address {ip} on this machine");
                continue;
            };
            assert_eq!(probe(&[(port, Protocol::Tcp)]), [(port, Protocol::Tcp)], "tcp {ip}");
            assert!(is_busy(&ADDRESSES, port, Protocol::Tcp), "tcp {ip}, each address");
            drop(listener);
            assert_eq!(probe(&[(port, Protocol::Tcp)]), [], "tcp {ip} after close");

            let socket = UdpSocket::bind((ip.parse::<IpAddr>().unwrap(), 0)).unwrap();
            let port = socket.local_addr().unwrap().port();
            assert_eq!(probe(&[(port, Protocol::Udp)]), [(port, Protocol::Udp)], "udp {ip}");
            assert!(is_busy(&ADDRESSES, port, Protocol::Udp), "udp {ip}, each address");
            drop(socket);
            assert_eq!(probe(&[(port, Protocol::Udp)]), [], "udp {ip} after close");
        }
    }

    /// Somewhere below the ephemeral range, where no other test of this process binds.
    const QUIET: u16 = 17_300;

    #[test]
    fn a_block_names_only_what_is_busy_and_leaves_nothing_behind() {
        let tcp = TcpListener::bind(("127.0.0.1", QUIET + 7)).unwrap();
        let udp = UdpSocket::bind(("127.0.0.1", QUIET + 9)).unwrap();
        assert_eq!(probe_block(QUIET, 100), [(QUIET + 7, Protocol::Tcp), (QUIET + 9, Protocol::Udp)]);
        drop((tcp, udp));
        assert_eq!(probe_block(QUIET, 100), []);
        assert!(
            (QUIET..QUIET + 100)
                .all(|port| { !holder::is_listed(port, Protocol::Tcp) && !holder::is_listed(port, Protocol::Udp) })
        );
        assert_eq!(time_wait_in(QUIET, 100), 0);
    }

    /// Sockets of a block that the kernel still lists in any TCP state.
    fn time_wait_in(first: u16, count: u16) -> usize {
        ["/proc/net/tcp", "/proc/net/tcp6"]
            .iter()
            .filter_map(|path| std::fs::read_to_string(path).ok())
            .flat_map(|text| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>())
            .filter_map(|line| {
                let local = line.split_whitespace().nth(1)?.to_owned();
                u16::from_str_radix(local.rsplit(':').next()?, 16).ok()
            })
            .filter(|port| (first..first + count).contains(port))
            .count()
    }

    #[test]
    fn a_block_is_quick() {
        // The best of several, since the machine may be busy with other tests.
        let best = (0..10)
            .map(|_| {
                let start = Instant::now();
                probe_block(17_500, 100);
                start.elapsed()
            })
            .min()
            .unwrap();
        assert!(best < Duration::from_millis(50), "took {best:?}");
    }

    #[test]
    fn the_end_of_the_port_space_is_no_trouble() {
        assert!(probe_block(65_500, 100).len() <= 72);
        assert_eq!(probe(&[(0, Protocol::Tcp)]), []);
    }
}
