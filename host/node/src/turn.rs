//! The end of a turn: everything that arrived at once was handed in, so now batches are sealed, reads are grouped, replies
//! leave and blocks are written. Nothing here runs per command.

use crate::effects::Effects;
use crate::engine;
use crate::group::Pace;
use crate::guide::{self, Guide};
use crate::leading::{self, Look};
use crate::node::Node;
use quorate_order::Input as OrderInput;
use quorate_types::{ClientId, ConnId, Room, Time};
use quorate_wire::{BatchHeader, LeaderNotice};

/// Bytes that admission answers in a turn by itself: small requests must not fill the memory with large answers.
const ANSWER_BYTES: usize = 8 << 20;
/// No slot waits for company for longer than this part of two time-outs: what any leader may add to a slot. [mod_smart L142]
const GATHERING_PART: u64 = 16;

/// What one turn leaves to the next.
pub(crate) struct Turn {
    /// Answers of admission, kept for its memory.
    pub(crate) answer: Vec<u8>,
    /// How many bytes of such answers this turn still sends.
    pub(crate) answer_room: usize,
}

impl Turn {
    pub(crate) const fn new() -> Self {
        Self { answer: Vec::new(), answer_room: ANSWER_BYTES }
    }
}

/// What the part that decides who leads what may know of the others.
macro_rules! look {
    ($node:ident) => {
        Look {
            config: &$node.config,
            nature: $node.nature,
            groups: &$node.groups,
            engine: &$node.engine,
            gate: &$node.gate,
            journal: &$node.journal,
            keeping: &$node.keeping,
        }
    };
}

impl Node {
    pub(crate) fn on_turn_end(&mut self, now: Time, out: &mut Effects) {
        self.end_intake(now, out);
        self.wake_waiting(now, out);
        self.meet_members(now, out);
        self.end_change(now, out);
        self.propose_border(now, out);
        self.propose(now, out);
        self.tick(now, out);
        self.ask_for_reads(now, out);
        self.fill(now, out);
        self.tell_caught_up(now, out);
        self.run_reads(now);
        self.send_replies(out);
        self.turn.answer_room = ANSWER_BYTES;
        self.engine.end_turn();
        self.journal.end_turn(now, out);
        self.lead(now, leading::In::TurnEnd, out);
        self.journal.sync_later(now);
    }

    /// The disk of this replica finishes nothing: if it leads, everything waits for it. Another one leads better.
    pub(crate) fn check_stall(&mut self, now: Time, out: &mut Effects) {
        if self.journal.stalls(now, out) && self.config.members.all().len() > 1 {
            self.step_led(now, &OrderInput::Transfer(None));
            self.after_order(now, out);
        }
    }

    /// Steps the part that decides who leads what, and does what it wants done.
    pub(crate) fn lead(&mut self, now: Time, input: leading::In, out: &mut Effects) {
        let mut outs = Vec::new();
        let look = look!(self);
        self.leading.step(now, &look, input, &mut outs);
        if outs.is_empty() {
            return; // in nearly every turn
        }
        let mut transfers = false;
        for wanted in outs {
            match wanted {
                leading::Out::Transfer { at, to } => {
                    transfers = true;
                    self.step_in(at, now, OrderInput::Transfer(to));
                }
                leading::Out::Looked { at, mine } => self.groups[at].lead_mut().looked(now, mine),
                leading::Out::Tell { conn, frame } => out.send(conn, frame),
            }
        }
        if transfers {
            self.after_order(now, out);
        }
    }

    /// The guide, and what it may know of the others.
    pub(crate) fn guide(&mut self) -> (&mut Guide, guide::Look<'_>) {
        let (config, groups, engine, gate) = (&self.config, &self.groups, &self.engine, &self.gate);
        (&mut self.guide, guide::Look { config, groups, engine, gate })
    }

    fn guide_look(&self) -> guide::Look<'_> {
        guide::Look { config: &self.config, groups: &self.groups, engine: &self.engine, gate: &self.gate }
    }

    /// Where a client finds somebody who leads.
    pub(crate) fn leader_notice(&self, conn: ConnId) -> LeaderNotice {
        self.notice_for(self.gate.peers().client(conn))
    }

    /// The same, for whoever has not been let in yet.
    pub(crate) fn notice_for(&self, client: Option<ClientId>) -> LeaderNotice {
        self.guide.notice(&self.guide_look(), client)
    }

    /// Clients hear who leads.
    pub(crate) fn tell_clients(&mut self, of: Option<usize>, out: &mut Effects) {
        let (guide, look) = self.guide();
        guide.tell_clients(&look, of, out);
    }

    /// Through which instance a client's requests go, if any leads here.
    pub(crate) fn instance_for(&mut self, conn: ConnId, out: &mut Effects) -> Option<usize> {
        let (guide, look) = self.guide();
        guide.instance_for(&look, conn, out)
    }

    /// What the part that decides who leads what may know of the others.
    pub(crate) fn look(&self) -> Look<'_> {
        look!(self)
    }

    /// What this replica may take from clients, if it leads.
    pub(crate) fn room(&self) -> Room {
        self.leading.room(self.journal.room(), &self.config)
    }

    /// Proposes while the window allows: a few small batches, so that what arrives meanwhile piles up into larger ones, and
    /// large ones up to a limit in bytes.
    pub(crate) fn propose(&mut self, now: Time, out: &mut Effects) {
        for at in 0..self.groups.len() {
            self.propose_waiting(at, now, out);
        }
    }

    fn propose_waiting(&mut self, at: usize, now: Time, out: &mut Effects) {
        let (id, pace) = (self.groups[at].id(), self.pace());
        if self.groups[at].gathers(now, &pace, || self.engine.merge().is_wanted(id)) {
            return;
        }
        while self.groups[at].admission().waiting_bytes() > 0 && self.may_propose(at) {
            let settled = self.first().standing().settled;
            let header = || self.engine.header(now, settled);
            let Some(batch) = self.groups[at].next_batch(now, &pace, header) else { break };
            self.propose_in(at, now, batch, out);
        }
        let group = &self.groups[at];
        if group.admission().waiting_bytes() > 0 && group.standing().leading {
            self.engine.step(engine::In::WaitsForRoom(id));
        }
    }

    /// What an instance may have under way at once.
    fn pace(&self) -> Pace {
        let (config, pipelined) = (&self.config, self.nature.pipelined);
        Pace {
            batches_max: if pipelined { config.batches_in_flight_max } else { 1 },
            bytes_max: config.bytes_in_flight_max,
            pipelined,
            gathering_max: config.order.patience().divided(GATHERING_PART),
        }
    }

    /// The header of a batch that is proposed now.
    pub(crate) fn propose_header(&mut self, now: Time) -> BatchHeader {
        let settled = self.first().standing().settled;
        self.engine.header(now, settled)
    }

    /// A batch was executed, or a checkpoint: its time is agreed.
    pub(crate) fn learn_time(&mut self, now: Time) {
        if let Some(ahead) = self.engine.learn_time(now) {
            self.intake.pulled(now, ahead);
        }
    }

    /// Tells the engine if this replica acts much later than it wanted to: then its process was stopped, and what it knows of leaders is old.
    pub(crate) fn notice_pause(&mut self, now: Time) {
        if now.since(self.now) > self.config.order.patience()
            && let Some(due) = self.deadline()
        {
            self.engine.woke(due, now);
        }
    }

    fn run_reads(&mut self, now: Time) {
        // They expire, or are answered once the state is sound again.
        if self.keeping.sound() {
            let seats = &self.gate.peers().seats;
            self.engine.run_reads(now, |conn| seats.number(conn));
        }
    }

    fn send_replies(&mut self, out: &mut Effects) {
        self.engine.send_replies(out);
        let (guide, look) = self.guide();
        guide.end_turn(&look, out);
    }
}
