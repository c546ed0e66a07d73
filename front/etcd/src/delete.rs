//! Deletes: of a key, and of many at once.
//!
//! A delete appends an entry, removes the key's head and notes the deletion. Many keys are deleted in rounds: what a round writes is put
//! together first, and then goes into the store in sorted runs, which costs a small part of a walk for each key.
//! Tests: `tests/all/store.rs`, `tests/all/deletes.rs`.

use crate::lease;
use crate::proto;
use crate::request::DeleteRequest;
use crate::space::{ATTACHED, Bounds, Entry, GONE, HEAD, Head, KeyValue, entry_of, head, named};
use crate::write::Writer;
use quorate_execute::Change;
use std::ops::Range;

/// The most keys of a round, which bounds the memory for it.
const ROUND: usize = 10_000;

/// What a round of deletes writes: the bytes of all keys and values, and where each begins and ends.
#[derive(Default)]
struct Round {
    bytes: Vec<u8>,
    /// The keys of the deleted heads, in the store.
    heads: Vec<Range<usize>>,
    /// The entries that are appended: keys and values.
    entries: Vec<(Range<usize>, Range<usize>)>,
    /// The deletions that are noted: keys and values.
    gone: Vec<(Range<usize>, Range<usize>)>,
    /// The keys that bound deleted keys to their leases.
    attached: Vec<Range<usize>>,
}

impl Round {
    fn add(&mut self, parts: &[&[u8]]) -> Range<usize> {
        let begin = self.bytes.len();
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        begin..self.bytes.len()
    }

    fn removed<'a>(&'a self, keys: &'a [Range<usize>]) -> Vec<Change<'a>> {
        keys.iter().map(|key| (&self.bytes[key.clone()], None)).collect()
    }

    fn put<'a>(&'a self, pairs: &'a [(Range<usize>, Range<usize>)]) -> Vec<Change<'a>> {
        let one = |(key, value): &(Range<usize>, Range<usize>)| {
            (&self.bytes[key.clone()], Some(&self.bytes[value.clone()]))
        };
        pairs.iter().map(one).collect()
    }
}

impl Writer<'_> {
    /// Carries out a delete; appends the fields of the response.
    pub(crate) fn delete_range(&mut self, request: &DeleteRequest<'_>, out: &mut Vec<u8>) {
        if request.range_end.is_empty() {
            let Some(old) = head(self.store, request.key, &mut self.buffers.key) else { return };
            proto::int_field(out, 2, 1);
            if request.prev_kv {
                proto::message_field(out, 3, entry_of(self.store, &old).message);
            }
            return self.delete(request.key, &old);
        }
        let Bounds { start, end } = Bounds::new(HEAD, request.key, request.range_end);
        let (mut deleted, mut before) = (0, Vec::new());
        loop {
            let heads = self.store.range(&start, Some(&end)).take(ROUND);
            let doomed: Vec<(Vec<u8>, Head)> =
                heads.map(|(key, bytes)| (key[1..].to_vec(), Head::decode(bytes))).collect();
            if request.prev_kv {
                for (_, old) in &doomed {
                    proto::message_field(&mut before, 3, entry_of(self.store, old).message);
                }
            }
            deleted += doomed.len();
            self.delete_all(&doomed);
            if doomed.len() < ROUND {
                break;
            }
        }
        proto::int_field(out, 2, deleted as i64);
        out.extend_from_slice(&before);
    }

    /// Deletes keys that have values. They are in ascending order, and there is no other key between the first and the last.
    fn delete_all(&mut self, doomed: &[(Vec<u8>, Head)]) {
        match doomed {
            [] => {}
            [(key, old)] => self.delete(key, old),
            [(first, _), .., (last, _)] => {
                let round = self.round(doomed);
                let (start, end) =
                    ([&[HEAD], first.as_slice()].concat(), [&[HEAD], last.as_slice(), &[0]].concat());
                self.store.remove_range(&start, Some(&end));
                self.write_round(&round);
            }
        }
    }

    /// Deletes keys that have values, anywhere.
    pub(crate) fn delete_each(&mut self, doomed: &[(Vec<u8>, Head)]) {
        if let [(key, old)] = doomed {
            return self.delete(key, old);
        }
        for doomed in doomed.chunks(ROUND) {
            let round = self.round(doomed);
            self.store.apply_sorted(&round.removed(&round.heads));
            self.write_round(&round);
        }
    }

    /// Puts the entry of a deletion, and the value that notes it, into the buffers.
    fn deletion(&mut self, key: &[u8], old: &Head) {
        let gone = Head { at: self.next, ..Head::default() };
        self.live.before(|| entry_of(self.store, old));
        Entry::begin(&mut self.buffers.entry, true, Some(old.at));
        let message_at = self.buffers.entry.len();
        KeyValue::encode(&mut self.buffers.entry, key, &gone, &[]);
        self.live.change(self.next, true, key, &self.buffers.entry[message_at..]);
        gone.encode(&mut self.buffers.head);
    }

    /// Puts together what these deletes write.
    fn round(&mut self, doomed: &[(Vec<u8>, Head)]) -> Round {
        let mut round = Round::default();
        for (key, old) in doomed {
            self.deletion(key, old);
            let name = round.add(&[&[HEAD], key]);
            round.heads.push(name);
            let entry = (round.add(&[self.next.key().bytes()]), round.add(&[&self.buffers.entry]));
            round.entries.push(entry);
            let noted = (round.add(&[&[GONE], key]), round.add(&[&self.buffers.head]));
            round.gone.push(noted);
            if old.lease != 0 {
                let bound = round.add(&[&[ATTACHED], &old.lease.to_be_bytes(), key]);
                round.attached.push(bound);
            }
            self.next = self.next.next();
        }
        round
    }

    fn write_round(&mut self, round: &Round) {
        self.store.apply_sorted(&round.put(&round.entries));
        self.store.apply_sorted(&round.put(&round.gone));
        self.store.apply_sorted(&round.removed(&round.attached));
    }

    /// Deletes a key that has a value.
    fn delete(&mut self, key: &[u8], old: &Head) {
        self.deletion(key, old);
        self.append();
        self.store.remove(named(&mut self.buffers.key, HEAD, key));
        self.store.put(named(&mut self.buffers.key, GONE, key), &self.buffers.head);
        lease::detach(self.store, old.lease, key, &mut self.buffers.key);
    }
}
