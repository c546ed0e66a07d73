//! The rules about single writes: each fires on the smallest history that breaks it, and not on its neighbours.

use crate::common::{Rng, append, cas, fail, ok, put, unknown, value};
use quorate_history::exactly_once::{OnceVerdict, Options, Rule, check};
use quorate_history::{Answer, Event, History, Op};

fn rules(events: &[Event]) -> Vec<Rule> {
    rules_with(events, Options::default())
}

fn rules_with(events: &[Event], options: Options) -> Vec<Rule> {
    let result = check(&History::from_events(events.to_vec()), options);
    let rules: Vec<Rule> = result.faults.iter().map(|fault| fault.rule).collect();
    assert_eq!(rules.is_empty(), result.verdict != OnceVerdict::Violation, "{result}");
    rules
}

fn why_unknown(events: &[Event]) -> String {
    match check(&History::from_events(events.to_vec()), Options::default()).verdict {
        OnceVerdict::Unknown { why } => why,
        other => panic!("{other:?}"),
    }
}

fn write(client: u64, text: &str, call: u64, ret: u64) -> Event {
    ok(client, "k", put(text), Answer::Done, call, ret)
}

fn read(text: &str, call: u64, ret: u64) -> Event {
    ok(9, "k", Op::Get, value(text), call, ret)
}

fn add(client: u64, token: &str, call: u64, ret: u64) -> Event {
    ok(client, "k", append(token), Answer::Done, call, ret)
}

#[test]
fn a_value_must_have_a_write_that_did_not_fail_and_was_called() {
    assert_eq!(rules(&[read("x", 1, 2)]), [Rule::FromNowhere]);
    assert_eq!(rules(&[fail(1, "k", put("x"), 1, 2), read("x", 3, 4)]), [Rule::FailedWriteSeen]);
    assert_eq!(rules(&[read("x", 1, 2), write(1, "x", 3, 4)]), [Rule::FromTheFuture]);
    assert_eq!(rules(&[write(1, "x", 1, 5), read("x", 2, 3)]), []);
    assert_eq!(rules(&[unknown(1, "k", put("x"), 1), read("x", 100, 101)]), []);
    let weak = ok(9, "k", Op::ReadWeak, value("x"), 1, 2);
    assert_eq!(rules(&[weak]), [Rule::FromNowhere]);
    let swap = ok(1, "k", cas(Some("x"), "y"), Answer::Flag(true), 1, 2);
    assert_eq!(rules(&[swap]), [Rule::FromNowhere]);
    let refused = ok(1, "k", cas(None, "y"), Answer::Flag(false), 1, 2);
    assert_eq!(rules(&[refused, read("y", 3, 4)]), [Rule::FromNowhere]);
}

#[test]
fn a_replaced_value_must_not_come_back() {
    let [x, y] = [write(1, "x", 1, 2), write(2, "y", 3, 4)];
    assert_eq!(rules(&[x.clone(), y.clone(), read("x", 5, 6)]), [Rule::CameBack]);
    let late = unknown(1, "k", put("x"), 1);
    assert_eq!(rules(&[late.clone(), y.clone(), read("x", 5, 6)]), [], "it may take effect late");
    let seen_before = [late, read("x", 1, 2), y.clone(), read("x", 5, 6)];
    assert_eq!(rules(&seen_before), [Rule::CameBack], "but not twice");
    assert_eq!(rules(&[x.clone(), write(2, "y", 3, 7), read("x", 5, 6)]), [], "the writes overlap");
    assert_eq!(rules(&[x.clone(), y.clone(), write(3, "x", 4, 5), read("x", 6, 7)]), [], "written again");
    let weak = ok(9, "k", Op::ReadWeak, value("x"), 5, 6);
    assert_eq!(rules(&[x.clone(), y.clone(), weak]), [], "weak reads may be old");
    let gone = ok(2, "k", Op::Delete, Answer::Flag(true), 3, 4);
    assert_eq!(rules(&[x.clone(), gone, read("x", 5, 6)]), [Rule::CameBack]);
    let options = Options { strong_reads: false, ..Options::default() };
    assert_eq!(rules_with(&[x, y, read("x", 5, 6)], options), [], "no promise, no fault");
}

#[test]
fn two_values_are_not_there_at_once() {
    let history = |last_x: Event| {
        let [x, y] = [unknown(1, "k", put("x"), 0), unknown(2, "k", put("y"), 0)];
        [x, y, read("x", 2, 3), read("y", 1, 5), last_x, read("y", 19, 25)]
    };
    assert_eq!(rules(&history(read("x", 20, 21))), [Rule::TwoAtOnce], "x from 3 to 20, y from 5 to 19");
    assert_eq!(rules(&history(read("x", 5, 21))), [], "x from 3 to 5");
}

#[test]
fn a_value_is_swapped_once() {
    let swap = |to: &str, call| ok(2, "k", cas(Some("x"), to), Answer::Flag(true), call, 9);
    assert_eq!(rules(&[write(1, "x", 1, 2), swap("y", 3), swap("z", 4)]), [Rule::SwappedTwice]);
    assert_eq!(rules(&[write(1, "x", 1, 2), swap("x", 3), swap("z", 4)]), [], "the first changed nothing");
    let again = [write(1, "x", 1, 2), swap("y", 3), swap("z", 4), write(1, "x", 3, 9)];
    assert_eq!(rules(&again), [], "written twice");
}

#[test]
fn a_list_holds_every_token_once_and_in_order() {
    let [a, b] = [add(1, "a", 1, 2), add(2, "b", 3, 4)];
    let both = |list: &str| rules(&[a.clone(), b.clone(), read(list, 5, 6)]);
    assert_eq!(both("a,b"), []);
    assert_eq!(both(r#"["a","b"]"#), []);
    assert_eq!(both("a"), [Rule::TokenLost]);
    assert_eq!(both("a,b,a"), [Rule::TokenDoubled]);
    assert_eq!(both("a,b,c"), [Rule::FromNowhere]);
    assert_eq!(both("b,a"), [Rule::RealTimeOrder]);
    assert_eq!(both(r#"["a",7]"#), [Rule::NotAList]);
    let overlap = [add(1, "a", 1, 4), add(2, "b", 3, 4), read("b,a", 5, 6)];
    assert_eq!(rules(&overlap), []);
    let mine = [add(1, "a", 1, 9), add(1, "b", 2, 9), read("b,a", 10, 11)];
    assert_eq!(rules(&mine), [Rule::ClientOrder]);
    let options = Options { client_order: false, ..Options::default() };
    assert_eq!(rules_with(&mine, options), []);
    let early = [read("a", 1, 2), add(1, "a", 3, 4), read("a", 5, 6)];
    assert_eq!(rules(&early), [Rule::FromTheFuture]);
}

#[test]
fn failed_tokens_are_never_there_and_unknown_ones_at_most_once() {
    let failed = fail(1, "k", append("f"), 1, 2);
    let maybe = unknown(1, "k", append("u"), 1);
    assert_eq!(rules(&[failed.clone(), read("f", 3, 4)]), [Rule::FailedWriteSeen]);
    assert_eq!(rules(&[failed, add(1, "f", 3, 4), read("f", 5, 6)]), [], "sent again, and done");
    let empty = ok(9, "k", Op::Get, Answer::Value(None), 3, 4);
    assert_eq!(rules(&[maybe.clone(), empty]), []);
    assert_eq!(rules(&[maybe.clone(), read("u", 3, 4)]), []);
    assert_eq!(rules(&[maybe.clone(), read("u,u", 3, 4)]), [Rule::TokenDoubled]);
    assert_eq!(rules(&[maybe.clone(), add(1, "v", 5, 6), read("v,u", 7, 8)]), [], "late is allowed");
    let before = [add(1, "v", 1, 2), unknown(2, "k", append("u"), 3), read("u,v", 7, 8)];
    assert_eq!(rules(&before), [Rule::RealTimeOrder], "before its call is not");
}

#[test]
fn reads_of_one_list_agree() {
    let [a, b] = [add(1, "a", 1, 9), add(2, "b", 1, 9)];
    let read_then = |first: &str| rules(&[a.clone(), b.clone(), read(first, 3, 4), read("b,a", 10, 11)]);
    assert_eq!(read_then("b"), []);
    assert_eq!(read_then("a"), [Rule::NotAPrefix]);
    assert_eq!(read_then("a,b"), [Rule::NotAPrefix], "whichever of two counts as the longest");
}

#[test]
fn what_cannot_be_judged_is_said() {
    assert!(why_unknown(&[add(1, "a", 1, 2)]).contains("no get after"));
    assert!(
        why_unknown(&[add(1, "a", 3, 5), ok(9, "k", Op::Get, Answer::Value(None), 4, 6)])
            .contains("no get after")
    );
    assert!(why_unknown(&[add(1, "a", 1, 2), write(1, "x", 3, 4)]).contains("other writes"));
    assert!(why_unknown(&[add(1, "a", 1, 2), add(2, "a", 3, 4)]).contains("appended twice"));
}

/// Many clients, lists read now and then; each kind of damage to the last read is seen.
#[test]
fn damage_to_a_large_list_is_seen() {
    let mut rng = Rng(3);
    for round in 0..50 {
        let mut events = Vec::new();
        let mut points = Vec::new();
        for client in 0..10u64 {
            let mut now = 0;
            for number in 0..40u64 {
                let call = now + rng.below(20);
                let point = call + rng.below(50);
                now = point + rng.below(50);
                points.push((point, events.len(), format!("{client}-{number}")));
                events.push(add(client, &format!("{client}-{number}"), call, now));
                now += 1;
            }
        }
        points.sort();
        let list: Vec<&str> = points.iter().map(|(_, _, token)| token.as_str()).collect();
        let mut judge = |tokens: &[&str]| {
            events.push(read(&tokens.join(","), 1_000_000, 1_000_001));
            let found = rules(&events);
            events.pop();
            found
        };
        assert_eq!(judge(&list), [], "round {round}");
        let at = rng.below(list.len() as u64 - 200) as usize;
        let mut lost = list.clone();
        lost.remove(at);
        assert_eq!(judge(&lost), [Rule::TokenLost], "round {round}");
        let mut doubled = list.clone();
        doubled.insert(at + 1, list[at]);
        assert_eq!(judge(&doubled), [Rule::TokenDoubled], "round {round}");
        let mut moved = list.clone();
        moved.swap(at, at + 199);
        assert!(!judge(&moved).is_empty(), "round {round}");
    }
}
