//! Asks the oracle for a small quorum, once the usual one did not answer in time.
//!
//! The leader of a view is the only one that asks: in a view without a leader nothing is decided anyway. It knows when each vote, statement
//! or answer was due, and asks for the set of those whose answers came. If the oracle refuses, because an earlier small quorum is missed,
//! the leader goes on listening, and asks again as more members answer: the members that answer after a set was gathered meet that set,
//! since those that did not answer then have stopped, but for s (section 3.2.2; with an oracle the second round is this second try).
//!
//! Tests: tests/gather.rs.

use super::{Claim, Grant, Here, OracleAnswer, OracleRequest, Register, Wish};
use quorate_types::{MembershipId, Reject, ReplicaId, Span, Time, View};

/// The wait until the next reading is doubled at most so often.
const DOUBLINGS_MAX: u32 = 6;

/// What is known of the register, and what was asked.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    /// The register of the present membership, as the oracle said last.
    known: Option<(u64, Register)>,
    /// When the oracle was last asked for what, in which view.
    asked: Option<(Time, View, Vec<ReplicaId>)>,
    /// When it was last read without a wish, and how often the wait until the next time was doubled.
    read: Option<(Time, u32)>,
    /// Whether the oracle said something since the present view was entered.
    fresh: bool,
}

impl Gather {
    /// Another view was entered.
    pub(crate) fn enter(&mut self) {
        (self.asked, self.read, self.fresh) = (None, None, false);
    }

    /// Asks for a small quorum of the present view, unless the same was asked a short time ago. With a claim an oracle that knows the rule
    /// judges it. [visigoth L10-L15]
    pub(crate) fn ask(
        &mut self,
        set: Vec<ReplicaId>,
        claim: Option<Claim>,
        here: Here<'_>,
        now: Time,
        repeat: Span,
    ) -> Option<OracleRequest> {
        let same = |(at, view, asked): &(Time, View, Vec<ReplicaId>)| {
            *view == here.view && *asked == set && now.since(*at) < repeat
        };
        if self.asked.as_ref().is_some_and(same) {
            return None;
        }
        self.asked = Some((now, here.view, set.clone()));
        let wish = claim.map_or_else(|| self.swap(set, here), |claim| Wish::Claim(claim.encode()));
        Some(OracleRequest { membership: here.membership, wish })
    }

    /// The register with this set, if the rule allows it as far as is known. Otherwise the register is read: it may have changed.
    fn swap(&self, set: Vec<ReplicaId>, here: Here<'_>) -> Wish {
        let Some((version, register)) = &self.known else { return Wish::Read };
        let next = register.with(Grant { view: here.view, set }, here.decided, here.voters, here.trust);
        next.map_or(Wish::Read, |next| Wish::Swap(*version, next.encode()))
    }

    /// Asks what the register holds: at once in each view and after news, then more and more rarely. [visigoth L26]
    pub(crate) fn read(
        &mut self,
        membership: MembershipId,
        now: Time,
        repeat: Span,
    ) -> Option<OracleRequest> {
        let doubled = match self.read {
            Some((at, doubled)) if now.since(at) < repeat.times(1 << doubled) => return None,
            Some((_, doubled)) => (doubled + 1).min(DOUBLINGS_MAX),
            None => 0,
        };
        self.read = Some((now, doubled));
        Some(OracleRequest { membership, wish: Wish::Read })
    }

    /// Whether a small quorum of an earlier view binds this one, as far as the oracle said.
    pub(crate) fn is_bound(&self, here: Here<'_>) -> bool {
        let binds = |grant: &Grant| grant.view >= here.decided && grant.view < here.view;
        self.known.iter().flat_map(|(_, register)| register.grants()).any(binds)
    }

    /// Whether a small quorum of an earlier view may bind this one. It is not known before the oracle said something in this view.
    pub(crate) fn may_be_bound(&self, here: Here<'_>) -> bool {
        !self.fresh || self.is_bound(here)
    }

    /// The oracle said what the register holds. Answers may be late, and come twice. Returns whether it is news. [visigoth L16-L18]
    pub(crate) fn told(&mut self, answer: OracleAnswer, here: Here<'_>) -> Result<bool, Reject> {
        let old = self.known.as_ref().is_some_and(|(version, _)| answer.version < *version);
        if answer.membership != here.membership || old {
            return Ok(false);
        }
        let register = Register::decode(answer.value, here.voters, here.trust)?;
        let other = |(version, known): &(u64, Register)| *version == answer.version && *known != register;
        if self.known.as_ref().is_some_and(other) {
            return Err(Reject::NotAllowed(
                "one version of a register with two values: there are two oracles",
            ));
        }
        // Whatever was asked is answered; the same set may be asked for at once if another one swapped in between.
        let changed = self.known.as_ref().is_none_or(|(version, _)| answer.version > *version);
        if changed {
            (self.asked, self.read) = (None, None);
        }
        (self.known, self.fresh) = (Some((answer.version, register)), true);
        Ok(true)
    }

    /// Whether the oracle knows that something was decided in this view, or a later one.
    pub(crate) fn knows_floor(&self, view: View) -> bool {
        self.known.as_ref().is_some_and(|(_, register)| register.floor() >= view)
    }

    /// What the oracle said was granted.
    pub(crate) fn grants(&self) -> impl Iterator<Item = Grant> + '_ {
        self.known.iter().flat_map(|(_, register)| register.grants()).cloned()
    }

    /// The small quorums of this view, as far as the oracle said.
    pub(crate) fn granted(&self, view: View) -> impl Iterator<Item = &Vec<ReplicaId>> {
        let grants = self.known.iter().flat_map(|(_, register)| register.grants());
        grants.filter(move |grant| grant.view == view).map(|grant| &grant.set)
    }
}
