//! Which members count in small quorums, where no oracle says which ones there are.
//!
//! There, sets meet because members that stopped stay away. So a member that started again, or had no turn for longer than T, or took a
//! checkpoint, does not count, until the log says that it does: it tells the leader so with a tag of its own, and the leader proposes that.
//! What was gathered without it before that slot may have taken it for stopped, so that is no quorum after it. Until then the member votes
//! as all others do, and counts in the usual quorum, which rests on what members wrote down.
//!
//! Tests: tests/counted.rs; mod_smart/tests/unaided.rs.

use quorate_types::{Random, ReplicaId, Span, Time, planted};
use std::collections::BTreeMap;

/// Whether this member counts, and, at a leader, who asks for it.
#[derive(Debug)]
pub struct Counted {
    tags: Random,
    /// What the log is to name.
    tag: u64,
    counts: bool,
    /// When this replica had its last turn.
    turn: Option<Time>,
    /// Who asks a leader, with its tag.
    asks: BTreeMap<ReplicaId, u64>,
    /// The last tag of each member that was decided here. A member that lags asks with it until it gets there.
    named: BTreeMap<ReplicaId, u64>,
}

impl Counted {
    /// `seed` differs between two starts of a replica.
    pub fn new(seed: u64) -> Self {
        let mut tags = Random::new(seed);
        let tag = tags.next();
        let counts = planted("visigoth-counted-at-once");
        Self { tags, tag, counts, turn: None, asks: BTreeMap::new(), named: BTreeMap::new() }
    }

    /// Whether this member counts.
    pub fn counts(&self) -> bool {
        self.counts
    }

    /// The member counts no longer, since others may have taken it for stopped. [visigoth L44]
    pub fn lose(&mut self) {
        if !planted("visigoth-counted-at-once") {
            (self.tag, self.counts) = (self.tags.next(), false);
        }
    }

    /// This replica has a turn. Returns whether it had none for longer than T. [visigoth L44]
    pub fn has_turn(&mut self, now: Time, slow_after: Span) -> bool {
        let paused = self.turn.is_some_and(|turn| now.since(turn) > slow_after);
        self.turn = Some(now);
        if paused {
            self.lose();
        }
        paused
    }

    /// When this replica is to have a turn, to know that it was not paused.
    pub fn due(&self, slow_after: Span) -> Option<Time> {
        self.turn.map(|turn| turn.plus(slow_after.divided(2)))
    }

    /// What this member is to tell its leader: the tag that the log is to name. [visigoth L45]
    pub fn asks(&self) -> Option<u64> {
        (!self.counts).then_some(self.tag)
    }

    /// A member asks its leader that it counts. [visigoth L46]
    pub fn asked(&mut self, from: ReplicaId, tag: u64) {
        if self.named.get(&from) != Some(&tag) {
            self.asks.insert(from, tag);
        }
    }

    /// Another view was entered: whoever still asks says so again.
    pub fn enter(&mut self) {
        self.asks.clear();
    }

    /// Whom a leader proposes to count in its next slot. [visigoth L46]
    pub fn proposes(&self) -> Option<Vec<(ReplicaId, u64)>> {
        let asks = self.asks.iter().map(|(id, tag)| (*id, *tag));
        (!self.asks.is_empty()).then(|| asks.collect())
    }

    /// It was decided that these count from the next slot on. [visigoth L47]
    pub fn decided(&mut self, members: &[(ReplicaId, u64)], me: ReplicaId) {
        self.counts |= members.contains(&(me, self.tag));
        self.asks.retain(|id, tag| !members.contains(&(*id, *tag)));
        self.named.extend(members.iter().copied());
    }
}
