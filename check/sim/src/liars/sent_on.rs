//! Forwards requests of which it claims that clients sent them.

use super::{Plays, Said, Saying, Voice};
use crate::replica::REQUEST_MAX;
use bytes::Bytes;
use quorate_wire::FrameKind;

/// See the module.
#[derive(Debug)]
pub(super) struct SentOn;

impl Plays for SentOn {
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let mut list = vec![Saying::now(to, said)];
        if to >= me.replicas {
            return list;
        }
        let mut bytes = Vec::new();
        for _ in 0..=me.rng.below(3) {
            let known = me.rng.below(me.requests.len() as u64) as usize;
            match (me.rng.below(4), me.requests.get(known).cloned()) {
                (0, _) => bytes.extend_from_slice(&me.opening()),
                (1, Some(known)) => {
                    // Altered where it hurts: the value.
                    let mut altered = known.to_vec();
                    if let Some(last) = altered.last_mut() {
                        *last ^= 1;
                    }
                    bytes.extend_from_slice(&altered);
                }
                (2, Some(known)) => bytes.extend_from_slice(&known),
                _ => bytes.extend_from_slice(&me.request()),
            }
        }
        if me.rng.chance(50) {
            bytes.extend_from_slice(&vec![7; REQUEST_MAX * 2]);
        }
        list.push(Saying::now(to, Said::Other(FrameKind::Requests, Bytes::from(bytes))));
        list
    }
}
