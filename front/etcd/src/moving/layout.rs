//! What etcd keeps in its database: the names of buckets, and the bytes of keys and values.
//!
//! | bucket | keys | values |
//! | --- | --- | --- |
//! | `key` | revision, `_`, number of the change in it (8 bytes each, big-endian), `t` if it deletes | `mvccpb.KeyValue` |
//! | `lease` | id (8 bytes, big-endian) | `leasepb.Lease` |
//! | `meta` | `scheduledCompactRev`, `finishedCompactRev` | a revision, as in `key` |
//! | `meta` | `consistent_index`, `term` | 8 bytes, big-endian |
//! | `meta` | `storageVersion`, since 3.6 | text |
//! | `alarm` | `etcdserverpb.AlarmMember` | empty |
//! | `auth` | `authEnabled`, `authRevision` | one byte; 8 bytes, big-endian |
//! | `authUsers`, `authRoles` | name | `authpb.User`, `authpb.Role` |
//! | `members`, `members_removed`, `cluster` | of no use elsewhere | |

use crate::space::Revision;

pub(super) const KEY: &str = "key";
pub(super) const LEASE: &str = "lease";
pub(super) const META: &str = "meta";
pub(super) const ALARM: &str = "alarm";
pub(super) const AUTH: &str = "auth";
pub(super) const USERS: &str = "authUsers";
pub(super) const ROLES: &str = "authRoles";
/// What is left behind.
pub(super) const MEMBERS: [&str; 3] = ["members", "members_removed", "cluster"];

pub(super) const SCHEDULED: &[u8] = b"scheduledCompactRev";
pub(super) const FINISHED: &[u8] = b"finishedCompactRev";
pub(super) const INDEX: &[u8] = b"consistent_index";
pub(super) const TERM: &[u8] = b"term";
pub(super) const STORAGE_VERSION: &[u8] = b"storageVersion";
pub(super) const AUTH_ENABLED: &[u8] = b"authEnabled";
pub(super) const AUTH_REVISION: &[u8] = b"authRevision";

/// Bytes of the SHA-256 behind the database.
pub(super) const SUM_BYTES: u64 = 32;
/// By this etcd's programs see whether there is one: a database is a multiple of it.
pub(super) const BLOCK: u64 = 512;

const DELETES: u8 = b't';

/// The bytes of a revision.
pub(super) fn revision(at: Revision, deletes: bool) -> Vec<u8> {
    let mut bytes = at.main.to_be_bytes().to_vec();
    bytes.push(b'_');
    bytes.extend(i64::from(at.sub).to_be_bytes());
    if deletes {
        bytes.push(DELETES);
    }
    bytes
}

/// The revision in these bytes, and whether it deletes.
pub(super) fn read_revision(bytes: &[u8]) -> Option<(Revision, bool)> {
    let (main, rest) = bytes.split_first_chunk()?;
    let (sub, end) = rest.strip_prefix(b"_")?.split_first_chunk()?;
    let (main, sub) = (i64::from_be_bytes(*main), i64::from_be_bytes(*sub));
    let at = Revision { main, sub: u32::try_from(sub).ok()? };
    match end {
        [] => Some((at, false)),
        [DELETES] => Some((at, true)),
        _ => None,
    }
}
