//! Tokens: what a client shows instead of its password, until it ends.
//!
//! The store holds for each token a digest, its user, and the agreed time at which it ends. A command with a token whose time is more than
//! half over renews it for the whole time. Ended tokens are removed a few at a time, when new ones are given.

use crate::auth::{TOKEN, TOKEN_BYTES, TOKEN_END, names};
use crate::proto;
use crate::space::named;
use quorate_execute::Store;
use quorate_types::{AgreedTime, Span};

/// How long a token lasts, as in etcd.
const LIFE: Span = Span::from_secs(300);
/// How many ended tokens are removed when one is given: more than are added.
const GO_AT_ONCE: usize = 4;

fn read(bytes: &[u8]) -> Option<(AgreedTime, &[u8])> {
    let mut name = bytes;
    let ends = proto::read_number(&mut name)?;
    Some((AgreedTime::from_nanos(ends), name))
}

fn end_key(ends: AgreedTime, digest: &[u8]) -> Vec<u8> {
    let mut key = vec![TOKEN_END];
    key.extend_from_slice(&ends.nanos().to_be_bytes());
    key.extend_from_slice(digest);
    key
}

/// The user of a token that has not ended.
pub(super) fn holder<'a>(store: &'a Store, digest: &[u8], now: AgreedTime) -> Option<&'a [u8]> {
    let (ends, name) = read(store.get(named(&mut Vec::new(), TOKEN, digest))?)?;
    (ends > now).then_some(name)
}

/// Gives a token to a user. A token with this digest that exists already stays as it is.
pub(super) fn give(store: &mut Store, digest: &[u8; TOKEN_BYTES], name: &[u8], now: AgreedTime) {
    remove_ended(store, now);
    if store.get(named(&mut Vec::new(), TOKEN, digest)).is_none() {
        write(store, digest, name, now.plus(LIFE));
    }
}

fn write(store: &mut Store, digest: &[u8], name: &[u8], ends: AgreedTime) {
    let mut value = Vec::new();
    proto::number(&mut value, ends.nanos());
    value.extend_from_slice(name);
    store.put(named(&mut Vec::new(), TOKEN, digest), &value);
    store.put(&end_key(ends, digest), &[]);
}

fn remove(store: &mut Store, digest: &[u8]) {
    let key = named(&mut Vec::new(), TOKEN, digest).to_vec();
    let Some((ends, _)) = store.get(&key).and_then(read) else { return };
    store.remove(&end_key(ends, digest));
    store.remove(&key);
}

fn remove_ended(store: &mut Store, now: AgreedTime) {
    let ended = names(store, TOKEN_END).take(GO_AT_ONCE).filter_map(|(key, _)| {
        let (ends, digest) = key.split_first_chunk()?;
        (AgreedTime::from_nanos(u64::from_be_bytes(*ends)) <= now).then(|| digest.to_vec())
    });
    let ended: Vec<Vec<u8>> = ended.collect();
    ended.iter().for_each(|digest| remove(store, digest));
}

/// Renews the token of a command if half of its time is over.
pub(crate) fn used(store: &mut Store, digest: &[u8], now: AgreedTime) {
    let Some((ends, name)) = store.get(named(&mut Vec::new(), TOKEN, digest)).and_then(read) else { return };
    let left = ends.nanos().saturating_sub(now.nanos());
    if left > 0 && left < LIFE.nanos() / 2 {
        let name = name.to_vec();
        remove(store, digest);
        write(store, digest, &name, now.plus(LIFE));
    }
}

/// Ends all tokens of a user; with `None`, all tokens.
pub(super) fn end_all(store: &mut Store, of: Option<&[u8]>) {
    let theirs = names(store, TOKEN).filter_map(|(digest, bytes)| {
        let name = read(bytes).map(|(_, name)| name);
        (of.is_none() || of == name).then(|| digest.to_vec())
    });
    let theirs: Vec<Vec<u8>> = theirs.collect();
    theirs.iter().for_each(|digest| remove(store, digest));
}

/// Whether the token of this key (`x`, moment, digest) ends at that moment.
pub(super) fn ends_then(store: &Store, key: &[u8]) -> bool {
    let Some((ends, digest)) = key.split_first_chunk() else { return false };
    let found = store.get(named(&mut Vec::new(), TOKEN, digest)).and_then(read);
    found.is_some_and(|(then, _)| then.nanos() == u64::from_be_bytes(*ends))
}
