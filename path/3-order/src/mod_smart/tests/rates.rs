//! Slow leaders, found by comparing what they add with what the group needs.

use super::one::{One, is_slow, rate_limit, sent, some};
use super::world::value;
use crate::mod_smart::message::{Complaint, ModSmartBody as Body};
use crate::{Effect, Waited};
use quorate_types::FaultModel::{Byzantine, Crash};
use quorate_types::{FaultModel, Slot, Span};

/// Member 0 of four; and the slot that is next, and the view.
struct Group {
    one: One,
    view: u64,
    slot: u64,
}

fn millis(count: u64) -> Span {
    Span::from_millis(count)
}

fn complaints(effects: &[Effect]) -> Vec<Complaint> {
    let why = |body| match body {
        Body::Stop { why, .. } => Some(why),
        _ => None,
    };
    sent(effects, 2).into_iter().filter_map(why).collect()
}

impl Group {
    fn new(model: FaultModel) -> Self {
        Self { one: One::new(0, 4, model), view: 1, slot: 1 }
    }

    fn leader(&self) -> usize {
        (self.view % 4) as usize
    }

    /// The leader lives, and says so, while time passes.
    fn pass(&mut self, span: Span) -> Vec<Effect> {
        let (end, mut list) = (self.one.now.plus(span), Vec::new());
        while self.one.now < end {
            let decided = Slot::new(self.slot - 1);
            list.extend(self.one.hear(self.leader(), self.view, Body::Alive { decided, round: 1 }));
            list.extend(self.one.pass(end.since(self.one.now).min(millis(20))));
        }
        list
    }

    /// Proposed now is what waits since `waited`; the others decide it after so long.
    fn decide(&mut self, waited: Waited, takes: Span) -> Vec<Effect> {
        let (view, slot, batch) = (self.view, Slot::new(self.slot), some(self.slot));
        self.one.waited = Some(waited);
        let mut list = self.one.hear(self.leader(), view, Body::Propose { slot, batch: batch.clone() });
        list.extend(self.pass(takes));
        for other in 1..4 {
            list.extend(self.one.hear(other, view, Body::Write { slot, digest: value(&batch) }));
        }
        for other in 1..4 {
            let accept = self.one.accept(other, view, self.slot, value(&batch));
            list.extend(self.one.hear(other, view, accept));
        }
        assert_eq!(self.one.order.core.decided(), slot);
        self.slot += 1;
        list
    }

    /// So many slots, one after the other: what is proposed comes when the slot before is decided, and waits for so long.
    fn slots(&mut self, count: u64, waits: Span, takes: Span) -> Vec<Complaint> {
        let mut list = Vec::new();
        for _ in 0..count {
            let waited = Waited { since: self.one.now, full: false };
            list.extend(self.pass(waits));
            list.extend(self.decide(waited, takes));
        }
        list.extend(self.pass(millis(100)));
        complaints(&list)
    }

    /// Everybody asks for the next view, which begins free.
    fn next_view(&mut self) {
        // Member 0 does not measure itself.
        self.view += if self.view % 4 == 3 { 2 } else { 1 };
        let stops = self.one.stops(self.view, &[1, 2, 3]);
        let last = self.slot - 1;
        let collects = (1..4).map(|from| self.one.collect(from, self.view, last, None, &[])).collect();
        let proof = Some(self.one.proof(1, last, &some(last), &[1, 2, 3]));
        let body = Body::Sync { stops, collects, last: proof, value: None };
        self.one.hear(self.leader(), self.view, body);
        assert_eq!(self.one.order.core.office.view().number(), self.view);
    }
}

/// In far less than what is watched it adds far more than the group needs.
#[test]
fn a_slow_leader_is_complained_about() {
    let mut group = Group::new(Byzantine);
    assert_eq!(group.slots(10, millis(2), millis(3)), [], "what it adds is like what the group needs");
    let first = group.slots(3, millis(250), millis(3));
    assert_eq!(first, [], "three slow slots may be an accident");
    let then = group.slots(5, millis(250), millis(3));
    assert!(!then.is_empty() && then.iter().all(|why| *why == Complaint::Rate), "{then:?}");
}

#[test]
fn a_slow_group_has_no_slow_leader() {
    let mut group = Group::new(Byzantine);
    assert_eq!(group.slots(30, millis(250), millis(60)), []);
}

/// It is a matter of the protocol where nobody is believed.
#[test]
fn where_nobody_lies_nobody_is_slow() {
    let mut group = Group::new(Crash);
    group.slots(10, millis(2), millis(3));
    group.slots(30, millis(250), millis(3));
    assert!(!is_slow(&group.one.order));
}

/// It ends when the leader is quick again, and not before: who asks for nothing meanwhile proves nothing.
#[test]
fn a_complaint_about_rates_stands_until_it_is_met() {
    let mut group = Group::new(Byzantine);
    group.slots(10, millis(2), millis(3));
    group.slots(8, millis(250), millis(3));
    assert!(complaints(&group.pass(millis(2000))).contains(&Complaint::Rate), "nothing was proposed since");
    group.slots(600, millis(2), millis(3));
    assert_eq!(complaints(&group.pass(millis(1000))), []);
}

/// One leader in a while that was away for a moment is none that is slow.
#[test]
fn what_is_long_ago_is_forgotten() {
    let mut group = Group::new(Byzantine);
    group.slots(10, millis(2), millis(3));
    for _ in 0..20 {
        assert_eq!(group.slots(1, millis(280), millis(3)), []);
        assert_eq!(complaints(&group.pass(Span::from_secs(25))), []);
    }
}

/// What came while a slot was open, or sealed behind it, waits for those; what was left out of more than that does not.
#[test]
fn who_leaves_out_what_waits_is_slow() {
    for (every, slow) in [(2, false), (60, true)] {
        let mut group = Group::new(Byzantine);
        group.slots(10, millis(2), millis(3));
        let mut list = Vec::new();
        let mut since = group.one.now;
        for slot in 1..=600 {
            let now = group.one.now;
            let waited = Waited { since: if slot % every == 0 { since } else { now }, full: false };
            list.extend(group.decide(waited, millis(10)));
            if slot % every == 0 {
                since = now;
            }
        }
        assert_eq!(complaints(&list).contains(&Complaint::Rate), slow, "one in {every}");
    }
}

/// Where more waits than there is room for, it can not all be proposed at once.
#[test]
fn a_full_batch_excuses_what_is_behind_it() {
    for (full, waits, slow) in [(false, 0, true), (true, 0, false), (true, 250, true)] {
        let mut group = Group::new(Byzantine);
        group.slots(10, millis(2), millis(3));
        let (since, mut list) = (group.one.now, Vec::new());
        for _ in 0..120 {
            list.extend(group.pass(millis(waits)));
            list.extend(group.decide(Waited { since, full }, millis(10)));
        }
        list.extend(group.pass(millis(100)));
        let found = complaints(&list).contains(&Complaint::Rate);
        assert_eq!(found, slow, "{full} {waits}");
    }
}

/// A leader that lets one member take some proposals long before the others makes the group look slow to that one.
#[test]
fn a_leader_can_not_make_the_group_look_slow() {
    let mut group = Group::new(Byzantine);
    group.slots(10, millis(2), millis(3));
    let mut list = Vec::new();
    for _ in 0..20 {
        list.extend(group.slots(2, millis(250), millis(3)));
        list.extend(group.slots(1, millis(2), millis(250)));
    }
    assert!(list.contains(&Complaint::Rate));
}

/// What the leader before did is not its successor's fault.
#[test]
fn a_new_leader_begins_anew() {
    let mut group = Group::new(Byzantine);
    group.slots(10, millis(2), millis(3));
    group.slots(8, millis(250), millis(3));
    assert!(is_slow(&group.one.order));
    let waited = Waited { since: group.one.now, full: false };
    group.pass(millis(300));
    group.next_view();
    assert!(!is_slow(&group.one.order));
    for _ in 0..20 {
        group.decide(waited, millis(3));
    }
    assert_eq!(group.slots(20, millis(2), millis(3)), []);
}

/// All leaders are as slow: then it is not them, and they are let be for longer and longer.
#[test]
fn where_all_are_slow_the_limit_grows() {
    let mut group = Group::new(Byzantine);
    group.slots(40, millis(2), millis(3));
    let limit = |group: &Group| rate_limit(&group.one.order).expect("there were slots").nanos();
    let (first, mut changes, mut since) = (limit(&group), 0, 0);
    for _ in 0..400 {
        group.slots(1, millis(250), millis(3));
        since += 1;
        if is_slow(&group.one.order) {
            group.next_view();
            (changes, since) = (changes + 1, 0);
        }
    }
    assert!(since > 100, "in the end somebody stays: {changes} changes");
    assert!((3..=12).contains(&changes), "{changes}");
    assert!(limit(&group) >= 2 * first);
    group.slots(40, millis(2), millis(3));
    group.pass(Span::from_secs(600));
    assert_eq!(limit(&group), first, "and comes back");
}

/// A view that ends before the leader is found slow is none of those.
#[test]
fn other_changes_do_not_raise_the_limit() {
    let mut group = Group::new(Byzantine);
    group.slots(10, millis(2), millis(3));
    let before = rate_limit(&group.one.order);
    for _ in 0..9 {
        group.next_view();
    }
    assert_eq!(rate_limit(&group.one.order), before);
}
