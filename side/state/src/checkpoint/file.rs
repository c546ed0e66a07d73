//! The bytes of a checkpoint file around its manifest: header, records, footers. docs/formats/checkpoint.md draws them.
//!
//! Everything that is read here may be rotten, torn or foreign. A length or offset is compared with the bytes that are there before it is
//! used.

use bytes::{Bytes, BytesMut};
use crc32c::{crc32c, crc32c_append};
use quorate_types::{Digest, Seq};

use super::Kind;

/// The format that this program writes, and the newest it reads.
pub(crate) const FORMAT: u16 = 1;
pub(crate) const HEADER: u64 = 24;
/// The length of what comes before a record's bytes: their length, and a checksum over both.
pub(crate) const RECORD: u64 = 8;
/// A footer has a page for itself, so that one bad sector does not take both.
pub(crate) const FOOTER: u64 = 4096;
/// A chain has at most this many differential checkpoints over its full one.
pub(crate) const LINKS_MAX: u32 = 64;

const HEADER_MAGIC: [u8; 4] = *b"QCKP";
const FOOTER_MAGIC: [u8; 4] = *b"QCKF";
const FOOTER_CRC: usize = FOOTER as usize - 4;
/// The end of a footer's fields; zeros follow up to its checksum.
const FOOTER_FIELDS: usize = 144;

/// What can be wrong with a header or footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// It is sound, but of a newer program.
    Newer(u16),
    /// The file is damaged.
    Rotten,
}

impl Kind {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Full => 1,
            Self::Differential => 2,
        }
    }
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Full),
            2 => Some(Self::Differential),
            _ => None,
        }
    }
    fn extension(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Differential => "diff",
        }
    }
}

/// The name of a published checkpoint's file.
pub(crate) fn file_name(seq: Seq, kind: Kind) -> String {
    format!("{:020}.{}", seq.number(), kind.extension())
}

/// Reads a name that [`file_name`] made.
pub(crate) fn parse_name(name: &str) -> Option<(Seq, Kind)> {
    let (digits, extension) = name.split_once('.')?;
    let kind = [Kind::Full, Kind::Differential].into_iter().find(|kind| kind.extension() == extension)?;
    let seq = Seq::new(digits.parse().ok()?);
    (file_name(seq, kind) == name).then_some((seq, kind))
}

/// Whether a file with this name is a published checkpoint.
pub fn is_checkpoint(name: &str) -> bool {
    parse_name(name).is_some()
}

const UNFINISHED: &str = ".unfinished";

/// The name of a border's file until it is published, since its seq is not known while it is captured ahead.
pub(crate) fn unfinished_name(border: u64) -> String {
    format!("{border:020}{UNFINISHED}")
}

pub(crate) fn is_unfinished(name: &str) -> bool {
    name.ends_with(UNFINISHED)
}

/// The first bytes of a file.
pub(crate) fn header(kind: Kind, border: u64) -> [u8; HEADER as usize] {
    let mut bytes = [0; HEADER as usize];
    bytes[..4].copy_from_slice(&HEADER_MAGIC);
    bytes[4..6].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[6] = kind.code();
    bytes[8..16].copy_from_slice(&border.to_le_bytes());
    let crc = crc32c(&bytes[..20]);
    bytes[20..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Whether these bytes are the header of a file of a newer format. Magic, version and checksum have fixed offsets in every format.
pub(crate) fn newer_header(bytes: &[u8]) -> Option<u16> {
    let bytes: &[u8; HEADER as usize] = bytes.first_chunk()?;
    let sealed = bytes[..4] == HEADER_MAGIC && bytes[20..] == crc32c(&bytes[..20]).to_le_bytes();
    let version = u16::from_le_bytes([bytes[4], bytes[5]]);
    (sealed && version > FORMAT).then_some(version)
}

/// The bytes before a record's bytes.
pub(crate) fn record_head(bytes: &[u8]) -> [u8; RECORD as usize] {
    let len = (bytes.len() as u32).to_le_bytes();
    let crc = crc32c_append(crc32c(&len), bytes).to_le_bytes();
    let mut head = [0; RECORD as usize];
    head[..4].copy_from_slice(&len);
    head[4..].copy_from_slice(&crc);
    head
}

/// The bytes of a record; `None` if they are not what was written. `record` is the whole record.
pub(crate) fn record_body(record: &Bytes) -> Option<Bytes> {
    let body = record.slice(record.len().min(RECORD as usize)..);
    (record.get(..RECORD as usize)? == record_head(&body)).then_some(body)
}

/// The checkpoint that a differential one builds on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Previous {
    pub(crate) seq: Seq,
    /// Its image's digest.
    pub(crate) digest: Digest,
}

/// The last page of a file, and a copy in the page before: what the file is, and where its manifest is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) kind: Kind,
    pub(crate) seq: Seq,
    pub(crate) border: u64,
    /// Only in a differential checkpoint.
    pub(crate) previous: Option<Previous>,
    /// The digest of the image.
    pub(crate) digest: Digest,
    /// Where the records end and the first copy of the layout begins. The second copy follows.
    pub(crate) layout_at: u64,
    pub(crate) layout_len: u64,
    /// BLAKE3 of the layout.
    pub(crate) layout_digest: Digest,
}

impl Footer {
    pub(crate) fn name(&self) -> String {
        file_name(self.seq, self.kind)
    }

    /// How long the file is.
    pub(crate) fn file_len(&self) -> u64 {
        self.layout_at.saturating_add(self.layout_len.saturating_mul(2)).saturating_add(2 * FOOTER)
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(FOOTER as usize);
        out.extend_from_slice(&FOOTER_MAGIC);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&[self.kind.code(), 0]);
        out.extend_from_slice(&self.seq.number().to_le_bytes());
        out.extend_from_slice(&self.border.to_le_bytes());
        let previous = self.previous.map_or((0, [0; Digest::BYTES]), |p| (p.seq.number(), *p.digest.bytes()));
        out.extend_from_slice(&previous.0.to_le_bytes());
        out.extend_from_slice(&previous.1);
        out.extend_from_slice(self.digest.bytes());
        out.extend_from_slice(&self.layout_at.to_le_bytes());
        out.extend_from_slice(&self.layout_len.to_le_bytes());
        out.extend_from_slice(self.layout_digest.bytes());
        debug_assert!(out.len() == FOOTER_FIELDS);
        out.resize(FOOTER_CRC, 0);
        let crc = crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out.freeze()
    }

    /// Reads exactly what [`Self::encode`] writes at the end of a file of this length.
    pub(crate) fn decode(bytes: &[u8], file_len: u64) -> Result<Self, Bad> {
        let bytes: &[u8; FOOTER as usize] = bytes.try_into().map_err(|_| Bad::Rotten)?;
        if bytes[..4] != FOOTER_MAGIC || bytes[FOOTER_CRC..] != crc32c(&bytes[..FOOTER_CRC]).to_le_bytes() {
            return Err(Bad::Rotten);
        }
        let version = u16::from_le_bytes([bytes[4], bytes[5]]);
        if version > FORMAT {
            return Err(Bad::Newer(version));
        }
        let kind = Kind::from_code(bytes[6]).ok_or(Bad::Rotten)?;
        let (previous_seq, previous_digest) = (Seq::new(u64_at(bytes, 24)), digest_at(bytes, 32));
        let differential = kind == Kind::Differential;
        let footer = Self {
            kind,
            seq: Seq::new(u64_at(bytes, 8)),
            border: u64_at(bytes, 16),
            previous: differential.then_some(Previous { seq: previous_seq, digest: previous_digest }),
            digest: digest_at(bytes, 64),
            layout_at: u64_at(bytes, 96),
            layout_len: u64_at(bytes, 104),
            layout_digest: digest_at(bytes, 112),
        };
        let sound = footer.file_len() == file_len
            && footer.layout_at >= HEADER
            && footer.previous.is_none_or(|previous| previous.seq < footer.seq)
            && footer.encode() == bytes[..];
        if sound { Ok(footer) } else { Err(Bad::Rotten) }
    }
}

fn u64_at(bytes: &[u8; FOOTER as usize], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

fn digest_at(bytes: &[u8; FOOTER as usize], at: usize) -> Digest {
    let mut field = [0; Digest::BYTES];
    field.copy_from_slice(&bytes[at..at + Digest::BYTES]);
    Digest::new(field)
}
