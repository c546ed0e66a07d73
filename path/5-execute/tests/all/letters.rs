//! Letters leave with the outcomes of their batch, each once and numbered, whatever kind of service writes them.

use crate::support::{batch, commands, open, seq};
use quorate_execute::{
    Context, Execution, Executor, InStore, Letter, Letters, ObjectService, Outcomes, Parallel,
    ParallelService, ReplySink, Sequential, Service, SessionLimits, StateView, Store, Typed, TypedService,
    encode_command,
};
use quorate_types::{AgreedTime, SessionId, Time};
use serde::{Deserialize, Serialize};

fn session() -> SessionId {
    SessionId { index: 0, generation: 1 }
}

/// Writes to the session that asks: the command, twice.
#[derive(Default, Serialize, Deserialize)]
struct Twice {
    letters: Letters,
}

impl TypedService for Twice {
    type Command = String;
    type Reply = u64;
    type Query = ();
    type Answer = u64;

    fn execute(&mut self, words: String, ctx: &Context) -> u64 {
        for _ in 0..2 {
            self.letters.send(ctx.session(), words.clone()).expect("short");
        }
        self.letters.sent(ctx.session())
    }
    fn query(&self, (): (), _: &Context) -> u64 {
        self.letters.sent(session())
    }
    fn take_letters(&mut self) -> Vec<Letter> {
        self.letters.take()
    }
}

/// The same in the store, with commands one after the other or on views.
struct Stored;

fn next(before: Option<&[u8]>) -> u64 {
    before.and_then(|bytes| bytes.first_chunk().copied()).map_or(0, u64::from_le_bytes) + 1
}

impl ParallelService for Stored {
    fn execute(&self, view: &mut StateView<'_>, command: &[u8], ctx: &Context, _: &mut ReplySink<'_>) {
        for _ in 0..2 {
            let number = next(view.get(b"sent").as_deref());
            view.put(b"sent", &number.to_le_bytes());
            view.tell(command.len());
            view.tell(Letter { to: ctx.session(), number, body: command.to_vec().into() });
        }
    }
    fn query(&self, _: &StateView<'_>, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
}

struct InOneStore(Vec<Letter>);

impl ObjectService for InOneStore {
    fn execute(&mut self, store: &mut Store, command: &[u8], ctx: &Context, _: &mut ReplySink<'_>) {
        for _ in 0..2 {
            let number = next(store.get(b"sent"));
            store.put(b"sent", &number.to_le_bytes());
            self.0.push(Letter { to: ctx.session(), number, body: command.to_vec().into() });
        }
    }
    fn query(&self, _: &Store, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
    fn take_letters(&mut self) -> Vec<Letter> {
        std::mem::take(&mut self.0)
    }
}

fn executor(service: Box<dyn Service>) -> Executor {
    Executor::new(service, SessionLimits::default(), AgreedTime::ZERO)
}

/// The letters that became final, in order.
fn letters(stage: &mut dyn Execution) -> Vec<(u64, Vec<u8>)> {
    let (mut outcomes, mut all) = (Outcomes::new(), Vec::new());
    while stage.next(Time::ZERO, &mut outcomes).is_some() {
        let Some(mut events) = outcomes.take_events() else { continue };
        for letter in events.take_letters() {
            assert_eq!(letter.to, session());
            all.push((letter.number, letter.body.to_vec()));
        }
        assert!(events.take_letters().is_empty(), "each once");
    }
    all
}

/// How a service reads its commands.
type Encode = fn(&str) -> Vec<u8>;

#[test]
fn letters_leave_with_their_batch() {
    let plain: Encode = |words| words.as_bytes().to_vec();
    let typed: Encode = |words| encode_command(&words).expect("a string");
    let services: [(Box<dyn Service>, Encode); 3] = [
        (Box::new(Typed(Twice::default())), typed),
        (Box::new(InStore::new(Parallel::new(Stored))), plain),
        (Box::new(InStore::new(InOneStore(Vec::new()))), plain),
    ];
    for (service, encode) in services {
        let mut stage = Sequential::new(executor(service));
        let whole: &mut (dyn Execution + 'static) = &mut stage;
        whole.batch(seq(1), batch(1, 1, &[open(1, 1)]));
        assert!(letters(whole).is_empty());
        whole.batch(seq(2), batch(2, 2, &[commands(session(), 1, 1, &[&encode("a"), &encode("b")])]));
        whole.batch(seq(3), batch(3, 3, &[commands(session(), 2, 1, &[&encode("c")])]));
        let all: Vec<(u64, Vec<u8>)> = letters(whole);
        let words = [b"a", b"a", b"b", b"b", b"c", b"c"].map(|word| word.to_vec());
        assert_eq!(all, (1..).zip(words).collect::<Vec<_>>());
        assert!(letters(whole).is_empty());
    }
}

/// What commands on views tell beside letters goes to the observer all the same.
#[test]
fn events_and_letters_go_apart() {
    let mut executor = executor(Box::new(InStore::new(Parallel::new(Stored))));
    let mut out = Outcomes::new();
    executor.execute(seq(1), &batch(1, 1, &[open(1, 1)]), &mut out);
    executor.execute(seq(2), &batch(2, 2, &[commands(session(), 1, 1, &[b"abc"])]), &mut out);
    let mut events = out.take_events().expect("both");
    assert!(events.are_told());
    assert_eq!(events.take_letters().len(), 2);
    let told = events.of::<Vec<Box<dyn std::any::Any + Send>>>().expect("a parallel service's");
    let told: Vec<usize> = told.iter().filter_map(|told| told.downcast_ref().copied()).collect();
    assert_eq!(told, [3, 3]);
}

/// A batch that is taken back sent nothing; the numbers are a part of the state, so those of the batch that runs instead follow.
#[test]
fn letters_of_a_batch_that_is_taken_back_are_not_sent() {
    let mut executor = executor(Box::new(Typed(Twice::default())));
    let (mut out, words) = (Outcomes::new(), encode_command(&"a").expect("a string"));
    executor.execute(seq(1), &batch(1, 1, &[open(1, 1)]), &mut out);
    executor.execute(seq(2), &batch(2, 2, &[commands(session(), 1, 1, &[&words])]), &mut out);
    let before = executor.image().expect("its state");
    executor.execute(seq(3), &batch(3, 3, &[commands(session(), 2, 1, &[&words])]), &mut out);
    executor.roll_back(&before).expect("its own image");
    assert!(executor.take_events().is_none());
    executor.restore_image(&before.system, &before.objects).expect("its own image");
    executor.execute(seq(3), &batch(3, 3, &[commands(session(), 2, 1, &[&words])]), &mut out);
    let numbers: Vec<u64> =
        out.take_events().expect("letters").take_letters().iter().map(|letter| letter.number).collect();
    assert_eq!(numbers, [3, 4]);
}

#[test]
fn a_letter_that_is_too_long_is_not_numbered() {
    let mut letters = Letters::default();
    let why = letters.send(session(), vec![0; Letters::BYTES_MAX + 1]).expect_err("too long").to_string();
    assert_eq!(why, "a letter of 262145 bytes is not sent; the most are 262144");
    assert_eq!(letters.send(session(), vec![0; Letters::BYTES_MAX]), Ok(1));
    assert_eq!((letters.sent(session()), letters.take().len(), letters.take().len()), (1, 1, 0));
    letters.session_ended(session());
    assert_eq!(letters, Letters::default(), "nothing of it stays in the state");
}
