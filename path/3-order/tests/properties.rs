//! Properties of Raft's messages over random ones: what is encoded decodes to the same, what a peer sends never panics, and
//! nothing is allocated because a peer announced it.

mod common;

use bytes::Bytes;
use common::{batch, read_whole, request, samples};
use proptest::prelude::*;
use quorate_order::raft::message::{
    AppendOutcome, ENTRIES_MAX, Entry, EntryBody, Index, Position, RaftMessage,
};
use quorate_order::{OrderMessage, protocols};
use quorate_types::{InstanceId, View};
use quorate_wire::{Batch, FRAME_HEADER, OutFrame};
use std::sync::Arc;

const LIMIT: u32 = 1 << 20;

fn a_batch() -> impl Strategy<Value = Batch> {
    let command = "[a-z]{0,12}";
    let requests = prop::collection::vec((any::<u64>(), prop::collection::vec(command, 0..4)), 0..4);
    requests.prop_map(|requests| {
        let one = |(number, commands): &(u64, Vec<String>)| {
            request(*number, &commands.iter().map(String::as_str).collect::<Vec<_>>())
        };
        batch(&requests.iter().map(one).collect::<Vec<_>>())
    })
}

fn position() -> impl Strategy<Value = Position> {
    (any::<u64>(), any::<u64>()).prop_map(|(index, view)| Position::new(Index::new(index), View::new(view)))
}

/// Entries whose views rise from `previous` to the message's, as a decoder asks for.
fn append() -> impl Strategy<Value = RaftMessage> {
    let entry = (any::<u64>(), prop::option::of(a_batch()));
    let entries = prop::collection::vec(entry, 0..5);
    (position(), any::<u64>(), any::<u64>(), any::<u64>(), entries).prop_map(
        |(mut previous, commit, round, view, entries)| {
            let mut views: Vec<u64> = entries.iter().map(|(view, _)| *view).collect();
            views.extend([previous.view.number(), view]);
            views.sort_unstable();
            previous.view = View::new(views[0]);
            let body = |(at, (_, batch)): (usize, (u64, Option<_>))| match batch {
                Some(batch) => EntryBody::Batch(batch),
                None if at % 2 == 0 => EntryBody::ViewStart,
                None => EntryBody::Members(Arc::new(common::a_change())),
            };
            let bodies = entries.into_iter().enumerate().map(body);
            let entries =
                views[1..].iter().zip(bodies).map(|(v, body)| Entry { view: View::new(*v), body }).collect();
            let view = View::new(views[views.len() - 1]);
            RaftMessage::AppendEntries { view, previous, commit: Index::new(commit), round, entries }
        },
    )
}

fn outcome() -> impl Strategy<Value = AppendOutcome> {
    prop_oneof![
        any::<u64>().prop_map(|index| AppendOutcome::Matched(Index::new(index))),
        (any::<u64>(), position())
            .prop_map(|(asked, hint)| AppendOutcome::Rejected { asked: Index::new(asked), hint }),
    ]
}

fn raft() -> impl Strategy<Value = RaftMessage> {
    let view = || any::<u64>().prop_map(View::new);
    prop_oneof![
        (view(), position(), any::<bool>(), any::<bool>())
            .prop_map(|(view, last, pre, transfer)| RaftMessage::RequestVote { view, last, pre, transfer }),
        (view(), any::<bool>(), any::<bool>())
            .prop_map(|(view, granted, pre)| RaftMessage::RequestVoteReply { view, granted, pre }),
        append(),
        (view(), any::<u64>(), outcome())
            .prop_map(|(view, round, outcome)| RaftMessage::AppendEntriesReply { view, round, outcome }),
        (view(), position(), any::<u64>(), any::<u64>()).prop_map(|(view, previous, round, slot)| {
            RaftMessage::NeedsCheckpoint { view, previous, round, slot }
        }),
        view().prop_map(|view| RaftMessage::TimeoutNow { view }),
        (view(), any::<u64>()).prop_map(|(view, read)| RaftMessage::ReadIndex { view, read }),
        (view(), any::<u64>(), any::<Option<u64>>())
            .prop_map(|(view, read, slot)| RaftMessage::ReadIndexReply { view, read, slot }),
    ]
}

fn payload_of(frame: &OutFrame) -> Bytes {
    read_whole(&frame.to_vec(), LIMIT).expect("what we encode is intact").expect("and whole").payload
}

proptest! {
    #[test]
    fn ordering_messages_survive_the_wire(message in raft(), instance in any::<u16>()) {
        let (instance, message) = (InstanceId::new(instance), OrderMessage::of(message));
        let payload = payload_of(&message.frame(instance));
        prop_assert_eq!(protocols::decode(payload), Ok((instance, message)));
    }

    /// Messages whose checksums are right and whose content is cut off or damaged: decoders refuse or accept, and what they
    /// accept encodes to the same again (`fuzzing` asserts it).
    #[test]
    fn damaged_messages_never_panic(
        pick in any::<prop::sample::Index>(), cut in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let samples = samples();
        let payload = Bytes::from(pick.get(&samples).bytes()).slice(FRAME_HEADER..);
        let mut bytes = payload[..cut.index(payload.len() + 1)].to_vec();
        for (at, byte) in damage {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        quorate_order::fuzzing::message(&bytes);
    }
}

/// Entries that a message announces and does not have are refused, up to numbers whose product would overflow.
#[test]
fn announced_entries_are_counted_before_room_is_made() {
    let message = RaftMessage::AppendEntries {
        view: View::new(9),
        previous: Position::ZERO,
        commit: Index::ZERO,
        round: 1,
        entries: vec![],
    };
    let payload = payload_of(&OrderMessage::of(message).frame(InstanceId::new(1)));
    for count in [1, ENTRIES_MAX as u32, ENTRIES_MAX as u32 + 1, u32::MAX] {
        let mut bytes = payload.to_vec();
        let at = bytes.len() - 4;
        bytes[at..].copy_from_slice(&count.to_le_bytes());
        assert!(protocols::decode(bytes.into()).is_err(), "{count} entries");
    }
}

/// Views in a message never fall and never pass the leader's: a log built from messages stays in order.
#[test]
fn entries_out_of_order_are_refused() {
    let entry = |view| Entry { view: View::new(view), body: EntryBody::ViewStart };
    let decode = |previous, views: &[u64]| {
        let message = RaftMessage::AppendEntries {
            view: View::new(5),
            previous: Position::new(Index::new(10), View::new(previous)),
            commit: Index::ZERO,
            round: 1,
            entries: views.iter().copied().map(entry).collect(),
        };
        protocols::decode(payload_of(&OrderMessage::of(message).frame(InstanceId::new(1))))
    };
    assert!(decode(2, &[2, 3, 5]).is_ok());
    assert!(decode(2, &[1]).is_err(), "below the view before it");
    assert!(decode(2, &[4, 3]).is_err(), "falls");
    assert!(decode(2, &[6]).is_err(), "above the leader's");
}

/// Every strict prefix of every message is refused: no length is taken on trust, and nothing is optional at the end.
#[test]
fn a_message_that_is_cut_off_is_refused() {
    for sample in samples() {
        let payload = Bytes::from(sample.bytes()).slice(FRAME_HEADER..);
        for end in 0..payload.len() {
            assert!(
                protocols::decode(payload.slice(..end)).is_err(),
                "{} cut after {end} bytes",
                sample.name
            );
        }
    }
}
