//! STOP-DATA and SYNC: what a new leader takes, what its followers take from it.

use super::one::{One, decisions, rejected, sent, some};
use super::world::{Plan, World, batch, value};
use crate::Effect;
use crate::OrderMessage;
use crate::ledger::Proof;
use crate::mod_smart::message::{Collect, ModSmartBody as Body, ModSmartMessage, WRITES_MAX};
use quorate_auth::Signature;
use quorate_types::FaultModel::{Byzantine, Crash};
use quorate_types::{InstanceId, MembershipId, Slot, Span, View};
use quorate_wire::{Batch, MEMBERS_MAX};

/// Member 2 leads view 2, with four members.
fn leader() -> One {
    let mut one = One::new(2, 4, Byzantine);
    let stops = one.stops(2, &[0, 1, 3]);
    one.hear(0, 2, Body::Certificate { stops });
    one
}

fn stop_data(collect: Collect, last: Option<Proof>, batches: &[Batch]) -> Body {
    Body::StopData { collect, last, batches: batches.to_vec() }
}

fn syncs(effects: &[Effect], to: usize) -> Vec<Option<Batch>> {
    let value = |body: Body| match body {
        Body::Sync { value, .. } => Some(value),
        _ => None,
    };
    sent(effects, to).into_iter().filter_map(value).collect()
}

/// T1 at the leader: two locked V in the first view, one did not, and the fourth, which may have decided it, is gone.
#[test]
fn a_value_that_may_be_decided_binds_the_next_view() {
    let mut one = leader();
    let (batch, digest) = (some(7), value(&some(7)));
    let said = one.collect(0, 2, 0, Some((1, digest)), &[(1, digest)]);
    assert_eq!(syncs(&one.hear(0, 2, stop_data(said, None, std::slice::from_ref(&batch))), 0), []);
    let said = one.collect(3, 2, 0, Some((1, digest)), &[(1, digest)]);
    let out = one.hear(3, 2, stop_data(said, None, std::slice::from_ref(&batch)));
    assert_eq!(syncs(&out, 0), [Some(batch)]);
    assert!(sent(&out, 0).contains(&Body::Write { slot: Slot::new(1), digest }), "the leader takes it, too");
}

#[test]
fn nothing_binds_where_nothing_was_locked() {
    let mut one = leader();
    for from in [0, 3] {
        let digest = value(&some(7));
        let said = one.collect(from, 2, 0, None, &[(1, digest)]);
        let out = one.hear(from, 2, stop_data(said, None, &[some(7)]));
        assert_eq!(syncs(&out, 1), if from == 0 { vec![] } else { vec![None] });
    }
}

/// T4 at the leader: whoever names a slot shows that it is decided, or is not heard.
#[test]
pub(super) fn claims_of_decisions_are_shown() {
    let mut one = leader();
    let said = one.collect(0, 2, 9, None, &[]);
    let forged = Proof { slot: Slot::new(9), ..one.proof(1, 8, &some(1), &[0, 1, 3]) };
    assert_eq!(rejected(&one.hear(0, 2, stop_data(said.clone(), Some(forged), &[]))), 1);
    let few = one.proof(1, 9, &some(1), &[0, 1]);
    assert_eq!(rejected(&one.hear(0, 2, stop_data(said.clone(), Some(few), &[]))), 1);
    let other = one.proof(1, 8, &some(1), &[0, 1, 3]);
    assert_eq!(rejected(&one.hear(0, 2, stop_data(said.clone(), Some(other), &[]))), 1);
    // Without a proof it may be right, and is not counted.
    one.hear(0, 2, stop_data(said, None, &[]));
    let second = one.collect(3, 2, 0, None, &[]);
    assert_eq!(syncs(&one.hear(3, 2, stop_data(second, None, &[])), 1), [], "two that count");
    let third = one.collect(1, 2, 0, None, &[]);
    assert_eq!(syncs(&one.hear(1, 2, stop_data(third, None, &[])), 1), [None]);
}

/// T2, T6 at the leader: statements are for this view, of their sender, about earlier views, each value once.
#[test]
pub(super) fn statements_that_do_not_hold_are_refused() {
    let mut one = leader();
    let digest = value(&some(7));
    let mut forged = one.collect(0, 2, 0, None, &[]);
    forged.lock = Some((quorate_types::View::FIRST, digest));
    let wrong = [
        one.collect(3, 2, 0, None, &[]),
        one.collect(0, 1, 0, None, &[]),
        one.collect(0, 3, 0, None, &[]),
        forged,
        one.collect(0, 2, 0, Some((2, digest)), &[(1, digest)]),
        one.collect(0, 2, 0, Some((99, digest)), &[(99, digest)]),
        one.collect(0, 2, 0, Some((0, digest)), &[]),
        one.collect(0, 2, 0, None, &[(1, digest), (1, digest)]),
        one.collect(0, 2, u64::MAX, None, &[]),
    ];
    for collect in wrong {
        assert_eq!(rejected(&one.hear(0, 2, stop_data(collect.clone(), None, &[]))), 1, "{collect:?}");
    }
}

/// The leader waits until somebody sends the batch that its view is bound to.
#[test]
fn a_bound_view_waits_for_its_batch() {
    let mut one = leader();
    let digest = value(&some(7));
    let said = |one: &One, from| one.collect(from, 2, 0, Some((1, digest)), &[(1, digest)]);
    let (first, second) = (said(&one, 0), said(&one, 3));
    one.hear(0, 2, stop_data(first, None, &[some(8)]));
    assert_eq!(syncs(&one.hear(3, 2, stop_data(second, None, &[])), 1), [], "nobody sent it");
    let third = said(&one, 1);
    assert_eq!(syncs(&one.hear(1, 2, stop_data(third, None, &[some(7)])), 0), [Some(some(7))]);
}

/// Who lost the SYNC asks again, and gets the same.
#[test]
fn the_sync_is_sent_again() {
    let mut one = leader();
    for from in [0, 3] {
        let said = one.collect(from, 2, 0, None, &[]);
        one.hear(from, 2, stop_data(said, None, &[]));
    }
    let said = one.collect(3, 2, 0, None, &[]);
    assert_eq!(syncs(&one.hear(3, 2, stop_data(said, None, &[])), 3), [None]);
}

/// Who asks for it again and again gets it once in a while, and whoever says what does not hold gets nothing.
#[test]
pub(super) fn a_flood_of_questions_gets_few_syncs() {
    let mut one = leader();
    for from in [0, 3] {
        let said = one.collect(from, 2, 0, None, &[]);
        one.hear(from, 2, stop_data(said, None, &[]));
    }
    let foreign = one.collect(1, 2, 0, None, &[]);
    let out = one.hear(3, 2, stop_data(foreign, None, &[]));
    assert_eq!((rejected(&out), syncs(&out, 3).len()), (1, 0), "what does not hold is not answered");
    let mut count = [0; 2];
    for _ in 0..100 {
        for (at, from) in [(0, 3), (1, 0)] {
            let said = one.collect(from, 2, 0, None, &[]);
            count[at] += syncs(&one.hear(from, 2, stop_data(said, None, &[])), from).len();
        }
    }
    assert_eq!(count, [1, 1], "each by itself");
    one.now = one.now.plus(one.order.core.config.repeat);
    let said = one.collect(3, 2, 0, None, &[]);
    assert_eq!(syncs(&one.hear(3, 2, stop_data(said, None, &[])), 3), [None], "it is lost again");
}

/// The frame's limit: what a member wrote in as many views as it remembers, each as large as a batch can be, arrives piece by piece.
#[test]
pub(super) fn what_was_written_in_many_views_fits_into_frames() {
    const FRAME: usize = 17 << 20;
    let large = |number: u64| batch(number, 16 << 20);
    let mut one = One::new(0, 4, Byzantine);
    let values: Vec<Batch> = (0..WRITES_MAX as u64).map(large).collect();
    for (view, batch) in (1..).zip(&values) {
        let digest = value(batch);
        one.order.voting.open.note_write(View::new(view), digest);
        let record = one.order.core.ledger.records().last();
        one.order.voting.open.batches.insert(digest, (batch.clone(), record));
    }
    let locked = value(&values[3]);
    one.order.voting.open.lock = Some((View::new(4), locked));
    let (mut shown, mut first) = (std::collections::BTreeSet::new(), None);
    for _ in 0..WRITES_MAX {
        let batches = one.order.gathered.next_batches(&one.order.voting.open);
        first = first.or(batches.first().map(value));
        shown.extend(batches.iter().map(value));
        let writes = one.order.voting.open.writes.clone();
        let writes: Vec<_> = writes.iter().map(|(view, digest)| (view.number(), *digest)).collect();
        let collect = one.collect(0, 17, 0, Some((4, locked)), &writes);
        let members: Vec<usize> = (0..4).collect();
        let body = Body::StopData { collect, last: Some(one.proof(1, 1, &some(1), &members)), batches };
        assert!(frame_bytes(body) <= FRAME);
    }
    assert_eq!((first, shown.len()), (Some(locked), WRITES_MAX), "the lock first, and each of them");
}

/// The same of a SYNC, with as many members as there can be.
#[test]
fn a_sync_of_all_members_fits_into_a_frame() {
    let one = One::new(0, 4, Byzantine);
    let value = |number: u64| super::world::value(&some(number));
    let writes: Vec<_> = (0..WRITES_MAX as u64).map(|number| (number + 1, value(number))).collect();
    let collect = one.collect(1, 17, 0, Some((3, value(2))), &writes);
    let collects: Vec<Collect> = vec![collect; MEMBERS_MAX];
    let signed = |signature| vec![(super::world::replica(1), signature); MEMBERS_MAX];
    let last = one.proof(1, 1, &some(1), &[1]);
    let last = Proof { accepts: signed(last.accepts[0].1), ..last };
    let stops = signed(one.stops(2, &[1])[0].1);
    let body = Body::Sync { stops, collects, last: Some(last), value: Some(batch(1, 16 << 20)) };
    assert!(frame_bytes(body) <= 17 << 20);
}

fn frame_bytes(body: Body) -> usize {
    let (membership, view) = (MembershipId::FIRST, View::new(17));
    let message = ModSmartMessage { membership, view, body };
    OrderMessage::of(message).frame(InstanceId::new(1)).to_vec().len()
}

fn follower() -> One {
    let mut one = One::new(0, 4, Byzantine);
    let stops = one.stops(2, &[1, 2, 3]);
    one.hear(2, 2, Body::Certificate { stops });
    one
}

fn sync_of(one: &One, view: u64, collects: Vec<Collect>, last: Option<Proof>, value: Option<Batch>) -> Body {
    Body::Sync { stops: one.stops(view, &[1, 2, 3]), collects, last, value }
}

/// What a follower does with a SYNC: whether it refuses it, and whether it may vote then.
fn outcome(one: &mut One, body: Body) -> (usize, bool) {
    let out = one.hear(2, 2, body);
    let taken = one.hear(2, 2, Body::Propose { slot: Slot::new(1), batch: some(9) });
    let writes = |effects: &[Effect]| sent(effects, 1).iter().any(|body| matches!(body, Body::Write { .. }));
    (rejected(&out), writes(&out) || writes(&taken))
}

#[test]
fn nobody_votes_before_the_sync() {
    let mut one = follower();
    let out = one.hear(2, 2, Body::Propose { slot: Slot::new(1), batch: some(9) });
    assert_eq!(sent(&out, 1), []);
    let collects = (1..4).map(|from| one.collect(from, 2, 0, None, &[])).collect();
    let sync = sync_of(&one, 2, collects, None, None);
    assert!(
        sent(&one.hear(2, 2, sync), 1).contains(&Body::Write { slot: Slot::new(1), digest: value(&some(9)) })
    );
}

/// T6 at a follower, and all else that a leader may try.
#[test]
pub(super) fn a_sync_shows_what_it_says() {
    let one = follower();
    let digest = value(&some(7));
    let none = |view| (1..4).map(|from| one.collect(from, view, 0, None, &[])).collect::<Vec<_>>();
    let locked =
        || (1..4).map(|from| one.collect(from, 2, 0, Some((1, digest)), &[(1, digest)])).collect::<Vec<_>>();
    let twice = vec![
        one.collect(1, 2, 0, None, &[]),
        one.collect(1, 2, 0, None, &[]),
        one.collect(2, 2, 0, None, &[]),
    ];
    let mut foreign = none(2);
    foreign[2] = Collect { from: super::world::replica(9), ..foreign[2].clone() };
    let mut unsigned = none(2);
    unsigned[1].signature = Signature::NONE;
    let wrong = [
        ("statements of an earlier view", sync_of(&one, 2, none(1), None, None)),
        ("too few", sync_of(&one, 2, none(2)[..2].to_vec(), None, None)),
        ("one member twice", sync_of(&one, 2, twice, None, None)),
        ("of no member", sync_of(&one, 2, foreign, None, None)),
        ("not signed", sync_of(&one, 2, unsigned, None, None)),
        ("bound, and nothing shown", sync_of(&one, 2, locked(), None, None)),
        ("bound to something else", sync_of(&one, 2, locked(), None, Some(some(8)))),
        ("free, and a value", sync_of(&one, 2, none(2), None, Some(some(8)))),
        ("a forged decision", {
            let last = Proof { slot: Slot::new(5), ..one.proof(1, 4, &some(1), &[1, 2, 3]) };
            sync_of(&one, 2, none(2), Some(last), None)
        }),
    ];
    for (why, sync) in wrong {
        let mut one = follower();
        assert_eq!(outcome(&mut one, sync), (1, false), "{why}");
    }
    let mut one = follower();
    assert_eq!(outcome(&mut one, sync_of(&follower(), 2, none(2), None, None)), (0, true));
    let mut one = follower();
    let right = sync_of(&one, 2, locked(), None, Some(some(7)));
    assert_eq!(outcome(&mut one, right), (0, true));
}

/// The first SYNC counts, and comes from the leader of its view.
#[test]
fn one_sync_begins_a_view() {
    let mut one = follower();
    let none: Vec<_> = (1..4).map(|from| one.collect(from, 2, 0, None, &[])).collect();
    let sync = sync_of(&one, 2, none, None, None);
    one.hear(3, 2, sync.clone());
    assert!(
        !matches!(one.order.core.office.phase(), crate::mod_smart::office::Phase::Normal { .. }),
        "not the leader's"
    );
    one.hear(2, 2, sync);
    let digest = value(&some(7));
    let locked = (1..4).map(|from| one.collect(from, 2, 0, Some((1, digest)), &[(1, digest)])).collect();
    let second = sync_of(&one, 2, locked, None, Some(some(7)));
    let out = one.hear(2, 2, second);
    assert_eq!((sent(&out, 1).len(), rejected(&out)), (0, 0), "another one changes nothing");
}

/// A SYNC brings its certificate along: who missed the STOPs follows.
#[test]
fn a_sync_leads_into_its_view() {
    let mut one = One::new(0, 4, Byzantine);
    let none: Vec<_> = (1..4).map(|from| one.collect(from, 2, 0, None, &[])).collect();
    let few = Body::Sync { stops: one.stops(2, &[1, 3]), collects: none.clone(), last: None, value: None };
    assert_eq!(rejected(&one.hear(2, 2, few)), 1);
    assert_eq!(one.order.core.office.view().number(), 1);
    let sync = sync_of(&one, 2, none, None, None);
    assert_eq!(outcome(&mut one, sync), (0, true));
    assert_eq!(one.order.core.office.view().number(), 2);
}

/// A SYNC that comes after the next STOP was sent, and before the next view, still serves.
#[test]
fn a_late_sync_serves() {
    let mut one = follower();
    let out = one.pass(Span::from_secs(1));
    let asks = |body: &Body| matches!(body, Body::Stop { asked, .. } if asked.number() == 3);
    assert!(sent(&out, 1).iter().any(asks), "it asks for view 3");
    let none = (1..4).map(|from| one.collect(from, 2, 0, None, &[])).collect();
    let sync = sync_of(&one, 2, none, None, None);
    assert_eq!(outcome(&mut one, sync), (0, true));
    one.hear(2, 2, Body::Alive { decided: Slot::ZERO, round: 1 });
    let out = one.pass(Span::from_millis(120));
    assert!(!sent(&out, 1).iter().any(asks), "it asks no more");
}

/// The value that binds replaces what this replica locked itself, if a quorum shows that nobody can have decided that.
#[test]
fn an_own_lock_gives_way_to_what_is_shown() {
    let mut one = One::new(0, 4, Byzantine);
    let digest = value(&some(7));
    one.hear(1, 1, Body::Propose { slot: Slot::new(1), batch: some(7) });
    for from in [1, 2] {
        one.hear(from, 1, Body::Write { slot: Slot::new(1), digest });
    }
    assert_eq!(one.order.voting.open.lock.map(|lock| lock.1), Some(digest));
    let none = (1..4).map(|from| one.collect(from, 2, 0, None, &[])).collect();
    let sync = sync_of(&one, 2, none, None, None);
    one.hear(2, 2, sync);
    let out = one.decide(2, 1, 2, &some(9));
    assert_eq!(decisions(&out), [(1, some(9))]);
}

/// Whoever is a slot behind gets what it lacks, and takes part then.
#[test]
fn a_replica_behind_catches_up_inside_the_phase() {
    let mut one = follower();
    let (last, digest) = (one.proof(1, 1, &some(5), &[1, 2, 3]), value(&some(7)));
    let locked = (1..4).map(|from| one.collect(from, 2, 1, Some((1, digest)), &[(1, digest)])).collect();
    let sync = sync_of(&one, 2, locked, Some(last.clone()), Some(some(7)));
    assert_eq!(sent(&one.hear(2, 2, sync), 1), [], "slot 2 is not its next");
    let out = one.pass(Span::from_millis(60));
    // Each of those that accepted it has it.
    let asks = |to| sent(&out, to).contains(&Body::Fetch { slot: Slot::new(1), count: 32 });
    assert!((1..4).any(asks), "{out:?}");
    let out = one.hear(2, 2, Body::Decision { proof: last, batch: some(5) });
    assert_eq!(decisions(&out), [(1, some(5))]);
    assert!(sent(&out, 1).contains(&Body::Write { slot: Slot::new(2), digest }));
}

/// Without liars the highest lock wins, and one is enough.
#[test]
fn where_nobody_lies_one_lock_binds() {
    let mut one = One::new(2, 3, Crash);
    let digest = value(&some(7));
    let stops = one.stops(2, &[0, 2]);
    one.hear(0, 2, Body::Certificate { stops });
    let said = one.collect(0, 2, 0, Some((1, digest)), &[]);
    assert_eq!(syncs(&one.hear(0, 2, stop_data(said, None, &[some(7)])), 0), [Some(some(7))]);
}

/// One replica decides, and is cut off at that moment: the others come to the same, whatever else clients ask for.
#[test]
fn what_one_decided_alone_stays() {
    let mut alone = 0;
    for seed in 0..60 {
        for plan in [Plan::byzantine(4), Plan::crash(3)] {
            let mut world = World::new(seed, plan);
            world.delay_max = Span::from_millis(20);
            for _ in 0..5 {
                world.ask(20);
            }
            let decided = |world: &World| (0..plan.members).filter(|at| world.decided_at(*at) > 0).count();
            while decided(&world) == 0 {
                world.run(Span::from_nanos(200_000));
            }
            if decided(&world) > 1 {
                continue;
            }
            alone += 1;
            let first = (0..plan.members).find(|at| world.decided_at(*at) > 0).expect("one did");
            for peer in 0..plan.members {
                world.cut.extend([(first, peer), (peer, first)]);
            }
            let others = |world: &World| (0..plan.members).all(|at| at == first || world.decided_at(at) >= 5);
            assert!(world.run_until(Span::from_secs(20), others), "{}", world.describe());
            world.heal();
            assert!(world.run_until(Span::from_secs(20), World::is_done), "{}", world.describe());
        }
    }
    assert!(alone > 20, "{alone} times one was first");
}
