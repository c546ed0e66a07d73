//! What figures share: putting a state, and recording every call.

use super::FigureArgs;
use super::marks::Seen;
use super::samples::Samples;
use crate::bench::kv;
use crate::bench::load::{self, Call, Observe, Work};
use crate::bench::target::Target;
use quorate::client::{Answer, Commands};
use quorate_command::failure::{Failure, Outcome};
use quorate_kv::{KvCommand, Operation};
use std::ops::Range;
use std::time::{Duration, Instant};

pub(in crate::bench) const KEY_BYTES: usize = 16;
/// How many calls put the state at the same time, and how large each is.
const FILL_SLOTS: usize = 8;
const FILL_CALL_BYTES: usize = 128 << 10;
/// How long checkpoints that the filling began may take to end.
const SETTLE: Duration = Duration::from_secs(120);

/// The number of keys of the state.
pub(super) fn keys(args: &FigureArgs) -> u64 {
    (args.state_bytes / (KEY_BYTES + args.value_bytes) as u64).max(1)
}

/// Puts every key of these numbers once.
pub(in crate::bench) fn put_there(
    target: &mut Target,
    keys: Range<u64>,
    value_bytes: usize,
    title: &str,
) -> Outcome<()> {
    let mut filling = Filling::new(keys, value_bytes);
    let calls = filling.calls();
    load::fill(target, FILL_SLOTS, calls, &mut filling, title)
}

/// Waits until this many followers have everything, and no replica writes a checkpoint.
pub(in crate::bench) fn settle(target: &mut Target, followers: usize) -> Outcome<()> {
    let until = Instant::now() + SETTLE;
    loop {
        target.check()?;
        let writing = target.replicas.iter().any(|replica| {
            let status = target.client.status(*replica).ok();
            status.as_deref().and_then(Seen::of).is_some_and(|seen| seen.writing.is_some())
        });
        if !writing && target.followers() >= followers {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(Failure::new(format!(
                "the replicas are still busy with the state {} s after it was put there",
                SETTLE.as_secs()
            )));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Every call of a window.
pub(super) struct Recorder {
    pub(super) length: Duration,
    pub(super) samples: Option<Samples>,
}

impl Observe for Recorder {
    fn begins(&mut self, at: Instant) {
        self.samples = Some(Samples::new(at, self.length));
    }

    fn answered(&mut self, sent: Instant, at: Instant) {
        if let Some(samples) = &mut self.samples {
            samples.add(sent, at);
        }
    }
}

/// Puts each key once, many in each call.
struct Filling {
    keys: Range<u64>,
    per_call: u64,
    random: kv::Random,
    value: Vec<u8>,
    command: Vec<u8>,
    commands: Commands,
}

impl Filling {
    fn new(keys: Range<u64>, value_bytes: usize) -> Self {
        Self {
            keys,
            per_call: (FILL_CALL_BYTES / (KEY_BYTES + value_bytes)).max(1) as u64,
            random: kv::Random(2),
            value: vec![0; value_bytes],
            command: Vec::new(),
            commands: Commands::new(),
        }
    }

    fn calls(&self) -> u64 {
        (self.keys.end - self.keys.start).div_ceil(self.per_call)
    }
}

impl Work for Filling {
    fn next(&mut self, _: usize) -> Call {
        self.commands.clear();
        let end = (self.keys.start + self.per_call).min(self.keys.end);
        for number in self.keys.start..end {
            self.random.fill(&mut self.value);
            self.command.clear();
            let key = kv::key(number);
            KvCommand::One(Operation::Put { key: &key, value: &self.value }).encode(&mut self.command);
            self.commands.push(&self.command);
        }
        self.keys.start = end;
        Call::Commands(self.commands.encode())
    }

    fn answered(&mut self, _: usize, answer: &Answer) -> Outcome<()> {
        match answer {
            Answer::Replies(replies) => replies.iter().try_for_each(kv::check_put),
            Answer::Read(_) => Err(Failure::new("puts were answered like a read")),
        }
    }
}
