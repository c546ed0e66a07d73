//! Execution as a stage: it takes delivered batches in order, and reports in the same order which became final.
//!
//! Delivery never waits for execution. The facts that follow from the order alone ([`Agreed`]: how far the log was delivered, and the
//! agreed time) change at delivery. Replies, reads, images and lookups of sessions come from final state only, which is never taken back.
//! Each [`Execution`] decides how and when it executes in between; [`Sequential`] executes a batch when it is asked for the next result.
//!
//! INV-EXEC-8: a service hears each end of a session and each change of the membership once, at its place in the order.
//! INV-EXEC-7: batches, gaps and borders become final in the order of their delivery. Tests: `tests/all/stage.rs`, and check/sim with an
//! execution that is late and takes batches back.

use crate::agreed::{Agreed, Moment, alone};
use crate::around::MembershipNow;
use crate::checkpoint::CheckpointError;
use crate::executor::Executor;
use crate::images::ImageParts;
use crate::nested::Arrival;
use crate::ordered::Parallelism;
use crate::outcomes::Outcomes;
use crate::verified::Verified;
use crate::work::{Work, Worked};
use quorate_state::store::{Changed, Version};
use quorate_types::{InstanceId, Seq, Slot, Time, planted};
use quorate_wire::{Batch, NeighbourCommand, Ruling};
use std::collections::VecDeque;

/// An item that is delivered, in the order of the global log.
#[derive(Clone, Debug)]
pub enum Ordered {
    /// A batch.
    Batch(Seq, Moment, Batch),
    /// A gap: the log has no batches up to this seq.
    Pass(Seq),
    /// From here on the state is read at this feature level. Delivered right after the batch that raises the level, and final with that
    /// batch.
    Level(u32),
    /// From here on the service works at this level, if it can make its state that of the version. Delivered and final like a level.
    Service(u32),
    /// A change of the membership is done, which the service hears. Delivered and final like a level.
    Members(MembershipNow),
    /// The capture for the border with this number begins here, so that less is left to do at the border.
    Ahead(u64),
    /// A border: the state here becomes an image.
    Border,
    /// What the last batch brings from other services. Delivered right after it, and final with it.
    Nested(Vec<Arrival>),
    /// Another service is a neighbour from here on, or no longer. Delivered and final like a level.
    Neighbour(NeighbourCommand),
    /// What the batch of this seq says about results of earlier ones. Only where results are verified; it never becomes final itself.
    Ruled(Seq, Ruling),
}

impl Ordered {
    /// Whether it is final together with the batch before it: nobody reads or compares the state between the two.
    pub const fn follows(&self) -> bool {
        matches!(
            self,
            Self::Level(_) | Self::Service(_) | Self::Members(_) | Self::Nested(_) | Self::Neighbour(_)
        )
    }
}

/// An item that became final, in the same order.
pub enum Final {
    /// A batch; its outcomes are in the [`Outcomes`].
    Batch(Seq),
    /// A gap, a level or a change of the membership: nobody waits for those. The service's events are in the [`Outcomes`].
    Nothing,
    /// The objects where the capture for the border with this number begins, if they are known between borders.
    Ahead(u64, Option<Version>),
    /// The state at a border, or why the service can not give it.
    Image(Result<ImageParts, CheckpointError>),
}

/// What a batch did, from another run of it.
pub struct Known<'k> {
    pub(crate) at: (Seq, Moment),
    pub(crate) batch: &'k Batch,
    pub(crate) outcomes: &'k Outcomes,
    pub(crate) changed: &'k Changed,
}

/// A way to execute delivered batches.
pub trait Execution: Send {
    /// Takes the next item. Never waits.
    fn deliver(&mut self, ordered: Ordered);

    /// The next item that became final, if one did by now. Its outcomes are then in `outcomes`.
    fn next(&mut self, now: Time, outcomes: &mut Outcomes) -> Option<Final>;

    /// When to ask again, if nothing else is delivered; nothing if all delivered items are final.
    fn deadline(&self) -> Option<Time>;

    /// Gives out what a worker should do now; called until there is no more. Each piece is answered with [`Self::worked`], at any time and
    /// in any order.
    fn work(&mut self) -> Option<Work> {
        None
    }

    /// Workers answered.
    fn worked(&mut self, done: Worked) {
        let _ = done;
    }

    /// Whether more may be delivered now. What is delivered takes memory until it is final.
    fn has_room(&self) -> bool {
        true
    }

    /// Whether what is delivered may wait for the end of a turn before [`Self::next`] is called.
    fn postpones(&self) -> bool {
        false
    }

    /// Whether the level of the service can be raised. Where commands run before their turn, they would have begun at another level.
    fn raises_service(&self) -> bool {
        false
    }

    /// How much runs on workers, if anything may.
    fn parallelism(&self) -> Option<Parallelism> {
        None
    }

    /// Whether the state at the last border will be final without another delivery. Where results are verified, the ruling for it lies
    /// behind it.
    fn is_settled(&self) -> bool {
        true
    }

    /// This execution, if it verifies results.
    fn verified(&self) -> Option<&Verified> {
        None
    }

    /// As [`Self::verified`].
    fn verified_mut(&mut self) -> Option<&mut Verified> {
        None
    }

    /// Whether results may be others when batches run again. Only if results are verified.
    fn may_vary(&self) -> bool {
        false
    }

    /// Whether what became final last may be another one when it runs again.
    fn has_varied(&self) -> bool {
        false
    }

    /// Replicas came to different results: everything up to this seq ran again, one command after the other.
    fn failed(&mut self, seq: Seq) {
        let _ = seq;
    }

    /// Takes over what the next batch did, while nothing is under way.
    fn take_over(&mut self, known: &Known<'_>) {
        self.state_mut().follow(known.at, known.batch, known.outcomes, known.changed);
    }

    /// Panics with the name of an invariant that does not hold.
    fn invariants(&self) {}

    /// Whether a delivered item is not final yet.
    fn is_behind(&self) -> bool;

    /// The final state, and what is agreed at delivery.
    fn state(&self) -> &Executor;

    /// As [`Self::state`]. Only the engine may change it, and only what is agreed at delivery.
    fn state_mut(&mut self) -> &mut Executor;

    /// Replaces the state by that of an image. Delivered items that are not final are dropped.
    ///
    /// # Errors
    /// Those of [`Executor::restore_image`].
    fn restore(&mut self, system: &[u8], objects: &Version) -> Result<(), CheckpointError>;
}

impl dyn Execution {
    /// The facts that are agreed at delivery.
    pub fn agreed(&self) -> &Agreed {
        self.state().agreed()
    }

    /// Delivers a batch of a cluster with one instance.
    ///
    /// # Panics
    /// When `seq` is not the next: a bug of ours.
    pub fn batch(&mut self, seq: Seq, batch: Batch) {
        self.batch_of(seq, alone(seq), batch);
    }

    /// Delivers the batch that this slot of this instance decided.
    ///
    /// # Panics
    /// When `seq` is not the next: a bug of ours.
    pub fn batch_of(&mut self, seq: Seq, place: (InstanceId, Slot), batch: Batch) {
        let moment = self.state_mut().deliver(seq, place, &batch.header());
        self.deliver(Ordered::Batch(seq, moment, batch));
    }

    /// Delivers a gap: the log has no batches after the delivered ones, up to this seq.
    ///
    /// # Panics
    /// When `seq` is not a later one: a bug of ours.
    pub fn pass(&mut self, seq: Seq) {
        self.state_mut().deliver_nothing(seq);
        self.deliver(Ordered::Pass(seq));
    }

    /// Later batches are executed at this feature level.
    pub fn set_level(&mut self, level: u32) {
        self.state_mut().agree_on_level(level);
        self.deliver(Ordered::Level(level));
    }

    /// Later batches are executed at this level of the service, if its state can be made that of the version.
    pub fn raise_service(&mut self, level: u32) {
        self.deliver(Ordered::Service(level));
    }
}

impl Executor {
    /// Executes the next delivered item, and those that are final together with it.
    pub fn take(&mut self, delivered: &mut VecDeque<Ordered>, outcomes: &mut Outcomes) -> Option<Final> {
        let done = self.take_one(delivered.pop_front()?, outcomes);
        while matches!(done, Final::Batch(_)) && delivered.front().is_some_and(Ordered::follows) {
            self.take_one(delivered.pop_front()?, outcomes);
        }
        self.close(outcomes);
        outcomes.set_events(self.take_events());
        Some(done)
    }

    pub(crate) fn take_one(&mut self, ordered: Ordered, outcomes: &mut Outcomes) -> Final {
        match ordered {
            Ordered::Batch(seq, moment, batch) => {
                self.run_batch(seq, &batch, moment, None, outcomes);
                Final::Batch(seq)
            }
            Ordered::Pass(seq) => {
                self.pass_over(seq);
                Final::Nothing
            }
            Ordered::Level(level) => {
                self.read_at(level);
                Final::Nothing
            }
            Ordered::Service(level) => {
                self.raise_service(level);
                Final::Nothing
            }
            Ordered::Members(now) => {
                self.meet_members(&now);
                Final::Nothing
            }
            Ordered::Nested(arrivals) => {
                self.hear(&arrivals, outcomes);
                Final::Nothing
            }
            Ordered::Neighbour(command) => {
                // Whoever asked for it sees in the status whether it is one.
                let _ = self.neighbour(&command);
                Final::Nothing
            }
            Ordered::Ahead(border) => Final::Ahead(border, self.objects()),
            Ordered::Border => Final::Image(self.image()),
            // Results are final when they are there.
            Ordered::Ruled(..) => Final::Nothing,
        }
    }
}

/// Executes one batch after the other, on the lane that asks; each is final at once.
pub struct Sequential {
    executor: Executor,
    delivered: VecDeque<Ordered>,
}

impl Sequential {
    /// Continues from a state.
    pub fn new(executor: Executor) -> Self {
        Self { executor, delivered: VecDeque::new() }
    }
}

impl Execution for Sequential {
    fn deliver(&mut self, ordered: Ordered) {
        match ordered {
            Ordered::Nested(arrivals) if planted("answer-used-when-it-arrives") => {
                self.executor.hear(&arrivals, &mut Outcomes::new());
            }
            ordered => self.delivered.push_back(ordered),
        }
    }

    fn next(&mut self, _: Time, outcomes: &mut Outcomes) -> Option<Final> {
        self.executor.take(&mut self.delivered, outcomes)
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn postpones(&self) -> bool {
        true
    }

    fn raises_service(&self) -> bool {
        self.executor.can_raise_service()
    }

    fn is_behind(&self) -> bool {
        !self.delivered.is_empty()
    }

    fn state(&self) -> &Executor {
        &self.executor
    }

    fn state_mut(&mut self) -> &mut Executor {
        &mut self.executor
    }

    fn restore(&mut self, system: &[u8], objects: &Version) -> Result<(), CheckpointError> {
        self.delivered.clear();
        self.executor.restore_image(system, objects)
    }
}
