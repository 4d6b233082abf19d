//! Slots, leased host-wide, and the offsets within them, kept per environment.
//!
//! Reading never leases. A lease is kept until it is released or its instance
//! is removed; an offset is kept for as long as the environment exists, so that
//! a service's port ends in the same two digits in every slot and revision.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use sidestack_topology::names::{Slot, Target};

use crate::error::{Parent, Result, StoreError};
use crate::instances;
use crate::store::Store;
use crate::value::{Time, now, parsed};

/// An instance's hold on a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The slot.
    pub slot: Slot,
    /// Its addresses, such as `10.231.4.0/23`.
    pub subnet: String,
}

impl Store {
    /// The instance's lease; a new one is of the lowest slot that is free and not excluded.
    ///
    /// `range` is the first half of the private /16 that the subnet is cut out
    /// of, such as `10.231`; slot *s* gets the addresses from `10.231.2s.0`. A
    /// lease that is there is kept as it is, whatever is excluded.
    ///
    /// # Errors
    /// [`StoreError::SlotsExhausted`].
    pub fn lease_slot(&self, instance_id: i64, exclude: &BTreeSet<Slot>, range: &str) -> Result<Lease> {
        check_range(range)?;
        if let Some(lease) = self.read(|connection| lease_of(connection, instance_id))? {
            return Ok(lease);
        }
        self.write(|connection| {
            if let Some(lease) = lease_of(connection, instance_id)? {
                return Ok(lease);
            }
            let mut taken = connection.prepare("SELECT slot FROM lease")?;
            let taken: BTreeSet<u8> = taken.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            let free = Slot::all().find(|slot| !taken.contains(&slot.number()) && !exclude.contains(slot));
            let slot = free.ok_or(StoreError::SlotsExhausted { leased: taken.len(), excluded: exclude.len() })?;
            let lease = Lease { slot, subnet: subnet(range, slot) };
            connection
                .execute(
                    "INSERT INTO lease (slot, instance, subnet, leased) VALUES (?1, ?2, ?3, ?4)",
                    params![slot.number(), instance_id, lease.subnet, now()],
                )
                .parent("instance", instance_id)?;
            Ok(lease)
        })
    }

    /// Gives a leased slot its part of another address range; ports stay. `false` when it has no slot.
    pub fn move_subnet(&self, instance_id: i64, range: &str) -> Result<bool> {
        self.write(|connection| {
            let slot: Option<u8> = connection
                .query_row("SELECT slot FROM lease WHERE instance = ?1", [instance_id], |row| row.get(0))
                .optional()?;
            let Some(slot) = slot else { return Ok(false) };
            let subnet = subnet(range, slot_of(slot)?);
            connection.execute("UPDATE lease SET subnet = ?2 WHERE instance = ?1", params![instance_id, subnet])?;
            Ok(true)
        })
    }

    /// Lets go of the instance's slot. `false` when it had none.
    pub fn release_slot(&self, instance_id: i64) -> Result<bool> {
        self.write(|connection| Ok(connection.execute("DELETE FROM lease WHERE instance = ?1", [instance_id])? > 0))
    }

    /// Every lease, lowest slot first.
    pub fn leases(&self) -> Result<Vec<(Slot, Target)>> {
        self.read(|connection| {
            let mut list = connection.prepare(
                "SELECT slot, workspace.name, environment.name, instance.name
                 FROM lease JOIN instance ON instance.id = lease.instance
                 JOIN environment ON environment.id = instance.environment
                 JOIN workspace ON workspace.id = environment.workspace ORDER BY slot",
            )?;
            let rows = list.query_map([], |row| {
                let target =
                    Target { workspace: parsed(row, 1)?, environment: parsed(row, 2)?, instance: parsed(row, 3)? };
                Ok((slot_of(row.get(0)?)?, target))
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Keeps a host port out of use until then: something that is not ours held it.
    pub fn quarantine_port(&self, port: u16, until: Timestamp) -> Result<()> {
        self.write(|connection| {
            connection.execute("DELETE FROM quarantine WHERE until <= ?1", [now()])?;
            connection.execute(
                "INSERT INTO quarantine (port, until) VALUES (?1, ?2)
                 ON CONFLICT (port) DO UPDATE SET until = max(until, excluded.until)",
                params![port, Time(until)],
            )?;
            Ok(())
        })
    }

    /// The host ports that are in quarantine now.
    pub fn quarantined(&self) -> Result<BTreeSet<u16>> {
        self.read(|connection| {
            let mut list = connection.prepare("SELECT port FROM quarantine WHERE until > ?1")?;
            Ok(list.query_map([now()], |row| row.get(0))?.collect::<Result<_, _>>()?)
        })
    }

    /// The private /16 that subnets are cut out of, such as `10.231`, once one was found.
    pub fn address_range(&self) -> Result<Option<String>> {
        self.read(range)
    }

    /// Records the private /16. Leases keep the subnets they have.
    pub fn set_address_range(&self, range: &str) -> Result<()> {
        check_range(range)?;
        if self.address_range()?.as_deref() == Some(range) {
            return Ok(());
        }
        self.write(|connection| {
            connection.execute(
                "INSERT INTO meta (key, value) VALUES ('address-range', ?1)
                 ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                [range],
            )?;
            Ok(())
        })
    }

    /// The offsets of `keys` in an environment; a new key gets the lowest free one, in the given order.
    ///
    /// `kind` is `port` or `network`; what tells two of a kind apart (container
    /// port, ordinal, replica) is the key's own text. Offsets are below `limit`.
    /// Either every key has an offset afterwards, or nothing was handed out.
    ///
    /// # Errors
    /// [`StoreError::OffsetsExhausted`] names the first key that got none.
    pub fn offsets(
        &self,
        environment_id: i64,
        kind: &str,
        keys: &[String],
        limit: u16,
    ) -> Result<BTreeMap<String, u16>> {
        let keys: Vec<(String, u16)> = keys.iter().map(|key| (key.clone(), 1)).collect();
        self.wide_offsets(environment_id, kind, &keys, limit)
    }

    /// As [`Store::offsets`], for keys that have several numbers each: those from the one that is given on.
    ///
    /// # Errors
    /// [`StoreError::OffsetsExhausted`] names the first key for which no place was wide enough.
    pub fn wide_offsets(
        &self,
        environment_id: i64,
        kind: &str,
        keys: &[(String, u16)],
        limit: u16,
    ) -> Result<BTreeMap<String, u16>> {
        let known = self.known_offsets(environment_id, kind)?;
        if keys.iter().all(|(key, _)| known.contains_key(key)) {
            return Ok(chosen(&known, keys));
        }
        self.write(|connection| {
            let mut known = offsets_of(connection, environment_id, kind)?;
            let mut taken = taken(connection, environment_id, kind)?;
            for (key, width) in keys {
                if known.contains_key(key) {
                    continue;
                }
                let fits = |first: &u16| (*first..first + width).all(|number| !taken.contains(&number));
                let free = (0..(limit + 1).saturating_sub(*width))
                    .find(fits)
                    .ok_or_else(|| StoreError::OffsetsExhausted { kind: kind.to_owned(), key: key.clone(), limit })?;
                connection
                    .execute(
                        "INSERT INTO offset_of (environment, kind, key, number, width) VALUES (?1, ?2, ?3, ?4, ?5)",
                        params![environment_id, kind, key, free, width],
                    )
                    .parent("environment", environment_id)?;
                taken.extend(free..free + width);
                known.insert(key.clone(), free);
            }
            Ok(chosen(&known, keys))
        })
    }

    /// Every offset that was handed out in an environment, by key.
    pub fn known_offsets(&self, environment_id: i64, kind: &str) -> Result<BTreeMap<String, u16>> {
        self.read(|connection| offsets_of(connection, environment_id, kind))
    }
}

pub(crate) fn slot_of(number: u8) -> rusqlite::Result<Slot> {
    Slot::new(number).ok_or(rusqlite::Error::IntegralValueOutOfRange(0, number.into()))
}

/// A slot's part of a range. Two slots never share an address: each owns two neighbouring /24.
pub fn subnet(range: &str, slot: Slot) -> String {
    format!("{range}.{}.0/23", 2 * u16::from(slot.number()))
}

fn check_range(range: &str) -> Result<()> {
    let whole = range.split_once('.').is_some_and(|(first, second)| {
        let octet = |text: &str| text.parse::<u8>().is_ok_and(|number| number.to_string() == text);
        octet(first) && octet(second)
    });
    if whole {
        return Ok(());
    }
    let reason = "is no first half of an IPv4 address, such as `10.231`";
    Err(StoreError::Invalid { kind: "address range", value: range.chars().take(60).collect(), reason })
}

fn range(connection: &Connection) -> Result<Option<String>> {
    let sql = "SELECT value FROM meta WHERE key = 'address-range'";
    Ok(connection.query_row(sql, [], |row| row.get(0)).optional()?)
}

fn lease_of(connection: &Connection, instance: i64) -> Result<Option<Lease>> {
    Ok(instances::by_id(connection, instance)?.slot)
}

fn offsets_of(connection: &Connection, environment: i64, kind: &str) -> Result<BTreeMap<String, u16>> {
    let mut list = connection.prepare("SELECT key, number FROM offset_of WHERE environment = ?1 AND kind = ?2")?;
    let rows = list.query_map(params![environment, kind], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Every number that some key has.
fn taken(connection: &Connection, environment: i64, kind: &str) -> Result<BTreeSet<u16>> {
    let mut list = connection.prepare("SELECT number, width FROM offset_of WHERE environment = ?1 AND kind = ?2")?;
    let rows = list.query_map(params![environment, kind], |row| Ok((row.get::<_, u16>(0)?, row.get::<_, u16>(1)?)))?;
    let mut taken = BTreeSet::new();
    for row in rows {
        let (first, width) = row?;
        taken.extend(first..first.saturating_add(width));
    }
    Ok(taken)
}

fn chosen(known: &BTreeMap<String, u16>, keys: &[(String, u16)]) -> BTreeMap<String, u16> {
    keys.iter().filter_map(|(key, _)| Some((key.clone(), *known.get(key)?))).collect()
}
