//! What a leader shows the oracle where members may lie: that the members of a set miss the others, and what was decided.
//!
//! ```text
//! claim      1 u8 | view u64 | tag u64 | count u8 | statements | proof
//! statement  id u16 | count u8 | ids u16, ascending | signature
//! ```
//!
//! The statements are those of the set, by ascending id; the proof may be missing. Tests: tests/claim.rs.

use crate::ledger::{Proof, put_optional_proof, read_optional_proof};
use bytes::Bytes;
use quorate_auth::{Signature, bounded, put_signature, read_signature};
use quorate_types::{Reject, ReplicaId, Trust, View, planted};
use quorate_wire::{MEMBERS_MAX, Put, Reader};

/// The layout of a claim.
const VERSION: u8 = 1;

/// Whom a member misses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The member.
    pub from: ReplicaId,
    /// The members that did not answer it, by id.
    pub misses: Vec<ReplicaId>,
    /// Its signature over this, the view and the tag.
    pub signature: Signature,
}

impl Missing {
    /// Whether a member can say this: it knows itself, and misses only members, each once.
    pub(crate) fn can_be(&self, voters: &[ReplicaId]) -> bool {
        self.misses.is_sorted_by(|one, next| one < next)
            && self.misses.iter().all(|id| *id != self.from && voters.contains(id))
    }
}

/// A wish for a small quorum, with what shows that it may be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The view in which the set wants to be a quorum.
    pub view: View,
    /// The number of the question that the statements answer.
    pub tag: u64,
    /// The set, by id.
    pub set: Vec<ReplicaId>,
    /// What each member of the set said, in the same order.
    pub said: Vec<Missing>,
    /// That something was decided, in the highest view of which the leader knows that.
    pub proof: Option<Proof>,
}

impl Claim {
    /// Whether each of the set misses all that are not in it, but as many as may be slow towards others and not towards it.
    pub(crate) fn misses_enough(&self, voters: &[ReplicaId], trust: Trust) -> bool {
        let outside = || voters.iter().filter(|id| !self.set.contains(id));
        let heard = |missing: &Missing| outside().filter(|id| !missing.misses.contains(id)).count();
        planted("visigoth-claim-unsaid")
            || self
                .said
                .iter()
                .all(|missing| heard(missing) <= (trust.members() - trust.agreement()) as usize)
    }

    /// The bytes that go to the oracle.
    ///
    /// # Panics
    /// When there is not one statement of each of the set.
    pub fn encode(&self) -> Bytes {
        assert!(
            self.set.iter().eq(self.said.iter().map(|missing| &missing.from)),
            "all of the set said something"
        );
        let mut out = vec![VERSION];
        out.put_u64(self.view.number());
        out.put_u64(self.tag);
        out.put_u8(self.said.len() as u8);
        for Missing { from, misses, signature } in &self.said {
            out.put_u16(from.number());
            put_ids(&mut out, misses);
            put_signature(&mut out, signature);
        }
        put_optional_proof(&mut out, self.proof.as_ref());
        out.into()
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// When these are not the bytes of a claim.
    pub fn decode(bytes: Bytes) -> Result<Self, Reject> {
        let mut r = Reader::new(bytes, "claim");
        if r.u8()? != VERSION {
            return Err(Reject::Malformed("claim: version"));
        }
        let (view, tag) = (View::new(r.u64()?), r.u64()?);
        let count = bounded(usize::from(r.u8()?), MEMBERS_MAX, "statements")?;
        let said = (0..count).map(|_| read_missing(&mut r)).collect::<Result<Vec<_>, _>>()?;
        let proof = read_optional_proof(&mut r)?;
        r.end()?;
        if !said.is_sorted_by(|one, next| one.from < next.from) {
            return Err(Reject::Malformed("claim: order"));
        }
        let set = said.iter().map(|missing| missing.from).collect();
        Ok(Self { view, tag, set, said, proof })
    }
}

fn read_missing(r: &mut Reader) -> Result<Missing, Reject> {
    Ok(Missing { from: ReplicaId::new(r.u16()?), misses: read_ids(r)?, signature: read_signature(r)? })
}

/// Appends members.
pub(crate) fn put_ids(out: &mut Vec<u8>, ids: &[ReplicaId]) {
    out.put_u8(ids.len() as u8);
    ids.iter().for_each(|id| out.put_u16(id.number()));
}

/// Reads what [`put_ids`] wrote.
pub(crate) fn read_ids(r: &mut Reader) -> Result<Vec<ReplicaId>, Reject> {
    let len = bounded(usize::from(r.u8()?), MEMBERS_MAX, "members")?;
    (0..len).map(|_| r.u16().map(ReplicaId::new)).collect()
}
