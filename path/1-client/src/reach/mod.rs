//! How a client reaches replicas, and when it believes them. There are two reaches with one interface:
//!
//! - *to the leader* (`leader/`): replicas only crash. The client finds the leader and sends everything to it, and one answer is enough.
//! - *to all* (`all/`): replicas may lie. Requests go to all members, or to the leader first. An answer counts once f+1 gave it, and the
//!   answer to a read once a quorum did.
//!
//! The core tells a reach what happens. The reach decides, and acts on the [`Parts`].

pub(crate) mod all;
pub(crate) mod leader;

use crate::contacts::Contacts;
use crate::parts::Parts;
use crate::reads::Question;
use crate::step::Step;
use bytes::Bytes;
use quorate_types::{ReplicaId, Time, View};
use quorate_wire::{Chain, Memberships, ReadReply, Reply, Welcome};
use std::fmt::Debug;

/// The leader, as far as was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CurrentLeader {
    pub(crate) view: View,
    /// By contact.
    pub(crate) leader: Option<usize>,
}

impl CurrentLeader {
    /// Nothing was heard yet.
    pub(crate) const NONE: Self = Self { view: View::ZERO, leader: None };
}

/// See the module. `contact` and `from` are indices into [`Contacts`].
pub(crate) trait Reach: Debug + Send {
    /// The leader, as far as was heard.
    fn leader(&self) -> Option<usize>;
    /// Sends the requests that sessions have ready.
    fn send(&mut self, step: &mut Step<'_>, parts: &mut Parts);
    /// A member answers a request. Returns whether the answer fits anything that waits or waited.
    fn reply(
        &mut self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        from: usize,
        reply: &Reply<'_>,
        payload: &Bytes,
    ) -> bool;
    /// A caller reads.
    fn read(&mut self, step: &mut Step<'_>, parts: &mut Parts, question: Question);
    /// A member answers a read.
    fn read_reply(
        &mut self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        from: usize,
        reply: &ReadReply<'_>,
        payload: &Bytes,
    );
    /// A read has waited for long.
    fn read_due(&mut self, step: &mut Step<'_>, parts: &mut Parts, read: u64);
    /// A member says who leads.
    fn notice(
        &mut self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        from: usize,
        view: View,
        leader: Option<ReplicaId>,
    );
    /// A member names the members.
    fn members(&mut self, step: &mut Step<'_>, parts: &mut Parts, from: usize, memberships: &Memberships);
    /// A member shows membership links. Where its word is enough, nobody asks for them.
    fn chain(&mut self, _: &mut Step<'_>, _: &mut Parts, _: usize, _: &Chain) {}
    /// A member is connected.
    fn connected(&mut self, step: &mut Step<'_>, parts: &mut Parts, contact: usize, welcome: &Welcome);
    /// A member is not connected any more.
    fn closed(&mut self, parts: &mut Parts, contact: usize);
    /// When to call [`Self::due`].
    fn deadline(&self) -> Option<Time>;
    /// Looks at the reach's own timers.
    fn due(&mut self, step: &mut Step<'_>, parts: &mut Parts);
    /// The timers of the session in a cell are about to be checked.
    fn session_due(&mut self, step: &Step<'_>, parts: &mut Parts, cell: u32);
    /// Everything of the session in a cell is sent again, because no answer came.
    fn sent_again(&mut self, step: &Step<'_>, parts: &mut Parts, cell: u32);
    /// Why requests are not answered, for people.
    fn detail(&self, contacts: &Contacts) -> String;
}
