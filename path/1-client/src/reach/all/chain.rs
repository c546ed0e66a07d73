//! A client that knows a membership with its public keys follows the chain of membership links, and nobody's word.
//!
//! A member that names a later membership is asked for the links after the known one. One member is asked at a time. What it shows proves
//! itself, so the first member that shows the next link is enough, and a forged link or a hole only means that another member is asked. When
//! all were asked in vain, they are asked again after a while. Tests: tests/members/chain.rs.

use super::ToAll;
use crate::chain::follow;
use crate::contacts::Contacts;
use crate::effects::Effect;
use crate::parts::Parts;
use crate::step::Step;
use quorate_types::{ClusterId, Faults, MembershipId, Time};
use quorate_wire::{Chain, Membership, chain_request};

/// See the module.
#[derive(Debug)]
pub(super) struct Following {
    cluster: ClusterId,
    known: Membership,
    /// By contact: the newest membership that the member named.
    named: Vec<MembershipId>,
    /// By contact: it was asked in vain.
    vain: Vec<bool>,
    /// Who was asked, and when that was in vain.
    asked: Option<(usize, Time)>,
    /// When those that were asked in vain are asked again.
    again: Option<Time>,
}

impl Following {
    pub(super) const fn new(cluster: ClusterId, known: Membership) -> Self {
        Self { cluster, known, named: Vec::new(), vain: Vec::new(), asked: None, again: None }
    }

    /// A member names a membership: only a hint whom to ask.
    pub(super) fn names(&mut self, contact: usize, number: MembershipId) {
        self.has_room(contact);
        self.named[contact] = number;
    }

    fn has_room(&mut self, contact: usize) {
        if self.named.len() <= contact {
            self.named.resize(contact + 1, MembershipId::ZERO);
            self.vain.resize(contact + 1, false);
        }
    }

    /// A member is not connected any more.
    pub(super) fn lost(&mut self, contact: usize) {
        self.has_room(contact);
        (self.named[contact], self.vain[contact]) = (MembershipId::ZERO, false);
        if let Some((_, until)) = self.asked.take_if(|(asked, _)| *asked == contact) {
            self.again = Some(until);
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.asked.map(|(_, until)| until).into_iter().chain(self.again).min()
    }

    /// Asks the next member, if one names a later membership and nobody is asked now.
    pub(super) fn ask(&mut self, step: &mut Step<'_>, contacts: &mut Contacts) {
        if self.asked.is_some() {
            return;
        }
        let known = self.known.number();
        let knows_more = |at: &usize| self.named[*at] > known && contacts.up(*at).is_some();
        let mut more = (0..self.named.len().min(contacts.len())).filter(knows_more).peekable();
        let any = more.peek().is_some();
        match more.find(|at| !self.vain[*at]) {
            Some(next) => {
                self.asked = Some((next, step.now.plus(step.config.resend_after)));
                contacts.send(step, next, chain_request(known));
            }
            // Who names memberships again and again does not put that off.
            None => self.again = any.then(|| self.again.unwrap_or(step.now.plus(step.config.resend_after))),
        }
    }

    /// Time passed.
    pub(super) fn due(&mut self, step: &mut Step<'_>, contacts: &mut Contacts) {
        if let Some((late, _)) = self.asked.take_if(|(_, until)| *until <= step.now) {
            self.fails(late, "shows no membership link in time".to_owned(), step, contacts);
        }
        if self.again.take_if(|at| *at <= step.now).is_some() {
            self.vain.fill(false);
        }
        self.ask(step, contacts);
    }

    fn fails(&mut self, contact: usize, text: String, step: &mut Step<'_>, contacts: &Contacts) {
        self.vain[contact] = true;
        step.out.push(Effect::Problem { replica: contacts.at(contact).replica, text });
    }

    /// A member shows links. Gives the last membership that they prove, if that is later than the known one.
    pub(super) fn shown(
        &mut self,
        from: usize,
        chain: &Chain,
        faults: Faults,
        (step, contacts): (&mut Step<'_>, &Contacts),
    ) -> Option<Membership> {
        // What nobody asked for is not worth the time.
        self.asked.take_if(|(asked, _)| *asked == from)?;
        let followed = follow(self.cluster, faults, &self.known, chain);
        let news = followed.proved.last().cloned();
        if let Some(proved) = &news {
            self.known.clone_from(proved);
            self.vain.fill(false);
            self.again = None;
        }
        let too_few = || "shows no membership link, though it named a later membership".to_owned();
        match followed.wrong {
            Some(wrong) => self.fails(from, wrong, step, contacts),
            None if news.is_none() => self.fails(from, too_few(), step, contacts),
            None => {}
        }
        news
    }
}

impl ToAll {
    /// A member shows membership links.
    pub(super) fn on_chain(&mut self, step: &mut Step<'_>, parts: &mut Parts, from: usize, chain: &Chain) {
        let Some(following) = &mut self.following else { return };
        let faults = step.config.faults;
        let proved = following.shown(from, chain, faults, (&mut *step, &parts.contacts));
        if let Some(membership) = proved {
            self.follow(step, parts, membership);
        }
        if let Some(following) = &mut self.following {
            following.ask(step, &mut parts.contacts);
        }
    }
}
