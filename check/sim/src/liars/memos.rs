//! False answers to a member that lacks what was ruled: other steps, other memos, none at all, and answers that nobody asked for.

use super::{Plays, Said, Saying, Voice};
use bytes::Bytes;
use quorate_types::Seq;
use quorate_wire::{FRAME_HEADER, FrameKind, Memos, MemosWanted, OutFrame, SentMemo, Tokens};

/// Tells falsely what batches did.
#[derive(Debug)]
pub(super) struct FalseMemos;

impl Plays for FalseMemos {
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        match &said {
            Said::Other(FrameKind::Memos, payload) => {
                let Ok(memos) = Memos::decode(payload.clone()) else { return vec![Saying::now(to, said)] };
                change(me, memos)
                    .map(|memos| saying(to, FrameKind::Memos, &memos.frame()))
                    .into_iter()
                    .collect()
            }
            Said::Other(FrameKind::Tokens, payload) if me.rng.chance(50) => {
                let last = Tokens::decode(payload.clone()).map_or(Seq::ZERO, |tokens| tokens.last);
                let mut all = unasked(me, to, last);
                all.push(Saying::now(to, said));
                all
            }
            _ => vec![Saying::now(to, said)],
        }
    }
}

fn saying(to: usize, kind: FrameKind, frame: &OutFrame) -> Saying {
    Saying::now(to, Said::Other(kind, Bytes::from(frame.to_vec()).slice(FRAME_HEADER..)))
}

/// A question about everything, and an answer to none.
fn unasked(me: &mut Voice, to: usize, last: Seq) -> Vec<Saying> {
    let up_to = Seq::new(last.number().saturating_add(me.rng.below(4)).max(1));
    let wanted = MemosWanted { after: Seq::ZERO, up_to, from: Seq::new(1) };
    let list = vec![SentMemo { seq: up_to, before: me.digest(), body: Bytes::from(vec![7; 100]) }];
    let memos = Memos { wanted, steps: vec![(up_to, me.digest())], through: up_to, list };
    vec![saying(to, FrameKind::MemosWanted, &wanted.frame()), saying(to, FrameKind::Memos, &memos.frame())]
}

/// The answer, changed in some way.
fn change(me: &mut Voice, mut memos: Memos) -> Option<Memos> {
    let which = me.rng.below(memos.list.len().max(1) as u64) as usize;
    let step = me.rng.below(memos.steps.len().max(1) as u64) as usize;
    match me.rng.below(9) {
        0 => return None,
        1 => {
            let SentMemo { body, .. } = memos.list.get_mut(which)?;
            let mut bytes = body.to_vec();
            let at = me.rng.below(bytes.len().max(1) as u64) as usize;
            *bytes.get_mut(at)? ^= 1 << me.rng.below(8);
            *body = bytes.into();
        }
        2 => memos.list.get_mut(which)?.body = Bytes::new(),
        3 => memos.list.get_mut(which)?.before = me.digest(),
        4 => memos.list.get_mut(which)?.seq = Seq::new(me.rng.number()),
        5 => memos.list.clear(),
        6 => memos.steps.get_mut(step)?.1 = me.digest(),
        7 => memos.steps.get_mut(step)?.0 = Seq::new(me.rng.number()),
        _ => memos.through = Seq::new(me.rng.number()),
    }
    Some(memos)
}
