//! Made-up clusters.

use crate::problems::Problem;
use crate::top::look::{Facts, Found, Known, Look, Seen, cut, short};
use serde_json::{Value, json};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Escapes of terminals in one byte and in two, a line end, and a mark that turns the direction of writing.
pub(super) const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\nnext\u{202e}";

/// When made-up looks begin.
static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Counts of durations: so many took at most the bound, in microseconds, of a bucket, and so many took longer than all.
pub(super) fn took(counts: &[(u64, u64)], over: u64) -> Value {
    let bounds = (0..21).map(|at| 16u64 << at);
    let mut sum = 0;
    let buckets: Vec<Value> = bounds
        .map(|bound| {
            sum += counts.iter().filter(|(at, _)| *at == bound).map(|(_, count)| count).sum::<u64>();
            json!([bound as f64 / 1e6, sum])
        })
        .collect();
    json!({ "count": sum + over, "sum_s": 0.5, "buckets": buckets })
}

/// The status of one of `replicas` in a cluster in which instance i is led by replica (i - 1) % replicas + 1, after so many seconds of
/// work: 1000 requests, 200 reads and half a core each.
pub(super) fn status(id: u16, replicas: u16, instances: u16, seconds: u64) -> Value {
    let each = |i: u16| json!({ "instance": i, "view": 3, "leader": (i - 1) % replicas + 1, "leading": (i - 1) % replicas + 1 == id, "state": "here" });
    let others = (1..=replicas).filter(|other| *other != id);
    let leads = (1..=instances).any(|i| (i - 1) % replicas + 1 == id);
    json!({
        "process": { "pid": 100 + id, "start_time_s": 1000, "cpu_s": 0.5 * seconds as f64, "memory_bytes": 50 << 20 },
        "requests": 1000 * seconds, "reads": 200 * seconds, "executed": 1000 * seconds,
        "log": { "position": (2 << 20) * seconds, "disk_full": false, "durability": "group" },
        "latencies": {
            "ordered": if leads { took(&[(256, 900 * seconds), (1024, 100 * seconds)], 0) } else { took(&[], 0) },
            "written": took(&[(512, 10 * seconds)], 0),
        },
        "disk": { "free_bytes": 20u64 << 30, "total_bytes": 100u64 << 30 },
        "seats": { "clients": 7 }, "queue_bytes": 4096,
        "lanes": [{ "busy": 421 }, { "busy": 35 }],
        "checkpoints": { "last_seq": 500, "agreed_seq": 500, "durable_seq": 500, "writing": null, "diverged": null, "transfer": null },
        "instances": { "count": instances, "each": (1..=instances).map(each).collect::<Vec<_>>() },
        "membership": { "removed": false, "members": [] },
        "members": if id == 1 { others.map(|o| json!({ "replica": o, "lag_bytes": 100 * u64::from(o) })).collect() } else { vec![] },
        "calls": {},
    })
}

/// A look after so many seconds at replicas that say this, or do not answer.
pub(super) fn look(seconds: u64, said: Vec<(u16, Result<Value, &str>)>) -> Look {
    let seen = |(id, said): (u16, Result<Value, &str>)| Seen {
        id,
        address: format!("127.0.0.1:{}", 4000 + id),
        at: *BEGIN + Duration::from_secs(seconds),
        facts: said.map(|status| Facts::of(id, &status)).map_err(|why| short(why, 600)),
    };
    let found = Found {
        cluster: "485f5bbc083c7858eda262f611109e78".into(),
        model: "crash".into(),
        replicas: said.into_iter().map(seen).collect(),
        problems: Vec::new(),
    };
    Look { time_ms: 1_796_006_090_266 + seconds * 1000, found: Ok(found) }
}

/// A look at a cluster in which all work.
pub(super) fn healthy(replicas: u16, instances: u16, seconds: u64) -> Look {
    look(seconds, (1..=replicas).map(|id| (id, Ok(status(id, replicas, instances, seconds)))).collect())
}

/// Changes a made-up look.
pub(super) fn with(mut look: Look, change: impl FnOnce(&mut Found)) -> Look {
    change(look.found.as_mut().expect("a cluster"));
    look
}

pub(super) fn said(replica: u16, text: &str, seconds: u64) -> Known {
    Known { problem: cut(Problem::Said { replica, text: text.to_owned() }), seconds }
}
