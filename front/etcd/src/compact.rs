//! Compaction: entries below a revision can no longer be asked for, and are removed.
//!
//! The command only notes the revision. Sweeping removes the entries: it looks at a bounded number of them with each batch, so that no
//! command waits for all. For each entry below the revision the earlier entry of the same key is removed; if the entry is a deletion, it is
//! removed too. Entries of the revision itself, deletions as well, stay until the next compaction, as in etcd, since a watch may begin
//! there; the entries before them are removed. How far sweeping is can not be observed from outside.
//! Tests: `tests/all/edges.rs`, `tests/all/store.rs`.

use crate::error::EtcdError;
use crate::space::{ENTRY, Entry, GONE, Head, Meta, Revision, named};
use quorate_execute::Store;
use quorate_types::planted;

/// The fewest and the most entries that are looked at with a batch, while there are that many.
const STEPS: usize = 1000;
const STEPS_MAX: usize = 10_000;
/// This part of what is left to look at is looked at with a batch: where clients write faster than [`STEPS`] for each batch, sweeping
/// becomes as fast as they are.
const PART: i64 = 64;

/// Runs the command `Compact`.
pub(crate) fn compact(meta: &mut Meta, revision: i64) -> Result<(), EtcdError> {
    if revision <= meta.compacted {
        return Err(EtcdError::Compacted);
    }
    if revision > meta.revision {
        return Err(EtcdError::FutureRevision);
    }
    if meta.swept.main == meta.compacted {
        // Its own entries are like all others now.
        meta.swept.sub = 0;
    }
    meta.compacted = revision;
    Ok(())
}

/// Looks at the next entries. Says whether the store's numbers changed.
pub(crate) fn sweep(store: &mut Store, meta: &mut Meta, buffer: &mut Vec<u8>) -> bool {
    if !meta.is_sweeping() {
        return false;
    }
    let end = Revision { main: meta.compacted, sub: 0 };
    let own = !planted("sweep-before-revision");
    let stop = Revision { main: end.main + i64::from(own), sub: 0 };
    let (start, stop) = (meta.swept.key(), stop.key());
    let steps = ((meta.compacted - meta.swept.main) / PART).clamp(STEPS as i64, STEPS_MAX as i64) as usize;
    let looked: Vec<Step> = store
        .range(start.bytes(), Some(stop.bytes()))
        .take(steps)
        .filter_map(|(key, bytes)| {
            debug_assert_eq!(key.first(), Some(&ENTRY));
            Revision::of_key(key).map(|at| Step::new(at, Entry::decode(bytes)))
        })
        .collect();
    meta.swept = match looked.last() {
        Some(last) if looked.len() == steps => last.at.next(),
        _ => end,
    };
    let mut gone: Vec<Vec<u8>> = Vec::new();
    for step in &looked {
        let is_own = step.at.main == end.main;
        if let Some(before) = step.before.filter(|before| !is_own || before.main < end.main) {
            gone.push(before.key().bytes().to_vec());
        }
        if let Some(key) = step.deletes.as_ref().filter(|_| !is_own) {
            gone.push(step.at.key().bytes().to_vec());
            let name = named(buffer, GONE, key);
            // The key may have got a value since, and lost it.
            if store.get(name).is_some_and(|bytes| Head::decode(bytes).at == step.at) {
                gone.push(name.to_vec());
            }
        }
    }
    gone.sort_unstable();
    store.apply_sorted(&gone.iter().map(|key| (key.as_slice(), None)).collect::<Vec<_>>());
    true
}

/// What an entry says about the entries to remove.
struct Step {
    at: Revision,
    before: Option<Revision>,
    /// The key that the entry deletes.
    deletes: Option<Vec<u8>>,
}

impl Step {
    fn new(at: Revision, entry: Entry<'_>) -> Self {
        Self { at, before: entry.before, deletes: entry.deletes.then(|| entry.key().to_vec()) }
    }
}
