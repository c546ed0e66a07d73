//! Two replicas in one thread: the real waves, the real tokens and their counting, real rulings. Only threads and time are simulated.
//!
//! Each batch runs at both. Both hear the other's token; what the first one then rules is in the next batch, as where requests always wait.

use super::requests::{Requests, Told};
use super::schedule::{Lane, Schedule, WORKERS};
use quorate_command::failure::{Failure, Outcome};
use quorate_execute::{
    Ahead, AheadLimits, Cells, Execution, Executor, Final, InStore, Ordered, Outcomes, OwnTokens, Parallel,
    Parallelism, Sequential, SessionLimits, Speculative, Tellers, Verified, Verify, VerifyConfig,
};
use quorate_kv::Work;
use quorate_sim::cells::Interleaved;
use quorate_sim::random::Rng;
use quorate_types::{
    AgreedTime, FaultModel, Faults, Items, ItemsBuilder, ReplicaId, RequestNumber, Seq, SessionId, Span,
    Time, Visigoth,
};
use quorate_wire::{Batch, BatchHeader, RequestHeader, RequestKind, RequestProof, Ruling, Tokens};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// Each client has one request in each batch.
pub(super) const BATCH: u32 = 100;
/// What ran ahead is never as much.
const LIMITS: AheadLimits =
    AheadLimits { planned: 4096, held_bytes: 128 << 20, finals: 1024, items: 4096, bytes: 64 << 20 };

/// What came of the batches of one mixer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    pub(super) requests: u64,
    pub(super) batches: u64,
    /// Batches that ran in waves; others ran one command after the other.
    pub(super) in_waves: u64,
    pub(super) waves: u64,
    /// Batches in which commands raced, at one replica or both.
    pub(super) manifested: u64,
    /// Those that ran again, one command after the other, and were right then.
    pub(super) masked: u64,
    /// Those of which clients were told something wrong: both replicas did the same.
    pub(super) identical: u64,
}

/// One of the two.
struct Replica {
    stage: Verified,
    verify: Verify,
    schedule: Schedule,
    outcomes: Outcomes,
}

/// A batch that is not final yet.
#[derive(Default)]
struct Open {
    raced: bool,
    in_waves: bool,
    redone: bool,
}

/// The two replicas, with what they did.
pub(super) struct Twins {
    replicas: [Replica; 2],
    seq: Seq,
    ruling: Option<Ruling>,
    sessions: Vec<SessionId>,
    open: BTreeMap<Seq, Open>,
    told: Told,
    counts: Counts,
}

/// A request before it is encoded.
struct Ask {
    session: SessionId,
    number: u64,
    kind: RequestKind,
    body: Vec<u8>,
}

fn batch(seq: Seq, ruling: Option<Ruling>, asks: &[Ask]) -> Batch {
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    for Ask { session, number, kind, body } in asks {
        let header = RequestHeader {
            session: *session,
            number: RequestNumber::new(*number),
            // Each client has its answer before it asks again.
            lowest_unanswered: RequestNumber::new(*number),
            kind: *kind,
            len: body.len() as u32,
            proof: RequestProof::None,
        };
        header.write_to(&mut bytes);
        bytes.extend_from_slice(body);
    }
    let (seed, count) = (seq.number(), asks.len() as u32);
    Batch::seal(bytes, BatchHeader { seed, count, ruling, ..BatchHeader::default() })
}

impl Replica {
    fn new(me: u16, seed: u64) -> Outcome<Self> {
        let schedule = Schedule::new(Rng::of(seed, 100 + u64::from(me)));
        let service = InStore::new(Parallel::new(Work::with(Box::new(schedule.clone()))));
        let executor = Executor::new(Box::new(service), SessionLimits::default(), AgreedTime::ZERO);
        // Cells as real ones: each command sees what others of its wave wrote before.
        let cells = move || Arc::new(Interleaved::new(0, Rng::of(seed, 3))) as Arc<dyn Cells>;
        let speculative = |executor| -> Box<dyn Execution> {
            let ahead = Ahead { workers: WORKERS, long: 0, limits: LIMITS };
            match Speculative::new(executor, ahead, Box::new(Lane(0)), Box::new(cells)) {
                Ok(speculative) => Box::new(speculative),
                Err(executor) => Box::new(Sequential::new(*executor)),
            }
        };
        let stage = Verified::new(executor, speculative).ok().filter(Verified::may_vary);
        let stage = stage.ok_or_else(|| Failure::new("the service can not run in waves"))?;
        let me = ReplicaId::new(me);
        let mut verify = Verify::new(VerifyConfig { me, patience: Span::from_secs(1), extra: 0 });
        let trust = Faults::of(FaultModel::Visigoth(Visigoth::PAIR)).among(2);
        let tellers = Tellers { usual: trust.agreement() as usize, least: trust.collect() as usize };
        verify.set_varies(true);
        verify.set_executors([1, 2].map(ReplicaId::new).to_vec(), trust.results(), Some(tellers));
        Ok(Self { stage, verify, schedule, outcomes: Outcomes::new() })
    }

    /// Takes the next batch, with what its leader rules in it.
    fn deliver(&mut self, seq: Seq, batch: &Batch) {
        let stage: &mut (dyn Execution + 'static) = &mut self.stage;
        stage.batch(seq, batch.clone());
        if let Some(ruling) = batch.header().ruling {
            stage.deliver(Ordered::Ruled(seq, ruling));
        }
    }

    /// Runs what was delivered. Gives the batches that became final, with their outcomes, and whether the workers had something to do.
    fn run(&mut self) -> (Vec<(Seq, Outcomes)>, bool) {
        let (mut finals, mut in_waves) = (Vec::new(), false);
        loop {
            while let Some(done) = self.stage.next(Time::ZERO, &mut self.outcomes) {
                if let Final::Batch(seq) = done {
                    finals.push((seq, std::mem::take(&mut self.outcomes)));
                }
            }
            if !self.wave() {
                return (finals, in_waves);
            }
            in_waves = true;
        }
    }

    /// Workers run the requests of a wave, on their time. Whether there was one.
    fn wave(&mut self) -> bool {
        self.schedule.at_once(true);
        let mut begun = BinaryHeap::new();
        let mut given = Vec::new();
        while given.len() < WORKERS
            && let Some(work) = self.stage.work()
        {
            begun.push(Reverse((self.schedule.handed_over(0), given.len())));
            given.push(Some(work));
        }
        // The worker that begins first is the next, so commands take tables in the order of their time.
        while let Some(Reverse((at, who))) = begun.pop() {
            let Some(work) = given[who].take() else { continue };
            let done = work.run(&mut self.schedule.begin(at));
            self.stage.worked(done);
            if let Some(work) = self.stage.work() {
                given[who] = Some(work);
                begun.push(Reverse((self.schedule.handed_over(self.schedule.end()), who)));
            }
        }
        self.schedule.at_once(false);
        !given.is_empty()
    }

    /// Tells what ran, once.
    fn tell(&mut self, delivered: Seq) -> Option<Tokens> {
        self.verify.delivered(Time::ZERO, self.stage.ruled(), self.stage.waits(), delivered);
        let own = self.stage.take_tokens()?;
        let OwnTokens { attempt, list } = self.verify.ran(Time::ZERO, own);
        Some(Tokens { attempt, last: self.stage.held(), list })
    }
}

impl Twins {
    /// Two replicas with their clients.
    pub(super) fn new(seed: u64) -> Outcome<Self> {
        let mut twins = Self {
            replicas: [Replica::new(1, seed)?, Replica::new(2, seed)?],
            seq: Seq::ZERO,
            ruling: None,
            sessions: Vec::new(),
            open: BTreeMap::new(),
            told: Told::default(),
            counts: Counts::default(),
        };
        let open = |client: u64| Ask {
            session: SessionId::NONE,
            number: 1,
            kind: RequestKind::OpenSession,
            body: client.to_le_bytes().to_vec(),
        };
        twins.step(&(0..u64::from(BATCH)).map(open).collect::<Vec<_>>())?;
        if twins.sessions.len() != BATCH as usize {
            return Err(Failure::new("not every client has a session"));
        }
        Ok(twins)
    }

    /// So many batches of these requests, with one of each client. What came of them.
    pub(super) fn play(mut self, requests: &mut Requests, batches: u64) -> Outcome<Counts> {
        // A request alone runs on the lane, and so it is known how long they take.
        self.ask(requests, 1)?;
        for _ in 0..batches {
            self.ask(requests, BATCH)?;
            self.counts.requests += u64::from(BATCH);
        }
        // What is to be said of the last one.
        self.step(&[])?;
        self.counts.batches = batches;
        let [one, other] = self.replicas.each_ref().map(|replica| replica.stage.parallelism());
        let (Some(one), Some(other)) = (one, other) else { return Err(Failure::new("nothing ran in waves")) };
        let met = |of: Parallelism| of.met + of.void;
        if met(one) + met(other) > 0 {
            return Err(Failure::new("requests met at a key, although each client has an object of its own"));
        }
        self.counts.waves = one.waves;
        if !self.open.is_empty() || self.replicas.iter().any(|replica| replica.stage.is_behind()) {
            return Err(Failure::new("not every batch became final"));
        }
        Ok(self.counts)
    }

    /// The first clients ask, in one batch.
    fn ask(&mut self, requests: &mut Requests, clients: u32) -> Outcome<()> {
        let ask = |(client, session): (u32, &SessionId)| {
            let mut list = ItemsBuilder::new();
            list.push(&requests.next(client).encode());
            let mut body = Vec::new();
            list.write_to(&mut body);
            // The first one also asked alone.
            let number = self.seq.number() - u64::from(client > 0 && self.seq.number() > 1);
            Ask { session: *session, number, kind: RequestKind::Commands, body }
        };
        let asks: Vec<Ask> = (0..clients).zip(&self.sessions).map(ask).collect();
        self.open.insert(self.seq.next(), Open::default());
        self.step(&asks)
    }

    /// The next batch runs at both, they tell each other what it did, and the first one rules.
    fn step(&mut self, asks: &[Ask]) -> Outcome<()> {
        self.seq = self.seq.next();
        let batch = batch(self.seq, self.ruling.take(), asks);
        if let Some(Ruling::Redo { .. }) = batch.header().ruling {
            let before = self.open.range_mut(..self.seq);
            before.for_each(|(_, open)| open.redone = true);
        }
        let seq = self.seq;
        self.replicas.iter_mut().for_each(|replica| replica.deliver(seq, &batch));
        let ran = self.replicas.each_mut().map(Replica::run);
        if let Some(open) = self.open.get_mut(&seq) {
            open.in_waves = ran.iter().all(|(_, in_waves)| *in_waves);
            // Both are asked, since that makes them forget it.
            open.raced = self.replicas.each_ref().map(|replica| replica.schedule.raced()).contains(&true);
        }
        let [(one, _), (other, _)] = ran;
        self.become_final(one, &other)?;
        let [first, second] = self.replicas.each_mut().map(|replica| replica.tell(seq));
        for (to, from, tokens) in [(1, 1, first), (0, 2, second)] {
            if let Some(tokens) = tokens {
                self.replicas[to].verify.heard(Time::ZERO, ReplicaId::new(from), &tokens);
            }
        }
        let leader = &mut self.replicas[0].verify;
        self.ruling = leader.proposal(Time::ZERO);
        self.ruling.iter().for_each(|ruling| leader.is_proposed(Time::ZERO, *ruling));
        Ok(())
    }

    /// Batches became final at both.
    fn become_final(&mut self, one: Vec<(Seq, Outcomes)>, other: &[(Seq, Outcomes)]) -> Outcome<()> {
        let differ = |((seq, own), (of, others)): (&(Seq, Outcomes), &(Seq, Outcomes))| {
            (seq, own.list(), own.arena()) != (of, others.list(), others.arena())
        };
        if one.len() != other.len() || one.iter().zip(other).any(differ) {
            return Err(Failure::new("the replicas made different results final"));
        }
        one.into_iter().try_for_each(|(seq, outcomes)| self.is_final(seq, &outcomes))
    }

    fn is_final(&mut self, seq: Seq, outcomes: &Outcomes) -> Outcome<()> {
        let Some(Open { raced, in_waves, redone }) = self.open.remove(&seq) else {
            self.sessions.extend(outcomes.list().iter().map(|outcome| outcome.session));
            return Ok(());
        };
        let mut wrong = false;
        for (client, (_, reply)) in outcomes.replies().enumerate() {
            let replies = Items::parse(reply.body).ok();
            let count = replies.as_ref().and_then(|list| list.iter().next()?.first_chunk());
            let Some(count) = count else {
                return Err(Failure::new(format!("a command was answered with {:?}", reply.status)));
            };
            wrong |= !self.told.counted(client, u64::from_le_bytes(*count));
        }
        let counts = &mut self.counts;
        counts.in_waves += u64::from(in_waves);
        counts.manifested += u64::from(raced);
        counts.masked += u64::from(redone && !wrong);
        counts.identical += u64::from(wrong && !redone);
        // Three things that were seen in different places: in the service's memory, in the order, and by clients.
        if raced != (redone || wrong) || redone && wrong {
            return Err(Failure::new(format!(
                "batch {seq}: commands raced: {raced}; it ran again: {redone}; clients were told something wrong: {wrong}; this does not fit together"
            )));
        }
        Ok(())
    }
}
