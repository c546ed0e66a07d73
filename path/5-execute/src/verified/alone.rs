//! Running again, one command after the other: what is not final, after a ruling that says so, or because this replica did something else than what
//! was ruled. What memos say of batches that may come out differently is repeated.
//!
//! Docs: docs/protocols/verify.md (V9, V10), docs/protocols/speculative.md (S8, S10, S15). Tests: `tests/all/verified.rs`, `tests/all/speculative.rs`.

use super::chain::did;
use super::items::{Item, follow};
use super::{Memo, Verified};
use crate::execution::Ordered;
use crate::executor::Executor;
use crate::outcomes::Outcomes;
use quorate_state::store::Changed;
use quorate_types::Seq;
use std::collections::VecDeque;

impl Verified {
    /// Runs what is not final up to this seq one after the other, from the final state. The executor ahead goes on from there.
    pub(super) fn run_alone(&mut self, up_to: Seq, life: Option<u64>) {
        self.tokens.clear();
        self.memos.forget_after(self.last.seq());
        self.run_alone_from(0, up_to, life);
    }

    /// The batch at this place, with this seq, runs again, one command after the other. Nobody was told of it.
    pub(super) fn run_again(&mut self, at: usize, seq: Seq) {
        self.tokens.retain(|(told, _)| *told < seq);
        self.memos.forget_after(seq.previous());
        self.run_alone_from(at, seq, None);
        self.tokens.extend(self.items[at].ran.as_ref().map(|ran| (seq, ran.token)));
    }

    /// Runs what stands from a place on, up to this seq, one after the other; if wanted, with what memos say. What is before stays as it ran.
    fn run_alone_from(&mut self, first: usize, up_to: Seq, life: Option<u64>) {
        self.counts.reruns += 1;
        let Some(mut alone) = self.alone_at(first) else { return };
        let mut at = first;
        while let Some(item) = self.items.get(at) {
            match &item.ordered {
                Ordered::Batch(seq, ..) | Ordered::Pass(seq) if *seq > up_to => break,
                Ordered::Border | Ordered::Ahead(_) => at += 1,
                _ => {
                    let this = at;
                    at = self.run_item_alone(&mut alone, at, life);
                    if self.strays(this) {
                        break;
                    }
                }
            }
        }
        self.go_on_from(&mut alone, at);
    }

    /// The final state with what the items before this place did, as they ran.
    pub(super) fn alone_at(&mut self, at: usize) -> Option<Executor> {
        let mut alone = self.last.twin()?;
        drop(alone.take_events());
        (self.tail, self.changed) = (self.final_token, 0);
        for Item { ordered, ran, .. } in self.items.iter().take(at) {
            if matches!(ordered, Ordered::Border | Ordered::Ahead(_)) {
                continue;
            }
            follow(&mut alone, ordered, ran.as_deref());
            if let Some(ran) = ran {
                self.tail = ran.token;
                self.changed += ran.changed.records().len();
            }
        }
        Some(alone)
    }

    /// The executor ahead goes on from this state, in which the items before this place ran.
    pub(super) fn go_on_from(&mut self, alone: &mut Executor, at: usize) {
        self.early.hush();
        if let Ok(image) = alone.image()
            && self.ahead.restore(&image.system, &image.objects).is_ok()
        {
            let ahead = self.ahead.state_mut();
            drop((ahead.take_events(), ahead.take_changed()));
            (self.fed, self.ran) = (at, at);
            // What ran behind has to run again.
            self.items.iter_mut().skip(at).for_each(|item| item.ran = None);
        }
    }

    fn run_item_alone(&mut self, alone: &mut Executor, at: usize, life: Option<u64>) -> usize {
        if let Ordered::Batch(seq, ..) = self.items[at].ordered
            && let Some((results, memo)) = self.told_by_others(seq).or_else(|| self.remembered(seq, life))
        {
            let ran = self.sum_up(true, results, Some(memo));
            follow(alone, &self.items[at].ordered, Some(&ran));
            let next = self.note(at, ran);
            self.items.range(at + 1..next).for_each(|item| follow(alone, &item.ordered, None));
            return next;
        }
        let is_batch = matches!(self.items[at].ordered, Ordered::Batch(..));
        let follow = self.items.iter().skip(at + 1).take_while(|item| is_batch && item.ordered.follows());
        let mut these: VecDeque<Ordered> =
            [&self.items[at]].into_iter().chain(follow).map(|item| item.ordered.clone()).collect();
        let mut outcomes = Outcomes::new();
        // What is noted begins here.
        drop(alone.take_changed());
        alone.take(&mut these, &mut outcomes);
        let changed = alone.take_changed().unwrap_or_else(|| self.compared(alone, at));
        let ran = self.sum_up(is_batch, (outcomes, changed), None);
        self.note(at, ran)
    }

    /// What was ruled of the batch behind the last one that ran, or what a memo of no later life says.
    pub(super) fn remembered(&mut self, seq: Seq, life: Option<u64>) -> Option<((Outcomes, Changed), Memo)> {
        let of = (self.lineage, seq);
        let memo = self.memos.of(of, &self.tail, life)?;
        let opened = memo.open(self.service.as_deref());
        if opened.is_none() {
            self.memos.drop_recalled(of, &self.tail);
            return None;
        }
        Some((opened?, memo.clone()))
    }

    /// What others told of the batch behind the last one that ran, if that was ruled.
    fn told_by_others(&self, seq: Seq) -> Option<((Outcomes, Changed), Memo)> {
        let (_, lacks) = self.lacks.as_ref()?;
        let memo = lacks.memo(seq, &self.tail)?;
        let (service, results) = (self.service.as_deref(), memo.open(self.service.as_deref())?);
        if !lacks.did(seq, &did(&results.0, service, &results.1)) {
            return None;
        }
        // A liar may say the same with more bytes than the log takes.
        let body = Memo::write(service, &results.0, &results.1, self.memos.most())?;
        Some((results, Memo { body, ..memo.clone() }))
    }

    /// Whether the batch at this place ran, and did not do what was ruled of it, as far as others told that.
    fn strays(&self, at: usize) -> bool {
        let Some((_, lacks)) = &self.lacks else { return false };
        match (&self.items[at].ordered, &self.items[at].ran) {
            (Ordered::Batch(seq, ..), Some(ran)) => lacks.is_known() && !lacks.did(*seq, &ran.did),
            _ => false,
        }
    }
}
