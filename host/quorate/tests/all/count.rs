//! A service that several tests replicate.

use quorate::{Context, ObjectService, ReplySink, Store};

/// Counts the commands; the reply is the count.
pub(crate) struct Count;

impl ObjectService for Count {
    fn execute(&mut self, store: &mut Store, _: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let before = store.get(b"count").and_then(|bytes| bytes.first_chunk().copied());
        let count = before.map_or(0, u64::from_le_bytes) + 1;
        store.put(b"count", &count.to_le_bytes());
        reply.write(&count.to_le_bytes());
    }

    fn query(&self, _: &Store, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
}
