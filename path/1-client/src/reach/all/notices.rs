//! What members say of themselves, where any of them may lie: which replica leads, and how far each executed. Only what enough members say
//! is believed.

use quorate_types::{ReplicaId, Seq, View};

/// What a member says: in this view this replica leads, or none does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) view: View,
    pub(super) leader: Option<ReplicaId>,
}

/// By contact.
#[derive(Debug)]
pub(super) struct Notices {
    needed: u32,
    leads: Vec<Option<Notice>>,
    executed: Vec<Seq>,
}

impl Notices {
    /// For this many members; what `needed` of them say is believed.
    pub(super) fn new(members: usize, needed: u32) -> Self {
        Self { needed, leads: vec![None; members], executed: vec![Seq::ZERO; members] }
    }

    /// A member says who leads. Returns the newest notice that enough members give.
    pub(super) fn leads(&mut self, from: usize, notice: Notice) -> Option<Notice> {
        self.leads[from] = Some(notice);
        self.current()
    }

    /// The newest notice that enough members give.
    pub(super) fn current(&self) -> Option<Notice> {
        let say = |notice: &Notice| self.leads.iter().flatten().filter(|other| *other == notice).count();
        let current = self.leads.iter().flatten().filter(|notice| say(notice) >= self.needed as usize);
        current.max_by_key(|notice| notice.view).copied()
    }

    /// A member says how far it executed. Returns the highest seq that enough members reached, if it may be new.
    pub(super) fn executed(&mut self, from: usize, seq: Seq) -> Option<Seq> {
        if seq <= self.executed[from] {
            return None;
        }
        self.executed[from] = seq;
        let reached = |seq: &Seq| self.executed.iter().filter(|other| *other >= seq).count();
        self.executed.iter().filter(|seq| reached(seq) >= self.needed as usize).max().copied()
    }

    /// The members changed; `stays`: by contact, whether its member belongs to those before and now. What others said counts no more.
    pub(super) fn follow(&mut self, stays: &[bool], needed: u32) {
        self.needed = needed;
        self.leads.resize(stays.len(), None);
        self.executed.resize(stays.len(), Seq::ZERO);
        for contact in (0..stays.len()).filter(|contact| !stays[*contact]) {
            (self.leads[contact], self.executed[contact]) = (None, Seq::ZERO);
        }
    }

    /// A member is not connected any more, so its notice may be out of date when it comes back.
    pub(super) fn lost(&mut self, contact: usize) {
        self.leads[contact] = None;
    }
}

#[cfg(test)]
mod tests;
