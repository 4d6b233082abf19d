//! Networks with addresses of their own choice: every copy has its part of the
//! machine's range, and fixed addresses move with it, also where they are written.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

use super::claim::{Claims, pointer};
use super::selves;
use crate::compose::Network;
use crate::diagnostic::Diagnostic;
use crate::plan::{Original, Placement, Plan};
use crate::planner::place::MAX_NETWORKS;

const SUBNET: &str = "every instance has a subnet of its own part of one range";
const ADDRESS: &str = "a fixed address can be had by one copy";
const WRITTEN: &str = "it names an address that this copy has elsewhere";

/// A network's part of the instance's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Subnet {
    base: Ipv4Addr,
    prefix: u8,
}

impl Subnet {
    fn size(self) -> u32 {
        1 << (32 - u32::from(self.prefix))
    }

    fn host(self, host: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.base.to_bits() + host)
    }
}

impl std::fmt::Display for Subnet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

/// How many networks have a subnet of the instance's part; Docker chooses those of further ones.
const ADDRESSED: u16 = 9;

/// The subnet of a network: the first has the lower half of the instance's part,
/// the next ones a /27 each of the upper half. `None` without a slot, and for one that Docker is left to choose.
fn subnet(key: &str, placement: &Placement) -> Result<Option<(Subnet, u16)>, Diagnostic> {
    let (Some(base), Some(number)) = (&placement.subnet, placement.networks.get(key)) else {
        return Ok(None);
    };
    if *number >= MAX_NETWORKS {
        let message =
            format!("network `{key}` would be number {} of at most {MAX_NETWORKS} of an instance", number + 1);
        return Err(Diagnostic::error(&["networks", key], message).hint("use fewer networks"));
    }
    if *number >= ADDRESSED {
        return Ok(None);
    }
    let part = base.split('/').next().and_then(|text| text.parse::<Ipv4Addr>().ok());
    // An even third number: the part is a /23.
    let Some([a, b, c, 0]) = part.map(|part| part.octets()).filter(|octets| octets[2].is_multiple_of(2)) else {
        let message = format!("`{base}` is no part of an address range");
        return Err(Diagnostic::error(&["networks", key], message));
    };
    let subnet = match u8::try_from(*number).unwrap_or(u8::MAX) {
        0 => Subnet { base: Ipv4Addr::new(a, b, c, 0), prefix: 24 },
        number => Subnet { base: Ipv4Addr::new(a, b, c | 1, (number - 1) * 32), prefix: 27 },
    };
    Ok(Some((subnet, *number)))
}

/// What stands where a text names it: addresses and subnets, old and new.
#[derive(Debug, Default)]
struct Moved(BTreeMap<String, String>);

/// Gives every network of the instance its subnet, and every fixed address its place in it.
pub(crate) fn networks(plan: &mut Plan, claims: &mut Claims, faults: &mut Vec<Diagnostic>) {
    let mut moved = Moved::default();
    let keys: Vec<String> = plan
        .networks
        .iter()
        .filter(|(_, network)| !network.external && owns_addresses(network))
        .map(|(key, _)| key.clone())
        .collect();
    for key in keys {
        match subnet(&key, &plan.placement) {
            Ok(None) if plan.placement.slot.is_some() && !fixed(plan, &key, "ipv4_address").is_empty() => {
                let message =
                    format!("network `{key}` fixes addresses, and is not among the {ADDRESSED} that can have some");
                faults.push(Diagnostic::error(&["networks", &key], message).hint("use fewer networks"));
            }
            Ok(place) => network(&key, place, plan, &mut moved, claims, faults),
            Err(fault) => faults.push(fault),
        }
    }
    if !moved.0.is_empty() {
        texts(plan, &moved, claims);
    }
}

/// A network that stands in the machine's own (macvlan, ipvlan) keeps its addresses.
fn owns_addresses(network: &Network) -> bool {
    matches!(network.driver.as_deref(), None | Some("bridge"))
}

/// The container-side addresses of one network: service, key in the model, address.
fn fixed(plan: &Plan, network: &str, key: &str) -> Vec<(String, String)> {
    let all = plan.services.iter().filter_map(|(name, planned)| {
        let joined = planned.compose.networks.get(network)?.as_ref()?;
        Some((name.clone(), joined.get(key)?.as_str()?.to_owned()))
    });
    all.collect()
}

fn network(
    key: &str,
    place: Option<(Subnet, u16)>,
    plan: &mut Plan,
    moved: &mut Moved,
    claims: &mut Claims,
    faults: &mut Vec<Diagnostic>,
) {
    let Some(network) = plan.networks.get(key) else { return };
    let old = Old::of(network);
    let (v4, v6) = (fixed(plan, key, "ipv4_address"), fixed(plan, key, "ipv6_address"));
    claims.at(&["networks", key, "ipam"], "subnet", SUBNET);
    let mut config = Vec::new();
    if let Some((subnet, number)) = place {
        let asked = v4.iter().map(|(_, address)| address).chain(&old.gateways).chain(old.auxiliary.values());
        let asked: BTreeSet<Ipv4Addr> = asked.filter_map(|text| text.parse().ok()).collect();
        let gateway = old.gateways.first().and_then(|text| text.parse().ok());
        let Some(map) = spread(&asked, gateway, subnet) else {
            let message =
                format!("network `{key}` fixes {} addresses; a copy of it holds {}", asked.len(), subnet.size() - 3);
            faults.push(Diagnostic::error(&["networks", key], message).hint("fix fewer addresses"));
            return;
        };
        let mut entry = json!({"subnet": subnet.to_string()});
        let to =
            |text: &String| text.parse().ok().and_then(|address: Ipv4Addr| map.get(&address)).map(ToString::to_string);
        if let Some(gateway) = old.gateways.first().and_then(to) {
            entry["gateway"] = Value::from(gateway);
        }
        let auxiliary: serde_json::Map<String, Value> =
            old.auxiliary.iter().filter_map(|(name, address)| Some((name.clone(), to(address)?.into()))).collect();
        if !auxiliary.is_empty() {
            entry["aux_addresses"] = Value::Object(auxiliary);
        }
        // Docker hands out addresses from below, and would give a fixed one away.
        if let Some(range) = (!v4.is_empty()).then(|| free_range(map.values(), subnet)).flatten() {
            entry["ip_range"] = Value::from(range.to_string());
            // Else Docker takes the gateway out of the range.
            if entry.get("gateway").is_none() {
                entry["gateway"] = Value::from(subnet.host(1).to_string());
            }
        }
        config.push(entry);
        moved.0.extend(map.iter().map(|(from, to)| (from.to_string(), to.to_string())));
        for text in &old.subnets {
            moved.0.insert(text.clone(), subnet.to_string());
            moved.prefix(text, subnet);
            if let Some(first) = text.split('/').next().and_then(|base| base.parse::<Ipv4Addr>().ok()) {
                let first = Ipv4Addr::from_bits(first.to_bits().saturating_add(1));
                moved.0.entry(first.to_string()).or_insert_with(|| subnet.host(1).to_string());
            }
        }
        if old.v6 {
            let slot = u16::from(subnet.base.octets()[2] / 2);
            let new = format!("fd53:6465:{slot:x}:{number:x}::/64");
            let mut entry = json!({"subnet": new});
            for address in v6.iter().map(|(_, address)| address).chain(&old.gateways6) {
                if let Ok(address) = address.parse::<Ipv6Addr>() {
                    let low = address.segments();
                    let new = Ipv6Addr::new(0xfd53, 0x6465, slot, number, low[4], low[5], low[6], low[7]);
                    moved.0.insert(address.to_string(), new.to_string());
                }
            }
            moved.0.extend(old.subnets6.iter().map(|old| (old.clone(), new.clone())));
            let gateway = old.gateways6.first().and_then(|text| text.parse::<Ipv6Addr>().ok());
            if let Some(gateway) = gateway.and_then(|gateway| moved.0.get(&gateway.to_string())) {
                entry["gateway"] = Value::from(gateway.as_str());
            }
            config.push(entry);
        }
    }
    let Some(network) = plan.networks.get_mut(key) else { return };
    match config.is_empty() {
        true => network.ipam.remove("config"),
        false => network.ipam.insert("config".to_owned(), Value::Array(config)),
    };
    for (model_key, list) in [("ipv4_address", v4), ("ipv6_address", v6)] {
        for (service, from) in list {
            claims.at(&["services", &service, "networks", key, model_key], "address", ADDRESS);
            let joined = plan.services.get_mut(&service).and_then(|planned| planned.compose.networks.get_mut(key));
            let Some(joined) = joined.and_then(Option::as_mut) else { continue };
            let normal = from.parse::<std::net::IpAddr>().map_or_else(|_| from.clone(), |address| address.to_string());
            match moved.0.get(&normal) {
                Some(to) => joined.insert(model_key.to_owned(), Value::from(to.as_str())),
                None => joined.remove(model_key),
            };
        }
    }
}

/// What the file says of a network's addresses.
#[derive(Debug, Default)]
struct Old {
    subnets: Vec<String>,
    gateways: Vec<String>,
    auxiliary: BTreeMap<String, String>,
    v6: bool,
    subnets6: Vec<String>,
    gateways6: Vec<String>,
}

impl Old {
    fn of(network: &Network) -> Self {
        let enabled = network.rest.get("enable_ipv6").and_then(Value::as_bool) == Some(true);
        let mut old = Self { v6: enabled, ..Self::default() };
        for entry in network.ipam.get("config").and_then(Value::as_array).into_iter().flatten() {
            let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
            if text("subnet").is_some_and(|subnet| subnet.contains(':')) {
                old.v6 = true;
                old.subnets6.extend(text("subnet"));
                old.gateways6.extend(text("gateway"));
                continue;
            }
            old.subnets.extend(text("subnet"));
            old.gateways.extend(text("gateway"));
            let auxiliary = entry.get("aux_addresses").and_then(Value::as_object).into_iter().flatten();
            old.auxiliary
                .extend(auxiliary.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))));
        }
        old
    }
}

/// Fixed addresses in a subnet: each keeps its last number where that is free, the others come from the end.
/// `None` when there is no room.
fn spread(
    asked: &BTreeSet<Ipv4Addr>,
    gateway: Option<Ipv4Addr>,
    subnet: Subnet,
) -> Option<BTreeMap<Ipv4Addr, Ipv4Addr>> {
    let size = subnet.size();
    let mut taken: BTreeMap<u32, Ipv4Addr> = BTreeMap::new();
    if let Some(gateway) = gateway {
        let host = gateway.to_bits() & 0xFF;
        taken.insert(if (1..size - 1).contains(&host) { host } else { 1 }, gateway);
    }
    let own = |taken: &BTreeMap<u32, Ipv4Addr>, host: u32| {
        // Docker's own gateway is the first unless the file says another.
        let reserved = gateway.is_none() && host == 1;
        (1..size - 1).contains(&host) && !reserved && !taken.contains_key(&host)
    };
    let mut left = Vec::new();
    for address in asked.iter().filter(|address| Some(**address) != gateway) {
        let host = address.to_bits() & 0xFF;
        if own(&taken, host) {
            taken.insert(host, *address);
        } else {
            left.push(*address);
        }
    }
    for address in left {
        let host = (1..size - 1).rev().find(|host| own(&taken, *host))?;
        taken.insert(host, address);
    }
    Some(taken.into_iter().map(|(host, address)| (address, subnet.host(host))).collect())
}

/// The largest part of a subnet that holds no fixed address.
fn free_range<'a>(fixed: impl Iterator<Item = &'a Ipv4Addr>, subnet: Subnet) -> Option<Subnet> {
    let fixed: BTreeSet<u32> = fixed.map(|address| address.to_bits() - subnet.base.to_bits()).collect();
    for prefix in subnet.prefix + 1..=29 {
        let part = 1_u32 << (32 - u32::from(prefix));
        let start = (0..subnet.size() / part)
            .rev()
            .map(|at| at * part)
            .find(|start| fixed.range(start..&(start + part)).next().is_none());
        if let Some(start) = start {
            return Some(Subnet { base: subnet.host(start), prefix });
        }
    }
    None
}

/// Addresses written in variables, commands, labels, health checks, hosts files.
fn texts(plan: &mut Plan, moved: &Moved, claims: &mut Claims) {
    for (name, planned) in plan.services.iter_mut().filter(|(_, planned)| planned.resource.is_none()) {
        let compose = &mut planned.compose;
        for (key, value) in &mut compose.environment {
            if let Some(text) = value
                && let Some(to) = moved.text(text)
            {
                let value = std::mem::replace(text, to);
                let originals = plan.rewritten.entry(name.clone()).or_default();
                originals.entry(key.clone()).or_insert(Original { value, rule: "address", reason: WRITTEN });
            }
        }
        for (label, value) in &mut compose.labels {
            if let Some(to) = moved.text(value) {
                claims.at(&["services", name, "labels", label], "address", WRITTEN);
                *value = to;
            }
        }
        for (key, value) in [("command", &mut compose.command), ("entrypoint", &mut compose.entrypoint)] {
            let mut path = vec!["services".to_owned(), name.clone(), key.to_owned()];
            value.iter_mut().for_each(|value| moved.value(value, &mut path, claims));
        }
        let objects = [("healthcheck", compose.healthcheck.as_mut())];
        for (key, object) in objects {
            for (inner, value) in object.into_iter().flat_map(|object| object.iter_mut()) {
                moved.value(
                    value,
                    &mut vec!["services".to_owned(), name.clone(), key.to_owned(), inner.clone()],
                    claims,
                );
            }
        }
        for key in ["extra_hosts", "dns"] {
            if let Some(value) = compose.rest.get_mut(key) {
                moved.value(value, &mut vec!["services".to_owned(), name.clone(), key.to_owned()], claims);
            }
        }
    }
}

impl Moved {
    /// A subnet's beginning, to which programs put the last number themselves: `172.22.1` of `172.22.1.0/24`.
    fn prefix(&mut self, old: &str, new: Subnet) {
        let Some(base) = old.strip_suffix("/24").and_then(|base| base.strip_suffix(".0")) else { return };
        if let (24, Some(to)) = (new.prefix, new.base.to_string().strip_suffix(".0")) {
            self.0.insert(format!("{base}.0"), format!("{to}.0"));
            self.0.insert(base.to_owned(), to.to_owned());
        }
    }

    fn value(&self, value: &mut Value, path: &mut Vec<String>, claims: &mut Claims) {
        selves::each(value, path, &mut |path, text| {
            if let Some(to) = self.text(text) {
                claims.claim(pointer(path), "address", WRITTEN);
                *text = to;
            }
        });
    }

    /// The text with every address that moved; `172.28.0.5` is none in `1172.28.0.50`.
    fn text(&self, text: &str) -> Option<String> {
        let mut out = String::new();
        let mut done = 0;
        let mut in_word = false;
        // Nearly everything is passed over by one look at what stands before it.
        for (at, c) in text.char_indices() {
            let begins = !in_word && c.is_ascii_hexdigit() && at >= done;
            in_word = is_word(c);
            if !begins {
                continue;
            }
            // A subnet before an address of the same beginning.
            let here = self.0.iter().filter(|(from, _)| whole(text, at, from)).max_by_key(|(from, _)| from.len());
            if let Some((from, to)) = here {
                out.push_str(&text[done..at]);
                out.push_str(to);
                done = at + from.len();
            }
        }
        (done > 0).then(|| out + &text[done..])
    }
}

/// What an address may be the end of, and then is another.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '.'
}

/// Whether `part` stands at `at` and no further digit belongs to it.
fn whole(text: &str, at: usize, part: &str) -> bool {
    let Some(rest) = text[at..].strip_prefix(part) else { return false };
    let before = text[..at].chars().next_back();
    let before = before.is_some_and(|c| is_word(c) || (part.contains("::") && c == ':'));
    let mut after = rest.chars();
    let next = after.next();
    // A full stop at the end of a sentence is no part of it.
    let goes_on = match next {
        Some('.') => after.next().is_some_and(|c| c.is_ascii_digit()),
        Some(c) => c.is_ascii_alphanumeric(),
        None => false,
    };
    !before && !goes_on
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Ipv4Addr {
        text.parse().unwrap()
    }

    fn spread_of(asked: &[&str], gateway: Option<&str>, prefix: u8) -> Option<Vec<String>> {
        let asked: BTreeSet<Ipv4Addr> = asked.iter().map(|text| ip(text)).collect();
        let map = spread(&asked, gateway.map(ip), Subnet { base: ip("10.1.2.0"), prefix })?;
        Some(map.into_iter().map(|(from, to)| format!("{from}={to}")).collect())
    }

    #[test]
    fn fixed_addresses_keep_their_last_number_where_they_can() {
        assert_eq!(
            spread_of(&["172.28.0.5", "172.28.0.6"], None, 24).unwrap(),
            ["172.28.0.5=10.1.2.5", "172.28.0.6=10.1.2.6"]
        );
        assert_eq!(
            spread_of(&["172.28.0.5", "172.28.1.5", "172.28.0.255", "172.28.0.1"], None, 24).unwrap(),
            ["172.28.0.1=10.1.2.254", "172.28.0.5=10.1.2.5", "172.28.0.255=10.1.2.253", "172.28.1.5=10.1.2.252"]
        );
        assert_eq!(spread_of(&["172.28.0.1"], Some("172.28.0.1"), 24).unwrap(), ["172.28.0.1=10.1.2.1"]);
        assert_eq!(
            spread_of(&["172.28.0.77"], Some("172.28.0.254"), 27).unwrap(),
            ["172.28.0.77=10.1.2.30", "172.28.0.254=10.1.2.1"]
        );
        let many: Vec<String> = (2..40).map(|host| format!("172.28.0.{host}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(spread_of(&many, None, 27), None);
    }

    #[test]
    fn docker_hands_out_where_nothing_is_fixed() {
        let base = Subnet { base: ip("10.1.2.0"), prefix: 24 };
        let range = |fixed: &[&str]| {
            let fixed: Vec<Ipv4Addr> = fixed.iter().map(|text| ip(text)).collect();
            free_range(fixed.iter(), base).map(|range| range.to_string())
        };
        assert_eq!(range(&["10.1.2.5"]).unwrap(), "10.1.2.128/25");
        assert_eq!(range(&["10.1.2.200"]).unwrap(), "10.1.2.0/25");
        assert_eq!(range(&["10.1.2.5", "10.1.2.130"]).unwrap(), "10.1.2.192/26");
    }

    #[test]
    fn only_whole_addresses_are_rewritten() {
        let moved = Moved(
            [("172.28.0.5", "10.1.2.5"), ("172.28.0.0/16", "10.1.2.0/24"), ("172.28.0.1", "10.1.2.1")]
                .map(|(from, to)| (from.to_owned(), to.to_owned()))
                .into(),
        );
        for (from, to) in [
            ("172.28.0.5", Some("10.1.2.5")),
            ("http://172.28.0.5:80,172.28.0.5", Some("http://10.1.2.5:80,10.1.2.5")),
            ("allow 172.28.0.0/16;", Some("allow 10.1.2.0/24;")),
            ("at 172.28.0.5.", Some("at 10.1.2.5.")),
            ("1172.28.0.5", None),
            ("172.28.0.50", None),
            ("172.28.0.5.9", None),
            ("172.28.0.15", None),
        ] {
            assert_eq!(moved.text(from).as_deref(), to, "{from}");
        }
    }
}
