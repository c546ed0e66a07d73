//! The system part of a checkpoint: everything that is agreed on beside the service's objects. It is canonical, so that its digest can be
//! compared: replicas that executed the same batches have the same bytes.
//!
//! It has two halves. The half of execution belongs to the executor (agreed time, level, sessions and the replies they keep), and does not
//! depend on how anything was ordered. The half of the order is this:
//!
//! ```text
//! magic (7) | version u8 | cluster u128 | seq u64 | border u64
//! window u64: how far instances may run ahead of the global log; 0 where a cluster never had more than one
//! generations  count u16 | (instances u16 | first slot u64 | base seq u64) ...
//! instances    count u16 | (instance u16 | slot u64 | record u64 | offset u64 | anchor length u16, anchor) ...
//! the roster: what was ordered about the membership (`roster.rs`)
//! level u32: the feature level
//! 0 u64 | length u8, the name of the service: only if it has one
//! era u64 | length u32, the era that follows if this one ends here: only if this is not the first era, or ends
//! ```
//!
//! A second generation is the next one, while the number of instances is changing. `record` is the last record of the instance that the
//! checkpoint holds whole; of the next record it holds `offset` slots. The anchor is that of the record, and has the instance's membership.
//! The level is in both halves: here it says which programs can read the other half. A system part with another version is refused.
//! Tests: `system/tests.rs`.

use crate::config::NodeConfig;
use crate::roster::{Administration, COMMANDED, GAVE_UP, Roster};
use bytes::Bytes;
use quorate_execute::{CheckpointError, system_begins_anew};
use quorate_merge::{Checkpoint, Generation, InstanceAt, RecordIndex};
use quorate_order::Anchor;
use quorate_order::Protocol;
use quorate_state::checkpoint::SystemPart;
use quorate_types::{ClusterId, InstanceId, ReplicaId, Seq, ServiceName, Slot};
use quorate_wire::{Era, Membership, Memberships, Reader};

/// The first bytes; the format's version follows.
const MAGIC: [u8; 7] = *b"quosyst";
/// The version that is written and read.
const VERSION: u8 = 1;
/// The reason to refuse another version.
const OTHER_VERSION: &str =
    "it has a form that this program does not read: use the program of the version that wrote it";
/// Stands before the name of the service, where the number of an era could stand, which is not 0.
const NAMED: u64 = 0;
/// A checkpoint with more instances or members is not valid.
const COUNT_MAX: u16 = 4096;

/// The part of a checkpoint about one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstancePart {
    /// The instance.
    pub instance: InstanceId,
    /// Its last slot in the checkpoint.
    pub slot: Slot,
    /// The last record that the checkpoint holds whole, in the protocol's numbers.
    pub record: Slot,
    /// How many slots of the next record the checkpoint holds.
    pub offset: u64,
    /// The position of the record in the protocol's log.
    pub anchor: Anchor,
}

/// The system part of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// The cluster.
    pub cluster: ClusterId,
    /// The last seq in the checkpoint.
    pub seq: Seq,
    /// The number of the checkpoint's border.
    pub border: u64,
    /// How far instances may run ahead of the global log; 0 if the cluster never had more than one.
    pub window: u64,
    /// How slots map to seqs now, and from the next border on if a change is under way.
    pub generations: Vec<Generation>,
    /// The instances, in order.
    pub instances: Vec<InstancePart>,
    /// The membership as it was ordered.
    pub(crate) roster: Roster,
    /// The feature level.
    pub level: u32,
    /// What the service is called.
    pub service: ServiceName,
    /// The half of execution.
    pub executor: Bytes,
    /// The era, and the one that follows if this one ends with this state.
    pub(crate) eras: EraPart,
}

/// The part of a checkpoint about eras.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EraPart {
    /// The number of the era.
    pub(crate) number: u64,
    /// The next one, if the command that ends this one is the last that the state holds.
    pub(crate) next: Option<Era>,
}

impl EraPart {
    /// The first era, which goes on.
    pub(crate) const FIRST: Self = Self { number: 1, next: None };
}

impl System {
    /// The state of a cluster of so many members that begins with objects, as if its first batch had made them. `executor` is the half of
    /// execution at that seq.
    pub fn beginning(
        cluster: ClusterId,
        protocol: Protocol,
        members: usize,
        level: u32,
        executor: Bytes,
    ) -> Self {
        let first = InstancePart {
            instance: InstanceId::new(1),
            slot: Slot::FIRST,
            record: Slot::FIRST,
            offset: 0,
            anchor: protocol.anchor_anew(Slot::FIRST, &Anchor::EMPTY),
        };
        Self {
            cluster,
            seq: Seq::FIRST,
            border: 1,
            window: 0,
            generations: vec![Generation::begin(1)],
            instances: vec![first],
            roster: Roster::new(members),
            level,
            service: ServiceName::NONE,
            executor,
            eras: EraPart::FIRST,
        }
    }

    /// The number of the era.
    pub fn era(&self) -> u64 {
        self.eras.number
    }

    /// Whether the era ends with this state: nothing goes on from it but the next era.
    pub fn ends_era(&self) -> bool {
        self.eras.next.is_some()
    }

    /// The canonical bytes.
    pub fn encode(&self) -> SystemPart {
        SystemPart { order: self.encode_order(), execution: self.executor.clone() }
    }

    fn encode_order(&self) -> Bytes {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(&MAGIC);
        out.push(VERSION);
        out.extend_from_slice(&self.cluster.bits().to_le_bytes());
        out.extend_from_slice(&self.seq.number().to_le_bytes());
        out.extend_from_slice(&self.border.to_le_bytes());
        out.extend_from_slice(&self.window.to_le_bytes());
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
            out.extend_from_slice(&part.record.number().to_le_bytes());
            out.extend_from_slice(&part.offset.to_le_bytes());
            let anchor = part.anchor.encode();
            out.extend_from_slice(&(anchor.len() as u16).to_le_bytes());
            out.extend_from_slice(anchor);
        }
        self.roster.write_to(&mut out);
        out.extend_from_slice(&self.level.to_le_bytes());
        if !self.service.is_none() {
            out.extend_from_slice(&NAMED.to_le_bytes());
            out.push(self.service.as_str().len() as u8);
            out.extend_from_slice(self.service.as_str().as_bytes());
        }
        if self.eras != EraPart::FIRST {
            let next = self.eras.next.as_ref().map(Era::encode).unwrap_or_default();
            out.extend_from_slice(&self.eras.number.to_le_bytes());
            out.extend_from_slice(&(next.len() as u32).to_le_bytes());
            out.extend_from_slice(&next);
        }
        out.into()
    }

    /// Decodes a system part. The half of execution is not looked into.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn decode(system: &SystemPart) -> Result<Self, &'static str> {
        let mut r = Parts { bytes: system.order.clone() };
        let (magic, [version]) = (r.array::<7>()?, r.array()?);
        if magic != MAGIC {
            return Err("it is not the system part of a checkpoint");
        }
        if version != VERSION {
            return Err(OTHER_VERSION);
        }
        let cluster = ClusterId::new(u128::from_le_bytes(r.array()?));
        let (seq, border) = (Seq::new(r.u64()?), r.u64()?);
        let window = r.u64()?;
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
                record: Slot::new(r.u64()?),
                offset: r.u64()?,
                anchor: r.anchor()?,
            });
        }
        let (roster, level) = (r.roster()?, u32::from_le_bytes(r.array()?));
        let service = r.service()?;
        let eras = if r.bytes.is_empty() { EraPart::FIRST } else { r.eras()? };
        if !r.bytes.is_empty() {
            return Err("the system part is too long");
        }
        let executor = system.execution.clone();
        Ok(Self {
            cluster,
            seq,
            border,
            window,
            generations,
            instances,
            roster,
            level,
            service,
            executor,
            eras,
        })
    }

    /// The ids of the members, if a command ever named them; otherwise those with which a cluster of that size is made.
    pub fn members(&self) -> Vec<ReplicaId> {
        match self.roster.current() {
            Some(current) => current.members().iter().map(|member| member.replica).collect(),
            None => (1..=self.roster.count() as u16).map(ReplicaId::new).collect(),
        }
    }

    /// Makes this the state of another cluster, with these replicas and this protocol, whose membership never changed.
    ///
    /// # Errors
    /// When the half of execution can not be read.
    pub fn begin_anew(
        &mut self,
        cluster: ClusterId,
        protocol: Protocol,
        members: &[ReplicaId],
    ) -> Result<(), CheckpointError> {
        self.executor = system_begins_anew(&self.executor)?.into();
        self.cluster = cluster;
        self.roster = Roster::new(members.len());
        self.eras = EraPart::FIRST;
        self.begin_logs(protocol);
        Ok(())
    }

    /// Makes this the state with which an era begins, ordered by this protocol: everything stays but the logs of the instances, and the
    /// members, whose membership is a first one again.
    pub(crate) fn begin_era(&mut self, era: &Era, protocol: Protocol) {
        self.roster.begin_era(era);
        self.eras = EraPart { number: era.number, next: None };
        self.begin_logs(protocol);
    }

    /// The logs of the instances begin behind this state.
    fn begin_logs(&mut self, protocol: Protocol) {
        for part in &mut self.instances {
            part.anchor = protocol.anchor_anew(part.record, &part.anchor);
            // What is left of a record that the state holds in part lies in the log of the cluster before.
            part.offset = 0;
        }
    }

    /// Whether this may be the state of a cluster whose replicas may lie: another protocol ordered it than one for replicas that only crash, or
    /// its members have keys. It is what the state says of itself, so who makes a state up says what he likes.
    pub fn may_be_of_liars(&self) -> bool {
        let of_crashes = |part: &InstancePart| {
            let stays = Protocol::ALL.iter().filter(|protocol| !protocol.able().lies);
            let mut stays = stays.filter_map(|protocol| protocol.row().stays.as_ref());
            stays.any(|stays| (stays.of_anchor)(part.record, &part.anchor).is_ok())
        };
        let mut members = self.roster.current().into_iter().flat_map(Membership::members);
        members.any(|member| member.key.is_some()) || !self.instances.iter().all(of_crashes)
    }

    /// Checks that this is the system part of a checkpoint of this seq, for a replica with this configuration.
    ///
    /// # Errors
    /// The reason, in words.
    pub(crate) fn check(self, config: &NodeConfig, seq: Seq) -> Result<Self, &'static str> {
        if self.cluster != config.members.cluster() {
            return Err("it belongs to another cluster");
        }
        if self.service.differs(&config.service.name) {
            return Err("it is the state of another service");
        }
        if self.eras.number != config.era.number {
            return Err("it belongs to another era");
        }
        let checkpoint = self.merge(config.merge.window);
        if self.window != 0 && self.window != config.merge.window {
            return Err("its instances run ahead by another window");
        }
        let numbered = self.instances.iter().zip(1..).all(|(part, id)| part.instance == InstanceId::new(id));
        let fits = checkpoint.is_some_and(|checkpoint| checkpoint.check().is_ok());
        if self.seq != seq || !numbered || !fits {
            return Err("its parts do not fit together");
        }
        Ok(self)
    }

    /// The state of the merge; `window` is used if the system part has none.
    pub(crate) fn merge(&self, window: u64) -> Option<Checkpoint> {
        let (generation, next) = match &self.generations[..] {
            [generation] => (*generation, None),
            [generation, next] => (*generation, Some(*next)),
            _ => return None,
        };
        let at = |part: &InstancePart| InstanceAt {
            slot: part.slot,
            record: RecordIndex(part.record.number()),
            offset: part.offset,
        };
        let instances = self.instances.iter().map(at).collect();
        Some(Checkpoint { window, seq: self.seq, generation, next, instances })
    }

    /// The last record of each instance in the checkpoint.
    pub(crate) fn records(&self) -> Vec<Slot> {
        self.instances.iter().map(|part| part.record).collect()
    }
}

/// Takes values off the front of the bytes.
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
    fn memberships(&mut self) -> Result<Option<Memberships>, &'static str> {
        let len = u32::from_le_bytes(self.array()?) as usize;
        if len > self.bytes.len() {
            return Err("a membership in the system part is cut off");
        }
        if len == 0 {
            return Ok(None);
        }
        let memberships = Memberships::decode(self.bytes.split_to(len));
        memberships.map(Some).map_err(|_| "a membership in the system part is none")
    }
    fn service(&mut self) -> Result<ServiceName, &'static str> {
        if !self.bytes.starts_with(&NAMED.to_le_bytes()) {
            return Ok(ServiceName::NONE);
        }
        let (_, [len]) = (self.u64()?, self.array()?);
        if usize::from(len) > self.bytes.len() {
            return Err("the name of the service in the system part is cut off");
        }
        let name = self.bytes.split_to(usize::from(len));
        let name = std::str::from_utf8(&name).ok().and_then(ServiceName::new);
        name.filter(|name| !name.is_none()).ok_or("the name of the service in the system part is none")
    }
    fn eras(&mut self) -> Result<EraPart, &'static str> {
        let (number, len) = (self.u64()?, u32::from_le_bytes(self.array()?) as usize);
        if len > self.bytes.len() {
            return Err("an era in the system part is cut off");
        }
        let next = (len > 0).then(|| Era::decode(self.bytes.split_to(len)));
        let next = next.transpose().map_err(|_| "an era in the system part is none")?;
        let part = EraPart { number, next };
        let follows = part.next.as_ref().is_none_or(|next| Some(next.number) == number.checked_add(1));
        if part == EraPart::FIRST || number == 0 || !follows {
            return Err("what it says of eras does not fit together");
        }
        Ok(part)
    }
    fn roster(&mut self) -> Result<Roster, &'static str> {
        let (created, count) = (self.u16()?, self.u16()?);
        let used =
            (0..count).map(|_| self.u16().map(ReplicaId::new)).collect::<Result<Vec<_>, &'static str>>()?;
        let (current, change) = (self.memberships()?, self.memberships()?);
        let mut administration = Administration::default();
        if created & COMMANDED > 0 {
            let len = u32::from_le_bytes(self.array()?) as usize;
            if len > self.bytes.len() {
                return Err("the system part is cut off");
            }
            administration = Administration::read(Reader::new(self.bytes.split_to(len), "administration"))?;
        }
        let keys = if created & GAVE_UP > 0 { u32::from_le_bytes(self.array()?) } else { 0 };
        let keys = (0..keys).map(|_| self.array()).collect::<Result<Vec<_>, &'static str>>()?;
        let founders = created & !(COMMANDED | GAVE_UP);
        let roster = Roster::from_parts(founders, used, current, change, administration)?;
        if created & GAVE_UP > 0 { roster.with_former_keys(keys) } else { Ok(roster) }
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
pub(crate) mod tests;
