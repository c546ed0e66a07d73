use super::*;
use crate::sessions::SessionLimits;
use quorate_types::{ClusterId, ReplicaId};
use quorate_wire::{ReplyStatus, RequestHeader, RequestKind, RequestProof};

fn caller(sessions: u16) -> Neighbour {
    Neighbour {
        relation: Relation::Caller,
        service: 1,
        name: "shop".into(),
        cluster: ClusterId::new(5),
        faulty: 1,
        lying: 0,
        sessions,
        members: (1..=3).map(|id| (ReplicaId::new(id), String::new())).collect(),
    }
}

fn begun() -> (Neighbours, SessionTable) {
    let (mut all, mut sessions) = (
        Neighbours::default(),
        SessionTable::new(SessionLimits { sessions_max: 6, ..SessionLimits::default() }),
    );
    let allow = NeighbourCommand::Allow(caller(3));
    all.carry_out(&allow, &mut sessions, AgreedTime::from_nanos(1)).expect("there is room");
    (all, sessions)
}

fn of(all: &Neighbours) -> &KnownNeighbour {
    all.get(Relation::Caller, 1).expect("it is one")
}

#[test]
fn a_neighbour_gets_sessions_that_do_not_expire() {
    let (mut all, mut sessions) = begun();
    assert_eq!(sessions.len(), 3);
    assert!(sessions.expire(AgreedTime::from_nanos(u64::MAX)).is_empty());
    let known = of(&all).clone();
    assert_eq!(known.place(5), Some((known.sessions[1], RequestNumber::new(2))));
    all.invariants(&sessions);
    sessions.invariants();
    let more = Neighbour { service: 2, sessions: 4, ..caller(3) };
    let refused = all.carry_out(&NeighbourCommand::Allow(more), &mut sessions, AgreedTime::from_nanos(2));
    assert!(refused.is_err_and(|why| why.contains("no room")));
    assert_eq!(sessions.len(), 3, "nothing is left of it");
}

#[test]
fn other_members_keep_the_sessions() {
    let (mut all, mut sessions) = begun();
    let before = of(&all).sessions.clone();
    let mut other = caller(2);
    other.members.push((ReplicaId::new(9), String::new()));
    let done = all.carry_out(&NeighbourCommand::Allow(other), &mut sessions, AgreedTime::from_nanos(2));
    assert_eq!(done, Ok(()));
    let known = of(&all);
    assert_eq!((&known.sessions, known.neighbour.sessions, known.neighbour.members.len()), (&before, 3, 4));
}

#[test]
fn who_is_forgotten_keeps_a_session_until_nothing_is_under_way_in_it() {
    let (mut all, mut sessions) = begun();
    let forget = NeighbourCommand::Forget(Relation::Caller, 1);
    let busy = of(&all).sessions[1];
    sessions.begin(busy);
    all.carry_out(&forget, &mut sessions, AgreedTime::from_nanos(2)).expect("it was one");
    assert_eq!(of(&all).sessions, [busy]);
    assert!(of(&all).leaves);
    all.invariants(&sessions);
    let again = all.carry_out(&NeighbourCommand::Allow(caller(3)), &mut sessions, AgreedTime::from_nanos(2));
    assert!(again.is_err_and(|why| why.contains("under way")));
    let mut written = Vec::new();
    all.write_to(&mut written);
    assert_eq!(Neighbours::read(&mut &written[..]).expect("it was written").all, all.all);
    sessions.record(busy, RequestNumber::new(1), ReplyStatus::Done, b"", AgreedTime::from_nanos(3));
    all.tidy(&mut sessions);
    assert!(all.is_empty() && sessions.is_empty());
    assert!(all.carry_out(&forget, &mut sessions, AgreedTime::from_nanos(4)).is_err());
}

#[test]
fn what_is_read_was_written_and_nothing_else_is_read() {
    let (mut all, mut sessions) = begun();
    let backend = Neighbour {
        relation: Relation::Backend,
        members: (1..=3).map(|id| (ReplicaId::new(id), format!("r{id}"))).collect(),
        ..caller(1)
    };
    all.carry_out(&NeighbourCommand::Allow(backend), &mut sessions, AgreedTime::from_nanos(2)).expect("room");
    let mut bytes = Vec::new();
    all.write_to(&mut bytes);
    let with_more = [&bytes[..], b"more"].concat();
    let mut from = &with_more[..];
    let read = Neighbours::read(&mut from).expect("it was written");
    assert_eq!((&read.all, from), (&all.all, &b"more"[..]));
    assert!(read.fit(&sessions) && !read.fit(&SessionTable::new(SessionLimits::default())));
    for len in MAGIC.len()..bytes.len() {
        assert!(Neighbours::read(&mut &bytes[..len]).is_err(), "{len}");
    }
    let mut none = &b"none"[..];
    assert!(Neighbours::read(&mut none).is_ok_and(|read| read.is_empty()) && none == b"none");
    // The handling of a session of a neighbour is that of any other.
    let header = RequestHeader {
        session: of(&all).sessions[0],
        number: RequestNumber::new(1),
        lowest_unanswered: RequestNumber::new(1),
        kind: RequestKind::Nested,
        len: 0,
        proof: RequestProof::None,
    };
    assert!(matches!(sessions.handling(&header), crate::sessions::Handling::Run { .. }));
}
