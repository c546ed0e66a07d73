//! The phase of a run: faults, then the rest of the work, the last reads, and the last border.

use super::MS;
use super::cluster::Cluster;
use super::judge::Judge;
use crate::client::Client;
use quorate_log::SyncMode;
use quorate_node::{CheckpointStatus, Node};

/// A phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Safety,
    Liveness,
    Reads,
    CatchUp,
}

/// What happens after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing changes.
    Same,
    /// Another phase has begun, of this name.
    Phase(&'static str),
    /// The phase in which clients that have done their work read everything once more, with this name.
    LastReads(&'static str),
    /// Nothing: the run is over.
    End,
}

/// The progress of a run.
#[derive(Debug)]
pub(super) struct Course {
    phase: Phase,
    /// The last border must come after this seq.
    after: u64,
    /// How often the last border was looked for, and whether all have it.
    looks: u64,
    is_everywhere: bool,
}

impl Course {
    /// The beginning.
    pub(super) fn new() -> Self {
        Self { phase: Phase::Safety, after: 0, looks: 0, is_everywhere: false }
    }

    /// Faults are over.
    pub(super) fn heal(&mut self) {
        self.phase = Phase::Liveness;
    }

    /// Whether faults are over.
    pub(super) fn is_healed(&self) -> bool {
        self.phase != Phase::Safety
    }

    /// Moves on to the next phase when this one is complete.
    pub(super) fn step(&mut self, cluster: &Cluster, now: u64) -> Next {
        match self.phase {
            Phase::Liveness if waits_for_none(cluster, Client::is_done) => {
                self.phase = Phase::Reads;
                Next::LastReads("last reads")
            }
            // A lost client found its way: a replica that it knows heard of the members, and told it.
            Phase::Reads | Phase::CatchUp if !waits_for_none(cluster, Client::reads_last) => {
                self.phase = Phase::Liveness;
                Next::Phase("a client goes on")
            }
            Phase::CatchUp if !waits_for_none(cluster, Client::is_over) => {
                self.phase = Phase::Reads;
                Next::Phase("last reads")
            }
            Phase::Reads if waits_for_none(cluster, Client::is_over) => {
                let nodes = cluster.current().into_iter().filter_map(|who| cluster.node(who));
                let last = nodes.map(|node| node.executor().seq().number()).max().unwrap_or(0);
                *self = Self { phase: Phase::CatchUp, after: last, looks: 0, is_everywhere: false };
                Next::Phase("the last border")
            }
            Phase::CatchUp => {
                // A removed replica that hears no other one leads on for that long. If it was suspended for long, it finds the machine slow
                // and is more patient.
                let waited = |times| now >= cluster.plan.heal_at + times * cluster.plan.timing.2 * MS;
                let noticed = waited(2) && (waited(10) || !cluster.is_led_by_others());
                let is_over = self.is_everywhere && noticed && cluster.untrimmed().is_none();
                if is_over { Next::End } else { Next::Same }
            }
            Phase::Safety | Phase::Liveness | Phase::Reads => Next::Same,
        }
    }

    /// In the end all replicas must be at the same border, one after everything that clients asked for. Returns the seq after which an
    /// operator asks all replicas for a border, if that is due.
    pub(super) fn look(&mut self, cluster: &Cluster, judge: &Judge) -> Option<u64> {
        if self.phase != Phase::CatchUp {
            return None;
        }
        let (after, current) = (self.after, cluster.current());
        let nodes = || current.iter().filter_map(|who| cluster.node(*who));
        let settled = nodes().all(|node| node.change().is_none() && node.generations().1.is_none());
        let states: Vec<(u64, CheckpointStatus)> =
            nodes().map(|node| (node.executor().seq().number(), node.status().checkpoints)).collect();
        // A replica that started from a checkpoint executed its border in an earlier life.
        let border = |status: &CheckpointStatus| status.last_seq.max(status.durable_seq);
        let calm = states.iter().all(|(seq, status)| {
            let at_rest = status.diverged.is_none() && status.transfer.is_none() && status.writing.is_none();
            at_rest && *seq == states[0].0 && border(status) > after && status.agreed_seq >= border(status)
        });
        // What a log gives up goes once the records that say so are durable.
        let written = |node: &Node| {
            let log = node.status().log;
            cluster.plan.log.sync == SyncMode::Memory || log.durable == log.appended
        };
        let mut running = current.iter().filter(|who| cluster.node(**who).is_some());
        let rested =
            |who: &usize| cluster.replicas[*who].keeping.is_rested() && judge.corrupt(*who).is_none();
        let all_rested = running.all(rested);
        let asks = self.looks.is_multiple_of(5) && states.iter().all(|(_, status)| border(status) <= after);
        self.looks += 1;
        self.is_everywhere = calm && all_rested && settled && nodes().all(written);
        asks.then_some(after)
    }
}

/// Whether all clients are that far, except for those that nothing leads to the members.
fn waits_for_none(cluster: &Cluster, is_far: impl Fn(&Client) -> bool) -> bool {
    cluster.clients.iter().all(|client| client.lies() || is_far(client) || cluster.is_lost(client))
}

#[cfg(test)]
mod tests;
