//! Membership links: each proves one membership to whoever knows the one before, with its public keys. Several in a row are a chain.
//!
//! With mod-smart a change of membership is decided in a slot of its own. Its batch holds the membership before and the next one, and a
//! quorum of the membership before signed that it accepts the batch. Nobody's word is needed: who sends a link, and whether it lies, makes no
//! difference. What the protocol signs and this file checks are the same bytes, so they stand here, where clients and replicas have them.
//! The first instance's link is enough: there is always a first instance, and all instances make the same changes in the same order.
//!
//! INV-CHAIN-1: who follows a link knows what a quorum of the membership before decided. docs/protocols/mod_smart.md L190-L195. Drawing:
//! docs/formats/chain.md. Tests: chain/tests.rs.

mod format;

use crate::{PublicKey, Signed};
use quorate_types::{ClusterId, Digest, Faults, InstanceId, MembershipId, ReplicaId, Slot, View, planted};
use quorate_wire::{Batch, Holds, Membership, SystemCommand};
use std::fmt;

const ACCEPT: &[u8; 8] = b"qms/acc1";
/// A membership has at most 2 to the power of this many views.
const TENURE_BITS: u32 = 40;
/// There are at most this many memberships; the views of more would have no numbers.
pub const NUMBER_MAX: u64 = 1 << 22;

/// The first and the last view that this membership may have; its number is 1 to [`NUMBER_MAX`]. [mod_smart L111]
pub const fn views(number: MembershipId) -> (View, View) {
    let before = number.number() - 1;
    (View::new((before << TENURE_BITS) + 1), View::new(number.number() << TENURE_BITS))
}

/// The membership that has this view; views begin with 1.
pub const fn membership_of(view: View) -> MembershipId {
    MembershipId::new(((view.number() - 1) >> TENURE_BITS) + 1)
}

/// What a member of this membership signs when it accepts a value for a slot in a view. [mod_smart L4]
pub fn accept_statement(
    cluster: ClusterId,
    membership: MembershipId,
    instance: InstanceId,
    (view, slot, value): (View, Slot, Digest),
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(96);
    bytes.extend_from_slice(ACCEPT);
    bytes.extend_from_slice(&cluster.bits().to_le_bytes());
    bytes.extend_from_slice(&membership.number().to_le_bytes());
    bytes.extend_from_slice(&instance.number().to_le_bytes());
    bytes.extend_from_slice(&view.number().to_le_bytes());
    bytes.extend_from_slice(&slot.number().to_le_bytes());
    bytes.extend_from_slice(value.bytes());
    bytes
}

/// The step from one membership to the next, signed by the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipLink {
    /// The cluster.
    pub cluster: ClusterId,
    /// The instance in which it was decided.
    pub instance: InstanceId,
    /// The view in which it was accepted.
    pub view: View,
    /// The slot that decided it.
    pub slot: Slot,
    /// What the slot's batch holds, and nothing else: the membership before, and the next one.
    pub holds: Holds,
    /// Who accepted it.
    pub accepts: Signed,
}

/// Why a link proves nothing to who knows a certain membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unproven {
    /// It is of another cluster.
    OtherCluster(ClusterId),
    /// It is of an instance that proves nothing here.
    OtherInstance(InstanceId),
    /// It continues another membership than the known one: there is a hole, or it is old.
    Hole {
        /// The known membership.
        known: MembershipId,
        /// The one that it continues.
        from: MembershipId,
    },
    /// It names other voters, or another key of one, for the known membership.
    OtherMembers,
    /// The public key of a voter of the known membership is not known.
    NoKey(ReplicaId),
    /// It was accepted in a view that the known membership does not have.
    OtherView(View),
    /// Somebody signed who does not vote.
    Stranger(ReplicaId),
    /// Fewer voters signed than a quorum.
    TooFew {
        /// How many signed.
        signed: usize,
        /// How many are a quorum.
        needed: usize,
    },
    /// The signature of this voter is not of its key, or of something else.
    Forged(ReplicaId),
    /// The next membership is none that such a cluster has: too small, or without a good key of each member.
    Unfit(&'static str),
}

impl fmt::Display for Unproven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherCluster(cluster) => write!(f, "it is of another cluster, {cluster}"),
            Self::OtherInstance(instance) => {
                write!(f, "it is of {instance}, and only the first one's counts")
            }
            Self::Hole { known, from } => {
                write!(
                    f,
                    "it continues membership {from:#}, and membership {known:#} is known: links are missing between"
                )
            }
            Self::OtherMembers => {
                f.write_str("it names other voters, or other keys, for the membership that is known")
            }
            Self::NoKey(id) => {
                write!(f, "no public key of {id} is known, which votes in the membership that is known")
            }
            Self::OtherView(view) => write!(f, "{view} is none of the membership that is known"),
            Self::Stranger(id) => write!(f, "{id} signed it and does not vote"),
            Self::TooFew { signed, needed } => {
                write!(f, "{signed} voters signed it, and {needed} are needed")
            }
            Self::Forged(id) => write!(f, "the signature of {id} is wrong"),
            Self::Unfit(why) => write!(f, "the next membership {why}"),
        }
    }
}

impl std::error::Error for Unproven {}

impl MembershipLink {
    /// The link of this decision. `None` if the batch holds no change, or something beside it.
    pub fn of(
        cluster: ClusterId,
        instance: InstanceId,
        (view, slot): (View, Slot),
        batch: &Batch,
        accepts: &Signed,
    ) -> Option<Self> {
        let Some(SystemCommand::Holds(holds)) = SystemCommand::of(batch) else { return None };
        let link = Self { cluster, instance, view, slot, holds, accepts: accepts.clone() };
        let fits = link.holds.change.before().is_some() && link.batch() == *batch;
        (fits && link.number().number() <= NUMBER_MAX).then_some(link)
    }

    /// The membership that it leads to.
    pub fn now(&self) -> &Membership {
        self.holds.change.now()
    }
    /// The number of that membership.
    pub fn number(&self) -> MembershipId {
        self.now().number()
    }
    /// The membership that it continues, as the batch names it.
    pub fn before(&self) -> Option<&Membership> {
        self.holds.change.before()
    }

    /// The batch that was decided.
    fn batch(&self) -> Batch {
        SystemCommand::Holds(self.holds.clone()).alone()
    }

    /// The next membership, if this proves it to who knows `known` with the public keys of its voters, of a cluster made for these faults.
    /// [mod_smart L191-L194]
    ///
    /// # Errors
    /// Why it does not.
    pub fn verify(
        &self,
        cluster: ClusterId,
        known: &Membership,
        faults: Faults,
    ) -> Result<Membership, Unproven> {
        if self.cluster != cluster {
            return Err(Unproven::OtherCluster(self.cluster));
        }
        if self.instance != InstanceId::new(1) {
            return Err(Unproven::OtherInstance(self.instance));
        }
        let before = self.before().ok_or(Unproven::OtherMembers)?;
        if before.number() != known.number() {
            return Err(Unproven::Hole { known: known.number(), from: before.number() });
        }
        let judges = if planted("link-of-its-own-membership") { before } else { known };
        if !are_same_voters(judges, before) {
            return Err(Unproven::OtherMembers);
        }
        let (first, last) = views(before.number());
        if !(first..=last).contains(&self.view) {
            return Err(Unproven::OtherView(self.view));
        }
        self.accepted_by(judges, faults)?;
        fits(self.now(), faults)?;
        Ok(self.now().clone())
    }

    /// Whether a quorum of these voters accepted it. A small quorum, which was granted, does not count: nobody can prove the grant.
    fn accepted_by(&self, voters: &Membership, faults: Faults) -> Result<(), Unproven> {
        let trust = faults.among(voters.voters().count() as u32);
        let needed = trust.agreement() as usize;
        if let Some((stranger, _)) = self.accepts.iter().find(|(id, _)| !voters.is_voter(*id)) {
            return Err(Unproven::Stranger(*stranger));
        }
        // Read from bytes, the list names each voter once; made by hand, it may not.
        let mut ids: Vec<ReplicaId> = self.accepts.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.len() < needed {
            return Err(Unproven::TooFew { signed: ids.len(), needed });
        }
        let value = crate::digest_of_request(self.batch().bytes());
        let said = (self.view, self.slot, value);
        let statement = accept_statement(self.cluster, voters.number(), self.instance, said);
        for (id, signature) in &self.accepts {
            let key = voters.get(*id).and_then(|member| member.key).ok_or(Unproven::NoKey(*id))?;
            let is_right = PublicKey::new(key).is_ok_and(|key| key.verifies(&statement, signature));
            if !is_right {
                return Err(Unproven::Forged(*id));
            }
        }
        Ok(())
    }
}

/// Whether the same replicas vote in both, with the same keys as far as the second one names them. What else is known of members differs
/// between those who know them: addresses, and lives.
fn are_same_voters(known: &Membership, named: &Membership) -> bool {
    let key = |membership: &Membership, id| membership.get(id).and_then(|member| member.key);
    known.voters().eq(named.voters())
        && known.voters().all(|id| key(named, id).is_none_or(|named| key(known, id) == Some(named)))
}

/// Whether a membership is one from which a chain can go on.
fn fits(membership: &Membership, faults: Faults) -> Result<(), Unproven> {
    if !faults.fit(membership.voters().count() as u32) {
        return Err(Unproven::Unfit("has too few voters to survive a liar"));
    }
    let is_good = |key: Option<[u8; 32]>| key.is_some_and(|key| PublicKey::new(key).is_ok());
    if !membership.members().iter().all(|member| is_good(member.key)) {
        return Err(Unproven::Unfit("lacks the public key of a member"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
