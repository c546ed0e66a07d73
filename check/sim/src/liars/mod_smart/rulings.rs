//! A leader that orders false rulings about results, or none.

use super::batches::propose;
use crate::liars::tokens::false_token;
use crate::liars::voice::{rebuilt, requests_of};
use crate::liars::{Plays, Said, Saying, Voice};
use quorate_types::Seq;
use quorate_wire::{BatchHeader, FrameKind, Ruling, Tokens};

/// How a leader lies about rulings.
#[derive(Debug)]
pub(in crate::liars) enum FalseRulings {
    /// It takes its own word, or a made-up one, for that of a quorum. What it told last.
    TooFew(Option<(u64, Seq)>),
    /// It lets everything run again and again.
    AlwaysRedo,
    /// It orders no rulings.
    Withheld,
}

impl Plays for FalseRulings {
    fn instead(&mut self, _me: &mut Voice, to: usize, mut said: Said) -> Vec<Saying> {
        if let (Self::TooFew(last), Said::Other(FrameKind::Tokens, payload)) = (&mut *self, &said)
            && let Ok(tokens) = Tokens::decode(payload.clone())
        {
            *last = tokens.list.last().map(|(seq, _)| (tokens.attempt, *seq)).or(*last);
        }
        propose(&mut said, |_, batch| {
            let header = batch.header();
            let ruling = match self {
                Self::TooFew(Some((attempt, seq))) => {
                    // The same for all members, or none of them gets a quorum for it.
                    Some(Ruling::Final { attempt: *attempt, seq: *seq, token: false_token(*attempt, *seq) })
                }
                Self::TooFew(None) => header.ruling,
                Self::AlwaysRedo => {
                    Some(Ruling::Redo { attempt: header.ruling.map_or(0, |own| own.attempt()) })
                }
                Self::Withheld => None,
            };
            rebuilt(BatchHeader { ruling, ..header }, &requests_of(batch))
        });
        vec![Saying::now(to, said)]
    }
}
