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

const QUOTAS: &str = "/zookeeper/quota";
const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";

fn limits_of(path: &str) -> String {
    format!("{QUOTAS}{path}/{LIMITS}")
}

fn stats_of(path: &str) -> String {
    format!("{QUOTAS}{path}/{STATS}")
}

/// The path whose quota this node belongs to, and the node's name.
fn about(path: &str) -> Option<(&str, &str)> {
    let (of, name) = path.strip_prefix(QUOTAS)?.rsplit_once('/')?;
    (of.starts_with('/') && [LIMITS, STATS].contains(&name)).then_some((of, name))
}

/// Whether this node says limits.
pub(super) fn is_limits(path: &str) -> bool {
    about(path).is_some_and(|(_, name)| name == LIMITS)
}

/// Numbers with names, as the nodes of a quota hold them: `count=1,bytes=2=;countHardLimit=3`.
struct Numbers(BTreeMap<String, i64>);

impl Numbers {
    /// What does not read as a number is not there.
    fn read(data: &[u8]) -> Self {
        let text = String::from_utf8_lossy(data);
        let pairs = text.split([',', ';']).filter_map(|pair| {
            let mut parts = pair.split('=');
            let (name, number) = (parts.next()?, parts.next()?.parse().ok()?);
            Some((name.to_owned(), number))
        });
        Self(pairs.collect())
    }

    /// The number with this name; -1 if there is none.
    fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(-1)
    }

    fn add(&mut self, name: &str, more: i64) {
        let sum = self.get(name).saturating_add(more);
        self.0.insert(name.to_owned(), sum);
    }

    /// Older clients read the first two only, up to a second `=`.
    fn text(&self) -> String {
        let mut text = format!("count={},bytes={}", self.get("count"), self.get("bytes"));
        let rest = self.0.iter().filter(|(name, _)| !["count", "bytes"].contains(&name.as_str()));
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
        std::iter::successors(Some(path), shorter).take_while(|of| of.len() > 1).find(has)
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
        if over("count", "countHardLimit", nodes) || over("bytes", "byteHardLimit", bytes) {
            return Err(ZkError::QuotaExceeded);
        }
        Ok(())
    }

    /// Counts what a write added at this path.
    pub(super) fn count_in_quota(&mut self, path: &str, nodes: i64, bytes: i64) {
        let Some(of) = self.quota_of(path) else { return };
        let stats = stats_of(of);
        if let Some(mut numbers) = self.numbers(&stats) {
            numbers.add("count", nodes);
            numbers.add("bytes", bytes);
            self.put_numbers(&stats, &numbers);
        }
    }

    /// A new node may be one of a quota. Then what is there is counted, and written into it.
    pub(super) fn maybe_count_all(&mut self, path: &str) {
        if let Some((of, STATS)) = about(path) {
            let (nodes, bytes) = read::sum_of(self.view, of);
            let numbers = [("count".to_owned(), nodes), ("bytes".to_owned(), bytes)];
            self.put_numbers(path, &Numbers(numbers.into()));
        }
    }

    fn put_numbers(&mut self, path: &str, numbers: &Numbers) {
        let Some(mut node) = self.node(path) else { return };
        self.put_data(path, &mut node, Some(numbers.text().as_bytes()));
        self.put_node(path, &node);
    }
}
