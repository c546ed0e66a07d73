//! The reach to all, where replicas may lie: requests go to every member, and an answer counts once f+1 gave it.
//!
//! Start with `answers.rs` (when an answer counts, with `votes.rs`) and `spread.rs` (sending to all). `first.rs` decides when the leader
//! comes first, `tagging.rs` makes tags, `repliers.rs` decides which members answer whole, by digest or not at all, `unordered.rs` reads
//! what a quorum answers alike, and `notices.rs` counts what members say of themselves. `told.rs` decides when a later membership is
//! believed, and `members.rs` follows it. `chain.rs` follows proofs instead, from a membership that is known.
//!
//!
//! INV-CLIENT-9: an answer takes effect only if f+1 or more different members gave it.
//! Tests: tests.rs, tests/byzantine.rs, tests/liars.rs, tests/members.rs.

mod answers;
mod chain;
mod first;
mod members;
mod notices;
mod repliers;
mod spread;
mod tagging;
mod told;
mod unordered;

pub(crate) use members::meet;

use super::{CurrentLeader, Reach};
use crate::config::Config;
use crate::contacts::Contacts;
use crate::effects::ReadConsistency;
use crate::parts::Parts;
use crate::reads::Question;
use crate::sessions::Rules;
use crate::step::Step;
use bytes::Bytes;
use chain::Following;
use first::First;
use notices::{Notice, Notices};
use quorate_types::{ReplicaId, Time, Trust, View, planted};
use quorate_wire::{Chain, Era, Memberships, REQUEST_HEADER, ReadReply, Reply, Welcome};
use repliers::Repliers;
use spread::Spread;
use told::Told;
use unordered::Unordered;

/// See the module.
#[derive(Debug)]
pub(crate) struct ToAll {
    /// This many equal answers are needed.
    needed: u32,
    /// The leader, as f+1 members say.
    current: CurrentLeader,
    notices: Notices,
    spread: Spread,
    first: First,
    repliers: Repliers,
    unordered: Unordered,
    told: Told,
    /// Follows the chain of memberships, if the client began with one.
    following: Option<Following>,
}

/// This many equal answers are needed.
fn needed(trust: Trust) -> u32 {
    if planted("reply-of-one") { 1 } else { trust.truth() }
}

/// This many members must tell of the same membership.
fn enough_to_follow(trust: Trust) -> u32 {
    if planted("client-members-of-one") { 1 } else { trust.truth() }
}

/// Whether requests go to the leader first when nothing speaks against it.
fn leader_comes_first(config: &Config, spread: &Spread) -> bool {
    config.leader_first.is_some() && spread.has_tags()
}

impl ToAll {
    /// For these members, in the order of their ids, and so many contacts: those of former members are counted.
    pub(crate) fn new(config: &Config, members: &[ReplicaId], contacts: usize) -> Self {
        let (count, trust) = (contacts, config.faults.among(members.len() as u32));
        let needed = needed(trust);
        let spread = Spread::new(config, members, contacts);
        Self {
            needed,
            current: CurrentLeader::NONE,
            notices: Notices::new(count, needed),
            first: First::new(leader_comes_first(config, &spread)),
            spread,
            repliers: Repliers::new(count, needed),
            unordered: Unordered::new(trust),
            told: Told::new(count, enough_to_follow(trust)),
            following: config
                .cluster
                .zip(config.membership.clone())
                .map(|(id, known)| Following::new(Era::signed_as(id, config.era), known)),
        }
    }

    /// The rules for all requests.
    pub(crate) fn rules(&self) -> Rules {
        let around = REQUEST_HEADER + self.spread.proof().byte_len();
        Rules { needed: self.needed, around, takes_back: 0 }
    }
}

impl Reach for ToAll {
    fn leader(&self) -> Option<usize> {
        self.current.leader
    }

    fn send(&mut self, step: &mut Step<'_>, parts: &mut Parts) {
        let more = self.repliers.appoint(step, &mut parts.contacts);
        for contact in (0..parts.contacts.len()).filter(|contact| more & (1 << contact) != 0) {
            self.spread.joined(&mut parts.sessions, contact);
        }
        let first = self.current.leader.filter(|_| self.first.is_on(step.now));
        let first = first.filter(|contact| parts.contacts.up(*contact).is_some());
        self.spread.send(step, parts, first);
    }

    fn reply(
        &mut self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        from: usize,
        reply: &Reply<'_>,
        payload: &Bytes,
    ) -> bool {
        self.vote(step, parts, from, reply, payload)
    }

    fn read(&mut self, step: &mut Step<'_>, parts: &mut Parts, question: Question) {
        if question.pinned.is_some() && question.consistency == ReadConsistency::Weak {
            return parts.reads.ask(step, &parts.contacts, self.current.leader, question);
        }
        self.unordered.read(step, parts, question);
    }

    fn read_reply(
        &mut self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        from: usize,
        reply: &ReadReply<'_>,
        payload: &Bytes,
    ) {
        if parts.reads.asks_many(reply.read) {
            return self.unordered.reply(step, parts, from, reply, payload);
        }
        // One replica's word counts only for the read that asked that replica.
        parts.reads.reply(step, from, reply, payload, false);
    }

    fn read_due(&mut self, step: &mut Step<'_>, parts: &mut Parts, read: u64) {
        if parts.reads.asks_many(read) {
            return self.unordered.ask_in_order(step, parts, read);
        }
        parts.reads.hedge(step, &parts.contacts, self.current.leader, read);
    }

    /// The leader that f+1 members name is shown to the caller, and may get requests first.
    fn notice(
        &mut self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        from: usize,
        view: View,
        leader: Option<ReplicaId>,
    ) {
        let Some(notice) = self.notices.leads(from, Notice { view, leader }) else { return };
        let leader = notice.leader.and_then(|id| parts.contacts.of(id));
        let before = std::mem::replace(&mut self.current, CurrentLeader { view: notice.view, leader });
        if before != self.current {
            self.spread.tell_all_everything(parts, before.leader);
            self.first.led(step.now, before, self.current);
        }
    }

    /// One member's word could send the client to replicas of that member's choice: f+1 must say the same. During a change that is the
    /// membership to come, whose voters take requests from then on.
    fn members(&mut self, step: &mut Step<'_>, parts: &mut Parts, from: usize, memberships: &Memberships) {
        let membership = memberships.now();
        if let Some(following) = &mut self.following {
            following.names(from, membership.number());
            return following.ask(step, &mut parts.contacts);
        }
        if !step.config.faults.fit(membership.voters().count() as u32) {
            return; // Where one liar is too many, nobody could be believed any more. No honest replica tells of such.
        }
        if let Some(membership) = self.told.tells(from, membership) {
            self.follow(step, parts, membership);
        }
    }

    fn connected(&mut self, step: &mut Step<'_>, parts: &mut Parts, contact: usize, welcome: &Welcome) {
        self.spread.joined(&mut parts.sessions, contact);
        self.spread.send_keys(step, &mut parts.contacts, contact);
        self.repliers.connected();
        self.notice(step, parts, contact, welcome.view, welcome.leader);
    }

    fn closed(&mut self, parts: &mut Parts, contact: usize) {
        if let Some(following) = &mut self.following {
            following.lost(contact);
        }
        self.notices.lost(contact);
        self.repliers.lost(contact);
        self.spread.lost(contact);
        if self.current.leader == Some(contact) {
            self.spread.tell_all_everything(parts, Some(contact));
        }
    }

    fn chain(&mut self, step: &mut Step<'_>, parts: &mut Parts, from: usize, chain: &Chain) {
        self.on_chain(step, parts, from, chain);
    }

    fn deadline(&self) -> Option<Time> {
        self.repliers
            .deadline()
            .into_iter()
            .chain(self.following.as_ref().and_then(Following::deadline))
            .min()
    }

    fn due(&mut self, step: &mut Step<'_>, parts: &mut Parts) {
        self.repliers.due(step.now, &mut parts.sessions);
        if let Some(following) = &mut self.following {
            following.due(step, &mut parts.contacts);
        }
    }

    /// If no answer came to what only the leader got, it goes to all.
    fn session_due(&mut self, step: &Step<'_>, parts: &mut Parts, cell: u32) {
        let alone_until = parts.sessions.at(cell).map(|session| session.alone_until(step.config));
        if alone_until.is_some_and(|until| until <= step.now) {
            self.spread.tell_all(parts, cell, self.current.leader);
            self.first.failed(step.now);
        }
    }

    fn sent_again(&mut self, step: &Step<'_>, parts: &mut Parts, cell: u32) {
        self.repliers.look_again(step.now, &mut parts.sessions, cell);
    }

    fn detail(&self, contacts: &Contacts) -> String {
        let up = contacts.iter().filter(|contact| contact.up().is_some()).count();
        let all = contacts.iter().filter(|contact| !contact.left).count();
        format!("{up} of {all} replicas are connected, {} equal answers are needed", self.needed)
    }
}

#[cfg(test)]
mod tests;
