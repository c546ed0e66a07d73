//! The messages between clients and replicas. A frame holds many requests or replies.
//!
//! ```text
//! reply        0         8        16       17     20       24
//!              | session | number | status | zero | length | body ...
//! read         0      8            16            17     20       24
//!              | read | seen seq   | consistency | zero | length | query ...
//! read reply   0      8            16       17     20       24
//!              | read | seq        | status | zero | length | reply ...
//! ```

use crate::answers::AnswerMode;
use crate::batch::{REQUEST_HEADER, RequestHeader, RequestKind, RequestProof, Requests};
use crate::chain::{Chain, read_chain_request};
use crate::codec::{Put, Reader};
use crate::era::EraNotice;
use crate::frame::{Frame, FrameKind, OutFrame};
use crate::keys::{SharedKey, read_keys};
use crate::letters::{LetterFrame, Listen, read_listens};
use crate::membership::Memberships;
use crate::neighbours::{read_copies, read_seen};
use bytes::Bytes;
use quorate_types::{ItemsBuilder, MembershipId, Reject, ReplicaId, RequestNumber, Seq, SessionId, View};

/// Bytes of the fixed part of replies, reads and read replies.
const HEADER: usize = 24;

/// What a client sends after the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMessage {
    /// Requests of its sessions, one after the other; walk them with [`Requests`].
    Requests(Bytes),
    /// Reads; walk them with [`ReadRequest::walk`].
    Reads(Bytes),
    /// The keys that it shares with this replica.
    Keys(Vec<SharedKey>),
    /// How the replica is to answer requests from now on.
    AnswerMode(AnswerMode),
    /// In which of its sessions it listens for letters.
    Listen(Vec<Listen>),
    /// It asks for the membership links after this membership.
    Chain(MembershipId),
    /// It is a member of another service that asks this one, and sends copies of nested requests.
    Copies(Vec<(u64, Bytes)>),
    /// It is such a member, and is done with the answers before this position.
    Seen(u64),
}

impl ClientMessage {
    /// Reads what a client sent and checks it from end to end.
    ///
    /// # Errors
    /// When a client may not send such a frame, or it can not be decoded.
    pub fn decode(frame: Frame) -> Result<Self, Reject> {
        match frame.kind {
            FrameKind::Requests => {
                Requests::new(&frame.payload).try_for_each(|request| match request?.0.kind {
                    RequestKind::System => Err(Reject::NotAllowed("a command to the engine from a client")),
                    kind if kind.is_of_clients() => Ok(()),
                    _ => Err(Reject::NotAllowed("what only the members of another service say together")),
                })?;
                Ok(Self::Requests(frame.payload))
            }
            FrameKind::Reads => {
                ReadRequest::walk(&frame.payload).try_for_each(|read| read.map(drop))?;
                Ok(Self::Reads(frame.payload))
            }
            FrameKind::Keys => read_keys(frame.payload).map(Self::Keys),
            FrameKind::AnswerMode => AnswerMode::decode(&frame.payload).map(Self::AnswerMode),
            FrameKind::Listen => read_listens(frame.payload).map(Self::Listen),
            FrameKind::ChainRequest => read_chain_request(frame.payload).map(Self::Chain),
            FrameKind::Copies => read_copies(frame.payload).map(Self::Copies),
            FrameKind::Seen => read_seen(frame.payload).map(Self::Seen),
            _ => Err(Reject::NotAllowed("this kind of frame from a client")),
        }
    }
}

/// Reads requests that a member heard from clients, or from enough members of another service, and tells of.
///
/// # Errors
/// When they can not be decoded, or one is a command to the engine.
pub fn read_forwarded(payload: Bytes) -> Result<Bytes, Reject> {
    Requests::new(&payload).try_for_each(|request| match request?.0.kind {
        RequestKind::System => Err(Reject::NotAllowed("a command to the engine from a client")),
        _ => Ok(()),
    })?;
    Ok(payload)
}

/// What a replica sends to a client after the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaMessage {
    /// Replies to requests; walk them with [`Reply::walk`].
    Replies(Bytes),
    /// Replies to reads; walk them with [`ReadReply::walk`].
    ReadReplies(Bytes),
    /// The leader.
    Leader(LeaderNotice),
    /// The members.
    Members(Memberships),
    /// The era that the sender is in.
    Era(EraNotice),
    /// Letters; walk them with [`LetterFrame::walk`].
    Letters(Bytes),
    /// Membership links.
    Chain(Chain),
}

impl ReplicaMessage {
    /// Reads what a replica sent and checks it from end to end.
    ///
    /// # Errors
    /// When a replica may not send such a frame, or it can not be decoded.
    pub fn decode(frame: Frame) -> Result<Self, Reject> {
        match frame.kind {
            FrameKind::Replies => {
                Reply::walk(&frame.payload).try_for_each(|reply| reply.map(drop))?;
                Ok(Self::Replies(frame.payload))
            }
            FrameKind::ReadReplies => {
                ReadReply::walk(&frame.payload).try_for_each(|reply| reply.map(drop))?;
                Ok(Self::ReadReplies(frame.payload))
            }
            FrameKind::Leader => LeaderNotice::decode(frame.payload).map(Self::Leader),
            FrameKind::Letters => {
                LetterFrame::walk(&frame.payload).try_for_each(|letter| letter.map(drop))?;
                Ok(Self::Letters(frame.payload))
            }
            FrameKind::Members => Memberships::decode(frame.payload).map(Self::Members),
            FrameKind::Era => EraNotice::decode(frame.payload).map(Self::Era),
            FrameKind::Chain => Chain::decode(frame.payload).map(Self::Chain),
            _ => Err(Reject::NotAllowed("this kind of frame from a replica")),
        }
    }
}

/// Appends a request with one command list to a buffer that becomes a [`FrameKind::Requests`] frame.
///
/// # Panics
/// When the commands are 4 GiB or more.
pub fn write_request(
    out: &mut Vec<u8>,
    session: SessionId,
    number: RequestNumber,
    lowest_unanswered: RequestNumber,
    commands: &ItemsBuilder,
) {
    let len = u32::try_from(commands.encoded_len()).expect("a request is under 4 GiB");
    out.reserve(REQUEST_HEADER + commands.encoded_len());
    RequestHeader {
        session,
        number,
        lowest_unanswered,
        kind: RequestKind::Commands,
        len,
        proof: RequestProof::None,
    }
    .write_to(out);
    commands.write_to(out);
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReplyStatus {
    /// Executed; the body is the list of replies.
    Done = 1,
    /// The session is open: the reply's session is the new one, its number the nonce, the body empty.
    SessionOpened = 2,
    /// The session is unknown, was closed, or expired; the request was not executed.
    SessionExpired = 3,
    /// Numbers before this one are missing; the body is the number expected (8 bytes). Not executed.
    ExpectedNumber = 4,
    /// No room now; not executed. Later requests of the session are also refused until this one is sent again.
    Overloaded = 5,
    /// Over a size limit. The body is a text that says which. It begins with "executed" when only the reply was too large, otherwise with
    /// "not executed".
    TooLarge = 6,
    /// No more sessions are opened now, for this client or at all.
    SessionLimit = 7,
    /// The disk has no room for writes; not executed. The client may send it again; the state ends when there is room.
    DiskFull = 8,
    /// Executed earlier. The reply is forgotten, since the client said that it has it.
    ReplyForgotten = 9,
    /// The client has no right to do that; not executed. The body is a text.
    Forbidden = 10,
    /// No reply, but the end of a frame of replies: when they were sent, everything up to the seq `number` was executed, with the requests
    /// that they answer. Without a session or a body.
    Position = 11,
    /// Executed. The body is the digest of the list of replies ([`reply_digest`](crate::reply_digest)), which another replica sends.
    DoneDigest = 12,
}

impl ReplyStatus {
    /// The status with this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Done),
            2 => Some(Self::SessionOpened),
            3 => Some(Self::SessionExpired),
            4 => Some(Self::ExpectedNumber),
            5 => Some(Self::Overloaded),
            6 => Some(Self::TooLarge),
            7 => Some(Self::SessionLimit),
            8 => Some(Self::DiskFull),
            9 => Some(Self::ReplyForgotten),
            10 => Some(Self::Forbidden),
            11 => Some(Self::Position),
            12 => Some(Self::DoneDigest),
            _ => None,
        }
    }
}

/// The answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The session.
    pub session: SessionId,
    /// The number of the request.
    pub number: RequestNumber,
    /// The result.
    pub status: ReplyStatus,
    /// The body that belongs to the status.
    pub body: &'a [u8],
}

/// Appends the end of a frame of replies: how far the replica had executed when they were sent.
pub fn write_position(out: &mut Vec<u8>, executed: Seq) {
    let number = RequestNumber::new(executed.number());
    reply_header(out, SessionId::NONE, number, ReplyStatus::Position, 0);
}

/// Appends the fixed part of a reply whose body of `len` bytes the caller appends next.
pub fn reply_header(
    out: &mut Vec<u8>,
    session: SessionId,
    number: RequestNumber,
    status: ReplyStatus,
    len: usize,
) {
    out.put_u64(session.number());
    out.put_u64(number.number());
    put_tail(out, status as u8, len);
}

/// Appends the fixed part of a message whose body of `len` bytes the caller appends next.
pub(crate) fn put_header(out: &mut Vec<u8>, (first, second): (u64, u64), byte: u8, len: usize) {
    out.put_u64(first);
    out.put_u64(second);
    put_tail(out, byte, len);
}

/// The second half of the fixed parts: one byte, three zero bytes, and the length.
fn put_tail(out: &mut Vec<u8>, byte: u8, len: usize) {
    out.put_u8(byte);
    out.extend_from_slice(&[0; 3]);
    out.put_u32(u32::try_from(len).expect("a message is under 4 GiB"));
}

impl<'a> Reply<'a> {
    /// Appends this reply.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        reply_header(out, self.session, self.number, self.status, self.body.len());
        out.extend_from_slice(self.body);
    }
    /// Iterates over the replies in a frame.
    pub fn walk(bytes: &'a [u8]) -> impl Iterator<Item = Result<Self, Reject>> {
        walk(bytes, "reply").map(|item| {
            let item = item?;
            Ok(Self {
                session: SessionId::from_number(item.first),
                number: RequestNumber::new(item.second),
                status: ReplyStatus::from_number(item.byte).ok_or(Reject::Malformed("reply: status"))?,
                body: item.body,
            })
        })
    }
}

/// How recent the state must be from which a read is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReadConsistency {
    /// Linearizable: sees every write that was acknowledged before the read was asked.
    Strong = 1,
    /// A consistent state of that replica, at least as new as the seq that the client has seen.
    Weak = 2,
}

/// One read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest<'a> {
    /// The client's number for it; unique on the connection.
    pub read: u64,
    /// The highest seq that this client saw. The answer must not be older.
    pub seen: Seq,
    /// How recent the state must be.
    pub consistency: ReadConsistency,
    /// The query for the service.
    pub query: &'a [u8],
}

/// Appends one read to a buffer that becomes a [`FrameKind::Reads`] frame.
pub fn write_read_request(out: &mut Vec<u8>, read: &ReadRequest<'_>) {
    out.put_u64(read.read);
    out.put_u64(read.seen.number());
    put_tail(out, read.consistency as u8, read.query.len());
    out.extend_from_slice(read.query);
}

impl<'a> ReadRequest<'a> {
    /// Iterates over the reads in a frame.
    pub fn walk(bytes: &'a [u8]) -> impl Iterator<Item = Result<Self, Reject>> + Clone {
        walk(bytes, "read").map(|item| {
            let item = item?;
            let consistency = match item.byte {
                1 => ReadConsistency::Strong,
                2 => ReadConsistency::Weak,
                _ => return Err(Reject::Malformed("read: consistency")),
            };
            Ok(Self { read: item.first, seen: Seq::new(item.second), consistency, query: item.body })
        })
    }
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReadStatus {
    /// Answered from the state at the reply's seq.
    Done = 1,
    /// No leader confirmed it in time; ask again, here or elsewhere.
    NoLeader = 2,
    /// No room now; ask again.
    Overloaded = 3,
    /// The answer is over the limit for replies; ask for less.
    TooLarge = 4,
    /// The client has no right to read that.
    Forbidden = 5,
}

/// The answer to one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadReply<'a> {
    /// The client's number for it.
    pub read: u64,
    /// The state that was read: everything up to this seq was executed.
    pub seq: Seq,
    /// The result.
    pub status: ReadStatus,
    /// The service's answer.
    pub body: &'a [u8],
}

/// Appends the fixed part of a read's reply whose body of `len` bytes the caller appends next.
pub fn read_reply_header(out: &mut Vec<u8>, read: u64, seq: Seq, status: ReadStatus, len: usize) {
    out.put_u64(read);
    out.put_u64(seq.number());
    put_tail(out, status as u8, len);
}

impl<'a> ReadReply<'a> {
    /// Iterates over the read replies in a frame.
    pub fn walk(bytes: &'a [u8]) -> impl Iterator<Item = Result<Self, Reject>> {
        walk(bytes, "read reply").map(|item| {
            let item = item?;
            let status = match item.byte {
                1 => ReadStatus::Done,
                2 => ReadStatus::NoLeader,
                3 => ReadStatus::Overloaded,
                4 => ReadStatus::TooLarge,
                5 => ReadStatus::Forbidden,
                _ => return Err(Reject::Malformed("read reply: status")),
            };
            Ok(Self { read: item.first, seq: Seq::new(item.second), status, body: item.body })
        })
    }
}

/// The leader, as a replica sees it. Requests that came to a replica that does not lead were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderNotice {
    /// The view the sender is in.
    pub view: View,
    /// The leader in it, if the sender knows it.
    pub leader: Option<ReplicaId>,
}

impl LeaderNotice {
    /// The frame to send.
    pub fn frame(&self) -> OutFrame {
        let mut out = Vec::with_capacity(10);
        out.put_u64(self.view.number());
        out.put_u16(self.leader.map_or(0, ReplicaId::number));
        OutFrame::new(FrameKind::Leader, &out, vec![])
    }

    fn decode(payload: Bytes) -> Result<Self, Reject> {
        let mut r = Reader::new(payload, "leader notice");
        let notice = Self {
            view: View::new(r.u64()?),
            leader: Some(r.u16()?).filter(|id| *id != 0).map(ReplicaId::new),
        };
        r.end()?;
        Ok(notice)
    }
}

/// What replies, reads, read replies and letters have in common.
pub(crate) struct Item<'a> {
    pub(crate) first: u64,
    pub(crate) second: u64,
    pub(crate) byte: u8,
    pub(crate) body: &'a [u8],
}

/// The iteration that replies, reads, read replies and letters share. An error ends it.
pub(crate) fn walk<'a>(
    mut bytes: &'a [u8],
    what: &'static str,
) -> impl Iterator<Item = Result<Item<'a>, Reject>> + Clone {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let item = take(&mut bytes).ok_or(Reject::Malformed(what));
        if item.is_err() {
            bytes = &[];
        }
        Some(item)
    })
}

fn take<'a>(bytes: &mut &'a [u8]) -> Option<Item<'a>> {
    let (head, rest) = bytes.split_first_chunk::<HEADER>()?;
    let u64_at = |at: usize| head[at..].first_chunk::<8>().map(|word| u64::from_le_bytes(*word));
    let len = u32::from_le_bytes([head[20], head[21], head[22], head[23]]) as usize;
    if head[17..20] != [0; 3] || len > rest.len() {
        return None;
    }
    let (body, rest) = rest.split_at(len);
    let item = Item { first: u64_at(0)?, second: u64_at(8)?, byte: head[16], body };
    *bytes = rest;
    Some(item)
}
