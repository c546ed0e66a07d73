//! Each checker by itself sees what it is there for. The planted bugs (`planted.rs`) prove it again on whole runs.

use bytes::Bytes;
use quorate_auth::{Authenticator, Keyed};
use quorate_history::{Answer, Event, Op, Outcome};
use quorate_node::SuspectStatus;
use quorate_order::mod_smart::Statements;
use quorate_order::mod_smart::evidence::{Evidence, EvidenceKind, SignedAccept, Statement};
use quorate_sim::checks::agreement::Agreement;
use quorate_sim::checks::alarm::Alarm;
use quorate_sim::checks::members::MembershipCheck;
use quorate_sim::checks::once::Once;
use quorate_sim::checks::time::{Bounds, Times};
use quorate_sim::checks::{acked, answers, asked, bounded, leases, linear, progress, reads, suspects};
use quorate_sim::client::{Done, Way};
use quorate_sim::service::Row;
use quorate_types::{ClusterId, Digest, InstanceId, MembershipId, ReplicaId, Slot, View};
use quorate_wire::{Member, Membership};

/// Client 1 puts `value` under `k0`, as its operation `number`.
fn row(seq: u64, number: u32, value: &[u8]) -> Row {
    let mut command = 1_u32.to_le_bytes().to_vec();
    command.extend_from_slice(&number.to_le_bytes());
    let put = quorate_kv::KvCommand::One(quorate_kv::Operation::Put { key: b"k0", value });
    put.encode(&mut command);
    Row { seq, time: seq, seed: 1, op: (1, number), command, reply: vec![1, 0], state: None }
}

fn done(number: u32, way: Way, outcome: Outcome) -> Done {
    let op = if way == Way::Command { Op::Put { value: "a".into() } } else { Op::Get };
    Done {
        id: (1, number),
        key: "k0".into(),
        op,
        way,
        call: 10 * u64::from(number),
        ret: Some(10 * u64::from(number) + 5),
        outcome: Some(outcome),
        reply: vec![1, 0],
        seq: 0,
        replica: None,
        patient: true,
        why: String::new(),
        carried: None,
    }
}

fn ok(answer: Answer) -> Outcome {
    Outcome::Ok { ret: 100, answer }
}

/// A read that got this value at this seq.
fn read(number: u32, way: Way, seq: u64, value: Option<&str>) -> Done {
    let mut reply = Vec::new();
    quorate_kv::KvReply::Value(value.map(str::as_bytes)).encode(&mut reply);
    Done { seq, reply, ..done(number, way, ok(Answer::Value(value.map(str::to_owned)))) }
}

#[test]
fn agreement_sees_another_command_reply_or_batch() {
    let mut agreement = Agreement::default();
    assert_eq!(agreement.executed("r1", 0, &row(1, 0, b"a")), Ok(true));
    assert_eq!(agreement.executed("r2", 0, &row(1, 0, b"a")), Ok(false));
    let others = [
        row(1, 0, b"b"),
        row(2, 0, b"a"),
        Row { reply: vec![1, 1], ..row(1, 0, b"a") },
        Row { time: 2, ..row(1, 0, b"a") },
        Row { seed: 2, ..row(1, 0, b"a") },
        Row { state: Some(7), ..row(1, 0, b"a") },
    ];
    for other in others {
        assert!(agreement.executed("r3", 0, &other).is_err(), "{other:?}");
    }
}

#[test]
fn once_sees_repetition_and_wrong_outcomes() {
    let mut once = Once::default();
    let rows = [row(1, 0, b"a"), row(2, 1, b"a")];
    assert_eq!(once.ran(0, &rows[0]), Ok(()));
    assert_eq!(once.ran(1, &rows[1]), Ok(()));
    assert!(once.ran(2, &rows[0]).is_err(), "it ran twice");
    let command = |number, outcome| done(number, Way::Command, outcome);
    assert_eq!(once.compare(&command(0, ok(Answer::Done)), &rows), Ok(()));
    assert_eq!(once.compare(&command(5, Outcome::Fail { ret: None }), &rows), Ok(()));
    assert_eq!(once.compare(&command(0, Outcome::Unknown { ret: None }), &rows), Ok(()));
    assert!(once.compare(&command(5, ok(Answer::Done)), &rows).is_err(), "answered, never ran");
    assert!(once.compare(&command(0, Outcome::Fail { ret: None }), &rows).is_err(), "failed, ran");
    let other = Done { reply: vec![1, 1], ..command(0, ok(Answer::Done)) };
    assert!(once.compare(&other, &rows).is_err(), "answered with another reply");
}

#[test]
fn acked_sees_early_answers_and_losses() {
    let mut once = Once::default();
    let acknowledged = done(0, Way::Command, ok(Answer::Done));
    assert!(acked::ended(&acknowledged, &once).is_err(), "nobody ran it");
    assert_eq!(once.ran(0, &row(1, 0, b"a")), Ok(()));
    assert_eq!(acked::ended(&acknowledged, &once), Ok(()));
    assert_eq!(acked::kept("r1", 1, &acknowledged, &once), Ok(()));
    assert!(acked::kept("r1", 0, &acknowledged, &once).is_err(), "r1 lacks it");
    let unknown = done(7, Way::Command, Outcome::Unknown { ret: None });
    assert_eq!(acked::kept("r1", 0, &unknown, &once), Ok(()));
}

#[test]
fn reads_sees_wrong_values_and_steps_back() {
    let rows = [row(1, 0, b"a"), row(2, 1, b"b")];
    let judge = |dones: &[Done]| reads::judge(&dones.iter().collect::<Vec<_>>(), &rows);
    let right = [read(2, Way::Weak, 1, Some("a")), read(3, Way::Weak, 2, Some("b"))];
    assert_eq!(judge(&right), Ok(()));
    assert_eq!(judge(&[read(2, Way::Strong, 0, None)]), Ok(()));
    assert!(judge(&[read(2, Way::Weak, 1, Some("b"))]).is_err(), "a value from the future");
    for before in [Way::Weak, Way::Session, Way::Strong] {
        let back = |way| [read(2, before, 2, Some("b")), read(3, way, 1, Some("a"))];
        assert!(judge(&back(Way::Session)).is_err(), "a step back");
        assert!(judge(&back(Way::Strong)).is_err(), "a step back");
        assert_eq!(judge(&back(Way::Weak)), Ok(()), "it promised nothing");
    }
}

#[test]
fn reads_sees_a_session_that_does_not_know_its_writes() {
    let rows = [row(1, 0, b"a")];
    let write = done(0, Way::Command, ok(Answer::Done));
    let own = |reading: Done| reads::own(&[&write, &reading], &rows, |op| (op == (1, 0)).then_some(0));
    assert_eq!(own(read(1, Way::Session, 1, Some("a"))), Ok(()));
    assert_eq!(own(read(1, Way::Weak, 0, None)), Ok(()));
    assert_eq!(own(Done { id: (2, 1), ..read(1, Way::Session, 0, None) }), Ok(()), "another client's");
    assert!(own(read(1, Way::Session, 0, None)).is_err(), "its own write was acknowledged before");
}

#[test]
fn leases_sees_another_leader() {
    let judge = |view| leases::judge("r1", View::new(2), [("r2".to_owned(), View::new(view))].into_iter());
    assert_eq!(judge(1), Ok(()), "it does not know yet that it leads no more");
    assert!(judge(3).is_err(), "r2 was elected");
}

#[test]
fn reads_sees_a_stale_strong_read() {
    let rows = [row(1, 0, b"a")];
    let write = done(0, Way::Command, ok(Answer::Done));
    let fresh = |reading: Done| reads::fresh(&[&write, &reading], &rows, |op| (op == (1, 0)).then_some(0));
    assert_eq!(fresh(read(1, Way::Strong, 1, Some("a"))), Ok(()));
    assert_eq!(fresh(read(1, Way::Weak, 0, None)), Ok(()));
    assert!(fresh(read(1, Way::Strong, 0, None)).is_err(), "the write was acknowledged before");
}

/// Of a read that was ordered like a command only the least seq is known.
#[test]
fn reads_sees_an_ordered_read_from_before() {
    let rows = [row(1, 0, b"a"), row(3, 1, b"b")];
    let judge = |read: Done| reads::judge(&[&read], &rows);
    assert_eq!(judge(read(2, Way::Ordered, 0, None)), Ok(()));
    assert_eq!(judge(read(2, Way::Ordered, 0, Some("b"))), Ok(()), "it may be newer");
    assert_eq!(judge(read(2, Way::Ordered, 2, Some("a"))), Ok(()), "nothing was executed between");
    assert!(judge(read(2, Way::Ordered, 1, None)).is_err(), "it was written by then");
    assert!(judge(read(2, Way::Ordered, 3, Some("a"))).is_err(), "it was overwritten by then");
    assert!(judge(read(2, Way::Ordered, 0, Some("c"))).is_err(), "nobody wrote that");
}

#[test]
fn asked_sees_what_nobody_asked() {
    let ran = row(1, 0, b"a");
    assert_eq!(asked::judge(&ran, Some(&ran.command)), Ok(()));
    assert!(asked::judge(&ran, Some(&row(1, 0, b"b").command)).is_err());
    assert!(asked::judge(&ran, None).is_err());
}

#[test]
fn suspects_sees_evidence_against_the_honest() {
    let suspect = |replica| SuspectStatus { replica, times: 1, what: "a second vote".into() };
    let judge = |list: &[SuspectStatus]| suspects::judge("r1", list, |replica| replica == 3);
    assert_eq!(judge(&[]), Ok(()));
    assert_eq!(judge(&[suspect(3)]), Ok(()));
    assert!(judge(&[suspect(3), suspect(2)]).is_err());
}

/// Evidence of another cluster, with a wrong key, that is cut, or that accuses the honest.
#[test]
fn suspects_sees_evidence_that_proves_nothing() {
    let (cluster, signer) = (ClusterId::new(5), Keyed::new(ReplicaId::new(3), 9));
    let accept = |value: u8| {
        let (view, slot, digest) = (View::new(2), Slot::new(17), Digest::new([value; 32]));
        let statements =
            Statements { cluster, membership: MembershipId::FIRST, instance: InstanceId::new(1) };
        let signature = signer.sign(&statements.accept(view, slot, digest));
        Statement::Accept(SignedAccept { view, slot, digest, signature })
    };
    let evidence = |values: [u8; 2]| {
        let (membership, instance, accused) = (MembershipId::FIRST, InstanceId::new(1), ReplicaId::new(3));
        let statements = values.map(accept).to_vec();
        let kind = EvidenceKind::TwoAccepts;
        Evidence { cluster, membership, instance, accused, kind, statements, key: None }.encode()
    };
    let judge = |bytes: &Bytes, seed, of: u128, liar: u16| {
        let keys = Keyed::new(ReplicaId::new(1), seed);
        suspects::proved("r1", bytes, (ClusterId::new(of), &keys), |replica| replica == liar)
    };
    let proof = evidence([1, 2]);
    assert_eq!(judge(&proof, 9, 5, 3), Ok(()));
    assert!(judge(&proof, 9, 5, 2).is_err(), "it accuses an honest replica");
    assert!(judge(&proof, 8, 5, 3).is_err(), "the keys are others");
    assert!(judge(&proof, 9, 6, 3).is_err(), "it is of another cluster");
    assert!(judge(&evidence([1, 1]), 9, 5, 3).is_err(), "it is no contradiction");
    assert!(judge(&proof.slice(..proof.len() - 1), 9, 5, 3).is_err(), "it is cut");
}

#[test]
fn linear_sees_a_lost_write() {
    let event = |call, op, answer| Event {
        client: call,
        key: "k".into(),
        op,
        call,
        outcome: Outcome::Ok { ret: call + 1, answer },
    };
    let put = event(1, Op::Put { value: "a".into() }, Answer::Done);
    let get = |value: Option<&str>| event(5, Op::Get, Answer::Value(value.map(str::to_owned)));
    assert_eq!(linear::judge(vec![put.clone(), get(Some("a"))]), Ok(None));
    assert!(linear::judge(vec![put, get(None)]).is_err(), "the write was acknowledged");
}

#[test]
fn bounded_and_progress_see_too_much_and_too_little() {
    assert_eq!(bounded::on_the_way(1000), Ok(()));
    assert!(bounded::on_the_way(bounded::ON_THE_WAY_MAX + 1).is_err());
    let why = |why: &str| Done { why: why.into(), ..done(0, Way::Command, Outcome::Unknown { ret: None }) };
    assert_eq!(progress::patient(&why("the session expired; open a new one")), Ok(()));
    assert!(progress::patient(&why("no answer in time")).is_err());
    assert_eq!(progress::patient(&Done { patient: false, ..why("no answer in time") }), Ok(()));
}

#[test]
fn answers_sees_silence() {
    let (mut answers, second) = (answers::Answers::default(), 1_000_000_000);
    let end = answers::SILENCE_MAX;
    assert_eq!(answers.look(5 * end, 3, false), Ok(()), "nobody waits");
    assert_eq!(answers.look(6 * end, 3, true), Ok(()));
    assert_eq!(answers.look(6 * end + second, 4, true), Ok(()), "somebody was answered");
    assert_eq!(answers.look(7 * end + second, 4, true), Ok(()));
    assert!(answers.look(7 * end + 2 * second, 4, true).is_err());
}

#[test]
fn alarm_sees_one_that_does_not_ring() {
    let second = 1_000_000_000;
    let mut alarm = Alarm::new(2 * second);
    assert!(alarm.look(900 * second, 0).is_ok(), "it is not set");
    alarm.set(10 * second);
    assert!(alarm.look(30 * second, 0).is_ok());
    assert_eq!(alarm.look(60 * second, 0).unwrap_err().checker, "alarm");
    assert!(alarm.look(60 * second, 40 * second).is_ok(), "faults were over only then");
    alarm.rang();
    assert!(alarm.look(90 * second, 0).is_ok());
    let mut none = Alarm::new(0);
    none.set(10 * second);
    assert!(none.look(90 * second, 0).is_ok());
}

#[test]
fn members_sees_two_memberships_under_one_number() {
    let membership = |number, voters: &[u16]| {
        let voters = voters.iter().map(|id| Member::voter(ReplicaId::new(*id))).collect();
        Membership::new(MembershipId::new(number), voters).expect("a membership")
    };
    let mut members = MembershipCheck::default();
    members.look("r1", &membership(2, &[1, 2])).expect("the first one");
    members.look("r2", &membership(2, &[1, 2])).expect("the same");
    members.look("r2", &membership(3, &[1, 3])).expect("another number");
    assert!(members.look("r3", &membership(2, &[1, 3])).is_err());
}

const SECOND: u64 = 1_000_000_000;

fn times() -> Times {
    let outage = Some(2 * SECOND);
    Times::new(Bounds { drift: 0, liars: false, many: false, outage })
}

/// Called at 1 s, executed at 2 s as of 1 s; at 4 s agreed time may be 4 s, and no more.
#[test]
fn time_that_catches_up_is_found() {
    for (time, ok) in [(4, true), (5, false)] {
        let mut times = times();
        times.executed((2 * SECOND, false), SECOND, SECOND).unwrap();
        let found = times.executed((4 * SECOND, false), 4 * SECOND, time * SECOND);
        assert_eq!(found.is_ok(), ok, "{time}");
    }
    let mut jumped = times();
    jumped.executed((2 * SECOND, false), SECOND, SECOND).unwrap();
    jumped.jumps(3 * SECOND, 1, SECOND);
    // Nobody heard of it yet; then the one whose clock that is proposes, and that is enough.
    assert_eq!(jumped.executed((4 * SECOND, false), 4 * SECOND, 4 * SECOND), Ok(()));
    assert_eq!(jumped.executed((5 * SECOND, false), 5 * SECOND, 6 * SECOND), Ok(()));
    jumped.goes_on(5 * SECOND, 1);
    assert_eq!(jumped.executed((11 * SECOND, false), 11 * SECOND, 11 * SECOND), Ok(()));
    assert!(jumped.executed((12 * SECOND, false), 12 * SECOND, 13 * SECOND).is_err());
}

/// Too few run from 5 s to 15 s. What was proposed alone shows for a moment, and not for longer; a short time counts.
#[test]
fn time_that_goes_on_in_an_outage_is_found() {
    for (time, ok) in [(9, true), (10, false)] {
        let mut times = times();
        times.executed((4 * SECOND, false), 4 * SECOND, 4 * SECOND).unwrap();
        times.runs(5 * SECOND, false);
        times.runs(15 * SECOND, true);
        assert_eq!(times.executed((15 * SECOND, false), 5 * SECOND, 6 * SECOND), Ok(()));
        let found = times.executed((19 * SECOND, false), 18 * SECOND, time * SECOND);
        assert_eq!(found.is_ok(), ok, "{time}");
    }
    let mut short = times();
    short.executed((4 * SECOND, false), 4 * SECOND, 4 * SECOND).unwrap();
    short.runs(5 * SECOND, false);
    short.runs(7 * SECOND, true);
    assert_eq!(short.executed((15 * SECOND, false), 15 * SECOND, 15 * SECOND), Ok(()));
}

/// A process is stopped, and then its machine is suspended. For the process's own clock the stop may be a short one, which counts.
#[test]
fn a_short_stop_before_a_suspension_counts() {
    for (stopped, ok) in [(14, true), (5, false)] {
        let mut times = times();
        times.executed((4 * SECOND, false), 4 * SECOND, 4 * SECOND).unwrap();
        times.runs(stopped * SECOND, false);
        times.suspends(16 * SECOND);
        times.runs(30 * SECOND, true);
        assert_eq!(times.executed((30 * SECOND, false), 4 * SECOND, 5 * SECOND), Ok(()));
        assert_eq!(times.executed((40 * SECOND, false), 39 * SECOND, 24 * SECOND).is_ok(), ok, "{stopped}");
    }
}

/// While faults last it may fall back as far as it likes.
#[test]
fn time_that_falls_back_is_found() {
    for (healed, ok) in [(false, true), (true, false)] {
        let mut times = times();
        times.executed((SECOND, healed), SECOND, SECOND).unwrap();
        assert_eq!(times.executed((30 * SECOND, healed), 30 * SECOND, SECOND).is_ok(), ok);
    }
}
