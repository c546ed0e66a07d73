//! Leases. A lease ends by agreed time, in an ordered step that deletes the keys attached to it.
//!
//! The time that a lease has left is the same on every replica, and a change of leader does not alter it. Wall clocks have no part in it.
//! Tests: `tests/all/edges.rs`, `tests/all/store.rs`.

use crate::error::EtcdError;
use crate::proto;
use crate::space::{ATTACHED, Bounds, ENDING, LEASE, head, named};
use crate::write::Writer;
use quorate_execute::{Context, Store};
use quorate_types::{AgreedTime, Span};

/// The longest lease, in seconds, as in etcd.
const TTL_MAX_S: i64 = 9_000_000_000;
/// How many keys are deleted at once when leases end; the next batch deletes more.
const KEYS_AT_ONCE: usize = 10_000;

/// A lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// The time that was granted, in seconds.
    ttl: i64,
    ends: AgreedTime,
}

impl Lease {
    fn read(store: &Store, id: i64) -> Option<Self> {
        let mut bytes = store.get(&name(LEASE, id))?;
        let ttl = proto::read_number(&mut bytes)? as i64;
        Some(Self { ttl, ends: AgreedTime::from_nanos(proto::read_number(&mut bytes)?) })
    }

    /// Writes the lease, and its entry in the order of ends.
    fn write(&self, store: &mut Store, id: i64) {
        let mut bytes = Vec::with_capacity(20);
        proto::number(&mut bytes, self.ttl as u64);
        proto::number(&mut bytes, self.ends.nanos());
        store.put(&name(LEASE, id), &bytes);
        store.put(&self.ending(id), &[]);
    }

    fn ending(&self, id: i64) -> [u8; 17] {
        let mut key = [ENDING; 17];
        key[1..9].copy_from_slice(&self.ends.nanos().to_be_bytes());
        key[9..].copy_from_slice(&id.to_be_bytes());
        key
    }
}

/// Decodes a key in the order of ends: the moment and the lease.
fn of_ending(key: &[u8]) -> Option<(AgreedTime, i64)> {
    let ends = u64::from_be_bytes(*key.get(1..)?.first_chunk()?);
    Some((AgreedTime::from_nanos(ends), i64::from_be_bytes(*key.get(9..)?.first_chunk()?)))
}

fn name(part: u8, id: i64) -> [u8; 9] {
    let mut key = [part; 9];
    key[1..].copy_from_slice(&id.to_be_bytes());
    key
}

fn end_of(now: AgreedTime, ttl: i64) -> AgreedTime {
    AgreedTime::from_nanos(now.nanos().saturating_add(Span::from_secs(ttl.unsigned_abs()).nanos()))
}

pub(crate) fn exists(store: &Store, id: i64) -> bool {
    store.get(&name(LEASE, id)).is_some()
}

/// Attaches a key to a lease; 0 is no lease.
pub(crate) fn attach(store: &mut Store, id: i64, key: &[u8], buffer: &mut Vec<u8>) {
    if id != 0 {
        store.put(attached(id, key, buffer), &[]);
    }
}

/// Detaches a key from a lease.
pub(crate) fn detach(store: &mut Store, id: i64, key: &[u8], buffer: &mut Vec<u8>) {
    if id != 0 {
        store.remove(attached(id, key, buffer));
    }
}

fn attached<'a>(id: i64, key: &[u8], buffer: &'a mut Vec<u8>) -> &'a [u8] {
    named(buffer, ATTACHED, &id.to_be_bytes());
    buffer.extend_from_slice(key);
    buffer
}

/// The keys of a lease, in order.
pub(crate) fn keys_of(store: &Store, id: i64) -> Vec<Vec<u8>> {
    let start = name(ATTACHED, id);
    // Lease -1 is the last one in the order of bytes.
    let next = name(ATTACHED, id.wrapping_add(1));
    let end: &[u8] = if id == -1 { &[ATTACHED + 1] } else { &next };
    store.range(&start, Some(end)).map(|(key, _)| key[9..].to_vec()).collect()
}

/// The keys of all leases.
pub(crate) fn all_keys(store: &Store) -> impl Iterator<Item = &[u8]> {
    store.range(&[ATTACHED], Some(&[ATTACHED + 1])).map(|(key, _)| &key[9..])
}

/// Runs `LeaseGrant`; appends the fields of the response.
pub(crate) fn grant(
    store: &mut Store,
    ctx: &Context,
    ttl_min: i64,
    (ttl, id): (i64, i64),
    out: &mut Vec<u8>,
) -> Result<(), EtcdError> {
    if ttl > TTL_MAX_S {
        return Err(EtcdError::LeaseTtlTooLarge);
    }
    let id = if id == 0 { free_id(store, ctx) } else { id };
    if exists(store, id) {
        return Err(EtcdError::LeaseExists);
    }
    let ttl = ttl.max(ttl_min);
    Lease { ttl, ends: end_of(ctx.time(), ttl) }.write(store, id);
    proto::int_field(out, 2, id);
    proto::int_field(out, 3, ttl);
    Ok(())
}

/// Takes over a lease that was granted elsewhere: the seconds granted, and those that are left from `now` on.
pub(crate) fn take_over(store: &mut Store, id: i64, ttl: i64, left: i64, now: AgreedTime) {
    Lease { ttl: ttl.min(TTL_MAX_S), ends: end_of(now, left.min(TTL_MAX_S)) }.write(store, id);
}

/// All leases: their ids, and the seconds granted.
pub(crate) fn all(store: &Store) -> impl Iterator<Item = (i64, i64)> {
    store.range(&[LEASE], Some(&[LEASE + 1])).filter_map(|(key, _)| {
        let id = i64::from_be_bytes(*key.get(1..)?.first_chunk()?);
        Lease::read(store, id).map(|lease| (id, lease.ttl))
    })
}

/// An id that no lease has; positive, as clients expect it.
fn free_id(store: &Store, ctx: &Context) -> i64 {
    let mut random = ctx.random();
    loop {
        let id = (random.next() >> 1) as i64;
        if id != 0 && !exists(store, id) {
            return id;
        }
    }
}

/// Runs `LeaseKeepAlive` for one lease; appends the fields of the response. A lease that is gone has 0 s left.
pub(crate) fn keep_alive(store: &mut Store, ctx: &Context, id: i64, out: &mut Vec<u8>) {
    let lease = Lease::read(store, id);
    if let Some(lease) = lease {
        let renewed = Lease { ends: end_of(ctx.time(), lease.ttl), ..lease };
        if renewed != lease {
            store.remove(&lease.ending(id));
            renewed.write(store, id);
        }
    }
    proto::int_field(out, 2, id);
    proto::int_field(out, 3, lease.map_or(0, |lease| lease.ttl));
}

/// Runs `LeaseRevoke`: deletes the lease's keys in the order of their bytes, in one revision.
pub(crate) fn revoke(writer: &mut Writer<'_>, id: i64) -> Result<(), EtcdError> {
    let lease = Lease::read(writer.store, id).ok_or(EtcdError::LeaseNotFound)?;
    end(writer, id, &lease);
    Ok(())
}

/// Ends a lease. Gives the number of its keys.
fn end(writer: &mut Writer<'_>, id: i64, lease: &Lease) -> usize {
    let mut buffer = Vec::new();
    let store = &*writer.store;
    let with_head = |key: Vec<u8>| {
        let head = head(store, &key, &mut buffer).expect("INV-ETCD-4: an attached key has a value");
        (key, head)
    };
    let keys: Vec<_> = keys_of(store, id).into_iter().map(with_head).collect();
    writer.delete_each(&keys);
    writer.store.remove(&name(LEASE, id));
    writer.store.remove(&lease.ending(id));
    keys.len()
}

/// When the next lease ends.
pub(crate) fn next_end(store: &Store) -> Option<AgreedTime> {
    let (key, _) = store.range(&[ENDING], Some(&[ENDING + 1])).next()?;
    of_ending(key).map(|(ends, _)| ends)
}

/// The first lease that ended by now.
fn ended(store: &Store, now: AgreedTime) -> Option<(i64, Lease)> {
    let (key, _) = store.range(&[ENDING], Some(&[ENDING + 1])).next()?;
    let (ends, id) = of_ending(key).filter(|(ends, _)| *ends <= now)?;
    let lease = Lease::read(store, id).expect("INV-ETCD-5: what ends is a lease");
    debug_assert_eq!(lease.ends, ends);
    Some((id, lease))
}

/// Ends the first lease whose time has come, with a revision of its own. Says whether there was one.
pub(crate) fn end_next(writer: &mut Writer<'_>, now: AgreedTime, keys: &mut usize) -> bool {
    if *keys >= KEYS_AT_ONCE {
        return false;
    }
    let Some((id, lease)) = ended(writer.store, now) else { return false };
    *keys += 1 + end(writer, id, &lease);
    true
}

/// Runs `LeaseTimeToLive`; appends the fields of the response. A lease that is gone has -1 s left.
pub(crate) fn time_to_live(store: &Store, now: AgreedTime, id: i64, with_keys: bool, out: &mut Vec<u8>) {
    proto::int_field(out, 2, id);
    let Some(lease) = Lease::read(store, id) else { return proto::int_field(out, 3, -1) };
    let left = lease.ends.nanos().saturating_sub(now.nanos()) / Span::from_secs(1).nanos();
    proto::int_field(out, 3, left as i64);
    proto::int_field(out, 4, lease.ttl);
    if with_keys {
        keys_of(store, id).iter().for_each(|key| proto::message_field(out, 5, key));
    }
}

/// Runs `LeaseLeases`; appends the fields of the response, in the order in which the leases end.
pub(crate) fn list(store: &Store, out: &mut Vec<u8>) {
    for (key, _) in store.range(&[ENDING], Some(&[ENDING + 1])) {
        let Some((_, id)) = of_ending(key) else { continue };
        proto::nested_field(out, 2, |out| proto::int_field(out, 1, id));
    }
}

/// Panics when leases, their ends and their keys do not fit each other.
pub(crate) fn invariants(store: &Store) {
    let ends = store.range(&[ENDING], Some(&[ENDING + 1])).count();
    let leases = store.range(&[LEASE], Some(&[LEASE + 1])).count();
    assert_eq!(ends, leases, "INV-ETCD-5: what ends is a lease");
    let bounds = Bounds::new(ATTACHED, &[], &[0]);
    for (name, _) in bounds.entries(store) {
        let (id, key) = name.split_first_chunk().expect("INV-ETCD-4: an attached key has a lease");
        let head = head(store, key, &mut Vec::new()).expect("INV-ETCD-4: an attached key has a value");
        assert_eq!(head.lease, i64::from_be_bytes(*id), "INV-ETCD-4: an attached key has that lease");
        assert!(exists(store, head.lease), "INV-ETCD-4: the lease of a key exists");
    }
}
