//! The oracle of clusters in which few members are slow: a register for each membership. It answers at once, or is away; then questions are
//! lost.

use super::{Event, World};
use bytes::Bytes;
use quorate_order::Input;
use quorate_order::visigoth::{OracleAnswer, OracleRequest, Wish};
use quorate_types::{MembershipId, ReplicaId};
use std::collections::{BTreeMap, VecDeque};

/// The registers, and what was asked.
#[derive(Default)]
pub(super) struct Oracle {
    registers: BTreeMap<MembershipId, (u64, Bytes)>,
    asked: VecDeque<(ReplicaId, OracleRequest)>,
    away: bool,
    rule: Option<Rule>,
}

/// What a register holds after a claim, if it changes; none too if the claim is refused.
pub(crate) type Rule = Box<dyn Fn(&Bytes, Bytes) -> Option<Bytes>>;

impl World {
    /// The oracle knows this rule, and takes nothing but claims.
    pub fn set_oracle_rule(&mut self, rule: Rule) {
        self.oracle.rule = Some(rule);
    }

    /// From now on nobody reaches the oracle, or everybody does.
    pub fn set_oracle_away(&mut self, away: bool) {
        self.oracle.away = away;
    }

    pub(super) fn asks_oracle(&mut self, id: ReplicaId, request: OracleRequest) {
        self.events.push(Event::Asks(id, request.clone()));
        if !self.oracle.away {
            self.oracle.asked.push_back((id, request));
        }
    }

    /// Answers what replicas asked.
    pub(super) fn answer_for_oracle(&mut self) {
        while let Some((id, request)) = self.oracle.asked.pop_front() {
            let register = self.oracle.registers.entry(request.membership).or_default();
            let rule = self.oracle.rule.as_ref();
            let next = match request.wish {
                Wish::Swap(version, value) => (version == register.0 && rule.is_none()).then_some(value),
                Wish::Claim(claim) => rule.and_then(|rule| rule(&register.1, claim)),
                Wish::Read => None,
            };
            if let Some(value) = next {
                *register = (register.0 + 1, value);
            }
            let (version, value) = register.clone();
            self.events.push(Event::Told(id, version, value.clone()));
            let answer = OracleAnswer { membership: request.membership, version, value };
            self.step_once(id, Input::Oracle(answer));
        }
    }
}
