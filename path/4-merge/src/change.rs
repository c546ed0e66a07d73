//! Another number of instances. docs/protocols/merge.md L3, L4.
//!
//! A command changes it; its generation ends with the slot `window` after the command's own, in all instances. Nobody has proposed
//! anything behind that border before it knows of it, since no leader proposes more than a window ahead of what its replica executed.
//! One change at a time: the next may begin when the border is behind (INV-MERGE-4).
//! Tests: tests/merge/changes.rs.

use crate::generation::{Generation, INSTANCES_MAX, Position, SLOT_MAX};
use crate::local::{Local, RecordIndex, Stay};
use crate::merge::Merge;
use crate::refused::Refused;
use quorate_types::{InstanceId, Seq, Slot};

impl<T> Merge<T> {
    /// The batch that was taken last holds a command for another number of instances. All replicas come to the same answer. Instances
    /// that the new generation adds exist from now on.
    ///
    /// # Errors
    /// When it is no such number, or another change is under way; nothing changed then. [`Refused::AcrossBorder`] alone means that what
    /// was decided can not be trusted.
    pub fn change(&mut self, instances: u16) -> Result<Generation, Refused> {
        let begun = self.executing.ok_or(Refused::NoCommand)?;
        if !(1..=INSTANCES_MAX).contains(&instances) {
            return Err(Refused::Instances);
        }
        // The last batch before a border is executed when the cursor is behind it.
        if self.next.is_some() || begun.slot < self.generation.first {
            return Err(Refused::ChangeUnderWay);
        }
        if instances == self.generation.instances {
            return Err(Refused::NothingChanges);
        }
        let border = begun.slot.number().saturating_add(self.config.window);
        let next = self.generation.after(border, instances).filter(|_| border < SLOT_MAX);
        let next = next.ok_or(Refused::NoSuchSlot)?;
        let (old, new) = (usize::from(self.generation.instances), usize::from(instances));
        if self.locals[..old].iter().take(new).any(|local| local.crosses(border)) {
            return Err(Refused::AcrossBorder);
        }
        for local in self.locals.iter_mut().take(old).skip(new) {
            local.leave(border)?;
        }
        self.next = Some(next);
        self.forget_reads_behind(border);
        for at in old..new {
            self.bring_in(at, border);
        }
        // It would wait for ever where nobody has anything to say.
        self.want(Position::new(border, self.generation.instances), false);
        Ok(next)
    }

    fn bring_in(&mut self, at: usize, border: u64) {
        if at == self.locals.len() {
            self.locals.push(Local::new(0, border, Stay::Here));
            return;
        }
        for slot in self.locals[at].come_back(border) {
            self.want(Position::at(slot, at), false);
        }
    }

    /// The host begins this instance anew, behind the last record that was delivered of it: what it said later, in an earlier stay, stood
    /// for no slot, and what it says from now on is counted from there.
    pub fn renew(&mut self, instance: InstanceId) {
        let Ok(at) = self.index(instance) else { return };
        let local = &mut self.locals[at];
        let waited = local.waited;
        *local = Local::new(local.record, local.base, local.stay);
        local.waited = waited;
    }

    /// The last record of an instance that was delivered whole and stood for a slot: where it goes on, or comes back.
    pub fn delivered_record(&self, instance: InstanceId) -> Option<RecordIndex> {
        self.index(instance).ok().map(|at| RecordIndex(self.locals[at].record))
    }

    /// Whether an instance takes part, or will when its generation begins, and nothing is known of an end.
    pub fn stays(&self, instance: InstanceId) -> bool {
        self.index(instance).is_ok_and(|at| self.locals[at].stay == Stay::Here)
    }

    /// Whether an instance takes no part: a change left it out, and its border is behind.
    pub fn is_away(&self, instance: InstanceId) -> bool {
        self.index(instance).is_ok_and(|at| self.locals[at].stay == Stay::Away)
    }

    /// Whether the merge can wait for more of an instance now: it takes part, and has not said all that it is to say.
    pub fn expects(&self, instance: InstanceId) -> bool {
        self.index(instance).is_ok_and(|at| {
            let local = &self.locals[at];
            let present = at < usize::from(self.generation.instances);
            present && !matches!(local.stay, Stay::Leaves(border) if local.placed >= border)
        })
    }

    /// The place with this seq, if its generation is still known. [merge L2]
    pub fn position(&self, seq: Seq) -> Option<Position> {
        let mut all = self.past.iter().chain([&self.generation]).chain(&self.next);
        all.rfind(|generation| generation.base < seq)?.position(seq)
    }

    /// The seq of this place, if its generation is still known and has it.
    pub fn seq_of(&self, position: Position) -> Option<Seq> {
        let mut all = self.past.iter().chain([&self.generation]).chain(&self.next);
        all.rfind(|generation| generation.first <= position.slot)?.seq(position)
    }

    /// Forgets generations that end at or before this seq: a checkpoint holds everything up to there.
    pub fn trim(&mut self, seq: Seq) {
        let ended = |at: usize| self.past.get(at + 1).unwrap_or(&self.generation).base <= seq;
        let count = (0..self.past.len()).take_while(|at| ended(*at)).count();
        self.past.drain(..count);
    }

    /// Whether a replica may vote for, or append, slot `slot`: it executed the global log up to a window before. [merge L13]
    pub fn is_within_window(&self, slot: Slot) -> bool {
        slot.number() <= self.delivered().number().saturating_add(self.config.window)
    }
}
