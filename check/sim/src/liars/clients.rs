//! Clients that lie: the real client core, and what it sends is not the same for all replicas.
//!
//! A client that lies works on keys of its own, which nobody else touches: what is done with these can not be judged.

use crate::random::Rng;
use bytes::Bytes;
use quorate_types::SessionId;
use quorate_wire::{FRAME_HEADER, FrameKind, OutFrame, REQUEST_HEADER, RequestHeader, RequestKind, Requests};

/// A way to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientTrick {
    /// Sends its requests to some replicas only, as bits.
    Some(u64),
    /// Opens its sessions everywhere, and sends all else to some replicas only, as bits.
    Only(u64),
    /// Sends other bytes under the same number to some replicas, as bits.
    Differs(u64),
    /// Sends two requests under each number, to some replicas the second one only, as bits.
    Both(u64),
    /// Sends its requests in the session of another client, too.
    Others,
    /// Sends everything many times.
    Again,
}

/// Where the operation's number is in the body of a request: behind that, bytes may change without making it another operation.
const VALUE_AT: usize = REQUEST_HEADER + 24;

/// What leaves in place of a frame for replica `to`. `sessions`: those of other clients.
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

/// The session that the last request of a frame belongs to.
pub fn session_of(frame: &OutFrame) -> Option<SessionId> {
    let payload = Bytes::from(frame.to_vec()).slice(FRAME_HEADER..);
    let kind = frame.kind();
    let last = Requests::new(&payload).flatten().filter(|_| kind == FrameKind::Requests).last();
    last.map(|(header, ..)| header.session).filter(|session| *session != SessionId::NONE)
}

/// The last byte of a value is another one; or of what proves whose request it is, where that stands behind every second one.
fn differ(header: &RequestHeader, request: &mut [u8]) {
    let proof = if header.number.number().is_multiple_of(2) { 0 } else { header.proof.byte_len() };
    let end = request.len() - proof;
    if header.kind == RequestKind::Commands
        && let Some(last) = request[..end].get_mut(VALUE_AT..).and_then(<[u8]>::last_mut)
    {
        *last ^= 1;
    }
}

/// What opens sessions in a frame.
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
