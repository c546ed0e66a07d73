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
use crate::tree::{CONFIG, FIXED, Owner};
use std::collections::BTreeMap;

/// A node. Of its numbers, those that follow from data and children are not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptNode {
    pub(super) data: Option<Vec<u8>>,
    /// The list of rights as a record; empty if everybody may do everything.
    pub(super) acl: Vec<u8>,
    pub(super) stat: Stat,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// By their paths; the root's is empty.
    pub(super) nodes: BTreeMap<String, KeptNode>,
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
            // Older servers do not write which nodes end.
            let named = if from.rest().is_empty() { Vec::new() } else { paths(&mut from)? };
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
                let acl = read_rights(&mut from)?;
                let is_ephemeral = matches!(op, Op::Create | Op::Create2) && from.flag()?;
                let cversion = from.int()?;
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
                    node.data = data;
                    (node.stat.version, node.stat.mzxid, node.stat.mtime) =
                        (version, when.zxid, when.time_ms);
                }
            }
            Some(Op::SetAcl) => {
                let path = text(&mut from)?;
                let (acl, version) = (read_rights(&mut from)?, from.int()?);
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
            None => drop(self.nodes.insert(path.to_owned(), node)),
        }
    }

    fn delete(&mut self, path: &str, zxid: i64) {
        if let Some(parent) = parent_of(path).and_then(|above| self.nodes.get_mut(above)) {
            parent.stat.pzxid = parent.stat.pzxid.max(zxid);
        }
        if !path.is_empty() {
            self.nodes.remove(path);
        }
    }

    /// Ends a session, with its nodes.
    fn end_session(&mut self, session: i64, named: Vec<String>, zxid: i64) {
        self.sessions.remove(&session);
        let owned = self.nodes.iter().filter(|(_, node)| node.stat.ephemeral_owner == session);
        let owned: Vec<String> = owned.map(|(path, _)| path.clone()).collect();
        for path in named.into_iter().chain(owned) {
            if self.nodes.contains_key(&path) {
                self.delete(&path, zxid);
            }
        }
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
        let owners = self.nodes.values().map(|node| node.stat.ephemeral_owner);
        let mut gone: Vec<i64> = owners
            .filter(
                |owner| matches!(Owner::of(*owner), Owner::Session(id) if !self.sessions.contains_key(&id)),
            )
            .collect();
        gone.sort_unstable();
        gone.dedup();
        gone.into_iter().for_each(|session| self.end_session(session, Vec::new(), self.zxid));
        let orphan = self.nodes.keys().find(|path| {
            parent_of(path).is_some_and(|above| !self.nodes.contains_key(above))
                || !path.is_empty() && !path.starts_with('/')
        });
        orphan.map_or(Ok(()), |path| Err(ImportError::NoParent(path.clone())))
    }
}

/// A node that every tree has, as in a new one.
fn fixed(path: &str) -> KeptNode {
    let (mut acl, mut stat) = (Vec::new(), Stat::default());
    if path == CONFIG {
        stat.aversion = -1;
        acl.list(Some(&[Acl { perms: Acl::READ, ..Acl::OPEN }]), |out, acl| acl.write(out));
    }
    KeptNode { data: Some(Vec::new()), acl, stat }
}

fn paths(from: &mut Reader<'_>) -> Result<Vec<String>, Malformed> {
    Ok(from.list(|from| text(from).map(str::to_owned))?.unwrap_or_default())
}
