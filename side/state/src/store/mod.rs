//! The object store: ordered keys and values in memory, copied on write, with digests.
//!
//! It is a trie over the half bytes of keys, path-compressed, whose small subtrees are buckets, with all their entries side by side. The
//! contents alone decide which subtrees are buckets, and so the chunks and digests: insertion order, threads and history leave no trace. A
//! [`Version`] shares all nodes with the [`Store`]; a change to the store copies the nodes on its way.
//!
//! Source: Eischer, Büttner, Distler, "Deterministic Fuzzy Checkpoints", SRDS 2019, for what it is used for; copy-on-write Merkle state.
//! Start with `tree` (changes; `bulk` for many at once), then `node` and `bucket` (what is in memory), `rules` (what digests cover).
//! Invariants: INV-STORE-1 to 5, in `tree`, `bucket` and `node`.
//! Tests: `tests/store*.rs`; `tests/all/reference` is the same contract in its simplest form. Speed: `benches/store.rs`, `benches/bulk.rs`.

mod ahead;
mod bucket;
mod build;
mod bulk;
mod changed;
mod changes;
mod chunks;
mod node;
mod path;
mod proof;
mod range;
mod rules;
mod symbols;
mod tree;
mod version;

pub use build::{ChunkError, digest_of};
pub use changed::Changed;
pub use chunks::{ChunkRef, Chunks, OutlineError, outline_root};
pub use path::Path;
pub use proof::{Proof, ProofError};
pub use range::Range;
pub use tree::{Change, ReplaceError, Store};
pub use version::{Part, Version};

/// Subtrees with at most this cost (8 + key + value bytes for each entry) are buckets. Part of format version 1.
pub const BUCKET_BYTES: u64 = 4096;
/// Subtrees with at most this cost are chunks, which are written and transferred as one. Part of format version 1.
pub const CHUNK_BYTES: u64 = 64 << 10;
/// How many keys [`Store::read_ahead`] takes.
pub const READ_AHEAD: usize = ahead::WINDOW;
/// The longest key.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// The longest value.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// The symbol for "a key ends here" in a path.
const END: u8 = 16;
