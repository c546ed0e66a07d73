//! What a member does by itself so that the store stays within bounds: it compacts old revisions, and raises the alarm `NOSPACE` when the
//! store holds more than the quota.
//!
//! Each member looks at the store that it has executed, and orders what is to be done, as a client would: so that all replicas do it at the
//! same place. All members do so, whoever leads; what another one was faster with is no error. Tests: `upkeep/tests.rs`,
//! `tests/all/upkeep.rs`.

use crate::backend::Backend;
use quorate_etcd::{Command, EtcdError, Query, SizeNow, proto};
use serde::Deserialize;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

#[cfg(test)]
mod tests;

/// How often to look while the store holds more than half of its quota. What clients write in this time may be over the quota.
const OFTEN: Duration = Duration::from_millis(100);
/// How often to look else.
const SELDOM: Duration = Duration::from_secs(1);
/// How long to wait before an alarm that was cleared is raised again.
const AGAIN: Duration = Duration::from_millis(500);
/// So many times a retention are old revisions compacted.
const PARTS: u32 = 10;

/// How a member keeps the store within bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpkeepConfig {
    /// The most bytes that the store may hold; 0: no limit.
    pub quota_bytes: u64,
    /// What is compacted.
    pub compaction: AutoCompaction,
}

/// Which revisions are compacted without being asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum AutoCompaction {
    /// None.
    #[default]
    Off,
    /// Those that are older than this.
    OlderThan(Duration),
    /// All but so many.
    AllBut(i64),
}

impl TryFrom<String> for AutoCompaction {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let wrong = || format!("auto_compaction is \"1h\", \"10000 revisions\" or \"off\", not \"{text}\"");
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        if number.is_empty() {
            return if text == "off" { Ok(Self::Off) } else { Err(wrong()) };
        }
        let number: u32 = number.parse().ok().filter(|number| *number > 0).ok_or_else(wrong)?;
        let seconds = match unit.trim() {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            "revisions" => return Ok(Self::AllBut(i64::from(number))),
            _ => return Err(wrong()),
        };
        Ok(Self::OlderThan(Duration::from_secs(u64::from(number) * seconds)))
    }
}

/// Decides when to compact, and at which revision.
struct Plan {
    compaction: AutoCompaction,
    /// The revisions that were the newest, and when: at most a little more than [`PARTS`].
    past: VecDeque<(Instant, i64)>,
}

impl Plan {
    const fn new(compaction: AutoCompaction) -> Self {
        Self { compaction, past: VecDeque::new() }
    }

    /// The revision to compact at now, given the newest one and the one compacted last.
    fn due(&mut self, now: Instant, newest: i64, compacted: i64) -> Option<i64> {
        let revision = match self.compaction {
            AutoCompaction::Off => return None,
            AutoCompaction::OlderThan(retention) => self.as_of(now, retention, newest)?,
            AutoCompaction::AllBut(kept) => {
                let revision = newest - kept;
                // A little at a time is dearer than much at once.
                (revision - compacted >= (kept / i64::from(PARTS)).max(1)).then_some(revision)?
            }
        };
        (revision > compacted).then_some(revision)
    }

    /// The newest revision of which it is known that it is as old as the retention. Each is given once.
    fn as_of(&mut self, now: Instant, retention: Duration, newest: i64) -> Option<i64> {
        let last = self.past.back().map(|(at, _)| *at);
        if last.is_none_or(|at| now - at >= retention / PARTS) {
            self.past.push_back((now, newest));
        }
        let mut found = None;
        while let Some((_, revision)) = self.past.pop_front_if(|(at, _)| now - *at >= retention) {
            found = Some(revision);
        }
        found
    }
}

/// Keeps the store within bounds for as long as the front runs.
pub(crate) async fn run(backend: Backend, member: u64, config: UpkeepConfig) {
    let quota = if config.quota_bytes == 0 { u64::MAX } else { config.quota_bytes };
    if quota == u64::MAX && config.compaction == AutoCompaction::Off {
        return;
    }
    let mut plan = Plan::new(config.compaction);
    let mut raised: Option<Instant> = None;
    loop {
        let done = backend.look(&Query::Size).await.ok();
        let seen = done.and_then(|done| Some((done.revision, SizeNow::decode(&done.body)?)));
        let Some((newest, size)) = seen else {
            tokio::time::sleep(SELDOM).await;
            continue;
        };
        if is_over(&size, quota) && raised.is_none_or(|at| at.elapsed() >= AGAIN) {
            raise(&backend, member, &size, quota).await;
            raised = Some(Instant::now());
        }
        if let Some(revision) = plan.due(Instant::now(), newest, size.compacted) {
            compact(&backend, revision).await;
        }
        tokio::time::sleep(if size.bytes > quota / 2 { OFTEN } else { SELDOM }).await;
    }
}

/// Whether the alarm must be raised. While what was compacted is still being removed, a little more is let through: otherwise an alarm that
/// is cleared right after a compaction would come back at once.
const fn is_over(size: &SizeNow, quota: u64) -> bool {
    let slack = if size.is_sweeping { quota / 10 } else { 0 };
    size.bytes > quota.saturating_add(slack)
}

/// Raises the alarm `NOSPACE` for this member, unless it is raised.
async fn raise(backend: &Backend, member: u64, size: &SizeNow, quota: u64) {
    let Ok(alarms) = backend.look(&Query::Alarms).await else { return };
    if quorate_etcd::has_no_space(&alarms.body, member) {
        return;
    }
    tracing::error!(
        bytes = size.bytes,
        quota_bytes = quota,
        "the store holds more than the quota: puts and new leases are refused; compact (etcdctl compact) or delete, then etcdctl alarm \
         disarm; or raise quota_bytes in [front.etcd]"
    );
    let mut message = Vec::new();
    proto::int_field(&mut message, 2, member as i64);
    if let Err(why) = backend.order(Command::Upkeep, message.into()).await {
        tracing::warn!("the alarm NOSPACE could not be raised, and is tried again: {}", why.text);
    }
}

async fn compact(backend: &Backend, revision: i64) {
    let mut message = Vec::new();
    proto::int_field(&mut message, 1, revision);
    match backend.order(Command::Upkeep, message.into()).await {
        Ok(_) => tracing::info!(revision, "revisions below this one were compacted"),
        // Another member was faster.
        Err(refusal) if refusal == EtcdError::Compacted.into() => {}
        Err(why) => {
            tracing::warn!(revision, "a compaction failed; the next one makes up for it: {}", why.text)
        }
    }
}
