//! The end of a turn: everything that arrived at once was handed in, so now batches are sealed, reads are grouped, replies
//! leave and blocks are written. Nothing here runs per command.

use crate::answers::Answers;
use crate::clock::Rule;
use crate::effects::{Effect, Effects, Event};
use crate::node::Node;
use crate::ordering::Instance;
use bytes::Bytes;
use quorate_admit::AHEAD_MAX;
use quorate_log::{Log, LogEffect, SyncMode};
use quorate_merge::Generation;
use quorate_order::{Input as OrderInput, Random};
use quorate_reply::ReadLimits;
use quorate_types::{AgreedTime, Span, Time, planted};
use quorate_wire::{BatchHeader, FrameKind, OutFrame, ReadStatus, write_position};
use std::collections::VecDeque;

/// How often room is looked for on a full disk.
const PREPARE_RETRY: Span = Span::from_millis(500);
/// Bytes that admission answers in a turn by itself: small requests must not fill the memory with large answers.
const ANSWER_BYTES: usize = 8 << 20;
/// No slot waits for company for longer than this part of two time-outs: what any leader may add to a slot. [mod_smart L142]
const GATHERING_PART: u64 = 16;
/// How long written data stays without a sync in async mode.
const SYNC_DELAY: Span = Span::from_millis(50);

/// What one turn leaves to the next.
pub(crate) struct Turn {
    random: Random,
    /// The time of the last batch that was ordered for a deadline of the service, and when.
    pub(crate) ticked: Option<(AgreedTime, Time)>,
    /// The service's deadline that is past, while nobody orders that; its leader is complained about.
    pub(crate) overdue: Option<AgreedTime>,
    /// When to look for room again, or to sync.
    pub(crate) retry: Option<Time>,
    /// The last segment that was asked for could not be made.
    pub(crate) disk_full: bool,
    /// When it handed over last since its disk is full, or finishes nothing.
    pub(crate) handed_over: Option<Time>,
    /// When the writes began that the disk is at.
    writes: VecDeque<Time>,
    /// How long writes take.
    write_time: Span,
    /// The disk finishes nothing.
    pub(crate) stalled: bool,
    /// Answers of admission, kept for its memory.
    pub(crate) answer: Vec<u8>,
    /// How many bytes of such answers this turn still sends.
    pub(crate) answer_room: usize,
    /// Answers to reads.
    pub(crate) answers: Answers,
}

impl Turn {
    pub(crate) fn new(seed: u64, reads: &ReadLimits) -> Self {
        Self {
            random: Random::new(seed ^ 0x74_75_72_6e),
            ticked: None,
            overdue: None,
            retry: None,
            disk_full: false,
            handed_over: None,
            writes: VecDeque::new(),
            write_time: Span::ZERO,
            stalled: false,
            answer: Vec::new(),
            answer_room: ANSWER_BYTES,
            answers: Answers::new(reads),
        }
    }

    /// Randomness for a batch.
    pub(crate) fn draw(&mut self) -> u64 {
        self.random.next()
    }

    pub(crate) fn retry_prepare_later(&mut self, now: Time) {
        self.retry = Some(now.plus(PREPARE_RETRY));
    }

    /// The disk finished a write. Whether it had finished nothing for long.
    pub(crate) fn wrote(&mut self, now: Time) -> bool {
        if let Some(began) = self.writes.pop_front() {
            // An average in which the last sixteen count most.
            let (before, took) = (self.write_time.nanos(), now.since(began).nanos());
            self.write_time = Span::from_nanos(before - before / 16 + took / 16);
        }
        std::mem::take(&mut self.stalled)
    }

    /// How long writes take lately.
    pub(crate) fn write_time(&self) -> Span {
        self.write_time
    }

    /// When the disk has finished nothing for so long, if it goes on like this.
    pub(crate) fn stalls_at(&self, stall: Span) -> Option<Time> {
        self.writes.front().filter(|_| !self.stalled).map(|began| began.plus(stall))
    }

    pub(crate) fn on_deadline(&mut self, now: Time, log: &mut Log) {
        if self.retry.is_some_and(|at| at <= now) {
            self.retry = None;
            log.retry_prepare();
            log.sync_soon();
        }
    }
}

impl Node {
    pub(crate) fn on_turn_end(&mut self, now: Time, out: &mut Effects) {
        self.end_intake(now, out);
        self.wake_waiting(now, out);
        self.meet_members(now, out);
        self.end_change(now, out);
        self.raise_in_turn(now, out);
        self.propose_border(now, out);
        self.propose(now, out);
        self.tick(now, out);
        self.ask_for_reads(now, out);
        self.fill(now, out);
        self.tell_caught_up(out);
        self.run_reads(now);
        self.send_replies(out);
        self.turn.answer_room = ANSWER_BYTES;
        self.turn.answers.end_turn();
        self.run_log(now, out);
        self.tell_room(out);
        self.tell_sight(now, out);
        let unsynced = self.config.log.sync == SyncMode::Async && self.log.position() > self.log.synced_to();
        if unsynced && self.turn.retry.is_none() {
            self.turn.retry = Some(now.plus(SYNC_DELAY));
        }
    }

    /// Gives the log what waits for room, and the disk what the log wants done. Room comes with a new segment, and also when
    /// what is queued goes out: then nothing else would say so.
    fn run_log(&mut self, now: Time, out: &mut Effects) {
        loop {
            if !planted("room-forgotten") && !self.write_waiting(out) {
                return;
            }
            match self.log.poll() {
                Some(effect) => {
                    if matches!(effect, LogEffect::Write(_)) {
                        self.turn.writes.push_back(now);
                    }
                    out.push(Effect::Disk(effect));
                }
                None => return,
            }
        }
    }

    /// The disk of this replica finishes nothing: if it leads, everything waits for it. Another one leads better.
    pub(crate) fn check_stall(&mut self, now: Time, out: &mut Effects) {
        if self.turn.stalls_at(self.config.disk_stall).is_some_and(|at| at <= now) {
            self.turn.stalled = true;
            out.event(Event::DiskStalls);
            if self.config.members.all().len() > 1 {
                self.step_led(now, &OrderInput::Transfer(None));
                self.after_order(now, out);
            }
        }
    }

    /// Proposes while the window allows: a few small batches, so that what arrives meanwhile piles up into larger ones, and
    /// large ones up to a limit in bytes.
    pub(crate) fn propose(&mut self, now: Time, out: &mut Effects) {
        for at in 0..self.instances.len() {
            self.propose_waiting(at, now, out);
        }
    }

    fn propose_waiting(&mut self, at: usize, now: Time, out: &mut Effects) {
        if self.gathers(at, now) {
            return;
        }
        while self.instances[at].admission.waiting_bytes() > 0 && self.may_propose(at) {
            let instance = &self.instances[at];
            let (batches, bytes) = instance.order.in_flight();
            let few_max = if instance.order.one_at_a_time() { 1 } else { self.config.batches_in_flight_max };
            let few = batches < few_max;
            let large = instance.admission.is_full() && bytes < self.config.bytes_in_flight_max;
            if (!few && !large) || instance.order.holds_back() {
                break;
            }
            let header = self.propose_header(now);
            let Some(batch) = self.instances[at].admission.seal(header) else { break };
            self.instances[at].gathering.proposed(now, batch.header().count);
            self.propose_in(at, now, batch, out);
        }
        let instance = &self.instances[at];
        if instance.admission.waiting_bytes() > 0 && instance.order.leading() {
            self.merge.waits_for_room(instance.id);
        }
    }

    /// Whether the next batch of this instance waits for more of those who asked lately.
    fn gathers(&mut self, at: usize, now: Time) -> bool {
        let Instance { order, admission, gathering, .. } = &mut self.instances[at];
        if !order.one_at_a_time() || !order.leading() {
            gathering.reset();
            return false;
        }
        gathering.stop();
        if order.in_flight().0 > 0 {
            return false;
        }
        let waiting = admission.waiting();
        gathering.idle(now, waiting);
        let most = self.config.order.patience().divided(GATHERING_PART);
        let full = admission.is_full();
        if full || self.merge.is_wanted(self.instances[at].id) {
            return false;
        }
        self.instances[at].gathering.waits(now, waiting, most)
    }

    /// The header of a batch that is proposed now. Once this replica knows all that was ordered before, it extends its own proposals.
    pub(crate) fn propose_header(&mut self, now: Time) -> BatchHeader {
        if self.first().order.settled() {
            self.clock.propose();
        }
        let (time, seed) = (self.clock.read(now), self.turn.draw());
        let base = self.executor.takes_bases().then(|| self.executor.time());
        BatchHeader { time, base, seed, ..BatchHeader::default() }
    }

    /// A batch was executed, or a checkpoint: its time is agreed.
    pub(crate) fn learn_time(&mut self, now: Time) {
        let (own, executed) = (self.clock.read(now), self.executor.time());
        if executed > own {
            self.intake.pulled(now, executed.since(own));
        }
        self.clock.executed(now, executed, self.time_rule());
    }

    /// Whether several leaders may propose what follows what was delivered. Once they did, it stays so: leases that were renewed by one of
    /// them may end by another one.
    pub(crate) fn leads_many(&self) -> bool {
        self.merge.next_generation().is_some() || self.merge.generation() != Generation::begin(1)
    }

    /// Tells the clock if this replica acts much later than it wanted to: then its process was stopped, and what it knows of leaders is old.
    pub(crate) fn notice_pause(&mut self, now: Time) {
        if now.since(self.now) > self.config.order.patience()
            && let Some(due) = self.deadline()
        {
            self.clock.woke(due, now, self.time_rule());
        }
    }

    /// How the time of batches is taken here.
    pub(crate) fn time_rule(&self) -> Rule {
        Rule {
            liars: self.may_lie(),
            many: self.leads_many(),
            patience: self.config.order.patience(),
            off: AHEAD_MAX,
        }
    }

    fn run_reads(&mut self, now: Time) {
        if !self.keeping.sound() {
            return; // they expire, or are answered once the state is sound again
        }
        let (executor, answers, counts) = (&self.executor, &mut self.turn.answers, &mut self.counts);
        let seats = &self.peers.seats;
        self.reads.ready(executor.seq(), |read| {
            counts.reads += 1;
            let conn = read.key.conn;
            answers.run(now, executor, (conn, seats.number(conn)), read.key.read, read.query);
        });
        answers.run_put_off(now, executor, |conn| seats.number(conn));
    }

    pub(crate) fn on_read_failed(&mut self, group: u64) {
        let (executor, answers) = (&self.executor, &mut self.turn.answers);
        self.reads.failed(group, |key| answers.fail(executor, key.conn, key.read, ReadStatus::NoLeader));
    }

    pub(crate) fn expire_reads(&mut self, now: Time) {
        let (executor, answers) = (&self.executor, &mut self.turn.answers);
        self.reads.expire(now, |key| answers.fail(executor, key.conn, key.read, ReadStatus::NoLeader));
    }

    fn send_replies(&mut self, out: &mut Effects) {
        for (conn, mut body) in self.routes.drain() {
            write_position(&mut body, self.executor.seq());
            out.send(conn, OutFrame::new(FrameKind::Replies, &[], vec![Bytes::from(body)]));
        }
        for (conn, body) in self.turn.answers.drain() {
            out.send(conn, OutFrame::new(FrameKind::ReadReplies, &[], vec![Bytes::from(body)]));
        }
        self.move_new_clients(out);
    }
}
