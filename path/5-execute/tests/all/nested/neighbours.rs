//! Nested requests and answers as they stand in batches: in sessions of neighbours, each once.

use super::asking::{BANK, ask, rules};
use super::service::Step::{Add, Answer, Ask, Get};
use super::service::command;
use super::world::{Did, Replica, answer, place, reply, with_sessions};
use crate::support::{Ask as Request, items};
use quorate_execute::{Answered, Arrival, ServiceId};
use quorate_types::{ClusterId, ReplicaId, RequestNumber, SessionId};
use quorate_wire::{
    Neighbour, NeighbourCommand, Relation, ReplyStatus, RequestKind, write_answer, write_nested,
};

fn neighbour(relation: Relation, service: u32, sessions: u16) -> Neighbour {
    Neighbour {
        relation,
        service,
        name: "other".into(),
        cluster: ClusterId::new(5),
        faulty: 1,
        lying: 0,
        sessions,
        members: (1..=3).map(|id| (ReplicaId::new(id), format!("r{id}"))).collect(),
    }
}

fn allow(replica: &mut Replica, relation: Relation, service: u32, sessions: u16) -> Vec<SessionId> {
    let command = NeighbourCommand::Allow(neighbour(relation, service, sessions));
    replica.executor().neighbour(&command).expect("there is room");
    let known = replica.executor().neighbours().get(relation, service).expect("it is one now");
    known.sessions.clone()
}

/// The answer to a nested request as a request of the backend's session.
fn ordered(arrival: &Arrival, (session, number): (SessionId, u64)) -> Request {
    let Arrival::Answer(Answered { status, body, .. }) = arrival else { panic!("an answer") };
    let body = write_answer(*status, body).to_vec();
    Request { session, number, lowest: number, kind: RequestKind::Answer, body }
}

fn nested(session: SessionId, number: u64, chain: &[u32], commands: &[&[u8]]) -> Request {
    let body = write_nested(chain.iter().copied(), &items(commands));
    Request { session, number, lowest: 1, kind: RequestKind::Nested, body }
}

fn statuses(did: &Did) -> Vec<ReplyStatus> {
    did.ended.iter().map(|seen| seen.status).collect()
}

#[test]
fn an_answer_is_a_request_of_the_backends_session_and_counts_once() {
    let (mut replica, sessions) = with_sessions(&rules(), 2);
    let backend = allow(&mut replica, Relation::Backend, u32::from(BANK), 1);
    let asks = [ask(sessions[0], 1, &[Ask(BANK), Answer, Add(7)])];
    let first = replica.run(&place(2, &asks, vec![]));
    let is = answer(&first.left[0]);
    // It comes after the requests of its batch, wherever it stands there.
    let both = [ordered(&is, (backend[0], 1)), ask(sessions[1], 1, &[Get(7)])];
    let did = replica.run(&place(3, &both, vec![]));
    assert_eq!(statuses(&did), [ReplyStatus::Done; 3]);
    assert_eq!(did.ended[0].session, backend[0]);
    assert!(!reply(&did.ended[1]).contains('\u{1}'), "the command that was answered went on behind it");
    assert!(reply(&did.ended[2]).contains('='));
    let unasked = |replica: &mut Replica| replica.executor().nested_counts().expect("it asks").unasked;
    let again = replica.run(&place(4, &[ordered(&is, (backend[0], 1))], vec![]));
    assert_eq!((statuses(&again), unasked(&mut replica)), (vec![ReplyStatus::Done], 0), "the kept reply");
    let later = replica.run(&place(5, &[ordered(&is, (backend[0], 3))], vec![]));
    assert_eq!(statuses(&later), [ReplyStatus::ExpectedNumber]);
    replica.run(&place(6, &[ordered(&is, (backend[0], 2))], vec![]));
    assert_eq!(unasked(&mut replica), 1, "nobody asked that");
}

#[test]
fn answers_of_several_sessions_come_in_any_order() {
    let (mut replica, sessions) = with_sessions(&rules(), 3);
    let backend = allow(&mut replica, Relation::Backend, u32::from(BANK), 2);
    let mut left = Vec::new();
    for (time, session) in (2..).zip(&sessions) {
        left.extend(replica.run(&place(time, &[ask(*session, 1, &[Ask(BANK), Answer])], vec![])).left);
    }
    let answers: Vec<Arrival> = left.iter().map(answer).collect();
    let second = replica.run(&place(9, &[ordered(&answers[1], (backend[1], 1))], vec![]));
    assert_eq!(second.ended[1].session, sessions[1]);
    let mut other = replica.restarted();
    for replica in [&mut replica, &mut other] {
        let rest = [ordered(&answers[0], (backend[0], 1)), ordered(&answers[2], (backend[0], 2))];
        let did = replica.run(&place(10, &rest, vec![]));
        assert_eq!((did.ended[2].session, did.ended[3].session), (sessions[0], sessions[2]));
        assert_eq!(replica.executor().unanswered().count(), 0);
    }
    assert_eq!(replica.digest(), other.digest());
}

#[test]
fn only_callers_ask_and_only_backends_answer() {
    let (mut replica, sessions) = with_sessions(&rules(), 1);
    let backend = allow(&mut replica, Relation::Backend, u32::from(BANK), 1);
    let caller = allow(&mut replica, Relation::Caller, 9, 1);
    let go = command(&[Add(7)]);
    let done = Arrival::Answer(Answered {
        backend: ServiceId(u32::from(BANK)),
        number: RequestNumber::new(1),
        status: ReplyStatus::Done,
        body: items(&[b""]).into(),
    });
    let wrong = [
        nested(sessions[0], 1, &[9], &[&go]),
        nested(backend[0], 1, &[9], &[&go]),
        ordered(&done, (caller[0], 1)),
        ordered(&done, (sessions[0], 1)),
    ];
    let did = replica.run(&place(2, &wrong, vec![]));
    assert_eq!(statuses(&did), [ReplyStatus::SessionExpired; 4]);
    let did = replica.run(&place(3, &[nested(caller[0], 1, &[9], &[&go])], vec![]));
    assert_eq!(statuses(&did), [ReplyStatus::Done]);
    // A request that this service asked for itself does not enter it.
    let back = replica.run(&place(4, &[nested(caller[0], 2, &[1, 9], &[&go])], vec![]));
    assert!(reply(&back.ended[0]).contains("comes back"), "{:?}", reply(&back.ended[0]));
}

#[test]
fn who_is_forgotten_while_it_waits_is_answered_no_more() {
    let (mut replica, _) = with_sessions(&rules(), 1);
    let backend = allow(&mut replica, Relation::Backend, u32::from(BANK), 1);
    let caller = allow(&mut replica, Relation::Caller, 9, 1);
    let asks = command(&[Ask(BANK), Answer, Add(7)]);
    let first = replica.run(&place(2, &[nested(caller[0], 1, &[9], &[&asks])], vec![]));
    assert!(first.ended.is_empty());
    replica.executor().neighbour(&NeighbourCommand::Forget(Relation::Caller, 9)).expect("it was one");
    let mut other = replica.restarted();
    for replica in [&mut replica, &mut other] {
        let refused = replica.run(&place(3, &[nested(caller[0], 2, &[9], &[&asks])], vec![]));
        assert_eq!(statuses(&refused), [ReplyStatus::SessionExpired]);
        let is = answer(&first.left[0]);
        let did = replica.run(&place(4, &[ordered(&is, (backend[0], 1))], vec![]));
        assert_eq!(statuses(&did), [ReplyStatus::Done; 2], "what was under way ended");
        replica.run(&place(5, &[], vec![]));
        assert!(replica.executor().neighbours().get(Relation::Caller, 9).is_none());
        assert_eq!(replica.executor().client(caller[0]), None);
    }
    assert_eq!(replica.digest(), other.digest());
}
