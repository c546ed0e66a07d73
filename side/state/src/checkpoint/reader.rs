//! Finds the checkpoints that are here, and the parts of one (in its own file, or in one that it builds on); reads and verifies each part.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use quorate_types::{Seq, planted};

use super::chunk::PartError;
use super::file::{FOOTER, Footer, HEADER, LINKS_MAX, Previous, RECORD, newer_header, record_body};
use super::files::{Files, is_shortage};
use super::layout::Layout;
use super::manifest::{Manifest, Part};

/// The published checkpoints that can be read, by seq.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) footers: BTreeMap<Seq, Footer>,
}

/// Why something at rest can't be used.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// A newer program wrote it, in this format.
    Newer(u16),
    /// It is rotten; the text says what.
    Rotten(&'static str),
    /// The system could not read it.
    Io(io::Error),
}

impl Unreadable {
    /// Whether the data at rest is bad, rather than the system short of something now.
    pub(crate) fn is_rot(&self) -> bool {
        !matches!(self, Self::Io(error) if is_shortage(error))
    }
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Newer(version) => write!(f, "it has format {version}, which is newer than this program"),
            Self::Rotten(what) => write!(f, "damaged: {what}"),
            Self::Io(error) => write!(f, "it can't be read: {error}"),
        }
    }
}

/// The format of a file that a newer program wrote.
pub(crate) fn newer_format(files: &mut dyn Files, name: &str) -> io::Result<Option<u16>> {
    let len = files.len(name)?;
    if len >= HEADER
        && let Ok(bytes) = files.read(name, 0, HEADER as usize)
        && let Some(version) = newer_header(&bytes)
    {
        return Ok(Some(version));
    }
    match read_footer(files, name) {
        Err(Unreadable::Newer(version)) => Ok(Some(version)),
        _ => Ok(None),
    }
}

/// A sound footer of a file, if one of the two is.
pub(crate) fn read_footer(files: &mut dyn Files, name: &str) -> Result<Footer, Unreadable> {
    let len = files.len(name)?;
    if len < HEADER + 2 * FOOTER {
        return Err(Unreadable::Rotten("it is too short"));
    }
    let mut result = Err(Unreadable::Rotten("both footers"));
    for copy in [1, 2] {
        let read = files.read(name, len - copy * FOOTER, FOOTER as usize);
        match read.map(|bytes| Footer::decode(&bytes, len)) {
            Ok(Ok(footer)) => return Ok(footer),
            Ok(Err(super::file::Bad::Newer(version))) => return Err(Unreadable::Newer(version)),
            Ok(Err(super::file::Bad::Rotten)) => {}
            Err(error) => result = Err(Unreadable::Io(error)),
        }
    }
    result
}

/// The layout of a file, from a sound copy.
pub(crate) fn read_layout(files: &mut dyn Files, footer: &Footer) -> Result<Layout, Unreadable> {
    let name = footer.name();
    for copy in 0..2 {
        let bytes = match read_copy(files, &name, footer, copy) {
            // That says nothing of the file, and the other copy could not be read either.
            Err(error) if is_shortage(&error) => return Err(error.into()),
            Err(_) => continue,
            Ok(bytes) => bytes,
        };
        let decoded = bytes.and_then(|bytes| Layout::decode(&bytes, footer.kind, footer.layout_at).ok());
        let Some(layout) = decoded else { continue };
        let manifest = &layout.manifest;
        let same = (manifest.seq(), manifest.border(), manifest.digest());
        if same == (footer.seq, footer.border, footer.digest) {
            return Ok(layout);
        }
    }
    Err(Unreadable::Rotten("both copies of the manifest"))
}

/// The bytes of one copy of a file's layout; `None`: rotten.
pub(crate) fn read_copy(
    files: &mut dyn Files,
    name: &str,
    footer: &Footer,
    copy: u64,
) -> io::Result<Option<Bytes>> {
    // The footer was compared with the file's length, so this allocates no more than the file has.
    let at = footer.layout_at + copy * footer.layout_len;
    let bytes = files.read(name, at, footer.layout_len as usize)?;
    Ok((blake3::hash(&bytes).as_bytes() == footer.layout_digest.bytes()).then_some(bytes))
}

impl Catalog {
    /// The chain of checkpoints that a checkpoint needs, beginning with itself; `None` if a link is missing, or there are too many.
    pub(crate) fn chain(&self, seq: Seq) -> Option<Vec<Seq>> {
        let mut chain = Vec::new();
        let mut footer = self.footers.get(&seq)?;
        loop {
            chain.push(footer.seq);
            let Some(previous) = footer.previous else { return Some(chain) };
            if chain.len() > LINKS_MAX as usize {
                return None;
            }
            footer = self.link(&previous)?;
        }
    }

    fn link(&self, previous: &Previous) -> Option<&Footer> {
        self.footers.get(&previous.seq).filter(|footer| footer.digest == previous.digest)
    }
}

/// A checkpoint's manifest, and the file of each of its parts.
#[derive(Debug)]
pub(crate) struct Located {
    pub(crate) manifest: Manifest,
    /// The checkpoint in whose file the part is, and where its record begins there. `None`: nowhere.
    pub(crate) spots: Vec<Option<(Seq, u64)>>,
    /// The parts that were not found yet, and where to look next.
    wanted: Vec<u32>,
    next: Option<Previous>,
    links: u32,
}

impl Located {
    /// Begins with the checkpoint's own file. Call [`Self::look`] until everything is found.
    pub(crate) fn begin(files: &mut dyn Files, catalog: &Catalog, seq: Seq) -> Result<Self, Unreadable> {
        let footer = catalog.footers.get(&seq).ok_or(Unreadable::Rotten("it is not there"))?;
        let layout = read_layout(files, footer)?;
        let spots: Vec<_> =
            layout.places.iter().map(|place| (*place != 0).then_some((seq, *place))).collect();
        let wanted = (0..).zip(&spots).filter(|(_, spot)| spot.is_none()).map(|(part, _)| part).collect();
        Ok(Self { manifest: layout.manifest, spots, wanted, next: footer.previous, links: 0 })
    }

    /// Does everything at once.
    pub(crate) fn find(files: &mut dyn Files, catalog: &Catalog, seq: Seq) -> Result<Self, Unreadable> {
        let mut located = Self::begin(files, catalog, seq)?;
        while !located.look(files, catalog) {}
        Ok(located)
    }

    /// Looks into the next file of the chain. Returns whether the search is finished.
    pub(crate) fn look(&mut self, files: &mut dyn Files, catalog: &Catalog) -> bool {
        let oldest_wins = planted("chain-order");
        let Some(previous) = self.next.take() else { return true };
        if (self.wanted.is_empty() && !oldest_wins) || self.links == LINKS_MAX {
            return true;
        }
        self.links += 1;
        let Some(footer) = catalog.link(&previous) else { return true };
        self.next = footer.previous;
        // A link whose manifest is lost holds nothing for us; what stands in it stays missing.
        let Ok(layout) = read_layout(files, footer) else { return false };
        if oldest_wins {
            self.wanted = (0..self.manifest.parts()).collect();
        }
        let Self { manifest, spots, wanted, .. } = self;
        wanted.retain(|part| match place_of(manifest, *part, &layout, oldest_wins) {
            None | Some(0) => true,
            Some(place) => {
                spots[*part as usize] = Some((footer.seq, place));
                false
            }
        });
        false
    }
}

/// Where the same part is in another checkpoint's file: the one with the same path and digest.
fn place_of(manifest: &Manifest, part: u32, layout: &Layout, by_path_only: bool) -> Option<u64> {
    let at = same_part(manifest, part, &layout.manifest, by_path_only)?;
    layout.places.get(at as usize).copied()
}

/// The number in `other` of a part that both images have.
pub(crate) fn same_part(manifest: &Manifest, part: u32, other: &Manifest, by_path_only: bool) -> Option<u32> {
    match manifest.split(part)? {
        Part::Piece(piece) => {
            let found = other.system().get(part as usize)?;
            (found == piece || by_path_only).then_some(part)
        }
        Part::Chunk(chunk) => {
            let at = other.chunks().binary_search_by(|found| found.path.cmp(&chunk.path)).ok()?;
            let same = other.chunks()[at].digest == chunk.digest;
            (same || by_path_only).then_some((other.system().len() + at) as u32)
        }
    }
}

/// Reads a part without verifying its content.
pub(crate) fn read_record(
    files: &mut dyn Files,
    catalog: &Catalog,
    located: &Located,
    part: u32,
) -> Result<Bytes, Unreadable> {
    let spot = located.spots.get(part as usize).copied().flatten();
    let (seq, place) = spot.ok_or(Unreadable::Rotten("the part is in no file"))?;
    let footer = catalog.footers.get(&seq).ok_or(Unreadable::Rotten("its file is gone"))?;
    let len = located.manifest.part_len(part).unwrap_or(0);
    Ok(files.read(&footer.name(), place, RECORD as usize + len)?)
}

/// Reads a part and verifies it by its digest, which proves more than the record's checksum.
pub(crate) fn read_part(
    files: &mut dyn Files,
    catalog: &Catalog,
    located: &Located,
    part: u32,
) -> Result<Bytes, Unreadable> {
    let record = read_record(files, catalog, located, part)?;
    let body = record.slice(RECORD as usize..);
    if !planted("unverified-chunk") {
        located.manifest.verify(part, &body).map_err(|_: PartError| Unreadable::Rotten("a part"))?;
    }
    Ok(body)
}

/// Whether a record at rest is exactly what was written: its checksum, and its content.
pub(crate) fn is_sound(manifest: &Manifest, part: u32, record: &Bytes) -> bool {
    record_body(record).is_some_and(|body| manifest.verify(part, &body).is_ok())
}
