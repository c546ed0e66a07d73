//! What the engine makes of each kind of service, one by one: pieces of a plain one's stream, the copy of a tracked one, the
//! store of one that lives there.

use crate::support::{self, Replica, commands};
use quorate_execute::{
    CheckpointError, CheckpointSink, CheckpointSource, Context, Executor, InStore, ObjectService, ReplySink,
    Service, SessionLimits, Store, Tracked, Version, checkpoint_tracked, read_all, restore_tracked,
};
use quorate_types::{AgreedTime, SessionId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const PIECE: usize = 16 << 10;

fn executor(service: impl Service + 'static) -> Executor {
    Executor::new(Box::new(service), SessionLimits::default(), AgreedTime::ZERO)
}

/// One session, and commands in it.
struct Driven {
    replica: Replica,
    id: SessionId,
    number: u64,
}

impl Driven {
    fn new(service: impl Service + 'static) -> Self {
        let mut replica = Replica::with(Box::new(service), SessionLimits::default());
        let id = replica.opened(1, 1);
        Self { replica, id, number: 0 }
    }
    fn run(&mut self, command: &[u8]) {
        self.number += 1;
        self.replica.one(0, commands(self.id, self.number, self.number, &[command]));
    }
    fn objects(&mut self) -> Version {
        self.replica.image().objects
    }
}

fn changes(now: &Version, before: &Version) -> Vec<(Vec<u8>, Option<usize>)> {
    now.changes_since(before).map(|(key, value)| (key.to_vec(), value.map(<[u8]>::len))).collect()
}

/// Plain: its state is one stream. A command is `at u32 | byte`, which writes there, or `len u32`, which cuts or lengthens.
#[derive(Default)]
struct Stream(Vec<u8>);

impl Service for Stream {
    fn execute(&mut self, command: &[u8], _: &Context, _: &mut ReplySink<'_>) {
        let at = u32::from_le_bytes(*command.first_chunk().expect("a number")) as usize;
        match command.get(4) {
            Some(byte) => self.0[at] = *byte,
            None => self.0.resize(at, 7),
        }
    }
    fn query(&self, _: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        reply.write(&self.0);
    }
    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        // In uneven portions.
        self.0.chunks(5000).try_for_each(|portion| out.write(portion))
    }
    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        self.0 = read_all(from, usize::MAX)?;
        Ok(())
    }
}

fn length(len: usize) -> Vec<u8> {
    (len as u32).to_le_bytes().to_vec()
}

fn written(at: usize, byte: u8) -> Vec<u8> {
    [&length(at)[..], &[byte]].concat()
}

fn piece(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// A stream becomes pieces of one size; only those that differ are written again, and those behind its end go away.
#[test]
fn unchanged_pieces_are_left_alone() {
    let mut driven = Driven::new(Stream::default());
    let empty = driven.objects();
    assert!(empty.is_empty());
    driven.run(&length(3 * PIECE + 100));
    let first = driven.objects();
    let all: Vec<_> = [PIECE, PIECE, PIECE, 100]
        .into_iter()
        .enumerate()
        .map(|(n, len)| (piece(n as u64), Some(len)))
        .collect();
    assert_eq!(changes(&first, &empty), all);
    driven.run(&written(PIECE + 5, 1));
    let second = driven.objects();
    assert_eq!(changes(&second, &first), [(piece(1), Some(PIECE))]);
    assert_eq!(changes(&driven.objects(), &second), []);
    driven.run(&length(2 * PIECE));
    assert_eq!(changes(&driven.objects(), &second), [(piece(2), None), (piece(3), None)]);
    driven.run(&length(0));
    assert!(driven.objects().is_empty());
}

/// The pieces are checked before a service sees any of them.
#[test]
fn pieces_that_are_none_are_refused() {
    let mut driven = Driven::new(Stream::default());
    driven.run(&length(2 * PIECE + 9));
    let image = driven.replica.image();
    let with = |change: &dyn Fn(&mut Store)| {
        let mut store = Store::from_version(&image.objects);
        change(&mut store);
        store.version()
    };
    let wrong = [
        with(&|store| _ = store.remove(&piece(1))),
        with(&|store| _ = store.remove(&piece(0))),
        with(&|store| _ = store.put(&piece(0), b"short")),
        with(&|store| _ = store.put(&piece(2), b"")),
        with(&|store| _ = store.put(&piece(2), &vec![0; PIECE + 1])),
        with(&|store| _ = store.put(&piece(3), b"behind the last")),
        with(&|store| _ = store.put(b"no number", b"x")),
    ];
    let mut other = executor(Stream(b"as it was".to_vec()));
    for objects in &wrong {
        let refused = other.restore_image(&image.system, objects);
        assert!(matches!(refused, Err(CheckpointError::Malformed(_))));
        let mut out = vec![];
        other.query(b"", &mut out).expect("a short answer");
        assert_eq!(out, b"as it was");
    }
    other.restore_image(&image.system, &image.objects).expect("a good image");
    assert_eq!(changes(&other.image().expect("an image").objects, &image.objects), []);
}

/// Tracked: numbered objects. A command is `key u8 | value`, which writes, or `key u8`, which removes; the whole of what it
/// copied is counted.
#[derive(Default)]
struct Numbered {
    values: std::collections::BTreeMap<u8, Vec<u8>>,
    changed: std::collections::BTreeSet<u8>,
    copied: Arc<AtomicU64>,
    fault: Arc<AtomicU64>,
}

const NEVER_ENDS: u64 = 1;
const BACKWARDS: u64 = 2;
const TOO_LARGE: u64 = 3;
const TOO_LARGE_CHANGE: u64 = 4;

impl Tracked for Numbered {
    fn track(&mut self) {
        self.changed.clear();
    }
    fn copy(&self, after: Option<&[u8]>, bytes: usize, take: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        let fault = self.fault.load(Ordering::Relaxed);
        let mut left = bytes.max(1);
        match fault {
            NEVER_ENDS => return true,
            BACKWARDS => {
                take(b"b", b"");
                take(b"a", b"");
                return false;
            }
            TOO_LARGE => {
                take(&[0; (64 << 10) + 1], b"");
                return false;
            }
            _ => (),
        }
        for (key, value) in
            self.values.iter().filter(|(key, _)| after.is_none_or(|after| after < &[**key][..]))
        {
            if left == 0 {
                return true;
            }
            left = left.saturating_sub(value.len());
            self.copied.fetch_add(1, Ordering::Relaxed);
            take(&[*key], value);
        }
        false
    }
    fn changes(&mut self, take: &mut dyn FnMut(&[u8], Option<&[u8]>)) {
        if self.fault.load(Ordering::Relaxed) == TOO_LARGE_CHANGE {
            take(b"x", Some(&vec![0; (16 << 20) + 1]));
        }
        for key in std::mem::take(&mut self.changed) {
            take(&[key], self.values.get(&key).map(Vec::as_slice));
        }
    }
    fn load(&mut self, objects: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<(), CheckpointError> {
        let mut values = std::collections::BTreeMap::new();
        for (key, value) in objects {
            let &[key] = key else { return Err(CheckpointError::Malformed("a key")) };
            values.insert(key, value.to_vec());
        }
        self.values = values;
        Ok(())
    }
}

impl Service for Numbered {
    fn execute(&mut self, command: &[u8], _: &Context, _: &mut ReplySink<'_>) {
        let (key, value) = command.split_first().expect("a key");
        match value {
            [] => _ = self.values.remove(key),
            value => _ = self.values.insert(*key, value.to_vec()),
        }
        self.changed.insert(*key);
    }
    fn query(&self, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        checkpoint_tracked(self, out)
    }
    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        restore_tracked(self, from)
    }
    fn tracked(&mut self) -> Option<&mut dyn Tracked> {
        Some(self)
    }
}

/// A service with 100 objects of 10 bytes, what it copied so far, and its fault.
fn numbered() -> (Driven, Arc<AtomicU64>, Arc<AtomicU64>) {
    let service = Numbered::default();
    let (copied, fault) = (service.copied.clone(), service.fault.clone());
    let mut driven = Driven::new(service);
    for key in 0..100 {
        driven.run(&[&[key][..], &[1; 10]].concat());
    }
    (driven, copied, fault)
}

/// Copying ahead takes as many calls as there are pieces; later images copy nothing, they only take what changed. Until the first
/// image there are no objects, and between images they stay as they are.
#[test]
fn a_tracked_service_is_copied_once() {
    let (mut driven, copied, _) = numbered();
    let calls = (1..).find(|_| driven.replica.executor.prepare_image(50)).expect("an end");
    assert!((20..=21).contains(&calls), "{calls} calls for 20 pieces");
    assert_eq!(copied.load(Ordering::Relaxed), 100);
    assert!(driven.replica.executor.objects().is_none(), "no border so far");
    driven.run(&[3, 9, 9]);
    driven.run(&[4]);
    driven.run(&[200, 1]);
    let first = driven.objects();
    assert_eq!((first.len(), first.get(&[3]), first.get(&[4])), (100, Some(&[9, 9][..]), None));
    driven.run(&[5, 5]);
    let between = driven.replica.executor.objects().expect("an image was taken");
    assert_eq!(changes(&between, &first), []);
    assert!(driven.replica.executor.prepare_image(50), "nothing is left to copy");
    assert_eq!(changes(&driven.objects(), &first), [(vec![5], Some(1))]);
    assert_eq!(copied.load(Ordering::Relaxed), 100, "every object was copied once");
}

/// After a restore nothing is copied either: what was loaded is what the copy holds.
#[test]
fn a_restored_service_is_not_copied() {
    let (mut driven, _, _) = numbered();
    let image = driven.replica.image();
    let service = Numbered::default();
    let copied = service.copied.clone();
    let mut again = executor(service);
    again.restore_image(&image.system, &image.objects).expect("a good image");
    assert_eq!(again.objects().expect("those of the image").root(), image.objects.root());
    assert!(again.prepare_image(1));
    assert_eq!(again.image().expect("an image").objects.root(), image.objects.root());
    assert_eq!(copied.load(Ordering::Relaxed), 0);
    let mut other = Store::new();
    other.put(b"long", b"");
    assert!(again.restore_image(&image.system, &other.version()).is_err(), "the service refuses it");
}

/// A service that copies wrongly leads to an error and not to a wrong image or an endless loop; once it copies well, the copy is
/// made anew.
#[test]
fn a_wrong_copy_is_an_error() {
    let (mut driven, _, fault) = numbered();
    for wrong in [NEVER_ENDS, BACKWARDS, TOO_LARGE, TOO_LARGE_CHANGE] {
        fault.store(wrong, Ordering::Relaxed);
        driven.replica.executor.prepare_image(50);
        assert!(
            matches!(driven.replica.executor.image(), Err(CheckpointError::Malformed(_))),
            "fault {wrong}"
        );
        assert!(driven.replica.executor.objects().is_none());
        driven.run(&[7, wrong as u8]);
    }
    fault.store(0, Ordering::Relaxed);
    let objects = driven.objects();
    assert_eq!((objects.len(), objects.get(&[7])), (100, Some(&[4][..])));
    let mut stream = vec![];
    let (mut one, mut other) = (Numbered::default(), Numbered::default());
    one.load(&mut objects.range(b"", None)).expect("its own objects");
    one.checkpoint(&mut stream).expect("a vector takes everything");
    other.restore(&mut &stream[..]).expect("what was written");
    assert_eq!(one.values, other.values);
    assert!(other.restore(&mut &stream[..stream.len() - 1]).is_err());
}

/// In the store: a command is put under its own bytes.
#[derive(Default)]
struct Set;

impl ObjectService for Set {
    fn execute(&mut self, store: &mut Store, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        reply.write(&[u8::from(store.put(command, b""))]);
    }
    fn query(&self, store: &Store, _: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        reply.write(&store.len().to_le_bytes());
    }
}

/// An image of a service in the store is its version: later commands do not change it, and its objects are always those of now.
#[test]
fn a_service_in_the_store_is_its_own_version() {
    let mut driven = Driven::new(InStore::<Set>::default());
    driven.run(b"one");
    assert!(driven.replica.executor.prepare_image(1));
    let image = driven.replica.image();
    driven.run(b"two");
    assert_eq!(
        changes(&driven.replica.executor.objects().expect("a store"), &image.objects),
        [(b"two".to_vec(), Some(0))]
    );
    assert_eq!(image.objects.len(), 1);
    let mut again = executor(InStore::<Set>::default());
    again.restore_image(&image.system, &image.objects).expect("a good image");
    assert_eq!(changes(&again.image().expect("an image").objects, &image.objects), []);
}

/// The stream of a service in the store comes back, and nothing else is one.
#[test]
fn a_stream_of_objects_is_checked() {
    let mut service = InStore::<Set>::default();
    let mut out = vec![];
    let ctx = Context::at(support::seq(1), AgreedTime::ZERO);
    for command in [&b"b"[..], b"a", b"ab", b""] {
        service.execute(command, &ctx, &mut ReplySink::new(&mut out, 99));
    }
    let mut stream = vec![];
    service.checkpoint(&mut stream).expect("a vector takes everything");
    let mut again = InStore::<Set>::default();
    again.restore(&mut &stream[..]).expect("what was written");
    assert_eq!(again.objects().version().root(), service.objects().version().root());
    for len in 0..stream.len() {
        assert!(again.restore(&mut &stream[..len]).is_err(), "cut off at {len}");
    }
    assert!(again.restore(&mut &[&stream[..], b"x"].concat()[..]).is_err());
    let object = |key: &[u8]| [&(key.len() as u32).to_le_bytes()[..], &[0; 4], key].concat();
    let end = [0xff; 4];
    let refused = |objects: &[Vec<u8>]| {
        let stream = [&objects.concat()[..], &end].concat();
        InStore::<Set>::default().restore(&mut &stream[..]).is_err()
    };
    assert!(!refused(&[object(b"a"), object(b"b")]));
    assert!(refused(&[object(b"b"), object(b"a")]), "out of order");
    assert!(refused(&[object(b"a"), object(b"a")]), "twice");
    assert!(refused(&[object(&[0; (64 << 10) + 1])]), "a key over the store's limit");
}

/// A store that can be read and not replaced.
struct Half(Store);

impl Service for Half {
    fn execute(&mut self, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
    fn query(&self, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
    fn checkpoint(&self, _: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        Ok(())
    }
    fn restore(&mut self, _: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        Ok(())
    }
    fn store(&self) -> Option<&Store> {
        Some(&self.0)
    }
}

/// Such a service is refused before it runs, and not when it is to be restored.
#[test]
#[should_panic(expected = "both of store and store_mut")]
fn half_a_store_is_refused() {
    executor(Half(Store::new()));
}
