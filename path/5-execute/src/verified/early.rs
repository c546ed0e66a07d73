//! Batches that run before they are decided: a leader proposed them, and they will probably be the next ones. What they do waits until they are
//! delivered; others hear of it at once, with the view in which the batch was proposed.
//!
//! A proposal of a view follows the same batches wherever it is decided. So for the one that counts at a seq, in its view, an executor tells
//! one token. If another batch is delivered, the executor ahead goes back to the state before, and what it told of others counts nowhere.
//!
//! INV-VERIFY-9: nothing is final, and no reply leaves, of a batch that is not delivered. Docs: docs/protocols/verify.md (V16). Source: Kapritsos (Eve),
//! section 3.2, where replicas execute before they agree. Tests: `tests/all/early.rs`.

use super::Verified;
use super::items::{Item, is_quiet};
use crate::agreed::Agreed;
use crate::execution::Ordered;
use crate::verify::OwnTokens;
use quorate_types::{Digest, InstanceId, Seq, Slot, View, planted};
use quorate_wire::{Batch, SystemCommand};
use std::collections::{BTreeMap, VecDeque};

/// So many batches run early at most, and so many bytes of them.
const BATCHES_MAX: usize = 64;
const BYTES_MAX: usize = 16 << 20;

/// More proposals than this are not kept.
const PROPOSALS_MAX: usize = 256;

/// Batches that were proposed and are not delivered.
#[derive(Debug, Default)]
pub(super) struct Proposals {
    /// By their records in the instance, with their views: the end of its log here.
    list: BTreeMap<u64, (View, Batch)>,
    /// Up to this record they may run: the turn in which they came is over.
    ripe: u64,
}

/// What is known of batches that are not delivered.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// The facts that will be agreed behind the last of them, if there is one.
    behind: Option<Agreed>,
    /// Their records and views, in order.
    views: VecDeque<(u64, View)>,
    bytes: usize,
    /// Tokens that nobody was told yet.
    tokens: Vec<(Seq, View, Digest)>,
}

impl Early {
    /// The batch at this place behind the delivered ones ran.
    pub(super) fn ran(&mut self, at: usize, seq: Seq, token: Digest) {
        self.tokens.extend(self.views.get(at).map(|(_, view)| (seq, *view, token)));
    }

    /// Nobody hears what was not told yet.
    pub(super) fn hush(&mut self) {
        self.tokens.clear();
    }
}

impl Verified {
    /// How many batches run early.
    pub fn foreseen(&self) -> usize {
        self.items.len() - self.delivered
    }

    /// A batch was proposed here, or by the leader that this replica follows, as this record of its instance. What was proposed before for this
    /// place, and behind it, is gone.
    pub fn proposed(&mut self, record: u64, view: View, batch: Batch) {
        // What runs behind what is gone, or behind a gap, would be of another past than its view says.
        let foreseen = self.early.views.back().map(|(last, _)| *last);
        let last = self.proposals.list.last_key_value().map(|(last, _)| *last).max(foreseen);
        if last.is_some_and(|last| record > last + 1) {
            self.proposals.list.clear();
            self.forget_foreseen();
        }
        if foreseen.is_some_and(|last| record <= last) && !planted("stale-foreseen-stays") {
            self.forget_foreseen();
        }
        let varies = self.may_vary();
        let Proposals { list, ripe } = &mut self.proposals;
        drop(list.split_off(&record));
        *ripe = record.saturating_sub(1).min(*ripe);
        if list.len() < PROPOSALS_MAX && !varies {
            list.insert(record, (view, batch));
        }
    }

    /// A turn is over: what was proposed in it may run in the next one, since the messages about it have left.
    pub fn end_turn(&mut self) {
        if let Some((last, _)) = self.proposals.list.last_key_value() {
            self.proposals.ripe = *last;
        }
    }

    /// Batches wait here until they are delivered. Others may be told early all the same.
    pub fn waits_for_delivery(&mut self) {
        self.runs_early = false;
    }

    /// Whether something could run now that was proposed, if this record is the last one that is delivered.
    pub fn foresees(&self, record: u64) -> bool {
        self.proposals.ripe > record && self.next_behind(record).is_some()
    }

    /// Lets run what was proposed behind this record, the last one that is delivered. Whether anything runs early. The next batch is decided
    /// by this instance in this slot, and those behind it in the slots that follow: tokens of what runs early count, so that must be sure.
    pub fn foresee_behind(&mut self, record: u64, (instance, slot): (InstanceId, Slot)) -> bool {
        while let Some((next, view, batch)) = self.next_behind(record) {
            let slot = Slot::new(slot.number() + self.foreseen() as u64);
            self.foresee((next, view), (instance, slot), &batch);
        }
        self.foreseen() > 0
    }

    /// The next batch that could run early. None behind one that changes more than the state of the service.
    fn next_behind(&self, record: u64) -> Option<(u64, View, Batch)> {
        let next = record + 1 + self.foreseen() as u64;
        let (view, batch) = self.proposals.list.get(&next).filter(|_| next <= self.proposals.ripe)?;
        let stands_alone = batch.no_op_target().is_some() || SystemCommand::of(batch).is_some();
        (!stands_alone && self.may_foresee(batch)).then(|| (next, *view, batch.clone()))
    }

    /// Whether this batch may run early. What may come out differently the next time does not.
    fn may_foresee(&self, batch: &Batch) -> bool {
        let full = self.foreseen() >= BATCHES_MAX || self.early.bytes + batch.bytes().len() > BYTES_MAX;
        !full && self.runs_early && !self.may_vary() && self.wrong().is_none()
    }

    /// The batch will probably be the next one behind those that are foreseen. It runs now.
    fn foresee(&mut self, (record, view): (u64, View), place: (InstanceId, Slot), batch: &Batch) {
        let mut agreed = self.early.behind.take().unwrap_or_else(|| self.last.agreed().clone());
        let seq = agreed.seq().next();
        let moment = agreed.deliver(seq, place, &batch.header());
        self.early.behind = Some(agreed);
        self.early.views.push_back((record, view));
        self.early.bytes += batch.bytes().len();
        let quiet = is_quiet(batch);
        let ordered = Ordered::Batch(seq, moment, batch.clone());
        self.items.push_back(Item { ordered, quiet, chain: None, ran: None });
    }

    /// The batch of this seq is delivered, as this record of its instance.
    pub fn is_placed(&mut self, seq: Seq, record: u64, batch: &Batch) {
        let list = &mut self.proposals.list;
        if list.is_empty() {
            return;
        }
        let later = list.split_off(&(record + 1));
        let these = std::mem::replace(list, later);
        if let Some((view, proposed)) = these.get(&record)
            && proposed.bytes() == batch.bytes()
        {
            self.placed.push((seq, *view));
        }
    }

    /// Takes the views of delivered batches, as far as they are known.
    pub fn take_placed(&mut self) -> Vec<(Seq, View)> {
        std::mem::take(&mut self.placed)
    }

    /// Takes the tokens of what ran early since the last call, of one view. They count as far as the batches are decided in that view.
    pub fn take_early(&mut self) -> Option<(View, OwnTokens)> {
        let (_, view, _) = *self.early.tokens.first()?;
        if self.lineage != self.attempt || self.wrong().is_some() {
            return None;
        }
        let end = self.early.tokens.iter().take_while(|(_, of, _)| *of == view).count();
        let list = self.early.tokens.drain(..end).map(|(seq, _, token)| (seq, token)).collect();
        Some((view, OwnTokens { attempt: self.attempt, list }))
    }

    /// Whether something ran early of which nobody was told.
    pub(super) fn has_early(&self) -> bool {
        !self.early.tokens.is_empty() && self.lineage == self.attempt && self.wrong().is_none()
    }

    /// A batch is delivered. Whether it is the one that was foreseen, so that it need not run any more; otherwise nothing is foreseen.
    pub(super) fn is_as_foreseen(&mut self, ordered: &Ordered) -> bool {
        let Some(item) = self.items.get(self.delivered) else { return false };
        let is_same = match (&item.ordered, ordered) {
            (Ordered::Batch(seq, moment, batch), Ordered::Batch(as_seq, as_moment, as_batch)) => {
                (seq, moment) == (as_seq, as_moment) && batch.bytes() == as_batch.bytes()
                    || planted("foreseen-is-delivered")
            }
            _ => false,
        };
        if !is_same {
            self.forget_foreseen();
            return false;
        }
        self.early.views.pop_front();
        if let Ordered::Batch(seq, _, batch) = &item.ordered {
            self.early.bytes -= batch.bytes().len();
            // Who was told early hears nothing else; but it counts from now on.
            self.tokens.extend(item.ran.as_ref().map(|ran| (*seq, ran.token)));
            self.early.tokens.retain(|(told, ..)| told != seq);
        }
        self.counts.early += u64::from(self.ran > self.delivered);
        self.delivered += 1;
        if self.foreseen() == 0 {
            self.early = Early::default();
        }
        true
    }

    /// Something else was delivered than what was foreseen: the executor ahead goes back to the state before that.
    pub(super) fn forget_foreseen(&mut self) {
        if self.foreseen() == 0 {
            return;
        }
        self.early = Early::default();
        self.items.truncate(self.delivered);
        if self.fed <= self.delivered {
            return;
        }
        self.counts.strayed += 1;
        let at = self.ran.min(self.delivered);
        (self.fed, self.ran) = (at, at);
        if let Some(mut alone) = self.alone_at(at) {
            self.go_on_from(&mut alone, at);
        }
    }
}
