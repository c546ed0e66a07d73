//! Letters to connections that listen, in their order, within the limits.

use super::{LetterLimits, LetterRoutes};
use quorate_execute::Letter;
use quorate_types::{ClientId, ConnId, SessionId};
use quorate_wire::{LETTER_BYTES_MAX, LetterFrame, Listen};

const ANN: ClientId = ClientId::new(1);
const BOB: ClientId = ClientId::new(2);

fn conn(number: u64) -> ConnId {
    ConnId::new(number)
}

fn id(index: u32) -> SessionId {
    SessionId { index, generation: 1 }
}

fn listen(session: u32, after: u64) -> Listen {
    Listen { session: id(session), after }
}

fn letter(to: u32, number: u64, len: usize) -> Letter {
    Letter { to: id(to), number, body: vec![number as u8; len].into() }
}

/// What left: the connection, and the session and number of each letter of a frame.
fn sent(routes: &mut LetterRoutes) -> Vec<(u64, Vec<(u32, u64)>)> {
    let sent = routes.drain().map(|(conn, frame)| {
        let letters = LetterFrame::walk(&frame).map(|letter| letter.expect("what is sent decodes"));
        (conn.number(), letters.map(|letter| (letter.session.index, letter.number)).collect())
    });
    let sent = sent.collect();
    assert!(routes.is_empty());
    sent
}

fn routes() -> LetterRoutes {
    LetterRoutes::new(LetterLimits::default())
}

#[test]
fn letters_go_to_whom_listens_in_their_order() {
    let mut routes = routes();
    routes.listen((conn(7), ANN), &[listen(1, 0), listen(2, 0)]);
    for (to, number) in [(1, 1), (2, 1), (1, 2), (3, 1)] {
        routes.send(ANN, letter(to, number, 3));
    }
    assert_eq!(sent(&mut routes), [(7, vec![(1, 1), (2, 1), (1, 2)])]);
    assert_eq!(sent(&mut routes), [], "each once");
    routes.unbind_conn(conn(7));
    routes.send(ANN, letter(1, 3, 3));
    assert_eq!(sent(&mut routes), []);
}

/// A client that connects again, or listens after the first letter, gets what it lacks and this replica has.
#[test]
fn what_a_client_lacks_is_sent_again() {
    let mut routes = routes();
    (1..=4).for_each(|number| routes.send(ANN, letter(1, number, 3)));
    routes.send(ANN, letter(2, 1, 3));
    routes.listen((conn(7), ANN), &[listen(1, 2)]);
    assert_eq!(sent(&mut routes), [(7, vec![(1, 3), (1, 4)])]);
    // The newest connection counts.
    routes.listen((conn(8), ANN), &[listen(1, 4)]);
    routes.unbind_conn(conn(7));
    routes.send(ANN, letter(1, 5, 3));
    assert_eq!(sent(&mut routes), [(8, vec![(1, 5)])]);
}

/// A session's owner is the client that execution names; what another one says of it does not count.
#[test]
fn nobody_reads_the_letters_of_others() {
    let mut routes = routes();
    routes.listen((conn(7), ANN), &[listen(1, 0)]);
    routes.send(ANN, letter(1, 1, 3));
    routes.listen((conn(8), BOB), &[listen(1, 0)]);
    routes.send(ANN, letter(1, 2, 3));
    assert_eq!(sent(&mut routes), [(7, vec![(1, 1), (1, 2)])]);
}

#[test]
fn the_oldest_letters_are_forgotten() {
    let limits = LetterLimits { kept_bytes: 1000, ..LetterLimits::default() };
    let mut routes = LetterRoutes::new(limits);
    for number in 1..=100 {
        routes.send(ANN, letter(1, number, 200));
        assert!(routes.kept_bytes() <= 1000);
    }
    routes.listen((conn(7), ANN), &[listen(1, 0)]);
    assert_eq!(sent(&mut routes), [(7, vec![(1, 98), (1, 99), (1, 100)])]);
    routes.send(ANN, letter(1, 101, 2000));
    assert_eq!(routes.kept_bytes(), 0, "one that is longer than all room is sent and not kept");
    assert_eq!(sent(&mut routes), [(7, vec![(1, 101)])]);
}

#[test]
fn frames_and_turns_have_limits() {
    let limits = LetterLimits { frame_bytes_max: 300, turn_bytes_max: 700, ..LetterLimits::default() };
    let mut routes = LetterRoutes::new(limits);
    routes.listen((conn(7), ANN), &[listen(1, 0)]);
    (1..=9).for_each(|number| routes.send(ANN, letter(1, number, 100)));
    assert_eq!(sent(&mut routes), [(7, vec![(1, 1), (1, 2)]), (7, vec![(1, 3), (1, 4)]), (7, vec![(1, 5)])]);
    routes.send(ANN, letter(1, 10, LETTER_BYTES_MAX + 1));
    routes.send(ANN, letter(1, 11, 10));
    assert_eq!(sent(&mut routes), [(7, vec![(1, 11)])], "what a client would refuse is not sent");
}

/// A client that names ever more sessions leaves out its oldest ones, and costs no more memory.
#[test]
fn a_connection_listens_in_so_many_sessions() {
    let limits = LetterLimits { sessions_per_conn_max: 3, ..LetterLimits::default() };
    let mut routes = LetterRoutes::new(limits);
    routes.listen((conn(7), ANN), &[listen(1, 0), listen(2, 0), listen(3, 0), listen(2, 0)]);
    (1..=4).for_each(|to| routes.send(ANN, letter(to, 1, 3)));
    assert_eq!(sent(&mut routes), [(7, vec![(1, 1), (2, 1), (3, 1)])]);
    routes.listen((conn(7), ANN), &[listen(4, 1)]);
    (1..=4).for_each(|to| routes.send(ANN, letter(to, 2, 3)));
    assert_eq!(sent(&mut routes), [(7, vec![(2, 2), (3, 2), (4, 2)])]);
    (0..1000).for_each(|at| routes.listen((conn(7), ANN), &[listen(at % 100, 9)]));
    assert_eq!((routes.readers.len(), routes.by_conn[&conn(7)].sessions.len()), (3, 3));
    routes.unbind_conn(conn(7));
    assert!(routes.readers.is_empty() && routes.by_conn.is_empty());
}
