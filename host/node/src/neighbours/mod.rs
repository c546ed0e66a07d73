//! The services that this one asks, and those that ask it: what they are sent, and what counts of what they send.
//!
//! For each neighbour there is a channel ([`quorate_channel`]) in both directions. To a backend go nested requests, and its answers come back;
//! from a caller nested requests come, and their answers go back. What is sent is read from the final state, and nothing else: the nested
//! requests without an answer, and the replies that sessions keep. So a restart, a transfer and a replica that lags need nothing of their own.
//! What counts is offered to the intake as a request of the neighbour's session, in the order of its numbers, until it is ordered.
//!
//! In: the final state, connections, frames. Out: frames, dials, requests for the intake. `links.rs` has the connections. The rules:
//! docs/protocols/adam.md, A27 to A42. Tests: `check/sim/src/nested`, where two whole clusters ask each other.

mod joined;
mod links;

use crate::config::NodeConfig;
use bytes::Bytes;
pub use joined::neighbours;
pub(crate) use joined::{dialed, framed, said, step};
use links::{Dials, Links};
use quorate_channel::{ReceiveConfig, Receiver, SendConfig, Sender};
use quorate_execute::{Executor, KnownNeighbour, NestedRequest};
use quorate_types::{ClientId, ConnId, ReplicaId, RequestNumber, Seq, SessionId, Span, Time, planted};
use quorate_wire::{
    OutFrame, Relation, RequestHeader, RequestKind, RequestProof, copies_frame, seen_frame, split_answer,
    split_asked, write_answer, write_asked, write_nested,
};
use std::collections::{BTreeMap, BTreeSet};

/// So many messages of a neighbour are taken from the first open one on.
const WINDOW: u64 = 256;
/// The most bytes of copies that are kept of one member of a neighbour.
const MEMBER_BYTES_MAX: usize = 8 << 20;
/// What is sent at once has about so many bytes.
const BYTES_AT_ONCE: usize = 256 << 10;
/// What a member is not done with is sent to it again after this time.
const AGAIN: Span = Span::from_millis(500);
/// Where replicas only crash, each sends what those before it did not send for so long.
const TAKE_OVER: Span = Span::from_millis(300);
/// What counts and is not ordered is offered again after this time: perhaps this replica leads now.
const OFFER_AGAIN: Span = Span::from_millis(100);

/// One neighbour.
type Key = (Relation, u32);

/// What the rest of the replica does for this part.
#[derive(Debug)]
pub(crate) enum Out {
    /// Send a frame.
    Send(ConnId, OutFrame),
    /// Give this request to the intake, as if its client had sent it to this replica.
    Offer(ClientId, Bytes),
    /// Connect to a member of a backend.
    Dial { service: u32, replica: ReplicaId, address: String },
    /// Let larger frames through.
    Widen(ConnId),
    /// Close a connection.
    Close(ConnId),
}

/// What this part reads of others: the settings, and the final state.
pub(crate) struct Look<'a> {
    pub(crate) config: &'a NodeConfig,
    pub(crate) executor: &'a Executor,
}

/// One neighbour: its channel, and its connections.
#[derive(Debug)]
struct Line {
    known: KnownNeighbour,
    sender: Sender,
    receiver: Receiver,
    /// The connections of its members, with what each was told last.
    links: Links,
    /// When a request was offered last, by position.
    offered: BTreeMap<u64, Time>,
}

/// Numbers for the status.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct NeighbourStatus {
    /// Its number.
    pub service: u32,
    /// Its name.
    pub name: String,
    /// Whether it asks; otherwise it answers.
    pub asks: bool,
    /// The members that are connected.
    pub connected: Vec<u16>,
    /// Messages for it that it is not known to need no more.
    pub sends: usize,
    /// Its first message that is not ordered here.
    pub next: u64,
    /// Copies that no honest member of it sends.
    pub wrong: u64,
}

/// All neighbours, as this replica speaks with them; see the module.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    lines: BTreeMap<Key, Line>,
    /// The members of callers, by the clients as which they connect.
    members: BTreeMap<ClientId, (u32, ReplicaId)>,
    /// The connections of members, and those that are being made.
    conns: BTreeMap<ConnId, (Key, ReplicaId)>,
    dials: Dials,
    /// The state that was looked at last.
    seen: Option<(Seq, u64)>,
}

impl Neighbours {
    /// Whether there is nobody to speak with, and nobody to leave.
    pub(crate) fn has_none(&self, executor: &Executor) -> bool {
        executor.neighbours().is_empty() && self.lines.is_empty()
    }

    /// Looks at the final state, and gives what follows: at the end of each turn, and when its deadline comes.
    pub(crate) fn step(&mut self, now: Time, look: &Look<'_>, out: &mut Vec<Out>) {
        let (all, seq) = (look.executor.neighbours(), look.executor.seq());
        let before = self.seen.replace((seq, all.changes()));
        if before.is_none_or(|(_, changes)| changes != all.changes()) {
            self.meet(now, look, out);
        }
        if before != self.seen {
            let went_back = before.is_some_and(|(before, changes)| seq < before || changes != all.changes());
            for line in self.lines.values_mut() {
                line.follow(now, look.executor, went_back);
            }
        }
        let from = out.len();
        self.dials.step(now, &self.lines, out);
        for wanted in &out[from..] {
            if let Out::Close(conn) = wanted {
                self.conns.remove(conn);
            }
        }
        for line in self.lines.values_mut() {
            line.send(now, out);
            line.offer(now, look.executor, out);
        }
    }

    /// Takes the neighbours as they are from now on.
    fn meet(&mut self, now: Time, look: &Look<'_>, out: &mut Vec<Out>) {
        let all = look.executor.neighbours();
        let is_known = |key: &Key| all.get(key.0, key.1).is_some();
        let gone: Vec<ConnId> = self
            .conns
            .iter()
            .filter(|(_, ((relation, service), replica))| {
                let known = all.get(*relation, *service);
                let members = known.map(|known| &known.neighbour.members);
                !members.is_some_and(|members| members.iter().any(|(id, _)| id == replica))
            })
            .map(|(conn, _)| *conn)
            .collect();
        for conn in gone {
            self.closed(now, conn);
            out.push(Out::Close(conn));
        }
        self.lines.retain(|key, _| is_known(key));
        self.members.clear();
        for known in all.iter() {
            let neighbour = &known.neighbour;
            let key = (neighbour.relation, neighbour.service);
            if neighbour.relation == Relation::Caller {
                let client = |replica| quorate_wire::member_client(neighbour.service, replica);
                let members = neighbour.members.iter().map(|(replica, _)| *replica);
                self.members.extend(
                    members.filter_map(|id| client(id).map(|client| (client, (neighbour.service, id)))),
                );
            }
            match self.lines.get_mut(&key) {
                Some(line) => line.meet(known),
                None => drop(self.lines.insert(key, Line::new(look, known))),
            }
        }
        let callers = self.lines.iter().filter(|((relation, _), _)| *relation == Relation::Backend);
        self.dials.meet(
            now,
            callers.flat_map(|((_, service), line)| {
                line.known.neighbour.members.iter().map(|(id, _)| (*service, *id))
            }),
        );
    }

    /// When to step it, if nothing else happens.
    pub(crate) fn deadline(&self) -> Option<Time> {
        if self.lines.is_empty() {
            return None;
        }
        let of_line = |line: &Line| {
            let offers = line.offered.values().map(|at| at.plus(OFFER_AGAIN)).min();
            line.sender.deadline().into_iter().chain(offers).min()
        };
        self.lines.values().filter_map(of_line).chain(self.dials.deadline()).min()
    }

    /// What operators see.
    pub(crate) fn status(&self) -> Vec<NeighbourStatus> {
        let status = |line: &Line| NeighbourStatus {
            service: line.known.neighbour.service,
            name: line.known.neighbour.name.clone(),
            asks: line.known.neighbour.relation == Relation::Caller,
            connected: line.links.members().map(ReplicaId::number).collect(),
            sends: line.sender.len(),
            next: line.receiver.next(),
            wrong: line.receiver.wrong(),
        };
        self.lines.values().map(status).collect()
    }

    /// Panics with the name of an invariant that does not hold.
    pub(crate) fn invariants(&self) {
        self.lines.values().for_each(|line| line.receiver.invariants());
    }
}

/// How many members of a neighbour must say the same.
fn copies(known: &KnownNeighbour) -> usize {
    let bug = match known.neighbour.relation {
        Relation::Caller => planted("gathering-of-one"),
        Relation::Backend => planted("answer-of-one"),
    };
    if bug { 1 } else { known.neighbour.copies() }
}

fn members_of(known: &KnownNeighbour) -> Vec<ReplicaId> {
    known.neighbour.members.iter().map(|(replica, _)| *replica).collect()
}

impl Line {
    fn new(look: &Look<'_>, known: &KnownNeighbour) -> Self {
        let config = look.config;
        let place = config.members.all().iter().position(|member| member.replica == config.members.me());
        let all_send = config.order.faults.may_lie();
        let behind = if all_send { Span::ZERO } else { TAKE_OVER.times(place.unwrap_or_default() as u64) };
        let message_bytes_max = config.admission.request_bytes_max.max(2 << 20);
        let receives = ReceiveConfig {
            senders: members_of(known),
            copies: copies(known),
            window: WINDOW,
            sender_bytes_max: MEMBER_BYTES_MAX,
            message_bytes_max,
        };
        let sends = SendConfig { window: WINDOW, bytes_at_once: BYTES_AT_ONCE, again: AGAIN, behind };
        Self {
            receiver: Receiver::new(receives, first_open(known, look.executor)),
            sender: Sender::new(sends),
            links: Links::default(),
            offered: BTreeMap::new(),
            known: known.clone(),
        }
    }

    fn meet(&mut self, known: &KnownNeighbour) {
        if known.neighbour.members != self.known.neighbour.members || copies(known) != copies(&self.known) {
            self.receiver.meet(members_of(known), copies(known));
        }
        self.known = known.clone();
    }

    /// The final state is another one. `jumped`: perhaps not a later one of the same history.
    fn follow(&mut self, now: Time, executor: &Executor, jumped: bool) {
        if jumped {
            self.receiver.jump(first_open(&self.known, executor));
        }
        let taken = taken(&self.known, executor);
        self.receiver.settle(|position| {
            let (session, number) = self.known.neighbour.place(position);
            taken.get(usize::from(session)).is_none_or(|last| number <= *last)
        });
        let mut needed = BTreeSet::new();
        match self.known.neighbour.relation {
            Relation::Backend => {
                let service = self.known.neighbour.service;
                for request in executor.unanswered().filter(|request| request.backend.0 == service) {
                    needed.insert(request.number.number());
                    self.put_request(now, &request);
                }
            }
            Relation::Caller => self.put_answers(now, executor, &mut needed),
        }
        self.sender.keep(|position| needed.contains(&position));
    }

    fn put_request(&mut self, now: Time, request: &NestedRequest) {
        let position = request.number.number();
        if !self.sender.has(position) {
            let chain = request.chain.services().iter().map(|service| service.0);
            let body = write_nested(chain, &request.commands);
            self.sender.put(now, position, write_asked(request.lowest_unanswered.number(), &body));
        }
    }

    /// The replies that the caller's sessions keep.
    fn put_answers(&mut self, now: Time, executor: &Executor, needed: &mut BTreeSet<u64>) {
        for (at, session) in (0..).zip(&self.known.sessions) {
            for (number, status, body) in executor.kept_after(*session, RequestNumber::ZERO) {
                let position = self.known.neighbour.position(at, number.number());
                needed.insert(position);
                if !self.sender.has(position) {
                    self.sender.put(now, position, write_answer(status, body));
                }
            }
        }
    }

    /// Sends what is due, and says how far this replica is.
    fn send(&mut self, now: Time, out: &mut Vec<Out>) {
        for copies in self.sender.step(now) {
            if let Some(conn) = self.links.conn(copies.to) {
                out.push(Out::Send(conn, copies_frame(&copies.list)));
            }
        }
        let next = self.receiver.next();
        out.extend(self.links.tell(next).map(|conn| Out::Send(conn, seen_frame(next))));
    }

    /// Offers what counts, in each session what comes next there and what lies behind it without a gap.
    fn offer(&mut self, now: Time, executor: &Executor, out: &mut Vec<Out>) {
        let counts: BTreeMap<u64, Bytes> =
            self.receiver.waiting().map(|(position, message)| (position, message.clone())).collect();
        // Only what is offered now has a time: what was ordered has none, although an earlier position may be open.
        let before = std::mem::take(&mut self.offered);
        if counts.is_empty() {
            return;
        }
        let client = self.known.neighbour.relation.client(self.known.neighbour.service);
        let taken = taken(&self.known, executor);
        for (at, (session, last)) in (0..).zip(self.known.sessions.iter().zip(taken)) {
            for number in last + 1.. {
                let position = self.known.neighbour.position(at, number);
                let Some(message) = counts.get(&position) else { break };
                let last = before.get(&position).copied();
                if let Some(last) = last.filter(|last| now < last.plus(OFFER_AGAIN)) {
                    self.offered.insert(position, last);
                    continue;
                }
                self.offered.insert(position, now);
                let request = self.request((at, *session, number), message);
                out.extend(request.map(|request| Out::Offer(client, request)));
            }
        }
    }

    /// The request that a message is: the same bytes on all replicas.
    fn request(&self, (at, session, number): (u16, SessionId, u64), message: &Bytes) -> Option<Bytes> {
        let (kind, lowest, body) = match self.known.neighbour.relation {
            Relation::Caller => {
                let (lowest, body) = split_asked(message)?;
                (RequestKind::Nested, self.known.neighbour.lowest(at, lowest).min(number), body)
            }
            Relation::Backend => {
                split_answer(message)?;
                (RequestKind::Answer, number, message.clone())
            }
        };
        let mut bytes = Vec::with_capacity(quorate_wire::REQUEST_HEADER + body.len());
        RequestHeader {
            session,
            number: RequestNumber::new(number),
            lowest_unanswered: RequestNumber::new(lowest),
            kind,
            len: body.len() as u32,
            proof: RequestProof::None,
        }
        .write_to(&mut bytes);
        bytes.extend_from_slice(&body);
        Some(bytes.into())
    }
}

/// The last number that each session of a neighbour took.
fn taken(known: &KnownNeighbour, executor: &Executor) -> Vec<u64> {
    let last =
        |session: &SessionId| executor.last_number(*session).map_or(u64::MAX - 1, RequestNumber::number);
    known.sessions.iter().map(last).collect()
}

/// The first position whose message is not ordered.
fn first_open(known: &KnownNeighbour, executor: &Executor) -> u64 {
    let next = (0..).zip(taken(known, executor));
    next.map(|(at, last)| known.neighbour.position(at, last + 1)).min().unwrap_or(u64::MAX)
}
