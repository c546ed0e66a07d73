//! The new state while it is put together: the parts that this replica has already, and each part as it arrives, verified.
//!
//! It begins as the replica's own objects, without those that the manifest does not have; every chunk that differs is replaced as a whole.
//! The running service's store is never touched: versions share memory until something is written.

use crate::checkpoint::{Growth, Image, Manifest, SystemPart, decode_chunk};
use crate::store::{ReplaceError, Store, Version};
use bytes::Bytes;
use quorate_types::{Digest, planted};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The result of verifying a part.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verified {
    /// It is what the manifest says, and was put in.
    Placed,
    /// It is something else.
    Wrong { expected: Digest, found: Option<Digest> },
}

/// A checkpoint whose manifest is here and verified.
pub(super) struct Building {
    manifest: Arc<Manifest>,
    system: Vec<Option<Bytes>>,
    store: Store,
    /// The parts before this one are here, and how many bytes of them the host does not know of.
    upto: u32,
    grown: u64,
    /// The system part, once all of it is here.
    whole_system: Option<SystemPart>,
    bytes_done: u64,
    bytes_total: u64,
}

impl Building {
    /// Compares the manifest with what is here. Also returns the missing parts. The digests of `base` are known already, so this takes time
    /// only in proportion to the number of chunks.
    pub(super) fn new(
        manifest: Manifest,
        base: &Version,
        kept: &BTreeMap<Digest, Bytes>,
    ) -> (Self, BTreeSet<u32>) {
        let mut store = Store::from_version(base);
        remove_uncovered(&mut store, base, &manifest);
        let system: Vec<Option<Bytes>> =
            manifest.system().iter().map(|piece| kept.get(&piece.digest).cloned()).collect();
        let pieces = system.len() as u32;
        let mut missing: BTreeSet<u32> =
            (0..pieces).filter(|piece| system[*piece as usize].is_none()).collect();
        let differs = |at: &usize| {
            let chunk = &manifest.chunks()[*at];
            base.digest_at(&chunk.path) != Some(chunk.digest)
        };
        missing.extend((0..manifest.chunks().len()).filter(differs).map(|at| pieces + at as u32));
        let mut building = Self {
            manifest: Arc::new(manifest),
            system,
            store,
            upto: 0,
            grown: 0,
            whole_system: None,
            bytes_done: 0,
            bytes_total: 0,
        };
        building.bytes_total = missing.iter().map(|part| building.size(*part)).sum();
        (building, missing)
    }

    /// How many bytes a part has.
    pub(super) fn size(&self, part: u32) -> u64 {
        self.manifest.part_len(part).unwrap_or(0) as u64
    }

    /// Verifies a missing part by its digest and puts it in, if it is what the manifest says.
    pub(super) fn place(&mut self, part: u32, bytes: &Bytes) -> Verified {
        let at = part as usize;
        let verified = match at.checked_sub(self.system.len()) {
            None => self.place_piece(at, bytes),
            Some(chunk) => self.place_chunk(chunk, bytes),
        };
        if matches!(verified, Verified::Wrong { .. }) {
            return verified;
        }
        self.bytes_done += self.size(part);
        verified
    }

    fn place_piece(&mut self, at: usize, bytes: &Bytes) -> Verified {
        let (expected, found) = (self.manifest.system()[at].digest, digest_of_piece(bytes));
        if found != expected && !planted("transfer-unverified") {
            return Verified::Wrong { expected, found: Some(found) };
        }
        self.system[at] = Some(bytes.clone());
        Verified::Placed
    }

    fn place_chunk(&mut self, at: usize, bytes: &Bytes) -> Verified {
        let chunk = &self.manifest.chunks()[at];
        let expected = chunk.digest;
        let wrong = |found| Verified::Wrong { expected, found };
        let Ok(entries) = decode_chunk(bytes) else { return wrong(None) };
        if planted("transfer-unverified") {
            let placed = self.store.replace(&chunk.path, &mut entries.iter().copied());
            return if placed.is_ok() { Verified::Placed } else { wrong(None) };
        }
        match self.store.replace_if(&chunk.path, &mut entries.iter().copied(), expected) {
            Ok(()) => Verified::Placed,
            Err(ReplaceError::Digest(found)) => wrong(Some(found)),
            Err(ReplaceError::Entries(_)) => wrong(None),
        }
    }

    /// How far the image is here without a gap, if that are at least `least` bytes more than before.
    pub(super) fn growth(&mut self, first_missing: u32, least: u64) -> Option<Growth> {
        while self.upto < first_missing {
            self.grown += self.size(self.upto);
            self.upto += 1;
        }
        let whole = self.upto as usize >= self.system.len();
        if self.grown < least || !whole || planted("transfer-unverified") {
            return None;
        }
        self.grown = 0;
        let pieces = || self.manifest.joined(self.system.iter().flatten());
        let system = self.whole_system.get_or_insert_with(pieces).clone();
        let (seq, border, objects) = (self.manifest.seq(), self.manifest.border(), self.objects());
        let image = Image { seq, border, system, objects };
        Some(Growth { manifest: self.manifest.clone(), image, upto: self.upto })
    }

    /// The whole state, once nothing is missing. At last compares its digest with the agreed one.
    ///
    /// # Errors
    /// When the digest differs: what was here before was not what its digests said.
    pub(super) fn whole(&self, agreed: Digest) -> Result<(Manifest, SystemPart), Digest> {
        let system = self.manifest.joined(self.system.iter().flatten());
        let objects = self.store.version();
        let (seq, border) = (self.manifest.seq(), self.manifest.border());
        let image = Image { seq, border, system, objects };
        let manifest = Manifest::of(&image);
        let digest = manifest.digest();
        let agreed = digest == agreed || planted("transfer-unverified");
        if agreed { Ok((manifest, image.system)) } else { Err(digest) }
    }

    /// The objects so far, with which the next attempt begins.
    pub(super) fn objects(&self) -> Version {
        self.store.version()
    }
    /// The pieces of the system part so far.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        self.system.iter().flatten()
    }
    /// The finished objects.
    pub(super) fn into_store(self) -> Store {
        self.store
    }
    /// How many bytes arrived, and how many must arrive in all.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.bytes_done, self.bytes_total)
    }
    /// How many parts there are.
    pub(super) fn parts(&self) -> u64 {
        u64::from(self.manifest.parts())
    }
}

/// The digest of a piece of the system part.
pub(super) fn digest_of_piece(bytes: &[u8]) -> Digest {
    Digest::new(*blake3::hash(bytes).as_bytes())
}

/// Removes what lies under no chunk of the manifest. Under a chunk that differs, old entries stay until it is replaced.
fn remove_uncovered(store: &mut Store, base: &Version, manifest: &Manifest) {
    let chunks = manifest.chunks();
    for local in base.chunks() {
        // The manifest's paths ascend and none is the beginning of another: only the last one before can cover this one.
        let after = chunks.partition_point(|chunk| chunk.path <= local.path);
        if after.checked_sub(1).is_some_and(|before| chunks[before].path.covers(&local.path)) {
            continue;
        }
        let inside = chunks[after..].iter().take_while(|chunk| local.path.covers(&chunk.path));
        let same = inside.filter(|chunk| base.digest_at(&chunk.path) == Some(chunk.digest));
        let mut entries = same.flat_map(|chunk| base.entries_at(&chunk.path));
        let replaced = store.replace(&local.path, &mut entries);
        assert!(replaced.is_ok(), "INV-FETCH-5: entries of this replica's own version are in order");
    }
}
