use super::{CONTENTION, COST, CREDIT, Fair, Lately};
use quorate_types::{ConnId, Span, Time};

const NOW: Time = Time::from_nanos(1);
const FLOOD: u64 = 7;
const GOOD: u64 = 8;

fn conn(number: u64) -> ConnId {
    ConnId::new(number)
}

/// The peers that are read, in order, while each of `greedy` always has more and sends `bytes` each time; the others send little.
fn order(fair: &mut Fair, greedy: &[u64], bytes: usize, turns: usize) -> Vec<u64> {
    let mut read = Vec::new();
    for _ in 0..turns {
        let Some(next) = fair.next(NOW, |_| true) else { break };
        let number = next.conn.number();
        read.push(number);
        let more = greedy.contains(&number);
        fair.served(NOW, next, bytes, (more, !more));
    }
    read
}

#[test]
fn who_sends_little_comes_before_who_sends_much() {
    let mut fair = Fair::default();
    (1..=3).for_each(|number| fair.came(conn(number), FLOOD));
    // Each once, as they came; from then on they have more than was taken.
    assert_eq!(order(&mut fair, &[1, 2, 3], 1 << 14, 7), [1, 2, 3, 1, 2, 3, 1]);
    fair.came(conn(9), GOOD);
    assert_eq!(order(&mut fair, &[1, 2, 3], 1 << 14, 3)[0], 9);
    assert!(fair.is_contended(NOW));
    assert!(!fair.is_contended(NOW.plus(CONTENTION)));
}

#[test]
fn connections_of_the_same_owner_are_told_apart_too() {
    let mut fair = Fair::default();
    fair.came(conn(1), FLOOD);
    assert_eq!(order(&mut fair, &[1], 100, 3), [1, 1, 1]);
    fair.came(conn(2), FLOOD);
    assert_eq!(order(&mut fair, &[1], 100, 2), [2, 1]);
}

#[test]
fn many_small_connections_of_one_owner_are_heavy_together() {
    let mut fair = Fair::default();
    let crowd = 2 * CREDIT as u64 / 1024;
    let until_heavy = (CREDIT / (1024 + COST)) as usize + 1;
    (100..100 + crowd).for_each(|number| fair.came(conn(number), FLOOD));
    // Its credit goes, although each connection has no more than this.
    let before = order(&mut fair, &[], 1024, until_heavy);
    assert!(before.len() == until_heavy && !fair.has_light() && fair.has_heavy());
    fair.came(conn(9), GOOD);
    assert_eq!(order(&mut fair, &[], 100, 1), [9]);
    // Nobody is forgotten.
    assert_eq!(order(&mut fair, &[], 1024, 1000).len(), crowd as usize - until_heavy);
    assert!(!fair.has_light() && !fair.has_heavy());
    assert!(fair.flows.is_empty(), "nothing is kept of who is gone");
}

#[test]
fn heavy_ones_wait_for_room_and_light_ones_do_not() {
    let mut fair = Fair::default();
    fair.came(conn(1), FLOOD);
    assert_eq!(order(&mut fair, &[1], 1 << 20, 1), [1]);
    assert_eq!(fair.next(NOW, |contended| contended), None, "there is room only if there is contention");
    fair.came(conn(2), GOOD);
    let next = fair.next(NOW, |_| false).expect("it is light");
    assert_eq!((next.conn, next.light), (conn(2), true));
    fair.served(NOW, next, 10, (false, true));
    assert_eq!(fair.next(NOW, |_| false), None);
    let later = NOW.plus(Span::from_millis(1));
    assert_eq!(
        fair.next(later, |contended| contended).map(|next| (next.conn, next.light)),
        Some((conn(1), false))
    );
}

#[test]
fn owners_take_turns_however_many_connections_they_have() {
    let mut fair = Fair::default();
    (1..=50).for_each(|number| fair.came(conn(number), FLOOD));
    fair.came(conn(100), GOOD);
    let greedy: Vec<u64> = (1..=100).collect();
    let read = order(&mut fair, &greedy, CREDIT as usize, 200);
    let of_the_one = read.iter().filter(|number| **number == 100).count();
    assert!((90..=110).contains(&of_the_one), "{of_the_one} of {}", read.len());
}

#[test]
fn clients_that_all_send_much_are_no_contention() {
    let mut fair = Fair::default();
    fair.came(conn(1), FLOOD);
    let next = fair.next(NOW, |_| true).expect("it has bytes");
    fair.served(NOW, next, 1 << 14, (true, false));
    // It comes beside the other one, and had nothing left when it was read; but it sends much.
    fair.came(conn(2), GOOD);
    let next = fair.next(NOW, |_| true).expect("it has bytes");
    assert_eq!((next.conn, next.light), (conn(2), true));
    fair.served(NOW, next, 1 << 14, (false, false));
    assert!(!fair.is_contended(NOW));
}

#[test]
fn a_connection_sends_little_if_it_uses_less_than_a_credit_in_the_time_of_contention() {
    let (mut lately, credit) = (Lately::default(), CREDIT as usize);
    let mut now = NOW;
    assert!(lately.sent(now, credit / 2));
    assert!(!lately.sent(now, credit / 2));
    // Half of the time: half of a credit is forgotten.
    now = now.plus(Span::from_nanos(CONTENTION.nanos() / 2));
    assert!(lately.sent(now, credit / 4));
    // However much it was, it is forgotten soon.
    assert!(!lately.sent(now, 100 * credit));
    now = now.plus(CONTENTION).plus(CONTENTION);
    assert!(lately.sent(now, 10));
    // A steady stream of small pieces is much.
    let step = Span::from_millis(1);
    let last = (0..500).fold(true, |_, _| {
        now = now.plus(step);
        lately.sent(now, credit / 50)
    });
    assert!(!last);
}
