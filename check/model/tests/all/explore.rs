//! The search itself, in a world that is easy to count.

use quorate_model::{Explored, Stopped, World, explore};

/// Two counters up to 3 that nothing tells apart.
struct Counters {
    wrong: (u8, u8),
}

impl World for Counters {
    type State = (u8, u8);
    type Step = String;

    fn first(&self) -> (u8, u8) {
        (0, 0)
    }
    fn next(&self, (one, other): &(u8, u8), out: &mut Vec<(String, (u8, u8))>) {
        let counted = [("one", (one + 1, *other)), ("other", (*one, other + 1))];
        out.extend(
            counted.into_iter().filter(|(_, (a, b))| *a < 4 && *b < 4).map(|(n, s)| (n.to_owned(), s)),
        );
    }
    fn canonical(&self, (one, other): (u8, u8)) -> (u8, u8) {
        (one.min(other), one.max(other))
    }
    fn wrong(&self, state: &(u8, u8)) -> Option<String> {
        (*state == self.wrong).then(|| "there it is".to_owned())
    }
}

#[test]
fn all_states_are_seen_once() {
    let mut seen = Vec::new();
    let explored = explore(&Counters { wrong: (9, 9) }, 100, |state| seen.push(*state));
    assert_eq!(explored, Ok(Explored { states: 10, steps: 6 }), "of 16 states those with one <= other");
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 10);
}

#[test]
fn the_shortest_history_is_told() {
    let wrong = explore(&Counters { wrong: (1, 2) }, 100, |_| {}).expect_err("it is wrong");
    assert!(matches!(&wrong, Stopped::Wrong { history, .. } if history.len() == 3), "{wrong}");
    assert!(wrong.to_string().starts_with("there it is, after 3 steps:\n   1  o"), "{wrong}");
    assert_eq!(explore(&Counters { wrong: (9, 9) }, 5, |_| {}), Err(Stopped::TooMany(5)));
}
