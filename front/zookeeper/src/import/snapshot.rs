//! A snapshot of a ZooKeeper.
//!
//! `ZKSN`, version (`int`), database (`long`); sessions: count (`int`), each with id (`long`) and time-out (`int`); lists of rights: count
//! (`int`), each with a number (`long`) and the list; nodes: path (`ustring`), data (`buffer`), number of the list of rights (`long`, -1 if
//! everybody may do everything), and numbers; then the path `/`. Behind it is the check sum of everything before (`long`), and `/` again.
//! Newer servers write more behind that.

use super::adler32;
use super::kept::{Kept, KeptNode};
use crate::jute::{Malformed, Reader, Write as _};
use crate::records::{Acl, Stat};
use std::collections::BTreeMap;

const MAGIC: &[u8; 4] = b"ZKSN";
/// The number of the list by which everybody may do everything.
const OPEN: i64 = -1;

pub(super) fn read(bytes: &[u8]) -> Result<Kept, Malformed> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(Malformed)?;
    let mut from = Reader::new(rest);
    let (_version, _database) = (from.int()?, from.long()?);
    let mut kept = Kept::default();
    for _ in 0..from.int()? {
        let (session, timeout_ms) = (from.long()?, from.int()?);
        kept.sessions.insert(session, timeout_ms);
    }
    let mut lists = BTreeMap::new();
    for _ in 0..from.int()? {
        let number = from.long()?;
        lists.insert(number, read_rights(&mut from)?);
    }
    loop {
        let path = text(&mut from)?;
        if path == "/" {
            break;
        }
        let data = from.bytes()?.map(<[u8]>::to_vec);
        let number = from.long()?;
        // A list that was new while this was written may be missing; the log has it.
        let acl = if number == OPEN { Some(Vec::new()) } else { lists.get(&number).cloned() };
        let stat = read_stat(&mut from)?;
        kept.put(path, KeptNode { data, acl, stat });
    }
    let length = bytes.len() - from.rest().len();
    let sum = from.long()?;
    if sum != i64::from(adler32(&bytes[..length])) || text(&mut from)? != "/" {
        return Err(Malformed);
    }
    Ok(kept)
}

/// A list of rights as we keep it: nothing if everybody may do everything.
pub(super) fn read_rights(from: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    let list = from.list(Acl::read)?.unwrap_or_default();
    let mut out = Vec::new();
    if list != [Acl::OPEN] {
        out.list(Some(&list), |out, acl| acl.write(out));
    }
    Ok(out)
}

pub(super) fn text<'a>(from: &mut Reader<'a>) -> Result<&'a str, Malformed> {
    str::from_utf8(from.bytes()?.unwrap_or_default()).map_err(|_| Malformed)
}

/// The numbers that are kept; those that follow from data and children are 0 yet.
fn read_stat(from: &mut Reader<'_>) -> Result<Stat, Malformed> {
    Ok(Stat {
        czxid: from.long()?,
        mzxid: from.long()?,
        ctime: from.long()?,
        mtime: from.long()?,
        version: from.int()?,
        cversion: from.int()?,
        aversion: from.int()?,
        ephemeral_owner: from.long()?,
        pzxid: from.long()?,
        ..Stat::default()
    })
}
