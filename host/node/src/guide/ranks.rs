//! The ranks of clients: clients take instances in turn, in the order in which they came.
//!
//! The order follows from the table of sessions, which is the same on all replicas, so all name the same leader to a client without talking
//! about it. A client without a session has no rank yet: its number decides, and the client moves once when its first session is opened.
//! Tests: ranks/tests.rs.

use quorate_execute::{Outcome, SessionTable};
use quorate_types::{ClientId, ConnId, SessionId};
use std::collections::BTreeMap;

/// The ranks of clients, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    of: BTreeMap<ClientId, u32>,
    /// The table's count of changes when the ranks were read from it.
    seen: u64,
    /// The table's count of changes at the last look.
    changes: u64,
    /// Clients that opened their first session in this turn: their connections and ranks.
    pub(super) opened: Vec<(ConnId, u64)>,
}

impl Ranks {
    /// Reads the ranks from the table, if it has changed.
    pub(super) fn read(&mut self, table: &SessionTable) {
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

    /// Reads the ranks from the table once it has changed so much that reading costs no more than the changes.
    fn read_by_and_by(&mut self, table: &SessionTable) {
        if table.changes().abs_diff(self.seen) > table.len() as u64 / 4 + 16 {
            self.read(table);
        }
    }

    pub(super) fn of(&self, client: ClientId) -> u64 {
        self.of.get(&client).map_or(client.number(), |rank| u64::from(*rank))
    }

    /// A batch was executed. Clients that opened their first session in it have ranks from now on. `conn`: the connection for the replies
    /// of a session.
    pub(super) fn executed(
        &mut self,
        table: &SessionTable,
        outcomes: &[Outcome],
        conn: impl Fn(SessionId) -> Option<ConnId>,
    ) {
        if table.changes() == self.changes {
            return;
        }
        self.changes = table.changes();
        self.read_by_and_by(table);
        let mut opened: BTreeMap<ClientId, u32> = BTreeMap::new();
        let mut new: Vec<(ClientId, SessionId)> = Vec::new();
        for outcome in outcomes.iter().filter(|outcome| outcome.session != SessionId::NONE) {
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
        self.opened.extend(ranks.filter_map(|(rank, (_, session))| Some((conn(session)?, rank))));
    }
}

#[cfg(test)]
mod tests;
