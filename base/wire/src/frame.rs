//! Frames: how messages are cut out of a byte stream.
//!
//! ```text
//!  0        4      6      8            12           16
//!  | length | kind | zero | payload crc | header crc | payload (length bytes) ...
//! ```
//! Both checksums are crc32c. The header has its own, so that a damaged length is found before the receiver waits for, or allocates, the
//! bytes that it announces. A bad frame ends the connection.

use bytes::{Bytes, BytesMut};
use quorate_types::Reject;

/// Bytes of a frame header.
pub const FRAME_HEADER: usize = 16;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal),* $(,)?) => {
        /// What a frame's payload is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum FrameKind {
            $($(#[$doc])* $name = $number),*
        }

        impl FrameKind {
            /// Every kind, for tests and tables.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The kind with this number on the wire.
            pub const fn from_number(number: u16) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// The first frame of every connection, from the side that dialed.
    Hello = 1,
    /// The other side accepts the connection.
    Welcome = 2,
    /// The other side does not accept it, says why, and closes it.
    Refusal = 3,
    /// A message of an ordering protocol, between replicas.
    Order = 16,
    /// A message about the state, between replicas: digests to compare, checkpoints to transfer.
    State = 17,
    /// The members, from a replica to other replicas and to clients.
    Members = 18,
    /// How much room the sender's disk has, between replicas.
    Room = 19,
    /// Up to which place the other replica's instances must be filled, between replicas.
    Fill = 20,
    /// Which replicas have caught up in an instance, from its leader to the leader of the first instance.
    CaughtUp = 21,
    /// The instances whose leader the sender hears, between replicas.
    Sight = 22,
    /// What batches did, as digests, between replicas that verify their results.
    Tokens = 23,
    /// Asks for what batches did, between replicas that verify their results.
    MemosWanted = 24,
    /// What batches did, as an answer.
    Memos = 25,
    /// As tokens, of batches that are proposed and not known to be decided.
    EarlyTokens = 26,
    /// The era that the sender is in, to replicas of an earlier one and to clients.
    Era = 27,
    /// Requests of sessions, from a client.
    Requests = 32,
    /// Replies to requests.
    Replies = 33,
    /// Reads, from a client.
    Reads = 34,
    /// Replies to reads.
    ReadReplies = 35,
    /// The leader, from a replica to its clients: when it changes, and when a request came to a replica that does not lead.
    Leader = 36,
    /// The keys for the tags of a client's requests, which the client shares with this replica.
    Keys = 37,
    /// How the replica is to answer requests, from a client.
    AnswerMode = 38,
    /// In which of its sessions a client listens for letters.
    Listen = 39,
    /// Letters of the service to sessions.
    Letters = 40,
    /// Copies of messages between the members of two services, in both directions.
    Copies = 41,
    /// With which of them the sender is done.
    Seen = 42,
    /// An operator asks for the replica's status.
    StatusRequest = 48,
    /// The answer, a JSON document.
    Status = 49,
    /// An operator asks the leader to hand over.
    TransferRequest = 50,
    /// Whether the hand-over began, a line of text.
    TransferReply = 51,
    /// An operator asks the replica to check, and repair, everything that it keeps on disk.
    ScrubRequest = 52,
    /// Whether that began, a line of text.
    ScrubReply = 53,
    /// An operator asks the leader to change the membership.
    MemberRequest = 54,
    /// Whether that began, a line of text.
    MemberReply = 55,
    /// An operator asks the leader to raise the cluster's feature level.
    UpgradeRequest = 56,
    /// Whether that began, a line of text.
    UpgradeReply = 57,
    /// An operator asks the leader for another number of instances.
    InstancesRequest = 58,
    /// Whether that began, a line of text.
    InstancesReply = 59,
    /// An operator asks the replica to have instances on other lanes.
    LanesRequest = 60,
    /// Whether that began, a line of text.
    LanesReply = 61,
    /// A command that administrators signed, from an operator, and between replicas.
    SignedCommand = 62,
    /// Whether the replica passes it on, a line of text.
    SignedReply = 63,
    /// An operator asks for the evidence against members that a replica keeps.
    EvidenceRequest = 64,
    /// The evidence.
    Evidence = 65,
    /// A client, a replica or an operator asks for the membership links after a membership.
    ChainRequest = 66,
    /// The membership links.
    Chain = 67,
    /// An operator asks the leader for the end of the era: for other faults, or another protocol.
    FaultsRequest = 68,
    /// Whether that began, a line of text.
    FaultsReply = 69,
    /// An operator asks the replica to sign the digest of a checkpoint.
    AttestRequest = 70,
    /// The signature, or why there is none.
    Attested = 71,
    /// An operator asks the leader to know another service from now on, or no longer.
    NeighbourRequest = 72,
    /// Whether that began, a line of text.
    NeighbourReply = 73,
}

/// A decoded frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// What the payload is.
    pub kind: FrameKind,
    /// How many bytes it has.
    pub len: u32,
    pub(crate) crc: u32,
}

impl FrameHeader {
    /// Reads a header and checks it against its own checksum and against the largest payload that is accepted.
    ///
    /// # Errors
    /// [`Reject::Malformed`] for damage and unknown kinds, [`Reject::TooLarge`] for a frame over `max` bytes.
    pub fn decode(bytes: &[u8; FRAME_HEADER], max: u32) -> Result<Self, Reject> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if crc32c::crc32c(&bytes[..12]) != word(12) {
            return Err(Reject::Malformed("frame header checksum"));
        }
        let len = word(0);
        if len > max {
            return Err(Reject::TooLarge { what: "frame", size: u64::from(len), max: u64::from(max) });
        }
        let kind = word(4);
        let kind = u16::try_from(kind)
            .ok()
            .and_then(FrameKind::from_number)
            .ok_or(Reject::Malformed("frame kind: unknown"))?;
        Ok(Self { kind, len, crc: word(8) })
    }
}

fn encode_header(kind: FrameKind, len: u32, crc: u32) -> [u8; FRAME_HEADER] {
    let mut header = [0; FRAME_HEADER];
    header[..4].copy_from_slice(&len.to_le_bytes());
    header[4..6].copy_from_slice(&(kind as u16).to_le_bytes());
    header[8..12].copy_from_slice(&crc.to_le_bytes());
    let own = crc32c::crc32c(&header[..12]);
    header[12..].copy_from_slice(&own.to_le_bytes());
    header
}

/// A frame that arrived whole and undamaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What the payload is.
    pub kind: FrameKind,
    /// The message.
    pub payload: Bytes,
}

/// A frame to send: bytes that were made for it, and payloads that it shares with others. A batch goes to all followers and to the disk
/// from one buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutFrame {
    head: Bytes,
    payloads: Vec<Bytes>,
}

/// Bytes that a frame shares with others, with their checksum if it is known.
#[derive(Clone, Debug)]
pub struct Payload {
    pub(crate) bytes: Bytes,
    pub(crate) crc: Option<u32>,
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, crc: None }
    }
}

impl OutFrame {
    /// Frames `body` followed by `payloads`; `body` is copied once, payloads are shared.
    ///
    /// # Panics
    /// When the frame would be 4 GiB or larger; callers stay below the frame limit.
    pub fn new(kind: FrameKind, body: &[u8], payloads: Vec<Bytes>) -> Self {
        Self::with_payloads(kind, body, payloads.into_iter().map(Payload::from).collect())
    }

    /// As [`Self::new`]; a payload whose checksum is known is not read again.
    pub(crate) fn with_payloads(kind: FrameKind, body: &[u8], payloads: Vec<Payload>) -> Self {
        let mut crc = crc32c::crc32c(body);
        let mut len = body.len();
        for payload in &payloads {
            crc = match payload.crc {
                Some(own) => crate::crc::join(crc, own, payload.bytes.len() as u64),
                None => crc32c::crc32c_append(crc, &payload.bytes),
            };
            len += payload.bytes.len();
        }
        let payloads = payloads.into_iter().map(|payload| payload.bytes).collect();
        let len = u32::try_from(len).expect("a frame is under 4 GiB");
        let mut head = BytesMut::with_capacity(FRAME_HEADER + body.len());
        head.extend_from_slice(&encode_header(kind, len, crc));
        head.extend_from_slice(body);
        Self { head: head.freeze(), payloads }
    }

    /// All bytes of the frame, header included.
    pub fn len(&self) -> usize {
        self.head.len() + self.payloads.iter().map(Bytes::len).sum::<usize>()
    }
    /// Always false, since a frame has a header.
    pub fn is_empty(&self) -> bool {
        false
    }
    /// The kind of the frame.
    pub fn kind(&self) -> FrameKind {
        FrameKind::from_number(u16::from_le_bytes([self.head[4], self.head[5]])).expect("made by new")
    }
    /// The pieces to write, in order.
    pub fn into_parts(self) -> impl Iterator<Item = Bytes> {
        std::iter::once(self.head).chain(self.payloads)
    }
    /// The whole frame in one buffer; for tests and cold paths.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = self.head.to_vec();
        self.payloads.iter().for_each(|p| out.extend_from_slice(p));
        out
    }
}
