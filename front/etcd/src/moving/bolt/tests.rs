//! Databases that were written are read again; damaged ones are refused, with the page that is wrong.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::{self, Cursor};

impl Source for Vec<u8> {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let rest = usize::try_from(at).ok().and_then(|at| self.get(at..)?.get(..into.len()));
        into.copy_from_slice(rest.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

const PAGE: usize = 4096;

type Contents = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>>;

fn written(contents: &Contents) -> Vec<u8> {
    let mut writer = Writer::new(Cursor::new(Vec::new())).expect("memory");
    for (name, items) in contents {
        let mut bucket = writer.bucket();
        for (key, value) in items {
            bucket.put(key, value).expect("memory");
        }
        bucket.end(std::str::from_utf8(name).expect("a name")).expect("memory");
    }
    let bytes = writer.finish().expect("memory").into_inner();
    assert_eq!(bytes.len() % PAGE, 0);
    bytes
}

fn read(bytes: &Vec<u8>) -> Result<Contents, BoltError> {
    let mut bolt = Bolt::open(bytes, bytes.len() as u64)?;
    let mut contents = Contents::new();
    for (name, bucket) in bolt.buckets()? {
        let items = contents.entry(name).or_default();
        bolt.each(&bucket, &mut |key, value| {
            items.insert(key.to_vec(), value.to_vec());
            Ok::<(), BoltError>(())
        })?;
    }
    Ok(contents)
}

fn one(items: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Contents {
    Contents::from([(b"key".to_vec(), items.collect())])
}

/// What is wrong with page `page`.
fn wrong(bytes: &Vec<u8>) -> (u64, &'static str) {
    match read(bytes) {
        Err(BoltError::Damaged { page, what }) => (page, what),
        other => panic!("no damaged page: {other:?}"),
    }
}

/// Writes a number into a page, at a place in it.
fn set(bytes: &mut [u8], page: usize, at: usize, number: &[u8]) {
    bytes[page * PAGE + at..][..number.len()].copy_from_slice(number);
}

/// A bucket with a branch above its leaves: the pages 3 and on, the branch last but the root behind it.
fn two_levels() -> (Vec<u8>, usize) {
    let bytes = written(&one((0..300_u32).map(|n| (n.to_be_bytes().to_vec(), vec![7; 60]))));
    let branch = bytes.len() / PAGE - 2;
    assert_eq!(bytes[branch * PAGE + 8], BRANCH as u8);
    (bytes, branch)
}

fn items() -> impl Strategy<Value = BTreeMap<Vec<u8>, Vec<u8>>> {
    let bytes = |most| proptest::collection::vec(any::<u8>(), most);
    let value = prop_oneof![8 => bytes(0..40), 2 => bytes(500..2500), 1 => bytes(4000..12_000)];
    let key = prop_oneof![8 => bytes(1..20), 1 => bytes(1000..9000)];
    proptest::collection::btree_map(key, value, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_was_written_is_read(first in items(), second in items()) {
        let names = [(b"auth".to_vec(), first), (b"key".to_vec(), second), (b"none".to_vec(), BTreeMap::new())];
        let contents = Contents::from(names);
        prop_assert_eq!(read(&written(&contents)).expect("whole"), contents);
    }
}

#[test]
fn large_trees_have_several_levels() {
    let contents = one((0..60_000_u64).map(|n| (n.to_be_bytes().to_vec(), n.to_le_bytes().to_vec())));
    assert_eq!(read(&written(&contents)).expect("whole"), contents);
}

#[test]
fn no_branch_has_less_than_two_pages_below() {
    // bbolt could not take such a one apart. The lengths go through the borders of pages.
    for count in (1..=4).chain(340..360).chain([28_900, 28_901, 28_902]) {
        for key_bytes in [8, 1500, 5000] {
            if count > 1000 && key_bytes > 8 {
                continue;
            }
            let key = |n: u64| [&n.to_be_bytes()[..], &vec![1; key_bytes - 8]].concat();
            let bytes = written(&one((0..count).map(|n| (key(n), vec![0; 100]))));
            let mut page = 3;
            while page < bytes.len() / PAGE {
                let head = &bytes[page * PAGE..][..PAGE_HEAD];
                if head[8] == BRANCH as u8 {
                    let below = u16::from_le_bytes([head[10], head[11]]);
                    assert!(below >= 2, "{count} keys of {key_bytes} bytes: page {page}");
                }
                page += 1 + u32::from_le_bytes([head[12], head[13], head[14], head[15]]) as usize;
            }
        }
    }
}

#[test]
fn keys_that_bbolt_refuses_are_refused() {
    let mut writer = Writer::new(Cursor::new(Vec::new())).expect("memory");
    let mut bucket = writer.bucket();
    assert!(bucket.put(&[], b"x").is_err());
    assert!(bucket.put(&[1; 32_769], b"x").is_err());
    assert!(bucket.put(&[1; 32_768], b"x").is_ok());
}

#[test]
fn the_newer_meta_page_counts_if_it_is_whole() {
    let (mut bytes, _) = two_levels();
    let whole = read(&bytes).expect("whole");
    // Of the second page, which has the newer transaction, the root is wrong: its check sum says so.
    set(&mut bytes, 1, PAGE_HEAD + 16, &[9]);
    assert_eq!(read(&bytes).expect("the other one is whole"), whole);
    let (mut bytes, _) = two_levels();
    set(&mut bytes, 0, PAGE_HEAD, &[0; 64]);
    assert_eq!(read(&bytes).expect("the second one is found without the first"), whole);
    set(&mut bytes, 1, PAGE_HEAD, &[0; 64]);
    assert!(matches!(read(&bytes), Err(BoltError::NoDatabase)));
    assert!(matches!(read(&Vec::new()), Err(BoltError::NoDatabase)));
}

#[test]
fn another_format_version_is_named() {
    let (mut bytes, _) = two_levels();
    for page in [0, 1] {
        set(&mut bytes, page, PAGE_HEAD + 4, &[3]);
        let sum = fnv(&bytes[page * PAGE + PAGE_HEAD..][..META - 8]);
        set(&mut bytes, page, PAGE_HEAD + META - 8, &sum.to_le_bytes());
    }
    assert!(matches!(read(&bytes), Err(BoltError::Version(3))));
}

#[test]
fn a_cut_database_is_refused_wherever_it_is_cut() {
    let (bytes, _) = two_levels();
    for len in 0..bytes.len() {
        assert!(Bolt::open(&bytes[..len].to_vec(), len as u64).is_err(), "cut at {len}");
    }
}

#[test]
fn circles_end() {
    let (mut bytes, branch) = two_levels();
    // The branch is its own second page.
    set(&mut bytes, branch, PAGE_HEAD + ELEMENT + 8, &(branch as u64).to_le_bytes());
    assert_eq!(wrong(&bytes), (branch as u64, "it is used twice"));
    // Two elements lead to the same page.
    let (mut bytes, branch) = two_levels();
    set(&mut bytes, branch, PAGE_HEAD + ELEMENT + 8, &3_u64.to_le_bytes());
    assert_eq!(wrong(&bytes), (3, "it is used twice"));
}

#[test]
fn pages_that_can_not_be_are_named() {
    let (_, branch) = two_levels();
    let root = branch + 1;
    let leaf = 3;
    let far = u64::MAX.to_le_bytes();
    let cases: [(usize, usize, &[u8], usize, &str); 12] = [
        // No page is there.
        (branch, PAGE_HEAD + 8, &far, usize::MAX, "there is no such page"),
        (branch, PAGE_HEAD + 8, &1_u64.to_le_bytes(), 1, "there is no such page"),
        (leaf, 0, &9_u64.to_le_bytes(), leaf, "it says that it is another page"),
        (leaf, 8, &[FREE as u8], leaf, "it has no keys, and the page above says it has"),
        (branch, 10, &[0, 0], branch, "nothing is below it"),
        // More than there is.
        (leaf, 10, &[255, 255], leaf, "its keys do not fit into it"),
        (leaf, 12, &[255, 255, 255, 255], leaf, "it is longer than the file"),
        (leaf, PAGE_HEAD + 4, &[255, 255, 255, 255], leaf, "a key or value does not lie in it"),
        (leaf, PAGE_HEAD + 12, &[255, 255, 255, 255], leaf, "a key or value does not lie in it"),
        // The first value ends where the page does, so it has the others in it.
        (leaf, PAGE_HEAD + 12, &2000_u32.to_le_bytes(), leaf, "its keys and values overlap"),
        // The first key is not the smallest.
        (leaf, PAGE_HEAD, &[IS_BUCKET as u8], leaf, "there is a bucket within a bucket"),
        (root, PAGE_HEAD, &[0], root, "there is a value where only buckets are"),
    ];
    for (page, at, number, named, what) in cases {
        let (mut bytes, _) = two_levels();
        set(&mut bytes, page, at, number);
        let named = if named == usize::MAX { u64::MAX } else { named as u64 };
        assert_eq!(wrong(&bytes), (named, what));
    }
    let (mut bytes, _) = two_levels();
    let first = u32::from_le_bytes(*bytes[leaf * PAGE + PAGE_HEAD + 4..].first_chunk().expect("bytes"));
    set(&mut bytes, leaf, PAGE_HEAD + first as usize, &[200]);
    assert_eq!(wrong(&bytes), (leaf as u64, "its keys are not in order"));
}

#[test]
fn whatever_bit_is_wrong_reading_ends() {
    let (bytes, _) = two_levels();
    // All bytes of the pages that say where others are, and some of each other one.
    for at in (0..bytes.len()).filter(|at| at % PAGE < 200 || at % 37 == 0) {
        for bit in [0, 3, 7] {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            let _ = read(&bytes);
        }
    }
}
