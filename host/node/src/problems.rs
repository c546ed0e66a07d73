//! The problems of a replica, in words, each with what to do. docs/operations/alarms.md explains every text.
//! Tests: `problems/tests.rs`, which compares the texts with that page.

use crate::status::{EvidenceStatus, PeerStatus, SeatsStatus, SuspectStatus, TransferStatus};
use quorate_order::Status as OrderStatus;
use quorate_order::visigoth::SmallQuorums;
use quorate_types::{InstanceId, ReplicaId, Span};
use std::collections::BTreeSet;

/// A member that lacks more bytes of the log than this has fallen behind.
const LAG_BYTES: u64 = 64 << 20;
/// A disk that takes longer than this for a write is slow.
const SLOW_WRITE: Span = Span::from_millis(100);

/// What a replica knows of itself and of others.
pub(crate) struct Situation<'a> {
    /// Members that have never been connected.
    pub(crate) unknown: Vec<ReplicaId>,
    pub(crate) order: &'a OrderStatus,
    pub(crate) leading: bool,
    pub(crate) disk_full: bool,
    pub(crate) rotten: Option<u64>,
    /// Members whose disks are full, if they are too many.
    pub(crate) without_room: Vec<ReplicaId>,
    pub(crate) stalled: bool,
    /// The average time of recent writes to the disk.
    pub(crate) write_time: Span,
    pub(crate) removed: bool,
    pub(crate) transfer: Option<&'a TransferStatus>,
    pub(crate) seats: &'a SeatsStatus,
    /// Open sessions, and the most that there may be.
    pub(crate) sessions: (usize, usize),
    /// Bytes that are admitted and not decided, and the most that there may be.
    pub(crate) queue: (usize, usize),
    /// Bytes of replies that sessions keep, and the most that there may be.
    pub(crate) kept: (u64, u64),
    pub(crate) peers: &'a [PeerStatus],
    pub(crate) suspects: &'a [SuspectStatus],
    pub(crate) evidence: &'a [EvidenceStatus],
    /// Instances that have small quorums, or may be bound by them.
    pub(crate) few: Vec<(InstanceId, SmallQuorums)>,
    /// Instances in whose small quorums this replica does not count.
    pub(crate) uncounted: Vec<InstanceId>,
    /// Whether there is an oracle, where few replicas are slow.
    pub(crate) oracle: bool,
    /// The public key with which this replica has to sign, and whose secret half it does not hold.
    pub(crate) lacks_key: Option<[u8; 32]>,
}

impl Situation<'_> {
    /// All problems; keeping adds those of checkpoints.
    pub(crate) fn problems(&self, of_checkpoints: impl FnOnce(&mut Vec<String>)) -> Vec<String> {
        let mut problems = Vec::new();
        self.leader(&mut problems);
        self.few(&mut problems);
        self.uncounted(&mut problems);
        self.disk(&mut problems);
        self.key(&mut problems);
        self.members(&mut problems);
        of_checkpoints(&mut problems);
        self.limits(&mut problems);
        self.connections(&mut problems);
        problems
    }

    fn leader(&self, problems: &mut Vec<String>) {
        for replica in &self.unknown {
            problems.push(format!(
                "{replica} was never there: a new cluster begins when all its replicas have been connected once; start it"
            ));
        }
        if self.order.leader.is_none() && self.unknown.is_empty() {
            problems
                .push("no leader is known: writes wait until a majority of the replicas is connected".into());
        }
    }

    fn few(&self, problems: &mut Vec<String>) {
        if !self.few.is_empty() {
            let few: Vec<String> = self.few.iter().map(|(id, _)| id.number().to_string()).collect();
            if !self.oracle {
                return problems.push(format!(
                    "few replicas go on without the others, and without an oracle (instances {}): start what is missing",
                    few.join(", ")
                ));
            }
            let grants = self.few.iter().flat_map(|(_, small)| &small.grants);
            let needed: BTreeSet<String> =
                grants.flat_map(|grant| &grant.set).map(ReplicaId::to_string).collect();
            let needed: Vec<String> = needed.into_iter().collect();
            let needed =
                if needed.is_empty() { "those that answer now".to_owned() } else { needed.join(", ") };
            problems.push(format!(
                "few replicas may have gone on by a grant of the oracle (instances {}): until all count again, {needed} must not stop. Start what is missing, and look whether the oracle answers",
                few.join(", ")
            ));
        }
    }

    fn uncounted(&self, problems: &mut Vec<String>) {
        if !self.uncounted.is_empty() {
            let instances: Vec<String> = self.uncounted.iter().map(|id| id.number().to_string()).collect();
            problems.push(format!(
                "this replica does not count where few go on (instances {}), since it started, stood still, or took a checkpoint. Until it \
                 does it is one of those that have stopped: see that enough others are there",
                instances.join(", ")
            ));
        }
    }

    fn key(&self, problems: &mut Vec<String>) {
        if let Some(key) = &self.lacks_key {
            let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            problems.push(format!(
                "this replica lacks the secret half of its signing key {key}, and votes for nothing without it: put the file beside its                  other key (`quorate member newkey` made it), or give it another key (`quorate member rekey`)"
            ));
        }
    }

    fn disk(&self, problems: &mut Vec<String>) {
        if self.disk_full {
            problems
                .push("the disk is full: writes are refused; free space, they resume by themselves".into());
        }
        if let Some(segment) = self.rotten {
            problems.push(format!(
                "the log on this disk is damaged (up to segment {segment}): it is trimmed beyond the damage at the next checkpoint. Look after the disk"
            ));
        }
        if !self.without_room.is_empty() && self.leading {
            let full: Vec<String> = self.without_room.iter().map(ToString::to_string).collect();
            problems.push(format!(
                "a majority has no room for writes, which are refused; deletes are taken while there is a little. Make room on the \
                 disks of {}",
                full.join(", ")
            ));
        }
        if self.stalled {
            problems.push(
                "the disk of this replica has not finished a write for long: look after it (`quorate doctor` measures it)".into(),
            );
        } else if self.write_time > SLOW_WRITE {
            problems.push(format!(
                "the disk of this replica takes {} ms for a write: every request waits for a majority of the disks. Look what else uses \
                 it (`quorate doctor` measures it)",
                self.write_time.millis()
            ));
        }
    }

    fn members(&self, problems: &mut Vec<String>) {
        for (replica, lag, active) in &self.order.members {
            if *lag == u64::MAX {
                problems.push(format!(
                    "{replica} lacks more than the log still holds: it needs a checkpoint, which it fetches from the others once it runs"
                ));
            } else if *lag > LAG_BYTES && *active {
                problems.push(format!(
                    "{replica} lacks {} MiB of the log: if that grows, its disk or its network is slower than what clients write \
                     (`quorate doctor` there measures the disk)",
                    lag >> 20
                ));
            }
        }
        self.silent(problems);
        for (replica, entries) in &self.order.lost {
            problems.push(format!(
                "{replica} lost the end of its log ({entries} entries that it had acknowledged): it is sent them again, or fetches a \
                 checkpoint. Look after its disk, which did not keep what it had synced, and restart this replica when that is done"
            ));
        }
        self.liars(problems);
        if self.removed {
            problems.push(
                "this replica was removed from the cluster, and its id is never used again: stop it".into(),
            );
        }
        if let Some(transfer) = self.transfer.filter(|transfer| transfer.why == "behind") {
            problems.push(format!(
                "this replica was away for too long and fetches the state from the others ({} of {} MiB so far): wait; it takes part \
                 again by itself",
                transfer.bytes_done >> 20,
                transfer.bytes_total >> 20
            ));
        }
    }

    /// What is proved against members; and what this replica alone saw of others.
    fn liars(&self, problems: &mut Vec<String>) {
        for EvidenceStatus { what, file, .. } in self.evidence {
            problems.push(format!(
                "{what}: proved, `quorate evidence show {file}`. Stop it, look after its machine and its key; then set up a replacement with a \
                 new key (`quorate member replace`), or where members can not change, `quorate backup restore` into a new cluster"
            ));
        }
        let is_proved = |id: u16| self.evidence.iter().any(|evidence| evidence.replica == id);
        let suspects = self.suspects.iter().filter(|suspect| !is_proved(suspect.replica));
        for SuspectStatus { replica, times, what } in suspects {
            problems.push(format!(
                "r{replica} is suspected: this replica saw it do what no honest replica does ({times} times, the last: {what}), and can not \
                 prove it to others, who go on without it. Stop it and look after its machine; then set up a replacement (`quorate member \
                 replace`), or where members can not change, `quorate backup restore` into a new cluster"
            ));
        }
    }

    /// Members that the leader does not hear. Of one that is not connected another line says more.
    fn silent(&self, problems: &mut Vec<String>) {
        let connected = |id: &ReplicaId| {
            self.peers
                .iter()
                .any(|peer| peer.replica == id.number() && peer.connected && peer.refusal.is_none())
        };
        let silent = self.order.members.iter().filter(|(id, _, active)| !*active && connected(id));
        for (replica, ..) in silent {
            problems.push(format!(
                "{replica} is connected, and the leader has not heard of it lately: it stands still, is overloaded, or does not follow \
                 the protocol. Look at its process, its machine, and its log"
            ));
        }
    }

    fn limits(&self, problems: &mut Vec<String>) {
        let seats = self.seats;
        if seats.clients >= seats.clients_max {
            problems.push(format!(
                "{} clients are connected, which is the limit: more are refused. Look who they are (`ss -tn`), or raise \
                 limits.connections",
                seats.clients
            ));
        } else if seats.largest_client >= seats.per_client_max {
            problems.push(format!(
                "one client has {} connections, which is its limit: more of it are refused. Let it share connections, or raise \
                 limits.connections_per_client",
                seats.largest_client
            ));
        }
        if seats.strangers >= seats.strangers_max {
            problems.push(format!(
                "{} connections have not said who they are, which is the limit: the oldest are turned away. Look where they come from \
                 (`ss -tn`) and keep them off with a firewall, or raise limits.handshakes",
                seats.strangers
            ));
        }
        let (sessions, sessions_max) = self.sessions;
        if sessions >= sessions_max {
            problems.push(format!(
                "{sessions} sessions are open, which is the limit: no more are opened until some are closed or expire. Let clients \
                 close theirs or share them; sessions.max is the limit"
            ));
        }
        let (queue, queue_max) = self.queue;
        if queue >= queue_max {
            problems.push(format!(
                "{} MiB of requests wait to be decided, which is the limit: clients are told `Overloaded` and try again. Look for a slow \
                 disk or network above, or for a client that sends too much",
                queue >> 20
            ));
        }
        let (kept, kept_max) = self.kept;
        if kept >= kept_max {
            problems.push(format!(
                "sessions keep {} MiB of replies that their clients have not confirmed, which is the limit: nothing runs until some are \
                 confirmed or expire (sessions.ttl_s). Look for clients that ask for much and stop reading",
                kept >> 20
            ));
        }
    }

    fn connections(&self, problems: &mut Vec<String>) {
        for peer in self.peers {
            match &peer.refusal {
                Some(text) => problems.push(text.clone()),
                None if !peer.connected => problems.push(format!(
                    "r{} at {} is not connected: start it, or check the network between them",
                    peer.replica, peer.address
                )),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
