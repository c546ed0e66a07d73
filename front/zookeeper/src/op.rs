//! The operations that clients ask for, by their numbers.

/// An operation. Source: `ZooDefs.OpCode` of Apache ZooKeeper 3.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum Op {
    /// Makes a node; answered with its path.
    Create = 1,
    /// Deletes a node.
    Delete = 2,
    /// Asks for a node's numbers, also to watch for one that does not exist.
    Exists = 3,
    /// Asks for a node's data.
    GetData = 4,
    /// Replaces a node's data.
    SetData = 5,
    /// Asks for a node's rights.
    GetAcl = 6,
    /// Replaces a node's rights.
    SetAcl = 7,
    /// Asks for the names of a node's children.
    GetChildren = 8,
    /// Waits until the server has everything that was written before.
    Sync = 9,
    /// Says that the client lives.
    Ping = 11,
    /// As [`Op::GetChildren`], and for the node's numbers.
    GetChildren2 = 12,
    /// Checks a node's version; only in a multi.
    Check = 13,
    /// Several writes, all or none of them.
    Multi = 14,
    /// As [`Op::Create`]; answered with the node's numbers, too.
    Create2 = 15,
    /// Changes the servers.
    Reconfig = 16,
    /// Asks whether there is a watch.
    CheckWatches = 17,
    /// Takes a watch back.
    RemoveWatches = 18,
    /// Makes a node that is deleted once it has lost its last child.
    CreateContainer = 19,
    /// Deletes such a node; servers ask for it, not clients.
    DeleteContainer = 20,
    /// Makes a node that is deleted when it was not changed for long.
    CreateTtl = 21,
    /// Several reads, each with its own result.
    MultiRead = 22,
    /// Says who the client is.
    Auth = 100,
    /// Sets watches again after a client has connected again.
    SetWatches = 101,
    /// A step of SASL.
    Sasl = 102,
    /// Asks for the session's ephemeral nodes.
    GetEphemerals = 103,
    /// Asks how many nodes there are below one.
    GetAllChildrenNumber = 104,
    /// As [`Op::SetWatches`], with persistent watches.
    SetWatches2 = 105,
    /// Sets a persistent watch.
    AddWatch = 106,
    /// Asks who the server takes the client for.
    WhoAmI = 107,
    /// Ends the session.
    CloseSession = -11,
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 30] = [
        Self::Create,
        Self::Delete,
        Self::Exists,
        Self::GetData,
        Self::SetData,
        Self::GetAcl,
        Self::SetAcl,
        Self::GetChildren,
        Self::Sync,
        Self::Ping,
        Self::GetChildren2,
        Self::Check,
        Self::Multi,
        Self::Create2,
        Self::Reconfig,
        Self::CheckWatches,
        Self::RemoveWatches,
        Self::CreateContainer,
        Self::DeleteContainer,
        Self::CreateTtl,
        Self::MultiRead,
        Self::Auth,
        Self::SetWatches,
        Self::Sasl,
        Self::GetEphemerals,
        Self::GetAllChildrenNumber,
        Self::SetWatches2,
        Self::AddWatch,
        Self::WhoAmI,
        Self::CloseSession,
    ];

    /// Its number.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// The operation with this number.
    pub const fn of(code: i32) -> Option<Self> {
        let mut at = 0;
        while at < Self::ALL.len() {
            if Self::ALL[at] as i32 == code {
                return Some(Self::ALL[at]);
            }
            at += 1;
        }
        None
    }

    /// Whether it changes the tree, sessions, or the servers.
    pub const fn writes(self) -> bool {
        matches!(
            self,
            Self::Create
                | Self::Create2
                | Self::CreateContainer
                | Self::CreateTtl
                | Self::Delete
                | Self::DeleteContainer
                | Self::SetData
                | Self::SetAcl
                | Self::Multi
                | Self::Reconfig
                | Self::CloseSession
        )
    }

    /// Whether it reads the tree.
    pub const fn reads(self) -> bool {
        matches!(
            self,
            Self::Exists
                | Self::GetData
                | Self::GetAcl
                | Self::GetChildren
                | Self::GetChildren2
                | Self::MultiRead
                | Self::GetEphemerals
                | Self::GetAllChildrenNumber
        )
    }

    /// Whether it may stand in a [`Op::Multi`].
    pub const fn in_multi(self) -> bool {
        matches!(
            self,
            Self::Create
                | Self::Create2
                | Self::CreateContainer
                | Self::CreateTtl
                | Self::Delete
                | Self::SetData
                | Self::Check
        )
    }

    /// Whether it may stand in a [`Op::MultiRead`].
    pub const fn in_multi_read(self) -> bool {
        matches!(self, Self::GetData | Self::GetChildren)
    }
}
