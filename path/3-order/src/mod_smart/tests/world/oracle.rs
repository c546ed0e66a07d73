//! The oracle: a register for each membership. It is late, answers twice, or never.

use super::{Event, INSTANCE, World, replica};
use crate::Input;
use crate::mod_smart::{Referee, Statements};
use crate::visigoth::{Claim, OracleAnswer, OracleRequest, Register, Wish};
use bytes::Bytes;
use quorate_types::{ClusterId, Faults, MembershipId, Span};
use std::collections::BTreeMap;

/// The registers, and how well the oracle does.
#[derive(Default)]
pub(in crate::mod_smart::tests) struct Oracle {
    registers: BTreeMap<MembershipId, (u64, Bytes)>,
    /// Nobody reaches it.
    pub(in crate::mod_smart::tests) unreachable: bool,
    /// How many swaps it did.
    pub(in crate::mod_smart::tests) swaps: u64,
}

impl Oracle {
    /// Whatever anybody wishes: where members may lie, it takes nothing but claims.
    fn serve(&mut self, request: OracleRequest, referee: &Referee<'_>, may_lie: bool) -> OracleAnswer {
        let register = self.registers.entry(request.membership).or_default();
        let next = match request.wish {
            Wish::Swap(version, value) => (version == register.0 && !may_lie).then_some(value),
            Wish::Claim(claim) => judge(&register.1, claim, referee),
            Wish::Read => None,
        };
        if let Some(value) = next {
            *register = (register.0 + 1, value);
            self.swaps += 1;
        }
        OracleAnswer { membership: request.membership, version: register.0, value: register.1.clone() }
    }
}

/// The register after this claim, if it changes.
fn judge(register: &Bytes, claim: Bytes, referee: &Referee<'_>) -> Option<Bytes> {
    let register = Register::read(register.clone()).expect("a register of ours");
    let next = referee.judge(&register, Claim::decode(claim).ok()?).ok()?;
    (next != register).then(|| next.encode())
}

impl World {
    /// A replica asks the oracle.
    pub(super) fn ask_oracle(&mut self, at: usize, request: OracleRequest) {
        let life = self.machines[at].life;
        for _ in 0..1 + u64::from(self.random.below(1000) < self.doubled) {
            if self.random.below(1000) >= self.lost {
                let span = self.random_span(self.delay_max);
                self.schedule(span, Event::Asked { at, life, request: request.clone() });
            }
        }
    }

    /// The question arrives; the answer leaves.
    pub(super) fn on_asked(&mut self, at: usize, life: u64, request: OracleRequest) {
        if self.oracle.unreachable {
            return;
        }
        let voters: Vec<_> = (0..self.plan.members).map(replica).collect();
        let statements =
            Statements { cluster: ClusterId::new(0), membership: request.membership, instance: INSTANCE };
        let trust = Faults::of(self.plan.model).among(self.plan.members as u32);
        let auth = self.auth(0);
        let referee = Referee { statements, voters: &voters, trust, auth: &auth };
        let answer = self.oracle.serve(request, &referee, self.plan.model.may_lie());
        for _ in 0..1 + u64::from(self.random.below(1000) < self.doubled) {
            if self.random.below(1000) >= self.lost {
                let span = Span::from_nanos(self.random.below(self.delay_max.nanos().max(1)));
                self.schedule(span, Event::Answered { at, life, answer: answer.clone() });
            }
        }
    }

    pub(super) fn on_answered(&mut self, at: usize, answer: OracleAnswer) {
        self.step(at, Input::Oracle(answer));
    }
}
