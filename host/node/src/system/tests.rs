use super::*;
use quorate_types::MembershipId;
use quorate_wire::{Member, Membership, SystemCommand};

/// In the middle of a change.
fn roster() -> Roster {
    let membership = |number, voters: &[u16]| {
        let voters = voters.iter().map(|id| Member::voter(ReplicaId::new(*id))).collect();
        Membership::new(MembershipId::new(number), voters).expect("a membership")
    };
    let change = |before: &[u16], now: &[u16], number| {
        let change = Memberships::change(membership(number - 1, before), membership(number, now));
        SystemCommand::Change(change.expect("the next one"))
    };
    let mut roster = Roster::new(3);
    roster.execute(change(&[1, 2, 3], &[1, 2], 2));
    roster.execute(SystemCommand::Changed(MembershipId::new(2)));
    roster.execute(change(&[1, 2], &[2, 4], 3));
    roster
}

pub(crate) fn system() -> System {
    System {
        cluster: ClusterId::new(77),
        seq: Seq::new(1000),
        border: 3,
        window: 0,
        generations: vec![Generation { instances: 1, first: Slot::FIRST, base: Seq::ZERO }],
        instances: vec![InstancePart {
            instance: InstanceId::new(1),
            slot: Slot::new(1000),
            record: Slot::new(1000),
            offset: 0,
            anchor: Anchor::decode(&[7; 16]).expect("an anchor"),
        }],
        roster: roster(),
        level: 2,
        executor: Bytes::from_static(b"sessions"),
    }
}

#[test]
fn what_is_written_is_read_back() {
    let system = system();
    assert_eq!(System::decode(&system.encode()), Ok(system));
}

#[test]
fn cut_off_anywhere_before_the_executors_part_it_is_refused() {
    let bytes = system().encode();
    let own = bytes.len() - b"sessions".len();
    for len in 0..own {
        assert!(System::decode(&bytes.slice(..len)).is_err(), "{len} bytes of {own}");
    }
}

#[test]
fn no_bytes_make_it_panic() {
    let bytes = system().encode();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut wrong = bytes.to_vec();
            wrong[at] ^= 1 << bit;
            // Whether it is taken or not; where it is, it is written the same way again.
            // Version 1 is never written.
            let read = System::decode(&Bytes::from(wrong.clone())).ok().filter(|_| wrong[7] != 1);
            if let Some(read) = read {
                assert_eq!(read.encode(), wrong);
            }
        }
    }
}

/// Checkpoints of the version before name the members after each anchor.
#[test]
fn version_1_is_read() {
    let system = System { roster: Roster::new(3), level: 1, ..system() };
    let new = system.encode();
    let roster = 2 + 2 + 4 + 4;
    let (head, executor) = (new.len() - b"sessions".len() - roster, b"sessions");
    let mut old = new[..head].to_vec();
    old[7] = 1;
    old.extend_from_slice(&3u16.to_le_bytes());
    (1..=3u16).for_each(|id| old.extend_from_slice(&id.to_le_bytes()));
    old.extend_from_slice(&0u16.to_le_bytes());
    old.extend_from_slice(executor);
    assert_eq!(System::decode(&Bytes::from(old)), Ok(system));
}

fn hex(fixture: &str) -> Bytes {
    let bytes = fixture.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal"));
    bytes.collect::<Vec<u8>>().into()
}

/// The bytes that were written in the past are read, and a cluster that works at the level of that time still writes them. These files
/// never change.
#[test]
fn bytes_of_every_version_are_read() {
    let unchanged = System { roster: Roster::new(3), level: 1, ..system() };
    assert_eq!(System::decode(&hex(include_str!("fixtures/1.hex"))), Ok(unchanged));
    for (fixture, level) in [(include_str!("fixtures/2.hex"), 1), (include_str!("fixtures/3.hex"), 2)] {
        let expected = System { level, ..system() };
        assert_eq!(System::decode(&hex(fixture)), Ok(expected.clone()), "level {level}");
        assert_eq!(expected.encode(), hex(fixture), "level {level}");
    }
}

#[test]
fn versions_of_the_future_and_levels_that_do_not_fit_are_refused() {
    let mut bytes = system().encode().to_vec();
    bytes[7] = 4;
    assert!(System::decode(&Bytes::from(bytes.clone())).is_err(), "version 4");
    bytes[7] = 3;
    let level = bytes.len() - b"sessions".len() - 4;
    bytes[level] = 1;
    assert!(System::decode(&Bytes::from(bytes)).is_err(), "level 1 in version 3");
}

/// What is restored for other replicas has forgotten who was a member.
#[test]
fn another_cluster_begins_with_its_own_members() {
    let mut other = system();
    assert_eq!(other.members(), [ReplicaId::new(1), ReplicaId::new(2)]);
    let members: Vec<ReplicaId> = (1..=4).map(ReplicaId::new).collect();
    other.begin_anew(ClusterId::new(5), Protocol::RAFT, &members);
    assert_eq!((other.cluster, other.members().len()), (ClusterId::new(5), 4));
    assert_eq!(other.instances[0].anchor.encode().len(), 16);
}
