//! Instances that begin with a checkpoint. What follows is tested with whole clusters (check/sim).

use crate::config::NodeConfig;
use crate::effects::{Effects, Input};
use crate::group::{Birth, born};
use crate::keeping::{Found, In, Why};
use crate::node::tests::{Host, Nothing, joins, r};
use crate::recovered::Recovered;
use crate::restoring::Restoring;
use crate::roster::Roster;
use crate::system::{InstancePart, System};
use quorate_admit::{Executed, Terms};
use quorate_execute::Executor;
use quorate_log::Record;
use quorate_merge::Generation;
use quorate_order::Anchor;
use quorate_order::OrderMessage;
use quorate_order::raft::message::{Entry, EntryBody, Index, Position, RaftMessage};
use quorate_state::checkpoint::{Digests, Kind, Report};
use quorate_state::store::Store;
use quorate_types::{AgreedTime, ConnId, Digest, RecordId, RequestNumber, Room, SessionId, View};
use quorate_types::{InstanceId, Seq, Slot, Time};
use quorate_wire::{Batch, BatchHeader, RequestHeader, RequestKind, RequestProof};

fn anchor(index: u64, view: u64) -> Anchor {
    Anchor::decode(&[index.to_le_bytes(), view.to_le_bytes()].concat()).expect("an anchor")
}

fn batch(border: bool) -> Entry {
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    let batch = Batch::seal(
        bytes,
        BatchHeader { time: AgreedTime::ZERO, seed: 1, count: 0, border, base: None, ruling: None },
    );
    Entry { view: View::FIRST, body: EntryBody::Batch(batch) }
}

/// Where instance 3 begins.
fn third() -> Birth {
    Birth {
        id: InstanceId::new(3),
        record: Slot::ZERO,
        anchor: joins().order.next_stay(None, None).expect("an anchor"),
    }
}

/// A replica of two instances: the first decided six slots here, and the second has no leader. The last batch asks for a border.
fn waits(left: Option<Record>) -> Host {
    let config = NodeConfig { instances: 2, ..joins() };
    let mut restoring = Restoring::new(config.clone(), Recovered::default()).expect("there is no checkpoint");
    if let Some(record) = left {
        restoring.record(RecordId::FIRST, record).expect("it is one of ours");
    }
    let mut host = Host::restart(restoring, config);
    let conn = ConnId::new(1);
    host.is_dialed(conn, r(2));
    let start = Entry { view: View::FIRST, body: EntryBody::ViewStart };
    let batches = (1..=6).map(|slot| batch(slot == 6));
    let message = RaftMessage::AppendEntries {
        view: View::FIRST,
        previous: Position::ZERO,
        commit: Index::new(7),
        round: 0,
        entries: [start].into_iter().chain(batches).collect(),
    };
    host.hears(conn, &OrderMessage::of(message).frame(InstanceId::new(1)));
    assert_eq!(host.node.engine.merge().seq(), Seq::new(1), "the second instance is waited for");
    host
}

/// The others have three instances since slot 5, and a checkpoint of five slots, which is here now.
fn checkpoint(host: &mut Host) -> Input {
    let config = &host.node.config;
    let mut executor = Executor::new(Box::new(Nothing), config.sessions.clone(), config.start_time);
    executor.pass(Seq::new(11));
    let parts = executor.image().expect("it has no state");
    let part = |(id, record): (u16, u64)| InstancePart {
        instance: InstanceId::new(id),
        slot: Slot::new(5),
        record: Slot::new(record),
        offset: 0,
        anchor: anchor(record + 1, 1),
    };
    let system = System {
        cluster: config.members.cluster(),
        seq: Seq::new(11),
        border: 3,
        window: config.merge.window,
        generations: vec![Generation { instances: 3, first: Slot::new(5), base: Seq::new(8) }],
        instances: [(1, 5), (2, 5), (3, 1)].map(part).into(),
        roster: Roster::new(3),
        level: 3,
        service: quorate_types::ServiceName::NONE,
        executor: parts.system.into(),
        eras: crate::system::EraPart::FIRST,
    };
    let (seq, digest) = (system.seq, Digest::new([7; 32]));
    let digests = Digests { image: digest, state: digest };
    let (border, part, store) = (system.border, system.encode(), Store::new());
    let found = Found { seq, border, digests, system: part, store, why: Why::Behind, own: None };
    let fits = In::Examined { found: Box::new(found), verdict: Ok(Box::new(system)) };
    host.node.keep(Time::ZERO, fits, &mut Effects::new());
    Input::Kept(Report::Written { seq, digest, kind: Kind::Full, instead: None, bytes: 100 })
}

/// What the first instance decided before is executed, up to its border. The checkpoint at that border names all three instances.
fn went_on(host: &Host) {
    let node = &host.node;
    assert_eq!(node.engine.merge().seq(), Seq::new(12));
    let [image] = &host.images[..] else { panic!("there was one border") };
    assert_eq!(image.seq, Seq::new(12));
    let system = System::decode(&image.system).expect("a system part");
    let records: Vec<u64> = system.records().iter().map(|slot| slot.number()).collect();
    assert_eq!(records, [6, 5, 1]);
    let third = &node.groups[2];
    assert!(third.has_started() && !third.stay().unborn, "it takes part");
    assert_eq!((third.decided(), third.status().decided), (Slot::new(1), Slot::new(1)));
}

/// The log holds the third instance's stay from before a restart, and the state is older: the instance begins with the checkpoint.
/// Execution goes on at once, since more of the first instance was here already.
#[test]
fn an_instance_that_begins_with_a_checkpoint_stands_there_before_anything_is_executed() {
    let mut host = waits(Some(third().to_record()));
    assert_eq!(host.node.groups.stays().count(), 3, "it is known from the log");
    let written = checkpoint(&mut host);
    host.step(written);
    went_on(&host);
}

/// Whether a client's request for a session is taken into the next batch.
fn takes_an_opening(host: &mut Host) -> bool {
    let admission = host.node.groups[0].admission_mut().expect("it is on the main lane");
    let header = RequestHeader {
        session: SessionId::NONE,
        number: RequestNumber::new(77),
        lowest_unanswered: RequestNumber::ZERO,
        kind: RequestKind::OpenSession,
        len: 8,
        proof: RequestProof::None,
    };
    let mut bytes = Vec::new();
    header.write_to(&mut bytes);
    bytes.extend_from_slice(&9u64.to_le_bytes());
    let terms = Terms {
        in_flight: 0,
        room: Room::Data,
        room_soon: false,
        settled: false,
        forbids: false,
        answer_bytes_max: 1 << 20,
    };
    admission.requests(&bytes, terms, |_, _| Executed::NoSession, &mut Vec::new());
    admission.seal(BatchHeader::default()).is_some()
}

/// The first instance keeps its position, and the checkpoint has what it had in flight: the outcome is not known here.
#[test]
fn what_was_in_flight_when_a_checkpoint_came_may_come_again() {
    let mut host = waits(Some(third().to_record()));
    assert!(takes_an_opening(&mut host));
    assert!(!takes_an_opening(&mut host), "it is in flight");
    let written = checkpoint(&mut host);
    host.step(written);
    went_on(&host);
    assert!(takes_an_opening(&mut host));
}

/// The log had no room for the instance's beginning when the instance came in force; now a checkpoint lies behind that.
#[test]
fn an_instance_that_waits_for_room_begins_with_the_checkpoint() {
    let mut host = waits(None);
    let mut unborn = born(third(), &host.node.config, host.node.journal.volumes()).expect("an anchor");
    unborn.stay_mut().unborn = true;
    host.node.groups.push(unborn);
    let written = checkpoint(&mut host);
    host.step(written);
    went_on(&host);
    let birth = host.node.groups[2].stay().birth.as_ref().map(|birth| birth.record);
    assert_eq!(birth, Some(Slot::new(1)), "the log says so");
}
