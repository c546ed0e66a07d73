//! Published states: the newest final state, for readers on other threads.
//!
//! While there are readers, the engine hands out its newest final state once in a turn, before any answer of that turn leaves. A reader
//! answers queries from it on its own thread, without the thread that executes. Only services in the store have such a state. Handing it
//! out copies no objects: the version is shared, and an object is copied when it changes afterwards. Tests: `tests/all/published.rs`.

use crate::context::Context;
use crate::objects::ObjectService;
use crate::service::{ReplySink, ReplyTooLarge};
use quorate_state::store::{Store, Version};
use quorate_types::{AgreedTime, Seq};

/// The final state at a seq. It never changes. Cloning is cheap, and any thread may hold it.
#[derive(Clone)]
pub struct Published {
    /// The objects.
    pub objects: Version,
    /// The last seq that was executed.
    pub seq: Seq,
    /// The agreed time then.
    pub time: AgreedTime,
    /// The feature level then.
    pub level: u32,
    /// The level of the service then.
    pub service_level: u32,
}

impl Published {
    /// Answers a read as the replica would from this state. `service` must be of the replica's type, with the same configuration.
    ///
    /// # Errors
    /// When the answer has more than `max` bytes.
    pub fn query(
        &self,
        service: &impl ObjectService,
        query: &[u8],
        max: usize,
    ) -> Result<Vec<u8>, ReplyTooLarge> {
        let mut out = Vec::new();
        let mut sink = ReplySink::new(&mut out, max);
        let ctx = Context::at(self.seq, self.time).with_level(self.level);
        let ctx = ctx.with_service_level(self.service_level);
        service.query(&Store::from_version(&self.objects), query, &ctx, &mut sink);
        if sink.overflown() { Err(ReplyTooLarge { max }) } else { Ok(out) }
    }
}

/// Takes the states that the engine hands out. Called on the lane that executes, so it must be quick and never wait.
pub trait Publisher: Send {
    /// Whether the state of this seq is wanted: there are readers, and they do not have it.
    fn wants(&self, seq: Seq) -> bool;

    /// Takes the present state.
    fn publish(&mut self, state: Published);

    /// Takes back the state that was handed out: this replica answers no reads now.
    fn withdraw(&mut self);
}
