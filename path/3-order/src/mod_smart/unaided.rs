//! Goes on with fewer members where there is no oracle: the operator wrote down that more than s slow members never come together.
//!
//! The leader gathers small quorums by itself, in two rounds. The log says which members count in them. What a leader awaits, and since
//! when, is known in `few`. (docs/protocols/visigoth.md L39-L48)
//!
//! Tests: tests/unaided.rs; visigoth/tests; check/model.

use super::core::Core;
use super::few::{Awaited, Lacks};
use super::reject;
use crate::Effects;
use crate::mod_smart::message::ModSmartBody as Body;
use crate::visigoth::{Counted, Gathering, Rounds};
use quorate_types::{AgreedTime, Reject, ReplicaId, Slot, Span, Time};
use quorate_wire::{Batch, BatchHeader, SystemCommand};

/// The rounds of a leader, and whether this member counts.
#[derive(Debug)]
pub(super) struct Unaided {
    rounds: Rounds,
    counted: Counted,
}

impl Unaided {
    /// `seed` differs between two starts of a replica.
    pub(super) fn new(seed: u64) -> Self {
        Self { rounds: Rounds::new(seed), counted: Counted::new(seed) }
    }

    /// Whether this member counts in small quorums.
    pub(super) fn counts(&self) -> bool {
        self.counted.counts()
    }

    /// Another view was entered.
    pub(super) fn enter(&mut self) {
        self.rounds.end();
        self.counted.enter();
    }

    /// When there is something to do, if nothing comes before.
    pub(super) fn deadline(&self, core: &Core) -> Option<Time> {
        let wait = core.gathers_after()?;
        let rounds = self.rounds.due(wait.times(2)).filter(|due| *due > core.now());
        rounds.into_iter().chain(self.counted.due(wait).filter(|_| core.votes())).min()
    }

    /// This replica has a turn. If it had none for longer than T, it does not know who answered in time, nor what others gathered meanwhile.
    /// The small quorums of its view stay what they are: whoever left the view does not vote in it. [visigoth L44]
    pub(super) fn has_turn(&mut self, core: &Core) {
        let Some(wait) = core.gathers_after() else { return };
        if self.counted.has_turn(core.now(), wait) {
            self.rounds.end();
        }
    }

    /// This replica took a checkpoint: it does not know which slots said who counts. [visigoth L44]
    pub(super) fn skipped_slots(&mut self, core: &mut Core) {
        if core.gathers_after().is_some() {
            self.counted.lose();
            self.rounds.end();
            core.granted.end();
        }
    }

    /// If the usual quorum is late, gathers a small one. Returns it once that is done. [visigoth L40-L43]
    pub(super) fn gather(&mut self, at: Awaited<'_>, out: &mut Effects) -> Option<Vec<ReplicaId>> {
        let core = at.core;
        let wait = core.gathers_after()?.times(2);
        let Lacks { what, due, .. } = at.lacks()?;
        let set = at.supporters(what);
        let smallest = core.members.trust().smallest() as usize;
        // A replica that does not know since when members count knows none.
        let knows = core.granted.since() > Slot::ZERO;
        let late = core.now() >= due && set.len() >= smallest && knows;
        if !late || core.quorums().hold(set.len(), |id| set.contains(&id)) {
            return None;
        }
        if let Some(tag) = self.rounds.begin(core.now(), core.config.repeat.max(wait.times(3))) {
            self.ask(tag, core, out);
        }
        match self.rounds.go_on(core.now(), wait, smallest)? {
            Gathering::Ask(tag) => {
                self.ask(tag, core, out);
                None
            }
            Gathering::Gathered(set) => Some(set),
        }
    }

    fn ask(&mut self, tag: u64, core: &Core, out: &mut Effects) {
        core.send_all(out, &Body::Probe { tag }, None);
        if self.counted.counts() {
            self.rounds.answered(core.config.me, tag);
        }
    }

    /// A leader asks for a sign of life. Whoever counts gives it, and says in which view it is: one that is there must not be taken for
    /// stopped. A disk that does not write any more gives none. [visigoth L41]
    pub(super) fn on_probe(&self, from: ReplicaId, tag: u64, core: &Core, out: &mut Effects) {
        if core.gathers_after().is_none() {
            return reject(out, from, Reject::NotAllowed("a question for a sign of life"));
        }
        if self.counted.counts() {
            core.send(out, from, Body::Probed { tag }, Some(core.ledger.records().last()));
        }
    }

    /// A member gives a sign of life, from this view or from elsewhere. [visigoth L41]
    pub(super) fn on_probed(&mut self, from: ReplicaId, tag: u64, here: bool) {
        if here {
            self.rounds.answered(from, tag);
        } else {
            self.rounds.answered_elsewhere(tag);
        }
    }

    /// Tells the leader that this member is to count. [visigoth L45]
    pub(super) fn asks_to_count(&mut self, core: &Core, out: &mut Effects) {
        if core.gathers_after().is_none() || !core.votes() || !core.has_begun() {
            return;
        }
        match self.counted.asks() {
            Some(tag) if core.is_leader() => self.counted.asked(core.config.me, tag),
            Some(tag) => core.send(out, core.leader(), Body::Back { tag }, None),
            None => {}
        }
    }

    /// A member asks to count. [visigoth L46]
    pub(super) fn on_back(&mut self, from: ReplicaId, tag: u64, core: &Core, out: &mut Effects) {
        if !core.is_leader() || core.gathers_after().is_none() {
            return reject(out, from, Reject::NotAllowed("a word to a leader"));
        }
        self.counted.asked(from, tag);
    }

    /// The batch that says who counts, at a leader that was asked. [visigoth L46]
    pub(super) fn proposes(&self, core: &Core) -> Option<Batch> {
        core.gathers_after()?;
        let members = self.counted.proposes()?;
        let header = BatchHeader {
            time: AgreedTime::ZERO,
            seed: 0,
            count: 1,
            border: false,
            base: None,
            ruling: None,
        };
        Some(SystemCommand::Back(members).batch(header))
    }

    /// This batch was decided in this slot. [visigoth L47]
    pub(super) fn decided(&mut self, slot: Slot, batch: &Batch, core: &mut Core) {
        if core.gathers_after().is_none() {
            return;
        }
        if let Some(SystemCommand::Back(members)) = SystemCommand::of(batch) {
            self.counted.decided(&members, core.config.me);
            self.rounds.end();
            let named: Vec<ReplicaId> = members.iter().map(|(id, _)| *id).collect();
            core.granted.end_without(&named, slot);
        }
    }
}

impl Core {
    /// Whether this batch says who counts, and so ends the small quorums of before.
    pub(super) fn says_who_counts(&self, batch: &Batch) -> bool {
        self.gathers_after().is_some() && matches!(SystemCommand::of(batch), Some(SystemCommand::Back(_)))
    }

    /// T, where small quorums are gathered without an oracle.
    pub(super) fn gathers_after(&self) -> Option<Span> {
        self.slow_after().filter(|_| !self.config.oracle)
    }
}
