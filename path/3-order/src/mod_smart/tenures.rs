//! Which membership holds in which slots of an instance: tenures, one after the other.
//!
//! A tenure begins with the slot after the one that decided it. So a slot has one membership, whose quorums decide it and prove it. Each
//! tenure has views of its own: a vote of one tenure can not be taken for a vote of another, and before a tenure's first view there are no
//! votes to ask for. docs/protocols/mod_smart.md L110-L116.
//!
//! ```text
//! anchor   1 u8 | slot u64, as long as the first membership holds
//!        | 2 u8 | slot u64 | view u64 | memberships, later
//! ```
//! The slot is the one that decided the tenure. For the first tenure it is the last slot of the state that the cluster began with, 0 for an
//! empty cluster. The view is the tenure's first one. There are two memberships where the anchor's slot is that slot, since the membership
//! before decided that slot and proves it. A replica that joins later does not know the first members; it takes them from the first change.
//!
//! INV-SMART-12. Tests: tests/members.rs, tests/tenures.rs.

use super::rules;
use crate::Anchor;
use crate::ledger::inconsistent;
use bytes::Bytes;
use quorate_auth::chain;
use quorate_types::{Faults, Halt, InstanceId, MembershipId, ReplicaId, Slot, Trust, View, planted};
use quorate_wire::{Batch, Holds, Memberships, SystemCommand};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The first byte of an anchor of the first tenure.
const FIRST: u8 = 1;
/// The first byte of an anchor of a later tenure.
const LATER: u8 = 2;

/// The first view that a membership may have. [mod_smart L111]
pub(super) const fn views_from(number: MembershipId) -> View {
    chain::views(number).0
}

/// The last view that a membership may have.
pub(super) const fn views_to(number: MembershipId) -> View {
    chain::views(number).1
}

/// The membership of this view; views begin with 1.
pub(super) const fn number_of(view: View) -> MembershipId {
    chain::membership_of(view)
}

/// The slots in which one membership holds.
#[derive(Clone, Debug)]
pub(super) struct Tenure {
    /// The membership, without a change under way.
    pub(super) members: Arc<Memberships>,
    /// The slot that decided it: the last one before it.
    pub(super) since: Slot,
    /// Its first view.
    pub(super) begins: View,
}

impl Tenure {
    /// The tenure with which an empty cluster of these members began.
    fn first(members: &[ReplicaId]) -> Self {
        let members = Arc::new(Memberships::created(members));
        Self { members, since: Slot::ZERO, begins: View::FIRST }
    }
    /// Whether a cluster began with this tenure and with a state, so that no log says where the tenure began.
    pub(super) fn is_of_state(&self) -> bool {
        self.number() == MembershipId::FIRST && self.since > Slot::ZERO
    }
    /// The slot before it, and its first view.
    pub(super) fn bounds(&self) -> (Slot, View) {
        (self.since, self.begins)
    }
    pub(super) fn number(&self) -> MembershipId {
        self.members.now().number()
    }
    pub(super) fn voters(&self) -> Vec<ReplicaId> {
        self.members.now().voters().collect()
    }
    pub(super) fn is_voter(&self, id: ReplicaId) -> bool {
        self.members.now().is_voter(id)
    }
    /// [mod_smart L2]
    pub(super) fn trust(&self, faults: Faults) -> Trust {
        faults.among(self.members.now().voters().count() as u32)
    }

    /// The tenure in which this change was decided.
    fn before(holds: &Holds) -> Option<Self> {
        let before = holds.change.before()?;
        let members = match before.number() {
            MembershipId::FIRST => Memberships::created(&before.voters().collect::<Vec<_>>()),
            _ => Memberships::one(before.clone()),
        };
        Some(Self { members: Arc::new(members), since: holds.since, begins: holds.begins })
    }
}

/// The first view of a membership that this replica leads; if it does not vote there, the membership's first view. [mod_smart L111]
fn first_view(members: &Memberships, instance: InstanceId, leader: ReplicaId) -> View {
    let voters: Vec<ReplicaId> = members.now().voters().collect();
    let from = views_from(members.now().number());
    let led = |view: &View| rules::leader_of(&voters, instance.number(), *view) == leader;
    (0..voters.len() as u64).map(|step| from.plus(step)).find(led).unwrap_or(from)
}

/// The anchor of a new cluster whose state reaches to this slot. [mod_smart L89]
pub(crate) fn first_anchor(since: Slot) -> Anchor {
    let since = if planted("smart-founded-at-zero") { Slot::ZERO } else { since };
    let mut bytes = vec![FIRST];
    bytes.extend_from_slice(&since.number().to_le_bytes());
    Anchor::decode(&bytes).expect("INV-SMART-12: nine bytes fit an anchor")
}

/// The slot in the anchor of a first tenure.
fn founded_at(anchor: &[u8]) -> Option<Slot> {
    match anchor.split_first()? {
        (&FIRST, slot) => Some(Slot::new(u64::from_le_bytes(slot.try_into().ok()?))),
        _ => None,
    }
}

/// What a batch says about the membership of its instance, if it is such a batch.
pub(super) fn holds_of(batch: &Batch) -> Option<Holds> {
    match SystemCommand::of(batch) {
        Some(SystemCommand::Holds(holds)) => Some(holds),
        _ => None,
    }
}

/// The same, if the batch is what an honest leader proposes with that: its header holds nothing, so no time and no border. The host is not
/// asked about it, so nobody else looks at that. [mod_smart L122]
pub(super) fn only_holds(batch: &Batch) -> Option<Holds> {
    holds_of(batch)
        .filter(|holds| planted("smart-holds-with-time") || sealed(holds.clone()).bytes() == batch.bytes())
}

fn sealed(holds: Holds) -> Batch {
    SystemCommand::Holds(holds).alone()
}

/// The tenures of an instance, oldest first and at least one: those of the floor's slot and of all slots since.
#[derive(Clone, Debug)]
pub(super) struct Tenures {
    instance: InstanceId,
    faults: Faults,
    /// Whether the first members are known.
    founded: bool,
    list: Vec<Tenure>,
}

impl Tenures {
    /// The tenures of an instance in which nothing changed since the cluster was made with these members. `founded`: whether it was made
    /// with them.
    pub(super) fn created(
        members: &[ReplicaId],
        instance: InstanceId,
        faults: Faults,
        founded: bool,
    ) -> Self {
        Self { instance, faults, founded, list: vec![Tenure::first(members)] }
    }
    /// Tenures of this instance with another list.
    fn of_list(&self, list: Vec<Tenure>) -> Self {
        Self { list, ..*self }
    }
    pub(super) fn all(&self) -> &[Tenure] {
        &self.list
    }
    /// The tenure of the slot after the last decided one.
    pub(super) fn now(&self) -> &Tenure {
        self.list.last().expect("INV-SMART-12: there is always a tenure")
    }
    /// Whether the members of the present tenure are known.
    pub(super) fn is_known(&self) -> bool {
        self.founded || self.now().number() > MembershipId::FIRST
    }
    /// The tenure of this slot, as far as it is known.
    pub(super) fn of(&self, slot: Slot) -> &Tenure {
        if planted("smart-proof-of-any-membership") {
            return self.now();
        }
        let after = self.list.partition_point(|tenure| tenure.since < slot);
        &self.list[after.saturating_sub(1)]
    }
    /// Adds the tenure that this batch decided.
    pub(super) fn push_after(&mut self, tenure: Tenure, holds: &Holds) {
        if !self.founded && self.now().number() == MembershipId::FIRST {
            // Now the first members are known.
            self.list.pop();
            self.list.extend(Tenure::before(holds));
        }
        self.push(tenure);
    }
    fn push(&mut self, tenure: Tenure) {
        assert!(
            tenure.since > self.now().since && tenure.number() == self.now().number().next(),
            "INV-SMART-12: one tenure follows the other, {:?}",
            tenure.number()
        );
        self.list.push(tenure);
    }
    /// Forgets the tenures of slots before this one.
    pub(super) fn forget(&mut self, floor: Slot) {
        let over = self.list.iter().skip(1).take_while(|next| next.since < floor).count();
        self.list.drain(..over);
    }

    /// Whether a change begins from the present membership, and the new membership is able to work. [mod_smart L113]
    pub(super) fn fits(&self, change: &Memberships) -> bool {
        let (now, next) = (self.now().members.now(), change.now());
        let follows = change.before().is_some_and(|before| {
            // The first membership is known by its ids only, or not at all.
            let first = now.number() == MembershipId::FIRST && before.number() == now.number();
            before == now || (first && (!self.founded || before.voters().eq(now.voters())))
        });
        let enough = self.faults.fit(next.voters().count() as u32);
        follows && enough && now.number().number() < chain::NUMBER_MAX && next.number() == now.number().next()
    }

    /// The batch that decides a change of the present membership. Without a change: the batch that a new tenure decides in its first slot,
    /// to be established. [mod_smart L112, L117]
    pub(super) fn batch(&self, change: Option<&Memberships>, leader: ReplicaId) -> Batch {
        let Tenure { members, since, begins } = self.now().clone();
        let change = change.unwrap_or(&members).clone();
        sealed(Holds { change, since, begins, leader })
    }

    /// Whether this batch only establishes the present tenure.
    pub(super) fn is_shown_by(&self, holds: &Holds) -> bool {
        let now = self.now();
        holds.change == *now.members && holds.since == now.since && holds.begins == now.begins
    }

    /// The tenure that begins when this batch is decided in a slot of the present one. None if it does not continue the present tenure.
    /// [mod_smart L110, L113]
    pub(super) fn next(&self, holds: &Holds, slot: Slot) -> Option<Tenure> {
        let now = self.now();
        let continues = holds.since == now.since && holds.begins == now.begins && self.fits(&holds.change);
        continues.then(|| {
            let members = Arc::new(holds.change.ended());
            let begins = first_view(&members, self.instance, holds.leader);
            Tenure { members, since: slot, begins }
        })
    }

    /// The anchor of a checkpoint at this slot. [mod_smart L89, L116]
    pub(super) fn anchor(&self, slot: Slot) -> Option<Anchor> {
        let after = self.list.partition_point(|tenure| tenure.since <= slot);
        let tenure = self.list.get(after.max(1) - 1)?;
        if tenure.number() == MembershipId::FIRST {
            return (tenure.since <= slot).then(|| first_anchor(tenure.since));
        }
        let memberships = match after.checked_sub(2).filter(|_| tenure.since == slot) {
            Some(before) => {
                let before = self.list[before].members.now().clone();
                Memberships::change(before, tenure.members.now().clone()).ok()?
            }
            None if tenure.since == slot => return None,
            None => (*tenure.members).clone(),
        };
        let mut bytes = vec![LATER];
        bytes.extend_from_slice(&tenure.since.number().to_le_bytes());
        bytes.extend_from_slice(&tenure.begins.number().to_le_bytes());
        bytes.extend_from_slice(&memberships.encode());
        Anchor::decode(&bytes).ok()
    }

    /// The tenures in an anchor of an instance that was created with these tenures.
    ///
    /// # Errors
    /// When the anchor is of another protocol, or of another cluster.
    pub(super) fn read(created: &Self, slot: Slot, anchor: &Anchor) -> Result<Self, Halt> {
        let other = || inconsistent("the checkpoint is of another protocol");
        let bytes = anchor.encode();
        let Some((&LATER, bytes)) = bytes.split_first() else {
            let since = founded_at(bytes).filter(|since| *since <= slot).ok_or_else(other)?;
            let first = Tenure { since, ..created.list[0].clone() };
            return Ok(created.of_list(vec![first]));
        };
        let (number, rest) = bytes.split_at_checked(16).ok_or_else(other)?;
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&number[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let (since, begins) = (Slot::new(word(0)), View::new(word(8)));
        let members = Memberships::decode(Bytes::copy_from_slice(rest)).map_err(|_| other())?;
        let now = Arc::new(members.ended());
        let number = now.now().number();
        let of_it = begins >= View::FIRST && number_of(begins) == number && number > MembershipId::FIRST;
        if !of_it || since > slot || members.before().is_some() != (since == slot) {
            return Err(other());
        }
        let before = members.before().map(|before| {
            let (members, since) = (Arc::new(Memberships::one(before.clone())), Slot::ZERO);
            Tenure { members, since, begins: views_from(before.number()) }
        });
        let now = Tenure { members: now, since, begins };
        Ok(created.of_list(before.into_iter().chain([now]).collect()))
    }

    /// The tenures up to the slot `last`. `self` holds at slot `at`; `changes` were decided after it, and also name the memberships before
    /// them.
    #[must_use]
    pub(super) fn replayed(mut self, at: Slot, last: Slot, changes: &BTreeMap<Slot, Holds>) -> Self {
        for (slot, holds) in changes.iter().filter(|(slot, _)| **slot > at && **slot <= last) {
            if let Some(next) = self.next(holds, *slot) {
                self.push_after(next, holds);
            }
        }
        if self.list.get(1).is_some_and(|next| next.since == at && changes.contains_key(&at)) {
            // What the anchor says of the one before is told better by the change.
            self.list.remove(0);
        }
        while let Some(before) = changes.get(&self.list[0].since).and_then(Tenure::before) {
            self.list.insert(0, before);
        }
        self
    }
}
