//! What tests step a part of the client with.

use super::Step;
use crate::config::Config;
use crate::contacts::Contacts;
use crate::core::Stats;
use crate::effects::{CallId, Completion, Effect, Effects};
use crate::error::Error;
use crate::letters::Letters;
use crate::parts::Parts;
use crate::reads::Reads;
use crate::sessions::{Rules, Sessions};
use crate::votes::KeptAnswers;
use bytes::Bytes;
use quorate_types::{
    ClientId, ConnId, ItemsBuilder, Random, ReplicaId, RequestNumber, SessionId, Span, Time,
};
use quorate_wire::{Frame, FrameKind, OutFrame, Reply, ReplyStatus, RequestKind, Requests};

/// No session is opened with it.
pub(crate) const PROBE: u64 = 77;
pub(crate) const ID: SessionId = SessionId { index: 5, generation: 2 };

/// The rules of the reach to the leader.
pub(crate) const ONE: Rules = Rules { needed: 1, around: 32, takes_back: 1 };

/// What a part is given, and what it gave.
pub(crate) struct Desk {
    pub(crate) now: Time,
    pub(crate) config: Config,
    random: Random,
    out: Effects,
}

/// A request as a member got it: its session, number, kind and body.
pub(crate) type Got = (SessionId, u64, RequestKind, Vec<u8>);

impl Desk {
    pub(crate) fn new() -> Self {
        let config = Config::new(ClientId::new(7), 3);
        Self { now: Time::from_nanos(1), config, random: Random::new(9), out: Effects::new() }
    }

    pub(crate) fn step(&mut self) -> Step<'_> {
        Step { now: self.now, config: &self.config, random: &mut self.random, out: &mut self.out }
    }

    pub(crate) fn later(&mut self, millis: u64) {
        self.now = self.now.plus(Span::from_millis(millis));
    }

    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        self.out.drain().collect()
    }

    /// What ended.
    pub(crate) fn ended(&mut self) -> Vec<(u64, Result<Completion, Error>)> {
        let ended = |effect| match effect {
            Effect::Completed { call, result } => Some((call.0, result)),
            _ => None,
        };
        self.effects().into_iter().filter_map(ended).collect()
    }

    /// What was sent, by member.
    pub(crate) fn sent(&mut self, contacts: &Contacts) -> Vec<Vec<OutFrame>> {
        let mut sent = vec![Vec::new(); contacts.len()];
        for effect in self.effects() {
            if let Effect::Send { conn, frame } = effect
                && let Some(contact) = contacts.of_conn(conn)
            {
                sent[contact].push(frame);
            }
        }
        sent
    }

    /// The requests that were sent, by member.
    pub(crate) fn requests(&mut self, contacts: &Contacts) -> Vec<Vec<Got>> {
        let requests = |frames: Vec<OutFrame>| {
            let frames = frames.iter().filter(|frame| frame.kind() == FrameKind::Requests).map(arrives);
            frames.flat_map(|frame| requests_in(&frame.payload)).collect()
        };
        self.sent(contacts).into_iter().map(requests).collect()
    }

    /// Connections, sessions and reads with this many members, all of them connected.
    pub(crate) fn parts(&mut self, members: u16, rules: Rules) -> Parts {
        let ids: Vec<ReplicaId> = (1..=members).map(ReplicaId::new).collect();
        let mut parts = Parts {
            contacts: Contacts::new(&ids, None),
            sessions: Sessions::new(rules, PROBE, KeptAnswers::new(ids.len(), 1 << 20)),
            reads: Reads::new(ids.len(), 1 << 20),
            letters: Letters::new(rules.needed, self.config.letters),
            stats: Stats::default(),
        };
        for contact in 0..ids.len() {
            self.connect(&mut parts.contacts, contact);
        }
        self.effects();
        parts
    }

    /// Dials a member, which lets us in.
    pub(crate) fn connect(&mut self, contacts: &mut Contacts, contact: usize) -> ConnId {
        assert_eq!(contacts.due(&mut self.step(), contact), None);
        let conn = contacts.at(contact).conn().expect("dialed");
        contacts.connected(&mut self.step(), conn);
        contacts.written(conn, usize::MAX);
        contacts.welcomed(self.now, contact, quorate_types::ServiceName::NONE);
        conn
    }

    /// Opens a session with this id.
    pub(crate) fn open(&mut self, sessions: &mut Sessions, call: u64, id: SessionId) {
        sessions.open(&mut self.step(), CallId(call), None);
        let cell = sessions.next_ready().expect("it is to be opened");
        let nonce = sessions.at(cell).and_then(crate::sessions::Session::send_opening).expect("it is sent");
        say(sessions, self, id, nonce, ReplyStatus::SessionOpened, b"");
    }
}

/// A true answer comes.
pub(crate) fn say(
    sessions: &mut Sessions,
    desk: &mut Desk,
    session: SessionId,
    number: u64,
    status: ReplyStatus,
    body: &[u8],
) -> crate::sessions::Taken {
    let (payload, number) = (Bytes::copy_from_slice(body), RequestNumber::new(number));
    sessions.reply(&mut desk.step(), &Reply { session, number, status, body: &payload }, &payload)
}

/// A list of one item.
pub(crate) fn list(item: &[u8]) -> Bytes {
    let mut items = ItemsBuilder::new();
    items.push(item);
    let mut out = Vec::new();
    items.write_to(&mut out);
    out.into()
}

/// A frame as it arrives.
pub(crate) fn arrives(frame: &OutFrame) -> Frame {
    Frame { kind: frame.kind(), payload: Bytes::from(frame.to_vec()).slice(16..) }
}

fn requests_in(payload: &Bytes) -> Vec<Got> {
    let requests = Requests::new(payload).map(|request| request.expect("well formed"));
    requests
        .map(|(header, body, _)| (header.session, header.number.number(), header.kind, body.to_vec()))
        .collect()
}
