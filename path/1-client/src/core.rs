//! The client's state machine. Each input goes to the part that it concerns, and to the reach.
//!
//! All members are connected all the time, so that news of a new leader arrives by itself. The client has four parts: connections
//! (`contacts.rs`), sessions (`sessions/`), reads (`reads.rs`), and the reach (`reach/`), which decides where requests go and when an
//! answer counts.
//!
//! INV-CLIENT-1: every call completes exactly once.
//! INV-CLIENT-4: the queued bytes are the cost of the calls and reads that wait, and stay under the limit.
//! INV-CLIENT-8: after a flush, the next deadline is later than now: the client never spins.
//! Tests: tests/core.rs (one situation each), tests/cluster.rs (random faults against a model of a cluster).

use crate::config::Config;
use crate::contact::ContactState;
use crate::contacts::{Contacts, MEMBERS_MAX};
use crate::effects::{Effect, Effects, Input};
use crate::encode::READ_HEADER;
use crate::era::Eras;
use crate::error::Error;
use crate::letters::Letters;
use crate::parts::Parts;
use crate::reach::Reach;
use crate::reach::all::{ToAll, meet};
use crate::reach::leader::ToLeader;
use crate::reads::{Question, Reads};
use crate::sessions::{Rules, Sessions, cost};
use crate::step::{NEVER, Step};
use crate::votes::KeptAnswers;
use quorate_types::{ConnId, Random, ReplicaId, Seq, ServiceName, Time};
use quorate_wire::{
    Era, EraNotice, Frame, FrameKind, LeaderNotice, LetterFrame, ReadReply, Refusal, RefusalReason,
    ReplicaMessage, Reply, Welcome,
};

/// What replicas sent that was useless, and how reads went; for status and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Replies that fit nothing that waits: late ones, duplicates, and nonsense.
    pub replies_ignored: u64,
    /// Letters that were known already, were not wanted, or for which there was no room.
    pub letters_ignored: u64,
    /// Frames that could not be decoded or were not allowed; each ends its connection.
    pub frames_bad: u64,
    /// How often all unanswered requests of a session were sent again.
    pub resends: u64,
    /// Answers that contradict what the same member said of the same request before, which shows that it lies.
    pub contradictions: u64,
    /// Reads that a quorum answered alike, without being ordered.
    pub reads_unordered: u64,
    /// Reads that were ordered because no quorum answered alike in time.
    pub reads_asked_again: u64,
}

/// The client, without I/O.
///
/// The host passes what happened to [`ClientCore::step`], any number of inputs. Then it calls [`ClientCore::flush`] once, so that
/// everything asked in one turn travels in one frame. Then it does the effects and asks for the next deadline.
#[derive(Debug)]
pub struct ClientCore {
    config: Config,
    random: Random,
    parts: Parts,
    reach: Box<dyn Reach>,
    /// The leader that was announced last.
    announced: Option<ReplicaId>,
    stopped: bool,
    /// The nonce of the requests that ask who leads.
    probe_nonce: u64,
    eras: Eras,
}

/// How replicas are reached and believed, with the rules for all requests.
fn reach_of(
    config: &Config,
    members: &[ReplicaId],
    contacts: usize,
    probe_nonce: u64,
) -> (Box<dyn Reach>, Rules) {
    if config.faults.may_lie() {
        let reach = ToAll::new(config, members, contacts);
        let rules = reach.rules();
        return (Box::new(reach), rules);
    }
    (Box::new(ToLeader::new(probe_nonce)), ToLeader::rules())
}

impl ClientCore {
    /// A client of these members.
    ///
    /// # Panics
    /// When there is no member, an id twice, or more than 64 members.
    pub fn new(config: Config, members: &[ReplicaId]) -> Self {
        assert!((1..=MEMBERS_MAX).contains(&members.len()), "a cluster has 1 to {MEMBERS_MAX} members");
        let mut sorted = members.to_vec();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|pair| pair[0] != pair[1]), "a member is named once");
        let mut random = Random::new(config.seed);
        let probe_nonce = random.next();
        let (reach, rules) = reach_of(&config, &sorted, sorted.len(), probe_nonce);
        let (count, held_max) = (members.len(), config.queue_bytes_max);
        let parts = Parts {
            contacts: Contacts::new(members, config.cluster),
            sessions: Sessions::new(rules, probe_nonce, KeptAnswers::new(count, held_max)),
            reads: Reads::new(count, held_max),
            letters: Letters::new(rules.needed, config.letters),
            stats: Stats::default(),
        };
        let eras = Eras::default();
        Self { random, parts, reach, announced: None, stopped: false, config, probe_nonce, eras }
    }

    /// Splits the client into what a step needs.
    fn apart<'a>(
        &'a mut self,
        now: Time,
        out: &'a mut Effects,
    ) -> (Step<'a>, &'a mut Parts, &'a mut dyn Reach) {
        let step = Step { now, config: &self.config, random: &mut self.random, out };
        (step, &mut self.parts, &mut *self.reach)
    }

    /// Reacts to one input.
    pub fn step(&mut self, now: Time, input: Input, out: &mut Effects) {
        let stopped = self.stopped;
        let (mut step, parts, _) = self.apart(now, out);
        let step = &mut step;
        match input {
            Input::Open { call, .. } | Input::Call { call, .. } | Input::Read { call, .. } if stopped => {
                step.out.complete(Some(call), Err(Error::Stopped { outcome_unknown: false }));
            }
            Input::Open { call, deadline } => parts.sessions.open(step, call, deadline),
            Input::Call { call, session, commands, deadline } => {
                let others = parts.reads.queued();
                parts.sessions.call(step, call, session, commands, deadline, others);
            }
            Input::Close { call, session, deadline } => parts.sessions.close(step, call, session, deadline),
            Input::Read { call, reader, consistency, after, replica, query, deadline } => {
                let (pinned, deadline) = (None, deadline.unwrap_or(NEVER));
                let question = Question { call, reader, consistency, after, pinned, query, deadline };
                self.read(now, replica, question, out);
            }
            Input::ForgetReader(reader) => parts.reads.forget(reader),
            Input::EndReads => parts.sessions.end_queries(step),
            Input::Connected(conn) => parts.contacts.connected(step, conn),
            Input::Closed { conn, why } => {
                if let Some(contact) = parts.contacts.of_conn(conn) {
                    self.lost(now, contact, why, out);
                }
            }
            Input::Frame { conn, frame } => self.frame(now, conn, frame, out),
            Input::Written { conn, bytes } => parts.contacts.written(conn, bytes),
            Input::Deadline => self.deadline_passed(now, out),
            Input::Stop => self.stop(now, out),
        }
    }

    /// Sends what became ready since the last flush.
    pub fn flush(&mut self, now: Time, out: &mut Effects) {
        if self.stopped {
            return;
        }
        let (mut step, parts, _) = self.apart(now, out);
        parts.reads.send(&mut step, &mut parts.contacts);
        if step.config.letters.is_some() {
            parts.letters.listen(&mut step, &mut parts.contacts, &mut parts.sessions);
        }
        if self.announced != self.leader() {
            self.announced = self.leader();
            out.push(Effect::Leader(self.announced));
        }
        let (mut step, parts, reach) = self.apart(now, out);
        reach.send(&mut step, parts);
    }

    /// When to call [`ClientCore::step`] with [`Input::Deadline`], if no other input comes first. Ask after a flush.
    pub fn deadline(&self) -> Option<Time> {
        if self.stopped {
            return None;
        }
        let parts = &self.parts;
        let own = parts.contacts.deadline().into_iter().chain(self.reach.deadline());
        let due = [parts.sessions.deadline(), parts.reads.deadline(), parts.letters.deadline()];
        own.chain(due).min().filter(|due| *due != NEVER)
    }

    /// The members that the client knows.
    pub fn known(&self) -> impl Iterator<Item = ReplicaId> {
        self.parts.contacts.iter().filter(|contact| !contact.left).map(|contact| contact.replica)
    }

    /// The leader, as far as was heard.
    pub fn leader(&self) -> Option<ReplicaId> {
        self.reach.leader().map(|contact| self.parts.contacts.at(contact).replica)
    }

    /// What the cluster calls its service, as the member says that was connected last; empty: nothing, or it is not known. Where members may
    /// lie one word is worth nothing, and it is never known.
    pub fn service(&self) -> ServiceName {
        if self.config.faults.may_lie() { ServiceName::NONE } else { self.parts.contacts.service() }
    }

    /// The newest state that this client knows of: the newest one that its reads saw, or that holds its writes.
    pub fn newest(&self) -> Seq {
        self.parts.reads.newest()
    }

    /// Counters for status and tests.
    pub const fn stats(&self) -> Stats {
        self.parts.stats
    }

    /// How many calls and reads wait for their completion, and how many bytes they count as.
    pub fn waiting(&self) -> (usize, usize) {
        let calls = self.parts.sessions.check(self.config.window);
        (calls + self.parts.reads.check(), self.parts.queued())
    }

    /// Panics with the name of the invariant that does not hold.
    pub fn invariants(&self) {
        self.waiting();
        self.parts.contacts.check();
        self.parts.letters.check();
    }
}

// What callers ask.
impl ClientCore {
    fn read(&mut self, now: Time, replica: Option<ReplicaId>, question: Question, out: &mut Effects) {
        let checked = self.check_read(replica, &question);
        let (mut step, parts, reach) = self.apart(now, out);
        match checked {
            Ok(pinned) => reach.read(&mut step, parts, Question { pinned, ..question }),
            Err(error) => step.out.complete(Some(question.call), Err(error)),
        }
    }

    /// Whether a read may be asked of this replica. Returns the contact, if it is for one replica only.
    fn check_read(&self, replica: Option<ReplicaId>, question: &Question) -> Result<Option<usize>, Error> {
        let place = |replica| self.parts.contacts.of(replica).ok_or(Error::UnknownReplica(replica));
        let pinned = replica.map(place).transpose()?;
        let (bytes, max) = (question.query.len(), self.config.frame_bytes_max as usize);
        if bytes + READ_HEADER > max {
            let detail = format!("a query of {bytes} bytes, the limit is {max}");
            return Err(Error::TooLarge { outcome_unknown: false, detail });
        }
        if self.parts.queued() + cost(bytes) > self.config.queue_bytes_max {
            return Err(Error::Overloaded { outcome_unknown: false });
        }
        Ok(pinned)
    }

    fn stop(&mut self, now: Time, out: &mut Effects) {
        if std::mem::replace(&mut self.stopped, true) {
            return;
        }
        let (mut step, parts, _) = self.apart(now, out);
        parts.sessions.stop(&mut step);
        parts.reads.fail_all(&mut step, &Error::Stopped { outcome_unknown: false });
        parts.contacts.stop(&mut step);
    }
}

// What connections bring.
impl ClientCore {
    /// The client ends this connection.
    fn drop_contact(&mut self, now: Time, contact: usize, why: String, out: &mut Effects) {
        let (mut step, parts, _) = self.apart(now, out);
        parts.contacts.hang_up(&mut step, contact);
        self.lost(now, contact, why, out);
    }

    fn lost(&mut self, now: Time, contact: usize, why: String, out: &mut Effects) {
        let (mut step, parts, reach) = self.apart(now, out);
        if parts.lost(&mut step, reach.leader(), contact, why) {
            reach.closed(parts, contact);
        }
    }

    fn frame(&mut self, now: Time, conn: ConnId, frame: Frame, out: &mut Effects) {
        let Some(contact) = self.parts.contacts.of_conn(conn) else { return };
        match self.parts.contacts.at(contact).state {
            ContactState::Greeting { .. } => self.greeted(now, contact, frame, out),
            ContactState::Up { .. } if frame.kind == FrameKind::Refusal => {
                let why =
                    Refusal::decode(frame.payload).map_or_else(|why| why.to_string(), |refusal| refusal.text);
                self.drop_contact(now, contact, format!("ended the connection: {why}"), out);
            }
            ContactState::Up { .. } => match ReplicaMessage::decode(frame) {
                Ok(message) => self.message(now, contact, message, out),
                Err(why) => self.bad_frame(now, contact, format!("sent a bad frame: {why}"), out),
            },
            ContactState::Down { .. } | ContactState::Dialing { .. } => {}
        }
    }

    fn bad_frame(&mut self, now: Time, contact: usize, why: String, out: &mut Effects) {
        self.parts.stats.frames_bad += 1;
        self.drop_contact(now, contact, why, out);
    }

    fn greeted(&mut self, now: Time, contact: usize, frame: Frame, out: &mut Effects) {
        match frame.kind {
            FrameKind::Welcome => match self.parts.contacts.check_welcome(contact, frame.payload) {
                // It says next which era it is in.
                Ok(welcome) if welcome.era > self.config.era => {}
                Ok(welcome) if welcome.era < self.config.era => {
                    self.drop_contact(now, contact, format!("is still in era {}", welcome.era), out);
                }
                Ok(welcome) => self.welcomed(now, contact, &welcome, out),
                Err(why) => self.drop_contact(now, contact, why, out),
            },
            FrameKind::Refusal => match Refusal::decode(frame.payload) {
                Ok(refusal) => self.refused(now, contact, &refusal, out),
                Err(why) => self.drop_contact(now, contact, format!("sent a bad refusal: {why}"), out),
            },
            FrameKind::Era => match EraNotice::decode(frame.payload) {
                Ok(notice) => self.told_of_era(now, contact, notice, out),
                Err(why) => self.bad_frame(now, contact, format!("sent a bad frame: {why}"), out),
            },
            _ => self.bad_frame(now, contact, "did not answer the greeting".to_owned(), out),
        }
    }

    fn welcomed(&mut self, now: Time, contact: usize, welcome: &Welcome, out: &mut Effects) {
        let (mut step, parts, reach) = self.apart(now, out);
        parts.contacts.welcomed(now, contact, welcome.service.name);
        reach.connected(&mut step, parts, contact, welcome);
        parts.reads.connected(now, contact);
    }

    /// A member refused the client. Everything that was never sent fails once too few members are left for an answer to count.
    fn refused(&mut self, now: Time, contact: usize, refusal: &Refusal, out: &mut Effects) {
        // A client that is paused, or has a slow contact, may say hello too late.
        let passing = matches!(refusal.reason, RefusalReason::TooMany | RefusalReason::NoHello);
        self.parts.contacts.refused(contact, passing);
        self.drop_contact(now, contact, format!("refused the connection: {}", refusal.text), out);
        let (mut step, parts, _) = self.apart(now, out);
        if parts.contacts.may_come() < parts.sessions.rules().needed as usize {
            let replica = parts.contacts.at(contact).replica;
            let error = Error::Refused { replica, text: refusal.text.clone() };
            parts.sessions.fail_unsent(&mut step, &error);
            parts.reads.fail_all(&mut step, &error);
        }
    }

    fn message(&mut self, now: Time, contact: usize, message: ReplicaMessage, out: &mut Effects) {
        let (mut step, parts, reach) = self.apart(now, out);
        let step = &mut step;
        parts.contacts.heard(now, contact);
        match message {
            ReplicaMessage::Replies(payload) => {
                for reply in Reply::walk(&payload) {
                    let Ok(reply) = reply else { return };
                    if step.config.tells_replies {
                        parts.tell_reply(step, contact, &reply, &payload);
                    }
                    let taken = reach.reply(step, parts, contact, &reply, &payload);
                    parts.stats.replies_ignored += u64::from(!taken);
                }
            }
            ReplicaMessage::ReadReplies(payload) => {
                for reply in ReadReply::walk(&payload) {
                    let Ok(reply) = reply else { return };
                    if parts.reads.waits_for(reply.read, contact) {
                        reach.read_reply(step, parts, contact, &reply, &payload);
                    } else {
                        parts.stats.replies_ignored += 1;
                    }
                }
            }
            ReplicaMessage::Letters(payload) => {
                for letter in LetterFrame::walk(&payload) {
                    let Ok(letter) = letter else { return };
                    let used = parts.letters.arrived(step, &parts.sessions, contact, &letter, &payload);
                    parts.stats.letters_ignored += u64::from(!used);
                }
            }
            // It is the era that both are in.
            ReplicaMessage::Era(_) => {}
            ReplicaMessage::Chain(chain) => reach.chain(step, parts, contact, &chain),
            ReplicaMessage::Members(members) => reach.members(step, parts, contact, &members),
            ReplicaMessage::Leader(LeaderNotice { view, leader }) => {
                reach.notice(step, parts, contact, view, leader);
            }
        }
    }
}

// Eras.
impl ClientCore {
    /// A member says which era it is in. Its connection is of no use as long as the client is in another one. [E13]
    fn told_of_era(&mut self, now: Time, contact: usize, notice: EraNotice, out: &mut Effects) {
        let members = self.parts.contacts.iter().filter(|contact| !contact.left).count();
        let trust = self.config.faults.among(members.max(1) as u32);
        let from = self.parts.contacts.at(contact).replica;
        let number = notice.era.number;
        if let Some(era) = self.eras.tells((self.config.era, trust), from, notice) {
            self.enter_era(now, &era, out);
        } else {
            self.drop_contact(now, contact, format!("is in era {number}"), out);
        }
    }

    /// The number of the era that this client knows.
    pub const fn era(&self) -> u64 {
        self.config.era
    }

    /// Everything is by the rules of this era from now on. [E15]
    fn enter_era(&mut self, now: Time, era: &Era, out: &mut Effects) {
        self.eras.follow(era.number);
        (self.config.era, self.config.faults) = (era.number, era.faults.counted());
        let lies = self.config.faults.may_lie();
        self.config.membership = lies.then(|| era.members.clone());
        let voters: Vec<ReplicaId> = era.members.voters().collect();
        let (mut step, parts, reach) = self.apart(now, out);
        for member in era.members.members().iter().filter(|member| !member.address.is_empty()) {
            step.out.push(Effect::Address { replica: member.replica, address: member.address.clone() });
        }
        let (stays, _) = meet(&mut step, parts, reach.leader(), &voters);
        for contact in 0..stays.len() {
            if self.parts.contacts.at(contact).conn().is_some() {
                self.drop_contact(now, contact, format!("era {} began", era.number), out);
            }
        }
        // What one replica was asked may now need the answers of many.
        let mut questions = self.parts.reads.take_all();
        if !lies {
            questions.extend(self.parts.sessions.take_queries());
        }
        let (reach, rules) = reach_of(&self.config, &voters, stays.len(), self.probe_nonce);
        self.reach = reach;
        let (mut step, parts, reach) = self.apart(now, out);
        parts.sessions.members_changed(rules, stays.len());
        parts.sessions.say_anew();
        parts.letters.members_changed(&mut step, rules.needed, &stays);
        parts.stats.resends += u64::from(parts.sessions.any_waits());
        questions.into_iter().for_each(|question| reach.read(&mut step, parts, question));
    }
}

// Time.
impl ClientCore {
    fn deadline_passed(&mut self, now: Time, out: &mut Effects) {
        if self.stopped {
            return;
        }
        for contact in 0..self.parts.contacts.len() {
            let (mut step, parts, _) = self.apart(now, out);
            if let Some(why) = parts.contacts.due(&mut step, contact) {
                self.drop_contact(now, contact, why.to_owned(), out);
            }
        }
        let (mut step, parts, reach) = self.apart(now, out);
        reach.due(&mut step, parts);
        if parts.sessions.deadline() <= now {
            sessions_due(&mut step, parts, reach);
        }
        if parts.reads.deadline() <= now {
            reads_due(&mut step, parts, reach);
        }
        if parts.letters.deadline() <= now {
            parts.letters.due(&mut step);
        }
    }
}

/// Looks at the timers of all sessions.
fn sessions_due(step: &mut Step<'_>, parts: &mut Parts, reach: &mut dyn Reach) {
    let mut next = NEVER;
    let mut text = None;
    for cell in parts.sessions.cells() {
        if parts.sessions.is_late(step.now, cell) {
            let detail = text.get_or_insert_with(|| detail(parts, reach));
            parts.sessions.give_up_late(step, cell, detail);
        }
        reach.session_due(step, parts, cell);
        let Some(looked) = parts.sessions.look(step, cell) else { continue };
        if looked.again {
            reach.sent_again(step, parts, cell);
        }
        next = next.min(looked.due);
    }
    parts.sessions.look_on(step.now, next);
}

/// Looks at the reads that are due.
fn reads_due(step: &mut Step<'_>, parts: &mut Parts, reach: &mut dyn Reach) {
    for read in parts.reads.due(step.now) {
        if parts.reads.is_late(step.now, read) {
            let detail = detail(parts, reach);
            parts.reads.give_up(step, read, detail);
        } else {
            reach.read_due(step, parts, read);
        }
    }
    parts.reads.look_on(step.now);
}

/// Why requests are not answered, for people.
fn detail(parts: &Parts, reach: &dyn Reach) -> String {
    let mut text = reach.detail(&parts.contacts);
    parts.contacts.problems(&mut text);
    text
}
