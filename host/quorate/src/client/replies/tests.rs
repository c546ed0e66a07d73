//! A watch over replies: who agreed, before and after one counts.

use super::{ReplyListener, ReplyWatch};
use bytes::Bytes;
use quorate_client::ReplicaReply;
use quorate_types::{ReplicaId, RequestNumber, SessionId};
use quorate_wire::{ReplyStatus, reply_digest};

const SESSION: SessionId = SessionId { index: 3, generation: 1 };

fn reply(replica: u16, number: u64, status: ReplyStatus, body: &[u8]) -> ReplicaReply {
    let (replica, number) = (ReplicaId::new(replica), RequestNumber::new(number));
    ReplicaReply { replica, session: SESSION, number, status, body: Bytes::copy_from_slice(body) }
}

/// Who said something, and whether that is what counts.
fn said(watch: &ReplyWatch, number: u64) -> Vec<(u16, Option<bool>)> {
    let replies = watch.replies(SESSION, RequestNumber::new(number));
    replies.iter().map(|reply| (reply.replica.number(), reply.agrees)).collect()
}

#[test]
fn who_differs_is_known_before_and_after_a_reply_counts() {
    let watch = ReplyWatch::new(10);
    watch.replied(&reply(4, 1, ReplyStatus::Overloaded, b""));
    watch.replied(&reply(1, 1, ReplyStatus::Done, b"lie"));
    watch.replied(&reply(1, 1, ReplyStatus::Done, b"yes"));
    watch.replied(&reply(2, 1, ReplyStatus::Done, b"yes"));
    assert_eq!(said(&watch, 1), [(1, None), (2, None)], "a refusal is no end, and its first word counts");
    watch.believed(SESSION, RequestNumber::new(1), Some(&Bytes::from_static(b"yes")));
    watch.replied(&reply(3, 1, ReplyStatus::DoneDigest, reply_digest(b"yes").bytes()));
    watch.replied(&reply(4, 1, ReplyStatus::DoneDigest, reply_digest(b"no").bytes()));
    assert_eq!(said(&watch, 1), [(1, Some(false)), (2, Some(true)), (3, Some(true)), (4, Some(false))]);
    assert_eq!(watch.differed(), [(ReplicaId::new(1), 1), (ReplicaId::new(4), 1)]);
}

#[test]
fn the_oldest_requests_are_forgotten() {
    let watch = ReplyWatch::new(3);
    for number in 1..=100 {
        watch.replied(&reply(1, number, ReplyStatus::Done, b"x"));
        watch.believed(SESSION, RequestNumber::new(number), None);
    }
    let known = (1..=100).filter(|number| !said(&watch, *number).is_empty());
    assert_eq!(known.collect::<Vec<_>>(), [98, 99, 100]);
    let state = watch.state();
    assert_eq!((state.requests.len(), state.order.len()), (3, 3));
}
