//! What replicas say of their checkpoints, and the judgement: nothing lost, and the same digest everywhere.

use super::filling::Filler;
use crate::rig::cluster::{Cluster, REPLICAS, quorate, wait};
use crate::rig::load::Load;
use crate::rig::verify;
use serde_json::Value;
use std::process::Output;

/// What a replica says whose log was damaged, until the file with the damage is not needed any more.
pub(crate) const LOG_ROT: &str = "the log on this disk is damaged";

/// What `status` says of a replica's checkpoints; nothing when it does not answer.
pub(crate) fn checkpoints(cluster: &Cluster, at: usize) -> Value {
    cluster.status(at).map_or(Value::Null, |status| status["checkpoints"].clone())
}

/// A number there, 0 when there is none.
pub(crate) fn number(cluster: &Cluster, at: usize, key: &str) -> u64 {
    checkpoints(cluster, at)[key].as_u64().unwrap_or_default()
}

pub(crate) fn executed(cluster: &Cluster, at: usize) -> u64 {
    cluster.status(at).and_then(|status| status["executed"].as_u64()).unwrap_or_default()
}

/// What the replica says is wrong; nothing when it does not answer.
pub(crate) fn problems(cluster: &Cluster, at: usize) -> Option<Vec<String>> {
    let status = cluster.status(at)?;
    let problems = status["problems"].as_array()?;
    Some(problems.iter().map(|problem| problem.as_str().unwrap_or_default().to_owned()).collect())
}

pub(crate) fn has_problem(cluster: &Cluster, at: usize, part: &str) -> bool {
    problems(cluster, at).unwrap_or_default().iter().any(|problem| problem.contains(part))
}

/// Waits until these replicas hold a checkpoint at least so new, which the others have, too.
#[track_caller]
pub(crate) fn wait_for_checkpoint(cluster: &mut Cluster, replicas: &[usize], above: u64) {
    wait_well(cluster, "a checkpoint is durable and agreed on", |cluster| {
        replicas.iter().all(|at| {
            let seen = checkpoints(cluster, *at);
            let number = |key: &str| seen[key].as_u64().unwrap_or_default();
            number("durable_seq") > above && number("agreed_seq") > above
        })
    });
}

/// Waits until the replica has caught up with the others, and finds nothing wrong but old damage in its log.
#[track_caller]
pub(crate) fn wait_until_sound(cluster: &mut Cluster, at: usize) {
    let goal = (0..REPLICAS).map(|other| executed(cluster, other)).max().unwrap_or_default();
    let mut last = (0, None, Value::Null);
    let sound = |cluster: &Cluster| {
        last = (executed(cluster, at), problems(cluster, at), checkpoints(cluster, at));
        let (executed, problems, checkpoints) = &last;
        *executed >= goal
            && problems
                .as_ref()
                .is_some_and(|problems| problems.iter().all(|problem| problem.contains(LOG_ROT)))
            && checkpoints["transfer"].is_null()
            && checkpoints["rotten"] == 0
    };
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wait_well(cluster, "the replica is sound and has caught up", sound);
    }));
    assert!(found.is_ok(), "replica {} is not sound (goal {goal}): {last:?}\n{}", at + 1, cluster.tail(at));
}

/// Waits; meanwhile nobody may end by itself.
#[track_caller]
pub(crate) fn wait_well(cluster: &mut Cluster, what: &str, mut done: impl FnMut(&Cluster) -> bool) {
    wait(what, || {
        cluster.check_all_running();
        done(cluster)
    });
}

/// Runs `quorate scrub` on one replica.
pub(crate) fn scrub(cluster: &Cluster, at: usize) -> Output {
    let replica = cluster.replica(at).number().to_string();
    quorate()
        .args(["scrub", &replica, "--json", "--timeout", "30", "--dir"])
        .arg(cluster.root())
        .output()
        .unwrap()
}

/// What one said that was run: how many places it mended.
#[track_caller]
pub(crate) fn mended(scrubbed: &Output) -> u64 {
    let out = String::from_utf8_lossy(&scrubbed.stdout).into_owned();
    let err = String::from_utf8_lossy(&scrubbed.stderr).into_owned();
    assert!(scrubbed.status.success(), "{}: {out}{err}", scrubbed.status);
    let said: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(said[0]["damaged"], 0, "{out}");
    said[0]["mended"].as_u64().unwrap_or_else(|| panic!("{out}"))
}

/// The whole judgement: the history is legal, everything acknowledged is there, and all replicas have the same state at the same
/// border. Returns how many operations were answered.
#[track_caller]
pub(crate) fn finish(cluster: &mut Cluster, load: &mut Load, keys: u64, filler: Option<&mut Filler>) -> u64 {
    let answered = verify::finish(cluster, load, keys);
    let mut own = None;
    let filler = filler.unwrap_or_else(|| own.insert(Filler::new(cluster, 4, 40 << 10)));
    filler.check();
    same_digests(cluster, filler);
    answered
}

/// All replicas agree on the state at the newest border: with words of their own, not just by what we read of them.
#[track_caller]
fn same_digests(cluster: &mut Cluster, filler: &mut Filler) {
    let mut seen = Vec::new();
    wait("all replicas have the same digest at the same border", || {
        cluster.check_all_running();
        let even = cluster.wait_until_even();
        seen = (0..REPLICAS).map(|at| checkpoints(cluster, at)).collect();
        let last = |of: &Value| (of["last_seq"].as_u64(), of["last_digest"].as_str().map(str::to_owned));
        let (seq, digest) = last(&seen[0]);
        if digest.is_some()
            && seen.iter().all(|of| last(of) == (seq, digest.clone()) && of["agreed_seq"].as_u64() == seq)
        {
            return true;
        }
        // After a restart a replica knows of no border before the next one.
        if seen.iter().all(|of| of["last_digest"].is_string() || of["last_seq"] == 0)
            && executed(cluster, 0) == even
        {
            let _ = filler.write();
        }
        false
    });
    for (at, of) in seen.iter().enumerate() {
        assert!(of["diverged"].is_null() && of["rotten"] == 0, "replica {}: {of}", at + 1);
        let problems = problems(cluster, at);
        assert_eq!(problems, Some(Vec::new()), "replica {}", at + 1);
    }
    assert_eq!((0..REPLICAS).filter(|at| cluster.printed(*at).contains("has diverged")).count(), 0);
}
