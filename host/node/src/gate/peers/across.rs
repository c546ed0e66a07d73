//! Connections to members that are in another era. Each side dials the other as ever, but such a member is not up: nothing of the protocol
//! passes, only which era it is in, and parts of checkpoints. Once one of the two enters the other's era it starts anew, and so do the
//! connections.

use super::{Change, Conn, Peers};
use crate::config::{HELLO_BYTES_MAX, NodeConfig};
use crate::effects::{Effect, Effects};
use crate::gate::links::{Outgoing, REDIAL_FIRST};
use quorate_types::{ConnId, ReplicaId};
use quorate_wire::{LeaderNotice, Welcome};

/// The answer to a hello that is accepted. It says which era this replica is in.
pub(super) fn welcome(config: &NodeConfig, format: u16, notice: &LeaderNotice) -> Welcome {
    Welcome {
        format,
        feature_level: config.level.highest,
        cluster: config.members.cluster(),
        replica: config.members.me(),
        incarnation: config.incarnation,
        view: notice.view,
        leader: notice.leader,
        era: config.era.number,
        service: config.service.says(),
    }
}

impl Peers {
    /// The connection to a member of another era.
    pub(crate) fn across(&self, replica: ReplicaId) -> Option<ConnId> {
        match self.peers.get(&replica)?.lines.first().outgoing {
            Outgoing::Across(conn) => Some(conn),
            _ => None,
        }
    }

    /// The member that we dialed is in another era. Only the first connection is of use then. [E12]
    pub(super) fn on_welcome_across(
        &mut self,
        conn: ConnId,
        (replica, link): (ReplicaId, u16),
        era: u64,
        out: &mut Effects,
    ) -> Result<(), String> {
        let Some(peer) = self.peers.get_mut(&replica).filter(|_| link == 0) else {
            return Err(format!("{replica} is in era {era}"));
        };
        peer.problem = Some(format!("{replica} is in era {era}: the later of the two comes to both"));
        let line = peer.lines.first_mut();
        (line.outgoing, line.backoff) = (Outgoing::Across(conn), REDIAL_FIRST);
        self.insert(conn, Conn::ToAcross(replica));
        out.push(Effect::FrameLimit { conn, bytes: HELLO_BYTES_MAX });
        self.changes.push(Change::Across(replica));
        Ok(())
    }

    /// A member of another era connected: what it had connected before ends.
    pub(super) fn on_incoming_across(&mut self, replica: ReplicaId, out: &mut Effects) {
        let before: Vec<ConnId> = self
            .conns
            .iter()
            .filter(|(_, conn)| **conn == Conn::Across(replica))
            .map(|(id, _)| *id)
            .collect();
        for conn in before {
            self.remove(conn);
            out.push(Effect::Close(conn));
        }
    }
}
