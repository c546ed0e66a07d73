//! The client's state machine: connections, and who leads. Sessions are in `sessions.rs`, reads in `reads.rs`.
//!
//! All members are connected at all times, so that the news of a new leader arrives by itself. Requests go to the leader
//! only: the one named in the highest view that was heard of. (Where replicas may lie they go to all: `spread.rs`.) Whenever the connection or the view that they go by changes,
//! everything unanswered is sent again, in order. That is harmless, since the cluster runs a number of a session once.
//!
//! INV-CLIENT-1: every call completes exactly once.
//! INV-CLIENT-4: bytes queued are what the calls and reads that wait cost, and stay under the limit.
//! INV-CLIENT-7: at most one connection per member, and no connection number is used twice.
//! INV-CLIENT-8: after a flush, the next deadline is later than now: the client never spins.
//! Tests: tests/core.rs (one situation each), tests/cluster.rs (random faults against a model of a cluster).

use crate::back_off::back_off;
use crate::config::Config;
use crate::effects::{Effect, Effects, Input};
use crate::first::First;
use crate::link::{Link, LinkState};
use crate::reads::Reads;
use crate::repliers::Repliers;
use crate::session::{NEVER, Session};
use crate::sessions::Sessions;
use crate::tagging::Tagging;
use crate::unordered::Unordered;
use crate::votes::Held;
use bytes::Bytes;
use quorate_types::{ClusterId, ConnId, MembershipId, Random, ReplicaId, Span, Time, View, planted};
use quorate_wire::{
    FORMAT_MAX, FORMAT_MIN, Frame, FrameKind, Hello, LeaderNotice, Memberships, Refusal, RefusalReason,
    ReplicaMessage, Role, Welcome,
};

/// No more members than this; the links of a read are kept as bits.
pub(crate) const MEMBERS_MAX: usize = 64;
/// Timers fire no closer together than this, so that a thousand of them cost one look.
pub(crate) const GRAIN: Span = Span::from_nanos(500_000);
/// After so many suspicions in a row, what was heard of views is forgotten and everything is sent again.
const DOUBTS_MAX: u32 = 4;

/// What replicas sent that was of no use; for status and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Replies that fit nothing that waits: late ones, doubled ones, and nonsense.
    pub replies_ignored: u64,
    /// Frames that did not decode or were not allowed; each costs its connection.
    pub frames_bad: u64,
    /// How often unanswered requests were sent again, all of them.
    pub resends: u64,
    /// Answers that differ from what the same member said of the same request before: it lies.
    pub contradictions: u64,
    /// Reads that a quorum answered alike, without being ordered.
    pub reads_unordered: u64,
    /// Reads that no quorum answered alike, or not in time, and that were ordered then.
    pub reads_asked_again: u64,
}

/// Who leads, as far as was heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) view: View,
    pub(crate) leader: Option<usize>,
}

/// The client, without I/O.
///
/// The host hands in what happened with [`ClientCore::step`], any number of inputs; then calls [`ClientCore::flush`]
/// once, so that what was asked in one turn travels in one frame; then does the effects and asks for the next deadline.
#[derive(Debug)]
pub struct ClientCore {
    pub(crate) config: Config,
    pub(crate) random: Random,
    pub(crate) links: Vec<Link>,
    next_conn: ConnId,
    cluster: Option<ClusterId>,
    pub(crate) known: Known,
    /// The connection and view that requests were last sent in; when it changes, all is sent again.
    pub(crate) sending_on: Option<(ConnId, View)>,
    /// The leader said that it is none: nothing is sent to it before.
    target_hold: Option<Time>,
    target_holds: u32,
    /// When to doubt the leader, while requests are unanswered.
    pub(crate) suspect_at: Option<Time>,
    doubts: u32,
    probe_at: Option<Time>,
    probe_attempt: u32,
    pub(crate) probe_nonce: u64,
    announced: Option<ReplicaId>,
    /// The last membership that was heard of, and whether the change to it was over.
    membership: (MembershipId, bool),
    pub(crate) sessions: Sessions,
    pub(crate) reads: Reads,
    /// So many equal answers are true, where one is not enough.
    pub(crate) needed: u32,
    pub(crate) held: Held,
    pub(crate) repliers: Repliers,
    pub(crate) unordered: Unordered,
    /// The place of the session in which reads are ordered.
    pub(crate) query_session: Option<u32>,
    pub(crate) queued_bytes: usize,
    /// Whether requests go to the leader first.
    pub(crate) first: First,
    /// What makes the tags under requests.
    pub(crate) tagging: Option<Tagging>,
    pub(crate) stats: Stats,
    pub(crate) stopped: bool,
}

impl ClientCore {
    /// A client of these members.
    ///
    /// # Panics
    /// When there is no member, one twice, or more than 64.
    pub fn new(config: Config, members: &[ReplicaId]) -> Self {
        assert!((1..=MEMBERS_MAX).contains(&members.len()), "a cluster has 1 to {MEMBERS_MAX} members");
        let mut sorted = members.to_vec();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|pair| pair[0] != pair[1]), "a member is named once");
        let mut random = Random::new(config.seed);
        let probe_nonce = random.next();
        let trust = config.faults.among(members.len() as u32);
        Self {
            cluster: config.cluster,
            random,
            links: members.iter().map(|replica| Link::new(*replica)).collect(),
            next_conn: ConnId::FIRST,
            known: Known::default(),
            sending_on: None,
            target_hold: None,
            target_holds: 0,
            suspect_at: None,
            doubts: 0,
            probe_at: None,
            probe_attempt: 0,
            probe_nonce,
            announced: None,
            membership: (MembershipId::FIRST, true),
            sessions: Sessions::default(),
            reads: Reads::default(),
            needed: if planted("reply-of-one") { 1 } else { trust.truth() },
            held: Held::new(members.len(), config.queue_bytes_max),
            repliers: Repliers::default(),
            unordered: Unordered::new(trust, members.len(), config.queue_bytes_max),
            query_session: None,
            queued_bytes: 0,
            first: First::default(),
            tagging: Tagging::of(&config, &sorted),
            stats: Stats::default(),
            stopped: false,
            config,
        }
    }

    /// Reacts to one input.
    pub fn step(&mut self, now: Time, input: Input, out: &mut Effects) {
        match input {
            Input::Open { call, deadline } => self.open(now, call, deadline, out),
            Input::Call { call, session, commands, deadline } => {
                self.call(now, call, session, commands, deadline, out);
            }
            Input::Close { call, session, deadline } => self.close(now, call, session, deadline, out),
            Input::Read { call, reader, consistency, after, replica, query, deadline } => {
                self.read(now, call, reader, consistency, after, replica, query, deadline, out);
            }
            Input::ForgetReader(reader) => self.reads.forget(reader),
            Input::EndReads => self.end_reads(now, out),
            Input::Connected(conn) => self.connected(now, conn, out),
            Input::Closed { conn, why } => {
                if let Some(link) = self.link_of(conn) {
                    self.lost(now, link, why, out);
                }
            }
            Input::Frame { conn, frame } => self.frame(now, conn, frame, out),
            Input::Written { conn, bytes } => {
                if let Some(link) = self.link_of(conn) {
                    let link = &mut self.links[link];
                    link.out_bytes = link.out_bytes.saturating_sub(bytes);
                }
            }
            Input::Deadline => self.deadline_passed(now, out),
            Input::Stop => self.stop(out),
        }
    }

    /// Sends what the inputs since the last flush made ready.
    pub fn flush(&mut self, now: Time, out: &mut Effects) {
        if self.stopped {
            return;
        }
        self.flush_reads(out);
        if self.may_lie() {
            self.announce_leader(out);
            self.appoint(now, out);
            return self.flush_to_all(now, out);
        }
        self.follow_leader(now, out);
        if let Some(link) = self.target() {
            self.flush_requests(now, link, out);
        }
    }

    /// When to call again with [`Input::Deadline`], if nothing arrives first. To be asked after a flush.
    pub fn deadline(&self) -> Option<Time> {
        if self.stopped {
            return None;
        }
        let links = self.links.iter().filter_map(Link::due);
        let own = [self.target_hold, self.suspect_at, self.probe_at].into_iter().flatten();
        links
            .chain(own)
            .chain(self.repliers.due())
            .chain([self.sessions.due, self.reads.due])
            .min()
            .filter(|due| *due != NEVER)
    }

    /// The members that it knows.
    pub fn known(&self) -> impl Iterator<Item = ReplicaId> {
        self.links.iter().filter(|link| !link.left).map(|link| link.replica)
    }

    /// Who leads, as far as was heard.
    pub fn leader(&self) -> Option<ReplicaId> {
        self.known.leader.map(|link| self.links[link].replica)
    }

    /// What replicas sent that was of no use.
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// How many calls and reads wait for their completion, and the bytes they count.
    pub fn waiting(&self) -> (usize, usize) {
        let (bytes, calls) = self.sessions.check(self.config.window);
        let (read_bytes, reads) = self.reads.check();
        assert!(bytes + read_bytes == self.queued_bytes, "INV-CLIENT-4: queued bytes are what is queued");
        (calls + reads, bytes + read_bytes)
    }

    /// Panics with the name of an invariant that does not hold.
    pub fn invariants(&self) {
        self.waiting();
        let mut conns: Vec<ConnId> = self.links.iter().filter_map(Link::conn).collect();
        conns.sort_unstable();
        assert!(
            conns.windows(2).all(|pair| pair[0] != pair[1])
                && conns.last().is_none_or(|conn| *conn < self.next_conn),
            "INV-CLIENT-7: every connection has a number of its own"
        );
        let held: usize = self.sessions.live().map(Session::held).sum();
        assert!(
            held == self.held.total() && self.reads.held() == self.unordered.held().total(),
            "INV-CLIENT-10: what is kept of answers is counted"
        );
    }

    pub(crate) fn link_of(&self, conn: ConnId) -> Option<usize> {
        self.links.iter().position(|link| link.conn() == Some(conn))
    }

    fn stop(&mut self, out: &mut Effects) {
        if self.stopped {
            return;
        }
        self.stopped = true;
        self.queued_bytes -= self.sessions.stop(&mut self.held, out);
        self.queued_bytes -= self.reads.stop(out);
        self.unordered.release_all();
        for link in &mut self.links {
            if let Some(conn) = link.conn() {
                out.push(Effect::Close(conn));
            }
            link.state = LinkState::Down { retry_at: NEVER };
        }
    }

    // Connections.

    fn dial(&mut self, now: Time, link: usize, out: &mut Effects) {
        let conn = self.next_conn;
        self.next_conn = conn.next();
        let link = &mut self.links[link];
        link.state = LinkState::Dialing { conn, give_up: now.plus(self.config.dial_timeout) };
        out.push(Effect::Dial { conn, replica: link.replica });
    }

    fn connected(&mut self, now: Time, conn: ConnId, out: &mut Effects) {
        let Some(link) = self.link_of(conn) else { return };
        if !matches!(self.links[link].state, LinkState::Dialing { .. }) {
            return;
        }
        let link = &mut self.links[link];
        link.state = LinkState::Greeting { conn, give_up: now.plus(self.config.dial_timeout) };
        let role = Role::Client(self.config.client);
        let hello = Hello::new(self.cluster.unwrap_or_default(), Some(link.replica), role);
        let frame = hello.made_of(self.config.own).frame();
        link.out_bytes += frame.len();
        out.push(Effect::Send { conn, frame });
    }

    /// We end this connection.
    pub(crate) fn drop_link(&mut self, now: Time, link: usize, why: String, out: &mut Effects) {
        if let Some(conn) = self.links[link].conn() {
            out.push(Effect::Close(conn));
        }
        self.lost(now, link, why, out);
    }

    fn lost(&mut self, now: Time, index: usize, why: String, out: &mut Effects) {
        let link = &mut self.links[index];
        let was_up = link.up().is_some();
        link.lost(now, &self.config, &mut self.random);
        out.push(Effect::Problem { replica: link.replica, text: why.clone() });
        link.problem = Some(why);
        if was_up {
            self.repliers.changed();
            self.reads_lost(now, index);
            self.first_lost(index);
        }
    }

    fn frame(&mut self, now: Time, conn: ConnId, frame: Frame, out: &mut Effects) {
        let Some(link) = self.link_of(conn) else { return };
        match self.links[link].state {
            LinkState::Greeting { .. } => self.greeted(now, link, conn, frame, out),
            LinkState::Up { .. } if frame.kind == FrameKind::Refusal => {
                let why =
                    Refusal::decode(frame.payload).map_or_else(|why| why.to_string(), |refusal| refusal.text);
                self.drop_link(now, link, format!("ended the connection: {why}"), out);
            }
            LinkState::Up { .. } => match ReplicaMessage::decode(frame) {
                Ok(message) => self.message(now, link, message, out),
                Err(why) => {
                    self.stats.frames_bad += 1;
                    self.drop_link(now, link, format!("sent a bad frame: {why}"), out);
                }
            },
            LinkState::Down { .. } | LinkState::Dialing { .. } => {}
        }
    }

    fn greeted(&mut self, now: Time, link: usize, conn: ConnId, frame: Frame, out: &mut Effects) {
        match frame.kind {
            FrameKind::Welcome => match self.check_welcome(link, frame.payload) {
                Ok(welcome) => self.welcomed(now, link, conn, &welcome, out),
                Err(why) => self.drop_link(now, link, why, out),
            },
            FrameKind::Refusal => match Refusal::decode(frame.payload) {
                Ok(refusal) => self.refused(now, link, refusal, out),
                Err(why) => self.drop_link(now, link, format!("sent a bad refusal: {why}"), out),
            },
            _ => {
                self.stats.frames_bad += 1;
                self.drop_link(now, link, "did not answer the greeting".to_owned(), out);
            }
        }
    }

    fn check_welcome(&mut self, link: usize, payload: Bytes) -> Result<Welcome, String> {
        let welcome = Welcome::decode(payload).map_err(|why| format!("sent a bad welcome: {why}"))?;
        let link = &self.links[link];
        if welcome.replica != link.replica {
            return Err(format!("{} answers at this address; check the list of members", welcome.replica));
        }
        if !(FORMAT_MIN..=FORMAT_MAX).contains(&welcome.format) {
            return Err(format!(
                "speaks format {}, this program {FORMAT_MIN} to {FORMAT_MAX}",
                welcome.format
            ));
        }
        match self.cluster {
            Some(ours) if ours != welcome.cluster => {
                Err(format!("belongs to cluster {}, not {ours}; check the list of members", welcome.cluster))
            }
            _ => Ok(welcome),
        }
    }

    fn welcomed(&mut self, now: Time, index: usize, conn: ConnId, welcome: &Welcome, out: &mut Effects) {
        if !self.may_lie() {
            self.cluster = Some(welcome.cluster);
        }
        let link = &mut self.links[index];
        link.state = LinkState::Up { conn, since: now };
        link.heard = now;
        link.slow_until = Time::ZERO;
        link.problem = None;
        link.refused = false;
        if self.may_lie() {
            self.joined(index);
            self.send_keys(index, out);
            self.repliers.changed();
        }
        self.heard_of_leader(now, index, welcome.view, welcome.leader);
        self.reads.hurry(now);
    }

    fn refused(&mut self, now: Time, index: usize, refusal: Refusal, out: &mut Effects) {
        // Whoever is paused, or has a slow link, may say hello too late.
        let passing = matches!(refusal.reason, RefusalReason::TooMany | RefusalReason::NoHello);
        let replica = self.links[index].replica;
        self.links[index].refused = !passing;
        self.drop_link(now, index, format!("refused the connection: {}", refusal.text), out);
        if self.all_refuse() {
            self.fail_unsent(replica, &refusal.text, out);
        }
    }

    // Who leads.

    fn message(&mut self, now: Time, link: usize, message: ReplicaMessage, out: &mut Effects) {
        self.links[link].heard = now;
        match message {
            ReplicaMessage::Replies(payload) => self.replies(now, link, &payload, out),
            ReplicaMessage::ReadReplies(payload) => self.read_replies(now, link, &payload, out),
            // One member's word, which could send us to replicas of its own.
            ReplicaMessage::Members(_) if self.may_lie() => {}
            ReplicaMessage::Members(members) => self.members(now, &members, out),
            ReplicaMessage::Leader(LeaderNotice { view, leader }) => {
                self.heard_of_leader(now, link, view, leader);
            }
        }
    }

    /// The cluster has other members: whoever joined is dialed, whoever left is not any more.
    fn members(&mut self, now: Time, memberships: &Memberships, out: &mut Effects) {
        let news = (memberships.now().number(), memberships.before().is_none());
        if news <= self.membership {
            return;
        }
        self.membership = news;
        let members = memberships.replicas();
        for index in 0..self.links.len() {
            if members.contains(&self.links[index].replica) || self.links[index].left {
                continue;
            }
            if self.links[index].conn().is_some() {
                self.drop_link(now, index, "left the cluster".to_owned(), out);
            }
            let link = &mut self.links[index];
            (link.state, link.left, link.refused) = (LinkState::Down { retry_at: NEVER }, true, true);
            if self.known.leader == Some(index) {
                self.known.leader = None;
            }
            self.reads_left(index, out);
        }
        for replica in members {
            let Some(member) = memberships.get(replica) else { continue };
            out.push(Effect::Address { replica, address: member.address.clone() });
            if self.links.iter().any(|link| link.replica == replica && !link.left) {
                continue;
            }
            let free =
                self.links.iter().position(|link| link.left).filter(|_| self.links.len() == MEMBERS_MAX);
            match free {
                Some(index) => self.links[index] = Link::new(replica),
                None if self.links.len() < MEMBERS_MAX => self.links.push(Link::new(replica)),
                None => {}
            }
        }
    }

    /// `from` says who leads. A higher view wins. That nobody leads counts only from the one that we took for the leader:
    /// a replica that is cut off must not keep us from a leader that works.
    pub(crate) fn heard_of_leader(&mut self, now: Time, from: usize, view: View, leader: Option<ReplicaId>) {
        if self.may_lie() {
            return self.noticed(now, from, view, leader);
        }
        let leader =
            leader.and_then(|id| self.links.iter().position(|link| link.replica == id && !link.left));
        let ours = self.known.leader == Some(from);
        if ours && leader == Some(from) && self.sending_on.is_some_and(|(_, since)| view > since) {
            // It says itself that it leads anew: what it took before may be lost. What others say of it is about other clients, too.
            self.sending_on = None;
        }
        let newer = view > self.known.view || (view == self.known.view && self.known.leader.is_none());
        if newer && (leader.is_some() || ours) {
            self.known = Known { view, leader };
        } else if ours && leader != Some(from) && view == self.known.view {
            // It knows best that it does not lead; what we sent was not taken.
            self.known.leader = leader;
        } else if ours && leader != Some(from) && self.target_hold.is_none() {
            // Others say that it leads, and it has not learned so yet: what we sent was not taken.
            let (min, max) = (self.config.retry_min, self.config.suspect_after);
            if min.times(1 << self.target_holds.min(20)) > max.times(2) {
                // It never will: all replicas stopped since, and none remembers a view in which nobody had voted.
                self.target_holds = 0;
                self.known = Known { view, leader };
                return;
            }
            let wait = back_off(&mut self.random, self.target_holds, min, max);
            self.target_holds = self.target_holds.saturating_add(1);
            self.target_hold = Some(now.plus(wait));
            self.sending_on = None;
        }
    }

    /// Something of ours was answered: whom we follow does lead.
    pub(crate) fn progress(&mut self, now: Time) {
        self.doubts = 0;
        self.target_holds = 0;
        if self.suspect_at.is_some() {
            self.suspect_at = Some(now.plus(self.config.suspect_after));
        }
    }

    /// The leader's link, if requests may go there now.
    fn target(&self) -> Option<usize> {
        self.known.leader.filter(|link| self.target_hold.is_none() && self.links[*link].up().is_some())
    }

    /// Turns to the present leader: on a new connection, or where it leads anew, everything unanswered is sent again.
    fn follow_leader(&mut self, now: Time, out: &mut Effects) {
        let target = self.target();
        let on = target.and_then(|link| self.links[link].up());
        if on != self.sending_on.map(|(conn, _)| conn) {
            self.sending_on = on.map(|conn| (conn, self.known.view));
            self.stats.resends += u64::from(on.is_some());
            self.suspect_at = None;
            self.sessions.rewind_all();
        }
        self.announce_leader(out);
        if on.is_some() {
            self.probe_at = None;
            self.probe_attempt = 0;
        } else if self.probe_at.is_none() && self.target_hold.is_none() && self.sessions.any_waits() {
            self.arm_probe(now);
        }
    }

    fn announce_leader(&mut self, out: &mut Effects) {
        if self.announced != self.leader() {
            self.announced = self.leader();
            out.push(Effect::Leader(self.announced));
        }
    }

    fn arm_probe(&mut self, now: Time) {
        let config = &self.config;
        let wait =
            back_off(&mut self.random, self.probe_attempt, config.dial_back_off_min, config.suspect_after);
        self.probe_attempt = self.probe_attempt.saturating_add(1);
        self.probe_at = Some(now.plus(wait));
    }

    // Time.

    fn deadline_passed(&mut self, now: Time, out: &mut Effects) {
        if self.stopped {
            return;
        }
        for link in 0..self.links.len() {
            self.link_due(now, link, out);
        }
        if self.target_hold.is_some_and(|at| at <= now) {
            self.target_hold = None;
        }
        if self.probe_at.is_some_and(|at| at <= now) {
            self.probe_at = None;
            if self.sessions.any_waits() {
                self.probe(None, out);
                self.arm_probe(now);
            }
        }
        if self.suspect_at.is_some_and(|at| at <= now) {
            self.suspect(now, out);
        }
        self.repliers_due(now);
        if self.sessions.due <= now {
            self.sessions_due(now, out);
        }
        if self.reads.due <= now {
            self.reads_due(now, out);
        }
    }

    fn link_due(&mut self, now: Time, link: usize, out: &mut Effects) {
        if self.links[link].due().is_none_or(|due| due > now) {
            return;
        }
        match self.links[link].state {
            LinkState::Down { .. } => self.dial(now, link, out),
            LinkState::Dialing { .. } => self.drop_link(now, link, "no connection in time".to_owned(), out),
            LinkState::Greeting { .. } => self.drop_link(now, link, "no welcome in time".to_owned(), out),
            LinkState::Up { .. } => {}
        }
    }

    /// The leader is silent: ask the others who leads. If that does not help for long, forget what was heard of views and
    /// send everything again.
    fn suspect(&mut self, now: Time, out: &mut Effects) {
        if !self.sessions.any_in_flight() {
            self.suspect_at = None;
            return;
        }
        self.suspect_at = Some(now.plus(self.config.suspect_after));
        self.probe(self.known.leader, out);
        self.doubts += 1;
        if self.doubts >= DOUBTS_MAX {
            self.doubts = 0;
            self.known.view = View::ZERO;
            self.sending_on = None;
        }
    }

    /// What stands in the way of requests, for people.
    pub(crate) fn detail(&self) -> String {
        let mut text = match self.known.leader {
            _ if self.may_lie() => self.detail_of_all(),
            Some(link) if self.links[link].up().is_some() => {
                format!("{} leads and did not answer", self.links[link].replica)
            }
            Some(link) => format!("{} leads and is not connected", self.links[link].replica),
            None => "no leader is known".to_owned(),
        };
        for link in &self.links {
            if let Some(problem) = &link.problem {
                text.push_str(&format!("; {}: {problem}", link.replica));
            }
        }
        text
    }
}
