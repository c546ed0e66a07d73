//! Goes on with fewer members, where few are slow: what the leader lacks, and what a grant sets going. (visigoth)
//!
//! Which sets may be quorums, and how the oracle is asked, is in the visigoth folder. This file knows which votes, statements and answers
//! are awaited here, and since when.
//!
//! Tests: tests/few.rs, tests/chaos.rs.

use super::reads::Look;
use super::sync::supporters;
use super::{ModSmart, reject};
use crate::mod_smart::message::ModSmartBody as Body;
use crate::visigoth::{Here, OracleAnswer};
use crate::{Effect, Effects};
use quorate_types::{Reject, ReplicaId, Span, Time, View};

/// What is awaited: since when, by a chain of how many messages, and whose answers came.
type Lacking = (Time, u64, Vec<ReplicaId>);

impl ModSmart {
    /// What the register is judged by.
    fn here(&self) -> Here<'_> {
        let core = &self.core;
        let (decided, begins) = (core.ledger.proof(core.decided()), core.members.tenures().now().begins);
        Here {
            membership: core.membership_number(),
            view: core.office.view(),
            decided: decided.map_or(View::ZERO, |proof| proof.view),
            voters: core.members.voters(),
            trust: core.members.trust(),
        }
        .of_tenure(begins)
    }

    /// What this leader awaits, if the usual quorum is needed for it.
    fn lacking(&self) -> Option<Lacking> {
        let core = &self.core;
        if !core.is_mine() || core.life.halted || !core.life.started {
            return None;
        }
        if !core.has_begun() {
            return Some((self.watch.entered(), 1, supporters(&self.gathered, core)));
        }
        let slot = self.watch.open_since().and_then(|since| {
            let (chain, set) = self.voting.supporters(core)?;
            Some((since, chain, set))
        });
        slot.or_else(|| self.reads.supporters(core).map(|(since, set)| (since, 1, set)))
    }

    /// When the leader is to look whether it must do with fewer; none when it awaits nothing. One moment for each slot: votes set no timers.
    /// [visigoth L20-L21]
    pub(super) fn gathers_at(&self) -> Option<Time> {
        let wait = self.core.slow_after()?;
        let (since, chain, _) = self.lacking()?;
        Some(since.plus(wait.times(chain + 1)))
    }

    /// If the usual quorum is late, asks the oracle for a small one. [visigoth L22-L25]
    pub(super) fn gather(&mut self, out: &mut Effects) {
        let Some(wait) = self.core.slow_after() else { return };
        let Some((since, chain, mut set)) = self.lacking() else { return };
        let trust = self.core.members.trust();
        let late = self.core.now() >= since.plus(wait.times(chain + 1));
        if !late || set.len() < trust.smallest() as usize {
            return;
        }
        set.sort_unstable();
        if self.core.quorums().hold(set.len(), |id| set.contains(&id)) {
            return;
        }
        let (now, repeat) = (self.core.now(), self.core.config.repeat);
        let mut gather = std::mem::take(&mut self.few);
        if let Some(request) = gather.ask(set, self.here(), now, repeat) {
            out.push(Effect::Oracle(request));
        }
        self.few = gather;
    }

    /// The oracle says which small quorums there are. [visigoth L26-L28]
    pub(super) fn on_oracle(&mut self, answer: OracleAnswer, out: &mut Effects) {
        let mut few = std::mem::take(&mut self.few);
        let told = few.told(answer, self.here());
        let granted: Vec<_> = few.granted(self.core.office.view()).cloned().collect();
        self.few = few;
        if told == Ok(true) {
            self.take_granted(granted, out);
        }
    }

    /// The leader says which small quorums its view has. Where no replica lies, its word is enough; otherwise the oracle is asked.
    /// [visigoth L29-L31]
    pub(super) fn on_granted(&mut self, from: ReplicaId, sets: Vec<Vec<ReplicaId>>, out: &mut Effects) {
        if from != self.core.leader() || self.core.slow_after().is_none() {
            return reject(out, from, Reject::NotAllowed("small quorums of who does not lead"));
        }
        let least = self.core.members.trust().smallest() as usize;
        let sound = |set: &Vec<ReplicaId>| {
            set.len() >= least
                && set.is_sorted_by(|one, next| one < next)
                && set.iter().all(|id| self.core.is_member(*id))
        };
        if !sets.iter().all(sound) {
            return reject(out, from, Reject::NotAllowed("a small quorum of too few members"));
        }
        if !self.core.may_lie() {
            return self.take_granted(sets, out);
        }
        let known = self.core.granted.of(self.core.office.view());
        if sets.iter().any(|set| !known.contains(set)) && self.pace.shown.insert(self.core.config.me) {
            let request = self.few.read(self.core.membership_number());
            out.push(Effect::Oracle(request));
        }
    }

    /// These sets are quorums of the present view: whatever waited for one goes on.
    fn take_granted(&mut self, sets: Vec<Vec<ReplicaId>>, out: &mut Effects) {
        let view = self.core.office.view();
        let mut news = false;
        for set in sets {
            news |= self.core.granted.add(view, set);
        }
        if !news {
            return;
        }
        if self.core.is_mine() {
            self.few.since.get_or_insert(self.core.now());
            self.core.tell_granted(None, out);
            self.try_to_begin_view(out);
        }
        self.progress(out);
        let look = Look { core: &self.core, voting: &self.voting };
        self.reads.confirm(look, out);
    }

    /// A view in which nobody asks for anything decides that its members are as they were, if small quorums of earlier views bind it: then
    /// they bind nobody any more. [visigoth L32-L34]
    pub(super) fn show_that_few_are_over(&mut self, out: &mut Effects) {
        let idle = self.voting.proposed_and_open(&self.core).0 == 0;
        let here = self.here();
        let may_be = here.decided < here.view && here.view > self.core.members.tenures().now().begins;
        if !idle
            || !self.core.leads()
            || self.stops.is_leaving()
            || self.core.slow_after().is_none()
            || !may_be
        {
            return;
        }
        match self.few.is_bound(here) {
            None => out.push(Effect::Oracle(self.few.read(here.membership))),
            Some(false) => {}
            Some(true) => {
                let members = &self.core.members;
                self.voting.queue(members.tenures().batch(None, self.core.config.me));
                self.progress(out);
            }
        }
    }

    /// Small quorums bind all later views until something is decided in one. So once the usual quorum answers again, the leader hands over,
    /// and then all members count. If that did not last, it waits longer the next time. [visigoth L32-L34]
    pub(super) fn restore_all(&mut self) {
        let Some(since) = self.few.since.filter(|_| self.core.leads()) else { return };
        let patience = self.watch.patience(&self.core.config);
        let wait = patience.times(2 << self.few.restored.min(7));
        let me = self.core.config.me;
        let heard =
            self.core.members.voters().iter().filter(|id| **id == me || self.watch.hears(**id, &self.core));
        if self.core.now().since(since) >= wait && heard.count() >= self.core.quorums().usual() {
            (self.few.since, self.few.restored) = (None, self.few.restored + 1);
            self.on_transfer(None);
        }
    }
}

impl super::core::Core {
    /// T, if silence says something here.
    pub(super) fn slow_after(&self) -> Option<Span> {
        let trust = self.members.trust();
        let few = trust.smallest() < trust.agreement();
        let after = self.config.faults.slow_after_ms().filter(|_| few)?;
        Some(Span::from_millis(u64::from(after)))
    }

    /// Tells a member, or all, which small quorums the present view has.
    pub(super) fn tell_granted(&self, to: Option<ReplicaId>, out: &mut Effects) {
        let sets = self.granted.of(self.office.view());
        if sets.is_empty() {
            return;
        }
        let body = Body::Granted { sets: sets.to_vec() };
        match to {
            Some(to) => self.send(out, to, body, None),
            None => self.send_all(out, &body, None),
        }
    }

    /// Something was decided: small quorums of earlier views bind nobody any more. Where replicas lie, they show that old proofs are right.
    pub(super) fn forget_few(&mut self) {
        if let Some(proof) = self.ledger.proof(self.decided()).filter(|_| !self.may_lie()) {
            self.granted.forget(proof.view);
        }
    }
}
