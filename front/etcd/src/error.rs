//! Why a request was refused, with the codes and texts that clients of etcd compare.

use std::fmt;

/// gRPC's numbers for the codes that are used here.
mod code {
    pub(super) const INVALID_ARGUMENT: u8 = 3;
    pub(super) const NOT_FOUND: u8 = 5;
    pub(super) const RESOURCE_EXHAUSTED: u8 = 8;
    pub(super) const FAILED_PRECONDITION: u8 = 9;
    pub(super) const OUT_OF_RANGE: u8 = 11;
    pub(super) const INTERNAL: u8 = 13;
}

/// Why nothing was done. The texts are etcd's: its client libraries turn them back into the errors that programs test for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EtcdError {
    /// The bytes are no request.
    Malformed = 1,
    /// A request without a key.
    EmptyKey,
    /// `ignore_value` with a value.
    ValueProvided,
    /// `ignore_lease` with a lease.
    LeaseProvided,
    /// `ignore_value` or `ignore_lease` of a key that is not there.
    KeyNotFound,
    /// Too many compares or operations in a transaction.
    TooManyOps,
    /// A transaction that changes a key twice.
    DuplicateKey,
    /// The revision is compacted.
    Compacted,
    /// The revision is still to come.
    FutureRevision,
    /// There is no such lease.
    LeaseNotFound,
    /// There is such a lease already.
    LeaseExists,
    /// A lease longer than the longest.
    LeaseTtlTooLarge,
    /// A request over the limit.
    RequestTooLarge,
    /// The response would be over the limit; nothing was done.
    ResponseTooLarge,
    /// A sort order that does not exist.
    InvalidSortOption,
    /// No room.
    NoSpace,
}

impl EtcdError {
    const ALL: [Self; 16] = [
        Self::Malformed,
        Self::EmptyKey,
        Self::ValueProvided,
        Self::LeaseProvided,
        Self::KeyNotFound,
        Self::TooManyOps,
        Self::DuplicateKey,
        Self::Compacted,
        Self::FutureRevision,
        Self::LeaseNotFound,
        Self::LeaseExists,
        Self::LeaseTtlTooLarge,
        Self::RequestTooLarge,
        Self::ResponseTooLarge,
        Self::InvalidSortOption,
        Self::NoSpace,
    ];

    /// The number in replies.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The error with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|error| error.number() == number)
    }

    /// gRPC's code for it.
    pub const fn code(self) -> u8 {
        match self {
            Self::Malformed => code::INTERNAL,
            Self::EmptyKey
            | Self::ValueProvided
            | Self::LeaseProvided
            | Self::KeyNotFound
            | Self::TooManyOps
            | Self::DuplicateKey
            | Self::RequestTooLarge
            | Self::InvalidSortOption => code::INVALID_ARGUMENT,
            Self::Compacted | Self::FutureRevision | Self::LeaseTtlTooLarge => code::OUT_OF_RANGE,
            Self::LeaseNotFound => code::NOT_FOUND,
            Self::LeaseExists => code::FAILED_PRECONDITION,
            Self::ResponseTooLarge | Self::NoSpace => code::RESOURCE_EXHAUSTED,
        }
    }

    /// The text that clients get.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Malformed => "etcdserver: the request can not be decoded",
            Self::EmptyKey => "etcdserver: key is not provided",
            Self::ValueProvided => "etcdserver: value is provided",
            Self::LeaseProvided => "etcdserver: lease is provided",
            Self::KeyNotFound => "etcdserver: key not found",
            Self::TooManyOps => "etcdserver: too many operations in txn request",
            Self::DuplicateKey => "etcdserver: duplicate key given in txn request",
            Self::Compacted => "etcdserver: mvcc: required revision has been compacted",
            Self::FutureRevision => "etcdserver: mvcc: required revision is a future revision",
            Self::LeaseNotFound => "etcdserver: requested lease not found",
            Self::LeaseExists => "etcdserver: lease already exists",
            Self::LeaseTtlTooLarge => "etcdserver: too large lease TTL",
            Self::RequestTooLarge => "etcdserver: request is too large",
            Self::ResponseTooLarge => {
                "etcdserver: the response is too large, so nothing was done; ask for less at once"
            }
            Self::InvalidSortOption => "etcdserver: invalid sort option",
            Self::NoSpace => "etcdserver: mvcc: database space exceeded",
        }
    }
}

impl fmt::Display for EtcdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for EtcdError {}
