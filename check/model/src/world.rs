//! Which steps there are, and what must never be.
//!
//! The labels are lines of docs/protocols/mod_smart.md and docs/protocols/visigoth.md. Where the model differs from them it allows more: a
//! view may be entered at any time, without STOPs; a leader asks for any set of the smallest size, answered or not, also after it left its
//! view, and knows of every decision; whoever votes knows of every grant. What a member decided is kept only where others can see it.

use crate::binding::{Beginning, Beginnings, Rule, Said, Statements};
use crate::bounds::{Bounds, MEMBERS, Plant, SLOTS, VIEWS};
use crate::explore::World;
use crate::oracle::Oracle;
use crate::state::{Sets, State};
use crate::step::Step;
use quorate_order::modelling::Binding;

type Next = Vec<(Step, State)>;

/// One instance under the Visigoth model, within bounds.
#[derive(Debug)]
pub struct Visigoth {
    bounds: Bounds,
    sets: Sets,
    oracle: Oracle,
    rule: Rule,
    /// The orders of members that nothing tells apart, each as exchanges of two of them.
    orders: Vec<Vec<(usize, usize)>>,
}

/// Which values are decided in each view and slot, one bit for each.
type Decided = [[u8; SLOTS]; VIEWS];

impl Visigoth {
    /// The world within these bounds.
    ///
    /// # Panics
    /// When the bounds are beyond what a state has room for.
    pub fn new(bounds: Bounds) -> Self {
        assert!(
            bounds.members() <= MEMBERS && bounds.views() <= VIEWS && bounds.slots <= SLOTS,
            "{bounds:?}"
        );
        let sets = Sets::new(bounds.members(), bounds.trust.smallest());
        let alike: Vec<usize> = bounds.honest().filter(|member| !bounds.leaders.contains(member)).collect();
        let orders = match alike[..] {
            [a, b] => vec![vec![], vec![(a, b)]],
            [a, b, c] => {
                let once = [(a, b), (a, c), (b, c)];
                let twice = [vec![(a, b), (b, c)], vec![(a, b), (a, c)]];
                std::iter::once(vec![]).chain(once.map(|pair| vec![pair])).chain(twice).collect()
            }
            _ => vec![vec![]],
        };
        let (oracle, rule) = (Oracle::new(&bounds, sets.clone()), Rule::new(&bounds, sets.clone()));
        Self { bounds, sets, oracle, rule, orders }
    }

    /// Whether these members are a quorum of this view.
    fn holds(&self, state: &State, view: usize, set: u8) -> bool {
        let count = set.count_ones();
        count >= self.bounds.trust.agreement()
            || (self.bounds.has(Plant::SmallUngranted) && count >= self.bounds.trust.smallest())
            || self.sets.of(state.granted[view - 1]).any(|small| small & !set == 0)
    }

    /// The liar, as a set.
    fn liars(&self) -> u8 {
        self.bounds.liar.map_or(0, |liar| 1 << liar)
    }

    /// Who accepted this, and the liar.
    fn accepted(&self, state: &State, view: usize, slot: usize, value: u8) -> u8 {
        let accepted = |member: &usize| state.members[*member].locked.get(view, slot) == value;
        self.bounds.honest().filter(accepted).fold(self.liars(), |set, member| set | 1 << member)
    }

    /// What is decided in each view, whether or not somebody knows it. [mod_smart L22]
    fn decided(&self, state: &State) -> Decided {
        let mut decided = [[0; SLOTS]; VIEWS];
        for view in 1..=self.bounds.views() {
            decided[view - 1] = state.over[view - 1];
            if self.is_over(state, view) {
                continue;
            }
            for slot in 1..=self.bounds.slots {
                let values = (1..4).filter(|value| {
                    let set = self.accepted(state, view, slot, *value);
                    set != self.liars() && self.holds(state, view, set)
                });
                values.for_each(|value| decided[view - 1][slot - 1] |= 1 << value);
            }
        }
        decided
    }

    /// The last slot up to which everything is decided in some view.
    fn last(&self, decided: &Decided) -> u8 {
        let is_decided = |slot: &usize| decided.iter().any(|view| view[*slot - 1] != 0);
        (1..=self.bounds.slots).take_while(is_decided).count() as u8
    }

    /// Which values these decisions of a slot are, one bit for each.
    pub fn values(&self, state: &State, slot: usize) -> u8 {
        self.decided(state).iter().fold(0, |all, view| all | view[slot - 1])
    }

    /// What an honest member says of the slot after `decided`, on entering this view: it does not vote in earlier views any more.
    /// [mod_smart L45]
    fn says(&self, state: &State, member: usize, view: usize, decided: u8) -> Said {
        let (slot, it) = (usize::from(decided) + 1, &state.members[member]);
        let mut said = Said { decided, ..Said::default() };
        if slot > self.bounds.slots {
            return said;
        }
        for before in 1..view {
            if let value @ 1.. = it.wrote.get(before, slot) {
                said.wrote[usize::from(value) - 1] = before as u8;
            }
            if let value @ 1.. = it.locked.get(before, slot) {
                said.lock = (before as u8, value);
            }
        }
        said
    }

    fn statements(&self, state: &State, view: usize) -> Statements {
        let mut statements = [None; MEMBERS];
        for member in self.bounds.honest() {
            if let said @ 1.. = state.members[member].said[view - 1] {
                statements[member] = Some(self.says(state, member, view, said - 1));
            }
        }
        statements
    }

    fn beginnings(&self, state: &State, view: usize, last: u8) -> Beginnings {
        if view == 1 {
            return [1, 0];
        }
        let at = Beginning { view, granted: state.granted[view - 1], proven: last };
        self.rule.beginnings(&self.statements(state, view), at)
    }

    /// The values that a leader may choose where it is free.
    fn free(&self, view: usize) -> std::ops::RangeInclusive<u8> {
        match self.bounds.values {
            1 => view as u8..=view as u8,
            values => 1..=values,
        }
    }

    /// Where views come one after the other: the state once something happens in this view. Of the views before, only what later ones can
    /// see is kept, so that histories that differ by nothing else are one.
    fn moved(&self, state: &State, view: usize) -> State {
        let mut next = *state;
        while next.phase > 0 && usize::from(next.phase) < view {
            let over = usize::from(next.phase);
            next.over[over - 1] = self.decided(&next)[over - 1];
            (1..=SLOTS).for_each(|slot| next.proposed.set(over, slot, 0));
            (next.began[over - 1], next.granted[over - 1]) = (0, 0);
            next.resigned &= !(1 << over);
            next.phase += 1;
            for member in self.bounds.honest() {
                next.members[member].leave(over);
            }
        }
        next
    }

    /// Whether nothing happens in this view any more.
    fn is_over(&self, state: &State, view: usize) -> bool {
        view < state.phase.into()
    }

    /// Members enter later views, and state what they know. [mod_smart L40, L45, L58]
    fn entering(&self, state: &State, last: u8, out: &mut Next) {
        // Whoever says that all slots are decided says nothing that is searched here.
        let last = last.min(self.bounds.slots as u8 - 1);
        for member in self.bounds.honest() {
            let it = &state.members[member];
            let mut note = |view: usize, decided: u8, step| {
                let mut next = self.moved(state, view);
                let it = &mut next.members[member];
                (it.view, it.knows) = (view as u8, decided);
                it.said[view - 1] = decided + 1;
                out.push((step, next));
            };
            let now = usize::from(it.view);
            for view in (now + 1).max(state.phase.into())..=self.bounds.views() {
                for decided in it.knows..=last.max(it.knows) {
                    note(view, decided, Step::Enter { member, view, decided });
                }
            }
            // Whoever is in a view that is over states nothing for it any more.
            if let Some(said @ 1..) = it.said.get(now.wrapping_sub(1)).copied() {
                for decided in said.max(it.knows)..=last {
                    note(now, decided, Step::Restate { member, view: now, decided });
                }
            }
        }
    }

    /// Honest leaders begin their views and propose, one slot after the other. [mod_smart L10, L46-L57]
    fn leading(&self, state: &State, last: u8, out: &mut Next) {
        for view in 1..=self.bounds.views() {
            let member = self.bounds.leader(view);
            let away = usize::from(state.members[member].view) != view || state.resigned & 1 << view != 0;
            if self.bounds.liar_leads(view) || away || self.is_over(state, view) {
                continue;
            }
            let mut note = |slot: usize, value: u8, bound: bool| {
                let mut next = *state;
                next.proposed.set(view, slot, value);
                let step = match &mut next.began[view - 1] {
                    began @ 0 => {
                        *began = slot as u8;
                        Step::Begin { member, view, slot, value, bound }
                    }
                    _ => Step::Propose { member, view, slot, value },
                };
                out.push((step, next));
            };
            match state.began[view - 1] {
                0 => {
                    let found = self.beginnings(state, view, last);
                    for (slot, bits) in (1..).zip(found) {
                        let values = (bits & 1 != 0).then(|| self.free(view));
                        values.into_iter().flatten().for_each(|value| note(slot, value, false));
                        (1..4)
                            .filter(|value| bits & 1 << value != 0)
                            .for_each(|value| note(slot, value, true));
                    }
                }
                first => {
                    let open = (usize::from(first)..=self.bounds.slots)
                        .find(|slot| state.proposed.get(view, *slot) == 0);
                    if let Some(slot) = open.filter(|slot| *slot <= usize::from(last) + 1) {
                        self.free(view).for_each(|value| note(slot, value, false));
                    }
                }
            }
        }
    }

    /// The values that a member may vote for in a slot of its view. A leader that lies shows each member what it likes. [mod_smart L14]
    fn offered(&self, state: &State, member: usize, slot: usize, last: u8) -> Vec<u8> {
        let it = &state.members[member];
        let view = usize::from(it.view);
        if !self.bounds.liar_leads(view) {
            let proposed = state.proposed.get(view, slot);
            return (proposed > 0).then_some(proposed).into_iter().collect();
        }
        let found = self.beginnings(state, view, last);
        let earlier = (1..slot).any(|slot| it.wrote.get(view, slot) > 0);
        let free = earlier || found[slot - 1] & 1 != 0 || found[..slot - 1].iter().any(|bits| *bits != 0);
        self.free(view).filter(|value| free || found[slot - 1] & 1 << value != 0).collect()
    }

    /// Members vote on the slot after the last that they decided. [mod_smart L14-L19]
    fn voting(&self, state: &State, last: u8, out: &mut Next) {
        let merged = self.bounds.liar.is_none() || self.bounds.has(Plant::LockedUnwritten);
        for member in self.bounds.honest() {
            let it = &state.members[member];
            let view = usize::from(it.view);
            if self.is_over(state, view) {
                continue;
            }
            for slot in usize::from(it.knows) + 1..=self.bounds.slots.min(usize::from(last) + 1) {
                let wrote = it.wrote.get(view, slot);
                if wrote == 0 {
                    for value in self.offered(state, member, slot, last) {
                        let mut next = *state;
                        let it = &mut next.members[member];
                        it.wrote.set(view, slot, value);
                        it.knows = slot as u8 - 1;
                        if merged {
                            it.locked.set(view, slot, value);
                        }
                        out.push((Step::Write { member, view, slot, value }, next));
                    }
                } else if it.locked.get(view, slot) == 0 {
                    let same = |member: &usize| state.members[*member].wrote.get(view, slot) == wrote;
                    let set = self.bounds.honest().filter(same).fold(self.liars(), |set, at| set | 1 << at);
                    if self.holds(state, view, set) {
                        let mut next = *state;
                        next.members[member].locked.set(view, slot, wrote);
                        out.push((Step::Lock { member, view, slot, value: wrote }, next));
                    }
                }
            }
        }
    }

    /// Leaders of views that they entered ask the oracle for small quorums. [visigoth L1-L17]
    fn asking(&self, state: &State, decided: &Decided, out: &mut Next) {
        for view in 1..=self.bounds.views() {
            let (member, lies) = (self.bounds.leader(view), self.bounds.liar_leads(view));
            let away = !lies && view > 1 && state.members[member].said[view - 1] == 0;
            let all = state.granted[view - 1].count_ones() >= self.bounds.grants;
            if away || all || self.is_over(state, view) {
                continue;
            }
            let all = self.sets.all().iter().enumerate();
            let wanted = all.filter(|(_, set)| lies || !self.bounds.own || *set & 1 << member != 0);
            for (at, set) in wanted.filter(|(at, _)| state.granted[view - 1] & 1 << at == 0) {
                let unproven = lies && self.bounds.has(Plant::FloorUnproven);
                let shown = |floor: &usize| unproven || decided[*floor - 1].iter().any(|values| *values != 0);
                let higher = (usize::from(state.floor) + 1..=view).filter(shown);
                for floor in std::iter::once(0).chain(higher) {
                    let held = (state.floor, state.kept);
                    if let Some((floor, kept)) = self.oracle.with(held, view, at, floor as u8) {
                        let mut next = self.moved(state, view);
                        (next.floor, next.kept) = (floor, kept);
                        next.granted[view - 1] |= 1 << at;
                        out.push((Step::Grant { member, view, set: *set, floor: floor.into() }, next));
                    }
                }
            }
        }
    }

    /// A member restarts. It has its votes, its view and what it stated; what it heard may come again. It does not lead its view any more.
    /// [mod_smart L8]
    fn restarting(&self, state: &State, out: &mut Next) {
        if state.restarts == 0 {
            return;
        }
        for member in self.bounds.honest() {
            let mut next = *state;
            let it = &mut next.members[member];
            let view = usize::from(it.view);
            let leads = view > 0 && self.bounds.leader(view) == member;
            if self.bounds.has(Plant::VotesForgotten) {
                // What it sent may be on the way still.
                next.over = self.decided(state);
                let it = &mut next.members[member];
                (it.wrote, it.locked, it.knows) = Default::default();
            }
            if leads && self.bounds.has(Plant::LeadsAgain) {
                next.began[view - 1] = 0;
                (1..=self.bounds.slots).for_each(|slot| next.proposed.set(view, slot, 0));
            } else if leads {
                next.resigned |= 1 << view;
            }
            if next != *state {
                next.restarts -= 1;
                out.push((Step::Restart { member }, next));
            }
        }
    }

    /// Two values are decided in one slot.
    fn disagree(&self, decided: &Decided) -> Option<String> {
        let slots = (1..=self.bounds.slots)
            .map(|slot| (slot, decided.iter().fold(0, |all, view| all | view[slot - 1])));
        let wrong = slots.into_iter().find(|(_, values)| values.count_ones() > 1);
        wrong.map(|(slot, _)| format!("two values are decided in slot {slot}"))
    }

    /// A later view goes on with another value than the one that is decided. Only a view that decided the value itself may have members that
    /// vote for another one: where its leader lies, and nobody needs what earlier views decided any more.
    fn forgets(&self, state: &State, decided: &Decided) -> Option<String> {
        for (view, slot) in
            (1..=self.bounds.views()).flat_map(|v| (1..=self.bounds.slots).map(move |s| (v, s)))
        {
            let values = decided[view - 1][slot - 1];
            let other = |value: u8| value > 0 && values & 1 << value == 0;
            let same = |later: &usize| decided[later - 1][slot - 1] == values;
            for later in (view + 1..=self.bounds.views()).filter(|later| values != 0 && !same(later)) {
                let wrote = |member: usize| other(state.members[member].wrote.get(later, slot));
                if other(state.proposed.get(later, slot)) || self.bounds.honest().any(wrote) {
                    return Some(format!(
                        "view {later} does not adopt what view {view} decided in slot {slot}"
                    ));
                }
            }
        }
        None
    }

    /// The register is not what it must be: INV-VISIGOTH-1, and nothing that binds is lost.
    fn misses(&self, state: &State) -> Option<String> {
        let bind: Vec<u8> = state.kept.iter().flat_map(|sets| self.sets.of(*sets)).collect();
        let miss = |one: &u8| bind.iter().any(|other| (one & other).count_ones() < self.bounds.trust.truth());
        if bind.iter().any(miss) {
            return Some("two small quorums that bind miss each other".to_owned());
        }
        let floor = usize::from(state.floor);
        let lost = (1..=VIEWS)
            .filter(|view| !self.is_over(state, *view))
            .any(|view| state.kept[view - 1] != if view < floor { 0 } else { state.granted[view - 1] });
        lost.then(|| "a small quorum that binds is not in the register".to_owned())
    }

    /// Whether the last view can decide the next slot with these members alone, all of them honest, whatever the liar adds: they enter it,
    /// the oracle grants them if they are few, and its leader begins. `None` if the oracle refuses them, if the last view is under way, or
    /// if nothing is left to decide.
    ///
    /// # Errors
    /// When they are stuck.
    pub fn goes_on(&self, state: &State, alive: u8) -> Option<Result<(), String>> {
        let (view, decided) = (self.bounds.views(), self.decided(state));
        let (leader, last) = (self.bounds.leader(view), self.last(&decided));
        let fresh = state.began[view - 1] == 0 && state.resigned & 1 << view == 0;
        if !fresh || alive & 1 << leader == 0 || usize::from(last) == self.bounds.slots {
            return None;
        }
        let mut next = *state;
        for member in self.bounds.honest().filter(|member| alive & 1 << member != 0) {
            let it = &mut next.members[member];
            (it.view, it.knows, it.said[view - 1]) = (view as u8, last, last + 1);
        }
        if alive.count_ones() < self.bounds.trust.agreement() {
            let at = self.sets.all().iter().position(|set| *set == alive)?;
            let shown = (1..=view).rev().find(|view| decided[view - 1].iter().any(|values| *values != 0));
            let held = (state.floor, state.kept);
            self.oracle.with(held, view, at, shown.unwrap_or(0) as u8)?;
            next.granted[view - 1] |= 1 << at;
        }
        let all = self.statements(&next, view);
        let heard: Vec<(usize, Said)> = (0..MEMBERS)
            .filter(|member| alive & 1 << member != 0)
            .filter_map(|member| all[member].map(|said| (member, said)))
            .collect();
        let at = Beginning { view, granted: next.granted[view - 1], proven: last };
        let lies = self.rule.lies(view);
        let words = std::iter::once(None).chain(lies.iter().copied().map(Some));
        let stuck = |lie: &Option<Said>| self.rule.binding(&heard, *lie, last, at) == Binding::Unsound;
        let found = words.into_iter().find(stuck);
        Some(found.map_or(Ok(()), |lie| Err(format!("members {alive:#b} show too little, with {lie:?}"))))
    }
}

impl World for Visigoth {
    type State = State;
    type Step = Step;

    fn first(&self) -> State {
        let Bounds { restarts, apart, .. } = self.bounds;
        let mut state = State { restarts, phase: u8::from(apart), ..State::default() };
        self.bounds.honest().for_each(|member| state.members[member].view = 1);
        state
    }

    fn next(&self, state: &State, out: &mut Next) {
        let decided = self.decided(state);
        let last = self.last(&decided);
        self.entering(state, last, out);
        self.leading(state, last, out);
        self.voting(state, last, out);
        self.asking(state, &decided, out);
        self.restarting(state, out);
    }

    fn canonical(&self, state: State) -> State {
        let exchanged = |order: &Vec<(usize, usize)>| {
            let mut state = state;
            for (one, other) in order {
                state.members.swap(*one, *other);
                for sets in state.kept.iter_mut().chain(&mut state.granted) {
                    *sets = if *sets == 0 { 0 } else { self.sets.exchanged(*sets, *one, *other) };
                }
            }
            state
        };
        let least = |slot: usize, state: State| {
            let mut other = state;
            other.proposed = other.proposed.swapped(slot);
            for values in other.over.iter_mut().map(|over| &mut over[slot - 1]) {
                *values = *values & 8 | (*values & 2) << 1 | (*values & 4) >> 1;
            }
            for member in &mut other.members {
                (member.wrote, member.locked) = (member.wrote.swapped(slot), member.locked.swapped(slot));
            }
            state.min(other)
        };
        let values = |state: State| match self.bounds.values {
            2 => (1..=self.bounds.slots).fold(state, |state, slot| least(slot, state)),
            _ => state,
        };
        self.orders.iter().map(|order| values(exchanged(order))).min().expect("one order at least")
    }

    fn wrong(&self, state: &State) -> Option<String> {
        let decided = self.decided(state);
        let wrong = self.disagree(&decided);
        // Of a bug the whole history is of interest, up to two decisions.
        if self.bounds.plant.is_some() {
            return wrong;
        }
        wrong.or_else(|| self.forgets(state, &decided)).or_else(|| self.misses(state))
    }
}
