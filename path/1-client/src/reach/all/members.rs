//! The client follows a change of the membership.
//!
//! The voters of the new membership are the members from now on. What was counted before came from other members, so all answers are
//! counted anew: no vote of a member that left counts after the change. Everything without an answer is sent again, to the new members.
//! That is harmless, since the cluster runs each number of a session once; and a member that executed a request answers at once. Reads that
//! wait are asked again. Tests: tests/members.rs.

use super::ToAll;
use crate::contact::Contact;
use crate::effects::Effect;
use crate::parts::Parts;
use crate::reach::CurrentLeader;
use crate::step::Step;
use quorate_types::{ReplicaId, Trust};
use quorate_wire::Membership;

impl ToAll {
    /// Enough members told of this membership. Others may follow, which those that stay told already.
    pub(super) fn follow(&mut self, step: &mut Step<'_>, parts: &mut Parts, membership: Membership) {
        let mut next = Some(membership);
        while let Some(membership) = next {
            next = self.follow_one(step, parts, &membership);
        }
    }

    fn follow_one(
        &mut self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        membership: &Membership,
    ) -> Option<Membership> {
        let voters: Vec<ReplicaId> = membership.voters().collect();
        let trust = step.config.faults.among(voters.len() as u32);
        for voter in &voters {
            // Without an address there, the host has it from its configuration.
            let address = membership.get(*voter).map(|member| member.address.clone()).unwrap_or_default();
            if !address.is_empty() {
                step.out.push(Effect::Address { replica: *voter, address });
            }
        }
        let (stays, others) = meet(step, parts, self.current.leader, &voters);
        if others {
            self.begin_anew(step, parts, &voters, trust, &stays);
        }
        self.told.follow(membership.number(), super::enough_to_follow(trust), &stays)
    }

    /// Everything that is by contact, or depends on how many members there are, is made anew.
    fn begin_anew(
        &mut self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        voters: &[ReplicaId],
        trust: Trust,
        stays: &[bool],
    ) {
        let questions = parts.reads.take_many();
        self.needed = super::needed(trust);
        self.spread.follow(voters, stays.len(), parts.sessions.oldest_epoch());
        parts.sessions.members_changed(self.rules(), stays.len());
        parts.letters.members_changed(step, self.needed, stays);
        parts.stats.resends += u64::from(parts.sessions.any_waits());
        for contact in (0..stays.len()).filter(|contact| stays[*contact]) {
            self.spread.send_keys(step, &mut parts.contacts, contact);
        }
        self.repliers.follow(stays, self.needed);
        self.unordered.follow(trust);
        self.notices.follow(stays, self.needed);
        self.lead_anew(step, parts);
        questions.into_iter().for_each(|question| self.unordered.read(step, parts, question));
    }

    /// The leader, as enough of those that stay say. Requests go to all for a while: a new membership begins with a new view.
    fn lead_anew(&mut self, step: &Step<'_>, parts: &Parts) {
        let said = self.notices.current();
        let leader = said.and_then(|said| said.leader).and_then(|id| parts.contacts.of(id));
        let view = said.map_or(self.current.view, |said| said.view);
        self.current = CurrentLeader { view, leader };
        self.first.begin_anew(step.now, super::leader_comes_first(step.config, &self.spread));
    }
}

/// Contacts of those that left end, and those that joined get one. Returns by contact whether its member was one before and is one now; and
/// whether any left or joined.
pub(crate) fn meet(
    step: &mut Step<'_>,
    parts: &mut Parts,
    leader: Option<usize>,
    voters: &[ReplicaId],
) -> (Vec<bool>, bool) {
    let is_member = |contact: &Contact| !contact.left && voters.contains(&contact.replica);
    let mut stays: Vec<bool> = parts.contacts.iter().map(is_member).collect();
    let mut others = false;
    for contact in (0..stays.len()).filter(|contact| !stays[*contact]) {
        if !parts.contacts.at(contact).left {
            parts.left(step, leader, contact);
            others = true;
        }
    }
    for voter in voters {
        if let Some(contact) = parts.contacts.join(*voter) {
            parts.reads.joined(contact);
            others = true;
        }
    }
    stays.resize(parts.contacts.len(), false);
    (stays, others)
}
