//! The proof that a slot is decided, as it is sent and as it lies in logs.

use bytes::Bytes;
use quorate_auth::{Signed, put_signed, read_signed};
use quorate_types::{Digest, Reject, Slot, View};
use quorate_wire::{Put, Reader};

/// The proof that a slot is decided: a quorum of signed ACCEPTs of one value in one view. Where no replica lies, it has no accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The slot.
    pub slot: Slot,
    /// The view in which the slot was accepted.
    pub view: View,
    /// The digest of the batch.
    pub digest: Digest,
    /// The signed accepts.
    pub accepts: Signed,
}

impl Proof {
    /// Appends the proof's bytes, as they are sent and as they lie in logs.
    ///
    /// # Panics
    /// When it names more than [`quorate_wire::MEMBERS_MAX`] members.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        put_proof(out, self);
    }

    /// Reads what [`Self::write_to`] wrote, and nothing more.
    ///
    /// # Errors
    /// When the bytes are not a proof.
    pub fn decode(bytes: Bytes) -> Result<Self, Reject> {
        let mut r = Reader::new(bytes, "proof");
        let proof = read_proof(&mut r)?;
        r.end()?;
        Ok(proof)
    }
}

/// Appends a proof as a part of something longer.
pub(crate) fn put_proof(out: &mut Vec<u8>, proof: &Proof) {
    out.put_u64(proof.slot.number());
    out.put_u64(proof.view.number());
    out.extend_from_slice(proof.digest.bytes());
    put_signed(out, &proof.accepts);
}

/// Reads what [`put_proof`] wrote.
pub(crate) fn read_proof(r: &mut Reader) -> Result<Proof, Reject> {
    let (slot, view, digest) = (Slot::new(r.u64()?), View::new(r.u64()?), Digest::new(r.array()?));
    Ok(Proof { slot, view, digest, accepts: read_signed(r)? })
}

/// As [`put_proof`], for a proof that may be missing.
pub(crate) fn put_optional_proof(out: &mut Vec<u8>, proof: Option<&Proof>) {
    out.put_u8(u8::from(proof.is_some()));
    proof.into_iter().for_each(|proof| put_proof(out, proof));
}

/// Reads what [`put_optional_proof`] wrote.
pub(crate) fn read_optional_proof(r: &mut Reader) -> Result<Option<Proof>, Reject> {
    if r.bool()? { read_proof(r).map(Some) } else { Ok(None) }
}
