//! Many changes of the object store at once, beside the same changes one by one, on one core.
//!
//! `cargo bench -p quorate-state --bench bulk [-- --entries N] [--rounds N]`. What is printed are nanoseconds for each key, the least of the
//! rounds, since others on the machine only add to them, and ratios. With `--test`, and under `cargo test`, everything is small: that shows only that it runs.
//!
//! - The long runs are of keys in order, with values of 10 bytes, in a store that also has other keys. `held`: a version shares it.
//! - The short runs change a store of five times as many keys: keys side by side, or spread over all of them.
//!

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::time::Instant;

use quorate_state::store::{Change, Store, Version};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Key = Vec<u8>;

fn key(space: char, number: usize) -> Key {
    format!("{space}key/{number:08}").into_bytes()
}

fn one_by_one(store: &mut Store, changes: &[Change<'_>]) {
    for (key, value) in changes {
        match value {
            Some(value) => store.put(key, value),
            None => store.remove(key),
        };
    }
}

/// Keys in three spaces, of which `k` is the middle one.
fn store_of(entries: usize, step: usize) -> Store {
    let mut store = Store::new();
    for number in 0..entries {
        for space in ['a', 'z'] {
            store.put(&key(space, number), &[7; 10]);
        }
        if step != 0 {
            store.put(&key('k', number * step), &[7; 10]);
        }
    }
    store
}

/// What is measured: its name, whether a version is held, every which key of the run there is before, the value of the puts, if they are
/// puts.
type Case = (&'static str, bool, usize, Option<&'static [u8]>);

const CASES: [Case; 9] = [
    ("put, nothing there", false, 0, Some(&[8; 10])),
    ("put, every second there", false, 2, Some(&[8; 10])),
    ("put, every second there, held", true, 2, Some(&[8; 10])),
    ("overwrite", false, 1, Some(&[8; 10])),
    ("overwrite, longer", false, 1, Some(&[8; 40])),
    ("remove each", false, 1, None),
    ("remove each, held", true, 1, None),
    ("remove range", false, 1, None),
    ("remove range, held", true, 1, None),
];

/// Nanoseconds for each key, one by one and at once.
fn measure((name, held, step, value): Case, entries: usize) -> [f64; 2] {
    let keys: Vec<Key> = (0..entries).map(|number| key('k', number)).collect();
    let changes: Vec<Change<'_>> = keys.iter().map(|key| (&key[..], value)).collect();
    let mut roots = Vec::new();
    let times = [false, true].map(|at_once| {
        let mut store = store_of(entries, step);
        let version: Option<Version> = held.then(|| store.version());
        let start = Instant::now();
        match at_once {
            false => one_by_one(&mut store, &changes),
            true if name.starts_with("remove range") => drop(store.remove_range(b"k", Some(b"l"))),
            true => store.apply_sorted(&changes),
        }
        let time = start.elapsed().as_secs_f64();
        drop(version);
        roots.push(store.version().root());
        time * 1e9 / entries as f64
    });
    assert_eq!(roots[0], roots[1], "{name}");
    times
}

/// As [`measure`], for runs of so many keys, this far apart: first new keys, then the same ones overwritten, then removed.
fn measure_short(store: &mut Store, entries: usize, run: usize, apart: usize) -> [[f64; 2]; 3] {
    let runs = entries / run;
    let number = |at: usize, index: usize| (at * 7919 + index * apart) % (5 * entries);
    let new = |at, index| [&key('k', number(at, index))[..], b"+"].concat();
    let lists: Vec<Vec<Key>> = (0..runs)
        .map(|at| {
            let mut keys: Vec<Key> = (0..run).map(|index| new(at, index)).collect();
            keys.sort_unstable();
            keys
        })
        .collect();
    let values: [Option<&[u8]>; 3] = [Some(&[8; 10]), Some(&[9; 10]), None];
    let mut times = [[0.0; 2]; 3];
    for at_once in [false, true] {
        for (times, value) in times.iter_mut().zip(values) {
            let runs: Vec<Vec<Change<'_>>> =
                lists.iter().map(|keys| keys.iter().map(|key| (&key[..], value)).collect()).collect();
            let start = Instant::now();
            for changes in &runs {
                if at_once { store.apply_sorted(changes) } else { one_by_one(store, changes) }
            }
            times[usize::from(at_once)] = start.elapsed().as_secs_f64() * 1e9 / (runs.len() * run) as f64;
        }
    }
    times
}

fn report(name: &str, times: &[[f64; 2]]) {
    let [single, at_once] =
        [0, 1].map(|which| times.iter().map(|times| times[which]).fold(f64::MAX, f64::min));
    println!("{name:44}{single:>10.1}{at_once:>10.1}{:>9.2}x", single / at_once);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let after = |name: &str| arguments.iter().skip_while(|one| *one != name).nth(1).cloned();
    let number = |name: &str, default| after(name).and_then(|text| text.parse().ok()).unwrap_or(default);
    // `cargo bench` says so; `cargo test` does not.
    let full = arguments.iter().any(|one| one == "--bench") && !arguments.iter().any(|one| one == "--test");
    let entries: usize = number("--entries", if full { 200_000 } else { 2_000 });
    let rounds = number("--rounds", if full { 5 } else { 1 });
    println!("{entries} keys in a run, the least of {rounds} rounds, nanoseconds for each key");
    println!("{:44}{:>10}{:>10}{:>9}", "", "one by one", "at once", "ratio");
    for case in CASES {
        let times: Vec<_> = (0..rounds).map(|_| measure(case, entries)).collect();
        report(case.0, &times);
    }
    let mut store = Store::new();
    (0..5 * entries).for_each(|number| {
        store.put(&key('k', number), &[7; 10]);
    });
    for (run, apart) in [(1, 1), (3, 1), (10, 1), (100, 1), (3, 99_991), (10, 99_991), (100, 99_991)] {
        let times: Vec<_> = (0..rounds).map(|_| measure_short(&mut store, entries, run, apart)).collect();
        let spread = if apart == 1 { "side by side" } else { "spread" };
        for (kind, which) in [("new", 0), ("overwrite", 1), ("remove", 2)] {
            let times: Vec<_> = times.iter().map(|times| times[which]).collect();
            report(&format!("runs of {run}, {spread}, {kind}"), &times);
        }
    }
}
