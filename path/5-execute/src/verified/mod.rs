//! Verified execution: results become final when the order says which ones count, or when no ruling can say anything else.
//!
//! Another executor runs ahead. After each batch its state and replies are summed up in a token, which replicas tell each other. The leader
//! of the first instance orders a ruling about them in its next batch ([`Ruling`]): results up to a seq are those with this token, or
//! everything that is not final runs again. Rulings are delivered like batches, so all replicas carry out the same ones at the same places.
//! This file carries them out; `verify.rs` counts tokens and says which rulings are right.
//!
//! The final state is apart from the one ahead ([`Executor::follow`](crate::Executor)). Replies, reads, images and events come from the
//! final one. Delivery never waits for execution, since the ruling for a batch lies behind it.
//!
//! INV-VERIFY-2: what a batch with commands does when it is final is what the log rules. INV-VERIFY-3: it is final after a ruling for it, or once
//! all executors, or those few that are enough, told the same where they only crash.
//! INV-VERIFY-1 is in `executor/following.rs`. Source: Kapritsos (Eve), sections 3.3 and 3.4. Docs: docs/protocols/eve.md.
//! Tests: `tests/all/verified.rs`.

mod alone;
mod chain;
mod early;
mod history;
mod items;
mod memo;

use crate::checkpoint::CheckpointError;
use crate::execution::{Execution, Final, Known, Ordered};
use crate::executor::Executor;
use crate::ordered::Parallelism;
use crate::outcomes::Outcomes;
use crate::parallel::ParallelService;
use crate::verify::OwnTokens;
use crate::work::{Work, Worked};
pub(crate) use chain::Chain;
use chain::chained;
use early::{Early, Proposals};
pub use history::Worth;
use history::{History, Lacks};
pub use items::{Counts, Differs, Ruled};
use items::{Item, Judged, Ran, follow, is_quiet};
pub use memo::Memo;
use memo::Memos;
use quorate_state::store::{Changed, Store, Version};
use quorate_types::{Digest, Seq, Time, View, planted};
use quorate_wire::{Batch, MemosWanted, Ruling};
use std::collections::VecDeque;
use std::sync::Arc;

/// While the executor ahead has something to do, no more is delivered than this many items, and bytes of batches.
const ITEMS_MAX: usize = 4096;
const BYTES_MAX: usize = 64 << 20;

/// S12: so many batches, one that runs and one that waits, are enough for an executor that runs one after the other.
const ENOUGH: usize = 2;

/// Verified execution; see the module.
pub struct Verified {
    last: Executor,
    ahead: Box<dyn Execution>,
    /// The service, if it can write down what commands told.
    service: Option<Arc<dyn ParallelService>>,
    items: VecDeque<Item>,
    /// How many of the items are delivered; those behind were only proposed.
    delivered: usize,
    early: Early,
    runs_early: bool,
    proposals: Proposals,
    /// In which views delivered batches were proposed.
    placed: Vec<(Seq, View)>,
    /// How many of the items the executor ahead has, and how many of those ran.
    fed: usize,
    ran: usize,
    /// Bytes of the batches among the items.
    bytes: usize,
    /// Bytes of what those that ran changed.
    changed: usize,
    /// The token after the last item that ran, and that of the final state.
    tail: Digest,
    final_token: Digest,
    rulings: VecDeque<Judged>,
    /// The attempt by the delivered rulings, and that in which the executor ahead runs.
    attempt: u64,
    lineage: u64,
    /// The last seq that the delivered rulings make final, and its token if the last one names it.
    ruled: Seq,
    ruled_token: Option<Digest>,
    /// Batches with commands behind that, and the last one that was delivered.
    loud: VecDeque<Seq>,
    last_loud: Seq,
    /// The last batch with commands before the last border.
    border: Option<Seq>,
    /// Results here up to this seq are those that were ruled.
    cleared: Seq,
    /// The ruling for this seq differed, and the commands ran again, with the memos up to this life; at last without any.
    retried: Option<(Seq, Option<u64>)>,
    differs: Option<Differs>,
    /// What was ruled and is not what this replica did; others are asked for it.
    lacks: Option<(Differs, Lacks)>,
    history: History,
    /// Tokens that nobody was told yet, and whether others want to hear also what came of running again.
    tokens: Vec<(Seq, Digest)>,
    tells_redone: bool,
    /// What the log keeps, or should keep, of batches that may come out differently when they run again.
    memos: Memos,
    spare: Outcomes,
    counts: Counts,
}

impl Verified {
    /// Continues from a state. `ahead` makes the execution that runs ahead.
    ///
    /// # Errors
    /// Gives back the state if the service has no twin.
    pub fn new(
        mut last: Executor,
        ahead: impl FnOnce(Executor) -> Box<dyn Execution>,
    ) -> Result<Self, Box<Executor>> {
        let chain = last.chain().unwrap_or(Chain::begin());
        last.set_chain(chain);
        let Some(mut twin) = last.twin().filter(|twin| twin.in_store().is_some()) else {
            return Err(Box::new(last));
        };
        drop(twin.take_events());
        let ahead = ahead(twin);
        let service = last.parallel();
        let mut verified = Self {
            last,
            service,
            ahead,
            items: VecDeque::new(),
            delivered: 0,
            early: Early::default(),
            runs_early: true,
            proposals: Proposals::default(),
            placed: Vec::new(),
            fed: 0,
            ran: 0,
            bytes: 0,
            changed: 0,
            tail: chain.token,
            final_token: chain.token,
            rulings: VecDeque::new(),
            attempt: 0,
            lineage: 0,
            ruled: Seq::ZERO,
            ruled_token: None,
            loud: VecDeque::new(),
            last_loud: Seq::ZERO,
            border: None,
            cleared: Seq::ZERO,
            retried: None,
            differs: None,
            lacks: None,
            history: History::default(),
            tokens: Vec::new(),
            tells_redone: false,
            memos: Memos::default(),
            spare: Outcomes::new(),
            counts: Counts::default(),
        };
        verified.begin(chain);
        Ok(verified)
    }

    /// Goes on from the present final state.
    fn begin(&mut self, chain: Chain) {
        let Chain { attempt, ruled, loud, token } = chain;
        self.items.clear();
        self.rulings.clear();
        self.tokens.clear();
        self.memos.begin(self.last.seq());
        (self.fed, self.ran, self.bytes, self.changed) = (0, 0, 0, 0);
        (self.delivered, self.early, self.proposals) = (0, Early::default(), Proposals::default());
        (self.tail, self.final_token) = (token, token);
        // From now on it is noted.
        drop(self.ahead.state_mut().take_changed());
        (self.attempt, self.lineage, self.ruled) = (attempt, attempt, ruled);
        self.ruled_token = None;
        (self.last_loud, self.border) = (loud, Some(loud));
        self.loud = [loud].into_iter().filter(|loud| *loud > ruled).collect();
        (self.cleared, self.retried) = (self.last.seq(), None);
        (self.differs, self.lacks) = (None, None);
        self.history.begin(self.last.seq());
        // Others may wait for a ruling about a batch before: this token stands for all of them.
        self.tokens.extend(Some((self.last.seq(), token)).filter(|(seq, _)| *seq > ruled));
    }

    /// What was ruled, by the delivered rulings.
    pub fn ruled(&self) -> Ruled {
        Ruled { attempt: self.attempt, seq: self.ruled, token: self.ruled_token }
    }

    /// The batches with commands that wait for a ruling.
    pub fn unruled(&self) -> impl Iterator<Item = &Batch> {
        let ruled = self.ruled;
        self.items.iter().take(self.delivered).filter_map(move |item| match &item.ordered {
            Ordered::Batch(seq, _, batch) if !item.quiet && *seq > ruled => Some(batch),
            _ => None,
        })
    }

    /// The first batch that waits for a ruling.
    pub fn waits(&self) -> Option<Seq> {
        self.loud.front().copied()
    }

    /// How many items are delivered and not final, and how many bytes their batches have and what those changed. A leader proposes nothing more
    /// while they are too many.
    pub fn behind(&self) -> (usize, usize) {
        (self.delivered, self.bytes + self.changed + self.memos.bytes())
    }

    /// Whether something ran of which nobody was told. While another attempt is to begin, that counts for nothing. A batch that may
    /// come out differently when it runs again is told once what it did is durable here.
    pub fn has_tokens(&self) -> bool {
        self.may_tell() || self.has_early()
    }

    fn may_tell(&self) -> bool {
        let may_tell = |(seq, _): &(Seq, Digest)| self.memos.may_tell(*seq);
        self.tokens.first().is_some_and(may_tell) && self.lineage == self.attempt && self.wrong().is_none()
    }

    /// Takes the tokens of what ran since the last call.
    pub fn take_tokens(&mut self) -> Option<OwnTokens> {
        if !self.may_tell() {
            return None;
        }
        let tell = self.tokens.partition_point(|(seq, _)| self.memos.may_tell(*seq));
        Some(OwnTokens { attempt: self.attempt, list: self.tokens.drain(..tell).collect() })
    }

    /// Others want to hear the token also of what ran again, although that is final at once.
    pub fn tell_what_ran_again(&mut self) {
        self.tells_redone = true;
    }

    /// The next memo that the log should have before the batch's token is told.
    pub fn unkept(&self) -> Option<&Memo> {
        self.memos.unkept()
    }

    /// The log took the memo that [`Self::unkept`] gave.
    pub fn is_noted(&mut self) {
        self.memos.is_noted();
    }

    /// There is no room for the memo that [`Self::unkept`] gave, and none is near: its batch runs again, one command after the other. Nobody heard of
    /// what it did. If that was ruled all the same, it stays, and the tokens behind it wait. Whether anything changed.
    pub fn can_not_keep(&mut self) -> bool {
        let Some(seq) = self.memos.unkept().map(|memo| memo.seq).filter(|seq| *seq > self.cleared) else {
            return false;
        };
        let Some(first) = self.items.iter().position(|item| item.is_at(seq)) else { return false };
        self.run_again(first, seq);
        true
    }

    /// The log takes no memos with more bytes.
    pub fn limit_memos(&mut self, bytes: usize) {
        self.memos.limit(bytes);
    }

    /// The memo of this number is durable.
    pub fn is_kept(&mut self, number: u64) {
        self.memos.is_kept(number);
    }

    /// Memos that the log had at the start: those batches come out as they did before.
    pub fn recall(&mut self, memos: Vec<Memo>) {
        self.memos.recall(memos, self.last.seq());
    }

    /// A durable checkpoint has everything up to this seq: memos up to there are not needed.
    pub fn trimmed(&mut self, seq: Seq) {
        self.memos.trimmed(seq);
        self.history.trimmed(seq);
    }

    /// Up to where results are final, and can be repeated after a restart.
    pub fn held(&self) -> Seq {
        let last = self.last.seq();
        self.memos.first_unkept().map_or(last, |seq| last.min(seq.previous()))
    }

    /// Another member is asked now, for everything.
    pub fn ask_anew(&mut self) {
        self.lacks.iter_mut().for_each(|(_, lacks)| lacks.again());
    }

    /// What others should be asked, if this replica did not do what was ruled.
    pub fn wanted(&self) -> Option<MemosWanted> {
        self.lacks.as_ref().map(|(_, lacks)| lacks.wanted())
    }

    /// Answers what another replica asks, if everything that it lacks is here.
    pub fn answer(&self, wanted: MemosWanted) -> Option<quorate_wire::Memos> {
        if self.may_vary() { self.history.answer(wanted, self.last.seq()) } else { None }
    }

    /// Another replica answers. If that is all, this replica takes over what was ruled, and goes on from there.
    pub fn told(&mut self, memos: quorate_wire::Memos) -> Worth {
        let Some((differs, lacks)) = &mut self.lacks else { return Worth::Nothing };
        let (Differs { seq, ruled, .. }, worth) = (*differs, lacks.told(self.lineage, memos));
        if worth != Worth::All {
            return worth;
        }
        self.run_alone(seq, None);
        if self.token_at(seq) != Some(ruled) {
            self.lacks.iter_mut().for_each(|(_, lacks)| lacks.again());
            return Worth::Nothing;
        }
        // Its own log should have them before it tells what it does after them.
        for memo in self.items.iter().take(self.ran).filter_map(|item| item.ran.as_ref()?.memo.clone()) {
            if memo.ruled && self.memos.of((memo.attempt, memo.seq), &memo.before, None).is_none() {
                self.memos.push(memo);
            }
        }
        (self.lacks, self.cleared) = (None, self.cleared.max(seq));
        self.counts.learnt += 1;
        self.tokens.push((seq, ruled));
        self.is_carried_out();
        Worth::All
    }

    /// Nobody can say what was ruled, but there is a state that has it: nothing that is delivered now helps, until that state takes the place of this one.
    pub fn give_up(&mut self) {
        let Some((differs, _)) = self.lacks.take() else { return };
        self.differs = Some(differs);
        self.items.clear();
        self.rulings.clear();
        (self.fed, self.ran, self.bytes, self.changed) = (0, 0, 0, 0);
        (self.delivered, self.early) = (0, Early::default());
    }

    /// Whether results may be others when batches run again. Then what all executors told may still be ruled otherwise, since one that starts again may
    /// tell something else.
    pub fn may_vary(&self) -> bool {
        self.ahead.may_vary()
    }

    /// All executors told this token of this attempt, so no ruling will say anything else: results up to there are final now. Whether that is new.
    pub fn agree(&mut self, attempt: u64, seq: Seq, token: Digest) -> bool {
        let in_time = attempt == self.lineage && self.lineage == self.attempt && self.differs.is_none();
        let is_new = in_time && seq > self.cleared && self.token_at(seq) == Some(token);
        if is_new {
            self.cleared = seq;
        }
        is_new
    }

    /// The token after a batch that is not final, if it ran.
    fn token_at(&self, seq: Seq) -> Option<Digest> {
        let item = self.items.iter().take(self.ran).find(|item| item.is_at(seq))?;
        item.ran.as_ref().map(|ran| ran.token)
    }

    /// Whether an executor that runs one batch after the other has enough of them: more would only make each smaller.
    pub fn has_enough(&self) -> bool {
        let waits = self.items.iter().skip(self.ran).filter(|item| !item.quiet);
        self.ahead.may_vary() && waits.take(ENOUGH).count() == ENOUGH
    }

    /// What differs here, until the state is replaced: nobody could say what was ruled.
    pub fn differs(&self) -> Option<Differs> {
        self.differs
    }

    /// What differs here, whether others are asked for what was ruled or the state is replaced.
    pub fn wrong(&self) -> Option<Differs> {
        self.differs.or(self.lacks.as_ref().map(|(differs, _)| *differs))
    }

    /// Numbers for the status.
    pub fn counts(&self) -> Counts {
        Counts { attempt: self.attempt, ruled: self.ruled, waiting: self.loud.len(), ..self.counts }
    }

    /// A ruling was delivered, in the batch of this seq.
    fn judge(&mut self, at: Seq, ruling: Ruling) {
        let in_time = ruling.attempt() == self.attempt || planted("old-attempt-counts");
        match ruling {
            Ruling::Final { seq, token, .. } if in_time && seq > self.ruled && seq < at => {
                (self.ruled, self.ruled_token) = (seq, Some(token));
                self.rulings.push_back(Judged::Final(seq, token));
            }
            Ruling::Redo { .. } if in_time => {
                self.attempt += 1;
                (self.ruled, self.ruled_token) = (at, None);
                self.rulings.push_back(Judged::Redo(at));
            }
            _ => self.counts.ignored += 1,
        }
        while self.loud.front().is_some_and(|seq| *seq <= self.ruled) {
            self.loud.pop_front();
        }
    }

    /// Gives the executor ahead what it has room for.
    fn feed(&mut self) {
        while let Some(item) = self.items.get(self.fed) {
            match &item.ordered {
                // The final state has those.
                Ordered::Border | Ordered::Ahead(_) => {}
                // It does what it did before, once everything before it ran.
                Ordered::Batch(seq, ..) if self.awaits_memo(*seq) => return,
                ordered if ordered.follows() || self.ahead.has_room() => self.ahead.deliver(ordered.clone()),
                _ => return,
            }
            self.fed += 1;
        }
    }

    /// Takes what ran ahead.
    fn hear(&mut self, now: Time) {
        while self.ran < self.fed {
            if matches!(self.items[self.ran].ordered, Ordered::Border | Ordered::Ahead(_)) {
                self.ran += 1;
                continue;
            }
            let Some(done) = self.ahead.next(now, &mut self.spare) else { return };
            let outcomes = std::mem::take(&mut self.spare);
            let changed = self.ahead.state_mut().take_changed();
            let (at, before) = (self.ran, self.tail);
            let changed = changed.unwrap_or_else(|| self.compared(self.ahead.state(), at));
            let mut ran = self.sum_up(matches!(done, Final::Batch(_)), (outcomes, changed), None);
            if let Ordered::Batch(seq, ..) = self.items[at].ordered {
                if self.ahead.has_varied() {
                    let (of, results) = ((self.lineage, seq), (&ran.outcomes, &ran.changed));
                    ran.memo = self.memos.add(of, before, self.service.as_deref(), results);
                    if ran.memo.is_none() {
                        self.ahead.failed(seq);
                        self.run_again(at, seq);
                        continue;
                    }
                }
                match at.checked_sub(self.delivered) {
                    Some(foreseen) => self.early.ran(foreseen, seq, ran.token),
                    None => self.tokens.push((seq, ran.token)),
                }
            }
            self.ran = self.note(at, ran);
        }
    }

    /// The objects after the items before this place, which ran.
    fn objects_before(&self, at: usize) -> Version {
        let mut store = self.last.in_store().map_or_else(Store::new, |last| Store::from_version(&last));
        let ran = self.items.iter().take(at).filter_map(|item| item.ran.as_ref());
        ran.for_each(|ran| store.apply(&ran.changed));
        store.version()
    }

    /// What the item at this place changed in a state that could not note it: by comparison.
    fn compared(&self, state: &Executor, at: usize) -> Changed {
        let (from, to) = (self.objects_before(at), state.in_store());
        to.map_or_else(Changed::default, |to| Changed::between(&from, &to))
    }

    /// Whether a memo says what this batch does, the next one that the executor ahead would get, or may say it once everything before ran.
    fn awaits_memo(&self, seq: Seq) -> bool {
        let of = (self.lineage, seq);
        self.memos.has(of.0, seq)
            && (self.ran < self.fed || self.memos.of(of, &self.tail, Some(u64::MAX)).is_some())
    }

    /// Repeats what a memo says of the next batch, if everything before ran. Whether anything changed.
    fn repeat(&mut self) -> bool {
        let Some(Ordered::Batch(seq, moment, batch)) = self.items.get(self.fed).map(|item| &item.ordered)
        else {
            return false;
        };
        if self.ran < self.fed || !self.awaits_memo(*seq) {
            return false;
        }
        let (seq, moment, batch) = (*seq, *moment, batch.clone());
        let Some((results, memo)) = self.remembered(seq, Some(u64::MAX)) else { return true };
        let (at, (outcomes, changed)) = ((seq, moment), &results);
        self.ahead.take_over(&Known { at, batch: &batch, outcomes, changed });
        let ran = self.sum_up(true, results, Some(memo));
        self.tokens.push((seq, ran.token));
        self.ran = self.note(self.ran, ran);
        for item in self.items.range(self.fed + 1..self.ran) {
            follow(self.ahead.state_mut(), &item.ordered, None);
        }
        drop(self.ahead.state_mut().take_changed());
        self.fed = self.ran;
        true
    }

    /// Sums up how the next item ran: its outcomes, and what it changed.
    fn sum_up(&mut self, is_batch: bool, results: (Outcomes, Changed), memo: Option<Memo>) -> Ran {
        let (outcomes, changed) = results;
        let mut did = Digest::new([0; Digest::BYTES]);
        if is_batch {
            did = chain::did(&outcomes, self.service.as_deref(), &changed);
            self.tail = chained(&self.tail, &did);
        }
        Ran { outcomes, changed, did, token: self.tail, memo }
    }

    /// Notes how the item at this place ran, with those that follow it. Gives the place of the next.
    fn note(&mut self, at: usize, ran: Ran) -> usize {
        let is_batch = matches!(self.items[at].ordered, Ordered::Batch(..));
        self.changed += ran.changed.records().len();
        self.items[at].ran = Some(Box::new(ran));
        let follow = self.items.iter().skip(at + 1).take_while(|item| item.ordered.follows()).count();
        at + 1 + if is_batch { follow } else { 0 }
    }

    /// Carries out the next ruling, if that is possible now. Whether anything changed.
    fn carry_out(&mut self) -> bool {
        match self.rulings.front().copied() {
            None => false,
            Some(Judged::Redo(at)) => {
                self.run_alone(at, None);
                self.ahead.failed(at);
                self.cleared = self.cleared.max(at);
                self.lineage += 1;
                self.memos.attempt(self.lineage);
                let tells = self.tells_redone && self.last.seq() <= at;
                self.tokens.extend(tells.then_some((at, self.tail)));
                self.is_carried_out();
                true
            }
            Some(Judged::Final(seq, token)) => self.take_over(seq, token),
        }
    }

    fn is_carried_out(&mut self) {
        self.rulings.pop_front();
        self.counts.rulings += 1;
    }

    /// Takes over the results up to this seq, if they are those with this token.
    fn take_over(&mut self, seq: Seq, token: Digest) -> bool {
        // It is final already, or was never a batch.
        let Some(item) = self.items.iter().find(|item| item.is_at(seq)) else {
            self.is_carried_out();
            return true;
        };
        let Some(own) = item.ran.as_ref().map(|ran| ran.token) else { return false };
        if own == token {
            self.cleared = seq;
            self.is_carried_out();
            return true;
        }
        // It may have been an accident, or this replica told it in an earlier life. What that one had no memo of came about one after the other.
        let last = match self.retried {
            Some((of, life)) if of == seq => life,
            _ => Some(u64::MAX),
        };
        if let Some(last) = last {
            let life = self.memos.life_before(self.lineage, seq, last);
            self.retried = Some((seq, life));
            self.run_alone(seq, life);
            return true;
        }
        let (has, lacks) = ((self.last.seq(), self.final_token), (seq, token));
        let differs = Differs { from: has.0.next(), seq, own, ruled: token };
        self.lacks = Some((differs, Lacks::new(has, lacks)));
        if !self.may_vary() {
            self.give_up();
        }
        false
    }

    /// Whether the first item is final.
    fn is_final(&self) -> bool {
        match self.items.front() {
            Some(Item { ordered: Ordered::Batch(seq, ..), quiet, .. }) => {
                self.ran > 0
                    && self.delivered > 0
                    && (*quiet || *seq <= self.cleared || planted("reply-before-the-ruling"))
            }
            Some(_) => self.ran > 0 && self.delivered > 0,
            None => false,
        }
    }

    fn pop(&mut self) -> Option<Item> {
        let item = self.items.pop_front()?;
        (self.fed, self.ran) = (self.fed.saturating_sub(1), self.ran.saturating_sub(1));
        self.delivered = self.delivered.saturating_sub(1);
        if let Ordered::Batch(_, _, batch) = &item.ordered {
            self.bytes -= batch.bytes().len();
        }
        let changed = item.ran.as_ref().map_or(0, |ran| ran.changed.records().len());
        self.changed = self.changed.saturating_sub(changed);
        Some(item)
    }

    /// The first item becomes final.
    fn take_first(&mut self, outcomes: &mut Outcomes) -> Option<Final> {
        let Item { ordered, chain, ran, .. } = self.pop()?;
        let ran = ran.map(|ran| *ran);
        if let Some(ran) = &ran {
            self.final_token = ran.token;
        }
        let done = match (&ordered, &ran) {
            (Ordered::Batch(seq, ..), Some(ran)) => {
                follow(&mut self.last, &ordered, Some(ran));
                if self.ahead.may_vary() {
                    self.history.push(*seq, ran.did, ran.memo.clone());
                }
                while self.items.front().is_some_and(|item| item.ordered.follows()) {
                    let item = self.pop()?;
                    follow(&mut self.last, &item.ordered, item.ran.as_deref());
                }
                Final::Batch(*seq)
            }
            (Ordered::Border, _) => {
                let chain = chain.unwrap_or(Chain::begin());
                self.last.set_chain(Chain { token: self.final_token, ..chain });
                let image = self.last.image();
                // Both states write in place, so they share less and less. Since an image is copied on write anyway, they begin anew with it.
                let objects = self.objects_before(self.ran);
                let ahead = self.ahead.state_mut();
                ahead.hold(&objects);
                drop(ahead.take_changed());
                return Some(Final::Image(image));
            }
            (Ordered::Ahead(border), _) => return Some(Final::Ahead(*border, self.last.objects())),
            (other, ran) => {
                follow(&mut self.last, other, ran.as_ref());
                Final::Nothing
            }
        };
        *outcomes = ran.map(|ran| ran.outcomes).unwrap_or_default();
        Some(done)
    }
}

impl Execution for Verified {
    fn deliver(&mut self, ordered: Ordered) {
        let (mut quiet, mut chain) = (true, None);
        match &ordered {
            Ordered::Ruled(at, ruling) => return self.judge(*at, *ruling),
            Ordered::Batch(seq, _, batch) => {
                quiet = is_quiet(batch);
                self.bytes += if self.differs.is_none() { batch.bytes().len() } else { 0 };
                if !quiet {
                    self.loud.push_back(*seq);
                    self.last_loud = *seq;
                }
            }
            Ordered::Border => {
                self.border = Some(self.last_loud);
                let (attempt, ruled, loud) = (self.attempt, self.ruled, self.last_loud);
                chain = Some(Chain { attempt, ruled, loud, token: self.final_token });
            }
            _ => {}
        }
        let is_mark = matches!(ordered, Ordered::Border | Ordered::Ahead(_));
        if self.differs.is_some() || !is_mark && self.is_as_foreseen(&ordered) {
            return;
        }
        let at = self.delivered;
        self.items.insert(at, Item { ordered, quiet, chain, ran: None });
        self.delivered += 1;
        // Only marks stand before something that was foreseen, and need not run.
        self.fed += usize::from(self.fed > at);
        self.ran += usize::from(self.ran > at);
    }

    fn next(&mut self, now: Time, outcomes: &mut Outcomes) -> Option<Final> {
        while self.lacks.is_none() {
            self.feed();
            self.hear(now);
            if self.is_final() {
                return self.take_first(outcomes);
            }
            if !self.carry_out() && !self.repeat() {
                break;
            }
        }
        None
    }

    fn deadline(&self) -> Option<Time> {
        self.ahead.deadline().filter(|_| self.ran < self.fed && self.lacks.is_none())
    }

    fn work(&mut self) -> Option<Work> {
        self.ahead.work()
    }

    fn worked(&mut self, done: Worked) {
        self.ahead.worked(done);
    }

    fn parallelism(&self) -> Option<Parallelism> {
        self.ahead.parallelism()
    }

    /// The ruling that all wait for may come with the next delivery. While something waits for the executor ahead, or for what others tell, that goes on
    /// without.
    fn has_room(&self) -> bool {
        self.lacks.is_none() && self.ran >= self.delivered
            || self.delivered < ITEMS_MAX && self.bytes < BYTES_MAX
    }

    fn is_settled(&self) -> bool {
        self.border.is_none_or(|loud| self.ruled >= loud || planted("border-before-its-ruling"))
    }

    fn verified(&self) -> Option<&Verified> {
        Some(self)
    }

    fn verified_mut(&mut self) -> Option<&mut Verified> {
        Some(self)
    }

    fn is_behind(&self) -> bool {
        self.delivered > 0 || self.differs.is_some()
    }

    fn state(&self) -> &Executor {
        if planted("read-before-the-ruling") { self.ahead.state() } else { &self.last }
    }

    fn state_mut(&mut self) -> &mut Executor {
        &mut self.last
    }

    fn restore(&mut self, system: &[u8], objects: &Version) -> Result<(), CheckpointError> {
        self.last.restore_image(system, objects)?;
        self.ahead.restore(system, objects)?;
        drop(self.ahead.state_mut().take_events());
        // There is none where the cluster began with a backup of another one.
        let chain = self.last.chain().unwrap_or(Chain::begin());
        self.last.set_chain(chain);
        self.begin(chain);
        Ok(())
    }

    fn invariants(&self) {
        self.ahead.invariants();
        assert!(self.ran <= self.fed && self.fed <= self.items.len(), "INV-VERIFY-2: items run in order");
        assert!(self.delivered <= self.items.len(), "INV-VERIFY-9: what is delivered comes first");
        assert!(self.lineage <= self.attempt, "INV-VERIFY-2: no attempt begins before its ruling");
        if self.items.is_empty() && self.differs.is_none() {
            let ahead = self.ahead.state();
            assert_eq!(ahead.seq(), self.last.seq(), "INV-VERIFY-1: both are as far");
            assert_eq!(ahead.time(), self.last.time(), "INV-VERIFY-1: both have the same time");
            assert_eq!(ahead.session_count(), self.last.session_count(), "INV-VERIFY-1: the same sessions");
            if let (Some(ahead), Some(last)) = (ahead.in_store(), self.last.in_store()) {
                assert!(ahead.same_objects(&last), "INV-VERIFY-1: the same objects");
            }
        }
    }
}
