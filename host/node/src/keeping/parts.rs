//! What a checkpoint says of the other parts, and whether they can go on from one.

use super::{Found, Unfit};
use crate::config::NodeConfig;
use crate::group::{Group, Groups};
use crate::reconfigure::Roster;
use crate::system::{InstancePart, System};
use bytes::Bytes;
use quorate_merge::{Generation, InstanceAt, Merge};
use quorate_types::{Seq, Slot};
use quorate_wire::Batch;

/// The parts that a checkpoint speaks of.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) config: &'a NodeConfig,
    pub(crate) merge: &'a Merge<Batch>,
    pub(crate) groups: &'a Groups,
    pub(crate) roster: &'a Roster,
    /// The feature level by which it is written.
    pub(crate) level: u32,
}

/// The system part of the checkpoint at a border, which is here: the merge and the instances stand there. `executor`: its own part.
pub(crate) fn describe(parts: &Parts<'_>, (border, seq): (u64, Seq), executor: Bytes) -> System {
    let merge = parts.merge.checkpoint();
    assert_eq!(merge.seq, seq, "INV-NODE-8 the merge stands at the border");
    assert_eq!(
        merge.instances.len(),
        parts.groups.len(),
        "INV-STAY-1 each instance of the merge has a stay in force"
    );
    let always_one = merge.next.is_none() && merge.generation == Generation::begin(1);
    System {
        cluster: parts.config.members.cluster(),
        seq,
        border,
        window: if always_one { 0 } else { merge.window },
        generations: [merge.generation].into_iter().chain(merge.next).collect(),
        instances: parts.groups.iter().zip(&merge.instances).map(part).collect(),
        roster: parts.roster.clone(),
        level: parts.level,
        executor,
    }
}

/// What a checkpoint says of an instance.
fn part((instance, at): (&Group, &InstanceAt)) -> InstancePart {
    let record = Slot::new(at.record.0);
    let Some(anchor) = instance.anchor(record) else {
        panic!("INV-NODE-8 record {record} of {} of {} has an anchor", instance.id(), instance.decided());
    };
    InstancePart { instance: instance.id(), slot: at.slot, record, offset: at.offset, anchor }
}

/// Whether this replica can go on from a checkpoint that was fetched.
///
/// # Errors
/// When it can not.
pub(crate) fn examine(found: &Found, config: &NodeConfig, groups: &Groups) -> Result<System, Unfit> {
    let system = System::decode(&found.system).and_then(|system| system.check(config, found.seq));
    let system = system.map_err(Unfit::Unusable)?;
    config.level.check(system.level).map_err(Unfit::Stops)?;
    let lacks = |(instance, part): (&Group, &InstancePart)| {
        instance.restored().needs_checkpoint && !instance.covers(part.record, &part.anchor)
    };
    if !groups.first().has_started() && groups.iter().zip(&system.instances).any(lacks) {
        return Err(Unfit::TooEarly);
    }
    Ok(system)
}
