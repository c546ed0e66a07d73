//! Clients that lie: the real client core, whose messages are changed so that they differ between replicas.
//!
//! A lying client works on keys of its own, which no other client uses, since results on these can not be judged.

use crate::random::Rng;
use bytes::Bytes;
use quorate_types::SessionId;
use quorate_wire::{FRAME_HEADER, FrameKind, OutFrame, REQUEST_HEADER, RequestHeader, RequestKind, Requests};

/// A way to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientTrick {
    /// Sends its requests to some replicas only, as bits.
    Some(u64),
    /// Opens its sessions everywhere, and sends everything else to some replicas only, as bits.
    Only(u64),
    /// Sends other bytes under the same number to some replicas, as bits.
    Differs(u64),
    /// Sends two requests under each number, and to some replicas, as bits, only the second.
    Both(u64),
    /// Also sends its requests in the session of another client.
    Others,
    /// Sends everything many times.
    Again,
}

/// The offset of the operation's number in the body of a request; bytes after it may change without making it another operation.
const VALUE_AT: usize = REQUEST_HEADER + 24;

/// What is sent to replica `to` instead of a frame. `sessions`: those of other clients.
pub fn instead(
    trick: ClientTrick,
    rng: &mut Rng,
    to: usize,
    sessions: &[SessionId],
    frame: OutFrame,
) -> Vec<OutFrame> {
    if frame.kind() != FrameKind::Requests {
        return vec![frame];
    }
    match trick {
        ClientTrick::Some(mask) => {
            if mask >> to & 1 == 1 {
                vec![frame]
            } else {
                Vec::new()
            }
        }
        ClientTrick::Only(mask) if mask >> to & 1 == 0 => openings(&frame).into_iter().collect(),
        ClientTrick::Only(_) => vec![frame],
        ClientTrick::Differs(mask) if mask >> to & 1 == 1 => vec![changed(&frame, differ)],
        ClientTrick::Differs(_) => vec![frame],
        ClientTrick::Both(mask) if mask >> to & 1 == 1 => vec![changed(&frame, differ)],
        ClientTrick::Both(_) => {
            let second = changed(&frame, differ);
            vec![frame, second]
        }
        ClientTrick::Others => {
            let Some(session) = (!sessions.is_empty()).then(|| rng.pick(sessions)) else {
                return vec![frame];
            };
            let number = rng.below(40);
            let stolen = changed(&frame, |header, request| {
                if header.kind != RequestKind::OpenSession {
                    request[..8].copy_from_slice(&session.number().to_le_bytes());
                    request[8..16].copy_from_slice(&number.to_le_bytes());
                }
            });
            vec![stolen, frame]
        }
        ClientTrick::Again => vec![frame.clone(), frame.clone(), frame],
    }
}

/// The session of the last request in a frame.
pub fn session_of(frame: &OutFrame) -> Option<SessionId> {
    let payload = Bytes::from(frame.to_vec()).slice(FRAME_HEADER..);
    let kind = frame.kind();
    let last = Requests::new(&payload).flatten().filter(|_| kind == FrameKind::Requests).last();
    last.map(|(header, ..)| header.session).filter(|session| *session != SessionId::NONE)
}

/// Changes the last byte of a value; or, in every second request, of the proof after the body, if there is one.
fn differ(header: &RequestHeader, request: &mut [u8]) {
    let proof = if header.number.number().is_multiple_of(2) { 0 } else { header.proof.byte_len() };
    let end = request.len() - proof;
    if header.kind == RequestKind::Commands
        && let Some(last) = request[..end].get_mut(VALUE_AT..).and_then(<[u8]>::last_mut)
    {
        *last ^= 1;
    }
}

/// The openings in a frame.
fn openings(frame: &OutFrame) -> Option<OutFrame> {
    let payload = Bytes::from(frame.to_vec()).slice(FRAME_HEADER..);
    let opens =
        Requests::new(&payload).flatten().filter(|(header, ..)| header.kind == RequestKind::OpenSession);
    let left: Vec<u8> = opens.flat_map(|(_, _, whole)| whole.to_vec()).collect();
    (!left.is_empty()).then(|| OutFrame::new(FrameKind::Requests, &left, vec![]))
}

fn changed(frame: &OutFrame, change: impl Fn(&RequestHeader, &mut [u8])) -> OutFrame {
    let payload = Bytes::from(frame.to_vec()).slice(FRAME_HEADER..);
    let mut out = Vec::with_capacity(payload.len());
    for (header, _, whole) in Requests::new(&payload).flatten() {
        let at = out.len();
        out.extend_from_slice(whole);
        change(&header, &mut out[at..]);
    }
    OutFrame::new(FrameKind::Requests, &out, vec![])
}
