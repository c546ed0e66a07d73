//! How a client compares replies and combines them, when it does not take the reply that f+1 replicas gave byte by byte.
//!
//! A service may let each replica send its own form of a reply (`OwnReplies` of `quorate_execute`). Then f+1 replicas say the same in
//! different bytes, and the client's result is put together from them.
//!
//! Source: Bessani, Sousa, Alchieri, "State Machine Replication for the Masses with BFT-SMaRt", DSN 2014, section 4 (comparator and
//! extractor). docs/decisions/0024-own-replies.md. Tests: tests/combiner.rs.

use bytes::Bytes;
use quorate_types::{Items, ItemsBuilder};
use std::fmt::Debug;
use std::sync::Arc;

/// Compares replies and combines them. One call of a client may hold several commands; each of their replies is handled separately. A lying
/// replica may send any bytes, so an implementation must never panic.
pub trait Combiner: Debug + Send + Sync {
    /// Whether two replicas say the same. This must be symmetric and transitive.
    fn same(&self, one: &[u8], other: &[u8]) -> bool {
        one == other
    }

    /// The caller's result, from replies of f+1 or more different replicas that all say the same as the first. `None` when these replies do
    /// not give a result, since a replica lied; the client then waits for more replies and asks again with each.
    fn combine(&self, replies: &[&[u8]]) -> Option<Vec<u8>> {
        replies.first().map(|first| first.to_vec())
    }
}

/// The combiner of one client.
#[derive(Clone, Debug)]
pub struct Combines(pub Arc<dyn Combiner>);

impl PartialEq for Combines {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Combines {}

impl Combines {
    /// Whether two lists of replies say the same.
    pub(crate) fn same(&self, one: &[u8], other: &[u8]) -> bool {
        let (Ok(ones), Ok(others)) = (Items::parse(one), Items::parse(other)) else { return one == other };
        let mut pairs = ones.iter().zip(others.iter());
        ones.len() == others.len() && pairs.all(|(one, other)| self.0.same(one, other))
    }

    /// The list of replies for the caller.
    pub(crate) fn combine(&self, lists: &[&Bytes]) -> Option<Bytes> {
        let parsed: Result<Vec<Items<'_>>, _> = lists.iter().map(|list| Items::parse(list)).collect();
        let Ok(parsed) = parsed else { return lists.first().map(|list| (*list).clone()) };
        let mut all: Vec<_> = parsed.iter().map(Items::iter).collect();
        let mut combined = ItemsBuilder::new();
        loop {
            // They are equally long, since they are the same.
            let replies: Vec<&[u8]> = all.iter_mut().filter_map(Iterator::next).collect();
            if replies.len() < lists.len() {
                break;
            }
            combined.push(&self.0.combine(&replies)?);
        }
        let mut bytes = Vec::new();
        combined.write_to(&mut bytes);
        Some(bytes.into())
    }
}
