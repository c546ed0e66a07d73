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
use crate::ledger::Proof;
use crate::mod_smart::message::ModSmartBody as Body;
use crate::visigoth::{Gather, Grant, Here, OracleAnswer, SmallQuorums};
use crate::{Effect, Effects};
use quorate_types::{MembershipId, Reject, ReplicaId, Span, Time, View};
use quorate_wire::Batch;
use std::collections::BTreeSet;

/// What the leader looks at to find out what it lacks.
#[derive(Clone, Copy)]
pub(super) struct Awaited<'a> {
    pub(super) core: &'a Core,
    pub(super) voting: &'a Voting,
    pub(super) gathered: &'a Gathered,
    pub(super) reads: &'a Reads,
    pub(super) watch: &'a Watch,
}

/// Messages that a leader awaits.
#[derive(Clone, Copy)]
enum Lack {
    /// Statements for its view.
    Statements,
    /// Votes on the open slot.
    Votes,
    /// Answers to a round for a read.
    Round,
    /// Answers to the first round of its view.
    FirstRound,
}

impl Awaited<'_> {
    /// What this leader awaits, and when it is due. One moment for each slot: votes set no timers. [visigoth L10]
    fn lack(self, wait: Span) -> Option<(Lack, Time)> {
        let core = self.core;
        if !core.is_mine() || core.life.halted || !core.life.started {
            return None;
        }
        // Who was late itself saw answers late, too.
        let wait = wait.max(self.watch.late());
        let due = |since: Time, chain| since.plus(wait.times(chain + 1));
        if !core.has_begun() {
            return Some((Lack::Statements, due(self.watch.entered(), 1)));
        }
        let slot = self.watch.open_since().zip(self.voting.chain(core));
        let slot = slot.map(|(since, chain)| (Lack::Votes, due(since, chain)));
        let round = || self.reads.waits_since().map(|since| (Lack::Round, due(since, 1)));
        // Until a quorum answered in this view, the host proposes nothing.
        let first =
            || (!self.reads.is_confirmed(core)).then(|| (Lack::FirstRound, due(self.reads.began_at(), 1)));
        slot.or_else(round).or_else(first)
    }

    /// Who did not lack it: voted for what this leader took, made a sound statement, or answered.
    fn supporters(self, lack: Lack) -> Vec<ReplicaId> {
        let mut set = match lack {
            Lack::Statements => supporters(self.gathered, self.core),
            Lack::Votes => self.voting.supporters(self.core),
            Lack::Round => self.reads.supporters(self.core),
            Lack::FirstRound => self.reads.first_supporters(self.core),
        };
        set.sort_unstable();
        set
    }

    /// When the leader is to look whether it must do with fewer; none when it awaits nothing.
    pub(super) fn due(self) -> Option<Time> {
        let (_, due) = self.lack(self.core.slow_after()?)?;
        Some(due)
    }
}

/// What is known of small quorums here.
#[derive(Debug, Default)]
pub(super) struct Few {
    gather: Gather,
    /// Since when small quorums are known that count, or bind later views.
    since: Option<Time>,
    /// Since when so many members were heard without a break that they are a usual quorum.
    well_since: Option<Time>,
    /// How often in a row this leader gave up its office so that all count again, and that did not last.
    restored: u32,
    /// When it last did that, and how long it had waited before.
    handed: Option<(Time, Span)>,
}

impl Few {
    /// Another view was entered.
    pub(super) fn enter(&mut self) {
        self.gather.enter();
        self.well_since = None;
    }

    /// Another membership holds, which has a register of its own.
    pub(super) fn begin(&mut self) {
        *self = Self::default();
    }

    /// If the usual quorum is late, asks the oracle for a small one. [visigoth L11-L15]
    pub(super) fn ask(&mut self, at: Awaited<'_>, out: &mut Effects) {
        let core = at.core;
        let Some((lack, due)) = core.slow_after().and_then(|wait| at.lack(wait)) else { return };
        if core.now() < due {
            return;
        }
        let set = at.supporters(lack);
        let enough = set.len() >= core.members.trust().smallest() as usize;
        if !enough || core.quorums().hold(set.len(), |id| set.contains(&id)) {
            return;
        }
        let here = core.here(at.gathered.last());
        // Until the usual quorum decided something, nothing shows that all members ask the same oracle. [visigoth L27]
        if here.decided == View::ZERO && here.membership == MembershipId::FIRST {
            return;
        }
        if let Some(request) = self.gather.ask(set, here, core.now(), core.config.repeat) {
            out.push(Effect::Oracle(request));
        }
    }

    /// The oracle says which small quorums there are. Returns those of the present view. [visigoth L16-L18]
    pub(super) fn told(&mut self, answer: OracleAnswer, core: &Core) -> Vec<Vec<ReplicaId>> {
        match self.gather.told(answer, core.here(None)) {
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
            self.read(core, out);
        }
        Vec::new()
    }

    /// Asks what the register holds, unless it was asked a short time ago. [visigoth L26]
    fn read(&mut self, core: &Core, out: &mut Effects) {
        if let Some(request) = self.gather.read(core.membership_number(), core.now(), core.config.repeat) {
            out.push(Effect::Oracle(request));
        }
    }

    /// The leader's view has a small quorum.
    pub(super) fn is_in_use(&mut self, now: Time) {
        if self.since.is_none() && self.handed.is_some_and(|(at, waited)| now.since(at) > waited.times(4)) {
            self.restored = 0;
        }
    }

    /// The small quorums of the last view in which something was decided, and of later ones: what the oracle said, and what leaders told.
    fn binding<'a>(&'a self, core: &'a Core) -> impl Iterator<Item = Grant> + 'a {
        let from = core.here(None).decided.max(core.members.tenures().now().begins);
        self.gather.grants().chain(core.granted.all()).filter(move |grant| grant.view >= from)
    }

    /// Something was granted, or decided.
    pub(super) fn note(&mut self, core: &Core) {
        let binds = core.slow_after().is_some() && self.binding(core).next().is_some();
        self.since = binds.then(|| self.since.unwrap_or(core.now()));
    }

    /// What is known here of small quorums that count, or may bind this view. A leader knows it once the oracle said something in its view.
    pub(super) fn small(&self, core: &Core, watch: &Watch) -> Option<SmallQuorums> {
        core.slow_after()?;
        let grants: BTreeSet<Grant> = self.binding(core).collect();
        let here = core.here(None);
        let unknown = core.leads() && core.may_be_bound_in(here) && self.gather.may_be_bound(here);
        let since = self.since.or_else(|| unknown.then(|| watch.entered()))?;
        Some(SmallQuorums { since, grants: grants.into_iter().collect() })
    }

    /// Small quorums bind all later views until something is decided in one. So once a usual quorum answers again, and keeps up, for a
    /// while, the leader hands over to one of its members, and then all members count. If that did not last, it waits longer the next time.
    /// [visigoth L22]
    pub(super) fn hands_over(&mut self, core: &Core, watch: &Watch) -> Option<ReplicaId> {
        if !core.leads() || core.granted.of(core.office.view()).is_empty() {
            return None;
        }
        let me = core.config.me;
        let well = |id: &ReplicaId| *id == me || (watch.hears(*id, core) && core.members.keeps_up(*id));
        let voters = core.members.voters();
        if voters.iter().filter(|id| well(id)).count() < core.quorums().usual() {
            self.well_since = None;
            return None;
        }
        let since = *self.well_since.get_or_insert(core.now());
        let wait = watch.patience(&core.config).times(2 << self.restored.min(7));
        if core.now().since(since) < wait {
            return None;
        }
        (self.well_since, self.restored, self.handed) = (None, self.restored + 1, Some((core.now(), wait)));
        let later = (1..voters.len() as u64).map(|step| core.leader_of(core.office.view().plus(step)));
        later.into_iter().find(|id| well(id))
    }

    /// In a view in which nobody asks for anything: the batch that says that the members are as they were, if small quorums of earlier views
    /// bind. Once it is decided, they bind nobody any more. [visigoth L23-L24]
    pub(super) fn shows_that_all_count(&mut self, core: &Core, out: &mut Effects) -> Option<Batch> {
        let here = core.here(None);
        if !core.leads() || core.slow_after().is_none() || !core.may_be_bound_in(here) {
            return None;
        }
        if self.gather.is_bound(here) {
            return Some(core.members.tenures().batch(None, core.config.me));
        }
        // Another leader may still swap in a small quorum of an earlier view.
        self.read(core, out);
        None
    }
}

impl Core {
    /// T, if silence says something here.
    #[inline]
    pub(super) fn slow_after(&self) -> Option<Span> {
        let after = self.config.faults.slow_after_ms()?;
        let trust = self.members.trust();
        (trust.smallest() < trust.agreement()).then(|| Span::from_millis(u64::from(after)))
    }

    /// Whether earlier views may bind this one: nothing was decided in it, and it is not the first one.
    fn may_be_bound_in(&self, here: Here<'_>) -> bool {
        here.decided < here.view && here.view > self.members.tenures().now().begins
    }

    /// What the register is judged by. `shown`: a proof of a slot that is not decided here yet. Views of earlier tenures say nothing about
    /// this one.
    fn here(&self, shown: Option<&Proof>) -> Here<'_> {
        let begins = self.members.tenures().now().begins;
        let proofs = self.ledger.proof(self.decided()).into_iter().chain(shown);
        let decided = proofs.map(|proof| proof.view).filter(|view| *view >= begins).max();
        Here {
            membership: self.membership_number(),
            view: self.office.view(),
            decided: decided.unwrap_or(View::ZERO),
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
        if self.granted.is_empty() || self.may_lie() {
            return;
        }
        if let Some(proof) = self.ledger.proof(self.decided()) {
            self.granted.forget(proof.view);
        }
    }
}
