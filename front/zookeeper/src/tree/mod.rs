//! The tree of nodes in the object store: what each operation reads, checks and changes, in the order in which ZooKeeper does.
//!
//! Which of several reasons a client is told follows from the order of the checks. So each operation lists them as
//! `PrepRequestProcessor` of Apache ZooKeeper 3.9.4 has them. Versions wrap, and skip -1, which means any version. A failed operation
//! changes nothing.
//!
//! INV-ZK-1: every entry decodes. INV-ZK-2: a node's parent exists, counts it, and is not ephemeral. Tests: tests/all/tree.rs, and
//! tests/all/differential.rs beside a real server.

mod node;
pub(crate) mod quota;
mod read;
mod rights;

use crate::error::ZkError;
use crate::op::Op;
use crate::path::ZkPath;
use crate::records::{Acl, EventKind, Stat};
use crate::request::{Create, Mode, Request};
use bytes::Bytes;
pub use node::Owner;
pub(crate) use node::taken_over;
use node::{DATA, NODE, Node, TTL_MAX_MS};
use quorate_execute::StateView;
use quorate_types::{AgreedTime, Span, planted};
pub(crate) use read::configuration;
pub use read::{
    Answer, Right, Seen, children, count_below, data, due_until, ephemerals, exists, may_configure, next_due,
    rights, seen,
};
pub use rights::Id;
use std::collections::BTreeMap;

/// Nodes that every tree has, and that nobody deletes.
pub(crate) const FIXED: [&str; 4] = ["/", "/zookeeper", "/zookeeper/quota", CONFIG];
/// The one that names the servers.
pub(crate) const CONFIG: &str = "/zookeeper/config";

/// The longest path: its keys must fit into the store.
pub(crate) const PATH_BYTES_MAX: usize = 60 << 10;
/// The longest data, and the longest list of rights.
pub(crate) const BYTES_MAX: usize = 8 << 20;

/// The most operations of a multi: their results must fit into a reply.
const MULTI_MAX: usize = 5000;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its session.
    pub session: i64,
    /// The session's attachment, by which late writes are known. Reads have none.
    pub attached: i32,
    /// Its identities.
    pub ids: Vec<Id>,
}

/// When a change happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The transaction.
    pub zxid: i64,
    /// The time of the server that the client uses, in milliseconds since 1970.
    pub time_ms: i64,
    /// The agreed time.
    pub agreed: AgreedTime,
}

/// What all replicas must have alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The unit of time of sessions.
    pub tick: Span,
    /// How long a container lives on after its last child.
    pub empty_for: Span,
    /// Whether hard quotas refuse writes.
    pub enforce_quotas: bool,
    /// Whether `/zookeeper/config` shows the members.
    pub show_members: bool,
}

impl Default for Rules {
    fn default() -> Self {
        let (tick, empty_for) = (Span::from_secs(3), Span::from_secs(60));
        Self { tick, empty_for, enforce_quotas: false, show_members: true }
    }
}

/// What happened to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The node.
    pub path: String,
    /// The transaction.
    pub zxid: i64,
    /// The node's rights, as a record; empty if everybody may do everything. Whoever may not read the node hears nothing.
    pub acl: Bytes,
}

impl Event {
    /// Whether whoever has these identities may hear of it.
    pub fn is_for(&self, ids: &[Id]) -> bool {
        self.acl.is_empty() || rights::check(&node::rights(&self.acl), Acl::READ, ids).is_ok()
    }
}

/// How much there is, or how much more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Nodes.
    pub nodes: i64,
    /// Those of them that end with a session.
    pub ephemerals: i64,
    /// The bytes in all paths and data.
    pub bytes: i64,
    /// Paths that have a quota.
    pub quotas: i64,
}

impl Count {
    pub(crate) const NOTHING: Self = Self { nodes: 0, ephemerals: 0, bytes: 0, quotas: 0 };
    /// That of a new tree. The root counts twice, as in ZooKeeper, which knows it by two names.
    pub(crate) const FOUNDED: Self = Self { nodes: 5, bytes: 44, ..Self::NOTHING };

    pub(crate) const fn plus(&self, more: &Self) -> Self {
        Self {
            nodes: self.nodes + more.nodes,
            ephemerals: self.ephemerals + more.ephemerals,
            bytes: self.bytes + more.bytes,
            quotas: self.quotas + more.quotas,
        }
    }
}

/// What a write gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// A node was made.
    Made {
        /// Its path, with its number.
        path: String,
        /// Its numbers.
        stat: Stat,
    },
    /// Data or rights were replaced.
    Set(Stat),
    /// A node was deleted, or its version is right.
    Nothing,
    /// The results of a multi. If one is an error, nothing was changed: the operations before it have no error, those behind it
    /// [`ZkError::RuntimeInconsistency`].
    Multi(Vec<Result<Done, Option<ZkError>>>),
}

/// The entries of the nodes that every tree has. They have no transaction and no time.
pub fn founding() -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let fixed = |num_children, aversion| Node {
        stat: Stat { num_children, aversion, ..Stat::default() },
        has_data: true,
        due: 0,
        acl: Vec::new(),
    };
    let mut config = fixed(0, -1);
    config.set_acl(&[Acl { perms: Acl::READ, ..Acl::OPEN }]);
    let nodes = [fixed(1, 0), fixed(2, 0), fixed(0, 0), config];
    FIXED.into_iter().zip(nodes).map(|(path, node)| (node::key(NODE, path), node.encode()))
}

/// A change of the tree.
pub struct Tree<'v, 's> {
    view: &'v mut StateView<'s>,
    /// What was there before, in a multi.
    undo: Option<BTreeMap<Vec<u8>, Option<Vec<u8>>>>,
    /// What happened so far.
    events: Vec<Event>,
    added: Count,
    /// How many quotas there were before.
    quotas: i64,
    /// Whether all nodes below one were counted.
    counted: bool,
    stamp: Stamp,
    rules: Rules,
}

impl<'v, 's> Tree<'v, 's> {
    /// A change at this moment of a tree in which there is so much.
    pub fn new(view: &'v mut StateView<'s>, stamp: Stamp, rules: Rules, count: &Count) -> Self {
        let (events, added, quotas) = (Vec::new(), Count::NOTHING, count.quotas);
        Self { view, undo: None, events, added, quotas, counted: false, stamp, rules }
    }

    /// What happened, in order, and what was added. Nothing, if it failed.
    pub fn finish(self) -> (Vec<Event>, Count) {
        (self.events, self.added)
    }

    /// Deletes a node that is due, if it has no children.
    pub fn end_due(&mut self, path: &str) {
        let Some(mut node) = self.node(path) else { return };
        if node.stat.num_children == 0 {
            self.remove_nodes(&[path]);
        } else {
            self.set_due(path, &mut node, 0);
            self.put_node(path, &node);
        }
    }

    /// Deletes the nodes of a session.
    pub fn end_session(&mut self, session: i64) {
        let paths = read::ephemerals(self.view, session, b"");
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        self.remove_nodes(&paths);
    }

    /// Replaces what the tree says of the servers.
    pub fn configure(&mut self, text: &[u8]) {
        let Some(node) = self.node(CONFIG) else { return };
        self.replace(CONFIG, node, Some(text));
    }

    /// Carries out a write.
    ///
    /// # Errors
    /// The reason that ZooKeeper gives.
    pub fn write(&mut self, caller: &Caller, request: &Request<'_>) -> Result<Done, ZkError> {
        match request {
            Request::Create(create) => self.create(caller, create),
            Request::Delete { path, version } => self.delete(caller, path, *version),
            Request::Check { path, version } => self.check(caller, path, *version),
            Request::SetData { path, data, version } => self.set_data(caller, path, *data, *version),
            Request::SetAcl { path, acl, version } => self.set_acl(caller, path, acl.as_deref(), *version),
            // Who may do it was looked at before.
            Request::Reconfig(_) => Ok(Done::Nothing),
            Request::Multi { op: Op::Multi, list } if list.len() > MULTI_MAX => Err(ZkError::BadArguments),
            Request::Multi { op: Op::Multi, list } => Ok(Done::Multi(self.multi(caller, list))),
            _ => Err(ZkError::Unimplemented),
        }
    }
}

/// The operations.
impl Tree<'_, '_> {
    fn create(&mut self, caller: &Caller, create: &Create<'_>) -> Result<Done, ZkError> {
        let mode = Mode::of(create.flags).ok_or(ZkError::BadArguments)?;
        let owner = owner(create, mode, caller)?;
        let asked = String::from_utf8_lossy(create.path);
        let (above, _) =
            asked.rsplit_once('/').filter(|_| !asked.contains('\0')).ok_or(ZkError::BadArguments)?;
        let acl = rights::repaired(create.acl.as_deref(), &caller.ids)?;
        let mut parent = self.node(above).ok_or(ZkError::NoNode)?;
        rights::check(&parent.acl(), Acl::CREATE, &caller.ids)?;
        let number = parent.stat.cversion;
        let path = if mode.is_sequential() { format!("{asked}{number:010}") } else { asked.to_string() };
        ZkPath::new(path.as_bytes()).map_err(|_| ZkError::BadArguments)?;
        if path.len() > PATH_BYTES_MAX || !fits(create.data, &acl) {
            return Err(ZkError::BadArguments);
        }
        if self.node(&path).is_some() {
            return Err(ZkError::NodeExists);
        }
        if matches!(parent.owner(), Owner::Session(_)) {
            return Err(ZkError::NoChildrenForEphemerals);
        }
        let bytes = create.data.map_or(0, |data| data.len() as i64);
        self.within_quota(&path, 1, bytes)?;
        self.may_be_counted(&path)?;
        let Stamp { zxid, time_ms, .. } = self.stamp;
        parent.stat.cversion = number.wrapping_add(1);
        parent.stat.num_children += 1;
        parent.stat.pzxid = zxid;
        if parent.owner() == Owner::Container {
            self.set_due(above, &mut parent, 0);
        }
        let mut node = Node {
            stat: Stat {
                czxid: zxid,
                mzxid: zxid,
                pzxid: zxid,
                ctime: time_ms,
                mtime: time_ms,
                ephemeral_owner: owner.number(),
                ..Stat::default()
            },
            has_data: false,
            due: 0,
            acl: Vec::new(),
        };
        node.set_acl(&acl);
        self.lives_on(&path, &mut node);
        self.put_data(&path, &mut node, create.data);
        self.put_node(above, &parent);
        self.put_node(&path, &node);
        if let Owner::Session(session) = owner {
            self.put(&node::ephemeral(session, &path), &[]);
        }
        self.count(&node, &path, 1);
        self.happened(EventKind::Created, &path, &node);
        self.happened(EventKind::ChildrenChanged, above, &parent);
        self.maybe_count_all(&path);
        self.count_in_quota(&path, 1, bytes);
        Ok(Done::Made { path, stat: node.visible() })
    }

    fn delete(&mut self, caller: &Caller, path: &[u8], version: i32) -> Result<Done, ZkError> {
        let path = &*String::from_utf8_lossy(path);
        if path.contains('\0') || FIXED.contains(&path) {
            return Err(ZkError::BadArguments);
        }
        let (above, _) = path.rsplit_once('/').ok_or(ZkError::BadArguments)?;
        let parent = self.node(above).ok_or(ZkError::NoNode)?;
        rights::check(&parent.acl(), Acl::DELETE, &caller.ids)?;
        let node = self.node(path).ok_or(ZkError::NoNode)?;
        expect(node.stat.version, version)?;
        if node.stat.num_children > 0 {
            return Err(ZkError::NotEmpty);
        }
        self.remove_nodes(&[path]);
        Ok(Done::Nothing)
    }

    fn check(&mut self, caller: &Caller, path: &[u8], version: i32) -> Result<Done, ZkError> {
        let path = ZkPath::new(path).map_err(|_| ZkError::BadArguments)?.text();
        let node = self.node(path).ok_or(ZkError::NoNode)?;
        rights::check(&node.acl(), Acl::READ, &caller.ids)?;
        expect(node.stat.version, version)?;
        Ok(Done::Nothing)
    }

    fn set_data(
        &mut self,
        caller: &Caller,
        path: &[u8],
        data: Option<&[u8]>,
        version: i32,
    ) -> Result<Done, ZkError> {
        let path = ZkPath::new(path).map_err(|_| ZkError::BadArguments)?.text();
        let node = self.node(path).ok_or(ZkError::NoNode)?;
        rights::check(&node.acl(), Acl::WRITE, &caller.ids)?;
        let more = data.map_or(0, |data| data.len() as i64) - i64::from(node.stat.data_length);
        self.within_quota(path, 0, more)?;
        expect(node.stat.version, version)?;
        if !fits(data, &[]) {
            return Err(ZkError::BadArguments);
        }
        let stat = self.replace(path, node, data);
        self.count_in_quota(path, 0, more);
        Ok(Done::Set(stat))
    }

    /// Replaces the data of a node, and says so.
    fn replace(&mut self, path: &str, mut node: Node, data: Option<&[u8]>) -> Stat {
        node.stat.version = next(node.stat.version);
        (node.stat.mzxid, node.stat.mtime) = (self.stamp.zxid, self.stamp.time_ms);
        self.put_data(path, &mut node, data);
        self.lives_on(path, &mut node);
        self.put_node(path, &node);
        self.happened(EventKind::DataChanged, path, &node);
        node.visible()
    }

    fn set_acl(
        &mut self,
        caller: &Caller,
        path: &[u8],
        acl: Option<&[Acl<'_>]>,
        version: i32,
    ) -> Result<Done, ZkError> {
        let path = ZkPath::new(path).map_err(|_| ZkError::BadArguments)?.text();
        let acl = rights::repaired(acl, &caller.ids)?;
        let mut node = self.node(path).ok_or(ZkError::NoNode)?;
        rights::check(&node.acl(), Acl::ADMIN, &caller.ids)?;
        expect(node.stat.aversion, version)?;
        if !fits(None, &acl) {
            return Err(ZkError::BadArguments);
        }
        node.stat.aversion = next(node.stat.aversion);
        node.set_acl(&acl);
        self.put_node(path, &node);
        Ok(Done::Set(node.visible()))
    }

    /// All operations, or none of them. Each sees what those before it did.
    fn multi(&mut self, caller: &Caller, list: &[Request<'_>]) -> Vec<Result<Done, Option<ZkError>>> {
        self.undo = Some(BTreeMap::new());
        let mut done = Vec::new();
        for request in list {
            match self.write(caller, request) {
                Ok(result) => done.push(Ok(result)),
                Err(error) => {
                    self.take_back();
                    let before = done.len();
                    let skipped = Err(Some(ZkError::RuntimeInconsistency));
                    done = vec![Err(None); before];
                    done.push(Err(Some(error)));
                    done.resize(list.len(), skipped);
                    break;
                }
            }
        }
        self.undo = None;
        done
    }

    fn take_back(&mut self) {
        for (key, before) in self.undo.take().into_iter().flatten() {
            match before {
                Some(value) => self.view.set(&key, &value),
                None => drop(self.view.remove(&key)),
            }
        }
        self.events.clear();
        self.added = Count::NOTHING;
    }
}

/// Entries.
impl Tree<'_, '_> {
    fn node(&self, path: &str) -> Option<Node> {
        read::node(self.view, path)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.keep(key);
        self.view.set(key, value);
    }

    fn remove(&mut self, key: &[u8]) {
        self.keep(key);
        self.view.remove(key);
    }

    fn keep(&mut self, key: &[u8]) {
        if let Some(undo) = &mut self.undo
            && !undo.contains_key(key)
        {
            undo.insert(key.to_vec(), self.view.get(key).map(|value| value.into_owned()));
        }
    }

    fn put_node(&mut self, path: &str, node: &Node) {
        self.put(&node::key(NODE, path), &node.encode());
    }

    /// Replaces a node's data. Only data with bytes have an entry.
    fn put_data(&mut self, path: &str, node: &mut Node, data: Option<&[u8]>) {
        let before = node.stat.data_length;
        self.added.bytes += data.map_or(0, |data| data.len() as i64) - i64::from(before);
        let bytes = data.unwrap_or_default();
        node.has_data = data.is_some();
        node.stat.data_length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
        if !bytes.is_empty() {
            self.put(&node::key(DATA, path), bytes);
        } else if before > 0 {
            self.remove(&node::key(DATA, path));
        }
    }

    /// A node's time to live begins, if it has one.
    fn lives_on(&mut self, path: &str, node: &mut Node) {
        if let Owner::Ttl(ms) = node.owner() {
            let due = self.stamp.agreed.plus(Span::from_millis(ms as u64)).nanos();
            self.set_due(path, node, due);
        }
    }

    /// Sets when a node is due; 0 for never. The node's entry is put by the caller.
    fn set_due(&mut self, path: &str, node: &mut Node, due: u64) {
        if node.due > 0 {
            self.remove(&node::due(node.due, path));
        }
        if due > 0 {
            self.put(&node::due(due, path), &[]);
        }
        node.due = due;
    }

    /// Counts a node that was made, or deleted. A new one's data were counted already.
    fn count(&mut self, node: &Node, path: &str, sign: i64) {
        self.added.nodes += sign;
        self.added.quotas += sign * i64::from(quota::is_limits(path));
        self.added.ephemerals += sign * i64::from(matches!(node.owner(), Owner::Session(_)));
        let data = if sign < 0 { i64::from(node.stat.data_length) } else { 0 };
        self.added.bytes += sign * (path.len() as i64 + data);
    }

    /// Removes nodes that exist and have no children. Those with one parent should stand together: it is written once for all of them.
    fn remove_nodes(&mut self, paths: &[&str]) {
        let mut rest = paths;
        while let Some(first) = rest.first() {
            let above = parent_of(first);
            let count = rest.iter().take_while(|path| parent_of(path) == above).count();
            let mut parent = self.node(above).expect("INV-ZK-2: a node's parent exists");
            let mut removed = Vec::new();
            for path in &rest[..count] {
                removed.extend(self.remove_node(path, above, &mut parent).map(|bytes| (path, bytes)));
            }
            self.put_node(above, &parent);
            // The parent may be what counts them.
            removed.into_iter().for_each(|(path, bytes)| self.count_in_quota(path, -1, -bytes));
            rest = &rest[count..];
        }
    }

    /// Removes a node, and says so in its parent. The parent's entry is put by the caller. Returns how many bytes of data it had.
    fn remove_node(&mut self, path: &str, above: &str, parent: &mut Node) -> Option<i64> {
        let node = self.node(path)?;
        self.remove(&node::key(NODE, path));
        if node.stat.data_length > 0 {
            self.remove(&node::key(DATA, path));
        }
        if let Owner::Session(session) = node.owner() {
            self.remove(&node::ephemeral(session, path));
        }
        if node.due > 0 {
            self.remove(&node::due(node.due, path));
        }
        self.count(&node, path, -1);
        parent.stat.num_children -= 1;
        if !planted("zk-pzxid-forgotten") {
            parent.stat.pzxid = self.stamp.zxid;
        }
        if parent.stat.num_children == 0 && parent.due == 0 && parent.owner() != Owner::Nobody {
            // An empty container, or a node whose time was over while it had children.
            let due = self.stamp.agreed.plus(self.rules.empty_for).nanos();
            self.set_due(above, parent, due);
        }
        self.happened(EventKind::Deleted, path, &node);
        self.happened(EventKind::ChildrenChanged, above, parent);
        Some(i64::from(node.stat.data_length))
    }

    fn happened(&mut self, kind: EventKind, path: &str, node: &Node) {
        let path = if path.is_empty() { "/" } else { path }.to_owned();
        // Many events in a row are often about one node.
        let last = self.events.iter().rev().take(2).find(|event| event.acl == node.acl);
        let acl = last.map_or_else(|| Bytes::copy_from_slice(&node.acl), |event| event.acl.clone());
        self.events.push(Event { kind, path, zxid: self.stamp.zxid, acl });
    }
}

/// The path of a node's parent; nothing for the root, which has this name, too.
fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').unwrap_or_default().0
}

/// Whose end is the end of a new node. The operation says it before the mode does.
fn owner(create: &Create<'_>, mode: Mode, caller: &Caller) -> Result<Owner, ZkError> {
    let ttl = create.op == Op::CreateTtl;
    if ttl != mode.has_ttl() || ttl && !(1..=TTL_MAX_MS).contains(&create.ttl_ms) {
        return Err(ZkError::BadArguments);
    }
    Ok(match create.op {
        Op::CreateContainer => Owner::Container,
        Op::CreateTtl => Owner::Ttl(create.ttl_ms),
        _ if mode.is_ephemeral() => Owner::Session(caller.session),
        _ => Owner::Nobody,
    })
}

/// Whether data and rights fit into the store. Servers refuse much shorter requests.
fn fits(data: Option<&[u8]>, acl: &[Acl<'_>]) -> bool {
    let rights: usize = acl.iter().map(|acl| 12 + acl.scheme.len() + acl.id.len()).sum();
    data.unwrap_or_default().len().max(rights) <= BYTES_MAX
}

/// Whether a version is the one that was asked for.
fn expect(version: i32, asked: i32) -> Result<(), ZkError> {
    if asked == -1 || asked == version { Ok(()) } else { Err(ZkError::BadVersion) }
}

/// The version after this one. -1 means any version, so no node has it.
const fn next(version: i32) -> i32 {
    match version.wrapping_add(1) {
        -1 => 0,
        version => version,
    }
}
