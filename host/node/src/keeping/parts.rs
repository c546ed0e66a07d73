//! What a checkpoint says of the other parts, and whether a replica can go on from it.

use super::{Found, In, Look, Unfit};
use crate::config::NodeConfig;
use crate::group::{Group, Groups};
use crate::system::{EraPart, InstancePart, System};
use bytes::Bytes;
use quorate_execute::{CheckpointError, ImageParts};
use quorate_merge::{Generation, InstanceAt};
use quorate_state::checkpoint::Image;
use quorate_types::{Seq, Slot, planted};

/// The system part of the checkpoint at a delivered border: where the merge and the instances stand. The executor's half is added later.
pub(crate) fn describe(parts: &Look<'_>, (border, seq): (u64, Seq)) -> System {
    let merge = parts.engine.merge().checkpoint();
    let level = &parts.config.level;
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
        level: if planted("level-by-own-binary") { level.highest } else { level.cluster },
        service: parts.config.service.name,
        executor: Bytes::new(),
        eras: EraPart {
            number: parts.config.era.number,
            next: parts.eras.next().map(|(era, _)| era.clone()),
        },
    }
}

/// The input about a border whose state is final: the whole image, or the reason why the service can not give its state.
pub(crate) fn captured(system: System, state: Result<ImageParts, CheckpointError>) -> In {
    let (seq, border) = (system.seq, system.border);
    match state {
        Ok(ImageParts { system: executor, objects }) => {
            let system = System { executor: executor.into(), ..system };
            let image = Image { seq, border, system: system.encode(), objects };
            In::Captured { image: Box::new(image), records: system.records() }
        }
        Err(why) => In::NotCaptured { seq, why: why.to_string() },
    }
}

/// The part of a checkpoint about one instance.
fn part((instance, at): (&Group, &InstanceAt)) -> InstancePart {
    let record = Slot::new(at.record.0);
    let Some(anchor) = instance.anchor(record) else {
        panic!("INV-NODE-8 record {record} of {} of {} has an anchor", instance.id(), instance.decided());
    };
    InstancePart { instance: instance.id(), slot: at.slot, record, offset: at.offset, anchor }
}

/// Whether this replica can go on from a fetched checkpoint.
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
