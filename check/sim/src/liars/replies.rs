//! Wrong answers to clients: another value, another status, another session, a false leader.

use super::{Plays, Said, Saying, Voice};
use bytes::Bytes;
use quorate_types::{Digest, ReplicaId, RequestNumber, Seq, SessionId, View};
use quorate_wire::{
    FRAME_HEADER, FrameKind, LeaderNotice, ReadReply, ReadStatus, Reply, ReplyStatus, read_reply_header,
    reply_digest,
};

/// See the module.
#[derive(Debug)]
pub(super) struct Replies;

const STATUSES: [ReplyStatus; 12] = [
    ReplyStatus::Done,
    ReplyStatus::SessionOpened,
    ReplyStatus::SessionExpired,
    ReplyStatus::ExpectedNumber,
    ReplyStatus::Overloaded,
    ReplyStatus::TooLarge,
    ReplyStatus::SessionLimit,
    ReplyStatus::DiskFull,
    ReplyStatus::ReplyForgotten,
    ReplyStatus::Forbidden,
    ReplyStatus::Position,
    ReplyStatus::DoneDigest,
];

fn flipped(me: &mut Voice, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    if !body.is_empty() {
        let at = me.rng.below(body.len() as u64) as usize;
        body[at] ^= 1 << me.rng.below(8);
    }
    body
}

fn wrong(me: &mut Voice, reply: Reply<'_>, out: &mut Vec<u8>) {
    let mut body = reply.body.to_vec();
    let (mut session, mut number, mut status) = (reply.session, reply.number, reply.status);
    match me.rng.below(9) {
        0 | 1 => body = flipped(me, &body),
        2 => status = me.rng.pick(&STATUSES),
        3 => number = RequestNumber::new(number.number().wrapping_add(me.rng.below(3)).wrapping_sub(1)),
        4 => session = SessionId::from_number(session.number() ^ 1 << me.rng.below(64)),
        5 => {
            // Executed long ago, it says, or never.
            let expected = me.rng.below(100).to_le_bytes().to_vec();
            (status, body) = (ReplyStatus::ExpectedNumber, expected);
        }
        6 => body = vec![0; Digest::BYTES],
        7 => {
            // The right digest of an answer that nobody has, or of the true one.
            let lie = if me.rng.below(2) == 0 { body.clone() } else { flipped(me, &body) };
            (status, body) = (ReplyStatus::DoneDigest, reply_digest(&lie).bytes().to_vec());
        }
        _ => body.clear(),
    }
    if status == ReplyStatus::Position {
        number = RequestNumber::new(me.rng.number());
    }
    Reply { session, number, status, body: &body }.write_to(out);
}

fn wrong_read(me: &mut Voice, reply: &ReadReply<'_>, out: &mut Vec<u8>) {
    let (mut seq, mut status, mut body) = (reply.seq, reply.status, reply.body.to_vec());
    match me.rng.below(4) {
        0 => seq = Seq::new(me.rng.number() >> me.rng.below(64)),
        1 => {
            status = me.rng.pick(&[
                ReadStatus::Done,
                ReadStatus::NoLeader,
                ReadStatus::Overloaded,
                ReadStatus::TooLarge,
            ])
        }
        2 => body.clear(),
        _ => body = flipped(me, &body),
    }
    read_reply_header(out, reply.read, seq, status, body.len());
    out.extend_from_slice(&body);
}

impl Plays for Replies {
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let Said::Other(kind, payload) = &said else { return vec![Saying::now(to, said)] };
        let mut out = Vec::new();
        match kind {
            FrameKind::Replies => {
                for reply in Reply::walk(payload).flatten() {
                    wrong(me, reply, &mut out);
                }
            }
            FrameKind::ReadReplies => {
                for reply in ReadReply::walk(payload).flatten() {
                    wrong_read(me, &reply, &mut out);
                }
            }
            FrameKind::Leader => {
                let leader = Some(ReplicaId::new(me.rng.below(9) as u16));
                let notice = LeaderNotice { view: View::new(me.rng.number() >> me.rng.below(64)), leader };
                out = notice.frame().to_vec().split_off(FRAME_HEADER);
            }
            _ => return vec![Saying::now(to, said)],
        }
        let wrong = Said::Other(*kind, Bytes::from(out));
        // Sometimes both, so that the client has to choose.
        let mut list = vec![Saying::now(to, wrong)];
        if me.rng.chance(300) {
            list.push(Saying::now(to, said));
        }
        list
    }
}
