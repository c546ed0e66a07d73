//! The object store against std's map and `reference`, over random histories.

use crate::reference::{self, Model};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use quorate_state::store::{
    Change, Changed, ChunkError, KEY_BYTES_MAX, Path, ReplaceError, Store, Version, digest_of, outline_root,
};
use quorate_types::Digest;

/// Keys that share beginnings, are beginnings of others, empty, long.
pub(crate) fn keys() -> impl Strategy<Value = Vec<u8>> {
    let byte = || prop::sample::select(vec![0, 1, 15, 16, 17, 127, 240, 255, b'a', b'b']);
    prop_oneof![
        4 => prop::collection::vec(byte(), 0..5),
        3 => prop::collection::vec(any::<u8>(), 1..4),
        2 => (0_usize..40).prop_map(|length| vec![b'p'; length]),
        2 => (0_usize..600, byte()).prop_map(|(at, byte)| {
            let mut key = vec![0x77; 300 + at % 7];
            key[at % 290] = byte;
            key
        }),
        1 => (0_u32..3000).prop_map(|number| format!("object:{number:08}").into_bytes()),
        1 => (0_u8..20).prop_map(|last| [vec![0xAB; 5000], vec![last]].concat()),
    ]
}

/// Values of sizes around the limits of buckets and chunks, mostly small ones.
pub(crate) fn values() -> impl Strategy<Value = Vec<u8>> {
    let sizes = prop_oneof![
        8 => 0_usize..100,
        2 => 300_usize..700,
        2 => Just(64_usize),
        2 => 2000_usize..2100,
        1 => 4060_usize..4110,
        1 => 20_000_usize..40_000,
        1 => 65_500_usize..65_560,
    ];
    (sizes, any::<u8>()).prop_map(|(size, byte)| (0..size).map(|at| byte.wrapping_add(at as u8)).collect())
}

#[derive(Clone, Debug)]
enum Step {
    Put(Vec<u8>, Vec<u8>),
    /// Another value of the same length for the key that is so far in the order.
    Overwrite(usize, u8),
    Remove(usize),
    RemoveRange(usize, usize),
    /// At once, from one key to before another.
    CutRange(Vec<u8>, Vec<u8>),
    Apply(Vec<(Vec<u8>, Option<Vec<u8>>)>),
    Version,
    RollBack(usize),
    Drop(usize),
    Replace(usize, usize, Vec<(Vec<u8>, Vec<u8>)>),
    Root,
    Changed,
    Range(Vec<u8>, Vec<u8>, Vec<bool>),
}

fn steps() -> impl Strategy<Value = Step> {
    let entry = || (keys(), values());
    prop_oneof![
        10 => entry().prop_map(|(key, value)| Step::Put(key, value)),
        4 => (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Step::Overwrite(at, byte)),
        6 => any::<usize>().prop_map(Step::Remove),
        1 => (any::<usize>(), 0_usize..60).prop_map(|(from, count)| Step::RemoveRange(from, count)),
        1 => (keys(), keys()).prop_map(|(start, end)| Step::CutRange(start, end)),
        3 => prop::collection::vec((keys(), prop::option::weighted(0.7, values())), 0..60).prop_map(Step::Apply),
        2 => Just(Step::Version),
        1 => any::<usize>().prop_map(Step::RollBack),
        1 => any::<usize>().prop_map(Step::Drop),
        2 => (any::<usize>(), 0_usize..12, prop::collection::vec(entry(), 0..30))
            .prop_map(|(at, length, entries)| Step::Replace(at, length, entries)),
        2 => Just(Step::Root),
        3 => Just(Step::Changed),
        2 => (keys(), keys(), prop::collection::vec(any::<bool>(), 0..20))
            .prop_map(|(start, end, ends)| Step::Range(start, end, ends)),
    ]
}

/// A store, what it must hold, and versions with what they must hold.
#[derive(Default)]
struct Run {
    store: Store,
    model: Model,
    versions: Vec<(Version, Model)>,
    /// Another store that only hears what changed, and the model when it heard that last.
    follower: Store,
    followed: Model,
    /// Whether everything that changed since then was noted.
    is_noted: bool,
}

impl Run {
    /// The follower hears what changed; where that was not noted, it compares.
    fn follow(&mut self) -> Result<(), TestCaseError> {
        let (noted, now) = (self.store.take_changed(), self.store.version());
        prop_assert_eq!(noted.is_some(), self.is_noted);
        let compared = Changed::between(&self.follower.version(), &now);
        let changed = noted.unwrap_or_else(|| compared.clone());
        prop_assert_eq!(&changed, &compared);
        prop_assert_eq!(Changed::read(changed.records().clone()), Some(changed.clone()));
        let list: Vec<_> =
            changed.iter().map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec))).collect();
        prop_assert_eq!(list, reference::changes(&self.model, &self.followed));
        self.follower.apply(&changed);
        prop_assert!(self.follower.version().same_objects(&now));
        (self.followed, self.is_noted) = (self.model.clone(), true);
        Ok(())
    }

    fn key_at(&self, at: usize) -> Option<Vec<u8>> {
        self.model.keys().nth(at % self.model.len().max(1)).cloned()
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Put(key, value) => {
                prop_assert_eq!(self.store.put(&key, &value), self.model.insert(key, value).is_some());
            }
            Step::Overwrite(at, byte) => {
                let Some(key) = self.key_at(at) else { return Ok(()) };
                let value: Vec<u8> = self.model[&key].iter().map(|old| old ^ byte).collect();
                prop_assert!(self.store.put(&key, &value));
                self.model.insert(key, value);
            }
            Step::Remove(at) => {
                let Some(key) = self.key_at(at) else { return Ok(()) };
                prop_assert!(self.store.remove(&key));
                self.model.remove(&key);
                prop_assert!(!self.store.remove(&key));
            }
            Step::RemoveRange(from, count) => {
                let from = from % self.model.len().max(1);
                let gone: Vec<_> = self.model.keys().skip(from).take(count).cloned().collect();
                for key in gone {
                    self.model.remove(&key);
                    prop_assert!(self.store.remove(&key));
                }
            }
            Step::CutRange(start, end) => {
                let before = self.model.len();
                self.model.retain(|key, _| *key < start || *key >= end);
                let removed = self.store.remove_range(&start, Some(&end));
                prop_assert_eq!(removed, (before - self.model.len()) as u64);
            }
            Step::Apply(changes) => self.apply(changes),
            Step::Version => self.versions.push((self.store.version(), self.model.clone())),
            Step::RollBack(at) => {
                let Some((version, model)) = self.versions.get(at % self.versions.len().max(1)) else {
                    return Ok(());
                };
                self.store.roll_back(version);
                self.model = model.clone();
                self.is_noted = false;
            }
            Step::Drop(at) if !self.versions.is_empty() => {
                self.versions.swap_remove(at % self.versions.len());
            }
            Step::Drop(_) => {}
            Step::Replace(at, length, entries) => self.replace(at, length, entries)?,
            Step::Root => {
                self.store.version().root();
            }
            Step::Changed => self.follow()?,
            Step::Range(start, end, ends) => self.range(&start, &end, &ends)?,
        }
        prop_assert_eq!(self.store.len(), self.model.len() as u64);
        let bytes: usize = self.model.iter().map(|(key, value)| key.len() + value.len()).sum();
        prop_assert_eq!(self.store.bytes(), bytes as u64);
        Ok(())
    }

    fn apply(&mut self, changes: Vec<(Vec<u8>, Option<Vec<u8>>)>) {
        let changes: std::collections::BTreeMap<_, _> = changes.into_iter().collect();
        let borrowed: Vec<Change<'_>> =
            changes.iter().map(|(key, value)| (&key[..], value.as_deref())).collect();
        self.store.apply_sorted(&borrowed);
        for (key, value) in changes {
            match value {
                Some(value) => self.model.insert(key, value),
                None => self.model.remove(&key),
            };
        }
    }

    fn replace(
        &mut self,
        at: usize,
        length: usize,
        entries: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Result<(), TestCaseError> {
        let key = self.key_at(at).unwrap_or_else(|| vec![at as u8; 3]);
        let symbols = reference::symbols(&key);
        let path = Path::from_bytes(&symbols[..length.min(symbols.len())]).unwrap();
        // Entries whose keys are made to begin with the path, so far as it goes.
        let mut new = Model::new();
        for (mut other, value) in entries {
            let whole = path.len() / 2;
            other.splice(..whole.min(other.len()), key[..whole.min(key.len())].iter().copied());
            if path.contains(&other) {
                new.insert(other, value);
            }
        }
        for (gone, _) in reference::under(&self.model.clone(), &path) {
            self.model.remove(gone);
        }
        let result = self.store.replace(&path, &mut new.iter().map(|(key, value)| (&key[..], &value[..])));
        prop_assert_eq!(result, Ok(()));
        self.model.extend(new);
        self.is_noted = false;
        Ok(())
    }

    fn range(&self, start: &[u8], end: &[u8], ends: &[bool]) -> Result<(), TestCaseError> {
        let mut ours = self.store.range(start, Some(end));
        let empty = start >= end;
        let all = self.model.iter().filter(|(key, _)| !empty && key[..] >= *start && key[..] < *end);
        let mut theirs: std::collections::VecDeque<_> =
            all.map(|(key, value)| (&key[..], &value[..])).collect();
        for &front in ends {
            match front {
                true => prop_assert_eq!(ours.next(), theirs.pop_front()),
                false => prop_assert_eq!(ours.next_back(), theirs.pop_back()),
            }
        }
        prop_assert!(ours.clone().rev().eq(theirs.iter().rev().copied()));
        prop_assert!(ours.eq(theirs));
        Ok(())
    }
}

fn store_of<'a>(entries: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>) -> Store {
    let mut store = Store::new();
    entries.for_each(|(key, value)| {
        store.put(key, value);
    });
    store
}

/// All that a version says, against the model.
fn check(version: &Version, model: &Model) -> Result<(), TestCaseError> {
    let entries: Vec<_> = model.iter().map(|(key, value)| (&key[..], &value[..])).collect();
    prop_assert!(version.range(&[], None).eq(entries.iter().copied()));
    prop_assert!(version.range(&[], None).rev().eq(entries.iter().copied().rev()));
    for (key, value) in model {
        prop_assert_eq!(version.get(key), Some(&value[..]));
        let longer = [&key[..], &[0]].concat();
        prop_assert_eq!(version.get(&longer), model.get(&longer).map(|value| &value[..]));
    }
    let root = reference::root(model);
    prop_assert_eq!(version.root(), root);
    prop_assert_eq!(digest_of(&Path::root(), &mut version.range(&[], None)), Ok(root));
    let chunks: Vec<_> = version.chunks().collect();
    prop_assert_eq!(&chunks, &reference::chunks(model));
    let outline: Vec<_> = chunks.iter().map(|chunk| (chunk.path.clone(), chunk.digest)).collect();
    prop_assert_eq!(outline_root(&outline), Ok(root));
    for chunk in &chunks {
        prop_assert_eq!(version.digest_at(&chunk.path), Some(chunk.digest));
        prop_assert_eq!(digest_of(&chunk.path, &mut version.entries_at(&chunk.path)), Ok(chunk.digest));
        prop_assert_eq!(version.entries_at(&chunk.path).count() as u64, chunk.count);
    }
    Ok(())
}

/// The same contents by other ways have the same root.
fn check_histories(model: &Model, root: Digest) -> Result<(), TestCaseError> {
    let sorted = store_of(model.iter());
    prop_assert_eq!(sorted.version().root(), root);
    prop_assert_eq!(store_of(model.iter().rev()).version().root(), root);
    let version = sorted.version();
    let chunks: Vec<_> = version.chunks().collect();
    let (mut forth, mut back) = (Store::new(), Store::new());
    for chunk in &chunks {
        forth.replace(&chunk.path, &mut version.entries_at(&chunk.path)).unwrap();
    }
    for chunk in chunks.iter().rev() {
        let entries = || version.entries_at(&chunk.path);
        let other = Err(ReplaceError::Digest(chunk.digest));
        prop_assert_eq!(back.replace_if(&chunk.path, &mut entries(), Digest::new([7; 32])), other);
        prop_assert_eq!(back.replace_if(&chunk.path, &mut entries(), chunk.digest), Ok(()));
    }
    prop_assert_eq!(forth.version().root(), root);
    prop_assert_eq!(back.version().root(), root);
    let mut whole = Store::new();
    whole.replace(&Path::root(), &mut version.range(&[], None)).unwrap();
    prop_assert_eq!(whole.version().root(), root);
    prop_assert_eq!(whole.len(), model.len() as u64);
    Ok(())
}

/// Digests by parts on several threads are those of one.
fn check_parts(model: &Model, root: quorate_types::Digest) -> Result<(), TestCaseError> {
    for about in [1, 3, 16, 1000] {
        let version = store_of(model.iter()).version();
        let parts = version.parts(about);
        std::thread::scope(|scope| {
            for part in &parts {
                scope.spawn(|| part.digest());
            }
            scope.spawn(|| version.root());
        });
        prop_assert_eq!(version.root(), root);
        prop_assert!(version.parts(about).is_empty());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Whatever the history, the store has the contents, the shape and the digests of the model; versions never change.
    #[test]
    fn every_history_ends_as_the_model_says(history in prop::collection::vec(steps(), 1..120)) {
        let mut run = Run::default();
        for step in history {
            run.step(step)?;
        }
        let now = run.store.version();
        check(&now, &run.model)?;
        for (version, model) in &run.versions {
            check(version, model)?;
            let changes: Vec<_> = now.changes_since(version).map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec))).collect();
            prop_assert_eq!(changes, reference::changes(&run.model, model));
            let back: Vec<_> = version.changes_since(&now).map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec))).collect();
            prop_assert_eq!(back, reference::changes(model, &run.model));
            prop_assert_eq!(now.same_objects(version), run.model == *model);
        }
        check_histories(&run.model, now.root())?;
    }

    /// Digests computed by parts, on several threads at once, are the same.
    #[test]
    fn parts_give_the_same_root(entries in prop::collection::btree_map(keys(), values(), 0..150)) {
        check_parts(&entries, reference::root(&entries))?;
    }

    /// What lies under any path, canonical or not, has the digest that its entries say.
    #[test]
    fn any_path_has_the_digest_of_its_entries(
        entries in prop::collection::btree_map(keys(), values(), 1..120),
        at in any::<prop::sample::Index>(),
        length in 0_usize..620,
        change in prop::option::of((0_usize..620, 0_u8..16)),
    ) {
        let version = store_of(entries.iter()).version();
        let all: Vec<_> = entries.keys().collect();
        let mut symbols = reference::symbols(all[at.index(all.len())]);
        symbols.truncate(length);
        if let Some((at, nibble)) = change && at < symbols.len() && symbols[at] != Path::END {
            symbols[at] = nibble;
        }
        let path = Path::from_bytes(&symbols).unwrap();
        let under = reference::under(&entries, &path);
        prop_assert!(version.entries_at(&path).eq(under.iter().copied()));
        let mut records = vec![7];
        prop_assert_eq!(version.records_at(&path, &mut records), under.len() as u64);
        let mut expected = vec![7];
        for (key, value) in &under {
            expected.extend_from_slice(&(key.len() as u32).to_le_bytes());
            expected.extend_from_slice(&(value.len() as u32).to_le_bytes());
            expected.extend_from_slice(key);
            expected.extend_from_slice(value);
        }
        prop_assert!(records == expected, "{} bytes, {} expected", records.len(), expected.len());
        let expected = (!under.is_empty()).then(|| reference::digest(&under, path.len()));
        prop_assert_eq!(version.digest_at(&path), expected);
        let computed = digest_of(&path, &mut under.iter().copied());
        match expected {
            Some(digest) => prop_assert_eq!(computed, Ok(digest)),
            None => prop_assert_eq!(computed, Err(ChunkError::Empty)),
        }
    }
}

#[test]
fn records_of_changes_are_sorted_and_whole() {
    let mut store = Store::new();
    assert_eq!(store.take_changed(), None);
    store.put(b"gone", b"1");
    drop(store.take_changed());
    for number in 0..3_u8 {
        store.put(&[number], &[number; 2]);
    }
    store.remove(b"gone");
    store.put(b"again", b"1");
    store.remove(b"again");
    let changed = store.take_changed().expect("all of it is noted");
    assert_eq!(changed.iter().count(), 4);
    let records = changed.records();
    for len in 0..records.len() {
        let at_end = changed.iter().scan(0, |at, (key, value)| {
            *at += 8 + key.len() + value.map_or(0, <[u8]>::len);
            Some(*at)
        });
        let is_whole = [0].into_iter().chain(at_end).any(|at| at == len);
        assert_eq!(Changed::read(records.slice(..len)).is_some(), is_whole, "{len} bytes");
    }
    let twice = [&records[..], records].concat();
    assert_eq!(Changed::read(twice.into()), None, "they are not in order");
    for at in 0..records.len() {
        for bits in [1, 0x80, 0xff] {
            let mut other = records.to_vec();
            other[at] ^= bits;
            let read = Changed::read(other.into());
            assert!(read.is_none_or(|read| read.iter().all(|(key, _)| key.len() <= KEY_BYTES_MAX)));
        }
    }
}
