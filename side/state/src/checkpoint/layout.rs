//! A manifest, and where the parts of its image are in one file.

use super::Kind;
use super::file::{HEADER, RECORD};
use super::manifest::{Manifest, ManifestError, Reader};

/// The manifest and the offsets of its parts; two copies are at the end of a checkpoint's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) manifest: Manifest,
    /// Where each part's record begins; 0: not in this file.
    pub(crate) places: Vec<u64>,
}

impl Layout {
    pub(crate) fn encode(manifest: &Manifest, places: &[u64]) -> Vec<u8> {
        let manifest = manifest.encode();
        let mut out = Vec::with_capacity(4 + manifest.len() + places.len() * 8);
        out.extend_from_slice(&(manifest.len() as u32).to_le_bytes());
        out.extend_from_slice(&manifest);
        places.iter().for_each(|place| out.extend_from_slice(&place.to_le_bytes()));
        out
    }

    /// Reads exactly what [`Self::encode`] writes into a file of this kind whose records end at `end`.
    pub(crate) fn decode(bytes: &[u8], kind: Kind, end: u64) -> Result<Self, ManifestError> {
        let mut from = Reader { bytes };
        let len = from.u32()? as usize;
        let manifest = Manifest::decode(from.take(len)?)?;
        let count = manifest.parts() as usize;
        if from.bytes.len() != count * 8 {
            return Err(ManifestError::Malformed("the number of places"));
        }
        let mut places = Vec::with_capacity(count);
        for part in 0..manifest.parts() {
            let place = from.u64()?;
            let len = manifest.part_len(part).map_or(0, |len| len as u64);
            let inside = place >= HEADER
                && place.checked_add(RECORD + len).is_some_and(|record_end| record_end <= end);
            let elsewhere = place == 0 && kind == Kind::Differential;
            if !inside && !elsewhere {
                return Err(ManifestError::Malformed("a place outside the file"));
            }
            places.push(place);
        }
        Ok(Self { manifest, places })
    }
}
