//! Goes on with fewer members, where few are slow: what the leader lacks, and what a grant sets going. (docs/protocols/visigoth.md)
//!
//! Which sets may be quorums, and how the oracle is asked, is in the visigoth folder. This part knows which votes, statements and answers
//! are awaited here, and since when.
//!
//! Tests: tests/few.rs, tests/chaos.rs.

use super::core::Core;
use super::normal::Voting;
use super::reads::Reads;
use super::reject;
use super::sync::{Gathered, supporters};
use super::watch::Watch;
use crate::mod_smart::message::ModSmartBody as Body;
use crate::visigoth::{Gather, Here, OracleAnswer};
use crate::{Effect, Effects};
use quorate_types::{Reject, ReplicaId, Span, Time, View};
use quorate_wire::Batch;

/// What the leader looks at to find out what it lacks.
#[derive(Clone, Copy)]
pub(super) struct Awaited<'a> {
    pub(super) core: &'a Core,
    pub(super) voting: &'a Voting,
    pub(super) gathered: &'a Gathered,
    pub(super) reads: &'a Reads,
    pub(super) watch: &'a Watch,
}

impl Awaited<'_> {
    /// What this leader awaits: since when, by a chain of how many messages, and whose answers came.
    fn lacking(self) -> Option<(Time, u64, Vec<ReplicaId>)> {
        let core = self.core;
        if !core.is_mine() || core.life.halted || !core.life.started {
            return None;
        }
        if !core.has_begun() {
            return Some((self.watch.entered(), 1, supporters(self.gathered, core)));
        }
        let slot = self.watch.open_since().and_then(|since| {
            let (chain, set) = self.voting.supporters(core)?;
            Some((since, chain, set))
        });
        let round = || self.reads.supporters(core).map(|(since, set)| (since, 1, set));
        // Until a quorum answered in this view, the host proposes nothing.
        let first = || Some((self.watch.entered(), 1, self.reads.first_supporters(core)?));
        slot.or_else(round).or_else(first)
    }

    /// When the leader is to look whether it must do with fewer; none when it awaits nothing. One moment for each slot: votes set no timers.
    /// [visigoth L10]
    pub(super) fn due(self) -> Option<Time> {
        let wait = self.core.slow_after()?;
        let (since, chain, _) = self.lacking()?;
        Some(since.plus(wait.times(chain + 1)))
    }
}

/// What is known of small quorums here.
#[derive(Debug, Default)]
pub(super) struct Few {
    gather: Gather,
    /// When the present view got its first small quorum.
    since: Option<Time>,
    /// How often this leader gave up its office so that all count again.
    restored: u32,
}

impl Few {
    /// Another view was entered.
    pub(super) fn enter(&mut self) {
        self.gather.enter();
        self.since = None;
    }

    /// Another membership holds, which has a register of its own.
    pub(super) fn begin(&mut self) {
        *self = Self::default();
    }

    /// If the usual quorum is late, asks the oracle for a small one. [visigoth L11-L15]
    pub(super) fn ask(&mut self, at: Awaited<'_>, out: &mut Effects) {
        let core = at.core;
        let Some(wait) = core.slow_after() else { return };
        let Some((since, chain, mut set)) = at.lacking() else { return };
        let late = core.now() >= since.plus(wait.times(chain + 1));
        if !late || set.len() < core.members.trust().smallest() as usize {
            return;
        }
        set.sort_unstable();
        if core.quorums().hold(set.len(), |id| set.contains(&id)) {
            return;
        }
        if let Some(request) = self.gather.ask(set, core.here(), core.now(), core.config.repeat) {
            out.push(Effect::Oracle(request));
        }
    }

    /// The oracle says which small quorums there are. Returns those of the present view. [visigoth L16-L18]
    pub(super) fn told(&mut self, answer: OracleAnswer, core: &Core) -> Vec<Vec<ReplicaId>> {
        match self.gather.told(answer, core.here()) {
            Ok(true) => self.gather.granted(core.office.view()).cloned().collect(),
            // A register that breaks the rule is not believed; nothing more is granted.
            Ok(false) | Err(_) => Vec::new(),
        }
    }

    /// The leader says which small quorums its view has. Where no replica lies, its word is enough; otherwise the oracle is asked.
    /// [visigoth L19-L21]
    pub(super) fn heard(
        &mut self,
        from: ReplicaId,
        sets: Vec<Vec<ReplicaId>>,
        core: &Core,
        out: &mut Effects,
    ) -> Vec<Vec<ReplicaId>> {
        let least = core.members.trust().smallest() as usize;
        let sound = |set: &Vec<ReplicaId>| {
            set.len() >= least
                && set.is_sorted_by(|one, next| one < next)
                && set.iter().all(|id| core.is_member(*id))
        };
        if from != core.leader() || core.slow_after().is_none() || !sets.iter().all(sound) {
            reject(out, from, Reject::NotAllowed("small quorums that can not be"));
            return Vec::new();
        }
        if !core.may_lie() {
            return sets;
        }
        let known = core.granted.of(core.office.view());
        if sets.iter().any(|set| !known.contains(set)) {
            out.push(Effect::Oracle(self.gather.read(core.membership_number())));
        }
        Vec::new()
    }

    /// The leader's view has a small quorum since now, at the latest.
    pub(super) fn is_in_use(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// Small quorums bind all later views until something is decided in one. So once the usual quorum answers again, the leader hands over,
    /// and then all members count. If that did not last, it waits longer the next time. [visigoth L22]
    pub(super) fn hands_over(&mut self, core: &Core, watch: &Watch) -> bool {
        let Some(since) = self.since.filter(|_| core.leads()) else { return false };
        let wait = watch.patience(&core.config).times(2 << self.restored.min(7));
        let heard =
            core.members.voters().iter().filter(|id| **id == core.config.me || watch.hears(**id, core));
        let all = core.now().since(since) >= wait && heard.count() >= core.quorums().usual();
        if all {
            (self.since, self.restored) = (None, self.restored + 1);
        }
        all
    }

    /// In a view in which nobody asks for anything: the batch that says that the members are as they were, if small quorums of earlier views
    /// bind. Once it is decided, they bind nobody any more. [visigoth L23-L24]
    pub(super) fn shows_that_all_count(&self, core: &Core, out: &mut Effects) -> Option<Batch> {
        let here = core.here();
        let may_be = here.decided < here.view && here.view > core.members.tenures().now().begins;
        if !core.leads() || core.slow_after().is_none() || !may_be {
            return None;
        }
        match self.gather.is_bound(here) {
            None => out.push(Effect::Oracle(self.gather.read(here.membership))),
            Some(bound) => return bound.then(|| core.members.tenures().batch(None, core.config.me)),
        }
        None
    }
}

impl Core {
    /// T, if silence says something here.
    pub(super) fn slow_after(&self) -> Option<Span> {
        let trust = self.members.trust();
        let few = trust.smallest() < trust.agreement();
        let after = self.config.faults.slow_after_ms().filter(|_| few)?;
        Some(Span::from_millis(u64::from(after)))
    }

    /// What the register is judged by. Views of earlier tenures say nothing about this one.
    fn here(&self) -> Here<'_> {
        let (last, begins) = (self.ledger.proof(self.decided()), self.members.tenures().now().begins);
        Here {
            membership: self.membership_number(),
            view: self.office.view(),
            decided: last.map(|proof| proof.view).filter(|view| *view >= begins).unwrap_or(View::ZERO),
            voters: self.members.voters(),
            trust: self.members.trust(),
        }
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
