//! Rot in this replica's checkpoints: what was found and is not mended yet, and how it is mended. A part of the state comes from
//! another replica that has the same checkpoint; a checkpoint of which nothing can be read any more is replaced by the next one.
//!
//! What is rotten is forgotten together with the file it is in. Tests: front/cli/tests/hurt/state.rs, check/sim.

use crate::effects::{Effect, Effects, Event, KeeperWork};
use crate::node::Node;
use quorate_state::checkpoint::{Job, Place};
use quorate_types::{Digest, Seq, Time};
use std::collections::BTreeMap;

/// Places that were found damaged: each with the file it is in, once however often it is found.
#[derive(Debug, Default)]
pub(crate) struct Rotten(BTreeMap<(Seq, Place), String>);

impl Rotten {
    fn add(&mut self, seq: Seq, place: Place, file: String) {
        self.0.insert((seq, place), file);
    }

    /// Whether it was known to be damaged.
    fn mended(&mut self, seq: Seq, place: Place) -> bool {
        self.0.remove(&(seq, place)).is_some()
    }

    /// A checkpoint is gone, and so is its file.
    fn gone(&mut self, seq: Seq, file: &str) {
        self.0.retain(|(of, _), there| *of != seq && there != file);
    }

    /// Takes out the checkpoints below this one of which nothing is of use: it stands for them.
    fn replaced(&mut self, by: Seq) -> Vec<Seq> {
        let whole = |(seq, place): &(Seq, Place)| (*place == Place::Whole && *seq < by).then_some(*seq);
        let replaced: Vec<Seq> = self.0.keys().filter_map(whole).collect();
        self.0.retain(|of, _| whole(of).is_none());
        replaced
    }

    /// Whether there is a checkpoint of which nothing is of use, and none that stands for it.
    pub(crate) fn any_whole(&self) -> bool {
        self.0.keys().any(|(_, place)| *place == Place::Whole)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

impl Node {
    pub(crate) fn on_rot(
        &mut self,
        now: Time,
        (seq, place): (Seq, Place),
        digest: Digest,
        file: String,
        out: &mut Effects,
    ) {
        let text = format!("the checkpoint of seq {seq} is damaged on this disk: {place:?} in {file}");
        out.event(Event::State { text, bad: true });
        if place == Place::Whole {
            // Damage in its parts does not matter any more.
            self.on_gone(seq, &file);
        }
        self.checkpoints.rotten.add(seq, place, file);
        match place {
            Place::Part(part) => {
                self.checkpoints.repairs.add(seq, digest, part);
                self.ask_for_repairs(now, out);
            }
            Place::Copy => {}
            // The next border brings another.
            Place::Whole => {
                // Nor on what may build on it.
                self.checkpoints.own.retain(|own| own.seq < seq);
                self.want_border(now, out);
            }
        }
    }

    pub(crate) fn on_repaired(&mut self, seq: Seq, place: Place, out: &mut Effects) {
        if let Place::Part(part) = place {
            self.checkpoints.repairs.done(seq, part);
        }
        if self.checkpoints.rotten.mended(seq, place) {
            self.checkpoints.repaired += 1;
            let text = format!("checkpoint {seq}: {place:?} is sound again");
            out.event(Event::State { text, bad: false });
        }
    }

    pub(crate) fn on_not_repaired(&mut self, now: Time, seq: Seq, part: u32, out: &mut Effects) {
        self.checkpoints.repairs.again(seq, part);
        self.ask_for_repairs(now, out);
    }

    /// A checkpoint with damage was deleted.
    pub(crate) fn on_gone(&mut self, seq: Seq, file: &str) {
        self.checkpoints.rotten.gone(seq, file);
        self.checkpoints.repairs.forget(seq);
    }

    /// A checkpoint is durable: what is of no use before it is not missed any more.
    pub(crate) fn on_replaced(&mut self, by: Seq, out: &mut Effects) {
        for seq in self.checkpoints.rotten.replaced(by) {
            self.checkpoints.repaired += 1;
            let text = format!("the checkpoint of seq {by} takes the place of the damaged one of seq {seq}");
            out.event(Event::State { text, bad: false });
        }
    }

    pub(crate) fn ask_for_repairs(&mut self, now: Time, out: &mut Effects) {
        let agreement = &self.checkpoints.agreement;
        let holders = |seq: Seq, digest: Digest| {
            let offers = agreement.offers(seq);
            let offer = offers.into_iter().find(|offer| offer.seq == seq && offer.digest == digest);
            offer.map_or_else(Vec::new, |offer| offer.holders)
        };
        for (to, message) in self.checkpoints.repairs.ask(now, holders) {
            self.tell(to, &message, out);
        }
    }

    /// What a member sent of a rotten part; the keeper compares it before it is written.
    pub(crate) fn repair(&self, seq: Seq, chunk: u32, bytes: bytes::Bytes, out: &mut Effects) {
        out.push(Effect::Keep(KeeperWork { job: Job::Repair { seq, chunk, bytes }, stops: false }));
    }
}
