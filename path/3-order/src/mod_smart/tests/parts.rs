//! The parts stepped alone: no instance around them. What they look at is made by hand.

use super::world::{batch, replica, value};
use crate::ledger::Proof;
use crate::mod_smart::ModSmartConfig;
use crate::mod_smart::core::Core;
use crate::mod_smart::fetch::Fetching;
use crate::mod_smart::few::{Awaited, Few};
use crate::mod_smart::message::{Complaint, ModSmartBody as Body, ModSmartMessage};
use crate::mod_smart::normal::{Next, Open, Voting};
use crate::mod_smart::office::Phase;
use crate::mod_smart::reads::{Look, Reads};
use crate::mod_smart::rotation::{Ended, Rotation};
use crate::mod_smart::stops::Stops;
use crate::mod_smart::sync::{Gathered, collect};
use crate::mod_smart::testimony::Testimony;
use crate::mod_smart::watch::Watch;
use crate::visigoth::{Grant, OracleAnswer, Register, Wish};
use crate::{Effect, Effects};
use quorate_auth::{Authenticator, Keyed, Signature, Signed, Trusting};
use quorate_types::{Digest, FaultModel, ReplicaId, Slot, Span, Time, View, Visigoth};
use std::sync::Arc;

const LONG: Span = Span::from_secs(10);

/// What member `me` of so many knows in the first view, which has begun.
fn core_of(me: usize, members: usize, model: FaultModel) -> Core {
    let config = ModSmartConfig::new(replica(me), (0..members).map(replica).collect(), model, 5);
    let mut core = Core::new(config, Box::new(Trusting));
    core.life.start(Time::ZERO);
    core.enter(
        core.members.tenures().now().begins,
        Signed::new(),
        Phase::free_after(Slot::ZERO),
        &mut Effects::new(),
    );
    core.ledger.on_durable(core.ledger.records().last());
    core
}

/// The same of who leads.
fn leader(members: usize, model: FaultModel) -> Core {
    let all = (0..members).map(|me| core_of(me, members, model));
    all.into_iter().find(Core::leads).expect("one leads")
}

/// The same of somebody who does not.
fn follower(members: usize, model: FaultModel) -> Core {
    let all = (0..members).map(|me| core_of(me, members, model));
    all.into_iter().find(|core| !core.leads()).expect("others do not")
}

/// Somebody else than these.
fn other(core: &Core, than: &[ReplicaId]) -> ReplicaId {
    let others = core.members.others();
    *others.iter().find(|id| !than.contains(id)).expect("there are others")
}

fn sent(out: &mut Effects) -> Vec<(ReplicaId, Body)> {
    let body = |effect: Effect| match effect {
        Effect::Send { to, message, .. } => Some((to, message.get::<ModSmartMessage>()?.body.clone())),
        _ => None,
    };
    out.drain().filter_map(body).collect()
}

/// A leader confirms a read when a quorum answered the round that it began for it.
#[test]
fn a_round_confirms_reads() {
    let (core, voting, mut out) = (leader(3, FaultModel::Crash), Voting::default(), Effects::new());
    let (mut reads, look) = (Reads::default(), Look { core: &core, voting: &voting });
    reads.on_read(7, look, &mut out);
    assert_eq!(sent(&mut out).len(), 2, "both are asked whether it leads");
    reads.answered(other(&core, &[]), reads.round(), look, &mut out);
    let confirmed: Vec<Effect> = out.drain().collect();
    assert_eq!(confirmed, [Effect::ReadConfirmed { read: 7, slot: Slot::ZERO }]);
}

/// Who does not lead asks once for all that wait, and gives up when the view ends.
#[test]
fn one_question_for_all_reads() {
    let (core, voting, mut out) = (follower(3, FaultModel::Crash), Voting::default(), Effects::new());
    let (mut reads, look) = (Reads::default(), Look { core: &core, voting: &voting });
    for read in 1..=3 {
        reads.on_read(read, look, &mut out);
    }
    assert!(matches!(sent(&mut out)[..], [(to, Body::Read { read: 1 })] if to == core.leader()));
    reads.on_reply(core.leader(), 1, Some(Slot::new(4)), &core, &mut out);
    let effects: Vec<Effect> = out.drain().collect();
    assert_eq!(effects[0], Effect::ReadConfirmed { read: 1, slot: Slot::new(4) });
    assert_eq!(effects.len(), 2, "and the next question");
    reads.fail(&mut out);
    let failed: Vec<Effect> = out.drain().collect();
    assert_eq!(failed, [Effect::ReadFailed { read: 2 }, Effect::ReadFailed { read: 3 }]);
}

/// What waits too long is handed to the leader first, and complained about later.
#[test]
fn a_request_that_waits_is_a_complaint_in_the_end() {
    let (mut core, mut watch, mut out) =
        (follower(4, FaultModel::Byzantine), Watch::default(), Effects::new());
    let (request, patience) = (Digest::new([7; 32]), watch.patience(&core.config));
    watch.on_watch(request, core.now());
    let mut at = |watch: &mut Watch, time: Time| {
        core.life.now = time;
        watch.heard_leader(core.leader(), &core);
        watch.look_at_the_clock(&core, false, &mut out);
        (out.drain().count(), watch.complaint(&core))
    };
    let late = |times: u64| Time::ZERO.plus(patience.times(times)).plus(Span::from_millis(1));
    assert_eq!(at(&mut watch, late(0)), (0, None));
    assert_eq!(at(&mut watch, late(1)), (1, None), "it is overdue");
    assert_eq!(at(&mut watch, late(2)), (0, Some(Complaint::Request(request))));
    watch.forget(&request);
    assert_eq!(at(&mut watch, late(3)), (0, None));
}

#[test]
fn a_leader_that_hears_nobody_leads_alone() {
    let (mut core, mut watch) = (leader(4, FaultModel::Byzantine), Watch::default());
    assert!(!watch.leads_alone(&core), "it has just begun");
    core.life.now = Time::ZERO.plus(LONG);
    assert!(watch.leads_alone(&core));
    core.members.others().into_iter().take(2).for_each(|id| watch.note_heard(id, core.now()));
    assert!(!watch.leads_alone(&core), "a quorum with itself");
}

/// Of f+1 that complain one is right: a replica joins them, and a quorum makes a view.
#[test]
fn stops_are_joined_and_make_a_view() {
    let (core, mut stops, mut out) = (follower(4, FaultModel::Byzantine), Stops::default(), Effects::new());
    let next = core.office.view().next();
    let complain = |stops: &mut Stops, from, out: &mut Effects| {
        assert!(stops.hear(from, (next, Complaint::Silence, Signature::NONE), &core, out));
    };
    let (one, two) = (other(&core, &[]), other(&core, &[other(&core, &[])]));
    complain(&mut stops, one, &mut out);
    assert_eq!(stops.ask(None, || true, &core, &mut out), None, "one may lie");
    complain(&mut stops, two, &mut out);
    assert_eq!(stops.certificate(next, &core), None);
    assert_eq!(stops.ask(None, || false, &core, &mut out), None, "it has no doubts");
    assert_eq!(stops.ask(None, || true, &core, &mut out), Some(next));
    assert_eq!(sent(&mut out).len(), 3);
    assert_eq!(stops.certificate(next, &core).map(|stops| stops.len()), Some(3));
    assert_eq!(stops.ask(None, || true, &core, &mut out), None, "it said so a moment ago");
    stops.enter(next);
    assert_eq!(stops.certificate(next, &core), None);
}

/// A leader goes when nothing is open, or when that takes too long; and stays if nobody follows it.
#[test]
fn a_leader_leaves_when_it_is_idle() {
    let (core, mut stops) = (leader(4, FaultModel::Byzantine), Stops::default());
    stops.leave(Some(other(&core, &[])), Span::from_millis(100), &core);
    assert!(stops.is_leaving() && !stops.left());
    let late = Time::ZERO.plus(Span::from_millis(100));
    assert!(!stops.leaves_now(|| false, Time::ZERO) && !stops.left());
    assert!(stops.leaves_now(|| true, Time::ZERO) && stops.left());
    assert!(!stops.leaves_now(|| true, late), "it asked");
    stops.stay_at_last(Time::ZERO.plus(LONG));
    assert!(!stops.is_leaving());
}

/// Whoever seems to have what is missing is asked, one after the other.
#[test]
fn sources_are_asked_in_turn() {
    let (mut core, mut fetching, mut out) =
        (follower(4, FaultModel::Byzantine), Fetching::default(), Effects::new());
    fetching.go_on(&core, &mut out);
    assert_eq!(sent(&mut out), [], "nothing is missing");
    let one = other(&core, &[]);
    let two = other(&core, &[one]);
    for id in [one, two] {
        fetching.hint(id, Slot::new(9), core.decided());
    }
    let asked = |effects: Vec<(ReplicaId, Body)>| effects.into_iter().map(|(to, _)| to).collect::<Vec<_>>();
    fetching.go_on(&core, &mut out);
    assert_eq!(asked(sent(&mut out)), [one]);
    fetching.go_on(&core, &mut out);
    assert_eq!(asked(sent(&mut out)), [], "an answer may come");
    core.life.now = Time::ZERO.plus(LONG);
    fetching.go_on(&core, &mut out);
    assert_eq!(asked(sent(&mut out)), [two]);
    fetching.forget(Slot::new(9));
    core.life.now = core.life.now.plus(LONG);
    fetching.go_on(&core, &mut out);
    assert_eq!(asked(sent(&mut out)), []);
}

/// A proposal is taken and accepted; with the accepts of a quorum it is decided.
#[test]
fn a_quorum_of_accepts_decides() {
    let (mut core, mut voting, mut out) = (follower(3, FaultModel::Crash), Voting::default(), Effects::new());
    let (slot, of_it) = (Slot::new(1), batch(1, 10));
    assert!(voting.on_propose(core.leader(), (slot, of_it.clone()), &core, &mut out));
    assert_eq!(voting.take(&mut core, &mut out).map(|taken| taken.0), Some(slot));
    assert_eq!(voting.take(&mut core, &mut out), None, "it votes once");
    assert!(voting.on_accept(
        core.leader(),
        (slot, value(&of_it)),
        Signature::NONE,
        (&core, &mut Testimony::default()),
        &mut out
    ));
    assert!(matches!(voting.next(&core, &mut out), Next::Open), "its own vote is not durable");
    core.ledger.on_durable(core.ledger.records().last());
    assert!(voting.count_own(&core).is_none() && voting.waiting() == 0);
    assert!(matches!(voting.next(&core, &mut out), Next::Decided(proof, _) if proof.slot == slot));
    voting.check(&core, true);
    voting.enter();
    assert!(matches!(voting.next(&core, &mut out), Next::Open), "votes of another view count no more");
    assert!(voting.open.taken(core.office.view()).is_some(), "what it locked stays locked");
}

/// The leader has one proposal open at a time; the others wait.
#[test]
fn one_proposal_at_a_time() {
    let (core, mut voting, mut out) = (leader(4, FaultModel::Byzantine), Voting::default(), Effects::new());
    (1..=2).for_each(|seed| voting.queue(batch(seed, 10)));
    assert!(voting.propose_next(|| None, &core, &mut out));
    assert!(!voting.propose_next(|| None, &core, &mut out));
    assert_eq!((sent(&mut out).len(), voting.proposed_and_open(&core).0), (3, 2));
}

/// A whole shift is nobody's fault; a view that failed is its leader's.
#[test]
fn who_failed_is_remembered() {
    let mut core = follower(4, FaultModel::Byzantine);
    core.config.rotate_after = 4;
    let mut rotation = Rotation::default();
    let fine = Ended { blames: false, rotates: true, left: false };
    assert!(rotation.note(fine, &core) && rotation.was_whole());
    assert!(!rotation.note(Ended { blames: true, rotates: false, left: false }, &core));
    assert!(rotation.is_bounded(1) && !rotation.is_bounded(0));
    core.config.rotate_after = 0;
    assert!(!rotation.note(fine, &core), "nothing rotates");
}

/// Those who only hear are told of decisions as long as they keep up.
#[test]
fn listeners_are_told_as_long_as_they_keep_up() {
    let (mut core, far) = (leader(4, FaultModel::Byzantine), replica(9));
    core.members.listen(Arc::from([far, core.config.me]), Slot::ZERO);
    assert_eq!(core.members.hearers(), [far]);
    assert_eq!(core.members.who_hears(Slot::new(1)), [], "it did not say what it has");
    core.members.note_decided(far, Slot::ZERO, Slot::ZERO);
    assert_eq!(core.members.who_hears(Slot::new(1)), [far]);
    assert_eq!(core.members.who_hears(Slot::new(1000)), [], "it asks for what it lacks");
    assert!(core.members.near().eq([far]) && core.members.knows(far) && !core.is_member(far));
}

/// A leader that lacks a slot knows from a proof that its view was decided in a later view than the small quorum's. So that quorum binds
/// nobody any more, and the two members that did not belong to it begin a view.
#[test]
fn a_proof_ends_what_small_quorums_bind() {
    let faults = Visigoth { u: 2, s: 1, o: 0, t_ms: 20 };
    let mut core = leader(4, FaultModel::Visigoth(faults));
    let (first, me, friend) = (core.office.view(), core.config.me, other(&core, &[]));
    let mut others: Vec<ReplicaId> = core.members.others().to_vec();
    others.retain(|id| *id != friend);
    core.enter(first.plus(4), Signed::new(), Phase::Syncing, &mut Effects::new());
    assert!(core.is_mine() && core.life.step(Time::ZERO.plus(LONG)));

    let trust = core.members.trust();
    let grant = Grant { view: first, set: others };
    let register = Register::default().with(grant, View::ZERO, core.members.voters(), trust);
    let value = register.expect("the first one").encode();
    let (mut few, mut gathered) = (Few::default(), Gathered::default());
    let answer = OracleAnswer { membership: core.membership_number(), version: 1, value };
    assert!(few.told(answer, &core).is_empty(), "another view has it");
    let proof = |slot, view| Proof { slot, view, digest: Digest::new([1; 32]), accepts: Signed::new() };
    let says = |from, gathered: &mut Gathered, proof: Proof| {
        let mut collect = collect(&core, &Open::default());
        (collect.from, collect.decided) = (from, proof.slot);
        gathered.add(collect, Some(proof), vec![]);
    };
    for from in [me, friend] {
        says(from, &mut gathered, proof(Slot::new(1), first));
    }
    let (voting, reads, watch) = (Voting::default(), Reads::default(), Watch::default());
    let swaps = |few: &mut Few, gathered: &Gathered| {
        let mut out = Effects::new();
        let awaited = Awaited { core: &core, voting: &voting, gathered, reads: &reads, watch: &watch };
        few.ask(awaited, &mut out);
        let mut asked = out.drain().filter_map(|effect| match effect {
            Effect::Oracle(request) => Some(matches!(request.wish, Wish::Swap(..))),
            _ => None,
        });
        asked.next().expect("it asks")
    };
    assert!(!swaps(&mut few, &gathered), "they miss the small quorum");
    few.enter();
    says(friend, &mut gathered, proof(Slot::new(2), first.plus(1)));
    assert!(swaps(&mut few, &gathered));
}

/// A member that answers, and lacks much, is no reason to hand over: without it the next leader would need the small quorum again.
#[test]
fn a_leader_hands_over_to_members_that_keep_up() {
    let faults = Visigoth { u: 2, s: 1, o: 0, t_ms: 20 };
    let (mut core, mut few, mut watch) =
        (leader(4, FaultModel::Visigoth(faults)), Few::default(), Watch::default());
    let (near, far) = (other(&core, &[]), other(&core, &[other(&core, &[])]));
    core.granted.add(core.office.view(), vec![core.config.me, near]);
    let mut waits = |core: &mut Core, far_has: u64| {
        let mut next = None;
        for _ in 0..30 {
            assert!(core.life.step(core.now().plus(Span::from_millis(100))));
            for (id, has) in [(near, 100_000), (far, far_has)] {
                watch.note_heard(id, core.now());
                core.members.note_decided(id, Slot::new(has), Slot::new(100_000));
            }
            next = next.or(few.hands_over(core, &watch));
        }
        next
    };
    assert_eq!(waits(&mut core, 1), None, "two of four keep up");
    let next = waits(&mut core, 100_000);
    assert!(next.is_some_and(|next| next == near || next == far), "{next:?}");
}

/// Where one may lie: only the leader asks whom a member misses, and only what a member signed itself is kept.
#[test]
fn whom_members_miss_is_asked_by_the_leader_and_signed() {
    let model = FaultModel::Visigoth(Visigoth { u: 2, s: 1, o: 1, t_ms: 20 });
    let refused = |out: &mut Effects| out.drain().any(|effect| matches!(effect, Effect::Rejected { .. }));
    let (core, mut few, mut out) = (follower(5, model), Few::default(), Effects::new());
    let leader_is = core.leader();
    few.on_ask(other(&core, &[leader_is]), 7, &core, &mut out);
    assert!(refused(&mut out), "somebody who does not lead");
    few.on_ask(leader_is, 7, &core, &mut out);
    assert_eq!(out.drain().count(), 4, "a question for a sign of life to each of the others");

    let (mut core, mut few) = (leader(5, model), Few::default());
    let key = |at: ReplicaId| Keyed::new(at, 3);
    core.auth = Box::new(key(core.config.me));
    let (one, two) = (other(&core, &[]), other(&core, &[other(&core, &[])]));
    let text = core.misses_statement(7, &[two]);
    few.on_misses(one, (7, vec![two], key(one).sign(&text)), &core, &mut out);
    assert!(!refused(&mut out), "an answer to no question is late");
    core.life.step(Time::ZERO.plus(Span::from_millis(50)));
    few.ask_whom_they_miss(&core, &mut out);
    let asked = out.drain().find_map(|effect| match effect {
        Effect::Send { message, .. } => match message.get::<ModSmartMessage>()?.body {
            Body::Ask { tag } => Some(tag),
            _ => None,
        },
        _ => None,
    });
    let tag = asked.expect("it asks");
    let text = core.misses_statement(tag, &[two]);
    few.on_misses(one, (tag, vec![two], key(two).sign(&text)), &core, &mut out);
    assert!(refused(&mut out), "signed by somebody else");
    few.on_misses(one, (tag, vec![two], key(one).sign(&text)), &core, &mut out);
    assert!(!refused(&mut out));
}
