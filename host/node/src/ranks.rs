//! Whom a client is sent to, where several instances have leaders: clients take instances in turn, in the order in which they came.
//!
//! That order follows from the table of sessions, which is the same everywhere, so that replicas name the same leader without a word
//! between them. Nobody knows anything of a client without a session: its number decides, and it moves once when its first session is
//! opened. Tests: `ranks/tests.rs`.

use crate::effects::Effects;
use crate::merging::BORDER_VIEWS;
use crate::node::Node;
use quorate_execute::SessionTable;
use quorate_types::{ClientId, ConnId, SessionId, View};
use quorate_wire::LeaderNotice;
use std::collections::BTreeMap;

/// The places of clients in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Ranks {
    of: BTreeMap<ClientId, u32>,
    /// How often the table had changed when it was read.
    seen: u64,
    /// And when it was looked at last.
    changes: u64,
    /// Clients that opened their first session in this turn, and which number they are.
    opened: Vec<(ConnId, u64)>,
}

impl Ranks {
    /// Reads the table again, if anything changed.
    fn read(&mut self, table: &SessionTable) {
        if self.seen == table.changes() {
            return;
        }
        self.seen = table.changes();
        self.of.clear();
        for client in table.clients() {
            let next = self.of.len() as u32;
            self.of.entry(client).or_insert(next);
        }
    }

    /// The same, once so much changed that reading it costs no more than the changes did.
    fn read_by_and_by(&mut self, table: &SessionTable) {
        if table.changes().abs_diff(self.seen) > table.len() as u64 / 4 + 16 {
            self.read(table);
        }
    }

    fn of(&self, client: ClientId) -> u64 {
        self.of.get(&client).map_or(client.number(), |rank| u64::from(*rank))
    }
}

impl Node {
    /// Where a client finds somebody who leads. Each is sent to the leader of one instance, all together to all of them. What orders
    /// such words is the sum of all views: views only grow, so whoever says a larger one knows more. Behind a border of the number of
    /// instances it begins anew, higher.
    pub(crate) fn leader_notice(&self, conn: ConnId) -> LeaderNotice {
        self.notice_for(self.peers.client(conn))
    }

    /// The same, for whoever has not been let in yet.
    pub(crate) fn notice_for(&self, client: Option<ClientId>) -> LeaderNotice {
        self.notice_to(client.map_or(0, |client| self.ranks.of(client)))
    }

    /// The rank of a connection's client, as far as it is known.
    pub(crate) fn rank_of(&self, conn: ConnId) -> u64 {
        self.peers.client(conn).map_or(0, |client| self.ranks.of(client))
    }

    fn notice_to(&self, rank: u64) -> LeaderNotice {
        let generation = self.engine.merge().generation();
        let present = self.groups.iter().take(usize::from(generation.instances));
        let views: u64 = present.map(|instance| self.config.order.rank_of(instance.view())).sum();
        let borders = generation.first.previous().number().saturating_mul(BORDER_VIEWS);
        // Whoever leads anything serves whoever comes; but all are told the same, so that they spread.
        let (count, from) = (self.lasting(), self.instance_in_turn(rank));
        let leader = (0..count).find_map(|step| self.groups[(from + step) % count].leader());
        // Where clients believe this of f+1 they send there first, which is of use only if everything goes through one instance.
        let leader = leader.filter(|_| count == 1 || !self.may_lie());
        LeaderNotice { view: View::new(views.saturating_add(borders)), leader }
    }

    /// The instance whose turn it is with the client of this rank.
    pub(crate) fn instance_in_turn(&self, rank: u64) -> usize {
        (rank % self.lasting() as u64) as usize
    }

    /// Clients hear who leads, since one instance has another leader, or since it is about all of them. Those whose requests go through
    /// another one, whose turn it is, hear nothing: for them nothing changed, and they would send everything again.
    pub(crate) fn tell_clients(&mut self, of: Option<usize>, out: &mut Effects) {
        self.ranks.read(self.engine.executor().sessions());
        let here = Some(self.config.members.me());
        let clients: Vec<ConnId> = self.peers.clients().collect();
        for conn in clients {
            let rank = self.rank_of(conn);
            let (notice, turn) = (self.notice_to(rank), self.instance_in_turn(rank));
            if notice.leader != here {
                self.bindings.forget(conn);
            } else if self.rebind(conn, turn, out) {
                // It sends everything again, since what is under way goes another way.
            } else if of.is_some_and(|of| self.bindings.goes_on(conn, of)) {
                continue;
            }
            out.send(conn, notice.frame());
        }
    }

    /// A batch was executed. Whoever opened a first session with it has a rank from now on.
    pub(crate) fn rank_new_clients(&mut self) {
        let table = self.engine.executor().sessions();
        if self.groups.len() == 1 || table.changes() == self.ranks.changes {
            return;
        }
        self.ranks.changes = table.changes();
        self.ranks.read_by_and_by(table);
        let mut opened: BTreeMap<ClientId, u32> = BTreeMap::new();
        let mut new: Vec<(ClientId, SessionId)> = Vec::new();
        for outcome in self.engine.outcomes().iter().filter(|outcome| outcome.session != SessionId::NONE) {
            let Some(client) = outcome.opening else { continue };
            let count = opened.entry(client).or_default();
            *count += 1;
            if *count == 1 {
                new.push((client, outcome.session));
            }
        }
        new.retain(|(client, _)| table.of_client(*client) == opened[client]);
        let before = table.client_count().saturating_sub(new.len());
        let ranks = (before as u64..).zip(new);
        let here = ranks.filter_map(|(rank, (_, session))| Some((self.engine.conn(session)?, rank)));
        self.ranks.opened.extend(here);
    }

    /// Behind their replies, clients that are new move to whoever's turn it is. Who may stay may have come to another instance: before
    /// its first session nobody knew whose turn it is.
    pub(crate) fn move_new_clients(&mut self, out: &mut Effects) {
        for (conn, rank) in std::mem::take(&mut self.ranks.opened) {
            let notice = self.notice_to(rank);
            match notice.leader {
                Some(leader) if leader != self.config.members.me() => {
                    self.bindings.forget(conn);
                    out.send(conn, notice.frame());
                }
                _ => {
                    self.rebind(conn, self.instance_in_turn(rank), out);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
