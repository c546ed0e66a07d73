//! What final batches did, for replicas that have other results: digests of all of them, and memos of those that may come out differently
//! when they run again. It is kept until a checkpoint has it that the members agree on.
//!
//! INV-VERIFY-8: what another replica tells is final only if it gives the token that was ruled, and no command runs on what may be false.
//! Docs: docs/protocols/speculative.md (S14). Source: Kapritsos (Eve), section 3.4.1, where a replica fetches what a batch changed. Tests: history/tests.rs.

use super::chain::chained;
use super::memo::Memo;
use quorate_types::{Digest, Seq, planted};
use quorate_wire::{Memos, MemosWanted, STEPS_MAX, SentMemo};
use std::collections::{BTreeMap, VecDeque};

/// An answer has no more bytes of memos than this, or one memo.
const BYTES_MAX: usize = 4 << 20;

/// What final batches did behind a seq.
#[derive(Debug, Default)]
pub(super) struct History {
    after: Seq,
    steps: VecDeque<(Seq, Digest)>,
    memos: BTreeMap<Seq, Memo>,
}

impl History {
    /// The state is that of this seq now.
    pub(super) fn begin(&mut self, seq: Seq) {
        *self = Self { after: seq, ..Self::default() };
    }

    /// A batch is final: the digest of what it did, and its memo.
    pub(super) fn push(&mut self, seq: Seq, did: Digest, memo: Option<Memo>) {
        self.steps.push_back((seq, did));
        self.memos.extend(memo.map(|memo| (seq, memo)));
    }

    /// A checkpoint that the members agree on has everything up to this seq.
    pub(super) fn trimmed(&mut self, seq: Seq) {
        self.after = self.after.max(seq);
        while self.steps.pop_front_if(|(at, _)| *at <= seq).is_some() {}
        self.memos = self.memos.split_off(&seq.next());
    }

    /// Answers another replica, if everything that it lacks is here. `last`: how far this replica's results are final.
    pub(super) fn answer(&self, wanted: MemosWanted, last: Seq) -> Option<Memos> {
        let MemosWanted { after, up_to, from } = wanted;
        if after < self.after || last < up_to {
            return None;
        }
        let mut steps = Vec::new();
        if wanted.wants_steps() {
            let first = self.steps.partition_point(|(seq, _)| *seq <= after);
            let these = self.steps.range(first..).take_while(|(seq, _)| *seq <= up_to);
            steps.extend(these.take(STEPS_MAX + 1).copied());
            if steps.len() > STEPS_MAX {
                return None;
            }
        }
        let (mut list, mut bytes, mut through) = (Vec::new(), 0, up_to);
        for (seq, memo) in self.memos.range(from..=up_to) {
            bytes += memo.body.len();
            if !list.is_empty() && (bytes > BYTES_MAX || list.len() == STEPS_MAX) {
                through = seq.previous();
                break;
            }
            list.push(SentMemo { seq: *seq, before: memo.before, body: memo.body.clone() });
        }
        Some(Memos { wanted, steps, through, list })
    }
}

/// What a replica lacks, and what others told of it.
#[derive(Debug)]
pub(super) struct Lacks {
    /// What this replica has, up to which seq and with which token, and what it lacks.
    after: (Seq, Digest),
    up_to: (Seq, Digest),
    /// The digest of what each batch did, once that is known. It gives the token that was ruled, so it is true whoever told it.
    steps: BTreeMap<Seq, Digest>,
    /// Memos, which may be false.
    memos: BTreeMap<Seq, Memo>,
    bytes: usize,
    from: Seq,
    /// The bytes, and the number, of memos in the last answer, if it was not the whole.
    page: Option<(usize, usize)>,
}

/// What an answer was worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// Nothing: it is false, or about something else.
    Nothing,
    /// There is more to ask for.
    Some,
    /// Everything that is lacked is here.
    All,
}

impl Lacks {
    /// The memos that a replica lacks have no more bytes than this: otherwise it fetches a checkpoint.
    const BYTES_MAX: usize = 256 << 20;

    /// A replica has the first, and lacks what was ruled up to the second.
    pub(super) fn new(after: (Seq, Digest), up_to: (Seq, Digest)) -> Self {
        let from = after.0.next();
        Self { after, up_to, steps: BTreeMap::new(), memos: BTreeMap::new(), bytes: 0, from, page: None }
    }

    /// What to ask for.
    pub(super) fn wanted(&self) -> MemosWanted {
        MemosWanted { after: self.after.0, up_to: self.up_to.0, from: self.from }
    }

    /// Another replica answers about batches of this attempt. After a wrong answer everything is asked for again.
    pub(super) fn told(&mut self, attempt: u64, memos: Memos) -> Worth {
        let worth = self.take(attempt, memos);
        if worth == Worth::Nothing {
            self.again();
        }
        worth
    }

    fn take(&mut self, attempt: u64, memos: Memos) -> Worth {
        if memos.wanted != self.wanted() || memos.through < self.from || memos.through > self.up_to.0 {
            return Worth::Nothing;
        }
        if self.steps.is_empty() && !self.take_steps(&memos.steps) {
            return Worth::Nothing;
        }
        // An answer that is not the whole is as large as may be, so there are few of them.
        let first = memos.list.first().map_or(0, |memo| memo.body.len());
        if self.page.is_some_and(|(bytes, count)| bytes + first <= BYTES_MAX && count < STEPS_MAX) {
            return Worth::Nothing;
        }
        self.page = Some((memos.list.iter().map(|memo| memo.body.len()).sum(), memos.list.len()));
        for SentMemo { seq, before, body } in memos.list {
            if seq < self.from || seq > memos.through || self.bytes + body.len() > Self::BYTES_MAX {
                return Worth::Nothing;
            }
            self.bytes += body.len();
            self.memos.insert(seq, Memo { number: 0, attempt, seq, before, life: 0, ruled: true, body });
        }
        if memos.through == self.up_to.0 {
            return Worth::All;
        }
        self.from = memos.through.next();
        Worth::Some
    }

    /// Whether these steps lead to what was ruled.
    fn take_steps(&mut self, steps: &[(Seq, Digest)]) -> bool {
        let (mut at, mut token) = self.after;
        for (seq, did) in steps {
            if *seq <= at || *seq > self.up_to.0 {
                return false;
            }
            (at, token) = (*seq, chained(&token, did));
        }
        let is_right = (at, token) == self.up_to;
        if is_right {
            self.steps = steps.iter().copied().collect();
        }
        is_right
    }

    /// The memo of a batch after this past. It may be false: see [`Self::did`].
    pub(super) fn memo(&self, seq: Seq, before: &Digest) -> Option<&Memo> {
        self.memos.get(&seq).filter(|memo| memo.before == *before)
    }

    /// Whether what was ruled is that this batch did what has this digest.
    pub(super) fn did(&self, seq: Seq, did: &Digest) -> bool {
        self.steps.get(&seq) == Some(did) || planted("false-memo-taken")
    }

    /// Whether it is known what each batch did.
    pub(super) fn is_known(&self) -> bool {
        !self.steps.is_empty()
    }

    /// What was told did not give what was ruled, or another member is asked: the memos are asked for again. What each batch did stays true.
    pub(super) fn again(&mut self) {
        self.memos.clear();
        (self.bytes, self.from, self.page) = (0, self.after.0.next(), None);
    }
}

#[cfg(test)]
mod tests;
