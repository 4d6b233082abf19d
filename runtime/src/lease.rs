//! Slots: leased in the store, checked against the machine.
//!
//! The lease comes first, so that two processes never probe for the same block;
//! then the block is probed, and given back when somebody else is in it. Docker's
//! own bind at start has the last word.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use sidestack_state::Instance;
use sidestack_topology::names::Slot;
use sidestack_topology::planner::{Draft, place};

use crate::engine::{Engine, PortHolder};
use crate::error::{Error, Kind, Result};
use crate::ports::{self, HolderKind, Protocol};
use crate::session::Session;

/// The private ranges that are tried, in order: a /16 for all slots together.
const RANGES: [(u8, u8); 12] = [
    (10, 231),
    (10, 232),
    (10, 233),
    (10, 215),
    (10, 187),
    (10, 143),
    (10, 119),
    (10, 71),
    (172, 29),
    (172, 27),
    (10, 251),
    (10, 252),
];

/// A range as the store keeps it.
fn text((a, b): &(u8, u8)) -> String {
    format!("{a}.{b}")
}

/// What of the machine decides about slots.
struct Machine {
    published: Vec<PortHolder>,
    subnets: Vec<ports::Network>,
}

/// The keys of a draft's ports, with how many each has.
pub(crate) fn port_keys(draft: &Draft) -> Vec<(String, u16)> {
    let mut keys: Vec<(String, u16)> =
        draft.publishes.iter().map(|publish| (publish.key(), publish.replicas.max(1))).collect();
    keys.dedup();
    keys
}

/// The last offset of a slot that no port of the keys has.
fn spare(keys: &[(String, u16)], offsets: &BTreeMap<String, u16>) -> Option<u16> {
    let used = |at: u16| {
        let range = |(key, width): &(String, u16)| offsets.get(key).map(|first| *first..*first + *width);
        keys.iter().filter_map(range).any(|range| range.contains(&at))
    };
    (0..Slot::PORTS).rev().find(|at| !used(*at))
}

/// Holds a slot's spare port, unless somebody else does.
fn hold(slot: Slot, spare: Option<u16>) -> Option<TcpListener> {
    let address = (Ipv4Addr::LOCALHOST, slot.first_port() + spare?);
    // Somebody who probes holds it for a moment.
    for _ in 0..3 {
        if let Ok(held) = TcpListener::bind(address) {
            return Some(held);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

impl Session {
    /// Gives an instance all that its draft needs: port and network numbers of
    /// the environment, a slot, a part of the address range.
    ///
    /// `avoid` are slots that turned out badly just now. With it comes a port of the slot that nobody uses, held: what
    /// runs nothing yet, or nothing for the moment, looks free to another store on this machine.
    pub(crate) fn lease(
        &self,
        instance: &Instance,
        draft: &Draft,
        avoid: &BTreeSet<Slot>,
    ) -> Result<(Instance, Option<TcpListener>)> {
        let keys = port_keys(draft);
        let too_many = |error: Error, what: &str| error.hint(format!("an instance has room for {what}"));
        let offsets = self
            .store
            .wide_offsets(instance.environment, "port", &keys, Slot::PORTS)
            .map_err(|error| too_many(error.into(), "100 published ports"))?;
        self.store
            .offsets(instance.environment, "network", &place::network_keys(draft), place::MAX_NETWORKS)
            .map_err(|error| too_many(error.into(), &format!("{} networks", place::MAX_NETWORKS)))?;
        let spare = spare(&keys, &offsets);
        if let Some(lease) = &instance.slot {
            return Ok((self.store.instance_by_id(instance.id)?, hold(lease.slot, spare)));
        }
        let machine = self.machine()?;
        let range = self.range(&machine)?;
        let mut exclude = avoid.clone();
        exclude.extend(self.never_free(&machine)?);
        loop {
            let lease = self.store.lease_slot(instance.id, &exclude, &range)?;
            let held = hold(lease.slot, spare);
            let own = held.as_ref().and(spare).map(|spare| (lease.slot.first_port() + spare, Protocol::Tcp));
            let mut busy = ports::probe_block(lease.slot.first_port(), Slot::PORTS);
            busy.retain(|port| Some(*port) != own);
            if busy.is_empty() && (held.is_some() || spare.is_none()) {
                self.tell_passed_over(lease.slot, &machine)?;
                return Ok((self.store.instance_by_id(instance.id)?, held));
            }
            self.store.release_slot(instance.id)?;
            exclude.insert(lease.slot);
            // A container may have come since the machine was looked at.
            let published = self.machine().map(|machine| machine.published).unwrap_or_default();
            for (port, protocol) in busy.iter().take(3) {
                let who = who_holds(*port, *protocol, &published);
                self.note(format!("port {port} is held by {who}; slot {} is passed over", lease.slot));
            }
        }
    }

    /// Says which containers of others stand in lower slots.
    fn tell_passed_over(&self, chosen: Slot, machine: &Machine) -> Result<()> {
        let ours: BTreeSet<Slot> = self.store.leases()?.into_iter().map(|(slot, _)| slot).collect();
        let mut told = BTreeSet::new();
        for (published, _, _) in &machine.published {
            let port = published.host_port;
            let Some(slot) = Slot::of_port(port).filter(|slot| *slot < chosen && !ours.contains(slot)) else {
                continue;
            };
            if told.len() < 3 && told.insert(slot) {
                let who = who_holds(port, Protocol::Tcp, &machine.published);
                self.note(format!("port {port} is held by {who}; slot {slot} is passed over"));
            }
        }
        Ok(())
    }

    /// The addresses that go with a slot, as far as the store tells.
    pub(crate) fn likely_subnet(&self, slot: Slot) -> Option<String> {
        let range = self.store.address_range().ok()?.unwrap_or_else(|| text(&RANGES[0]));
        Some(sidestack_state::subnet(&range, slot))
    }

    /// Gives the slot back and says which it was.
    pub(crate) fn unlease(&self, instance: &Instance) -> Result<Option<Slot>> {
        let slot = instance.slot.as_ref().map(|lease| lease.slot);
        self.store.release_slot(instance.id)?;
        Ok(slot)
    }

    /// Slots that nobody can have now, see [`Self::never_free`].
    pub(crate) fn unusable_slots(&self) -> Result<BTreeSet<Slot>> {
        self.never_free(&self.machine()?)
    }

    fn machine(&self) -> Result<Machine> {
        let engine = self.engine()?;
        let (published, networks) = self.wait(async {
            let (published, networks) = futures_util::join!(engine.published(), engine.networks(None));
            Ok((published?, networks?))
        })?;
        let subnets = networks.iter().flat_map(|network| &network.subnets).filter_map(|text| subnet(text)).collect();
        Ok(Machine { published, subnets })
    }

    /// Slots that a container publishes into, that are quarantined, or whose
    /// ports the kernel may hand out to anybody.
    fn never_free(&self, machine: &Machine) -> Result<BTreeSet<Slot>> {
        let published = machine.published.iter().map(|(published, _, _)| published.host_port);
        let mut slots: BTreeSet<Slot> = published.chain(self.store.quarantined()?).filter_map(Slot::of_port).collect();
        if let Some((low, high)) = ports::ephemeral_range() {
            let reaches = |slot: &Slot| slot.first_port() <= high && slot.first_port() + Slot::PORTS > low;
            slots.extend(Slot::all().filter(reaches));
        }
        if slots.len() == usize::from(Slot::COUNT) {
            return Err(Error::new(Kind::Conflict, "ports", "no slot's ports are free on this machine").hint(
                "the kernel hands out ports from 20000 on (net.ipv4.ip_local_port_range), or other programs hold them",
            ));
        }
        Ok(slots)
    }

    /// The address range of this store; found free at first use.
    fn range(&self, machine: &Machine) -> Result<String> {
        if let Some(range) = self.store.address_range()? {
            return Ok(range);
        }
        self.next_range(machine, None)
    }

    fn next_range(&self, machine: &Machine, after: Option<&str>) -> Result<String> {
        let start = after.and_then(|after| RANGES.iter().position(|range| text(range) == after)).map_or(0, |at| at + 1);
        let routes = ports::host_routes();
        let free = |(a, b): &(u8, u8)| {
            let candidate = (Ipv4Addr::new(*a, *b, 0, 0), 16);
            // The default route covers everything and means nothing here.
            let taken = |network: &ports::Network| network.1 > 0 && ports::overlaps(candidate, *network);
            !routes.iter().any(taken) && !machine.subnets.iter().any(taken)
        };
        let found = RANGES.iter().skip(start).find(|range| free(range)).map(text).ok_or_else(|| {
            Error::new(Kind::Conflict, "addresses", "no private address range is free for the instances' networks")
                .hint("remove networks nobody uses with `docker network prune`")
        })?;
        self.store.set_address_range(&found)?;
        Ok(found)
    }

    /// Another range after Docker found an overlap.
    pub(crate) fn move_range(&self) -> Result<String> {
        let machine = self.machine()?;
        let now = self.store.address_range()?;
        let range = self.next_range(&machine, now.as_deref())?;
        self.note(format!(
            "another network has the instance's addresses; they are taken from {range}.0.0/16 from now on"
        ));
        Ok(range)
    }

    /// Who holds a port, in words.
    pub(crate) fn holder(&self, port: u16) -> String {
        let published = self.machine().map(|machine| machine.published).unwrap_or_default();
        who_holds(port, Protocol::Tcp, &published)
    }
}

fn subnet(text: &str) -> Option<ports::Network> {
    let (address, prefix) = text.split_once('/')?;
    Some((address.parse().ok()?, prefix.parse().ok()?))
}

/// A container that publishes the port, else the process that listens.
fn who_holds(port: u16, protocol: Protocol, published: &[PortHolder]) -> String {
    let container = published.iter().find(|(found, _, _)| found.host_port == port);
    if let Some((_, name, project)) = container {
        return match project {
            Some(project) => format!("container `{name}` of the Compose project `{project}`"),
            None => format!("container `{name}`"),
        };
    }
    match ports::holder(port, protocol) {
        HolderKind::Process { pid, name, command } if command.is_empty() || command == name => {
            format!("process {pid} (`{name}`)")
        }
        HolderKind::Process { pid, command, .. } => {
            let shown: String = command.chars().take(120).collect();
            let more = if shown.len() < command.len() { "…" } else { "" };
            format!("process {pid} (`{shown}{more}`)")
        }
        HolderKind::Container { name, .. } => format!("container `{name}`"),
        HolderKind::Unknown => "a program that could not be named".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_held_by_the_last_port_that_its_owner_does_not_use() {
        let spare = |keys: &[(&str, u16, u16)]| {
            let offsets = keys.iter().map(|(key, first, _)| ((*key).to_owned(), *first)).collect();
            let keys: Vec<_> = keys.iter().map(|(key, _, width)| ((*key).to_owned(), *width)).collect();
            super::spare(&keys, &offsets)
        };
        assert_eq!(spare(&[("web", 0, 1)]), Some(99));
        assert_eq!(spare(&[("web", 0, 1), ("many", 90, 10)]), Some(89));
        assert_eq!(spare(&[("many", 0, 100)]), None);
    }

    #[test]
    fn a_slot_that_is_held_is_seen_to_be_busy() {
        let slot = Slot::all().last().unwrap();
        let held = hold(slot, Some(99)).unwrap();
        assert!(hold(slot, Some(99)).is_none());
        assert!(ports::probe_block(slot.first_port(), Slot::PORTS).contains(&(slot.first_port() + 99, Protocol::Tcp)));
        drop(held);
        assert!(hold(slot, Some(99)).is_some());
        assert!(hold(slot, None).is_none());
    }
}
