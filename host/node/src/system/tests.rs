use super::*;
use crate::node::tests::Nothing;
use quorate_execute::{Executor, SessionLimits};
use quorate_merge::{Decided, Merge};
use quorate_state::checkpoint::Image;
use quorate_state::store::Store;
use quorate_types::{AgreedTime, MembershipId};
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
        service: ServiceName::NONE,
        executor: Bytes::from_static(b"sessions"),
        eras: EraPart::FIRST,
    }
}

/// What administrators commanded is there only once they did, so that the bytes of other clusters stay.
#[test]
fn what_administrators_commanded_is_read_and_written() {
    let mut system = system();
    for number in 1..=3 {
        system.roster.administration_mut().execute(number, "done".into());
    }
    let read = System::decode(&system.encode()).expect("what was written");
    assert_eq!(read, system);
    assert_eq!(read.roster.administration().executed(), 3);
}

/// Keys that members gave up are there only once there are some, and in one order.
#[test]
fn keys_that_were_given_up_are_read_and_written() {
    let system = system();
    let without = system.encode();
    let keys = vec![[3; 32], [7; 32]];
    let roster = system.roster.clone().with_former_keys(keys.clone()).expect("two keys");
    let system = System { roster, ..system };
    let read = System::decode(&system.encode()).expect("what was written");
    assert_eq!(read, system);
    assert_eq!(system.encode().order.len(), without.order.len() + 4 + 64);
    for wrong in [vec![], vec![[7; 32], [3; 32]], vec![[3; 32], [3; 32]]] {
        assert!(read.roster.clone().with_former_keys(wrong.clone()).is_err(), "{wrong:?}");
    }
    assert!(Roster::new(3).with_former_keys(keys).is_err(), "nothing changed yet");
}

/// The name of the service is there only if there is one, before what is there of eras.
#[test]
fn the_name_of_the_service_is_read_and_written() {
    let service = ServiceName::new("bank").expect("a name");
    for eras in [EraPart::FIRST, EraPart { number: 2, next: None }] {
        let unnamed = System { eras, ..system() };
        let named = System { service, ..unnamed.clone() };
        let bytes = named.encode();
        assert_eq!(bytes.order.len(), unnamed.encode().order.len() + 8 + 1 + 4);
        for len in 0..bytes.order.len() {
            let cut = SystemPart { order: bytes.order.slice(..len), execution: bytes.execution.clone() };
            // What comes last is not there in every one.
            assert!(
                System::decode(&cut).is_ok_and(|read| read.encode() == cut) || System::decode(&cut).is_err()
            );
        }
        assert_eq!(System::decode(&bytes), Ok(named));
    }
}

#[test]
fn what_is_written_is_read_back() {
    let system = system();
    assert_eq!(System::decode(&system.encode()), Ok(system));
}

#[test]
fn with_another_length_it_is_refused() {
    let SystemPart { order, execution } = system().encode();
    for len in 0..order.len() {
        let cut = SystemPart { order: order.slice(..len), execution: execution.clone() };
        assert!(System::decode(&cut).is_err(), "{len} bytes of {}", order.len());
    }
    let order = Bytes::from([&order[..], &[0]].concat());
    assert_eq!(
        System::decode(&SystemPart { order, execution }),
        Err("the system part is cut off"),
        "no era is so short"
    );
    let part = EraPart { number: 2, next: None };
    let SystemPart { order, execution } = System { eras: part, ..system() }.encode();
    let order = Bytes::from([&order[..], &[0]].concat());
    assert_eq!(System::decode(&SystemPart { order, execution }), Err("the system part is too long"));
}

#[test]
fn no_bytes_make_it_panic() {
    let bytes = system().encode();
    for at in 0..bytes.order.len() {
        for bit in 0..8 {
            let mut order = bytes.order.to_vec();
            order[at] ^= 1 << bit;
            let wrong = SystemPart { order: order.into(), execution: bytes.execution.clone() };
            // It may be refused; if it is taken, it is written the same way again.
            if let Ok(read) = System::decode(&wrong) {
                assert_eq!(read.encode(), wrong);
            }
        }
    }
}

fn rendered(bytes: &[u8]) -> String {
    let line =
        |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ") + "\n";
    bytes.chunks(16).map(line).collect()
}

fn hex(fixture: &str) -> Bytes {
    let bytes = fixture.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal"));
    bytes.collect::<Vec<u8>>().into()
}

/// The bytes of each version are pinned. When there is another version, these files stay as those of the first.
#[test]
fn bytes_of_version_1_are_read_and_written() {
    let several = System {
        window: 256,
        generations: vec![
            Generation { instances: 1, first: Slot::FIRST, base: Seq::ZERO },
            Generation { instances: 2, first: Slot::new(1200), base: Seq::new(1199) },
        ],
        instances: vec![InstancePart { record: Slot::new(998), offset: 2, ..system().instances.remove(0) }],
        ..system()
    };
    let fixtures = [
        (system(), include_str!("fixtures/one-instance.hex")),
        (several, include_str!("fixtures/several-instances.hex")),
    ];
    for (system, fixture) in fixtures {
        let SystemPart { order, execution } = system.encode();
        assert_eq!(rendered(&order), fixture);
        assert_eq!(System::decode(&SystemPart { order: hex(fixture), execution }), Ok(system));
    }
}

#[test]
fn other_versions_are_refused_and_said_to_be_such() {
    for version in [0, 2, 3, 4, 255] {
        let mut order = system().encode().order.to_vec();
        order[7] = version;
        let other = SystemPart { order: order.into(), ..SystemPart::default() };
        let why = System::decode(&other).expect_err("another version");
        assert!(why.contains("use the program of the version that wrote it"), "version {version}: {why}");
    }
    let mut order = system().encode().order.to_vec();
    order[0] ^= 1;
    let none = SystemPart { order: order.into(), ..SystemPart::default() };
    assert_eq!(System::decode(&none), Err("it is not the system part of a checkpoint"));
}

/// A state that is restored for other replicas does not name the former members.
#[test]
fn another_cluster_begins_with_its_own_members() {
    let mut other = system();
    assert_eq!(other.members(), [ReplicaId::new(1), ReplicaId::new(2)]);
    let members: Vec<ReplicaId> = (1..=4).map(ReplicaId::new).collect();
    assert!(other.begin_anew(ClusterId::new(5), Protocol::RAFT, &members).is_err(), "no half of execution");
    let service = Box::new(Nothing);
    let mut executor = Executor::new(service, SessionLimits::default(), AgreedTime::ZERO);
    other.executor = executor.image().expect("it gives its state").system.into();
    other.begin_anew(ClusterId::new(5), Protocol::RAFT, &members).expect("its own");
    assert_eq!((other.cluster, other.members().len()), (ClusterId::new(5), 4));
    assert_eq!(other.instances[0].anchor.encode().len(), 16);
}

/// The record within which the backup ends lies in the old cluster's log. The next one of the new cluster does not go on with it.
#[test]
fn another_cluster_begins_between_two_records() {
    let mut other = system();
    let part = |id: u16, record: u64, offset: u64| InstancePart {
        instance: InstanceId::new(id),
        slot: Slot::new(500),
        record: Slot::new(record),
        offset,
        anchor: Anchor::EMPTY,
    };
    other.generations = vec![Generation { instances: 2, first: Slot::FIRST, base: Seq::ZERO }];
    other.instances = vec![part(1, 500, 0), part(2, 400, 3)];
    let service = Box::new(Nothing);
    let mut executor = Executor::new(service, SessionLimits::default(), AgreedTime::ZERO);
    other.executor = executor.image().expect("it gives its state").system.into();
    let members = [ReplicaId::new(1)];
    other.begin_anew(ClusterId::new(5), Protocol::RAFT, &members).expect("its own");
    let config = quorate_merge::Config { window: 256, held_bytes_max: 1 << 20 };
    let checkpoint = other.merge(config.window).expect("a checkpoint");
    let mut merge = Merge::restore(config, &checkpoint).expect("it fits together");
    for (id, record) in [(1, 501), (2, 401)] {
        let batch = Decided::Batch { payload: (), bytes: 10 };
        merge
            .decided(InstanceId::new(id), RecordIndex(record), batch)
            .expect("the first batch of a new cluster");
    }
}

/// Two replicas that came to the same state by different orders.
#[test]
fn where_instances_stand_is_outside_the_digest_of_the_state() {
    let mut other = system();
    other.instances[0].anchor = Anchor::decode(&[8; 16]).expect("an anchor");
    other.roster = Roster::new(5);
    let image = |system: &System| {
        let (seq, border, objects) = (system.seq, system.border, Store::new().version());
        Image { seq, border, system: system.encode(), objects }
    };
    let (one, other) = (image(&system()).digests(), image(&other).digests());
    assert_eq!(one.state, other.state);
    assert_ne!(one.image, other.image);
}

/// By the protocol that ordered it, and by the keys of members.
#[test]
fn a_state_hints_at_whether_replicas_may_lie() {
    let of = |protocol: Protocol| {
        let mut system = system();
        for part in &mut system.instances {
            part.anchor = protocol.anchor_anew(part.record, &Anchor::EMPTY);
        }
        System::decode(&system.encode()).expect("what was written")
    };
    assert!(!of(Protocol::RAFT).may_be_of_liars());
    assert!(of(Protocol::MOD_SMART).may_be_of_liars());
    let mut keyed = of(Protocol::RAFT);
    let member = |id: u16| Member { key: Some([id as u8; 32]), ..Member::voter(ReplicaId::new(id)) };
    let membership = |number, ids: &[u16]| {
        let members = ids.iter().map(|id| member(*id)).collect();
        Membership::new(MembershipId::new(number), members).expect("a membership")
    };
    let change =
        Memberships::change(membership(1, &[1, 2]), membership(2, &[1, 2, 3])).expect("the next one");
    keyed.roster = Roster::new(2);
    keyed.roster.execute(SystemCommand::Change(change));
    keyed.roster.execute(SystemCommand::Changed(MembershipId::new(2)));
    assert!(keyed.may_be_of_liars());
}
