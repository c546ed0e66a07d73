//! Why a request was refused, with the codes and texts that clients of etcd compare.

use std::fmt;

/// gRPC's numbers for the codes that are used here.
mod code {
    pub(super) const UNKNOWN: u8 = 2;
    pub(super) const INVALID_ARGUMENT: u8 = 3;
    pub(super) const NOT_FOUND: u8 = 5;
    pub(super) const PERMISSION_DENIED: u8 = 7;
    pub(super) const RESOURCE_EXHAUSTED: u8 = 8;
    pub(super) const FAILED_PRECONDITION: u8 = 9;
    pub(super) const OUT_OF_RANGE: u8 = 11;
    pub(super) const INTERNAL: u8 = 13;
    pub(super) const DATA_LOSS: u8 = 15;
    pub(super) const UNAUTHENTICATED: u8 = 16;
}

/// Why a request was refused. The texts are etcd's: its client libraries turn them back into the errors that programs test for.
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
    /// The lease would last longer than the limit.
    LeaseTtlTooLarge,
    /// A request over the limit.
    RequestTooLarge,
    /// The response would be over the limit; nothing was changed.
    ResponseTooLarge,
    /// A sort order that does not exist.
    InvalidSortOption,
    /// The store has no room.
    NoSpace,
    /// Authentication can not be turned on without the user root.
    RootUserNotExist,
    /// Authentication can not be turned on while the user root does not have the role root.
    RootRoleNotExist,
    /// There is such a user already.
    UserAlreadyExist,
    /// No user is named, but one must be.
    UserEmpty,
    /// There is no such user.
    UserNotFound,
    /// There is such a role already.
    RoleAlreadyExist,
    /// There is no such role.
    RoleNotFound,
    /// A role without a name.
    RoleEmpty,
    /// The wrong password, or no such user.
    AuthFailed,
    /// The user has no password.
    NoPasswordUser,
    /// A grant without a permission.
    PermissionNotGiven,
    /// The user may not do that.
    PermissionDenied,
    /// The user does not have the role.
    RoleNotGranted,
    /// The role does not have the permission.
    PermissionNotGranted,
    /// Authentication is off.
    AuthNotEnabled,
    /// The token does not exist, or not any more.
    InvalidAuthToken,
    /// The change would lock everybody out, or the permission is for an empty range.
    InvalidAuthMgmt,
    /// Users or roles changed since the password was compared.
    AuthOldRevision,
    /// An alarm says that the data is corrupt.
    Corrupt,
}

impl EtcdError {
    const ALL: [Self; 35] = [
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
        Self::RootUserNotExist,
        Self::RootRoleNotExist,
        Self::UserAlreadyExist,
        Self::UserEmpty,
        Self::UserNotFound,
        Self::RoleAlreadyExist,
        Self::RoleNotFound,
        Self::RoleEmpty,
        Self::AuthFailed,
        Self::NoPasswordUser,
        Self::PermissionNotGiven,
        Self::PermissionDenied,
        Self::RoleNotGranted,
        Self::PermissionNotGranted,
        Self::AuthNotEnabled,
        Self::InvalidAuthToken,
        Self::InvalidAuthMgmt,
        Self::AuthOldRevision,
        Self::Corrupt,
    ];

    /// The errors that mean that the caller may not do this, or is not named.
    pub const DENIALS: [Self; 4] =
        [Self::UserEmpty, Self::PermissionDenied, Self::InvalidAuthToken, Self::AuthOldRevision];

    /// The number in replies.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The error with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|error| error.number() == number)
    }

    /// The gRPC code of the error.
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
            | Self::InvalidSortOption
            | Self::UserEmpty
            | Self::RoleEmpty
            | Self::AuthFailed
            | Self::PermissionNotGiven
            | Self::InvalidAuthMgmt
            | Self::AuthOldRevision => code::INVALID_ARGUMENT,
            Self::Compacted | Self::FutureRevision | Self::LeaseTtlTooLarge => code::OUT_OF_RANGE,
            Self::LeaseNotFound => code::NOT_FOUND,
            Self::LeaseExists
            | Self::RootUserNotExist
            | Self::RootRoleNotExist
            | Self::UserAlreadyExist
            | Self::UserNotFound
            | Self::RoleAlreadyExist
            | Self::RoleNotFound
            | Self::RoleNotGranted
            | Self::PermissionNotGranted
            | Self::AuthNotEnabled => code::FAILED_PRECONDITION,
            Self::NoPasswordUser => code::UNKNOWN,
            Self::PermissionDenied => code::PERMISSION_DENIED,
            Self::InvalidAuthToken => code::UNAUTHENTICATED,
            Self::ResponseTooLarge | Self::NoSpace => code::RESOURCE_EXHAUSTED,
            Self::Corrupt => code::DATA_LOSS,
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
            Self::RootUserNotExist => "etcdserver: root user does not exist",
            Self::RootRoleNotExist => "etcdserver: root user does not have root role",
            Self::UserAlreadyExist => "etcdserver: user name already exists",
            Self::UserEmpty => "etcdserver: user name is empty",
            Self::UserNotFound => "etcdserver: user name not found",
            Self::RoleAlreadyExist => "etcdserver: role name already exists",
            Self::RoleNotFound => "etcdserver: role name not found",
            Self::RoleEmpty => "etcdserver: role name is empty",
            Self::AuthFailed => "etcdserver: authentication failed, invalid user ID or password",
            Self::NoPasswordUser => "auth: authentication failed, password was given for no password user",
            Self::PermissionNotGiven => "etcdserver: permission not given",
            Self::PermissionDenied => "etcdserver: permission denied",
            Self::RoleNotGranted => "etcdserver: role is not granted to the user",
            Self::PermissionNotGranted => "etcdserver: permission is not granted to the role",
            Self::AuthNotEnabled => "etcdserver: authentication is not enabled",
            Self::InvalidAuthToken => "etcdserver: invalid auth token",
            Self::InvalidAuthMgmt => "etcdserver: invalid auth management",
            Self::AuthOldRevision => "etcdserver: revision of auth store is old",
            Self::Corrupt => "etcdserver: corrupt cluster",
        }
    }
}

impl fmt::Display for EtcdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for EtcdError {}
