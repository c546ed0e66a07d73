//! Clients and operators: their frames go to admission, to the read path, or are answered at once.

use crate::effects::{Effect, Effects};
use crate::gate::Conn;
use crate::gate::Permissions;
use crate::gate::Place;
use crate::guide;
use crate::leading;
use crate::node::Node;
use crate::problems::Situation;
use crate::status::{LogStatus, MemberStatus, NodeStatus, PeerStatus, SeatsStatus, SuspectStatus};
use quorate_admit::{Executed, Suspect, Terms};
use quorate_execute::{Executor, Lookup};
use quorate_log::SyncMode;
use quorate_order::{Input as OrderInput, Status as OrderStatus};
use quorate_types::{ClientId, ConnId, Items, ReplicaId, Time};
use quorate_wire::{
    ClientMessage, Frame, FrameKind, MemberRequest, OutFrame, ReadRequest, ReadStatus, RequestKind, Requests,
    StateMessage, read_opening, write_position,
};
use std::net::IpAddr;

/// So many reads wait of clients that ask for much, while others wait.
const CONTENDED_READS: usize = 1024;

impl Node {
    pub(crate) fn on_client_frame(
        &mut self,
        now: Time,
        conn: ConnId,
        client: ClientId,
        frame: Frame,
        out: &mut Effects,
    ) {
        match ClientMessage::decode(frame) {
            Ok(ClientMessage::Requests(bytes)) => self.on_requests(now, (conn, client), &bytes, out),
            Ok(ClientMessage::Reads(bytes)) => {
                self.guide.place_reader(conn, self.config.lanes, out);
                for read in ReadRequest::walk(&bytes).flatten() {
                    self.on_read(now, conn, &read);
                }
            }
            Ok(ClientMessage::Keys(keys)) => self.intake.learn_keys(client, &keys),
            Ok(ClientMessage::AnswerMode(mode)) => match self.intake.takes_modes() {
                Ok(()) => self.engine.set_mode(conn, mode),
                Err(why) => self.reject(now, conn, why.into(), out),
            },
            Err(why) => self.reject(now, conn, why.to_string(), out),
        }
    }

    /// Gives requests to an instance that leads here. Answers that need no agreement go to this connection, if there is one.
    pub(crate) fn admit(
        &mut self,
        now: Time,
        at: usize,
        conn: Option<ConnId>,
        bytes: &[u8],
        out: &mut Effects,
    ) {
        let room = self.room();
        let standing = self.groups[at].standing();
        let in_flight = standing.in_flight_bytes;
        let (settled, answer_bytes_max) = (self.is_settled(at), self.turn.answer_room);
        let short = !self.journal.log().has_room();
        // The next segment is only being prepared.
        let room_soon = short && !self.journal.disk().is_full();
        let forbids = standing.settled;
        let terms = Terms { in_flight, room, room_soon, settled, forbids, answer_bytes_max };
        let executor = self.engine.executor();
        let limits = conn.and_then(|conn| self.gate.rights(conn));
        let permits = |body: &[u8]| limits.is_none_or(|limits| may_run(executor, body, limits));
        let mut answer = Vec::new();
        if conn.is_some() {
            answer = std::mem::take(&mut self.turn.answer);
        }
        self.groups[at].admission_mut().permitted_requests(
            bytes,
            terms,
            |session, number| match executor.lookup(session, number) {
                Lookup::UnknownSession => Executed::NoSession,
                Lookup::Ended => Executed::Ended,
                Lookup::Fresh => Executed::Not(executor.last_number(session).unwrap_or_default()),
                Lookup::Done { status, body } => Executed::Done(status, body),
                Lookup::Forgotten => Executed::Forgotten,
            },
            permits,
            |kind, body| executor.frees(kind, body),
            &mut answer,
        );
        if let Some(conn) = conn {
            self.turn.answer_room = self.turn.answer_room.saturating_sub(answer.len());
            if !answer.is_empty() {
                // Among them may be replies to what was executed earlier.
                write_position(&mut answer, self.engine.executor().seq());
                out.send(conn, OutFrame::new(FrameKind::Replies, &answer, vec![]));
                answer.clear();
            }
            self.turn.answer = answer;
        }
        if self.groups[at].admission().is_full() {
            self.propose(now, out);
        }
        if short && self.journal.disk().is_full() {
            self.lead(now, leading::In::Full, out);
        }
    }

    /// Whether everything that was decided before an instance led here is executed, so that what execution does not know does not exist.
    /// With several instances nobody knows: others may have decided what this replica did not execute yet.
    fn is_settled(&self, at: usize) -> bool {
        self.groups.len() == 1 && self.groups[at].standing().settled
    }

    /// Notes that replies to these requests go to this connection. A client speaks for its own sessions only.
    pub(crate) fn bind(&mut self, conn: ConnId, client: ClientId, bytes: &[u8]) -> Result<(), String> {
        for (header, body, _) in Requests::new(bytes).flatten() {
            self.intake.takes(&header)?;
            // What can not be bound is over a limit and is answered by nobody; its client asks again.
            if header.kind == RequestKind::OpenSession {
                let (opener, _) = read_opening(body);
                if opener != client {
                    return Err(format!("{client} opens a session for {opener}"));
                }
                self.engine.bind_opening(client, header.number, conn);
            } else {
                match self.engine.executor().client(header.session) {
                    Some(owner) if owner != client => {
                        return Err(format!("{client} uses {} of {owner}", header.session));
                    }
                    Some(_) => self.engine.bind(header.session, conn),
                    // It is over, or was opened by a batch that was not executed here yet: nobody knows whose it is.
                    None => {}
                }
            }
        }
        Ok(())
    }

    fn on_read(&mut self, now: Time, conn: ConnId, read: &ReadRequest<'_>) {
        if !self.keeping.sound() {
            // Another replica answers.
            return self.engine.refuse_read(conn, read.read, ReadStatus::NoLeader);
        }
        if let Some(limits) = self.gate.rights(conn)
            && !self.engine.executor().uses_only(read.query, true, |used| limits.cover(used))
        {
            return self.engine.refuse_read(conn, read.read, ReadStatus::Forbidden);
        }
        let owner = self.gate.peers().seats.number(conn);
        self.engine.read(now, (conn, owner), read);
    }

    pub(crate) fn on_admin_frame(&mut self, now: Time, conn: ConnId, frame: Frame, out: &mut Effects) {
        match frame.kind {
            FrameKind::StatusRequest => {
                out.push(Effect::Status { conn, status: Box::new(self.status()) });
            }
            FrameKind::TransferRequest => {
                let text = self.transfer(now, &frame.payload, out);
                let to = frame.payload.first_chunk::<2>().map_or(0, |id| u16::from_le_bytes(*id));
                self.audit(conn, format!("hand over leadership to replica {to} (0: any)"), text.clone(), out);
                out.send(conn, OutFrame::new(FrameKind::TransferReply, text.as_bytes(), vec![]));
            }
            FrameKind::MemberRequest => match MemberRequest::decode(frame.payload) {
                Ok(request) => {
                    let text = self.on_member_request(now, &request, out);
                    self.audit(conn, format!("{request:?}"), text.clone(), out);
                    out.send(conn, OutFrame::new(FrameKind::MemberReply, text.as_bytes(), vec![]));
                }
                Err(why) => self.reject(now, conn, why.to_string(), out),
            },
            FrameKind::UpgradeRequest => self.on_upgrade_request(now, conn, frame, out),
            FrameKind::InstancesRequest => self.on_instances_request(now, conn, frame, out),
            FrameKind::ScrubRequest => {
                let text = self.scrub(now, out);
                self.audit(conn, "scrub".into(), text.to_owned(), out);
                out.send(conn, OutFrame::new(FrameKind::ScrubReply, text.as_bytes(), vec![]));
            }
            FrameKind::State => {
                let asked = StateMessage::decode(frame.payload).map_err(|why| why.to_string());
                self.audit_state(conn, asked.as_ref().ok(), out);
                match asked {
                    Ok(message) => self.on_operator_asks(now, conn, message, out),
                    Err(text) => self.reject(now, conn, text, out),
                }
            }
            kind => self.reject(now, conn, format!("an operator sends {kind:?}"), out),
        }
    }

    /// Records what an operator asked for, and what came of it.
    pub(crate) fn audit(&self, conn: ConnId, what: String, outcome: String, out: &mut Effects) {
        let who = match self.gate.peers().identity(conn) {
            Some(identity) => identity.holder.to_string(),
            None => "an operator (connections are plain)".to_owned(),
        };
        out.push(Effect::Audit { conn, who, what, outcome });
    }

    /// A backup is recorded where it begins, not with each of its parts.
    fn audit_state(&self, conn: ConnId, asked: Option<&StateMessage>, out: &mut Effects) {
        let what = match asked {
            Some(StateMessage::WantBorder { seq, .. }) => {
                format!("ask for a checkpoint newer than seq {seq}")
            }
            Some(StateMessage::FetchManifest { seq, offset: 0, .. }) => {
                format!("fetch the checkpoint of seq {seq}")
            }
            _ => return,
        };
        self.audit(conn, what, "begun".into(), out);
    }

    fn transfer(&mut self, now: Time, payload: &[u8], out: &mut Effects) -> String {
        let Some(id) = payload.first_chunk::<2>().map(|id| u16::from_le_bytes(*id)) else {
            return "error: name the replica to hand over to, or 0 for the most advanced one".into();
        };
        let to = Some(id).filter(|id| *id != 0).map(ReplicaId::new);
        if let Some(to) = to.filter(|to| self.config.members.get(*to).is_none()) {
            return format!("error: {to} is no member of this cluster");
        }
        if let Some(to) = to.filter(|to| !self.first().status().membership.is_voter(*to)) {
            return format!("error: {to} is a learner, and leads only once it was promoted");
        }
        if !self.leading() {
            return match self.first().leader() {
                Some(leader) => format!("error: {leader} leads, ask it"),
                None => "error: nobody leads now, try again".into(),
            };
        }
        self.step_led(now, &OrderInput::Transfer(to));
        self.after_order(now, out);
        "begun".into()
    }

    /// Whether to let somebody in who comes from there. Whoever is not costs least when the host closes the connection at once.
    pub fn lets_in(&mut self, from: Option<IpAddr>) -> bool {
        self.gate.lets_in(from)
    }

    /// What a connection is, as far as the host has to know.
    pub fn place(&self, conn: ConnId) -> Place {
        self.gate.peers().place(conn)
    }

    /// The member at the other end of a connection, if it is one.
    pub fn member_at(&self, conn: ConnId) -> Option<ReplicaId> {
        match self.gate.peers().conn(conn)? {
            Conn::Dialed { replica, .. } | Conn::To(replica, _) | Conn::From(replica, _) => Some(replica),
            Conn::Stranger { .. } | Conn::Better(_) | Conn::Client(_) | Conn::Admin => None,
        }
    }

    /// Whether there is room for more of clients that send much. `contended`: others, who send little, wait behind what is taken of
    /// them, so that has to be little, too.
    pub fn takes_more(&self, contended: bool) -> bool {
        let config = &self.config;
        let pending = self.queue_bytes();
        let in_flight = config.bytes_in_flight_max.saturating_mul(guide::led_count(&self.groups).max(1));
        let (waiting, bytes) = self.engine.waiting_reads();
        let (requests, reads) = if contended {
            (in_flight / 64, CONTENDED_READS)
        } else {
            (in_flight.saturating_mul(2), config.reads.reads_max / 2)
        };
        pending < requests.min(config.admission.queue_bytes_max)
            && !(contended && self.engine.has_put_off())
            && waiting < reads
            && bytes < config.reads.bytes_max / 2
    }

    /// Whether this replica leads an instance that takes part, and may propose there.
    fn leading(&self) -> bool {
        self.groups.iter().any(|instance| instance.stay().is_present() && instance.standing().leading)
    }

    /// Where this replica stands.
    pub fn status(&self) -> NodeStatus {
        let order = self.first().status();
        let peers: Vec<PeerStatus> = self
            .gate
            .peers()
            .peers()
            .map(|(replica, address, connected, refusal)| PeerStatus {
                replica: replica.number(),
                address: address.to_owned(),
                connected,
                links: self.gate.peers().standing(replica),
                refusal: refusal.map(str::to_owned),
            })
            .collect();
        let seats = self.gate.peers().seats_status();
        NodeStatus {
            replica: self.config.members.me().number(),
            cluster: self.config.members.cluster().to_string(),
            view: order.view.number(),
            leader: order.leader.map(ReplicaId::number),
            leading: self.leading(),
            decided: order.decided.number(),
            executed: self.engine.executor().seq().number(),
            agreed_time_ns: self.engine.executor().time().nanos(),
            sessions: self.engine.executor().session_count(),
            connections: self.gate.peers().others(),
            seats: seats.clone(),
            queue_bytes: self.queue_bytes().max(self.intake.byte_len()),
            instances: self.instances_status(),
            log: LogStatus {
                durability: match self.config.log.sync {
                    SyncMode::Group => "group",
                    SyncMode::Async => "async",
                    SyncMode::Memory => "memory",
                },
                sync_delay_us: self.config.sync_delay.nanos() / 1000,
                write_us: self.journal.disk().write_time().nanos() / 1000,
                durable: self.journal.log().durable().number(),
                appended: self.journal.log().appended().number(),
                position: self.journal.log().position(),
                disk_full: self.journal.disk().is_full(),
                full: self.leading.full_disks(&self.look()),
                scrubbing: self.keeping.scrubbing(),
                rotten: self.keeping.rotten_segment(),
            },
            members: order
                .members
                .iter()
                .map(|(replica, lag_bytes, active)| MemberStatus {
                    replica: replica.number(),
                    lag_bytes: *lag_bytes,
                    active: *active,
                })
                .collect(),
            membership: self.membership_status(),
            level: self.level_status(),
            checkpoints: self.keeping.status(self.now),
            requests: self.engine.counts().requests,
            batches: self.engine.counts().batches,
            reads: self.engine.counts().reads,
            lease: order.lease,
            rejected: self.gate.rejected(),
            problems: self.problems(&peers, &order, &seats),
            suspects: self.suspects(),
            signatures_checked: self.intake.signatures_checked(),
            held_back: self.intake.held_back(),
            peers,
        }
    }

    fn suspects(&self) -> Vec<SuspectStatus> {
        let suspect =
            |Suspect { replica, times, what }| SuspectStatus { replica: replica.number(), times, what };
        self.intake.suspects().into_iter().map(suspect).collect()
    }

    fn problems(&self, peers: &[PeerStatus], order: &OrderStatus, seats: &SeatsStatus) -> Vec<String> {
        let (sessions, limits) =
            (self.engine.executor().sessions(), self.engine.executor().sessions().limits());
        let checkpoints = self.keeping.status(self.now);
        let (queue, suspects) = (self.queue_bytes(), self.suspects());
        let situation = Situation {
            unknown: self.unknown_members(),
            order,
            leading: self.leads(),
            disk_full: self.journal.disk().is_full(),
            rotten: self.keeping.rotten_segment(),
            without_room: self.leading.without_room(&self.look()),
            stalled: self.journal.disk().is_stalled(),
            write_time: self.journal.disk().write_time(),
            removed: self.is_removed(),
            transfer: checkpoints.transfer.as_ref(),
            seats,
            sessions: (sessions.len(), limits.sessions_max as usize),
            queue: (queue, self.config.admission.queue_bytes_max),
            kept: (sessions.kept_bytes(), limits.reply_bytes_total_max),
            peers,
            suspects: &suspects,
        };
        situation.problems(|problems| self.keeping.problems(problems))
    }
}

/// Whether all commands of a request are covered. What is no list of commands is answered by execution.
pub(crate) fn may_run(executor: &Executor, body: &[u8], limits: &Permissions) -> bool {
    let Ok(commands) = Items::parse(body) else { return true };
    commands.iter().all(|command| executor.uses_only(command, false, |used| limits.cover(used)))
}
