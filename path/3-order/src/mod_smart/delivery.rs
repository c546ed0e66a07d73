//! Hands decided slots on, in order; those that left the memory are read back first.
//!
//! INV-SMART-2. Tests: tests/checkpoints.rs.

use super::ModSmart;
use crate::Effects;

impl ModSmart {
    /// [mod_smart L28]
    pub(super) fn deliver(&mut self, out: &mut Effects) {
        self.ledger.deliver(out);
    }

    /// [mod_smart L29]
    pub(super) fn evict(&mut self) {
        self.ledger.evict();
    }
}
