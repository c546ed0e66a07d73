use crate::{Copies, Heard, ReceiveConfig, Receiver, SendConfig, Sender};
use bytes::Bytes;
use quorate_types::{Random, ReplicaId, Span, Time};

const WINDOW: u64 = 8;
const LONGEST: usize = 40;

fn r(number: u16) -> ReplicaId {
    ReplicaId::new(number)
}

fn receives(senders: u16, copies: usize) -> ReceiveConfig {
    ReceiveConfig {
        senders: (1..=senders).map(r).collect(),
        copies,
        window: WINDOW,
        sender_bytes_max: 100,
        message_bytes_max: LONGEST,
    }
}

fn sends(behind: u64) -> SendConfig {
    SendConfig {
        window: WINDOW,
        bytes_at_once: 64,
        again: Span::from_millis(50),
        behind: Span::from_millis(behind),
    }
}

fn at(millis: u64) -> Time {
    Time::ZERO.plus(Span::from_millis(millis))
}

/// What an honest sender sends at a position.
fn right(position: u64) -> Bytes {
    let len = 1 + (position as usize * 7) % (LONGEST - 8);
    Bytes::from([&position.to_le_bytes()[..], &vec![9; len]].concat())
}

fn positions(copies: &[Copies]) -> Vec<u64> {
    copies.iter().flat_map(|copies| copies.list.iter().map(|(position, _)| *position)).collect()
}

#[test]
fn a_message_counts_with_one_copy_more_than_may_be_lies() {
    let mut receiver = Receiver::new(receives(3, 2), 1);
    assert_eq!(receiver.hear(r(1), 1, right(1)), Heard::Kept);
    assert_eq!(receiver.hear(r(1), 1, right(1)), Heard::Known, "a sender counts once");
    assert_eq!(receiver.hear(r(1), 1, right(2)), Heard::Wrong, "its first copy counts");
    assert_eq!(receiver.hear(r(4), 1, right(1)), Heard::Wrong, "a stranger");
    assert_eq!(receiver.hear(r(2), 1, right(2)), Heard::Kept, "another message");
    assert_eq!(receiver.waiting().count(), 0);
    assert_eq!(receiver.hear(r(3), 1, right(1)), Heard::Counts);
    assert_eq!(receiver.waiting().collect::<Vec<_>>(), [(1, &right(1))]);
    assert_eq!(receiver.wrong(), 2);
    assert!(receiver.settle(|position| position == 1));
    assert_eq!((receiver.next(), receiver.hear(r(2), 1, right(1))), (2, Heard::Known));
    receiver.invariants();
}

#[test]
fn the_window_begins_at_the_first_open_position() {
    let mut receiver = Receiver::new(receives(1, 1), 1);
    assert_eq!(receiver.hear(r(1), 2, right(2)), Heard::Counts);
    assert_eq!(receiver.hear(r(1), 1 + WINDOW, right(9)), Heard::NoRoom);
    assert!(!receiver.settle(|position| position == 2), "an earlier one is open");
    assert!(receiver.settle(|position| position <= 2));
    assert_eq!(receiver.next(), 3);
    assert_eq!(receiver.hear(r(1), 1 + WINDOW, right(9)), Heard::Counts);
    receiver.invariants();
}

#[test]
fn a_liar_fills_only_its_own_limit() {
    let mut receiver = Receiver::new(receives(3, 2), 1);
    let large = Bytes::from(vec![1; LONGEST]);
    let taken = (1..=WINDOW).filter(|at| receiver.hear(r(3), *at, large.clone()) == Heard::Kept).count();
    assert_eq!(taken, 3, "100 bytes and what is begun");
    assert_eq!(receiver.hear(r(3), 4, Bytes::from(vec![1; LONGEST + 1])), Heard::Wrong);
    for position in 1..=WINDOW {
        receiver.hear(r(1), position, right(position));
        assert_eq!(receiver.hear(r(2), position, right(position)), Heard::Counts, "{position}");
        receiver.settle(|done| done <= position);
        receiver.invariants();
    }
}

#[test]
fn a_sender_sends_what_lies_in_the_window_and_again_what_is_not_done() {
    let mut sender = Sender::new(sends(0));
    (1..=WINDOW + 2).for_each(|position| sender.put(at(0), position, right(position)));
    assert!(sender.step(at(0)).is_empty(), "it does not know how far the receiver is");
    sender.seen(r(1), 3);
    assert_eq!(positions(&sender.step(at(0))), (3..WINDOW + 3).collect::<Vec<_>>());
    assert!(sender.step(at(10)).is_empty());
    sender.seen(r(1), 5);
    sender.keep(|position| position > 5);
    assert_eq!(sender.deadline(), Some(at(50)));
    assert_eq!(positions(&sender.step(at(50))), (6..=WINDOW + 2).collect::<Vec<_>>());
    sender.lost(r(1));
    assert_eq!(sender.deadline(), None);
    sender.seen(r(1), 9);
    assert_eq!(positions(&sender.step(at(60))), [9, 10], "a new connection begins where the receiver is");
    sender.keep(|_| false);
    assert_eq!((sender.byte_len(), sender.deadline()), (0, None));
}

#[test]
fn who_is_behind_sends_what_the_first_one_did_not() {
    let (mut first, mut second) = (Sender::new(sends(0)), Sender::new(sends(30)));
    for sender in [&mut first, &mut second] {
        sender.put(at(0), 1, right(1));
        sender.seen(r(1), 1);
    }
    assert_eq!(positions(&first.step(at(0))), [1]);
    assert_eq!((second.step(at(29)), second.deadline()), (vec![], Some(at(30))));
    let mut done = second.clone();
    done.seen(r(1), 2);
    assert!(done.step(at(30)).is_empty(), "the receiver is done with it");
    assert_eq!(positions(&second.step(at(30))), [1]);
}

#[test]
fn a_jump_keeps_what_counts_and_lies_in_the_window() {
    let mut receiver = Receiver::new(receives(1, 1), 1);
    for position in 1..=WINDOW {
        receiver.hear(r(1), position, right(position));
    }
    receiver.settle(|position| position == 1 || position == 6);
    receiver.jump(5);
    receiver.invariants();
    assert_eq!(receiver.waiting().map(|(position, _)| position).collect::<Vec<_>>(), [5, 7, 8]);
    receiver.jump(1);
    assert_eq!(receiver.hear(r(1), 1, right(1)), Heard::Counts, "the state went back");
    receiver.invariants();
}

#[test]
fn other_senders_begin_anew() {
    let mut receiver = Receiver::new(receives(3, 2), 1);
    receiver.hear(r(1), 1, right(1));
    receiver.meet(vec![r(2), r(3), r(4)], 2);
    assert_eq!(receiver.hear(r(2), 1, right(1)), Heard::Kept, "the copy of one that is gone does not count");
    assert_eq!(receiver.hear(r(1), 1, right(1)), Heard::Wrong);
    assert_eq!(receiver.hear(r(4), 1, right(1)), Heard::Counts);
    receiver.invariants();
}

/// A lossy network between senders, of which some lie, and receivers, of which one may lie about how far it is.
struct Lossy {
    random: Random,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    /// Whether connections hold; by sender and receiver.
    up: Vec<Vec<bool>>,
    liars: usize,
    /// On the way: from a sender to a receiver, or back.
    copies: Vec<(usize, usize, u64, Bytes)>,
    words: Vec<(usize, usize, u64)>,
}

impl Lossy {
    fn new(seed: u64, (m, n, liars): (u16, u16, usize)) -> Self {
        let all_send = liars > 0;
        let sender = |rank: u16| Sender::new(sends(if all_send { 0 } else { 100 * u64::from(rank) }));
        Self {
            random: Random::new(seed),
            senders: (0..m).map(sender).collect(),
            receivers: (0..n).map(|_| Receiver::new(receives(m, liars + 1), 1)).collect(),
            up: vec![vec![false; usize::from(n)]; usize::from(m)],
            liars,
            copies: Vec::new(),
            words: Vec::new(),
        }
    }

    /// One moment in which frames are lost, doubled and overtaken, connections break, and liars lie. `calm`: no longer.
    fn turn(&mut self, now: Time, calm: bool) {
        for s in 0..self.senders.len() {
            for v in 0..self.receivers.len() {
                let breaks = !calm && self.random.below(20) == 0;
                if self.up[s][v] && breaks {
                    self.up[s][v] = false;
                    self.copies.retain(|(from, to, ..)| (*from, *to) != (s, v));
                    self.words.retain(|(from, to, _)| (*from, *to) != (v, s));
                    self.senders[s].lost(r(v as u16 + 1));
                } else if !self.up[s][v] && (calm || self.random.below(4) == 0) {
                    self.up[s][v] = true;
                    self.words.push((v, s, self.receivers[v].next()));
                }
            }
            for Copies { to, list } in self.senders[s].step(now) {
                let to = usize::from(to.number()) - 1;
                for (position, message) in list {
                    let lies = s < self.liars && self.random.below(2) == 0;
                    let message = if lies { right(position + 1) } else { message };
                    self.copies.push((s, to, position, message));
                }
            }
        }
        for _ in 0..self.copies.len() {
            let at = self.random.below(self.copies.len() as u64) as usize;
            let (s, v, position, message) = self.copies.swap_remove(at);
            match if calm { 1 } else { self.random.below(6) } {
                0 => {}
                2 => self.copies.push((s, v, position, message)),
                _ => {
                    self.receivers[v].hear(r(s as u16 + 1), position, message);
                }
            }
        }
        for _ in 0..self.words.len() {
            let at = self.random.below(self.words.len() as u64) as usize;
            let (v, s, next) = self.words.swap_remove(at);
            self.senders[s].seen(r(v as u16 + 1), next);
        }
    }
}

/// Whatever the network does, each receiver takes each message once, in no other form than honest senders have, and nothing grows.
#[test]
fn over_a_lossy_network_everything_comes_and_nothing_else() {
    for seed in 0..60 {
        let size = [(3, 3, 0), (4, 4, 1), (1, 3, 0), (7, 4, 2), (4, 1, 1)][seed as usize % 5];
        let mut net = Lossy::new(seed, size);
        let last = 40;
        let (mut put, mut done) = (vec![0; net.senders.len()], vec![0_u64; net.receivers.len()]);
        for turn in 0..4000_u64 {
            let now = at(turn * 5);
            for (sender, put) in net.senders.iter_mut().zip(&mut put) {
                // Senders come to know their messages at different times, and forget what all receivers have.
                if *put < last && net.random.below(3) == 0 {
                    *put += 1;
                    sender.put(now, *put, right(*put));
                }
                let least = done.iter().copied().min().unwrap_or_default();
                sender.keep(|position| position > least);
            }
            net.turn(now, turn > 2000);
            for (v, done) in done.iter_mut().enumerate() {
                let next = net.receivers[v].next();
                for (position, message) in net.receivers[v].waiting() {
                    assert_eq!(*message, right(position), "seed {seed}");
                }
                let counts: Vec<u64> = net.receivers[v].waiting().map(|(position, _)| position).collect();
                net.receivers[v].settle(|position| position < next || counts.contains(&position));
                *done = net.receivers[v].next() - 1;
                net.receivers[v].invariants();
                for s in (0..net.senders.len()).filter(|s| net.up[*s][v]) {
                    net.words.push((v, s, *done + 1));
                }
            }
            if done.iter().all(|done| *done == last) {
                break;
            }
        }
        assert!(done.iter().all(|done| *done == last), "seed {seed}: {done:?}");
    }
}
