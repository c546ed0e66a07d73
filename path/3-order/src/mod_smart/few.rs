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
use crate::visigoth::{Claim, Gather, Grant, Here, OracleAnswer, Reach, SmallQuorums};
use crate::{Effect, Effects};
use quorate_auth::Signature;
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
pub(super) enum Lack {
    /// Statements for its view.
    Statements,
    /// Votes on the open slot.
    Votes,
    /// Answers to a round for a read.
    Round,
    /// Answers to the first round of its view.
    FirstRound,
}

/// What a leader lacks.
#[derive(Clone, Copy)]
pub(super) struct Lacks {
    pub(super) what: Lack,
    /// When it is to ask whom the others miss, where members may lie.
    asks: Option<Time>,
    /// When it is to look whether it must do with fewer.
    pub(super) due: Time,
}

impl Awaited<'_> {
    /// What this leader awaits. One moment for each slot: votes set no timers. [visigoth L10]
    pub(super) fn lacks(self) -> Option<Lacks> {
        let core = self.core;
        let wait = core.slow_after()?;
        if !core.is_mine() || core.life.halted || !core.life.started {
            return None;
        }
        // Who was late itself saw answers late, too.
        let wait = wait.max(self.watch.late());
        let lacks = |what, since: Time, chain| {
            let asks = core.may_lie().then(|| since.plus(wait));
            Lacks { what, asks, due: since.plus(wait.times(chain + 1)) }
        };
        if !core.has_begun() {
            return Some(lacks(Lack::Statements, self.watch.entered(), 1));
        }
        let slot = self.watch.open_since().zip(self.voting.chain(core));
        let slot = slot.map(|(since, chain)| lacks(Lack::Votes, since, chain));
        let round = || self.reads.waits_since().map(|since| lacks(Lack::Round, since, 1));
        // Until a quorum answered in this view, the host proposes nothing.
        let began = self.reads.began_at();
        let first = || (!self.reads.is_confirmed(core)).then(|| lacks(Lack::FirstRound, began, 1));
        slot.or_else(round).or_else(first)
    }

    /// Who did not lack it: voted for what this leader took, made a sound statement, or answered.
    pub(super) fn supporters(self, lack: Lack) -> Vec<ReplicaId> {
        let mut set = match lack {
            Lack::Statements => supporters(self.gathered, self.core),
            Lack::Votes => self.voting.supporters(self.core),
            Lack::Round => self.reads.supporters(self.core),
            Lack::FirstRound => self.reads.first_supporters(self.core),
        };
        set.sort_unstable();
        set
    }
}

/// What is known of small quorums here.
#[derive(Debug, Default)]
pub(super) struct Few {
    gather: Gather,
    /// Whom members miss, where some may lie.
    reach: Reach,
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
    /// `seed` differs between two starts of a replica.
    pub(super) fn new(seed: u64) -> Self {
        Self { reach: Reach::new(seed), ..Self::default() }
    }

    /// Another view was entered.
    pub(super) fn enter(&mut self) {
        self.gather.enter();
        self.reach.enter();
        self.well_since = None;
    }

    /// Another membership holds, which has a register of its own.
    pub(super) fn begin(&mut self, seed: u64) {
        *self = Self::new(seed);
    }

    /// When there is something to do, if nothing comes before; what is late already is done in each step.
    pub(super) fn deadline(&self, at: Awaited<'_>) -> Option<Time> {
        let lacks = at.lacks();
        let own = [lacks.and_then(|lacks| lacks.asks), lacks.map(|lacks| lacks.due)];
        let states = at.core.slow_after().and_then(|wait| self.reach.due(wait.times(2)));
        own.into_iter().chain([states]).flatten().filter(|due| *due > at.core.now()).min()
    }

    /// If the usual quorum is late, asks the oracle for a small one. Gives the set that it asks for. [visigoth L11-L15]
    pub(super) fn ask(&mut self, at: Awaited<'_>, out: &mut Effects) -> Option<Vec<ReplicaId>> {
        let core = at.core;
        let Lacks { what, asks, due } = at.lacks()?;
        if core.now() < asks.unwrap_or(due) {
            return None;
        }
        let set = at.supporters(what);
        if core.quorums().hold(set.len(), |id| set.contains(&id)) {
            return None;
        }
        if core.may_lie() {
            self.ask_whom_they_miss(core, out);
        }
        let here = core.here(at.gathered.last());
        // Until the usual quorum decided something, or met, nothing shows that all members ask the same oracle. [visigoth L27]
        let begins = here.membership == MembershipId::FIRST && here.decided == View::ZERO;
        let begins = begins && !core.members.met;
        // In a new cluster members may still be starting.
        let due = if begins { due.plus(at.watch.patience(&core.config)) } else { due };
        if core.now() < due || begins && !core.members.have_met() {
            return None;
        }
        let wish = if core.may_lie() {
            self.claim(what, set, at)
        } else {
            (set.len() >= core.members.trust().smallest() as usize).then_some((set, None))
        };
        let (set, claim) = wish?;
        if let Some(request) = self.gather.ask(set.clone(), claim, here, core.now(), core.config.repeat) {
            out.push(Effect::Oracle(request));
        }
        Some(set)
    }

    /// Where members may lie: the set that may go on, and what shows it. One that takes part and then withholds what is lacked must not
    /// keep the others waiting. So those that did what comes before it may be the set, too, and sets that were granted in vain are passed
    /// over. [visigoth L32]
    fn claim(
        &self,
        what: Lack,
        supporters: Vec<ReplicaId>,
        at: Awaited<'_>,
    ) -> Option<(Vec<ReplicaId>, Option<Claim>)> {
        let (core, here) = (at.core, at.core.here(at.gathered.last()));
        let before = if matches!(what, Lack::Votes) { at.voting.writers(core) } else { Vec::new() };
        let granted = core.granted.of(core.office.view());
        let liars = core.truth() - 1;
        let news = |proof: &&Proof| !self.gather.knows_floor(proof.view);
        let proof = core.decisions(at.gathered.last()).max_by_key(|proof| proof.view).filter(news);
        let sets = [supporters, before].into_iter().flat_map(|of| self.reach.near(&of, liars));
        let mut fit =
            sets.filter(|set| set.len() >= here.trust.smallest() as usize && !granted.contains(set));
        fit.find_map(|set| {
            let claim = self.reach.claim(&set, here, proof.cloned())?;
            Some((set, Some(claim)))
        })
    }

    /// [visigoth L28]
    pub(super) fn ask_whom_they_miss(&mut self, core: &Core, out: &mut Effects) {
        let Some(wait) = core.slow_after() else { return };
        let pause = core.config.repeat.max(wait.times(4));
        if let Some(tag) = self.reach.ask(core.now(), pause) {
            core.send_all(out, &Body::Ask { tag }, None);
            self.look_for_all(tag, core, out);
        }
    }

    /// [visigoth L29]
    pub(super) fn on_ask(&mut self, from: ReplicaId, tag: u64, core: &Core, out: &mut Effects) {
        if from == core.leader() && core.looks_for_others() {
            self.look_for_all(tag, core, out);
        } else {
            reject(out, from, Reject::NotAllowed("a question whom others miss"));
        }
    }

    fn look_for_all(&mut self, tag: u64, core: &Core, out: &mut Effects) {
        let wait = core.slow_after().unwrap_or(Span::ZERO).times(2);
        if self.reach.on_ask(tag, core.now(), wait) {
            core.send_all(out, &Body::Probe { tag }, None);
        }
    }

    pub(super) fn on_probed(&mut self, from: ReplicaId, tag: u64) {
        self.reach.on_probed(from, tag);
    }

    /// Says to the leader whom this member misses, once the others had their time. [visigoth L30]
    pub(super) fn say_whom_it_misses(&mut self, core: &Core, out: &mut Effects) {
        let Some(wait) = core.slow_after() else { return };
        let (me, voters) = (core.config.me, core.members.voters());
        let Some((tag, ids)) = self.reach.states(me, voters, core.now(), wait.times(2)) else { return };
        let signature = core.auth.sign(&core.misses_statement(tag, &ids));
        if core.is_leader() {
            self.on_misses(me, (tag, ids, signature), core, out);
        } else {
            core.send(out, core.leader(), Body::Misses { tag, ids, signature }, None);
        }
    }

    /// [visigoth L31]
    pub(super) fn on_misses(
        &mut self,
        from: ReplicaId,
        said: (u64, Vec<ReplicaId>, Signature),
        core: &Core,
        out: &mut Effects,
    ) {
        let (tag, signature) = (said.0, said.2);
        let signed = |ids: &[ReplicaId]| core.auth.verify(from, &core.misses_statement(tag, ids), &signature);
        if let Err(why) = self.reach.said(from, said, core.members.voters(), signed) {
            reject(out, from, why);
        }
    }

    /// The message shows a decision of a small quorum that is not known here, so that it can not be judged yet. The oracle is asked, and the
    /// message comes again. [visigoth L37]
    pub(super) fn must_read_first(&mut self, body: &Body, core: &Core, out: &mut Effects) -> bool {
        let proof = match body {
            Body::StopData { last, .. } | Body::Sync { last, .. } => last.as_ref(),
            Body::Gone { proof, .. } => proof.as_ref(),
            Body::Decision { proof, .. } => Some(proof),
            _ => None,
        };
        let unknown = core.looks_for_others() && proof.is_some_and(|proof| core.rests_on_unknown(proof));
        if unknown {
            self.read(core, out);
        }
        unknown
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

    /// What the oracle said was granted.
    pub(super) fn grants(&self) -> impl Iterator<Item = Grant> + '_ {
        self.gather.grants()
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
        let asks = core.config.oracle && core.leads();
        let unknown = asks && core.may_be_bound_in(here) && self.gather.may_be_bound(here);
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
        let asks = core.config.oracle && core.leads();
        if !asks || core.slow_after().is_none() || !core.may_be_bound_in(here) {
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
        let decided = self.decisions(shown).map(|proof| proof.view).max();
        Here {
            membership: self.membership_number(),
            view: self.office.view(),
            decided: decided.unwrap_or(View::ZERO),
            voters: self.members.voters(),
            trust: self.members.trust(),
        }
    }

    /// Proofs that something was decided in this tenure. `shown`: one of a slot that is not decided here yet.
    fn decisions<'a>(&'a self, shown: Option<&'a Proof>) -> impl Iterator<Item = &'a Proof> {
        let begins = self.members.tenures().now().begins;
        let proofs = self.ledger.proof(self.decided()).into_iter().chain(shown);
        proofs.filter(move |proof| proof.view >= begins)
    }

    /// Whether it has a proof that something was decided in this tenure.
    pub(super) fn knows_decision(&self) -> bool {
        self.decisions(None).any(|proof| proof.view > View::ZERO)
    }

    /// Whether members say whom they miss before few of them go on.
    pub(super) fn looks_for_others(&self) -> bool {
        self.may_lie() && self.slow_after().is_some()
    }

    /// Whether fewer accepted this than the usual quorum, and nobody said here that they were one.
    fn rests_on_unknown(&self, proof: &Proof) -> bool {
        let trust = self.members.trust();
        let accepts = &proof.accepts;
        let few = accepts.len() < trust.agreement() as usize && accepts.len() >= trust.smallest() as usize;
        let has = |id: &ReplicaId| accepts.iter().any(|(member, _)| member == id);
        few && !self.granted.of(proof.view).iter().any(|set| set.iter().all(has))
    }

    /// Tells the host which small quorums the present view has, if these are others than before.
    pub(super) fn say_granted(&mut self, out: &mut Effects) {
        let sets = self.granted.of(self.office.view());
        if sets != self.said {
            self.said = sets.to_vec();
            out.push(Effect::SmallQuorums { sets: self.said.clone() });
        }
    }

    /// Tells a member, or all, which small quorums the present view has.
    pub(super) fn tell_granted(&self, to: Option<ReplicaId>, out: &mut Effects) {
        let sets = self.granted.of(self.office.view());
        if sets.is_empty() {
            return;
        }
        let body = Body::Granted { sets: sets.to_vec(), since: self.granted.since() };
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
