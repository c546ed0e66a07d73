//! Letters: what a service sends to a session that did not ask for it. A client says in which sessions it listens for letters, and how far
//! it has them; a replica sends those that come later.
//!
//! ```text
//! listen       0         8       16
//!              | session | after | ...
//! letter       0         8        16        20       24
//!              | session | number | zero    | length | body ...
//! ```
//!
//! `after` is the number of the last letter of that session that the client has, or 0. Letters of a session are numbered from 1.
//! docs/decisions/0060-letters.md. Tests: `tests/all/golden.rs`, `tests/all/properties.rs`.

use crate::client::{put_header, walk};
use crate::codec::Reader;
use crate::frame::{FrameKind, OutFrame};
use bytes::Bytes;
use quorate_types::{Reject, SessionId};

/// The most bytes in the body of a letter.
pub const LETTER_BYTES_MAX: usize = 256 << 10;

/// The most sessions that one frame names.
pub const LISTENS_MAX: usize = 4096;

/// A session whose letters a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The session.
    pub session: SessionId,
    /// The number of the last letter that the client has of it, or 0.
    pub after: u64,
}

/// The frame that says in which sessions a client listens, in addition to earlier ones. Give it at most [`LISTENS_MAX`].
pub fn listen_frame(sessions: &[Listen]) -> OutFrame {
    let mut out = Vec::with_capacity(sessions.len() * 16);
    for Listen { session, after } in sessions {
        out.extend_from_slice(&session.number().to_le_bytes());
        out.extend_from_slice(&after.to_le_bytes());
    }
    OutFrame::new(FrameKind::Listen, &out, vec![])
}

/// Reads in which sessions a client listens.
///
/// # Errors
/// When there are too many, one is no session, or bytes are left over.
pub fn read_listens(payload: Bytes) -> Result<Vec<Listen>, Reject> {
    if payload.len() > LISTENS_MAX * 16 {
        return Err(Reject::Malformed("listen: too many sessions"));
    }
    let count = payload.len() / 16;
    let mut r = Reader::new(payload, "listen");
    let mut sessions = Vec::with_capacity(count);
    for _ in 0..count {
        let (session, after) = (SessionId::from_number(r.u64()?), r.u64()?);
        if session == SessionId::NONE {
            return Err(Reject::Malformed("listen: no session"));
        }
        sessions.push(Listen { session, after });
    }
    r.end()?;
    Ok(sessions)
}

/// One letter, as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LetterFrame<'a> {
    /// The session to which it is sent.
    pub session: SessionId,
    /// Its number in that session, from 1.
    pub number: u64,
    /// What the service says.
    pub body: &'a [u8],
}

impl<'a> LetterFrame<'a> {
    /// Bytes beside the body.
    pub const HEADER: usize = 24;

    /// Appends this letter to a buffer that becomes a [`FrameKind::Letters`] frame.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        put_header(out, (self.session.number(), self.number), 0, self.body.len());
        out.extend_from_slice(self.body);
    }

    /// Iterates over the letters in a frame.
    pub fn walk(bytes: &'a [u8]) -> impl Iterator<Item = Result<Self, Reject>> {
        walk(bytes, "letter").map(|item| {
            let item = item?;
            let session = SessionId::from_number(item.first);
            if session == SessionId::NONE || item.second == 0 || item.byte != 0 {
                return Err(Reject::Malformed("letter: header"));
            }
            if item.body.len() > LETTER_BYTES_MAX {
                return Err(Reject::Malformed("letter: too long"));
            }
            Ok(Self { session, number: item.second, body: item.body })
        })
    }
}
