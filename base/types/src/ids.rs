//! Newtypes for every id and number, so that a slot can never be passed where a seq is meant.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty), $show:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name($inner);

        impl $name {
            /// The value with this number.
            pub const fn new(number: $inner) -> Self {
                Self(number)
            }
            /// The number itself, for codecs and arithmetic at the edges.
            pub const fn number(self) -> $inner {
                self.0
            }
        }

        /// With `{:#}` the number alone, for sentences that say what it is.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if f.alternate() { write!(f, "{}", self.0) } else { write!(f, $show, self.0) }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $show, self.0)
            }
        }
    };
}

macro_rules! counter {
    ($name:ident) => {
        impl $name {
            /// Before the first one; the first is [`Self::FIRST`].
            pub const ZERO: Self = Self(0);
            /// Numbering starts at 1, so that 0 can mean "none yet".
            pub const FIRST: Self = Self(1);

            /// The next one. Saturates, so that a peer that names the largest number can not cause an overflow.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
            /// The one before; zero stays zero.
            #[must_use]
            pub const fn previous(self) -> Self {
                Self(self.0.saturating_sub(1))
            }
            /// `count` further on, saturating.
            #[must_use]
            pub const fn plus(self, count: u64) -> Self {
                Self(self.0.saturating_add(count))
            }
            /// How many steps from `earlier` to here; 0 when `earlier` is not earlier.
            pub const fn since(self, earlier: Self) -> u64 {
                self.0.saturating_sub(earlier.0)
            }
        }
    };
}

number!(
    /// One replica of a cluster; chosen by the operator, stable over restarts and address changes.
    ReplicaId(u16), "r{}"
);
number!(
    /// One ordering group on the same replicas, from 1.
    InstanceId(u16), "i{}"
);
number!(
    /// The number of a leadership of an instance. It only grows; the first view is 1, 0 means "none yet".
    View(u64), "v{}"
);
number!(
    /// A position in the log of one instance, from 1.
    Slot(u64), "s{}"
);
number!(
    /// A position in the one global log, from 1.
    Seq(u64), "q{}"
);
number!(
    /// A number that orders the requests of one session, from 1.
    RequestNumber(u64), "#{}"
);
number!(
    /// One record of a replica's log on disk, in the order of writing, from 1.
    RecordId(u64), "rec{}"
);
number!(
    /// A connection, as the host numbers it. A number is never used twice while a process lives.
    ConnId(u64), "conn{}"
);
number!(
    /// A client: it owns sessions, and limits on sessions hold for each client.
    ClientId(u64), "c{}"
);

impl ClientId {
    /// The upper bits of ids that no client has.
    const RESERVED: u64 = 0xffff << 48;

    /// An id that no client has, for what owns sessions here and is no client: of this kind, a number below 65536, and with this number.
    pub const fn reserved(kind: u32, number: u32) -> Self {
        Self(Self::RESERVED | (kind as u64 & 0xffff) << 32 | number as u64)
    }
    /// The id of a client whose number is chosen at random, or follows from a name. A number that no client has becomes another one: that
    /// is one of 65536.
    pub const fn drawn(number: u64) -> Self {
        let id = Self(number);
        if id.is_reserved() { Self(number & !(1 << 63)) } else { id }
    }
    /// Whether no client may have this id.
    pub const fn is_reserved(self) -> bool {
        self.0 & Self::RESERVED == Self::RESERVED
    }
}
number!(
    /// The number of a membership, from 1; it grows by one with each change.
    MembershipId(u64), "m{}"
);
counter!(MembershipId);
counter!(View);
counter!(Slot);
counter!(Seq);
counter!(RequestNumber);
counter!(RecordId);
counter!(ConnId);

/// Names a cluster for good; drawn at random by `init`, compared in every handshake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ClusterId(u128);

impl ClusterId {
    /// The id with these bits.
    pub const fn new(bits: u128) -> Self {
        Self(bits)
    }
    /// The id's bits.
    pub const fn bits(self) -> u128 {
        self.0
    }
    /// Reads the 32 hexadecimal digits that [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 32).then(|| u128::from_str_radix(text, 16).ok().map(Self)).flatten()
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// One life of a replica's data directory, drawn at random when the directory is created. A replica that lost its disk is a new replica; by
/// this number the others notice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Incarnation(u64);

impl Incarnation {
    /// The incarnation with these bits.
    pub const fn new(bits: u64) -> Self {
        Self(bits)
    }
    /// Its bits.
    pub const fn bits(self) -> u64 {
        self.0
    }
    /// Reads the 16 hexadecimal digits that [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok().map(Self)).flatten()
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A client's session, opened through the log. The index is its cell in the session table, so that finding a
/// session costs one bounds check; the generation tells a reused cell from its former owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SessionId {
    /// Which cell of the session table.
    pub index: u32,
    /// How often that cell was given out, from 1; 0 names no session.
    pub generation: u32,
}

impl SessionId {
    /// No session: the session of requests that open one.
    pub const NONE: Self = Self { index: 0, generation: 0 };

    /// Index and generation in one number, as they are sent.
    pub const fn number(self) -> u64 {
        ((self.generation as u64) << 32) | self.index as u64
    }
    /// The id that [`Self::number`] gave.
    pub const fn from_number(number: u64) -> Self {
        Self { index: number as u32, generation: (number >> 32) as u32 }
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {}.{}", self.index, self.generation)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}
