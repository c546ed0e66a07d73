//! The rules of sessions, one by one.

use crate::support::{self, Ask, Replica, close, commands, empty, items, list, open};
use quorate_execute::{Lookup, SessionLimits};
use quorate_types::{ClientId, RequestNumber, SessionId, Span};
use quorate_wire::ReplyStatus::{self, *};

fn limits() -> SessionLimits {
    SessionLimits { ttl: Span::from_nanos(100), ..SessionLimits::default() }
}

fn number(n: u64) -> RequestNumber {
    RequestNumber::new(n)
}

/// An opening that is sent again finds the session; once the session was used, the nonce opens another one.
#[test]
fn an_opening_may_be_sent_again() {
    let mut replica = Replica::new(limits());
    let first = replica.opened(5, 9);
    assert_eq!(first, SessionId { index: 0, generation: 1 });
    assert_eq!(replica.opened(5, 9), first);
    assert_ne!(replica.opened(6, 9), first, "another client's nonce is another session");
    replica.one(0, empty(first, 1, 1));
    let second = replica.opened(5, 9);
    assert_ne!(second, first);
    assert_eq!(replica.opened(5, 9), second);
    assert_eq!(replica.one(0, empty(first, 2, 1)).status, Done, "the first one lives on");
    let of_five = |(by, id)| (by == (ClientId::new(5), number(9))).then_some(id);
    let openings = replica.executor.sessions().openings();
    assert_eq!(openings.filter_map(of_five).collect::<Vec<_>>(), [first, second], "used or not");
}

/// A vacant place is given out again, the lowest first, under another generation; the former owner is told.
#[test]
fn a_place_is_given_out_again_under_another_generation() {
    let mut replica = Replica::new(limits());
    let ids: Vec<_> = (0..3).map(|nonce| replica.opened(1, nonce)).collect();
    for id in [ids[2], ids[0]] {
        let seen = replica.one(0, close(id, 1));
        assert_eq!((seen.status, seen.body), (Done, items(&[])));
    }
    assert_eq!(replica.opened(1, 10), SessionId { index: 0, generation: 2 });
    assert_eq!(replica.opened(1, 11), SessionId { index: 2, generation: 2 });
    assert_eq!(replica.one(0, empty(ids[0], 1, 1)).status, SessionExpired);
    assert_eq!(replica.one(0, close(ids[2], 1)).status, SessionExpired, "a closing may be sent again");
}

/// Agreed time decides when a session ends: at the end of its time, and not a nanosecond before.
#[test]
fn a_session_that_executes_nothing_expires() {
    let mut replica = Replica::new(limits());
    let (kept, idle) = (replica.opened(1, 1), replica.opened(1, 2));
    let opened = |replica: &Replica, nonce| replica.executor.opened(ClientId::new(1), number(nonce));
    assert_eq!(
        (opened(&replica, 1), opened(&replica, 2), opened(&replica, 3)),
        (Some(kept), Some(idle), None)
    );
    assert_eq!(replica.one(60, empty(kept, 1, 1)).status, Done);
    assert_eq!(opened(&replica, 1), None, "its client knows that it is open");
    // Neither a repetition nor a gap keeps a session alive.
    let seen = replica.run(99, &[empty(idle, 7, 1), open(1, 2)]);
    assert_eq!((seen[0].status, seen[1].session), (ExpectedNumber, idle));
    let seen = replica.run(100, &[empty(idle, 1, 1), empty(kept, 1, 1)]);
    assert_eq!([seen[0].status, seen[1].status], [SessionExpired, Done]);
    assert_eq!(replica.executor.session_count(), 1);
    assert_eq!(opened(&replica, 2), None, "it is over");
    replica.run(159, &[]);
    assert_eq!(replica.executor.session_count(), 1);
    // Time that goes back in a proposal does not go back.
    replica.run(3, &[]);
    assert_eq!(replica.executor.time().nanos(), 159);
    replica.run(160, &[]);
    assert_eq!(replica.executor.session_count(), 0);
}

/// Both caps refuse an opening, and say so to the client that asked.
#[test]
fn sessions_are_capped() {
    let mut replica = Replica::new(SessionLimits {
        sessions_max: 3,
        sessions_per_client_max: 2,
        ..SessionLimits::default()
    });
    let asks = [open(1, 1), open(1, 2), open(1, 3), open(2, 1), open(3, 1)];
    let seen = replica.run(0, &asks);
    let statuses: Vec<ReplyStatus> = seen.iter().map(|seen| seen.status).collect();
    assert_eq!(statuses, [SessionOpened, SessionOpened, SessionLimit, SessionOpened, SessionLimit]);
    assert_eq!((seen[2].session, seen[2].number), (SessionId::NONE, 3));
    replica.one(0, close(seen[0].session, 1));
    assert_eq!(replica.one(0, open(1, 3)).status, SessionOpened);
}

/// What admission learns before a request is ordered.
#[test]
fn a_look_up_tells_what_became_of_a_number() {
    let mut replica = Replica::new(limits());
    let id = replica.opened(1, 1);
    replica.run(0, &[commands(id, 1, 1, &[b"a"]), commands(id, 2, 2, &[b"b"])]);
    assert_eq!(replica.executor.lookup(id, number(1)), Lookup::Forgotten);
    let body = items(&[&[1, 0, 0, 0, 0, 0, 0, 0, b'b']]);
    assert_eq!(replica.executor.lookup(id, number(2)), Lookup::Done { status: Done, body: &body });
    assert_eq!(replica.executor.lookup(id, number(3)), Lookup::Fresh);
    let other = SessionId { index: 0, generation: 2 };
    assert_eq!(replica.executor.lookup(other, number(1)), Lookup::UnknownSession);
    let far = SessionId { index: u32::MAX, generation: 1 };
    assert_eq!(replica.executor.lookup(far, number(1)), Lookup::UnknownSession);
    assert_eq!(replica.executor.last_number(id), Some(number(2)));
}

/// A client that claims answers it can not have loses none that it will need.
#[test]
fn a_false_claim_forgets_nothing_of_the_future() {
    let mut replica = Replica::new(limits());
    let id = replica.opened(1, 1);
    assert_eq!(replica.one(0, commands(id, u64::MAX, u64::MAX, &[b"x"])).status, ExpectedNumber);
    let first = replica.one(0, commands(id, 1, u64::MAX, &[b"x"]));
    assert_eq!(first.status, Done);
    assert_eq!(replica.one(0, commands(id, 1, u64::MAX, &[b"x"])), first);
    assert_eq!(replica.one(0, commands(id, 0, 0, &[b"x"])).status, ReplyForgotten);
}

/// Replies over the limit: the request ran, its reply says so, and the repetition gets the same.
#[test]
fn replies_over_the_limit_are_dropped_and_said_to_be() {
    let mut replica = Replica::new(SessionLimits { reply_bytes_per_request_max: 1000, ..limits() });
    let id = replica.opened(1, 1);
    assert_eq!(
        replica.one(0, commands(id, 1, 1, &[&[b'L', 0xe0, 3, 0]])).status,
        Done,
        "992 bytes and 8 around"
    );
    let seen = replica.one(0, commands(id, 2, 2, &[&[b'L', 0xe1, 3, 0], b"x"]));
    assert_eq!(seen.status, TooLarge);
    let text = String::from_utf8(seen.body.clone()).expect("text");
    assert!(text.starts_with("executed") && text.contains("reply_bytes_per_request_max (1000"), "{text}");
    assert_eq!(replica.count(), 3, "all of it ran");
    assert_eq!(replica.one(0, commands(id, 2, 2, &[b"x"])), seen);
}

/// A few empty commands are fine; that there are never more than bytes is checked where a batch is decoded.
#[test]
fn empty_commands_run() {
    let mut replica = Replica::new(limits());
    let id = replica.opened(1, 1);
    let seen = replica.one(0, commands(id, 1, 1, &[b"", b"", b""]));
    assert_eq!((seen.status, replica.count()), (Done, 3));
}

/// Once a batch's replies are over their limit the rest does not run, and repeated answers are left out.
#[test]
fn replies_of_one_batch_are_bounded() {
    let mut replica = Replica::new(SessionLimits { reply_bytes_per_batch_max: 3000, ..limits() });
    let ids: Vec<_> = (0..5).map(|nonce| replica.opened(1, nonce)).collect();
    let large = |id| commands(id, 1, 1, &[&[b'L', 0xe8, 3, 0]]);
    let asks: Vec<Ask> = ids.iter().map(|id| large(*id)).collect();
    let statuses: Vec<_> = replica.run(0, &asks).iter().map(|seen| seen.status).collect();
    assert_eq!(statuses, [Done, Done, Done, Overloaded, Overloaded]);
    let again: Vec<Ask> = (0..100).map(|_| large(ids[0])).chain([empty(ids[4], 1, 1)]).collect();
    let seen = replica.run(0, &again);
    assert_eq!(seen.len(), 4, "three answers, then nothing but the refusal");
    assert_eq!(seen[3].status, Overloaded, "not even an empty one");
    assert!(replica.out.arena().len() < 4100);
    assert_eq!(replica.one(0, large(ids[4])).status, Done, "the next batch has room again");
}

/// A session that keeps too much is refused until its client says what it has; and it can be closed.
#[test]
fn a_session_that_keeps_too_much_is_refused() {
    let limits = SessionLimits { reply_bytes_max: 1500, window: 5, reply_bytes_total_max: 4000, ..limits() };
    let mut replica = Replica::new(limits);
    let (id, other) = (replica.opened(1, 1), replica.opened(1, 2));
    let large = |id, number, lowest| commands(id, number, lowest, &[&[b'L', 0xe8, 3, 0]]);
    let statuses = |replica: &mut Replica, asks: &[Ask]| -> Vec<ReplyStatus> {
        replica.run(0, asks).iter().map(|seen| seen.status).collect()
    };
    let asks = [large(id, 1, 1), large(id, 2, 1), large(id, 3, 1), large(id, 4, 1)];
    assert_eq!(statuses(&mut replica, &asks), [Done, Done, Overloaded, ExpectedNumber]);
    assert_eq!(statuses(&mut replica, &[large(id, 3, 3), large(id, 4, 3)]), [Done, Done]);
    // Together the two keep over 4000 bytes after this; then neither runs, whoever is to blame.
    assert_eq!(statuses(&mut replica, &[large(other, 1, 1), large(other, 2, 1)]), [Done, Done]);
    assert_eq!(statuses(&mut replica, &[empty(other, 3, 2), empty(id, 5, 3)]), [Done, Overloaded]);
    assert_eq!(statuses(&mut replica, &[close(id, 5)]), [Done]);
    assert_eq!(replica.executor.sessions().kept_bytes(), 1016);
    // The window: with nothing forgotten, numbers up to 1 + 5 run.
    let third = replica.opened(1, 3);
    let asks: Vec<Ask> = (1..8).map(|number| empty(third, number, 1)).collect();
    let done: Vec<ReplyStatus> = statuses(&mut replica, &asks);
    assert_eq!(done, [Done, Done, Done, Done, Done, Done, Overloaded]);
}

/// Opening and closing at a high rate leaves nothing behind but the places' generations, and those that live on still
/// expire in time.
#[test]
fn opening_and_closing_leaves_nothing_behind() {
    let mut replica = Replica::new(limits());
    let kept = replica.opened(2, 1);
    let bytes = replica.checkpoint().len();
    for nonce in 0..2000 {
        let id = replica.opened(1, nonce);
        assert_eq!(id, SessionId { index: 1, generation: nonce as u32 + 1 });
        assert_eq!(replica.one(0, close(id, 1)).status, Done);
    }
    assert_eq!(replica.executor.session_count(), 1);
    assert_eq!(replica.checkpoint().len(), bytes + 5);
    assert_eq!(replica.one(100, empty(kept, 1, 1)).status, SessionExpired);
}

/// Replies come in the order of the commands, and a request may have none.
#[test]
fn a_request_is_a_list_of_commands() {
    let mut replica = Replica::new(limits());
    let id = replica.opened(1, 1);
    let seen =
        replica.run(0, &[commands(id, 1, 1, &[b"a", b"bc"]), commands(id, 2, 1, &[]), empty(id, 3, 1)]);
    let texts: Vec<Vec<u8>> = list(&seen[0].body).iter().map(|reply| reply[8..].to_vec()).collect();
    assert_eq!(texts, [b"a".to_vec(), b"bc".to_vec()]);
    assert_eq!([&seen[1].body, &seen[2].body], [&items(&[]), &items(&[])]);
}

/// A batch out of order is a bug of ours, and stops us.
#[test]
#[should_panic(expected = "INV-EXEC-1")]
fn a_batch_out_of_order_stops_us() {
    let mut replica = Replica::new(limits());
    replica.executor.execute(support::seq(2), &support::batch(0, 0, &[]), &mut replica.out);
}
