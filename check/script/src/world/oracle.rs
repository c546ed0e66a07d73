//! The oracle of clusters in which few members are slow: a register for each membership. What it is asked it does at once. Its answers come
//! at once, too, or when the script says so; while it is away questions are lost.

use super::{Event, World};
use bytes::Bytes;
use quorate_order::Input;
use quorate_order::visigoth::{OracleAnswer, OracleRequest, Wish};
use quorate_types::{MembershipId, ReplicaId};
use std::collections::{BTreeMap, VecDeque};

/// What becomes of questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asked {
    /// They are answered at once.
    #[default]
    Answered,
    /// They are answered, and the answers are under way until [`World::tell`].
    Late,
    /// They are lost.
    Lost,
}

/// The registers, and what was asked.
#[derive(Default)]
pub(super) struct Oracle {
    registers: BTreeMap<MembershipId, (u64, Bytes)>,
    asked: VecDeque<(ReplicaId, OracleRequest)>,
    /// Answers that are under way, in the order in which they were given.
    answers: VecDeque<(ReplicaId, OracleAnswer)>,
    mode: Asked,
    rule: Option<Rule>,
}

/// What a register holds after a claim, if it changes; or why the claim is refused.
pub(crate) type Rule = Box<dyn Fn(&Bytes, Bytes) -> Result<Option<Bytes>, String>>;

impl World {
    /// The oracle knows this rule, and takes nothing but claims.
    pub fn set_oracle_rule(&mut self, rule: Rule) {
        self.oracle.rule = Some(rule);
    }

    /// What becomes of questions from now on.
    pub fn set_oracle(&mut self, mode: Asked) {
        self.oracle.mode = mode;
    }

    /// The registers that are not empty: version and value.
    pub fn registers(&self) -> &BTreeMap<MembershipId, (u64, Bytes)> {
        &self.oracle.registers
    }

    /// A question of which this replica's protocol knows nothing.
    pub fn ask_oracle(&mut self, id: ReplicaId, request: OracleRequest) {
        self.asks_oracle(id, request);
        self.answer_for_oracle();
        self.sync_if_automatic(id);
    }

    /// The oldest answer that is under way to a replica reaches it; `again`: a copy of it comes later, too. Says whether there was one.
    pub fn tell(&mut self, id: ReplicaId, again: bool) -> bool {
        let answers = &mut self.oracle.answers;
        let first = answers.iter().position(|(to, _)| *to == id);
        let Some((_, answer)) = first.and_then(|at| answers.remove(at)) else { return false };
        if again {
            answers.push_back((id, answer.clone()));
        }
        self.told(id, answer);
        self.sync_if_automatic(id);
        true
    }

    pub(super) fn asks_oracle(&mut self, id: ReplicaId, request: OracleRequest) {
        self.events.push(Event::Asks(id, request.clone()));
        if self.oracle.mode != Asked::Lost {
            self.oracle.asked.push_back((id, request));
        }
    }

    /// Answers what replicas asked.
    pub(super) fn answer_for_oracle(&mut self) {
        while let Some((id, OracleRequest { membership, wish })) = self.oracle.asked.pop_front() {
            let register = self.oracle.registers.entry(membership).or_default();
            let rule = self.oracle.rule.as_ref();
            let next = match wish {
                Wish::Swap(version, value) => (version == register.0 && rule.is_none()).then_some(value),
                Wish::Claim(claim) => {
                    let judged = rule.map_or(Ok(None), |rule| rule(&register.1, claim));
                    judged.unwrap_or_else(|why| {
                        self.events.push(Event::Refused(id, why));
                        None
                    })
                }
                Wish::Read => None,
            };
            if let Some(value) = next {
                *register = (register.0 + 1, value);
            }
            let (version, value) = register.clone();
            let answer = OracleAnswer { membership, version, value };
            match self.oracle.mode {
                Asked::Late => self.oracle.answers.push_back((id, answer)),
                Asked::Answered | Asked::Lost => self.told(id, answer),
            }
        }
    }

    /// The replica stopped: answers reach nobody.
    pub(super) fn forget_answers(&mut self, id: ReplicaId) {
        self.oracle.answers.retain(|(to, _)| *to != id);
    }

    fn told(&mut self, id: ReplicaId, answer: OracleAnswer) {
        self.events.push(Event::Told(id, answer.version, answer.value.clone()));
        self.step_once(id, Input::Oracle(answer));
    }
}
