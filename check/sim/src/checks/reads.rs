//! INV-SIM-READS: a read's answer is the state at the seq that it names. Session and strong reads of a client see all that it wrote and
//! saw before, at whatever replica; reads that were open at the same time may end in any order. Of reads that were ordered like commands
//! only the lowest seq is known: their answer is the state at that seq or a later one. `linear` judges these, too.

use super::Failure;
use crate::client::{Done, Way};
use crate::service::{LIST, Row, ServiceConfig, Watched};
use quorate_execute::{Context, ReplySink, Service};
use quorate_history::Outcome;
use quorate_kv::KvQuery;
use quorate_types::{AgreedTime, Seq};
use std::collections::{BTreeMap, BTreeSet};

/// Judges all reads against what was executed.
///
/// # Errors
/// Names the first read that broke a promise.
pub fn judge(dones: &[&Done], rows: &[Row]) -> Result<(), Failure> {
    let answered =
        |done: &&&Done| done.way != Way::Command && matches!(done.outcome, Some(Outcome::Ok { .. }));
    let reads = dones.iter().filter(answered).copied();
    let (ordered, mut reads): (Vec<&Done>, Vec<&Done>) = reads.partition(|done| done.way == Way::Ordered);
    judge_ordered(&ordered, rows)?;
    reads.sort_by_key(|done| done.seq);
    let mut service = Watched::new(ServiceConfig::default(), None);
    let mut rows = rows.iter().peekable();
    for read in &reads {
        while let Some(row) = rows.next_if(|row| row.seq <= read.seq) {
            run(&mut service, row);
        }
        let reply = asked(&service, &read.key);
        if reply != read.reply {
            let (is, was) = (String::from_utf8_lossy(&reply), String::from_utf8_lossy(&read.reply));
            let text = format!("{read:?}: at seq {} the answer is {is:?}, and it was {was:?}", read.seq);
            return Err(Failure::new("reads", text));
        }
    }
    never_back(&reads)
}

fn run(service: &mut Watched, row: &Row) {
    let mut reply = Vec::new();
    let ctx = Context::at(Seq::new(row.seq), AgreedTime::from_nanos(row.time));
    service.execute(&row.command, &ctx, &mut ReplySink::new(&mut reply, 1 << 20));
}

/// What the service now answers to a read of this key or list.
fn asked(service: &Watched, key: &str) -> Vec<u8> {
    let mut query = Vec::new();
    if key.starts_with('l') {
        query.push(LIST);
        query.extend_from_slice(key.as_bytes());
    } else {
        KvQuery::Get { key: key.as_bytes() }.encode(&mut query);
    }
    let mut reply = Vec::new();
    service.query(
        &query,
        &Context::at(Seq::ZERO, AgreedTime::ZERO),
        &mut ReplySink::new(&mut reply, 1 << 20),
    );
    reply
}

/// Reads of which only the lowest seq is known: their answer must be right at that seq or a later one.
fn judge_ordered(reads: &[&Done], rows: &[Row]) -> Result<(), Failure> {
    // The last seq at which each key had each of its values.
    let mut until: BTreeMap<&str, BTreeMap<Vec<u8>, u64>> = BTreeMap::new();
    let keys: BTreeSet<&str> = reads.iter().map(|read| read.key.as_str()).collect();
    let mut service = Watched::new(ServiceConfig::default(), None);
    let mut note = |service: &Watched, seq: u64| {
        for key in &keys {
            until.entry(key).or_default().insert(asked(service, key), seq);
        }
    };
    note(&service, rows.first().map_or(u64::MAX, |row| row.seq - 1));
    for (at, row) in rows.iter().enumerate() {
        run(&mut service, row);
        // It has it until something else is executed.
        let next = rows.get(at + 1).map_or(u64::MAX, |next| row.seq.max(next.seq - 1));
        note(&service, next);
    }
    for read in reads {
        let last = until.get(read.key.as_str()).and_then(|values| values.get(&read.reply));
        if last.is_none_or(|last| *last < read.seq) {
            let was = String::from_utf8_lossy(&read.reply);
            let text = format!("{read:?}: the answer was {was:?}, which it is until seq {last:?} at most");
            return Err(Failure::new("reads", text));
        }
    }
    Ok(())
}

/// A session or strong read is at least as new as every read of the same client that ended before it was asked.
fn never_back(reads: &[&Done]) -> Result<(), Failure> {
    for later in reads.iter().filter(|read| read.way != Way::Weak) {
        let before = reads.iter().filter(|read| {
            read.id.0 == later.id.0 && read.ret.is_some_and(|ret| ret < later.call) && read.seq > later.seq
        });
        if let Some(before) = before.max_by_key(|read| read.seq) {
            let text =
                format!("{later:?} went back to seq {}, after {before:?} at {}", later.seq, before.seq);
            return Err(Failure::new("reads", text));
        }
    }
    Ok(())
}

/// Session reads see what their client wrote.
///
/// # Errors
/// When one is older than a command of its client that was acknowledged before it was asked.
pub fn own(
    dones: &[&Done],
    rows: &[Row],
    index_of: impl Fn((u32, u32)) -> Option<usize>,
) -> Result<(), Failure> {
    let clients: BTreeSet<u32> = dones.iter().map(|done| done.id.0).collect();
    for client in clients {
        let of_client: Vec<&Done> = dones.iter().filter(|done| done.id.0 == client).copied().collect();
        after_acked(&of_client, Way::Session, rows, &index_of)?;
    }
    Ok(())
}

/// The seq that a strong read must reach: that of the newest command that was acknowledged before the read was asked.
///
/// # Errors
/// When a strong read is older.
pub fn fresh(
    dones: &[&Done],
    rows: &[Row],
    index_of: impl Fn((u32, u32)) -> Option<usize>,
) -> Result<(), Failure> {
    after_acked(dones, Way::Strong, rows, &index_of)
}

/// Reads of this kind see every one of these commands that was acknowledged before they were asked.
fn after_acked(
    dones: &[&Done],
    way: Way,
    rows: &[Row],
    index_of: &impl Fn((u32, u32)) -> Option<usize>,
) -> Result<(), Failure> {
    let mut acked: Vec<(u64, u64)> = dones
        .iter()
        .filter(|done| done.way == Way::Command && matches!(done.outcome, Some(Outcome::Ok { .. })))
        .filter_map(|done| Some((done.ret?, rows.get(index_of(done.id)?)?.seq)))
        .collect();
    acked.sort_unstable();
    for at in 1..acked.len() {
        acked[at].1 = acked[at].1.max(acked[at - 1].1);
    }
    for read in dones.iter().filter(|done| done.way == way) {
        if !matches!(read.outcome, Some(Outcome::Ok { .. })) {
            continue;
        }
        let before = acked.partition_point(|(ret, _)| *ret < read.call);
        let least = before.checked_sub(1).map_or(0, |at| acked[at].1);
        if read.seq < least {
            let text =
                format!("{read:?} saw seq {}, and {least} was acknowledged before it was asked", read.seq);
            return Err(Failure::new("reads", text));
        }
    }
    Ok(())
}
