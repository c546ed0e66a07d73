//! Who may do what: lists of rights are repaired and refused as ZooKeeper does, and checked where commands are carried out.
//!
//! Source: `PrepRequestProcessor.fixupACL` and `ZooKeeperServer.checkACL` of Apache ZooKeeper 3.9.4, and its `ip`, `digest`, `x509` and
//! `sasl` providers.

use crate::error::ZkError;
use crate::records::Acl;
use std::net::IpAddr;

/// An identity that a client has proved, or that its address is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Its kind: `ip`, `digest`, `x509`, `sasl`, or `super`, which may do everything.
    pub scheme: Vec<u8>,
    /// The identity.
    pub id: Vec<u8>,
}

/// The most entries of a list, and the most bytes: each operation on the node reads it.
const ENTRIES_MAX: usize = 1000;
const ACL_BYTES_MAX: usize = 64 << 10;

/// Kinds whose identities a client proves. A list may name them all at once, as `auth`.
const PROVED: [&[u8]; 3] = [b"digest", b"x509", b"sasl"];

/// A list of rights as it is kept: without repetitions, and with the client's own identities for `auth`.
///
/// # Errors
/// [`ZkError::InvalidAcl`] if nothing is left, or an entry is not known.
pub(super) fn repaired<'a>(list: Option<&[Acl<'a>]>, ids: &'a [Id]) -> Result<Vec<Acl<'a>>, ZkError> {
    let list = list.unwrap_or_default();
    let bytes: usize = list.iter().map(|acl| 12 + acl.scheme.len() + acl.id.len()).sum();
    if list.len() > ENTRIES_MAX || bytes > ACL_BYTES_MAX {
        return Err(ZkError::InvalidAcl);
    }
    let mut kept: Vec<Acl<'a>> = Vec::new();
    let mut seen: Vec<Acl<'a>> = Vec::new();
    for acl in list {
        if seen.contains(acl) {
            continue;
        }
        seen.push(*acl);
        if kept.len() > ENTRIES_MAX {
            return Err(ZkError::InvalidAcl);
        }
        match acl.scheme {
            b"world" if acl.id == b"anyone" => kept.push(*acl),
            b"auth" => {
                let own = ids.iter().filter(|id| PROVED.contains(&&id.scheme[..]));
                let own = own.map(|id| Acl { perms: acl.perms, scheme: &id.scheme, id: &id.id });
                let before = kept.len();
                kept.extend(own);
                if kept.len() == before {
                    return Err(ZkError::InvalidAcl);
                }
            }
            _ if is_known(acl) => kept.push(*acl),
            _ => return Err(ZkError::InvalidAcl),
        }
    }
    if kept.is_empty() { Err(ZkError::InvalidAcl) } else { Ok(kept) }
}

fn is_known(acl: &Acl<'_>) -> bool {
    match acl.scheme {
        // A name and a digest; what is behind a last colon does not count.
        b"digest" => parts(acl.id) == 2,
        b"ip" => Mask::of(acl.id).is_some(),
        b"x509" | b"sasl" => !acl.id.is_empty(),
        _ => false,
    }
}

/// How many parts Java's `split(":")` finds: empty ones at the end are left out.
fn parts(id: &[u8]) -> usize {
    let parts: Vec<&[u8]> = id.split(|byte| *byte == b':').collect();
    parts.iter().rposition(|part| !part.is_empty()).map_or(0, |last| last + 1)
}

/// Addresses that begin alike.
struct Mask {
    address: IpAddr,
    bits: usize,
}

impl Mask {
    fn of(id: &[u8]) -> Option<Self> {
        let mut parts = str::from_utf8(id).ok()?.splitn(2, '/');
        let address: IpAddr = parts.next()?.parse().ok()?;
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = parts.next().map_or(Some(all), |bits| bits.parse().ok())?;
        (bits <= all).then_some(Self { address, bits })
    }

    fn has(&self, address: &IpAddr) -> bool {
        let alike = |one: &[u8], other: &[u8]| {
            one.len() == other.len()
                && (0..self.bits).all(|bit| {
                    let mask = 0x80 >> (bit % 8);
                    (one[bit / 8] ^ other[bit / 8]) & mask == 0
                })
        };
        match (self.address, address) {
            (IpAddr::V4(one), IpAddr::V4(other)) => alike(&one.octets(), &other.octets()),
            (IpAddr::V6(one), IpAddr::V6(other)) => alike(&one.octets(), &other.octets()),
            _ => false,
        }
    }
}

/// Whether one of these identities may do this.
///
/// # Errors
/// [`ZkError::NoAuth`] if not.
pub(super) fn check(list: &[Acl<'_>], perm: i32, ids: &[Id]) -> Result<(), ZkError> {
    let may = |acl: &Acl<'_>| {
        acl.perms & perm != 0
            && (acl.scheme == b"world" && acl.id == b"anyone" || ids.iter().any(|id| matches(acl, id)))
    };
    let all = list.is_empty() || ids.iter().any(|id| id.scheme == b"super");
    if all || list.iter().any(may) { Ok(()) } else { Err(ZkError::NoAuth) }
}

fn matches(acl: &Acl<'_>, id: &Id) -> bool {
    if acl.scheme != id.scheme {
        return false;
    }
    if acl.scheme != b"ip" {
        return acl.id == id.id;
    }
    let address = str::from_utf8(&id.id).ok().and_then(|text| text.parse().ok());
    Mask::of(acl.id).zip(address).is_some_and(|(mask, address)| mask.has(&address))
}
