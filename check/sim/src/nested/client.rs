//! Who asks the clusters from outside: clients of the shop, and operators. Each connects to all replicas of a cluster, sends to all of them, and
//! sends again what is not answered.

use super::services::transfer;
use crate::random::Rng;
use bytes::Bytes;
use quorate_types::{ClientId, ClusterId, ItemsBuilder, ReplicaId, RequestNumber, SessionId};
use quorate_wire::{
    Frame, FrameKind, Hello, OutFrame, ReplicaMessage, Reply, ReplyStatus, RequestHeader, RequestKind,
    RequestProof, Role, write_opening, write_request,
};
use std::collections::{BTreeMap, BTreeSet};

/// Somebody outside.
pub(super) struct Outsider {
    pub(super) who: Role,
    pub(super) cluster: ClusterId,
    /// How many replicas must answer alike.
    pub(super) enough: usize,
    /// The connections that are welcome, by replica.
    pub(super) conns: BTreeMap<u16, u64>,
    /// What it has to do.
    pub(super) task: Task,
    /// What replicas answered to what it waits for.
    votes: BTreeMap<(SessionId, Vec<u8>), BTreeSet<u16>>,
}

/// What somebody does.
pub(super) enum Task {
    /// Moves money, so often.
    Move { session: SessionId, number: u64, of: u64, rng: Rng, sent: Vec<(u8, u8)> },
    /// Hands this over until it is done.
    Hand(OutFrame),
    /// Nothing more.
    Rests,
}

impl Outsider {
    pub(super) fn new(who: Role, cluster: ClusterId, enough: usize, task: Task) -> Self {
        Self { who, cluster, enough, conns: BTreeMap::new(), task, votes: BTreeMap::new() }
    }

    pub(super) fn hello(&self, to: u16) -> OutFrame {
        Hello::new(self.cluster, Some(ReplicaId::new(to)), self.who).frame()
    }

    /// What it sends to every replica now.
    pub(super) fn says(&self) -> Option<OutFrame> {
        match &self.task {
            Task::Rests => None,
            Task::Move { number, of, .. } if number > of => None,
            Task::Hand(frame) => Some(frame.clone()),
            Task::Move { session, number, sent, .. } => {
                let mut bytes = Vec::new();
                let next = RequestNumber::new(*number);
                if *session == SessionId::NONE {
                    let body = write_opening(self.client(), None);
                    let (kind, len) = (RequestKind::OpenSession, body.len() as u32);
                    let lowest_unanswered = RequestNumber::new(0);
                    let number = RequestNumber::new(self.client().number());
                    let proof = RequestProof::None;
                    RequestHeader { session: *session, number, lowest_unanswered, kind, len, proof }
                        .write_to(&mut bytes);
                    bytes.extend_from_slice(&body);
                } else {
                    let (account, amount) = *sent.last()?;
                    let mut commands = ItemsBuilder::new();
                    commands.push(&transfer(account, amount, self.client().number() << 32 | *number));
                    write_request(&mut bytes, *session, next, next, &commands);
                }
                Some(OutFrame::new(FrameKind::Requests, &bytes, vec![]))
            }
        }
    }

    fn client(&self) -> ClientId {
        match self.who {
            Role::Client(client) => client,
            _ => ClientId::new(0),
        }
    }

    /// How much it had moved, and whether it is done.
    pub(super) fn moved(&self) -> (i64, u64, bool) {
        match &self.task {
            Task::Move { number, of, sent, .. } => {
                (sent.iter().map(|(_, amount)| i64::from(*amount)).sum(), sent.len() as u64, number > of)
            }
            Task::Hand(_) => (0, 0, false),
            Task::Rests => (0, 0, true),
        }
    }

    /// A frame came from a replica. Whether there is something new to say.
    pub(super) fn hears(&mut self, from: u16, frame: Frame) -> Result<bool, String> {
        let Task::Move { .. } = self.task else { return Ok(false) };
        let Ok(ReplicaMessage::Replies(bytes)) = ReplicaMessage::decode(frame) else { return Ok(false) };
        let mut any = false;
        for reply in Reply::walk(&bytes).flatten() {
            any |= self.reply(from, &reply)?;
        }
        Ok(any)
    }

    fn reply(&mut self, from: u16, reply: &Reply<'_>) -> Result<bool, String> {
        let me = self.client().number();
        let Task::Move { session, number, of, rng, sent } = &mut self.task else { return Ok(false) };
        let opens = *session == SessionId::NONE;
        let (expected, of_it) = if opens { (me, true) } else { (*number, reply.session == *session) };
        let wanted = if opens { ReplyStatus::SessionOpened } else { ReplyStatus::Done };
        if reply.status == ReplyStatus::SessionExpired && of_it && !opens {
            return Err(format!("r{from} says that the session of a client expired"));
        }
        if reply.number.number() != expected || !of_it || reply.status != wanted || *number > *of {
            return Ok(false);
        }
        let votes = self.votes.entry((reply.session, reply.body.to_vec())).or_default();
        votes.insert(from);
        if votes.len() < self.enough {
            return Ok(false);
        }
        self.votes.clear();
        if opens {
            *session = reply.session;
        } else {
            *number += 1;
        }
        if *number <= *of {
            sent.push((rng.below(4) as u8, 1 + rng.below(200) as u8));
        }
        Ok(true)
    }

    /// A connection is welcome, or something else came.
    pub(super) fn is_welcome(frame: &Frame) -> bool {
        frame.kind == FrameKind::Welcome
    }
}

/// A frame, as it arrives.
pub(super) fn arrives(frame: &OutFrame) -> Frame {
    let bytes = Bytes::from(frame.to_vec());
    Frame { kind: frame.kind(), payload: bytes.slice(quorate_wire::FRAME_HEADER..) }
}
