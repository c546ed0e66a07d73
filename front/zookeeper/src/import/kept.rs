//! The tree and the sessions of a ZooKeeper, while its log is replayed.
//!
//! A fuzzy snapshot may have what a transaction did, also if it does not have what came before. So a transaction that finds its work done, or
//! nothing to do it on, is no error. Source: `DataTree.createNode`, `deleteNode`, `setData`, `setACL`, `killSession` and `processTxn`.

use super::ImportError;
use super::log::Entry;
use super::snapshot::{read_rights, text};
use crate::jute::Write as _;
use crate::jute::{Malformed, Reader};
use crate::op::Op;
use crate::records::Acl;
use crate::records::Stat;
use crate::tree::quota::{Numbers, counts_of, limited, stats_of};
use crate::tree::{CONFIG, FIXED, Owner};
use std::collections::{BTreeMap, BTreeSet};

/// A node. Of its numbers, those that follow from data and children are not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptNode {
    pub(super) data: Option<Vec<u8>>,
    /// The list of rights as a record, empty if everybody may do everything; none if the list is not known yet.
    pub(super) acl: Option<Vec<u8>>,
    pub(super) stat: Stat,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// By their paths; the root's is empty.
    pub(super) nodes: BTreeMap<String, KeptNode>,
    /// The nodes of each owner that is a session.
    pub(super) owned: BTreeMap<i64, BTreeSet<String>>,
    /// Paths that have limits.
    pub(super) limits: BTreeSet<String>,
    /// Time-outs in milliseconds.
    pub(super) sessions: BTreeMap<i64, i32>,
    /// The last transaction.
    pub(super) zxid: i64,
}

const CREATE_SESSION: i32 = -10;
const ERROR: i32 = -1;

/// Where and when something happens.
#[derive(Clone, Copy)]
struct When {
    zxid: i64,
    time_ms: i64,
}

fn length(data: Option<&Vec<u8>>) -> i64 {
    data.map_or(0, Vec::len) as i64
}

fn parent_of(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(above, _)| above)
}

/// The root has two names in a log.
fn named(path: &str) -> &str {
    if path == "/" { "" } else { path }
}

impl Kept {
    /// Replays a transaction.
    pub(super) fn apply(&mut self, entry: &Entry<'_>) -> Result<(), Malformed> {
        let mut from = Reader::new(entry.record);
        if entry.kind == CREATE_SESSION {
            self.sessions.insert(entry.session, from.int()?);
            return Ok(());
        }
        if entry.kind == Op::CloseSession.code() {
            // Older servers do not write which nodes end. What may stand there instead is no list.
            let named = paths(&mut from).unwrap_or_default();
            self.end_session(entry.session, named, entry.zxid);
            return Ok(());
        }
        if entry.kind != Op::Multi.code() {
            return self.change(entry, entry.kind, entry.record);
        }
        let list =
            from.list(|from| Ok((from.int()?, from.bytes()?.unwrap_or_default())))?.unwrap_or_default();
        // If one failed, none was done.
        if list.iter().any(|(kind, _)| *kind == ERROR) {
            return Ok(());
        }
        list.iter().try_for_each(|(kind, record)| self.change(entry, *kind, record))
    }

    fn change(&mut self, entry: &Entry<'_>, kind: i32, record: &[u8]) -> Result<(), Malformed> {
        let mut from = Reader::new(record);
        let when = When { zxid: entry.zxid, time_ms: entry.time_ms };
        match Op::of(kind) {
            Some(op @ (Op::Create | Op::Create2 | Op::CreateContainer | Op::CreateTtl)) => {
                let path = text(&mut from)?;
                let data = from.bytes()?.map(<[u8]>::to_vec);
                let acl = Some(read_rights(&mut from)?);
                let is_ephemeral = matches!(op, Op::Create | Op::Create2) && from.flag()?;
                // The oldest servers did not write it.
                let cversion = from.int().unwrap_or(-1);
                let owner = match op {
                    Op::CreateContainer => Owner::Container,
                    Op::CreateTtl => Owner::Ttl(from.long()?),
                    _ if is_ephemeral => Owner::Session(entry.session),
                    _ => Owner::Nobody,
                };
                let stat = Stat {
                    czxid: when.zxid,
                    mzxid: when.zxid,
                    pzxid: when.zxid,
                    ctime: when.time_ms,
                    mtime: when.time_ms,
                    ephemeral_owner: owner.number(),
                    ..Stat::default()
                };
                self.create(path, KeptNode { data, acl, stat }, cversion);
            }
            Some(Op::Delete | Op::DeleteContainer) => self.delete(text(&mut from)?, when.zxid),
            Some(Op::SetData | Op::Reconfig) => {
                let path = text(&mut from)?;
                let (data, version) = (from.bytes()?.map(<[u8]>::to_vec), from.int()?);
                if let Some(node) = self.nodes.get_mut(named(path)) {
                    let more = length(data.as_ref()) - length(node.data.as_ref());
                    node.data = data;
                    (node.stat.version, node.stat.mzxid, node.stat.mtime) =
                        (version, when.zxid, when.time_ms);
                    self.count(path, 0, more);
                }
            }
            Some(Op::SetAcl) => {
                let path = text(&mut from)?;
                let (acl, version) = (Some(read_rights(&mut from)?), from.int()?);
                if let Some(node) = self.nodes.get_mut(named(path)) {
                    (node.acl, node.stat.aversion) = (acl, version);
                }
            }
            Some(Op::Check) => {}
            None if kind == ERROR => {}
            _ => return Err(Malformed),
        }
        Ok(())
    }

    fn create(&mut self, path: &str, node: KeptNode, cversion: i32) {
        let Some(parent) = parent_of(path).and_then(|above| self.nodes.get_mut(above)) else { return };
        let zxid = node.stat.czxid;
        let cversion = if cversion == -1 { parent.stat.cversion.wrapping_add(1) } else { cversion };
        if cversion > parent.stat.cversion {
            parent.stat.cversion = cversion;
            parent.stat.pzxid = parent.stat.pzxid.max(zxid);
        }
        match self.nodes.get_mut(path) {
            Some(is) => is.acl = node.acl,
            None => {
                let bytes = length(node.data.as_ref());
                self.put(path, node);
                self.count_all(path);
                self.count(path, 1, bytes);
            }
        }
    }

    /// A new node of a quota says what is there.
    fn count_all(&mut self, path: &str) {
        let numbers = counts_of(path).map(|of| self.numbers_of(of));
        if let Some((numbers, node)) = numbers.zip(self.nodes.get_mut(path)) {
            node.data = Some(numbers);
        }
    }

    /// What a quota's node says of the nodes at a path and below it.
    pub(super) fn numbers_of(&self, of: &str) -> Vec<u8> {
        let (mut nodes, mut sum) = (0, 0);
        if let Some(top) = self.nodes.get(of) {
            (nodes, sum) = (1, length(top.data.as_ref()));
        }
        let (first, behind) = (format!("{of}/"), format!("{of}0"));
        for (_, node) in self.nodes.range(first..behind) {
            (nodes, sum) = (nodes + 1, sum + length(node.data.as_ref()));
        }
        Numbers::of(nodes, sum).text().into_bytes()
    }

    /// So much came at this path: the longest one with limits counts it.
    fn count(&mut self, path: &str, nodes: i64, bytes: i64) {
        let of = std::iter::successors(Some(path), |of| parent_of(of)).find(|of| self.limits.contains(*of));
        let Some(node) = of.and_then(|of| self.nodes.get_mut(&stats_of(of))) else { return };
        let mut numbers = Numbers::read(node.data.as_deref().unwrap_or_default());
        numbers.add(nodes, bytes);
        node.data = Some(numbers.text().into_bytes());
    }

    /// Adds a node.
    pub(super) fn put(&mut self, path: &str, node: KeptNode) {
        if let Owner::Session(session) = Owner::of(node.stat.ephemeral_owner) {
            self.owned.entry(session).or_default().insert(path.to_owned());
        }
        self.limits.extend(limited(path).map(str::to_owned));
        self.nodes.insert(path.to_owned(), node);
    }

    fn delete(&mut self, path: &str, zxid: i64) {
        if let Some(parent) = parent_of(path).and_then(|above| self.nodes.get_mut(above)) {
            parent.stat.pzxid = parent.stat.pzxid.max(zxid);
        }
        let Some(node) = (if path.is_empty() { None } else { self.nodes.remove(path) }) else { return };
        if let Some(owned) = self.owned.get_mut(&node.stat.ephemeral_owner) {
            owned.remove(path);
        }
        if let Some(of) = limited(path) {
            self.limits.remove(of);
        }
        self.count(path, -1, -length(node.data.as_ref()));
    }

    /// Ends a session, with its nodes. Those that are named may be gone already.
    fn end_session(&mut self, session: i64, named: Vec<String>, zxid: i64) {
        self.sessions.remove(&session);
        named.iter().for_each(|path| self.delete(path, zxid));
        let owned = self.owned.remove(&session).unwrap_or_default();
        owned.iter().for_each(|path| self.delete(path, zxid));
    }

    /// Everything was replayed.
    pub(super) fn finish(&mut self) -> Result<(), ImportError> {
        // Old servers have no node for their configuration.
        for path in FIXED {
            self.nodes.entry(named(path).to_owned()).or_insert_with(|| fixed(path));
        }
        // The old servers must not be where clients go on.
        if let Some(config) = self.nodes.get_mut(CONFIG) {
            config.data = Some(Vec::new());
        }
        let gone: Vec<i64> =
            self.owned.keys().filter(|session| !self.sessions.contains_key(session)).copied().collect();
        gone.into_iter().for_each(|session| self.end_session(session, Vec::new(), self.zxid));
        self.nodes.iter().try_for_each(|(path, node)| self.check(path, node))
    }

    /// Whether a node fits to the others.
    fn check(&self, path: &str, node: &KeptNode) -> Result<(), ImportError> {
        let unfit = |why| Err(ImportError::Unfit(path.to_owned(), why));
        if node.acl.is_none() {
            return unfit("has rights that are nowhere");
        }
        match parent_of(path) {
            None if path.is_empty() => Ok(()),
            Some(above) => match self.nodes.get(above).map(|parent| Owner::of(parent.stat.ephemeral_owner)) {
                None => unfit("has no parent"),
                Some(Owner::Session(_)) => unfit("is below one that ends with a session"),
                Some(_) => Ok(()),
            },
            None => unfit("has no parent"),
        }
    }

    /// What clients will miss: identities that they can not prove here.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for acl in self.nodes.values().filter_map(|node| node.acl.as_ref()) {
            let list = Reader::new(acl).list(Acl::read).ok().flatten().unwrap_or_default();
            let mut schemes: Vec<&[u8]> = list.iter().map(|acl| acl.scheme).collect();
            schemes.sort_unstable();
            schemes.dedup();
            for scheme in schemes.into_iter().filter(|scheme| !EASY.contains(scheme)) {
                *counts.entry(String::from_utf8_lossy(scheme).into_owned()).or_default() += 1;
            }
        }
        let note = |(scheme, count): (String, usize)| match scheme.as_str() {
            "x509" => format!(
                "{count} nodes have rights for x509: here that is the common name of a certificate of this cluster"
            ),
            "sasl" => format!(
                "{count} nodes have rights for sasl: here those are users of sasl_users, and none of Kerberos"
            ),
            other => format!(
                "{count} nodes have rights for {other}, which nobody can prove here: set them anew before"
            ),
        };
        counts.into_iter().map(note).collect()
    }
}

/// Identities that are here what they are there.
const EASY: [&[u8]; 3] = [b"world", b"ip", b"digest"];

/// A node that every tree has, as in a new one.
fn fixed(path: &str) -> KeptNode {
    let (mut acl, mut stat) = (Vec::new(), Stat::default());
    if path == CONFIG {
        stat.aversion = -1;
        acl.list(Some(&[Acl { perms: Acl::READ, ..Acl::OPEN }]), |out, acl| acl.write(out));
    }
    KeptNode { data: Some(Vec::new()), acl: Some(acl), stat }
}

fn paths(from: &mut Reader<'_>) -> Result<Vec<String>, Malformed> {
    Ok(from.list(|from| text(from).map(str::to_owned))?.unwrap_or_default())
}
