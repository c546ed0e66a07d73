//! How the harness reads Mod-SMaRt's records, and which record each message must wait for.
//!
//! INV-SCRIPT-7: what a message says about its sender is durable there: its view, what it wrote, what it locked, what it states when it
//! enters a view. This is the table "what must be durable before a message leaves" of docs/protocols/mod_smart.md, checked from the
//! outside.

mod oracle;
mod show;

pub(crate) use oracle::{CLUSTER, INSTANCE, KEYS, claim, rule};
pub(crate) use show::{message, short, stored, view};

use crate::world::Disk;
use quorate_order::OrderMessage;
use quorate_order::mod_smart::message::{Collect, ModSmartBody as Body, ModSmartMessage};
use quorate_order::mod_smart::{RECORD_FLOOR, RECORD_LOCKED, RECORD_VIEW, RECORD_WROTE};
use quorate_types::{Digest, ReplicaId, Slot, View};

type Vote = (Slot, View, Digest);

/// What a replica's durable records say.
#[derive(Default)]
struct OnDisk {
    view: View,
    wrote: Vec<Vote>,
    locked: Vec<Vote>,
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk::<8>().map(|word| u64::from_le_bytes(*word))
}

fn vote(head: &[u8]) -> Option<Vote> {
    let digest = Digest::new(*head.get(16..)?.first_chunk()?);
    Some((Slot::new(u64_at(head, 0)?), View::new(u64_at(head, 8)?), digest))
}

fn read(disk: Disk<'_>) -> OnDisk {
    let mut found = OnDisk::default();
    for record in &disk.records[..disk.durable] {
        let head = &record.head;
        match record.kind {
            RECORD_VIEW => found.view = View::new(u64_at(head, 0).unwrap_or(0)),
            RECORD_FLOOR => found.view = View::new(u64_at(head, 8).unwrap_or(0)),
            RECORD_WROTE => found.wrote.extend(vote(head)),
            RECORD_LOCKED => found.locked.extend(vote(head)),
            _ => {}
        }
    }
    found
}

/// Whether a statement says exactly what lies on disk. No later lock may be left out.
fn states_all(found: &OnDisk, view: View, collect: &Collect) -> bool {
    let slot = collect.decided.next();
    let last = |before: View| {
        let locks = found.locked.iter().rev().find(|vote| vote.0 == slot && vote.1 < before);
        locks.map(|vote| (vote.1, vote.2))
    };
    // By the time that the statement leaves the replica may have gone on in the view that it entered. And a replica that restarts in a view
    // in which it voted sends one, too, to get the SYNC of that view again.
    let locked = collect.lock == last(view) || collect.lock == last(view.next());
    let wrote = |write: &(View, Digest)| found.wrote.contains(&(slot, write.0, write.1));
    locked && collect.writes.iter().all(wrote)
}

/// A [`crate::world::CheckSend`] for Mod-SMaRt.
///
/// # Panics
/// When `message` leaves too early.
pub fn check_send(disk: Disk<'_>, from: ReplicaId, to: ReplicaId, message: &OrderMessage) {
    let Some(message) = message.get::<ModSmartMessage>() else { return };
    let (found, view) = (read(disk), message.view);
    let why = match &message.body {
        _ if view > found.view => Some("view"),
        Body::Write { slot, digest } => (!found.wrote.contains(&(*slot, view, *digest))).then_some("write"),
        Body::Accept { slot, digest, .. } => {
            (!found.locked.contains(&(*slot, view, *digest))).then_some("lock")
        }
        // In a later view by now: the records that it rests on may be superfluous already.
        Body::StopData { .. } if view < found.view => None,
        Body::StopData { collect, .. } => (!states_all(&found, view, collect)).then_some("statement"),
        _ => None,
    };
    if let Some(why) = why {
        panic!(
            "INV-SCRIPT-7: {from} sends {message:?} to {to} before its {why} is durable ({} records are; locks {:?})",
            disk.durable, found.locked
        );
    }
}
