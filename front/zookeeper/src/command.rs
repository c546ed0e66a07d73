//! Commands, and queries, as a server sends them to the service.
//!
//! A command begins with one byte for its kind. All other fields are Jute ([`crate::jute`]):
//!
//! | kind | fields |
//! | --- | --- |
//! | 1, a client's write | the time of the server (`long`, ms since 1970), session (`long`), attachment (`int`), identities (list of scheme and id), operation (`int`), the client's request |
//! | 2, a new session | digest of the password (`buffer`), time-out (`int`, ms), server (`long`) |
//! | 3, a session that comes back | as 2, with the session (`long`) in front |
//! | 4, sessions that live | server (`long`), list of session (`long`) and silence (`long`, ms) |
//! | 5, the members | the time of the server (`long`), its id (`int`), cluster (two `long`s), number (`long`), list of id (`int`), whether it is a learner (`boolean`), address (`ustring`), and address for clients (`ustring`, or nothing) |
//!
//! A query is session, identities, operation and request, without a kind. Tests: tests/all/service.rs, tests/all/sessions.rs.

use crate::error::ZkError;
use crate::jute::{Malformed, Reader, Write as _};
use crate::members::Members;
use crate::op::Op;
use crate::request::Request;
use crate::tree::{Caller, Id};

/// The bytes in the digest of a password.
pub const DIGEST_BYTES: usize = 32;

/// What a server wants to have ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// What a client asked for.
    Write {
        /// The time of the server, in milliseconds since 1970.
        time_ms: i64,
        /// The client.
        caller: Caller,
        /// Its request.
        asked: Asked<'a>,
    },
    /// A new session, at a server.
    Open(Opening),
    /// A session moves to a server, or to another connection of the same one.
    Attach {
        /// The session.
        session: i64,
        /// The rest.
        opening: Opening,
    },
    /// A server has heard of all sessions that are attached to it lately, but for these.
    Live {
        /// The server.
        server: i64,
        /// The last transaction that it knows. It speaks of sessions that were attached up to there.
        zxid: i64,
        /// Sessions of which it has not heard for so many milliseconds.
        silent: Vec<(i64, i64)>,
    },
    /// A server sees these members, and says where it serves clients itself.
    Members {
        /// The time of the server, in milliseconds since 1970.
        time_ms: i64,
        /// The id of its replica.
        speaker: i32,
        /// The members.
        members: Members,
    },
}

/// What a client says of its session when it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The digest of its password. The password itself is in no log.
    pub digest: [u8; DIGEST_BYTES],
    /// How long the session lives without a word from it, in milliseconds.
    pub timeout_ms: i32,
    /// The life of the server that it uses: a number that no other life of a server has.
    pub server: i64,
}

/// An operation and its request, not decoded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked<'a> {
    /// The number of the operation.
    pub op: i32,
    /// The request.
    pub request: &'a [u8],
}

impl<'a> Asked<'a> {
    /// The operation, if it is known.
    pub const fn op(&self) -> Option<Op> {
        Op::of(self.op)
    }

    /// The request, if its operation may come this way.
    ///
    /// # Errors
    /// When it may not, or the record does not decode.
    pub fn request(&self, may: impl Fn(Op) -> bool) -> Result<Request<'a>, ZkError> {
        let op = self.op().filter(|op| may(*op)).ok_or(ZkError::Unimplemented)?;
        Request::read(op, self.request).map_err(|_| ZkError::Marshalling)
    }

    fn read(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self { op: from.int()?, request: from.rest() })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.int(self.op);
        out.extend_from_slice(self.request);
    }
}

/// The most identities of a client.
pub(crate) const IDS_MAX: usize = 64;

const WRITE: u8 = 1;
const OPEN: u8 = 2;
const ATTACH: u8 = 3;
const LIVE: u8 = 4;
const MEMBERS: u8 = 5;

impl<'a> Command<'a> {
    /// Reads a command.
    ///
    /// # Errors
    /// When it does not decode.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (kind, rest) = bytes.split_first().ok_or(Malformed)?;
        let from = &mut Reader::new(rest);
        Ok(match *kind {
            WRITE => {
                let (time_ms, session, attached) = (from.long()?, from.long()?, from.int()?);
                let caller = Caller { session, attached, ids: read_ids(from)? };
                Self::Write { time_ms, caller, asked: Asked::read(from)? }
            }
            OPEN => Self::Open(read_opening(from)?),
            ATTACH => Self::Attach { session: from.long()?, opening: read_opening(from)? },
            LIVE => {
                let (server, zxid) = (from.long()?, from.long()?);
                let silent = from.list(|from| Ok((from.long()?, from.long()?)))?.unwrap_or_default();
                Self::Live { server, zxid, silent }
            }
            MEMBERS => {
                let (time_ms, speaker) = (from.long()?, from.int()?);
                Self::Members { time_ms, speaker, members: Members::read(from)? }
            }
            _ => return Err(Malformed),
        })
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Write { time_ms, caller, asked } => write_asked(*time_ms, caller, asked, out),
            Self::Open(opening) => {
                out.push(OPEN);
                write_opening(opening, out);
            }
            Self::Attach { session, opening } => {
                out.push(ATTACH);
                out.long(*session);
                write_opening(opening, out);
            }
            Self::Live { server, zxid, silent } => {
                out.push(LIVE);
                out.long(*server);
                out.long(*zxid);
                out.list(Some(silent), |out, (session, silence_ms)| {
                    out.long(*session);
                    out.long(*silence_ms);
                });
            }
            Self::Members { time_ms, speaker, members } => {
                out.push(MEMBERS);
                out.long(*time_ms);
                out.int(*speaker);
                members.write(out);
            }
        }
    }
}

/// Appends what a client asks for, as a command.
pub fn write_asked(time_ms: i64, caller: &Caller, asked: &Asked<'_>, out: &mut Vec<u8>) {
    out.push(WRITE);
    out.long(time_ms);
    out.long(caller.session);
    out.int(caller.attached);
    write_ids(&caller.ids, out);
    asked.write(out);
}

/// Appends a client's write as a command.
pub fn write_command(caller: &Caller, time_ms: i64, request: &Request<'_>, out: &mut Vec<u8>) {
    let mut bytes = Vec::new();
    request.write(&mut bytes);
    write_asked(time_ms, caller, &Asked { op: request.op().code(), request: &bytes }, out);
}

/// Appends a query.
pub fn write_query(caller: &Caller, request: &Request<'_>, out: &mut Vec<u8>) {
    out.long(caller.session);
    write_ids(&caller.ids, out);
    out.int(request.op().code());
    request.write(out);
}

/// Reads a query.
///
/// # Errors
/// When it does not decode.
pub fn read_query(bytes: &[u8]) -> Result<(Caller, Asked<'_>), Malformed> {
    let from = &mut Reader::new(bytes);
    let (session, ids) = (from.long()?, read_ids(from)?);
    Ok((Caller { session, attached: 0, ids }, Asked::read(from)?))
}

fn write_ids(ids: &[Id], out: &mut Vec<u8>) {
    out.list(Some(ids), |out, id| {
        out.bytes(Some(&id.scheme));
        out.bytes(Some(&id.id));
    });
}

fn read_ids(from: &mut Reader<'_>) -> Result<Vec<Id>, Malformed> {
    let text = |from: &mut Reader<'_>| from.bytes().map(|bytes| bytes.unwrap_or_default().to_vec());
    let list = from.list(|from| Ok(Id { scheme: text(from)?, id: text(from)? }))?.unwrap_or_default();
    if list.len() > IDS_MAX { Err(Malformed) } else { Ok(list) }
}

fn write_opening(opening: &Opening, out: &mut Vec<u8>) {
    out.bytes(Some(&opening.digest));
    out.int(opening.timeout_ms);
    out.long(opening.server);
}

fn read_opening(from: &mut Reader<'_>) -> Result<Opening, Malformed> {
    let digest = from.bytes()?.unwrap_or_default();
    Ok(Opening {
        digest: digest.try_into().map_err(|_| Malformed)?,
        timeout_ms: from.int()?,
        server: from.long()?,
    })
}
