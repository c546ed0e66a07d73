//! How much of the protocol is searched, and with which bug.

use quorate_types::Trust;

/// The most members, views and slots that a state has room for.
pub const MEMBERS: usize = 5;
/// The views are 1 to this.
pub const VIEWS: usize = 3;
/// The slots are 1 to this.
pub const SLOTS: usize = 2;

/// What is searched.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The trust in each member, which also says how many there are.
    pub trust: Trust,
    /// How many lie: the o of the trust.
    pub liar: Option<usize>,
    /// The leader of each view, the first view first.
    pub leaders: Vec<usize>,
    /// How many slots are decided.
    pub slots: usize,
    /// How many values clients ask for. Where no member lies, each leader has one of its own.
    pub values: u8,
    /// How many restarts there are.
    pub restarts: u8,
    /// How many small quorums are granted.
    pub grants: u32,
    /// Whether a leader asks only for sets that it is in itself.
    pub own: bool,
    /// Whether nothing happens in a view once something happened in a later one.
    pub apart: bool,
    /// What is wrong on purpose.
    pub plant: Option<Plant>,
}

impl Bounds {
    /// u = 2, s = 1, o = 0: four members, nobody lies. Everything that fits is searched unless less is asked for.
    ///
    /// # Panics
    /// Never: four members are enough.
    pub fn four(leaders: &[usize], slots: usize) -> Self {
        let trust = Trust::new(4, 2, 1, 0).expect("four members are enough");
        Self {
            trust,
            liar: None,
            leaders: leaders.to_vec(),
            slots,
            values: 1,
            restarts: 1,
            grants: 3,
            own: true,
            apart: false,
            plant: None,
        }
    }

    /// u = 2, s = 1, o = 1: five members, one of them lies.
    ///
    /// # Panics
    /// Never: five members are enough.
    pub fn five(leaders: &[usize], liar: usize, slots: usize) -> Self {
        let trust = Trust::new(5, 2, 1, 1).expect("five members are enough");
        Self { trust, liar: Some(liar), values: 2, ..Self::four(leaders, slots) }
    }

    /// The same with a bug.
    #[must_use]
    pub fn with(self, plant: Plant) -> Self {
        Self { plant: Some(plant), ..self }
    }

    /// The number of views.
    pub fn views(&self) -> usize {
        self.leaders.len()
    }

    /// The number of members.
    pub fn members(&self) -> usize {
        self.trust.members() as usize
    }

    /// Who is no liar.
    pub fn honest(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.members()).filter(|member| Some(*member) != self.liar)
    }

    /// Who leads this view, from 1.
    pub fn leader(&self, view: usize) -> usize {
        self.leaders[view - 1]
    }

    /// Whether the liar leads this view.
    pub fn liar_leads(&self, view: usize) -> bool {
        self.liar == Some(self.leader(view))
    }

    pub(crate) fn has(&self, plant: Plant) -> bool {
        self.plant == Some(plant)
    }
}

/// Bugs that the search must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// A small quorum may miss an earlier one (without L6).
    GrantsUnmet,
    /// The floor rises to the view that asks, although nothing was decided in it (without L2).
    FloorOfAsker,
    /// The oracle knows one view only, as in the paper.
    GrantsPerView,
    /// Whoever swaps writes what it made of a register that it did not read.
    RegisterUnread,
    /// n-u members are a quorum without a grant.
    SmallUngranted,
    /// A member that restarts forgets how it voted.
    VotesForgotten,
    /// A leader that restarts leads its view again (without mod_smart L8).
    LeadsAgain,
    /// The leader takes the lowest lock for the one that binds. Not a rule of the real code: the search's own.
    LockIgnored,
    /// Two small quorums may share o members, all of which may lie.
    SharedByLiars,
    /// One member is enough to say that a value was written.
    WrittenByOne,
    /// A value is locked without a quorum that wrote it.
    LockedUnwritten,
    /// The oracle raises the floor for whoever says so.
    FloorUnproven,
}
