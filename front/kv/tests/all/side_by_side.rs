//! The bookshop whose commands run side by side: replies and state are those of one command after the other.

use crate::shop::{SMALL, any_transaction};
use proptest::prelude::*;
use quorate_execute::{
    Ahead, AheadLimits, Execution, Executor, Final, InOrder, InStore, Outcomes, Parallel, Sequential,
    SessionLimits, Stopwatch, Work, Worked,
};
use quorate_kv::shop::{Shop, ShopCommand, Transaction};
use quorate_types::{AgreedTime, Items, ItemsBuilder, Random, RequestNumber, Seq, SessionId, Time};
use quorate_wire::{Batch, BatchHeader, RequestHeader, RequestKind, RequestProof};

const SHOPPERS: u32 = 6;
const AHEAD: Ahead = Ahead {
    workers: 3,
    long: 40_000,
    limits: AheadLimits { planned: 4096, held_bytes: 128 << 20, finals: 1024, items: 4096, bytes: 64 << 20 },
};

/// By which every request is long, so all run on workers.
struct Long(u64);

impl Stopwatch for Long {
    fn nanos(&mut self) -> u64 {
        self.0 += 100_000;
        self.0
    }
}

fn executor() -> Executor {
    let service = Box::new(InStore::new(Parallel::new(Shop)));
    Executor::new(service, SessionLimits::default(), AgreedTime::ZERO)
}

/// A batch of requests: session, number, kind and body.
fn batch(number: u64, requests: &[(SessionId, u64, RequestKind, Vec<u8>)]) -> Batch {
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    for (session, number, kind, body) in requests {
        let number = RequestNumber::new(*number);
        let (len, proof) = (body.len() as u32, RequestProof::None);
        RequestHeader { session: *session, number, lowest_unanswered: number, kind: *kind, len, proof }
            .write_to(&mut bytes);
        bytes.extend_from_slice(body);
    }
    let (time, count) = (AgreedTime::from_nanos(number), requests.len() as u32);
    let sealed = Batch::seal(bytes, BatchHeader { time, seed: number, count, ..BatchHeader::default() });
    Batch::decode(sealed.bytes().clone()).expect("a batch")
}

fn list(transactions: &[Transaction]) -> Vec<u8> {
    let mut builder = ItemsBuilder::new();
    for what in transactions {
        builder.push(&ShopCommand { sleep_us: 0, rounds: 0, what: *what }.encode());
    }
    let mut body = Vec::new();
    builder.write_to(&mut body);
    assert!(Items::parse(&body).is_ok());
    body
}

fn deliver(stage: &mut (dyn Execution + 'static), seq: Seq, batch: Batch) {
    stage.batch(seq, batch);
}

fn finals(stage: &mut dyn Execution, all: &mut Vec<String>) {
    let mut outcomes = Outcomes::new();
    while let Some(done) = stage.next(Time::ZERO, &mut outcomes) {
        if let Final::Batch(seq) = done {
            all.push(format!("{seq} {:?} {:?}", outcomes.list(), outcomes.arena()));
        }
    }
}

/// Lets workers take and answer in any order.
fn turn(stage: &mut dyn Execution, given: &mut Vec<Work>, answers: &mut Vec<Worked>, random: &mut Random) {
    given.extend(std::iter::from_fn(|| stage.work()));
    for _ in 0..random.below(8) {
        if !given.is_empty() && random.below(2) == 0 {
            let work = given.swap_remove(random.below(given.len() as u64) as usize);
            answers.push(work.run(&mut Long(0)));
        } else if !answers.is_empty() {
            stage.worked(answers.swap_remove(random.below(answers.len() as u64) as usize));
        }
        given.extend(std::iter::from_fn(|| stage.work()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn side_by_side_is_as_one_after_the_other(
        batches in prop::collection::vec(prop::collection::vec(any_transaction(), 0..30), 1..8),
        seed in any::<u64>(),
    ) {
        let mut random = Random::new(seed);
        let mut one = Sequential::new(executor());
        let mut other = InOrder::new(executor(), AHEAD, Box::new(Long(0))).ok().expect("it is parallel");
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        let (mut given, mut answers) = (Vec::new(), Vec::new());
        let session = |index| SessionId { index, generation: 1 };
        let mut numbers = [0_u64; SHOPPERS as usize];
        let opening = (0..SHOPPERS)
            .map(|client| (SessionId::NONE, 1, RequestKind::OpenSession, u64::from(client).to_le_bytes().to_vec()))
            .collect();
        let mut all = vec![opening, vec![(session(0), 1, RequestKind::Commands, list(&[Transaction::Open(SMALL)]))]];
        numbers[0] = 1;
        for transactions in batches {
            let mut requests = Vec::new();
            for (at, pair) in transactions.chunks(2).enumerate() {
                let shopper = (at as u32) % SHOPPERS;
                numbers[shopper as usize] += 1;
                requests.push((session(shopper), numbers[shopper as usize], RequestKind::Commands, list(pair)));
            }
            all.push(requests);
        }
        for (number, requests) in (1..).zip(&all) {
            let seq = Seq::new(number);
            deliver(&mut one, seq, batch(number, requests));
            deliver(&mut other, seq, batch(number, requests));
            finals(&mut one, &mut expected);
            for _ in 0..random.below(3) {
                turn(&mut other, &mut given, &mut answers, &mut random);
                finals(&mut other, &mut found);
            }
        }
        for _ in 0..10_000 {
            if !other.is_behind() {
                break;
            }
            turn(&mut other, &mut given, &mut answers, &mut random);
            finals(&mut other, &mut found);
        }
        prop_assert!(!other.is_behind(), "something is never final");
        prop_assert_eq!(expected, found);
        let image = |stage: &mut dyn Execution| {
            let image = stage.state_mut().image().expect("it gives its state");
            (image.system, image.objects.root())
        };
        prop_assert!(image(&mut one) == image(&mut other), "another state");
        let ran = other.parallelism().expect("it is parallel");
        // Few requests may all be for the lane.
        let asked: usize = all[2..].iter().map(Vec::len).sum();
        prop_assert!(ran.adopted > 0 || asked < 10, "workers ran nothing: {:?}", ran);
    }
}
