//! Nested requests: what leaves for which service, with which number, and what is unanswered.

use super::chain::{Chain, ServiceId};
use super::request::Key;
use super::rules::NestedRules;
use super::service::Answer;
use bytes::Bytes;
use quorate_types::{AgreedTime, Items, ItemsBuilder, RequestNumber, planted};
use quorate_wire::ReplyStatus;
use std::collections::BTreeMap;

/// A request to another service: everything that leaves for it together. Equal to the byte on all replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NestedRequest {
    /// The service that is asked.
    pub backend: ServiceId,
    /// Numbers of one backend grow by one, from 1.
    pub number: RequestNumber,
    /// The lowest number that had no answer when this one left. Follows from answers that are ordered.
    pub lowest_unanswered: RequestNumber,
    /// The services that lead to it; the last one asks.
    pub chain: Chain,
    /// The commands, an item list ([`Items`]).
    pub commands: Bytes,
}

/// The answer to a nested request, as it stands in the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The service that answers.
    pub backend: ServiceId,
    /// The number of the nested request.
    pub number: RequestNumber,
    /// How it ended there. A status after which the backend takes the number again, such as [`ReplyStatus::Overloaded`], is no answer.
    pub status: ReplyStatus,
    /// The body that belongs to the status: for [`ReplyStatus::Done`] one reply for each command, an item list.
    pub body: Bytes,
}

impl Answered {
    /// Whether the backend is done with the number: otherwise it takes the request when it is sent again.
    pub(super) fn is_final(&self) -> bool {
        use ReplyStatus::{Done, ReplyForgotten, SessionExpired, TooLarge};
        matches!(self.status, Done | TooLarge | ReplyForgotten | SessionExpired)
    }
}

/// Whose question a command of a nested request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Member {
    pub(super) key: Key,
    /// The index of the command in its request, and the number of the question in the command.
    pub(super) command: u32,
    pub(super) ticket: u32,
}

/// A nested request without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) lowest: RequestNumber,
    pub(super) chain: Chain,
    /// Empty once it was given up.
    pub(super) members: Vec<Member>,
    pub(super) commands: Bytes,
    /// From then on its outcome counts as unknown. Those of later numbers are not earlier. Nothing once it was given up: the backend takes numbers
    /// without gaps, so it is sent until it is answered.
    pub(super) deadline: Option<AgreedTime>,
}

/// What goes to one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Backend {
    pub(super) next: RequestNumber,
    pub(super) sent: BTreeMap<RequestNumber, Sent>,
}

impl Default for Backend {
    fn default() -> Self {
        Self { next: RequestNumber::new(1), sent: BTreeMap::new() }
    }
}

/// A question that leaves when the batch ends.
#[derive(Clone, Debug)]
pub(super) struct Leaving {
    pub(super) backend: ServiceId,
    pub(super) chain: Chain,
    pub(super) member: Member,
    pub(super) body: Bytes,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Outgoing {
    pub(super) backends: BTreeMap<ServiceId, Backend>,
    leaving: Vec<Leaving>,
    bytes: u64,
}

impl Outgoing {
    /// Bytes of all questions that leave or have no answer.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn leave(&mut self, leaving: Leaving) {
        self.bytes += leaving.body.len() as u64;
        self.leaving.push(leaving);
    }

    pub(super) fn restore(&mut self, backend: ServiceId, with: Backend) {
        self.bytes += with.sent.values().map(Sent::bytes).sum::<u64>();
        self.backends.insert(backend, with);
    }

    /// The end of a batch: gives what leaves in it its numbers.
    /// Deviation: Kapritsos (Adam), section 4.4, has a client of its own for each thread.
    pub(super) fn close(&mut self, now: AgreedTime, rules: &NestedRules) -> Vec<NestedRequest> {
        let mut leaving = std::mem::take(&mut self.leaving);
        if planted("numbers-by-arrival") {
            leaving.sort_by(|a, b| (a.backend, &a.chain).cmp(&(b.backend, &b.chain)));
        } else {
            leaving.sort_by(|a, b| (a.backend, &a.chain, a.member).cmp(&(b.backend, &b.chain, b.member)));
        }
        let (mut requests, mut rest) = (Vec::new(), leaving.into_iter().peekable());
        while let Some(first) = rest.next() {
            let (mut commands, mut members) = (ItemsBuilder::new(), vec![first.member]);
            commands.push(&first.body);
            while let Some(next) = rest.next_if(|next| {
                let bytes = (commands.byte_len() + next.body.len()) as u64;
                (next.backend, &next.chain) == (first.backend, &first.chain)
                    && bytes <= rules.request_bytes_max
            }) {
                commands.push(&next.body);
                members.push(next.member);
            }
            let mut bytes = Vec::with_capacity(commands.encoded_len());
            commands.write_to(&mut bytes);
            let backend = self.backends.entry(first.backend).or_default();
            let (number, commands) = (backend.next, Bytes::from(bytes));
            let lowest = backend.lowest();
            backend.next = number.next();
            let deadline = Some(now.plus(rules.patience));
            let sent = Sent { lowest, chain: first.chain, members, commands, deadline };
            requests.push(sent.request(first.backend, number));
            backend.sent.insert(number, sent);
        }
        requests
    }

    /// The nested request with this number, which has an answer now.
    pub(super) fn answered(&mut self, backend: ServiceId, number: RequestNumber) -> Option<Sent> {
        let sent = &mut self.backends.get_mut(&backend)?.sent;
        if planted("answer-resumes-twice") {
            return sent.get(&number).cloned();
        }
        let sent = sent.remove(&number)?;
        self.bytes -= sent.bytes();
        Some(sent)
    }

    /// Gives up those whose time is up. Gives their members, which hear nothing of them any more.
    pub(super) fn give_up(&mut self, now: AgreedTime) -> Vec<Vec<Member>> {
        let sent = self.backends.values_mut().flat_map(|backend| {
            let is_over = move |sent: &&mut Sent| sent.deadline.is_none_or(|deadline| deadline <= now);
            backend.sent.values_mut().take_while(is_over).filter(|sent| sent.deadline.is_some())
        });
        let give_up = |sent: &mut Sent| {
            sent.deadline = None;
            std::mem::take(&mut sent.members)
        };
        sent.map(give_up).collect()
    }

    /// When the first time is up.
    pub(super) fn next_deadline(&self) -> Option<AgreedTime> {
        let firsts = self.backends.values().filter_map(|of| of.sent.values().find_map(|sent| sent.deadline));
        firsts.min()
    }

    /// All that have no answer, as they left.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = NestedRequest> {
        let all = self.backends.iter().flat_map(|(backend, of)| of.sent.iter().map(|sent| (*backend, sent)));
        all.map(|(backend, (number, sent))| sent.request(backend, *number))
    }

    /// Panics with the name of an invariant that does not hold.
    pub(super) fn invariants(&self) {
        assert!(self.leaving.is_empty(), "INV-NESTED-3: what was asked in a batch leaves when it ends");
        let bytes: u64 = self.backends.values().flat_map(|of| of.sent.values()).map(Sent::bytes).sum();
        assert_eq!(bytes, self.bytes, "INV-NESTED-3: the bytes of nested requests are counted");
    }
}

impl Backend {
    fn lowest(&self) -> RequestNumber {
        if planted("lowest-number-by-arrival") {
            return RequestNumber::new(self.next.number() - self.sent.len() as u64);
        }
        self.sent.keys().next().copied().unwrap_or(self.next)
    }
}

impl Sent {
    fn bytes(&self) -> u64 {
        let commands = Items::parse(&self.commands).map_or(0, |commands| commands.bytes().len());
        commands as u64
    }

    fn request(&self, backend: ServiceId, number: RequestNumber) -> NestedRequest {
        let (lowest_unanswered, chain, commands) = (self.lowest, self.chain.clone(), self.commands.clone());
        NestedRequest { backend, number, lowest_unanswered, chain, commands }
    }

    /// What each of its members hears.
    pub(super) fn answers(&self, answered: &Answered, rules: &NestedRules) -> Vec<Answer> {
        let count = self.members.len();
        if answered.status != ReplyStatus::Done {
            return vec![Answer::Status(answered.status); count];
        }
        match Items::parse(&answered.body) {
            Ok(replies) if replies.len() == count => replies
                .iter()
                .map(|reply| match reply.len() as u64 > rules.message_bytes_max {
                    true => Answer::Status(ReplyStatus::TooLarge),
                    false => Answer::Reply(Bytes::copy_from_slice(reply)),
                })
                .collect(),
            // It ran, but nobody can tell how.
            _ => vec![Answer::Unknown; count],
        }
    }
}
