//! What a leader may begin its view with, whatever it heard and whatever a liar says: the real rule
//! (`quorate_order::modelling::binding_of`) for each choice of statements.

use crate::bounds::{Bounds, MEMBERS, Plant, SLOTS, VIEWS};
use crate::explore::Mixed;
use crate::oracle::{as_if_nobody_lies, view_of};
use crate::state::Sets;
use quorate_auth::Signature;
use quorate_order::mod_smart::message::Collect;
use quorate_order::modelling::{self, Binding};
use quorate_types::{Digest, ReplicaId, Slot, Trust};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// Values are 1 to this.
const VALUES: usize = 3;

/// What a member says on entering a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// The last slot that it decided.
    pub(crate) decided: u8,
    /// The view and the value of its lock in the next slot; view 0 is none.
    pub(crate) lock: (u8, u8),
    /// Of each value the last view in which it wrote it in the next slot; 0 is none.
    pub(crate) wrote: [u8; VALUES],
}

/// What each member said for a view; of those that said nothing, and of liars, nothing.
pub(crate) type Statements = [Option<Said>; MEMBERS];

/// Which beginnings of a view there are: of each last slot that is shown to be decided, one bit for each value that may bind the next one;
/// bit 0 if it may be free.
pub(crate) type Beginnings = [u8; SLOTS];

/// Which view is begun, by whom, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    pub(crate) view: usize,
    /// The small quorums of the view.
    pub(crate) granted: u16,
    /// The highest slot of which there is a proof.
    pub(crate) proven: u8,
}

impl Said {
    fn bits(self) -> u128 {
        let fields = [self.decided + 1, self.lock.0, self.lock.1];
        fields.iter().chain(&self.wrote).fold(0, |bits, field| bits << 2 | u128::from(*field))
    }
}

/// The rule, with the answers that it gave.
#[derive(Debug)]
pub(crate) struct Rule {
    bounds: Bounds,
    sets: Sets,
    known: RefCell<HashMap<u128, Beginnings, BuildHasherDefault<Mixed>>>,
}

impl Rule {
    pub(crate) fn new(bounds: &Bounds, sets: Sets) -> Self {
        Self { bounds: bounds.clone(), sets, known: RefCell::default() }
    }

    /// All beginnings of a view that its leader can choose by what it hears, and the liar by what it says. [mod_smart L46-L52]
    pub(crate) fn beginnings(&self, statements: &Statements, at: Beginning) -> Beginnings {
        let said = statements.iter().fold(0, |bits, said| bits << 12 | said.map_or(0, Said::bits));
        let key = said << 20 | u128::from(at.granted) << 4 | u128::from(at.proven) << 2 | at.view as u128;
        if let Some(known) = self.known.borrow().get(&key) {
            return *known;
        }
        let found = self.search(statements, at);
        self.known.borrow_mut().insert(key, found);
        found
    }

    fn search(&self, statements: &Statements, at: Beginning) -> Beginnings {
        let (leader, liar_leads) = (self.bounds.leader(at.view), self.bounds.liar_leads(at.view));
        let there: Vec<usize> = (0..MEMBERS).filter(|member| statements[*member].is_some()).collect();
        let lies = self.lies(at.view);
        let mut found = [0; SLOTS];
        for choice in 0u8..1 << there.len() {
            let chosen: Vec<usize> =
                there.iter().enumerate().filter(|(bit, _)| choice & 1 << bit != 0).map(|(_, m)| *m).collect();
            // The own statement is always among them.
            if !liar_leads && !chosen.contains(&leader) {
                continue;
            }
            let heard: Vec<(usize, Said)> =
                chosen.iter().filter_map(|member| statements[*member].map(|said| (*member, said))).collect();
            let most = heard.iter().map(|(_, said)| said.decided).max().unwrap_or(0);
            // A proof comes with the statement of who decided. The liar has all proofs, and as leader shows those that it likes.
            let least = if liar_leads { 0 } else { most };
            let most = if self.bounds.liar.is_some() { at.proven.max(most) } else { most };
            for decided in (least..=most).filter(|decided| *decided < self.bounds.slots as u8) {
                let mut note = |lie: Option<&Said>| {
                    let bits = self.judged(&heard, lie.copied(), decided, at);
                    found[usize::from(decided)] |= bits;
                };
                if decided == least || liar_leads {
                    note(None);
                }
                lies.iter().for_each(|lie| note(Some(lie)));
            }
        }
        found
    }

    /// What these statements bind the slot after `decided` to, as a bit; nothing if they are too few.
    fn judged(&self, heard: &[(usize, Said)], lie: Option<Said>, decided: u8, at: Beginning) -> u8 {
        match self.binding(heard, lie, decided, at) {
            Binding::Unsound => 0,
            Binding::Bound(_) if self.bounds.has(Plant::LockIgnored) => 1,
            Binding::Free => 1,
            Binding::Bound(digest) => 1 << digest.bytes()[0],
        }
    }

    /// What the real rule says of these statements, and of the liar's.
    pub(crate) fn binding(
        &self,
        heard: &[(usize, Said)],
        lie: Option<Said>,
        decided: u8,
        at: Beginning,
    ) -> Binding {
        let lie = self.bounds.liar.zip(lie.map(|lie| Said { decided, ..lie }));
        let mut all: Vec<(usize, Said)> = heard.iter().copied().chain(lie).collect();
        all.sort_unstable_by_key(|(member, _)| *member);
        let collects: Vec<Collect> = all.iter().map(|(member, said)| collect(*member, said)).collect();
        let everything = if self.bounds.has(Plant::SmallUngranted) { u16::MAX } else { at.granted };
        let ids = |set: u8| (0..8u16).filter(|id| set & 1 << id != 0).map(ReplicaId::new).collect();
        let granted: Vec<Vec<ReplicaId>> = self.sets.of(everything).map(ids).collect();
        modelling::binding_of(self.trust(), &granted, &collects, Slot::new(decided.into()))
    }

    fn trust(&self) -> Trust {
        match self.bounds.plant {
            Some(Plant::WrittenByOne) => as_if_nobody_lies(self.bounds.trust),
            _ => self.bounds.trust,
        }
    }

    /// Everything that the liar may say on entering a view. What it says of another slot is as if it said nothing, or as if it knew
    /// nothing; that is among it.
    pub(crate) fn lies(&self, view: usize) -> Vec<Said> {
        let mut list = Vec::new();
        if self.bounds.liar.is_none() {
            return list;
        }
        let values = 1..=self.bounds.values;
        let locks = (1..view as u8).flat_map(|view| values.clone().map(move |value| (view, value)));
        for lock in std::iter::once((0, 0)).chain(locks) {
            for wrote in 0..view.pow(self.bounds.values.into()) {
                let last = |value: usize| (wrote / view.pow(value as u32) % view) as u8;
                let wrote =
                    std::array::from_fn(
                        |value| if value < self.bounds.values.into() { last(value) } else { 0 },
                    );
                list.push(Said { decided: 0, lock, wrote });
            }
        }
        list
    }
}

/// The statement as the real rule takes it.
fn collect(member: usize, said: &Said) -> Collect {
    let digest = |value: u8| Digest::new([value; 32]);
    let wrote = (1..).zip(said.wrote).filter(|(_, view)| *view > 0);
    Collect {
        from: ReplicaId::new(member as u16),
        decided: Slot::new(said.decided.into()),
        lock: (said.lock.0 > 0).then(|| (view_of(said.lock.0.into()), digest(said.lock.1))),
        writes: wrote.map(|(value, view)| (view_of(view.into()), digest(value))).collect(),
        signature: Signature::NONE,
    }
}

const _: () = assert!(VIEWS < 4 && SLOTS < 3 && VALUES < 4, "two bits for each field of a statement");
