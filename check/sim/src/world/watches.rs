//! Drives the watches at a replica.

use super::World;
use crate::checks::Failure;
use crate::replica::Replica;

impl World {
    /// The watches at a replica get some of what is on its way to them, or all of it: then they may lack nothing.
    pub(super) fn watch(&mut self, who: usize, all: bool) {
        let Replica { node: Some(node), front: Some(front), .. } = &mut self.replicas[who] else { return };
        if self.plan.is_liar(who) {
            return;
        }
        let rows = self.agreement.rows();
        let found = if all { front.settle(node, rows) } else { front.step(node, rows) };
        if let Err(Failure { checker, text }) = found {
            let name = self.trace.name(who);
            self.fail(Failure::new(checker, format!("{name}: {text}")));
        }
    }
}
