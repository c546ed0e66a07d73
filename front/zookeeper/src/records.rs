//! Records that are no requests: what begins a connection, headers, a node's numbers and rights, and events.
//!
//! Source: `zookeeper.jute` of Apache ZooKeeper 3.9. Tests: tests/all/records.rs.

use crate::jute::{Malformed, Reader, Write};

/// The first frame of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectRequest<'a> {
    /// Always 0.
    pub protocol: i32,
    /// The highest transaction that the client has seen.
    pub last_zxid: i64,
    /// How long it wants its session to live without a word from it, in milliseconds.
    pub timeout_ms: i32,
    /// Its session; 0 for a new one.
    pub session: i64,
    /// The session's password.
    pub password: &'a [u8],
    /// Whether a server that only answers reads will do. Clients before 3.4 do not say, and are not told.
    pub read_only: Option<bool>,
}

impl<'a> ConnectRequest<'a> {
    /// Reads it.
    ///
    /// # Errors
    /// When it does not decode.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut from = Reader::new(bytes);
        Ok(Self {
            protocol: from.int()?,
            last_zxid: from.long()?,
            timeout_ms: from.int()?,
            session: from.long()?,
            password: from.bytes()?.unwrap_or_default(),
            read_only: if from.rest().is_empty() { None } else { Some(from.flag()?) },
        })
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.int(self.protocol);
        out.long(self.last_zxid);
        out.int(self.timeout_ms);
        out.long(self.session);
        out.bytes(Some(self.password));
        self.read_only.iter().for_each(|flag| out.flag(*flag));
    }
}

/// The answer to it. A session of 0, for a time of 0, says that the session is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectResponse<'a> {
    /// Always 0.
    pub protocol: i32,
    /// How long the session lives without a word from its client, in milliseconds.
    pub timeout_ms: i32,
    /// The session.
    pub session: i64,
    /// Its password.
    pub password: &'a [u8],
    /// Whether this server only answers reads; not said to clients that did not ask.
    pub read_only: Option<bool>,
}

impl<'a> ConnectResponse<'a> {
    /// Reads it.
    ///
    /// # Errors
    /// When it does not decode.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut from = Reader::new(bytes);
        Ok(Self {
            protocol: from.int()?,
            timeout_ms: from.int()?,
            session: from.long()?,
            password: from.bytes()?.unwrap_or_default(),
            read_only: if from.rest().is_empty() { None } else { Some(from.flag()?) },
        })
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.int(self.protocol);
        out.int(self.timeout_ms);
        out.long(self.session);
        out.bytes(Some(self.password));
        self.read_only.iter().for_each(|flag| out.flag(*flag));
    }
}

/// The beginning of every later frame of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// The client's number for it. Some have a meaning: [`RequestHeader::PING`] and others.
    pub xid: i32,
    /// The operation.
    pub op: i32,
}

impl RequestHeader {
    /// The number of events.
    pub const EVENT: i32 = -1;
    /// The number of pings.
    pub const PING: i32 = -2;
    /// The number of [`crate::op::Op::Auth`].
    pub const AUTH: i32 = -4;
    /// The number of [`crate::op::Op::SetWatches`] and [`crate::op::Op::SetWatches2`].
    pub const SET_WATCHES: i32 = -8;

    /// Reads it.
    ///
    /// # Errors
    /// When it does not decode.
    pub fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { xid: from.int()?, op: from.int()? })
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.int(self.xid);
        out.int(self.op);
    }
}

/// The beginning of every later frame of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader {
    /// The client's number for the request.
    pub xid: i32,
    /// The last transaction that the answer knows.
    pub zxid: i64,
    /// 0, or the number of an error. Then no record follows.
    pub error: i32,
}

impl ReplyHeader {
    /// Reads it.
    ///
    /// # Errors
    /// When it does not decode.
    pub fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { xid: from.int()?, zxid: from.long()?, error: from.int()? })
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.int(self.xid);
        out.long(self.zxid);
        out.int(self.error);
    }
}

/// The numbers of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The transaction that made it.
    pub czxid: i64,
    /// The one that changed its data last.
    pub mzxid: i64,
    /// When it was made, in milliseconds since 1970.
    pub ctime: i64,
    /// When its data was changed last.
    pub mtime: i64,
    /// How often its data was changed.
    pub version: i32,
    /// How often a child was made or deleted.
    pub cversion: i32,
    /// How often its rights were changed.
    pub aversion: i32,
    /// The session with which it is deleted, or 0.
    pub ephemeral_owner: i64,
    /// The bytes of its data.
    pub data_length: i32,
    /// How many children it has.
    pub num_children: i32,
    /// The last transaction that made or deleted a child.
    pub pzxid: i64,
}

impl Stat {
    /// The bytes of its record.
    pub const BYTES: usize = 68;

    /// Reads it.
    ///
    /// # Errors
    /// When it does not decode.
    pub fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            czxid: from.long()?,
            mzxid: from.long()?,
            ctime: from.long()?,
            mtime: from.long()?,
            version: from.int()?,
            cversion: from.int()?,
            aversion: from.int()?,
            ephemeral_owner: from.long()?,
            data_length: from.int()?,
            num_children: from.int()?,
            pzxid: from.long()?,
        })
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        [self.czxid, self.mzxid, self.ctime, self.mtime].iter().for_each(|number| out.long(*number));
        [self.version, self.cversion, self.aversion].iter().for_each(|number| out.int(*number));
        out.long(self.ephemeral_owner);
        [self.data_length, self.num_children].iter().for_each(|number| out.int(*number));
        out.long(self.pzxid);
    }
}

/// What whoever has this identity may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acl<'a> {
    /// Bits: [`Acl::READ`] and others.
    pub perms: i32,
    /// The kind of identity. Its bytes may be no UTF-8.
    pub scheme: &'a [u8],
    /// The identity.
    pub id: &'a [u8],
}

impl<'a> Acl<'a> {
    /// May read the node, and the names of its children.
    pub const READ: i32 = 1;
    /// May replace the data.
    pub const WRITE: i32 = 2;
    /// May make children.
    pub const CREATE: i32 = 4;
    /// May delete children.
    pub const DELETE: i32 = 8;
    /// May replace the rights.
    pub const ADMIN: i32 = 16;
    /// All of these.
    pub const ALL: i32 = 31;
    /// Everybody may do everything.
    pub const OPEN: Acl<'static> = Acl { perms: Acl::ALL, scheme: b"world", id: b"anyone" };

    /// Reads it.
    ///
    /// # Errors
    /// When it does not decode.
    pub fn read(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            perms: from.int()?,
            scheme: from.bytes()?.unwrap_or_default(),
            id: from.bytes()?.unwrap_or_default(),
        })
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.int(self.perms);
        out.bytes(Some(self.scheme));
        out.bytes(Some(self.id));
    }
}

/// What happened to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum EventKind {
    /// It was made.
    Created = 1,
    /// It was deleted.
    Deleted = 2,
    /// Its data was changed.
    DataChanged = 3,
    /// A child was made or deleted.
    ChildrenChanged = 4,
}

/// The state that events name while a client is connected.
pub const CONNECTED: i32 = 3;

/// An event of a watch, behind a [`ReplyHeader`] with the number [`RequestHeader::EVENT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatcherEvent<'a> {
    /// An [`EventKind`], by its number.
    pub kind: i32,
    /// [`CONNECTED`].
    pub state: i32,
    /// The node.
    pub path: &'a [u8],
}

impl<'a> WatcherEvent<'a> {
    /// Reads it.
    ///
    /// # Errors
    /// When it does not decode.
    pub fn read(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self { kind: from.int()?, state: from.int()?, path: from.bytes()?.unwrap_or_default() })
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.int(self.kind);
        out.int(self.state);
        out.bytes(Some(self.path));
    }
}
