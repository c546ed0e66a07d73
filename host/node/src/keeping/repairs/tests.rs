use super::*;

const SEQ: Seq = Seq::new(10);
const DIGEST: Digest = Digest::new([7; 32]);
const A: ReplicaId = ReplicaId::new(1);
const B: ReplicaId = ReplicaId::new(2);

fn at(millis: u64) -> Time {
    Time::ZERO.plus(Span::from_millis(millis))
}

fn both(_: Seq, _: Digest) -> Vec<ReplicaId> {
    vec![A, B]
}

#[test]
fn a_part_is_asked_for_from_one_and_after_a_while_from_the_other() {
    let mut repairs = Repairs::default();
    repairs.add(SEQ, DIGEST, 3);
    let wanted = StateMessage::FetchChunks { seq: SEQ, digest: DIGEST, chunks: vec![3] };
    assert_eq!(repairs.ask(at(0), both), [(A, wanted.clone())]);
    assert_eq!(repairs.ask(at(100), both), []);
    assert_eq!(repairs.deadline(), Some(at(2000)));
    assert_eq!(repairs.ask(at(2000), both), [(B, wanted)]);
    assert!(repairs.takes(B, SEQ, DIGEST, 3) && !repairs.takes(A, SEQ, DIGEST, 3));
    repairs.done(SEQ, 3);
    assert_eq!((repairs.len(), repairs.deadline()), (0, None));
}

#[test]
fn an_answer_that_nobody_asked_for_is_not_taken() {
    let mut repairs = Repairs::default();
    assert!(!repairs.takes(A, SEQ, DIGEST, 3));
    repairs.add(SEQ, DIGEST, 3);
    assert!(!repairs.takes(A, SEQ, DIGEST, 3));
    repairs.ask(at(0), both);
    assert!(!repairs.takes(A, SEQ, Digest::new([8; 32]), 3) && !repairs.takes(A, SEQ, DIGEST, 4));
}

#[test]
fn bytes_of_no_use_are_asked_for_elsewhere_at_once() {
    let mut repairs = Repairs::default();
    repairs.add(SEQ, DIGEST, 3);
    repairs.ask(at(0), both);
    repairs.again(SEQ, 3);
    assert_eq!(repairs.ask(at(1), both).first().map(|(from, _)| *from), Some(B));
}

#[test]
fn while_nobody_holds_it_it_is_looked_for_now_and_then() {
    let mut repairs = Repairs::default();
    repairs.add(SEQ, DIGEST, 3);
    assert_eq!(repairs.ask(at(0), |_, _| vec![]), []);
    assert_eq!(repairs.deadline(), Some(at(2000)));
    assert_eq!(repairs.ask(at(2000), both).len(), 1);
    repairs.forget(SEQ);
    assert_eq!(repairs.len(), 0);
}
