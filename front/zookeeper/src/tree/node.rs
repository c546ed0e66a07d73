//! A node as it lies in the object store, and where.
//!
//! Keys: the part (u16, big-endian; 0 for now), the kind of entry, how many names the path has (u32, big-endian), and the path. So the
//! children of a node are one range, and what belongs to one part can be handed over as one. Data lie apart from numbers and rights, so
//! that a new child copies none of its parent's.

use crate::jute::{Malformed, Reader, Write as _};
use crate::records::{Acl, Stat};

/// Entries of nodes: numbers and rights.
pub(super) const NODE: u8 = b'n';
/// Their data, if they have any bytes.
pub(super) const DATA: u8 = b'd';
/// A session and the path of a node that is deleted with it.
pub(super) const EPHEMERAL: u8 = b'e';
/// A time and the path of a node that is deleted then if it has no children.
const DUE: u8 = b't';

/// What [`Stat::ephemeral_owner`] says of a container.
pub(super) const CONTAINER: i64 = i64::MIN;
/// The first byte of that number for a node with a time to live; the time is in the last five. Source: `EphemeralType` of ZooKeeper 3.9.
const TTL_MASK: i64 = 0xff00_0000_0000_0000_u64 as i64;
/// The longest time to live, in milliseconds.
pub(super) const TTL_MAX_MS: i64 = (1 << 40) - 1;

/// Who or what ends a node's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Only a client.
    Nobody,
    /// The end of this session.
    Session(i64),
    /// The deletion of its last child.
    Container,
    /// That it was not changed for so many milliseconds.
    Ttl(i64),
}

impl Owner {
    pub(crate) const fn number(self) -> i64 {
        match self {
            Self::Nobody => 0,
            Self::Session(session) => session,
            Self::Container => CONTAINER,
            Self::Ttl(ms) => TTL_MASK | ms,
        }
    }

    pub(crate) const fn of(number: i64) -> Self {
        match number {
            0 => Self::Nobody,
            CONTAINER => Self::Container,
            // Two bytes name the kind; 0 is a time to live. The ids of sessions do not begin with this byte.
            _ if number & TTL_MASK == TTL_MASK && number & (0xffff << 40) == 0 => {
                Self::Ttl(number & TTL_MAX_MS)
            }
            _ => Self::Session(number),
        }
    }
}

/// A node's numbers and rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// As clients see them, but for [`Stat::cversion`], which counts only the children that were made: their numbers come from it.
    pub(super) stat: Stat,
    /// Whether it has data; no data is not empty data.
    pub(super) has_data: bool,
    /// When it is deleted if it has no children then: the agreed time in nanoseconds; 0 for never. Only containers and nodes with a time to
    /// live have it.
    pub(super) due: u64,
    /// The list of rights as a record; empty if everybody may do everything.
    pub(super) acl: Vec<u8>,
}

impl Node {
    /// Whether it has a [`Self::due`].
    fn may_be_due(&self) -> bool {
        matches!(self.owner(), Owner::Container | Owner::Ttl(_))
    }

    /// The numbers that clients see: children that were made, and those that were deleted; and owners that are sessions. Source:
    /// `DataNode.copyStat`.
    pub(super) fn visible(&self) -> Stat {
        let Stat { cversion, num_children, .. } = self.stat;
        let cversion = cversion.wrapping_mul(2).wrapping_sub(num_children);
        let ephemeral_owner = match self.owner() {
            Owner::Session(session) => session,
            _ => 0,
        };
        Stat { cversion, ephemeral_owner, ..self.stat }
    }

    pub(super) fn owner(&self) -> Owner {
        Owner::of(self.stat.ephemeral_owner)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Stat::BYTES + 1 + self.acl.len());
        self.stat.write(&mut out);
        out.flag(self.has_data);
        if self.may_be_due() {
            out.long(self.due as i64);
        }
        out.extend_from_slice(&self.acl);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Reader::new(bytes);
        let (stat, has_data) = (Stat::read(&mut from)?, from.flag()?);
        let mut node = Self { stat, has_data, due: 0, acl: Vec::new() };
        if node.may_be_due() {
            node.due = from.long()? as u64;
        }
        node.acl.extend_from_slice(from.rest());
        Ok(node)
    }

    pub(super) fn set_acl(&mut self, list: &[Acl<'_>]) {
        self.acl.clear();
        if list != [Acl::OPEN] {
            self.acl.list(Some(list), |out, acl| acl.write(out));
        }
    }

    pub(super) fn acl(&self) -> Vec<Acl<'_>> {
        rights(&self.acl)
    }
}

/// The entries of a node of another tree: with these numbers, data, rights as a record, and due at this time.
pub(crate) fn taken_over(
    path: &str,
    stat: Stat,
    data: Option<&[u8]>,
    acl: &[u8],
    due_at: u64,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let node = Node { stat, has_data: data.is_some(), due: due_at, acl: acl.to_vec() };
    let mut entries = vec![(key(NODE, path), node.encode())];
    entries.extend(data.filter(|bytes| !bytes.is_empty()).map(|bytes| (key(DATA, path), bytes.to_vec())));
    if let Owner::Session(session) = node.owner() {
        entries.push((ephemeral(session, path), Vec::new()));
    }
    if due_at > 0 {
        entries.push((due(due_at, path), Vec::new()));
    }
    entries
}

/// The rights in a record. A list that was put into the state decodes.
pub(super) fn rights(acl: &[u8]) -> Vec<Acl<'_>> {
    if acl.is_empty() {
        return vec![Acl::OPEN];
    }
    Reader::new(acl).list(Acl::read).expect("INV-ZK-1: rights decode").unwrap_or_default()
}

/// How many names a path has. The root is `/`, or nothing at all.
fn depth(path: &str) -> u32 {
    if path.len() < 2 { 0 } else { path.bytes().filter(|byte| *byte == b'/').count() as u32 }
}

/// The beginning of all keys of this kind.
pub(super) fn kind(kind: u8) -> Vec<u8> {
    vec![0, 0, kind]
}

fn at(of: u8, depth: u32, path: &str) -> Vec<u8> {
    let mut key = kind(of);
    key.extend_from_slice(&depth.to_be_bytes());
    key.extend_from_slice(path.as_bytes());
    key
}

/// The key of a node's entry. The path need not be allowed: then nothing is there.
pub(super) fn key(of: u8, path: &str) -> Vec<u8> {
    let path = if path.is_empty() { "/" } else { path };
    at(of, depth(path), path)
}

/// The keys of all nodes so many levels below a node, its children for 1: from the first one to before the second one.
pub(super) fn below(path: &str, levels: u32) -> (Vec<u8>, Vec<u8>) {
    let above = if path.len() < 2 { "" } else { path };
    let depth = depth(path) + levels;
    (at(NODE, depth, &format!("{above}/")), at(NODE, depth, &format!("{above}0")))
}

/// The path in a key.
pub(super) fn path_in(key: &[u8]) -> &str {
    str::from_utf8(&key[7..]).expect("INV-ZK-1: keys hold paths")
}

/// The key that says that a node is deleted with its session.
pub(super) fn ephemeral(session: i64, path: &str) -> Vec<u8> {
    let mut key = kind(EPHEMERAL);
    key.extend_from_slice(&session.to_be_bytes());
    key.extend_from_slice(path.as_bytes());
    key
}

/// The keys of all such nodes of a session whose paths begin so.
pub(super) fn ephemerals(session: i64, prefix: &str) -> (Vec<u8>, Vec<u8>) {
    (ephemeral(session, prefix), ephemeral(session, "0"))
}

/// The path in such a key.
pub(super) fn ephemeral_path(key: &[u8]) -> &str {
    str::from_utf8(&key[11..]).expect("INV-ZK-1: keys hold paths")
}

/// The key that says that a node is due at this time.
pub(super) fn due(at: u64, path: &str) -> Vec<u8> {
    let mut key = kind(DUE);
    key.extend_from_slice(&at.to_be_bytes());
    key.extend_from_slice(path.as_bytes());
    key
}

/// The keys of all that are due at this time, or before it.
pub(super) fn due_until(at: u64) -> (Vec<u8>, Vec<u8>) {
    (kind(DUE), due(at.saturating_add(1), ""))
}

/// The time in such a key, and the path.
pub(super) fn due_in(key: &[u8]) -> (u64, &str) {
    let (at, path) = key[3..].split_first_chunk().expect("INV-ZK-1: keys hold times");
    (u64::from_be_bytes(*at), str::from_utf8(path).expect("INV-ZK-1: keys hold paths"))
}
