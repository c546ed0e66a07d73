//! The checkpoints that the tests transfer: made once, looked at by every seed.

use bytes::Bytes;
use quorate_state::checkpoint::{Image, Manifest, PIECE_BYTES, SystemPart, encode_chunk};
use quorate_state::store::{BUCKET_BYTES, Path, Store, Version};
use quorate_types::{Digest, Random, Seq};
use std::sync::OnceLock;

/// A checkpoint as a server holds it.
pub(crate) struct Checkpoint {
    pub(crate) seq: Seq,
    pub(crate) digest: Digest,
    pub(crate) image: Image,
    pub(crate) manifest: Manifest,
    pub(crate) manifest_bytes: Bytes,
    /// Every part, in the manifest's order.
    pub(crate) parts: Vec<Bytes>,
}

impl Checkpoint {
    pub(crate) fn new(seq: u64, system: Vec<u8>, store: &Store) -> Self {
        let system = Bytes::from(system);
        let order = system.slice(..system.len().min(PIECE_BYTES));
        let system = SystemPart { execution: system.slice(order.len()..), order };
        let image = Image { seq: Seq::new(seq), border: seq / 100, system, objects: store.version() };
        let manifest = Manifest::of(&image);
        let mut parts: Vec<Bytes> = image.system.pieces().collect();
        parts.extend(manifest.chunks().iter().map(|chunk| chunk_at(&image.objects, &chunk.path)));
        let manifest_bytes = Bytes::from(manifest.encode());
        Self { seq: image.seq, digest: image.digest(), image, manifest, manifest_bytes, parts }
    }

    pub(crate) fn pieces(&self) -> usize {
        self.manifest.system().len()
    }
}

/// The bytes of the chunk there.
pub(crate) fn chunk_at(version: &Version, path: &Path) -> Bytes {
    encode_chunk(version.entries_at(path))
}

fn bytes(random: &mut Random, len: u64) -> Vec<u8> {
    (0..len).map(|_| random.next() as u8).collect()
}

/// Puts and removes so many random keys; some of them are close together, and some values are larger than a chunk.
pub(crate) fn churn(store: &mut Store, random: &mut Random, times: u64) {
    for _ in 0..times {
        let mut key = bytes(random, 3);
        if random.below(3) == 0 {
            key[0] = 0x77;
        }
        if random.below(8) == 0 {
            store.remove(&key);
            continue;
        }
        let len = if random.below(150) == 0 { 80_000 } else { 200 + random.below(4000) };
        let value = bytes(random, len);
        store.put(&key, &value);
    }
}

/// Three checkpoints in a row, what a replica could have beside them, and one of a service that has nothing.
pub(crate) struct States {
    /// Agreed ones, oldest first.
    pub(crate) checkpoints: Vec<Checkpoint>,
    /// Nothing; an old state; one that differs in a few keys from the last; one of which every key is another.
    pub(crate) locals: Vec<Version>,
}

pub(crate) fn states() -> &'static States {
    static STATES: OnceLock<States> = OnceLock::new();
    STATES.get_or_init(|| {
        let mut random = Random::new(7);
        let mut store = Store::new();
        churn(&mut store, &mut random, 150);
        let old = store.version();
        let mut checkpoints = Vec::new();
        for seq in [100, 200, 300] {
            churn(&mut store, &mut random, 60);
            let system = bytes(&mut random, 150_000 + seq);
            checkpoints.push(Checkpoint::new(seq, system, &store));
        }
        let mut close = Store::from_version(&store.version());
        churn(&mut close, &mut random, 3);
        let mut foreign = Store::new();
        churn(&mut foreign, &mut random, 200);
        let locals = vec![Store::new().version(), old, close.version(), foreign.version()];
        States { checkpoints, locals }
    })
}

/// A manifest with the right root of objects in which nobody else's chunk numbers are right: chunks are listed as several.
pub(crate) fn finer(checkpoint: &Checkpoint) -> Bytes {
    let chunks = checkpoint.manifest.chunks();
    let mut list: Vec<(Path, Digest, u32)> = Vec::new();
    for chunk in chunks {
        // What costs no more, or is one entry, does not branch.
        let branches = u64::from(chunk.bytes) > BUCKET_BYTES
            && checkpoint.image.objects.entries_at(&chunk.path).count() > 1;
        if branches {
            list.extend(children(&checkpoint.image.objects, &chunk.path));
        } else {
            list.push((chunk.path.clone(), chunk.digest, chunk.bytes));
        }
    }
    assert!(list.len() > chunks.len(), "some chunk could be listed as several");
    encode(checkpoint, &list)
}

/// A manifest that is right but for the lengths of some chunks.
pub(crate) fn other_lengths(checkpoint: &Checkpoint) -> Bytes {
    let wrong = |at: usize, bytes: u32| if at.is_multiple_of(3) { [8, 16 << 20][at % 2] } else { bytes };
    let chunks = checkpoint.manifest.chunks().iter().enumerate();
    let list: Vec<_> =
        chunks.map(|(at, chunk)| (chunk.path.clone(), chunk.digest, wrong(at, chunk.bytes))).collect();
    encode(checkpoint, &list)
}

/// The subtrees right below one that branches.
fn children(version: &Version, path: &Path) -> Vec<(Path, Digest, u32)> {
    let entries: Vec<_> = version.entries_at(path).collect();
    let symbols = |key: &[u8]| -> Vec<u8> {
        key.iter().flat_map(|byte| [byte >> 4, byte & 15]).chain([Path::END]).collect()
    };
    let (first, last) = (symbols(entries[0].0), symbols(entries[entries.len() - 1].0));
    let common = first.iter().zip(&last).take_while(|(one, other)| one == other).count();
    let mut list: Vec<(Path, Digest, u32)> = Vec::new();
    for (key, value) in &entries {
        let child = Path::from_bytes(&symbols(key)[..=common]).expect("a path");
        let cost = (8 + key.len() + value.len()) as u32;
        match list.last_mut() {
            Some((path, _, bytes)) if *path == child => *bytes += cost,
            _ => {
                let digest = version.digest_at(&child).expect("a subtree");
                list.push((child, digest, cost));
            }
        }
    }
    list
}

/// A manifest's bytes, as docs/formats/checkpoint.md draws them.
fn encode(checkpoint: &Checkpoint, chunks: &[(Path, Digest, u32)]) -> Bytes {
    let head = 44 + checkpoint.pieces() * Digest::BYTES;
    let mut out = checkpoint.manifest_bytes[..head].to_vec();
    out[40..44].copy_from_slice(&(chunks.len() as u32).to_le_bytes());
    for (path, digest, bytes) in chunks {
        out.extend_from_slice(&(path.len() as u32).to_le_bytes());
        out.extend_from_slice(path.as_bytes());
        out.extend_from_slice(digest.bytes());
        out.extend_from_slice(&bytes.to_le_bytes());
    }
    let read = Manifest::decode(&out).expect("a manifest");
    assert_eq!(read.root(), checkpoint.manifest.root(), "its chunks make the right root");
    assert_ne!(read.digest(), checkpoint.digest, "the digest covers how the objects are cut");
    out.into()
}
