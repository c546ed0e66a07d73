use super::Rooms;
use quorate_types::{FaultModel, Faults, ReplicaId, Room};

const CRASH: Faults = Faults::of(FaultModel::Crash);

fn rooms(of: &[Room]) -> (Rooms, Vec<ReplicaId>) {
    let ids: Vec<ReplicaId> = (2..).take(of.len()).map(ReplicaId::new).collect();
    let others = ids.iter().copied().zip(of.iter().copied()).collect();
    (Rooms { others, ..Rooms::default() }, ids)
}

#[test]
fn what_counts_is_what_a_majority_has_room_for() {
    use Room::{Data, Frees, Full};
    for (own, others, expected) in [
        (Data, vec![], Data),
        (Full, vec![], Full),
        (Data, vec![Full, Full], Full),
        (Data, vec![Full, Data], Data),
        (Data, vec![Full, Frees], Frees),
        (Frees, vec![Data, Data], Data),
        (Data, vec![Full], Full),
        (Data, vec![Data, Full, Full], Full),
        (Data, vec![Data, Data, Full, Full], Data),
    ] {
        let (rooms, ids) = rooms(&others);
        assert_eq!(
            rooms.of_quorum(own, ids.into_iter(), CRASH),
            expected,
            "{own:?} here, {others:?} elsewhere"
        );
    }
}

#[test]
fn whoever_says_nothing_has_room() {
    let rooms = Rooms::default();
    assert_eq!(rooms.of_quorum(Room::Full, [2, 3].map(ReplicaId::new).into_iter(), CRASH), Room::Data);
}

/// Of seven members of which two may lie five decide: four with room are too few.
#[test]
fn where_members_may_lie_a_majority_is_not_enough() {
    use Room::{Data, Full};
    let faults = Faults::of(FaultModel::Byzantine);
    for (full, expected) in [(2, Data), (3, Full)] {
        let (rooms, ids) = rooms(&[vec![Full; full], vec![Data; 6 - full]].concat());
        assert_eq!(rooms.of_quorum(Data, ids.into_iter(), faults), expected, "{full} of 7 are full");
    }
}
