//! Maps and sets beside those of the standard library, and what a sweep leaves beside what can be reached.

use super::{FreshKeys, Map, Set};
use crate::context::Context;
use crate::view::{StateView, Told};
use quorate_state::store::Store;
use quorate_types::{AgreedTime, ClientId, Random, Seq, SessionId};
use std::collections::{BTreeMap, BTreeSet};

fn change<T>(store: &mut Store, with: impl FnOnce(&mut StateView<'_>) -> T) -> T {
    let mut told: Vec<Told> = Vec::new();
    with(&mut StateView::direct(store, &mut told))
}

/// A name or key of few letters, so that some begin with others. `0xff` has no letter behind it.
fn word(random: &mut Random) -> Vec<u8> {
    (0..random.next() % 4).map(|_| [b'a', b'b', 0, 0xff][(random.next() % 4) as usize]).collect()
}

#[test]
fn maps_do_not_touch_each_other_and_have_the_order_of_their_keys() {
    let mut random = Random::new(1);
    let names: Vec<Vec<u8>> = [&b""[..], b"a", b"ab", b"\xff", b"\xff\xff"].map(<[u8]>::to_vec).into();
    let mut store = Store::new();
    let mut models: Vec<BTreeMap<Vec<u8>, Vec<u8>>> = vec![BTreeMap::new(); names.len()];
    for _ in 0..4000 {
        let at = (random.next() % names.len() as u64) as usize;
        let (map, model) = (Map::new(&names[at]), &mut models[at]);
        let (key, value) = (word(&mut random), word(&mut random));
        change(&mut store, |view| {
            match random.next() % 5 {
                0 => assert_eq!(map.remove(view, &key), model.remove(&key).is_some()),
                1 => {
                    map.set(view, &key, &value);
                    model.insert(key.clone(), value);
                }
                _ => assert_eq!(map.put(view, &key, &value), model.insert(key.clone(), value).is_some()),
            }
            assert_eq!(map.get(view, &key).as_deref(), model.get(&key).map(Vec::as_slice));
            assert_eq!(map.contains(view, &key), model.contains_key(&key));
        });
        let view = StateView::reading(&store);
        for (name, model) in names.iter().zip(&models) {
            let all: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            assert_eq!(Map::new(name).entries(&view), all);
            let mut some = Vec::new();
            Map::new(name).each_from(&view, &key, |(key, _)| {
                some.push(key.into_owned());
                some.len() < 3
            });
            let expected: Vec<_> = model.range(key.clone()..).take(3).map(|(key, _)| key.clone()).collect();
            assert_eq!(some, expected);
        }
    }
}

#[test]
fn a_set_is_the_same_in_whatever_order_it_was_filled() {
    let mut random = Random::new(2);
    let set = Set::new(b"seats");
    let mut words: Vec<Vec<u8>> = (0..200).map(|_| word(&mut random)).collect();
    let model: BTreeSet<Vec<u8>> = words.iter().cloned().collect();
    let mut roots = BTreeSet::new();
    for _ in 0..20 {
        for at in (1..words.len()).rev() {
            words.swap(at, (random.next() % (at as u64 + 1)) as usize);
        }
        let mut store = Store::new();
        let new = change(&mut store, |view| words.iter().filter(|word| set.insert(view, word)).count());
        assert_eq!(new, model.len());
        let elements = set.elements(&StateView::reading(&store));
        assert_eq!(elements, model.iter().cloned().collect::<Vec<_>>());
        roots.insert(store.version().root());
    }
    assert_eq!(roots.len(), 1, "one digest");
    let mut store = Store::new();
    change(&mut store, |view| {
        assert!(set.insert(view, b"1") && set.contains(view, b"1"));
        assert!(set.remove(view, b"1") && !set.remove(view, b"1"));
    });
    assert_eq!(store.len(), 0);
}

#[test]
fn no_two_commands_make_the_same_key() {
    let ctx = |seq, request, command, session| {
        let session = SessionId { index: session, generation: 1 };
        let ctx = Context::at(Seq::new(seq), AgreedTime::ZERO).with_request(request).with_command(command);
        ctx.with_session(ClientId::new(1), session)
    };
    let mut all = BTreeSet::new();
    // The last request stands for sessions that expired together.
    for request in [0, 1, 255, 256, u32::MAX - 1] {
        for (seq, command, session) in [(1, 0, 0), (1, 0, 1), (1, 1, 0), (256, 0, 0), (257, 0, 0)] {
            let mut fresh = FreshKeys::new(&ctx(seq, request, command, session));
            let keys: Vec<_> = (0..300).map(|_| fresh.key()).collect();
            assert!(keys.is_sorted(), "in the order in which they were made");
            all.extend(keys);
        }
    }
    assert_eq!(all.len(), 5 * 5 * 300);
    let first = |seq| FreshKeys::new(&ctx(seq, 0, 0, 0)).key();
    assert!(first(255) < first(256), "in the order of the log");
}

/// What can be reached, by repeating until nothing is added.
fn reachable(graph: &BTreeMap<u8, Vec<u8>>, roots: &[u8]) -> BTreeSet<u8> {
    let mut all: BTreeSet<u8> = roots.iter().copied().filter(|root| graph.contains_key(root)).collect();
    loop {
        let next = all.iter().flat_map(|at| &graph[at]).copied().filter(|to| graph.contains_key(to));
        let more: BTreeSet<u8> = next.chain(all.iter().copied()).collect();
        if more.len() == all.len() {
            return all;
        }
        all = more;
    }
}

#[test]
fn a_sweep_leaves_what_can_be_reached() {
    let (heap, other) = (Map::new(b"heap"), Map::new(b"hea"));
    let (mut removed, mut left) = (0, 0);
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut below = |below: u64| random.next() % below;
        // Some refer to themselves, to each other, or to what is not there.
        let graph: BTreeMap<u8, Vec<u8>> = (0..20)
            .filter_map(|at| {
                let count = below(4);
                (count > 0).then(|| (at, (1..count).map(|_| below(22) as u8).collect()))
            })
            .collect();
        let roots: Vec<u8> = (0..below(3)).map(|_| below(22) as u8).collect();
        let mut store = Store::new();
        change(&mut store, |view| {
            graph.iter().for_each(|(at, refers)| heap.set(view, &[*at], refers));
            other.set(view, b"p\0", b"of another map");
        });
        let expected = reachable(&graph, &roots);
        let gone = change(&mut store, |view| {
            heap.sweep(view, roots.chunks(1), |value, each| value.chunks(1).for_each(each))
        });
        let view = StateView::reading(&store);
        let stays: BTreeSet<u8> = heap.entries(&view).iter().map(|(key, _)| key[0]).collect();
        assert_eq!((&stays, gone), (&expected, graph.len() - expected.len()), "seed {seed}");
        assert_eq!(other.entries(&view).len(), 1, "seed {seed}");
        (removed, left) = (removed + gone, left + stays.len());
    }
    assert!(removed > 500 && left > 500, "{removed} are gone and {left} are left");
}
