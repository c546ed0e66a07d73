//! One sample of every message of every protocol, used by the golden fixtures, the properties and the corpus.
#![allow(dead_code, reason = "each test file uses its own part")]

use quorate_order::OrderMessage;
use quorate_order::mod_smart::message::ModSmartMessage;
use quorate_order::raft::message::{AppendOutcome, Entry, EntryBody, Index, Position, RaftMessage};
use quorate_types::{
    AgreedTime, Incarnation, InstanceId, ItemsBuilder, MembershipId, Reject, ReplicaId, RequestNumber,
    SessionId, View,
};
use quorate_wire::{Batch, BatchHeader, Frame, Member, MemberRole, Membership, Memberships, write_request};
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) mod evidence;
pub(crate) mod mod_smart;
pub(crate) mod oracle;

/// A message whose bytes are pinned.
pub(crate) struct Sample {
    /// Name of the fixture, without `.hex`.
    pub(crate) name: String,
    /// What it is, in a sentence.
    pub(crate) story: &'static str,
    /// The message, of instance 1.
    pub(crate) message: OrderMessage,
}

impl Sample {
    /// The bytes of its frame.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.message.frame(InstanceId::new(1)).to_vec()
    }
}

/// Where the pinned bytes are.
pub(crate) fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// The corpus of a fuzz target.
pub(crate) fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

/// Whether the person who runs the tests approves of bytes that changed.
pub(crate) fn approved() -> bool {
    std::env::var_os("QUORATE_APPROVE").is_some_and(|value| value == "1")
}

/// A session that is told apart from its number by its bytes.
pub(crate) fn session() -> SessionId {
    SessionId { index: 5, generation: 2 }
}

fn items(strings: &[&str]) -> ItemsBuilder {
    let mut list = ItemsBuilder::new();
    strings.iter().for_each(|s| list.push(s.as_bytes()));
    list
}

/// A request with these commands.
pub(crate) fn request(number: u64, commands: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    let lowest = RequestNumber::new(number.saturating_sub(1));
    write_request(&mut out, session(), RequestNumber::new(number), lowest, &items(commands));
    out
}

/// A batch with these requests.
pub(crate) fn batch(requests: &[Vec<u8>]) -> Batch {
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    requests.iter().for_each(|request| bytes.extend_from_slice(request));
    let header = BatchHeader {
        time: AgreedTime::from_nanos(1_700_000_000_000_000_000),
        base: None,
        ruling: None,
        seed: 0x5eed,
        count: requests.len() as u32,
        border: false,
    };
    Batch::seal(bytes, header)
}

/// Replica 4, so far a learner, takes the place of replica 3.
pub(crate) fn a_change() -> Memberships {
    let member = |replica, role| Member {
        replica: ReplicaId::new(replica),
        role,
        address: format!("r{replica}.example:7400"),
        incarnation: Incarnation::new(0x100 + u64::from(replica)),
        life: 0x11,
        key: None,
    };
    let (voter, learner) = (MemberRole::Voter, MemberRole::Learner);
    let before = [(1, voter), (2, voter), (3, voter), (4, learner)];
    let now = [(1, voter), (2, voter), (4, voter)];
    let of = |number, members: &[(u16, MemberRole)]| {
        let members = members.iter().map(|(id, role)| member(*id, *role)).collect();
        Membership::new(MembershipId::new(number), members).expect("a membership")
    };
    Memberships::change(of(2, &before), of(3, &now)).expect("the next one")
}

/// Every message of Raft, some of them in more than one form.
pub(crate) fn raft_messages() -> Vec<(&'static str, &'static str, RaftMessage)> {
    let (view, previous) = (View::new(9), Position::new(Index::new(41), View::new(8)));
    let entry = |view, body| Entry { view: View::new(view), body };
    let append =
        |entries| RaftMessage::AppendEntries { view, previous, commit: Index::new(40), round: 3, entries };
    let reply = |outcome| RaftMessage::AppendEntriesReply { view, round: 3, outcome };
    let vote = |pre, transfer| RaftMessage::RequestVote { view, last: previous, pre, transfer };
    let answer = |granted, pre| RaftMessage::RequestVoteReply { view, granted, pre };
    let read = |slot| RaftMessage::ReadIndexReply { view, read: 12, slot };
    vec![
        ("request_vote", "A candidate asks for a vote.", vote(false, false)),
        ("request_vote_pre", "It only asks whether it would get one.", vote(true, false)),
        ("request_vote_transfer", "The leader asked for this election.", vote(false, true)),
        ("request_vote_reply_granted", "The vote.", answer(true, false)),
        ("request_vote_reply_refused", "No vote.", answer(false, false)),
        ("request_vote_reply_pre", "It would get the vote.", answer(true, true)),
        ("append_entries_heartbeat", "No entries: a heartbeat.", append(vec![])),
        (
            "append_entries",
            "The first record of view 9, then a batch.",
            append(vec![
                entry(9, EntryBody::ViewStart),
                entry(9, EntryBody::Batch(batch(&[request(7, &["put a 1"])]))),
            ]),
        ),
        (
            "append_entries_members",
            "A change of the membership begins: replica 4 takes the place of 3.",
            append(vec![entry(9, EntryBody::Members(Arc::new(a_change())))]),
        ),
        (
            "append_entries_reply_matched",
            "Equal and durable up to index 43.",
            reply(AppendOutcome::Matched(Index::new(43))),
        ),
        (
            "append_entries_reply_rejected",
            "Index 41 is not there; look at 30 of view 7 next.",
            reply(AppendOutcome::Rejected {
                asked: Index::new(41),
                hint: Position::new(Index::new(30), View::new(7)),
            }),
        ),
        (
            "needs_checkpoint",
            "The follower lacks entries before position 30@2, which the leader does not have any more.",
            RaftMessage::NeedsCheckpoint {
                view,
                previous: Position::new(Index::new(30), View::new(2)),
                round: 9,
                slot: 28,
            },
        ),
        ("timeout_now", "The leader hands over.", RaftMessage::TimeoutNow { view }),
        ("read_index", "A follower asks on behalf of reads.", RaftMessage::ReadIndex { view, read: 12 }),
        ("read_index_reply", "Wait for slot 38.", read(Some(38))),
        ("read_index_reply_not_leading", "Ask somebody else.", read(None)),
    ]
}

/// Every sample; their names are unique.
pub(crate) fn samples() -> Vec<Sample> {
    let raft = raft_messages().into_iter().map(|(name, story, message)| Sample {
        name: format!("order_raft_{name}"),
        story,
        message: OrderMessage::of(message),
    });
    let mod_smart = mod_smart::messages().into_iter().map(|(name, story, message)| Sample {
        name: format!("order_mod_smart_{name}"),
        story,
        message: OrderMessage::of(message),
    });
    raft.chain(mod_smart).collect()
}

/// Decodes a frame and says what is in it.
pub(crate) fn describe(frame: Frame) -> Result<String, Reject> {
    let (instance, message) = quorate_order::protocols::decode(frame.payload)?;
    let line = match message.get::<RaftMessage>() {
        Some(message) => raft_line(message),
        None => mod_smart::line(message.get::<ModSmartMessage>().expect("there are two protocols")),
    };
    Ok(format!("{instance} {line}"))
}

/// A message without the bytes of its batches.
fn raft_line(message: &RaftMessage) -> String {
    let RaftMessage::AppendEntries { view, previous, commit, round, entries } = message else {
        return format!("{message:?}");
    };
    let entries: Vec<String> = entries
        .iter()
        .map(|entry| match &entry.body {
            EntryBody::ViewStart => format!("{:?} ViewStart", entry.view),
            EntryBody::Batch(batch) => format!("{:?} {:?}", entry.view, batch.header()),
            EntryBody::Members(memberships) => format!("{:?} {memberships:?}", entry.view),
        })
        .collect();
    format!(
        "AppendEntries {{ view: {view:?}, previous: {previous}, commit: {commit}, round: {round}, entries: {entries:?} }}"
    )
}

/// What a reader with this limit makes of bytes that arrive at once.
pub(crate) fn read_whole(bytes: &[u8], limit: u32) -> Result<Option<Frame>, Reject> {
    let mut reader = quorate_wire::FrameReader::new(limit);
    reader.push(bytes);
    reader.frame()
}
