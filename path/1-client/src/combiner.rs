//! How a client compares replies, and what it makes of several, if it does not simply take what f+1 replicas answered byte by byte.
//!
//! Replicas of a service may each make a reply their own on its way out (`OwnReplies` of `quorate_execute`): then f+1 of them say the same in
//! different bytes, and what their client gets is put together from them.
//!
//! Source: Bessani, Sousa, Alchieri, "State Machine Replication for the Masses with BFT-SMaRt", DSN 2014, section 4 (comparator and
//! extractor). docs/decisions/0024-own-replies.md. Tests: tests/combiner.rs.

use bytes::Bytes;
use quorate_types::{Items, ItemsBuilder};
use std::fmt::Debug;
use std::sync::Arc;

/// Compares replies and puts them together; one call of a client may be several commands, and each of their replies is looked at by itself.
/// What replicas send may be anything: nothing here must panic.
pub trait Combiner: Debug + Send + Sync {
    /// Whether two replicas say the same. It must not matter which is `one`; what is the same as a third reply is the same.
    fn same(&self, one: &[u8], other: &[u8]) -> bool {
        one == other
    }

    /// What the caller gets of replies of different replicas, f+1 or more, that are all the same as the first. `None` when these do not
    /// do, since one of them is not what it seems to be: then more replicas are waited for. It is asked again with each that comes.
    fn combine(&self, replies: &[&[u8]]) -> Option<Vec<u8>> {
        replies.first().map(|first| first.to_vec())
    }
}

/// A client's own way to do it.
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
