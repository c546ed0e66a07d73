//! Quotas: how many nodes, and how many bytes of data, may be at a path and below it.
//!
//! A quota of the path `/a` is two nodes, which clients create: `/zookeeper/quota/a/zookeeper_limits` says the limits, and
//! `/zookeeper/quota/a/zookeeper_stats` what is there now. The tree writes the second one itself, without a version and without events.
//! Each write counts at the longest path that has limits. Only hard limits refuse a write, and only where the rules say so. Source:
//! `DataTree`, `StatsTrack` and `ZooKeeperServer.checkQuota` of Apache ZooKeeper 3.9.4. Tests: tests/all/quota.rs, and
//! tests/all/differential.rs beside a real server.

use super::node::{self, NODE};
use super::{Tree, read};
use crate::error::ZkError;
use std::collections::BTreeMap;

/// A path with a quota has at most so many names, and its nodes say what they say in so many bytes: each write below looks at them.
const NAMES_MAX: usize = 32;
const BYTES_READ: usize = 256;

const QUOTAS: &str = "/zookeeper/quota";
const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";

fn limits_of(path: &str) -> String {
    format!("{QUOTAS}{path}/{LIMITS}")
}

pub(crate) fn stats_of(path: &str) -> String {
    format!("{QUOTAS}{path}/{STATS}")
}

/// The path whose limits this node says, if it is one of a quota.
pub(crate) fn limited(path: &str) -> Option<&str> {
    about(path).and_then(|(of, name)| (name == LIMITS).then_some(of))
}

/// The path whose numbers this node holds, if it is one of a quota.
pub(crate) fn counts_of(path: &str) -> Option<&str> {
    about(path).and_then(|(of, name)| (name == STATS).then_some(of))
}

/// The path whose quota this node belongs to, and the node's name.
fn about(path: &str) -> Option<(&str, &str)> {
    let (of, name) = path.strip_prefix(QUOTAS)?.rsplit_once('/')?;
    let names = of.bytes().filter(|byte| *byte == b'/').count();
    let is_one = of.starts_with('/') && names <= NAMES_MAX && [LIMITS, STATS].contains(&name);
    is_one.then_some((of, name))
}

/// Whether this node says limits.
pub(crate) fn is_limits(path: &str) -> bool {
    limited(path).is_some()
}

/// The names of numbers, and of limits that are hard.
const COUNT: &str = "count";
const BYTES: &str = "bytes";
const COUNT_HARD: &str = "countHardLimit";
const BYTES_HARD: &str = "byteHardLimit";
const KNOWN: [&str; 4] = [COUNT, BYTES, COUNT_HARD, BYTES_HARD];

/// Numbers with names, as the nodes of a quota hold them: `count=1,bytes=2=;countHardLimit=3`.
pub(crate) struct Numbers(BTreeMap<String, i64>);

impl Numbers {
    /// What is there.
    pub(crate) fn of(nodes: i64, bytes: i64) -> Self {
        Self([(COUNT.to_owned(), nodes), (BYTES.to_owned(), bytes)].into())
    }

    /// What does not read as a number is not there, nor what has no meaning.
    pub(crate) fn read(data: &[u8]) -> Self {
        let text = String::from_utf8_lossy(&data[..data.len().min(BYTES_READ)]);
        let pairs = text.split([',', ';']).filter_map(|pair| {
            let mut parts = pair.split('=');
            let (name, number) = (parts.next()?, parts.next()?.parse().ok()?);
            KNOWN.contains(&name).then(|| (name.to_owned(), number))
        });
        Self(pairs.collect())
    }

    /// The number with this name; -1 if there is none.
    fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(-1)
    }

    /// So many nodes and bytes more.
    pub(crate) fn add(&mut self, nodes: i64, bytes: i64) {
        for (name, more) in [(COUNT, nodes), (BYTES, bytes)] {
            let sum = self.get(name).saturating_add(more);
            self.0.insert(name.to_owned(), sum);
        }
    }

    /// Older clients read the first two only, up to a second `=`.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("count={},bytes={}", self.get(COUNT), self.get(BYTES));
        let rest = self.0.iter().filter(|(name, _)| ![COUNT, BYTES].contains(&name.as_str()));
        for (at, (name, number)) in rest.enumerate() {
            text += &format!("{};{name}={number}", if at == 0 { "=" } else { "" });
        }
        text
    }

    /// The limit for this, and whether it is hard.
    fn limit(&self, soft: &str, hard: &str) -> Option<(i64, bool)> {
        match (self.get(hard), self.get(soft)) {
            (limit @ 0.., _) => Some((limit, true)),
            (_, limit @ 0..) => Some((limit, false)),
            _ => None,
        }
    }
}

impl Tree<'_, '_> {
    /// The longest path here or above that has limits.
    fn quota_of<'p>(&self, path: &'p str) -> Option<&'p str> {
        if self.quotas + self.added.quotas == 0 {
            return None;
        }
        let has = |of: &&str| self.view.get(&node::key(NODE, &limits_of(of))).is_some();
        let shorter = |of: &&'p str| of.rsplit_once('/').map(|(above, _)| above);
        let longest = path.match_indices('/').nth(NAMES_MAX).map_or(path, |(end, _)| &path[..end]);
        std::iter::successors(Some(longest), shorter).take_while(|of| of.len() > 1).find(has)
    }

    fn numbers(&self, path: &str) -> Option<Numbers> {
        self.node(path).map(|_| Numbers::read(&read::bytes(self.view, path)))
    }

    /// Whether a write that adds so much at this path stays within hard limits.
    pub(super) fn within_quota(&self, path: &str, nodes: i64, bytes: i64) -> Result<(), ZkError> {
        if !self.rules.enforce_quotas {
            return Ok(());
        }
        let Some(of) = self.quota_of(path) else { return Ok(()) };
        let numbers = self.numbers(&limits_of(of)).zip(self.numbers(&stats_of(of)));
        let Some((limits, stats)) = numbers else { return Ok(()) };
        let over = |name, hard, more: i64| {
            let limit = limits.limit(name, hard).filter(|(_, is_hard)| more != 0 && *is_hard);
            limit.is_some_and(|(limit, _)| stats.get(name).saturating_add(more) > limit)
        };
        if over(COUNT, COUNT_HARD, nodes) || over(BYTES, BYTES_HARD, bytes) {
            return Err(ZkError::QuotaExceeded);
        }
        Ok(())
    }

    /// Whether this node may be made now. One that counts all others takes long, and a multi could have thousands of them.
    pub(super) fn may_be_counted(&mut self, path: &str) -> Result<(), ZkError> {
        if counts_of(path).is_none() {
            return Ok(());
        }
        if std::mem::replace(&mut self.counted, true) { Err(ZkError::Throttled) } else { Ok(()) }
    }

    /// Counts what a write added at this path.
    pub(super) fn count_in_quota(&mut self, path: &str, nodes: i64, bytes: i64) {
        let Some(of) = self.quota_of(path) else { return };
        let stats = stats_of(of);
        if let Some(mut numbers) = self.numbers(&stats) {
            numbers.add(nodes, bytes);
            self.put_numbers(&stats, &numbers);
        }
    }

    /// A new node may be one of a quota. Then what is there is counted, and written into it.
    pub(super) fn maybe_count_all(&mut self, path: &str) {
        if let Some(of) = counts_of(path) {
            let (nodes, bytes) = read::sum_of(self.view, of);
            self.put_numbers(path, &Numbers::of(nodes, bytes));
        }
    }

    fn put_numbers(&mut self, path: &str, numbers: &Numbers) {
        let Some(mut node) = self.node(path) else { return };
        self.put_data(path, &mut node, Some(numbers.text().as_bytes()));
        self.put_node(path, &node);
    }
}
