//! Operations that take several parts, one after the other: to admit and propose; to carry out what protocols want; to capture a
//! checkpoint, trim the log behind it, or go on from one; to follow a membership and a number of instances.

use crate::delivering;
use crate::effects::{Effect, Effects, Event};
use crate::engine;
use crate::eras;
use crate::group::{self, Asker, FIRST, Group, Pace, Terrain, role_of};
use crate::intake::Standing;
use crate::keeping::{In, Installed, Installing, Need, SegmentScrub, describe};
use crate::leading;
use crate::node::{Node, look};
use crate::reconfigure::Plan;
use crate::restoring::unrestored;
use crate::rulings::{self, Due};
use crate::system::System;
use bytes::Bytes;
use quorate_admit::{Intake, KnownMember, Out as IntakeOut, Sender};
use quorate_merge::{Generation, Refused};
use quorate_order::{Input as OrderInput, OrderMessage};
use quorate_types::{ClientId, ConnId, Halt, InstanceId, ReplicaId, Room, Seq, Slot, Time, View, planted};
use quorate_wire::{
    Batch, BatchHeader, Memberships, OutFrame, RequestHeader, Verified, fill_frame, members_frame,
};
use std::sync::Arc;

/// Requests of clients.
impl Node {
    /// Steps the intake and carries out its effects. Gives also whether there were any.
    pub(crate) fn intake<R>(
        &mut self,
        now: Time,
        out: &mut Effects,
        step: impl FnOnce(&mut Intake, &Standing<'_>, &mut Vec<IntakeOut>) -> R,
    ) -> (R, bool) {
        let look = look!(self, reconfigure);
        let facts = Standing {
            plan: Plan::new(&self.reconfigure, &look),
            now,
            me: self.config.members.me(),
            groups: &self.groups,
            engine: &self.engine,
            signatures_count: self.gate.permits_all(),
            rulings: &self.rulings,
        };
        let mut outs = Vec::new();
        let given = step(&mut self.intake, &facts, &mut outs);
        let any = !outs.is_empty();
        for wanted in outs {
            self.do_intake(now, wanted, out);
        }
        (given, any)
    }

    /// A client sends requests over its own connection.
    pub(crate) fn on_requests(
        &mut self,
        now: Time,
        (conn, client): (ConnId, ClientId),
        requests: &Bytes,
        out: &mut Effects,
    ) {
        let goes = match self.intake {
            Intake::Plain => {
                let (guide, look) = self.guide();
                let Some(at) = guide.instance_for(&look, conn, out) else {
                    return guide.send_away(&look, conn, out);
                };
                Some(at)
            }
            Intake::Vouched(_) => {
                self.guide.place_reader(conn, self.config.links, out);
                None
            }
        };
        let intake = &self.intake;
        if let Err(why) = self.engine.bind((conn, client), requests, |header| intake.takes(header)) {
            return self.reject(now, conn, why, out);
        }
        match goes {
            // Replicas only crash: the leader's word is enough.
            Some(at) => self.admit(now, at, Some(conn), requests, out),
            // Replicas may lie: this one keeps the request, which the client sends to all.
            None => self.hear(now, (conn, client), requests, out),
        }
    }

    fn hear(&mut self, now: Time, (conn, client): (ConnId, ClientId), requests: &Bytes, out: &mut Effects) {
        let (limits, mode) = (self.gate.rights(conn).cloned(), self.engine.mode(conn));
        self.intake(now, out, |intake, facts, outs| {
            let Intake::Vouched(vouched) = intake else { return };
            let permits = |header: &RequestHeader, body: &[u8]| {
                limits.as_ref().is_none_or(|limits| limits.permit(facts.engine.executor(), header, body))
            };
            vouched.arrived(now, facts, &Sender { conn, client, mode, permits: &permits }, requests, outs);
        });
    }

    /// Gives requests to an instance that leads here. Answers that need no agreement go to the connection, if there is one.
    pub(crate) fn admit(
        &mut self,
        now: Time,
        at: usize,
        conn: Option<ConnId>,
        requests: &Bytes,
        out: &mut Effects,
    ) {
        let room = self.leading.room(self.journal.room(), &self.config);
        let whose = (self.groups[at].id(), self.groups.len() == 1, now);
        let terrain = Terrain::new(&self.engine, &self.journal, (room, self.config.admission), whose);
        let lacks = terrain.short && terrain.disk_full;
        let asker = conn.map(|conn| Asker { conn, limits: self.gate.rights(conn).map(|rights| &**rights) });
        if self.admitting.admit(&mut self.groups[at], &terrain, asker, requests, out) {
            self.propose(now, out);
        }
        if lacks {
            self.lead(now, leading::In::Full, out);
        }
    }

    /// Ends the turn of the intake: requests are checked, messages leave, and proposals are looked at again.
    pub(crate) fn end_intake(&mut self, now: Time, out: &mut Effects) {
        if matches!(self.intake, Intake::Plain) {
            return;
        }
        self.intake(now, out, |intake, facts, outs| intake.turn_end(now, facts, outs));
        let ((), any) = self.intake(now, out, |intake, facts, outs| intake.vouch(now, facts, outs));
        if any {
            self.after_order(now, out);
        }
    }

    /// Looks at requests that have waited for long, if it is time for that.
    pub(crate) fn look_at_late(&mut self, now: Time, out: &mut Effects) {
        if self.intake.deadline().is_none_or(|at| at > now) {
            return;
        }
        let (looked, _) = self.intake(now, out, |intake, facts, outs| intake.look(now, facts, outs));
        if looked {
            self.after_order(now, out);
        }
    }
}

/// Proposals of instances that this replica leads.
impl Node {
    /// Proposes while the window allows: only a few small batches, so that later requests gather in larger ones; large batches up to a
    /// limit in bytes.
    pub(crate) fn propose(&mut self, now: Time, out: &mut Effects) {
        let pace = Pace::of(&self.config, &self.config.order.nature());
        let count = if self.eras.has_ended() { 0 } else { self.groups.len() };
        for at in 0..count {
            if !pace.pipelined || self.groups[at].waiting_bytes() > 0 {
                self.propose_waiting(at, now, &pace, out);
            }
        }
    }

    fn propose_waiting(&mut self, at: usize, now: Time, pace: &Pace, out: &mut Effects) {
        let id = self.groups[at].id();
        let mut due = if at == FIRST { self.ruling_due(now) } else { None };
        let wanted = || due.is_some_and(|due| due.awaited) || self.engine.merge().is_wanted(id);
        if self.groups[at].gathers(now, pace, wanted) || rulings::is_far(self.engine.verified()) {
            return;
        }
        while self.groups[at].waiting_bytes() > 0 && self.groups[at].may_propose(self.engine.merge()) {
            let settled = self.groups.first().standing().settled;
            let header = || BatchHeader { ruling: due.map(Due::ruling), ..self.engine.header(now, settled) };
            let Some(batch) = self.groups[at].next_batch(now, pace, header) else { break };
            if due.take().is_some() {
                self.rulings.is_proposed(now, &batch.header());
            }
            self.propose_in(at, now, batch, out);
        }
        let group = &self.groups[at];
        if group.waiting_bytes() > 0 && group.standing().leading {
            self.engine.step(engine::In::WaitsForRoom(id));
        }
    }

    /// Proposes a batch in an instance in which this replica may propose.
    pub(crate) fn propose_in(&mut self, at: usize, now: Time, batch: Batch, out: &mut Effects) {
        // A pillar on a lane of its own says so itself.
        if !self.groups[at].is_apart() {
            self.engine.step(engine::In::Proposed(self.groups[at].id()));
        }
        self.groups[at].propose(now, batch);
        self.after_order(now, out);
    }

    /// The header of a batch that is proposed now.
    pub(crate) fn propose_header(&mut self, now: Time) -> BatchHeader {
        let settled = self.groups.first().standing().settled;
        self.engine.header(now, settled)
    }

    /// Proposes a batch that has only a header, and the ruling that is due.
    fn propose_empty(&mut self, now: Time, header: BatchHeader, out: &mut Effects) {
        let header = BatchHeader { ruling: self.ruling_due(now).map(Due::ruling), ..header };
        self.rulings.is_proposed(now, &header);
        let mut bytes = Vec::new();
        Batch::begin(&mut bytes);
        self.propose_in(FIRST, now, Batch::seal(bytes, header), out);
    }

    /// Tells the members what ran here, and looks whether a ruling about results is due.
    pub(crate) fn verify(&mut self, now: Time, out: &mut Effects) {
        self.look_at_few(now, out);
        if !self.rulings.are_on() {
            return;
        }
        let (first, others) = (self.groups[FIRST].standing(), (&self.keeping, &self.gate, &self.config));
        let facts = self.rulings.facts(first, &self.engine, others);
        let more = self.memos.step(&mut self.journal, self.engine.verified_mut());
        let mut outs = Vec::from_iter(more.then_some(rulings::Out::Finish));
        self.rulings.look(now, self.engine.verified_mut(), facts, &mut outs);
        outs.into_iter().for_each(|wanted| self.do_rulings(now, wanted, out));
    }

    fn do_rulings(&mut self, now: Time, wanted: rulings::Out, out: &mut Effects) {
        match wanted {
            rulings::Out::Tell(to, frame) => {
                let told = |member: &&KnownMember| to.is_none_or(|to| to == member.replica);
                let conn = |member: &KnownMember| self.gate.peers().to(member.replica);
                let conns = self.config.members.others().filter(told).filter_map(conn);
                conns.for_each(|conn| out.send(conn, frame.clone()));
            }
            rulings::Out::Step(input) => {
                self.groups[FIRST].step(now, input);
                self.after_order(now, out);
            }
            rulings::Out::Finish => delivering::finish_late(self, now, out),
            rulings::Out::Repair(differs) => self.keep(now, In::Differs(differs), out),
        }
    }

    /// Proposes the ruling that is due in a batch of its own, if no request waits to go with it.
    fn propose_ruling(&mut self, now: Time, out: &mut Effects) {
        let may = self.groups[FIRST].may_propose(self.engine.merge());
        let due = self.ruling_due(now).filter(|_| may);
        let most =
            if self.config.order.nature().pipelined { self.config.batches_in_flight_max.max(1) } else { 1 };
        let busy = self.groups[FIRST].standing().in_flight >= most;
        if self.rulings.goes_alone(now, due, busy) && self.room() != Room::Full {
            let header = self.propose_header(now);
            self.propose_empty(now, header, out);
        }
    }

    /// Proposes what waits at the end of a turn.
    pub(crate) fn propose_all(&mut self, now: Time, out: &mut Effects) {
        if self.eras.has_ended() {
            return; // it would be void
        }
        self.propose_border(now, out);
        self.propose(now, out);
        if self.rulings.are_on() {
            self.propose_ruling(now, out);
        }
    }

    /// Proposes the batch that asks for a border, if this replica leads and a border is wanted.
    fn propose_border(&mut self, now: Time, out: &mut Effects) {
        if !self.keeping.wants_border()
            || !self.groups[FIRST].may_propose(self.engine.merge())
            || self.room() == Room::Full
        {
            return;
        }
        self.keeping.border_ordered();
        let header = self.propose_header(now);
        self.propose_empty(now, BatchHeader { border: true, ..header }, out);
    }

    /// Orders the time if a deadline of the service has passed and nothing else is under way.
    pub(crate) fn tick(&mut self, now: Time, out: &mut Effects) {
        if self.tick_at().is_none_or(|at| at > now) {
            return;
        }
        let header = self.propose_header(now);
        self.engine.ticked(now, header.time);
        self.propose_empty(now, header, out);
    }

    /// Lets the protocol wait for a deadline that no leader orders, as for a request of a client.
    pub(crate) fn watch_deadline(&mut self, now: Time, out: &mut Effects) {
        let due = self.engine.overdue_at(now).is_some_and(|at| at <= now) && !self.eras.has_ended();
        if !due || planted("deadlines-unwatched") {
            return;
        }
        self.engine.overdue().into_iter().for_each(|changed| self.groups[FIRST].step(now, changed));
        self.after_order(now, out);
    }

    /// Proposes no-ops where the merge waits for them, and asks leaders elsewhere to do so.
    pub(crate) fn fill(&mut self, now: Time, out: &mut Effects) {
        if self.groups.len() == 1 {
            return;
        }
        for at in 0..self.groups.len() {
            let (id, leads) = (self.groups[at].id(), self.groups[at].leads_here());
            // A leader may have no more than this slot.
            if at == FIRST && leads && self.engine.merge().is_wanted(id) && self.ruling_due(now).is_some() {
                self.propose_ruling(now, out);
            }
            if let Some(target) = Some(id).filter(|_| leads).and_then(|id| self.engine.fill(id)) {
                self.groups[at].step(now, OrderInput::Propose(Batch::no_op(target)));
                self.after_order(now, out);
            }
        }
        let (groups, peers) = (&self.groups, self.gate.peers());
        let mut told: Vec<ReplicaId> = Vec::new();
        self.engine.asks(|instance, place| {
            let Some(leader) = groups.of(instance).and_then(|group| group.leader()) else { return };
            if let Some(conn) = peers.to(leader).filter(|_| !told.contains(&leader)) {
                told.push(leader);
                out.send(conn, fill_frame(place.slot, place.instance));
            }
        });
    }

    /// A member is connected again: asks it again what it was asked before, and tells it again what waits for a ruling.
    pub(crate) fn ask_again(&mut self, now: Time, replica: ReplicaId, out: &mut Effects) {
        let mut outs = Vec::new();
        self.rulings.again(replica, &mut outs);
        outs.into_iter().for_each(|wanted| self.do_rulings(now, wanted, out));
        for group in self.groups.iter().filter(|group| group.leader() == Some(replica)) {
            self.engine.step(engine::In::AskAgain(group.id()));
        }
    }

    /// Hands leadership over if this replica's disk finishes nothing: every instance that it leads would wait for the disk.
    pub(crate) fn check_stall(&mut self, now: Time, out: &mut Effects) {
        if self.journal.stalls(now, out) && self.config.members.all().len() > 1 {
            self.groups.step_led(now, &OrderInput::Transfer(None));
            self.after_order(now, out);
        }
    }
}

/// Protocols: their effects are carried out until there are none.
impl Node {
    /// A message arrives from a member's group for the group of the same instance here.
    pub(crate) fn on_message(
        &mut self,
        now: Time,
        instance: InstanceId,
        message: Verified<OrderMessage>,
        out: &mut Effects,
    ) {
        // Without such a group the message counts as lost: this replica has not yet executed that the instance comes.
        let Some(group) = self.groups.of_mut(instance) else { return };
        let open = self.engine.merge().is_open(instance);
        if !self.journal.fits(group.volume(), open, || group.brought_by(&message)) {
            return; // counts as lost: the sender sends it again, and heartbeats still pass
        }
        group.receive(now, message);
        self.after_order(now, out);
    }

    /// Carries out the effects of all protocols until there are none.
    pub(crate) fn after_order(&mut self, now: Time, out: &mut Effects) {
        let (mut quiet, mut at) = (0, 0);
        while quiet < self.groups.len() {
            quiet = if self.drain(at, now, out) { 0 } else { quiet + 1 };
            at = (at + 1) % self.groups.len();
        }
        for at in 0..self.groups.len() {
            // Messages leave whose records are durable.
            while let Some((to, message)) = self.groups[at].release() {
                self.send(at, to, &message, out);
            }
        }
        self.engine.leads_alone(now, self.groups[FIRST].standing().alone);
    }

    /// Carries out the effects of one protocol. Whether there were any.
    fn drain(&mut self, at: usize, now: Time, out: &mut Effects) -> bool {
        let durable = self.journal.log().durable();
        if !self.groups[at].has_news(durable) {
            return false;
        }
        let mut any = false;
        loop {
            let mut effects = self.groups[at].take();
            let stay = self.groups[at].stay().number();
            for effect in effects.drain() {
                any = true;
                // A decided batch may have begun another stay; then the rest of these effects does not matter.
                if self.groups[at].stay().number() == stay
                    && let Some(effect) = self.groups[at].settle(now, effect)
                {
                    self.do_group(at, now, effect, out);
                }
            }
            let group = &mut self.groups[at];
            group.put_back(effects);
            if group.sees(self.journal.log().durable())
                && let Some(durable) = self.journal.newly_durable(group.volume())
            {
                group.is_durable(now, durable);
            }
            if group.is_quiet() {
                break;
            }
        }
        let group = &mut self.groups[at];
        self.engine.sealed(|| group.take_sealed());
        if group.rest() {
            self.engine.step(engine::In::Settled(group.id()));
        }
        if let Some(news) = group.news() {
            let settled = self.groups.first().standing().settled;
            self.engine.proposes(now, self.groups[at].id(), news, settled);
        }
        any
    }

    pub(crate) fn send(&self, at: usize, to: ReplicaId, message: &OrderMessage, out: &mut Effects) {
        // A message to a member that is not connected is lost, as it would be on the way.
        if let Some(conn) = self.gate.peers().way(to, at) {
            out.send(conn, message.frame(self.groups[at].id()));
        }
    }

    /// The frames that say to members once more that this replica leads. A host sends them while a turn executes for long.
    pub fn heartbeats(&self) -> Vec<(ConnId, OutFrame)> {
        self.groups.heartbeats(|to, at| self.gate.peers().way(to, at))
    }

    /// A write or a sync of the log completed.
    pub(crate) fn on_durable(&mut self, now: Time, out: &mut Effects) {
        self.engine.durable(now, self.journal.log().durable());
        self.after_order(now, out);
        self.trim_log(out);
        self.dial(now, out);
    }

    /// The disk has read records for an instance.
    pub(crate) fn on_loaded(&mut self, now: Time, load: u64, records: &[Bytes], out: &mut Effects) {
        match self.journal.loaded(load, records) {
            None => {}
            Some(Ok(loaded)) => {
                self.groups.loaded(now, &loaded);
                self.after_order(now, out);
            }
            Some(Err(halt)) => out.push(Effect::Halt(halt)),
        }
    }

    pub(crate) fn on_leader_changed(
        &mut self,
        at: usize,
        now: Time,
        (view, leader): (View, Option<ReplicaId>),
        planned: bool,
        out: &mut Effects,
    ) {
        if at == FIRST {
            self.engine.led(now, leader.is_some());
            self.rulings.led();
        }
        let id = self.groups[at].id();
        self.engine.step(engine::In::Led(id, role_of(leader, self.config.members.me())));
        let instance = (self.groups.len() > 1).then_some(id);
        out.event(Event::Leader { view: view.number(), leader, instance });
        let leader = self.groups[at].leader();
        self.intake(now, out, |intake, facts, _| intake.led(now, facts, id, leader, planned));
        let (guide, look) = self.guide();
        for conn in guide.led(&look, at, out) {
            self.unbind(conn, Some(id));
        }
    }
}

/// Execution, reads and agreed time.
impl Node {
    /// Learns the agreed time of a batch or a checkpoint that was delivered.
    pub(crate) fn learn_time(&mut self, now: Time) {
        if let Some(ahead) = self.engine.learn_time(now) {
            self.intake.pulled(now, ahead);
        }
    }

    /// Tells the engine if this replica acts much later than its deadline: then its process was stopped, and what it knows of leaders is old.
    pub(crate) fn notice_pause(&mut self, now: Time) {
        if now.since(self.now) > self.config.order.patience()
            && let Some(due) = self.groups.iter().filter_map(Group::wanted).chain(self.deadline()).min()
        {
            self.engine.woke(due, now);
        }
    }

    /// Asks a leader for all strong reads that wait for one.
    pub(crate) fn ask_for_reads(&mut self, now: Time, out: &mut Effects) {
        if let Some(group) = self.engine.take_reads() {
            self.ask_for_read(group, now, out);
        }
        for group in self.engine.confirm_reads() {
            self.ask_for_read(group, now, out);
        }
    }

    fn ask_for_read(&mut self, group: u64, now: Time, out: &mut Effects) {
        let has_leader = |id: InstanceId| self.groups.of(id).is_some_and(|group| group.leader().is_some());
        let at = self.engine.read_through(has_leader).map_or(FIRST, group::index_of);
        self.groups[at].step(now, OrderInput::Read(group));
        self.after_order(now, out);
    }

    pub(crate) fn run_reads(&mut self, now: Time) {
        // While the state is not sound, reads wait or expire; behind the end of an era, too, as the next one may have gone on. [E5]
        if !self.keeping.sound() || self.eras.has_ended() {
            return self.engine.withdraw();
        }
        let seats = &self.gate.peers().seats;
        self.engine.run_reads(now, |conn| seats.number(conn));
    }
}

/// Checkpoints.
impl Node {
    /// A border is reached: the ordering parts are described now, and the state of execution becomes an image once it is final.
    pub(crate) fn capture(&mut self, now: Time, border: u64, seq: Seq, out: &mut Effects) {
        self.turn_lanes(now, out);
        self.engine.border(Box::new(describe(&look!(self, keeping), (border, seq))));
    }

    /// The merge has waited for long for an instance without a leader. If others have a later checkpoint, it would wait in vain.
    pub(crate) fn look_behind(&mut self, now: Time, out: &mut Effects) {
        if self.left_behind_at().is_some_and(|at| at <= now) {
            self.groups.looked(now);
            self.keep(now, In::LeftBehind(self.engine.merge().seq().next()), out);
        }
    }

    /// Fetches a checkpoint from the connected members, using the objects that are here already.
    pub(crate) fn begin_fetch(&mut self, now: Time, mut need: Need, out: &mut Effects) {
        need.local = need.local.or_else(|| self.engine.executor().objects());
        let peers = self.gate.peers().peers();
        let connected = peers.filter(|(_, _, up, _)| *up).map(|(replica, ..)| replica).collect();
        self.keep(now, In::Fetch { need, connected }, out);
    }

    /// A fetched checkpoint is durable: execution and ordering go on from it.
    pub(crate) fn install(&mut self, now: Time, installing: Installing, out: &mut Effects) {
        self.call_in(now, out);
        let Installing { image, system, digests, why } = installing;
        let (seq, border, bytes) = (image.seq, image.border, image.objects.bytes());
        if let Err(error) = self.engine.restore(&system.executor, &image.objects, self.answerers()) {
            let why = format!("the agreed checkpoint of seq {seq:#} can not be restored: {error}");
            return out.push(Effect::Halt(unrestored(&self.config, &error, why)));
        }
        self.reconfigure.installed(system.roster.clone());
        if let Some(next) = system.eras.next.clone() {
            eras::end_era(self, now, Box::new(next), out);
            eras::step_eras(self, now, eras::In::State(Box::new(image.clone())), out);
        }
        delivering::set_level(self, system.level);
        delivering::install_service(self);
        self.meet_borders();
        let records = system.records();
        self.keep(now, In::Installed(Installed { seq, border, digests, why, bytes, records }), out);
        let new = match self.jump(now, &system) {
            Ok(new) => new,
            Err(halt) => return out.push(Effect::Halt(halt)),
        };
        self.engine.meet_leaders();
        self.restored();
        self.intake.caught_up(self.engine.executor());
        self.learn_time(now);
        self.journal.note_trimmed(seq);
        self.fall_asleep(now, seq, out);
        self.reconfigure.changed();
        if self.has_begun() {
            // The new instances wake before anything is executed: the next border says where each of them stands.
            new.iter().for_each(|at| self.wake(now, *at));
        }
        // Delivers what instances that keep their position had decided before.
        delivering::deliver(self, now, out);
        if self.has_begun() {
            self.resume_change(now, out);
            self.after_order(now, out);
        } else {
            self.begin(now, out);
        }
    }

    /// Trims everything that a durable checkpoint holds, up to these records of the instances. Older records that still count are written
    /// again first: the lives of the members here, view and vote by the protocol.
    pub(crate) fn trim(&mut self, now: Time, seq: Seq, records: Vec<Slot>, out: &mut Effects) {
        if !self.journal.begin_trim(seq, self.gate.lives().all()) {
            return;
        }
        self.keeping.trimmed(seq);
        self.memos.trimmed(seq, self.engine.verified_mut());
        for (group, slot) in self.groups.iter_mut().zip(records) {
            group.step(now, OrderInput::Trim { slot });
        }
        self.fall_asleep(now, seq, out);
        self.engine.step(engine::In::Trimmed(seq));
        self.after_order(now, out);
        self.trim_log(out);
    }

    /// Removes the segments that nothing needs any more.
    fn trim_log(&mut self, out: &mut Effects) {
        let needed = self.groups.stays().filter_map(|group| Some((group.volume(), group.keep_from()?)));
        if let Some(gone) = self.journal.go_on_trimming(needed, self.memos.first_needed()) {
            out.push(Effect::RemoveSegments(gone));
            self.keeping.log_begins(self.journal.log().first_segment());
        }
    }

    /// Begins to read everything at rest; the status shows what was found and mended.
    pub(crate) fn scrub(&mut self, now: Time, out: &mut Effects) -> &'static str {
        if self.journal.is_in_memory() {
            return "error: with durability memory nothing is at rest";
        }
        self.keep(now, In::Scrub, out);
        "begun"
    }

    /// Reads and checks a segment of the log, if it is full. If that segment is gone, the first one is read.
    pub(crate) fn read_segment(&mut self, segment: u64, out: &mut Effects) {
        let segment = segment.max(self.journal.log().first_segment());
        if let Some(records) = self.journal.log().sealed_records(segment) {
            self.keeping.reads(segment, records);
            let (log_id, config) = (self.config.log_id, self.config.log.clone());
            out.push(Effect::Scrub(SegmentScrub { log_id, config, segment }));
        }
    }
}

/// Members and levels.
impl Node {
    /// The replicas to which instances send what they decide.
    pub(crate) fn listeners(&self) -> Arc<[ReplicaId]> {
        self.reconfigure.listeners(&look!(self, reconfigure))
    }

    /// Tells the instances their listeners.
    pub(crate) fn name_listeners(&mut self, now: Time) {
        self.groups.step_present(now, &OrderInput::Listeners(self.listeners()));
    }

    /// A checkpoint was installed, or the protocol begins: tells the protocol of a change that is under way.
    pub(crate) fn resume_change(&mut self, now: Time, out: &mut Effects) {
        self.reconfigure.changed();
        if self.has_begun() {
            self.reconfigure(now, out, |part, _, outs| part.resumed(outs));
        }
    }

    /// The membership in force in an instance changed.
    pub(crate) fn on_members(&mut self, at: usize, memberships: Arc<Memberships>) {
        if at == FIRST {
            self.rulings.meet(&memberships, self.config.order.faults);
        }
        self.reconfigure.in_force(at, &self.groups[at], memberships);
        self.leading.majority_changed();
    }
}

/// Instances come and go.
impl Node {
    /// From the next generation border on there is another number of instances.
    pub(crate) fn change_instances(&mut self, now: Time, count: u16, out: &mut Effects) {
        self.turn_lanes(now, out);
        let before = self.engine.merge().generation().instances;
        match self.engine.change_instances(count) {
            Ok(next) => {
                let text = format!("from slot {} on {count} instances, {before} up to there", next.first);
                out.event(Event::Instances { text });
                let (counts, mut outs) = ((before, count), Vec::new());
                let volumes = self.journal.volumes();
                let resized = self.groups.resized(counts, &look!(self, groups), volumes, &mut outs);
                outs.into_iter().for_each(|wanted| self.do_groups(now, wanted));
                if let Err(halt) = resized {
                    out.push(Effect::Halt(halt));
                }
            }
            Err(why @ Refused::AcrossBorder) => {
                out.push(Effect::Halt(Halt::LogInconsistent { why: why.to_string() }));
            }
            Err(why) => {
                out.event(Event::Instances { text: format!("{count} instances were refused: {why}") })
            }
        }
    }

    /// Looks whether a delivery has begun a new generation.
    pub(crate) fn look_at_generation(&mut self, now: Time, out: &mut Effects) {
        let generation = self.engine.merge().generation();
        let mut outs = Vec::new();
        if !self.groups.delivered(generation, &mut outs) {
            return;
        }
        let Generation { instances, first, base } = generation;
        let text = format!("{instances} instances since slot {first}, behind seq {base:#}");
        out.event(Event::Instances { text });
        outs.into_iter().for_each(|wanted| self.do_groups(now, wanted));
        for conn in self.gate.peers().clients().collect::<Vec<_>>() {
            // A client that waits for an instance that left asks again.
            self.unbind(conn, None);
        }
        let (guide, look) = self.guide();
        guide.tell_clients(&look, None, out);
    }

    /// The log was trimmed up to this seq: instances that left before need no records any more.
    fn fall_asleep(&mut self, now: Time, trimmed: Seq, out: &mut Effects) {
        let mut outs = Vec::new();
        self.turn_lanes(now, out);
        let volumes = self.journal.volumes();
        let done = self.groups.fall_asleep(trimmed, &look!(self, groups), volumes, &mut outs);
        outs.into_iter().for_each(|wanted| self.do_groups(now, wanted));
        if let Err(halt) = done {
            out.push(Effect::Halt(halt));
        }
    }

    /// The global log goes on from a checkpoint. Gives the instances that begin with it.
    fn jump(&mut self, now: Time, system: &System) -> Result<Vec<usize>, Halt> {
        self.engine.jump(system, self.config.merge.window)?;
        let mut outs = Vec::new();
        let new = self.groups.meet(system, &look!(self, groups), self.journal.volumes(), &mut outs)?;
        outs.into_iter().for_each(|wanted| self.do_groups(now, wanted));
        self.groups.go_on(now, system, &look!(self, groups), self.journal.volumes())?;
        self.close_volumes();
        Ok(new)
    }

    /// Makes the connections follow the membership. Runs at the end of a turn, when nothing else is under way.
    pub(crate) fn meet_members(&mut self, now: Time, out: &mut Effects) {
        if !self.reconfigure.takes_change() {
            return;
        }
        if self.has_begun() {
            self.name_listeners(now);
            self.after_order(now, out);
        }
        let Some(directory) = self.reconfigure.directory(&look!(self, reconfigure)) else { return };
        directory.replace(&mut self.config.members, self.reconfigure.roster().used());
        self.gate.meet(now, &self.config.members, out);
        if let Some(voters) = directory.voters {
            self.intake.meet(&voters);
            let others = directory.members.into_keys().collect();
            self.keep(now, In::Members { voters, others }, out);
        }
        // A member that lags may hear of it from nobody else.
        let news = self.reconfigure.spreads(self.config.members.number());
        if let Some(memberships) = self.reconfigure.to_tell().filter(|_| news) {
            self.gate.tell_all(&self.config.members, &members_frame(memberships), out);
        }
        for conn in self.gate.peers().clients() {
            self.tell_client(conn, out);
        }
        self.after_connections(now, out);
    }

    /// Gives keeping the ordered number of replicas, on which the distance of borders may depend. Borders follow from the log alone.
    pub(crate) fn meet_borders(&mut self) {
        let (count, place) = self.reconfigure.replicas(&look!(self, reconfigure));
        self.keeping.meet_replicas(count, place);
    }
}
