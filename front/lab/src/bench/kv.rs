//! `bench kv`: many callers, each with a session and one put outstanding, or one read; small random keys and values.
//!
//! At the end a sample of the keys must have the same value on every replica. Reads find what was put there before.

use super::figure::filling::put_there;
use super::load::{self, Call, Plan, Work};
use super::options::{KvArgs, KvOperation};
use super::output::Output;
use super::report::{Check, Subject};
use super::series::{self, Series};
use super::target::Target;
use super::temporary::executes;
use quorate::client::{Answer, Encoded, ReadOptions};
use quorate_command::arguments::seconds;
use quorate_command::execution::ExecutionChoice;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::ServiceChoice;
use quorate_floor::Config as FloorConfig;
use quorate_kv::{KvCommand, KvQuery, KvReply, Operation};
use std::time::{Duration, Instant};

/// How many keys are compared on all replicas at the end.
const SAMPLE: usize = 100;
const CATCH_UP: Duration = Duration::from_secs(20);
const VALUE_BYTES_MAX: usize = 64 << 10;

pub(super) fn run(args: &KvArgs, output: &Output) -> Outcome {
    let (subject, floor) = subject(args)?;
    Series { measurement: &args.measurement, subject, floor, output }.run(|title| measure(args, title))
}

/// What is measured, and the null program beside it.
pub(super) fn subject(args: &KvArgs) -> Outcome<(Subject, FloorConfig)> {
    args.measurement.check()?;
    if !(1..=10_000).contains(&args.callers) {
        return Err(Failure::usage("--callers is 1 to 10000: a client may have no more sessions"));
    }
    if args.keys == 0 || args.value_bytes > VALUE_BYTES_MAX {
        return Err(Failure::usage("--keys is at least 1, --value-bytes at most 65536"));
    }
    let execution = args.execution.choice(ServiceChoice::Kv)?;
    let is_usual = execution == ExecutionChoice::default();
    if !is_usual && !args.measurement.own_cluster() {
        return Err(Failure::usage(
            "--executor, --workers and --verify are for a cluster that is started for this: leave them out, or --dir and --config",
        ));
    }
    let executed = if is_usual { String::new() } else { format!("; executed {execution}") };
    let command_bytes = 16 + args.value_bytes.max(1);
    let window = args.callers as u64;
    let floor = FloorConfig { window, command_bytes, ..series::floor_config(&args.measurement) };
    let (what, one, unit) = match args.operation {
        KvOperation::Put => ("puts", "put", "puts"),
        KvOperation::Read => ("strong reads", "read", "reads"),
        KvOperation::WeakRead => ("weak reads", "read", "reads"),
    };
    let subject = Subject {
        benchmark: "kv",
        payload: format!("{what} of {} B under 16 B, {} keys", args.value_bytes, args.keys),
        load: format!("{} callers, one {one} outstanding each, 1 client{executed}", args.callers),
        unit,
    };
    Ok((subject, floor))
}

pub(super) fn measure(args: &KvArgs, title: &str) -> Outcome<series::Run> {
    let settings = executes(args.execution.choice(ServiceChoice::Kv)?);
    let mut target = Target::configured(&args.measurement, ServiceChoice::Kv, settings)?;
    let plan = Plan {
        sessions: args.callers,
        slots: args.callers,
        commands_per_call: 1,
        warm: Duration::from_secs_f64(args.measurement.warm),
        measure: seconds("--secs", args.measurement.secs)?,
    };
    let mut puts = Puts::new(args.keys, args.value_bytes);
    let options = match args.operation {
        KvOperation::Put => {
            let measured = load::run(&mut target, &plan, &mut puts, title)?;
            let check = verify(&target, &puts.sample)?;
            return Ok(series::Run::new(&target, measured, check));
        }
        KvOperation::Read => ReadOptions::STRONG,
        KvOperation::WeakRead => ReadOptions::WEAK,
    };
    put_there(&mut target, 0..args.keys, args.value_bytes, "Putting the keys there")?;
    let sample: Vec<[u8; 16]> = (0..args.keys.min(SAMPLE as u64)).map(key).collect();
    let check = verify(&target, &sample)?;
    let mut gets = Gets { random: Random(1), keys: args.keys, value_bytes: args.value_bytes, options };
    let measured = load::run(&mut target, &plan, &mut gets, title)?;
    Ok(series::Run::new(&target, measured, check))
}

/// Reads of random keys, all of which have a value.
struct Gets {
    random: Random,
    keys: u64,
    value_bytes: usize,
    options: ReadOptions,
}

impl Work for Gets {
    fn next(&mut self, _: usize) -> Call {
        let mut query = Vec::new();
        KvQuery::Get { key: &key(self.random.next() % self.keys) }.encode(&mut query);
        Call::Read(query, self.options)
    }

    fn answered(&mut self, _: usize, answer: &Answer) -> Outcome<()> {
        match KvReply::decode(answer.first().unwrap_or_default()) {
            Ok(KvReply::Value(Some(value))) if value.len() == self.value_bytes => Ok(()),
            other => {
                Err(Failure::new(format!("a read of a key that has a value was answered with {other:?}")))
            }
        }
    }
}

pub(super) struct Puts {
    random: Random,
    keys: u64,
    value: Vec<u8>,
    command: Vec<u8>,
    /// The first keys that were put.
    pub(super) sample: Vec<[u8; 16]>,
}

impl Puts {
    pub(super) fn new(keys: u64, value_bytes: usize) -> Self {
        Self { random: Random(1), keys, value: vec![0; value_bytes], command: Vec::new(), sample: Vec::new() }
    }
}

impl Work for Puts {
    fn next(&mut self, _: usize) -> Call {
        let key = key(self.random.next() % self.keys);
        if self.sample.len() < SAMPLE {
            self.sample.push(key);
        }
        self.random.fill(&mut self.value);
        self.command.clear();
        KvCommand::One(Operation::Put { key: &key, value: &self.value }).encode(&mut self.command);
        Call::Commands(Encoded::one(&self.command))
    }

    fn answered(&mut self, _: usize, answer: &Answer) -> Outcome<()> {
        check_put(answer.first().unwrap_or_default())
    }
}

/// Refuses a reply that is none to a put.
pub(super) fn check_put(reply: &[u8]) -> Outcome<()> {
    match KvReply::decode(reply) {
        Ok(KvReply::Put { .. }) => Ok(()),
        other => {
            Err(Failure::new(format!("a put was answered with {other:?}: is the cluster's service \"kv\"?")))
        }
    }
}

/// A random number generator that only has to be fast and even: splitmix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

/// The key with this number: random bytes, the same in every run.
pub(super) fn key(number: u64) -> [u8; 16] {
    let mut random = Random(number);
    let mut key = [0; 16];
    key[..8].copy_from_slice(&random.next().to_le_bytes());
    key[8..].copy_from_slice(&random.next().to_le_bytes());
    key
}

/// Reads the sample strongly, and then from each replica until it agrees.
pub(super) fn verify(target: &Target, sample: &[[u8; 16]]) -> Outcome<Check> {
    let client = target.client.client();
    let read = |key: &[u8; 16], options| {
        let mut query = Vec::new();
        KvQuery::Get { key }.encode(&mut query);
        client.read(query, options)
    };
    let strong: Vec<_> = sample.iter().map(|key| Box::pin(read(key, ReadOptions::STRONG))).collect();
    let mut expected = Vec::new();
    for answer in load::all(strong) {
        let answer = answer.map_err(|why| Failure::new(format!("can not read the sample: {why}")))?;
        if !matches!(KvReply::decode(&answer.body), Ok(KvReply::Value(Some(_)))) {
            return Ok(Check::failed("a key that was put has no value"));
        }
        expected.push(answer.body);
    }
    let until = Instant::now() + CATCH_UP;
    for replica in &target.replicas {
        let options = ReadOptions {
            replica: Some(*replica),
            timeout: Some(Duration::from_secs(2)),
            ..ReadOptions::WEAK
        };
        loop {
            let weak: Vec<_> = sample.iter().map(|key| Box::pin(read(key, options))).collect();
            let answers = load::all(weak);
            let equal = answers.iter().zip(&expected).filter(|(a, b)| a.as_ref().is_ok_and(|a| a.body == *b));
            let equal = equal.count();
            if equal == expected.len() {
                break;
            }
            if Instant::now() >= until {
                return Ok(Check::failed(format!(
                    "{replica} agrees on {equal} of {} keys only",
                    expected.len()
                )));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(Check::passed(format!("{} keys have one value on every replica", expected.len())))
}
