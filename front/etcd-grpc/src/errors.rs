//! Errors as clients of etcd get them: a gRPC code and etcd's text.

use quorate::Error;
use quorate_etcd::EtcdError;
use quorate_kit::KitError;
use std::borrow::Cow;

/// How a call without a response ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: u8,
    pub(crate) text: Cow<'static, str>,
}

pub(crate) const CANCELED: u8 = 1;
pub(crate) const UNKNOWN: u8 = 2;
pub(crate) const INVALID_ARGUMENT: u8 = 3;
pub(crate) const NOT_FOUND: u8 = 5;
pub(crate) const PERMISSION_DENIED: u8 = 7;
pub(crate) const RESOURCE_EXHAUSTED: u8 = 8;
pub(crate) const FAILED_PRECONDITION: u8 = 9;
pub(crate) const UNIMPLEMENTED: u8 = 12;
pub(crate) const INTERNAL: u8 = 13;
pub(crate) const UNAVAILABLE: u8 = 14;

impl Refusal {
    pub(crate) const fn new(code: u8, text: &'static str) -> Self {
        Self { code, text: Cow::Borrowed(text) }
    }

    pub(crate) const TIMED_OUT: Self = Self::new(UNAVAILABLE, "etcdserver: request timed out");
    pub(crate) const STOPPED: Self = Self::new(UNAVAILABLE, "etcdserver: server stopped");
    pub(crate) const TOO_MANY: Self = Self::new(RESOURCE_EXHAUSTED, "etcdserver: too many requests");
}

impl From<EtcdError> for Refusal {
    fn from(error: EtcdError) -> Self {
        Self::new(error.code(), error.text())
    }
}

/// On the code "unavailable" clients repeat the requests that they may repeat. Whether a command ran is unknown then, as in etcd.
impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::Overloaded { .. } | Error::SessionLimit => Self::TOO_MANY,
            // That text promises that nothing was done.
            Error::DiskFull { outcome_unknown: false } => EtcdError::NoSpace.into(),
            Error::DiskFull { outcome_unknown: true } => Self::TIMED_OUT,
            Error::TooLarge { .. } => EtcdError::RequestTooLarge.into(),
            Error::Stopped { .. } => Self::STOPPED,
            Error::DeadlineExceeded { .. } => Self::TIMED_OUT,
            other => Self { code: UNAVAILABLE, text: Cow::Owned(format!("etcdserver: {other}")) },
        }
    }
}

impl From<KitError> for Refusal {
    fn from(error: KitError) -> Self {
        match error {
            // Nothing of it was done. Only lines are cut, and there are none here.
            KitError::Full | KitError::Cut => Self::TOO_MANY,
            KitError::Stopped => Self::STOPPED,
            KitError::Cluster(error) => error.into(),
        }
    }
}

impl From<Refusal> for tonic::Status {
    fn from(refusal: Refusal) -> Self {
        Self::new(tonic::Code::from(i32::from(refusal.code)), refusal.text)
    }
}

impl From<tonic::Status> for Refusal {
    fn from(status: tonic::Status) -> Self {
        Self { code: i32::from(status.code()) as u8, text: Cow::Owned(status.message().to_owned()) }
    }
}
