//! Disks that misbehave once.

use super::{MS, World};
use crate::plan::{DiskFault, Fault};
use crate::trace::Level;

/// So much goes back at once.
const BLOCK: u64 = 4096;

impl World {
    pub(super) fn strike_disk(&mut self, fault: DiskFault) -> Option<u64> {
        match fault {
            DiskFault::FailedSync { who, .. } => self.replicas[who].fails_sync = true,
            DiskFault::OldBlock { who, part } if self.others_have_begun(who) => {
                self.go_back(who, part);
                return self.crash(who, false, 50 * MS);
            }
            DiskFault::OldBlock { .. } => {}
        }
        None
    }

    /// What follows what is known to be synced stays: it says what must be there.
    fn go_back(&mut self, who: usize, part: u16) {
        let size = self.plan.log.segment_bytes;
        let below = self.replicas[who].witnessed;
        let from = self.replicas[who].disk.segments().first().map_or(0, |first| first * size);
        if below <= from {
            return;
        }
        let at = from + (below - from - 1) * u64::from(part) / 65_536;
        let at = at - at % size % BLOCK;
        let segment = at / size;
        let end = (at + BLOCK).min(below).min((segment + 1) * size);
        let sectors = (at % size) as usize..(end - segment * size) as usize;
        self.trace
            .line(Level::Events, self.now, Some(who), "old", || format!("segment {segment}, {sectors:?}"));
        self.replicas[who].disk.go_back(segment, sectors);
    }

    /// After a failed sync nobody knows what is on the disk: the process ends, and starts again from what is there.
    pub(super) fn sync_failed(&mut self, who: usize) {
        self.trace.line(Level::Events, self.now, Some(who), "sync", || "failed".into());
        let time = self.plan.faults.iter().find_map(|(_, fault)| match fault {
            Fault::Disk(DiskFault::FailedSync { who: of, time }) if *of == who => Some(*time),
            _ => None,
        });
        self.crash(who, false, time.unwrap_or(MS));
    }
}
