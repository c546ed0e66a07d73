//! Breadth-first search through all states of a world, with the shortest history to a wrong one.
//!
//! States are kept whole, not as hashes alone: no state is taken for another one. Tests: tests/all/explore.rs.

use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

/// Something with states, steps between them, and states that must not be.
pub trait World {
    /// What is true at a time.
    type State: Copy + Eq + Hash + fmt::Debug;
    /// What happens.
    type Step: fmt::Display;

    /// Where it begins.
    fn first(&self) -> Self::State;
    /// All that may happen next, and what is true then.
    fn next(&self, state: &Self::State, out: &mut Vec<(Self::Step, Self::State)>);
    /// The one state that stands for all that differ by names only.
    fn canonical(&self, state: Self::State) -> Self::State;
    /// What is wrong with this state.
    fn wrong(&self, state: &Self::State) -> Option<String>;
}

/// What a search found that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explored {
    /// How many states there are, those that differ by names only counted once.
    pub states: usize,
    /// How many steps the longest of the shortest histories has.
    pub steps: usize,
}

/// Why a search ended before all states were seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// A state is wrong: what is wrong, and the shortest history to it, one line for each step.
    Wrong {
        /// What is wrong.
        what: String,
        /// What happened, in order.
        history: Vec<String>,
    },
    /// There are more states than this.
    TooMany(usize),
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong { what, history } => {
                writeln!(f, "{what}, after {} steps:", history.len())?;
                history.iter().enumerate().try_for_each(|(at, step)| writeln!(f, "{:4}  {step}", at + 1))
            }
            Self::TooMany(most) => write!(f, "there are more than {most} states: lower the bounds"),
        }
    }
}

/// Goes through all states, and looks at each of them once. `look` sees each one as well.
///
/// # Errors
/// When a state is wrong, or there are more than `most` states.
pub fn explore<W: World>(
    world: &W,
    most: usize,
    mut look: impl FnMut(&W::State),
) -> Result<Explored, Stopped> {
    let mut seen = Seen::new();
    let first = world.canonical(world.first());
    seen.insert(first, u32::MAX);
    if let Some(what) = world.wrong(&first) {
        return Err(Stopped::Wrong { what, history: Vec::new() });
    }
    look(&first);
    let (mut at, mut steps, mut ends, mut next) = (0, 0, 1, Vec::new());
    while at < seen.states.len() {
        if at == ends {
            (steps, ends) = (steps + 1, seen.states.len());
        }
        let state = seen.states[at];
        next.clear();
        world.next(&state, &mut next);
        for (_, after) in &next {
            let after = world.canonical(*after);
            if !seen.insert(after, at as u32) {
                continue;
            }
            if let Some(what) = world.wrong(&after) {
                return Err(Stopped::Wrong { what, history: history(world, &seen) });
            }
            look(&after);
            if seen.states.len() > most {
                return Err(Stopped::TooMany(most));
            }
        }
        at += 1;
    }
    Ok(Explored { states: seen.states.len(), steps })
}

/// How the last state came to be. The names of members are the same in all steps.
fn history<W: World>(world: &W, seen: &Seen<W::State>) -> Vec<String> {
    let mut path = vec![seen.states.len() - 1];
    while let Some(&at) = path.last()
        && seen.before[at] != u32::MAX
    {
        path.push(seen.before[at] as usize);
    }
    let (mut state, mut lines, mut next) = (world.first(), Vec::new(), Vec::new());
    for at in path.iter().rev().skip(1) {
        next.clear();
        world.next(&state, &mut next);
        let step = next.drain(..).find(|(_, after)| world.canonical(*after) == seen.states[*at]);
        let (step, after) = step.expect("a state follows the one before it, whatever the names");
        lines.push(step.to_string());
        state = after;
    }
    lines
}

/// The states that were seen, each with the one before it, and where to find them.
struct Seen<S> {
    states: Vec<S>,
    before: Vec<u32>,
    /// Places in `states` in the lower half, by hash, with a part of the hash in the upper half; `EMPTY` is none.
    table: Vec<u64>,
}

const EMPTY: u64 = u64::MAX;

impl<S: Copy + Eq + Hash> Seen<S> {
    fn new() -> Self {
        Self { states: Vec::new(), before: Vec::new(), table: vec![EMPTY; 1 << 12] }
    }

    /// Adds a state, unless it is there. Returns whether it was added.
    fn insert(&mut self, state: S, before: u32) -> bool {
        let hash = BuildHasherDefault::<Mixed>::default().hash_one(state);
        let mask = self.table.len() - 1;
        let mut place = hash as usize & mask;
        while self.table[place] != EMPTY {
            let (tag, at) = (self.table[place] >> 32, self.table[place] as u32 as usize);
            if tag == hash >> 32 && self.states[at] == state {
                return false;
            }
            place = (place + 1) & mask;
        }
        self.table[place] = hash >> 32 << 32 | self.states.len() as u64;
        self.states.push(state);
        self.before.push(before);
        if self.states.len() * 3 > self.table.len() * 2 {
            self.grow();
        }
        true
    }

    fn grow(&mut self) {
        self.table = vec![EMPTY; self.table.len() * 2];
        let mask = self.table.len() - 1;
        for (at, state) in self.states.iter().enumerate() {
            let hash = BuildHasherDefault::<Mixed>::default().hash_one(state);
            let mut place = hash as usize & mask;
            while self.table[place] != EMPTY {
                place = (place + 1) & mask;
            }
            self.table[place] = hash >> 32 << 32 | at as u64;
        }
    }
}

/// A quick hash for short keys that nobody chose to make them collide.
#[derive(Default)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 32)
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut eight = [0; 8];
            eight[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(eight));
        }
    }
    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }
    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
        self.write_u64((value >> 64) as u64);
    }
}
