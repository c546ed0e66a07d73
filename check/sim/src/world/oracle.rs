//! The oracle of clusters in which few members are slow: a register for each instance and membership. It is late, answers twice or not at
//! all, and for some time nobody reaches it.

use crate::plan::Plan;
use crate::replica::CLUSTER;
use bytes::Bytes;
use quorate_auth::Keyed;
use quorate_node::OracleWork;
use quorate_order::mod_smart::{Referee, Statements};
use quorate_order::visigoth::{Claim, OracleAnswer, Register, Wish};
use quorate_types::{Faults, InstanceId, MembershipId, ReplicaId, Trust};
use std::collections::BTreeMap;

/// What travels between a replica and the oracle.
pub(super) enum Letter {
    Question(OracleWork),
    Answer(InstanceId, OracleAnswer),
}

/// What it knows of the members, where some may lie.
struct Rule {
    voters: Vec<ReplicaId>,
    trust: Trust,
    auth: Keyed,
}

impl Rule {
    /// The register after this claim, if it changes.
    fn judge(&self, instance: InstanceId, register: &Bytes, claim: Bytes) -> Option<Bytes> {
        let statements = Statements { cluster: CLUSTER, membership: MembershipId::FIRST, instance };
        let referee = Referee { statements, voters: &self.voters, trust: self.trust, auth: &self.auth };
        let register = Register::read(register.clone()).ok()?;
        let next = referee.judge(&register, Claim::decode(claim).ok()?).ok()?;
        (next != register).then(|| next.encode())
    }
}

/// The registers, and what is on its way.
#[derive(Default)]
pub(super) struct Oracle {
    rule: Option<Rule>,
    registers: BTreeMap<(InstanceId, MembershipId), (u64, Bytes)>,
    pub(super) letters: BTreeMap<u64, Letter>,
    numbers: u64,
}

impl Oracle {
    pub(super) fn new(plan: &Plan) -> Self {
        let rule = plan.fault_model.may_lie().then(|| Rule {
            voters: (1..=plan.founders as u16).map(ReplicaId::new).collect(),
            trust: Faults::of(plan.fault_model).among(plan.founders as u32),
            auth: Keyed::new(ReplicaId::new(1), plan.seed),
        });
        Self { rule, ..Self::default() }
    }

    pub(super) fn send(&mut self, letter: Letter) -> u64 {
        self.numbers += 1;
        self.letters.insert(self.numbers, letter);
        self.numbers
    }

    /// Reads, swaps, or judges.
    pub(super) fn serve(&mut self, OracleWork { instance, request }: OracleWork) -> OracleAnswer {
        let register = self.registers.entry((instance, request.membership)).or_default();
        let next = match request.wish {
            Wish::Swap(version, value) => (version == register.0 && self.rule.is_none()).then_some(value),
            Wish::Claim(claim) => {
                self.rule.as_ref().and_then(|rule| rule.judge(instance, &register.1, claim))
            }
            Wish::Read => None,
        };
        if let Some(value) = next {
            *register = (register.0 + 1, value);
        }
        OracleAnswer { membership: request.membership, version: register.0, value: register.1.clone() }
    }
}
