//! The lives of the members, as far as this replica knows them. A member that comes back with another life has lost its disk, and with it
//! votes and records that other members count on.
//!
//! A replica draws its life when it first starts, and writes it to its log before it sends anything. It writes down the life of every other
//! member when it first hears of it, and takes no part in agreement until it knows them all. So a cluster begins when all its members have
//! been connected once. From then on no replica can vote under an old name, not even with a fresh copy of the directory that `init` made.
//! The records lie in the log before everything that is decided, so they are durable before it.
//!
//! INV-NODE-5: a member's life, once known, never changes.

use crate::journal::NODE;
use bytes::Bytes;
use quorate_log::Record;
use quorate_types::{Halt, Random, ReplicaId};
use std::collections::BTreeMap;

const LIFE: u8 = 1;
const HEAD: usize = 10;

/// The known lives of the members.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lives {
    known: BTreeMap<ReplicaId, u64>,
}

impl Lives {
    /// Restores a life from a record of an earlier run.
    pub(crate) fn restore(&mut self, record: &Record) -> Result<(), Halt> {
        let inconsistent = |why: &str| Err(Halt::LogInconsistent { why: why.to_owned() });
        let (Some(id), Some(life)) = (record.head.first_chunk::<2>(), record.head.last_chunk::<8>()) else {
            return inconsistent("a record about a member is cut off");
        };
        if record.kind != LIFE || record.head.len() != HEAD {
            return inconsistent("a record of the node is of an unknown kind");
        }
        let (replica, life) = (ReplicaId::new(u16::from_le_bytes(*id)), u64::from_le_bytes(*life));
        match self.known.insert(replica, life) {
            Some(before) if before != life => inconsistent("a member has two lives"),
            _ => Ok(()),
        }
    }

    /// These are known from the era before.
    pub(crate) fn of_era(known: BTreeMap<ReplicaId, u64>) -> Self {
        Self { known }
    }

    /// All that are known.
    pub(crate) fn known(&self) -> impl Iterator<Item = (ReplicaId, u64)> {
        self.known.iter().map(|(replica, life)| (*replica, *life))
    }

    /// The life of this replica. If it has none yet, a new one begins; gives the record to write.
    pub(crate) fn begin(&mut self, me: ReplicaId, seed: u64) -> (u64, Option<Record>) {
        if let Some(life) = self.known.get(&me) {
            return (*life, None);
        }
        // Never 0, which clients send.
        let life = Random::new(seed ^ 0x6c_69_66_65).next() | 1;
        (life, self.learn(me, life))
    }

    /// Whether this member's messages may be taken: its life is the known one, or none is known.
    pub(crate) fn fits(&self, replica: ReplicaId, life: u64) -> bool {
        self.known.get(&replica).is_none_or(|known| *known == life)
    }

    /// Notes a member's life; gives the record to write if it is new.
    pub(crate) fn learn(&mut self, replica: ReplicaId, life: u64) -> Option<Record> {
        let before = self.known.insert(replica, life);
        assert!(before.is_none_or(|before| before == life), "INV-NODE-5 the life of {replica} changed");
        before.is_none().then(|| record(replica, life))
    }

    /// Forgets a member's life that could not be written down: the member may come with another life after all.
    pub(crate) fn unlearn(&mut self, replica: ReplicaId) {
        self.known.remove(&replica);
    }

    /// The records of all known lives, to be written again before old ones are trimmed.
    pub(crate) fn all(&self) -> Vec<Record> {
        self.known.iter().map(|(replica, life)| record(*replica, *life)).collect()
    }

    /// The known life of a member.
    pub(crate) fn of(&self, replica: ReplicaId) -> Option<u64> {
        self.known.get(&replica).copied()
    }

    pub(crate) fn is_known(&self, replica: ReplicaId) -> bool {
        self.known.contains_key(&replica)
    }
}

fn record(replica: ReplicaId, life: u64) -> Record {
    let mut head = Vec::with_capacity(HEAD);
    head.extend_from_slice(&replica.number().to_le_bytes());
    head.extend_from_slice(&life.to_le_bytes());
    Record { instance: NODE, kind: LIFE, head: Bytes::from(head), payload: Bytes::new() }
}

#[cfg(test)]
mod tests;
