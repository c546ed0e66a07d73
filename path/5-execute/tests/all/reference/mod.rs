//! The rules of sessions written down once more, as plainly as they can be: searches instead of tables, copies instead
//! of buffers.

use crate::support::{self, Ask, Seen, items};
use quorate_execute::SessionLimits;
use quorate_types::{ClientId, SessionId};
use quorate_wire::{ReplyStatus, RequestKind};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
struct Open {
    id: SessionId,
    client: u64,
    nonce: u64,
    last: u64,
    lowest: u64,
    active: u64,
    replies: BTreeMap<u64, (ReplyStatus, Vec<u8>)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Reference {
    limits: SessionLimits,
    open: Vec<Open>,
    generations: BTreeMap<u32, u32>,
    time: u64,
    count: u64,
}

impl Reference {
    pub(crate) fn new(limits: SessionLimits) -> Self {
        Self { limits, open: vec![], generations: BTreeMap::new(), time: 0, count: 0 }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn sessions(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn run(&mut self, time: u64, asks: &[Ask]) -> Vec<Seen> {
        self.time = self.time.max(time);
        let (now, ttl) = (self.time, self.limits.ttl.nanos());
        self.open.retain(|session| now < session.active + ttl);
        asks.iter().map(|ask| self.one(ask)).collect()
    }

    fn one(&mut self, ask: &Ask) -> Seen {
        if ask.kind == RequestKind::OpenSession {
            let client = u64::from_le_bytes(*ask.body.first_chunk().unwrap());
            let (session, status) = match self.open(client, ask.number) {
                Some(id) => (id, ReplyStatus::SessionOpened),
                None => (SessionId::NONE, ReplyStatus::SessionLimit),
            };
            let opening = Some(ClientId::new(client));
            return Seen { session, number: ask.number, status, body: vec![], opening };
        }
        let (status, body) = self.request(ask);
        Seen { session: ask.session, number: ask.number, status, body, opening: None }
    }

    fn open(&mut self, client: u64, nonce: u64) -> Option<SessionId> {
        let same = |s: &&Open| s.client == client && s.nonce == nonce && s.last == 0;
        if let Some(session) = self.open.iter().find(same) {
            return Some(session.id);
        }
        let of_client = self.open.iter().filter(|session| session.client == client).count();
        if self.open.len() >= self.limits.sessions_max as usize
            || of_client >= self.limits.sessions_per_client_max as usize
        {
            return None;
        }
        let index = (0..).find(|index| self.open.iter().all(|session| session.id.index != *index)).unwrap();
        let generation = self.generations.get(&index).unwrap_or(&0) + 1;
        self.generations.insert(index, generation);
        let id = SessionId { index, generation };
        let replies = BTreeMap::new();
        self.open.push(Open { id, client, nonce, last: 0, lowest: 1, active: self.time, replies });
        Some(id)
    }

    fn request(&mut self, ask: &Ask) -> (ReplyStatus, Vec<u8>) {
        let total: usize = self.open.iter().map(Open::kept).sum();
        let Some(at) = self.open.iter().position(|session| session.id == ask.session) else {
            return (ReplyStatus::SessionExpired, vec![]);
        };
        let session = &mut self.open[at];
        let before = session.kept();
        session.lowest = session.lowest.max(ask.lowest.min(ask.number).min(session.last + 1));
        let lowest = session.lowest;
        session.replies.retain(|number, _| *number >= lowest);
        let total = total - (before - session.kept());
        if ask.number <= session.last {
            return session
                .replies
                .get(&ask.number)
                .cloned()
                .unwrap_or((ReplyStatus::ReplyForgotten, vec![]));
        }
        if ask.number != session.last + 1 {
            return (ReplyStatus::ExpectedNumber, (session.last + 1).to_le_bytes().to_vec());
        }
        if ask.kind == RequestKind::CloseSession {
            self.open.remove(at);
            return (ReplyStatus::Done, items(&[]));
        }
        let full = ask.number > session.lowest + self.limits.window
            || session.kept() as u64 > self.limits.reply_bytes_max
            || total as u64 > self.limits.reply_bytes_total_max;
        if full {
            return (ReplyStatus::Overloaded, vec![]);
        }
        let mut replies = vec![];
        if ask.kind == RequestKind::Query {
            replies.push([&self.count.to_le_bytes(), &ask.body[..]].concat());
        }
        if ask.kind == RequestKind::Commands {
            for command in support::list(&ask.body) {
                replies.push([&self.count.to_le_bytes(), &command[..]].concat());
                self.count += 1;
            }
        }
        let body = items(&replies.iter().map(Vec::as_slice).collect::<Vec<_>>());
        session.last = ask.number;
        session.active = self.time;
        session.replies.insert(ask.number, (ReplyStatus::Done, body.clone()));
        (ReplyStatus::Done, body)
    }
}

impl Open {
    fn kept(&self) -> usize {
        self.replies.values().map(|(_, body)| body.len()).sum()
    }
}
