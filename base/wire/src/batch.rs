//! Requests, and the batch, on which the replicas agree.
//!
//! A request has the same bytes on the client's connection, in the batch, on the wire between replicas and in the log:
//! it is copied once, from the socket into the open batch.
//!
//! ```text
//! request  0         8         16                   24       28     29      30     32
//!          | session | number  | lowest unanswered  | length | kind | proof | zero | body ... | proof ...
//! batch    0             8       16      20              24
//!          | agreed time | seed  | count | what u8, zeros | requests ... | base, if there is one | ruling, if there is one
//! ```
//! `length` is that of the body. `proof` is 0 for none, 1 for a signature of 64 bytes after the body, and 16 + n for the tags of n members
//! there ([`RequestProof`]): the number of the keys that made them (u64), then 8 bytes for each member, in the order of their ids.
//!
//! `what` is 0; or 1 if the state after the batch must become a checkpoint; or 2 in a no-op, which holds only the last slot that it stands
//! for, in place of the seed. 4 is added if there is a base (8 bytes): the agreed time that the leader extended. 8 is added if there is a ruling
//! (48 bytes, [`Ruling`]).

use crate::crc::WORTH_JOINING;
use crate::frame::Payload;
use crate::keys::{KEY_ID_BYTES, MACS_MAX, MACS_MIN, TAG_BYTES};
use crate::members::SystemCommand;
use crate::neighbours::{is_nested, split_answer};
use crate::ruling::Ruling;
use bytes::Bytes;
use quorate_types::{AgreedTime, ClientId, Items, Reject, RequestNumber, SessionId, SessionKey, Slot};
use std::fmt::{self, Debug};

/// Bytes of a request's header.
pub const REQUEST_HEADER: usize = 32;

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RequestKind {
    /// Run the commands in the body, an item list ([`quorate_types::Items`]).
    Commands = 1,
    /// Open a session. The number is the client's nonce. The body is its client id (8 bytes), and for a session with signatures also the
    /// key that signs its requests (32 bytes).
    OpenSession = 2,
    /// Close this session; its later requests are not answered.
    CloseSession = 3,
    /// Nothing. It keeps a session alive, or uses up a number that a caller gave up. The body is empty.
    Empty = 4,
    /// A command to the engine itself ([`crate::SystemCommand`]): the only request of its batch, and never from a client.
    System = 5,
    /// Answer the query in the body, any bytes, from the state at this point of the order; nothing changes. A client reads like this when
    /// no single replica's word is enough. The reply is a list of one answer.
    Query = 6,
    /// Run the commands of another service ([`crate::write_nested`]), in a session that it has here. Never from a client: it comes from enough
    /// members of that service.
    Nested = 7,
    /// What another service answered ([`crate::write_answer`]), in a session that it has here. Never from a client, either.
    Answer = 8,
}

impl RequestKind {
    /// The kind with this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Commands),
            2 => Some(Self::OpenSession),
            3 => Some(Self::CloseSession),
            4 => Some(Self::Empty),
            5 => Some(Self::System),
            6 => Some(Self::Query),
            7 => Some(Self::Nested),
            8 => Some(Self::Answer),
            _ => None,
        }
    }

    /// Whether clients may send it.
    pub const fn is_of_clients(self) -> bool {
        !matches!(self, Self::System | Self::Nested | Self::Answer)
    }
}

/// The bytes after a request's body that show its client to replicas which did not receive the request from the client. They are part of
/// the request's bytes, but are not executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestProof {
    /// Nothing.
    #[default]
    None,
    /// A signature of the header and the body, by the key of the session.
    Signature,
    /// A tag of the header and the body for each member, under a key that the member shares with the client.
    Macs {
        /// How many members; 4 to 64.
        members: u8,
    },
}

/// The number of a proof with tags is this plus the number of members.
const MACS: u8 = 16;

impl RequestProof {
    /// Tags for this many members, if a request can have that many.
    pub const fn macs(members: usize) -> Option<Self> {
        if members >= MACS_MIN && members <= MACS_MAX {
            Some(Self::Macs { members: members as u8 })
        } else {
            None
        }
    }
    /// Its number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Signature => 1,
            Self::Macs { members } => MACS + members,
        }
    }
    /// The proof with this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::None),
            1 => Some(Self::Signature),
            MACS.. => Self::macs((number - MACS) as usize),
            _ => None,
        }
    }
    /// How many bytes it has.
    pub const fn byte_len(self) -> usize {
        match self {
            Self::None => 0,
            Self::Signature => SIGNATURE_BYTES,
            Self::Macs { members } => KEY_ID_BYTES + members as usize * TAG_BYTES,
        }
    }
}

/// Bytes of a request's signature.
pub const SIGNATURE_BYTES: usize = 64;

/// Signs the requests of one client.
pub trait RequestSigner: Send + Sync + Debug {
    /// The key with which the signatures are checked.
    fn key(&self) -> SessionKey;
    /// Signs a request: its header, which says that it is signed, and its body.
    fn sign(&self, header: &[u8; REQUEST_HEADER], body: &[u8]) -> [u8; SIGNATURE_BYTES];
}

/// The body of a request that opens a session.
pub fn write_opening(client: ClientId, key: Option<SessionKey>) -> Vec<u8> {
    let mut body = client.number().to_le_bytes().to_vec();
    body.extend(key.iter().flat_map(|key| key.bytes()));
    body
}

/// The client in the body of an opening, and the session's key. A body that [`Requests`] did not check gives client 0.
pub fn read_opening(body: &[u8]) -> (ClientId, Option<SessionKey>) {
    let client = body.first_chunk::<8>().map_or(0, |id| u64::from_le_bytes(*id));
    let key = body.get(8..).and_then(|key| key.first_chunk::<32>());
    (ClientId::new(client), key.map(|key| SessionKey::new(*key)))
}

/// The fixed part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// The session; [`SessionId::NONE`] to open one.
    pub session: SessionId,
    /// The number within the session; the nonce when it opens one.
    pub number: RequestNumber,
    /// The lowest number whose reply the client still lacks. Replies to lower numbers may be forgotten.
    pub lowest_unanswered: RequestNumber,
    /// The kind of the request.
    pub kind: RequestKind,
    /// Bytes of the body.
    pub len: u32,
    /// The kind of proof after the body.
    pub proof: RequestProof,
}

impl RequestHeader {
    /// Appends the header.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes());
    }

    /// The header as it lies on the wire.
    pub fn bytes(&self) -> [u8; REQUEST_HEADER] {
        let mut bytes = [0; REQUEST_HEADER];
        bytes[..8].copy_from_slice(&self.session.number().to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.number().to_le_bytes());
        bytes[16..24].copy_from_slice(&self.lowest_unanswered.number().to_le_bytes());
        bytes[24..28].copy_from_slice(&self.len.to_le_bytes());
        bytes[28] = self.kind as u8;
        bytes[29] = self.proof.number();
        bytes
    }

    /// The signed part of a request, and its proof. `whole`: all bytes of the request.
    pub fn split<'a>(&self, whole: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        whole.split_at(whole.len().saturating_sub(self.proof.byte_len()))
    }

    fn decode(bytes: &[u8; REQUEST_HEADER]) -> Result<Self, Reject> {
        let u64_at = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        if bytes[30..] != [0; 2] {
            return Err(Reject::Malformed("request: reserved bytes"));
        }
        Ok(Self {
            session: SessionId::from_number(u64_at(0)),
            number: RequestNumber::new(u64_at(8)),
            lowest_unanswered: RequestNumber::new(u64_at(16)),
            len: u32::from_le_bytes([bytes[24], bytes[25], bytes[26], bytes[27]]),
            kind: RequestKind::from_number(bytes[28]).ok_or(Reject::Malformed("request: kind"))?,
            proof: RequestProof::from_number(bytes[29]).ok_or(Reject::Malformed("request: proof"))?,
        })
    }
}

/// Iterates over requests that lie one after the other. Each item is the header, the body, and the whole request's bytes. An error ends the
/// iteration.
#[derive(Clone, Debug)]
pub struct Requests<'a> {
    bytes: &'a [u8],
}

impl<'a> Requests<'a> {
    /// Iterates over `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    fn take(&mut self) -> Result<(RequestHeader, &'a [u8], &'a [u8]), Reject> {
        let header =
            self.bytes.first_chunk::<REQUEST_HEADER>().ok_or(Reject::Malformed("request: cut off"))?;
        let header = RequestHeader::decode(header)?;
        let body_end = REQUEST_HEADER + header.len as usize;
        let end = body_end + header.proof.byte_len();
        if end > self.bytes.len() {
            return Err(Reject::Malformed("request: cut off"));
        }
        let (whole, rest) = self.bytes.split_at(end);
        let body = &whole[REQUEST_HEADER..body_end];
        check_body(header.kind, header.proof, body)?;
        self.bytes = rest;
        Ok((header, body, whole))
    }
}

/// Checks a body, so that execution never meets one that it can not read.
fn check_body(kind: RequestKind, proof: RequestProof, body: &[u8]) -> Result<(), Reject> {
    let fits = match kind {
        // Commands of no bytes cost nothing to send and something to execute: there are no more of them than bytes.
        RequestKind::Commands => Items::parse(body).is_ok_and(|commands| commands.len() <= body.len()),
        // A signed opening also has the public key that checks the signatures.
        RequestKind::OpenSession => body.len() == if proof == RequestProof::Signature { 40 } else { 8 },
        RequestKind::CloseSession | RequestKind::Empty => body.is_empty(),
        RequestKind::System => proof == RequestProof::None && SystemCommand::decode(body).is_ok(),
        RequestKind::Query => true,
        RequestKind::Nested => proof == RequestProof::None && is_nested(body),
        RequestKind::Answer => proof == RequestProof::None && split_answer(body).is_some(),
    };
    if fits { Ok(()) } else { Err(Reject::Malformed("request: body")) }
}

impl<'a> Iterator for Requests<'a> {
    type Item = Result<(RequestHeader, &'a [u8], &'a [u8]), Reject>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let taken = self.take();
        if taken.is_err() {
            self.bytes = &[];
        }
        Some(taken)
    }
}

/// The fixed part of a batch.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchHeader {
    /// The time that the leader proposes. The agreed time follows from this, `base` and the agreed time before.
    pub time: AgreedTime,
    /// The agreed time of the last batch that the leader had executed when it proposed this one. Only where several leaders propose.
    pub base: Option<AgreedTime>,
    /// Randomness for the commands, drawn by the leader.
    pub seed: u64,
    /// The number of requests.
    pub count: u32,
    /// Whether the state after this batch must become a checkpoint, regardless of the interval, because a replica needs one.
    pub border: bool,
    /// What the order says about results of earlier batches. Only where results are verified, and only in the first instance.
    pub ruling: Option<Ruling>,
}

impl fmt::Debug for BatchHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, base, seed, count, border, ruling } = self;
        let mut text = f.debug_struct("BatchHeader");
        text.field("time", time).field("seed", seed).field("count", count).field("border", border);
        // Most have none.
        if let Some(base) = base {
            text.field("base", base);
        }
        if let Some(ruling) = ruling {
            text.field("ruling", ruling);
        }
        text.finish()
    }
}

/// A bit of byte 20 of a batch.
const BORDER: u8 = 1;
const NOOP: u8 = 2;
const BASED: u8 = 4;
pub(crate) const RULED: u8 = 8;
/// Bytes of a base.
const BASE: usize = 8;
/// No slot has a higher number (path/4-merge).
const NO_OP_TARGET_MAX: u64 = 1 << 48;

/// The bytes behind the requests.
const fn tail(what: u8) -> usize {
    let base = if what & BASED > 0 { BASE } else { 0 };
    base + if what & RULED > 0 { Ruling::BYTES } else { 0 }
}

/// What one slot decides: requests, a proposed time, and randomness.
#[derive(Clone, Debug)]
pub struct Batch {
    bytes: Bytes,
    /// The checksum of the bytes, if a large batch was sealed here; each frame that carries them needs it.
    crc: Option<u32>,
}

impl PartialEq for Batch {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Batch {}

impl Batch {
    /// Bytes of the header.
    pub const HEADER: usize = 24;

    /// Begins a batch in an empty buffer: reserves room for the header, which [`Self::seal`] fills in.
    pub fn begin(out: &mut Vec<u8>) {
        debug_assert!(out.is_empty());
        out.extend_from_slice(&[0; Self::HEADER]);
    }

    /// Closes a batch that was begun in `bytes` and filled with whole requests.
    ///
    /// # Panics
    /// When `bytes` was not begun.
    pub fn seal(mut bytes: Vec<u8>, header: BatchHeader) -> Self {
        assert!(bytes.len() >= Self::HEADER, "a batch that was begun has its header's bytes");
        bytes[..8].copy_from_slice(&header.time.nanos().to_le_bytes());
        bytes[8..16].copy_from_slice(&header.seed.to_le_bytes());
        bytes[16..20].copy_from_slice(&header.count.to_le_bytes());
        bytes[20] = if header.border { BORDER } else { 0 };
        if let Some(base) = header.base {
            bytes[20] |= BASED;
            bytes.extend_from_slice(&base.nanos().to_le_bytes());
        }
        if let Some(ruling) = header.ruling {
            bytes[20] |= RULED;
            bytes.extend_from_slice(&ruling.bytes());
        }
        Self::closed(bytes)
    }

    fn closed(bytes: Vec<u8>) -> Self {
        let crc = (bytes.len() >= WORTH_JOINING).then(|| crc32c::crc32c(&bytes));
        Self { bytes: Bytes::from(bytes), crc }
    }

    /// A no-op. It stands for every slot of its instance up to `target` that no earlier record stands for.
    pub fn no_op(target: Slot) -> Self {
        let mut bytes = vec![0; Self::HEADER];
        bytes[8..16].copy_from_slice(&target.number().to_le_bytes());
        bytes[20] = NOOP;
        Self::closed(bytes)
    }

    /// The last slot that it stands for, if it is a no-op.
    pub fn no_op_target(&self) -> Option<Slot> {
        (self.bytes[20] == NOOP).then(|| Slot::new(self.header().seed))
    }

    /// Takes bytes from a peer or the log as a batch. Checks every request, so that execution can not fail on one.
    ///
    /// # Errors
    /// When a request does not decode or the count is wrong.
    pub fn decode(bytes: Bytes) -> Result<Self, Reject> {
        let batch = Self { bytes, crc: None };
        let what = batch.bytes.get(20).copied().unwrap_or_default();
        if batch.bytes.len() < Self::HEADER + tail(what) {
            return Err(Reject::Malformed("batch: header"));
        }
        let mut count = 0u32;
        for request in batch.requests() {
            request?;
            count += 1;
        }
        let known = what == NOOP || what & !(BORDER | BASED | RULED) == 0;
        if count != batch.header().count || !known || batch.bytes[21..24] != [0; 3] {
            return Err(Reject::Malformed("batch: count"));
        }
        let header = batch.header();
        let fits = (1..=NO_OP_TARGET_MAX).contains(&header.seed);
        if what == NOOP && (count > 0 || header.time != AgreedTime::ZERO || !fits) {
            return Err(Reject::Malformed("batch: a no-op holds nothing"));
        }
        Ok(batch)
    }

    /// The header.
    pub fn header(&self) -> BatchHeader {
        let u64_at = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&self.bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let count = u32::from_le_bytes([self.bytes[16], self.bytes[17], self.bytes[18], self.bytes[19]]);
        BatchHeader {
            time: AgreedTime::from_nanos(u64_at(0)),
            base: self.is_based().then(|| AgreedTime::from_nanos(u64_at(self.requests_end()))),
            seed: u64_at(8),
            count,
            border: self.bytes[20] & BORDER > 0,
            ruling: self.ruling(),
        }
    }

    fn ruling(&self) -> Option<Ruling> {
        let bytes = (self.bytes[20] & RULED > 0).then(|| self.bytes.last_chunk()).flatten()?;
        Some(Ruling::read(bytes))
    }

    /// The requests in order.
    pub fn requests(&self) -> Requests<'_> {
        Requests::new(&self.bytes[Self::HEADER..self.requests_end()])
    }

    fn requests_end(&self) -> usize {
        self.bytes.len() - tail(self.bytes[20])
    }

    fn is_based(&self) -> bool {
        self.bytes[20] & BASED > 0
    }

    /// All bytes, shared, as a payload of a frame.
    pub fn payload(&self) -> Payload {
        Payload { bytes: self.bytes.clone(), crc: self.crc }
    }

    /// All bytes, shared.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}
