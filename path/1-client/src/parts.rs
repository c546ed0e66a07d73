//! What both reaches use: the connections, the sessions, the reads, and the counters; and letters, which no reach looks at.

use crate::contacts::Contacts;
use crate::core::Stats;
use crate::effects::{Effect, ReplicaReply};
use crate::letters::Letters;
use crate::reads::Reads;
use crate::sessions::Sessions;
use crate::step::Step;
use crate::votes::keep;
use bytes::Bytes;
use quorate_wire::Reply;

/// See the module. Each part keeps its own rules; a reach passes results from one part to another.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) contacts: Contacts,
    pub(crate) sessions: Sessions,
    pub(crate) reads: Reads,
    pub(crate) letters: Letters,
    pub(crate) stats: Stats,
}

impl Parts {
    /// Queued bytes, as the limit counts them.
    pub(crate) const fn queued(&self) -> usize {
        self.sessions.queued() + self.reads.queued()
    }

    /// Passes on what a member says of a request that this client sent.
    pub(crate) fn tell_reply(&self, step: &mut Step<'_>, from: usize, reply: &Reply<'_>, payload: &Bytes) {
        if self.sessions.was_sent(reply.session, reply.number) {
            let (replica, body) = (self.contacts.at(from).replica, keep(reply.body, payload));
            let Reply { session, number, status, .. } = *reply;
            step.out.push(Effect::Replied(ReplicaReply { replica, session, number, status, body }));
        }
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
