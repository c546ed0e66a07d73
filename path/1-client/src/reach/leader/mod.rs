//! The reach to the leader, where replicas only crash: the leader takes requests, and its answer is enough.
//!
//! Requests go only to the leader: the replica that is named in the highest known view. Whenever the connection or the view changes,
//! everything unanswered is sent again, in order. That is harmless, since the cluster runs each number of a session once.
//!
//! If the leader is silent, the client asks the others who leads, by a request that does nothing. `sending.rs` writes the frames.
//! Tests: tests.rs, tests/core.rs, tests/cluster.rs.

mod sending;

use super::{CurrentLeader, Reach};
use crate::back_off::back_off;
use crate::contacts::Contacts;
use crate::effects::Effect;
use crate::encode::FrameWriter;
use crate::parts::Parts;
use crate::reads::Question;
use crate::sessions::{Rules, Taken};
use crate::step::Step;
use bytes::Bytes;
use quorate_types::{ConnId, MembershipId, ReplicaId, RequestNumber, Seq, SessionId, Time, View};
use quorate_wire::{
    FrameKind, Memberships, REQUEST_HEADER, ReadReply, Reply, ReplyStatus, RequestKind, Welcome,
};

/// After this many suspicions in a row, the client forgets what it heard of views and sends everything again.
const DOUBTS_MAX: u32 = 4;

/// See the module.
#[derive(Debug)]
pub(crate) struct ToLeader {
    current: CurrentLeader,
    /// The connection and view in which requests were last sent. When either changes, everything is sent again.
    sending_on: Option<(ConnId, View)>,
    /// The leader said that it does not lead, so nothing is sent to it before this time.
    hold: Option<Time>,
    holds: u32,
    /// When to suspect the leader, while requests are unanswered.
    suspect_at: Option<Time>,
    doubts: u32,
    probe_at: Option<Time>,
    probe_attempt: u32,
    /// The nonce of the requests that ask who leads.
    probe_nonce: u64,
    /// The last membership that was heard of, and whether it is without a change under way.
    membership: (MembershipId, bool),
}

impl ToLeader {
    /// `probe_nonce`: the nonce of its own requests, with which no session is opened.
    pub(crate) const fn new(probe_nonce: u64) -> Self {
        Self {
            current: CurrentLeader::NONE,
            sending_on: None,
            hold: None,
            holds: 0,
            suspect_at: None,
            doubts: 0,
            probe_at: None,
            probe_attempt: 0,
            probe_nonce,
            membership: (MembershipId::FIRST, true),
        }
    }

    /// The rules for all requests.
    pub(crate) const fn rules() -> Rules {
        Rules { needed: 1, around: REQUEST_HEADER, takes_back: 1 }
    }

    /// A request was answered, so the known leader does lead.
    fn progress(&mut self, step: &Step<'_>) {
        self.doubts = 0;
        self.holds = 0;
        if self.suspect_at.is_some() {
            self.suspect_at = Some(step.now.plus(step.config.suspect_after));
        }
    }

    /// The leader's contact, if requests may go there now.
    fn target(&self, contacts: &Contacts) -> Option<usize> {
        self.current.leader.filter(|contact| self.hold.is_none() && contacts.up(*contact).is_some())
    }

    /// Turns to the present leader. On a new connection or in a new view, everything unanswered is sent again.
    fn follow(&mut self, step: &mut Step<'_>, parts: &mut Parts) -> Option<usize> {
        let target = self.target(&parts.contacts);
        let on = target.and_then(|contact| parts.contacts.up(contact));
        if on != self.sending_on.map(|(conn, _)| conn) {
            self.sending_on = on.map(|conn| (conn, self.current.view));
            parts.stats.resends += u64::from(on.is_some());
            self.suspect_at = None;
            parts.sessions.rewind_all();
        }
        if on.is_some() {
            self.probe_at = None;
            self.probe_attempt = 0;
        } else if self.probe_at.is_none() && self.hold.is_none() && parts.sessions.any_waits() {
            self.arm_probe(step);
        }
        target
    }

    fn arm_probe(&mut self, step: &mut Step<'_>) {
        let (min, max) = (step.config.dial_back_off_min, step.config.suspect_after);
        let wait = back_off(step.random, self.probe_attempt, min, max);
        self.probe_attempt = self.probe_attempt.saturating_add(1);
        self.probe_at = Some(step.now.plus(wait));
    }

    /// The leader is silent, so the others are asked who leads. If that does not help for long, what was heard of views is forgotten, and
    /// everything is sent again.
    fn suspect(&mut self, step: &mut Step<'_>, parts: &mut Parts) {
        if !parts.sessions.any_in_flight() {
            self.suspect_at = None;
            return;
        }
        self.suspect_at = Some(step.now.plus(step.config.suspect_after));
        self.probe(step, &mut parts.contacts, self.current.leader);
        self.doubts += 1;
        if self.doubts >= DOUBTS_MAX {
            self.doubts = 0;
            self.current.view = View::ZERO;
            self.sending_on = None;
        }
    }

    /// Asks all members except `except` who leads, by a request that does nothing. A member that does not lead answers with a notice.
    fn probe(&self, step: &mut Step<'_>, contacts: &mut Contacts, except: Option<usize>) {
        for contact in 0..contacts.len() {
            if Some(contact) == except || contacts.up(contact).is_none() || contacts.at(contact).out_bytes > 0
            {
                continue;
            }
            let mut writer = FrameWriter::new(FrameKind::Requests);
            let nonce = RequestNumber::new(self.probe_nonce);
            writer.request(SessionId::NONE, (nonce, nonce), RequestKind::Empty, &Bytes::new());
            contacts.send(step, contact, writer.finish());
        }
    }

    /// A member left.
    fn left(&mut self, step: &mut Step<'_>, parts: &mut Parts, contact: usize) {
        parts.left(step, self.current.leader, contact);
        if self.current.leader == Some(contact) {
            self.current.leader = None;
        }
    }
}

impl Reach for ToLeader {
    fn leader(&self) -> Option<usize> {
        self.current.leader
    }

    fn send(&mut self, step: &mut Step<'_>, parts: &mut Parts) {
        if let Some(contact) = self.follow(step, parts) {
            self.send_requests(step, parts, contact);
        }
    }

    fn reply(
        &mut self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        from: usize,
        reply: &Reply<'_>,
        payload: &Bytes,
    ) -> bool {
        let number = reply.number.number();
        if reply.status == ReplyStatus::Position {
            let fits = reply.session == SessionId::NONE && reply.body.is_empty();
            if fits {
                parts.reads.wrote(Seq::new(number));
            }
            return fits;
        }
        let opened = reply.status == ReplyStatus::SessionOpened;
        if reply.session == SessionId::NONE && !opened && number == self.probe_nonce {
            // Only a leader takes requests. One that led an instance all along says nothing new of it, so no notice may come.
            let is_there = |leader: usize| parts.contacts.up(leader).is_some();
            if !self.current.leader.is_some_and(is_there) {
                self.current.leader = Some(from);
            }
            return true;
        }
        let taken = parts.sessions.reply(step, reply, payload);
        if taken == Taken::Progress {
            self.progress(step);
        }
        taken.is_taken()
    }

    fn read(&mut self, step: &mut Step<'_>, parts: &mut Parts, question: Question) {
        parts.reads.ask(step, &parts.contacts, self.current.leader, question);
    }

    fn read_reply(
        &mut self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        from: usize,
        reply: &ReadReply<'_>,
        payload: &Bytes,
    ) {
        parts.reads.reply(step, from, reply, payload, true);
    }

    fn read_due(&mut self, step: &mut Step<'_>, parts: &mut Parts, read: u64) {
        parts.reads.hedge(step, &parts.contacts, self.current.leader, read);
    }

    /// The notice with the highest view counts. "No leader" counts only if the known leader says it: a replica that is cut off must not
    /// keep the client from a leader that works.
    fn notice(
        &mut self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        from: usize,
        view: View,
        leader: Option<ReplicaId>,
    ) {
        let leader = leader.and_then(|id| parts.contacts.of(id));
        let ours = self.current.leader == Some(from);
        if ours && leader == Some(from) && self.sending_on.is_some_and(|(_, since)| view > since) {
            // It says itself that it leads anew: what it took before may be lost. What others say of it is about other clients, too.
            self.sending_on = None;
        }
        let newer = view > self.current.view || (view == self.current.view && self.current.leader.is_none());
        if newer && (leader.is_some() || ours) {
            self.current = CurrentLeader { view, leader };
        } else if ours && leader != Some(from) && view == self.current.view {
            // It knows best that it does not lead; what we sent was not taken.
            self.current.leader = leader;
        } else if ours && leader != Some(from) && self.hold.is_none() {
            // Others say that it leads, and it has not learned so yet: what we sent was not taken.
            let (min, max) = (step.config.retry_min, step.config.suspect_after);
            if min.times(1 << self.holds.min(20)) > max.times(2) {
                // It never will: all replicas stopped since, and none remembers a view in which nobody had voted.
                self.holds = 0;
                self.current = CurrentLeader { view, leader };
                return;
            }
            let wait = back_off(step.random, self.holds, min, max);
            self.holds = self.holds.saturating_add(1);
            self.hold = Some(step.now.plus(wait));
            self.sending_on = None;
        }
    }

    /// Replicas that joined are dialed; those that left are not dialed any more.
    fn members(&mut self, step: &mut Step<'_>, parts: &mut Parts, _: usize, memberships: &Memberships) {
        let news = (memberships.now().number(), memberships.before().is_none());
        if news <= self.membership {
            return;
        }
        self.membership = news;
        let members = memberships.replicas();
        for contact in 0..parts.contacts.len() {
            let known = parts.contacts.at(contact);
            if !known.left && !members.contains(&known.replica) {
                self.left(step, parts, contact);
            }
        }
        for replica in members {
            let Some(member) = memberships.get(replica) else { continue };
            step.out.push(Effect::Address { replica, address: member.address.clone() });
            if let Some(contact) = parts.contacts.join(replica) {
                parts.reads.joined(contact);
            }
        }
    }

    fn connected(&mut self, step: &mut Step<'_>, parts: &mut Parts, contact: usize, welcome: &Welcome) {
        parts.contacts.belong_to(welcome.cluster);
        self.notice(step, parts, contact, welcome.view, welcome.leader);
    }

    /// Nothing to do: whether the leader is connected is checked when there is something to send.
    fn closed(&mut self, _: &mut Parts, _: usize) {}

    fn deadline(&self) -> Option<Time> {
        [self.hold, self.suspect_at, self.probe_at].into_iter().flatten().min()
    }

    fn due(&mut self, step: &mut Step<'_>, parts: &mut Parts) {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= step.now);
        let (held, probes, doubts) = (is_due(self.hold), is_due(self.probe_at), is_due(self.suspect_at));
        if held {
            self.hold = None;
        }
        if probes {
            self.probe_at = None;
            if parts.sessions.any_waits() {
                self.probe(step, &mut parts.contacts, None);
                self.arm_probe(step);
            }
        }
        if doubts {
            self.suspect(step, parts);
        }
    }

    /// Nothing to do: requests wait for the leader only.
    fn session_due(&mut self, _: &Step<'_>, _: &mut Parts, _: u32) {}

    fn sent_again(&mut self, _: &Step<'_>, _: &mut Parts, _: u32) {}

    fn detail(&self, contacts: &Contacts) -> String {
        match self.current.leader.map(|contact| contacts.at(contact)) {
            Some(contact) if contact.up().is_some() => {
                format!("{} leads and did not answer", contact.replica)
            }
            Some(contact) => format!("{} leads and is not connected", contact.replica),
            None => "no leader is known".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
