//! Connections whose clients ask another leader from now on, and that are answered here until everything is final that was decided here
//! before.
//!
//! What an instance decided may wait for slots of other instances, and then for execution. If replies ended with the leadership, a leader
//! that leads for one slot would never answer: its client asks the next one, whose leadership ends as soon.
//! Tests: leaving/tests.rs, check/sim.

use quorate_execute::Execution;
use quorate_merge::{Merge, RecordIndex};
use quorate_types::{ConnId, InstanceId, Seq};
use quorate_wire::Batch;
use std::collections::BTreeMap;

/// Until when a connection is answered.
#[derive(Clone, Copy, Debug)]
enum Until {
    /// Until this record of the instance is delivered; then until that is final.
    Delivered(InstanceId, RecordIndex),
    /// Until everything up to here is final.
    Final(Seq),
}

/// The connections; see the module.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    conns: BTreeMap<ConnId, Until>,
}

impl Leaving {
    /// The client on a connection asks another leader: of an instance, whose last record here is this one, or of any. Up to `delivered`
    /// everything was delivered.
    pub(super) fn leaves(&mut self, conn: ConnId, last: Option<(InstanceId, RecordIndex)>, delivered: Seq) {
        match last {
            Some((of, record)) => drop(self.conns.insert(conn, Until::Delivered(of, record))),
            // What it waits for already comes later.
            None => drop(self.conns.entry(conn).or_insert(Until::Final(delivered))),
        }
    }

    /// The client on a connection asks here again, or the connection is gone.
    pub(super) fn forget(&mut self, conn: ConnId) {
        self.conns.remove(&conn);
    }

    /// Hands out the connections that are answered no more.
    pub(super) fn look(
        &mut self,
        merge: &Merge<Batch>,
        execution: &dyn Execution,
        mut gone: impl FnMut(ConnId),
    ) {
        if self.conns.is_empty() {
            return; // in nearly every turn
        }
        self.conns.retain(|conn, until| {
            if let Until::Delivered(instance, record) = *until
                && (merge.has_delivered(instance, record) || merge.is_away(instance))
            {
                *until = Until::Final(merge.seq());
            }
            let ends = matches!(*until, Until::Final(seq) if seq <= execution.state().seq() || !execution.is_behind());
            if ends {
                gone(*conn);
            }
            !ends
        });
    }
}

#[cfg(test)]
mod tests;
