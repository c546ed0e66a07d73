//! Clients take instances in turn, in the order in which they came.
//!
//! That order follows from the table of sessions, which is the same everywhere, so that replicas name the same leader without a word
//! between them. Nobody knows anything of a client without a session: its number decides, and it moves once when its first session is
//! opened. Tests: ranks/tests.rs.

use quorate_execute::{Outcome, SessionTable};
use quorate_types::{ClientId, ConnId, SessionId};
use std::collections::BTreeMap;

/// The places of clients in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    of: BTreeMap<ClientId, u32>,
    /// How often the table had changed when it was read.
    seen: u64,
    /// And when it was looked at last.
    changes: u64,
    /// Clients that opened their first session in this turn, and which number they are.
    pub(super) opened: Vec<(ConnId, u64)>,
}

impl Ranks {
    /// Reads the table again, if anything changed.
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

    /// The same, once so much changed that reading it costs no more than the changes did.
    fn read_by_and_by(&mut self, table: &SessionTable) {
        if table.changes().abs_diff(self.seen) > table.len() as u64 / 4 + 16 {
            self.read(table);
        }
    }

    pub(super) fn of(&self, client: ClientId) -> u64 {
        self.of.get(&client).map_or(client.number(), |rank| u64::from(*rank))
    }

    /// A batch was executed. Whoever opened a first session with it has a rank from now on. `conn`: where its replies go.
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
