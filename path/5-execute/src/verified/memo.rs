//! Memos: what a batch did that may come out differently when it runs again. The log has the memo before others hear the batch's token, and a
//! replica that starts again takes over what its memos say. So it tells no other token than before, and what was ruled final is not lost when all
//! replicas stop at once.
//!
//! Docs: docs/protocols/speculative.md. INV-VERIFY-7: the token of a batch with a memo is told once the memo is durable. Source: Kapritsos (Eve), section 3.4, keeps results in memory
//! only. Tests: memo/tests.rs, `tests/all/speculative.rs`.

use crate::events::Events;
use crate::outcomes::{Outcome, Outcomes};
use crate::parallel::ParallelService;
use crate::view::Told;
use bytes::{Buf, Bytes};
use quorate_state::store::Changed;
use quorate_types::{ClientId, Digest, RequestNumber, Seq, SessionId, planted};
use quorate_wire::ReplyStatus;
use std::collections::{BTreeMap, VecDeque};

/// What a batch did, in an attempt and after a certain past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memo {
    /// Names it in this process.
    pub number: u64,
    /// The attempt in which the batch ran.
    pub attempt: u64,
    /// The batch's place in the global log.
    pub seq: Seq,
    /// The token before the batch.
    pub before: Digest,
    /// In which life of the replica it ran: how often the replica had started again with memos in its log.
    pub life: u64,
    /// Whether it is what was ruled, from another replica.
    pub ruled: bool,
    /// The outcomes and the changed objects.
    pub body: Bytes,
}

/// Larger ones are not kept: the batch runs again, one command after the other.
const BYTES_MAX: usize = 4 << 20;
/// The length of [`Memo::head`].
const HEAD: usize = 25 + Digest::BYTES;

impl Memo {
    /// `attempt u64 | seq u64 | life u64 | ruled u8 | token before (32)`.
    pub fn head(&self) -> Bytes {
        let mut head = Vec::with_capacity(HEAD);
        head.extend_from_slice(&self.attempt.to_le_bytes());
        head.extend_from_slice(&self.seq.number().to_le_bytes());
        head.extend_from_slice(&self.life.to_le_bytes());
        head.push(u8::from(self.ruled));
        head.extend_from_slice(self.before.bytes());
        head.into()
    }

    /// Reads a head, for this body.
    pub fn read(mut head: &[u8], body: Bytes) -> Option<Self> {
        if head.len() != HEAD {
            return None;
        }
        let (attempt, seq, life) = (head.get_u64_le(), Seq::new(head.get_u64_le()), head.get_u64_le());
        let ruled = head.get_u8() == 1;
        let before = Digest::new(*head.first_chunk()?);
        Some(Self { number: 0, attempt, seq, before, life, ruled, body })
    }

    /// `seq u64 | outcomes u32 | (session u32 u32, number u64, status u8, flags u8, client u64, bytes u32) each | replies |
    /// told u32 | (bytes u32, bytes) each | (key u32, value u32 or its absence, key, value) for each changed object`.
    ///
    /// `None`: observers could not be told again, or it has more bytes than `most`.
    pub(super) fn write(
        service: Option<&dyn ParallelService>,
        outcomes: &Outcomes,
        changed: &Changed,
        most: usize,
    ) -> Option<Bytes> {
        let mut out = Vec::with_capacity(64 + outcomes.arena().len() + outcomes.list().len() * 32);
        out.extend_from_slice(&outcomes.seq().number().to_le_bytes());
        out.extend_from_slice(&(outcomes.list().len() as u32).to_le_bytes());
        for outcome in outcomes.list() {
            out.extend_from_slice(&outcome.session.index.to_le_bytes());
            out.extend_from_slice(&outcome.session.generation.to_le_bytes());
            out.extend_from_slice(&outcome.number.number().to_le_bytes());
            out.push(outcome.status as u8);
            out.push(u8::from(outcome.withheld) | u8::from(outcome.opening.is_some()) << 1);
            out.extend_from_slice(&outcome.opening.map_or(0, ClientId::number).to_le_bytes());
            out.extend_from_slice(&(outcome.body.len() as u32).to_le_bytes());
        }
        out.extend_from_slice(outcomes.arena());
        if !write_told(service, outcomes, &mut out) {
            return None;
        }
        if out.len() + changed.records().len() > most {
            return None;
        }
        out.extend_from_slice(changed.records());
        Some(out.into())
    }

    /// The outcomes, with what commands told, and what they changed.
    pub(super) fn open(&self, service: Option<&dyn ParallelService>) -> Option<(Outcomes, Changed)> {
        let mut bytes = self.body.clone();
        let (seq, count) = (bytes.try_get_u64_le().ok()?, bytes.try_get_u32_le().ok()?);
        let mut list = Vec::new();
        let mut end = 0;
        for _ in 0..count {
            let (outcome, len) = read_outcome(&mut bytes, end)?;
            end += len;
            list.push(outcome);
        }
        let arena = take(&mut bytes, end)?.to_vec();
        let mut told = Vec::new();
        for _ in 0..bytes.try_get_u32_le().ok()? {
            let len = bytes.try_get_u32_le().ok()?;
            told.push(service?.read_told(&take(&mut bytes, len as usize)?)?);
        }
        let changed = Changed::read(bytes)?;
        let mut outcomes = Outcomes::from_parts(Seq::new(seq), list, arena);
        outcomes.set_events((!told.is_empty()).then(|| Events::new(told)));
        Some((outcomes, changed))
    }
}

/// Appends what a batch told, the events of a parallel service: `told u32 | (bytes u32, bytes) each`. Whether it could write all of it.
pub(super) fn write_told(
    service: Option<&dyn ParallelService>,
    outcomes: &Outcomes,
    out: &mut Vec<u8>,
) -> bool {
    let told = outcomes.events().filter(|events| events.are_told()).map(|events| events.get::<Vec<Told>>());
    let Some(Some(told)) = told else {
        out.extend_from_slice(&0_u32.to_le_bytes());
        return told.is_none();
    };
    out.extend_from_slice(&(told.len() as u32).to_le_bytes());
    let mut all = true;
    for told in told {
        let start = out.len();
        out.extend_from_slice(&0_u32.to_le_bytes());
        all &= service.is_some_and(|service| service.write_told(&**told, out));
        let len = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&len.to_le_bytes());
    }
    all
}

fn take(bytes: &mut Bytes, len: usize) -> Option<Bytes> {
    (bytes.len() >= len).then(|| bytes.split_to(len))
}

/// An outcome whose reply begins here, and the length of that.
fn read_outcome(bytes: &mut Bytes, start: usize) -> Option<(Outcome, usize)> {
    let session = SessionId { index: bytes.try_get_u32_le().ok()?, generation: bytes.try_get_u32_le().ok()? };
    let number = RequestNumber::new(bytes.try_get_u64_le().ok()?);
    let status = ReplyStatus::from_number(bytes.try_get_u8().ok()?)?;
    let flags = bytes.try_get_u8().ok()?;
    let client = ClientId::new(bytes.try_get_u64_le().ok()?);
    let len = bytes.try_get_u32_le().ok()? as usize;
    let (opening, withheld) = ((flags & 2 > 0).then_some(client), flags & 1 > 0);
    Some((Outcome { session, number, status, body: start..start + len, opening, withheld }, len))
}

/// The memos of a replica.
#[derive(Debug)]
pub(super) struct Memos {
    /// What the log has of batches that no durable checkpoint has, by attempt and seq: for each past after which the batch ran, the first one in
    /// each life.
    recalled: BTreeMap<(u64, Seq), Vec<Memo>>,
    /// The present life.
    life: u64,
    /// Those that are not durable, in order, and how many of them the log has.
    unkept: VecDeque<Memo>,
    noted: usize,
    last: u64,
    /// The most bytes of one.
    most: usize,
}

impl Default for Memos {
    fn default() -> Self {
        let (recalled, unkept) = (BTreeMap::new(), VecDeque::new());
        Self { recalled, life: 0, unkept, noted: 0, last: 0, most: BYTES_MAX }
    }
}

impl Memos {
    /// The log takes no larger ones.
    pub(super) fn limit(&mut self, bytes: usize) {
        self.most = bytes.min(BYTES_MAX);
    }

    /// The state is that of this seq now.
    pub(super) fn begin(&mut self, seq: Seq) {
        self.trimmed(seq);
        self.unkept.clear();
        self.noted = 0;
    }

    /// A durable checkpoint has everything up to this seq.
    pub(super) fn trimmed(&mut self, seq: Seq) {
        while self.unkept.pop_front_if(|memo| memo.seq <= seq).is_some() {
            self.noted = self.noted.saturating_sub(1);
        }
        if !self.recalled.is_empty() {
            self.recalled.retain(|(_, of), _| *of > seq);
        }
    }

    /// What ran behind this seq is forgotten, and its tokens are never told.
    pub(super) fn forget_after(&mut self, seq: Seq) {
        while self.unkept.back().is_some_and(|memo| memo.seq > seq) {
            self.unkept.pop_back();
        }
        self.noted = self.noted.min(self.unkept.len());
    }

    pub(super) fn recall(&mut self, memos: Vec<Memo>, seq: Seq) {
        self.life = memos.iter().map(|memo| memo.life + 1).max().unwrap_or(0).max(self.life);
        for memo in memos.into_iter().filter(|memo| memo.seq > seq) {
            self.recalled.entry((memo.attempt, memo.seq)).or_default().push(memo);
        }
    }

    /// The most bytes of one.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// The first memo that is not durable.
    pub(super) fn first_unkept(&self) -> Option<Seq> {
        self.unkept.front().map(|memo| memo.seq)
    }

    /// Whether there are memos of a batch, after whatever past.
    pub(super) fn has(&self, attempt: u64, seq: Seq) -> bool {
        !self.recalled.is_empty() && self.recalled.contains_key(&(attempt, seq))
    }

    /// The memo of a batch after this past: what was ruled, or else one of no later life than this one.
    ///
    /// What a replica told in a life is made of memos up to that life; what had none then ran alone, or came out as if it had. In a later life
    /// the same batch may come out otherwise, and get a memo.
    pub(super) fn of(&self, at: (u64, Seq), before: &Digest, life: Option<u64>) -> Option<&Memo> {
        let fits = |memo: &&Memo| memo.before == *before || planted("memo-of-another-past");
        let these = || self.recalled.get(&at).into_iter().flatten().filter(fits);
        these()
            .find(|memo| memo.ruled)
            .or_else(|| these().find(|memo| life.is_some_and(|life| memo.life <= life)))
    }

    /// The last life before this one of which there are memos of this attempt up to a seq.
    pub(super) fn life_before(&self, attempt: u64, seq: Seq, life: u64) -> Option<u64> {
        let these = self.recalled.range((attempt, Seq::ZERO)..=(attempt, seq)).flat_map(|(_, memos)| memos);
        these.map(|memo| memo.life).filter(|of| *of < life).max()
    }

    /// The memo after this past can not be read: it is as if it was not there.
    pub(super) fn drop_recalled(&mut self, at: (u64, Seq), before: &Digest) {
        if let Some(these) = self.recalled.get_mut(&at) {
            these.retain(|memo| memo.before != *before);
        }
    }

    /// An attempt begins: batches run again, and what was kept of them before is of no use any more.
    pub(super) fn attempt(&mut self, attempt: u64) {
        self.recalled.retain(|(of, _), _| *of >= attempt);
    }

    /// A batch ran after this past, and may come out differently when it runs again. Its memo, if there can be one.
    pub(super) fn add(
        &mut self,
        (attempt, seq): (u64, Seq),
        before: Digest,
        service: Option<&dyn ParallelService>,
        (outcomes, changed): (&Outcomes, &Changed),
    ) -> Option<Memo> {
        let body = Memo::write(service, outcomes, changed, self.most)?;
        let memo = Memo { number: 0, attempt, seq, before, life: self.life, ruled: false, body };
        Some(self.push(memo))
    }

    /// A memo that the log should have.
    pub(super) fn push(&mut self, memo: Memo) -> Memo {
        self.last += 1;
        let memo = Memo { number: self.last, life: self.life, ..memo };
        self.unkept.push_back(memo.clone());
        memo
    }

    pub(super) fn unkept(&self) -> Option<&Memo> {
        self.unkept.get(self.noted)
    }

    /// Bytes of those that are not durable.
    pub(super) fn bytes(&self) -> usize {
        self.unkept.iter().map(|memo| memo.body.len()).sum()
    }

    pub(super) fn is_noted(&mut self) {
        self.noted = (self.noted + 1).min(self.unkept.len());
    }

    /// Memos become durable in their order.
    pub(super) fn is_kept(&mut self, number: u64) {
        while let Some(memo) = self.unkept.pop_front_if(|memo| self.noted > 0 && memo.number <= number) {
            self.noted -= 1;
            self.recalled.entry((memo.attempt, memo.seq)).or_default().push(memo);
        }
    }

    /// Whether the token of this batch may be told.
    pub(super) fn may_tell(&self, seq: Seq) -> bool {
        self.unkept.front().is_none_or(|memo| seq < memo.seq) || planted("token-before-its-memo")
    }
}

#[cfg(test)]
mod tests;
