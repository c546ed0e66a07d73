//! Reading ahead: touches memory that will be needed soon, at many addresses at once.
//!
//! A large store does not fit in the processor's caches, and waiting for memory is most of what a change or a digest costs. When the next
//! steps are known, a little of what each needs is read first, so the processor waits for all addresses together instead of one by one. The
//! results are not used.

use std::hint::black_box;

use super::bucket::Bucket;
use super::node::{Child, Inner};
use super::symbols::place_of;

/// How many keys are looked up together.
pub(super) const WINDOW: usize = 16;

/// Reads the memory that changes of these keys, at most [`WINDOW`], will need.
pub(super) fn of_changes<'k>(top: &Child, keys: impl Iterator<Item = &'k [u8]> + Clone) {
    let mut ways = [(top, 0); WINDOW];
    // One level of all ways at a time, and not further than random keys go.
    for _ in 0..8 {
        let mut moved = false;
        for ((child, depth), key) in ways.iter_mut().zip(keys.clone()) {
            if let Child::Inner(inner) = *child
                && let Some(at) = inner.follow(key, *depth)
                && let Some(next) = inner.child(place_of(key, at))
            {
                (*child, *depth, moved) = (next, at + 1, true);
            }
        }
        if !moved {
            break;
        }
    }
    let mut read = 0;
    for ((child, _), _) in ways.iter().zip(keys.clone()) {
        if let Child::Bucket(bucket) = child {
            read += bucket.read_index_ahead();
        }
    }
    let mut places = [0; WINDOW];
    for ((place, (child, _)), key) in places.iter_mut().zip(&ways).zip(keys) {
        if let Child::Bucket(bucket) = child {
            *place = bucket.place_for(key);
        }
    }
    for ((child, _), place) in ways.iter().zip(places) {
        if let Child::Bucket(bucket) = child {
            read += bucket.read_ahead(place);
        }
    }
    black_box(read);
}

/// Reads the memory that the digests of the buckets two levels below a node will need.
pub(super) fn of_digests<'t>(node: &'t Inner, buckets: &mut Vec<&'t Bucket>) {
    buckets.clear();
    for child in node.unknown_children() {
        if let Child::Inner(inner) = child {
            buckets.extend(inner.unknown_children().filter_map(|child| match child {
                Child::Bucket(bucket) => Some(bucket),
                _ => None,
            }));
        }
    }
    let mut read: u64 = buckets.iter().map(|bucket| bucket.count() as u64).sum();
    read += buckets.iter().map(|bucket| bucket.read_ahead_for_digest()).sum::<u64>();
    black_box(read);
}
