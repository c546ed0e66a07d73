//! The body of the fuzz target `oracle_service`. A stable test runs it over the corpus.

use crate::service::{Ask, Registers, decode_reply};
use bytes::Bytes;
use quorate::{AgreedTime, Context, ObjectService, ReplySink, Seq, Store};
use quorate_order::visigoth::Register;
use quorate_runtime::{Group, Held};
use quorate_types::{ReplicaId, Trust};
use quorate_wire::Reader;
use std::collections::BTreeMap;

/// Longer replies are cut off by the sessions.
const REPLY_BYTES_MAX: usize = 4 << 20;

/// The service, and what is known to be in each register that was asked about: the question for it, and the answer.
struct Oracle {
    store: Store,
    registers: BTreeMap<Vec<u8>, Result<Held, String>>,
}

fn reply(run: impl FnOnce(&mut ReplySink<'_>)) -> Result<Held, String> {
    let mut out = Vec::new();
    let mut sink = ReplySink::new(&mut out, REPLY_BYTES_MAX);
    run(&mut sink);
    assert!(!sink.overflown(), "a reply fits");
    let whole = matches!((out.first(), out.len()), (Some(0), 9..) | (Some(1), 2..));
    assert!(whole, "a register, or a reason: {out:?}");
    decode_reply(&out)
}

const HERE: Context = Context::at(Seq::FIRST, AgreedTime::ZERO);

impl Oracle {
    fn query(&self, question: &[u8]) -> Result<Held, String> {
        reply(|sink| Registers.query(&self.store, question, &HERE, sink))
    }

    /// Asks this as a question and as a command.
    fn ask(&mut self, bytes: &[u8]) {
        let ask = Ask::decode(bytes);
        let register = ask.as_ref().ok().map(|ask| {
            assert_eq!(ask.encode(), bytes, "what is read is what was written");
            register_of(ask)
        });
        if let Some(register) = &register {
            let held = self.query(register);
            let before = self.registers.entry(register.clone()).or_insert(held.clone());
            assert_eq!(*before, held, "nobody asked for a change");
        }
        let answered = self.query(bytes);
        let done = reply(|sink| Registers.execute(&mut self.store, bytes, &HERE, sink));
        let Ok(ask) = ask else {
            assert!(answered.is_err() && done.is_err(), "it is no question");
            return self.look_at_all();
        };
        let register = register.expect("a question is about a register");
        let before = self.registers[&register].clone();
        let after = self.query(&register);
        match &ask {
            Ask::Read { .. } | Ask::Look { .. } => assert!(answered == before && done.is_err()),
            Ask::Swap { version, value, .. } => {
                let before = before.expect("such a register can always be read");
                let swapped = before.0 == *version;
                let next = if swapped { (version + 1, value.clone()) } else { before };
                assert!(answered.is_err() && done == Ok(next), "it swaps the version that is named");
                assert_eq!(done, after);
            }
            Ask::Judge { group, .. } => {
                assert!(answered.is_err() && done == after, "who is refused learns what the register holds");
                if after != before {
                    judged(group.clone(), before.expect("it is known"), after.clone().expect("it is known"));
                }
            }
        }
        self.registers.insert(register, after);
        self.look_at_all();
    }

    /// Every register is as it is known to be. Only a cluster that nobody spoke for may be another one's by now.
    fn look_at_all(&mut self) {
        let questions: Vec<Vec<u8>> = self.registers.keys().cloned().collect();
        for question in questions {
            let now = self.query(&question);
            let held = self.registers.insert(question, now.clone()).expect("it was there");
            assert!(now == held || now.is_err() && held == Ok(Held::default()), "{held:?} became {now:?}");
        }
    }
}

/// The question what the register holds that this is about.
fn register_of(ask: &Ask) -> Vec<u8> {
    match ask.clone() {
        Ask::Swap { name, .. } | Ask::Read { name } => Ask::Read { name }.encode(),
        Ask::Judge { instance, group, .. } | Ask::Look { instance, group } => {
            Ask::Look { instance, group }.encode()
        }
    }
}

/// A claim changed a register: one grant more, and members believe it.
fn judged(group: Bytes, before: Held, after: Held) {
    let group = Group::decode(group).expect("no other group has a register");
    let voters: Vec<ReplicaId> = group.members.iter().map(|(id, _)| *id).collect();
    let trust = Trust::new(voters.len() as u32, group.sizes.u, group.sizes.s, group.sizes.o);
    let trust = trust.expect("no other group has a register");
    let read = |value: Bytes| Register::decode(value, &voters, trust).expect("members believe it");
    let (old, new) = (read(before.1), read(after.1));
    assert_eq!(after.0, before.0 + 1);
    assert_eq!(new.grants().len(), old.grants().len() + 1);
    assert!(new.floor() >= old.floor());
}

/// Questions and commands, each with its length (u16) before it, which come to a service that knows nothing. Whatever they are, each gets an
/// answer; a register changes only by what names it and its version, or by a claim; and then members believe it. Returns what was asked
/// about, and the last answer.
///
/// # Panics
/// When that does not hold.
pub fn service(data: &[u8]) -> Vec<Result<Held, String>> {
    let mut oracle = Oracle { store: Store::new(), registers: BTreeMap::new() };
    let mut r = Reader::new(Bytes::copy_from_slice(data), "questions");
    while let Ok(len) = r.u16() {
        // The last one may be cut off.
        let Ok(ask) = r.bytes(usize::from(len).min(r.remaining())) else { break };
        oracle.ask(&ask);
    }
    oracle.registers.into_values().collect()
}

#[cfg(test)]
mod tests;
