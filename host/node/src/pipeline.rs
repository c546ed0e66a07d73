//! The pipeline: which part takes which input, the order of a turn, and where the effects of each part go. It decides nothing.
//! A request passes from the gate through the intake to a group, goes to the journal as a record, is decided and goes to the engine, and
//! leaves through the gate as a reply (ARCHITECTURE.md, "Life of a request").

use crate::delivering;
use crate::effects::{Effect, Effects, Event, Input, OracleWork, Unneeded};
use crate::engine;
use crate::eras;
use crate::gate::{Arrived, Asks, Change, In as At, Said, Says};
use crate::group::{self, FIRST};
use crate::keeping::{self, In};
use crate::lanes::Placement;
use crate::leading;
use crate::neighbours;
use crate::node::{Node, look};
use crate::reconfigure::{self, Reconfigure};
use quorate_admit as intake;
use quorate_merge::RecordIndex;
use quorate_order::{Effect as OrderEffect, Input as OrderInput};
use quorate_types::{ClientId, ConnId, ReplicaId, Time};
use quorate_wire::{ClientMessage, FrameKind, OutFrame, write_position};

/// Inputs, and the parts that take them.
impl Node {
    /// Reacts to one input. The host must read `now` after everything in the input had arrived; for [`Input::TurnEnd`], after everything in
    /// the turn had. Otherwise a host that is stopped in between would answer reads by a lease that is over.
    pub fn step(&mut self, now: Time, input: Input, out: &mut Effects) {
        if self.config.placement != Placement::default() && self.is_for_lane(now, &input, out) {
            return;
        }
        self.notice_pause(now);
        self.now = now;
        match input {
            Input::Frame { conn, frame } if self.gate.neighbours.made(conn) => {
                neighbours::framed(self, now, conn, frame, out)
            }
            Input::Frame { conn, frame } => self.on_frame(now, conn, frame, out),
            Input::Run(_) => self.hear_lanes(now, out),
            Input::TurnEnd => {
                self.end_turn(now, out);
                self.ask_lanes(now, out);
            }
            Input::Written(id) => {
                self.journal.written(now, id, out);
                self.on_durable(now, out);
            }
            Input::Synced(id) => {
                self.journal.synced(id);
                self.on_durable(now, out);
            }
            Input::Prepared { segment, result } => {
                self.journal.prepared(now, segment, result, out);
                self.after_order(now, out);
            }
            Input::Loaded { load, records } => self.on_loaded(now, load, &records, out),
            Input::Scrubbed { segment, result } => self.keep(now, In::Scrubbed { segment, result }, out),
            Input::Kept(report) => self.keep_called_in(now, In::Kept(report), out),
            Input::Checked { id, right } => self.on_checked(now, id, right, out),
            Input::Worked(done) => self.on_worked(now, done, out),
            Input::Oracle { instance, answer } => self.on_oracle(now, instance, answer, out),
            Input::Deadline => self.on_deadline(now, out),
            Input::Secret(secret) => self.on_secret(now, &secret, out),
            Input::Accepted { conn, from } => self.at_gate(now, At::Accepted { conn, from }, out),
            Input::Identified { conn, identity } => self.at_gate(now, At::Identified { conn, identity }, out),
            Input::Unsafe { conn, why } => self.on_unsafe(now, conn, why, out),
            Input::Dialed { conn, replica, link } => {
                self.at_gate(now, At::Dialed { conn, replica, link }, out)
            }
            Input::DialFailed { replica, link } => self.at_gate(now, At::DialFailed { replica, link }, out),
            Input::ServiceDialed { conn, service, replica } => {
                neighbours::dialed(self, now, (conn, service, replica), out)
            }
            Input::ServiceDialFailed { service, replica } => {
                self.gate.neighbours.dial_failed(now, service, replica)
            }
            Input::Closed(conn) => self.on_closed(now, conn, out),
        }
    }

    pub(crate) fn on_arrived(&mut self, now: Time, conn: ConnId, arrived: Arrived, out: &mut Effects) {
        match arrived {
            Arrived::Hello(frame, client) => self.on_hello(now, (conn, client), frame, out),
            Arrived::Answer { replica, link, frame } => {
                self.at_gate(now, At::Answer { conn, replica, link, frame }, out);
                self.on_answered(conn, replica, out);
                self.after_connections(now, out);
            }
            Arrived::Member(from, says) => self.on_member(now, (conn, from), says, out),
            Arrived::Members(members) => self.reconfigure.told(members, &self.config),
            Arrived::Across(from, says) => eras::on_across(self, now, from, says, out),
            Arrived::Client(client, message) => self.on_client(now, (conn, client), message, out),
            Arrived::Operator(asks) => self.on_operator(now, conn, asks, out),
            Arrived::Wrong(why) => self.reject(now, conn, why, out),
            Arrived::Nothing => {}
        }
    }

    fn on_member(&mut self, now: Time, (conn, from): (ConnId, ReplicaId), says: Says, out: &mut Effects) {
        match says {
            Says::Order(instance, message) => self.on_message(now, instance, message, out),
            Says::State(message) => self.keep_called_in(now, In::Heard { from, message }, out),
            Says::Room(room) => self.lead(now, leading::In::Room(from, room), out),
            Says::Results(says) => self.rulings.heard(now, from, says),
            Says::Sight(sight) => self.lead(now, leading::In::Sight(from, sight), out),
            Says::Signed(signed) => {
                self.reconfigure(now, out, |part, look, outs| drop(part.submitted(look, signed, outs)));
            }
            Says::Members(members) => self.reconfigure.told(members, &self.config),
            Says::CaughtUp(instance, replicas) => {
                self.reconfigure.told_caught_up(&self.groups, instance, from, replicas)
            }
            Says::Chain(says) => {
                self.reconfigure(now, out, |it, look, outs| it.on_chain(look, from, says, outs))
            }
            Says::Fill(place) => {
                let trust = self.trust();
                self.engine.step(engine::In::Wanted(from, place, trust));
            }
            Says::Requests(requests) => {
                let taken = self.intake(now, out, |intake, facts, outs| {
                    intake.from_member(now, facts, from, &requests, outs)
                });
                if let (Err(why), _) = taken {
                    self.reject(now, conn, why.into(), out);
                }
            }
        }
    }

    fn on_client(
        &mut self,
        now: Time,
        (conn, client): (ConnId, ClientId),
        message: ClientMessage,
        out: &mut Effects,
    ) {
        match message {
            ClientMessage::Requests(requests) => self.on_requests(now, (conn, client), &requests, out),
            ClientMessage::Reads(reads) => {
                self.guide.place_reader(conn, self.config.links, out);
                let may = (self.keeping.sound(), self.gate.rights(conn).map(|rights| &**rights));
                self.engine.asked(now, (conn, self.gate.peers().seats.number(conn)), &reads, may);
            }
            ClientMessage::Keys(keys) => self.intake.learn_keys(client, &keys),
            ClientMessage::Listen(sessions) => self.engine.listen((conn, client), &sessions),
            ClientMessage::Copies(_) | ClientMessage::Seen(_) => {
                neighbours::said(self, now, (conn, client), message, out)
            }
            ClientMessage::Chain(after) => out.send(conn, self.reconfigure.chain_after(after)),
            ClientMessage::AnswerMode(mode) => match self.intake.takes_modes() {
                Ok(()) => self.engine.set_mode(conn, mode),
                Err(why) => self.reject(now, conn, why.into(), out),
            },
        }
    }

    fn on_operator(&mut self, now: Time, conn: ConnId, asks: Asks, out: &mut Effects) {
        let what = asks.what();
        let (kind, text) = match asks {
            Asks::Status => {
                return out.push(Effect::Status { conn, status: Box::new(self.status()) });
            }
            Asks::State(message) => {
                if let Some(what) = what {
                    self.gate.audit(conn, what, "begun".into(), out);
                }
                let members = self.config.members.all().iter().map(|member| member.replica).collect();
                return self.keep(now, In::Asked { conn, members, message }, out);
            }
            Asks::Chain(after) => return out.send(conn, self.reconfigure.chain_after(after)),
            Asks::Evidence => return out.send(conn, self.gate.proofs().frame()),
            Asks::Attest(of) => return out.send(conn, crate::attesting::answer(self, of)),
            Asks::Lanes(wish) => {
                self.gate.audit(conn, what.unwrap_or_default(), "passed on to its lanes".into(), out);
                return out.push(Effect::Lanes { conn, wish });
            }
            Asks::Transfer(to) => (FrameKind::TransferReply, self.transfer(now, to, out)),
            Asks::Reconfigure(wish) => {
                self.reconfigure(now, out, |part, look, outs| part.asked(look, wish, outs))
            }
            Asks::Scrub => (FrameKind::ScrubReply, self.scrub(now, out).to_owned()),
        };
        self.gate.audit(conn, what.unwrap_or_default(), text.clone(), out);
        out.send(conn, OutFrame::new(kind, text.as_bytes(), vec![]));
    }
}

/// The order of a turn.
impl Node {
    /// Ends a turn, when everything that arrived at once was handed in: batches are sealed, reads are grouped, replies leave and blocks are
    /// written. Nothing here runs per command.
    pub(crate) fn end_turn(&mut self, now: Time, out: &mut Effects) {
        delivering::execute(self, now, out);
        self.verify(now, out);
        neighbours::step(self, now, out);
        self.end_intake(now, out);
        self.wake_waiting(now, out);
        self.meet_members(now, out);
        self.reconfigure(now, out, |part, look, outs| part.end_turn(now, look, outs));
        self.propose_all(now, out);
        self.tick(now, out);
        self.ask_for_reads(now, out);
        self.fill(now, out);
        self.reconfigure(now, out, |part, look, outs| part.tell_caught_up(look, outs));
        delivering::execute(self, now, out);
        self.run_reads(now);
        neighbours::step(self, now, out);
        self.engine.send_replies(out);
        let (guide, look) = self.guide();
        guide.end_turn(&look, out);
        self.admitting.end_turn();
        self.engine.end_turn(out);
        self.journal.end_turn(now, out);
        self.lead(now, leading::In::TurnEnd, out);
        eras::look_at_eras(self, now, out);
        self.journal.sync_later(now);
    }

    /// Tells the parts that time passed, in this order.
    fn on_deadline(&mut self, now: Time, out: &mut Effects) {
        delivering::finish_late(self, now, out);
        self.dial(now, out);
        self.after_connections(now, out);
        if self.groups.on_deadline(now) {
            self.after_order(now, out);
        }
        self.lead(now, leading::In::Deadline, out);
        self.look_behind(now, out);
        self.engine.expire_reads(now);
        self.keep(now, In::Deadline, out);
        self.check_stall(now, out);
        self.keep(now, In::ScrubInTurn, out);
        self.journal.on_deadline(now);
        self.look_at_late(now, out);
        self.watch_deadline(now, out);
    }
}

/// Where the effects of each part go.
impl Node {
    /// A gate with a lane of its own reports something.
    pub(crate) fn on_gate(&mut self, now: Time, said: Said, out: &mut Effects) {
        match said {
            Said::Arrived(conn, arrived) => self.on_arrived(now, conn, arrived, out),
            Said::Met(conn, learned) => self.on_met(now, conn, learned, out),
            Said::Answered(conn, replica) => self.on_answered(conn, replica, out),
            Said::Closed(conn) => self.forget_conn(now, conn, out),
            Said::Changed(changes) => self.connections_changed(now, changes, out),
        }
    }

    /// Tells the other parts which members came and went.
    pub(crate) fn after_connections(&mut self, now: Time, out: &mut Effects) {
        let changes = self.gate.changes(out);
        self.connections_changed(now, changes, out);
    }

    fn connections_changed(&mut self, now: Time, changes: Vec<Change>, out: &mut Effects) {
        for change in changes {
            match change {
                Change::Up(replica) => {
                    out.event(Event::PeerUp(replica));
                    self.reconfigure.met(replica);
                    self.connect(now, replica);
                    self.ask_again(now, replica, out);
                    self.keep(now, In::Connected(replica), out);
                    self.lead(now, leading::In::Connected(replica), out);
                }
                Change::Down(replica) => {
                    out.event(Event::PeerDown(replica));
                    self.reconfigure.lost(replica);
                    self.disconnect(now, replica, change);
                    self.keep(now, In::Disconnected(replica), out);
                    self.lead(now, leading::In::Lost(replica), out);
                }
                Change::Joined(replica) => self.connect(now, replica),
                Change::Across(replica) => eras::met_across(self, now, replica, out),
                Change::CutAcross(replica) => eras::step_eras(self, now, eras::In::Down(replica), out),
                Change::Cut(replica, _) => self.disconnect(now, replica, change),
            }
            self.after_order(now, out);
        }
    }

    /// Carries out an effect of the intake.
    pub(crate) fn do_intake(&mut self, now: Time, wanted: intake::Out, out: &mut Effects) {
        match wanted {
            intake::Out::Admit { instance, requests } => {
                self.admit(now, group::index_of(instance), None, &requests, out);
            }
            intake::Out::Check(work) => out.push(Effect::Check(work)),
            intake::Out::Vouched { instance, slot, digest, waited } => {
                self.groups.step_named(now, instance, OrderInput::Vouched { slot, digest, waited });
            }
            intake::Out::Watch { instance, name } => {
                self.groups.step_named(now, instance, OrderInput::Watch(name))
            }
            intake::Out::Unwatch { instance, name } => {
                self.groups.step_named(now, instance, OrderInput::Unwatch(name))
            }
            intake::Out::Say(requests) => {
                let frame = OutFrame::new(FrameKind::Requests, &[], vec![requests]);
                self.gate.tell_all(&self.config.members, &frame, out);
            }
            intake::Out::Answer { conn, mut replies } => {
                write_position(&mut replies, self.engine.executor().seq());
                out.send(conn, OutFrame::new(FrameKind::Replies, &replies, vec![]));
            }
            intake::Out::Reject { conn, why } => {
                if self.gate.peers().conn(conn).is_some() {
                    self.reject(now, conn, why, out);
                }
            }
            intake::Out::Overdue { session, number } => out.event(Event::Overdue { session, number }),
        }
    }

    /// Carries out an effect of a group.
    pub(crate) fn do_group(&mut self, at: usize, now: Time, wanted: OrderEffect, out: &mut Effects) {
        let (id, volume) = (self.groups[at].id(), self.groups[at].volume());
        match wanted {
            OrderEffect::Persist { id: own, record, vital } => {
                self.engine.logged(now, self.journal.persist((volume, own), id, record, vital, out));
            }
            OrderEffect::Send { to, message, .. } => self.send(at, to, &message, out),
            OrderEffect::Decided { slot, batch } => match self.engine.takes(now, (id, slot), batch) {
                Ok(()) => delivering::deliver(self, now, out),
                Err(halt) => out.push(Effect::Halt(halt)),
            },
            OrderEffect::Proposed { slot, view, batch } => self.engine.proposed(id, slot, view, batch),
            OrderEffect::Behind { slot } => {
                let lacks = self.engine.lacks(id, slot, self.groups.len() == 1);
                self.keep(now, In::Behind(lacks), out);
            }
            OrderEffect::Examine { slot, digest, batch } => {
                self.intake(now, out, |intake, facts, outs| {
                    intake.examine(now, facts, (id, slot, digest), batch, outs)
                });
            }
            OrderEffect::Oracle(request) => out.push(Effect::Oracle(OracleWork { instance: id, request })),
            OrderEffect::Overdue { request } => {
                self.intake(now, out, |intake, _, outs| intake.overdue(request, outs));
                self.reconfigure(now, out, |part, _, outs| part.overdue(request, outs));
            }
            OrderEffect::SmallQuorums { sets } => self.on_few(at, sets),
            OrderEffect::Members { memberships, .. } => self.on_members(at, memberships),
            OrderEffect::LeaderChanged { view, leader, planned } => {
                self.on_leader_changed(at, now, (view, leader), planned, out);
            }
            OrderEffect::ReadConfirmed { read, slot } => {
                self.engine.step(engine::In::ReadConfirmed(read, id, RecordIndex(slot.number())));
            }
            OrderEffect::ReadFailed { read } => self.engine.step(engine::In::ReadFailed(read)),
            OrderEffect::Load { load, records } => self.journal.load(volume, load, &records, out),
            OrderEffect::Rejected { from, why } => {
                self.intake.note(now, from, &why);
                self.gate.refuses(from, &why, out);
            }
            OrderEffect::Link(link) => self.reconfigure(now, out, |it, _, outs| it.linked(&link, outs)),
            OrderEffect::Proved(it) => self.gate.prove(self.engine.agreed_time(now), *it, out),
            OrderEffect::Halt(halt) => out.push(Effect::Halt(halt)),
        }
    }

    /// Carries out an effect of all groups together.
    pub(crate) fn do_groups(&mut self, now: Time, wanted: group::Out) {
        match wanted {
            group::Out::Renewed(id) => self.engine.step(engine::In::Renewed(id)),
            group::Out::Led(id, leader) => self.engine.step(engine::In::Led(id, leader)),
            group::Out::Unbound(at) => self.guide.forget_instance(at),
            group::Out::Left(at) => self.reconfigure.left(at),
            group::Out::Abandoned(volume) => self.journal.leave(volume),
            group::Out::Wake(at) => self.wake(now, at),
            group::Out::CloseVolumes => self.close_volumes(),
        }
    }

    /// Steps the part that decides which replica leads which instance, and carries out its effects.
    pub(crate) fn lead(&mut self, now: Time, input: leading::In, out: &mut Effects) {
        let mut outs = Vec::new();
        self.leading.step(now, &look!(self, leading), input, &mut outs);
        if outs.is_empty() {
            return; // in nearly every turn
        }
        let steps = |wanted: &leading::Out| !matches!(wanted, leading::Out::Tell { .. });
        let steps = outs.iter().any(steps);
        for wanted in outs {
            match wanted {
                leading::Out::Transfer { at, to } => self.groups[at].step(now, OrderInput::Transfer(to)),
                leading::Out::All(input) => self.groups.step_present(now, &input),
                leading::Out::Looked { at, mine } => self.groups[at].lead_mut().looked(now, mine),
                leading::Out::Tell { conn, frame } => out.send(conn, frame),
            }
        }
        if steps {
            self.after_order(now, out);
        }
    }

    /// Steps the part for the membership, and carries out its effects.
    pub(crate) fn reconfigure<R>(
        &mut self,
        now: Time,
        out: &mut Effects,
        step: impl FnOnce(&mut Reconfigure, &reconfigure::Look<'_>, &mut Vec<reconfigure::Out>) -> R,
    ) -> R {
        let mut outs = Vec::new();
        let given = step(&mut self.reconfigure, &look!(self, reconfigure), &mut outs);
        if outs.is_empty() {
            return given; // in nearly every turn
        }
        for wanted in outs {
            self.do_reconfigure(now, wanted, out);
        }
        given
    }

    fn do_reconfigure(&mut self, now: Time, wanted: reconfigure::Out, out: &mut Effects) {
        match wanted {
            reconfigure::Out::Propose(command) => {
                let batch = command.batch(self.propose_header(now));
                self.propose_in(FIRST, now, batch, out);
            }
            reconfigure::Out::NameListeners => self.name_listeners(now),
            reconfigure::Out::BeginChange(change) => {
                self.groups.step_present(now, &OrderInput::Membership(change))
            }
            reconfigure::Out::Changed(now) => self.engine.members_changed(now),
            reconfigure::Out::MeetBorders => self.meet_borders(),
            reconfigure::Out::ChangeInstances(count) => self.change_instances(now, count, out),
            reconfigure::Out::Level(level) => delivering::begin_level(self, level, out),
            reconfigure::Out::Service(level) => delivering::raise_service(self, level, out),
            reconfigure::Out::Neighbour(command) => self.engine.neighbour(command),
            reconfigure::Out::OrderBorder => self.keeping.order_border(),
            reconfigure::Out::EndEra(era) => eras::end_era(self, now, era, out),
            reconfigure::Out::Spread(signed) => {
                self.gate.tell_all(&self.config.members, &signed.frame(), out)
            }
            reconfigure::Out::First(input) => self.groups.step_named(now, self.groups.first().id(), input),
            reconfigure::Out::Do(effect) => out.push(*effect),
            reconfigure::Out::Say(event) => out.event(event),
        }
    }

    /// Steps keeping, and carries out its effects.
    pub(crate) fn keep(&mut self, now: Time, input: In, out: &mut Effects) {
        let facts = look!(self, keeping).facts();
        let mut outs = Vec::new();
        self.keeping.step(now, &facts, input, &mut outs);
        for wanted in outs {
            self.do_keeping(now, wanted, out);
        }
    }

    fn do_keeping(&mut self, now: Time, wanted: keeping::Out, out: &mut Effects) {
        match wanted {
            keeping::Out::Keep(work) => out.push(Effect::Keep(work)),
            keeping::Out::Release(version) => out.push(Effect::Release(Unneeded(version))),
            keeping::Out::Send { to, message } => self.gate.tell(to, &message, out),
            keeping::Out::Answer { conn, message } => out.send(conn, message.frame()),
            keeping::Out::Tell(message) => {
                for member in self.config.members.others() {
                    self.gate.tell(member.replica, &message, out);
                }
            }
            keeping::Out::Reject { conn, why } => self.reject(now, conn, why.into(), out),
            keeping::Out::CountWrong => self.gate.count_wrong(),
            keeping::Out::Say { text, bad } => out.event(Event::State { text, bad }),
            keeping::Out::Halt(halt) => out.push(Effect::Halt(halt)),
            keeping::Out::CopyAhead => self.engine.prepare_image(),
            keeping::Out::CaptureAhead(border) => self.engine.ahead(border),
            keeping::Out::Capture { border, seq } => self.capture(now, border, seq, out),
            keeping::Out::Fetch(need) => self.begin_fetch(now, need, out),
            keeping::Out::Examine(found) => {
                self.turn_lanes(now, out);
                let verdict = keeping::examine(&found, &self.config, &self.groups).map(Box::new);
                self.keep(now, In::Examined { found, verdict }, out);
            }
            keeping::Out::Install(installing) => self.install(now, *installing, out),
            keeping::Out::HandOver => {
                self.groups.step_led(now, &OrderInput::Transfer(None));
                self.after_order(now, out);
            }
            keeping::Out::Trim { seq, records } => self.trim(now, seq, records, out),
            keeping::Out::ReadSegment(segment) => self.read_segment(segment, out),
            keeping::Out::Then(rest) => self.keep(now, In::Rest(rest), out),
        }
    }
}
