//! A network that repeats, delays and reorders: each request of a session still runs once, in order, and is answered
//! alike each time.

use crate::support::{Ask, Replica, commands, list};
use proptest::collection::vec;
use proptest::prelude::*;
use quorate_execute::{Random, SessionLimits};
use quorate_wire::ReplyStatus;
use std::collections::BTreeMap;

const REQUESTS: u64 = 60;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Each client sends its requests again until it has all answers; what arrives is shuffled, and copies turn up late.
    #[test]
    fn every_request_runs_once(seed in any::<u64>(), clients in 1..4usize, sizes in vec(1..5usize, 8)) {
        let mut random = Random::new(seed);
        let mut replica = Replica::new(SessionLimits::default());
        let sessions: Vec<_> = (0..clients as u64).map(|client| replica.opened(client, 7)).collect();
        let mut answers: Vec<BTreeMap<u64, Vec<u8>>> = vec![BTreeMap::new(); clients];
        let mut late: Vec<(usize, Ask)> = vec![];
        let mut rounds = 0;
        while answers.iter().any(|answers| answers.len() < REQUESTS as usize) {
            rounds += 1;
            prop_assert!(rounds < 4000, "the clients never get through");
            let mut sent = vec![];
            for (client, session) in sessions.iter().enumerate() {
                let lowest = (1..).find(|number| !answers[client].contains_key(number)).unwrap();
                for number in lowest..(lowest + 6).min(REQUESTS + 1) {
                    let text = [client as u8, number as u8];
                    let list = vec![&text[..]; sizes[number as usize % sizes.len()]];
                    sent.push((client, commands(*session, number, lowest, &list)));
                }
            }
            late.extend(sent.iter().filter(|_| random.below(4) == 0).cloned().collect::<Vec<_>>());
            while !late.is_empty() && random.below(2) == 0 {
                sent.push(late.swap_remove(random.below(late.len() as u64) as usize));
            }
            for at in (1..sent.len()).rev() {
                sent.swap(at, random.below(at as u64 + 1) as usize);
            }
            sent.truncate(1 + random.below(sent.len() as u64) as usize);
            let asks: Vec<Ask> = sent.iter().map(|(_, ask)| ask.clone()).collect();
            for ((client, ask), seen) in sent.iter().zip(replica.run(0, &asks)) {
                if seen.status == ReplyStatus::Done {
                    let first = answers[*client].entry(ask.number).or_insert_with(|| seen.body.clone());
                    prop_assert_eq!(&*first, &seen.body, "answered differently the second time");
                }
            }
        }
        // Every command ran once: the service numbered the commands it ran, and each number occurs in one answer.
        let mut ran = vec![];
        for answers in &answers {
            let mut before = None;
            for (number, body) in answers {
                for reply in list(body) {
                    let count = u64::from_le_bytes(*reply.first_chunk().unwrap());
                    prop_assert!(before < Some(count), "ran out of order");
                    prop_assert_eq!(u64::from(reply[9]), *number);
                    before = Some(count);
                    ran.push(count);
                }
            }
        }
        ran.sort_unstable();
        prop_assert_eq!(&ran, &(0..replica.count()).collect::<Vec<_>>());
    }
}
