//! Wrong digests of states, and wrong parts of checkpoints.

use super::{Plays, Said, Saying, Voice};
use crate::plan::Lie;
use crate::random::Rng;
use quorate_types::Seq;
use quorate_wire::StateMessage;

/// What was done to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twisted {
    /// The message is unchanged.
    Not,
    /// The message is wrong now.
    Wrong,
    /// The message is not sent.
    Gone,
}

/// Makes a part of a checkpoint wrong.
pub fn twist(lie: Lie, message: &mut StateMessage, rng: &mut Rng) -> Twisted {
    // A replica that lies at once is never asked again.
    if lie != Lie::Silent && rng.chance(400) {
        return Twisted::Not;
    }
    match message {
        StateMessage::Manifest { bytes, .. } | StateMessage::Chunk { bytes, .. } => {
            let len = bytes.len() as u64;
            match lie {
                Lie::Silent => return Twisted::Gone,
                Lie::Flip if len > 0 => {
                    let mut wrong = bytes.to_vec();
                    wrong[rng.below(len) as usize] ^= 1 << rng.below(8);
                    *bytes = wrong.into();
                }
                Lie::Truncate if len > 1 => bytes.truncate(rng.range(1, len - 1) as usize),
                _ => {}
            }
        }
        _ => return Twisted::Not,
    }
    if let (StateMessage::Chunk { chunk, .. }, Lie::Other) = (message, lie) {
        *chunk = chunk.saturating_add(1);
    }
    Twisted::Wrong
}

/// Makes up digests, a different one for each member, and borders that never were.
#[derive(Debug)]
pub(super) struct Digests;

impl Plays for Digests {
    fn instead(&mut self, me: &mut Voice, to: usize, mut said: Said) -> Vec<Saying> {
        let mut more = Vec::new();
        if let Said::State(StateMessage::Digest { seq, digest, held }) = &mut said {
            let honest = *seq;
            *digest = me.digest();
            *held = me.rng.chance(500);
            let far = match me.rng.below(3) {
                0 => u64::MAX,
                1 => honest.number().saturating_add(me.rng.below(1000)),
                _ => me.rng.below(honest.number().saturating_add(1)),
            };
            let digest = me.digest();
            more.push(Saying::now(
                to,
                Said::State(StateMessage::Digest { seq: Seq::new(far), digest, held: true }),
            ));
        }
        let mut list = vec![Saying::now(to, said)];
        list.extend(more);
        list
    }
}

/// Sends wrong parts of checkpoints.
#[derive(Debug)]
pub(super) struct Transfers(pub(super) Lie);

impl Plays for Transfers {
    fn instead(&mut self, me: &mut Voice, to: usize, mut said: Said) -> Vec<Saying> {
        if let Said::State(message) = &mut said
            && twist(self.0, message, &mut me.rng) == Twisted::Gone
        {
            return Vec::new();
        }
        vec![Saying::now(to, said)]
    }
}
