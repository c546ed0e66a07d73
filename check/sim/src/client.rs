//! A simulated client: the real client core, and its workload.
//!
//! Every value and token is written once, so a value that is read identifies its write.

use crate::plan::{Plan, Workload};
use crate::random::Rng;
use crate::replica::CLUSTER;
use crate::service::{APPEND, GUEST, LIST};
use bytes::Bytes;
use quorate_auth::{ClientMacs, KeyedClient};
use quorate_client::{
    CallId, ClientCore, Completion, Config, Effects, Error, Input, Macs, ReadConsistency, SessionHandle,
    Signer,
};
use quorate_history::{Answer, Event, Op, Outcome};
use quorate_kv::{Condition, KvCommand, KvQuery, KvReply, Operation};
use quorate_types::{ClientId, Items, ItemsBuilder, ReplicaId, Seq, SessionId, Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How an operation reaches the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Ordered with the writes.
    Command,
    /// A read that sees everything that was acknowledged before.
    Strong,
    /// A read that sees everything that this client wrote and saw before.
    Session,
    /// A read that may be stale.
    Weak,
    /// A read that was ordered like a command; its seq is a lower bound.
    Ordered,
}

/// One operation and its result.
#[derive(Clone, Debug)]
pub struct Done {
    /// Client and number.
    pub id: (u32, u32),
    /// Key or list.
    pub key: String,
    /// The operation.
    pub op: Op,
    /// How it reached the service.
    pub way: Way,
    /// When it was asked, in virtual time.
    pub call: u64,
    /// When it ended.
    pub ret: Option<u64>,
    /// The result; none while it is open.
    pub outcome: Option<Outcome>,
    /// The answer.
    pub reply: Vec<u8>,
    /// The seq that came with a read.
    pub seq: u64,
    /// The replica, if only one was asked.
    pub replica: Option<usize>,
    /// Whether it had no deadline.
    pub patient: bool,
    /// Why it did not succeed.
    pub why: String,
    /// The command of a guest; then key and operation say nothing.
    pub carried: Option<Bytes>,
}

impl Done {
    /// The reply, if it succeeded.
    pub fn reply_if_known(&self) -> Option<&[u8]> {
        matches!(self.outcome, Some(Outcome::Ok { .. })).then_some(&self.reply)
    }

    /// Whether only one replica said it, and that is one of these, as bits.
    fn is_from(&self, liars: u64) -> bool {
        self.replica.is_some_and(|who| liars >> who & 1 == 1)
    }
}

#[derive(Debug)]
enum Asked {
    Open,
    Call(Vec<usize>),
    Read(usize),
    /// A read of a guest, by its name.
    Carried(u64),
}

/// What ended with a result of the core.
#[derive(Debug)]
pub enum Ended {
    /// Operations, by their numbers.
    Operations(Vec<usize>),
    /// A read of a guest.
    Carried(u64, Option<Bytes>),
}

/// One client.
pub struct Client {
    /// The real core.
    pub core: ClientCore,
    /// Its effects, reused.
    pub effects: Effects,
    /// Everything it did.
    pub done: Vec<Done>,
    number: u32,
    /// With how many replicas the cluster begins.
    members: u64,
    rng: Rng,
    session: Option<SessionHandle>,
    opening: bool,
    /// When it may try to open a session again.
    open_at: u64,
    open: BTreeMap<u64, Asked>,
    next_call: u64,
    started: u32,
    /// No operation before this time.
    next_at: u64,
    workload: Workload,
    /// The value of each key that it saw last, to compare with.
    seen: BTreeMap<String, Option<String>>,
    /// The final reads: whether they began, and how many ended.
    finals: (bool, usize),
    /// The session that it used last, as the replicas know it.
    pub used: Option<SessionId>,
    /// Whether the cluster moves between eras.
    eras: bool,
    /// Whether replicas may lie, and which do, as bits.
    byzantine: (bool, u64),
    /// Its keys begin with this number; a client that lies has keys of its own.
    first_key: u64,
    /// What it carries for a guest, if that is all that it does: the commands of its next call.
    carries: Option<Vec<Bytes>>,
}

impl Client {
    /// Client `number`, from 1.
    pub fn new(plan: &Plan, number: u32) -> Self {
        let mut rng = Rng::of(plan.seed, 500 + u64::from(number));
        let resend_after = Span::from_millis(rng.pick(&[200, 2000]));
        let usual = Config::new(ClientId::new(u64::from(number)), rng.number());
        let members: Vec<ReplicaId> = (1..=plan.founders as u16).map(ReplicaId::new).collect();
        let config = Config {
            cluster: Some(CLUSTER),
            signer: plan
                .signs
                .then(|| Signer(Arc::new(KeyedClient::new(CLUSTER, plan.seed, u64::from(number))))),
            macs: plan.tags.then(|| {
                let mut secret = [0; 32];
                secret[..8].copy_from_slice(&plan.seed.to_le_bytes());
                secret[8..12].copy_from_slice(&number.to_le_bytes());
                Macs(Arc::new(ClientMacs::new(CLUSTER, secret)))
            }),
            leader_first: plan.tags.then_some(Span::from_millis(250)),
            keys_last: Span::from_millis(500),
            faults: plan.eras.map_or(plan.survives(), |first| first.faults().counted()),
            session_ttl: Span::from_millis(plan.sessions.0),
            window: (plan.sessions.1 - 1) as u32,
            // Where a rate is wanted, calls that wait long are not lost.
            resend_after: if plan.work.is_some() { usual.resend_after } else { resend_after },
            ..usual
        };
        Self {
            core: ClientCore::new(config, &members),
            effects: Effects::new(),
            done: Vec::new(),
            number,
            members: plan.founders as u64,
            rng,
            session: None,
            opening: false,
            open_at: plan.workload.since,
            open: BTreeMap::new(),
            next_call: 1,
            started: 0,
            next_at: 0,
            workload: workload(plan, number),
            seen: BTreeMap::new(),
            finals: (false, 0),
            used: None,
            eras: plan.eras.is_some(),
            byzantine: (
                plan.fault_model.may_lie(),
                plan.liars.iter().fold(0, |bits, liar| bits | 1 << liar.who),
            ),
            first_key: plan.client_trick(number as usize - 1).map_or(0, |_| 1000 * u64::from(number)),
            carries: plan.carrier(number as usize - 1).map(|_| Vec::new()),
        }
    }

    /// Whether it lies: then its results are not checked, and the run does not wait for it.
    pub fn lies(&self) -> bool {
        self.first_key > 0
    }

    /// The command that it sent under this number, if any.
    pub fn asked(&self, number: u32) -> Option<Vec<u8>> {
        self.done.get(number as usize).filter(|done| done.way == Way::Command).map(command)
    }

    /// Its randomness.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Whether all operations of the workload have ended.
    pub fn is_done(&self) -> bool {
        self.started >= self.workload.operations && self.open.is_empty()
    }

    /// Whether it was told to read everything once more.
    pub fn reads_last(&self) -> bool {
        self.finals.0
    }

    /// Whether the last reads have ended, too.
    pub fn is_over(&self) -> bool {
        self.finals.0 && self.open.is_empty()
    }

    /// When it next acts by itself.
    pub fn next_at(&self) -> Option<u64> {
        let is_done = self.started >= self.workload.operations;
        if self.opening || is_done || self.carries.as_ref().is_some_and(Vec::is_empty) {
            return None;
        }
        if self.session.is_none() {
            return Some(self.open_at);
        }
        (self.open.len() < self.workload.at_once).then_some(self.next_at)
    }

    /// Reads every key and list once more.
    pub fn final_reads(&mut self, now: u64, local: Time) {
        self.finals.0 = true;
        for key in 0..self.workload.keys {
            for (key, list) in [(format!("k{key}"), false), (format!("l{key}"), true)] {
                self.read(now, local, key, list, ReadConsistency::Strong, None);
            }
        }
    }

    /// Begins the operations that are due.
    pub fn act(&mut self, now: u64, local: Time) {
        while self.next_at().is_some_and(|at| at <= now) {
            if self.session.is_none() {
                self.opening = true;
                let call = self.ask(Asked::Open);
                self.core.step(local, Input::Open { call, deadline: None }, &mut self.effects);
                return;
            }
            match self.carries.as_mut().map(std::mem::take) {
                Some(commands) => self.carry(now, local, commands),
                None => self.operate(now, local),
            }
            self.next_at = now + self.rng.below(self.workload.pause + 1);
        }
    }

    fn ask(&mut self, asked: Asked) -> CallId {
        let call = self.next_call;
        self.next_call += 1;
        self.open.insert(call, asked);
        CallId(call)
    }

    fn operate(&mut self, now: u64, local: Time) {
        let total: u64 = self.workload.shares.iter().sum();
        let mut draw = self.rng.below(total);
        let mut kind = 0;
        while draw >= self.workload.shares[kind] {
            draw -= self.workload.shares[kind];
            kind += 1;
        }
        let deadline = self
            .rng
            .chance(self.workload.deadlines)
            .then(|| local.plus(Span::from_millis(self.rng.spread(5, 3000))));
        let key = self.first_key + self.rng.below(self.workload.keys);
        match kind {
            1 => self.read(now, local, format!("k{key}"), false, ReadConsistency::Strong, deadline),
            6 => {
                let list = self.rng.chance(300);
                let name = format!("{}{key}", if list { 'l' } else { 'k' });
                // Most of them are for the session.
                let weak = self.done.len().is_multiple_of(4);
                let consistency = if weak { ReadConsistency::Weak } else { ReadConsistency::Session };
                self.read(now, local, name, list, consistency, deadline);
            }
            7 => self.read(now, local, format!("l{key}"), true, ReadConsistency::Strong, deadline),
            _ => self.call(now, local, kind, deadline),
        }
    }

    fn begin(&mut self, now: u64, key: String, op: Op, way: Way, patient: bool) -> usize {
        let number = self.done.len() as u32;
        self.done.push(Done {
            id: (self.number, number),
            key,
            op,
            way,
            call: now,
            ret: None,
            outcome: None,
            reply: Vec::new(),
            seq: 0,
            replica: None,
            patient,
            why: String::new(),
            carried: None,
        });
        number as usize
    }

    fn read(
        &mut self,
        now: u64,
        local: Time,
        key: String,
        list: bool,
        consistency: ReadConsistency,
        deadline: Option<Time>,
    ) {
        let (byzantine, _) = self.byzantine;
        // Where replicas may lie, one alone can be asked for what may be old only; all else is ordered.
        let one = byzantine && consistency == ReadConsistency::Weak && self.rng.chance(500);
        let ordered = byzantine && !one;
        // Where eras end, a read that is asked as an old one may be answered as a strong one, with another meaning of its seq.
        let consistency = if ordered && self.eras { ReadConsistency::Strong } else { consistency };
        let mut query = Vec::new();
        if list {
            query.push(LIST);
            query.extend_from_slice(key.as_bytes());
        } else {
            KvQuery::Get { key: key.as_bytes() }.encode(&mut query);
        }
        let (op, way) = match consistency {
            _ if ordered => (Op::Get, Way::Ordered),
            ReadConsistency::Strong => (Op::Get, Way::Strong),
            ReadConsistency::Session => (Op::ReadWeak, Way::Session),
            ReadConsistency::Weak => (Op::ReadWeak, Way::Weak),
        };
        // One replica may be away for good.
        let pinned = !self.finals.0 && self.workload.pinned > 0 && self.rng.chance(self.workload.pinned);
        let pinned = if byzantine { one } else { pinned };
        let replica = pinned.then(|| ReplicaId::new(self.rng.range(1, self.members) as u16));
        let deadline = if pinned { deadline.or(Some(local.plus(Span::from_millis(1000)))) } else { deadline };
        let index = self.begin(now, key, op, way, deadline.is_none());
        self.done[index].replica = replica.map(|replica| usize::from(replica.number()) - 1);
        self.started += u32::from(!self.finals.0);
        let call = self.ask(Asked::Read(index));
        let query = Bytes::from(query);
        let reader = u64::from(self.number);
        let after = Seq::ZERO;
        let input = Input::Read { call, reader, consistency, after, replica, query, deadline };
        self.core.step(local, input, &mut self.effects);
    }

    fn call(&mut self, now: u64, local: Time, kind: usize, deadline: Option<Time>) {
        let count = self.rng.range(1, self.workload.batch);
        let mut indexes = Vec::new();
        for _ in 0..count {
            let (key, op) = self.choose(kind);
            indexes.push(self.begin(now, key, op, Way::Command, deadline.is_none()));
            self.started += 1;
        }
        self.send(local, indexes, deadline);
    }

    /// Sends operations that have begun as one call.
    fn send(&mut self, local: Time, indexes: Vec<usize>, deadline: Option<Time>) {
        let Some(session) = self.session else { return };
        let mut items = ItemsBuilder::new();
        for index in &indexes {
            items.push(&command(&self.done[*index]));
        }
        let mut commands = Vec::new();
        items.write_to(&mut commands);
        let call = self.ask(Asked::Call(indexes));
        let input = Input::Call { call, session, commands: commands.into(), deadline };
        self.core.step(local, input, &mut self.effects);
    }

    /// A carrier's next call.
    fn carry(&mut self, now: u64, local: Time, commands: Vec<Bytes>) {
        let begun = commands.into_iter().map(|command| {
            let index = self.begin(now, String::new(), Op::Get, Way::Command, true);
            self.done[index].carried = Some(command);
            index
        });
        let indexes = begun.collect();
        self.send(local, indexes, None);
    }

    /// A carrier that has no call under way shall send these commands next, and ask these questions. Each answer comes with the name.
    pub fn carries(&mut self, local: Time, commands: Vec<Bytes>, queries: Vec<(u64, Bytes)>) {
        if !commands.is_empty() {
            self.carries = Some(commands);
        }
        for (name, query) in queries {
            let call = self.ask(Asked::Carried(name));
            let consistency = ReadConsistency::Strong;
            let (reader, after) = (u64::from(self.number), Seq::ZERO);
            let input =
                Input::Read { call, reader, consistency, after, replica: None, query, deadline: None };
            self.core.step(local, input, &mut self.effects);
        }
    }

    /// Whether it is a carrier that can take its next call.
    pub fn is_free(&self) -> bool {
        let calls = self.open.values().any(|asked| !matches!(asked, Asked::Carried(_)));
        self.carries.as_ref().is_some_and(Vec::is_empty) && !calls
    }

    /// Ends the session, if it has one; whether it had.
    pub fn close(&mut self, local: Time) -> bool {
        let Some(session) = self.session.take() else { return false };
        self.core.step(local, Input::Close { call: None, session, deadline: None }, &mut self.effects);
        true
    }

    /// Nothing is left to carry, and it has no keys to read in the end.
    pub fn release(&mut self) {
        (self.workload.operations, self.workload.keys) = (0, 0);
    }

    fn choose(&mut self, kind: usize) -> (String, Op) {
        let key = self.first_key + self.rng.below(self.workload.keys);
        let token = format!("{}.{}", self.number, self.done.len());
        let padding = self.rng.below(self.workload.padding + 1) as usize;
        let value = format!("{token}{}", "-".repeat(padding));
        let name = format!("k{key}");
        match kind {
            2 => (name, Op::Get),
            3 => (name, Op::Delete),
            4 => {
                let expect = self.seen.get(&name).cloned().unwrap_or_default();
                (name, Op::Cas { expect, value })
            }
            5 => (format!("l{key}"), Op::Append { value: token }),
            _ => (name, Op::Put { value }),
        }
    }

    /// The core reports a result. Returns what ended with it.
    pub fn completed(
        &mut self,
        now: u64,
        local: Time,
        call: CallId,
        result: Result<Completion, Error>,
    ) -> Ended {
        match self.open.remove(&call.0) {
            None => panic!("INV-CLIENT-1 call {} completes once", call.0),
            Some(Asked::Open) => {
                self.opening = false;
                match result {
                    Ok(Completion::Opened(session, _)) => self.session = Some(session),
                    _ => self.open_at = now + 50_000_000,
                }
                Ended::Operations(Vec::new())
            }
            Some(Asked::Carried(name)) => match result {
                Ok(Completion::Read { body, .. }) => Ended::Carried(name, Some(body)),
                _ => Ended::Carried(name, None),
            },
            Some(Asked::Call(indexes)) => {
                if let Err(Error::SessionExpired { .. } | Error::SessionBroken { .. } | Error::SessionClosed) =
                    result
                    && let Some(session) = self.session.take()
                {
                    self.open_at = now;
                    let close = Input::Close { call: None, session, deadline: None };
                    self.core.step(local, close, &mut self.effects);
                }
                self.end_call(now, &indexes, result);
                Ended::Operations(indexes)
            }
            Some(Asked::Read(index)) => {
                self.end_read(now, index, result);
                Ended::Operations(vec![index])
            }
        }
    }

    fn end_read(&mut self, now: u64, index: usize, result: Result<Completion, Error>) {
        match result {
            Ok(Completion::Read { seq, body }) => {
                self.done[index].seq = seq.number();
                self.end(now, index, Ok(body.to_vec()));
            }
            Ok(other) => self.end(
                now,
                index,
                Err(Error::SessionBroken {
                    outcome_unknown: true,
                    detail: format!("a read ended with {other:?}"),
                }),
            ),
            Err(error) => self.end(now, index, Err(error)),
        }
    }

    fn end_call(&mut self, now: u64, indexes: &[usize], result: Result<Completion, Error>) {
        match result {
            Ok(Completion::Replies(body)) => {
                let items = Items::parse(&body).expect("the client core checked the list");
                assert!(items.len() == indexes.len(), "INV-SIM-2 a reply to every command");
                for (index, reply) in indexes.iter().zip(items.iter()) {
                    self.end(now, *index, Ok(reply.to_vec()));
                }
            }
            Ok(_) => panic!("INV-CLIENT-1 a call ends with replies"),
            Err(error) => indexes.iter().for_each(|index| self.end(now, *index, Err(error.clone()))),
        }
    }

    fn end(&mut self, now: u64, index: usize, result: Result<Vec<u8>, Error>) {
        let done = &mut self.done[index];
        done.ret = Some(now);
        if done.is_from(self.byzantine.1) {
            // Whatever it is, it counts for nothing.
            done.outcome = Some(Outcome::Unknown { ret: Some(now) });
            return;
        }
        done.outcome = Some(match result {
            Ok(reply) => {
                done.reply = reply;
                let answer = answer(done);
                if let (Op::Get, Answer::Value(value)) = (&done.op, &answer) {
                    self.seen.insert(done.key.clone(), value.clone());
                }
                Outcome::Ok { ret: now, answer }
            }
            Err(error) => {
                done.why = error.to_string();
                let unknown = error.is_outcome_unknown() || error == Error::ReplyForgotten;
                if unknown { Outcome::Unknown { ret: Some(now) } } else { Outcome::Fail { ret: Some(now) } }
            }
        });
    }

    /// The operations as a history.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        self.done.iter().filter(|done| done.carried.is_none()).map(|done| Event {
            client: u64::from(done.id.0),
            key: done.key.clone(),
            op: done.op.clone(),
            call: done.call,
            outcome: done.outcome.clone().unwrap_or(Outcome::Unknown { ret: None }),
        })
    }
}

/// The workload of a client.
fn workload(plan: &Plan, number: u32) -> Workload {
    let lies = plan.client_trick(number as usize - 1).is_some();
    let most = if lies { plan.workload.of_liars } else { u32::MAX };
    let operations = plan.workload.operations.min(most);
    Workload { operations, ..plan.workload.clone() }
}

/// The command's bytes.
fn command(done: &Done) -> Vec<u8> {
    let mut out = done.id.0.to_le_bytes().to_vec();
    out.extend_from_slice(&done.id.1.to_le_bytes());
    if let Some(carried) = &done.carried {
        out.push(GUEST);
        out.extend_from_slice(carried);
        return out;
    }
    let key = done.key.as_bytes();
    match &done.op {
        Op::Put { value } => KvCommand::One(Operation::Put { key, value: value.as_bytes() }).encode(&mut out),
        Op::Delete => KvCommand::One(Operation::Delete { key }).encode(&mut out),
        Op::Cas { expect, value } => {
            let condition =
                expect.as_ref().map_or(Condition::Absent, |value| Condition::Equals(value.as_bytes()));
            KvCommand::Swap { key, condition, value: value.as_bytes() }.encode(&mut out);
        }
        Op::Append { value } => {
            out.push(APPEND);
            out.extend_from_slice(key);
            out.push(0);
            out.extend_from_slice(value.as_bytes());
        }
        _ => KvCommand::One(Operation::Get { key }).encode(&mut out),
    }
    out
}

/// What the service answered, as the history has it.
fn answer(done: &Done) -> Answer {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if done.carried.is_some() {
        return Answer::Done;
    }
    if done.key.starts_with('l') {
        return match done.op {
            Op::Append { .. } => Answer::Done,
            _ => Answer::Value((!done.reply.is_empty()).then(|| text(&done.reply))),
        };
    }
    match (&done.op, KvReply::decode(&done.reply)) {
        (Op::Put { .. }, Ok(KvReply::Put { .. })) => Answer::Done,
        (Op::Get | Op::ReadWeak, Ok(KvReply::Value(value))) => Answer::Value(value.map(text)),
        (Op::Delete, Ok(KvReply::Deleted { existed })) => Answer::Flag(existed),
        (Op::Cas { .. }, Ok(KvReply::Swapped)) => Answer::Flag(true),
        (Op::Cas { .. }, Ok(KvReply::NotSwapped { .. })) => Answer::Flag(false),
        (op, other) => panic!("INV-SIM-2 {op:?} was answered with {other:?}"),
    }
}
