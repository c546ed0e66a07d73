//! Execution as a stage: batches are delivered to it in order, and it says in the same order what became final.
//!
//! Delivery never waits for execution. What is agreed on with the order alone ([`Agreed`]: how far the log was delivered, and the time) takes
//! effect at delivery. Replies, reads, images and what sessions are told come from final state only, which never goes back. How and when
//! batches are executed in between is an executor's own business; [`Sequential`] executes each as soon as somebody asks for it.
//!
//! INV-EXEC-8: a service hears each end of a session and each change of the membership once, where it stands in the order.
//! INV-EXEC-7: batches, gaps and borders become final in the order of their delivery. Tests: `tests/all/stage.rs`, and check/sim with an
//! executor that is late and takes back what it did.

use crate::agreed::{Agreed, Moment};
use crate::around::MembershipNow;
use crate::checkpoint::CheckpointError;
use crate::executor::Executor;
use crate::images::ImageParts;
use crate::outcomes::Outcomes;
use quorate_state::store::Version;
use quorate_types::{Seq, Time};
use quorate_wire::Batch;
use std::collections::VecDeque;

/// What is delivered, in the order of the global log.
#[derive(Clone, Debug)]
pub enum Ordered {
    /// A batch.
    Batch(Seq, Moment, Batch),
    /// Nothing stands in the log up to this seq.
    Pass(Seq),
    /// What comes from here on is read at this feature level. Delivered right behind the batch that says so, and final with it.
    Level(u32),
    /// A change of the membership is done; the service hears it. Delivered and final like a level.
    Members(MembershipNow),
    /// Capturing begins here for the border with this number, so that less is left to do there.
    Ahead(u64),
    /// A border: the state here becomes an image.
    Border,
}

impl Ordered {
    /// Whether it takes effect with the batch before it: nobody reads or compares the state in between.
    pub const fn follows(&self) -> bool {
        matches!(self, Self::Level(_) | Self::Members(_))
    }
}

/// What became final, in the same order.
pub enum Final {
    /// A batch was executed; its outcomes are there.
    Batch(Seq),
    /// Nothing stood there, or nothing that anybody waits for. What the service tells of it is in the outcomes.
    Nothing,
    /// The objects as they are where capturing begins for the border with this number, if they are known between borders.
    Ahead(u64, Option<Version>),
    /// The state at a border, or why the service can not give it.
    Image(Result<ImageParts, CheckpointError>),
}

/// How batches that were delivered are executed.
pub trait Execution: Send {
    /// Takes what comes next. Never waits.
    fn deliver(&mut self, ordered: Ordered);

    /// What became final next, if anything did by now; the outcomes of a batch are in `outcomes` then.
    fn next(&mut self, now: Time, outcomes: &mut Outcomes) -> Option<Final>;

    /// When to ask again, if nothing else is delivered; nothing where all that was delivered is final.
    fn deadline(&self) -> Option<Time>;

    /// Whether something was delivered that is not final yet.
    fn is_behind(&self) -> bool;

    /// The final state, and what is agreed on.
    fn state(&self) -> &Executor;

    /// The same. Nobody but the engine changes it, and only what is agreed on at delivery.
    fn state_mut(&mut self) -> &mut Executor;

    /// Another state takes the place of this one; what was delivered and is not final is forgotten.
    ///
    /// # Errors
    /// Those of [`Executor::restore_image`].
    fn restore(&mut self, system: &[u8], objects: &Version) -> Result<(), CheckpointError>;
}

impl dyn Execution {
    /// What is agreed on with what was delivered.
    pub fn agreed(&self) -> &Agreed {
        self.state().agreed()
    }

    /// Delivers a batch.
    ///
    /// # Panics
    /// When `seq` is not the next: a bug of ours.
    pub fn batch(&mut self, seq: Seq, batch: Batch) {
        let moment = self.state_mut().deliver(seq, &batch.header());
        self.deliver(Ordered::Batch(seq, moment, batch));
    }

    /// Nothing stands in the log after what was delivered, up to this seq.
    ///
    /// # Panics
    /// When it goes back: a bug of ours.
    pub fn pass(&mut self, seq: Seq) {
        self.state_mut().deliver_nothing(seq);
        self.deliver(Ordered::Pass(seq));
    }

    /// What comes from here on is executed at this feature level.
    pub fn set_level(&mut self, level: u32) {
        self.state_mut().agree_on_level(level);
        self.deliver(Ordered::Level(level));
    }
}

impl Executor {
    /// Takes what comes next off what was delivered, with what follows it, and executes that.
    pub fn take(&mut self, delivered: &mut VecDeque<Ordered>, outcomes: &mut Outcomes) -> Option<Final> {
        let done = self.take_one(delivered.pop_front()?, outcomes);
        while matches!(done, Final::Batch(_)) && delivered.front().is_some_and(Ordered::follows) {
            self.take_one(delivered.pop_front()?, outcomes);
        }
        outcomes.set_events(self.take_events());
        Some(done)
    }

    fn take_one(&mut self, ordered: Ordered, outcomes: &mut Outcomes) -> Final {
        match ordered {
            Ordered::Batch(seq, moment, batch) => {
                self.run_batch(seq, &batch, moment, outcomes);
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
            Ordered::Members(now) => {
                self.meet_members(&now);
                Final::Nothing
            }
            Ordered::Ahead(border) => Final::Ahead(border, self.objects()),
            Ordered::Border => Final::Image(self.image()),
        }
    }
}

/// Executes one batch after the other, on the lane that asks: each is final at once.
pub struct Sequential {
    executor: Executor,
    delivered: VecDeque<Ordered>,
}

impl Sequential {
    /// Goes on from a state.
    pub fn new(executor: Executor) -> Self {
        Self { executor, delivered: VecDeque::new() }
    }
}

impl Execution for Sequential {
    fn deliver(&mut self, ordered: Ordered) {
        self.delivered.push_back(ordered);
    }

    fn next(&mut self, _: Time, outcomes: &mut Outcomes) -> Option<Final> {
        self.executor.take(&mut self.delivered, outcomes)
    }

    fn deadline(&self) -> Option<Time> {
        None
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
