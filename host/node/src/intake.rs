//! What clients ask comes in here: stage 2 says what is to be done with it, and this file does that.

use crate::clients::may_run;
use crate::config::NodeConfig;
use crate::effects::{Effects, Event};
use crate::engine::Engine;
use crate::gate::Permissions;
use crate::group::{Group, index_of};
use crate::node::Node;
use bytes::Bytes;
use quorate_admit::{Facts, HeardLimits, Intake, Out, Place, Sender, Sessions, Vouched, VouchedConfig};
use quorate_execute::Executor;
use quorate_order::Input as OrderInput;
use quorate_types::{AgreedTime, ClientId, ConnId, Digest, InstanceId, ReplicaId, Slot, Time, View};
use quorate_wire::{
    Batch, ClientMessage, Frame, FrameKind, OutFrame, RequestHeader, RequestKind, write_position,
};

/// The intake that the configuration asks for.
pub(crate) fn intake(config: &NodeConfig) -> Intake {
    let faults = config.order.faults;
    if !faults.may_lie() {
        return Intake::Plain;
    }
    let bytes_max = config.admission.queue_bytes_max;
    Intake::Vouched(Box::new(Vouched::new(VouchedConfig {
        cluster: config.members.cluster(),
        me: config.members.me(),
        members: config.members.all().iter().map(|member| member.replica).collect(),
        faults,
        instances: config.instances,
        heard: HeardLimits { bytes_max, client_bytes_max: bytes_max / 4, window: config.sessions.window },
        checks: config.order.request_checks(),
        signed_only: config.signed_only,
        request_bytes_max: config.admission.request_bytes_max,
        batch_bytes: config.admission.batch_bytes,
        rotates: config.order.nature().rotates,
    })))
}

/// How the node stands, as stage 2 asks.
struct Standing<'a> {
    now: Time,
    me: ReplicaId,
    groups: &'a [Group],
    engine: &'a Engine,
    signatures_count: bool,
}

impl Standing<'_> {
    fn of(&self, instance: InstanceId) -> Option<&Group> {
        self.groups.get(index_of(instance))
    }
}

impl Facts for Standing<'_> {
    fn sessions(&self) -> &dyn Sessions {
        self.engine.executor()
    }
    fn instances(&self) -> u16 {
        self.groups.len() as u16
    }
    fn leads(&self, instance: InstanceId) -> bool {
        self.of(instance).is_some_and(|instance| instance.standing().leading)
    }
    fn announced(&self, instance: InstanceId) -> bool {
        self.of(instance).is_some_and(|instance| instance.leader() == Some(self.me))
    }
    fn view(&self, instance: InstanceId) -> View {
        self.of(instance).map_or(View::ZERO, |instance| instance.view())
    }
    fn decided(&self, instance: InstanceId) -> Slot {
        self.of(instance).map_or(Slot::ZERO, |instance| instance.decided())
    }
    fn agreed_time(&self) -> AgreedTime {
        self.engine.agreed_time(self.now)
    }
    fn executed_time(&self) -> AgreedTime {
        self.engine.executor().time()
    }
    fn needs_no_op(&self, instance: InstanceId, target: Slot) -> bool {
        self.engine.merge().is_needed(instance, target)
    }
    fn waits_for(&self) -> Option<(Place, Time)> {
        let waits = self.engine.merge().waits()?;
        Some((Place { slot: waits.slot, instance: waits.instance }, waits.since))
    }
    fn unmerged(&self, instance: InstanceId, each: &mut dyn FnMut(&Batch)) {
        self.engine.merge().held(instance).for_each(each);
    }
    fn signatures_count(&self) -> bool {
        self.signatures_count
    }
}

impl Node {
    /// Steps the intake, and gives what it wants done, in order.
    fn step_intake<R>(
        &mut self,
        now: Time,
        step: impl FnOnce(&mut Intake, &Standing<'_>, &mut Vec<Out>) -> R,
    ) -> (R, Vec<Out>) {
        let facts = Standing {
            now,
            me: self.config.members.me(),
            groups: &self.groups,
            engine: &self.engine,
            signatures_count: self.gate.permits_all(),
        };
        let mut outs = Vec::new();
        let given = step(&mut self.intake, &facts, &mut outs);
        (given, outs)
    }

    /// Does what the intake wants done.
    fn do_intake(&mut self, now: Time, outs: Vec<Out>, out: &mut Effects) {
        for wanted in outs {
            match wanted {
                Out::Admit { instance, requests } => {
                    self.admit(now, index_of(instance), None, &requests, out);
                }
                Out::Vouched { instance, slot, digest, waited } => {
                    self.step_named(now, instance, OrderInput::Vouched { slot, digest, waited });
                }
                Out::Watch { instance, name } => self.step_named(now, instance, OrderInput::Watch(name)),
                Out::Unwatch { instance, name } => self.step_named(now, instance, OrderInput::Unwatch(name)),
                Out::Say(requests) => self.say_to_all(&requests, out),
                Out::Answer { conn, mut replies } => {
                    write_position(&mut replies, self.engine.executor().seq());
                    out.send(conn, OutFrame::new(FrameKind::Replies, &replies, vec![]));
                }
                Out::Reject { conn, why } => {
                    if self.gate.peers().conn(conn).is_some() {
                        self.reject(now, conn, why, out);
                    }
                }
                Out::Overdue { session, number } => out.event(Event::Overdue { session, number }),
            }
        }
    }

    fn step_named(&mut self, now: Time, instance: InstanceId, input: OrderInput) {
        let at = index_of(instance);
        if at < self.groups.len() {
            self.step_in(at, now, input);
        }
    }

    /// All other members that are connected are to know these requests.
    fn say_to_all(&self, requests: &Bytes, out: &mut Effects) {
        for member in self.config.members.all() {
            if let Some(conn) = self.gate.peers().to(member.replica) {
                out.send(conn, OutFrame::new(FrameKind::Requests, &[], vec![requests.clone()]));
            }
        }
    }

    /// A client sends requests over its own connection.
    pub(crate) fn on_requests(
        &mut self,
        now: Time,
        (conn, client): (ConnId, ClientId),
        requests: &Bytes,
        out: &mut Effects,
    ) {
        match self.intake {
            Intake::Plain => self.go_to_leader(now, (conn, client), requests, out),
            Intake::Vouched(_) => self.hear(now, (conn, client), requests, out),
        }
    }

    /// Replicas only crash: the leader's word is enough.
    fn go_to_leader(
        &mut self,
        now: Time,
        (conn, client): (ConnId, ClientId),
        requests: &Bytes,
        out: &mut Effects,
    ) {
        let Some(at) = self.instance_for(conn, out) else {
            // Not taken, and the client is told where to go. A leader that hands over can not say where yet.
            let mut notice = self.leader_notice(conn);
            notice.leader = notice.leader.filter(|leader| *leader != self.config.members.me());
            return out.send(conn, notice.frame());
        };
        if let Err(text) = self.bind(conn, client, requests) {
            return self.reject(now, conn, text, out);
        }
        self.admit(now, at, Some(conn), requests, out);
    }

    /// Replicas may lie: this one keeps what the client asks of all.
    fn hear(&mut self, now: Time, (conn, client): (ConnId, ClientId), requests: &Bytes, out: &mut Effects) {
        self.guide.place_reader(conn, self.config.lanes, out);
        if let Err(text) = self.bind(conn, client, requests) {
            return self.reject(now, conn, text, out);
        }
        let limits = self.gate.rights(conn).cloned();
        let mode = self.engine.mode(conn);
        let (_, outs) = self.step_intake(now, |intake, facts, outs| {
            let Intake::Vouched(vouched) = intake else { return };
            let permits = |header: &RequestHeader, body: &[u8]| {
                limits.as_ref().is_none_or(|limits| permits(facts.engine.executor(), header, body, limits))
            };
            vouched.arrived(now, facts, &Sender { conn, client, mode, permits: &permits }, requests, outs);
        });
        self.do_intake(now, outs, out);
    }

    /// A member sends on what clients asked of it.
    pub(crate) fn on_sent_on(
        &mut self,
        now: Time,
        (conn, from): (ConnId, ReplicaId),
        frame: Frame,
        out: &mut Effects,
    ) {
        let requests = match ClientMessage::decode(frame) {
            Ok(ClientMessage::Requests(requests)) => requests,
            Ok(_) => return self.reject(now, conn, "a member sends requests of clients".into(), out),
            Err(why) => return self.reject(now, conn, why.to_string(), out),
        };
        let (taken, outs) = self
            .step_intake(now, |intake, facts, outs| intake.from_member(now, facts, from, &requests, outs));
        match taken {
            Ok(()) => self.do_intake(now, outs, out),
            Err(why) => self.reject(now, conn, why.into(), out),
        }
    }

    /// The protocol asks whether everything in a batch is from whom it says.
    pub(crate) fn on_examine(
        &mut self,
        at: usize,
        slot: Slot,
        digest: Digest,
        batch: Batch,
        out: &mut Effects,
    ) {
        let (now, of) = (self.now, (self.groups[at].id(), slot, digest));
        let (_, outs) =
            self.step_intake(now, |intake, facts, outs| intake.examine(now, facts, of, batch, outs));
        self.do_intake(now, outs, out);
    }

    /// The protocol says that the leader was given time enough for a request.
    pub(crate) fn on_overdue(&mut self, request: Digest, out: &mut Effects) {
        let (now, mut outs) = (self.now, Vec::new());
        self.intake.overdue(request, &mut outs);
        self.do_intake(now, outs, out);
    }

    /// At the end of a turn: what was given is checked, what is to be said leaves, and proposals are looked at again.
    pub(crate) fn end_intake(&mut self, now: Time, out: &mut Effects) {
        if matches!(self.intake, Intake::Plain) {
            return;
        }
        let (_, outs) = self.step_intake(now, |intake, facts, outs| intake.turn_end(now, facts, outs));
        self.do_intake(now, outs, out);
        let (_, outs) = self.step_intake(now, |intake, facts, outs| intake.vouch(now, facts, outs));
        if !outs.is_empty() {
            self.do_intake(now, outs, out);
            self.after_order(now, out);
        }
    }

    /// Looks at what waits for long, if it is time for that.
    pub(crate) fn look_at_late(&mut self, now: Time, out: &mut Effects) {
        if self.intake.deadline().is_none_or(|at| at > now) {
            return;
        }
        let (looked, outs) = self.step_intake(now, |intake, facts, outs| intake.look(now, facts, outs));
        if looked {
            self.do_intake(now, outs, out);
            self.after_order(now, out);
        }
    }

    /// A batch was executed: what it answered waits no more.
    pub(crate) fn heard_executed(&mut self) {
        if let Intake::Vouched(vouched) = &mut self.intake {
            for outcome in self.engine.outcomes() {
                vouched.executed(outcome.opening, outcome.session, outcome.number, outcome.status);
            }
        }
    }

    /// Execution goes on from a state that others reached.
    pub(crate) fn heard_caught_up(&mut self) {
        self.intake.caught_up(self.engine.executor());
    }

    /// An instance has another leader, or none; `rotated`: nothing failed in the view before.
    pub(crate) fn intake_led(&mut self, now: Time, at: usize, rotated: bool) {
        let (id, leader) = (self.groups[at].id(), self.groups[at].leader());
        self.step_intake(now, |intake, facts, _| intake.led(now, facts, id, leader, rotated));
    }

    /// Whether the member at the other end of a connection did what no honest one does, and was not silent about it for long since: the
    /// host gives it a small part of its time.
    pub fn suspects_lately(&self, now: Time, conn: ConnId) -> bool {
        self.member_at(conn).is_some_and(|member| self.intake.suspects_lately(now, member))
    }
}

/// Whether a client with these rights may run what is in a request.
fn permits(executor: &Executor, header: &RequestHeader, body: &[u8], limits: &Permissions) -> bool {
    match header.kind {
        RequestKind::Commands => may_run(executor, body, limits),
        RequestKind::Query => executor.uses_only(body, true, |used| limits.cover(used)),
        _ => true,
    }
}
