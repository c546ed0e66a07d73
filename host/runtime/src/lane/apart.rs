//! Replicas that are cut off from others, for clusters that are parted on purpose.
//!
//! It looks as a broken network does: nothing is read from or written to a connection between the two sides, so what was sent before does not
//! arrive either; connections stay until one side gives them up, and new ones can not be made. When the sides meet again, what waits in
//! connections that still stand goes on. Connections to clients and operators are never cut off.
//!
//! A replica is parted from nobody unless it is started with a partition ([`crate::Options::partition`]). It is looked at once for each piece
//! that is read or written, not for each frame. Tests: `apart/tests.rs`, front/cli/tests/all/chaos.rs.

use super::sockets::{Core, Sockets};
use crate::connection::Connection;
use crate::network::Network;
use quorate_types::{ReplicaId, Span, Time};
use rustix::io::Errno;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often a lane with connections that are cut off looks whether the sides meet again.
const LOOK: Span = Span::from_millis(20);

/// The replicas that a replica neither hears nor reaches. It may change while the replica runs: clones are the same value.
#[derive(Clone, Debug, Default)]
pub struct Partition(Arc<AtomicU64>);

impl Partition {
    /// Replicas with higher numbers are never cut off.
    pub const REPLICA_MAX: u16 = 64;

    /// From now on the replica is cut off from these, and from no others.
    pub fn set(&self, others: impl IntoIterator<Item = u16>) {
        let bits = others.into_iter().map(bit).fold(0, |all, bit| all | bit);
        self.0.store(bits, Ordering::Release);
    }

    /// Whom it is cut off from.
    pub fn others(&self) -> Vec<u16> {
        let bits = self.0.load(Ordering::Acquire);
        (1..=Self::REPLICA_MAX).filter(|replica| bits & bit(*replica) != 0).collect()
    }

    pub(super) fn parts_from(&self, replica: ReplicaId) -> bool {
        self.0.load(Ordering::Relaxed) & bit(replica.number()) != 0
    }

    /// The problem to report.
    pub(super) fn problem(&self) -> Option<String> {
        let others: Vec<String> = self.others().iter().map(ToString::to_string).collect();
        let plural = if others.len() == 1 { "" } else { "s" };
        (!others.is_empty()).then(|| {
            format!(
                "this replica is cut off from replica{plural} {} on purpose, until `quorate chaos heal`",
                others.join(", ")
            )
        })
    }

    /// The network without connections to replicas that are cut off.
    pub(crate) fn over(self, network: Arc<dyn Network>) -> Arc<dyn Network> {
        Arc::new(Parted { network, partition: self })
    }
}

/// The bit of a replica; 0 for one that is never cut off.
fn bit(replica: u16) -> u64 {
    match replica {
        1..=Partition::REPLICA_MAX => 1 << (replica - 1),
        _ => 0,
    }
}

struct Parted {
    network: Arc<dyn Network>,
    partition: Partition,
}

impl Network for Parted {
    fn listen(&self, address: SocketAddr) -> io::Result<TcpListener> {
        self.network.listen(address)
    }

    fn connect(&self, to: ReplicaId, address: SocketAddr) -> io::Result<TcpStream> {
        if self.partition.parts_from(to) {
            return Err(Errno::HOSTUNREACH.into());
        }
        self.network.connect(to, address)
    }

    fn accepted(&self, stream: &TcpStream) {
        self.network.accepted(stream);
    }
}

impl Sockets {
    /// Whether nothing passes over this connection now.
    pub(super) fn is_apart(&self, connection: &Connection) -> bool {
        let Some(partition) = &self.partition else { return false };
        connection.member.is_some_and(|member| partition.parts_from(member))
    }

    /// Goes on with the connections between sides that have met again.
    pub(super) fn rejoin(&mut self, now: Time, core: &mut impl Core) {
        if self.apart.is_empty() {
            return;
        }
        for conn in std::mem::take(&mut self.apart) {
            let Some(connection) = self.connections.get(&conn) else { continue };
            if self.is_apart(connection) {
                self.apart.insert(conn);
                continue;
            }
            // No event tells of what came meanwhile.
            self.wants_read(conn);
            self.write(now, conn, core);
        }
    }

    /// When to call [`Self::rejoin`], if nothing happens before.
    pub(super) fn rejoins_at(&self) -> Option<Time> {
        (!self.apart.is_empty()).then(|| self.clock.now().plus(LOOK))
    }
}

#[cfg(test)]
mod tests;
