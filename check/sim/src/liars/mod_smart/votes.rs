//! WRITEs and ACCEPTs that differ from member to member.

use crate::liars::{Plays, Said, Saying, Voice};
use quorate_order::mod_smart::message::{ModSmartBody as Body, ModSmartMessage};
use quorate_types::InstanceId;

/// Votes for whatever each of the others votes for, so that each finds a quorum sooner.
#[derive(Debug)]
pub(in crate::liars) struct DoubleVotes;

impl Plays for DoubleVotes {
    fn instead(&mut self, _me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        // Its own votes wait until it knows what the other one votes for.
        match &said {
            Said::ModSmart(_, message)
                if matches!(message.body, Body::Write { .. } | Body::Accept { .. }) =>
            {
                Vec::new()
            }
            _ => vec![Saying::now(to, said)],
        }
    }

    fn answers(
        &mut self,
        me: &mut Voice,
        from: usize,
        instance: InstanceId,
        message: &ModSmartMessage,
    ) -> Vec<Saying> {
        let (Body::Write { slot, digest } | Body::Accept { slot, digest, .. }) = message.body else {
            return Vec::new();
        };
        let accept = me.accept((instance, message.membership), message.view, slot, digest);
        let say =
            |body| Saying::now(from, Said::ModSmart(instance, ModSmartMessage { body, ..message.clone() }));
        vec![say(Body::Write { slot, digest }), say(accept)]
    }
}

/// Sends some members votes for something that was not proposed.
#[derive(Debug)]
pub(in crate::liars) struct FalseVotes;

impl Plays for FalseVotes {
    fn instead(&mut self, me: &mut Voice, to: usize, mut said: Said) -> Vec<Saying> {
        if let Said::ModSmart(instance, message) = &mut said
            && me.rng.chance(500)
        {
            match message.body {
                Body::Write { slot, .. } => message.body = Body::Write { slot, digest: me.digest() },
                Body::Accept { slot, .. } => {
                    let digest = me.digest();
                    message.body = me.accept((*instance, message.membership), message.view, slot, digest);
                }
                _ => {}
            }
        }
        vec![Saying::now(to, said)]
    }
}
