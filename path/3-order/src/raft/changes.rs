//! What the host wants of the membership, beside what the log says: a change, and which other replicas are sent the log. Also what the host
//! was told. docs/protocols/raft.md L111, L115, L141.
//!
//! Tests: tests/changes.rs, tests/members.rs.

use super::store::Store;
use crate::{Effect, Effects};
use quorate_types::ReplicaId;
use quorate_wire::Memberships;
use std::sync::Arc;

/// What the host wants, and what it was told.
#[derive(Debug)]
pub(super) struct Changes {
    /// A change that the host wants.
    wanted: Option<Arc<Memberships>>,
    /// Replicas that the host wants to be sent the log, members or not.
    listeners: Arc<[ReplicaId]>,
    /// When the host was told last: how often the memberships in the log had changed, and whether the last one was committed.
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

    /// The change that may begin now, if `current` is a membership without a change under way. A change that is complete is dropped. [raft
    /// L116-L117]
    pub(super) fn next(&mut self, current: &Memberships) -> Option<Arc<Memberships>> {
        let wanted = self.wanted.as_ref()?;
        if wanted.now().number() <= current.now().number() {
            self.wanted = None;
            return None;
        }
        fits(wanted, current).then(|| wanted.clone())
    }

    /// The host names the replicas that are also sent the log. Returns whether the list is new. [raft L141]
    pub(super) fn listen(&mut self, listeners: Arc<[ReplicaId]>) -> bool {
        let news = self.listeners != listeners;
        self.listeners = listeners;
        news
    }

    /// The replicas that are also sent the log.
    pub(super) fn listeners(&self) -> &[ReplicaId] {
        &self.listeners
    }

    /// Tells the host which memberships hold, if that changed. [raft L111]
    pub(super) fn tell(&mut self, store: &Store, out: &mut Effects) {
        let state = (store.log().members_changes(), store.membership_is_committed());
        if state != self.told {
            self.told = state;
            let (memberships, committed) = (store.membership().clone(), state.1);
            out.push(Effect::Members { memberships, committed });
        }
    }
}

/// Whether the wanted change begins with the present membership.
fn fits(wanted: &Memberships, current: &Memberships) -> bool {
    wanted.before().is_some_and(|before| {
        before.number() == current.now().number() && before.voters().eq(current.now().voters())
    })
}
