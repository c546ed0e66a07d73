//! Chunks: subtrees that are written and transferred as one. A version's chunks depend only on its contents.

use std::fmt;

use quorate_types::Digest;

use super::node::Child;
use super::version::Version;
use super::{CHUNK_BYTES, END, Path, rules};

/// A chunk: one of the largest subtrees whose cost is at most [`CHUNK_BYTES`], or a single entry that costs more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChunkRef {
    /// The path of the subtree.
    pub path: Path,
    /// The digest that [`digest_of`](super::digest_of) gives for its entries.
    pub digest: Digest,
    /// How many entries it has.
    pub count: u64,
    /// Its cost: 8 + key + value bytes for each entry.
    pub bytes: u64,
}

/// The chunks of a version in key order.
pub struct Chunks<'a> {
    version: &'a Version,
    /// The rest: subtrees with their paths and digests, the next one last. A digest is computed when its turn comes.
    left: Vec<Left<'a>>,
}

struct Left<'a> {
    child: &'a Child,
    path: Vec<u8>,
    above: Option<(&'a super::node::Inner, u32)>,
}

impl<'a> Chunks<'a> {
    pub(super) fn new(version: &'a Version) -> Self {
        let child = &version.root.child;
        let left =
            if version.is_empty() { None } else { Some(Left { child, path: Vec::new(), above: None }) };
        Self { version, left: left.into_iter().collect() }
    }
}

impl Iterator for Chunks<'_> {
    type Item = ChunkRef;

    fn next(&mut self) -> Option<ChunkRef> {
        loop {
            let Left { child, mut path, above } = self.left.pop()?;
            let (count, bytes) = child.measure();
            let Child::Inner(inner) = child else { return Some(self.chunk(&path, above, count, bytes)) };
            if bytes <= CHUNK_BYTES {
                return Some(self.chunk(&path, above, count, bytes));
            }
            path.extend_from_slice(inner.skip());
            let first = self.left.len();
            for (place, child) in inner.places().zip(inner.children()) {
                let mut path = path.clone();
                path.push(place.checked_sub(1).map_or(END, |nibble| nibble as u8));
                self.left.push(Left { child, path, above: Some((inner, place)) });
            }
            self.left[first..].reverse();
        }
    }
}

impl<'a> Chunks<'a> {
    fn chunk(
        &self,
        path: &[u8],
        above: Option<(&'a super::node::Inner, u32)>,
        count: u64,
        bytes: u64,
    ) -> ChunkRef {
        let digest = above.map_or_else(|| self.version.root(), |(inner, place)| inner.child_digest(place));
        ChunkRef { path: Path::from_symbols(path), digest, count, bytes }
    }
}

/// Why a list of chunks can not be that of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutlineError {
    /// The paths do not ascend, or one lies under another.
    Order,
    /// A path is longer or shorter than in a tree with these chunks.
    Path,
}

impl fmt::Display for OutlineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Order => "chunks that do not ascend",
            Self::Path => "a chunk whose path no tree has",
        })
    }
}

impl std::error::Error for OutlineError {}

/// A node of the outline whose children are not all there yet.
struct Open {
    at: usize,
    symbols: u32,
    digests: Vec<Digest>,
}

/// The root of the store that has exactly these chunks.
pub fn outline_root(chunks: &[(Path, Digest)]) -> Result<Digest, OutlineError> {
    let Some((first, _)) = chunks.first() else { return Ok(rules::empty()) };
    let (mut open, mut buffer): (Vec<Open>, _) = (Vec::new(), Vec::new());
    // A path ends one symbol after the last place where it parts from a neighbour.
    let mut parted = None;
    for pair in chunks.windows(2) {
        let ((path, digest), (next, _)) = (&pair[0], &pair[1]);
        if path >= next || path.covers(next) {
            return Err(OutlineError::Order);
        }
        let symbols = path.as_bytes();
        let parting = symbols.iter().zip(next.as_bytes()).take_while(|(one, other)| one == other).count();
        if symbols.len() != parted.max(Some(parting)).map_or(0, |at| at + 1) {
            return Err(OutlineError::Path);
        }
        let closed = close(&mut open, Some(parting), symbols, *digest, &mut buffer);
        match open.last_mut() {
            Some(node) if node.at == parting => node.add(symbols, closed),
            _ => {
                let mut node = Open { at: parting, symbols: 0, digests: Vec::new() };
                node.add(symbols, closed);
                open.push(node);
            }
        }
        parted = Some(parting);
    }
    let (last, digest) = chunks.last().map_or((first, rules::empty()), |(path, digest)| (path, *digest));
    if last.len() != parted.map_or(0, |at| at + 1) {
        return Err(OutlineError::Path);
    }
    Ok(close(&mut open, None, last.as_bytes(), digest, &mut buffer))
}

/// Closes the nodes beyond the place where the next chunk branches off from this one; all of them if none follows.
fn close(
    open: &mut Vec<Open>,
    parting: Option<usize>,
    path: &[u8],
    digest: Digest,
    buffer: &mut Vec<u8>,
) -> Digest {
    let mut digest = digest;
    while let Some(mut node) = open.pop_if(|node| parting.is_none_or(|parting| node.at > parting)) {
        node.add(path, digest);
        let from = open.last().map(|node| node.at).max(parting).map_or(0, |at| at + 1);
        digest = rules::inner(node.symbols, node.digests.into_iter(), &path[from..node.at], buffer);
    }
    digest
}

impl Open {
    fn add(&mut self, path: &[u8], digest: Digest) {
        self.symbols |= match path[self.at] {
            END => 1,
            nibble => 2 << nibble,
        };
        self.digests.push(digest);
    }
}
