//! What clients may read of a node.

use super::node::{self, DATA, NODE, Node};
use super::rights::{self, Id};
use crate::error::ZkError;
use crate::records::{Acl, Stat};
use quorate_execute::StateView;
use quorate_types::AgreedTime;

/// An answer about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    /// What was asked for.
    pub value: T,
    /// The node's numbers.
    pub stat: Stat,
}

pub(super) fn node(view: &StateView<'_>, path: &str) -> Option<Node> {
    let bytes = view.get(&node::key(NODE, path))?;
    Some(Node::decode(&bytes).expect("INV-ZK-1: nodes decode"))
}

/// Reads do not say that a path is not allowed: nothing is there.
fn found<'p>(view: &StateView<'_>, path: &'p [u8]) -> Result<(&'p str, Node), ZkError> {
    let path = str::from_utf8(path).map_err(|_| ZkError::NoNode)?;
    let node = node(view, path).ok_or(ZkError::NoNode)?;
    Ok((path, node))
}

/// A node's numbers.
///
/// # Errors
/// When nothing is there, or the caller may not read it.
pub fn exists(view: &StateView<'_>, path: &[u8], ids: &[Id]) -> Result<Stat, ZkError> {
    if path.contains(&0) {
        return Err(ZkError::BadArguments);
    }
    let (_, node) = found(view, path)?;
    rights::check(&node.acl(), Acl::READ, ids)?;
    Ok(node.visible())
}

/// A node's data; `None` if it has none.
///
/// # Errors
/// As [`exists`].
pub fn data(view: &StateView<'_>, path: &[u8], ids: &[Id]) -> Result<Answer<Option<Vec<u8>>>, ZkError> {
    let (path, node) = found(view, path)?;
    rights::check(&node.acl(), Acl::READ, ids)?;
    Ok(Answer { value: node.has_data.then(|| bytes(view, path)), stat: node.visible() })
}

/// The bytes of a node's data.
pub(super) fn bytes(view: &StateView<'_>, path: &str) -> Vec<u8> {
    view.get(&node::key(DATA, path)).map(|bytes| bytes.into_owned()).unwrap_or_default()
}

/// The names of a node's children, in the order of their bytes.
///
/// # Errors
/// As [`data`].
pub fn children(view: &StateView<'_>, path: &[u8], ids: &[Id]) -> Result<Answer<Vec<String>>, ZkError> {
    let (path, node) = found(view, path)?;
    rights::check(&node.acl(), Acl::READ, ids)?;
    let (start, end) = node::below(path, 1);
    let names = view.range(&start, Some(&end)).map(|(key, _)| {
        let child = node::path_in(&key);
        child.rsplit('/').next().unwrap_or_default().to_owned()
    });
    Ok(Answer { value: names.collect(), stat: node.visible() })
}

/// When the next node is due.
pub fn next_due(view: &StateView<'_>) -> Option<AgreedTime> {
    let (start, end) = node::due_until(u64::MAX);
    view.range(&start, Some(&end)).next().map(|(key, _)| AgreedTime::from_nanos(node::due_in(&key).0))
}

/// The nodes that are due at this time, those first whose time came first.
pub fn due_until(view: &StateView<'_>, now: AgreedTime) -> Vec<String> {
    let (start, end) = node::due_until(now.nanos());
    view.range(&start, Some(&end)).map(|(key, _)| node::due_in(&key).1.to_owned()).collect()
}

/// What watches that are set again are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The transaction that changed the node's data last.
    pub mzxid: i64,
    /// The one that made or deleted a child last.
    pub pzxid: i64,
}

/// A node as watches see it, whoever asks; nothing if it does not exist.
pub fn seen(view: &StateView<'_>, path: &[u8]) -> Option<Seen> {
    let node = node(view, str::from_utf8(path).ok()?)?;
    Some(Seen { mzxid: node.stat.mzxid, pzxid: node.stat.pzxid })
}

/// Whether whoever has these identities may change the members.
///
/// # Errors
/// When not.
pub fn may_configure(view: &StateView<'_>, ids: &[Id]) -> Result<(), ZkError> {
    let node = node(view, super::CONFIG).ok_or(ZkError::NoNode)?;
    rights::check(&node.acl(), Acl::WRITE, ids)
}

/// What the tree says of the servers.
pub(crate) fn configuration(view: &StateView<'_>) -> Vec<u8> {
    bytes(view, super::CONFIG)
}

/// A right: bits, kind of identity, and identity.
pub type Right = (i32, Vec<u8>, Vec<u8>);

/// A node's rights. The digests of passwords are hidden from those who may not change them.
///
/// # Errors
/// As [`exists`], or when the caller may neither read the node nor change its rights.
pub fn rights(view: &StateView<'_>, path: &[u8], ids: &[Id]) -> Result<Answer<Vec<Right>>, ZkError> {
    let (_, node) = found(view, path)?;
    rights::check(&node.acl(), Acl::READ | Acl::ADMIN, ids)?;
    let whole = rights::check(&node.acl(), Acl::ADMIN, ids).is_ok();
    let shown = |acl: &Acl<'_>| {
        let name = acl.id.split(|byte| *byte == b':').next().unwrap_or_default();
        let hide = acl.scheme == b"digest" && !whole;
        let id = if hide { [name, b":x"].concat() } else { acl.id.to_vec() };
        (acl.perms, acl.scheme.to_vec(), id)
    };
    let value = node.acl().iter().map(shown).collect();
    Ok(Answer { value, stat: node.visible() })
}

/// How many nodes there are below a node, at all levels.
///
/// # Errors
/// As [`data`].
pub fn count_below(view: &StateView<'_>, path: &[u8], ids: &[Id]) -> Result<u64, ZkError> {
    let (path, node) = found(view, path)?;
    rights::check(&node.acl(), Acl::READ, ids)?;
    // ZooKeeper knows the root by two names, and counts the longer one as below the shorter one.
    let (mut all, mut levels) = (u64::from(path.is_empty()), 1);
    loop {
        let (start, end) = node::below(path, levels);
        let here = view.range(&start, Some(&end)).count() as u64;
        if here == 0 {
            return Ok(all);
        }
        (all, levels) = (all + here, levels + 1);
    }
}

/// How many nodes there are at this path and below it, and how many bytes of data.
pub(super) fn sum_of(view: &StateView<'_>, path: &str) -> (i64, i64) {
    let Some(top) = node(view, path) else { return (0, 0) };
    let (mut nodes, mut bytes) = (1, i64::from(top.stat.data_length));
    for levels in 1.. {
        let (start, end) = node::below(path, levels);
        let before = nodes;
        for (_, entry) in view.range(&start, Some(&end)) {
            let node = Node::decode(&entry).expect("INV-ZK-1: nodes decode");
            (nodes, bytes) = (nodes + 1, bytes + i64::from(node.stat.data_length));
        }
        if nodes == before {
            break;
        }
    }
    (nodes, bytes)
}

/// The paths of the nodes that end with this session, if they begin so, in the order of their bytes.
pub fn ephemerals(view: &StateView<'_>, session: i64, prefix: &[u8]) -> Vec<String> {
    let Ok(prefix) = str::from_utf8(prefix) else { return Vec::new() };
    let prefix = if ["", "/"].contains(&prefix.trim()) { "" } else { prefix };
    let (start, end) = node::ephemerals(session, prefix);
    let all = view.range(&start, Some(&end)).map(|(key, _)| node::ephemeral_path(&key).to_owned());
    all.take_while(|path| path.starts_with(prefix)).collect()
}
