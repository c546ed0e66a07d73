//! False tokens of results: others for each member, the same false ones as other liars, old and far ones, or none at all.

use super::{Plays, Said, Saying, Voice};
use bytes::Bytes;
use quorate_types::{Digest, Seq};
use quorate_wire::{FRAME_HEADER, FrameKind, TOKENS_MAX, Tokens};

/// Tells false tokens.
#[derive(Debug)]
pub(super) struct FalseTokens;

/// The false token on which all liars agree.
pub(super) fn false_token(attempt: u64, seq: Seq) -> Digest {
    let mut bytes = [0xfa; Digest::BYTES];
    bytes[..8].copy_from_slice(&seq.number().to_le_bytes());
    bytes[8..16].copy_from_slice(&attempt.to_le_bytes());
    Digest::new(bytes)
}

impl Plays for FalseTokens {
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let Said::Other(FrameKind::Tokens, payload) = &said else { return vec![Saying::now(to, said)] };
        let Ok(mut tokens) = Tokens::decode(payload.clone()) else { return vec![Saying::now(to, said)] };
        let mut twice = false;
        match me.rng.below(8) {
            0 => return Vec::new(),
            1 => tokens.list.iter_mut().for_each(|(_, token)| *token = me.digest()),
            2 => tokens.attempt = tokens.attempt.wrapping_add(me.rng.pick(&[1, 2, u64::MAX])),
            3 => tokens.list.iter_mut().for_each(|(seq, _)| *seq = Seq::new(me.rng.number())),
            4 => {
                let far = tokens.list.last().map_or(0, |(seq, _)| seq.number());
                let list = (0..TOKENS_MAX as u64).map(|at| (Seq::new(far.saturating_add(at)), me.digest()));
                tokens.list = list.collect();
            }
            // The honest token comes, too.
            5 => twice = true,
            _ => tokens.list.iter_mut().for_each(|(seq, token)| *token = false_token(tokens.attempt, *seq)),
        }
        if twice {
            tokens.list.iter_mut().for_each(|(_, token)| *token = me.digest());
        }
        let frame = Bytes::from(tokens.frame().to_vec()).slice(FRAME_HEADER..);
        let mut list = vec![Saying::now(to, Said::Other(FrameKind::Tokens, frame))];
        if twice {
            list.push(Saying::now(to, said));
        }
        list
    }
}
