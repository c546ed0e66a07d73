//! A note in the file of a full checkpoint: bytes beside the image, such as the proof of a backup.
//!
//! It is one more record, behind those of the parts, and no layout points to it; so programs that know no notes read the file as ever. No
//! digest of the image covers it, and a replica's own files have none: whoever makes a backup adds it to the finished file.
//! Drawing: docs/formats/checkpoint.md. Tests: `tests/all/checkpoint_note.rs`.

use std::io;

use bytes::{Buf as _, Bytes};

use super::file::{Footer, HEADER, RECORD, record_body, record_head};
use super::files::Files;
use super::layout::Layout;
use super::reader::{Unreadable, read_footer};

/// A note has at most this many bytes.
pub const NOTE_BYTES_MAX: usize = 64 << 10;

/// Adds a note to the file of a full checkpoint that has none. The end of the file is written again, so the file must have no name yet under
/// which somebody looks for it. The caller syncs it.
///
/// # Errors
/// When it is no full checkpoint, and what the system says.
///
/// # Panics
/// When the note has more than [`NOTE_BYTES_MAX`] bytes.
pub fn add_note(files: &mut dyn Files, name: &str, note: &[u8]) -> io::Result<()> {
    assert!(note.len() <= NOTE_BYTES_MAX, "a note is small");
    let footer = read_footer(files, name).map_err(|why| match why {
        Unreadable::Io(error) => error,
        Unreadable::Newer(_) | Unreadable::Rotten(_) => refused("it is no checkpoint of this program"),
    })?;
    if footer.previous.is_some() {
        return Err(refused("only a full checkpoint has a note"));
    }
    // The footer was compared with the file's length, so this allocates no more than the file has.
    let layout = files.read(name, footer.layout_at, footer.layout_len as usize)?;
    if blake3::hash(&layout).as_bytes() != footer.layout_digest.bytes() {
        return Err(refused("its manifest is damaged"));
    }
    let head = Bytes::copy_from_slice(&record_head(note));
    let layout_at = footer.layout_at + RECORD + note.len() as u64;
    let end = Footer { layout_at, ..footer.clone() }.encode();
    files.truncate(name, footer.layout_at)?;
    files.append(name, &[head, Bytes::copy_from_slice(note), layout.clone(), layout, end.clone(), end])
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The note of a file with this footer and layout. Of several records that no layout points to, behind those of the parts, it is the last one.
pub(crate) fn read_note(
    files: &mut dyn Files,
    name: &str,
    footer: &Footer,
    layout: &Layout,
) -> Result<Option<Bytes>, Unreadable> {
    let end_of =
        |(place, part): (&u64, u32)| place + RECORD + layout.manifest.part_len(part).unwrap_or(0) as u64;
    let at = layout.places.iter().zip(0..).map(end_of).max().unwrap_or(HEADER);
    let len = footer.layout_at.saturating_sub(at);
    // More is there only where a replica captured ahead what changed until the border.
    if len == 0 || len > RECORD + NOTE_BYTES_MAX as u64 {
        return Ok(None);
    }
    let mut rest = files.read(name, at, len as usize).map_err(Unreadable::Io)?;
    let mut last = None;
    while !rest.is_empty() {
        let body = rest.first_chunk().map_or(usize::MAX, |len| u32::from_le_bytes(*len) as usize);
        let whole = body.checked_add(RECORD as usize).filter(|whole| *whole <= rest.len());
        let record = whole.map(|whole| rest.slice(..whole));
        let read = record.and_then(|record| Some((record.len(), record_body(&record)?)));
        let Some((whole, body)) = read else { return Err(Unreadable::Rotten("the note behind its parts")) };
        rest.advance(whole);
        last = Some(body);
    }
    Ok(last)
}
