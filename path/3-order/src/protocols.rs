//! The table of ordering protocols, one row each. No other code knows all of them.
//!
//! A row says how a protocol is called, what it is like, how its messages are read and how an instance of it is built. Configurations,
//! command lines, simulators and tests use a row and never ask which protocol it is. A new protocol is one more row. A protocol outside
//! this table, a test's for example, is a [`Protocol::of`] its row.
//!
//! Tests: config/tests.rs; check/script/tests/all/toy/ and check/sim/tests/all/toy.rs run a protocol of a few lines that is not in the
//! table.

use crate::mod_smart::{self, ModSmart, ModSmartConfig, message::MOD_SMART, message::ModSmartMessage};
use crate::raft::{self, Raft, RaftConfig, message::RAFT, message::RaftMessage};
use crate::{Anchor, Changes, Nature, Order, OrderConfig, OrderMessage, Stored};
use bytes::Bytes;
use quorate_types::{Halt, InstanceId, Reject, Slot, Span, View};
use quorate_wire::{Memberships, read_order};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// What the program knows of a protocol.
#[derive(Debug)]
pub struct Row {
    /// The word for it in configurations and on command lines.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Its number on the wire (docs/formats/wire.md, ORDER), which no other protocol ever gets.
    pub number: u16,
    /// All that the protocol can do, whatever the settings.
    pub able: Nature,
    /// Reads a message. Batches in it share the bytes and are checked request by request. Fails when the bytes are not a message.
    pub decode: fn(Bytes) -> Result<OrderMessage, Reject>,
    /// Builds an instance without a history, with these settings.
    pub build: fn(&OrderConfig, InstanceId) -> Box<dyn Order>,
    /// How long replicas wait for a word of their leader before they want another leader, while nothing else is wrong.
    pub patience: fn(&OrderConfig) -> Span,
    /// The anchor of this slot in the log of another cluster, whose replicas begin with the members that they were made with. The given
    /// anchor may be of any protocol.
    pub anchor_anew: fn(Slot, &Anchor) -> Anchor,
    /// How an instance leaves and comes back; none where instances do not.
    pub stays: Option<Stays>,
}

/// How an instance that left the cluster comes back, so that its new messages and records are never mixed up with those of its earlier
/// stays.
#[derive(Debug)]
pub struct Stays {
    /// The number that grows with each view of a stay.
    pub rank_of: fn(View) -> u64,
    /// Which stay an anchor of this slot belongs to; the first stay is 0. Fails when the anchor is not one of this protocol.
    pub of_anchor: fn(Slot, &Anchor) -> Result<u64, Halt>,
    /// Which stay a record belongs to, as far as the record says so.
    pub of_record: fn(&Stored) -> Option<u64>,
    /// Where an instance begins that was never in the cluster before. `members` are given if they are not those that the cluster was made
    /// with.
    pub first: fn(Option<&Memberships>) -> Option<Anchor>,
    /// Where the next stay of an instance begins, given the anchor of its last slot.
    pub next: fn(Slot, &Anchor, Option<&Memberships>) -> Result<Anchor, Halt>,
}

/// Raft: crash faults.
static RAFT_ROW: Row = Row {
    name: "raft",
    title: "Raft",
    number: RAFT,
    able: Nature { pipelined: true, leases: true, membership: Changes::Joint, stays: true, ..Nature::PLAIN },
    decode: |bytes| RaftMessage::decode(bytes).map(OrderMessage::of),
    build: |config, _| Box::new(Raft::new(RaftConfig::of(config))),
    patience: |config| config.timeout_max,
    anchor_anew: raft::anchor_anew,
    stays: Some(Stays {
        rank_of: raft::rank_of,
        of_anchor: raft::stay_of,
        of_record: raft::stay_of_record,
        first: raft::first_anchor,
        next: raft::next_anchor,
    }),
};

/// Mod-SMaRt: crash or Byzantine faults.
static MOD_SMART_ROW: Row = Row {
    name: "mod-smart",
    title: "Mod-SMaRt",
    number: MOD_SMART,
    able: Nature {
        rotates: true,
        named_by_views: true,
        membership: Changes::Tenure,
        lies: true,
        fetches: true,
        few: true,
        weighs: true,
        ..Nature::PLAIN
    },
    decode: |bytes| ModSmartMessage::decode(bytes).map(OrderMessage::of),
    build: |config, instance| {
        Box::new(ModSmart::new(ModSmartConfig::of(config, instance), config.keys.build()))
    },
    patience: |config| config.timeout.times(2),
    anchor_anew: |slot, _| mod_smart::first_anchor(slot),
    stays: None,
};

/// An ordering protocol, by its row.
#[derive(Clone, Copy)]
pub struct Protocol(&'static Row);

impl Protocol {
    /// Raft.
    pub const RAFT: Self = Self(&RAFT_ROW);
    /// Mod-SMaRt.
    pub const MOD_SMART: Self = Self(&MOD_SMART_ROW);
    /// All protocols that a cluster can run.
    pub const ALL: [Self; 2] = [Self::RAFT, Self::MOD_SMART];

    /// The protocol with this row.
    pub const fn of(row: &'static Row) -> Self {
        Self(row)
    }
    /// The protocol with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.name() == name)
    }
    /// The protocol's row.
    pub const fn row(self) -> &'static Row {
        self.0
    }
    /// The word for it in configurations.
    pub const fn name(self) -> &'static str {
        self.0.name
    }
    /// All that the protocol can do.
    pub const fn able(self) -> Nature {
        self.0.able
    }

    /// Reads a message of this protocol from the payload of a frame.
    ///
    /// # Errors
    /// When the payload is not a message, or is one of another protocol.
    pub fn decode(self, payload: Bytes) -> Result<(InstanceId, OrderMessage), Reject> {
        let (instance, number, bytes) = read_order(payload)?;
        if number != self.0.number {
            return Err(Reject::Malformed("ordering message: protocol"));
        }
        Ok((instance, (self.0.decode)(bytes)?))
    }

    /// The anchor of the same slot for a new cluster that begins with this state and runs this protocol, whichever protocol ordered it
    /// before.
    pub fn anchor_anew(self, slot: Slot, anchor: &Anchor) -> Anchor {
        (self.0.anchor_anew)(slot, anchor)
    }
}

/// Reads a message of any protocol in the table; for checks. A replica reads messages of its own protocol only ([`Protocol::decode`]).
///
/// # Errors
/// When the payload is not a message.
pub fn decode(payload: Bytes) -> Result<(InstanceId, OrderMessage), Reject> {
    let (_, number, _) = read_order(payload.clone())?;
    let of_it = Protocol::ALL.into_iter().find(|protocol| protocol.0.number == number);
    of_it.ok_or(Reject::Malformed("ordering message: protocol"))?.decode(payload)
}

impl Default for Protocol {
    fn default() -> Self {
        Self::RAFT
    }
}

impl PartialEq for Protocol {
    fn eq(&self, other: &Self) -> bool {
        self.0.number == other.0.number
    }
}

impl Eq for Protocol {}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl Serialize for Protocol {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for Protocol {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        const NAMES: [&str; 2] = [RAFT_ROW.name, MOD_SMART_ROW.name];
        let name = String::deserialize(from)?;
        Self::named(&name).ok_or_else(|| serde::de::Error::unknown_variant(&name, &NAMES))
    }
}
