//! A ZooKeeper's tree and sessions as our state.

use super::kept::KeptNode;
use super::{ImportError, Imported};
use crate::command::DIGEST_BYTES;
use crate::records::Stat;
use crate::server::PASSWORD_BYTES;
use crate::tree::quota::{counts_of, is_limits};
use crate::tree::{BYTES_MAX, Count, Owner, PATH_BYTES_MAX, Rules, taken_over};
use crate::{service, sessions};
use quorate_execute::Store;
use quorate_types::{AgreedTime, Span};
use std::collections::BTreeMap;

/// What the passwords of a ZooKeeper's sessions are made of, together with their ids. Source: `ZooKeeperServer.superSecret`.
const SECRET: i64 = 0xb341_5c00;

impl Imported {
    /// How many nodes there are, sessions, and the last transaction.
    pub fn counts(&self) -> (usize, usize, i64) {
        (self.kept.nodes.len(), self.kept.sessions.len(), self.kept.zxid)
    }

    /// The state of a cluster whose time begins here. `digest` is that of passwords.
    ///
    /// # Errors
    /// When something is larger than the store can hold.
    pub fn state(
        &self,
        begins: AgreedTime,
        rules: Rules,
        digest: fn(&[u8]) -> [u8; DIGEST_BYTES],
    ) -> Result<Store, ImportError> {
        let mut store = Store::new();
        let mut put = |(key, value): (Vec<u8>, Vec<u8>)| {
            store.put(&key, &value);
        };
        // Nodes of quotas say what is there now.
        let quotas = self.kept.nodes.keys().filter_map(|path| Some((path, counts_of(path)?)));
        let quotas = quotas.filter(|(_, of)| self.kept.limits.contains(*of));
        let counted: BTreeMap<&str, Vec<u8>> =
            quotas.map(|(path, of)| (path.as_str(), self.kept.numbers_of(of))).collect();
        let children = self.children();
        let mut count = Count { nodes: 1, ..Count::default() };
        for (path, node) in &self.kept.nodes {
            let KeptNode { acl, stat, .. } = node;
            let acl = acl.as_deref().unwrap_or_default();
            let data = counted.get(path.as_str()).or(node.data.as_ref());
            check(path, data, acl)?;
            let length = data.map_or(0, Vec::len);
            let num_children = children.get(path.as_str()).copied().unwrap_or_default();
            let stat = Stat { num_children, data_length: length as i32, ..*stat };
            let due = due(&stat, begins, rules);
            count.nodes += 1;
            count.bytes += (path.len().max(1) + length) as i64;
            count.ephemerals += i64::from(matches!(Owner::of(stat.ephemeral_owner), Owner::Session(_)));
            count.quotas += i64::from(is_limits(path));
            taken_over(path, stat, data.map(Vec::as_slice), acl, due).into_iter().for_each(&mut put);
        }
        put(service::taken_over(self.kept.zxid, count));
        let sessions = self.kept.sessions.iter();
        let known = sessions.map(|(session, timeout)| (*session, *timeout, digest(&password_of(*session))));
        sessions::taken_over(known, begins).into_iter().for_each(put);
        Ok(store)
    }

    /// How many children each node has that has any.
    fn children(&self) -> BTreeMap<&str, i32> {
        let mut children = BTreeMap::new();
        let parents = self.kept.nodes.keys().filter_map(|path| path.rsplit_once('/'));
        parents.for_each(|(above, _)| *children.entry(above).or_insert(0) += 1);
        children
    }
}

fn check(path: &str, data: Option<&Vec<u8>>, acl: &[u8]) -> Result<(), ImportError> {
    let too_large = |what: &str, is: usize, most: usize| {
        let start: String = path.chars().take(100).collect();
        let why = format!(
            "{what} of the node {start} has {is} bytes, and {most} are the most here: make it smaller before"
        );
        Err(ImportError::TooLarge(why))
    };
    let length = data.map_or(0, Vec::len);
    if path.len() > PATH_BYTES_MAX {
        return too_large("the path", path.len(), PATH_BYTES_MAX);
    }
    if length > BYTES_MAX {
        return too_large("the data", length, BYTES_MAX);
    }
    if acl.len() > BYTES_MAX { too_large("the list of rights", acl.len(), BYTES_MAX) } else { Ok(()) }
}

/// When a node is deleted if it has no children then.
fn due(stat: &Stat, begins: AgreedTime, rules: Rules) -> u64 {
    match Owner::of(stat.ephemeral_owner) {
        Owner::Ttl(ms) => {
            let due = AgreedTime::from_nanos(Span::from_millis(stat.mtime.max(0) as u64).nanos());
            due.plus(Span::from_millis(ms as u64)).max(begins).nanos()
        }
        // One that never had a child waits for its first one.
        Owner::Container if stat.num_children == 0 && stat.cversion > 0 => {
            begins.plus(rules.empty_for).nanos()
        }
        _ => 0,
    }
}

/// The password that a ZooKeeper gave to a session: 16 bytes of Java's `Random`. So clients come back with what they have.
fn password_of(session: i64) -> [u8; PASSWORD_BYTES] {
    const MULTIPLIER: u64 = 0x5_deec_e66d;
    const MASK: u64 = (1 << 48) - 1;
    let mut state = ((session ^ SECRET) as u64 ^ MULTIPLIER) & MASK;
    let mut password = [0; PASSWORD_BYTES];
    for part in password.as_chunks_mut::<4>().0 {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(0xb) & MASK;
        *part = ((state >> 16) as u32).to_le_bytes();
    }
    password
}
