//! Commands that misbehave: each is ended alone, the same on all replicas, and the next one runs.

use super::asking::{BANK, ask, rules};
use super::service::Step::{Add, All, Answer, Ask, Get, Panic, Put, Remove, Sleep};
use super::service::command;
use super::world::{Replica, answer, place, reply, with_sessions};
use crate::support::{commands, open};
use quorate_execute::{
    Call, Context, Failure, InStore, Journaled, JournaledService, NestedRules, ReplySink, Store,
};
use std::sync::atomic::{AtomicU8, Ordering};

/// A command that panics or sleeps ends alone: the leg before counts, the last one does not, and the next command runs.
#[test]
fn a_command_is_ended_alone() {
    for (last, why, words) in [(Panic, Failure::Panicked, "step 0"), (Sleep, Failure::Foreign, "")] {
        let (mut replica, sessions) = with_sessions(&rules(), 2);
        let (bad, good) =
            (command(&[Add(1), Ask(BANK), Answer, Add(2), last]), command(&[Get(1), Get(2), All, Remove(1)]));
        let did = replica.run(&place(2, &[commands(sessions[0], 1, 1, &[&bad, &good])], vec![]));
        let mut other = replica.restarted();
        let end = place(3, &[], vec![answer(&did.left[0])]);
        let did = replica.run(&end);
        let (first, second) = reply(&did.ended[0])
            .split_once('|')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .expect("two replies");
        assert_eq!(first, why.to_string());
        assert_eq!(&second.as_bytes()[3..], [1, 1, 1], "the first leg counts, and the second one does not");
        let reports = replica.executor().take_reports();
        assert_eq!((reports[0].why, &*reports[0].words, reports[0].command), (why, words, 0));
        assert_eq!((other.run(&end), other.digest()), (did, replica.digest()));
    }
}

/// What a command would keep in its journal over all limits together ends that command, and no other.
#[test]
fn all_journals_together_are_limited() {
    let limits = NestedRules { journal_bytes_max: 3000, ..rules() };
    let (mut replica, sessions) = with_sessions(&limits, 2);
    let small = replica.run(&place(2, &[ask(sessions[0], 1, &[Ask(BANK), Answer])], vec![]));
    let reads: Vec<_> = std::iter::repeat_n(Get(1), 200).chain([Put(2), Ask(BANK), Answer]).collect();
    let large = replica.run(&place(3, &[ask(sessions[1], 1, &reads)], vec![]));
    assert_eq!(reply(&large.ended[0]), Failure::Journals(3000).to_string());
    assert!(large.left.is_empty(), "nothing of its leg leaves");
    assert_eq!(replica.run(&place(4, &[], vec![answer(&small.left[0])])).ended.len(), 1);
}

/// Replies that are too long together are not kept for later, and say so when the request ends.
#[test]
fn replies_are_limited_while_others_are_under_way() {
    let (mut replica, sessions) = with_sessions(&rules(), 1);
    // What was seen doubles with each pair.
    let long: Vec<_> = std::iter::repeat_n([Put(1), Get(1)], 20).flatten().collect();
    let (long, last) = (command(&long), command(&[Ask(BANK), Answer]));
    let did = replica.run(&place(2, &[commands(sessions[0], 1, 1, &[&long, &long, &last])], vec![]));
    let image = replica.image();
    assert!(image.system.len() < 2 << 20, "{}", image.system.len());
    let did = replica.restarted().run(&place(3, &[], vec![answer(&did.left[0])]));
    assert_eq!(did.ended[0].status, quorate_wire::ReplyStatus::TooLarge);
}

/// Reads something else each time that it runs.
struct Fickle(AtomicU8);

impl JournaledService for Fickle {
    async fn execute(&self, call: &mut Call, _: &[u8], _: &Context) -> Vec<u8> {
        let read = call.get(&[self.0.fetch_add(1, Ordering::Relaxed)]);
        let ticket = call.ask(quorate_execute::ServiceId(2), b"x");
        format!("{read:?} {:?}", call.answer(ticket).await).into_bytes()
    }
    fn query(&self, _: &Store, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
    fn failed(&self, why: Failure) -> Vec<u8> {
        format!("sorry, {why}").into_bytes()
    }
}

/// A service that does something else when it runs again is found out, and the place is named.
#[test]
fn a_service_that_is_not_deterministic_is_found_out() {
    let service = || Box::new(InStore::new(Journaled::new(Fickle(AtomicU8::new(0)), rules())));
    let mut replica = Replica::of(service);
    // The future is not kept, so the command runs again.
    replica.executor().keep_running(0);
    let session = replica.run(&place(1, &[open(1, 1)], vec![])).ended[0].session;
    let did = replica.run(&place(2, &[ask(session, 1, &[])], vec![]));
    let did = replica.run(&place(3, &[], vec![answer(&did.left[0])]));
    assert_eq!(
        reply(&did.ended[0]),
        "sorry, ended: the service is not deterministic",
        "in the service's own words"
    );
    let reports = replica.executor().take_reports();
    assert_eq!(reports[0].why, Failure::NotDeterministic);
    assert!(reports[0].words.starts_with("operation 1 of 3: before, the command reads a key"), "{reports:?}");
}
