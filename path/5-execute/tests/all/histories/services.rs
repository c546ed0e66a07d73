//! One service in the three kinds that the engine knows: plain, in the store, tracked. What it does stands once.
//!
//! A command is `what u8 | key u8 | amount u16`.

use quorate_execute::{
    CheckpointError, CheckpointSink, CheckpointSource, Context, InStore, ObjectService, ReplySink, Service,
    Store, Tracked, checkpoint_tracked, restore_tracked,
};
use quorate_types::{AgreedTime, Span};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const PUT: u8 = 0;
pub(crate) const REMOVE: u8 = 1;
pub(crate) const TOUCH: u8 = 2;
pub(crate) const APPEND: u8 = 3;
pub(crate) const ALARM: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    InStore,
    Tracked,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::InStore, Self::Tracked];

    pub(crate) fn service(self) -> Box<dyn Service> {
        match self {
            Self::Plain => Box::new(Plain(Watched::default())),
            Self::InStore => Box::new(InStore::new(Bare)),
            Self::Tracked => Box::new(Watched::default()),
        }
    }
}

/// Where the service keeps its objects.
trait Objects {
    fn value(&self, key: &[u8]) -> Option<Vec<u8>>;
    fn set(&mut self, key: &[u8], value: &[u8]);
    fn unset(&mut self, key: &[u8]);
}

const DUE: &[u8] = b"due";

fn execute(objects: &mut dyn Objects, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
    let &[what, key, a, b] = command else { return reply.write(b"none") };
    let (key, amount) = (key_of(key), u16::from_le_bytes([a, b]));
    let before = objects.value(&key);
    reply.write(&before.as_ref().map_or(0, |value| value.len() as u64 + 1).to_le_bytes());
    reply.write(before.as_ref().and_then(|value| value.last_chunk::<4>()).unwrap_or(&[0; 4]));
    let value: Vec<u8> = (0..amount).map(|at| (ctx.seed() >> (at % 8 * 8)) as u8).collect();
    match what {
        PUT => objects.set(&key, &value),
        REMOVE => objects.unset(&key),
        // There and away again: a change that leaves nothing, or takes something away.
        TOUCH => {
            objects.set(&key, &value);
            objects.unset(&key);
        }
        APPEND => objects.set(&key, &[before.unwrap_or_default(), value].concat()),
        ALARM => {
            let due = ctx.time().plus(Span::from_nanos(u64::from(amount % 64)));
            objects.set(DUE, &due.nanos().to_le_bytes());
        }
        _ => reply.write(b"nothing"),
    }
}

/// Keys of several lengths, some the beginning of others.
fn key_of(number: u8) -> Vec<u8> {
    vec![number / 4; usize::from(number % 4)]
}

fn query(objects: &dyn Objects, query: &[u8], reply: &mut ReplySink<'_>) {
    reply.write(&objects.value(query).unwrap_or_else(|| b"none".to_vec()));
}

fn due(objects: &dyn Objects) -> Option<AgreedTime> {
    let bytes = objects.value(DUE)?;
    Some(AgreedTime::from_nanos(u64::from_le_bytes(*bytes.first_chunk()?)))
}

fn reached(objects: &mut dyn Objects, ctx: &Context) {
    objects.unset(DUE);
    objects
        .set(b"rang", &[objects.value(b"rang").unwrap_or_default(), vec![ctx.time().nanos() as u8]].concat());
}

impl Objects for Store {
    fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.get(key).map(<[u8]>::to_vec)
    }
    fn set(&mut self, key: &[u8], value: &[u8]) {
        self.put(key, value);
    }
    fn unset(&mut self, key: &[u8]) {
        self.remove(key);
    }
}

/// In the store.
struct Bare;

impl ObjectService for Bare {
    fn execute(&mut self, store: &mut Store, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        execute(store, command, ctx, reply);
    }
    fn query(&self, store: &Store, bytes: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        query(store, bytes, reply);
    }
    fn next_deadline(&self, store: &Store) -> Option<AgreedTime> {
        due(store)
    }
    fn deadline_reached(&mut self, store: &mut Store, ctx: &Context) {
        reached(store, ctx);
    }
}

/// Tracked: a map, and the keys that changed while somebody wants to know.
#[derive(Default)]
pub(crate) struct Watched {
    map: BTreeMap<Vec<u8>, Vec<u8>>,
    changed: Option<BTreeSet<Vec<u8>>>,
}

impl Objects for Watched {
    fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.map.get(key).cloned()
    }
    fn set(&mut self, key: &[u8], value: &[u8]) {
        self.changed.iter_mut().for_each(|changed| _ = changed.insert(key.to_vec()));
        self.map.insert(key.to_vec(), value.to_vec());
    }
    fn unset(&mut self, key: &[u8]) {
        self.changed.iter_mut().for_each(|changed| _ = changed.insert(key.to_vec()));
        self.map.remove(key);
    }
}

impl Tracked for Watched {
    fn track(&mut self) {
        self.changed = Some(BTreeSet::new());
    }
    fn copy(&self, after: Option<&[u8]>, bytes: usize, take: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        let mut taken = 0_usize;
        let behind = |key: &Vec<u8>| after.is_some_and(|after| key.as_slice() <= after);
        for (key, value) in self.map.iter().skip_while(|(key, _)| behind(key)) {
            if taken > 0 && taken >= bytes {
                return true;
            }
            taken += key.len() + value.len() + 1;
            take(key, value);
        }
        false
    }
    fn changes(&mut self, take: &mut dyn FnMut(&[u8], Option<&[u8]>)) {
        for key in self.changed.iter_mut().flat_map(std::mem::take) {
            take(&key, self.map.get(&key).map(Vec::as_slice));
        }
    }
    fn load(&mut self, objects: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<(), CheckpointError> {
        self.map = objects.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        Ok(())
    }
}

impl Service for Watched {
    fn execute(&mut self, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        execute(self, command, ctx, reply);
    }
    fn query(&self, bytes: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        query(self, bytes, reply);
    }
    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        checkpoint_tracked(self, out)
    }
    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        restore_tracked(self, from)
    }
    fn next_deadline(&self) -> Option<AgreedTime> {
        due(self)
    }
    fn deadline_reached(&mut self, ctx: &Context) {
        reached(self, ctx);
    }
    fn tracked(&mut self) -> Option<&mut dyn Tracked> {
        Some(self)
    }
}

/// The same, and the engine is not told that it could track.
struct Plain(Watched);

impl Service for Plain {
    fn execute(&mut self, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        self.0.execute(command, ctx, reply);
    }
    fn query(&self, bytes: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        Service::query(&self.0, bytes, ctx, reply);
    }
    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        self.0.checkpoint(out)
    }
    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        self.0.restore(from)
    }
    fn next_deadline(&self) -> Option<AgreedTime> {
        self.0.next_deadline()
    }
    fn deadline_reached(&mut self, ctx: &Context) {
        self.0.deadline_reached(ctx);
    }
}
