//! The body of the fuzz target `oracle_service`. A stable test runs it over the corpus.

use crate::service::{Ask, Registers, decode_reply};
use bytes::Bytes;
use quorate::{AgreedTime, Context, ObjectService, ReplySink, Seq, Store};
use quorate_order::visigoth::Register;
use quorate_runtime::{Group, Held};
use quorate_types::{ReplicaId, Trust};
use quorate_wire::Reader;
use std::collections::BTreeSet;

/// Longer replies are cut off by the sessions.
const REPLY_BYTES_MAX: usize = 4 << 20;

/// What the service keeps, and what was asked: the questions what the registers hold.
struct Oracle {
    store: Store,
    asked: BTreeSet<Vec<u8>>,
}

type Entry = (Vec<u8>, Vec<u8>);

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

    fn entries(&self) -> BTreeSet<Entry> {
        self.store.range(b"", None).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
    }

    /// Carries out a command. Returns the reply, and the entries that it wrote.
    fn execute(&mut self, command: &[u8]) -> (Result<Held, String>, BTreeSet<Entry>) {
        let before = self.entries();
        let done = reply(|sink| Registers.execute(&mut self.store, command, &HERE, sink));
        let after = self.entries();
        let kept =
            |(key, _): &Entry| after.range((key.clone(), Vec::new())..).next().is_some_and(|at| at.0 == *key);
        assert!(before.iter().all(kept), "nothing is ever taken away");
        (done, after.difference(&before).cloned().collect())
    }

    /// Asks this as a question and as a command.
    fn ask(&mut self, bytes: &[u8]) {
        let answered = self.query(bytes);
        let Ok(ask) = Ask::decode(bytes) else {
            let (done, written) = self.execute(bytes);
            assert!(answered.is_err() && done.is_err() && written.is_empty(), "it is no question");
            return;
        };
        assert_eq!(ask.encode(), bytes, "what is read is what was written");
        let register = register_of(&ask);
        let before = self.query(&register);
        let (done, written) = self.execute(bytes);
        let after = self.query(&register);
        self.asked.insert(register);
        // Apart from how many entries there are.
        let written: Vec<Entry> = written.into_iter().filter(|(key, _)| key != b"n").collect();
        match ask {
            Ask::Read { .. } | Ask::Look { .. } => {
                assert!(
                    answered == before && done.is_err() && written.is_empty(),
                    "a question changes nothing"
                );
            }
            Ask::Swap { name, version, value } => {
                let before = before.expect("such a register can always be read");
                let swapped = before.0 == version;
                let next = if swapped { (version + 1, value) } else { before };
                assert!(answered.is_err() && done == Ok(next), "it swaps the version that is named");
                assert_eq!(done, after);
                let only = written.iter().all(|(key, _)| *key == [b"p", &name[..]].concat());
                assert!(only && written.len() == usize::from(swapped), "no other register");
            }
            Ask::Judge { group, .. } => {
                assert!(answered.is_err() && done == after, "who is refused learns what the register holds");
                let of = |kind| written.iter().filter(|(key, _)| key[0] == kind).count();
                let (members, registers) = (of(b'g'), of(b'j'));
                assert!(members <= 1 && members + registers == written.len(), "no register that swaps");
                assert_eq!(registers, usize::from(after != before), "no other register");
                if after != before {
                    judged(group, before.expect("it is known"), after.expect("it is known"));
                }
            }
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
/// answer; a register changes only by what names it and its version, or by a claim; and then members believe it. Returns what the registers
/// hold then that were asked about.
///
/// # Panics
/// When that does not hold.
pub fn service(data: &[u8]) -> Vec<Result<Held, String>> {
    let mut oracle = Oracle { store: Store::new(), asked: BTreeSet::new() };
    let mut r = Reader::new(Bytes::copy_from_slice(data), "questions");
    while let Ok(len) = r.u16() {
        // The last one may be cut off.
        let Ok(ask) = r.bytes(usize::from(len).min(r.remaining())) else { break };
        oracle.ask(&ask);
    }
    oracle.asked.iter().map(|question| oracle.query(question)).collect()
}

#[cfg(test)]
mod tests;
