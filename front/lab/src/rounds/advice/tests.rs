use super::*;
use crate::rounds::Times;
use std::time::Duration;

/// A group whose k-th replies came after so many milliseconds in so many rounds each; what is missing of 100,000 rounds never came.
fn measured(replies: &[&[(u64, u64)]]) -> Measured {
    let times = |rounds: &&[(u64, u64)]| {
        let mut times = Times::default();
        let mut left = 100_000;
        for (ms, count) in *rounds {
            (0..*count).for_each(|_| times.add(Some(Duration::from_millis(*ms))));
            left -= count;
        }
        (0..left).for_each(|_| times.add(None));
        times
    };
    Measured {
        members: replies.len() + 1,
        processes: replies.len() + 1,
        message_bytes: 50_000,
        every_ms: 1000,
        local: false,
        strangers: 0,
        replies: replies.iter().map(times).collect(),
    }
}

const FAST: &[(u64, u64)] = &[(4, 100_000)];

/// What is recommended: s, T, n; and the words.
type Row<'a> = (&'a str, &'a [&'a [(u64, u64)]], Wish, Option<(u32, u64, u32)>, &'a [&'a str]);

/// In 50 of 100,000 rounds it was late.
const RARELY: &[(u64, u64)] = &[(5, 99_950), (900, 50)];
/// In 200, half of them not much.
const LATE: &[(u64, u64)] = &[(5, 99_800), (40, 100), (900, 100)];
/// In 200.
const LATER: &[(u64, u64)] = &[(5, 99_800), (400, 200)];
/// In 200 it never came.
const NEVER: &[(u64, u64)] = &[(5, 99_800)];
const USUAL: Wish = Wish { u: 2, o: 0, risk: 0.001, election_min_ms: 300 };
const THREE: Wish = Wish { u: 3, ..USUAL };

const fn timer(election_min_ms: u64) -> Wish {
    Wish { election_min_ms, ..USUAL }
}

const TABLE: &[Row<'_>] = &[
    ("all are fast", &[FAST, FAST, FAST], USUAL, Some((1, 4, 4)), &["u=2,s=1,o=0,t=4", "4 replicas"]),
    (
        "one is late rarely",
        &[FAST, FAST, RARELY],
        USUAL,
        Some((1, 4, 4)),
        &["without counting on fast", "takes 5"],
    ),
    ("one is late at times", &[FAST, LATE, LATER], USUAL, Some((1, 40, 4)), &["t=40"]),
    ("two are late", &[FAST, FAST, LATER, LATER], THREE, Some((2, 4, 6)), &["u=3,s=2,o=0,t=4"]),
    ("u is two", &[FAST, FAST, LATER, LATER], USUAL, Some((2, 4, 5)), &["u=2,s=2,o=0", "no T"]),
    ("a larger risk", &[FAST, LATER, LATER], Wish { risk: 0.01, ..USUAL }, Some((1, 5, 4)), &["t=5"]),
    ("another timer", &[FAST, LATER, LATER], timer(1000), Some((1, 400, 4)), &["t=400"]),
    ("just too long", &[LATER, LATER, LATER], timer(800), Some((2, 400, 5)), &["no T"]),
    ("just short enough", &[LATER, LATER, LATER], timer(801), Some((1, 400, 4)), &["t=400"]),
    ("never", &[NEVER, NEVER], THREE, None, &["no s fits", "--fault-model crash` with 7 replicas"]),
    ("liars", &[FAST, FAST, FAST], Wish { o: 1, ..USUAL }, Some((2, 4, 6)), &["u=2,s=2,o=1", "6 replicas"]),
    ("two processes only", &[FAST], USUAL, Some((0, 4, 3)), &["u=2,s=0,o=0,t=4"]),
];

#[test]
fn the_least_s_that_fits_is_recommended() {
    for (name, replies, wish, expected, said) in TABLE {
        let advice = Advice::of(&measured(replies), *wish);
        let best = advice.best().map(|best| (best.s, best.t_ms.expect("a T"), best.replicas));
        assert_eq!(best, *expected, "{name}: {advice:?}");
        for part in *said {
            assert!(advice.words[0].contains(part), "{name}: `{part}` is missing in: {}", advice.words[0]);
        }
        for choice in &advice.choices {
            let Some(t) = choice.t_ms.filter(|_| choice.fits && choice.s < wish.u) else { continue };
            assert!(2 * t < wish.election_min_ms, "{name}: {choice:?}");
            assert!(choice.risk.is_some_and(|risk| risk <= wish.risk), "{name}: {choice:?}");
        }
    }
    assert_eq!(Wish::default(), USUAL);
}

#[test]
fn each_choice_says_what_it_risks() {
    let late: &[(u64, u64)] = &[(5, 99_500), (35, 400), (200, 100)];
    let advice = Advice::of(&measured(&[FAST, late, late]), Wish::default());
    let words: Vec<&str> = advice.choices.iter().map(|choice| choice.words.as_str()).collect();
    assert!(
        words[1].starts_with("with s = 1, T = 35 ms, n = 4: in 0.1 % of rounds more than 1 were late"),
        "{}",
        words[1]
    );
    let fast = Advice::of(&measured(&[FAST, FAST]), Wish::default());
    let none = "in none of 100000 rounds more than 1 were late";
    assert!(fast.choices[1].words.contains(none), "{}", fast.choices[1].words);
    assert_eq!(words.len(), 3, "more than u is the same as u");
    assert!(words[1].contains("asks the oracle"), "{}", words[1]);
    assert!(words[0].contains("one was late"), "{}", words[0]);
    assert!(words[2].contains("T does not count") && words[2].contains("n = 5"), "{}", words[2]);
    assert_eq!(advice.words.len(), 1, "nothing makes it doubtful: {:?}", advice.words);
    // The least T for a timer.
    let slow = Advice::of(&measured(&[late, late]), Wish { election_min_ms: 60, ..Wish::default() });
    assert!(
        slow.choices[1].words.contains("T is at most 29 ms; raise election_min_ms to 71 ms"),
        "{:?}",
        slow.choices[1]
    );
}

#[test]
fn doubts_are_told() {
    let few = measured(&[FAST]);
    let wish = Wish { risk: 1e-6, ..Wish::default() };
    let told = |measured: &Measured, wish| Advice::of(measured, wish).words[1..].join("\n");
    assert!(
        told(&few, wish).contains("a risk of 0.0001 % shows in 10000000 or more"),
        "{}",
        told(&few, wish)
    );
    let usual = Wish::default();
    assert!(
        told(&Measured { local: true, ..few.clone() }, usual).contains("all processes were on one machine")
    );
    assert!(told(&Measured { processes: 1, ..few.clone() }, usual).contains("--read"));
    assert!(told(&few, usual).contains("2 processes were measured, and it takes 3 replicas"));
    assert!(
        told(&Measured { strangers: 3, ..few }, usual).contains("3 messages or connections of strangers")
    );
}

#[test]
fn percentages_have_as_many_digits_as_they_need() {
    for (share, text) in [(0.0, "0 %"), (1.0, "100 %"), (0.001, "0.1 %"), (0.000_012, "0.0012 %")] {
        assert_eq!(percent(share), text);
    }
}
