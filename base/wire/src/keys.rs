//! Keys that a client shares with each replica, and the tags that they make under its requests.
//!
//! ```text
//! keys   0        8        40
//!        | key id | secret | ... once more for each key, 4 at most
//! tags   0        8                 16
//!        | key id | of one member   | of the next one ...
//! ```
//! A tag is checked by one replica only, over the network, and each wrong guess costs a lying leader its view. So 8 bytes are enough; each
//! further byte would be sent n times with each request. Source: Castro, Liskov, "Practical Byzantine Fault Tolerance", OSDI 1999
//! (authenticators).

use crate::batch::REQUEST_HEADER;
use crate::codec::{Put, Reader};
use crate::frame::{FrameKind, OutFrame};
use bytes::Bytes;
use quorate_types::{Reject, ReplicaId};
use std::fmt;

/// Bytes of a tag.
pub const TAG_BYTES: usize = 8;
/// Bytes of the number of keys.
pub const KEY_ID_BYTES: usize = 8;
/// Fewer replicas can not survive one that lies.
pub(crate) const MACS_MIN: usize = 4;
/// A cluster has at most this many members.
pub(crate) const MACS_MAX: usize = 64;
/// A client tells at most this many keys at once.
const KEYS_MAX: usize = 4;

/// A key of a client and one replica.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SharedKey {
    /// The number of the key, which the client chooses and never uses again.
    pub id: u64,
    /// The secret, which only the client and this replica know.
    pub secret: [u8; 32],
}

impl fmt::Debug for SharedKey {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedKey({:016x})", self.id)
    }
}

/// The frame by which a client tells a replica the keys that they share from now on; 1 to 4 of them.
pub fn keys_frame(keys: &[SharedKey]) -> OutFrame {
    let mut payload = Vec::with_capacity(keys.len() * (KEY_ID_BYTES + 32));
    for key in keys {
        payload.put_u64(key.id);
        payload.extend_from_slice(&key.secret);
    }
    OutFrame::new(FrameKind::Keys, &payload, vec![])
}

/// The keys in a client's frame of them.
///
/// # Errors
/// When there is none, or more than 4, or bytes are left.
pub fn read_keys(payload: Bytes) -> Result<Vec<SharedKey>, Reject> {
    let mut reader = Reader::new(payload, "keys");
    let mut keys = Vec::with_capacity(KEYS_MAX);
    while reader.remaining() > 0 {
        if keys.len() == KEYS_MAX {
            return Err(Reject::Malformed("keys: too many"));
        }
        keys.push(SharedKey { id: reader.u64()?, secret: reader.array()? });
    }
    if keys.is_empty() { Err(Reject::Malformed("keys: none")) } else { Ok(keys) }
}

/// The keys of a client and all replicas, one for each, and the tags that they make.
pub trait RequestTags: fmt::Debug + Send {
    /// The key to tell this replica; none if there is no key for it.
    fn shared_with(&self, replica: ReplicaId) -> Option<SharedKey>;
    /// Appends the bytes after a request's body: the number of the keys, and a tag for each replica. `header` says for how many.
    fn write(&self, header: &[u8; REQUEST_HEADER], body: &[u8], out: &mut Vec<u8>);
}

/// Makes the keys of one client.
pub trait RequestTagger: fmt::Debug + Send + Sync {
    /// The client's keys of an epoch; the same at each call. `replicas`: all replicas, in the order of their ids.
    fn keys(&self, epoch: u64, replicas: &[ReplicaId]) -> Box<dyn RequestTags>;
}
