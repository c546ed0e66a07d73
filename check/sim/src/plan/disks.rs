//! Disks that misbehave once: a sync fails and the next one succeeds, or a block goes back to what it was before its last write. From a
//! generator of its own.

use super::{Fault, MS, Plan};
use crate::random::Rng;
use quorate_log::SyncMode;

/// A disk misbehaves once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// The next sync fails: some of what it should have made durable is not on the disk, and no later sync brings it there, although it can
    /// be read as long as the machine runs. The process ends, and starts again.
    FailedSync {
        /// The replica.
        who: usize,
        /// How long it is away.
        time: u64,
    },
    /// A block of the log, below what is known to be synced, goes back to what it was before its last write.
    OldBlock {
        /// The replica.
        who: usize,
        /// The position, in parts of 65,536 of what is known to be synced.
        part: u16,
    },
}

impl DiskFault {
    /// The replica.
    pub fn who(self) -> usize {
        match self {
            Self::FailedSync { who, .. } | Self::OldBlock { who, .. } => who,
        }
    }

    /// Whether the log may be unreadable after it.
    pub fn damages(self) -> bool {
        matches!(self, Self::OldBlock { .. })
    }
}

/// In some runs disks misbehave.
pub(super) fn plan_disks(plan: &mut Plan, rng: &mut Rng) {
    if plan.log.sync == SyncMode::Memory || plan.faults.is_empty() {
        return;
    }
    // Where members or instances change, what a majority has to mend stays out.
    let mended = plan.replicas == plan.founders && !plan.resizes && plan.log.sync == SyncMode::Group;
    let (fails, old) = (rng.chance(300), rng.chance(100) && mended);
    let every = rng.spread(100 * MS, 2000 * MS);
    let mut at = rng.range(100, 1500) * MS;
    let faulty = |(_, fault): &&(u64, Fault)| fault.is_final() || fault.needs_others();
    let mut lost = plan.faults.iter().filter(faulty).count();
    while at < plan.heal_at && (fails || old) {
        let who = rng.below(plan.founders as u64) as usize;
        if fails {
            let time = rng.spread(MS, 1000 * MS);
            plan.faults.push((at, Fault::Disk(DiskFault::FailedSync { who, time })));
            // A machine that stops soon after shows what was never on its disk.
            if plan.log.sync == SyncMode::Group && rng.chance(300) {
                let then = at + rng.spread(MS, 200 * MS);
                plan.faults.push((then, Fault::PowerLoss { who, time }));
            }
        }
        // Never more than a minority: what a majority lost is lost.
        if old && lost < plan.spare() {
            lost += 1;
            let part = rng.number() as u16;
            plan.faults.push((at + 50 * MS, Fault::Disk(DiskFault::OldBlock { who, part })));
        }
        at += rng.range(every / 2, every * 2);
    }
    plan.faults.retain(|(at, _)| *at < plan.heal_at);
    plan.faults.sort_by_key(|(at, _)| *at);
}

/// The others find a corrupted replica at the next border. Until then it counts as the faulty one: no other replica may give up its log for
/// a checkpoint that is not agreed on, neither because the log is long nor by starting again. While another one is away the others can not
/// find it: two of three can not tell which of them is right.
pub(super) fn spare_witnesses(plan: &mut Plan) {
    let corrupt = plan.faults.iter().find_map(|(at, fault)| match fault {
        Fault::Corrupt { who } => Some((*at, *who)),
        _ => None,
    });
    if plan.faults.iter().any(|(_, fault)| fault.is_final() || fault.needs_others()) {
        plan.log_bytes_max = 1 << 30;
    }
    let Some((since, corrupt)) = corrupt else { return };
    let is_away = |(at, fault): &(u64, Fault)| match fault {
        Fault::Away { who, time } => *who != corrupt && (*at..at + time).contains(&since),
        _ => false,
    };
    if plan.faults.iter().any(is_away) {
        return plan.faults.retain(|(_, fault)| !matches!(fault, Fault::Corrupt { .. }));
    }
    plan.faults
        .retain(|(at, fault)| *at < since || fault.ends_life_of().is_none_or(|who| who == Some(corrupt)));
}
