//! Gathering in time: whether the oracle may refuse those that are there for ever.
//!
//! A leader asks once votes are due. Of those that did not answer by then all have stopped, but for s. So every later set of those that are
//! there meets the granted one, as long as no more than u are faulty (docs/protocols/visigoth.md L11, L15). Members stop at any moment,
//! after they answered one leader and not the next one too; they come back; each view has any leader. The register is the real one.
//!
//! A member that lies may lead, and ask although all others are there. Then only statements help: each honest member of the set found the
//! missing ones silent as well. Without them, or with a timer that is too short, u faults are enough to stop everything for ever.

use crate::bounds::Bounds;
use crate::explore::World;
use crate::oracle::Oracle;
use crate::state::Sets;
use std::fmt;

/// What is true at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gathered {
    /// Who has stopped, as bits.
    pub stopped: u8,
    /// Who ever stopped; restarted members count as faulty, too.
    pub faulty: u8,
    /// The view.
    pub view: u8,
    /// Of each view the sets that were granted.
    pub granted: [u16; 3],
}

/// What happens.
#[derive(Clone, Copy, Debug)]
pub enum Happens {
    /// A member stops.
    Stop(usize),
    /// A member comes back.
    Restart(usize),
    /// A set answered somebody in time, and is granted for a view.
    Grant(u8, u8),
    /// A view begins.
    View(u8),
}

impl fmt::Display for Happens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stop(member) => write!(f, "{member} stops"),
            Self::Restart(member) => write!(f, "{member} is back"),
            Self::View(view) => write!(f, "view {view}"),
            Self::Grant(set, view) => {
                f.write_str("granted:")?;
                (0..8).filter(|at| set & 1 << at != 0).try_for_each(|at| write!(f, " {at}"))?;
                write!(f, " in view {view}")
            }
        }
    }
}

/// Members that stop and come back, and leaders that gather.
#[derive(Debug)]
pub struct Gathering {
    bounds: Bounds,
    sets: Sets,
    oracle: Oracle,
    /// Whether leaders ask only once answers were due.
    in_time: bool,
}

impl Gathering {
    /// The search for these bounds. `in_time`: leaders ask only once answers were due, and honest members state that they saw it so.
    /// Otherwise they ask for any set at any time.
    pub fn new(bounds: Bounds, in_time: bool) -> Self {
        let sets = Sets::new(bounds.members(), bounds.trust.smallest());
        let oracle = Oracle::new(&bounds, sets.clone());
        Self { bounds, sets, oracle, in_time }
    }

    fn all(&self) -> u8 {
        (0..self.bounds.members()).fold(0, |set, member| set | 1 << member)
    }

    fn liars(&self) -> u8 {
        self.bounds.liar.map_or(0, |liar| 1 << liar)
    }

    /// How many correct members may be slow.
    fn slow(&self) -> u32 {
        self.bounds.trust.members() - self.bounds.trust.agreement()
    }

    /// Whether these may be all that answered in time: of the others no more than s are neither stopped nor liars.
    fn may_answer(&self, state: &Gathered, set: u8) -> bool {
        let silent = self.all() & !set & !state.stopped & !self.liars();
        !self.in_time || silent.count_ones() <= self.slow()
    }
}

impl World for Gathering {
    type State = Gathered;
    type Step = Happens;

    fn first(&self) -> Gathered {
        Gathered { faulty: self.liars(), view: 1, ..Gathered::default() }
    }

    fn next(&self, state: &Gathered, out: &mut Vec<(Happens, Gathered)>) {
        for member in self.bounds.honest() {
            let (bit, mut next) = (1u8 << member, *state);
            if state.stopped & bit != 0 {
                next.stopped &= !bit;
                out.push((Happens::Restart(member), next));
            } else if (state.faulty | bit).count_ones() <= self.bounds.trust.faults() {
                next.stopped |= bit;
                next.faulty |= bit;
                out.push((Happens::Stop(member), next));
            }
        }
        if usize::from(state.view) < self.bounds.views() {
            out.push((Happens::View(state.view + 1), Gathered { view: state.view + 1, ..*state }));
        }
        let view = usize::from(state.view);
        for (at, set) in self.sets.all().iter().enumerate() {
            let new = state.granted[view - 1] & 1 << at == 0 && self.may_answer(state, *set);
            if new && self.oracle.with((0, state.granted), view, at, 0).is_some() {
                let mut next = *state;
                next.granted[view - 1] |= 1 << at;
                out.push((Happens::Grant(*set, state.view), next));
            }
        }
    }

    fn canonical(&self, state: Gathered) -> Gathered {
        state
    }

    /// Those that are there, liars aside, are neither the usual quorum nor could they be granted.
    fn wrong(&self, state: &Gathered) -> Option<String> {
        let there = self.all() & !state.stopped & !self.liars();
        if there.count_ones() >= self.bounds.trust.agreement() {
            return None;
        }
        let known = state.granted[usize::from(state.view) - 1];
        let may = self.sets.all().iter().enumerate().any(|(at, set)| {
            let again = known & 1 << at != 0;
            *set & !there == 0
                && (again || self.oracle.with((0, state.granted), state.view.into(), at, 0).is_some())
        });
        (!may).then(|| format!("members {there:#b} are there, and are refused for ever"))
    }
}
