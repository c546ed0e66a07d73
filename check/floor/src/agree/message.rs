//! The bytes between replicas that agree.
//!
//! A message is a header of 16 bytes, a digest, a MAC for each replica, and in a proposal a batch of whole commands.
//! Header, little-endian: `u32` length of the batch, `u8` kind, `u8` number of the sender, `u16` zero, `u64` slot.

use crate::tag::{self, Digest, Key};

/// Size of the header.
const HEADER: usize = 16;

/// The kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The slot's batch. Only the leader sends it.
    Propose = 1,
    /// The sender holds the batch with this digest.
    Write = 2,
    /// A quorum holds the batch with this digest.
    Accept = 3,
    /// There will be neither this slot nor any later one. Only the leader sends it.
    End = 4,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        [Kind::Propose, Kind::Write, Kind::Accept, Kind::End].into_iter().find(|kind| *kind as u8 == byte)
    }

    /// Whether only the leader may send this kind.
    fn is_leaders(self) -> bool {
        matches!(self, Kind::Propose | Kind::End)
    }
}

/// Size of a message without its batch, among this number of replicas.
pub(crate) const fn head_bytes(replicas: usize) -> usize {
    HEADER + tag::BYTES + replicas * tag::BYTES
}

/// The sender of messages: its number, and its keys for all replicas in their order.
pub(crate) struct Sender {
    pub(crate) number: u8,
    pub(crate) keys: Vec<Key>,
}

impl Sender {
    pub(crate) fn new(number: u8, replicas: u8) -> Sender {
        Sender { number, keys: (0..replicas).map(|to| Key::of(number, to)).collect() }
    }
}

/// A message being put together, or one that the peers share.
pub(crate) struct Message {
    bytes: Vec<u8>,
    head: usize,
    len: usize,
}

impl Message {
    /// An empty message with room for a batch of `batch` bytes.
    pub(crate) fn new(replicas: usize, batch: usize) -> Message {
        let head = head_bytes(replicas);
        Message { bytes: vec![0; head + batch], head, len: 0 }
    }

    /// Where the batch goes.
    pub(crate) fn batch(&mut self) -> &mut [u8] {
        &mut self.bytes[self.head..]
    }

    /// Completes the message: its batch is the first `batch` bytes, and `digest` is the batch's digest.
    pub(crate) fn seal(&mut self, batch: usize, kind: Kind, slot: u64, digest: &Digest, sender: &Sender) {
        self.bytes[..4].copy_from_slice(&(batch as u32).to_le_bytes());
        self.bytes[4..8].copy_from_slice(&[kind as u8, sender.number, 0, 0]);
        self.bytes[8..HEADER].copy_from_slice(&slot.to_le_bytes());
        let (of_batch, macs) = self.bytes[HEADER..self.head].split_at_mut(tag::BYTES);
        of_batch.copy_from_slice(digest);
        for (mac, key) in macs.chunks_exact_mut(tag::BYTES).zip(&sender.keys) {
            mac.copy_from_slice(&key.mac(kind as u8, slot, digest));
        }
        self.len = self.head + batch;
    }

    /// The batch of the sealed message.
    pub(crate) fn sealed_batch(&self) -> &[u8] {
        &self.sealed()[self.head.min(self.len)..]
    }

    /// The sealed message as it is sent and written.
    pub(crate) fn sealed(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// What a replica expects of the messages of another one.
pub(crate) struct Expected {
    pub(crate) replicas: usize,
    pub(crate) from: u8,
    pub(crate) to: u8,
    /// The key for this direction.
    pub(crate) key: Key,
    pub(crate) leads: bool,
    pub(crate) batch_max: usize,
    pub(crate) command_bytes: usize,
}

/// A message whose MAC and digest were right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heard<'a> {
    pub(crate) kind: Kind,
    pub(crate) slot: u64,
    pub(crate) digest: &'a Digest,
    /// Empty except in a proposal.
    pub(crate) batch: &'a [u8],
}

/// Splits the first message off `bytes` and checks it. Gives the message and the bytes behind it. `Ok(None)`: the message is not complete
/// yet. `Err`: why it is not a message of this sender.
pub(crate) fn split<'a>(
    bytes: &'a [u8],
    expected: &Expected,
) -> Result<Option<(Heard<'a>, &'a [u8])>, &'static str> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else { return Ok(None) };
    let [a, b, c, d, kind, from, _, _, slot @ ..] = *header;
    let kind = Kind::of(kind).ok_or("a message of an unknown kind")?;
    if kind.is_leaders() && !expected.leads {
        return Err("what only the leader may say");
    }
    if from != expected.from {
        return Err("a message in another one's name");
    }
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    let max = if kind == Kind::Propose { expected.batch_max } else { 0 };
    if len > max || !len.is_multiple_of(expected.command_bytes) {
        return Err("a batch that is too long, or not of whole commands");
    }
    let Some((digest, rest)) = rest.split_first_chunk::<{ tag::BYTES }>() else { return Ok(None) };
    let Some((macs, rest)) = rest.split_at_checked(expected.replicas * tag::BYTES) else { return Ok(None) };
    let Some((batch, rest)) = rest.split_at_checked(len) else { return Ok(None) };
    let slot = u64::from_le_bytes(slot);
    let mac = macs.chunks_exact(tag::BYTES).nth(usize::from(expected.to));
    if mac != Some(&expected.key.mac(kind as u8, slot, digest)) {
        return Err("a wrong MAC");
    }
    if kind == Kind::Propose && tag::digest(batch) != *digest {
        return Err("a batch with a wrong digest");
    }
    Ok(Some((Heard { kind, slot, digest, batch }, rest)))
}

#[cfg(test)]
mod tests;
