//! Rot in this replica's checkpoints: what was found and not mended yet, and how it is mended. A rotten part of the state comes from
//! another replica that has the same checkpoint; an unreadable checkpoint is replaced by the next one.
//!
//! Rot is forgotten together with its file. Tests: front/cli/tests/hurt/state.rs, check/sim.

use super::inout::Out;
use super::repairs::Repairs;
use bytes::Bytes;
use quorate_state::agreement::Agreement;
use quorate_state::checkpoint::{Job, RotAt};
use quorate_types::{Digest, ReplicaId, Seq, Time};
use std::collections::BTreeMap;

/// Damaged places, each with its file, and once however often it is found.
#[derive(Debug, Default)]
struct Rotten(BTreeMap<(Seq, RotAt), String>);

impl Rotten {
    fn add(&mut self, seq: Seq, place: RotAt, file: String) {
        self.0.insert((seq, place), file);
    }

    /// A place is sound again. Whether it was known to be damaged.
    fn mended(&mut self, seq: Seq, place: RotAt) -> bool {
        self.0.remove(&(seq, place)).is_some()
    }

    /// A checkpoint is gone, with its file.
    fn gone(&mut self, seq: Seq, file: &str) {
        self.0.retain(|(of, _), there| *of != seq && there != file);
    }

    /// Takes out the unreadable checkpoints before this one, which replaces them.
    fn replaced(&mut self, by: Seq) -> Vec<Seq> {
        let whole = |(seq, place): &(Seq, RotAt)| (*place == RotAt::Whole && *seq < by).then_some(*seq);
        let replaced: Vec<Seq> = self.0.keys().filter_map(whole).collect();
        self.0.retain(|of, _| whole(of).is_none());
        replaced
    }

    /// Whether an unreadable checkpoint has no replacement yet.
    fn any_whole(&self) -> bool {
        self.0.keys().any(|(_, place)| *place == RotAt::Whole)
    }

    /// The number of damaged places.
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

/// Rot, and its repair.
#[derive(Debug, Default)]
pub(super) struct Rot {
    /// Damaged places that are not mended yet.
    rotten: Rotten,
    /// Parts that are asked for.
    repairs: Repairs,
    /// Places mended since the start.
    repaired: u64,
    /// Scrubs that have ended since the start.
    scrubs: u64,
    /// The bytes that the last scrub read.
    scrubbed: Option<u64>,
}

impl Rot {
    /// A place is damaged. Its part is asked for from another replica.
    pub(super) fn found(
        &mut self,
        now: Time,
        (seq, place): (Seq, RotAt),
        digest: Digest,
        file: String,
        agreement: &Agreement,
        out: &mut Vec<Out>,
    ) {
        let text = format!("the checkpoint of seq {seq:#} is damaged on this disk: {place:?} in {file}");
        out.push(Out::alarm(text));
        if place == RotAt::Whole {
            // Damage in its single parts does not matter any more.
            self.gone(seq, &file);
        }
        self.rotten.add(seq, place, file);
        if let RotAt::Part(part) = place {
            self.repairs.add(seq, digest, part);
            self.ask(now, agreement, out);
        }
    }

    /// A place is sound again.
    pub(super) fn repaired(&mut self, seq: Seq, place: RotAt, out: &mut Vec<Out>) {
        if let RotAt::Part(part) = place {
            self.repairs.done(seq, part);
        }
        if self.rotten.mended(seq, place) {
            self.repaired += 1;
            out.push(Out::notice(format!("checkpoint {seq}: {place:?} is sound again")));
        }
    }

    /// The bytes that came were wrong: another member is asked.
    pub(super) fn not_repaired(
        &mut self,
        now: Time,
        (seq, part): (Seq, u32),
        agreement: &Agreement,
        out: &mut Vec<Out>,
    ) {
        self.repairs.again(seq, part);
        self.ask(now, agreement, out);
    }

    /// A checkpoint with damage was deleted.
    pub(super) fn gone(&mut self, seq: Seq, file: &str) {
        self.rotten.gone(seq, file);
        self.repairs.forget(seq);
    }

    /// A checkpoint is durable, and replaces unreadable ones before it.
    pub(super) fn replaced(&mut self, by: Seq, out: &mut Vec<Out>) {
        for seq in self.rotten.replaced(by) {
            self.repaired += 1;
            let text =
                format!("the checkpoint of seq {by:#} takes the place of the damaged one of seq {seq:#}");
            out.push(Out::notice(text));
        }
    }

    /// Takes a message of a member, if it is a part that the member was asked for: the keeper verifies it before it is written.
    pub(super) fn takes(
        &mut self,
        from: ReplicaId,
        (seq, digest, chunk): (Seq, Digest, u32),
        bytes: &Bytes,
    ) -> Option<Out> {
        let takes = self.repairs.takes(from, seq, digest, chunk);
        takes.then(|| Out::job(Job::Repair { seq, chunk, bytes: bytes.clone() }))
    }

    /// A member does not send the part.
    pub(super) fn refused(&mut self, from: ReplicaId, seq: Seq) {
        self.repairs.refused(from, seq);
    }

    /// Asks for the missing parts, from members that have the same checkpoint.
    pub(super) fn ask(&mut self, now: Time, agreement: &Agreement, out: &mut Vec<Out>) {
        let holders = |seq: Seq, digest: Digest| {
            let offers = agreement.offers(seq);
            let offer = offers.into_iter().find(|offer| offer.seq == seq && offer.digest == digest);
            offer.map_or_else(Vec::new, |offer| offer.holders)
        };
        let asked = self.repairs.ask(now, holders);
        out.extend(asked.into_iter().map(|(to, message)| Out::Send { to, message }));
    }

    /// Whether parts are missing.
    pub(super) fn lacks(&self) -> bool {
        self.repairs.len() > 0
    }

    /// The number of damaged places.
    pub(super) fn places(&self) -> u64 {
        self.rotten.len()
    }

    /// The number of places mended since the start.
    pub(super) fn mended(&self) -> u64 {
        self.repaired
    }

    /// Whether an unreadable checkpoint has no replacement yet.
    pub(super) fn lost_one(&self) -> bool {
        self.rotten.any_whole()
    }

    /// The keeper has read everything at rest, which is this many bytes.
    pub(super) fn scrubbed(&mut self, bytes: u64) {
        self.scrubs += 1;
        self.scrubbed = Some(bytes);
    }

    /// The number of scrubs that have ended, and the bytes that the last one read.
    pub(super) fn scrubs(&self) -> (u64, Option<u64>) {
        (self.scrubs, self.scrubbed)
    }

    /// When to call [`Self::ask`].
    pub(super) fn deadline(&self) -> Option<Time> {
        self.repairs.deadline()
    }

    /// Adds what is wrong, and what to do.
    pub(super) fn problems(&self, problems: &mut Vec<String>) {
        if self.rotten.len() > 0 {
            problems.push(format!(
                "{} places in the checkpoints on this disk are damaged and not mended yet: they are fetched from the other replicas. \
                 Look after the disk",
                self.rotten.len()
            ));
        }
    }
}
