//! Commands by themselves: whatever the journal has, they come there again, and go on alike; and what they must not do ends them.

use super::super::call::{Asked, Want};
use super::super::chain::{Chain, ServiceId};
use super::super::journal::{Doing, Entry, Journal, Mark};
use super::super::rules::{NestedRules, Schedule};
use super::super::service::{Answer, JournaledService};
use super::*;
use crate::service::ReplySink;
use proptest::prelude::*;
use quorate_state::store::{Store, Version};
use quorate_types::{AgreedTime, Seq};
use std::collections::{BTreeMap, BTreeSet};

/// Runs the bytes of its command, one operation each. What it reads and what it writes have nothing in common, so that it may be cut anywhere.
struct Steps;

impl JournaledService for Steps {
    async fn execute(&self, call: &mut Call, command: &[u8], ctx: &Context) -> Vec<u8> {
        let (mut seen, mut tickets) = (ctx.seed().to_le_bytes().to_vec(), Vec::new());
        for step in command {
            let key = [b'r', step >> 4];
            match step % 8 {
                0 => seen.extend_from_slice(&call.get(&key).unwrap_or_default()),
                1 => seen.extend(
                    call.range(b"r", Some(b"s"), 2)
                        .into_iter()
                        .flat_map(|(key, value)| [key, value])
                        .flatten(),
                ),
                2 => call.put(&[b'w', step >> 4], &seen),
                3 => call.remove(&[b'w', step >> 4]),
                4 => seen.push(u8::from(call.lock(&key).await.is_ok())),
                5 => call.unlock(&key),
                6 => tickets.push(call.ask(ServiceId(2), &seen)),
                _ => match (!tickets.is_empty()).then(|| tickets.remove(0)) {
                    Some(ticket) => seen.extend(format!("{:?}", call.answer(ticket).await).bytes()),
                    None => seen.push(0),
                },
            }
        }
        seen
    }
    fn query(&self, _: &Store, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
}

/// What a command did, from where its journal was cut.
#[derive(Debug, PartialEq)]
struct Did {
    journal: Vec<Entry>,
    reply: Vec<u8>,
    writes: BTreeMap<Box<[u8]>, Option<Bytes>>,
    asked: Vec<Asked>,
}

fn leg(journal: Journal, version: Version) -> Box<Leg> {
    let mut rules = NestedRules::of(ServiceId(1), Schedule::Answered);
    (rules.operations_per_leg_max, rules.asks_per_command_max) = (1000, 50);
    Box::new(Leg {
        rules: Arc::new(rules),
        chain: Chain::client(),
        version,
        own: BTreeMap::new(),
        journal,
        at: 0,
        asks: 0,
        asked: Vec::new(),
        refused: BTreeMap::new(),
        locks: BTreeSet::new(),
        operations: 0,
        want: Want::Nothing,
        failure: None,
    })
}

/// Runs a command to its end, and gives it everything that it waits for.
fn finish(
    service: impl JournaledService,
    command: &[u8],
    journal: Journal,
    version: &Version,
) -> Result<Did, (Failure, String)> {
    let ctx = Context::at(Seq::new(7), AgreedTime::ZERO);
    let mut runner = Runner::begin(Arc::new(service), Bytes::copy_from_slice(command), ctx);
    let mut leg = leg(journal, version.clone());
    loop {
        let (back, went) = runner.go_on(leg);
        leg = back;
        match (went, std::mem::take(&mut leg.want)) {
            (Went::Ends(reply), _) => {
                let journal = leg.journal.entries().to_vec();
                return Ok(Did { journal, reply, writes: leg.own, asked: leg.asked });
            }
            (Went::Fails(why, words), _) => return Err((why, words)),
            (Went::Halts, Want::Lock(name)) => {
                leg.journal.push(Entry::Locked(Mark::of(Doing::Lock, &[&name]), name[1] % 2 == 0));
            }
            (Went::Halts, Want::Answer(ticket)) => {
                leg.journal.push(Entry::Answered(ticket, Answer::Reply(vec![ticket as u8; 3].into())));
            }
            (Went::Halts, Want::Nothing) => panic!("it waits for nothing"),
        }
    }
}

fn objects() -> Store {
    let mut store = Store::new();
    (0..16).step_by(3).for_each(|key| _ = store.put(&[b'r', key], &[key; 5]));
    store
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Wherever the journal is cut, the command goes on as it did without the cut, and nothing that it did before is done again.
    #[test]
    fn a_command_goes_on_from_any_point(command in proptest::collection::vec(any::<u8>(), 0..40)) {
        let version = objects().version();
        let whole = finish(Steps, &command, Journal::default(), &version).expect("it ends");
        let writes = |entries: &[Entry]| entries.iter().filter(|entry| matches!(entry, Entry::Wrote(_))).count();
        let asks = |entries: &[Entry]| entries.iter().filter(|entry| matches!(entry, Entry::Asked(..))).count();
        for cut in 0..=whole.journal.len() {
            let (before, after) = whole.journal.split_at(cut);
            let mut journal = Journal::default();
            before.iter().for_each(|entry| journal.push(entry.clone()));
            let again = finish(Steps, &command, journal, &version).expect("it ends again");
            prop_assert_eq!(&again.journal, &whole.journal);
            prop_assert_eq!(&again.reply, &whole.reply);
            prop_assert_eq!(&again.asked[..], &whole.asked[asks(before)..]);
            prop_assert!(again.writes.len() <= writes(after), "a write is repeated");
        }
    }

    /// A journal of another command is no journal of this one, unless both do the same; and then nothing is lost.
    #[test]
    fn another_journal_is_noticed(
        command in proptest::collection::vec(any::<u8>(), 0..20),
        other in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let version = objects().version();
        let whole = finish(Steps, &other, Journal::default(), &version).expect("it ends");
        let mut journal = Journal::default();
        whole.journal.iter().for_each(|entry| journal.push(entry.clone()));
        match finish(Steps, &command, journal, &version) {
            Ok(did) => prop_assert_eq!(&did.journal[..whole.journal.len()], &whole.journal[..]),
            Err((why, words)) => {
                prop_assert_eq!(why, Failure::NotDeterministic);
                prop_assert!(words.contains("operation"), "the place is named: {}", words);
            }
        }
    }
}

/// A command that does what a function says.
struct Does<F>(F);

impl<F> JournaledService for Does<F>
where
    F: for<'a> Fn(&'a mut Call) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + 'a>>
        + Send
        + Sync
        + 'static,
{
    async fn execute(&self, call: &mut Call, _: &[u8], _: &Context) -> Vec<u8> {
        (self.0)(call).await;
        b"done".to_vec()
    }
    fn query(&self, _: &Store, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
}

fn fails<F>(does: F) -> (Failure, String)
where
    F: for<'a> Fn(&'a mut Call) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + 'a>>
        + Send
        + Sync
        + 'static,
{
    finish(Does(does), b"", Journal::default(), &objects().version()).expect_err("it is ended")
}

#[test]
fn what_nobody_would_wake_is_ended() {
    assert_eq!(fails(|_| Box::pin(std::future::pending())).0, Failure::Foreign);
    // Also if it waited for an answer, gave that up, and waits for something else.
    let (why, _) = fails(|call| {
        Box::pin(async move {
            let ticket = call.ask(ServiceId(2), b"x");
            let mut answer = Box::pin(call.answer(ticket));
            std::future::poll_fn(|cx| {
                let _ = answer.as_mut().poll(cx);
                Poll::Ready(())
            })
            .await;
            drop(answer);
            std::future::pending::<()>().await;
        })
    });
    assert_eq!(why, Failure::Foreign);
}

/// A command that goes on without what it waits for has nothing to go on with.
#[test]
fn who_does_not_wait_is_ended() {
    let (why, words) = fails(|call| {
        Box::pin(async move {
            let ticket = call.ask(ServiceId(2), b"x");
            let mut answer = Box::pin(call.answer(ticket));
            std::future::poll_fn(|cx| {
                let _ = answer.as_mut().poll(cx);
                Poll::Ready(())
            })
            .await;
            drop(answer);
            call.put(b"k", b"v");
        })
    });
    assert_eq!(why, Failure::Panicked);
    assert!(words.contains("first waits"), "{words}");
}

#[test]
fn endless_commands_are_ended() {
    let endless = fails(|call| Box::pin(async move { while call.get(b"r").is_none() {} }));
    assert_eq!(endless.0, Failure::Operations(1000));
    let asks = fails(|call| {
        Box::pin(async move {
            loop {
                call.ask(ServiceId(3), b"more");
            }
        })
    });
    assert_eq!(asks.0, Failure::Asks(50));
    let locks = fails(|call| {
        Box::pin(async move {
            while call.lock(b"l0").await.is_ok() {}
            loop {
                call.unlock(b"l0")
            }
        })
    });
    assert_eq!(locks.0, Failure::Operations(1000));
}

#[test]
fn large_commands_are_ended() {
    let value = vec![1; 2 << 20];
    let reads = fails(move |call| {
        call.put(b"k", &value);
        Box::pin(async move {
            loop {
                call.get(b"k");
            }
        })
    });
    assert_eq!(reads.0, Failure::Journal(4 << 20));
    let long = fails(|call| Box::pin(async move { call.put(&[0; 70_000], b"") }));
    assert_eq!(long.0, Failure::TooLong(64 << 10));
    let asks = fails(|call| Box::pin(async move { _ = call.ask(ServiceId(2), &vec![0; 2 << 20]) }));
    assert_eq!(asks.0, Failure::TooLong(1 << 20));
    let lock = fails(|call| Box::pin(async move { _ = call.lock(&[0; 257]).await }));
    assert_eq!(lock.0, Failure::TooLong(256));
}

/// A panic ends the command, and its words are told; also one while the command is dropped.
#[test]
fn panics_are_caught_and_named() {
    let (why, words) = fails(|_| Box::pin(async { panic!("out of {}", "paper") }));
    assert_eq!((why, &*words), (Failure::Panicked, "out of paper"));
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("while it goes");
        }
    }
    let (why, words) = fails(|_| {
        let bomb = Bomb;
        Box::pin(async move {
            let _bomb = bomb;
            std::future::pending::<()>().await;
        })
    });
    assert_eq!((why, &*words), (Failure::Panicked, "while it goes"));
}
