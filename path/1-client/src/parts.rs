//! What both reaches use: the connections, the sessions, the reads, and the counters.

use crate::contacts::Contacts;
use crate::core::Stats;
use crate::reads::Reads;
use crate::sessions::Sessions;
use crate::step::Step;

/// See the module. Each part keeps its own rules; a reach passes results from one part to another.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) contacts: Contacts,
    pub(crate) sessions: Sessions,
    pub(crate) reads: Reads,
    pub(crate) stats: Stats,
}

impl Parts {
    /// Queued bytes, as the limit counts them.
    pub(crate) const fn queued(&self) -> usize {
        self.sessions.queued() + self.reads.queued()
    }

    /// A connection is lost. Reads that waited there go to other members, strong ones to `leader` first. Returns whether the member was
    /// connected.
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

    /// A member left. Reads that wait only for it fail.
    pub(crate) fn left(&mut self, step: &mut Step<'_>, leader: Option<usize>, contact: usize) {
        if self.contacts.at(contact).conn().is_some() {
            self.contacts.hang_up(step, contact);
            self.lost(step, leader, contact, "left the cluster".to_owned());
        }
        self.contacts.leave(contact);
        self.reads.left(step, contact, self.contacts.at(contact).replica);
    }
}
