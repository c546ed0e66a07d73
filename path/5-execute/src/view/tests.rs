//! Views beside a map: whatever a command reads and writes, it sees its own writes, then those of earlier commands, then the store.

use super::{Earlier, RunId, StateView};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use quorate_state::store::Store;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    Set(u8, u8),
    Remove(u8),
    Get(u8),
    Range(u8, Option<u8>, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..12_u8;
    let step = prop_oneof![
        3 => (key(), any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
        1 => (key(), any::<u8>()).prop_map(|(key, value)| Step::Set(key, value)),
        2 => key().prop_map(Step::Remove),
        3 => key().prop_map(Step::Get),
        2 => (key(), proptest::option::of(key()), 0..6_usize).prop_map(|(a, b, most)| Step::Range(a, b, most)),
    ];
    vec(step, 0..60)
}

/// What the steps see, in words.
fn in_view(view: &mut StateView<'_>, steps: &[Step]) -> Vec<String> {
    let one = |step: &Step| match *step {
        Step::Put(key, value) => format!("{}", view.put(&[key], &[value])),
        Step::Set(key, value) => {
            view.set(&[key], &[value]);
            String::new()
        }
        Step::Remove(key) => format!("{}", view.remove(&[key])),
        Step::Get(key) => format!("{:?} {}", view.get(&[key]).as_deref(), view.contains(&[key])),
        Step::Range(start, end, most) => {
            let end = end.map(|end| [end]);
            let (start, end) = ([start], end.as_ref().map(|end| &end[..]));
            let entries: Vec<_> = view.range(&start, end).take(most).collect();
            format!("{entries:?}")
        }
    };
    steps.iter().map(one).collect()
}

fn in_map(map: &mut BTreeMap<Vec<u8>, Vec<u8>>, steps: &[Step]) -> Vec<String> {
    let one = |step: &Step| match *step {
        Step::Put(key, value) => format!("{}", map.insert(vec![key], vec![value]).is_some()),
        Step::Set(key, value) => {
            map.insert(vec![key], vec![value]);
            String::new()
        }
        Step::Remove(key) => format!("{}", map.remove(&vec![key]).is_some()),
        Step::Get(key) => {
            let value = map.get(&vec![key]).map(|value| &value[..]);
            format!("{value:?} {}", value.is_some())
        }
        Step::Range(start, end, most) => {
            let below = |key: &[u8]| end.is_none_or(|end| *key < [end][..]);
            let entries = map.iter().filter(|(key, _)| key[..] >= [start][..] && below(key));
            let entries: Vec<_> = entries.map(|(k, v)| (k.clone(), v.clone())).take(most).collect();
            format!("{entries:?}")
        }
    };
    steps.iter().map(one).collect()
}

/// Writes of earlier commands, sorted by key.
fn earlier(writes: &BTreeMap<u8, Option<u8>>) -> Vec<Earlier> {
    let value = |value: &Option<u8>| value.map(|value| Bytes::copy_from_slice(&[value]));
    let one = |(key, v): (&u8, &Option<u8>)| Earlier {
        key: [*key].into(),
        run: RunId(u64::from(*key)),
        value: value(v),
    };
    writes.iter().map(one).collect()
}

proptest! {
    #[test]
    fn a_view_is_as_a_map(
        before in steps(),
        writes in proptest::collection::btree_map(0..12_u8, any::<Option<u8>>(), 0..8),
        steps in steps(),
    ) {
        let (mut store, mut map) = (Store::new(), BTreeMap::new());
        prop_assert_eq!(in_view(&mut StateView::direct(&mut store, &mut Vec::new()), &before), in_map(&mut map, &before));
        let (version, list) = (store.version(), earlier(&writes));
        for (key, value) in &writes {
            match value {
                Some(value) => drop(map.insert(vec![*key], vec![*value])),
                None => drop(map.remove(&vec![*key])),
            }
        }
        let was = map.clone();
        let mut view = StateView::noting(&version, &list);
        prop_assert_eq!(in_view(&mut view, &steps), in_map(&mut map, &steps));
        let noted = view.noted();
        prop_assert!(store.version().same_objects(&version), "nothing is written into the store");
        // With what was noted as its writes, the map of before becomes that of now.
        let mut now = was;
        for (key, value) in &noted.writes {
            match value {
                Some(value) => drop(now.insert(key.to_vec(), value.to_vec())),
                None => drop(now.remove(&key.to_vec())),
            }
        }
        prop_assert_eq!(now, map);
        for (key, saw) in &noted.reads.keys {
            let written = writes.contains_key(&key[0]).then(|| RunId(u64::from(key[0])));
            prop_assert_eq!(*saw, written, "whose write of {:?} it saw", key);
        }
        for range in &noted.reads.ranges {
            let inside = list.iter().filter(|earlier| earlier.key >= range.start && range.end.covers(&earlier.key));
            let inside: Vec<_> = inside.map(|earlier| (earlier.key.clone(), earlier.run)).collect();
            prop_assert_eq!(&range.saw, &inside);
        }
    }

    /// A command that sees the same at all places that it read does the same, whatever is elsewhere.
    #[test]
    fn what_was_not_read_does_not_matter(before in steps(), steps in steps(), others in vec((0..12_u8, any::<u8>()), 0..9)) {
        let mut store = Store::new();
        in_view(&mut StateView::direct(&mut store, &mut Vec::new()), &before);
        let version = store.version();
        let mut view = StateView::noting(&version, &[]);
        let saw = in_view(&mut view, &steps);
        let noted = view.noted();
        let was_read = |key: u8| {
            noted.reads.keys.contains_key(&[key][..])
                || noted.reads.ranges.iter().any(|range| [key][..] >= *range.start && range.end.covers(&[key]))
        };
        for (key, value) in others.into_iter().filter(|(key, _)| !was_read(*key)) {
            store.put(&[key], &[value]);
        }
        let version = store.version();
        prop_assert_eq!(in_view(&mut StateView::noting(&version, &[]), &steps), saw);
    }
}

/// A range is read as far as it was taken.
#[test]
fn a_range_ends_where_its_reader_stopped() {
    let mut store = Store::new();
    for key in 0..9_u8 {
        store.put(&[key], b"value");
    }
    let version = store.version();
    for (most, covers) in [(0, 0), (1, 3), (3, 5), (4, 7), (9, 7)] {
        let view = StateView::noting(&version, &[]);
        assert_eq!(view.range(&[2], Some(&[7])).take(most).count(), most.min(5));
        let noted = view.noted();
        let covered = noted
            .reads
            .ranges
            .first()
            .map_or(0, |range| (2..12).find(|key| !range.end.covers(&[*key])).unwrap_or(12));
        assert_eq!(covered, if most == 4 { 6 } else { covers }, "{most}");
    }
}

#[test]
#[should_panic(expected = "a query changes nothing")]
fn a_query_changes_nothing() {
    StateView::reading(&Store::new()).put(b"key", b"value");
}
