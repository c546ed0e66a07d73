//! The service of the trip through a large store: the engine must find that reading ahead pays, and what to read.

use quorate_execute::{Executor, Service, SessionLimits};
use quorate_kv::{KvCommand, KvQuery, Operation};
use quorate_sim::service::{CORRUPTED, LIST, ServiceConfig, Watched};
use quorate_types::AgreedTime;

fn query(number: u32) -> Vec<u8> {
    let mut query = Vec::new();
    KvQuery::Get { key: format!("k{number}").as_bytes() }.encode(&mut query);
    query
}

fn named(bytes: &[u8], is_query: bool) -> Vec<Vec<u8>> {
    let mut named = Vec::new();
    Watched::new(ServiceConfig::default(), None).objects(bytes, is_query, &mut |key| named.push(key.into()));
    named
}

#[test]
fn a_store_that_was_filled_is_read_ahead() {
    let queries: Vec<Vec<u8>> = (0..40).map(query).collect();
    // A window has room for 16 keys; a store that is small is not looked at.
    for (filled, seen) in [(3 << 20, 16), (1 << 20, usize::MAX)] {
        let service = Watched::new(ServiceConfig { filled, ..ServiceConfig::default() }, None);
        let executor = Executor::new(Box::new(service), SessionLimits::default(), AgreedTime::ZERO);
        assert_eq!(executor.read_ahead(queries.iter().map(Vec::as_slice)), seen, "{filled} bytes");
    }
}

#[test]
fn commands_and_queries_name_their_objects() {
    let mut put = vec![0; 8];
    KvCommand::One(Operation::Put { key: b"k7", value: b"v" }).encode(&mut put);
    assert_eq!(named(&put, false), [b"k7"]);
    assert_eq!(named(&query(7), true), [b"k7"]);
    assert!(named(&[LIST, b'l'], true).is_empty() && named(&[CORRUPTED], true).is_empty());
    assert!(named(b"short", false).is_empty());
}
