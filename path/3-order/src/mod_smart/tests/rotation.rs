//! Leaders that rotate.

use super::chaos::{hasty, schedule, seeds};
use super::liars::How;
use super::one::{One, follows_no_failure, patience, sent, some};
use super::world::{Plan, World, encode, replica};
use crate::mod_smart::ModSmartConfig;
use crate::mod_smart::message::{Complaint, ModSmartBody as Body, ModSmartMessage};
use crate::{Effect, Input, Order};
use quorate_auth::Authenticator;
use quorate_types::FaultModel::{Byzantine, Crash};
use quorate_types::{MembershipId, Span, View};
use std::collections::BTreeMap;

fn rotating(config: ModSmartConfig) -> ModSmartConfig {
    ModSmartConfig { rotate_after: 3, ..config }
}

fn rotating_at_once(config: ModSmartConfig) -> ModSmartConfig {
    ModSmartConfig { rotate_after: 1, ..hasty(config) }
}

fn plans() -> [Plan; 4] {
    [Plan::crash(3), Plan::crash(5), Plan::byzantine(4), Plan::byzantine(7)]
        .map(|plan| Plan { configure: rotating, ..plan })
}

/// So many requests, one after the other; who led each of their views.
fn led(world: &mut World, count: usize) -> BTreeMap<u64, usize> {
    let mut led = BTreeMap::new();
    for _ in 0..count {
        let before = world.decided.len();
        world.ask(10);
        let on = |world: &World| world.decided.len() > before;
        assert!(world.run_until(Span::from_secs(20), on), "{}", world.describe());
        led.extend(world.leader().map(|leader| (world.view(leader), leader)));
    }
    led
}

/// All lead in turn, three slots each; nobody waits for a time-out.
#[test]
fn leaders_rotate() {
    for plan in plans() {
        let mut world = World::new(1, plan);
        let shifts = led(&mut world, 6 * plan.members);
        let views = (0..plan.members).map(|at| world.view(at)).max().unwrap_or_default();
        assert_eq!(views, 2 * plan.members as u64 + 1, "every three slots a view, {}", world.describe());
        for (view, leader) in shifts {
            assert_eq!(leader, view as usize % plan.members, "in their order");
        }
        assert!(world.now.since(quorate_types::Time::ZERO) < Span::from_secs(10), "{:?}", world.now);
        assert_eq!(world.overdue, 0, "nothing was late");
    }
}

/// The option comes to one replica after the other, and nobody waits for a leader that has it, or has not.
#[test]
fn who_has_the_option_alone_holds_up_nobody() {
    let some: [fn(ModSmartConfig) -> ModSmartConfig; 3] = [
        |config| ModSmartConfig { rotate_after: 3 * u64::from(config.me == replica(1)), ..config },
        |config| ModSmartConfig { rotate_after: 3 * u64::from(config.me != replica(1)), ..config },
        |config| ModSmartConfig { rotate_after: 2 + u64::from(config.me.number()), ..config },
    ];
    for configure in some {
        for plan in plans() {
            let mut world = World::new(1, Plan { configure, ..plan });
            let led = led(&mut world, 30);
            assert_eq!(world.overdue, 0, "{led:?}, {}", world.describe());
            assert!(led.len() > 1, "{}", world.describe());
            if plan.model == Crash {
                assert_eq!(unwatched(&mut world, 20), 20, "{}", world.describe());
            }
        }
    }
}

/// So many requests, which nobody watches, as with crash faults.
fn unwatched(world: &mut World, count: usize) -> usize {
    let before = world.decided.len();
    for _ in 0..count {
        let request = world.ask(10);
        (0..world.members()).for_each(|at| world.step(at, Input::Unwatch(request)));
        world.run(Span::from_secs(1));
    }
    world.decided.len() - before
}

/// Two liars that say of a shift's end what others ask for, to some of them only, do not keep those apart who disagree on who is passed over.
#[test]
fn liars_do_not_split_those_who_pass_over_others() {
    let mut world = World::new(3, Plan { configure: rotating, ..Plan::byzantine(7) });
    let step = |world: &mut World| {
        let before = world.decided.len();
        world.ask(10);
        assert!(world.run_until(Span::from_secs(20), |world| world.decided.len() > before));
        world.run(Span::from_millis(30));
    };
    while world.view(0) != 6 || !world.is_normal(0) {
        step(&mut world);
    }
    // 6 leaves 0 out for a while, which alone passes it over from then on.
    world.cut.insert((6, 0));
    world.run(Span::from_millis(500));
    while world.view(0) == 6 {
        step(&mut world);
    }
    world.cut.clear();
    while world.view(0) != 12 {
        step(&mut world);
    }
    world.crash(3);
    world.crash(6);
    let (decided, before) = (world.order(0).core.decided(), world.decided.len());
    for _ in 0..500 {
        if world.pending.is_empty() {
            world.ask(10);
        }
        if world.view(0) == 12 && world.view(1) == 12 {
            for (liar, to) in [(3, 0), (3, 1), (6, 0), (6, 1)] {
                let signature = world.auth(liar).sign(&world.order(0).core.stop_statement(View::new(14)));
                let (asked, why) = (View::new(14), Complaint::Rotation);
                let body = Body::Stop { asked, why, decided, signature };
                let (membership, view) = (MembershipId::new(1), world.order(0).core.office.view());
                world.send(liar, to, encode(&ModSmartMessage { membership, view, body }));
            }
        }
        world.run(Span::from_millis(20));
    }
    assert!(world.decided.len() > before + 50, "{}", world.describe());
}

/// Who is not shown the last slot of a shift, and leads next, knows all the same that nothing failed.
#[test]
fn all_agree_on_whether_a_shift_was_whole() {
    for seed in 0..20 {
        let mut world = World::new(seed, Plan { configure: rotating, ..Plan::byzantine(4) });
        led(&mut world, 2);
        world.run(Span::from_millis(50));
        world.cut.insert((1, 2));
        world.ask(10);
        let all = |world: &World| (0..4).all(|at| world.view(at) == 2 && world.is_normal(at));
        assert!(world.run_until(Span::from_secs(5), all), "{}", world.describe());
        assert!((0..4).all(|at| follows_no_failure(world.order(at))), "seed {seed}");
    }
}

/// Time-outs that have grown come down, however short shifts are.
#[test]
fn patience_comes_down_in_short_shifts() {
    let configure: fn(ModSmartConfig) -> ModSmartConfig =
        |config| ModSmartConfig { rotate_after: 1, ..config };
    let mut world = World::new(1, Plan { configure, ..Plan::byzantine(4) });
    // Views are entered, and nothing is decided in them.
    world.served = false;
    world.ask(10);
    world.run(Span::from_secs(30));
    assert!((0..4).all(|at| patience(world.order(at)) > Span::from_millis(1000)), "it has grown");
    world.served = true;
    led(&mut world, 60);
    assert!((0..4).all(|at| patience(world.order(at)) <= Span::from_millis(300)));
}

/// What an operator asked for in the middle of a shift does not hold up its end.
#[test]
fn a_shift_ends_while_the_leader_hands_over() {
    for to in [None, Some(replica(0))] {
        let mut world = World::new(1, Plan { configure: rotating, ..Plan::byzantine(4) });
        led(&mut world, 2);
        world.crash(3);
        world.ask(10);
        world.serve();
        world.step(1, Input::Transfer(to));
        led(&mut world, 1);
        let before = world.now;
        led(&mut world, 3);
        assert!(world.now.since(before) < Span::from_millis(1500), "{:?}", world.now.since(before));
    }
}

/// What an operator or the spread of leaders asked for is no failure, whether or not leaders rotate. A leader that dies is one.
#[test]
fn a_view_whose_leader_hands_over_did_not_fail() {
    for configure in [|config| config, rotating] {
        for dies in [false, true] {
            let mut world = World::new(1, Plan { configure, ..Plan::byzantine(4) });
            led(&mut world, 1);
            if dies {
                world.crash(1);
            } else {
                world.step(1, Input::Transfer(None));
            }
            led(&mut world, 1);
            let others = [0, 2, 3].map(|at| world.order(at));
            assert!(others.iter().all(|order| follows_no_failure(order) != dies), "{}", world.describe());
        }
    }
}

/// Nothing is decided, so nobody rotates.
#[test]
fn nobody_rotates_without_work() {
    for plan in plans() {
        let mut world = World::new(1, plan);
        world.run(Span::from_secs(20));
        assert!((0..plan.members).all(|at| world.view(at) == 1));
    }
}

/// Who is down costs a time-out once, and is passed over then; when it led again, by chance, it is back.
#[test]
pub(super) fn who_failed_is_passed_over() {
    for plan in plans() {
        for seed in 0..5 {
            let mut world = World::new(seed, plan);
            led(&mut world, 4);
            world.crash(0);
            let first = led(&mut world, 3 * plan.members);
            let (views, late) = (world.leader().map_or(0, |at| world.view(at)), world.overdue);
            let more = led(&mut world, 12 * plan.members);
            assert!(first.values().chain(more.values()).all(|leader| *leader != 0));
            assert_eq!(world.overdue, late, "nothing waits for it, {}", world.describe());
            let rounds = 4 * plan.members as u64;
            let end = world.leader().map_or(0, |at| world.view(at));
            assert!(end > views + rounds, "it has no shifts, and the views are counted: {views} to {end}");
        }
    }
}

/// A leader that has led enough proposes no more, whoever asks.
#[test]
fn a_shift_is_so_many_slots() {
    for model in [Crash, Byzantine] {
        let mut one = One::fresh(0, 4, model);
        one.core.config.rotate_after = 3;
        let mut one = One::begun(one, 0, 4, model, Vec::new());
        let mut asked = Vec::new();
        for slot in 1..=3 {
            assert_eq!(asked, [], "{slot} belongs to the shift");
            asked = stops(&one.decide(1, slot, 1, &some(slot)));
        }
        assert_eq!(asked, [(2, Complaint::Rotation)], "{model:?}");
        assert!(
            one.order.core.leader() != one.order.core.config.me && one.order.core.office.view().number() == 1
        );
        let rest = one.pass(Span::from_millis(400));
        assert!(stops(&rest).contains(&(2, Complaint::Rotation)), "until it happens");
    }
}

fn stops(effects: &[Effect]) -> Vec<(u64, Complaint)> {
    let stop = |body| match body {
        Body::Stop { asked, why, .. } => Some((asked.number(), why)),
        _ => None,
    };
    sent(effects, 2).into_iter().filter_map(stop).collect()
}

/// Who leads proposes no more than its shift has, whatever it is given.
#[test]
fn a_leader_proposes_no_more_than_its_shift() {
    let mut one = One::fresh(1, 4, Byzantine);
    one.core.config.rotate_after = 2;
    let mut one = One::begun(one, 1, 4, Byzantine, Vec::new());
    let proposed = |effects: &[Effect]| {
        sent(effects, 2).iter().filter(|body| matches!(body, Body::Propose { .. })).count()
    };
    assert!(one.order.standing().leading);
    assert_eq!(proposed(&one.step(Input::Propose(some(1)))), 1);
    assert!(one.order.standing().leading, "one more");
    one.decide(1, 1, 1, &some(1));
    assert_eq!(proposed(&one.step(Input::Propose(some(2)))), 1);
    assert!(!one.order.standing().leading, "its shift is full");
    assert_eq!(proposed(&one.step(Input::Propose(some(3)))), 0);
    let out = one.decide(1, 2, 1, &some(2));
    assert_eq!((proposed(&out), stops(&out)), (0, vec![(2, Complaint::Leaves)]));
}

/// Who asks for more than its own reason asks for, since enough others do, only joins them: else two that were lifted, and liars, would keep each
/// other there.
#[test]
pub(super) fn who_is_lifted_only_joins() {
    let mut one = One::fresh(0, 7, Byzantine);
    one.core.config.rotate_after = 1;
    let mut one = One::begun(one, 0, 7, Byzantine, Vec::new());
    assert_eq!(stops(&one.decide(1, 1, 1, &some(1))), [(2, Complaint::Rotation)]);
    let mut asked = Vec::new();
    for from in [3, 4, 5] {
        let stop = one.stop(from, 3, Complaint::Rotation);
        asked.extend(stops(&one.hear(from, 1, stop)));
    }
    assert_eq!(asked, [(3, Complaint::Joined)]);
}

/// Those that say early that a shift is over are not enough; only with the word of an honest one others join them.
#[test]
fn liars_end_no_shift() {
    let mut one = One::fresh(0, 7, Byzantine);
    one.core.config.rotate_after = 3;
    let mut one = One::begun(one, 0, 7, Byzantine, Vec::new());
    for from in [2, 3] {
        let stop = one.stop(from, 2, Complaint::Rotation);
        assert_eq!(stops(&one.hear(from, 1, stop)), []);
    }
    assert_eq!(one.order.core.office.view().number(), 1);
}

/// The usual random schedules, and those with adversaries, where views change all the time anyway.
#[test]
fn shifts_survive_crashes_and_liars() {
    for configure in [rotating as fn(ModSmartConfig) -> ModSmartConfig, rotating_at_once] {
        for plan in [Plan::crash(3), Plan::crash(4), Plan::byzantine(4), Plan::byzantine(7)] {
            seeds(30).for_each(|seed| drop(schedule(seed, Plan { configure, ..plan }, &[])));
        }
        let plan = Plan { configure, ..Plan::byzantine(4) };
        seeds(30).for_each(|seed| drop(schedule(seed, plan, &[How::All])));
        let plan = Plan { changes: true, ..Plan { configure, ..Plan::crash(3) } };
        seeds(30).for_each(|seed| drop(schedule(seed, plan, &[])));
    }
}
