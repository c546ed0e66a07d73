//! Commands and requests come back as they were; clients can not send the former.

use super::{Holds, MemberRequest, SystemCommand, members_frame};
use crate::{Batch, BatchHeader, ClientMessage, Frame, FrameKind, Memberships};
use bytes::Bytes;
use quorate_types::{AgreedTime, Incarnation, MembershipId, ReplicaId, Slot, View};

fn id(number: u16) -> ReplicaId {
    ReplicaId::new(number)
}

fn commands() -> [SystemCommand; 7] {
    let created = Memberships::created(&[id(1), id(2)]);
    let changed = SystemCommand::Changed(MembershipId::new(7));
    let (since, begins, leader) = (Slot::new(6), View::new(1 << 41), id(2));
    let holds = SystemCommand::Holds(Holds { change: created.clone(), since, begins, leader });
    let back = SystemCommand::Back(vec![(id(2), 5), (id(3), u64::MAX)]);
    let (raise, instances) = (SystemCommand::Raise(2), SystemCommand::Instances(4));
    [SystemCommand::Change(created), changed, raise, instances, holds, back, SystemCommand::RaiseService(3)]
}

fn batch(command: &SystemCommand) -> Batch {
    command.batch(BatchHeader {
        time: AgreedTime::ZERO,
        seed: 3,
        count: 0,
        border: false,
        base: None,
        ruling: None,
    })
}

#[test]
fn a_batch_holds_one_command() {
    for command in commands() {
        let batch = batch(&command);
        let again = Batch::decode(batch.bytes().clone()).expect("a batch");
        assert_eq!(SystemCommand::of(&again), Some(command));
    }
}

#[test]
fn a_client_that_sends_one_is_refused() {
    for command in commands() {
        let payload = batch(&command).bytes().slice(Batch::HEADER..);
        assert!(ClientMessage::decode(Frame { kind: FrameKind::Requests, payload }).is_err());
    }
}

#[test]
fn requests_come_back() {
    let (address, incarnation) = ("a:1".to_owned(), Incarnation::new(5));
    let all = [
        MemberRequest::Add { replica: id(4), address: address.clone(), incarnation, key: None },
        MemberRequest::Add { replica: id(4), address: address.clone(), incarnation, key: Some([7; 32]) },
        MemberRequest::Promote(id(4)),
        MemberRequest::Remove(id(1)),
        MemberRequest::Replace { old: id(1), new: id(4) },
        MemberRequest::Rekey { replica: id(2), key: [9; 32] },
        MemberRequest::Move { replica: id(2), address },
    ];
    for request in all {
        let bytes = Bytes::from(request.frame().to_vec()).slice(crate::FRAME_HEADER..);
        assert_eq!(MemberRequest::decode(bytes.clone()), Ok(request));
        assert!(MemberRequest::decode(bytes.slice(..9)).is_err());
    }
    assert!(MemberRequest::decode(Bytes::from_static(&[9; 13])).is_err());
    let created = Memberships::created(&[id(1)]);
    let bytes = Bytes::from(members_frame(&created).to_vec()).slice(crate::FRAME_HEADER..);
    assert_eq!(Memberships::decode(bytes), Ok(created));
}
