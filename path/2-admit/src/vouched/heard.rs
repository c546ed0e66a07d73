//! What clients sent to this replica itself, where replicas may lie.
//!
//! With Byzantine faults no replica takes a leader's word for what a client wants. A client sends each request to every replica, over a
//! connection that authenticates the client. This replica keeps what it heard until it is executed. It votes for a leader's batch only if
//! it heard every request in it, byte for byte, from the client that owns the session. One honest replica that heard a request is enough
//! for the others (`path/3-order`, f+1 writes), so a replica that missed a request is not left behind.
//!
//! This is also the list of what waits. A request that the leader does not propose in time is watched, is sent to the other members (a
//! client may reach only some of them), and is a reason to replace the leader.
//!
//! A request that f+1 members forwarded counts as heard, since one of them is honest. A leader proposes it only when 2f+1 did: then f+1
//! honest members have it, and every replica can come to vouch for it.
//!
//! INV-HEARD-1: the counted bytes are those of what is kept; a client has less than its limit, one request excepted, and all clients
//! together less than twice theirs. INV-HEARD-2: no request of a session is kept twice, and the kept numbers grow.
//!
//! Source: Bessani, Sousa, Alchieri, "State Machine Replication for the Masses with BFT-SMaRt", DSN 2014 (clients send to all, requests are
//! watched). In that paper a leader may alter a request; comparing byte for byte prevents that here. Tests: heard/tests.rs.

mod told;

use bytes::Bytes;
use quorate_types::{ClientId, ReplicaId, RequestNumber, SessionId, Span, Time};
use quorate_wire::{REQUEST_HEADER, RequestHeader, RequestKind, Requests};
use std::collections::{BTreeMap, VecDeque};
use told::Told;

/// Limits of what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeardLimits {
    /// Bytes of all clients' requests.
    pub bytes_max: usize,
    /// Bytes of one client's requests.
    pub client_bytes_max: usize,
    /// How many requests of one session: the replicas' window.
    pub window: u64,
}

/// How many of the last executed openings are known.
const OPENED_MAX: usize = 8192;
/// What a kept request costs beside its bytes, in bytes.
const COST: usize = 96;
/// A request kept for longer than this gets memory of its own, so that the frame it came with is freed.
const SETTLE_AFTER: Span = Span::from_secs(1);

/// One request that waits.
#[derive(Debug)]
struct Asked {
    number: RequestNumber,
    since: Time,
    /// The whole request, as it came.
    bytes: Bytes,
    /// The lowest unanswered number in an earlier copy; other replicas may have that copy.
    before: Option<RequestNumber>,
    /// Whether the bytes are memory of their own.
    own: bool,
    /// Which members say that they heard exactly this.
    said: Vec<ReplicaId>,
}

impl Asked {
    fn cost(&self) -> usize {
        self.bytes.len() + COST
    }

    fn parts(&self) -> Option<(RequestHeader, &[u8])> {
        Requests::new(&self.bytes).flatten().next().map(|(header, body, _)| (header, body))
    }

    /// The client sent the request again. If this copy names a higher lowest unanswered number, it replaces the kept one: a replica that
    /// had no room for the first copy knows only this one. Returns whether it does.
    fn renew(&mut self, header: &RequestHeader, bytes: Bytes, said: Vec<ReplicaId>) -> bool {
        let Some((old, body)) = self.parts() else { return false };
        let lowest = old.lowest_unanswered;
        let same = RequestHeader { lowest_unanswered: lowest, ..*header } == old
            && bytes.get(REQUEST_HEADER..).is_some_and(|rest| rest.starts_with(body));
        let renews = same && header.lowest_unanswered > lowest;
        if renews {
            (self.before, self.bytes, self.own, self.said) = (Some(lowest), bytes, false, said);
        }
        renews
    }

    /// Whether this is what the client sent, now or the time before.
    fn is(&self, header: &RequestHeader, body: &[u8], whole: &[u8]) -> bool {
        let old = |(own, bytes): (RequestHeader, &[u8])| {
            self.before.is_some_and(|lowest| RequestHeader { lowest_unanswered: lowest, ..own } == *header)
                && bytes == body
        };
        self.bytes == whole || self.parts().is_some_and(old)
    }
}

/// What waits of one session.
#[derive(Debug)]
struct Line {
    session: SessionId,
    client: ClientId,
    asked: VecDeque<Asked>,
    /// Up to this number, enough members said that they heard everything that waits, too.
    sure: RequestNumber,
}

impl Line {
    /// The index of a number in the line: `Ok` if it is there, `Err` where it would be.
    fn place(&self, number: RequestNumber) -> Result<usize, usize> {
        // Nearly always there is no gap.
        let first = self.asked.front().map_or(number, |asked| asked.number);
        let guess = number.number().wrapping_sub(first.number()) as usize;
        if self.asked.get(guess).is_some_and(|asked| asked.number == number) {
            return Ok(guess);
        }
        if self.asked.back().is_none_or(|last| last.number < number) {
            return Err(self.asked.len());
        }
        self.asked.binary_search_by_key(&number, |asked| asked.number)
    }
}

/// A request that has waited for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Late {
    /// Its session; none if it opens one.
    pub session: SessionId,
    /// Its number, or the nonce.
    pub number: RequestNumber,
    /// The client that opens a session, if the request does that.
    pub opener: Option<ClientId>,
    /// The whole request.
    pub bytes: Bytes,
}

/// Which client speaks, and whether execution here knows that it owns the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The session is open here and belongs to this client.
    Open(ClientId),
    /// The opening was not executed here yet; this client says that it owns the session.
    Claims(ClientId),
}

/// What clients sent to this replica, and what members say that clients sent to them.
#[derive(Debug)]
pub(crate) struct Heard {
    limits: HeardLimits,
    /// By the session's cell.
    lines: Vec<Option<Line>>,
    /// Requests of sessions that are not open here yet, by session and by the client that says it owns it.
    early: BTreeMap<(SessionId, ClientId), Line>,
    openings: BTreeMap<(ClientId, RequestNumber), Asked>,
    /// The sessions that were opened last, by client and nonce; and their order.
    opened: BTreeMap<(ClientId, RequestNumber), SessionId>,
    opened_last: VecDeque<(ClientId, RequestNumber)>,
    client_bytes: BTreeMap<ClientId, usize>,
    bytes: usize,
    /// What members forwarded and does not wait here.
    told: Told,
}

/// The client in the body of an opening.
fn opener(body: &[u8]) -> ClientId {
    ClientId::new(body.first_chunk::<8>().map_or(0, |id| u64::from_le_bytes(*id)))
}

impl Heard {
    /// With nothing heard.
    pub(crate) const fn new(limits: HeardLimits) -> Self {
        Self {
            limits,
            lines: Vec::new(),
            early: BTreeMap::new(),
            openings: BTreeMap::new(),
            opened: BTreeMap::new(),
            opened_last: VecDeque::new(),
            client_bytes: BTreeMap::new(),
            bytes: 0,
            told: Told::new(),
        }
    }

    /// Bytes that are kept.
    pub(crate) const fn byte_len(&self) -> usize {
        self.bytes
    }

    /// A client sends this over its own connection; the caller has checked that it was not executed yet. The first request with a number
    /// counts, except that a later copy may name a higher lowest unanswered number. `false`: there is no room, and the client sends it
    /// again. To make room, later requests of the same session are dropped, since they can not be executed before this one.
    pub(crate) fn hear(&mut self, now: Time, owner: Owner, header: &RequestHeader, bytes: Bytes) -> bool {
        let (Owner::Open(client) | Owner::Claims(client)) = owner;
        let said = self.told.members(&bytes);
        let asked = Asked { number: header.number, since: now, bytes, before: None, own: false, said };
        let cost = asked.cost();
        let of_client = self.client_bytes.get(&client).copied().unwrap_or(0);
        // When all together ask for too much, everybody has an equal share.
        let share = self.limits.bytes_max / self.client_bytes.len().max(1);
        let most = if self.bytes >= self.limits.bytes_max { share } else { usize::MAX };
        let most = most.min(self.limits.client_bytes_max);
        let opens = header.kind == RequestKind::OpenSession;
        if of_client >= most && (opens || !self.make_room(owner, header, of_client - most)) {
            return false;
        }
        if opens {
            if self.openings.contains_key(&(client, header.number)) {
                return true;
            }
            self.openings.insert((client, header.number), asked);
        } else {
            let window = usize::try_from(self.limits.window).unwrap_or(usize::MAX);
            let Some(line) = self.line(owner, header.session) else { return false };
            match line.place(header.number) {
                Ok(at) => {
                    if line.asked[at].renew(header, asked.bytes, asked.said) {
                        line.sure = line.sure.min(header.number.previous());
                    }
                    return true;
                }
                Err(at) if at >= window => return false,
                Err(at) => {
                    line.sure = line.sure.min(header.number.previous());
                    line.asked.insert(at, asked);
                }
            }
            let last = if line.asked.len() > window { line.asked.pop_back() } else { None };
            if let Some(last) = last {
                self.freed(client, last.cost());
            }
        }
        self.bytes += cost;
        *self.client_bytes.entry(client).or_default() += cost;
        true
    }

    /// Drops the requests behind this number in its session, if that frees more than this many bytes. Returns whether the request is known,
    /// or there is room now.
    fn make_room(&mut self, owner: Owner, header: &RequestHeader, over: usize) -> bool {
        let line = match owner {
            Owner::Claims(client) => self.early.get_mut(&(header.session, client)),
            Owner::Open(_) => self.lines.get_mut(header.session.index as usize).and_then(Option::as_mut),
        };
        let Some(line) = line.filter(|line| line.session == header.session) else { return false };
        let at = match line.place(header.number) {
            Ok(_) => return true,
            Err(at) => at,
        };
        let behind: usize = line.asked.iter().skip(at).map(Asked::cost).sum();
        if behind <= over {
            return false;
        }
        let (client, mut cost) = (line.client, 0);
        while cost <= over
            && let Some(last) = line.asked.pop_back()
        {
            cost += last.cost();
        }
        self.freed(client, cost);
        true
    }

    fn line(&mut self, owner: Owner, session: SessionId) -> Option<&mut Line> {
        let new = |client| Line { session, client, asked: VecDeque::new(), sure: RequestNumber::ZERO };
        let client = match owner {
            Owner::Claims(client) => {
                let key = (session, client);
                return Some(self.early.entry(key).or_insert_with(|| new(client)));
            }
            Owner::Open(client) => client,
        };
        let place = session.index as usize;
        if place >= self.lines.len() {
            self.lines.resize_with(place + 1, || None);
        }
        let old = self.lines[place].as_ref().is_some_and(|line| line.session != session);
        if old && let Some(line) = self.lines[place].take() {
            self.drop_all(line);
        }
        Some(self.lines[place].get_or_insert_with(|| new(client)))
    }

    fn freed(&mut self, client: ClientId, cost: usize) {
        self.bytes -= cost;
        if let Some(bytes) = self.client_bytes.get_mut(&client) {
            *bytes -= cost;
            if *bytes == 0 {
                self.client_bytes.remove(&client);
            }
        }
    }

    fn drop_all(&mut self, line: Line) {
        let cost = line.asked.iter().map(Asked::cost).sum();
        if cost > 0 {
            self.freed(line.client, cost);
        }
    }

    fn note_opened(&mut self, by: (ClientId, RequestNumber), session: SessionId) {
        if self.opened.insert(by, session).is_none() {
            self.opened_last.push_back(by);
        }
        if self.opened_last.len() > OPENED_MAX
            && let Some(oldest) = self.opened_last.pop_front()
        {
            self.opened.remove(&oldest);
        }
    }

    /// The session that this opening led to, if that was lately: a late copy must not wait for what is done.
    pub(crate) fn opened_by(&self, client: ClientId, nonce: RequestNumber) -> Option<SessionId> {
        self.opened.get(&(client, nonce)).copied()
    }

    /// The session that this opening led to is over, so the opening may open another one.
    pub(crate) fn forget_opened(&mut self, client: ClientId, nonce: RequestNumber) {
        if self.opened.remove(&(client, nonce)).is_some() {
            self.opened_last.retain(|by| *by != (client, nonce));
        }
    }

    /// A session was opened, or its opening refused, in the order of execution. Returns whether requests wait that came before.
    pub(crate) fn opened(&mut self, client: ClientId, nonce: RequestNumber, session: SessionId) -> bool {
        self.drop_opening((client, nonce));
        if session == SessionId::NONE {
            return false;
        }
        self.note_opened((client, nonce), session);
        let from = (session, ClientId::new(0));
        let to = (session, ClientId::new(u64::MAX));
        let claims: Vec<_> = self.early.range(from..=to).map(|(key, _)| *key).collect();
        let mut waits = false;
        for key in claims {
            let Some(early) = self.early.remove(&key) else { continue };
            waits |= key.1 == client && !early.asked.is_empty();
            self.settle(client, early);
        }
        waits
    }

    fn drop_opening(&mut self, by: (ClientId, RequestNumber)) {
        if let Some(asked) = self.openings.remove(&by) {
            self.told.forget(&asked.bytes);
            self.freed(by.0, asked.cost());
        }
    }

    /// Execution continues from a checkpoint of another replica: what waits is treated as if this replica had executed everything before.
    /// `of`: a session's client and the last number that it executed, while it lives. `by`: the session that an opening led to. Returns the
    /// sessions that became known and for which requests wait.
    pub(crate) fn caught_up(
        &mut self,
        of: impl Fn(SessionId) -> Option<(ClientId, RequestNumber)>,
        by: impl Fn(ClientId, RequestNumber) -> Option<SessionId>,
    ) -> Vec<SessionId> {
        let openings: Vec<_> = self.openings.keys().copied().collect();
        for (client, nonce) in openings {
            let Some(session) = by(client, nonce) else { continue };
            self.drop_opening((client, nonce));
            // A client that has used a session may open another one with the same nonce.
            if of(session).is_some_and(|(_, last)| last == RequestNumber::ZERO) {
                self.note_opened((client, nonce), session);
            }
        }
        for place in 0..self.lines.len() {
            let Some(session) = self.lines[place].as_ref().map(|line| line.session) else { continue };
            match of(session) {
                Some((_, last)) => self.executed(session, last),
                None => self.lines[place].take().into_iter().for_each(|line| self.drop_all(line)),
            }
        }
        let mut woken = Vec::new();
        let claims: Vec<_> = self.early.keys().copied().collect();
        for (session, client) in claims {
            if let Some((owner, last)) = of(session)
                && let Some(early) = self.early.remove(&(session, client))
            {
                self.settle(owner, early);
                self.executed(session, last);
                woken.extend((client == owner).then_some(session));
            }
        }
        woken
    }

    /// A session and its owner are known here now. What waits under the session belongs to the owner; what other clients sent is dropped.
    fn settle(&mut self, owner: ClientId, early: Line) {
        if early.client == owner {
            self.move_in(owner, early.session, early);
        } else {
            self.drop_all(early);
        }
    }

    /// Joins requests that came before their session was known here with those that came since.
    fn move_in(&mut self, client: ClientId, session: SessionId, mut early: Line) {
        let window = usize::try_from(self.limits.window).unwrap_or(usize::MAX);
        early.asked.iter_mut().for_each(|asked| asked.said = self.told.members(&asked.bytes));
        let Some(line) = self.line(Owner::Open(client), session) else { return };
        // Nearly always nothing has.
        std::mem::swap(&mut line.asked, &mut early.asked);
        line.sure = RequestNumber::ZERO;
        let mut gone = 0;
        for asked in early.asked {
            match line.place(asked.number) {
                Ok(_) => gone += asked.cost(),
                Err(at) => line.asked.insert(at, asked),
            }
        }
        while line.asked.len() > window
            && let Some(last) = line.asked.pop_back()
        {
            gone += last.cost();
        }
        if gone > 0 {
            self.freed(client, gone);
        }
    }

    /// This request and all before it were executed, or answered without that: the client knows, or asks again.
    pub(crate) fn executed(&mut self, session: SessionId, number: RequestNumber) {
        let Some(Some(line)) = self.lines.get_mut(session.index as usize) else { return };
        if line.session != session {
            return;
        }
        let (client, mut cost) = (line.client, 0);
        while let Some(asked) = line.asked.pop_front_if(|asked| asked.number <= number) {
            cost += asked.cost();
        }
        if cost > 0 {
            self.freed(client, cost);
        }
    }

    /// The client may not run this request, so it is treated as if it had never come.
    pub(crate) fn forget(&mut self, session: SessionId, number: RequestNumber) {
        let line = self.lines.get_mut(session.index as usize).and_then(Option::as_mut);
        let Some(line) = line.filter(|line| line.session == session) else { return };
        if let Ok(at) = line.place(number)
            && let Some(asked) = line.asked.remove(at)
        {
            let client = line.client;
            self.freed(client, asked.cost());
        }
    }

    /// Whether this request came from the client that owns its session, or that opens one by it; or enough members say so. `one_honest`: so
    /// many members that one of them does not lie.
    pub(crate) fn knows(&self, header: &RequestHeader, body: &[u8], whole: &[u8], one_honest: usize) -> bool {
        let heard = self.find(header, body).map(|(_, asked)| asked);
        heard.is_some_and(|asked| asked.is(header, body, whole)) || self.told.count(whole) >= one_honest
    }

    /// The client of this request, and since when it waits here, if the client sent it.
    pub(crate) fn since(&self, header: &RequestHeader, body: &[u8]) -> Option<(ClientId, Time)> {
        self.find(header, body).map(|(client, asked)| (client, asked.since))
    }

    fn find(&self, header: &RequestHeader, body: &[u8]) -> Option<(ClientId, &Asked)> {
        if header.kind == RequestKind::OpenSession {
            let client = opener(body);
            return self.openings.get(&(client, header.number)).map(|asked| (client, asked));
        }
        let line = self.lines.get(header.session.index as usize).and_then(Option::as_ref);
        let line = line.filter(|line| line.session == header.session)?;
        let asked = line.asked.get(line.place(header.number).ok()?)?;
        Some((line.client, asked))
    }

    /// A member forwards what it heard from a client. Returns how many members did so by now.
    pub(crate) fn told(&mut self, now: Time, by: ReplicaId, whole: &[u8]) -> usize {
        if let Some(asked) = self.find_same(whole) {
            if !asked.said.contains(&by) {
                asked.said.push(by);
            }
            return asked.said.len();
        }
        self.told.tell(now, by, whole, self.limits.client_bytes_max)
    }

    /// The waiting request that equals this one byte for byte.
    fn find_same(&mut self, whole: &[u8]) -> Option<&mut Asked> {
        let (header, body, _) = Requests::new(whole).flatten().next()?;
        let asked = if header.kind == RequestKind::OpenSession {
            self.openings.get_mut(&(opener(body), header.number))?
        } else {
            let line = self.lines.get_mut(header.session.index as usize)?.as_mut();
            let line = line.filter(|line| line.session == header.session)?;
            let at = line.place(header.number).ok()?;
            &mut line.asked[at]
        };
        (asked.bytes == whole).then_some(asked)
    }

    /// What has become sure in a session: enough members say that they heard these requests, and all requests from number `due` up to them.
    /// Returns, in order, the requests that were not known to be sure, and number `number` again.
    pub(crate) fn sure(
        &mut self,
        session: SessionId,
        due: RequestNumber,
        number: RequestNumber,
        members: usize,
    ) -> Vec<Bytes> {
        let line = self.lines.get_mut(session.index as usize).and_then(Option::as_mut);
        let Some(line) = line.filter(|line| line.session == session) else { return Vec::new() };
        let again = if number >= due && number <= line.sure { line.place(number).ok() } else { None };
        let mut sure: Vec<Bytes> = again.map(|at| line.asked[at].bytes.clone()).into_iter().collect();
        let mut next = line.sure.next().max(due);
        let first = line.place(next).unwrap_or_else(|at| at);
        for asked in line.asked.iter().skip(first) {
            if asked.number != next || asked.said.len() < members {
                break;
            }
            sure.push(asked.bytes.clone());
            (line.sure, next) = (next, next.next());
        }
        sure
    }

    /// No request was given to a leader here yet.
    pub(crate) fn begin_anew(&mut self) {
        self.lines.iter_mut().flatten().for_each(|line| line.sure = RequestNumber::ZERO);
    }

    /// At most `most` waiting requests, chosen fairly. Openings: this many of each client, at most half of all. Then the first request of
    /// each session, then the second of each, and so on. So a client that asks for much does not keep out the others.
    pub(crate) fn firsts(
        &self,
        of_each: usize,
        most: usize,
        is_meant: impl Fn(&Bytes) -> bool,
    ) -> Vec<Bytes> {
        let openings = self.first_openings(of_each).filter(|bytes| is_meant(bytes));
        let mut all: Vec<Bytes> = openings.take(most / 2).cloned().collect();
        let mut lines: Vec<&Line> = self.lines.iter().flatten().collect();
        for rank in 0..of_each {
            lines.retain(|line| line.asked.len() > rank);
            if lines.is_empty() || all.len() >= most {
                break;
            }
            let ranked = lines.iter().filter_map(|line| line.asked.get(rank)).map(|asked| &asked.bytes);
            let room = most - all.len();
            all.extend(ranked.filter(|bytes| is_meant(bytes)).take(room).cloned());
        }
        all
    }

    /// Whether exactly this request waits here and came from its client.
    pub(crate) fn holds(&self, whole: &[u8]) -> bool {
        self.same(whole).is_some()
    }

    fn same(&self, whole: &[u8]) -> Option<&Asked> {
        let (header, body, _) = Requests::new(whole).flatten().next()?;
        let (_, asked) = self.find(&header, body)?;
        (asked.bytes == whole).then_some(asked)
    }

    /// How many members forwarded this.
    pub(crate) fn told_by(&self, whole: &[u8]) -> usize {
        self.same(whole).map_or_else(|| self.told.count(whole), |asked| asked.said.len())
    }

    /// How many openings of a client with lower nonces than this wait, counted up to this many.
    pub(crate) fn openings_before(&self, client: ClientId, nonce: RequestNumber, most: usize) -> usize {
        self.openings.range((client, RequestNumber::ZERO)..(client, nonce)).take(most).count()
    }

    /// For each client, this many of its waiting openings, lowest nonces first.
    pub(crate) fn first_openings(&self, of_client: usize) -> impl Iterator<Item = &Bytes> {
        let mut of = (ClientId::new(0), 0);
        self.openings.iter().filter_map(move |((client, _), asked)| {
            of = if of.0 == *client { (*client, of.1 + 1) } else { (*client, 1) };
            (of.1 <= of_client).then_some(&asked.bytes)
        })
    }

    /// All waiting requests of a session, in order.
    pub(crate) fn of_session(&self, session: SessionId) -> impl Iterator<Item = &Bytes> {
        let line = self.lines.get(session.index as usize).and_then(Option::as_ref);
        let line = line.filter(move |line| line.session == session);
        line.into_iter().flat_map(|line| line.asked.iter().map(|asked| &asked.bytes))
    }

    /// All waiting requests: openings first, then session by session in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Bytes> {
        let lines = self.lines.iter().flatten().flat_map(|line| &line.asked);
        self.openings.values().chain(lines).map(|asked| &asked.bytes)
    }

    /// Requests that have waited for so long that something may be wrong; of each session only the next one, since later ones wait for it.
    /// `next`: the number that a session executes next, while it lives.
    pub(crate) fn late(
        &self,
        now: Time,
        after: Span,
        next: impl Fn(SessionId) -> Option<RequestNumber>,
    ) -> impl Iterator<Item = Late> {
        let late = move |asked: &Asked| now.since(asked.since) > after;
        let openings = self.openings.iter().filter(move |(_, asked)| late(asked));
        let openings = openings.map(|((client, nonce), asked)| Late {
            session: SessionId::NONE,
            number: *nonce,
            opener: Some(*client),
            bytes: asked.bytes.clone(),
        });
        let lines = self.lines.iter().flatten().filter_map(move |line| {
            let first = line.asked.front().filter(|first| late(first))?;
            let (session, number) = (line.session, first.number);
            let due = next(session) == Some(number);
            due.then(|| Late { session, number, opener: None, bytes: first.bytes.clone() })
        });
        openings.chain(lines)
    }

    /// Whether this request still waits.
    pub(crate) fn waits(&self, late: &Late) -> bool {
        match late.opener {
            Some(client) => self.openings.contains_key(&(client, late.number)),
            None => self.of_session(late.session).any(|bytes| *bytes == late.bytes),
        }
    }

    /// Periodic cleaning: forgets requests of sessions that are over, and claims of sessions that nobody opens, and copies requests that
    /// have waited for long out of the frames that they came with. `is_over`: whether a session is over; `known`: whether it is open here.
    pub(crate) fn tidy(&mut self, now: Time, is_over: impl Fn(SessionId) -> bool, claim_time: Span) {
        self.told.tidy(now, claim_time);
        let over = |line: &Line| is_over(line.session) || line.asked.is_empty();
        for place in 0..self.lines.len() {
            if let Some(line) = self.lines[place].take_if(|line| over(line)) {
                self.drop_all(line);
            }
        }
        let stale = |asked: &Asked| now.since(asked.since) > claim_time;
        // What waits for a number that its client never sends.
        for place in 0..self.lines.len() {
            let Some(line) = &mut self.lines[place] else { continue };
            let (client, mut cost) = (line.client, 0);
            line.asked.retain(|asked| {
                let keeps = !stale(asked);
                cost += if keeps { 0 } else { asked.cost() };
                keeps
            });
            if cost > 0 {
                self.freed(client, cost);
            }
        }
        let old: Vec<_> =
            self.openings.iter().filter(|(_, asked)| stale(asked)).map(|(key, _)| *key).collect();
        for key in old {
            if let Some(asked) = self.openings.remove(&key) {
                self.freed(key.0, asked.cost());
            }
        }
        let old: Vec<_> =
            self.early.iter().filter(|(_, line)| line.asked.front().is_none_or(stale)).collect();
        let old: Vec<_> = old.into_iter().map(|(key, _)| *key).collect();
        for key in old {
            if let Some(line) = self.early.remove(&key) {
                self.drop_all(line);
            }
        }
        let lines = self.lines.iter_mut().flatten().chain(self.early.values_mut());
        for asked in lines.flat_map(|line| &mut line.asked).chain(self.openings.values_mut()) {
            if !asked.own && now.since(asked.since) > SETTLE_AFTER {
                asked.bytes = Bytes::copy_from_slice(&asked.bytes);
                asked.own = true;
            }
        }
    }

    /// Panics with the name of the invariant that does not hold. Goes through everything.
    pub(crate) fn invariants(&self) {
        let lines = self.lines.iter().flatten().chain(self.early.values());
        let mut bytes = self.openings.values().map(Asked::cost).sum::<usize>();
        for line in lines {
            bytes += line.asked.iter().map(Asked::cost).sum::<usize>();
            let numbers = line.asked.iter().map(|asked| asked.number);
            assert!(
                numbers.clone().zip(numbers.skip(1)).all(|(a, b)| a < b),
                "INV-HEARD-2 the numbers of {} grow",
                line.session
            );
        }
        assert!(
            bytes == self.bytes && self.client_bytes.values().sum::<usize>() == bytes,
            "INV-HEARD-1 {bytes} bytes are kept, {} are counted",
            self.bytes
        );
    }
}

#[cfg(test)]
mod tests;
