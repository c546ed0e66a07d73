//! Which rulings about results are right: tokens of the executors are counted here. A state machine by itself, without messages.
//!
//! A *class* is the executors with one token at one seq. Results are final once a class has a quorum (`Trust::results`): one of them is
//! correct, and one of them stays. If no class can reach that any more, or results are missing for too long, everything that is not final
//! runs again. A leader proposes rulings; where replicas may lie, others vouch for them by the tokens that they heard themselves.
//!
//! | Eve (section 3.4) | here |
//! | --- | --- |
//! | executors send VERIFY to all verifiers | tokens to all members |
//! | PREPARE, COMMIT, VIEW-CHANGE, NEW-VIEW | the ordering protocol agrees on the ruling |
//! | max(u, r) + 1 matching VERIFYs of u + max(u, r) + 1 executors | the quorum, which is larger where more members execute |
//! | a VERIFY counts if its predecessor was committed | the token at the last ruling has to be the ruled one |
//! | u + 2 different tokens, or a time-out: roll back | no class can reach the quorum, counted exactly, or a time-out |
//! | extra protection mode | `verify/extra.rs` |
//!
//! INV-VERIFY-4: a replica tells one token for each attempt and seq, and before the batch is delivered one for each view. INV-VERIFY-5: of one executor, the first token for an attempt and a
//! seq counts. INV-VERIFY-6: tokens are kept only of seqs near what was delivered. Tests: verify/tests.rs.

pub(crate) mod early;
mod extra;

use crate::verified::Ruled;
use early::Early;
use extra::Extra;
use quorate_types::{Digest, ReplicaId, Seq, Span, Time, planted};
use quorate_wire::{Ruling, Tokens};
use std::collections::{BTreeMap, BTreeSet};

/// Tokens of this replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTokens {
    /// The attempt in which the batches ran.
    pub attempt: u64,
    /// The tokens, in order.
    pub list: Vec<(Seq, Digest)>,
}

/// Who executes, and how many must agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyConfig {
    /// This replica.
    pub me: ReplicaId,
    /// How long results may be missing before everything runs again.
    pub patience: Span,
    /// Where executors only crash: after so many rulings in a row about which all told the same in time, all have to. Never if 0.
    pub extra: u32,
}

/// How many executors tell what they did, where they only crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tellers {
    /// So many, while as many members decide as usual.
    pub usual: usize,
    /// So many in any case, once all that may fail have failed.
    pub least: usize,
}

/// Tokens for seqs further beyond what was delivered here are not kept.
const AHEAD_MAX: u64 = 4096;

/// The tokens of one attempt, by seq and executor.
type BySeq = BTreeMap<Seq, BTreeMap<ReplicaId, Digest>>;

/// See the module.
#[derive(Debug)]
pub struct Verify {
    config: VerifyConfig,
    executors: Vec<ReplicaId>,
    quorum: usize,
    /// Sets of fewer executors that are a quorum for now, whether or not the others are back (Visigoth, s < u).
    few: Vec<Vec<ReplicaId>>,
    /// Where executors only crash: how many of them are heard in the end.
    tellers: Option<Tellers>,
    /// When all executors have to tell the same.
    extra: Extra,
    /// Whether results of executors may vary. Then also a majority may have gone on from a result that was not the one that was ruled.
    varies: bool,
    ruled: Ruled,
    /// The first batch that waits for a ruling.
    waits: Option<Seq>,
    /// How far this replica has delivered.
    delivered: Seq,
    tokens: BySeq,
    early: Early,
    /// Where this replica ran batches again and came to another token than the one that it told first, which counts.
    changed: BTreeSet<Seq>,
    /// The tokens of the last seq that was ruled.
    past: BTreeMap<ReplicaId, Digest>,
    /// Those of the next attempt, which others may have begun before.
    next: BySeq,
    /// Since when a token of the first batch that waits is known.
    since: Option<Time>,
    /// The ruling that was proposed last in this leadership.
    proposed: Option<(Ruling, Time)>,
    /// Tokens that did not count: old, far, or another one than before.
    refused: u64,
}

impl Verify {
    /// Before the first token.
    pub fn new(config: VerifyConfig) -> Self {
        Self {
            // Who is in time is far sooner than anybody is missed.
            extra: Extra::new(config.extra, config.patience.divided(4)),
            config,
            executors: Vec::new(),
            quorum: usize::MAX,
            few: Vec::new(),
            tellers: None,
            varies: false,
            ruled: Ruled { attempt: 0, seq: Seq::ZERO, token: None },
            waits: None,
            delivered: Seq::ZERO,
            tokens: BySeq::new(),
            early: Early::default(),
            changed: BTreeSet::new(),
            past: BTreeMap::new(),
            next: BySeq::new(),
            since: None,
            proposed: None,
            refused: 0,
        }
    }

    /// These members execute, and so many of them must agree. `tellers`: where they only crash.
    pub fn set_executors(&mut self, executors: Vec<ReplicaId>, quorum: u32, tellers: Option<Tellers>) {
        if executors != self.executors {
            self.extra.leave();
        }
        (self.executors, self.quorum, self.tellers) = (executors, quorum as usize, tellers);
    }

    /// Each of these sets of members is enough for now: so the order has it.
    pub fn set_few(&mut self, few: Vec<Vec<ReplicaId>>) {
        if !few.is_empty() {
            self.extra.leave();
        }
        self.few = few;
    }

    /// Whether results may be others when batches run again.
    pub fn set_varies(&mut self, varies: bool) {
        self.varies = varies;
    }

    /// What was delivered: what the rulings say so far, the first batch that waits for one, and the last seq.
    pub fn delivered(&mut self, now: Time, ruled: Ruled, waits: Option<Seq>, delivered: Seq) {
        if ruled.attempt != self.ruled.attempt {
            let next = std::mem::take(&mut self.next);
            self.tokens = if ruled.attempt == self.ruled.attempt + 1 { next } else { BySeq::new() };
            self.changed.clear();
            self.proposed = None;
        }
        if ruled != self.ruled {
            self.past = self.tokens.get(&ruled.seq).cloned().unwrap_or_default();
            match ruled.token {
                Some(_) => self.extra.is_final(self.alike(Some(&self.past)) == Some(true)),
                None => self.extra.is_redone(),
            }
            self.tokens = self.tokens.split_off(&ruled.seq.next());
            self.changed = self.changed.split_off(&ruled.seq.next());
            self.next = self.next.split_off(&ruled.seq.next());
        }
        if waits != self.waits {
            self.since = None;
        }
        (self.ruled, self.waits, self.delivered) = (ruled, waits, delivered);
        self.early.delivered(delivered, ruled.seq);
        if self.extra.asks() {
            self.extra.look(now, (self.past.len(), self.alike(Some(&self.past))));
        }
        self.look(now);
    }

    /// Everything is forgotten: the state was replaced.
    pub fn restart(&mut self) {
        let (executors, quorum, refused) = (std::mem::take(&mut self.executors), self.quorum, self.refused);
        let (few, tellers, varies) = (std::mem::take(&mut self.few), self.tellers, self.varies);
        let new = Self::new(self.config.clone());
        *self = Self { executors, quorum, few, tellers, varies, refused, ..new };
    }

    /// This replica ran batches. Gives back the tokens that count, which the others should hear: the first ones.
    pub fn ran(&mut self, now: Time, own: OwnTokens) -> OwnTokens {
        let (me, now_in) = (self.config.me, own.attempt == self.ruled.attempt);
        let list = own.list.into_iter().filter(|(seq, token)| now_in && self.count(me, true, *seq, *token));
        let list = list.collect();
        self.look(now);
        OwnTokens { attempt: own.attempt, list }
    }

    /// An executor tells its tokens.
    pub fn heard(&mut self, now: Time, from: ReplicaId, tokens: &Tokens) {
        let is_next = Some(tokens.attempt) == self.ruled.attempt.checked_add(1);
        let counts = self.executors.contains(&from) || planted("non-executor-counts");
        if !(tokens.attempt == self.ruled.attempt || is_next) || !counts {
            self.refused += tokens.list.len() as u64;
            return;
        }
        for (seq, token) in &tokens.list {
            self.count(from, !is_next, *seq, *token);
        }
        self.look(now);
    }

    /// Notes a token. Whether it is the first of its executor for this attempt and seq.
    fn count(&mut self, from: ReplicaId, now: bool, seq: Seq, token: Digest) -> bool {
        let near = seq.number() <= self.delivered.number().saturating_add(AHEAD_MAX);
        let tokens = match now {
            true if seq == self.ruled.seq => &mut self.past,
            _ if seq <= self.ruled.seq => return false,
            _ if !near => {
                self.refused += 1;
                return false;
            }
            true => self.tokens.entry(seq).or_default(),
            false => self.next.entry(seq).or_default(),
        };
        let mut is_first = false;
        let first = tokens.entry(from).or_insert_with(|| {
            is_first = true;
            token
        });
        let differs = *first != token;
        if differs && from == self.config.me && now {
            self.changed.insert(seq);
        }
        self.refused += u64::from(differs);
        is_first
    }

    /// Notes since when a result waits.
    fn look(&mut self, now: Time) {
        let is_known = self.waits.is_some_and(|waits| self.tokens.range(waits..).next().is_some());
        if is_known {
            self.since.get_or_insert(now);
        }
    }

    /// Whether all executors told the same; `None` as long as some told nothing, and nobody something else.
    fn alike(&self, tokens: Option<&BTreeMap<ReplicaId, Digest>>) -> Option<bool> {
        let told = || self.executors.iter().filter_map(|of| tokens?.get(of));
        let is_one = told().all(|token| Some(token) == told().next());
        (!is_one || told().count() == self.executors.len()).then_some(is_one)
    }

    /// Whether all executors have to tell the same now.
    pub fn protects(&self) -> bool {
        let all = self.tellers.is_some() && self.few.is_empty();
        all && self.extra.is_on() && !planted("most-are-enough-for-all")
    }

    /// The ruling that is right while all have to tell the same. One that is silent may be held up by its threads.
    fn due_by_all(&self, waits: Seq, now: Time) -> Option<Ruling> {
        let attempt = self.ruled.attempt;
        if let Some((seq, token)) = self.unanimous() {
            return Some(Ruling::Final { attempt, seq, token });
        }
        let late = self.is_late(now, self.extra.patience);
        (late || self.alike(self.tokens.get(&waits)) == Some(false)).then_some(Ruling::Redo { attempt })
    }

    /// Whether an executor did up to the last ruling what was ruled. `None`: it did not say.
    ///
    /// Where executors only crash and do not vary, a majority did nothing wrong, and one that goes on from a checkpoint never tells that token.
    fn was_right(&self, executor: ReplicaId) -> Option<bool> {
        if self.tellers.is_some() && !self.varies {
            return Some(true);
        }
        if self.strays_from_proposed(executor) {
            return Some(false);
        }
        let Some(ruled) = self.ruled.token.filter(|_| !planted("past-not-checked")) else {
            return Some(true);
        };
        self.past.get(&executor).map(|token| *token == ruled)
    }

    /// Whether an executor that may only crash told something else than the ruling that was proposed here last, and is not delivered yet. After
    /// a restart it may tell other tokens of what comes next.
    fn strays_from_proposed(&self, executor: ReplicaId) -> bool {
        let Some((Ruling::Final { seq, token, .. }, _)) = self.proposed else { return false };
        if self.tellers.is_none() {
            return false;
        }
        let told = self.tokens.get(&seq).and_then(|tokens| tokens.get(&executor));
        told.is_some_and(|told| *told != token)
    }

    /// How many executors have each token at a seq, of those that were right before. Without that, a liar could side with one that was
    /// wrong (Kapritsos, section 3.4.1).
    fn classes(&self, seq: Seq) -> BTreeMap<Digest, usize> {
        let mut classes = BTreeMap::new();
        for (from, token) in self.tokens.get(&seq).into_iter().flatten() {
            let executes = self.executors.contains(from) || planted("non-executor-counts");
            if self.was_right(*from) == Some(true) && executes {
                *classes.entry(*token).or_insert(0) += 1;
            }
        }
        classes
    }

    /// How many executors make a class count.
    fn enough(&self) -> usize {
        if planted("ruling-by-one") { 1 } else { self.quorum }
    }

    /// The token of a class with a quorum.
    fn agreed(&self, seq: Seq) -> Option<Digest> {
        let enough = self.enough();
        let usual = self.classes(seq).into_iter().find(|(_, count)| *count >= enough).map(|(token, _)| token);
        usual.or_else(|| self.few.iter().find_map(|set| self.said_by_few(set, seq)))
    }

    /// The token that all of a set told at a seq, if they were right before, and this replica still has it if it is one of them.
    fn said_by(&self, set: &[ReplicaId], seq: Seq) -> Option<Digest> {
        let tokens = self.tokens.get(&seq)?;
        let one = tokens.get(set.first()?)?;
        let says = |from: &ReplicaId| {
            self.executors.contains(from)
                && tokens.get(from) == Some(one)
                && self.was_right(*from) == Some(true)
                && !(*from == self.config.me && self.changed.contains(&seq))
        };
        set.iter().all(says).then_some(*one)
    }

    /// The token that all of a set of few told at a seq. An executor outside counts as stopped as long as it tells nothing of what waits; if it
    /// does, it has to tell the same.
    fn said_by_few(&self, set: &[ReplicaId], seq: Seq) -> Option<Digest> {
        let token = self.said_by(set, seq)?;
        let waits = self.waits?;
        let agrees = |other: &ReplicaId| {
            let mut told = self.tokens.range(waits..).filter(|(_, tokens)| tokens.contains_key(other));
            told.next().is_none()
                || self.tokens.get(&seq).and_then(|tokens| tokens.get(other)) == Some(&token)
        };
        self.executors.iter().filter(|other| !set.contains(other)).all(agrees).then_some(token)
    }

    /// Whether a set of few can not agree: all of it told what they did at the first batch that waits, and somebody told something else.
    fn few_differ(&self, set: &[ReplicaId], waits: Seq) -> bool {
        let others = || self.executors.iter().filter(|other| !set.contains(other));
        let tells = |other: &&ReplicaId| self.have_told(&[**other], waits);
        let all: Vec<ReplicaId> = set.iter().chain(others().filter(tells)).copied().collect();
        self.have_told(set, waits) && self.said_by(&all, waits).is_none()
    }

    /// Whether all of a set told what they did at a seq.
    fn have_told(&self, set: &[ReplicaId], seq: Seq) -> bool {
        self.tokens.get(&seq).is_some_and(|tokens| set.iter().all(|from| tokens.contains_key(from)))
    }

    /// The last seq at which a class has a quorum, and its token.
    fn last_agreed(&self) -> Option<(Seq, Digest)> {
        let waits = self.waits?;
        let mut seqs = self.tokens.range(waits..=self.delivered.max(waits)).rev();
        seqs.find_map(|(seq, _)| Some((*seq, self.agreed(*seq)?)))
    }

    /// Whether no class can reach a quorum at the first batch that waits. Where fewer are enough, the others say nothing any more.
    fn is_split(&self) -> bool {
        let Some(waits) = self.waits else { return false };
        let crash = self.tellers.is_some() && !self.few.is_empty();
        if crash && self.few.iter().all(|set| self.few_differ(set, waits)) {
            return true;
        }
        let classes = self.classes(waits);
        let (said, most) = (classes.values().sum::<usize>(), classes.values().max().copied().unwrap_or(0));
        let wrong =
            self.executors.iter().filter(|executor| self.was_right(**executor) == Some(false)).count();
        said > 0 && most + self.executors.len().saturating_sub(said + wrong) < self.quorum
    }

    /// Whether the first batch that waits has waited for this long.
    fn is_late(&self, now: Time, by: Span) -> bool {
        self.since.is_some_and(|since| now >= since.plus(by))
    }

    /// Whether everything should run again. If a class has a quorum, its ruling comes first, and this only if it does not come.
    ///
    /// Where executors only crash and results come again, nothing runs again before as many told what they did as are heard in the end, nor while a
    /// quorum agrees. So where all executors told the same, no leader lets it run again: those that it hears told it that (see [`Self::unanimous`]).
    /// Where few are slow that is so for all that decide. If one of these tells nothing for long, it is the one that failed.
    fn is_redo_right(&self, now: Time) -> bool {
        let late = |by| self.is_late(now, by);
        match (self.last_agreed(), self.tellers) {
            (Some(_), None) => late(self.config.patience.times(3)),
            (None, None) => self.is_split() || late(self.config.patience),
            (Some(_), Some(_)) => false,
            // Where results vary nothing is final before its ruling, and one that waits for a state tells nothing.
            (None, Some(tellers)) => {
                let (told, all) = self.told();
                self.is_split()
                    || (self.varies || all || told >= tellers.usual || planted("redo-of-what-all-told"))
                        && late(self.config.patience)
                    || told >= tellers.least && late(self.config.patience.times(3))
            }
        }
    }

    /// The most executors that told what they did at one seq, from the first batch that waits on. One that goes on from a checkpoint tells
    /// nothing of batches before. And whether all told something of which few are enough.
    fn told(&self) -> (usize, bool) {
        let Some(waits) = self.waits else { return (0, false) };
        let of = |tokens: &BTreeMap<ReplicaId, Digest>| {
            tokens.keys().filter(|from| self.executors.contains(from)).count()
        };
        let most = self.tokens.range(waits..).map(|(_, tokens)| of(tokens)).max().unwrap_or(0);
        let seqs = || self.tokens.range(waits..).map(|(seq, _)| *seq);
        (most, self.few.iter().any(|set| seqs().any(|seq| self.have_told(set, seq))))
    }

    /// The last seq at which results are final before the ruling comes: where all told one token that an executor whose results come again tells again,
    /// so no ruling says anything else. Source: Kapritsos, section 3.4.2, where the primary of a pair answers once both tokens match.
    pub fn final_already(&self) -> Option<(Seq, Digest)> {
        let come_again = !self.varies && self.config.extra == 0;
        self.unanimous().filter(|_| come_again)
    }

    /// The last seq at which all executors told one token, or those few that are enough, if there is one that waits for a ruling. Only where they
    /// only crash.
    fn unanimous(&self) -> Option<(Seq, Digest)> {
        let waits = self.waits.filter(|_| self.tellers.is_some())?;
        let mut seqs = self.tokens.range(waits..=self.delivered.max(waits)).rev();
        seqs.find_map(|(seq, _)| {
            let few = self.few.iter().find_map(|set| self.said_by_few(set, *seq));
            Some((*seq, few.or_else(|| self.said_by(&self.executors, *seq))?))
        })
    }

    /// The ruling that is right now, if one is due.
    pub fn due(&self, now: Time) -> Option<Ruling> {
        let attempt = self.ruled.attempt;
        let waits = self.waits?;
        if self.protects() {
            return self.due_by_all(waits, now);
        }
        if self.is_redo_right(now) {
            return Some(Ruling::Redo { attempt });
        }
        self.last_agreed().map(|(seq, token)| Ruling::Final { attempt, seq, token })
    }

    /// The ruling that a leader should propose now.
    pub fn proposal(&self, now: Time) -> Option<Ruling> {
        let due = self.due(now)?;
        let again = |at: Time| now >= at.plus(self.config.patience);
        let is_new = match (self.proposed, due) {
            (None, _) => true,
            (Some((_, at)), _) if again(at) => true,
            (Some((Ruling::Final { seq: before, .. }, _)), Ruling::Final { seq, .. }) => seq > before,
            (Some((Ruling::Final { .. }, _)), Ruling::Redo { .. }) => true,
            (Some((Ruling::Redo { .. }, _)), _) => false,
        };
        is_new.then_some(due)
    }

    /// The ruling was proposed here.
    pub fn is_proposed(&mut self, now: Time, ruling: Ruling) {
        self.proposed = Some((ruling, now));
    }

    /// Another leadership begins: nothing is known of what was proposed before.
    pub fn led(&mut self) {
        self.proposed = None;
    }

    /// Whether a ruling is right, as far as is known here. One that will count for nothing is right.
    pub fn may_vouch(&self, now: Time, ruling: &Ruling) -> bool {
        if ruling.attempt() != self.ruled.attempt {
            return ruling.attempt() < self.ruled.attempt;
        }
        match ruling {
            Ruling::Final { seq, .. } if *seq <= self.ruled.seq => true,
            Ruling::Final { seq, token, .. } => {
                self.classes(*seq).get(token).is_some_and(|count| *count >= self.enough())
                    || self.few.iter().any(|set| self.said_by_few(set, *seq) == Some(*token))
            }
            Ruling::Redo { .. } => self.is_redo_right(now),
        }
    }

    /// The own tokens that matter, for a member that may not have heard them: those that wait for a ruling, and that of the last one.
    pub fn own(&self) -> OwnTokens {
        let me = self.config.me;
        let past = self.past.get(&me).map(|token| (self.ruled.seq, *token));
        let own = self.tokens.iter().filter_map(|(seq, of)| Some((*seq, *of.get(&me)?)));
        OwnTokens { attempt: self.ruled.attempt, list: past.into_iter().chain(own).collect() }
    }

    /// What was ruled, as far as it counts tokens.
    pub fn ruled(&self) -> Ruled {
        self.ruled
    }

    /// Since when a result waits for a ruling, if one is known.
    pub fn waits_since(&self) -> Option<Time> {
        self.since
    }

    /// Whether a ruling that was proposed here lately was not delivered yet.
    pub fn is_under_way(&self, now: Time) -> bool {
        self.proposed.is_some_and(|(ruling, at)| {
            let is_open = match ruling {
                Ruling::Final { seq, .. } => seq > self.ruled.seq,
                Ruling::Redo { .. } => true,
            };
            is_open && now < at.plus(self.config.patience)
        })
    }

    /// When something becomes right because all were waited for long enough, if they have to tell the same.
    pub fn protects_until(&self) -> Option<Time> {
        let waits = self.since.filter(|_| self.protects()).map(|since| since.plus(self.extra.patience));
        waits.into_iter().chain(self.extra.until()).min()
    }

    /// When a ruling was proposed here last, in this leadership and attempt.
    pub fn proposed_at(&self) -> Option<Time> {
        self.proposed.map(|(_, at)| at)
    }

    /// How many tokens did not count.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Panics with the name of an invariant that does not hold.
    pub fn invariants(&self) {
        for tokens in [&self.tokens, &self.next] {
            if let (Some((first, _)), Some((last, _))) = (tokens.first_key_value(), tokens.last_key_value()) {
                let far = self.delivered.number().saturating_add(AHEAD_MAX);
                assert!(*first > self.ruled.seq && last.number() <= far, "INV-VERIFY-6: tokens are near");
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
