//! Frames: a length of four bytes, and a record. A connection that begins with a four-letter word has none.
//!
//! Tests: tests/all/frames.rs.

use crate::jute::Write as _;
use crate::records::{ReplyHeader, WatcherEvent};
use bytes::{Buf as _, Bytes, BytesMut};

/// Why a connection can not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFrame {
    /// The length that the client announced.
    pub length: i32,
}

/// Takes the first frame of these bytes; nothing if it is not there as a whole.
///
/// # Errors
/// When it is negative, or longer than `max`.
pub fn split(bytes: &mut BytesMut, max: usize) -> Result<Option<Bytes>, BadFrame> {
    let Some(first) = bytes.first_chunk() else { return Ok(None) };
    let length = i32::from_be_bytes(*first);
    let len = usize::try_from(length).ok().filter(|len| *len <= max).ok_or(BadFrame { length })?;
    if bytes.len() < 4 + len {
        bytes.reserve(4 + len - bytes.len());
        return Ok(None);
    }
    bytes.advance(4);
    Ok(Some(bytes.split_to(len).freeze()))
}

/// The four-letter word with which these bytes begin, if they do: letters, where a frame's length would be over 16 MiB.
pub fn word(bytes: &[u8]) -> Option<[u8; 4]> {
    bytes.first_chunk().copied().filter(|word| word.iter().all(u8::is_ascii_lowercase))
}

/// A frame with what `write` appends.
pub(super) fn frame(write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut out = vec![0; 4];
    write(&mut out);
    let len = u32::try_from(out.len() - 4).expect("a frame has less than 2 GiB");
    out[..4].copy_from_slice(&len.to_be_bytes());
    out.into()
}

/// A reply: the client's number, and an answer as the service gives it.
pub(super) fn reply(xid: i32, answer: &[u8]) -> Bytes {
    frame(|out| {
        out.reserve(4 + answer.len());
        out.int(xid);
        out.extend_from_slice(answer);
    })
}

/// A reply of this server itself.
pub(super) fn own_reply(xid: i32, zxid: i64, error: i32, write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    frame(|out| {
        ReplyHeader { xid, zxid, error }.write(out);
        write(out);
    })
}

/// An event of a watch. A transaction of -1 says that it is not known.
pub(super) fn event(zxid: i64, event: &WatcherEvent<'_>) -> Bytes {
    frame(|out| {
        ReplyHeader { xid: crate::records::RequestHeader::EVENT, zxid, error: 0 }.write(out);
        event.write(out);
    })
}
