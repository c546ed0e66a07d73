//! What the merge costs for each batch. The example does not look at a clock: run it under a tool that counts instructions, with two
//! numbers of batches, and divide the difference.
//!
//! `valgrind --tool=callgrind target/release/examples/cost 1 100000 busy`
//!
//! Arguments: how many instances; how many batches; `busy`: all instances have work, `skewed`: only the last one has, `none`: the batches
//! pass through a queue without a merge, for comparison.

use quorate_merge::{Config, Decided, Delivered, Leader, Merge, RecordIndex};
use quorate_types::{InstanceId, Slot, Time};
use std::collections::VecDeque;

/// As large as a batch is for the host: a shared buffer and where the batch lies in it.
type Payload = [u64; 4];

/// How many batches of an instance are under way at once.
const AHEAD: u64 = 4;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    let (Some(instances), Some(batches), Some(load)) = (number(0), number(1), words.get(2)) else {
        eprintln!("usage: cost INSTANCES BATCHES busy|skewed|none");
        std::process::exit(2);
    };
    let (delivered, checksum) = match &**load {
        "none" => queue(batches),
        load => merge(instances as u16, batches, load == "busy"),
    };
    println!("{delivered} batches, {checksum}");
}

fn queue(batches: u64) -> (u64, u64) {
    let (mut queue, mut checksum) = (VecDeque::<Payload>::new(), 0);
    for number in 0..batches {
        queue.push_back([number; 4]);
        if let Some(payload) = std::hint::black_box(&mut queue).pop_front() {
            checksum ^= payload[3];
        }
    }
    (batches, checksum)
}

/// One replica that leads all instances: it proposes, its proposals and no-ops are decided, and it executes.
fn merge(instances: u16, batches: u64, busy: bool) -> (u64, u64) {
    let config = Config { window: 256, held_bytes_max: 1 << 20 };
    let mut merge: Merge<Payload> = Merge::new(config, instances).expect("a sound configuration");
    let all: Vec<InstanceId> = (1..=instances).map(InstanceId::new).collect();
    for whom in &all {
        merge.leader(*whom, Leader::Here);
        merge.settled(*whom);
    }
    let working = if busy { &all[..] } else { &all[all.len() - 1..] };
    let mut records = vec![0; all.len()];
    let mut decide = |merge: &mut Merge<Payload>, whom: InstanceId, what: Decided<Payload>| {
        let record = &mut records[usize::from(whom.number()) - 1];
        *record += 1;
        merge.decided(whom, RecordIndex(*record), what).expect("an honest record");
    };
    let mut noops = vec![None; all.len()];
    let (mut delivered, mut checksum, mut number) = (0, 0, 0);
    while delivered < batches {
        // A turn: every instance with work proposes some batches, the others fill.
        for whom in working {
            for _ in 0..AHEAD.min(merge.room(*whom)) {
                merge.proposed(*whom);
            }
        }
        for whom in &all {
            noops[usize::from(whom.number()) - 1] = merge.fill(*whom);
        }
        merge.asks(|_, _| ());
        for (at, whom) in all.iter().enumerate() {
            if let Some(target) = noops[at] {
                decide(&mut merge, *whom, Decided::Noop { target: Slot::new(target.number()) });
            }
        }
        for _ in 0..AHEAD {
            for whom in working {
                number += 1;
                decide(&mut merge, *whom, Decided::Batch { payload: [number; 4], bytes: 64 });
                while let Some(piece) = std::hint::black_box(&mut merge).next(Time::ZERO) {
                    if let Delivered::Batch { payload, .. } = piece {
                        delivered += 1;
                        checksum ^= payload[3];
                    }
                }
            }
        }
    }
    (delivered, checksum)
}
