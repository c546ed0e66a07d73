//! How a client reaches replicas, and when it believes what they say. There are two reaches of one shape:
//!
//! - *to the leader* (`leader/`): replicas crash at most. The client finds who leads and sends everything there, and one answer is the
//!   answer.
//! - *to all* (`all/`): replicas may lie. Requests go to all of them, or to the leader first; an answer is true once f+1 gave it, and a read's
//!   once a quorum did.
//!
//! The core tells a reach what happens and asks it nothing else. The reach decides, and acts on the [`Parts`].

pub(crate) mod all;
pub(crate) mod leader;

use crate::contacts::Contacts;
use crate::parts::Parts;
use crate::reads::Question;
use crate::step::Step;
use bytes::Bytes;
use quorate_types::{ReplicaId, Time, View};
use quorate_wire::{Memberships, ReadReply, Reply, Welcome};
use std::fmt::Debug;

/// Who leads, as far as was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CurrentLeader {
    pub(crate) view: View,
    /// By contact.
    pub(crate) leader: Option<usize>,
}

impl CurrentLeader {
    /// Nothing was heard.
    pub(crate) const NONE: Self = Self { view: View::ZERO, leader: None };
}

/// See the module. `contact` and `from` are indices into [`Contacts`].
pub(crate) trait Reach: Debug + Send {
    /// Who leads, as far as was heard.
    fn leader(&self) -> Option<usize>;
    /// Sends what sessions have ready.
    fn send(&mut self, step: &mut Step<'_>, parts: &mut Parts);
    /// A member answers a request. Whether that fits anything that waits or waited.
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
    /// A member answers a read that waits for it.
    fn read_reply(
        &mut self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        from: usize,
        reply: &ReadReply<'_>,
        payload: &Bytes,
    );
    /// A read waited for long.
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
    /// A member says who the members are.
    fn members(&mut self, step: &mut Step<'_>, parts: &mut Parts, memberships: &Memberships);
    /// A member is connected.
    fn connected(&mut self, step: &mut Step<'_>, parts: &mut Parts, contact: usize, welcome: &Welcome);
    /// A member is not connected any more.
    fn closed(&mut self, parts: &mut Parts, contact: usize);
    /// When to call [`Self::due`].
    fn deadline(&self) -> Option<Time>;
    /// Looks at the reach's own timers.
    fn due(&mut self, step: &mut Step<'_>, parts: &mut Parts);
    /// The timers of the session in a cell are about to be looked at.
    fn session_due(&mut self, step: &Step<'_>, parts: &mut Parts, cell: u32);
    /// Everything of the session in a cell is sent again, for want of an answer.
    fn sent_again(&mut self, step: &Step<'_>, parts: &mut Parts, cell: u32);
    /// What stands in the way of requests, for people.
    fn detail(&self, contacts: &Contacts) -> String;
}
