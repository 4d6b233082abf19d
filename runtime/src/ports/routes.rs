//! The address side of the machine: the ephemeral port range and what IPv4 ranges are routed already.
//!
//! Linux only; elsewhere Docker lives in a virtual machine, whose routes are not ours to see, and the answers are
//! empty.

use std::net::Ipv4Addr;

/// An IPv4 range: its address (host bits as found) and the length of its prefix, 0 to 32.
pub type Network = (Ipv4Addr, u8);

/// The range from which the kernel takes the ports of outgoing connections, both ends included; `None` where it does
/// not tell.
pub fn ephemeral_range() -> Option<(u16, u16)> {
    parse_range(&std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?)
}

fn parse_range(text: &str) -> Option<(u16, u16)> {
    let mut numbers = text.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(low)), Some(Ok(high)), None) if low <= high => Some((low, high)),
        _ => None,
    }
}

/// Every IPv4 range that this machine has a route or an address in, sorted, each once.
///
/// All routing tables count, also those of VPNs that use a table of their own. Left out is what stands for the whole
/// internet (a default route, or its two halves as some VPNs set them), since everything would overlap it.
pub fn host_routes() -> Vec<Network> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let mut found = parse_route(&read("/proc/net/route"));
    found.extend(parse_fib_trie(&read("/proc/net/fib_trie")));
    found.retain(|&(_, prefix)| prefix > 1);
    found.sort_unstable();
    found.dedup();
    found
}

/// `/proc/net/route`: the main table, addresses as little-endian hexadecimal words.
fn parse_route(text: &str) -> Vec<Network> {
    let word = |field: &str| Some(Ipv4Addr::from(u32::from_str_radix(field, 16).ok()?.to_le_bytes()));
    text.lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let mask = word(fields.get(7)?)?;
            let prefix = u32::from(mask).leading_ones();
            Some((word(fields.get(1)?)?, u8::try_from(prefix).ok()?))
        })
        .collect()
}

/// `/proc/net/fib_trie`: every table; a leaf `|-- ADDRESS` is followed by its prefixes, `/LENGTH SCOPE KIND`.
fn parse_fib_trie(text: &str) -> Vec<Network> {
    let mut found = Vec::new();
    let mut leaf = None;
    for line in text.lines().map(str::trim_start) {
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.trim().parse::<Ipv4Addr>().ok();
        } else if line.starts_with("+--") {
            leaf = None;
        } else if let (Some(address), Some(rest)) = (leaf, line.strip_prefix('/')) {
            let prefix = rest.split_whitespace().next().and_then(|p| p.parse().ok());
            found.extend(prefix.filter(|&p: &u8| p <= 32).map(|p| (address, p)));
        }
    }
    found
}

/// Whether two ranges share an address. Prefixes above 32 are taken as 32.
pub fn overlaps(a: Network, b: Network) -> bool {
    let prefix = a.1.min(b.1).min(32);
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
    u32::from(a.0) & mask == u32::from(b.0) & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> Network {
        let (address, prefix) = text.split_once('/').unwrap();
        (address.parse().unwrap(), prefix.parse().unwrap())
    }

    #[test]
    fn ranges_overlap_when_one_holds_the_other() {
        for (a, b, expected) in [
            ("10.0.0.0/8", "10.200.0.0/16", true),
            ("10.200.0.0/16", "10.0.0.0/8", true),
            ("10.200.0.0/16", "10.201.0.0/16", false),
            ("172.17.0.1/32", "172.17.0.0/16", true),
            ("172.17.0.1/32", "172.17.0.2/32", false),
            ("0.0.0.0/0", "192.168.1.0/24", true),
            ("10.200.0.128/25", "10.200.0.0/25", false),
        ] {
            assert_eq!(overlaps(net(a), net(b)), expected, "{a} {b}");
        }
    }

    #[test]
    fn the_main_table_is_read() {
        let text = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
                    eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                    docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n\
                    broken\n";
        assert_eq!(parse_route(text), [net("0.0.0.0/0"), net("172.17.0.0/16")]);
    }

    #[test]
    fn every_table_of_the_trie_is_read() {
        let text = "Id 52:\n  +-- 100.64.0.0/10 2 0 2\n     |-- 100.100.100.100\n        /32 link UNICAST\n\
                    Main:\n  +-- 0.0.0.0/0 3 0 4\n     |-- 10.8.0.0\n        /24 link UNICAST\n        /16 link UNICAST\n\
                    Local:\n     |-- 10.8.0.5\n        /32 host LOCAL\n";
        assert_eq!(
            parse_fib_trie(text),
            [net("100.100.100.100/32"), net("10.8.0.0/24"), net("10.8.0.0/16"), net("10.8.0.5/32")]
        );
    }

    #[test]
    fn this_machine_has_loopback_and_no_default_route_in_the_list() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let routes = host_routes();
        assert!(routes.iter().any(|&r| overlaps(r, net("127.0.0.1/32"))), "{routes:?}");
        assert!(routes.iter().all(|r| r.1 > 1), "{routes:?}");
    }

    #[test]
    fn the_ephemeral_range_is_two_ordered_numbers() {
        assert_eq!(parse_range("32768\t60999\n"), Some((32_768, 60_999)));
        assert_eq!(parse_range("9 1"), None);
        assert_eq!(parse_range("1 70000"), None);
        assert_eq!(parse_range("1"), None);
        if cfg!(target_os = "linux") {
            assert!(ephemeral_range().is_some());
        }
    }
}
