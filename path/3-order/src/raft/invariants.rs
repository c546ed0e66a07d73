//! What must hold after every step. A failure is a bug of this program and stops the replica.
//!
//! Most invariants are asserted where they could break, or by the part that keeps them. Those between parts stand here.

use super::{Raft, Role};

pub(super) fn check(raft: &Raft, thorough: bool) {
    let (store, last) = (&raft.store, raft.store.log().last());
    store.check(thorough);
    // A replica enters the view of its checkpoint when it starts [raft L83]; a restored one waits for the others before that.
    assert!(
        !raft.life.started || last.view <= store.view(),
        "INV-RAFT-2: log {last} not ahead of {}",
        store.view()
    );
    let me = raft.config.me;
    let leads = store.term().leader() == Some(me);
    let leader = matches!(raft.role, Role::Leader(_));
    assert!(leads == leader, "INV-RAFT-9: leads exactly as leader");
    let voted = || store.term().voted() == Some(me);
    match &raft.role {
        Role::Follower => {}
        Role::PreCandidate(_) => {
            assert!(store.may_stand(), "INV-RAFT-19: only a voter stands for an election");
        }
        Role::Candidate(_) => {
            assert!(store.may_stand(), "INV-RAFT-19: only a voter stands for an election");
            assert!(voted(), "INV-RAFT-9: a candidate votes for itself");
        }
        Role::Leader(lead) => {
            assert!(voted(), "INV-RAFT-9: a leader voted for itself");
            lead.check(store);
        }
    }
}
