//! Changes any byte of any message; the frame around it is right.

use super::{Plays, Said, Saying, Voice};
use bytes::Bytes;
use quorate_wire::FRAME_HEADER;

/// See the module.
#[derive(Debug)]
pub(super) struct Mutate;

impl Plays for Mutate {
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let frame = said.frame();
        let mut bytes = frame.to_vec().split_off(FRAME_HEADER);
        if bytes.is_empty() {
            return vec![Saying::now(to, said)];
        }
        for _ in 0..=me.rng.below(3) {
            let at = me.rng.below(bytes.len() as u64) as usize;
            match me.rng.below(3) {
                0 => bytes[at] = me.rng.number() as u8,
                1 => bytes[at] ^= 1 << me.rng.below(8),
                _ => bytes.truncate(at.max(1)),
            }
        }
        vec![Saying::now(to, Said::Other(frame.kind(), Bytes::from(bytes)))]
    }
}
