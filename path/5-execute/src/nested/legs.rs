//! One leg of one command: it runs, and what it did is taken over, or it is taken back.

use super::call::{Leg, Want};
use super::journal::{Doing, Entry, Journal, Mark};
use super::outgoing::{Leaving, Member};
use super::request::{Halt, Key, Request};
use super::runner::{Runner, Went};
use super::service::Failure;
use super::{Ground, Nested, NestedReport, REPORTS_MAX};
use bytes::Bytes;
use quorate_state::store::{Store, Version};
use std::collections::BTreeMap;

/// What became of a want.
enum Given {
    /// The command goes on.
    GoesOn,
    /// It halts, and its leg counts.
    Halts,
    /// Another command has the lock: the leg is taken back.
    TakenBack,
    /// It can never be given.
    Never,
}

impl Nested {
    /// Runs the present command's next leg. Whether the command ended.
    pub(super) fn leg(
        &mut self,
        (key, request): (Key, &mut Request),
        command: Bytes,
        freed: &mut Vec<Bytes>,
        ground: &mut Ground<'_>,
    ) -> bool {
        self.own.counts.legs += 1;
        let mut runner = self.runner(request, command);
        if let Halt::Answer(ticket) = request.halt
            && let Some(answer) = request.answers.remove(&ticket)
        {
            request.journal.push(Entry::Answered(ticket, answer));
        }
        let begun = request.journal.len();
        let store = ground.service.store_mut().expect("INV-NESTED-4: a journaled service is in the store");
        let mut leg = self.hand_over(request, &runner, store.version());
        let (ended, why) = loop {
            let (back, went) = runner.go_on(leg);
            leg = back;
            match went {
                Went::Ends(reply) => break (Some(reply), None),
                Went::Fails(why, words) => break (None, Some((why, words))),
                Went::Halts => {}
            }
            let want = std::mem::take(&mut leg.want);
            match self.give(key, request, &mut leg, &want) {
                Given::GoesOn => {}
                Given::Never => break (None, Some((Failure::Foreign, "it awaits an answer twice".into()))),
                Given::TakenBack => {
                    self.own.counts.taken_back += 1;
                    take_back(request, &mut leg, begun);
                    self.halts(key, request, want);
                    return false;
                }
                Given::Halts => match self.commit((key, request), &mut leg, store, freed) {
                    None => {
                        self.halts(key, request, want);
                        self.keep(request, runner);
                        return false;
                    }
                    Some(why) => break (None, Some((why, String::new()))),
                },
            }
        };
        drop(runner);
        let why = match ended {
            Some(reply) => match self.commit((key, request), &mut leg, store, freed) {
                None => {
                    self.end_command((key, request), reply, ground.replies_max(), freed);
                    return true;
                }
                Some(why) => (why, String::new()),
            },
            None => why.unwrap_or((Failure::Foreign, String::new())),
        };
        let reply = self.fail(request, why);
        self.end_command((key, request), reply, ground.replies_max(), freed);
        true
    }

    /// The command as it was left, or one that comes there again.
    fn runner(&mut self, request: &mut Request, command: Bytes) -> Runner {
        match request.runner.take() {
            Some(runner) => {
                self.own.running -= 1;
                runner
            }
            None => {
                self.own.counts.replays += u64::from(request.journal.len() > 0);
                Runner::begin(self.service.clone(), command, request.ctx.with_command(request.command()))
            }
        }
    }

    fn halts(&mut self, key: Key, request: &mut Request, want: Want) {
        request.halt = want.into();
        if let (Halt::Lock(name), None) = (&request.halt, &self.ring) {
            self.locks.wait(name.clone(), key);
        }
    }

    fn keep(&mut self, request: &mut Request, runner: Runner) {
        if self.own.running < self.own.running_max {
            self.own.running += 1;
            request.runner = Some(runner);
        }
    }

    /// The leg for a command that is so far.
    fn hand_over(&self, request: &mut Request, runner: &Runner, version: Version) -> Box<Leg> {
        Box::new(Leg {
            rules: self.rules.clone(),
            chain: request.chain.clone(),
            version,
            own: BTreeMap::new(),
            journal: std::mem::take(&mut request.journal),
            at: runner.at,
            asks: runner.asks,
            asked: Vec::new(),
            refused: BTreeMap::new(),
            locks: request.locks.clone(),
            operations: 0,
            want: Want::Nothing,
            failure: None,
        })
    }

    /// Gives a command what it waits for, if that is there.
    fn give(&mut self, key: Key, request: &mut Request, leg: &mut Leg, want: &Want) -> Given {
        match want {
            Want::Nothing => Given::Never,
            Want::Answer(ticket) => {
                if let Some(refused) = leg.refused.remove(ticket) {
                    leg.journal.push(Entry::Answered(*ticket, refused));
                    return Given::GoesOn;
                }
                let is_new = leg.asked.iter().any(|asked| asked.ticket == *ticket);
                if !is_new && !request.awaits(*ticket) {
                    return Given::Never;
                }
                // In a ring the next slot becomes active wherever a command needs an answer, so that it changes nothing when answers come.
                let there = if self.ring.is_none() { request.answers.remove(ticket) } else { None };
                match there {
                    Some(answer) => {
                        leg.journal.push(Entry::Answered(*ticket, answer));
                        Given::GoesOn
                    }
                    None => Given::Halts,
                }
            }
            Want::Lock(name) => {
                let mark = Mark::of(Doing::Lock, &[name]);
                // Taken back, it would hold again what it gave back, and others might wait for that.
                let counts = !request.locks.is_subset(&leg.locks);
                let keeps = if counts { &leg.locks } else { &request.locks };
                let got = match self.locks.holder(name, key) {
                    None => true,
                    Some(holder) if self.locks.is_circle((key, keeps), holder, &self.requests) => false,
                    Some(_) if counts => return Given::Halts,
                    Some(_) => return Given::TakenBack,
                };
                self.own.counts.deadlocks += u64::from(!got);
                if got {
                    leg.locks.insert(name.clone());
                }
                leg.journal.push(Entry::Locked(mark, got));
                Given::GoesOn
            }
        }
    }

    /// Takes over what a leg did. Gives the reason if it does not count after all.
    fn commit(
        &mut self,
        (key, request): (Key, &mut Request),
        leg: &mut Leg,
        store: &mut Store,
        freed: &mut Vec<Bytes>,
    ) -> Option<Failure> {
        let asked: usize = leg.asked.iter().map(|asked| asked.body.len()).sum();
        request.journal = std::mem::take(&mut leg.journal);
        let bytes = self.bytes + self.outgoing.bytes() + request.bytes() + asked as u64;
        if bytes > self.rules.journal_bytes_max {
            return Some(Failure::Journals(self.rules.journal_bytes_max));
        }
        // Nobody shares the objects any more, so writes copy nothing.
        leg.version = Version::default();
        for (key, value) in std::mem::take(&mut leg.own) {
            match value {
                Some(value) => drop(store.put(&key, &value)),
                None => drop(store.remove(&key)),
            }
        }
        let locks = std::mem::take(&mut leg.locks);
        freed.extend(self.locks.change(key, &request.locks, &locks));
        request.locks = locks;
        request.answers.append(&mut leg.refused);
        let (chain, command) = (request.chain.then(self.rules.service), request.command());
        for asked in std::mem::take(&mut leg.asked) {
            request.open.insert(asked.ticket);
            let member = Member { key, command, ticket: asked.ticket };
            let (chain, backend, body) = (chain.clone(), asked.backend, asked.body);
            self.outgoing.leave(Leaving { backend, chain, member, body });
        }
        None
    }

    /// A command ended with this reply; its locks are free.
    fn end_command(
        &mut self,
        (key, request): (Key, &mut Request),
        reply: Vec<u8>,
        replies_max: usize,
        freed: &mut Vec<Bytes>,
    ) {
        let had = std::mem::take(&mut request.locks);
        freed.extend(self.locks.change(key, &had, &request.locks));
        request.end_command(reply, replies_max);
    }

    /// A command is ended. Its last leg does not count. Gives its reply.
    fn fail(&mut self, request: &mut Request, (why, words): (Failure, String)) -> Vec<u8> {
        self.own.counts.failed += 1;
        if self.own.reports.len() < REPORTS_MAX {
            let (session, number, command) = (request.session(), request.number, request.command());
            self.own.reports.push(NestedReport { session, number, command, why, words });
        }
        request.journal = Journal::default();
        self.service.failed(why)
    }
}

/// The leg did nothing: what the command had done before it began is left, and answers that it took are there again.
fn take_back(request: &mut Request, leg: &mut Leg, begun: usize) {
    request.journal = std::mem::take(&mut leg.journal);
    let undone = request.journal.split_off(begun);
    let asked = undone.iter().filter(|entry| matches!(entry, Entry::Asked(..))).count() as u32;
    let first = leg.asks - asked;
    for entry in undone {
        // What it asked itself it asks again.
        if let Entry::Answered(ticket, answer) = entry
            && ticket < first
        {
            request.answers.insert(ticket, answer);
        }
    }
}
