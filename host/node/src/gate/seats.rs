//! How many connections there may be, and whose. A crowd of clients must not keep out replicas, operators or other clients.
//!
//! Replicas always have a seat: there is one for each member. Operators have seats of their own. Seats of clients are counted for each
//! client, by the name in its certificate, or by its address where connections are plain. No client has more than its part.
//!
//! A peer that has not introduced itself is a stranger, and has a seat for strangers for a short time. When these are used up, the oldest
//! stranger from the address with the most strangers must leave: a peer that only holds connections open makes room for one that goes on.
//! Of newcomers from that very address, only one in [`CROWD_PASSES`] gets a seat in this way, so that those who go on have time for it. The
//! others are refused at once, which costs least.
//! Tests: seats/tests.rs.

use super::peers::Conn;
use quorate_types::{ConnId, Holder, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// How many connections of each kind there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeatLimits {
    /// The most clients at once.
    pub clients_max: usize,
    /// The most connections of one client at once.
    pub per_client_max: usize,
    /// The most strangers at once.
    pub strangers_max: usize,
}

impl Default for SeatLimits {
    fn default() -> Self {
        Self { clients_max: 10_000, per_client_max: 5000, strangers_max: 1000 }
    }
}

/// The class of a connection, by which the host decides what to read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnClass {
    /// A peer that has not introduced itself.
    Stranger,
    /// It belongs to a member.
    Member,
    /// A client or an operator. All connections of one client have the same number; each of an operator has its own.
    Client(u64),
}

/// One in this many of a crowd gets a seat.
const CROWD_PASSES: u64 = 16;
/// The most operators at once. They look and leave.
pub(crate) const OPERATORS_MAX: usize = 64;

/// The owner of a connection, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// The holder of this certificate.
    Holder(Holder),
    /// A peer at this address.
    Address(IpAddr),
    /// Unknown.
    Unknown,
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Holder(holder) => write!(f, "{holder}"),
            Self::Address(address) => write!(f, "{address}"),
            Self::Unknown => f.write_str("somebody"),
        }
    }
}

/// Addresses that one machine can easily have count as one.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            [a, b, c, d, 0, 0, 0, 0].into()
        }
    }
}

/// The seat of a connection.
#[derive(Clone, Debug)]
enum Seat {
    Shaking { until: Time, from: Option<IpAddr> },
    Client(Owner, u64),
    Operator(u64),
}

/// The seats of one owner, and its number.
#[derive(Clone, Debug)]
struct Taken {
    connections: usize,
    number: u64,
}

/// All seats.
#[derive(Clone, Debug)]
pub(crate) struct Seats {
    limits: SeatLimits,
    seats: BTreeMap<ConnId, Seat>,
    /// Connections whose handshake is not over, in the order in which their time ends.
    shaking: BTreeSet<(Time, ConnId)>,
    /// Strangers, by the network that they came from.
    strangers: BTreeMap<Option<IpAddr>, BTreeSet<ConnId>>,
    strangers_count: usize,
    clients: BTreeMap<Owner, Taken>,
    clients_count: usize,
    operators: usize,
    /// The last number that was given to an owner.
    numbers: u64,
    /// Strangers that came from the most crowded network while there was no seat.
    crowded: u64,
}

impl Seats {
    pub(crate) fn new(limits: SeatLimits) -> Self {
        Self {
            limits,
            seats: BTreeMap::new(),
            shaking: BTreeSet::new(),
            strangers: BTreeMap::new(),
            strangers_count: 0,
            clients: BTreeMap::new(),
            clients_count: 0,
            operators: 0,
            numbers: 0,
            crowded: 0,
        }
    }

    /// Whether to accept a connection from this address at all.
    #[must_use]
    pub(crate) fn lets_in(&mut self, from: Option<IpAddr>) -> bool {
        if self.strangers_count < self.limits.strangers_max {
            return true;
        }
        let own = self.strangers.get(&from.map(network)).map_or(0, BTreeSet::len);
        if self.strangers.values().any(|conns| conns.len() > own) {
            return true;
        }
        self.crowded += 1;
        self.crowded.is_multiple_of(CROWD_PASSES)
    }

    /// Gives an accepted connection a seat. Gives the connection that must be closed for it.
    #[must_use]
    pub(crate) fn came(&mut self, conn: ConnId, from: Option<IpAddr>, until: Time) -> Option<ConnId> {
        let leaves = (self.strangers_count >= self.limits.strangers_max).then(|| self.crowd()).flatten();
        let from = from.map(network);
        self.leave(conn);
        self.shaking.insert((until, conn));
        self.strangers.entry(from).or_default().insert(conn);
        self.strangers_count += 1;
        self.seats.insert(conn, Seat::Shaking { until, from });
        leaves
    }

    /// The oldest stranger from the network with the most strangers.
    fn crowd(&self) -> Option<ConnId> {
        let most = self.strangers.values().max_by_key(|conns| conns.len())?;
        most.first().copied()
    }

    /// Takes the seat for this kind of connection.
    pub(crate) fn take(&mut self, conn: ConnId, kind: Conn, owner: impl FnOnce() -> Owner) {
        self.leave(conn);
        let seat = match kind {
            Conn::Stranger { .. } | Conn::To(..) | Conn::From(..) => return,
            Conn::Across(_) | Conn::ToAcross(_) => return,
            Conn::Dialed { until, .. } => {
                self.shaking.insert((until, conn));
                Seat::Shaking { until, from: None }
            }
            Conn::Better(_) | Conn::Admin => {
                self.operators += 1;
                self.numbers += 1;
                Seat::Operator(self.numbers)
            }
            Conn::Client(_) => {
                let owner = owner();
                let group = self.clients.entry(owner.clone()).or_insert_with(|| {
                    self.numbers += 1;
                    Taken { connections: 0, number: self.numbers }
                });
                group.connections += 1;
                self.clients_count += 1;
                Seat::Client(owner, group.number)
            }
        };
        self.seats.insert(conn, seat);
    }

    /// The connection is gone or changes its kind.
    pub(crate) fn leave(&mut self, conn: ConnId) {
        match self.seats.remove(&conn) {
            Some(Seat::Shaking { until, from }) => {
                self.shaking.remove(&(until, conn));
                let Some(conns) = self.strangers.get_mut(&from) else { return };
                self.strangers_count -= usize::from(conns.remove(&conn));
                if conns.is_empty() {
                    self.strangers.remove(&from);
                }
            }
            Some(Seat::Client(owner, _)) => {
                self.clients_count -= 1;
                if let Some(group) = self.clients.get_mut(&owner) {
                    group.connections -= 1;
                    if group.connections == 0 {
                        self.clients.remove(&owner);
                    }
                }
            }
            Some(Seat::Operator(_)) => self.operators -= 1,
            None => {}
        }
    }

    /// Whether there is a seat for one more client of this owner.
    ///
    /// # Errors
    /// The reason, and what to do.
    pub(crate) fn room_for_client(&self, owner: &Owner) -> Result<(), String> {
        let SeatLimits { clients_max, per_client_max, .. } = self.limits;
        let own = self.clients.get(owner).map_or(0, |group| group.connections);
        if self.clients_count >= clients_max {
            return Err(format!(
                "{clients_max} clients are connected, which is the limit: close some, or raise limits.connections"
            ));
        }
        if own >= per_client_max {
            return Err(format!(
                "{owner} has {own} connections, which is the limit for one client: close some, use one connection for many callers, \
                 or raise limits.connections_per_client"
            ));
        }
        Ok(())
    }

    /// Whether there is a seat for one more operator.
    ///
    /// # Errors
    /// The reason, and what to do.
    pub(crate) fn room_for_operator(&self) -> Result<(), String> {
        if self.operators >= OPERATORS_MAX {
            return Err(format!("{OPERATORS_MAX} operators are connected, which is the limit: close some"));
        }
        Ok(())
    }

    /// The strangers whose time is over.
    pub(crate) fn late(&self, now: Time) -> Vec<ConnId> {
        self.shaking.iter().take_while(|(until, _)| *until <= now).map(|(_, conn)| *conn).collect()
    }

    /// When the next stranger's time is over.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.shaking.first().map(|(until, _)| *until)
    }

    pub(crate) fn limits(&self) -> SeatLimits {
        self.limits
    }

    pub(crate) fn clients(&self) -> usize {
        self.clients_count
    }

    pub(crate) fn operators(&self) -> usize {
        self.operators
    }

    pub(crate) fn strangers(&self) -> usize {
        self.strangers_count
    }

    /// The client with the most connections.
    pub(crate) fn largest(&self) -> Option<(&Owner, usize)> {
        let largest = self.clients.iter().max_by_key(|(_, group)| group.connections);
        largest.map(|(owner, group)| (owner, group.connections))
    }

    /// The number of the owner of this connection; 0 if it is no client and no operator.
    pub(crate) fn number(&self, conn: ConnId) -> u64 {
        match self.seats.get(&conn) {
            Some(Seat::Client(_, number) | Seat::Operator(number)) => *number,
            Some(Seat::Shaking { .. }) | None => 0,
        }
    }
}

#[cfg(test)]
mod tests;
