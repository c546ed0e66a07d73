//! The map of lists, beside one of the standard library.

use crate::support::ctx;
use quorate_execute::{InStore, ReplySink, Service};
use quorate_kv::lists::{LIST_BYTES_MAX, ListAsk, ListReply, Lists, TEXT_BYTES_MAX};
use std::collections::BTreeMap;

fn tell(service: &mut dyn Service, ask: &[u8]) -> ListReply {
    let mut reply = Vec::new();
    service.execute(ask, &ctx(), &mut ReplySink::new(&mut reply, 100));
    ListReply::decode(&reply).expect("a reply")
}

fn ask(service: &dyn Service, ask: ListAsk<'_>) -> ListReply {
    let mut reply = Vec::new();
    service.query(&ask.encode(), &ctx(), &mut ReplySink::new(&mut reply, 100));
    ListReply::decode(&reply).expect("a reply")
}

#[test]
fn answers_are_those_of_a_map() {
    let (mut service, mut map) = (InStore::new(Lists), BTreeMap::<Vec<u8>, Vec<Vec<u8>>>::new());
    // Every kind of command on few keys, in an order that meets all cases.
    for number in 0_u32..500 {
        let (key, string) = ((number % 7).to_le_bytes(), vec![b'x'; (number % 30) as usize]);
        let before = map.get(&key[..]).map(|list| list.len() as u64);
        let said = match number % 11 {
            0 => {
                map.insert(key.to_vec(), Vec::new());
                ListAsk::Put(&key)
            }
            3 => {
                map.remove(&key[..]);
                ListAsk::Remove(&key)
            }
            _ => {
                map.entry(key.to_vec()).or_default().push(string.clone());
                ListAsk::Append(&key, &string)
            }
        };
        assert_eq!(ListAsk::decode(&said.encode()), Some(said));
        assert_eq!(tell(&mut service, &said.encode()), ListReply::Length(before), "{number}");
        let now = map.get(&key[..]).map(|list| list.len() as u64);
        assert_eq!(ask(&service, ListAsk::Length(&key)), ListReply::Length(now));
    }
    let strings = map.values().map(Vec::len).sum::<usize>() as u64;
    let totals = ListReply::Totals { keys: map.len() as u64, strings };
    assert!(map.len() > 2 && strings > 20, "there was something to compare");
    assert_eq!(ask(&service, ListAsk::Totals), totals);
    assert_eq!(tell(&mut service, &ListAsk::Totals.encode()), totals, "also in the order of commands");
}

#[test]
fn what_is_too_long_or_malformed_changes_nothing() {
    let mut service = InStore::new(Lists);
    let long = vec![b'x'; TEXT_BYTES_MAX];
    let longer = [&long[..], b"x"].concat();
    let put = ListAsk::Put(b"k").encode();
    for wrong in [
        ListAsk::Put(&longer).encode(),
        ListAsk::Append(b"k", &longer).encode(),
        [&put[..], b"more"].concat(),
        put[..2].to_vec(),
        vec![],
        vec![6, 0, 0],
        vec![4, 0],
    ] {
        assert_eq!(tell(&mut service, &wrong), ListReply::Refused, "{wrong:?}");
    }
    assert_eq!(ask(&service, ListAsk::Totals), ListReply::Totals { keys: 0, strings: 0 });
    assert_eq!(ask(&service, ListAsk::Put(b"k")), ListReply::Refused, "a query changes nothing");
    let append = ListAsk::Append(b"k", &long).encode();
    let fit = (LIST_BYTES_MAX / (TEXT_BYTES_MAX + 2)) as u64;
    for before in 0..fit {
        let expected = ListReply::Length((before > 0).then_some(before));
        assert_eq!(tell(&mut service, &append), expected);
    }
    assert_eq!(tell(&mut service, &append), ListReply::Refused);
    assert_eq!(ask(&service, ListAsk::Totals), ListReply::Totals { keys: 1, strings: fit });
}
