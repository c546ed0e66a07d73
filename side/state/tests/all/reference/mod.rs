//! The contract of the object store in its simplest form: sorted lists and recursion, nothing cached, nothing shared with the store.

use std::collections::BTreeMap;

use quorate_state::store::{BUCKET_BYTES, CHUNK_BYTES, ChunkRef, Path};
use quorate_types::Digest;

/// The objects.
pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Entry<'a> = (&'a [u8], &'a [u8]);

fn hash(kind: &str, bytes: &[u8]) -> Digest {
    let mut key = [b' '; 32];
    let kind = format!("quorate objects 1: {kind}");
    key[..kind.len()].copy_from_slice(kind.as_bytes());
    Digest::new(*blake3::keyed_hash(&key, bytes).as_bytes())
}

/// A key's symbols: half bytes, then 16.
pub(crate) fn symbols(key: &[u8]) -> Vec<u8> {
    let nibbles = key.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles.chain([16]).collect()
}

fn cost(entries: &[Entry<'_>]) -> u64 {
    entries.iter().map(|(key, value)| 8 + (key.len() + value.len()) as u64).sum()
}

/// How many symbols all keys have in common; of one key, its half bytes.
fn common(entries: &[Entry<'_>]) -> usize {
    let (first, last) = (symbols(entries[0].0), symbols(entries[entries.len() - 1].0));
    let same = first.iter().zip(&last).take_while(|(one, other)| one == other).count();
    same.min(first.len() - 1)
}

/// The subtrees below, by their symbol.
fn children<'e, 'a>(entries: &'e [Entry<'a>], at: usize) -> Vec<(u8, &'e [Entry<'a>])> {
    let groups = entries.chunk_by(|one, other| symbols(one.0)[at] == symbols(other.0)[at]);
    groups.map(|group| (symbols(group[0].0)[at], group)).collect()
}

fn bit(symbol: u8) -> u32 {
    if symbol == 16 { 1 } else { 2 << symbol }
}

fn inner(children: &[(u8, Digest)], skip: &[u8]) -> Digest {
    let set: u32 = children.iter().map(|(symbol, _)| bit(*symbol)).sum();
    let mut bytes = set.to_le_bytes().to_vec();
    children.iter().for_each(|(_, digest)| bytes.extend(digest.bytes()));
    bytes.extend(skip);
    hash("inner", &bytes)
}

/// The digest of the subtree with these entries, to which `depth` symbols lead.
pub(crate) fn digest(entries: &[Entry<'_>], depth: usize) -> Digest {
    if entries.is_empty() {
        return hash("empty", &[]);
    }
    let shared = common(entries);
    if entries.len() == 1 && cost(entries) > BUCKET_BYTES {
        let (key, value) = entries[0];
        let mut bytes = (key.len() as u32).to_le_bytes().to_vec();
        bytes.extend((value.len() as u32).to_le_bytes());
        bytes.extend(key);
        bytes.extend(hash("large value", value).bytes());
        return hash("large entry", &bytes);
    }
    if entries.len() == 1 || cost(entries) <= BUCKET_BYTES {
        let mut groups: [Vec<u8>; 4] = Default::default();
        for (key, value) in entries {
            let symbol = symbols(key)[shared];
            let group = &mut groups[if symbol == 16 { 0 } else { symbol as usize / 4 }];
            group.extend((key.len() as u32).to_le_bytes());
            group.extend((value.len() as u32).to_le_bytes());
            group.extend(*key);
            group.extend(*value);
        }
        let digests = groups.map(|records| match records.is_empty() {
            true => [0; 32],
            false => *hash("group", &records).bytes(),
        });
        return hash("bucket", &digests.concat());
    }
    let below = children(entries, shared);
    let digests: Vec<_> = below.iter().map(|(symbol, below)| (*symbol, digest(below, shared + 1))).collect();
    inner(&digests, &symbols(entries[0].0)[depth..shared])
}

fn chunks_below(entries: &[Entry<'_>], depth: usize, into: &mut Vec<ChunkRef>) {
    if entries.len() == 1 || cost(entries) <= CHUNK_BYTES {
        into.push(ChunkRef {
            path: Path::from_bytes(&symbols(entries[0].0)[..depth]).unwrap(),
            digest: digest(entries, depth),
            count: entries.len() as u64,
            bytes: cost(entries),
        });
        return;
    }
    let shared = common(entries);
    children(entries, shared).into_iter().for_each(|(_, below)| chunks_below(below, shared + 1, into));
}

fn entries(model: &Model) -> Vec<Entry<'_>> {
    model.iter().map(|(key, value)| (&key[..], &value[..])).collect()
}

/// The root of a store with these objects.
pub(crate) fn root(model: &Model) -> Digest {
    digest(&entries(model), 0)
}

/// The chunks of a store with these objects.
pub(crate) fn chunks(model: &Model) -> Vec<ChunkRef> {
    let mut chunks = Vec::new();
    if !model.is_empty() {
        chunks_below(&entries(model), 0, &mut chunks);
    }
    chunks
}

/// What is under a path.
pub(crate) fn under<'a>(model: &'a Model, path: &Path) -> Vec<Entry<'a>> {
    let under = |entry: &Entry<'a>| symbols(entry.0).starts_with(path.as_bytes());
    entries(model).into_iter().filter(under).collect()
}

/// What changed.
pub(crate) fn changes(new: &Model, old: &Model) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let keys: std::collections::BTreeSet<_> = new.keys().chain(old.keys()).collect();
    let changed = keys.into_iter().filter(|key| new.get(*key) != old.get(*key));
    changed.map(|key| (key.clone(), new.get(key).cloned())).collect()
}
