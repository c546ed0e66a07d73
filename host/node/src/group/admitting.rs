//! Requests that clients send to a leader: they are admitted to a group, or answered at once if that needs no agreement.

use super::{At, Group, Passed};
use crate::effects::Effects;
use crate::engine::Engine;
use crate::gate::Permissions;
use crate::journal::Journal;
use crate::witness::Sealed;
use bytes::Bytes;
use quorate_admit::{Admission, AdmissionLimits, Answer, Executed, Sifted, Terms, sift};
use quorate_execute::{Executor, Lookup};
use quorate_merge::RecordIndex;
use quorate_types::{ConnId, InstanceId, RequestNumber, Room, SessionId, Time};
use quorate_wire::{FrameKind, OutFrame, write_position};
use std::collections::VecDeque;

/// The most bytes that admission itself answers in a turn: small requests must not fill the memory with large answers.
pub(super) const ANSWER_BYTES: usize = 8 << 20;

/// The facts of other parts that admission needs.
#[derive(Clone, Copy)]
pub(crate) struct Terrain<'a> {
    pub(crate) executor: &'a Executor,
    /// The room of a majority.
    pub(crate) room: Room,
    /// Whether this replica's log takes no record now.
    pub(crate) short: bool,
    /// Whether the disk is full. If it is not, the log may only wait for its next segment.
    pub(crate) disk_full: bool,
    /// How many bytes of requests may be admitted and not decided.
    pub(crate) queue_bytes_max: usize,
    /// The last record of the instance that was handed to the merge.
    pub(crate) handed: RecordIndex,
    /// Whether this is the only instance and everything delivered is executed. Otherwise a session that execution does not know may still
    /// exist: another instance may have opened it.
    pub(crate) knows_all: bool,
    /// The present time.
    pub(crate) now: Time,
}

impl<'a> Terrain<'a> {
    /// The facts of these parts now, for an instance. `alone`: there is no other one.
    pub(crate) fn new(
        engine: &'a Engine,
        journal: &Journal,
        (room, limits): (Room, AdmissionLimits),
        (instance, alone, now): (InstanceId, bool, Time),
    ) -> Self {
        Self {
            executor: engine.executor(),
            room,
            short: !journal.log().has_room(),
            disk_full: journal.disk().is_full(),
            queue_bytes_max: limits.queue_bytes_max,
            handed: engine.handed(instance),
            knows_all: alone && !engine.is_behind(),
            now,
        }
    }
}

/// The client that sent the requests.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub(crate) conn: ConnId,
    /// Its rights; it has all if there are none.
    pub(crate) limits: Option<&'a Permissions>,
}

/// The answers of admission itself.
#[derive(Debug)]
pub(crate) struct Admitting {
    /// The buffer of the last answer, kept to be used again.
    answer: Vec<u8>,
    /// The bytes of answers that this turn may still send.
    room: usize,
}

impl Admitting {
    pub(crate) const fn new() -> Self {
        Self { answer: Vec::new(), room: ANSWER_BYTES }
    }

    /// Ends the turn: the next one has room for answers again.
    pub(crate) fn end_turn(&mut self) {
        self.room = ANSWER_BYTES;
    }

    /// Admits requests to a group that leads here. Answers go to the client if it is connected here; other members may have heard it
    /// instead. Whether a batch is full.
    pub(crate) fn admit(
        &mut self,
        group: &mut Group,
        terrain: &Terrain<'_>,
        asker: Option<Asker<'_>>,
        requests: &Bytes,
        out: &mut Effects,
    ) -> bool {
        let (standing, executor) = (group.standing(), terrain.executor);
        let terms = Terms {
            in_flight: standing.in_flight_bytes,
            room: terrain.room,
            room_soon: terrain.short && !terrain.disk_full,
            settled: terrain.knows_all && standing.settled,
            forbids: standing.settled,
            answer_bytes_max: self.room,
        };
        let mut answer = if asker.is_some() { std::mem::take(&mut self.answer) } else { Vec::new() };
        match group.admission_mut() {
            Some(admission) => admit_here(admission, terms, (terrain, asker), requests, &mut answer),
            None => pass_on(group, terms, (terrain, asker), requests, &mut answer),
        }
        if let Some(Asker { conn, .. }) = asker {
            self.room = self.room.saturating_sub(answer.len());
            if !answer.is_empty() {
                // The answer may hold replies to commands that were executed earlier.
                write_position(&mut answer, executor.seq());
                out.send(conn, OutFrame::new(FrameKind::Replies, &answer, vec![]));
                answer.clear();
            }
            self.answer = answer;
        }
        group.admission_mut().is_some_and(|admission| admission.is_full())
    }
}

/// What execution knows of a request.
fn executed(executor: &Executor, session: SessionId, number: RequestNumber) -> Executed<'_> {
    match executor.lookup(session, number) {
        Lookup::UnknownSession => Executed::NoSession,
        Lookup::Ended => Executed::Ended,
        Lookup::Fresh => Executed::Not(executor.last_number(session).unwrap_or_default()),
        Lookup::Done { status, body } => Executed::Done(status, body),
        Lookup::UnderWay => Executed::UnderWay,
        Lookup::Forgotten => Executed::Forgotten,
    }
}

/// Admits requests on the main lane.
fn admit_here(
    admission: &mut Admission,
    terms: Terms,
    (terrain, asker): (&Terrain<'_>, Option<Asker<'_>>),
    requests: &[u8],
    answer: &mut Answer,
) {
    let (executor, limits) = (terrain.executor, asker.and_then(|asker| asker.limits));
    admission.at(terrain.now);
    admission.permitted_requests(
        requests,
        terms,
        |session, number| executed(executor, session, number),
        |body| limits.is_none_or(|limits| limits.may_run(executor, body)),
        |kind, body| executor.frees(kind, body),
        answer,
    );
}

/// Answers the requests that execution knows, and those that the client may not run. Passes the others on to the lane of the group.
fn pass_on(
    group: &mut Group,
    terms: Terms,
    (terrain, asker): (&Terrain<'_>, Option<Asker<'_>>),
    requests: &Bytes,
    answer: &mut Answer,
) {
    let (executor, limits) = (terrain.executor, asker.and_then(|asker| asker.limits));
    let sifted = sift(
        requests,
        (&terms, (group.waiting_bytes() + terms.in_flight, terrain.queue_bytes_max)),
        |session, number| executed(executor, session, number),
        |body| limits.is_none_or(|limits| limits.may_run(executor, body)),
        |kind, body| executor.frees(kind, body),
        answer,
    );
    for Sifted { requests, last, frees } in sifted {
        let conn = asker.map(|asker| asker.conn);
        let (view, handed, settled) = (group.view(), terrain.handed, terms.settled);
        let may_all = asker.is_some_and(|asker| asker.limits.is_none());
        group.pass(Passed { conn, requests, last, view, handed, settled, frees, may_all });
    }
}

impl Group {
    /// The batches that were made of requests of clients, for a witness: those since the last call.
    pub(crate) fn take_sealed(&mut self) -> VecDeque<Sealed> {
        match &mut self.at {
            At::Main(pillar) => pillar.take_sealed(),
            At::Own(apart) => apart.take_sealed(),
        }
    }
}
