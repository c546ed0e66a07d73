//! The requests of clients, behind their headers.
//!
//! Source: `zookeeper.jute`, `MultiOperationRecord` and `MultiResponse` of Apache ZooKeeper 3.9. Tests: tests/all/requests.rs.

use crate::jute::{Malformed, Reader, Write};
use crate::op::Op;
use crate::records::Acl;

/// A request. A path is what the client sent; [`crate::path`] says whether it is allowed. A path that is missing is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// [`Op::Create`], [`Op::Create2`], [`Op::CreateContainer`] or [`Op::CreateTtl`].
    Create(Create<'a>),
    /// [`Op::Delete`], for one version, or for any (-1).
    Delete {
        /// The node.
        path: &'a [u8],
        /// The version that it must have; -1 for any.
        version: i32,
    },
    /// [`Op::Check`].
    Check {
        /// The node.
        path: &'a [u8],
        /// The version that it must have; -1 for any.
        version: i32,
    },
    /// [`Op::SetData`].
    SetData {
        /// The node.
        path: &'a [u8],
        /// The new data.
        data: Option<&'a [u8]>,
        /// The version that it must have; -1 for any.
        version: i32,
    },
    /// [`Op::SetAcl`].
    SetAcl {
        /// The node.
        path: &'a [u8],
        /// Who may do what from now on.
        acl: Option<Vec<Acl<'a>>>,
        /// The version that it must have; -1 for any.
        version: i32,
    },
    /// [`Op::Exists`], [`Op::GetData`], [`Op::GetChildren`] or [`Op::GetChildren2`], and whether to watch.
    Read {
        /// Which of them.
        op: Op,
        /// The node.
        path: &'a [u8],
        /// Whether to watch it from now on.
        watch: bool,
    },
    /// [`Op::GetAcl`], [`Op::Sync`], [`Op::GetEphemerals`] (of nodes whose paths begin so), [`Op::GetAllChildrenNumber`] or
    /// [`Op::DeleteContainer`].
    About {
        /// Which of them.
        op: Op,
        /// The node.
        path: &'a [u8],
    },
    /// [`Op::Multi`] or [`Op::MultiRead`].
    Multi {
        /// Which of them.
        op: Op,
        /// The operations, in their order.
        list: Vec<Self>,
    },
    /// [`Op::Reconfig`].
    Reconfig(Reconfig<'a>),
    /// [`Op::CheckWatches`] or [`Op::RemoveWatches`], with the number of a kind of watch; [`Op::AddWatch`], with that of a mode.
    Watch {
        /// Which of them.
        op: Op,
        /// The node.
        path: &'a [u8],
        /// The number.
        kind: i32,
    },
    /// [`Op::SetWatches`] or [`Op::SetWatches2`].
    SetWatches(SetWatches<'a>),
    /// [`Op::Auth`].
    Auth {
        /// Always 0.
        kind: i32,
        /// The kind of identity.
        scheme: &'a [u8],
        /// What shows it.
        proof: &'a [u8],
    },
    /// [`Op::Sasl`].
    Sasl {
        /// The client's token.
        token: &'a [u8],
    },
    /// [`Op::Ping`], [`Op::WhoAmI`] or [`Op::CloseSession`].
    Plain(Op),
}

/// A node to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create<'a> {
    /// Which of the four operations.
    pub op: Op,
    /// Its path, without a number behind it.
    pub path: &'a [u8],
    /// Its data.
    pub data: Option<&'a [u8]>,
    /// Who may do what.
    pub acl: Option<Vec<Acl<'a>>>,
    /// The number of a [`Mode`].
    pub flags: i32,
    /// How long it lives without a change, in milliseconds. Only with [`Op::CreateTtl`]; otherwise 0.
    pub ttl_ms: i64,
}

/// What kind of node is made. Source: `CreateMode` of Apache ZooKeeper 3.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum Mode {
    /// It stays.
    Persistent = 0,
    /// It is deleted with the session that made it.
    Ephemeral = 1,
    /// It stays, and has a number behind its name.
    PersistentSequential = 2,
    /// It is deleted with the session, and has a number.
    EphemeralSequential = 3,
    /// It is deleted once it has lost its last child.
    Container = 4,
    /// It is deleted when it was not changed for long and has no children.
    PersistentTtl = 5,
    /// So is this one, which has a number.
    PersistentSequentialTtl = 6,
}

impl Mode {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Persistent,
        Self::Ephemeral,
        Self::PersistentSequential,
        Self::EphemeralSequential,
        Self::Container,
        Self::PersistentTtl,
        Self::PersistentSequentialTtl,
    ];

    /// The mode with this number.
    pub fn of(flags: i32) -> Option<Self> {
        usize::try_from(flags).ok().and_then(|at| Self::ALL.get(at).copied())
    }

    /// Whether a number comes behind the name.
    pub const fn is_sequential(self) -> bool {
        matches!(self, Self::PersistentSequential | Self::EphemeralSequential | Self::PersistentSequentialTtl)
    }

    /// Whether it is deleted with its session.
    pub const fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }

    /// Whether it has a time to live.
    pub const fn has_ttl(self) -> bool {
        matches!(self, Self::PersistentTtl | Self::PersistentSequentialTtl)
    }
}

/// A change of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconfig<'a> {
    /// Servers that join, with commas between them.
    pub joining: Option<&'a [u8]>,
    /// The numbers of those that leave.
    pub leaving: Option<&'a [u8]>,
    /// All servers, instead of those.
    pub members: Option<&'a [u8]>,
    /// The configuration that is changed; -1 for any.
    pub version: i64,
}

/// The paths that a client watches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetWatches<'a> {
    /// The last transaction that the client has seen.
    pub seen_zxid: i64,
    /// For data, for nodes that do not exist, and for children.
    pub once: [Vec<&'a [u8]>; 3],
    /// Persistent ones, and persistent ones for everything below. Only [`Op::SetWatches2`] has them.
    pub lasting: Option<[Vec<&'a [u8]>; 2]>,
}

impl<'a> Request<'a> {
    /// Reads the request of this operation.
    ///
    /// # Errors
    /// When it does not decode.
    pub fn read(op: Op, bytes: &'a [u8]) -> Result<Self, Malformed> {
        read(op, &mut Reader::new(bytes))
    }

    /// Its operation.
    pub const fn op(&self) -> Op {
        match self {
            Self::Create(create) => create.op,
            Self::Delete { .. } => Op::Delete,
            Self::Check { .. } => Op::Check,
            Self::SetData { .. } => Op::SetData,
            Self::SetAcl { .. } => Op::SetAcl,
            Self::Reconfig(_) => Op::Reconfig,
            Self::SetWatches(SetWatches { lasting: None, .. }) => Op::SetWatches,
            Self::SetWatches(_) => Op::SetWatches2,
            Self::Auth { .. } => Op::Auth,
            Self::Sasl { .. } => Op::Sasl,
            Self::Read { op, .. }
            | Self::About { op, .. }
            | Self::Multi { op, .. }
            | Self::Watch { op, .. }
            | Self::Plain(op) => *op,
        }
    }

    /// Appends it, without a header.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Create(create) => write_create(create, out),
            Self::Delete { path, version } | Self::Check { path, version } => {
                out.bytes(Some(path));
                out.int(*version);
            }
            Self::SetData { path, data, version } => {
                out.bytes(Some(path));
                out.bytes(*data);
                out.int(*version);
            }
            Self::SetAcl { path, acl, version } => {
                out.bytes(Some(path));
                out.list(acl.as_deref(), |out, acl| acl.write(out));
                out.int(*version);
            }
            Self::Read { path, watch, .. } => {
                out.bytes(Some(path));
                out.flag(*watch);
            }
            Self::About { path, .. } => out.bytes(Some(path)),
            Self::Multi { list, .. } => write_multi(list, out),
            Self::Reconfig(Reconfig { joining, leaving, members, version }) => {
                [joining, leaving, members].iter().for_each(|text| out.bytes(**text));
                out.long(*version);
            }
            Self::Watch { path, kind, .. } => {
                out.bytes(Some(path));
                out.int(*kind);
            }
            Self::SetWatches(watches) => {
                out.long(watches.seen_zxid);
                let lists = watches.once.iter().chain(watches.lasting.iter().flatten());
                lists.for_each(|list| out.list(Some(list), |out, path| out.bytes(Some(path))));
            }
            Self::Auth { kind, scheme, proof } => {
                out.int(*kind);
                [scheme, proof].iter().for_each(|bytes| out.bytes(Some(bytes)));
            }
            Self::Sasl { token } => out.bytes(Some(token)),
            Self::Plain(_) => {}
        }
    }
}

fn text<'a>(from: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    from.bytes().map(Option::unwrap_or_default)
}

fn read<'a>(op: Op, from: &mut Reader<'a>) -> Result<Request<'a>, Malformed> {
    Ok(match op {
        Op::Create | Op::Create2 | Op::CreateContainer | Op::CreateTtl => Request::Create(Create {
            op,
            path: text(from)?,
            data: from.bytes()?,
            acl: from.list(Acl::read)?,
            flags: from.int()?,
            ttl_ms: if op == Op::CreateTtl { from.long()? } else { 0 },
        }),
        Op::Delete => Request::Delete { path: text(from)?, version: from.int()? },
        Op::Check => Request::Check { path: text(from)?, version: from.int()? },
        Op::SetData => Request::SetData { path: text(from)?, data: from.bytes()?, version: from.int()? },
        Op::SetAcl => Request::SetAcl { path: text(from)?, acl: from.list(Acl::read)?, version: from.int()? },
        Op::Exists | Op::GetData | Op::GetChildren | Op::GetChildren2 => {
            Request::Read { op, path: text(from)?, watch: from.flag()? }
        }
        Op::GetAcl | Op::Sync | Op::GetEphemerals | Op::GetAllChildrenNumber | Op::DeleteContainer => {
            Request::About { op, path: text(from)? }
        }
        Op::Multi | Op::MultiRead => Request::Multi { op, list: read_multi(op, from)? },
        Op::Reconfig => Request::Reconfig(Reconfig {
            joining: from.bytes()?,
            leaving: from.bytes()?,
            members: from.bytes()?,
            version: from.long()?,
        }),
        Op::CheckWatches | Op::RemoveWatches | Op::AddWatch => {
            Request::Watch { op, path: text(from)?, kind: from.int()? }
        }
        Op::SetWatches | Op::SetWatches2 => {
            let seen_zxid = from.long()?;
            let mut paths = || from.list(text).map(Option::unwrap_or_default);
            let once = [paths()?, paths()?, paths()?];
            let lasting = if op == Op::SetWatches2 { Some([paths()?, paths()?]) } else { None };
            Request::SetWatches(SetWatches { seen_zxid, once, lasting })
        }
        Op::Auth => Request::Auth { kind: from.int()?, scheme: text(from)?, proof: text(from)? },
        Op::Sasl => Request::Sasl { token: text(from)? },
        Op::Ping | Op::WhoAmI | Op::CloseSession => Request::Plain(op),
    })
}

/// The operations of a multi, each behind a header of its own, up to the header that says it is the last.
fn read_multi<'a>(multi: Op, from: &mut Reader<'a>) -> Result<Vec<Request<'a>>, Malformed> {
    let mut list = Vec::new();
    loop {
        let (number, is_last, _) = (from.int()?, from.flag()?, from.int()?);
        if is_last {
            return Ok(list);
        }
        let fits = |op: &Op| if multi == Op::Multi { op.in_multi() } else { op.in_multi_read() };
        let op = Op::of(number).filter(fits).ok_or(Malformed)?;
        list.push(in_multi(read(op, from)?)?);
    }
}

/// In a multi, the mode of a node says how it is made, and not the operation: so ZooKeeper reads it (`MultiOperationRecord`, `Op.create`).
///
/// # Errors
/// When there is no such mode, or the node has a time to live that the operation has no room for.
fn in_multi(request: Request<'_>) -> Result<Request<'_>, Malformed> {
    let Request::Create(create) = request else { return Ok(request) };
    let op = match Mode::of(create.flags) {
        Some(mode) if mode.has_ttl() && create.op == Op::CreateTtl => Op::CreateTtl,
        Some(Mode::Container) => Op::CreateContainer,
        Some(mode) if !mode.has_ttl() && create.op != Op::CreateTtl => create.op,
        Some(mode) if !mode.has_ttl() => Op::Create,
        None if create.op == Op::CreateTtl => Op::Create,
        _ => return Err(Malformed),
    };
    let ttl_ms = if op == Op::CreateTtl { create.ttl_ms } else { 0 };
    Ok(Request::Create(Create { op, ttl_ms, ..create }))
}

fn write_create(create: &Create<'_>, out: &mut Vec<u8>) {
    out.bytes(Some(create.path));
    out.bytes(create.data);
    out.list(create.acl.as_deref(), |out, acl| acl.write(out));
    out.int(create.flags);
    if create.op == Op::CreateTtl {
        out.long(create.ttl_ms);
    }
}

fn write_multi(list: &[Request<'_>], out: &mut Vec<u8>) {
    for request in list {
        write_multi_header(request.op().code(), false, -1, out);
        request.write(out);
    }
    write_multi_header(-1, true, -1, out);
}

/// Appends the header of an operation in a multi, or of its result. A result that is an error has the number -1, and the error's number
/// follows once more.
pub fn write_multi_header(number: i32, is_last: bool, error: i32, out: &mut Vec<u8>) {
    out.int(number);
    out.flag(is_last);
    out.int(error);
}
