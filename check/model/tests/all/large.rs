//! Large bounds: minutes in a release build, and up to 4 GB of memory.

use super::{goes_on_everywhere, search};
use quorate_model::{Bounds, State, Step, Visigoth, World, explore};

const MOST: usize = 40_000_000;
/// As many grants as the rule allows.
const ALL: u32 = 16;

fn nothing_wrong(name: &str, bounds: Bounds) {
    search(name, bounds, MOST, |_, _| {});
}

/// Nobody lies: three views, with three leaders, or the first one again; two slots; views that overlap.
#[test]
#[ignore = "minutes: cargo xtask campaign model-visigoth"]
fn four_members() {
    let apart =
        |leaders: &[usize], slots| Bounds { grants: ALL, apart: true, ..Bounds::four(leaders, slots) };
    nothing_wrong("o=0, three views, all grants", apart(&[1, 2, 3], 1));
    nothing_wrong("o=0, the first leader again, all grants", apart(&[1, 2, 1], 1));
    let any = Bounds { own: false, ..Bounds::four(&[1, 2], 1) };
    nothing_wrong("o=0, two views that overlap, all grants, of any set", any);
    nothing_wrong("o=0, two slots, all grants", apart(&[1, 2], 2));
    let overlap = Bounds { grants: 1, restarts: 0, ..Bounds::four(&[1, 2, 3], 1) };
    nothing_wrong("o=0, three views that overlap, a grant in each", overlap);
    let overlap = Bounds { grants: 1, restarts: 0, ..Bounds::four(&[1, 2], 2) };
    nothing_wrong("o=0, two slots, views that overlap, a grant in each", overlap);
}

/// One member lies, as the leader of a view or not: all grants, two slots, three views.
#[test]
#[ignore = "minutes: cargo xtask campaign model-visigoth"]
fn five_members() {
    let apart = |leaders: &[usize], liar, slots, grants| Bounds {
        grants,
        restarts: 0,
        apart: true,
        ..Bounds::five(leaders, liar, slots)
    };
    for liar in [0, 1, 2] {
        nothing_wrong(&format!("o=1, {liar} lies, all grants"), apart(&[1, 2], liar, 1, ALL));
        nothing_wrong(&format!("o=1, {liar} lies, two slots, no grants"), apart(&[1, 2], liar, 2, 0));
    }
    for liar in [0, 1, 2, 3] {
        nothing_wrong(&format!("o=1, {liar} lies, three views, no grants"), apart(&[1, 2, 3], liar, 1, 0));
    }
}

/// Whoever is granted goes on.
#[test]
#[ignore = "minutes: cargo xtask campaign model-visigoth"]
fn they_go_on() {
    let four = Bounds { grants: 1, apart: true, restarts: 0, ..Bounds::four(&[1, 2, 3], 1) };
    let five = Bounds { grants: 1, apart: true, restarts: 0, ..Bounds::five(&[1, 2], 1, 1) };
    for (name, bounds) in [("o=0, goes on", four), ("o=1, goes on", five)] {
        let went = goes_on_everywhere(name, &bounds, MOST);
        println!("{name}: {went} times");
        assert!(went > 10_000, "{name}: {went}");
    }
}

/// A world that begins with some state.
struct After(Visigoth, State);

impl World for After {
    type State = State;
    type Step = Step;

    fn first(&self) -> State {
        self.1
    }
    fn next(&self, state: &State, out: &mut Vec<(Step, State)>) {
        self.0.next(state, out);
    }
    fn canonical(&self, state: State) -> State {
        self.0.canonical(state)
    }
    fn wrong(&self, state: &State) -> Option<String> {
        self.0.wrong(state)
    }
}

/// The floor is at view 2, and a grant of view 2 misses those of view 1: the liar begins its view again, and a member votes for another
/// value than the decided one. Whoever leads view 3, nothing comes of that.
#[test]
#[ignore = "minutes: cargo xtask campaign model-visigoth"]
fn a_view_that_the_liar_begins_twice() {
    let bounds =
        |leaders: &[usize]| Bounds { grants: 1, restarts: 0, apart: true, ..Bounds::five(leaders, 2, 1) };
    let mut found = Vec::new();
    search("o=1, 2 lies, a grant in each view", bounds(&[1, 2]), MOST, |_, state| {
        let votes = |value: u8| state.members.iter().filter(|member| member.wrote.get(2, 1) == value).count();
        if state.over[0][0] != 0 && state.floor == 2 && votes(1) > 0 && votes(2) > 0 {
            found.push(*state);
        }
    });
    println!("{} states in which it began twice", found.len());
    assert!(!found.is_empty(), "it can do that");
    for leader in [0, 1, 3, 4] {
        let mut states = 0;
        for first in &found {
            let world = After(Visigoth::new(bounds(&[1, 2, leader])), *first);
            let explored =
                explore(&world, MOST, |_| {}).unwrap_or_else(|wrong| panic!("{leader} leads: {wrong}"));
            states += explored.states;
        }
        println!("then {leader} leads: {states} states");
    }
}
