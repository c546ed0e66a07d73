//! The error codes of ZooKeeper, which clients know by their numbers.

use std::fmt;

/// An error code. Source: `KeeperException.Code` of Apache ZooKeeper 3.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum ZkError {
    /// Something is wrong with the server.
    System = -1,
    /// An operation of a multi was not tried, since one before it failed.
    RuntimeInconsistency = -2,
    /// The connection is lost.
    ConnectionLoss = -4,
    /// The request's record does not decode.
    Marshalling = -5,
    /// The operation is not known.
    Unimplemented = -6,
    /// The operation took too long.
    OperationTimeout = -7,
    /// An argument is not allowed: often a path.
    BadArguments = -8,
    /// There is no such session.
    UnknownSession = -12,
    /// No quorum of the new servers is connected.
    NewConfigNoQuorum = -13,
    /// Another change of the servers is under way.
    ReconfigInProgress = -14,
    /// The node does not exist; or the parent of a node that is created.
    NoNode = -101,
    /// The client may not do this.
    NoAuth = -102,
    /// The version is another one.
    BadVersion = -103,
    /// An ephemeral node has no children.
    NoChildrenForEphemerals = -108,
    /// The node exists.
    NodeExists = -110,
    /// The node has children.
    NotEmpty = -111,
    /// The session is over.
    SessionExpired = -112,
    /// The list of rights is not valid.
    InvalidAcl = -114,
    /// The client did not prove who it is.
    AuthFailed = -115,
    /// The session is at another server now.
    SessionMoved = -118,
    /// The server only answers reads now.
    NotReadOnly = -119,
    /// A session of this server alone can not own ephemeral nodes.
    EphemeralOnLocalSession = -120,
    /// There is no such watch.
    NoWatcher = -121,
    /// Changes of the servers are switched off.
    ReconfigDisabled = -123,
    /// The server wants clients to prove who they are by SASL.
    SessionClosedRequireSaslAuth = -124,
    /// A hard quota would be exceeded.
    QuotaExceeded = -125,
    /// The server has too much to do.
    Throttled = -127,
}

impl ZkError {
    /// All of them.
    pub const ALL: [Self; 27] = [
        Self::System,
        Self::RuntimeInconsistency,
        Self::ConnectionLoss,
        Self::Marshalling,
        Self::Unimplemented,
        Self::OperationTimeout,
        Self::BadArguments,
        Self::UnknownSession,
        Self::NewConfigNoQuorum,
        Self::ReconfigInProgress,
        Self::NoNode,
        Self::NoAuth,
        Self::BadVersion,
        Self::NoChildrenForEphemerals,
        Self::NodeExists,
        Self::NotEmpty,
        Self::SessionExpired,
        Self::InvalidAcl,
        Self::AuthFailed,
        Self::SessionMoved,
        Self::NotReadOnly,
        Self::EphemeralOnLocalSession,
        Self::NoWatcher,
        Self::ReconfigDisabled,
        Self::SessionClosedRequireSaslAuth,
        Self::QuotaExceeded,
        Self::Throttled,
    ];

    /// Its number.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// The error with this number.
    pub fn of(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|error| error.code() == code)
    }
}

impl fmt::Display for ZkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?} ({})", self.code())
    }
}

impl std::error::Error for ZkError {}
