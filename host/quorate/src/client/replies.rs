//! What each replica says, beside the answer that counts: for programs that want to know who answers late or wrongly.
//!
//! Source: Bessani, Sousa, Alchieri, "State Machine Replication for the Masses with BFT-SMaRt", DSN 2014, section 4 (asynchronous
//! invocations, whose listener gets the reply of each replica). Which answer counts is decided as ever; a listener is only told.

use super::{LetterQueue, ReceivedLetter};
use bytes::Bytes;
use quorate_client::{Effect, ReplicaReply};
use quorate_types::{Digest, ReplicaId, RequestNumber, SessionId};
use quorate_wire::{ReplyStatus, reply_digest};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Is told the reply of each replica to the requests of a client ([`ClientBuilder::reply_listener`](super::ClientBuilder::reply_listener)).
///
/// It is called on the client's thread, so it must be quick and never wait. Requests are named by their session and their number there:
/// calls of a session are numbered from 1, in the order in which they were made.
pub trait ReplyListener: Debug + Send + Sync {
    /// A replica replied. It may lie, repeat itself, and come after the reply that counts.
    fn replied(&self, reply: &ReplicaReply);

    /// This is the reply that counts: one replica's where they only crash, the one that f+1 gave where they may lie. `replies`: the encoded
    /// list of replies, if the request was executed and its replies are known. The call ends right after.
    fn believed(&self, session: SessionId, number: RequestNumber, replies: Option<&Bytes>) {
        let _ = (session, number, replies);
    }
}

/// One replica's reply, as a [`ReplyWatch`] keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedReply {
    /// The replica.
    pub replica: ReplicaId,
    /// How it says that the request ended; [`ReplyStatus::Done`] also if it sent only the digest of the replies.
    pub status: ReplyStatus,
    /// The digest of what it said.
    pub digest: Digest,
    /// Whether it says the same as the reply that counts; `None` as long as none does.
    pub agrees: Option<bool>,
}

/// One request.
#[derive(Debug, Default)]
struct Watched {
    replies: Vec<WatchedReply>,
    /// The digest of the reply that counts.
    believed: Option<Digest>,
}

#[derive(Debug, Default)]
struct State {
    requests: BTreeMap<(SessionId, RequestNumber), Watched>,
    /// In the order of what was said of them first.
    order: VecDeque<(SessionId, RequestNumber)>,
    differed: BTreeMap<ReplicaId, u64>,
}

/// A listener that keeps what replicas said to the last requests, as digests, and counts who differed. Its memory is bounded: some hundred
/// bytes for each request. Clones are the same watch.
#[derive(Clone, Debug)]
pub struct ReplyWatch {
    state: Arc<Mutex<State>>,
    requests_max: usize,
}

impl ReplyWatch {
    /// A watch over the last `requests_max` requests.
    pub fn new(requests_max: usize) -> Self {
        Self { state: Arc::default(), requests_max: requests_max.max(1) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What replicas said to a request, in the order in which it came; empty once the request is forgotten. A replica is there once, with the
    /// first thing that it said of the end of the request.
    pub fn replies(&self, session: SessionId, number: RequestNumber) -> Vec<WatchedReply> {
        self.state().requests.get(&(session, number)).map_or_else(Vec::new, |watched| watched.replies.clone())
    }

    /// How often each replica said something else than the reply that counts. With crash faults that is a bug of the service or the machine;
    /// where replicas may lie it may be a lie.
    pub fn differed(&self) -> Vec<(ReplicaId, u64)> {
        self.state().differed.iter().map(|(replica, times)| (*replica, *times)).collect()
    }
}

impl State {
    /// A request, which takes the place of the oldest one if there is no room.
    fn request(&mut self, which: (SessionId, RequestNumber), max: usize) -> &mut Watched {
        if !self.requests.contains_key(&which) {
            if self.order.len() >= max
                && let Some(oldest) = self.order.pop_front()
            {
                self.requests.remove(&oldest);
            }
            self.order.push_back(which);
        }
        self.requests.entry(which).or_default()
    }
}

impl ReplyListener for ReplyWatch {
    fn replied(&self, reply: &ReplicaReply) {
        if !reply.is_end() {
            return; // it says what the replica does now, and the request is sent again
        }
        let mut state = self.state();
        let watched = state.request((reply.session, reply.number), self.requests_max);
        if watched.replies.iter().any(|known| known.replica == reply.replica) {
            return;
        }
        let digest = reply.digest();
        let agrees = watched.believed.map(|believed| believed == digest);
        let by_digest = reply.status == ReplyStatus::DoneDigest;
        let status = if by_digest { ReplyStatus::Done } else { reply.status };
        watched.replies.push(WatchedReply { replica: reply.replica, status, digest, agrees });
        if agrees == Some(false) {
            *state.differed.entry(reply.replica).or_default() += 1;
        }
    }

    fn believed(&self, session: SessionId, number: RequestNumber, replies: Option<&Bytes>) {
        let Some(believed) = replies.map(|replies| reply_digest(replies)) else { return };
        let mut state = self.state();
        let watched = state.request((session, number), self.requests_max);
        watched.believed = Some(believed);
        let mut wrong = Vec::new();
        for reply in &mut watched.replies {
            reply.agrees = Some(reply.digest == believed);
            if reply.digest != believed {
                wrong.push(reply.replica);
            }
        }
        wrong.into_iter().for_each(|replica| *state.differed.entry(replica).or_default() += 1);
    }
}

/// Where the client's thread puts what is no answer to a caller.
#[derive(Clone, Debug, Default)]
pub(super) struct Outlets {
    pub(super) letters: Option<LetterQueue>,
    pub(super) replies: Option<Arc<dyn ReplyListener>>,
}

impl Outlets {
    /// Puts an effect where it belongs.
    pub(super) fn put(&self, effect: Effect) {
        match (effect, &self.letters, &self.replies) {
            (Effect::Letter { session, number, missed, body }, Some(letters), _) => {
                letters.put(ReceivedLetter { session, number, missed, body });
            }
            (Effect::Replied(reply), _, Some(listener)) => listener.replied(&reply),
            (Effect::Believed { session, number, replies }, _, Some(listener)) => {
                listener.believed(session, number, replies.as_ref());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
