//! Bodies of fuzz targets, as functions that stable tests also run; and a disk in memory for them.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;

use quorate_types::{Digest, Seq};

use super::file::{FOOTER, Footer, HEADER, Previous, file_name, header};
use super::layout::Layout;
use super::partial::{self, OUTLINE};
use super::{
    Files, Image, Job, Keeper, Kind, Manifest, Report, Step, decode_chunk, encode_chunk, verify_chunk,
};
use crate::store::{Path, digest_of};

/// Files in memory, without failures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryFiles {
    /// Their names and bytes.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl MemoryFiles {
    fn file(&mut self, name: &str) -> io::Result<&mut Vec<u8>> {
        self.files.get_mut(name).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn range(offset: u64, len: usize) -> std::ops::Range<usize> {
    let from = usize::try_from(offset).unwrap_or(usize::MAX);
    from..from.saturating_add(len)
}

impl Files for MemoryFiles {
    fn list(&mut self) -> io::Result<Vec<String>> {
        Ok(self.files.keys().cloned().collect())
    }
    fn len(&mut self, name: &str) -> io::Result<u64> {
        Ok(self.file(name)?.len() as u64)
    }
    fn read(&mut self, name: &str, offset: u64, len: usize) -> io::Result<Bytes> {
        let found = self.file(name)?.get(range(offset, len)).map(Bytes::copy_from_slice);
        found.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
    fn create(&mut self, name: &str) -> io::Result<()> {
        self.files.insert(name.into(), Vec::new());
        Ok(())
    }
    fn append(&mut self, name: &str, parts: &[Bytes]) -> io::Result<()> {
        let file = self.file(name)?;
        parts.iter().for_each(|part| file.extend_from_slice(part));
        Ok(())
    }
    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let place = self.file(name)?.get_mut(range(offset, bytes.len()));
        place.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(bytes);
        Ok(())
    }
    fn truncate(&mut self, name: &str, len: u64) -> io::Result<()> {
        self.file(name)?.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        Ok(())
    }
    fn sync(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn publish(&mut self, from: &str, to: &str) -> io::Result<()> {
        let file = self.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        self.files.insert(to.into(), file);
        Ok(())
    }
    fn delete(&mut self, name: &str) -> io::Result<()> {
        self.files.remove(name).map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Takes any bytes for a manifest. If they can be decoded, encoding gives the same bytes, and the parts are counted and bounded.
///
/// # Panics
/// When that does not hold.
pub fn manifest(data: &[u8]) {
    let Ok(manifest) = Manifest::decode(data) else { return };
    assert!(manifest.encode() == data, "INV-KEEP-1 a manifest has one encoding");
    let _ = manifest.digest();
    for part in [0, manifest.parts() / 2, manifest.parts(), u32::MAX] {
        assert!(
            manifest.part_len(part).is_some() == (part < manifest.parts()),
            "INV-KEEP-1 parts are counted"
        );
        let _ = manifest.verify(part, data);
    }
}

/// Takes any bytes for a chunk: the low 5 bits of the first byte say how many symbols of a path follow, the rest is the chunk. If it can be
/// decoded, encoding gives the same bytes, and it has one digest.
///
/// # Panics
/// When that does not hold.
pub fn chunk(data: &[u8]) {
    let Some((len, rest)) = data.split_first() else { return };
    let (symbols, chunk) = rest.split_at(rest.len().min(usize::from(len & 31)));
    let Ok(entries) = decode_chunk(chunk) else { return };
    let again = encode_chunk(entries.iter().copied());
    assert!(again == chunk, "INV-KEEP-1 a chunk has one encoding");
    let Some(path) = Path::from_bytes(symbols) else { return };
    if let Ok(digest) = digest_of(&path, &mut entries.iter().copied()) {
        assert!(verify_chunk(&path, &digest, chunk).is_ok(), "INV-KEEP-1 a chunk has one digest");
    }
}

/// The flag of [`file()`] that asks for right checksums and digests.
pub const SEALED: u8 = 0x80;
/// The flag of [`file()`] for a differential checkpoint over a full one.
pub const TWO: u8 = 1;
/// The flag of [`file()`] for the two files of an interrupted transfer beside the checkpoints: a length (4 bytes), so many bytes of the
/// manifest's file, and the rest for the other one.
pub const PARTIAL: u8 = 2;
const CUT: usize = 256 << 10;

/// Takes any bytes for the files of a directory. Opening, asking for parts, scrubbing and opening again return, and what was loaded can be
/// loaded again after it was written anew.
///
/// The first byte is a set of flags: [`SEALED`] and the others here. With [`TWO`] a length (4 bytes) follows: this many bytes are the full
/// checkpoint's, the rest the differential one's. Without [`SEALED`] a file is taken as it is. With it, header and footers are missing and
/// there is one copy of the layout: 4 bytes with its length, the layout, the records. [`sealed`] makes such bytes.
///
/// # Panics
/// When that does not hold.
pub fn file(data: &[u8]) {
    let Some((flags, data)) = data.split_first() else { return };
    let data = &data[..data.len().min(CUT)];
    let mut files = MemoryFiles::default();
    if flags & PARTIAL != 0 {
        let (outline, partial) = cut(data);
        files.files.insert(OUTLINE.into(), outline.to_vec());
        files.files.insert(partial::PARTIAL.into(), partial.to_vec());
    }
    let (first, second) = if flags & TWO != 0 { cut(data) } else { (data, &data[..0]) };
    let full = put(&mut files, first, Kind::Full, flags & SEALED != 0, None);
    if flags & TWO != 0 {
        put(&mut files, second, Kind::Differential, flags & SEALED != 0, full);
    }
    let before = files.clone();
    let Ok((mut keeper, opened)) = Keeper::open(&mut files, false) else {
        assert!(files == before, "INV-KEEP-8 nothing is changed that a newer program wrote");
        return;
    };
    for (seq, digest) in opened.found {
        keeper.submit(Job::ReadManifest { ticket: 1, seq, digest, offset: 3, max: 100 });
        for chunk in 0..4 {
            keeper.submit(Job::ReadChunk { ticket: 2, seq, digest, chunk });
        }
        keeper.submit(Job::Repair { seq, chunk: 0, bytes: Bytes::copy_from_slice(data) });
    }
    keeper.submit(Job::Scrub);
    settle(&mut keeper, &mut files);
    let (Some(image), Some(digest)) = (opened.image, opened.digest) else { return };
    // Sealed bytes may be cut into chunks as no state is: the digest that they claim is nobody's then.
    assert!(image.digest() == digest || flags & SEALED != 0, "INV-KEEP-4 what is loaded has its digest");
    written_and_loaded(image);
}

fn written_and_loaded(image: Image) {
    let mut files = MemoryFiles::default();
    let Ok((mut keeper, _)) = Keeper::open(&mut files, false) else { return };
    let digest = image.digest();
    keeper.submit(Job::Border { image, write: Some(Kind::Full) });
    let reports = settle(&mut keeper, &mut files);
    let written = reports.iter().any(|report| matches!(report, Report::Written { .. }));
    assert!(written, "INV-KEEP-4 an image can be written");
    let loaded = Keeper::open(&mut files, false).ok().and_then(|(_, opened)| opened.image);
    assert!(loaded.map(|image| image.digest()) == Some(digest), "INV-KEEP-4 what was written is loaded");
}

fn settle(keeper: &mut Keeper, files: &mut MemoryFiles) -> Vec<Report> {
    let mut reports = Vec::new();
    while keeper.step(files) != Step::Idle {
        reports.extend(keeper.reports());
    }
    reports.extend(keeper.reports());
    reports
}

/// Cuts bytes in two; their first 4 say where.
fn cut(data: &[u8]) -> (&[u8], &[u8]) {
    let Some((len, rest)) = data.split_first_chunk() else { return (&[], &[]) };
    rest.split_at(rest.len().min(u32::from_le_bytes(*len) as usize))
}

/// Puts a checkpoint into the files.
fn put(
    files: &mut MemoryFiles,
    data: &[u8],
    kind: Kind,
    seal: bool,
    previous: Option<Previous>,
) -> Option<Previous> {
    if !seal {
        let seq = Seq::new(if kind == Kind::Full { 7 } else { 9 });
        files.files.insert(file_name(seq, kind), data.to_vec());
        return None;
    }
    let (layout, records) = cut(data);
    let layout_at = HEADER + records.len() as u64;
    let manifest = Layout::decode(layout, kind, layout_at).ok().map(|layout| layout.manifest);
    let none = Digest::new([0; Digest::BYTES]);
    let footer = Footer {
        kind,
        seq: manifest.as_ref().map_or(Seq::new(9), Manifest::seq),
        border: manifest.as_ref().map_or(1, Manifest::border),
        previous: (kind == Kind::Differential)
            .then(|| previous.unwrap_or(Previous { seq: Seq::ZERO, digest: none })),
        digest: manifest.as_ref().map_or(none, Manifest::digest),
        layout_at,
        layout_len: layout.len() as u64,
        layout_digest: Digest::new(*blake3::hash(layout).as_bytes()),
    };
    let header = header(kind, footer.border);
    let end = footer.encode();
    let bytes = [&header[..], records, layout, layout, &end, &end].concat();
    files.files.insert(footer.name(), bytes);
    Some(Previous { seq: footer.seq, digest: footer.digest })
}

/// A checkpoint's file as [`file()`] takes it with [`SEALED`]. `None`: the bytes are not a checkpoint's file.
pub fn sealed(bytes: &[u8]) -> Option<Vec<u8>> {
    let footer =
        Footer::decode(bytes.get(bytes.len().checked_sub(FOOTER as usize)?..)?, bytes.len() as u64).ok()?;
    let records = bytes.get(range(HEADER, (footer.layout_at - HEADER) as usize))?;
    let layout = bytes.get(range(footer.layout_at, footer.layout_len as usize))?;
    Some([&(layout.len() as u32).to_le_bytes()[..], layout, records].concat())
}
