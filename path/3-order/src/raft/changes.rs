//! What the host wants of the membership beside what the log says: a change, and who else is sent the log; and what the host was told.
//! docs/protocols/raft.md L111, L115, L141.
//!
//! Tests: tests/changes.rs, tests/members.rs.

use super::store::Store;
use crate::{Effect, Effects};
use quorate_types::ReplicaId;
use quorate_wire::Memberships;
use std::sync::Arc;

/// What is wanted beside the log.
#[derive(Debug)]
pub(super) struct Changes {
    /// A change that the host wants.
    wanted: Option<Arc<Memberships>>,
    /// Whom the host wants to be sent the log, members or not.
    listeners: Arc<[ReplicaId]>,
    /// What the host was told last: how often the memberships in the log changed by then, and whether the last one was committed.
    told: (u64, bool),
}

impl Default for Changes {
    fn default() -> Self {
        Self { wanted: None, listeners: Arc::from([]), told: (0, true) }
    }
}

impl Changes {
    /// The host executed a command that asks for this change. [raft L115]
    pub(super) fn want(&mut self, change: Arc<Memberships>) {
        self.wanted = Some(change);
    }

    /// The change that may begin now, where this holds alone; one that is done is forgotten. [raft L116-L117]
    pub(super) fn next(&mut self, current: &Memberships) -> Option<Arc<Memberships>> {
        let wanted = self.wanted.as_ref()?;
        if wanted.now().number() <= current.now().number() {
            self.wanted = None;
            return None;
        }
        fits(wanted, current).then(|| wanted.clone())
    }

    /// The host says who else is sent the log. Whether that is news. [raft L141]
    pub(super) fn listen(&mut self, listeners: Arc<[ReplicaId]>) -> bool {
        let news = self.listeners != listeners;
        self.listeners = listeners;
        news
    }

    /// Who else is sent the log.
    pub(super) fn listeners(&self) -> &[ReplicaId] {
        &self.listeners
    }

    /// Tells the host what holds, if that is news. [raft L111]
    pub(super) fn tell(&mut self, store: &Store, out: &mut Effects) {
        let state = (store.log().members_changes(), store.membership_is_committed());
        if state != self.told {
            self.told = state;
            let (memberships, committed) = (store.membership().clone(), state.1);
            out.push(Effect::Members { memberships, committed });
        }
    }
}

/// Whether a change begins with what holds.
fn fits(wanted: &Memberships, current: &Memberships) -> bool {
    wanted.before().is_some_and(|before| {
        before.number() == current.now().number() && before.voters().eq(current.now().voters())
    })
}
