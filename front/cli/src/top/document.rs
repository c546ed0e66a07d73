//! Two looks as one JSON document, for programs: the rates in plain numbers, null where nothing is known.

use super::look::{Look, Transfer};
use super::rates::{Called, Rates, Role, Row};
use super::table;
use super::took::{Bound, Took};
use crate::problems::Problem;
use serde_json::{Value, json};

/// What happened between the two looks, and how it is now.
pub(super) fn document(before: Option<&Look>, now: &Look) -> Value {
    let rates = Rates::between(before, now);
    let found = now.found.as_ref().ok();
    let problems = found.iter().flat_map(|found| &found.problems);
    let apart = before.map(|before| now.time_ms.saturating_sub(before.time_ms) as f64 / 1000.0);
    json!({
        "time_ms": now.time_ms,
        "seconds": apart,
        "cluster": found.map(|found| &found.cluster),
        "fault_model": found.map(|found| &found.model),
        "error": now.found.as_ref().err(),
        "answered": rates.answered(),
        "leader": rates.instances.first().filter(|led| led.is_there).and_then(|led| led.leader),
        "requests_per_s": rates.requests,
        "reads_per_s": rates.reads,
        "ordering": took(&rates.ordered),
        "replicas": rates.rows.iter().map(row).collect::<Vec<_>>(),
        "instances": rates.instances.iter().map(|led| json!({
            "instance": led.instance,
            "view": led.view,
            "leader": led.leader.filter(|_| led.is_there),
        })).collect::<Vec<_>>(),
        "calls": rates.calls.iter().map(call).collect::<Vec<_>>(),
        "problems": problems.map(|known| json!({
            "replica": match known.problem {
                Problem::Said { replica, .. } | Problem::Away { replica, .. } => Some(replica),
                Problem::Whole(_) => None,
            },
            "text": known.problem.to_string(),
            "for_s": known.seconds,
        })).collect::<Vec<_>>(),
    })
}

fn took(took: &Took) -> Value {
    let of = |percent| took.percentile(percent).map(Bound::json);
    json!({ "count": took.count(), "p50": of(50), "p99": of(99) })
}

fn row(row: &Row<'_>) -> Value {
    let seen = row.seen;
    let mut document = json!({
        "replica": seen.id,
        "address": seen.address,
        "answers": seen.facts.is_ok(),
        "role": match row.role {
            Role::Leader(_) => "leader".to_owned(),
            other => table::role(other),
        },
        "leads": match row.role {
            Role::Leader(instances) => instances,
            _ => 0,
        },
        "error": seen.facts.as_ref().err(),
        "requests_per_s": row.requests,
        "reads_per_s": row.reads,
        "log_bytes_per_s": row.log_bytes,
        "cpu_cores": row.cpu,
        "write_p99": row.written.map(Bound::json),
        "lag_bytes": row.lag.filter(|lag| *lag != u64::MAX),
        "needs_checkpoint": row.lag == Some(u64::MAX),
    });
    let Ok(facts) = &seen.facts else { return document };
    let checkpoints = &facts.checkpoints;
    let more = json!({
        "executed": facts.executed,
        "memory_bytes": facts.memory,
        "disk_free_bytes": facts.disk_free,
        "lanes_busy": facts.lanes,
        "clients": facts.clients,
        "waiting_bytes": facts.waiting,
        "checkpoint": {
            "last": checkpoints.last,
            "agreed": checkpoints.agreed,
            "durable": checkpoints.durable,
            "writing": checkpoints.writing,
            "diverged": checkpoints.diverged,
            "transfer": checkpoints.transfer.map(|Transfer { done, all, installing }| json!({
                "bytes_done": done, "bytes_total": all, "installing": installing,
            })),
        },
    });
    if let (Value::Object(into), Value::Object(more)) = (&mut document, more) {
        into.extend(more);
    }
    document
}

fn call(call: &Called) -> Value {
    json!({
        "front": call.front,
        "call": call.name,
        "calls_per_s": call.per_s,
        "failed_per_s": call.failed_per_s,
        "took": took(&call.took),
    })
}
