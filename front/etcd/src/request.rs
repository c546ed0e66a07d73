//! Requests, decoded as far as the store needs them; they borrow from the message.
//!
//! Field numbers are those of etcd's public interface (package `etcdserverpb`). Later fields of the same number win, as the encoding
//! says. Tests: `tests/all/bytes.rs`, `tests/all/store.rs`.

use crate::error::EtcdError;
use crate::proto::{Fields, Malformed};

/// How deep transactions may nest; deeper ones would break the limit on operations.
const DEPTH_MAX: usize = 128;
/// The most compares and operations of a transaction on all levels, whatever is configured, since decoding takes memory for each.
const OPS_MAX: usize = 16 << 10;

impl From<Malformed> for EtcdError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// The direction in which a range is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum SortOrder {
    #[default]
    None,
    Ascend,
    Descend,
}

/// The field by which a range is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum SortTarget {
    #[default]
    Key,
    Version,
    Create,
    Mod,
    Value,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct RangeRequest<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) range_end: &'a [u8],
    pub(crate) limit: i64,
    pub(crate) revision: i64,
    pub(crate) order: SortOrder,
    pub(crate) target: SortTarget,
    pub(crate) keys_only: bool,
    pub(crate) count_only: bool,
    pub(crate) min_mod: i64,
    pub(crate) max_mod: i64,
    pub(crate) min_create: i64,
    pub(crate) max_create: i64,
}

impl<'a> RangeRequest<'a> {
    pub(crate) fn decode(message: &'a [u8]) -> Result<Self, EtcdError> {
        let mut request = Self::default();
        for field in Fields::of(message) {
            let (number, value) = field?;
            match number {
                1 => request.key = value.bytes()?,
                2 => request.range_end = value.bytes()?,
                3 => request.limit = value.int()?,
                4 => request.revision = value.int()?,
                5 => {
                    request.order = match value.int()? {
                        0 => SortOrder::None,
                        1 => SortOrder::Ascend,
                        2 => SortOrder::Descend,
                        _ => return Err(EtcdError::InvalidSortOption),
                    }
                }
                6 => {
                    request.target = match value.int()? {
                        0 => SortTarget::Key,
                        1 => SortTarget::Version,
                        2 => SortTarget::Create,
                        3 => SortTarget::Mod,
                        4 => SortTarget::Value,
                        _ => return Err(EtcdError::InvalidSortOption),
                    }
                }
                8 => request.keys_only = value.flag()?,
                9 => request.count_only = value.flag()?,
                10 => request.min_mod = value.int()?,
                11 => request.max_mod = value.int()?,
                12 => request.min_create = value.int()?,
                13 => request.max_create = value.int()?,
                _ => {}
            }
        }
        Ok(request)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct PutRequest<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) lease: i64,
    pub(crate) prev_kv: bool,
    pub(crate) ignore_value: bool,
    pub(crate) ignore_lease: bool,
}

impl<'a> PutRequest<'a> {
    pub(crate) fn decode(message: &'a [u8]) -> Result<Self, EtcdError> {
        let mut request = Self::default();
        for field in Fields::of(message) {
            let (number, value) = field?;
            match number {
                1 => request.key = value.bytes()?,
                2 => request.value = value.bytes()?,
                3 => request.lease = value.int()?,
                4 => request.prev_kv = value.flag()?,
                5 => request.ignore_value = value.flag()?,
                6 => request.ignore_lease = value.flag()?,
                _ => {}
            }
        }
        Ok(request)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteRequest<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) range_end: &'a [u8],
    pub(crate) prev_kv: bool,
}

impl<'a> DeleteRequest<'a> {
    pub(crate) fn decode(message: &'a [u8]) -> Result<Self, EtcdError> {
        let mut request = Self::default();
        for field in Fields::of(message) {
            let (number, value) = field?;
            match number {
                1 => request.key = value.bytes()?,
                2 => request.range_end = value.bytes()?,
                3 => request.prev_kv = value.flag()?,
                _ => {}
            }
        }
        Ok(request)
    }
}

/// The field that is compared, and the value that it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    Version(i64),
    Create(i64),
    Mod(i64),
    Value(&'a [u8]),
    Lease(i64),
}

/// The kind of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Relation {
    #[default]
    Equal,
    Greater,
    Less,
    NotEqual,
    /// A kind that does not exist: every comparison of it holds, as in etcd.
    Unknown,
}

#[derive(Clone, Debug)]
pub(crate) struct Compare<'a> {
    pub(crate) relation: Relation,
    pub(crate) target: Target<'a>,
    pub(crate) key: &'a [u8],
    pub(crate) range_end: &'a [u8],
}

impl<'a> Compare<'a> {
    fn decode(message: &'a [u8]) -> Result<Self, EtcdError> {
        let (mut relation, mut target, mut key, mut range_end): (_, _, &[u8], &[u8]) =
            (Relation::Equal, 0, &[], &[]);
        // The last of these that is there counts; one that is not of the target counts as if there were none.
        let (mut given, mut number_given, mut value_given): (u32, i64, &[u8]) = (0, 0, &[]);
        for field in Fields::of(message) {
            let (number, value) = field?;
            match number {
                1 => {
                    relation = match value.int()? {
                        0 => Relation::Equal,
                        1 => Relation::Greater,
                        2 => Relation::Less,
                        3 => Relation::NotEqual,
                        _ => Relation::Unknown,
                    }
                }
                2 => target = value.int()?,
                3 => key = value.bytes()?,
                4..=6 | 8 => (given, number_given) = (number, value.int()?),
                7 => (given, value_given) = (number, value.bytes()?),
                64 => range_end = value.bytes()?,
                _ => {}
            }
        }
        let int = |field| if given == field { number_given } else { 0 };
        let target = match target {
            0 => Target::Version(int(4)),
            1 => Target::Create(int(5)),
            2 => Target::Mod(int(6)),
            3 => Target::Value(if given == 7 { value_given } else { &[] }),
            4 => Target::Lease(int(8)),
            _ => return Err(EtcdError::Malformed),
        };
        Ok(Self { relation, target, key, range_end })
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Operation<'a> {
    Range(RangeRequest<'a>),
    Put(PutRequest<'a>),
    Delete(DeleteRequest<'a>),
    Txn(TxnRequest<'a>),
    /// An operation that is none of those; it does nothing.
    Nothing,
}

impl<'a> Operation<'a> {
    fn decode(message: &'a [u8], depth: usize, left: &mut usize) -> Result<Self, EtcdError> {
        let mut operation = Self::Nothing;
        for field in Fields::of(message) {
            let (number, value) = field?;
            match number {
                1 => operation = Self::Range(RangeRequest::decode(value.bytes()?)?),
                2 => operation = Self::Put(PutRequest::decode(value.bytes()?)?),
                3 => operation = Self::Delete(DeleteRequest::decode(value.bytes()?)?),
                4 => operation = Self::Txn(TxnRequest::decode_at(value.bytes()?, depth + 1, left)?),
                _ => {}
            }
        }
        Ok(operation)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct TxnRequest<'a> {
    pub(crate) compare: Vec<Compare<'a>>,
    pub(crate) success: Vec<Operation<'a>>,
    pub(crate) failure: Vec<Operation<'a>>,
}

impl<'a> TxnRequest<'a> {
    pub(crate) fn decode(message: &'a [u8]) -> Result<Self, EtcdError> {
        Self::decode_at(message, 0, &mut OPS_MAX.clone())
    }

    fn decode_at(message: &'a [u8], depth: usize, left: &mut usize) -> Result<Self, EtcdError> {
        if depth > DEPTH_MAX {
            return Err(EtcdError::TooManyOps);
        }
        let mut request = Self::default();
        for field in Fields::of(message) {
            let (number, value) = field?;
            *left = left.checked_sub(1).ok_or(EtcdError::TooManyOps)?;
            match number {
                1 => request.compare.push(Compare::decode(value.bytes()?)?),
                2 => request.success.push(Operation::decode(value.bytes()?, depth, left)?),
                3 => request.failure.push(Operation::decode(value.bytes()?, depth, left)?),
                _ => {}
            }
        }
        Ok(request)
    }

    /// Whether a branch of the transaction has a put.
    pub(crate) fn may_put(&self) -> bool {
        self.success.iter().chain(&self.failure).any(|operation| match operation {
            Operation::Put(_) => true,
            Operation::Txn(txn) => txn.may_put(),
            Operation::Range(_) | Operation::Delete(_) | Operation::Nothing => false,
        })
    }

    /// Whether no branch of the transaction changes anything.
    pub(crate) fn reads_only(&self) -> bool {
        self.success.iter().chain(&self.failure).all(|operation| match operation {
            Operation::Range(_) | Operation::Nothing => true,
            Operation::Put(_) | Operation::Delete(_) => false,
            Operation::Txn(txn) => txn.reads_only(),
        })
    }
}

/// Decodes two numbers, in fields 1 and 2, as requests about compaction and leases have them.
pub(crate) fn numbers(message: &[u8]) -> Result<(i64, i64), EtcdError> {
    let mut numbers = (0, 0);
    for field in Fields::of(message) {
        match field? {
            (1, value) => numbers.0 = value.int()?,
            (2, value) => numbers.1 = value.int()?,
            _ => {}
        }
    }
    Ok(numbers)
}
