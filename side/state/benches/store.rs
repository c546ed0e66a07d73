//! The object store beside std's `BTreeMap` and imbl's `OrdMap`: updates of existing keys in random order, on one core.
//!
//! `cargo bench -p quorate-state --bench store [-- --json] [--entries N] [--rounds N]
//! [--only SUBJECT] [--mode MODE]`. All take turns; what is printed are medians over
//! the rounds, and ratios. With `--test`, and under `cargo test`, everything is small: that shows only that it runs.
//!
//! - `updates`: nobody shares anything.
//! - `held`: a version (a clone) is held, and refreshed after every tenth of the entries.
//! - `roots`: a root after every hundredth of the entries, so after 10,000 updates of a million entries.
//! - `sorted`: as `updates`, in sorted batches of a hundredth; ours by `apply_sorted`.
//! - `load`: all entries, in random order, into an empty one.
//!
//! Time is what this thread spent on a core, where Linux tells, so that others on the machine disturb less.
//! Memory is that of a process of its own with nothing else: after `load`, and the most during `held`.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

use imbl::OrdMap;
use quorate_state::store::{Change, Store, Version};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Key = [u8; 16];
type Value = [u8; 64];

/// An ordered map that takes part.
trait Subject {
    fn put(&mut self, key: &Key, value: &Value);
    /// Overwrites the value of a key that it has.
    fn update(&mut self, key: &Key, value: &Value);
    fn update_sorted(&mut self, changes: &[(Key, Value)]) {
        for (key, value) in changes {
            self.update(key, value);
        }
    }
    /// Holds what there is now, instead of what it held. Whether it can.
    fn hold(&mut self) -> bool {
        false
    }
    fn root(&mut self) -> bool {
        false
    }
    fn release(&mut self) {}
}

#[derive(Default)]
struct Ours {
    store: Store,
    held: Option<Version>,
}

impl Subject for Ours {
    fn put(&mut self, key: &Key, value: &Value) {
        self.store.put(key, value);
    }
    fn update(&mut self, key: &Key, value: &Value) {
        self.store.put(key, value);
    }
    fn update_sorted(&mut self, changes: &[(Key, Value)]) {
        let changes: Vec<Change<'_>> =
            changes.iter().map(|(key, value)| (&key[..], Some(&value[..]))).collect();
        self.store.apply_sorted(&changes);
    }
    fn hold(&mut self) -> bool {
        self.held = Some(self.store.version());
        true
    }
    fn root(&mut self) -> bool {
        black_box(self.store.version().root());
        true
    }
    fn release(&mut self) {
        self.held = None;
    }
}

impl Subject for BTreeMap<Vec<u8>, Vec<u8>> {
    fn put(&mut self, key: &Key, value: &Value) {
        self.insert(key.to_vec(), value.to_vec());
    }
    fn update(&mut self, key: &Key, value: &Value) {
        if let Some(old) = self.get_mut(&key[..]) {
            old.copy_from_slice(value);
        }
    }
}

impl Subject for BTreeMap<Key, Value> {
    fn put(&mut self, key: &Key, value: &Value) {
        self.insert(*key, *value);
    }
    fn update(&mut self, key: &Key, value: &Value) {
        if let Some(old) = self.get_mut(key) {
            *old = *value;
        }
    }
}

/// A map and the clone that is held.
struct Persistent<K, V> {
    map: OrdMap<K, V>,
    held: Option<OrdMap<K, V>>,
}

impl<K, V> Default for Persistent<K, V> {
    fn default() -> Self {
        Self { map: OrdMap::default(), held: None }
    }
}

impl Subject for Persistent<Vec<u8>, Vec<u8>> {
    fn put(&mut self, key: &Key, value: &Value) {
        self.map.insert(key.to_vec(), value.to_vec());
    }
    fn update(&mut self, key: &Key, value: &Value) {
        if let Some(old) = self.map.get_mut(&key[..]) {
            old.copy_from_slice(value);
        }
    }
    fn hold(&mut self) -> bool {
        self.held = Some(self.map.clone());
        true
    }
    fn release(&mut self) {
        self.held = None;
    }
}

impl Subject for Persistent<Key, Value> {
    fn put(&mut self, key: &Key, value: &Value) {
        self.map.insert(*key, *value);
    }
    fn update(&mut self, key: &Key, value: &Value) {
        if let Some(old) = self.map.get_mut(key) {
            *old = *value;
        }
    }
    fn hold(&mut self) -> bool {
        self.held = Some(self.map.clone());
        true
    }
    fn release(&mut self) {
        self.held = None;
    }
}

/// Ours first: the ratios are ours over the others'.
const NAMES: [&str; 5] = ["quorate", "btreemap-vec", "btreemap-array", "ordmap-vec", "ordmap-array"];
const MODES: [&str; 5] = ["load", "updates", "sorted", "held", "roots"];

fn subject(name: &str) -> Box<dyn Subject> {
    match name {
        "quorate" => Box::new(Ours::default()),
        "btreemap-vec" => Box::new(BTreeMap::<Vec<u8>, Vec<u8>>::new()),
        "btreemap-array" => Box::new(BTreeMap::<Key, Value>::new()),
        "ordmap-vec" => Box::new(Persistent::<Vec<u8>, Vec<u8>>::default()),
        _ => Box::new(Persistent::<Key, Value>::default()),
    }
}

/// Marsaglia's xorshift64*, seeded: all runs do the same.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    fn key(&mut self) -> Key {
        (u128::from(self.next()) << 64 | u128::from(self.next())).to_be_bytes()
    }
    fn value(&mut self) -> Value {
        let mut value = [0; 64];
        value.as_chunks_mut::<8>().0.iter_mut().for_each(|word| *word = self.next().to_le_bytes());
        value
    }
}

struct Options {
    entries: usize,
    rounds: usize,
    json: bool,
    memory_of: Option<String>,
    only: Option<String>,
    mode: Option<String>,
}

impl Options {
    fn read() -> Self {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let after = |name: &str| arguments.iter().skip_while(|one| *one != name).nth(1).cloned();
        let number = |name: &str, default| after(name).and_then(|text| text.parse().ok()).unwrap_or(default);
        // `cargo bench` says so; `cargo test` does not.
        let full =
            arguments.iter().any(|one| one == "--bench") && !arguments.iter().any(|one| one == "--test");
        Self {
            entries: number("--entries", if full { 1_000_000 } else { 2_000 }),
            rounds: number("--rounds", if full { 5 } else { 1 }),
            json: arguments.iter().any(|one| one == "--json"),
            memory_of: after("--memory-of"),
            only: after("--only"),
            mode: after("--mode"),
        }
    }
}

/// Seconds that this thread was on a core; elsewhere than on Linux, seconds.
fn cpu_time() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|text| text.parse::<f64>().ok());
    nanoseconds.map_or_else(|| START.get_or_init(Instant::now).elapsed().as_secs_f64(), |time| time / 1e9)
}

/// One run of a mode: updates per second, or `None` if the subject can not do it or it took no time that can be measured.
fn run(subject: &mut dyn Subject, mode: &str, batches: &[Vec<(Key, Value)>]) -> Option<f64> {
    let can = match mode {
        "held" => subject.hold(),
        "roots" => subject.root(),
        _ => true,
    };
    if !can {
        return None;
    }
    let start = cpu_time();
    for (at, batch) in batches.iter().enumerate() {
        match mode {
            "load" => batch.iter().for_each(|(key, value)| subject.put(key, value)),
            "sorted" => subject.update_sorted(batch),
            _ => batch.iter().for_each(|(key, value)| subject.update(key, value)),
        }
        if mode == "roots" {
            subject.root();
        }
        if mode == "held" && at % 10 == 9 {
            subject.hold();
        }
    }
    let time = cpu_time() - start;
    subject.release();
    // The system counts in steps of a few milliseconds.
    (time > 0.0).then(|| batches.iter().map(Vec::len).sum::<usize>() as f64 / time)
}

/// Batches of updates of random keys, each a hundredth of the entries.
fn updates(keys: &[Key], numbers: &mut Numbers, sorted: bool) -> Vec<Vec<(Key, Value)>> {
    let batch = keys.len().div_ceil(100);
    let mut one = |_| {
        let key = |numbers: &mut Numbers| keys[numbers.next() as usize % keys.len()];
        let mut batch: Vec<_> = (0..batch).map(|_| (key(numbers), numbers.value())).collect();
        if sorted {
            batch.sort_unstable_by_key(|change| change.0);
        }
        batch
    };
    (0..100).map(&mut one).collect()
}

fn load(keys: &[Key], numbers: &mut Numbers) -> Vec<Vec<(Key, Value)>> {
    keys.chunks(10_000).map(|keys| keys.iter().map(|key| (*key, numbers.value())).collect()).collect()
}

fn median(mut of: Vec<f64>) -> Option<f64> {
    of.sort_unstable_by(f64::total_cmp);
    of.get(of.len() / 2).copied()
}

/// A number of kilobytes that Linux says about this process; 0 elsewhere.
fn memory(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// In a process of its own: bytes per entry after `load`, and the most during `held`.
fn measure_memory(name: &str, entries: usize) {
    let mut subject = subject(name);
    let (mut keys, mut numbers) = (Numbers(1), Numbers(2));
    let before = memory("VmRSS");
    for _ in 0..entries {
        subject.put(&keys.key(), &numbers.value());
    }
    let loaded = memory("VmRSS") - before;
    if subject.hold() {
        for at in 0..10 {
            let mut keys = Numbers(1);
            for _ in 0..entries {
                let key = keys.key();
                if numbers.next() % 10 == at {
                    subject.update(&key, &numbers.value());
                }
            }
            subject.hold();
        }
    }
    let bytes = |kilobytes: f64| kilobytes * 1024.0 / entries as f64;
    println!("{:.1} {:.1}", bytes(loaded), bytes(memory("VmHWM") - before));
}

fn memory_of(name: &str, entries: usize) -> Option<(f64, f64)> {
    let program = std::env::current_exe().ok()?;
    let arguments = ["--memory-of", name, "--entries", &entries.to_string()];
    let output = std::process::Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut numbers = text.split_whitespace().filter_map(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

fn main() {
    let options = Options::read();
    if let Some(name) = &options.memory_of {
        return measure_memory(name, options.entries);
    }
    let mut numbers = Numbers(1);
    let keys: Vec<Key> = (0..options.entries).map(|_| numbers.key()).collect();
    let names: Vec<&str> =
        NAMES.into_iter().filter(|name| options.only.as_ref().is_none_or(|only| only == name)).collect();
    let mut subjects: Vec<_> = names.iter().map(|name| subject(name)).collect();
    let mut rates = Vec::new();
    for mode in MODES {
        let mut of_mode = vec![Vec::new(); names.len()];
        let rounds = match options.mode.as_deref() {
            _ if mode == "load" => 1,
            Some(only) if only != mode => 0,
            _ => options.rounds,
        };
        for _ in 0..rounds {
            let batches = match mode {
                "load" => load(&keys, &mut numbers),
                _ => updates(&keys, &mut numbers, mode == "sorted"),
            };
            for (subject, rates) in subjects.iter_mut().zip(&mut of_mode) {
                rates.extend(run(subject.as_mut(), mode, &batches));
            }
        }
        rates.push(of_mode.into_iter().map(median).collect::<Vec<_>>());
    }
    let memory: Vec<_> = names.iter().map(|name| memory_of(name, options.entries)).collect();
    report(&options, &names, &rates, &memory);
}

/// A line for each subject and mode: how fast, and how many times as fast as that ours is.
fn report(options: &Options, names: &[&str], rates: &[Vec<Option<f64>>], memory: &[Option<(f64, f64)>]) {
    let Options { entries, rounds, json, .. } = options;
    if !json {
        println!("{entries} entries, medians of {rounds} rounds, million updates per second (ours / that)");
        print!("{:16}", "");
        MODES.iter().for_each(|mode| print!("{mode:>16}"));
        println!("{:>24}", "bytes/entry, most");
    }
    for (at, name) in names.iter().enumerate() {
        let line: Vec<_> = rates.iter().map(|rates| (rates[at], rates[0])).collect();
        if *json {
            let fields = MODES.iter().zip(&line).filter_map(|(mode, (rate, ours))| {
                Some(format!("\"{mode}\":{:.0},\"{mode}_ratio\":{:.3},", (*rate)?, ours.as_ref()? / (*rate)?))
            });
            let (loaded, most) = memory[at].unwrap_or_default();
            println!(
                "{{\"bench\":\"store\",\"subject\":\"{name}\",\"entries\":{entries},\"rounds\":{rounds},{}\
                 \"bytes_per_entry\":{loaded:.1},\"bytes_per_entry_most\":{most:.1}}}",
                fields.collect::<String>()
            );
            continue;
        }
        print!("{name:16}");
        for (rate, ours) in line {
            match (rate, ours) {
                (Some(rate), Some(ours)) => print!("{:>8.3} ({:>4.2}x)", rate / 1e6, ours / rate),
                _ => print!("{:>16}", "-"),
            }
        }
        let (loaded, most) = memory[at].unwrap_or_default();
        println!("{loaded:>16.0}{most:>8.0}");
    }
}
