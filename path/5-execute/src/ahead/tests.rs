//! What is read ahead, and that nothing but speed depends on it.

use super::*;
use crate::{Context, Executor, InStore, ObjectService, Outcomes, ReplySink, SessionLimits};
use quorate_types::{AgreedTime, ClientId, ItemsBuilder, RequestNumber, Seq, SessionId};
use quorate_wire::{Batch, BatchHeader, RequestHeader, RequestProof, write_opening, write_request};
use std::sync::mpsc::{Sender, channel};

/// Puts each command as a key. Notes what it named, and what it ran.
struct Noting(Sender<Note>);

/// What was done, and the command.
type Note = (&'static str, Vec<u8>);

impl Noting {
    fn note(&self, what: &'static str, command: &[u8]) {
        self.0.send((what, command.to_vec())).unwrap();
    }
}

impl ObjectService for Noting {
    fn execute(&mut self, store: &mut Store, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        self.note("run", command);
        reply.write(&[u8::from(store.put(command, b"value"))]);
    }

    fn query(&self, _: &Store, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}

    fn objects(&self, bytes: &[u8], is_query: bool, each: &mut dyn FnMut(&[u8])) {
        self.note(if is_query { "asked" } else { "named" }, bytes);
        each(bytes);
    }
}

fn key(number: u32) -> Vec<u8> {
    number.wrapping_mul(2_654_435_761).to_be_bytes().to_vec()
}

/// A store over the limit from which on reading ahead pays, or a small one.
fn store(large: bool) -> Store {
    let mut store = Store::new();
    let count = if large { 40_000 } else { 10 };
    (0..count).for_each(|number| {
        store.put(&key(number), &[7; 60]);
    });
    assert_eq!(pays(&store), large);
    store
}

/// Requests of this many commands each.
fn requests(sizes: &[u32]) -> Vec<u8> {
    let (mut bytes, mut next) = (Vec::new(), 0);
    for (number, size) in (1..).zip(sizes) {
        let mut commands = ItemsBuilder::new();
        (next..next + size).for_each(|number| {
            commands.push(&key(number));
        });
        next += size;
        write_request(
            &mut bytes,
            SessionId { index: 0, generation: 1 },
            RequestNumber::new(number),
            RequestNumber::FIRST,
            &commands,
        );
    }
    bytes
}

/// Runs such requests. Gives what the service noted, and the replies.
fn run(large: bool, sizes: &[u32]) -> (Vec<Note>, Vec<u8>) {
    let (notes, noted) = channel();
    let mut service = InStore::new(Noting(notes));
    *service.store_mut().unwrap() = store(large);
    let mut executor = Executor::new(Box::new(service), SessionLimits::default(), AgreedTime::ZERO);
    let mut out = Outcomes::default();
    let mut opening = Vec::new();
    Batch::begin(&mut opening);
    let body = write_opening(ClientId::new(1), None);
    let (session, number, len) = (SessionId::NONE, RequestNumber::new(9), body.len() as u32);
    let (kind, proof) = (RequestKind::OpenSession, RequestProof::None);
    RequestHeader { session, number, lowest_unanswered: number, kind, len, proof }.write_to(&mut opening);
    opening.extend(body);
    executor.execute(
        Seq::new(1),
        &Batch::seal(opening, BatchHeader { count: 1, ..BatchHeader::default() }),
        &mut out,
    );
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    bytes.extend(requests(sizes));
    let header = BatchHeader { count: sizes.len() as u32, ..BatchHeader::default() };
    executor.execute(Seq::new(2), &Batch::seal(bytes, header), &mut out);
    let replies = out.arena().to_vec();
    (noted.try_iter().collect(), replies)
}

/// How many commands were named and run in turn.
fn turns(notes: &[Note]) -> Vec<(&'static str, usize)> {
    notes.chunk_by(|one, next| one.0 == next.0).map(|turn| (turn[0].0, turn.len())).collect()
}

#[test]
fn commands_are_named_in_windows_before_they_run() {
    let (notes, _) = run(true, &[1; 40]);
    assert_eq!(
        turns(&notes),
        [("named", 16), ("run", 16), ("named", 16), ("run", 16), ("named", 8), ("run", 8)]
    );
    let of = |what| notes.iter().filter(move |note| note.0 == what).map(|note| &note.1);
    assert!(of("named").eq(of("run")), "each once, in their order");
}

#[test]
fn a_request_with_many_commands_names_them_itself() {
    let (notes, _) = run(true, &[1, 20, 1]);
    assert_eq!(
        turns(&notes),
        [("named", 2), ("run", 1), ("named", 16), ("run", 16), ("named", 4), ("run", 5)]
    );
}

#[test]
fn a_small_store_is_not_read_ahead_and_answers_are_the_same() {
    let sizes = [1, 1, 20, 3, 1];
    let (notes, replies) = run(false, &sizes);
    assert_eq!(turns(&notes), [("run", 26)]);
    let (_, large) = run(true, &sizes);
    assert_eq!(replies.len(), large.len());
}

/// Keys that do not fit are left out; requests that name nothing do not make a window endless.
#[test]
fn a_window_is_bounded() {
    let mut window = Window::new();
    for _ in 0..20 {
        window.push(&[1; KEY_BYTES + 1]);
        window.push(&[2; KEY_BYTES / 4]);
    }
    assert_eq!((window.len, window.is_full()), (4, false));
    window.read(&store(true));
    (0..20).for_each(|_| window.push(b""));
    assert!(window.is_full());
    let commands = vec![&b"command"[..]; 1000];
    assert_eq!(of_commands(&Store::new(), commands.into_iter(), |_, _| ()), REQUESTS_MAX);
}

#[test]
fn queries_are_named_in_windows() {
    let queries: Vec<Vec<u8>> = (0..40).map(key).collect();
    for (large, seen) in [(true, 16), (false, usize::MAX)] {
        let (notes, noted) = channel();
        let mut service = InStore::new(Noting(notes));
        *service.store_mut().unwrap() = store(large);
        let executor = Executor::new(Box::new(service), SessionLimits::default(), AgreedTime::ZERO);
        assert_eq!(executor.read_ahead(queries.iter().map(Vec::as_slice)), seen);
        let named: Vec<Note> = noted.try_iter().collect();
        assert!(named.iter().all(|(what, _)| *what == "asked"), "as queries");
        let expected = if large { &queries[..16] } else { &[] };
        assert!(named.iter().map(|(_, query)| query).eq(expected), "the first ones, if that pays");
    }
}
