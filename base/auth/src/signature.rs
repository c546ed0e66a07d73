//! Signatures and lists of them, as they are sent and as they lie in logs.
//!
//! Decoders bound every list before they make room for it, and a list names each member at most once, in the order of their ids.

use bytes::Bytes;
use quorate_types::{Reject, ReplicaId};
use quorate_wire::{MEMBERS_MAX, Put, Reader};
use std::fmt;

/// A signature has at most this many bytes.
pub const SIGNATURE_MAX: usize = 64;

/// A signature, or what the configured authentication uses instead; empty where there is none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    len: u8,
    bytes: [u8; SIGNATURE_MAX],
}

impl Signature {
    /// No signature.
    pub const NONE: Self = Self { len: 0, bytes: [0; SIGNATURE_MAX] };

    /// The signature with these bytes, of which there are at most [`SIGNATURE_MAX`].
    ///
    /// # Errors
    /// When there are more.
    pub fn new(bytes: &[u8]) -> Result<Self, Reject> {
        if bytes.len() > SIGNATURE_MAX {
            let (size, max) = (bytes.len() as u64, SIGNATURE_MAX as u64);
            return Err(Reject::TooLarge { what: "signature", size, max });
        }
        let mut signature = Self { len: bytes.len() as u8, ..Self::NONE };
        signature.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(signature)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature(")?;
        self.bytes().iter().take(8).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, ")")
    }
}

/// Members and what each of them signed, in the order of their ids, each once.
pub type Signed = Vec<(ReplicaId, Signature)>;

/// Appends the bytes of a list of signatures, as they are sent and as they lie in logs.
///
/// # Panics
/// When the list has more than [`quorate_wire::MEMBERS_MAX`] members.
pub fn write_signed(out: &mut Vec<u8>, list: &Signed) {
    put_signed(out, list);
}

/// Reads what [`write_signed`] wrote, and nothing more.
///
/// # Errors
/// When the bytes are not such a list.
pub fn decode_signed(bytes: Bytes) -> Result<Signed, Reject> {
    let mut r = Reader::new(bytes, "signatures");
    let list = read_signed(&mut r)?;
    r.end()?;
    Ok(list)
}

/// Appends a signature with its length.
pub fn put_signature(out: &mut Vec<u8>, signature: &Signature) {
    out.put_u8(signature.len);
    out.extend_from_slice(signature.bytes());
}

/// Reads what [`put_signature`] wrote.
pub fn read_signature(r: &mut Reader) -> Result<Signature, Reject> {
    let len = bounded(usize::from(r.u8()?), SIGNATURE_MAX, "signature")?;
    Signature::new(&r.bytes(len)?)
}

/// Appends a list of signatures as a part of something longer.
pub fn put_signed(out: &mut Vec<u8>, list: &Signed) {
    assert!(list.len() <= MEMBERS_MAX, "a member signs once");
    out.put_u8(list.len() as u8);
    for (member, signature) in list {
        out.put_u16(member.number());
        put_signature(out, signature);
    }
}

/// Reads what [`put_signed`] wrote.
pub fn read_signed(r: &mut Reader) -> Result<Signed, Reject> {
    let count = bounded(usize::from(r.u8()?), MEMBERS_MAX, "signatures")?;
    let mut list = Signed::with_capacity(count);
    for _ in 0..count {
        let member = ReplicaId::new(r.u16()?);
        if list.last().is_some_and(|(before, _)| *before >= member) {
            return Err(Reject::Malformed("signatures: order"));
        }
        list.push((member, read_signature(r)?));
    }
    Ok(list)
}

/// The count, unless there are more than `max`.
pub fn bounded(count: usize, max: usize, what: &'static str) -> Result<usize, Reject> {
    let (size, limit) = (count as u64, max as u64);
    if count > max { Err(Reject::TooLarge { what, size, max: limit }) } else { Ok(count) }
}
