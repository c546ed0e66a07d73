//! Complaints, and views that come of them.

use super::one::{One, patience, rejected, sent, some};
use super::world::{Plan, World, replica, request_of};
use crate::mod_smart::message::{Complaint, ModSmartBody as Body};
use crate::{Effect, Input, Order};
use quorate_types::FaultModel::{Byzantine, Crash};
use quorate_types::{Slot, Span};

fn asked(effects: &[Effect], to: usize) -> Vec<(u64, Complaint)> {
    let stop = |body: Body| match body {
        Body::Stop { asked, why, .. } => Some((asked.number(), why)),
        _ => None,
    };
    sent(effects, to).into_iter().filter_map(stop).collect()
}

/// The leader says that it lives, all the time.
fn alive(one: &mut One, view: u64, leader: usize, millis: u64) -> Vec<Effect> {
    let mut list = Vec::new();
    for round in 0..millis / 20 {
        list.extend(one.hear(leader, view, Body::Alive { decided: one.order.core.decided(), round }));
        list.extend(one.pass(Span::from_millis(20)));
    }
    list
}

#[test]
fn a_silent_leader_is_complained_about() {
    for model in [Crash, Byzantine] {
        let mut one = One::new(0, 4, model);
        assert_eq!(asked(&alive(&mut one, 1, 1, 2000), 2), [], "it lives");
        let out = one.pass(Span::from_millis(500));
        assert!(asked(&out, 2).contains(&(2, Complaint::Silence)), "{model:?}");
        assert_eq!(asked(&alive(&mut one, 1, 1, 400), 2), [], "it lives again");
    }
}

/// A process that dies closes its connections. An honest leader that lost one is heard again after a heartbeat.
#[test]
pub(super) fn a_leader_whose_connection_closed_has_a_heartbeat_to_come_back() {
    for model in [Crash, Byzantine] {
        let mut one = One::new(0, 4, model);
        alive(&mut one, 1, 1, 200);
        one.step(Input::Disconnected(replica(1)));
        let out = one.pass(Span::from_millis(90));
        assert!(asked(&out, 2).contains(&(2, Complaint::Silence)), "{model:?}: it does not come back");
    }
    let mut one = One::new(0, 4, Byzantine);
    alive(&mut one, 1, 1, 200);
    one.step(Input::Disconnected(replica(1)));
    one.step(Input::Connected(replica(1)));
    assert_eq!(asked(&alive(&mut one, 1, 1, 1000), 2), [], "it came back");
    one.step(Input::Disconnected(replica(2)));
    assert_eq!(asked(&alive(&mut one, 1, 1, 1000), 2), [], "it is not the leader");
}

/// The view began after a slot that a dead member had decided alone: nobody has it, and the leader, who lives, can not go on either.
#[test]
pub(super) fn who_lacks_the_slot_before_its_view_complains() {
    let mut one = One::new(0, 3, Crash);
    let stops = one.stops(2, &[1, 2]);
    let collects = vec![one.collect(1, 2, 1, None, &[]), one.collect(2, 2, 0, None, &[])];
    one.hear(2, 2, Body::Sync { stops, collects, last: None, value: None });
    assert!(asked(&alive(&mut one, 2, 2, 2000), 2).contains(&(3, Complaint::Slot(Slot::new(1)))));
    // Somebody has a checkpoint: that takes its time.
    one.hear(2, 2, Body::Gone { slot: Slot::new(1), proof: None });
    one.step(Input::Installed { slot: Slot::new(1), anchor: crate::mod_smart::first_anchor(Slot::ZERO) });
    assert_eq!(asked(&alive(&mut one, 2, 2, 2000), 2), [], "the view can go on");
}

/// One may lie; of two one is right.
#[test]
pub(super) fn more_than_f_complaints_are_joined() {
    let mut one = One::new(0, 4, Byzantine);
    alive(&mut one, 1, 1, 100);
    let stop = one.stop(2, 2, Complaint::Silence);
    assert_eq!(asked(&one.hear(2, 1, stop), 3), []);
    let stop = one.stop(3, 2, Complaint::Silence);
    let out = one.hear(3, 1, stop);
    assert_eq!(asked(&out, 3), [(2, Complaint::Joined)]);
    assert_eq!(one.order.core.office.view().number(), 2, "three of four ask for it");
    assert!(
        sent(&out, 2).iter().any(|body| matches!(body, Body::StopData { .. })),
        "to the leader of view 2"
    );
}

/// Who joined a higher view for a while counts for the lower one that it asks for after that.
#[test]
fn the_last_stop_of_a_member_counts() {
    let mut one = One::new(0, 4, Byzantine);
    alive(&mut one, 1, 1, 100);
    for (from, view) in [(2, 4), (2, 2), (3, 2)] {
        let stop = one.stop(from, view, Complaint::Silence);
        one.hear(from, 1, stop);
    }
    assert_eq!(one.order.core.office.view().number(), 2, "three of four ask for it");
}

/// A leader that lies leaves for another view with each: those that have a reason of their own stay together.
#[test]
fn a_leader_that_leaves_does_not_split_those_who_complain() {
    for (model, view) in [(Byzantine, 2), (Crash, 4)] {
        let mut one = One::new(0, 4, model);
        one.step(Input::Watch(request_of(&some(1000))));
        let out = alive(&mut one, 1, 1, 1000);
        assert_eq!(asked(&out, 2).last().map(|(view, _)| *view), Some(2), "it is late");
        let stop = one.stop(1, 4, Complaint::Leaves);
        let out = [one.hear(1, 1, stop), alive(&mut one, 1, 1, 100)].concat();
        assert!(asked(&out, 2).iter().all(|(asked, _)| *asked == view), "{model:?} {:?}", asked(&out, 2));
        assert!(!asked(&out, 2).is_empty());
    }
}

/// Who joined has no reason of its own: those that joined do not keep each other's complaints alive. (T22)
#[test]
fn joining_is_no_complaint() {
    let mut one = One::new(0, 7, Byzantine);
    for from in [2, 3, 4] {
        let stop = one.stop(from, 2, Complaint::Joined);
        assert_eq!(asked(&one.hear(from, 1, stop), 5), [], "{from} only joined");
    }
}

/// With crash faults a complaint is true, and may be the complainer's own fault: who hears the leader does not join.
#[test]
pub(super) fn where_nobody_lies_who_hears_the_leader_stays() {
    let mut one = One::new(0, 3, Crash);
    alive(&mut one, 1, 1, 100);
    let stop = one.stop(2, 2, Complaint::Silence);
    assert_eq!(asked(&one.hear(2, 1, stop.clone()), 2), []);
    one.pass(Span::from_millis(400));
    one.hear(2, 1, stop);
    assert_eq!(one.order.core.office.view().number(), 2, "now it has not heard the leader either");
}

/// T22: a complaint that is not repeated is over. Long after, another one alone deposes nobody.
#[test]
pub(super) fn complaints_do_not_stand_for_ever() {
    let mut one = One::new(0, 4, Byzantine);
    let stop = one.stop(2, 2, Complaint::Silence);
    one.hear(2, 1, stop);
    alive(&mut one, 1, 1, 1000);
    let stop = one.stop(3, 2, Complaint::Silence);
    assert_eq!(asked(&one.hear(3, 1, stop), 2), []);
    let stop = one.stop(2, 2, Complaint::Silence);
    assert_eq!(asked(&one.hear(2, 1, stop), 2), [(2, Complaint::Joined)], "both at once");
}

/// A STOP may ask for any higher view; the lowest that f+1 can agree on is joined.
#[test]
fn a_stop_may_ask_for_any_higher_view() {
    let mut one = One::new(0, 4, Byzantine);
    let stop = one.stop(2, 9, Complaint::Silence);
    one.hear(2, 1, stop);
    let stop = one.stop(3, 5, Complaint::Silence);
    assert_eq!(asked(&one.hear(3, 1, stop), 1), [(5, Complaint::Joined)]);
    let stop = one.stop(2, u64::MAX, Complaint::Silence);
    assert_eq!(rejected(&one.hear(2, 1, stop)), 1);
}

/// A view needs a quorum of STOPs, each signed by its sender for this view.
#[test]
fn a_view_needs_a_certificate() {
    let one = || One::new(0, 4, Byzantine);
    let show = |stops| {
        let mut one = one();
        let out = one.hear(3, 2, Body::Certificate { stops });
        (rejected(&out), one.order.core.office.view().number())
    };
    assert_eq!(show(one().stops(2, &[1, 2, 3])), (0, 2));
    assert_eq!(show(one().stops(2, &[1, 2])), (1, 1), "too few");
    assert_eq!(show(one().stops(3, &[1, 2, 3])), (1, 1), "for another view");
    let mut forged = one().stops(2, &[1, 2, 3]);
    forged[0].1 = forged[1].1;
    assert_eq!(show(forged), (1, 1), "signed by another");
    let mut twice = one().stops(2, &[1, 2, 2]);
    assert_eq!(show(twice.clone()), (1, 1), "one twice");
    twice[2].0 = super::world::replica(8);
    assert_eq!(show(twice), (1, 1), "no member");
}

#[test]
fn who_is_in_an_older_view_is_shown_the_certificate() {
    let mut one = One::new(0, 4, Byzantine);
    let stops = one.stops(2, &[1, 2, 3]);
    one.hear(3, 2, Body::Certificate { stops: stops.clone() });
    let out = one.hear(1, 1, Body::Alive { decided: Slot::ZERO, round: 1 });
    assert_eq!(sent(&out, 1), [Body::Certificate { stops }]);
    let out = one.hear(1, 1, Body::Alive { decided: Slot::ZERO, round: 2 });
    assert_eq!(sent(&out, 1), [], "once in a while");
    let out = one.hear(2, 5, Body::Alive { decided: Slot::ZERO, round: 2 });
    assert!(matches!(sent(&out, 2)[..], [Body::Fetch { .. }]), "and asks whoever is in a newer one: {out:?}");
}

/// A leader that serves everybody but one is complained about until it serves that one, too.
#[test]
fn decisions_of_other_things_do_not_end_a_complaint() {
    let mut one = One::new(0, 4, Byzantine);
    let wanted = some(1000);
    one.step(Input::Watch(request_of(&wanted)));
    let mut out = Vec::new();
    for slot in 1..=20 {
        out.extend(one.decide(1, slot, 1, &some(slot)));
        out.extend(alive(&mut one, 1, 1, 40));
    }
    let overdue =
        |effect: &Effect| matches!(effect, Effect::Overdue { request } if *request == request_of(&wanted));
    assert_eq!(out.iter().filter(|effect| overdue(effect)).count(), 1, "first the leader is told");
    assert!(
        asked(&out, 2).contains(&(2, Complaint::Request(request_of(&wanted)))),
        "then it is complained about"
    );
    one.decide(1, 21, 1, &wanted);
    assert_eq!(asked(&alive(&mut one, 1, 1, 400), 2), [], "it is decided");
}

/// A slot that some saw begin and nobody sees end is a reason, too.
#[test]
fn a_slot_without_an_end_is_complained_about() {
    let mut one = One::new(0, 4, Byzantine);
    one.hear(1, 1, Body::Propose { slot: Slot::new(1), batch: some(1) });
    let out = alive(&mut one, 1, 1, 800);
    assert!(asked(&out, 2).contains(&(2, Complaint::Slot(Slot::new(1)))), "the leader lives all the time");
}

/// Whoever decided the slot that somebody waits for answers with it.
#[test]
fn a_complaint_about_a_decided_slot_is_answered() {
    let mut one = One::new(0, 4, Byzantine);
    one.decide(1, 1, 1, &some(1));
    let stop = one.stop(3, 2, Complaint::Slot(Slot::new(1)));
    let out = one.hear(3, 1, stop);
    assert!(matches!(&sent(&out, 3)[..], [Body::Decision { batch, .. }] if *batch == some(1)), "{out:?}");
}

/// Time-outs grow while view after view comes to nothing, and come down with what is decided.
#[test]
fn patience_grows_and_comes_down() {
    let mut one = One::new(0, 4, Byzantine);
    let first = patience(&one.order);
    let mut views = vec![first];
    for view in 2..=7 {
        let stops = one.stops(view, &[1, 2, 3]);
        one.hear(3, view, Body::Certificate { stops });
        views.push(patience(&one.order));
    }
    assert!(views.is_sorted() && views[6] > views[0], "{views:?}");
    assert!(views[6] <= One::config(0, 4, Byzantine).timeout_max);
    // Member 3 leads view 7.
    let none = (1..4).map(|from| one.collect(from, 7, 0, None, &[])).collect();
    let stops = one.stops(7, &[1, 2, 3]);
    one.hear(3, 7, Body::Sync { stops, collects: none, last: None, value: None });
    for slot in 1..=30 {
        one.decide(7, slot, 3, &some(slot));
    }
    assert_eq!(one.order.core.decided(), Slot::new(30));
    assert_eq!(patience(&one.order), first);
}

/// A turn comes so long after the one before, and the leader was heard meanwhile, or not.
fn late_turn(one: &mut One, after: Span, hears: bool) -> Vec<Effect> {
    one.now = one.now.plus(after);
    let alive = Body::Alive { decided: one.order.core.decided(), round: 0 };
    let mut list = if hears { one.hear(1, 1, alive) } else { Vec::new() };
    list.extend(one.step(Input::Deadline));
    list
}

/// A replica that gets little of a core does not blame the leader for that: it is no quicker itself.
#[test]
pub(super) fn who_has_its_turns_late_gives_the_leader_time() {
    for model in [Crash, Byzantine] {
        let mut one = One::new(0, 4, model);
        let first = patience(&one.order);
        for turn in 0..20 {
            let out = late_turn(&mut one, first.plus(Span::from_millis(100)), turn % 2 == 0);
            assert_eq!(asked(&out, 2), [], "{model:?}, turn {turn}");
        }
        assert!(patience(&one.order) > first.times(3), "{model:?}: {:?}", patience(&one.order));
        assert_eq!(asked(&alive(&mut one, 1, 1, 10_000), 2), []);
        assert_eq!(patience(&one.order), first, "{model:?}: its turns come in time again");
        let out = one.pass(Span::from_millis(400));
        assert!(asked(&out, 2).contains(&(2, Complaint::Silence)), "{model:?}: the leader is silent");
    }
}

/// Who stood still for an hour waits no longer for that than the time-out grows, and not for long.
#[test]
fn an_hour_is_soon_forgotten() {
    let mut one = One::new(0, 4, Byzantine);
    let first = patience(&one.order);
    late_turn(&mut one, Span::from_secs(3600), true);
    let most = One::config(0, 4, Byzantine).timeout_max;
    assert!((most.divided(2)..=most).contains(&patience(&one.order)), "{:?}", patience(&one.order));
    alive(&mut one, 1, 1, 5000);
    assert_eq!(patience(&one.order), first);
}

/// A leader that restarts does not know what it proposed, and asks to be replaced.
#[test]
pub(super) fn a_restarted_leader_does_not_lead() {
    for (model, members) in [(Crash, 3), (Byzantine, 4)] {
        let mut first = One::new(1, members, model);
        assert!(first.order.standing().leading);
        first.step(Input::Propose(some(1)));
        let mut again = One::restored(1, members, model, first.disk);
        assert!(!again.order.standing().leading);
        assert_eq!(sent(&again.step(Input::Propose(some(2))), 0), []);
        assert!(asked(&again.pass(Span::from_millis(200)), 0).contains(&(2, Complaint::Leaves)));
    }
}

/// What is open goes on in the next view: it keeps nobody from handing over for longer than a time-out.
#[test]
pub(super) fn a_leader_that_can_not_finish_hands_over_all_the_same() {
    for model in [Crash, Byzantine] {
        let mut one = One::new(1, 4, model);
        one.step(Input::Propose(some(1)));
        one.step(Input::Propose(some(2)));
        let out = one.step(Input::Transfer(Some(replica(3))));
        assert_eq!(asked(&out, 0), [], "what was begun is finished first, {model:?}");
        let (patience, tick) = (One::config(1, 4, model).timeout, One::config(1, 4, model).heartbeat);
        let out = one.pass(patience.plus(tick));
        let leaves = |body: &Body| matches!(body, Body::Stop { asked, why: Complaint::Leaves, .. } if asked.number() == 3);
        assert!(sent(&out, 0).iter().any(leaves), "{model:?}: {:?}", asked(&out, 0));
    }
}

/// Whoever hears its leader say that it leaves joins at once.
#[test]
fn a_leader_that_leaves_is_let_go() {
    for model in [Crash, Byzantine] {
        let mut one = One::new(0, 4, model);
        alive(&mut one, 1, 1, 100);
        let stop = one.stop(1, 3, Complaint::Leaves);
        assert_eq!(asked(&one.hear(1, 1, stop), 2), [(3, Complaint::Joined)], "{model:?}");
        let mut one = One::new(0, 4, model);
        alive(&mut one, 1, 1, 100);
        let stop = one.stop(2, 3, Complaint::Leaves);
        assert_eq!(asked(&one.hear(2, 1, stop), 3), [], "who does not lead can not leave, {model:?}");
        let mut one = One::new(0, 4, model);
        alive(&mut one, 1, 1, 100);
        let own = one.stop(1, 5, Complaint::Leaves);
        assert_eq!(asked(&one.hear(1, 1, own), 3), [], "nor back into its own office, {model:?}");
    }
}

/// The leader dies: the others go on within a second, also when the next one is dead, too.
#[test]
fn others_go_on_without_the_leader() {
    for (plan, dead) in
        [(Plan::crash(3), 1), (Plan::crash(5), 2), (Plan::byzantine(4), 1), (Plan::byzantine(7), 2)]
    {
        for seed in 0..10 {
            let mut world = World::new(seed, plan);
            world.ask(10);
            assert!(world.run_until(Span::from_secs(2), World::is_done));
            let before = world.decided.len();
            for at in 1..=dead {
                world.crash(at);
            }
            world.ask(10);
            let on = |world: &World| world.decided.len() > before;
            assert!(world.run_until(Span::from_secs(10), on), "{}", world.describe());
            assert!(world.leader().is_some_and(|leader| leader > dead) || world.members() == 3);
        }
    }
}

/// An idle cluster changes nothing, and says little.
#[test]
fn an_idle_cluster_keeps_its_leader() {
    for plan in [Plan::crash(3), Plan::byzantine(4)] {
        let mut world = World::new(1, plan);
        world.run(Span::from_secs(20));
        assert!((0..plan.members).all(|at| world.view(at) == 1 && world.is_normal(at)));
        assert_eq!(world.overdue, 0);
    }
}
