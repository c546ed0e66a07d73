//! What is true at a time: what each member did and said, what leaders proposed, what the oracle granted.
//!
//! Messages are not kept: whatever was said may arrive later or never, so who acts chooses which of it arrived. Views, slots and values
//! count from 1; 0 is none.

use crate::bounds::{MEMBERS, SLOTS, VIEWS};
use std::hash::{Hash, Hasher};

/// A value for each view and slot, two bits each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Values(u16);

impl Values {
    const fn shift(view: usize, slot: usize) -> usize {
        ((view - 1) * SLOTS + slot - 1) * 2
    }
    /// The value in this view and slot; 0 is none.
    pub const fn get(self, view: usize, slot: usize) -> u8 {
        (self.0 >> Self::shift(view, slot)) as u8 & 3
    }
    pub(crate) const fn set(&mut self, view: usize, slot: usize, value: u8) {
        let shift = Self::shift(view, slot);
        self.0 = self.0 & !(3 << shift) | (value as u16) << shift;
    }
    pub(crate) fn swapped(mut self, slot: usize) -> Self {
        for view in 1..=VIEWS {
            let value = self.get(view, slot);
            self.set(view, slot, [0, 2, 1, 3][usize::from(value)]);
        }
        self
    }
}

/// What an honest member did, all of it durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    /// Its view.
    pub view: u8,
    /// What it wrote.
    pub wrote: Values,
    /// What it locked and accepted.
    pub locked: Values,
    /// The slot up to which others can see that it decided: it voted on the next one, or said so. It may have decided more.
    pub knows: u8,
    /// What it stated when it entered each view after the first: one more than the slot up to which it had decided; 0 for nothing.
    pub said: [u8; VIEWS],
}

impl Member {
    /// Nothing happens in this view any more. Forgets what shows in no statement: votes on slots that it decided, all locks in a slot but the
    /// last one, and when it wrote a value for the first time.
    pub(crate) fn leave(&mut self, over: usize) {
        self.said[over - 1] = 0;
        if usize::from(self.view) == over {
            self.view = 0;
        }
        for (view, slot) in (1..=over).flat_map(|view| (1..=SLOTS).map(move |slot| (view, slot))) {
            let known = slot <= self.knows.into();
            let again =
                |votes: Values, value: u8| (view + 1..=over).any(|later| votes.get(later, slot) == value);
            let locked = (1..4).any(|value| again(self.locked, value));
            if known || locked {
                self.locked.set(view, slot, 0);
            }
            if known || again(self.wrote, self.wrote.get(view, slot)) {
                self.wrote.set(view, slot, 0);
            }
        }
    }
}

/// What is true at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct State {
    /// The members; of a liar nothing is kept.
    pub members: [Member; MEMBERS],
    /// What honest leaders proposed, or are bound to.
    pub proposed: Values,
    /// How honest leaders began their views: one more than the last slot that was shown to be decided.
    pub began: [u8; VIEWS],
    /// The floor of the register.
    pub floor: u8,
    /// Of each view the sets that the register holds, one bit for each set.
    pub kept: [u16; VIEWS],
    /// Of each view the sets that were ever granted.
    pub granted: [u16; VIEWS],
    /// The views whose leaders restarted in them, one bit for each.
    pub resigned: u8,
    /// How many restarts may still come.
    pub restarts: u8,
    /// What was decided in views that are over, one bit for each value.
    pub over: [[u8; SLOTS]; VIEWS],
    /// Where views come one after the other, the one in which something happens; 0 where they may overlap.
    pub phase: u8,
}

impl Hash for State {
    fn hash<H: Hasher>(&self, to: &mut H) {
        for Member { view, wrote, locked, knows, said } in &self.members {
            let small = [*view, *knows].iter().chain(said).fold(0, |all, field| all << 3 | u64::from(*field));
            to.write_u64(small << 32 | u64::from(wrote.0) << 16 | u64::from(locked.0));
        }
        let sets = |sets: &[u16; VIEWS]| sets.iter().fold(0, |all, sets| all << 16 | u64::from(*sets));
        to.write_u64(sets(&self.kept) << 8 | u64::from(self.phase << 4 | self.floor));
        to.write_u64(sets(&self.granted) << 8 | u64::from(self.resigned));
        let began =
            self.began.iter().fold(u64::from(self.restarts), |all, began| all << 8 | u64::from(*began));
        to.write_u64(began << 16 | u64::from(self.proposed.0));
        to.write_u64(self.over.iter().flatten().fold(0, |all, values| all << 8 | u64::from(*values)));
    }
}

/// The sets of members that may be small quorums, as bits for members.
#[derive(Clone, Debug)]
pub struct Sets(Vec<u8>);

impl Sets {
    /// All sets of so many of these members.
    ///
    /// # Panics
    /// When there are more than 16: a state has no room for them.
    pub fn new(members: usize, size: u32) -> Self {
        let all: Vec<u8> = (0u8..1 << members).filter(|set| set.count_ones() == size).collect();
        assert!(all.len() <= 16, "{} sets of {size} of {members} members", all.len());
        Self(all)
    }
    /// The sets, by their bit in a state.
    pub fn all(&self) -> &[u8] {
        &self.0
    }
    /// Those whose bits are there.
    pub fn of(&self, bits: u16) -> impl Iterator<Item = u8> + '_ {
        self.0.iter().enumerate().filter(move |(at, _)| bits & 1 << at != 0).map(|(_, set)| *set)
    }
    /// The same sets with two members in each other's place.
    pub(crate) fn exchanged(&self, bits: u16, one: usize, other: usize) -> u16 {
        let exchange = |set: u8| {
            let differ = (set >> one ^ set >> other) & 1;
            set ^ (differ << one | differ << other)
        };
        let place = |set: u8| self.0.iter().position(|other| *other == set).expect("sets of one size");
        self.of(bits).map(|set| 1 << place(exchange(set))).sum()
    }
}
