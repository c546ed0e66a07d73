//! How one follower gets what it lacks: messages with entries, heartbeats, and entries that are read back for it. Each message carries the
//! leader's round. docs/protocols/raft.md L30-L33, L56, L89-L90.
//!
//! Tests: tests/replication.rs, tests/cache.rs.

use super::Scene;
use super::progress::{Flow, Progress};
use crate::raft::log::entry_bytes;
use crate::raft::message::{ENTRIES_MAX, Entry, RaftMessage};
use crate::raft::send;

impl Scene<'_> {
    /// Sends what the follower lacks, as far as its window allows. [raft L30-L33]
    pub(super) fn entries(&mut self, peer: &mut Progress, round: u64) {
        match peer.flow {
            Flow::Probe { sent: true } | Flow::Checkpoint => {}
            Flow::Probe { sent: false } => {
                let entries = self.take(peer);
                self.append(peer, round, entries);
                peer.flow = Flow::Probe { sent: true };
            }
            Flow::Stream => {
                let window = self.config.window_bytes as u64;
                while peer.next <= self.store.log().last().index && peer.in_flight() < window {
                    if peer.next < self.store.log().first_kept() {
                        self.load(peer);
                        break;
                    }
                    let entries = self.take(peer);
                    self.stream(peer, round, entries);
                }
            }
        }
    }

    fn take(&self, peer: &Progress) -> Vec<Entry> {
        self.store.log().take(peer.next, self.config.message_bytes_max, ENTRIES_MAX)
    }

    fn stream(&mut self, peer: &mut Progress, round: u64, entries: Vec<Entry>) {
        let next = peer.next.plus(entries.len() as u64);
        self.append(peer, round, entries);
        peer.set_next(next, self.store.log());
    }

    /// Reads old entries from the disk, if that is possible. [raft L33, L89]
    fn load(&mut self, peer: &mut Progress) {
        let to = self.store.log().first_kept().previous();
        if !self.config.reload {
            peer.fall_behind(to, self.store.log());
        } else if peer.load.is_none() {
            peer.load = self.store.load(peer.next, to, self.out);
        }
    }

    /// Sends entries that were read back, in messages of the usual size.
    pub(super) fn loaded(&mut self, peer: &mut Progress, round: u64, entries: Vec<Entry>) {
        let (mut message, mut bytes) = (Vec::new(), 0);
        for entry in entries {
            let size = entry_bytes(&entry);
            let full = bytes + size > self.config.message_bytes_max as u64 || message.len() == ENTRIES_MAX;
            if full && !message.is_empty() {
                self.stream(peer, round, std::mem::take(&mut message));
                bytes = 0;
            }
            bytes += size;
            message.push(entry);
        }
        if !message.is_empty() {
            self.stream(peer, round, message);
        }
    }

    /// An empty message. It keeps the leader in office, and asks whether what was sent arrived. [raft L56, L90]
    pub(super) fn heartbeat(&mut self, peer: &mut Progress, round: u64) {
        if peer.flow != Flow::Checkpoint {
            return self.append(peer, round, Vec::new());
        }
        let log = self.store.log();
        let reach = if self.config.reload { log.floor().index } else { log.first_kept().previous() };
        peer.fall_behind(reach, log);
        let (view, slot, previous) = (self.store.view(), log.slot_from(reach), log.position(reach));
        send(self.out, peer.id, RaftMessage::NeedsCheckpoint { view, previous, round, slot }, None);
    }

    /// One message with these entries, which follow what was sent before; without entries it is a heartbeat.
    pub(super) fn append(&mut self, peer: &mut Progress, round: u64, entries: Vec<Entry>) {
        let (view, commit) = (self.store.view(), self.store.commit());
        let previous = self.store.log().position(peer.next.previous());
        let reached = previous.index.plus(entries.len() as u64);
        peer.commit_sent = peer.commit_sent.max(commit.min(reached));
        send(self.out, peer.id, RaftMessage::AppendEntries { view, previous, commit, round, entries }, None);
    }
}
