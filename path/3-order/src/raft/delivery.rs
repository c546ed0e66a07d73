//! What is committed is handed on as decided, slot by slot; old entries are read back; entries nobody needs leave the
//! memory. docs/protocols/raft.md L47-L51.
//!
//! INV-RAFT-13. Tests: tests/cache.rs.

use super::{Raft, Role};
use crate::raft::message::{Entry, EntryBody, Index};
use crate::{Effect, Effects, Stored};
use quorate_types::Slot;

impl Raft {
    /// Everything up to `commit` is committed, if it is not known yet.
    pub(super) fn commit_to(&mut self, commit: Index, out: &mut Effects) {
        self.commit = self.commit.max(commit);
        self.deliver(out);
    }

    /// Hands on what is committed, as far as it is in memory; asks for the rest. [raft L47-L48]
    pub(super) fn deliver(&mut self, out: &mut Effects) {
        while self.delivered() < self.commit {
            let next = self.delivered().next();
            let Some(kept) = self.log.get(next) else {
                if !self.config.reload {
                    // [raft L101]
                    let slot = Slot::new(self.log.slot_from(self.log.first_kept().previous()));
                    return out.push(Effect::Behind { slot });
                }
                if !self.delivery.waits() {
                    let to = self.commit.min(self.log.first_kept().previous());
                    self.delivery.wait_for(Self::load(&self.log, &mut self.records, next, to, out));
                }
                return;
            };
            let entry = kept.entry.clone();
            self.deliver_entry(entry, out);
        }
    }

    /// Everything up to here was handed on as decided.
    pub(super) fn delivered(&self) -> Index {
        Index::new(self.delivery.position())
    }

    fn deliver_entry(&mut self, entry: Entry, out: &mut Effects) {
        let batch = match entry.body {
            EntryBody::Batch(batch) => Some(batch),
            EntryBody::ViewStart | EntryBody::Members(_) => None,
        };
        self.delivery.hand_on(batch, out);
        assert!(
            self.delivery.slot() == Slot::new(self.log.slots_at(self.delivered())),
            "INV-RAFT-13: slots are handed on in order, each once"
        );
    }

    pub(super) fn on_loaded(&mut self, load: u64, records: Vec<Stored>, out: &mut Effects) {
        self.records.loaded(load);
        let Some(question) = self.delivery.answered(load) else {
            return self.on_loaded_for_follower(load, records, out);
        };
        match self.loaded_entries(question, records) {
            Ok(entries) => {
                for entry in entries {
                    self.deliver_entry(entry, out);
                }
                self.deliver(out);
            }
            Err(why) => self.halt(why, out),
        }
    }

    /// Drops entries from memory. [raft L49-L51]
    pub(super) fn trim(&mut self) {
        let all_matched = match &self.role {
            Role::Leader(lead) => {
                lead.peers.iter().map(|peer| peer.matched).min().unwrap_or(self.log.durable())
            }
            _ => Index::ZERO,
        };
        while self.log.first_kept() <= self.log.durable() {
            let first = self.log.first_kept();
            let full = self.log.kept_bytes() > self.config.cache_bytes as u64;
            let delivered = first <= self.delivered();
            let spare = delivered && (first <= all_matched || full);
            let reloadable = full && self.config.reload;
            if !(spare || reloadable) {
                break;
            }
            self.log.evict_first();
        }
    }
}
