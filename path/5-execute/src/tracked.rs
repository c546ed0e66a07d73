//! Services that hold their state themselves and remember which of their objects change.
//!
//! Stage 5 (execute). Source: Distler, "Resource-Aware System Software for Replicated Services", section 5.2: the second of its
//! two ways to learn what changed, where the service watches its own changes and the engine coordinates the checkpoint. The
//! engine's half is `images.rs`.
//! Tests: `tests/all/images.rs`, `tests/all/kinds.rs`.

use crate::checkpoint::{CheckpointError, CheckpointSink, CheckpointSource, NO_MORE_OBJECTS, write_object};
use crate::objects::read_objects;

/// What a [`Service`](crate::Service) must offer to track its own changes; it gives this from
/// [`Service::tracked`](crate::Service::tracked). Its state is a set of objects, each with a key. The service may hold them in any form,
/// but the set of keys must follow from the state alone. Keys have at most 64 KiB, values 16 MiB.
///
/// The engine keeps a copy. It calls [`Self::track`], then [`Self::copy`] piece by piece between batches, and at the border
/// [`Self::changes`]; afterwards only changes. So execution never waits for a copy of the whole state, which is held twice for that.
pub trait Tracked {
    /// From now on remembers which objects are written or removed; forgets what it remembered before.
    fn track(&mut self);

    /// Gives present objects to `take` in key order, from behind the key `after` (which need not exist any more), or from the first: about
    /// this many bytes, and at least one object if there is one. Says whether there are more.
    fn copy(&self, after: Option<&[u8]>, bytes: usize, take: &mut dyn FnMut(&[u8], &[u8])) -> bool;

    /// Gives each object that was written or removed since [`Self::track`], or since the last call of this, to `take`: once, in key order,
    /// with its present value, or without one when it is gone. Then remembers changes from here on.
    #[allow(clippy::type_complexity, reason = "an object's key, and its value unless it is gone")]
    fn changes(&mut self, take: &mut dyn FnMut(&[u8], Option<&[u8]>));

    /// Replaces the state by these objects, which come in key order.
    ///
    /// # Errors
    /// When the objects are no state of this service. Best keep the old state then; the engine does not rely on that.
    fn load(&mut self, objects: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<(), CheckpointError>;
}

/// All objects of a tracked service as a stream: its [`Service::checkpoint`](crate::Service::checkpoint) in one line.
///
/// # Errors
/// When the sink fails.
pub fn checkpoint_tracked(
    service: &dyn Tracked,
    out: &mut dyn CheckpointSink,
) -> Result<(), CheckpointError> {
    let mut written = Ok(());
    service.copy(None, usize::MAX, &mut |key, value| {
        if written.is_ok() {
            written = write_object(out, key, value);
        }
    });
    written?;
    out.write(&NO_MORE_OBJECTS.to_le_bytes())
}

/// Reads such a stream; for [`Service::restore`](crate::Service::restore).
///
/// # Errors
/// When the source fails or holds no state of this service.
pub fn restore_tracked(
    service: &mut dyn Tracked,
    from: &mut dyn CheckpointSource,
) -> Result<(), CheckpointError> {
    let objects = read_objects(from)?;
    service.load(&mut objects.range(b"", None))
}
