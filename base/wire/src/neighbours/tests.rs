use super::*;

fn backend(sessions: u16) -> Neighbour {
    Neighbour {
        relation: Relation::Backend,
        service: 2,
        name: "bank".into(),
        cluster: ClusterId::new(9),
        faulty: 1,
        lying: 1,
        sessions,
        members: (1..=4).map(|id| (ReplicaId::new(id), format!("bank-{id}:7000"))).collect(),
    }
}

#[test]
fn commands_are_read_as_they_were_written() {
    for command in [NeighbourCommand::Allow(backend(3)), NeighbourCommand::Forget(Relation::Caller, 7)] {
        let bytes = command.encode();
        assert_eq!(NeighbourCommand::decode(bytes.clone().into()), Ok(command));
        for len in 0..bytes.len() {
            assert!(NeighbourCommand::decode(Bytes::copy_from_slice(&bytes[..len])).is_err(), "{len}");
        }
        assert!(NeighbourCommand::decode([&bytes[..], &[0]].concat().into()).is_err());
    }
}

#[test]
fn a_neighbour_must_be_able_to_have_its_faults() {
    let reads = |change: fn(&mut Neighbour)| {
        let mut neighbour = backend(1);
        change(&mut neighbour);
        NeighbourCommand::decode(NeighbourCommand::Allow(neighbour).encode().into()).is_ok()
    };
    assert!(reads(|_| {}));
    assert!(!reads(|it| it.lying = 2), "more lie than are faulty");
    assert!(!reads(|it| (it.faulty, it.lying) = (2, 2)), "too few would say the same");
    assert!(!reads(|it| it.sessions = 0));
    assert!(!reads(|it| it.sessions = NEIGHBOUR_SESSIONS_MAX + 1));
    assert!(!reads(|it| it.name = String::new()));
    assert!(!reads(|it| it.name = "two\nlines".into()));
    assert!(!reads(|it| it.members[1].0 = ReplicaId::new(1)), "one twice");
    assert!(!reads(|it| it.members[1].1.clear()), "nobody can ask it");
    assert!(reads(|it| {
        it.relation = Relation::Caller;
        it.members.iter_mut().for_each(|(_, address)| address.clear());
    }));
}

#[test]
fn positions_are_dealt_to_sessions_without_gaps() {
    for sessions in [1, 2, 5] {
        let it = backend(sessions);
        let mut last = vec![0; usize::from(sessions)];
        for position in 1..40 {
            let (session, number) = it.place(position);
            last[usize::from(session)] += 1;
            assert_eq!(number, last[usize::from(session)], "{sessions} {position}");
            assert_eq!(it.position(session, number), position);
        }
        for lowest in 1..20 {
            for session in 0..sessions {
                let expected = (1..).find(|number| it.position(session, *number) >= lowest);
                assert_eq!(Some(it.lowest(session, lowest)), expected, "{sessions} {lowest} {session}");
            }
        }
    }
}

#[test]
fn nested_requests_and_answers_are_read_as_they_were_written() {
    let commands = [1, 0, 0, 0, 2, 0, 0, 0, 7, 8];
    let body = write_nested([4, 5].into_iter(), &commands);
    let asked = write_asked(6, &body);
    let (lowest, read) = split_asked(&asked).expect("one");
    assert_eq!((lowest, &read[..]), (6, &body[..]));
    let (chain, list) = split_nested(&read).expect("one");
    assert_eq!((chain.collect::<Vec<_>>(), list), (vec![4, 5], &commands[..]));
    assert!(!is_nested(&write_nested([].into_iter(), &commands)), "nobody asks");
    assert!(!is_nested(&body[..body.len() - 1]));
    assert!(split_asked(&asked.slice(..7)).is_none());
    let answer = write_answer(ReplyStatus::Done, b"ok");
    assert_eq!(split_answer(&answer), Some((ReplyStatus::Done, &b"ok"[..])));
    let later = write_answer(ReplyStatus::Overloaded, b"");
    assert_eq!(split_answer(&later), None, "the backend takes the number again");
}

#[test]
fn no_client_owns_the_sessions_of_a_neighbour() {
    assert!(Relation::Caller.client(1).is_reserved());
    assert_ne!(Relation::Caller.client(1), Relation::Backend.client(1));
    let member = member_client(3, ReplicaId::new(2)).expect("a name");
    assert!(!member.is_reserved());
    assert_eq!(member_name(3, ReplicaId::new(2)).expect("a name").as_str(), "service-3-replica-2");
}
