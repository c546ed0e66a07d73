//! Puts an image together from parts, each of which is verified.

use std::collections::BTreeSet;

use bytes::Bytes;
use quorate_types::planted;

use super::chunk::{self, PartError};
use super::image::Image;
use super::manifest::{Manifest, Part};
use crate::store::Store;

/// An image in the making, some of whose parts may be missing.
pub struct Assembly {
    manifest: Manifest,
    system: Vec<Bytes>,
    store: Store,
    missing: BTreeSet<u32>,
}

impl Assembly {
    /// Without any part.
    pub fn new(manifest: Manifest) -> Self {
        let missing = (0..manifest.parts()).collect();
        let system = vec![Bytes::new(); manifest.system().len()];
        Self { manifest, system, store: Store::new(), missing }
    }

    /// The manifest of the image.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }
    /// The numbers of the parts that are not there yet, in order.
    pub fn missing(&self) -> impl Iterator<Item = u32> + '_ {
        self.missing.iter().copied()
    }
    /// The pieces of the system part; empty where they are not there yet.
    pub fn system(&self) -> &[Bytes] {
        &self.system
    }
    /// The objects that are there already.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Takes a part, if it is exactly what the manifest says. `Ok(false)`: the part was there already.
    pub fn add(&mut self, part: u32, bytes: &Bytes) -> Result<bool, PartError> {
        let what = self.manifest.split(part).ok_or(PartError::NoSuchPart)?;
        if !self.missing.contains(&part) {
            return Ok(false);
        }
        match what {
            Part::Piece(_) => {
                if !planted("unverified-chunk") {
                    self.manifest.verify(part, bytes)?;
                }
                self.system[part as usize] = bytes.clone();
            }
            Part::Chunk(entry) => {
                let entries = &mut chunk::decode_chunk(bytes)?.into_iter();
                if planted("unverified-chunk") {
                    self.store.replace(&entry.path, entries).map_err(PartError::Chunk)?;
                } else {
                    if bytes.len() != chunk::encoded_len(entry.bytes) {
                        return Err(PartError::Malformed("its length"));
                    }
                    self.store.replace_if(&entry.path, entries, entry.digest)?;
                }
            }
        }
        self.missing.remove(&part);
        Ok(true)
    }

    /// The image, if nothing is missing.
    pub fn image(&self) -> Option<Image> {
        if !self.missing.is_empty() {
            return None;
        }
        let system = self.manifest.joined(self.system.iter());
        let (seq, border) = (self.manifest.seq(), self.manifest.border());
        Some(Image { seq, border, system, objects: self.store.version() })
    }
}
