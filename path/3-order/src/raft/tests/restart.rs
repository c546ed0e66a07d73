//! What comes back from the log, and what is refused.

use super::one::{One, append, ask_vote, at, entry, sent_to, start_of, vote};
use super::world::replica;
use crate::raft::message::{Entry, Index, RaftMessage};
use crate::raft::persist::entry_record;
use crate::raft::{RECORD_VOTE, Raft, RaftConfig};
use crate::{Order, Stored};
use bytes::Bytes;
use quorate_types::{Halt, RecordId};

fn same(config: RaftConfig) -> RaftConfig {
    config
}

/// A vote survives a restart: the view's vote goes to nobody else.
#[test]
fn a_vote_survives_a_restart() {
    let mut one = One::new(3);
    one.receive(1, ask_vote(1, at(0, 0)));
    let mut again = One::restored(3, one.disk, same);
    let refused = RaftMessage::RequestVoteReply { view: super::one::view(1), granted: false, pre: false };
    assert_eq!(sent_to(&again.receive(2, ask_vote(1, at(0, 0))), 2), (None, refused));
    assert_eq!(sent_to(&again.receive(1, ask_vote(1, at(0, 0))), 1), (None, vote(1, true)));
}

/// A replacement on disk shortens the log that comes back; numbering of records goes on.
#[test]
fn a_replaced_suffix_stays_replaced() {
    let mut one = One::new(3);
    one.receive(1, append(1, at(0, 0), 0, vec![start_of(1), entry(1, 1), entry(1, 2), entry(1, 3)]));
    one.receive(2, append(2, at(2, 1), 0, vec![start_of(2)]));
    let mut again = One::restored(3, one.disk, same);
    assert_eq!(again.raft.store.log().last(), at(3, 2));
    assert_eq!(again.raft.store.log().durable(), Index::new(3));
    assert_eq!(again.raft.status().decided.number(), 0, "what is decided is learned anew");
    let decided = super::one::decided(&again.receive(2, append(2, at(3, 2), 3, vec![])));
    assert_eq!(decided, vec![1]);
}

fn vote_head(view: u64, voted: u8, to: u16) -> Stored {
    let mut head = view.to_le_bytes().to_vec();
    head.push(voted);
    head.extend_from_slice(&to.to_le_bytes());
    Stored { kind: RECORD_VOTE, head: Bytes::from(head), payload: Bytes::new() }
}
fn record(index: u64, entry: &Entry) -> Stored {
    entry_record(Index::new(index), entry)
}
fn restore(records: &[Stored]) -> Result<(), Halt> {
    let mut raft = Raft::new(RaftConfig::new(replica(0), vec![replica(0), replica(1)], 1));
    records.iter().zip(1..).try_for_each(|(record, id)| raft.restore(RecordId::new(id), record.clone()))
}

/// Records that do not fit together are no log: the replica must not take part with it.
#[test]
fn records_that_do_not_fit_halt() {
    let in_view = |view| vote_head(view, 0, 0);
    let good = [in_view(1), vote_head(1, 1, 1), record(1, &start_of(1)), in_view(2), record(1, &start_of(2))];
    restore(&good).expect("records that fit");
    let torn =
        |record: &Stored| Stored { head: record.head.slice(..record.head.len() - 1), ..record.clone() };
    let bad: [(&str, Vec<Stored>); 12] = [
        ("a gap", vec![in_view(1), record(2, &start_of(1))]),
        ("index zero", vec![in_view(1), record(0, &start_of(1))]),
        ("an entry of a view that was not entered", vec![in_view(1), record(1, &start_of(2))]),
        ("an entry of no view", vec![record(1, &start_of(0))]),
        ("views that go back", vec![in_view(2), record(1, &start_of(2)), record(2, &entry(1, 1))]),
        ("a view that goes back", vec![in_view(2), in_view(1)]),
        ("the same view twice", vec![in_view(2), in_view(2)]),
        ("two votes", vec![vote_head(2, 1, 0), vote_head(2, 1, 1)]),
        ("a torn vote", vec![torn(&in_view(1))]),
        ("a torn entry", vec![in_view(1), torn(&record(1, &start_of(1)))]),
        ("an unknown kind", vec![Stored { kind: 9, ..in_view(1) }]),
        (
            "a batch that is none",
            vec![in_view(1), Stored { payload: Bytes::from_static(b"x"), ..record(1, &entry(1, 1)) }],
        ),
    ];
    for (what, records) in bad {
        assert!(matches!(restore(&records), Err(Halt::LogInconsistent { .. })), "{what}");
    }
    let mut raft = Raft::new(RaftConfig::new(replica(0), vec![replica(0)], 1));
    assert!(raft.restore(RecordId::new(2), in_view(1)).is_err(), "a record is missing");
}
