//! What may happen, in words.

use std::fmt;

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A member enters a view, and states that it decided up to this slot.
    Enter {
        /// Who.
        member: usize,
        /// Which view.
        view: usize,
        /// The last slot that it decided.
        decided: u8,
    },
    /// A member states again what it knows, since it decided more.
    Restate {
        /// Who.
        member: usize,
        /// Which view.
        view: usize,
        /// The last slot that it decided.
        decided: u8,
    },
    /// A leader begins its view and proposes.
    Begin {
        /// Who.
        member: usize,
        /// Which view.
        view: usize,
        /// The first slot.
        slot: usize,
        /// What it proposes there.
        value: u8,
        /// Whether it had to.
        bound: bool,
    },
    /// A leader proposes for a later slot.
    Propose {
        /// Who.
        member: usize,
        /// Which view.
        view: usize,
        /// Which slot.
        slot: usize,
        /// What.
        value: u8,
    },
    /// A member writes a value; where nobody lies it locks and accepts it at once.
    Write {
        /// Who.
        member: usize,
        /// Which view.
        view: usize,
        /// Which slot.
        slot: usize,
        /// What.
        value: u8,
    },
    /// A member locks the value that it wrote, and accepts it.
    Lock {
        /// Who.
        member: usize,
        /// Which view.
        view: usize,
        /// Which slot.
        slot: usize,
        /// What.
        value: u8,
    },
    /// The oracle grants a set that a leader asked for.
    Grant {
        /// Who.
        member: usize,
        /// Which view.
        view: usize,
        /// The members, as bits.
        set: u8,
        /// The view up to which the floor rises.
        floor: usize,
    },
    /// A member restarts.
    Restart {
        /// Who.
        member: usize,
    },
}

/// A value as it is printed.
fn named(value: u8) -> char {
    char::from(b'w' + value)
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Enter { member, view, decided } => {
                write!(f, "{member} enters view {view} and states that it decided up to slot {decided}")
            }
            Self::Restate { member, view, decided } => {
                write!(f, "{member} states in view {view} that it decided up to slot {decided}")
            }
            Self::Begin { member, view, slot, value, bound } => {
                let how = if bound { "must" } else { "is free to" };
                write!(f, "{member} begins view {view}: it {how} propose {} for slot {slot}", named(value))
            }
            Self::Propose { member, view, slot, value } => {
                write!(f, "{member} proposes {} for slot {slot} in view {view}", named(value))
            }
            Self::Write { member, view, slot, value } => {
                write!(f, "{member} votes for {} for slot {slot} in view {view}", named(value))
            }
            Self::Lock { member, view, slot, value } => {
                write!(f, "{member} locks {} for slot {slot} in view {view}", named(value))
            }
            Self::Grant { member, view, set, floor } => {
                write!(f, "{member} asks for")?;
                (0..8).filter(|at| set & 1 << at != 0).try_for_each(|at| write!(f, " {at}"))?;
                write!(f, " in view {view}, and is granted; the floor is {floor}")
            }
            Self::Restart { member } => write!(f, "{member} restarts"),
        }
    }
}
