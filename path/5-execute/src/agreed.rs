//! The facts that are agreed with the order alone, before anything is executed: how far the global log was delivered, and the agreed time
//! there.
//!
//! Where several leaders propose, each extends agreed time from the time that it knows, without knowing what the others propose meanwhile.
//! So a batch adds at most [`LEADERS_APART`] to the time that its leader knew, unless no batch came in between. Everything that ends at a
//! time, such as a session, ends later by as much. docs/protocols/merge.md, "Agreed time", has the argument.
//!
//! INV-EXEC-3: agreed time never goes back. Tests: `tests/all/leaders.rs`.

use quorate_types::{AgreedTime, InstanceId, Seq, Slot, Span, planted};
use quorate_wire::BatchHeader;

/// The most by which the agreed times of several leaders differ.
pub const LEADERS_APART: Span = Span::from_secs(1);

/// The agreed time and level at which a batch is executed, and where it was decided. The same at every replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The agreed time of the batch.
    pub time: AgreedTime,
    /// Sessions and leases that end at this time or before have ended.
    pub due: AgreedTime,
    /// The cluster's feature level.
    pub level: u32,
    /// The instance that decided it.
    pub instance: InstanceId,
    /// The slot of that instance.
    pub slot: Slot,
}

/// The slot of an instance in which a batch was decided.
pub(crate) type Decided = (InstanceId, Slot);

/// The place of a seq in a cluster that always had one instance.
pub(crate) fn alone(seq: Seq) -> Decided {
    (InstanceId::new(1), Slot::new(seq.number()))
}

/// How far the global log was delivered, and the agreed time there.
#[derive(Clone, Debug)]
pub struct Agreed {
    seq: Seq,
    time: AgreedTime,
    /// The cluster's feature level.
    level: u32,
    /// Whether several leaders propose.
    many: bool,
    /// Whether a leader may lie.
    liars: bool,
}

impl Agreed {
    /// The state after this seq.
    pub(crate) fn at(seq: Seq, time: AgreedTime, level: u32) -> Self {
        Self { seq, time, level, many: false, liars: false }
    }

    /// The last seq that was delivered.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// The time of the last batch that was delivered.
    pub fn time(&self) -> AgreedTime {
        self.time
    }

    /// Whether batches name the agreed time that their leaders knew.
    pub fn takes_bases(&self) -> bool {
        self.many
    }

    /// By how much sessions and leases end later than the time that they name.
    pub fn apart(&self) -> Span {
        if self.takes_bases() { LEADERS_APART } else { Span::ZERO }
    }

    pub(crate) fn set_level(&mut self, level: u32) {
        self.level = level;
    }

    pub(crate) fn set_leaders(&mut self, many: bool, liars: bool) {
        (self.many, self.liars) = (many, liars);
    }

    /// Continues from another state.
    pub(crate) fn go_on(&mut self, seq: Seq, time: AgreedTime, level: u32) {
        (self.seq, self.time, self.level) = (seq, time, level);
    }

    /// Delivers the next batch, which has this header and was decided there.
    pub(crate) fn deliver(&mut self, seq: Seq, (instance, slot): Decided, header: &BatchHeader) -> Moment {
        assert_eq!(seq, self.seq.next(), "INV-EXEC-1: batches are delivered in order, each once");
        (self.seq, self.time) = (seq, self.time_of(header));
        Moment { time: self.time, due: self.time.minus(self.apart()), level: self.level, instance, slot }
    }

    /// Delivers an empty part of the global log, up to this seq.
    pub(crate) fn pass(&mut self, seq: Seq) {
        assert!(seq > self.seq, "INV-EXEC-1: nothing is passed twice");
        self.seq = seq;
    }

    /// The agreed time of a batch with this header if it is the next one.
    fn time_of(&self, header: &BatchHeader) -> AgreedTime {
        // A lying leader could say that it knows nothing, and let time stand still. Where leaders may lie, voters check the time instead.
        let Some(base) = header.base.filter(|_| self.takes_bases() && !self.liars) else {
            return self.time.max(header.time);
        };
        // Each batch has a time of its own, so its leader had executed everything before it if the time that it knew is this one.
        let knew_all = base == self.time || planted("time-apart");
        let most = if knew_all { header.time } else { header.time.min(base.plus(self.apart())) };
        self.time.plus(Span::from_nanos(1)).max(most)
    }
}
