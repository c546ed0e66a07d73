//! Clients at work on a few keys: some wait for each answer, some have several requests under way in one session.
//!
//! Every value is written once, so that the checkers can tell which write a read saw.

use super::chains;
use super::cluster::{Cluster, LIMIT, REPLICAS};
use super::random::Random;
use super::recorder::{self, Recorder};
use quorate::client::{
    BlockingClient, BlockingSession, CompletionQueue, Encoded, Error, ReadConsistency, ReadOptions,
    ReplicaId, Replies, Seq,
};
use quorate_history::{Answer, Event, Op, Outcome};
use quorate_kv::KvReply;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What clients do.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// Clients that wait for each answer.
    pub(crate) waiting: u64,
    /// Clients with several requests under way.
    pub(crate) pipelined: u64,
    /// Clients that append to chains.
    pub(crate) chains: u64,
    pub(crate) keys: u64,
    /// Between two operations of a client, at most.
    pub(crate) pause: Duration,
    /// So many bytes are added to values.
    pub(crate) padding: usize,
    /// Reads go to the replicas up to this one.
    pub(crate) replicas: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            waiting: 8,
            pipelined: 2,
            chains: 2,
            keys: 10,
            pause: Duration::from_millis(8),
            padding: 0,
            replicas: REPLICAS as u64,
        }
    }
}

/// Clients that run until [`Load::stop`].
pub(crate) struct Load {
    pub(crate) recorder: Arc<Recorder>,
    threads: Vec<JoinHandle<()>>,
    history: PathBuf,
}

impl Load {
    pub(crate) fn start(cluster: &Cluster, plan: Plan, random: &mut Random) -> Self {
        let recorder = Arc::new(Recorder::new());
        let mut threads = Vec::new();
        for number in 0..plan.waiting + plan.pipelined + plan.chains {
            // Some give up soon, and do not know what became of their writes; others wait long enough to know.
            let timeout = if number % 3 == 0 { Duration::from_millis(250) } else { Duration::from_secs(10) };
            let worker = Worker {
                recorder: recorder.clone(),
                client: cluster.client(timeout),
                number,
                random: random.fork(),
                plan,
                values: 0,
                known: BTreeMap::new(),
                seen: BTreeMap::new(),
            };
            let run = match number {
                _ if number < plan.waiting => Worker::run_waiting,
                _ if number < plan.waiting + plan.pipelined => Worker::run_pipelined,
                _ => Worker::run_chains,
            };
            let spawned =
                std::thread::Builder::new().name(format!("client-{number}")).spawn(move || run(worker));
            threads.push(spawned.unwrap());
        }
        Self { recorder, threads, history: cluster.root().join("history.jsonl") }
    }

    /// Waits until so many more operations were answered.
    pub(crate) fn wait_for_progress(&self, more: u64, cluster: &mut Cluster) {
        let (from, until) = (self.recorder.answered(), Instant::now() + LIMIT);
        while self.recorder.answered() < from + more {
            cluster.check_all_running();
            if Instant::now() >= until {
                let tails: Vec<String> = cluster.all().into_iter().map(|at| cluster.tail(at)).collect();
                let progress = self.recorder.answered() - from;
                panic!(
                    "{progress} of {more} operations in {LIMIT:?}; last printed:\n{}",
                    tails.join("\n---\n")
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops all clients and waits for them.
    pub(crate) fn stop(&mut self) {
        self.recorder.stop();
        for thread in self.threads.drain(..) {
            thread.join().expect("a client does not panic");
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.recorder.stop();
        if std::thread::panicking() {
            self.recorder.write(&self.history);
            println!("what clients saw until then: {}", self.history.display());
        }
    }
}

/// One client, on a thread of its own.
pub(crate) struct Worker {
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) client: BlockingClient,
    pub(crate) number: u64,
    pub(crate) random: Random,
    pub(crate) plan: Plan,
    values: u64,
    /// What it saw last under a key, so that a cas has a chance.
    known: BTreeMap<String, Option<String>>,
    /// By operation under way.
    seen: BTreeMap<u64, (String, Op, u64)>,
}

impl Worker {
    /// A session; none when the clients are to stop.
    pub(crate) fn open(&self) -> Option<BlockingSession> {
        while !self.recorder.is_stopped() {
            match self.client.open_session() {
                Ok(session) => return Some(session),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        None
    }

    pub(crate) fn rest(&mut self) {
        let most = self.plan.pause.as_micros() as u64;
        std::thread::sleep(Duration::from_micros(self.random.below(most)));
    }

    fn key(&mut self) -> String {
        format!("k{}", self.random.below(self.plan.keys))
    }

    fn value(&mut self) -> String {
        self.values += 1;
        format!("{}.{}{}", self.number, self.values, "-".repeat(self.plan.padding))
    }

    /// What goes through the session.
    fn choose(&mut self) -> (String, Op) {
        let key = self.key();
        let op = match self.random.below(10) {
            0..=3 => Op::Put { value: self.value() },
            4 => Op::Delete,
            5..=7 => {
                let expect = self.known.get(&key).cloned().flatten();
                Op::Cas { expect, value: self.value() }
            }
            _ => Op::Get,
        };
        (key, op)
    }

    fn learn(&mut self, key: &str, op: &Op, result: &Result<Replies, Error>) {
        let Ok(replies) = result else { return };
        let now = match (op, replies.first().map(KvReply::decode)) {
            (Op::Put { value }, _) | (Op::Cas { value, .. }, Some(Ok(KvReply::Swapped))) => {
                Some(value.clone())
            }
            (_, Some(Ok(KvReply::Value(value) | KvReply::NotSwapped { current: value }))) => {
                value.map(recorder::text)
            }
            _ => None,
        };
        self.known.insert(key.to_owned(), now);
    }

    fn run_waiting(mut self) {
        let mut read_seq = Seq::ZERO;
        while let Some(session) = self.open() {
            while !self.recorder.is_stopped() {
                self.rest();
                if self.random.percent(35) {
                    self.read(&mut read_seq);
                    continue;
                }
                let (key, op) = self.choose();
                let call = self.recorder.now();
                let result = session.call_one(&recorder::command(&key, &op));
                self.learn(&key, &op, &result);
                self.recorder.ended(self.number, &key, op, call, &result);
                if result.is_err_and(|error| is_over(&error)) {
                    break;
                }
            }
        }
    }

    /// A read past the session: strong through any replica or one of them, or weak through one.
    fn read(&mut self, read_seq: &mut Seq) {
        let key = self.key();
        let replica = Some(ReplicaId::new(self.random.between(1, self.plan.replicas) as u16));
        let short = Some(Duration::from_millis(700));
        let (op, options) = match self.random.below(4) {
            0 | 1 => (Op::Get, ReadOptions::STRONG),
            2 => (Op::Get, ReadOptions { replica, timeout: short, ..ReadOptions::STRONG }),
            _ => (Op::ReadWeak, ReadOptions { replica, timeout: short, ..ReadOptions::SESSION }),
        };
        let call = self.recorder.now();
        let result = self.client.read(recorder::get(&key), options);
        let ret = self.recorder.now();
        let outcome = match &result {
            Err(_) => Outcome::Fail { ret: Some(ret) },
            Ok(read) => {
                if read.seq < *read_seq && options.consistency == ReadConsistency::Session {
                    let text = format!("client {} read seq {} after {}", self.number, read.seq, *read_seq);
                    self.recorder.fault(text);
                }
                *read_seq = read.seq.max(*read_seq);
                match KvReply::decode(&read.body) {
                    Ok(KvReply::Value(value)) => {
                        Outcome::Ok { ret, answer: Answer::Value(value.map(recorder::text)) }
                    }
                    other => return self.recorder.fault(format!("a get was answered with {other:?}")),
                }
            }
        };
        self.recorder.push(Event { client: self.number, key, op, call, outcome });
    }

    fn run_pipelined(mut self) {
        const UNDER_WAY: usize = 6;
        let (queue, mut batch, mut tag) = (CompletionQueue::new(), Vec::new(), 0);
        while let Some(session) = self.open() {
            let mut over = false;
            while !(self.seen.is_empty() && (over || self.recorder.is_stopped())) {
                while self.seen.len() < UNDER_WAY && !over && !self.recorder.is_stopped() {
                    let (key, op) = self.choose();
                    let command = Encoded::one(&recorder::command(&key, &op));
                    self.seen.insert(tag, (key, op, self.recorder.now()));
                    self.client.client().submit(session.session(), command, tag, &queue);
                    tag += 1;
                }
                queue.recv_batch(&mut batch, Duration::from_millis(100));
                for completed in batch.drain(..) {
                    let (key, op, call) = self.seen.remove(&completed.tag).expect("each tag ends once");
                    let result = completed.result.map(|answer| match answer {
                        quorate::client::Answer::Replies(replies) => replies,
                        quorate::client::Answer::Read(_) => unreachable!("only calls go through this queue"),
                    });
                    self.learn(&key, &op, &result);
                    self.recorder.ended(self.number, &key, op, call, &result);
                    over |= result.is_err_and(|error| is_over(&error));
                }
                (0..3).for_each(|_| self.rest());
            }
        }
    }

    fn run_chains(self) {
        chains::run(self);
    }
}

/// Whether the session is of no use any more.
pub(crate) fn is_over(error: &Error) -> bool {
    matches!(error, Error::SessionExpired { .. } | Error::SessionBroken { .. } | Error::SessionClosed)
}
