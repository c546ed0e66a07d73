//! What clients send to a leader: it is admitted to a group, or answered at once where that needs no agreement.

use super::Group;
use crate::effects::Effects;
use crate::gate::Permissions;
use quorate_admit::{Executed, Terms};
use quorate_execute::{Executor, Lookup};
use quorate_types::{ConnId, Room};
use quorate_wire::{FrameKind, OutFrame, write_position};

/// Bytes that admission answers in a turn by itself: small requests must not fill the memory with large answers.
const ANSWER_BYTES: usize = 8 << 20;

/// What admission may know of the others.
#[derive(Clone, Copy)]
pub(crate) struct Terrain<'a> {
    pub(crate) executor: &'a Executor,
    /// What a majority has room for.
    pub(crate) room: Room,
    /// The own log takes no record now.
    pub(crate) short: bool,
    /// And that is not only the next segment being prepared.
    pub(crate) disk_full: bool,
    /// There is no other instance, and all that was delivered is executed. Else nobody knows whether what execution does not know exists:
    /// others may have decided it.
    pub(crate) knows_all: bool,
}

/// Who asks.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub(crate) conn: ConnId,
    /// What it may do; everything if none is given.
    pub(crate) limits: Option<&'a Permissions>,
}

/// Admission's own answers.
#[derive(Debug)]
pub(crate) struct Admitting {
    /// The last answer, kept for its memory.
    answer: Vec<u8>,
    /// How many bytes of answers this turn still sends.
    room: usize,
}

impl Admitting {
    pub(crate) const fn new() -> Self {
        Self { answer: Vec::new(), room: ANSWER_BYTES }
    }

    /// The next turn has room for answers again.
    pub(crate) fn end_turn(&mut self) {
        self.room = ANSWER_BYTES;
    }

    /// Gives requests to a group that leads here. Answers go to whoever asks, if anybody does: other members may have heard it instead.
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
            // Among them may be replies to what was executed earlier.
            write_position(&mut answer, executor.seq());
            out.send(conn, OutFrame::new(FrameKind::Replies, &answer, vec![]));
            answer.clear();
        }
        self.answer = answer;
    }
}
