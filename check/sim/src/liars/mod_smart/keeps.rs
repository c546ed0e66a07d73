//! Keeps back what others need: its accepts and the proof of a decision; or everything except what changes of views need; or some kinds of
//! messages, of some instances, from some members, for ever or for a while.

use crate::liars::{Plays, Said, Saying, Voice};
use quorate_order::mod_smart::message::{ModSmartBody as Body, ModSmartMessage};

/// The longest delay, in nanoseconds, of a message that is sent in the end.
const LATER_MAX: u64 = 8_000_000_000;
/// How many kinds [`kind`] distinguishes.
const KINDS: u64 = 11;

/// See the module.
#[derive(Debug)]
pub(in crate::liars) enum Keeps {
    /// A quorum hears what it proposes and writes. Only the next leader hears what it accepts, and what is decided by that.
    Proofs,
    /// It takes part only in reaching the next view.
    AllButViews,
    /// Kinds, receivers and instances as bits; and the delay.
    Some { kinds: u64, victims: u64, instances: u64, later: Option<u64> },
}

impl Keeps {
    pub(in crate::liars) fn some(me: &mut Voice) -> Self {
        let one = 1 << me.rng.below(KINDS);
        let kinds = if me.rng.chance(500) { one } else { one | me.rng.number() };
        let victims = if me.rng.chance(500) { u64::MAX } else { me.rng.number() | 1 << me.other() };
        let instances = if me.rng.chance(500) { u64::MAX } else { me.rng.number() };
        let later = me.rng.chance(500).then(|| me.rng.spread(50_000_000, LATER_MAX));
        Self::Some { kinds, victims, instances, later }
    }

    /// Keeps back its accepts from all members except one.
    pub(in crate::liars) fn accepts(me: &mut Voice) -> Self {
        let victims = !(1 << me.other());
        Self::Some { kinds: ACCEPTS, victims, instances: u64::MAX, later: None }
    }
}

/// The bit of an ACCEPT in the kinds.
const ACCEPTS: u64 = 1 << 2;

fn kind(body: &Body) -> u64 {
    match body {
        Body::Propose { .. } => 0,
        Body::Write { .. } => 1,
        Body::Accept { .. } => 2,
        Body::Stop { .. } => 3,
        Body::Certificate { .. } => 4,
        Body::StopData { .. } => 5,
        Body::Sync { .. } => 6,
        Body::Decision { .. } => 7,
        Body::Gone { .. } => 8,
        Body::Fetch { .. } => 9,
        _ => KINDS - 1,
    }
}

/// Whether this member is among the first after it that make a quorum with it.
fn is_near(me: &Voice, to: usize) -> bool {
    let faulty = (me.replicas - 1) / 3;
    (to + me.replicas - me.who) % me.replicas < (me.replicas + faulty + 1).div_ceil(2)
}

impl Plays for Keeps {
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let Said::ModSmart(instance, ModSmartMessage { body, .. }) = &said else {
            return vec![Saying::now(to, said)];
        };
        let (kept, later) = match self {
            Self::Proofs => {
                let kept = match kind(body) {
                    0 | 1 => !is_near(me, to),
                    2 | 7 | 8 => true,
                    _ => false,
                };
                (kept, None)
            }
            Self::AllButViews => (!(3..=6).contains(&kind(body)), None),
            Self::Some { kinds, victims, instances, later } => {
                let bits = [(*kinds, kind(body)), (*victims, to as u64 % 64), {
                    (*instances, u64::from(instance.number()) % 64)
                }];
                (bits.into_iter().all(|(set, bit)| set >> bit & 1 == 1), *later)
            }
        };
        match (kept, later) {
            (false, _) => vec![Saying::now(to, said)],
            (true, Some(after)) => vec![Saying { to, after, said }],
            (true, None) => Vec::new(),
        }
    }
}
