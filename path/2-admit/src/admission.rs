//! The open batch of one instance, and what may enter it.
//!
//! INV-ADMIT-1: while a replica leads, the requests of a session enter its batches with growing numbers, each at most once.
//! INV-ADMIT-2: the bytes admitted and not decided yet never exceed the limit by more than one request.

use quorate_types::{RequestNumber, Room, SessionId, Time, planted};
use quorate_wire::{
    Batch, BatchHeader, REQUEST_HEADER, Reply, ReplyStatus, RequestHeader, RequestKind, Requests,
};
use std::collections::{BTreeSet, VecDeque};

/// Limits of what is admitted. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// The largest request, header included.
    pub request_bytes_max: usize,
    /// A batch of this size is large enough. It may be larger by one request.
    pub batch_bytes: usize,
    /// At most this much is admitted and not decided; beyond it the answer is `Overloaded`.
    pub queue_bytes_max: usize,
    /// How many cells the session table has. A session id with a higher index names no session.
    pub cells_max: usize,
}

impl Default for AdmissionLimits {
    fn default() -> Self {
        Self {
            request_bytes_max: 4 << 20,
            batch_bytes: 256 << 10,
            queue_bytes_max: 64 << 20,
            cells_max: 100_000,
        }
    }
}

/// What execution knows of a request. The node asks stage 5 and passes the answer.
#[derive(Clone, Copy, Debug)]
pub enum Executed<'a> {
    /// No such session is known here.
    NoSession,
    /// The session is over.
    Ended,
    /// Not executed; this is the last number that the session executed.
    Not(RequestNumber),
    /// Executed, and this was the answer.
    Done(ReplyStatus, &'a [u8]),
    /// Ordered, and answered when it ends.
    UnderWay,
    /// Executed, and the answer is forgotten.
    Forgotten,
}

/// While only requests that free room are taken, at most this many bytes of them are under way at once, since they must fit into the logs'
/// reserve.
const FREES_BYTES_MAX: usize = 256 << 10;

/// The state of the replica when requests arrive.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Bytes of sealed batches that are not decided yet.
    pub in_flight: usize,
    /// Which requests there is room for.
    pub room: Room,
    /// Whether there will be more room in a moment.
    pub room_soon: bool,
    /// Everything decided before this leadership was executed, so that a session which execution does not know does not exist.
    pub settled: bool,
    /// This replica knows of every request that earlier leaders may have admitted although it is forbidden here.
    pub forbids: bool,
    /// At most this many bytes of answers; requests beyond that get no answer now.
    pub answer_bytes_max: usize,
}

/// Replies to the requests of one frame: those that were neither admitted nor dropped as in flight.
pub type Answer = Vec<u8>;

/// Admission for one instance, at the replica that leads it.
#[derive(Debug)]
pub struct Admission {
    limits: AdmissionLimits,
    open: Vec<u8>,
    count: u32,
    /// The present time, and when the first request of the open batch and of the batch that was sealed last came in.
    now: Time,
    since: Time,
    sealed_since: Time,
    /// Batches that are large enough and wait for those in flight, each with its number of requests, and when the first of them came in.
    full: VecDeque<(Vec<u8>, u32, Time)>,
    full_bytes: usize,
    /// The length of the batch before; the next one's buffer is made about as large at once.
    usual_len: usize,
    /// By session index: the generation and the highest number that entered a batch in this leadership.
    entered: Vec<(u32, RequestNumber)>,
    /// Sessions being opened in this leadership: client and nonce.
    opening: BTreeSet<(u64, u64)>,
}

impl Admission {
    /// With nothing admitted.
    pub fn new(limits: AdmissionLimits) -> Self {
        Self {
            limits,
            open: Vec::new(),
            count: 0,
            now: Time::ZERO,
            since: Time::ZERO,
            sealed_since: Time::ZERO,
            full: VecDeque::new(),
            full_bytes: 0,
            usual_len: 0,
            entered: Vec::new(),
            opening: BTreeSet::new(),
        }
    }

    /// Tells the time, from which follows how long requests wait.
    pub fn at(&mut self, now: Time) {
        self.now = now;
    }

    /// When the first request of the batch that was sealed last came in.
    pub fn sealed_since(&self) -> Time {
        self.sealed_since
    }

    /// This replica's leadership begins or ends. The open batch and everything in flight are forgotten; clients send again what is not
    /// answered.
    pub fn reset(&mut self) {
        if planted("admission-not-reset") {
            return;
        }
        self.open.clear();
        self.count = 0;
        self.full.clear();
        self.full_bytes = 0;
        self.entered.clear();
        self.opening.clear();
    }

    /// Execution continues from a checkpoint, so it is not known here how the requests in flight ended; all of them may come again. What
    /// waits stays.
    pub fn jumped(&mut self) {
        self.entered.clear();
        self.opening.clear();
    }

    /// Takes the requests of one frame, which was decoded already. Replies that need no agreement are appended to `answer`.
    pub fn requests<'a>(
        &mut self,
        bytes: &[u8],
        terms: Terms,
        executed: impl Fn(SessionId, RequestNumber) -> Executed<'a>,
        answer: &mut Answer,
    ) {
        self.permitted_requests(bytes, terms, executed, |_| true, |_, _| false, answer);
    }

    /// As [`Self::requests`], for a client with limited rights. `permits`: whether it may run the commands of a request. `frees`: whether
    /// the service says that a request frees room; asked only while there is little room.
    pub fn permitted_requests<'a>(
        &mut self,
        bytes: &[u8],
        terms: Terms,
        executed: impl Fn(SessionId, RequestNumber) -> Executed<'a>,
        permits: impl Fn(&[u8]) -> bool,
        frees: impl Fn(RequestKind, &[u8]) -> bool,
        answer: &mut Answer,
    ) {
        let Terms { in_flight, room, room_soon, settled, forbids, answer_bytes_max } = terms;
        // Neighbours that are admitted are copied together.
        let (mut run_start, mut at) = (0, 0);
        for request in Requests::new(bytes) {
            let Ok((header, body, whole)) = request else { break };
            if self.open.len() + (at - run_start) >= self.limits.batch_bytes {
                self.copy(&bytes[run_start..at]);
                run_start = at;
                self.roll();
            }
            let pending = self.waiting_bytes() + in_flight + (at - run_start);
            let refusal = match room {
                Room::Frees if frees(header.kind, body) => {
                    (pending >= FREES_BYTES_MAX).then_some(ReplyStatus::Overloaded)
                }
                Room::Full | Room::Frees if room_soon => Some(ReplyStatus::Overloaded),
                Room::Full | Room::Frees => Some(ReplyStatus::DiskFull),
                Room::Data => {
                    let full = pending >= self.limits.queue_bytes_max && !planted("queue-without-limit");
                    full.then_some(ReplyStatus::Overloaded)
                }
            };
            let mut triage = self.triage(&header, body, refusal, settled, &executed);
            if matches!(triage, Triage::Admit) && header.kind == RequestKind::Commands && !permits(body) {
                triage = self.forbid(&header, forbids);
            }
            if !matches!(triage, Triage::Admit) {
                self.copy(&bytes[run_start..at]);
                run_start = at + whole.len();
            }
            match triage {
                Triage::Admit => self.count += 1,
                Triage::InFlight => {}
                // A client that asks again for more than fits gets a part, and asks again for the rest.
                Triage::Answer(..) if answer.len() >= answer_bytes_max => {}
                Triage::Answer(status, body) => reply(answer, &header, status, body),
                Triage::Expected(number) => {
                    reply(answer, &header, ReplyStatus::ExpectedNumber, &number.number().to_le_bytes());
                }
            }
            at += whole.len();
        }
        self.copy(&bytes[run_start..at]);
        if self.open.len() >= self.limits.batch_bytes {
            self.roll();
        }
        let headers = (self.full.len() + 1) * Batch::HEADER + REQUEST_HEADER;
        let most = self.limits.queue_bytes_max + self.limits.request_bytes_max + headers;
        assert!(self.waiting_bytes() <= most, "INV-ADMIT-2 {} bytes wait, over {most}", self.waiting_bytes());
    }

    /// Sets the open batch aside, since it is large enough.
    fn roll(&mut self) {
        if self.count > 0 {
            self.full_bytes += self.open.len();
            self.usual_len = self.open.len();
            self.full.push_back((std::mem::take(&mut self.open), self.count, self.since));
            self.count = 0;
        }
    }

    fn copy(&mut self, run: &[u8]) {
        if run.is_empty() {
            return;
        }
        if self.open.is_empty() {
            self.since = self.now;
            self.open.reserve((Batch::HEADER + run.len()).max(self.usual_len));
            Batch::begin(&mut self.open);
        }
        self.open.extend_from_slice(run);
    }

    fn triage<'a>(
        &mut self,
        header: &RequestHeader,
        body: &[u8],
        refusal: Option<ReplyStatus>,
        settled: bool,
        executed: &impl Fn(SessionId, RequestNumber) -> Executed<'a>,
    ) -> Triage<'a> {
        if body.len() > self.limits.request_bytes_max {
            return Triage::Answer(
                ReplyStatus::TooLarge,
                b"not executed: the request is over the size limit",
            );
        }
        let refusal = refusal.map(|status| Triage::Answer(status, b""));
        if header.kind == RequestKind::OpenSession {
            if let Some(refusal) = refusal {
                return refusal;
            }
            let client = body.first_chunk::<8>().map_or(0, |id| u64::from_le_bytes(*id));
            let fresh = self.opening.insert((client, header.number.number()));
            return if fresh { Triage::Admit } else { Triage::InFlight };
        }
        if header.session == SessionId::NONE {
            return Triage::Answer(ReplyStatus::SessionExpired, b"");
        }
        let last = match executed(header.session, header.number) {
            Executed::Done(status, body) => return Triage::Answer(status, body),
            Executed::Forgotten => return Triage::Answer(ReplyStatus::ReplyForgotten, b""),
            Executed::UnderWay => return Triage::InFlight,
            Executed::Ended => return Triage::Answer(ReplyStatus::SessionExpired, b""),
            Executed::NoSession if settled => return Triage::Answer(ReplyStatus::SessionExpired, b""),
            // It may have been opened by a batch that was not executed here yet: another instance's, whose leader sent the client here.
            // Whose it is nobody can say before, so nobody may use it. Its client asks again soon, which it would not without an answer.
            Executed::NoSession => return refusal.unwrap_or(Triage::Answer(ReplyStatus::Overloaded, b"")),
            Executed::Not(last) => last,
        };
        let entered = self.entered(header.session);
        if header.number <= entered {
            return Triage::InFlight;
        }
        // Before this replica has executed all that earlier leaders decided, it can not tell a gap from its own lag.
        let expected = last.max(entered).next();
        if header.number > expected && (settled || entered > RequestNumber::ZERO) {
            return refusal.unwrap_or(Triage::Expected(expected));
        }
        if let Some(refusal) = refusal {
            return refusal;
        }
        if !self.enter(header) {
            return Triage::Answer(ReplyStatus::SessionExpired, b"");
        }
        Triage::Admit
    }

    /// The client may not run this request. Its number is not in flight. While this replica does not know everything that earlier leaders
    /// decided, it can not say that the request was not executed, so it does not answer.
    fn forbid<'a>(&mut self, header: &RequestHeader, sure: bool) -> Triage<'a> {
        if let Some((_, entered)) = self.entered.get_mut(header.session.index as usize) {
            *entered = header.number.previous();
        }
        if sure { Triage::Answer(ReplyStatus::Forbidden, FORBIDDEN) } else { Triage::InFlight }
    }

    /// Notes that this request is in flight. The table is no longer than the session table, which is capped.
    fn enter(&mut self, header: &RequestHeader) -> bool {
        let index = header.session.index as usize;
        if index >= self.entered.len() {
            if index >= self.limits.cells_max {
                return false;
            }
            self.entered.resize(index + 1, (0, RequestNumber::ZERO));
        }
        let (generation, entered) = self.entered[index];
        assert!(
            generation != header.session.generation || entered < header.number,
            "INV-ADMIT-1 {} {} enters after {entered}",
            header.session,
            header.number
        );
        self.entered[index] = (header.session.generation, header.number);
        true
    }

    /// A session was opened (or refused): its nonce may be used again.
    pub fn opened(&mut self, client: u64, nonce: u64) {
        self.opening.remove(&(client, nonce));
    }

    /// Execution refused this number, so it is not in flight any more, and the client will send it again.
    pub fn refused(&mut self, session: SessionId, number: RequestNumber) {
        if let Some((generation, entered)) = self.entered.get_mut(session.index as usize)
            && *generation == session.generation
            && *entered >= number
        {
            *entered = RequestNumber::ZERO;
        }
    }

    /// The highest number of a session that entered a batch in this leadership.
    pub fn entered(&self, session: SessionId) -> RequestNumber {
        match self.entered.get(session.index as usize) {
            Some((generation, number)) if *generation == session.generation => *number,
            _ => RequestNumber::ZERO,
        }
    }

    /// Bytes that are admitted and not sealed.
    pub fn waiting_bytes(&self) -> usize {
        self.open.len() + self.full_bytes
    }

    /// How many requests are admitted and not sealed.
    pub fn waiting(&self) -> u32 {
        self.full.iter().fold(self.count, |all, (_, count, _)| all.saturating_add(*count))
    }

    /// Whether a batch is large enough to be sealed whatever else is in flight.
    pub fn is_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// Seals the oldest batch, if there is one. The header's count of requests is filled in.
    pub fn seal(&mut self, header: BatchHeader) -> Option<Batch> {
        if self.full.is_empty() {
            self.roll();
        }
        let (bytes, count, since) = self.full.pop_front()?;
        self.sealed_since = since;
        self.full_bytes -= bytes.len();
        Some(Batch::seal(bytes, BatchHeader { count, ..header }))
    }
}

enum Triage<'a> {
    Admit,
    InFlight,
    Answer(ReplyStatus, &'a [u8]),
    Expected(RequestNumber),
}

/// The text for a request that its client may not run.
pub(crate) const FORBIDDEN: &[u8] = b"not executed: this client may not use these keys";

pub(crate) fn reply(answer: &mut Answer, header: &RequestHeader, status: ReplyStatus, body: &[u8]) {
    Reply { session: header.session, number: header.number, status, body }.write_to(answer);
}

#[cfg(test)]
mod tests;
