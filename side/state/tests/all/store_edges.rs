//! The object store at its limits: the longest keys and values, the deepest trees, what may come from outside.

use std::sync::mpsc;

use crate::reference::{self, Model};
use quorate_state::store::{
    BUCKET_BYTES, ChunkError, KEY_BYTES_MAX, OutlineError, Path, Store, VALUE_BYTES_MAX, Version, digest_of,
    outline_root,
};
use quorate_types::Digest;

fn check(store: &Store, model: &Model) {
    assert_eq!(store.version().root(), reference::root(model));
    assert_eq!(store.len(), model.len() as u64);
}

/// All beginnings of one key, each with a value so large that every one has a node of its own: a tree as deep as a key can be. Made,
/// copied, read, compared, taken apart and dropped on a small stack.
#[test]
fn the_deepest_tree_needs_no_deep_stack() {
    let run = || {
        let key: Vec<u8> = (0..KEY_BYTES_MAX).map(|at| (at * 7) as u8).collect();
        let lengths: Vec<usize> =
            (0..=40).chain((41..KEY_BYTES_MAX).step_by(97)).chain([KEY_BYTES_MAX]).collect();
        let mut store = Store::new();
        for &length in &lengths {
            assert!(!store.put(&key[..length], &[1; 10]));
        }
        let first = store.version();
        for &length in lengths.iter().rev() {
            assert!(store.put(&key[..length], &[2; 10]));
        }
        let second = store.version();
        assert_ne!(first.root(), second.root());
        assert_eq!(second.changes_since(&first).count(), lengths.len());
        assert_eq!(second.range(&[], None).rev().count(), lengths.len());
        assert_eq!(second.prove(&key).check(&second.root(), &key), Ok(Some(&[2; 10][..])));
        let outline: Vec<_> = second.chunks().map(|chunk| (chunk.path, chunk.digest)).collect();
        assert_eq!(outline_root(&outline), Ok(second.root()));
        assert_eq!(digest_of(&Path::root(), &mut second.range(&[], None)), Ok(second.root()));
        store.remove(&key);
        for &length in &lengths {
            store.remove(&key[..length]);
        }
        assert!(store.is_empty());
        assert!(second.parts(8).is_empty());
    };
    std::thread::Builder::new().stack_size(192 << 10).spawn(run).unwrap().join().unwrap();
}

/// A large entry under 2,000 nodes, one at each half byte of its key: when it becomes small all of them are leaves or gone at once, and
/// when it becomes large again they are back.
#[test]
fn a_tree_that_branches_at_every_half_byte_needs_no_deep_stack() {
    let run = || {
        let long = vec![0x55; 1000];
        let mut store = Store::new();
        store.put(&long, &[0; 5000]);
        for at in 0..1000 {
            for byte in [0x65, 0x56] {
                let mut key = long[..=at].to_vec();
                key[at] = byte;
                store.put(&key, &[]);
            }
        }
        assert_eq!(store.len(), 2001);
        let version = store.version();
        let root = version.root();
        store.put(&long, &[0; 10]);
        store.put(&long, &[0; 5000]);
        assert_eq!(store.version().root(), root);
        drop(store);
        drop(version);
    };
    std::thread::Builder::new().stack_size(192 << 10).spawn(run).unwrap().join().unwrap();
}

/// The largest entries are kept, replaced, overwritten in place and copied for a version.
#[test]
fn the_largest_entries_are_kept() {
    let (mut store, mut model) = (Store::new(), Model::new());
    let key = vec![0xFF; KEY_BYTES_MAX];
    for value in
        [vec![1; VALUE_BYTES_MAX], vec![2; VALUE_BYTES_MAX], vec![3; 10], vec![], vec![4; VALUE_BYTES_MAX]]
    {
        let before = store.version();
        let old = model.get(&key).cloned();
        assert_eq!(store.put(&key, &value), old.is_some());
        assert_eq!(before.get(&key), old.as_deref());
        store.put(&key[1..], &value);
        model.insert(key.clone(), value.clone());
        model.insert(key[1..].to_vec(), value);
        check(&store, &model);
    }
    store.remove(&key);
    model.remove(&key);
    check(&store, &model);
    store.put(&key[1..], b"small");
    model.insert(key[1..].to_vec(), b"small".to_vec());
    check(&store, &model);
}

/// Subtrees change between leaf and node exactly at the limit, whatever the last change was.
#[test]
fn a_leaf_ends_exactly_at_its_limit() {
    for over in [0, 1] {
        let rest = BUCKET_BYTES as usize + over - 2 * 9 - 1000;
        let entries = [(vec![1], vec![0; 1000]), (vec![2], vec![0; rest])];
        let model: Model = entries.clone().into_iter().collect();
        let mut grown = Store::new();
        grown.put(&[1], &[]);
        grown.put(&[2], &[]);
        let mut shrunk = Store::new();
        shrunk.put(&[1], &[9; 3000]);
        shrunk.put(&[2], &[9; 60_000]);
        shrunk.put(&[2, 0], &[]);
        shrunk.remove(&[2, 0]);
        for store in [&mut grown, &mut shrunk] {
            for (key, value) in &entries {
                store.put(key, value);
            }
            check(store, &model);
        }
    }
}

/// Small entries in great number fit in a bucket: nothing but keys of one or two bytes.
#[test]
fn a_bucket_takes_the_smallest_entries() {
    let (mut store, mut model) = (Store::new(), Model::new());
    for byte in 0..=255 {
        store.put(&[byte], &[]);
        model.insert(vec![byte], vec![]);
        if byte % 2 == 0 {
            store.put(&[200, byte], &[]);
            model.insert(vec![200, byte], vec![]);
        }
    }
    store.put(&[], &[]);
    model.insert(vec![], vec![]);
    check(&store, &model);
    for key in model.keys().cloned().collect::<Vec<_>>() {
        store.remove(&key);
        model.remove(&key);
        check(&store, &model);
    }
}

/// What comes from outside is checked before anything changes.
#[test]
fn replace_refuses_what_is_not_a_chunk() {
    let mut store = Store::new();
    store.put(b"abc", b"1");
    let root = store.version().root();
    let path = Path::from_bytes(&[6, 1, 6, 2]).unwrap();
    let long = vec![b'a'; KEY_BYTES_MAX + 1];
    type Entries<'a> = Vec<(&'a [u8], &'a [u8])>;
    let cases: [(&Path, Entries<'_>, ChunkError); 5] = [
        (&path, vec![(b"abd", b""), (b"abc", b"")], ChunkError::Order),
        (&path, vec![(b"abd", b""), (b"abd", b"")], ChunkError::Order),
        (&path, vec![(b"abd", b""), (b"ac", b"")], ChunkError::Outside),
        (&path, vec![(b"a", b"")], ChunkError::Outside),
        (&Path::root(), vec![(&long, b"")], ChunkError::TooLarge),
    ];
    for (path, entries, error) in cases {
        assert_eq!(store.replace(path, &mut entries.iter().copied()), Err(error));
        assert_eq!(digest_of(path, &mut entries.iter().copied()), Err(error));
        assert_eq!(store.version().root(), root);
    }
    assert_eq!(digest_of(&path, &mut std::iter::empty()), Err(ChunkError::Empty));
    assert_eq!(store.replace(&path, &mut std::iter::empty()), Ok(()));
    assert!(store.is_empty());
}

/// Lists that no store has are refused.
#[test]
fn an_outline_is_checked() {
    let path = |symbols: &[u8]| (Path::from_bytes(symbols).unwrap(), Digest::new([1; 32]));
    let good = [path(&[1, 2]), path(&[1, 3, Path::END]), path(&[1, 3, 0]), path(&[4])];
    assert!(outline_root(&good).is_ok());
    assert_eq!(outline_root(&[]), Ok(Store::new().version().root()));
    let cases = [
        (vec![path(&[1])], OutlineError::Path),
        (vec![path(&[2]), path(&[1])], OutlineError::Order),
        (vec![path(&[1]), path(&[1])], OutlineError::Order),
        (vec![path(&[1]), path(&[1, 2])], OutlineError::Order),
        (vec![path(&[1, 2, 3]), path(&[1, 3])], OutlineError::Path),
        (vec![path(&[1]), path(&[2, 3])], OutlineError::Path),
        (vec![path(&[]), path(&[2])], OutlineError::Order),
    ];
    for (chunks, error) in cases {
        assert_eq!(outline_root(&chunks), Err(error), "{chunks:?}");
    }
}

/// Paths are read, ordered and compared with keys as the keys under them are.
#[test]
fn paths_are_ordered_as_keys() {
    let path = |symbols: &[u8]| Path::from_bytes(symbols);
    assert_eq!(path(&[16]).unwrap().as_bytes(), [16]);
    for wrong in [&[17][..], &[1, 16], &[16, 1], &[16, 16], &[1, 2, 16, 3]] {
        assert_eq!(path(wrong), None);
    }
    let ordered =
        [&[][..], &[16], &[0], &[0, 0], &[0, 0, 16], &[0, 0, 0], &[0, 1], &[1], &[15, 15, 16], &[15, 15, 15]];
    let paths: Vec<_> = ordered.iter().map(|symbols| path(symbols).unwrap()).collect();
    assert!(paths.is_sorted_by(|one, other| one < other), "{paths:?}");
    assert!(path(&[6, 1]).unwrap().contains(b"a") && path(&[6, 1]).unwrap().contains(b"ab"));
    assert!(path(&[6, 1, 16]).unwrap().contains(b"a") && !path(&[6, 1, 16]).unwrap().contains(b"ab"));
    assert!(!path(&[6, 1, 0]).unwrap().contains(b"a") && path(&[6]).unwrap().contains(b"a"));
}

/// Other threads read versions, compute their digests and drop them while the store goes on changing. Every version stays what it was.
#[test]
fn versions_are_used_by_other_threads_while_the_store_changes() {
    let work = |from: mpsc::Receiver<(Version, Model)>| {
        while let Ok((version, model)) = from.recv() {
            let parts = version.parts(4);
            parts.iter().rev().for_each(|part| {
                part.digest();
            });
            assert_eq!(version.root(), reference::root(&model));
            assert!(version.range(&[], None).eq(model.iter().map(|(key, value)| (&key[..], &value[..]))));
        }
    };
    std::thread::scope(|scope| {
        let threads = [0, 1, 2].map(|_| {
            let (to, from) = mpsc::sync_channel(4);
            scope.spawn(move || work(from));
            to
        });
        let (mut store, mut model) = (Store::new(), Model::new());
        for number in 0_u32..12_000 {
            let key = (number % 2500).wrapping_mul(0x9E37_79B1).to_be_bytes();
            let value = vec![number as u8; (number % 7) as usize * 20];
            if number % 11 == 10 {
                store.remove(&key);
                model.remove(&key[..]);
            } else {
                store.put(&key, &value);
                model.insert(key.to_vec(), value);
            }
            if number % 400 == 0 {
                threads[number as usize / 400 % 3].send((store.version(), model.clone())).unwrap();
            }
        }
    });
}
