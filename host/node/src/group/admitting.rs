//! Requests that clients send to a leader: they are admitted to a group, or answered at once if that needs no agreement.

use super::Group;
use crate::effects::Effects;
use crate::gate::Permissions;
use quorate_admit::{Executed, Terms};
use quorate_execute::{Executor, Lookup};
use quorate_types::{ConnId, Room};
use quorate_wire::{FrameKind, OutFrame, write_position};

/// The most bytes that admission itself answers in a turn: small requests must not fill the memory with large answers.
const ANSWER_BYTES: usize = 8 << 20;

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
    /// Whether this is the only instance and everything delivered is executed. Otherwise a session that execution does not know may still
    /// exist: another instance may have opened it.
    pub(crate) knows_all: bool,
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
    /// instead.
    pub(crate) fn admit(
        &mut self,
        group: &mut Group,
        terrain: &Terrain<'_>,
        asker: Option<Asker<'_>>,
        requests: &[u8],
        out: &mut Effects,
    ) {
        let (standing, executor) = (group.standing(), terrain.executor);
        let terms = Terms {
            in_flight: standing.in_flight_bytes,
            room: terrain.room,
            room_soon: terrain.short && !terrain.disk_full,
            settled: terrain.knows_all && standing.settled,
            forbids: standing.settled,
            answer_bytes_max: self.room,
        };
        let limits = asker.and_then(|asker| asker.limits);
        let mut answer = if asker.is_some() { std::mem::take(&mut self.answer) } else { Vec::new() };
        group.admission_mut().permitted_requests(
            requests,
            terms,
            |session, number| match executor.lookup(session, number) {
                Lookup::UnknownSession => Executed::NoSession,
                Lookup::Ended => Executed::Ended,
                Lookup::Fresh => Executed::Not(executor.last_number(session).unwrap_or_default()),
                Lookup::Done { status, body } => Executed::Done(status, body),
                Lookup::Forgotten => Executed::Forgotten,
            },
            |body| limits.is_none_or(|limits| limits.may_run(executor, body)),
            |kind, body| executor.frees(kind, body),
            &mut answer,
        );
        let Some(Asker { conn, .. }) = asker else { return };
        self.room = self.room.saturating_sub(answer.len());
        if !answer.is_empty() {
            // The answer may hold replies to commands that were executed earlier.
            write_position(&mut answer, executor.seq());
            out.send(conn, OutFrame::new(FrameKind::Replies, &answer, vec![]));
            answer.clear();
        }
        self.answer = answer;
    }
}
