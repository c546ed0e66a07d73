//! The oracle of clusters in which few members are slow: a register for each instance and membership. It is late, answers twice or not at
//! all, and for some time nobody reaches it.

use super::World;
use crate::plan::OraclePlan;
use crate::processes::Arrival;
use crate::queue::Event;
use crate::trace::Level;
use bytes::Bytes;
use quorate_node::OracleWork;
use quorate_order::visigoth::OracleAnswer;
use quorate_types::{InstanceId, MembershipId};
use std::collections::BTreeMap;

/// What travels between a replica and the oracle.
enum Letter {
    Question(OracleWork),
    Answer(InstanceId, OracleAnswer),
}

/// The registers, and what is on its way.
#[derive(Default)]
pub(super) struct Oracle {
    registers: BTreeMap<(InstanceId, MembershipId), (u64, Bytes)>,
    letters: BTreeMap<u64, Letter>,
    numbers: u64,
}

impl Oracle {
    fn send(&mut self, letter: Letter) -> u64 {
        self.numbers += 1;
        self.letters.insert(self.numbers, letter);
        self.numbers
    }

    /// Reads or swaps. With the bug an unchanged register is not asked for.
    fn serve(&mut self, OracleWork { instance, request }: OracleWork) -> OracleAnswer {
        let register = self.registers.entry((instance, request.membership)).or_default();
        if let Some((version, value)) = request.swap
            && version == register.0
        {
            *register = (version + 1, value);
        }
        OracleAnswer { membership: request.membership, version: register.0, value: register.1.clone() }
    }
}

impl World {
    /// A node asks the oracle.
    pub(super) fn ask_oracle(&mut self, who: usize, work: OracleWork) {
        self.time.note(Level::All, Some(who), "asks", || format!("{work:?}"));
        let number = self.oracle.send(Letter::Question(work));
        self.forward(who, number);
    }

    /// A letter leaves, perhaps twice, perhaps for nothing.
    fn forward(&mut self, who: usize, letter: u64) {
        let Some(OraclePlan { wait, stalls, stall, loses, .. }) = self.cluster.plan.oracle else { return };
        let life = self.processes.life(who);
        let rng = self.time.rng();
        let most = if rng.chance(stalls) { stall } else { wait };
        let copies = if rng.chance(loses) { 0 } else { 1 + u64::from(rng.chance(loses)) };
        for _ in 0..copies {
            let after = self.time.rng().range(0, most);
            self.time.after(after, Event::Letter { who, life, letter });
        }
    }

    /// A letter arrives: a question at the oracle, an answer at its replica.
    pub(super) fn letter(&mut self, who: usize, life: u32, letter: u64) {
        match self.oracle.letters.get(&letter) {
            Some(Letter::Question(work)) => {
                let away = self.cluster.plan.oracle.is_some_and(|oracle| oracle.is_away(self.time.now()));
                if !away && self.processes.lives(who, life) {
                    let (instance, answer) = (work.instance, self.oracle.serve(work.clone()));
                    self.time.note(Level::Events, Some(who), "oracle", || {
                        format!("{instance}: version {}, {:?}", answer.version, answer.value)
                    });
                    let number = self.oracle.send(Letter::Answer(instance, answer));
                    self.forward(who, number);
                }
            }
            Some(Letter::Answer(instance, answer)) if self.processes.lives(who, life) => {
                let arrival = Arrival::Oracle(*instance, answer.clone());
                self.processes.arrive(who, arrival, &mut self.time);
            }
            _ => {}
        }
    }
}
