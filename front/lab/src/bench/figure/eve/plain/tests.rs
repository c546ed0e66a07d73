//! Plain servers and their backups, small.

use super::link::{Backup, Frame};
use super::memory::{Heap, Memory, Which};
use super::{Server, Shipping, Ships, call, kept};
use crate::bench::figure::eve::shop::Shopping;
use quorate_kv::shop::{Browsing, Rows as _, Size, Transaction, carry_out, totals};
use quorate_types::Random;
use std::collections::BTreeMap;
use std::time::Duration;

const SIZE: Size = Size { items: 50, customers: 10, orders: 20 };

#[test]
fn rows_in_pages_are_those_of_a_map() {
    let (mut heap, mut map, mut random) = (Heap::default(), BTreeMap::new(), Random::new(3));
    for _ in 0..5000 {
        let key = random.below(300).to_be_bytes();
        if random.below(3) == 0 {
            heap.remove(&key);
            map.remove(&key[..]);
        } else {
            let value = vec![random.next() as u8; random.below(400) as usize];
            heap.put(&key, &value);
            map.insert(key.to_vec(), value);
        }
    }
    let mut found = BTreeMap::new();
    heap.each(&[0; 8], &[255; 8], &mut |key, value| {
        found.insert(key.to_vec(), value.to_vec());
        true
    });
    assert_eq!(found, map);
    let key = map.keys().next().expect("one is left");
    assert_eq!(quorate_kv::shop::Rows::get(&heap, key).as_deref(), map.get(key).map(|value| &value[..]));
}

/// Only what changed is shipped, and with it the backup has the same rows.
#[test]
fn a_backup_has_what_was_shipped() {
    for which in [Some(Which::All), Some(Which::Rows), None] {
        let size = Size { items: 500, customers: 100, orders: 200 };
        let (memory, mut backup) = (Memory::new(1), Backup::default());
        let mut mix = Browsing::new(size, 3, 5);
        let mut ship = |what: &Transaction| {
            let mut using = memory.by(0);
            carry_out(&mut using, what);
            let frame = match which {
                Some(which) => Frame::of_pages(&memory, which),
                None => Frame::of_writes(&using.written),
            };
            backup.take(&frame.bytes).expect("a frame");
            frame.bytes.len()
        };
        let first = ship(&Transaction::Open(size));
        for at in 0..500 {
            let what = mix.next(at % 3);
            let (bytes, reads) = (ship(&what), what.tables().1.is_empty());
            assert!(bytes < first / 2, "{what:?} ships {bytes} of {first} bytes");
            assert_eq!(reads && which != Some(Which::All), bytes == 1, "{what:?} ships {bytes} bytes");
        }
        assert_eq!(backup.totals().as_ref(), Some(&totals(&*memory.heap())));
    }
}

#[test]
fn a_backup_takes_no_bytes_that_are_none() {
    let mut random = Random::new(1);
    for len in 0..200 {
        let mut bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        for kind in [1, 2] {
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            let taken = Backup::default().take(&bytes);
            assert!(len < 2 || taken.is_none(), "{bytes:?}");
        }
    }
}

#[test]
fn servers_keep_what_they_answer() {
    for ships in [Ships::Nothing, Ships::Pages, Ships::RowPages, Ships::Writes] {
        let shipping = Shipping { ships, mbit: 1000, every: Duration::from_millis(3) };
        let server = Server::start(SIZE, 4, shipping).expect("a server");
        let opened = server.shipped();
        let mut shopping = Shopping::new(SIZE, 6, 200);
        let mut moments = 0;
        let window = (Duration::ZERO, Duration::from_millis(300));
        let called = call(server.address, 6, window, &mut shopping, &mut || moments += 1).expect("answers");
        assert!(called.per_s > 0.0 && moments == 2, "{ships:?}");
        assert!(shopping.answered > 0);
        assert_eq!(
            server.shipped() > opened,
            ships != Ships::Nothing && (ships == Ships::Pages || shopping.sold.orders + shopping.carts > 0)
        );
        let check = kept(server, &shopping.sold).expect("it ends");
        assert!(check.is_passed(), "{ships:?}: {}", check.text());
    }
}
