//! Which steps make a change, in which order, and which changes are refused before the first one.

use super::{Wanted, is_done, steps};
use quorate_kit::{Seen, SeenMember};
use quorate_types::ReplicaId;
use quorate_wire::MemberRequest;
use quorate_zookeeper::error::ZkError;
use quorate_zookeeper::server::{Change, Named};

/// Three that vote, a learner that has caught up, and one that has not.
fn seen() -> Seen {
    let member = |replica: u16| SeenMember {
        replica,
        address: format!("h{replica}:1"),
        learner: replica > 3,
        caught_up: replica != 5,
    };
    Seen { members: (1..=5).map(member).collect(), ..Seen::default() }
}

fn named(replica: u16, learner: bool) -> Named {
    Named { replica, address: format!("h{replica}:1"), learner, clients: format!("h{replica}:2") }
}

/// The steps, in short.
fn short(change: &Change) -> Result<String, Option<ZkError>> {
    let shown = steps(change, &seen(), ReplicaId::new(1))?.into_iter().map(|step| match step {
        MemberRequest::Add { replica, .. } => format!("add {replica}"),
        MemberRequest::Promote(replica) => format!("promote {replica}"),
        MemberRequest::Remove(replica) => format!("remove {replica}"),
        MemberRequest::Replace { old, new } => format!("replace {old} by {new}"),
        MemberRequest::Move { replica, address } => format!("move {replica} to {address}"),
        MemberRequest::Rekey { replica, .. } => format!("rekey {replica}"),
    });
    Ok(shown.collect::<Vec<_>>().join(", "))
}

fn change(joining: Vec<Named>, leaving: &[u16], is_whole: bool) -> Change {
    Change { number: None, joining, leaving: leaving.to_vec(), is_whole }
}

#[test]
fn nobody_who_votes_leaves_before_others_vote() {
    let no_quorum = Err(Some(ZkError::NewConfigNoQuorum));
    let cases = [
        (change(vec![named(6, true)], &[], false), Ok("add r6")),
        (change(vec![named(6, false)], &[], false), Ok("add r6")),
        (change(vec![named(4, false)], &[], false), Ok("promote r4")),
        (change(vec![named(4, false)], &[3], false), Ok("replace r3 by r4")),
        (change(vec![named(4, false)], &[3, 5], false), Ok("replace r3 by r4, remove r5")),
        (change(vec![named(4, false)], &[5], false), Ok("promote r4, remove r5")),
        (change(vec![], &[1, 2, 5, 9], false), Ok("remove r2, remove r5, remove r1")),
        (change(vec![named(5, false)], &[], false), Ok("")),
        (change(vec![named(3, false)], &[3, 5], false), Ok("remove r5")),
        (change(vec![named(5, false)], &[3], false), no_quorum),
        (change(vec![named(6, false)], &[3], false), no_quorum),
        (change((6..=8).map(|id| named(id, false)).collect(), &[], true), no_quorum),
        (change((1..=3).map(|id| named(id, false)).collect(), &[], true), Ok("remove r4, remove r5")),
        (change(vec![named(2, true)], &[], false), Err(Some(ZkError::BadArguments))),
    ];
    for (change, expected) in cases {
        assert_eq!(short(&change), expected.map(str::to_owned), "{change:?}");
    }
    let moved = Named { address: "other:1".into(), ..named(2, false) };
    assert_eq!(short(&change(vec![moved], &[], false)), Ok("move r2 to other:1".to_owned()));
}

#[test]
fn a_step_that_was_asked_twice_is_known_to_be_done() {
    let seen = seen();
    let done = |step: MemberRequest| is_done(&step, &seen);
    let id = ReplicaId::new;
    assert!(done(MemberRequest::Move { replica: id(2), address: "h2:1".into() }));
    assert!(!done(MemberRequest::Move { replica: id(2), address: "h3:1".into() }));
    assert!(done(MemberRequest::Promote(id(3))) && !done(MemberRequest::Promote(id(4))));
    assert!(done(MemberRequest::Remove(id(9))) && !done(MemberRequest::Remove(id(5))));
    assert!(done(MemberRequest::Replace { old: id(9), new: id(3) }));
    assert!(!done(MemberRequest::Replace { old: id(9), new: id(4) }));
}

#[test]
fn what_is_wanted_last_counts() {
    let wanted = Wanted::default();
    let id = ReplicaId::new;
    assert_eq!(wanted.take(&change(vec![named(5, false), named(6, true)], &[], false)), [id(5)]);
    assert_eq!(wanted.take(&change(vec![named(5, false)], &[], false)), [], "somebody waits already");
    assert!(wanted.has(id(5)) && !wanted.has(id(6)));
    assert_eq!(wanted.take(&change(vec![named(5, true), named(6, false)], &[], false)), [id(6)]);
    assert!(!wanted.has(id(5)));
    assert_eq!(wanted.take(&change(vec![], &[6], false)), []);
    assert!(!wanted.has(id(6)));
}
