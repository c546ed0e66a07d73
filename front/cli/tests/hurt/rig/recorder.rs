//! What all clients saw, on one clock, and how the store's commands are said in the words of a history.

use quorate::client::{Error, Replies};
use quorate_history::{Answer, Event, Op, Outcome, Writer};
use quorate_kv::{Condition, KvCommand, KvQuery, KvReply, Operation};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Shared by all clients of a test.
pub(crate) struct Recorder {
    start: Instant,
    stop: AtomicBool,
    /// Writes and strong reads that were answered.
    answered: AtomicU64,
    refused_full: AtomicU64,
    events: Mutex<Vec<Event>>,
    /// What no client may ever see, whatever the order of events.
    faults: Mutex<Vec<String>>,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            stop: AtomicBool::new(false),
            answered: AtomicU64::new(0),
            refused_full: AtomicU64::new(0),
            events: Mutex::default(),
            faults: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Acquire)
    }

    /// Calls that ended since the disks were full.
    pub(crate) fn refused_full(&self) -> u64 {
        self.refused_full.load(Ordering::Acquire)
    }

    pub(crate) fn push(&self, event: Event) {
        if matches!(event.outcome, Outcome::Ok { .. }) && event.op != Op::ReadWeak {
            self.answered.fetch_add(1, Ordering::AcqRel);
        }
        lock(&self.events).push(event);
    }

    pub(crate) fn fault(&self, text: String) {
        lock(&self.faults).push(text);
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        lock(&self.faults).clone()
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        lock(&self.events).clone()
    }

    /// The history as a file, for a person to read.
    pub(crate) fn write(&self, file: &Path) {
        let Ok(out) = std::fs::File::create(file) else { return };
        let mut writer = Writer::new(std::io::BufWriter::new(out));
        for event in lock(&self.events).iter() {
            if let Err(why) = writer.write(event) {
                println!("the history is not whole: {why}");
            }
        }
    }

    /// How a write ended that has no replies. What the client says did not run is recorded as such, so that a client that is
    /// wrong about it is found out.
    pub(crate) fn failed(&self, error: &Error) -> Outcome {
        let ret = Some(self.now());
        match error {
            Error::DiskFull { .. } => drop(self.refused_full.fetch_add(1, Ordering::AcqRel)),
            Error::SessionBroken { .. } => self.fault(format!("a session broke: {error}")),
            _ => {}
        }
        // Of ReplyForgotten it is known that they ran, though not what they answered.
        if error.is_outcome_unknown() || matches!(error, Error::ReplyForgotten) {
            Outcome::Unknown { ret }
        } else {
            Outcome::Fail { ret }
        }
    }

    /// Records how an operation ended.
    pub(crate) fn ended(&self, client: u64, key: &str, op: Op, call: u64, result: &Result<Replies, Error>) {
        let ret = self.now();
        let key = key.to_owned();
        let replies = match result {
            Ok(replies) => replies,
            Err(error) => {
                let outcome = self.failed(error);
                return self.push(Event { client, key, op, call, outcome });
            }
        };
        let reply = replies.first().map(KvReply::decode);
        let answer = match (&op, reply) {
            (Op::Put { .. }, Some(Ok(KvReply::Put { .. }))) => Answer::Done,
            (Op::Get, Some(Ok(KvReply::Value(value)))) => Answer::Value(value.map(text)),
            (Op::Delete, Some(Ok(KvReply::Deleted { existed }))) => Answer::Flag(existed),
            (Op::Cas { .. }, Some(Ok(KvReply::Swapped))) => Answer::Flag(true),
            (Op::Cas { .. }, Some(Ok(KvReply::NotSwapped { current }))) => {
                // It says what was there, which is more than that it was something else.
                let answer = Answer::Value(current.map(text));
                let (key, outcome) = (key.clone(), Outcome::Ok { ret, answer });
                self.push(Event { client, key, op: Op::Get, call, outcome });
                Answer::Flag(false)
            }
            (op, reply) => return self.fault(format!("{op} of {key} was answered with {reply:?}")),
        };
        self.push(Event { client, key, op, call, outcome: Outcome::Ok { ret, answer } });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The command that does what a history calls `op`.
pub(crate) fn command(key: &str, op: &Op) -> Vec<u8> {
    let key = key.as_bytes();
    let command = match op {
        Op::Put { value } => KvCommand::One(Operation::Put { key, value: value.as_bytes() }),
        Op::Delete => KvCommand::One(Operation::Delete { key }),
        Op::Cas { expect, value } => KvCommand::Swap {
            key,
            condition: expect
                .as_ref()
                .map_or(Condition::Absent, |expect| Condition::Equals(expect.as_bytes())),
            value: value.as_bytes(),
        },
        _ => KvCommand::One(Operation::Get { key }),
    };
    let mut bytes = Vec::new();
    command.encode(&mut bytes);
    bytes
}

pub(crate) fn get(key: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    KvQuery::Get { key: key.as_bytes() }.encode(&mut bytes);
    bytes
}
