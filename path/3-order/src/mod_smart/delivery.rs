//! Hands decided slots on, in order; those that left the memory are read back first.
//!
//! INV-SMART-2. Tests: tests/checkpoints.rs.

use super::ModSmart;
use super::persist::Purpose;
use crate::{Effect, Effects};

impl ModSmart {
    /// [mod_smart L28]
    pub(super) fn deliver(&mut self, out: &mut Effects) {
        while self.stepped && self.log.delivered() < self.log.last() {
            let slot = self.log.delivered().next();
            let Some((batch, _)) = self.log.get(slot).and_then(|entry| entry.kept.as_ref()) else {
                if !self.loads.delivers() {
                    self.load(slot, self.log.last(), Purpose::Delivery, out);
                }
                return;
            };
            out.push(Effect::Decided { slot, batch: batch.clone() });
            self.log.set_delivered(slot);
        }
    }

    /// [mod_smart L29]
    pub(super) fn evict(&mut self) {
        if self.config.reload {
            let needless = self.log.delivered();
            self.log.evict(self.config.cache_bytes, needless, self.durable);
        }
    }
}
