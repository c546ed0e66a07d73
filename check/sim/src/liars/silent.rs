//! Sends nothing; or nothing of some kinds, to some members.

use super::{Plays, Said, Saying, Voice};
use quorate_order::mod_smart::message::ModSmartBody as Body;

/// The messages that are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    All,
    Proposals,
    Votes,
    Views,
    Decisions,
    State,
    Rest,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Silent {
    /// The members that do not get it, as bits.
    victims: u64,
    what: What,
}

impl Silent {
    pub(super) fn to_all() -> Self {
        Self { victims: u64::MAX, what: What::All }
    }

    /// Silent towards nobody.
    pub(super) fn to_none() -> Self {
        Self { victims: 0, what: What::All }
    }

    /// Silent towards one member, or some.
    pub(super) fn to_some(me: &mut Voice) -> Self {
        let one = 1 << me.other();
        let victims = if me.rng.chance(500) { one } else { me.rng.number() | one };
        let kinds = [
            What::All,
            What::All,
            What::Proposals,
            What::Votes,
            What::Views,
            What::Decisions,
            What::State,
            What::Rest,
        ];
        Self { victims, what: me.rng.pick(&kinds) }
    }
}

fn kind(said: &Said) -> What {
    match said {
        Said::ModSmart(_, message) => match &message.body {
            Body::Propose { .. } => What::Proposals,
            Body::Write { .. } | Body::Accept { .. } => What::Votes,
            Body::Stop { .. } | Body::Certificate { .. } | Body::StopData { .. } | Body::Sync { .. } => {
                What::Views
            }
            Body::Decision { .. } | Body::Gone { .. } => What::Decisions,
            _ => What::Rest,
        },
        Said::State(_) => What::State,
        Said::Other(..) => What::Rest,
    }
}

impl Plays for Silent {
    fn instead(&mut self, _me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let hushed = self.victims >> to & 1 == 1 && (self.what == What::All || self.what == kind(&said));
        if hushed { Vec::new() } else { vec![Saying::now(to, said)] }
    }
}
