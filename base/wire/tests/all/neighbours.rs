//! Samples of what services that ask each other send.

use crate::common::{Sample, request_of, session};
use bytes::Bytes;
use quorate_types::{ClusterId, ReplicaId};
use quorate_wire::{
    FrameKind, Neighbour, NeighbourCommand, OutFrame, Relation, ReplyStatus, RequestKind, SystemCommand,
    copies_frame, seen_frame, write_answer, write_asked, write_nested,
};

fn commands() -> [u8; 10] {
    [1, 0, 0, 0, 2, 0, 0, 0, b'h', b'i']
}

fn neighbour() -> Neighbour {
    Neighbour {
        relation: Relation::Backend,
        service: 2,
        name: "bank".into(),
        cluster: ClusterId::new(0x77),
        faulty: 1,
        lying: 1,
        sessions: 2,
        members: (1..=4).map(|id| (ReplicaId::new(id), format!("bank-{id}:7000"))).collect(),
    }
}

/// Requests that stand in the log, and that no client sends.
pub(crate) fn ordered() -> Vec<Vec<u8>> {
    vec![
        request_of(RequestKind::Nested, session(), 3, &write_nested([1, 4].into_iter(), &commands())),
        request_of(RequestKind::Answer, session(), 4, &write_answer(ReplyStatus::Done, &commands())),
        SystemCommand::Neighbour(NeighbourCommand::Allow(neighbour())).request(),
    ]
}

pub(crate) fn samples() -> Vec<Sample> {
    let sample = |name: &str, story, frame| Sample { name: name.into(), story, frame };
    let asked = write_asked(3, &write_nested([1, 4].into_iter(), &commands()));
    let answers = [(5, write_answer(ReplyStatus::Done, &commands())), (6, Bytes::new())];
    let allow = NeighbourCommand::Allow(neighbour());
    let reply = OutFrame::new(FrameKind::NeighbourReply, b"begun", vec![]);
    vec![
        sample(
            "copies_asked",
            "A member of a caller sends its nested request 7.",
            copies_frame(&[(7, asked)]),
        ),
        sample(
            "copies_answers",
            "A member of a backend sends answers; one says nothing.",
            copies_frame(&answers),
        ),
        sample("seen", "The sender is done with everything before position 8.", seen_frame(8)),
        sample("neighbour_allow", "An operator makes a bank a backend.", allow.frame()),
        sample(
            "neighbour_forget",
            "An operator ends that a service may ask.",
            NeighbourCommand::Forget(Relation::Caller, 1).frame(),
        ),
        sample("neighbour_reply", "The answer is a line of text.", reply),
    ]
}
