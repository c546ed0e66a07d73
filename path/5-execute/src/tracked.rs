//! Services that keep their state themselves and remember which of their objects change.
//!
//! Stage 5 (execute). Source: Distler, "Resource-Aware System Software for Replicated Services", section 5.2: the second of its
//! two ways to learn what changed, where the service watches its own changes and the engine coordinates the checkpoint. The
//! engine's half is `images.rs`.
//! Tests: `tests/all/images.rs`, `tests/all/kinds.rs`.

use crate::checkpoint::{CheckpointError, CheckpointSink, CheckpointSource, NO_MORE_OBJECTS, write_object};
use crate::objects::read_objects;

/// What a [`Service`](crate::Service) offers that tracks its own changes and gives this from
/// [`Service::tracked`](crate::Service::tracked). Its state is a set of objects, each with a key; how it holds them is its own
/// affair, and which keys there are follows from the state alone. Keys have at most 64 KiB, values 16 MiB.
///
/// The engine keeps a copy: first [`Self::track`], then [`Self::copy`] piece by piece between batches, and at the border
/// [`Self::changes`]; from then on only changes. So execution never waits until the whole state is copied, at the price of holding
/// it twice.
pub trait Tracked {
    /// From now on, remember which objects are written or removed; forget what was remembered before.
    fn track(&mut self);

    /// Gives objects as they are now to `take`, in key order, beginning after the key `after` (which need not exist any more),
    /// or with the first: about so many bytes, and at least one object if there is one. Whether there are more.
    fn copy(&self, after: Option<&[u8]>, bytes: usize, take: &mut dyn FnMut(&[u8], &[u8])) -> bool;

    /// Gives each object that was written or removed since [`Self::track`], or since the last call of this, to `take`: once, in
    /// key order, with its present value, or without one when it is gone. What changed on the way to that does not matter.
    /// Remembering goes on from here.
    #[allow(clippy::type_complexity, reason = "an object's key, and its value unless it is gone")]
    fn changes(&mut self, take: &mut dyn FnMut(&[u8], Option<&[u8]>));

    /// Replaces the state by these objects, which come in key order.
    ///
    /// # Errors
    /// When they are no state of this service. It is best then to keep the old state; the engine does not rely on it.
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

/// The other half, for [`Service::restore`](crate::Service::restore).
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
