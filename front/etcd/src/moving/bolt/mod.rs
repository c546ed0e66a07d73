//! The file format of etcd's own store: a database of bbolt, as far as etcd uses it.
//!
//! ```text
//! page      id u64 | kind u16 | count u16 | more pages that belong to it u32 | elements | keys and values
//! branch    each element: where its key is u32 | length of the key u32 | page below u64
//! leaf      each element: flags u32 | where its key is u32 | length of the key u32 | length of the value u32
//! meta      magic u32 | version u32 | page size u32 | flags u32 | root page u64 | sequence u64 | page of free pages u64
//!           | number of pages u64 | transaction u64 | FNV-1a of all before, u64
//! bucket    a value in a leaf: root page u64 | sequence u64; with the root page 0, the bucket's only page stands behind it
//! ```
//!
//! Numbers are little-endian. Where a key is counts from the beginning of its element. The pages 0 and 1 are meta; the one with the newer
//! transaction counts, and with two of them one is always whole. Source: go.etcd.io/bbolt 1.4.3, `internal/common`.
//! Tests: `tests.rs`.

mod read;
mod write;

#[cfg(test)]
mod tests;

pub use read::BoltError;
pub(super) use read::{Bolt, Bucket, Source, Visit};
pub(super) use write::Writer;

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;

/// Bytes of a page before its elements.
const PAGE_HEAD: usize = 16;
/// Bytes of an element, in a branch as in a leaf.
const ELEMENT: usize = 16;
/// Bytes of what a meta page says, with its check sum.
const META: usize = 64;
/// Bytes of a bucket's value before the page in it.
const BUCKET_HEAD: usize = 16;

/// The kinds of pages.
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
const METAS: u16 = 4;
const FREE: u16 = 16;

/// The flag of an element of a leaf that is a bucket.
const IS_BUCKET: u32 = 1;

/// FNV-1a with 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
