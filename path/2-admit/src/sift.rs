//! Requests on their way to a leader that admits them on another lane, where execution is not known. What execution says of them is checked
//! before, on the lane that has it; [`crate::Admission`] checks the rest there.

use crate::admission::{Answer, Executed, FORBIDDEN, Terms, reply};
use bytes::Bytes;
use quorate_types::{RequestNumber, Room, SessionId};
use quorate_wire::{ReplyStatus, RequestKind, Requests};
use std::collections::BTreeMap;

/// Requests that execution does not know.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sifted {
    /// The requests, in their order.
    pub requests: Bytes,
    /// The last number that each of their sessions executed.
    pub last: BTreeMap<SessionId, RequestNumber>,
    /// Whether all of them free room. Known only while there is little.
    pub frees: bool,
}

/// Answers the requests of one frame that were executed, whose session has ended, or that the client may not run. Requests of unknown sessions
/// are dropped while they may still be opened; later they go on without a last number. Gives the others; while there is little room, those that free room apart. `queue`: how many
/// bytes of requests are admitted or on their way and not decided, and how many there may be. The other arguments are as those of
/// [`crate::Admission::permitted_requests`].
pub fn sift<'a>(
    bytes: &Bytes,
    (terms, queue): (&Terms, (usize, usize)),
    executed: impl Fn(SessionId, RequestNumber) -> Executed<'a>,
    permits: impl Fn(&[u8]) -> bool,
    frees: impl Fn(RequestKind, &[u8]) -> bool,
    answer: &mut Answer,
) -> Vec<Sifted> {
    let (mut kept, mut freeing) = (Kept::default(), Kept::default());
    let mut at = 0;
    for (header, body, whole) in Requests::new(bytes).flatten() {
        let range = at..at + whole.len();
        at = range.end;
        let known = if header.kind == RequestKind::OpenSession || header.session == SessionId::NONE {
            Look::Keep(None)
        } else {
            look(executed(header.session, header.number), terms)
        };
        let last = match known {
            Look::Keep(_) if header.kind == RequestKind::Commands && !permits(body) => {
                // An earlier leader may have admitted it, until everything of before is executed.
                if terms.forbids && answer.len() < terms.answer_bytes_max {
                    reply(answer, &header, ReplyStatus::Forbidden, FORBIDDEN);
                }
                continue;
            }
            Look::Keep(_) if queue.0 + kept.bytes + freeing.bytes >= queue.1 => {
                if answer.len() < terms.answer_bytes_max {
                    reply(answer, &header, ReplyStatus::Overloaded, b"");
                }
                continue;
            }
            Look::Keep(last) => last.map(|last| (header.session, last)),
            Look::Drop => continue,
            // A client that asks again for more than fits gets a part, and asks again for the rest.
            Look::Answer(status, body) => {
                if answer.len() < terms.answer_bytes_max {
                    reply(answer, &header, status, body);
                }
                continue;
            }
        };
        let apart = terms.room == Room::Frees && frees(header.kind, body);
        if apart { &mut freeing } else { &mut kept }.add(range, last);
    }
    [(kept, false), (freeing, true)].into_iter().filter_map(|(kept, frees)| kept.cut(bytes, frees)).collect()
}

/// What execution says of a request of a session.
fn look<'a>(executed: Executed<'a>, terms: &Terms) -> Look<'a> {
    match executed {
        Executed::Done(status, body) => Look::Answer(status, body),
        Executed::UnderWay => Look::Drop,
        Executed::Forgotten => Look::Answer(ReplyStatus::ReplyForgotten, b""),
        Executed::Ended => Look::Answer(ReplyStatus::SessionExpired, b""),
        // The leader may have decided something since, of which execution does not know yet. So the leader says whether the session is over.
        Executed::NoSession if terms.settled => Look::Keep(None),
        // Whose session it is nobody can say before it is executed, so nobody may use it: its client asks again.
        Executed::NoSession => Look::Drop,
        Executed::Not(last) => Look::Keep(Some(last)),
    }
}

/// What happens to a request.
enum Look<'a> {
    /// It is passed on. If it has a session: the last number that the session executed.
    Keep(Option<RequestNumber>),
    Drop,
    Answer(ReplyStatus, &'a [u8]),
}

/// The requests that are kept: ranges of a frame's bytes, neighbours together.
#[derive(Default)]
struct Kept {
    ranges: Vec<std::ops::Range<usize>>,
    last: BTreeMap<SessionId, RequestNumber>,
    bytes: usize,
}

impl Kept {
    fn add(&mut self, range: std::ops::Range<usize>, last: Option<(SessionId, RequestNumber)>) {
        self.bytes += range.len();
        match self.ranges.last_mut() {
            Some(before) if before.end == range.start => before.end = range.end,
            _ => self.ranges.push(range),
        }
        self.last.extend(last);
    }

    /// Takes the ranges out of the frame. Mostly there is one, and nothing is copied.
    fn cut(self, bytes: &Bytes, frees: bool) -> Option<Sifted> {
        let requests = match &self.ranges[..] {
            [] => return None,
            [one] => bytes.slice(one.clone()),
            many => Bytes::from(many.iter().map(|range| &bytes[range.clone()]).collect::<Vec<_>>().concat()),
        };
        Some(Sifted { requests, last: self.last, frees })
    }
}

#[cfg(test)]
mod tests;
