//! Checkpoints: the whole state at a border, as files that are the same on every replica.
//!
//! A *border* is a seq that follows from the log alone, so all replicas have the same borders. The state there is an [`Image`]; its digest
//! is computed at every border, even if no file is written. The [`Keeper`] does all of it beside the path, in bounded pieces, while
//! requests are executed: an image shares its objects with the live store.
//!
//! Source: deterministic fuzzy checkpoints (Distler, habilitation, section 5.2). State capture is [`Job::Ahead`]: the chunks of a version
//! before the border are written while execution continues. Completion is [`Job::Border`]: only chunks that differ from the captured ones
//! are written, then the manifest. Changes are found by comparing the chunks' digests, so nothing is recorded while requests run.
//! Differential checkpoints compare with the border before in the same way. Stop-and-copy and staggered checkpoints are the same files
//! without the capture.
//!
//! | module | what it does |
//! | --- | --- |
//! | `chunk` | the bytes of a chunk |
//! | `system` | [`SystemPart`]: what is no object, in two halves |
//! | `manifest` | [`Manifest`]: what an image consists of; what peers send each other |
//! | `assembly` | [`Assembly`]: parts verified one by one become an image |
//! | `file`, `layout` | the bytes of a checkpoint file |
//! | `files` | [`Files`]: what the host does for us |
//! | `job` | [`Job`] and [`Report`]: what goes into the keeper and what comes out |
//! | `keeper` | [`Keeper`]: queues, and which piece of work is next |
//! | `writer` | one file, from capture to publication |
//! | `reader` | finds and verifies parts in the files |
//! | `open` | what is there at start |
//! | `partial` | the file of a checkpoint that is being fetched |
//! | `scrub` | reads everything at rest, mends what it can |
//! | `single` | one file by itself, as a backup is |
//! | `note` | bytes beside the image in such a file |
//!
//! The files are drawn in docs/formats/checkpoint.md. Invariants:
//! - INV-KEEP-1: a chunk and a manifest have one encoding, and the lengths that the tree says.
//! - INV-KEEP-2: what was captured ahead is completed once, by the border that it was captured for.
//! - INV-KEEP-3: a file's bytes follow from the captured version, the image, the kind and the manifest before alone.
//! - INV-KEEP-4: what is loaded is exactly an image that was written, whatever became of the disk.
//! - INV-KEEP-5: a checkpoint that is to be kept, a newer one, and what they build on are not deleted.
//! - INV-KEEP-6: a checkpoint is reported as written after its file was synced and published.
//! - INV-KEEP-7: no part is sent to a peer or written by a repair before it was compared with its digest.
//! - INV-KEEP-8: files of a newer format are refused, and nothing is changed then.
//!
//! Tests: `tests/checkpoint_*.rs` of this package.

mod assembly;
mod chunk;
mod file;
mod files;
pub mod fuzzing;
mod image;
mod job;
mod keeper;
mod layout;
mod manifest;
mod note;
mod open;
mod partial;
mod reader;
mod scrub;
mod single;
mod system;
mod writer;

pub use assembly::Assembly;
pub use chunk::{Entry, PartError, decode_chunk, encode_chunk, verify_chunk};
pub use file::is_checkpoint;
pub use files::Files;
pub use image::Image;
pub use job::{Instead, Job, Kind, ManifestPart, Report, RotAt, Step};
pub use keeper::Keeper;
pub use manifest::{ChunkEntry, Digests, Manifest, ManifestError, PieceEntry};
pub use note::{NOTE_BYTES_MAX, add_note};
pub use open::{Loaded, OpenError, Opened};
pub use partial::{Growth, PartialPiece};
pub use single::{Single, Unusable};
pub use system::{PIECE_BYTES, SystemPart};
