//! The manifest of an image: the digests of the pieces of its system part and of its chunks of objects.
//!
//! Its bytes are canonical: one image has one manifest, whatever the mode, the kind of file or the history. So a replica may fetch one
//! stretch of it from one replica and the next from another. The image's digest covers the whole manifest, also where the objects are cut
//! and how long the chunks are: a replica that knows the digest detects a forged manifest.
//!
//! The image's digest is made from the state digest, which covers only what execution has. A replica that executes the same and orders
//! nothing would have the same state digest.

use std::fmt;

use blake3::Hasher;
use bytes::Bytes;
use quorate_types::{Digest, Seq};

use super::chunk::{self, PartError};
use super::image::Image;
use super::system::{PIECE_BYTES, SystemPart};
use crate::store::{ChunkRef, KEY_BYTES_MAX, Path, VALUE_BYTES_MAX, outline_root};

const MAGIC: [u8; 4] = *b"QMAN";
const VERSION: u16 = 1;
const HEAD: usize = 44;
/// The fewest bytes that one chunk takes in a manifest.
const ENTRY_MIN: usize = 4 + Digest::BYTES + 4;
/// The least and the highest cost of a chunk's entries.
const COST: std::ops::RangeInclusive<u32> = 8..=(8 + KEY_BYTES_MAX + VALUE_BYTES_MAX) as u32;

/// A piece of a half of the system part, of at most [`PIECE_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceEntry {
    /// The BLAKE3 hash of its bytes.
    pub digest: Digest,
    /// Its length.
    pub bytes: u32,
}

impl PieceEntry {
    pub(crate) fn of(piece: &[u8]) -> Self {
        Self { digest: Digest::new(*blake3::hash(piece).as_bytes()), bytes: piece.len() as u32 }
    }
}

/// A chunk of the objects: the entries under one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkEntry {
    /// Its place in the tree.
    pub path: Path,
    /// The digest of the subtree there.
    pub digest: Digest,
    /// The cost of its entries: 8 for each, and the lengths of their keys and values.
    pub bytes: u32,
}

impl ChunkEntry {
    pub(crate) fn of(chunk: &ChunkRef) -> Self {
        assert!(chunk.bytes <= u64::from(*COST.end()), "INV-KEEP-1 a chunk is bounded, or has one entry");
        Self { path: chunk.path.clone(), digest: chunk.digest, bytes: chunk.bytes as u32 }
    }
}

/// The digest of an image, and that of the state in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digests {
    /// The digest of the whole image, on which the members agree at a border.
    pub image: Digest,
    /// The digest of the state that execution has at that seq: the objects, and execution's half of the system part. Equal wherever the same
    /// was executed, however it was ordered.
    pub state: Digest,
}

/// The manifest of an image. A value of this type is consistent: pieces have the right lengths, chunks are in order, and their digests
/// make a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    seq: Seq,
    border: u64,
    order_bytes: u64,
    execution_bytes: u64,
    /// The pieces of the order's half come first.
    system: Vec<PieceEntry>,
    chunks: Vec<ChunkEntry>,
    root: Digest,
}

/// Why bytes are no manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestError {
    /// A newer program wrote them, in this format.
    Newer(u16),
    /// They are damaged or never were a manifest; the text names the place.
    Malformed(&'static str),
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newer(version) => write!(f, "a manifest of format {version}; this program knows {VERSION}"),
            Self::Malformed(what) => write!(f, "no manifest: {what}"),
        }
    }
}

impl std::error::Error for ManifestError {}

impl Manifest {
    /// The manifest of an image. The time grows with the number of chunks, and with the digests that are not computed yet.
    pub fn of(image: &Image) -> Self {
        let system = image.system.pieces().map(|piece| PieceEntry::of(&piece)).collect();
        let chunks = image.objects.chunks().map(|chunk| ChunkEntry::of(&chunk)).collect();
        Self {
            seq: image.seq,
            border: image.border,
            order_bytes: image.system.order.len() as u64,
            execution_bytes: image.system.execution.len() as u64,
            system,
            chunks,
            root: image.objects.root(),
        }
    }

    /// The image's seq.
    pub fn seq(&self) -> Seq {
        self.seq
    }
    /// The number of the image's border.
    pub fn border(&self) -> u64 {
        self.border
    }
    /// The pieces of the system part, in order.
    pub fn system(&self) -> &[PieceEntry] {
        &self.system
    }
    /// The chunks of the objects, in key order.
    pub fn chunks(&self) -> &[ChunkEntry] {
        &self.chunks
    }
    /// The length of the system part.
    pub fn system_bytes(&self) -> u64 {
        self.order_bytes + self.execution_bytes
    }
    /// How many pieces of the system part belong to the order's half; they are the first.
    fn of_order(&self) -> usize {
        pieces_of(self.order_bytes) as usize
    }
    /// The system part from these pieces.
    pub(crate) fn joined<'a>(&self, pieces: impl Iterator<Item = &'a Bytes>) -> SystemPart {
        SystemPart::joined(self.of_order(), pieces)
    }
    /// The root of the objects.
    pub fn root(&self) -> Digest {
        self.root
    }
    /// The image's digest. The time grows with the number of chunks.
    pub fn digest(&self) -> Digest {
        self.digests().image
    }
    /// The image's digest and its state digest. The time grows with the number of chunks.
    ///
    /// The state digest covers a tag, the seq, and three digests: that of the pieces of execution's half, the root of the objects, and that
    /// of the cuts (each chunk's path and length). The image's digest covers a tag, the border, the state digest, and the digest of the
    /// pieces of the order's half. With these few bytes a proof can be checked against the root without the manifest.
    pub fn digests(&self) -> Digests {
        let (order, execution) = self.system.split_at(self.of_order());
        let mut cuts = Hasher::new();
        cuts.update(b"quorate cuts 1");
        for chunk in &self.chunks {
            let path = chunk.path.as_bytes();
            cuts.update(&chunk.bytes.to_le_bytes()).update(&(path.len() as u32).to_le_bytes()).update(path);
        }
        let mut state = Hasher::new();
        state.update(b"quorate state 1").update(&self.seq.number().to_le_bytes());
        state.update(digest_of(b"quorate execution 1", execution).bytes()).update(self.root.bytes());
        state.update(cuts.finalize().as_bytes());
        let state = Digest::new(*state.finalize().as_bytes());
        let mut image = Hasher::new();
        image.update(b"quorate image 1").update(&self.border.to_le_bytes()).update(state.bytes());
        image.update(digest_of(b"quorate order 1", order).bytes());
        Digests { image: Digest::new(*image.finalize().as_bytes()), state }
    }
    /// The number of parts: the pieces, then the chunks.
    pub fn parts(&self) -> u32 {
        (self.system.len() + self.chunks.len()) as u32
    }
    /// The length of part `part`; `None` when there is no such part.
    pub fn part_len(&self, part: u32) -> Option<usize> {
        match self.split(part)? {
            Part::Piece(piece) => Some(piece.bytes as usize),
            Part::Chunk(chunk) => Some(chunk::encoded_len(chunk.bytes)),
        }
    }
    /// The length of all parts together.
    pub fn total_bytes(&self) -> u64 {
        let chunks: u64 = self.chunks.iter().map(|chunk| chunk::encoded_len(chunk.bytes) as u64).sum();
        self.system_bytes() + chunks
    }
    /// Checks that these are the bytes of part `part`.
    pub fn verify(&self, part: u32, bytes: &[u8]) -> Result<(), PartError> {
        let expected = self.part_len(part).ok_or(PartError::NoSuchPart)?;
        if bytes.len() != expected {
            return Err(PartError::Malformed("its length"));
        }
        match self.split(part) {
            Some(Part::Piece(piece)) if PieceEntry::of(bytes) == *piece => Ok(()),
            Some(Part::Piece(_)) => Err(PartError::WrongDigest),
            Some(Part::Chunk(entry)) => chunk::verify_chunk(&entry.path, &entry.digest, bytes),
            None => Err(PartError::NoSuchPart),
        }
    }

    /// Whether it has the same chunk.
    pub(crate) fn has(&self, chunk: &ChunkEntry) -> bool {
        self.chunks
            .binary_search_by(|found| found.path.cmp(&chunk.path))
            .is_ok_and(|at| self.chunks[at] == *chunk)
    }

    pub(crate) fn split(&self, part: u32) -> Option<Part<'_>> {
        let part = part as usize;
        match part.checked_sub(self.system.len()) {
            None => self.system.get(part).map(Part::Piece),
            Some(chunk) => self.chunks.get(chunk).map(Part::Chunk),
        }
    }
}

/// The number of pieces into which this many bytes are cut.
fn pieces_of(bytes: u64) -> u64 {
    bytes.div_ceil(PIECE_BYTES as u64)
}

/// The digest of the pieces of a half of the system part.
fn digest_of(tag: &[u8], pieces: &[PieceEntry]) -> Digest {
    let mut hasher = Hasher::new();
    hasher.update(tag);
    for piece in pieces {
        hasher.update(&piece.bytes.to_le_bytes()).update(piece.digest.bytes());
    }
    Digest::new(*hasher.finalize().as_bytes())
}

/// A part of an image.
pub(crate) enum Part<'a> {
    Piece(&'a PieceEntry),
    Chunk(&'a ChunkEntry),
}

impl Manifest {
    /// The bytes of the manifest.
    pub fn encode(&self) -> Vec<u8> {
        let paths: usize = self.chunks.iter().map(|chunk| chunk.path.as_bytes().len()).sum();
        let len = HEAD + self.system.len() * Digest::BYTES + self.chunks.len() * ENTRY_MIN + paths;
        let mut out = Vec::with_capacity(len);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.seq.number().to_le_bytes());
        out.extend_from_slice(&self.border.to_le_bytes());
        out.extend_from_slice(&self.order_bytes.to_le_bytes());
        out.extend_from_slice(&self.execution_bytes.to_le_bytes());
        out.extend_from_slice(&(self.chunks.len() as u32).to_le_bytes());
        self.system.iter().for_each(|piece| out.extend_from_slice(piece.digest.bytes()));
        for chunk in &self.chunks {
            let path = chunk.path.as_bytes();
            out.extend_from_slice(&(path.len() as u32).to_le_bytes());
            out.extend_from_slice(path);
            out.extend_from_slice(chunk.digest.bytes());
            out.extend_from_slice(&chunk.bytes.to_le_bytes());
        }
        out
    }

    /// Reads what [`Self::encode`] writes, and nothing else. Also checks that the chunks form a tree with a root.
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        let mut from = Reader { bytes };
        if from.array()? != MAGIC {
            return Err(ManifestError::Malformed("magic"));
        }
        let version = u16::from_le_bytes(from.array()?);
        if version != VERSION {
            return Err(if version > VERSION {
                ManifestError::Newer(version)
            } else {
                ManifestError::Malformed("version")
            });
        }
        if from.array()? != [0; 2] {
            return Err(ManifestError::Malformed("reserved"));
        }
        let (seq, border) = (Seq::new(from.u64()?), from.u64()?);
        let (order_bytes, execution_bytes, count) = (from.u64()?, from.u64()?, from.u32()? as usize);
        let pieces = pieces_of(order_bytes) + pieces_of(execution_bytes);
        let most = from.bytes.len() as u64 / Digest::BYTES as u64;
        if pieces > most || count > from.bytes.len() / ENTRY_MIN {
            return Err(ManifestError::Malformed("more parts than bytes"));
        }
        let mut system = Vec::with_capacity(pieces as usize);
        for half in [order_bytes, execution_bytes] {
            for at in 0..pieces_of(half) {
                let bytes = (half - at * PIECE_BYTES as u64).min(PIECE_BYTES as u64) as u32;
                system.push(PieceEntry { digest: Digest::new(from.array()?), bytes });
            }
        }
        let mut chunks = Vec::with_capacity(count);
        for _ in 0..count {
            let len = from.u32()? as usize;
            let path = Path::from_bytes(from.take(len)?).ok_or(ManifestError::Malformed("path"))?;
            let (digest, bytes) = (Digest::new(from.array()?), from.u32()?);
            if !COST.contains(&bytes) {
                return Err(ManifestError::Malformed("a chunk's length"));
            }
            chunks.push(ChunkEntry { path, digest, bytes });
        }
        if !from.bytes.is_empty() {
            return Err(ManifestError::Malformed("its length"));
        }
        let outline: Vec<(Path, Digest)> =
            chunks.iter().map(|chunk| (chunk.path.clone(), chunk.digest)).collect();
        let root = outline_root(&outline).map_err(|_| ManifestError::Malformed("the tree of its chunks"))?;
        Ok(Self { seq, border, order_bytes, execution_bytes, system, chunks, root })
    }
}

/// Reads values of fixed sizes from bytes that may end too early.
pub(crate) struct Reader<'a> {
    pub(crate) bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], ManifestError> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(ManifestError::Malformed("its length"))?;
        self.bytes = rest;
        Ok(taken)
    }
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], ManifestError> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(ManifestError::Malformed("its length"))?;
        self.bytes = rest;
        Ok(*taken)
    }
    pub(crate) fn u32(&mut self) -> Result<u32, ManifestError> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    pub(crate) fn u64(&mut self) -> Result<u64, ManifestError> {
        Ok(u64::from_le_bytes(self.array()?))
    }
}
