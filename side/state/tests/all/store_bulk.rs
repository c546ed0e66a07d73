//! Ranges removed at once and sorted runs of changes, beside the same changes one by one and `reference`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::reference::{self, Model};
use crate::store::{keys, values};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use quorate_state::store::{
    BUCKET_BYTES, Change, KEY_BYTES_MAX, Path, Store, VALUE_BYTES_MAX, Version, digest_of,
};

type List = Vec<(Vec<u8>, Option<Vec<u8>>)>;

#[derive(Clone, Debug)]
enum Step {
    RemoveRange(Vec<u8>, Option<Vec<u8>>),
    /// From one key that exists to another, so far in the order; perhaps a little after them.
    RemoveBetween(usize, Option<usize>, bool),
    /// Sorted, each key once.
    Apply(List),
    /// In any order, with keys that come several times.
    ApplyUnsorted(List),
    Version,
    Root,
}

/// Numbered keys, as many as several buckets hold.
fn run() -> impl Strategy<Value = List> {
    let values = prop_oneof![
        4 => (0_usize..40).prop_map(|length| Some(vec![7; length])),
        2 => Just(None),
        1 => (1000_usize..5000).prop_map(|length| Some(vec![9; length])),
    ];
    (0_usize..2000, 1_usize..300, 1_usize..4, prop::collection::vec(values, 1..5)).prop_map(
        |(first, count, step, values)| {
            let key = |at: usize| format!("object:{:08}", first + at * step).into_bytes();
            (0..count).map(|at| (key(at), values[at % values.len()].clone())).collect()
        },
    )
}

fn changes() -> impl Strategy<Value = List> {
    let change = (keys(), prop::option::weighted(0.7, values()));
    prop_oneof![3 => prop::collection::vec(change, 0..80), 2 => run()]
}

fn steps() -> impl Strategy<Value = Step> {
    let sorted = |list: List| list.into_iter().collect::<std::collections::BTreeMap<_, _>>();
    prop_oneof![
        2 => (keys(), prop::option::weighted(0.8, keys())).prop_map(|(start, end)| Step::RemoveRange(start, end)),
        4 => (any::<usize>(), prop::option::weighted(0.9, 0_usize..200), any::<bool>())
            .prop_map(|(at, count, after)| Step::RemoveBetween(at, count, after)),
        6 => changes().prop_map(move |list| Step::Apply(sorted(list).into_iter().collect())),
        1 => (changes(), changes()).prop_map(|(one, other)| Step::ApplyUnsorted([other, one].concat())),
        2 => Just(Step::Version),
        2 => Just(Step::Root),
    ]
}

/// A store that changes at once, one that changes one by one, what they must hold, and versions with what they must hold.
#[derive(Default)]
struct Pair {
    at_once: Store,
    single: Store,
    model: Model,
    versions: Vec<(Version, Model)>,
}

impl Pair {
    /// A pair with these entries, whose changes are noted or not.
    fn new(entries: Model, is_noted: bool) -> Self {
        let mut pair = Self { model: entries, ..Self::default() };
        for (key, value) in &pair.model {
            pair.at_once.put(key, value);
            pair.single.put(key, value);
        }
        if is_noted {
            drop((pair.at_once.take_changed(), pair.single.take_changed()));
        }
        pair
    }

    fn remove_range(&mut self, start: &[u8], end: Option<&[u8]>) {
        let inside = |key: &&Vec<u8>| key[..] >= *start && end.is_none_or(|end| key[..] < *end);
        let gone: Vec<_> = self.model.keys().filter(inside).cloned().collect();
        assert_eq!(self.at_once.remove_range(start, end), gone.len() as u64, "{start:?} to {end:?}");
        for key in gone {
            assert!(self.single.remove(&key));
            self.model.remove(&key);
        }
    }

    fn apply(&mut self, list: &[(Vec<u8>, Option<Vec<u8>>)]) {
        let changes: Vec<Change<'_>> = list.iter().map(|(key, value)| (&key[..], value.as_deref())).collect();
        self.at_once.apply_sorted(&changes);
        for (key, value) in list {
            match value {
                Some(value) => {
                    self.single.put(key, value);
                    self.model.insert(key.clone(), value.clone());
                }
                None => {
                    self.single.remove(key);
                    self.model.remove(key);
                }
            }
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::RemoveRange(start, end) => self.remove_range(&start, end.as_deref()),
            Step::RemoveBetween(at, count, after) => {
                let from = at % self.model.len().max(1);
                let key = |at: usize| {
                    let key = self.model.keys().nth(at)?;
                    Some([key, &[0][usize::from(!after)..]].concat())
                };
                let (start, end) = (key(from).unwrap_or_default(), count.and_then(|count| key(from + count)));
                self.remove_range(&start, end.as_deref());
            }
            Step::Apply(list) | Step::ApplyUnsorted(list) => self.apply(&list),
            Step::Version => self.versions.push((self.at_once.version(), self.model.clone())),
            Step::Root => drop(self.at_once.version().root()),
        }
    }

    /// Both stores say the same, and what was noted is the same.
    fn check(&mut self) -> Result<(), TestCaseError> {
        let bytes: usize = self.model.iter().map(|(key, value)| key.len() + value.len()).sum();
        prop_assert_eq!(self.at_once.len(), self.model.len() as u64);
        prop_assert_eq!(self.at_once.bytes(), bytes as u64);
        prop_assert_eq!(self.at_once.take_changed(), self.single.take_changed());
        check_version(&self.at_once.version(), &self.model)
    }

    fn check_versions(&self) -> Result<(), TestCaseError> {
        self.versions.iter().try_for_each(|(version, model)| check_version(version, model))
    }
}

/// All entries, the shape and the counts (which the chunks show), digests that are kept and digests that are not.
fn check_version(version: &Version, model: &Model) -> Result<(), TestCaseError> {
    let entries = || model.iter().map(|(key, value)| (&key[..], &value[..]));
    prop_assert!(version.range(&[], None).eq(entries()));
    for (key, value) in entries() {
        prop_assert_eq!(version.get(key), Some(value));
    }
    let root = reference::root(model);
    prop_assert_eq!(version.root(), root);
    prop_assert_eq!(digest_of(&Path::root(), &mut version.range(&[], None)), Ok(root));
    prop_assert_eq!(version.chunks().collect::<Vec<_>>(), reference::chunks(model));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// What is done at once ends as the same one by one: contents, shape, digests, what was noted; versions never change.
    #[test]
    fn at_once_is_as_one_by_one(
        entries in prop::collection::btree_map(keys(), values(), 0..60),
        numbered in prop::option::of(run()),
        is_noted in any::<bool>(),
        steps in prop::collection::vec(steps(), 1..12),
    ) {
        let mut entries = entries;
        for (key, value) in numbered.into_iter().flatten() {
            entries.insert(key, value.unwrap_or_default());
        }
        let mut pair = Pair::new(entries, is_noted);
        for step in steps {
            let is_change = !matches!(step, Step::Version | Step::Root);
            pair.step(step);
            if is_change {
                pair.check()?;
            }
        }
        pair.check_versions()?;
    }
}

/// Keys that are beginnings of others, long ones that share theirs, large values beside small ones, whole buckets.
fn entries() -> Model {
    let mut model = Model::new();
    for number in 0..400 {
        model.insert(format!("n{number:05}").into_bytes(), vec![1; 10]);
    }
    let long = vec![b's'; 3000];
    for length in [0, 1, 2, 3, 500, 501, 2000, 2999, 3000] {
        model.insert(long[..length].to_vec(), vec![2; 100]);
        model.insert([&long[..length], b"t"].concat(), vec![3; 100]);
    }
    for (key, length) in [("l1", 5000), ("l1/a", 0), ("l2", 70_000), ("l2/a", 4090), ("l2/b", 10)] {
        model.insert(key.into(), vec![4; length]);
    }
    model
}

/// Every range between two of these keys, of keys just before and after them, and of what they begin with.
#[test]
fn every_range_is_removed_as_one_by_one() {
    let entries = entries();
    let mut bounds: Vec<Vec<u8>> = vec![vec![], vec![0], b"n".to_vec(), b"n0020".to_vec(), vec![0xFF]];
    for key in entries.keys().filter(|key| !key.starts_with(b"n") || key.ends_with(b"77")) {
        bounds.extend([key.clone(), [key, &[0][..]].concat()]);
    }
    bounds.sort_unstable();
    let whole = Pair::new(entries, false);
    whole.at_once.version().root();
    for (at, start) in bounds.iter().enumerate() {
        for end in bounds[at..].iter().map(Some).chain([None]).step_by(1 + at % 3) {
            let mut pair = Pair { at_once: Store::from_version(&whole.at_once.version()), ..Pair::default() };
            let inside = |key: &Vec<u8>| key >= start && end.is_none_or(|end| key < end);
            let kept: Model = whole
                .model
                .iter()
                .filter(|(key, _)| !inside(key))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            let removed = pair.at_once.remove_range(start, end.map(Vec::as_slice));
            assert_eq!(removed, (whole.model.len() - kept.len()) as u64, "{start:?} to {end:?}");
            assert_eq!(pair.at_once.version().root(), reference::root(&kept), "{start:?} to {end:?}");
        }
    }
    check_version(&whole.at_once.version(), &whole.model).unwrap();
}

#[test]
fn a_range_without_entries_changes_nothing() {
    let mut pair = Pair::new(entries(), false);
    let ranges: [(&[u8], Option<&[u8]>); 6] = [
        (b"n00077", Some(b"n00077")),
        (b"n00077", Some(b"n00076")),
        (b"n00077\0", Some(b"n00078")),
        (b"o", Some(b"p")),
        (b"\xFF", None),
        (b"z", Some(b"")),
    ];
    for (start, end) in ranges {
        pair.remove_range(start, end);
        pair.check().unwrap();
    }
    assert_eq!(Store::new().remove_range(b"", None), 0);
    pair.remove_range(b"", None);
    assert!(pair.at_once.is_empty());
    pair.check().unwrap();
}

/// Runs that leave the way to what is there at each place it has: before it, after it, and within what its keys share.
#[test]
fn runs_go_beside_what_is_there() {
    let shared = [b'w'; 40];
    let mut there = Model::new();
    for number in 0..200_u8 {
        there.insert([&shared[..], &[number]].concat(), vec![1; 60]);
    }
    for length in [0, 1, 20, 39, 40] {
        for other in [b"v", b"x", b"W", b"\xF7"] {
            let run = |value: usize| -> List {
                let key = |number: u16| [&shared[..length], &other[..], &number.to_be_bytes()].concat();
                (0..300).map(|number| (key(number), Some(vec![2; value]))).collect()
            };
            let mut pair = Pair::new(there.clone(), true);
            pair.at_once.version().root();
            let before = pair.at_once.version();
            for value in [30, 30, 3, 4200, 0] {
                pair.apply(&run(value));
                pair.check().unwrap();
            }
            pair.apply(&run(0).into_iter().map(|(key, _)| (key, None)).collect::<Vec<_>>());
            pair.check().unwrap();
            check_version(&before, &there).unwrap();
        }
    }
}

/// Subtrees become leaves and nodes again exactly at the limit, also where one run does both.
#[test]
fn runs_change_the_shape_at_the_limit() {
    let key = |number: usize| vec![b'k', number as u8];
    for over in [0, 1] {
        let fill = BUCKET_BYTES as usize + over - 100 * 10;
        let list: List = (0..100)
            .map(|number| (key(number), Some(vec![5; if number == 37 { fill } else { 0 }])))
            .collect();
        let wide: List = (0..100).map(|number| (key(number), Some(vec![6; 3000]))).collect();
        let mut pair = Pair::new(Model::new(), false);
        for list in [&list, &wide, &list] {
            pair.apply(list);
            pair.check().unwrap();
        }
        // Most of them go, and a large one stays.
        let mixed: List =
            (0..100).map(|number| (key(number), (number == 3).then(|| vec![7; 5000]))).collect();
        pair.apply(&mixed);
        pair.check().unwrap();
    }
}

/// Large values keep their place, get other neighbors and go.
#[test]
fn runs_meet_large_values() {
    let mut pair = Pair::new([(b"large".to_vec(), vec![1; 100_000])].into(), true);
    let some = |key: &[u8], length: usize| (key.to_vec(), Some(vec![2; length]));
    let lists: [List; 5] = [
        vec![some(b"", 1), some(b"l", 2), some(b"lard", 3), some(b"largf", 4), some(b"z", 5)],
        vec![some(b"large", 100_000), some(b"large/1", 3), some(b"large/2", 5000), some(b"large/3", 9)],
        vec![some(b"large", 10), some(b"large/2", 10)],
        vec![some(b"lar", 10), some(b"large", 5000), some(b"large/2", 0)],
        vec![(b"large".to_vec(), None), (b"large/2".to_vec(), None), (b"m".to_vec(), None)],
    ];
    for list in &lists {
        pair.apply(list);
        pair.check().unwrap();
        pair.versions.push((pair.at_once.version(), pair.model.clone()));
    }
    pair.check_versions().unwrap();
}

/// Nothing has changed when a run is refused.
#[test]
fn runs_with_too_long_entries_are_refused_whole() {
    let (key, value) = (vec![1; KEY_BYTES_MAX + 1], vec![1; VALUE_BYTES_MAX + 1]);
    let mut pair = Pair::new([(b"a".to_vec(), vec![1])].into(), false);
    for wrong in [(&key[..], Some(&b""[..])), (b"b", Some(&value))] {
        let changes = [(&b"a"[..], None), wrong];
        let result = catch_unwind(AssertUnwindSafe(|| pair.at_once.apply_sorted(&changes)));
        assert!(result.is_err());
        pair.check().unwrap();
    }
    pair.at_once.apply_sorted(&[(&key, None)]);
    pair.check().unwrap();
}

/// A tree as deep as a key can be is made and taken apart at once on a small stack.
#[test]
fn the_deepest_tree_needs_no_deep_stack() {
    let work = || {
        let key: Vec<u8> = (0..KEY_BYTES_MAX).map(|at| (at * 7) as u8).collect();
        let lengths = || (0..=40).chain((41..KEY_BYTES_MAX).step_by(97)).chain([KEY_BYTES_MAX]);
        let changes: Vec<Change<'_>> = lengths().map(|length| (&key[..length], Some(&[1; 10][..]))).collect();
        let (mut store, mut single) = (Store::new(), Store::new());
        store.apply_sorted(&changes);
        for length in lengths() {
            single.put(&key[..length], &[1; 10]);
        }
        let version = store.version();
        assert_eq!(version.root(), single.version().root());
        let kept = lengths().filter(|length| !(30..9000).contains(length)).count();
        store.remove_range(&key[..30], Some(&key[..9000]));
        assert_eq!(store.len(), kept as u64);
        for length in lengths().filter(|length| (30..9000).contains(length)) {
            single.remove(&key[..length]);
        }
        assert_eq!(store.version().root(), single.version().root());
        store.apply_sorted(&changes.iter().map(|(key, _)| (*key, None)).collect::<Vec<_>>());
        assert!(store.is_empty());
        assert_eq!(Store::from_version(&version).remove_range(b"", None), changes.len() as u64);
    };
    std::thread::Builder::new().stack_size(192 << 10).spawn(work).unwrap().join().unwrap();
}
