//! The oracle of clusters in which few members are slow: a register for each instance and membership. It is late, answers twice or not at
//! all, and for some time nobody reaches it.

use bytes::Bytes;
use quorate_node::OracleWork;
use quorate_order::visigoth::OracleAnswer;
use quorate_types::{InstanceId, MembershipId};
use std::collections::BTreeMap;

/// What travels between a replica and the oracle.
pub(super) enum Letter {
    Question(OracleWork),
    Answer(InstanceId, OracleAnswer),
}

/// The registers, and what is on its way.
#[derive(Default)]
pub(super) struct Oracle {
    registers: BTreeMap<(InstanceId, MembershipId), (u64, Bytes)>,
    pub(super) letters: BTreeMap<u64, Letter>,
    numbers: u64,
}

impl Oracle {
    pub(super) fn send(&mut self, letter: Letter) -> u64 {
        self.numbers += 1;
        self.letters.insert(self.numbers, letter);
        self.numbers
    }

    /// Reads or swaps.
    pub(super) fn serve(&mut self, OracleWork { instance, request }: OracleWork) -> OracleAnswer {
        let register = self.registers.entry((instance, request.membership)).or_default();
        if let Some((version, value)) = request.swap
            && version == register.0
        {
            *register = (version + 1, value);
        }
        OracleAnswer { membership: request.membership, version: register.0, value: register.1.clone() }
    }
}
