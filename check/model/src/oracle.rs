//! The oracle: the real register and the real rule (`quorate_order::visigoth::Register`), from a state and back.

use crate::bounds::{Bounds, Plant, VIEWS};
use crate::explore::Mixed;
use crate::state::Sets;
use quorate_order::visigoth::{Grant, Register};
use quorate_types::{ReplicaId, Trust, View};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// What the register holds: its floor, and of each view which sets.
pub(crate) type Held = (u8, [u16; VIEWS]);

/// What became of a register, by what it held, the view, the set, and the view in which something was decided.
type Known = HashMap<(Held, u8, u8, u8), Option<Held>, BuildHasherDefault<Mixed>>;

/// Which grants the oracle makes, with the answers that it gave.
#[derive(Debug)]
pub(crate) struct Oracle {
    trust: Trust,
    plant: Option<Plant>,
    sets: Sets,
    voters: Vec<ReplicaId>,
    known: RefCell<Known>,
}

impl Oracle {
    pub(crate) fn new(bounds: &Bounds, sets: Sets) -> Self {
        let Bounds { trust, plant, .. } = *bounds;
        let voters = (0..bounds.members()).map(|member| ReplicaId::new(member as u16)).collect();
        Self { trust, plant, sets, voters, known: RefCell::default() }
    }

    /// What the register holds after this set is granted for this view, if it is. `decided`: the view in which something was decided.
    pub(crate) fn with(&self, held: Held, view: usize, set: usize, decided: u8) -> Option<Held> {
        let key = (held, view as u8, set as u8, decided);
        if let Some(after) = self.known.borrow().get(&key) {
            return *after;
        }
        let after = self.swapped(held, view, set, decided);
        self.known.borrow_mut().insert(key, after);
        after
    }

    fn swapped(&self, held: Held, view: usize, set: usize, decided: u8) -> Option<Held> {
        match self.plant {
            Some(Plant::GrantsUnmet) => self.unmet(held, view, set, decided),
            Some(Plant::GrantsPerView) => {
                let (floor, kept) = self.real((0, only(held.1, view)), view, set, 0, self.trust)?;
                Some((floor, std::array::from_fn(|at| held.1[at] | kept[at])))
            }
            Some(Plant::FloorOfAsker) => self.real(held, view, set, view as u8, self.trust),
            Some(Plant::RegisterUnread) => self.real(Held::default(), view, set, decided, self.trust),
            Some(Plant::SharedByLiars) => self.real(held, view, set, decided, as_if_nobody_lies(self.trust)),
            _ => self.real(held, view, set, decided, self.trust),
        }
    }

    /// The rule without L6.
    fn unmet(&self, held: Held, view: usize, set: usize, decided: u8) -> Option<Held> {
        let floor = held.0.max(decided);
        let mut kept: [u16; VIEWS] =
            std::array::from_fn(|at| if at + 1 < floor.into() { 0 } else { held.1[at] });
        let latest = kept.iter().rposition(|sets| *sets != 0).map_or(0, |at| at + 1);
        if view < latest.max(floor.into()) {
            return None;
        }
        kept[view - 1] |= 1 << set;
        Some((floor, kept))
    }

    /// The real register after the real rule.
    fn real(&self, held: Held, view: usize, set: usize, decided: u8, trust: Trust) -> Option<Held> {
        let register = self.register(held, trust);
        let next = register.with(self.grant(view, set), view_of(decided.into()), &self.voters, trust).ok()?;
        assert_eq!(Register::decode(next.encode(), &self.voters, trust), Ok(next.clone()), "it is believed");
        let mut kept = [0; VIEWS];
        for grant in next.binding() {
            let bits = grant.set.iter().map(|id| 1u8 << id.number()).sum();
            let at = self.sets.all().iter().position(|set| *set == bits).expect("sets of one size");
            kept[grant.view.number() as usize - 1] |= 1 << at;
        }
        Some((next.floor().number() as u8, kept))
    }

    /// The register that holds this. Sets of one view come in any order: the rule does not depend on it.
    fn register(&self, (floor, kept): Held, trust: Trust) -> Register {
        let mut register = Register::default();
        for (view, set) in self.held(&kept) {
            let next = register.with(self.grant(view, set), view_of(floor.into()), &self.voters, trust);
            register = next.expect("the register holds what was granted");
        }
        register
    }

    fn held(&self, kept: &[u16; VIEWS]) -> impl Iterator<Item = (usize, usize)> {
        let all = self.sets.all().len();
        let kept = *kept;
        (1..=VIEWS).flat_map(move |view| {
            (0..all).filter(move |set| kept[view - 1] & 1 << set != 0).map(move |set| (view, set))
        })
    }

    fn grant(&self, view: usize, set: usize) -> Grant {
        let set = self.sets.all()[set];
        let members = self.voters.iter().copied().filter(|id| set & 1 << id.number() != 0);
        Grant { view: view_of(view), set: members.collect() }
    }
}

pub(crate) fn view_of(view: usize) -> View {
    View::new(view as u64)
}

/// The same numbers of quorums, but one member's word is enough.
pub(crate) fn as_if_nobody_lies(trust: Trust) -> Trust {
    let slow = trust.members() - trust.agreement();
    Trust::new(trust.members(), trust.faults(), slow, 0).expect("fewer lies need fewer members")
}

fn only(kept: [u16; VIEWS], view: usize) -> [u16; VIEWS] {
    std::array::from_fn(|at| if at + 1 == view { kept[at] } else { 0 })
}
