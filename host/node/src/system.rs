//! The system part of a checkpoint: everything that is agreed on beside the service's objects. Canonical, so that its digest can be
//! compared: replicas that executed the same batches have the same bytes.
//!
//! ```text
//! magic (8) | cluster u128 | seq u64 | border u64
//! generations  count u16 | (instances u16 | first slot u64 | base seq u64) ...
//! instances    count u16 | (instance u16 | slot u64 | offset u64 | anchor length u16, anchor | members) ...
//! members      count u16 | (replica u16) ... | pending count u16 | (replica u16) ...
//! the executor's part, to the end: agreed time, sessions and the replies they keep
//! ```
//!
//! `offset` is how far into a record of many slots the checkpoint reaches; `pending` are the members of a change that is under way.
//! Tests: `system/tests.rs`.

use crate::config::NodeConfig;
use crate::node::INSTANCE;
use crate::ordering::seq_of;
use bytes::Bytes;
use quorate_order::Anchor;
use quorate_types::{ClusterId, InstanceId, ReplicaId, Seq, Slot};

/// First bytes; the last one is the format's version.
const MAGIC: [u8; 8] = *b"quosyst\x01";
/// More instances or members than this are no checkpoint of ours.
const COUNT_MAX: u16 = 4096;

/// A stretch of the global log with one number of instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// How many instances.
    pub instances: u16,
    /// Its first slot in each of them.
    pub first: Slot,
    /// The seq before its first.
    pub base: Seq,
}

/// What a checkpoint says of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstancePart {
    /// Which.
    pub instance: InstanceId,
    /// Its last slot in the checkpoint.
    pub slot: Slot,
    /// How much of a record of many slots is in the checkpoint.
    pub offset: u64,
    /// Where the slot lies in the protocol's log.
    pub anchor: Anchor,
    /// Its members.
    pub members: Vec<ReplicaId>,
    /// Its members after a change that has begun; empty without one.
    pub pending: Vec<ReplicaId>,
}

/// The system part of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// Whose checkpoint it is.
    pub cluster: ClusterId,
    /// The last seq in it.
    pub seq: Seq,
    /// Its border's number.
    pub border: u64,
    /// How slots map to seqs.
    pub generations: Vec<Generation>,
    /// The instances, in order.
    pub instances: Vec<InstancePart>,
    /// The executor's part.
    pub executor: Bytes,
}

impl System {
    /// The canonical bytes.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(256 + self.executor.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.cluster.bits().to_le_bytes());
        out.extend_from_slice(&self.seq.number().to_le_bytes());
        out.extend_from_slice(&self.border.to_le_bytes());
        out.extend_from_slice(&(self.generations.len() as u16).to_le_bytes());
        for generation in &self.generations {
            out.extend_from_slice(&generation.instances.to_le_bytes());
            out.extend_from_slice(&generation.first.number().to_le_bytes());
            out.extend_from_slice(&generation.base.number().to_le_bytes());
        }
        out.extend_from_slice(&(self.instances.len() as u16).to_le_bytes());
        for part in &self.instances {
            out.extend_from_slice(&part.instance.number().to_le_bytes());
            out.extend_from_slice(&part.slot.number().to_le_bytes());
            out.extend_from_slice(&part.offset.to_le_bytes());
            let anchor = part.anchor.encode();
            out.extend_from_slice(&(anchor.len() as u16).to_le_bytes());
            out.extend_from_slice(anchor);
            for members in [&part.members, &part.pending] {
                out.extend_from_slice(&(members.len() as u16).to_le_bytes());
                members.iter().for_each(|id| out.extend_from_slice(&id.number().to_le_bytes()));
            }
        }
        out.extend_from_slice(&self.executor);
        out.into()
    }

    /// Reads it back. The executor's part is not looked into.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn decode(bytes: &Bytes) -> Result<Self, &'static str> {
        let mut r = Parts { bytes: bytes.clone() };
        if r.array::<8>()? != MAGIC {
            return Err("not the system part of a checkpoint of this version");
        }
        let cluster = ClusterId::new(u128::from_le_bytes(r.array()?));
        let (seq, border) = (Seq::new(r.u64()?), r.u64()?);
        let mut generations = Vec::new();
        for _ in 0..r.count()? {
            generations.push(Generation {
                instances: r.u16()?,
                first: Slot::new(r.u64()?),
                base: Seq::new(r.u64()?),
            });
        }
        let mut instances = Vec::new();
        for _ in 0..r.count()? {
            instances.push(InstancePart {
                instance: InstanceId::new(r.u16()?),
                slot: Slot::new(r.u64()?),
                offset: r.u64()?,
                anchor: r.anchor()?,
                members: r.members()?,
                pending: r.members()?,
            });
        }
        Ok(Self { cluster, seq, border, generations, instances, executor: r.bytes })
    }

    /// Whether it is the system part of a checkpoint of this seq, for a replica with this configuration.
    ///
    /// # Errors
    /// Says what does not fit.
    pub(crate) fn check(self, config: &NodeConfig, seq: Seq) -> Result<Self, &'static str> {
        if self.cluster != config.members.cluster() {
            return Err("it belongs to another cluster");
        }
        let [part] = &self.instances[..] else { return Err("it has another number of instances") };
        if self.seq != seq || part.instance != INSTANCE || seq_of(part.slot) != seq {
            return Err("its parts do not fit together");
        }
        Ok(self)
    }
}

/// Takes values off the front.
struct Parts {
    bytes: Bytes,
}

impl Parts {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let array = *self.bytes.first_chunk::<N>().ok_or("the system part is cut off")?;
        let _ = self.bytes.split_to(N);
        Ok(array)
    }
    fn u16(&mut self) -> Result<u16, &'static str> {
        Ok(u16::from_le_bytes(self.array()?))
    }
    fn u64(&mut self) -> Result<u64, &'static str> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    fn count(&mut self) -> Result<u16, &'static str> {
        let count = self.u16()?;
        if count > COUNT_MAX { Err("the system part counts too many") } else { Ok(count) }
    }
    fn members(&mut self) -> Result<Vec<ReplicaId>, &'static str> {
        (0..self.count()?).map(|_| self.u16().map(ReplicaId::new)).collect()
    }
    fn anchor(&mut self) -> Result<Anchor, &'static str> {
        let len = self.u16()?;
        if usize::from(len) > self.bytes.len() {
            return Err("an anchor in the system part is cut off");
        }
        Anchor::decode(&self.bytes.split_to(usize::from(len)))
            .map_err(|_| "an anchor in the system part is none")
    }
}

#[cfg(test)]
mod tests;
