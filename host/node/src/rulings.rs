//! Rulings about results: joins the counting of tokens (`path/5-execute/src/verify.rs`) to messages, leaders and voters. Only where results
//! are verified.
//!
//! Each turn, this replica tells all members the tokens of what it ran, and counts those that it heard. If it leads the first instance, it
//! proposes the ruling that is due, in its next batch or in one of its own. Where replicas may lie, voters vouch for a ruling by their own
//! count, and the protocol watches for one that is due and does not come. Docs: docs/protocols/verify.md. Tests: rulings/tests.rs, check/sim
//! (`--verify`).

mod exchange;

use crate::config::NodeConfig;
use crate::engine::Engine;
use crate::gate::Gate;
use crate::keeping::Keeping;
use exchange::{Exchange, Next};
use quorate_execute::{Differs, OwnTokens, Tellers, Verified, Verify, VerifyConfig, Worth};
use quorate_merge::RecordIndex;
use quorate_order::{Input as OrderInput, Standing};
use quorate_types::{Digest, Faults, InstanceId, ReplicaId, Seq, Span, Time, View, planted};
use quorate_wire::{
    BatchHeader, EarlyTokens, Memberships, Memos, MemosWanted, OutFrame, Ruling, TOKENS_MAX, Tokens,
};
use std::collections::BTreeMap;

/// A ruling that is due for longer is watched: a leader that lives orders it at once.
const LATE_AFTER: Span = Span::from_millis(100);
/// A ruling that waits for longer than this goes alone: slots under way may be no-ops, one after the other, and requests may not come.
const ALONE_AFTER: Span = Span::from_millis(10);
/// A leader proposes no requests while this many delivered items, or bytes of them, are not final.
const BEHIND_MAX: (usize, usize) = (1024, 32 << 20);

/// A ruling that a leader should propose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    ruling: Ruling,
    /// Whether results wait for it. If they are final already, it can wait for requests to go with.
    pub(crate) awaited: bool,
}

impl Due {
    pub(crate) fn ruling(self) -> Ruling {
        self.ruling
    }
}

/// What the part asks for.
#[derive(Debug)]
pub(crate) enum Out {
    /// To tell a member this, or all of them.
    Tell(Option<ReplicaId>, OutFrame),
    /// To step the first instance.
    Step(OrderInput),
    /// To take what became final.
    Finish,
    /// To repair this replica, whose results are wrong.
    Repair(Differs),
}

/// What the part asks about the rest of its replica.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// How far this replica has delivered.
    pub(crate) delivered: Seq,
    /// Whether it leads the first instance.
    pub(crate) leads: bool,
    /// Whether members may lie.
    pub(crate) may_lie: bool,
    /// If this replica lacks what was ruled: whether a member has a checkpoint to go on from, and whom to ask.
    pub(crate) asks: Option<(bool, Vec<ReplicaId>)>,
}

/// What a member says about results.
#[derive(Debug)]
pub(crate) enum Results {
    /// What batches did there.
    Tokens(Tokens),
    /// What batches did there that it does not know to be decided.
    Early(EarlyTokens),
    /// It lacks what was ruled.
    Wanted(MemosWanted),
    /// What was ruled, which this replica lacks.
    Memos(Memos),
}

/// What is known about results; nothing where they are not verified.
#[derive(Debug, Default)]
pub(crate) struct Rulings(Option<Counting>);

#[derive(Debug)]
struct Counting {
    me: ReplicaId,
    verify: Verify,
    exchange: Exchange,
    /// The voters, and how many make a quorum.
    voters: (Vec<ReplicaId>, usize),
    /// Up to where results are final: here, as it was told last, and at others.
    last: Seq,
    told_last: Seq,
    lasts: BTreeMap<ReplicaId, Seq>,
    /// Whether results may vary. Then others have to know up to where they are final.
    varies: bool,
    patience: Span,
    /// Whether this replica's tokens count.
    executes: bool,
    /// When the own tokens were told last, to all.
    told: Time,
    /// When it was looked last whether something is due.
    looked: Time,
    /// The batch for which a ruling has been due that this replica can not order itself, and since when.
    due: Option<(Seq, Time)>,
    /// The name under which the protocol watches for it.
    watched: Option<Digest>,
    /// Since when the ruling that is due here waits for a slot.
    waits: Option<Time>,
    /// The last record that was decided before this leadership. A ruling in it may say something else than what is due before it is delivered.
    before: Option<RecordIndex>,
    /// Whether it is delivered.
    knows: bool,
}

/// The name under which a ruling is watched. No request has it, since names of requests are hashes.
fn name_of(attempt: u64, waits: Seq) -> Digest {
    let mut name = [0; Digest::BYTES];
    name[8..16].copy_from_slice(&attempt.to_le_bytes());
    name[16..24].copy_from_slice(&waits.number().to_le_bytes());
    name[24] = 1;
    Digest::new(name)
}

/// Inputs.
impl Rulings {
    /// For a replica that verifies results. It doubts that a result comes after half of the time after which it doubts a silent leader.
    pub(crate) fn new(me: ReplicaId, patience: Span, extra: u32) -> Self {
        let patience = patience.divided(2);
        Self(Some(Counting {
            me,
            verify: Verify::new(VerifyConfig { me, patience, extra }),
            exchange: Exchange::default(),
            voters: (Vec::new(), usize::MAX),
            last: Seq::ZERO,
            told_last: Seq::ZERO,
            varies: false,
            lasts: BTreeMap::new(),
            patience,
            executes: false,
            told: Time::ZERO,
            looked: Time::ZERO,
            due: None,
            watched: None,
            waits: None,
            before: None,
            knows: false,
        }))
    }

    /// The voters of the first instance execute.
    pub(crate) fn meet(&mut self, memberships: &Memberships, faults: Faults) {
        let Some(counting) = &mut self.0 else { return };
        let voters: Vec<ReplicaId> = memberships.now().voters().collect();
        let trust = faults.among(u32::try_from(voters.len()).unwrap_or(u32::MAX).max(1));
        let quorum = if planted("quorum-of-liars") { trust.truth() } else { trust.results() };
        counting.executes = voters.contains(&counting.me);
        // Where few are slow, all that decide tell what they did: the usual quorum, or fewer while these are enough.
        let usual = if trust.smallest() < trust.agreement() { trust.agreement() } else { trust.collect() };
        let tellers = Tellers { usual: usual as usize, least: trust.collect() as usize };
        let tellers = Some(tellers).filter(|_| !faults.may_lie() && usual >= quorum);
        counting.voters = (voters.clone(), quorum as usize);
        counting.verify.set_executors(voters, quorum, tellers);
    }

    /// Looks what ran here, and whether a ruling is due.
    pub(crate) fn look(
        &mut self,
        now: Time,
        verified: Option<&mut Verified>,
        facts: Facts,
        out: &mut Vec<Out>,
    ) {
        let (Some(counting), Some(verified)) = (&mut self.0, verified) else { return };
        counting.looked = now;
        // Where members may lie, voters do not vouch for what contradicts a ruling that they have.
        counting.knows |= facts.may_lie;
        (counting.last, counting.varies) = (verified.held(), verified.may_vary());
        counting.exchange(now, verified, facts.asks.unwrap_or_default(), out);
        counting.verify.set_varies(verified.may_vary());
        for (seq, view) in verified.take_placed() {
            counting.verify.placed(seq, view);
        }
        counting.verify.delivered(now, verified.ruled(), verified.waits(), facts.delivered);
        if let Some(own) = verified.take_tokens() {
            let first = counting.verify.ran(now, own);
            counting.tell(None, &first, out);
        }
        while let Some((view, own)) = verified.take_early() {
            counting.tell_early(now, view, own, out);
        }
        if let Some((seq, token)) = counting.verify.final_already()
            && verified.agree(verified.ruled().attempt, seq, token)
        {
            out.push(Out::Finish);
        }
        if now >= counting.told.plus(counting.patience) {
            // They may have been lost with a connection.
            counting.told = now;
            counting.tell(None, &counting.verify.own(), out);
            counting.tell_last(None, out);
        }
        if facts.may_lie && !planted("rulings-unwatched") {
            counting.watch(now, verified, facts.leads, out);
        }
        out.extend(verified.differs().map(Out::Repair));
    }

    /// A member says something about results.
    pub(crate) fn heard(&mut self, now: Time, from: ReplicaId, says: Results) {
        let Some(counting) = &mut self.0 else { return };
        match says {
            Results::Tokens(tokens) => {
                counting.lasts.insert(from, tokens.last);
                counting.verify.heard(now, from, &tokens);
            }
            Results::Early(tokens) => drop(counting.verify.heard_early(now, from, &tokens)),
            Results::Wanted(wanted) => counting.exchange.asked(from, wanted),
            Results::Memos(memos) => counting.exchange.answered(from, memos),
        }
    }

    /// A member is connected again.
    pub(crate) fn again(&mut self, to: ReplicaId, out: &mut Vec<Out>) {
        if let Some(counting) = &mut self.0 {
            counting.tell(Some(to), &counting.verify.own(), out);
            let early = counting.verify.own_early().into_iter().filter(|_| counting.executes);
            out.extend(early.map(|tokens| Out::Tell(Some(to), tokens.frame())));
            counting.tell_last(Some(to), out);
        }
    }

    /// The first instance has another leader, or none.
    pub(crate) fn led(&mut self) {
        if let Some(counting) = &mut self.0 {
            counting.verify.led();
            (counting.before, counting.knows) = (None, false);
        }
    }

    /// Looks whether everything that was decided before this replica led the first instance is delivered. A leader that changes after few
    /// slots knows it before its first batch.
    pub(crate) fn learn(&mut self, first: Standing, engine: &Engine) {
        let Some(counting) = self.0.as_mut().filter(|counting| !counting.knows && first.handed_on) else {
            return; // in nearly every turn
        };
        let one = InstanceId::new(1);
        let before = *counting.before.get_or_insert_with(|| engine.handed(one));
        counting.knows = engine.merge().has_delivered(one, before);
    }

    /// Each of these sets of members is enough for now, although others have more members.
    pub(crate) fn few_are_enough(&mut self, sets: Vec<Vec<ReplicaId>>) {
        if let Some(counting) = &mut self.0 {
            counting.verify.set_few(sets);
        }
    }

    /// The state was replaced.
    pub(crate) fn restart(&mut self) {
        if let Some(counting) = &mut self.0 {
            counting.verify.restart();
        }
    }

    /// A batch with this header is proposed in the first instance.
    pub(crate) fn is_proposed(&mut self, now: Time, header: &BatchHeader) {
        if let (Some(counting), Some(ruling)) = (&mut self.0, header.ruling) {
            counting.verify.is_proposed(now, ruling);
            counting.waits = None;
        }
    }

    /// Whether the ruling that is due here, if one is, should go in a batch of its own. `busy`: other slots are under way.
    pub(crate) fn goes_alone(&mut self, now: Time, due: Option<Due>, busy: bool) -> bool {
        let Some(counting) = &mut self.0 else { return false };
        let Some(due) = due else {
            counting.waits = None;
            return false;
        };
        let since = *counting.waits.get_or_insert(now);
        // Each would be about the batch of the one before: they would fill the slots, one after the other.
        if counting.verify.is_under_way(now) {
            return false;
        }
        !busy && due.awaited || now >= since.plus(ALONE_AFTER)
    }
}

/// Questions.
impl Rulings {
    /// Whether results are verified. Otherwise nothing else has to be asked.
    #[inline]
    pub(crate) fn are_on(&self) -> bool {
        self.0.is_some()
    }

    /// What the part asks about the rest of its replica. `first`: the standing of the first instance.
    pub(crate) fn facts(
        &mut self,
        first: Standing,
        engine: &Engine,
        (keeping, gate, config): (&Keeping, &Gate, &NodeConfig),
    ) -> Facts {
        self.learn(first, engine);
        Facts {
            delivered: engine.agreed().seq(),
            leads: first.leading,
            may_lie: config.order.faults.may_lie(),
            asks: asks(engine, keeping, gate, config),
        }
    }

    /// The ruling that a leader should propose now. None if another one was delivered since tokens were counted, or may be under way from
    /// before it led.
    pub(crate) fn proposal(&self, now: Time, verified: Option<&Verified>) -> Option<Due> {
        let ruling = self.counts(verified)?.verify.proposal(now)?;
        let awaited = match ruling {
            Ruling::Final { seq, .. } => verified?.held() < seq,
            Ruling::Redo { .. } => true,
        };
        Some(Due { ruling, awaited })
    }

    /// The ruling that is right now, for a lane that knows what it proposed.
    pub(crate) fn due(&self, now: Time, verified: Option<&Verified>) -> Option<Ruling> {
        self.counts(verified)?.verify.due(now)
    }

    fn counts(&self, verified: Option<&Verified>) -> Option<&Counting> {
        let ruled = verified?.ruled();
        self.0.as_ref().filter(|counting| counting.verify.ruled() == ruled && counting.knows)
    }

    /// Whether a ruling is right, as far as this replica knows.
    pub(crate) fn may_vouch(&self, now: Time, ruling: &Ruling) -> bool {
        let right = |counting: &Counting| counting.verify.may_vouch(now, ruling);
        self.0.as_ref().is_some_and(|counting| planted("rulings-vouched") || right(counting))
    }

    /// When to look again, if nothing comes.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let counting = self.0.as_ref()?;
        let news = counting.varies && counting.executes && counting.told_last != counting.last;
        let tells = news.then(|| counting.told.plus(counting.patience));
        let exchange =
            counting.exchange.deadline().into_iter().chain(tells).chain(counting.verify.protects_until());
        let Some(since) = counting.verify.waits_since() else { return exchange.min() };
        let late = counting.due.map(|(_, since)| since.plus(LATE_AFTER));
        let alone = counting.waits.map(|since| since.plus(ALONE_AFTER));
        let again = [Some(since), Some(counting.told), counting.verify.proposed_at()];
        let again = again.into_iter().flatten().map(|at| at.plus(counting.patience));
        // A redo where a quorum agrees takes three times as long.
        let last = since.plus(counting.patience.times(3));
        // What is due already is looked at in each turn.
        again.chain(late).chain(alone).chain([last]).chain(exchange).filter(|at| *at > counting.looked).min()
    }

    /// Whether as many voters as a quorum has are final up to a seq, as far as this replica knows. Where results come again, that does not matter.
    pub(crate) fn are_final(&self, seq: Seq, verified: Option<&Verified>) -> bool {
        let (Some(counting), Some(verified)) = (&self.0, verified) else { return true };
        let is_final = |voter: &&ReplicaId| match **voter == counting.me {
            true => verified.held() >= seq,
            false => counting.lasts.get(*voter).is_some_and(|last| *last >= seq),
        };
        let (voters, quorum) = &counting.voters;
        !verified.may_vary()
            || voters.iter().filter(is_final).count() >= *quorum
            || planted("leaves-with-results")
    }

    /// Whether all executors have to tell the same now.
    pub(crate) fn asks_all(&self) -> bool {
        self.0.as_ref().is_some_and(|counting| counting.verify.protects())
    }

    /// How many tokens of others did not count.
    pub(crate) fn refused(&self) -> u64 {
        self.0.as_ref().map_or(0, |counting| counting.verify.refused())
    }

    pub(crate) fn invariants(&self) {
        self.0.iter().for_each(|counting| counting.verify.invariants());
    }
}

/// If this replica lacks what was ruled: whether a connected member has a checkpoint to go on from, and whom to ask.
fn asks(
    engine: &Engine,
    keeping: &Keeping,
    gate: &Gate,
    config: &NodeConfig,
) -> Option<(bool, Vec<ReplicaId>)> {
    let after = engine.verified()?.wanted()?.after;
    let is_there = |holder: &ReplicaId| gate.peers().to(*holder).is_some();
    let offered = keeping.holders(after.next()).iter().any(is_there);
    Some((offered, config.members.others().map(|member| member.replica).collect()))
}

/// Whether so much is not final, or has not run, that a leader should propose no requests now: they gather in a larger batch.
pub(crate) fn is_far(verified: Option<&Verified>) -> bool {
    let Some(verified) = verified else { return false };
    let (items, bytes) = verified.behind();
    items > BEHIND_MAX.0 || bytes > BEHIND_MAX.1 || verified.has_enough()
}

impl Counting {
    /// Answers members that lack what was ruled, and asks them if this replica does.
    fn exchange(
        &mut self,
        now: Time,
        verified: &mut Verified,
        (offered, members): (bool, Vec<ReplicaId>),
        out: &mut Vec<Out>,
    ) {
        for (from, wanted) in self.exchange.due(now) {
            if let Some(memos) = verified.answer(wanted) {
                self.exchange.served(now, from);
                out.push(Out::Tell(Some(from), memos.frame()));
            }
        }
        let worth = self.exchange.answer().map(|(from, memos)| (from, verified.told(memos)));
        if worth.is_some_and(|(_, worth)| worth == Worth::All) {
            out.push(Out::Finish);
        }
        let ask = |verified: &Verified, member, out: &mut Vec<Out>| {
            out.extend(verified.wanted().map(|wanted| Out::Tell(Some(member), wanted.frame())));
        };
        match self.exchange.next(now, (verified.wanted(), worth), (&members, offered)) {
            Next::Ask(member) => {
                verified.ask_anew();
                ask(verified, member, out);
            }
            Next::More(member) => ask(verified, member, out),
            Next::GiveUp => verified.give_up(),
            Next::Nothing => {}
        }
    }

    /// Tells a member, or all of them, these tokens.
    fn tell(&self, to: Option<ReplicaId>, own: &OwnTokens, out: &mut Vec<Out>) {
        for part in own.list.chunks(TOKENS_MAX).filter(|_| self.executes) {
            let tokens = Tokens { attempt: own.attempt, last: self.last, list: part.to_vec() };
            out.push(Out::Tell(to, tokens.frame()));
        }
    }

    /// Tells all members these tokens of batches that are not delivered.
    fn tell_early(&mut self, now: Time, view: View, own: OwnTokens, out: &mut Vec<Out>) {
        let mut tokens = EarlyTokens { attempt: own.attempt, view, list: own.list };
        tokens.list = self.verify.heard_early(now, self.me, &tokens);
        if self.executes && !tokens.list.is_empty() {
            out.push(Out::Tell(None, tokens.frame()));
        }
    }

    /// Tells a member up to where results are final; or all of them, if they may not know it.
    fn tell_last(&mut self, to: Option<ReplicaId>, out: &mut Vec<Out>) {
        if self.varies && self.executes && (to.is_some() || self.told_last != self.last) {
            let tokens = Tokens { attempt: self.verify.ruled().attempt, last: self.last, list: Vec::new() };
            out.push(Out::Tell(to, tokens.frame()));
        }
        if to.is_none() {
            self.told_last = self.last;
        }
    }

    /// The protocol watches for a ruling that is due as for a request.
    fn watch(&mut self, now: Time, verified: &Verified, leads: bool, out: &mut Vec<Out>) {
        let attempt = verified.ruled().attempt;
        let waits = verified.waits().filter(|_| !leads && self.verify.due(now).is_some());
        let before = self.due.filter(|(seq, _)| waits == Some(*seq));
        self.due = waits.map(|waits| before.unwrap_or((waits, now)));
        let late = self.due.filter(|(_, since)| now >= since.plus(LATE_AFTER));
        let wanted = late.map(|(waits, _)| name_of(attempt, waits));
        let before = std::mem::replace(&mut self.watched, wanted);
        if before != wanted {
            let changes = [before.map(OrderInput::Unwatch), wanted.map(OrderInput::Watch)];
            out.extend(changes.into_iter().flatten().map(Out::Step));
        }
    }
}

#[cfg(test)]
mod tests;
