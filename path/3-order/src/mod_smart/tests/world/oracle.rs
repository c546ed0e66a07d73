//! The oracle: a register for each membership. It is late, answers twice, or never.

use super::{Event, World};
use crate::Input;
use crate::visigoth::{OracleAnswer, OracleRequest};
use bytes::Bytes;
use quorate_types::{MembershipId, Span};
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
    fn serve(&mut self, request: OracleRequest) -> OracleAnswer {
        let register = self.registers.entry(request.membership).or_default();
        if let Some((version, value)) = request.swap
            && version == register.0
        {
            *register = (version + 1, value);
            self.swaps += 1;
        }
        OracleAnswer { membership: request.membership, version: register.0, value: register.1.clone() }
    }
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
        let answer = self.oracle.serve(request);
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
