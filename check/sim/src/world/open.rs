//! What is still open at the end.

use super::cluster::Cluster;
use super::judge::Judge;
use crate::checks::{Failure, checkpoints};
use crate::replica::Replica;
use crate::trace::name;
use quorate_log::SyncMode;
use quorate_node::{CheckpointStatus, Node};

/// The state of a replica, in words.
fn state_of(status: &CheckpointStatus, corrupt: Option<u64>) -> String {
    let mut words = Vec::new();
    words.extend(status.diverged.map(|seq| format!("diverged at {seq}")));
    words.extend(
        status.transfer.as_ref().map(|transfer| format!("fetches ({}) {:?}", transfer.why, transfer.seq)),
    );
    words.extend(status.writing.map(|seq| format!("writes {seq}")));
    words.extend(corrupt.map(|seq| format!("corrupt since {seq}")));
    words.join(", ")
}

impl Cluster {
    /// What is still open, for a run that does not end.
    pub(super) fn open(&self, judge: &Judge) -> Vec<String> {
        let mut open = Vec::new();
        for client in self.honest_clients() {
            for done in client.done.iter().filter(|done| done.outcome.is_none()).take(3) {
                open.push(format!(
                    "{:?} {} {} since {:.3} s",
                    done.id,
                    done.op,
                    done.key,
                    done.call as f64 / 1e9
                ));
            }
        }
        for (who, replica) in self.replicas.iter().enumerate() {
            open.push(match &replica.node {
                Some(node) => self.at(who, replica, node, judge.corrupt(who)),
                None => format!("{} does not run: {:?}", name(who, self.plan.replicas), replica.halt),
            });
        }
        open.extend(self.untrimmed().map(|failure| failure.text));
        open
    }

    /// How far a replica is.
    fn at(&self, who: usize, replica: &Replica, node: &Node, corrupt: Option<u64>) -> String {
        let status = node.status();
        let each = status.instances.each.iter().map(|of| {
            let leader = of.leader.map_or("-".into(), |leader| format!("r{leader}"));
            format!(" i{} v{} {leader} s{}", of.instance, of.view, of.decided)
        });
        let instances: String = if status.instances.each.len() > 1 { each.collect() } else { String::new() };
        let change = node.change().map_or(String::new(), |change| format!(" to {}", change.now().number()));
        format!(
            "{}{instances} in {}{change} view {} leader {:?} decided {} executed {} durable {}/{} full {} border {} agreed {} {} keeper idle {}{}",
            name(who, self.plan.replicas),
            self.membership_of(node).number(),
            status.view,
            status.leader,
            status.decided,
            status.executed,
            status.log.durable,
            status.log.appended,
            status.log.disk_full,
            status.checkpoints.last_seq,
            status.checkpoints.agreed_seq,
            state_of(&status.checkpoints, corrupt),
            replica.keeping.is_idle(),
            status.verification.map_or(String::new(), |of| {
                format!(
                    ", ruled {} in attempt {}, {} wait, wrong {:?}",
                    of.ruled, of.attempt, of.waiting, of.differs
                )
            })
        )
    }

    /// An honest replica of the present membership that has not given up the log that it need not keep.
    pub(super) fn untrimmed(&self) -> Option<Failure> {
        let honest = self.current().into_iter().filter(|who| !self.plan.is_liar(*who));
        let failed = |who: usize| self.trims(who).err();
        honest.filter(|_| self.plan.log.sync != SyncMode::Memory).find_map(failed)
    }

    /// Whether a replica keeps no more of its log than it may.
    pub(super) fn trims(&self, who: usize) -> Result<(), Failure> {
        let replica = &self.replicas[who];
        let Some(node) = &replica.node else { return Ok(()) };
        // A liar that begins to fetch and does not go on has the log kept for it, as far as the configuration allows.
        let mut held = node.holds_back_for().map(|by| usize::from(by.number()) - 1);
        if held.any(|by| self.plan.is_liar(by)) {
            return Ok(());
        }
        let size = self.plan.log.segment_bytes;
        // Of several instances each has what it decided ahead of the global log in its own log already.
        let ahead = if self.plan.instances > 1 || self.plan.resizes { 128 << 10 } else { 0 };
        checkpoints::trimmed(
            &name(who, self.plan.replicas),
            replica.storage.log_begins(size),
            node.status().log.position,
            replica.keeping.record.last_but_one(),
            3 * size + (64 << 10) + ahead,
        )
    }
}
