//! What both reaches use: the connections, the sessions, the reads, and what is counted.

use crate::contacts::Contacts;
use crate::core::Stats;
use crate::reads::Reads;
use crate::sessions::Sessions;
use crate::step::Step;

/// See the module. Each part keeps its own rules; a reach hands on what one of them says to another.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) contacts: Contacts,
    pub(crate) sessions: Sessions,
    pub(crate) reads: Reads,
    pub(crate) stats: Stats,
}

impl Parts {
    /// Bytes that count in the bound on what waits.
    pub(crate) const fn queued(&self) -> usize {
        self.sessions.queued() + self.reads.queued()
    }

    /// A connection is gone: reads that waited there go elsewhere, strong ones to `leader` first. Whether the member was connected.
    pub(crate) fn lost(
        &mut self,
        step: &mut Step<'_>,
        leader: Option<usize>,
        contact: usize,
        why: String,
    ) -> bool {
        let was_up = self.contacts.lost(step, contact, why);
        if was_up {
            self.reads.lost(step, &self.contacts, leader, contact);
        }
        was_up
    }
}
