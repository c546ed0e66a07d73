//! What the tests of this package share.

use quorate_execute::{Context, InStore, Parallel, ReplySink, Service};
use quorate_kv::{Kv, KvCommand, KvConfig, KvQuery, Operation, Scan};
use quorate_types::{AgreedTime, Seq};

pub(crate) fn ctx() -> Context {
    Context::at(Seq::FIRST, AgreedTime::ZERO)
}

/// The service with an empty store.
pub(crate) fn kv() -> InStore<Parallel<Kv>> {
    with(KvConfig::default())
}

pub(crate) fn with(config: KvConfig) -> InStore<Parallel<Kv>> {
    InStore::new(Parallel::new(Kv::new(config)))
}

pub(crate) fn encoded(command: &KvCommand<'_>) -> Vec<u8> {
    let mut bytes = vec![];
    command.encode(&mut bytes);
    bytes
}

/// Runs a command with as much room as there is by default; gives back the reply's bytes.
pub(crate) fn run(service: &mut dyn Service, command: &KvCommand<'_>) -> Vec<u8> {
    raw(service, &encoded(command))
}

pub(crate) fn raw(service: &mut dyn Service, command: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    let mut sink = ReplySink::new(&mut out, 17 << 16);
    service.execute(command, &ctx(), &mut sink);
    assert!(!sink.overflown(), "a reply within the limits fits");
    out
}

pub(crate) fn query(service: &dyn Service, query: &KvQuery<'_>) -> Vec<u8> {
    let (mut bytes, mut out) = (vec![], vec![]);
    query.encode(&mut bytes);
    let mut sink = ReplySink::new(&mut out, 17 << 16);
    service.query(&bytes, &ctx(), &mut sink);
    assert!(!sink.overflown(), "a reply within the limits fits");
    out
}

pub(crate) fn put<'a>(key: &'a [u8], value: &'a [u8]) -> KvCommand<'a> {
    KvCommand::One(Operation::Put { key, value })
}

pub(crate) fn get(key: &[u8]) -> KvCommand<'_> {
    KvCommand::One(Operation::Get { key })
}

pub(crate) fn delete(key: &[u8]) -> KvCommand<'_> {
    KvCommand::One(Operation::Delete { key })
}

pub(crate) fn scan<'a>(start: &'a [u8], end: &'a [u8], limit: u64) -> KvCommand<'a> {
    KvCommand::Scan(Scan { start, end, limit })
}

pub(crate) fn checkpoint(service: &dyn Service) -> Vec<u8> {
    let mut bytes = vec![];
    service.checkpoint(&mut bytes).expect("a vector takes everything");
    bytes
}
